//! DCBX TLVs of the three versions byte by byte, and every way in which they may be malformed.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::dcbx::cee::{self, STRICT_GROUP};
use wire::dcbx::cin::{self, Member};
use wire::dcbx::ieee::{
    Application, CongestionNotification, EtsConfiguration, EtsTable, PfcConfiguration, Selector, algorithm,
};
use wire::dcbx::sub_tlv::{Control, FeatureHeader, OUI_INTEL};
use wire::dcbx::{Cee, Cin, DcbxError, DcbxTlv, Ieee};
use wire::lldp::OrgTlv;
use wire::lldp::organization::OUI_802_1;

fn ieee_tlv(subtype: u8, value: &[u8]) -> OrgTlv {
    OrgTlv { oui: OUI_802_1, subtype, value: value.to_vec() }
}

/// Priority 3 has half of the bandwidth in class 1, priorities 6 and 7 are strict in class 7.
const TABLE: EtsTable = EtsTable {
    class_of_priority: [0, 0, 0, 1, 0, 0, 7, 7],
    percent: [50, 50, 0, 0, 0, 0, 0, 0],
    algorithms: [algorithm::ETS, algorithm::ETS, 0, 0, 0, 0, 0, algorithm::STRICT],
};
const TABLE_BYTES: [u8; 20] = [
    0x00, 0x01, 0x00, 0x77, // classes
    50, 50, 0, 0, 0, 0, 0, 0, // percent
    2, 2, 0, 0, 0, 0, 0, 0, // algorithms
];

fn ieee() -> Ieee {
    let configuration = EtsConfiguration { willing: true, credit_based: false, max_classes: 8, table: TABLE };
    let pfc = PfcConfiguration { willing: true, macsec_bypass: false, capability: 8, enabled: 0b0000_1000 };
    let applications = vec![
        Application { selector: Selector::Ethertype, protocol: 0x8906, priority: 3 },
        Application { selector: Selector::UdpPort, protocol: 4791, priority: 5 },
        Application { selector: Selector::Dscp, protocol: 26, priority: 7 },
    ];
    Ieee {
        ets_configuration: Some(configuration),
        ets_recommendation: Some(TABLE),
        pfc: Some(pfc),
        applications: Some(applications),
        congestion: Some(CongestionNotification { priorities: 0x10, ready: 0x20 }),
    }
}

fn ieee_tlvs() -> Vec<OrgTlv> {
    vec![
        ieee_tlv(9, &[&[0x80][..], &TABLE_BYTES].concat()),
        ieee_tlv(10, &[&[0][..], &TABLE_BYTES].concat()),
        ieee_tlv(11, &[0x88, 0x08]),
        ieee_tlv(12, &[0, 0x61, 0x89, 0x06, 0xa3, 0x12, 0xb7, 0xe5, 0, 26]),
        ieee_tlv(8, &[0x10, 0x20]),
    ]
}

#[test]
fn ieee_byte_by_byte() {
    assert_eq!(ieee().encode(), ieee_tlvs());
    assert_eq!(Ieee::decode(&ieee_tlvs()), Ok(Some(ieee())));
}

/// Willing, CBS and seven classes in ETS; willing off, MBC and capability in PFC; all selectors.
#[test]
fn bits_of_the_ieee_tlvs() {
    let ets = Ieee::decode(&[ieee_tlv(9, &[&[0x47][..], &TABLE_BYTES].concat())]).unwrap().unwrap();
    let expected = EtsConfiguration { willing: false, credit_based: true, max_classes: 7, table: TABLE };
    assert_eq!(ets.ets_configuration, Some(expected));
    assert_eq!(ets.encode()[0].value[0], 0x47);
    let pfc = Ieee::decode(&[ieee_tlv(11, &[0x42, 0xff])]).unwrap().unwrap();
    let expected = PfcConfiguration { willing: false, macsec_bypass: true, capability: 2, enabled: 0xff };
    assert_eq!(pfc.pfc, Some(expected));
    assert_eq!(pfc.encode(), [ieee_tlv(11, &[0x42, 0xff])]);
    for bits in 0..8 {
        let tlv = ieee_tlv(12, &[0, 0xe0 | bits, 1, 2]);
        let decoded = Ieee::decode(std::slice::from_ref(&tlv)).unwrap().unwrap();
        assert_eq!(decoded.encode(), [tlv], "selector {bits}");
        assert_eq!(decoded.applications.unwrap()[0].priority, 7);
    }
}

#[test]
fn no_tlv_of_a_version_is_none_of_it() {
    let others = [ieee_tlv(1, &[0, 1]), OrgTlv { oui: [0, 0x12, 0x0f], subtype: 9, value: vec![] }];
    assert_eq!(Ieee::decode(&others), Ok(None));
    assert_eq!(Cee::decode(&ieee_tlvs()), Ok(None));
    assert_eq!(Cin::decode(&[cee().encode()]), Ok(None));
    let empty = Ieee::decode(&[ieee_tlv(12, &[0])]).unwrap().unwrap();
    assert_eq!(empty.applications, Some(vec![]));
}

#[test]
fn ieee_tlvs_have_one_length() {
    for len in 0..=507_usize {
        let value = vec![0; len];
        for (subtype, name, is_valid) in [
            (8, DcbxTlv::CongestionNotification, len == 2),
            (9, DcbxTlv::EtsConfiguration, len == 21),
            (10, DcbxTlv::EtsRecommendation, len == 21),
            (11, DcbxTlv::Pfc, len == 2),
            (12, DcbxTlv::Application, len % 3 == 1),
        ] {
            let expected = (!is_valid).then_some(DcbxError::Length { tlv: name, len: len as u16 + 4 });
            assert_eq!(Ieee::decode(&[ieee_tlv(subtype, &value)]).err(), expected, "{name}, {len}");
        }
    }
}

#[test]
fn ieee_tlvs_come_once() {
    let names = [
        DcbxTlv::EtsConfiguration,
        DcbxTlv::EtsRecommendation,
        DcbxTlv::Pfc,
        DcbxTlv::Application,
        DcbxTlv::CongestionNotification,
    ];
    for (tlv, name) in ieee_tlvs().into_iter().zip(names) {
        let all = [&ieee_tlvs()[..], &[tlv]].concat();
        assert_eq!(Ieee::decode(&all), Err(DcbxError::Repeated(name)));
    }
}

#[test]
fn ieee_tables_must_make_sense() {
    let mut value = [&[0][..], &TABLE_BYTES].concat();
    value[4] = 0x78;
    let tlv = DcbxTlv::EtsRecommendation;
    assert_eq!(Ieee::decode(&[ieee_tlv(10, &value)]), Err(DcbxError::Group { tlv, group: 8 }));
    value[4] = 0x77;
    value[5] = 49;
    assert_eq!(Ieee::decode(&[ieee_tlv(10, &value)]), Err(DcbxError::Shares { tlv, percent: 99 }));
    // Shares of classes without ETS do not count.
    value[5] = 50;
    value[12] = 100;
    assert!(Ieee::decode(&[ieee_tlv(10, &value)]).is_ok());
    value[13..21].fill(0);
    assert!(Ieee::decode(&[ieee_tlv(10, &value)]).is_ok());
}

const HEADER: FeatureHeader =
    FeatureHeader { oper_version: 0, max_version: 0, enabled: true, willing: true, error: false, subtype: 0 };

fn cee() -> Cee {
    let groups = cee::PriorityGroups {
        group_of_priority: [0, 0, 0, 1, 0, 0, STRICT_GROUP, STRICT_GROUP],
        percent: [50, 50, 0, 0, 0, 0, 0, 0],
        classes: 8,
    };
    Cee {
        control: Control { oper_version: 0, max_version: 0, seq: 0x0102_0304, ack: 5 },
        groups: Some((HEADER, groups)),
        pfc: Some((FeatureHeader { error: true, ..HEADER }, cee::Pfc { enabled: 8, classes: 8 })),
        applications: Some((
            FeatureHeader { willing: false, ..HEADER },
            vec![cee::Application::new(0x8906, false, 8), cee::Application::new(3260, true, 0x30)],
        )),
    }
}

#[rustfmt::skip]
const CEE_BYTES: [u8; 61] = [
    0x02, 10, 0, 0, 1, 2, 3, 4, 0, 0, 0, 5,
    0x04, 17, 0, 0, 0xc0, 0, 0x00, 0x01, 0x00, 0xff, 50, 50, 0, 0, 0, 0, 0, 0, 8,
    0x06, 6, 0, 0, 0xe0, 0, 8, 8,
    0x08, 16, 0, 0, 0x80, 0, 0x89, 0x06, 0x00, 0x1b, 0x21, 0x08, 0x0c, 0xbc, 0x01, 0x1b, 0x21, 0x30,
    0xfe, 2, 1, 1,
];

fn cee_tlv(value: &[u8]) -> OrgTlv {
    OrgTlv { oui: OUI_INTEL, subtype: cee::SUBTYPE, value: value.to_vec() }
}

/// A sub-TLV of an unknown type, as at the end of the bytes, is ignored.
#[test]
fn cee_byte_by_byte() {
    let known = CEE_BYTES.len() - 4;
    assert_eq!(cee().encode(), cee_tlv(&CEE_BYTES[..known]));
    assert_eq!(Cee::decode(&[cee_tlv(&CEE_BYTES)]), Ok(Some(cee())));
}

fn cin() -> Cin {
    let mut priorities = [Member { group: 0, strict: 0, percent_of_group: 20 }; 8];
    priorities[3] = Member { group: 1, strict: 0, percent_of_group: 100 };
    priorities[6] = Member { group: 7, strict: Member::LINK_STRICT, percent_of_group: 0 };
    priorities[7] = Member { group: 7, strict: Member::LINK_STRICT, percent_of_group: 0 };
    Cin {
        control: Control { oper_version: 0, max_version: 0, seq: 1, ack: 0xa0b0_c0d0 },
        groups: Some((HEADER, cin::PriorityGroups { percent: [50, 50, 0, 0, 0, 0, 0, 0], priorities })),
        pfc: Some((FeatureHeader { enabled: false, ..HEADER }, 0x18)),
        applications: vec![(HEADER, 8), (FeatureHeader { subtype: 1, ..HEADER }, 0x20)],
        links: vec![(HEADER, true)],
    }
}

#[rustfmt::skip]
const CIN_BYTES: [u8; 76] = [
    0x02, 10, 0, 0, 0, 0, 0, 1, 0xa0, 0xb0, 0xc0, 0xd0,
    0x04, 28, 0, 0, 0xc0, 0, 50, 50, 0, 0, 0, 0, 0, 0,
    0x00, 20, 0x00, 20, 0x00, 20, 0x20, 100, 0x00, 20, 0x00, 20, 0xf0, 0, 0xf0, 0,
    0x06, 5, 0, 0, 0x40, 0, 0x18,
    0x0a, 5, 0, 0, 0xc0, 0, 0x08,
    0x0a, 5, 0, 0, 0xc0, 1, 0x20,
    0x0c, 5, 0, 0, 0xc0, 0, 0x80,
    0x08, 4, 1, 2, 3, 4,
];

fn cin_tlv(value: &[u8]) -> OrgTlv {
    OrgTlv { oui: OUI_INTEL, subtype: cin::SUBTYPE, value: value.to_vec() }
}

/// The BCN sub-TLV at the end is ignored.
#[test]
fn cin_byte_by_byte() {
    let known = CIN_BYTES.len() - 6;
    assert_eq!(cin().encode(), cin_tlv(&CIN_BYTES[..known]));
    assert_eq!(Cin::decode(&[cin_tlv(&CIN_BYTES)]), Ok(Some(cin())));
    let groups = cin().groups.unwrap().1;
    assert_eq!(groups.group_of_priority(), [0, 0, 0, 1, 0, 0, STRICT_GROUP, STRICT_GROUP]);
}

type Decode = fn(&OrgTlv) -> Option<DcbxError>;

fn cee_error(tlv: &OrgTlv) -> Option<DcbxError> {
    Cee::decode(std::slice::from_ref(tlv)).err()
}

fn cin_error(tlv: &OrgTlv) -> Option<DcbxError> {
    Cin::decode(std::slice::from_ref(tlv)).err()
}

/// Each version with its bytes, the offsets of its sub-TLVs and their end.
fn legacy() -> [(OrgTlv, Decode, Vec<usize>); 2] {
    [cee_tlv(&CEE_BYTES), cin_tlv(&CIN_BYTES)].map(|tlv| {
        let mut at = vec![0];
        while *at.last().unwrap() < tlv.value.len() {
            let start = *at.last().unwrap();
            at.push(start + 2 + usize::from(tlv.value[start + 1]));
        }
        let decode = if tlv.subtype == cee::SUBTYPE { cee_error as Decode } else { cin_error };
        (tlv, decode, at)
    })
}

#[test]
fn legacy_tlvs_that_are_cut_off_are_refused_at_every_length() {
    for (tlv, error, boundaries) in legacy() {
        for len in 0..tlv.value.len() {
            let short = OrgTlv { value: tlv.value[..len].to_vec(), ..tlv.clone() };
            let expected = match len {
                0 => Some(DcbxError::ControlMissing),
                _ if boundaries.contains(&len) => None,
                _ => Some(DcbxError::Truncated),
            };
            assert_eq!(error(&short), expected, "subtype {}, {len} bytes", tlv.subtype);
        }
    }
}

#[test]
fn legacy_sub_tlvs_have_one_length() {
    for (tlv, error, boundaries) in legacy() {
        let control = &tlv.value[..12];
        for sub_tlv in boundaries.windows(2).map(|at| &tlv.value[at[0]..at[1]]) {
            let kind = sub_tlv[0] >> 1;
            for len in 0..=200_usize {
                let mut value = sub_tlv[2..].to_vec();
                value.resize(len, 0);
                let changed = [&[sub_tlv[0], len as u8][..], &value].concat();
                let before = if kind == 1 { &[][..] } else { control };
                let changed = OrgTlv { value: [before, &changed].concat(), ..tlv.clone() };
                let name = match (tlv.subtype, kind) {
                    (_, 1) => DcbxTlv::Control,
                    (_, 2) => DcbxTlv::PriorityGroups,
                    (_, 3) => DcbxTlv::Pfc,
                    (2, 4) | (1, 5) => DcbxTlv::Application,
                    (1, 6) => DcbxTlv::LogicalLink,
                    _ => DcbxTlv::Other,
                };
                let is_valid = match (tlv.subtype, kind) {
                    (_, 1) => len == 10,
                    (2, 2) => len == 17,
                    (1, 2) => len == 28,
                    (2, 3) => len == 6,
                    (1, 3 | 5 | 6) => len == 5,
                    (2, 4) => len >= 4 && len % 6 == 4,
                    _ => true,
                };
                let expected = (!is_valid).then_some(DcbxError::Length { tlv: name, len: len as u16 });
                assert_eq!(error(&changed), expected, "subtype {}, type {kind}, length {len}", tlv.subtype);
            }
        }
    }
}

#[test]
fn legacy_sub_tlvs_come_once() {
    for (tlv, error, boundaries) in legacy() {
        for sub_tlv in boundaries.windows(2).map(|at| &tlv.value[at[0]..at[1]]) {
            let twice = OrgTlv { value: [&tlv.value[..], sub_tlv].concat(), ..tlv.clone() };
            let is_unknown = matches!((tlv.subtype, sub_tlv[0] >> 1), (1, 4) | (2, 127));
            let is_repeated = matches!(error(&twice), Some(DcbxError::Repeated(_)));
            assert_eq!(is_repeated, !is_unknown, "subtype {}, type {}", tlv.subtype, sub_tlv[0] >> 1);
        }
    }
    let (one, other) = (cee_tlv(&CEE_BYTES), cin_tlv(&CIN_BYTES));
    assert_eq!(Cee::decode(&[one.clone(), one.clone()]), Err(DcbxError::Repeated(DcbxTlv::Cee)));
    assert_eq!(Cin::decode(&[other.clone(), other.clone()]), Err(DcbxError::Repeated(DcbxTlv::Cin)));
    assert!(Cee::decode(&[one, other]).is_ok());
}

#[test]
fn legacy_needs_a_control_sub_tlv() {
    for (tlv, error, _) in legacy() {
        let without = OrgTlv { value: tlv.value[12..].to_vec(), ..tlv };
        assert_eq!(error(&without), Some(DcbxError::ControlMissing));
    }
}

#[test]
fn priority_groups_must_make_sense() {
    let tlv = DcbxTlv::PriorityGroups;
    for group in 0..16 {
        let mut cee = cee();
        cee.groups.as_mut().unwrap().1.group_of_priority[7] = group;
        let expected = (8..15).contains(&group).then_some(DcbxError::Group { tlv, group });
        assert_eq!(Cee::decode(&[cee.encode()]).err(), expected);
    }
    let (mut short, mut long) = (cee(), cin());
    short.groups.as_mut().unwrap().1.percent[7] = 1;
    long.groups.as_mut().unwrap().1.percent[0] = 0;
    assert_eq!(Cee::decode(&[short.encode()]), Err(DcbxError::Shares { tlv, percent: 101 }));
    assert_eq!(Cin::decode(&[long.encode()]), Err(DcbxError::Shares { tlv, percent: 50 }));
    // Without a group that has a share there may be none.
    let groups = &mut short.groups.as_mut().unwrap().1;
    (groups.percent, groups.group_of_priority) = ([0; 8], [STRICT_GROUP; 8]);
    assert!(Cee::decode(&[short.encode()]).is_ok());
    for (percent, group) in [(50, STRICT_GROUP), (0, 0)] {
        let groups = &mut short.groups.as_mut().unwrap().1;
        (groups.percent[0], groups.group_of_priority[0]) = (percent, group);
        let error = DcbxError::Shares { tlv, percent: percent.into() };
        assert_eq!(Cee::decode(&[short.encode()]), Err(error), "{percent} % of group {group}");
    }
}

#[test]
fn a_logical_link_is_up_by_its_highest_bit() {
    for (byte, is_up) in [(0x80, true), (0xff, true), (0x7f, false), (0, false)] {
        let link = [0x0c, 5, 0, 0, 0xc0, 0, byte];
        let read = Cin::decode(&[cin_tlv(&[&CIN_BYTES[..12], &link].concat())]).unwrap().unwrap();
        assert_eq!(read.links, [(HEADER, is_up)], "{byte:#x}");
    }
}

/// A list that is longer than its TLV is cut off at an entry, so that the result can be read.
#[test]
fn the_longest_lists_fit() {
    let mut ieee = ieee();
    ieee.applications = Some(vec![Application { selector: Selector::Port, protocol: 1, priority: 2 }; 999]);
    let tlvs = ieee.encode();
    assert!(tlvs.iter().all(|tlv| tlv.value.len() <= 507));
    assert_eq!(Ieee::decode(&tlvs).unwrap().unwrap().applications.unwrap().len(), 168);
    let mut cee = cee();
    cee.applications.as_mut().unwrap().1 = vec![cee::Application::new(1, true, 1); 999];
    assert!(cee.encode().value.len() <= 507);
    assert_eq!(Cee::decode(&[cee.encode()]).unwrap().unwrap().applications.unwrap().1.len(), 75);
}

#[test]
fn no_flipped_bit_makes_a_reader_panic() {
    let tlvs = [&ieee_tlvs()[..], &[cee_tlv(&CEE_BYTES), cin_tlv(&CIN_BYTES)]].concat();
    for at in 0..tlvs.len() {
        for bit in 0..tlvs[at].value.len() * 8 {
            let mut flipped = tlvs.clone();
            flipped[at].value[bit / 8] ^= 1 << (bit % 8);
            let read = (Ieee::decode(&flipped), Cee::decode(&flipped), Cin::decode(&flipped));
            // One version is affected; the other two are read as before.
            let unchanged =
                [read.0 == Ok(Some(ieee())), read.1 == Ok(Some(cee())), read.2 == Ok(Some(cin()))];
            assert!(unchanged.iter().filter(|same| **same).count() >= 2, "TLV {at}, bit {bit}");
        }
    }
}

proptest! {
    /// No bytes make a reader panic or loop. What one reads is what it reads again from what it
    /// writes.
    #[test]
    fn any_bytes_are_read_or_refused(
        subtype in prop_oneof![Just(1_u8), Just(2), 8..13_u8],
        is_intel: bool,
        with_control: bool,
        bytes in vec(any::<u8>(), 0..120),
    ) {
        let oui = if is_intel { OUI_INTEL } else { OUI_802_1 };
        let value = if with_control { [&CEE_BYTES[..12], &bytes].concat() } else { bytes };
        let tlvs = [OrgTlv { oui, subtype, value }];
        if let Ok(Some(ieee)) = Ieee::decode(&tlvs) {
            prop_assert_eq!(Ieee::decode(&ieee.encode()), Ok(Some(ieee)));
        }
        if let Ok(Some(cee)) = Cee::decode(&tlvs) {
            prop_assert_eq!(Cee::decode(&[cee.encode()]), Ok(Some(cee)));
        }
        if let Ok(Some(cin)) = Cin::decode(&tlvs) {
            prop_assert_eq!(Cin::decode(&[cin.encode()]), Ok(Some(cin)));
        }
    }
}

#[test]
fn errors_name_the_tlv() {
    let tlv = DcbxTlv::Pfc;
    let texts = [
        DcbxError::Truncated,
        DcbxError::Length { tlv, len: 7 },
        DcbxError::Repeated(DcbxTlv::Control),
        DcbxError::ControlMissing,
        DcbxError::Group { tlv: DcbxTlv::PriorityGroups, group: 9 },
        DcbxError::Shares { tlv: DcbxTlv::EtsRecommendation, percent: 90 },
    ]
    .map(|error| error.to_string());
    assert_eq!(
        texts,
        [
            "a sub-TLV is cut off",
            "the PFC TLV has length 7",
            "a second Control TLV",
            "no Control sub-TLV",
            "the Priority Groups TLV has a priority in group 9",
            "the shares of the ETS Recommendation TLV add up to 90 %",
        ]
    );
}
