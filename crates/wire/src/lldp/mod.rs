//! LLDP: the link layer discovery protocol's frames.
//!
//! Source: IEEE 802.1AB-2016 clauses 7 (addresses), 8 (LLDPDU and TLV formats) and 9.2.7.7
//! (validation).
//!
//! ```text
//! 0                   6     12       14           …              …          …
//! +-------------------+-----+--------+------------+---------+-----+-------- … +-----+--------+
//! | 01-80-C2-00-00-0E | src | 0x88CC | chassis ID | port ID | TTL | optional  | End | padding|
//! +-------------------+-----+--------+------------+---------+-----+-------- … +-----+--------+
//! TLV:  type (7 bits) | length (9 bits) | information string
//! ```
//! An LLDPDU is read whole or refused with an [`LldpError`]. What is inside organizationally
//! specific TLVs is read separately ([`organization`], [`crate::dcbx`]), so that one that is
//! malformed does not hide the neighbor.

pub mod basic;
pub mod error;
pub mod identifier;
pub mod lldpdu;
pub mod organization;
mod text;
pub mod tlv;

pub use basic::{Capabilities, ManagementAddress};
pub use error::LldpError;
pub use identifier::{ChassisId, PortId};
pub use lldpdu::{Lldpdu, decode};
pub use organization::OrgTlv;
