//! What there is to see at one moment: plain numbers, taken from the hosts' reports and the
//! switch's snapshot.

use std::time::Duration;

use crate::collector::Received;

/// All that one picture shows.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    /// Since the senders began.
    pub elapsed: Duration,
    /// How long they will send.
    pub total: Duration,
    /// Each host and priority.
    pub flows: Vec<Flow>,
    /// The queues in front of the slow port.
    pub queues: Vec<Queue>,
    /// What the slow port carries now.
    pub carried_bps: u64,
    /// Its rate.
    pub speed_bps: u64,
}

/// One sender's flow of one priority. Rates are those since the picture before.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    /// Who sends.
    pub host: String,
    /// 802.1p priority.
    pub priority: u8,
    /// PFC protects it.
    pub no_drop: bool,
    /// What the application wants to send.
    pub offered_bps: u64,
    /// What the host did send.
    pub sent_bps: u64,
    /// What arrived.
    pub received_bps: u64,
    /// Frames that have not arrived though later ones have, since the start.
    pub lost_frames: u64,
    /// Times that the switch told the host to pause this priority (refreshes not counted).
    pub pauses: u64,
    /// The switch pauses it now.
    pub xoff: bool,
}

/// One queue of the slow port.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    /// Queue number.
    pub number: usize,
    /// The priority whose frames wait here.
    pub priority: u8,
    /// Kilobytes of cells now, and at most since the start.
    pub level_kb: u64,
    /// The most there ever was.
    pub peak_kb: u64,
    /// Frames it dropped, or that were dropped before it.
    pub dropped_frames: u64,
}

/// What the whole run came to.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// What a collector was told of it.
    pub received: Received,
    /// PFC was on.
    pub pfc: bool,
    /// Priority 3.
    pub no_drop: Total,
    /// Priority 0.
    pub best_effort: Total,
    /// Times that the hosts were told to pause priority 3.
    pub pauses: u64,
    /// XON frames that they got.
    pub xons: u64,
    /// Time spent paused, both hosts together.
    pub paused: Duration,
    /// Frames that left a host though it was told to pause.
    pub sent_while_paused: u64,
    /// What the slow port carried while the senders sent, and its rate.
    pub carried_bps: u64,
    /// The rate of the slow port.
    pub speed_bps: u64,
    /// Frames of any priority that found a kernel without room.
    pub lost_by_kernels: u64,
    /// The longest time that the switch's loop stood still.
    pub worst_stall: Duration,
    /// What is wrong with the accounts, if anything.
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
