//! RX backlog that persists.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, mac};
use switch::pfc::rx_backlog::{FORCE_XOFF, XOFF_FRAMES, XON_FRAMES};

const LOSSY: Frame = Frame { port: 0, dst: mac_of(1), priority: 1, len: 64 };
const NO_DROP: Frame = Frame { priority: 3, ..LOSSY };

const fn mac_of(n: u8) -> wire::mac::MacAddr {
    wire::mac::MacAddr([2, 0, 0, 0, 9, n])
}

struct Rings(Lab);

impl Rings {
    fn new() -> Self {
        assert_eq!(mac(1), mac_of(1));
        let mut lab = Lab::new(&lab::settings(2, 0b0000_1000, 4000, 400));
        lab.turn();
        Self(lab)
    }

    /// Takes frames from the rings, after which `waiting` frames remain. Returns true if the
    /// no-drop group is in XOFF.
    fn take(&mut self, frames: &[(Frame, u32)], waiting: u32) -> bool {
        let Self(lab) = self;
        for &(frame, times) in frames {
            (0..times).for_each(|_| lab.arrive(frame));
        }
        lab.switch.observe_rx_backlog(0, waiting, lab.now);
        lab.turn();
        lab.snapshot().ports[0].groups[3].xoff
    }
}

/// One lossy host keeps the RX backlog long: it pauses the no-drop traffic of others no longer than
/// it takes to find out whose frames wait.
#[test]
fn a_lossy_flood_does_not_hold_no_drop_priorities_in_xoff() {
    let mut rings = Rings::new();
    let waiting = 2 * XOFF_FRAMES;
    let xoff = (0..1000).filter(|_| rings.take(&[(LOSSY, 64)], waiting)).count();
    assert!(rings.0.snapshot().ports[0].groups[3].xoff_episodes == 1);
    assert!((1..=3 * 2 * XOFF_FRAMES as usize / 64).contains(&xoff), "{xoff} of 1000 turns");
}

#[test]
fn no_drop_frames_that_wait_hold_their_group_in_xoff() {
    let mut rings = Rings::new();
    // A loop that falls behind: half of the backlog is no-drop.
    for turn in 0..200 {
        assert!(rings.take(&[(LOSSY, 32), (NO_DROP, 32)], 2 * XOFF_FRAMES), "turn {turn}");
    }
    // The sender has received the pause; the frames that it had sent are taken, and lossy frames go
    // on.
    let ends = (0..200).find(|_| !rings.take(&[(LOSSY, 64)], 2 * XOFF_FRAMES));
    assert!(ends.is_some());
    // The sender sends again, and refills the rings.
    let begins = (0..200).find(|_| rings.take(&[(NO_DROP, 64)], 2 * XOFF_FRAMES));
    assert!(begins.is_some());
    // A few do not: with them the rings hold fewer frames than the loop leaves in any iteration.
    assert!(!rings.take(&[], XON_FRAMES));
    assert!(rings.take(&[], XOFF_FRAMES));
}

/// Nothing is taken, so nothing is known: a loop that stalls keeps its senders paused.
#[test]
fn what_waits_and_is_not_taken_counts_as_no_drop() {
    let mut rings = Rings::new();
    assert!((0..100).all(|_| rings.take(&[], XOFF_FRAMES)));
}

/// Frames taken meanwhile make no difference: the backlog cannot leave by an I/O loop that stalls.
#[test]
fn an_owner_may_hold_senders_back() {
    let mut rings = Rings::new();
    assert!((0..100).all(|_| rings.take(&[(LOSSY, 64)], FORCE_XOFF)));
    assert!(!rings.take(&[(LOSSY, 64)], 0));
}
