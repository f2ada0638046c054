//! The end of a switch.
//!
//! Rule: nothing more is forwarded, and every no-drop priority is in XOFF for good. What comes in all the same is dropped and counted, but
//! control frames are obeyed: what waits may leave, and neighbours may still pause it.
//! Source: docs/behavior.md, "The end".

use crate::arrival::{Arrival, Kind};
use crate::counters::DropReason;
use crate::memory::Memory;
use crate::switch::Switch;
use crate::time::Instant;
use wire::set::Set64;

impl Switch {
    /// The switch is about to end: every no-drop priority is in XOFF from now on, for good, since what neighbours would send
    /// after an XON nobody would forward.
    pub fn stop(&mut self) {
        for port in self.up {
            self.ingress[port].stop();
            self.add_work(Set64::of(port));
        }
    }

    /// The switch is about to end: of the frames that came in only control frames are obeyed, data are dropped and
    /// counted.
    pub fn obey_only<M: Memory>(&mut self, arrivals: &mut Vec<Arrival>, now: Instant, memory: &mut M) {
        for mut arrival in arrivals.drain(..) {
            match arrival.kind {
                Kind::Control => self.obey(&mut arrival, now, memory),
                _ => {
                    self.ingress[arrival.charge.port()].refuse(DropReason::PortDown, arrival.charge.len);
                    memory.free(arrival.take_frame());
                }
            }
        }
    }
}
