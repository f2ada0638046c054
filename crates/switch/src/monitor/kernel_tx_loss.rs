//! Frames that the kernel took to send and lost.
//!
//! Rule: a lost frame is counted where it was to leave, at its port and its queue, and its cells go
//! back: it was neither transmitted nor dropped by the switch. PFC and PAUSE frames are counted
//! apart, and what they said is said again ([`crate::pfc::tx`]). Either is an event, which says how
//! many were of no-drop priorities: at once, then once a second at most while it lasts.
//! Source: docs/behavior.md, "Drops"; docs/kernel-behavior.md, "Errors of sendto".

use crate::monitor::event::{Event, Events};
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Events of one port are no closer together.
const EVENT_NS: Nanos = 1_000_000_000;

/// What the kernel lost at one port.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct KernelTxLoss {
    /// Data frames of no-drop priorities, in all.
    no_drop_frames: u64,
    /// PFC and PAUSE frames, in all.
    pfc_frames: u64,
    /// What no event has told of.
    untold: UnreportedLoss,
    next_event: Instant,
}

/// Frames since an event.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
struct UnreportedLoss {
    /// Data frames, and those of no-drop priorities among them.
    frames: u64,
    no_drop_frames: u64,
    pfc_frames: u64,
}

impl KernelTxLoss {
    /// A data frame.
    pub(crate) fn note(&mut self, is_no_drop: bool) {
        self.no_drop_frames += u64::from(is_no_drop);
        self.untold.frames += 1;
        self.untold.no_drop_frames += u64::from(is_no_drop);
    }

    /// A PFC or PAUSE frame.
    pub(crate) fn note_pfc(&mut self) {
        self.pfc_frames += 1;
        self.untold.pfc_frames += 1;
    }

    /// Data frames of no-drop priorities, in all.
    pub fn no_drop_frames(&self) -> u64 {
        self.no_drop_frames
    }

    /// PFC and PAUSE frames, in all.
    pub fn pfc_frames(&self) -> u64 {
        self.pfc_frames
    }

    /// Tells what no event has told of yet, if it is time for one. True: there will be more to
    /// tell.
    pub(crate) fn tell(&mut self, port: usize, now: Instant, events: &mut Events) -> bool {
        let UnreportedLoss { frames, no_drop_frames, pfc_frames } = self.untold;
        if frames + pfc_frames == 0 {
            return false;
        }
        if now < self.next_event {
            return true;
        }
        events.push(now, Event::KernelLost { port, frames, no_drop_frames, pfc_frames });
        (self.untold, self.next_event) = (UnreportedLoss::default(), now + EVENT_NS);
        false
    }
}
