//! How a loop sleeps, whatever puts it to sleep: the kernel, or a test in virtual time. Another
//! thread wakes it by a [`std::task::Waker`], which whoever implements this hands out.

use std::io;

use switch::Nanos;

use crate::port::Port;

/// Sleep until a port has frames, somebody calls, or time is up.
pub trait Sleeper {
    /// From now on these ports end its sleep, and no others.
    fn watch<'a, P: Port + 'a>(&mut self, ports: impl IntoIterator<Item = &'a P>);

    /// From now on the loop is to have the highest weight on its core, or an ordinary one.
    fn set_weight(&mut self, _highest: bool) {}

    /// For how long other threads had the loop's core, though the loop wanted it, since this was
    /// last asked; as long as can be where that is not known.
    fn core_taken_ns(&mut self) -> Nanos {
        Nanos::MAX
    }

    /// Sleeps for at most `timeout_ns`. True if a port or a waker ended the sleep.
    ///
    /// # Errors
    /// There is no sleeping: the kernel has no memory for it.
    fn wait(&mut self, timeout_ns: Nanos) -> io::Result<bool>;
}
