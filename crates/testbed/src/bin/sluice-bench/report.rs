//! The results as Markdown and as a picture: medians, and ratios to the bare loop within a round,
//! with their spread.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::forwarders::Forwarder;

/// One measurement of a forwarding rate.
#[derive(Debug, Clone, Copy)]
pub struct RateRun {
    pub forwarder: Forwarder,
    /// Frame size without FCS.
    pub bytes: u32,
    /// Forwarded frames, in millions a second.
    pub mpps: f64,
}

/// One measurement of one-way latency at a rate in frames a second.
#[derive(Debug, Clone, Copy)]
pub struct LatencyRun {
    pub forwarder: Forwarder,
    pub rate: u32,
    pub p50_us: f64,
    pub p99_us: f64,
}

/// The measurements of all rounds, in order.
pub struct BenchReport {
    rounds: u32,
    seconds: u32,
    pub rates: Vec<RateRun>,
    pub latencies: Vec<LatencyRun>,
}

/// Median, least and greatest of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
}

impl Spread {
    /// Returns nothing without numbers.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, greatest) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { median, least, greatest })
    }
}

impl BenchReport {
    pub fn new(rounds: u32, seconds: u32) -> Self {
        Self { rounds, seconds, rates: Vec::new(), latencies: Vec::new() }
    }

    /// Returns the tables.
    pub fn markdown(&self) -> String {
        let mut text = self.rate_table();
        if !self.latencies.is_empty() {
            text += &format!("\n{}", self.latency_table());
        }
        text
    }

    /// Writes peers.md and peers.svg.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let text = format!(
            "# Sluice beside other forwarders\n\nWritten by `cargo xtask bench --with-peers`: {} interleaved rounds of {} s \
             for each figure, one core for the forwarder and one for\ngenerator and sink, veths with one queue, Linux {}. \
             Sluice has PFC with a watchdog, WRED with ECN, ETS\nand alarms on. The bridge works in the kernel, on the generator's core. Ratios are of one round; times and rates \
             depend on the machine ([how to read them](performance.md)).\n\n![Forwarding rates](peers.svg)\n\n{}",
            self.rounds,
            self.seconds,
            kernel.trim(),
            self.markdown()
        );
        for (name, content) in [("peers.md", text), ("peers.svg", self.picture())] {
            let path = folder.join(name);
            std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn rates_of(&self, forwarder: Forwarder, bytes: u32) -> Vec<f64> {
        let of = |run: &&RateRun| run.forwarder == forwarder && run.bytes == bytes;
        self.rates.iter().filter(of).map(|run| run.mpps).collect()
    }

    /// Returns the frame sizes in the order of their first measurement.
    fn sizes(&self) -> Vec<u32> {
        let mut sizes = Vec::new();
        self.rates.iter().for_each(|run| {
            if !sizes.contains(&run.bytes) {
                sizes.push(run.bytes);
            }
        });
        sizes
    }

    fn rate_table(&self) -> String {
        let mut text =
            "| frame | forwarder | median Mpps | to the bare loop | spread |\n|---:|---|---:|---:|---|\n"
                .to_owned();
        for bytes in self.sizes() {
            let bare = self.rates_of(Forwarder::BareLoop, bytes);
            for forwarder in Forwarder::ALL {
                let rates = self.rates_of(forwarder, bytes);
                let ratios = Spread::of(rates.iter().zip(&bare).map(|(rate, bare)| rate / bare));
                let (Some(rate), Some(ratio)) = (Spread::of(rates), ratios) else { continue };
                let _ = writeln!(
                    text,
                    "| {bytes} | {} | {:.3} | {:.2} | {:.2} to {:.2} |",
                    forwarder.name(),
                    rate.median,
                    ratio.median,
                    ratio.least,
                    ratio.greatest
                );
            }
        }
        text
    }

    fn latency_table(&self) -> String {
        let mut rates: Vec<u32> = self.latencies.iter().map(|run| run.rate).collect();
        rates.sort_unstable();
        rates.dedup();
        let mut text =
            "| frames a second | forwarder | p50 µs | spread | p99 µs | spread |\n|---:|---|---:|---|---:|---|\n".to_owned();
        for rate in rates {
            for forwarder in Forwarder::ALL {
                let of = |run: &&LatencyRun| run.forwarder == forwarder && run.rate == rate;
                let runs: Vec<&LatencyRun> = self.latencies.iter().filter(of).collect();
                let p50 = Spread::of(runs.iter().map(|run| run.p50_us));
                let p99 = Spread::of(runs.iter().map(|run| run.p99_us));
                let (Some(p50), Some(p99)) = (p50, p99) else { continue };
                let _ = writeln!(
                    text,
                    "| {rate} | {} | {:.0} | {:.0} to {:.0} | {:.0} | {:.0} to {:.0} |",
                    forwarder.name(),
                    p50.median,
                    p50.least,
                    p50.greatest,
                    p99.median,
                    p99.least,
                    p99.greatest
                );
            }
        }
        text
    }

    /// Returns a bar for each median rate, with a line from the least to the greatest.
    fn picture(&self) -> String {
        let (left, width, bar) = (220.0, 480.0, 22.0);
        let all = self.rates.iter().map(|run| run.mpps).fold(f64::MIN_POSITIVE, f64::max);
        let x = |mpps: f64| left + width * mpps / all;
        let (mut bars, mut y) = (String::new(), 10.0);
        for bytes in self.sizes() {
            y += 24.0;
            let _ = writeln!(bars, r#"<text x="10" y="{y}" font-weight="bold">{bytes} bytes, Mpps</text>"#);
            y += 10.0;
            for forwarder in Forwarder::ALL {
                let Some(rate) = Spread::of(self.rates_of(forwarder, bytes)) else { continue };
                let color = if forwarder == Forwarder::Sluice { "#0b7285" } else { "#adb5bd" };
                let (middle, text_y) = (y + bar / 2.0 - 2.0, y + bar / 2.0 + 3.0);
                let _ = writeln!(
                    bars,
                    r##"<text x="{}" y="{text_y}" text-anchor="end">{}</text><rect x="{left}" y="{y}" width="{:.1}" height="{}" fill="{color}"/><path d="M{:.1} {middle}H{:.1}" stroke="#212529"/><text x="{:.1}" y="{text_y}">{:.3}</text>"##,
                    left - 8.0,
                    forwarder.name(),
                    x(rate.median) - left,
                    bar - 4.0,
                    x(rate.least),
                    x(rate.greatest),
                    x(rate.greatest) + 6.0,
                    rate.median
                );
                y += bar;
            }
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"780\" height=\"{}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{bars}</svg>\n",
            y + 12.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> BenchReport {
        let mut report = BenchReport::new(3, 1);
        for (bare, sluice) in [(1.0, 0.9), (2.0, 2.2), (0.5, 0.5)] {
            for (forwarder, mpps) in [(Forwarder::BareLoop, bare), (Forwarder::Sluice, sluice)] {
                report.rates.push(RateRun { forwarder, bytes: 60, mpps });
            }
            report.latencies.push(LatencyRun {
                forwarder: Forwarder::Sluice,
                rate: 39_000,
                p50_us: 60.0 * bare,
                p99_us: 90.0,
            });
        }
        report
    }

    #[test]
    fn ratios_are_those_of_a_round() {
        let text = report().markdown();
        assert!(text.contains("| 60 | Sluice | 0.900 | 1.00 | 0.90 to 1.10 |"), "{text}");
        assert!(text.contains("| 39000 | Sluice | 60 | 30 to 120 | 90 | 90 to 90 |"), "{text}");
    }

    #[test]
    fn a_forwarder_that_was_not_measured_has_no_row() {
        assert!(!report().markdown().contains("DPDK"));
        assert!(!report().picture().contains("DPDK"));
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, least: 1.0, greatest: 4.0 }));
        assert_eq!(Spread::of([]), None);
    }
}
