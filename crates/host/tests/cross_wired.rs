//! Two hosts on ports in memory, cross-wired, in virtual time: the receiver's counters match the
//! sender's, to the frame.

use dataplane::{LoopbackPort, Wire};
use host::args::FlowArgs;
use host::host::{Host, HostSettings};
use host::in_flight::IN_FLIGHT_BYTES;
use host::report::{FlowReceived, HostReport};
use switch::{HeapMemory, Instant, Nanos};
use wire::ethernet::Header;
use wire::pause::{FRAME_BYTES, Pfc};
use wire::{MacAddr, ip};

const FRAMES: usize = 2048;
const ALICE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const BOB: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const MICROSECOND: Nanos = 1_000;
const MILLISECOND: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;

/// A host and the far end of its wire.
struct WiredHost {
    host: Host<LoopbackPort>,
    wire: Wire,
}

fn settings(mac: MacAddr, flows: Vec<FlowArgs>) -> HostSettings {
    HostSettings {
        interface: "memory".into(),
        mac,
        flows,
        speed_bps: None,
        honored: 1 << 3,
        dcbx: None,
        honors_pause: false,
        stormed: 0,
        reacts: false,
        reaction_delay_ns: 0,
        duration_ns: Some(SECOND),
        linger_ns: 10 * MILLISECOND,
        run: 1,
    }
}

fn flow(to: MacAddr, priority: u8, size_bytes: u16, rate_bps: u64) -> FlowArgs {
    FlowArgs { to, priority, size_bytes, rate_bps, count: None, start_ns: 0, vid: Some(0), ecn: None }
}

fn station(settings: HostSettings) -> WiredHost {
    let (port, wire) = LoopbackPort::new();
    let memory = HeapMemory::new(FRAMES, 2048);
    WiredHost { host: Host::new(settings, port, memory, FRAMES, Instant(0)), wire }
}

impl WiredHost {
    fn turn(&mut self, now: Instant) -> Vec<Vec<u8>> {
        self.host.receive(|| now);
        self.host.send(now);
        self.wire.take_sent()
    }

    /// Ends the host. Every frame of its memory must be free again.
    fn finish(mut self, now: Instant) -> HostReport {
        self.host.close();
        assert_eq!(self.host.free_frames(), FRAMES, "frames of {:?}", self.host);
        self.host.report(now)
    }

    fn pause(&self, enable: u8, priority: usize, quanta: u16) {
        let mut pfc = Pfc { enable, quanta: [0; 8] };
        pfc.quanta[priority] = quanta;
        let mut frame = [0; FRAME_BYTES];
        pfc.encode(BOB, &mut frame);
        self.wire.inject(frame);
    }
}

/// Runs iterations of both until `until` or both are done. Each frame of one host reaches the other
/// in its next iteration.
fn run(alice: &mut WiredHost, bob: &mut WiredHost, from: Instant, until: Instant) -> Instant {
    let mut now = from;
    while now < until && !(alice.host.is_done() && bob.host.is_done()) {
        for frame in alice.turn(now) {
            bob.wire.inject(frame);
        }
        for frame in bob.turn(now) {
            alice.wire.inject(frame);
        }
        // Like the real loop: continues at once while frames are in flight, else when something is
        // due.
        let due = alice.host.next_turn(now).min(bob.host.next_turn(now)).min(until);
        now = due.min(now + 100 * MICROSECOND).max(now + MICROSECOND);
    }
    now
}

fn start(alice: &mut WiredHost, bob: &mut WiredHost) -> Instant {
    let now = run(alice, bob, Instant(0), Instant(250 * MILLISECOND));
    assert!(alice.host.is_ready() && bob.host.is_ready());
    alice.host.begin(now);
    bob.host.begin(now);
    now
}

/// Asserts that a flow lost, duplicated, reordered and corrupted nothing.
fn assert_complete(flow: &FlowReceived, frames: u64) {
    let counts = (
        flow.received_frames,
        flow.lost_frames,
        flow.duplicated_frames,
        flow.reordered_frames,
        flow.corrupted_frames,
    );
    assert_eq!(counts, (frames, 0, 0, 0, 0), "{flow:?}");
}

/// Both ways, several sizes, rates and tags: every offered frame arrives, at its rate.
#[test]
fn every_frame_arrives_at_its_rate() {
    let flows = vec![
        flow(BOB, 0, 64, 51_200_000),
        flow(BOB, 3, 1514, 600_000_000),
        FlowArgs { vid: Some(100), ..flow(BOB, 7, 1000, 8_000_000) },
        FlowArgs { vid: None, ..flow(BOB, 5, 333, 10_000_000) },
        FlowArgs { count: Some(17), ..flow(BOB, 1, 100, 1_000_000) },
        FlowArgs { start_ns: 900 * MILLISECOND, ..flow(BOB, 2, 1000, 8_000_000) },
    ];
    let mut alice = station(settings(ALICE, flows));
    let mut bob = station(settings(BOB, vec![flow(ALICE, 3, 1000, 80_000_000)]));
    let begun = start(&mut alice, &mut bob);
    let end = run(&mut alice, &mut bob, begun, begun + 2 * SECOND);
    assert!(end < begun + SECOND + 50 * MILLISECOND, "done at {end:?}");

    let (alice, bob) = (alice.finish(end), bob.finish(end));
    let expected = [100_000, 49_538, 1_000, 3_754, 17, 100];
    for (index, frames) in expected.into_iter().enumerate() {
        let (sent, received) = (&alice.sent[index], &bob.received[index]);
        assert_eq!((sent.offered_frames, sent.sent_frames), (frames, frames), "{sent:?}");
        assert_complete(received, frames);
        assert_eq!((received.flow, received.received_bytes), (index as u32, sent.sent_bytes));
    }
    let priorities: Vec<u8> = bob.received.iter().map(|flow| flow.priority).collect();
    assert_eq!(priorities, [0, 3, 7, 0, 1, 2], "an untagged frame has none");
    assert_complete(&alice.received[0], 10_000);
    let goodput = bob.received[1].goodput_bps;
    assert!(goodput.abs_diff(600_000_000) < 600_000, "{goodput}");
    // 0, 100 and 200 ms after the start.
    assert_eq!((alice.announcements_sent, bob.announcements_received), (3, 3));
    assert_eq!((alice.other_received, alice.kernel_lost), (0, 0));
}

/// XOFF stops priority 3 at once and nothing else; a refresh extends it; XON ends it; then the
/// backlog leaves.
#[test]
fn a_pause_stops_one_priority() {
    let flows = vec![flow(BOB, 3, 1000, 8_000_000), flow(BOB, 5, 1000, 8_000_000)]; // a frame a millisecond each
    let mut alice = station(HostSettings { speed_bps: Some(1_000_000_000), ..settings(ALICE, flows) });
    let mut bob = station(HostSettings { duration_ns: None, ..settings(BOB, vec![]) });
    let begun = start(&mut alice, &mut bob);
    let at = |ms: u64| begun + ms * MILLISECOND + MILLISECOND / 2;
    let counts = |bob: &WiredHost| {
        let report = bob.host.report(Instant(0));
        (report.received[0].received_frames, report.received[1].received_frames)
    };

    run(&mut alice, &mut bob, begun, at(99));
    assert_eq!(counts(&bob), (100, 100));
    alice.pause(1 << 3, 3, u16::MAX); // 33.55 ms at 1 Gbit/s
    run(&mut alice, &mut bob, at(99), at(119));
    assert_eq!(counts(&bob), (100, 120));
    alice.pause(1 << 3, 3, u16::MAX);
    alice.pause(0, 3, 0); // enables no priority, so no effect
    alice.pause(1 << 4, 3, 0); // an XON of priority 4
    run(&mut alice, &mut bob, at(119), at(149));
    assert_eq!(counts(&bob), (100, 150), "refreshed 20 ms ago");
    alice.pause(1 << 3, 3, 0);
    run(&mut alice, &mut bob, at(149), at(150));
    assert_eq!(counts(&bob), (151, 151), "the backlog has left");
    alice.pause(1 << 3, 3, 10_000); // 5.12 ms
    run(&mut alice, &mut bob, at(150), at(159));
    assert_eq!(counts(&bob), (160, 160), "the timer has ended");

    alice.host.stop(at(159));
    bob.host.stop(at(159));
    let end = run(&mut alice, &mut bob, at(159), at(1000));
    let (alice, bob) = (alice.finish(end), bob.finish(end));
    assert_eq!((alice.pfc_received, alice.pauses[3].xoff, alice.pauses[3].xon), (6, 3, 1));
    assert_eq!((alice.pauses[4].xoff, alice.pauses[4].xon, alice.pauses[4].paused_ns), (0, 1, 0));
    assert_eq!((alice.pauses[3].sent_while_paused, alice.pauses[3].late_frames_peak), (0, 0));
    assert_eq!(alice.pauses[3].paused_ns, 50 * MILLISECOND + 5_120_000);
    assert_complete(&bob.received[0], 160);
    assert_complete(&bob.received[1], 160);
}

/// A host that was not scheduled finds a ring full of data, and a pause behind it: it honors the
/// pause before it sends anything.
#[test]
fn a_pause_behind_a_full_ring_is_received_first() {
    let mut alice = station(settings(ALICE, vec![flow(BOB, 3, 1000, 8_000_000)]));
    let mut bob = station(settings(BOB, vec![]));
    let begun = start(&mut alice, &mut bob);
    for _ in 0..8000 {
        alice.wire.inject([0; 64]);
    }
    alice.pause(1 << 3, 3, u16::MAX);
    let sent = alice.turn(begun + 5 * MILLISECOND);
    assert!(sent.is_empty(), "{} frames although there is a pause", sent.len());
    let report = alice.host.report(begun);
    assert_eq!((report.other_received, report.pauses[3].xoff), (8000, 1));
}

/// Pauses of a priority that the host does not honor are counted, without effect.
#[test]
fn a_pause_that_is_not_honored_is_counted() {
    let mut alice =
        station(HostSettings { honored: 0, ..settings(ALICE, vec![flow(BOB, 3, 1000, 8_000_000)]) });
    let mut bob = station(settings(BOB, vec![]));
    let begun = start(&mut alice, &mut bob);
    alice.pause(1 << 3, 3, u16::MAX);
    let end = run(&mut alice, &mut bob, begun, begun + 2 * SECOND);
    let (alice, bob) = (alice.finish(end), bob.finish(end));
    assert_eq!((alice.pauses[3].xoff, alice.pauses[3].paused_ns), (1, 0));
    assert_complete(&bob.received[0], 1000);
}

/// The kernel delays frames: it holds no more than the bound, and a pause counts these as late.
#[test]
fn frames_with_the_kernel_are_bounded() {
    let mut alice = station(settings(ALICE, vec![flow(BOB, 3, 1000, 600_000_000)]));
    let mut bob = station(settings(BOB, vec![]));
    let begun = start(&mut alice, &mut bob);
    alice.wire.hold_completions(true);
    run(&mut alice, &mut bob, begun, begun + 100 * MILLISECOND);
    let most = IN_FLIGHT_BYTES as u64 / 1000 - 1; // leaves room for a longest frame
    assert_eq!(bob.host.report(begun).received[0].received_frames, most);
    alice.pause(1 << 3, 3, 1);
    alice.turn(begun + 100 * MILLISECOND);
    alice.wire.hold_completions(false);
    let end = run(&mut alice, &mut bob, begun + 101 * MILLISECOND, begun + 2 * SECOND);
    let (alice, bob) = (alice.finish(end), bob.finish(end));
    // Of the first 100 ms, only the backlog of 1024 frames was kept; the rest of the 75 000 all
    // arrived.
    assert_eq!(alice.sent[0].offered_frames, 75_000);
    assert_eq!(alice.pauses[3].late_frames_peak, most);
    assert_complete(&bob.received[0], alice.sent[0].sent_frames);
    assert!(alice.sent[0].sent_frames < 75_000 - 5_000, "{:?}", alice.sent);
}

/// Frames that the kernel loses are counted at the sender, and missing at the receiver.
#[test]
fn frames_that_the_kernel_loses_are_counted() {
    let flows = vec![FlowArgs { count: Some(100), ..flow(BOB, 3, 1000, 80_000_000) }];
    let mut alice = station(settings(ALICE, flows));
    let mut bob = station(settings(BOB, vec![]));
    let begun = start(&mut alice, &mut bob);
    run(&mut alice, &mut bob, begun, begun + 3 * MILLISECOND);
    alice.wire.lose(2);
    let end = run(&mut alice, &mut bob, begun + 3 * MILLISECOND, begun + 2 * SECOND);
    let (alice, bob) = (alice.finish(end), bob.finish(end));
    assert_eq!((alice.kernel_lost, alice.sent[0].sent_frames), (2, 100));
    assert_eq!((bob.received[0].received_frames, bob.received[0].lost_frames), (98, 2));
}

/// Stopped while frames cannot leave: the host ends after its linger time, and they count as not
/// sent.
#[test]
fn a_host_whose_frames_cannot_leave_still_ends() {
    let mut alice = station(settings(ALICE, vec![flow(BOB, 3, 1000, 80_000_000)]));
    let mut bob = station(settings(BOB, vec![]));
    let begun = start(&mut alice, &mut bob);
    alice.wire.block(true);
    run(&mut alice, &mut bob, begun, begun + MILLISECOND);
    alice.host.stop(begun + MILLISECOND);
    bob.host.stop(begun + MILLISECOND);
    let end = run(&mut alice, &mut bob, begun + MILLISECOND, begun + SECOND);
    let linger = end.since(begun + MILLISECOND);
    assert!((10 * MILLISECOND..=10 * MILLISECOND + 100 * MICROSECOND).contains(&linger), "{linger}");
    let report = alice.finish(end);
    assert_eq!((report.sent[0].offered_frames > 0, report.sent[0].sent_frames), (true, 0));
}

/// Stopped before it began: the host reports that nothing was sent.
#[test]
fn a_host_that_never_began_ends() {
    let mut alice = station(settings(ALICE, vec![flow(BOB, 3, 1000, 80_000_000)]));
    let mut bob = station(settings(BOB, vec![]));
    let now = run(&mut alice, &mut bob, Instant(0), Instant(MILLISECOND));
    alice.host.stop(now);
    assert_eq!(alice.host.next_turn(now), now, "at once");
    alice.turn(now);
    assert!(alice.host.is_done());
    let report = alice.finish(now);
    assert_eq!((report.sent[0].offered_frames, report.sent[0].sent_frames), (0, 0));
    assert_eq!((report.announcements_sent, report.elapsed_ns), (1, MILLISECOND));
}

/// A paused sender does not wait indefinitely: at the end of its duration it lingers and ends.
#[test]
fn a_paused_host_ends_with_its_time() {
    let mut alice = station(settings(ALICE, vec![flow(BOB, 3, 1000, 8_000_000)]));
    let mut bob = station(settings(BOB, vec![]));
    let mut now = start(&mut alice, &mut bob);
    let begun = now;
    while !alice.host.is_done() && now < begun + 2 * SECOND {
        alice.pause(1 << 3, 3, u16::MAX);
        now = run(&mut alice, &mut bob, now, now + MILLISECOND);
    }
    assert!(now.since(begun + SECOND + 20 * MILLISECOND) <= MILLISECOND, "{now:?}");
    let report = alice.finish(now);
    assert_eq!((report.sent[0].offered_frames, report.sent[0].sent_frames), (1000, 0));
}

/// Every frame of one flow arrives marked, those of the other cannot be marked. The receiver sends
/// CNPs for the former, which slows down as far as possible; the latter is unaffected.
#[test]
fn a_marked_flow_slows_down_and_no_other() {
    let flows = vec![
        FlowArgs { ecn: Some(0b11), ..flow(BOB, 3, 1000, 80_000_000) },
        FlowArgs { ecn: Some(0b00), ..flow(BOB, 3, 1000, 80_000_000) },
    ];
    let mut alice = station(HostSettings { reacts: true, ..settings(ALICE, flows) });
    let mut bob = station(HostSettings { reacts: true, duration_ns: None, ..settings(BOB, vec![]) });
    let begun = start(&mut alice, &mut bob);
    let end = run(&mut alice, &mut bob, begun, begun + SECOND + 100 * MILLISECOND);
    assert!(alice.host.is_done());
    let (alice, bob) = (alice.finish(end), bob.finish(end));

    let [slow, other] = &alice.sent[..] else { panic!("{alice:?}") };
    assert_eq!((slow.reaction_lowest_bps, slow.offered_frames), (1_000_000, 10_000), "{slow:?}");
    // Halved once a millisecond at first; at 1 Mbit/s a frame takes 8 ms, in which the rate
    // recovers partly.
    assert!((100..300).contains(&slow.sent_frames), "{slow:?}");
    assert_eq!((other.sent_frames, other.cnps_received), (10_000, 0));
    assert_eq!(other.reaction_bps, 80_000_000, "it reacts to CNPs, and none came");
    assert_complete(&bob.received[0], slow.sent_frames);
    assert_complete(&bob.received[1], 10_000);
    assert_eq!(bob.received.iter().map(|f| f.received_ce_frames).collect::<Vec<_>>(), [slow.sent_frames, 0]);
    let cnps = slow.cnps_received;
    assert!(cnps > 50, "{slow:?}");
    assert_eq!((alice.cnps_received, bob.cnps_sent, bob.received[0].cnps_sent), (cnps, cnps, cnps));
}

/// CNPs are counted by a host that does not react to them, and it continues to send. They honor a
/// pause like all frames.
#[test]
fn a_host_that_does_not_react_counts_cnps() {
    let flows = vec![FlowArgs { ecn: Some(0b11), ..flow(BOB, 3, 1000, 80_000_000) }];
    let mut alice = station(settings(ALICE, flows));
    let mut bob =
        station(HostSettings { reacts: true, duration_ns: None, honored: 1 << 6, ..settings(BOB, vec![]) });
    let begun = start(&mut alice, &mut bob);
    let half = begun + SECOND / 2;
    run(&mut alice, &mut bob, begun, half);
    let sent = bob.host.report(half).cnps_sent;
    assert!((480..=500).contains(&sent), "one a millisecond: {sent}");
    bob.pause(1 << 6, 6, u16::MAX);
    let paused = run(&mut alice, &mut bob, half, half + 3 * MILLISECOND);
    assert_eq!(bob.host.report(paused).cnps_sent, sent, "3.4 ms at 10 Gbit/s");
    let end = run(&mut alice, &mut bob, paused, begun + SECOND);
    let (alice, bob) = (alice.finish(end), bob.finish(end));
    assert_eq!((alice.sent[0].sent_frames, alice.sent[0].reaction_bps), (10_000, 0));
    assert_eq!((alice.sent[0].cnps_received, alice.cnps_received), (0, bob.cnps_sent));
    assert_eq!(bob.cnps_sent, bob.received[0].cnps_sent, "those of the pause came later");
}

/// Row 308 of the table of vendor specifications: a CNP itself is ECT(1), so that no switch drops
/// it early.
#[test]
fn cnps_can_be_marked() {
    let flows = vec![FlowArgs { ecn: Some(0b11), ..flow(BOB, 3, 1000, 80_000_000) }];
    let mut alice = station(settings(ALICE, flows));
    let mut bob = station(HostSettings { reacts: true, duration_ns: None, ..settings(BOB, vec![]) });
    let mut now = start(&mut alice, &mut bob);
    let mut cnps = 0;
    for _ in 0..1000 {
        alice.turn(now).into_iter().for_each(|frame| bob.wire.inject(frame));
        for frame in bob.turn(now) {
            let header = Header::parse(&frame).expect("a whole header");
            // Bob has no flow and only sends CNPs, and announcements, which are not IP packets.
            if let Some(ecn) = ip::ecn(&frame, &header) {
                assert_eq!((header.outer.map(|tag| tag.pcp), header.dst, ecn), (Some(6), ALICE, 0b01));
                cnps += 1;
            }
        }
        now = now + 100 * MICROSECOND;
    }
    let sent = bob.host.report(now).cnps_sent;
    assert!((90..=101).contains(&cnps) && sent == cnps, "one a millisecond: {cnps} of {sent}");
}
