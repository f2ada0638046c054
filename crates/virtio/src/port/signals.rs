//! Interrupts of a guest: which rings have something for it.
//!
//! Rule: the loop never writes to a descriptor of the guest. An eventfd whose counter is full
//! blocks its writer, and the guest can make it blocking again at any time, as both share the file
//! description. So the loop only notes the ring, and a thread of the port signals it. That thread
//! may block, and then delays only its own guest. Source: eventfd(2); docs/vhost-user.md, "Hostile
//! guests".

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::ring::MAX_RINGS;

/// Rings with something for the guest, and the thread that signals them.
#[derive(Debug)]
pub struct Signals {
    /// Rings to signal, one bit each.
    wanted: AtomicU32,
    /// Wakes the thread.
    wake: EventFd,
    ends: AtomicBool,
    calls: Mutex<[Option<Arc<File>>; MAX_RINGS]>,
}

impl Signals {
    /// Starts the thread of a port.
    ///
    /// # Errors
    /// There is no file descriptor or thread.
    pub(crate) fn start(name: &str) -> io::Result<Arc<Self>> {
        let signals = Arc::new(Self {
            wanted: AtomicU32::new(0),
            wake: EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?,
            ends: AtomicBool::new(false),
            calls: Mutex::default(),
        });
        let of_thread = Arc::clone(&signals);
        let name = format!("irq-{name}").chars().take(15).collect();
        std::thread::Builder::new().name(name).spawn(move || of_thread.run())?;
        Ok(signals)
    }

    /// Sets the descriptor by which a ring is signaled.
    pub(crate) fn set_call(&self, ring: usize, call: Option<File>) {
        let before = std::mem::replace(&mut self.calls()[ring], call.map(Arc::new));
        before.iter().for_each(|before| unblock(before));
    }

    /// Forgets all descriptors.
    pub(crate) fn clear(&self) {
        let before = std::mem::take(&mut *self.calls());
        before.iter().flatten().for_each(|before| unblock(before));
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, [Option<Arc<File>>; MAX_RINGS]> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has these rings signaled soon. Does not wait.
    #[inline]
    pub(crate) fn raise(&self, rings: u32) {
        if rings != 0 && self.wanted.fetch_or(rings, Ordering::AcqRel) == 0 {
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
            let rings = self.wanted.swap(0, Ordering::AcqRel);
            for ring in (0..MAX_RINGS).filter(|ring| rings & 1 << ring != 0) {
                // Not under the lock, as the write may block.
                let call = self.calls()[ring].clone();
                if let Some(call) = call {
                    let _ = (&*call).write(&1_u64.to_ne_bytes());
                }
            }
        }
    }
}

/// Lets a write to a descriptor that is no longer used complete, if the thread waits in one.
fn unblock(mut call: &File) {
    let _ = fcntl(call, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
    let _ = call.read(&mut [0; 8]);
}
