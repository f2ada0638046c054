//! Forwarding between two vhost-user ports: Sluice with its features on beside DPDK's testpmd as
//! the back end of both sockets.
//!
//! Rule: the hosts are the same for both, a testpmd whose two virtio_user ports pass each frame on
//! to each other. So frames go round in both directions, half as many in each as a ring holds, and
//! none is ever lost. A round measures both forwarders, in an order that changes, and Sluice
//! between two veths. Rates are testpmd's own, of both directions together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testbed::{Namespace, Process, Testbed, binary, eventually};

use crate::forwarders::{FORWARDER_CORE, Forwarder, HOST_CORE, QOS};
use crate::guest_report::{BackEnd, GuestReport, GuestRun};
use crate::network::Network;

/// Frames of one burst of testpmd.
const BURST: u32 = 32;
/// What is left for frames to spread out before a measurement.
const WARM_UP: Duration = Duration::from_millis(500);

/// What is measured.
#[derive(Debug, Clone)]
pub struct Plan {
    pub rounds: u32,
    pub seconds: u32,
    /// Frame sizes without FCS, in bytes.
    pub bytes: Vec<u32>,
    /// Descriptors of a ring.
    pub rings: Vec<u32>,
}

/// Measures everything, and returns the results.
pub fn run(plan: &Plan, interrupted: &AtomicBool) -> Result<GuestReport> {
    ensure!(Forwarder::Dpdk.is_installed(), "testpmd is missing: apt-get install dpdk-dev");
    let mut report = GuestReport::new(plan.rounds, plan.seconds);
    for round in 0..plan.rounds {
        for &bytes in &plan.bytes {
            for &ring in &plan.rings {
                let mut back_ends = [BackEnd::Sluice, BackEnd::Testpmd];
                back_ends.rotate_left(round as usize % 2);
                for back_end in back_ends {
                    if interrupted.load(Ordering::Relaxed) {
                        bail!("interrupted; everything is removed again");
                    }
                    let mpps = measure(back_end, bytes, ring, plan.seconds)
                        .with_context(|| format!("{back_end:?}, {bytes} bytes, rings of {ring}"))?;
                    println!(
                        "round {}: {back_end:?}, {bytes} bytes, rings of {ring}: {mpps:.2} Mpps",
                        round + 1
                    );
                    report.runs.push(GuestRun { back_end, bytes, ring, mpps });
                }
            }
            let mpps = Network::with(Forwarder::Sluice)?.measure_rate(bytes, plan.seconds)?;
            println!("round {}: Sluice between veths, {bytes} bytes: {mpps:.2} Mpps", round + 1);
            report.veths.push((bytes, mpps));
        }
    }
    Ok(report)
}

/// Returns the rate of one forwarder, in millions of frames a second.
fn measure(back_end: BackEnd, bytes: u32, ring: u32, seconds: u32) -> Result<f64> {
    let bed = Testbed::new()?;
    let at = bed.switch("sw")?;
    let _forwarder = match back_end {
        BackEnd::Sluice => start_sluice(&bed, &at)?,
        BackEnd::Testpmd => start_testpmd(&bed, &at)?,
    };
    let mut hosts = start_hosts(&bed, &at, ring)?;
    hosts.send_line(&format!("set txpkts {bytes}"))?;
    hosts.send_line(&format!("start tx_first {}", (ring / 2 / BURST).max(1)))?;
    std::thread::sleep(WARM_UP);
    // testpmd's rates are those since it was asked last.
    rates(&mut hosts, 1)?;
    std::thread::sleep(Duration::from_secs(seconds.into()));
    let pps = rates(&mut hosts, 2)?;
    ensure!(pps.iter().all(|&pps| pps > 0), "no frames come back: {pps:?}\n{}", hosts.log());
    Ok(pps.iter().sum::<u64>() as f64 / 1e6)
}

/// Asks the hosts for their rates for the `nth` time. Returns those of both ports.
fn rates(hosts: &mut Process, nth: usize) -> Result<Vec<u64>> {
    hosts.send_line("show port stats all")?;
    eventually("the hosts' rates", || {
        let lines = hosts.stdout();
        let rates = lines.iter().filter_map(|line| line.trim().strip_prefix("Rx-pps:"));
        let rates: Vec<u64> = rates.filter_map(|rest| rest.split_whitespace().next()?.parse().ok()).collect();
        Ok((rates.len() >= 2 * nth).then(|| rates[2 * nth - 2..].to_vec()))
    })
}

fn start_sluice(bed: &Testbed, at: &Namespace) -> Result<Process> {
    let dir = bed.dir().display();
    let port = |name: &str| {
        format!(
            "[port.{name}]\nvhost_user = \"{dir}/{name}.sock\"\nvhost = {{ allow_unsealed_memory = true }}\n\
             port_priority = 3\n\n"
        )
    };
    let config = format!(
        "[control]\nsocket = \"{dir}/control.sock\"\n\n[dataplane]\ncores = [{FORWARDER_CORE}]\n{}\n{}{}",
        QOS.replace("40G", "400G"),
        port("a"),
        port("b")
    );
    let file = bed.dir().join("sluice.toml");
    std::fs::write(&file, config)?;
    let mut process = Process::start("sluiced", at.command(binary("sluiced")?).arg("--config").arg(file))?;
    process.wait_for("ready", |line| line.contains("sluiced is ready").then_some(()))?;
    Ok(process)
}

fn start_testpmd(bed: &Testbed, at: &Namespace) -> Result<Process> {
    let device = |n, name| format!("--vdev=net_vhost{n},iface={}/{name}.sock", bed.dir().display());
    let mut command = testpmd(bed, at, FORWARDER_CORE);
    command.args([device(0, "a"), device(1, "b")]);
    command.args([
        "--",
        "-i",
        "--auto-start",
        "--forward-mode=io",
        "--nb-cores=1",
        "--total-num-mbufs=16384",
    ]);
    let process = Process::start("testpmd", &mut command)?;
    eventually("testpmd listens", || {
        Ok(["a.sock", "b.sock"].iter().all(|name| bed.dir().join(name).exists()).then_some(()))
    })?;
    Ok(process)
}

/// Starts the hosts, and waits until both links are up.
fn start_hosts(bed: &Testbed, at: &Namespace, ring: u32) -> Result<Process> {
    let dir = bed.dir().display();
    let mac = |n: u32| format!("02:00:00:00:08:0{n}");
    let device = |n: u32, name: &str| {
        format!("--vdev=net_virtio_user{n},path={dir}/{name}.sock,queue_size={ring},mac={}", mac(n))
    };
    let mut command = testpmd(bed, at, HOST_CORE);
    command.args([device(0, "a"), device(1, "b")]);
    command.args(["--", "-i", "--forward-mode=io", "--nb-cores=1", "--total-num-mbufs=16384"]);
    command.args([format!("--rxd={ring}"), format!("--txd={ring}")]);
    command.args([format!("--eth-peer=0,{}", mac(1)), format!("--eth-peer=1,{}", mac(0))]);
    let mut hosts = Process::start("hosts", &mut command)?;
    hosts.wait_for("started", |line| line.contains("Checking link statuses").then_some(()))?;
    hosts.wait_for("links", |line| line.trim().starts_with("Done").then_some(()))?;
    Ok(hosts)
}

/// Returns testpmd with its forwarding thread on this core. Its command line waits on the hosts'
/// core; it does nothing meanwhile.
fn testpmd(bed: &Testbed, at: &Namespace, core: &str) -> std::process::Command {
    let mut command = at.command("stdbuf");
    command.args(["--output=L", "dpdk-testpmd", &format!("--lcores=0@{HOST_CORE},1@{core}")]);
    command.args(["--main-lcore=0", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry"]);
    // Its files are removed with the test bed.
    command.arg(format!("--file-prefix=core{core}")).env("RUNTIME_DIRECTORY", bed.dir());
    command
}
