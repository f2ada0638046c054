//! Time in XOFF: what a group counts is what its peer was asked to wait.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, OPEN, mac};
use switch::settings::{GroupSettings, Threshold};

const MS: u64 = 1_000_000;
/// An iteration of the lab.
const TURN: u64 = 1_000;

/// XOFF at ten cells, and XON as soon as fewer are held.
fn lab() -> Lab {
    let mut settings = lab::settings(2, 0b0000_1000, 100, 20);
    settings.ports[0].groups[3] =
        GroupSettings { xoff: Threshold::Static(10), headroom_cells: 20, xon_offset_cells: 1, ..OPEN };
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    lab
}

/// Lets ten frames of a cell wait for port 1, so that group 3 of port 0 is in XOFF.
fn fill(lab: &mut Lab) {
    (0..10).for_each(|_| lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 64 }));
    lab.turn();
}

fn drain(lab: &mut Lab) {
    lab.switch.hold(1, false);
    lab.transmit(1, 10);
    lab.complete(1, 10);
    lab.switch.hold(1, true);
    lab.turn();
}

#[test]
fn episodes_add_up_and_a_lasting_one_counts_to_now() {
    let mut lab = lab();
    let time = |lab: &mut Lab| {
        let group = &lab.snapshot().ports[0].groups[3];
        (group.xoff, group.xoff_episodes, group.xoff_ns)
    };
    assert_eq!(time(&mut lab), (false, 0, 0));
    fill(&mut lab);
    lab.now = lab.now + 3 * MS;
    assert_eq!(time(&mut lab), (true, 1, TURN + 3 * MS));
    lab.now = lab.now + 2 * MS;
    assert_eq!(time(&mut lab), (true, 1, TURN + 5 * MS), "a snapshot does not end it");
    drain(&mut lab);
    assert_eq!(time(&mut lab), (false, 1, TURN + 5 * MS));
    lab.now = lab.now + 7 * MS;
    assert_eq!(time(&mut lab), (false, 1, TURN + 5 * MS));
    fill(&mut lab);
    lab.now = lab.now + MS;
    assert_eq!(time(&mut lab), (true, 2, 2 * TURN + 6 * MS));
    let others = lab.snapshot().ports.iter().flat_map(|port| &port.groups).map(|group| group.xoff_ns);
    assert_eq!(others.sum::<u64>(), 2 * TURN + 6 * MS);
}
