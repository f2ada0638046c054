//! The poll loop of one core: reads the clock, runs an iteration ([`Iteration`]), executes commands
//! of the daemon, and sleeps when nothing has moved for a while. On a stop command it drains.
//! Source: `docs/architecture.md`, "Frame path".

mod commands;
pub(crate) mod idle_policy;
pub mod iteration;
pub(crate) mod loop_port;
pub(crate) mod pace;
mod ports;
pub(crate) mod stats;

use std::io;
use std::sync::Arc;

use crate::flight_recorder::recorded_switch::RecordedSwitch;
use crate::guard::heartbeat::Heartbeat;
use crate::io_core::doorbell::Doorbell;
use crate::mailbox::{LoopCommand, Mailbox, Reply};
use crate::poll_loop::iteration::Iteration;
use crate::poll_loop::pace::{LONGEST_SLEEP_NS, LoopPace};
use crate::port::Port;
use crate::punt_ring::PuntRings;
use crate::sleeper::Sleeper;
use switch::{FrameId, Instant, KernelCounters, MaxFrame, Nanos, Snapshot, Switch};
use wire::bitset::Set64;

/// Maximum number of commands that wait for I/O loops. Later ones stay in the mailbox.
const MAX_WAITING: usize = 256;
/// The shortest sleep. The loop stays awake for a timer that expires sooner.
const SHORTEST_SLEEP_NS: Nanos = 5_000;
/// How long a stopping loop lets its queues drain, and then its last PFC frames.
const DRAIN_NS: Nanos = 1_000_000_000;

/// The settings of a loop at its start.
#[derive(Debug, Clone, Default)]
pub struct PollLoopSettings {
    /// Where the loop publishes its iterations.
    pub heartbeat: Arc<Heartbeat>,
    /// The doorbell by which I/O loops wake this loop.
    pub bell: Arc<Doorbell>,
    /// Where the I/O loops publish their iterations.
    pub io_heartbeats: Vec<Arc<Heartbeat>>,
    /// Counts the RX backlog as ingress use, so that a loop that falls behind pauses its peers.
    pub watches_rings: bool,
    /// For each port, whether transport checksums that a Linux host left to offload are completed
    /// (virtual interfaces).
    pub complete_checksums: Vec<bool>,
    /// Where LLDP frames go; without it they are only counted.
    pub punts: Arc<PuntRings>,
}

/// How far a port is that is being shut down.
#[derive(Debug, Clone, Copy)]
enum Shutdown {
    /// It receives what waits, since this time.
    Receiving(Instant),
    /// Its peer is sent XON, since this time.
    Releasing(Instant),
}

/// A poll loop with its switch, ports and memory.
#[derive(Debug)]
pub struct PollLoop<P: Port> {
    switch: RecordedSwitch,
    ports: Vec<P>,
    iteration: Iteration,
    memory: P::Memory,
    memory_frames: usize,
    mailbox: Mailbox,
    pace: LoopPace,
    io_heartbeats: Vec<Arc<Heartbeat>>,
    /// Commands that wait for the replies of I/O loops, or for one of these, in their order.
    waiting: Vec<LoopCommand>,
    stop: Option<Box<Snapshot>>,
    /// Ports whose rings are being closed by another thread.
    detached: Set64,
    /// Ports that are being closed by their I/O loops.
    closing: Set64,
    /// By port: how far it is being shut down.
    shutdowns: Vec<Option<Shutdown>>,
    /// Ports that have reported their status for the pending snapshot.
    status_received: Set64,
    /// When the pending snapshot began to wait for the reports.
    reports_requested: Option<Instant>,
    /// The kernel's counters of removed ports whose slots are reused.
    removed: KernelCounters,
    /// Frames of a port that closes; empty otherwise.
    unsent: Vec<FrameId>,
}

impl<P: Port> PollLoop<P> {
    /// Creates a loop over `ports`: the switch's ports in order, followed by closed ports for later
    /// use. `memory_frames` is the total number of frames.
    pub fn new(
        mut switch: Switch,
        ports: Vec<P>,
        memory: P::Memory,
        memory_frames: usize,
        mailbox: Mailbox,
        settings: PollLoopSettings,
    ) -> Self {
        assert_eq!(switch.slot_count(), settings.complete_checksums.len(), "one setting a port");
        assert!(ports.len() >= switch.slot_count(), "all ports of the switch");
        switch.set_max_frame(MaxFrame::of(&memory));
        switch.reserve_checkpoint();
        let mut turn = Iteration::new(settings.complete_checksums);
        turn.use_rx_backlog(settings.watches_rings);
        turn.set_punts(settings.punts);
        turn.set_heartbeat(Arc::clone(&settings.heartbeat));
        let shutdowns = vec![None; ports.len()];
        let mut core = Self {
            switch: RecordedSwitch::new(switch),
            ports,
            iteration: turn,
            memory,
            memory_frames,
            mailbox,
            pace: LoopPace::new(settings.heartbeat, settings.bell),
            io_heartbeats: settings.io_heartbeats,
            waiting: Vec::with_capacity(MAX_WAITING),
            stop: None,
            detached: Set64::EMPTY,
            closing: Set64::EMPTY,
            shutdowns,
            status_received: Set64::EMPTY,
            reports_requested: None,
            removed: KernelCounters::default(),
            unsent: Vec::with_capacity(4096),
        };
        core.push_parser(Set64::first_n(core.switch.slot_count()));
        core
    }

    /// Passes the parsers of these ports to the I/O loops that use them.
    fn push_parser(&mut self, ports: Set64) {
        for port in ports {
            let finishes = self.iteration.completes_checksums(port);
            self.ports[port].set_parser(self.switch.parser(port), finishes);
        }
    }

    /// Returns the frame memory, for I/O loops that run on the same thread.
    pub fn memory(&mut self) -> &mut P::Memory {
        &mut self.memory
    }

    /// Runs until a stop command, sleeping in `waiter` when nothing moves. Then drains, closes the
    /// ports and reports the totals.
    ///
    /// # Errors
    /// `waiter` cannot sleep.
    pub fn run(&mut self, clock: impl Fn() -> Instant, waiter: &mut impl Sleeper) -> io::Result<()> {
        self.pace.start(clock());
        while self.stop.is_none() {
            let now = clock();
            self.pace.update(waiter, self.iteration.open_ports(), |number| &self.ports[number]);
            let moved = self.iterate_with_clock(now, &clock);
            self.pace.end_iteration(now, moved, waiter);
            if !moved && let Some(nanos) = self.may_sleep(now) {
                let deadline = self.switch.next_pfc_deadline();
                let ports = &mut self.ports;
                let has_work = || {
                    ports.iter_mut().for_each(Port::prepare_sleep);
                    ports.iter().any(Port::has_pending)
                };
                self.pace.sleep(waiter, (now, nanos), deadline, &clock, has_work)?;
                self.ports.iter_mut().for_each(Port::cancel_sleep);
            }
        }
        self.drain(clock);
        self.pace.heartbeat.end();
        Ok(())
    }

    /// Runs one iteration that takes no time; see [`PollLoop::iterate_with_clock`].
    pub fn iterate(&mut self, now: Instant) -> bool {
        self.iterate_with_clock(now, &|| now)
    }

    /// Runs one iteration, which starts at `now`, and executes commands of the daemon. True if
    /// anything moved.
    pub fn iterate_with_clock(&mut self, now: Instant, clock: &impl Fn() -> Instant) -> bool {
        self.pace.begin_iteration(now);
        self.switch.record_iteration(now, self.iteration.forwards());
        self.merge_guard_pfc();
        if !self.io_heartbeats.is_empty() {
            let is_stuck = |port: usize| self.ports[port].is_stalled();
            self.iteration.pause_all_peers(self.iteration.open_ports().into_iter().any(is_stuck));
        }
        let moved = self.iteration.run(&mut self.switch, &mut self.ports, &mut self.memory, now, clock);
        self.pace.heartbeat.set_active_ports(self.iteration.active_ports());
        self.handle_commands(now) || moved
    }

    /// Passes the PFC that the guard sent on behalf of the loop to the switch.
    #[inline]
    fn merge_guard_pfc(&mut self) {
        let Self { pace, switch, .. } = self;
        pace.heartbeat.take_reports(|port, frames, at| switch.record_guard_pfc(port, &frames, at));
    }

    /// Executes commands, reports events, and closes ports that went down by themselves.
    fn handle_commands(&mut self, now: Instant) -> bool {
        let mut moved = self.execute_commands(now);
        for port in self.closing {
            self.close_rings(port, now);
        }
        self.mailbox.report_undelivered();
        for (at, event) in self.switch.drain_events() {
            self.mailbox.report(at, event);
        }
        for port in self.iteration.open_ports() {
            if !self.ports[port].is_up() {
                self.close(port, now);
                moved = true;
            } else if let Some(fault) = self.ports[port].pop_fault() {
                self.mailbox.notify(Reply::Fault(port, fault));
            }
        }
        moved
    }

    /// Returns how long the loop may sleep now. `None` if a frame moved recently or the kernel
    /// still holds frames of the loop.
    fn may_sleep(&mut self, now: Instant) -> Option<Nanos> {
        let of_switch = &self.ports[..self.switch.slot_count()];
        let is_needed = of_switch.iter().any(Port::needs_kick)
            || self.iteration.pauses_all_peers()
            || self.switch.is_copying();
        if !self.pace.idle.on_idle(now) || is_needed {
            return None;
        }
        let nanos = self.switch.next_deadline(now).since(now).min(LONGEST_SLEEP_NS);
        (nanos >= SHORTEST_SLEEP_NS).then_some(nanos)
    }

    /// Drains the loop at its end. Data is no longer accepted, peers' pauses are honored, and own
    /// pauses are refreshed. Held ports are released and the queues drain. Frames that cannot leave
    /// are dropped and counted, and ports are closed.
    fn drain(&mut self, clock: impl Fn() -> Instant) {
        self.iteration.stop_forwarding();
        self.switch.stop();
        (0..self.switch.slot_count()).for_each(|port| self.hold(port, false));
        self.iterate_until(&clock, |core| core.switch.frames_held() == 0 && core.detached.is_empty());
        for port in 0..self.switch.slot_count() {
            let now = clock();
            self.switch.flush(port, now, &mut self.memory);
        }
        self.iterate_until(&clock, |core| core.switch.frames_held() == 0);
        for port in 0..self.ports.len() {
            // A port that goes down now is no event.
            if self.iteration.close(port) {
                self.close_rings(port, clock());
            }
        }
        if !self.closing.is_empty() {
            self.iterate_until(&clock, |core| core.closing.is_empty());
        }
        self.status_received = Set64::EMPTY;
        if !self.collect_reports() {
            self.iterate_until(&clock, Self::collect_reports);
        }
        let now = clock();
        let mut snapshot = self.stop.take().unwrap_or_default();
        self.snapshot(now, &mut snapshot);
        self.end_recording(now);
        self.mailbox.reply(Reply::Stopped(snapshot));
    }

    fn iterate_until(&mut self, clock: &impl Fn() -> Instant, mut done: impl FnMut(&mut Self) -> bool) {
        let end = clock() + DRAIN_NS;
        loop {
            let now = clock();
            let moved = self.iterate_with_clock(now, clock);
            // A PFC frame may have been due in the iteration that emptied the switch, so one more
            // iteration without one is required.
            if now >= end || (!moved && done(self)) {
                return;
            }
        }
    }
}
