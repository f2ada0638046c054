use super::*;

fn pfc(reported: PauseFrame) -> Pfc {
    let PauseFrame::Pfc(pfc) = reported else { panic!("{reported:?} is no PFC") };
    pfc
}

/// A pause time of 300 quanta.
fn timing(refresh_ns: Nanos) -> PfcTiming {
    PfcTiming {
        pause_quanta: 300,
        uses_link_pause: false,
        expected: ExpectedResponse { refresh_ns, response_ns: 300_000 },
    }
}

/// (port's speed, link's speed) in Gbit/s → the refresh of 65535 quanta, in µs.
#[test]
fn refreshed_for_the_fastest_reading() {
    for (speed, link, refresh_us) in [
        (None, None, 1118), // 10G is assumed
        (Some(1), None, 11_184),
        (Some(1), Some(10), 1118), // the peer may use its link speed
        (None, Some(40), 279),
        (None, Some(100), 111),
        (Some(100), Some(10), 111),
    ] {
        let mut settings = PortSettings::new("p", speed.map(|speed: u64| speed * 1_000_000_000));
        settings.link_speed_bps = link.map(|link: u64| link * 1_000_000_000);
        assert_eq!(
            PfcTiming::from_settings(&settings).refresh_ns() / 1000,
            refresh_us,
            "{speed:?} on {link:?}"
        );
    }
}

/// XOFF that was lost is sent again soon, but not at once, and so is XON, which is repeated once in
/// any case.
#[test]
fn lost_pfc_is_retransmitted() {
    let mut sender = PfcSender::new(timing(10_000_000));
    sender.set(3, true);
    for now in [0, 50_000, 100_000] {
        assert!(sender.is_due(Instant(now)), "{now}");
        sender.send(Instant(now));
        assert!(!sender.is_due(Instant(now + 60_000)), "it may still leave");
        sender.lost();
        assert!(!sender.is_due(Instant(now + 49_999)), "{now}");
    }
    sender.send(Instant(150_000));
    sender.sent(Instant(150_000));
    assert_eq!(sender.next_deadline(), Instant(10_150_000), "once it has left, as ever");
    sender.set(3, false);
    for (now, next) in [(200_000, Instant(250_000)), (250_000, Instant::NEVER)] {
        assert!(sender.is_due(Instant(now)), "{now}");
        let xon = pfc(sender.send(Instant(now)));
        assert_eq!((xon.enable, xon.quanta[3]), (1 << 3, 0));
        sender.lost();
        assert_eq!(sender.next_deadline(), next);
    }
}

/// The peer goes on 1 ms after XOFF had left: it is repeated at once. Other priorities do not
/// matter, and neither do frames that may have waited since before.
#[test]
fn a_frame_in_spite_of_xoff_is_answered_with_xoff() {
    let mut sender = PfcSender::new(timing(10_000_000));
    let at = |ns: u64| Instant(50_000_000 + ns);
    sender.set(3, true);
    sender.send(at(0));
    sender.sent(at(1000));
    assert!(!sender.frame_during_xoff(5, at(900_000), at(1_000_000)), "another priority");
    assert!(!sender.frame_during_xoff(3, at(301_000), at(1_000_000)), "it may be older");
    assert!(!sender.is_due(at(1_000_000)));
    assert!(sender.frame_during_xoff(3, at(900_000), at(1_000_000)));
    assert!(sender.is_due(at(1_000_000)));
    sender.send(at(1_000_000));
    sender.sent(at(1_001_000));
    let reasons = PfcReasons { change_frames: 1, repeat_frames: 1, ..PfcReasons::default() };
    assert_eq!(sender.reasons(), reasons);
    assert_eq!(sender.next_deadline(), at(11_000_000));
    sender.send(at(11_000_000));
    sender.set(3, false);
    sender.send(at(11_500_000));
    sender.send(at(12_500_000));
    let reasons = PfcReasons { change_frames: 2, refresh_frames: 1, repeat_frames: 2, guard_frames: 0 };
    assert_eq!((sender.reasons(), sender.count().frames), (reasons, 5));
}

/// The old peer was paused. The new one is sent what lasts at once, and nothing of what is over.
#[test]
fn xoff_is_sent_to_a_new_peer() {
    let mut sender = PfcSender::new(timing(1_000_000));
    for p in [3, 4] {
        sender.set(p, true);
    }
    sender.send(Instant(0));
    sender.sent(Instant(1));
    assert!(!sender.is_due(Instant(10)));
    sender.reset_peer();
    sender.set(4, false);
    assert!(sender.is_due(Instant(10)));
    assert_eq!(pfc(sender.send(Instant(10))).enable, 0b1000);
    sender.sent(Instant(1));
    sender.reset_peer();
    sender.set(3, false);
    assert_eq!(sender.next_deadline(), Instant::NEVER, "there is nothing to tell");
}

/// Only a peer that is paused is sent another pause time, and only if it is another.
#[test]
fn another_pause_time_is_sent_at_once_to_a_paused_peer() {
    let mut sender = PfcSender::new(timing(1_000_000));
    sender.reconfigure(timing(2_000_000));
    assert_eq!(sender.next_deadline(), Instant::NEVER);
    sender.set(3, true);
    sender.send(Instant(0));
    sender.sent(Instant(1));
    sender.reconfigure(timing(2_000_000));
    assert_eq!(sender.next_deadline(), Instant(2_000_000));
    sender.reconfigure(PfcTiming { pause_quanta: 400, ..timing(2_000_000) });
    assert_eq!(sender.next_deadline(), Instant::default());
    assert_eq!(pfc(sender.send(Instant(10))).quanta[3], 400);
}

/// XOFF has left with the last of the frames in flight. After XON nothing is expected of the peer.
#[test]
fn the_peer_must_respond_once_the_last_frame_has_left() {
    let mut sender = PfcSender::new(timing(10_000_000));
    for priority in [3, 4] {
        sender.set(priority, true);
        sender.send(Instant(0));
    }
    let mut checked_at = Vec::new();
    for left_at in [1_000, 2_000] {
        sender.sent(Instant(left_at));
        checked_at.push(sender.rx_ring_check_at(Instant(left_at)));
    }
    assert_eq!(checked_at, [Instant::NEVER, Instant(302_001)]);
    [3, 4].into_iter().for_each(|priority| sender.set(priority, false));
    sender.send(Instant(3_000));
    sender.sent(Instant(4_000));
    assert_eq!(sender.rx_ring_check_at(Instant(4_000)), Instant::NEVER);
}

#[test]
fn what_has_not_left_is_not_repeated() {
    let mut sender = PfcSender::new(timing(100));
    sender.set(3, true);
    sender.send(Instant(0));
    assert!(!sender.is_due(Instant(1000)), "the first is still on its way out");
    for n in 1..MAX_IN_FLIGHT {
        sender.set(5, n % 2 == 1);
        assert!(sender.is_due(Instant(1000)), "but a change is advertised");
        sender.send(Instant(1000));
    }
    sender.set(5, MAX_IN_FLIGHT % 2 == 1);
    assert!(!sender.is_due(Instant(2000)), "as long as there is room");
    sender.sent(Instant(1));
    assert!(sender.is_due(Instant(2000)));
}

/// A guard has paused the peer during a stall. Now XON is due, or XOFF is refreshed further.
#[test]
fn guard_pfc_counts_as_advertised() {
    let mut sender = PfcSender::new(timing(100));
    let reported = PfcCount { frames: 5, xoff_frames: [0, 0, 0, 5, 2, 0, 0, 0], ..PfcCount::default() };
    sender.record_guard_pfc(&reported, Instant(1000));
    sender.set(4, true);
    assert!(sender.is_due(Instant(1001)));
    let pfc = pfc(sender.send(Instant(1001)));
    assert_eq!((pfc.enable, pfc.quanta[3], pfc.quanta[4]), (0b1_1000, 0, 300));
    assert_eq!(
        (sender.count().frames, sender.reasons().guard_frames, sender.count().xoff_frames),
        (6, 5, [0, 0, 0, 5, 3, 0, 0, 0])
    );
}

/// XON waits for an I/O loop while the guard pauses the peer, and leaves after the guard's XOFF.
#[test]
fn xoff_follows_what_may_have_ended_the_pause_of_a_guard() {
    let mut sender = PfcSender::new(timing(1_000_000));
    sender.set(3, true);
    sender.send(Instant(0));
    sender.sent(Instant(1));
    sender.set(3, false);
    assert_eq!(pfc(sender.send(Instant(100))).quanta[3], 0);
    let of_guard = PfcCount { frames: 1, xoff_frames: [0, 0, 0, 1, 0, 0, 0, 0], ..PfcCount::default() };
    sender.record_guard_pfc(&of_guard, Instant(500));
    sender.set(3, true);
    assert!(!sender.is_due(Instant(1000)), "XON has yet to leave");
    sender.sent(Instant(1100));
    assert!(sender.is_due(Instant(1100)));
    assert_eq!(pfc(sender.send(Instant(1100))).quanta[3], 300);
    sender.sent(Instant(1200));
    assert_eq!(sender.next_deadline(), Instant(1100 + 1_000_000), "and then with each refresh");
}

/// A guard has refreshed XOFF shortly before the loop ran again: the next refresh is due a whole
/// interval after that, and nothing before. XON is repeated when it was due.
#[test]
fn what_a_guard_has_refreshed_is_not_repeated_at_once() {
    let mut sender = PfcSender::new(timing(1_000_000));
    let of_guard = PfcCount { frames: 1, xoff_frames: [0, 0, 0, 1, 0, 0, 0, 0], ..PfcCount::default() };
    let guarded = |sender: &mut PfcSender, at| sender.record_guard_pfc(&of_guard, Instant(at));
    sender.set(3, true);
    sender.send(Instant(0));
    sender.sent(Instant(1));
    guarded(&mut sender, 900_000);
    assert_eq!(sender.next_deadline(), Instant(1_900_000));

    sender.set(4, true);
    sender.send(Instant(1_000_000));
    sender.sent(Instant(1_000_001));
    guarded(&mut sender, 1_900_000);
    assert_eq!(sender.next_deadline(), Instant(2_000_000), "the guard did not pause priority 4");

    sender.set(4, false);
    sender.send(Instant(2_000_000));
    sender.sent(Instant(2_000_001));
    guarded(&mut sender, 2_500_000);
    assert_eq!(sender.next_deadline(), Instant(3_000_000), "XON of priority 4 is repeated");
}

/// Row 288: PAUSE keeps the times of PFC, for the link as a whole.
#[test]
fn link_pause_follows_pfc_timing() {
    let mut sender = PfcSender::new(PfcTiming { uses_link_pause: true, ..timing(100) });
    let mut at = |now, xoff: bool| {
        sender.set(LINK, xoff);
        sender.is_due(Instant(now)).then(|| {
            let reported = sender.send(Instant(now));
            sender.sent(Instant(1));
            reported
        })
    };
    let pause = |quanta| Some(PauseFrame::Pause(Pause { quanta }));
    assert_eq!(
        [at(0, false), at(10, true), at(109, true), at(110, true)],
        [None, pause(300), None, pause(300)]
    );
    assert_eq!(
        [at(120, false), at(121, false), at(1_000_120, false)],
        [pause(0), None, pause(0)],
        "XON, twice"
    );
    assert_eq!(at(9_000_000, false), None);
    assert_eq!((sender.pause_frames(), sender.count()), (4, PfcCount::default()));
}

/// Settings change PFC for PAUSE, or back: what was advertised by one kind of frame is withdrawn by
/// it before the other begins.
#[test]
fn xoff_is_withdrawn_with_the_frame_kind_that_sent_it() {
    for (of_link, old, new) in [
        (false, PauseFrame::Pfc(Pfc { enable: 1, quanta: [0; 8] }), PauseFrame::Pause(Pause { quanta: 300 })),
        (
            true,
            PauseFrame::Pause(Pause { quanta: 0 }),
            PauseFrame::Pfc(Pfc { enable: 1, quanta: [300, 0, 0, 0, 0, 0, 0, 0] }),
        ),
    ] {
        let mut sender = PfcSender::new(PfcTiming { uses_link_pause: of_link, ..timing(100) });
        sender.set(LINK, true);
        sender.send(Instant(0));
        sender.sent(Instant(1));
        sender.reconfigure(PfcTiming { uses_link_pause: !of_link, ..timing(100) });
        let mut reported = Vec::new();
        while sender.is_due(Instant(1)) {
            reported.push(sender.send(Instant(1)));
            sender.sent(Instant(1));
        }
        assert_eq!(reported, [old, new], "from PAUSE: {of_link}");
    }
}

/// Two priorities over time: (time, change) → the frame sent at that time, if one is due.
#[test]
fn changes_are_sent_at_once_and_refreshed_before_half_the_time() {
    let mut sender = PfcSender::new(timing(100));
    let mut at = |now, changes: &[(usize, bool)]| {
        for &(priority, xoff) in changes {
            sender.set(priority, xoff);
        }
        sender.is_due(Instant(now)).then(|| {
            let pfc = pfc(sender.send(Instant(now)));
            sender.sent(Instant(1));
            (pfc.enable, pfc.quanta[3], pfc.quanta[5])
        })
    };
    assert_eq!(at(0, &[]), None);
    assert_eq!(at(10, &[(3, true)]), Some((0b0000_1000, 300, 0)));
    assert_eq!(at(109, &[]), None);
    assert_eq!(at(110, &[]), Some((0b0000_1000, 300, 0)), "refreshed after a third of the pause time");
    assert_eq!(at(120, &[(5, true)]), Some((0b0010_1000, 300, 300)), "one frame carries all that is in XOFF");
    assert_eq!(at(150, &[(3, false)]), Some((0b0010_1000, 0, 300)), "XON is time 0, the other goes on");
    assert_eq!(at(151, &[]), None);
    assert_eq!(at(250, &[(3, true), (5, false)]), Some((0b0010_1000, 300, 0)), "two changes, one frame");
    assert_eq!(at(260, &[(3, false)]), Some((0b0010_1000, 0, 0)), "and the XON of 5 once more");
    assert_eq!(at(1_000_000, &[]), None, "after XON, silence");
    assert_eq!(
        at(1_000_001, &[(3, true), (3, false)]),
        None,
        "what came and went in one iteration is not advertised"
    );
    assert_eq!(at(1_000_260, &[]), Some((0b0000_1000, 0, 0)), "XON is repeated once");
    assert_eq!(at(1_000_000_000, &[]), None, "and then never again");
    assert_eq!(
        (sender.count().frames, sender.count().xoff_frames[3], sender.count().xon_frames[3]),
        (7, 4, 3)
    );
}
