//! Definition of a metric: its name, its help text, and how its value is read from a part of the
//! snapshot.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// The value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A count.
    Whole(u64),
    /// A duration in seconds.
    Seconds(f64),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Whole(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<bool> for Value {
    fn from(holds: bool) -> Self {
        Self::Whole(holds.into())
    }
}

/// Converts nanoseconds to seconds.
pub fn seconds(nanos: u64) -> Value {
    Value::Seconds(nanos as f64 / 1e9)
}

/// Values distinguished by one label.
pub type Several<'t> = Vec<((&'static str, &'t str), Value)>;

/// How values are read from a row.
#[derive(Clone, Copy)]
enum Read<T> {
    /// One value, or none where the row has none.
    One(fn(&T) -> Option<Value>),
    /// Several values, distinguished by a label.
    Several(fn(&T) -> Several<'_>),
}

/// A metric of rows of type `T`.
pub struct Metric<T> {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    read: Read<T>,
}

/// Defines a counter; `_total` is added to the name.
pub const fn counter<T>(name: &'static str, help: &'static str, read: fn(&T) -> Option<Value>) -> Metric<T> {
    Metric { name, help, kind: MetricType::Counter, read: Read::One(read) }
}

/// Defines a gauge.
pub const fn gauge<T>(name: &'static str, help: &'static str, read: fn(&T) -> Option<Value>) -> Metric<T> {
    Metric { name, help, kind: MetricType::Gauge, read: Read::One(read) }
}

/// Defines counters distinguished by a label.
pub const fn counters<T>(name: &'static str, help: &'static str, read: fn(&T) -> Several<'_>) -> Metric<T> {
    Metric { name, help, kind: MetricType::Counter, read: Read::Several(read) }
}

/// Defines gauges distinguished by a label.
pub const fn gauges<T>(name: &'static str, help: &'static str, read: fn(&T) -> Several<'_>) -> Metric<T> {
    Metric { name, help, kind: MetricType::Gauge, read: Read::Several(read) }
}

/// A source of values and the labels that identify it.
#[derive(Debug, Clone)]
pub struct Row<'s, T> {
    labels: Vec<(&'s str, &'s str)>,
    of: &'s T,
}

impl<'s, T> Row<'s, T> {
    /// Returns a row with these labels.
    pub fn new(labels: &[(&'s str, &'s str)], of: &'s T) -> Self {
        Self { labels: labels.to_vec(), of }
    }
}

/// Writes all `metrics` of all `rows`.
pub fn encode<T>(encoder: &mut DescriptorEncoder, metrics: &[Metric<T>], rows: &[Row<T>]) -> fmt::Result {
    metrics.iter().try_for_each(|metric| encode_one(encoder, metric, rows))
}

fn encode_one<T>(encoder: &mut DescriptorEncoder, metric: &Metric<T>, rows: &[Row<T>]) -> fmt::Result {
    let (name, unit) = split_unit(metric.name);
    let mut values = Vec::new();
    for row in rows {
        match metric.read {
            Read::One(read) => values.extend(read(row.of).map(|value| (row.labels.clone(), value))),
            Read::Several(read) => {
                values.extend(read(row.of).into_iter().map(|(more, value)| {
                    (row.labels.iter().copied().chain([more]).collect::<Vec<_>>(), value)
                }))
            }
        }
    }
    if values.is_empty() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, metric.help, unit.as_ref(), metric.kind)?;
    for (labels, value) in values {
        match labels.is_empty() {
            true => write(&mut family, metric.kind, value)?,
            false => write(&mut family.encode_family(&labels)?, metric.kind, value)?,
        }
    }
    Ok(())
}

fn write(encoder: &mut MetricEncoder, kind: MetricType, value: Value) -> fmt::Result {
    match (kind, value) {
        (MetricType::Counter, Value::Whole(number)) => {
            encoder.encode_counter::<NoLabelSet, _, u64>(&number, None)
        }
        (MetricType::Counter, Value::Seconds(number)) => {
            encoder.encode_counter::<NoLabelSet, _, u64>(&number, None)
        }
        (_, Value::Whole(number)) => encoder.encode_gauge(&number),
        (_, Value::Seconds(number)) => encoder.encode_gauge(&number),
    }
}

/// Splits off the unit that ends a name, since OpenMetrics states it separately too.
pub fn split_unit(name: &'static str) -> (&'static str, Option<Unit>) {
    for (suffix, unit) in [
        ("_seconds", Unit::Seconds),
        ("_bytes", Unit::Bytes),
        ("_cells", Unit::Other("cells".to_owned())),
        ("_frames", Unit::Other("frames".to_owned())),
    ] {
        if let Some(rest) = name.strip_suffix(suffix) {
            return (rest, Some(unit));
        }
    }
    (name, None)
}
