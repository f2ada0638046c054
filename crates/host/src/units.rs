//! Quantities for people. On the command line: `600M` (bit/s) and `10us`. They are parsed exactly,
//! without floating point; a quantity that is not a whole number of bit/s or ns is rejected.

use switch::Nanos;

/// Decimal multiples of a bit per second.
const RATE_UNITS: [(&str, u64); 5] =
    [("", 1), ("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];

const DURATION_UNITS: [(&str, u64); 5] =
    [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// Parses a rate such as `600M` or `2.5G`, in bit/s.
///
/// # Errors
/// The problem and the expected format.
pub fn rate_bps(text: &str) -> Result<u64, String> {
    scaled(text, &RATE_UNITS).ok_or_else(|| {
        format!("'{text}' is no rate; write a number of bit/s with k, M or G, such as 600M or 2.5G")
    })
}

/// Parses a duration such as `10us`, `1.5ms` or `10s`, in nanoseconds; a bare `0` needs no unit.
///
/// # Errors
/// The problem and the expected format.
pub fn duration_ns(text: &str) -> Result<Nanos, String> {
    if text == "0" {
        return Ok(0);
    }
    scaled(text, &DURATION_UNITS).ok_or_else(|| {
        format!("'{text}' is no duration; write a number with ns, us, ms or s, such as 10us or 1.5s")
    })
}

/// Formats a number with separators of thousands: 1234567 → 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Parses digits, an optional fraction, and one of `units`. `None` if `text` has another form, does
/// not fit or leaves a remainder.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction = fraction.parse::<u64>().ok()?.checked_mul(factor)?;
    if fraction % scale != 0 {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(fraction / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn rates_are_read_exactly_or_refused() {
        for (text, bps) in [
            ("600M", Some(600_000_000)),
            ("2.5G", Some(2_500_000_000)),
            ("64k", Some(64_000)),
            ("0.5k", Some(500)),
            ("1", Some(1)),
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("18446744073709551615k", None),
            ("1.5", None),
            ("1.0000001M", None),
            ("", None),
            ("M", None),
            (".5G", None),
            ("5.G", None),
            ("1.2.3M", None),
            ("-1M", None),
            ("10 M", None),
            ("10Mbit", None),
            ("10m", None),
        ] {
            assert_eq!(rate_bps(text).ok(), bps, "{text:?}");
        }
    }

    #[test]
    fn durations_are_read_exactly_or_refused() {
        for (text, ns) in [
            ("10us", Some(10_000)),
            ("10µs", Some(10_000)),
            ("1.5ms", Some(1_500_000)),
            ("10s", Some(10_000_000_000)),
            ("7ns", Some(7)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("0.5ns", None),
            ("10", None),
            ("10m", None),
            ("s", None),
            ("1e3s", None),
        ] {
            assert_eq!(duration_ns(text).ok(), ns, "{text:?}");
        }
        assert!(duration_ns("10").unwrap_err().contains("such as 10us"));
    }
}
