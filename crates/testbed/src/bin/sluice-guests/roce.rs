//! Soft-RoCE (`rdma_rxe`) with perftest from two guests into the slow port: over vhost-user ports
//! nothing is sent twice; over veths, whose kernels do not honor PFC, frames are lost.

use anyhow::{Context, Result};
use testbed::port;

use crate::guest::{Guest, ipv4};
use crate::network::{GUESTS, Network, RECEIVER};
use crate::verdict::Finding;

/// TOS of a DSCP whose priority is 3.
const TOS: u8 = 24 << 2;
/// Device counters that are about frames missing, or sent again.
const ERRORS: [&str; 5] =
    ["out_of_seq_request", "rcvd_seq_err", "duplicate_request", "completer_retry_err", "retry_exceeded_err"];

/// A run of both senders.
struct RoceRun {
    program: &'static str,
    /// Sequence errors and retransmissions, of all guests.
    errors: u64,
    /// No-drop frames that the switch lost on the senders' ports.
    lost_frames: u64,
    /// Messages of 4 KiB that were sent, and senders that gave up.
    gave_up: usize,
    sent_packets: u64,
}

/// Runs perftest over the guests' vhost-user ports, and over their veths.
pub fn run(network: &mut Network, messages: u32) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for program in ["ib_write_bw", "ib_send_bw"] {
        let run = run_on(network, program, 0, messages)?;
        findings.push(Finding {
            good: run.errors == 0 && run.lost_frames == 0 && run.gave_up == 0,
            text: format!("soft-RoCE on vhost-user ports, {}", run.text()),
        });
    }
    let run = run_on(network, "ib_write_bw", 1, messages)?;
    findings.push(Finding {
        good: run.errors > 0 && run.lost_frames > 0,
        text: format!("the same on veths, {}", run.text()),
    });
    Ok(findings)
}

impl RoceRun {
    fn text(&self) -> String {
        let Self { program, errors, lost_frames, sent_packets, gave_up } = self;
        let gave_up = if *gave_up > 0 { format!(", {gave_up} of 2 senders gave up") } else { String::new() };
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
    let lost_before = lost_frames(network, nic)?;
    let (senders, receiver) = network.split();
    // -u 20: pauses are longer than RDMA expects a response to take.
    let options = format!("-d rxe0 -R -T {TOS} -q 4 -s 4096 -n {messages} -F -u 20");
    for sender in senders.iter() {
        receiver.run(&format!("{program} {options} -p 1851{0} > /tmp/server{0} 2>&1 &", sender.number))?;
    }
    for sender in senders.iter() {
        let listens = format!("rdma resource show cm_id | grep LISTEN | grep -q :1851{}", sender.number);
        receiver.run(&format!(
            "for i in $(busybox seq 600); do {listens} && break; busybox usleep 100000; done"
        ))?;
    }
    let address = ipv4(nic, RECEIVER);
    for sender in senders.iter_mut() {
        let number = sender.number;
        // A server that is not there yet rejects the connection.
        sender.begin(&format!(
            "for i in $(busybox seq 20); do \
             busybox timeout 200 {program} {options} -p 1851{number} {address} > /tmp/client 2>&1; status=$?; \
             grep -q REJECTED /tmp/client || break; sleep 1; done; cat /tmp/client; [ $status = 0 ]"
        ))?;
    }
    let mut gave_up = 0;
    for sender in senders.iter_mut() {
        let (output, is_good) = sender.end()?;
        anyhow::ensure!(is_good || nic == 1, "guest {}: {program}\n{output}", sender.name);
        gave_up += usize::from(!is_good);
    }
    receiver.run(&format!("busybox killall {program} 2> /dev/null; wait"))?;
    let (mut errors, mut sent_packets) = (0, 0);
    for guest in &mut network.guests {
        let counters = counters(guest)?;
        errors += ERRORS.iter().map(|name| counters.of(name)).sum::<Option<u64>>().context("counters")?;
        sent_packets += counters.of("sent_pkts").context("counters")?;
        guest.run("rdma link del rxe0")?;
    }
    let lost_frames = lost_frames(network, nic)? - lost_before;
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

/// Returns the no-drop frames that the switch has lost on the guests' ports of this kind.
fn lost_frames(network: &Network, nic: u8) -> Result<u64> {
    let snapshot = network.daemon()?.snapshot()?;
    let prefix = ["", "veth-"][usize::from(nic)];
    let mut lost = 0;
    for (name, _) in GUESTS {
        let port = port(&snapshot, &format!("{prefix}{name}"))?;
        lost += port.priorities.iter().map(|priority| priority.no_drop_lost_frames).sum::<u64>();
    }
    Ok(lost)
}
