//! The fill policy: how many chunks the fill ring of a queue should hold.
//!
//! Rule: the fill ring must already hold what a stalled loop cannot replace. So it holds twice the
//! frames that arrive during the longest recent stall at the highest recent rate. More costs speed:
//! the kernel uses the posted chunks in turn, so all of them are in the cache's working set.
//! Source: docs/kernel/af-xdp.md, "The fill ring".
//!
//! Nothing is known at the start: a stall of [`ASSUMED_STALL_NS`] at [`ASSUMED_RATE_PPS`] is
//! assumed, and the assumption fades over seconds as measurements replace it.

use switch::{Instant, Nanos};

/// Chunks that are posted even where almost nothing arrives, unless the user configures more.
pub(crate) const FLOOR_FRAMES: u32 = 512;
/// The assumed stall at the start.
const ASSUMED_STALL_NS: Nanos = 5_000_000;
/// The assumed rate at the start, in frames per second.
const ASSUMED_RATE_PPS: u64 = 1_000_000;
/// The shortest time over which a rate is measured.
const WINDOW_NS: Nanos = 1_000_000;
/// The time in which an assumed value falls to 1/e.
const FORGET_ASSUMED_NS: Nanos = 1_000_000_000;
/// The time in which a measured value falls to 1/e: a stall or a burst is likely to recur.
const FORGET_MEASURED_NS: Nanos = 30_000_000_000;

/// The estimate of the chunks that one fill ring needs.
#[derive(Debug)]
pub(crate) struct FillPolicy {
    floor: u32,
    ceiling: u32,
    rate: Peak,
    stall: Peak,
    window_start: Instant,
    window_frames: u64,
    last_call: Option<Instant>,
    /// The last call found frames, so the loop had no reason to sleep since.
    busy: bool,
    target: u32,
}

/// The highest recent value, next to an initial assumption that fades faster.
#[derive(Debug)]
struct Peak {
    assumed: f64,
    measured: f64,
}

impl Peak {
    fn fade(&mut self, elapsed: Nanos) {
        self.assumed *= (1.0 - elapsed as f64 / FORGET_ASSUMED_NS as f64).max(0.0);
        self.measured *= (1.0 - elapsed as f64 / FORGET_MEASURED_NS as f64).max(0.0);
    }

    fn see(&mut self, value: f64) {
        self.measured = self.measured.max(value);
    }

    fn value(&self) -> f64 {
        self.assumed.max(self.measured)
    }
}

impl FillPolicy {
    /// Creates the policy of a fill ring that holds `floor` to `ceiling` chunks.
    pub(crate) fn new(floor: u32, ceiling: u32) -> FillPolicy {
        FillPolicy {
            floor: floor.min(ceiling),
            ceiling,
            rate: Peak { assumed: ASSUMED_RATE_PPS as f64, measured: 0.0 },
            stall: Peak { assumed: ASSUMED_STALL_NS as f64, measured: 0.0 },
            window_start: Instant(0),
            window_frames: 0,
            last_call: None,
            busy: false,
            target: ceiling,
        }
    }

    /// Sets the bounds to `floor` and `ceiling` chunks.
    pub(crate) fn set_bounds(&mut self, floor: u32, ceiling: u32) {
        (self.floor, self.ceiling) = (floor.min(ceiling), ceiling);
        self.target = self.target.clamp(self.floor, self.ceiling);
    }

    /// Returns the chunks to hold at present.
    pub(crate) fn target(&self) -> u32 {
        self.target
    }

    /// Records an iteration at `now` that found `waiting` frames in the RX ring and takes `taken`
    /// of them.
    #[inline]
    pub(crate) fn observe(&mut self, now: Instant, waiting: u32, taken: u32) {
        let Some(last_call) = self.last_call.replace(now) else {
            self.window_start = now;
            return;
        };
        if self.busy {
            self.stall.see(now.since(last_call) as f64);
        } else if waiting > 0 {
            // The loop may have slept: only the time in which frames accumulated counts as a stall.
            let piled_up = f64::from(waiting) / self.rate.value() * 1e9;
            self.stall.see(piled_up.min(now.since(last_call) as f64));
        }
        self.busy = taken > 0;
        self.window_frames += u64::from(taken);
        let elapsed = now.since(self.window_start);
        if elapsed >= WINDOW_NS {
            self.close_window(now, elapsed);
        }
    }

    fn close_window(&mut self, now: Instant, elapsed: Nanos) {
        self.rate.fade(elapsed);
        self.stall.fade(elapsed);
        self.rate.see(self.window_frames as f64 * 1e9 / elapsed as f64);
        self.window_start = now;
        self.window_frames = 0;
        let need = 2.0 * self.rate.value() * self.stall.value() / 1e9;
        self.target = (need as u32).clamp(self.floor, self.ceiling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    /// Runs a loop with an iteration every `turn` ns for `time` ns, which takes `frames` each time.
    fn run(policy: &mut FillPolicy, start: Instant, time: Nanos, turn: Nanos, frames: u32) -> Instant {
        let mut now = start;
        while now.since(start) < time {
            policy.observe(now, frames, frames);
            now = now + turn;
        }
        now
    }

    #[test]
    fn generous_at_first() {
        // 2 × 1 Mpps × 5 ms = 10000, more than the ring.
        assert_eq!(FillPolicy::new(FLOOR_FRAMES, 8192).target(), 8192);
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of thousands of iterations")]
    fn stays_at_a_floor_as_high_as_the_ceiling() {
        let mut policy = FillPolicy::new(8192, 8192);
        run(&mut policy, Instant(7), 10 * SECOND, 50_000, 0);
        assert_eq!(policy.target(), 8192);
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of thousands of iterations")]
    fn other_bounds_hold_at_once_and_later() {
        let mut policy = FillPolicy::new(FLOOR_FRAMES, 1024);
        let now = run(&mut policy, Instant(7), 10 * SECOND, 50_000, 50);
        assert_eq!(policy.target(), FLOOR_FRAMES);
        policy.set_bounds(4464, 8192);
        assert_eq!(policy.target(), 4464);
        run(&mut policy, now, SECOND, 50_000, 50);
        assert_eq!(policy.target(), 4464);
        policy.set_bounds(FLOOR_FRAMES, 1024);
        assert_eq!(policy.target(), 1024);
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of thousands of iterations")]
    fn comes_down_to_the_floor_when_the_loop_is_quick_or_idle() {
        for (turn, frames) in [(50_000, 50), (50_000, 0)] {
            let mut policy = FillPolicy::new(FLOOR_FRAMES, 8192);
            run(&mut policy, Instant(7), 10 * SECOND, turn, frames);
            assert_eq!(policy.target(), FLOOR_FRAMES, "{frames} frames every {turn} ns");
        }
    }

    #[test]
    fn holds_twice_rate_times_stall() {
        // 1 Mpps, and always an iteration of 1 ms: 2 × 1e6/s × 1e-3 s = 2000.
        let mut policy = FillPolicy::new(FLOOR_FRAMES, 8192);
        run(&mut policy, Instant(0), 10 * SECOND, 1_000_000, 1000);
        assert!((1990..=2010).contains(&policy.target()), "{}", policy.target());
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of thousands of iterations")]
    fn remembers_one_stall_for_a_while() {
        let mut policy = FillPolicy::new(FLOOR_FRAMES, 8192);
        let now = run(&mut policy, Instant(0), 10 * SECOND, 50_000, 50);
        // 2 ms late once, at 1 Mpps: 2 × 1e6/s × 2e-3 s = 4000.
        let now = run(&mut policy, now + 2_000_000, 2_000_000, 50_000, 50);
        assert!((3700..=4300).contains(&policy.target()), "{}", policy.target());
        // Much less after a minute and a half of short iterations.
        run(&mut policy, now, 90 * SECOND, 50_000, 50);
        assert!(policy.target() <= 600, "{}", policy.target());
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of thousands of iterations")]
    fn sleep_is_no_stall() {
        let mut policy = FillPolicy::new(FLOOR_FRAMES, 8192);
        let mut now = run(&mut policy, Instant(0), 10 * SECOND, 50_000, 50);
        for _ in 0..100 {
            // Finds nothing, sleeps 50 ms, is woken by a frame, finds nothing again.
            policy.observe(now, 0, 0);
            now = now + 50_000_000;
            policy.observe(now, 1, 1);
            now = now + 2000;
        }
        assert_eq!(policy.target(), FLOOR_FRAMES);
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of thousands of iterations")]
    fn a_small_ring_is_filled() {
        let mut policy = FillPolicy::new(FLOOR_FRAMES, 64);
        run(&mut policy, Instant(0), 10 * SECOND, 50_000, 0);
        assert_eq!(policy.target(), 64);
    }
}
