//! Frames from the wire: the readers and writers of `wire`, on any bytes.
//!
//! Rule: no byte sequence makes a reader panic; readers agree with one another, an edit changes
//! what it says and nothing else, and what was written can be read again.

use wire::checksum::complete_transport;
use wire::ethernet::{self, Fields, Header, Tag};
use wire::ip::{DsField, Ecn};
use wire::pause::{Control, FRAME_BYTES, Pause, Pfc, decode};
use wire::tunnel::vxlan_inner_tag;
use wire::{MacAddr, ipv4, ones_complement::Sum};

/// Reads a frame in every way, and edits copies of it.
pub fn run(frame: &[u8]) {
    control(frame);
    let header = Header::parse(frame);
    let fields = Fields::read(frame);
    assert_eq!(header.is_ok(), fields.is_ok(), "both readers agree");
    let (Ok(header), Ok(fields)) = (header, fields) else { return };
    assert_eq!(
        (header.ethertype, header.payload_offset, header.dst.number(), header.src.number()),
        (fields.ethertype, usize::from(fields.payload_offset), fields.dst, fields.src)
    );
    assert!(header.payload_offset <= frame.len());
    tags(frame, &header);
    if let Some(field) = DsField::find(frame, &header) {
        ip(frame, field);
        vxlan_inner_tag(&frame[header.payload_offset..], field.version());
    }
}

/// PFC and PAUSE: what was read can be written and read again.
fn control(frame: &[u8]) {
    let mut written = [0; FRAME_BYTES];
    match decode(frame) {
        Ok(Control::Pfc(pfc)) => {
            Pfc::encode(&pfc, MacAddr::default(), &mut written);
            assert_eq!(decode(&written), Ok(Control::Pfc(pfc)));
        }
        Ok(Control::Pause { quanta }) => {
            Pause { quanta }.encode(MacAddr::default(), &mut written);
            assert_eq!(decode(&written), Ok(Control::Pause { quanta }));
        }
        Ok(Control::Unknown { .. }) | Err(_) => {}
    }
}

/// A tag that is pushed and popped leaves the frame as it was; its fields are set one by one.
fn tags(frame: &[u8], header: &Header) {
    let mut bytes = frame.to_vec();
    bytes.extend([0; ethernet::TAG_BYTES]);
    let tag = Tag { tpid: ethernet::VLAN, pcp: 5, dei: true, vid: 100 };
    ethernet::push_tag(&mut bytes, tag);
    let tagged = Header::parse(&bytes).expect("a tag more");
    assert_eq!((tagged.outer, tagged.dst, tagged.src), (Some(tag), header.dst, header.src));
    assert!(ethernet::set_outer_pcp(&mut bytes, 2));
    ethernet::set_outer_vid(&mut bytes, 7);
    assert_eq!(Header::parse(&bytes).expect("as before").outer, Some(Tag { pcp: 2, vid: 7, ..tag }));
    ethernet::pop_tag(&mut bytes);
    assert_eq!(&bytes[..frame.len()], frame, "unchanged");
    assert_eq!(ethernet::set_outer_pcp(&mut frame.to_vec(), 1), header.outer.is_some());
}

/// The DSCP and the ECN field of a packet, and an open checksum of its transport.
fn ip(frame: &[u8], field: DsField) {
    let mut bytes = frame.to_vec();
    let had_checksum = header_checksum(frame, field);
    if field.set_ce(&mut bytes) {
        assert_eq!((field.ecn(&bytes), field.dscp(&bytes)), (Ecn::Ce, field.dscp(frame)));
        assert!(field.set_dscp(&mut bytes, 46));
        assert_eq!((field.ecn(&bytes), field.dscp(&bytes)), (Ecn::Ce, 46));
        assert!(had_checksum != Some(true) || header_checksum(&bytes, field) == Some(true), "still right");
    } else {
        assert!(!field.is_complete(frame.len()) && bytes == frame, "unchanged");
    }
    let mut bytes = frame.to_vec();
    if complete_transport(&mut bytes, field) {
        assert_eq!(field.octet(&bytes), field.octet(frame));
    } else {
        assert_eq!(bytes, frame, "unchanged");
    }
}

/// Whether the checksum of an IPv4 header is right; `None` if there is no whole header.
fn header_checksum(frame: &[u8], field: DsField) -> Option<bool> {
    let packet = frame.get(field.packet_at()..)?;
    let header_bytes = ipv4::Packet::parse(packet).ok()?.header_bytes();
    Some(Sum::default().bytes(packet.get(..header_bytes)?).fold() == 0xffff)
}

/// Frames to begin with: control, tags, packets, a tunnel.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut pfc = [0; FRAME_BYTES];
    Pfc { enable: 0xff, quanta: [65_535; 8] }.encode(MacAddr::default(), &mut pfc);
    let mut pause = [0; FRAME_BYTES];
    Pause { quanta: 100 }.encode(MacAddr::default(), &mut pause);
    let mut seeds = vec![pfc.to_vec(), pause.to_vec()];
    for tag in [None, Some(Tag::priority(3))] {
        for (ethertype, first) in [(ethernet::IPV4, 0x45), (ethernet::IPV6, 0x60), (ethernet::LLDP, 2)] {
            let mut frame = vec![0; 150];
            let at = ethernet::write_header(&mut frame, MacAddr::BROADCAST, MacAddr([2; 6]), tag, ethertype);
            frame[at] = first;
            (frame[at + 3], frame[at + 5], frame[at + 6], frame[at + 9]) = (100, 90, 17, 17);
            // A datagram to the port of VXLAN, with a VNI, and a frame inside.
            frame[at + 22..at + 24].copy_from_slice(&4789_u16.to_be_bytes());
            (frame[at + 25], frame[at + 28]) = (80, 8);
            seeds.push(frame);
        }
    }
    seeds
}
