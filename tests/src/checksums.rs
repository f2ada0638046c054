//! Checksum counters of received packets in a host's kernel.

use anyhow::{Result, ensure};
use testbed::Namespace;

/// Counters of `nstat` since the host was made.
#[derive(Debug, Clone, Copy)]
pub struct Checksums {
    /// Packets with a wrong checksum, of any protocol.
    pub bad: u64,
    /// Received TCP segments.
    pub segments: u64,
}

impl Checksums {
    /// Reads the counters so far.
    pub fn of(namespace: &Namespace) -> Result<Self> {
        // -a absolute, -z zeros too, -s leave no history file, which namespaces would share.
        let output = namespace.run("nstat -azs")?;
        let (mut found, mut sum) = (0, Self { bad: 0, segments: 0 });
        for line in output.lines() {
            let mut words = line.split_whitespace();
            let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
            if name.ends_with("InCsumErrors") || name.ends_with("CsumErrors") {
                sum.bad += value.parse::<u64>()?;
                found += 1;
            }
            if name == "TcpInSegs" {
                sum.segments = value.parse()?;
            }
        }
        ensure!(found >= 5, "nstat names too few checksum counters:\n{output}");
        Ok(sum)
    }
}
