//! Header edits: changes that remain to be made to the bytes of a frame that leaves.
//!
//! Rule: the switch decides with which header a frame leaves, but does not write it. It records the
//! edit and returns it with the frame ([`crate::TxDesc`]). The loop that serves the port applies
//! the edit before the frame is sent: an I/O loop on another core, where one serves the port. The
//! order is: the tag is pushed, set or popped ([`crate::forwarding::vlan`]), CE is set
//! ([`crate::egress::wred`]), then PCP and DSCP ([`crate::frame::remark`]); IPv4 checksums are
//! corrected. Each copy of a flooded frame has a separate edit. Source: docs/multi-core.md, "Who
//! does what"; docs/architecture.md, "Frame path".

use crate::cow_table;
use crate::frame::FrameId;
use crate::frame::memory::FrameMemory;
use serde::{Deserialize, Serialize};
use wire::ethernet::{self, TAG_BYTES, Tag, VLAN};
use wire::ip::DsField;

/// Edit of a frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderEdit {
    /// Change of the VLAN tag.
    pub tag: VlanAction,
    /// Change of the PCP of the outermost tag after the tag action, including a pushed tag.
    pub pcp: PcpChange,
    /// Change of the packet's DSCP and ECN field.
    pub ds: DsChange,
    /// Position of the DSCP and ECN field after the tag action; `None` if neither is changed.
    pub ds_field: Option<DsField>,
}

/// Change of a packet's DSCP and ECN field at egress, in one byte, as a descriptor of a frame to
/// transmit has one for each frame: the DSCP in the low six bits, and whether it is set, and CE.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DsChange(u8);

impl DsChange {
    const DSCP_BITS: u8 = 0x3f;
    const SETS_CE: u8 = 0x40;
    const SETS_DSCP: u8 = 0x80;

    /// The field stays.
    pub const KEEP: Self = Self(0);
    /// The packet gets an ECN mark (CE).
    pub const SET_CE: Self = Self(Self::SETS_CE);

    /// Returns this change with this DSCP in addition.
    #[inline]
    pub fn with_dscp(self, dscp: u8) -> Self {
        Self(self.0 & Self::SETS_CE | Self::SETS_DSCP | dscp & Self::DSCP_BITS)
    }

    /// True if the packet gets an ECN mark.
    #[inline]
    pub fn sets_ce(self) -> bool {
        self.0 & Self::SETS_CE != 0
    }

    /// Returns the DSCP that is set, if any.
    #[inline]
    pub fn dscp(self) -> Option<u8> {
        (self.0 & Self::SETS_DSCP != 0).then_some(self.0 & Self::DSCP_BITS)
    }
}

/// Change of a frame's PCP at egress, in one byte for the same reason: the PCP in the low three
/// bits, and whether it is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PcpChange(u8);

impl PcpChange {
    const SETS_PCP: u8 = 0x80;

    /// The PCP stays.
    pub const KEEP: Self = Self(0);

    /// The PCP becomes this one.
    #[inline]
    pub fn set(pcp: u8) -> Self {
        Self(Self::SETS_PCP | pcp & 7)
    }

    /// Returns the PCP that is set, if any.
    #[inline]
    pub fn pcp(self) -> Option<u8> {
        (self != Self::KEEP).then_some(self.0 & 7)
    }
}

/// Change of a frame's tag at egress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VlanAction {
    /// The tag stays.
    #[default]
    Keep,
    /// The VID is set in a tag that carried only a priority.
    SetVid(u16),
    /// A tag of this VLAN is pushed.
    Push(u16),
    /// The tag is popped.
    Pop,
}

impl cow_table::Slot for VlanAction {
    const EMPTY: Self = VlanAction::Keep;

    fn is_empty(&self) -> bool {
        *self == VlanAction::Keep
    }
}

impl HeaderEdit {
    /// The frame leaves unchanged.
    pub const NONE: Self =
        Self { tag: VlanAction::Keep, pcp: PcpChange::KEEP, ds: DsChange::KEEP, ds_field: None };

    /// True if the frame leaves unchanged.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.ds_field.is_none() && self.pcp == PcpChange::KEEP && self.tag == VlanAction::Keep
    }

    /// Applies the edit to a frame, which is of `len` bytes afterwards.
    pub fn apply<M: FrameMemory>(self, memory: &mut M, frame: &FrameId, len: u16) {
        if self.tag != VlanAction::Keep {
            let longer = len.max(self.tag.len_before(len));
            memory.whole(frame, longer.into(), |bytes| {
                self.tag.apply(self.pcp.pcp().unwrap_or(0), bytes);
                true
            });
        }
        if self.pcp == PcpChange::KEEP && self.ds_field.is_none() {
            return;
        }
        self.set_fields(memory.bytes_mut(frame, len.into()));
    }

    /// Applies the edit to the first bytes of a frame. The last [`TAG_BYTES`] of them are spare
    /// room for a pushed tag.
    pub fn apply_to_start(self, bytes: &mut [u8]) {
        self.tag.apply(self.pcp.pcp().unwrap_or(0), bytes);
        self.set_fields(bytes);
    }

    /// Applies all but the tag action.
    fn set_fields(self, bytes: &mut [u8]) {
        if let (true, Some(field)) = (self.ds.sets_ce(), self.ds_field) {
            field.set_ce(bytes);
        }
        if let Some(pcp) = self.pcp.pcp() {
            ethernet::set_outer_pcp(bytes, pcp); // frames without tag stay untagged
        }
        if let (Some(dscp), Some(field)) = (self.ds.dscp(), self.ds_field) {
            field.set_dscp(bytes, dscp);
        }
    }
}

impl VlanAction {
    /// Returns the length that a frame of `len` bytes has after the action.
    #[inline]
    pub fn len_after(self, len: u16) -> u16 {
        match self {
            VlanAction::Keep | VlanAction::SetVid(_) => len,
            VlanAction::Push(_) => len + TAG_BYTES as u16,
            VlanAction::Pop => len - TAG_BYTES as u16,
        }
    }

    /// Returns the length before the action of a frame that has `len` bytes after it.
    #[inline]
    pub fn len_before(self, len: u16) -> u16 {
        match self {
            VlanAction::Keep | VlanAction::SetVid(_) => len,
            VlanAction::Push(_) => len - TAG_BYTES as u16,
            VlanAction::Pop => len + TAG_BYTES as u16,
        }
    }

    /// Applies the action to a frame; a pushed tag has this PCP, and DEI 0. `frame` is the whole
    /// frame: as many bytes as it has before or after, whichever is more.
    fn apply(self, pcp: u8, frame: &mut [u8]) {
        match self {
            VlanAction::Keep => {}
            VlanAction::SetVid(vid) => ethernet::set_outer_vid(frame, vid),
            VlanAction::Push(vid) => ethernet::push_tag(frame, Tag { tpid: VLAN, pcp, dei: false, vid }),
            VlanAction::Pop => ethernet::pop_tag(frame),
        }
    }
}

/// TX descriptor: a frame that must leave a port now.
#[derive(Debug)]
pub struct TxDesc {
    /// The frame's token.
    pub frame: FrameId,
    /// Bytes from the destination address on, without FCS, as it leaves.
    pub len: u16,
    /// Egress queue that it was in; 0 of a frame that was in none.
    pub queue: u8,
    /// Edit that remains to be applied to its bytes.
    pub edit: HeaderEdit,
}

impl TxDesc {
    /// Makes a descriptor of a frame that leaves unchanged.
    #[inline]
    pub fn new(frame: FrameId, len: u16) -> Self {
        Self { frame, len, queue: 0, edit: HeaderEdit::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::memory::HeapMemory;
    use wire::ethernet::{Header, IPV4, write_header};
    use wire::ip;
    use wire::mac::MacAddr;

    const TAG: Tag = Tag { tpid: VLAN, pcp: 3, dei: true, vid: 0 };

    /// Makes a frame of 64 bytes in a separate memory, tagged or not, with an ECT(0) packet of DSCP
    /// 10.
    fn frame(tag: Option<Tag>) -> (HeapMemory, FrameId) {
        let mut memory = HeapMemory::new(1, 80);
        let frame = memory.alloc().expect("a frame");
        let bytes = memory.bytes_mut(&frame, 64);
        let at = write_header(bytes, MacAddr([2; 6]), MacAddr([4; 6]), tag, IPV4);
        bytes[at..at + 2].copy_from_slice(&[0x45, 10 << 2 | 2]);
        bytes[60..].fill(7);
        (memory, frame)
    }

    /// Returns the first tag, DSCP, ECN and last byte of a frame of this length.
    fn words(memory: &HeapMemory, frame: &FrameId, len: u16) -> (Option<Tag>, Option<u8>, Option<u8>, u8) {
        let bytes = memory.bytes(frame, len.into());
        let header = Header::parse(bytes).expect("a whole header");
        let last = bytes[bytes.len() - 1];
        (header.outer, ip::dscp(bytes, &header), ip::ecn(bytes, &header), last)
    }

    #[test]
    fn tx_descriptors_are_small() {
        assert_eq!(size_of::<crate::TxDesc>(), 16);
    }

    #[test]
    fn each_part_of_an_edit_is_applied_and_nothing_else() {
        let named = Tag { vid: 9, ..TAG };
        let pushed = |pcp| Tag { tpid: VLAN, pcp, dei: false, vid: 9 };
        let came = |tag: Option<Tag>| (tag, Some(10), Some(2), 7);
        for (tag, edit, left) in [
            (None, HeaderEdit::NONE, came(None)),
            (
                Some(TAG),
                HeaderEdit { pcp: PcpChange::set(6), ..HeaderEdit::NONE },
                came(Some(Tag { pcp: 6, ..TAG })),
            ),
            (None, HeaderEdit { pcp: PcpChange::set(6), ..HeaderEdit::NONE }, came(None)),
            (Some(TAG), HeaderEdit { tag: VlanAction::SetVid(9), ..HeaderEdit::NONE }, came(Some(named))),
            (Some(TAG), HeaderEdit { tag: VlanAction::Pop, ..HeaderEdit::NONE }, came(None)),
            (
                None,
                HeaderEdit { tag: VlanAction::Push(9), pcp: PcpChange::set(5), ..HeaderEdit::NONE },
                came(Some(pushed(5))),
            ),
            (
                Some(TAG),
                HeaderEdit { ds: DsChange::SET_CE, ..HeaderEdit::NONE },
                (Some(TAG), Some(10), Some(3), 7),
            ),
            (
                None,
                HeaderEdit { ds: DsChange::KEEP.with_dscp(46), ..HeaderEdit::NONE },
                (None, Some(46), Some(2), 7),
            ),
            (
                None,
                HeaderEdit {
                    tag: VlanAction::Push(9),
                    pcp: PcpChange::set(1),
                    ds: DsChange::SET_CE.with_dscp(46),
                    ..HeaderEdit::NONE
                },
                (Some(pushed(1)), Some(46), Some(3), 7),
            ),
        ] {
            let (mut memory, frame) = frame(tag);
            let packet_at = 14 + 4 * u8::from(left.0.is_some());
            let changes_packet = edit.ds != DsChange::KEEP;
            let at = [vec![0; packet_at.into()], vec![0x45, 0]].concat();
            let ds_field = DsField::find_at(&at, IPV4, packet_at).filter(|_| changes_packet);
            let edit = HeaderEdit { ds_field, ..edit };
            let len = edit.tag.len_after(64);
            // The start of the frame, with spare room for a tag.
            let mut start = [memory.bytes(&frame, 60), &[0; TAG_BYTES]].concat();
            edit.apply_to_start(&mut start);
            edit.apply(&mut memory, &frame, len);
            let shared = usize::from(edit.tag.len_after(60)).min(60);
            assert_eq!(start[..shared], memory.bytes(&frame, 60)[..shared], "{edit:?}");
            assert_eq!(words(&memory, &frame, len), left, "{edit:?}");
            assert_eq!(edit.is_none(), edit == HeaderEdit::NONE);
            assert_eq!(edit.tag.len_before(len), 64);
        }
    }
}
