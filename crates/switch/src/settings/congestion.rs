//! What leaves, when, and how congestion is told: WRED and ECN, rates, and how the queues of a port
//! share it.

use super::limits::PRIORITIES;
use serde::{Deserialize, Serialize};

/// Default weights of the WRR queues 0–7 (docs/behavior.md, "Scheduling").
pub const DEFAULT_WEIGHTS: [u8; PRIORITIES] = [1, 2, 3, 4, 5, 9, 13, 15];

/// Early drops and marks of one queue: see [`crate::egress::wred`]. The defaults are those of
/// docs/behavior.md, "WRED and ECN".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WredSettings {
    /// The average moves by 1 / 2^exponent of the way to the length (0–15); 0: it is the length.
    pub exponent: u8,
    /// ECN-capable frames are marked instead of dropped.
    pub ecn: bool,
    /// When they are.
    pub mark_at: EcnMarkPoint,
    /// On a no-drop queue with ECN, frames that are not capable drop.
    pub drop_not_ect: bool,
    /// By drop level: green, yellow, red.
    pub curves: [WredProfile; 3],
}

impl Default for WredSettings {
    fn default() -> Self {
        let curve = WredProfile { low_cells: 100, high_cells: 1000, probability_percent: 10 };
        Self {
            exponent: 9,
            ecn: false,
            mark_at: EcnMarkPoint::Enqueue,
            drop_not_ect: false,
            curves: [curve; 3],
        }
    }
}

/// When a frame is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EcnMarkPoint {
    /// When it joins the queue.
    Enqueue,
    /// When it leaves it.
    Dequeue,
}

/// The line by which frames of one drop level are picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WredProfile {
    /// Up to here none.
    pub low_cells: u32,
    /// Above this all; at least `low_cells`.
    pub high_cells: u32,
    /// Share that is picked at `high_cells`.
    pub probability_percent: u8,
}

/// A rate that a queue or a scheduler group keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Bit/s of the line.
    pub bps: u64,
    /// Bytes that may leave at once after idle time; `None`: what the rate carries in 4 ms.
    pub burst_bytes: Option<u64>,
}

/// How the queues of a port share it: see [`crate::egress::scheduler`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleSettings {
    /// At most eight groups; every queue is in exactly one.
    pub groups: Vec<SchedulerGroup>,
}

/// Queues that are scheduled together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulerGroup {
    /// What the group is called.
    pub name: String,
    /// Bit q: queue q.
    pub queues: u8,
    /// Groups of a lower number go first.
    pub rank: u8,
    /// Share among the groups of the rank; at least 1.
    pub weight: u32,
    /// How its queues share what it gets.
    pub inside: GroupDiscipline,
    /// The rate that it keeps; `None`: no limit of its own.
    pub rate: Option<Rate>,
}

/// How the queues of a group share what it gets; weights are by queue and at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupDiscipline {
    /// The highest number first.
    Strict,
    /// In proportion to the weights, counted in bytes.
    WeightedByBytes([u8; PRIORITIES]),
    /// … counted in frames.
    WeightedByFrames([u8; PRIORITIES]),
}

impl SchedulerGroup {
    /// A group without queues yet, and without a rate.
    pub fn new(name: impl Into<String>, rank: u8, weight: u32, inside: GroupDiscipline) -> Self {
        Self { name: name.into(), queues: 0, rank, weight, inside, rate: None }
    }

    /// … with these queues.
    pub fn of(self, queues: u8) -> Self {
        Self { queues, ..self }
    }
}

impl ScheduleSettings {
    /// The SP group before WRR group 1 before WRR group 2, by masks of queues; a group without
    /// queues is left out.
    pub fn sp_wrr(sp: u8, wrr1: u8, wrr2: u8, weighted: GroupDiscipline) -> Self {
        let groups = [
            SchedulerGroup::new("sp", 0, 1, GroupDiscipline::Strict).of(sp),
            SchedulerGroup::new("wrr1", 1, 1, weighted).of(wrr1),
            SchedulerGroup::new("wrr2", 2, 1, weighted).of(wrr2),
        ];
        Self { groups: groups.into_iter().filter(|group| group.queues != 0).collect() }
    }

    /// The ETS of docs/references.md, "Huawei DCB" (table 10-12): group 0 (LAN) of queues 0, 1, 2,
    /// 4, 5 and group 1 (SAN) of queue 3 with half of the bandwidth each; group 15 (IPC) of
    /// queues 6 and 7 before both.
    pub fn default_ets() -> Self {
        let weighted = GroupDiscipline::WeightedByBytes([1; PRIORITIES]);
        Self {
            groups: vec![
                SchedulerGroup::new("pg0", 1, 50, weighted).of(0b0011_0111),
                SchedulerGroup::new("pg1", 1, 50, weighted).of(0b0000_1000),
                SchedulerGroup::new("pg15", 0, 1, GroupDiscipline::Strict).of(0b1100_0000),
            ],
        }
    }
}

impl Default for ScheduleSettings {
    /// All queues in WRR group 1, by bytes, with [`DEFAULT_WEIGHTS`].
    fn default() -> Self {
        Self::sp_wrr(0, 0xff, 0, GroupDiscipline::WeightedByBytes(DEFAULT_WEIGHTS))
    }
}
