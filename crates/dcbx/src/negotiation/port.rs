//! DCBX of a port: selects the peer and the version, and lets the machines of the version
//! negotiate.
//!
//! Rules:
//! - The peer is the only neighbor that sends DCBX TLVs. While there are several, none counts.
//! - Without a peer, or with the link down, the local configuration is in force and nothing is
//!   agreed.
//! - Another peer begins from the start.
//!
//! Source: docs/dcbx.md, "Peers".

use super::cee_cin::{Features, Legacy};
use super::ieee::{self, has_precedence};
use super::peer::PeerDcbx;
use super::version::{self, OfferedVersions};
use crate::event::Event;
use crate::lldp::neighbors::{Neighbor, NeighborId, Neighbors};
use crate::settings::{DcbxSettings, EtsSettings, Version, VersionSetting};
use crate::status::{
    Feature, FeatureName, FeatureReason, FeatureState, PeerState, Status, is_pfc_willing, local_no_drop,
    priorities_text,
};
use wire::MacAddr;
use wire::lldp::OrgTlv;

/// DCBX of a port.
#[derive(Debug, Clone)]
pub struct Dcbx {
    status: Status,
    legacy: Legacy,
    peer: Option<NeighborId>,
}

impl Dcbx {
    /// Makes the DCBX of a port without a peer.
    pub fn new(settings: &DcbxSettings) -> Self {
        let version = version::next(settings.version, Version::Ieee, None);
        let mut dcbx = Self { status: Status::new(settings, version), legacy: Legacy::default(), peer: None };
        dcbx.legacy.reset(version, settings);
        dcbx
    }

    /// Returns the state of the negotiation.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Returns the TLVs to send.
    pub fn tlvs(&self, settings: &DcbxSettings) -> Vec<OrgTlv> {
        match self.status.version {
            Version::Ieee => ieee::advertised(&self.status, settings).encode(),
            version => self.legacy.tlv(version).into_iter().collect(),
        }
    }

    /// Negotiates with the neighbors of a link that is up; without neighbors if it is down. Returns
    /// what changed.
    pub fn update(
        &mut self,
        settings: &DcbxSettings,
        own_mac: MacAddr,
        neighbors: Option<&Neighbors>,
    ) -> Vec<Event> {
        let before = self.status.clone();
        let (state, peer) = neighbors.map_or((PeerState::Absent, None), select);
        let id = peer.map(|peer| NeighborId::of(&peer.lldpdu));
        if id != self.peer {
            self.peer = id;
            self.restart(settings, version::next(settings.version, Version::Ieee, None));
        }
        let offered = peer.map(|peer| offered(&peer.dcbx));
        let version = version::next(settings.version, self.status.version, offered);
        if version != self.status.version {
            self.restart(settings, version);
        }
        self.refresh_local(settings);
        self.status.peer = state;
        match peer {
            Some(peer) => self.negotiate(settings, own_mac, peer),
            None => self.without_peer(settings, state),
        }
        self.status.control = (version != Version::Ieee).then(|| self.legacy.control());
        self.status.settle(settings);
        changes(&before, &self.status)
    }

    fn restart(&mut self, settings: &DcbxSettings, version: Version) {
        self.status = Status::new(settings, version);
        self.legacy.reset(version, settings);
    }

    /// Takes the local configuration from the settings. The operational one is kept: the machines
    /// decide about it.
    fn refresh_local(&mut self, settings: &DcbxSettings) {
        let status = &mut self.status;
        (status.pfc.local, status.pfc.local_willing) = (local_no_drop(settings), is_pfc_willing(settings));
        let applications = &settings.applications;
        status.applications.local = applications.entries.clone();
        status.applications.local_willing = applications.willing;
        let feature = |own: EtsSettings, before: Option<Feature<_>>| match before {
            Some(before) => Feature { local: own.ets, local_willing: own.willing, ..before },
            None => Feature::local(own.ets, own.willing, FeatureReason::NoPeer),
        };
        status.ets = settings.ets.map(|own| feature(own, status.ets.take()));
    }

    fn without_peer(&mut self, settings: &DcbxSettings, state: PeerState) {
        self.status = Status::new(settings, self.status.version);
        self.status.peer = state;
        if state == PeerState::Several {
            self.status.set_all(FeatureState::Error, FeatureReason::SeveralPeers);
        }
        self.legacy.reset(self.status.version, settings);
    }

    fn negotiate(&mut self, settings: &DcbxSettings, own_mac: MacAddr, peer: &Neighbor) {
        let version = self.status.version;
        let dcbx = &peer.dcbx;
        let error = dcbx.error(version);
        let legacy = match version {
            Version::Ieee => None,
            Version::Cee => dcbx.cee.value.as_ref().map(|it| (it.control, Features::of_cee(it))),
            Version::Cin => dcbx.cin.value.as_ref().map(|it| (it.control, Features::of_cin(it))),
        };
        match (&dcbx.ieee.value, legacy) {
            (Some(tlvs), _) if version == Version::Ieee => {
                let has_precedence = has_precedence(settings.pfc.precedence, own_mac, peer.src);
                ieee::negotiate(&mut self.status, settings, tlvs, has_precedence);
            }
            (_, Some((control, features))) => {
                self.legacy.negotiate(&mut self.status, settings, &control, &features);
            }
            _ => {
                self.without_peer(settings, PeerState::One);
                let newest = offered(dcbx).newest().unwrap_or(version);
                let is_pinned = settings.version != VersionSetting::Auto;
                let other = FeatureReason::OtherVersion { peer: newest, is_pinned };
                let reason = error.map_or(other, FeatureReason::Malformed);
                self.status.set_all(FeatureState::Error, reason);
            }
        }
        if let Some(error) = error {
            self.show_malformed(FeatureReason::Malformed(error));
        }
    }

    /// Shows an error without a change of what is in force.
    fn show_malformed(&mut self, reason: FeatureReason) {
        (self.status.pfc.reason, self.status.applications.reason) = (reason, reason);
        if let Some(ets) = &mut self.status.ets {
            ets.reason = reason;
        }
    }
}

/// Selects the neighbor to negotiate with.
fn select(neighbors: &Neighbors) -> (PeerState, Option<&Neighbor>) {
    let mut speaking = neighbors.iter().filter(|it| it.dcbx.is_present());
    match (speaking.next(), speaking.next(), neighbors.too_many_with_dcbx()) {
        (None, _, false) => (PeerState::Absent, None),
        (Some(one), None, false) => (PeerState::One, Some(one)),
        _ => (PeerState::Several, None),
    }
}

fn offered(peer: &PeerDcbx) -> OfferedVersions {
    OfferedVersions {
        ieee: peer.sends(Version::Ieee),
        cee: peer.sends(Version::Cee),
        cin: peer.sends(Version::Cin),
    }
}

/// Returns what changed between two states.
fn changes(before: &Status, after: &Status) -> Vec<Event> {
    let mut events = Vec::new();
    if before.version != after.version {
        events.push(Event::VersionChanged(after.version));
    }
    let pfc = |mask: &u8| priorities_text(*mask);
    events.extend(change(FeatureName::Pfc, &before.pfc, &after.pfc, pfc));
    if let (Some(before), Some(after)) = (&before.ets, &after.ets) {
        events.extend(change(FeatureName::Ets, before, after, ToString::to_string));
    }
    let count = |list: &Vec<_>| format!("{} entries", list.len());
    events.extend(change(FeatureName::Applications, &before.applications, &after.applications, count));
    events
}

fn change<T: PartialEq>(
    feature: FeatureName,
    before: &Feature<T>,
    after: &Feature<T>,
    text: impl Fn(&T) -> String,
) -> Option<Event> {
    let is_same = (before.state, before.reason) == (after.state, after.reason)
        && before.operational == after.operational;
    (!is_same).then(|| Event::FeatureChanged {
        feature,
        state: after.state,
        reason: after.reason,
        operational: text(&after.operational),
    })
}
