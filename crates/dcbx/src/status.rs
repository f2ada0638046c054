//! What was negotiated: local, peer and operational configuration of each feature, and the reason.

use crate::settings::{DcbxSettings, Ets, PfcMode, Version};
use core::fmt;
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;
use wire::dcbx::DcbxError;
use wire::dcbx::cee::STRICT_GROUP;
use wire::dcbx::ieee::{Application, Selector};
use wire::dcbx::sub_tlv::Control;

/// What the dataplane applies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Operational {
    /// Priorities that are no-drop, as a mask.
    pub no_drop: u8,
    /// Groups and shares; `None` if ETS is not configured.
    pub ets: Option<Ets>,
    /// Priorities of applications.
    pub applications: Vec<Application>,
}

impl Operational {
    /// Returns the priority of an application: the highest if there are several.
    pub fn priority_of(&self, selector: Selector, protocol: u16) -> Option<u8> {
        let of_it = self.applications.iter().filter(|it| it.selector == selector && it.protocol == protocol);
        of_it.map(|it| it.priority).max()
    }
}

/// State of DCBX on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Version in use.
    pub version: Version,
    /// The peer, or why there is none.
    pub peer: PeerState,
    /// Priority-based flow control, as masks of priorities.
    pub pfc: Feature<u8>,
    /// ETS; `None` if it is not configured.
    pub ets: Option<Feature<Ets>>,
    /// Groups that the peer recommends (IEEE).
    pub ets_recommendation: Option<Ets>,
    /// Priorities of applications.
    pub applications: Feature<Vec<Application>>,
    /// Sequence numbers (CEE, CIN).
    pub control: Option<Control>,
    /// What the dataplane applies.
    pub operational: Operational,
}

/// Which peer DCBX negotiates with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// No neighbor has DCBX.
    Absent,
    /// One neighbor has DCBX.
    One,
    /// Several neighbors have DCBX, so none counts.
    Several,
}

/// A feature of DCBX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureName {
    /// Priority-based flow control.
    Pfc,
    /// Enhanced transmission selection.
    Ets,
    /// Priorities of applications.
    Applications,
}

/// Negotiation of a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature<T> {
    /// Own configuration.
    pub local: T,
    /// True if the peer's configuration would be adopted.
    pub local_willing: bool,
    /// Configuration of the peer.
    pub peer: Option<T>,
    /// True if the peer would adopt ours; `None` if its version does not say.
    pub peer_willing: Option<bool>,
    /// Configuration in force.
    pub operational: T,
    /// How far the negotiation got.
    pub state: FeatureState,
    /// Why it is in this state.
    pub reason: FeatureReason,
}

/// How far the negotiation of a feature got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeatureState {
    /// The feature is disabled on this port.
    Off,
    /// The local configuration is in force, and nothing is agreed.
    Local,
    /// The peer has not acknowledged the local configuration yet (CEE, CIN).
    Waiting,
    /// Both ends have the same configuration, or accept that theirs differ.
    Agreed,
    /// The ends cannot agree, or the peer's TLVs cannot be used.
    Error,
}

/// Why a feature is in its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureReason {
    /// Disabled by the local configuration.
    DisabledHere,
    /// Disabled by the peer (CEE, CIN).
    DisabledByPeer,
    /// No neighbor has DCBX.
    NoPeer,
    /// Several neighbors have DCBX.
    SeveralPeers,
    /// The peer has DCBX, but not in the version in use.
    OtherVersion {
        /// Newest version of the peer.
        peer: Version,
        /// True if the version in use is pinned; otherwise the peer had begun with it.
        is_pinned: bool,
    },
    /// The peer does not send the feature.
    NotSent,
    /// The peer's last TLVs were malformed.
    Malformed(DcbxError),
    /// The peer uses a transmission selection algorithm that is unavailable here.
    Unsupported,
    /// The peer has not acknowledged the local configuration.
    NotAcknowledged,
    /// The peer has another version of the protocol or the feature in operation.
    PeerVersion,
    /// Both ends have the same configuration.
    Same,
    /// The configurations differ, which the version allows.
    Compatible,
    /// The local end was willing and took over the peer's configuration.
    TakenOver,
    /// The peer is willing and is to take over the local configuration.
    PeerTakesOver,
    /// The peer is to take over the local configuration, and can have PFC on fewer priorities:
    /// their number (IEEE).
    PeerCapability(u8),
    /// The configurations differ, and no end takes over the other's.
    Differs,
    /// The peer reports an error (CEE, CIN).
    PeerError,
}

impl<T: Clone> Feature<T> {
    /// Makes a feature with only a local configuration, which is in force.
    pub fn local(local: T, local_willing: bool, reason: FeatureReason) -> Self {
        Self {
            operational: local.clone(),
            local,
            local_willing,
            peer: None,
            peer_willing: None,
            state: FeatureState::Local,
            reason,
        }
    }
}

impl FeatureState {
    /// Returns true if the dataplane may rely on the peer.
    pub fn is_agreed(self) -> bool {
        self == Self::Agreed
    }
}

impl Status {
    /// Makes the status of a port without a peer.
    pub fn new(settings: &DcbxSettings, version: Version) -> Self {
        let none = FeatureReason::NoPeer;
        let applications = &settings.applications;
        let mut status = Self {
            version,
            peer: PeerState::Absent,
            pfc: Feature::local(local_no_drop(settings), is_pfc_willing(settings), none),
            ets: settings.ets.map(|it| Feature::local(it.ets, it.willing, none)),
            ets_recommendation: None,
            applications: Feature::local(applications.entries.clone(), applications.willing, none),
            control: None,
            operational: Operational::default(),
        };
        status.settle(settings);
        status
    }

    /// Sets a state that all features have in common.
    pub fn set_all(&mut self, state: FeatureState, reason: FeatureReason) {
        (self.pfc.state, self.pfc.reason) = (state, reason);
        (self.applications.state, self.applications.reason) = (state, reason);
        if let Some(ets) = &mut self.ets {
            (ets.state, ets.reason) = (state, reason);
        }
    }

    /// Computes what the dataplane applies. In mode `Auto` a priority is no-drop only if both ends
    /// agree; in mode `On` the port keeps its own, and the state says whether the peer agrees.
    pub fn settle(&mut self, settings: &DcbxSettings) {
        let own = local_no_drop(settings);
        match settings.pfc.mode {
            PfcMode::Auto => {}
            PfcMode::On => self.pfc.operational = own,
            PfcMode::Off => {
                self.pfc.operational = own;
                (self.pfc.state, self.pfc.reason) = (FeatureState::Off, FeatureReason::DisabledHere);
            }
        }
        let is_in_force = settings.pfc.mode == PfcMode::On || self.pfc.state.is_agreed();
        self.operational = Operational {
            no_drop: if is_in_force { self.pfc.operational } else { 0 },
            ets: self.ets.as_ref().map(|ets| ets.operational),
            applications: self.applications.operational.clone(),
        };
    }
}

/// Returns the priorities that are to be no-drop, as the port advertises them.
pub fn local_no_drop(settings: &DcbxSettings) -> u8 {
    if settings.pfc.mode == PfcMode::Off { 0 } else { settings.pfc.no_drop }
}

/// Returns true if the peer's PFC configuration would be adopted.
pub fn is_pfc_willing(settings: &DcbxSettings) -> bool {
    settings.pfc.mode == PfcMode::Auto && settings.pfc.willing
}

/// Returns priorities as a list: `3,4`, or `-` if there are none.
pub fn priorities_text(mask: u8) -> String {
    if mask == 0 { "-".to_owned() } else { Set8::from_bits(mask).to_string() }
}

impl fmt::Display for Ets {
    /// Writes the priorities and the share of each group: `0,1,2:50% 3:50% 6,7:strict`.
    #[expect(clippy::indexing_slicing, reason = "groups 0 to 7 of a table of eight")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for group in (0..8).filter(|group| self.is_used(*group)) {
            let share = self.percent[usize::from(group)];
            parts.push(format!("{}:{share}%", priorities_text(self.members(group))));
        }
        if self.group_of_priority.contains(&STRICT_GROUP) {
            parts.push(format!("{}:strict", priorities_text(self.members(STRICT_GROUP))));
        }
        f.pad(&parts.join(" "))
    }
}

impl Ets {
    /// Returns the priorities of a group, as a mask.
    pub fn members(&self, group: u8) -> u8 {
        let of_group = self.group_of_priority.iter().enumerate().filter(|(_, it)| **it == group);
        of_group.fold(0, |mask, (priority, _)| mask | 1 << priority)
    }
}

impl fmt::Display for FeatureState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Off => "off",
            Self::Local => "local",
            Self::Waiting => "waiting",
            Self::Agreed => "agreed",
            Self::Error => "error",
        })
    }
}

impl fmt::Display for FeatureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DisabledHere => "disabled here",
            Self::DisabledByPeer => "disabled by the peer",
            Self::NoPeer => "no peer with DCBX",
            Self::SeveralPeers => "several peers with DCBX",
            Self::NotSent => "the peer does not send it",
            Self::Unsupported => "the peer uses an algorithm that is unavailable here",
            Self::NotAcknowledged => "not acknowledged by the peer",
            Self::PeerVersion => "the peer operates another version",
            Self::Same => "same at both ends",
            Self::Compatible => "differs from the peer, which is compatible",
            Self::TakenOver => "taken over from the peer",
            Self::PeerTakesOver => "the peer takes over ours",
            Self::Differs => "differs from the peer, and no end takes over",
            Self::PeerError => "the peer reports an error",
            Self::OtherVersion { peer, is_pinned: true } => return write!(f, "the peer sends {peer} only"),
            Self::OtherVersion { peer, is_pinned: false } => {
                return write!(f, "the peer sends {peer} only; the next link up or its restart begins again");
            }
            Self::PeerCapability(count) => {
                return write!(f, "the peer can have PFC on {count} priorities only");
            }
            Self::Malformed(error) => return write!(f, "malformed: {error}"),
        })
    }
}

impl fmt::Display for FeatureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pfc => "PFC",
            Self::Ets => "ETS",
            Self::Applications => "applications",
        })
    }
}
