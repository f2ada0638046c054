//! Edits: what is still to be done to the bytes of a frame that leaves.
//!
//! Rule: the switch decides what a frame leaves with, and writes none of it: it remembers what is
//! to be done, and hands that out with the frame ([`crate::TxDesc`]). Whoever serves the port
//! does it before the frame is sent: a core that does not switch, where one serves the port. In
//! this order: the tag is put on, named or taken off ([`crate::forwarding::vlan`]), CE set
//! ([`crate::egress::wred`]), then PCP and DSCP ([`crate::frame::remark`]); IPv4 checksums are
//! corrected. Each copy of a flooded frame has an edit of its own. Source: docs/multi-core.md, "Who
//! does what"; docs/architecture.md, "The way of a frame".

use crate::frame::FrameId;
use crate::frame::memory::FrameMemory;
use crate::sparse_table;
use serde::{Deserialize, Serialize};
use wire::ethernet::{self, TAG_BYTES, Tag, VLAN};
use wire::ip::DsField;

/// What is to be done to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderEdit {
    /// … to its tag.
    pub tag: VlanAction,
    /// The PCP that its outermost tag has then, the one that is put on among them; `None`: as it
    /// is.
    pub pcp: Option<u8>,
    /// The DSCP of its packet then; `None`: as it is.
    pub dscp: Option<u8>,
    /// It is marked as having met congestion.
    pub sets_ce: bool,
    /// Where the DSCP and the mark are, once the tag is as it leaves; `None`: neither is changed.
    pub ds_field: Option<DsField>,
}

/// What becomes of a frame's tag on its way out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VlanAction {
    /// Nothing.
    #[default]
    Keep,
    /// It is made this VLAN's: it carried a priority only.
    SetVid(u16),
    /// A tag of this VLAN is put on.
    Push(u16),
    /// It is taken off.
    Pop,
}

impl sparse_table::Slot for VlanAction {
    const EMPTY: Self = VlanAction::Keep;

    fn is_empty(&self) -> bool {
        *self == VlanAction::Keep
    }
}

impl HeaderEdit {
    /// The frame leaves as it is.
    pub const NONE: Self =
        Self { tag: VlanAction::Keep, pcp: None, dscp: None, sets_ce: false, ds_field: None };

    /// The frame leaves as it is.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.ds_field.is_none() && self.pcp.is_none() && self.tag == VlanAction::Keep
    }

    /// Does it to a frame, which is of `len` bytes then.
    pub fn make<M: FrameMemory>(self, memory: &mut M, frame: &FrameId, len: u16) {
        if self.tag != VlanAction::Keep {
            let longer = len.max(self.tag.len_before(len));
            memory.whole(frame, longer.into(), |bytes| {
                self.tag.make(self.pcp.unwrap_or(0), bytes);
                true
            });
        }
        if self.pcp.is_none() && self.ds_field.is_none() {
            return;
        }
        let bytes = memory.bytes_mut(frame, len.into());
        if let (true, Some(field)) = (self.sets_ce, self.ds_field) {
            field.set_ce(bytes);
        }
        if let Some(pcp) = self.pcp {
            ethernet::set_outer_pcp(bytes, pcp); // frames without tag stay without
        }
        if let (Some(dscp), Some(field)) = (self.dscp, self.ds_field) {
            field.set_dscp(bytes, dscp);
        }
    }
}

impl VlanAction {
    /// The length of a frame of `len` bytes after it.
    #[inline]
    pub fn len_after(self, len: u16) -> u16 {
        match self {
            VlanAction::Keep | VlanAction::SetVid(_) => len,
            VlanAction::Push(_) => len + TAG_BYTES as u16,
            VlanAction::Pop => len - TAG_BYTES as u16,
        }
    }

    /// … and before it, of one that has `len` bytes after.
    #[inline]
    fn len_before(self, len: u16) -> u16 {
        match self {
            VlanAction::Keep | VlanAction::SetVid(_) => len,
            VlanAction::Push(_) => len - TAG_BYTES as u16,
            VlanAction::Pop => len + TAG_BYTES as u16,
        }
    }

    /// Changes a frame; a tag that is put on has this PCP, and DEI 0. `frame` is all of it: as many
    /// bytes as it has before or after, whichever is more.
    fn make(self, pcp: u8, frame: &mut [u8]) {
        match self {
            VlanAction::Keep => {}
            VlanAction::SetVid(vid) => ethernet::set_outer_vid(frame, vid),
            VlanAction::Push(vid) => ethernet::push_tag(frame, Tag { tpid: VLAN, pcp, dei: false, vid }),
            VlanAction::Pop => ethernet::pop_tag(frame),
        }
    }
}

/// A frame that is to leave a port now.
#[derive(Debug)]
pub struct TxDesc {
    /// The frame's token.
    pub frame: FrameId,
    /// Bytes from the destination address on, without FCS, as it leaves.
    pub len: u16,
    /// What is still to be done to its bytes.
    pub edit: HeaderEdit,
}

impl TxDesc {
    /// A frame that leaves as it is.
    #[inline]
    pub fn new(frame: FrameId, len: u16) -> Self {
        Self { frame, len, edit: HeaderEdit::NONE }
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

    /// A frame of 64 bytes in memory of its own, tagged or not, with an ECT(0) packet of DSCP 10.
    fn frame(tag: Option<Tag>) -> (HeapMemory, FrameId) {
        let mut memory = HeapMemory::new(1, 80);
        let frame = memory.alloc().expect("a frame");
        let bytes = memory.bytes_mut(&frame, 64);
        let at = write_header(bytes, MacAddr([2; 6]), MacAddr([4; 6]), tag, IPV4);
        bytes[at..at + 2].copy_from_slice(&[0x45, 10 << 2 | 2]);
        bytes[60..].fill(7);
        (memory, frame)
    }

    /// The first tag, DSCP, ECN and last byte of a frame of this length.
    fn words(memory: &HeapMemory, frame: &FrameId, len: u16) -> (Option<Tag>, Option<u8>, Option<u8>, u8) {
        let bytes = memory.bytes(frame, len.into());
        let header = Header::parse(bytes).expect("a whole header");
        let last = bytes[bytes.len() - 1];
        (header.outer, ip::dscp(bytes, &header), ip::ecn(bytes, &header), last)
    }

    #[test]
    fn outgoing_frames_are_small() {
        assert_eq!(size_of::<crate::TxDesc>(), 16);
    }

    #[test]
    fn each_part_of_an_edit_is_made_and_nothing_else() {
        let named = Tag { vid: 9, ..TAG };
        let pushed = |pcp| Tag { tpid: VLAN, pcp, dei: false, vid: 9 };
        let came = |tag: Option<Tag>| (tag, Some(10), Some(2), 7);
        for (tag, edit, left) in [
            (None, HeaderEdit::NONE, came(None)),
            (Some(TAG), HeaderEdit { pcp: Some(6), ..HeaderEdit::NONE }, came(Some(Tag { pcp: 6, ..TAG }))),
            (None, HeaderEdit { pcp: Some(6), ..HeaderEdit::NONE }, came(None)),
            (Some(TAG), HeaderEdit { tag: VlanAction::SetVid(9), ..HeaderEdit::NONE }, came(Some(named))),
            (Some(TAG), HeaderEdit { tag: VlanAction::Pop, ..HeaderEdit::NONE }, came(None)),
            (
                None,
                HeaderEdit { tag: VlanAction::Push(9), pcp: Some(5), ..HeaderEdit::NONE },
                came(Some(pushed(5))),
            ),
            (Some(TAG), HeaderEdit { sets_ce: true, ..HeaderEdit::NONE }, (Some(TAG), Some(10), Some(3), 7)),
            (None, HeaderEdit { dscp: Some(46), ..HeaderEdit::NONE }, (None, Some(46), Some(2), 7)),
            (
                None,
                HeaderEdit {
                    tag: VlanAction::Push(9),
                    pcp: Some(1),
                    dscp: Some(46),
                    sets_ce: true,
                    ..HeaderEdit::NONE
                },
                (Some(pushed(1)), Some(46), Some(3), 7),
            ),
        ] {
            let (mut memory, frame) = frame(tag);
            let packet_at = 14 + 4 * u8::from(left.0.is_some());
            let changes_packet = edit.sets_ce || edit.dscp.is_some();
            let at = [vec![0; packet_at.into()], vec![0x45, 0]].concat();
            let ds_field = DsField::find_at(&at, IPV4, packet_at).filter(|_| changes_packet);
            let edit = HeaderEdit { ds_field, ..edit };
            let len = edit.tag.len_after(64);
            edit.make(&mut memory, &frame, len);
            assert_eq!(words(&memory, &frame, len), left, "{edit:?}");
            assert_eq!(edit.is_none(), edit == HeaderEdit::NONE);
            assert_eq!(edit.tag.len_before(len), 64);
        }
    }
}
