//! Definition of a metric: its name, its help text, and the numbers of the snapshot that it shows.
//!
//! Rule: a number of the proto file that no metric shows is a metric under its own name, with its
//! comment as help, unless [`no_metric`] has a reason.

use std::fmt;

use control::field_docs::{Number, Numbers};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::no_metric;

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

impl Value {
    /// Returns the value of a number; nanoseconds become seconds.
    fn of(path: &str, number: u64) -> Self {
        if path.ends_with("_ns") { Self::Seconds(number as f64 / 1e9) } else { Self::Whole(number) }
    }
}

/// Values distinguished by one label.
pub type LabeledValues<'t> = Vec<((&'static str, &'t str), Value)>;

/// How values are read from a row.
#[derive(Clone, Copy)]
enum Read<T> {
    /// A number.
    One(fn(&T, &str) -> Option<u64>, &'static str),
    /// Numbers, distinguished by the values of a label.
    Labeled(fn(&T, &str) -> Option<u64>, &'static str, &'static [(&'static str, &'static str)]),
    /// Values computed from these numbers, or from a list.
    Computed(&'static [&'static str], fn(&T) -> LabeledValues<'_>),
}

/// A metric of rows of type `T`.
pub struct Metric<T> {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    read: Read<T>,
}

impl<T> Metric<T> {
    /// Returns the numbers that the metric shows.
    #[cfg(test)]
    pub fn numbers(&self) -> Vec<&'static str> {
        match self.read {
            Read::One(_, of) => vec![of],
            Read::Labeled(_, _, of) => of.iter().map(|&(_, of)| of).collect(),
            Read::Computed(of, _) => of.to_vec(),
        }
    }

    /// Returns the name, without `_total`.
    #[cfg(test)]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// True if the metric shows this number.
    pub fn shows(&self, path: &str) -> bool {
        match self.read {
            Read::One(_, of) => of == path,
            Read::Labeled(_, _, of) => of.iter().any(|&(_, of)| of == path),
            Read::Computed(of, _) => of.contains(&path),
        }
    }
}

/// Defines a counter, of a number of the row; `_total` is added to the name.
pub const fn counter<T: Numbers>(name: &'static str, help: &'static str, path: &'static str) -> Metric<T> {
    Metric { name, help, kind: MetricType::Counter, read: Read::One(T::number, path) }
}

/// Defines a gauge, of a number of the row.
pub const fn gauge<T: Numbers>(name: &'static str, help: &'static str, path: &'static str) -> Metric<T> {
    Metric { name, help, kind: MetricType::Gauge, read: Read::One(T::number, path) }
}

/// Defines counters distinguished by a label: its values, each with its number.
pub const fn counters<T: Numbers>(
    name: &'static str,
    help: &'static str,
    label: &'static str,
    of: &'static [(&'static str, &'static str)],
) -> Metric<T> {
    Metric { name, help, kind: MetricType::Counter, read: Read::Labeled(T::number, label, of) }
}

/// Defines gauges distinguished by a label: its values, each with its number.
pub const fn gauges<T: Numbers>(
    name: &'static str,
    help: &'static str,
    label: &'static str,
    of: &'static [(&'static str, &'static str)],
) -> Metric<T> {
    Metric { name, help, kind: MetricType::Gauge, read: Read::Labeled(T::number, label, of) }
}

/// Defines counters that are computed, from a list or from the numbers at `of`.
pub const fn computed<T>(
    name: &'static str,
    help: &'static str,
    of: &'static [&'static str],
    read: fn(&T) -> LabeledValues<'_>,
) -> Metric<T> {
    Metric { name, help, kind: MetricType::Counter, read: Read::Computed(of, read) }
}

/// Defines gauges that are computed, from a list or from the numbers at `of`.
pub const fn computed_gauge<T>(
    name: &'static str,
    help: &'static str,
    of: &'static [&'static str],
    read: fn(&T) -> LabeledValues<'_>,
) -> Metric<T> {
    Metric { name, help, kind: MetricType::Gauge, read: Read::Computed(of, read) }
}

/// Returns the metrics of all numbers that `metrics` does not show, by the names of the proto file;
/// see [`no_metric`] for the exceptions.
pub fn derived<T: Numbers>(metrics: &[Metric<T>]) -> impl Iterator<Item = Metric<T>> {
    let is_left = |number: &&Number| {
        !metrics.iter().any(|metric| metric.shows(number.path))
            && no_metric::reason::<T>(number.path).is_none()
    };
    T::NUMBERS.iter().filter(is_left).map(|&Number { path, metric, grows, comment }| {
        if grows { counter(metric, comment, path) } else { gauge(metric, comment, path) }
    })
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

/// Writes all `metrics` of all `rows`, and those derived from the proto file.
pub fn encode_all<T: Numbers>(
    encoder: &mut DescriptorEncoder,
    metrics: &[Metric<T>],
    rows: &[Row<T>],
) -> fmt::Result {
    encode(encoder, metrics, rows)?;
    derived(metrics).try_for_each(|metric| encode_one(encoder, &metric, rows))
}

/// Writes these `metrics` of all `rows`.
pub fn encode<T>(encoder: &mut DescriptorEncoder, metrics: &[Metric<T>], rows: &[Row<T>]) -> fmt::Result {
    metrics.iter().try_for_each(|metric| encode_one(encoder, metric, rows))
}

fn encode_one<T>(encoder: &mut DescriptorEncoder, metric: &Metric<T>, rows: &[Row<T>]) -> fmt::Result {
    let (name, unit) = split_unit(metric.name);
    let mut values = Vec::new();
    for row in rows {
        let of_row: LabeledValues<'_> = match metric.read {
            Read::One(read, path) => {
                read(row.of, path).map(|number| (("", ""), Value::of(path, number))).into_iter().collect()
            }
            Read::Labeled(read, label, of) => {
                let value = |&(value, path)| Some(((label, value), Value::of(path, read(row.of, path)?)));
                of.iter().filter_map(value).collect()
            }
            Read::Computed(_, read) => read(row.of),
        };
        values.extend(of_row.into_iter().map(|(more, value)| {
            let more = (!more.0.is_empty()).then_some(more);
            (row.labels.iter().copied().chain(more).collect::<Vec<_>>(), value)
        }));
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
