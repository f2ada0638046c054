//! Soft-RoCE (`rdma_rxe`) with perftest from two guests into the slow port: over vhost-user ports
//! nothing is sent twice; over veths, whose kernels do not honor PFC, frames may be lost.
//!
//! Rule: RDMA's own timer is off on vhost-user ports (`-u 0`) unless another one is asked for, so
//! only a lost or reordered packet makes a guest send one again, however long the queues and
//! however slow the guests. A last packet that is lost then leaves its sender waiting, which is a
//! bad verdict, too. perftest negotiates over TCP: with the connection manager (`-R`) perftest 4.5
//! ignores `-u`, and the kernel sets a timer that a slow port's queues can outlast.

use anyhow::{Context, Result};

use crate::guest::{Guest, ipv4};
use crate::losses::FrameLosses;
use crate::network::{Network, RECEIVER, XOFF_CELLS};
use crate::verdict::Finding;

/// The fewest messages for a run in which a queue is held back: their frames, of a cell at least,
/// reach the threshold. Each queue pair sends a message of 4 KiB as four frames (RDMA's MTU is 1024
/// bytes here).
pub const LEAST_MESSAGES: u32 = XOFF_CELLS.div_ceil(4 * QUEUE_PAIRS);
/// Queue pairs of a sender.
const QUEUE_PAIRS: u32 = 4;
/// Traffic class of a DSCP whose priority is 3.
const TRAFFIC_CLASS: u8 = 24 << 2;
/// The most receive requests of a queue pair. A receiver that has one for each message never asks
/// its sender to wait and send again.
const MOST_RECEIVES: u32 = 8192;
/// RDMA's timer on veths, in powers of two of 4.096 µs: 4.3 s. A last packet that is lost is sent
/// again there.
const TIMER_ON_VETHS: u8 = 20;
/// Device counters of packets that were missing, reordered, or sent again.
const ERRORS: [&str; 6] = [
    "out_of_seq_request",
    "rcvd_seq_err",
    "duplicate_request",
    "completer_retry_err",
    "retry_exceeded_err",
    "send_rnr_err",
];

/// What both senders did, and what the guests and the switch counted meanwhile.
#[derive(Debug, Default)]
struct RoceRun {
    program: &'static str,
    /// The counters of [`ERRORS`], of all guests.
    errors: [u64; ERRORS.len()],
    /// No-drop frames that the switch lost on the guests' ports.
    lost_by_switch: u64,
    /// Frames that the guests' kernels lost.
    lost_by_guests: FrameLosses,
    /// What perftest printed at each sender that did not send all of its messages.
    gave_up: Vec<String>,
    /// Packets of RDMA that all guests sent and received, responses among them.
    sent_packets: u64,
    received_packets: u64,
}

/// Runs perftest over the guests' vhost-user ports, with RDMA's timer of this power of two, and
/// over their veths.
pub fn run(network: &mut Network, messages: u32, timer: u8) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for program in ["ib_write_bw", "ib_send_bw"] {
        let run = run_on(network, program, 0, (messages, timer))?;
        let text = format!("soft-RoCE on vhost-user ports, {}", run.text());
        findings.push(Finding { good: Some(run.is_good()), text });
    }
    let run = run_on(network, "ib_write_bw", 1, (messages, TIMER_ON_VETHS))?;
    // How much is lost there depends on how fast the guests are.
    findings.push(Finding { good: None, text: format!("for comparison on veths, {}", run.text()) });
    Ok(findings)
}

impl RoceRun {
    /// True if nothing was lost, reordered or sent again, and all messages were sent.
    fn is_good(&self) -> bool {
        self.errors.iter().all(|&errors| errors == 0)
            && self.lost_by_switch + self.lost_by_guests.total() + self.lost_elsewhere() == 0
            && self.gave_up.is_empty()
    }

    /// Packets that were sent and not received, and that no counter explains.
    fn lost_elsewhere(&self) -> u64 {
        let known = self.lost_by_switch + self.lost_by_guests.total();
        self.sent_packets.saturating_sub(self.received_packets + known)
    }

    fn text(&self) -> String {
        let FrameLosses { queueing, nic, backlog } = self.lost_by_guests;
        let losses = [
            ("the switch", self.lost_by_switch),
            ("the guests' queues", queueing),
            ("their NICs", nic),
            ("their backlogs", backlog),
            ("elsewhere", self.lost_elsewhere()),
        ];
        let errors = counted(ERRORS.into_iter().zip(self.errors));
        let errors = errors.unwrap_or_else(|| "none out of sequence or sent again".to_owned());
        let lost =
            counted(losses.into_iter()).map_or("none lost".to_owned(), |lost| format!("lost in: {lost}"));
        let gave_up = match self.gave_up.as_slice() {
            [] => String::new(),
            outputs => format!("; {} of 2 senders gave up:\n{}", outputs.len(), outputs.join("\n")),
        };
        format!(
            "{}: {} packets sent, {} received; {errors}; {lost}{gave_up}",
            self.program, self.sent_packets, self.received_packets
        )
    }
}

/// Returns the counters that are not 0, with their names.
fn counted<'n>(counters: impl Iterator<Item = (&'n str, u64)>) -> Option<String> {
    let counted: Vec<_> = counters.filter(|&(_, n)| n > 0).map(|(name, n)| format!("{name} {n}")).collect();
    (!counted.is_empty()).then(|| counted.join(", "))
}

fn run_on(
    network: &mut Network,
    program: &'static str,
    nic: u8,
    (messages, timer): (u32, u8),
) -> Result<RoceRun> {
    let name = ["vhost0", "veth0"][usize::from(nic)];
    let mut run = RoceRun { program, ..RoceRun::default() };
    for guest in &mut network.guests {
        guest.run(&format!("rdma link add rxe0 type rxe netdev {name}"))?;
    }
    let lost_before = network.no_drop_lost_frames(nic)?;
    let before = losses(network, name)?;
    run.gave_up = send(network, &options(program, nic, (messages, timer)), program, nic)?;
    for guest in &mut network.guests {
        let counters = Counters::read(guest)?;
        for (errors, name) in run.errors.iter_mut().zip(ERRORS) {
            *errors += counters.of(name)?;
        }
        run.sent_packets += counters.of("sent_pkts")?;
        run.received_packets += counters.of("rcvd_pkts")?;
        guest.run("rdma link del rxe0")?;
    }
    run.lost_by_guests = losses(network, name)?.since(before);
    run.lost_by_switch = network.no_drop_lost_frames(nic)? - lost_before;
    Ok(run)
}

/// Returns what the kernels of all guests have lost on the NIC of this name.
fn losses(network: &mut Network, nic: &str) -> Result<FrameLosses> {
    network
        .guests
        .iter_mut()
        .try_fold(FrameLosses::default(), |sum, guest| Ok(sum.and(FrameLosses::read(guest, nic)?)))
}

/// Returns the options of perftest on both ends. The address of the NIC is a GID of the device.
fn options(program: &str, nic: u8, (messages, timer): (u32, u8)) -> String {
    let gid =
        format!("$(cd /sys/class/infiniband/rxe0/ports/1/gids; grep -l :ffff:0a09:{nic:02x} * 2> /dev/null)");
    let receives = match program {
        "ib_send_bw" => format!(" -r {}", messages.min(MOST_RECEIVES)),
        _ => String::new(),
    };
    format!(
        "-d rxe0 -x {gid} --tclass={TRAFFIC_CLASS} -q {QUEUE_PAIRS} -s 4096 -n {messages}{receives} -F -u {timer}"
    )
}

/// Has both senders send all of their messages. Returns what perftest printed at those that did
/// not.
fn send(network: &mut Network, options: &str, program: &str, nic: u8) -> Result<Vec<String>> {
    let (senders, receiver) = network.split();
    for sender in senders.iter() {
        let port = tcp_port(sender);
        receiver.run(&format!("{program} {options} -p {port} > /tmp/server{port} 2>&1 &"))?;
        let listens =
            format!("cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | grep -q ':{port:04X} 0*:0000 0A '");
        receiver.until_succeeds(&listens)?;
    }
    let address = ipv4(nic, RECEIVER);
    for sender in senders.iter_mut() {
        let port = tcp_port(sender);
        sender.begin(&format!(
            "busybox timeout 200 {program} {options} -p {port} {address} > /tmp/client 2>&1; status=$?; \
             cat /tmp/client; [ $status = 0 ]"
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
    Ok(gave_up)
}

/// Returns the TCP port at which a sender's perftest finds its server.
fn tcp_port(sender: &Guest) -> u16 {
    18510 + u16::from(sender.number)
}

/// Counters of a guest's RDMA device, as the kernel prints them.
struct Counters(String);

impl Counters {
    fn read(guest: &mut Guest) -> Result<Self> {
        guest.run("(cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep . *)").map(Self)
    }

    fn of(&self, name: &str) -> Result<u64> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.and_then(|line| line.trim().parse().ok())
            .with_context(|| format!("the RDMA device of a guest has no counter {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_again_is_apart_from_what_was_lost() {
        let good = RoceRun { sent_packets: 9, received_packets: 9, ..RoceRun::default() };
        assert!(good.is_good());
        assert!(
            good.text().ends_with("9 received; none out of sequence or sent again; none lost"),
            "{}",
            good.text()
        );
        let again = RoceRun { errors: [0, 0, 4, 1, 0, 0], ..good };
        assert!(!again.is_good() && again.lost_elsewhere() == 0);
        assert!(
            again.text().contains("duplicate_request 4, completer_retry_err 1; none lost"),
            "{}",
            again.text()
        );
    }

    #[test]
    fn a_loss_has_its_location() {
        let lost_by_guests = FrameLosses { queueing: 0, nic: 1, backlog: 2 };
        let run = RoceRun {
            sent_packets: 20,
            received_packets: 10,
            lost_by_switch: 3,
            lost_by_guests,
            ..RoceRun::default()
        };
        assert!(!run.is_good());
        let text = run.text();
        assert!(
            text.ends_with("; lost in: the switch 3, their NICs 1, their backlogs 2, elsewhere 4"),
            "{text}"
        );
    }
}
