//! The VLANs of a port.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use wire::mac::MacAddr;

/// The numbers of VLANs (IEEE 802.1Q-2022 table 9-2): 0 is a priority tag's, 4095 is reserved.
pub const VLANS: RangeInclusive<u16> = 1..=4094;

/// The VLANs of a port: see [`crate::forwarding::vlan`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VlanSettings {
    /// It knows none, as no port of the switch does: tags are only looked at for their priority.
    #[default]
    Transparent,
    /// One VLAN, without tags.
    Access {
        /// The VLAN.
        pvid: u16,
    },
    /// Several, with tags.
    Trunk {
        /// The VLAN of frames without tag, one of `allowed`; `None`: none is taken in.
        pvid: Option<u16>,
        /// The VLANs.
        allowed: VlanList,
    },
}

impl VlanSettings {
    /// The VLAN of frames without tag.
    pub fn pvid(&self) -> Option<u16> {
        match self {
            VlanSettings::Transparent => None,
            VlanSettings::Access { pvid } => Some(*pvid),
            VlanSettings::Trunk { pvid, .. } => *pvid,
        }
    }

    /// All its VLANs.
    pub fn vlans(&self) -> VlanList {
        match self {
            VlanSettings::Transparent => VlanList::default(),
            VlanSettings::Access { pvid } => VlanList::of([*pvid..=*pvid]),
            VlanSettings::Trunk { allowed, .. } => allowed.clone(),
        }
    }

    /// What kind of port it is, in the configuration; empty without VLANs.
    pub fn mode(&self) -> &'static str {
        match self {
            VlanSettings::Transparent => "",
            VlanSettings::Access { .. } => "access",
            VlanSettings::Trunk { .. } => "trunk",
        }
    }
}

/// Numbers of VLANs, as "1-100,200".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VlanList(Vec<RangeInclusive<u16>>);

impl VlanList {
    /// The VLANs of these ranges.
    pub fn of(ranges: impl IntoIterator<Item = RangeInclusive<u16>>) -> Self {
        let mut sorted: Vec<RangeInclusive<u16>> =
            ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_by_key(|range| *range.start());
        let mut list: Vec<RangeInclusive<u16>> = Vec::new();
        for range in sorted {
            match list.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => list.push(range),
            }
        }
        Self(list)
    }

    /// Every VLAN there is.
    pub fn all() -> Self {
        Self::of([VLANS])
    }

    /// Whether it has this VLAN.
    pub fn contains(&self, vid: u16) -> bool {
        self.0.iter().any(|range| range.contains(&vid))
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().cloned().flatten()
    }
}

impl fmt::Display for VlanList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, range) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// An address that is always behind one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StaticAddress {
    /// The address.
    pub mac: MacAddr,
    /// Its VLAN; 0 where ports have none.
    pub vid: u16,
}

impl From<MacAddr> for StaticAddress {
    /// Without VLAN.
    fn from(mac: MacAddr) -> Self {
        Self { mac, vid: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_joined_and_spelt() {
        for (ranges, text) in [
            (vec![], ""),
            (vec![5..=5], "5"),
            (vec![200..=200, 1..=100], "1-100,200"),
            (vec![1..=3, 4..=6, 8..=9], "1-6,8-9"),
            (vec![1..=10, 5..=7, 9..=12], "1-12"),
            (vec![1..=4094, 4094..=4094], "1-4094"),
        ] {
            assert_eq!(VlanList::of(ranges).to_string(), text);
        }
        let list = VlanList::of([7..=8, 3..=3]);
        assert_eq!(list.iter().collect::<Vec<_>>(), [3, 7, 8]);
        assert!(list.contains(8) && !list.contains(4) && VlanList::all().iter().count() == 4094);
    }
}
