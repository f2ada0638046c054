//! The conservation of frames (docs/behavior.md, "Invariants", 5): every received frame, and every
//! copy of it, was transmitted, was dropped with a reason, was lost by the kernel during
//! transmission, or waits.
//!
//! ```text
//! received + flood copies = transmitted + dropped + lost by the kernel + waiting
//! ```
//!
//! It holds exactly once no frame is in flight: frames that the kernel has not yet completed are in
//! none of these counts. So it is checked on a switch that is idle or stopped.

use std::fmt;

use crate::convert::frames;
use crate::v1;

/// Both sides of the equation, in frames, over all ports, including removed ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameBalance {
    /// Data frames received from the interfaces.
    pub received: u64,
    /// Copies of flooded frames.
    pub flood_copies: u64,
    /// Data frames transmitted.
    pub transmitted: u64,
    /// Frames dropped for any reason.
    pub dropped: u64,
    /// Frames that the kernel accepted for transmission and lost.
    pub kernel_lost: u64,
    /// Frames that wait in queues.
    pub waiting: u64,
}

impl FrameBalance {
    /// Returns the balance of a snapshot.
    pub fn of(snapshot: &v1::Snapshot) -> Self {
        let mut balance = Self { flood_copies: snapshot.flood_copies, ..Self::default() };
        for port in &snapshot.ports {
            balance.received += frames(port.received);
            balance.transmitted += frames(port.transmitted);
            balance.dropped += port.dropped_frames();
            balance.kernel_lost += port.kernel_lost_frames;
            balance.waiting += port.queues.iter().map(|queue| queue.waiting_frames).sum::<u64>();
        }
        if let Some(removed) = &snapshot.removed_ports {
            balance.received += frames(removed.received);
            balance.transmitted += frames(removed.transmitted);
            balance.dropped += removed.drops.values().map(|drops| drops.frames).sum::<u64>();
            balance.kernel_lost += removed.kernel_lost_frames;
        }
        balance
    }

    /// Returns true if every frame is accounted for.
    pub fn holds(&self) -> bool {
        self.received + self.flood_copies == self.transmitted + self.dropped + self.kernel_lost + self.waiting
    }
}

impl fmt::Display for FrameBalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "received {} + flood copies {} {} transmitted {} + dropped {} + lost by the kernel {} + waiting {}",
            self.received,
            self.flood_copies,
            if self.holds() { "=" } else { "≠" },
            self.transmitted,
            self.dropped,
            self.kernel_lost,
            self.waiting,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ports: 10 frames received on one, of which 2 are dropped and 1 is flooded to a third
    /// port, and so on.
    fn snapshot() -> v1::Snapshot {
        let count = |frames| Some(v1::Count { frames, bytes: frames * 64 });
        let drops = |reason: &str, frames| (reason.to_owned(), v1::Count { frames, bytes: frames * 64 });
        let queue = |waiting_frames| v1::Queue { waiting_frames, ..Default::default() };
        v1::Snapshot {
            flood_copies: 3,
            ports: vec![
                v1::Port {
                    received: count(10),
                    kernel_lost_frames: 1,
                    drops: [drops("tail_drop", 2), drops("filtered", 1)].into(),
                    ..Default::default()
                },
                v1::Port { transmitted: count(5), queues: vec![queue(3), queue(1)], ..Default::default() },
            ],
            ..Default::default()
        }
    }

    #[test]
    fn each_count_is_on_its_side() {
        let balance = FrameBalance::of(&snapshot());
        assert!(balance.holds(), "{balance}");
        assert_eq!(
            balance.to_string(),
            "received 10 + flood copies 3 = transmitted 5 + dropped 3 + lost by the kernel 1 + waiting 4"
        );
    }

    #[test]
    fn one_frame_missing_shows() {
        let mut snapshot = snapshot();
        snapshot.ports[0].received.as_mut().unwrap().frames += 1;
        let balance = FrameBalance::of(&snapshot);
        assert!(!balance.holds());
        assert!(balance.to_string().contains("flood copies 3 ≠ transmitted 5"), "{balance}");
    }
}
