//! What queues do when they grow: WRED tables and queue profiles, which ports bind. Both are the same mechanism
//! ([`switch::wred`]), so a queue has one of them.
//!
//! A WRED table says all queues of a port, so a port that binds one leaves nothing of the defaults' table. A profile is
//! bound queue by queue, and each queue is a setting of its own. What the port itself binds wins.
//! Source: docs/law.md, "WRED and ECN"; docs/sources.md, "H3C reference" (ECN: tables, and their defaults) and "Inspur
//! white paper" (4, 5.2, 5.3 and 6: profiles, and their defaults).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use switch::classify::queues_of_priorities;
use switch::settings::{BridgeSettings, Curve, MarkAt, PRIORITIES, QueueSettings, WredSettings};

use crate::amount::Amount;
use crate::checks::Port;
use crate::mistakes::{Found, Place};
use crate::section::{Placed, Section, quoted, value_or};
use crate::values::{bound, named};

/// Most WRED tables, and most queue profiles; the Inspur switch has 128.
const MAX_NAMED: usize = 1024;
/// The range of the exponent.
const EXPONENT: RangeInclusive<u8> = 0..=15;

/// How the limits of a drop level are called, and what they are by default.
struct Levels {
    low: Amount,
    high: Amount,
    default: Curve,
}

/// The WRED of each queue that a table has.
type WredTable = [Option<Placed<WredSettings>>; PRIORITIES];

/// `[wred]` and `[queue-profile]`.
#[derive(Debug, Default)]
pub(crate) struct Congestion {
    tables: BTreeMap<String, WredTable>,
    /// `None`: tail drop only.
    profiles: BTreeMap<String, Option<WredSettings>>,
}

impl Congestion {
    /// Reads all tables and profiles.
    pub(crate) fn read(file: &mut Section, cell_bytes: u32, found: &mut Found) -> Self {
        let mut congestion = Self::default();
        if let Some(mut tables) = file.section("wred", found) {
            for (name, table) in at_most(named(&mut tables, found), "WRED tables", found) {
                congestion.tables.insert(name, read_table(table, cell_bytes, found));
            }
        }
        if let Some(mut profiles) = file.section("queue-profile", found) {
            for (name, profile) in at_most(named(&mut profiles, found), "queue profiles", found) {
                congestion.profiles.insert(name, read_profile(profile, cell_bytes, found));
            }
        }
        congestion
    }
}

/// Complains where there are too many of `what`.
fn at_most<'d>(
    named: Vec<(String, Section<'d>)>,
    what: &str,
    found: &mut Found,
) -> Vec<(String, Section<'d>)> {
    if let Some((_, first)) = named.get(MAX_NAMED) {
        let too_many = format!("this is the first of {} {what} too many", named.len() - MAX_NAMED);
        found.add(&first.place, too_many, format!("a file has at most {MAX_NAMED}"));
    }
    named
}

fn read_table(mut section: Section, cell_bytes: u32, found: &mut Found) -> WredTable {
    let mut table = WredTable::default();
    let place = section.place.clone();
    let queues = section.numbered("queue", PRIORITIES - 1, found);
    if queues.is_empty() && !section.has("queue") {
        found.add(&place, "no queue", format!("write [{}.queue.N] for each queue with WRED", place.setting));
    }
    for (number, queue) in queues {
        table[number] = Some(read_queue(queue, cell_bytes, found));
    }
    section.finish(&[], found);
    table
}

/// Reads `wred.NAME.queue.N`.
fn read_queue(mut section: Section, cell_bytes: u32, found: &mut Found) -> Placed<WredSettings> {
    let default = WredSettings::default();
    let exponent = section.number("weighting_exponent", EXPONENT, found);
    let ecn = section.boolean("ecn", found);
    let mark =
        section.choice("mark", &[("enqueue", MarkAt::Enqueue), ("dequeue", MarkAt::Dequeue)], &[], found);
    let drop_not_ect = section.boolean("drop_not_ect", found);
    let marks = value_or(&ecn, default.ecn);
    // An `ecn` that could not be read is no reason to complain of what needs it.
    if !marks && (ecn.is_some() || !section.has("ecn")) {
        let asked = drop_not_ect.as_ref().filter(|asked| asked.value);
        for place in [mark.as_ref().map(|it| &it.place), asked.map(|it| &it.place)].into_iter().flatten() {
            found.add(place, "of no effect without ECN", "write ecn = true, or leave this out");
        }
    }
    let levels = Levels {
        low: Amount::needed("low_cells", "low_bytes"),
        high: Amount::needed("high_cells", "high_bytes"),
        default: default.curves[0],
    };
    let settings = WredSettings {
        exponent: value_or(&exponent, default.exponent),
        ecn: marks,
        mark_at: value_or(&mark, default.mark_at),
        drop_not_ect: value_or(&drop_not_ect, default.drop_not_ect),
        curves: read_curves(&mut section, &levels, cell_bytes, found),
    };
    let place = section.place.clone();
    section.finish(&[], found);
    Placed { value: settings, place }
}

/// Reads `queue-profile.NAME`. The lines of a profile without action are checked all the same: it may be switched off for
/// a while.
fn read_profile(mut section: Section, cell_bytes: u32, found: &mut Found) -> Option<WredSettings> {
    const ACTIONS: [(&str, Option<bool>); 3] = [("ecn", Some(true)), ("wred", Some(false)), ("none", None)];
    /// The whole buffer of docs/sources.md, "Inspur white paper" (5.2).
    const MAX_THRESHOLD_BYTES: u32 = 32_058_368;
    let action = section.choice("action", &ACTIONS, &[], found);
    if !section.has("action") {
        let cure = "write action = \"ecn\" to mark, \"wred\" to drop, or \"none\" for tail drop only";
        found.add(&section.place, "no action", cure);
    }
    let exponent = section.number("weighting_exponent", EXPONENT, found);
    let high_cells = MAX_THRESHOLD_BYTES.div_ceil(cell_bytes);
    let levels = Levels {
        low: Amount::needed("min_threshold_cells", "min_threshold_bytes"),
        high: Amount::needed("max_threshold_cells", "max_threshold_bytes"),
        default: Curve { low_cells: 0, high_cells, probability_percent: 100 },
    };
    let settings = WredSettings {
        exponent: value_or(&exponent, 0),
        ecn: value_or(&action, None).unwrap_or(false),
        curves: read_curves(&mut section, &levels, cell_bytes, found),
        ..WredSettings::default()
    };
    section.finish(&[], found);
    value_or(&action, None).map(|_| settings)
}

fn read_curves(section: &mut Section, levels: &Levels, cell_bytes: u32, found: &mut Found) -> [Curve; 3] {
    ["green", "yellow", "red"].map(|level| match section.section(level, found) {
        Some(line) => read_curve(line, levels, cell_bytes, found),
        None => levels.default,
    })
}

fn read_curve(mut section: Section, levels: &Levels, cell_bytes: u32, found: &mut Found) -> Curve {
    let low = levels.low.read(&mut section, cell_bytes, found);
    let high = levels.high.read(&mut section, cell_bytes, found);
    let percent = section.number("probability_percent", 0..=100, found);
    section.finish(&[], found);
    let curve = Curve {
        low_cells: value_or(&low, levels.default.low_cells),
        high_cells: value_or(&high, levels.default.high_cells),
        probability_percent: value_or(&percent, levels.default.probability_percent),
    };
    if let Some(written) = low.or(high)
        && curve.low_cells > curve.high_cells
    {
        let Curve { low_cells, high_cells, .. } = curve;
        let what = format!("it would begin at {low_cells} cells and end at {high_cells}");
        let (low, high) = (levels.low.cells, levels.high.cells);
        let cure = format!("write {low} of at most {high_cells}, or {high} of at least {low_cells}");
        found.add(&written.place, what, cure);
    }
    curve
}

/// What a port binds; nothing is filled in.
#[derive(Debug, Default, Clone)]
pub(crate) struct WrittenCongestion {
    /// `wred`.
    table: Option<Placed<WredTable>>,
    /// `queue_profile`, by queue.
    profiles: [Option<Placed<Option<WredSettings>>>; PRIORITIES],
}

impl WrittenCongestion {
    /// Reads a port's `wred` and `queue_profile`.
    pub(crate) fn read(port: &mut Section, congestion: &Congestion, found: &mut Found) -> Self {
        let mut written = Self::default();
        let table = port.string("wred", "table", found);
        if let Some(name) = &table {
            let table = bound(&congestion.tables, name, "WRED table", "[wred.NAME.queue.N]", found);
            written.table = table.map(|value| Placed { value, place: name.place.clone() });
        }
        if let Some(profiles) = port.section("queue_profile", found) {
            written.read_profiles(profiles, congestion, found);
        }
        if let (Some(name), Some(table)) = (&table, &written.table) {
            for (q, profile) in written.profiles.iter().enumerate() {
                if let (Some(_), Some(profile)) = (&table.value[q], profile) {
                    let what = format!("the WRED table {} has queue {q} too", quoted(name.value));
                    found.add(&profile.place, what, "leave it out of one of them");
                }
            }
        }
        written
    }

    fn read_profiles(&mut self, mut section: Section, congestion: &Congestion, found: &mut Found) {
        let mut name_of_queue = [None; PRIORITIES];
        for (name, place, item) in section.entries() {
            let binding = Placed { value: name, place };
            let profile =
                bound(&congestion.profiles, &binding, "queue profile", "[queue-profile.NAME]", found);
            let Some(queues) = item.numbers(0..=7, found) else { continue };
            for q in queues.value.into_iter().map(|q: u8| usize::from(q)) {
                if let Some(other) = name_of_queue[q].replace(name) {
                    let what = format!("queue {q} has profile {} already", quoted(other));
                    found.add(&queues.place, what, "list each queue once");
                }
                self.profiles[q] = profile.map(|value| Placed { value, place: queues.place.clone() });
            }
        }
    }

    /// These settings where they are written, those of `defaults` elsewhere.
    pub(crate) fn over(&self, defaults: &WrittenCongestion) -> WrittenCongestion {
        let own_table = self.table.clone();
        let in_table = |q: usize| own_table.as_ref().is_some_and(|table| table.value[q].is_some());
        let default_profile = |q: usize| defaults.profiles[q].clone().filter(|_| !in_table(q));
        WrittenCongestion {
            profiles: std::array::from_fn(|q| self.profiles[q].clone().or_else(|| default_profile(q))),
            table: own_table.or(defaults.table.clone()),
        }
    }

    /// The WRED of a queue, and where it is said.
    pub(crate) fn of_queue(&self, q: usize) -> Option<(WredSettings, &Place)> {
        match &self.profiles[q] {
            Some(profile) => Some((profile.value?, &profile.place)),
            None => self.table.as_ref()?.value[q].as_ref().map(|queue| (queue.value, &queue.place)),
        }
    }

    /// Puts the WRED of queues into `queues`.
    pub(crate) fn fill(&self, queues: &mut [QueueSettings; PRIORITIES]) {
        for (q, queue) in queues.iter_mut().enumerate() {
            queue.wred = self.of_queue(q).map(|(settings, _)| settings);
        }
    }
}

/// On a no-drop queue WRED without ECN does nothing, and elsewhere what is not ECT drops without being asked for.
pub(crate) fn no_drop_queues(ports: &[Port], bridge: &BridgeSettings, found: &mut Found) {
    // As `pfc` of a port: what is listed counts even while PFC is off, but then nothing is protected.
    let listed = queues(ports, bridge, |port| value_or(&port.effective.pfc.no_drop, 0));
    let protected = queues(ports, bridge, |port| port.settings.pfc.no_drop);
    for port in ports {
        for q in 0..PRIORITIES {
            let Some((wred, place)) = port.effective.congestion.of_queue(q) else { continue };
            if wred.drop_not_ect && listed & 1 << q == 0 {
                let what = format!("queue {q} is no-drop on no port, and drops what is not ECT anyway");
                found.add(place, what, "leave drop_not_ect out");
            }
            if !wred.ecn && protected & 1 << q != 0 {
                let what = format!("queue {q} is no-drop: without ECN, WRED does nothing there");
                found.add(place, what, "turn ECN on, or leave the queue out");
            }
        }
    }
}

/// Queues that carry the priorities of any port's mask: what is no-drop for one port is so on all.
fn queues(ports: &[Port], bridge: &BridgeSettings, mask: impl Fn(&Port) -> u8) -> u8 {
    let of_port = |port: &Port| {
        let queues = queues_of_priorities(&port.settings.classify, bridge.unknown_unicast_to_queue);
        let mask = mask(port);
        (0..PRIORITIES).filter(|p| mask & 1 << p != 0).fold(0, |all, p| all | queues[p].bits())
    };
    ports.iter().fold(0, |all, port| all | of_port(port))
}
