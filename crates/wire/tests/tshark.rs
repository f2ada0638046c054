//! The PFC and PAUSE frames that this crate writes, and the checksums that it finishes, as
//! Wireshark's `tshark` decodes them.

use std::io::ErrorKind;
use std::process::{Command, Output};

use wire::MacAddr;
use wire::pause::{FRAME_BYTES, Pause, Pfc};

const SRC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x07]);

/// A capture file of Ethernet frames (libpcap's format, version 2.4, link type 1), one microsecond
/// apart.
fn pcap(frames: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (number, frame) in frames.iter().map(AsRef::as_ref).enumerate() {
        for word in [0, number as u32, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// The named fields of each frame of a capture, one frame per line, separated by blanks.
fn tshark(capture: &[u8], fields: &[&str]) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), capture).unwrap();
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file.path()).args(["-n", "-T", "fields", "-E", "separator=/s"]);
    command.args(["-o", "sctp.checksum:CRC 32c"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let Output { status, stdout, stderr } = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("this test needs tshark, which is not installed: run `cargo xtask setup`")
        }
        Err(error) => panic!("cannot run tshark: {error}"),
    };
    assert!(status.success(), "tshark failed: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tshark_reads_our_pfc_frames() {
    let mut frames = [[0; FRAME_BYTES]; 2];
    Pfc { enable: 0b1000_1000, quanta: [1, 2, 3, 65_535, 5, 6, 7, 8] }.encode(SRC, &mut frames[0]);
    Pfc { enable: 0b0000_1000, quanta: [0; 8] }.encode(SRC, &mut frames[1]);
    let times: Vec<String> = (0..8).map(|class| format!("macc.cbfc.pause_time.c{class}")).collect();
    let mut fields =
        vec!["eth.dst", "eth.src", "eth.type", "frame.len", "macc.opcode", "macc.cbfc.enbv", "_ws.malformed"];
    fields.extend(times.iter().map(String::as_str));
    let lines = tshark(&pcap(&frames), &fields);
    assert_eq!(
        lines,
        [
            "01:80:c2:00:00:01 02:00:00:00:00:07 0x8808 60 0x0101 0x0088  1 2 3 65535 5 6 7 8",
            "01:80:c2:00:00:01 02:00:00:00:00:07 0x8808 60 0x0101 0x0008  0 0 0 0 0 0 0 0",
        ]
    );
}

#[test]
fn tshark_reads_our_pause_frames() {
    let mut frames = [[0; FRAME_BYTES]; 2];
    Pause { quanta: 1234 }.encode(SRC, &mut frames[0]);
    Pause { quanta: 0 }.encode(SRC, &mut frames[1]);
    let fields =
        ["eth.dst", "eth.src", "eth.type", "frame.len", "macc.opcode", "macc.pause_time", "_ws.malformed"];
    assert_eq!(
        tshark(&pcap(&frames), &fields),
        [
            "01:80:c2:00:00:01 02:00:00:00:00:07 0x8808 60 0x0001 1234 ",
            "01:80:c2:00:00:01 02:00:00:00:00:07 0x8808 60 0x0001 0 ",
        ]
    );
}

/// Status 1: good.
#[test]
fn tshark_finds_sctps_checksum_good() {
    let mut frame = [[2; 6], [4; 6]].concat();
    frame.extend([8, 0]);
    frame.extend([0x45, 0, 0, 36, 0, 0, 0, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    // Ports, verification tag, an open checksum, and a COOKIE ACK chunk.
    frame.extend([0x30, 0x39, 0x30, 0x3a, 0, 0, 0, 1, 0, 0, 0, 0, 11, 0, 0, 4]);
    let header = wire::ethernet::Header::parse(&frame).unwrap();
    let field = wire::ip::DsField::find(&frame, &header).unwrap();
    assert!(wire::checksum::finish_transport(&mut frame, field));
    let lines = tshark(&pcap(&[frame]), &["sctp.chunk_type", "sctp.checksum.status", "_ws.malformed"]);
    assert_eq!(lines, ["11 1 "]);
}
