//! Frames that a switch does not forward: where each is counted, and who is told.
//!
//! Rule: a loss is counted where it happens and where an operator looks for it. What the output port had no room for, or cannot send, is
//! its own, and its queue's; what ingress had no room for is the input port's and its group's. The first no-drop frame that finds no room
//! at ingress in an episode is an event, and so are frames that are too long; other losses of no-drop frames are reported by [`crate::losses`].
//! Source: docs/law.md, "Drops".

use crate::arrival::Arrival;
use crate::counters::DropReason;
use crate::event::Event;
use crate::frame::FrameId;
use crate::memory::Memory;
use crate::store::Charge;
use crate::switch::Switch;
use crate::time::Instant;

impl Switch {
    /// A frame whose destination is where it came from, or on a port that is down: addresses learned there are forgotten
    /// with it, static ones are not.
    #[cold]
    pub(crate) fn filter<M: Memory>(&mut self, arrival: &mut Arrival, out: usize, memory: &mut M) {
        let (port, len) = (arrival.charge.port(), arrival.charge.len);
        if out == port {
            self.ingress[port].count_drop(DropReason::Filtered, len);
        } else {
            self.egress[out].count_drop(DropReason::PortDown, len);
            self.note_loss(out, DropReason::PortDown, &arrival.charge);
        }
        memory.free(arrival.take_frame());
    }

    /// Drops a frame that was not admitted.
    #[cold]
    pub(crate) fn refuse<M: Memory>(
        &mut self,
        (frame, charge): (FrameId, &Charge),
        out: usize,
        reason: DropReason,
        now: Instant,
        memory: &mut M,
    ) {
        self.count_refusal(charge, out, reason, now);
        memory.free(frame);
    }

    /// Counts a frame that was not admitted where an operator looks for it: at the queue that was full, or else at the
    /// group.
    pub(crate) fn count_refusal(&mut self, charge: &Charge, out: usize, reason: DropReason, now: Instant) {
        let (port, priority) = (charge.port(), charge.priority());
        let at_egress = match reason {
            DropReason::TailDrop | DropReason::Wred | DropReason::MtuExceeded => true,
            DropReason::Watchdog => !self.ingress[port].is_dropping(priority),
            _ => false,
        };
        if at_egress {
            self.egress[out].refuse(reason, charge, now);
            self.note_loss(out, reason, charge);
            if reason == DropReason::MtuExceeded
                && let Some(frames) = self.egress[out].untold_too_long(now)
            {
                self.events.push(now, Event::MtuExceeded { port: out, frames });
            }
            return;
        }
        if self.ingress[port].drop_full(reason, charge, now, &self.pools) {
            self.events.push(now, Event::NoDropLost { port, priority });
        }
        match reason {
            DropReason::Watchdog => self.note_loss(port, reason, charge),
            _ => self.starve(charge, now),
        }
    }
}
