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
    gauge("sluice_pfc_enabled", "0: PFC is off on all ports.", "pfc_enabled"),
    gauge("sluice_cell_bytes", "Bytes of a cell.", "cell_bytes"),
    gauge("sluice_bridge_entries", "Addresses in the bridge table.", "bridge_entries"),
    counter("sluice_bridge_moves", "Addresses that moved from one port to another.", "bridge_moves"),
    counter(
        "sluice_bridge_full_frames",
        "Frames whose source was not learned, as the table was full.",
        "bridge_full_frames",
    ),
    counter(
        "sluice_bridge_flood_copies",
        "Copies of flooded frames, beyond the frame itself.",
        "flood_copies",
    ),
    counter("sluice_removed_ports", "Ports that were removed from the configuration.", "removed_ports.ports"),
    counter(
        "sluice_removed_ports_received_frames",
        "Data frames received on them.",
        "removed_ports.received.frames",
    ),
    counter(
        "sluice_removed_ports_transmitted_frames",
        "Data frames transmitted by them.",
        "removed_ports.transmitted.frames",
    ),
    computed("sluice_removed_ports_dropped_frames", "Frames that they dropped, by reason.", &[], |now| {
        let drops = now.removed_ports.iter().flat_map(|removed| &removed.drops);
        drops.map(|(reason, count)| (("reason", reason.as_str()), count.frames.into())).collect()
    }),
    counter(
        "sluice_removed_ports_kernel_lost_frames",
        "Data frames that the kernel accepted from them and lost.",
        "removed_ports.kernel_lost_frames",
    ),
    counter(
        "sluice_removed_ports_kernel_dropped_frames",
        "Frames that the kernel lost on reception by them.",
        "removed_ports.kernel_dropped_frames",
    ),
    gauge("sluice_memory_frames", "Frames of the memory, total.", "memory_frames"),
    gauge("sluice_memory_free_frames", "Free frames of the memory.", "memory_free_frames"),
    gauge(
        "sluice_memory_in_rings_frames",
        "Frames of the memory in the ports' rings.",
        "memory_in_rings_frames",
    ),
    counter("sluice_events_lost", "Events that were not recorded: too many at once.", "events_lost"),
    counter(
        "sluice_log_lines_lost",
        "Lines that the log lacks because standard error did not take them.",
        "log_lines_lost",
    ),
    counter(
        "sluice_log_lines_left_out",
        "Lines that the log lacks because there were many like them.",
        "log_lines_left_out",
    ),
    gauge("sluice_recordings_kept", "Recordings of losses that wait to be fetched.", "recordings_kept"),
    gauge("sluice_recordings_kept_bytes", "Bytes of these recordings.", "recordings_kept_bytes"),
    counter(
        "sluice_recordings_frozen",
        "Recordings of losses that were kept, fetched or not.",
        "recordings_frozen",
    ),
    counter(
        "sluice_recordings_not_kept",
        "Recordings of losses that were not kept for lack of memory.",
        "recordings_not_kept",
    ),
    counter("sluice_loop_turns", "Iterations of the poll loop.", "loop_turns"),
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
