//! Metrics of PFC, pauses and storms, by port and priority.

use std::fmt;

use control::v1::{PfcCount, Port, Priority};
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{self, LabeledValues, Metric, Row, computed, counters, gauge, gauges};
use super::fields::{INDEX_LABELS, no_drop_priorities, used_priorities};

/// PFC frames of a port that named a priority: XOFF and XON, sent and received.
#[derive(Debug, Default)]
struct PfcFrames {
    sent: [u64; 2],
    received: [u64; 2],
}

const PFC: &[Metric<PfcFrames>] = &[
    computed(
        "sluice_priority_pfc_sent_frames",
        "PFC frames that went out and named it: to pause it (xoff), to release it (xon).",
        &[],
        |of| by_kind(of.sent),
    ),
    computed("sluice_priority_pfc_received_frames", "PFC frames received that name it.", &[], |of| {
        by_kind(of.received)
    }),
];

pub(super) const METRICS: &[Metric<Priority>] = &[
    gauge(
        "sluice_priority_storm_limit_reached",
        "1: there were too many storms, and PFC is off for it.",
        "limit_reached",
    ),
    counters(
        "sluice_priority_storm_frames",
        "Frames during storms: sent, received, and dropped instead.",
        "fate",
        &[
            ("sent", "storm_traffic.tx_frames"),
            ("sending_dropped", "storm_traffic.tx_dropped_frames"),
            ("received", "storm_traffic.rx_frames"),
            ("received_dropped", "storm_traffic.rx_dropped_frames"),
        ],
    ),
    gauges(
        "sluice_priority_pfc_warning",
        "1: the rate of PFC frames has reached the early-warning threshold.",
        "direction",
        &[("received", "received_warning"), ("sent", "sent_warning")],
    ),
];

fn by_kind([xoff, xon]: [u64; 2]) -> LabeledValues<'static> {
    vec![(("kind", "xoff"), xoff.into()), (("kind", "xon"), xon.into())]
}

/// Writes the metrics of all ports.
pub fn encode(encoder: &mut DescriptorEncoder, ports: &[Port]) -> fmt::Result {
    let no_drop = no_drop_priorities(ports);
    let used = |port| used_priorities(port, &no_drop).map(move |index| (port, index));
    let used: Vec<(&Port, usize)> = ports.iter().flat_map(used).collect();
    let labels = |port, index: usize| [("port", port), ("priority", INDEX_LABELS[index])];
    let frames: Vec<_> = used.iter().map(|&(port, index)| pfc_frames(port, index)).collect();
    let pfc: Vec<_> = used
        .iter()
        .zip(&frames)
        .map(|(&(port, index), frames)| Row::new(&labels(port.name.as_str(), index), frames))
        .collect();
    family::encode(encoder, PFC, &pfc)?;
    let rows: Vec<_> = used
        .iter()
        .filter_map(|&(port, index)| {
            Some(Row::new(&labels(port.name.as_str(), index), port.priorities.get(index)?))
        })
        .collect();
    family::encode_all(encoder, METRICS, &rows)
}

fn pfc_frames(port: &Port, index: usize) -> PfcFrames {
    let named = |count: &Option<PfcCount>| {
        let at = |frames: &[u64]| frames.get(index).copied().unwrap_or(0);
        count.as_ref().map_or([0, 0], |count| [at(&count.xoff_frames), at(&count.xon_frames)])
    };
    PfcFrames { sent: named(&port.pfc_sent), received: named(&port.pfc_received) }
}
