//! The replay of a recorded loop: the same switch reaches the same counters, watermarks, events and
//! times, whatever happened.

#[path = "lab/recorded_loop.rs"]
mod lab;
#[path = "lab/loopback_port.rs"]
mod loopback_port;

use std::cell::{Cell, RefCell};
use std::io::{self, Read};

use dataplane::flight_recorder::error::Error;
use dataplane::flight_recorder::offered::{OfferedFrame, ReceivedPause};
use dataplane::flight_recorder::recorder::{HEADER_BYTES, VERSION, title};
use dataplane::flight_recorder::replay::{Replay, difference};
use dataplane::{ChunkKind, Handle, LoopCommand, Port, Reply, Sleeper};
use lab::{
    Lab, PORTS, Step, apply, bytes, ends_as_replayed, frame, incast, mac, replay, settings, step, watchdog,
};
use proptest::prelude::*;
use switch::frame::meta::QosClass;
use switch::settings::{FlowControl, Trust, VlanList, VlanSettings, WredProfile, WredSettings};
use switch::{DropReason, Event, Instant, Nanos, Snapshot};
use wire::ethernet::{EXPERIMENTAL, IPV4, Tag, write_header};
use wire::mac::MacAddr;
use wire::pause::{Control, Pfc};

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// From each checkpoint on, however slowly it was copied while frames came and went.
    #[test]
    fn a_replay_from_any_checkpoint_comes_to_the_same_in_every_field(
        of_line in prop::array::uniform3(any::<bool>()),
        slice_work in 8..200_u32,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut lab = Lab::with_lines(64, of_line, slice_work);
        steps.iter().for_each(|step| lab.take(step));
        let (mut segments, last, events) = lab.end();
        let (totals, replayed, replayed_events) = replay(&bytes(&segments)).expect("no difference");
        prop_assert_eq!(difference(&last, &replayed), None);
        prop_assert_eq!(&replayed_events, &events);
        prop_assert_eq!(totals.gaps, 0);
        prop_assert!(totals.checkpoints > 0);
        // The last segment is only the end of the one before.
        for least in (2..segments.count()).rev() {
            segments.discard_beyond(0, least);
            let (mut replayed_events, recording) = (Vec::new(), bytes(&segments));
            let mut replay = Replay::new(&recording[..]).expect("a recording");
            let mut note = |at, event| replayed_events.push((at, event));
            replay.run_until(Instant::NEVER, &mut note).expect("no difference");
            prop_assert!(replay.last_requested_snapshot().is_none_or(|requested| *requested == last));
            prop_assert!(events.ends_with(&replayed_events));
            prop_assert_eq!((replay.totals().gaps, replay.totals().checkpoints), (0, least as u64 - 1));
        }
    }
}

#[test]
fn an_incast_is_replayed_to_the_nanosecond() {
    let mut lab = Lab::new(64);
    incast(&mut lab, 400);
    let (totals, last, _) = ends_as_replayed(lab);
    assert!(last.ports[0].groups[3].xoff_episodes > 3, "the test would show nothing: {last:?}");
    assert!(last.ports[1].pause_sent_frames > 3, "and of PAUSE: {last:?}");
    assert_eq!((totals.turns, totals.received_frames, totals.checkpoints), (402, 800, 2));
    assert_eq!(totals.to.since(totals.from), 399 * 5_000 + 1_000_000_000 - 5_000 + 1_400);
}

/// A port consumes LLDP frames, another drops them, a third forwards them.
#[test]
fn lldp_is_replayed() {
    let mut lab = Lab::new(64);
    for _ in 0..20 {
        (0..PORTS).for_each(|port| lab.take(&Step::Lldp { port }));
        incast(&mut lab, 2);
    }
    let (_, last, _) = ends_as_replayed(lab);
    assert_eq!(last.ports.iter().map(|port| port.lldp_received_frames).collect::<Vec<_>>(), [20, 0, 0]);
    let dropped = |port: usize| last.ports[port].drops[DropReason::Reserved as usize].frames;
    assert_eq!((0..PORTS).map(dropped).collect::<Vec<_>>(), [0, 20, 0]);
}

/// A port goes down during an incast, by itself and by an operator, and comes back with another
/// address.
#[test]
fn a_port_that_comes_and_goes_is_replayed() {
    let mut lab = Lab::new(64);
    for (address, down) in [(13, Step::Down { port: 0 }), (14, Step::ShutDown { port: 0 })] {
        incast(&mut lab, 60);
        lab.take(&Step::Block { port: 0, blocked: true });
        lab.take(&Step::Inject { port: 1, dst: 0, priority: 0, len: 500, frames: 5 });
        lab.turns(2, 1000);
        lab.take(&down);
        lab.turns(3, 1_000_000); // its XON cannot leave
        lab.take(&Step::Block { port: 0, blocked: false });
        lab.take(&Step::Up { port: 0, address });
        lab.take(&Step::Inject { port: 0, dst: 2, priority: 3, len: 500, frames: 20 });
    }
    incast(&mut lab, 60);
    let (_, _, events) = ends_as_replayed(lab);
    let came = |event: Event| events.iter().filter(|(_, reported)| *reported == event).count();
    assert_eq!((came(Event::PortDown { port: 0 }), came(Event::PortUp { port: 0 })), (2, 2));
}

/// A peer has no room for a queue during an incast: the watchdog drops its frames, and the stall is
/// reported of a port without one. When the peer has room again is replayed to the nanosecond.
#[test]
fn a_peer_without_room_is_replayed() {
    let mut lab = Lab::new(64);
    for port in [0, 2] {
        lab.take(&Step::Fill { port, queues: 1 << 3 });
        lab.take(&Step::Inject { port: 1, dst: port, priority: 3, len: 500, frames: 5 });
        lab.turns(70, 100_000_000);
        lab.take(&Step::Fill { port, queues: 0 });
        lab.turns(3, 100_000_000);
    }
    incast(&mut lab, 20);
    let (_, _, events) = ends_as_replayed(lab);
    let came = |event: Event| events.iter().filter(|(_, reported)| *reported == event).count();
    assert_eq!([0, 2].map(|port| came(Event::StormBegan { port, priority: 3 })), [1, 1]);
}

/// A port is removed during an incast while its frames still wait, and others use its slot, one
/// after the other.
#[test]
fn ports_that_are_removed_and_added_are_replayed() {
    let mut lab = Lab::new(64);
    for address in [13, 14] {
        incast(&mut lab, 60);
        lab.take(&Step::Block { port: 2, blocked: true });
        lab.take(&Step::Inject { port: 0, dst: 2, priority: 3, len: 500, frames: 5 });
        lab.turns(2, 1000);
        lab.take(&Step::Remove);
        lab.turns(3, 1000);
        lab.take(&Step::Add { address });
        lab.turns(3, 1000);
        lab.take(&Step::Block { port: 2, blocked: false });
        lab.take(&Step::Inject { port: 0, dst: 2, priority: 3, len: 500, frames: 20 });
    }
    incast(&mut lab, 60);
    let (_, last, events) = ends_as_replayed(lab);
    let removed = last.removed_ports;
    assert!(removed.ports == 2 && removed.received.frames >= 2 * 60, "{removed:?}");
    let came = |event: Event| events.iter().filter(|(_, reported)| *reported == event).count();
    assert_eq!((came(Event::PortDown { port: 0 }), came(Event::PortUp { port: 0 })), (2, 2));
}

/// Storms of all kinds, and their ends: the drops, the events and their times are the same.
#[test]
fn storms_are_replayed() {
    let mut lab = Lab::new(64);
    let mut with_pfc = settings(6);
    let port = &mut with_pfc.ports[1];
    port.flow_control = FlowControl::Off;
    (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 0b0000_1000);
    port.watchdog[3] = Some(watchdog(1));
    assert!(matches!(lab.send_command(apply(&with_pfc)), Reply::Applied(_)));
    lab.settings = with_pfc;
    for round in 0..6 {
        for port in 0..PORTS {
            lab.take(&Step::Inject { port: (port + 1) % PORTS, dst: port, priority: 3, len: 500, frames: 4 });
            lab.take(&Step::Pfc { port, quanta: 65_535 });
        }
        lab.turns(40, 5_000);
        if round % 2 == 0 {
            lab.take(&Step::Recover { port: 2 });
            lab.take(&Step::Lift { port: 1 });
        }
    }
    let (_, last, events) = ends_as_replayed(lab);
    for (port, began) in [(0, 2), (1, 3), (2, 2)] {
        let priority = &last.ports[port].priorities[3];
        assert!(priority.storms >= began && priority.storms_restored > 0, "port {port}: {priority:?}");
    }
    assert!(last.ports[0].priorities[3].storm_traffic.tx_dropped_frames > 0);
    assert!(events.iter().any(|(_, event)| matches!(event, Event::StormLimitReached { port: 1, .. })));
}

/// An untagged ECT(0) packet of 300 bytes.
fn packet(dst: MacAddr, src: MacAddr) -> Vec<u8> {
    let mut packet = vec![0; 300];
    let at = write_header(&mut packet, dst, src, None, IPV4);
    packet[at..at + 2].copy_from_slice(&[0x45, 2]);
    packet
}

/// Ports get VLANs, marks, flood limits and trust in tunnels while running.
#[test]
fn vlans_marks_and_flood_limits_are_replayed() {
    let mut lab = Lab::new(64);
    incast(&mut lab, 60);
    let mut other = settings(6);
    let vlan = |pvid| VlanSettings::Trunk { pvid, allowed: VlanList::of([10..=10]) };
    let vlans = [VlanSettings::Access { pvid: 10 }, vlan(Some(10)), vlan(None)];
    for (port, vlan) in other.ports.iter_mut().zip(vlans) {
        (port.vlan, port.flood_limits_pps) = (vlan, [Some(20); 3]);
        port.classify.trust = Trust::TunnelDot1p;
        let curve = WredProfile { low_cells: 0, high_cells: 0, probability_percent: 100 };
        port.queues[2].wred =
            Some(WredSettings { exponent: 0, ecn: true, curves: [curve; 3], ..WredSettings::default() });
    }
    assert!(matches!(lab.send_command(apply(&other)), Reply::Applied(_)));
    lab.settings = other;
    for round in 0..6 {
        for port in 0..PORTS {
            for dst in [4, round % PORTS] {
                lab.take(&Step::Inject { port, dst, priority: 3, len: 300, frames: 5 });
            }
            lab.wires[port].inject(packet(mac(1 - port % 2), mac(port)));
        }
        lab.turns(2, 1000);
        // A checkpoint, while frames wait that will be marked and tagged.
        lab.turns(1, 1_000_000_000);
        lab.turns(20, 1000);
    }
    let (totals, last, events) = ends_as_replayed(lab);
    let marked: u64 = last.ports.iter().map(|port| port.queues[2].marked.bytes).sum();
    assert!(totals.checkpoints > 6 && marked > 1000, "{marked} bytes were marked");
    let drops = |port: usize, reason: DropReason| last.ports[port].drops[reason as usize].frames;
    assert!(drops(0, DropReason::BroadcastLimit) > 0 && drops(2, DropReason::VlanFiltered) > 0);
    assert!(last.ports[2].transmitted_broadcast_frames > 0, "with the tag of their VLAN");
    assert!(events.iter().any(|(_, event)| matches!(event, Event::FloodLimit { port: 0, .. })));
}

/// Settings that change the watchdog of a port are rejected while a storm there needs manual
/// recovery.
#[test]
fn settings_wait_for_a_storm_that_needs_manual_recovery() {
    let mut lab = Lab::new(64);
    lab.take(&Step::Inject { port: 0, dst: 2, priority: 3, len: 500, frames: 4 });
    lab.take(&Step::Pfc { port: 2, quanta: 65_535 });
    lab.turns(40, 5_000);
    let mut other = settings(6);
    other.ports[2].watchdog[3] = None;
    assert!(matches!(lab.send_command(apply(&other)), Reply::NotApplied(_, 2)));
    assert!(matches!(lab.send_command(apply(&settings(9))), Reply::Applied(_)), "all else may change");
    assert!(matches!(lab.send_command(LoopCommand::RecoverStorms(2)), Reply::Done));
    assert!(matches!(lab.send_command(apply(&other)), Reply::Applied(_)));
    let (segments, ..) = lab.end();
    replay(&bytes(&segments)).expect("no difference");
}

/// The replay does compare: it detects a single changed bit of a length.
#[test]
fn another_course_of_events_is_noticed() {
    let mut lab = Lab::new(64);
    incast(&mut lab, 400);
    let mut recording = bytes(&lab.end().0);
    let header = frame(mac(2), mac(1), 3, 1000)[..HEADER_BYTES].to_vec();
    let at =
        recording.windows(HEADER_BYTES).rposition(|window| window == header).expect("a frame of the incast");
    recording[at - 2] ^= 1; // 1001 bytes
    assert!(matches!(replay(&recording), Err(Error::Differs(_))), "{:?}", replay(&recording));
}

#[test]
fn a_truncated_recording_is_an_error_or_ends_earlier() {
    let mut lab = Lab::new(64);
    incast(&mut lab, 20);
    let recording = bytes(&lab.end().0);
    let mut damaged = 0;
    for len in 0..recording.len() {
        let cut = Replay::new(&recording[..len]);
        match cut.and_then(|mut replay| replay.run_until(Instant::NEVER, &mut |_, _| {})) {
            Ok(()) => {}
            Err(Error::NotARecording) if len < title().len() => {}
            Err(Error::Malformed(_)) => damaged += 1,
            Err(error) => panic!("{len} bytes: {error}"),
        }
    }
    assert!(damaged > recording.len() / 2, "{damaged} of {} cuts were noticed", recording.len());
    let other = replay(b"something else").expect_err("no recording");
    assert!(matches!(other, Error::NotARecording), "{other}");
}

#[test]
fn a_recording_of_another_version_is_refused_with_both_named() {
    let refused = |recording: &[u8]| replay(recording).expect_err("another version").to_string();
    let older = refused(b"sluice recording 3\n and what version 3 wrote");
    assert!(older.contains("version 3,") && older.contains(&format!("version {VERSION}:")), "{older}");
    let newer = refused(format!("sluice recording {}\n", VERSION + 1).as_bytes());
    assert!(newer.contains(&format!("version {},", VERSION + 1)), "{newer}");
    for other in ["sluice recording \n", "sluice recording 5", "sluice recording 5x\n", "sluice"] {
        assert!(matches!(replay(other.as_bytes()), Err(Error::NotARecording)), "{other:?}");
    }
}

/// The chunk pool is not emptied: the recorder leaves out entries without room, and continues with
/// the next iteration for which there is a chunk.
#[test]
fn a_full_chunk_pool_makes_a_gap_and_nothing_else() {
    let mut lab = Lab::new(4);
    incast(&mut lab, 60_000); // 5 MB or more
    lab.collect();
    incast(&mut lab, 100);
    let (segments, last, _) = lab.end();
    let (totals, replayed, _) = replay(&bytes(&segments)).expect("no difference");
    assert_eq!(difference(&last, &replayed), None);
    assert_eq!(totals.gaps, 1);
}

/// The kernel loses frames, drops some, returns others twice, and a port accepts none: all of that
/// is counted in the replay, and reported.
#[test]
fn faults_of_the_kernel_and_pfc_of_the_guard_are_replayed() {
    let mut lab = Lab::new(64);
    lab.take(&Step::Lose { port: 2, frames: 3 });
    incast(&mut lab, 20);
    lab.take(&Step::Refuse { port: 0, frames: 7 });
    lab.take(&Step::KernelDrop { port: 1, frames: 5 });
    lab.wires[2].complete_twice(4);
    lab.take(&Step::Guard { port: 0 });
    lab.turns(3, 1_000_000_000);
    let (_, last, events) = ends_as_replayed(lab);
    assert_eq!(last.ports[2].kernel_lost_frames, 3);
    assert_eq!(last.ports[0].drops[DropReason::Refused as usize].frames, 7 * 9);
    assert_eq!(last.ports[0].pfc_guard_frames, 1);
    let came = |event: Event| events.iter().filter(|(_, reported)| *reported == event).count();
    assert_eq!(came(Event::KernelDropped { port: 1, frames: 5 }), 1);
    assert_eq!(came(Event::StrayFrames { port: 2, frames: 4 }), 1);
}

/// Those of an operator: a port is on hold, addresses are forgotten, and the address of a peer is
/// entered.
#[test]
fn commands_that_change_where_frames_go_are_replayed() {
    let mut lab = Lab::new(64);
    let copies = |lab: &mut Lab| lab.parse(false).flood_copies;
    let inject = |lab: &mut Lab, dst: usize| {
        lab.take(&Step::Inject { port: 0, dst, priority: 0, len: 300, frames: 1 });
        lab.turns(5, 20_000);
    };
    let before = copies(&mut lab);
    lab.take(&Step::Peer { port: 1, dst: 3 });
    lab.turns(1, 1000);
    inject(&mut lab, 3);
    assert_eq!(copies(&mut lab), before, "the peer is known");
    lab.take(&Step::FlushFdb { port: None });
    inject(&mut lab, 1);
    assert!(copies(&mut lab) > before, "nothing is known");

    lab.take(&Step::Hold { port: 1, on_hold: true });
    lab.wires[1].take_sent();
    inject(&mut lab, 1);
    assert_eq!(lab.wires[1].take_sent().len(), 0, "on hold");
    lab.take(&Step::Hold { port: 1, on_hold: false });
    lab.turns(5, 20_000);
    assert_eq!(lab.wires[1].take_sent().len(), 1);
    ends_as_replayed(lab);
}

/// One watermark is since the last read, the other since it was cleared.
#[test]
fn watermarks_that_are_read_or_cleared_are_replayed() {
    for read in [true, false] {
        let mut lab = Lab::new(64);
        incast(&mut lab, 30);
        lab.turns(200, 20_000); // the queues are empty
        let before = lab.parse(false);
        lab.take(&if read { Step::Snapshot { read_watermarks: true } } else { Step::Clear });
        let (_, last, _) = ends_as_replayed(lab);
        assert_ne!(last.ports[0].groups, before.ports[0].groups, "the test would show nothing");
    }
}

/// More frames wait on a port than its peer may send, for longer than a sample of them, and are
/// as many in one iteration as in the next. As they are lossy, the peer may go on then.
#[test]
fn a_long_backlog_of_a_port_is_replayed() {
    let mut lab = Lab::new(64);
    for _ in 0..80 {
        let more = 1264 - lab.wires[0].waiting();
        lab.take(&Step::Inject { port: 0, dst: 1, priority: 0, len: 60, frames: more });
        lab.turns(1, 50_000);
    }
    while lab.wires[0].waiting() > 0 {
        lab.turns(1, 50_000);
    }
    // What arrives from now on is a long backlog once more.
    lab.take(&Step::Inject { port: 0, dst: 1, priority: 0, len: 60, frames: 1200 });
    while lab.wires[0].waiting() > 0 {
        lab.turns(1, 50_000);
    }
    let (_, last, _) = ends_as_replayed(lab);
    assert!(last.ports[0].groups[3].xoff_episodes >= 2, "{:?}", last.ports[0].groups[3]);
}

/// Does something when the loop sleeps for the first time.
struct AtFirstSleep<F>(Option<F>);

impl<F: FnOnce()> Sleeper for AtFirstSleep<F> {
    fn watch<'a, P: Port + 'a>(&mut self, _ports: impl IntoIterator<Item = &'a P>) {}

    fn wait(&mut self, _timeout_ns: Nanos) -> io::Result<bool> {
        if let Some(act) = self.0.take() {
            act();
        }
        Ok(false)
    }
}

/// A loop sleeps, which asks the switch for its next timer, and is stopped while frames wait for a
/// port that is blocked: they are dropped in the end.
#[test]
fn a_loop_that_sleeps_and_stops_is_replayed() {
    let mut lab = Lab::new(64);
    incast(&mut lab, 20);
    lab.turns(200, 20_000);
    lab.take(&Step::Fill { port: 2, queues: 255 });
    lab.take(&Step::Inject { port: 1, dst: 2, priority: 0, len: 500, frames: 5 });
    lab.turns(5, 20_000);
    let Lab { core, handle, now, chunk_pool, segments, .. } = &mut lab;
    let (clock, handle) = (Cell::new(now.0), RefCell::new(std::mem::replace(handle, unused_handle())));
    let mut slept_at = None;
    let mut sleeper = AtFirstSleep(Some(|| {
        slept_at = Some(clock.get());
        handle.borrow_mut().send(LoopCommand::Stop(Box::default())).expect("room for a command");
    }));
    let read_clock = || {
        clock.set(clock.get() + 50_000);
        Instant(clock.get())
    };
    core.run(read_clock, &mut sleeper).expect("it can sleep");
    let slept_at: u64 = slept_at.expect("it slept");
    let replies = std::iter::from_fn(|| handle.borrow_mut().receive());
    let stopped =
        replies.filter_map(|reply| if let Reply::Stopped(last) = reply { Some(last) } else { None }).next();
    let last = lab::of_the_switch(*stopped.expect("a last snapshot"));
    while let Some(chunk) = chunk_pool.pop_full() {
        segments.push(&chunk);
    }
    let recording = bytes(segments);
    let (_, replayed, _) = replay(&recording).expect("no difference");
    assert_eq!(difference(&last, &replayed), None);
    assert_eq!(last.ports[2].drops[DropReason::PortDown as usize].frames, 5, "they were flushed");
    let query = [&[DEADLINE][..], &slept_at.to_le_bytes()].concat();
    assert!(recording.windows(query.len()).any(|window| window == query), "the query for the next timer");
}

/// The iterations of a loop copy the state of its switch, and nothing else would wake it for that.
#[test]
fn a_loop_does_not_sleep_while_its_state_is_copied() {
    let Lab { mut core, handle, now, chunk_pool, .. } = Lab::with_lines(64, [false; PORTS], 1);
    assert!(chunk_pool.pop_full().is_none(), "the copy is complete before the loop runs");
    let (clock, handle, mut chunks) = (Cell::new(now.0), RefCell::new(handle), Vec::new());
    let mut sleeper = AtFirstSleep(Some(|| {
        chunks.extend(std::iter::from_fn(|| chunk_pool.pop_full()).map(|chunk| chunk.kind));
        handle.borrow_mut().send(LoopCommand::Stop(Box::default())).expect("room for a command");
    }));
    let read_clock = || {
        clock.set(clock.get() + 50_000);
        Instant(clock.get())
    };
    core.run(read_clock, &mut sleeper).expect("it can sleep");
    assert_eq!(chunks, [ChunkKind::LastState], "when it goes to sleep");
}

fn unused_handle() -> Handle {
    dataplane::mailbox(std::task::Waker::noop().clone()).0
}

/// The state is copied in many slices, whatever is asked of the loop meanwhile.
#[test]
fn a_recording_ends_only_when_its_state_is_complete() {
    let mut lab = Lab::with_lines(64, [false; PORTS], 1);
    let mut turns = 0;
    lab.handle.send(LoopCommand::Record(None)).expect("room for a command");
    while !std::iter::from_fn(|| lab.handle.receive()).any(|reply| matches!(reply, Reply::Recorded(_))) {
        lab.turns(1, 700);
        turns += 1;
    }
    assert!(turns > 10, "{turns} turns");
}

/// Only headers are recorded: what hosts say to each other is nobody's business.
#[test]
fn a_recording_has_no_payload() {
    let mut lab = Lab::new(64);
    let mut bytes_of_frame = frame(mac(2), mac(1), 3, 200);
    bytes_of_frame[HEADER_BYTES..].fill(0xa5);
    lab.wires[1].inject(bytes_of_frame);
    lab.turns(3, 1000);
    let recording = bytes(&lab.end().0);
    assert!(!recording.windows(4).any(|window| window == [0xa5; 4]));
}

/// The priority of a packet is that of the tag inside its tunnel, which lies behind the header of
/// other packets.
#[test]
fn a_tag_inside_a_tunnel_is_replayed() {
    let mut lab = Lab::new(64);
    let mut other = settings(6);
    other.ports[1].classify.trust = Trust::TunnelDot1p;
    assert!(matches!(lab.send_command(apply(&other)), Reply::Applied(_)));
    lab.settings = other;
    let mut packet = vec![0; 200];
    let ip = write_header(&mut packet, mac(2), mac(1), None, IPV4);
    packet[ip..ip + 10].copy_from_slice(&[0x45, 0, 0, 186, 0, 0, 0, 0, 64, 17]);
    let udp = ip + 20;
    packet[udp + 2..udp + 4].copy_from_slice(&4789_u16.to_be_bytes());
    packet[udp + 8] = 0x08; // there is a VNI
    write_header(&mut packet[udp + 16..], mac(0), mac(1), Some(Tag::priority(5)), EXPERIMENTAL);
    (0..3).for_each(|_| lab.wires[1].inject(packet.clone()));
    lab.turns(20, 5_000);
    let (_, last, _) = ends_as_replayed(lab);
    assert_eq!(last.ports[1].groups[5].received.frames, 3);
}

/// Also from a time within the recording, at which the part begins. Ports 0 and 2 are offered
/// pauses before it.
#[test]
fn a_replay_collects_what_ports_were_offered() {
    let mut lab = Lab::new(64);
    let pfc = |lab: &mut Lab, port: usize, enable: u8, quanta: u16| {
        let (pfc, mut bytes) = (Pfc { enable, quanta: [quanta; 8] }, [0; 60]);
        pfc.encode(mac(port), &mut bytes);
        lab.wires[port].inject(bytes);
        lab.turns(1, 1000);
        let at = lab.now;
        let decoded = wire::pause::decode(&bytes).expect("a PFC frame");
        ReceivedPause { at, port: port as u8, control: decoded }
    };
    pfc(&mut lab, 0, 0b0000_1000, 1); // superseded by the next one of this port
    let wider = pfc(&mut lab, 0, 0b0010_1000, 2);
    let of_other = pfc(&mut lab, 2, 0b0000_1000, 3);
    let narrower = pfc(&mut lab, 0, 0b0000_1000, 4);
    lab.take(&Step::Pfc { port: 1, quanta: 5 }); // PAUSE, which is not PFC
    lab.take(&Step::Inject { port: 0, dst: 1, priority: 5, len: 300, frames: 2 });
    lab.take(&Step::Hold { port: 0, on_hold: true });
    lab.take(&Step::Hold { port: 0, on_hold: false });
    lab.turns(5, 1000);

    let from = lab.now + 1000;
    lab.take(&Step::Inject { port: 0, dst: 1, priority: 5, len: 300, frames: 2 });
    lab.wires[1].inject(packet(MacAddr::BROADCAST, mac(1)));
    lab.turns(1, 1000);
    lab.take(&Step::Lldp { port: 0 });
    lab.turns(1, 2000);
    let during = pfc(&mut lab, 0, 0b0000_1000, 6);
    lab.turns(1, 3000);
    for (port, on_hold) in [(2, true), (2, true), (2, false), (1, false)] {
        lab.take(&Step::Hold { port, on_hold });
    }
    let recording = bytes(&lab.end().0);

    let mut replay = Replay::new(&recording[..]).expect("a recording");
    replay.collect_pauses();
    replay.run_until(from, &mut |_, _| {}).expect("no difference");
    assert_eq!(replay.totals().to, from, "the first iteration at that time is the last one");
    replay.collect_offered();
    replay.run_until(Instant::NEVER, &mut |_, _| {}).expect("no difference");
    let offered = replay.take_offered();
    assert_eq!(offered.pauses, [wider, of_other, narrower, during]);
    assert!(matches!(offered.pauses[0].control, Control::Pfc(Pfc { enable: 0b0010_1000, .. })));
    let class =
        |priority, flooded| QosClass { priority, queue: priority, drop_level: Default::default(), flooded };
    let known = OfferedFrame {
        at: from,
        from: 0,
        to: Some(1),
        len: 300,
        class: class(5, false),
        dscp: None,
        is_ect: false,
    };
    let mut frames = offered.frames.clone();
    frames.sort_by_key(|frame| frame.from); // the order of ports varies
    assert_eq!(frames[..2], [known; 2]);
    let flooded = frames[2];
    assert_eq!((flooded.at, flooded.from, flooded.to, flooded.len), (from, 1, None, 300));
    assert_eq!((flooded.dscp, flooded.is_ect), (Some(0), true));
    assert_eq!(frames.len(), 3);
    assert_eq!((offered.not_forwarded_frames, offered.left_out_frames), (1, 0));
    assert_eq!(offered.held_ports, [2]);
    assert_eq!(offered.busy_intervals_ns, [(2000, 3), (1000, 1), (3000, 1)]);
    assert_eq!(replay.take_offered(), Default::default(), "it was taken");
}

#[test]
fn a_replay_shows_the_settings_and_counters_of_its_switch() {
    let mut lab = Lab::new(64);
    lab.wires.iter().for_each(|wire| drop(wire.take_sent()));
    incast(&mut lab, 100);
    lab.turns(200, 20_000);
    let (other, wires) = (settings(9), lab.wires.clone());
    assert!(matches!(lab.send_command(apply(&other)), Reply::Applied(_)));
    let (segments, last, _) = lab.end();
    let recording = bytes(&segments);
    let mut replay = Replay::new(&recording[..]).expect("a recording");
    assert!(replay.settings().is_none() && replay.snapshot().is_none(), "nothing is known yet");
    replay.run_until(Instant::NEVER, &mut |_, _| {}).expect("no difference");
    assert_eq!(replay.settings(), Some(&other));
    let snapshot = replay.snapshot().expect("a snapshot");
    assert!(snapshot.ports[2].transmitted.frames > 100);
    assert_eq!(snapshot.ports[2].transmitted, last.ports[2].transmitted);
    let sent: usize = wires.iter().map(|wire| wire.take_sent().len()).sum();
    assert_eq!(replay.totals().sent_frames, sent as u64, "PFC and PAUSE included");
}

#[test]
fn a_difference_is_named_with_its_path_and_both_values() {
    let mut lab = Lab::new(64);
    let recorded = lab.parse(false);
    assert_eq!(difference(&recorded, &recorded.clone()), None);
    let mut replayed: Snapshot = recorded.clone();
    replayed.ports[1].groups[3].xoff_episodes += 41;
    let named = difference(&recorded, &replayed).expect("a difference");
    assert_eq!(
        named,
        "Snapshot ports: PortSnapshot groups: GroupSnapshot xoff_episodes: 0, in the recording, \
         xoff_episodes: 41, in the replay"
    );
}

/// Kinds of chunks and entries, by their numbers in a recording.
const STATE_CHUNK: u8 = 1;
const ENTRIES_CHUNK: u8 = 2;
const ITERATION: u8 = 2;
const DEADLINE: u8 = 12;
const EVENT: u8 = 21;
const STRAY: u8 = 22;

/// Returns a chunk of a recording.
fn chunk(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind][..], &(content.len() as u32).to_le_bytes(), content].concat()
}

/// Returns the kinds and contents of the chunks of a recording.
fn chunks(recording: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let (mut rest, mut chunks) = (&recording[title().len()..], Vec::new());
    while let Some((&[kind, a, b, c, d], after)) = rest.split_first_chunk() {
        let (content, after) = after.split_at(u32::from_le_bytes([a, b, c, d]) as usize);
        chunks.push((kind, content.to_vec()));
        rest = after;
    }
    chunks
}

/// Replays an incast, then these entries.
fn replay_with(entries: &[u8]) -> Result<(), Error> {
    let mut lab = Lab::new(64);
    incast(&mut lab, 5);
    let recording = [bytes(&lab.end().0), chunk(ENTRIES_CHUNK, entries)].concat();
    replay(&recording).map(drop)
}

fn stray(frames: u64) -> Vec<u8> {
    [&[STRAY, 1][..], &frames.to_le_bytes()].concat()
}

fn event(at: Instant, event: Event) -> Vec<u8> {
    let value = postcard::to_allocvec(&(at, event)).expect("an event can be written down");
    [&[EVENT][..], &(value.len() as u32).to_le_bytes(), &value].concat()
}

/// What the recorded switch reported has to be what the replayed one reports.
#[test]
fn an_event_that_differs_is_noticed() {
    let mut lab = Lab::new(64);
    incast(&mut lab, 5);
    let recording = bytes(&lab.end().0);
    let mut replay_to_end = Replay::new(&recording[..]).expect("a recording");
    replay_to_end.run_until(Instant::NEVER, &mut |_, _| {}).expect("no difference");
    let at = replay_to_end.totals().to;
    let strays = |frames| event(at, Event::StrayFrames { port: 1, frames });
    assert_eq!(replay_with(&[stray(7), strays(7)].concat()), Ok(()));
    assert!(matches!(replay_with(&[stray(7), strays(8)].concat()), Err(Error::Differs(_))));
    let missing = replay_with(&strays(7)).expect_err("no such event");
    assert!(matches!(&missing, Error::Differs(what) if what.ends_with("was None")), "{missing}");
}

/// The memory of a replay is bounded, whatever is in the recording.
#[test]
fn a_recording_without_its_events_is_noticed_at_last() {
    let strays = |events: usize| {
        let mut entries = Vec::new();
        for event in 1..=events {
            entries.extend(stray(1));
            if event % 64 == 0 || event == events {
                entries.push(ITERATION);
                entries.extend(1_000_000_000_000_u64.to_le_bytes());
            }
        }
        replay_with(&entries)
    };
    assert_eq!(strays(1 << 16), Ok(()));
    assert!(matches!(strays((1 << 16) + 1), Err(Error::Differs(_))));
}

#[test]
fn what_no_recorder_writes_is_an_error() {
    let (state_end, hold) = (28, 15);
    for entries in [&[0, 0][..], &[1, 0], &[27, 0], &[state_end, 0], &[255, 0], &[hold, 200, 1]] {
        let error = replay_with(entries).expect_err("no entry");
        assert!(matches!(error, Error::Malformed(_)), "{entries:?}: {error}");
    }
}

/// A segment whose state is incomplete is skipped, with all its chunks, and the next one is
/// replayed.
#[test]
fn a_replay_begins_with_the_first_complete_state() {
    let mut lab = Lab::new(64);
    incast(&mut lab, 100);
    let (segments, last, _) = lab.end();
    let whole = bytes(&segments);
    let mut parts = chunks(&whole);
    assert_eq!(parts[0].0, STATE_CHUNK);
    parts[0].1.pop().expect("the end of the state");
    let more = [&[ITERATION][..], &[0; 8]].concat();
    let second = parts.iter().skip(1).position(|part| part.0 == STATE_CHUNK).expect("a segment") + 1;
    parts.insert(second, (ENTRIES_CHUNK, more));
    let mut recording = title().into_bytes();
    parts.iter().for_each(|(kind, content)| recording.extend(chunk(*kind, content)));
    let (totals, replayed, _) = replay(&recording).expect("no difference");
    assert_eq!((difference(&last, &replayed), totals.gaps), (None, 0));
    let of_whole = replay(&whole).expect("no difference").0;
    assert!(totals.turns > 0 && totals.turns < of_whole.turns && totals.from > of_whole.from);
}

#[test]
fn a_chunk_is_read_whole_or_not_at_all() {
    let error_of = |rest: &[u8]| match replay(&[title().as_bytes(), rest].concat()) {
        Err(Error::Malformed(what)) => what,
        other => panic!("{other:?}"),
    };
    let truncated = "it ends in the middle of a chunk";
    let largest: u32 = 16 << 20;
    let header = |len: u32| [&[ENTRIES_CHUNK][..], &len.to_le_bytes()].concat();
    assert_eq!(error_of(&header(largest)), truncated);
    assert_eq!(error_of(&header(largest + 1)), "a chunk of 16777217 bytes");
    assert_eq!(error_of(&[&header(2)[..], &[7]].concat()), truncated);
    assert_eq!(error_of(&header(2)[..3]), truncated);
    assert_eq!(error_of(&[9, 0, 0, 0, 0]), "a chunk of kind 9");
}

/// A source that fails after the title, as a damaged archive does.
struct Fails(io::ErrorKind);

impl Read for Fails {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(self.0, "the archive is damaged"))
    }
}

#[test]
fn a_source_that_fails_is_a_damaged_recording() {
    for (kind, expected) in [
        (io::ErrorKind::UnexpectedEof, "it ends in the middle of a chunk"),
        (io::ErrorKind::InvalidData, "the archive is damaged"),
    ] {
        let title = title();
        let mut replay = Replay::new(title.as_bytes().chain(Fails(kind))).expect("a title");
        let ended = replay.run_until(Instant::NEVER, &mut |_, _| {});
        assert_eq!(ended, Err(Error::Malformed(expected.into())));
    }
}

/// A version has at most the ten digits of a u32.
#[test]
fn a_title_has_an_end() {
    let refused = |version: &str| Replay::new(format!("sluice recording {version}\n").as_bytes()).err();
    assert_eq!(refused("0000000003"), Some(Error::Version("0000000003".into())));
    assert_eq!(refused("00000000003"), Some(Error::NotARecording));
}

#[test]
fn a_panic_ends_a_replay_with_its_message() {
    let mut lab = Lab::new(64);
    lab.wires[1].complete_twice(7);
    lab.turns(3, 1000);
    let recording = bytes(&lab.end().0);
    let ended = |panics: fn()| {
        let mut replay = Replay::new(&recording[..]).expect("a recording");
        let ended = replay.run_until(Instant::NEVER, &mut |_, _| panics());
        assert!(replay.settings().is_none(), "a switch that panicked is not looked at");
        ended
    };
    assert_eq!(ended(|| panic!("of the test")), Err(Error::Panicked("of the test".into())));
    let number = || panic!("number {}", std::hint::black_box(7));
    assert_eq!(ended(number), Err(Error::Panicked("number 7".into())));
}
