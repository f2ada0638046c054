//! The egress half of a port: guaranteed cells, bytes with the kernel, and what a reload keeps.

mod lab;

use lab::{Frame, Lab, mac, queue_of, settings};
use switch::settings::{
    GroupDiscipline, Guaranteed, LARGEST_FRAME_BYTES, Rate, ScheduleSettings, SwitchSettings, Threshold,
    WredProfile, WredSettings,
};
use switch::{DropReason, Event, FrameMemory};
use wire::mac::MacAddr;

/// Returns two ports, of which port 0 reserves 100 cells for each group, and port 1 guarantees as
/// many to each queue.
fn guaranteed() -> SwitchSettings {
    let mut settings = settings(2, 0, 1000, 0);
    settings.ports[0].groups.iter_mut().for_each(|group| group.reserved_cells = 100);
    settings.ports[1].queues.iter_mut().for_each(|queue| queue.guaranteed = Guaranteed::Cells(100));
    settings
}

fn arrive(lab: &mut Lab, dst: MacAddr, len: u16) {
    lab.arrive(Frame { port: 0, dst, priority: 3, len });
}

#[test]
fn frames_within_the_guaranteed_cells_leave_as_all_others() {
    let mut settings = guaranteed();
    settings.bridge.multicast_to_queue = Some([3; 8]);
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    (0..3).for_each(|_| arrive(&mut lab, mac(1), 600));
    arrive(&mut lab, MacAddr::BROADCAST, 64);
    let queue = lab.snapshot().ports[1].queues[3];
    assert_eq!((queue.waiting_frames, queue.flooded_frames, queue.level.cells), (4, 1, 10));
    lab.switch.hold(1, false);
    lab.turn();
    let queue = lab.snapshot().ports[1].queues[3];
    assert_eq!((queue.waiting_frames, queue.transmitted.frames, queue.level.cells), (0, 4, 0));
    assert_eq!(lab.memory_free(), lab.frames);
}

#[test]
fn guaranteed_cells_suspend_neither_the_mtu_nor_wred() {
    let mut settings = guaranteed();
    settings.ports[1].mtu_bytes = Some(1000);
    let curve = WredProfile { low_cells: 2, high_cells: 2, probability_percent: 100 };
    settings.ports[1].queues[3].wred =
        Some(WredSettings { exponent: 0, curves: [curve; 3], ..WredSettings::default() });
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    (0..3).for_each(|_| arrive(&mut lab, mac(1), 64));
    arrive(&mut lab, mac(1), 1019);
    let port = &lab.snapshot().ports[1];
    let dropped = [DropReason::Wred, DropReason::MtuExceeded].map(|of| port.drops[of as usize].frames);
    assert_eq!((port.queues[3].waiting_frames, dropped), (2, [1, 1]));
}

/// The queues of a number divide the fixed area evenly among the ports: 13 % of a third each.
#[test]
fn guaranteed_shares_of_the_fixed_area() {
    let mut settings = settings(3, 0, 1000, 0);
    (settings.buffer.fixed_cells, settings.buffer.total_cells) = (1000, 2000);
    let mut lab = Lab::new(&settings);
    assert_eq!(lab.snapshot().ports[1].queues.map(|queue| queue.guaranteed_cells), [43; 8]);
}

/// Frames leave while less than the bound is with the kernel, also of queues with a rate.
#[test]
fn no_frame_leaves_once_the_bound_is_with_the_kernel() {
    for rate in [None, Some(Rate { bps: 100_000_000_000, burst_bytes: None })] {
        let mut settings = settings(2, 0, 1000, 0);
        settings.ports[1].in_flight_bytes = 1200;
        settings.ports[1].queues[3].rate = rate;
        let mut lab = Lab::new(&settings);
        (0..6).for_each(|_| arrive(&mut lab, mac(1), 600));
        lab.transmit(1, usize::MAX);
        assert_eq!(lab.with_kernel[1].len(), 2, "exactly 1200 bytes, {rate:?}");
    }
}

/// A frame of 1000 bytes takes a microsecond at 8 Gbit/s, 2 at 4 and 4 at 2.
#[test]
fn a_reload_changes_the_rate_of_a_port() {
    let mut settings = settings(2, 0, 1000, 0);
    let mut lab = Lab::new(&settings);
    let sent = [8, 4, 2, 8].map(|gigabits: u64| {
        let port = &mut settings.ports[1];
        (port.speed_bps, port.burst_bytes, port.overhead_bytes) =
            (Some(gigabits * 1_000_000_000), Some(0), 0);
        lab.switch.apply(&settings, lab.now);
        let before = lab.sent;
        for _ in 0..20 {
            arrive(&mut lab, mac(1), 1000);
            lab.turn();
        }
        lab.sent - before
    });
    assert_eq!(sent, [20, 10, 5, 20]);
}

/// The average of a queue falls from the moment on at which its last frame left.
#[test]
fn a_queue_is_idle_from_its_last_frame_on() {
    let mut settings = settings(2, 0, 1000, 0);
    settings.ports[1].speed_bps = Some(1_000_000_000);
    for q in [3, 7] {
        settings.ports[1].queues[q].wred = Some(WredSettings { exponent: 1, ..WredSettings::default() });
    }
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    (0..8).for_each(|_| arrive(&mut lab, mac(1), 200));
    let average = |lab: &mut Lab| lab.snapshot().ports[1].queues[3].average_cells;
    assert_eq!(average(&mut lab), Some(7));
    lab.now = lab.now + 1_000_000;
    lab.switch.hold(1, false);
    (0..8).for_each(|_| {
        lab.transmit(1, 1);
        lab.now = lab.now + 10_000;
    });
    assert_eq!(lab.with_kernel[1].len(), 8);
    assert_eq!(average(&mut lab), Some(3), "10 us are one frame's time: half of it");
    arrive(&mut lab, mac(1), 200);
    assert_eq!(average(&mut lab), Some(2), "halfway from there to a cell");
}

/// A violation ends when use falls to the threshold, and not only when the queue is empty.
#[test]
fn use_that_fell_to_its_threshold_may_exceed_it_again() {
    let mut settings = settings(2, 0, 1000, 0);
    settings.usage_percent = 50;
    settings.ports[1].queues[3] = queue_of(Threshold::Static(10));
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    let mut violations = Vec::new();
    for frames in [5, 1, 4] {
        (0..frames).for_each(|_| arrive(&mut lab, mac(1), 200));
        violations.push(lab.snapshot().ports[1].queues[3].violations);
    }
    lab.switch.hold(1, false);
    lab.transmit(1, 5);
    lab.complete(1, 5);
    lab.switch.hold(1, true);
    arrive(&mut lab, mac(1), 200);
    violations.push(lab.snapshot().ports[1].queues[3].violations);
    assert_eq!(violations, [0, 1, 1, 2]);
}

#[test]
fn a_snapshot_has_the_maximum_of_a_queue_that_has_one() {
    let mut settings = settings(2, 1 << 3, 1000, 0);
    settings.ports[1].queues[2] = queue_of(Threshold::Static(10));
    let mut lab = Lab::new(&settings);
    let queues = &lab.snapshot().ports[1].queues;
    assert_eq!([2, 3].map(|q| queues[q].threshold_cells), [Some(10), None]);
}

/// A port that always has a frame in flight, of which one leaves, or is lost, each second.
#[test]
fn a_port_of_which_frames_leave_is_not_stalled() {
    for lost in [false, true] {
        let mut lab = Lab::new(&settings(2, 0, 1000, 0));
        arrive(&mut lab, mac(1), 64);
        lab.transmit(1, 1);
        for _ in 0..12 {
            lab.now = lab.now + 1_000_000_000;
            arrive(&mut lab, mac(1), 64);
            lab.transmit(1, 1);
            if lost {
                lab.lose(1, 1)
            } else {
                lab.complete(1, 1)
            }
            lab.switch.tick(lab.now, &mut lab.memory);
        }
        let stalls = lab.switch.drain_events().filter(|(_, event)| matches!(event, Event::TxStalled { .. }));
        assert_eq!(stalls.count(), 0, "lost: {lost}");
    }
}

/// Returns the queues of the next four frames that leave port 1.
fn next_queues(lab: &mut Lab) -> Vec<u8> {
    lab.transmit(1, 4);
    let queues = lab.with_kernel[1].iter().map(|outgoing| outgoing.queue).collect();
    lab.complete(1, 4);
    queues
}

/// Returns two ports, each priority in its queue, the second with this schedule.
fn scheduled(schedule: ScheduleSettings) -> SwitchSettings {
    let mut settings = settings(2, 0, 1000, 0);
    settings.ports.iter_mut().for_each(|port| port.classify.dot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7]);
    settings.ports[1].schedule = schedule;
    settings
}

/// Queues these frames, of a priority and a length each, while port 1 is on hold.
fn queue(lab: &mut Lab, dst: MacAddr, frames: usize, kinds: &[(u8, u16)]) {
    lab.switch.hold(1, true);
    for &(priority, len) in kinds {
        (0..frames).for_each(|_| lab.arrive(Frame { port: 0, dst, priority, len }));
    }
    lab.switch.hold(1, false);
}

/// Flooded frames have lists of their own, and their bytes count in a round as those of others do.
#[test]
fn flooded_frames_take_the_turns_of_all_others() {
    let [known, flooded] = [mac(1), MacAddr::BROADCAST].map(|dst| {
        let by_bytes = GroupDiscipline::WeightedByBytes([1; 8]);
        let mut settings = scheduled(ScheduleSettings::sp_wrr(0, 0xff, 0, by_bytes));
        settings.bridge.multicast_to_queue = Some([0, 1, 2, 3, 4, 5, 6, 7]);
        let mut lab = Lab::new(&settings);
        queue(&mut lab, dst, 40, &[(2, 1000), (3, 300)]);
        let mut queues = Vec::new();
        for _ in 0..80 {
            lab.transmit(1, 1);
            queues.extend(lab.with_kernel[1].iter().map(|outgoing| outgoing.queue));
            lab.complete(1, 1);
        }
        queues
    });
    assert_eq!(known.len(), 80);
    assert_eq!(known, flooded);
}

/// What a queue may still send in its turn is forgotten with the frames that a flush drops.
#[test]
fn a_flush_ends_the_turn_of_a_queue() {
    let by_frames = GroupDiscipline::WeightedByFrames([8; 8]);
    let mut lab = Lab::new(&scheduled(ScheduleSettings::sp_wrr(0, 0xff, 0, by_frames)));
    queue(&mut lab, mac(1), 5, &[(2, 100)]);
    assert_eq!(next_queues(&mut lab), [2; 4], "of at most eight frames");
    lab.switch.flush(1, lab.now, &mut lab.memory);
    queue(&mut lab, mac(1), 8, &[(2, 100), (3, 100)]);
    assert_eq!(next_queues(&mut lab), [3; 4], "the next one's turn");
}

/// A group's turn is as long as the largest frame takes on the wire. A frame that fits only without
/// its overhead waits for the next one.
#[test]
fn overhead_on_the_wire_counts_in_the_turn_of_a_group() {
    let mut settings = scheduled(ScheduleSettings::default_ets());
    settings.ports[1].overhead_bytes = 24;
    let mut lab = Lab::new(&settings);
    let half = (LARGEST_FRAME_BYTES / 2) as u16;
    for (len, first) in [(half - 12, [2, 2, 3, 3]), (half - 11, [2, 3, 2, 2])] {
        queue(&mut lab, mac(1), 4, &[(2, len), (3, len)]);
        let mut queues = next_queues(&mut lab);
        if queues[0] == 3 {
            queues.iter_mut().for_each(|queue| *queue = 5 - *queue); // either may be the first
        }
        assert_eq!(queues, first, "{len} bytes");
        lab.switch.flush(1, lab.now, &mut lab.memory);
    }
}

#[test]
fn a_reload_applies_another_schedule() {
    let mut settings = scheduled(ScheduleSettings::sp_wrr(0xff, 0, 0, GroupDiscipline::Strict));
    let mut lab = Lab::new(&settings);
    queue(&mut lab, mac(1), 8, &[(2, 1000), (3, 1000)]);
    assert_eq!(next_queues(&mut lab), [3, 3, 3, 3]);
    let by_turns = GroupDiscipline::WeightedByFrames([1; 8]);
    settings.ports[1].schedule = ScheduleSettings::sp_wrr(0, 0xff, 0, by_turns);
    lab.switch.apply(&settings, lab.now);
    let mut queues = next_queues(&mut lab);
    queues.sort_unstable();
    assert_eq!(queues, [2, 2, 3, 3]);
}

/// Ports that a reload adds get their copies: nine frames have 27.
#[test]
fn added_ports_have_room_for_copies() {
    let mut settings = settings(4, 0xff, 10, 0);
    let more = settings.clone();
    settings.ports.truncate(2);
    let mut lab = Lab::new(&settings);
    lab.switch.apply(&more, lab.now);
    lab.plug(4);
    for port in 1..4 {
        lab.switch.port_up(port, Some(mac(port)), lab.now);
        lab.switch.hold(port, true);
    }
    (0..9).for_each(|_| arrive(&mut lab, MacAddr::BROADCAST, 64));
    let seen = lab.snapshot();
    assert_eq!(
        [1, 2, 3].map(|port: usize| seen.ports[port]
            .queues
            .map(|queue| queue.waiting_frames)
            .iter()
            .sum::<u64>()),
        [9; 3]
    );
    assert_eq!(seen.ports[0].drops[DropReason::NoCopy as usize].frames, 0);
}

/// A copy of a flooded frame that gets no memory is no longer with the kernel, and holds no cells.
#[test]
fn a_copy_without_memory_makes_room_for_other_frames() {
    let mut settings = settings(3, 0, 1000, 0);
    settings.ports[1].in_flight_bytes = 1;
    let mut lab = Lab::new(&settings);
    [1, 2].into_iter().for_each(|port| lab.switch.hold(port, true));
    arrive(&mut lab, MacAddr::BROADCAST, 100);
    arrive(&mut lab, mac(1), 100);
    [1, 2].into_iter().for_each(|port| lab.switch.hold(port, false));
    let taken: Vec<_> = std::iter::from_fn(|| lab.memory.alloc()).collect();
    lab.transmit(1, 1);
    assert_eq!(lab.with_kernel[1].len(), 0);
    let dropped = |lab: &mut Lab| lab.snapshot().ports[0].drops[DropReason::NoCopy as usize].frames;
    assert_eq!(dropped(&mut lab), 1);
    taken.into_iter().for_each(|frame| lab.memory.free(frame));
    lab.turn();
    let port = &lab.snapshot().ports[1];
    assert_eq!((port.transmitted.frames, port.queues.map(|queue| queue.level.cells)), (1, [0; 8]));
    assert_eq!(lab.memory_free(), lab.frames);
}

/// Frames that the kernel lost, or that will never leave, are no longer with it.
#[test]
fn what_does_not_leave_makes_room_for_other_frames() {
    for abort in [false, true] {
        let mut settings = settings(2, 0, 1000, 0);
        settings.ports[1].in_flight_bytes = 700;
        let mut lab = Lab::new(&settings);
        (0..6).for_each(|_| arrive(&mut lab, mac(1), 600));
        lab.transmit(1, usize::MAX);
        assert_eq!(lab.with_kernel[1].len(), 2, "up to the first beyond 700 bytes");
        if abort {
            let frame = lab.with_kernel[1].remove(0).frame;
            lab.switch.abort_tx(1, frame, lab.now, &mut lab.memory);
        } else {
            lab.lose(1, 1);
        }
        lab.transmit(1, usize::MAX);
        assert_eq!(lab.with_kernel[1].len(), 2, "abort {abort}");
        lab.complete(1, usize::MAX);
        lab.transmit(1, usize::MAX);
        assert_eq!(lab.with_kernel[1].len(), 2, "abort {abort}");
    }
}

/// The second loss within a second is reported once the second is over, though none follows.
#[test]
fn losses_in_the_kernel_are_reported_a_second_later() {
    let mut lab = Lab::new(&settings(2, 0, 1000, 0));
    let mut reported = Vec::new();
    let start = lab.now;
    for (at_ns, frames) in
        [(0, 1), (500_000_000, 2), (999_999_999, 0), (1_000_000_000, 0), (3_000_000_000, 0)]
    {
        lab.now = start + at_ns;
        (0..frames).for_each(|_| arrive(&mut lab, mac(1), 64));
        lab.transmit(1, usize::MAX);
        lab.lose(1, usize::MAX);
        lab.switch.tick(lab.now, &mut lab.memory);
        let lost = lab.switch.drain_events().filter_map(|(_, event)| match event {
            Event::KernelLost { frames, .. } => Some(frames),
            _ => None,
        });
        reported.push(lost.collect::<Vec<_>>());
    }
    assert_eq!(reported, [vec![1], vec![], vec![], vec![2], vec![]]);
}

/// Returns how many of ten frames of 1000 bytes leave at once.
fn burst(lab: &mut Lab) -> usize {
    (0..10).for_each(|_| arrive(lab, mac(1), 1000));
    lab.transmit(1, usize::MAX);
    let sent = lab.with_kernel[1].len();
    lab.complete(1, usize::MAX);
    lab.switch.flush(1, lab.now, &mut lab.memory);
    sent
}

/// A rate limit that a reload does not change has no second burst; another one has.
#[test]
fn a_reload_keeps_rate_limits_that_stay() {
    let mut settings = settings(2, 0, 1000, 0);
    let rate = |bps| Some(Rate { bps, burst_bytes: Some(3000) });
    settings.ports[1].queues[3].rate = rate(1_000_000);
    let mut lab = Lab::new(&settings);
    assert!(burst(&mut lab) > 0);
    settings.ports[1].mtu_bytes = Some(9000);
    lab.switch.apply(&settings, lab.now);
    assert_eq!(burst(&mut lab), 0);
    settings.ports[1].queues[3].rate = rate(2_000_000);
    lab.switch.apply(&settings, lab.now);
    assert!(burst(&mut lab) > 0);
    settings.ports[1].queues[4].rate = rate(2_000_000);
    lab.switch.apply(&settings, lab.now);
    assert!(burst(&mut lab) > 0, "the limits are made again");
    settings.ports[1].overhead_bytes += 1;
    lab.switch.apply(&settings, lab.now);
    assert!(burst(&mut lab) > 0);
    assert_eq!(burst(&mut lab), 0);
}
