//! UDP sockets of priorities 3 and 5, which know nothing of backpressure, from two guests into the
//! slow port.

use anyhow::Result;
use testbed::{pauses_sent, port};

use crate::guest::{Guest, ipv4};
use crate::network::{GUESTS, Network, RECEIVER};
use crate::verdict::Finding;

/// Bytes of a datagram.
const DATAGRAM_BYTES: u64 = 1000;
/// Datagrams of priority 5 of each sender, one each 20 ms or so.
const SMALL: u64 = 50;

/// What the guests saw.
#[derive(Debug, Default)]
struct SocketRun {
    /// Datagrams of priorities 3 and 5 that were sent, and that arrived unchanged and in order.
    sent: [u64; 2],
    arrived: [u64; 2],
    /// Frames that queueing disciplines dropped, and datagrams for which there was no memory.
    dropped_by_guests: u64,
    /// Senders whose priority 5 ended while their priority 3 was still being sent.
    unharmed: usize,
    /// Round trips of priority 5 meanwhile, as `ping` prints them.
    round_trips: Vec<String>,
    pauses: u64,
    /// Frames of any priority that the switch dropped on its vhost-user ports.
    dropped_by_switch: u64,
}

/// Sends this number of datagrams of priority 3 from each sender, and as many as fit beside of
/// priority 5.
pub fn run(network: &mut Network, datagrams: u64) -> Result<Vec<Finding>> {
    let mut seen = SocketRun { sent: [2 * datagrams, 2 * SMALL], ..SocketRun::default() };
    let (senders, receiver) = network.split();
    for sender in senders.iter() {
        for priority in [3, 5] {
            let port = udp_port(sender, priority);
            receiver.run(&format!("socat -u UDP4-RECV:{port} OPEN:/tmp/{port},creat,trunc &"))?;
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
        seen.dropped_by_guests += sender.number_of(
            "tc -s qdisc show dev vhost0 | grep -o 'dropped [0-9]*' | busybox awk '{ n += $2 } END { print n+0 }'",
        )?;
        seen.dropped_by_guests +=
            sender.number_of("busybox awk '/^Udp: [0-9]/ { print $7 }' /proc/net/snmp")?; // SndbufErrors
    }
    for sender in senders.iter_mut() {
        count_arrived(sender, receiver, datagrams, &mut seen)?;
    }
    receiver.run("busybox killall socat; wait")?;
    let snapshot = network.daemon()?.snapshot()?;
    for (name, number) in GUESTS {
        let port = port(&snapshot, name)?;
        seen.pauses += if number == RECEIVER { 0 } else { pauses_sent(port) };
        seen.dropped_by_switch += port.drops.values().map(|count| count.frames).sum::<u64>();
    }
    Ok(findings(&seen))
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
        let (mut before, mut size) = (u64::MAX, 0);
        while size != before && size < expected * DATAGRAM_BYTES {
            before = size;
            receiver.run("sleep 2")?;
            size = receiver.number_of(&format!("busybox stat -c %s {file}"))?;
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
    vec![
        Finding {
            good: three == of_three && seen.dropped_by_guests == 0,
            text: format!(
                "sockets of priority 3: {of_three} datagrams sent, {three} arrived unchanged and in order; dropped in the \
                 guests: {}",
                seen.dropped_by_guests
            ),
        },
        Finding {
            good: seen.pauses > 0,
            text: format!(
                "the switch stopped reading their queues {} times; it dropped {} frames of all priorities",
                seen.pauses, seen.dropped_by_switch
            ),
        },
        Finding {
            good: five == of_five && seen.unharmed == 2,
            text: format!(
                "sockets of priority 5 beside them: {of_five} datagrams sent, {five} arrived, at {} of 2 senders before their \
                 priority 3 was sent; round trips min/avg/max {}",
                seen.unharmed,
                trips.join(" and ")
            ),
        },
    ]
}
