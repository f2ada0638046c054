//! Metrics of the switch as a whole: its identity, the bridge, its memory, and whether its loop
//! keeps up.

use std::fmt;

use control::v1::Snapshot;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::family::{self, Metric, Row, computed, counter, gauge, split_unit};
use crate::dial_out::message::Device;

pub(super) const METRICS: &[Metric<Snapshot>] = &[
    gauge("sluice_uptime_seconds", "Time since the daemon started.", "at_ns"),
    counter(
        "sluice_bridge_flood_copies",
        "Copies of flooded frames, beyond the frame itself.",
        "flood_copies",
    ),
    counter("sluice_removed_ports", "Ports that were removed from the configuration.", "removed_ports.ports"),
    computed("sluice_removed_ports_dropped_frames", "Frames that they dropped, by reason.", &[], |now| {
        let drops = now.removed_ports.iter().flat_map(|removed| &removed.drops);
        drops.map(|(reason, count)| (("reason", reason.as_str()), count.frames.into())).collect()
    }),
    gauge(
        "sluice_loop_longest_stall_seconds",
        "The longest time between two iterations since the start, excluding sleep.",
        "loop_worst_stall_ns",
    ),
];

/// Writes the metrics of the switch.
pub fn encode(encoder: &mut DescriptorEncoder, device: &Device, now: &Snapshot) -> fmt::Result {
    let info = [("switch", device.name.as_str()), ("version", device.version.as_str())];
    let help = "1, of the switch of this name and version.";
    encoder
        .encode_descriptor("sluice_build_info", help, None, MetricType::Gauge)?
        .encode_family(&info)?
        .encode_gauge(&1_u64)?;
    ports(encoder, now)?;
    family::encode_all(encoder, METRICS, &[Row::new(&[], now)])?;
    turns(encoder, now)
}

/// Writes the constant properties of each port.
fn ports(encoder: &mut DescriptorEncoder, now: &Snapshot) -> fmt::Result {
    let help = "1, of a port on this interface.";
    let mut family = encoder.encode_descriptor("sluice_port_info", help, None, MetricType::Gauge)?;
    for port in &now.ports {
        let labels =
            [("port", port.name.as_str()), ("interface", &port.interface), ("xdp_mode", &port.xdp_mode)];
        family.encode_family(&labels)?.encode_gauge(&1_u64)?;
    }
    Ok(())
}

/// Writes the iterations of the loop by duration: below 1 µs, below 2 µs and so on, as
/// `switch::monitor::counters::iteration_time_class` has them.
fn turns(encoder: &mut DescriptorEncoder, now: &Snapshot) -> fmt::Result {
    let (name, unit) = split_unit("sluice_loop_turn_seconds");
    let help = "Time from each iteration of the poll loop to the next, excluding sleep.";
    let buckets = now.loop_turns_by_time.len();
    let bound =
        |index: usize| if index + 1 == buckets { f64::INFINITY } else { (1_u64 << index) as f64 / 1e6 };
    let buckets: Vec<_> =
        now.loop_turns_by_time.iter().enumerate().map(|(index, &turns)| (bound(index), turns)).collect();
    let sum = now.loop_awake_ns as f64 / 1e9;
    encoder
        .encode_descriptor(name, help, unit.as_ref(), MetricType::Histogram)?
        .encode_histogram::<NoLabelSet>(sum, now.loop_turns_by_time.iter().sum(), &buckets, None)
}
