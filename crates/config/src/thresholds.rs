//! Thresholds of a port's priority groups and queues: what the file says of them, directly or by a profile's name, and the
//! settings that come of it.

use switch::settings::{GroupSettings, Guaranteed, POOLS, QueueSettings, Threshold};

use crate::MAX_CELLS;
use crate::amount::{Amount, as_dynamic, as_static, threshold};
use crate::buffer::Buffer;
use crate::mistakes::{Found, Place};
use crate::section::{Placed, Section, value_or};
use crate::values::bound;

/// The last service pool.
const LAST_POOL: u8 = POOLS as u8 - 1;

const RESERVED: Amount = Amount::needed("reserved_cells", "reserved_bytes");
const HEADROOM: Amount = Amount::needed("headroom_cells", "headroom_bytes");
const RESUME: Amount = Amount::needed("resume_cells", "resume_bytes");
const XON_OFFSET: Amount = Amount::needed("xon_offset_cells", "xon_offset_bytes");

/// `pfc.priority.N` and `buffer.ingress.priority.N` of a port.
#[derive(Debug, Default, Clone)]
pub(crate) struct WrittenGroup {
    pub(crate) pool: Option<Placed<u8>>,
    /// Where a profile was bound; all thresholds below come from it then.
    pub(crate) profile: Option<Place>,
    pub(crate) headroom_cells: Option<Placed<u32>>,
    pub(crate) xoff: Option<Placed<Threshold>>,
    pub(crate) xon_offset_cells: Option<Placed<u32>>,
    pub(crate) resume_cells: Option<Placed<u32>>,
    pub(crate) reserved_cells: Option<Placed<u32>>,
}

impl WrittenGroup {
    /// Reads `pfc.priority.N`.
    pub(crate) fn read(mut section: Section, cell_bytes: u32, found: &mut Found) -> Self {
        let group = Self {
            headroom_cells: HEADROOM.read(&mut section, cell_bytes, found),
            xoff: threshold(&mut section, "xoff", cell_bytes, found),
            xon_offset_cells: XON_OFFSET.read(&mut section, cell_bytes, found),
            resume_cells: RESUME.read(&mut section, cell_bytes, found),
            reserved_cells: RESERVED.read(&mut section, cell_bytes, found),
            ..Self::default()
        };
        section.finish(&[], found);
        group
    }

    /// Reads `buffer.ingress.priority.N`, after the thresholds of the same table of the file.
    pub(crate) fn read_buffer(&mut self, mut section: Section, buffer: &Buffer, found: &mut Found) {
        let pool = section.number("pool", 0..=LAST_POOL, found);
        if let Some(binding) = section.string("profile", "lossless", found) {
            if let Some(place) = self.first_threshold() {
                let what = format!("the profile and {} contradict each other", place.setting);
                found.add(&binding.place, what, "leave one of them out");
            }
            if let Some(profile) = bound(
                &buffer.ingress_profiles,
                &binding,
                "ingress profile",
                "[buffer.ingress.profile.NAME]",
                found,
            ) {
                *self = Self { profile: Some(binding.place), ..profile };
            }
        }
        self.pool = pool;
        section.finish(&[], found);
    }

    /// Where the first of the thresholds stands.
    fn first_threshold(&self) -> Option<&Place> {
        let cells = [&self.headroom_cells, &self.xon_offset_cells, &self.resume_cells, &self.reserved_cells];
        let places = cells.into_iter().flatten().map(|cells| &cells.place);
        places.chain(self.xoff.as_ref().map(|xoff| &xoff.place)).min_by_key(|place| place.span.start)
    }

    /// These settings where they are written, those of `defaults` elsewhere.
    pub(crate) fn over(&self, defaults: &WrittenGroup) -> WrittenGroup {
        let own = self.clone();
        let defaults = defaults.clone();
        WrittenGroup {
            pool: own.pool.or(defaults.pool),
            profile: own.profile.or(defaults.profile),
            headroom_cells: own.headroom_cells.or(defaults.headroom_cells),
            xoff: own.xoff.or(defaults.xoff),
            xon_offset_cells: own.xon_offset_cells.or(defaults.xon_offset_cells),
            resume_cells: own.resume_cells.or(defaults.resume_cells),
            reserved_cells: own.reserved_cells.or(defaults.reserved_cells),
        }
    }

    /// A no-drop group starts from the defaults for the port's speed; a lossy one has nothing reserved, no headroom, and
    /// takes all that its pool has left.
    pub(crate) fn settings(&self, no_drop: bool, defaults: GroupSettings) -> GroupSettings {
        let defaults = if no_drop { defaults } else { GroupSettings::lossy() };
        GroupSettings {
            pool: value_or(&self.pool, defaults.pool),
            reserved_cells: value_or(&self.reserved_cells, defaults.reserved_cells),
            xoff: value_or(&self.xoff, defaults.xoff),
            xon_offset_cells: value_or(&self.xon_offset_cells, defaults.xon_offset_cells),
            resume_cells: value_or(&self.resume_cells, defaults.resume_cells),
            headroom_cells: if no_drop { value_or(&self.headroom_cells, defaults.headroom_cells) } else { 0 },
        }
    }

    /// XON at or above XOFF would never let a pause hold.
    pub(crate) fn resume_below_xoff(&self, found: &mut Found) {
        if let (Some(resume), Some(Placed { value: Threshold::Static(xoff), .. })) =
            (&self.resume_cells, &self.xoff)
            && resume.value >= *xoff
        {
            let what = format!("{} cells are not below the XOFF threshold of {xoff} cells", resume.value);
            found.add(&resume.place, what, format!("write at most {} cells", xoff - 1));
        }
    }
}

/// `buffer.egress.queue.N` of a port.
#[derive(Debug, Default, Clone)]
pub(crate) struct WrittenQueue {
    pub(crate) pool: Option<Placed<u8>>,
    pub(crate) guaranteed: Option<Placed<Guaranteed>>,
    pub(crate) shared: Option<Placed<Threshold>>,
}

impl WrittenQueue {
    /// Reads `buffer.egress.queue.N`.
    pub(crate) fn read_buffer(&mut self, mut section: Section, buffer: &Buffer, found: &mut Found) {
        self.pool = section.number("pool", 0..=LAST_POOL, found);
        section.at_most_one(&["shared_cells", "shared_percent"], found);
        // 0 cells would stop everything for good.
        let shared_cells = section.number("shared_cells", 1..=MAX_CELLS, found);
        let shared_percent = section.number("shared_percent", 0..=100, found);
        self.shared = shared_cells.map(as_static).or(shared_percent.map(as_dynamic));
        self.guaranteed = section
            .number("guaranteed_percent", 0..=100, found)
            .map(|percent| Placed { value: Guaranteed::Percent(percent.value), place: percent.place });
        if let Some(binding) = section.string("profile", "lossy", found) {
            for name in ["guaranteed_percent", "shared_cells", "shared_percent"] {
                section.at_most_one(&["profile", name], found);
            }
            if let Some(profile) = bound(
                &buffer.egress_profiles,
                &binding,
                "egress profile",
                "[buffer.egress.profile.NAME]",
                found,
            ) {
                (self.guaranteed, self.shared) = (profile.guaranteed, profile.shared);
            }
        }
        section.finish(&[], found);
    }

    /// These settings where they are written, those of `defaults` elsewhere.
    pub(crate) fn over(&self, defaults: &WrittenQueue) -> WrittenQueue {
        let own = self.clone();
        let defaults = defaults.clone();
        WrittenQueue {
            pool: own.pool.or(defaults.pool),
            guaranteed: own.guaranteed.or(defaults.guaranteed),
            shared: own.shared.or(defaults.shared),
        }
    }

    /// The settings of a queue, with `defaults` for what is not written.
    pub(crate) fn settings(&self, defaults: QueueSettings) -> QueueSettings {
        QueueSettings {
            pool: value_or(&self.pool, defaults.pool),
            guaranteed: value_or(&self.guaranteed, defaults.guaranteed),
            shared: self.shared.as_ref().map(|shared| shared.value).or(defaults.shared),
            ..defaults
        }
    }
}
