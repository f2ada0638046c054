//! DCBX TLVs: how two ends of a link exchange PFC, ETS and application priorities inside LLDP.
//!
//! There are three versions: IEEE 802.1Qaz ([`ieee`]), CEE, which is Intel's revision 1.01
//! ([`cee`]), and CIN, which is revision 1.00 ([`cin`]). The first has a TLV for each feature. The
//! other two have a single TLV with sub-TLVs ([`sub_tlv`]).
//!
//! The TLVs of a version are read as a whole or refused with a [`DcbxError`]: a TLV that is
//! repeated, has a wrong length, or has a value that the format does not allow.

pub mod cee;
pub mod cin;
pub mod error;
pub mod ieee;
pub mod sub_tlv;

pub use cee::Cee;
pub use cin::Cin;
pub use error::{DcbxError, DcbxTlv};
pub use ieee::Ieee;
