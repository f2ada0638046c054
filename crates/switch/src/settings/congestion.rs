//! Congestion settings of egress: WRED and ECN, rate limits, and how the queues of a port share it.

use super::limits::PRIORITIES;
use serde::{Deserialize, Serialize};

/// Default weights of the WRR queues 0–7 (docs/behavior.md, "Scheduling").
pub const DEFAULT_WEIGHTS: [u8; PRIORITIES] = [1, 2, 3, 4, 5, 9, 13, 15];

/// Early drops and marks of one queue: see [`crate::egress::wred`]. The defaults are those of
/// docs/behavior.md, "WRED and ECN".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WredSettings {
    /// Weight of the average: each update moves it by 1 / 2^exponent of the difference (0–15); 0
    /// disables averaging.
    pub exponent: u8,
    /// True if ECN-capable frames are marked instead of dropped.
    pub ecn: bool,
    /// Point at which frames are marked.
    pub mark_at: EcnMarkPoint,
    /// True if Not-ECT frames are dropped on a no-drop queue with ECN.
    pub drop_not_ect: bool,
    /// Curves by drop level: green, yellow, red.
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

/// Point at which a frame is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EcnMarkPoint {
    /// On entering the queue.
    Enqueue,
    /// On leaving the queue.
    Dequeue,
}

/// WRED curve of one drop level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WredProfile {
    /// Average length up to which no frame is picked.
    pub low_cells: u32,
    /// Average length above which every frame is picked; at least `low_cells`.
    pub high_cells: u32,
    /// Share of frames picked at `high_cells`.
    pub probability_percent: u8,
}

/// Rate limit of a port, a queue or a scheduler group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Rate on the wire, in bit/s.
    pub bps: u64,
    /// Bytes that may leave at once after idle time; `None` for what the rate carries in 4 ms.
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
    /// Group name.
    pub name: String,
    /// Queues as a mask: bit q for queue q.
    pub queues: u8,
    /// Groups of a lower number go first.
    pub rank: u8,
    /// Share among the groups of the rank; at least 1.
    pub weight: u32,
    /// Discipline among its queues.
    pub inside: GroupDiscipline,
    /// Rate limit of the group; `None` if unlimited.
    pub rate: Option<Rate>,
}

/// Discipline among the queues of a group; weights are by queue and at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupDiscipline {
    /// Strict priority: the highest queue number first.
    Strict,
    /// In proportion to the weights, counted in bytes.
    WeightedByBytes([u8; PRIORITIES]),
    /// In proportion to the weights, counted in frames.
    WeightedByFrames([u8; PRIORITIES]),
}

impl SchedulerGroup {
    /// Makes a group without queues and without a rate limit.
    pub fn new(name: impl Into<String>, rank: u8, weight: u32, inside: GroupDiscipline) -> Self {
        Self { name: name.into(), queues: 0, rank, weight, inside, rate: None }
    }

    /// Sets the queues of the group.
    pub fn of(self, queues: u8) -> Self {
        Self { queues, ..self }
    }
}

impl ScheduleSettings {
    /// Makes the SP group before WRR group 1 before WRR group 2, by masks of queues. A group
    /// without queues is omitted.
    pub fn sp_wrr(sp: u8, wrr1: u8, wrr2: u8, weighted: GroupDiscipline) -> Self {
        let groups = [
            SchedulerGroup::new("sp", 0, 1, GroupDiscipline::Strict).of(sp),
            SchedulerGroup::new("wrr1", 1, 1, weighted).of(wrr1),
            SchedulerGroup::new("wrr2", 2, 1, weighted).of(wrr2),
        ];
        Self { groups: groups.into_iter().filter(|group| group.queues != 0).collect() }
    }

    /// Returns the ETS of docs/references.md, "Huawei DCB" (table 10-12): group 0 (LAN) of queues
    /// 0, 1, 2, 4, 5 and group 1 (SAN) of queue 3 with half of the bandwidth each; group 15 (IPC)
    /// of queues 6 and 7 before both.
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
    /// Returns all queues in WRR group 1, by bytes, with [`DEFAULT_WEIGHTS`].
    fn default() -> Self {
        Self::sp_wrr(0, 0xff, 0, GroupDiscipline::WeightedByBytes(DEFAULT_WEIGHTS))
    }
}
