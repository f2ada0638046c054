//! A vhost-user port: its socket, and the port for the loop.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::backend::socket::{SocketRole, SocketThread};
use crate::backend::{BackEnd, BackEndSettings, Notice};
use crate::memory::UnsealedMemory;
use crate::port::handover::Handover;
use crate::port::signals::Signals;
use crate::port::{PortSettings, VirtioPort};

/// The settings of a port's socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketSettings {
    /// The path of the socket.
    pub path: PathBuf,
    /// Who listens on it.
    pub role: SocketRole,
    /// Whether memory is accepted that the front end can shrink.
    pub unsealed: UnsealedMemory,
}

/// The socket of a port, served by a thread of its own until this is dropped.
#[derive(Debug)]
pub struct VhostUser {
    handover: Arc<Handover>,
    /// Dropped first: it takes the rings back.
    _thread: SocketThread,
}

impl VhostUser {
    /// Opens a socket for the port of this name. `notify` receives what happens there, on the
    /// socket's thread. Returns the port as well, which is closed until a guest's driver is there
    /// and the loop opens it.
    ///
    /// # Errors
    /// The socket cannot be opened, or there are no descriptors or threads.
    pub fn open<M>(
        name: &str,
        socket: &SocketSettings,
        port: PortSettings,
        notify: impl Fn(Notice) + Send + 'static,
    ) -> io::Result<(Self, VirtioPort<M>)> {
        let handover = Handover::new()?;
        let signals = Signals::start(name)?;
        let settings = BackEndSettings { queue_pairs: port.queue_pairs, unsealed: socket.unsealed };
        let back_end = BackEnd::new(Arc::clone(&handover), signals, settings, Box::new(notify));
        let thread = SocketThread::start(name, socket.path.clone(), socket.role, back_end)?;
        let port = VirtioPort::new(Arc::clone(&handover), port);
        Ok((Self { handover, _thread: thread }, port))
    }

    /// Returns the state of the port's link.
    pub fn link(&self) -> VhostLink {
        VhostLink(Arc::clone(&self.handover))
    }

    /// True while a guest's driver is there.
    pub fn is_linked(&self) -> bool {
        self.link().is_linked()
    }
}

/// The state of a port's link, for the owner of the port's life.
#[derive(Debug, Clone)]
pub struct VhostLink(Arc<Handover>);

impl VhostLink {
    /// True while a guest's driver is there.
    pub fn is_linked(&self) -> bool {
        self.0.is_linked.load(Ordering::Acquire)
    }

    /// True if the loop has closed the port, until [`VhostLink::clear_detached`].
    pub fn has_detached(&self) -> bool {
        self.0.has_detached.load(Ordering::Acquire)
    }

    /// Takes notice that the loop has closed the port.
    pub fn clear_detached(&self) {
        self.0.has_detached.store(false, Ordering::Release);
    }
}
