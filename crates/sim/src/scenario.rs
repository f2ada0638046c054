//! A scenario: the network, what is sent over it, what happens to it, and what is expected of it.
//!
//! What it is made of are plain values; the file's language is told in [`mod@file`].

mod expect;
mod faults;
pub mod file;
mod links;
mod lint;
mod name_ranges;
mod network;
mod nodes;
mod parse;
mod tables;
mod traffic;
pub(crate) mod types;
mod validate;

pub use self::file::parse;
pub use self::parse::TIMES;
pub use self::types::*;
