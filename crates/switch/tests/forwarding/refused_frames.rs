//! Refused no-drop frames: their sender is paused, and an event reports it.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, OPEN, mac};
use switch::settings::{GroupSettings, Threshold};

/// The shared pool and the headroom pool are used up by group 3 of port 1, which is in XOFF, so
/// group 3 of port 0 finds no room.
fn crowded() -> Lab {
    let mut settings = lab::settings(3, 0b0000_1000, 100, 20);
    for port in [0, 1] {
        settings.ports[port].groups[3] =
            GroupSettings { xoff: Threshold::Static(100), headroom_cells: 20, ..OPEN };
    }
    let mut lab = Lab::new(&settings);
    lab.turn();
    lab.switch.hold(2, true);
    (0..120).for_each(|_| lab.arrive(Frame { port: 1, dst: mac(2), priority: 3, len: 64 }));
    lab
}

#[test]
fn a_refusal_pauses_a_sender_whose_group_holds_nothing() {
    let mut lab = crowded();
    lab.turn();
    assert!(lab.pfc_sent(0).is_empty());
    let frame = Frame { port: 0, dst: mac(2), priority: 3, len: 64 };
    lab.arrive(frame);
    lab.turn();
    let sent = lab.pfc_sent(0);
    assert!(matches!(sent[..], [pfc] if pfc.enable & 8 != 0 && pfc.quanta[3] > 0), "{sent:?}");
    let group = &lab.snapshot().ports[0].groups[3];
    assert_eq!((group.xoff, group.xoff_episodes, group.dropped.frames), (true, 1, 1));
    // Room for the frame alone is not room for what arrives before the next pause takes effect.
    lab.switch.hold(2, false);
    lab.transmit(2, 110);
    lab.complete(2, 19);
    lab.switch.tick(lab.now, &mut lab.memory);
    assert!(lab.snapshot().ports[0].groups[3].xoff);
    (0..2).for_each(|_| lab.turn());
    assert!(!lab.snapshot().ports[0].groups[3].xoff);
    let sent = lab.pfc_sent(0);
    assert!(sent.last().is_some_and(|pfc| pfc.enable & 8 != 0 && pfc.quanta[3] == 0), "{sent:?}");
    lab.arrive(frame);
    lab.turn();
    assert_eq!(lab.snapshot().ports[0].groups[3].dropped.frames, 1);
}

/// Such a pause would never end, and would not help.
#[test]
fn a_frame_that_can_never_fit_pauses_nobody() {
    let mut settings = lab::settings(2, 0b0000_1000, 100, 20);
    settings.ports[0].groups[3] = GroupSettings { xoff: Threshold::Static(2), headroom_cells: 2, ..OPEN };
    let mut lab = Lab::new(&settings);
    lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 9000 });
    lab.turn();
    let group = &lab.snapshot().ports[0].groups[3];
    assert_eq!((group.xoff, group.dropped.frames), (false, 1));
}
