//! A captured frame, as the loop writes it into a buffer and the daemon reads it.

use bytes::{Buf, BufMut};
use switch::{DropReason, Instant};

/// Direction of a frame, as seen from the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameDirection {
    /// The port received it.
    In,
    /// It left the port, or was dropped before it could.
    Out,
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameVerdict {
    /// In: it was accepted. Out: it left.
    Forwarded,
    /// It left with an ECN mark that this switch set.
    Marked,
    /// It was dropped.
    Dropped,
    /// A PFC or PAUSE frame.
    Pause,
    /// LLDP, which the daemon consumed.
    Consumed,
}

impl FrameVerdict {
    /// All verdicts.
    pub const ALL: [Self; 5] = [Self::Forwarded, Self::Marked, Self::Dropped, Self::Pause, Self::Consumed];

    /// Returns its name in the API.
    #[expect(clippy::indexing_slicing, reason = "by kind, an enumeration")]
    pub fn name(self) -> &'static str {
        ["forwarded", "marked", "dropped", "pause", "consumed"][self as usize]
    }
}

/// What is known of a captured frame, beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Time, by the clock of the loop.
    pub at: Instant,
    /// Number of the port.
    pub port: u8,
    /// Direction at that port.
    pub direction: FrameDirection,
    /// What became of it.
    pub verdict: FrameVerdict,
    /// Priority of a data frame.
    pub priority: Option<u8>,
    /// Why it was dropped, and the number of the port that counts the drop.
    pub drop: Option<(DropReason, u8)>,
    /// Length without FCS.
    pub len: u16,
}

/// Bytes of a header in a buffer.
pub(crate) const HEADER_BYTES: usize = 18;
const NONE: u8 = u8::MAX;

impl FrameHeader {
    /// Appends the header and the first bytes of the frame.
    pub(crate) fn put(&self, out: &mut Vec<u8>, bytes: &[u8]) {
        out.put_u64_le(self.at.0);
        out.put_u16_le(self.len);
        out.put_u16_le(bytes.len() as u16);
        out.put_slice(&[self.port, u8::from(self.direction == FrameDirection::Out), self.verdict as u8]);
        let (reason, port) = self.drop.map_or((NONE, NONE), |(reason, port)| (reason as u8, port));
        out.put_slice(&[self.priority.unwrap_or(NONE), reason, port]);
        out.put_slice(bytes);
    }

    /// Takes the next frame of a buffer; `None` at its end.
    pub fn take<'b>(buffer: &mut &'b [u8]) -> Option<(Self, &'b [u8])> {
        let at = Instant(buffer.try_get_u64_le().ok()?);
        let len = buffer.try_get_u16_le().ok()?;
        let kept = usize::from(buffer.try_get_u16_le().ok()?);
        let (&[port, is_out, verdict, priority, reason, drop_port], rest) = buffer.split_first_chunk()?;
        let (bytes, rest) = rest.split_at_checked(kept)?;
        *buffer = rest;
        let direction = if is_out == 0 { FrameDirection::In } else { FrameDirection::Out };
        let header = Self {
            at,
            port,
            direction,
            verdict: *FrameVerdict::ALL.get(usize::from(verdict))?,
            priority: (priority != NONE).then_some(priority),
            drop: DropReason::ALL.get(usize::from(reason)).map(|&reason| (reason, drop_port)),
            len,
        };
        Some((header, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let header = FrameHeader {
            at: Instant(1_234_567_890_123),
            port: 63,
            direction: FrameDirection::Out,
            verdict: FrameVerdict::Dropped,
            priority: Some(3),
            drop: Some((DropReason::DestinationDown, 62)),
            len: 9000,
        };
        let other = FrameHeader {
            direction: FrameDirection::In,
            verdict: FrameVerdict::Pause,
            priority: None,
            drop: None,
            ..header
        };
        let mut buffer = Vec::new();
        header.put(&mut buffer, &[7; 64]);
        assert_eq!(buffer.len(), HEADER_BYTES + 64);
        other.put(&mut buffer, &[]);
        let mut rest = &buffer[..];
        assert_eq!(FrameHeader::take(&mut rest), Some((header, &[7; 64][..])));
        assert_eq!(FrameHeader::take(&mut rest), Some((other, &[][..])));
        assert_eq!(FrameHeader::take(&mut rest), None);
        for reason in DropReason::ALL {
            let mut buffer = Vec::new();
            FrameHeader { drop: Some((reason, 0)), ..header }.put(&mut buffer, &[]);
            assert_eq!(FrameHeader::take(&mut &buffer[..]).unwrap().0.drop, Some((reason, 0)));
        }
    }
}
