//! Congestion management of queues: WRED tables and queue profiles, which ports bind. Both are the
//! same mechanism ([`switch::egress::wred`]), so a queue has one of them.
//!
//! A WRED table configures all eight queues of a port: a queue that it does not write has the
//! default values. So a table bound by a port replaces the defaults' table completely. A profile is
//! bound queue by queue, and each queue is a separate setting. A binding of the port itself wins;
//! for a queue that its table does not write, a profile of the defaults applies. Source:
//! docs/behavior.md, "WRED and ECN"; docs/references.md, "H3C reference" (ECN: tables, and their
//! defaults) and "Inspur white paper" (4, 5.2, 5.3 and 6: profiles, and their defaults).

use std::collections::BTreeMap;
use std::ptr;

use switch::settings::{EcnMarkPoint, PRIORITIES, QueueSettings, WredProfile, WredSettings};

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::overrides::Overrides;
use crate::read::parse::{named_tables, resolve_name};
use crate::read::size::size;
use crate::read::suggest::quoted;
use crate::read::table_reader::{Setting, TableReader, value_or};
use crate::spec::KeySpec::Number;
use crate::spec::{SettingSpec, TableSpec, ValueSpec, boolean, choice, map, needed, number, table, words};
use crate::tables::builtin_profiles;

/// Maximum number of WRED tables, and of queue profiles; the Inspur switch has 128.
const MAX_NAMED: usize = 1024;
const MARK_POINTS: [(&str, EcnMarkPoint); 2] =
    [("enqueue", EcnMarkPoint::Enqueue), ("dequeue", EcnMarkPoint::Dequeue)];
/// What a profile does: mark, drop, or neither.
const ACTIONS: [(&str, Option<bool>); 3] = [("ecn", Some(true)), ("wred", Some(false)), ("none", None)];

/// `wred.NAME`.
pub(crate) const WRED: TableSpec = &[map("queue", Number(PRIORITIES - 1), &ValueSpec::Table(WRED_QUEUE))
    .about("A queue; those that are not written have the defaults.")];

const EXPONENT: SettingSpec = number("weighting_exponent", 0, 15);
const PROBABILITY: SettingSpec = number("probability_percent", 0, 100);

const WRED_QUEUE: TableSpec = &[
    EXPONENT.value("9", "Of the average length; 0: the length of the instant."),
    boolean("ecn").value("false", "Mark frames instead of dropping them."),
    choice("mark", || words(&MARK_POINTS)).value("\"enqueue\"", "Where frames are marked; needs ecn."),
    boolean("drop_not_ect")
        .value("false", "On a no-drop queue: frames that cannot be marked are dropped; needs ecn."),
    table("green", LEVEL).about("Frames of drop level 0."),
    table("yellow", LEVEL).about("Frames of drop level 1."),
    table("red", LEVEL).about("Frames of drop level 2."),
];

const LEVEL: TableSpec = &[
    needed("low", 0).value("100", "Length from which frames are marked or dropped."),
    needed("high", 0).value("1000", "Length from which all are."),
    PROBABILITY.value("10", "Probability just below the high length."),
];

/// `queue-profile.NAME`.
pub(crate) const QUEUE_PROFILE: TableSpec = &[
    choice("action", || words(&ACTIONS)).required("Mark, drop early, or tail drop only."),
    EXPONENT.value("0", "Of the average length; 0: the length of the instant."),
    table("green", PROFILE_LEVEL).about("Frames of drop level 0."),
    table("yellow", PROFILE_LEVEL).about("Frames of drop level 1."),
    table("red", PROFILE_LEVEL).about("Frames of drop level 2."),
];

const PROFILE_LEVEL: TableSpec = &[
    needed("min_threshold", 0).value("0", "Length from which frames are marked or dropped."),
    needed("max_threshold", 0).otherwise("32058368 bytes", "Length from which all are."),
    PROBABILITY.value("100", "Probability just below the high length."),
];

/// Names and default values of the limits of a drop level.
struct Levels {
    low: &'static str,
    high: &'static str,
    default: WredProfile,
}

/// WRED of each queue that a table writes; the others have the default values.
type WredTable = [Option<Setting<WredSettings>>; PRIORITIES];

/// WRED settings of a queue and where they are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueWred<'t> {
    pub(crate) settings: WredSettings,
    /// The setting that configures it.
    pub(crate) location: &'t SettingSpan,
    /// True if the file writes this queue; false if it has the default values of a table.
    pub(crate) is_written: bool,
}

/// `[wred]` and `[queue-profile]`.
#[derive(Debug, Default)]
pub(crate) struct Congestion {
    tables: BTreeMap<String, WredTable>,
    /// `None`: tail drop only.
    profiles: BTreeMap<String, Option<WredSettings>>,
}

impl Congestion {
    /// Returns the queue profiles by name; a profile without settings is tail drop.
    pub(crate) fn profiles(&self) -> &BTreeMap<String, Option<WredSettings>> {
        &self.profiles
    }

    /// Returns the WRED tables: name, and the queues that each has.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (&String, Vec<(usize, WredSettings)>)> {
        self.tables.iter().map(|(name, table)| {
            let queues = table.iter().enumerate();
            let queues = queues.filter_map(|(number, queue)| Some((number, queue.as_ref()?.value)));
            (name, queues.collect())
        })
    }

    /// Reads all tables and profiles.
    pub(crate) fn read(file: &mut TableReader, cell_bytes: u32, report: &mut Diagnostics) -> Self {
        let mut congestion = Self::default();
        congestion
            .profiles
            .insert(builtin_profiles::QUEUE.to_owned(), Some(builtin_profiles::azure_lossless(cell_bytes)));
        if let Some(mut tables) = file.section("wred", report) {
            for (name, table) in at_most(named_tables(&mut tables, report), "WRED tables", report) {
                congestion.tables.insert(name, read_table(table, cell_bytes, report));
            }
        }
        if let Some(mut profiles) = file.section("queue-profile", report) {
            for (name, profile) in at_most(named_tables(&mut profiles, report), "queue profiles", report) {
                congestion.profiles.insert(name, read_profile(profile, cell_bytes, report));
            }
        }
        congestion
    }
}

/// Reports an error if there are more than the maximum of `what`, and leaves out the rest.
fn at_most<'d>(
    mut named: Vec<(String, TableReader<'d>)>,
    what: &str,
    report: &mut Diagnostics,
) -> Vec<(String, TableReader<'d>)> {
    if let Some((_, first)) = named.get(MAX_NAMED) {
        let too_many = format!("this is the first of {} {what} too many", named.len() - MAX_NAMED);
        report.add(&first.location, too_many, format!("a file has at most {MAX_NAMED}"));
        named.truncate(MAX_NAMED);
    }
    named
}

fn read_table(mut section: TableReader, cell_bytes: u32, report: &mut Diagnostics) -> WredTable {
    let mut table = WredTable::default();
    for (number, queue) in section.numbered("queue", report) {
        table[number] = Some(read_queue(queue, cell_bytes, report));
    }
    section.finish(report);
    table
}

/// Reads `wred.NAME.queue.N`.
fn read_queue(mut section: TableReader, cell_bytes: u32, report: &mut Diagnostics) -> Setting<WredSettings> {
    let default = WredSettings::default();
    let exponent = section.number("weighting_exponent", report);
    let ecn = section.boolean("ecn", report);
    let mark = section.choice("mark", &MARK_POINTS, report);
    let drop_not_ect = section.boolean("drop_not_ect", report);
    let marks = value_or(&ecn, default.ecn);
    // If `ecn` could not be read, settings that depend on it are not reported.
    if !marks && (ecn.is_some() || !section.has("ecn")) {
        let drops = drop_not_ect.as_ref().filter(|drops| drops.value);
        for location in
            [mark.as_ref().map(|it| &it.location), drops.map(|it| &it.location)].into_iter().flatten()
        {
            report.add(location, "has no effect without ECN", "write ecn = true, or leave this out");
        }
    }
    let levels = Levels { low: "low", high: "high", default: default.curves[0] };
    let settings = WredSettings {
        exponent: value_or(&exponent, default.exponent),
        ecn: marks,
        mark_at: value_or(&mark, default.mark_at),
        drop_not_ect: value_or(&drop_not_ect, default.drop_not_ect),
        curves: read_curves(&mut section, &levels, cell_bytes, report),
    };
    let location = section.location.clone();
    section.finish(report);
    Setting { value: settings, location }
}

/// Reads `queue-profile.NAME`. The settings of a profile without action are checked too, since the
/// action may be disabled only temporarily.
fn read_profile(mut section: TableReader, cell_bytes: u32, report: &mut Diagnostics) -> Option<WredSettings> {
    /// The whole buffer of docs/references.md, "Inspur white paper" (5.2).
    const MAX_THRESHOLD_BYTES: u32 = 32_058_368;
    let action = section.choice("action", &ACTIONS, report);
    if !section.has("action") {
        let cure = "write action = \"ecn\" to mark, \"wred\" to drop, or \"none\" for tail drop only";
        report.add(&section.location, "no action", cure);
    }
    let exponent = section.number("weighting_exponent", report);
    let high_cells = MAX_THRESHOLD_BYTES.div_ceil(cell_bytes);
    let levels = Levels {
        low: "min_threshold",
        high: "max_threshold",
        default: WredProfile { low_cells: 0, high_cells, probability_percent: 100 },
    };
    let settings = WredSettings {
        exponent: value_or(&exponent, 0),
        ecn: value_or(&action, None).unwrap_or(false),
        curves: read_curves(&mut section, &levels, cell_bytes, report),
        ..WredSettings::default()
    };
    section.finish(report);
    value_or(&action, None).map(|_| settings)
}

fn read_curves(
    section: &mut TableReader,
    levels: &Levels,
    cell_bytes: u32,
    report: &mut Diagnostics,
) -> [WredProfile; 3] {
    ["green", "yellow", "red"].map(|level| match section.section(level, report) {
        Some(line) => read_curve(line, levels, cell_bytes, report),
        None => levels.default,
    })
}

fn read_curve(
    mut section: TableReader,
    levels: &Levels,
    cell_bytes: u32,
    report: &mut Diagnostics,
) -> WredProfile {
    let low = size(&mut section, levels.low, cell_bytes, report);
    let high = size(&mut section, levels.high, cell_bytes, report);
    let percent = section.number("probability_percent", report);
    section.finish(report);
    let curve = WredProfile {
        low_cells: value_or(&low, levels.default.low_cells),
        high_cells: value_or(&high, levels.default.high_cells),
        probability_percent: value_or(&percent, levels.default.probability_percent),
    };
    if let Some(limit) = low.or(high)
        && curve.low_cells > curve.high_cells
    {
        let WredProfile { low_cells, high_cells, .. } = curve;
        let what = format!("it would begin at {low_cells} cells and end at {high_cells}");
        let (low, high) = (levels.low, levels.high);
        let cure =
            format!("write {low}_cells of at most {high_cells}, or {high}_cells of at least {low_cells}");
        report.add(&limit.location, what, cure);
    }
    curve
}

/// The bindings of a port, or of the defaults: `wred` and `queue_profile`.
#[derive(Debug, Default, Clone)]
pub(crate) struct CongestionBinding {
    /// `wred`.
    table: Option<Setting<WredTable>>,
    /// The name of that table.
    table_name: Option<String>,
    /// `queue_profile`, by queue.
    profiles: [Option<Setting<Option<WredSettings>>>; PRIORITIES],
    /// The names of those profiles.
    profile_names: [Option<String>; PRIORITIES],
}

impl CongestionBinding {
    /// Returns the name of the profile of a queue.
    pub(crate) fn profile_name(&self, q: usize) -> Option<&String> {
        self.profile_names[q].as_ref()
    }

    /// Returns the name of the WRED table.
    pub(crate) fn table_name(&self) -> Option<&String> {
        self.table_name.as_ref()
    }

    /// Reads a port's `wred` and `queue_profile`.
    pub(crate) fn read(port: &mut TableReader, congestion: &Congestion, report: &mut Diagnostics) -> Self {
        let mut binding = Self::default();
        let table = port.string("wred", report);
        if let Some(name) = &table {
            let table =
                resolve_name(&congestion.tables, name, "WRED table", ("[wred.NAME.queue.N]", &[]), report);
            binding.table = table.map(|value| Setting { value, location: name.location.clone() });
            binding.table_name = binding.table.is_some().then(|| name.value.to_owned());
        }
        if let Some(profiles) = port.section("queue_profile", report) {
            binding.read_profiles(profiles, congestion, report);
        }
        if let (Some(name), Some(table)) = (&table, &binding.table) {
            for (q, profile) in binding.profiles.iter().enumerate() {
                if let (Some(_), Some(profile)) = (&table.value[q], profile) {
                    let what = format!("the WRED table {} has queue {q} too", quoted(name.value));
                    report.add(&profile.location, what, "leave it out of one of them");
                }
            }
        }
        binding
    }

    fn read_profiles(&mut self, mut section: TableReader, congestion: &Congestion, report: &mut Diagnostics) {
        let mut name_of_queue = [None; PRIORITIES];
        for (name, location, item) in section.entries() {
            let binding = Setting { value: name, location };
            let example = ("[queue-profile.NAME]", &[builtin_profiles::QUEUE][..]);
            let profile = resolve_name(&congestion.profiles, &binding, "queue profile", example, report);
            let Some(queues) = item.numbers(report) else { continue };
            for q in queues.value.into_iter().map(|q: u8| usize::from(q)) {
                if let Some(other) = name_of_queue[q].replace(name) {
                    let what = format!("queue {q} has profile {} already", quoted(other));
                    report.add(&queues.location, what, "list each queue once");
                }
                self.profile_names[q] = Some(name.to_owned());
                self.profiles[q] = profile.map(|value| Setting { value, location: queues.location.clone() });
            }
        }
    }
}

impl<'t> Overrides<'t, CongestionBinding> {
    pub(crate) fn of_queue(self, q: usize) -> Option<QueueWred<'t>> {
        // Only one table applies: a port that binds one replaces that of the defaults.
        let counts = self.setting(|binding| &binding.table);
        let written = self.look_up(|binding| match &binding.profiles[q] {
            Some(profile) => Some((profile.value, &profile.location)),
            None => {
                let table =
                    binding.table.as_ref().filter(|table| counts.is_some_and(|it| ptr::eq(it, *table)));
                table?.value[q].as_ref().map(|queue| (Some(queue.value), &queue.location))
            }
        });
        match (written, counts) {
            (Some((settings, location)), _) => {
                Some(QueueWred { settings: settings?, location, is_written: true })
            }
            (None, Some(table)) => Some(QueueWred {
                settings: WredSettings::default(),
                location: &table.location,
                is_written: false,
            }),
            (None, None) => None,
        }
    }

    /// Sets the WRED of the queues in `queues`.
    pub(crate) fn fill(self, queues: &mut [QueueSettings; PRIORITIES]) {
        for (q, queue) in queues.iter_mut().enumerate() {
            queue.wred = self.of_queue(q).map(|wred| wred.settings);
        }
    }
}
