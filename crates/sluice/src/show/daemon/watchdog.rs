//! `sluice show watchdog`: the settings of the watchdogs and of early warnings, as Inspur's "show
//! interface priority-flow-control watch-dog config" (Inspur ECN and PFC white paper, 6-10). What
//! they found is in `sluice show pfc`. Conformance row 353.

use control::v1::{Configuration, PriorityConfiguration, WatchdogConfiguration};
use schemars::JsonSchema;
use serde::Serialize;

use crate::show::format::{self, grouped};

/// The settings of a priority in JSON.
#[derive(Serialize, JsonSchema)]
pub struct Row<'a> {
    port: &'a str,
    priority: usize,
    /// None: it is not watched.
    watchdog: Option<&'a WatchdogConfiguration>,
    early_warning_in_pps: Option<u32>,
    early_warning_out_pps: Option<u32>,
}

/// Returns the priorities that are watched, or have an early warning.
pub fn rows(configuration: &Configuration, priority: Option<u8>) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for port in &configuration.ports {
        for (number, of) in port.priorities.iter().enumerate() {
            let PriorityConfiguration { watchdog, early_warning_in_pps, early_warning_out_pps, .. } = of;
            let is_selected = priority.is_none_or(|priority| usize::from(priority) == number);
            if is_selected
                && (watchdog.is_some() || early_warning_in_pps.or(*early_warning_out_pps).is_some())
            {
                rows.push(Row {
                    port: &port.name,
                    priority: number,
                    watchdog: watchdog.as_ref(),
                    early_warning_in_pps: *early_warning_in_pps,
                    early_warning_out_pps: *early_warning_out_pps,
                });
            }
        }
    }
    rows
}

/// Formats the settings.
pub fn table(rows: &[Row]) -> String {
    let headings = [
        "Port",
        "Priority",
        "Action",
        "Ends",
        "Detection time\nms",
        "Restoration time\nms",
        "Limit\nstorms",
        "in\ns",
        "Warns at PFC\nin /s",
        "out /s",
    ];
    let mut table = format::table(&headings, 4);
    let none = || "–".to_owned();
    let ms = |ns: u64| grouped(ns / 1_000_000);
    let pps = |pps: Option<u32>| pps.map_or_else(none, |pps| grouped(pps.into()));
    for Row { port, priority, watchdog, early_warning_in_pps, early_warning_out_pps } in rows {
        let of = |text: fn(&WatchdogConfiguration) -> String| watchdog.map_or_else(none, text);
        let restoration = watchdog.and_then(|watchdog| watchdog.restoration_ns).map_or_else(none, ms);
        let limit = watchdog.and_then(|watchdog| Some((watchdog.limit_storms?, watchdog.limit_period_ns?)));
        table.add_row([
            (*port).to_owned(),
            priority.to_string(),
            of(|watchdog| watchdog.action.clone()),
            of(|watchdog| watchdog.restoration.replace('-', " ")),
            watchdog.map_or_else(none, |watchdog| ms(watchdog.detection_ns)),
            restoration,
            limit.map_or_else(none, |(storms, _)| storms.to_string()),
            limit.map_or_else(none, |(_, period_ns)| grouped(period_ns / 1_000_000_000)),
            pps(*early_warning_in_pps),
            pps(*early_warning_out_pps),
        ]);
    }
    if table.is_empty() {
        return "No priority is watched (`[pfc.watchdog]` with priority.N watches it).".to_owned();
    }
    format!(
        "{}\n\nA storm ends after the restoration time, whatever arrives (after); once no XOFF has come for that time\n\
         (quiet) or for a detection time (quiet interval); or by `sluice pfc recover PORT` (manual).",
        table.trim_fmt()
    )
}

#[cfg(test)]
mod tests {
    use super::super::configuration_sample as sample;
    use super::*;

    /// Row 353.
    #[test]
    fn settings_of_watchdogs() {
        insta::assert_snapshot!(table(&rows(&sample(), None)));
        assert!(table(&rows(&sample(), Some(5))).starts_with("No priority is watched"));
    }
}
