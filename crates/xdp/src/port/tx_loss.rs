//! Attribution of losses: which frames a `sendto` has lost.
//!
//! Rule: the kernel takes entries from the TX ring in their order, and a call that returns EBUSY
//! ends with the frame that it lost, so that frame is the last one taken. The ring reports the
//! kernel's progress after the call, with 6.18. If it reports no progress, the lost frame is
//! assumed to be the first one in the ring. With 6.12 and 6.1, which report late, that is a guess
//! among the frames of the ring, though the number of lost frames is right. A lost frame completes
//! like others, and is then separated from them. Source: docs/kernel/af-xdp.md, "Which frame was
//! lost".

use switch::FrameId;

/// The frames of a TX ring, and the lost ones among them.
#[derive(Debug)]
pub(crate) struct TxLossTracker {
    /// The entries, by their index in the ring.
    entries: Box<[Entry]>,
    /// Entries ever put into the ring.
    put: u32,
    /// Entries that the kernel is known to have taken.
    taken: u32,
    /// Frames lost and not yet completed.
    lost: Vec<u32>,
    /// Frames lost and completed.
    completed_lost: Vec<FrameId>,
}

/// An entry of a TX ring.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// The frame of this entry.
    index: u32,
    /// The entry is the whole frame or its last part.
    is_last: bool,
}

impl TxLossTracker {
    /// Creates the tracker of a ring of `ring` entries, a power of two.
    pub(crate) fn new(ring: usize) -> Self {
        debug_assert!(ring.is_power_of_two());
        Self {
            entries: vec![Entry::default(); ring].into(),
            put: 0,
            taken: 0,
            lost: Vec::with_capacity(ring),
            completed_lost: Vec::with_capacity(ring),
        }
    }

    #[inline]
    fn slot(&self, entry: u32) -> usize {
        entry as usize & (self.entries.len() - 1)
    }

    /// Records that the next `entries` entries put into the ring are frame `index`.
    #[inline]
    pub(crate) fn record_entries(&mut self, index: usize, entries: usize) {
        for entry in 1..=entries {
            let slot = self.slot(self.put);
            self.entries[slot] = Entry { index: index as u32, is_last: entry == entries };
            self.put = self.put.wrapping_add(1);
        }
    }

    /// Records that a `sendto` has returned and whether it lost a frame. `waiting` is the number of
    /// entries that the ring still reports as waiting. Only a frame that is `sending` can be the
    /// lost one: others were lost before, by a call that was not ours.
    #[inline]
    pub(crate) fn on_sendto(&mut self, waiting: usize, has_lost: bool, sending: impl Fn(usize) -> bool) {
        let reported = self.put.wrapping_sub(waiting as u32);
        let is_further = reported.wrapping_sub(self.taken) as i32 > 0;
        if has_lost {
            self.on_lost_frame(is_further.then_some(reported), sending);
        } else if is_further {
            self.taken = reported;
        }
    }

    /// Handles a lost frame. `reported` is the kernel's progress, if the ring reports it.
    #[cold]
    fn on_lost_frame(&mut self, reported: Option<u32>, sending: impl Fn(usize) -> bool) {
        let mut entry = reported.map_or(self.taken, |reported| reported.wrapping_sub(1));
        while entry != self.put && !sending(self.entry(entry).index as usize) {
            entry = entry.wrapping_add(1);
        }
        if entry == self.put {
            debug_assert!(false, "a frame was lost, and none was there");
            return;
        }
        self.record_lost(self.entry(entry).index as usize);
        while !self.entry(entry).is_last {
            entry = entry.wrapping_add(1);
        }
        self.taken = entry.wrapping_add(1);
    }

    fn entry(&self, entry: u32) -> Entry {
        self.entries[self.slot(entry)]
    }

    /// Records that frame `index` is lost; it completes eventually.
    #[cold]
    pub(crate) fn record_lost(&mut self, index: usize) {
        self.lost.push(index as u32);
    }

    /// Takes the lost frames out of the completed ones, which are `completed[from..]`.
    #[inline]
    pub(crate) fn split_lost(&mut self, from: usize, completed: &mut Vec<FrameId>) {
        if !self.lost.is_empty() {
            self.split_some_lost(from, completed);
        }
    }

    #[cold]
    fn split_some_lost(&mut self, from: usize, completed: &mut Vec<FrameId>) {
        let is_lost = |frame: &mut FrameId| {
            let slot = self.lost.iter().position(|&lost| lost as usize == frame.index());
            slot.map(|slot| self.lost.remove(slot)).is_some() // one of the first: in order
        };
        self.completed_lost.extend(completed.extract_if(from.., is_lost));
    }

    /// Takes lost frames that have completed, appended to `out`.
    #[inline]
    pub(crate) fn take(&mut self, out: &mut Vec<FrameId>) {
        out.append(&mut self.completed_lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a kernel on a ring: the frames that are sent and lost, and the progress that the
    /// ring reports.
    fn walk(losses: &mut TxLossTracker, calls: &[(usize, bool)]) -> Vec<Vec<usize>> {
        calls
            .iter()
            .map(|&(waiting, has_lost)| {
                losses.on_sendto(waiting, has_lost, |_| true);
                losses.lost.drain(..).map(|lost| lost as usize).collect()
            })
            .collect()
    }

    #[test]
    fn the_last_frame_that_a_call_took_is_the_one_it_lost() {
        let mut losses = TxLossTracker::new(8);
        (10..16).for_each(|index| losses.record_entries(index, 1));
        // Two sent; one sent and one lost; one lost at once, without reported progress; one sent,
        // whose progress includes the previous one.
        let calls = [(4, false), (2, true), (2, true), (0, false)];
        assert_eq!(walk(&mut losses, &calls), [vec![], vec![13], vec![14], vec![]]);
        // Round the ring: all are lost, each at once, and the reported progress is one entry late.
        (20..28).for_each(|index| losses.record_entries(index, 1));
        let calls: Vec<_> = (0..8).map(|_| (8, true)).collect();
        let lost: Vec<_> = (20..28).map(|index| vec![index]).collect();
        assert_eq!(walk(&mut losses, &calls), lost);
        assert_eq!(walk(&mut losses, &[(0, false)]).concat().len(), 0);
    }

    #[test]
    fn a_frame_of_several_entries_is_lost_as_a_whole() {
        for (second, calls, lost) in [
            (8, vec![(6, true), (6, true), (6, true)], vec![[7], [8], [9]]), // each at once
            (7, vec![(6, true), (6, true), (6, true)], vec![[7], [7], [9]]), // twice in the same memory
            (8, vec![(6, true), (0, true)], vec![[7], [9]]),                 // one sent, one lost
            (8, vec![(3, true), (3, true)], vec![[8], [9]]),
        ] {
            let mut losses = TxLossTracker::new(8);
            for (index, entries) in [(7, 1), (second, 2), (9, 3)] {
                losses.record_entries(index, entries);
            }
            assert_eq!(walk(&mut losses, &calls), lost);
        }
    }

    /// A poll of the socket lost frame 1, which no call reported.
    #[test]
    fn what_was_lost_before_is_passed_over() {
        let mut losses = TxLossTracker::new(4);
        (1..4).for_each(|index| losses.record_entries(index, 1));
        losses.on_sendto(3, true, |index| index != 1);
        assert_eq!(losses.lost, [2]);
    }

    #[test]
    fn lost_frames_are_parted_from_others_as_they_complete() {
        let mut losses = TxLossTracker::new(4);
        [5, 3].into_iter().for_each(|index| losses.record_lost(index));
        let mut completed: Vec<_> = [5, 4, 3].map(FrameId::new).into();
        losses.split_lost(1, &mut completed); // the first was there before
        let numbers = |frames: &[FrameId]| frames.iter().map(FrameId::index).collect::<Vec<_>>();
        assert_eq!(numbers(&completed), [5, 4]);
        let mut lost = Vec::new();
        losses.take(&mut lost);
        assert_eq!(numbers(&lost), [3]);
        assert_eq!(losses.lost, [5]);
    }
}
