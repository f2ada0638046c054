//! One core's loop: it reads the clock, takes a turn ([`Iteration`]), answers the daemon, and sleeps
//! when nothing has moved for a while; told to stop, it drains. Source: `docs/architecture.md`,
//! "The way of a frame".

mod commands;
pub(crate) mod idle_policy;
pub mod iteration;
pub(crate) mod loop_port;
mod ports;
pub(crate) mod stats;

use std::io;
use std::sync::Arc;

use crate::guard::heartbeat::Heartbeat;
use crate::io_core::doorbell::Doorbell;
use crate::mailbox::{LoopCommand, Mailbox, Reply};
use crate::poll_loop::idle_policy::IdlePolicy;
use crate::poll_loop::iteration::Iteration;
use crate::port::Port;
use crate::sleeper::Sleeper;
use switch::{FrameId, Instant, KernelCounters, MaxFrame, Nanos, Snapshot, Switch};
use wire::bitset::Set64;

/// No sleep is shorter: what would be due sooner is worth waiting for awake.
const SHORTEST_SLEEP_NS: Nanos = 5_000;
/// No sleep is longer, so that nothing is ever forgotten for long.
const LONGEST_SLEEP_NS: Nanos = 100_000_000;
/// The guard is told each so many turns what peers have taught the loop: within milliseconds.
const REFRESH_TURNS: u64 = 256;
/// How long a stopping loop lets its queues drain, and then again its last PFC frames.
const DRAIN_NS: Nanos = 1_000_000_000;

/// What a loop is told at its start.
#[derive(Debug, Clone, Default)]
pub struct PollLoopSettings {
    /// Where it says that it turns.
    pub heartbeat: Arc<Heartbeat>,
    /// What lines wake it by.
    pub bell: Arc<Doorbell>,
    /// Where lines say how they turn.
    pub lines: Vec<Arc<Heartbeat>>,
    /// What waits in RX rings is ingress use, so that a loop that falls behind pauses its peers.
    pub watches_rings: bool,
    /// For each port: transport checksums that a Linux host left open are finished (virtual
    /// interfaces).
    pub finish_checksums: Vec<bool>,
}

/// A loop with all that it owns.
#[derive(Debug)]
pub struct PollLoop<P: Port> {
    switch: Switch,
    ports: Vec<P>,
    turn: Iteration,
    memory: P::Memory,
    memory_frames: usize,
    mailbox: Mailbox,
    heartbeat: Arc<Heartbeat>,
    bell: Arc<Doorbell>,
    lines: Vec<Arc<Heartbeat>>,
    /// A command that could not be carried out yet, since a line has still to answer: the others
    /// wait behind it.
    unfinished: Option<LoopCommand>,
    stop: Option<Box<Snapshot>>,
    /// Ports whose rings are being closed elsewhere.
    let_go: Set64,
    /// Ports that are being closed by their lines.
    closing: Set64,
    /// Ports that have said how they stand, for the snapshot that is to be made.
    reported: Set64,
    /// What the kernel counted for ports whose place others have now.
    removed: KernelCounters,
    /// Frames of a port that closes; otherwise empty.
    unsent: Vec<FrameId>,
    last_turn: Option<Instant>,
    rest: IdlePolicy,
}

impl<P: Port> PollLoop<P> {
    /// A loop over `ports`, which are the switch's ports in order, and closed ones for ports that
    /// it may have later; `memory_frames` is the number of frames in all.
    pub fn new(
        mut switch: Switch,
        ports: Vec<P>,
        memory: P::Memory,
        memory_frames: usize,
        mailbox: Mailbox,
        settings: PollLoopSettings,
    ) -> Self {
        assert_eq!(switch.places(), settings.finish_checksums.len(), "one setting a port");
        assert!(ports.len() >= switch.places(), "all ports of the switch");
        switch.set_frame_room(MaxFrame::of(&memory));
        let mut turn = Iteration::new(settings.finish_checksums);
        turn.watch_rings(settings.watches_rings);
        let mut core = Self {
            switch,
            ports,
            turn,
            memory,
            memory_frames,
            mailbox,
            heartbeat: settings.heartbeat,
            bell: settings.bell,
            lines: settings.lines,
            unfinished: None,
            stop: None,
            let_go: Set64::EMPTY,
            closing: Set64::EMPTY,
            reported: Set64::EMPTY,
            removed: KernelCounters::default(),
            unsent: Vec::with_capacity(4096),
            last_turn: None,
            rest: IdlePolicy::new(Instant::default()),
        };
        core.push_parser(Set64::first_of(core.switch.places()));
        core
    }

    /// Says how frames of these ports are looked at, to whoever else does.
    fn push_parser(&mut self, ports: Set64) {
        for port in ports {
            let finishes = self.turn.finishes_checksums(port);
            self.ports[port].set_parser(self.switch.looker(port), finishes);
        }
    }

    /// Its memory, for lines that take their turns on the same thread.
    pub fn memory(&mut self) -> &mut P::Memory {
        &mut self.memory
    }

    /// Turns until told to stop, sleeping in `waiter` when nothing moves; then drains, closes the
    /// ports and says the totals.
    ///
    /// # Errors
    /// `waiter` cannot let it sleep.
    pub fn run(&mut self, clock: impl Fn() -> Instant, waiter: &mut impl Sleeper) -> io::Result<()> {
        self.rest = IdlePolicy::new(clock());
        let (mut watched, mut looks_long) = (Set64::EMPTY, false);
        while self.stop.is_none() {
            let now = clock();
            if watched != self.turn.open_ports() {
                watched = self.turn.open_ports();
                waiter.watch(watched.into_iter().map(|number| &self.ports[number]));
            }
            if looks_long != self.rest.extended_poll() {
                looks_long = !looks_long;
                waiter.set_weight(!looks_long);
            }
            let moved = self.turn(now);
            if self.rest.sample_due(now) {
                self.rest.note_core(now, waiter.core_taken_ns());
            }
            if moved {
                self.rest.note_move(now);
            } else if let Some(nanos) = self.may_sleep(now) {
                self.bell.prepare_sleep();
                if !self.ports.iter().any(Port::has_pending) {
                    self.heartbeat.sleep(self.switch.next_pfc_deadline());
                    waiter.wait(nanos)?;
                    // A sleep is no stall, but oversleeping is one.
                    let due = now + nanos;
                    self.last_turn = (clock() > due).then_some(due);
                }
                self.bell.cancel_sleep();
            }
        }
        self.drain(clock);
        self.heartbeat.end();
        Ok(())
    }

    /// One turn, and what the daemon wants of it. True if anything moved.
    pub fn turn(&mut self, now: Instant) -> bool {
        self.note_turn(now);
        let forwards = self.turn.forwards();
        if let Some(recorder) = self.turn.recorder() {
            recorder.turn(now, forwards, &self.switch);
        }
        self.merge_guard_pfc();
        if !self.lines.is_empty() {
            let is_stuck = |port: usize| self.ports[port].is_stalled();
            self.turn.hold_back(self.turn.open_ports().into_iter().any(is_stuck));
        }
        let moved = self.turn.run(&mut self.switch, &mut self.ports, &mut self.memory, now);
        self.heartbeat.hear(self.turn.heard_ports());
        if self.heartbeat.times.turns().is_multiple_of(REFRESH_TURNS) {
            self.heartbeat.leave_refresh(self.switch.shortest_refresh_ns());
        }
        self.answer(now) || moved
    }

    /// Tells the switch what the guard told the peers in its place.
    #[inline]
    fn merge_guard_pfc(&mut self) {
        let Self { heartbeat, turn, switch, .. } = self;
        heartbeat.take(|port, frames, at| {
            if let Some(recorder) = turn.recorder() {
                recorder.guard(port, &frames, at);
            }
            switch.record_guard_pfc(port, &frames, at);
        });
    }

    /// Commands from the daemon, events to it, and ports that went away by themselves.
    fn answer(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(command) = self.unfinished.take().or_else(|| self.mailbox.next_command()) {
            moved = true;
            self.unfinished = self.obey(command, now);
            if self.unfinished.is_some() {
                break;
            }
        }
        for port in self.closing {
            self.close_rings(port, now);
        }
        self.mailbox.report_undelivered();
        for (at, event) in self.switch.drain_events() {
            if let Some(recorder) = self.turn.recorder() {
                recorder.event(at, event);
            }
            self.mailbox.report(at, event);
        }
        for port in self.turn.open_ports() {
            if !self.ports[port].is_up() {
                self.close(port, now);
                moved = true;
            } else if let Some(trouble) = self.ports[port].pop_fault() {
                self.mailbox.tell(Reply::Trouble(port, trouble));
            }
        }
        moved
    }

    /// How long the loop may sleep now: not while anything moved lately, nor while the kernel still
    /// has frames of ours.
    fn may_sleep(&mut self, now: Instant) -> Option<Nanos> {
        let of_switch = &self.ports[..self.switch.places()];
        let is_needed = of_switch.iter().any(Port::needs_kick) || self.turn.holds_back();
        if !self.rest.note_idle(now) || is_needed {
            return None;
        }
        if let Some(recorder) = self.turn.recorder() {
            recorder.deadline(now);
        }
        let nanos = self.switch.next_deadline(now).since(now).min(LONGEST_SLEEP_NS);
        (nanos >= SHORTEST_SLEEP_NS).then_some(nanos)
    }

    /// The end: no more data in, but peers' pauses obeyed, and ours go on; held ports released,
    /// queues out, what cannot leave dropped and counted, ports closed.
    fn drain(&mut self, clock: impl Fn() -> Instant) {
        self.turn.stop_forwarding();
        if let Some(recorder) = self.turn.recorder() {
            recorder.stop();
        }
        self.switch.stop();
        (0..self.switch.places()).for_each(|port| self.hold(port, false));
        self.turn_until(&clock, |core| core.switch.frames_held() == 0 && core.let_go.is_empty());
        for port in 0..self.switch.places() {
            let now = clock();
            if let Some(recorder) = self.turn.recorder() {
                recorder.flush(port, now);
            }
            self.switch.flush(port, now, &mut self.memory);
        }
        self.turn_until(&clock, |core| core.switch.frames_held() == 0);
        for port in 0..self.ports.len() {
            // That it is down now is no event.
            if self.turn.close(port) {
                self.close_rings(port, clock());
            }
        }
        if !self.closing.is_empty() {
            self.turn_until(&clock, |core| core.closing.is_empty());
        }
        self.reported = Set64::EMPTY;
        if !self.hear_reports() {
            self.turn_until(&clock, Self::hear_reports);
        }
        let now = clock();
        let mut snapshot = self.stop.take().unwrap_or_default();
        self.snapshot(now, &mut snapshot);
        self.end_recording(now);
        self.mailbox.answer(Reply::Stopped(snapshot));
    }

    fn turn_until(&mut self, clock: &impl Fn() -> Instant, mut done: impl FnMut(&mut Self) -> bool) {
        let end = clock() + DRAIN_NS;
        loop {
            let now = clock();
            let moved = self.turn(now);
            // A PFC frame may still have been due in the turn that emptied the switch: one more turn without
            // it.
            if now >= end || (!moved && done(self)) {
                return;
            }
        }
    }

    #[inline]
    fn note_turn(&mut self, now: Instant) {
        self.heartbeat.beat(now);
        let after = self.last_turn.replace(now).map(|last| now.since(last));
        self.heartbeat.times.note_turn(after);
        if let Some(nanos) = after {
            self.rest.note_turn(nanos);
        }
    }
}
