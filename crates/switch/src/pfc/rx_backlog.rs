//! RX rings as ingress use: frames that wait in the rings of a port and that nobody has looked at yet.
//!
//! Rule: a loop that falls behind pauses its peers before the kernel has nowhere left to put their frames. When, after a
//! batch was taken, [`XOFF_FRAMES`] or more still wait, every no-drop group of the port is in XOFF, whatever it holds; once no more than
//! [`XON_FRAMES`] wait, its own cells decide again. What the kernel drops all the same, for want of an empty frame, is counted, and is
//! an event: at once, and then at most one a second while it lasts.
//!
//! ```text
//!            waiting ≥ XOFF_FRAMES
//!   Short ────────────────────────▶ Long (no-drop groups are in XOFF)
//!     ◀────────────────────────────
//!            waiting ≤ XON_FRAMES
//! ```
//! Source: docs/behavior.md, "RX rings".

use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// So many waiting frames are more than a loop that keeps up ever leaves: a millisecond of its work.
pub const XOFF_FRAMES: u32 = 1024;
/// So few are what comes in between two turns.
pub const XON_FRAMES: u32 = 256;
/// Events about frames that the kernel dropped are no closer together.
const EVENT_NS: Nanos = 1_000_000_000;

/// What waits in a port's RX rings, and what never got there.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RxBacklog {
    is_long: bool,
    /// Times that it became long.
    episodes: u64,
    /// Frames that the kernel dropped and that no event has told of.
    untold_frames: u64,
    next_event: Instant,
}

impl RxBacklog {
    /// So many frames still wait after a batch was taken. True: whether that is long has changed.
    #[inline]
    pub fn observe(&mut self, waiting: u32) -> bool {
        let is_long = if self.is_long { waiting > XON_FRAMES } else { waiting >= XOFF_FRAMES };
        let changed = is_long != self.is_long;
        self.episodes += u64::from(changed && is_long);
        self.is_long = is_long;
        changed
    }

    /// The no-drop groups of the port must be in XOFF.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.is_long
    }

    /// Times that it became so.
    pub fn episodes(&self) -> u64 {
        self.episodes
    }

    /// The kernel dropped `frames` more for want of an empty one. The frames that an event must tell of now, if it is time
    /// for one.
    pub fn kernel_dropped(&mut self, frames: u64, now: Instant) -> Option<u64> {
        self.untold_frames += frames;
        if self.untold_frames == 0 || now < self.next_event {
            return None;
        }
        self.next_event = now + EVENT_NS;
        Some(std::mem::take(&mut self.untold_frames))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole transition table: (long before, frames that wait) → (long after, a change).
    #[test]
    fn every_state_answers_every_length() {
        for (before, waiting, after) in [
            (false, 0, false),
            (false, XOFF_FRAMES - 1, false),
            (false, XOFF_FRAMES, true),
            (true, XOFF_FRAMES, true),
            (true, XON_FRAMES + 1, true),
            (true, XON_FRAMES, false),
            (true, 0, false),
        ] {
            let mut rings = RxBacklog { is_long: before, ..RxBacklog::default() };
            assert_eq!(rings.observe(waiting), before != after, "{waiting} frames, long before: {before}");
            assert_eq!((rings.is_long(), rings.episodes()), (after, u64::from(after && !before)));
        }
    }

    #[test]
    fn a_flood_of_drops_is_one_event_a_second() {
        let mut rings = RxBacklog::default();
        let at = |ms: u64| Instant(5_000_000_000 + ms * 1_000_000);
        let told: Vec<_> = [(0, 0), (0, 7), (10, 5), (999, 1), (1000, 1), (1500, 0), (2600, 0), (2700, 2)]
            .map(|(ms, frames)| rings.kernel_dropped(frames, at(ms)))
            .into();
        assert_eq!(told, [None, Some(7), None, None, Some(7), None, None, Some(2)]);
    }
}
