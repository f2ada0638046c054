//! Values with a notation of their own: speeds and names, and references by name.

use std::collections::{BTreeMap, BTreeSet};

use switch::settings::VLANS;
use toml::de::DeValue;
use wire::mac::MacAddr;

use crate::read::diagnostics::Diagnostics;
use crate::read::suggest::{did_you_mean, quoted};
use crate::read::table_reader::{Item, Setting, TableReader};
use crate::spec::{TableSpec, number, text};

/// Maximum speed of a port: the fastest Ethernet of today.
pub(crate) const MAX_SPEED_BPS: u64 = 800_000_000_000;

/// Longest name of an interface: `IFNAMSIZ` of the kernel less the terminating zero.
const INTERFACE_BYTES: usize = 15;

/// Longest name of a switch, a port, a profile or a table.
const NAME_BYTES: usize = 64;

/// The lowest speed that may be written as a number. In bit/s a lower one is a speed without its
/// unit, such as 10 for "10G"; a string says what is meant.
const MIN_NUMBER_BPS: u64 = 1_000_000;

/// Reads a speed in bit/s: a whole number, or a string such as "500M" or "2.5G".
pub fn speed(item: Item, report: &mut Diagnostics) -> Option<Setting<u64>> {
    const CURE: &str = "write a speed up to \"800G\", as in \"500M\" or \"2.5G\", or a whole number of bit/s";
    const UNIT: &str = "a number is in bit/s, and may be 1000000 or more; write a speed with its unit, as in \"10M\" or \"10G\"";
    let bps = match item.value() {
        DeValue::String(text) => parse_speed(text),
        DeValue::Integer(digits) => {
            u64::from_str_radix(digits.as_str(), digits.radix()).ok().filter(is_speed)
        }
        _ => return item.wrong_type(CURE, report),
    };
    match bps {
        Some(low) if low < MIN_NUMBER_BPS && !matches!(item.value(), DeValue::String(_)) => {
            item.wrong_type(UNIT, report)
        }
        Some(value) => Some(Setting { value, location: item.location }),
        None => item.wrong_type(CURE, report),
    }
}

fn is_speed(bps: &u64) -> bool {
    (1..=MAX_SPEED_BPS).contains(bps)
}

/// Parses a speed such as "500M" or "2.5G", in bit/s; `None` if it is invalid or above the maximum
/// of a port, 800G.
pub fn parse_speed(text: &str) -> Option<u64> {
    parse_units(text, &[("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)]).filter(is_speed)
}

/// Parses a number such as "2.5G" with the multipliers in `units`; `None` if it is invalid or the
/// result is not whole.
pub fn parse_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    units.iter().find_map(|(name, unit)| multiple(text.strip_suffix(name)?, *unit))
}

/// Multiplies `number`, which may have a fraction, by `unit`.
fn multiple(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole = digits(whole)?.checked_mul(unit)?;
    let scale = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scaled = digits(fraction)?.checked_mul(unit)?;
    // A fraction of one, such as of a bit, is never intended.
    if scaled % scale != 0 {
        return None;
    }
    whole.checked_add(scaled / scale)
}

/// Formats a speed in bit/s as [`parse_speed`] reads it.
pub fn spell_speed(bps: u64) -> String {
    let (unit, name, decimals) = match bps {
        1_000_000_000.. => (1_000_000_000, "G", 9),
        1_000_000.. => (1_000_000, "M", 6),
        _ => (1_000, "K", 3),
    };
    let number = format!("{}.{:0decimals$}", bps / unit, bps % unit);
    format!("{}{name}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// Parses a number that consists of digits only.
pub(crate) fn digits(text: &str) -> Option<u64> {
    // `parse` alone would accept a sign too.
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Reads the name of a network interface.
pub(crate) fn interface(name: Setting<&str>, report: &mut Diagnostics) -> Option<Setting<String>> {
    let text = name.value;
    if text.len() > INTERFACE_BYTES {
        let what = format!("{} is {} bytes long", quoted(text), text.len());
        report.add(&name.location, what, format!("the kernel's names have at most {INTERFACE_BYTES}"));
        return None;
    }
    // As `dev_valid_name` of the kernel.
    let legal = !text.is_empty()
        && text != "."
        && text != ".."
        && !text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control());
    if !legal {
        report.add(
            &name.location,
            format!("{} cannot be an interface", quoted(text)),
            "write a name that `ip link` shows",
        );
        return None;
    }
    Some(Setting { value: text.to_owned(), location: name.location })
}

/// Returns true if a switch, a port, a profile or a table can have this name. Names are shown in
/// tables, and a switch's is part of its socket's path.
pub fn is_name(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_BYTES).contains(&text.len()) && text.bytes().all(legal)
}

/// Cure for a name that [`is_name`] refuses.
pub const NAME_CURE: &str = "use up to 64 ASCII letters (a to z, A to Z), digits, '-', '_' and '.'";

/// Takes all tables below `section`, in the order of the file, with their names; tables with an
/// invalid name are left out.
pub(crate) fn named_tables<'d>(
    section: &mut TableReader<'d>,
    report: &mut Diagnostics,
) -> Vec<(String, TableReader<'d>)> {
    let mut named = Vec::new();
    for (name, section) in section.sections(report) {
        if is_name(name) {
            named.push((name.to_owned(), section));
        } else {
            report.add(&section.location, format!("{} is no name", quoted(name)), NAME_CURE);
        }
    }
    named
}

/// Returns the item of `known` that `binding` names. Each item is a `what` and written as
/// `example`; `built_in` lists names that need not be written.
pub(crate) fn resolve_name<T: Clone>(
    known: &BTreeMap<String, T>,
    binding: &Setting<&str>,
    what: &str,
    (example, built_in): (&str, &[&str]),
    report: &mut Diagnostics,
) -> Option<T> {
    let value = known.get(binding.value);
    if value.is_none() {
        report.add_lazily(&binding.location, || {
            let names: Vec<&str> = known
                .keys()
                .map(String::as_str)
                .chain(built_in.iter().copied())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect();
            let is_written = known.keys().any(|name| !built_in.contains(&name.as_str()));
            let cure = did_you_mean(binding.value, &names).unwrap_or_else(|| match (is_written, built_in) {
                (true, _) => format!("known: {}", names.join(", ")),
                (false, []) => format!("define it as {example}"),
                (false, names) => format!("define it as {example}, or take {}", names.join(", ")),
            });
            (format!("there is no {what} {}", quoted(binding.value)), cure)
        });
    }
    value.cloned()
}

/// A station: its address, and its VLAN if the file sets it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StaticMac {
    pub(crate) mac: MacAddr,
    pub(crate) vlan: Option<u16>,
}

pub(crate) const STATIC_MAC: TableSpec = &[
    number("vlan", *VLANS.start() as i64, *VLANS.end() as i64)
        .otherwise("the PVID", "The VLAN in which the address is."),
    text("address", "02:00:00:00:00:01").required("A MAC address of one station."),
];

/// Reads a list of MAC addresses of stations, or of tables that set their VLANs, too.
pub(crate) fn static_macs(item: Item, report: &mut Diagnostics) -> Vec<Setting<StaticMac>> {
    const CURE: &str = "write a list of MAC addresses, as in [\"02:00:00:00:00:01\"]";
    let Some(items) = item.list() else {
        item.wrong_type::<()>(CURE, report);
        return Vec::new();
    };
    items.into_iter().filter_map(|item| station(item, CURE, report)).collect()
}

fn station(item: Item, cure: &str, report: &mut Diagnostics) -> Option<Setting<StaticMac>> {
    if !matches!(item.value(), DeValue::Table(_)) {
        let mac = address(&item, cure, report)?;
        return Some(Setting { value: StaticMac { mac: mac.value, vlan: None }, location: mac.location });
    }
    let location = item.location.clone();
    let mut section = item.section(location.clone(), cure, report)?;
    let vlan = section.number("vlan", report);
    let mac = section.item("address").map(|item| address(&item, cure, report));
    section.finish(report);
    if mac.is_none() {
        report.add(&location, "no address", "write { address = \"02:00:00:00:00:01\", vlan = 10 }");
    }
    let value = StaticMac { mac: mac??.value, vlan: vlan.map(|vlan| vlan.value) };
    Some(Setting { value, location })
}

fn address(item: &Item, cure: &str, report: &mut Diagnostics) -> Option<Setting<MacAddr>> {
    let DeValue::String(text) = item.value() else { return item.wrong_type(cure, report) };
    match text.parse::<MacAddr>() {
        Ok(value) if !value.is_group() && !value.is_zero() => {
            Some(Setting { value, location: item.location.clone() })
        }
        Ok(value) => {
            let what = format!("{value} is no station's address");
            report.add(&item.location, what, "write one whose first byte is even");
            None
        }
        Err(_) => item.wrong_type(cure, report),
    }
}

/// Returns true for an IPv4 address or a host name.
pub(crate) fn is_host(host: &str) -> bool {
    let numeric = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if numeric {
        host.parse::<std::net::Ipv4Addr>().is_ok()
    } else {
        host.len() <= 253 && host.split('.').all(is_label)
    }
}

/// Returns true for a label of a host name.
fn is_label(label: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len()) && label.bytes().all(legal) && !label.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::{parse_speed, spell_speed};

    #[test]
    fn speeds() {
        for (text, bps) in [
            ("500M", Some(500_000_000)),
            ("1G", Some(1_000_000_000)),
            ("2.5G", Some(2_500_000_000)),
            ("64K", Some(64_000)),
            ("0.000000001G", Some(1)),
            ("800G", Some(800_000_000_000)),
            ("0G", None),
            ("801G", None),
            ("0.0000000001G", None),
            ("-1G", None),
            ("+1G", None),
            ("1.G", None),
            (".5G", None),
            ("G", None),
            ("", None),
            ("1g", None),
            ("10Gbit/s", None),
            ("1 G", None),
            ("99999999999999999999G", None),
            ("18446744074G", None),
            ("1.00000000000000000000G", None),
            ("é", None),
        ] {
            assert_eq!(parse_speed(text), bps, "{text}");
        }
    }

    #[test]
    fn speeds_are_spelled_as_they_are_read() {
        for (bps, text) in [
            (1, "0.001K"),
            (64_000, "64K"),
            (999_999, "999.999K"),
            (500_000_000, "500M"),
            (1_000_000_000, "1G"),
            (2_500_000_000, "2.5G"),
            (10_000_000_001, "10.000000001G"),
            (800_000_000_000, "800G"),
        ] {
            assert_eq!(spell_speed(bps), text);
            assert_eq!(parse_speed(text), Some(bps), "{text}");
        }
    }
}
