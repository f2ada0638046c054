//! Metrics of the buffers: priority groups, queues and pools, with their watermarks.
//!
//! Rule: the peak since "read" is the most cells since metrics were last read, and each read
//! restarts it; the peak since "start" covers the whole run of the daemon.

use std::fmt;

use control::v1::{Group, Level, Pool, Queue, Snapshot};
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{self, Metric, Row, Several, counter, counters, gauge, gauges, seconds};
use super::fields::{EIGHT, bytes, frames, used_priorities, used_queues};

const GROUP: &[Metric<Group>] = &[
    gauge("sluice_group_no_drop", "1: PFC protects it.", |group| Some(group.no_drop.into())),
    gauge("sluice_group_xoff", "1: its peer is paused.", |group| Some(group.xoff.into())),
    counter("sluice_group_xoff_episodes", "Times that XOFF began.", |group| Some(group.xoff_episodes.into())),
    counter("sluice_group_received_frames", "Frames received.", |group| Some(frames(&group.received).into())),
    counter("sluice_group_received_bytes", "Their bytes.", |group| Some(bytes(&group.received).into())),
    counter("sluice_group_dropped_frames", "Frames dropped at ingress.", |group| {
        Some(frames(&group.dropped).into())
    }),
    counter("sluice_group_dropped_bytes", "Their bytes.", |group| Some(bytes(&group.dropped).into())),
    counter("sluice_group_storm_dropped_frames", "Frames that the watchdog dropped.", |group| {
        Some(frames(&group.storm_dropped).into())
    }),
    counter("sluice_group_flood_limited_frames", "Frames that a flood limit dropped.", |group| {
        Some(frames(&group.flood_limited).into())
    }),
    gauge("sluice_group_used_cells", "Reserved, shared and headroom cells in use.", |group| {
        cells(&group.total)
    }),
    gauges("sluice_group_used_peak_cells", "The most there were.", |group| peaks(&group.total)),
    gauge("sluice_group_reserved_cells", "Cells of its reservation in use.", |group| {
        Some(group.reserved_cells.into())
    }),
    gauge("sluice_group_shared_cells", "Shared cells in use.", |group| cells(&group.shared)),
    gauges("sluice_group_shared_peak_cells", "The most there were.", |group| peaks(&group.shared)),
    gauge("sluice_group_headroom_cells", "Headroom cells in use.", |group| cells(&group.headroom)),
    gauges("sluice_group_headroom_peak_cells", "The most there were.", |group| peaks(&group.headroom)),
    gauge("sluice_group_reserved_size_cells", "Its reservation.", |group| {
        Some(group.reserved_size_cells.into())
    }),
    gauge("sluice_group_headroom_size_cells", "The most headroom cells that it may use.", |group| {
        Some(group.headroom_size_cells.into())
    }),
    gauge("sluice_group_xoff_threshold_cells", "The XOFF threshold in shared cells as it stands.", |group| {
        Some(group.threshold_cells.into())
    }),
    counter("sluice_group_usage_violations", "Times that use rose above the usage threshold.", |group| {
        Some(group.violations.into())
    }),
    counter(
        "sluice_group_headroom_violations",
        "Times that headroom use reached its alarm threshold.",
        |group| Some(group.headroom_violations.into()),
    ),
];

const QUEUE: &[Metric<Queue>] = &[
    gauge("sluice_queue_paused", "1: its peer has paused it.", |queue| Some(queue.paused.into())),
    gauge("sluice_queue_flooded_paused", "1: its peer has paused the flooded frames in it.", |queue| {
        Some(queue.flooded_paused.into())
    }),
    counter("sluice_queue_pauses", "Pauses that began (episodes).", |queue| Some(queue.pauses.into())),
    counter("sluice_queue_paused_seconds", "Time that it was paused.", |queue| {
        Some(seconds(queue.paused_ns))
    }),
    gauge("sluice_queue_cells", "Cells held, of frames with the kernel too.", |queue| cells(&queue.level)),
    gauges("sluice_queue_peak_cells", "The most there were.", |queue| peaks(&queue.level)),
    gauge("sluice_queue_waiting_frames", "Frames that wait to be sent.", |queue| {
        Some(queue.waiting_frames.into())
    }),
    gauge("sluice_queue_flooded_frames", "Of them flooded ones with a map of their own.", |queue| {
        Some(queue.flooded_frames.into())
    }),
    gauge("sluice_queue_guaranteed_cells", "Guaranteed cells.", |queue| Some(queue.guaranteed_cells.into())),
    gauge(
        "sluice_queue_tail_drop_threshold_cells",
        "The threshold in shared cells as it stands; none: no limit.",
        |queue| queue.threshold_cells.map(Into::into),
    ),
    gauge("sluice_queue_average_cells", "The average length used by WRED.", |queue| {
        queue.average_cells.map(Into::into)
    }),
    counter("sluice_queue_transmitted_frames", "Frames that left.", |queue| {
        Some(frames(&queue.transmitted).into())
    }),
    counter("sluice_queue_transmitted_bytes", "Their bytes.", |queue| Some(bytes(&queue.transmitted).into())),
    counter("sluice_queue_dropped_frames", "Tail drops.", |queue| Some(frames(&queue.dropped).into())),
    counter("sluice_queue_dropped_bytes", "Their bytes.", |queue| Some(bytes(&queue.dropped).into())),
    counter("sluice_queue_kernel_lost_frames", "Frames that the kernel accepted and lost.", |queue| {
        Some(frames(&queue.kernel_lost).into())
    }),
    counter("sluice_queue_ecn_marked_frames", "Frames marked as having met congestion.", |queue| {
        Some(frames(&queue.marked).into())
    }),
    counters("sluice_queue_wred_dropped_frames", "Frames dropped by WRED, by drop level.", |queue| {
        let Some(of) = &queue.wred_dropped else { return Vec::new() };
        [("green", of.green), ("yellow", of.yellow), ("red", of.red)]
            .map(|(level, count)| (("drop_level", level), frames(&count).into()))
            .into()
    }),
    counter("sluice_queue_storm_dropped_frames", "Frames that the watchdog dropped.", |queue| {
        Some(frames(&queue.storm_dropped).into())
    }),
    counter("sluice_queue_usage_violations", "Times that use rose above the usage threshold.", |queue| {
        Some(queue.violations.into())
    }),
];

const POOL: &[Metric<Pool>] = &[
    gauge("sluice_pool_cells", "Cells in use.", |pool| cells(&pool.level)),
    gauges("sluice_pool_peak_cells", "The most there were.", |pool| peaks(&pool.level)),
    gauge("sluice_pool_size_cells", "All its cells.", |pool| Some(pool.size_cells.into())),
    gauge(
        "sluice_pool_pause_threshold_cells",
        "Use from which on its no-drop groups are paused; none: no such use.",
        |pool| pool.pause_threshold_cells.map(Into::into),
    ),
    counter(
        "sluice_pool_excess_frames",
        "Frames of no-drop queues that took cells beyond the size.",
        |pool| Some(pool.excess_frames.into()),
    ),
];

const HEADROOM: &[Metric<Pool>] = &[
    gauge("sluice_headroom_pool_cells", "Cells of the headroom pool in use.", |pool| cells(&pool.level)),
    gauges("sluice_headroom_pool_peak_cells", "The most there were.", |pool| peaks(&pool.level)),
    gauge("sluice_headroom_pool_size_cells", "All its cells.", |pool| Some(pool.size_cells.into())),
];

fn cells(level: &Option<Level>) -> Option<family::Value> {
    level.map(|level| level.cells.into())
}

fn peaks(level: &Option<Level>) -> Several<'static> {
    let Some(level) = level else { return Vec::new() };
    vec![(("since", "read"), level.peak_read_cells.into()), (("since", "start"), level.peak_cells.into())]
}

/// Writes the metrics of the whole switch.
pub fn encode(encoder: &mut DescriptorEncoder, snapshot: &Snapshot) -> fmt::Result {
    let (mut groups, mut queues) = (Vec::new(), Vec::new());
    for port in &snapshot.ports {
        let name = ("port", port.name.as_str());
        groups.extend(used_priorities(port).filter_map(|place| {
            Some(Row::new(&[name, ("priority", EIGHT[place])], port.groups.get(place)?))
        }));
        queues.extend(
            used_queues(port).filter_map(|place| {
                Some(Row::new(&[name, ("queue", EIGHT[place])], port.queues.get(place)?))
            }),
        );
    }
    family::encode(encoder, GROUP, &groups)?;
    family::encode(encoder, QUEUE, &queues)?;
    let pools = [("ingress", &snapshot.ingress_pools), ("egress", &snapshot.egress_pools)];
    let pools: Vec<_> = pools
        .into_iter()
        .flat_map(|(side, pools)| {
            let numbered = EIGHT.iter().zip(pools).filter(|(_, pool)| pool.size_cells > 0);
            numbered.map(move |(number, pool)| Row::new(&[("side", side), ("pool", *number)], pool))
        })
        .collect();
    family::encode(encoder, POOL, &pools)?;
    let headroom: Vec<_> = snapshot.headroom.iter().map(|pool| Row::new(&[], pool)).collect();
    family::encode(encoder, HEADROOM, &headroom)
}
