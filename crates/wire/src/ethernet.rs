//! The Ethernet header with up to two tags.
//!
//! Source: IEEE 802.3-2022 clause 3.2 (frame), IEEE 802.1Q-2022 clause 9.6 (tag control
//! information).
//!
//! ```text
//! 0        6        12     14    16                 (each tag moves what follows it by 4)
//! +--------+--------+------+-----+-----------+
//! |  dst   |  src   | TPID | TCI | ethertype | payload …
//! +--------+--------+------+-----+-----------+
//!                    TCI = PCP (3 bits) | DEI (1) | VID (12)
//! ```

use crate::{Error, MacAddr};

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;
/// Customer VLAN tag (C-TAG), the usual one.
pub const VLAN: u16 = 0x8100;
/// Service VLAN tag (S-TAG).
pub const SERVICE_VLAN: u16 = 0x88a8;
/// MAC control: PAUSE and PFC.
pub const MAC_CONTROL: u16 = 0x8808;
/// LLDP (IEEE 802.1AB-2016 7.3).
pub const LLDP: u16 = 0x88cc;
/// Local experimental ethertype 1 (IEEE Std 802-2014 clause 9.2.4): Sluice's test traffic.
pub const EXPERIMENTAL: u16 = 0x88b5;

/// Bytes of a header without a tag.
pub const HEADER_BYTES: usize = 14;
/// Bytes that a tag adds.
pub const TAG_BYTES: usize = 4;
/// Offset of the first tag, after the addresses.
const TAG_AT: usize = 12;
/// VID bits of the tag control information.
const VID_MASK: u16 = 0x0fff;
/// Bytes of a header with two tags, the longest.
const LONGEST_HEADER_BYTES: usize = HEADER_BYTES + 2 * TAG_BYTES;

/// An 802.1Q tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Which tag it is: [`VLAN`] or [`SERVICE_VLAN`].
    pub tpid: u16,
    /// Priority code point, 0–7: the 802.1p priority.
    pub pcp: u8,
    /// Drop eligible indicator.
    pub dei: bool,
    /// VLAN identifier, 0–4095; 0 in a tag that carries only a priority.
    pub vid: u16,
}

impl Tag {
    /// Returns a tag that carries a priority and no VLAN.
    pub fn priority(pcp: u8) -> Self {
        Self { tpid: VLAN, pcp: pcp & 7, dei: false, vid: 0 }
    }

    #[inline]
    fn from_tci(tpid: u16, tci: u16) -> Self {
        Self { tpid, pcp: (tci >> 13) as u8, dei: tci & 0x1000 != 0, vid: tci & 0x0fff }
    }

    /// Returns the tag control information; bits that do not fit their field are cut off.
    #[inline]
    fn tci(self) -> u16 {
        u16::from(self.pcp & 7) << 13 | u16::from(self.dei) << 12 | self.vid & 0x0fff
    }
}

/// The header of a frame: everything before the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Destination.
    pub dst: MacAddr,
    /// Source.
    pub src: MacAddr,
    /// First tag.
    pub outer: Option<Tag>,
    /// Second tag.
    pub inner: Option<Tag>,
    /// Type of the payload; below 0x0600 it is the length of an 802.3 frame. A third tag is
    /// payload, and its TPID the type.
    pub ethertype: u16,
    /// Offset of the payload, in bytes from the destination address: 14, 18 or 22.
    pub payload_offset: usize,
}

impl Header {
    /// Reads the header of a frame. A frame that ends inside its header or inside a tag is
    /// [`Error::Truncated`].
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Header, Error> {
        let fixed: &[u8; HEADER_BYTES] = frame.first_chunk().ok_or(Error::Truncated)?; // the one check
        let (dst, rest) = fixed.split_first_chunk().ok_or(Error::Truncated)?;
        let (src, rest) = rest.split_first_chunk().ok_or(Error::Truncated)?;
        let tpid = rest.first_chunk().ok_or(Error::Truncated)?;
        let (dst, src) = (MacAddr(*dst), MacAddr(*src));
        let tpid = u16::from_be_bytes(*tpid);
        if !is_tag(tpid) {
            let payload_offset = HEADER_BYTES;
            return Ok(Header { dst, src, outer: None, inner: None, ethertype: tpid, payload_offset });
        }
        let (tci, mut ethertype) = tag_at(frame, HEADER_BYTES)?;
        let mut payload_offset = HEADER_BYTES + TAG_BYTES;
        let outer = Some(Tag::from_tci(tpid, tci));
        let mut inner = None;
        if is_tag(ethertype) {
            let (tci, next) = tag_at(frame, payload_offset)?;
            inner = Some(Tag::from_tci(ethertype, tci));
            (ethertype, payload_offset) = (next, payload_offset + TAG_BYTES);
        }
        Ok(Header { dst, src, outer, inner, ethertype, payload_offset })
    }
}

/// Returns the tag control information at `offset`, and the type that follows it.
#[inline]
fn tag_at(frame: &[u8], offset: usize) -> Result<(u16, u16), Error> {
    let rest = frame.get(offset..).and_then(|rest| rest.first_chunk::<TAG_BYTES>());
    let [tci0, tci1, type0, type1] = *rest.ok_or(Error::Truncated)?;
    Ok((u16::from_be_bytes([tci0, tci1]), u16::from_be_bytes([type0, type1])))
}

/// Value in place of PCP · 2 + DEI in a frame without a tag.
pub const NO_TAG: u8 = 16;

/// The unparsed bytes after the addresses, where the first tag of a tagged frame is. They are
/// parsed on demand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FirstTag([u8; TAG_BYTES]);

impl FirstTag {
    /// No tag.
    pub const NONE: Self = Self([0; TAG_BYTES]);

    /// Returns the VID of the tag, if it is a C-tag.
    #[inline]
    pub fn customer_vid(self) -> Option<u16> {
        let [tpid0, tpid1, tci0, tci1] = self.0;
        (u16::from_be_bytes([tpid0, tpid1]) == VLAN).then(|| u16::from_be_bytes([tci0, tci1]) & VID_MASK)
    }
}

/// The header fields that the switch needs to forward a frame, as plain numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// Destination, as [`MacAddr::number`] has it.
    pub dst: u64,
    /// Source, as [`MacAddr::number`] has it.
    pub src: u64,
    /// Type of the payload, as in [`Header`].
    pub ethertype: u16,
    /// PCP and DEI of the first tag, as PCP · 2 + DEI; [`NO_TAG`] if there is none.
    pub pcp_and_dei: u8,
    /// Offset of the payload, as in [`Header`].
    pub payload_offset: u8,
    /// The first tag, for its VLAN.
    pub first_tag: FirstTag,
}

impl Fields {
    /// Reads the header of a frame; errors as in [`Header::parse`].
    #[inline]
    pub fn read(frame: &[u8]) -> Result<Fields, Error> {
        // Nearly every frame is longer than any header, so this is the only check.
        let padded;
        let header = match frame.first_chunk() {
            Some(header) => header,
            None => {
                padded = pad(frame);
                &padded
            }
        };
        let fields = Self::read_longest(header);
        if usize::from(fields.payload_offset) > frame.len() { Err(Error::Truncated) } else { Ok(fields) }
    }

    /// Reads a header from a buffer that has room for the longest.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "constant offsets in an array")]
    fn read_longest(header: &[u8; LONGEST_HEADER_BYTES]) -> Fields {
        let eight = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let two = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let first_tag = FirstTag(header[TAG_AT..].first_chunk().copied().unwrap_or_default());
        let (dst, src_and_type) = (eight(0) >> 16, eight(6));
        let (src, tpid) = (src_and_type >> 16, src_and_type as u16);
        if !is_tag(tpid) {
            let payload_offset = HEADER_BYTES as u8;
            return Fields { dst, src, ethertype: tpid, pcp_and_dei: NO_TAG, payload_offset, first_tag };
        }
        let pcp_and_dei = header[HEADER_BYTES] >> 4;
        let ethertype = two(HEADER_BYTES + TAG_BYTES - 2);
        if !is_tag(ethertype) {
            let payload_offset = (HEADER_BYTES + TAG_BYTES) as u8;
            return Fields { dst, src, ethertype, pcp_and_dei, payload_offset, first_tag };
        }
        let ethertype = two(LONGEST_HEADER_BYTES - 2);
        let payload_offset = LONGEST_HEADER_BYTES as u8;
        Fields { dst, src, ethertype, pcp_and_dei, payload_offset, first_tag }
    }
}

/// Returns a frame that is shorter than the longest header, padded with zeros.
#[cold]
#[expect(clippy::indexing_slicing, reason = "called for a frame that is shorter than the array")]
fn pad(frame: &[u8]) -> [u8; LONGEST_HEADER_BYTES] {
    let mut padded = [0; LONGEST_HEADER_BYTES];
    padded[..frame.len()].copy_from_slice(frame);
    padded
}

#[inline]
fn is_tag(ethertype: u16) -> bool {
    ethertype == VLAN || ethertype == SERVICE_VLAN
}

/// Sets the PCP of the first tag; DEI and VLAN stay. False if there is no tag.
pub fn set_outer_pcp(frame: &mut [u8], pcp: u8) -> bool {
    let at = HEADER_BYTES - 2;
    match frame.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<TAG_BYTES>()) {
        Some([tpid0, tpid1, tci, _]) if is_tag(u16::from_be_bytes([*tpid0, *tpid1])) => {
            *tci = *tci & 0x1f | (pcp & 7) << 5;
            true
        }
        _ => false,
    }
}

/// Sets the VID of the first tag; PCP and DEI stay. No effect if there is no room for a tag.
pub fn set_outer_vid(frame: &mut [u8], vid: u16) {
    if let Some([_, _, tci0, tci1]) = frame.get_mut(TAG_AT..).and_then(|rest| rest.first_chunk_mut()) {
        let tci = u16::from_be_bytes([*tci0, *tci1]) & !VID_MASK | vid & VID_MASK;
        [*tci0, *tci1] = tci.to_be_bytes();
    }
}

/// Inserts a tag after the addresses. The last [`TAG_BYTES`] bytes of `frame` are spare room for
/// it. No effect on a frame that is too short.
#[expect(clippy::indexing_slicing, reason = "the length is checked first")]
pub fn push_tag(frame: &mut [u8], tag: Tag) {
    let Some(end) = frame.len().checked_sub(TAG_BYTES).filter(|&end| end >= TAG_AT) else { return };
    frame.copy_within(TAG_AT..end, TAG_AT + TAG_BYTES);
    frame[TAG_AT..TAG_AT + 2].copy_from_slice(&tag.tpid.to_be_bytes());
    frame[TAG_AT + 2..TAG_AT + TAG_BYTES].copy_from_slice(&tag.tci().to_be_bytes());
}

/// Removes the first tag: the last [`TAG_BYTES`] bytes of `frame` no longer belong to the frame. No
/// effect on a frame that is too short to have a tag.
pub fn pop_tag(frame: &mut [u8]) {
    if frame.len() >= TAG_AT + TAG_BYTES {
        frame.copy_within(TAG_AT + TAG_BYTES.., TAG_AT);
    }
}

/// Writes a header at the start of `buf` and returns its length: 14 bytes, or 18 with a tag.
///
/// # Panics
/// If `buf` has less room than that.
#[expect(clippy::indexing_slicing, reason = "a buffer of the caller, not input")]
pub fn write_header(buf: &mut [u8], dst: MacAddr, src: MacAddr, tag: Option<Tag>, ethertype: u16) -> usize {
    buf[0..6].copy_from_slice(&dst.0);
    buf[6..12].copy_from_slice(&src.0);
    let mut at = 12;
    if let Some(tag) = tag {
        buf[12..14].copy_from_slice(&tag.tpid.to_be_bytes());
        buf[14..16].copy_from_slice(&tag.tci().to_be_bytes());
        at += TAG_BYTES;
    }
    buf[at..at + 2].copy_from_slice(&ethertype.to_be_bytes());
    at + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const DST: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    #[test]
    fn written_headers_read_back() {
        for tag in
            [None, Some(Tag::priority(3)), Some(Tag { tpid: SERVICE_VLAN, pcp: 7, dei: true, vid: 4095 })]
        {
            let mut buf = [0; 32];
            let len = write_header(&mut buf, DST, SRC, tag, EXPERIMENTAL);
            let expected = Header {
                dst: DST,
                src: SRC,
                outer: tag,
                inner: None,
                ethertype: EXPERIMENTAL,
                payload_offset: len,
            };
            assert_eq!(Header::parse(&buf), Ok(expected));
            assert_eq!(len, if tag.is_some() { 18 } else { 14 });
        }
    }

    #[test]
    fn a_priority_tag_byte_by_byte() {
        let mut buf = [0xee; 20];
        assert_eq!(write_header(&mut buf, DST, SRC, Some(Tag::priority(3)), IPV4), 18);
        assert_eq!(buf, [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0x60, 0, 8, 0, 0xee, 0xee]);
    }

    #[test]
    fn a_header_that_is_cut_off_is_refused_at_every_length() {
        let mut buf = [0; 22];
        write_header(&mut buf, DST, SRC, Some(Tag { tpid: SERVICE_VLAN, pcp: 1, dei: false, vid: 7 }), VLAN);
        buf[18..].copy_from_slice(&[0xa0, 9, 0x86, 0xdd]);
        for len in 0..22 {
            assert_eq!(Header::parse(&buf[..len]), Err(Error::Truncated), "{len} bytes");
        }
        let header = Header::parse(&buf).unwrap();
        assert_eq!(header.inner, Some(Tag { tpid: VLAN, pcp: 5, dei: false, vid: 9 }));
        assert_eq!((header.ethertype, header.payload_offset), (IPV6, 22));
    }

    /// (bytes behind the addresses) → ethertype, PCP · 2 + DEI, offset of the payload. A frame that
    /// ends before that is refused.
    #[test]
    fn fields_are_those_of_the_header() {
        let priority = [0x81, 0, 0xb0, 7];
        let service = [0x88, 0xa8, 0x20, 9];
        for (bytes, expected) in [
            (&[0x08, 0x00][..], (IPV4, NO_TAG, 14)),
            (&[&priority[..], &[0x08, 0]].concat(), (IPV4, 11, 18)),
            (&[&service[..], &[0x86, 0xdd]].concat(), (IPV6, 2, 18)),
            (&[&service[..], &priority, &[0x08, 0]].concat(), (IPV4, 2, 22)),
            (&[&priority[..], &service, &[0x88, 0xa8]].concat(), (SERVICE_VLAN, 11, 22)),
        ] {
            let frame = [&DST.0[..], &SRC.0, bytes, &[0xee; 10]].concat();
            for len in 0..frame.len() {
                let read = Fields::read(&frame[..len]);
                let read = read.map(|it| (it.ethertype, it.pcp_and_dei, it.payload_offset));
                let is_whole = len >= usize::from(expected.2);
                assert_eq!(read, if is_whole { Ok(expected) } else { Err(Error::Truncated) }, "{len} bytes");
            }
            let fields = Fields::read(&frame).unwrap();
            assert_eq!((fields.dst, fields.src), (0x0200_0000_0001, 0x0200_0000_0002));
        }
    }

    #[test]
    fn a_tag_is_put_on_named_and_taken_off() {
        let tag = Tag { tpid: VLAN, pcp: 5, dei: true, vid: 0 };
        let payload: Vec<u8> = (1..=60).collect();
        let customer_vid =
            |frame: &[u8]| Fields::read(frame).expect("a whole header").first_tag.customer_vid();
        for inner in [None, Some(Tag { tpid: SERVICE_VLAN, pcp: 1, dei: false, vid: 4000 })] {
            let mut frame = vec![0; 22];
            let at = write_header(&mut frame, DST, SRC, inner, EXPERIMENTAL);
            frame.truncate(at);
            frame.extend(&payload);
            let before = frame.clone();
            assert_eq!(customer_vid(&frame), None, "an S-tag is none");
            frame.extend([0xee; TAG_BYTES]);
            push_tag(&mut frame, tag);
            let header = Header::parse(&frame).unwrap();
            assert_eq!((header.dst, header.src, header.outer, header.inner), (DST, SRC, Some(tag), inner));
            assert_eq!((header.ethertype, &frame[header.payload_offset..]), (EXPERIMENTAL, &payload[..]));
            assert_eq!(customer_vid(&frame), Some(0));
            set_outer_vid(&mut frame, 0xf123);
            assert_eq!(
                Header::parse(&frame).unwrap().outer,
                Some(Tag { vid: 0x123, ..tag }),
                "PCP and DEI stay"
            );
            pop_tag(&mut frame);
            assert_eq!(frame[..frame.len() - TAG_BYTES], before);
        }
    }

    #[test]
    fn no_length_is_too_short_to_be_tagged() {
        for len in 0..20 {
            let mut frame = vec![0x81; len];
            push_tag(&mut frame, Tag::priority(1));
            pop_tag(&mut frame);
            set_outer_vid(&mut frame, 5);
            assert_eq!(frame.len(), len);
        }
        let mut shortest: Vec<u8> = (0..18).collect();
        pop_tag(&mut shortest);
        assert_eq!(shortest[..14], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17]);
    }

    #[test]
    fn a_third_tag_is_payload() {
        let mut buf = [0; 30];
        write_header(&mut buf, DST, SRC, Some(Tag::priority(1)), VLAN);
        buf[18..22].copy_from_slice(&[0x20, 0, 0x81, 0]);
        let header = Header::parse(&buf).unwrap();
        assert_eq!((header.ethertype, header.payload_offset), (VLAN, 22));
    }
}
