//! Frames of a link as pcapng, one interface for each direction.
//!
//! Source: draft-ietf-opsawg-pcapng; times are nanoseconds of virtual time since 1970, so the run
//! begins in that year.

use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use sim::Captured;

use crate::capture::pcapng::{NANOSECONDS, cause};

/// The most bytes that are kept of a frame: the simulator's frames have headers only.
const SNAP_BYTES: u32 = 62;

/// A capture file of one link.
pub struct Capture<W: Write> {
    writer: PcapNgWriter<W>,
}

impl<W: Write> Capture<W> {
    /// Creates an empty capture of a link between two ports with these names: `h1`, `leaf1.p3`.
    pub fn new(out: W, ends: [&str; 2], speed_bps: u64) -> Result<Self> {
        let mut writer = PcapNgWriter::new(out).map_err(cause)?;
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            writer.write_pcapng_block(interface(from, to, speed_bps)).map_err(cause)?;
        }
        Ok(Self { writer })
    }

    /// Adds a frame.
    pub fn add(&mut self, frame: &Captured) -> Result<()> {
        let block = EnhancedPacketBlock {
            interface_id: frame.from_end as u32,
            timestamp: Duration::from_nanos(frame.at_ns),
            original_len: u32::from(frame.len),
            data: Cow::Borrowed(frame.bytes()),
            options: Vec::new(),
        };
        self.writer.write_pcapng_block(block).map_err(cause)?;
        Ok(())
    }

    /// Returns the underlying writer.
    pub fn into_inner(self) -> W {
        self.writer.into_inner()
    }
}

/// Describes the direction from one end to the other.
fn interface(from: &str, to: &str, speed_bps: u64) -> InterfaceDescriptionBlock<'static> {
    let comment =
        "Simulated by Sluice. Frames have their headers only; FCS, preamble and gap are not in their length.";
    InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: SNAP_BYTES,
        options: vec![
            InterfaceDescriptionOption::IfName(format!("{from} to {to}").into()),
            InterfaceDescriptionOption::IfDescription(format!("frames that {from} sends to {to}").into()),
            InterfaceDescriptionOption::Comment(comment.into()),
            InterfaceDescriptionOption::IfSpeed(speed_bps),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            InterfaceDescriptionOption::IfFcsLen(0),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use pcap_file::pcapng::{Block, PcapNgReader};
    use wire::MacAddr;
    use wire::pause::{Control, FRAME_BYTES, Pfc, decode};

    use super::*;

    /// A data frame of 1024 bytes from h1, and the switch's PFC frame for priority 3, 81.92 ns
    /// later.
    fn captured() -> Vec<u8> {
        let mut capture = Capture::new(Vec::new(), ["h1", "leaf1.p3"], 100_000_000_000).unwrap();
        let frame = |at_ns: u64, from_end: usize, len: u16, headers: [u8; 62]| {
            let arrival = (1000 * at_ns, from_end);
            Captured { arrival, at_ns, link: 7, from_end, len, headers }
        };
        capture.add(&frame(1_000_000_123, 0, 1024, [0xab; 62])).unwrap();
        let mut pfc = [0; 62];
        let quanta = [0, 0, 0, 65535, 0, 0, 0, 0];
        let bytes = pfc.first_chunk_mut::<FRAME_BYTES>().unwrap();
        Pfc { enable: 1 << 3, quanta }.encode(MacAddr([2, 1, 0, 0, 0, 3]), bytes);
        capture.add(&frame(1_000_000_205, 1, 60, pfc)).unwrap();
        capture.into_inner()
    }

    #[test]
    fn frames_come_back_as_they_were() {
        let bytes = captured();
        let mut reader = PcapNgReader::new(Cursor::new(bytes)).unwrap();
        let mut seen = Vec::new();
        while let Some(block) = reader.next_block() {
            let Block::EnhancedPacket(packet) = block.unwrap() else { continue };
            seen.push((
                packet.interface_id,
                packet.timestamp.as_nanos(),
                packet.original_len,
                packet.data.len(),
            ));
            if packet.interface_id == 1 {
                let quanta = [0, 0, 0, 65535, 0, 0, 0, 0];
                assert_eq!(decode(&packet.data), Ok(Control::Pfc(Pfc { enable: 8, quanta })));
            }
        }
        assert_eq!(seen, [(0, 1_000_000_123, 1024, 62), (1, 1_000_000_205, 60, 60)]);
    }

    /// Nothing is read here, so no error can be one of reading.
    #[test]
    fn a_full_disk_is_called_that() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let error = Capture::new(Full, ["h1", "h2"], 1).err().unwrap();
        assert_eq!(format!("{error:#}"), "no storage space");
    }

    #[test]
    fn each_direction_is_an_interface() {
        let bytes = captured();
        let mut reader = PcapNgReader::new(Cursor::new(bytes)).unwrap();
        while let Some(block) = reader.next_block() {
            block.unwrap();
        }
        let names: Vec<String> = reader
            .interfaces()
            .iter()
            .flat_map(|interface| &interface.options)
            .filter_map(|option| match option {
                InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(names, ["h1 to leaf1.p3", "leaf1.p3 to h1"]);
        for interface in reader.interfaces() {
            assert_eq!(interface.snaplen, 62);
            for wanted in [
                InterfaceDescriptionOption::IfTsResol(9),
                InterfaceDescriptionOption::IfSpeed(100_000_000_000),
                InterfaceDescriptionOption::IfFcsLen(0),
            ] {
                assert!(interface.options.contains(&wanted), "{wanted:?} in {:?}", interface.options);
            }
        }
    }
}
