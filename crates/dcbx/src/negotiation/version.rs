//! Which version of DCBX is spoken.
//!
//! Source: docs/dcbx.md, "Versions".
//!
//! ```text
//!   link down, or the peer is gone        ┌─────┐
//!   ─────────────────────────────────────▶│IEEE │
//!                                         └─────┘
//!                      the peer sends CEE │     │ the peer sends CIN,
//!                           and no IEEE   ▼     ▼ and neither IEEE nor CEE
//!                                     ┌─────┐ ┌─────┐
//!                                     │ CEE │ │ CIN │
//!                                     └─────┘ └─────┘
//! ```
//! There is no other way back: two ends that both followed each other at any time could change
//! places forever. A pinned version has no machine.

use crate::settings::{Version, VersionSetting};

/// Versions that the peer speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfferedVersions {
    /// IEEE 802.1Qaz.
    pub ieee: bool,
    /// Revision 1.01.
    pub cee: bool,
    /// Revision 1.00.
    pub cin: bool,
}

impl OfferedVersions {
    /// Returns the newest of the versions.
    pub fn newest(self) -> Option<Version> {
        let all = [(self.ieee, Version::Ieee), (self.cee, Version::Cee), (self.cin, Version::Cin)];
        all.into_iter().find(|(is_present, _)| *is_present).map(|(_, version)| version)
    }
}

/// Returns the version that follows; `peer` is `None` while there is no peer.
pub fn next(setting: VersionSetting, current: Version, peer: Option<OfferedVersions>) -> Version {
    match (setting, peer) {
        (VersionSetting::Pinned(version), _) => version,
        (VersionSetting::Auto, None) => Version::Ieee,
        (VersionSetting::Auto, Some(offered)) if current == Version::Ieee => {
            offered.newest().unwrap_or(current)
        }
        (VersionSetting::Auto, Some(_)) => current,
    }
}

#[cfg(test)]
mod tests {
    use super::Version::*;
    use super::*;

    #[test]
    fn the_diagram() {
        for bits in 0..8_u8 {
            let offered = OfferedVersions { ieee: bits & 1 != 0, cee: bits & 2 != 0, cin: bits & 4 != 0 };
            let of_ieee = match (offered.ieee, offered.cee, offered.cin) {
                (true, _, _) | (_, false, false) => Ieee,
                (false, true, _) => Cee,
                (false, false, true) => Cin,
            };
            for (current, expected) in [(Ieee, of_ieee), (Cee, Cee), (Cin, Cin)] {
                assert_eq!(next(VersionSetting::Auto, current, Some(offered)), expected, "{offered:?}");
                assert_eq!(next(VersionSetting::Auto, current, None), Ieee);
                for pinned in [Ieee, Cee, Cin] {
                    let setting = VersionSetting::Pinned(pinned);
                    assert_eq!(next(setting, current, Some(offered)), pinned);
                    assert_eq!(next(setting, current, None), pinned);
                }
            }
        }
    }
}
