//! Frames that the kernel lost, in cases that the loop's own tests
//! (`crates/dataplane/tests/iterations.rs`) cannot show.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, OPEN, mac};
use switch::Instant;
use switch::settings::{GroupSettings, Threshold};

/// A PFC frame that was in flight when its port went down, and is reported lost only then, is not
/// sent again.
#[test]
fn what_a_port_that_is_down_has_lost_wakes_nobody() {
    let mut settings = lab::settings(2, 0b0000_1000, 1000, 100);
    settings.ports[0].groups[3] = GroupSettings { xoff: Threshold::Static(1), headroom_cells: 50, ..OPEN };
    let mut lab = Lab::new(&settings);
    lab.turn();
    lab.switch.hold(1, true);
    (0..3).for_each(|_| lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 64 }));
    lab.transmit(0, 64);
    assert_eq!(lab.pfc_sent(0).len(), 1);
    lab.switch.port_down(0, lab.now, &mut lab.memory);
    lab.lose(0, 1);
    assert_eq!((lab.switch.ports_with_work() & 1, lab.switch.deadline_of(0, lab.now)), (0, Instant::NEVER));
    let port = &lab.snapshot().ports[0];
    assert_eq!((port.kernel_lost_pfc_frames, port.groups[3].xoff), (1, true));
}
