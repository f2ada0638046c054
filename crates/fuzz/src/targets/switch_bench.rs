//! A switch and its surroundings in memory, as the operations of an input use it: frames that wait
//! at the "kernel", ports that come and go, and the invariants.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use switch::monitor::counters::{PfcCount, PortSnapshot};
use switch::settings::{PortSettings, SwitchSettings};
use switch::{
    DropReason, Event, FrameMemory, HeapMemory, Instant, Nanos, RxDesc, Snapshot, Switch, TxDesc,
    WatermarkReset, frames_needed,
};
use wire::MacAddr;
use wire::bitset::Set8;
use wire::ethernet::{EXPERIMENTAL, Header, MAC_CONTROL, Tag, write_header};
use wire::pause::{self, Control, Pause, Pfc};

use crate::targets::switch_settings::{Features, NO_DROP, PORTS, settings};

/// What follows the header of each numbered frame.
const MARK: [u8; 4] = *b"\xf5Nr\xf5";
/// Bytes of a frame that all memories have room for.
const FRAME_BYTES: usize = 9300;
/// More than one switch ever holds.
const SPARE_FRAMES: usize = 64;

pub(super) struct Bench {
    features: Features,
    settings: SwitchSettings,
    switch: Switch,
    memory: HeapMemory,
    frames: usize,
    now: Instant,
    at_kernel: Vec<VecDeque<TxDesc>>,
    sequence: u64,
    /// The last number that left, by source port, priority and egress port.
    last: HashMap<(u8, u8, usize), u64>,
    losses: Losses,
    /// Ports that were removed, whose counters began again.
    removed: HashSet<usize>,
    snapshot: Snapshot,
}

/// What events have reported of lost no-drop frames.
#[derive(Default)]
struct Losses {
    /// Frames by port.
    frames: HashMap<usize, u64>,
    /// Frames by port and reason, where the event names it.
    by_reason: BTreeMap<(usize, DropReason), u64>,
    /// Ports with frames that had no room at ingress; the event has no number.
    no_room: HashSet<usize>,
}

impl Losses {
    fn record(&mut self, event: &Event) {
        match *event {
            Event::NoDropLost { port, .. } => {
                self.no_room.insert(port);
            }
            Event::NoDropDropped { port, reason, frames, .. } => {
                *self.frames.entry(port).or_default() += frames;
                *self.by_reason.entry((port, reason)).or_default() += frames;
            }
            Event::KernelLost { port, no_drop_frames, .. }
            | Event::FloodLimit { port, no_drop_frames, .. } => {
                *self.frames.entry(port).or_default() += no_drop_frames;
            }
            _ => {}
        }
    }
}

fn mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 9, port as u8])
}

impl Bench {
    pub(super) fn new(features: Features) -> Self {
        let all = settings(&features, 0);
        let frames = frames_needed(&all, usize::MAX) + SPARE_FRAMES;
        let settings = SwitchSettings { ports: all.ports[..PORTS].to_vec(), ..all };
        let macs: Vec<MacAddr> = (0..PORTS).map(mac).collect();
        let mut bench = Self {
            features,
            switch: Switch::new(&settings, &macs, frames),
            settings,
            memory: HeapMemory::new(frames, FRAME_BYTES),
            frames,
            now: Instant(1_000_000),
            at_kernel: (0..PORTS).map(|_| VecDeque::new()).collect(),
            sequence: 0,
            last: HashMap::new(),
            losses: Losses::default(),
            removed: HashSet::new(),
            snapshot: Snapshot::default(),
        };
        (0..PORTS).for_each(|port| bench.receive_data(port, port, 0, 64));
        bench
    }

    /// True if frames may be received on this port, and sent by it.
    fn is_up(&self, port: usize) -> bool {
        port < self.settings.ports.len() && self.switch.is_up(port)
    }

    fn ports(&self) -> std::ops::Range<usize> {
        0..self.settings.ports.len()
    }

    /// Receives a numbered frame for the host of port `to`, for an unknown host, or for a group.
    pub(super) fn receive_data(&mut self, port: usize, to: usize, priority: u8, len: usize) {
        let dst = match to {
            7 => MacAddr::BROADCAST,
            6 => MacAddr([1, 0, 0x5e, 0, 0, 1]),
            to => mac(to),
        };
        self.sequence += 1;
        let mut bytes = vec![0; len];
        let at = write_header(&mut bytes, dst, mac(port), Some(Tag::priority(priority)), EXPERIMENTAL);
        bytes[at..at + 4].copy_from_slice(&MARK);
        bytes[at + 4..at + 12].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[at + 12..at + 14].copy_from_slice(&[port as u8, priority]);
        self.receive(port, &bytes, Some(priority));
    }

    /// Receives any bytes, unless they look like a numbered frame.
    pub(super) fn receive_bytes(&mut self, port: usize, bytes: &[u8]) {
        if !bytes.windows(MARK.len()).any(|piece| piece == MARK) {
            self.receive(port, bytes, Some(0));
        }
    }

    pub(super) fn receive_pfc(&mut self, port: usize, enable: u8, quanta: u16) {
        let mut bytes = [0; pause::FRAME_BYTES];
        Pfc { enable, quanta: [quanta; 8] }.encode(mac(port), &mut bytes);
        self.receive(port, &bytes, None);
    }

    pub(super) fn receive_pause(&mut self, port: usize, quanta: u16) {
        let mut bytes = [0; pause::FRAME_BYTES];
        Pause { quanta }.encode(mac(port), &mut bytes);
        self.receive(port, &bytes, None);
    }

    fn receive(&mut self, port: usize, bytes: &[u8], priority: Option<u8>) {
        if !self.is_up(port) {
            return;
        }
        let frame = self.memory.alloc().expect("accounting refuses before memory runs out");
        self.memory.bytes_mut(&frame, bytes.len()).copy_from_slice(bytes);
        let is_priority = self.settings.ports[port].classify.queue_is_priority;
        let priority = priority.filter(|_| is_priority);
        let received = RxDesc { frame, len: bytes.len() as u16, priority };
        self.switch.receive(port, received, self.now, &mut self.memory);
        self.switch.take_punted(&mut self.memory, |_, _| ());
    }

    /// Passes to the kernel what a port may send, at most `room` frames.
    pub(super) fn transmit(&mut self, port: usize, room: usize) {
        if !self.is_up(port) {
            return;
        }
        let mut out = Vec::new();
        self.switch.transmit(port, room, self.now, &mut self.memory, &mut out);
        assert!(out.len() <= room, "as many as there is room for");
        for sent in &out {
            sent.edit.apply(&mut self.memory, &sent.frame, sent.len);
            let bytes = self.memory.bytes(&sent.frame, sent.len.into()).to_vec();
            self.check_sent(port, &bytes);
        }
        self.at_kernel[port].extend(out);
    }

    /// Checks the order of numbered frames, and that control frames are what a port may send.
    fn check_sent(&mut self, port: usize, bytes: &[u8]) {
        let header = Header::parse(bytes).expect("a whole frame");
        if header.ethertype == MAC_CONTROL {
            let control = pause::decode(bytes);
            assert!(matches!(control, Ok(Control::Pfc(_) | Control::Pause { .. })), "{control:?}");
            if let Ok(Control::Pfc(pfc)) = control {
                assert_eq!(pfc.enable & !(1 << NO_DROP), 0, "only of no-drop priorities");
            }
        }
        let Some(payload) = bytes[header.payload_offset..].strip_prefix(&MARK) else { return };
        let Some((number, rest)) = payload.split_first_chunk() else { return };
        let number = u64::from_be_bytes(*number);
        let last = self.last.insert((rest[0], rest[1], port), number).unwrap_or(0);
        // Other maps for flooded frames put them into other queues.
        assert!(number > last || self.features.flood_maps, "{number} after {last}");
    }

    /// Completes frames that the kernel has, as sent.
    pub(super) fn complete(&mut self, port: usize, frames: usize) {
        for sent in self.take_back(port, frames) {
            self.switch.complete(port, sent.frame, self.now, &mut self.memory);
        }
    }

    /// Completes frames that the kernel has, as lost.
    pub(super) fn lose(&mut self, port: usize, frames: usize) {
        for sent in self.take_back(port, frames) {
            self.switch.kernel_lost(port, sent.frame, self.now, &mut self.memory);
        }
    }

    fn take_back(&mut self, port: usize, frames: usize) -> Vec<TxDesc> {
        let Some(with) = self.at_kernel.get_mut(port) else { return Vec::new() };
        with.drain(..frames.min(with.len())).collect()
    }

    pub(super) fn wait(&mut self, nanos: Nanos) {
        self.now = self.now + nanos;
        self.switch.begin_iteration(self.now);
        self.switch.begin_batch(self.now);
    }

    /// Takes a port down, with the frames that the kernel has of it, or up.
    pub(super) fn set_port(&mut self, port: usize, up: bool) {
        if port >= self.settings.ports.len() {
            return;
        }
        if up {
            self.switch.port_up(port, Some(mac(port)), self.now);
            return;
        }
        self.switch.port_down(port, self.now, &mut self.memory);
        for sent in self.take_back(port, usize::MAX) {
            self.switch.abort_tx(port, sent.frame, self.now, &mut self.memory);
        }
    }

    /// Applies other thresholds, as a reload does.
    pub(super) fn reconfigure(&mut self, variant: u8) {
        let mut new = settings(&self.features, variant);
        new.ports.truncate(self.settings.ports.len());
        for (new, old) in new.ports.iter_mut().zip(&self.settings.ports) {
            if old.is_vacant() {
                *new = PortSettings::vacant();
            }
        }
        if self.switch.pending_recovery(&new).is_none() {
            self.switch.apply(&new, self.now);
            self.settings = new;
        }
    }

    /// Removes a port, or puts one into its slot.
    pub(super) fn add_or_remove(&mut self, port: usize) {
        if !self.features.removes_ports {
            return;
        }
        let port = port.min(self.settings.ports.len());
        let mut new = self.settings.clone();
        let added = settings(&self.features, 0).ports.swap_remove(port);
        let adds = new.ports.get(port).is_none_or(PortSettings::is_vacant);
        match new.ports.get_mut(port) {
            None => new.ports.push(added),
            Some(slot) if adds => *slot = added,
            Some(slot) => *slot = PortSettings::vacant(),
        }
        if self.switch.pending_recovery(&new).is_some() {
            return;
        }
        if !adds {
            self.removed.insert(port);
            self.set_port(port, false);
        }
        self.at_kernel.resize_with(new.ports.len(), VecDeque::new);
        self.switch.apply(&new, self.now);
        self.settings = new;
        self.set_port(port, adds);
    }

    pub(super) fn hold(&mut self, port: usize, held: bool) {
        if self.is_up(port) {
            self.switch.hold(port, held);
        }
    }

    /// Reports what the kernel says of the port's rings, or what the guard sent.
    pub(super) fn observe(&mut self, port: usize, what: u8) {
        if !self.is_up(port) {
            return;
        }
        match what % 6 {
            0 => self.switch.observe_rx_backlog(port, 2000, self.now),
            1 => self.switch.observe_rx_backlog(port, 0, self.now),
            2 => self.switch.kernel_dropped(port, 3, self.now),
            3 => self.switch.stray_frames(port, 1, self.now),
            4 => {
                let mut sent = PfcCount { frames: 1, ..PfcCount::default() };
                sent.xoff_frames[NO_DROP] = 1;
                self.switch.record_guard_pfc(port, &sent, self.now);
            }
            _ => self.switch.reset_watermarks(WatermarkReset::Read),
        }
    }

    /// An operator ends storms.
    pub(super) fn recover(&mut self, port: usize, what: u8) {
        if !self.is_up(port) {
            return;
        }
        if what & 1 == 0 {
            self.switch.recover_storms(port, self.now, &mut self.memory);
        } else {
            self.switch.lift_storm_limit(port, Set8::ALL, self.now, &mut self.memory);
        }
    }

    pub(super) fn flush_addresses(&mut self, port: usize, what: u8) {
        match what & 3 {
            0 => self.switch.flush_fdb(None, None),
            1 if self.is_up(port) => self.switch.flush_fdb(Some(port), None),
            2 => self.switch.flush_fdb(None, Some(10)),
            _ if self.is_up(port) => self.switch.peer_address(port, mac(port), self.now),
            _ => {}
        }
    }

    pub(super) fn release_peer(&mut self, port: usize) {
        if port < self.settings.ports.len() {
            self.switch.release_peer(port);
        }
    }

    /// Returns the frames that are to leave: queued, each copy of a flooded one, or at the kernel.
    fn departing(&self) -> u64 {
        let mut frames = 0;
        self.switch.for_each_queued(|_, _| frames += 1);
        let is_data = |sent: &&TxDesc| {
            let header = Header::parse(self.memory.bytes(&sent.frame, sent.len.into()));
            header.is_ok_and(|header| header.ethertype != MAC_CONTROL)
        };
        frames + self.at_kernel.iter().flatten().filter(is_data).count() as u64
    }

    /// Checks what holds at every instant.
    pub(super) fn check(&mut self) {
        self.switch.tick(self.now, &mut self.memory);
        self.switch.drain_events().for_each(|(_, event)| self.losses.record(&event));
        self.switch.snapshot(self.now, &mut self.snapshot);
        let (s, held) = (&self.snapshot, self.switch.frames_held());
        assert_eq!(self.memory.free_frames() + held, self.frames, "one owner a frame (1)");
        let groups = || s.ports.iter().flat_map(|port| &port.groups);
        let shared: u32 = groups().map(|group| group.shared.cells).sum();
        let headroom: u32 = groups().map(|group| group.headroom.cells).sum();
        let reserved: u32 = groups().map(|group| group.reserved_cells).sum();
        let queued: u32 = s.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.level.cells).sum();
        let pools = (s.ingress_pools[0].level, s.headroom.level);
        assert_eq!((pools.0.cells, pools.1.cells), (shared, headroom), "pools = their groups (2)");
        assert_eq!([shared + headroom + reserved, queued], self.switch.cells_held(), "cells of frames (2)");
        assert!(pools.0.peak_cells <= s.ingress_pools[0].size_cells, "no more than there are (2)");
        assert!(pools.1.peak_cells <= s.headroom.size_cells, "no more than there are (2)");
        for group in groups().filter(|group| group.no_drop) {
            let shared = group.shared.cells;
            let over = group.headroom.cells > 0 || (shared > 0 && shared >= group.threshold_cells);
            assert!(!over || group.xoff, "over the threshold without XOFF: {group:?}");
        }
        // The counters of vacant slots are in the sum of removed ports.
        let ports = || s.ports.iter().filter(|port| !port.name.is_empty());
        let removed = &s.removed_ports;
        let dropped = removed.drops.iter().chain(ports().flat_map(|port| &port.drops));
        let lost = removed.kernel_lost_frames + ports().map(|port| port.kernel_lost_frames).sum::<u64>();
        let gone = lost + dropped.map(|count| count.frames).sum::<u64>();
        let received = removed.received.frames + ports().map(|port| port.received.frames).sum::<u64>();
        let sent = removed.transmitted.frames + ports().map(|port| port.transmitted.frames).sum::<u64>();
        assert_eq!(received + s.flood_copies, sent + gone + self.departing(), "conservation (5)");
    }

    /// Ends all pauses and holds, and lets all frames leave.
    pub(super) fn drain(&mut self) {
        for port in self.ports() {
            self.set_port(port, true);
            self.recover(port, 0);
            self.hold(port, false);
            self.receive_pfc(port, 0xff, 0);
            self.receive_pause(port, 0);
        }
        for _ in 0..10_000 {
            self.wait(100_000);
            self.switch.tick(self.now, &mut self.memory);
            for port in self.ports() {
                self.transmit(port, 64);
                self.complete(port, usize::MAX);
            }
            if self.switch.frames_held() == 0 {
                return;
            }
        }
        panic!("{} frames do not leave: {:#?}", self.switch.frames_held(), self.snapshot);
    }

    /// Checks what holds once nothing is left.
    pub(super) fn check_idle(&mut self) {
        self.wait(2_000_000_000); // an event a second has the number of frames
        self.check();
        let s = &self.snapshot;
        let pools = s.ingress_pools.iter().chain(&s.egress_pools).chain([&s.headroom]);
        assert_eq!(pools.map(|pool| pool.level.cells).sum::<u32>(), 0, "zero when idle (2)");
        assert_eq!(self.departing(), 0, "all have left, so that what was received is counted (5)");
        for (number, port) in s.ports.iter().enumerate().filter(|(_, port)| !port.name.is_empty()) {
            if !self.removed.contains(&number) {
                self.check_losses(number, port);
            }
        }
    }

    /// Checks that events have reported each lost no-drop frame of a port.
    fn check_losses(&self, number: usize, port: &PortSnapshot) {
        let lost: u64 = port.priorities.iter().map(|priority| priority.no_drop_lost_frames).sum();
        let no_room = port.drops[DropReason::IngressNoDrop as usize].frames;
        let reported = self.losses.frames.get(&number).copied().unwrap_or(0);
        assert_eq!(lost, no_room + reported, "events report the losses of port {number} (3)");
        let is_reported = self.losses.no_room.contains(&number);
        assert_eq!(no_room > 0, is_reported, "an event reports want of room at port {number} (3)");
        for (&(at, reason), &frames) in &self.losses.by_reason {
            let dropped = port.drops[reason as usize].frames;
            assert!(at != number || frames <= dropped, "{frames} of {dropped} {reason:?} (3)");
        }
    }
}
