//! Memory sizing: frames that a switch needs so that cell accounting rejects a frame before memory
//! runs out.

use wire::ethernet;

use crate::frame::memory::LONGEST_RECEIVED_BYTES;
use crate::settings::{MAX_IN_FLIGHT, SwitchSettings};

/// Maximum number of chunks that copies of flooded frames take while a port sends them. Small
/// frames need no more to fill a TX batch, and long ones fill the link with fewer.
pub(crate) const COPIES_PER_PORT: usize = 256;

/// Frames of memory of each port that cells do not account for: PFC, and copies of flooded frames
/// that are handed out to be sent.
pub const FRAMES_PER_PORT: usize = MAX_IN_FLIGHT as usize + COPIES_PER_PORT;

/// Returns how many chunks of `chunk_bytes` a frame of `len` bytes needs, at least one.
pub fn chunks_of(len: usize, chunk_bytes: usize) -> usize {
    len.div_ceil(chunk_bytes).max(1)
}

/// Returns the frames of memory, of `chunk_bytes` each, that the switch itself may hold: one
/// minimum-size frame per cell, PFC, and copies of flooded frames that are being sent. A frame of n
/// chunks is longer than n - 1 of them, and so takes at least n cells, unless a cell itself takes
/// several chunks.
pub fn frames_needed(settings: &SwitchSettings, chunk_bytes: usize) -> usize {
    let cell_bytes = usize::try_from(settings.buffer.cell_bytes).unwrap_or(usize::MAX);
    let of_a_cell = chunks_of(cell_bytes.min(LONGEST_RECEIVED_BYTES) + ethernet::TAG_BYTES, chunk_bytes);
    ingress_cells(settings) * of_a_cell + settings.port_count() * FRAMES_PER_PORT
}

/// Returns the cells that all groups together may hold.
fn ingress_cells(settings: &SwitchSettings) -> usize {
    let reserved = settings.ports.iter().flat_map(|port| &port.groups).map(|group| group.reserved_cells);
    let cells = settings.buffer.shared_cells() + settings.buffer.headroom_cells + reserved.sum::<u32>();
    cells as usize
}

/// Returns how many copies of flooded frames can be queued: a copy of each frame at each other
/// port.
pub(crate) fn copies_needed(settings: &SwitchSettings) -> usize {
    ingress_cells(settings).saturating_mul(settings.port_count().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::cell::CellSize;
    use crate::settings::{BridgeSettings, BufferSettings, PortSettings};

    fn settings_of(buffer: BufferSettings) -> SwitchSettings {
        let (bridge, alarms) = (BridgeSettings::default(), Default::default());
        SwitchSettings { buffer, bridge, usage_percent: 100, alarms, seed: 0, ports: Vec::new() }
    }

    #[test]
    fn a_frame_takes_whole_chunks() {
        let chunks = [0, 1, 1792, 1793, 3584, 3585].map(|len| chunks_of(len, 1792));
        assert_eq!(chunks, [1, 1, 1, 2, 2, 3]);
    }

    /// 600 cells of the pools and 160 of 16 groups, each of up to two chunks, and 2 × (4 + 256)
    /// frames that cells do not account for. Each frame may be queued as a copy at the other port.
    #[test]
    fn frames_of_two_ports() {
        let mut settings = settings_of(BufferSettings {
            cell_bytes: 1792,
            total_cells: 700,
            fixed_cells: 100,
            headroom_cells: 200,
            ..BufferSettings::default()
        });
        settings.ports = ["p0", "p1"].map(|name| PortSettings::new(name, None)).into();
        settings.ports.iter_mut().flat_map(|port| &mut port.groups).for_each(|g| g.reserved_cells = 10);
        assert_eq!(frames_needed(&settings, 1792), 760 * 2 + 520);
        assert_eq!(copies_needed(&settings), 760);
    }

    /// Cells run out before memory does, whatever the lengths of frames. The test fills the buffer
    /// with frames of one length, as many as its cells allow, each with a pushed tag: all fit the
    /// memory.
    #[test]
    fn cells_run_out_before_memory() {
        for chunk_bytes in [1792, 3840, usize::MAX] {
            for cell_bytes in [64, 208, 256, 1788, 1789, 1792, 2000, 3836, 3837, 3840, 4096, 9216] {
                let buffer = BufferSettings { cell_bytes, ..BufferSettings::default() };
                let settings = settings_of(buffer);
                let cells = settings.buffer.shared_cells() + settings.buffer.headroom_cells;
                let room = frames_needed(&settings, chunk_bytes);
                for len in (60..=LONGEST_RECEIVED_BYTES).step_by(if cfg!(miri) { 99 } else { 1 }) {
                    let of_one = CellSize::new(cell_bytes).of(len as u16) as usize;
                    let needed =
                        (cells as usize / of_one) * chunks_of(len + ethernet::TAG_BYTES, chunk_bytes);
                    assert!(needed <= room, "{len} bytes in cells of {cell_bytes}, chunks of {chunk_bytes}");
                }
            }
        }
    }
}
