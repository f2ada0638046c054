//! Metrics of PFC, pauses and storms, by port and priority.

use std::fmt;

use control::v1::{PfcCount, Port, Priority, StormTraffic};
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{self, Metric, Row, Several, counter, counters, gauge, gauges, seconds};
use super::fields::{EIGHT, used_priorities};

/// A priority and its PFC frame counters of the port: XOFF and XON, sent and received.
#[derive(Debug, Default)]
struct Priorities {
    state: Priority,
    sent: [u64; 2],
    received: [u64; 2],
}

const METRICS: &[Metric<Priorities>] = &[
    counters(
        "sluice_priority_pfc_sent_frames",
        "PFC frames that went out and named it: to pause it (xoff), to release it (xon).",
        |of| by_kind(of.sent),
    ),
    counters("sluice_priority_pfc_received_frames", "PFC frames received that name it.", |of| {
        by_kind(of.received)
    }),
    gauge("sluice_priority_paused", "1: the peer has paused it.", |of| Some(of.state.paused.into())),
    counter("sluice_priority_pauses", "Pauses that began (episodes).", |of| Some(of.state.pauses.into())),
    counter("sluice_priority_paused_seconds", "Time that it was paused.", |of| {
        Some(seconds(of.state.paused_ns))
    }),
    counter("sluice_priority_storms", "Storms that the watchdog detected.", |of| {
        Some(of.state.storms.into())
    }),
    counter("sluice_priority_storms_restored", "Storms that ended.", |of| {
        Some(of.state.storms_restored.into())
    }),
    gauge("sluice_priority_watched", "1: the watchdog is enabled.", |of| Some(of.state.watched.into())),
    gauge("sluice_priority_stormed", "1: it is stormed now.", |of| Some(of.state.stormed.into())),
    gauge("sluice_priority_recovery_pending", "1: the storm lasts until an operator ends it.", |of| {
        Some(of.state.recovery_pending.into())
    }),
    gauge(
        "sluice_priority_storm_limit_reached",
        "1: there were too many storms, and PFC is off for it.",
        |of| Some(of.state.limit_reached.into()),
    ),
    counters(
        "sluice_priority_storm_frames",
        "Frames during storms: sent, received, and dropped instead.",
        |of| {
            let Some(StormTraffic { tx_frames, tx_dropped_frames, rx_frames, rx_dropped_frames }) =
                of.state.storm_traffic
            else {
                return Vec::new();
            };
            vec![
                (("fate", "sent"), tx_frames.into()),
                (("fate", "sending_dropped"), tx_dropped_frames.into()),
                (("fate", "received"), rx_frames.into()),
                (("fate", "received_dropped"), rx_dropped_frames.into()),
            ]
        },
    ),
    gauges(
        "sluice_priority_pfc_warning",
        "1: the rate of PFC frames has reached the early-warning threshold.",
        |of| {
            vec![
                (("direction", "received"), of.state.received_warning.into()),
                (("direction", "sent"), of.state.sent_warning.into()),
            ]
        },
    ),
];

fn by_kind([xoff, xon]: [u64; 2]) -> Several<'static> {
    vec![(("kind", "xoff"), xoff.into()), (("kind", "xon"), xon.into())]
}

/// Writes the metrics of all ports.
pub fn encode(encoder: &mut DescriptorEncoder, ports: &[Port]) -> fmt::Result {
    let of_port = |port: &Port| -> Vec<(usize, Priorities)> {
        used_priorities(port).filter_map(|place| Some((place, of(port, place)?))).collect()
    };
    let of_ports: Vec<_> = ports.iter().map(|port| (port.name.as_str(), of_port(port))).collect();
    let rows: Vec<_> = of_ports
        .iter()
        .flat_map(|(port, of)| {
            of.iter().map(|(place, of)| Row::new(&[("port", *port), ("priority", EIGHT[*place])], of))
        })
        .collect();
    family::encode(encoder, METRICS, &rows)
}

fn of(port: &Port, place: usize) -> Option<Priorities> {
    let named = |count: &Option<PfcCount>| {
        let at = |frames: &[u64]| frames.get(place).copied().unwrap_or(0);
        count.as_ref().map_or([0, 0], |count| [at(&count.xoff_frames), at(&count.xon_frames)])
    };
    let state = *port.priorities.get(place)?;
    Some(Priorities { state, sent: named(&port.pfc_sent), received: named(&port.pfc_received) })
}
