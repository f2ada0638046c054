//! The DCBX TLVs of a neighbor.
//!
//! Rule: malformed TLVs of a version change nothing of what the neighbor had advertised in it
//! before, but neither do they extend it: it ends with the time to live of the last well-formed
//! frame. Until the next well-formed frame the error is shown.

use crate::settings::Version;
use core::time::Duration;
use wire::dcbx::{Cee, Cin, DcbxError, Ieee};
use wire::lldp::OrgTlv;

/// What a neighbor advertised in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised<T> {
    /// Contents of the last well-formed TLVs.
    pub value: Option<T>,
    /// Why the last TLVs were refused.
    pub error: Option<DcbxError>,
    expires: Duration,
}

impl<T> Default for Advertised<T> {
    fn default() -> Self {
        Self { value: None, error: None, expires: Duration::ZERO }
    }
}

impl<T> Advertised<T> {
    fn update(&mut self, read: Result<Option<T>, DcbxError>, expires: Duration) {
        match read {
            Ok(value) => *self = Self { value, error: None, expires },
            Err(error) => self.error = Some(error),
        }
    }

    fn expire(&mut self, now: Duration) {
        if now >= self.expires {
            self.value = None;
        }
    }

    fn is_present(&self) -> bool {
        self.value.is_some() || self.error.is_some()
    }

    /// The deadline of a neighbor without an error is that of the neighbor itself.
    fn deadline(&self) -> Option<Duration> {
        (self.value.is_some() && self.error.is_some()).then_some(self.expires)
    }
}

/// What a neighbor advertised.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerDcbx {
    /// TLVs of IEEE 802.1Qaz.
    pub ieee: Advertised<Ieee>,
    /// TLV of CEE.
    pub cee: Advertised<Cee>,
    /// TLV of CIN.
    pub cin: Advertised<Cin>,
}

impl PeerDcbx {
    /// Reads the TLVs of a frame.
    pub fn update(&mut self, tlvs: &[OrgTlv], expires: Duration) {
        self.ieee.update(Ieee::decode(tlvs), expires);
        self.cee.update(Cee::decode(tlvs), expires);
        self.cin.update(Cin::decode(tlvs), expires);
    }

    /// Forgets what is older than its time to live.
    pub fn expire(&mut self, now: Duration) {
        self.ieee.expire(now);
        self.cee.expire(now);
        self.cin.expire(now);
    }

    /// Returns the time at which [`PeerDcbx::expire`] has something to do before the neighbor
    /// itself expires.
    pub fn deadline(&self) -> Option<Duration> {
        [self.ieee.deadline(), self.cee.deadline(), self.cin.deadline()].into_iter().flatten().min()
    }

    /// Returns true if the neighbor sent a TLV of any version.
    pub fn is_present(&self) -> bool {
        [Version::Ieee, Version::Cee, Version::Cin].into_iter().any(|version| self.sends(version))
    }

    /// Returns true if the neighbor sent a TLV of this version.
    pub fn sends(&self, version: Version) -> bool {
        match version {
            Version::Ieee => self.ieee.is_present(),
            Version::Cee => self.cee.is_present(),
            Version::Cin => self.cin.is_present(),
        }
    }

    /// Returns why the last TLVs of this version were refused.
    pub fn error(&self, version: Version) -> Option<DcbxError> {
        match version {
            Version::Ieee => self.ieee.error,
            Version::Cee => self.cee.error,
            Version::Cin => self.cin.error,
        }
    }
}
