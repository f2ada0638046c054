//! VLAN settings of a port, and static addresses.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use wire::mac::MacAddr;

/// VIDs of VLANs (IEEE 802.1Q-2022 table 9-2): 0 is a priority tag's, 4095 is reserved.
pub const VLANS: RangeInclusive<u16> = 1..=4094;

/// The VLANs of a port: see [`crate::forwarding::vlan`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VlanSettings {
    /// The port has no VLANs, like every port of the switch: tags are read only for their priority.
    #[default]
    Transparent,
    /// One VLAN, untagged.
    Access {
        /// VLAN of the port.
        pvid: u16,
    },
    /// Several VLANs, tagged.
    Trunk {
        /// VLAN of untagged frames, one of `allowed`; `None` if untagged frames are not accepted.
        pvid: Option<u16>,
        /// VLANs of the port.
        allowed: VlanList,
    },
}

impl VlanSettings {
    /// Returns the VLAN of untagged frames.
    pub fn pvid(&self) -> Option<u16> {
        match self {
            VlanSettings::Transparent => None,
            VlanSettings::Access { pvid } => Some(*pvid),
            VlanSettings::Trunk { pvid, .. } => *pvid,
        }
    }

    /// Returns all VLANs that the port is a member of.
    pub fn vlans(&self) -> VlanList {
        match self {
            VlanSettings::Transparent => VlanList::default(),
            VlanSettings::Access { pvid } => VlanList::of([*pvid..=*pvid]),
            VlanSettings::Trunk { allowed, .. } => allowed.clone(),
        }
    }

    /// Returns the port type in the configuration; empty without VLANs.
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
    /// Makes the list of the VLANs of these ranges.
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

    /// Returns every VLAN that exists.
    pub fn all() -> Self {
        Self::of([VLANS])
    }

    /// True if the list has this VLAN.
    pub fn contains(&self, vid: u16) -> bool {
        self.0.iter().any(|range| range.contains(&vid))
    }

    /// Returns each VLAN, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().cloned().flatten()
    }
}

impl fmt::Display for VlanList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
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
    /// MAC address of the station.
    pub mac: MacAddr,
    /// Its VLAN; 0 where ports have none.
    pub vid: u16,
}

impl From<MacAddr> for StaticAddress {
    /// Makes the address without VLAN.
    fn from(mac: MacAddr) -> Self {
        Self { mac, vid: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_joined_and_written() {
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
