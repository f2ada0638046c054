//! The machines of IEEE 802.1Qaz.
//!
//! Source: IEEE 802.1Q-2022 38.4.1 (asymmetric attributes: ETS, applications) and 38.4.2 (symmetric
//! attributes: PFC).
//!
//! ```text
//! asymmetric       ┌───────┐  willing, and the peer recommends   ┌────────────────┐
//!                  │ LOCAL │ ──────────────────────────────────▶ │ RECOMMENDATION │
//!                  └───────┘ ◀────────────────────────────────── └────────────────┘
//!                              otherwise
//!
//! symmetric        ┌───────┐  willing, the peer sends PFC, and   ┌──────┐
//!                  │ LOCAL │  it is not willing or has           │ PEER │
//!                  └───────┘ ───── precedence ─────────────────▶ └──────┘
//!                            ◀──── otherwise ───────────────────
//! ```
//! What is adopted is advertised in the port's own ETS configuration and PFC TLVs. Only while both
//! ends are willing the PFC TLV keeps the local configuration: an end that orders addresses the
//! other way would otherwise adopt what it had given, and both would change places with each frame.

use super::convert::{from_table, to_table};
use crate::settings::{DcbxSettings, Ets, PfcMode, Precedence};
use crate::status::{Feature, FeatureReason, FeatureState, Status, is_pfc_willing, local_no_drop};
use wire::MacAddr;
use wire::dcbx::Ieee;
use wire::dcbx::ieee::{Application, EtsConfiguration, PfcConfiguration};

/// Whose configuration a machine selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected {
    /// The local one.
    Local,
    /// The peer's, or its recommendation.
    Peer,
}

/// The asymmetric machine.
pub fn asymmetric(willing: bool, has_recommendation: bool) -> Selected {
    if willing && has_recommendation { Selected::Peer } else { Selected::Local }
}

/// The symmetric machine. `peer_willing` is `None` if the peer does not send the feature.
pub fn symmetric(willing: bool, peer_willing: Option<bool>, has_precedence: bool) -> Selected {
    match peer_willing {
        Some(peer_willing) if willing && (!peer_willing || !has_precedence) => Selected::Peer,
        _ => Selected::Local,
    }
}

/// Returns true if the first of two willing ends keeps its PFC configuration.
pub fn has_precedence(precedence: Precedence, own: MacAddr, peer: MacAddr) -> bool {
    match precedence {
        Precedence::LowerAddress => own < peer,
        Precedence::HigherAddress => own > peer,
    }
}

/// Negotiates all features with what a peer advertises.
pub fn negotiate(status: &mut Status, settings: &DcbxSettings, peer: &Ieee, has_precedence: bool) {
    status.pfc = pfc(settings, peer.pfc.as_ref(), has_precedence);
    let recommended = peer.ets_recommendation.as_ref().map(from_table);
    status.ets_recommendation = recommended.flatten();
    status.ets = settings.ets.map(|own| {
        let mut feature = Feature::local(own.ets, own.willing, FeatureReason::NotSent);
        feature.peer_willing = peer.ets_configuration.map(|it| it.willing);
        feature.peer = peer.ets_configuration.and_then(|it| from_table(&it.table));
        if own.willing && recommended == Some(None) {
            (feature.state, feature.reason) = (FeatureState::Error, FeatureReason::Unsupported);
            return feature;
        }
        select_asymmetric(&mut feature, recommended.flatten());
        feature
    });
    status.applications = applications(settings, peer.applications.as_ref());
}

/// Sets the operational configuration of an asymmetric feature. Ends whose configurations differ
/// are not in error: each direction has its own.
fn select_asymmetric<T: Clone + PartialEq>(feature: &mut Feature<T>, recommended: Option<T>) {
    let selected = asymmetric(feature.local_willing, recommended.is_some());
    if let (Selected::Peer, Some(recommended)) = (selected, recommended) {
        feature.operational = recommended;
        (feature.state, feature.reason) = (FeatureState::Agreed, FeatureReason::TakenOver);
    } else if feature.peer.as_ref() == Some(&feature.local) {
        (feature.state, feature.reason) = (FeatureState::Agreed, FeatureReason::Same);
    } else if feature.peer_willing == Some(true) {
        (feature.state, feature.reason) = (FeatureState::Agreed, FeatureReason::PeerTakesOver);
    } else if feature.peer.is_some() {
        feature.reason = FeatureReason::Differs;
    }
}

fn applications(settings: &DcbxSettings, peer: Option<&Vec<Application>>) -> Feature<Vec<Application>> {
    let own = &settings.applications;
    let mut feature = Feature::local(own.entries.clone(), own.willing, FeatureReason::NotSent);
    feature.peer = peer.cloned();
    select_asymmetric(&mut feature, peer.cloned());
    feature
}

fn pfc(settings: &DcbxSettings, peer: Option<&PfcConfiguration>, has_precedence: bool) -> Feature<u8> {
    let (own, willing) = (local_no_drop(settings), is_pfc_willing(settings));
    let mut feature = Feature::local(own, willing, FeatureReason::NotSent);
    let Some(peer) = peer else { return feature };
    (feature.peer, feature.peer_willing) = (Some(peer.enabled), Some(peer.willing));
    let selected = symmetric(willing, feature.peer_willing, has_precedence);
    if selected == Selected::Peer {
        feature.operational = peer.enabled;
    }
    (feature.state, feature.reason) = match selected {
        _ if peer.enabled == own => (FeatureState::Agreed, FeatureReason::Same),
        Selected::Peer => (FeatureState::Agreed, FeatureReason::TakenOver),
        Selected::Local if peer.willing && own.count_ones() > u32::from(peer.capability) => {
            (FeatureState::Error, FeatureReason::PeerCapability(peer.capability))
        }
        Selected::Local if peer.willing => (FeatureState::Agreed, FeatureReason::PeerTakesOver),
        Selected::Local => (FeatureState::Error, FeatureReason::Differs),
    };
    feature
}

/// Returns the TLVs that a port advertises.
pub fn advertised(status: &Status, settings: &DcbxSettings) -> Ieee {
    let configuration = |willing: bool, ets: &Ets| EtsConfiguration {
        willing,
        credit_based: false,
        max_classes: 8,
        table: to_table(ets),
    };
    let pfc = &status.pfc;
    let both_willing = pfc.local_willing && pfc.peer_willing == Some(true);
    let pfc = PfcConfiguration {
        willing: pfc.local_willing,
        macsec_bypass: false,
        capability: settings.pfc.capability.clamp(1, 8),
        enabled: if both_willing { pfc.local } else { pfc.operational },
    };
    let applications = &settings.applications.entries;
    let sends_applications = settings.pfc.mode == PfcMode::Auto && !applications.is_empty();
    Ieee {
        ets_configuration: status.ets.as_ref().map(|ets| configuration(ets.local_willing, &ets.operational)),
        ets_recommendation: settings.ets.filter(|own| own.recommends).map(|own| to_table(&own.ets)),
        pfc: Some(pfc),
        applications: sends_applications.then(|| applications.clone()),
        congestion: None,
    }
}

#[cfg(test)]
mod tests {
    use super::Selected::*;
    use super::*;

    #[test]
    fn the_asymmetric_diagram() {
        for (willing, recommends, expected) in
            [(false, false, Local), (false, true, Local), (true, false, Local), (true, true, Peer)]
        {
            assert_eq!(asymmetric(willing, recommends), expected, "{willing} {recommends}");
        }
    }

    #[test]
    fn the_symmetric_diagram() {
        for (willing, peer_willing, has_precedence, expected) in [
            (false, None, false, Local),
            (false, None, true, Local),
            (false, Some(false), false, Local),
            (false, Some(false), true, Local),
            (false, Some(true), false, Local),
            (false, Some(true), true, Local),
            (true, None, false, Local),
            (true, None, true, Local),
            (true, Some(false), false, Peer),
            (true, Some(false), true, Peer),
            (true, Some(true), false, Peer),
            (true, Some(true), true, Local),
        ] {
            let selected = symmetric(willing, peer_willing, has_precedence);
            assert_eq!(selected, expected, "{willing} {peer_willing:?} {has_precedence}");
        }
    }

    /// A peer that can have PFC on two priorities cannot take over three.
    #[test]
    fn a_peer_takes_over_what_it_can() {
        let mut own = DcbxSettings::default();
        own.pfc.no_drop = 0b11_1000;
        let of = |own: &DcbxSettings, capability, enabled| {
            let peer = PfcConfiguration { willing: true, macsec_bypass: false, capability, enabled };
            let feature = pfc(own, Some(&peer), true);
            (feature.state, feature.reason)
        };
        assert_eq!(of(&own, 2, 0), (FeatureState::Error, FeatureReason::PeerCapability(2)));
        assert_eq!(of(&own, 3, 0), (FeatureState::Agreed, FeatureReason::PeerTakesOver));
        assert_eq!(
            of(&own, 2, 0b11_1000),
            (FeatureState::Agreed, FeatureReason::Same),
            "it has taken them over"
        );
        own.pfc.willing = true;
        assert_eq!(
            of(&own, 2, 0),
            (FeatureState::Error, FeatureReason::PeerCapability(2)),
            "with precedence"
        );
        let mut status = Status::new(&own, crate::settings::Version::Ieee);
        let peer = PfcConfiguration { willing: true, macsec_bypass: false, capability: 0, enabled: 0 };
        negotiate(&mut status, &own, &Ieee { pfc: Some(peer), ..Ieee::default() }, true);
        status.settle(&own);
        assert_eq!(status.operational.no_drop, 0);
    }

    #[test]
    fn precedence_goes_by_address() {
        let (low, high) = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 1, 0]));
        for (precedence, expected) in [(Precedence::LowerAddress, true), (Precedence::HigherAddress, false)] {
            assert_eq!(has_precedence(precedence, low, high), expected);
            assert_eq!(has_precedence(precedence, high, low), !expected);
            assert!(!has_precedence(precedence, low, low));
        }
    }
}
