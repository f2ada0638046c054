//! `pfc.watchdog` and `pfc.early-warning`: for the whole switch, for `[port-defaults]`, and for a
//! port.
//!
//! A priority is watched in one of two styles: H3C's (`interval` times `precision`, then
//! `restore_delay`) or Inspur's (`detection_ms`, `restoration_ms`). The default action depends on
//! the style: H3C forwards, Inspur drops.

use switch::Nanos;
use switch::settings::{
    EarlyWarningSettings, PRIORITIES, PfcWdAction, Restoration, StormLimit, WatchdogSettings,
};

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::overrides::Overrides;
use crate::read::table_reader::{Setting, TableReader, value_or};
use crate::spec::KeySpec::Number;
use crate::spec::{TableSpec, ValueSpec, boolean, choice, map, number, table, words};

/// Nanoseconds of a millisecond.
pub(crate) const MS: Nanos = 1_000_000;
/// The longest detection times that can be written.
pub(crate) const MOST_INTERVALS: u64 = 15;
pub(crate) const MOST_DETECTION_MS: u64 = 5000;
/// PFC frames per second: no link carries more.
const MAX_PPS: i64 = 1_000_000_000;
const PRECISIONS: [(&str, Nanos); 2] = [("high", 10 * MS), ("normal", 100 * MS)];
const ACTIONS: [(&str, PfcWdAction); 2] = [("forward", PfcWdAction::Forward), ("drop", PfcWdAction::Drop)];
const RECOVERIES: [(&str, bool); 2] = [("auto", false), ("manual", true)];

pub(crate) const WATCHDOG: TableSpec = &[
    boolean("enabled").value("true", "False: off, for all or for this port."),
    choice("precision", || words(&PRECISIONS))
        .value("\"normal\"", "The unit of intervals: 100 ms, or 10 ms with \"high\"."),
    choice("action", || words(&ACTIONS))
        .otherwise("forward; drop with `detection_ms`", "What happens to frames during a storm."),
    choice("recovery", || words(&RECOVERIES))
        .value("\"auto\"", "Manual: a storm ends by `sluice pfc recover`."),
    map("priority", Number(PRIORITIES - 1), &ValueSpec::Table(PRIORITY))
        .about("A priority that is watched, in one of two styles (docs/watchdog.md)."),
];

const PRIORITY: TableSpec = &[
    number("interval", 1, MOST_INTERVALS as i64).unit("× precision").about("Detection time."),
    number("restore_delay", 1, 15)
        .unit("× 100 ms")
        .otherwise("the detection time", "Restored 100 ms and this time after detection."),
    boolean("pause_recover").value("false", "Restored when no XOFF came for an interval."),
    number("detection_ms", 100, MOST_DETECTION_MS as i64).about("Detection time, in place of `interval`."),
    number("restoration_ms", 100, 5000).about("Restored once no XOFF has come for this time."),
    table("limit", LIMIT).about("Storms after which PFC is turned off for the priority."),
];

const LIMIT: TableSpec = &[
    number("period_s", 1, 60).required("Time in which storms are counted."),
    number("count", 1, 500).required("Number of storms."),
];

pub(crate) const EARLY_WARNING: TableSpec =
    &[map("priority", Number(PRIORITIES - 1), &ValueSpec::Table(RATES)).about("Rates of a priority.")];

const RATES: TableSpec = &[
    number("in_pps", 1, MAX_PPS).about("Rate of received PFC frames that raises an event."),
    number("out_pps", 1, MAX_PPS).about("Rate of sent PFC frames that raises an event."),
];

/// `pfc.watchdog`.
#[derive(Debug, Default, Clone)]
pub(crate) struct WatchdogTable {
    enabled: Option<Setting<bool>>,
    /// The unit of `interval`.
    pub(crate) precision_ns: Option<Setting<Nanos>>,
    action: Option<Setting<PfcWdAction>>,
    /// True if `recovery` is manual.
    manual_recovery: Option<Setting<bool>>,
    pub(crate) priorities: [Option<PriorityTable>; PRIORITIES],
}

/// `pfc.watchdog.priority.N`.
#[derive(Debug, Clone)]
pub(crate) struct PriorityTable {
    pub(crate) location: SettingSpan,
    style: WatchdogStyle,
    pub(crate) limit: Option<Setting<StormLimit>>,
}

#[derive(Debug, Clone, Copy)]
enum WatchdogStyle {
    H3c {
        interval: u64,
        /// `None`: restored after the detection time.
        delay_ns: Option<Nanos>,
        pause_recover: bool,
    },
    Inspur {
        detection_ns: Nanos,
        restoration_ns: Nanos,
    },
}

/// `pfc.early-warning`.
#[derive(Debug, Default, Clone)]
pub(crate) struct EarlyWarningTable {
    priorities: [Option<EarlyWarningSettings>; PRIORITIES],
}

impl WatchdogTable {
    /// Reads `watchdog`, if it is there.
    pub(crate) fn read(pfc: &mut TableReader, report: &mut Diagnostics) -> Self {
        let Some(mut section) = pfc.section("watchdog", report) else { return Self::default() };
        let mut table = Self {
            enabled: section.boolean("enabled", report),
            precision_ns: section.choice_or_later("precision", &PRECISIONS, &["low"], report),
            action: section.choice("action", &ACTIONS, report),
            manual_recovery: section.choice("recovery", &RECOVERIES, report),
            ..Self::default()
        };
        for (priority, of) in section.numbered("priority", report) {
            table.priorities[priority] = PriorityTable::read(of, report);
        }
        section.finish(report);
        table
    }

    /// Returns this table with the whole switch's as fallback for each setting.
    pub(crate) fn with_fallback(self, of_switch: Self) -> Self {
        let [mut own, mut whole] = [self.priorities, of_switch.priorities];
        Self {
            enabled: self.enabled.or(of_switch.enabled),
            precision_ns: self.precision_ns.or(of_switch.precision_ns),
            action: self.action.or(of_switch.action),
            manual_recovery: self.manual_recovery.or(of_switch.manual_recovery),
            priorities: std::array::from_fn(|p| own[p].take().or(whole[p].take())),
        }
    }

    /// Returns where the first setting is that configures how priorities are watched, and not
    /// which.
    pub(crate) fn first_style(&self) -> Option<&SettingSpan> {
        let locations = [
            self.precision_ns.as_ref().map(|setting| &setting.location),
            self.action.as_ref().map(|setting| &setting.location),
            self.manual_recovery.as_ref().map(|setting| &setting.location),
            self.enabled.as_ref().filter(|enabled| enabled.value).map(|setting| &setting.location),
        ];
        locations.into_iter().flatten().min_by_key(|location| location.span.start)
    }
}

impl PriorityTable {
    /// Its detection time is in units of the precision.
    pub(crate) fn has_interval(&self) -> bool {
        matches!(self.style, WatchdogStyle::H3c { .. })
    }

    /// It says when a storm ends by itself, though it need not.
    pub(crate) fn has_end(&self) -> bool {
        matches!(self.style, WatchdogStyle::H3c { delay_ns, pause_recover, .. } if delay_ns.is_some() || pause_recover)
    }

    fn read(mut section: TableReader, report: &mut Diagnostics) -> Option<Self> {
        let location = section.location.clone();
        section.at_most_one(&["interval", "detection_ms"], report);
        section.at_most_one(&["interval", "restoration_ms"], report);
        section.at_most_one(&["detection_ms", "restore_delay"], report);
        section.at_most_one(&["detection_ms", "pause_recover"], report);
        section.at_most_one(&["restore_delay", "pause_recover"], report);
        let (has_interval, has_detection) = (section.has("interval"), section.has("detection_ms"));
        let has_restoration = section.has("restoration_ms");
        let interval = section.number::<u64>("interval", report);
        let delay = section.number::<u64>("restore_delay", report);
        let pause_recover = section.boolean("pause_recover", report);
        let detection = section.number::<u64>("detection_ms", report);
        let restoration = section.number::<u64>("restoration_ms", report);
        let limit = section.section("limit", report).and_then(|section| read_limit(section, report));
        section.finish(report);
        if !has_interval && !has_detection {
            let cure = "write interval = 1 to 15 (times the precision), or detection_ms and restoration_ms";
            report.add(&location, "no detection time", cure);
        } else if has_detection && !has_restoration {
            report.add(&location, "no restoration time", "write restoration_ms = 100 to 5000, too");
        }
        let manner = match (interval, detection, restoration) {
            (Some(interval), None, _) => WatchdogStyle::H3c {
                interval: interval.value,
                delay_ns: delay.map(|delay| 100 * MS * (1 + delay.value)),
                pause_recover: value_or(&pause_recover, false),
            },
            (None, Some(detection), Some(restoration)) => WatchdogStyle::Inspur {
                detection_ns: detection.value * MS,
                restoration_ns: restoration.value * MS,
            },
            _ => return None,
        };
        Some(Self { location, style: manner, limit })
    }
}

fn read_limit(mut section: TableReader, report: &mut Diagnostics) -> Option<Setting<StormLimit>> {
    let location = section.location.clone();
    let missing = ["period_s", "count"].into_iter().find(|name| !section.has(name));
    let period_s = section.number::<u64>("period_s", report);
    let count = section.number("count", report);
    section.finish(report);
    if let Some(missing) = missing {
        report.add(
            &location,
            format!("no {missing}"),
            "write limit = { period_s = 1 to 60, count = 1 to 500 }",
        );
    }
    let value = StormLimit { period_ns: period_s?.value * 1000 * MS, count: count?.value };
    Some(Setting { value, location })
}

impl EarlyWarningTable {
    /// Reads `early-warning`, if it is there.
    pub(crate) fn read(pfc: &mut TableReader, report: &mut Diagnostics) -> Self {
        let mut table = Self::default();
        let Some(mut section) = pfc.section("early-warning", report) else { return table };
        for (priority, mut of) in section.numbered("priority", report) {
            if !of.has("in_pps") && !of.has("out_pps") {
                report.add(&of.location, "no rate", "write in_pps, out_pps or both, in frames a second");
            }
            let [in_pps, out_pps] = ["in_pps", "out_pps"].map(|name| of.number(name, report));
            let value = |pps: Option<Setting<u32>>| pps.map(|pps| pps.value);
            let settings = EarlyWarningSettings { in_pps: value(in_pps), out_pps: value(out_pps) };
            table.priorities[priority] = Some(settings);
            of.finish(report);
        }
        section.finish(report);
        table
    }

    /// Returns this table with the whole switch's as fallback for each setting.
    pub(crate) fn over(self, of_switch: Self) -> Self {
        Self { priorities: std::array::from_fn(|p| self.priorities[p].or(of_switch.priorities[p])) }
    }
}

impl<'t> Overrides<'t, WatchdogTable> {
    pub(crate) fn priority(self, priority: usize) -> Option<&'t PriorityTable> {
        let is_on = self.value(|table| &table.enabled, true);
        self.look_up(|table| table.priorities[priority].as_ref()).filter(|_| is_on)
    }

    /// Returns true if storms end only by hand.
    pub(crate) fn is_manual_recovery(self) -> bool {
        self.value(|table| &table.manual_recovery, false)
    }

    pub(crate) fn settings(self, priority: usize) -> Option<WatchdogSettings> {
        let table = self.priority(priority)?;
        let precision_ns = self.value(|table| &table.precision_ns, 100 * MS);
        let (detection_ns, by_itself, action) = match table.style {
            WatchdogStyle::H3c { interval, delay_ns, pause_recover } => {
                let detection_ns = interval * precision_ns;
                let restore = match pause_recover {
                    true => Restoration::QuietInterval,
                    false => Restoration::After(delay_ns.unwrap_or(detection_ns)),
                };
                (detection_ns, restore, PfcWdAction::Forward)
            }
            WatchdogStyle::Inspur { detection_ns, restoration_ns } => {
                (detection_ns, Restoration::Quiet(restoration_ns), PfcWdAction::Drop)
            }
        };
        Some(WatchdogSettings {
            detection_ns,
            action: self.value(|table| &table.action, action),
            restore: if self.is_manual_recovery() { Restoration::Manual } else { by_itself },
            limit: table.limit.as_ref().map(|limit| limit.value),
        })
    }
}

impl Overrides<'_, EarlyWarningTable> {
    pub(crate) fn settings(self, priority: usize) -> EarlyWarningSettings {
        self.look_up(|table| table.priorities[priority]).unwrap_or_default()
    }
}
