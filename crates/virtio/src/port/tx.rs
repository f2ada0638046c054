//! Frames to the guest: filling its RX queues.
//!
//! Rule: a frame goes to the guest's queue of the number of its egress queue, or to the first one
//! where that is not enabled. It is copied and complete at once. A queue with few posted buffers
//! blocks the switch's queues that lead to it, and no other. A frame that needs more buffers than
//! expected is staged until there are some, in order. Source: Virtual I/O Device 1.2, 5.1.6.3
//! "Setting Up Receive Buffers", 5.1.6.4 "Processing of Incoming Packets".

use switch::{FrameMemory, TxDesc};
use wire::bitset::Set8;

use crate::memory::LONGEST_HEADER;
use crate::port::device::{Device, MAX_PAIRS, rx_ring};
use crate::port::{FEW_BUFFERS, STAGED, VirtioPort};
use crate::ring::chain::Direction;
use crate::ring::fault::RingFault;
use crate::ring::{MAX_BUFFERS, Queue};

/// Where the number of buffers is in it.
const BUFFERS_AT: usize = 10;
/// The virtio header of a frame in one buffer, little-endian.
const IN_ONE_BUFFER: [u8; LONGEST_HEADER] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
/// The length of a frame that pauses.
const CONTROL_BYTES: u16 = 60;

/// What became of a frame for the guest.
enum Placed {
    /// It is in this number of buffers.
    In(u16),
    /// There are not enough buffers yet.
    NoRoom,
}

impl<M: FrameMemory> VirtioPort<M> {
    /// Copies frames to the guest, or honors them, if they are the switch's pauses.
    #[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
    pub(super) fn send_all(&mut self, memory: &mut M, frames: &mut Vec<TxDesc>) {
        let mut device = self.device.take();
        for frame in frames.drain(..) {
            if frame.len == CONTROL_BYTES
                && !self.settings.sends_pfc
                && self.pauses.take(memory.bytes(&frame.frame, frame.len.into()), self.now)
            {
                self.completed.push(frame.frame);
                continue;
            }
            let pair = device.as_ref().map_or(0, |device| device.pair_of(frame.queue.into()));
            match &mut device {
                Some(device) if self.staged[pair].is_empty() => self.copy(device, pair, memory, frame),
                // The guest has no buffers, or its rings are with the control thread.
                _ => self.stage(pair, frame),
            }
        }
        if let Some(device) = &mut device {
            publish(device);
        }
        self.device = device;
        self.update_room();
    }

    /// Copies frames that were staged.
    #[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
    pub(super) fn send_staged(&mut self, memory: &mut M) {
        if self.staged.iter().all(|staged| staged.is_empty()) {
            return;
        }
        let Some(mut device) = self.device.take() else { return };
        for from in 0..MAX_PAIRS {
            for _ in 0..self.staged[from].len() {
                let Some(frame) = self.staged[from].pop_front() else { break };
                let pair = device.pair_of(frame.queue.into());
                let before = self.completed.len() + self.lost.len();
                self.copy_staged(&mut device, (from, pair), memory, frame);
                if self.completed.len() + self.lost.len() == before {
                    break; // it is staged again, in front
                }
            }
        }
        publish(&mut device);
        self.device = Some(device);
    }

    fn copy(&mut self, device: &mut Device, pair: usize, memory: &mut M, frame: TxDesc) {
        self.copy_staged(device, (MAX_PAIRS, pair), memory, frame);
    }

    /// Copies a frame to a queue of the guest, or stages it. `from` is where it was staged.
    #[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
    fn copy_staged(
        &mut self,
        device: &mut Device,
        (from, pair): (usize, usize),
        memory: &mut M,
        frame: TxDesc,
    ) {
        let Device { header_bytes, mergeable, rings, .. } = device;
        let (header, mergeable) = (*header_bytes, *mergeable);
        let Some(queue) = &mut rings[rx_ring(pair)] else { return self.lost.push(frame.frame) };
        let len = usize::from(frame.len);
        let mut placed = Ok(Placed::NoRoom);
        if len <= memory.chunk_bytes() {
            placed = fill(queue, (header, mergeable), memory.bytes(&frame.frame, len));
        } else {
            memory.whole(&frame.frame, len, |bytes| {
                placed = fill(queue, (header, mergeable), bytes);
                false
            });
        }
        match placed {
            Ok(Placed::In(buffers)) => {
                self.buffers_of_a_frame[pair] = self.buffers_of_a_frame[pair].max(buffers);
                self.completed.push(frame.frame);
            }
            Ok(Placed::NoRoom) if queue.stopped().is_some() => self.lost.push(frame.frame),
            Ok(Placed::NoRoom) if from < MAX_PAIRS => self.staged[from].push_front(frame),
            Ok(Placed::NoRoom) => self.stage(pair, frame),
            Err(fault) => {
                Self::on_fault(&mut self.faults, &self.handover, queue, fault);
                self.lost.push(frame.frame);
            }
        }
    }

    /// Keeps a frame until the guest has buffers for it.
    #[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
    fn stage(&mut self, pair: usize, frame: TxDesc) {
        if self.staged[pair].len() < STAGED {
            self.staged[pair].push_back(frame);
        } else {
            self.lost.push(frame.frame);
        }
    }

    /// Looks at what the guest has posted: which queues of the switch are blocked, and how many
    /// frames fit into each of the others. A ring that the guest broke blocks nothing, as what is
    /// sent there is lost.
    #[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
    pub(super) fn update_room(&mut self) {
        let Some(device) = self.device.as_mut().filter(|_| self.is_open) else {
            (self.blocked, self.room) = (Set8::ALL, 0);
            return;
        };
        let (mut blocked, mut room) = (Set8::EMPTY, usize::MAX);
        let mut full = [false; MAX_PAIRS];
        for (pair, full) in full.iter_mut().enumerate() {
            let Some(queue) = &mut device.rings[rx_ring(pair)] else { continue };
            let Ok(buffers) = queue.available() else {
                Self::on_fault(&mut self.faults, &self.handover, queue, RingFault::IndexJump);
                continue;
            };
            if queue.stopped().is_some() {
                continue;
            }
            queue.look_ahead(Direction::ToGuest);
            let (of_a_frame, most) = (self.buffers_of_a_frame[pair], &mut self.most_posted[pair]);
            *most = buffers.max(*most);
            let few = FEW_BUFFERS.min(queue.size() / 4).min(*most / 2).max(1) * of_a_frame;
            *full = buffers < few.min((*most).max(1)) || !self.staged[pair].is_empty();
            if !*full {
                room = room.min(usize::from(buffers / of_a_frame));
            }
        }
        for queue in 0..MAX_PAIRS {
            blocked.set(queue, full[device.pair_of(queue)]);
        }
        let all_blocked = blocked == Set8::ALL;
        (self.blocked, self.room) = (blocked, if all_blocked { 0 } else { room.min(STAGED / 2) });
    }
}

/// Copies a frame to as many buffers as it needs.
#[inline]
#[expect(clippy::indexing_slicing, reason = "a header is at most the longest")]
fn fill(queue: &mut Queue, (header, mergeable): (usize, bool), frame: &[u8]) -> Result<Placed, RingFault> {
    let Some((head, bytes)) = queue.pop(Direction::ToGuest)? else { return Ok(Placed::NoRoom) };
    if header == LONGEST_HEADER
        && let Some(buffer) = queue.single()?
        && buffer.len() >= LONGEST_HEADER + frame.len()
    {
        // A header that is right already is not written. Where it has a cache line of its own, as
        // in DPDK's buffers, the line remains in the caches of both cores.
        if buffer.array(0) != Some(IN_ONE_BUFFER) {
            let _ = buffer.write(0, &IN_ONE_BUFFER); // it fits
        }
        let _ = buffer.write(LONGEST_HEADER, frame);
        queue.push_used(head, (LONGEST_HEADER + frame.len()) as u32);
        return Ok(Placed::In(1));
    }
    let (first_addr, first_len) = queue.first_segment();
    if (first_len as usize) < header {
        return Err(RingFault::BufferTooSmall);
    }
    if !mergeable && (bytes as usize) < header + frame.len() {
        queue.unpop(1);
        return Err(RingFault::FrameDoesNotFit);
    }
    queue.write(0, &IN_ONE_BUFFER[..header])?;
    let in_first = queue.write(header, frame)?;
    if in_first == frame.len() {
        queue.push_used(head, (header + frame.len()) as u32);
        return Ok(Placed::In(1));
    }
    debug_assert_eq!(in_first + header, bytes as usize, "the first buffer is full");
    fill_more(queue, frame, (head, bytes), (in_first, first_addr))
}

/// Copies the rest of a frame to further buffers, and their number to the first one. A frame that
/// would not fit if the guest had posted all it can is not waited for.
#[cold]
#[expect(
    clippy::indexing_slicing,
    reason = "no more is copied than the frame has, and buffers are counted up to the most"
)]
fn fill_more(
    queue: &mut Queue,
    frame: &[u8],
    first: (u16, u32),
    (mut done, first_addr): (usize, u64),
) -> Result<Placed, RingFault> {
    let mut used = [(0, 0); MAX_BUFFERS];
    used[0] = first;
    let (mut count, mut descriptors) = (1, queue.chain_descriptors());
    while done < frame.len() {
        if count == MAX_BUFFERS || descriptors >= queue.size().into() {
            queue.unpop(count as u16);
            return Err(RingFault::FrameDoesNotFit);
        }
        let Some((head, _)) = queue.pop(Direction::ToGuest)? else {
            queue.unpop(count as u16);
            return Ok(Placed::NoRoom);
        };
        descriptors += queue.chain_descriptors();
        let copied = queue.write(0, &frame[done..])?;
        used[count] = (head, copied as u32);
        (count, done) = (count + 1, done + copied);
    }
    let number = queue.memory().at_guest(first_addr, LONGEST_HEADER as u32).ok_or(RingFault::BadAddress)?;
    number.write(BUFFERS_AT, &(count as u16).to_le_bytes());
    used[..count].iter().for_each(|&(head, bytes)| queue.push_used(head, bytes));
    Ok(Placed::In(count as u16))
}

/// Shows the guest the frames, and has it interrupted where it wants that.
#[expect(clippy::indexing_slicing, reason = "by pair, 0 to 7")]
fn publish(device: &mut Device) {
    let mut signals = 0;
    for pair in 0..MAX_PAIRS {
        if let Some(queue) = &mut device.rings[rx_ring(pair)] {
            queue.keep_disarmed();
            signals |= u32::from(queue.publish()) << rx_ring(pair);
        }
    }
    device.signals.raise(signals);
}
