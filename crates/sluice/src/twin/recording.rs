//! A part of a recording: what the switch was offered, its settings, and its counters before and
//! after.
//!
//! Rule: the replay of the recording reports each received frame as the recorded switch classified
//! and addressed it. A recording has the switch's settings, not its configuration: the given one is
//! compared with them.

use std::path::Path;

use anyhow::{Context, Result};
use config::Config;
use dataplane::flight_recorder::offered::Offered;
use switch::monitor::counters::{GroupSnapshot, PortSnapshot};
use switch::{Event, Instant, Nanos, Snapshot, SwitchSettings};

use crate::exit::misuse;
use crate::record;
use crate::sim::format::time;

/// The most differences of settings that are listed.
const MAX_DIFFERENCES: usize = 8;

/// A part of a recording.
pub struct Incident {
    /// The settings at its beginning.
    pub settings: SwitchSettings,
    pub from: Instant,
    pub to: Instant,
    pub offered: Offered,
    pub before: Snapshot,
    pub after: Snapshot,
    /// What a scenario cannot have of it, one line each.
    pub notes: Vec<String>,
}

impl Incident {
    /// Returns how long it lasted.
    pub fn duration_ns(&self) -> Nanos {
        self.to.since(self.from)
    }

    /// Returns what was counted at a port: frames received, transmitted and dropped, and XOFF
    /// episodes by priority.
    pub fn counts(&self, port: usize) -> ([u64; 3], Vec<(usize, u64)>) {
        let [before, after] = [&self.before, &self.after].map(|snapshot| snapshot.ports.get(port));
        let (Some(before), Some(after)) = (before, after) else { return ([0; 3], Vec::new()) };
        let of = |port: &PortSnapshot| {
            let dropped = port.drops.iter().map(|count| count.frames).sum();
            [port.received.frames, port.transmitted.frames, dropped]
        };
        let ([before_all, all], groups) = ([of(before), of(after)], before.groups.iter().zip(&after.groups));
        let episodes = |(before, after): (&GroupSnapshot, &GroupSnapshot)| {
            after.xoff_episodes.saturating_sub(before.xoff_episodes)
        };
        let xoff = groups.map(episodes).enumerate().filter(|(_, episodes)| *episodes > 0).collect();
        (std::array::from_fn(|index| all[index].saturating_sub(before_all[index])), xoff)
    }
}

/// Reads a part of a recording, between times since its beginning.
///
/// # Errors
/// The file is no recording, is damaged, or has nothing in that part.
pub fn read(file: &Path, from_ns: Nanos, to_ns: Option<Nanos>) -> Result<Incident> {
    let name = || file.display().to_string();
    let mut replay = record::open(file)?;
    let mut link_changes = 0;
    let mut note = |_: Instant, event: Event| {
        link_changes += u64::from(matches!(event, Event::PortUp { .. } | Event::PortDown { .. }));
    };
    let _ = replay.take_offered();
    replay.run_until(Instant(1), &mut note).with_context(name)?;
    let start = replay.totals().from;
    if from_ns > 0 {
        replay.run_until(start + from_ns, &mut note).with_context(name)?;
        let _ = replay.take_offered();
    }
    let before = replay.snapshot().with_context(|| format!("{}: the recording is empty", name()))?;
    let settings = replay.settings().cloned().context("the recording is empty")?;
    let (from, gaps) = (replay.totals().to, replay.totals().gaps);
    let end = to_ns.map_or(Instant::NEVER, |to_ns| start + to_ns);
    replay.run_until(end, &mut note).with_context(name)?;
    let after = replay.snapshot().with_context(|| format!("{}: the recording is empty", name()))?;
    let (to, offered) = (replay.totals().to, replay.take_offered());
    if offered.frames.is_empty() {
        let whole = time(to.since(start));
        return misuse(format!(
            "{}: no frame was received in that part: the recording has {whole}, choose other --from and --to",
            name()
        ));
    }
    let mut notes = Vec::new();
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            notes.push(format!("not in the scenario: {count} {what}"));
        }
    };
    add(replay.totals().gaps - gaps, "gaps, of which the recording has no frames");
    add(link_changes, "changes of ports, up or down, in the whole recording");
    add(offered.not_forwarded_frames, "frames that no bridge forwards, as invalid ones and LLDP");
    if replay.settings() != Some(&settings) {
        notes.push("the settings changed meanwhile; those of the beginning are compared".to_owned());
    }
    Ok(Incident { settings, from, to, offered, before, after, notes })
}

/// Returns the differences between the settings of a recording and a configuration, one line each.
///
/// # Errors
/// The recorded switch has a port that is not in the configuration.
pub fn differences(incident: &Incident, config: &Config, config_name: &str) -> Result<Vec<String>> {
    let mut recorded = incident.settings.clone();
    recorded.seed = config.switch.seed;
    recorded.ports.retain(|port| !port.is_vacant());
    if let Some(unknown) = recorded.ports.iter().find(|port| number(&config.switch, &port.name).is_none()) {
        let name = &unknown.name;
        return misuse(format!(
            "{config_name} has no port {name}, which the recorded switch has: give the configuration that it had"
        ));
    }
    recorded.ports.sort_by_key(|port| number(&config.switch, &port.name));
    let missing = |port: &&switch::PortSettings| number(&recorded, &port.name).is_none();
    if let Some(missing) = config.switch.ports.iter().find(missing) {
        let name = &missing.name;
        return misuse(format!(
            "{config_name} has a port {name}, which the recorded switch does not have: leave it out"
        ));
    }
    let before = Config { switch: recorded, ..config.clone() };
    let config::Changes { live, restart, .. } = config::changes(&before, config);
    let mut lines: Vec<String> = live.into_iter().chain(restart).collect();
    let more = lines.len().saturating_sub(MAX_DIFFERENCES);
    lines.truncate(MAX_DIFFERENCES);
    if more > 0 {
        lines.push(format!("{more} more settings"));
    }
    Ok(lines)
}

/// Returns the number of the port of this name.
pub fn number(settings: &SwitchSettings, name: &str) -> Option<usize> {
    settings.ports.iter().position(|port| port.name == name)
}
