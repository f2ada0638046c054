//! What a running switch counts, as metrics of OpenMetrics and of Prometheus's older text format.
//!
//! Rule: names begin with `sluice_` and what they are of; units are base units (seconds, bytes) or cells and frames, and end the name;
//! counters end in `_total`. Numbers are those of `sluice show --json` at the same instant. A priority or a queue of a port has rows
//! once anything was counted for it, or PFC or the watchdog protects it. Source: docs/metrics.md; docs/references.md, "Standards" (OpenMetrics).

mod buffer;
mod collectors;
mod family;
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

/// The priorities and queues, as labels.
const EIGHT: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];

/// All that one answer is made of.
#[derive(Debug)]
pub struct MetricsSnapshot {
    /// Who answers.
    pub device: Device,
    /// The switch.
    pub snapshot: v1::Snapshot,
    /// What is reported to collectors.
    pub telemetry: v1::Telemetry,
}

impl MetricsSnapshot {
    /// It in the format of OpenMetrics 1.0.
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
        family::encode(&mut encoder, port::METRICS, &ports)?;
        priority::encode(&mut encoder, &snapshot.ports)?;
        buffer::encode(&mut encoder, snapshot)?;
        collectors::encode(&mut encoder, telemetry)
    }
}

/// The places of a port's priorities for which there is anything to say.
fn used_priorities(port: &v1::Port) -> impl Iterator<Item = usize> {
    let named = |count: &Option<v1::PfcCount>, place: usize| {
        count.as_ref().is_some_and(|count| {
            [&count.xoff_frames, &count.xon_frames]
                .iter()
                .any(|frames| frames.get(place).is_some_and(|&n| n > 0))
        })
    };
    let is_used = move |place: &usize| {
        let group = port.groups.get(*place).is_some_and(|group| {
            let seen = [group.received, group.dropped, group.storm_dropped].map(|count| frames(&count));
            group.no_drop || seen.iter().any(|&frames| frames > 0)
        });
        let priority = port.priorities.get(*place);
        group
            || priority.is_some_and(|priority| priority.watched || priority.storms > 0)
            || named(&port.pfc_sent, *place)
            || named(&port.pfc_received, *place)
    };
    (0..EIGHT.len()).filter(is_used)
}

/// The places of a port's queues for which there is anything to say.
fn used_queues(port: &v1::Port) -> impl Iterator<Item = usize> {
    let is_used = |place: &usize| {
        port.queues.get(*place).is_some_and(|queue| {
            let dropped = queue.wred_dropped.unwrap_or_default();
            let counts = [queue.transmitted, queue.dropped, queue.kernel_lost, queue.storm_dropped];
            let wred = [dropped.green, dropped.yellow, dropped.red];
            let counted = counts.iter().chain(&wred).any(|count| frames(count) > 0);
            counted || queue.pauses > 0 || queue.level.is_some_and(|level| level.peak_cells > 0)
        })
    };
    (0..EIGHT.len()).filter(is_used)
}

fn frames(count: &Option<v1::Count>) -> u64 {
    count.map_or(0, |count| count.frames)
}

fn bytes(count: &Option<v1::Count>) -> u64 {
    count.map_or(0, |count| count.bytes)
}

#[cfg(test)]
mod dashboard;
mod prometheus_text;
mod switch;
#[cfg(test)]
mod tests;
