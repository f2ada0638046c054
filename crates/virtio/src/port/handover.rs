//! The hand-over of a guest's rings between the port's control thread and its loop.
//!
//! Rule: there is one token, the rings ([`Device`]). From [`Handover::give`] until the thread has
//! it again it is in exactly one place: on its way to the loop, with the loop, or on its way back.
//! The thread takes it back before it changes anything that the rings depend on. It waits until it
//! finds the token on either way, and while it wants the token the loop takes it from neither. So
//! whether the loop serves the port, stops to, or begins again at that instant makes no difference,
//! and the answer to GET_VRING_BASE, and the unmapping of memory, come after the loop's last
//! access. Neither side locks. Source: QEMU's vhost-user protocol, "Ring states".

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam::queue::ArrayQueue;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::port::device::Device;
use crate::ring::fault::RingFault;

/// How often the control thread looks whether the loop has answered.
const LOOK: Duration = Duration::from_micros(50);

/// What the control thread and the loop share.
#[derive(Debug)]
pub(crate) struct Handover {
    to_loop: ArrayQueue<Box<Device>>,
    to_control: ArrayQueue<Box<Device>>,
    /// The thread has given the rings away, and not taken them back. Only the thread uses it.
    is_given: AtomicBool,
    /// The thread wants the rings back, or has given some.
    pub(crate) has_news: AtomicBool,
    wants_back: AtomicBool,
    /// The loop serves the port, and so answers.
    is_served: AtomicBool,
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
            to_loop: ArrayQueue::new(1),
            to_control: ArrayQueue::new(1),
            is_given: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
            wants_back: AtomicBool::new(false),
            is_served: AtomicBool::new(false),
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

    fn notify(&self) {
        self.has_news.store(true, Ordering::Release);
        let _ = self.wake.write(1); // if its counter is full, the loop is awake
    }

    /// Gives rings to the loop.
    pub(crate) fn give(&self, device: Box<Device>) {
        let was_given = self.is_given.swap(true, Ordering::Relaxed);
        let taken = self.to_loop.push(device);
        debug_assert!(!was_given && taken.is_ok(), "the thread had the rings");
        self.notify();
    }

    /// Takes the rings back, if they were given. Waits for the loop, if it has them.
    pub(crate) fn take_back(&self) -> Option<Box<Device>> {
        if !self.ask_back() {
            return None;
        }
        loop {
            if let Some(device) = self.try_take() {
                return Some(device);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Asks for the rings. Returns false if they were not given.
    fn ask_back(&self) -> bool {
        let is_given = self.is_given.load(Ordering::Relaxed);
        if is_given {
            self.wants_back.store(true, Ordering::SeqCst);
            self.notify();
        }
        is_given
    }

    /// Takes the rings that were asked for, if the loop does not have them.
    fn try_take(&self) -> Option<Box<Device>> {
        let device = self.to_loop.pop().or_else(|| self.to_control.pop())?;
        self.wants_back.store(false, Ordering::SeqCst);
        self.is_given.store(false, Ordering::Relaxed);
        Some(device)
    }

    /// The loop's side: gives back `device` if that is wanted, or takes a new one.
    #[cold]
    pub(crate) fn exchange(&self, device: &mut Option<Box<Device>>) {
        // Cleared first: a wish that comes now is news of the next iteration.
        self.has_news.store(false, Ordering::SeqCst);
        if self.wants_back.load(Ordering::SeqCst) {
            if let Some(device) = device.take() {
                let _ = self.to_control.push(device);
            }
        } else if device.is_none() {
            *device = self.to_loop.pop();
        }
    }

    /// The loop's side: it serves the port from now on.
    pub(crate) fn begin_serving(&self) {
        self.is_served.store(true, Ordering::SeqCst);
        self.has_news.store(true, Ordering::SeqCst);
    }

    /// The loop's side: it no longer serves the port, and puts its rings where the thread, or the
    /// loop when it serves the port again, finds them. A thread that waits for them finds them, too.
    pub(crate) fn end_serving(&self, device: Option<Box<Device>>) {
        if let Some(device) = device {
            let _ = self.to_loop.push(device);
        }
        if self.is_served.swap(false, Ordering::SeqCst) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::signals::Signals;

    fn device() -> Box<Device> {
        let signals = Signals::start("test").unwrap();
        Box::new(Device { rings: Default::default(), header_bytes: 12, mergeable: true, signals })
    }

    /// The loop closes the port and opens it again while the thread waits for the rings. It must
    /// not take them once more: the thread would go on without them.
    #[test]
    fn a_port_that_is_reopened_leaves_the_rings_to_the_thread() {
        let handover = Handover::new().unwrap();
        handover.give(device());
        let mut of_loop = None;
        handover.begin_serving();
        handover.exchange(&mut of_loop);
        assert!(of_loop.is_some() && handover.ask_back());
        handover.end_serving(of_loop.take());
        handover.begin_serving();
        handover.exchange(&mut of_loop);
        assert!(of_loop.is_none(), "the thread waits for them");
        let mut device = handover.try_take().expect("the rings");
        device.header_bytes = 10;
        handover.give(device);
        handover.exchange(&mut of_loop);
        assert_eq!(of_loop.map(|device| device.header_bytes), Some(10), "the rings as they are now");
    }

    #[test]
    fn rings_that_were_not_given_are_not_waited_for() {
        let handover = Handover::new().unwrap();
        handover.begin_serving();
        assert!(handover.take_back().is_none());
        handover.give(device());
        assert!(handover.take_back().is_some(), "the loop never saw them");
        assert!(handover.take_back().is_none());
    }

    /// A loop that opens and closes its port at random beside a thread that takes the rings and
    /// gives them: there is one token at any time, and each take finds what the loop left.
    #[test]
    fn one_token_whatever_both_do() {
        const TAKES: u64 = 5000;
        let handover = Handover::new().unwrap();
        let (ends, counted) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut random, mut of_loop, mut serves) = (fastrand::Rng::with_seed(3), None, false);
                while !ends.load(Ordering::Acquire) {
                    match random.u8(..16) {
                        0 if serves => handover.end_serving(of_loop.take()),
                        0 => handover.begin_serving(),
                        _ if serves && handover.has_news.load(Ordering::Relaxed) => {
                            handover.exchange(&mut of_loop);
                            continue;
                        }
                        _ => {
                            // What the loop does with the rings: only it has them.
                            if let Some(device) = &mut of_loop {
                                let device: &mut Box<Device> = device;
                                device.header_bytes += 1;
                                counted.fetch_add(1, Ordering::Relaxed);
                            }
                            continue;
                        }
                    }
                    serves = !serves;
                }
                handover.end_serving(of_loop.take());
            });
            handover.give(device());
            for _ in 0..TAKES {
                let mut device = handover.take_back().expect("the only token");
                assert!(handover.to_loop.is_empty() && handover.to_control.is_empty());
                assert_eq!(device.header_bytes as u64, 12 + counted.load(Ordering::Relaxed));
                device.mergeable = !device.mergeable;
                handover.give(device);
            }
            ends.store(true, Ordering::Release);
        });
        assert!(handover.take_back().is_some());
    }
}
