//! The interface by which a loop sleeps, in the kernel or in the virtual time of a test. Another
//! thread wakes the loop by a [`std::task::Waker`], which the implementation provides.

use std::io;

use switch::{Instant, Nanos};

use crate::port::Port;

/// A sleep that ends when a port has frames, another thread wakes the loop, or the time is up.
pub trait Sleeper {
    /// Sets the ports that end the sleep; others no longer do.
    fn watch<'a, P: Port + 'a>(&mut self, ports: impl IntoIterator<Item = &'a P>);

    /// Sets the loop's scheduling weight on its core to the highest, or to the ordinary one.
    fn set_weight(&mut self, _highest: bool) {}

    /// Returns how long other threads had the loop's core while the loop was runnable, since the
    /// last call. Returns the maximum where that is not known.
    fn core_wait_ns(&mut self) -> Nanos {
        Nanos::MAX
    }

    /// Returns how long the thread could not run during the last sleep, whatever happened: the
    /// process was stopped (SIGSTOP, the freezer of a cgroup).
    fn stopped_ns(&self) -> Nanos {
        0
    }

    /// Sleeps for at most `timeout_ns`. True if a port or a waker ended the sleep.
    ///
    /// # Errors
    /// The kernel has no memory for the sleep.
    fn wait(&mut self, timeout_ns: Nanos) -> io::Result<bool>;
}

/// Returns when a loop should have run at the latest, if it slept until then, from the end of the
/// time that it was to sleep and how long it was stopped meanwhile. A sleep is no stall, but
/// oversleeping is one, and so is a stop, since frames may have waited for all of it.
pub(crate) fn overslept(woke: Instant, due: Instant, stopped_ns: Nanos) -> Option<Instant> {
    let since = due.min(Instant(woke.0.saturating_sub(stopped_ns)));
    (woke > since).then_some(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sleeper that cannot do more than it must.
    struct Least;

    impl Sleeper for Least {
        fn watch<'a, P: Port + 'a>(&mut self, _: impl IntoIterator<Item = &'a P>) {}

        fn wait(&mut self, _: Nanos) -> io::Result<bool> {
            Ok(false)
        }
    }

    #[test]
    fn what_a_sleeper_does_not_know() {
        assert_eq!((Least.core_wait_ns(), Least.stopped_ns()), (Nanos::MAX, 0));
    }

    #[test]
    fn a_sleep_is_no_stall_but_oversleeping_and_a_stop_are() {
        let due = Instant(1000);
        for (woke, stopped_ns, expected) in [
            (900, 0, None),
            (1000, 0, None),
            (1001, 0, Some(due)),
            (900, 200, Some(Instant(700))),
            (1000, 200, Some(Instant(800))),
            (1500, 200, Some(due)),
            (1500, 700, Some(Instant(800))),
            (900, Nanos::MAX, Some(Instant(0))),
        ] {
            let since = overslept(Instant(woke), due, stopped_ns);
            assert_eq!(since, expected, "woke at {woke} ns, stopped for {stopped_ns} ns");
        }
    }
}
