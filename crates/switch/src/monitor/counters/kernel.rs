//! Counters of the kernel below a port.
//!
//! Source: docs/kernel-behavior.md.

/// Kernel counters of one interface. All count since the start, however often the port was closed
/// and opened since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// Frames that found the fill ring empty.
    pub rx_fill_ring_empty_frames: u64,
    /// Frames that found the RX ring full.
    pub rx_ring_full_frames: u64,
    /// Frames that the kernel dropped on receipt for another reason.
    pub rx_dropped_frames: u64,
    /// Frames that the NIC had no buffer for, and dropped before the kernel saw them.
    pub rx_missed_frames: u64,
    /// Receive descriptors that the kernel rejected.
    pub rx_invalid_frames: u64,
    /// Transmit descriptors that the kernel rejected.
    pub tx_invalid_frames: u64,
    /// `sendto` calls.
    pub tx_kicks: u64,
    /// `sendto` calls that returned EAGAIN: the frames wait.
    pub tx_again: u64,
    /// `sendto` calls that returned EBUSY: one frame lost each.
    pub tx_busy: u64,
    /// `sendto` calls that returned ENOBUFS: the frames wait.
    pub tx_no_buffers: u64,
    /// `sendto` calls that returned ENETDOWN or ENXIO.
    pub tx_down: u64,
    /// Completions of frames that the port had not sent, or that were completed before: ignored.
    pub tx_stray_frames: u64,
    /// Frames received in memory that the port had not posted, or that had been received before:
    /// ignored.
    pub rx_stray_frames: u64,
    /// Frames that waited in an RX ring when it was closed, as the port went down.
    pub rx_closed_frames: u64,
    /// Frames longer than 9238 bytes, which no port accepts: several merged frames, or one to be
    /// segmented.
    pub rx_too_long_frames: u64,
}

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

impl std::ops::AddAssign for KernelCounters {
    fn add_assign(&mut self, other: Self) {
        let KernelCounters {
            rx_fill_ring_empty_frames,
            rx_ring_full_frames,
            rx_dropped_frames,
            rx_missed_frames,
            rx_invalid_frames,
            tx_invalid_frames,
            tx_kicks,
            tx_again,
            tx_busy,
            tx_no_buffers,
            tx_down,
            tx_stray_frames,
            rx_stray_frames,
            rx_closed_frames,
            rx_too_long_frames,
        } = other;
        self.rx_fill_ring_empty_frames += rx_fill_ring_empty_frames;
        self.rx_ring_full_frames += rx_ring_full_frames;
        self.rx_dropped_frames += rx_dropped_frames;
        self.rx_missed_frames += rx_missed_frames;
        self.rx_invalid_frames += rx_invalid_frames;
        self.tx_invalid_frames += tx_invalid_frames;
        self.tx_kicks += tx_kicks;
        self.tx_again += tx_again;
        self.tx_busy += tx_busy;
        self.tx_no_buffers += tx_no_buffers;
        self.tx_down += tx_down;
        self.tx_stray_frames += tx_stray_frames;
        self.rx_stray_frames += rx_stray_frames;
        self.rx_closed_frames += rx_closed_frames;
        self.rx_too_long_frames += rx_too_long_frames;
    }
}
