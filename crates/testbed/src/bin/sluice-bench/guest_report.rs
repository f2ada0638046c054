//! The results of forwarding between guests, as Markdown: medians, and ratios within a round, with
//! their spread.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use testbed::Spread;

/// Who serves the two sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackEnd {
    Sluice,
    Testpmd,
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct GuestRun {
    pub back_end: BackEnd,
    /// Frame size without FCS.
    pub bytes: u32,
    /// Descriptors of a ring.
    pub ring: u32,
    /// Forwarded frames in both directions, in millions a second.
    pub mpps: f64,
}

/// The measurements of all rounds, in order.
pub struct GuestReport {
    rounds: u32,
    seconds: u32,
    pub runs: Vec<GuestRun>,
    /// Rates of Sluice between two veths, by frame size.
    pub veths: Vec<(u32, f64)>,
}

impl GuestReport {
    pub fn new(rounds: u32, seconds: u32) -> Self {
        Self { rounds, seconds, runs: Vec::new(), veths: Vec::new() }
    }

    fn rates(&self, back_end: BackEnd, bytes: u32, ring: u32) -> Vec<f64> {
        let of = |run: &&GuestRun| (run.back_end, run.bytes, run.ring) == (back_end, bytes, ring);
        self.runs.iter().filter(of).map(|run| run.mpps).collect()
    }

    /// Returns the table.
    pub fn markdown(&self) -> String {
        let mut text = "| frame | rings | Sluice Mpps | testpmd Mpps | Sluice to testpmd | spread | veths Mpps | to veths |\n\
                        |---:|---:|---:|---:|---:|---|---:|---:|\n"
            .to_owned();
        let mut kinds: Vec<(u32, u32)> = self.runs.iter().map(|run| (run.bytes, run.ring)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for (bytes, ring) in kinds {
            let [ours, theirs] = [BackEnd::Sluice, BackEnd::Testpmd].map(|of| self.rates(of, bytes, ring));
            let of_size = self.veths.iter().filter(|(size, _)| *size == bytes);
            let veths: Vec<f64> = of_size.map(|(_, mpps)| *mpps).collect();
            let ratio = |to: &[f64]| Spread::of(ours.iter().zip(to).map(|(rate, other)| rate / other));
            let [Some(to_testpmd), Some(to_veths)] = [ratio(&theirs), ratio(&veths)] else { continue };
            let median = |rates: Vec<f64>| Spread::of(rates).map_or(0.0, |spread| spread.median);
            let _ = writeln!(
                text,
                "| {bytes} | {ring} | {:.2} | {:.2} | {:.2} | {:.2} to {:.2} | {:.2} | {:.1} |",
                median(ours.clone()),
                median(theirs),
                to_testpmd.median,
                to_testpmd.least,
                to_testpmd.greatest,
                median(veths),
                to_veths.median,
            );
        }
        text
    }

    /// Writes peers-vhost.md.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let text = format!(
            "# Ports on vhost-user sockets beside DPDK\n\nWritten by `cargo xtask bench --vhost`: {} interleaved rounds of {} s for each figure, one core for the forwarder and one for\n\
             the hosts, which are DPDK's testpmd with two virtio_user ports for both forwarders. Frames go round in both directions, half as\n\
             many in each as a ring holds; rates are those of both directions together. Frame sizes are without FCS. Sluice has a no-drop priority\n\
             with PFC and its watchdog, WRED with ECN, ETS and alarms on; testpmd forwards between two net_vhost ports and decides nothing. Beside:\n\
             Sluice with the same features between two veths. Ratios are of one round, medians; times and rates depend on the machine\n\
             ([how to read them](performance.md), Linux {}).\n\n{}",
            self.rounds,
            self.seconds,
            kernel.trim(),
            self.markdown()
        );
        let path = folder.join("peers-vhost.md");
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_a_round() {
        let mut report = GuestReport::new(3, 1);
        for (ours, theirs) in [(1.0, 2.0), (6.0, 2.0), (4.0, 4.0)] {
            let run = |back_end, mpps| GuestRun { back_end, bytes: 60, ring: 256, mpps };
            report.runs.extend([run(BackEnd::Sluice, ours), run(BackEnd::Testpmd, theirs)]);
            report.veths.push((60, 0.5));
        }
        let row = "| 60 | 256 | 4.00 | 2.00 | 1.00 | 0.50 to 3.00 | 0.50 | 8.0 |";
        assert!(report.markdown().contains(row), "{}", report.markdown());
    }
}
