//! Metrics of the buffers: priority groups, queues and pools, with their watermarks.
//!
//! Rule: the peak since "read" is the most cells since metrics were last read, and each read
//! restarts it; the peak since "start" covers the whole run of the daemon.

use std::fmt;

use control::v1::{Group, Pool, Queue, Snapshot};
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{self, Metric, Row, counter, counters, gauge, gauges};
use super::fields::{INDEX_LABELS, used_priorities, used_queues};

pub(super) const GROUP: &[Metric<Group>] = &[
    gauge("sluice_group_no_drop", "1: PFC protects it.", "no_drop"),
    gauge("sluice_group_xoff", "1: its peer is paused.", "xoff"),
    counter("sluice_group_xoff_episodes", "Times that XOFF began.", "xoff_episodes"),
    counter("sluice_group_xoff_seconds", "Time in XOFF: how long its peer had to wait.", "xoff_ns"),
    counter("sluice_group_received_frames", "Frames received.", "received.frames"),
    counter("sluice_group_received_bytes", "Their bytes.", "received.bytes"),
    counter("sluice_group_dropped_frames", "Frames dropped at ingress.", "dropped.frames"),
    counter("sluice_group_dropped_bytes", "Their bytes.", "dropped.bytes"),
    counter("sluice_group_storm_dropped_frames", "Frames that the watchdog dropped.", "storm_dropped.frames"),
    counter(
        "sluice_group_flood_limited_frames",
        "Frames that a flood limit dropped.",
        "flood_limited.frames",
    ),
    gauge("sluice_group_used_cells", "Reserved, shared and headroom cells in use.", "total.cells"),
    gauges(
        "sluice_group_used_peak_cells",
        "The most there were.",
        "since",
        &[("read", "total.peak_read_cells"), ("start", "total.peak_cells")],
    ),
    gauge("sluice_group_reserved_cells", "Cells of its reservation in use.", "reserved_cells"),
    gauge("sluice_group_shared_cells", "Shared cells in use.", "shared.cells"),
    gauges(
        "sluice_group_shared_peak_cells",
        "The most there were.",
        "since",
        &[("read", "shared.peak_read_cells"), ("start", "shared.peak_cells")],
    ),
    gauge("sluice_group_headroom_cells", "Headroom cells in use.", "headroom.cells"),
    gauges(
        "sluice_group_headroom_peak_cells",
        "The most there were.",
        "since",
        &[("read", "headroom.peak_read_cells"), ("start", "headroom.peak_cells")],
    ),
    gauge("sluice_group_reserved_size_cells", "Its reservation.", "reserved_size_cells"),
    gauge(
        "sluice_group_headroom_size_cells",
        "The most headroom cells that it may use.",
        "headroom_size_cells",
    ),
    gauge(
        "sluice_group_xoff_threshold_cells",
        "The XOFF threshold in shared cells as it stands.",
        "threshold_cells",
    ),
    counter("sluice_group_usage_violations", "Times that use rose above the usage threshold.", "violations"),
    counter(
        "sluice_group_headroom_violations",
        "Times that headroom use reached its alarm threshold.",
        "headroom_violations",
    ),
];

pub(super) const QUEUE: &[Metric<Queue>] = &[
    gauge("sluice_queue_paused", "1: its peer has paused it.", "paused"),
    gauge(
        "sluice_queue_flooded_paused",
        "1: its peer has paused the flooded frames in it.",
        "flooded_paused",
    ),
    counter("sluice_queue_pauses", "Pauses that began (episodes).", "pauses"),
    counter("sluice_queue_paused_seconds", "Time that it was paused.", "paused_ns"),
    gauge("sluice_queue_cells", "Cells held, of frames with the kernel too.", "level.cells"),
    gauges(
        "sluice_queue_peak_cells",
        "The most there were.",
        "since",
        &[("read", "level.peak_read_cells"), ("start", "level.peak_cells")],
    ),
    gauge("sluice_queue_waiting_frames", "Frames that wait to be sent.", "waiting_frames"),
    gauge("sluice_queue_flooded_frames", "Of them flooded ones with a map of their own.", "flooded_frames"),
    gauge("sluice_queue_guaranteed_cells", "Guaranteed cells.", "guaranteed_cells"),
    gauge(
        "sluice_queue_tail_drop_threshold_cells",
        "The threshold in shared cells as it stands; none: no limit.",
        "threshold_cells",
    ),
    gauge("sluice_queue_average_cells", "The average length used by WRED.", "average_cells"),
    counter("sluice_queue_transmitted_frames", "Frames that left.", "transmitted.frames"),
    counter("sluice_queue_transmitted_bytes", "Their bytes.", "transmitted.bytes"),
    counter("sluice_queue_dropped_frames", "Tail drops.", "dropped.frames"),
    counter("sluice_queue_dropped_bytes", "Their bytes.", "dropped.bytes"),
    counter(
        "sluice_queue_kernel_lost_frames",
        "Frames that the kernel accepted and lost.",
        "kernel_lost.frames",
    ),
    counter("sluice_queue_ecn_marked_frames", "Frames marked as having met congestion.", "marked.frames"),
    counters(
        "sluice_queue_wred_dropped_frames",
        "Frames dropped by WRED, by drop level.",
        "drop_level",
        &[
            ("green", "wred_dropped.green.frames"),
            ("yellow", "wred_dropped.yellow.frames"),
            ("red", "wred_dropped.red.frames"),
        ],
    ),
    counter("sluice_queue_storm_dropped_frames", "Frames that the watchdog dropped.", "storm_dropped.frames"),
    counter("sluice_queue_usage_violations", "Times that use rose above the usage threshold.", "violations"),
];

pub(super) const POOL: &[Metric<Pool>] = &[
    gauge("sluice_pool_cells", "Cells in use.", "level.cells"),
    gauges(
        "sluice_pool_peak_cells",
        "The most there were.",
        "since",
        &[("read", "level.peak_read_cells"), ("start", "level.peak_cells")],
    ),
    gauge("sluice_pool_size_cells", "All its cells.", "size_cells"),
    gauge(
        "sluice_pool_pause_threshold_cells",
        "Use from which on its no-drop groups are paused; none: no such use.",
        "pause_threshold_cells",
    ),
    counter(
        "sluice_pool_excess_frames",
        "Frames of no-drop queues that took cells beyond the size.",
        "excess_frames",
    ),
];

pub(super) const HEADROOM: &[Metric<Pool>] = &[
    gauge("sluice_headroom_pool_cells", "Cells of the headroom pool in use.", "level.cells"),
    gauges(
        "sluice_headroom_pool_peak_cells",
        "The most there were.",
        "since",
        &[("read", "level.peak_read_cells"), ("start", "level.peak_cells")],
    ),
    gauge("sluice_headroom_pool_size_cells", "All its cells.", "size_cells"),
];

/// Writes the metrics of the whole switch.
pub fn encode(encoder: &mut DescriptorEncoder, snapshot: &Snapshot) -> fmt::Result {
    let (mut groups, mut queues) = (Vec::new(), Vec::new());
    for port in &snapshot.ports {
        let name = ("port", port.name.as_str());
        groups.extend(used_priorities(port).filter_map(|index| {
            Some(Row::new(&[name, ("priority", INDEX_LABELS[index])], port.groups.get(index)?))
        }));
        queues.extend(used_queues(port).filter_map(|index| {
            Some(Row::new(&[name, ("queue", INDEX_LABELS[index])], port.queues.get(index)?))
        }));
    }
    family::encode_all(encoder, GROUP, &groups)?;
    family::encode_all(encoder, QUEUE, &queues)?;
    let pools = [("ingress", &snapshot.ingress_pools), ("egress", &snapshot.egress_pools)];
    let pools: Vec<_> = pools
        .into_iter()
        .flat_map(|(side, pools)| {
            let numbered = INDEX_LABELS.iter().zip(pools).filter(|(_, pool)| pool.size_cells > 0);
            numbered.map(move |(number, pool)| Row::new(&[("side", side), ("pool", *number)], pool))
        })
        .collect();
    family::encode_all(encoder, POOL, &pools)?;
    let headroom: Vec<_> = snapshot.headroom.iter().map(|pool| Row::new(&[], pool)).collect();
    family::encode(encoder, HEADROOM, &headroom)
}
