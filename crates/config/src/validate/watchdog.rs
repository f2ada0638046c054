//! Checks of the watchdog against other settings: a watched priority is no-drop and its pauses are
//! honored, and the period in which storms are counted is longer than the detection of one.
//! Source: docs/watchdog.md.

use switch::settings::PRIORITIES;

use crate::read::diagnostics::Diagnostics;
use crate::read::overrides::Overrides;
use crate::read::table_reader::Setting;
use crate::tables::port::watchdog::MS;
use crate::tables::ports::{Port, PortTable};

/// Checks that what `table` watches is no-drop and honored on one of `effective`, and that settings
/// of how priorities are watched apply to a watched priority.
pub(crate) fn dependences(table: &PortTable, effective: &[Overrides<PortTable>], report: &mut Diagnostics) {
    let watchdog = &table.pfc.watchdog;
    for (priority, of) in watchdog.priorities.iter().enumerate() {
        let Some(of) = of else { continue };
        if effective.iter().all(|port| port.pfc().list() & 1 << priority == 0) {
            let cure = format!("add {priority} to pfc.no_drop, or leave this out");
            report.add(&of.location, format!("priority {priority} is not no-drop"), cure);
        } else if effective.iter().all(|port| !port.pfc().value(|table| &table.rx, true)) {
            let cure = "write pfc.rx = true, or leave this out";
            report.add(&of.location, "has no effect while received PFC is not honored", cure);
        } else if of.has_end() && effective.iter().all(|port| port.watchdog().is_manual_recovery()) {
            let cure = "leave restore_delay and pause_recover out, or write recovery = \"auto\"";
            report.add(&of.location, "when storms end has no effect: recovery is manual", cure);
        }
    }
    let by_interval = |port: &Overrides<PortTable>| {
        (0..PRIORITIES).any(|p| port.watchdog().priority(p).is_some_and(|priority| priority.has_interval()))
    };
    let watches =
        |port: &Overrides<PortTable>| (0..PRIORITIES).any(|p| port.watchdog().priority(p).is_some());
    if let Some(location) = watchdog.first_style()
        && !effective.iter().any(watches)
    {
        let cure = "name one, as in priority.3 = { interval = 5 }, or leave this out";
        report.add(location, "has no effect: no priority is watched", cure);
    } else if let Some(precision) = &watchdog.precision_ns
        && !effective.iter().any(by_interval)
    {
        let cure =
            "write interval = 1 to 15 (times the precision) in place of detection_ms, or leave this out";
        report.add(&precision.location, "has no effect: all detection times are in milliseconds", cure);
    }
}

/// Checks that the period in which storms are counted is longer than the detection of one.
pub(crate) fn limits(ports: &[Port], report: &mut Diagnostics) {
    for port in ports {
        for priority in 0..PRIORITIES {
            let Some(settings) = port.settings.watchdog[priority] else { continue };
            let limit = port.tables().watchdog().priority(priority).and_then(|table| table.limit.as_ref());
            if let Some(Setting { value, location }) = limit
                && value.period_ns <= settings.detection_ns
            {
                let (period, detection) = (value.period_ns / MS, settings.detection_ns / MS);
                let what = format!(
                    "a period of {period} ms is not longer than the detection time of {detection} ms"
                );
                let cure = format!("write period_s = {} or more", settings.detection_ns / (1000 * MS) + 1);
                report.add(location, what, cure);
            }
        }
    }
}
