//! The search: a bounded number of runs, step by step, always the same for one scenario.

use std::path::Path;

use anyhow::{Result, anyhow};
use schemars::JsonSchema;
use serde::Serialize;
use sim::scenario::{Expectation, Metric, Scenario, Scope};
use sim::{Results, Simulation};

use super::FileLines;
use super::settings::{Choice, Device, devices, overrides};
use crate::sim::input::{self, RunError};
use crate::sim::overrides::Override;

/// Factors of the headroom, while frames are lost.
const HEADROOM_FACTORS: [u32; 3] = [2, 4, 8];
/// Parts of the shared area that XOFF is set to.
const XOFF_DIVISORS: [u32; 6] = [64, 32, 16, 8, 4, 2];
/// Parts of XOFF at which marks begin; above four times that all are marked.
const ECN_DIVISORS: [u32; 5] = [64, 32, 16, 8, 4];
/// Throughput that less time in XOFF may cost.
const THROUGHPUT_SHARE: f64 = 0.98;

/// What counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Measured {
    /// No-drop frames that were lost.
    pub no_drop_lost: u64,
    /// Time in XOFF of all groups together.
    pub xoff_ns: u64,
    /// Transitions to XOFF.
    pub xoff_episodes: u64,
    /// The most headroom cells that a group used.
    pub headroom_peak_cells: u32,
    /// Received bit/s on the wire of all traffic.
    pub throughput_bps: f64,
}

/// One run.
#[derive(Serialize, JsonSchema)]
pub struct Trial {
    /// What it tries: as it is, headroom, XOFF or ECN.
    pub step: &'static str,
    /// What it changes, in words; empty for the scenario as it is.
    pub choice: String,
    /// The settings that differ, as options of `sluice sim`.
    pub settings: Vec<String>,
    /// True if it was better than what was best before.
    pub kept: bool,
    /// Why there was no run; null if there was one.
    pub refused: Option<String>,
    /// Its results; null without a run.
    pub measured: Option<Measured>,
}

/// The best that was found.
pub struct Found {
    pub title: String,
    pub files: Vec<FileLines>,
    pub before: Measured,
    pub after: Measured,
    pub trials: Vec<Trial>,
}

struct Search<'a> {
    file: &'a Path,
    set: &'a [Override],
    duration_ns: Option<u64>,
    devices: Vec<Device>,
    best: Choice,
    best_measured: Measured,
    trials: Vec<Trial>,
}

/// Searches the best thresholds of a scenario.
///
/// # Errors
/// The scenario is invalid, or has nothing to search.
pub fn search(file: &Path, set: &[Override], duration_ns: Option<u64>) -> Result<Found, RunError> {
    let mut scenario = input::read(file, set)?;
    input::shorten(&mut scenario, duration_ns)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let text_of =
        |config: &str| input::device(folder, config).map_err(|why| anyhow!("cannot read {config}: {why}"));
    let devices = devices(&scenario, text_of)?;
    let before = measure(&mut scenario);
    let (step, choice, settings) = ("as it is", String::new(), Vec::new());
    let first = Trial { step, choice, settings, kept: true, refused: None, measured: Some(before) };
    let (best, trials) = (Choice::default(), vec![first]);
    let mut search = Search { file, set, duration_ns, devices, best, best_measured: before, trials };
    search.run();
    let Search { devices, best, best_measured, trials, .. } = search;
    let files = devices.iter().map(|device| device.lines(best)).collect();
    Ok(Found { title: scenario.title, files, before, after: best_measured, trials })
}

impl Search<'_> {
    fn run(&mut self) {
        for factor in HEADROOM_FACTORS {
            if self.best_measured.no_drop_lost == 0 {
                break;
            }
            self.try_choice("headroom", Choice { headroom_factor: Some(factor), ..self.best });
        }
        for divisor in XOFF_DIVISORS {
            self.try_choice("XOFF", Choice { xoff_divisor: Some(divisor), ..self.best });
        }
        let may_mark = self.best.xoff_divisor.is_some() && self.devices.iter().any(Device::marks);
        for divisor in ECN_DIVISORS.into_iter().filter(|_| may_mark) {
            self.try_choice("ECN", Choice { ecn_divisor: Some(divisor), ..self.best });
        }
    }

    /// Runs the scenario with a choice, and keeps it if it is better.
    fn try_choice(&mut self, step: &'static str, choice: Choice) {
        let settings: Vec<String> = self.devices.iter().flat_map(|device| device.options(choice)).collect();
        let (measured, refused) = match self.measure_choice(&settings, choice) {
            Ok(measured) => (Some(measured), None),
            Err(why) => (None, Some(why)),
        };
        let kept = measured.is_some_and(|measured| is_better(&measured, &self.best_measured));
        if let (true, Some(measured)) = (kept, measured) {
            (self.best, self.best_measured) = (choice, measured);
        }
        let choice = choice.to_string();
        self.trials.push(Trial { step, choice, settings, kept, refused, measured });
    }

    fn measure_choice(&self, settings: &[String], choice: Choice) -> Result<Measured, String> {
        let own = overrides(settings).map_err(|error| error.to_string())?;
        let all: Vec<Override> = self.set.iter().cloned().chain(own).collect();
        let mut scenario = input::read(self.file, &all).map_err(|error| match error {
            RunError::Mistakes(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
            RunError::Other(error) => format!("{error:#}"),
        })?;
        input::shorten(&mut scenario, self.duration_ns).map_err(|error| error.to_string())?;
        self.devices.iter().try_for_each(|device| device.check(&scenario, choice))?;
        Ok(measure(&mut scenario))
    }
}

/// True if one run is better than the best so far.
fn is_better(measured: &Measured, best: &Measured) -> bool {
    if measured.no_drop_lost != best.no_drop_lost {
        return measured.no_drop_lost < best.no_drop_lost;
    }
    let is_fast = measured.throughput_bps >= THROUGHPUT_SHARE * best.throughput_bps;
    is_fast && measured.xoff_ns < best.xoff_ns
}

/// Runs a scenario.
fn measure(scenario: &mut Scenario) -> Measured {
    scenario.expectations = vec![Expectation {
        line: 0,
        scope: Scope::All,
        metric: Metric::NoDropLost,
        at_least: None,
        at_most: Some(0.0),
    }];
    let mut simulation = Simulation::new(scenario);
    simulation.run_until(scenario.duration_ns, &mut |_| {});
    of_results(&simulation.finish())
}

fn of_results(outcome: &Results) -> Measured {
    let groups = || outcome.switches.iter().flat_map(|switch| &switch.ports).flat_map(|port| &port.groups);
    Measured {
        no_drop_lost: outcome.expectations.iter().map(|expectation| expectation.measured as u64).sum(),
        xoff_ns: groups().map(|group| group.counts.xoff_ns).sum(),
        xoff_episodes: groups().map(|group| group.counts.xoff_episodes).sum(),
        headroom_peak_cells: groups().map(|group| group.counts.headroom.peak_cells).max().unwrap_or(0),
        throughput_bps: outcome.traffic.iter().map(|traffic| traffic.throughput_bps).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ports of 10G on cables of 10 km with headroom for 100 m: frames are lost, until the headroom
    /// has grown.
    const CONFIG: &str = "
[buffer]
total_cells = 131072
headroom_cells = 4096
[port-defaults]
speed = \"10G\"
[port-defaults.pfc]
mode = \"on\"
no_drop = [3]
[port-defaults.pfc.priority.3]
headroom_cells = 100
xoff = { static_cells = 500 }
[port.p1]
interface = \"i1\"
[port.p2]
interface = \"i2\"
[port.p3]
interface = \"i3\"
";
    const SCENARIO: &str = "
duration = \"3ms\"
[switch.s]
config = \"switch.toml\"
[host.\"h[1-3]\"]
[[link]]
ends = [\"h[1-3]\", \"s.p[1-3]\"]
cable_m = 10000
[[traffic]]
name = \"rdma\"
from = \"h[1-2]\"
to = \"h3\"
priority = 3
";

    fn search_with(config: &str) -> Result<Found, RunError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("switch.toml"), config).unwrap();
        std::fs::write(folder.path().join("scenario.toml"), SCENARIO).unwrap();
        search(&folder.path().join("scenario.toml"), &[], None)
    }

    #[test]
    fn headroom_grows_until_nothing_is_lost() {
        let found = search_with(CONFIG).unwrap();
        assert!(found.before.no_drop_lost > 0, "{:?}", found.before);
        assert_eq!(found.after.no_drop_lost, 0, "{:?}", found.after);
        assert!(found.after.xoff_ns <= found.before.xoff_ns && found.trials.len() <= 15);
        let lines = &found.files[0].lines;
        assert!(lines.iter().any(|line| line.starts_with("headroom_cells = ")), "{lines:?}");
        // What it says is what it ran: the lines, written into the file, give the same.
        let values = lines.iter().filter(|line| !line.starts_with('['));
        assert!(values.clone().count() >= 2, "{lines:?}");
        let again = search_with(CONFIG).unwrap();
        assert_eq!((again.after, &again.files[0].lines), (found.after, lines), "always the same");
    }

    #[test]
    fn a_port_with_thresholds_of_its_own_is_named() {
        let own = format!("{CONFIG}pfc = {{ priority.3.headroom_cells = 200 }}\n");
        let found = search_with(&own).unwrap();
        let refused = found.trials.iter().filter_map(|trial| trial.refused.as_deref());
        assert!(refused.clone().any(|why| why.contains("port p3 has thresholds of priority 3 of its own")));
    }

    #[test]
    fn a_scenario_without_no_drop_priorities_is_refused() {
        let lossy = "[port-defaults]\nspeed = \"10G\"\n[port.p1]\ninterface = \"i1\"\n[port.p2]\n\
                     interface = \"i2\"\n[port.p3]\ninterface = \"i3\"\n";
        let Err(RunError::Other(error)) = search_with(lossy) else { panic!("nothing to search") };
        assert!(error.to_string().starts_with("no priority is no-drop"), "{error}");
    }

    #[test]
    fn less_loss_comes_before_less_xoff_and_throughput_counts() {
        let best = Measured { xoff_ns: 100, throughput_bps: 100.0, ..Measured::default() };
        let with = |no_drop_lost, xoff_ns, throughput_bps| Measured {
            no_drop_lost,
            xoff_ns,
            throughput_bps,
            ..best
        };
        assert!(is_better(&with(0, 50, 99.0), &best));
        assert!(!is_better(&with(0, 50, 97.0), &best) && !is_better(&with(1, 0, 100.0), &best));
        assert!(!is_better(&best, &best));
        assert!(is_better(&with(0, 500, 10.0), &with(1, 0, 100.0)));
    }
}
