//! Frames on a host's wire, captured by tcpdump and decoded by tshark, which are independent of
//! Sluice.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pcap_file::pcap::PcapReader;
use testbed::{Endpoint, Namespace, Process, Testbed, eventually};

/// A capture on a host's interface; it ends on drop.
#[derive(Debug)]
pub struct Capture {
    file: PathBuf,
    _tcpdump: Process,
}

impl Capture {
    /// Starts to capture frames that match `filter` (in tcpdump's language), and waits until the
    /// capture runs.
    pub fn start(bed: &Testbed, station: &Endpoint, filter: &str) -> Result<Self> {
        Self::start_on(bed, &station.namespace, Endpoint::INTERFACE, filter)
    }

    /// Starts a capture on any interface. It does not see frames that an XDP program takes from the
    /// interface, or frames that AF_XDP sends on it.
    pub fn start_on(bed: &Testbed, namespace: &Namespace, interface: &str, filter: &str) -> Result<Self> {
        let file = bed.dir().join(format!("{}-{interface}.pcap", namespace.name()));
        let mut tcpdump = namespace.command("tcpdump");
        tcpdump.args(["-i", interface, "-n", "-p", "-U", "--immediate-mode", "-Z", "root"]);
        // A slot of its ring has the size of the longest expected packet: by default it has only
        // eight slots.
        tcpdump.args(["-s", "16384", "-B", "32768", "-w"]);
        let mut tcpdump = Process::start("tcpdump", tcpdump.arg(&file).args(filter.split_whitespace()))?;
        tcpdump.wait_for("a capture", |line| line.contains("listening on").then_some(()))?;
        // With -U the file header is written at once.
        eventually("the capture file", || {
            Ok(file.metadata().is_ok_and(|file| file.len() >= 24).then_some(()))
        })?;
        Ok(Self { file, _tcpdump: tcpdump })
    }

    /// Returns the frames so far, with the tags that the kernel removed and libpcap restored.
    pub fn frames(&self) -> Result<Vec<Vec<u8>>> {
        let mut reader = PcapReader::new(std::fs::File::open(&self.file)?)?;
        let mut frames = Vec::new();
        // A frame that is just being written may be incomplete.
        while let Some(Ok(packet)) = reader.next_packet() {
            ensure!(packet.data.len() == packet.orig_len as usize, "a frame of {} bytes", packet.orig_len);
            frames.push(packet.data.into_owned());
        }
        Ok(frames)
    }

    /// Returns the values of these fields, by tshark, for the frames so far that match `filter` (in
    /// tshark's language).
    pub fn read(&self, filter: &str, fields: &[&str]) -> Result<Vec<Vec<String>>> {
        tshark(&self.file, filter, fields)
    }

    /// Waits until at least `count` frames match, and returns their fields.
    pub fn wait_for(&self, filter: &str, fields: &[&str], count: usize) -> Result<Vec<Vec<String>>> {
        eventually(&format!("{count} frames with {filter}"), || {
            let frames = self.read(filter, fields)?;
            Ok((frames.len() >= count).then_some(frames))
        })
    }
}

/// Returns the values of these fields, by tshark, for the frames of a file that match `filter` (in
/// tshark's language).
pub fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Result<Vec<Vec<String>>> {
    let mut tshark = Command::new("tshark");
    // A frame that is just being written may be incomplete; tshark reports it and reads those
    // before it.
    tshark.arg("-r").arg(file).args(["-n", "-Y", filter, "-T", "fields", "-E", "separator=/t"]);
    // Verify the checksums that kernels verify.
    for protocol in ["ip", "udp", "tcp"] {
        tshark.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
    }
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().context("cannot run tshark")?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success() || complaint.contains("cut short"), "tshark: {complaint}");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(|line| line.split('\t').map(str::to_string).collect()).collect())
}
