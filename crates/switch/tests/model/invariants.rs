//! Random traffic, pauses and ports going down against docs/behavior.md, "Invariants", 1 to 5: one
//! owner a frame, cells charged = cells of the frames held, conservation, order, no-drop.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, OPEN, mac};
use proptest::prelude::*;
use switch::settings::{Alpha, BufferSettings, GroupSettings, PortSettings, SwitchSettings, Threshold};
use switch::{DropReason, FrameMemory, Instant};
use wire::mac::MacAddr;
use wire::pause::Pfc;

const PORTS: usize = 4;
const NO_DROP: u8 = 0b0000_1000;

fn settings() -> SwitchSettings {
    let mut settings = lab::settings(PORTS, NO_DROP, 0, 0);
    settings.buffer = BufferSettings {
        cell_bytes: 208,
        total_cells: 160,
        fixed_cells: 24,
        headroom_cells: 30,
        ..BufferSettings::default()
    };
    for (n, port) in settings.ports.iter_mut().enumerate() {
        port.speed_bps = Some(1_000_000_000);
        port.pfc.pause_quanta = 100;
        port.in_flight_bytes = 4000;
        port.groups[3] = GroupSettings {
            reserved_cells: 4,
            xoff: if n % 2 == 0 {
                Threshold::Static(10)
            } else {
                Threshold::Dynamic(Alpha::from_percent(20))
            },
            xon_offset_cells: 3,
            headroom_cells: 12,
            ..OPEN
        };
    }
    settings
}

/// Takes the port's interface down, with the frames in flight on it.
fn take_down(lab: &mut Lab, port: usize) {
    lab.switch.port_down(port, lab.now, &mut lab.memory);
    for outgoing in lab.with_kernel[port].drain(..) {
        lab.switch.abort_tx(port, outgoing.frame, lab.now, &mut lab.memory);
    }
}

/// Checks the invariants that hold at every instant.
fn check(lab: &mut Lab) {
    lab.switch.tick(lab.now, &mut lab.memory);
    lab.snapshot();
    let s = lab.seen();
    assert_eq!(lab.memory.free_frames() + lab.switch.frames_held(), lab.frames, "one owner a frame (§7.1)");
    let groups = || s.ports.iter().flat_map(|port| &port.groups);
    let shared: u32 = groups().map(|group| group.shared.cells).sum();
    let headroom: u32 = groups().map(|group| group.headroom.cells).sum();
    let reserved: u32 = groups().map(|group| group.reserved_cells).sum();
    let queued: u32 = s.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.level.cells).sum();
    assert_eq!(
        (s.ingress_pools[0].level.cells, s.headroom.level.cells),
        (shared, headroom),
        "pools = their groups (§7.2)"
    );
    let cells = [shared + headroom + reserved, queued];
    assert_eq!(cells, lab.switch.cells_held(), "cells charged = cells of the frames held (§7.2)");
    assert!(
        s.ingress_pools[0].level.peak_cells <= s.ingress_pools[0].size_cells
            && s.headroom.level.peak_cells <= s.headroom.size_cells
    );
    for group in groups() {
        let over = group.headroom.cells > 0
            || (group.shared.cells > 0 && group.shared.cells >= group.threshold_cells);
        assert!(!group.no_drop || !over || group.xoff, "over the threshold without XOFF: {group:?}");
    }
}

/// Returns the data frames received, sent, and dropped or lost by the kernel, including removed
/// ports.
fn totals(lab: &Lab) -> (u64, u64, u64) {
    let s = lab.seen();
    // Counts of vacant slots are in the sum of removed ports.
    let ports = || s.ports.iter().filter(|port| !port.name.is_empty());
    let removed = s.removed_ports;
    let dropped = removed.drops.iter().chain(ports().flat_map(|port| &port.drops));
    let lost = removed.kernel_lost_frames + ports().map(|port| port.kernel_lost_frames).sum::<u64>();
    (
        removed.received.frames + ports().map(|port| port.received.frames).sum::<u64>(),
        removed.transmitted.frames + ports().map(|port| port.transmitted.frames).sum::<u64>(),
        lost + dropped.map(|count| count.frames).sum::<u64>(),
    )
}

/// Checks that frames in = frames out + drops and losses, whatever happened, once nothing is held.
fn check_conservation(lab: &Lab) {
    let s = lab.seen();
    let (received, transmitted, drops) = totals(lab);
    assert_eq!(received, lab.sequence, "what came in was counted");
    assert_eq!(received + s.flood_copies, transmitted + drops, "conservation (§7.5)");
    let dropped =
        |reason: DropReason| -> u64 { s.ports.iter().map(|port| port.drops[reason as usize].frames).sum() };
    let by_group: u64 = s.ports.iter().flat_map(|port| &port.groups).map(|group| group.dropped.frames).sum();
    let by_queue: u64 = s.ports.iter().flat_map(|port| &port.queues).map(|queue| queue.dropped.frames).sum();
    assert_eq!(by_group, dropped(DropReason::IngressLossy) + dropped(DropReason::IngressNoDrop));
    assert_eq!(by_queue, dropped(DropReason::TailDrop));
    let no_drop_refused: u64 = s.ports.iter().map(|port| port.groups[3].dropped.frames).sum();
    assert_eq!(
        no_drop_refused,
        dropped(DropReason::IngressNoDrop),
        "each broken promise is counted as one (§7.3)"
    );
}

fn drain(lab: &mut Lab) {
    for _ in 0..10_000 {
        lab.now = lab.now + 100_000;
        // Once per iteration, as the loop does: a starved group leaves XOFF when others made room.
        lab.switch.tick(lab.now, &mut lab.memory);
        for port in 0..PORTS {
            lab.transmit(port, 64);
            lab.complete(port, usize::MAX);
        }
        if lab.switch.frames_held() == 0 && lab.switch.next_deadline(lab.now) == Instant::NEVER {
            return;
        }
    }
    panic!("the switch does not drain: {:#?}", lab.seen());
}

/// Removes a port with all frames that wait for it. Another port takes its slot when the settings
/// name one there.
fn remove(lab: &mut Lab, port: usize, settings: &mut SwitchSettings) {
    take_down(lab, port);
    settings.ports[port] = PortSettings::vacant();
    lab.switch.apply(settings, lab.now);
}

#[derive(Debug, Clone)]
enum Step {
    Arrive { port: usize, to: usize, priority: u8, len: u16 },
    Pause { port: usize, enable: u8, quanta: u16 },
    Send { port: usize, room: usize },
    Complete { port: usize, frames: usize },
    Lose { port: usize, frames: usize },
    Wait { nanos: u64 },
    Down { port: usize },
    Remove { port: usize },
    Add { port: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let port = || 0..PORTS;
    let len = prop_oneof![Just(60_u16), Just(64), Just(65), Just(208), Just(209), Just(1514), 60_u16..1514];
    prop_oneof![
        12 => (port(), 0..PORTS + 2, prop_oneof![Just(3_u8), 0_u8..8], len)
            .prop_map(|(port, to, priority, len)| Step::Arrive { port, to, priority, len }),
        1 => (port(), any::<u8>(), prop_oneof![Just(0_u16), 1_u16..200])
            .prop_map(|(port, enable, quanta)| Step::Pause { port, enable, quanta }),
        4 => (port(), 0_usize..8).prop_map(|(port, room)| Step::Send { port, room }),
        4 => (port(), 0_usize..8).prop_map(|(port, frames)| Step::Complete { port, frames }),
        1 => (port(), 1_usize..4).prop_map(|(port, frames)| Step::Lose { port, frames }),
        4 => (0_u64..50_000).prop_map(|nanos| Step::Wait { nanos }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_invariants_hold_whatever_happens(
        steps in proptest::collection::vec(step(), 1..600),
        down in proptest::option::of((0_usize..600, 0..PORTS)),
    ) {
        let mut lab = Lab::new(&settings());
        for (n, step) in steps.into_iter().enumerate() {
            let step = match down {
                Some((at, port)) if at == n => Step::Down { port },
                _ => step,
            };
            match step {
                // Destinations beyond the ports: an unknown address, and broadcast.
                Step::Arrive { port, to, priority, len } if lab.switch.is_up(port) => {
                    let dst = if to > PORTS { MacAddr::BROADCAST } else { mac(to) };
                    lab.arrive(Frame { port, dst, priority, len });
                }
                Step::Arrive { .. } => {}
                Step::Pause { port, enable, quanta } => lab.send_pfc(port, Pfc { enable, quanta: [quanta; 8] }),
                Step::Send { port, room } if lab.switch.is_up(port) => lab.transmit(port, room),
                Step::Send { .. } => {}
                Step::Complete { port, frames } => lab.complete(port, frames),
                Step::Lose { port, frames } => lab.lose(port, frames),
                Step::Wait { nanos } => lab.now = lab.now + nanos,
                Step::Down { port } => take_down(&mut lab, port),
                Step::Remove { .. } | Step::Add { .. } => unreachable!("not among these steps"),
            }
            check(&mut lab);
        }
        drain(&mut lab);
        check(&mut lab);
        let s = lab.seen();
        let pools = s.ingress_pools.iter().chain(&s.egress_pools).chain([&s.headroom]);
        prop_assert_eq!(pools.map(|pool| pool.level.cells).sum::<u32>(), 0);
        check_conservation(&lab);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    /// The same while ports are removed and others take their slots, including at the end. Nothing
    /// is reserved here, so the pool cells that a group holds stay pool cells when its port is
    /// removed.
    #[test]
    fn the_invariants_hold_while_ports_are_removed_and_added(
        steps in proptest::collection::vec(
            prop_oneof![
                30 => step(),
                1 => (0..PORTS + 2).prop_map(|port| Step::Remove { port }),
                1 => (0..PORTS + 2).prop_map(|port| Step::Add { port }),
            ],
            1..600,
        ),
    ) {
        let mut all = settings();
        all.buffer.fixed_cells = 0;
        all.ports.extend([4, 5].map(|n| PortSettings { name: format!("p{n}"), ..all.ports[n - 2].clone() }));
        all.ports.iter_mut().for_each(|port| port.groups[3].reserved_cells = 0);
        // Two ports and their slots do not exist at the start.
        let mut now = SwitchSettings { ports: all.ports[..PORTS].to_vec(), ..all.clone() };
        let mut lab = Lab::new(&now);
        let mut removed = 0;
        for step in steps {
            let is_up = |lab: &Lab, port| lab.switch.is_up(port);
            match step {
                Step::Arrive { port, to, priority, len } if is_up(&lab, port) => {
                    let dst = if to > PORTS { MacAddr::BROADCAST } else { mac(to) };
                    lab.arrive(Frame { port, dst, priority, len });
                }
                Step::Pause { port, enable, quanta } if is_up(&lab, port) => {
                    lab.send_pfc(port, Pfc { enable, quanta: [quanta; 8] });
                }
                Step::Send { port, room } if is_up(&lab, port) => lab.transmit(port, room),
                Step::Complete { port, frames } => lab.complete(port, frames),
                Step::Lose { port, frames } => lab.lose(port, frames),
                Step::Wait { nanos } => lab.now = lab.now + nanos,
                Step::Remove { port } if port < now.ports.len() && !now.ports[port].is_vacant() => {
                    remove(&mut lab, port, &mut now);
                    removed += 1;
                }
                Step::Add { port } => {
                    let port = port.min(now.ports.len());
                    let new = all.ports[port].clone();
                    match now.ports.get_mut(port) {
                        Some(vacant) if vacant.is_vacant() => *vacant = new,
                        Some(_) => {}
                        None => now.ports.push(new),
                    }
                    lab.plug(now.ports.len());
                    lab.switch.apply(&now, lab.now);
                    lab.switch.port_up(port, Some(mac(port)), lab.now);
                }
                _ => {}
            }
            check(&mut lab);
        }
        for port in 0..now.ports.len() {
            if !now.ports[port].is_vacant() && lab.switch.is_up(port) {
                lab.send_pfc(port, Pfc { enable: 0xff, quanta: [0; 8] });
            }
        }
        for _ in 0..10_000 {
            lab.now = lab.now + 100_000;
            for port in (0..now.ports.len()).filter(|&port| !now.ports[port].is_vacant()) {
                lab.transmit(port, 64);
                lab.complete(port, usize::MAX);
            }
            if lab.switch.frames_held() == 0 {
                break;
            }
        }
        check(&mut lab);
        let s = lab.seen();
        let pools = s.ingress_pools.iter().chain(&s.egress_pools).chain([&s.headroom]);
        prop_assert_eq!(pools.map(|pool| pool.level.cells).sum::<u32>(), 0);
        let (received, transmitted, drops) = totals(&lab);
        prop_assert_eq!((received, s.removed_ports.ports >= u64::from(removed > 0)), (lab.sequence, true));
        prop_assert_eq!(received + s.flood_copies, transmitted + drops, "conservation (§7.5)");
    }
}
