//! Congestion control by acknowledgments: what a sender learns from one, and the rule that it
//! follows. The rules are [`dctcp`](crate::dctcp), [`timely`](crate::timely),
//! [`swift`](crate::swift) and [`hpcc`](crate::hpcc).
//!
//! ```text
//!   ack ──▶ marked ──────────▶ DCTCP ──▶ window
//!           round-trip time ─▶ Swift ──▶ window, or a pace below one frame
//!                           ─▶ TIMELY ─▶ rate
//!           queues, INT ─────▶ HPCC ───▶ window and rate
//! ```
//! A sender may have as many bytes unacknowledged as its window, and spaces frames at its rate.

use switch::Instant;

use crate::dctcp::{Dctcp, DctcpSettings};
use crate::feedback::{AckSample, FlowPath};
use crate::hpcc::{Hpcc, HpccSettings};
use crate::swift::{Swift, SwiftSettings};
use crate::timely::{Timely, TimelySettings};

/// A rule of congestion control, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TransportSettings {
    /// By the share of marked bytes.
    Dctcp(DctcpSettings),
    /// By the gradient of the round-trip time.
    Timely(TimelySettings),
    /// By a target delay.
    Swift(SwiftSettings),
    /// By the load of each link on the path.
    Hpcc(HpccSettings),
}

/// Congestion control of one flow.
#[derive(Debug, Clone)]
pub enum Transport {
    /// By the share of marked bytes.
    Dctcp(Dctcp),
    /// By the gradient of the round-trip time.
    Timely(Timely),
    /// By a target delay.
    Swift(Swift),
    /// By the load of each link on the path.
    Hpcc(Hpcc),
}

impl Transport {
    /// Returns the state of a flow that has not sent anything.
    pub fn new(settings: TransportSettings, path: &FlowPath) -> Self {
        match settings {
            TransportSettings::Dctcp(settings) => Self::Dctcp(Dctcp::new(settings, path)),
            TransportSettings::Timely(settings) => Self::Timely(Timely::new(settings, path)),
            TransportSettings::Swift(settings) => Self::Swift(Swift::new(settings, path)),
            TransportSettings::Hpcc(settings) => Self::Hpcc(Hpcc::new(settings, path)),
        }
    }

    /// Handles an acknowledgment.
    pub fn on_ack(&mut self, ack: &AckSample) {
        match self {
            Self::Dctcp(dctcp) => dctcp.on_ack(ack),
            Self::Timely(timely) => timely.on_ack(ack),
            Self::Swift(swift) => swift.on_ack(ack),
            Self::Hpcc(hpcc) => hpcc.on_ack(ack),
        }
    }

    /// Handles a loss that acknowledgments show; frames before `next_number` have been sent. TIMELY
    /// and HPCC have no rule for it.
    pub fn on_loss(&mut self, number: u64, next_number: u64, now: Instant) {
        match self {
            Self::Dctcp(dctcp) => dctcp.on_loss(number, next_number),
            Self::Swift(swift) => swift.on_loss(now),
            Self::Timely(_) | Self::Hpcc(_) => {}
        }
    }

    /// Handles a retransmission timeout. TIMELY and HPCC have no rule for it.
    pub fn on_timeout(&mut self, now: Instant) {
        match self {
            Self::Dctcp(dctcp) => dctcp.on_timeout(),
            Self::Swift(swift) => swift.on_timeout(now),
            Self::Timely(_) | Self::Hpcc(_) => {}
        }
    }

    /// The most bytes that may be unacknowledged; a frame may always be.
    pub fn window_bytes(&self) -> u64 {
        match self {
            Self::Dctcp(dctcp) => dctcp.window_bytes(),
            Self::Timely(_) => u64::MAX,
            Self::Swift(swift) => swift.window_bytes(),
            Self::Hpcc(hpcc) => hpcc.window_bytes(),
        }
    }

    /// The rate at which frames are spaced, in bit/s; `None` if the window alone limits them.
    pub fn pacing_bps(&self) -> Option<f64> {
        match self {
            Self::Dctcp(_) => None,
            Self::Timely(timely) => Some(timely.rate_bps()),
            Self::Swift(swift) => swift.pacing_bps(),
            Self::Hpcc(hpcc) => Some(hpcc.rate_bps()),
        }
    }
}
