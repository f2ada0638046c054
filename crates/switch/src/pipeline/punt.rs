//! Frames that the switch consumes for its owner: LLDP.
//!
//! Rule: a punted frame is counted at its port, is charged nowhere and is no data frame, as PFC. It
//! stays with the switch until the owner takes it, right after the batch that contained it.
//! Source: docs/dcbx.md, "Frames".

use crate::forwarding::parsed_frame::RxFrame;
use crate::frame::PuntedFrame;
use crate::frame::memory::FrameMemory;
use crate::pipeline::Switch;

impl Switch {
    /// Consumes a frame for the owner.
    #[cold]
    pub(crate) fn punt(&mut self, arrival: &mut RxFrame) {
        let (port, len) = (arrival.meta.port(), arrival.meta.len);
        self.ingress[port].count_lldp();
        self.punted.push(PuntedFrame { frame: arrival.take_frame(), port, len });
    }

    /// True if there are punted frames to take.
    #[inline]
    pub fn has_punted(&self) -> bool {
        !self.punted.is_empty()
    }

    /// Passes each punted frame to `deliver`, and frees it.
    #[cold]
    pub fn take_punted<M: FrameMemory>(&mut self, memory: &mut M, mut deliver: impl FnMut(usize, &[u8])) {
        for PuntedFrame { frame, port, len } in self.punted.drain(..) {
            // One longer than a chunk is no LLDP frame that any link carries; its start suffices.
            deliver(port, memory.bytes(&frame, len.into()));
            memory.free(frame);
        }
    }
}
