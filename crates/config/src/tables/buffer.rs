//! `[buffer]`: the areas of the buffer, its service pools, and the profiles that ports bind to
//! priorities and queues.
//!
//! A profile is read into the same struct as a port's own thresholds, and sets all of them: what
//! the profile leaves out is 0. Where a port binds a profile, it replaces the thresholds of the
//! defaults.
//! Source: docs/behavior.md, "Areas and pools"; docs/references.md, "Inspur white paper" (5.5, 5.6
//! and 6: profiles, and `qos buffer-pool ingress`: buffer-size is the `size_bytes` of the pool at
//! ingress, pause-threshold its `pause_threshold_bytes`) and "H3C reference" (Managing data
//! buffers).

use std::collections::BTreeMap;

use switch::settings::{ALL_IN_POOL_0, BufferSettings, Guaranteed, POOLS};

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::parse::{named_tables, resolve_name};
use crate::read::size::{THRESHOLD, size, threshold};
use crate::read::table_reader::{Setting, TableReader, set, value_or};
use crate::spec::KeySpec::{Name, Number};
use crate::spec::{CELL_BYTES, SettingSpec, TableSpec, ValueSpec, area, choice, map, needed, number, table};
use crate::tables::builtin_profiles;
use crate::tables::port::thresholds::{GroupTable, QueueTable};
use crate::tables::preset::{self, PRESETS, Preset};

pub(crate) const BUFFER: TableSpec = &[
    choice("preset", || PRESETS.iter().map(|preset| preset.name).collect())
        .about("Defaults of that switch for all of the following except the fixed area."),
    number("cell_bytes", *CELL_BYTES.start() as i64, *CELL_BYTES.end() as i64)
        .value("256", "Size of a cell.")
        .restart(),
    area("total", 1).value("131072", "Cells of the buffer."),
    area("fixed", 0).otherwise("an eighth of the total, or more if reserved", "Cells that are reserved."),
    area("headroom", 0).value("12288", "Cells of the headroom pool."),
    table("ingress", INGRESS).about("Pools and profiles of received frames."),
    table("egress", EGRESS).about("Pools and profiles of frames to transmit."),
];

const INGRESS: TableSpec = &[
    map("pool", Number(POOLS - 1), &ValueSpec::Table(&[SHARE, SIZE, PAUSE]))
        .about("A service pool of the shared area; pool 0 has what the others leave."),
    map("profile", Name, &ValueSpec::Table(INGRESS_PROFILE))
        .about("Thresholds that ports bind to priorities; 0 is the default of each."),
];

const EGRESS: TableSpec = &[
    map("pool", Number(POOLS - 1), &ValueSpec::Table(&[SHARE, SIZE]))
        .about("A service pool of the shared area; pool 0 has what the others leave."),
    map("profile", Name, &ValueSpec::Table(&[RESERVED, SHARED]))
        .about("Thresholds that ports bind to queues."),
];

const SHARE: SettingSpec = number("shared_percent", 0, 100).about("Its share of the shared area.");
const SIZE: SettingSpec = area("size", 0).about("Its size, in place of a share.");
const PAUSE: SettingSpec = area("pause_threshold", 1).about("Use at which its no-drop groups are paused.");

const INGRESS_PROFILE: TableSpec = &[
    RESERVED,
    // The Inspur switch sends XOFF when less than that is left.
    needed("xoff", 0).value("0", "Headroom, for frames that arrive after XOFF."),
    needed("xon", 0).value("0", "As `resume_cells` of a port."),
    needed("xon_offset", 0).value("0", "As `xon_offset_cells` of a port."),
    SHARED,
];

const RESERVED: SettingSpec = needed("reserved", 0).value("0", "Cells that each group or queue reserves.");
const SHARED: SettingSpec = table("shared", THRESHOLD).required("Limit in the shared area: one of these.");

/// `buffer.ingress.pool.N` and `buffer.egress.pool.N`.
#[derive(Debug, Default)]
pub(crate) struct PoolTable {
    /// Share of the shared area in percent. Excludes `size_cells`.
    pub(crate) share: Option<Setting<u8>>,
    /// Size in cells. Excludes `share`.
    pub(crate) size_cells: Option<Setting<u32>>,
    /// At ingress: use at which the no-drop groups of the pool are paused.
    pub(crate) pause_cells: Option<Setting<u32>>,
}

impl PoolTable {
    /// Returns where the file sets its size.
    pub(crate) fn location(&self) -> Option<&SettingSpan> {
        let share = self.share.as_ref().map(|share| &share.location);
        share.or(self.size_cells.as_ref().map(|size| &size.location))
    }
}

/// The service pools of a direction.
pub(crate) type PoolTables = [PoolTable; POOLS];

/// Buffer settings as written in the file, and the settings that result.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) total_cells: Option<Setting<u32>>,
    pub(crate) fixed_cells: Option<Setting<u32>>,
    pub(crate) headroom_cells: Option<Setting<u32>>,
    pub(crate) ingress_pools: PoolTables,
    pub(crate) egress_pools: PoolTables,
    pub(crate) ingress_profiles: BTreeMap<String, GroupTable>,
    pub(crate) egress_profiles: BTreeMap<String, QueueTable>,
    pub(crate) settings: BufferSettings,
    pub(crate) preset: Option<Preset>,
    /// Cells that a no-drop group reserves by default.
    pub(crate) reserved_cells: u32,
}

impl Buffer {
    /// Reads `[buffer]`. If the file sets no fixed area, it has its default size here.
    pub(crate) fn read(file: &mut TableReader, report: &mut Diagnostics) -> Self {
        let mut buffer = Self::default();
        buffer.reserved_cells = preset::reserved_cells(buffer.settings.cell_bytes);
        let Some(mut section) = file.section("buffer", report) else { return buffer };
        buffer.read_preset(&mut section, report);
        set(&mut buffer.settings.cell_bytes, section.number("cell_bytes", report));
        let of_chip = preset::reserved_cells(buffer.settings.cell_bytes);
        buffer.reserved_cells = buffer.preset.map_or(of_chip, |preset| preset.reserved_cells);
        buffer.read_areas(&mut section, report);
        if let Some(ingress) = section.section("ingress", report) {
            buffer.read_ingress(ingress, report);
        }
        if let Some(egress) = section.section("egress", report) {
            buffer.read_egress(egress, report);
        }
        section.finish(report);
        buffer
    }

    /// Applies the preset's numbers, which those of the file then override.
    fn read_preset(&mut self, section: &mut TableReader, report: &mut Diagnostics) {
        let names = PRESETS.map(|preset| (preset.name, preset));
        self.preset = section.choice("preset", &names, report).map(|preset| preset.value);
        if let Some(Preset { cell_bytes, total_cells, headroom_cells, .. }) = self.preset {
            let settings = &mut self.settings;
            (settings.cell_bytes, settings.total_cells, settings.headroom_cells) =
                (cell_bytes, total_cells, headroom_cells);
        }
    }

    fn read_areas(&mut self, section: &mut TableReader, report: &mut Diagnostics) {
        let settings = &mut self.settings;
        self.total_cells = size(section, "total", settings.cell_bytes, report);
        self.fixed_cells = size(section, "fixed", settings.cell_bytes, report);
        self.headroom_cells = size(section, "headroom", settings.cell_bytes, report);
        for (area, setting) in [
            (&self.total_cells, &mut settings.total_cells),
            (&self.fixed_cells, &mut settings.fixed_cells),
            (&self.headroom_cells, &mut settings.headroom_cells),
        ] {
            *setting = value_or(area, *setting);
        }
    }

    fn read_ingress(&mut self, mut ingress: TableReader, report: &mut Diagnostics) {
        self.ingress_pools = read_pools(&mut ingress, self.settings.cell_bytes, true, report);
        self.settings.ingress_pool_percent = percentages(&self.ingress_pools, report);
        self.settings.ingress_pool_cells = sizes(&self.ingress_pools);
        let pause = |pool: &PoolTable| pool.pause_cells.as_ref().map(|cells| cells.value);
        self.settings.pause_cells = self.ingress_pools.each_ref().map(pause);
        for (name, section) in read_profiles(&mut ingress, report) {
            let profile = read_ingress_profile(section, self.settings.cell_bytes, report);
            self.ingress_profiles.insert(name, profile);
        }
        ingress.misplaced("priority", "write it in [port-defaults.buffer.ingress.priority.N]", report);
        ingress.finish(report);
    }

    fn read_egress(&mut self, mut egress: TableReader, report: &mut Diagnostics) {
        self.egress_pools = read_pools(&mut egress, self.settings.cell_bytes, false, report);
        self.settings.egress_pool_percent = percentages(&self.egress_pools, report);
        self.settings.egress_pool_cells = sizes(&self.egress_pools);
        for (name, section) in read_profiles(&mut egress, report) {
            let profile = read_egress_profile(section, self.settings.cell_bytes, report);
            self.egress_profiles.insert(name, profile);
        }
        egress.misplaced("queue", "write it in [port-defaults.buffer.egress.queue.N]", report);
        egress.finish(report);
    }

    /// Returns the priority profile that a port binds: one of the file, or a built-in one.
    pub(crate) fn ingress_profile(
        &self,
        binding: &Setting<&str>,
        report: &mut Diagnostics,
    ) -> Option<GroupTable> {
        let of_file = self.ingress_profiles.contains_key(binding.value);
        let built_in = builtin_profiles::ingress(binding.value, self.settings.cell_bytes, &binding.location);
        match built_in.filter(|_| !of_file) {
            None => {
                let example = ("[buffer.ingress.profile.NAME]", &builtin_profiles::INGRESS[..]);
                resolve_name(&self.ingress_profiles, binding, "ingress profile", example, report)
            }
            profile => profile,
        }
    }

    /// Returns the queue profile that a port binds.
    pub(crate) fn egress_profile(
        &self,
        binding: &Setting<&str>,
        report: &mut Diagnostics,
    ) -> Option<QueueTable> {
        let of_file = self.egress_profiles.contains_key(binding.value);
        let built_in = builtin_profiles::egress(binding.value, self.settings.cell_bytes, &binding.location);
        match built_in.filter(|_| !of_file) {
            None => {
                let example = ("[buffer.egress.profile.NAME]", &builtin_profiles::EGRESS[..]);
                resolve_name(&self.egress_profiles, binding, "egress profile", example, report)
            }
            profile => profile,
        }
    }

    /// Returns how to get at least `cells` for an area: by its setting, or by the one called
    /// `buffer.{cells_name}` if the file has none.
    pub(crate) fn how_to_raise(&self, area: Option<&Setting<u32>>, cells_name: &str, cells: u64) -> String {
        match area {
            Some(area) if area.location.setting.ends_with("_bytes") => {
                let bytes = cells * u64::from(self.settings.cell_bytes);
                format!("raise {} to at least {bytes}", area.location.setting)
            }
            _ => format!("raise buffer.{cells_name} to at least {cells}"),
        }
    }
}

fn read_pools(
    direction: &mut TableReader,
    cell_bytes: u32,
    is_ingress: bool,
    report: &mut Diagnostics,
) -> PoolTables {
    let mut pools = PoolTables::default();
    for (number, mut section) in direction.numbered("pool", report) {
        for size in ["size_cells", "size_bytes"] {
            section.at_most_one(&["shared_percent", size], report);
        }
        pools[number] = PoolTable {
            share: section.number("shared_percent", report),
            size_cells: size(&mut section, "size", cell_bytes, report),
            pause_cells: if is_ingress {
                size(&mut section, "pause_threshold", cell_bytes, report)
            } else {
                None
            },
        };
        if !is_ingress {
            for name in ["pause_threshold_cells", "pause_threshold_bytes"] {
                section.misplaced(
                    name,
                    "write it in [buffer.ingress.pool.N]: PFC is sent by ingress",
                    report,
                );
            }
        }
        section.finish(report);
    }
    pools
}

fn sizes(pools: &PoolTables) -> [Option<u32>; POOLS] {
    pools.each_ref().map(|pool| pool.size_cells.as_ref().map(|cells| cells.value))
}

/// Returns the share of each pool; pool 0 has what the others leave unless the file sets it.
fn percentages(pools: &PoolTables, report: &mut Diagnostics) -> [u8; POOLS] {
    let shares: Vec<&Setting<u8>> = pools.iter().filter_map(|pool| pool.share.as_ref()).collect();
    let sum: u32 = shares.iter().map(|percent| u32::from(percent.value)).sum();
    if sum > 100
        && let Some(last) = last_share(pools)
    {
        let terms: Vec<String> = shares.iter().map(|percent| percent.value.to_string()).collect();
        let what = format!("the pools have {} = {sum} % of the shared area", terms.join(" + "));
        report.add(last, what, "lower them to 100 % together");
        return ALL_IN_POOL_0;
    }
    let mut percent = pools.each_ref().map(|pool| pool.share.as_ref().map_or(0, |percent| percent.value));
    if pools[0].share.is_none() {
        percent[0] = 100 - sum as u8;
    }
    percent
}

/// Returns where the share, or the size, is that comes last in the file.
pub(crate) fn last_share(pools: &PoolTables) -> Option<&SettingSpan> {
    pools.iter().filter_map(PoolTable::location).max_by_key(|location| location.span.start)
}

fn read_profiles<'d>(
    direction: &mut TableReader<'d>,
    report: &mut Diagnostics,
) -> Vec<(String, TableReader<'d>)> {
    direction
        .section("profile", report)
        .map_or(Vec::new(), |mut profiles| named_tables(&mut profiles, report))
}

fn read_ingress_profile(mut section: TableReader, cell_bytes: u32, report: &mut Diagnostics) -> GroupTable {
    let profile = section.location.clone();
    let mut read = |name| {
        let cells = size(&mut section, name, cell_bytes, report);
        Some(cells.unwrap_or(Setting { value: 0, location: profile.clone() }))
    };
    let mut group = GroupTable {
        reserved_cells: read("reserved"),
        headroom_cells: read("xoff"),
        resume_cells: read("xon"),
        xon_offset_cells: read("xon_offset"),
        ..GroupTable::default()
    };
    group.xoff = threshold(&mut section, "shared", cell_bytes, report);
    group.resume_below_xoff(report);
    finish_profile(section, report);
    group
}

fn read_egress_profile(mut section: TableReader, cell_bytes: u32, report: &mut Diagnostics) -> QueueTable {
    let reserved = size(&mut section, "reserved", cell_bytes, report);
    let guaranteed = match reserved {
        Some(cells) => Setting { value: Guaranteed::Cells(cells.value), location: cells.location },
        None => Setting { value: Guaranteed::Cells(0), location: section.location.clone() },
    };
    let shared = threshold(&mut section, "shared", cell_bytes, report);
    finish_profile(section, report);
    QueueTable { guaranteed: Some(guaranteed), shared, ..QueueTable::default() }
}

fn finish_profile(section: TableReader, report: &mut Diagnostics) {
    if !section.has("shared") {
        let cure = "write shared = { … } with static_cells, static_bytes, dynamic_percent or dynamic_th";
        report.add(&section.location, "no shared threshold", cure);
    }
    section.finish(report);
}
