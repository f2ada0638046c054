//! Captured frames as pcapng, one interface for each port.
//!
//! Source: draft-ietf-opsawg-pcapng. Times are nanoseconds since 1970.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use control::v1::{CapturePort, CapturedFrame};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::{DataLink, PcapError};

/// if_tsresol: 10^-9 s.
pub const NANOSECONDS: u8 = 9;
/// epb_flags: the direction of a packet.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
/// The most bytes that a block takes beside the bytes of its frame.
const BLOCK_BYTES: u64 = 160;

/// A pcapng file that is being written.
pub struct CaptureFile<W: Write> {
    writer: PcapNgWriter<Counted<W>>,
    snap_bytes: u32,
    /// The ports that have an interface in the file, by their number, and the number of the
    /// interface.
    ports: BTreeMap<u32, (CapturePort, u32)>,
    interfaces: u32,
    frames: u64,
}

impl<W: Write> CaptureFile<W> {
    /// Begins a file.
    pub fn new(out: W, snap_bytes: u32) -> Result<Self> {
        let writer = PcapNgWriter::new(Counted { out, bytes: 0 }).map_err(cause)?;
        Ok(Self { writer, snap_bytes, ports: BTreeMap::new(), interfaces: 0, frames: 0 })
    }

    /// Describes ports, unless the file has them already.
    pub fn add_ports(&mut self, ports: Vec<CapturePort>) -> Result<()> {
        for port in ports {
            if self.ports.get(&port.number).is_none_or(|(known, _)| *known != port) {
                self.writer.write_pcapng_block(interface(&port, self.snap_bytes)).map_err(cause)?;
                self.ports.insert(port.number, (port, self.interfaces));
                self.interfaces += 1;
            }
        }
        Ok(())
    }

    /// Adds a frame.
    pub fn add(&mut self, frame: &CapturedFrame) -> Result<()> {
        let Some((_, interface_id)) = self.ports.get(&frame.port) else { return Ok(()) };
        let flags = EnhancedPacketOption::Flags(if frame.out { OUTBOUND } else { INBOUND });
        let comment = self.comment(frame).map(|text| EnhancedPacketOption::Comment(text.into()));
        let block = EnhancedPacketBlock {
            interface_id: *interface_id,
            timestamp: Duration::from_nanos(frame.unix_ns),
            original_len: frame.length_bytes,
            data: Cow::Borrowed(&frame.bytes),
            options: comment.into_iter().chain([flags]).collect(),
        };
        self.writer.write_pcapng_block(block).map_err(cause)?;
        self.frames += 1;
        Ok(())
    }

    /// True if the file will have at most this size with one more frame.
    pub fn has_room(&self, frame: &CapturedFrame, max_bytes: u64) -> bool {
        self.bytes() + BLOCK_BYTES + frame.bytes.len() as u64 <= max_bytes
    }

    /// Ends the file with the number of frames that are missing.
    pub fn end(mut self, missed: u64) -> Result<W> {
        if missed > 0 && self.interfaces > 0 {
            let comment = format!("{missed} frames of all ports are missing: they came too fast");
            let block = InterfaceStatisticsBlock {
                interface_id: 0,
                timestamp: 0,
                options: vec![
                    InterfaceStatisticsOption::Comment(comment.into()),
                    InterfaceStatisticsOption::IsbOsDrop(missed),
                ],
            };
            self.writer.write_pcapng_block(block).map_err(cause)?;
        }
        self.flush()?;
        Ok(self.writer.into_inner().out)
    }

    /// Passes on what was written.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.writer.get_mut().flush()?)
    }

    /// Returns the number of frames so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the bytes so far.
    pub fn bytes(&self) -> u64 {
        self.writer.get_ref().bytes
    }

    /// Returns what is to be said of a frame: a drop with its reason, or a mark.
    fn comment(&self, frame: &CapturedFrame) -> Option<String> {
        match frame.verdict.as_str() {
            "dropped" => {
                let mut comment = format!("dropped: {}", frame.reason);
                if let Some((port, _)) = frame.drop_port.and_then(|port| self.ports.get(&port)) {
                    comment += &format!(" at {}", port.name);
                }
                if let Some(priority) = frame.priority {
                    comment += &format!(", priority {priority}");
                }
                Some(comment)
            }
            "marked" => Some("marked: ECN CE".to_owned()),
            _ => None,
        }
    }
}

/// Returns why a block was not written. The library reports every failure of the system as a
/// failure to read.
pub fn cause(error: PcapError) -> anyhow::Error {
    match error {
        PcapError::IoError(error) => error.into(),
        error => error.into(),
    }
}

/// Describes a port.
fn interface(port: &CapturePort, snap_bytes: u32) -> InterfaceDescriptionBlock<'static> {
    let mut options = vec![
        InterfaceDescriptionOption::IfName(port.name.clone().into()),
        InterfaceDescriptionOption::IfDescription(format!("port {} on {}", port.name, port.interface).into()),
        InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        InterfaceDescriptionOption::IfFcsLen(0),
    ];
    if port.speed_bps > 0 {
        options.push(InterfaceDescriptionOption::IfSpeed(port.speed_bps));
    }
    InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: snap_bytes, options }
}

/// A writer that counts its bytes.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use pcap_file::pcapng::{Block, PcapNgReader};

    use super::*;

    fn port(number: u32, name: &str) -> CapturePort {
        CapturePort { number, name: name.into(), interface: format!("sw-{name}"), speed_bps: 1_000_000_000 }
    }

    #[test]
    fn frames_come_back_with_port_direction_and_comment() {
        let mut file = CaptureFile::new(Vec::new(), 128).unwrap();
        let all = vec![port(0, "a"), port(2, "c")];
        file.add_ports(all.clone()).unwrap();
        file.add_ports(all).unwrap();
        let frame = CapturedFrame {
            unix_ns: 1_700_000_000_123_456_789,
            port: 2,
            verdict: "forwarded".into(),
            priority: Some(3),
            length_bytes: 1024,
            bytes: vec![7; 128],
            ..CapturedFrame::default()
        };
        let dropped = CapturedFrame {
            verdict: "dropped".into(),
            reason: "tail_drop".into(),
            drop_port: Some(0),
            ..frame.clone()
        };
        let marked = CapturedFrame { port: 0, out: true, verdict: "marked".into(), ..frame.clone() };
        for frame in [&frame, &dropped, &marked] {
            let before = file.bytes();
            file.add(frame).unwrap();
            assert!(file.bytes() - before <= BLOCK_BYTES + frame.bytes.len() as u64);
        }
        assert!(file.has_room(&frame, 10_000) && !file.has_room(&frame, file.bytes() + 200));
        assert_eq!(file.frames(), 3);
        let bytes = file.end(5).unwrap();

        let mut reader = PcapNgReader::new(Cursor::new(bytes)).unwrap();
        let (mut seen, mut missed) = (Vec::new(), None);
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::EnhancedPacket(packet) => {
                    assert_eq!(
                        (packet.timestamp.as_nanos(), packet.original_len),
                        (1_700_000_000_123_456_789, 1024)
                    );
                    let options = packet.options.iter().map(|option| match option {
                        EnhancedPacketOption::Comment(text) => text.to_string(),
                        other => format!("{other:?}"),
                    });
                    seen.push((packet.interface_id, options.collect::<Vec<_>>().join("; ")));
                }
                Block::InterfaceStatistics(block) => missed = Some(block.options[1].clone().into_owned()),
                _ => {}
            }
        }
        assert_eq!(
            seen,
            [
                (1, "Flags(1)".to_owned()),
                (1, "dropped: tail_drop at a, priority 3; Flags(1)".to_owned()),
                (0, "marked: ECN CE; Flags(2)".to_owned()),
            ]
        );
        assert_eq!(missed, Some(InterfaceStatisticsOption::IsbOsDrop(5)));
        assert_eq!(reader.interfaces().len(), 2, "each port once");
    }
}
