//! UDP sockets of priorities 3 and 5, which know nothing of backpressure, from two guests into the
//! slow port.

use anyhow::Result;
use testbed::{pauses_sent, port};

use crate::guest::{Guest, ipv4};
use crate::losses::FrameLosses;
use crate::network::{GUESTS, Network, RECEIVER, XOFF_CELLS};
use crate::verdict::Finding;

/// Bytes of a datagram.
const DATAGRAM_BYTES: u64 = 1000;
/// Datagrams of priority 5 of each sender, one each 20 ms or so.
const SMALL: u64 = 50;
/// The fewest datagrams of priority 3 for a run in which a queue is held back: their frames, of a
/// cell at least, reach the threshold.
pub const LEAST_DATAGRAMS: u64 = XOFF_CELLS as u64;
/// Where the receiver's kernel loses datagrams that the switch has delivered.
const RECEIVER_LOSSES: [&str; 4] = ["full socket buffer", "no socket or error", "NIC", "backlog"];
/// Lines that print what its sockets lost: RcvbufErrors; NoPorts and other InErrors.
const SOCKET_LOSSES: [&str; 2] = [
    "busybox awk '/^Udp: [0-9]/ { print $6 }' /proc/net/snmp",
    "busybox awk '/^Udp: [0-9]/ { print $3 + $4 - $6 }' /proc/net/snmp",
];
/// Readings of a file, 2 s apart, after which no more arrives if all are equal.
const EQUAL_SIZES: u32 = 5;

/// What the guests saw.
#[derive(Debug, Default)]
struct SocketRun {
    /// Datagrams of priorities 3 and 5 that were sent, and that arrived unchanged and in order.
    sent: [u64; 2],
    arrived: [u64; 2],
    /// Frames that queueing disciplines dropped, and datagrams for which there was no memory.
    dropped_by_senders: u64,
    /// The receiver's losses of both priorities, in the order of [`RECEIVER_LOSSES`].
    lost_by_receiver: [u64; 4],
    /// Senders whose priority 5 ended while their priority 3 was still being sent.
    unharmed: usize,
    /// Round trips of priority 5 meanwhile, as `ping` prints them.
    round_trips: Vec<String>,
    pauses: u64,
    /// No-drop frames that the switch lost on its vhost-user ports.
    no_drop_lost: u64,
    /// Frames of any priority that the switch dropped on its vhost-user ports since its start.
    dropped_by_switch: u64,
}

/// Sends this number of datagrams of priority 3 from each sender, and as many as fit beside of
/// priority 5.
pub fn run(network: &mut Network, datagrams: u64) -> Result<Vec<Finding>> {
    let mut seen = SocketRun { sent: [2 * datagrams, 2 * SMALL], ..SocketRun::default() };
    let no_drop_lost_before = network.no_drop_lost_frames(0)?;
    let (senders, receiver) = network.split();
    let receiver_before = receiver_losses(receiver)?;
    for sender in senders.iter() {
        for priority in [3, 5] {
            let port = udp_port(sender, priority);
            receiver.run(&format!("socat -u UDP4-RECV:{port} OPEN:/tmp/{port},creat,trunc &"))?;
            receiver.until_succeeds(&format!("grep -q ':{port:04X} ' /proc/net/udp"))?;
        }
    }
    for sender in senders.iter_mut() {
        let bytes = datagrams * DATAGRAM_BYTES;
        sender.run(&format!(
            "head -c {bytes} /dev/urandom > /tmp/3; head -c {DATAGRAM_BYTES} /tmp/3 > /tmp/5"
        ))?;
        sender.begin(&send_line(sender))?;
    }
    for sender in senders.iter_mut() {
        let (output, is_good) = sender.end()?;
        anyhow::ensure!(is_good, "guest {}: {output}", sender.name);
        seen.unharmed += usize::from(output.contains("5 ended before 3"));
        seen.round_trips.extend(output.lines().filter(|line| line.contains("min/avg")).map(str::to_owned));
        seen.dropped_by_senders += FrameLosses::read(sender, "vhost0")?.queueing;
        seen.dropped_by_senders +=
            sender.number_of("busybox awk '/^Udp: [0-9]/ { print $7 }' /proc/net/snmp")?; // SndbufErrors
    }
    for sender in senders.iter_mut() {
        count_arrived(sender, receiver, datagrams, &mut seen)?;
    }
    let receiver_after = receiver_losses(receiver)?;
    seen.lost_by_receiver = std::array::from_fn(|at| receiver_after[at] - receiver_before[at]);
    receiver.run("busybox killall socat; wait")?;
    seen.no_drop_lost = network.no_drop_lost_frames(0)? - no_drop_lost_before;
    let snapshot = network.daemon()?.snapshot()?;
    for (name, number) in GUESTS {
        let port = port(&snapshot, name)?;
        seen.pauses += if number == RECEIVER { 0 } else { pauses_sent(port) };
        seen.dropped_by_switch += port.drops.values().map(|count| count.frames).sum::<u64>();
    }
    Ok(findings(&seen))
}

/// Returns what the receiver has lost since its boot, in the order of [`RECEIVER_LOSSES`].
fn receiver_losses(receiver: &mut Guest) -> Result<[u64; 4]> {
    let FrameLosses { nic, backlog, .. } = FrameLosses::read(receiver, "vhost0")?;
    Ok([receiver.number_of(SOCKET_LOSSES[0])?, receiver.number_of(SOCKET_LOSSES[1])?, nic, backlog])
}

fn udp_port(sender: &Guest, priority: u8) -> u16 {
    7000 + 100 * u16::from(sender.number) + u16::from(priority)
}

/// Sends all of priority 3 as fast as the socket takes it, and meanwhile priority 5 with pauses.
fn send_line(sender: &Guest) -> String {
    let to = |priority| {
        let (address, port) = (ipv4(0, RECEIVER), udp_port(sender, priority));
        format!("UDP4-SENDTO:{address}:{port},priority={priority}")
    };
    format!(
        "rm -f /tmp/ended; (socat -u -b{DATAGRAM_BYTES} OPEN:/tmp/3 {}; echo > /tmp/ended) & \
         ping -i 0.2 -c 20 {} > /tmp/ping & \
         for i in $(busybox seq {SMALL}); do cat /tmp/5; busybox usleep 20000; done | socat -u -b{DATAGRAM_BYTES} - {}; \
         [ -e /tmp/ended ] || echo 5 ended before 3; \
         wait; cat /tmp/ping",
        to(3),
        ipv4(0, RECEIVER),
        to(5)
    )
}

/// Waits until no more arrives, and compares what did with what was sent.
fn count_arrived(
    sender: &mut Guest,
    receiver: &mut Guest,
    datagrams: u64,
    seen: &mut SocketRun,
) -> Result<()> {
    for (at, priority, expected) in [(0, 3, datagrams), (1, 5, SMALL)] {
        let file = format!("/tmp/{}", udp_port(sender, priority));
        let (mut size, mut equal) = (0, 0);
        while equal < EQUAL_SIZES && size < expected * DATAGRAM_BYTES {
            let before = size;
            receiver.run("sleep 2")?;
            size = receiver.number_of(&format!("busybox stat -c %s {file}"))?;
            equal = if size == before { equal + 1 } else { 0 };
        }
        let original = match priority {
            3 => "cat /tmp/3".to_owned(),
            _ => format!("for i in $(busybox seq {SMALL}); do cat /tmp/5; done"),
        };
        let sum = |guest: &mut Guest, read: &str| guest.run(&format!("({read}) | busybox sha256sum"));
        let is_same = sum(sender, &original)? == sum(receiver, &format!("cat {file}"))?;
        // One that was changed or reordered is as bad as a lost one.
        seen.arrived[at] += if is_same { expected } else { (size / DATAGRAM_BYTES).min(expected - 1) };
    }
    Ok(())
}

fn findings(seen: &SocketRun) -> Vec<Finding> {
    let [of_three, of_five] = seen.sent;
    let [three, five] = seen.arrived;
    let trips = seen.round_trips.iter().filter_map(|line| line.split("= ").nth(1)).collect::<Vec<_>>();
    let receiver = RECEIVER_LOSSES.iter().zip(seen.lost_by_receiver);
    let receiver: Vec<String> = receiver.map(|(location, lost)| format!("{location} {lost}")).collect();
    let hint = if seen.pauses == 0 { "; nothing was held back: choose a lower --speed" } else { "" };
    vec![
        Finding {
            good: Some(three == of_three && seen.dropped_by_senders == 0),
            text: format!(
                "sockets of priority 3: {of_three} datagrams sent, {three} arrived unchanged and in order; dropped in the \
                 senders: {}",
                seen.dropped_by_senders
            ),
        },
        Finding {
            good: Some(five == of_five),
            text: format!("sockets of priority 5 beside them: {of_five} datagrams sent, {five} arrived"),
        },
        Finding {
            good: Some(seen.no_drop_lost == 0),
            text: format!(
                "the switch lost {} frames of priority 3, and dropped {} of all priorities since its start",
                seen.no_drop_lost, seen.dropped_by_switch
            ),
        },
        Finding {
            good: Some(seen.lost_by_receiver == [0; 4]),
            text: format!("lost in the receiver, after the switch: {}", receiver.join(", ")),
        },
        Finding {
            good: None,
            text: format!("the switch stopped reading their queues {} times{hint}", seen.pauses),
        },
        Finding {
            good: None,
            text: format!(
                "priority 5 ended at {} of 2 senders before priority 3 was sent; round trips min/avg/max {}",
                seen.unharmed,
                trips.join(" and ")
            ),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_has_its_location() {
        let all = SocketRun { sent: [2, 1], arrived: [2, 1], ..SocketRun::default() };
        let verdicts = |seen: &SocketRun| findings(seen).iter().map(|it| it.good).collect::<Vec<_>>();
        assert_eq!(verdicts(&all)[..4], [Some(true); 4]);
        let in_receiver = SocketRun { arrived: [1, 1], lost_by_receiver: [1, 0, 0, 0], ..all };
        assert_eq!(verdicts(&in_receiver)[..4], [Some(false), Some(true), Some(true), Some(false)]);
        let text = &findings(&in_receiver)[3].text;
        assert!(text.contains("full socket buffer 1, no socket or error 0, NIC 0, backlog 0"), "{text}");
    }
}
