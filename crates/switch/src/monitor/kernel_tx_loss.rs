//! Frames that the kernel took to send and lost.
//!
//! Rule: a lost frame is counted at its output port and its queue, and its cells are released. It
//! counts as neither transmitted nor dropped by the switch. PFC and PAUSE frames are counted
//! separately, and their contents are sent again ([`crate::pfc::tx`]). Both kinds of loss are
//! events, which report how many frames were of no-drop priorities: at once, then at most once a
//! second while the losses last. Source: docs/behavior.md, "Drops"; docs/kernel/af-xdp.md,
//! "Errors of sendto".

use crate::monitor::event::Event;
use crate::monitor::event_list::Events;
use crate::monitor::throttle::{EVENT_NS, Throttle};
use crate::time::Instant;
use serde::{Deserialize, Serialize};

/// Frames that the kernel lost at one port.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct KernelTxLoss {
    /// Data frames of no-drop priorities since the start.
    no_drop_frames: u64,
    /// PFC and PAUSE frames since the start.
    pfc_frames: u64,
    /// Losses that no event has reported.
    unreported: UnreportedLoss,
    throttle: Throttle,
}

/// Frames since an event.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
struct UnreportedLoss {
    /// Data frames, and frames of no-drop priorities among them.
    frames: u64,
    no_drop_frames: u64,
    pfc_frames: u64,
}

impl KernelTxLoss {
    /// Counts a data frame.
    pub(crate) fn count(&mut self, is_no_drop: bool) {
        self.no_drop_frames += u64::from(is_no_drop);
        self.unreported.frames += 1;
        self.unreported.no_drop_frames += u64::from(is_no_drop);
    }

    /// Counts a PFC or PAUSE frame.
    pub(crate) fn count_pfc(&mut self) {
        self.pfc_frames += 1;
        self.unreported.pfc_frames += 1;
    }

    /// Returns the data frames of no-drop priorities since the start.
    pub fn no_drop_frames(&self) -> u64 {
        self.no_drop_frames
    }

    /// Returns the PFC and PAUSE frames since the start.
    pub fn pfc_frames(&self) -> u64 {
        self.pfc_frames
    }

    /// Reports losses that no event has reported yet, if an event is due. Returns true if more
    /// remain to be reported.
    pub(crate) fn take_event(&mut self, port: usize, now: Instant, events: &mut Events) -> bool {
        let UnreportedLoss { frames, no_drop_frames, pfc_frames } = self.unreported;
        if frames + pfc_frames == 0 {
            return false;
        }
        if !self.throttle.pass(EVENT_NS, now) {
            return true;
        }
        events.push(now, Event::KernelLost { port, frames, no_drop_frames, pfc_frames });
        self.unreported = UnreportedLoss::default();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three data frames, two of them of no-drop priorities, and a PFC frame; then one of each.
    #[test]
    fn losses_are_reported_at_once_and_then_once_a_second() {
        let (mut loss, mut events) = (KernelTxLoss::default(), Events::default());
        let at = Instant(7);
        assert!(!loss.take_event(2, at, &mut events), "nothing was lost");
        [true, true, false].into_iter().for_each(|is_no_drop| loss.count(is_no_drop));
        loss.count_pfc();
        assert_eq!((loss.no_drop_frames(), loss.pfc_frames()), (2, 1));
        assert!(!loss.take_event(2, at, &mut events));
        loss.count(true);
        loss.count_pfc();
        assert_eq!((loss.no_drop_frames(), loss.pfc_frames()), (3, 2));
        assert!(loss.take_event(2, at + (EVENT_NS - 1), &mut events), "later");
        assert!(!loss.take_event(2, at + EVENT_NS, &mut events));
        loss.count_pfc();
        assert!(!loss.take_event(2, at + 2 * EVENT_NS, &mut events));
        let of = |frames, no_drop_frames, pfc_frames| Event::KernelLost {
            port: 2,
            frames,
            no_drop_frames,
            pfc_frames,
        };
        let expected = [(at, of(3, 2, 1)), (at + EVENT_NS, of(1, 1, 1)), (at + 2 * EVENT_NS, of(0, 0, 1))];
        assert_eq!(events.drain().collect::<Vec<_>>(), expected);
    }
}
