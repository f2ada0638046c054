//! Which PFC an interface honors, and how fast it may send.

use std::time::Duration;

use crate::abi::{Reader, Writer};
use crate::error::Error;

/// Number of priorities.
pub const PRIORITIES: usize = 8;

/// What a frame occupies on the link beyond its own bytes: FCS, preamble, inter-frame gap (IEEE
/// 802.3).
pub const OVERHEAD_BYTES: u32 = 24;

/// DRR quantum of a queue: the longest ordinary frame.
const QUANTUM_BYTES: u32 = 1518;

/// Most delay that the pacing makes up for: the kernel's timer is some microseconds late each time.
const BURST: Duration = Duration::from_micros(64);

/// Number of frames that the pacing may make up for at least, where a frame takes longer than
/// [`BURST`].
const BURST_FRAMES: u64 = 2;

/// Minimum kernel memory that a frame of any size takes (a small `sk_buff` with its data).
const FRAME_MEMORY_BYTES: u64 = 768;

/// Bounds of `limit_bytes`: one GSO frame, and the largest possible rings.
const LIMIT_BYTES: std::ops::RangeInclusive<u64> = 256 * 1024..=64 * 1024 * 1024;

/// Which field of a frame gives its priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The PCP of its outermost VLAN tag.
    Dot1p,
    /// Its DSCP, through the map.
    Dscp,
    /// The priority of its socket (SO_PRIORITY), 0 to 7.
    Priority,
}

/// Which queue is served next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QdiscDiscipline {
    /// Deficit round robin, all queues with the same quantum.
    Drr,
    /// Strict priority, the highest first.
    Strict,
}

/// How an interface honors PFC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Speed of the switch's port, in bit/s: the pacing rate, and the length of a pause quantum
    /// (512 bit times).
    pub speed_bps: u64,
    /// Bit p: pauses of priority p are honored; may be none as long as nothing is agreed.
    pub no_drop: u8,
    /// Which field gives the priority.
    pub trust: Trust,
    /// The priority of frames without the trusted field.
    pub port_priority: u8,
    /// Priority by DSCP.
    pub dscp_to_dot1p: [u8; 64],
    /// Order among the queues that may send.
    pub order: QdiscDiscipline,
    /// Kernel memory that the frames of one priority may hold before further ones are dropped,
    /// counted as sockets count it.
    pub limit_bytes: u64,
}

impl Settings {
    /// Returns the settings for a switch port of this speed, with the switch's defaults for
    /// everything else.
    pub fn new(speed_bps: u64) -> Self {
        Self {
            speed_bps,
            no_drop: 1 << 3,
            trust: Trust::Dot1p,
            port_priority: 0,
            dscp_to_dot1p: std::array::from_fn(|dscp| dscp as u8 / 8),
            order: QdiscDiscipline::Drr,
            limit_bytes: 16 * 1024 * 1024,
        }
    }

    /// Checks the settings.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1_000_000..=1_000_000_000_000).contains(&self.speed_bps) {
            return Err(Error::Setting(format!("the speed is 1M to 1T, not {} bit/s", self.speed_bps)));
        }
        if !LIMIT_BYTES.contains(&self.limit_bytes) {
            return Err(Error::Setting(format!(
                "the limit is {} to {} bytes, not {}",
                LIMIT_BYTES.start(),
                LIMIT_BYTES.end(),
                self.limit_bytes
            )));
        }
        Ok(())
    }

    /// Returns how many frames one priority can hold: as many as the limit has room for, a power of
    /// two.
    pub(crate) fn slots(&self) -> u32 {
        (self.limit_bytes / FRAME_MEMORY_BYTES).next_power_of_two() as u32
    }

    /// Returns how far the pacing may lag behind the link speed and still catch up, in nanoseconds.
    pub fn burst_ns(&self) -> u64 {
        let frames_bits = BURST_FRAMES * 8 * u64::from(QUANTUM_BYTES + OVERHEAD_BYTES);
        let frames_ns = u128::from(frames_bits) * 1_000_000_000 / u128::from(self.speed_bps);
        (frames_ns as u64).max(BURST.as_nanos() as u64)
    }

    /// Encodes the settings as `struct settings` of bpf/nic_rules.h.
    pub(crate) fn to_bytes(&self, ifindex: u32, made_clsact: bool) -> Vec<u8> {
        let mut out = Writer::default();
        out.u64(self.speed_bps).u64(self.burst_ns()).u64(self.limit_bytes);
        out.u32(self.slots()).u32(ifindex).u32(OVERHEAD_BYTES).u32(QUANTUM_BYTES);
        let trust = match self.trust {
            Trust::Dot1p => 0,
            Trust::Dscp => 1,
            Trust::Priority => 2,
        };
        let order = match self.order {
            QdiscDiscipline::Drr => 0,
            QdiscDiscipline::Strict => 1,
        };
        out.bytes(&[self.no_drop, trust, order, self.port_priority, u8::from(made_clsact), 0, 0, 0]);
        out.bytes(&self.dscp_to_dot1p);
        out.done()
    }

    /// Decodes the settings, and whether the clsact qdisc is ours; `None` if the bytes are not
    /// ours.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(Self, bool)> {
        let mut from = Reader::new(bytes);
        let speed_bps = from.u64()?;
        let (_burst_ns, limit_bytes) = (from.u64()?, from.u64()?);
        from.skip(16)?;
        let [no_drop, trust, order, port_priority, made_clsact, ..] = from.bytes::<8>()?;
        let trust = match trust {
            0 => Trust::Dot1p,
            1 => Trust::Dscp,
            2 => Trust::Priority,
            _ => return None,
        };
        let order = match order {
            0 => QdiscDiscipline::Drr,
            1 => QdiscDiscipline::Strict,
            _ => return None,
        };
        let dscp_to_dot1p = from.bytes()?;
        let settings = Self { speed_bps, no_drop, trust, port_priority, dscp_to_dot1p, order, limit_bytes };
        Some((settings, made_clsact != 0))
    }
}

/// Place of `no_drop` in `struct settings`.
const NO_DROP_AT: usize = 40;

/// Replaces the no-drop priorities in encoded settings.
pub(crate) fn replace_no_drop(bytes: &mut [u8], no_drop: u8) {
    bytes[NO_DROP_AT] = no_drop;
}

/// The kind of the qdisc in `tc qdisc show`. The kernel allows letters, digits, `_` and `.` in it.
pub const KIND: &str = "sluice_nic";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_as_they_were() {
        for (trust, order) in [
            (Trust::Dot1p, QdiscDiscipline::Drr),
            (Trust::Dscp, QdiscDiscipline::Strict),
            (Trust::Priority, QdiscDiscipline::Drr),
        ] {
            let mut settings = Settings { trust, order, no_drop: 0b1001_0000, ..Settings::new(123_456_789) };
            settings.dscp_to_dot1p[63] = 2;
            settings.port_priority = 6;
            let bytes = settings.to_bytes(7, true);
            assert_eq!(bytes.len(), 112, "struct settings");
            assert_eq!(Settings::from_bytes(&bytes), Some((settings.clone(), true)));
            let mut others = bytes;
            replace_no_drop(&mut others, 0b10);
            let others = Settings::from_bytes(&others).unwrap().0;
            assert_eq!(others, Settings { no_drop: 0b10, ..settings });
        }
        assert_eq!(Settings::from_bytes(&[0; 60]), None);
    }

    /// The burst is 64 µs, or two frames where they take longer: 2 × 1542 bytes are 246.72 µs at
    /// 100 Mbit/s.
    #[test]
    fn the_line_makes_up_for_little() {
        for (speed_bps, ns) in [(100_000_000, 246_720), (1_000_000_000, 64_000), (100_000_000_000, 64_000)] {
            assert_eq!(Settings::new(speed_bps).burst_ns(), ns, "{speed_bps} bit/s");
        }
    }

    #[test]
    fn rings_hold_what_the_limit_does() {
        let with = |limit_bytes| Settings { limit_bytes, ..Settings::new(1_000_000_000) };
        assert_eq!(with(16 << 20).slots(), 32_768);
        assert_eq!(with(256 << 10).slots(), 512);
        assert_eq!(with(64 << 20).slots(), 131_072);
    }

    #[test]
    fn settings_without_sense_are_refused() {
        let good = Settings::new(1_000_000_000);
        assert!(good.check().is_ok());
        for (bad, word) in [
            (Settings { speed_bps: 0, ..good.clone() }, "speed"),
            (Settings { limit_bytes: 1000, ..good }, "limit"),
        ] {
            let message = bad.check().unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
