//! The completion time of a message that is alone in the network, in which switches take no time.
//!
//! Rule: switches store and forward. The frames follow each other at the speed of the slowest link
//! so far, or at the flow's rate; the last one, which may be shorter, waits behind the one before
//! it on each link.

use super::Routes;
use crate::flow::{Flow, frames_of};
use crate::scenario::types::{Pattern, Scenario};

/// The links of a flow's path, in order.
#[derive(Debug)]
pub(crate) struct IdealPath {
    links: Vec<IdealLink>,
    frame_bytes: u64,
    /// Time from one frame to the next at the flow's rate, per byte on the wire.
    rate_byte_ns: f64,
}

#[derive(Debug)]
struct IdealLink {
    byte_ns: f64,
    overhead_bytes: f64,
    propagation_ns: f64,
}

impl IdealPath {
    /// Creates the path of a flow; `None` if its routes lead nowhere.
    pub(crate) fn new(scenario: &Scenario, routes: &Routes, flow: &Flow) -> Option<Self> {
        let traffic = &scenario.traffic[flow.traffic];
        let path = routes.path(flow.headers.from, flow.headers.to)?;
        let links = path.iter().map(|&link| &scenario.links[link]).map(|link| IdealLink {
            byte_ns: 8e9 / link.speed_bps as f64,
            overhead_bytes: link.overhead_bytes.into(),
            propagation_ns: link.propagation_ns as f64,
        });
        let rate_byte_ns = match traffic.pattern {
            Pattern::Poisson { .. } => 0.0, // its rate is that of messages
            _ => 8e9 / traffic.rate_bps as f64,
        };
        Some(Self { links: links.collect(), frame_bytes: traffic.frame_bytes.into(), rate_byte_ns })
    }

    /// Returns the time of a message; `None` for one without bytes.
    pub(crate) fn time_ns(&self, bytes: u64) -> Option<f64> {
        let (frames, last) = frames_of(bytes, self.frame_bytes);
        let first_link = self.links.first()?;
        let full = self.frame_bytes as f64;
        let before = (frames.checked_sub(1)?) as f64;
        let mut spacing = self.rate_byte_ns * (full + first_link.overhead_bytes);
        // When the last frame, and the last of full length before it, have arrived.
        let (mut last_at, mut full_at) = (before * spacing, 0.0);
        for link in &self.links {
            let [full_ns, last_ns] =
                [full, f64::from(last)].map(|bytes| link.byte_ns * (bytes + link.overhead_bytes));
            full_at += full_ns;
            spacing = spacing.max(full_ns);
            let line_is_free = if before > 0.0 { full_at + (before - 1.0) * spacing } else { 0.0 };
            last_at = last_at.max(line_is_free) + last_ns + link.propagation_ns;
            full_at += link.propagation_ns;
        }
        (bytes > 0).then_some(last_at)
    }
}
