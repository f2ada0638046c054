//! DCBX: which version is spoken, and what both ends agree on.
//!
//! | module | subject |
//! |---|---|
//! | [`peer`] | the DCBX TLVs of a neighbor, and how long they count |
//! | [`version`] | which version is spoken |
//! | [`ieee`] | the symmetric and asymmetric machines of IEEE 802.1Qaz |
//! | [`sequence_numbers`] | sequence numbers of CEE and CIN |
//! | [`feature`] | the feature machine of CEE and CIN |
//! | [`cee_cin`] | CEE and CIN as a whole |
//! | [`convert`] | groups and applications in the terms of each version |
//! | [`port`] | DCBX of a port: all of the above |

pub mod cee_cin;
pub mod convert;
pub mod feature;
pub mod ieee;
pub mod peer;
pub mod port;
pub mod sequence_numbers;
pub mod version;

pub use port::Dcbx;
