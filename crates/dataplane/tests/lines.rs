//! A switch of several cores: the same as with one, and nothing is lost between them, whichever stands still. All loops are on one
//! thread here and turn when they are told to, so every order of their turns can be had.

mod lab;

use std::collections::HashMap;

use dataplane::vigil::{GIVE_UP_NS, STALL_NS};
use dataplane::{Command, LANE_FRAMES, RX_BATCH, Reply};
use lab::lines::Loops;
use lab::{frame, mac, settings, xoff_3};
use proptest::prelude::*;
use switch::counters::DropReason;
use switch::rx_rings::{XOFF_FRAMES, XON_FRAMES};
use switch::settings::{Threshold, Trust};
use switch::{Event, Memory, Snapshot, SwitchSettings};
use wire::mac::MacAddr;
use wire::pause::{Control, Pfc, decode};

/// More than all that loops keep for themselves.
const FRAMES: usize = 16_384;
const PORTS: usize = lab::PORTS;

fn loops(settings: &SwitchSettings, served_by: [usize; PORTS]) -> Loops {
    let macs: Vec<_> = (100..100 + PORTS).map(mac).collect();
    let mut loops = Loops::new(settings, &macs, FRAMES, &served_by);
    (0..PORTS).for_each(|n| loops.wires[n].inject(frame(MacAddr::BROADCAST, mac(n), 0)));
    loops.rounds(4);
    loops.wires.iter().for_each(|wire| drop(wire.take_sent()));
    loops
}

/// What is random here, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A frame whose last bytes are a number.
fn numbered(to: usize, from: usize, priority: u8, number: u64) -> Vec<u8> {
    let mut bytes = frame(mac(to), mac(from), priority);
    let at = bytes.len() - 8;
    bytes[at..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Without what is a loop's and not the switch's, and how often the kernel was called.
fn of_the_switch(mut snapshot: Snapshot) -> Snapshot {
    snapshot.ports.iter_mut().for_each(|port| (port.kernel.tx_kicks, port.kernel.tx_again) = (0, 0));
    Snapshot { at_ns: 0, ..snapshot.without_loop() }
}

/// What happens to frames that leave.
enum Leaving {
    Lost,
    Blocked(bool),
}

/// The same arrivals, turn by turn: overload, pauses both ways, floods, losses in the kernel, ports that are blocked, settings that
/// change. What left each port in each turn, all events, and the last snapshot.
fn story(served_by: [usize; PORTS]) -> (Vec<Vec<Vec<u8>>>, Vec<Event>, Snapshot) {
    let mut loops = loops(&settings(), served_by);
    let mut random = Random(7);
    let (mut left, mut leaving) = (Vec::new(), Vec::new());
    for round in 0..3000 {
        for port in 0..PORTS {
            for _ in 0..random.below(6) * random.below(6) {
                let to = [0, 1, 2, 2, 2, 9][random.below(6) as usize];
                let priority = [0, 3, 3, 5][random.below(4) as usize];
                loops.wires[port].inject(numbered(to, port, priority, round));
            }
            if random.below(40) == 0 {
                let mut bytes = [0; 60];
                let quanta = [0, 3, 200][random.below(3) as usize];
                Pfc { enable: 0b0000_1000, quanta: [quanta; 8] }.encode(mac(port), &mut bytes);
                loops.wires[port].inject(bytes);
            }
            match random.below(200) {
                0 => leaving.push((port, Leaving::Lost)),
                1..=3 => leaving.push((port, Leaving::Blocked(true))),
                4..=30 => leaving.push((port, Leaving::Blocked(false))),
                31 => loops.wires[port].hold_completions(true),
                32..=60 => loops.wires[port].hold_completions(false),
                61 => loops.wires[port].drop_for_want_of_frames(3),
                62 => loops.wires[port].complete_twice(1),
                _ => {}
            }
        }
        if round % 500 == 499 {
            // In force in the turns that follow, whatever was looked at before.
            let mut settings = settings();
            let other = round % 1000 == 499;
            settings.ports[0].classify.trust = if other { Trust::None } else { Trust::Dot1p };
            settings.ports[1].classify.port_priority = 3;
            settings.ports[1].groups[3].xoff = Threshold::Static(if other { 6 } else { 4 });
            (0..200).for_each(|_| loops.wires[0].inject(numbered(1, 0, 3, round)));
            loops.apply(&settings);
        }
        loops.round(|wires| {
            leaving.drain(..).for_each(|(port, change)| match change {
                Leaving::Lost => wires[port].lose(2),
                Leaving::Blocked(is_blocked) => wires[port].block(is_blocked),
            });
        });
        left.extend(loops.wires.iter().map(|wire| wire.take_sent()));
    }
    loops.wires.iter().for_each(|wire| {
        wire.block(false);
        wire.hold_completions(false);
    });
    loops.rounds(600);
    left.extend(loops.wires.iter().map(|wire| wire.take_sent()));
    let snapshot = loops.conserved();
    (left, std::mem::take(&mut loops.events), of_the_switch(snapshot))
}

/// Whatever serves the ports: every frame leaves in the same turn, and counters, watermarks, drops and events are the same.
#[test]
fn several_loops_decide_what_one_does() {
    let (left, events, snapshot) = story([0, 0, 0]);
    let drops: u64 = snapshot.ports.iter().flat_map(|port| &port.drops).map(|count| count.frames).sum();
    let paused: u64 = snapshot.ports.iter().map(|port| port.pfc_sent.frames).sum();
    let lost: u64 = snapshot.ports.iter().map(|port| port.kernel_lost_frames).sum();
    assert!(drops > 1000 && paused > 100 && lost > 10, "it was a story: {drops}, {paused}, {lost}");
    for served_by in [[1, 1, 1], [1, 2, 2], [0, 1, 2], [2, 0, 1]] {
        let (left_there, events_there, there) = story(served_by);
        let differs = left.iter().zip(&left_there).position(|(here, there)| here != there);
        assert_eq!(differs, None, "of wire and turn, served by {served_by:?}");
        assert_eq!(events_there, events);
        assert_eq!(dataplane::replay::difference(&snapshot, &there), None, "served by {served_by:?}");
    }
}

/// Frames that are on the lane when settings change, looked at by the old ones, are treated by the new.
#[test]
fn frames_are_treated_by_the_rules_of_the_turn_that_takes_them() {
    let mut loops = loops(&settings(), [1, 0, 0]);
    (0..3 * RX_BATCH).for_each(|n| loops.wires[0].inject(numbered(1, 0, 5, n as u64)));
    (0..3).for_each(|_| _ = loops.turn(1));
    assert_eq!(loops.wires[0].waiting(), 0, "all are on the lane");
    let mut settings = settings();
    settings.ports[0].classify.trust = Trust::None;
    loops.apply(&settings);
    loops.rounds(5);
    let groups = loops.conserved().ports[0].groups.map(|group| group.received.frames);
    let batch = RX_BATCH as u64;
    assert_eq!((groups[5], groups[0]), (batch, 2 * batch + 1), "one batch before, and the announcement");
}

/// Senders on different loops that obey pauses, into one receiver, while loops turn in any order and one or the other stands still:
/// nothing is lost, and each sender's frames arrive in their order.
fn incast(served_by: [usize; PORTS], schedule: &[(usize, usize)]) {
    let mut settings = settings();
    settings.buffer.total_cells = 4_000;
    settings.buffer.headroom_cells = 2_000;
    for port in &mut settings.ports {
        port.groups[3].headroom_cells = 1_000;
    }
    let mut loops = loops(&settings, served_by);
    let mut paused = [false; PORTS];
    let mut sent = [0_u64; PORTS];
    let mut seen = HashMap::new();
    let mut step = |loops: &mut Loops, at: Option<usize>, sends: bool| {
        loops.now = loops.now + 1000;
        for sender in [0, 1] {
            for pfc in loops.pfc(sender) {
                paused[sender] = pfc.quanta[3] > 0;
            }
            if sends && !paused[sender] {
                loops.wires[sender].inject(numbered(2, sender, 3, sent[sender]));
                sent[sender] += 1;
            }
        }
        match at {
            Some(at) => _ = loops.turn(at),
            None => loops.rounds(1),
        }
        for bytes in loops.data(2) {
            let number = u64::from_be_bytes(bytes[bytes.len() - 8..].try_into().unwrap());
            let next = seen.entry(bytes[11]).or_insert(0);
            assert_eq!(number, *next, "in their order, and none is missing");
            *next += 1;
        }
        sent
    };
    for (n, &(at, turns)) in schedule.iter().enumerate() {
        loops.wires[2].block(n % 3 == 0);
        // One loop alone turns for a while, then all do.
        (0..turns).for_each(|_| _ = step(&mut loops, Some(at), true));
        (0..20).for_each(|_| _ = step(&mut loops, None, true));
    }
    loops.wires[2].block(false);
    let sent = (0..3_000).map(|_| step(&mut loops, None, false)).last().expect("steps");
    assert_eq!([0, 1].map(|sender| seen[&(sender as u8)]), [sent[0], sent[1]]);
    let snapshot = loops.conserved();
    assert!(!loops.events.iter().any(|event| matches!(event, Event::NoDropLost { .. })));
    assert!(snapshot.ports[0].pfc_sent.frames > 0, "and pauses were needed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn incast_loses_nothing_whichever_loop_stands_still(
        served_by in prop::sample::select(vec![[1, 2, 0], [1, 2, 3], [0, 1, 2], [1, 1, 2]]),
        schedule in prop::collection::vec((0_usize..3, 1_usize..500), 3..8),
    ) {
        incast(served_by, &schedule);
    }
}

/// The switching core stands still until the lane is full: what comes then waits in the port, and as soon as the core turns it
/// pauses the neighbour. Nothing is lost.
#[test]
fn a_full_lane_pauses_the_neighbour() {
    let mut settings = settings();
    settings.buffer.total_cells = 10_000;
    settings.ports[0].groups[3].xoff = Threshold::Static(8_000); // cells alone would never pause
    let mut loops = loops(&settings, [1, 0, 0]);
    let frames = XOFF_FRAMES as usize + 3 * RX_BATCH;
    (0..frames).for_each(|n| loops.wires[0].inject(numbered(1, 0, 3, n as u64)));
    (0..100).for_each(|_| _ = loops.turn(1));
    let waiting = loops.wires[0].waiting();
    assert_eq!(waiting, frames - XOFF_FRAMES as usize, "the lane is full, and takes no more");
    loops.turn(0);
    loops.turn(1);
    loops.turn(1);
    assert_eq!(loops.pfc(0), [xoff_3(65_535)]);
    while loops.wires[0].waiting() > 0 {
        assert_eq!(loops.pfc(0), [], "more than {XON_FRAMES} wait on the lane");
        loops.rounds(1);
    }
    loops.rounds(40);
    assert_eq!(loops.pfc(0), [xoff_3(0)]);
    let numbers = loops
        .data(1)
        .iter()
        .map(|bytes| u64::from_be_bytes(bytes[56..].try_into().unwrap()))
        .collect::<Vec<_>>();
    assert_eq!(numbers, (0..frames as u64).collect::<Vec<_>>());
    loops.conserved();
}

/// A line that stands still takes nothing to send after a while, so frames stay in their queues and their senders are paused; PFC
/// still finds room on the lane, and leaves once the line turns.
#[test]
fn a_line_that_stands_still_is_given_no_more_than_it_has_room_for() {
    let mut settings = settings();
    settings.buffer.total_cells = 4_000;
    settings.ports[1].in_flight_bytes = 1 << 20;
    let mut loops = loops(&settings, [0, 1, 0]);
    loops.wires[2].block(true);
    let step = |loops: &mut Loops| {
        loops.now = loops.now + 1000;
        loops.turn(0);
    };
    for n in 0..60 {
        loops.wires[0].inject(numbered(1, 0, 0, n));
        step(&mut loops);
    }
    (0..10).for_each(|n| loops.wires[1].inject(numbered(2, 1, 3, n)));
    loops.turn(1);
    let first = loops.wires[1].take_sent().len();
    for n in 60..120 {
        loops.wires[0].inject(numbered(1, 0, 0, n));
        step(&mut loops);
    }
    loops.turn(1);
    loops.turn(1);
    let sent = loops.wires[1].take_sent();
    let pfc = sent.iter().position(|bytes| matches!(decode(bytes), Ok(Control::Pfc(_))));
    assert!(first < 60 && first + sent.len() < 120, "{first} and {} frames", sent.len());
    assert!(pfc.is_some(), "there is always room for PFC");
    loops.wires[2].block(false);
    loops.rounds(20);
    let later = loops.data(1).len();
    assert_eq!(first + sent.len() - 1 + later, 120);
    loops.conserved();
}

/// A line that stands still sends nothing of what it has, so whoever may send to its ports is paused, long before cells run out; not for
/// ever, nor where nothing waits. Ports of the line itself are the guard's.
#[test]
fn while_frames_wait_for_a_line_that_stands_still_all_neighbours_are_paused() {
    let mut loops = loops(&settings(), [0, 1, 0]);
    let step = |loops: &mut Loops, nanos: u64| {
        loops.now = loops.now + nanos;
        // One turn finds out, the next one tells, and a wire is read in the turn after.
        (0..3).for_each(|_| _ = loops.turn(0));
        [0, 2].map(|port| loops.pfc(port))
    };
    let quiet = || [Vec::new(), Vec::new()];
    assert_eq!(step(&mut loops, 2 * STALL_NS), quiet(), "nothing waits");
    loops.wires[0].inject(numbered(1, 0, 0, 0));
    assert_eq!(step(&mut loops, 1000), quiet());
    assert_eq!(step(&mut loops, STALL_NS - 1), quiet());
    assert_eq!(step(&mut loops, 1), [vec![xoff_3(65_535)], vec![xoff_3(65_535)]]);
    loops.turn(1);
    assert_eq!(step(&mut loops, 1000), [vec![xoff_3(0)], vec![xoff_3(0)]]);
    loops.wires[0].inject(numbered(1, 0, 0, 0));
    step(&mut loops, 1000);
    step(&mut loops, STALL_NS);
    let refreshed = step(&mut loops, GIVE_UP_NS / 2);
    assert_eq!(refreshed, [vec![xoff_3(65_535)], vec![xoff_3(65_535)]]);
    // A refresh is due, too, before it is found out.
    let given_up = step(&mut loops, GIVE_UP_NS / 2);
    assert_eq!(given_up.each_ref().map(|pfc| pfc.last().copied()), [Some(xoff_3(0)); 2], "it is dead");
    let later = step(&mut loops, GIVE_UP_NS).concat();
    assert!(later.iter().all(|pfc| *pfc == xoff_3(0)), "and stays so: {later:?}");
}

/// A port of a line is closed and opened again by another thread, with frames everywhere: in its rings, on the lane both ways.
#[test]
fn a_port_of_a_line_comes_and_goes() {
    let mut loops = loops(&settings(), [0, 1, 2]);
    loops.wires[1].block(true);
    (0..3).for_each(|n| loops.wires[0].inject(numbered(1, 0, 0, n)));
    loops.rounds(2);
    (0..2).for_each(|n| loops.wires[0].inject(numbered(1, 0, 0, n)));
    loops.turn(0); // two more are on the lane, to be sent
    (0..100).for_each(|n| loops.wires[1].inject(numbered(0, 1, 0, n)));
    loops.turn(1);
    loops.turn(1); // all are on the lane
    loops.wires[1].go_down();
    loops.turn(1);
    loops.rounds(3);
    assert!(loops.wires[1].is_let_go());
    let reopen = Command::PortUp { port: 1, mac: mac(201), finish_checksums: true };
    loops.wires[1].inject(numbered(0, 1, 0, 0)); // nobody takes it any more
    loops.handle.send(Command::PortClosed(1)).expect("room");
    loops.rounds(3);
    let snapshot = loops.conserved();
    assert_eq!(snapshot.ports[1].drops[DropReason::PortDown as usize].frames, 5);
    let taken = snapshot.ports[1].received.frames - 1; // beside the announcement
    assert_eq!(
        snapshot.ports[1].kernel.rx_closed_frames,
        101 - taken,
        "what waited on the lane, and in the ring"
    );
    assert!(!snapshot.ports[1].up);

    loops.wires[1].open_again();
    assert!(matches!(loops.tell(reopen), Reply::PortUp(1, true)));
    loops.wires.iter().for_each(|wire| drop(wire.take_sent()));
    loops.wires[1].block(false);
    loops.wires[1].inject(numbered(0, 1, 0, 7));
    loops.rounds(3);
    loops.wires[0].inject(numbered(1, 0, 0, 8));
    loops.rounds(3);
    assert_eq!((loops.data(0).len(), loops.data(1).len()), (1, 1));
    assert_eq!(loops.conserved().ports[1].kernel.rx_closed_frames, 101 - taken);
}

/// The only port of a line is closed, whose rings held thousands of frames: all but a few are the switching core's again.
#[test]
fn frames_of_a_closed_port_go_back() {
    const POSTED: usize = 8192;
    let mut loops = loops(&settings(), [0, 1, 2]);
    loops.wires[1].go_down();
    loops.rounds(3);
    assert!(loops.wires[1].is_let_go());
    loops.core.memory().hand_over(POSTED, 1);
    loops.handle.send(Command::PortClosed(1)).expect("room");
    loops.rounds(40);
    let free = loops.core.memory().free_frames();
    assert!(free + POSTED / 2 > FRAMES, "{free} of {FRAMES} frames");
    loops.conserved();
}

/// Turns, and the longest stall, are those of all loops.
#[test]
fn a_snapshot_knows_how_lines_turn() {
    let mut loops = loops(&settings(), [0, 1, 2]);
    let before = loops.snapshot();
    for _ in 0..7 {
        loops.now = loops.now + 1_000_000;
        [0, 2].into_iter().for_each(|at| _ = loops.turn(at));
    }
    loops.turn(1);
    let after = loops.snapshot();
    let turns = |snapshot: &Snapshot| snapshot.loop_turns_by_time.iter().sum::<u64>();
    assert_eq!(after.loop_turns - turns(&after), 3, "the first of each");
    assert_eq!([before, after].map(|snapshot| snapshot.loop_worst_stall_ns), [1_000, 7_000_000]);
}

/// What memory sets aside for a lane is enough: the most that it ever takes from the switching core, however long that stands still.
#[test]
fn a_lane_holds_no_more_than_is_set_aside() {
    let mut loops = loops(&settings(), [1, 0, 0]);
    (0..10_000).for_each(|n| loops.wires[0].inject(numbered(1, 0, 0, n)));
    for _ in 0..20 {
        (0..100).for_each(|_| _ = loops.turn(1));
        loops.turn(0);
        let free = loops.core.memory().free_frames();
        assert!(free + LANE_FRAMES >= FRAMES, "{free} of {FRAMES} frames are left");
    }
}
