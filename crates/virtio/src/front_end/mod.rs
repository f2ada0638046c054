//! A virtio driver and its vhost-user front end in one process: what a guest and its hypervisor
//! are, for hosts without a guest and for tests.
//!
//! Rule: each descriptor has a buffer of its own. All posted buffers are given to the device, and a
//! queue whose buffers are all with the device takes no frame: the device does not read it, which
//! is how it pauses a priority. Source: Virtual I/O Device 1.2, 5.1.6; QEMU's vhost-user protocol.

pub mod driver_queue;
pub mod port;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;

use crate::backend::feature;
use crate::front_end::driver_queue::DriverQueue;
use crate::memory::{GuestMemory, RegionSpec, UnsealedMemory};
use crate::port::device::{rx_ring, tx_ring};

/// Where the memory begins in the guest. Not 0, as an address of 0 is a common mistake.
const GUEST_ADDR: u64 = 0x4000_0000;
/// Where the memory begins for the front end. It need not be where it is mapped: the back end only
/// compares.
const USER_ADDR: u64 = 0x7f00_0000_0000;
/// Bytes of the virtio header.
const HEADER: usize = 12;
/// Where the header has the number of buffers.
const BUFFERS_AT: usize = 10;

/// The settings of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrontEndSettings {
    /// Number of queue pairs to use, if the device has as many.
    pub queue_pairs: usize,
    /// Descriptors of each ring.
    pub ring_size: u16,
    /// Buffers that it keeps posted to receive, at most as many as the ring has descriptors.
    pub posted: u16,
    /// Bytes of each buffer, with the virtio header.
    pub buffer_bytes: u32,
    /// Uses event indices.
    pub event_index: bool,
    /// Posts buffers that frames may be spread over.
    pub mergeable: bool,
    /// May use tables of descriptors.
    pub indirect: bool,
    /// Seals its memory against shrinking, as the switch requires.
    pub sealed: bool,
}

impl Default for FrontEndSettings {
    fn default() -> Self {
        Self {
            queue_pairs: 1,
            ring_size: 256,
            posted: u16::MAX,
            buffer_bytes: 2048,
            event_index: true,
            mergeable: true,
            indirect: false,
            sealed: true,
        }
    }
}

/// A queue pair of the driver.
#[derive(Debug)]
struct Pair {
    rx: DriverQueue,
    tx: DriverQueue,
    /// Descriptors of `tx` whose buffers are free.
    free: Vec<u16>,
    kicks: [EventFd; 2],
    calls: [EventFd; 2],
}

/// A driver whose device is a port of the switch.
pub struct FrontEnd {
    front_end: Frontend,
    /// The connection, to see its end.
    stream: UnixStream,
    settings: FrontEndSettings,
    memory: Arc<GuestMemory>,
    file: File,
    memory_bytes: u64,
    pairs: Vec<Pair>,
}

impl std::fmt::Debug for FrontEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FrontEnd of {} queue pairs", self.pairs.len())
    }
}

fn failed(error: impl ToString) -> io::Error {
    io::Error::other(error.to_string())
}

impl FrontEnd {
    /// Connects to a port's socket, and starts the queues.
    ///
    /// # Errors
    /// Nobody listens there, or the port refuses the rings.
    pub fn connect(path: &Path, settings: FrontEndSettings) -> io::Result<Self> {
        Self::start(UnixStream::connect(path)?, settings)
    }

    /// Starts the queues on a connection.
    ///
    /// # Errors
    /// The port refuses the rings.
    pub fn start(stream: UnixStream, settings: FrontEndSettings) -> io::Result<Self> {
        let mut this = Self::prepare(stream, settings)?;
        this.start_rings()?;
        Ok(this)
    }

    /// Connects without starting the queues, for tests of the protocol.
    ///
    /// # Errors
    /// There is no memory or descriptor.
    pub fn prepare(stream: UnixStream, settings: FrontEndSettings) -> io::Result<Self> {
        let FrontEndSettings { queue_pairs, ring_size, buffer_bytes, .. } = settings;
        let of_a_ring = DriverQueue::bytes(ring_size).next_multiple_of(4096)
            + (u64::from(ring_size) * u64::from(buffer_bytes)).next_multiple_of(4096);
        let memory_bytes = of_a_ring * 2 * queue_pairs as u64;
        let file =
            File::from(memfd_create(c"virtio-driver", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
        file.set_len(memory_bytes)?;
        if settings.sealed {
            fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK))?;
        }
        let spec = RegionSpec {
            guest_addr: GUEST_ADDR,
            user_addr: USER_ADDR,
            len_bytes: memory_bytes,
            file_offset: 0,
        };
        let memory = GuestMemory::map(&[(spec, file.try_clone()?)], UnsealedMemory::Allowed);
        let memory = Arc::new(memory.map_err(failed)?);
        let ring = |number: usize| {
            let layout = DriverQueue::layout(ring_size, USER_ADDR + of_a_ring * number as u64);
            let config = crate::ring::RingConfig { event_index: settings.event_index, ..layout };
            DriverQueue::new(&memory, &config).ok_or_else(|| failed("the layout of a ring"))
        };
        let event = || EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
        let pair = |pair| {
            Ok(Pair {
                rx: ring(rx_ring(pair))?,
                tx: ring(tx_ring(pair))?,
                free: (0..ring_size).rev().collect(),
                kicks: [event()?, event()?],
                calls: [event()?, event()?],
            })
        };
        let pairs = (0..queue_pairs).map(pair).collect::<io::Result<Vec<_>>>()?;
        let front_end = Frontend::from_stream(stream.try_clone()?, 2 * queue_pairs as u64);
        Ok(Self { front_end, stream, settings, memory, file, memory_bytes, pairs })
    }

    /// Negotiates features, shares the memory, and starts and enables all rings.
    ///
    /// # Errors
    /// The port refuses something.
    pub fn start_rings(&mut self) -> io::Result<()> {
        for pair in 0..self.pairs.len() {
            self.post_all(pair);
        }
        self.start_posted()
    }

    /// Connects again to a port's socket, with the same memory and rings, as the front end of a
    /// guest does that outlives its switch. Each ring goes on after what the last switch has used.
    ///
    /// # Errors
    /// As for [`FrontEnd::connect`].
    pub fn reconnect(&mut self, path: &Path) -> io::Result<()> {
        self.stream = UnixStream::connect(path)?;
        self.front_end = Frontend::from_stream(self.stream.try_clone()?, 2 * self.pairs.len() as u64);
        for pair in &mut self.pairs {
            pair.rx.resume();
            pair.tx.resume();
        }
        self.start_posted()
    }

    fn start_posted(&mut self) -> io::Result<()> {
        self.negotiate()?;
        self.share_memory()?;
        for pair in 0..self.pairs.len() {
            self.start_pair(pair)?;
        }
        for ring in 0..2 * self.pairs.len() {
            self.front_end.set_vring_enable(ring, true).map_err(failed)?;
        }
        Ok(())
    }

    /// Negotiates features.
    ///
    /// # Errors
    /// The port lacks one, or refuses those that it offered.
    pub fn negotiate(&mut self) -> io::Result<()> {
        self.front_end.set_owner().map_err(failed)?;
        let offered = self.front_end.get_features().map_err(failed)?;
        let mut wanted = feature::VERSION_1 | feature::PROTOCOL;
        wanted |= if self.settings.mergeable { feature::MERGEABLE } else { 0 };
        wanted |= if self.settings.event_index { feature::EVENT_INDEX } else { 0 };
        wanted |= if self.settings.indirect { feature::INDIRECT } else { 0 };
        wanted |= if self.pairs.len() > 1 { feature::MULTI_QUEUE } else { 0 };
        if wanted & !offered != 0 {
            return Err(failed(format!("the port does not offer features {:#x}", wanted & !offered)));
        }
        let protocol = self.front_end.get_protocol_features().map_err(failed)?;
        let wanted_protocol = VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK;
        self.front_end.set_protocol_features(protocol & wanted_protocol).map_err(failed)?;
        self.front_end.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        // The number of queues is not asked for: the crate takes the answer, which is of pairs, for
        // that of rings.
        self.front_end.set_features(wanted).map_err(failed)
    }

    /// Shares the memory.
    ///
    /// # Errors
    /// The port refuses it.
    pub fn share_memory(&mut self) -> io::Result<()> {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: GUEST_ADDR,
            memory_size: self.memory_bytes,
            userspace_addr: USER_ADDR,
            mmap_offset: 0,
            mmap_handle: self.file.as_raw_fd(),
        };
        self.front_end.set_mem_table(&[region]).map_err(failed).map(drop)
    }

    /// Starts both rings of a pair.
    ///
    /// # Errors
    /// The port refuses one.
    pub fn start_pair(&mut self, pair: usize) -> io::Result<()> {
        for (at, ring) in [rx_ring(pair), tx_ring(pair)].into_iter().enumerate() {
            let queue = if at == 0 { &self.pairs[pair].rx } else { &self.pairs[pair].tx };
            let config = *queue.config();
            let data = VringConfigData {
                queue_max_size: config.size,
                queue_size: config.size,
                flags: 0,
                desc_table_addr: config.descriptors,
                used_ring_addr: config.used,
                avail_ring_addr: config.available,
                log_addr: None,
            };
            let front_end = &self.front_end;
            front_end.set_vring_num(ring, config.size).map_err(failed)?;
            front_end.set_vring_addr(ring, &data).map_err(failed)?;
            front_end.set_vring_base(ring, config.base).map_err(failed)?;
            front_end.set_vring_call(ring, &self.pairs[pair].calls[at]).map_err(failed)?;
            front_end.set_vring_kick(ring, &self.pairs[pair].kicks[at]).map_err(failed)?;
        }
        Ok(())
    }

    /// Returns the front end, for tests of the protocol.
    pub fn protocol(&mut self) -> &mut Frontend {
        &mut self.front_end
    }

    /// Returns the memory file, for tests of what happens to it.
    pub fn memory_file(&self) -> &File {
        &self.file
    }

    /// Returns the rings of a pair, in which the guest receives and sends, for tests.
    pub fn rings(&mut self, pair: usize) -> [&mut DriverQueue; 2] {
        let Pair { rx, tx, .. } = &mut self.pairs[pair];
        [rx, tx]
    }

    /// Returns the number of descriptors of each ring.
    pub fn ring_size(&self) -> usize {
        self.settings.ring_size.into()
    }

    /// True unless the other end has closed the connection.
    pub fn is_connected(&self) -> bool {
        let mut fds = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        let ended = PollFlags::POLLHUP | PollFlags::POLLERR;
        poll(&mut fds, PollTimeout::ZERO).is_ok() && fds[0].revents().is_none_or(|is| !is.intersects(ended))
    }

    /// Returns the descriptor that becomes readable at the end of the connection.
    pub fn socket_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Returns the number of queue pairs.
    pub fn queue_pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Posts the buffers of a pair, to receive.
    fn post_all(&mut self, pair: usize) {
        for index in 0..self.settings.ring_size.min(self.settings.posted) {
            let addr = self.buffer(rx_ring(pair), index);
            let len = self.settings.buffer_bytes;
            let rx = &mut self.pairs[pair].rx;
            rx.write_descriptor(index, addr, (len, 2, 0));
            rx.push(index);
        }
        self.pairs[pair].rx.publish();
    }

    /// Returns the guest address of a buffer of a ring, for tests.
    pub fn buffer_addr(&self, ring: usize, index: u16) -> u64 {
        self.buffer(ring, index)
    }

    /// Writes a buffer of the ring from which a pair sends, for tests.
    pub fn write_buffer(&self, pair: usize, index: u16, bytes: &[u8]) {
        let addr = self.buffer(tx_ring(pair), index);
        if let Some(to) = self.memory.at_guest(addr, self.settings.buffer_bytes) {
            to.write(0, bytes);
        }
    }

    /// Returns the guest address of a buffer.
    fn buffer(&self, ring: usize, index: u16) -> u64 {
        let FrontEndSettings { ring_size, buffer_bytes, .. } = self.settings;
        let of_rings = DriverQueue::bytes(ring_size).next_multiple_of(4096);
        let of_a_ring = of_rings + (u64::from(ring_size) * u64::from(buffer_bytes)).next_multiple_of(4096);
        GUEST_ADDR + of_a_ring * ring as u64 + of_rings + u64::from(index) * u64::from(buffer_bytes)
    }

    /// Returns how many frames of one buffer each a queue takes now.
    pub fn send_room(&mut self, pair: usize) -> usize {
        let Pair { tx, free, .. } = &mut self.pairs[pair];
        while let Some((head, _)) = tx.pop_used() {
            free.push(head as u16);
        }
        free.len()
    }

    /// Puts a frame into a queue, in as many buffers as it needs. Returns false if there are not
    /// enough. The device sees it with [`FrontEnd::flush`].
    pub fn send(&mut self, pair: usize, frame: &[u8]) -> bool {
        let size = self.settings.buffer_bytes as usize;
        let total = HEADER + frame.len();
        let buffers = total.div_ceil(size);
        if self.send_room(pair) < buffers {
            return false;
        }
        // A long frame uses the buffers of the descriptors after its head as one chain. They return
        // with the head, so they are kept with it: a frame of several buffers takes neighbors.
        if buffers > 1 {
            return self.send_long(pair, frame, buffers);
        }
        let Some(index) = self.pairs[pair].free.pop() else { return false };
        let addr = self.buffer(tx_ring(pair), index);
        if let Some(bytes) = self.memory.at_guest(addr, size as u32) {
            bytes.write(0, &[0; HEADER]);
            bytes.write(HEADER, frame);
        }
        let tx = &mut self.pairs[pair].tx;
        tx.write_descriptor(index, addr, (total as u32, 0, 0));
        tx.push(index);
        true
    }

    /// Sends a frame of several buffers, and waits until the device has read it, as its buffers do
    /// not return by themselves.
    fn send_long(&mut self, pair: usize, frame: &[u8], buffers: usize) -> bool {
        let size = self.settings.buffer_bytes as usize;
        if self.pairs[pair].free.len() < self.settings.ring_size.into() {
            return false; // one at a time, with all buffers back
        }
        let bytes = [&[0; HEADER][..], frame].concat();
        for (n, part) in bytes.chunks(size).enumerate() {
            let (index, is_last) = (n as u16, n + 1 == buffers);
            let addr = self.buffer(tx_ring(pair), index);
            if let Some(bytes) = self.memory.at_guest(addr, size as u32) {
                bytes.write(0, part);
            }
            let flags = if is_last { 0 } else { 1 };
            self.pairs[pair].tx.write_descriptor(index, addr, (part.len() as u32, flags, index + 1));
        }
        self.pairs[pair].free.retain(|&index| index != 0);
        self.pairs[pair].tx.push(0);
        true
    }

    /// Shows the device what was sent on a queue, and kicks it if it sleeps.
    pub fn flush(&mut self, pair: usize) {
        let Pair { tx, kicks, .. } = &mut self.pairs[pair];
        if tx.publish() {
            let _ = kicks[1].write(1);
        }
    }

    /// Kicks the device although nothing was sent, for tests.
    pub fn kick(&self, pair: usize) {
        let _ = self.pairs[pair].kicks[1].write(1);
    }

    /// Takes the next frame received on a queue into `out`. Returns false if there is none.
    pub fn receive(&mut self, pair: usize, out: &mut Vec<u8>) -> bool {
        out.clear();
        let mut left = 1;
        while left > 0 {
            let Some((index, written)) = self.pairs[pair].rx.pop_used() else { return !out.is_empty() };
            let addr = self.buffer(rx_ring(pair), index as u16);
            let start = out.len();
            if let Some(bytes) = self.memory.at_guest(addr, self.settings.buffer_bytes) {
                out.resize(start + (written as usize).min(bytes.len()), 0);
                bytes.read(0, &mut out[start..]);
            }
            if start == 0 && out.len() >= HEADER {
                left = usize::from(u16::from_le_bytes([out[BUFFERS_AT], out[BUFFERS_AT + 1]])).max(1);
            }
            left -= 1;
            self.pairs[pair].rx.push(index as u16);
        }
        out.drain(..HEADER.min(out.len()));
        true
    }

    /// Gives received buffers back to the device, and kicks it if it waits for them.
    pub fn repost(&mut self, pair: usize) {
        let Pair { rx, kicks, .. } = &mut self.pairs[pair];
        if rx.publish() {
            let _ = kicks[0].write(1);
        }
    }

    /// True if a frame was received on some queue, or one that was sent has been read. Both end a
    /// sleep, as a queue that was full has room again.
    pub fn has_used(&self) -> bool {
        self.pairs.iter().any(|pair| pair.rx.has_used() || pair.tx.has_used())
    }

    /// Sets whether used buffers, of received and of sent frames, make a descriptor of
    /// [`FrontEnd::poll_fds`] readable.
    pub fn set_interrupts(&mut self, wanted: bool) {
        for pair in &mut self.pairs {
            pair.rx.set_interrupts(wanted);
            pair.tx.set_interrupts(wanted);
            if !wanted {
                pair.calls.iter().for_each(|call| drop(call.read()));
            }
        }
    }

    /// Takes the interrupts so far. Returns how many there were.
    pub fn take_interrupts(&mut self) -> u64 {
        let calls = self.pairs.iter().flat_map(|pair| &pair.calls);
        calls.map(|call| call.read().unwrap_or(0)).sum()
    }

    /// Fills the counters of the interrupts, so that the next one blocks, for tests.
    pub fn fill_interrupts(&mut self) {
        for call in self.pairs.iter().flat_map(|pair| &pair.calls) {
            let _ = call.read();
            let _ = call.write(u64::MAX - 1);
            // SAFETY: plain system call; from now on writes block, for all who share the file.
            unsafe { libc::fcntl(call.as_raw_fd(), libc::F_SETFL, 0) };
        }
    }

    /// Returns the descriptors that become readable when a frame is received, or sent.
    pub fn poll_fds(&self, out: &mut Vec<RawFd>) {
        out.extend(self.pairs.iter().flat_map(|pair| &pair.calls).map(|call| call.as_raw_fd()));
    }
}
