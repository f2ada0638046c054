//! Soft-RoCE (`rdma_rxe`) across the switch: two senders, eight queue pairs each. With `sluice nic`
//! no frame is dropped and no receiver sees a gap in the sequence numbers; without it both happen.

use anyhow::{Context, Result, ensure};
use testbed::{Endpoint, Process, Snapshot, eventually};

use crate::lab::{Lab, NO_DROP_TOS, UNBROKEN, broken, dropped};

/// Headroom of each sender's port: 42 ms of its line, and less than eight queue pairs send without
/// acknowledgement, since each of them may have 128 packets in flight (RXE_MAX_UNACKED_PSNS,
/// drivers/infiniband/sw/rxe), which take five cells each.
const HEADROOM_CELLS: u32 = 2048;

/// Device counters of the receiver and the senders that are about sequences.
const SEQUENCE_ERRORS: [&str; 3] = ["out_of_seq_request", "rcvd_seq_err", "retry_exceeded_err"];

/// An RDMA device on an endpoint's interface, removed on drop.
struct Device(String);

impl Device {
    fn new(station: &Endpoint) -> Result<Self> {
        let name = format!("rxe{}", station.number);
        station.namespace.run(&format!("rdma link add {name} type rxe netdev {}", Endpoint::INTERFACE))?;
        Ok(Self(name))
    }

    /// Returns the sum of its sequence error counters.
    fn sequence_errors(&self) -> Result<u64> {
        let mut sum = 0;
        for counter in SEQUENCE_ERRORS {
            let file = format!("/sys/class/infiniband/{}/ports/1/hw_counters/{counter}", self.0);
            let value = std::fs::read_to_string(&file).with_context(|| file.clone())?;
            sum += value.trim().parse::<u64>()?;
        }
        Ok(sum)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = std::process::Command::new("rdma").args(["link", "del", &self.0]).output();
    }
}

/// Results of a run.
struct RdmaRun {
    snapshot: Snapshot,
    sequence_errors: u64,
}

/// Runs `program` on both senders for ten seconds with eight queue pairs.
fn run(lab: &Lab, program: &str, is_attached: bool) -> Result<RdmaRun> {
    let receiver = Device::new(&lab.receiver)?;
    let senders = [Device::new(&lab.senders[0])?, Device::new(&lab.senders[1])?];
    // -u 17: a timeout of half a second, since pauses are longer than RDMA expects a response to
    // take.
    let options = format!("-R -T {NO_DROP_TOS} -q 8 -s 4096 -D 10 -F -u 17 --report_gbits");
    let mut servers = Vec::new();
    for number in 0..2 {
        let mut command = lab.receiver.namespace.command(program);
        command.args(format!("-d {} -p {} {options}", receiver.0, 18_515 + number).split_whitespace());
        let server = Process::start(program, &mut command)?;
        // Its output stays in a buffer until it ends; the kernel knows that it waits for a
        // connection.
        let waits_in = format!("/proc/{}/wchan", server.pid());
        eventually("a server that waits", || {
            Ok(std::fs::read_to_string(&waits_in)?.contains("ucma").then_some(()))
        })?;
        servers.push(server);
    }
    let stations = &lab.senders; // the bed belongs to one thread
    std::thread::scope(|scope| -> Result<()> {
        let clients: Vec<_> = (0..2)
            .map(|number: usize| {
                let line = format!(
                    "{program} -d {} -p {} {options} {}",
                    senders[number].0,
                    18_515 + number,
                    lab.receiver.ipv4()
                );
                scope.spawn(move || stations[number].namespace.run(&line))
            })
            .collect();
        for client in clients {
            let output = client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            match output {
                Ok(output) => {
                    println!(
                        "    {}",
                        output.lines().filter(|line| line.contains("4096")).collect::<String>()
                    )
                }
                Err(error) if is_attached => return Err(error),
                // With frames lost a test may give up.
                Err(error) => println!("    {program} gave up: {:.200}", error.to_string()),
            }
        }
        Ok(())
    })?;
    drop(servers);
    let snapshot = lab.at_rest(is_attached)?;
    let mut sequence_errors = receiver.sequence_errors()?;
    for sender in &senders {
        sequence_errors += sender.sequence_errors()?;
    }
    println!("    {program}: {} dropped, {sequence_errors} errors of sequence", dropped(&snapshot)?);
    Ok(RdmaRun { snapshot, sequence_errors })
}

#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn soft_roce_loses_nothing() -> Result<()> {
    let lab = Lab::with_headroom("dscp", HEADROOM_CELLS)?;
    lab.attach("--trust dscp --no-drop 3")?;
    for program in ["ib_write_bw", "ib_send_bw"] {
        let run = run(&lab, program, true)?;
        assert_eq!((dropped(&run.snapshot)?, run.sequence_errors), (0, 0), "{program}");
        assert_eq!(broken(&run.snapshot), UNBROKEN, "{program}");
    }
    rping(&lab)?;
    lab.daemon.stop()?;
    Ok(())
}

#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn without_it_soft_roce_loses() -> Result<()> {
    let lab = Lab::with_headroom("dscp", HEADROOM_CELLS)?;
    let run = run(&lab, "ib_write_bw", false)?;
    ensure!(dropped(&run.snapshot)? > 0 && run.sequence_errors > 0, "{} errors", run.sequence_errors);
    lab.daemon.stop()?;
    Ok(())
}

/// Runs a thousand RDMA-CM pings, there and back.
fn rping(lab: &Lab) -> Result<()> {
    let receiver = Device::new(&lab.receiver)?;
    let sender = Device::new(&lab.senders[0])?;
    let mut server = lab.receiver.namespace.command("rping");
    let _server = Process::start("rping", server.args(["-s", "-C", "1000", "-a", &lab.receiver.ipv4()]))?;
    eventually("rping reaches its server", || {
        let client = lab.senders[0].namespace.run(&format!("rping -c -C 1000 -a {}", lab.receiver.ipv4()));
        Ok(client.ok())
    })?;
    assert_eq!(receiver.sequence_errors()? + sender.sequence_errors()?, 0);
    assert_eq!(dropped(&lab.at_rest(true)?)?, 0);
    Ok(())
}
