//! A guest's memory and rings, as the loop owns them between two control messages.

use std::sync::Arc;

use crate::port::signals::Signals;
use crate::ring::Queue;
pub use crate::ring::{MAX_PAIRS, MAX_RINGS};

/// Number of the ring in which the guest receives, of a queue pair.
#[inline]
pub(crate) fn rx_ring(pair: usize) -> usize {
    2 * pair
}

/// Number of the ring from which the guest sends, of a queue pair.
#[inline]
pub(crate) fn tx_ring(pair: usize) -> usize {
    2 * pair + 1
}

/// The rings that a guest has configured and enabled, with the features that it accepted.
#[derive(Debug)]
pub struct Device {
    /// The rings by number; `None` if a ring is not configured or not enabled.
    pub(crate) rings: [Option<Queue>; MAX_RINGS],
    /// Bytes of the virtio header before each frame.
    pub(crate) header_bytes: usize,
    /// A frame may be spread over several posted buffers.
    pub(crate) mergeable: bool,
    /// Interrupts of the guest.
    pub(crate) signals: Arc<Signals>,
}

impl Device {
    /// Returns the number of enabled rings from which the guest sends.
    #[inline]
    pub(crate) fn senders(&self) -> usize {
        (0..MAX_PAIRS).filter(|&pair| self.rings[tx_ring(pair)].is_some()).count()
    }

    /// Returns the pair in whose ring frames of an egress queue reach the guest.
    #[inline]
    pub(crate) fn pair_of(&self, queue: usize) -> usize {
        if self.rings[rx_ring(queue & 7)].is_some() { queue & 7 } else { 0 }
    }
}
