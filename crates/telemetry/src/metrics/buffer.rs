//! Metrics of the buffers: priority groups, queues and pools, with their watermarks.
//!
//! Rule: the peak since "read" is the most cells since metrics were last read, and each read
//! restarts it; the peak since "start" covers the whole run of the daemon.

use std::fmt;

use control::v1::{Group, Pool, Queue, Snapshot};
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{self, Metric, Row, counter, counters, gauge, gauges};
use super::fields::{INDEX_LABELS, no_drop_priorities, used_priorities, used_queues};

pub(super) const GROUP: &[Metric<Group>] = &[
    counter("sluice_group_received_bytes", "Bytes of the frames received, without FCS.", "received.bytes"),
    counter("sluice_group_dropped_bytes", "Bytes of the frames dropped, without FCS.", "dropped.bytes"),
    gauge("sluice_group_used_cells", "Reserved, shared and headroom cells in use.", "total.cells"),
    gauges(
        "sluice_group_used_peak_cells",
        "The most cells in use.",
        "since",
        &[("read", "total.peak_read_cells"), ("start", "total.peak_cells")],
    ),
    gauges(
        "sluice_group_shared_peak_cells",
        "The most cells in use.",
        "since",
        &[("read", "shared.peak_read_cells"), ("start", "shared.peak_cells")],
    ),
    gauges(
        "sluice_group_headroom_peak_cells",
        "The most cells in use.",
        "since",
        &[("read", "headroom.peak_read_cells"), ("start", "headroom.peak_cells")],
    ),
    gauge(
        "sluice_group_xoff_threshold_cells",
        "The XOFF threshold in shared cells as it stands.",
        "threshold_cells",
    ),
    counter("sluice_group_usage_violations", "Times that use rose above the usage threshold.", "violations"),
];

pub(super) const QUEUE: &[Metric<Queue>] = &[
    gauge("sluice_queue_cells", "Cells held, of frames with the kernel too.", "level.cells"),
    gauges(
        "sluice_queue_peak_cells",
        "The most cells in use.",
        "since",
        &[("read", "level.peak_read_cells"), ("start", "level.peak_cells")],
    ),
    gauge(
        "sluice_queue_tail_drop_threshold_cells",
        "The threshold in shared cells as it stands; none: no limit.",
        "threshold_cells",
    ),
    counter(
        "sluice_queue_transmitted_bytes",
        "Bytes of the frames transmitted, without FCS.",
        "transmitted.bytes",
    ),
    counter("sluice_queue_dropped_bytes", "Bytes of the frames dropped, without FCS.", "dropped.bytes"),
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
    counter("sluice_queue_usage_violations", "Times that use rose above the usage threshold.", "violations"),
];

pub(super) const POOL: &[Metric<Pool>] = &[
    gauge("sluice_pool_cells", "Cells in use.", "level.cells"),
    gauges(
        "sluice_pool_peak_cells",
        "The most cells in use.",
        "since",
        &[("read", "level.peak_read_cells"), ("start", "level.peak_cells")],
    ),
];

pub(super) const HEADROOM: &[Metric<Pool>] = &[
    gauge("sluice_headroom_pool_cells", "Cells of the headroom pool in use.", "level.cells"),
    gauges(
        "sluice_headroom_pool_peak_cells",
        "The most cells in use.",
        "since",
        &[("read", "level.peak_read_cells"), ("start", "level.peak_cells")],
    ),
    gauge("sluice_headroom_pool_size_cells", "All its cells.", "size_cells"),
];

/// Writes the metrics of the whole switch.
pub fn encode(encoder: &mut DescriptorEncoder, snapshot: &Snapshot) -> fmt::Result {
    let (mut groups, mut queues) = (Vec::new(), Vec::new());
    let no_drop = no_drop_priorities(&snapshot.ports);
    for port in &snapshot.ports {
        let name = ("port", port.name.as_str());
        groups.extend(used_priorities(port, &no_drop).filter_map(|index| {
            Some(Row::new(&[name, ("priority", INDEX_LABELS[index])], port.groups.get(index)?))
        }));
        queues.extend(used_queues(port, &no_drop).filter_map(|index| {
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
