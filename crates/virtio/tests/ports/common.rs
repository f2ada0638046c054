//! A port, its driver, and their memory.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant as Wall};

use dataplane::Port;
use switch::{FrameMemory, HeapMemory, Instant, RxDesc, TxDesc};
use tempfile::TempDir;
use virtio::front_end::{FrontEnd, FrontEndSettings};
use virtio::{Notice, PortSettings, SocketRole, SocketSettings, UnsealedMemory, VhostUser, VirtioPort};

/// Frames of the memory.
pub const FRAMES: usize = 4096;

/// A port on its socket. The port is declared first: the socket's thread waits for its rings.
pub struct Bench {
    pub port: VirtioPort<HeapMemory>,
    pub socket: VhostUser,
    pub notices: Receiver<Notice>,
    pub memory: HeapMemory,
    pub path: PathBuf,
    pub now: Instant,
    _folder: TempDir,
}

pub fn settings(queue_pairs: usize) -> PortSettings {
    PortSettings {
        speed_bps: 10_000_000_000,
        sends_pfc: false,
        queue_pairs,
        cell_bytes: 256,
        batch_cells: 64,
    }
}

impl Bench {
    pub fn new(port: PortSettings) -> Self {
        Self::at(tempfile::tempdir().unwrap(), port)
    }

    /// Ends the switch, and starts another one on the same socket.
    pub fn restarted(mut self, port: PortSettings) -> Self {
        self.close();
        let Self { port: ends, socket, _folder: folder, .. } = self;
        drop((ends, socket));
        Self::at(folder, port)
    }

    fn at(folder: TempDir, port: PortSettings) -> Self {
        let path = folder.path().join("port");
        let settings = SocketSettings {
            path: path.clone(),
            role: SocketRole::Server,
            unsealed: UnsealedMemory::Refused,
        };
        let (sender, notices) = channel();
        let notify = move |notice| drop(sender.send(notice));
        let (socket, port) = VhostUser::open("test", &settings, port, notify).unwrap();
        let memory = HeapMemory::new(FRAMES, 9300);
        Self { port, socket, notices, memory, path, now: Instant(1_000_000), _folder: folder }
    }

    /// Connects a driver and opens the port.
    pub fn connect(&mut self, settings: FrontEndSettings) -> FrontEnd {
        let front_end = FrontEnd::connect(&self.path, settings).unwrap();
        self.open();
        front_end
    }

    /// Opens the port once a driver is there. In the first iteration nothing is read, as the switch
    /// has yet to advertise its pauses.
    pub fn open(&mut self) {
        until("the link is up", || self.socket.is_linked());
        assert_eq!(self.port.reopen(&mut self.memory), Some(true));
        assert!(self.receive().is_empty());
    }

    /// Receives a batch, and returns the frames with the priorities of their queues.
    pub fn receive(&mut self) -> Vec<(Option<u8>, Vec<u8>)> {
        let mut received = Vec::new();
        self.now = self.now + 1000;
        self.port.receive(&mut self.memory, self.now, 64, &mut received);
        assert!(received.len() <= 64);
        let take = |RxDesc { frame, len, priority }| {
            let bytes = self.memory.bytes(&frame, len.into()).to_vec();
            self.memory.free(frame);
            (priority, bytes)
        };
        received.into_iter().map(take).collect()
    }

    /// Sends a frame from a queue of the switch.
    pub fn send(&mut self, queue: u8, bytes: &[u8]) {
        let frame = self.memory.alloc().unwrap();
        self.memory.bytes_mut(&frame, bytes.len()).copy_from_slice(bytes);
        let desc = TxDesc { queue, ..TxDesc::new(frame, bytes.len() as u16) };
        self.port.transmit(&mut self.memory, &mut vec![desc]);
    }

    /// Returns the frames of the guest that were refused since the last call.
    pub fn refused(&mut self) -> u32 {
        let refused = self.port.take_refused().unwrap_or_default();
        refused.by_priority.iter().sum::<u32>() + refused.others
    }

    /// Frees completed frames. Returns how many completed, and how many were lost.
    pub fn complete(&mut self) -> (usize, usize) {
        let (mut completed, mut lost) = (Vec::new(), Vec::new());
        self.port.complete(&mut completed);
        self.port.take_lost(&mut lost);
        let counts = (completed.len(), lost.len());
        completed.into_iter().chain(lost).for_each(|frame| self.memory.free(frame));
        counts
    }

    /// Closes the port, and checks that every frame is free again.
    pub fn close(&mut self) {
        let mut unsent = Vec::new();
        assert!(self.port.close(&mut self.memory, &mut unsent));
        self.complete();
        unsent.into_iter().for_each(|frame| self.memory.free(frame));
        assert_eq!(self.memory.free_frames(), FRAMES, "every frame has one owner");
    }

    /// Waits for a notice that `is` accepts.
    pub fn notice(&self, what: &str, is: impl Fn(&Notice) -> bool) -> Notice {
        let end = Wall::now() + Duration::from_secs(20);
        loop {
            let left = end.saturating_duration_since(Wall::now());
            let notice = self.notices.recv_timeout(left).unwrap_or_else(|_| panic!("no notice: {what}"));
            if is(&notice) {
                return notice;
            }
        }
    }
}

/// Waits for a condition.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Wall::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Wall::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Makes a frame of `len` bytes with a number.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes());
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    for (at, byte) in bytes[18..].iter_mut().enumerate() {
        *byte = at as u8;
    }
    bytes
}
