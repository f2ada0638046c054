//! Every loss of a no-drop frame is an event, whatever other events there are.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, OPEN, queue_of};
use switch::monitor::event_list::MAX_PENDING;
use switch::settings::{
    GroupSettings, PfcWdAction, Restoration, SwitchSettings, Threshold, VlanSettings, WatchdogSettings,
    WredProfile, WredSettings,
};
use switch::{DropReason, FrameMemory, PortSettings, RefusedFrames};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
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
            (event.kind.name(), event.port, event.priority, frames.map_or(0, |&(_, frames)| frames))
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

/// How a drop reason comes about for a no-drop frame.
struct Cause {
    settings: SwitchSettings,
    /// Causes the state in which frames are lost.
    prepare: fn(&mut Lab),
    /// Loses frames.
    lose: fn(&mut Lab),
    /// Port at which they are counted.
    port: usize,
    /// Kind of the event that reports them.
    kind: &'static str,
}

/// Returns how a no-drop frame is lost for this reason; `None` if a drop for this reason is no loss
/// of a no-drop frame. A new reason does not compile without an answer.
fn cause(reason: DropReason) -> Option<Cause> {
    let send = |lab: &mut Lab| lab.arrive(FRAME);
    let broadcast = |lab: &mut Lab| lab.arrive(Frame { dst: MacAddr::BROADCAST, ..FRAME });
    let nothing = |_: &mut Lab| {};
    let of = |settings, prepare: fn(&mut Lab), lose: fn(&mut Lab), port| Cause {
        settings,
        prepare,
        lose,
        port,
        kind: "no_drop_dropped",
    };
    let mut settings = settings();
    Some(match reason {
        // No bridge forwards these frames, or the group is lossy.
        DropReason::Malformed | DropReason::BadSource | DropReason::Reserved | DropReason::IngressLossy => {
            return None;
        }
        DropReason::Filtered => {
            let last_of_all = |lab: &mut Lab| {
                (1..3).for_each(|port| lab.switch.port_down(port, lab.now, &mut lab.memory));
            };
            of(settings, last_of_all, broadcast, 0)
        }
        DropReason::BroadcastLimit | DropReason::MulticastLimit | DropReason::UnknownUnicastLimit => {
            settings.ports[0].flood_limits_pps = [Some(1); 3];
            let flood: fn(&mut Lab) = match reason {
                DropReason::BroadcastLimit => broadcast,
                DropReason::MulticastLimit => {
                    |lab| lab.arrive(Frame { dst: MacAddr([1, 0, 0x5e, 0, 0, 1]), ..FRAME })
                }
                _ => |lab| lab.arrive(Frame { dst: mac_of(99), ..FRAME }),
            };
            Cause { kind: "flood_limit", ..of(settings, flood, flood, 0) }
        }
        DropReason::VlanFiltered => {
            let pvid = |n| VlanSettings::Access { pvid: n };
            settings.ports.iter_mut().for_each(|port| port.vlan = pvid(7));
            let other_vlan = |lab: &mut Lab| {
                let mut bytes = [0; 64];
                let tag = Tag { vid: 9, ..Tag::priority(3) };
                write_header(&mut bytes, mac_of(1), mac_of(0), Some(tag), EXPERIMENTAL);
                lab.arrive_bytes(0, &bytes);
            };
            of(settings, nothing, other_vlan, 0)
        }
        DropReason::IngressNoDrop => {
            settings.ports[0].groups[3] =
                GroupSettings { xoff: Threshold::Static(1), headroom_cells: 1, ..OPEN };
            let fill = |lab: &mut Lab| {
                lab.switch.hold(1, true);
                (0..2).for_each(|_| lab.arrive(FRAME));
            };
            Cause { kind: "no_drop_lost", ..of(settings, fill, send, 0) }
        }
        DropReason::TailDrop => {
            settings.ports[1].queues = [queue_of(Threshold::Static(0)); 8];
            of(settings, nothing, send, 1)
        }
        DropReason::Wred => {
            let always = WredProfile { low_cells: 0, high_cells: 0, probability_percent: 100 };
            settings.ports[1].queues[3].wred = Some(WredSettings {
                exponent: 0,
                ecn: true,
                drop_not_ect: true,
                curves: [always; 3],
                ..WredSettings::default()
            });
            of(settings, nothing, send, 1)
        }
        DropReason::Watchdog => {
            settings.ports[1].watchdog[3] = Some(WatchdogSettings {
                detection_ns: 1_000,
                action: PfcWdAction::Drop,
                restore: Restoration::Manual,
                limit: None,
            });
            let storm = |lab: &mut Lab| {
                lab.send_pfc(1, Pfc { enable: 8, quanta: [65_535; 8] });
                lab.arrive(FRAME);
                (0..3).for_each(|_| lab.turn());
            };
            of(settings, storm, send, 1)
        }
        DropReason::NoCopy => {
            let without_memory = |lab: &mut Lab| {
                let last = lab.memory.alloc().expect("memory");
                let taken: Vec<_> = std::iter::from_fn(|| lab.memory.alloc()).collect();
                lab.memory.free(last);
                lab.arrive(Frame { dst: MacAddr::BROADCAST, ..FRAME });
                (0..3).for_each(|port| lab.transmit(port, 8)); // copies get memory when they are sent
                taken.into_iter().for_each(|frame| lab.memory.free(frame));
            };
            of(settings, nothing, without_memory, 0)
        }
        DropReason::PortDown => {
            let while_it_waits = |lab: &mut Lab| {
                lab.switch.port_up(1, None, lab.now);
                lab.switch.set_learned(mac_of(1), 1, lab.now);
                lab.switch.hold(1, true);
                lab.arrive(FRAME);
                lab.switch.port_down(1, lab.now, &mut lab.memory);
            };
            of(settings, nothing, while_it_waits, 1)
        }
        DropReason::MtuExceeded => {
            settings.ports[1].mtu_bytes = Some(1500);
            of(settings, nothing, |lab| lab.arrive(Frame { len: 2000, ..FRAME }), 1)
        }
        DropReason::Refused => {
            let refused = |lab: &mut Lab| {
                let of_three = RefusedFrames { by_priority: [0, 0, 0, 1, 0, 0, 0, 0], others: 0 };
                lab.switch.refused_frames(0, &of_three);
            };
            of(settings, nothing, refused, 0)
        }
        DropReason::DestinationDown => {
            let down = |lab: &mut Lab| lab.switch.port_down(1, lab.now, &mut lab.memory);
            of(settings, down, send, 1)
        }
    })
}

/// Every reason for which a no-drop frame can be lost: it is counted, and an event reports it
/// within the iteration, and then once a second while it lasts. Each such event freezes the
/// recorder.
#[test]
fn no_loss_is_silent() {
    for reason in DropReason::ALL {
        let Some(Cause { settings, prepare, lose, port, kind }) = cause(reason) else { continue };
        let mut lab = Lab::new(&settings);
        lab.turn();
        let all = |lab: &mut Lab| -> u64 {
            lab.snapshot().ports.iter().flat_map(|port| port.drops).map(|drops| drops.frames).sum()
        };
        let (before, all_before) = (drops(&mut lab, port, reason), all(&mut lab));
        prepare(&mut lab);
        lab.turn();
        let mut reported = losses(&mut lab).into_iter().filter(|&(of, ..)| of == kind).count();
        let start = lab.now;
        // A frame each 50 ms for 2.5 s.
        for n in 0..50 {
            lab.now = start + n * 50_000_000;
            lose(&mut lab);
            lab.turn();
            for (of, at, priority, _) in losses(&mut lab) {
                let priority = priority.unwrap_or(3); // of flood limits, the event names none
                assert_eq!((of, at, priority), (kind, Some(port), 3), "{reason:?}");
                reported += 1;
            }
            assert!(n > 0 || reported > 0 || kind == "flood_limit", "{reason:?}: within the iteration");
        }
        assert!(drops(&mut lab, port, reason) - before >= 45, "{reason:?}");
        assert!((2..=4).contains(&reported), "{reason:?}: {reported} events in 2.5 s");
        // All frames are of priority 3, and each of them that was dropped is a loss.
        let (dropped, now) = (all(&mut lab) - all_before, lab.snapshot());
        let lost: u64 = now.ports.iter().map(|port| port.priorities[3].no_drop_lost_frames).sum();
        assert_eq!(lost, dropped, "{reason:?}");
        assert!(now.ports[port].priorities[3].no_drop_lost_frames >= 45, "{reason:?}");
    }
}

/// Frames that a port refused count as received and dropped. Those of a lossy priority, or of an
/// unknown one, are no loss.
#[test]
fn refused_frames_are_received_and_dropped() {
    let mut lab = Lab::new(&settings());
    let before = lab.snapshot().ports[0].received.frames;
    let reported = lost(&mut lab, |lab| {
        let refused = RefusedFrames { by_priority: [0, 4, 0, 2, 0, 0, 0, 0], others: 3 };
        lab.switch.refused_frames(0, &refused);
    });
    assert_eq!(reported, [("no_drop_dropped", Some(0), Some(3), 2)]);
    let port = &lab.snapshot().ports[0];
    assert_eq!((port.received.frames - before, port.drops[DropReason::Refused as usize].frames), (9, 9));
    assert_eq!(port.priorities[3].no_drop_lost_frames, 2);
}

/// A recording may have any number of them: each is counted, at once.
#[test]
fn as_many_refused_frames_as_there_can_be_are_counted() {
    const MOST: u64 = u32::MAX as u64;
    let mut lab = Lab::new(&settings());
    let before = lab.snapshot().ports[0].received.frames;
    let reported = lost(&mut lab, |lab| {
        let refused = RefusedFrames { by_priority: [u32::MAX; 8], others: u32::MAX };
        lab.switch.refused_frames(0, &refused);
    });
    assert_eq!(reported, [("no_drop_dropped", Some(0), Some(3), MOST)]);
    let port = &lab.snapshot().ports[0];
    assert_eq!(port.received.frames - before, 9 * MOST);
    assert_eq!(port.drops[DropReason::Refused as usize].frames, 9 * MOST);
    assert_eq!(port.priorities[3].no_drop_lost_frames, MOST);
}

/// Losses of lossy priorities are not reported.
#[test]
fn lossy_frames_are_no_loss() {
    let mut small = settings();
    small.ports[1].queues = [queue_of(Threshold::Static(0)); 8];
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

/// The losses of a port that is removed stay in the sum of removed ports, also once another port
/// has its slot, which begins at zero.
#[test]
fn losses_of_a_removed_port_are_kept() {
    let mut settings = settings();
    settings.ports[1].queues = [queue_of(Threshold::Static(0)); 8];
    let mut lab = Lab::new(&settings);
    (0..5).for_each(|_| lab.arrive(FRAME));
    let lost = |lab: &mut Lab| {
        let now = lab.snapshot();
        let at = now.ports.iter().filter(|port| !port.name.is_empty()).flat_map(|port| port.priorities);
        (at.map(|of| of.no_drop_lost_frames).sum::<u64>(), now.removed_ports.no_drop_lost_frames)
    };
    assert_eq!(lost(&mut lab), (5, 0));
    lab.switch.port_down(1, lab.now, &mut lab.memory);
    let port = std::mem::replace(&mut settings.ports[1], PortSettings::vacant());
    lab.switch.apply(&settings, lab.now);
    assert_eq!(lost(&mut lab), (0, 5));
    settings.ports[1] = port;
    lab.switch.apply(&settings, lab.now);
    assert_eq!(lost(&mut lab), (0, 5));
}
