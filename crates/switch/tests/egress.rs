//! The egress half of a port: guaranteed cells, bytes with the kernel, and what a reload keeps.

mod lab;

use lab::{Frame, Lab, mac, settings};
use switch::DropReason;
use switch::Event;
use switch::settings::{Guaranteed, Rate, SwitchSettings, WredProfile, WredSettings};
use wire::mac::MacAddr;

/// Returns two ports, of which port 1 guarantees 100 cells to each queue.
fn guaranteed() -> SwitchSettings {
    let mut settings = settings(2, 0, 1000, 0);
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
