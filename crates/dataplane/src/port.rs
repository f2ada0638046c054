//! What a loop asks of a port, whatever the port is made of: an interface, memory, a simulated
//! line.

use std::os::fd::RawFd;

use switch::{FrameId, FrameMemory, FrameParser, Instant, KernelCounters, RxDesc, RxFrame, TxDesc};

/// What went wrong with a port, for the log: the loop itself logs nothing, since a log can make it
/// wait. Numbers are the operating system's of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortFault {
    /// The interface is down or gone.
    Down(i32),
    /// The queueing discipline that the port had put on its interface could not be taken off.
    QdiscStays(i32),
    /// So many frames came in, since this was last told, that were longer than any that a port
    /// takes in.
    TooLong {
        /// How many.
        frames: u64,
        /// The length of the longest, in bytes without FCS.
        longest_bytes: u32,
    },
}

/// A port as its loop sees it: rings in, rings out. Nothing here blocks or allocates after the
/// start.
pub trait Port {
    /// Where this port's frames lie.
    type Memory: FrameMemory;

    /// Takes at most `max` received frames, appended to `out`. Posts fresh frames to the fill ring
    /// *before* it takes any, and takes no more than it could replace (or a few, lest it stop
    /// for good).
    fn receive(&mut self, memory: &mut Self::Memory, now: Instant, max: usize, out: &mut Vec<RxDesc>);

    /// Takes at most `max` frames in all that another core received for this port and looked at,
    /// appended to `out`; none where none does.
    #[inline]
    fn take_arrivals(&mut self, _memory: &Self::Memory, _max: usize, _out: &mut Vec<RxFrame>) {}

    /// How the frames of this port are looked at from now on, for whoever else does; and whether
    /// transport checksums are finished.
    fn set_parser(&mut self, _looker: FrameParser, _finish_checksums: bool) {}

    /// The fewest frames posted for receipt from now on, whatever the need, as far as the rings
    /// allow; nothing to a port that posts none.
    fn set_min_posted(&mut self, _frames: u32) {}

    /// Frames that the last `receive` left behind, in all RX rings.
    fn rx_waiting(&self) -> u32 {
        0
    }

    /// Frames that the kernel had nowhere to put since it was last looked; `None` most of the time,
    /// as the port looks now and then only.
    fn take_kernel_drops(&mut self) -> Option<u64> {
        None
    }

    /// Frames that `transmit` would take now.
    fn transmit_room(&self) -> usize;

    /// Puts all of `frames` (at most `transmit_room`) into the TX ring, in order, and empties it.
    fn transmit(&mut self, frames: &mut Vec<TxDesc>);

    /// What is still to be done to the bytes of frames that leave ([`switch::frame::header_edit`])
    /// whoever serves the port does, on another core. False: it is done before they are put
    /// into [`Port::transmit`].
    fn makes_edits(&self) -> bool {
        false
    }

    /// Makes the kernel send what is in the TX ring, where that needs a call.
    fn kick(&mut self) {}

    /// Frames that have left, appended to `out`.
    fn complete(&mut self, out: &mut Vec<FrameId>);

    /// Frames that the kernel took and lost, and is done with, appended to `out`: what the last
    /// `complete` has found and left out. To be called after each.
    fn take_lost(&mut self, _out: &mut Vec<FrameId>) {}

    /// Frames transmitted and not yet completed.
    fn outstanding(&self) -> usize;

    /// Kick again rather than wait: frames may wait for that.
    fn needs_kick(&self) -> bool {
        self.outstanding() > 0
    }

    /// False once the interface is gone or down, until the port is opened again.
    fn is_up(&self) -> bool {
        true
    }

    /// There is something that no call has taken yet, and that no descriptor tells of.
    fn has_pending(&self) -> bool {
        false
    }

    /// What it was given to transmit waits, as whoever serves it stands still.
    fn is_stalled(&self) -> bool {
        false
    }

    /// Frames that the kernel gave back and did not have, or gave back before, since this was last
    /// asked. The port has kept them out of what it handed on; looked at now and then, not at
    /// each call.
    fn take_stray(&mut self) -> u64 {
        0
    }

    /// What went wrong and was not asked for yet, the oldest first.
    fn pop_fault(&mut self) -> Option<PortFault> {
        None
    }

    /// Gives what the port is made of to another thread, which closes it, so that the loop need not
    /// wait for the kernel. Once that is done, [`Port::reclaim`]. False: there is no such
    /// thread, so [`Port::close`] it.
    fn detach(&mut self) -> bool {
        false
    }

    /// What was let go is closed: frames as for [`Port::close`]. False: they are not there yet, so
    /// ask again.
    fn reclaim(&mut self, _memory: &mut Self::Memory, _unsent: &mut Vec<FrameId>) -> bool {
        true
    }

    /// The port, which is closed, begins again with what the other thread opened for it. False:
    /// there is nothing. Nothing: that is not known yet, so ask again.
    fn reopen(&mut self, _memory: &mut Self::Memory) -> Option<bool> {
        Some(false)
    }

    /// Closes the port: frames that the fill and RX rings held are freed; those in the TX ring that
    /// never completed are appended to `unsent`. False: that is not done yet, so call again.
    fn close(&mut self, memory: &mut Self::Memory, unsent: &mut Vec<FrameId>) -> bool;

    /// Another port of the switch takes the place of this one, which is closed: what the kernel
    /// counted until now, and from now on it counts again.
    fn reset_counters(&mut self) -> KernelCounters {
        KernelCounters::default()
    }

    /// Finds out what the kernel counted and what the port holds. False: that is not known yet, so
    /// ask again.
    fn report(&mut self) -> bool {
        true
    }

    /// What the kernel counted since the port was first opened; nothing where there is no kernel.
    fn kernel_counters(&self) -> KernelCounters {
        KernelCounters::default()
    }

    /// Frames that this port holds in its rings (fill, RX, TX, completion), for conservation
    /// checks.
    fn frames_held(&self) -> usize {
        self.outstanding()
    }

    /// Free frames that are not in the loop's memory, but with whoever else serves this port.
    fn free_frames(&self) -> usize {
        0
    }

    /// Appends the descriptors that become readable when a frame comes in, if it has any; see
    /// [`crate::Sleeper`].
    fn poll_fds(&self, _out: &mut Vec<RawFd>) {}
}
