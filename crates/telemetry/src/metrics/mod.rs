//! The counters of a running switch as metrics, in OpenMetrics and in Prometheus's older text
//! format.
//!
//! Rule: names begin with `sluice_` and their subject; units are base units (seconds, bytes) or
//! cells and frames, and end the name; counters end in `_total`. Numbers are those of `sluice show
//! --json` at the same instant. A priority or a queue of a port has rows once anything was counted
//! for it, or PFC or the watchdog protects it. Source: docs/monitoring/metrics.md;
//! docs/references.md, "Standards" (OpenMetrics).

mod buffer;
mod collectors;
mod family;
mod fields;
mod no_metric;
mod port;
mod priority;
pub mod server;

use std::fmt;

use control::v1;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::dial_out::message::Device;
use family::Row;

/// The data of one response.
#[derive(Debug)]
pub struct MetricsSnapshot {
    /// Identity of the switch.
    pub device: Device,
    /// Snapshot of the switch.
    pub snapshot: v1::Snapshot,
    /// State of the telemetry to collectors.
    pub telemetry: v1::Telemetry,
}

impl MetricsSnapshot {
    /// Returns the metrics in the format of OpenMetrics 1.0.
    pub fn openmetrics(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string takes all");
        text
    }
}

impl Collector for MetricsSnapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Self { device, snapshot, telemetry } = self;
        switch::encode(&mut encoder, device, snapshot)?;
        let ports: Vec<_> =
            snapshot.ports.iter().map(|port| Row::new(&[("port", &port.name)], port)).collect();
        family::encode_all(&mut encoder, port::METRICS, &ports)?;
        priority::encode(&mut encoder, &snapshot.ports)?;
        buffer::encode(&mut encoder, snapshot)?;
        collectors::encode(&mut encoder, telemetry)
    }
}

#[cfg(test)]
mod dashboard;
mod prometheus_text;
#[cfg(test)]
mod rules;
mod switch;
#[cfg(test)]
mod tests;
