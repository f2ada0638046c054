//! One look at a frame: all that the switch wants to know of a frame that came in, found once and carried along with it.
//!
//! Rule: headers are read here and nowhere else. Checksum completion, classification, the bridge, ECN and rewriting go by what
//! this look found. It needs no state of the switch but the port's classifier, so that another core can take it.
//! Source: docs/architecture.md, "The way of a frame".

use crate::bridge::Address;
use crate::cells::CellSize;
use crate::classify::{Class, Classifier};
use crate::counters::DropReason;
use crate::frame::{FrameId, Received};
use crate::store::Charge;
use wire::ethernet::{Fields, IPV4, IPV6, MAC_CONTROL};
use wire::ip::{DsField, Ecn};

/// A frame that came in, and what its headers say.
#[derive(Debug)]
pub struct Arrival {
    /// The frame's token.
    pub frame: FrameId,
    /// What is to be charged for it, and what it is treated as.
    pub charge: Charge,
    /// What is to be done with it.
    pub kind: Kind,
    /// Its ECN codepoint; Not-ECT if it is no IP packet.
    pub ecn: Ecn,
    /// Destination.
    pub dst: Address,
    /// Source.
    pub src: Address,
}

/// What is to be done with a frame that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is forwarded.
    Data,
    /// MAC control (PFC, PAUSE): it ends here.
    Control,
    /// No bridge forwards it.
    Refused(DropReason),
}

impl Arrival {
    /// Looks at a frame that came in on port number `port`, which classifies by `classifier`; `bytes` are the frame's.
    #[inline]
    pub fn look(
        received: Received,
        bytes: &[u8],
        port: usize,
        classifier: &Classifier,
        cell: CellSize,
    ) -> Self {
        let Received { frame, len } = received;
        let Ok(fields) = Fields::read(bytes) else {
            let class = classifier.by_tag(None);
            let charge = Charge { class, len, cells: 0, ds_field: None, in_port: port as u8 };
            let kind = Kind::Refused(DropReason::Malformed);
            let (dst, src) = (Address::default(), Address::default());
            return Self { frame, charge, kind, ecn: Ecn::NotEct, dst, src };
        };
        let class = classifier.by_tag(fields.pcp_and_dei);
        let charge = Charge { class, len, cells: cell.of(len) as u16, ds_field: None, in_port: port as u8 };
        let kind = kind_of(&fields);
        let (dst, src) = (Address::of_number(fields.dst), Address::of_number(fields.src));
        let mut arrival = Self { frame, charge, kind, ecn: Ecn::NotEct, dst, src };
        if fields.ethertype == IPV4 || fields.ethertype == IPV6 {
            arrival.look_at_packet(bytes, &fields, classifier);
        }
        arrival
    }

    /// What an IP packet adds.
    fn look_at_packet(&mut self, bytes: &[u8], fields: &Fields, classifier: &Classifier) {
        let Some(field) = DsField::find_at(bytes, fields.ethertype, fields.payload_offset) else { return };
        let octet = field.octet(bytes);
        self.charge.ds_field = Some(field);
        self.ecn = Ecn::of(octet);
        if let Some(class) = classifier.by_dscp(octet >> 2, fields.pcp_and_dei) {
            self.charge.class = class;
        }
    }

    /// What it is treated as.
    #[inline]
    pub fn class(&self) -> Class {
        self.charge.class
    }
}

/// The source's group bit, in the number of an address.
const GROUP: u64 = 1 << 40;
/// 01-80-C2-00-00-00 to -0F without their last four bits (IEEE 802.1Q-2022 table 8-1).
const LINK_LOCAL: u64 = 0x0180_c200_0000 >> 4;

#[inline]
fn kind_of(fields: &Fields) -> Kind {
    let bad_source = fields.src & GROUP != 0 || fields.src == 0;
    if fields.ethertype == MAC_CONTROL {
        Kind::Control
    } else if bad_source {
        Kind::Refused(DropReason::BadSource)
    } else if fields.dst >> 4 == LINK_LOCAL {
        Kind::Refused(DropReason::Reserved)
    } else {
        Kind::Data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mac::MacAddr;

    /// The numbers above are what `MacAddr` says of each address.
    #[test]
    fn kinds_of_address() {
        let fields = |dst: MacAddr, src: MacAddr| {
            let mut frame = [0; 60];
            wire::ethernet::write_header(&mut frame, dst, src, None, 0x88b5);
            Fields::read(&frame).expect("a whole header")
        };
        let host = MacAddr([2, 0, 0, 0, 0, 1]);
        for last in [0x00, 0x01, 0x0e, 0x0f, 0x10, 0xff] {
            let dst = MacAddr([0x01, 0x80, 0xc2, 0, 0, last]);
            let refused = kind_of(&fields(dst, host)) == Kind::Refused(DropReason::Reserved);
            assert_eq!(refused, dst.is_link_local(), "{dst}");
        }
        for first in 0..=u8::MAX {
            let src = MacAddr([first, 0, 0, 0, 0, 0]);
            let refused = kind_of(&fields(host, src)) == Kind::Refused(DropReason::BadSource);
            assert_eq!(refused, src.is_group() || src.is_zero(), "{src}");
        }
    }
}
