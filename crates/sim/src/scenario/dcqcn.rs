//! Parameters of DCQCN: of a `[[traffic]]`, and of a `[host.NAME]` for all that it sends.
//!
//! Rule: a parameter is that of the traffic, else that of the sending host, else the paper's.

use config::read::toml_document::{Diagnostics, TableReader, speed};
use endpoint::dcqcn::{DcqcnSettings, FastRecovery};
use switch::Nanos;

use super::parse::{MAX_TIME_NS, bytes, decimal, time};
use super::tables::read_rule;

/// Values of `fast_recovery`.
pub(super) const FAST_RECOVERIES: [(&str, FastRecovery); 2] =
    [("below_f", FastRecovery::BelowF), ("up_to_f", FastRecovery::UpToF)];
/// An example of a parameter.
const EXAMPLE: &str = "additive = \"5M\"";

/// The parameters that a table has.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct DcqcnTable {
    cnp_interval_ns: Option<Nanos>,
    alpha_interval_ns: Option<Nanos>,
    step_interval_ns: Option<Nanos>,
    step_bytes: Option<u64>,
    gain: Option<f64>,
    additive_bps: Option<f64>,
    hyper_bps: Option<f64>,
    min_bps: Option<f64>,
    fast_steps: Option<u32>,
    pub(super) fast_recovery: Option<FastRecovery>,
    clamps_target: Option<bool>,
}

impl DcqcnTable {
    /// Reads `dcqcn` of a traffic: true for default parameters, or a table of some others. `None`
    /// if it is false or not there.
    pub(super) fn of_traffic(section: &mut TableReader, report: &mut Diagnostics) -> Option<Self> {
        read_rule(section, "dcqcn", EXAMPLE, Self::default(), report, Self::read)
    }

    /// Reads `dcqcn` of a host, a table. `None` if it is not there.
    pub(super) fn of_host(section: &mut TableReader, report: &mut Diagnostics) -> Option<Self> {
        let location = section.location_of("dcqcn")?;
        let cure = format!("write a table as in {{ {EXAMPLE} }}; a traffic turns DCQCN on");
        let mut table = section.item("dcqcn")?.section(location, &cure, report)?;
        let mut parameters = Self::default();
        parameters.read(&mut table, report);
        table.finish(report);
        Some(parameters)
    }

    fn read(&mut self, table: &mut TableReader, report: &mut Diagnostics) {
        for (name, value) in [
            ("cnp_interval", &mut self.cnp_interval_ns),
            ("alpha_interval", &mut self.alpha_interval_ns),
            ("step_interval", &mut self.step_interval_ns),
        ] {
            let read = table.item(name).and_then(|item| time(item, 1..=MAX_TIME_NS, report));
            *value = read.map(|read| read.value);
        }
        for (name, value) in [
            ("additive", &mut self.additive_bps),
            ("hyper", &mut self.hyper_bps),
            ("least", &mut self.min_bps),
        ] {
            let read = table.item(name).and_then(|item| speed(item, report));
            *value = read.map(|read| read.value as f64);
        }
        let step_bytes = table.item("step_bytes").and_then(|item| bytes(item, report));
        self.step_bytes = step_bytes.map(|read| read.value);
        let gain = table.item("gain").and_then(|item| decimal(item, 1e-6..=1.0, report));
        self.gain = gain.map(|read| read.value);
        self.fast_steps = table.number_in("fast_steps", 1..=1_000, report).map(|read| read.value);
        let fast_recovery = table.choice("fast_recovery", &FAST_RECOVERIES, report);
        self.fast_recovery = fast_recovery.map(|read| read.value);
        self.clamps_target = table.boolean("clamp_target", report).map(|read| read.value);
    }

    /// Returns `default` with these parameters.
    pub(super) fn over(&self, default: DcqcnSettings) -> DcqcnSettings {
        DcqcnSettings {
            cnp_interval_ns: self.cnp_interval_ns.unwrap_or(default.cnp_interval_ns),
            alpha_interval_ns: self.alpha_interval_ns.unwrap_or(default.alpha_interval_ns),
            step_interval_ns: self.step_interval_ns.unwrap_or(default.step_interval_ns),
            step_bytes: self.step_bytes.unwrap_or(default.step_bytes),
            gain: self.gain.unwrap_or(default.gain),
            additive_bps: self.additive_bps.unwrap_or(default.additive_bps),
            hyper_bps: self.hyper_bps.unwrap_or(default.hyper_bps),
            min_bps: self.min_bps.unwrap_or(default.min_bps),
            fast_steps: self.fast_steps.unwrap_or(default.fast_steps),
            fast_recovery: self.fast_recovery.unwrap_or(default.fast_recovery),
            clamps_target: self.clamps_target.unwrap_or(default.clamps_target),
            ..default
        }
    }
}
