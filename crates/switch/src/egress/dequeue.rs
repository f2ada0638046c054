//! Dequeue: takes frames from a port's queues in the order that the scheduler gives.
//!
//! Rule: before each frame the scheduler picks among the FIFOs that hold frames and are not
//! blocked, as long as the bytes with the kernel are below their bound. Where it would pick the
//! same queue again ([`QueueTurn`]), it is not called: frames of one queue are taken in runs, as
//! far as the rate of the port allows. Where each frame needs more work (rates of queues and
//! groups, marks at dequeue, flooded frames queued as well), a run is one frame. Copies of flooded
//! frames leave as their queue entries; they get memory afterwards ([`crate::pipeline::flood`]).
//! Where the port remarks, or queued frames are ECN-marked or change their tag, each frame that
//! leaves carries its header edit. Source: docs/behavior.md, "Scheduling" and "Frames in flight";
//! docs/multi-core.md.

use super::Egress;
use crate::egress::frame_queue::{DequeueLimit, DequeuedRun, FrameQueues};
use crate::egress::scheduler::QueueTurn;
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
    #[inline]
    pub fn dequeue(
        &mut self,
        room: usize,
        now: Instant,
        store: &mut FrameQueues,
        out: &mut Vec<TxDesc>,
    ) -> bool {
        let (before, backlogged) = (out.len(), self.backlogged);
        let blocked = self.blocked(now);
        let is_plain = blocked.is_empty() && self.copies == 0 && !self.is_shaped();
        if is_plain && self.backlogged.without(self.run_fifos).is_empty() {
            self.dequeue_runs(room as u32, store, out);
        } else {
            self.dequeue_any(blocked, room as u32, now, (store, out));
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
            self.queues[q & 7].on_run_end(now);
        }
    }

    /// Takes frames where only the scheduler decides: nothing is blocked, no frame needs work of
    /// its own.
    #[inline(always)] // once in `dequeue`
    fn dequeue_runs(&mut self, mut room: u32, store: &FrameQueues, out: &mut Vec<TxDesc>) {
        // Locals avoid a store-forwarding stall: these fields are written singly and read together.
        let (mut backlogged, mut in_flight_bytes) = (self.backlogged.known(), self.in_flight_bytes);
        while room > 0 && in_flight_bytes < self.in_flight_limit_bytes {
            let Some(turn) = self.pick_known(backlogged, store) else { break };
            let run = self.dequeue_run(&turn, room, (in_flight_bytes, u32::MAX), store, out);
            room -= run.frames;
            in_flight_bytes += run.bytes;
            if self.queues[turn.queue & 7].waiting.is_empty() {
                backlogged = backlogged.without(Set8::of(turn.queue));
            }
            self.scheduler.sent(&turn, run.frames, run.bytes, backlogged.bits());
        }
        self.commit(FifoSet::known_of(backlogged), in_flight_bytes);
    }

    /// Takes frames of a port with pauses, rates, marks at dequeue or flooded frames queued, too.
    #[inline(never)] // out of the way of ports without them
    fn dequeue_any(
        &mut self,
        mut blocked: FifoSet,
        mut room: u32,
        now: Instant,
        (store, out): (&mut FrameQueues, &mut Vec<TxDesc>),
    ) {
        let is_shaped = self.is_shaped();
        let has_copies = self.copies > 0;
        let runs_are_long = self.shaped.is_empty();
        let (mut backlogged, mut in_flight_bytes) = (self.backlogged, self.in_flight_bytes);
        let can_cut_short = is_shaped || !blocked.is_empty();
        if can_cut_short {
            self.end_blocked_turns(backlogged, blocked, room, in_flight_bytes);
        }
        while room > 0 && in_flight_bytes < self.in_flight_limit_bytes {
            let ready = backlogged.without(blocked);
            let is_mixed = !ready.flooded().is_empty();
            let Some((turn, flooded)) = self.pick(ready, is_mixed, store) else { break };
            let q = turn.queue;
            let fifo = FifoSet::of(q, flooded);
            let run = if !self.run_fifos.and(fifo).is_empty() && !has_copies {
                let (most, link_bytes) = if runs_are_long && !is_mixed {
                    (room, self.shaper.bytes_until_busy(now))
                } else {
                    (1, u32::MAX)
                };
                self.dequeue_run(&turn, most, (in_flight_bytes, link_bytes), store, out)
            } else {
                self.dequeue_one((q, flooded), (store, out), now)
            };
            room -= run.frames;
            in_flight_bytes += run.bytes;
            let list = if flooded { &self.flooded[q & 7] } else { &self.queues[q & 7].waiting };
            backlogged = if list.is_empty() { backlogged.without(fifo) } else { backlogged };
            self.scheduler.sent(&turn, run.frames, run.bytes, backlogged.queues().bits());
            if can_cut_short {
                if is_shaped {
                    self.consume_tokens(q, &run, now);
                    blocked = self.blocked(now);
                }
                self.end_blocked_turns(backlogged, blocked, room, in_flight_bytes);
            }
        }
        self.commit(backlogged, in_flight_bytes);
    }

    /// Ends the DRR turns of blocked queues if other queues are picked now. While nothing is sent,
    /// no turn ends.
    #[inline(never)] // out of the way of ports without pauses and rates
    fn end_blocked_turns(&mut self, backlogged: FifoSet, blocked: FifoSet, room: u32, in_flight_bytes: u32) {
        let ready = backlogged.without(blocked);
        let picks = room > 0 && in_flight_bytes < self.in_flight_limit_bytes && !ready.is_empty();
        if picks && ready != backlogged {
            self.scheduler.end_blocked_turns(ready.queues().bits());
        }
    }

    /// Picks the queue whose DRR turn it is, and one of its FIFOs.
    #[inline(always)] // once in `dequeue_any`
    fn pick(&mut self, ready: FifoSet, is_mixed: bool, store: &FrameQueues) -> Option<(QueueTurn, bool)> {
        if is_mixed {
            return self.pick_fifo(ready, store);
        }
        Some((self.pick_known(ready.known(), store)?, false))
    }

    /// Picks the queue whose DRR turn it is, of those with frames to known addresses.
    #[inline(always)] // once in each loop of `dequeue`
    fn pick_known(&mut self, ready: Set8, store: &FrameQueues) -> Option<QueueTurn> {
        self.scheduler.pick(ready.bits(), |q| store.front_len(&self.queues[q & 7].waiting))
    }

    /// Picks a queue where flooded frames are queued as well. Of two FIFOs of that queue that may
    /// send, it picks the one whose turn it is.
    #[cold]
    #[inline(never)]
    fn pick_fifo(&mut self, ready: FifoSet, store: &FrameQueues) -> Option<(QueueTurn, bool)> {
        let (known, waiting, next) = (ready.known(), ready.flooded(), self.flood_turn);
        let is_flooded = |q: usize| waiting.contains(q) && (next.contains(q) || !known.contains(q));
        let fifo = |q: usize| if is_flooded(q) { &self.flooded[q & 7] } else { &self.queues[q & 7].waiting };
        let turn = self.scheduler.pick(ready.queues().bits(), |q| store.front_len(fifo(q)))?;
        let flooded = is_flooded(turn.queue);
        self.flood_turn.set(turn.queue, !flooded);
        Some((turn, flooded))
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

    /// Takes frames of a queue that no WRED checks now, at least one, until the turn of another, or
    /// until the link has taken `link_bytes`. As soon as one limit is in bytes on the wire, each
    /// frame counts as on the wire in all of them. That can only end a run too early, and the next
    /// pick continues it.
    #[inline(always)] // once in each loop of `dequeue`
    fn dequeue_run(
        &mut self,
        turn: &QueueTurn,
        room: u32,
        (in_flight_bytes, link_bytes): (u32, u32),
        store: &FrameQueues,
        out: &mut Vec<TxDesc>,
    ) -> DequeuedRun {
        debug_assert_eq!(self.scheduler.overhead_bytes(), u32::from(self.shaper.overhead_bytes()));
        let is_on_wire = turn.wire_bytes.min(link_bytes) < u32::MAX;
        let queue = &mut self.queues[turn.queue & 7];
        let most = DequeueLimit {
            frames: turn.frames.min(room),
            bytes: turn.bytes.min(turn.wire_bytes),
            bytes_before_last: (self.in_flight_limit_bytes - in_flight_bytes).min(link_bytes),
            overhead_bytes: if is_on_wire { self.scheduler.overhead_bytes() } else { 0 },
        };
        let run = store.pop_run((turn.queue as u8, &mut queue.waiting), &most, out);
        queue.dequeue_run(run.cells);
        run
    }

    /// Takes the first frame of a FIFO, and ECN-marks it if required.
    #[inline(always)] // once in `dequeue_any`
    fn dequeue_one(
        &mut self,
        (q, flooded): (usize, bool),
        (store, out): (&mut FrameQueues, &mut Vec<TxDesc>),
        now: Instant,
    ) -> DequeuedRun {
        let queue = &mut self.queues[q & 7];
        let fifo = if flooded { &mut self.flooded[q & 7] } else { &mut queue.waiting };
        let Some((frame, charge)) = store.pop(fifo) else { return DequeuedRun::default() };
        self.copies -= u32::from(charge.in_port == FrameMeta::COPY);
        let mark = queue.dequeue(charge.cells(), charge.class.drop_level, &mut self.random, now);
        if mark {
            self.mark(charge);
        }
        out.push(TxDesc { queue: q as u8, ..TxDesc::new(frame, charge.len) });
        DequeuedRun { frames: 1, bytes: charge.len.into(), cells: charge.cells() }
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

    /// Charges frames to the rate of the port, and to the rates of their queue and group.
    #[inline(always)] // once in `dequeue_any`
    fn consume_tokens(&mut self, q: usize, run: &DequeuedRun, now: Instant) {
        self.shaper.take_run(run.frames, run.bytes, now);
        for shaped in self.shaped.iter_mut().filter(|shaped| shaped.queues.contains(q)) {
            shaped.shaper.take_run(run.frames, run.bytes, now);
        }
    }
}
