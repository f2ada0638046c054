//! The watchdog's settings, and the thresholds of early warnings.

use crate::time::Nanos;
use serde::{Deserialize, Serialize};

/// What is done about a priority that is stormed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PfcWdAction {
    /// Its pauses are ignored, so that what waits leaves.
    Forward,
    /// What waits is dropped, and so is what comes for its queue or from its group; no PFC is sent
    /// for it.
    Drop,
}

/// When that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restoration {
    /// After so many nanoseconds, whether or not XOFF still comes.
    After(Nanos),
    /// At the end of the first of intervals, each as long as the detection time, in which no XOFF
    /// came.
    QuietInterval,
    /// Once no XOFF has come for so many nanoseconds.
    Quiet(Nanos),
    /// When somebody says so.
    ByHand,
}

/// How many storms are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StormLimit {
    /// The time in which they are counted.
    pub period_ns: Nanos,
    /// So many, or more, turn PFC off for the priority.
    pub count: u16,
}

/// The watchdog of a port's priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchdogSettings {
    /// A priority that is stuck for longer is stormed.
    pub detection_ns: Nanos,
    /// What is done then.
    pub action: PfcWdAction,
    /// When it ends.
    pub restore: Restoration,
    /// How often that may happen; `None`: as often as it does.
    pub limit: Option<StormLimit>,
}

/// Rates of PFC frames of a priority that somebody should be told of, in frames a second; `None`:
/// none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyWarningSettings {
    /// Of those received.
    pub in_pps: Option<u32>,
    /// Of those sent.
    pub out_pps: Option<u32>,
}
