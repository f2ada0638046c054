//! A switch with all around it, for tests: memory, time, the "kernel" that takes frames and
//! completes them, and what was seen to leave.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::HashMap;

use switch::settings::{
    Alpha, BridgeSettings, BufferSettings, GroupSettings, PRIORITIES, PortSettings, QueueSettings,
    SwitchSettings, Threshold,
};
use switch::{FrameMemory, Instant, RxDesc, Snapshot, Switch, TxDesc, frames_needed};
use wire::ethernet::{EXPERIMENTAL, Header, MAC_CONTROL, Tag, write_header};
use wire::mac::MacAddr;
use wire::pause::{self, Control, Pfc};

pub mod memory;
use memory::ChunkedMemory;

/// The address of the host on port `n`.
pub fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 9, n as u8])
}

/// A priority group without limits of its own but what the pool has; lossy.
pub const OPEN: GroupSettings = GroupSettings {
    pool: 0,
    reserved_cells: 0,
    xoff: Threshold::Dynamic(Alpha::MAX),
    xon_offset_cells: 0,
    resume_cells: 0,
    headroom_cells: 0,
};

/// `ports` ports with PFC for the priorities of `no_drop`, all other groups open, in a buffer
/// without fixed area; frames wait only where a port is held or paused.
pub fn settings(ports: usize, no_drop: u8, shared_cells: u32, headroom_cells: u32) -> SwitchSettings {
    let ports = (0..ports).map(|n| {
        let mut port = PortSettings::new(format!("p{n}"), None);
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, no_drop);
        port.groups = [OPEN; PRIORITIES];
        port.in_flight_bytes = u32::MAX;
        port
    });
    SwitchSettings {
        buffer: BufferSettings {
            total_cells: shared_cells + headroom_cells,
            fixed_cells: 0,
            headroom_cells,
            ..BufferSettings::default()
        },
        bridge: BridgeSettings { max_entries: 64, ..BridgeSettings::default() },
        usage_percent: 100,
        alarms: Default::default(),
        seed: 0,
        ports: ports.collect(),
    }
}

/// A queue with nothing guaranteed and this most of shared cells.
pub fn queue_of(shared: Threshold) -> QueueSettings {
    let guaranteed = switch::settings::Guaranteed::Percent(0);
    QueueSettings { guaranteed, shared: Some(shared), ..QueueSettings::default() }
}

/// A frame of `len` bytes as the tests send it: tagged with a priority, to `dst`, numbered.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Port that it comes in on, from the host of that port.
    pub port: usize,
    /// Destination.
    pub dst: MacAddr,
    /// PCP of its tag.
    pub priority: u8,
    /// Bytes without FCS, at least 28.
    pub len: u16,
}

/// The switch with all around it.
pub struct Lab {
    pub switch: Switch,
    pub memory: ChunkedMemory,
    /// Frames of the memory.
    pub frames: usize,
    pub now: Instant,
    pub with_kernel: Vec<Vec<TxDesc>>,
    pub sent: u64,
    pub sequence: u64,
    /// PFC frames seen to leave each port since they were last taken.
    pub pfc: Vec<Vec<Pfc>>,
    /// The times of PAUSE frames seen to leave each port.
    pub pauses: Vec<Vec<u16>>,
    /// Last sequence number that left, by (source port, priority, egress port), and whether it was
    /// to a group address.
    last: HashMap<(u8, u8, usize, bool), u64>,
    /// Frames to group addresses have a map of their own, and with it another order than unicast.
    multicast_apart: bool,
    snapshot: Snapshot,
}

impl Lab {
    /// A switch whose hosts are all known to the bridge.
    pub fn new(settings: &SwitchSettings) -> Self {
        Self::with_frames(settings, 9216)
    }

    /// … for frames of at most `frame_bytes`.
    pub fn with_frames(settings: &SwitchSettings, frame_bytes: usize) -> Self {
        let ports = settings.ports.len();
        let frames = frames_needed(settings, usize::MAX) + 64;
        let macs: Vec<_> = (0..ports).map(mac).collect();
        let mut lab = Self {
            switch: Switch::new(settings, &macs, frames),
            memory: ChunkedMemory::new(frames, frame_bytes),
            frames,
            now: Instant(1_000_000),
            with_kernel: (0..ports).map(|_| Vec::new()).collect(),
            sent: 0,
            sequence: 0,
            pfc: vec![Vec::new(); ports],
            pauses: vec![Vec::new(); ports],
            last: HashMap::new(),
            multicast_apart: settings.bridge.multicast_to_queue.is_some(),
            snapshot: Snapshot::default(),
        };
        for port in 0..ports {
            // To itself: the bridge learns the source and forwards nothing.
            lab.arrive(Frame { port, dst: mac(port), priority: 0, len: 64 });
        }
        lab
    }

    /// There are so many places of ports now.
    pub fn plug(&mut self, places: usize) {
        self.with_kernel.resize_with(places, Vec::new);
        self.pfc.resize(places, Vec::new());
        self.pauses.resize(places, Vec::new());
    }

    /// A frame comes in.
    pub fn arrive(&mut self, Frame { port, dst, priority, len }: Frame) {
        let frame = self.memory.alloc().expect("accounting refuses before memory runs out");
        let bytes = self.memory.bytes_mut(&frame, usize::from(len));
        bytes.fill(0);
        let at = write_header(bytes, dst, mac(port), Some(Tag::priority(priority)), EXPERIMENTAL);
        self.sequence += 1;
        bytes[at..at + 8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[at + 8..at + 10].copy_from_slice(&[port as u8, priority]);
        self.switch.receive(port, RxDesc { frame, len }, self.now, &mut self.memory);
    }

    /// A frame of these bytes comes in.
    pub fn arrive_bytes(&mut self, port: usize, bytes: &[u8]) {
        let frame = self.memory.alloc().expect("accounting refuses before memory runs out");
        self.memory.fill(&frame, bytes);
        let received = RxDesc { frame, len: bytes.len() as u16 };
        self.switch.receive(port, received, self.now, &mut self.memory);
    }

    /// The host of `port` sends a PFC frame.
    pub fn send_pfc(&mut self, port: usize, pfc: Pfc) {
        let Some(frame) = self.memory.alloc() else { return };
        pfc.encode(mac(200), self.memory.bytes_mut(&frame, 60).try_into().expect("60 bytes"));
        self.switch.receive(port, RxDesc { frame, len: 60 }, self.now, &mut self.memory);
    }

    /// What may leave `port` goes to the kernel, at most `room` frames.
    pub fn transmit(&mut self, port: usize, room: usize) {
        let mut out = Vec::new();
        let has_edits = self.switch.transmit(port, room, self.now, &mut self.memory, &mut out);
        for outgoing in &out {
            assert!(has_edits || outgoing.edit.is_none(), "{outgoing:?}");
            outgoing.edit.make(&mut self.memory, &outgoing.frame, outgoing.len);
            let bytes = self.memory.all(&outgoing.frame, usize::from(outgoing.len));
            let header = Header::parse(bytes).expect("a whole frame");
            if header.ethertype == MAC_CONTROL {
                match pause::decode(bytes) {
                    Ok(Control::Pfc(pfc)) => self.pfc[port].push(pfc),
                    Ok(Control::Pause { quanta }) => self.pauses[port].push(quanta),
                    other => panic!("{other:?}: {bytes:?}"),
                }
            } else if header.ethertype == EXPERIMENTAL {
                let at = header.payload_offset;
                let sequence = u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
                let apart = self.multicast_apart && header.dst.is_group();
                let flow = (bytes[at + 8], bytes[at + 9], port, apart);
                let last = self.last.insert(flow, sequence).unwrap_or(0);
                assert!(sequence > last, "frames {last} and {sequence} of one flow changed places (§7.4)");
            }
        }
        self.with_kernel[port].extend(out);
    }

    /// The kernel has sent the first `frames` frames that `port` gave it.
    pub fn complete(&mut self, port: usize, frames: usize) {
        let frames = frames.min(self.with_kernel[port].len());
        for outgoing in self.with_kernel[port].drain(..frames) {
            self.sent += 1;
            self.switch.complete(port, outgoing.frame, self.now, &mut self.memory);
        }
    }

    /// The kernel has lost the first `frames` frames that `port` gave it.
    pub fn lose(&mut self, port: usize, frames: usize) {
        let frames = frames.min(self.with_kernel[port].len());
        for outgoing in self.with_kernel[port].drain(..frames) {
            self.switch.kernel_lost(port, outgoing.frame, self.now, &mut self.memory);
        }
    }

    /// The kernel has sent the PFC frames of `port`.
    pub fn complete_pfc(&mut self, port: usize) {
        let (pfc, data) = std::mem::take(&mut self.with_kernel[port]).into_iter().partition(|outgoing| {
            let header = Header::parse(self.memory.bytes(&outgoing.frame, usize::from(outgoing.len)));
            header.is_ok_and(|header| header.ethertype == MAC_CONTROL)
        });
        self.with_kernel[port] = pfc;
        self.complete(port, usize::MAX);
        self.with_kernel[port] = data;
    }

    /// A turn of the loop, a microsecond after the last: what is due, then all ports send whatever
    /// may leave.
    pub fn turn(&mut self) {
        self.now = self.now + 1_000;
        self.switch.tick(self.now, &mut self.memory);
        for port in 0..self.with_kernel.len() {
            self.transmit(port, usize::MAX);
            self.complete(port, usize::MAX);
        }
    }

    /// The PFC frames that left `port` since this was last asked.
    pub fn pfc_sent(&mut self, port: usize) -> Vec<Pfc> {
        std::mem::take(&mut self.pfc[port])
    }

    /// Frames of the memory that nobody holds.
    pub fn memory_free(&self) -> usize {
        self.memory.free_frames()
    }

    /// The first frame of `port` that is with the kernel.
    pub fn memory_of(&self, port: usize) -> &[u8] {
        let TxDesc { frame, len, .. } = &self.with_kernel[port][0];
        self.memory.all(frame, usize::from(*len))
    }

    /// All that the switch counts.
    pub fn snapshot(&mut self) -> &Snapshot {
        self.switch.snapshot(self.now, &mut self.snapshot);
        &self.snapshot
    }

    /// The last snapshot.
    pub fn seen(&self) -> &Snapshot {
        &self.snapshot
    }
}
