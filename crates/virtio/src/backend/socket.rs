//! The socket of a port and the thread that answers on it.
//!
//! Rule: the thread serves one front end after the other, for as long as the port exists: a front
//! end that crashes, reboots its guest, or is replaced by another process connects again. A second
//! front end waits until the first is gone. A message of which only a part arrives blocks this
//! thread, and nothing else. Source: docs/vhost-user.md, "Server and client".

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{MsgFlags, recv};
use vhost::vhost_user::{BackendReqHandler, Error, VhostUserBackendReqHandlerMut};

use crate::backend::{BackEnd, Notice, report_faults};

/// Who listens on the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SocketRole {
    /// The switch: front ends connect to it.
    #[default]
    Server,
    /// The front end: the switch connects, again and again until one listens.
    Client,
}

/// How often a client tries to connect.
const RETRY_MS: u16 = 200;
/// The longest wait for the end of the thread.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often faults of the rings are looked for.
const REPORT_MS: u16 = 1000;

/// The thread of a port's socket. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketThread {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Stop {
    is_set: AtomicBool,
    event: EventFd,
    connection: Mutex<Option<UnixStream>>,
}

impl Stop {
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    fn set_connection(&self, connection: Option<UnixStream>) {
        *self.connection.lock().unwrap_or_else(PoisonError::into_inner) = connection;
    }

    /// Waits until `fd` is readable. Returns false at the end of the time, or if the thread ends.
    fn wait(&self, fd: Option<&dyn AsFd>, timeout_ms: Option<u16>) -> bool {
        let mut fds = vec![PollFd::new(self.event.as_fd(), PollFlags::POLLIN)];
        fds.extend(fd.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        let timeout = timeout_ms.map_or(PollTimeout::NONE, PollTimeout::from);
        let is_ready = poll(&mut fds, timeout).is_ok_and(|ready| ready > 0);
        is_ready && !self.is_set() && fds.get(1).is_some_and(|fd| fd.any() == Some(true))
    }
}

impl SocketThread {
    /// Starts the thread of a port on a socket.
    pub(crate) fn start(name: &str, path: PathBuf, role: SocketRole, back_end: BackEnd) -> io::Result<Self> {
        let stop = Arc::new(Stop {
            is_set: AtomicBool::new(false),
            event: EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?,
            connection: Mutex::new(None),
        });
        let listener = match role {
            SocketRole::Server => Some(listen(&path)?),
            SocketRole::Client => None,
        };
        let of_thread = Arc::clone(&stop);
        let name = format!("vhost-{name}").chars().take(15).collect();
        let thread = std::thread::Builder::new().name(name).spawn(move || match listener {
            Some(listener) => accept_all(&listener.socket, back_end, &of_thread),
            None => connect_all(&path, back_end, &of_thread),
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for SocketThread {
    fn drop(&mut self) {
        self.stop.is_set.store(true, Ordering::Release);
        let _ = self.stop.event.write(1);
        if let Some(connection) = &*self.stop.connection.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = connection.shutdown(std::net::Shutdown::Both); // ends a wait for half a message
        }
        let Some(thread) = self.thread.take() else { return };
        // It waits for the loop, if that has the rings. One that never answers must not keep the
        // process from ending.
        let end = Instant::now() + PATIENCE;
        while !thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

/// A listening socket. Dropping it removes its file, unless another has replaced that.
#[derive(Debug)]
struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of the file, which no other has while the socket is open.
    file: Option<(u64, u64)>,
}

impl Listener {
    fn bind(path: &Path) -> io::Result<Self> {
        let socket = UnixListener::bind(path)?;
        Ok(Self { socket, path: path.to_path_buf(), file: file_at(path) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.file.is_some() && file_at(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn file_at(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Opens a socket at a path, in place of one on which nobody listens.
///
/// # Errors
/// Another process listens there, or the path cannot be used.
fn listen(path: &Path) -> io::Result<Listener> {
    match Listener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        bound => return bound,
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on this socket")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && is_socket(path) => {
            std::fs::remove_file(path)?;
            Listener::bind(path)
        }
        Err(error) => Err(error),
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn accept_all(listener: &UnixListener, mut back_end: BackEnd, stop: &Stop) {
    while !stop.is_set() {
        if !stop.wait(Some(listener), None) {
            continue;
        }
        match listener.accept() {
            Ok((stream, _)) => back_end = serve(stream, back_end, stop),
            Err(error) => {
                back_end.notify(Notice::SocketError(error.to_string()));
                stop.wait(None, Some(RETRY_MS));
            }
        }
    }
}

fn connect_all(path: &Path, mut back_end: BackEnd, stop: &Stop) {
    while !stop.is_set() {
        if let Ok(stream) = UnixStream::connect(path) {
            back_end = serve(stream, back_end, stop);
        }
        stop.wait(None, Some(RETRY_MS));
    }
}

/// Serves one front end until it is gone.
fn serve(stream: UnixStream, back_end: BackEnd, stop: &Stop) -> BackEnd {
    stop.set_connection(stream.try_clone().ok());
    back_end.notify(Notice::Connected);
    let shared = Arc::new(Mutex::new(back_end));
    let reason = answer(stream, &shared, stop);
    stop.set_connection(None);
    #[expect(clippy::expect_used, reason = "the only other handle was in `answer`, which has returned")]
    let back_end = Arc::into_inner(shared).expect("the handler is gone");
    let mut back_end = back_end.into_inner().unwrap_or_else(PoisonError::into_inner);
    back_end.disconnect();
    back_end.notify(Notice::Disconnected(reason));
    back_end
}

/// Answers the messages of a connection. Returns why it ended.
fn answer(stream: UnixStream, back_end: &Arc<Mutex<BackEnd>>, stop: &Stop) -> String {
    let readable = match stream.try_clone() {
        Ok(readable) => readable,
        Err(error) => return error.to_string(),
    };
    let mut handler = BackendReqHandler::from_stream(stream, Arc::clone(back_end));
    let mut reported = 0;
    while !stop.is_set() {
        let has_message = stop.wait(Some(&readable), Some(REPORT_MS));
        report_faults(&back_end.lock().unwrap_or_else(PoisonError::into_inner), &mut reported);
        if !has_message {
            continue;
        }
        let enabled = next_set_vring_enable(&readable);
        let mut answered = handler.handle_request();
        // QEMU that connects again enables rings before it has accepted features, and not once
        // more. The crate does not pass that on.
        if let (Err(Error::InactiveFeature(_)), Some((ring, enable))) = (&answered, enabled) {
            let mut back_end = back_end.lock().unwrap_or_else(PoisonError::into_inner);
            answered = back_end.set_vring_enable(ring, enable);
        }
        match answered {
            Ok(()) => {}
            // What the message asks for is not possible, or not yet.
            Err(Error::InvalidParam | Error::InvalidOperation(_)) => {}
            Err(Error::InactiveFeature(_) | Error::InactiveOperation(_) | Error::SocketRetry(_)) => {}
            Err(Error::ReqHandlerError(_)) => {}
            Err(error) => return error.to_string(),
        }
    }
    "the port is closed".to_owned()
}

/// Returns the ring of the next message, and whether it is to be enabled, if that is what the
/// message asks for. The message stays where it is.
#[expect(clippy::indexing_slicing, reason = "five words of an array of as many")]
fn next_set_vring_enable(stream: &UnixStream) -> Option<(u32, bool)> {
    const SET_VRING_ENABLE: u32 = 18;
    const WORDS: usize = 5; // request, flags, length; ring, state
    let mut bytes = [0; 4 * WORDS];
    let peek = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    let peeked = recv(stream.as_raw_fd(), &mut bytes, peek).unwrap_or_default();
    let word = |n: usize| bytes[4 * n..4 * n + 4].try_into().map_or(0, u32::from_le_bytes);
    let enable = match word(4) {
        0 => false,
        1 => true,
        _ => return None,
    };
    (peeked == bytes.len() && word(0) == SET_VRING_ENABLE).then_some((word(3), enable))
}
