//! Every loss of a no-drop frame is an event, whatever other events there are.

mod lab;

use lab::{Frame, Lab, OPEN, queue_of};
use switch::monitor::event::MAX_PENDING;
use switch::settings::{
    GroupSettings, PfcWdAction, Restoration, SwitchSettings, Threshold, WatchdogSettings, WredProfile,
    WredSettings,
};
use switch::{DropReason, FrameMemory};
use wire::mac::MacAddr;
use wire::pause::Pfc;

const FRAME: Frame = Frame { port: 0, dst: mac_of(1), priority: 3, len: 64 };

const fn mac_of(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 9, n])
}

fn settings() -> SwitchSettings {
    lab::settings(3, 0b0000_1000, 1000, 100)
}

/// Returns the reported losses of no-drop frames: kind, port, priority, frames.
fn losses(lab: &mut Lab) -> Vec<(&'static str, Option<usize>, Option<usize>, u64)> {
    let losses = lab.switch.drain_events().filter(|(_, event)| event.is_no_drop_loss());
    losses
        .map(|(_, event)| {
            let event = event.describe();
            let frames = event.values.iter().find(|(name, _)| *name == "frames");
            (event.kind, event.port, event.priority, frames.map_or(0, |&(_, frames)| frames))
        })
        .collect()
}

/// Returns what is reported by the end of the iteration in which `lose` runs.
fn lost(
    lab: &mut Lab,
    lose: impl FnOnce(&mut Lab),
) -> Vec<(&'static str, Option<usize>, Option<usize>, u64)> {
    lab.turn();
    lab.switch.drain_events().for_each(drop);
    lose(lab);
    lab.turn();
    losses(lab)
}

fn drops(lab: &mut Lab, port: usize, reason: DropReason) -> u64 {
    lab.snapshot().ports[port].drops[reason as usize].frames
}

#[test]
fn every_cause_has_a_counter_and_an_event() {
    let dropped = |port, frames| vec![("no_drop_dropped", Some(port), Some(3), frames)];

    let mut small = settings();
    small.ports[1].queues = [queue_of(Threshold::Static(0)); 8];
    let mut lab = Lab::new(&small);
    let reported = lost(&mut lab, |lab| (0..3).for_each(|_| lab.arrive(FRAME)));
    assert_eq!((reported, drops(&mut lab, 1, DropReason::TailDrop)), (dropped(1, 3), 3));

    let mut with_wred = settings();
    let always = WredProfile { low_cells: 0, high_cells: 0, probability_percent: 100 };
    with_wred.ports[1].queues[3].wred = Some(WredSettings {
        exponent: 0,
        ecn: true,
        drop_not_ect: true,
        curves: [always; 3],
        ..WredSettings::default()
    });
    let mut lab = Lab::new(&with_wred);
    let reported = lost(&mut lab, |lab| lab.arrive(FRAME));
    assert_eq!((reported, drops(&mut lab, 1, DropReason::Wred)), (dropped(1, 1), 1));

    let mut lab = Lab::new(&settings());
    let reported = lost(&mut lab, |lab| {
        let last = lab.memory.alloc().expect("memory");
        let taken: Vec<_> = std::iter::from_fn(|| lab.memory.alloc()).collect();
        lab.memory.free(last);
        lab.arrive(Frame { dst: MacAddr::BROADCAST, ..FRAME });
        lab.turn(); // copies get memory when they are sent
        taken.into_iter().for_each(|frame| lab.memory.free(frame));
    });
    assert_eq!((reported, drops(&mut lab, 0, DropReason::NoCopy)), (dropped(0, 2), 2));

    let mut short = settings();
    short.ports[1].mtu_bytes = Some(1500);
    let mut lab = Lab::new(&short);
    let reported = lost(&mut lab, |lab| lab.arrive(Frame { len: 2000, ..FRAME }));
    assert_eq!((reported, drops(&mut lab, 1, DropReason::MtuExceeded)), (dropped(1, 1), 1));

    let mut lab = Lab::new(&settings());
    let reported = lost(&mut lab, |lab| {
        lab.switch.hold(1, true);
        (0..2).for_each(|_| lab.arrive(FRAME));
        lab.switch.port_down(1, lab.now, &mut lab.memory);
    });
    assert_eq!((reported, drops(&mut lab, 1, DropReason::PortDown)), (dropped(1, 2), 2));

    let mut lab = Lab::new(&settings());
    let reported = lost(&mut lab, |lab| {
        lab.switch.port_down(1, lab.now, &mut lab.memory);
        (0..2).for_each(|_| lab.arrive(FRAME));
    });
    assert_eq!((reported, drops(&mut lab, 1, DropReason::DestinationDown)), (dropped(1, 2), 2));

    let mut watched = settings();
    watched.ports[1].watchdog[3] = Some(WatchdogSettings {
        detection_ns: 1_000,
        action: PfcWdAction::Drop,
        restore: Restoration::ByHand,
        limit: None,
    });
    let mut lab = Lab::new(&watched);
    let reported = lost(&mut lab, |lab| {
        lab.send_pfc(1, Pfc { enable: 8, quanta: [65_535; 8] });
        (0..2).for_each(|_| lab.arrive(FRAME));
        (0..3).for_each(|_| lab.turn());
    });
    assert_eq!((reported, drops(&mut lab, 1, DropReason::Watchdog)), (dropped(1, 2), 2));

    // Losses of lossy priorities are not reported.
    let mut lab = Lab::new(&small);
    let reported = lost(&mut lab, |lab| lab.arrive(Frame { priority: 1, ..FRAME }));
    assert_eq!(reported, []);
}

/// Reported at once, then once a second while it lasts, with all frames lost since.
#[test]
fn what_goes_on_is_reported_once_a_second() {
    let mut settings = settings();
    settings.ports[1].queues = [queue_of(Threshold::Static(0)); 8];
    let mut lab = Lab::new(&settings);
    let start = lab.now;
    let mut reported = Vec::new();
    for (ms, frames) in [(0, 1), (1, 2), (999, 3), (1001, 0), (1500, 1), (4000, 0), (6000, 1)] {
        lab.now = start + ms * 1_000_000;
        (0..frames).for_each(|_| lab.arrive(FRAME));
        lab.turn();
        reported.extend(losses(&mut lab).into_iter().map(|(_, _, _, frames)| (ms, frames)));
    }
    assert_eq!(reported, [(0, 1), (1001, 5), (4000, 1), (6000, 1)]);
}

/// A group without headroom, which loses frames in each of its bursts.
#[test]
fn each_episode_is_reported() {
    let mut settings = settings();
    settings.ports[0].groups[3] = GroupSettings { xoff: Threshold::Static(2), headroom_cells: 0, ..OPEN };
    let mut lab = Lab::new(&settings);
    for _ in 0..3 {
        let reported = lost(&mut lab, |lab| (0..5).for_each(|_| lab.arrive(FRAME)));
        assert_eq!(reported, [("no_drop_lost", Some(0), Some(3), 0)]);
    }
}

/// XOFF and XON events fill the queue except for the entries reserved for losses.
#[test]
fn a_loss_is_not_crowded_out() {
    let mut settings = settings();
    settings.ports[0].groups[3] = GroupSettings { xoff: Threshold::Static(1), headroom_cells: 1, ..OPEN };
    let mut lab = Lab::new(&settings);
    for _ in 0..MAX_PENDING {
        lab.arrive(FRAME);
        lab.turn();
    }
    (0..3).for_each(|_| lab.arrive(FRAME));
    lab.switch.kernel_dropped(2, 7, lab.now);
    let lost = lab.snapshot().events_lost;
    assert!(lost > 0, "{lost}");
    assert_eq!(
        losses(&mut lab),
        [("no_drop_lost", Some(0), Some(3), 0), ("kernel_dropped", Some(2), None, 7)]
    );
}
