//! Frames that the kernel took to send and lost.
//!
//! Rule: a lost frame is counted where it was to leave, at its port and its queue, and its cells go back: it was neither transmitted nor
//! dropped by the switch. PFC and PAUSE frames are counted apart, and what they said is said again ([`crate::pfc_sent`]). Either is an event, which says
//! how many were of no-drop priorities: at once, then once a second at most while it lasts.
//! Source: docs/behavior.md, "Drops"; docs/kernel-behavior.md, "Errors of sendto".

use crate::event::{Event, Events};
use crate::frame::FrameId;
use crate::memory::Memory;
use crate::switch::Switch;
use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};
use wire::set::Set64;

/// Events of one port are no closer together.
const EVENT_NS: Nanos = 1_000_000_000;

/// What the kernel lost at one port.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct KernelLosses {
    /// Data frames of no-drop priorities, in all.
    no_drop_frames: u64,
    /// PFC and PAUSE frames, in all.
    pfc_frames: u64,
    /// What no event has told of.
    untold: Untold,
    next_event: Instant,
}

/// Frames since an event.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
struct Untold {
    /// Data frames, and those of no-drop priorities among them.
    frames: u64,
    no_drop_frames: u64,
    pfc_frames: u64,
}

impl KernelLosses {
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

    /// Tells what no event has told of yet, if it is time for one. True: there will be more to tell.
    pub(crate) fn tell(&mut self, port: usize, now: Instant, events: &mut Events) -> bool {
        let Untold { frames, no_drop_frames, pfc_frames } = self.untold;
        if frames + pfc_frames == 0 {
            return false;
        }
        if now < self.next_event {
            return true;
        }
        events.push(now, Event::KernelLost { port, frames, no_drop_frames, pfc_frames });
        (self.untold, self.next_event) = (Untold::default(), now + EVENT_NS);
        false
    }
}

impl Switch {
    /// The kernel is done with a frame that `transmit` gave out for `port`, and has lost it.
    #[cold]
    pub fn kernel_lost<M: Memory>(&mut self, port: usize, frame: FrameId, now: Instant, memory: &mut M) {
        if let Some(charge) = self.store.finish(&frame) {
            let is_no_drop = self.ingress[charge.port()].is_no_drop(charge.priority());
            self.egress[port].kernel_lost(&charge, is_no_drop, &mut self.pools);
            self.release(&charge, now);
        } else {
            self.ingress[port].pfc_lost();
            self.egress[port].kernel_lost_pfc();
            self.add_work(self.up.and(Set64::of(port))); // it is told again
        }
        memory.free(frame);
        self.untold.set(port, true);
    }
}
