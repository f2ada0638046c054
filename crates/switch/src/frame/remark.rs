//! Remarking: PCP and DSCP of a frame that leaves.
//!
//! Rule: remarking is off by default: frames leave unchanged. Where a port has a map local
//! precedence → dot1p, the PCP of the outermost tag is set from the frame's queue. Where it has a
//! map local precedence → DSCP, so is the DSCP of an IPv4 or IPv6 packet, and the IPv4 header
//! checksum is corrected. DEI, VLAN and ECN are not changed; no tag is added.
//!
//! The peer pauses the priorities that it receives: with a dot1p map, its pause of a priority stops
//! the queues whose frames leave with that priority. Source: IEEE 802.1Q-2022 6.9.3 (priority
//! encoding); RFC 2474 (DSCP); docs/behavior.md, "Rewriting".

use crate::frame::header_edit::{HeaderEdit, PcpChange};
use crate::frame::meta::FrameMeta;
use crate::settings::{PRIORITIES, RewriteSettings};
use wire::bitset::Set8;

/// Adds the remarking of a frame that leaves to its edit.
#[expect(clippy::indexing_slicing, reason = "by queue, 0 to 7")]
pub fn remark(settings: &RewriteSettings, charge: &FrameMeta, edit: &mut HeaderEdit) {
    if let Some(dot1p) = settings.dot1p {
        edit.pcp = PcpChange::set(dot1p[charge.queue()]);
    }
    if let (Some(dscp), Some(field)) = (settings.dscp, charge.ds_field) {
        (edit.ds, edit.ds_field) = (edit.ds.with_dscp(dscp[charge.queue()]), Some(field));
    }
}

/// Returns the queues whose frames leave with each priority; `None` without remarking.
pub fn queues_by_priority(settings: &RewriteSettings) -> Option<[Set8; PRIORITIES]> {
    let map = settings.dot1p?;
    #[expect(clippy::indexing_slicing, reason = "by queue, 0 to 7")]
    let queues = |priority| (0..PRIORITIES).filter(move |&q| usize::from(map[q] & 7) == priority);
    Some(std::array::from_fn(|priority| queues(priority).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::memory::{FrameMemory, HeapMemory};
    use crate::frame::meta::QosClass;
    use wire::ethernet::{Header, IPV4, Tag, VLAN, write_header};
    use wire::ip::{self, DsField};
    use wire::mac::MacAddr;

    #[test]
    fn marks_follow_the_maps_and_nothing_else_changes() {
        let tag = Tag { tpid: VLAN, pcp: 3, dei: true, vid: 99 };
        let mut memory = HeapMemory::new(1, 64);
        let frame = memory.alloc().expect("a frame");
        let map = |value| Some(std::array::from_fn(|q| if q == 5 { value } else { 0 }));
        for (dot1p, dscp, pcp_left, dscp_left) in
            [(None, None, 3, 10), (map(6), None, 6, 10), (None, map(46), 3, 46), (map(6), map(46), 6, 46)]
        {
            let came = memory.bytes_mut(&frame, 64);
            let at = write_header(came, MacAddr([2; 6]), MacAddr([4; 6]), Some(tag), IPV4);
            came[at..at + 2].copy_from_slice(&[0x45, 10 << 2 | 1]);
            let ds_field = DsField::find_at(came, IPV4, at as u8);
            let class = QosClass { queue: 5, ..FrameMeta::default().class };
            let mut edit = HeaderEdit::NONE;
            remark(
                &RewriteSettings { dot1p, dscp },
                &FrameMeta { class, ds_field, ..FrameMeta::default() },
                &mut edit,
            );
            assert_eq!(edit.is_none(), dot1p.is_none() && dscp.is_none());
            edit.apply(&mut memory, &frame, 64);
            let left = memory.bytes(&frame, 64);
            let header = Header::parse(left).expect("a whole header");
            assert_eq!(header.outer, Some(Tag { pcp: pcp_left, ..tag }));
            assert_eq!(ip::dscp(left, &header), Some(dscp_left));
            assert_eq!(left[at + 1] & 3, 1, "ECN stays");
        }
    }

    #[test]
    fn a_priority_is_the_queues_that_leave_with_it() {
        assert_eq!(queues_by_priority(&RewriteSettings::default()), None);
        let settings = RewriteSettings { dot1p: Some([0, 0, 0, 3, 3, 5, 6, 7]), dscp: None };
        let expected = [0b111, 0, 0, 0b1_1000, 0, 0b10_0000, 0b100_0000, 0b1000_0000];
        assert_eq!(queues_by_priority(&settings), Some(expected.map(Set8::from_bits)));
    }
}
