//! The I/O loop: the loop of a core that serves ports and does not switch. It receives frames,
//! parses them and hands them to the switching core. It transmits the frames that the switching
//! core gives it, with the marks and tags that the core specifies. The other end of each port is a
//! [`RemotePort`].
//!
//! Rule: an iteration does, for each port: commands; transmission, at once; completions; reception,
//! as long as the port channel has room. A port that must not receive more still posts chunks, and
//! reports its RX backlog. An I/O loop knows nothing of cells, queues and pauses. Source:
//! docs/multi-core.md; docs/architecture.md, "Frame path".

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use switch::{FrameId, FrameMemory, FrameParser, Instant, RxDesc, RxFrame, TxDesc};
use wire::bitset::Set64;

use crate::batch_ops::apply_edits;
use crate::batch_ops::parse_batch;
use crate::guard::heartbeat::Heartbeat;
use crate::io_core::doorbell::Doorbell;
use crate::io_core::port_channel::{
    FREE_BATCH_FRAMES, HIGH_FREE, LOW_FREE, PortChannel, PortCommand, PortReply, PortStatus, TX_DONE, TX_LOST,
};
use crate::io_core::remote_port::RemotePort;
use crate::poll_loop::iteration::{RX_BATCH, TX_BATCH};
use crate::poll_loop::pace::{LONGEST_SLEEP_NS, LoopPace};
use crate::port::Port;
use crate::sleeper::Sleeper;

/// A requested status is reported after at most this number of iterations, even while frames move.
const STATUS_ITERATIONS: u8 = 8;

/// The loop of an I/O core, with its ports.
#[derive(Debug)]
pub struct IoLoop<P: Port> {
    ports: Vec<IoPort<P>>,
    pace: LoopPace,
    /// The loop has few free frames and takes more.
    needs_free_frames: bool,
    /// Free frames were exchanged in this iteration.
    exchanged: bool,
    // Empty between uses; kept so that nothing is allocated.
    received: Vec<RxDesc>,
    arrivals: Vec<RxFrame>,
    frames: Vec<FrameId>,
}

/// A port and the I/O loop's end of its channel.
#[derive(Debug)]
pub struct IoPort<P: Port> {
    port: P,
    channel: Arc<PortChannel>,
    is_open: bool,
    /// The port's parser, and whether checksums are completed.
    parser: Option<Box<(FrameParser, bool)>>,
    /// The number of the rule set that `parser` implements.
    rule_set: u32,
    /// Frames taken off the channel and not yet transmitted.
    outgoing: Vec<TxDesc>,
    /// The part of `outgoing` that fits into the TX ring.
    tx_batch: Vec<TxDesc>,
    /// Completed frames that are not yet on the channel.
    completed: Vec<FrameId>,
    /// Frames that the kernel lost and that are not yet on the channel.
    lost: Vec<FrameId>,
    /// Frames that were never sent, as the port was closed.
    unsent: Vec<FrameId>,
    /// The buffer for the reply to a close, which follows once all completed frames are on the
    /// channel.
    closing: Option<Vec<FrameId>>,
    /// Iterations until a requested status must be reported, at the end of an iteration.
    report_within: u8,
}

/// Splits a port into its two ends: the switching core's and the I/O loop's, which publishes its
/// iterations in `heartbeat`. Each end wakes the other by these doorbells, the switching core's
/// first.
pub fn remote<P: Port>(
    port: P,
    core: &Arc<Doorbell>,
    line: &Arc<Doorbell>,
    heartbeat: &Arc<Heartbeat>,
) -> (Box<RemotePort<P::Memory>>, IoPort<P>) {
    let channel = PortChannel::new(Arc::clone(core), Arc::clone(line), Arc::clone(heartbeat));
    let is_open = port.is_up();
    let remote = Box::new(RemotePort::new(Arc::clone(&channel), is_open, port.transmit_room()));
    let of_line = IoPort {
        port,
        channel,
        is_open,
        parser: None,
        rule_set: 0,
        outgoing: Vec::with_capacity(TX_BATCH),
        tx_batch: Vec::with_capacity(TX_BATCH),
        completed: Vec::with_capacity(4096),
        lost: Vec::with_capacity(4096),
        unsent: Vec::with_capacity(4096),
        closing: None,
        report_within: 0,
    };
    (remote, of_line)
}

impl<P: Port> IoLoop<P> {
    /// Creates an I/O loop with these ports. `bell` wakes it, and it publishes its iterations in
    /// `heartbeat`.
    pub fn new(ports: Vec<IoPort<P>>, bell: Arc<Doorbell>, heartbeat: Arc<Heartbeat>) -> Self {
        Self {
            ports,
            pace: LoopPace::new(heartbeat, bell),
            needs_free_frames: false,
            exchanged: false,
            received: Vec::with_capacity(RX_BATCH),
            arrivals: Vec::with_capacity(RX_BATCH),
            frames: Vec::with_capacity(FREE_BATCH_FRAMES),
        }
    }

    /// Runs until `ends` is set, sleeping in `waiter` when nothing moves. `memory` holds the ports'
    /// frames, and its free frames belong to this I/O loop.
    ///
    /// # Errors
    /// `waiter` cannot sleep.
    pub fn run(
        &mut self,
        memory: &mut P::Memory,
        clock: impl Fn() -> Instant,
        waiter: &mut impl Sleeper,
        ends: &AtomicBool,
    ) -> io::Result<()> {
        self.pace.start(clock());
        while !ends.load(Relaxed) {
            let now = clock();
            self.pace.update(waiter, self.open_ports(), |number| &self.ports[number].port);
            let moved = self.iterate(memory, now);
            self.pace.end_iteration(now, moved, waiter);
            if !moved && self.may_sleep(now) {
                let has_work = || self.ports.iter().any(|port| port.has_work(self.needs_free_frames));
                let (span, never) = ((now, LONGEST_SLEEP_NS), Instant::NEVER);
                self.pace.sleep(waiter, span, never, &clock, || has_work() || ends.load(Relaxed))?;
            }
        }
        self.pace.heartbeat.end();
        Ok(())
    }

    /// Runs one iteration. True if anything moved.
    pub fn iterate(&mut self, memory: &mut P::Memory, now: Instant) -> bool {
        self.pace.begin_iteration(now);
        let mut moved = false;
        self.exchanged = false;
        for number in 0..self.ports.len() {
            moved |= self.serve(number, memory, now);
        }
        for (number, port) in self.ports.iter_mut().enumerate() {
            if port.report_within > 0 {
                port.send_report(self.exchanged, if number == 0 { memory.free_frames() } else { 0 });
                moved = true;
            }
        }
        moved
    }

    /// Serves one port. True if anything moved.
    fn serve(&mut self, number: usize, memory: &mut P::Memory, now: Instant) -> bool {
        let port = &mut self.ports[number];
        let mut moved = false;
        while let Some(order) = port.channel.commands.pop() {
            moved = true;
            port.execute(order, memory);
        }
        if port.is_open {
            moved |= port.send(memory);
            port.complete();
        }
        let mut has_news = moved | port.push_completed();
        let has_few = memory.free_frames() <= HIGH_FREE;
        let has_reported = port.all_completions_pushed();
        if let Some(unsent) = port.closing.take_if(|_| has_reported && has_few) {
            port.reply_closed(unsent);
            has_news = true;
        }
        has_news |= self.exchange_free_frames(number, memory);
        if self.ports[number].is_open {
            has_news |= self.receive(number, memory, now);
        }
        if has_news {
            self.ports[number].channel.core_bell.ring();
        }
        has_news
    }

    /// Takes free frames from the switching core, or returns some. True if any were exchanged.
    #[inline]
    fn exchange_free_frames(&mut self, number: usize, memory: &mut P::Memory) -> bool {
        let IoPort { channel, is_open, closing, .. } = &self.ports[number];
        let mut moved = false;
        while memory.free_frames() < LOW_FREE && channel.free_to_io.pop(&mut self.frames).is_some() {
            self.frames.drain(..).for_each(|frame| memory.free(frame));
            moved = true;
        }
        // The switching core takes nothing off the channel of a closed port. While it closes a
        // port, it takes what the rings held.
        let is_taken = *is_open || closing.is_some();
        while is_taken && memory.free_frames() > HIGH_FREE && channel.free_to_core.room() > 0 {
            self.frames.extend((0..FREE_BATCH_FRAMES).map_while(|_| memory.alloc()));
            channel.free_to_core.push(0, &mut self.frames);
            moved = true;
        }
        self.needs_free_frames = memory.free_frames() < LOW_FREE;
        self.exchanged |= moved;
        moved
    }

    /// Receives as many frames as the channel has room for. Reports the RX backlog and what the
    /// port has observed. True if there is anything new.
    fn receive(&mut self, number: usize, memory: &mut P::Memory, now: Instant) -> bool {
        let IoPort { port, channel, parser, rule_set: rules, .. } = &mut self.ports[number];
        let max = if channel.rx.room() > 0 && parser.is_some() { RX_BATCH } else { 0 };
        port.receive(memory, now, max, &mut self.received);
        let mut has_news = !self.received.is_empty();
        if let (true, Some(parser)) = (has_news, parser) {
            let (parser, complete_checksums) = &**parser;
            let parse = |received, bytes: &[u8]| parser.parse(received, bytes);
            parse_batch(&mut self.received, memory, *complete_checksums, parse, &mut self.arrivals);
            let put = channel.rx.push(*rules, &mut self.arrivals);
            debug_assert!(put, "there was room for a batch");
        }
        channel.waiting.store(port.rx_waiting(), Relaxed);
        if let Some(dropped) = port.take_kernel_drops() {
            channel.dropped.fetch_add(dropped, Relaxed);
            channel.has_polled.store(true, Relaxed);
            has_news |= dropped > 0;
        }
        let stray = port.take_stray();
        if stray > 0 {
            channel.stray.fetch_add(stray, Relaxed);
            has_news = true;
        }
        while !channel.faults.is_full()
            && let Some(fault) = port.pop_fault()
        {
            let _ = channel.faults.push(fault); // there is room
            has_news = true;
        }
        if !port.is_up() && !channel.is_down.swap(true, Relaxed) {
            has_news = true;
        }
        has_news
    }

    fn open_ports(&self) -> Set64 {
        (0..self.ports.len()).filter(|&number| self.ports[number].is_open).collect()
    }

    /// True if nothing has moved recently and the kernel holds no frames of this loop.
    fn may_sleep(&mut self, now: Instant) -> bool {
        let is_done = |port: &IoPort<P>| {
            let is_closing = port.closing.is_some();
            port.outgoing.is_empty()
                && port.all_completions_pushed()
                && !is_closing
                && !port.port.needs_kick()
        };
        self.pace.idle.on_idle(now) && self.ports.iter().all(is_done)
    }
}

impl<P: Port> IoPort<P> {
    fn has_work(&self, needs_free_frames: bool) -> bool {
        self.channel.has_work() || (needs_free_frames && !self.channel.free_to_io.is_empty())
    }

    /// Transmits what the switching core gave, and what did not fit before. True if there was any.
    fn send(&mut self, memory: &mut P::Memory) -> bool {
        let mut moved = false;
        while !self.outgoing.is_empty() || self.take_outgoing(memory) {
            let room = self.port.transmit_room();
            if room == 0 {
                break;
            }
            moved = true;
            if self.outgoing.len() <= room {
                self.port.transmit(memory, &mut self.outgoing);
            } else {
                self.tx_batch.extend(self.outgoing.drain(..room));
                self.port.transmit(memory, &mut self.tx_batch);
            }
        }
        if self.port.needs_kick() {
            self.port.kick();
        }
        moved
    }

    /// Takes the next batch from the switching core and makes its edits. Returns false if there is
    /// none.
    fn take_outgoing(&mut self, memory: &mut P::Memory) -> bool {
        let is_there = self.channel.outgoing.pop(&mut self.outgoing).is_some();
        apply_edits(&self.outgoing, memory);
        is_there
    }

    /// Puts completed frames on the channel. True if there were any.
    fn push_completed(&mut self) -> bool {
        let mut moved = false;
        for (note, frames) in [(TX_DONE, &mut self.completed), (TX_LOST, &mut self.lost)] {
            while !frames.is_empty() && self.channel.completed.push(note, frames) {
                moved = true;
            }
        }
        moved
    }

    /// True if all frames that the kernel returned are on the channel.
    fn all_completions_pushed(&self) -> bool {
        self.completed.is_empty() && self.lost.is_empty()
    }

    /// Takes frames that the kernel has completed.
    fn complete(&mut self) {
        self.port.complete(&mut self.completed);
        self.port.take_lost(&mut self.lost);
    }

    fn execute(&mut self, order: PortCommand, memory: &mut P::Memory) {
        match order {
            PortCommand::Rules(rules, parser) => (self.rule_set, self.parser) = (rules, Some(parser)),
            PortCommand::MinPosted(frames) => self.port.set_min_posted(frames),
            PortCommand::Detach => {
                self.stop(memory);
                if !self.port.detach() {
                    self.port.close(memory, &mut self.unsent);
                }
            }
            PortCommand::Reclaim(unsent) => {
                self.port.reclaim(memory, &mut self.unsent);
                self.closing = Some(unsent);
            }
            PortCommand::Close(unsent) => {
                self.stop(memory);
                self.port.close(memory, &mut self.unsent);
                self.closing = Some(unsent);
            }
            PortCommand::Reopen => {
                self.is_open = self.port.reopen(memory) == Some(true);
                self.channel.is_down.store(!self.is_open, Relaxed);
                self.channel.send_reply(PortReply::Reopened(self.is_open.then(|| self.port.transmit_room())));
            }
            PortCommand::ResetCounters => drop(self.port.reset_counters()),
            PortCommand::Report => self.report_within = STATUS_ITERATIONS,
        }
    }

    /// Stops reception and transmission. What the switching core gave before, as an XON, is sent.
    fn stop(&mut self, memory: &mut P::Memory) {
        if self.is_open {
            self.send(memory);
            self.complete();
        }
        self.is_open = false;
        self.channel.waiting.store(0, Relaxed);
    }

    /// Replies that the port is closed. All frames that were sent are on the channel by now.
    #[cold]
    fn reply_closed(&mut self, mut unsent: Vec<FrameId>) {
        unsent.append(&mut self.unsent);
        while !self.outgoing.is_empty() || self.channel.outgoing.pop(&mut self.outgoing).is_some() {
            unsent.extend(self.outgoing.drain(..).map(|outgoing| outgoing.frame));
        }
        let report = self.report(0);
        self.channel.send_reply(PortReply::Closed(unsent, report));
    }

    /// Reports the port's status once free frames have settled, or at the latest when
    /// `report_within` has passed, so that each free frame is counted once.
    #[cold]
    fn send_report(&mut self, exchanged: bool, free: usize) {
        self.report_within -= 1;
        if !exchanged || self.report_within == 0 {
            self.report_within = 0;
            self.channel.send_reply(PortReply::Report(self.report(free)));
            self.channel.core_bell.ring();
        }
    }

    fn report(&self, free: usize) -> PortStatus {
        let back = self.completed.len() + self.lost.len() + self.unsent.len();
        let held = self.port.frames_held() + self.outgoing.len() + back;
        PortStatus { kernel: self.port.kernel_counters(), held, free }
    }
}
