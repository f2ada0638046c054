//! A checkpoint has the tables as they were when it began, whatever moves while they are copied.

mod lab;

use lab::{Frame, Lab, mac, settings};
use switch::settings::{SwitchSettings, VlanList, VlanSettings};
use switch::{CopiedSlots, Switch};
use wire::mac::MacAddr;

/// Returns three ports with open groups.
fn three_ports() -> SwitchSettings {
    settings(3, 0, 1000, 0)
}

/// Returns a switch in which two frames wait for port 1, and of a flooded frame two copies.
fn with_queued_frames() -> Lab {
    let mut lab = Lab::new(&three_ports());
    [1, 2].into_iter().for_each(|port| lab.switch.hold(port, true));
    for dst in [mac(1), mac(1), MacAddr::BROADCAST] {
        lab.arrive(Frame { port: 0, dst, priority: 0, len: 100 });
    }
    lab
}

/// Returns the slots that are copied in slices of `work`.
fn copy(lab: &mut Lab, work: u32) -> Vec<CopiedSlots> {
    let mut slices = Vec::new();
    loop {
        let mut slots = CopiedSlots::default();
        let goes_on = lab.switch.copy_slots(work, &mut slots);
        slices.push(slots);
        if !goes_on {
            return slices;
        }
    }
}

fn count(slices: &[CopiedSlots]) -> usize {
    slices.iter().map(CopiedSlots::count).sum()
}

/// Frames, their copies with their originals, and the three hosts' addresses. Restored, the frames
/// are stored again.
#[test]
fn frames_that_leave_meanwhile_are_in_it() {
    for work in [1, 100, u32::MAX] {
        let mut lab = with_queued_frames();
        lab.switch.reserve_checkpoint();
        lab.switch.begin_checkpoint();
        [1, 2].into_iter().for_each(|port| lab.switch.hold(port, false));
        lab.turn();
        assert_eq!(lab.switch.frames_held(), 0);
        let slices = copy(&mut lab, work);
        assert_eq!(count(&slices), 2 + 1 + 2 + 2 + 3, "slices of {work}");
        assert!(slices.iter().all(|slots| lab.switch.restore_slots(slots)));
        assert_eq!(lab.switch.frames_held(), 3);
    }
}

/// Frames that leave with another tag than they came with: their edits are copied, too.
#[test]
fn tags_of_waiting_frames_are_in_it() {
    let plain = settings(2, 0, 1000, 0);
    let mut tagged = plain.clone();
    tagged.ports[0].vlan = VlanSettings::Access { pvid: 5 };
    tagged.ports[1].vlan = VlanSettings::Trunk { pvid: None, allowed: VlanList::of([5..=5]) };
    let copied = [plain, tagged].map(|settings| {
        let mut lab = Lab::new(&settings);
        lab.switch.hold(1, true);
        lab.switch.flush_fdb(None, None);
        (0..2).for_each(|_| lab.arrive(Frame { port: 0, dst: mac(1), priority: 0, len: 100 }));
        lab.switch.begin_checkpoint();
        count(&copy(&mut lab, u32::MAX))
    });
    assert_eq!(copied, [2 + 1, 2 + 2 + 1], "frames, their tags, and their sender");
}

#[test]
fn one_that_ended_copies_nothing() {
    let mut lab = with_queued_frames();
    lab.switch.begin_checkpoint();
    lab.switch.end_checkpoint();
    assert_eq!(count(&copy(&mut lab, u32::MAX)), 0);
    lab.switch.begin_checkpoint();
    let mut slots = CopiedSlots::default();
    assert!(lab.switch.copy_slots(8, &mut slots));
    assert_eq!(slots.count(), 1, "an eighth of the work");
    lab.switch.begin_checkpoint();
    assert_eq!(count(&copy(&mut lab, u32::MAX)), 10, "again from the start");
    lab.switch.begin_checkpoint();
    assert!(!lab.switch.copy_slots(u32::MAX, &mut slots));
    assert_eq!(slots.count(), 10, "the earlier slices are gone");
}

/// A forged checkpoint may have more slots than its switch.
#[test]
fn slots_that_a_switch_has_not_are_refused() {
    let mut lab = with_queued_frames();
    lab.switch.begin_checkpoint();
    let with_copies = copy(&mut lab, u32::MAX);
    let macs = [mac(0), mac(1), mac(2)];
    let mut other = Switch::new(&three_ports(), &macs, lab.frames);
    assert!(!other.restore_slots(&with_copies[0]), "no copies of flooded frames");

    let mut lab = Lab::new(&three_ports());
    lab.switch.hold(1, true);
    (0..3).for_each(|_| lab.arrive(Frame { port: 0, dst: mac(1), priority: 0, len: 100 }));
    lab.switch.begin_checkpoint();
    let without_copies = copy(&mut lab, u32::MAX);
    let mut same = Switch::new(&three_ports(), &macs, lab.frames);
    assert!(same.restore_slots(&without_copies[0]));
    let mut smaller = Switch::new(&three_ports(), &macs, 1);
    assert!(!smaller.restore_slots(&without_copies[0]), "a smaller memory");
}
