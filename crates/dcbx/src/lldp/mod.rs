//! The machines of LLDP: transmit, transmit timer, receive, and the table of neighbors.
//!
//! Source: IEEE 802.1AB-2016 clause 9.2.

pub mod neighbors;
pub mod rx_machine;
pub mod transmitter;
pub mod tx_machine;
pub mod tx_timer_machine;

pub use neighbors::{Neighbor, NeighborId};
pub use rx_machine::Receiver;
pub use transmitter::{Transmitter, TxFrame};
