//! Thresholds of a port's priority groups and queues: as written in the file, directly or by a
//! profile's name, and the settings that result.

use switch::settings::{GroupSettings, Guaranteed, POOLS, QueueSettings, Threshold};

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::overrides::Overrides;
use crate::read::size::{THRESHOLD, as_dynamic, as_static, size, threshold};
use crate::read::table_reader::{Setting, TableReader};
use crate::spec::{MAX_CELLS, TableSpec, needed, number, table, text};

/// Number of the last service pool.
const LAST_POOL: i64 = POOLS as i64 - 1;

/// `pfc.priority.N`.
pub(crate) const GROUP: TableSpec = &[
    needed("headroom", 0).otherwise(
        "by the speed; with `vhost_user` at least 256 cells, if the pool has them",
        "Cells for frames that arrive after XOFF.",
    ),
    table("xoff", THRESHOLD).about("Use of the shared area at which XOFF is sent: one of these."),
    needed("xon_offset", 0).value("12", "XON is sent this far below the XOFF threshold."),
    needed("resume", 0).value("0", "XON is not sent above this many cells."),
    needed("reserved", 0)
        .otherwise("by the size of a cell", "Cells of the fixed area that the group reserves."),
];

/// `buffer.ingress.priority.N`.
pub(crate) const INGRESS: TableSpec = &[
    number("pool", 0, LAST_POOL).value("0", "Its service pool."),
    text("profile", "lossless").about("All thresholds of `pfc.priority.N` by a profile's name."),
];

/// `buffer.egress.queue.N`.
pub(crate) const EGRESS: TableSpec = &[
    number("pool", 0, LAST_POOL).value("0", "Its service pool."),
    // With 0 cells nothing would ever pass.
    number("shared_cells", 1, MAX_CELLS as i64).about("Its limit in the shared area."),
    number("shared_percent", 0, 100)
        .otherwise("20 of a lossy queue; none of a no-drop queue", "Alpha by percent, in place of a limit."),
    number("guaranteed_percent", 0, 100)
        .otherwise("by the fixed area", "Its part of what the port has of the fixed area."),
    text("profile", "lossy").about("All of these except the pool, by a profile's name."),
];

/// `pfc.priority.N` and `buffer.ingress.priority.N` of a port.
#[derive(Debug, Default, Clone)]
pub(crate) struct GroupTable {
    pub(crate) pool: Option<Setting<u8>>,
    /// Where a profile is bound; if so, all thresholds below come from it.
    pub(crate) profile: Option<SettingSpan>,
    pub(crate) profile_name: Option<String>,
    pub(crate) headroom_cells: Option<Setting<u32>>,
    pub(crate) xoff: Option<Setting<Threshold>>,
    pub(crate) xon_offset_cells: Option<Setting<u32>>,
    pub(crate) resume_cells: Option<Setting<u32>>,
    pub(crate) reserved_cells: Option<Setting<u32>>,
}

impl GroupTable {
    /// Reads `pfc.priority.N`.
    pub(crate) fn read(mut section: TableReader, cell_bytes: u32, report: &mut Diagnostics) -> Self {
        let group = Self {
            headroom_cells: size(&mut section, "headroom", cell_bytes, report),
            xoff: threshold(&mut section, "xoff", cell_bytes, report),
            xon_offset_cells: size(&mut section, "xon_offset", cell_bytes, report),
            resume_cells: size(&mut section, "resume", cell_bytes, report),
            reserved_cells: size(&mut section, "reserved", cell_bytes, report),
            ..Self::default()
        };
        section.finish(report);
        group
    }

    /// Reads `buffer.ingress.priority.N` and looks up its profile by name. Must follow the
    /// thresholds of the same table of the file.
    pub(crate) fn read_buffer(
        &mut self,
        mut section: TableReader,
        profile: impl FnOnce(&Setting<&str>, &mut Diagnostics) -> Option<GroupTable>,
        report: &mut Diagnostics,
    ) {
        let pool = section.number("pool", report);
        if let Some(binding) = section.string("profile", report) {
            if let Some(location) = self.first_threshold() {
                let what = format!("the profile and {} contradict each other", location.setting);
                report.add(&binding.location, what, "leave one of them out");
            }
            if let Some(profile) = profile(&binding, report) {
                let profile_name = Some(binding.value.to_owned());
                *self = Self { profile: Some(binding.location), profile_name, ..profile };
            }
        }
        self.pool = pool;
        section.finish(report);
    }

    /// Returns where the first of the thresholds is written.
    fn first_threshold(&self) -> Option<&SettingSpan> {
        let cells = [&self.headroom_cells, &self.xon_offset_cells, &self.resume_cells, &self.reserved_cells];
        let locations = cells.into_iter().flatten().map(|cells| &cells.location);
        locations
            .chain(self.xoff.as_ref().map(|xoff| &xoff.location))
            .min_by_key(|location| location.span.start)
    }

    /// Checks that XON is below XOFF; otherwise a pause would end at once.
    pub(crate) fn resume_below_xoff(&self, report: &mut Diagnostics) {
        Overrides::alone(self).resume_below_xoff(report);
    }
}

impl Overrides<'_, GroupTable> {
    /// Returns the settings of a group. A group that is protected, by PFC or by PAUSE, starts from
    /// `defaults`, those for the port's speed. Any other group has no headroom, may use all free
    /// cells of its pool, and reserves what [`crate::tables::fixed_area`] assigns to it.
    pub(crate) fn settings(self, protected: bool, defaults: GroupSettings) -> GroupSettings {
        let defaults = if protected { defaults } else { GroupSettings::lossy() };
        GroupSettings {
            pool: self.value(|table| &table.pool, defaults.pool),
            reserved_cells: self.value(|table| &table.reserved_cells, defaults.reserved_cells),
            xoff: self.value(|table| &table.xoff, defaults.xoff),
            xon_offset_cells: self.value(|table| &table.xon_offset_cells, defaults.xon_offset_cells),
            resume_cells: self.value(|table| &table.resume_cells, defaults.resume_cells),
            headroom_cells: match protected {
                true => self.value(|table| &table.headroom_cells, defaults.headroom_cells),
                false => 0,
            },
        }
    }

    /// Checks that XON is below XOFF; otherwise a pause would end at once.
    pub(crate) fn resume_below_xoff(self, report: &mut Diagnostics) {
        let resume = self.setting(|table| &table.resume_cells);
        if let (Some(resume), Some(Threshold::Static(xoff))) = (resume, self.optional(|table| &table.xoff))
            && resume.value >= xoff
        {
            let what = format!("{} cells are not below the XOFF threshold of {xoff} cells", resume.value);
            report.add(&resume.location, what, format!("write at most {} cells", xoff - 1));
        }
    }
}

/// `buffer.egress.queue.N` of a port.
#[derive(Debug, Default, Clone)]
pub(crate) struct QueueTable {
    /// The name of the profile that is bound.
    pub(crate) profile_name: Option<String>,
    pub(crate) pool: Option<Setting<u8>>,
    pub(crate) guaranteed: Option<Setting<Guaranteed>>,
    pub(crate) shared: Option<Setting<Threshold>>,
}

impl QueueTable {
    /// Reads `buffer.egress.queue.N` and looks up its profile by name.
    pub(crate) fn read_buffer(
        &mut self,
        mut section: TableReader,
        profile: impl FnOnce(&Setting<&str>, &mut Diagnostics) -> Option<QueueTable>,
        report: &mut Diagnostics,
    ) {
        self.pool = section.number("pool", report);
        section.at_most_one(&["shared_cells", "shared_percent"], report);
        let shared_cells = section.number("shared_cells", report);
        let shared_percent = section.number("shared_percent", report);
        self.shared = shared_cells.map(as_static).or(shared_percent.map(as_dynamic));
        self.guaranteed = section
            .number("guaranteed_percent", report)
            .map(|percent| Setting { value: Guaranteed::Percent(percent.value), location: percent.location });
        if let Some(binding) = section.string("profile", report) {
            for name in ["guaranteed_percent", "shared_cells", "shared_percent"] {
                section.at_most_one(&["profile", name], report);
            }
            if let Some(profile) = profile(&binding, report) {
                (self.guaranteed, self.shared) = (profile.guaranteed, profile.shared);
                self.profile_name = Some(binding.value.to_owned());
            }
        }
        section.finish(report);
    }
}

impl Overrides<'_, QueueTable> {
    pub(crate) fn settings(self, defaults: QueueSettings) -> QueueSettings {
        QueueSettings {
            pool: self.value(|table| &table.pool, defaults.pool),
            guaranteed: self.value(|table| &table.guaranteed, defaults.guaranteed),
            shared: self.optional(|table| &table.shared).or(defaults.shared),
            ..defaults
        }
    }
}
