//! A port of the switching core, served by the core itself or by an I/O loop.

use std::fmt;
use std::os::fd::RawFd;

use switch::settings::PortSettings;
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

    fn apply_settings(&mut self, settings: &PortSettings) {
        self.port_mut().apply_settings(settings);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crossbeam::queue::SegQueue;
    use switch::HeapMemory;

    use super::*;

    /// A port that records which of its methods are called, and returns for each what its default
    /// would not.
    #[derive(Default, Clone)]
    struct Recording(Arc<SegQueue<&'static str>>);

    impl Recording {
        fn called<T>(&self, method: &'static str, result: T) -> T {
            self.0.push(method);
            result
        }
    }

    impl Port for Recording {
        type Memory = HeapMemory;

        fn receive(&mut self, _: &mut HeapMemory, _: Instant, _: usize, _: &mut Vec<RxDesc>) {
            self.called("receive", ());
        }

        fn take_arrivals(&mut self, _: &HeapMemory, _: usize, _: &mut Vec<RxFrame>) {
            self.called("take_arrivals", ());
        }

        fn set_min_posted(&mut self, _: u32) {
            self.called("set_min_posted", ());
        }

        fn apply_settings(&mut self, _: &PortSettings) {
            self.called("apply_settings", ());
        }

        fn rx_waiting(&self) -> u32 {
            self.called("rx_waiting", 11)
        }

        fn take_kernel_drops(&mut self) -> Option<u64> {
            self.called("take_kernel_drops", Some(12))
        }

        fn transmit_room(&self) -> usize {
            self.called("transmit_room", 13)
        }

        fn blocked_queues(&self) -> Set8 {
            self.called("blocked_queues", Set8::of(4))
        }

        fn transmit(&mut self, _: &mut HeapMemory, _: &mut Vec<TxDesc>) {
            self.called("transmit", ());
        }

        fn prepare_sleep(&mut self) {
            self.called("prepare_sleep", ());
        }

        fn cancel_sleep(&mut self) {
            self.called("cancel_sleep", ());
        }

        fn applies_edits(&self) -> bool {
            self.called("applies_edits", true)
        }

        fn kick(&mut self) {
            self.called("kick", ());
        }

        fn needs_kick(&self) -> bool {
            self.called("needs_kick", true)
        }

        fn complete(&mut self, _: &mut Vec<FrameId>) {
            self.called("complete", ());
        }

        fn take_lost(&mut self, _: &mut Vec<FrameId>) {
            self.called("take_lost", ());
        }

        fn outstanding(&self) -> usize {
            self.called("outstanding", 14)
        }

        fn is_up(&self) -> bool {
            self.called("is_up", false)
        }

        fn has_pending(&self) -> bool {
            self.called("has_pending", true)
        }

        fn is_stalled(&self) -> bool {
            self.called("is_stalled", true)
        }

        fn take_refused(&mut self) -> Option<RefusedFrames> {
            self.called("take_refused", Some(RefusedFrames::default()))
        }

        fn take_stray(&mut self) -> u64 {
            self.called("take_stray", 15)
        }

        fn pop_fault(&mut self) -> Option<PortFault> {
            self.called("pop_fault", Some(PortFault::PeerNotReleased))
        }

        fn detach(&mut self) -> bool {
            self.called("detach", true)
        }

        fn reclaim(&mut self, _: &mut HeapMemory, _: &mut Vec<FrameId>) -> bool {
            self.called("reclaim", false)
        }

        fn reopen(&mut self, _: &mut HeapMemory) -> Option<bool> {
            self.called("reopen", Some(true))
        }

        fn close(&mut self, _: &mut HeapMemory, _: &mut Vec<FrameId>) -> bool {
            self.called("close", true)
        }

        fn report(&mut self) -> bool {
            self.called("report", false)
        }

        fn forget_report(&mut self) {
            self.called("forget_report", ());
        }

        fn kernel_counters(&self) -> KernelCounters {
            self.called("kernel_counters", KernelCounters { tx_kicks: 16, ..KernelCounters::default() })
        }

        fn reset_counters(&mut self) -> KernelCounters {
            self.called("reset_counters", KernelCounters { tx_kicks: 17, ..KernelCounters::default() })
        }

        fn frames_held(&self) -> usize {
            self.called("frames_held", 18)
        }

        fn free_frames(&self) -> usize {
            self.called("free_frames", 19)
        }

        fn poll_fds(&self, out: &mut Vec<RawFd>) {
            out.push(self.called("poll_fds", 20));
        }
    }

    /// Calls every method, and checks that each result is the port's own. Returns their number.
    fn call_all(port: &mut impl Port<Memory = HeapMemory>) -> usize {
        let (memory, frames, fds) = (&mut HeapMemory::new(1, 64), &mut Vec::new(), &mut Vec::new());
        port.receive(memory, Instant(0), 1, &mut Vec::new());
        port.take_arrivals(memory, 1, &mut Vec::new());
        port.set_min_posted(1);
        port.apply_settings(&PortSettings::new("p0", None));
        port.transmit(memory, &mut Vec::new());
        port.prepare_sleep();
        port.cancel_sleep();
        port.kick();
        port.complete(frames);
        port.take_lost(frames);
        port.forget_report();
        port.poll_fds(fds);
        assert_eq!((port.rx_waiting(), port.take_kernel_drops(), port.transmit_room()), (11, Some(12), 13));
        assert_eq!((port.blocked_queues(), port.outstanding(), port.take_stray()), (Set8::of(4), 14, 15));
        assert_eq!((port.applies_edits(), port.needs_kick(), port.is_up()), (true, true, false));
        assert_eq!((port.has_pending(), port.is_stalled()), (true, true));
        let taken = (port.take_refused(), port.pop_fault());
        assert_eq!(taken, (Some(RefusedFrames::default()), Some(PortFault::PeerNotReleased)));
        assert_eq!((port.detach(), port.reclaim(memory, frames)), (true, false));
        assert_eq!(
            (port.reopen(memory), port.close(memory, frames), port.report()),
            (Some(true), true, false)
        );
        assert_eq!((port.kernel_counters().tx_kicks, port.reset_counters().tx_kicks), (16, 17));
        assert_eq!((port.frames_held(), port.free_frames(), &fds[..]), (18, 19, &[20][..]));
        34
    }

    /// Whatever a loop asks of one of its ports, the port itself does.
    #[test]
    fn every_call_reaches_the_port() {
        let (local, other) = (Recording::default(), Recording::default());
        let ports: [LoopPort<Recording>; 2] =
            [LoopPort::Local(local.clone()), LoopPort::Other(Box::new(other.clone()))];
        for (mut port, calls) in ports.into_iter().zip([local, other]) {
            let count = call_all(&mut port);
            let mut methods: Vec<_> = std::iter::from_fn(|| calls.0.pop()).collect();
            methods.sort_unstable();
            methods.dedup();
            assert_eq!(methods.len(), count, "{methods:?}");
        }
    }
}
