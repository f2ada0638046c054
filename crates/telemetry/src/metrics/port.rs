//! Metrics of a port as a whole.

use control::v1::{Count, Dcbx, Port};
use switch::KernelCounters;
use switch::monitor::counters::kernel::RX_LOSSES;

use super::family::{LabeledValues, Metric, computed, computed_gauge, counter, counters, gauge};

/// The metrics of a port.
pub const METRICS: &[Metric<Port>] = &[
    gauge("sluice_port_up", "1: it carries frames.", "up"),
    gauge("sluice_port_admin_down", "1: an operator, or the file, has taken it down.", "admin_down"),
    gauge("sluice_port_held", "1: its transmission is on hold by command.", "held"),
    computed_gauge(
        "sluice_port_speed_bytes_per_second",
        "The rate limit; absent: none.",
        &["speed_bps"],
        |port| match port.speed_bps {
            0 => Vec::new(),
            bps => vec![(("", ""), (bps / 8).into())],
        },
    ),
    counter("sluice_port_received_frames", "Data frames received.", "received.frames"),
    counter("sluice_port_received_bytes", "Their bytes, without FCS.", "received.bytes"),
    counters(
        "sluice_port_received_coloured_frames",
        "Of these, frames of drop level 1 (yellow) and 2 (red).",
        "drop_level",
        &[("yellow", "received_yellow_frames"), ("red", "received_red_frames")],
    ),
    counters(
        "sluice_port_received_flooded_frames",
        "Of these, frames flooded to all ports: broadcast, multicast, unknown unicast.",
        "kind",
        &[
            ("broadcast", "received_broadcast_frames"),
            ("multicast", "received_multicast_frames"),
            ("unknown_unicast", "received_unknown_unicast_frames"),
        ],
    ),
    counter("sluice_port_transmitted_frames", "Data frames transmitted.", "transmitted.frames"),
    counter("sluice_port_transmitted_bytes", "Their bytes, without FCS.", "transmitted.bytes"),
    counters(
        "sluice_port_transmitted_flooded_frames",
        "Of these, frames flooded from other ports: broadcast, multicast, unknown unicast.",
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
    computed("sluice_port_dropped_bytes", "Their bytes, without FCS.", &[], |port| {
        drops(port, |count| count.bytes)
    }),
    counter(
        "sluice_port_input_dropped_frames",
        "Of the drops, frames received here that were never queued.",
        "input_dropped.frames",
    ),
    counter(
        "sluice_port_output_dropped_frames",
        "Of the drops, frames to transmit here.",
        "output_dropped.frames",
    ),
    counter("sluice_port_pfc_received_frames", "PFC frames received.", "pfc_received.frames"),
    counter("sluice_port_pfc_sent_frames", "PFC frames sent.", "pfc_sent.frames"),
    counter(
        "sluice_port_pfc_malformed_frames",
        "Frames of ethertype 0x8808 that are neither PFC nor PAUSE.",
        "pfc_malformed_frames",
    ),
    counter(
        "sluice_port_pfc_refresh_frames",
        "Of the PFC frames sent, those that refreshed an XOFF.",
        "pfc_refresh_frames",
    ),
    counter(
        "sluice_port_pfc_repeat_frames",
        "Of the PFC frames sent, those that repeated XON, or XOFF for a peer that went on.",
        "pfc_repeat_frames",
    ),
    counter(
        "sluice_port_pfc_guard_frames",
        "Of the PFC frames sent, those that the guard sent while the loop stalled.",
        "pfc_guard_frames",
    ),
    counter(
        "sluice_port_tx_stalls",
        "Times that no transmission completed for 5 s although the kernel had frames.",
        "tx_stalls",
    ),
    counter("sluice_port_pause_received_frames", "802.3x PAUSE frames received.", "pause_received_frames"),
    counter("sluice_port_pause_sent_frames", "802.3x PAUSE frames sent.", "pause_sent_frames"),
    counter(
        "sluice_port_lldp_received_frames",
        "LLDP frames that the port consumed.",
        "lldp_received_frames",
    ),
    counter("sluice_port_lldp_sent_frames", "LLDP frames that went out.", "lldp.sent_frames"),
    counter(
        "sluice_port_lldp_lost_frames",
        "LLDP frames that were lost between the loop and the agent.",
        "lldp.lost_frames",
    ),
    counter(
        "sluice_port_lldp_malformed_frames",
        "Malformed LLDP frames that came in.",
        "lldp.malformed_frames",
    ),
    gauge("sluice_port_lldp_neighbors", "LLDP neighbors that are known.", "lldp.neighbors"),
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
    gauge("sluice_port_link_paused", "1: the peer has paused the whole link by 802.3x PAUSE.", "link_paused"),
    counter("sluice_port_link_pauses", "Pauses of the whole link that began.", "link_pauses"),
    counter("sluice_port_link_paused_seconds", "Time that the whole link was paused.", "link_paused_ns"),
    counter(
        "sluice_port_rx_ring_episodes",
        "Times that the RX backlog was long and all no-drop priorities were paused.",
        "rx_ring_episodes",
    ),
    gauge("sluice_port_bridge_entries", "Addresses learned.", "bridge_entries"),
    counter(
        "sluice_port_bridge_limit_frames",
        "Frames whose source was not learned because the port has reached its address limit.",
        "bridge_limit_frames",
    ),
    gauge("sluice_port_in_flight_peak_bytes", "Peak of the bytes in flight.", "in_flight_peak_bytes"),
    counter(
        "sluice_port_kernel_lost_frames",
        "Data frames that the kernel accepted and lost.",
        "kernel_lost_frames",
    ),
    counter(
        "sluice_port_kernel_lost_no_drop_frames",
        "Of these, frames of no-drop priorities: violations of the no-drop guarantee.",
        "kernel_lost_no_drop_frames",
    ),
    counter(
        "sluice_port_kernel_lost_pfc_frames",
        "PFC and PAUSE frames that the kernel accepted and lost.",
        "kernel_lost_pfc_frames",
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
