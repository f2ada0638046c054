//! The way of LLDP frames from a loop to the daemon: a bounded ring for each port, so that a port
//! that receives many takes no room from others.
//!
//! Rule: the loop neither waits nor allocates. A frame that finds its ring full, or that is longer
//! than an LLDP frame can be, is lost and counted. Source: docs/dcbx.md, "Frames".

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam::queue::ArrayQueue;

/// Frames that wait for a port. The daemon takes them every few milliseconds, and a peer sends one
/// a second at most, by its credit five at once.
const FRAMES: usize = 8;
/// The longest LLDP frame: 1500 bytes after the Ethernet header.
const FRAME_BYTES: usize = 1514;

/// A received frame.
#[derive(Clone)]
pub struct PuntedBytes {
    bytes: [u8; FRAME_BYTES],
    len: u16,
}

/// The rings of all ports, between a loop and the daemon.
#[derive(Debug, Default)]
pub struct PuntRings {
    ports: Vec<PuntRing>,
}

#[derive(Debug)]
struct PuntRing {
    frames: ArrayQueue<PuntedBytes>,
    lost: AtomicU64,
}

impl PuntRings {
    /// Creates rings for this number of ports.
    pub fn new(ports: usize) -> Self {
        let ring = |_| PuntRing { frames: ArrayQueue::new(FRAMES), lost: AtomicU64::new(0) };
        Self { ports: (0..ports).map(ring).collect() }
    }

    /// Adds a frame that a port received.
    #[cold]
    pub fn push(&self, port: usize, frame: &[u8]) {
        let Some(ring) = self.ports.get(port) else { return };
        let fits = PuntedBytes::new(frame).is_some_and(|punted| ring.frames.push(punted).is_ok());
        ring.lost.fetch_add(u64::from(!fits), Relaxed);
    }

    /// Takes the next frame of a port.
    pub fn pop(&self, port: usize) -> Option<PuntedBytes> {
        self.ports.get(port)?.frames.pop()
    }

    /// Returns the frames of a port that were lost since the start.
    pub fn lost(&self, port: usize) -> u64 {
        self.ports.get(port).map_or(0, |ring| ring.lost.load(Relaxed))
    }
}

impl PuntedBytes {
    fn new(frame: &[u8]) -> Option<Self> {
        let mut bytes = [0; FRAME_BYTES];
        bytes.get_mut(..frame.len())?.copy_from_slice(frame);
        Some(Self { bytes, len: frame.len() as u16 })
    }

    /// Returns the frame, without FCS.
    #[expect(clippy::indexing_slicing, reason = "the length of a frame that fitted")]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for PuntedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PuntedBytes").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted_and_takes_no_room_of_other_ports() {
        let rings = PuntRings::new(2);
        (0..FRAMES + 3).for_each(|n| rings.push(0, &[n as u8; 60]));
        rings.push(1, &[9; FRAME_BYTES]);
        rings.push(1, &[9; FRAME_BYTES + 1]);
        rings.push(2, &[9; 60]);
        let taken: Vec<_> = std::iter::from_fn(|| rings.pop(0)).map(|frame| frame.bytes().to_vec()).collect();
        assert_eq!(taken, (0..FRAMES).map(|n| vec![n as u8; 60]).collect::<Vec<_>>());
        assert_eq!(rings.pop(1).unwrap().bytes(), [9; FRAME_BYTES]);
        assert_eq!((rings.lost(0), rings.lost(1), rings.lost(2)), (3, 1, 0));
        assert!(rings.pop(1).is_none() && rings.pop(2).is_none());
    }
}
