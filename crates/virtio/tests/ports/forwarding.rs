//! A switch in one loop over two guests and a slow port in memory.

use std::collections::HashMap;
use std::path::PathBuf;
use std::task::Waker;

use crate::loopback_port::{LoopbackPort, Wire};
use dataplane::{Handle, LoopCommand, LoopPort, PollLoop, PollLoopSettings, Reply, Settings, mailbox};
use switch::settings::{
    BridgeSettings, BufferSettings, PfcWdAction, Restoration, SwitchSettings, Threshold, WatchdogSettings,
};
use switch::{Event, HeapMemory, Instant, Snapshot, Switch};
use tempfile::TempDir;
use virtio::front_end::{FrontEnd, FrontEndSettings};
use virtio::ring::fault::RingFault;
use virtio::{SocketRole, SocketSettings, UnsealedMemory, VhostUser, VirtioPort};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;

use crate::common::{settings, until};

const FRAMES: usize = 2048;

pub fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 7, n as u8])
}

/// Priority 3 is no-drop: XOFF at 40 cells, and headroom for a batch.
fn switch_settings(queue_pairs: usize) -> SwitchSettings {
    let ports = (0..3).map(|n| {
        let mut port = switch::PortSettings::new(format!("p{n}"), None);
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 0b0000_1000);
        port.classify.queue_is_priority = n < 2 && queue_pairs == 8;
        let group = &mut port.groups[3];
        (group.reserved_cells, group.headroom_cells, group.xon_offset_cells) = (0, 100, 2);
        group.xoff = Threshold::Static(40);
        port
    });
    SwitchSettings {
        buffer: BufferSettings {
            total_cells: 1024,
            fixed_cells: 0,
            headroom_cells: 300,
            ..BufferSettings::default()
        },
        usage_percent: 100,
        alarms: Default::default(),
        seed: 0,
        bridge: BridgeSettings::default(),
        ports: ports.collect(),
    }
}

/// Guests on ports 0 and 1, a wire on port 2. The loop is declared first, as the sockets' threads
/// wait for it.
pub struct Lab {
    pub core: PollLoop<LoopPort<LoopbackPort>>,
    pub handle: Handle,
    pub drivers: Vec<FrontEnd>,
    pub wire: Wire,
    pub sockets: Vec<VhostUser>,
    pub paths: Vec<PathBuf>,
    queue_pairs: usize,
    pub now: Instant,
    _folder: TempDir,
}

impl Lab {
    pub fn new(queue_pairs: usize) -> Self {
        Self::with(queue_pairs, |_| ())
    }

    /// Makes a lab whose switch has other settings.
    fn with(queue_pairs: usize, change: impl FnOnce(&mut SwitchSettings)) -> Self {
        let mut of_switch = switch_settings(queue_pairs);
        change(&mut of_switch);
        let folder = tempfile::tempdir().unwrap();
        let (mut ports, mut sockets, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..2 {
            let path = folder.path().join(format!("{n}"));
            let socket = SocketSettings {
                path: path.clone(),
                role: SocketRole::Server,
                unsealed: UnsealedMemory::Refused,
            };
            let batch_cells = of_switch.ports[n].guest_batch_cells(false);
            let of_port = virtio::PortSettings { batch_cells, ..settings(queue_pairs) };
            let (socket, port): (_, VirtioPort<HeapMemory>) =
                VhostUser::open("guest", &socket, of_port, |_| ()).unwrap();
            ports.push(LoopPort::Other(Box::new(port)));
            sockets.push(socket);
            paths.push(path);
        }
        let (port, wire) = LoopbackPort::new();
        ports.push(LoopPort::Local(port));
        let macs: Vec<_> = (100..103).map(mac).collect();
        let switch = Switch::new(&of_switch, &macs, FRAMES);
        let (handle, mailbox) = mailbox(Waker::noop().clone());
        let settings = PollLoopSettings {
            complete_checksums: vec![false; 3],
            watches_rings: true,
            ..PollLoopSettings::default()
        };
        let memory = HeapMemory::new(FRAMES, 9300);
        let core = PollLoop::new(switch, ports, memory, FRAMES, mailbox, settings);
        let mut lab = Self {
            core,
            handle,
            drivers: Vec::new(),
            wire,
            sockets,
            paths,
            queue_pairs,
            now: Instant(1_000_000),
            _folder: folder,
        };
        lab.turns(1); // the ports without a guest go down
        for n in 0..2 {
            lab.connect(n);
        }
        for n in 0..2 {
            lab.send(n, 0, &frame(MacAddr::BROADCAST, n, 0, 64));
        }
        lab.wire.inject(frame(MacAddr::BROADCAST, 2, 0, 64));
        lab.turns(3);
        lab.wire.take_sent();
        (0..2).for_each(|n| drop(lab.received(n)));
        lab
    }

    fn connect(&mut self, n: usize) {
        self.connect_and_send(n, 0);
    }

    /// Connects a guest that has sent frames of priority 3 to the wire before its port opens.
    fn connect_and_send(&mut self, n: usize, frames: usize) {
        let driver = FrontEndSettings { queue_pairs: self.queue_pairs, ..FrontEndSettings::default() };
        self.drivers.insert(n, FrontEnd::connect(&self.paths[n], driver).unwrap());
        (0..frames).for_each(|_| assert!(self.send(n, 3, &frame(mac(2), n, 3, 1514))));
        until("the link is up", || self.sockets[n].is_linked());
        let up = LoopCommand::PortUp { port: n, mac: mac(100 + n), complete_checksums: false };
        assert!(matches!(self.command(up), Reply::PortUp(port, true) if port == n));
    }

    fn turns(&mut self, turns: usize) {
        for _ in 0..turns {
            self.now = self.now + 1000;
            self.core.iterate(self.now);
        }
    }

    fn command(&mut self, command: LoopCommand) -> Reply {
        self.handle.send(command).expect("room for a command");
        self.turns(1);
        let mut replies = std::iter::from_fn(|| self.handle.receive());
        replies.find(|reply| !matches!(reply, Reply::Event(..) | Reply::Fault(..))).expect("an answer")
    }

    fn events(&mut self) -> Vec<Event> {
        let replies = std::iter::from_fn(|| self.handle.receive());
        replies
            .filter_map(|reply| if let Reply::Event(_, event) = reply { Some(event) } else { None })
            .collect()
    }

    pub fn snapshot(&mut self) -> Snapshot {
        match self.command(LoopCommand::Snapshot { snapshot: Box::default(), read_watermarks: false }) {
            Reply::Snapshot(snapshot) => *snapshot,
            other => panic!("{other:?}"),
        }
    }

    /// A guest sends a frame on a queue. Returns false if the queue is full.
    fn send(&mut self, n: usize, pair: usize, bytes: &[u8]) -> bool {
        let is_sent = self.drivers[n].send(pair, bytes);
        self.drivers[n].flush(pair);
        is_sent
    }

    /// Takes what a guest received.
    fn received(&mut self, n: usize) -> Vec<Vec<u8>> {
        let (mut frames, mut buffer) = (Vec::new(), Vec::new());
        for pair in 0..self.queue_pairs {
            while self.drivers[n].receive(pair, &mut buffer) {
                frames.push(buffer.clone());
            }
            self.drivers[n].repost(pair);
        }
        frames
    }

    /// Checks that no frame was dropped or lost, and that every frame has one owner.
    fn is_lossless(&mut self) -> Snapshot {
        let snapshot = self.snapshot();
        for port in &snapshot.ports {
            assert!(port.drops.iter().all(|count| count.frames == 0), "{}: {:?}", port.name, port.drops);
            assert_eq!(port.kernel_lost_frames, 0, "{}", port.name);
        }
        snapshot
    }
}

/// A tagged frame from host `src`.
pub fn frame(dst: MacAddr, src: usize, priority: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    write_header(&mut bytes, dst, mac(src), Some(Tag::priority(priority)), EXPERIMENTAL);
    bytes
}

#[test]
fn guests_and_a_wire_exchange_frames_and_flood() {
    for queue_pairs in [1, 8] {
        let mut lab = Lab::new(queue_pairs);
        let to_guest = frame(mac(1), 0, 5, 1514);
        let to_wire = frame(mac(2), 0, 5, 9000);
        let to_all = frame(mac(77), 0, 5, 200);
        let pair = if queue_pairs == 8 { 5 } else { 0 };
        for bytes in [&to_guest, &to_wire, &to_all] {
            assert!(lab.send(0, pair, bytes));
            lab.turns(2);
        }
        lab.wire.inject(frame(mac(0), 2, 5, 300));
        lab.turns(2);
        assert_eq!(lab.received(1), [to_guest, to_all.clone()]);
        assert_eq!(lab.wire.take_sent(), [to_wire, to_all]);
        assert_eq!(lab.received(0), [frame(mac(0), 2, 5, 300)]);
        let snapshot = lab.is_lossless();
        assert_eq!(snapshot.memory_free_frames, FRAMES as u64);
    }
}

/// Two guests send 18 frames of priorities 3 and 5 an iteration to a port that takes fewer.
/// Their queue 3 is paused and keeps what does not fit; nothing is lost from end to end, and
/// priority 5, which is below its share, is unharmed.
#[test]
fn an_incast_into_a_slow_port_loses_nothing() {
    let mut lab = Lab::new(8);
    let (mut sent, mut refused, mut arrived) = ([[0_u64; 8]; 2], 0, [0_u64; 8]);
    let mut turn = |lab: &mut Lab, sends: bool, sent: &mut [[u64; 8]; 2]| {
        for (n, sent) in sent.iter_mut().enumerate().filter(|_| sends) {
            for _ in 0..8 {
                match lab.send(n, 3, &frame(mac(2), n, 3, 200)) {
                    true => sent[3] += 1,
                    false => refused += 1,
                }
            }
            assert!(lab.send(n, 5, &frame(mac(2), n, 5, 200)), "priority 5 is never held back");
            sent[5] += 1;
        }
        lab.wire.limit_kicks(8);
        lab.wire.set_transmit_room(24);
        lab.turns(1);
        for bytes in lab.wire.take_sent() {
            arrived[usize::from(bytes[14] >> 5)] += 1;
        }
    };
    for _ in 0..3000 {
        turn(&mut lab, true, &mut sent);
    }
    for _ in 0..1000 {
        turn(&mut lab, false, &mut sent);
    }
    assert!(refused > 1000, "the senders' queues were full: {refused}");
    for priority in [3, 5] {
        assert_eq!(arrived[priority], sent[0][priority] + sent[1][priority], "priority {priority}");
    }
    let snapshot = lab.is_lossless();
    for port in &snapshot.ports[..2] {
        assert!(port.pfc_sent.frames > 0, "the pauses count as PFC sent");
        assert_eq!(port.groups[3].headroom.cells, 0);
    }
    assert_eq!(snapshot.memory_free_frames, FRAMES as u64);
}

/// Numbers of the frames of each flow (receiver, sender, priority, destination), as they arrive.
#[derive(Default)]
struct FlowOrder {
    last: HashMap<(usize, [u8; 6], u8, [u8; 6]), u32>,
}

impl FlowOrder {
    /// Checks that a frame comes after all earlier ones of its flow. Where `is_whole`, it is the
    /// next one.
    fn check(&mut self, receiver: usize, bytes: &[u8], is_whole: impl Fn(u8, [u8; 6]) -> bool) {
        let (dst, src) = (bytes[..6].try_into().unwrap(), bytes[6..12].try_into().unwrap());
        let (priority, number) = (bytes[14] >> 5, u32::from_be_bytes(bytes[18..22].try_into().unwrap()));
        let last = self.last.entry((receiver, src, priority, dst)).or_default();
        assert!(number > *last, "frame {number} of priority {priority} to {dst:?} comes after {last}");
        assert!(!is_whole(priority, dst) || number == *last + 1, "{number} follows {last}");
        *last = number;
    }
}

/// Frames of a sender, a priority and a destination arrive in the order in which they were sent:
/// through pauses, a slow port, guests that read late, frames of several buffers, and a flood that
/// becomes unicast once the destination is learned.
#[test]
fn frames_of_a_flow_keep_their_order() {
    let learned = 9;
    for (queue_pairs, seed) in [(1, 1), (1, 2), (8, 3), (8, 4), (8, 5)] {
        let mut lab = Lab::new(queue_pairs);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut sent: HashMap<(usize, u8, usize), u32> = HashMap::new();
        let mut order = FlowOrder::default();
        for turn in 0..6000 {
            for _ in 0..if turn < 4000 { random.usize(..24) } else { 0 } {
                let (n, priority) = (random.usize(..2), *random.choice([3, 5].iter()).unwrap());
                let to = *random.choice([2, 1 - n, learned].iter()).unwrap();
                let len = if random.u8(..) == 0 { 5000 } else { random.usize(64..1500) };
                let mut bytes = frame(mac(to), n, priority, len);
                let number = sent.entry((n, priority, to)).or_default();
                bytes[18..22].copy_from_slice(&(*number + 1).to_be_bytes());
                let pair = if queue_pairs == 8 { usize::from(priority) } else { 0 };
                *number += u32::from(lab.send(n, pair, &bytes));
            }
            if turn == 2000 {
                lab.wire.inject(frame(mac(0), learned, 0, 64));
            }
            lab.wire.limit_kicks(8);
            lab.wire.set_transmit_room(if turn < 4000 { random.usize(..40) } else { 64 });
            lab.turns(1);
            let is_whole = |priority, dst| priority == 3 && dst != mac(learned).0;
            lab.wire.take_sent().iter().for_each(|bytes| order.check(2, bytes, is_whole));
            for n in 0..2 {
                if random.u8(..8) == 0 || turn >= 4000 {
                    let received = lab.received(n);
                    let numbered = received.iter().filter(|bytes| bytes[6..12] != mac(learned).0);
                    numbered.for_each(|bytes| order.check(n, bytes, is_whole));
                }
            }
        }
        for n in 0..2 {
            for to in [2, 1 - n] {
                let arrived = order.last[&(to, mac(n).0, 3, mac(to).0)];
                assert_eq!(arrived, sent[&(n, 3, to)], "seed {seed}: {n} to {to}");
                assert!(arrived > 1000, "{arrived}");
            }
        }
        let snapshot = lab.snapshot();
        assert!(snapshot.ports[..2].iter().all(|port| port.pfc_sent.frames > 10), "pauses");
        assert_eq!(snapshot.memory_free_frames, FRAMES as u64);
    }
}

/// A guest that takes nothing from its queue 3 blocks queue 3 to it, and no other queue or port.
#[test]
fn a_guest_that_stops_reading_one_queue() {
    let mut lab = Lab::new(8);
    let (mut of_five, mut sent) = (0, 0);
    let mut buffer = Vec::new();
    for _ in 0..2000 {
        sent += u64::from(lab.send(0, 3, &frame(mac(1), 0, 3, 200)));
        assert!(lab.send(0, 5, &frame(mac(1), 0, 5, 200)));
        assert!(lab.send(0, 6, &frame(mac(2), 0, 6, 200)));
        lab.turns(1);
        while lab.drivers[1].receive(5, &mut buffer) {
            of_five += 1;
        }
        lab.drivers[1].repost(5);
    }
    lab.turns(2);
    while lab.drivers[1].receive(5, &mut buffer) {
        of_five += 1;
    }
    assert_eq!(of_five, 2000);
    assert_eq!(lab.wire.take_sent().len(), 2000);
    assert!(sent < 1000, "the sender of priority 3 is held back: {sent}");
    let mut of_three = 0;
    for _ in 0..200 {
        while lab.drivers[1].receive(3, &mut buffer) {
            of_three += 1;
        }
        lab.drivers[1].repost(3);
        lab.turns(1);
    }
    assert_eq!(of_three, sent);
    lab.is_lossless();
}

/// Other settings have quanta of another speed. A pause in force lasts by it, as the switch
/// refreshes it by it: nothing is read in between.
#[test]
fn a_speed_that_is_reloaded_holds_for_pauses() {
    let mut lab = Lab::new(8);
    lab.wire.block(true);
    let mut sent = 0;
    while lab.send(0, 3, &frame(mac(2), 0, 3, 200)) {
        sent += 1;
        lab.turns(1);
    }
    let mut slower = switch_settings(8);
    slower.ports[0].pfc.pause_speed_bps = Some(1_000_000_000);
    let settings = Settings { switch: slower, min_posted: vec![0; 3] };
    assert!(matches!(lab.command(LoopCommand::Apply(Box::new(settings))), Reply::Applied(_)));
    lab.turns(8000); // 8 ms, where a pause of the earlier speed lasted 3.4 ms
    assert!(lab.snapshot().ports[0].groups[3].xoff);
    lab.wire.block(false);
    lab.turns(100);
    assert_eq!(lab.wire.take_sent().len(), sent);
    lab.is_lossless();
}

/// A batch that begins just below XOFF fills the headroom, and a guest that connects again
/// meanwhile, with a full queue, is not read before it is paused.
#[test]
fn a_guest_that_connects_again_is_still_paused() {
    for headroom_cells in [100, 256] {
        let mut lab = Lab::with(8, |settings| {
            (settings.buffer.total_cells, settings.buffer.headroom_cells) = (2048, 3 * headroom_cells);
            settings.ports.iter_mut().for_each(|port| port.groups[3].headroom_cells = headroom_cells);
        });
        lab.wire.block(true);
        for frames in [6, 64] {
            (0..frames).for_each(|_| assert!(lab.send(0, 3, &frame(mac(2), 0, 3, 1514))));
            lab.turns(5);
        }
        let group = lab.snapshot().ports[0].groups[3];
        assert!(group.xoff && group.headroom.cells > headroom_cells - 10, "{}", group.headroom.cells);
        let waiting = 6 + headroom_cells as usize / 6;

        drop(lab.drivers.remove(0));
        until("the link is down", || {
            lab.turns(1);
            !lab.sockets[0].is_linked()
        });
        lab.handle.send(LoopCommand::PortDown(0)).expect("room for a command");
        lab.turns(1);
        lab.connect_and_send(0, 64);
        lab.turns(5);
        assert_eq!(lab.is_lossless().ports[0].groups[3].headroom.cells, group.headroom.cells);
        lab.wire.block(false);
        lab.turns(500);
        assert_eq!(lab.wire.take_sent().len(), waiting + 64);
        lab.is_lossless();
    }
}

/// An iteration reads no more of a queue than headroom holds, from the reload on that changes it.
#[test]
fn a_reload_of_headroom_changes_what_is_read_of_a_queue() {
    let mut lab = Lab::new(8);
    for (headroom_cells, frames) in [(100, 16), (300, 42), (10, 10), (100, 16)] {
        let mut changed = switch_settings(8);
        changed.ports[0].groups[3].headroom_cells = headroom_cells;
        let settings = Settings { switch: changed, min_posted: vec![0; 3] };
        assert!(matches!(lab.command(LoopCommand::Apply(Box::new(settings))), Reply::Applied(_)));
        let before = lab.snapshot().ports[0].received.frames;
        (0..64).for_each(|_| assert!(lab.send(0, 0, &frame(mac(2), 0, 0, 1514))));
        // The command for it takes one iteration.
        assert_eq!(lab.snapshot().ports[0].received.frames - before, frames, "{headroom_cells} cells");
        lab.turns(100);
        assert_eq!(lab.snapshot().ports[0].received.frames - before, 64);
    }
}

/// A guest that hangs keeps the senders to its queue 3 paused. That is an event after 5 s, and with
/// a watchdog that drops the senders are released.
#[test]
fn a_guest_that_hangs_is_no_silent_pause() {
    for action in [None, Some(PfcWdAction::Drop)] {
        let mut lab = Lab::with(8, |settings| {
            settings.ports[1].watchdog[3] = action.map(|action| WatchdogSettings {
                detection_ns: 400_000_000,
                action,
                restore: Restoration::Quiet(400_000_000),
                limit: None,
            });
        });
        while lab.send(0, 3, &frame(mac(1), 0, 3, 200)) {
            lab.turns(1);
        }
        let mut of_five = 0;
        for _ in 0..60 {
            lab.now = lab.now + 100_000_000;
            assert!(lab.send(0, 5, &frame(mac(1), 0, 5, 200)));
            lab.turns(2);
            while lab.drivers[1].receive(5, &mut Vec::new()) {
                of_five += 1;
            }
            lab.drivers[1].repost(5);
        }
        assert_eq!(of_five, 60, "priority 5 is unharmed");
        let events = lab.events();
        let came = |wanted: Event| events.iter().filter(|event| **event == wanted).count();
        let (stalled, began) = (
            came(Event::QueueStalled { port: 1, queue: 3 }),
            came(Event::StormBegan { port: 1, priority: 3 }),
        );
        let snapshot = lab.snapshot();
        let (group, queue) = (&snapshot.ports[0].groups[3], &snapshot.ports[1].queues[3]);
        assert!(queue.no_room);
        match action {
            None => {
                assert_eq!((stalled, began, queue.no_room_stalls), (1, 0, 1));
                assert!(group.xoff && queue.waiting_frames > 0);
            }
            Some(_) => {
                assert_eq!((stalled, began, queue.waiting_frames), (0, 1, 0));
                assert!(!group.xoff && lab.send(0, 3, &frame(mac(1), 0, 3, 200)), "its sender goes on");
            }
        }
    }
}

/// One guest breaks the rules of its rings; the others lose nothing.
#[test]
fn a_hostile_guest_harms_no_other() {
    let mut lab = Lab::new(8);
    let mut random = fastrand::Rng::with_seed(5);
    let mut sent = 0;
    for _ in 0..500 {
        let [rx, tx] = lab.drivers[0].rings(random.usize(..8));
        for ring in [rx, tx] {
            let rest = (random.u32(..), random.u16(..), random.u16(..));
            ring.write_descriptor(random.u16(..256), random.u64(..), rest);
            ring.push(random.u16(..));
            ring.publish();
        }
        sent += usize::from(lab.send(1, 5, &frame(mac(2), 1, 5, 200)));
        lab.turns(1);
    }
    lab.turns(2);
    assert_eq!(lab.wire.take_sent().iter().filter(|bytes| bytes[6..12] == mac(1).0).count(), sent);
    assert_eq!(sent, 500);
    let _ = RingFault::ALL;
}
