//! The replay of a recorded loop: the same switch reaches the same counters, watermarks, events and
//! times, whatever happened.

#[path = "lab/recorded_loop.rs"]
mod lab;
#[path = "lab/loopback_port.rs"]
mod loopback_port;

use dataplane::flight_recorder::error::Error;
use dataplane::flight_recorder::recorder::{HEADER_BYTES, VERSION, title};
use dataplane::flight_recorder::replay::{Replay, difference};
use dataplane::{LoopCommand, Reply};
use lab::{
    Lab, PORTS, Step, apply, bytes, ends_as_replayed, frame, incast, mac, replay, settings, step, watchdog,
};
use proptest::prelude::*;
use switch::settings::{FlowControl, Trust, VlanList, VlanSettings, WredProfile, WredSettings};
use switch::{DropReason, Event, Instant};
use wire::ethernet::{IPV4, write_header};
use wire::mac::MacAddr;

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
