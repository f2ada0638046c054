//! RX backlog as ingress use: frames that wait in the RX rings of a port and that have not been
//! parsed yet.
//!
//! Rule: a loop that falls behind pauses its peers before the kernel runs out of buffers for their
//! frames. When, after a batch was taken, [`XOFF_FRAMES`] or more still wait, every no-drop group
//! of the port is in XOFF, however much it holds. Once no more than [`XON_FRAMES`] wait, its own
//! cells decide again. The share of no-drop frames in the backlog is estimated from the frames that
//! are taken: each time that as many were taken as waited, the no-drop frames among them give the
//! number of no-drop frames that wait now, and only these count from then on. So a backlog of lossy
//! frames holds no group longer than that. What the kernel drops anyway, for want of a buffer, is
//! counted and is an event: at once, and then at most once a second while it lasts.
//!
//! ```text
//!            waiting ≥ XOFF_FRAMES                                no-drop ≤ XON_FRAMES
//!   Short ────────────────────────▶ Held (no-drop groups in XOFF) ──────────────────────▶ Lossy
//!     ◀────────────────────────────                             ◀──────────────────────
//!            waiting ≤ XON_FRAMES                                no-drop ≥ XOFF_FRAMES
//! ```
//! From either of the others it is short again once no more than XON_FRAMES wait.
//!
//! Because of the backlog a frame may be older than it seems. It arrived after the rings were last
//! empty when a batch had been taken, which is recorded.
//!
//! Source: docs/behavior.md, "RX rings".

use crate::time::{Instant, Nanos};
use serde::{Deserialize, Serialize};

/// Backlog that a loop which keeps up never leaves: a millisecond of its work.
pub const XOFF_FRAMES: u32 = 1024;
/// Backlog that arrives between two iterations.
pub const XON_FRAMES: u32 = 256;
/// Replaces the number of waiting frames: peers must be held, whatever the backlog.
pub const FORCE_XOFF: u32 = u32::MAX;
/// Minimum interval between events about frames that the kernel dropped.
const EVENT_NS: Nanos = 1_000_000_000;

/// Backlog of a port's RX rings, and frames that the kernel dropped before them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RxBacklog {
    is_long: bool,
    /// True if the backlog keeps the no-drop groups of the port in XOFF.
    forces_xoff: bool,
    /// Number of times that it began to hold them.
    episodes: u64,
    /// Frames taken when this sample began, and how many more complete it.
    since: TakenFrames,
    sample_frames: u32,
    /// Frames that the kernel dropped and that no event has reported.
    unreported_frames: u64,
    next_event: Instant,
    /// True if frames remained when a batch was last taken, and when the iteration began that last
    /// left none.
    has_frames: bool,
    empty_at: Instant,
}

/// Frames that were taken from the rings of a port since the start.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub struct TakenFrames {
    /// Frames of all groups.
    pub frames: u64,
    /// Frames of groups whose peer is paused when they fill.
    pub no_drop_frames: u64,
}

impl RxBacklog {
    /// Updates the backlog after a batch was taken: `waiting` frames remain, and `taken` returns
    /// the frames taken so far. Returns true if `forces_xoff` has changed.
    #[inline]
    pub fn observe(&mut self, waiting: u32, taken: impl FnOnce() -> TakenFrames) -> bool {
        let is_short = !self.is_long && waiting < XOFF_FRAMES;
        !is_short && self.observe_long(waiting, taken())
    }

    /// Updates when the rings were last empty, given the frames that remain after a batch was taken
    /// and when the loop served the port before.
    #[inline]
    pub fn record_empty(&mut self, waiting: u32, iterated: Instant) {
        let has_frames = waiting > 0;
        if has_frames && !self.has_frames {
            self.empty_at = iterated;
        }
        self.has_frames = has_frames;
    }

    /// Returns a time after which every frame of the present batch has arrived, given when the loop
    /// served the port before.
    #[inline]
    pub fn empty_at(&self, iterated: Instant) -> Instant {
        if self.has_frames { self.empty_at } else { iterated }
    }

    #[cold]
    fn observe_long(&mut self, waiting: u32, taken: TakenFrames) -> bool {
        let held = self.forces_xoff;
        if waiting <= XON_FRAMES {
            (self.is_long, self.forces_xoff) = (false, false);
            return held;
        }
        let frames = taken.frames - self.since.frames;
        if !self.is_long || waiting == FORCE_XOFF {
            (self.is_long, self.forces_xoff) = (true, true);
        } else if frames < self.sample_frames.into() {
            return false;
        } else {
            // A priority may have become no-drop meanwhile, or lossy.
            let no_drop_frames = taken.no_drop_frames.saturating_sub(self.since.no_drop_frames).min(frames);
            let waiting_no_drop = u64::from(waiting) * no_drop_frames / frames;
            let most = if self.forces_xoff { XON_FRAMES } else { XOFF_FRAMES - 1 };
            self.forces_xoff = waiting_no_drop > most.into();
        }
        self.since = taken;
        self.sample_frames = if waiting == FORCE_XOFF { XOFF_FRAMES } else { waiting };
        let changed = held != self.forces_xoff;
        self.episodes += u64::from(changed && self.forces_xoff);
        changed
    }

    /// True if the no-drop groups of the port must be in XOFF.
    #[inline]
    pub fn forces_xoff(&self) -> bool {
        self.forces_xoff
    }

    /// Returns how often the backlog became long.
    pub fn episodes(&self) -> u64 {
        self.episodes
    }

    /// Counts `frames` more that the kernel dropped for want of a buffer, or in closed rings: these
    /// are the last. Returns the frames that an event must report now, if one is due.
    pub fn kernel_dropped(&mut self, frames: u64, is_last: bool, now: Instant) -> Option<u64> {
        self.unreported_frames += frames;
        if self.unreported_frames == 0 || (now < self.next_event && !is_last) {
            return None;
        }
        self.next_event = now + EVENT_NS;
        Some(std::mem::take(&mut self.unreported_frames))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole transition table: (long before, waiting frames) → (long after, a change).
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
            let mut rings =
                RxBacklog { is_long: before, forces_xoff: before, sample_frames: 1, ..RxBacklog::default() };
            let changed = rings.observe(waiting, TakenFrames::default);
            assert_eq!(changed, before != after, "{waiting} frames, long before: {before}");
            assert_eq!((rings.forces_xoff(), rings.episodes()), (after, u64::from(after && !before)));
        }
    }

    /// (held before, waiting frames, frames taken of a sample of 100, no-drop frames of these) →
    /// held after.
    #[test]
    fn no_drop_frames_of_a_whole_sample_decide() {
        for (before, waiting, frames, no_drop_frames, after) in [
            (true, 1024, 99, 0, true), // no whole sample
            (true, 1024, 100, 0, false),
            (true, 1024, 100, 25, false), // 256 of 1024
            (true, 1024, 100, 26, true),
            (false, 2046, 100, 50, false), // 1023 of 2046
            (false, 2048, 100, 50, true),
        ] {
            let mut rings =
                RxBacklog { is_long: true, forces_xoff: before, sample_frames: 100, ..RxBacklog::default() };
            let changed = rings.observe(waiting, || TakenFrames { frames, no_drop_frames });
            assert_eq!(
                (rings.forces_xoff(), changed),
                (after, before != after),
                "{no_drop_frames} of {frames}"
            );
            assert_eq!(rings.episodes(), u64::from(after && !before), "{no_drop_frames} of {frames}");
        }
    }

    /// As many frames as waited, or [`XOFF_FRAMES`] after peers were held in any case.
    #[test]
    fn the_next_sample_is_as_long_as_the_backlog() {
        for (waiting, sample_frames) in [(2000, 2000), (FORCE_XOFF, 1024)] {
            let mut rings = RxBacklog::default();
            assert!(rings.observe(waiting, TakenFrames::default));
            let mut lossy = |frames| rings.observe(1500, || TakenFrames { frames, no_drop_frames: 0 });
            assert_eq!([lossy(sample_frames - 1), lossy(sample_frames)], [false, true], "{waiting}");
        }
    }

    /// Iterations at 0, 10, 20 …, each of which leaves a number of frames in the rings. Then what
    /// the next one takes arrived after the iteration that last left none.
    #[test]
    fn what_is_taken_arrived_after_the_rings_were_empty() {
        for (left, after) in [
            (vec![0], 0),
            (vec![0, 0, 0], 20),
            (vec![0, 5, 3], 0),
            (vec![0, 5, 0, 2, 2], 20),
            (vec![3, 2, 1], 0),
        ] {
            let mut rings = RxBacklog::default();
            for (number, &waiting) in left.iter().enumerate() {
                rings.record_empty(waiting, Instant((number as u64 * 10).saturating_sub(10)));
            }
            let last = Instant((left.len() as u64 - 1) * 10);
            assert_eq!(rings.empty_at(last), Instant(after), "{left:?}");
        }
    }

    #[test]
    fn a_flood_of_drops_is_one_event_a_second() {
        let mut rings = RxBacklog::default();
        let at = |ms: u64| Instant(5_000_000_000 + ms * 1_000_000);
        let reported: Vec<_> =
            [(0, 0), (0, 7), (10, 5), (999, 1), (1000, 1), (1500, 0), (2600, 0), (2700, 2)]
                .map(|(ms, frames)| rings.kernel_dropped(frames, false, at(ms)))
                .into();
        assert_eq!(reported, [None, Some(7), None, None, Some(7), None, None, Some(2)]);
    }
}
