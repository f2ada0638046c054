//! A switch with everything around it, for tests: memory, time, a "kernel" that accepts and
//! completes frames, and the frames seen to leave.
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

/// Returns the address of the host on port `n`.
pub fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 9, n as u8])
}

/// A lossy priority group without limits of its own, bounded only by its pool.
pub const OPEN: GroupSettings = GroupSettings {
    pool: 0,
    reserved_cells: 0,
    xoff: Threshold::Dynamic(Alpha::MAX),
    xon_offset_cells: 0,
    resume_cells: 0,
    headroom_cells: 0,
};

/// Returns settings for `ports` ports with PFC for the priorities of `no_drop`, all other groups
/// open, in a buffer without fixed area. Frames wait only where a port is held or paused.
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

/// Returns a queue with nothing guaranteed and this maximum of shared cells.
pub fn queue_of(shared: Threshold) -> QueueSettings {
    let guaranteed = switch::settings::Guaranteed::Percent(0);
    QueueSettings { guaranteed, shared: Some(shared), ..QueueSettings::default() }
}

/// A numbered test frame of `len` bytes to `dst`, tagged with a priority.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Ingress port; the source is the host of that port.
    pub port: usize,
    /// Destination.
    pub dst: MacAddr,
    /// PCP of its tag.
    pub priority: u8,
    /// Bytes without FCS, at least 28.
    pub len: u16,
}

/// The switch and its surroundings.
pub struct Lab {
    pub switch: Switch,
    pub memory: ChunkedMemory,
    /// Frames of the memory.
    pub frames: usize,
    pub now: Instant,
    pub with_kernel: Vec<Vec<TxDesc>>,
    pub sent: u64,
    pub sequence: u64,
    /// PFC frames seen to leave each port since the last call of `pfc_sent`.
    pub pfc: Vec<Vec<Pfc>>,
    /// The times of PAUSE frames seen to leave each port.
    pub pauses: Vec<Vec<u16>>,
    /// Last sequence number that left, by (source port, priority, egress port), and whether it went
    /// to a group address.
    last: HashMap<(u8, u8, usize, bool), u64>,
    /// Frames to group addresses have their own queue map, so their order differs from that of
    /// unicast.
    multicast_apart: bool,
    snapshot: Snapshot,
}

impl Lab {
    /// Creates a switch that has all hosts in its FDB.
    pub fn new(settings: &SwitchSettings) -> Self {
        Self::with_frames(settings, 9216)
    }

    /// Creates a switch with a memory of frames of at most `frame_bytes`.
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

    /// Sets the number of port slots.
    pub fn plug(&mut self, slots: usize) {
        self.with_kernel.resize_with(slots, Vec::new);
        self.pfc.resize(slots, Vec::new());
        self.pauses.resize(slots, Vec::new());
    }

    /// Receives a frame.
    pub fn arrive(&mut self, Frame { port, dst, priority, len }: Frame) {
        let frame = self.memory.alloc().expect("accounting refuses before memory runs out");
        let bytes = self.memory.bytes_mut(&frame, usize::from(len));
        bytes.fill(0);
        let at = write_header(bytes, dst, mac(port), Some(Tag::priority(priority)), EXPERIMENTAL);
        self.sequence += 1;
        bytes[at..at + 8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[at + 8..at + 10].copy_from_slice(&[port as u8, priority]);
        self.switch.receive(port, RxDesc::new(frame, len), self.now, &mut self.memory);
    }

    /// Receives a frame of these bytes.
    pub fn arrive_bytes(&mut self, port: usize, bytes: &[u8]) {
        let frame = self.memory.alloc().expect("accounting refuses before memory runs out");
        self.memory.fill(&frame, bytes);
        let received = RxDesc::new(frame, bytes.len() as u16);
        self.switch.receive(port, received, self.now, &mut self.memory);
    }

    /// Receives a PFC frame from the host of `port`.
    pub fn send_pfc(&mut self, port: usize, pfc: Pfc) {
        let Some(frame) = self.memory.alloc() else { return };
        pfc.encode(mac(200), self.memory.bytes_mut(&frame, 60).try_into().expect("60 bytes"));
        self.switch.receive(port, RxDesc::new(frame, 60), self.now, &mut self.memory);
    }

    /// Passes to the kernel what `port` may send, at most `room` frames.
    pub fn transmit(&mut self, port: usize, room: usize) {
        let mut out = Vec::new();
        let has_edits = self.switch.transmit(port, room, self.now, &mut self.memory, &mut out);
        for outgoing in &out {
            assert!(has_edits || outgoing.edit.is_none(), "{outgoing:?}");
            outgoing.edit.apply(&mut self.memory, &outgoing.frame, outgoing.len);
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

    /// Completes the first `frames` frames in flight on `port` as sent.
    pub fn complete(&mut self, port: usize, frames: usize) {
        let frames = frames.min(self.with_kernel[port].len());
        for outgoing in self.with_kernel[port].drain(..frames) {
            self.sent += 1;
            self.switch.complete(port, outgoing.frame, self.now, &mut self.memory);
        }
    }

    /// Completes the first `frames` frames in flight on `port` as lost.
    pub fn lose(&mut self, port: usize, frames: usize) {
        let frames = frames.min(self.with_kernel[port].len());
        for outgoing in self.with_kernel[port].drain(..frames) {
            self.switch.kernel_lost(port, outgoing.frame, self.now, &mut self.memory);
        }
    }

    /// Completes the PFC frames of `port` as sent.
    pub fn complete_pfc(&mut self, port: usize) {
        let (pfc, data) = std::mem::take(&mut self.with_kernel[port]).into_iter().partition(|outgoing| {
            let header = Header::parse(self.memory.bytes(&outgoing.frame, usize::from(outgoing.len)));
            header.is_ok_and(|header| header.ethertype == MAC_CONTROL)
        });
        self.with_kernel[port] = pfc;
        self.complete(port, usize::MAX);
        self.with_kernel[port] = data;
    }

    /// Runs an iteration of the loop, a microsecond after the last one: first due timers, then all
    /// ports send what they may.
    pub fn turn(&mut self) {
        self.now = self.now + 1_000;
        self.switch.tick(self.now, &mut self.memory);
        for port in 0..self.with_kernel.len() {
            self.transmit(port, usize::MAX);
            self.complete(port, usize::MAX);
        }
    }

    /// Returns the PFC frames that left `port` since the last call.
    pub fn pfc_sent(&mut self, port: usize) -> Vec<Pfc> {
        std::mem::take(&mut self.pfc[port])
    }

    /// Returns the number of free frames of the memory.
    pub fn memory_free(&self) -> usize {
        self.memory.free_frames()
    }

    /// Returns the first frame in flight on `port`.
    pub fn memory_of(&self, port: usize) -> &[u8] {
        let TxDesc { frame, len, .. } = &self.with_kernel[port][0];
        self.memory.all(frame, usize::from(*len))
    }

    /// Takes a snapshot of all counters.
    pub fn snapshot(&mut self) -> &Snapshot {
        self.switch.snapshot(self.now, &mut self.snapshot);
        &self.snapshot
    }

    /// Returns the last snapshot.
    pub fn seen(&self) -> &Snapshot {
        &self.snapshot
    }
}
