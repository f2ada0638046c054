//! The flight recorder of a switch, and the replay of what it recorded.

pub mod error;
pub(crate) mod player;
pub mod recorder;
pub mod replay;
