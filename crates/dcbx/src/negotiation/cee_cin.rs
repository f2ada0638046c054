//! DCBX of CEE and CIN: the control machine, and the feature machine of PFC, groups and
//! applications.
//!
//! Source: DCB Capability Exchange Protocol Base Specification, revision 1.01.
//!
//! PFC and applications are compatible if they are the same. Groups of CEE always are, those of CIN
//! if they are the same.

use super::convert::{
    applications_from_cee, applications_to_cee, fcoe_from_cin, fcoe_to_cin, from_cee, from_cin, to_cee,
    to_cin,
};
use super::feature::{LegacyConditions, LegacyState};
use super::sequence_numbers::{ControlMachine, VERSION};
use crate::settings::{DcbxSettings, Ets, PfcMode, Version};
use crate::status::{Feature, FeatureReason, FeatureState, Status, is_pfc_willing, local_no_drop};
use wire::dcbx::sub_tlv::{Control, FeatureHeader};
use wire::dcbx::{Cee, Cin, cee, cin};
use wire::lldp::OrgTlv;

/// Features that one end advertises, in the terms of both versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    groups: Option<(FeatureHeader, Ets)>,
    pfc: Option<(FeatureHeader, u8)>,
    applications: Option<(FeatureHeader, Vec<wire::dcbx::ieee::Application>)>,
}

impl Features {
    /// Returns what a peer advertises in CEE.
    pub fn of_cee(cee: &Cee) -> Self {
        Self {
            groups: cee.groups.map(|(header, groups)| (header, from_cee(&groups))),
            pfc: cee.pfc.map(|(header, pfc)| (header, pfc.enabled)),
            applications: cee.applications.as_ref().map(|(header, it)| (*header, applications_from_cee(it))),
        }
    }

    /// Returns what a peer advertises in CIN.
    pub fn of_cin(cin: &Cin) -> Self {
        let fcoe = cin.applications.iter().find(|(header, _)| header.subtype == cin::FCOE);
        Self {
            groups: cin.groups.map(|(header, groups)| (header, from_cin(&groups))),
            pfc: cin.pfc,
            applications: fcoe.map(|(header, priorities)| (*header, fcoe_from_cin(*priorities))),
        }
    }

    /// Returns what the port advertises.
    fn own(version: Version, settings: &DcbxSettings, errors: Errors) -> Self {
        let header = |enabled, willing, error| FeatureHeader {
            oper_version: VERSION,
            max_version: VERSION,
            enabled,
            willing,
            error,
            subtype: 0,
        };
        let is_pfc_enabled = settings.pfc.mode != PfcMode::Off;
        let pfc = (header(is_pfc_enabled, is_pfc_willing(settings), errors.pfc), local_no_drop(settings));
        let list = match version {
            Version::Cin => fcoe_from_cin(fcoe_to_cin(&settings.applications.entries)),
            _ => applications_from_cee(&applications_to_cee(&settings.applications.entries)),
        };
        // A willing end sends its list even if it is empty: without it there is no negotiation.
        let has_use = !list.is_empty() || settings.applications.willing;
        let sends_applications = settings.pfc.mode == PfcMode::Auto && has_use;
        let applications = header(true, settings.applications.willing, errors.applications);
        Self {
            groups: settings.ets.map(|own| (header(true, own.willing, errors.groups), own.ets)),
            pfc: Some(pfc),
            applications: sends_applications.then_some((applications, list)),
        }
    }

    fn encode(&self, version: Version, control: Control) -> OrgTlv {
        if version == Version::Cin {
            let applications = self.applications.iter().map(|(header, list)| (*header, fcoe_to_cin(list)));
            return Cin {
                control,
                groups: self.groups.map(|(header, ets)| (header, to_cin(&ets))),
                pfc: self.pfc,
                applications: applications.collect(),
                links: Vec::new(),
            }
            .encode();
        }
        let applications = self.applications.as_ref();
        Cee {
            control,
            groups: self.groups.map(|(header, ets)| (header, to_cee(&ets))),
            pfc: self.pfc.map(|(header, enabled)| (header, cee::Pfc { enabled, classes: 8 })),
            applications: applications.map(|(header, list)| (*header, applications_to_cee(list))),
        }
        .encode()
    }
}

/// Errors that the port reports to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Errors {
    groups: bool,
    pfc: bool,
    applications: bool,
}

/// Machines of a port that speaks CEE or CIN.
#[derive(Debug, Clone, Default)]
pub struct Legacy {
    control: ControlMachine,
    errors: Errors,
    /// Features as they are advertised with the current SeqNo.
    advertised: Option<Features>,
}

impl Legacy {
    /// Begins without a peer.
    pub fn reset(&mut self, version: Version, settings: &DcbxSettings) {
        *self = Self::default();
        self.advertise(version, settings);
    }

    /// Returns the sequence numbers.
    pub fn control(&self) -> Control {
        self.control.sub_tlv()
    }

    /// Returns the TLV to send.
    pub fn tlv(&self, version: Version) -> Option<OrgTlv> {
        self.advertised.as_ref().map(|features| features.encode(version, self.control.sub_tlv()))
    }

    /// Advertises the features if they changed and the last change is acknowledged.
    fn advertise(&mut self, version: Version, settings: &DcbxSettings) {
        let features = Features::own(version, settings, self.errors);
        if self.advertised.as_ref() != Some(&features) && self.control.begin_change() {
            self.advertised = Some(features);
        }
    }

    /// Negotiates all features with what a peer advertises. `status` has the features as they were.
    pub fn negotiate(
        &mut self,
        status: &mut Status,
        settings: &DcbxSettings,
        control: &Control,
        peer: &Features,
    ) {
        let version = status.version;
        self.control.receive(control);
        self.advertise(version, settings);
        let is_cin = version == Version::Cin;
        let common = Common {
            acknowledged: self.control.is_synced(),
            same_version: control.oper_version == VERSION,
            // Revision 1.00 reports no error for a feature that the peer does not send.
            reports_absence: !is_cin,
        };
        let own = Features::own(version, settings, self.errors);
        let is_same = |own: &u8, peer: &u8| own == peer;
        self.errors.pfc = common.negotiate(&mut status.pfc, own.pfc.as_ref(), peer.pfc.as_ref(), is_same);
        if let Some(ets) = &mut status.ets {
            let go_together = |own: &Ets, peer: &Ets| !is_cin || own == peer;
            let (own, peer) = (own.groups.as_ref(), peer.groups.as_ref());
            self.errors.groups = common.negotiate(ets, own, peer, go_together);
        }
        let (own, peer) = (own.applications.as_ref(), peer.applications.as_ref());
        let applications = &mut status.applications;
        self.errors.applications = common.negotiate(applications, own, peer, |own, peer| own == peer);
        self.advertise(version, settings);
    }
}

/// Conditions that all features of a port have in common.
#[derive(Debug, Clone, Copy)]
struct Common {
    acknowledged: bool,
    same_version: bool,
    reports_absence: bool,
}

impl Common {
    /// Runs the machine of a feature, and returns true if the port reports an error to the peer. A
    /// feature that the port does not send is not negotiated.
    fn negotiate<T: Clone + PartialEq>(
        self,
        feature: &mut Feature<T>,
        own: Option<&(FeatureHeader, T)>,
        peer: Option<&(FeatureHeader, T)>,
        are_compatible: impl Fn(&T, &T) -> bool,
    ) -> bool {
        feature.peer = peer.map(|(_, configuration)| configuration.clone());
        feature.peer_willing = peer.map(|(header, _)| header.willing);
        let Some((own_header, own)) = own else {
            feature.operational = feature.local.clone();
            (feature.state, feature.reason) = (FeatureState::Off, FeatureReason::DisabledHere);
            return false;
        };
        let peer_header = peer.map(|(header, _)| *header).unwrap_or_default();
        let state = LegacyState::of(LegacyConditions {
            sent_by_peer: peer.is_some(),
            acknowledged: self.acknowledged,
            same_version: self.same_version && peer_header.oper_version == VERSION,
            enabled: own_header.enabled,
            peer_enabled: peer_header.enabled,
            willing: own_header.willing,
            peer_willing: peer_header.willing,
            compatible: peer.is_some_and(|(_, peer)| are_compatible(own, peer)),
        });
        let is_error = match state {
            LegacyState::Wait | LegacyState::Version => own_header.error,
            LegacyState::Conflict => true,
            LegacyState::NotSent => self.reports_absence,
            _ => false,
        };
        enter(feature, state, own, peer.map(|(_, peer)| peer), peer_header);
        is_error
    }
}

/// Sets a feature according to its state.
fn enter<T: Clone + PartialEq>(
    feature: &mut Feature<T>,
    state: LegacyState,
    own: &T,
    peer: Option<&T>,
    peer_header: FeatureHeader,
) {
    let (state, reason) = match state {
        LegacyState::Wait | LegacyState::Version if feature.state == FeatureState::Agreed => return,
        LegacyState::Wait => (FeatureState::Waiting, FeatureReason::NotAcknowledged),
        LegacyState::Version => (FeatureState::Waiting, FeatureReason::PeerVersion),
        LegacyState::NotSent => (FeatureState::Local, FeatureReason::NotSent),
        LegacyState::DisabledHere => (FeatureState::Off, FeatureReason::DisabledHere),
        LegacyState::DisabledByPeer => (FeatureState::Local, FeatureReason::DisabledByPeer),
        LegacyState::Conflict => (FeatureState::Error, FeatureReason::Differs),
        _ if peer_header.error => (FeatureState::Error, FeatureReason::PeerError),
        LegacyState::UsePeer => (FeatureState::Agreed, FeatureReason::TakenOver),
        LegacyState::UseLocal if peer == Some(own) => (FeatureState::Agreed, FeatureReason::Same),
        LegacyState::UseLocal if peer_header.willing && !feature.local_willing => {
            (FeatureState::Agreed, FeatureReason::PeerTakesOver)
        }
        LegacyState::UseLocal => (FeatureState::Agreed, FeatureReason::Compatible),
    };
    (feature.state, feature.reason) = (state, reason);
    feature.operational = match (reason, peer) {
        (FeatureReason::TakenOver, Some(peer)) => peer.clone(),
        _ => feature.local.clone(),
    };
}
