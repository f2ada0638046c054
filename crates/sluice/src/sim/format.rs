//! Times, rates and large counts with a suitable unit.

use crate::output::grouped;

/// Units of time: nanoseconds per unit, and its name.
const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
const RATES: [(f64, &str); 5] =
    [(1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];

/// Formats a time: 12400 → 12.4 us.
pub fn time(ns: u64) -> String {
    let (size, unit) = time_unit(ns);
    format!("{} {unit}", three_digits(ns as f64 / size))
}

/// Returns the largest unit that a time reaches: its nanoseconds, and its name.
pub fn time_unit(ns: u64) -> (f64, &'static str) {
    unit(ns as f64, &TIMES)
}

/// Formats a rate: 98.4e9 → 98.4 Gbit/s.
pub fn rate(bps: f64) -> String {
    let (size, unit) = rate_unit(bps);
    format!("{} {unit}", three_digits(bps / size))
}

/// Returns the largest unit that a rate reaches: its bit/s, and its name.
pub fn rate_unit(bps: f64) -> (f64, &'static str) {
    unit(bps, &RATES)
}

/// Formats a large number in words: 12300000 → 12.3 million.
pub fn in_words(number: f64) -> String {
    let (size, word) = unit(number, &[(1e9, " billion"), (1e6, " million"), (1.0, "")]);
    let number = number / size;
    if word.is_empty() { grouped(number.round() as u64) } else { format!("{}{word}", three_digits(number)) }
}

/// Returns the unit in which the value does not round to a thousand of the next smaller one; the
/// smallest if there is none.
fn unit<'u>(value: f64, units: &[(f64, &'u str)]) -> (f64, &'u str) {
    let large_enough = units.iter().find(|(size, _)| value >= 0.9995 * size);
    *large_enough.unwrap_or(&units[units.len() - 1])
}

/// Formats a number with three digits, or all digits before the point; 12.0 is 12.
fn three_digits(number: f64) -> String {
    let text = match number {
        number if number < 9.995 => format!("{number:.2}"),
        number if number < 99.95 => format!("{number:.1}"),
        number => return format!("{number:.0}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (ns, text) in [
            (0, "0 ns"),
            (51, "51 ns"),
            (999, "999 ns"),
            (1_000, "1 us"),
            (12_400, "12.4 us"),
            (99_960, "100 us"),
            (999_499, "999 us"),
            (999_700, "1 ms"),
            (20_000_000, "20 ms"),
            (3_214_000_000, "3.21 s"),
            (1_000_000_000_000, "1000 s"),
        ] {
            assert_eq!(time(ns), text, "{ns}");
        }
    }

    #[test]
    fn rates_and_counts() {
        for (bps, text) in [
            (0.0, "0 bit/s"),
            (98.44e9, "98.4 Gbit/s"),
            (399.6e9, "400 Gbit/s"),
            (2.1951e12, "2.2 Tbit/s"),
            (2.5e6, "2.5 Mbit/s"),
            (999.96e3, "1 Mbit/s"),
        ] {
            assert_eq!(rate(bps), text, "{bps}");
        }
        for (number, text) in
            [(0.0, "0"), (154_321.4, "154,321"), (12_345_678.0, "12.3 million"), (4e9, "4 billion")]
        {
            assert_eq!(in_words(number), text, "{number}");
        }
    }
}
