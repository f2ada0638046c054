//! Dequeue: takes frames from a port's queues in the order that the scheduler gives.
//!
//! Rule: before each frame the scheduler picks among the FIFOs that hold frames and are not
//! blocked, as long as the bytes with the kernel are below their bound and the link is free. Copies
//! of flooded frames leave as their queue entries; they get memory afterwards
//! ([`crate::pipeline::flood`]). Where the port remarks, or queued frames are ECN-marked or change
//! their tag, each frame that leaves carries its header edit. Source: docs/behavior.md,
//! "Scheduling" and "Frames in flight"; docs/multi-core.md.

use super::Egress;
use crate::egress::frame_queue::FrameQueues;
use crate::fifo_set::FifoSet;
use crate::frame::FrameId;
use crate::frame::header_edit::TxDesc;
use crate::frame::header_edit::{DsChange, HeaderEdit, PcpChange, VlanAction};
use crate::frame::meta::EcnMarking;
use crate::frame::meta::FrameMeta;
use crate::frame::remark::remark;
use crate::time::Instant;
use wire::bitset::Set8;

impl Egress {
    /// Takes frames that may leave now, in order, at most `room`, and appends them to `out`.
    /// Returns true if some of them must be edited.
    #[inline(always)] // once in the frame path
    pub fn dequeue(
        &mut self,
        room: usize,
        now: Instant,
        store: &mut FrameQueues,
        out: &mut Vec<TxDesc>,
    ) -> bool {
        let (before, backlogged) = (out.len(), self.backlogged);
        let needs_order_only = self.copies == 0 && self.shaped.is_empty();
        if needs_order_only && backlogged.without(self.unmarked_fifos).is_empty() {
            match self.is_plain(now) {
                true => self.dequeue_in_order::<true>(room, now, store, out),
                false => self.dequeue_in_order::<false>(room, now, store, out),
            }
        } else {
            self.dequeue_any(room, now, (store, out));
        }
        let emptied = backlogged.without(self.backlogged).and(self.wred_fifos);
        if !emptied.is_empty() {
            self.age_wred(emptied, now);
        }
        let has_edits = self.remarks || self.edits > 0;
        if has_edits {
            self.add_edits(&mut out[before..], store);
        }
        has_edits
    }

    /// Lets the averages of queues that have become empty fall from now on.
    #[inline(never)] // few queues have WRED
    fn age_wred(&mut self, emptied: FifoSet, now: Instant) {
        for q in emptied.known() {
            self.queues[q & 7].on_last_frame(now);
        }
    }

    /// True if nothing is stopped, the port has no rate, and all its queues are of one group.
    #[inline]
    fn is_plain(&mut self, now: Instant) -> bool {
        let is_stopped = self.tx_held
            || !self.no_room.is_empty()
            || self.link_pause.is_some()
            || !self.paused_priorities(now).is_empty();
        !is_stopped && !self.shaper.has_rate() && self.scheduler.has_one_group()
    }

    /// Takes frames that need no work of their own: only the order of the queues, pauses and the
    /// rate of the port decide. `PLAIN` if [`Egress::is_plain`], which is compiled separately: with
    /// less to look at, the state of the loop fits the registers.
    #[inline(never)] // with all registers
    fn dequeue_in_order<const PLAIN: bool>(
        &mut self,
        room: usize,
        now: Instant,
        store: &FrameQueues,
        out: &mut Vec<TxDesc>,
    ) {
        let most = out.len() + room;
        // Locals avoid a store-forwarding stall: these fields are written singly and read together.
        let (backlogged, mut in_flight_bytes) = (self.backlogged.known(), self.in_flight_bytes);
        let stopped = if PLAIN { Set8::EMPTY } else { self.stopped(now).known().and(backlogged) };
        let mut ready = backlogged.without(stopped);
        while out.len() < most && in_flight_bytes < self.in_flight_limit_bytes && !ready.is_empty() {
            if !PLAIN && !self.shaper.is_free(now) {
                break;
            }
            if !stopped.is_empty() {
                self.scheduler.end_blocked_turns(ready.bits());
            }
            let queues = &self.queues;
            let head_len = |q: usize| store.front_len(&queues[q & 7].waiting);
            let q = self.scheduler.pick::<PLAIN>(ready.bits(), head_len);
            let queue = &mut self.queues[q & 7];
            let (frame, len, cells) = store.pop_front(&mut queue.waiting);
            queue.dequeue_unmarked(cells);
            in_flight_bytes += u32::from(len);
            if queue.waiting.is_empty() {
                ready = ready.without(Set8::of(q));
            }
            self.scheduler.sent::<PLAIN>(q, len, ready.with(stopped).bits());
            if !PLAIN {
                self.shaper.take(len, now);
            }
            out.push(TxDesc { queue: q as u8, ..TxDesc::new(frame, len) });
        }
        self.commit(FifoSet::known_of(ready.with(stopped)), in_flight_bytes);
    }

    /// Takes frames of any port, even one with rates of queues and groups, marks at dequeue or
    /// flooded frames queued.
    #[inline(never)] // out of the way of ports without them
    fn dequeue_any(&mut self, room: usize, now: Instant, (store, out): (&mut FrameQueues, &mut Vec<TxDesc>)) {
        let most = out.len() + room;
        let (mut backlogged, mut in_flight_bytes) = (self.backlogged, self.in_flight_bytes);
        while out.len() < most && in_flight_bytes < self.in_flight_limit_bytes {
            let ready = backlogged.without(self.blocked(now));
            if ready.is_empty() {
                break;
            }
            if ready != backlogged {
                self.scheduler.end_blocked_turns(ready.queues().bits());
            }
            let (q, flooded) = self.pick_fifo(ready, store);
            let len = self.dequeue_one((q, flooded), (store, out), now);
            in_flight_bytes += u32::from(len);
            let list = if flooded { &self.flooded[q & 7] } else { &self.queues[q & 7].waiting };
            if list.is_empty() {
                backlogged = backlogged.without(FifoSet::of(q, flooded));
            }
            self.scheduler.sent::<false>(q, len, backlogged.queues().bits());
            self.consume_tokens(q, len, now);
        }
        self.commit(backlogged, in_flight_bytes);
    }

    /// Picks the queue of `ready`, which is not empty, whose turn it is. Of two FIFOs of that queue
    /// that may send, it picks the one whose turn it is.
    fn pick_fifo(&mut self, ready: FifoSet, store: &FrameQueues) -> (usize, bool) {
        let (known, waiting, next) = (ready.known(), ready.flooded(), self.flood_turn);
        let is_flooded = |q: usize| waiting.contains(q) && (next.contains(q) || !known.contains(q));
        let fifo = |q: usize| if is_flooded(q) { &self.flooded[q & 7] } else { &self.queues[q & 7].waiting };
        let q = self.scheduler.pick::<false>(ready.queues().bits(), |q| store.front_len(fifo(q)));
        let flooded = is_flooded(q);
        if !waiting.is_empty() {
            self.flood_turn.set(q, !flooded);
        }
        (q, flooded)
    }

    /// Commits what is backlogged, and what is with the kernel, after frames were taken.
    #[inline]
    fn commit(&mut self, backlogged: FifoSet, in_flight_bytes: u32) {
        (self.backlogged, self.in_flight_bytes) = (backlogged, in_flight_bytes);
        if self.pause_map.is_lingering() {
            self.pause_map.settle(backlogged);
        }
        self.in_flight_peak_bytes = self.in_flight_peak_bytes.max(in_flight_bytes);
    }

    /// Takes the first frame of a FIFO, and ECN-marks it if required. Returns its length.
    #[inline(always)] // once in `dequeue_any`
    fn dequeue_one(
        &mut self,
        (q, flooded): (usize, bool),
        (store, out): (&mut FrameQueues, &mut Vec<TxDesc>),
        now: Instant,
    ) -> u16 {
        let queue = &mut self.queues[q & 7];
        let fifo = if flooded { &mut self.flooded[q & 7] } else { &mut queue.waiting };
        let Some((frame, charge)) = store.pop(fifo) else { return 0 };
        self.copies -= u32::from(charge.in_port == FrameMeta::COPY);
        let mark = queue.dequeue(charge.cells(), charge.class.drop_level, &mut self.random, now);
        if mark {
            self.mark(charge);
        }
        out.push(TxDesc { queue: q as u8, ..TxDesc::new(frame, charge.len) });
        charge.len
    }

    /// Adds header edits to frames that leave.
    #[inline(never)] // few ports mark or rewrite
    fn add_edits(&mut self, out: &mut [TxDesc], store: &mut FrameQueues) {
        for TxDesc { frame, edit, .. } in out {
            let charge = *store.meta(frame);
            let (tag, is_marked) = self.pop_edits(frame, &charge, store);
            *edit = HeaderEdit {
                tag,
                pcp: if matches!(tag, VlanAction::Push(_)) {
                    PcpChange::set(charge.class.priority)
                } else {
                    PcpChange::KEEP
                },
                ds: if is_marked { DsChange::SET_CE } else { DsChange::KEEP },
                ds_field: charge.ds_field.filter(|_| is_marked),
            };
            remark(&self.remark_maps, &charge, edit);
        }
    }

    /// Returns the tag edit and ECN mark of a frame that left its queue. The edit no longer counts
    /// as pending.
    #[inline]
    pub(super) fn pop_edits(
        &mut self,
        frame: &FrameId,
        charge: &FrameMeta,
        store: &mut FrameQueues,
    ) -> (VlanAction, bool) {
        let (tag, is_marked) = (store.take_tag(frame), charge.marking == EcnMarking::Marked);
        self.edits -= u32::from(tag != VlanAction::Keep) + u32::from(is_marked);
        (tag, is_marked)
    }

    /// Charges a frame to the rate of the port, and to the rates of its queue and group.
    #[inline(always)] // once in `dequeue_any`
    fn consume_tokens(&mut self, q: usize, len: u16, now: Instant) {
        self.shaper.take(len, now);
        for shaped in self.shaped.iter_mut().filter(|shaped| shaped.queues.contains(q)) {
            shaped.shaper.take(len, now);
        }
    }
}
