//! Counters of the switch, and the snapshot that contains them. Every drop is counted where it
//! happens, with its reason; nothing is sampled.
//!
//! The structs of the snapshot are generated from their messages in `proto/sluice/v1/control.proto`
//! (`build/main.rs`), where each counter has its name and its comment. A new counter is a field
//! there, and the line that counts it: JSON, help, `sluice show counters` and metrics follow.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::monitor::watermark::Occupancy;
use crate::settings::{POOLS, PRIORITIES};
use crate::time::Nanos;

mod count;
pub mod kernel;
mod storm;

pub use count::{DropReason, DropSide, DropSum, FrameCount, PfcCount, PfcReasons, RefusedFrames};

include!(concat!(env!("OUT_DIR"), "/snapshot.rs"));

/// Counts by name, as the JSON has them.
type Counts = std::collections::BTreeMap<String, FrameCount>;

/// Serializes drops under the names of their reasons.
fn by_reason<S: Serializer>(
    drops: &[FrameCount; DropReason::ALL.len()],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(DropReason::ALL.map(|reason| (reason.name(), drops[reason as usize])))
}

/// Serializes counts by drop level under the names of the colors.
fn by_drop_level<S: Serializer>(counts: &[FrameCount; 3], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(["green", "yellow", "red"].into_iter().zip(counts))
}

impl Snapshot {
    /// Returns the snapshot without the loop's own counters, its iterations and where memory is.
    /// Two loops of one switch agree on the result.
    pub fn without_loop_counters(self) -> Self {
        Self {
            memory_free_frames: 0,
            memory_in_rings_frames: 0,
            loop_turns: 0,
            loop_worst_stall_ns: 0,
            loop_awake_ns: 0,
            loop_turns_by_time: [0; ITERATION_TIME_CLASSES],
            ..self
        }
    }
}

/// Number of classes of iteration time.
pub const ITERATION_TIME_CLASSES: usize = 24;

/// Returns the index of an iteration that began `nanos` after the one before: 0 for less than 1 µs,
/// 1 for less than 2 µs, 2 for less than 4 µs, and so on; the last for 4.2 s and more.
#[inline]
pub fn iteration_time_class(nanos: Nanos) -> usize {
    let micros = nanos / 1000;
    ((u64::BITS - micros.leading_zeros()) as usize).min(ITERATION_TIME_CLASSES - 1)
}
