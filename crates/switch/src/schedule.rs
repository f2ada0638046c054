//! The scheduler: which queue of a port sends next.
//!
//! Rule: strict-priority queues first, the highest number first. Then the weighted ones share what is left in
//! proportion to their weights, counted in bytes, by deficit round robin: each visit grants a queue weight × 2048
//! bytes, it sends while the grant lasts, and what is left of the grant is kept unless it runs empty. A paused
//! queue is not ready: it is skipped, keeps the grant it has, and is given none.
//! Source: seeds/h3c-rdma-technical-reference.txt, "SP queuing", "WRR queuing" (byte-count); M. Shreedhar and
//! G. Varghese, "Efficient fair queueing using deficit round robin" (1995).

use crate::settings::{PRIORITIES, QueueSettings, Schedule};

/// A weight of 1 in bytes: every visit can send a frame of up to 2000 bytes (the longest envelope frame of IEEE
/// 802.3-2022 3.2.7); a jumbo frame waits for at most five visits. Small, so that a round of all queues is short.
pub const QUANTUM_BYTES: i32 = 2048;

/// One port's scheduler. Masks have bit q for queue q.
#[derive(Debug)]
pub struct Scheduler {
    strict: u8,
    quantum_bytes: [i32; PRIORITIES],
    deficit_bytes: [i32; PRIORITIES],
    current: u32,
}

impl Scheduler {
    /// The scheduler of a port whose queues are set so.
    pub fn new(queues: &[QueueSettings; PRIORITIES]) -> Self {
        let mut strict = 0;
        let mut quantum_bytes = [0; PRIORITIES];
        for (q, queue) in queues.iter().enumerate() {
            match queue.schedule {
                Schedule::Sp => strict |= 1 << q,
                Schedule::Wrr { weight } => quantum_bytes[q] = i32::from(weight.max(1)) * QUANTUM_BYTES,
            }
        }
        Self { strict, quantum_bytes, deficit_bytes: [0; PRIORITIES], current: 0 }
    }

    /// The queue to send from, out of `ready` (not empty, not paused); `head_len` tells the length of a queue's first
    /// frame. The caller sends that frame and calls `sent`.
    #[inline]
    pub fn pick(&mut self, ready: u8, head_len: impl Fn(usize) -> u16) -> Option<usize> {
        let strict = ready & self.strict;
        if strict != 0 {
            return Some(7 - strict.leading_zeros() as usize);
        }
        let ready = ready & !self.strict;
        if ready == 0 {
            return None;
        }
        loop {
            let q = self.current as usize;
            if ready & (1 << q) != 0 && self.deficit_bytes[q] >= i32::from(head_len(q)) {
                return Some(q);
            }
            // The next ready queue after this one, in a ring.
            let after = ready.rotate_right(self.current + 1).trailing_zeros();
            self.current = (self.current + 1 + after) & 7;
            self.deficit_bytes[self.current as usize] += self.quantum_bytes[self.current as usize];
        }
    }

    /// A frame of `len` bytes left `queue`, which is now empty or not.
    #[inline]
    pub fn sent(&mut self, queue: usize, len: u16, empty: bool) {
        if self.strict & (1 << queue) == 0 {
            self.deficit_bytes[queue] = if empty { 0 } else { self.deficit_bytes[queue] - i32::from(len) };
        }
    }

    /// A queue lost all its frames without sending them.
    pub fn emptied(&mut self, queue: usize) {
        self.deficit_bytes[queue] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::DEFAULT_WEIGHTS;

    fn wrr(weights: [u8; 8]) -> [QueueSettings; 8] {
        weights.map(|weight| QueueSettings { schedule: Schedule::Wrr { weight }, ..QueueSettings::default() })
    }

    /// Bytes that each queue sends in `frames` frames, all always full of frames of the given lengths.
    fn shares(scheduler: &mut Scheduler, ready: u8, lens: [u16; 8], frames: usize) -> [u64; 8] {
        let mut bytes = [0; 8];
        for _ in 0..frames {
            let q = scheduler.pick(ready, |q| lens[q]).expect("something is ready");
            scheduler.sent(q, lens[q], false);
            bytes[q] += u64::from(lens[q]);
        }
        bytes
    }

    #[test]
    fn bytes_follow_the_default_weights_whatever_the_frame_sizes() {
        let mut scheduler = Scheduler::new(&wrr(DEFAULT_WEIGHTS));
        let lens = [64, 1514, 300, 9216, 65, 128, 1000, 208];
        let bytes = shares(&mut scheduler, 0xff, lens, 2_000_000);
        let total: u64 = bytes.iter().sum();
        for q in 0..8 {
            let share = bytes[q] as f64 / total as f64;
            let want = f64::from(DEFAULT_WEIGHTS[q]) / 52.0;
            assert!((share / want - 1.0).abs() < 0.01, "queue {q}: {share:.4}, its weight says {want:.4}");
        }
    }

    #[test]
    fn strict_queues_go_first_and_the_highest_of_them() {
        let mut queues = wrr([1; 8]);
        queues[5].schedule = Schedule::Sp;
        queues[2].schedule = Schedule::Sp;
        let mut scheduler = Scheduler::new(&queues);
        assert_eq!(scheduler.pick(0xff, |_| 64), Some(5));
        assert_eq!(scheduler.pick(!(1 << 5), |_| 64), Some(2));
        let rest = !(1 << 5) & !(1 << 2);
        assert_eq!(scheduler.pick(rest, |_| 64), Some(1), "the round begins behind queue 0");
        assert_eq!(scheduler.pick(0, |_| 64), None);
    }

    #[test]
    fn a_pause_saves_up_no_turn_and_costs_none() {
        let mut scheduler = Scheduler::new(&wrr([1; 8]));
        let lens = [1000; 8];
        shares(&mut scheduler, 0b11, lens, 10_000);
        let alone = shares(&mut scheduler, 0b01, lens, 10_000); // queue 1 is paused
        assert_eq!(alone[1], 0);
        let after = shares(&mut scheduler, 0b11, lens, 10_000);
        assert!(after[0].abs_diff(after[1]) <= 2 * QUANTUM_BYTES as u64, "equal again at once: {after:?}");
    }

    #[test]
    fn an_empty_queue_keeps_no_grant() {
        let mut scheduler = Scheduler::new(&wrr([15; 8]));
        let q = scheduler.pick(1, |_| 64).expect("ready");
        scheduler.sent(q, 64, true);
        assert_eq!(scheduler.deficit_bytes, [0; 8]);
    }
}
