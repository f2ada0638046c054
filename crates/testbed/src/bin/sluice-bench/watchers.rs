//! What those who look at a switch cost its forwarding rate: `sluice show --watch`, `sluice top`,
//! and `sluice capture`, whose tap is in the path of every frame.
//!
//! Rule: a pair is a run without the watcher and one with it, on the same daemon, and which comes
//! first alternates. Rounds measure every watcher once. "Nobody" is a pair of equal runs: the
//! noise.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use testbed::{Process, binary, eventually};

use crate::forwarders::{Forwarder, HOST_CORE};
use crate::network::Network;
use testbed::Spread;

/// Frame size without FCS: the most frames a second.
const BYTES: u32 = 60;

/// Who looks at the switch during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watcher {
    Nobody,
    /// All counters of all ports each second.
    Show,
    /// A picture each second.
    Top,
    /// A capture whose filter takes no frame.
    IdleCapture,
    /// A capture of every frame, in both directions.
    Capture,
}

impl Watcher {
    const ALL: [Self; 5] = [Self::Nobody, Self::Show, Self::Top, Self::IdleCapture, Self::Capture];

    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Show => "`sluice show counters --watch`",
            Self::Top => "`sluice top`",
            Self::IdleCapture => "`sluice capture --verdict dropped`, nothing is dropped",
            Self::Capture => "`sluice capture`, every frame",
        }
    }

    /// Starts the watcher on the hosts' core, and waits until it has something of the switch.
    fn start(self, network: &Network) -> Result<Option<Process>> {
        let program = binary("sluice")?;
        let sluice = |arguments: &[&str]| {
            let mut command = Command::new("taskset");
            command.args(["--cpu-list", HOST_CORE]).arg(&program).args(arguments);
            command.arg("--socket").arg(network.dir().join("control.sock"));
            command
        };
        let file = network.dir().join("watched");
        let name = file.to_str().context("a name in UTF-8")?;
        let started = |mut command: Command| Process::start("watcher", &mut command);
        let mut process = match self {
            Self::Nobody => return Ok(None),
            Self::Show => started(sluice(&["show", "counters", "--watch", "--json"]))?,
            Self::Top => {
                let top = sluice(&["top"]);
                let words: Vec<_> = std::iter::once(top.get_program()).chain(top.get_args()).collect();
                let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
                let mut script = Command::new("script");
                let line = format!("stty cols 100 rows 30; exec {}", words.join(" "));
                script.args(["--quiet", "--flush", "--command", &line, name]);
                started(script)?
            }
            Self::IdleCapture => started(sluice(&["capture", "--write", name, "--verdict", "dropped"]))?,
            Self::Capture => started(sluice(&["capture", "--write", name, "--mib", "1048576"]))?,
        };
        match self {
            Self::Top => eventually("top has drawn the ports", || {
                let drawn = std::fs::read(&file).unwrap_or_default();
                Ok(String::from_utf8_lossy(&drawn).contains("QUEUED").then_some(()))
            })?,
            Self::Show => process.wait_for("a snapshot", |line| line.contains("\"ports\"").then_some(()))?,
            _ => process.wait_for("a capture", |line| line.contains("capturing").then_some(()))?,
        }
        Ok(Some(process))
    }
}

/// Measures all watchers, and prints the ratios of the rates with a watcher to those without.
pub fn run(rounds: u32, seconds: u32, interrupted: &AtomicBool) -> Result<()> {
    let network = Network::with(Forwarder::Sluice)?;
    let mut ratios: Vec<(Watcher, f64)> = Vec::new();
    for round in 0..rounds as usize {
        for index in 0..Watcher::ALL.len() {
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted; everything is removed again");
            }
            let watcher = Watcher::ALL[(index + round) % Watcher::ALL.len()];
            let rate = |watcher: Watcher| -> Result<f64> {
                let _process = watcher.start(&network)?;
                network.measure_rate(BYTES, seconds)
            };
            let with_first = round % 2 == 1;
            let order = if with_first { [watcher, Watcher::Nobody] } else { [Watcher::Nobody, watcher] };
            let [first, second] = [rate(order[0])?, rate(order[1])?];
            let (without, with) = if with_first { (second, first) } else { (first, second) };
            println!(
                "round {}: {}: {without:.3} Mpps without, {with:.3} with, {:.3}",
                round + 1,
                watcher.name(),
                with / without
            );
            ratios.push((watcher, with / without));
        }
    }
    println!("\n{}", table(&ratios));
    Ok(())
}

/// Returns medians and spreads as Markdown.
fn table(ratios: &[(Watcher, f64)]) -> String {
    let mut text = "| who watches | ratio | of |\n|---|---:|---|\n".to_owned();
    for watcher in Watcher::ALL {
        let of = ratios.iter().filter(|(of, _)| *of == watcher).map(|(_, ratio)| *ratio);
        if let Some(Spread { median, least, greatest }) = Spread::of(of) {
            text += &format!("| {} | {median:.3} | {least:.3} to {greatest:.3} |\n", watcher.name());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_watcher_that_was_measured() {
        let ratios = [(Watcher::Top, 0.99), (Watcher::Nobody, 1.01), (Watcher::Top, 1.0)];
        let rows = "| nobody | 1.010 | 1.010 to 1.010 |\n| `sluice top` | 0.995 | 0.990 to 1.000 |\n";
        assert!(table(&ratios).ends_with(rows), "{}", table(&ratios));
    }
}
