//! The interface between a loop and a port of any kind: a network interface, memory, a simulated
//! link.

use std::os::fd::RawFd;

use switch::settings::PortSettings;
use switch::{
    FrameId, FrameMemory, FrameParser, Instant, KernelCounters, RefusedFrames, RxDesc, RxFrame, TxDesc,
};
use wire::bitset::Set8;

/// A fault of a port, for the log. The loop itself logs nothing, since writing a log can block.
/// Numbers are error numbers of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortFault {
    /// The interface is down or does not exist.
    Down(i32),
    /// The port was closed before its XON had left: its peer may stay paused until the pause ends.
    PeerNotReleased,
    /// Received frames that were left in the rings of a port that has been removed.
    LeftInRings(u64),
    /// The queueing discipline that the port installed on its interface could not be removed.
    QdiscStays(i32),
    /// Frames longer than any that a port accepts, received since the last report.
    TooLong {
        /// The number of such frames.
        frames: u64,
        /// The length of the longest, in bytes without FCS.
        longest_bytes: u32,
    },
}

/// A port as its loop sees it: rings in, rings out. No method blocks or allocates after the start.
pub trait Port {
    /// The memory of this port's frames.
    type Memory: FrameMemory;

    /// Takes at most `max` received frames, appended to `out`. Posts free chunks to the fill ring
    /// *before* it takes any, and takes no more than it could replace (or a few, lest it stop
    /// permanently).
    fn receive(&mut self, memory: &mut Self::Memory, now: Instant, max: usize, out: &mut Vec<RxDesc>);

    /// Takes at most `max` frames, in all, that another core received on this port and parsed,
    /// appended to `out`. Takes none on a port that no other core serves.
    #[inline]
    fn take_arrivals(&mut self, _memory: &Self::Memory, _max: usize, _out: &mut Vec<RxFrame>) {}

    /// Sets the parser of this port's frames, for another core that serves the port, and whether
    /// transport checksums are completed.
    fn set_parser(&mut self, _parser: FrameParser, _complete_checksums: bool) {}

    /// Sets the minimum number of posted chunks, regardless of need, as far as the rings allow. Has
    /// no effect on a port that posts none.
    fn set_min_posted(&mut self, _frames: u32) {}

    /// Applies changed settings of the switch's port. Has an effect on a port that limits or pauses
    /// its peer itself.
    fn apply_settings(&mut self, _settings: &PortSettings) {}

    /// Returns the frames that the last `receive` left behind, in all RX rings.
    fn rx_waiting(&self) -> u32 {
        0
    }

    /// Takes the number of frames that the kernel dropped for lack of a posted chunk since the last
    /// check. `None` most of the time, as the port checks only now and then.
    fn take_kernel_drops(&mut self) -> Option<u64> {
        None
    }

    /// Returns how many frames `transmit` would accept now.
    fn transmit_room(&self) -> usize;

    /// Returns the queues of which the port takes no frames now, as its peer has no room for them.
    /// `transmit_room` is for the others.
    #[inline]
    fn blocked_queues(&self) -> Set8 {
        Set8::EMPTY
    }

    /// Puts all of `frames` (at most `transmit_room`) into the TX ring, in order, and empties
    /// `frames`. `memory` is for a port that copies them.
    fn transmit(&mut self, memory: &mut Self::Memory, frames: &mut Vec<TxDesc>);

    /// True if the core that serves the port makes the pending edits of transmitted frames
    /// ([`switch::frame::header_edit`]). If false, the edits are made before the frames are passed
    /// to [`Port::transmit`].
    fn applies_edits(&self) -> bool {
        false
    }

    /// Makes the kernel send what is in the TX ring, where that needs a system call.
    fn kick(&mut self) {}

    /// Takes frames that have been transmitted, appended to `out`.
    fn complete(&mut self, out: &mut Vec<FrameId>);

    /// Takes frames that the kernel took, lost and completed, appended to `out`: those that the
    /// last `complete` found and left out. To be called after each `complete`.
    fn take_lost(&mut self, _out: &mut Vec<FrameId>) {}

    /// Returns the frames transmitted and not yet completed.
    fn outstanding(&self) -> usize;

    /// True if the loop must kick again rather than sleep, as frames may wait for the kick.
    fn needs_kick(&self) -> bool {
        self.outstanding() > 0
    }

    /// Returns false once the interface is down or does not exist, until the port is opened again.
    fn is_up(&self) -> bool {
        true
    }

    /// Has the peer wake the loop with its next frame. `has_pending` is called after it, and then
    /// the loop sleeps.
    fn prepare_sleep(&mut self) {}

    /// Ends what `prepare_sleep` began, whether the loop has slept or not.
    fn cancel_sleep(&mut self) {}

    /// True if something waits that no call has taken yet and that no descriptor indicates.
    fn has_pending(&self) -> bool {
        false
    }

    /// True if frames passed to the port wait because the loop that serves it stalls.
    fn is_stalled(&self) -> bool {
        false
    }

    /// Takes the frames that the port did not accept from its peer since the last call, if any.
    #[inline]
    fn take_refused(&mut self) -> Option<RefusedFrames> {
        None
    }

    /// Takes the number of frames that the kernel completed without owning them, or completed
    /// twice, since the last call. The port has excluded these frames from what it returned. To be
    /// called now and then, not after each call.
    fn take_stray(&mut self) -> u64 {
        0
    }

    /// Takes the oldest unreported fault.
    fn pop_fault(&mut self) -> Option<PortFault> {
        None
    }

    /// Detaches the rings and hands them to another thread, which closes them, so that the loop
    /// need not wait for the kernel. [`Port::reclaim`] follows. Returns false if there is no such
    /// thread; then [`Port::close`] the port.
    fn detach(&mut self) -> bool {
        false
    }

    /// Takes back the frames of detached rings that have been closed, as [`Port::close`] does.
    /// Returns false if the frames are not available yet; then call again.
    fn reclaim(&mut self, _memory: &mut Self::Memory, _unsent: &mut Vec<FrameId>) -> bool {
        true
    }

    /// Opens the closed port again with the rings that the other thread opened for it. Returns
    /// false if there are none, and `None` if that is not known yet; then call again.
    fn reopen(&mut self, _memory: &mut Self::Memory) -> Option<bool> {
        Some(false)
    }

    /// Closes the port. Frees the frames of the fill and RX rings, and appends the frames of the TX
    /// ring that never completed to `unsent`. Returns false if that is not done yet; then call
    /// again.
    fn close(&mut self, memory: &mut Self::Memory, unsent: &mut Vec<FrameId>) -> bool;

    /// Resets the counters, as another port of the switch takes this closed port's slot. Returns
    /// the kernel's counters so far.
    fn reset_counters(&mut self) -> KernelCounters {
        KernelCounters::default()
    }

    /// Updates the kernel's counters and the number of frames that the port holds. Returns false if
    /// they are not known yet; then call again.
    fn report(&mut self) -> bool {
        true
    }

    /// Stops waiting for the report that [`report`](Self::report) asked for: should it come later,
    /// it does not answer the next request.
    fn forget_report(&mut self) {}

    /// Returns the kernel's counters since the port was first opened; zero without a kernel.
    fn kernel_counters(&self) -> KernelCounters {
        KernelCounters::default()
    }

    /// Returns the frames that this port holds in its rings (fill, RX, TX, completion), for
    /// conservation checks.
    fn frames_held(&self) -> usize {
        self.outstanding()
    }

    /// Returns the free frames that are kept by the loop that serves this port, outside the memory
    /// of the switching core.
    fn free_frames(&self) -> usize {
        0
    }

    /// Appends the file descriptors that become readable when a frame is received, if the port has
    /// any; see [`crate::Sleeper`].
    fn poll_fds(&self, _out: &mut Vec<RawFd>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch::HeapMemory;

    /// A port that implements no more than it must, with this many frames outstanding.
    struct Least(usize);

    impl Port for Least {
        type Memory = HeapMemory;

        fn receive(&mut self, _: &mut HeapMemory, _: Instant, _: usize, _: &mut Vec<RxDesc>) {}

        fn transmit_room(&self) -> usize {
            0
        }

        fn transmit(&mut self, _: &mut HeapMemory, _: &mut Vec<TxDesc>) {}

        fn complete(&mut self, _: &mut Vec<FrameId>) {}

        fn outstanding(&self) -> usize {
            self.0
        }

        fn close(&mut self, _: &mut HeapMemory, _: &mut Vec<FrameId>) -> bool {
            true
        }
    }

    /// A port that says nothing else is up, holds what it has not completed, has no thread that
    /// closes or opens its rings, and counts nothing.
    #[test]
    fn what_a_port_need_not_implement() {
        let memory = &mut HeapMemory::new(1, 64);
        for outstanding in [0, 3] {
            let port = &mut Least(outstanding);
            assert_eq!((port.needs_kick(), port.frames_held()), (outstanding > 0, outstanding));
            assert_eq!((port.rx_waiting(), port.take_kernel_drops(), port.take_stray()), (0, None, 0));
            assert_eq!((port.blocked_queues(), port.take_refused()), (Set8::EMPTY, None));
            assert_eq!((port.is_up(), port.is_stalled(), port.pop_fault()), (true, false, None));
            assert_eq!((port.applies_edits(), port.has_pending()), (false, false));
            assert!(!port.detach() && port.reclaim(memory, &mut Vec::new()));
            assert_eq!(port.reopen(memory), Some(false));
            assert_eq!((port.report(), port.free_frames()), (true, 0));
            let none = KernelCounters::default();
            assert_eq!((port.kernel_counters(), port.reset_counters()), (none, none));
        }
    }
}
