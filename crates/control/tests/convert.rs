//! Every counter of the switch arrives in its own field of the message.

use control::{PortFacts, convert};
use switch::counters::{Count, GroupSnapshot, PfcCount, PoolSnapshot, PortSnapshot, QueueSnapshot};
use switch::{Instant, KernelCounters, Level, Snapshot};

/// Pools are numbers too small to be all different.
const GROUP_POOL: u8 = 1;
const QUEUE_POOL: u8 = 2;

/// 1, 2, 3, … so that no two counters are equal.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    fn next_u32(&mut self) -> u32 {
        self.next() as u32
    }

    fn count(&mut self) -> Count {
        Count { frames: self.next(), bytes: self.next() }
    }

    fn level(&mut self) -> Level {
        Level {
            cells: self.next_u32(),
            peak_read_cells: self.next_u32(),
            peak_clear_cells: self.next_u32(),
            peak_cells: self.next_u32(),
        }
    }

    fn pool(&mut self) -> PoolSnapshot {
        PoolSnapshot { level: self.level(), size_cells: self.next_u32() }
    }

    fn pfc(&mut self) -> PfcCount {
        PfcCount {
            frames: self.next(),
            xoff: std::array::from_fn(|_| self.next()),
            xon: std::array::from_fn(|_| self.next()),
        }
    }

    fn group(&mut self) -> GroupSnapshot {
        GroupSnapshot {
            no_drop: true,
            pool: GROUP_POOL,
            xoff: false,
            xoff_episodes: self.next(),
            reserved_cells: self.next_u32(),
            reserved_size_cells: self.next_u32(),
            shared: self.level(),
            headroom: self.level(),
            headroom_size_cells: self.next_u32(),
            total: self.level(),
            threshold_cells: self.next_u32(),
            is_dynamic: true,
            violations: self.next(),
            received: self.count(),
            dropped: self.count(),
        }
    }

    fn queue(&mut self) -> QueueSnapshot {
        QueueSnapshot {
            paused: true,
            pauses: self.next(),
            paused_ns: self.next(),
            pool: QUEUE_POOL,
            level: self.level(),
            guaranteed_cells: self.next_u32(),
            waiting_frames: self.next(),
            threshold_cells: self.next_u32(),
            is_dynamic: false,
            violations: self.next(),
            transmitted: self.count(),
            dropped: self.count(),
            marked: self.count(),
            wred_dropped: std::array::from_fn(|_| self.count()),
            average_cells: self.next_u32(),
        }
    }

    fn kernel(&mut self) -> KernelCounters {
        KernelCounters {
            rx_fill_ring_empty: self.next(),
            rx_ring_full: self.next(),
            rx_dropped: self.next(),
            rx_invalid: self.next(),
            tx_invalid: self.next(),
            tx_kicks: self.next(),
            tx_again: self.next(),
            tx_busy: self.next(),
            tx_no_buffers: self.next(),
            tx_down: self.next(),
        }
    }

    fn port(&mut self, name: &str) -> PortSnapshot {
        PortSnapshot {
            name: name.into(),
            up: true,
            held: name == "right",
            speed_bps: self.next(),
            received: self.count(),
            received_yellow_frames: self.next(),
            received_red_frames: self.next(),
            transmitted: self.count(),
            consumed: self.count(),
            drops: std::array::from_fn(|_| self.count()),
            in_flight_peak_bytes: self.next(),
            pfc_received: self.pfc(),
            pfc_sent: self.pfc(),
            pfc_malformed: self.next(),
            pause_received: self.next(),
            groups: std::array::from_fn(|_| self.group()),
            queues: std::array::from_fn(|_| self.queue()),
            kernel: self.kernel(),
            overhead_bytes: self.next() as u16,
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        Snapshot {
            at: Instant(self.next()),
            ports: vec![self.port("left"), self.port("right")],
            ingress_pools: std::array::from_fn(|_| self.pool()),
            egress_pools: std::array::from_fn(|_| self.pool()),
            headroom: self.pool(),
            cell_bytes: self.next_u32(),
            bridge_entries: self.next(),
            bridge_full: self.next(),
            flood_copies: self.next(),
            memory_frames: self.next(),
            memory_free: self.next(),
            memory_in_rings: self.next(),
            events_lost: self.next(),
            loop_turns: self.next(),
            loop_worst_stall_ns: self.next(),
        }
    }
}

fn facts(interface: &str) -> PortFacts {
    PortFacts { interface: interface.into(), xdp_mode: "native".into(), vlan_tags_restored: true }
}

/// The message lists its fields in the order in which the numbers were given, so they must come out counting.
#[test]
fn no_counter_is_lost_or_exchanged() {
    let mut numbers = Numbers(0);
    let snapshot = numbers.snapshot();
    let message = convert::snapshot(&snapshot, &[facts("a-left"), facts("a-right")], true);

    let text = format!("{message:?}");
    let text = text.replace(&format!("pool: {GROUP_POOL},"), "").replace(&format!("pool: {QUEUE_POOL},"), "");
    let found: Vec<u64> = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map(|digits| digits.parse().unwrap())
        .collect();
    assert_eq!(found, (1..=numbers.0).collect::<Vec<_>>(), "{message:#?}");
}

#[test]
fn names_and_flags_arrive() {
    let snapshot = Numbers(0).snapshot();
    let message = convert::snapshot(&snapshot, &[facts("a-left"), facts("a-right")], true);

    let right = &message.ports[1];
    assert_eq!((right.name.as_str(), right.interface.as_str()), ("right", "a-right"));
    assert_eq!((right.xdp_mode.as_str(), right.vlan_tags_restored, right.up), ("native", true, true));
    assert!(right.held && !message.ports[0].held && message.pfc_enabled);
    assert_eq!(right.drops.len(), switch::DropReason::ALL.len());
    assert_eq!(
        (right.drops[0].reason.as_str(), right.drops[10].reason.as_str()),
        ("malformed", "kernel_lost")
    );
    let (group, queue) = (&right.groups[0], &right.queues[7]);
    assert_eq!((group.no_drop, group.xoff, group.is_dynamic, group.pool), (true, false, true, 1));
    assert_eq!((queue.paused, queue.is_dynamic, queue.pool), (true, false, 2));
}
