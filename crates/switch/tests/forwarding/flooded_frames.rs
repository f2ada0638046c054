//! Flooded frames are stored and charged once at ingress, so headroom that is large enough for
//! unicast is large enough for them.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, OPEN};
use switch::settings::{GroupSettings, PRIORITIES, SwitchSettings, Threshold};
use switch::{DropReason, FrameMemory, MaxFrame};
use wire::mac::MacAddr;
use wire::pause::Pfc;

/// An address that is not in the FDB.
const UNKNOWN: MacAddr = MacAddr([2, 0, 0, 0, 9, 99]);
const FRAME: Frame = Frame { port: 0, dst: UNKNOWN, priority: 3, len: 64 };

fn settings(ports: usize, headroom_cells: u32) -> SwitchSettings {
    let mut settings = lab::settings(ports, 0b0000_1000, 1000, headroom_cells);
    for port in &mut settings.ports {
        port.groups[3] = GroupSettings { xoff: Threshold::Static(1), headroom_cells, ..OPEN };
    }
    settings
}

/// Returns a lab in which nothing leaves.
fn held(settings: &SwitchSettings) -> Lab {
    let mut lab = Lab::new(settings);
    lab.turn();
    (0..settings.ports.len()).for_each(|port| lab.switch.hold(port, true));
    lab
}

/// Sends all held frames, and checks that nothing remains charged.
fn drain(lab: &mut Lab) {
    let ports = lab.with_kernel.len();
    (0..ports).for_each(|port| lab.switch.hold(port, false));
    for _ in 0..100 {
        lab.turn();
    }
    assert_eq!((lab.switch.frames_held(), lab.switch.cells_held()), (0, [0, 0]));
    assert_eq!(lab.memory.free_frames(), lab.frames);
    let s = lab.snapshot();
    let pools = s.ingress_pools.iter().chain(&s.egress_pools).chain([&s.headroom]);
    assert_eq!(pools.map(|pool| pool.level.cells).sum::<u32>(), 0);
}

/// Returns the drops, without the frames by which the hosts' addresses were learned.
fn drops(lab: &mut Lab) -> Vec<(DropReason, u64)> {
    let s = lab.snapshot();
    let of =
        |reason: DropReason| -> u64 { s.ports.iter().map(|port| port.drops[reason as usize].frames).sum() };
    let all = DropReason::ALL.into_iter().filter(|&reason| reason != DropReason::Filtered);
    all.map(|reason| (reason, of(reason))).filter(|&(_, frames)| frames > 0).collect()
}

/// 8 ports, headroom for the worst case at 25G and 10 m: what still arrives after XOFF fits,
/// flooded or not.
#[test]
fn headroom_holds_what_arrives_after_xoff_though_it_is_flooded() {
    let mut lab = held(&settings(8, 234));
    lab.arrive(FRAME);
    assert!(lab.snapshot().ports[0].groups[3].xoff);
    (0..233).for_each(|_| lab.arrive(FRAME));
    let s = lab.snapshot();
    let group = &s.ports[0].groups[3];
    assert_eq!((group.headroom.cells, group.total.cells), (233, 234));
    assert_eq!(s.ports[1..].iter().map(|port| port.queues[3].level.cells).sum::<u32>(), 7 * 234);
    assert_eq!(lab.switch.frames_held(), 234, "each is stored once");
    drain(&mut lab);
    assert_eq!(drops(&mut lab), []);
    assert_eq!(lab.sent, 7 * 234 + 2, "with XOFF and XON");
    assert_eq!(lab.seen().flood_copies, 6 * 234);
}

/// A refused flooded frame is one drop, not one for each port that it would have left by.
#[test]
fn a_refusal_at_ingress_is_one_drop() {
    let mut lab = held(&settings(4, 1));
    (0..5).for_each(|_| lab.arrive(FRAME));
    assert_eq!(drops(&mut lab), [(DropReason::IngressNoDrop, 3)]);
    assert_eq!(lab.seen().flood_copies, 2 * 2);
    drain(&mut lab);
}

/// The cells at ingress go with the last copy: sent, lost by the kernel, or dropped with its port.
#[test]
fn the_last_copy_releases_the_frame() {
    let mut lab = held(&settings(5, 100));
    lab.arrive(FRAME);
    lab.switch.hold(1, false);
    lab.transmit(1, 8);
    lab.complete(1, 8);
    lab.switch.hold(2, false);
    lab.transmit(2, 8);
    assert_eq!((lab.switch.frames_held(), lab.switch.cells_held()), (2, [1, 3]));
    lab.lose(2, 8);
    lab.switch.port_down(3, lab.now, &mut lab.memory);
    assert_eq!((lab.switch.frames_held(), lab.switch.cells_held()), (1, [1, 1]));
    assert_eq!(lab.snapshot().ports[0].groups[3].total.cells, 1);
    lab.switch.hold(4, false);
    lab.transmit(4, 8);
    lab.switch.port_down(4, lab.now, &mut lab.memory);
    let unsent = lab.with_kernel[4].pop().expect("a copy");
    lab.switch.abort_tx(4, unsent.frame, lab.now, &mut lab.memory);
    assert_eq!(lab.snapshot().ports[0].groups[3].total.cells, 0);
    assert_eq!(drops(&mut lab), [(DropReason::PortDown, 2)]);
    lab.switch.port_up(3, None, lab.now);
    lab.switch.port_up(4, None, lab.now);
    drain(&mut lab);
}

/// A full queue loses its copy only.
#[test]
fn each_queue_decides_for_its_own_copy() {
    let mut settings = settings(4, 100);
    settings.ports[2].queues = [lab::queue_of(Threshold::Static(1)); PRIORITIES];
    let mut lab = held(&settings);
    (0..3).for_each(|_| lab.arrive(FRAME));
    assert_eq!(drops(&mut lab), [(DropReason::TailDrop, 2)]);
    assert_eq!(lab.switch.cells_held(), [3, 7]);
    drain(&mut lab);
}

/// Copies that are being sent never need more memory than is reserved for them, whatever waits.
#[test]
fn copies_are_sent_within_the_memory_that_is_reserved() {
    let mut settings = settings(3, 600);
    settings.buffer.total_cells = 600;
    settings.ports.iter_mut().for_each(|port| port.groups[3].xoff = Threshold::Static(0));
    let mut lab = held(&settings);
    lab.switch.set_max_frame(MaxFrame { longest_bytes: 256, chunk_bytes: 128 });
    (0..600).for_each(|_| lab.arrive(FRAME));
    // Only the memory that `frames_needed` reserves is left.
    let kept: Vec<_> = (0..64).map(|_| lab.memory.alloc().expect("a spare frame")).collect();
    (1..3).for_each(|port| lab.switch.hold(port, false));
    lab.transmit(1, usize::MAX);
    lab.transmit(2, usize::MAX);
    assert_eq!([1, 2].map(|port: usize| lab.with_kernel[port].len()), [128; 2], "256 chunks a port");
    lab.transmit(1, usize::MAX);
    assert_eq!(lab.with_kernel[1].len(), 128, "until some are sent");
    kept.into_iter().for_each(|frame| lab.memory.free(frame));
    drain(&mut lab);
    assert_eq!(drops(&mut lab), []);
}

/// A copy waits in its queue like any frame: behind what came before, and for its priority's pause.
#[test]
fn copies_and_unicast_keep_their_order() {
    let mut lab = held(&settings(4, 100));
    for _ in 0..5 {
        lab.arrive(FRAME);
        lab.arrive(Frame { dst: lab::mac(1), ..FRAME });
    }
    lab.send_pfc(2, Pfc { enable: 8, quanta: [100; 8] });
    (1..4).for_each(|port| lab.switch.hold(port, false));
    (1..4).for_each(|port| lab.transmit(port, 7));
    assert_eq!([1, 2, 3].map(|port: usize| lab.with_kernel[port].len()), [7, 0, 5]);
    lab.send_pfc(2, Pfc { enable: 8, quanta: [0; 8] });
    drain(&mut lab);
    assert_eq!(drops(&mut lab), []);
}
