//! How a loop sleeps, whatever puts it to sleep: the kernel, or a test in virtual time. Another thread wakes it by a
//! [`std::task::Waker`], which whoever implements this hands out.

use std::io;

use switch::Nanos;

use crate::port::Port;

/// Sleep until a port has frames, somebody calls, or time is up.
pub trait Wait {
    /// From now on these ports end its sleep, and no others.
    fn watch<'a, P: Port + 'a>(&mut self, ports: impl IntoIterator<Item = &'a P>);

    /// Others want the loop's core as well from now on, or no longer do: it may ask for more weight, or less.
    fn share_core(&mut self, _others: bool) {}

    /// Sleeps for at most `timeout_ns`. True if a port or a waker ended the sleep.
    ///
    /// # Errors
    /// There is no sleeping: the kernel has no memory for it.
    fn wait(&mut self, timeout_ns: Nanos) -> io::Result<bool>;
}
