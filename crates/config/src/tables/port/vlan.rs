//! VLANs of a port: `vlan = { mode = "trunk", pvid = 10, allowed = "1-100,200" }`. Checks that span
//! several settings are in [`crate::validate::vlan`].

use std::ops::RangeInclusive;

use switch::settings::{VLANS, VlanList, VlanSettings};
use toml::de::DeValue;

use crate::read::diagnostics::Diagnostics;
use crate::read::overrides::Overrides;
use crate::read::parse;
use crate::read::suggest::quoted;
use crate::read::table_reader::{Item, Setting, TableReader};
use crate::spec::{TableSpec, choice, number, text, words};

const MODES: [(&str, Mode); 2] = [("access", Mode::Access), ("trunk", Mode::Trunk)];

pub(crate) const VLAN: TableSpec = &[
    choice("mode", || words(&MODES)).about("Of all ports, or of none; none: one bridge for all tags."),
    number("pvid", *VLANS.start() as i64, *VLANS.end() as i64)
        .about("The untagged VLAN; an access port needs it."),
    text("allowed", "1-100,200").value("\"1-4094\"", "The tagged VLANs of a trunk."),
];

/// VLAN mode of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One VLAN, untagged.
    Access,
    /// Several VLANs, tagged.
    Trunk,
}

/// `vlan` in the table of a port, or of the defaults.
#[derive(Debug, Default)]
pub(crate) struct VlanTable {
    pub(crate) mode: Option<Setting<Mode>>,
    pub(crate) pvid: Option<Setting<u16>>,
    pub(crate) allowed: Option<Setting<VlanList>>,
}

impl VlanTable {
    pub(crate) fn read(mut section: TableReader, report: &mut Diagnostics) -> Self {
        let table = Self {
            mode: section.choice("mode", &MODES, report),
            pvid: section.number("pvid", report),
            allowed: section.item("allowed").and_then(|item| read_vlans(item, report)),
        };
        section.finish(report);
        table
    }
}

impl<'t> Overrides<'t, VlanTable> {
    /// Returns the mode of the port, if it has VLANs.
    pub(crate) fn mode(self) -> Option<Mode> {
        self.optional(|table| &table.mode)
    }

    /// Returns the resulting settings. An access port without PVID is refused elsewhere.
    pub(crate) fn settings(self) -> VlanSettings {
        let pvid = self.optional(|table| &table.pvid);
        match self.mode() {
            None => VlanSettings::Transparent,
            Some(Mode::Access) => VlanSettings::Access { pvid: pvid.unwrap_or(*VLANS.start()) },
            Some(Mode::Trunk) => {
                let allowed = self.setting(|table| &table.allowed).map(|allowed| allowed.value.clone());
                VlanSettings::Trunk { pvid, allowed: allowed.unwrap_or_else(VlanList::all) }
            }
        }
    }
}

/// Reads VLANs such as "1-100,200".
fn read_vlans(item: Item, report: &mut Diagnostics) -> Option<Setting<VlanList>> {
    const CURE: &str = "write VLANs from 1 to 4094, as in \"1-100,200\"";
    let DeValue::String(text) = item.value() else { return item.wrong_type(CURE, report) };
    let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Some(first), Some(last)) = (read_vid(first), read_vid(last)) else {
            report.add(
                &item.location,
                format!("{} is neither a VLAN nor a range of them", quoted(part.trim())),
                CURE,
            );
            return None;
        };
        if first > last {
            report.add(&item.location, "the range is reversed", format!("write \"{last}-{first}\""));
            return None;
        }
        if let Some(other) = ranges.iter().find(|other| *other.start() <= last && first <= *other.end()) {
            let vid = first.max(*other.start());
            report.add(&item.location, format!("VLAN {vid} is in the list twice"), "list each VLAN once");
            return None;
        }
        ranges.push(first..=last);
    }
    Some(Setting { value: VlanList::of(ranges), location: item.location })
}

fn read_vid(text: &str) -> Option<u16> {
    let vid = parse::digits(text.trim()).filter(|_| !text.trim().is_empty())?;
    u16::try_from(vid).ok().filter(|vid| VLANS.contains(vid))
}
