//! From the switch's own snapshot to the message of the API. Every counter of the switch has its field there; a test
//! sets each to another number, so that none is forgotten or exchanged with its neighbour.

use switch::counters::{Count, GroupSnapshot, PfcCount, PoolSnapshot, PortSnapshot, QueueSnapshot};
use switch::{DropReason, KernelCounters, Level, Snapshot};

use crate::v1;

/// What the switch does not know of a port, because it belongs to the interface below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortFacts {
    /// Linux interface.
    pub interface: String,
    /// How the XDP program is attached: `native` or `generic`.
    pub xdp_mode: String,
    /// Tags that the host holds out of band are put back into received frames.
    pub vlan_tags_restored: bool,
}

/// The message of a snapshot. `facts` are the ports' in their order; `pfc_enabled`: PFC is not off on all ports.
pub fn snapshot(from: &Snapshot, facts: &[PortFacts], pfc_enabled: bool) -> v1::Snapshot {
    assert_eq!(from.ports.len(), facts.len(), "every port of the switch has an interface");
    v1::Snapshot {
        at_ns: from.at.0,
        pfc_enabled,
        ports: from.ports.iter().zip(facts).map(|(port, facts)| self::port(port, facts)).collect(),
        ingress_pools: from.ingress_pools.iter().map(pool).collect(),
        egress_pools: from.egress_pools.iter().map(pool).collect(),
        headroom: Some(pool(&from.headroom)),
        cell_bytes: from.cell_bytes,
        bridge_entries: from.bridge_entries,
        bridge_full: from.bridge_full,
        flood_copies: from.flood_copies,
        memory_frames: from.memory_frames,
        memory_free: from.memory_free,
        memory_in_rings: from.memory_in_rings,
        events_lost: from.events_lost,
        loop_turns: from.loop_turns,
        loop_worst_stall_ns: from.loop_worst_stall_ns,
    }
}

fn port(from: &PortSnapshot, facts: &PortFacts) -> v1::Port {
    v1::Port {
        name: from.name.clone(),
        interface: facts.interface.clone(),
        up: from.up,
        held: from.held,
        speed_bps: from.speed_bps,
        xdp_mode: facts.xdp_mode.clone(),
        vlan_tags_restored: facts.vlan_tags_restored,
        received: Some(count(from.received)),
        received_yellow_frames: from.received_yellow_frames,
        received_red_frames: from.received_red_frames,
        transmitted: Some(count(from.transmitted)),
        consumed: Some(count(from.consumed)),
        drops: DropReason::ALL
            .iter()
            .map(|&reason| v1::Drop {
                reason: reason.name().to_owned(),
                count: Some(count(from.drops[reason as usize])),
            })
            .collect(),
        in_flight_peak_bytes: from.in_flight_peak_bytes,
        pfc_received: Some(pfc(&from.pfc_received)),
        pfc_sent: Some(pfc(&from.pfc_sent)),
        pfc_malformed: from.pfc_malformed,
        pause_received: from.pause_received,
        groups: from.groups.iter().map(group).collect(),
        queues: from.queues.iter().map(queue).collect(),
        kernel: Some(kernel(&from.kernel)),
        overhead_bytes: from.overhead_bytes.into(),
    }
}

fn count(from: Count) -> v1::Count {
    v1::Count { frames: from.frames, bytes: from.bytes }
}

fn level(from: Level) -> v1::Level {
    v1::Level {
        cells: from.cells,
        peak_read_cells: from.peak_read_cells,
        peak_clear_cells: from.peak_clear_cells,
        peak_cells: from.peak_cells,
    }
}

fn pool(from: &PoolSnapshot) -> v1::Pool {
    v1::Pool { level: Some(level(from.level)), size_cells: from.size_cells }
}

fn pfc(from: &PfcCount) -> v1::PfcCount {
    v1::PfcCount { frames: from.frames, xoff: from.xoff.to_vec(), xon: from.xon.to_vec() }
}

fn group(from: &GroupSnapshot) -> v1::Group {
    v1::Group {
        no_drop: from.no_drop,
        pool: from.pool.into(),
        xoff: from.xoff,
        xoff_episodes: from.xoff_episodes,
        reserved_cells: from.reserved_cells,
        reserved_size_cells: from.reserved_size_cells,
        shared: Some(level(from.shared)),
        headroom: Some(level(from.headroom)),
        headroom_size_cells: from.headroom_size_cells,
        total: Some(level(from.total)),
        threshold_cells: from.threshold_cells,
        is_dynamic: from.is_dynamic,
        violations: from.violations,
        received: Some(count(from.received)),
        dropped: Some(count(from.dropped)),
    }
}

fn queue(from: &QueueSnapshot) -> v1::Queue {
    v1::Queue {
        paused: from.paused,
        pauses: from.pauses,
        paused_ns: from.paused_ns,
        pool: from.pool.into(),
        level: Some(level(from.level)),
        guaranteed_cells: from.guaranteed_cells,
        waiting_frames: from.waiting_frames,
        threshold_cells: from.threshold_cells,
        is_dynamic: from.is_dynamic,
        violations: from.violations,
        transmitted: Some(count(from.transmitted)),
        dropped: Some(count(from.dropped)),
        marked: Some(count(from.marked)),
        wred_green: Some(count(from.wred_dropped[0])),
        wred_yellow: Some(count(from.wred_dropped[1])),
        wred_red: Some(count(from.wred_dropped[2])),
        average_cells: from.average_cells,
    }
}

fn kernel(from: &KernelCounters) -> v1::Kernel {
    v1::Kernel {
        rx_fill_ring_empty: from.rx_fill_ring_empty,
        rx_ring_full: from.rx_ring_full,
        rx_dropped: from.rx_dropped,
        rx_invalid: from.rx_invalid,
        tx_invalid: from.tx_invalid,
        tx_kicks: from.tx_kicks,
        tx_again: from.tx_again,
        tx_busy: from.tx_busy,
        tx_no_buffers: from.tx_no_buffers,
        tx_down: from.tx_down,
    }
}
