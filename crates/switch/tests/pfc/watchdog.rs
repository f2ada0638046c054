//! The watchdog in the switch: storms detected to the nanosecond, both actions, recovery, the
//! limit, counters and events; and that nothing else is affected.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, mac, settings};
use switch::monitor::counters::{PortSnapshot, StormTraffic};
use switch::settings::{
    EarlyWarningSettings, Guaranteed, PfcWdAction, Restoration, StormLimit, SwitchSettings, WatchdogSettings,
};
use switch::{DropReason, Event, Instant};
use wire::bitset::Set8;
use wire::pause::Pfc;

const MS: u64 = 1_000_000;
/// The port whose host storms, and the priority.
const STORMED: usize = 1;
const P: usize = 3;

fn watch(action: PfcWdAction, restore: Restoration) -> WatchdogSettings {
    WatchdogSettings { detection_ns: 50 * MS, action, restore, limit: None }
}

/// Three ports; priorities 3 and 5 are no-drop, and the watchdog is on for priority 3 everywhere.
fn watched(watchdog: WatchdogSettings) -> SwitchSettings {
    let mut settings = settings(3, 1 << P | 1 << 5, 1000, 100);
    settings.ports.iter_mut().for_each(|port| port.watchdog[P] = Some(watchdog));
    settings
}

/// The host of the stormed port pauses priorities for the longest time of one frame: 3.36 ms. The
/// iteration that receives the frame polls the watchdog.
fn pause(lab: &mut Lab, priorities: u8) {
    lab.switch.begin_iteration(lab.now);
    lab.send_pfc(STORMED, Pfc { enable: priorities, quanta: [u16::MAX; 8] });
    lab.switch.tick(lab.now, &mut lab.memory);
}

/// Repeats the pause each millisecond while the loop runs, for `nanos` from now.
fn storm(lab: &mut Lab, nanos: u64) {
    let end = lab.now + nanos;
    while lab.now < end {
        pause(lab, 1 << P);
        let next = (lab.now + MS).min(end);
        turn_at(lab, next);
    }
}

/// Runs iterations until `at`, with one wherever the switch has an earlier deadline.
fn turn_at(lab: &mut Lab, at: Instant) {
    while lab.now < at {
        lab.now = lab.switch.next_deadline(lab.now).max(lab.now + 1).min(at);
        lab.switch.tick(lab.now, &mut lab.memory);
        for port in 0..3 {
            lab.transmit(port, usize::MAX);
            lab.complete(port, usize::MAX);
        }
    }
}

fn send(lab: &mut Lab, from: usize, to: usize, priority: u8) {
    lab.arrive(Frame { port: from, dst: mac(to), priority, len: 100 });
}

fn events(lab: &mut Lab) -> Vec<(u64, Event)> {
    let reported = lab.switch.drain_events().map(|(at, event)| (at.0, event));
    let is_of_watchdog = |event: &Event| {
        // Its drops are reported, too: `no_drop_losses.rs`.
        let is_xoff = matches!(event, Event::XoffBegan { .. } | Event::XoffEnded { .. });
        !is_xoff && !event.is_no_drop_loss()
    };
    reported.filter(|(_, event)| is_of_watchdog(event)).collect()
}

/// Returns the no-drop frames that events say the watchdog dropped at the stormed port.
fn reported_drops(lab: &mut Lab) -> u64 {
    let frames_of = |event| match event {
        Event::NoDropDropped { port: STORMED, priority: P, reason: DropReason::Watchdog, frames } => frames,
        _ => 0,
    };
    lab.switch.drain_events().map(|(_, event)| frames_of(event)).sum()
}

fn port(lab: &mut Lab) -> PortSnapshot {
    lab.snapshot().ports[STORMED].clone()
}

const fn began() -> Event {
    Event::StormBegan { port: STORMED, priority: P }
}

const fn ended() -> Event {
    Event::StormEnded { port: STORMED, priority: P }
}

fn traffic(tx: [u64; 2], rx: [u64; 2]) -> StormTraffic {
    StormTraffic { tx_frames: tx[0], tx_dropped_frames: tx[1], rx_frames: rx[0], rx_dropped_frames: rx[1] }
}

/// Returns the traffic of all storms, of the last one, and of the last one in the list of storms.
fn traffic_so_far(lab: &mut Lab) -> [StormTraffic; 3] {
    let stormed = port(lab);
    let listed = stormed.storms.last().expect("a storm").traffic;
    [stormed.priorities[P].storm_traffic, stormed.priorities[P].last_storm_traffic, listed]
}

#[test]
fn forward_lets_go_what_a_storm_holds() {
    let mut lab = Lab::new(&watched(watch(PfcWdAction::Forward, Restoration::After(700 * MS))));
    let start = lab.now;
    pause(&mut lab, 1 << P);
    (0..5).for_each(|_| send(&mut lab, 0, STORMED, P as u8));
    storm(&mut lab, 50 * MS);
    assert_eq!(
        (port(&mut lab).transmitted.frames, events(&mut lab)),
        (0, vec![]),
        "not longer than the detection time"
    );
    storm(&mut lab, 1);
    assert_eq!(events(&mut lab), [(start.0 + 50 * MS + 1, began())]);
    let stormed = port(&mut lab);
    assert_eq!((stormed.transmitted.frames, stormed.queues[P].paused), (5, true));
    assert!(stormed.priorities[P].stormed && stormed.priorities[P].watched);
    // Whatever is paused meanwhile, frames leave, and no storm is detected.
    storm(&mut lab, 300 * MS);
    send(&mut lab, 0, STORMED, P as u8);
    send(&mut lab, STORMED, 2, P as u8);
    storm(&mut lab, 399 * MS);
    assert_eq!(events(&mut lab), []);
    assert_eq!(traffic_so_far(&mut lab), [traffic([6, 0], [1, 0]); 3], "while the storm lasts");
    send(&mut lab, 0, STORMED, P as u8);
    storm(&mut lab, 2 * MS);
    assert_eq!(events(&mut lab), [(start.0 + 750 * MS + 2, ended())]);
    let restored = port(&mut lab);
    assert_eq!(restored.priorities[P].last_storm_traffic, traffic([7, 0], [1, 0]));
    assert_eq!(restored.priorities[P].storm_traffic, traffic([7, 0], [1, 0]));
    let [first] = restored.storms[..] else { panic!("{:?}", restored.storms) };
    assert_eq!((first.began_ns, first.stuck_ns), (start.0 + 50 * MS + 1, 50 * MS + 1));
    assert_eq!((first.ended_ns, first.drops), (Some(start.0 + 750 * MS + 2), false));
    // The peer's pauses are honored again, and a queue that the peer resumes works as usual.
    send(&mut lab, 0, STORMED, P as u8);
    lab.turn();
    assert_eq!(port(&mut lab).queues[P].waiting_frames, 1);
    lab.send_pfc(STORMED, Pfc { enable: 1 << P, quanta: [0; 8] });
    lab.turn();
    assert_eq!((port(&mut lab).transmitted.frames, port(&mut lab).queues[P].waiting_frames), (8, 0));
    // A second storm has its own traffic, and the sum goes on.
    pause(&mut lab, 1 << P);
    send(&mut lab, 0, STORMED, P as u8);
    storm(&mut lab, 50 * MS + 1);
    let own = traffic([1, 0], [0, 0]);
    assert_eq!(traffic_so_far(&mut lab), [traffic([8, 0], [1, 0]), own, own]);
    assert_eq!(port(&mut lab).storms[0].traffic, traffic([7, 0], [1, 0]), "the first one");
}

#[test]
fn drop_drops_what_is_for_the_queue_or_from_the_group_and_nothing_else() {
    let mut settings = watched(watch(PfcWdAction::Drop, Restoration::Quiet(400 * MS)));
    settings.ports.iter_mut().for_each(|port| port.groups[P].xoff = switch::settings::Threshold::Static(4));
    settings.ports.iter_mut().for_each(|port| port.groups[P].headroom_cells = 10);
    let mut lab = Lab::new(&settings);
    lab.switch.hold(2, true);
    // The host of the stormed port is sent XOFF: five cells of its own frames wait for port 2.
    (0..5).for_each(|_| send(&mut lab, STORMED, 2, P as u8));
    lab.turn();
    assert_eq!(lab.pfc_sent(STORMED).len(), 1);
    pause(&mut lab, 1 << P);
    (0..6).for_each(|_| send(&mut lab, 0, STORMED, P as u8));
    lab.turn();
    assert_eq!(
        lab.pfc_sent(0).last().map(|pfc| pfc.quanta[P]),
        Some(u16::MAX),
        "port 0 feeds it, and is paused"
    );
    storm(&mut lab, 50 * MS);
    storm(&mut lab, 1000);
    assert_eq!(events(&mut lab).len(), 1);
    let stormed = port(&mut lab);
    assert_eq!((stormed.drops[DropReason::Watchdog as usize].frames, stormed.queues[P].level.cells), (6, 0));
    let reported = |pfcs: Vec<Pfc>| pfcs.last().map(|pfc| (pfc.enable & 1 << P != 0, pfc.quanta[P]));
    assert_eq!(reported(lab.pfc_sent(0)), Some((true, 0)), "what the queue held has let port 0 go");
    assert_eq!(reported(lab.pfc_sent(STORMED)), Some((true, 0)), "no PFC is sent for what is stormed");
    // Arrivals: for the queue from any port, and from the group to any port. Others pass.
    for (from, to, priority) in [(0, STORMED, 3), (2, STORMED, 3), (STORMED, 0, 3), (STORMED, 2, 3)] {
        send(&mut lab, from, to, priority);
    }
    for (from, to, priority) in [(0, STORMED, 5), (STORMED, 0, 5), (2, 0, 3)] {
        send(&mut lab, from, to, priority);
    }
    lab.turn();
    lab.turn();
    let seen = port(&mut lab);
    assert_eq!(seen.drops[DropReason::Watchdog as usize].frames, 6 + 4);
    assert_eq!((seen.queues[P].storm_dropped.frames, seen.groups[P].storm_dropped.frames), (8, 2));
    assert_eq!((seen.transmitted.frames, lab.snapshot().ports[0].transmitted.frames), (1, 2));
    let dropped = lab.seen().ports.iter().map(|port| port.drops[DropReason::Watchdog as usize].frames);
    assert_eq!(dropped.collect::<Vec<_>>(), [0, 10, 0], "counted where the storm is");
    assert_eq!(seen.priorities[P].storm_traffic, traffic([0, 8], [0, 2]));
    assert!(lab.pfc_sent(STORMED).iter().all(|pfc| pfc.quanta[P] == 0));
    // Restored after 400 ms without XOFF. The group is as before, and its peer receives PFC again.
    let quiet = lab.now;
    pause(&mut lab, 1 << P);
    turn_at(&mut lab, quiet + 400 * MS);
    assert_eq!(events(&mut lab), []);
    turn_at(&mut lab, quiet + 400 * MS + 1000);
    assert_eq!(events(&mut lab), [(quiet.0 + 400 * MS + 1, ended())]);
    assert_eq!(
        reported(lab.pfc_sent(STORMED)),
        Some((true, u16::MAX)),
        "five frames of it still wait for port 2"
    );
    send(&mut lab, 0, STORMED, P as u8);
    lab.switch.hold(2, false);
    lab.turn();
    lab.turn();
    let after = port(&mut lab);
    assert_eq!((after.queues[P].transmitted.frames, after.priorities[P].stormed), (1, false));
    assert_eq!(lab.snapshot().ports[2].transmitted.frames, 5);
    assert_eq!(lab.switch.frames_held(), 0);
    assert_eq!(lab.memory_free(), lab.frames);
}

/// The manual procedure of the vendor's example: mode manual, the fault repaired, `deadlock
/// recover`.
#[test]
fn manual_recovery_waits_for_a_command_and_settings_stay() {
    let by_hand = watch(PfcWdAction::Forward, Restoration::Manual);
    let mut lab = Lab::new(&watched(by_hand));
    pause(&mut lab, 1 << P);
    send(&mut lab, 0, STORMED, P as u8);
    storm(&mut lab, 51 * MS);
    let pending = Event::RecoveryPending { port: STORMED, priority: P };
    assert_eq!(events(&mut lab).iter().map(|reported| reported.1).collect::<Vec<_>>(), [began(), pending]);
    let much_later = lab.now + 60_000 * MS;
    turn_at(&mut lab, much_later);
    assert!(port(&mut lab).priorities[P].recovery_pending && events(&mut lab).is_empty());
    let mut others = watched(watch(PfcWdAction::Forward, Restoration::After(MS)));
    assert_eq!(lab.switch.pending_recovery(&others), Some(STORMED));
    others.ports[STORMED].watchdog[P] = Some(by_hand);
    assert_eq!(lab.switch.pending_recovery(&others), None, "of other ports it may be changed");
    others.ports[STORMED] = switch::PortSettings::vacant();
    assert_eq!(lab.switch.pending_recovery(&others), None, "a removed port needs no recovery");
    others = watched(watch(PfcWdAction::Forward, Restoration::After(MS)));
    others.ports[STORMED].watchdog[P] = Some(by_hand);
    lab.switch.apply(&others, lab.now);
    lab.turn();
    assert!(port(&mut lab).priorities[P].stormed, "it goes on, whatever else is changed");
    assert_eq!(lab.switch.recover_storms(0, lab.now, &mut lab.memory), 0);
    assert_eq!(lab.switch.recover_storms(STORMED, lab.now, &mut lab.memory), 1);
    assert_eq!(events(&mut lab), [(lab.now.0, ended())]);
    assert_eq!(lab.switch.pending_recovery(&watched(watch(PfcWdAction::Drop, Restoration::Manual))), None);
}

/// One pause at 100 Mbit/s lasts 335 ms, and the operator recovers the storm 60 ms after it began:
/// what is left of it does not make the next storm.
#[test]
fn recovery_by_hand_holds_although_the_last_pause_is_not_over() {
    let mut settings = watched(watch(PfcWdAction::Forward, Restoration::Manual));
    settings.ports[STORMED].speed_bps = Some(100_000_000);
    let mut lab = Lab::new(&settings);
    pause(&mut lab, 1 << P);
    send(&mut lab, 0, STORMED, P as u8);
    let start = lab.now;
    turn_at(&mut lab, start + 1);
    turn_at(&mut lab, start + 60 * MS);
    assert!(port(&mut lab).priorities[P].recovery_pending);
    events(&mut lab);
    assert_eq!(lab.switch.recover_storms(STORMED, lab.now, &mut lab.memory), 1);
    let recovered = events(&mut lab).into_iter().map(|(_, event)| event);
    assert_eq!(recovered.collect::<Vec<_>>(), [ended()]);
    send(&mut lab, 0, STORMED, P as u8);
    turn_at(&mut lab, start + 61 * MS);
    turn_at(&mut lab, start + 200 * MS);
    assert_eq!(events(&mut lab), [], "no storm");
    assert_eq!(port(&mut lab).queues[P].transmitted.frames, 2);
    // A pause that comes now is another one.
    pause(&mut lab, 1 << P);
    send(&mut lab, 0, STORMED, P as u8);
    let again = lab.now;
    turn_at(&mut lab, again + 1);
    turn_at(&mut lab, again + 60 * MS);
    assert!(port(&mut lab).priorities[P].recovery_pending);
}

/// Runs iterations each 10 ms until `at`, in which the kernel completes nothing on the port.
fn stuck_until(lab: &mut Lab, at: Instant) {
    while lab.now < at {
        lab.now = (lab.now + 10 * MS).min(at);
        lab.switch.tick(lab.now, &mut lab.memory);
        for port in 0..3 {
            lab.transmit(port, usize::MAX);
            if port != STORMED {
                lab.complete(port, usize::MAX);
            }
        }
    }
}

/// The interface takes 64 KiB and sends nothing. Frames wait, and the sender is in XOFF: event and
/// counter after 5 s; with the watchdog's action `drop` the sender is released after the detection
/// time.
#[test]
fn a_port_whose_transmissions_never_complete_is_no_silent_pause() {
    for action in [None, Some(PfcWdAction::Drop)] {
        let mut settings = settings(3, 1 << P, 1000, 100);
        settings.ports[STORMED].in_flight_bytes = 100;
        settings.ports[0].groups[P].xoff = switch::settings::Threshold::Static(4);
        settings.ports[STORMED].watchdog[P] =
            action.map(|action| watch(action, Restoration::Quiet(400 * MS)));
        let mut lab = Lab::new(&settings);
        (0..20).for_each(|_| send(&mut lab, 0, STORMED, P as u8));
        let start = lab.now;
        stuck_until(&mut lab, start + 4_900 * MS);
        let reported: Vec<Event> = events(&mut lab).into_iter().map(|(_, event)| event).collect();
        let waiting = port(&mut lab).queues[P].waiting_frames;
        let is_paused = lab.snapshot().ports[0].groups[P].xoff;
        match action {
            None => assert_eq!((reported, waiting > 0, is_paused), (vec![], true, true)),
            Some(_) => assert_eq!((reported, waiting, is_paused), (vec![began()], 0, false)),
        }
        stuck_until(&mut lab, start + 5_300 * MS);
        let stalls = port(&mut lab).tx_stalls;
        let reported: Vec<Event> = events(&mut lab).into_iter().map(|(_, event)| event).collect();
        assert_eq!((reported, stalls), (vec![Event::TxStalled { port: STORMED }], 1));
        let end = lab.now + 1000 * MS;
        turn_at(&mut lab, end);
        let reported: Vec<Event> = events(&mut lab).into_iter().map(|(_, event)| event).collect();
        match action {
            None => assert_eq!(reported, [Event::TxResumed { port: STORMED }]),
            Some(_) => assert_eq!(reported, [Event::TxResumed { port: STORMED }, ended()]),
        }
        assert_eq!(lab.switch.frames_held(), 0);
    }
}

/// A frame that takes 60 ms to leave is no storm for a watchdog of 50: whether something leaves is
/// checked less often.
#[test]
fn a_slow_transmission_is_no_storm() {
    let mut settings = watched(watch(PfcWdAction::Drop, Restoration::Quiet(400 * MS)));
    settings.ports[STORMED].in_flight_bytes = 100;
    let mut lab = Lab::new(&settings);
    (0..2).for_each(|_| send(&mut lab, 0, STORMED, P as u8));
    for ms in 1..=120 {
        lab.now = lab.now + MS;
        lab.switch.tick(lab.now, &mut lab.memory);
        lab.transmit(STORMED, usize::MAX);
        lab.complete(STORMED, usize::from(ms % 60 == 0));
    }
    assert_eq!((events(&mut lab), port(&mut lab).transmitted.frames), (vec![], 2));
}

/// Runs iterations each 10 ms until `at`. In each a frame of priority 5 is sent to the port.
fn busy_until(lab: &mut Lab, at: Instant) {
    while lab.now < at {
        lab.now = (lab.now + 10 * MS).min(at);
        send(lab, 2, STORMED, 5);
        lab.switch.tick(lab.now, &mut lab.memory);
        for port in 0..3 {
            lab.transmit(port, usize::MAX);
            lab.complete(port, usize::MAX);
        }
    }
}

/// The peer has no room for frames of one queue: a guest that hangs. The sender is in XOFF: event
/// and counter after 5 s; with the watchdog's action `drop` the sender is released after the
/// detection time. A queue with room is no concern of either, however busy.
#[test]
fn a_peer_without_room_for_a_queue_is_no_silent_pause() {
    for action in [None, Some(PfcWdAction::Drop)] {
        let mut settings = settings(3, 1 << P | 1 << 5, 1000, 100);
        settings.ports[0].groups[P].xoff = switch::settings::Threshold::Static(4);
        settings.ports[0].groups[P].headroom_cells = 50;
        for priority in [P, 5] {
            settings.ports[STORMED].watchdog[priority] =
                action.map(|action| watch(action, Restoration::Quiet(400 * MS)));
        }
        let mut lab = Lab::new(&settings);
        lab.switch.block_queues(STORMED, Set8::of(P), lab.now);
        let start = lab.now;
        busy_until(&mut lab, start + 1000 * MS); // without frames for the queue nothing is wrong
        assert_eq!(events(&mut lab), []);
        (0..20).for_each(|_| send(&mut lab, 0, STORMED, P as u8));
        busy_until(&mut lab, start + 5_900 * MS);
        let reported: Vec<Event> = events(&mut lab).into_iter().map(|(_, event)| event).collect();
        let queue = port(&mut lab).queues[P];
        let is_paused = lab.snapshot().ports[0].groups[P].xoff;
        assert!(queue.no_room);
        match action {
            None => assert_eq!((reported, queue.waiting_frames, is_paused), (vec![], 20, true)),
            Some(_) => assert_eq!((reported, queue.waiting_frames, is_paused), (vec![began()], 0, false)),
        }
        busy_until(&mut lab, start + 6_300 * MS);
        let reported: Vec<Event> = events(&mut lab).into_iter().map(|(_, event)| event).collect();
        let stalls = port(&mut lab).queues[P].no_room_stalls;
        match action {
            None => {
                let stalled = Event::QueueStalled { port: STORMED, queue: P };
                assert_eq!((reported, stalls), (vec![stalled], 1));
            }
            Some(_) => assert_eq!((reported, stalls), (vec![], 0), "nothing waits any more"),
        }
        lab.switch.block_queues(STORMED, Set8::EMPTY, lab.now);
        let end = lab.now + 1000 * MS;
        busy_until(&mut lab, end);
        let reported: Vec<Event> = events(&mut lab).into_iter().map(|(_, event)| event).collect();
        match action {
            None => assert_eq!(reported, [Event::QueueResumed { port: STORMED, queue: P }]),
            Some(_) => assert_eq!(reported, [ended()]),
        }
        let queues = port(&mut lab).queues;
        assert_eq!((queues[5].transmitted.frames, queues[5].no_room), (730, false));
        assert_eq!(queues[P].transmitted.frames, if action.is_none() { 20 } else { 0 });
        assert_eq!(lab.switch.frames_held(), 0);
    }
}

/// A slow guest has room now and then. That is no stall, and no storm.
#[test]
fn a_peer_with_room_now_and_then_is_not_stuck() {
    let mut lab = Lab::new(&watched(watch(PfcWdAction::Drop, Restoration::Quiet(400 * MS))));
    for _ in 0..200 {
        (0..2).for_each(|_| send(&mut lab, 0, STORMED, P as u8));
        lab.switch.block_queues(STORMED, Set8::of(P), lab.now);
        let blocked = lab.now + 40 * MS;
        busy_until(&mut lab, blocked);
        lab.switch.block_queues(STORMED, Set8::EMPTY, lab.now);
        lab.transmit(STORMED, 1);
        lab.complete(STORMED, 1);
    }
    assert_eq!(events(&mut lab), []);
    assert_eq!(port(&mut lab).queues[P].no_room_stalls, 0);
}

/// What the last guest did is forgotten with it.
#[test]
fn a_port_that_was_down_begins_with_room() {
    let mut lab = Lab::new(&watched(watch(PfcWdAction::Drop, Restoration::Quiet(400 * MS))));
    lab.switch.block_queues(STORMED, Set8::ALL, lab.now);
    lab.switch.port_down(STORMED, lab.now, &mut lab.memory);
    lab.switch.port_up(STORMED, None, lab.now);
    lab.switch.set_learned(mac(STORMED), STORMED, lab.now);
    send(&mut lab, 0, STORMED, P as u8);
    lab.turn();
    assert_eq!(port(&mut lab).queues[P].transmitted.frames, 1);
}

#[test]
fn too_many_storms_turn_pfc_off_until_the_limit_is_lifted() {
    let limit = Some(StormLimit { period_ns: 1000 * MS, count: 10 });
    let of_h3c = WatchdogSettings {
        detection_ns: 10 * MS,
        limit,
        ..watch(PfcWdAction::Forward, Restoration::After(10 * MS))
    };
    let mut settings = watched(of_h3c);
    settings.ports.iter_mut().for_each(|port| port.groups[P].xoff = switch::settings::Threshold::Static(2));
    settings.ports.iter_mut().for_each(|port| port.groups[P].headroom_cells = 50);
    let mut lab = Lab::new(&settings);
    let mut reported = Vec::new();
    for _ in 0..300 {
        storm(&mut lab, MS);
        send(&mut lab, 0, STORMED, P as u8);
        reported.extend(events(&mut lab).into_iter().map(|reported| reported.1));
    }
    let reached =
        Event::StormLimitReached { port: STORMED, priority: P, local_precedence: P as u8, times: 10 };
    let pairs = [began(), ended()].repeat(10);
    assert_eq!(reported, [&pairs[..], &[reached]].concat(), "Begin, End, and so on, then the limit");
    let off = port(&mut lab);
    assert!(off.priorities[P].limit_reached && !off.priorities[P].stormed && !off.groups[P].no_drop);
    assert_eq!((off.priorities[P].storms, off.priorities[P].storms_restored), (10, 10));
    assert!(off.queues[P].waiting_frames <= 1, "what comes leaves, paused or not");
    // Its peer receives no more PFC for this priority.
    lab.switch.hold(2, true);
    lab.pfc_sent(STORMED);
    (0..5).for_each(|_| send(&mut lab, STORMED, 2, P as u8));
    lab.turn();
    assert_eq!(lab.pfc_sent(STORMED).len(), 0);
    // With the limit lifted, it is as before.
    assert_eq!(lab.switch.lift_storm_limit(STORMED, Set8::of(5), lab.now, &mut lab.memory), 0);
    assert_eq!(lab.switch.lift_storm_limit(STORMED, Set8::ALL, lab.now, &mut lab.memory), 1);
    lab.turn();
    assert_eq!(lab.pfc_sent(STORMED).last().map(|pfc| pfc.quanta[P]), Some(u16::MAX));
    assert!(port(&mut lab).groups[P].no_drop);
    // The same with a configuration without the limit.
    for _ in 0..300 {
        storm(&mut lab, MS);
        send(&mut lab, 0, STORMED, P as u8);
    }
    assert!(port(&mut lab).priorities[P].limit_reached);
    let mut without = settings.clone();
    without.ports[STORMED].watchdog[P] = Some(WatchdogSettings { limit: None, ..of_h3c });
    lab.switch.apply(&without, lab.now);
    lab.turn();
    assert!(!port(&mut lab).priorities[P].limit_reached && port(&mut lab).groups[P].no_drop);
}

/// During a storm the port goes down and comes back, buffers change, the watchdog's action changes,
/// or the watchdog is disabled.
#[test]
fn the_queue_works_again_whatever_happened_meanwhile() {
    for (number, meanwhile) in [
        (|_: &mut Lab, _: &SwitchSettings| {}) as fn(&mut Lab, &SwitchSettings),
        |lab, _| {
            lab.switch.port_down(STORMED, lab.now, &mut lab.memory);
            lab.switch.port_up(STORMED, None, lab.now);
        },
        |lab, settings| {
            let mut smaller = settings.clone();
            smaller.buffer.total_cells -= 200;
            smaller.ports[STORMED].groups[P].reserved_cells = 3;
            lab.switch.apply(&smaller, lab.now);
        },
        |lab, settings| {
            let mut other = settings.clone();
            let turned = |watchdog: &mut WatchdogSettings| {
                watchdog.action = match watchdog.action {
                    PfcWdAction::Drop => PfcWdAction::Forward,
                    PfcWdAction::Forward => PfcWdAction::Drop,
                }
            };
            other.ports.iter_mut().filter_map(|port| port.watchdog[P].as_mut()).for_each(turned);
            lab.switch.apply(&other, lab.now);
        },
        |lab, settings| {
            let mut none = settings.clone();
            none.ports.iter_mut().for_each(|port| port.watchdog[P] = None);
            lab.switch.apply(&none, lab.now);
        },
        |lab, settings| lab.switch.apply(&settings.without_pfc(), lab.now),
    ]
    .into_iter()
    .enumerate()
    {
        for action in [PfcWdAction::Forward, PfcWdAction::Drop] {
            let settings = watched(watch(action, Restoration::After(200 * MS)));
            let mut lab = Lab::new(&settings);
            pause(&mut lab, 1 << P);
            send(&mut lab, 0, STORMED, P as u8);
            storm(&mut lab, 51 * MS);
            assert_eq!(events(&mut lab).len(), 1);
            meanwhile(&mut lab, &settings);
            lab.turn();
            (0..3).for_each(|_| send(&mut lab, 0, STORMED, P as u8));
            let later = lab.now + 300 * MS;
            turn_at(&mut lab, later);
            lab.switch.apply(&settings, lab.now);
            lab.arrive(Frame { port: STORMED, dst: mac(STORMED), priority: 0, len: 64 }); // known again
            let before = port(&mut lab);
            assert!(!before.priorities[P].stormed, "case {number}, {action:?}");
            assert_eq!(before.priorities[P].storms_restored, 1, "case {number}, {action:?}");
            for _ in 0..10 {
                send(&mut lab, 0, STORMED, P as u8);
                send(&mut lab, STORMED, 2, P as u8);
                lab.turn();
            }
            let after = port(&mut lab);
            assert_eq!(after.transmitted.frames - before.transmitted.frames, 10, "case {number}, {action:?}");
            assert_eq!(after.drops, before.drops);
            assert_eq!(lab.switch.frames_held(), 0, "case {number}, {action:?}");
            let seen = lab.snapshot();
            assert!(seen.ingress_pools.iter().chain(&seen.egress_pools).all(|pool| pool.level.cells == 0));
            assert_eq!(lab.memory_free(), lab.frames, "case {number}, {action:?}");
        }
    }
}

/// Class-enable bits that are zero, other priorities, and pauses of a queue without frames are not
/// a storm.
#[test]
fn what_does_not_stop_frames_is_no_storm() {
    for enable in [0, 1 << 5, 1 << 6, !(1 << P)] {
        let mut lab = Lab::new(&watched(watch(PfcWdAction::Drop, Restoration::Manual)));
        for _ in 0..200 {
            lab.send_pfc(STORMED, Pfc { enable, quanta: [u16::MAX; 8] });
            send(&mut lab, 0, STORMED, P as u8);
            let next = lab.now + MS;
            turn_at(&mut lab, next);
        }
        assert_eq!(
            (events(&mut lab), port(&mut lab).queues[P].transmitted.frames),
            (vec![], 200),
            "{enable:08b}"
        );
    }
    let mut lab = Lab::new(&watched(watch(PfcWdAction::Drop, Restoration::Manual)));
    storm(&mut lab, 1000 * MS);
    assert_eq!(events(&mut lab), [], "nothing waits");
    // From the first frame on it is a storm, and that frame's pause counts.
    send(&mut lab, 0, STORMED, P as u8);
    let first = lab.now;
    lab.switch.tick(lab.now, &mut lab.memory);
    storm(&mut lab, 51 * MS);
    assert_eq!(events(&mut lab)[0], (first.0 + 50 * MS + 1, began()));
}

#[test]
fn early_warnings_of_pfc_in_both_directions() {
    let mut settings = watched(watch(PfcWdAction::Forward, Restoration::Manual));
    settings.ports[STORMED].early_warning[P] = EarlyWarningSettings { in_pps: Some(500), out_pps: Some(1) };
    settings.ports[STORMED].groups[P].xoff = switch::settings::Threshold::Static(1);
    let mut lab = Lab::new(&settings);
    let second = |lab: &mut Lab, pfc: u64| {
        for _ in 0..pfc {
            pause(lab, 1 << P);
            let next = lab.now + 1000 * MS / pfc;
            turn_at(lab, next);
        }
        events(lab).into_iter().map(|reported| reported.1).collect::<Vec<_>>()
    };
    let start = lab.now;
    turn_at(&mut lab, start + 1000 * MS);
    assert_eq!([second(&mut lab, 250), second(&mut lab, 250)], [[], []]);
    let mut rising = second(&mut lab, 1000);
    rising.extend(second(&mut lab, 1000));
    assert!(matches!(rising[..], [Event::EarlyWarning { sent: false, pps: 500..=1000, .. }]), "{rising:?}");
    assert!(port(&mut lab).priorities[P].received_warning);
    assert_eq!([second(&mut lab, 450), second(&mut lab, 450)], [[], []], "not clearly fewer");
    let mut cleared = second(&mut lab, 200);
    cleared.extend(second(&mut lab, 200));
    assert!(
        matches!(cleared[..], [Event::EarlyWarningCleared { sent: false, pps: 200..400, .. }]),
        "{cleared:?}"
    );
    lab.switch.hold(2, true);
    send(&mut lab, STORMED, 2, P as u8);
    let later = lab.now + 1100 * MS;
    turn_at(&mut lab, later);
    let sent: Vec<_> = events(&mut lab).into_iter().map(|reported| reported.1).collect();
    assert!(sent.iter().any(|event| matches!(event, Event::EarlyWarning { sent: true, .. })), "{sent:?}");
}

/// A watchdog that is polled more often does not make the second shorter in which pauses count.
#[test]
fn a_few_pauses_in_a_row_are_no_early_warning() {
    let mut settings = watched(watch(PfcWdAction::Forward, Restoration::After(700 * MS)));
    settings.ports[STORMED].early_warning[P] = EarlyWarningSettings { in_pps: Some(100), out_pps: None };
    let mut lab = Lab::new(&settings);
    let start = lab.now;
    turn_at(&mut lab, start + 1000 * MS);
    send(&mut lab, 0, STORMED, P as u8);
    storm(&mut lab, 60 * MS);
    turn_at(&mut lab, start + 2500 * MS);
    let warnings = lab.switch.drain_events().filter(|(_, event)| matches!(event, Event::EarlyWarning { .. }));
    assert_eq!(warnings.count(), 0);
}

/// The loop learns that a port has work when its storm begins: what was stopped may leave.
#[test]
fn a_port_has_work_once_its_pauses_are_ignored() {
    let mut lab = Lab::new(&watched(watch(PfcWdAction::Forward, Restoration::After(700 * MS))));
    pause(&mut lab, 1 << P);
    send(&mut lab, 0, STORMED, P as u8);
    storm(&mut lab, 50 * MS);
    lab.switch.take_newly_pending();
    lab.switch.tick(lab.now, &mut lab.memory);
    assert_eq!(lab.switch.take_newly_pending(), 0, "nothing has changed");
    lab.now = lab.now + 1;
    lab.switch.tick(lab.now, &mut lab.memory);
    assert_eq!(lab.switch.take_newly_pending(), 1 << STORMED);
}

/// While the watchdog drops, guaranteed cells admit nothing either.
#[test]
fn a_dropping_queue_has_no_room_in_its_guaranteed_cells() {
    let mut settings = watched(watch(PfcWdAction::Drop, Restoration::Quiet(400 * MS)));
    settings.ports[0].groups[P].reserved_cells = 100;
    settings.ports[STORMED].queues[2].guaranteed = Guaranteed::Cells(100);
    settings.ports[STORMED].queues[P].guaranteed = Guaranteed::Cells(100);
    let mut lab = Lab::new(&settings);
    pause(&mut lab, 1 << P);
    send(&mut lab, 0, STORMED, P as u8);
    storm(&mut lab, 50 * MS + 1);
    send(&mut lab, 0, STORMED, P as u8);
    let stormed = port(&mut lab);
    assert!(stormed.storms[0].drops);
    assert_eq!((stormed.queues[P].waiting_frames, stormed.queues[P].level.cells), (0, 0));
    assert_eq!(stormed.drops[DropReason::Watchdog as usize].frames, 2);
}

/// The loop is occasionally late by more than a pause time, so the pause has expired when the
/// refresh in the ring is read. No frame left in between, so the priority is stuck all the time.
#[test]
fn a_loop_that_is_late_hides_no_storm() {
    let mut lab = Lab::new(&watched(watch(PfcWdAction::Forward, Restoration::After(700 * MS))));
    drop(lab.switch.drain_events());
    let start = lab.now;
    pause(&mut lab, 1 << P);
    (0..5).for_each(|_| send(&mut lab, 0, STORMED, P as u8));
    for round in 1..=3_u64 {
        // Refreshes in time, and then one that is read 3.4 ms after the previous one.
        storm(&mut lab, 20 * MS);
        pause(&mut lab, 1 << P);
        lab.now = lab.now + 3 * MS + 400_000;
        pause(&mut lab, 1 << P);
        lab.transmit(STORMED, usize::MAX);
        let stormed = round == 3; // after 70.2 ms; the detection time is 50
        let sent = lab.with_kernel[STORMED].len() as u64 + port(&mut lab).transmitted.frames;
        assert_eq!(sent > 0, stormed, "round {round}");
        let expected = if stormed { vec![(start.0 + 50 * MS + 1, began())] } else { vec![] };
        assert_eq!(events(&mut lab), expected, "round {round}");
    }
    assert_eq!(port(&mut lab).priorities[P].pauses, 1, "one pause, refreshed");
}

/// What waits for the stormed port when the storm begins, and what its host sends meanwhile.
#[test]
fn every_no_drop_frame_that_a_storm_costs_is_reported() {
    let mut lab = Lab::new(&watched(watch(PfcWdAction::Drop, Restoration::Quiet(400 * MS))));
    pause(&mut lab, 1 << P);
    (0..6).for_each(|_| send(&mut lab, 0, STORMED, P as u8));
    storm(&mut lab, 51 * MS);
    assert_eq!(reported_drops(&mut lab), 6, "at once");
    (0..3).for_each(|_| send(&mut lab, STORMED, 0, P as u8));
    storm(&mut lab, 1_000 * MS);
    assert_eq!(reported_drops(&mut lab), 3, "after a second");
    assert_eq!(port(&mut lab).drops[DropReason::Watchdog as usize].frames, 9);
}
