//! Headroom: the cells that a no-drop group needs for frames that still arrive after it has sent
//! XOFF to its peer.
//!
//! Rule: in-transit bytes = MTU_R + MTU_S + response + cable, where
//! - MTU_R = 9216: transmission of a maximum-size frame has just begun when XOFF is due, and PFC
//!   waits for its end;
//! - MTU_S: the peer has just begun a frame of the priority in question when it reads XOFF;
//! - response = 3840: what the peer sends until it has reacted;
//! - cable, there and back: 13 bytes a meter at 10 Gbit/s, in proportion to the speed.
//!
//! In the worst case these are frames of 64 bytes, each of which takes a cell ([`worst_case_cells`]
//! covers small cells, too). Also, reserved cells should hold the longest frame, (MTU_S + 64 +
//! cell) / cell, and the XON offset should be slightly more than it. Source: docs/behavior.md,
//! "Headroom needed"; docs/references.md, "H3C reference" (Setting PFC thresholds, and the example
//! Configuring PFC thresholds). SONiC's figure: docs/references.md, "SONiC".
//!
//! The H3C reference also recommends headroom by length of the cable ([`LinkParams::h3c_cells`]).
//! That contradicts its formula, which needs more than the defaults even for a few meters; the
//! formula is what holds in the worst case.
//!
//! In software both loops may be preempted, and the peer's kernel holds frames that a pause cannot
//! recall. [`HostDelay`] is the part of the "cable" term that the length of the cable does not
//! explain.

use crate::buffer::cell::CellSize;
use crate::frame::memory::LONGEST_RECEIVED_BYTES;
use crate::settings::{GroupSettings, LEAST_GUEST_BATCH_CELLS};

/// Longest frame of any priority, in bytes.
pub const MTU_RECEIVER_BYTES: u64 = 9216;
/// Bytes that a peer still sends until it reacts.
pub const RESPONSE_BYTES: u64 = 3840;
/// Shortest frame, in bytes.
const SHORTEST_FRAME_BYTES: u64 = 64;

/// Returns the cells that headroom has to hold for a guest on a vhost-user socket, which has no
/// link: the smallest batch that an iteration reads of one of its queues, or the longest frame.
pub fn least_guest_cells(cell: CellSize) -> u32 {
    LEAST_GUEST_BATCH_CELLS.max(cell.of(LONGEST_RECEIVED_BYTES as u16))
}

/// A link whose receiving end needs headroom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkParams {
    /// Link speed in bit/s.
    pub speed_bps: u64,
    /// Length of the cable in meters.
    pub cable_m: u64,
    /// Longest frame of the no-drop priority, in bytes without FCS.
    pub mtu_bytes: u64,
}

/// Bytes that may still arrive after XOFF, by term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireBytes {
    /// The frame before our PFC frame.
    pub mtu_receiver_bytes: u64,
    /// The peer's frame.
    pub mtu_bytes: u64,
    /// Bytes that arrive until the peer has reacted.
    pub response_bytes: u64,
    /// Bytes on the cable, there and back.
    pub cable_bytes: u64,
}

impl WireBytes {
    /// Returns the sum of all terms.
    pub fn total_bytes(&self) -> u64 {
        self.mtu_receiver_bytes + self.mtu_bytes + self.response_bytes + self.cable_bytes
    }
}

impl LinkParams {
    /// Returns the bytes that may still arrive after XOFF.
    pub fn in_transit(&self) -> WireBytes {
        WireBytes {
            mtu_receiver_bytes: MTU_RECEIVER_BYTES,
            mtu_bytes: self.mtu_bytes,
            response_bytes: RESPONSE_BYTES,
            // 13 bytes · m · speed / 10 Gbit/s; 128 bits, as 40 km at 800 Gbit/s leave 64.
            cable_bytes: rounded_up(
                13 * u128::from(self.cable_m) * u128::from(self.speed_bps),
                10_000_000_000,
            ),
        }
    }

    /// Returns SONiC's figure for the same link: MTU + 2 · cable + peer response, in bytes before
    /// cell occupancy. The speed of light in the cable is 1.98·10^8 m/s; gearbox and MAC/PHY delays
    /// belong to an ASIC and count as 0 here.
    pub fn sonic_bytes(&self) -> u64 {
        let cable = rounded_up(2 * u128::from(self.cable_m) * u128::from(self.speed_bps), 8 * 198_000_000);
        self.mtu_bytes + cable + response_quanta(self.speed_bps) * 64
    }

    /// Returns the cells that the H3C reference (Setting PFC thresholds, headroom buffer threshold)
    /// recommends for a cable of this length, whatever the frames: its default by speed up to 300 m
    /// at 100G and up to 20 km at other speeds, then 9984. `None` where it has no figure: beyond 10
    /// km at 100G, as there were no optics, and beyond 40 km at other speeds.
    pub fn h3c_cells(&self) -> Option<u32> {
        const HUNDRED_G: u64 = 100_000_000_000;
        let (default_m, most_m) = if self.speed_bps == HUNDRED_G { (300, 10_000) } else { (20_000, 40_000) };
        match self.cable_m {
            cable_m if cable_m <= default_m => {
                Some(GroupSettings::default_for(self.speed_bps).headroom_cells)
            }
            cable_m if cable_m <= most_m => Some(H3C_LONG_CABLE_CELLS),
            _ => None,
        }
    }
}

/// The H3C reference's figure for a cable that needs more than the default.
const H3C_LONG_CABLE_CELLS: u32 = 9984;

/// Returns the pause quanta that SONiC grants a peer to react, by speed; between two speeds that of
/// the faster one.
fn response_quanta(speed_bps: u64) -> u64 {
    match speed_bps {
        0..=1_000_000_000 => 2,
        1_000_000_001..=10_000_000_000 => 67,
        10_000_000_001..=25_000_000_000 => 80,
        25_000_000_001..=40_000_000_000 => 118,
        40_000_000_001..=50_000_000_000 => 147,
        50_000_000_001..=100_000_000_000 => 394,
        100_000_000_001..=200_000_000_000 => 453,
        _ => 905,
    }
}

/// Bytes that loops in software add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostDelay {
    /// Stall of our loop: it has not parsed what arrived, and sends no XOFF.
    pub own_stall_bytes: u64,
    /// Stall of the peer's loop: it keeps sending.
    pub peer_stall_bytes: u64,
    /// Frames that the peer's kernel already has.
    pub in_flight_bytes: u64,
}

impl HostDelay {
    /// Computes the delay of loops that stall for at most the given times, on a link of this speed.
    /// `in_flight_bytes` is the bound on what the peer hands to its kernel.
    pub fn new(speed_bps: u64, own_stall_ns: u64, peer_stall_ns: u64, in_flight_bytes: u64) -> Self {
        let bytes = |stall_ns| rounded_up(u128::from(speed_bps) * u128::from(stall_ns), 8_000_000_000);
        let (own_stall_bytes, peer_stall_bytes) = (bytes(own_stall_ns), bytes(peer_stall_ns));
        Self { own_stall_bytes, peer_stall_bytes, in_flight_bytes }
    }

    /// Returns the sum of all terms.
    pub fn total_bytes(&self) -> u64 {
        self.own_stall_bytes.saturating_add(self.peer_stall_bytes).saturating_add(self.in_flight_bytes)
    }
}

/// Returns the cells that `bytes` take in the worst case. Frames of 64 bytes are the worst case for
/// cells of 127 bytes and more. For smaller cells, frames one byte longer than a whole number of
/// cells can be worse: for example, a frame of 65 bytes takes two cells of 64.
pub fn worst_case_cells(bytes: u64, cell: CellSize) -> u64 {
    // The shortest frame, and the shortest frame of one cell more. Longer frames waste a smaller
    // part of their cells.
    let cells = u64::from(cell.of(SHORTEST_FRAME_BYTES as u16));
    let next_bytes = cells * u64::from(cell.bytes()) + 1;
    let shortest = bytes.div_ceil(SHORTEST_FRAME_BYTES).saturating_mul(cells);
    shortest.max(bytes.div_ceil(next_bytes).saturating_mul(cells + 1))
}

/// Returns the reserved cells that hold the longest frame: (MTU + 64 + cell) / cell, exactly and
/// rounded up.
pub fn reserved_cells(mtu_bytes: u64, cell: CellSize) -> (f64, u64) {
    let cell = u64::from(cell.bytes());
    let bytes = mtu_bytes + 64 + cell;
    (bytes as f64 / cell as f64, bytes.div_ceil(cell))
}

/// Returns an XON offset slightly more than the longest frame: its cells and one.
pub fn xon_offset_cells(mtu_bytes: u64, cell: CellSize) -> u64 {
    mtu_bytes.div_ceil(u64::from(cell.bytes())) + 1
}

fn rounded_up(numerator: u128, denominator: u128) -> u64 {
    u64::try_from(numerator.div_ceil(denominator)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    const GBPS: u64 = 1_000_000_000;

    /// The example of docs/references.md, "H3C reference" (Configuring PFC thresholds), figure by
    /// figure.
    #[test]
    fn the_examples_of_the_vendor_specifications() {
        let cell = CellSize::new(256);
        for (gbps, cable_m, cable_bytes, bytes, cells) in
            [(25, 10, 325, 14_917, 234), (100, 100, 13_000, 27_592, 432)]
        {
            let transit = LinkParams { speed_bps: gbps * GBPS, cable_m, mtu_bytes: 1536 }.in_transit();
            assert_eq!((transit.cable_bytes, transit.total_bytes()), (cable_bytes, bytes));
            assert_eq!(worst_case_cells(bytes, cell), cells);
        }
        assert_eq!(reserved_cells(1536, cell), (7.25, 8));
        assert_eq!(xon_offset_cells(1536, cell), 7);
        // The table of buffered bytes in each 100 meters of cable.
        for (gbps, bytes) in [(10, 1300), (25, 3250), (40, 5200), (100, 13_000)] {
            let link = LinkParams { speed_bps: gbps * GBPS, cable_m: 100, mtu_bytes: 64 };
            assert_eq!(link.in_transit().cable_bytes, bytes);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "a snapshot is a file")]
    fn by_speed_and_cable() {
        let mut table = String::from(
            "bytes in transit, cells of 256 in the worst case, SONiC's bytes (MTU 1536)\n   speed    cable\n",
        );
        for gbps in [1, 10, 25, 40, 50, 100, 200, 400, 800] {
            for cable_m in [5, 100, 300, 10_000, 40_000] {
                let link = LinkParams { speed_bps: gbps * GBPS, cable_m, mtu_bytes: 1536 };
                let bytes = link.in_transit().total_bytes();
                let cells = worst_case_cells(bytes, CellSize::new(256));
                let sonic = link.sonic_bytes();
                let _ = writeln!(table, "{gbps:>7}G {cable_m:>6} m {bytes:>12} {cells:>10} {sonic:>12}");
            }
        }
        insta::assert_snapshot!(table);
    }

    /// Every figure of docs/references.md, "H3C reference" (Setting PFC thresholds, headroom buffer
    /// threshold), what the formula of the same section needs, and whether the two agree.
    #[test]
    fn recommended_cells_and_the_formula() {
        let cell = CellSize::new(256);
        for (gbps, cable_m, recommended, formula, agree) in [
            (100, 300, Some(491), 838, false),
            (100, 301, Some(9984), 840, true),
            (100, 10_000, Some(9984), 20_541, false),
            (100, 10_001, None, 20_543, false),
            (10, 300, Some(100), 289, false),
            (10, 20_000, Some(100), 4291, false),
            (10, 20_001, Some(9984), 4291, true),
            (10, 40_000, Some(9984), 8353, true),
            (10, 40_001, None, 8354, false),
            (25, 300, Some(125), 381, false),
            (25, 40_000, Some(9984), 20_541, false),
            (40, 20_000, Some(200), 16_478, false),
            (40, 40_000, Some(9984), 32_728, false),
            (400, 5, Some(1000), 269, true),
        ] {
            let link = LinkParams { speed_bps: gbps * GBPS, cable_m, mtu_bytes: 1536 };
            let needed = worst_case_cells(link.in_transit().total_bytes(), cell);
            assert_eq!((link.h3c_cells(), needed), (recommended, formula), "{gbps}G, {cable_m} m");
            let holds = link.h3c_cells().is_some_and(|cells| u64::from(cells) >= needed);
            assert_eq!(holds, agree, "{gbps}G, {cable_m} m");
        }
    }

    #[test]
    fn software_adds_its_stalls_and_what_the_kernel_has() {
        let software = HostDelay::new(10 * GBPS, 100_000, 200_000, 65_536);
        assert_eq!((software.own_stall_bytes, software.peer_stall_bytes), (125_000, 250_000));
        assert_eq!(software.total_bytes(), 440_536);
        assert_eq!(
            HostDelay::new(u64::MAX, u64::MAX, u64::MAX, 1).total_bytes(),
            u64::MAX,
            "never overflows"
        );
    }

    /// A batch of 64 cells, or the longest frame of 9238 bytes where cells are small.
    #[test]
    fn a_guest_may_still_send_what_an_iteration_reads() {
        for (cell_bytes, cells) in [(64, 145), (208, 64), (256, 64)] {
            assert_eq!(least_guest_cells(CellSize::new(cell_bytes)), cells, "cells of {cell_bytes}");
        }
    }

    /// Frames of each length in turn, the last of them shorter: none takes more, for the cells of
    /// chips and for small ones.
    #[test]
    fn no_length_of_frame_takes_more_cells() {
        for (cell_bytes, cells) in
            [(32, 690), (40, 555), (64, 460), (80, 370), (126, 236), (127, 234), (208, 234), (256, 234)]
        {
            let cell = CellSize::new(cell_bytes);
            assert_eq!(worst_case_cells(14_917, cell), cells, "cells of {cell_bytes}");
            for len in (64..=9216_u16).step_by(if cfg!(miri) { 99 } else { 1 }) {
                let (whole, rest) = (14_917 / len, 14_917 % len);
                let last = if rest == 0 { 0 } else { cell.of(rest.max(64)) };
                let taken = u64::from(u32::from(whole) * cell.of(len) + last);
                assert!(taken <= cells, "{taken} cells of {cell_bytes} for frames of {len}");
            }
        }
    }
}
