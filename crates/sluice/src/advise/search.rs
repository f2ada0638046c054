//! The search: a bounded number of runs, step by step, always the same for one scenario.

use std::path::Path;

use anyhow::{Result, anyhow};
use schemars::JsonSchema;
use serde::Serialize;
use sim::scenario::{Expectation, Metric, Scenario, Scope};
use sim::{Results, Simulation};

use super::settings::{Choice, Device, FileLines, devices, overrides};
use crate::sim::input::{self, RunError};
use crate::sim::overrides::Override;
use crate::sim::run;

/// Factors of the headroom, while frames are lost.
const HEADROOM_FACTORS: [u32; 3] = [2, 4, 8];
/// Parts of the shared area that XOFF is set to.
const XOFF_DIVISORS: [u32; 6] = [64, 32, 16, 8, 4, 2];
/// Parts of XOFF at which marks begin; above four times that all are marked.
const ECN_DIVISORS: [u32; 5] = [64, 32, 16, 8, 4];
/// Throughput that less time in XOFF may cost, all steps together.
const THROUGHPUT_SHARE: f64 = 0.98;
/// Why no limits of ECN were tried.
const NOTHING_MARKS: &str =
    "no queue marks: write ecn = true into a WRED table, or action = \"ecn\" into a queue profile";

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
    best: Best,
    trials: Vec<Trial>,
}

/// The best so far.
struct Best {
    choice: Choice,
    measured: Measured,
    /// Throughput of the first run that lost so few frames. The best run's own would let one step
    /// after the other give some away.
    reference_bps: f64,
}

/// Searches the best thresholds of a scenario.
///
/// # Errors
/// The scenario is invalid, or has nothing to search.
pub fn search(file: &Path, set: &[Override], duration_ns: Option<u64>) -> Result<Found, RunError> {
    let mut scenario = input::read(file, set)?;
    input::note_imported(&scenario);
    input::shorten(&mut scenario, duration_ns)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let text_of = |config: &str| {
        let text = input::device(folder, config).map_err(|why| anyhow!("cannot read {config}: {why}"))?;
        let own = set.iter().filter(|given| given.file.as_deref() == Some(config));
        crate::sim::overrides::apply(&text, own).map_err(|why| anyhow!(why))
    };
    let devices = devices(&scenario, text_of)?;
    let before = measure(&mut scenario).map_err(|why| anyhow!(why))?;
    let (step, choice, settings) = ("as it is", String::new(), Vec::new());
    let first = Trial { step, choice, settings, kept: true, refused: None, measured: Some(before) };
    let best = Best { choice: Choice::default(), measured: before, reference_bps: before.throughput_bps };
    let mut search = Search { file, set, duration_ns, devices, best, trials: vec![first] };
    search.run();
    let Search { devices, best, trials, .. } = search;
    if trials.iter().skip(1).all(|trial| trial.measured.is_none()) {
        let mut reasons: Vec<&str> = trials.iter().filter_map(|trial| trial.refused.as_deref()).collect();
        reasons.dedup();
        return Err(RunError::Other(anyhow!("nothing could be tried: {}", reasons.join("; "))));
    }
    let files = devices.iter().map(|device| device.lines(best.choice)).collect();
    Ok(Found { title: scenario.title, files, before, after: best.measured, trials })
}

impl Search<'_> {
    fn run(&mut self) {
        for factor in HEADROOM_FACTORS {
            if self.best.measured.no_drop_lost == 0 {
                break;
            }
            self.try_choice("headroom", Choice { headroom_factor: Some(factor), ..self.best.choice });
        }
        for divisor in XOFF_DIVISORS {
            self.try_choice("XOFF", Choice { xoff_divisor: Some(divisor), ..self.best.choice });
        }
        if !self.devices.iter().any(Device::marks) {
            let (choice, settings) = (String::new(), Vec::new());
            let refused = Some(NOTHING_MARKS.to_owned());
            self.trials.push(Trial { step: "ECN", choice, settings, kept: false, refused, measured: None });
            return;
        }
        for divisor in ECN_DIVISORS {
            self.try_choice("ECN", Choice { ecn_divisor: Some(divisor), ..self.best.choice });
        }
    }

    /// Runs the scenario with a choice, and keeps it if it is better.
    fn try_choice(&mut self, step: &'static str, choice: Choice) {
        let settings: Vec<String> = self.devices.iter().flat_map(|device| device.options(choice)).collect();
        let (measured, refused) = match self.measure_choice(&settings, choice) {
            Ok(measured) => (Some(measured), None),
            Err(why) => (None, Some(why)),
        };
        let kept = measured.is_some_and(|measured| self.best.offer(choice, measured));
        let choice = choice.to_string();
        self.trials.push(Trial { step, choice, settings, kept, refused, measured });
    }

    fn measure_choice(&self, settings: &[String], choice: Choice) -> Result<Measured, String> {
        let own = overrides(settings).map_err(|error| error.to_string())?;
        let all: Vec<Override> = self.set.iter().cloned().chain(own).collect();
        let mut scenario = input::read(self.file, &all).map_err(|error| match error {
            RunError::Mistakes(mistakes) => {
                mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            }
            RunError::Other(error) => format!("{error:#}"),
        })?;
        input::shorten(&mut scenario, self.duration_ns).map_err(|error| error.to_string())?;
        self.devices.iter().try_for_each(|device| device.check(&scenario, choice))?;
        measure(&mut scenario)
    }
}

impl Best {
    /// Takes a run if it is better; returns true if so.
    fn offer(&mut self, choice: Choice, measured: Measured) -> bool {
        let loses_less = measured.no_drop_lost < self.measured.no_drop_lost;
        let is_fast = measured.throughput_bps >= THROUGHPUT_SHARE * self.reference_bps;
        let loses_the_same = measured.no_drop_lost == self.measured.no_drop_lost;
        let is_better = loses_less || loses_the_same && is_fast && measured.xoff_ns < self.measured.xoff_ns;
        if loses_less {
            self.reference_bps = measured.throughput_bps;
        }
        if is_better {
            (self.choice, self.measured) = (choice, measured);
        }
        is_better
    }
}

/// Runs a scenario.
///
/// # Errors
/// No memory was left for a switch: its results would be wrong.
fn measure(scenario: &mut Scenario) -> Result<Measured, String> {
    scenario.expectations = vec![Expectation {
        line: 0,
        scope: Scope::All,
        metric: Metric::NoDropLost,
        at_least: None,
        at_most: Some(0.0),
    }];
    let mut simulation = Simulation::new(scenario);
    simulation.run_until(scenario.duration_ns, &mut |_| {});
    match run::without_memory(&simulation) {
        Some(why) => Err(why),
        None => Ok(of_results(&simulation.finish())),
    }
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
    use toml_edit::{DocumentMut, TableLike};

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
        let again = search_with(CONFIG).unwrap();
        assert_eq!((again.after, &again.files[0].lines), (found.after, lines), "always the same");
        let why = found.trials.last().unwrap().refused.as_deref();
        assert_eq!(why, Some(NOTHING_MARKS));
    }

    fn merge(into: &mut dyn TableLike, from: &dyn TableLike) {
        for (name, item) in from.iter() {
            match (into.get_mut(name), item.as_table()) {
                (Some(known), Some(table)) => merge(known.as_table_like_mut().unwrap(), table),
                _ => {
                    into.insert(name, item.clone());
                }
            }
        }
    }

    /// What it prints is what it ran: the lines, written into the file, give the same.
    #[test]
    fn the_lines_of_a_file_give_what_was_found() {
        let marking = CONFIG.replace("speed = \"10G\"\n", "speed = \"10G\"\nwred = \"early\"\n")
            + "[wred.early.queue.3]\necn = true\n";
        for config in [CONFIG, &marking] {
            let found = search_with(config).unwrap();
            assert_ne!(found.before, found.after);
            let mut written: DocumentMut = config.parse().unwrap();
            let lines: DocumentMut = found.files[0].lines.join("\n").parse().unwrap();
            merge(written.as_table_mut(), lines.as_table());
            let again = search_with(&written.to_string()).unwrap();
            assert_eq!(again.before, found.after, "{written}");
        }
    }

    /// A network of two kinds of switches with one file: it has lines for the file, which give what
    /// was found.
    #[test]
    fn a_generated_network_has_advice_for_its_file() {
        const NETWORK: &str = "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 1\n\
            hosts_per_leaf = 2\nhost_speed = \"10G\"\nhost_cable_m = 10\nfabric_cable_m = 10000\n\
            config = \"base.toml\"\n[[traffic]]\nname = \"rdma\"\nfrom = [\"h1\", \"h3\"]\nto = \"h2\"\n\
            priority = 3\n";
        let folder = tempfile::tempdir().unwrap();
        let (config, file) = (folder.path().join("base.toml"), folder.path().join("scenario.toml"));
        let base = CONFIG.split("[port.p1]").next().unwrap().replace("speed = \"10G\"\n", "");
        std::fs::write(&config, &base).unwrap();
        std::fs::write(&file, NETWORK).unwrap();
        let found = search(&file, &[], None).unwrap();
        assert!(found.before.no_drop_lost > 0 && found.after.no_drop_lost == 0, "{:?}", found.after);
        let [FileLines { file: name, lines }] = &found.files[..] else { panic!("one file") };
        assert!(name == "base.toml" && lines.iter().any(|line| line.starts_with("headroom_cells = ")));
        let mut written: DocumentMut = base.parse().unwrap();
        let lines: DocumentMut = lines.join("\n").parse().unwrap();
        merge(written.as_table_mut(), lines.as_table());
        std::fs::write(&config, written.to_string()).unwrap();
        assert_eq!(search(&file, &[], None).unwrap().before, found.after, "{written}");
        std::fs::write(&file, NETWORK.replace("config = \"base.toml\"\n", "")).unwrap();
        let Err(RunError::Other(error)) = search(&file, &[], None) else { panic!("it has no file") };
        assert_eq!(error.to_string(), "leaf1 has no configuration: write `config` into [network]");
    }

    /// The file has a size in bytes, for which cells are tried.
    #[test]
    fn sizes_in_bytes_are_replaced() {
        let bytes = CONFIG.replace("headroom_cells = 100\n", "headroom_bytes = 25600\n");
        let found = search_with(&bytes).unwrap();
        assert_eq!(found.after, search_with(CONFIG).unwrap().after);
    }

    #[test]
    fn without_any_run_there_is_no_advice() {
        let own = format!("{CONFIG}pfc = {{ priority.3.xoff = {{ static_cells = 400 }} }}\n");
        let enough = own.replace("headroom_cells = 100\n", "headroom_cells = 1200\n");
        let Err(RunError::Other(error)) = search_with(&enough) else { panic!("nothing can be tried") };
        let error = error.to_string();
        assert!(error.starts_with("nothing could be tried: switch.toml: port p3 has thresholds"), "{error}");
        assert!(error.ends_with(NOTHING_MARKS), "{error}");
    }

    #[test]
    fn a_port_with_thresholds_of_its_own_is_named() {
        let own = format!("{CONFIG}pfc = {{ priority.3.xoff = {{ static_cells = 400 }} }}\n");
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
        let with = |no_drop_lost, xoff_ns, throughput_bps| Measured {
            no_drop_lost,
            xoff_ns,
            throughput_bps,
            ..Measured::default()
        };
        let best = |measured: Measured| Best {
            choice: Choice::default(),
            measured,
            reference_bps: measured.throughput_bps,
        };
        let is_better = |measured, than| best(than).offer(Choice::default(), measured);
        let first = with(0, 100, 100.0);
        assert!(is_better(with(0, 50, 99.0), first));
        assert!(!is_better(with(0, 50, 97.0), first) && !is_better(with(1, 0, 100.0), first));
        assert!(!is_better(first, first));
        assert!(is_better(with(0, 500, 10.0), with(1, 0, 100.0)));
        // Steps of 1.9 % each: the second would make it 3.8 %.
        let mut best = best(with(1, 100, 200.0));
        let taken = [with(0, 100, 100.0), with(0, 90, 98.1), with(0, 80, 96.2), with(0, 70, 98.0)]
            .map(|measured| best.offer(Choice::default(), measured));
        assert_eq!(taken, [true, true, false, true]);
    }
}
