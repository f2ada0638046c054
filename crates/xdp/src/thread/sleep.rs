//! Sleep until there is work, and other thread settings of a loop.
//!
//! The watched sockets only receive: `poll` on one with frames in its TX ring would send them
//! ([`crate::port::tx_socket`]).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use dataplane::{Port, Sleeper};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use switch::Nanos;
use wire::bitset::Set64;

use crate::thread::sched::{Scheduling, set_scheduling};

/// A shorter time outside of a sleep is what the call itself takes.
const SHORTEST_STOP_NS: Nanos = 100_000;

/// Sleeps until a port has frames, another thread wakes it, or the time is up.
#[derive(Debug)]
pub struct Waiter {
    call: Arc<EventWaker>,
    /// The descriptor of the event, followed by those of the ports.
    fds: Vec<libc::pollfd>,
    /// The thread's scheduling with an ordinary weight, and with the highest.
    scheduling: Option<[Scheduling; 2]>,
    /// The kernel's count of how long the thread has waited for its core. That thread opens the
    /// file.
    schedstat: Option<File>,
    /// The count at the last read.
    waited_ns: Nanos,
    /// How long the thread was stopped during the last sleep.
    stopped_ns: Nanos,
}

/// The means by which other threads end a [`Waiter`]'s sleep.
#[derive(Debug)]
struct EventWaker(EventFd);

impl Wake for EventWaker {
    /// Wakes the loop, now or when it next sleeps.
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // It fails only after 2^64 - 2 unanswered wakeups, and then the loop is awake anyway.
        let _ = self.0.write(1);
    }
}

impl Waiter {
    /// Creates a waiter that no port wakes yet.
    ///
    /// # Errors
    /// No file descriptor is available.
    pub fn new() -> io::Result<Waiter> {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        let fds = vec![readable(event.as_raw_fd())];
        Ok(Waiter {
            call: Arc::new(EventWaker(event)),
            fds,
            scheduling: None,
            schedstat: None,
            waited_ns: 0,
            stopped_ns: 0,
        })
    }

    /// Sets the loop's scheduling for an ordinary weight and for the highest weight.
    pub fn schedule(&mut self, ordinary: Scheduling, highest: Scheduling) {
        self.scheduling = Some([ordinary, highest]);
    }

    /// Returns the waker of this waiter. It works from any thread, now or when the waiter next
    /// sleeps.
    pub fn waker(&self) -> Waker {
        Arc::clone(&self.call).into()
    }
}

impl Waiter {
    /// Returns how long the thread, ready to run, has waited for its core: the second number of its
    /// schedstat (Documentation/scheduler/sched-stats.rst). `None` where the kernel does not count
    /// that.
    fn waited_ns(&mut self) -> Option<Nanos> {
        if self.schedstat.is_none() {
            self.schedstat = File::open("/proc/thread-self/schedstat").ok();
        }
        let mut text = [0; 64];
        let len = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..len]).ok()?.split_whitespace().nth(1)?.parse().ok()
    }
}

impl Sleeper for Waiter {
    /// Must be called again after a port was closed.
    fn watch<'a, P: Port + 'a>(&mut self, ports: impl IntoIterator<Item = &'a P>) {
        let mut fds = Vec::new();
        ports.into_iter().for_each(|port| port.poll_fds(&mut fds));
        self.fds.truncate(1);
        self.fds.extend(fds.into_iter().map(readable));
    }

    fn set_weight(&mut self, highest: bool) {
        if let Some(scheduling) = self.scheduling {
            // A failure here also occurred at the start, and was reported then.
            let _ = set_scheduling(scheduling[usize::from(highest)]);
        }
    }

    fn core_wait_ns(&mut self) -> Nanos {
        let Some(waited_ns) = self.waited_ns() else { return Nanos::MAX };
        waited_ns - std::mem::replace(&mut self.waited_ns, waited_ns)
    }

    fn stopped_ns(&self) -> Nanos {
        self.stopped_ns
    }

    /// An interface that disappears does not end the sleep. A port detects that in `receive`, so
    /// the caller must bound the sleep.
    fn wait(&mut self, timeout_ns: Nanos) -> io::Result<bool> {
        let began = std::time::Instant::now();
        let (ready, left_ns) = ppoll(&mut self.fds, timeout_ns);
        let elsewhere_ns = (began.elapsed().as_nanos() as Nanos).saturating_sub(timeout_ns - left_ns);
        self.stopped_ns = if elsewhere_ns < SHORTEST_STOP_NS { 0 } else { elsewhere_ns };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        if self.fds[0].revents != 0 {
            let _ = self.call.0.read(); // it is readable, and never blocks
        }
        Ok(ready > 0)
    }
}

/// Waits until a descriptor is ready, for at most `timeout_ns`. Returns what ppoll(2) returns, and
/// what was left of the timeout.
///
/// The C library's function keeps the latter to itself. While the process is stopped the timeout
/// does not run: the kernel restarts the call with what was left.
fn ppoll(fds: &mut [libc::pollfd], timeout_ns: Nanos) -> (libc::c_long, Nanos) {
    let mut left: libc::timespec = *TimeSpec::from(Duration::from_nanos(timeout_ns)).as_ref();
    let no_mask = std::ptr::null::<libc::sigset_t>();
    // SAFETY: the list and the timeout outlive the call. A descriptor that was closed meanwhile
    // causes at worst POLLNVAL or an unnecessary wakeup.
    let ready = unsafe {
        libc::syscall(libc::SYS_ppoll, fds.as_mut_ptr(), fds.len(), &raw mut left, no_mask, 0_usize)
    };
    let left_ns = Duration::new(left.tv_sec as u64, left.tv_nsec as u32).as_nanos() as Nanos;
    (ready, left_ns.min(timeout_ns))
}

fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// A wait for frames in the sockets of ports, on another thread than their loop's.
///
/// The kernel knows of it only during the wait. An epoll set would leave an entry in the wait queue
/// of each socket permanently. Each frame that a running loop receives or completes would then run
/// its callback, under a lock.
#[derive(Debug)]
pub struct RxWatcher {
    call: Arc<EventWaker>,
    /// The descriptor of the event, followed by those of the ports.
    fds: Vec<libc::pollfd>,
    /// The port of each descriptor except the first.
    ports: Vec<usize>,
}

impl RxWatcher {
    /// Creates a watcher without sockets.
    ///
    /// # Errors
    /// No file descriptor is available.
    pub fn new() -> io::Result<Self> {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        let fds = vec![readable(event.as_raw_fd())];
        Ok(Self { call: Arc::new(EventWaker(event)), fds, ports: Vec::new() })
    }

    /// Returns the waker that ends a wait from any thread, the current wait or the next one.
    pub fn waker(&self) -> Waker {
        Arc::clone(&self.call).into()
    }

    /// Sets the watched sockets and their ports, and removes all others.
    pub fn watch<'a>(&mut self, ports: impl IntoIterator<Item = (usize, &'a [RawFd])>) {
        self.fds.truncate(1);
        self.ports.clear();
        for (port, fds) in ports {
            self.fds.extend(fds.iter().copied().map(readable));
            self.ports.extend(fds.iter().map(|_| port));
        }
    }

    /// Waits until frames are available, for at most `longest_ms`. Returns the ports that have
    /// some. In zero-copy mode the kernel wakes the driver as well, which does no harm.
    pub fn wait(&mut self, longest_ms: u8) -> Set64 {
        // SAFETY: the list outlives the call. A descriptor that was closed meanwhile causes at
        // worst POLLNVAL, or, if its number was reused, an unnecessary end of the wait.
        let ready =
            unsafe { libc::poll(self.fds.as_mut_ptr(), self.fds.len() as libc::nfds_t, longest_ms.into()) };
        if ready <= 0 {
            return Set64::EMPTY; // an interrupt signals no frame
        }
        if self.fds[0].revents != 0 {
            let _ = self.call.0.read(); // it is readable, and never blocks
        }
        let of_ports = self.fds[1..].iter().zip(&self.ports);
        of_ports.filter(|(fd, _)| fd.revents & libc::POLLIN != 0).map(|(_, &port)| port).collect()
    }
}

/// Returns the cores that the calling thread may use.
///
/// # Errors
/// None in practice.
pub fn cores() -> io::Result<Vec<usize>> {
    let cores = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|&core| cores.is_set(core).unwrap_or(false)).collect())
}

/// Keeps the calling thread, and threads that it starts from now on, off `core`, where another core
/// is available.
///
/// # Errors
/// None in practice.
pub fn exclude_core(core: usize) -> io::Result<()> {
    if cores()? == [core] {
        return Ok(());
    }
    let mut cores = sched_getaffinity(Pid::from_raw(0))?;
    cores.unset(core)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &cores)?)
}

/// Pins the calling thread to `core`.
///
/// # Errors
/// The core does not exist, or the process may not use it.
pub fn set_affinity(core: usize) -> io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &cores)?)
}

/// Limits how late the calling thread's sleeps end (the kernel's default is 50 µs); at least 1.
///
/// # Errors
/// None in practice.
pub fn set_timer_slack(slack_ns: Nanos) -> io::Result<()> {
    Ok(nix::sys::prctl::set_timerslack(slack_ns.max(1))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    #[cfg_attr(miri, ignore = "ppoll")]
    fn a_waker_wakes_once_each_time() {
        let mut waiter = Waiter::new().unwrap();
        let waker = waiter.waker();
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert!(waiter.wait(60_000_000_000).unwrap(), "woken before it slept");
        assert!(!waiter.wait(1000).unwrap(), "woken twice at once counts once");

        let thread = std::thread::spawn(move || waker.wake());
        assert!(waiter.wait(60_000_000_000).unwrap());
        thread.join().unwrap();
    }

    /// Two threads on one core, neither of which sleeps: the kernel preempts each for the other.
    #[test]
    #[cfg_attr(miri, ignore = "system calls of the scheduler")]
    fn a_thread_that_was_preempted_knows_it() {
        let is_known = Arc::new(AtomicBool::new(false));
        let other = std::thread::spawn({
            let is_known = is_known.clone();
            move || {
                set_affinity(0).unwrap();
                while !is_known.load(Relaxed) {}
            }
        });
        let sleeper = std::thread::spawn(|| {
            set_affinity(0).unwrap();
            let mut waiter = Waiter::new().unwrap();
            while waiter.core_wait_ns() == 0 {}
        });
        sleeper.join().unwrap();
        is_known.store(true, Relaxed);
        other.join().unwrap();
    }

    #[test]
    fn a_waker_can_be_shared() {
        fn assert_shared<T: Send + Sync + Clone>() {}
        assert_shared::<Waker>();
    }

    #[test]
    #[cfg_attr(miri, ignore = "system calls of the scheduler")]
    fn a_core_that_is_not_there_is_refused() {
        let thread = std::thread::spawn(|| set_affinity(1023).is_err());
        assert!(thread.join().unwrap());
    }
}
