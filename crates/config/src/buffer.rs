//! `[buffer]`: the areas of the memory, its service pools, and the profiles that ports bind to priorities and queues.
//!
//! A profile is read into what a port's own thresholds are read into, all of it: what the profile leaves out is 0. Where a
//! port binds it, it takes the place of whatever the defaults say.
//! Source: docs/law.md, "Areas and pools"; docs/sources.md, "Inspur white paper" (5.5, 5.6 and 6: profiles, and the
//! ingress pool: buffer-size is `total_bytes`, pause-threshold `headroom_bytes`) and "H3C reference" (Managing data
//! buffers).

use std::collections::BTreeMap;

use switch::settings::{ALL_IN_POOL_0, BufferSettings, Guaranteed, POOLS};

use crate::CELL_BYTES;
use crate::amount::{Amount, Rounding, threshold};
use crate::mistakes::{Found, Place};
use crate::section::{Placed, Section};
use crate::thresholds::{WrittenGroup, WrittenQueue};
use crate::values::named;

const TOTAL: Amount =
    Amount { cells: "total_cells", bytes: "total_bytes", least_cells: 1, rounding: Rounding::Down };
const FIXED: Amount =
    Amount { cells: "fixed_cells", bytes: "fixed_bytes", least_cells: 0, rounding: Rounding::Down };
const HEADROOM: Amount =
    Amount { cells: "headroom_cells", bytes: "headroom_bytes", least_cells: 0, rounding: Rounding::Down };

const RESERVED: Amount = Amount::needed("reserved_cells", "reserved_bytes");
const XOFF: Amount = Amount::needed("xoff_cells", "xoff_bytes");
const XON: Amount = Amount::needed("xon_cells", "xon_bytes");
const XON_OFFSET: Amount = Amount::needed("xon_offset_cells", "xon_offset_bytes");

/// `shared_percent` of each service pool.
pub(crate) type WrittenPools = [Option<Placed<u8>>; POOLS];

/// What the file says of the buffer, and what comes of it.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) total_cells: Option<Placed<u32>>,
    pub(crate) fixed_cells: Option<Placed<u32>>,
    pub(crate) headroom_cells: Option<Placed<u32>>,
    pub(crate) ingress_pools: WrittenPools,
    pub(crate) egress_pools: WrittenPools,
    pub(crate) ingress_profiles: BTreeMap<String, WrittenGroup>,
    pub(crate) egress_profiles: BTreeMap<String, WrittenQueue>,
    pub(crate) settings: BufferSettings,
}

impl Buffer {
    /// Reads `[buffer]`. The fixed area is still the default's if it is not written.
    pub(crate) fn read(file: &mut Section, found: &mut Found) -> Self {
        let mut buffer = Self::default();
        let Some(mut section) = file.section("buffer", found) else { return buffer };
        if let Some(cell_bytes) = section.number("cell_bytes", CELL_BYTES, found) {
            buffer.settings.cell_bytes = cell_bytes.value;
        }
        buffer.read_areas(&mut section, found);
        if let Some(ingress) = section.section("ingress", found) {
            buffer.read_ingress(ingress, found);
        }
        if let Some(egress) = section.section("egress", found) {
            buffer.read_egress(egress, found);
        }
        section.finish(&[], found);
        buffer
    }

    fn read_areas(&mut self, section: &mut Section, found: &mut Found) {
        let settings = &mut self.settings;
        self.total_cells = TOTAL.read(section, settings.cell_bytes, found);
        self.fixed_cells = FIXED.read(section, settings.cell_bytes, found);
        self.headroom_cells = HEADROOM.read(section, settings.cell_bytes, found);
        for (written, setting) in [
            (&self.total_cells, &mut settings.total_cells),
            (&self.fixed_cells, &mut settings.fixed_cells),
            (&self.headroom_cells, &mut settings.headroom_cells),
        ] {
            *setting = written.as_ref().map_or(*setting, |cells| cells.value);
        }
    }

    fn read_ingress(&mut self, mut ingress: Section, found: &mut Found) {
        self.ingress_pools = read_pools(&mut ingress, found);
        self.settings.ingress_pool_percent = percentages(&self.ingress_pools, found);
        for (name, section) in read_profiles(&mut ingress, found) {
            let profile = read_ingress_profile(section, self.settings.cell_bytes, found);
            self.ingress_profiles.insert(name, profile);
        }
        ingress.misplaced("priority", "write it in [port-defaults.buffer.ingress.priority.N]", found);
        ingress.finish(&[], found);
    }

    fn read_egress(&mut self, mut egress: Section, found: &mut Found) {
        self.egress_pools = read_pools(&mut egress, found);
        self.settings.egress_pool_percent = percentages(&self.egress_pools, found);
        for (name, section) in read_profiles(&mut egress, found) {
            let profile = read_egress_profile(section, self.settings.cell_bytes, found);
            self.egress_profiles.insert(name, profile);
        }
        egress.misplaced("queue", "write it in [port-defaults.buffer.egress.queue.N]", found);
        egress.finish(&[], found);
    }

    /// How to get at least `cells` for an area whose setting is `written`, or else called `buffer.{cells_name}`.
    pub(crate) fn raise(&self, written: Option<&Placed<u32>>, cells_name: &str, cells: u64) -> String {
        match written {
            Some(written) if written.place.setting.ends_with("_bytes") => {
                let bytes = cells * u64::from(self.settings.cell_bytes);
                format!("raise {} to at least {bytes}", written.place.setting)
            }
            _ => format!("raise buffer.{cells_name} to at least {cells}"),
        }
    }
}

fn read_pools(direction: &mut Section, found: &mut Found) -> WrittenPools {
    let mut pools = WrittenPools::default();
    for (number, mut section) in direction.numbered("pool", POOLS - 1, found) {
        pools[number] = section.number("shared_percent", 0..=100, found);
        section.finish(&[], found);
    }
    pools
}

/// The share of each pool; pool 0 has what the others leave unless the file says otherwise.
fn percentages(pools: &WrittenPools, found: &mut Found) -> [u8; POOLS] {
    let written: Vec<&Placed<u8>> = pools.iter().flatten().collect();
    let sum: u32 = written.iter().map(|percent| u32::from(percent.value)).sum();
    if sum > 100
        && let Some(last) = last_written(pools)
    {
        let terms: Vec<String> = written.iter().map(|percent| percent.value.to_string()).collect();
        let what = format!("the pools have {} = {sum} % of the shared area", terms.join(" + "));
        found.add(last, what, "lower them to 100 % together");
        return ALL_IN_POOL_0;
    }
    let mut percent = [0, 1, 2, 3].map(|pool: usize| pools[pool].as_ref().map_or(0, |percent| percent.value));
    if pools[0].is_none() {
        percent[0] = 100 - sum as u8;
    }
    percent
}

/// The place of the share that comes last in the file.
pub(crate) fn last_written(pools: &WrittenPools) -> Option<&Place> {
    pools.iter().flatten().map(|percent| &percent.place).max_by_key(|place| place.span.start)
}

fn read_profiles<'d>(direction: &mut Section<'d>, found: &mut Found) -> Vec<(String, Section<'d>)> {
    direction.section("profile", found).map_or(Vec::new(), |mut profiles| named(&mut profiles, found))
}

fn read_ingress_profile(mut section: Section, cell_bytes: u32, found: &mut Found) -> WrittenGroup {
    let profile = section.place.clone();
    let mut read = |amount: Amount| {
        let written = amount.read(&mut section, cell_bytes, found);
        Some(written.unwrap_or(Placed { value: 0, place: profile.clone() }))
    };
    let mut group = WrittenGroup {
        reserved_cells: read(RESERVED),
        // Room for what still arrives after XOFF: the Inspur switch sends XOFF when less than that is left.
        headroom_cells: read(XOFF),
        resume_cells: read(XON),
        xon_offset_cells: read(XON_OFFSET),
        ..WrittenGroup::default()
    };
    group.xoff = threshold(&mut section, "shared", cell_bytes, found);
    group.resume_below_xoff(found);
    finish_profile(section, found);
    group
}

fn read_egress_profile(mut section: Section, cell_bytes: u32, found: &mut Found) -> WrittenQueue {
    let reserved = RESERVED.read(&mut section, cell_bytes, found);
    let guaranteed = match reserved {
        Some(cells) => Placed { value: Guaranteed::Cells(cells.value), place: cells.place },
        None => Placed { value: Guaranteed::Cells(0), place: section.place.clone() },
    };
    let shared = threshold(&mut section, "shared", cell_bytes, found);
    finish_profile(section, found);
    WrittenQueue { guaranteed: Some(guaranteed), shared, ..WrittenQueue::default() }
}

fn finish_profile(section: Section, found: &mut Found) {
    if !section.has("shared") {
        let cure = "write shared = { … } with static_cells, static_bytes, dynamic_percent or dynamic_th";
        found.add(&section.place, "no shared threshold", cure);
    }
    section.finish(&[], found);
}
