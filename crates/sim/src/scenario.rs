//! A scenario: the network, what is sent over it, what happens to it, and what is expected of it.
//!
//! What it is made of are plain values; the file's language is told in [`mod@file`].

mod advice;
mod checks;
mod expect;
mod faults;
pub mod file;
mod links;
mod names;
mod network;
mod nodes;
mod tables;
mod traffic;
pub(crate) mod types;
mod values;

pub use self::file::parse;
pub use self::types::*;
pub use self::values::TIMES;
