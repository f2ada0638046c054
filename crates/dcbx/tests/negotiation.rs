//! What becomes of an agreement: peers that go, change or multiply, malformed TLVs, other settings.

mod pair;

use core::time::Duration;
use dcbx::event::Event;
use dcbx::settings::{DcbxSettings, Ets, PfcMode, Precedence, Version, VersionSetting};
use dcbx::status::{FeatureName, FeatureReason, FeatureState, PeerState};
use pair::{ALL_VERSIONS, DELAY, Pair, dcbx, groups, seconds, settings};
use wire::MacAddr;
use wire::dcbx::ieee::{Ieee, PfcConfiguration, Selector};
use wire::dcbx::sub_tlv::OUI_INTEL;
use wire::dcbx::{Cee, Cin, DcbxError, DcbxTlv};
use wire::lldp::organization::OUI_802_1;
use wire::lldp::{ChassisId, Lldpdu, OrgTlv, PortId, decode};

const IEEE: VersionSetting = VersionSetting::Pinned(Version::Ieee);
const CEE: VersionSetting = VersionSetting::Pinned(Version::Cee);

/// End 0 wants 3 no-drop; end 1 is willing.
fn agreed(version: VersionSetting) -> Pair {
    let pair = Pair::settled(dcbx(version, false, 1 << 3), dcbx(version, true, 0));
    assert_eq!(pair.no_drop(), [1 << 3; 2], "{version:?}");
    pair
}

/// A frame of a third end with these TLVs.
fn foreign(number: u8, ttl_s: u16, tlvs: Vec<OrgTlv>) -> Vec<u8> {
    let mac = MacAddr([2, 0, 0, 0, 9, number]);
    let mut lldpdu = Lldpdu::new(ChassisId::mac(mac), PortId::interface("eth0"), ttl_s);
    lldpdu.organization = tlvs;
    lldpdu.encode(mac).frame
}

fn ieee_pfc(willing: bool, enabled: u8) -> Vec<OrgTlv> {
    let pfc = PfcConfiguration { willing, macsec_bypass: false, capability: 8, enabled };
    Ieee { pfc: Some(pfc), ..Ieee::default() }.encode()
}

#[test]
fn the_willing_end_takes_over_everything() {
    for version in ALL_VERSIONS {
        let pair = agreed(version);
        let operational = pair.agents[1].operational().unwrap();
        assert_eq!(operational.no_drop, 1 << 3);
        assert_eq!(operational.ets, Some(groups(50)));
        assert_eq!(operational.priority_of(Selector::Ethertype, 0x8906), Some(3));
        let status = pair.status(1);
        assert_eq!((status.pfc.local, status.pfc.peer), (0, Some(1 << 3)));
        assert_eq!((status.pfc.state, status.pfc.reason), (FeatureState::Agreed, FeatureReason::TakenOver));
    }
}

/// What was taken over goes when the peer does: by expiry, shutdown, or with the link. Nothing
/// stays no-drop at either end.
#[test]
fn the_agreement_goes_with_the_peer() {
    for version in ALL_VERSIONS {
        for way in ["expiry", "shutdown", "link"] {
            let mut pair = agreed(version);
            match way {
                "expiry" => {
                    pair.delivers_to = [false, false];
                    pair.run(seconds(90));
                    assert_eq!(pair.no_drop(), [1 << 3; 2], "within the time to live");
                    pair.run(seconds(60));
                }
                "shutdown" => {
                    for number in [1, 2] {
                        let mut off = settings(number, Some(dcbx(version, number == 2, 8 * (2 - number))));
                        off.lldp.admin = dcbx::settings::AdminStatus::RxOnly;
                        pair.agents[usize::from(number) - 1].configure(pair.now, off);
                    }
                    pair.run(seconds(1));
                }
                _ => pair.set_link(false),
            }
            assert_eq!(pair.no_drop(), [0; 2], "{version:?}, {way}");
            let status = pair.status(1);
            assert_eq!(status.peer, PeerState::Absent);
            assert_eq!(status.pfc.reason, FeatureReason::NoPeer);
            assert_eq!(status.operational.ets, Some(groups(60)), "the local groups");
            if way == "link" {
                pair.set_link(true);
                pair.run(seconds(5));
                assert_eq!(pair.no_drop(), [1 << 3; 2], "and comes back with it");
            }
        }
    }
}

/// A link that flaps a hundred times, faster than frames may follow and slower: each time nothing
/// is agreed while it is down, and the end state is that of a link that came up once.
#[test]
fn a_link_that_flaps_agrees_again() {
    for version in ALL_VERSIONS {
        let mut pair = agreed(version);
        for flap in 0..100 {
            pair.set_link(false);
            assert_eq!(pair.no_drop(), [0; 2]);
            pair.run(Duration::from_millis(flap * 7));
            pair.set_link(true);
            pair.run(Duration::from_millis(100 + flap * 13));
        }
        pair.run(seconds(10));
        assert_eq!(pair.no_drop(), [1 << 3; 2], "{version:?}");
        for agent in &pair.agents {
            assert_eq!((agent.neighbors().count(), agent.counters().events_lost > 0), (1, true));
        }
        let settled = [0, 1].map(|end| pair.status(end).clone());
        let once = agreed(version);
        assert_eq!(settled.each_ref().map(|it| &it.pfc), [0, 1].map(|end| &once.status(end).pfc));
        let changed = pair.changed;
        pair.run(seconds(600));
        assert_eq!(pair.changed, changed);
    }
}

#[test]
fn without_a_peer_nothing_is_negotiated() {
    for (mode, expected) in [(PfcMode::Auto, 0), (PfcMode::On, 1 << 3), (PfcMode::Off, 0)] {
        let mut own = dcbx(VersionSetting::Auto, false, 1 << 3);
        own.pfc.mode = mode;
        let mut pair = Pair::new([settings(1, Some(own)), settings(2, None)]);
        pair.run(seconds(10));
        assert_eq!(pair.no_drop()[0], expected, "{mode:?}");
        assert_eq!(pair.agents[1].operational(), None);
        assert_eq!(pair.agents[1].status(), None);
    }
}

/// `on` keeps its own whatever the peer says, and shows that the peer differs. `off` has none, and
/// a willing peer takes that over.
#[test]
fn modes_on_and_off_do_not_follow() {
    for version in [IEEE, CEE, VersionSetting::Pinned(Version::Cin)] {
        let mut own = dcbx(version, true, 1 << 3);
        own.pfc.mode = PfcMode::On;
        let pair = Pair::settled(own.clone(), dcbx(version, false, 1 << 4));
        assert_eq!(pair.no_drop(), [1 << 3, 0]);
        let pfc = &pair.status(0).pfc;
        assert_eq!(
            (pfc.state, pfc.reason, pfc.local_willing),
            (FeatureState::Error, FeatureReason::Differs, false)
        );
        let pair = Pair::settled(own.clone(), dcbx(version, true, 1 << 4));
        assert_eq!(pair.no_drop(), [1 << 3; 2]);
        own.pfc.mode = PfcMode::Off;
        let pair = Pair::settled(own, dcbx(version, true, 1 << 4));
        assert_eq!(pair.no_drop(), [0, 0]);
        assert_eq!(pair.status(0).pfc.state, FeatureState::Off);
    }
}

/// Applications are advertised only while PFC is `auto`.
#[test]
fn applications_only_with_pfc_in_auto() {
    for version in [IEEE, CEE, VersionSetting::Pinned(Version::Cin)] {
        for (mode, expected) in [(PfcMode::Auto, true), (PfcMode::On, false), (PfcMode::Off, false)] {
            let mut own = dcbx(version, false, 1 << 3);
            own.pfc.mode = mode;
            let pair = Pair::settled(own, dcbx(version, true, 0));
            assert_eq!(pair.status(1).applications.peer.is_some(), expected, "{version:?} {mode:?}");
        }
    }
}

/// Two ends that want the same agree on everything, willing or not, in the terms of each version:
/// CIN compares FCoE only, whatever other applications are listed.
#[test]
fn ends_that_want_the_same_agree() {
    for version in ALL_VERSIONS {
        let own = dcbx(version, false, 1 << 3);
        let pair = Pair::settled(own.clone(), own);
        for end in [0, 1] {
            let status = pair.status(end);
            let same = (FeatureState::Agreed, FeatureReason::Same);
            let ets = status.ets.as_ref().unwrap();
            assert_eq!((status.pfc.state, status.pfc.reason), same, "{version:?}");
            assert_eq!((ets.state, ets.reason), same, "{version:?}");
            assert_eq!((status.applications.state, status.applications.reason), same, "{version:?}");
        }
    }
}

/// Two willing ends: the lower address keeps its own, or the higher one by setting. Ends that order
/// addresses in opposite ways both keep their own or both take the other's, but neither oscillates.
#[test]
fn precedence_between_two_willing_ends() {
    use Precedence::{HigherAddress, LowerAddress};
    for (first, second, expected) in [
        (LowerAddress, LowerAddress, [1 << 3, 1 << 3]),
        (HigherAddress, HigherAddress, [1 << 4, 1 << 4]),
        (LowerAddress, HigherAddress, [1 << 3, 1 << 4]),
        (HigherAddress, LowerAddress, [1 << 4, 1 << 3]),
    ] {
        let (mut a, mut b) = (dcbx(IEEE, true, 1 << 3), dcbx(IEEE, true, 1 << 4));
        (a.pfc.precedence, b.pfc.precedence) = (first, second);
        let mut pair = Pair::settled(a, b);
        assert_eq!(pair.no_drop(), expected, "{first:?} {second:?}");
        let changed = pair.changed;
        pair.run(seconds(300));
        assert_eq!(pair.changed, changed);
    }
}

/// A peer that keeps its own when its address is the higher, as lldpad does, and advertises what is
/// in force.
#[test]
fn a_peer_that_orders_addresses_the_other_way_does_not_oscillate() {
    let mut pair = Pair::new([settings(9, Some(dcbx(IEEE, true, 1 << 3))), settings(2, None)]);
    pair.run(seconds(10));
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let mut advertised = 1 << 4;
    for _ in 0..10 {
        let mut lldpdu = Lldpdu::new(ChassisId::mac(mac), PortId::interface("eth0"), 120);
        lldpdu.organization = ieee_pfc(true, advertised);
        pair.agents[0].receive(pair.now, &lldpdu.encode(mac).frame);
        // The peer has the lower address, so it takes over what is advertised to it.
        let own = Ieee::decode(&pair.agents[0].advertised().organization).unwrap().unwrap();
        advertised = own.pfc.unwrap().enabled;
        pair.run(seconds(5));
    }
    assert_eq!((advertised, pair.no_drop()[0]), (1 << 3, 1 << 3));
}

#[test]
fn ets_is_advertised_as_it_is_in_force() {
    let pair = agreed(IEEE);
    let of = |end: usize| Ieee::decode(&pair.agents[end].advertised().organization).unwrap().unwrap();
    let table = of(0).ets_configuration.unwrap().table;
    assert_eq!(of(1).ets_configuration.unwrap().table, table);
    assert!(of(1).ets_configuration.unwrap().willing);
    assert_eq!(of(1).ets_recommendation.unwrap().percent[..2], [60, 40], "the recommendation is its own");
    assert_eq!(of(1).pfc.unwrap().enabled, 1 << 3);
}

#[test]
fn a_recommendation_that_is_unavailable_is_not_taken_over() {
    let mut pair = Pair::new([settings(1, Some(dcbx(IEEE, true, 8))), settings(2, None)]);
    pair.run(seconds(5));
    let mut pair_of = |algorithm: u8| {
        let mut table = vec![0; 21];
        table[5] = 100;
        table[13] = algorithm;
        let tlv = OrgTlv { oui: OUI_802_1, subtype: 10, value: table };
        pair.agents[0].receive(pair.now, &foreign(1, 120, vec![tlv]));
        let ets = pair.status(0).ets.clone().unwrap();
        (ets.state, ets.reason, ets.operational)
    };
    assert_eq!(pair_of(2), (FeatureState::Agreed, FeatureReason::TakenOver, Ets::SINGLE_GROUP));
    assert_eq!(pair_of(0), (FeatureState::Agreed, FeatureReason::TakenOver, Ets::STRICT));
    for algorithm in [1, 3, 255] {
        assert_eq!(pair_of(algorithm), (FeatureState::Error, FeatureReason::Unsupported, groups(50)));
    }
}

/// Two neighbors with DCBX: none counts until one is gone. A neighbor without DCBX does not matter.
#[test]
fn several_peers_are_an_error() {
    for version in ALL_VERSIONS {
        let mut pair = agreed(version);
        pair.agents[0].receive(pair.now, &foreign(1, 20, vec![]));
        assert_eq!(pair.no_drop()[0], 1 << 3);
        pair.agents[0].receive(pair.now, &foreign(2, 20, ieee_pfc(true, 0)));
        let status = pair.status(0);
        assert_eq!((status.peer, status.operational.no_drop), (PeerState::Several, 0));
        assert_eq!((status.pfc.state, status.pfc.reason), (FeatureState::Error, FeatureReason::SeveralPeers));
        pair.run(seconds(19));
        assert_eq!(pair.no_drop()[0], 0, "{version:?}");
        pair.run(seconds(90));
        assert_eq!(pair.no_drop(), [1 << 3; 2], "{version:?}");
    }
}

/// The same of a neighbor that the table has no room for.
#[test]
fn a_peer_beyond_the_table_counts_as_one_of_several() {
    let mut own = settings(1, Some(dcbx(IEEE, false, 8)));
    own.lldp.max_neighbors = 1;
    let mut pair = Pair::new([own, settings(2, Some(dcbx(IEEE, true, 0)))]);
    pair.run(seconds(5));
    pair.agents[0].receive(pair.now, &foreign(1, 20, vec![]));
    assert_eq!(pair.status(0).peer, PeerState::One);
    pair.agents[0].receive(pair.now, &foreign(2, 20, ieee_pfc(true, 0)));
    assert_eq!((pair.status(0).peer, pair.no_drop()[0]), (PeerState::Several, 0));
    pair.run(seconds(20));
    assert_eq!((pair.status(0).peer, pair.no_drop()[0]), (PeerState::One, 8));
}

/// Another system on the same cable: once the old one is gone, the new one counts.
#[test]
fn a_changed_peer_begins_from_the_start() {
    for version in [VersionSetting::Auto, CEE] {
        let mut pair = agreed(version);
        let old = &pair.agents[1].advertised().clone();
        let shutdown = Lldpdu::new(old.chassis.clone(), old.port.clone(), 0);
        pair.delivers_to = [false, false];
        pair.run(seconds(1));
        pair.agents[0].receive(pair.now, &shutdown.encode(MacAddr::default()).frame);
        assert_eq!(pair.no_drop()[0], 0);
        pair.agents[1] = dcbx::Agent::new(settings(7, Some(dcbx(version, true, 0))));
        pair.agents[1].set_link(pair.now, true);
        pair.delivers_to = [true, true];
        pair.run(seconds(60));
        assert_eq!(pair.no_drop(), [1 << 3; 2], "{version:?}");
    }
}

/// The old peer expires with the very frame of the new one, which speaks another version.
#[test]
fn a_peer_that_another_one_replaces_in_one_instant() {
    let mut pair = Pair::settled(dcbx(VersionSetting::Auto, false, 8), dcbx(CEE, true, 0));
    assert_eq!((pair.status(0).version, pair.no_drop()[0]), (Version::Cee, 8));
    let expired = pair.agents[0].neighbors().next().unwrap().expires;
    pair.agents[0].receive(expired, &foreign(1, 20, ieee_pfc(true, 0)));
    let status = pair.status(0);
    assert_eq!((status.version, status.peer, status.operational.no_drop), (Version::Ieee, PeerState::One, 8));
    assert_eq!(status.control, None);
}

/// An end whose setting of the version changes withdraws itself first, so a peer in `auto` begins
/// from the start and follows to any version, once.
#[test]
fn the_version_changes_while_running() {
    use Version::*;
    let mut pair = agreed(VersionSetting::Auto);
    for version in [Cee, Cin, Ieee, Cin, Cee, Ieee] {
        let settings = settings(2, Some(dcbx(VersionSetting::Pinned(version), true, 0)));
        pair.agents[1].configure(pair.now, settings);
        pair.run(seconds(5));
        assert_eq!((pair.status(0).version, pair.no_drop()), (version, [8, 8]));
        let changed = pair.changed;
        pair.run(seconds(300));
        assert_eq!(pair.changed, changed);
    }
    assert_eq!(pair.agents[0].counters().neighbors_shut_down, 6, "once each");
}

/// Both ends are set to `auto` after both had pinned an old version: neither stays with it.
#[test]
fn both_versions_become_auto_while_running() {
    let mut pair = agreed(VersionSetting::Pinned(Version::Cin));
    for (number, willing, no_drop) in [(1, false, 8), (2, true, 0)] {
        let auto = settings(number, Some(dcbx(VersionSetting::Auto, willing, no_drop)));
        pair.agents[usize::from(number) - 1].configure(pair.now, auto);
        pair.run(seconds(30));
    }
    let versions = [0, 1].map(|end| pair.status(end).version);
    assert_eq!((versions, pair.no_drop()), ([Version::Ieee; 2], [8, 8]));
}

/// A foreign peer that goes over to another version without a shutdown frame: `auto` follows from
/// IEEE, but not on from there. The reason names the cure.
#[test]
fn a_foreign_peer_changes_its_version_while_running() {
    let mut pair = agreed(VersionSetting::Auto);
    let mut other = dcbx::Agent::new(settings(2, Some(dcbx(CEE, true, 0))));
    other.set_link(pair.now, true);
    pair.agents[1] = other;
    pair.run(seconds(60));
    assert_eq!((pair.status(0).version, pair.no_drop()), (Version::Cee, [8, 8]));
    let cin = VersionSetting::Pinned(Version::Cin);
    pair.agents[1] = dcbx::Agent::new(settings(2, Some(dcbx(cin, true, 0))));
    pair.agents[1].set_link(pair.now, true);
    pair.run(seconds(60));
    assert_eq!((pair.status(0).version, pair.no_drop()), (Version::Cee, [0, 0]));
    let reason = FeatureReason::OtherVersion { peer: Version::Cin, is_pinned: false };
    assert_eq!(pair.status(0).pfc.reason, reason);
    assert_eq!(reason.to_string(), "the peer sends CIN only; the next link up or its restart begins again");
    pair.set_link(false);
    pair.set_link(true);
    pair.run(seconds(30));
    assert_eq!((pair.status(0).version, pair.no_drop()), (Version::Cin, [8, 8]));
}

/// Settings change at both ends, and both follow; with CEE each change has its sequence number.
#[test]
fn changes_are_followed_at_once() {
    for version in ALL_VERSIONS {
        let mut pair = agreed(version);
        for no_drop in [1 << 5, 0b1001_1000, 0, 1 << 3] {
            let changed = settings(1, Some(dcbx(version, false, no_drop)));
            pair.agents[0].configure(pair.now, changed);
            pair.run(DELAY * 2);
            assert_eq!(pair.no_drop()[1], no_drop, "{version:?}");
            pair.run(seconds(10));
            assert_eq!(pair.no_drop(), [no_drop; 2], "{version:?}");
        }
        // Willingness moves from one end to the other.
        pair.agents[0].configure(pair.now, settings(1, Some(dcbx(version, true, 1 << 3))));
        pair.agents[1].configure(pair.now, settings(2, Some(dcbx(version, false, 1 << 6))));
        pair.run(seconds(10));
        assert_eq!(pair.no_drop(), [1 << 6; 2], "{version:?}");
    }
}

/// A change waits for the acknowledgment of the one before, and none is lost.
#[test]
fn cee_changes_wait_for_the_acknowledgment() {
    let mut pair = agreed(CEE);
    let seq = |pair: &Pair| pair.status(0).control.unwrap().seq;
    let before = seq(&pair);
    pair.delivers_to = [false, true];
    for no_drop in [1 << 4, 1 << 5, 1 << 6] {
        pair.agents[0].configure(pair.now, settings(1, Some(dcbx(CEE, false, no_drop))));
        pair.run(seconds(2));
    }
    assert_eq!(seq(&pair), before + 1);
    assert_eq!(pair.no_drop(), [1 << 3, 1 << 4], "not acknowledged here: as before");
    pair.delivers_to = [true, true];
    pair.run(seconds(60));
    assert_eq!(seq(&pair), before + 2);
    assert_eq!(pair.no_drop(), [1 << 6; 2]);
}

/// An end that starts again begins with SeqNo 1, and both agree again.
#[test]
fn a_cee_peer_that_restarts_agrees_again() {
    let mut pair = agreed(CEE);
    pair.agents[0].configure(pair.now, settings(1, Some(dcbx(CEE, false, 1 << 4))));
    pair.run(seconds(5));
    assert!(pair.status(0).control.unwrap().seq > 1);
    pair.agents[1] = dcbx::Agent::new(settings(2, Some(dcbx(CEE, true, 0))));
    pair.agents[1].set_link(pair.now, true);
    pair.run(seconds(60));
    assert_eq!(pair.no_drop(), [1 << 4; 2]);
    let [first, second] = [0, 1].map(|end| pair.status(end).control.unwrap());
    assert_eq!((first.ack, second.ack), (second.seq, first.seq));
}

/// Flags and versions of CEE that a Sluice end never sends.
#[test]
fn cee_errors_disabled_features_and_other_versions_of_the_peer() {
    fn pfc(cee: &mut Cee) -> &mut wire::dcbx::sub_tlv::FeatureHeader {
        &mut cee.pfc.as_mut().unwrap().0
    }
    type Change = fn(&mut Cee);
    let changes: [(Change, FeatureState, FeatureReason); 5] = [
        (|it| pfc(it).error = true, FeatureState::Error, FeatureReason::PeerError),
        (|it| pfc(it).enabled = false, FeatureState::Local, FeatureReason::DisabledByPeer),
        (|it| it.pfc = None, FeatureState::Local, FeatureReason::NotSent),
        (|it| pfc(it).willing = false, FeatureState::Error, FeatureReason::Differs),
        (|it| it.control.max_version = 1, FeatureState::Agreed, FeatureReason::PeerTakesOver),
    ];
    for (change, state, reason) in changes {
        let mut pair = agreed(CEE);
        let mut lldpdu = pair.agents[1].advertised().clone();
        let mut cee = Cee::decode(&lldpdu.organization).unwrap().unwrap();
        change(&mut cee);
        lldpdu.organization = vec![cee.encode()];
        pair.agents[0].receive(pair.now, &lldpdu.encode(MacAddr([2, 0, 0, 0, 0, 2])).frame);
        let pfc = &pair.status(0).pfc;
        assert_eq!((pfc.state, pfc.reason), (state, reason));
        assert_eq!(pair.no_drop()[0], if state == FeatureState::Agreed { 8 } else { 0 }, "{reason:?}");
    }
    // A peer that operates another version is waited for.
    let mut pair = Pair::new([settings(1, Some(dcbx(CEE, false, 8))), settings(2, None)]);
    pair.run(seconds(5));
    for (control, feature, expected) in [
        (1, 0, FeatureReason::PeerVersion),
        (0, 1, FeatureReason::PeerVersion),
        (0, 0, FeatureReason::PeerTakesOver),
    ] {
        let ack = pair.status(0).control.unwrap().seq;
        let value =
            [&[2, 10, control, 1, 0, 0, 0, 1, 0, 0, 0, ack as u8][..], &[6, 6, feature, 1, 0xc0, 0, 0, 8]];
        let tlv = OrgTlv { oui: OUI_INTEL, subtype: 2, value: value.concat() };
        pair.agents[0].receive(pair.now, &foreign(1, 120, vec![tlv]));
        let ack = pair.status(0).control.unwrap().seq;
        let value =
            [&[2, 10, control, 1, 0, 0, 0, 1, 0, 0, 0, ack as u8][..], &[6, 6, feature, 1, 0xc0, 0, 0, 8]];
        let tlv = OrgTlv { oui: OUI_INTEL, subtype: 2, value: value.concat() };
        pair.agents[0].receive(pair.now, &foreign(1, 120, vec![tlv]));
        assert_eq!(pair.status(0).pfc.reason, expected, "{control} {feature}");
    }
}

/// A feature that the peer does not send is an error in CEE, which the port reports to the peer. It
/// is none in CIN.
#[test]
fn a_feature_that_is_not_sent_is_reported_in_cee_only() {
    for (version, expected) in [(Version::Cee, true), (Version::Cin, false)] {
        let mut pair = agreed(VersionSetting::Pinned(version));
        let reports_error = |pair: &Pair| {
            let tlvs = &pair.agents[0].advertised().organization;
            match version {
                Version::Cee => Cee::decode(tlvs).unwrap().unwrap().pfc.unwrap().0.error,
                _ => Cin::decode(tlvs).unwrap().unwrap().pfc.unwrap().0.error,
            }
        };
        assert!(!reports_error(&pair), "{version}");
        let mut lldpdu = pair.agents[1].advertised().clone();
        let tlv = match version {
            Version::Cee => Cee { pfc: None, ..Cee::decode(&lldpdu.organization).unwrap().unwrap() }.encode(),
            _ => Cin { pfc: None, ..Cin::decode(&lldpdu.organization).unwrap().unwrap() }.encode(),
        };
        lldpdu.organization = vec![tlv];
        pair.agents[0].receive(pair.now, &lldpdu.encode(MacAddr([2, 0, 0, 0, 0, 2])).frame);
        assert_eq!(pair.status(0).pfc.reason, FeatureReason::NotSent, "{version}");
        assert_eq!(reports_error(&pair), expected, "{version}");
    }
}

/// Malformed TLVs are counted and shown. What was agreed stays until the time to live of the last
/// well-formed frame ends, however often malformed ones come.
#[test]
fn malformed_tlvs_change_nothing_and_extend_nothing() {
    for (version, subtype) in [(IEEE, 11), (CEE, 2)] {
        let mut pair = agreed(version);
        let oui = if version == IEEE { OUI_802_1 } else { OUI_INTEL };
        let last_good = *pair.sent[1].last().unwrap() + DELAY;
        pair.delivers_to[0] = false;
        let mut lldpdu = pair.agents[1].advertised().clone();
        let changed =
            lldpdu.organization.iter_mut().find(|it| (it.oui, it.subtype) == (oui, subtype)).unwrap();
        changed.value.push(0);
        let malformed = lldpdu.encode(MacAddr([2, 0, 0, 0, 0, 2])).frame;
        let expected = if version == IEEE {
            DcbxError::Length { tlv: DcbxTlv::Pfc, len: 7 }
        } else {
            DcbxError::Truncated
        };
        let mut count = 0;
        while pair.now + seconds(10) < last_good + seconds(121) {
            pair.run(seconds(10));
            pair.agents[0].receive(pair.now, &malformed);
            count += 1;
            let status = pair.status(0);
            assert_eq!((status.operational.no_drop, status.pfc.state), (8, FeatureState::Agreed));
            assert_eq!(status.pfc.reason, FeatureReason::Malformed(expected));
        }
        assert_eq!(pair.agents[0].counters().rx_malformed_dcbx, count);
        pair.run(last_good + seconds(121) - pair.now);
        let status = pair.status(0);
        assert_eq!((status.operational.no_drop, status.pfc.state), (0, FeatureState::Error));
        assert_eq!(status.pfc.reason, FeatureReason::Malformed(expected));
        assert_eq!(pair.agents[0].neighbors().count(), 1, "the neighbor itself is there");
        pair.delivers_to[0] = true;
        pair.run(seconds(60));
        assert_eq!(pair.no_drop()[0], 8, "{version:?}");
    }
}

#[test]
fn what_was_agreed_is_an_event() {
    let mut pair = Pair::settled(dcbx(IEEE, false, 8), dcbx(IEEE, true, 0));
    let of_pfc = |pair: &mut Pair| -> Vec<String> {
        let events = pair.agents[1].take_events().into_iter();
        events
            .filter_map(|event| match event {
                Event::FeatureChanged { feature: FeatureName::Pfc, state, reason, operational } => {
                    Some(format!("{operational} {state}: {reason}"))
                }
                _ => None,
            })
            .collect()
    };
    assert_eq!(of_pfc(&mut pair), ["3 agreed: taken over from the peer"]);
    pair.agents[0].configure(pair.now, settings(1, Some(dcbx(IEEE, false, 1 << 5))));
    pair.run(seconds(1));
    assert_eq!(of_pfc(&mut pair), ["5 agreed: taken over from the peer"], "only the priorities are others");
    pair.set_link(false);
    assert_eq!(of_pfc(&mut pair), ["- local: no peer with DCBX"]);
    pair.run(seconds(10));
    assert!(of_pfc(&mut pair).is_empty());
}

/// The version is an event when it changes, and at no other time.
#[test]
fn another_version_is_an_event() {
    let versions = |pair: &mut Pair| -> Vec<Version> {
        let events = pair.agents[0].take_events().into_iter();
        events
            .filter_map(|event| if let Event::VersionChanged(to) = event { Some(to) } else { None })
            .collect()
    };
    let mut pair = Pair::settled(dcbx(VersionSetting::Auto, false, 8), dcbx(CEE, true, 0));
    assert_eq!(versions(&mut pair), [Version::Cee]);
    pair.set_link(false);
    assert_eq!(versions(&mut pair), [Version::Ieee]);
    pair.run(seconds(10));
    assert_eq!(versions(&mut pair), []);
}

/// DCBX that is configured and removed while the link is up.
#[test]
fn dcbx_comes_and_goes_with_its_settings() {
    let mut pair = agreed(VersionSetting::Auto);
    pair.agents[0].configure(pair.now, settings(1, None));
    pair.run(Duration::from_millis(10));
    assert_eq!(pair.agents[0].operational(), None);
    assert_eq!(pair.no_drop(), [0, 0]);
    let sent = &pair.agents[0].advertised().organization;
    assert_eq!(Ieee::decode(sent), Ok(None));
    let mut without_ets = DcbxSettings::default();
    without_ets.pfc.no_drop = 8;
    pair.agents[0].configure(pair.now, settings(1, Some(without_ets)));
    pair.run(seconds(10));
    assert_eq!(pair.no_drop(), [8, 8]);
    assert_eq!(pair.status(0).ets, None);
    assert_eq!(pair.status(1).ets.as_ref().unwrap().reason, FeatureReason::NotSent);
}

/// The frames of a whole negotiation can be read by the strict reader.
#[test]
fn every_sent_frame_is_well_formed() {
    for version in ALL_VERSIONS {
        let mut agent = dcbx::Agent::new(settings(1, Some(dcbx(version, true, 0xff))));
        agent.set_link(seconds(1), true);
        let frame = agent.poll(seconds(1)).frames.remove(0);
        let (src, lldpdu) = decode(&frame).unwrap();
        assert_eq!((src, &lldpdu), (MacAddr([2, 0, 0, 0, 0, 1]), agent.advertised()));
        assert!(lldpdu.organization.iter().all(|tlv| !matches!(tlv.standard(), Some(Err(_)))));
    }
}
