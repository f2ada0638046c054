//! The flight recorder of a switch, and the replay of its recordings.

pub mod error;
pub mod offered;
pub(crate) mod player;
pub(crate) mod recorded_switch;
pub mod recorder;
pub mod replay;
pub mod segments;
