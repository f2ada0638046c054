//! Which queues a received pause stops: the queues that frames of its priority may be in, whichever
//! port classified them and whatever maps applied when they arrived.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, mac, settings};
use switch::settings::SwitchSettings;
use wire::pause::Pfc;

/// Three ports that carry priority 3 as no-drop; each maps priority 3 to its own queue.
fn with_queues_of_three(queues: [u8; 3]) -> SwitchSettings {
    let mut settings = settings(3, 1 << 3, 1000, 100);
    for (port, queue) in settings.ports.iter_mut().zip(queues) {
        port.classify.dot1p_to_queue[3] = queue;
    }
    settings
}

fn pause(lab: &mut Lab, port: usize, quanta: u16) {
    lab.send_pfc(port, Pfc { enable: 1 << 3, quanta: [quanta; 8] });
}

/// Transmits on port 1 and returns the number of frames of priority 3.
fn leave(lab: &mut Lab) -> usize {
    lab.transmit(1, usize::MAX);
    let left = lab.with_kernel[1].len();
    lab.complete(1, usize::MAX);
    left
}

#[test]
fn the_map_of_the_port_that_classified_a_frame_counts() {
    let mut lab = Lab::new(&with_queues_of_three([5, 3, 3]));
    pause(&mut lab, 1, u16::MAX);
    for port in [0, 2] {
        (0..4).for_each(|_| lab.arrive(Frame { port, dst: mac(1), priority: 3, len: 100 }));
    }
    assert_eq!(leave(&mut lab), 0, "queues 3 and 5 wait");
    pause(&mut lab, 1, 0);
    assert_eq!(leave(&mut lab), 8);
}

#[test]
fn frames_that_wait_stay_paused_through_a_reload_of_the_maps() {
    let mut lab = Lab::new(&with_queues_of_three([3; 3]));
    pause(&mut lab, 1, u16::MAX);
    (0..20).for_each(|_| lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 100 }));
    lab.switch.apply(&with_queues_of_three([6; 3]), lab.now);
    assert_eq!(leave(&mut lab), 0, "the queue of the map before waits");
    pause(&mut lab, 1, 0);
    assert_eq!(leave(&mut lab), 20);
    // The old queue has drained: it belongs to another priority now.
    pause(&mut lab, 1, u16::MAX);
    let mut settings = with_queues_of_three([6; 3]);
    settings.ports.iter_mut().for_each(|port| port.classify.dot1p_to_queue[5] = 3);
    lab.switch.apply(&settings, lab.now);
    lab.arrive(Frame { port: 0, dst: mac(1), priority: 5, len: 100 });
    assert_eq!(leave(&mut lab), 1);
}
