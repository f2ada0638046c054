//! The switching core's view of a port that another core serves. The other end is
//! [`crate::io_core::io_loop`].
//!
//! Rule: received frames have been parsed, by the rules that are in force. Frames that were parsed
//! before a change of the rules are parsed again, so that each frame follows the rules of the
//! iteration that takes it, as with one core. Frames on the channel wait like those in an RX ring.
//! Source: docs/multi-core.md.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use switch::{FrameId, FrameMemory, FrameParser, Instant, KernelCounters, Nanos, RxDesc, RxFrame, TxDesc};

use crate::guard::heartbeat::{LoopState, STALL_NS};
use crate::guard::stall_detector::GIVE_UP_NS;
use crate::io_core::port_channel::{
    ChannelMonitor, FREE_BATCH_FRAMES, PortChannel, PortCommand, PortReply, PortStatus, RESERVED_FREE,
    TX_LOST,
};
use crate::poll_loop::iteration::{RX_BATCH, TX_BATCH};
use crate::port::{Port, PortFault};

/// How long the RX backlog that an I/O loop published counts as its present one: some of its
/// iterations.
const CURRENT_NS: Nanos = 100_000;

/// A request to the I/O loop and its reply.
#[derive(Debug, Default)]
enum PendingRequest<T> {
    #[default]
    None,
    Sent,
    Replied(T),
}

impl<T> PendingRequest<T> {
    /// Starts a request. True if it must be sent now, as none is pending.
    fn begin(&mut self) -> bool {
        let is_new = matches!(self, PendingRequest::None);
        if is_new {
            *self = PendingRequest::Sent;
        }
        is_new
    }

    /// Takes the reply, if it has arrived. A new request is possible afterwards.
    fn take(&mut self) -> Option<T> {
        match std::mem::take(self) {
            PendingRequest::Replied(answer) => Some(answer),
            open => {
                *self = open;
                None
            }
        }
    }
}

/// The switching core's end of a port channel.
#[derive(Debug)]
pub struct RemotePort<M> {
    channel: Arc<PortChannel>,
    is_up: bool,
    /// The port's parser, and whether checksums are completed.
    parser: Option<Box<(FrameParser, bool)>>,
    /// The number of the rule set that `parser` implements.
    rules: u32,
    /// The I/O loop has yet to be sent the rule set.
    rules_pending: bool,
    /// The minimum number of posted chunks, if it has yet to be sent to the I/O loop.
    min_posted: Option<u32>,
    /// The batch of received frames that is being taken.
    arrivals: Vec<RxFrame>,
    /// The rule set by which that batch was parsed.
    parsed_by: u32,
    /// Frames that the port has room for when none is outstanding.
    tx_capacity: usize,
    /// Frames passed to the I/O loop that have not returned.
    outstanding: usize,
    /// Batches passed to the I/O loop so far.
    batches_given: u64,
    /// The number of batches that the I/O loop has taken, and since when it has taken no more while
    /// some wait.
    stalled_since: Option<(u64, Instant)>,
    is_stalled: bool,
    /// What the I/O loop last published about its rings still holds.
    backlog_is_fresh: bool,
    /// Frames that the kernel lost, not yet taken.
    lost: Vec<FrameId>,
    /// There were more free frames than the I/O loop had room for.
    has_frames: bool,
    /// The status that the I/O loop last reported.
    report: PortStatus,
    /// Frames that were on the channel when the port was closed.
    closed_frames: u64,
    closing: PendingRequest<Vec<FrameId>>,
    opening: PendingRequest<Option<usize>>,
    reporting: PendingRequest<()>,
    /// The pending report is no longer waited for.
    is_report_late: bool,
    /// The buffer in which the I/O loop reports the frames that were never sent.
    unsent: Vec<FrameId>,
    // Empty between uses; kept so that nothing is allocated.
    frames: Vec<FrameId>,
    reparse: Vec<RxFrame>,
    memory: PhantomData<fn(&mut M)>,
}

impl<M: FrameMemory> RemotePort<M> {
    /// Creates this end of a channel for a port that is open with room for `tx_capacity` frames to
    /// transmit, or closed.
    pub(crate) fn new(channel: Arc<PortChannel>, is_up: bool, room: usize) -> Self {
        Self {
            channel,
            is_up,
            parser: None,
            rules: 0,
            rules_pending: false,
            min_posted: None,
            arrivals: Vec::with_capacity(RX_BATCH),
            parsed_by: 0,
            tx_capacity: room,
            outstanding: 0,
            batches_given: 0,
            stalled_since: None,
            is_stalled: false,
            backlog_is_fresh: false,
            lost: Vec::with_capacity(TX_BATCH),
            has_frames: false,
            report: PortStatus::default(),
            closed_frames: 0,
            closing: PendingRequest::None,
            opening: PendingRequest::None,
            reporting: PendingRequest::None,
            is_report_late: false,
            unsent: Vec::with_capacity(4096),
            frames: Vec::with_capacity(TX_BATCH),
            reparse: Vec::with_capacity(RX_BATCH),
            memory: PhantomData,
        }
    }

    /// Returns a view of the channel for the guard of the switching core.
    pub fn monitor(&self) -> ChannelMonitor {
        ChannelMonitor(Arc::clone(&self.channel))
    }

    /// Sends the I/O loop what can wait, if there is room.
    #[inline]
    fn send_settings(&mut self) {
        if (self.rules_pending || self.min_posted.is_some()) && self.channel.has_room_for_settings() {
            self.send_settings_now();
        }
    }

    #[cold]
    fn send_settings_now(&mut self) {
        if let (true, Some(parser)) = (self.rules_pending, &self.parser) {
            self.channel.send_command(PortCommand::Rules(self.rules, parser.clone()));
            self.rules_pending = false;
        }
        if let Some(frames) = self.min_posted.take() {
            self.channel.send_command(PortCommand::MinPosted(frames));
        }
    }

    /// Takes the replies of the I/O loop.
    fn take_replies(&mut self) {
        while let Some(answer) = self.channel.replies.pop() {
            match answer {
                PortReply::Closed(unsent, report) => {
                    self.report = PortStatus { free: self.report.free, ..report };
                    self.closing = PendingRequest::Replied(unsent);
                }
                PortReply::Reopened(room) => self.opening = PendingRequest::Replied(room),
                PortReply::Report(report) => {
                    self.report = report;
                    self.reporting = match std::mem::take(&mut self.is_report_late) {
                        true => PendingRequest::None,
                        false => PendingRequest::Replied(()),
                    };
                }
            }
        }
    }

    /// Exchanges free frames. The I/O loop gets as many as the channel has room for.
    #[inline]
    fn exchange(&mut self, memory: &mut M) {
        while self.channel.free_to_core.pop(&mut self.frames).is_some() {
            self.frames.drain(..).for_each(|frame| memory.free(frame));
        }
        let mut gives = false;
        while self.channel.free_to_io.room() > 0 && memory.free_frames() >= RESERVED_FREE + FREE_BATCH_FRAMES
        {
            self.frames.extend((0..FREE_BATCH_FRAMES).map_while(|_| memory.alloc()));
            self.channel.free_to_io.push(0, &mut self.frames);
            gives = true;
        }
        self.has_frames = memory.free_frames() >= RESERVED_FREE + FREE_BATCH_FRAMES;
        if gives {
            self.channel.io_bell.ring();
        }
    }

    /// Checks whether frames passed to the I/O loop are waiting because that loop stalls.
    #[inline]
    fn check_io_loop(&mut self, now: Instant) {
        if self.channel.outgoing.is_empty() {
            (self.stalled_since, self.is_stalled) = (None, false);
            return;
        }
        let taken = self.batches_given - self.channel.outgoing.batches() as u64;
        let since = match self.stalled_since {
            Some((before, since)) if before == taken => since,
            _ => now,
        };
        self.stalled_since = Some((taken, since));
        let is_long = (STALL_NS..GIVE_UP_NS).contains(&now.since(since));
        self.is_stalled = is_long && !self.channel.heartbeat.is_iterating(now);
    }

    /// Parses the batch that is being taken again.
    #[cold]
    fn parse_again(&mut self, memory: &M) {
        let Some(parser) = &self.parser else { return };
        for RxFrame { frame, meta: charge, .. } in self.arrivals.drain(..) {
            let bytes = memory.bytes(&frame, charge.len.into());
            self.reparse.push(parser.0.parse(RxDesc::new(frame, charge.len), bytes));
        }
        std::mem::swap(&mut self.arrivals, &mut self.reparse);
        self.parsed_by = self.rules;
    }

    /// Returns what is left on the channel, and, until the I/O loop confirms that the port is
    /// closed, what its rings held.
    fn reclaim_batches(&mut self, memory: &mut M, unsent: &mut Vec<FrameId>) -> bool {
        self.exchange(memory);
        self.take_replies();
        let Some(mut never_sent) = self.closing.take() else { return false };
        self.outstanding -= never_sent.len();
        unsent.append(&mut never_sent);
        self.unsent = never_sent;
        while !self.arrivals.is_empty() || self.channel.rx.pop(&mut self.arrivals).is_some() {
            self.closed_frames += self.arrivals.len() as u64;
            self.arrivals.drain(..).for_each(|arrival| memory.free(arrival.frame));
        }
        self.exchange(memory);
        true
    }
}

impl<M: FrameMemory> Port for RemotePort<M> {
    type Memory = M;

    fn receive(&mut self, memory: &mut M, now: Instant, _max: usize, _out: &mut Vec<RxDesc>) {
        self.check_io_loop(now);
        let state = self.channel.heartbeat.state();
        self.backlog_is_fresh = matches!(state, LoopState::Awake(at) if now.since(at) < CURRENT_NS);
        self.send_settings();
        self.exchange(memory);
    }

    #[inline]
    fn take_arrivals(&mut self, memory: &M, max: usize, out: &mut Vec<RxFrame>) {
        while out.len() < max {
            if self.arrivals.is_empty() {
                match self.channel.rx.pop(&mut self.arrivals) {
                    Some(rules) => self.parsed_by = rules,
                    None => break,
                }
            }
            if self.parsed_by != self.rules {
                self.parse_again(memory);
            }
            let room = max - out.len();
            if self.arrivals.len() <= room {
                out.append(&mut self.arrivals);
            } else {
                out.extend(self.arrivals.drain(..room));
            }
        }
    }

    fn set_parser(&mut self, parser: FrameParser, complete_checksums: bool) {
        self.parser = Some(Box::new((parser, complete_checksums)));
        self.rules = self.rules.wrapping_add(1);
        self.rules_pending = true;
        self.send_settings();
    }

    fn set_min_posted(&mut self, frames: u32) {
        self.min_posted = Some(frames);
        self.send_settings();
    }

    fn rx_waiting(&self) -> u32 {
        // A frame may wait where the I/O loop has not looked lately.
        let unknown = u32::from(!self.backlog_is_fresh);
        (self.arrivals.len() + self.channel.rx.items()) as u32 + self.channel.waiting.load(Relaxed) + unknown
    }

    fn take_kernel_drops(&mut self) -> Option<u64> {
        if !self.channel.has_polled.load(Relaxed) {
            return None;
        }
        self.channel.has_polled.store(false, Relaxed);
        Some(self.channel.dropped.swap(0, Relaxed))
    }

    fn transmit_room(&self) -> usize {
        let frames = self.tx_capacity.saturating_sub(self.outstanding);
        match self.channel.outgoing.room() {
            _ if !self.is_up => 0,
            // The last batch is reserved for PFC.
            batches @ 0..=1 => frames.min(batches),
            _ => frames,
        }
    }

    fn transmit(&mut self, _memory: &mut Self::Memory, frames: &mut Vec<TxDesc>) {
        self.outstanding += frames.len();
        while !frames.is_empty() && self.channel.outgoing.push(0, frames) {
            self.batches_given += 1;
        }
        debug_assert!(frames.is_empty(), "more frames than there is room for");
        self.channel.io_bell.ring();
    }

    fn applies_edits(&self) -> bool {
        true // the I/O loop does
    }

    fn needs_kick(&self) -> bool {
        false // the I/O loop does
    }

    fn complete(&mut self, out: &mut Vec<FrameId>) {
        let mut before = out.len();
        while let Some(note) = self.channel.completed.pop(out) {
            self.outstanding -= out.len() - before;
            if note == TX_LOST {
                self.lost.extend(out.drain(before..));
            }
            before = out.len();
        }
    }

    fn take_lost(&mut self, out: &mut Vec<FrameId>) {
        out.append(&mut self.lost);
    }

    fn outstanding(&self) -> usize {
        self.outstanding
    }

    fn is_up(&self) -> bool {
        self.is_up && !self.channel.is_down.load(Relaxed)
    }

    fn has_pending(&self) -> bool {
        let PortChannel { free_to_io: fresh, free_to_core: spare, .. } = &*self.channel;
        let wants_frames = (self.has_frames && fresh.room() > 0) || !spare.is_empty();
        !self.arrivals.is_empty()
            || self.is_up != self.is_up()
            || ((self.is_up || matches!(self.closing, PendingRequest::Sent)) && wants_frames)
            || self.channel.has_input_for_core()
    }

    fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    fn take_stray(&mut self) -> u64 {
        if self.channel.stray.load(Relaxed) == 0 { 0 } else { self.channel.stray.swap(0, Relaxed) }
    }

    fn pop_fault(&mut self) -> Option<PortFault> {
        self.channel.faults.pop()
    }

    fn detach(&mut self) -> bool {
        self.is_up = false;
        self.channel.send_command(PortCommand::Detach);
        true
    }

    fn reclaim(&mut self, memory: &mut M, unsent: &mut Vec<FrameId>) -> bool {
        if self.closing.begin() {
            self.channel.send_command(PortCommand::Reclaim(std::mem::take(&mut self.unsent)));
        }
        self.reclaim_batches(memory, unsent)
    }

    fn reopen(&mut self, memory: &mut M) -> Option<bool> {
        self.send_settings();
        self.exchange(memory);
        if self.opening.begin() {
            self.channel.send_command(PortCommand::Reopen);
        }
        self.take_replies();
        let room = self.opening.take()?;
        if let Some(room) = room {
            (self.tx_capacity, self.is_up) = (room, true);
        }
        Some(room.is_some())
    }

    fn close(&mut self, memory: &mut M, unsent: &mut Vec<FrameId>) -> bool {
        self.is_up = false;
        if self.closing.begin() {
            self.channel.send_command(PortCommand::Close(std::mem::take(&mut self.unsent)));
        }
        self.reclaim_batches(memory, unsent)
    }

    fn reset_counters(&mut self) -> KernelCounters {
        let counted = self.kernel_counters();
        (self.report.kernel, self.closed_frames) = (KernelCounters::default(), 0);
        self.channel.send_command(PortCommand::ResetCounters);
        counted
    }

    fn report(&mut self) -> bool {
        if self.reporting.begin() {
            self.channel.send_command(PortCommand::Report);
        }
        self.take_replies();
        self.reporting.take().is_some()
    }

    fn forget_report(&mut self) {
        self.is_report_late = matches!(self.reporting, PendingRequest::Sent);
    }

    fn kernel_counters(&self) -> KernelCounters {
        let mut counters = self.report.kernel;
        counters.rx_closed_frames += self.closed_frames;
        counters
    }

    fn frames_held(&self) -> usize {
        let PortChannel { rx: arrivals, outgoing, completed, .. } = &*self.channel;
        let on_channel = arrivals.items() + outgoing.items() + completed.items();
        self.report.held + self.arrivals.len() + on_channel
    }

    fn free_frames(&self) -> usize {
        self.report.free + self.channel.free_to_io.items() + self.channel.free_to_core.items()
    }
}
