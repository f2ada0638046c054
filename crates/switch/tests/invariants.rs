//! Random traffic, pauses and ports going down against the laws of the switch (design §7): one owner a frame, cells
//! charged = cells of the frames held, conservation, order, no-drop.

use proptest::prelude::*;
use std::collections::HashMap;
use switch::counters::DropReason;
use switch::settings::{
    Alpha, BridgeSettings, BufferSettings, GroupSettings, PortSettings, SwitchSettings, Threshold,
};
use switch::{HeapMemory, Instant, Memory, Outgoing, Received, Snapshot, Switch, frames_needed};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;
use wire::pause::Pfc;

const PORTS: usize = 4;
const NO_DROP: u8 = 0b0000_1000;

fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 9, n as u8])
}

fn settings() -> SwitchSettings {
    let ports = (0..PORTS).map(|n| {
        let mut port = PortSettings::new(format!("p{n}"), Some(1_000_000_000));
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop, port.pfc.pause_quanta) = (true, true, NO_DROP, 100);
        port.groups = [GroupSettings {
            pool: 0,
            reserved_cells: 0,
            xoff: Threshold::Dynamic(Alpha::from_percent(100)),
            xon_offset_cells: 2,
            resume_cells: 0,
            headroom_cells: 0,
        }; 8];
        port.groups[3] = GroupSettings {
            pool: 0,
            reserved_cells: 4,
            xoff: if n % 2 == 0 {
                Threshold::Static(10)
            } else {
                Threshold::Dynamic(Alpha::from_percent(20))
            },
            xon_offset_cells: 3,
            resume_cells: 0,
            headroom_cells: 12,
        };
        port.in_flight_bytes = 4000;
        port
    });
    SwitchSettings {
        buffer: BufferSettings {
            cell_bytes: 208,
            total_cells: 160,
            fixed_cells: 24,
            headroom_cells: 30,
            ..BufferSettings::default()
        },
        usage_percent: 100,
        bridge: BridgeSettings { max_entries: 64, ..BridgeSettings::default() },
        ports: ports.collect(),
    }
}

/// The switch with all around it: memory, what is with the "kernel", and what was seen to leave.
struct Lab {
    switch: Switch,
    memory: HeapMemory,
    frames: usize,
    now: Instant,
    with_kernel: Vec<Vec<Outgoing>>,
    sent: u64,
    sequence: u64,
    /// Last sequence number that left, by (source port, priority, egress port).
    last: HashMap<(u8, u8, usize), u64>,
    snapshot: Snapshot,
}

impl Lab {
    fn new() -> Self {
        let settings = settings();
        let frames = frames_needed(&settings) + 8;
        let macs: Vec<_> = (0..PORTS).map(mac).collect();
        Self {
            switch: Switch::new(&settings, &macs, frames),
            memory: HeapMemory::new(frames, 2048),
            frames,
            now: Instant(1_000_000),
            with_kernel: (0..PORTS).map(|_| Vec::new()).collect(),
            sent: 0,
            sequence: 0,
            last: HashMap::new(),
            snapshot: Snapshot::default(),
        }
    }

    fn arrive(&mut self, port: usize, dst: MacAddr, priority: u8, len: u16) {
        let frame = self.memory.alloc().expect("accounting refuses before memory runs out");
        let bytes = self.memory.bytes_mut(&frame, usize::from(len));
        let at = write_header(bytes, dst, mac(port), Some(Tag::priority(priority)), EXPERIMENTAL);
        self.sequence += 1;
        bytes[at..at + 8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[at + 8..at + 10].copy_from_slice(&[port as u8, priority]);
        self.switch.receive(port, Received { frame, len }, self.now, &mut self.memory);
    }

    fn pfc(&mut self, port: usize, pfc: Pfc) {
        let Some(frame) = self.memory.alloc() else { return };
        pfc.encode(mac(200), self.memory.bytes_mut(&frame, 60).try_into().expect("60 bytes"));
        self.switch.receive(port, Received { frame, len: 60 }, self.now, &mut self.memory);
    }

    fn send(&mut self, port: usize, room: usize) {
        let mut out = Vec::new();
        self.switch.transmit(port, room, self.now, &mut self.memory, &mut out);
        for outgoing in &out {
            let bytes = self.memory.bytes(&outgoing.frame, usize::from(outgoing.len));
            if bytes[12..14] == [0x81, 0x00] {
                let sequence = u64::from_be_bytes(bytes[18..26].try_into().expect("8 bytes"));
                let last = self.last.insert((bytes[26], bytes[27], port), sequence).unwrap_or(0);
                assert!(sequence > last, "frames {last} and {sequence} of one flow changed places (§7.4)");
            }
        }
        self.with_kernel[port].extend(out);
    }

    fn complete(&mut self, port: usize, frames: usize) {
        let frames = frames.min(self.with_kernel[port].len());
        for outgoing in self.with_kernel[port].drain(..frames) {
            self.sent += 1;
            self.switch.complete(port, outgoing.frame, self.now, &mut self.memory);
        }
    }

    fn down(&mut self, port: usize) {
        self.switch.port_down(port, self.now, &mut self.memory);
        for outgoing in self.with_kernel[port].drain(..) {
            self.switch.unsent(port, outgoing.frame, self.now, &mut self.memory);
        }
    }

    /// The laws that hold at every instant.
    fn check(&mut self) {
        self.switch.tick(self.now);
        self.switch.snapshot(self.now, &mut self.snapshot);
        let s = &self.snapshot;
        assert_eq!(
            self.memory.free_frames() + self.switch.frames_held(),
            self.frames,
            "one owner a frame (§7.1)"
        );
        let groups = || s.ports.iter().flat_map(|port| &port.groups);
        let shared: u32 = groups().map(|group| group.shared.cells).sum();
        let headroom: u32 = groups().map(|group| group.headroom.cells).sum();
        let reserved: u32 = groups().map(|group| group.reserved_cells).sum();
        let queued: u32 = s.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.level.cells).sum();
        assert_eq!(
            (s.ingress_pools[0].level.cells, s.headroom.level.cells),
            (shared, headroom),
            "pools = their groups (§7.2)"
        );
        assert_eq!(shared + headroom + reserved, queued, "cells at ingress = cells at egress (§7.2)");
        assert!(
            s.ingress_pools[0].level.peak_cells <= s.ingress_pools[0].size_cells
                && s.headroom.level.peak_cells <= s.headroom.size_cells
        );
        for group in groups() {
            let over = group.headroom.cells > 0
                || (group.shared.cells > 0 && group.shared.cells >= group.threshold_cells);
            assert!(!group.no_drop || !over || group.xoff, "over the threshold without XOFF: {group:?}");
        }
    }

    /// Frames in = frames out + drops, whatever happened, once nothing is held.
    fn check_conservation(&self) {
        let s = &self.snapshot;
        let received: u64 = s.ports.iter().map(|port| port.received.frames).sum();
        let transmitted: u64 = s.ports.iter().map(|port| port.transmitted.frames).sum();
        let drops: u64 = s.ports.iter().flat_map(|port| &port.drops).map(|count| count.frames).sum();
        assert_eq!(received, self.sequence, "what came in was counted");
        assert_eq!(received + s.flood_copies, transmitted + drops, "conservation (§7.5)");
        let dropped = |reason: DropReason| -> u64 {
            s.ports.iter().map(|port| port.drops[reason as usize].frames).sum()
        };
        let by_group: u64 =
            s.ports.iter().flat_map(|port| &port.groups).map(|group| group.dropped.frames).sum();
        let by_queue: u64 =
            s.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.dropped.frames).sum();
        assert_eq!(by_group, dropped(DropReason::IngressLossy) + dropped(DropReason::IngressNoDrop));
        assert_eq!(by_queue, dropped(DropReason::TailDrop));
        let no_drop_refused: u64 = s.ports.iter().map(|port| port.groups[3].dropped.frames).sum();
        assert_eq!(
            no_drop_refused,
            dropped(DropReason::IngressNoDrop),
            "each broken promise is counted as one (§7.3)"
        );
    }

    fn drain(&mut self) {
        for _ in 0..10_000 {
            self.now = self.now + 100_000;
            for port in 0..PORTS {
                self.send(port, 64);
                self.complete(port, usize::MAX);
            }
            if self.switch.frames_held() == 0 && self.switch.next_deadline(self.now) == Instant::NEVER {
                return;
            }
        }
        panic!("the switch does not drain: {:#?}", self.snapshot);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Arrive { port: usize, to: usize, priority: u8, len: u16 },
    Pause { port: usize, enable: u8, quanta: u16 },
    Send { port: usize, room: usize },
    Complete { port: usize, frames: usize },
    Wait { nanos: u64 },
    Down { port: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let port = || 0..PORTS;
    let len = prop_oneof![Just(60_u16), Just(64), Just(65), Just(208), Just(209), Just(1514), 60_u16..1514];
    prop_oneof![
        12 => (port(), 0..PORTS + 2, prop_oneof![Just(3_u8), 0_u8..8], len)
            .prop_map(|(port, to, priority, len)| Step::Arrive { port, to, priority, len }),
        1 => (port(), any::<u8>(), prop_oneof![Just(0_u16), 1_u16..200])
            .prop_map(|(port, enable, quanta)| Step::Pause { port, enable, quanta }),
        4 => (port(), 0_usize..8).prop_map(|(port, room)| Step::Send { port, room }),
        4 => (port(), 0_usize..8).prop_map(|(port, frames)| Step::Complete { port, frames }),
        4 => (0_u64..50_000).prop_map(|nanos| Step::Wait { nanos }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_laws_hold_whatever_happens(
        steps in proptest::collection::vec(step(), 1..600),
        down in proptest::option::of((0_usize..600, 0..PORTS)),
    ) {
        let mut lab = Lab::new();
        for (n, step) in steps.into_iter().enumerate() {
            let step = match down {
                Some((at, port)) if at == n => Step::Down { port },
                _ => step,
            };
            match step {
                // Destinations beyond the ports: an unknown address, and broadcast.
                Step::Arrive { port, to, priority, len } if lab.switch.is_up(port) => {
                    let dst = if to > PORTS { MacAddr::BROADCAST } else { mac(to) };
                    lab.arrive(port, dst, priority, len);
                }
                Step::Arrive { .. } => {}
                Step::Pause { port, enable, quanta } => lab.pfc(port, Pfc { enable, quanta: [quanta; 8] }),
                Step::Send { port, room } if lab.switch.is_up(port) => lab.send(port, room),
                Step::Send { .. } => {}
                Step::Complete { port, frames } => lab.complete(port, frames),
                Step::Wait { nanos } => lab.now = lab.now + nanos,
                Step::Down { port } => lab.down(port),
            }
            lab.check();
        }
        lab.drain();
        lab.check();
        let s = &lab.snapshot;
        let pools = s.ingress_pools.iter().chain(&s.egress_pools).chain([&s.headroom]);
        prop_assert_eq!(pools.map(|pool| pool.level.cells).sum::<u32>(), 0);
        lab.check_conservation();
    }
}
