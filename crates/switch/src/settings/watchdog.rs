//! Settings of the watchdog and of early warnings.

use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// Action on a stormed priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PfcWdAction {
    /// Its pauses are ignored, so that its queued frames leave.
    Forward,
    /// Its queued frames are dropped, and so are new frames for its queue or from its group; no PFC
    /// is sent for it.
    Drop,
}

/// End of a storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restoration {
    /// After this time, whether or not XOFF still arrives.
    After(Nanos),
    /// At the end of the first interval without XOFF; each interval is as long as the detection
    /// time.
    QuietInterval,
    /// After this time without XOFF.
    Quiet(Nanos),
    /// By hand.
    Manual,
}

/// Limit on the number of storms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormLimit {
    /// Period in which storms are counted.
    pub period_ns: Nanos,
    /// Number of storms at which PFC is turned off for the priority.
    pub count: u16,
}

/// Watchdog of a port's priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchdogSettings {
    /// Detection time: a priority that is stuck for longer is stormed.
    pub detection_ns: Nanos,
    /// Action on a storm.
    pub action: PfcWdAction,
    /// End of a storm.
    pub restore: Restoration,
    /// Limit on the number of storms; `None` if unlimited.
    pub limit: Option<StormLimit>,
}

/// Rates of PFC frames of a priority that cause an early warning, in frames a second; `None` for no
/// warning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyWarningSettings {
    /// Rate of received frames.
    pub in_pps: Option<u32>,
    /// Rate of sent frames.
    pub out_pps: Option<u32>,
}
