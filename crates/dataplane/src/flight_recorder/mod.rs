//! The flight recorder of a switch, and the replay of what it recorded.

pub(crate) mod player;
pub mod recorder;
pub mod replay;
