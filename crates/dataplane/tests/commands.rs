//! Commands to the loop over ports in memory: hold a port, stop, apply other settings, reset
//! watermarks.

mod lab;
#[path = "lab/loopback_port.rs"]
mod loopback_port;

use dataplane::{LoopCommand, PortFault, Reply};
use lab::io_loops::Loops;
use lab::{FRAMES, Lab, PORTS, conserved, frame, mac, settings, xoff_3};
use loopback_port::Wire;
use switch::monitor::counters::DropReason;
use switch::settings::{PortSettings, Threshold};
use switch::{Event, Snapshot};
use wire::mac::MacAddr;

/// A stop while a port is paused and its peer is in XOFF: frames that can leave do, the rest is
/// counted, no XON is sent for data that would not be received, and every frame is freed.
#[test]
fn a_stop_drains_sends_no_xon_and_reports_totals() {
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

/// Only PFC leaves a held port: its data frames stay queued, and their senders are paused.
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

/// A held port still sends XOFF to its peer, and XON later.
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

/// An operator takes the input port of paused frames down: its peer is sent XON, and XOFF again
/// when the port is up; and then their output port: its frames are counted, and the sender goes on.
#[test]
fn a_port_that_is_shut_down_releases_its_peer() {
    let mut lab = Lab::new();
    lab.hold(1, true);
    (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(3);
    assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))]);
    lab.handle.send(LoopCommand::ShutDown(0)).unwrap();
    lab.turns(2); // sent in one, completed in the next
    assert_eq!(lab.seen(0), [Ok(xoff_3(0))]);
    let snapshot = lab.snapshot();
    assert!(!snapshot.ports[0].up && snapshot.ports[0].groups[3].xoff);
    assert_eq!(snapshot.ports[1].queues[3].waiting_frames, 10, "what came before waits");

    lab.wires[0].open_again();
    lab.send_command(LoopCommand::PortUp { port: 0, mac: mac(0), complete_checksums: false });
    lab.turns(2);
    assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))], "it still holds");
    lab.handle.send(LoopCommand::ShutDown(1)).unwrap();
    lab.turns(3);
    assert_eq!(lab.seen(0), [Ok(xoff_3(0))]);
    let snapshot = lab.snapshot();
    assert_eq!(snapshot.ports[1].drops[DropReason::PortDown as usize].frames, 10);
    assert_eq!(snapshot.ports[1].priorities[3].no_drop_lost_frames, 10);
    conserved(&snapshot);
}

/// The same where an I/O loop serves the port, and where a reload removes it: the XON reaches the
/// wire before the rings are detached.
#[test]
fn a_port_of_an_io_loop_that_is_shut_down_or_removed_releases_its_peer() {
    for is_removed in [false, true] {
        let settings = settings();
        let macs: Vec<_> = (100..100 + PORTS).map(mac).collect();
        let mut loops = Loops::new(&settings, &macs, 8192, &[1, 0, 0]);
        (0..PORTS).for_each(|n| loops.wires[n].inject(frame(MacAddr::BROADCAST, mac(n), 0)));
        loops.rounds(5);
        loops.send_command(LoopCommand::Hold { port: 1, held: true });
        (0..10).for_each(|_| loops.wires[0].inject(frame(mac(1), mac(0), 3)));
        loops.rounds(5);
        assert_eq!(loops.pfc(0), [xoff_3(65_535)]);
        if is_removed {
            let mut without = settings.clone();
            without.ports[0] = PortSettings::vacant();
            loops.apply(&without);
        } else {
            loops.handle.send(LoopCommand::ShutDown(0)).unwrap();
        }
        loops.rounds(5);
        assert!(loops.wires[0].is_detached());
        assert_eq!(loops.pfc(0), [xoff_3(0)], "removed: {is_removed}");
    }
}

/// The TX ring takes nothing at first: the port stays open for its XON. Where that never leaves,
/// the port is closed after a millisecond, and a fault says that the peer was not released.
#[test]
fn a_shut_down_port_waits_for_its_xon_and_not_forever() {
    for leaves in [true, false] {
        let mut lab = Lab::new();
        lab.hold(1, true);
        (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
        lab.turns(3);
        assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))]);
        lab.wires[0].limit_kicks(0); // as after EAGAIN
        lab.handle.send(LoopCommand::ShutDown(0)).unwrap();
        lab.turns(10);
        let is_up = |lab: &mut Lab| lab.snapshot().ports[0].up;
        assert!(is_up(&mut lab), "its XON has not left");
        if leaves {
            lab.wires[0].limit_kicks(usize::MAX);
            lab.turns(3);
            assert_eq!(lab.seen(0), [Ok(xoff_3(0))]);
        }
        lab.now = lab.now + if leaves { 0 } else { 1_000_000 };
        lab.turns(2);
        let mut replies = std::iter::from_fn(|| lab.handle.receive());
        let is_reported = replies.any(|reply| matches!(reply, Reply::Fault(0, PortFault::PeerNotReleased)));
        assert_eq!(is_reported, !leaves);
        assert!(!is_up(&mut lab));
    }
}

/// Frames that still arrive while the XON waits to leave put another priority into XOFF. Its peer
/// is released from that as well.
#[test]
fn a_priority_that_reaches_xoff_during_the_shutdown_is_released_too() {
    let mut lab = Lab::new();
    let mut settings = settings();
    settings.ports[0].pfc.no_drop |= 1 << 4;
    settings.ports[0].groups[4] = settings.ports[0].groups[3];
    lab.apply(settings);
    lab.hold(1, true);
    (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(3);
    assert_eq!(lab.seen(0), [Ok(xoff_3(65_535))]);
    lab.wires[0].limit_kicks(0);
    lab.handle.send(LoopCommand::ShutDown(0)).unwrap();
    lab.turns(2);
    (0..10).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 4)));
    lab.turns(2);
    assert!(lab.snapshot().ports[0].groups[4].xoff, "while the XON waits");
    lab.wires[0].limit_kicks(usize::MAX);
    lab.turns(5);
    let last = lab.seen(0).last().cloned().expect("PFC").expect("a whole frame");
    assert_eq!(last.quanta, [0; 8], "{last:?}");
    assert!(!lab.snapshot().ports[0].up);
    let mut replies = std::iter::from_fn(|| lab.handle.receive());
    assert!(!replies.any(|reply| matches!(reply, Reply::Fault(0, PortFault::PeerNotReleased))));
}

/// What waits in the RX ring of a port is received before the port is shut down. What the released
/// peer sends afterwards is in closed rings: an event names it, even right after an earlier one.
#[test]
fn frames_in_the_rings_of_a_shut_down_port_are_received_or_reported() {
    let mut lab = Lab::new();
    lab.wires[0].close_externally();
    (0..200).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 0)));
    lab.handle.send(LoopCommand::ShutDown(0)).unwrap();
    lab.turns(6);
    assert!(lab.wires[0].is_detached());
    let snapshot = lab.snapshot();
    assert_eq!((snapshot.ports[0].received.frames, snapshot.ports[0].kernel.rx_closed_frames), (201, 0));
    lab.events();
    (0..7).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.handle.send(LoopCommand::PortClosed(0)).unwrap();
    lab.turns(2);
    assert_eq!(lab.events(), [Event::KernelDropped { port: 0, frames: 7 }]);
}

/// The same of a port that a reload removes: its rings are closed once it has no settings.
#[test]
fn frames_in_the_rings_of_a_removed_port_are_reported() {
    let mut lab = Lab::new();
    lab.wires[0].close_externally();
    let mut without = settings();
    without.ports[0] = PortSettings::vacant();
    lab.apply(without);
    lab.turns(6);
    assert!(lab.wires[0].is_detached());
    (0..7).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.handle.send(LoopCommand::PortClosed(0)).unwrap();
    lab.turns(2);
    let mut replies = std::iter::from_fn(|| lab.handle.receive());
    assert!(replies.any(|reply| matches!(reply, Reply::Fault(0, PortFault::LeftInRings(7)))));
}

/// Frames that the kernel dropped at a port that was removed stay in the totals, once: also when
/// another port takes its slot, whose counters begin at zero.
#[test]
fn frames_that_the_kernel_dropped_at_a_removed_port_stay_counted() {
    let mut lab = Lab::new();
    let kernel_drops = |lab: &mut Lab| {
        let now = lab.snapshot();
        (now.removed_ports.kernel_dropped_frames, now.ports[0].kernel.rx_lost_frames())
    };
    lab.wires[0].drop_for_lack_of_chunks(7);
    assert_eq!(kernel_drops(&mut lab), (0, 7));
    for removed in [7, 7 + 5] {
        let mut without = settings();
        without.ports[0] = PortSettings::vacant();
        lab.apply(without);
        assert_eq!(kernel_drops(&mut lab).0, removed, "of the port that was removed");
        lab.apply(settings());
        lab.wires[0].drop_for_lack_of_chunks(5);
        assert_eq!(kernel_drops(&mut lab), (removed, 5), "and of the next one");
    }
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

/// XOFF at 4 cells; 10 frames of a cell each are held: 4 shared, 6 in headroom. Then XOFF at 32,
/// and at 2.
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

    // Headroom in use drains first.
    lab.apply(with_xoff(32));
    assert_eq!(group(&mut lab), (32, 4, 6));
    lab.wires[1].set_transmit_room(8); // one entry is reserved for PFC
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

/// PFC is turned off while the peer is in XOFF: the peer receives XON, and held frames leave
/// anyway.
#[test]
fn pfc_turned_off_sends_xon_and_turned_on_pauses_again() {
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

/// A read resets one watermark right after the snapshot, a clear resets another, and neither resets
/// the third.
#[test]
fn watermarks_start_again_when_read_and_when_cleared() {
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
    assert_eq!(peaks(&lab.parse(false)), (0, 8, 8, 8));
    assert_eq!(peaks(&lab.parse(true)), (0, 8, 8, 8), "what is read is what was before");
    assert_eq!(peaks(&lab.parse(false)), (0, 0, 8, 8));
    burst(&mut lab, 5);
    assert!(matches!(lab.send_command(LoopCommand::ClearWatermarks), Reply::Done));
    assert_eq!(peaks(&lab.parse(false)), (0, 5, 0, 8));
    burst(&mut lab, 2);
    assert_eq!(peaks(&lab.parse(true)), (0, 5, 2, 8));
    assert_eq!(peaks(&lab.parse(true)), (0, 0, 2, 8));
}

/// Events that are not received leave entries free: 64 for replies to commands, 256 for losses of
/// no-drop frames.
#[test]
fn events_leave_room_for_replies() {
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
    assert_eq!(snapshot.events_lost, 1200 - (1024 - 64 - 256), "all but those for which there was room");
}

/// While the loop ends, pauses are honored and data is dropped and counted.
#[test]
fn a_loop_that_ends_still_executes_commands() {
    let mut lab = Lab::new();
    lab.hold(1, true);
    (0..3).for_each(|_| lab.wires[0].inject(frame(mac(1), mac(0), 3)));
    lab.turns(1);
    // Both arrive after the end has begun: a pause for queued frames, and more data.
    let (to_0, to_1) = (lab.wires[0].clone(), lab.wires[1].clone());
    let snapshot = lab.stop_while(|tick| {
        if tick == 3 {
            let mut bytes = [0; 60];
            xoff_3(10).encode(mac(1), &mut bytes);
            to_1.inject(bytes);
            (0..5).for_each(|_| to_0.inject(frame(mac(1), mac(0), 3)));
        }
    });
    assert_eq!(snapshot.ports[1].pfc_received.frames, 1, "the pause was received");
    assert_eq!(snapshot.ports[1].queues[3].pauses, 1);
    assert_eq!(snapshot.ports[0].drops[DropReason::PortDown as usize].frames, 5);
    conserved(&snapshot);
}

/// The end waits while something moves or is held, and not for the second that it may take. One
/// iteration executes the command, one finds the queues empty, and one finds them flushed. XOFF
/// for no-drop priorities takes three more: it is sent, it leaves, and it completes.
#[test]
fn a_loop_without_frames_ends_at_once() {
    for (settings, iterations) in [(settings().without_pfc(), 3), (settings(), 6)] {
        let mut lab = Lab::new();
        lab.apply(settings);
        let before = lab.snapshot().loop_turns;
        assert_eq!(lab.stop().loop_turns - before, iterations);
    }
}

/// Commands that wait for an I/O loop are tried again in each iteration, so their number is
/// limited.
#[test]
fn no_command_is_taken_from_the_mailbox_while_256_wait() {
    let macs: Vec<_> = (100..100 + PORTS).map(mac).collect();
    let mut loops = Loops::new(&settings(), &macs, 8192, &[1, 0, 0]);
    loops.rounds(5);
    let send = |loops: &mut Loops, command| {
        loops.handle.send(command).expect("room for a command");
        loops.turn(0); // the I/O loop stalls
    };
    send(&mut loops, LoopCommand::PortDown(0));
    (0..255).for_each(|_| send(&mut loops, LoopCommand::PortClosed(0)));
    send(&mut loops, LoopCommand::ClearWatermarks);
    assert!(matches!(loops.next_reply(), Some(Reply::Done)), "255 wait");
    send(&mut loops, LoopCommand::PortClosed(0));
    send(&mut loops, LoopCommand::ClearWatermarks);
    assert!(loops.next_reply().is_none(), "256 wait");
    loops.rounds(2);
    assert!(matches!(loops.next_reply(), Some(Reply::Done)), "none waits any more");
}

/// Only the rings of a port that was detached are closed. The switch has three ports, so the second
/// number is none of a port.
#[test]
fn a_port_that_is_not_detached_stays_open_when_its_rings_are_reported_closed() {
    let mut lab = Lab::new();
    lab.wires[1].close_externally();
    for port in [1, PORTS] {
        lab.handle.send(LoopCommand::PortClosed(port)).unwrap();
    }
    lab.turns(1);
    lab.wires[0].inject(frame(mac(1), mac(0), 0));
    lab.turns(2);
    assert_eq!(lab.seen(1), [Err(64)]);
    let snapshot = lab.snapshot();
    assert!(snapshot.ports[1].up);
    conserved(&snapshot);
}

/// Opened rings are ready each time, so only the state of the port decides.
#[test]
fn only_a_closed_port_that_has_settings_is_opened() {
    let mut lab = Lab::new();
    let is_opened = |lab: &mut Lab| {
        lab.wires[1].open_again();
        match lab.send_command(LoopCommand::PortUp { port: 1, mac: mac(201), complete_checksums: false }) {
            Reply::PortUp(1, is_up) => is_up,
            other => panic!("{other:?}"),
        }
    };
    assert!(!is_opened(&mut lab), "it is open");
    let mut without = settings();
    without.ports[1] = PortSettings::vacant();
    lab.apply(without);
    lab.handle.send(LoopCommand::PortClosed(1)).unwrap();
    lab.turns(1);
    assert!(!is_opened(&mut lab), "it has been removed");
    lab.apply(settings());
    assert!(is_opened(&mut lab));
}
