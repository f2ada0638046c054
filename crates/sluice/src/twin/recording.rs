//! A part of a recording: what the switch was offered, its settings, and its counters before and
//! after.
//!
//! Rule: the replay of the recording reports each received frame as the recorded switch classified
//! and addressed it. A recording has the switch's settings, not its configuration: the given one is
//! compared with them.

use std::path::Path;

use anyhow::{Context, Result};
use config::Config;
use dataplane::flight_recorder::offered::{MAX_OFFERED_FRAMES, Offered, OfferedFrame};
use switch::monitor::counters::{GroupSnapshot, PortSnapshot};
use switch::{Event, Instant, Nanos, Snapshot, SwitchSettings};

use crate::exit::misuse;
use crate::output::{counted, grouped};
use crate::record::{self, FileReplay};
use crate::sim::format::time;

/// The most differences of settings that are listed.
const MAX_DIFFERENCES: usize = 8;
/// The longest part: a scenario takes at most this long.
const MAX_DURATION_NS: Nanos = 1_000_000_000_000;

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

/// What is counted of a part.
#[derive(Default)]
struct EventCounts {
    link_changes: u64,
    kernel_dropped_frames: u64,
}

impl EventCounts {
    fn note(&mut self, event: Event) {
        match event {
            Event::PortUp { .. } | Event::PortDown { .. } => self.link_changes += 1,
            Event::KernelDropped { frames, .. } => self.kernel_dropped_frames += frames,
            _ => {}
        }
    }
}

/// Reads a part of a recording, between times since its beginning.
///
/// # Errors
/// The file is no recording, is damaged, or that part of it has no frames, too many, or ports that
/// were added or removed.
pub fn read(file: &Path, from_ns: Nanos, to_ns: Option<Nanos>) -> Result<Incident> {
    if to_ns.is_some_and(|to_ns| to_ns <= from_ns) {
        return misuse("--to is not after --from: write a later time");
    }
    let name = || file.display().to_string();
    let mut replay = record::open(file)?;
    replay.collect_pauses();
    replay.run_until(Instant(1), &mut |_, _| {}).with_context(name)?;
    let start = replay.totals().from;
    if from_ns > 0 {
        replay.run_until(start + from_ns, &mut |_, _| {}).with_context(name)?;
    }
    replay.collect_offered();
    let Some((before, settings)) = state(&mut replay) else {
        return misuse(format!("{}: the recording is empty, or ends with a gap before --from", name()));
    };
    let (from, gaps) = (replay.totals().to, replay.totals().gaps);
    let mut counts = EventCounts::default();
    let end = to_ns.map_or(Instant::NEVER, |to_ns| start + to_ns);
    replay.run_until(end, &mut |_, event| counts.note(event)).with_context(name)?;
    let (to, gaps, offered) = (replay.totals().to, replay.totals().gaps - gaps, replay.take_offered());
    let Some((after, settings_after)) = state(&mut replay) else {
        return misuse(format!(
            "{}: the state of the switch at the end of that part is not in the recording, as a gap came before: \
             choose an earlier --to",
            name()
        ));
    };
    if offered.frames.is_empty() {
        let whole = time(to.since(start));
        return misuse(match to_ns {
            Some(to_ns) => {
                let (from, to) = (time(from_ns), time(to_ns));
                format!("{}: no frame was received from {from} to {to}: choose other --from and --to", name())
            }
            None => format!(
                "{}: no frame was received in that part: the recording has {whole}, choose other --from and --to",
                name()
            ),
        });
    }
    if let Err(why) = is_usable(&offered, (&settings, &settings_after), to.since(from)) {
        return misuse(format!("{}: {why}", name()));
    }
    let mut notes = notes(&offered, &before, gaps, &counts);
    for (slot, port) in before.ports.iter().enumerate() {
        if port.held || offered.held_ports.contains(&(slot as u8)) {
            notes.push(format!(
                "not in the scenario: port {} was on hold for some of the time, and sent only PFC meanwhile",
                port.name
            ));
        }
    }
    if settings_after != settings {
        notes.push("the settings changed meanwhile; those of the beginning are compared".to_owned());
    }
    Ok(Incident { settings, from, to, offered, before, after, notes })
}

/// Returns what a scenario cannot have of a part, one line each.
fn notes(offered: &Offered, before: &Snapshot, gaps: u64, counts: &EventCounts) -> Vec<String> {
    let mut notes = Vec::new();
    let mut add = |count: u64, one: &str, more: &str| {
        if count > 0 {
            notes.push(format!("not in the scenario: {}", counted(count, one, more)));
        }
    };
    add(gaps, "gap, of which the recording has no frames", "gaps, of which the recording has no frames");
    add(
        counts.link_changes,
        "change of a port, up or down, in that part",
        "changes of ports, up or down, in that part",
    );
    add(
        counts.kernel_dropped_frames,
        "frame that the kernel or the NIC dropped",
        "frames that the kernel or the NIC dropped",
    );
    let queues = before.ports.iter().flat_map(|port| &port.queues);
    add(
        queues.map(|queue| queue.waiting_frames).sum(),
        "frame that waited in a queue at the beginning",
        "frames that waited in queues at the beginning",
    );
    add(
        offered.not_forwarded_frames,
        "frame that no bridge forwards, as an invalid one or LLDP",
        "frames that no bridge forwards, as invalid ones and LLDP",
    );
    notes
}

/// Returns the present counters and settings. `None` before the first checkpoint, and in a gap.
fn state(replay: &mut FileReplay) -> Option<(Snapshot, SwitchSettings)> {
    let snapshot = replay.snapshot()?;
    Some((snapshot, replay.settings()?.clone()))
}

/// Checks that a scenario can have a part of a recording, with the settings before and after it.
///
/// # Errors
/// Why it cannot.
pub fn is_usable(
    offered: &Offered,
    (before, after): (&SwitchSettings, &SwitchSettings),
    duration_ns: Nanos,
) -> Result<(), String> {
    if offered.left_out_frames > 0 {
        let most = grouped(MAX_OFFERED_FRAMES as u64);
        return Err(format!("more than {most} frames in that part: take a shorter one with --from and --to"));
    }
    if duration_ns > MAX_DURATION_NS {
        let most = time(MAX_DURATION_NS);
        return Err(format!("that part takes longer than {most}: take a shorter part with --from and --to"));
    }
    let names = |settings: &SwitchSettings| {
        settings.ports.iter().map(|port| port.name.clone()).collect::<Vec<String>>()
    };
    let is_port = |slot: u8| before.ports.get(usize::from(slot)).is_some_and(|port| !port.is_vacant());
    let has_ports = |frame: &OfferedFrame| is_port(frame.from) && frame.to.is_none_or(is_port);
    if names(before) != names(after) || !offered.frames.iter().all(has_ports) {
        return Err(
            "ports were added or removed in that part: choose --from and --to without that".to_owned()
        );
    }
    Ok(())
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
        lines.push(counted(more as u64, "more setting", "more settings"));
    }
    Ok(lines)
}

/// Returns the number of the port of this name.
pub fn number(settings: &SwitchSettings, name: &str) -> Option<usize> {
    settings.ports.iter().position(|port| port.name == name)
}
