//! Soft-RoCE (`rdma_rxe`) with perftest from two guests into the slow port: over vhost-user ports
//! nothing is sent twice; over veths, whose kernels do not honor PFC, frames may be lost.

use anyhow::{Context, Result};

use crate::guest::{Guest, ipv4};
use crate::network::{Network, RECEIVER, XOFF_CELLS};
use crate::verdict::Finding;

/// The fewest messages for a run in which a queue is held back: their frames, of a cell at least,
/// reach the threshold. Each queue pair sends a message of 4 KiB as four frames (RDMA's MTU is 1024
/// bytes here).
pub const LEAST_MESSAGES: u32 = XOFF_CELLS.div_ceil(4 * QUEUE_PAIRS);
/// Queue pairs of a sender.
const QUEUE_PAIRS: u32 = 4;
/// TOS of a DSCP whose priority is 3.
const TOS: u8 = 24 << 2;
/// Device counters that are about frames missing, or sent again.
const ERRORS: [&str; 5] =
    ["out_of_seq_request", "rcvd_seq_err", "duplicate_request", "completer_retry_err", "retry_exceeded_err"];

/// What both senders did, and what the guests and the switch counted meanwhile.
struct RoceRun {
    program: &'static str,
    /// Sequence errors and retransmissions, of all guests.
    errors: u64,
    /// No-drop frames that the switch lost on the guests' ports.
    lost_frames: u64,
    /// What perftest printed at each sender that did not send all of its messages.
    gave_up: Vec<String>,
    /// Packets of RDMA of all guests, responses among them.
    sent_packets: u64,
}

/// Runs perftest over the guests' vhost-user ports, and over their veths.
pub fn run(network: &mut Network, messages: u32) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for program in ["ib_write_bw", "ib_send_bw"] {
        let run = run_on(network, program, 0, messages)?;
        findings.push(Finding {
            good: Some(run.errors == 0 && run.lost_frames == 0 && run.gave_up.is_empty()),
            text: format!("soft-RoCE on vhost-user ports, {}", run.text()),
        });
    }
    let run = run_on(network, "ib_write_bw", 1, messages)?;
    // How much is lost there depends on how fast the guests are.
    findings.push(Finding { good: None, text: format!("for comparison on veths, {}", run.text()) });
    Ok(findings)
}

impl RoceRun {
    fn text(&self) -> String {
        let Self { program, errors, lost_frames, sent_packets, gave_up } = self;
        let gave_up = match gave_up.as_slice() {
            [] => String::new(),
            outputs => format!(", {} of 2 senders gave up:\n{}", outputs.len(), outputs.join("\n")),
        };
        format!(
            "{program}: {sent_packets} packets, {errors} sequence errors and retransmissions, {lost_frames} frames lost in the \
             switch{gave_up}"
        )
    }
}

fn run_on(network: &mut Network, program: &'static str, nic: u8, messages: u32) -> Result<RoceRun> {
    let name = ["vhost0", "veth0"][usize::from(nic)];
    for guest in &mut network.guests {
        guest.run(&format!("rdma link add rxe0 type rxe netdev {name}"))?;
    }
    let lost_before = network.no_drop_lost_frames(nic)?;
    let (senders, receiver) = network.split();
    // -u 20: pauses are longer than RDMA expects a response to take.
    let options = format!("-d rxe0 -R -T {TOS} -q {QUEUE_PAIRS} -s 4096 -n {messages} -F -u 20");
    for sender in senders.iter() {
        receiver.run(&format!("{program} {options} -p 1851{0} > /tmp/server{0} 2>&1 &", sender.number))?;
    }
    for sender in senders.iter() {
        let port = format!(":1851{}", sender.number);
        receiver.until_succeeds(&format!("rdma resource show cm_id | grep LISTEN | grep -q {port}"))?;
    }
    let address = ipv4(nic, RECEIVER);
    for sender in senders.iter_mut() {
        let number = sender.number;
        // A server rejects a connection until it has made its queue pairs.
        sender.begin(&format!(
            "for i in $(busybox seq 20); do \
             busybox timeout 200 {program} {options} -p 1851{number} {address} > /tmp/client 2>&1; status=$?; \
             grep -q REJECTED /tmp/client || break; sleep 1; done; cat /tmp/client; [ $status = 0 ]"
        ))?;
    }
    let mut gave_up = Vec::new();
    for sender in senders.iter_mut() {
        let (output, is_good) = sender.end()?;
        if !is_good {
            gave_up.push(format!("guest {}: {}", sender.name, output.trim()));
        }
    }
    receiver.run(&format!("busybox killall {program} 2> /dev/null; wait"))?;
    let (mut errors, mut sent_packets) = (0, 0);
    for guest in &mut network.guests {
        let counters = counters(guest)?;
        errors += ERRORS.iter().map(|name| counters.of(name)).sum::<Option<u64>>().context("counters")?;
        sent_packets += counters.of("sent_pkts").context("counters")?;
        guest.run("rdma link del rxe0")?;
    }
    let lost_frames = network.no_drop_lost_frames(nic)? - lost_before;
    Ok(RoceRun { program, errors, lost_frames, gave_up, sent_packets })
}

/// Counters of a guest's RDMA device, as the kernel prints them.
struct Counters(String);

impl Counters {
    fn of(&self, name: &str) -> Option<u64> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(&format!("{name}:")))?;
        line.trim().parse().ok()
    }
}

fn counters(guest: &mut Guest) -> Result<Counters> {
    guest.run("(cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep . *)").map(Counters)
}
