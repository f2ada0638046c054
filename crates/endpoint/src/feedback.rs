//! What a sender knows of its path, and learns from an acknowledgment: the input of every rule of
//! congestion control ([`crate::transport`]).

use switch::{Instant, Nanos};

/// The path of a flow, as its sender knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowPath {
    /// Speed of the sender's link, in bit/s; links behind it may be slower.
    pub max_bps: u64,
    /// Round-trip time of a frame through empty queues.
    pub base_rtt_ns: Nanos,
    /// Number of switches between sender and receiver.
    pub hops: u32,
    /// Length of a frame.
    pub frame_bytes: u16,
}

impl FlowPath {
    /// The bandwidth–delay product, in bytes.
    pub fn bdp_bytes(&self) -> f64 {
        self.max_bps as f64 * self.base_rtt_ns as f64 / 8e9
    }
}

/// State of an egress port when a frame left it: in-band network telemetry (INT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopRecord {
    /// Which link direction it is: records of two paths are not compared.
    pub link: u32,
    /// Bytes queued at the port.
    pub queue_bytes: u64,
    /// Bytes that the port has sent so far.
    pub tx_bytes: u64,
    /// When the frame left.
    pub at: Instant,
    /// Speed of the link, in bit/s.
    pub speed_bps: u64,
}

/// What an acknowledgment of a frame reports to its sender.
#[derive(Debug, Clone, Copy)]
pub struct AckSample<'h> {
    /// When the acknowledgment arrived.
    pub now: Instant,
    /// Number of the frame.
    pub number: u64,
    /// Number of the next new frame of the flow.
    pub next_number: u64,
    /// Bytes that are acknowledged for the first time.
    pub acked_bytes: u64,
    /// True if the frame was marked (CE).
    pub marked: bool,
    /// Time from the start of the frame's transmission; `None` if it was sent more than once
    /// (Karn's rule), or acknowledged before.
    pub rtt_ns: Option<Nanos>,
    /// True if the window held the sender back.
    pub limited: bool,
    /// State of each switch's port on the frame's path, in order; empty without INT.
    pub hops: &'h [HopRecord],
}
