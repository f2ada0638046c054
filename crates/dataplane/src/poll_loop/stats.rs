//! Iteration statistics of a loop: the number of iterations, the times between them, and the
//! longest stall.
//!
//! Rule: only the loop writes, once per iteration; the guard adds the stalls that it saw, since a
//! loop cannot tell how long frames waited for it while it slept. A concurrent reader may see one
//! number newer than another. Source: docs/architecture.md, "Frame path".

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use switch::Nanos;
use switch::monitor::counters::{ITERATION_TIME_CLASSES, iteration_time_class};

/// Iteration times as the loop publishes them.
#[derive(Debug, Default)]
pub(crate) struct LoopStats {
    turns: AtomicU64,
    worst_stall_ns: AtomicU64,
    awake_ns: AtomicU64,
    turns_by_time: [AtomicU64; ITERATION_TIME_CLASSES],
}

/// The iteration times of one loop, or the sum over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopTimes {
    /// Iterations since the start.
    pub turns: u64,
    /// The longest time between two iterations, without sleep, in nanoseconds.
    pub worst_stall_ns: Nanos,
    /// The total time between iterations, without sleep, in nanoseconds.
    pub awake_ns: Nanos,
    /// Iterations by the time since the previous one, without sleep; bounds are in
    /// [`iteration_time_class`].
    pub turns_by_time: [u64; ITERATION_TIME_CLASSES],
}

impl LoopStats {
    /// Records an iteration, and the time since the previous one unless the loop slept in between.
    #[inline]
    pub(crate) fn record_iteration(&self, after: Option<Nanos>) {
        add(&self.turns, 1);
        if let Some(nanos) = after {
            self.record_stall(nanos);
            add(&self.awake_ns, nanos);
            add(&self.turns_by_time[iteration_time_class(nanos)], 1);
        }
    }

    /// Records a stall, which either the loop or its guard has seen.
    #[inline]
    pub(crate) fn record_stall(&self, nanos: Nanos) {
        if nanos > self.worst_stall_ns.load(Relaxed) {
            self.worst_stall_ns.fetch_max(nanos, Relaxed);
        }
    }

    /// Returns the number of iterations so far.
    #[inline]
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Relaxed)
    }

    pub(crate) fn read(&self) -> LoopTimes {
        LoopTimes {
            turns: self.turns(),
            worst_stall_ns: self.worst_stall_ns.load(Relaxed),
            awake_ns: self.awake_ns.load(Relaxed),
            turns_by_time: self.turns_by_time.each_ref().map(|turns| turns.load(Relaxed)),
        }
    }
}

/// Adds to a number that has no other writer.
#[inline]
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Relaxed) + more, Relaxed);
}

impl AddAssign for LoopTimes {
    /// Adds the iterations of both, and keeps the longer stall.
    fn add_assign(&mut self, other: Self) {
        self.turns += other.turns;
        self.worst_stall_ns = self.worst_stall_ns.max(other.worst_stall_ns);
        self.awake_ns += other.awake_ns;
        self.turns_by_time.iter_mut().zip(other.turns_by_time).for_each(|(sum, turns)| *sum += turns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_of_all_loops_and_the_longest_stall() {
        let [a, b] = [LoopStats::default(), LoopStats::default()];
        [None, Some(500), Some(7_000), Some(900)].into_iter().for_each(|after| a.record_iteration(after));
        [None, Some(3_000_000), None, Some(500)].into_iter().for_each(|after| b.record_iteration(after));
        let mut both = a.read();
        assert_eq!((both.turns, both.worst_stall_ns, both.awake_ns), (4, 7_000, 8_400));
        both += b.read();
        assert_eq!((both.turns, both.worst_stall_ns, both.awake_ns), (8, 3_000_000, 3_008_900));
        let turns: Vec<u64> =
            [500, 7_000, 3_000_000].map(|nanos| both.turns_by_time[iteration_time_class(nanos)]).into();
        assert_eq!((turns, both.turns_by_time.iter().sum()), (vec![3, 1, 1], 5_u64));
    }
}
