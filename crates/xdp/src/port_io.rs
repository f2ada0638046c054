//! What the poll loop asks of a port, whatever it is made of.

use std::os::fd::RawFd;

use switch::{FrameId, Instant, KernelCounters, Memory, Outgoing, Received};

/// A port as the poll loop sees it: rings in, rings out. Nothing here blocks or allocates after the start.
pub trait PortIo {
    /// Where this port's frames lie.
    type Memory: Memory;

    /// Takes at most `max` received frames, appended to `out`. Posts fresh frames to the fill ring *before* it takes
    /// any, and takes no more than it could replace (or a few, lest it stop for good).
    fn receive(&mut self, memory: &mut Self::Memory, now: Instant, max: usize, out: &mut Vec<Received>);

    /// The fewest frames posted for receipt from now on, whatever the need, as far as the rings allow.
    fn set_min_posted(&mut self, frames: u32);

    /// Frames that `transmit` would take now.
    fn transmit_room(&self) -> usize;

    /// Puts all of `frames` (at most `transmit_room`) into the TX ring, in order, and empties it.
    fn transmit(&mut self, frames: &mut Vec<Outgoing>);

    /// Makes the kernel send what is in the TX ring, where that needs a call. Returns how many frames the kernel said
    /// it lost (they complete all the same).
    fn kick(&mut self) -> u32;

    /// Frames that the kernel is done with, appended to `out`.
    fn complete(&mut self, out: &mut Vec<FrameId>);

    /// Frames transmitted and not yet completed. While there are any, kick again rather than wait.
    fn outstanding(&self) -> usize;

    /// False once the interface is gone or down for good.
    fn is_up(&self) -> bool;

    /// Closes the port for good: frames that the fill and RX rings held are freed; those in the TX ring that never
    /// completed are appended to `unsent`.
    fn close(&mut self, memory: &mut Self::Memory, unsent: &mut Vec<FrameId>);

    /// What the kernel counted since the port was opened.
    fn kernel_counters(&self) -> KernelCounters;

    /// Frames that this port holds in its rings (fill, RX, TX, completion), for conservation checks.
    fn frames_held(&self) -> usize;

    /// Appends the descriptors that become readable when a frame comes in; see [`crate::Waiter`].
    fn poll_fds(&self, out: &mut Vec<RawFd>);
}
