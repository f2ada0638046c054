//! One look at a frame: all that the switch wants to know of a frame that came in, found once and carried along with it.
//!
//! Rule: headers are read here and nowhere else. Checksum completion, classification, the bridge, ECN and rewriting go by what
//! this look found. It needs no state of the switch but the port's classifier, so that another core can take it.
//! Source: docs/architecture.md, "The way of a frame".

use crate::bridge::Address;
use crate::classify::{Class, Classifier};
use crate::counters::DropReason;
use crate::frame::{FrameId, Received};
use wire::ethernet::{self, Header};
use wire::ip::{DsField, Ecn};

/// A frame that came in, and what its headers say.
#[derive(Debug)]
pub struct Arrival {
    /// The frame's token.
    pub frame: FrameId,
    /// Bytes from the destination address on, without FCS.
    pub len: u16,
    /// What it is treated as.
    pub class: Class,
    /// What is to be done with it.
    pub kind: Kind,
    /// Its ECN codepoint; Not-ECT if it is no IP packet.
    pub ecn: Ecn,
    /// Where its differentiated services field is; `None`: it is no IP packet.
    pub ds_field: Option<DsField>,
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
    /// Looks at a frame that came in on the port of `classifier`; `bytes` are the frame's.
    #[inline]
    pub fn look(received: Received, bytes: &[u8], classifier: &Classifier) -> Self {
        let Received { frame, len } = received;
        let Ok(header) = Header::parse(bytes) else {
            let (dst, src) = (Address::default(), Address::default());
            let (class, kind) = (classifier.untagged(), Kind::Refused(DropReason::Malformed));
            return Self { frame, len, class, kind, ecn: Ecn::NotEct, ds_field: None, dst, src };
        };
        let ds_field = DsField::find(bytes, &header);
        let octet = ds_field.map_or(0, |field| field.octet(bytes));
        Self {
            frame,
            len,
            class: classifier.classify(&header, ds_field.map(|_| octet >> 2)),
            kind: kind_of(&header),
            ecn: Ecn::of(octet),
            ds_field,
            dst: Address::of(header.dst),
            src: Address::of(header.src),
        }
    }
}

#[inline]
fn kind_of(header: &Header) -> Kind {
    if header.ethertype == ethernet::MAC_CONTROL {
        Kind::Control
    } else if header.src.is_group() || header.src.is_zero() {
        Kind::Refused(DropReason::BadSource)
    } else if header.dst.is_link_local() {
        Kind::Refused(DropReason::Reserved)
    } else {
        Kind::Data
    }
}
