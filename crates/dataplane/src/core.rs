//! One core's loop. A turn is one breath: read the clock once, take what has left, take what came in, do what is due,
//! send, answer. Source: docs/architecture.md, "The way of a frame".

use std::io;

use crate::mailbox::{Command, Mailbox, Reply};
use switch::{Arrival, FrameId, Instant, Mark, Memory, Nanos, Outgoing, Received, Snapshot, Switch};
use wire::checksum;
use xdp::{PortIo, Waiter};

/// Frames taken from a port in one turn: few enough that a PFC frame that must go out waits only for these.
const RX_BATCH: usize = 64;
/// Headers are fetched into the cache so many frames before they are read.
const LOOK_AHEAD: usize = 6;
/// Frames given to a port in one turn.
const TX_BATCH: usize = 256;
/// A loop that has had nothing to do for this long sleeps.
const SPIN_NS: Nanos = 20_000;
/// No sleep is shorter: what would be due sooner is worth waiting for awake.
const SHORTEST_SLEEP_NS: Nanos = 5_000;
/// No sleep is longer, so that nothing is ever forgotten for long.
const LONGEST_SLEEP_NS: Nanos = 100_000_000;
/// How long a stopping loop lets its queues drain, and then again its last PFC frames.
const DRAIN_NS: Nanos = 1_000_000_000;

/// What a loop is told at its start.
#[derive(Debug, Clone)]
pub struct CoreSettings {
    /// For each port: transport checksums that a Linux host left open are finished (virtual interfaces).
    pub finish_checksums: Vec<bool>,
}

/// A loop with all that it owns.
#[derive(Debug)]
pub struct Core<P: PortIo> {
    switch: Switch,
    ports: Vec<P>,
    /// Bit i: port i is open.
    open: u64,
    memory: P::Memory,
    memory_frames: usize,
    mailbox: Mailbox,
    settings: CoreSettings,
    receiving: bool,
    stop: Option<Box<Snapshot>>,
    // Scratch, allocated once.
    received: Vec<Received>,
    arrivals: Vec<Arrival>,
    completed: Vec<FrameId>,
    outgoing: Vec<Outgoing>,
    // What it knows of itself.
    turns: u64,
    last_turn: Option<Instant>,
    worst_stall_ns: Nanos,
}

impl<P: PortIo> Core<P> {
    /// A loop over `ports`, which are the switch's ports in order; `memory_frames` is the number of frames in all.
    pub fn new(
        switch: Switch,
        ports: Vec<P>,
        memory: P::Memory,
        memory_frames: usize,
        mailbox: Mailbox,
        settings: CoreSettings,
    ) -> Self {
        assert_eq!(ports.len(), settings.finish_checksums.len(), "one setting a port");
        Self {
            open: ports.iter().enumerate().fold(0, |mask, (i, _)| mask | 1 << i),
            switch,
            ports,
            memory,
            memory_frames,
            mailbox,
            settings,
            receiving: true,
            stop: None,
            received: Vec::with_capacity(RX_BATCH),
            arrivals: Vec::with_capacity(RX_BATCH),
            completed: Vec::with_capacity(4096),
            outgoing: Vec::with_capacity(TX_BATCH),
            turns: 0,
            last_turn: None,
            worst_stall_ns: 0,
        }
    }

    /// Turns until told to stop, sleeping in `waiter` when nothing moves; then drains, closes the ports and says the
    /// totals.
    ///
    /// # Errors
    /// The kernel cannot let it sleep.
    pub fn run(&mut self, clock: impl Fn() -> Instant, waiter: &mut Waiter) -> io::Result<()> {
        let mut idle_since = clock();
        let mut watched = 0;
        while self.stop.is_none() {
            let now = clock();
            if watched != self.open {
                watched = self.open;
                waiter.watch(
                    self.ports
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| watched & (1 << i) != 0)
                        .map(|(_, port)| port),
                );
            }
            if self.turn(now) {
                idle_since = now;
            } else if let Some(nanos) = self.may_sleep(now, idle_since) {
                waiter.wait(nanos)?;
                self.last_turn = None; // a sleep is no stall
            }
        }
        self.wind_up(clock);
        Ok(())
    }

    /// One turn. True if anything moved.
    pub fn turn(&mut self, now: Instant) -> bool {
        self.note_turn(now);
        let mut moved = false;
        let mut open = self.open;
        while open != 0 {
            let port = open.trailing_zeros() as usize;
            open &= open - 1;
            moved |= self.take_completed(port, now);
            moved |= self.take_received(port, now);
        }
        self.switch.tick(now);
        let mut open = self.open;
        while open != 0 {
            let port = open.trailing_zeros() as usize;
            open &= open - 1;
            moved |= self.send(port, now);
        }
        self.answer(now) || moved
    }

    /// Releases what the kernel is done with.
    #[inline]
    fn take_completed(&mut self, port: usize, now: Instant) -> bool {
        self.ports[port].complete(&mut self.completed);
        let moved = !self.completed.is_empty();
        self.switch.complete_all(port, self.completed.drain(..), now, &mut self.memory);
        moved
    }

    /// Puts a batch of received frames through the switch.
    #[inline]
    fn take_received(&mut self, port: usize, now: Instant) -> bool {
        let most = if self.receiving { RX_BATCH } else { 0 };
        self.ports[port].receive(&mut self.memory, now, most, &mut self.received);
        let moved = !self.received.is_empty();
        let finish_checksums = self.settings.finish_checksums[port];
        let mut batch = self.received.drain(..);
        while let Some(received) = batch.next() {
            if let Some(ahead) = batch.as_slice().get(LOOK_AHEAD) {
                self.memory.prefetch(&ahead.frame);
            }
            let bytes = self.memory.bytes_mut(&received.frame, usize::from(received.len));
            let arrival = self.switch.look(port, received, bytes);
            if let (true, Some(field)) = (finish_checksums, arrival.charge.ds_field) {
                checksum::finish_transport(bytes, field);
            }
            self.arrivals.push(arrival);
        }
        drop(batch);
        self.switch.receive_all(&mut self.arrivals, now, &mut self.memory);
        moved
    }

    /// Gives a port what may leave now, and makes the kernel send it and what it did not take before.
    #[inline]
    fn send(&mut self, port: usize, now: Instant) -> bool {
        let io = &mut self.ports[port];
        if self.switch.ports_with_work() & (1 << port) != 0 {
            let room = io.transmit_room().min(TX_BATCH);
            self.switch.transmit(port, room, now, &mut self.memory, &mut self.outgoing);
        }
        let moved = !self.outgoing.is_empty();
        if moved {
            io.transmit(&mut self.outgoing);
        }
        if io.outstanding() > 0 {
            let lost = io.kick();
            if lost > 0 {
                self.switch.kernel_lost(port, lost);
            }
        }
        moved
    }

    /// Commands from the daemon, events to it, and ports that went away by themselves.
    fn answer(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(command) = self.mailbox.next_command() {
            moved = true;
            self.obey(command, now);
        }
        for (at, event) in self.switch.drain_events() {
            self.mailbox.tell(at, event);
        }
        for port in 0..self.ports.len() {
            if self.open & (1 << port) != 0 && !self.ports[port].is_up() {
                self.close(port, now);
                moved = true;
            }
        }
        moved
    }

    fn obey(&mut self, command: Command, now: Instant) {
        match command {
            Command::Snapshot { mut snapshot, read_watermarks } => {
                self.snapshot(now, &mut snapshot);
                if read_watermarks {
                    self.switch.mark_watermarks(Mark::Read);
                }
                self.mailbox.answer(Reply::Snapshot(snapshot));
            }
            Command::ClearWatermarks => {
                self.switch.mark_watermarks(Mark::Clear);
                self.mailbox.answer(Reply::Done);
            }
            Command::Hold { port, held } => {
                self.switch.hold(port, held);
                self.mailbox.answer(Reply::Done);
            }
            Command::Apply(settings) => {
                self.switch.apply(&settings.switch, now);
                for (port, &frames) in self.ports.iter_mut().zip(&settings.min_posted) {
                    port.set_min_posted(frames);
                }
                self.mailbox.answer(Reply::Applied(settings));
            }
            Command::PortDown(port) => self.close(port, now),
            Command::Stop(snapshot) => self.stop = Some(snapshot),
        }
    }

    /// Closes a port for good; what it held is dropped and counted.
    fn close(&mut self, port: usize, now: Instant) {
        if port >= self.ports.len() || self.open & (1 << port) == 0 {
            return;
        }
        self.open &= !(1 << port);
        self.take_completed(port, now);
        self.switch.port_down(port, now, &mut self.memory);
        self.ports[port].close(&mut self.memory, &mut self.completed);
        for frame in self.completed.drain(..) {
            self.switch.unsent(port, frame, now, &mut self.memory);
        }
    }

    /// How long the loop may sleep now: not while anything moved lately, nor while the kernel still has frames of ours.
    fn may_sleep(&mut self, now: Instant, idle_since: Instant) -> Option<Nanos> {
        if now.since(idle_since) < SPIN_NS || self.ports.iter().any(|port| port.outstanding() > 0) {
            return None;
        }
        let nanos = self.switch.next_deadline(now).since(now).min(LONGEST_SLEEP_NS);
        (nanos >= SHORTEST_SLEEP_NS).then_some(nanos)
    }

    /// The end: no more frames in, held ports released, queues out, what cannot leave dropped and counted, XON told,
    /// ports closed.
    fn wind_up(&mut self, clock: impl Fn() -> Instant) {
        self.receiving = false;
        (0..self.ports.len()).for_each(|port| self.switch.hold(port, false));
        self.turn_until(&clock, |core| core.switch.frames_held() == 0);
        for port in 0..self.ports.len() {
            self.switch.flush(port, clock(), &mut self.memory);
        }
        self.turn_until(&clock, |core| core.switch.frames_held() == 0);
        for port in 0..self.ports.len() {
            self.close_quietly(port, clock());
        }
        let mut snapshot = self.stop.take().unwrap_or_default();
        self.snapshot(clock(), &mut snapshot);
        self.mailbox.answer(Reply::Stopped(snapshot));
    }

    fn turn_until(&mut self, clock: &impl Fn() -> Instant, done: impl Fn(&Self) -> bool) {
        let end = clock() + DRAIN_NS;
        loop {
            let now = clock();
            let moved = self.turn(now);
            // A PFC frame may still have been due in the turn that emptied the switch: one more turn without it.
            if now >= end || (!moved && done(self)) {
                return;
            }
        }
    }

    /// Closes a port at the end: that it is down now is no event.
    fn close_quietly(&mut self, port: usize, now: Instant) {
        if self.open & (1 << port) != 0 {
            self.open &= !(1 << port);
            self.ports[port].close(&mut self.memory, &mut self.completed);
            for frame in self.completed.drain(..) {
                self.switch.unsent(port, frame, now, &mut self.memory);
            }
        }
    }

    fn snapshot(&mut self, now: Instant, snapshot: &mut Snapshot) {
        self.switch.snapshot(now, snapshot);
        for (port, out) in self.ports.iter().zip(&mut snapshot.ports) {
            out.kernel = port.kernel_counters();
        }
        snapshot.memory_frames = self.memory_frames as u64;
        snapshot.memory_free = self.memory.free_frames() as u64;
        snapshot.memory_in_rings = self.ports.iter().map(|port| port.frames_held() as u64).sum();
        snapshot.loop_turns = self.turns;
        snapshot.loop_worst_stall_ns = self.worst_stall_ns;
        snapshot.events_lost = self.mailbox.lost;
    }

    #[inline]
    fn note_turn(&mut self, now: Instant) {
        self.turns += 1;
        if let Some(last) = self.last_turn.replace(now) {
            self.worst_stall_ns = self.worst_stall_ns.max(now.since(last));
        }
    }
}
