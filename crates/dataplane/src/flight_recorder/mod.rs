//! The flight recorder of a switch, and the replay of its recordings.

pub mod error;
pub mod offered;
#[expect(
    clippy::indexing_slicing,
    reason = "a length that was just bounded; by port, and a replay reports a panic over a forged one"
)]
pub(crate) mod player;
#[expect(clippy::indexing_slicing, reason = "by port, which the switch numbers")]
pub(crate) mod recorded_switch;
#[expect(
    clippy::indexing_slicing,
    reason = "by port, which the switch numbers; within a length that was just computed"
)]
pub mod recorder;
pub mod replay;
pub mod segments;
