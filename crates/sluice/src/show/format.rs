//! Formats of tables and numbers.

use control::v1::{Count, Port, Snapshot};

pub use crate::output::{Grid, grouped, table, tenths};

/// Unit of buffer sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Word for the headings.
    pub name: &'static str,
    each: u64,
}

impl Unit {
    /// Cells, as the switch counts.
    pub const CELLS: Unit = Unit { name: "cells", each: 1 };

    /// Bytes of these cells, whether or not frames fill them.
    pub fn bytes(cell_bytes: u32) -> Self {
        Self { name: "bytes", each: cell_bytes.into() }
    }

    /// Formats `cells` in this unit.
    pub fn of(self, cells: impl Into<u64>) -> String {
        grouped(cells.into() * self.each)
    }
}

/// Formats a part in percent of the whole. If the whole is 0, 0 is 0 % and anything else 100 %.
pub fn percent(part: u64, whole: u64) -> String {
    let whole = if whole == 0 { part.max(1) } else { whole };
    tenths(part as f64 * 100.0 / whole as f64)
}

/// Formats bit/s as Mbit/s.
pub fn mbit(bps: u64) -> String {
    if bps.is_multiple_of(1_000_000) { grouped(bps / 1_000_000) } else { tenths(bps as f64 / 1e6) }
}

/// Formats bytes under the heading that [`volume_unit`] returns: MB since the start, or Mbit/s
/// since `elapsed_ns` ago, when the count was `before`.
pub fn volume(now: Option<Count>, before: Option<Count>, elapsed_ns: u64) -> String {
    let now = now.unwrap_or_default().bytes;
    if elapsed_ns == 0 {
        return tenths(now as f64 / 1e6);
    }
    let bits = now.saturating_sub(before.unwrap_or_default().bytes) as f64 * 8.0;
    tenths(bits * 1e3 / elapsed_ns as f64)
}

/// Returns MB, or Mbit/s if there is an earlier snapshot.
pub fn volume_unit(elapsed_ns: u64) -> &'static str {
    if elapsed_ns == 0 { "MB" } else { "Mbit/s" }
}

/// Formats frames since the start, or per second since `elapsed_ns` ago, when the count was
/// `before`.
pub fn rate(now: Option<Count>, before: Option<Count>, elapsed_ns: u64) -> String {
    let (now, before) = (now.unwrap_or_default().frames, before.unwrap_or_default().frames);
    grouped(per_second(now, before, elapsed_ns).unwrap_or(now))
}

/// Returns the growth of a count per second since `elapsed_ns` ago, when it was `before`; `None`
/// without an earlier snapshot.
pub fn per_second(now: u64, before: u64, elapsed_ns: u64) -> Option<u64> {
    let more = u128::from(now.saturating_sub(before)) * 1_000_000_000;
    Some(more.checked_div(u128::from(elapsed_ns))? as u64)
}

/// Returns the percentage of its line rate that a port used since `elapsed_ns` ago, when it was
/// `before`, by its count `of`; `None` without a speed, or without an earlier snapshot.
pub fn utilization_percent(
    port: &Port,
    before: Option<&Port>,
    elapsed_ns: u64,
    of: impl Fn(&Port) -> Option<Count>,
) -> Option<f64> {
    if port.speed_bps == 0 || elapsed_ns == 0 {
        return None;
    }
    let line_bytes = |port: &Port| {
        let Count { frames, bytes } = of(port).unwrap_or_default();
        bytes + frames * u64::from(port.overhead_bytes)
    };
    let bits = 8 * line_bytes(port).saturating_sub(line_bytes(before?));
    Some(bits as f64 * 1e11 / elapsed_ns as f64 / port.speed_bps as f64)
}

/// Formats the frames of a count with separators of thousands.
pub fn frames(count: Option<Count>) -> String {
    grouped(count.unwrap_or_default().frames)
}

pub fn earlier<'a>(before: Option<&'a Snapshot>, name: &str) -> Option<&'a Port> {
    before?.ports.iter().find(|port| port.name == name)
}

/// Nanoseconds between two snapshots; 0 if there is only one.
pub fn elapsed_ns(now: &Snapshot, before: Option<&Snapshot>) -> u64 {
    before.map_or(0, |before| now.at_ns.saturating_sub(before.at_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 81,274 frames of 1514 bytes and 24 more each fill 1 Gbit/s.
    #[test]
    fn utilization_counts_what_frames_take_of_the_line() {
        let port = |frames| Port {
            speed_bps: 1_000_000_000,
            overhead_bytes: 24,
            transmitted: Some(Count { frames, bytes: 1514 * frames }),
            ..Port::default()
        };
        let percent = |port: &Port, before: Option<&Port>, elapsed_ns| {
            utilization_percent(port, before, elapsed_ns, |port| port.transmitted)
        };
        let used = percent(&port(182_548), Some(&port(20_000)), 2_000_000_000).unwrap();
        assert!((used - 100.0).abs() < 0.01, "{used}");
        assert_eq!(percent(&port(5), None, 1), None);
        assert_eq!(percent(&Port::default(), Some(&Port::default()), 1), None);
    }

    #[test]
    fn rates_are_mbit_per_second() {
        assert_eq!(mbit(500_000_000), "500");
        assert_eq!(mbit(25_000_000_000), "25,000");
        assert_eq!(mbit(1_500_000), "1.5");
        let count = |bytes| Some(Count { frames: 0, bytes });
        assert_eq!(volume(count(62_500_000), count(0), 1_000_000_000), "500.0");
        assert_eq!(volume(count(62_500_000), count(62_500_000 - 125), 500_000_000), "0.0");
        assert_eq!(volume(count(62_500_000), None, 0), "62.5");
    }
}
