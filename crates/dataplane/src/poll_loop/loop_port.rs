//! A port of the switching core, served by the core itself or by an I/O loop.

use std::fmt;
use std::os::fd::RawFd;

use switch::{
    FrameId, FrameMemory, FrameParser, Instant, KernelCounters, RefusedFrames, RxDesc, RxFrame, TxDesc,
};

use wire::bitset::Set8;

use crate::io_core::remote_port::RemotePort;
use crate::port::{Port, PortFault};

/// A port of any kind.
pub enum LoopPort<P: Port> {
    /// A port that the switching core serves.
    Local(P),
    /// A port that an I/O loop serves.
    Remote(Box<RemotePort<P::Memory>>),
    /// A port of another kind, which the switching core serves.
    Other(Box<dyn Port<Memory = P::Memory> + Send>),
}

impl<P: Port> fmt::Debug for LoopPort<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoopPort::Local(_) => "Local",
            LoopPort::Remote(_) => "Remote",
            LoopPort::Other(_) => "Other",
        })
    }
}

impl<M: FrameMemory, P: Port<Memory = M>> LoopPort<P> {
    #[inline]
    fn port(&self) -> &dyn Port<Memory = M> {
        match self {
            LoopPort::Local(port) => port,
            LoopPort::Remote(port) => &**port,
            LoopPort::Other(port) => &**port,
        }
    }

    #[inline]
    fn port_mut(&mut self) -> &mut dyn Port<Memory = M> {
        match self {
            LoopPort::Local(port) => port,
            LoopPort::Remote(port) => &mut **port,
            LoopPort::Other(port) => &mut **port,
        }
    }
}

impl<M: FrameMemory, P: Port<Memory = M>> Port for LoopPort<P> {
    type Memory = M;

    #[inline]
    fn receive(&mut self, memory: &mut M, now: Instant, max: usize, out: &mut Vec<RxDesc>) {
        self.port_mut().receive(memory, now, max, out);
    }

    #[inline]
    fn take_arrivals(&mut self, memory: &M, max: usize, out: &mut Vec<RxFrame>) {
        self.port_mut().take_arrivals(memory, max, out);
    }

    fn set_parser(&mut self, parser: FrameParser, complete_checksums: bool) {
        self.port_mut().set_parser(parser, complete_checksums);
    }

    fn set_min_posted(&mut self, frames: u32) {
        self.port_mut().set_min_posted(frames);
    }

    fn set_pause_speed(&mut self, bps: u64) {
        self.port_mut().set_pause_speed(bps);
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
    fn blocked_queues(&self) -> Set8 {
        self.port().blocked_queues()
    }

    #[inline]
    fn transmit(&mut self, memory: &mut M, frames: &mut Vec<TxDesc>) {
        self.port_mut().transmit(memory, frames);
    }

    fn prepare_sleep(&mut self) {
        self.port_mut().prepare_sleep();
    }

    fn cancel_sleep(&mut self) {
        self.port_mut().cancel_sleep();
    }

    #[inline]
    fn applies_edits(&self) -> bool {
        self.port().applies_edits()
    }

    #[inline]
    fn kick(&mut self) {
        self.port_mut().kick();
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        self.port().needs_kick()
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

    fn has_pending(&self) -> bool {
        self.port().has_pending()
    }

    fn is_stalled(&self) -> bool {
        self.port().is_stalled()
    }

    #[inline]
    fn take_refused(&mut self) -> Option<RefusedFrames> {
        self.port_mut().take_refused()
    }

    #[inline]
    fn take_stray(&mut self) -> u64 {
        self.port_mut().take_stray()
    }

    #[inline]
    fn pop_fault(&mut self) -> Option<PortFault> {
        self.port_mut().pop_fault()
    }

    fn detach(&mut self) -> bool {
        self.port_mut().detach()
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

    fn reset_counters(&mut self) -> KernelCounters {
        self.port_mut().reset_counters()
    }

    fn report(&mut self) -> bool {
        self.port_mut().report()
    }

    fn forget_report(&mut self) {
        self.port_mut().forget_report();
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
