//! A switching core with I/O loops, all on one thread; the test runs each iteration.

use std::sync::Arc;
use std::task::Waker;

use crate::loopback_port::{LoopbackPort, Wire};
use dataplane::{
    Doorbell, Handle, Heartbeat, IoLoop, LoopCommand, LoopPort, PollLoop, PollLoopSettings, Reply, Settings,
    mailbox, remote,
};
use switch::{Event, FrameId, FrameMemory, HeapMemory, Instant, Snapshot, Switch, SwitchSettings};
use wire::ethernet::MAC_CONTROL;
use wire::mac::MacAddr;
use wire::pause::{Control, Pfc, decode};

/// Memory that several loops share: the bytes are common, the free frames belong to each loop.
#[derive(Debug)]
pub struct Shared {
    heap: HeapMemory,
    free: Vec<Vec<FrameId>>,
    /// The loop whose iteration runs: 0 is the switching core.
    pub turn_of: usize,
    /// Checks that the switching core neither reads nor writes data bytes. It copies flooded
    /// frames, builds PFC frames and reads those.
    pub is_guarded: bool,
    /// By frame: it has no content yet.
    is_blank: Vec<bool>,
}

impl Shared {
    /// Creates a memory in which all frames are free and belong to the switching core.
    pub fn new(frames: usize, frame_bytes: usize, lines: usize) -> Self {
        let mut heap = HeapMemory::new(frames, frame_bytes);
        let mut free = vec![std::iter::from_fn(|| heap.alloc()).collect::<Vec<_>>()];
        free[0].reverse();
        free.resize_with(lines + 1, Vec::new);
        Self { heap, free, turn_of: 0, is_guarded: false, is_blank: vec![true; frames] }
    }

    /// Checks an access to the bytes of a frame.
    fn guard(&self, frame: &FrameId) {
        if self.is_guarded && self.turn_of == 0 && !self.is_blank[frame.index()] {
            let ethertype = &self.heap.bytes(frame, 14)[12..];
            assert_eq!(
                ethertype,
                MAC_CONTROL.to_be_bytes(),
                "the switching core touches a data frame's bytes"
            );
        }
    }

    /// Moves `frames` free frames of the switching core to loop `at`, as if its port had held them
    /// in its rings.
    pub fn hand_over(&mut self, frames: usize, at: usize) {
        let rest = self.free[0].len() - frames;
        let handed = self.free[0].split_off(rest);
        self.free[at].extend(handed);
    }
}

impl FrameMemory for Shared {
    fn alloc(&mut self) -> Option<FrameId> {
        self.free[self.turn_of].pop()
    }
    fn free(&mut self, frame: FrameId) {
        self.is_blank[frame.index()] = true;
        self.free[self.turn_of].push(frame);
    }
    fn bytes(&self, frame: &FrameId, len: usize) -> &[u8] {
        self.guard(frame);
        self.heap.bytes(frame, len)
    }
    fn bytes_mut(&mut self, frame: &FrameId, len: usize) -> &mut [u8] {
        self.guard(frame);
        self.is_blank[frame.index()] = false;
        self.heap.bytes_mut(frame, len)
    }
    fn copy(&mut self, from: &FrameId, to: &FrameId, len: usize) {
        self.is_blank[to.index()] = false;
        self.heap.copy(from, to, len);
    }
    fn max_len(&self) -> usize {
        self.heap.max_len()
    }
    fn free_frames(&self) -> usize {
        self.free[self.turn_of].len()
    }
}

type SharedPort = LoopbackPort<Shared>;

pub struct Loops {
    pub core: PollLoop<LoopPort<SharedPort>>,
    pub lines: Vec<IoLoop<SharedPort>>,
    pub wires: Vec<Wire>,
    pub handle: Handle,
    /// The heartbeat of the switching core.
    pub heartbeat: Arc<Heartbeat>,
    pub now: Instant,
    pub events: Vec<Event>,
    frames: usize,
}

impl Loops {
    /// Creates loops with `frames` frames of memory. Port n is served by loop `served_by[n]`, of
    /// which 0 is the switching core. The test closes and opens ports.
    pub fn new(settings: &SwitchSettings, macs: &[MacAddr], frames: usize, served_by: &[usize]) -> Self {
        let count = served_by.iter().max().map_or(0, |&last| last);
        let bell = Arc::new(Doorbell::default());
        let bells: Vec<_> = (0..count).map(|_| Arc::new(Doorbell::default())).collect();
        let heartbeats: Vec<_> = (0..count).map(|_| Arc::new(Heartbeat::default())).collect();
        let (mut ports, mut wires) = (Vec::new(), Vec::new());
        let mut of_lines: Vec<_> = (0..count).map(|_| Vec::new()).collect();
        for &at in served_by {
            let (port, wire) = LoopbackPort::new();
            wire.close_externally();
            wires.push(wire);
            ports.push(if at == 0 {
                LoopPort::Local(port)
            } else {
                let (port, of_line) = remote(port, &bell, &bells[at - 1], &heartbeats[at - 1]);
                of_lines[at - 1].push(of_line);
                LoopPort::Remote(port)
            });
        }
        let lines = of_lines.into_iter().zip(&bells).zip(&heartbeats);
        let lines = lines
            .map(|((ports, bell), heartbeat)| IoLoop::new(ports, Arc::clone(bell), Arc::clone(heartbeat)));
        let lines = lines.collect();
        let (handle, mailbox) = mailbox(Waker::noop().clone());
        let heartbeat = Arc::new(Heartbeat::default());
        let of_core = PollLoopSettings {
            heartbeat: Arc::clone(&heartbeat),
            complete_checksums: vec![true; served_by.len()],
            watches_rings: true,
            io_heartbeats: heartbeats,
            bell,
            ..PollLoopSettings::default()
        };
        let switch = Switch::new(settings, macs, frames);
        let memory = Shared::new(frames, 1024, count);
        Self {
            lines,
            core: PollLoop::new(switch, ports, memory, frames, mailbox, of_core),
            wires,
            handle,
            heartbeat,
            now: Instant(1_000_000),
            events: Vec::new(),
            frames,
        }
    }

    /// Runs an iteration of loop number `at`; 0 is the switching core.
    pub fn turn(&mut self, at: usize) -> bool {
        match at.checked_sub(1) {
            None => self.core.iterate(self.now),
            Some(line) => {
                self.core.memory().turn_of = at;
                let moved = self.lines[line].iterate(self.core.memory(), self.now);
                self.core.memory().turn_of = 0;
                moved
            }
        }
    }

    /// Runs an iteration of all I/O loops, then one of the switching core, `rounds` times.
    pub fn rounds(&mut self, rounds: usize) {
        (0..rounds).for_each(|_| self.round(|_| {}));
    }

    /// Runs one such round. `between` may change what the wires do to transmitted frames: frames
    /// that leave now meet the change, whichever loop sends them.
    pub fn round(&mut self, between: impl FnOnce(&[Wire])) {
        self.now = self.now + 1000;
        (1..=self.lines.len()).for_each(|line| _ = self.turn(line));
        between(&self.wires);
        self.turn(0);
    }

    /// Returns the switching core's reply, once all loops have done their part.
    pub fn send_command(&mut self, command: LoopCommand) -> Reply {
        self.handle.send(command).expect("room for a command");
        for _ in 0..10 {
            self.rounds(1);
            if let Some(answer) = self.next_reply() {
                return answer;
            }
        }
        panic!("no answer");
    }

    /// Takes a reply, if there is one; events before it are kept.
    pub fn next_reply(&mut self) -> Option<Reply> {
        while let Some(reply) = self.handle.receive() {
            match reply {
                Reply::Event(_, event) => self.events.push(event),
                Reply::Fault(..) => {}
                answer => return Some(answer),
            }
        }
        None
    }

    pub fn apply(&mut self, settings: &SwitchSettings) {
        let min_posted = vec![1; settings.ports.len()];
        let settings = Settings { switch: settings.clone(), min_posted };
        assert!(matches!(self.send_command(LoopCommand::Apply(Box::new(settings))), Reply::Applied(_)));
    }

    pub fn snapshot(&mut self) -> Snapshot {
        match self.send_command(LoopCommand::Snapshot { snapshot: Box::default(), read_watermarks: false }) {
            Reply::Snapshot(snapshot) => *snapshot,
            other => panic!("{other:?}"),
        }
    }

    /// Checks that every frame of the memory and every received frame is accounted for. Returns the
    /// snapshot.
    pub fn conserved(&mut self) -> Snapshot {
        let snapshot = self.snapshot();
        super::balanced(&snapshot);
        let somewhere = snapshot.memory_free_frames + snapshot.memory_in_rings_frames;
        assert_eq!(somewhere, self.frames as u64, "{snapshot:#?}");
        snapshot
    }

    /// Takes the data frames that left a wire.
    pub fn data(&self, port: usize) -> Vec<Vec<u8>> {
        self.wires[port].take_sent().into_iter().filter(|bytes| decode(bytes).is_err()).collect()
    }

    /// Takes the PFC frames that left a wire.
    pub fn pfc(&self, port: usize) -> Vec<Pfc> {
        let sent = self.wires[port].take_sent();
        let pfc = |bytes: &Vec<u8>| if let Ok(Control::Pfc(pfc)) = decode(bytes) { Some(pfc) } else { None };
        sent.iter().filter_map(pfc).collect()
    }
}
