//! What leaves a port: frames are taken from its queues in the order that the scheduler gives.
//!
//! Rule: before each frame the scheduler is asked, among the FIFOs that hold frames and are not blocked, as long as the bytes with the kernel
//! are below their bound. Where its answer would be the same queue again ([`crate::schedule::Scheduler::allowance`]), it is not asked: frames of one
//! queue are taken in runs. Where more is to be done for each of them (rates, marks, rewriting, flooded ones that wait as well), a run is one frame.
//! Source: docs/law.md, "Scheduling" and "Frames with the kernel".

use super::Egress;
use crate::fifo::Fifos;
use crate::frame::Outgoing;
use crate::memory::Memory;
use crate::rewrite;
use crate::store::{Charge, Most, Run, Store};
use crate::time::Instant;

/// What is sent from, and to.
struct Way<'w, M> {
    store: &'w mut Store,
    memory: &'w mut M,
    out: &'w mut Vec<Outgoing>,
    now: Instant,
}

impl Egress {
    /// Takes frames that may leave now, in order, at most `room`, and appends them to `out`.
    #[inline]
    pub fn send<M: Memory>(
        &mut self,
        room: usize,
        now: Instant,
        store: &mut Store,
        memory: &mut M,
        out: &mut Vec<Outgoing>,
    ) {
        let mut blocked = self.blocked(now);
        let one_by_one = self.is_shaped() || self.rewrites;
        let mut room = room as u32;
        // Copies: what was just written, read together with what is beside it, waits for its store.
        let (mut backlogged, mut in_flight_bytes) = (self.backlogged, self.in_flight_bytes);
        while room > 0 && in_flight_bytes < self.in_flight_limit_bytes {
            let ready = backlogged.without(blocked);
            if one_by_one || !ready.flooded().is_empty() {
                self.note_sent(backlogged, in_flight_bytes);
                if !self.send_one(ready, Way { store, memory, out, now }) {
                    break;
                }
                (backlogged, in_flight_bytes) = (self.backlogged, self.in_flight_bytes);
                blocked = self.blocked(now);
                room -= 1;
                continue;
            }
            let len = |q: usize| store.front_len(&self.queues[q & 7].waiting);
            let Some(q) = self.scheduler.pick(ready.known().bits(), len) else { break };
            let run = if self.queues[q & 7].is_plain() {
                self.take_run(q, room, in_flight_bytes, store, out)
            } else {
                self.take_one((q, false), Way { store, memory, out, now })
            };
            room -= run.frames;
            in_flight_bytes += run.bytes;
            let is_last = self.queues[q & 7].waiting.is_empty();
            backlogged = if is_last { backlogged.without(Fifos::of(q, false)) } else { backlogged };
            self.scheduler.sent(q, run.frames, run.bytes, backlogged.queues().bits());
        }
        self.note_sent(backlogged, in_flight_bytes);
    }

    /// What is backlogged, and with the kernel, after something was sent.
    #[inline]
    fn note_sent(&mut self, backlogged: Fifos, in_flight_bytes: u32) {
        (self.backlogged, self.in_flight_bytes) = (backlogged, in_flight_bytes);
        self.in_flight_peak_bytes = self.in_flight_peak_bytes.max(in_flight_bytes);
    }

    /// Takes frames of a plain queue, at least one, as long as nobody else's turn comes.
    #[inline(always)] // once in `send`
    fn take_run(
        &mut self,
        q: usize,
        room: u32,
        in_flight_bytes: u32,
        store: &Store,
        out: &mut Vec<Outgoing>,
    ) -> Run {
        let (frames, bytes) = self.scheduler.allowance(q);
        let bytes_before_last = self.in_flight_limit_bytes - in_flight_bytes;
        let queue = &mut self.queues[q & 7];
        let most = Most { frames: frames.min(room), bytes, bytes_before_last };
        let run = store.pop_run(&mut queue.waiting, &most, out);
        queue.hand_out_run(run.cells);
        run
    }

    /// Sends one frame where there are rates, or rewriting, or where flooded frames wait as well: of two FIFOs of a queue that may send
    /// the one whose turn it is. False: there is none.
    #[inline(never)]
    fn send_one<M: Memory>(&mut self, ready: Fifos, way: Way<'_, M>) -> bool {
        let (known, waiting, next) = (ready.known(), ready.flooded(), self.flooded_next);
        let is_flooded = |q: usize| waiting.contains(q) && (next.contains(q) || !known.contains(q));
        let fifo = |q: usize| if is_flooded(q) { &self.flooded[q & 7] } else { &self.queues[q & 7].waiting };
        let picked = self.scheduler.pick(ready.queues().bits(), |q| way.store.front_len(fifo(q)));
        let Some(q) = picked else { return false };
        let flooded = is_flooded(q);
        if !waiting.is_empty() {
            self.flooded_next.set(q, !flooded);
        }
        let now = way.now;
        let run = self.take_one((q, flooded), way);
        let fifo = if flooded { &self.flooded[q & 7] } else { &self.queues[q & 7].waiting };
        let is_last = if fifo.is_empty() { Fifos::of(q, flooded) } else { Fifos::EMPTY };
        self.note_sent(self.backlogged.without(is_last), self.in_flight_bytes + run.bytes);
        self.scheduler.sent(q, run.frames, run.bytes, self.backlogged.queues().bits());
        self.take_rates(q, run.bytes as u16, now);
        true
    }

    /// Takes the first frame of a FIFO, marks it if it must be, and rewrites it.
    #[inline(never)]
    fn take_one<M: Memory>(&mut self, (q, flooded): (usize, bool), way: Way<'_, M>) -> Run {
        let queue = &mut self.queues[q & 7];
        let fifo = if flooded { &mut self.flooded[q & 7] } else { &mut queue.waiting };
        let Some((frame, &charge)) = way.store.pop(fifo) else { return Run::default() };
        let Charge { len, class, ds_field, .. } = charge;
        if queue.hand_out(charge.cells(), class.drop_level, &mut self.random, way.now)
            && let Some(field) = ds_field
        {
            queue.mark(field, way.memory.bytes_mut(&frame, len.into()));
        }
        if self.rewrites {
            let bytes = way.memory.bytes_mut(&frame, len.into());
            rewrite::rewrite(&self.rewrite, class.queue, ds_field, bytes);
        }
        way.out.push(Outgoing { frame, len });
        Run { frames: 1, bytes: len.into(), cells: charge.cells() }
    }

    /// A frame of `len` bytes takes its part of the line, and of the rates of its queue and group.
    fn take_rates(&mut self, q: usize, len: u16, now: Instant) {
        self.shaper.take(len, now);
        for shaped in self.shaped.iter_mut().filter(|shaped| shaped.queues.contains(q)) {
            shaped.shaper.take(len, now);
        }
    }
}
