//! A loop that is recorded through every kind of event, and the replay of the recording.

use std::sync::Arc;
use std::task::Waker;

use crate::loopback_port::{LoopbackPort, Wire};
use dataplane::flight_recorder::error::Error;
use dataplane::flight_recorder::replay::{Replay, Totals, difference};
use dataplane::{
    ChunkPool, Handle, Heartbeat, IoLoop, LoopCommand, LoopPort, PollLoop, PollLoopSettings, Recorder, Reply,
    Segments, Settings, mailbox, remote,
};
use proptest::prelude::*;
use switch::settings::{
    BridgeSettings, BufferSettings, EarlyWarningSettings, FlowControl, LldpFrames, PfcWdAction, PortSettings,
    Restoration, StormLimit, SwitchSettings, Threshold, WatchdogSettings,
};
use switch::{Event, HeapMemory, Instant, Nanos, RefusedFrames, Snapshot, Switch};
use wire::bitset::Set8;
use wire::ethernet::{EXPERIMENTAL, LLDP, Tag, write_header};
use wire::mac::MacAddr;
use wire::pause::{Pause, Pfc};

pub const PORTS: usize = 3;
/// A small number, so that flooding uses all of them.
pub const FRAMES: usize = 96;

pub fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 9, n as u8])
}

/// Priority 3 is no-drop and has a watchdog, which differs by port. Port 2 is slow. Port 1 has
/// PAUSE instead of PFC and watchdog.
pub fn settings(xoff_cells: u32) -> SwitchSettings {
    let ports = (0..PORTS).map(|n| {
        let mut port = PortSettings::new(format!("p{n}"), (n == 2).then_some(1_000_000_000));
        match n {
            1 => port.flow_control = FlowControl::Both,
            _ => (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 0b0000_1000),
        }
        let group = &mut port.groups[3];
        (group.reserved_cells, group.headroom_cells, group.xon_offset_cells) = (0, 8, 2);
        group.xoff = Threshold::Static(xoff_cells);
        port.watchdog[3] = (n != 1).then(|| watchdog(n));
        port.lldp = [LldpFrames::Punt, LldpFrames::Drop, LldpFrames::Forward][n];
        port.early_warning[3] = EarlyWarningSettings { in_pps: Some(2), out_pps: Some(1) };
        port
    });
    let buffer =
        BufferSettings { total_cells: 128, fixed_cells: 0, headroom_cells: 32, ..BufferSettings::default() };
    SwitchSettings {
        buffer,
        usage_percent: 70,
        alarms: Default::default(),
        seed: 0,
        bridge: BridgeSettings { max_entries: 32, max_entries_per_port: 32, ..BridgeSettings::default() },
        ports: ports.collect(),
    }
}

/// Returns a watchdog that differs by port.
pub fn watchdog(port: usize) -> WatchdogSettings {
    WatchdogSettings {
        detection_ns: 20_000,
        action: [PfcWdAction::Drop, PfcWdAction::Forward, PfcWdAction::Drop][port],
        restore: [Restoration::After(100_000), Restoration::Quiet(50_000), Restoration::Manual][port],
        limit: (port == 1).then_some(StormLimit { period_ns: 1_000_000_000, count: 2 }),
    }
}

pub fn apply(switch: &SwitchSettings) -> LoopCommand {
    LoopCommand::Apply(Box::new(Settings { switch: switch.clone(), min_posted: vec![0; PORTS] }))
}

pub fn frame(dst: MacAddr, src: MacAddr, priority: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    let tag = Tag { tpid: 0x8100, pcp: priority, dei: false, vid: 0 };
    write_header(&mut frame, dst, src, Some(tag), EXPERIMENTAL);
    frame
}

/// What may happen to a loop.
#[derive(Debug, Clone)]
pub enum Step {
    Turns {
        turns: usize,
        pace_ns: Nanos,
    },
    Inject {
        port: usize,
        dst: usize,
        priority: u8,
        len: usize,
        frames: usize,
    },
    Pfc {
        port: usize,
        quanta: u16,
    },
    /// An LLDP frame, which the port consumes, drops or forwards.
    Lldp {
        port: usize,
    },
    Hold {
        port: usize,
        on_hold: bool,
    },
    Recover {
        port: usize,
    },
    Lift {
        port: usize,
    },
    Peer {
        port: usize,
        dst: usize,
    },
    Apply {
        xoff_cells: u32,
    },
    Snapshot {
        read_watermarks: bool,
    },
    Clear,
    FlushFdb {
        port: Option<usize>,
    },
    Block {
        port: usize,
        blocked: bool,
    },
    /// The peer has no room for these queues.
    Fill {
        port: usize,
        queues: u8,
    },
    Lose {
        port: usize,
        frames: u32,
    },
    Refuse {
        port: usize,
        frames: u32,
    },
    KernelDrop {
        port: usize,
        frames: u64,
    },
    Guard {
        port: usize,
    },
    Down {
        port: usize,
    },
    /// An operator takes the port down.
    ShutDown {
        port: usize,
    },
    /// The detached rings of a port that is down are closed.
    Closed {
        port: usize,
    },
    /// The rings of that port are opened again, with another address.
    Up {
        port: usize,
        address: usize,
    },
    /// Other settings remove port 0.
    Remove,
    /// Other settings put another port in the slot of port 0.
    Add {
        address: usize,
    },
}

pub fn step() -> impl Strategy<Value = Step> {
    let port = || 0..PORTS;
    prop_oneof![
        8 => (1..20_usize, 100..50_000_u64).prop_map(|(turns, pace_ns)| Step::Turns { turns, pace_ns }),
        1 => (1..3_usize, Just(600_000_000)).prop_map(|(turns, pace_ns)| Step::Turns { turns, pace_ns }),
        12 => (port(), 0..5_usize, prop::sample::select(vec![0_u8, 3, 5]), 60..1500_usize, 1..40_usize)
            .prop_map(|(port, dst, priority, len, frames)| Step::Inject { port, dst, priority, len, frames }),
        2 => (port(), prop::sample::select(vec![0_u16, 100, 65_535])).prop_map(|(port, quanta)| Step::Pfc { port, quanta }),
        1 => port().prop_map(|port| Step::Lldp { port }),
        1 => (port(), any::<bool>()).prop_map(|(port, on_hold)| Step::Hold { port, on_hold }),
        1 => port().prop_map(|port| Step::Recover { port }),
        1 => port().prop_map(|port| Step::Lift { port }),
        1 => (port(), 0..5_usize).prop_map(|(port, dst)| Step::Peer { port, dst }),
        1 => (2..40_u32).prop_map(|xoff_cells| Step::Apply { xoff_cells }),
        1 => any::<bool>().prop_map(|read_watermarks| Step::Snapshot { read_watermarks }),
        1 => Just(Step::Clear),
        1 => proptest::option::of(port()).prop_map(|port| Step::FlushFdb { port }),
        1 => (port(), any::<bool>()).prop_map(|(port, blocked)| Step::Block { port, blocked }),
        1 => (port(), prop::sample::select(vec![0_u8, 8, 255])).prop_map(|(port, queues)| Step::Fill { port, queues }),
        1 => (port(), 1..4_u32).prop_map(|(port, frames)| Step::Lose { port, frames }),
        1 => (port(), 1..9_u32).prop_map(|(port, frames)| Step::Refuse { port, frames }),
        1 => (port(), 1..9_u64).prop_map(|(port, frames)| Step::KernelDrop { port, frames }),
        1 => port().prop_map(|port| Step::Guard { port }),
        1 => Just(Step::Down { port: 0 }),
        1 => Just(Step::ShutDown { port: 0 }),
        1 => Just(Step::Closed { port: 0 }),
        1 => (13..15_usize).prop_map(|address| Step::Up { port: 0, address }),
        1 => Just(Step::Remove),
        1 => (13..15_usize).prop_map(|address| Step::Add { address }),
    ]
}

/// A loop over ports in memory, recorded from its second iteration on.
pub struct Lab {
    pub core: PollLoop<LoopPort<LoopbackPort>>,
    pub lines: Vec<IoLoop<LoopbackPort>>,
    pub wires: Vec<Wire>,
    pub handle: Handle,
    pub heartbeat: Arc<Heartbeat>,
    pub chunk_pool: Arc<ChunkPool>,
    pub segments: Segments,
    pub now: Instant,
    pub events: Vec<(Instant, Event)>,
    /// The type of pauses that each port's peer sends.
    pub settings: SwitchSettings,
    /// Port 0 is removed.
    pub removed: bool,
}

impl Lab {
    pub fn new(chunks: usize) -> Self {
        Self::with_lines(chunks, [false; PORTS], 1024)
    }

    /// Creates a loop. Where `of_line` is true, an I/O loop of its own serves the port; its
    /// iteration runs before the switching core's. A checkpoint takes `slice_work` per iteration.
    pub fn with_lines(chunks: usize, of_line: [bool; PORTS], slice_work: u32) -> Self {
        let heartbeat = Arc::new(Heartbeat::default());
        let switch = Switch::new(&settings(6), &[mac(10), mac(11), mac(12)], FRAMES);
        let (mut ports, mut wires, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        for of_line in of_line {
            let (port, wire) = LoopbackPort::new();
            wires.push(wire);
            ports.push(if of_line {
                let (bell, heartbeat) = (Arc::default(), Arc::default());
                let (port, of_line) = remote(port, &Arc::default(), &bell, &heartbeat);
                lines.push(IoLoop::new(vec![of_line], bell, heartbeat));
                LoopPort::Remote(port)
            } else {
                LoopPort::Local(port)
            });
        }
        let (handle, mailbox) = mailbox(Waker::noop().clone());
        let settings = PollLoopSettings {
            complete_checksums: vec![true; PORTS],
            watches_rings: true,
            heartbeat: Arc::clone(&heartbeat),
            ..PollLoopSettings::default()
        };
        let core = PollLoop::new(switch, ports, HeapMemory::new(FRAMES, 2048), FRAMES, mailbox, settings);
        let chunk_pool = ChunkPool::new(chunks);
        let mut lab = Self {
            core,
            lines,
            wires,
            handle,
            heartbeat,
            chunk_pool,
            segments: Segments::default(),
            now: Instant(5_000_000),
            events: Vec::new(),
            settings: self::settings(6),
            removed: false,
        };
        lab.wires[0].close_externally();
        // Addresses are known and frames are in flight before the recording starts.
        (0..PORTS).for_each(|n| lab.wires[n].inject(frame(mac((n + 1) % PORTS), mac(n), 3, 200)));
        lab.turns(2, 1000);
        let recorder = Recorder::new(Arc::clone(&lab.chunk_pool), PORTS).with_slice_work(slice_work);
        assert!(matches!(
            lab.send_command(LoopCommand::Record(Some(Box::new(recorder)))),
            Reply::Recorded(None)
        ));
        lab.events.clear();
        lab
    }

    pub fn turns(&mut self, turns: usize, pace_ns: Nanos) {
        for _ in 0..turns {
            self.now = self.now + pace_ns;
            for line in &mut self.lines {
                line.iterate(self.core.memory(), self.now);
            }
            // An iteration reads its frames later than it begins.
            let taken_at = self.now + pace_ns / 3;
            self.core.iterate_with_clock(self.now, &|| taken_at);
        }
    }

    pub fn send_command(&mut self, command: LoopCommand) -> Reply {
        self.handle.send(command).expect("room for a command");
        // A port that is removed while it is blocked waits 2 ms for its XON.
        for _ in 0..4000 {
            self.turns(1, 700);
            while let Some(reply) = self.handle.receive() {
                match reply {
                    Reply::Event(at, event) => self.events.push((at, event)),
                    Reply::Fault(..) => {}
                    answer => return answer,
                }
            }
        }
        panic!("no answer");
    }

    pub fn take(&mut self, step: &Step) {
        match *step {
            Step::Turns { turns, pace_ns } => self.turns(turns, pace_ns),
            Step::Inject { port, dst, priority, len, frames } => {
                let dst = if dst == 4 { MacAddr::BROADCAST } else { mac(dst) };
                (0..frames).for_each(|_| self.wires[port].inject(frame(dst, mac(port), priority, len)));
            }
            Step::Lldp { port } => {
                let mut bytes = [0; 100];
                write_header(&mut bytes, MacAddr::NEAREST_BRIDGE, mac(port), None, LLDP);
                self.wires[port].inject(bytes);
            }
            Step::Pfc { port, quanta } => {
                let mut bytes = [0; 60];
                if self.settings.ports[port].flow_control == FlowControl::Both {
                    Pause { quanta }.encode(mac(port), &mut bytes);
                } else {
                    Pfc { enable: 0b1000, quanta: [quanta; 8] }.encode(mac(port), &mut bytes);
                }
                self.wires[port].inject(bytes);
            }
            Step::Hold { port, on_hold } => {
                drop(self.send_command(LoopCommand::Hold { port, held: on_hold }))
            }
            Step::Recover { port } => drop(self.send_command(LoopCommand::RecoverStorms(port))),
            Step::Lift { port } => {
                drop(self.send_command(LoopCommand::LiftStormLimit { port, priorities: Set8::ALL }));
            }
            Step::Peer { port, dst } => {
                self.handle.send(LoopCommand::PeerAddress { port, mac: mac(dst) }).expect("room")
            }
            Step::Apply { xoff_cells } => {
                let mut settings = settings(xoff_cells);
                if self.removed {
                    settings.ports[0] = PortSettings::vacant();
                }
                self.send_command(apply(&settings));
            }
            Step::Remove => {
                self.removed = true;
                self.take(&Step::Apply { xoff_cells: 6 });
            }
            Step::Add { address } if self.removed => {
                self.take(&Step::Closed { port: 0 });
                self.removed = false;
                self.take(&Step::Apply { xoff_cells: 6 });
                self.take(&Step::Up { port: 0, address });
            }
            Step::Add { .. } => {}
            Step::Snapshot { read_watermarks } => drop(self.parse(read_watermarks)),
            Step::Clear => drop(self.send_command(LoopCommand::ClearWatermarks)),
            Step::FlushFdb { port } => drop(self.send_command(LoopCommand::FlushFdb { port, vid: None })),
            Step::Block { port, blocked } => self.wires[port].block(blocked),
            Step::Fill { port, queues } => self.wires[port].fill_queues(Set8::from_bits(queues)),
            Step::Lose { port, frames } => self.wires[port].lose(frames),
            Step::Refuse { port, frames } => {
                self.wires[port].refuse(RefusedFrames { by_priority: [frames; 8], others: frames });
            }
            Step::KernelDrop { port, frames } => self.wires[port].drop_for_lack_of_chunks(frames),
            Step::Guard { port } => self.heartbeat.record_sent(port, Set8::of(3), self.now),
            Step::Down { port } => self.wires[port].go_down(),
            Step::ShutDown { port } => {
                self.handle.send(LoopCommand::ShutDown(port)).expect("room for a command")
            }
            Step::Closed { port } => {
                self.handle.send(LoopCommand::PortClosed(port)).expect("room for a command")
            }
            Step::Up { port, address } => {
                if self.wires[port].is_detached() {
                    self.take(&Step::Closed { port });
                    self.wires[port].open_again();
                }
                self.send_command(LoopCommand::PortUp { port, mac: mac(address), complete_checksums: true });
            }
        }
    }

    pub fn parse(&mut self, read_watermarks: bool) -> Snapshot {
        match self.send_command(LoopCommand::Snapshot { snapshot: Box::default(), read_watermarks }) {
            Reply::Snapshot(snapshot) => *snapshot,
            other => panic!("{other:?}"),
        }
    }

    /// Takes the chunks that are full.
    pub fn collect(&mut self) {
        while let Some(chunk) = self.chunk_pool.pop_full() {
            self.segments.push(&chunk);
            self.chunk_pool.recycle(chunk.bytes);
        }
    }

    /// Ends the recording. Returns it with the switch's part of a last snapshot and all events.
    pub fn end(mut self) -> (Segments, Snapshot, Events) {
        let last = self.parse(false);
        assert!(matches!(self.send_command(LoopCommand::Record(None)), Reply::Recorded(Some(_))));
        self.collect();
        (self.segments, of_the_switch(last), self.events)
    }
}

/// Removes the values that the loop adds.
pub fn of_the_switch(mut snapshot: Snapshot) -> Snapshot {
    snapshot.ports.iter_mut().for_each(|port| port.kernel = Default::default());
    snapshot.removed_ports.kernel_dropped_frames = 0;
    Snapshot { memory_frames: 0, ..snapshot.without_loop_counters() }
}

/// Events with their times.
pub type Events = Vec<(Instant, Event)>;

/// Returns the bytes of a recording.
pub fn bytes(segments: &Segments) -> Vec<u8> {
    segments.recording().concat()
}

/// Replays a whole recording. Returns the totals, the last requested snapshot, and the events.
pub fn replay(recording: &[u8]) -> Result<(Totals, Snapshot, Events), Error> {
    let mut replay = Replay::new(recording)?;
    let mut events = Vec::new();
    replay.run_until(Instant::NEVER, &mut |at, event| events.push((at, event)))?;
    let snapshot = replay.last_requested_snapshot().expect("a snapshot").clone();
    Ok((replay.totals().clone(), snapshot, events))
}

/// Ends the recording and checks that the replay matches in every field and event. Returns the
/// totals, the last snapshot and the events.
pub fn ends_as_replayed(lab: Lab) -> (Totals, Snapshot, Events) {
    let (segments, last, events) = lab.end();
    let (totals, replayed, replayed_events) = replay(&bytes(&segments)).expect("no difference");
    assert_eq!(difference(&last, &replayed), None);
    assert_eq!(replayed_events, events);
    (totals, last, events)
}

/// Runs an incast of `turns` iterations, with a checkpoint in the middle.
pub fn incast(lab: &mut Lab, turns: usize) {
    for turn in 0..turns {
        for port in 0..2 {
            lab.wires[port].inject(frame(mac(2), mac(port), 3, 1000));
        }
        lab.turns(1, if turn == turns / 2 { 1_000_000_000 } else { 5_000 });
        while let Some(Reply::Event(at, event)) = lab.handle.receive() {
            lab.events.push((at, event));
        }
    }
}
