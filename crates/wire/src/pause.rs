//! MAC control frames: PFC and PAUSE.
//!
//! Source: IEEE 802.3-2022 clause 31 (MAC control), Annex 31B (PAUSE) and Annex 31D (PFC, defined
//! by 802.1Qbb).
//!
//! ```text
//! 0                   6     12       14       16             18        20           34       60
//! +-------------------+-----+--------+--------+--------------+---------+-- … ------+--------+
//! PFC:
//! | 01-80-C2-00-00-01 | src | 0x8808 | 0x0101 | class-enable | time[0] |  … time[7] | zeroes |
//! PAUSE:
//! | 01-80-C2-00-00-01 | src | 0x8808 | 0x0001 | time         | zeroes                        |
//! +-------------------+-----+--------+--------+--------------+---------+-- … ------+--------+
//! ```
//! Times are in quanta of 512 bit times of the link; 0 ends a pause. Only frames to
//! 01-80-C2-00-00-01 are MAC control.

use crate::ethernet::{self, HEADER_BYTES, MAC_CONTROL};
use crate::{Error, MacAddr};

/// Length of the frames written here: the shortest Ethernet frame, without FCS.
pub const FRAME_BYTES: usize = 60;

const OPCODE_PAUSE: u16 = 0x0001;
const OPCODE_PFC: u16 = 0x0101;

/// A priority-based flow control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pfc {
    /// Class-enable vector: bit i selects `quanta[i]`.
    pub enable: u8,
    /// Pause time of each priority, in quanta of 512 bit times; 0 ends its pause.
    pub quanta: [u16; 8],
}

impl Pfc {
    /// Writes the whole frame.
    pub fn encode(&self, src: MacAddr, out: &mut [u8; FRAME_BYTES]) {
        start_frame(src, OPCODE_PFC, out);
        // The high byte of the vector is reserved: 0.
        out[16..18].copy_from_slice(&u16::from(self.enable).to_be_bytes());
        for (field, quanta) in out[18..34].chunks_exact_mut(2).zip(self.quanta) {
            field.copy_from_slice(&quanta.to_be_bytes());
        }
    }
}

/// A PAUSE frame, which stops all priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// Pause time in quanta of 512 bit times; 0 ends the pause.
    pub quanta: u16,
}

impl Pause {
    /// Writes the whole frame.
    pub fn encode(&self, src: MacAddr, out: &mut [u8; FRAME_BYTES]) {
        start_frame(src, OPCODE_PAUSE, out);
        out[16..18].copy_from_slice(&self.quanta.to_be_bytes());
    }
}

fn start_frame(src: MacAddr, opcode: u16, out: &mut [u8; FRAME_BYTES]) {
    out.fill(0);
    ethernet::write_header(out, MacAddr::PAUSE, src, None, MAC_CONTROL);
    out[14..16].copy_from_slice(&opcode.to_be_bytes());
}

/// A received MAC control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Priority-based flow control.
    Pfc(Pfc),
    /// PAUSE of the whole link.
    Pause {
        /// Pause time in quanta.
        quanta: u16,
    },
    /// Another MAC control frame.
    Unknown {
        /// Opcode of the frame.
        opcode: u16,
    },
}

/// Reads a frame of ethertype [`MAC_CONTROL`]. The padding may be missing; a missing field is
/// [`Error::Truncated`]. A MAC control frame carries no tag, so the ethertype must follow the
/// source address ([`Error::WrongType`]). The destination must be [`MacAddr::PAUSE`]
/// ([`Error::WrongDestination`]).
#[inline]
pub fn decode(frame: &[u8]) -> Result<Control, Error> {
    let (header, body) = frame.split_first_chunk::<HEADER_BYTES>().ok_or(Error::Truncated)?;
    if u16::from_be_bytes([header[12], header[13]]) != MAC_CONTROL {
        return Err(Error::WrongType);
    }
    if !header.starts_with(&MacAddr::PAUSE.0) {
        return Err(Error::WrongDestination);
    }
    decode_body(body)
}

/// Reads what follows the header. It is apart, so that a frame of another ethertype costs no call.
fn decode_body(body: &[u8]) -> Result<Control, Error> {
    let (opcode, rest) = take_u16(body)?;
    match opcode {
        OPCODE_PFC => {
            // The high byte of the vector is reserved and ignored on receipt.
            let (vector, mut rest) = take_u16(rest)?;
            let mut pfc = Pfc { enable: vector as u8, quanta: [0; 8] };
            for quanta in &mut pfc.quanta {
                (*quanta, rest) = take_u16(rest)?;
            }
            Ok(Control::Pfc(pfc))
        }
        OPCODE_PAUSE => Ok(Control::Pause { quanta: take_u16(rest)?.0 }),
        opcode => Ok(Control::Unknown { opcode }),
    }
}

#[inline]
fn take_u16(bytes: &[u8]) -> Result<(u16, &[u8]), Error> {
    let (field, rest) = bytes.split_first_chunk::<2>().ok_or(Error::Truncated)?;
    Ok((u16::from_be_bytes(*field), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRC: MacAddr = MacAddr([0x02, 0x53, 0x4c, 0x55, 0x43, 0x45]);

    /// The header up to the opcode's high byte, common to all frames.
    const START: [u8; 14] = [0x01, 0x80, 0xc2, 0, 0, 1, 0x02, 0x53, 0x4c, 0x55, 0x43, 0x45, 0x88, 0x08];

    fn golden(fields: &[u8]) -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        frame[..14].copy_from_slice(&START);
        frame[14..14 + fields.len()].copy_from_slice(fields);
        frame
    }

    #[test]
    fn a_pfc_frame_byte_by_byte() {
        let pfc = Pfc { enable: 0b0010_1001, quanta: [0x0102, 0, 0, 0xffff, 0, 0, 0, 0x0708] };
        let mut out = [0xee; FRAME_BYTES];
        pfc.encode(SRC, &mut out);
        let fields = [1, 1, 0, 0x29, 1, 2, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 7, 8];
        assert_eq!(out, golden(&fields));
        assert_eq!(decode(&out), Ok(Control::Pfc(pfc)));
    }

    #[test]
    fn a_pause_frame_byte_by_byte() {
        let mut out = [0xee; FRAME_BYTES];
        Pause { quanta: 0x1234 }.encode(SRC, &mut out);
        assert_eq!(out, golden(&[0, 1, 0x12, 0x34]));
        assert_eq!(decode(&out), Ok(Control::Pause { quanta: 0x1234 }));
    }

    #[test]
    fn reserved_bits_of_the_vector_are_ignored() {
        let decoded = decode(&golden(&[1, 1, 0xff, 0x08]));
        assert_eq!(decoded, Ok(Control::Pfc(Pfc { enable: 8, quanta: [0; 8] })));
    }

    #[test]
    fn other_opcodes_are_unknown_and_other_types_refused() {
        assert_eq!(decode(&golden(&[0, 2])), Ok(Control::Unknown { opcode: 2 }));
        let mut frame = golden(&[1, 1]);
        frame[12..14].copy_from_slice(&[8, 0]);
        assert_eq!(decode(&frame), Err(Error::WrongType));
    }

    /// Any other destination is refused, even the receiver's own address.
    #[test]
    fn other_destinations_are_refused() {
        for dst in [[0x01, 0x80, 0xc2, 0, 0, 0], [0x01, 0x80, 0xc2, 0, 0, 2], [0xff; 6], [2, 0, 0, 0, 0, 1]] {
            let mut frame = golden(&[1, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9]);
            frame[..6].copy_from_slice(&dst);
            assert_eq!(decode(&frame), Err(Error::WrongDestination), "{dst:02x?}");
        }
    }

    /// A frame is an error at every length until the last field is complete, and is read from then
    /// on.
    #[test]
    fn a_frame_that_is_cut_off_is_refused_at_every_length() {
        for (fields, needed) in [(&[1, 1, 0, 8][..], 34), (&[0, 1, 0, 9], 18), (&[0, 9], 16)] {
            let frame = golden(fields);
            let whole = decode(&frame).unwrap();
            for len in 0..=FRAME_BYTES {
                let expected = if len < needed { Err(Error::Truncated) } else { Ok(whole) };
                assert_eq!(decode(&frame[..len]), expected, "{fields:?} cut to {len} bytes");
            }
        }
    }
}
