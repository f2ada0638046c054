//! Metrics of a port as a whole.

use control::v1::{Count, Dcbx, Port};
use switch::KernelCounters;
use switch::monitor::counters::kernel::RX_LOSSES;

use super::family::{LabeledValues, Metric, computed, computed_gauge, counter, counters};

/// The metrics of a port.
pub const METRICS: &[Metric<Port>] = &[
    computed_gauge(
        "sluice_port_speed_bytes_per_second",
        "The rate limit; absent: none.",
        &["speed_bps"],
        |port| match port.speed_bps {
            0 => Vec::new(),
            bps => vec![(("", ""), (bps / 8).into())],
        },
    ),
    counter("sluice_port_received_bytes", "Bytes of the frames received, without FCS.", "received.bytes"),
    counters(
        "sluice_port_received_coloured_frames",
        "Frames received of drop level 1 (yellow) and 2 (red).",
        "drop_level",
        &[("yellow", "received_yellow_frames"), ("red", "received_red_frames")],
    ),
    counters(
        "sluice_port_received_flooded_frames",
        "Frames received that were flooded to all ports: broadcast, multicast, unknown unicast.",
        "kind",
        &[
            ("broadcast", "received_broadcast_frames"),
            ("multicast", "received_multicast_frames"),
            ("unknown_unicast", "received_unknown_unicast_frames"),
        ],
    ),
    counter(
        "sluice_port_transmitted_bytes",
        "Bytes of the frames transmitted, without FCS.",
        "transmitted.bytes",
    ),
    counters(
        "sluice_port_transmitted_flooded_frames",
        "Frames transmitted that were flooded from other ports: broadcast, multicast, unknown unicast.",
        "kind",
        &[
            ("broadcast", "transmitted_broadcast_frames"),
            ("multicast", "transmitted_multicast_frames"),
            ("unknown_unicast", "transmitted_unknown_unicast_frames"),
        ],
    ),
    computed("sluice_port_dropped_frames", "Frames dropped, by reason.", &[], |port| {
        drops(port, |count| count.frames)
    }),
    computed("sluice_port_dropped_bytes", "Bytes of the frames dropped, without FCS.", &[], |port| {
        drops(port, |count| count.bytes)
    }),
    computed_gauge(
        "sluice_port_dcbx_agreed_features",
        "Features of DCBX that are agreed on with the peer.",
        &[],
        |port| features(port, "agreed"),
    ),
    computed_gauge(
        "sluice_port_dcbx_error_features",
        "Features of DCBX that the ends cannot agree on.",
        &[],
        |port| features(port, "error"),
    ),
    computed(
        "sluice_port_kernel_dropped_frames",
        "Frames that the kernel, or the NIC below it, lost on reception, by reason.",
        &[
            "kernel.rx_fill_ring_empty_frames",
            "kernel.rx_ring_full_frames",
            "kernel.rx_missed_frames",
            "kernel.rx_closed_frames",
            "kernel.rx_too_long_frames",
            "kernel.rx_dropped_frames",
        ],
        rx_losses,
    ),
    counters(
        "sluice_port_kernel_refused_descriptors",
        "Descriptors that the kernel refused.",
        "direction",
        &[("received", "kernel.rx_invalid_frames"), ("sent", "kernel.tx_invalid_frames")],
    ),
    counters(
        "sluice_port_kernel_stray_frames",
        "Frames that the kernel returned without having been given them: ignored.",
        "direction",
        &[("received", "kernel.rx_stray_frames"), ("sent", "kernel.tx_stray_frames")],
    ),
    counter("sluice_port_kernel_sendto_calls", "Calls of sendto.", "kernel.tx_kicks"),
    counters(
        "sluice_port_kernel_sendto_errors",
        "Calls of sendto that failed, by error; a frame is lost with each ebusy only.",
        "error",
        &[
            ("eagain", "kernel.tx_again"),
            ("ebusy", "kernel.tx_busy"),
            ("enobufs", "kernel.tx_no_buffers"),
            ("enetdown", "kernel.tx_down"),
        ],
    ),
];

/// Returns the frames lost on receipt by reason, the unknown reason last.
fn rx_losses(port: &Port) -> LabeledValues<'static> {
    let Some(kernel) = port.kernel.as_ref().map(KernelCounters::from) else { return Vec::new() };
    let mut losses = RX_LOSSES;
    losses.sort_by_key(|loss| loss.label == "other");
    losses.map(|loss| (("reason", loss.label), (loss.frames)(&kernel).into())).into()
}

/// Returns the number of features of DCBX in a state, if the port negotiates.
fn features<'p>(port: &'p Port, state: &str) -> LabeledValues<'p> {
    let of = |dcbx: &Dcbx| dcbx.features.iter().filter(|feature| feature.state == state).count() as u64;
    port.dcbx.iter().map(|dcbx| (("", ""), of(dcbx).into())).collect()
}

/// Returns the drops by reason.
fn drops(port: &Port, read: fn(&Count) -> u64) -> LabeledValues<'_> {
    port.drops.iter().map(|(reason, count)| (("reason", reason.as_str()), read(count).into())).collect()
}
