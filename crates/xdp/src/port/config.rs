//! Configurable and fixed properties of a port's rings.

use crate::port::bind_mode::ZeroCopy;
use crate::port::fill::FLOOR_FRAMES;
use crate::umem::MAX_POSTED;
use crate::umem::register::COMPLETION_RING;

/// The ring settings of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortConfig {
    /// Entries of the TX ring: a power of two, at most 2048.
    pub tx_ring: u32,
    /// Frames that one `sendto` may process, at most `tx_ring`. The call takes about 0.5 µs per
    /// frame, during which the loop waits.
    pub tx_budget: u32,
    /// The maximum number of chunks posted on an RX queue, from 1 to [`MAX_POSTED`]. Fewer are
    /// faster but cover a shorter stall of the loop.
    pub max_posted: u32,
    /// The minimum number of chunks posted on an RX queue, regardless of need; at most
    /// `max_posted`. More than an eighth of the memory is posted only if this setting requires it.
    pub min_posted: u32,
    /// Half of the limit on the kernel's copies of frames in flight, in bytes of its own accounting
    /// (about 0.8 KB for a small frame). `None` is 64 KiB on a veth, otherwise the system's
    /// default.
    pub send_buffer_bytes: Option<u32>,
    /// The interface accepts frames for other addresses, too, as a switch's must.
    pub promiscuous: bool,
    /// Whether the driver accesses the UMEM itself.
    pub zero_copy: ZeroCopy,
}

impl Default for PortConfig {
    fn default() -> Self {
        PortConfig {
            tx_ring: 2048,
            tx_budget: 256,
            max_posted: MAX_POSTED as u32,
            min_posted: FLOOR_FRAMES,
            send_buffer_bytes: None,
            promiscuous: false,
            zero_copy: ZeroCopy::Auto,
        }
    }
}

impl PortConfig {
    /// Returns what is invalid, if anything.
    pub(crate) fn validate(&self) -> Option<&'static str> {
        if !self.tx_ring.is_power_of_two() || self.tx_ring > COMPLETION_RING {
            Some("the TX ring must be a power of two, at most 2048")
        } else if self.tx_budget == 0 || self.tx_budget > self.tx_ring {
            Some("the TX budget must be at least 1 and at most the TX ring")
        } else if self.max_posted == 0 || self.max_posted as usize > MAX_POSTED {
            Some("at least 1 and at most 8192 frames can be posted")
        } else if self.min_posted > self.max_posted.max(FLOOR_FRAMES) {
            Some("the fewest posted frames are more than the most")
        } else {
            None
        }
    }
}
