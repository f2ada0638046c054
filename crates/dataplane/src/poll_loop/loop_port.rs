//! A port of the switching core: one that it serves itself, or one that a line serves for it.

use std::os::fd::RawFd;

use switch::{Arrival, FrameId, Instant, KernelCounters, Looker, Memory, Outgoing, Received};

use crate::io_core::remote_port::RemotePort;
use crate::port::{Port, Trouble};

/// A port, wherever it is served.
#[derive(Debug)]
pub enum CorePort<P: Port> {
    /// By the switching core.
    Own(P),
    /// By a line.
    Remote(Box<RemotePort<P::Memory>>),
}

impl<M: Memory, P: Port<Memory = M>> CorePort<P> {
    #[inline]
    fn port(&self) -> &dyn Port<Memory = M> {
        match self {
            CorePort::Own(port) => port,
            CorePort::Remote(port) => &**port,
        }
    }

    #[inline]
    fn port_mut(&mut self) -> &mut dyn Port<Memory = M> {
        match self {
            CorePort::Own(port) => port,
            CorePort::Remote(port) => &mut **port,
        }
    }
}

impl<M: Memory, P: Port<Memory = M>> Port for CorePort<P> {
    type Memory = M;

    #[inline]
    fn receive(&mut self, memory: &mut M, now: Instant, max: usize, out: &mut Vec<Received>) {
        self.port_mut().receive(memory, now, max, out);
    }

    #[inline]
    fn take_arrivals(&mut self, memory: &M, max: usize, out: &mut Vec<Arrival>) {
        self.port_mut().take_arrivals(memory, max, out);
    }

    fn look_by(&mut self, looker: Looker, finish_checksums: bool) {
        self.port_mut().look_by(looker, finish_checksums);
    }

    fn set_min_posted(&mut self, frames: u32) {
        self.port_mut().set_min_posted(frames);
    }

    #[inline]
    fn rx_waiting(&self) -> u32 {
        self.port().rx_waiting()
    }

    #[inline]
    fn take_kernel_drops(&mut self) -> Option<u64> {
        self.port_mut().take_kernel_drops()
    }

    #[inline]
    fn transmit_room(&self) -> usize {
        self.port().transmit_room()
    }

    #[inline]
    fn transmit(&mut self, frames: &mut Vec<Outgoing>) {
        self.port_mut().transmit(frames);
    }

    #[inline]
    fn makes_edits(&self) -> bool {
        self.port().makes_edits()
    }

    #[inline]
    fn kick(&mut self) {
        self.port_mut().kick();
    }

    #[inline]
    fn must_kick(&self) -> bool {
        self.port().must_kick()
    }

    #[inline]
    fn complete(&mut self, out: &mut Vec<FrameId>) {
        self.port_mut().complete(out);
    }

    #[inline]
    fn take_lost(&mut self, out: &mut Vec<FrameId>) {
        self.port_mut().take_lost(out);
    }

    #[inline]
    fn outstanding(&self) -> usize {
        self.port().outstanding()
    }

    #[inline]
    fn is_up(&self) -> bool {
        self.port().is_up()
    }

    fn has_news(&self) -> bool {
        self.port().has_news()
    }

    fn is_stuck(&self) -> bool {
        self.port().is_stuck()
    }

    #[inline]
    fn take_stray(&mut self) -> u64 {
        self.port_mut().take_stray()
    }

    #[inline]
    fn take_trouble(&mut self) -> Option<Trouble> {
        self.port_mut().take_trouble()
    }

    fn let_go(&mut self) -> bool {
        self.port_mut().let_go()
    }

    fn reclaim(&mut self, memory: &mut M, unsent: &mut Vec<FrameId>) -> bool {
        self.port_mut().reclaim(memory, unsent)
    }

    fn reopen(&mut self, memory: &mut M) -> Option<bool> {
        self.port_mut().reopen(memory)
    }

    fn close(&mut self, memory: &mut M, unsent: &mut Vec<FrameId>) -> bool {
        self.port_mut().close(memory, unsent)
    }

    fn count_anew(&mut self) -> KernelCounters {
        self.port_mut().count_anew()
    }

    fn report(&mut self) -> bool {
        self.port_mut().report()
    }

    fn kernel_counters(&self) -> KernelCounters {
        self.port().kernel_counters()
    }

    fn frames_held(&self) -> usize {
        self.port().frames_held()
    }

    fn free_frames(&self) -> usize {
        self.port().free_frames()
    }

    fn poll_fds(&self, out: &mut Vec<RawFd>) {
        self.port().poll_fds(out);
    }
}
