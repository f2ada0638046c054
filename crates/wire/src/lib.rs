//! Frame formats: Ethernet with 802.1Q tags, views of IPv4 and IPv6, edits in place, the Internet
//! checksum, PFC and PAUSE, LLDP and its DCBX TLVs.
//!
//! This crate parses bytes from the network before any other code: no byte sequence makes a reader
//! panic. Readers take slices and return plain values or an error; writers state how much room they
//! need. Only [`lldp`] and [`dcbx`] allocate: their frames do not pass through the poll loop's
//! parser, and what they allocate is bounded by the length of the frame.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
// Input never ends the loop: what cannot happen is an exception with its reason.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::unimplemented)]
#![deny(clippy::indexing_slicing)]

pub mod bitset;
pub mod checksum;
pub mod dcbx;
pub mod ethernet;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod lldp;
pub mod mac;
pub mod ones_complement;
pub mod pause;
pub mod random;
pub mod tunnel;

pub use mac::MacAddr;

/// Why bytes could not be read as the requested format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The bytes end before the last field.
    Truncated,
    /// A length field contradicts the header or the frame.
    BadLength,
    /// The version or type field belongs to another format.
    WrongType,
    /// The destination is not the one that such frames have.
    WrongDestination,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Truncated => "cut off",
            Error::BadLength => "a length field is wrong",
            Error::WrongType => "of another type",
            Error::WrongDestination => "for another destination",
        })
    }
}

impl core::error::Error for Error {}
