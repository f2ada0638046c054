//! Frame parsing: all header fields that the switch needs of a received frame, parsed once and
//! carried along with it.
//!
//! Rule: headers are read here and nowhere else. Checksum completion, classification, bridging, ECN
//! and remarking use the parsed fields. Of the switch's state the parser needs only the port's
//! classifier, so it can run on another core. Source: docs/architecture.md, "Frame path".

use crate::buffer::cell::CellSize;
use crate::forwarding::classifier::{Classifier, of_rx_queue};
use crate::frame::meta::EcnMarking;
use crate::frame::meta::FdbKey;
use crate::frame::meta::FloodType;
use crate::frame::meta::FrameMeta;
use crate::frame::meta::QosClass;
use crate::frame::{FrameId, RxDesc};
use crate::monitor::counters::DropReason;
use crate::settings::LldpFrames;
use wire::ethernet::{Fields, FirstTag, IPV4, IPV6, LLDP, MAC_CONTROL, NO_TAG};
use wire::ip::{DsField, Ecn};
use wire::mac::MacAddr;

/// A received frame and its parsed headers.
#[derive(Debug)]
pub struct RxFrame {
    /// The frame's token.
    pub frame: FrameId,
    /// Metadata of the frame: its class and what is charged for it.
    pub meta: FrameMeta,
    /// Action on the frame.
    pub disposition: Disposition,
    /// ECN codepoint; Not-ECT if it is not an IP packet.
    pub ecn: Ecn,
    /// Tag that it arrived with, for VLANs.
    pub first_tag: FirstTag,
    /// Destination, in the frame's VLAN where there are any.
    pub dst: FdbKey,
    /// Source, in the frame's VLAN where there are any.
    pub src: FdbKey,
}

/// Action on a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Forward it. If its destination is still unknown after the lookup, flood it.
    Data,
    /// Forward it to this port.
    To(u8),
    /// Forward it to this port in a VLAN: its tag may differ there.
    InVlan(u8),
    /// Drop it: its destination is on this port, which is the input port or is down.
    Filtered(u8),
    /// Process it as MAC control (PFC, PAUSE): it is not forwarded, whatever its destination.
    Control,
    /// Consume it for the owner: LLDP ([`crate::Switch::take_punted`]).
    Punted,
    /// Drop it: no bridge forwards it.
    Invalid(DropReason),
}

impl RxFrame {
    /// Parses a frame received on port number `port`, which classifies by `classifier`; `bytes` are
    /// the frame's.
    #[inline]
    pub fn parse(
        received: RxDesc,
        bytes: &[u8],
        port: usize,
        classifier: &Classifier,
        cell: CellSize,
    ) -> Self {
        let RxDesc { frame, len, priority } = received;
        let (fields, kind) = match Fields::read(bytes) {
            Ok(fields) => (fields, disposition_of(&fields, classifier.lldp())),
            Err(_) => (NO_FIELDS, Disposition::Invalid(DropReason::Malformed)),
        };
        let Fields { ethertype, pcp_and_dei, payload_offset, first_tag, .. } = fields;
        let mut class = classifier.by_tag(priority.map_or(pcp_and_dei, of_rx_queue));
        let (mut ds_field, mut ecn, mut marking) = (None, Ecn::NotEct, EcnMarking::NotMarkable);
        if (ethertype == IPV4 || ethertype == IPV6)
            && let Some(field) = DsField::find_at(bytes, ethertype, payload_offset)
        {
            let octet = field.octet(bytes);
            (ds_field, ecn) = (Some(field), Ecn::of(octet));
            marking = EcnMarking::of(ecn, field.is_complete(len.into()));
            class = classifier.by_packet(octet >> 2, pcp_and_dei, bytes, field).unwrap_or(class);
        }
        let cells = cell.of(len) as u16;
        let (in_port, cast) = (port as u8, FloodType::Known);
        let charge = FrameMeta { class, len, cells, ds_field, marking, in_port, flood_type: cast };
        let (dst, src) = (FdbKey::of_number(fields.dst), FdbKey::of_number(fields.src));
        Self { frame, meta: charge, disposition: kind, ecn, first_tag, dst, src }
    }

    /// Takes the frame's token, which can be done once.
    #[inline]
    pub(crate) fn take_frame(&mut self) -> FrameId {
        std::mem::replace(&mut self.frame, FrameId::TAKEN)
    }

    /// Returns the frame's class.
    #[inline]
    pub fn class(&self) -> QosClass {
        self.meta.class
    }
}

/// Parser state of one port, usable on an I/O core.
#[derive(Debug, Clone)]
pub struct FrameParser {
    pub(crate) port: usize,
    pub(crate) classifier: Classifier,
    pub(crate) cell: CellSize,
}

impl FrameParser {
    /// Parses a frame received on the port, as [`crate::Switch::parse`] does.
    #[inline]
    pub fn parse(&self, received: RxDesc, bytes: &[u8]) -> RxFrame {
        RxFrame::parse(received, bytes, self.port, &self.classifier, self.cell)
    }
}

/// Fields of a frame whose headers cannot be read.
const NO_FIELDS: Fields = Fields {
    dst: 0,
    src: 0,
    ethertype: 0,
    pcp_and_dei: NO_TAG,
    payload_offset: 0,
    first_tag: FirstTag::NONE,
};

/// Group bit of the source, in the number of an address.
const GROUP: u64 = 1 << 40;
/// 01-80-C2-00-00-00 to -0F without their last four bits (IEEE 802.1Q-2022 table 8-1).
const LINK_LOCAL: u64 = 0x0180_c200_0000 >> 4;
/// Destination of LLDP, 01-80-C2-00-00-0E.
const NEAREST_BRIDGE: u64 = MacAddr::NEAREST_BRIDGE.number();

#[inline]
fn disposition_of(fields: &Fields, lldp: LldpFrames) -> Disposition {
    let bad_source = fields.src & GROUP != 0 || fields.src == 0;
    if fields.ethertype == MAC_CONTROL {
        Disposition::Control
    } else if bad_source {
        Disposition::Invalid(DropReason::BadSource)
    } else if fields.dst >> 4 == LINK_LOCAL {
        link_local(fields, lldp)
    } else {
        Disposition::Data
    }
}

/// Returns what becomes of a frame that no bridge forwards, which may be LLDP's.
#[cold]
fn link_local(fields: &Fields, lldp: LldpFrames) -> Disposition {
    let is_lldp = fields.ethertype == LLDP && fields.pcp_and_dei == NO_TAG && fields.dst == NEAREST_BRIDGE;
    match lldp {
        LldpFrames::Punt if is_lldp => Disposition::Punted,
        LldpFrames::Forward if is_lldp => Disposition::Data,
        _ => Disposition::Invalid(DropReason::Reserved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants above agree with `MacAddr` for each address.
    #[test]
    fn dispositions_by_address() {
        let fields = |dst: MacAddr, src: MacAddr| {
            let mut frame = [0; 60];
            wire::ethernet::write_header(&mut frame, dst, src, None, 0x88b5);
            Fields::read(&frame).expect("a whole header")
        };
        let host = MacAddr([2, 0, 0, 0, 0, 1]);
        for last in [0x00, 0x01, 0x0e, 0x0f, 0x10, 0xff] {
            let dst = MacAddr([0x01, 0x80, 0xc2, 0, 0, last]);
            let refused = disposition_of(&fields(dst, host), LldpFrames::Punt)
                == Disposition::Invalid(DropReason::Reserved);
            assert_eq!(refused, dst.is_link_local(), "{dst}");
        }
        for first in 0..=u8::MAX {
            let src = MacAddr([first, 0, 0, 0, 0, 0]);
            let refused = disposition_of(&fields(host, src), LldpFrames::Punt)
                == Disposition::Invalid(DropReason::BadSource);
            assert_eq!(refused, src.is_group() || src.is_zero(), "{src}");
        }
    }
}
