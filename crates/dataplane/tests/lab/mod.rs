//! A loop over ports in memory, and the hosts' ends of their wires.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod io_loops;
pub mod traffic_scenarios;

use std::io;
use std::sync::Arc;
use std::task::Waker;

use crate::loopback_port::{LoopbackPort, Wire};
use dataplane::{
    Handle, Heartbeat, LoopCommand, PollLoop, PollLoopSettings, Port, PuntRings, Reply, Settings, Sleeper,
    mailbox,
};
use switch::settings::{BridgeSettings, BufferSettings, PortSettings, SwitchSettings, Threshold};
use switch::{Event, HeapMemory, Instant, Nanos, Snapshot, Switch};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;
use wire::pause::{Control, Pfc, decode};

pub const FRAMES: usize = 512;
pub const PORTS: usize = 3;

pub fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 7, n as u8])
}

/// Priority 3 is no-drop: XOFF at 4 cells, 8 cells of headroom.
pub fn settings() -> SwitchSettings {
    let ports = (0..PORTS).map(|n| {
        let mut port = PortSettings::new(format!("p{n}"), None);
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 0b0000_1000);
        let group = &mut port.groups[3];
        (group.reserved_cells, group.headroom_cells, group.xon_offset_cells) = (0, 8, 2);
        group.xoff = Threshold::Static(4);
        port
    });
    SwitchSettings {
        buffer: BufferSettings {
            total_cells: 256,
            fixed_cells: 0,
            headroom_cells: 64,
            ..BufferSettings::default()
        },
        usage_percent: 100,
        alarms: Default::default(),
        seed: 0,
        bridge: BridgeSettings::default(),
        ports: ports.collect(),
    }
}

pub struct Lab {
    pub core: PollLoop<LoopbackPort>,
    pub wires: Vec<Wire>,
    pub handle: Handle,
    pub heartbeat: Arc<Heartbeat>,
    pub punts: Arc<PuntRings>,
    pub now: Instant,
}

impl Lab {
    pub fn new() -> Self {
        let (heartbeat, punts) = (Arc::new(Heartbeat::default()), Arc::new(PuntRings::new(PORTS)));
        let macs: Vec<_> = (100..100 + PORTS).map(mac).collect();
        let switch = Switch::new(&settings(), &macs, FRAMES);
        let (ports, wires): (Vec<_>, Vec<_>) = (0..PORTS).map(|_| LoopbackPort::new()).unzip();
        let (handle, mailbox) = mailbox(Waker::noop().clone());
        let settings = PollLoopSettings {
            complete_checksums: vec![true; PORTS],
            watches_rings: true,
            heartbeat: Arc::clone(&heartbeat),
            punts: Arc::clone(&punts),
            ..PollLoopSettings::default()
        };
        let memory = HeapMemory::new(FRAMES, 2048);
        let core = PollLoop::new(switch, ports, memory, FRAMES, mailbox, settings);
        let mut lab = Self { core, wires, handle, heartbeat, punts, now: Instant(1_000_000) };
        for n in 0..PORTS {
            lab.wires[n].inject(frame(MacAddr::BROADCAST, mac(n), 0)); // so that addresses are known
        }
        lab.turns(3);
        lab.wires.iter().for_each(|wire| drop(wire.take_sent()));
        lab
    }

    pub fn turns(&mut self, turns: usize) {
        for _ in 0..turns {
            self.now = self.now + 1000;
            self.core.iterate(self.now);
        }
    }

    /// Runs a command in an iteration and returns its reply. Earlier events are discarded.
    pub fn send_command(&mut self, command: LoopCommand) -> Reply {
        self.handle.send(command).expect("room for a command");
        self.turns(1);
        let mut replies = std::iter::from_fn(|| self.handle.receive());
        replies.find(|reply| !matches!(reply, Reply::Event(..) | Reply::Fault(..))).expect("an answer")
    }

    pub fn snapshot(&mut self) -> Snapshot {
        self.parse(false)
    }

    pub fn parse(&mut self, read_watermarks: bool) -> Snapshot {
        match self.send_command(LoopCommand::Snapshot { snapshot: Box::default(), read_watermarks }) {
            Reply::Snapshot(snapshot) => *snapshot,
            other => panic!("{other:?}"),
        }
    }

    pub fn hold(&mut self, port: usize, held: bool) {
        assert!(matches!(self.send_command(LoopCommand::Hold { port, held }), Reply::Done));
    }

    /// Applies settings, and checks that they come back.
    pub fn apply(&mut self, settings: SwitchSettings) {
        let settings = Settings { switch: settings, min_posted: vec![1, 2, 3] };
        match self.send_command(LoopCommand::Apply(Box::new(settings.clone()))) {
            Reply::Applied(back) => assert_eq!(*back, settings),
            other => panic!("{other:?}"),
        }
    }

    /// Runs the loop on a clock of its own until it has stopped. Returns the totals.
    pub fn stop(&mut self) -> Snapshot {
        self.stop_while(|_| {})
    }

    /// Stops the loop. Calls `meanwhile` with the number of each reading of the clock.
    pub fn stop_while(&mut self, meanwhile: impl Fn(u64)) -> Snapshot {
        self.handle.send(LoopCommand::Stop(Box::default())).expect("room for a command");
        let (start, ticks) = (self.now.0, std::cell::Cell::new(0));
        let clock = || {
            ticks.set(ticks.get() + 1);
            meanwhile(ticks.get());
            Instant(start + ticks.get() * 100_000)
        };
        self.core.run(clock, &mut Sleepless).expect("it can sleep");
        let stopped = std::iter::from_fn(|| self.handle.receive())
            .find_map(|reply| if let Reply::Stopped(snapshot) = reply { Some(snapshot) } else { None });
        *stopped.expect("the loop says its totals")
    }

    pub fn events(&mut self) -> Vec<Event> {
        let replies = std::iter::from_fn(|| self.handle.receive());
        replies
            .filter_map(|reply| if let Reply::Event(_, event) = reply { Some(event) } else { None })
            .collect()
    }

    /// Takes the frames that arrived on a wire: decoded PFC frames, and the lengths of data frames.
    pub fn seen(&mut self, port: usize) -> Vec<Result<Pfc, usize>> {
        let sent = self.wires[port].take_sent();
        sent.iter()
            .map(|bytes| if let Ok(Control::Pfc(pfc)) = decode(bytes) { Ok(pfc) } else { Err(bytes.len()) })
            .collect()
    }
}

/// A sleeper that returns at once.
pub struct Sleepless;

impl Sleeper for Sleepless {
    fn watch<'a, P: Port + 'a>(&mut self, _ports: impl IntoIterator<Item = &'a P>) {}

    fn wait(&mut self, _timeout_ns: Nanos) -> io::Result<bool> {
        Ok(false)
    }
}

pub fn frame(dst: MacAddr, src: MacAddr, priority: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    write_header(&mut bytes, dst, src, Some(Tag::priority(priority)), EXPERIMENTAL);
    bytes
}

pub fn xoff_3(quanta: u16) -> Pfc {
    Pfc { enable: 0b0000_1000, quanta: [0, 0, 0, quanta, 0, 0, 0, 0] }
}

pub fn conserved(snapshot: &Snapshot) {
    balanced(snapshot);
    assert_eq!(snapshot.memory_free_frames + snapshot.memory_in_rings_frames, FRAMES as u64, "{snapshot:#?}");
}

/// Checks that received frames were transmitted, dropped or lost.
pub fn balanced(snapshot: &Snapshot) {
    let received: u64 = snapshot.ports.iter().map(|port| port.received.frames).sum();
    let transmitted: u64 = snapshot.ports.iter().map(|port| port.transmitted.frames).sum();
    let drops: u64 = snapshot.ports.iter().flat_map(|port| &port.drops).map(|count| count.frames).sum();
    let lost: u64 = snapshot.ports.iter().map(|port| port.kernel_lost_frames).sum();
    assert_eq!(received + snapshot.flood_copies, transmitted + drops + lost, "{snapshot:#?}");
}
