//! Virtual time inside the engine, in picoseconds: a byte of every Ethernet speed from 1G to 400G
//! takes a whole number of them. The switch and everything outside use nanoseconds.

use switch::{Instant, Nanos};

/// Picoseconds: a time since the start of the run, or a duration. 64 bits are 213 days.
pub type Picos = u64;

/// Picoseconds in a nanosecond.
pub const NS: Picos = 1000;

/// A time that never comes.
pub const NEVER: Picos = Picos::MAX;

/// Converts a time to the switch's instant.
pub fn instant(at: Picos) -> Instant {
    Instant(at / NS)
}

/// Returns the first picosecond of an instant.
pub fn picos(at: Instant) -> Picos {
    if at == Instant::NEVER { NEVER } else { at.0.saturating_mul(NS) }
}

/// Converts nanoseconds.
pub fn of_ns(ns: Nanos) -> Picos {
    ns.saturating_mul(NS)
}

/// Returns the time of `bytes` at `bps`, rounded to the nearest picosecond.
pub fn of_bytes(bytes: u64, bps: u64) -> Picos {
    let time = (u128::from(bytes) * 8_000_000_000_000 + u128::from(bps) / 2) / u128::from(bps.max(1));
    Picos::try_from(time).unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_a_whole_number_at_every_speed() {
        const GBPS: u64 = 1_000_000_000;
        let times = [1, 10, 25, 40, 50, 100, 200, 400].map(|gbps| of_bytes(1, gbps * GBPS));
        assert_eq!(times, [8000, 800, 320, 200, 160, 80, 40, 20]);
        assert_eq!(of_bytes(88, 100 * GBPS), 7040, "a frame of 64 bytes with its overhead");
        assert_eq!((instant(1999), picos(Instant(2)), picos(Instant::NEVER)), (Instant(1), 2000, NEVER));
    }
}
