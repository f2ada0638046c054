//! The loop over ports in memory: received and transmitted frames, iteration by iteration, also
//! when a port misbehaves.

mod lab;
#[path = "lab/loopback_port.rs"]
mod loopback_port;

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Wake, Waker};

use dataplane::{Heartbeat, LoopCommand, LoopState, Port, PortFault, RX_BATCH, Reply, Sleeper};
use lab::{FRAMES, Lab, conserved, frame, mac, settings, xoff_3};
use loopback_port::Wire;
use switch::monitor::counters::DropReason;
use switch::pfc::rx_backlog::{XOFF_FRAMES, XON_FRAMES};
use switch::settings::{FlowControl, PortSettings, Threshold};
use switch::{Event, Instant, Nanos};
use wire::bitset::Set8;
use wire::ethernet::{IPV4, write_header};
use wire::pause::{Control, decode};

/// A third of 65535 quanta at 10 Gbit/s, the speed of a port without one.
const REFRESH_NS: u64 = 65_535 * 512 / 10 / 3;

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

/// XOFF is sent in the iteration in which the threshold is reached, and XON once the queue drains.
/// No frame is lost.
#[test]
fn xoff_is_sent_in_the_same_iteration_and_xon_too() {
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
fn headroom_exhausted_is_counted_to_the_frame_and_reported_once() {
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

/// The loop is preempted for 5 ms between the start of its iteration and its read of the ring, in
/// which XOFF for 3.36 ms arrived. The pause counts from when the frame had been read.
#[test]
fn a_pause_counts_from_when_it_can_have_arrived_at_the_latest() {
    let mut lab = Lab::new();
    let mut bytes = [0; 60];
    xoff_3(65_535).encode(mac(1), &mut bytes);
    lab.wires[1].inject(bytes);
    let taken_at = lab.now + 5_000_000;
    lab.core.iterate_with_clock(lab.now, &|| taken_at);
    lab.wires[0].inject(frame(mac(1), mac(0), 3));
    for (after_ns, left) in [(1_000, 0), (3_355_391, 0), (3_355_392, 1)] {
        (0..2).for_each(|_| _ = lab.core.iterate(taken_at + after_ns));
        assert_eq!(lab.seen(1).len(), left, "{after_ns} ns after it was read");
    }
}

/// The loss is counted at the frame's queue, in frames and bytes. Its cells are released, and an
/// event has the number of no-drop frames.
#[test]
fn what_the_kernel_loses_is_counted_where_it_was_to_leave() {
    let mut lab = Lab::new();
    lab.wires[1].lose(2);
    (0..2).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(2);
    let event = |frames, no_drop_frames| Event::KernelLost { port: 1, frames, no_drop_frames, pfc_frames: 0 };
    assert_eq!(lab.events(), [event(2, 2)]);
    lab.wires[1].lose(1);
    (0..5).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 5)));
    lab.turns(3);
    assert_eq!(lab.seen(1).len(), 4);
    assert_eq!(lab.events(), [], "no sooner than a second after the first");
    lab.now = lab.now + 1_000_000_000;
    lab.turns(1);
    assert_eq!(lab.events(), [event(1, 0)]);
    let snapshot = lab.snapshot();
    let port = &snapshot.ports[1];
    let counts =
        |q: usize| [port.queues[q].kernel_lost, port.queues[q].transmitted].map(|c| (c.frames, c.bytes));
    assert_eq!((counts(3), counts(5)), ([(2, 128), (0, 0)], [(1, 64), (4, 256)]));
    let lost = (port.kernel_lost_frames, port.kernel_lost_no_drop_frames, port.kernel_lost_pfc_frames);
    assert_eq!((lost, port.kernel.tx_busy), ((3, 2, 0), 3));
    assert_eq!((port.transmitted.frames, port.transmitted.bytes), (6, 384), "two announcements among them");
    let cells = snapshot.ports[0].groups.iter().map(|group| group.total.cells);
    assert_eq!(cells.chain(port.queues.iter().map(|queue| queue.level.cells)).sum::<u32>(), 0);
    conserved(&snapshot);
}

/// A peer whose XOFF was lost gets another one 50 µs later, and XON as usual.
#[test]
fn a_pfc_frame_that_the_kernel_loses_is_no_data() {
    let mut lab = Lab::new();
    lab.wires[1].block(true);
    lab.wires[0].lose(1);
    (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(2);
    assert_eq!(lab.seen(0), []);
    let event = Event::KernelLost { port: 0, frames: 0, no_drop_frames: 0, pfc_frames: 1 };
    assert!(lab.events().contains(&event));
    lab.turns(40);
    assert_eq!(lab.seen(0), []);
    lab.turns(20);
    assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))]);
    lab.wires[1].block(false);
    lab.turns(4);
    assert_eq!(lab.seen(0), [Ok(xoff_3(0))]);
    let snapshot = lab.snapshot();
    let port = &snapshot.ports[0];
    assert_eq!((port.kernel_lost_frames, port.kernel_lost_pfc_frames, port.pfc_sent.frames), (0, 1, 3));
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
    let replies: Vec<_> = std::iter::from_fn(|| lab.handle.receive()).collect();
    let reported = replies.iter().any(|reply| matches!(reply, Reply::Event(_, Event::PortDown { port: 1 })));
    let why = replies.iter().filter(|reply| matches!(reply, Reply::Fault(1, PortFault::Down(Wire::ENODEV))));
    assert_eq!((reported, why.count()), (true, 1), "that it is down, and once why: {replies:?}");
    let snapshot = lab.snapshot();
    assert!(!snapshot.ports[1].up && snapshot.ports[0].up);
    assert_eq!(snapshot.ports[1].drops[DropReason::PortDown as usize].frames, 3);
    conserved(&snapshot);
    lab.wires[0].take_sent();
    lab.wires[2].inject(frame(mac(0), mac(2), 0));
    lab.turns(2);
    assert_eq!(lab.seen(0), [Err(64)]);
    // Its address is removed from the FDB: a frame to it is flooded to the remaining ports.
    lab.wires[0].inject(frame(mac(1), mac(0), 0));
    lab.turns(2);
    assert_eq!(lab.seen(2), [Err(64)]);
}

/// Another thread closes and opens the port. Until its rings are closed, their frames stay with it
/// and it is not opened. Then it carries frames again, with another address, and XOFF is sent to
/// the present peer where it applies.
#[test]
fn a_port_that_is_opened_again_starts_again() {
    let mut lab = Lab::new();
    lab.wires[1].close_externally();
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
    assert!(lab.wires[1].is_detached() && !lab.snapshot().ports[1].up);
    let up = |lab: &mut Lab| {
        let command = LoopCommand::PortUp { port: 1, mac: mac(201), complete_checksums: true };
        lab.handle.send(command).unwrap();
        lab.turns(1);
        let replies = std::iter::from_fn(|| lab.handle.receive()).collect::<Vec<_>>();
        let reported =
            replies.iter().any(|reply| matches!(reply, Reply::Event(_, Event::PortUp { port: 1 })));
        let answer = replies.iter().find_map(|reply| match reply {
            Reply::PortUp(1, is_up) => Some(*is_up),
            _ => None,
        });
        (answer.expect("an answer"), reported)
    };
    lab.wires[1].open_again();
    assert_eq!(up(&mut lab), (false, false), "its rings are not closed yet");
    assert_eq!(lab.snapshot().ports[1].drops[DropReason::PortDown as usize].frames, 0, "the kernel has them");
    lab.wires[1].inject(frame(mac(0), mac(1), 0)); // never received

    lab.handle.send(LoopCommand::PortClosed(1)).unwrap();
    lab.wires[1].block(false);
    lab.turns(1);
    let snapshot = lab.snapshot();
    assert_eq!(snapshot.ports[1].drops[DropReason::PortDown as usize].frames, 3);
    assert_eq!(snapshot.ports[1].kernel.rx_closed_frames, 1);

    assert_eq!(up(&mut lab), (true, true));
    lab.turns(2);
    let sent = lab.wires[1].take_sent();
    let (last, before) = sent.split_last().expect("XOFF was sent");
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

/// Linux sends UDP over a veth with a partial checksum: the field holds only the pseudo-header sum.
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

/// Frames arrive faster than the loop runs, for a port without congestion. The sender is paused
/// anyway, until its RX backlog is short.
#[test]
fn what_waits_in_an_rx_ring_pauses_the_peer() {
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

/// Frames that the kernel dropped for lack of a posted chunk are an event at once.
#[test]
fn frames_that_the_kernel_dropped_are_an_event() {
    let mut lab = Lab::new();
    lab.wires[1].drop_for_lack_of_chunks(7);
    lab.turns(1);
    assert!(lab.events().contains(&Event::KernelDropped { port: 1, frames: 7 }));
    // Drops within the following second are reported at its end, though nothing more is dropped
    // then.
    lab.wires[1].drop_for_lack_of_chunks(5);
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

/// Iterations are counted by the time since the previous one, as long as the loop does not sleep.
#[test]
fn turns_are_counted_by_the_time_they_took() {
    let mut lab = Lab::new();
    let before = lab.snapshot();
    let taken = lab.now;
    lab.core.iterate(taken + 700);
    lab.core.iterate(taken + 2_700);
    lab.core.iterate(taken + 2_264_002_700);
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

/// The peer of port 1 has no room for queue 3, as a guest that hangs. Its frames stay in the
/// switch, which is an event after 5 s, and counted; other queues go on.
#[test]
fn a_peer_without_room_is_no_silent_pause() {
    let mut lab = Lab::new();
    lab.wires[1].fill_queues(Set8::of(3));
    (0..5).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    for _ in 0..52 {
        lab.wires[0].inject(frame(mac(1), mac(0), 5));
        lab.now = lab.now + 100_000_000;
        lab.core.iterate(lab.now);
    }
    lab.turns(1);
    assert_eq!(lab.wires[1].take_sent().len(), 52, "priority 5 is unharmed");
    let events = lab.events();
    let stalled = Event::QueueStalled { port: 1, queue: 3 };
    assert_eq!(events.iter().filter(|event| **event == stalled).count(), 1, "{events:?}");
    let queue = lab.snapshot().ports[1].queues[3];
    assert_eq!((queue.no_room, queue.no_room_stalls, queue.waiting_frames), (true, 1, 5));
    lab.wires[1].fill_queues(Set8::EMPTY);
    lab.now = lab.now + 100_000_000;
    lab.turns(2);
    assert_eq!(lab.wires[1].take_sent().len(), 5, "nothing is lost");
    lab.now = lab.now + 100_000_000;
    lab.turns(1);
    assert!(lab.events().contains(&Event::QueueResumed { port: 1, queue: 3 }));
}

/// A guard paused the peer of port 0 while the loop stalled. XON follows in the next iteration, and
/// the guard's frames are counted.
#[test]
fn guard_xoff_is_released() {
    let mut lab = Lab::new();
    lab.heartbeat.record_sent(0, Set8::of(3), lab.now);
    lab.heartbeat.record_sent(0, Set8::of(3), lab.now);
    lab.turns(2);
    assert_eq!(lab.seen(0), [Ok(xoff_3(0))]);
    let sent = lab.snapshot().ports[0].pfc_sent;
    assert_eq!((sent.frames, sent.xoff_frames[3], sent.xon_frames[3]), (3, 2, 1));
    assert_eq!(lab.heartbeat.state(), LoopState::Awake(lab.now));
}

thread_local! {
    static WIRE: RefCell<Option<Wire>> = const { RefCell::new(None) };
    /// Calls of the guard's threads, by number, and the frames that were on the wire.
    static CALLS: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
}

/// A thread of the guard, by its number, that looks at the wire when it is woken.
struct Observer(usize);

impl Wake for Observer {
    fn wake(self: Arc<Self>) {
        let sent = WIRE.with_borrow(|wire| wire.as_ref().map(Wire::sent_frames));
        CALLS.with_borrow_mut(|calls| calls.push((self.0, sent.expect("a wire"))));
    }
}

/// The first thread of the guard, on a core of its own, is woken before each PFC frame leaves,
/// XOFF, its refresh or XON, the other one after that, and neither for data.
#[test]
fn the_guard_is_woken_before_pfc_leaves() {
    let mut lab = Lab::new();
    WIRE.set(Some(lab.wires[0].clone()));
    let threads = [0, 1].map(|thread| Waker::from(Arc::new(Observer(thread))));
    assert!(lab.heartbeat.set_guards(threads.into(), 1));
    (0..3).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(2);
    assert_eq!(lab.seen(1).len(), 3);
    assert_eq!(lab.heartbeat.pause_refresh_ns(9, 7, lab.now), 9, "no PFC frame yet");
    lab.wires[1].block(true);
    (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(2);
    assert_eq!(lab.heartbeat.pause_refresh_ns(9, 7, lab.now), 7);
    lab.now = lab.now + REFRESH_NS;
    lab.turns(1);
    lab.wires[1].block(false);
    lab.turns(4);
    assert_eq!(lab.seen(0), [65_535, 65_535, 0].map(|quanta| Ok(xoff_3(quanta))));
    WIRE.set(None);
    assert_eq!(CALLS.take(), [(0, 0), (1, 1), (0, 1), (1, 2), (0, 2), (1, 3)]);
}

/// A guard uses the settings that it has. If others are in force when the loop takes its report,
/// the frames have been sent anyway, and the peer is paused.
#[test]
fn guard_xoff_of_earlier_settings_is_released_too() {
    for (name, change) in [
        ("PFC is off", (|port| port.pfc.tx = false) as fn(&mut PortSettings)),
        ("no priority is no-drop", |port| port.pfc.no_drop = 0),
        ("another priority is", |port| port.pfc.no_drop = 1 << 5),
        ("the link as a whole is paused", |port| {
            port.pfc.no_drop = 0;
            port.flow_control = FlowControl::Both;
        }),
    ] {
        let mut lab = Lab::new();
        lab.turns(2);
        let mut others = settings();
        change(&mut others.ports[0]);
        lab.apply(others);
        lab.heartbeat.record_sent(0, Set8::of(3), lab.now);
        lab.turns(2);
        assert_eq!(lab.seen(0), [Ok(xoff_3(0))], "{name}");
        let port = &lab.snapshot().ports[0];
        let sent = port.pfc_sent;
        assert_eq!((sent.frames, sent.xoff_frames[3], sent.xon_frames[3]), (2, 1, 1), "{name}");
        assert_eq!(port.pfc_guard_frames, 1, "{name}");
    }
}

/// The peer of port 0 takes 65535 quanta as 335 µs (100 Gbit/s) where the switch takes them as 3.4
/// ms. Once the loop has observed that, it refreshes XOFF earlier on that port, and on no other.
#[test]
fn peer_timing_is_learned_per_port() {
    let mut lab = Lab::new();
    lab.wires[1].block(true);
    for port in [0, 2] {
        (0..5).for_each(|_| lab.wires[port].inject(frame(mac(1), mac(port), 3)));
    }
    let mut sent_at = [Vec::new(), Vec::new(), Vec::new()];
    let mut next_at = lab.now;
    for _ in 0..20_000 {
        lab.turns(1);
        for port in [0, 2] {
            let sent = lab.seen(port).len();
            sent_at[port].extend(std::iter::repeat_n(lab.now, sent));
        }
        let is_paused = sent_at[0].last().is_some_and(|&sent| lab.now.since(sent) < 335_000);
        if !is_paused && lab.now >= next_at && !sent_at[0].is_empty() {
            lab.wires[0].inject(frame(mac(1), mac(0), 3));
            next_at = lab.now + 80_000;
        }
    }
    let intervals = |port: usize| {
        let pairs = sent_at[port].windows(2).map(|pair| pair[1].since(pair[0]));
        pairs.collect::<Vec<u64>>()
    };
    let (fast, slow) = (intervals(0), intervals(2));
    assert!(fast[fast.len() - 20..].iter().all(|ns| (150_000..170_000).contains(ns)), "{fast:?}");
    assert!(slow.iter().all(|ns| ns.abs_diff(REFRESH_NS) <= 1_000), "{slow:?}");
}

/// Returns whether the next iteration moves anything.
fn moves(lab: &mut Lab) -> bool {
    lab.now = lab.now + 1000;
    lab.core.iterate(lab.now)
}

/// A loop may sleep after an iteration that moved nothing. What moves must not be hidden by
/// something else that moves in the same iteration.
#[test]
fn an_iteration_that_moves_anything_returns_true() {
    type Before = fn(&mut Lab);
    let cases: [(&str, Before); 9] = [
        ("a frame that is filtered", |lab| lab.wires[0].inject(frame(mac(0), mac(0), 0))),
        ("such frames on two ports", |lab| {
            (0..2).for_each(|port| lab.wires[port].inject(frame(mac(port), mac(port), 0)));
        }),
        ("a frame that is forwarded", |lab| lab.wires[0].inject(frame(mac(1), mac(0), 0))),
        ("a frame that leaves later", |lab| {
            lab.wires[1].set_transmit_room(1); // reserved for PFC
            lab.wires[0].inject(frame(mac(1), mac(0), 0));
            lab.turns(1);
            lab.wires[1].set_transmit_room(2048);
        }),
        ("a completion", |lab| {
            lab.wires[0].inject(frame(mac(1), mac(0), 0));
            lab.turns(2);
        }),
        ("completions on two ports", |lab| {
            lab.wires[0].inject(frame(mac(77), mac(0), 0));
            lab.turns(2);
        }),
        ("a completion and a frame on one port", |lab| {
            lab.wires[0].inject(frame(mac(1), mac(0), 0));
            lab.turns(2);
            lab.wires[1].inject(frame(mac(1), mac(1), 0));
        }),
        ("a frame and the XOFF that it causes", |lab| {
            lab.hold(1, true);
            (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
        }),
        ("a refresh of XOFF", |lab| {
            lab.hold(1, true);
            (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
            lab.turns(3);
            assert!(!moves(lab));
            lab.now = lab.now + REFRESH_NS;
        }),
    ];
    for (name, before) in cases {
        let mut lab = Lab::new();
        assert!(!moves(&mut lab), "nothing has happened");
        before(&mut lab);
        assert!(moves(&mut lab), "{name}");
    }
}

/// A sleeper that reads the heartbeat at the first sleep, and ends the loop after it.
struct HeartbeatReader {
    heartbeat: Arc<Heartbeat>,
    first: Option<LoopState>,
    has_slept: Arc<AtomicBool>,
}

impl Sleeper for HeartbeatReader {
    fn watch<'a, P: Port + 'a>(&mut self, _ports: impl IntoIterator<Item = &'a P>) {}

    fn wait(&mut self, _timeout_ns: Nanos) -> io::Result<bool> {
        self.first.get_or_insert(self.heartbeat.state());
        self.has_slept.store(true, Relaxed);
        Ok(false)
    }
}

/// A loop that goes to sleep with an XOFF in force says when that is to be refreshed, so that the
/// guard can do it for a loop that oversleeps.
#[test]
fn a_sleeping_loop_leaves_its_next_refresh_to_the_guard() {
    let refresh_at = |with_xoff: bool| {
        let mut lab = Lab::new();
        lab.hold(1, true);
        if with_xoff {
            (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
        }
        lab.turns(1);
        while with_xoff && lab.seen(0).is_empty() {
            lab.turns(1);
        }
        let xoff_at = lab.now;
        let has_slept = Arc::new(AtomicBool::new(false));
        let mut sleeper = HeartbeatReader {
            heartbeat: Arc::clone(&lab.heartbeat),
            first: None,
            has_slept: Arc::clone(&has_slept),
        };
        let (ticks, handle) = (Cell::new(0), RefCell::new(&mut lab.handle));
        let clock = || {
            ticks.set(ticks.get() + 1);
            if has_slept.swap(false, Relaxed) {
                handle.borrow_mut().send(LoopCommand::Stop(Box::default())).expect("room for a command");
            }
            Instant(xoff_at.0 + ticks.get() * 1000)
        };
        lab.core.run(clock, &mut sleeper).expect("it can sleep");
        match sleeper.first {
            Some(LoopState::Asleep { refresh_at, .. }) => (refresh_at, xoff_at),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refresh_at(false).0, Instant::NEVER);
    // The XOFF was sent in the iteration before the one that saw it.
    let (refresh_at, seen_at) = refresh_at(true);
    assert_eq!(refresh_at.since(seen_at), REFRESH_NS - 1000);
}

/// A completion raises no descriptor, so nothing would wake the loop for it.
#[test]
fn a_loop_does_not_sleep_while_the_kernel_has_frames_of_it() {
    let sleeps = |has_frames: bool| {
        let mut lab = Lab::new();
        lab.wires[1].hold_completions(has_frames);
        lab.wires[0].inject(frame(mac(1), mac(0), 0));
        lab.turns(3);
        let mut sleeper =
            HeartbeatReader { heartbeat: Arc::clone(&lab.heartbeat), first: None, has_slept: Arc::default() };
        let (began, ticks, handle) = (lab.now, Cell::new(0), RefCell::new(&mut lab.handle));
        let clock = || {
            ticks.set(ticks.get() + 1);
            if ticks.get() == 10 {
                handle.borrow_mut().send(LoopCommand::Stop(Box::default())).expect("room for a command");
            }
            began + ticks.get() * 10_000_000
        };
        lab.core.run(clock, &mut sleeper).expect("it can sleep");
        sleeper.first.is_some()
    };
    assert_eq!([false, true].map(sleeps), [true, false]);
}
