//! Interrupts of a guest: which rings have something for it.
//!
//! Rule: the loop never writes to a descriptor of the guest. An eventfd whose counter is full
//! blocks its writer, and the guest can make it blocking again at any time, as both share the file
//! description. So the loop only notes the ring, and a thread of the port signals it. The thread
//! does not write to a full counter, as an interrupt is pending there. A guest that fills it in
//! between can block the thread, and then delays only itself: once the descriptor is no longer
//! used, the counter is emptied until the thread is out. That never blocks (RWF_NOWAIT), whatever
//! the guest does to the description. Source: eventfd(2), preadv2(2); docs/vhost-user.md, "Hostile
//! guests".

use std::fs::File;
use std::io::{self, IoSliceMut, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::port::calls::Calls;

/// Rings with something for the guest, and the thread that signals them.
#[derive(Debug)]
pub struct Signals {
    calls: Calls<File>,
    /// Wakes the thread.
    wake: EventFd,
    ends: AtomicBool,
}

impl Signals {
    /// Starts the thread of a port.
    ///
    /// # Errors
    /// There is no file descriptor or thread.
    pub(crate) fn start(name: &str) -> io::Result<Arc<Self>> {
        let signals = Arc::new(Self {
            calls: Calls::new(),
            wake: EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?,
            ends: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&signals);
        let name = format!("irq-{name}").chars().take(15).collect();
        std::thread::Builder::new().name(name).spawn(move || of_thread.run())?;
        Ok(signals)
    }

    /// Sets the descriptor by which a ring is signaled.
    pub(crate) fn set_call(&self, ring: usize, call: Option<File>) {
        self.calls.set(ring, call, unblock);
    }

    /// Forgets all descriptors.
    pub(crate) fn clear(&self) {
        self.calls.clear(unblock);
    }

    /// Has these rings signaled soon. Does not wait.
    #[inline]
    pub(crate) fn raise(&self, rings: u32) {
        if self.calls.want(rings) {
            let _ = self.wake.write(1); // a counter of ours that is read whenever it is not 0
        }
    }

    /// Ends the thread, as soon as no guest blocks it.
    pub(crate) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        let _ = self.wake.write(1);
    }

    fn run(&self) {
        while !self.ends.load(Ordering::Acquire) {
            if self.wake.read().is_err() {
                return;
            }
            self.calls.signal_wanted(|call| {
                if has_room(call) {
                    let _ = { call }.write(&1_u64.to_ne_bytes());
                }
            });
        }
    }
}

/// Lets a write to this eventfd complete, if one waits for room.
fn unblock(call: &File) {
    let mut counter = [0; 8];
    // It fails if the counter is 0: then the write completes by itself.
    let _ = preadv2(call, &mut [IoSliceMut::new(&mut counter)], u64::MAX, ReadWriteFlags::NOWAIT);
    std::thread::yield_now();
}

/// True if the counter of an eventfd takes one more. If not, its owner has an interrupt to see.
fn has_room(call: &File) -> bool {
    let mut fds = [PollFd::new(call.as_fd(), PollFlags::POLLOUT)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// An eventfd that blocks, and a second descriptor of it, which is the guest's.
    fn eventfd(value: u64) -> (File, File) {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(event));
        (&file).write_all(&value.to_ne_bytes()).unwrap();
        (file.try_clone().unwrap(), file)
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    /// The guest fills its counter just after the look at it. It blocks the thread until its
    /// descriptor is replaced, and the next one is signaled.
    #[test]
    #[cfg_attr(miri, ignore = "shared eventfds, written by two threads")]
    fn a_guest_that_blocks_the_thread_does_so_until_its_descriptor_is_replaced() {
        let calls = Calls::new();
        let ((full, _of_guest), (next, of_guest)) = (eventfd(u64::MAX - 1), eventfd(0));
        calls.set(0, Some(full), unblock);
        assert!(calls.want(1));
        let (began, has_begun) = channel();
        std::thread::scope(|scope| {
            // A write as the thread makes it, where `has_room` was true an instant before.
            let blocked = scope.spawn(|| {
                calls.signal_wanted(|call| {
                    began.send(()).unwrap();
                    assert_eq!({ call }.write(&1_u64.to_ne_bytes()).unwrap(), 8);
                });
            });
            has_begun.recv().unwrap();
            calls.set(0, Some(next), unblock);
            blocked.join().unwrap();
        });
        assert!(calls.want(1));
        calls.signal_wanted(|call| { call }.write_all(&1_u64.to_ne_bytes()).unwrap());
        assert!(has_counted(&of_guest));
    }

    /// To empty a counter of 0 blocks no one, whatever flags the guest sets.
    #[test]
    #[cfg_attr(miri, ignore = "shared eventfds, written by two threads")]
    fn an_empty_counter_blocks_no_one() {
        let (empty, of_guest) = eventfd(0);
        unblock(&empty);
        assert!(!has_counted(&of_guest));
    }

    /// A full counter is an interrupt that the guest has not seen yet: other rings are signaled.
    #[test]
    #[cfg_attr(miri, ignore = "shared eventfds, written by two threads")]
    fn a_full_counter_delays_no_other_ring() {
        let signals = Signals::start("test").unwrap();
        let ((full, _of_guest), (call, of_guest)) = (eventfd(u64::MAX - 1), eventfd(0));
        signals.set_call(0, Some(full));
        signals.set_call(1, Some(call));
        signals.raise(0b11);
        until(|| has_counted(&of_guest));
        signals.end();
    }

    fn has_counted(call: &File) -> bool {
        let mut fds = [PollFd::new(call.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}
