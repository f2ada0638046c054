//! The hand-over of a guest's rings between the port's control thread and its loop.
//!
//! Rule: at any time either the thread or the loop owns the rings ([`Device`]), by their
//! [`Exchange`]. The thread takes them back before it changes anything that they depend on, and the
//! loop gives them back in its next iteration, with the indices where it stopped. So the answer to
//! GET_VRING_BASE, and the unmapping of memory, come after the loop's last access. Neither side
//! locks. Source: QEMU's vhost-user protocol, "Ring states".

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::port::device::Device;
use crate::port::exchange::Exchange;
use crate::ring::fault::RingFault;

/// How often the control thread looks whether the loop has answered.
const LOOK: Duration = Duration::from_micros(50);

/// What the control thread and the loop share.
#[derive(Debug)]
pub(crate) struct Handover {
    /// The rings.
    exchange: Exchange<Box<Device>>,
    /// The loop has stopped serving the port, and the port's owner has not taken notice yet.
    pub(crate) has_detached: AtomicBool,
    /// A guest's driver is there: the link is up.
    pub(crate) is_linked: AtomicBool,
    /// Descriptors by which the guest wakes the loop, and `wake`. Each event is edge-triggered, so
    /// that no one has to read what the guest shares.
    kicks: Epoll,
    wake: EventFd,
    /// Faults since the start, and the last one.
    pub(crate) faults: AtomicU64,
    pub(crate) last_fault: AtomicU64,
}

impl Handover {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let kicks = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        kicks.add(&wake, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0))?;
        Ok(Arc::new(Self {
            exchange: Exchange::new(),
            has_detached: AtomicBool::new(false),
            is_linked: AtomicBool::new(false),
            kicks,
            wake,
            faults: AtomicU64::new(0),
            last_fault: AtomicU64::new(u64::MAX),
        }))
    }

    /// Returns the descriptor that is readable once the guest or the thread wakes the loop.
    pub(crate) fn poll_fd(&self) -> RawFd {
        self.kicks.0.as_raw_fd()
    }

    /// Adds a descriptor by which the guest wakes the loop.
    pub(crate) fn add_kick(&self, kick: impl AsFd) -> io::Result<()> {
        Ok(self.kicks.add(kick, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0))?)
    }

    /// Removes a descriptor before it is closed.
    pub(crate) fn remove_kick(&self, kick: BorrowedFd<'_>) {
        let _ = self.kicks.delete(kick); // it fails for one that was not added
    }

    /// Takes the events that woke the loop, so that it can sleep again.
    pub(crate) fn clear_events(&self) {
        let mut events = [EpollEvent::empty(); 32];
        let _ = self.kicks.wait(&mut events, EpollTimeout::ZERO);
    }

    /// Sets whether a guest's driver is there.
    pub(crate) fn set_linked(&self, is_linked: bool) {
        if self.is_linked.swap(is_linked, Ordering::AcqRel) != is_linked {
            self.notify();
        }
    }

    /// Announces news to the loop, and wakes it.
    fn notify(&self) {
        self.exchange.announce();
        self.wake();
    }

    fn wake(&self) {
        let _ = self.wake.write(1); // if its counter is full, the loop is awake
    }

    /// Gives rings to the loop.
    pub(crate) fn give(&self, device: Box<Device>) {
        self.exchange.give(device);
        self.wake();
    }

    /// Takes the rings back. Waits for the loop, if it serves the port.
    pub(crate) fn take_back(&self) -> Option<Box<Device>> {
        self.exchange.take_back(|| self.wake(), || std::thread::sleep(LOOK))
    }

    /// The loop's side: true if the thread has news.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.exchange.has_news()
    }

    /// The loop's side: gives back `device` if that is wanted, or takes a new one.
    #[cold]
    pub(crate) fn exchange(&self, device: &mut Option<Box<Device>>) {
        self.exchange.exchange(device);
    }

    /// The loop's side: it serves the port from now on.
    pub(crate) fn begin_serving(&self) {
        self.exchange.begin_serving();
    }

    /// The loop's side: it no longer serves the port, and leaves its rings to the thread, or to the
    /// loop when it serves the port again.
    pub(crate) fn end_serving(&self, device: Option<Box<Device>>) {
        if self.exchange.end_serving(device) {
            self.has_detached.store(true, Ordering::Release);
        }
    }

    /// The loop's side: notes a fault of the guest for the control thread's log.
    #[cold]
    pub(crate) fn note_fault(&self, fault: RingFault) {
        self.last_fault.store(fault as u64, Ordering::Relaxed);
        self.faults.fetch_add(1, Ordering::Release);
    }
}
