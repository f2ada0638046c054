//! Metrics of the dial-out: deliveries to each collector.

use std::fmt;

use control::v1::{Telemetry, TelemetryDestination};
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{self, Metric, Row, counter, gauge};

const METRICS: &[Metric<TelemetryDestination>] = &[
    counter("sluice_collector_messages_confirmed", "Messages that the collector has confirmed.", "sent"),
    counter("sluice_collector_messages_dropped", "Messages dropped from its full backlog.", "dropped"),
    counter("sluice_collector_failures", "Attempts to connect, and streams, that failed.", "failures"),
    gauge("sluice_collector_backlog_messages", "Messages that wait, or are not confirmed.", "backlog"),
];

/// Writes the metrics of all collectors.
pub fn encode(encoder: &mut DescriptorEncoder, telemetry: &Telemetry) -> fmt::Result {
    let rows: Vec<_> = telemetry
        .destinations
        .iter()
        .map(|to| Row::new(&[("group", to.group.as_str()), ("collector", to.address.as_str())], to))
        .collect();
    family::encode(encoder, METRICS, &rows)
}
