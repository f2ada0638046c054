//! A switch of several cores: it acts as with one core, and no frames are lost between cores when
//! one stalls. All loops are on one thread here, and the test runs each iteration, so every order
//! of their iterations is possible.

mod lab;
#[path = "lab/loopback_port.rs"]
mod loopback_port;

use std::cell::Cell;
use std::collections::HashMap;

use dataplane::guard::heartbeat::STALL_NS;
use dataplane::guard::stall_detector::GIVE_UP_NS;
use dataplane::{CHANNEL_FRAMES, Heartbeat, LoopCommand, RX_BATCH, Reply, Settings};
use lab::io_loops::Loops;
use lab::traffic_scenarios::{FRAMES, ScenarioResults, TrafficScenario, loops, numbered};
use lab::{Sleepless, mac, settings, xoff_3};
use proptest::prelude::*;
use switch::monitor::counters::DropReason;
use switch::pfc::rx_backlog::{XOFF_FRAMES, XON_FRAMES};
use switch::settings::{Threshold, Trust};
use switch::{Event, FrameMemory, Instant, Snapshot};
use wire::bitset::Set64;
use wire::ethernet::Header;
use wire::ip;
use wire::pause::{Control, decode};

const PORTS: usize = lab::PORTS;

/// For any assignment of ports to loops, every frame leaves in the same iteration, and counters,
/// watermarks, drops and events are the same.
#[test]
fn several_loops_decide_what_one_does() {
    let reported = TrafficScenario::PLAIN.reported(&[0, 0, 0]);
    let ScenarioResults { left, events, snapshot } = &reported;
    let drops: u64 = snapshot.ports.iter().flat_map(|port| &port.drops).map(|count| count.frames).sum();
    let paused: u64 = snapshot.ports.iter().map(|port| port.pfc_sent.frames).sum();
    let lost: u64 = snapshot.ports.iter().map(|port| port.kernel_lost_frames).sum();
    assert!(drops > 1000 && paused > 100 && lost > 10, "the scenario covers it: {drops}, {paused}, {lost}");
    assert!(left.len() > 9000 && !events.is_empty());
    for served_by in [[1, 1, 1], [1, 2, 2], [0, 1, 2], [2, 0, 1]] {
        reported.is_as(&TrafficScenario::PLAIN.reported(&served_by), served_by);
    }
}

/// The same holds where frames are marked, rewritten, tagged and flooded. A switching core without
/// ports of its own touches no byte of them.
#[test]
fn several_loops_mark_and_tag_what_one_does() {
    let reported = TrafficScenario::EDITED.reported(&[0, 0, 0]);
    let marked = |port: usize| {
        let queues = &reported.snapshot.ports[port].queues;
        queues.iter().map(|queue| queue.marked.frames as usize).sum()
    };
    let has_vid = |vid: u16| move |_: &[u8], header: &Header| header.outer.is_some_and(|tag| tag.vid == vid);
    let seen = [
        ("marked at enqueue", marked(0)),
        ("marked at dequeue", marked(2)),
        (
            "another DSCP",
            reported.count(1, |bytes, header| ip::dscp(bytes, header).is_some_and(|dscp| dscp > 40)),
        ),
        ("another PCP", reported.count(2, |_, header| header.outer.is_some_and(|tag| tag.pcp == 6))),
        ("tagged", reported.count(2, has_vid(10)) + reported.count(0, has_vid(20))),
        ("untagged", reported.count(1, |_, header| header.outer.is_none())),
        ("flooded", reported.snapshot.flood_copies as usize),
    ];
    assert!(seen.iter().all(|&(_, frames)| frames > 500), "the scenario covers it: {seen:?}");
    for served_by in [[1, 1, 1], [1, 2, 2], [2, 1, 3], [0, 1, 2], [2, 0, 1]] {
        reported.is_as(&TrafficScenario::EDITED.reported(&served_by), served_by);
    }
}

/// Frames on the port channel when settings change were parsed by the old settings, but follow the
/// new ones.
#[test]
fn frames_are_treated_by_the_rules_of_the_turn_that_takes_them() {
    let mut loops = loops(&settings(), &[1, 0, 0]);
    (0..3 * RX_BATCH).for_each(|n| loops.wires[0].inject(numbered(1, 0, 5, n as u64)));
    (0..3).for_each(|_| _ = loops.turn(1));
    assert_eq!(loops.wires[0].waiting(), 0, "all are in the ring of their core");
    let mut settings = settings();
    settings.ports[0].classify.trust = Trust::None;
    loops.apply(&settings);
    loops.rounds(5);
    let groups = loops.conserved().ports[0].groups.map(|group| group.received.frames);
    let batch = RX_BATCH as u64;
    assert_eq!((groups[5], groups[0]), (batch, 2 * batch + 1), "one batch before, and the announcement");
}

/// Senders on different loops honor pauses and send to one receiver, while loops run in any order
/// and one of them stalls. No frame is lost, and each sender's frames arrive in order.
fn incast(served_by: [usize; PORTS], schedule: &[(usize, usize)]) {
    let mut settings = settings();
    settings.buffer.total_cells = 4_000;
    settings.buffer.headroom_cells = 2_000;
    for port in &mut settings.ports {
        port.groups[3].headroom_cells = 1_000;
    }
    let mut loops = loops(&settings, &served_by);
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
        // One loop runs alone for a while, then all do.
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
    fn incast_loses_nothing_whichever_loop_stalls(
        served_by in prop::sample::select(vec![[1, 2, 0], [1, 2, 3], [0, 1, 2], [1, 1, 2]]),
        schedule in prop::collection::vec((0_usize..3, 1_usize..500), 3..8),
    ) {
        incast(served_by, &schedule);
    }
}

/// The switching core stalls until the port channel is full. Further frames wait in the port, and
/// the core pauses the peer in its next iteration. No frame is lost.
#[test]
fn a_full_channel_pauses_the_peer() {
    let mut settings = settings();
    settings.buffer.total_cells = 10_000;
    settings.ports[0].groups[3].xoff = Threshold::Static(8_000); // cells alone would never pause
    let mut loops = loops(&settings, &[1, 0, 0]);
    let frames = XOFF_FRAMES as usize + 3 * RX_BATCH;
    (0..frames).for_each(|n| loops.wires[0].inject(numbered(1, 0, 3, n as u64)));
    (0..100).for_each(|_| _ = loops.turn(1));
    let waiting = loops.wires[0].waiting();
    assert_eq!(waiting, frames - XOFF_FRAMES as usize, "the ring is full, and takes no more");
    loops.turn(0);
    loops.turn(1);
    loops.turn(1);
    assert_eq!(loops.pfc(0), [xoff_3(65_535)]);
    while loops.wires[0].waiting() > 0 {
        assert_eq!(loops.pfc(0), [], "more than {XON_FRAMES} wait in the ring");
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

/// A stalled I/O loop accepts no more frames to transmit after a while, so they stay in their
/// queues and their senders are paused. PFC still finds room on the port channel, and leaves once
/// the I/O loop runs.
#[test]
fn a_line_that_stalls_is_given_no_more_than_it_has_room_for() {
    let mut settings = settings();
    settings.buffer.total_cells = 4_000;
    settings.ports[1].in_flight_bytes = 1 << 20;
    let mut loops = loops(&settings, &[0, 1, 0]);
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

/// A stalled I/O loop transmits nothing of what it has, so all senders to its ports are paused long
/// before cells run out. The pauses end, and there are none where no frames wait. Ports of that I/O
/// loop are left to the guard.
#[test]
fn while_frames_wait_for_a_line_that_stalls_all_peers_are_paused() {
    let mut loops = loops(&settings(), &[0, 1, 0]);
    let step = |loops: &mut Loops, nanos: u64| {
        loops.now = loops.now + nanos;
        // One iteration detects the stall, the next one sends XOFF, and a wire is read in the one
        // after.
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
    // A refresh is also due before the detection.
    let given_up = step(&mut loops, GIVE_UP_NS / 2);
    assert_eq!(given_up.each_ref().map(|pfc| pfc.last().copied()), [Some(xoff_3(0)); 2], "it is dead");
    let later = step(&mut loops, GIVE_UP_NS).concat();
    assert!(later.iter().all(|pfc| *pfc == xoff_3(0)), "and stays so: {later:?}");
}

/// Another thread closes a port of an I/O loop and opens it again, with frames in its rings and on
/// the port channel in both directions.
#[test]
fn a_port_of_a_line_comes_and_goes() {
    let mut loops = loops(&settings(), &[0, 1, 2]);
    loops.wires[1].block(true);
    (0..3).for_each(|n| loops.wires[0].inject(numbered(1, 0, 0, n)));
    loops.rounds(2);
    (0..2).for_each(|n| loops.wires[0].inject(numbered(1, 0, 0, n)));
    loops.turn(0); // two more are on the channel, to be sent
    (0..100).for_each(|n| loops.wires[1].inject(numbered(0, 1, 0, n)));
    loops.turn(1);
    loops.turn(1); // all are on the channel
    loops.wires[1].go_down();
    loops.turn(1);
    loops.rounds(3);
    assert!(loops.wires[1].is_detached());
    let reopen = LoopCommand::PortUp { port: 1, mac: mac(201), complete_checksums: true };
    loops.wires[1].inject(numbered(0, 1, 0, 0)); // never received
    loops.handle.send(LoopCommand::PortClosed(1)).expect("room");
    loops.rounds(3);
    let snapshot = loops.conserved();
    assert_eq!(snapshot.ports[1].drops[DropReason::PortDown as usize].frames, 5);
    let taken = snapshot.ports[1].received.frames - 1; // without the announcement
    assert_eq!(snapshot.ports[1].kernel.rx_closed_frames, 101 - taken, "what waited in both rings");
    assert!(!snapshot.ports[1].up);

    loops.wires[1].open_again();
    assert!(matches!(loops.send_command(reopen), Reply::PortUp(1, true)));
    loops.wires.iter().for_each(|wire| drop(wire.take_sent()));
    loops.wires[1].block(false);
    loops.wires[1].inject(numbered(0, 1, 0, 7));
    loops.rounds(3);
    loops.wires[0].inject(numbered(1, 0, 0, 8));
    loops.rounds(3);
    assert_eq!((loops.data(0).len(), loops.data(1).len()), (1, 1));
    assert_eq!(loops.conserved().ports[1].kernel.rx_closed_frames, 101 - taken);
}

/// The only port of an I/O loop is closed, whose rings held thousands of frames. All but a few
/// return to the switching core.
#[test]
fn frames_of_a_closed_port_go_back() {
    const POSTED: usize = 8192;
    let mut loops = loops(&settings(), &[0, 1, 2]);
    loops.wires[1].go_down();
    loops.rounds(3);
    assert!(loops.wires[1].is_detached());
    loops.core.memory().hand_over(POSTED, 1);
    loops.handle.send(LoopCommand::PortClosed(1)).expect("room");
    loops.rounds(40);
    let free = loops.core.memory().free_frames();
    assert!(free + POSTED / 2 > FRAMES, "{free} of {FRAMES} frames");
    loops.conserved();
}

/// An I/O loop stalls. What does not depend on it is answered at once, a snapshot after a second
/// with what the loop reported last, and a port that it closes delays no other port. Once it runs
/// again, its late report does not answer the next request.
#[test]
fn a_line_that_stalls_delays_its_own_ports_only() {
    let mut loops = loops(&settings(), &[0, 1, 2]);
    let known = loops.conserved().ports[1].received.frames;
    loops.wires[1].go_down();
    loops.rounds(3);
    assert!(loops.wires[1].is_detached());
    let snapshot = || LoopCommand::Snapshot { snapshot: Box::default(), read_watermarks: false };
    let settings = Settings { switch: settings(), min_posted: vec![1; PORTS] };
    for command in [
        LoopCommand::PortClosed(1),
        snapshot(),
        LoopCommand::Apply(Box::new(settings)),
        LoopCommand::PortDown(2),
    ] {
        loops.handle.send(command).expect("room");
    }
    // Loop 1 does not run from here on.
    let others = |loops: &mut Loops, ms: u64| {
        loops.now = loops.now + ms * 1_000_000;
        [2, 0].into_iter().for_each(|at| _ = loops.turn(at));
        loops.next_reply()
    };
    assert!(matches!(others(&mut loops, 1), Some(Reply::Applied(_))));
    others(&mut loops, 1); // loop 2 closes port 2
    assert!(loops.wires[2].is_detached(), "port 2 is closed, although port 1 is not");
    assert!(others(&mut loops, 998).is_none());
    let Some(Reply::Snapshot(last)) = others(&mut loops, 1) else { panic!("no snapshot after a second") };
    assert_eq!(last.ports[1].received.frames, known);

    loops.handle.send(snapshot()).expect("room");
    assert!(others(&mut loops, 1).is_none(), "each snapshot waits");
    loops.rounds(3);
    assert!(matches!(loops.next_reply(), Some(Reply::Snapshot(_))));
    loops.handle.send(LoopCommand::PortClosed(2)).expect("room");
    loops.rounds(3);
    loops.conserved();
}

/// A stop does not wait for what an I/O loop that stalls has yet to do.
#[test]
fn a_loop_ends_although_a_line_stalls() {
    let mut loops = loops(&settings(), &[0, 1, 2]);
    loops.wires[1].go_down();
    loops.rounds(3);
    loops.handle.send(LoopCommand::PortClosed(1)).expect("room");
    loops.handle.send(LoopCommand::Stop(Box::default())).expect("room");
    let now = Cell::new(loops.now);
    let clock = || now.replace(now.get() + 1_000_000);
    loops.core.run(clock, &mut Sleepless).expect("a loop that does not sleep");
    assert!(matches!(loops.next_reply(), Some(Reply::Stopped(_))));
    let took_ns = now.get().since(loops.now);
    assert!(took_ns < 6_000_000_000, "{took_ns} ns: each step of the end takes a second at most");
}

/// Iterations, and the longest stall, cover all loops.
#[test]
fn a_snapshot_knows_how_lines_turn() {
    let mut loops = loops(&settings(), &[0, 1, 2]);
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

/// The memory set aside for a port channel is enough: it bounds what the channel takes from the
/// switching core, however long that stalls.
#[test]
fn a_channel_holds_no_more_than_is_reserved() {
    let mut loops = loops(&settings(), &[1, 0, 0]);
    (0..10_000).for_each(|n| loops.wires[0].inject(numbered(1, 0, 0, n)));
    for _ in 0..20 {
        (0..100).for_each(|_| _ = loops.turn(1));
        loops.turn(0);
        let free = loops.core.memory().free_frames();
        assert!(free + CHANNEL_FRAMES >= FRAMES, "{free} of {FRAMES} frames are left");
    }
}

#[test]
fn the_guard_knows_which_ports_have_received_lately() {
    let mut loops = loops(&settings(), &[0, 1, 2]);
    for n in 0..1000 {
        loops.wires[1].inject(numbered(0, 1, 0, n));
        loops.rounds(1);
    }
    assert!(loops.heartbeat.active_ports().contains(1));
}

/// A thread of the guard claimed an XOFF and could not send it.
#[test]
fn an_xoff_that_was_claimed_before_a_time_is_due_again() {
    let heartbeat = Heartbeat::default();
    let claim = |port| heartbeat.claim(port, 1_000_000, Instant(100));
    assert!(claim(2) && claim(3) && !claim(2));
    heartbeat.repeat_claims(Set64::of(2), Instant(100));
    assert!(!claim(2), "it was claimed at that time");
    heartbeat.repeat_claims(Set64::of(2), Instant(101));
    assert!(claim(2) && !claim(3));
}
