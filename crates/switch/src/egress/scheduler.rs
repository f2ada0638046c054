//! The scheduler: which queue of a port sends next. It has two levels: groups of queues, and the
//! queues inside a group.
//!
//! Rule, level 1: groups have a rank, and a group sends only when no group of a lower rank number
//! can. Groups of one rank share what is left to them in proportion to their weights, counted in
//! bytes on the wire. Level 2: the queues of a group are strict (the highest number first) or
//! weighted, by bytes or by frames.
//! - SP, WRR group 1 and WRR group 2 are groups of rank 0, 1 and 2: strict inside, weighted inside,
//!   weighted inside.
//! - ETS: group 15 is of rank 0 and strict inside, the others are of rank 1 with their bandwidth as
//!   weights.
//!
//! Both levels share by deficit round robin. Each visit grants a queue (or group) its quantum, and
//! the queue sends while the grant lasts. A remainder too small for the next frame is kept unless
//! the queue runs empty. The smallest quantum is the largest frame, so every visit can send. A
//! queue that cannot send (paused, or limited by its shaper) is skipped and granted nothing. When
//! its turn is cut short in this way, it keeps no more than a turn that ends by itself leaves,
//! which is less than the largest frame. So no turn is longer than two quanta, and no credit
//! accumulates. What a group cannot use, other groups do. Source: docs/behavior.md, "Scheduling";
//! docs/references.md, "H3C reference" (ETS: SP, group-based WRR, byte-count) and "Huawei DCB"
//! (ETS: two levels, DRR and PQ); IEEE 802.1Q-2022 8.6.8; M. Shreedhar and G. Varghese, "Efficient
//! fair queueing using deficit round robin" (1995).

use crate::settings::{GroupDiscipline, LARGEST_FRAME_BYTES, PRIORITIES, ScheduleSettings, SchedulerGroup};
use serde::{Deserialize, Serialize};
use wire::bitset::Set8;

/// Bound at which two quanta still fit an `i32`. Weights of 1 to 255 stay far below it.
const LARGEST_QUANTUM_BYTES: u64 = i32::MAX as u64 / 2;

/// One port's scheduler. Masks have bit q for queue q, or bit g for group g. The state of a port
/// with one group fits two cache lines.
#[derive(Debug, Serialize, Deserialize)]
#[repr(C, align(64))]
pub struct Scheduler {
    queues: [DrrState; PRIORITIES],
    group_of_queue: [u8; PRIORITIES],
    /// Bytes on the wire that a frame takes beyond its own, for the shares of groups.
    overhead_bytes: i32,
    /// Number of entries of `groups` and `ranks` in use.
    group_count: u8,
    rank_count: u8,
    groups: [Group; PRIORITIES],
    /// Groups of each rank, the first rank first.
    ranks: [PriorityLevel; PRIORITIES],
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Group {
    queues: u8,
    inside: Discipline,
    /// Queue whose turn it is.
    current: u8,
    /// True if no other group has its rank: it shares with none, and its round is not counted.
    alone: bool,
    round: DrrState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum Discipline {
    #[default]
    Strict,
    Bytes,
    Frames,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct PriorityLevel {
    groups: u8,
    /// Group whose turn it is.
    current: u8,
}

/// State of a queue or group in its round, in bytes (in frames, for a queue that is weighted by
/// frames).
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct DrrState {
    quantum: i32,
    deficit: i32,
}

impl Scheduler {
    /// Makes the scheduler of a port. Each frame takes `overhead_bytes` on the wire beyond its own.
    ///
    /// # Panics
    /// If there are more than eight groups.
    pub fn new(settings: &ScheduleSettings, overhead_bytes: u16) -> Self {
        let mut scheduler = Self {
            queues: Default::default(),
            group_of_queue: [0; PRIORITIES],
            group_count: settings.groups.len() as u8,
            rank_count: 0,
            groups: Default::default(),
            ranks: Default::default(),
            overhead_bytes: i32::from(overhead_bytes),
        };
        for (number, group) in settings.groups.iter().enumerate() {
            scheduler.add_group(number, group, settings);
        }
        let mut ranks: Vec<u8> = settings.groups.iter().map(|group| group.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        scheduler.rank_count = ranks.len() as u8;
        for (at, rank) in ranks.into_iter().enumerate() {
            let members = settings.groups.iter().enumerate().filter(|(_, group)| group.rank == rank);
            scheduler.ranks[at].groups = members.fold(0, |mask, (number, _)| mask | 1 << number);
        }
        scheduler
    }

    fn add_group(&mut self, number: usize, settings: &SchedulerGroup, all: &ScheduleSettings) {
        let largest = LARGEST_FRAME_BYTES + self.overhead_bytes as u32;
        let (inside, weights) = match settings.inside {
            GroupDiscipline::Strict => (Discipline::Strict, [1; PRIORITIES]),
            GroupDiscipline::WeightedByBytes(weights) => (Discipline::Bytes, weights),
            GroupDiscipline::WeightedByFrames(weights) => (Discipline::Frames, weights),
        };
        let members = (0..PRIORITIES).filter(|q| settings.queues & 1 << q != 0);
        let smallest = members.clone().map(|q| weights[q].max(1)).min().unwrap_or(1);
        for q in members {
            self.group_of_queue[q] = number as u8;
            self.queues[q].quantum = match inside {
                Discipline::Frames => i32::from(weights[q].max(1)),
                _ => quantum_bytes(largest, weights[q].into(), smallest.into()),
            };
        }
        let of_rank = all.groups.iter().filter(|group| group.rank == settings.rank);
        let smallest = of_rank.clone().map(|group| group.weight).min().unwrap_or(1);
        let round = DrrState { quantum: quantum_bytes(largest, settings.weight, smallest), deficit: 0 };
        let alone = of_rank.count() == 1;
        self.groups[number] = Group { queues: settings.queues, inside, current: 0, alone, round };
    }

    /// True if all queues are of one group, so that level 1 decides nothing.
    #[inline]
    pub fn has_one_group(&self) -> bool {
        self.group_count == 1
    }

    /// Picks the queue to send from, out of `ready` (not paused, within its rate), which is not
    /// empty; `head_len` returns the length of a queue's first frame. A repeated call picks the
    /// same queue. The caller sends that frame and calls `sent`. Where queues with frames are not
    /// in `ready`, it has called `end_blocked_turns` first. `ONE_GROUP` if the caller knows that
    /// `has_one_group`.
    #[inline]
    pub fn pick<const ONE_GROUP: bool>(&mut self, ready: u8, head_len: impl Fn(usize) -> u16) -> usize {
        debug_assert!(ready != 0 && (!ONE_GROUP || self.has_one_group()));
        if ONE_GROUP || self.has_one_group() {
            return self.pick_inside(0, ready, &head_len);
        }
        self.pick_of_all(ready, &head_len)
    }

    /// Applies level 1 among several groups.
    #[inline(never)]
    fn pick_of_all(&mut self, ready: u8, head_len: &impl Fn(usize) -> u16) -> usize {
        for rank in 0..usize::from(self.rank_count) {
            let groups = self.ready_groups(rank, ready);
            if groups != 0 {
                return self.pick_of_rank(rank, groups, ready, head_len);
            }
        }
        unreachable!("every queue is of a group, and every group of a rank")
    }

    /// Returns the groups of a rank that have a queue in `ready`.
    #[inline]
    fn ready_groups(&self, rank: usize, ready: u8) -> u8 {
        let mut groups = self.ranks[rank].groups;
        let mut with_ready = 0;
        while groups != 0 {
            let group = groups.trailing_zeros();
            groups &= groups - 1;
            with_ready |= u8::from(self.groups[group as usize].queues & ready != 0) << group;
        }
        with_ready
    }

    /// Applies level 1 to `groups`, of which there is at least one: picks the one whose turn it is.
    #[inline]
    fn pick_of_rank(
        &mut self,
        rank: usize,
        groups: u8,
        ready: u8,
        head_len: &impl Fn(usize) -> u16,
    ) -> usize {
        if self.groups[groups.trailing_zeros() as usize].alone {
            return self.pick_inside(groups.trailing_zeros() as usize, ready, head_len);
        }
        loop {
            let current = self.ranks[rank].current;
            if groups & 1 << current != 0 {
                let queue = self.pick_inside(usize::from(current), ready, head_len);
                let bytes = i32::from(head_len(queue)) + self.overhead_bytes;
                if self.groups[usize::from(current & 7)].round.deficit >= bytes {
                    return queue;
                }
            }
            let next = next_in_ring(groups, current);
            self.ranks[rank].current = next;
            let round = &mut self.groups[usize::from(next & 7)].round;
            round.deficit += round.quantum;
        }
    }

    /// Applies level 2: picks a queue of a group, of which at least one is in `ready`.
    #[inline]
    fn pick_inside(&mut self, group: usize, ready: u8, head_len: &impl Fn(usize) -> u16) -> usize {
        let Group { queues, inside, current, .. } = &mut self.groups[group & 7];
        let (ready, inside) = (ready & *queues, *inside);
        if inside == Discipline::Strict {
            return (7 - ready.leading_zeros() as usize) & 7;
        }
        loop {
            let q = usize::from(*current & 7);
            if ready & 1 << q != 0 {
                let cost = if inside == Discipline::Bytes { i32::from(head_len(q)) } else { 1 };
                if self.queues[q].deficit >= cost {
                    return q;
                }
            }
            *current = next_in_ring(ready, *current);
            let round = &mut self.queues[usize::from(*current & 7)];
            round.deficit += round.quantum;
        }
    }

    /// Records that a frame of `len` bytes left `queue`; `backlogged` are the queues that still
    /// hold frames. `ONE_GROUP` if the caller knows that `has_one_group`.
    #[inline]
    pub fn sent<const ONE_GROUP: bool>(&mut self, queue: usize, len: u16, backlogged: u8) {
        let (queue, len) = (queue & 7, i32::from(len));
        let number = if ONE_GROUP { 0 } else { self.group_of_queue[queue] };
        let group = &mut self.groups[usize::from(number & 7)];
        let round = &mut self.queues[queue];
        if backlogged & 1 << queue == 0 {
            round.deficit = 0;
        } else {
            round.deficit -= match group.inside {
                Discipline::Strict => 0,
                Discipline::Bytes => len,
                Discipline::Frames => 1,
            };
        }
        if ONE_GROUP || group.alone {
            return;
        }
        if backlogged & group.queues == 0 {
            group.round.deficit = 0;
        } else {
            group.round.deficit -= len + self.overhead_bytes;
        }
    }

    /// Ends the turns of queues and groups that are not in `ready`, where others of their group or
    /// rank are, before one of these is picked. They keep what turns that end by themselves may
    /// leave, which is less than the cost of the largest frame. Without this, each later turn would
    /// add to what is left. Turns of a group or rank in which nothing is ready continue later.
    #[cold] // few ports have pauses, or rates of queues
    #[inline(never)]
    pub fn end_blocked_turns(&mut self, ready: u8) {
        for group in &self.groups {
            if group.queues & ready == 0 {
                continue;
            }
            let kept = match group.inside {
                Discipline::Strict => continue,
                Discipline::Bytes => LARGEST_FRAME_BYTES as i32 - 1,
                Discipline::Frames => 0,
            };
            for q in Set8::from_bits(group.queues & !ready) {
                let round = &mut self.queues[q & 7];
                round.deficit = round.deficit.min(kept);
            }
        }
        if self.rank_count < self.group_count {
            self.end_blocked_group_turns(ready);
        }
    }

    /// Ends the turns of groups that share a rank with a ready group and are not ready themselves.
    fn end_blocked_group_turns(&mut self, ready: u8) {
        let kept = LARGEST_FRAME_BYTES as i32 + self.overhead_bytes - 1;
        for rank in 0..usize::from(self.rank_count) {
            let with_ready = self.ready_groups(rank, ready);
            if with_ready == 0 {
                continue;
            }
            for group in Set8::from_bits(self.ranks[rank].groups & !with_ready) {
                let round = &mut self.groups[group & 7].round;
                round.deficit = round.deficit.min(kept);
            }
        }
    }

    /// Records that `queue` lost all its frames without sending them; `backlogged` are the queues
    /// that still hold frames.
    pub fn emptied(&mut self, queue: usize, backlogged: u8) {
        self.queues[queue].deficit = 0;
        let group = &mut self.groups[usize::from(self.group_of_queue[queue] & 7)];
        if backlogged & group.queues == 0 {
            group.round.deficit = 0;
        }
    }
}

/// Returns the bytes of a visit: the largest frame for the smallest weight, and in proportion for
/// the others.
fn quantum_bytes(largest: u32, weight: u32, smallest: u32) -> i32 {
    let bytes = u64::from(largest) * u64::from(weight.max(1)) / u64::from(smallest.max(1));
    bytes.min(LARGEST_QUANTUM_BYTES) as i32
}

/// Returns the member of `mask`, which is not empty, that follows `current` in a ring of eight.
#[inline]
fn next_in_ring(mask: u8, current: u8) -> u8 {
    (current + 1 + mask.rotate_right(u32::from(current) + 1).trailing_zeros() as u8) & 7
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{DEFAULT_WEIGHTS, SchedulerGroup, WIRE_OVERHEAD_BYTES};

    fn wrr(weights: [u8; 8]) -> ScheduleSettings {
        ScheduleSettings::sp_wrr(0, 0xff, 0, GroupDiscipline::WeightedByBytes(weights))
    }

    /// Returns the bytes that each queue sends in `frames` frames. Queues in `ready` are always
    /// full of frames of the given lengths.
    fn shares(scheduler: &mut Scheduler, ready: u8, lens: [u16; 8], frames: usize) -> [u64; 8] {
        let mut bytes = [0; 8];
        for _ in 0..frames {
            let q = scheduler.pick::<false>(ready, |q| lens[q]);
            scheduler.sent::<false>(q, lens[q], 0xff);
            bytes[q] += u64::from(lens[q]);
        }
        bytes
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of steps")]
    fn bytes_follow_the_default_weights_whatever_the_frame_sizes() {
        let mut scheduler = Scheduler::new(&wrr(DEFAULT_WEIGHTS), 0);
        let lens = [64, 1514, 300, 9216, 65, 128, 1000, 208];
        let bytes = shares(&mut scheduler, 0xff, lens, 2_000_000);
        let total: u64 = bytes.iter().sum();
        for q in 0..8 {
            let share = bytes[q] as f64 / total as f64;
            let want = f64::from(DEFAULT_WEIGHTS[q]) / 52.0;
            assert!((share / want - 1.0).abs() < 0.01, "queue {q}: {share:.4}, its weight says {want:.4}");
        }
    }

    /// SP before WRR group 1 before WRR group 2; the highest SP queue first.
    #[test]
    fn groups_of_a_lower_rank_go_first() {
        let weighted = GroupDiscipline::WeightedByBytes([1; 8]);
        let mut scheduler =
            Scheduler::new(&ScheduleSettings::sp_wrr(0b0010_0100, 0b1000_0000, 0b0101_1011, weighted), 0);
        for (ready, picked) in [(0xff, 5), (0b1101_1111, 2), (0b1101_1011, 7), (0b0000_0001, 0)] {
            assert_eq!(scheduler.pick::<false>(ready, |_| 64), picked, "{ready:#b}");
        }
    }

    #[test]
    fn a_pause_saves_up_no_turn_and_costs_none() {
        let mut scheduler = Scheduler::new(&wrr([1; 8]), 0);
        let lens = [1000; 8];
        shares(&mut scheduler, 0b11, lens, 10_000);
        let alone = shares(&mut scheduler, 0b01, lens, 10_000); // queue 1 is paused
        assert_eq!(alone[1], 0);
        let after = shares(&mut scheduler, 0b11, lens, 10_000);
        let quantum = u64::from(LARGEST_FRAME_BYTES);
        assert!(after[0].abs_diff(after[1]) <= 2 * quantum, "equal again at once: {after:?}");
    }

    #[test]
    fn what_is_empty_keeps_no_grant() {
        let mut scheduler = Scheduler::new(&ScheduleSettings::default_ets(), 24);
        assert_eq!(scheduler.pick::<false>(1, |_| 64), 0);
        scheduler.sent::<false>(0, 64, 0);
        assert!(scheduler.queues.iter().all(|queue| queue.deficit == 0));
        assert!(scheduler.groups.iter().all(|group| group.round.deficit == 0));
    }

    /// Groups share the link, so a group of short frames gets fewer bytes of its own: each frame
    /// costs 24 more.
    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of steps")]
    fn groups_share_the_line() {
        let lens = [64, 64, 64, 1514, 64, 64, 64, 64];
        let mut scheduler = Scheduler::new(&ScheduleSettings::default_ets(), WIRE_OVERHEAD_BYTES);
        let bytes = shares(&mut scheduler, 0b0011_1111, lens, 2_000_000);
        let lan: u64 = [0, 1, 2, 4, 5].iter().map(|&q: &usize| bytes[q] / 64 * 88).sum();
        let san = bytes[3] / 1514 * 1538;
        assert!((lan as f64 / san as f64 - 1.0).abs() < 0.01, "{lan} and {san} bytes of the line");
    }

    /// Queues are strict inside a group that shares its rank with another.
    #[test]
    #[cfg_attr(miri, ignore = "statistics of hundreds of thousands of steps")]
    fn strict_queues_inside_an_ets_group() {
        let groups = vec![
            SchedulerGroup::new("pg0", 1, 75, GroupDiscipline::Strict).of(0b0000_0111),
            SchedulerGroup::new("pg1", 1, 25, GroupDiscipline::WeightedByFrames([1, 1, 1, 1, 3, 1, 1, 1]))
                .of(0b0001_1000),
        ];
        let mut scheduler = Scheduler::new(&ScheduleSettings { groups }, 0);
        let bytes = shares(&mut scheduler, 0b0001_1111, [1000; 8], 400_000);
        let share = bytes.map(|bytes| (bytes as f64 / 4_000_000.0).round());
        assert_eq!(share, [0.0, 0.0, 75.0, 6.0, 19.0, 0.0, 0.0, 0.0], "percent");
    }

    /// Returns two groups of one rank, of queues 0 and 1 (by bytes) and of queue 2 (by frames), and
    /// one of a rank to itself, of which every turn has been granted more than it may keep.
    fn granted() -> Scheduler {
        let by_frames = GroupDiscipline::WeightedByFrames([1; 8]);
        let groups = vec![
            SchedulerGroup::new("a", 1, 1, GroupDiscipline::WeightedByBytes([1; 8])).of(0b0011),
            SchedulerGroup::new("b", 1, 1, by_frames).of(0b0100),
            SchedulerGroup::new("c", 2, 1, by_frames).of(0b1000),
        ];
        let mut scheduler = Scheduler::new(&ScheduleSettings { groups }, 20);
        scheduler.queues.iter_mut().for_each(|queue| queue.deficit = 50_000);
        scheduler.groups.iter_mut().for_each(|group| group.round.deficit = 60_000);
        scheduler
    }

    /// Returns the grants that are left to the first four queues, and to the three groups.
    fn left(scheduler: &Scheduler) -> ([i32; 4], [i32; 3]) {
        let queues = [0, 1, 2, 3].map(|queue: usize| scheduler.queues[queue].deficit);
        (queues, [0, 1, 2].map(|group: usize| scheduler.groups[group].round.deficit))
    }

    #[test]
    fn blocked_turns_end_where_others_of_their_group_or_rank_are_ready() {
        let largest = LARGEST_FRAME_BYTES as i32;
        let (queue, group) = (largest - 1, largest + 20 - 1);
        let (all, rounds) = ([50_000; 4], [60_000; 3]);
        for (ready, expected) in [
            (0b1111, (all, rounds)),
            (0b1101, ([50_000, queue, 50_000, 50_000], rounds)),
            (0b1110, ([queue, 50_000, 50_000, 50_000], rounds)),
            (0b1011, (all, [60_000, group, 60_000])),
            (0b0100, (all, [group, 60_000, 60_000])),
            (0b1000, (all, rounds)),
        ] {
            let mut scheduler = granted();
            scheduler.end_blocked_turns(ready);
            assert_eq!(left(&scheduler), expected, "{ready:04b}");
        }
        let by_frames = GroupDiscipline::WeightedByFrames([1; 8]);
        let settings = ScheduleSettings { groups: vec![SchedulerGroup::new("a", 0, 1, by_frames).of(0b11)] };
        let mut scheduler = Scheduler::new(&settings, 0);
        scheduler.queues.iter_mut().for_each(|queue| queue.deficit = 3);
        scheduler.end_blocked_turns(0b01);
        assert_eq!((scheduler.queues[0].deficit, scheduler.queues[1].deficit), (3, 0), "whole frames");
    }

    #[test]
    fn a_queue_that_lost_its_frames_keeps_no_grant() {
        let mut scheduler = granted();
        scheduler.emptied(0, 0b1110);
        assert_eq!(left(&scheduler), ([0, 50_000, 50_000, 50_000], [60_000; 3]));
        scheduler.emptied(1, 0b1100);
        assert_eq!(left(&scheduler), ([0, 0, 50_000, 50_000], [0, 60_000, 60_000]));
    }
}
