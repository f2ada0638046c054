//! `[[vary]]` and `[sweep]`: the settings that a sweep varies, and its seeds. A single run does not
//! use them.

use std::ops::RangeInclusive;

use config::read::toml_document::{Diagnostics, Setting, SettingSpan, TableReader, quoted};
use toml::de::DeValue;

use super::parse::{decimal, text};
use super::tables::{entries, required};
use super::types::{Sweep, Vary};

/// The most varied settings.
const MAX_VARIED: usize = 16;
/// The most values of a setting, and the most seeds.
const MAX_VALUES: usize = 10_000;
/// The most points, each with all seeds.
const MAX_POINTS: usize = 1_000_000;
const NUMBERS: RangeInclusive<f64> = -1e15..=1e15;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
}

/// Reads the sweep. `source` is the text of the file, from which values are taken as written.
pub(super) fn read(file: &mut TableReader, seed: u64, source: &str, report: &mut Diagnostics) -> Sweep {
    let mut sweep = Sweep { seeds: vec![seed], vary: Vec::new() };
    let table = file.section("sweep", report);
    for section in entries(file, "vary", MAX_VARIED, report) {
        let location = section.location.clone();
        let Some(vary) = read_vary(section, source, report) else { continue };
        if sweep.vary.iter().any(|other| other.key == vary.key) {
            report.add(
                &location,
                format!("{} is varied already", quoted(&vary.key)),
                "put its values together",
            );
        }
        sweep.vary.push(vary);
    }
    if let Some(mut table) = table {
        if let Some(seeds) = read_seeds(&mut table, seed, report) {
            sweep.seeds = seeds;
        }
        table.finish(report);
    }
    let points = sweep.vary.iter().fold(sweep.seeds.len(), |all, vary| all.saturating_mul(vary.values.len()));
    if points > MAX_POINTS {
        let what = format!("{points} points of the sweep are too many");
        report.add(&file.location, what, format!("{MAX_POINTS} are the most; vary fewer values or seeds"));
    }
    sweep
}

fn read_vary(mut section: TableReader, source: &str, report: &mut Diagnostics) -> Option<Vary> {
    const SET: &str = "write set = \"traffic.rdma.rate\", a KEY as of `sluice sim --set`";
    let key = section.item("set").and_then(|item| text(item, SET, report));
    let key = required(key, &section, "set", "set = \"traffic.rdma.rate\"", report);
    let listed = read_list(&mut section, source, report);
    let range = read_range(&mut section, report);
    if let (Some(location), Some(_)) = (section.location_of("from"), &listed) {
        report.add(&location, "there are values and a range", "leave one of them out");
    }
    if !section.has("values") && !section.has("from") {
        let cure = "write values = [\"10G\", \"25G\"], or from, to and step";
        report.add(&section.location, "no values", cure);
    }
    section.finish(report);
    let key = key?.value.to_owned();
    Some(Vary { key, values: listed.or(range)? })
}

fn read_list(section: &mut TableReader, source: &str, report: &mut Diagnostics) -> Option<Vec<String>> {
    const CURE: &str = "write a list, as in [\"10G\", \"25G\"] or [1, 2, 4]";
    let item = section.item("values")?;
    let Some(items) = item.list() else { return item.wrong_type(CURE, report) };
    if items.is_empty() || items.len() > MAX_VALUES {
        let what = format!("a list of {} values", items.len());
        report.add(&item.location, what, format!("write 1 to {MAX_VALUES}"));
        return None;
    }
    let mut values: Vec<String> = Vec::new();
    for item in items {
        let value = source.get(item.location.span.clone()).unwrap_or_default().to_owned();
        if values.contains(&value) {
            report.add(&item.location, format!("{value} is here twice"), "name it once");
        }
        values.push(value);
    }
    Some(values)
}

/// Reads a range: from, to, and step or steps. With a unit, values are text, such as "10us".
fn read_range(section: &mut TableReader, report: &mut Diagnostics) -> Option<Vec<String>> {
    let mut number = |name| {
        let read = section.item(name).and_then(|item| decimal(item, NUMBERS, report));
        read.map(|read| (read.value, read.location))
    };
    let (from, to, step) = (number("from"), number("to"), number("step"));
    let steps: Option<Setting<usize>> = section.number_in("steps", 2..=MAX_VALUES, report);
    let scales = [("linear", Scale::Linear), ("log", Scale::Log)];
    let scale = section.choice("scale", &scales, report);
    let unit = section.string_like("unit", "us", report).map_or("", |unit| unit.value);
    let Some((from, location)) = from else {
        for name in ["to", "step", "steps", "scale", "unit"] {
            let Some(location) = section.location_of(name) else { continue };
            report.add(&location, "has no effect without from", "write from, or leave it out");
        }
        return None;
    };
    let to = required(to, section, "to", "to = 100", report)?.0;
    if to <= from {
        report.add(&location, "the range ends before it begins", "choose a larger `to`");
        return None;
    }
    let is_log = scale.is_some_and(|scale| scale.value == Scale::Log);
    let numbers = match (step, steps) {
        (Some((step, _)), None) if step > 0.0 && !is_log && (to - from) / step < MAX_VALUES as f64 => {
            let count = ((to - from) / step * (1.0 + 1e-12)).floor() as usize;
            (0..=count).map(|number| from + step * number as f64).collect()
        }
        (None, Some(steps)) if !is_log || from > 0.0 => spread(from, to, steps.value, is_log),
        _ => {
            let cure = "write step = 10, more than 0, or steps = 5 with or without scale = \"log\", which needs from above 0";
            report.add(&location, "no proper steps", cure);
            return None;
        }
    };
    // What linear steps leave of zero.
    let noise = if is_log { 0.0 } else { (to - from) * 1e-13 };
    let whole = |number: f64| if number.abs() < noise { 0.0 } else { number };
    Some(numbers.into_iter().map(|number| spell(whole(number), unit)).collect())
}

/// Returns `count` numbers from `from` to `to`, at equal distances or ratios.
fn spread(from: f64, to: f64, count: usize, is_log: bool) -> Vec<f64> {
    let share = |number: usize| number as f64 / (count - 1) as f64;
    let at = |number| match is_log {
        _ if number + 1 == count => to,
        true => from * (to / from).powf(share(number)),
        false => from + (to - from) * share(number),
    };
    (0..count).map(at).collect()
}

/// Formats a number with at most 12 significant digits, as TOML.
fn spell(number: f64, unit: &str) -> String {
    let number: f64 = format!("{number:.11e}").parse().unwrap_or(number);
    if unit.is_empty() { number.to_string() } else { format!("\"{number}{unit}\"") }
}

/// Reads its seeds: how many, from the scenario's on, or a list.
fn read_seeds(table: &mut TableReader, seed: u64, report: &mut Diagnostics) -> Option<Vec<u64>> {
    let cure = "write a number of seeds, as in 5, or a list, as in [1, 2, 3]";
    let item = table.item("seeds")?;
    if !matches!(item.value(), DeValue::Array(_)) {
        let count: u64 = item.number_in(1..=MAX_VALUES as u64, report)?.value;
        return Some((0..count).map(|number| seed.saturating_add(number)).collect());
    }
    let seeds = item.numbers_in(0..=i64::MAX as u64, report)?;
    let twice =
        |at: &SettingSpan, report: &mut Diagnostics| report.add(at, "a seed is missing, or here twice", cure);
    let mut sorted = seeds.value.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != seeds.value.len() || sorted.is_empty() {
        twice(&seeds.location, report);
    }
    Some(seeds.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_apart_and_have_no_noise() {
        assert_eq!(spell(0.1 + 0.2, "us"), "\"0.3us\"");
        assert_eq!(spell(0.000_000_123, ""), "0.000000123");
        assert_eq!([spell(12_345_678.0, ""), spell(12_345_679.0, "")], ["12345678", "12345679"]);
    }
}
