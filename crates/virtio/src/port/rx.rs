//! Frames from the guest: reading its TX queues.
//!
//! Rule: the queues that are not paused get equal parts of a batch, beginning with another one each
//! time; what one leaves the others use. A queue gives at most as many cells a batch as headroom
//! holds ([`switch::settings::PortSettings::guest_batch_cells`]), or one frame of more: that may
//! arrive after XOFF. A frame for which the switch has no memory stays in the guest; one that
//! breaks the rules counts as received and dropped. Source: Virtual I/O Device 1.2, 5.1.6.2 "Packet
//! Transmission".

use switch::{FrameId, FrameMemory, LONGEST_RECEIVED_BYTES, RxDesc};

use crate::port::VirtioPort;
use crate::port::device::{Device, MAX_PAIRS, tx_ring};
use crate::ring::Queue;
use crate::ring::chain::Direction;
use crate::ring::fault::RingFault;

/// The bytes of an Ethernet header.
const ETHERNET_BYTES: u32 = 14;
/// Flag of the virtio header: the checksum is left to the device.
const NEEDS_CHECKSUM: u8 = 1;
/// Kind of segmentation in the virtio header: none.
const NO_SEGMENTATION: u8 = 0;

impl<M: FrameMemory> VirtioPort<M> {
    /// Takes at most `max` frames of the queues that are not paused.
    #[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
    pub(super) fn read_queues(&mut self, memory: &mut M, max: usize, out: &mut Vec<RxDesc>) {
        let Some(mut device) = self.device.take() else { return };
        let begin = out.len();
        let senders = device.senders().max(1);
        let mut left = max;
        let mut budgets = [self.settings.batch_cells; MAX_PAIRS];
        let mut signals = 0;
        // Equal parts first, then what is left of the batch.
        for most in [max.div_ceil(senders), max] {
            let first = self.first_pair;
            for pair in (0..MAX_PAIRS).map(|n| (first + n) % MAX_PAIRS) {
                if left > 0 && !self.is_paused(pair) {
                    let before = out.len();
                    let limits = (most.min(left), &mut budgets[pair]);
                    self.read_queue(&mut device, pair, memory, limits, out);
                    left -= out.len() - before;
                }
            }
            if out.len() == begin || senders == 1 {
                break;
            }
        }
        for pair in 0..MAX_PAIRS {
            if let Some(queue) = &mut device.rings[tx_ring(pair)] {
                queue.keep_disarmed();
                queue.look_ahead(Direction::FromGuest);
                signals |= u32::from(queue.publish()) << tx_ring(pair);
            }
        }
        self.first_pair = (self.first_pair + 1) % MAX_PAIRS;
        device.signals.raise(signals);
        self.device = Some(device);
    }

    #[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
    fn read_queue(
        &mut self,
        device: &mut Device,
        pair: usize,
        memory: &mut M,
        (max, budget): (usize, &mut u32),
        out: &mut Vec<RxDesc>,
    ) {
        let header = device.header_bytes;
        let priority = self.is_by_priority().then_some(pair as u8);
        let Some(queue) = &mut device.rings[tx_ring(pair)] else { return };
        let available = queue.available().unwrap_or_else(|fault| {
            Self::on_fault(&mut self.faults, &self.handover, queue, fault);
            0
        });
        for _ in 0..max.min(available.into()) {
            let (head, bytes) = match queue.pop(Direction::FromGuest) {
                Ok(Some(popped)) => popped,
                Ok(None) => return,
                Err(fault) => {
                    Self::on_fault(&mut self.faults, &self.handover, queue, fault);
                    return self.refuse(pair);
                }
            };
            let len = bytes.saturating_sub(header as u32);
            let cost = self.cell.of(u16::try_from(len).unwrap_or(u16::MAX));
            if cost > *budget && *budget < self.settings.batch_cells {
                return queue.unpop(1);
            }
            *budget = budget.saturating_sub(cost);
            match take_frame(queue, memory, header, bytes) {
                Ok(Some(frame)) => out.push(RxDesc { frame, len: (bytes - header as u32) as u16, priority }),
                Ok(None) => return queue.unpop(1),
                Err(fault) => {
                    Self::on_fault(&mut self.faults, &self.handover, queue, fault);
                    self.refuse(pair);
                    if fault.stops_ring() {
                        return;
                    }
                }
            }
            queue.push_used(head, 0);
        }
    }
}

/// Copies the frame of the popped chain, which has this number of bytes with its header, out of the
/// guest. Returns none if there is no memory for it.
#[inline]
fn take_frame<M: FrameMemory>(
    queue: &Queue,
    memory: &mut M,
    header: usize,
    bytes: u32,
) -> Result<Option<FrameId>, RingFault> {
    let len = bytes.saturating_sub(header as u32);
    if len < ETHERNET_BYTES {
        return Err(RingFault::FrameTooShort);
    }
    let len = len as usize;
    if len > LONGEST_RECEIVED_BYTES.min(memory.max_len()) {
        return Err(RingFault::FrameTooLong);
    }
    let single = queue.single()?;
    let flags = match &single {
        Some(bytes) => bytes.array(0).ok_or(RingFault::FrameTooShort)?,
        None => {
            let mut flags = [0; 2];
            queue.read(0, &mut flags)?;
            flags
        }
    };
    if flags[0] & NEEDS_CHECKSUM != 0 || flags[1] != NO_SEGMENTATION {
        return Err(RingFault::OffloadNotNegotiated);
    }
    let Some(frame) = memory.alloc_for(len) else { return Ok(None) };
    let mut copied = Ok(());
    if len <= memory.chunk_bytes() {
        let to = memory.bytes_mut(&frame, len);
        match single {
            // The chain has as many bytes.
            Some(bytes) => {
                let read = bytes.read(header, to);
                debug_assert_eq!(read, len);
            }
            None => copied = queue.read(header, to),
        }
    } else {
        memory.whole(&frame, len, |bytes| {
            copied = queue.read(header, bytes);
            true
        });
    }
    match copied {
        Ok(()) => Ok(Some(frame)),
        Err(fault) => {
            memory.free(frame);
            Err(fault)
        }
    }
}
