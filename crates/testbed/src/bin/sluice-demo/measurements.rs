//! The numbers of one picture, taken from the hosts' reports and the switch's snapshot.

use std::time::Duration;

use crate::collector::Received;

/// All numbers of one picture.
#[derive(Debug, Clone, Default)]
pub struct Measurements {
    /// Time since the senders started.
    pub elapsed: Duration,
    /// Time that the senders will send in total.
    pub total: Duration,
    /// One entry per host and priority.
    pub flows: Vec<Flow>,
    /// The queues in front of the slow port.
    pub queues: Vec<Queue>,
    /// Current rate on the slow port.
    pub carried_bps: u64,
    /// Configured rate of the slow port.
    pub speed_bps: u64,
}

/// One sender's flow of one priority. Rates are since the previous picture.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    /// Name of the sending host.
    pub host: String,
    /// 802.1p priority.
    pub priority: u8,
    /// True if PFC protects the priority.
    pub no_drop: bool,
    /// Rate that the application offers.
    pub offered_bps: u64,
    /// Rate that the host sent.
    pub sent_bps: u64,
    /// Rate that arrived.
    pub received_bps: u64,
    /// Frames since the start that have not arrived although later ones have.
    pub lost_frames: u64,
    /// Times that the switch paused this priority of the host (refreshes not counted).
    pub pauses: u64,
    /// True if the switch pauses the flow now.
    pub xoff: bool,
}

/// One queue of the slow port.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    /// Queue number.
    pub number: usize,
    /// The priority whose frames wait here.
    pub priority: u8,
    /// Current level in kilobytes of cells.
    pub level_kb: u64,
    /// Highest level since the start, in kilobytes.
    pub peak_kb: u64,
    /// Frames dropped at this queue.
    pub dropped_frames: u64,
}

/// Results of the whole run.
#[derive(Debug, Clone, Default)]
pub struct DemoResults {
    /// What a collector received.
    pub received: Received,
    pub pfc: bool,
    /// Totals of priority 3.
    pub no_drop: Total,
    /// Totals of priority 0.
    pub best_effort: Total,
    /// Times that the switch paused priority 3 of the hosts.
    pub pauses: u64,
    /// XON frames that the hosts received.
    pub xons: u64,
    /// Time spent paused, both hosts together.
    pub paused: Duration,
    /// Frames that left a host although their priority was paused.
    pub sent_while_paused: u64,
    /// Rate on the slow port while the senders sent.
    pub carried_bps: u64,
    /// Configured rate of the slow port.
    pub speed_bps: u64,
    /// Frames of any priority that a kernel had no room for.
    pub lost_by_kernels: u64,
    /// Longest stall of the switch's loop.
    pub worst_stall: Duration,
    /// Differences in the frame accounting, if any.
    pub imbalance: Option<String>,
}

/// One priority over the whole run, all senders together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Frames that the hosts sent.
    pub sent: u64,
    /// Frames that arrived.
    pub received: u64,
    /// Frames of this priority that the switch counted as dropped.
    pub dropped: u64,
    /// Frames that arrived out of order or twice.
    pub disordered: u64,
    /// Frames that arrived damaged.
    pub corrupted: u64,
}

impl Total {
    /// Frames that were sent and never arrived.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}
