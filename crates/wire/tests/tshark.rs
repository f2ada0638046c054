//! The PFC, PAUSE and LLDP frames that this crate writes, and the checksums that it finishes, as
//! Wireshark's `tshark` decodes them.

use std::io::ErrorKind;
use std::process::{Command, Output};

use wire::MacAddr;
use wire::dcbx::ieee::{Application, EtsConfiguration, EtsTable, PfcConfiguration, Selector, algorithm};
use wire::dcbx::sub_tlv::{Control, FeatureHeader};
use wire::dcbx::{Cee, Ieee, cee};
use wire::lldp::organization::Standard;
use wire::lldp::{Capabilities, ChassisId, Lldpdu, ManagementAddress, OrgTlv, PortId};
use wire::pause::{FRAME_BYTES, Pause, Pfc};

const SRC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x07]);

/// A capture file of Ethernet frames (libpcap's format, version 2.4, link type 1), one microsecond
/// apart.
fn pcap(frames: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (number, frame) in frames.iter().map(AsRef::as_ref).enumerate() {
        for word in [0, number as u32, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// The named fields of each frame of a capture, one frame per line, separated by blanks.
fn tshark(capture: &[u8], fields: &[&str]) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), capture).unwrap();
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file.path()).args(["-n", "-T", "fields", "-E", "separator=/s"]);
    command.args(["-o", "sctp.checksum:CRC 32c"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let Output { status, stdout, stderr } = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("this test needs tshark, which is not installed: run `cargo xtask setup`")
        }
        Err(error) => panic!("cannot run tshark: {error}"),
    };
    assert!(status.success(), "tshark failed: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tshark_reads_our_pfc_frames() {
    let mut frames = [[0; FRAME_BYTES]; 2];
    Pfc { enable: 0b1000_1000, quanta: [1, 2, 3, 65_535, 5, 6, 7, 8] }.encode(SRC, &mut frames[0]);
    Pfc { enable: 0b0000_1000, quanta: [0; 8] }.encode(SRC, &mut frames[1]);
    let times: Vec<String> = (0..8).map(|class| format!("macc.cbfc.pause_time.c{class}")).collect();
    let mut fields =
        vec!["eth.dst", "eth.src", "eth.type", "frame.len", "macc.opcode", "macc.cbfc.enbv", "_ws.malformed"];
    fields.extend(times.iter().map(String::as_str));
    let lines = tshark(&pcap(&frames), &fields);
    assert_eq!(
        lines,
        [
            "01:80:c2:00:00:01 02:00:00:00:00:07 0x8808 60 0x0101 0x0088  1 2 3 65535 5 6 7 8",
            "01:80:c2:00:00:01 02:00:00:00:00:07 0x8808 60 0x0101 0x0008  0 0 0 0 0 0 0 0",
        ]
    );
}

#[test]
fn tshark_reads_our_pause_frames() {
    let mut frames = [[0; FRAME_BYTES]; 2];
    Pause { quanta: 1234 }.encode(SRC, &mut frames[0]);
    Pause { quanta: 0 }.encode(SRC, &mut frames[1]);
    let fields =
        ["eth.dst", "eth.src", "eth.type", "frame.len", "macc.opcode", "macc.pause_time", "_ws.malformed"];
    assert_eq!(
        tshark(&pcap(&frames), &fields),
        [
            "01:80:c2:00:00:01 02:00:00:00:00:07 0x8808 60 0x0001 1234 ",
            "01:80:c2:00:00:01 02:00:00:00:00:07 0x8808 60 0x0001 0 ",
        ]
    );
}

/// Status 1: good.
#[test]
fn tshark_finds_sctps_checksum_good() {
    let mut frame = [[2; 6], [4; 6]].concat();
    frame.extend([8, 0]);
    frame.extend([0x45, 0, 0, 36, 0, 0, 0, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    // Ports, verification tag, an open checksum, and a COOKIE ACK chunk.
    frame.extend([0x30, 0x39, 0x30, 0x3a, 0, 0, 0, 1, 0, 0, 0, 0, 11, 0, 0, 4]);
    let header = wire::ethernet::Header::parse(&frame).unwrap();
    let field = wire::ip::DsField::find(&frame, &header).unwrap();
    assert!(wire::checksum::complete_transport(&mut frame, field));
    let lines = tshark(&pcap(&[frame]), &["sctp.chunk_type", "sctp.checksum.status", "_ws.malformed"]);
    assert_eq!(lines, ["11 1 "]);
}

/// An LLDP frame with all TLVs of the basic set, and with these.
fn lldp_frame(organization: Vec<OrgTlv>) -> Vec<u8> {
    let mut lldpdu = Lldpdu::new(ChassisId::mac(SRC), PortId::interface("p1"), 121);
    lldpdu.port_description = Some("to srv1".to_owned());
    lldpdu.system_name = Some("sw1".to_owned());
    lldpdu.system_description = Some("Sluice".to_owned());
    lldpdu.capabilities = Some(Capabilities { system: Capabilities::BRIDGE, enabled: Capabilities::BRIDGE });
    let address = vec![192, 0, 2, 1];
    lldpdu.management.push(ManagementAddress {
        family: 1,
        address,
        interface_subtype: 2,
        interface: 7,
        oid: vec![],
    });
    lldpdu.organization = organization;
    lldpdu.encode(SRC).frame
}

#[test]
fn tshark_reads_our_lldp_frames() {
    let standard = [Standard::PortVlan(10), Standard::MaxFrameSize(9216), Standard::NO_LINK_AGGREGATION];
    let fields = [
        "eth.dst",
        "lldp.chassis.id.mac",
        "lldp.port.id",
        "lldp.time_to_live",
        "lldp.port.desc",
        "lldp.tlv.system.name",
        "lldp.tlv.system.desc",
        "lldp.tlv.enable_system_cap",
        "lldp.mgn.addr.ip4",
        "lldp.ieee.802_1.port_vlan.id",
        "lldp.ieee.802_3.max_frame_size",
        "lldp.ieee.802_1.aggregation_status",
        "_ws.malformed",
        "_ws.expert.message",
    ];
    let lines = tshark(&pcap(&[lldp_frame(standard.map(Standard::to_tlv).to_vec())]), &fields);
    assert_eq!(
        lines,
        ["01:80:c2:00:00:0e 02:00:00:00:00:07 p1 121 to srv1 sw1 Sluice 0x0004 192.0.2.1 10 9216 0x00  "]
    );
}

#[test]
fn tshark_reads_our_ieee_dcbx_frames() {
    let table = EtsTable {
        class_of_priority: [0, 0, 0, 1, 0, 0, 7, 7],
        percent: [60, 40, 0, 0, 0, 0, 0, 0],
        algorithms: [algorithm::ETS, algorithm::ETS, 0, 0, 0, 0, 0, algorithm::STRICT],
    };
    let configuration = EtsConfiguration { willing: true, credit_based: false, max_classes: 8, table };
    let ieee = Ieee {
        ets_configuration: Some(configuration),
        ets_recommendation: Some(table),
        pfc: Some(PfcConfiguration { willing: true, macsec_bypass: false, capability: 8, enabled: 8 }),
        applications: Some(vec![
            Application { selector: Selector::Ethertype, protocol: 0x8906, priority: 3 },
            Application { selector: Selector::UdpPort, protocol: 4791, priority: 5 },
        ]),
        congestion: None,
    };
    let fields = [
        "lldp.ieee.802_1.subtype",
        "lldp.dcbx.ieee.willing",
        "lldp.dcbx.ieee.ets.maxtcs",
        "lldp.dcbx.feature.pg.pgid_prio3",
        "lldp.dcbx.feature.pg.pgid_prio6",
        "lldp.dcbx.feature.pg.per0",
        "lldp.dcbx.feature.pg.per1",
        "lldp.dcbx.ieee.ets.tsa0",
        "lldp.dcbx.ieee.ets.tsa7",
        "lldp.dcbx.ieee.pfc.numtcs",
        "lldp.dcbx.feature.pfc.prio3",
        "lldp.dcbx.feature.pfc.prio5",
        "lldp.dcbx.ieee.app.prio",
        "lldp.dcbx.feature.app.proto",
        "_ws.malformed",
        "_ws.expert.message",
    ];
    assert_eq!(
        tshark(&pcap(&[lldp_frame(ieee.encode())]), &fields),
        ["0x09,0x0a,0x0b,0x0c 1,1 0 1,1 7,7 60,60 40,40 2,2 0,0 8 1 0 3,5 0x8906,0x12b7  "]
    );
}

#[test]
fn tshark_reads_our_cee_dcbx_frames() {
    let header = FeatureHeader { enabled: true, willing: true, ..FeatureHeader::default() };
    let groups = cee::PriorityGroups {
        group_of_priority: [0, 0, 0, 1, 0, 0, cee::STRICT_GROUP, cee::STRICT_GROUP],
        percent: [60, 40, 0, 0, 0, 0, 0, 0],
        classes: 8,
    };
    let applications = vec![cee::Application::new(0x8906, false, 8), cee::Application::new(4791, true, 32)];
    let cee = Cee {
        control: Control { oper_version: 0, max_version: 0, seq: 7, ack: 9 },
        groups: Some((header, groups)),
        pfc: Some((FeatureHeader { error: true, ..header }, cee::Pfc { enabled: 8, classes: 8 })),
        applications: Some((FeatureHeader { willing: false, ..header }, applications)),
    };
    let fields = [
        "lldp.dcbx.type",
        "lldp.dcbx.len",
        "lldp.dcbx.control.seq",
        "lldp.dcbx.control.ack",
        "lldp.dcbx.feature.enabled",
        "lldp.dcbx.feature.willing",
        "lldp.dcbx.feature.error",
        "lldp.dcbx.feature.pg.pgid_prio3",
        "lldp.dcbx.feature.pg.pgid_prio6",
        "lldp.dcbx.feature.pg.per0",
        "lldp.dcbx.feature.pg.per1",
        "lldp.dcbx.feature.pg.numtcs",
        "lldp.dcbx.feature.pfc.prio3",
        "lldp.dcbx.feature.pfc.prio5",
        "lldp.dcbx.feature.app.proto",
        "lldp.dcbx.feature.app.sf",
        "lldp.dcbx.feature.app.oui",
        "lldp.dcbx.feature.app.prio",
        "_ws.malformed",
        "_ws.expert.message",
    ];
    assert_eq!(
        tshark(&pcap(&[lldp_frame(vec![cee.encode()])]), &fields),
        [
            "1,2,3,4 10,17,6,16 7 9 1,1,1 1,1,0 0,1,0 1 15 60 40 0x08 1 0 0x8906,0x12b7 0,1 0x001b21,0x001b21 3,5  "
        ]
    );
}
