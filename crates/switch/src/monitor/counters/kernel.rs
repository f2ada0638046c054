//! Counters of the kernel below a port.
//!
//! Source: docs/kernel/af-xdp.md.

use super::KernelCounters;

/// A way in which a received frame is lost before the switch has it.
#[derive(Debug, Clone, Copy)]
pub struct RxLoss {
    /// Name in totals and, after `kernel_`, in `sluice show drops`.
    pub name: &'static str,
    /// Label of the metric `sluice_port_kernel_dropped_frames`.
    pub label: &'static str,
    /// Words of `sluice show ports`.
    pub words: &'static str,
    /// True if it is part of the event `kernel_dropped`: there was no buffer for the frame.
    pub for_want_of_buffer: bool,
    /// Reads the number of frames.
    pub frames: fn(&KernelCounters) -> u64,
}

/// The ways in which received frames are lost. Every sum of them is computed from this table.
pub const RX_LOSSES: [RxLoss; 6] = [
    RxLoss {
        name: "rx_fill_ring_empty",
        label: "fill_ring_empty",
        words: "kernel: fill ring empty",
        for_want_of_buffer: true,
        frames: |kernel| kernel.rx_fill_ring_empty_frames,
    },
    RxLoss {
        name: "rx_ring_full",
        label: "rx_ring_full",
        words: "kernel: RX ring full",
        for_want_of_buffer: true,
        frames: |kernel| kernel.rx_ring_full_frames,
    },
    RxLoss {
        name: "rx_dropped",
        label: "other",
        words: "kernel: dropped on receipt",
        for_want_of_buffer: true,
        frames: |kernel| kernel.rx_dropped_frames,
    },
    RxLoss {
        name: "rx_missed",
        label: "nic_missed",
        words: "NIC: no buffer",
        for_want_of_buffer: true,
        frames: |kernel| kernel.rx_missed_frames,
    },
    RxLoss {
        name: "rx_closed",
        label: "rx_closed",
        words: "kernel: in a closed RX ring",
        for_want_of_buffer: false,
        frames: |kernel| kernel.rx_closed_frames,
    },
    RxLoss {
        name: "rx_too_long",
        label: "too_long",
        words: "longer than 9238 bytes",
        for_want_of_buffer: false,
        frames: |kernel| kernel.rx_too_long_frames,
    },
];

impl KernelCounters {
    /// Returns the frames lost on receipt, in whichever way.
    pub fn rx_lost_frames(&self) -> u64 {
        RX_LOSSES.iter().map(|loss| (loss.frames)(self)).sum()
    }

    /// Returns the frames lost on receipt because there was no buffer for them.
    pub fn rx_unbuffered_frames(&self) -> u64 {
        RX_LOSSES.iter().filter(|loss| loss.for_want_of_buffer).map(|loss| (loss.frames)(self)).sum()
    }
}
