//! A scenario: the network, its traffic, its faults, and the expected results.
//!
//! A scenario consists of plain values; [`mod@file`] documents the file format.

mod dcqcn;
mod expect;
mod faults;
pub mod file;
mod generate;
mod links;
mod lint;
mod name_ranges;
mod network;
mod nodes;
mod parse;
mod sweep;
mod tables;
pub(crate) mod traffic;
pub(crate) mod types;
mod validate;

pub use self::file::parse;
pub use self::links::DELAY_NS_PER_M;
pub use self::parse::TIMES;
pub use self::types::*;
pub use endpoint::dcqcn::DcqcnSettings;
pub use endpoint::retransmission::Retransmission;
pub use endpoint::transport::TransportSettings;
