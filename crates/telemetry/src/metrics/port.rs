//! Metrics of a port as a whole.

use control::v1::{Count, Kernel, Port};
use switch::KernelCounters;
use switch::monitor::counters::RX_LOSSES;

use super::family::{Metric, Several, counter, counters, gauge, seconds};
use super::fields::{bytes, frames};

/// The metrics of a port.
pub const METRICS: &[Metric<Port>] = &[
    gauge("sluice_port_up", "1: it carries frames.", |port| Some(port.up.into())),
    gauge("sluice_port_held", "1: its transmission is on hold by command.", |port| Some(port.held.into())),
    gauge("sluice_port_speed_bytes_per_second", "The rate limit; absent: none.", |port| {
        (port.speed_bps > 0).then(|| (port.speed_bps / 8).into())
    }),
    counter("sluice_port_received_frames", "Data frames received.", |port| {
        Some(frames(&port.received).into())
    }),
    counter("sluice_port_received_bytes", "Their bytes, without FCS.", |port| {
        Some(bytes(&port.received).into())
    }),
    counters(
        "sluice_port_received_coloured_frames",
        "Of these, frames of drop level 1 (yellow) and 2 (red).",
        |port| {
            vec![
                (("drop_level", "yellow"), port.received_yellow_frames.into()),
                (("drop_level", "red"), port.received_red_frames.into()),
            ]
        },
    ),
    counters(
        "sluice_port_received_flooded_frames",
        "Of these, frames flooded to all ports: broadcast, multicast, unknown unicast.",
        |port| {
            vec![
                (("kind", "broadcast"), port.received_broadcast_frames.into()),
                (("kind", "multicast"), port.received_multicast_frames.into()),
                (("kind", "unknown_unicast"), port.received_unknown_unicast_frames.into()),
            ]
        },
    ),
    counter("sluice_port_transmitted_frames", "Data frames transmitted.", |port| {
        Some(frames(&port.transmitted).into())
    }),
    counter("sluice_port_transmitted_bytes", "Their bytes, without FCS.", |port| {
        Some(bytes(&port.transmitted).into())
    }),
    counters(
        "sluice_port_transmitted_flooded_frames",
        "Of these, frames flooded from other ports: broadcast, multicast, unknown unicast.",
        |port| {
            vec![
                (("kind", "broadcast"), port.transmitted_broadcast_frames.into()),
                (("kind", "multicast"), port.transmitted_multicast_frames.into()),
                (("kind", "unknown_unicast"), port.transmitted_unknown_unicast_frames.into()),
            ]
        },
    ),
    counters("sluice_port_dropped_frames", "Frames dropped, by reason.", |port| {
        drops(port, |count| count.frames)
    }),
    counters("sluice_port_dropped_bytes", "Their bytes, without FCS.", |port| {
        drops(port, |count| count.bytes)
    }),
    counter(
        "sluice_port_input_dropped_frames",
        "Of the drops, frames received here that were never queued.",
        |port| Some(frames(&port.input_dropped).into()),
    ),
    counter("sluice_port_output_dropped_frames", "Of the drops, frames to transmit here.", |port| {
        Some(frames(&port.output_dropped).into())
    }),
    counter("sluice_port_pfc_received_frames", "PFC frames received.", |port| {
        port.pfc_received.as_ref().map(|count| count.frames.into())
    }),
    counter("sluice_port_pfc_sent_frames", "PFC frames sent.", |port| {
        port.pfc_sent.as_ref().map(|count| count.frames.into())
    }),
    counter(
        "sluice_port_pfc_malformed_frames",
        "Frames of ethertype 0x8808 that are neither PFC nor PAUSE.",
        |port| Some(port.pfc_malformed_frames.into()),
    ),
    counter(
        "sluice_port_pfc_refresh_frames",
        "Of the PFC frames sent, those that refreshed an XOFF.",
        |port| Some(port.pfc_refresh_frames.into()),
    ),
    counter(
        "sluice_port_pfc_repeat_frames",
        "Of the PFC frames sent, those that repeated XON, or XOFF for a peer that went on.",
        |port| Some(port.pfc_repeat_frames.into()),
    ),
    counter(
        "sluice_port_pfc_guard_frames",
        "Of the PFC frames sent, those that the guard sent while the loop stalled.",
        |port| Some(port.pfc_guard_frames.into()),
    ),
    counter(
        "sluice_port_tx_stalls",
        "Times that no transmission completed for 5 s although the kernel had frames.",
        |port| Some(port.tx_stalls.into()),
    ),
    counter("sluice_port_pause_received_frames", "802.3x PAUSE frames received.", |port| {
        Some(port.pause_received_frames.into())
    }),
    counter("sluice_port_pause_sent_frames", "802.3x PAUSE frames sent.", |port| {
        Some(port.pause_sent_frames.into())
    }),
    gauge("sluice_port_link_paused", "1: the peer has paused the whole link by 802.3x PAUSE.", |port| {
        Some(port.link_paused.into())
    }),
    counter("sluice_port_link_pauses", "Pauses of the whole link that began.", |port| {
        Some(port.link_pauses.into())
    }),
    counter("sluice_port_link_paused_seconds", "Time that the whole link was paused.", |port| {
        Some(seconds(port.link_paused_ns))
    }),
    counter(
        "sluice_port_rx_ring_episodes",
        "Times that the RX backlog was long and all no-drop priorities were paused.",
        |port| Some(port.rx_ring_episodes.into()),
    ),
    gauge("sluice_port_bridge_entries", "Addresses learned.", |port| Some(port.bridge_entries.into())),
    counter(
        "sluice_port_bridge_limit_frames",
        "Frames whose source was not learned because the port has reached its address limit.",
        |port| Some(port.bridge_limit_frames.into()),
    ),
    gauge("sluice_port_in_flight_peak_bytes", "Peak of the bytes in flight.", |port| {
        Some(port.in_flight_peak_bytes.into())
    }),
    counter("sluice_port_kernel_lost_frames", "Data frames that the kernel accepted and lost.", |port| {
        Some(port.kernel_lost_frames.into())
    }),
    counter(
        "sluice_port_kernel_lost_no_drop_frames",
        "Of these, frames of no-drop priorities: violations of the no-drop guarantee.",
        |port| Some(port.kernel_lost_no_drop_frames.into()),
    ),
    counter(
        "sluice_port_kernel_lost_pfc_frames",
        "PFC and PAUSE frames that the kernel accepted and lost.",
        |port| Some(port.kernel_lost_pfc_frames.into()),
    ),
    counters(
        "sluice_port_kernel_dropped_frames",
        "Frames that the kernel, or the NIC below it, lost on reception, by reason.",
        rx_losses,
    ),
    counters("sluice_port_kernel_refused_descriptors", "Descriptors that the kernel refused.", |port| {
        of_kernel(port, |kernel| {
            vec![
                (("direction", "received"), kernel.rx_invalid_frames.into()),
                (("direction", "sent"), kernel.tx_invalid_frames.into()),
            ]
        })
    }),
    counters(
        "sluice_port_kernel_stray_frames",
        "Frames that the kernel returned without having been given them: ignored.",
        |port| {
            of_kernel(port, |kernel| {
                vec![
                    (("direction", "received"), kernel.rx_stray_frames.into()),
                    (("direction", "sent"), kernel.tx_stray_frames.into()),
                ]
            })
        },
    ),
    counter("sluice_port_kernel_sendto_calls", "Calls of sendto.", |port| {
        port.kernel.as_ref().map(|kernel| kernel.tx_kicks.into())
    }),
    counters(
        "sluice_port_kernel_sendto_errors",
        "Calls of sendto that failed, by error; a frame is lost with each ebusy only.",
        |port| {
            of_kernel(port, |kernel| {
                vec![
                    (("error", "eagain"), kernel.tx_again.into()),
                    (("error", "ebusy"), kernel.tx_busy.into()),
                    (("error", "enobufs"), kernel.tx_no_buffers.into()),
                    (("error", "enetdown"), kernel.tx_down.into()),
                ]
            })
        },
    ),
];

fn of_kernel(port: &Port, read: fn(&Kernel) -> Several<'static>) -> Several<'static> {
    port.kernel.as_ref().map_or(Vec::new(), read)
}

/// Returns the frames lost on receipt by reason, the unknown reason last.
fn rx_losses(port: &Port) -> Several<'static> {
    let Some(kernel) = port.kernel.as_ref().map(KernelCounters::from) else { return Vec::new() };
    let mut losses = RX_LOSSES;
    losses.sort_by_key(|loss| loss.label == "other");
    losses.map(|loss| (("reason", loss.label), (loss.frames)(&kernel).into())).into()
}

/// Returns the drops by reason.
fn drops(port: &Port, read: fn(&Count) -> u64) -> Several<'_> {
    port.drops.iter().map(|(reason, count)| (("reason", reason.as_str()), read(count).into())).collect()
}
