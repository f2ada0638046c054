//! Values with a format of their own: times, bytes, rates; and the limits of a scenario.

use std::ops::RangeInclusive;

use config::read::toml_document::{Diagnostics, Item, Setting, parse_units, spell_units};
use switch::Nanos;
use toml::de::DeValue;

/// The most switches and hosts together.
pub(super) const MAX_NODES: usize = 4096;
/// The most switches. Each takes memory for all its cells.
pub(super) const MAX_SWITCHES: usize = 512;

/// Returns the text of a configuration file by its path in the scenario, or the reason why it
/// cannot be read.
pub(super) type Load<'l> = &'l mut dyn FnMut(&str) -> Result<String, String>;

/// The longest time of a scenario.
pub(super) const MAX_TIME_NS: Nanos = 1_000_000_000_000;
/// The most bytes of a message.
const MAX_BYTES: u64 = 1_000_000_000_000;
/// The most bit/s of many links together.
const MAX_THROUGHPUT_BPS: u64 = 1_000_000_000_000_000;

/// Units of time in nanoseconds, for [`parse_units`].
pub const TIMES: &[(&str, u64)] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const BYTES: &[(&str, u64)] = &[("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
const THROUGHPUTS: &[(&str, u64)] =
    &[("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("T", 1_000_000_000_000)];

/// Reads a time, such as "20ms".
pub(super) fn time(
    item: Item,
    range: RangeInclusive<Nanos>,
    report: &mut Diagnostics,
) -> Option<Setting<Nanos>> {
    let (least, most) = (spell_time(*range.start()), spell_time(*range.end()));
    let cure = format!("write a time from {least} to {most}, as in \"20ms\" or \"1.5us\"");
    let DeValue::String(text) = item.value() else { return item.wrong_type(&cure, report) };
    in_range(parse_units(text, TIMES), range, item, &cure, report)
}

/// Reads the bytes of a message, such as 1500 or "1M".
pub(super) fn bytes(item: Item, report: &mut Diagnostics) -> Option<Setting<u64>> {
    const CURE: &str = "write bytes up to \"1000G\", as in 1500, \"64k\" or \"1M\"";
    let bytes = match item.value() {
        DeValue::String(text) => parse_units(text, BYTES),
        DeValue::Integer(digits) => u64::from_str_radix(digits.as_str(), digits.radix()).ok(),
        _ => return item.wrong_type(CURE, report),
    };
    in_range(bytes, 1..=MAX_BYTES, item, CURE, report)
}

/// Reads the throughput of many links together, such as "3.96G" or in bit/s.
pub(super) fn throughput(item: Item, report: &mut Diagnostics) -> Option<Setting<u64>> {
    const CURE: &str = "write a rate up to \"1000T\", as in \"4G\", or a whole number of bit/s";
    let bps = match item.value() {
        DeValue::String(text) => parse_units(text, THROUGHPUTS),
        DeValue::Integer(digits) => u64::from_str_radix(digits.as_str(), digits.radix()).ok(),
        _ => return item.wrong_type(CURE, report),
    };
    in_range(bps, 0..=MAX_THROUGHPUT_BPS, item, CURE, report)
}

/// Reads a decimal number.
pub(super) fn decimal(
    item: Item,
    range: RangeInclusive<f64>,
    report: &mut Diagnostics,
) -> Option<Setting<f64>> {
    let cure = format!("write a number from {} to {}", range.start(), range.end());
    let number = match item.value() {
        DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str().parse().ok(),
        DeValue::Float(digits) => digits.as_str().parse().ok(),
        _ => None,
    };
    in_range(number, range, item, &cure, report)
}

fn in_range<T: PartialOrd>(
    value: Option<T>,
    range: RangeInclusive<T>,
    item: Item,
    cure: &str,
    report: &mut Diagnostics,
) -> Option<Setting<T>> {
    match value.filter(|value| range.contains(value)) {
        Some(value) => Some(Setting { value, location: item.location }),
        None => item.wrong_type(cure, report),
    }
}

/// Reads a string.
pub(super) fn text<'d>(item: Item<'d>, cure: &str, report: &mut Diagnostics) -> Option<Setting<&'d str>> {
    match item.value() {
        DeValue::String(text) => Some(Setting { value: text.as_ref(), location: item.location }),
        _ => item.wrong_type(cure, report),
    }
}

/// Formats a time as in the file.
pub(super) fn spell_time(ns: Nanos) -> String {
    spell_units(ns, TIMES)
}

/// Rejects a time at or after the end, which would have no effect.
pub(super) fn before_the_end(at: &Setting<Nanos>, duration_ns: Nanos, report: &mut Diagnostics) {
    if at.value >= duration_ns {
        let what = format!("{} is not before the end, {}", spell_time(at.value), spell_time(duration_ns));
        report.add(&at.location, what, "choose an earlier time, or a longer duration");
    }
}

#[cfg(test)]
mod tests {
    use super::{TIMES, parse_units, spell_time};

    #[test]
    fn times() {
        for (text, ns) in [
            ("0s", Some(0)),
            ("1ns", Some(1)),
            ("1.5us", Some(1_500)),
            ("20ms", Some(20_000_000)),
            ("0.02s", Some(20_000_000)),
            ("1000s", Some(1_000_000_000_000)),
            ("0.5ns", None),
            ("1", None),
            ("ms", None),
            ("-1ms", None),
            ("1 ms", None),
            ("1m", None),
            ("1MS", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(parse_units(text, TIMES), ns, "{text}");
        }
        for (ns, text) in [
            (0, "0ns"),
            (10, "10ns"),
            (1_500, "1.5us"),
            (20_000_000, "20ms"),
            (1_000_000_001, "1.000000001s"),
        ] {
            assert_eq!(spell_time(ns), text);
            assert_eq!(parse_units(text, TIMES), Some(ns));
        }
    }
}
