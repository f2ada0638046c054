//! The loop over ports in memory: what goes in and comes out, turn by turn, also when a port misbehaves.

use std::io;
use std::sync::Arc;
use std::task::Waker;

use dataplane::{
    Command, Core, CoreSettings, Handle, Heartbeat, MemoryPort, Port, Pulse, RX_BATCH, Reply, Settings,
    Trouble, Wait, Wire, mailbox,
};
use switch::counters::DropReason;
use switch::rx_rings::{XOFF_FRAMES, XON_FRAMES};
use switch::settings::{BridgeSettings, BufferSettings, PortSettings, SwitchSettings, Threshold};
use switch::{Event, HeapMemory, Instant, Nanos, Snapshot, Switch};
use wire::ethernet::{EXPERIMENTAL, IPV4, Tag, write_header};
use wire::mac::MacAddr;
use wire::pause::{Control, Pfc, decode};

const FRAMES: usize = 512;
const PORTS: usize = 3;

fn mac(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 7, n as u8])
}

/// Priority 3 is no-drop: XOFF at 4 cells, 8 cells of headroom.
fn settings() -> SwitchSettings {
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

struct Lab {
    core: Core<MemoryPort>,
    wires: Vec<Wire>,
    handle: Handle,
    heartbeat: Arc<Heartbeat>,
    now: Instant,
}

impl Lab {
    fn new() -> Self {
        let heartbeat = Arc::new(Heartbeat::default());
        let macs: Vec<_> = (100..100 + PORTS).map(mac).collect();
        let switch = Switch::new(&settings(), &macs, FRAMES);
        let (ports, wires): (Vec<_>, Vec<_>) = (0..PORTS).map(|_| MemoryPort::new()).unzip();
        let (handle, mailbox) = mailbox(Waker::noop().clone());
        let settings = CoreSettings {
            finish_checksums: vec![true; PORTS],
            watches_rings: true,
            heartbeat: Arc::clone(&heartbeat),
        };
        let memory = HeapMemory::new(FRAMES, 2048);
        let core = Core::new(switch, ports, memory, FRAMES, mailbox, settings);
        let mut lab = Self { core, wires, handle, heartbeat, now: Instant(1_000_000) };
        for n in 0..PORTS {
            lab.wires[n].inject(frame(MacAddr::BROADCAST, mac(n), 0)); // so that addresses are known
        }
        lab.turns(3);
        lab.wires.iter().for_each(|wire| drop(wire.take_sent()));
        lab
    }

    fn turns(&mut self, turns: usize) {
        for _ in 0..turns {
            self.now = self.now + 1000;
            self.core.turn(self.now);
        }
    }

    /// Has a command obeyed in a turn; its answer. Events that came before are lost.
    fn tell(&mut self, command: Command) -> Reply {
        self.handle.send(command).expect("room for a command");
        self.turns(1);
        let mut replies = std::iter::from_fn(|| self.handle.receive());
        replies.find(|reply| !matches!(reply, Reply::Event(..) | Reply::Trouble(..))).expect("an answer")
    }

    fn snapshot(&mut self) -> Snapshot {
        self.look(false)
    }

    fn look(&mut self, read_watermarks: bool) -> Snapshot {
        match self.tell(Command::Snapshot { snapshot: Box::default(), read_watermarks }) {
            Reply::Snapshot(snapshot) => *snapshot,
            other => panic!("{other:?}"),
        }
    }

    fn hold(&mut self, port: usize, held: bool) {
        assert!(matches!(self.tell(Command::Hold { port, held }), Reply::Done));
    }

    /// Puts settings in force, which come back.
    fn apply(&mut self, settings: SwitchSettings) {
        let settings = Settings { switch: settings, min_posted: vec![1, 2, 3] };
        match self.tell(Command::Apply(Box::new(settings.clone()))) {
            Reply::Applied(back) => assert_eq!(*back, settings),
            other => panic!("{other:?}"),
        }
    }

    /// Runs the loop on a clock of its own until it has stopped; the totals.
    fn stop(&mut self) -> Snapshot {
        self.stop_while(|_| {})
    }

    /// The same; `meanwhile` is called with the number of each reading of the clock.
    fn stop_while(&mut self, meanwhile: impl Fn(u64)) -> Snapshot {
        self.handle.send(Command::Stop(Box::default())).expect("room for a command");
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

    fn events(&mut self) -> Vec<Event> {
        let replies = std::iter::from_fn(|| self.handle.receive());
        replies
            .filter_map(|reply| if let Reply::Event(_, event) = reply { Some(event) } else { None })
            .collect()
    }

    /// What arrived on a wire: PFC frames decoded, of data frames their length.
    fn seen(&mut self, port: usize) -> Vec<Result<Pfc, usize>> {
        let sent = self.wires[port].take_sent();
        sent.iter()
            .map(|bytes| if let Ok(Control::Pfc(pfc)) = decode(bytes) { Ok(pfc) } else { Err(bytes.len()) })
            .collect()
    }
}

/// Whoever waits goes on at once.
struct Sleepless;

impl Wait for Sleepless {
    fn watch<'a, P: Port + 'a>(&mut self, _ports: impl IntoIterator<Item = &'a P>) {}

    fn wait(&mut self, _timeout_ns: Nanos) -> io::Result<bool> {
        Ok(false)
    }
}

fn frame(dst: MacAddr, src: MacAddr, priority: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    write_header(&mut bytes, dst, src, Some(Tag::priority(priority)), EXPERIMENTAL);
    bytes
}

fn xoff_3(quanta: u16) -> Pfc {
    Pfc { enable: 0b0000_1000, quanta: [0, 0, 0, quanta, 0, 0, 0, 0] }
}

fn conserved(snapshot: &Snapshot) {
    let received: u64 = snapshot.ports.iter().map(|port| port.received.frames).sum();
    let transmitted: u64 = snapshot.ports.iter().map(|port| port.transmitted.frames).sum();
    let drops: u64 = snapshot.ports.iter().flat_map(|port| &port.drops).map(|count| count.frames).sum();
    let lost: u64 = snapshot.ports.iter().map(|port| port.kernel_lost_frames).sum();
    assert_eq!(received + snapshot.flood_copies, transmitted + drops + lost, "{snapshot:#?}");
    assert_eq!(snapshot.memory_free_frames + snapshot.memory_in_rings_frames, FRAMES as u64, "{snapshot:#?}");
}

#[test]
fn a_known_destination_gets_the_frame_and_nobody_else() {
    let mut lab = Lab::new();
    let sent = frame(mac(1), mac(0), 5);
    lab.wires[0].inject(sent.clone());
    lab.turns(2);
    assert_eq!(lab.wires[1].take_sent(), [sent]);
    assert!(lab.wires[0].take_sent().is_empty() && lab.wires[2].take_sent().is_empty());
    conserved(&lab.snapshot());
}

#[test]
fn an_unknown_destination_is_flooded_to_all_but_the_sender() {
    let mut lab = Lab::new();
    let sent = frame(mac(77), mac(0), 0);
    lab.wires[0].inject(sent.clone());
    lab.turns(2);
    assert_eq!(lab.wires[1].take_sent(), std::slice::from_ref(&sent));
    assert_eq!(lab.wires[2].take_sent(), [sent]);
    assert!(lab.wires[0].take_sent().is_empty());
    conserved(&lab.snapshot());
}

/// XOFF goes out in the turn in which the threshold is reached, and XON once the queue drains; nothing is lost.
#[test]
fn congestion_is_told_in_the_same_turn_and_its_end_too() {
    let mut lab = Lab::new();
    lab.wires[1].block(true);
    (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(2);
    assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))]);
    lab.wires[1].block(false);
    lab.turns(4);
    assert_eq!(lab.seen(0), [Ok(xoff_3(0))]);
    assert_eq!(lab.seen(1), vec![Err(64); 10]);
    let begun_and_ended =
        [Event::XoffBegan { port: 0, priority: 3 }, Event::XoffEnded { port: 0, priority: 3 }];
    assert_eq!(lab.events(), begun_and_ended);
    let snapshot = lab.snapshot();
    assert_eq!(snapshot.ports[0].groups[3].headroom.peak_cells, 6, "4 shared, 6 of 10 in headroom");
    conserved(&snapshot);
}

#[test]
fn headroom_exhausted_is_counted_to_the_frame_and_told_once() {
    let mut lab = Lab::new();
    lab.wires[1].block(true);
    (0..20).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(2);
    lab.wires[1].block(false);
    lab.turns(3);
    assert_eq!(lab.seen(1).len(), 12, "4 shared and 8 of headroom");
    assert_eq!(
        lab.events()
            .iter()
            .filter(|event| matches!(event, Event::NoDropLost { port: 0, priority: 3 }))
            .count(),
        1
    );
    let snapshot = lab.snapshot();
    assert_eq!(snapshot.ports[0].drops[DropReason::IngressNoDrop as usize].frames, 8);
    conserved(&snapshot);
}

#[test]
fn a_received_pause_stops_its_priority_and_no_other() {
    let mut lab = Lab::new();
    let mut bytes = [0; 60];
    xoff_3(65_535).encode(mac(1), &mut bytes);
    lab.wires[1].inject(bytes);
    lab.turns(1);
    (0..3).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    (0..2).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 0)));
    lab.turns(3);
    assert_eq!(lab.seen(1).len(), 2);
    xoff_3(0).encode(mac(1), &mut bytes);
    lab.wires[1].inject(bytes);
    lab.turns(3);
    assert_eq!(lab.seen(1).len(), 3);
    let snapshot = lab.snapshot();
    let received = snapshot.ports[1].pfc_received;
    assert_eq!((received.frames, received.xoff_frames[3], received.xon_frames[3]), (2, 1, 1));
    assert_eq!(snapshot.ports[1].received.frames, 1, "PFC frames are no data: only the announcement counts");
    conserved(&snapshot);
}

#[test]
fn what_the_kernel_loses_is_counted_as_lost() {
    let mut lab = Lab::new();
    lab.wires[1].lose(2);
    (0..5).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 0)));
    lab.turns(3);
    assert_eq!(lab.seen(1).len(), 3);
    let snapshot = lab.snapshot();
    assert_eq!(snapshot.ports[1].kernel_lost_frames, 2);
    assert_eq!(snapshot.ports[1].kernel.tx_busy, 2);
    conserved(&snapshot);
}

#[test]
fn a_port_that_goes_takes_its_frames_along_and_leaves_the_others_alone() {
    let mut lab = Lab::new();
    lab.wires[1].block(true);
    (0..3).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(2);
    lab.wires[1].go_down();
    lab.turns(2);
    let said: Vec<_> = std::iter::from_fn(|| lab.handle.receive()).collect();
    let told = said.iter().any(|reply| matches!(reply, Reply::Event(_, Event::PortDown { port: 1 })));
    let why = said.iter().filter(|reply| matches!(reply, Reply::Trouble(1, Trouble::Down(Wire::ENODEV))));
    assert_eq!((told, why.count()), (true, 1), "that it is down, and once why: {said:?}");
    let snapshot = lab.snapshot();
    assert!(!snapshot.ports[1].up && snapshot.ports[0].up);
    assert_eq!(snapshot.ports[1].drops[DropReason::PortDown as usize].frames, 3);
    conserved(&snapshot);
    lab.wires[0].take_sent();
    lab.wires[2].inject(frame(mac(0), mac(2), 0));
    lab.turns(2);
    assert_eq!(lab.seen(0), [Err(64)]);
    // Its address is forgotten: a frame for it is flooded to whoever is left.
    lab.wires[0].inject(frame(mac(1), mac(0), 0));
    lab.turns(2);
    assert_eq!(lab.seen(2), [Err(64)]);
}

/// Another thread closes and opens the port. Until its rings are closed their frames stay where they are, and nothing is opened; then
/// it carries frames again, with another address, and whoever is there now is told what is in XOFF.
#[test]
fn a_port_that_is_opened_again_begins_anew() {
    let mut lab = Lab::new();
    lab.wires[1].keep();
    lab.hold(2, true);
    (0..10).for_each(|_| lab.wires[1].inject(frame(mac(2), mac(1), 3)));
    lab.wires[1].block(true);
    (0..3).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 0)));
    lab.turns(2);
    lab.wires[1].block(false);
    lab.turns(2);
    assert_eq!(
        lab.seen(1).iter().filter(|seen| **seen == Ok(xoff_3(65_535))).count(),
        1,
        "its host is paused"
    );
    lab.wires[1].block(true);
    (0..3).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 0)));
    lab.turns(2);

    lab.wires[1].go_down();
    lab.turns(2);
    assert!(lab.wires[1].is_let_go() && !lab.snapshot().ports[1].up);
    let up = |lab: &mut Lab| {
        let command = Command::PortUp { port: 1, mac: mac(201), finish_checksums: true };
        lab.handle.send(command).unwrap();
        lab.turns(1);
        let said = std::iter::from_fn(|| lab.handle.receive()).collect::<Vec<_>>();
        let told = said.iter().any(|reply| matches!(reply, Reply::Event(_, Event::PortUp { port: 1 })));
        let answer = said.iter().find_map(|reply| match reply {
            Reply::PortUp(1, is_up) => Some(*is_up),
            _ => None,
        });
        (answer.expect("an answer"), told)
    };
    lab.wires[1].open_again();
    assert_eq!(up(&mut lab), (false, false), "its rings are not closed yet");
    assert_eq!(lab.snapshot().ports[1].drops[DropReason::PortDown as usize].frames, 0, "the kernel has them");
    lab.wires[1].inject(frame(mac(0), mac(1), 0)); // nobody takes it any more

    lab.handle.send(Command::PortClosed(1)).unwrap();
    lab.wires[1].block(false);
    lab.turns(1);
    let snapshot = lab.snapshot();
    assert_eq!(snapshot.ports[1].drops[DropReason::PortDown as usize].frames, 3);
    assert_eq!(snapshot.ports[1].kernel.rx_closed_frames, 1);

    assert_eq!(up(&mut lab), (true, true));
    lab.turns(2);
    let sent = lab.wires[1].take_sent();
    let (last, before) = sent.split_last().expect("it was told");
    assert_eq!(
        (decode(last), &last[6..12]),
        (Ok(Control::Pfc(xoff_3(65_535))), &mac(201).0[..]),
        "{before:?}"
    );
    lab.hold(2, false);
    lab.turns(4);
    lab.wires[1].inject(frame(mac(0), mac(1), 0));
    lab.turns(2);
    lab.wires[0].take_sent();
    lab.wires[0].inject(frame(mac(1), mac(0), 0));
    lab.wires[1].take_sent();
    lab.turns(2);
    assert_eq!(lab.seen(1), [Err(64)], "known where it is");
    let snapshot = lab.snapshot();
    assert!(snapshot.ports[1].up);
    conserved(&snapshot);
    assert_eq!(snapshot.memory_free_frames, FRAMES as u64);
}

/// The Linux way to send UDP over a veth: the checksum field holds the pseudo-header sum only.
#[test]
fn an_open_transport_checksum_is_finished() {
    let mut lab = Lab::new();
    let mut bytes = vec![0; 60];
    let at = write_header(&mut bytes, mac(1), mac(0), None, IPV4);
    // 10.0.0.1 → 10.0.0.2, UDP, 12 bytes: ports 1 and 2, checksum = pseudo-header sum, data "abcd".
    let ip = [0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes[at..at + 20].copy_from_slice(&ip);
    let pseudo: u16 = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 17 + 12;
    let [high, low] = pseudo.to_be_bytes();
    bytes[at + 20..at + 32].copy_from_slice(&[0, 1, 0, 2, 0, 12, high, low, b'a', b'b', b'c', b'd']);
    lab.wires[0].inject(bytes.clone());
    lab.turns(2);
    let sum = u32::from(pseudo) + 1 + 2 + 12 + 0x6162 + 0x6364;
    let want = !((sum & 0xffff) as u16 + (sum >> 16) as u16);
    bytes[at + 26..at + 28].copy_from_slice(&want.to_be_bytes());
    assert_eq!(lab.wires[1].take_sent(), [bytes]);
}

/// Told to stop while a port is paused and its neighbour in XOFF: what can leave leaves, the rest is counted, no XON is told
/// for what would not be received, every frame is given back.
#[test]
fn a_stop_drains_tells_no_xon_and_says_the_totals() {
    let mut lab = Lab::new();
    let mut bytes = [0; 60];
    xoff_3(65_535).encode(mac(1), &mut bytes);
    lab.wires[1].inject(bytes);
    lab.turns(1);
    (0..6).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    (0..2).for_each(|_| lab.wires[0].inject(frame(mac(2), mac(0), 0)));
    lab.turns(1);
    let snapshot = lab.stop();
    let xoffs = lab.seen(0);
    assert!((1..6).contains(&xoffs.len()), "XOFF and refreshes: {xoffs:?}");
    assert!(xoffs.iter().all(|pfc| *pfc == Ok(xoff_3(65_535))), "and no XON: {xoffs:?}");
    let sent: u64 = snapshot.ports.iter().map(|port| port.transmitted.frames).sum();
    let flushed: u64 =
        snapshot.ports.iter().map(|port| port.drops[DropReason::PortDown as usize].frames).sum();
    assert_eq!((sent, flushed), (6 + 6 + 2, 0), "the pause ended by itself while the queues drained");
    conserved(&snapshot);
    assert_eq!((snapshot.memory_free_frames, snapshot.ingress_pools[0].level.cells), (FRAMES as u64, 0));
}

/// Nothing but PFC leaves a held port: frames for it stay, and whoever sends them is told to stop.
#[test]
fn a_held_port_keeps_its_frames_and_a_released_one_sends_them_in_order() {
    let mut lab = Lab::new();
    lab.hold(1, true);
    let sent: Vec<_> = (0..10)
        .map(|n| {
            let mut bytes = frame(mac(1), mac(0), 3);
            bytes[63] = n;
            lab.wires[0].inject(bytes.clone());
            bytes
        })
        .collect();
    lab.wires[1].inject(frame(mac(2), mac(1), 3));
    lab.turns(3);
    assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))]);
    assert_eq!((lab.seen(1), lab.seen(2)), (vec![], vec![Err(64)]), "what it receives goes on");
    let snapshot = lab.snapshot();
    assert_eq!((snapshot.ports[0].held, snapshot.ports[1].held), (false, true));
    assert_eq!(snapshot.ports[1].queues[3].waiting_frames, 10);

    lab.hold(1, false);
    lab.turns(5);
    assert_eq!(lab.wires[1].take_sent(), sent);
    assert_eq!(lab.seen(0), [Ok(xoff_3(0))]);
    conserved(&lab.snapshot());
}

/// A port that tells its neighbour to stop tells it so, and XON later, though it is held itself.
#[test]
fn a_held_port_still_sends_pfc() {
    let mut lab = Lab::new();
    lab.hold(0, true);
    lab.wires[1].block(true);
    (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.wires[1].inject(frame(mac(0), mac(1), 3));
    lab.turns(3);
    assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))], "PFC, and no data");
    lab.wires[1].block(false);
    lab.turns(5);
    assert_eq!(lab.seen(0), [Ok(xoff_3(0))]);
}

#[test]
fn a_stop_releases_held_ports_so_that_they_drain() {
    let mut lab = Lab::new();
    lab.hold(1, true);
    (0..6).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(3);
    assert_eq!(lab.seen(1), []);
    let totals = lab.stop();
    let data: Vec<_> = lab.seen(1).into_iter().filter(Result::is_err).collect();
    assert_eq!(data, vec![Err(64); 6]);
    assert_eq!(lab.seen(0).last(), Some(&Ok(xoff_3(65_535))), "no XON for what nobody would forward");
    assert_eq!(totals.ports[1].drops[DropReason::PortDown as usize].frames, 0);
    conserved(&totals);
}

/// XOFF at 4 cells; 10 frames of a cell each are held: 4 shared, 6 in headroom. Then XOFF at 32, and at 2.
#[test]
fn other_thresholds_take_effect_on_a_full_switch_and_lose_nothing() {
    let mut lab = Lab::new();
    lab.hold(1, true);
    let more = |lab: &mut Lab, frames: u8| {
        (0..frames).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
        lab.turns(2);
    };
    let with_xoff = |cells| {
        let mut settings = settings();
        settings.ports[0].groups[3].xoff = Threshold::Static(cells);
        settings
    };
    let group = |lab: &mut Lab| {
        let group = lab.snapshot().ports[0].groups[3];
        (group.threshold_cells, group.shared.cells, group.headroom.cells)
    };
    more(&mut lab, 10);
    assert_eq!((lab.seen(0), group(&mut lab)), (vec![Ok(xoff_3(65_535))], (4, 4, 6)));

    // Headroom that is in use drains before anything else does.
    lab.apply(with_xoff(32));
    assert_eq!(group(&mut lab), (32, 4, 6));
    lab.wires[1].set_transmit_room(8); // a place is kept for PFC
    lab.wires[1].hold_completions(true);
    lab.hold(1, false);
    lab.turns(2);
    lab.hold(1, true);
    lab.wires[1].hold_completions(false);
    lab.turns(2);
    assert_eq!((lab.seen(0), group(&mut lab)), (vec![Ok(xoff_3(0))], (32, 3, 0)), "XON: seven have left");
    more(&mut lab, 20);
    assert_eq!((lab.seen(0), group(&mut lab)), (vec![], (32, 23, 0)), "far from XOFF");

    lab.apply(with_xoff(2));
    lab.turns(2);
    assert_eq!((lab.seen(0), group(&mut lab)), (vec![Ok(xoff_3(65_535))], (2, 23, 0)), "XOFF at once");

    lab.hold(1, false);
    lab.wires[1].set_transmit_room(2048);
    lab.turns(5);
    assert_eq!((lab.seen(0), lab.seen(1).len()), (vec![Ok(xoff_3(0))], 30), "nothing is lost");
    assert_eq!(lab.wires.iter().map(Wire::min_posted).collect::<Vec<_>>(), [1, 2, 3]);
    conserved(&lab.snapshot());
}

/// PFC off while the neighbour is in XOFF: it is told XON, and what is held leaves all the same.
#[test]
fn pfc_turned_off_tells_xon_and_turned_on_pauses_again() {
    let mut lab = Lab::new();
    lab.hold(1, true);
    (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(2);
    assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))]);
    lab.apply(settings().without_pfc());
    lab.turns(2);
    assert_eq!(lab.seen(0), [Ok(xoff_3(0))]);
    lab.apply(settings());
    lab.turns(2);
    assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))]);
    lab.hold(1, false);
    lab.turns(5);
    assert_eq!((lab.seen(0), lab.seen(1).len()), (vec![Ok(xoff_3(0))], 10));
    conserved(&lab.snapshot());
}

/// Reading begins one watermark anew right after the snapshot, clearing another, and both leave the third.
#[test]
fn watermarks_begin_anew_when_read_and_when_cleared() {
    let mut lab = Lab::new();
    let burst = |lab: &mut Lab, frames: u8| {
        lab.hold(1, true);
        (0..frames).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
        lab.turns(2);
        lab.hold(1, false);
        lab.turns(3);
    };
    let peaks = |snapshot: &Snapshot| {
        let level = snapshot.ports[1].queues[3].level;
        (level.cells, level.peak_read_cells, level.peak_clear_cells, level.peak_cells)
    };
    burst(&mut lab, 8);
    assert_eq!(peaks(&lab.look(false)), (0, 8, 8, 8));
    assert_eq!(peaks(&lab.look(true)), (0, 8, 8, 8), "what is read is what was before");
    assert_eq!(peaks(&lab.look(false)), (0, 0, 8, 8));
    burst(&mut lab, 5);
    assert!(matches!(lab.tell(Command::ClearWatermarks), Reply::Done));
    assert_eq!(peaks(&lab.look(false)), (0, 5, 0, 8));
    burst(&mut lab, 2);
    assert_eq!(peaks(&lab.look(true)), (0, 5, 2, 8));
    assert_eq!(peaks(&lab.look(true)), (0, 0, 2, 8));
}

/// Whoever waits for an answer gets it, however many events nobody has taken.
#[test]
fn events_leave_room_for_answers() {
    let mut lab = Lab::new();
    for _ in 0..600 {
        lab.wires[1].block(true);
        (0..6).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
        lab.turns(2);
        lab.wires[1].block(false);
        lab.turns(3);
    }
    let snapshot = lab.snapshot();
    assert_eq!(snapshot.ports[0].groups[3].xoff_episodes, 600);
    assert_eq!(snapshot.events_lost, 1200 - (1024 - 64), "all but those for which there was room");
}

/// Frames come faster than the loop turns, into a port that nothing congests: its neighbour is paused all the same, until
/// what waits is little.
#[test]
fn what_waits_in_an_rx_ring_pauses_the_neighbour() {
    let mut lab = Lab::new();
    let mut settings = settings();
    settings.ports[0].groups[3].xoff = Threshold::Static(10_000); // cells alone would never pause
    lab.apply(settings);
    let inject =
        |lab: &Lab, frames: u32| (0..frames).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    inject(&lab, RX_BATCH as u32 + XOFF_FRAMES - 1);
    lab.turns(1);
    assert_eq!(lab.seen(0), [], "one frame short of the mark");
    inject(&lab, RX_BATCH as u32 + 1);
    lab.turns(2);
    assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))], "XOFF for what is no-drop, and nothing else");
    while lab.wires[0].waiting() as u32 > XON_FRAMES {
        assert_eq!(lab.seen(0), []);
        lab.turns(1);
    }
    lab.turns(1);
    assert_eq!(lab.seen(0), [Ok(xoff_3(0))], "XON");
    lab.turns(10);
    let snapshot = lab.snapshot();
    assert_eq!(snapshot.ports[0].drops[DropReason::IngressNoDrop as usize].frames, 0);
}

/// What the kernel had nowhere to put is an event at once.
#[test]
fn frames_that_the_kernel_dropped_are_an_event() {
    let mut lab = Lab::new();
    lab.wires[1].drop_for_want_of_frames(7);
    lab.turns(1);
    assert!(lab.events().contains(&Event::KernelDropped { port: 1, frames: 7 }));
    // What follows within a second is told when that is over, though nothing more is dropped then.
    lab.wires[1].drop_for_want_of_frames(5);
    lab.turns(10);
    assert_eq!(lab.events(), []);
    lab.now = lab.now + 1_000_000_000;
    lab.turns(1);
    assert_eq!(lab.events(), [Event::KernelDropped { port: 1, frames: 5 }]);
}

/// A frame that is completed twice is counted and an event, and changes nothing else.
#[test]
fn a_frame_completed_twice_is_an_event() {
    let mut lab = Lab::new();
    (0..3).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(2);
    lab.wires[1].complete_twice(2);
    lab.turns(1);
    assert!(lab.events().contains(&Event::StrayFrames { port: 1, frames: 2 }));
    let snapshot = lab.snapshot();
    assert_eq!(snapshot.ports[1].kernel.tx_stray_frames, 2);
    conserved(&snapshot);
}

/// Turns are told apart by the time from the one before, as long as the loop does not sleep.
#[test]
fn turns_are_counted_by_the_time_they_took() {
    let mut lab = Lab::new();
    let before = lab.snapshot();
    let taken = lab.now;
    lab.core.turn(taken + 700);
    lab.core.turn(taken + 2_700);
    lab.core.turn(taken + 2_264_002_700);
    lab.now = taken + 2_264_002_700;
    let after = lab.snapshot();
    let more: Vec<u64> = after
        .loop_turns_by_time
        .iter()
        .zip(before.loop_turns_by_time)
        .map(|(after, before)| after - before)
        .collect();
    assert_eq!(
        (more[0] >= 1, more[2], more[22]),
        (true, 1, 1),
        "below 1 µs, 2 to 4 µs, 2.1 to 4.2 s: {more:?}"
    );
    assert_eq!(after.loop_worst_stall_ns, 2_264_000_000);
    let turns: u64 = after.loop_turns_by_time.iter().sum();
    assert_eq!(turns, after.loop_turns - 1, "all but the first");
}

/// A guard told the neighbour of port 0 to stop while the loop stood still: at its next turn XON follows, and what was sent is
/// counted.
#[test]
fn what_a_guard_told_is_taken_back() {
    let mut lab = Lab::new();
    lab.heartbeat.leave(0, lab.now);
    lab.heartbeat.leave(0, lab.now);
    lab.turns(2);
    assert_eq!(lab.seen(0), [Ok(xoff_3(0))]);
    let sent = lab.snapshot().ports[0].pfc_sent;
    assert_eq!((sent.frames, sent.xoff_frames[3], sent.xon_frames[3]), (3, 2, 1));
    assert_eq!(lab.heartbeat.pulse(), Pulse::Turned(lab.now));
}

/// While the loop ends, pauses are obeyed and data are dropped and counted.
#[test]
fn a_loop_that_ends_still_obeys() {
    let mut lab = Lab::new();
    lab.hold(1, true);
    (0..3).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(1);
    // Both come in when the end has begun: a pause for what is to leave, and more data.
    let (to_0, to_1) = (lab.wires[0].clone(), lab.wires[1].clone());
    let snapshot = lab.stop_while(|tick| {
        if tick == 3 {
            let mut bytes = [0; 60];
            xoff_3(10).encode(mac(1), &mut bytes);
            to_1.inject(bytes);
            (0..5).for_each(|_| to_0.inject(frame(mac(1), mac(0), 3)));
        }
    });
    assert_eq!(snapshot.ports[1].pfc_received.frames, 1, "the neighbour was heard");
    assert_eq!(snapshot.ports[1].queues[3].pauses, 1);
    assert_eq!(snapshot.ports[0].drops[DropReason::PortDown as usize].frames, 5);
    conserved(&snapshot);
}
