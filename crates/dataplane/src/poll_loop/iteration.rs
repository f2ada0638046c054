//! An iteration of a loop: take completions and received frames of each port, run expired timers,
//! transmit on each port.
//!
//! The daemon iterates as fast as its core allows ([`crate::PollLoop`]), and a simulated software
//! switch iterates at an interval of virtual time (`sim`). Both run the same iteration over
//! different ports. `now` is the time of the whole iteration. The clock, a parameter, is read again
//! only when a batch of received frames has been taken, as that may be much later on a busy core.
//!
//! Rule: the order of the ports varies, on reception and on transmission, so that equal senders get
//! equal shares. A pending PFC frame is sent on every port before any data, and an entry of the TX
//! ring is reserved for it.
//!
//! Source: `docs/architecture.md`, "Frame path".

use std::borrow::BorrowMut;
use std::sync::Arc;

use switch::pfc::rx_backlog::{FORCE_XOFF, XON_FRAMES};
use switch::{FrameId, Instant, Nanos, RxDesc, RxFrame, Switch, TxDesc};
use wire::bitset::{Set8, Set64};
use wire::random::Random;

use crate::batch_ops::apply_edits;
use crate::batch_ops::parse_batch;
use crate::flight_recorder::recorded_switch::RecordedSwitch;
use crate::guard::heartbeat::Heartbeat;
use crate::port::Port;
use crate::punt_ring::PuntRings;

/// Frames received per port and iteration. The limit is low, as a PFC frame that becomes due waits
/// for all of them.
pub const RX_BATCH: usize = 64;
/// Frames transmitted per port and iteration.
pub const TX_BATCH: usize = 256;
/// A peer that has sent no frame for this long, or twice as long, is not paused for a stall.
const RECENT_NS: Nanos = 1_000_000_000;
/// TX ring entries that data leaves free for PFC.
const PFC_ROOM: usize = 1;
/// Initial capacity for completions: two full TX rings.
const COMPLETIONS: usize = 4096;

/// The state that a loop keeps between iterations.
#[derive(Debug)]
pub struct Iteration {
    open: Set64,
    order: PortOrder,
    /// For each port, whether transport checksums that a Linux host left to offload are completed.
    complete_checksums: Vec<bool>,
    /// Queues of each port that its peer has no room for.
    blocked_queues: [Set8; 64],
    /// Ports on which frames have been received lately.
    active: ActivePorts,
    /// Data frames are forwarded. Once this is false, only control frames are accepted.
    forwards: bool,
    /// The RX backlog counts as ingress use.
    uses_rx_backlog: bool,
    /// An I/O loop stalls, so frames that wait for its ports cannot be transmitted.
    pauses_all_peers: bool,
    /// Where frames for the daemon go.
    punts: Arc<PuntRings>,
    /// Where PFC frames are announced before they leave.
    heartbeat: Option<Arc<Heartbeat>>,
    // The frames of one port. Empty between two ports; kept so that nothing is allocated.
    received: Vec<RxDesc>,
    arrivals: Vec<RxFrame>,
    completed: Vec<FrameId>,
    lost: Vec<FrameId>,
    outgoing: Vec<TxDesc>,
}

impl Iteration {
    /// Creates the state before the first iteration, with these ports open. For each port, the flag
    /// says whether transport checksums that a Linux host left to offload are completed.
    pub fn new(complete_checksums: Vec<bool>) -> Self {
        Self {
            open: Set64::first_n(complete_checksums.len()),
            order: PortOrder::new(complete_checksums.len()),
            complete_checksums,
            blocked_queues: [Set8::EMPTY; 64],
            active: ActivePorts::default(),
            forwards: true,
            uses_rx_backlog: true,
            pauses_all_peers: false,
            punts: Arc::default(),
            heartbeat: None,
            received: Vec::with_capacity(RX_BATCH),
            arrivals: Vec::with_capacity(RX_BATCH),
            completed: Vec::with_capacity(COMPLETIONS),
            lost: Vec::with_capacity(COMPLETIONS),
            outgoing: Vec::with_capacity(TX_BATCH),
        }
    }

    /// Returns the ports that are open.
    pub fn open_ports(&self) -> Set64 {
        self.open
    }

    /// True if the transport checksums of this port are completed.
    pub(crate) fn completes_checksums(&self, port: usize) -> bool {
        self.complete_checksums[port]
    }

    /// Returns the ports on which frames have been received within the last one or two seconds. The
    /// peers of the others need not be paused while the loop is stalled.
    pub fn active_ports(&self) -> Set64 {
        self.active.this_period.with(self.active.last_period)
    }

    /// Sets whether the RX backlog counts as ingress use. It does by default; false is for
    /// comparisons.
    pub fn use_rx_backlog(&mut self, watches_rings: bool) {
        self.uses_rx_backlog = watches_rings;
    }

    /// Sets whether all peers are paused as if their RX backlog were too long.
    #[inline]
    pub(crate) fn pause_all_peers(&mut self, holds_back: bool) {
        self.pauses_all_peers = holds_back;
    }

    /// True if all peers are paused as if their RX backlog were too long.
    pub(crate) fn pauses_all_peers(&self) -> bool {
        self.pauses_all_peers
    }

    /// Sets where frames for the daemon go; without it they are only counted.
    pub fn set_punts(&mut self, punts: Arc<PuntRings>) {
        self.punts = punts;
    }

    /// Sets where PFC frames are announced before they leave, for the guard of a loop.
    pub fn set_heartbeat(&mut self, heartbeat: Arc<Heartbeat>) {
        self.heartbeat = Some(heartbeat);
    }

    /// True if data frames are forwarded.
    pub(crate) fn forwards(&self) -> bool {
        self.forwards
    }

    /// Closes a port: iterations skip it. Returns false if it was closed already.
    pub fn close(&mut self, port: usize) -> bool {
        let was_open = self.open.contains(port);
        self.open.set(port, false);
        self.blocked_queues[port] = Set8::EMPTY;
        self.active.remove(port); // a new peer is unknown until a frame arrives
        was_open
    }

    /// Opens a port, again or for the first time. The flag says whether its checksums are
    /// completed.
    pub fn open(&mut self, port: usize, complete_checksums: bool) {
        if self.complete_checksums.len() <= port {
            self.complete_checksums.resize(port + 1, false);
            self.order.ports = port + 1;
        }
        self.open.set(port, true);
        self.complete_checksums[port] = complete_checksums;
    }

    /// Stops forwarding: queued frames may leave. Received data is dropped and counted, but control
    /// frames are still honored.
    pub fn stop_forwarding(&mut self) {
        self.forwards = false;
    }

    /// Runs the iteration of time `now`. `ports` are the switch's ports in their order, possibly
    /// followed by ports that the switch may have later; `memory` holds their frames. `clock` is
    /// read for each batch of received frames. True if anything moved.
    pub fn run<P: Port>(
        &mut self,
        switch: &mut RecordedSwitch<impl BorrowMut<Switch>>,
        ports: &mut [P],
        memory: &mut P::Memory,
        now: Instant,
        clock: &impl Fn() -> Instant,
    ) -> bool {
        switch.begin_iteration(now);
        self.active.begin_iteration(now);
        let mut moved = false;
        let count = self.order.ports;
        for index in 0..count {
            let number = self.order.at(index);
            if self.open.contains(number) {
                let port = &mut ports[number];
                moved |= self.complete(number, port, switch, memory, now);
                moved |= self.receive(number, port, switch, memory, (now, clock));
            }
        }
        switch.tick(now, memory);
        let with_pfc = self.open.and(switch.ports_with_pfc(now));
        if let Some(heartbeat) = self.heartbeat.as_ref().filter(|_| !with_pfc.is_empty()) {
            heartbeat.announce_pfc(clock());
        }
        for number in with_pfc {
            moved |= self.send_pfc(number, &mut ports[number], switch, memory, now);
        }
        if let Some(heartbeat) = self.heartbeat.as_ref().filter(|_| !with_pfc.is_empty()) {
            heartbeat.follow_up_pfc();
        }
        for index in 0..count {
            let number = self.order.at(index);
            if self.open.contains(number) {
                moved |= self.send(number, &mut ports[number], switch, memory, now);
            }
        }
        self.order.next();
        moved
    }

    /// Releases the frames of a port that have been transmitted and those that the kernel lost.
    /// True if there were any.
    #[inline]
    pub fn complete<P: Port>(
        &mut self,
        number: usize,
        port: &mut P,
        switch: &mut RecordedSwitch<impl BorrowMut<Switch>>,
        memory: &mut P::Memory,
        now: Instant,
    ) -> bool {
        port.complete(&mut self.completed);
        let moved = !self.completed.is_empty();
        switch.complete_all(number, &mut self.completed, now, memory);
        port.take_lost(&mut self.lost);
        if self.lost.is_empty() {
            return moved;
        }
        switch.kernel_lost(number, &mut self.lost, now, memory);
        true
    }

    /// Parses a batch of received frames and passes them through the switch.
    #[inline]
    fn receive<P: Port>(
        &mut self,
        number: usize,
        port: &mut P,
        switch: &mut RecordedSwitch<impl BorrowMut<Switch>>,
        memory: &mut P::Memory,
        (now, clock): (Instant, &impl Fn() -> Instant),
    ) -> bool {
        port.receive(memory, now, RX_BATCH, &mut self.received);
        let parse = |received, bytes: &[u8]| switch.parse(number, received, bytes);
        let complete_checksums = self.complete_checksums[number];
        parse_batch(&mut self.received, memory, complete_checksums, parse, &mut self.arrivals);
        port.take_arrivals(memory, RX_BATCH, &mut self.arrivals);
        let moved = !self.arrivals.is_empty();
        if moved {
            self.active.this_period.set(number, true);
            switch.begin_batch(number, clock(), &self.arrivals, memory);
        }
        switch.receive_all(&mut self.arrivals, self.forwards, now, memory);
        if switch.has_punted() {
            switch.take_punted(memory, |port, frame| self.punts.push(port, frame));
        }
        let waiting = match (self.uses_rx_backlog, self.pauses_all_peers) {
            (true, true) => FORCE_XOFF,
            (true, false) => port.rx_waiting(),
            // Whether frames wait is of interest in any case.
            (false, _) => port.rx_waiting().min(XON_FRAMES),
        };
        switch.observe_rx_backlog(number, waiting, now);
        if let Some(dropped) = port.take_kernel_drops() {
            switch.kernel_dropped(number, dropped, now);
        }
        if let Some(refused) = port.take_refused() {
            switch.refused_frames(number, &refused);
        }
        let stray = port.take_stray();
        if stray > 0 {
            switch.stray_frames(number, stray, now);
        }
        moved
    }

    /// Sends the PFC frame that is due on a port.
    pub fn send_pfc<P: Port>(
        &mut self,
        number: usize,
        port: &mut P,
        switch: &mut RecordedSwitch<impl BorrowMut<Switch>>,
        memory: &mut P::Memory,
        now: Instant,
    ) -> bool {
        if port.transmit_room() == 0 {
            return false;
        }
        switch.transmit_pfc(number, now, memory, &mut self.outgoing);
        let moved = !self.outgoing.is_empty();
        if moved {
            port.transmit(memory, &mut self.outgoing);
            port.kick();
        }
        moved
    }

    /// Transmits what may leave a port now, and kicks it for that and for frames that are still in
    /// its ring.
    #[inline]
    fn send<P: Port>(
        &mut self,
        number: usize,
        port: &mut P,
        switch: &mut RecordedSwitch<impl BorrowMut<Switch>>,
        memory: &mut P::Memory,
        now: Instant,
    ) -> bool {
        let mut has_edits = false;
        let blocked = port.blocked_queues();
        if blocked != self.blocked_queues[number] {
            self.blocked_queues[number] = blocked;
            switch.block_queues(number, blocked, now);
        }
        if switch.ports_with_work() & 1 << number != 0 {
            let room = port.transmit_room().saturating_sub(PFC_ROOM).min(TX_BATCH);
            has_edits = switch.transmit(number, room, now, memory, &mut self.outgoing);
        }
        let moved = !self.outgoing.is_empty();
        if moved {
            if has_edits && !port.applies_edits() {
                apply_edits(&self.outgoing, memory);
            }
            port.transmit(memory, &mut self.outgoing);
        }
        if port.needs_kick() {
            port.kick();
        }
        moved
    }
}

/// Ports on which frames have been received in this period of time, or in the last.
#[derive(Debug, Default)]
struct ActivePorts {
    this_period: Set64,
    last_period: Set64,
    ends: Instant,
}

impl ActivePorts {
    #[inline]
    fn begin_iteration(&mut self, now: Instant) {
        if now >= self.ends {
            let is_next = now < self.ends + RECENT_NS;
            self.last_period = if is_next { self.this_period } else { Set64::EMPTY };
            (self.this_period, self.ends) = (Set64::EMPTY, now + RECENT_NS);
        }
    }

    fn remove(&mut self, port: usize) {
        self.this_period.set(port, false);
        self.last_period.set(port, false);
    }
}

/// The order of the ports in an iteration: a ring from a random port in a random direction. Each of
/// two ports comes before the other in half of the iterations, whatever their numbers. A regular
/// order would synchronize with the traffic.
#[derive(Debug)]
struct PortOrder {
    first: usize,
    forwards: bool,
    ports: usize,
    random: Random,
}

impl PortOrder {
    fn new(ports: usize) -> Self {
        Self { first: 0, forwards: true, ports, random: Random::new(0) }
    }

    /// Returns the port at an index of the order.
    #[inline]
    fn at(&self, index: usize) -> usize {
        let number = if self.forwards { self.first + index } else { self.first + self.ports - index };
        if number >= self.ports { number - self.ports } else { number }
    }

    /// Draws the order of the next iteration.
    fn next(&mut self) {
        let draw = u64::from(self.random.draw());
        self.forwards = draw & 1 != 0;
        self.first = (((draw >> 1) * self.ports as u64) >> 31) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With four ports, each comes before each other in half of the iterations, within four
    /// standard deviations.
    #[test]
    #[cfg_attr(miri, ignore = "statistics of ten thousand turns")]
    fn each_port_comes_before_each_other_equally_often() {
        const TURNS: u32 = 10_000;
        let mut order = PortOrder::new(4);
        let mut before = [[0_u32; 4]; 4];
        for _ in 0..TURNS {
            let indices: Vec<usize> = (0..4).map(|index| order.at(index)).collect();
            for (index, &a) in indices.iter().enumerate() {
                indices[index + 1..].iter().for_each(|&b| before[a][b] += 1);
            }
            order.next();
        }
        for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            assert!(before[a][b].abs_diff(TURNS / 2) <= 200, "{a} before {b}: {}", before[a][b]);
        }
    }

    /// A port that received a frame is active for the rest of its period and for the next one.
    #[test]
    fn ports_are_active_for_one_or_two_seconds() {
        let mut active = ActivePorts::default();
        let after = |active: &mut ActivePorts, ns: Nanos| {
            active.begin_iteration(Instant(10 * RECENT_NS + ns));
            [active.this_period, active.last_period].map(|ports| ports.contains(3))
        };
        after(&mut active, 0);
        active.this_period.set(3, true);
        assert_eq!(after(&mut active, RECENT_NS - 1), [true, false]);
        assert_eq!(after(&mut active, RECENT_NS), [false, true]);
        assert_eq!(after(&mut active, 2 * RECENT_NS - 1), [false, true]);
        assert_eq!(after(&mut active, 2 * RECENT_NS), [false, false]);
        // A loop that stalled for a period has no last one.
        active.this_period.set(3, true);
        assert_eq!(after(&mut active, 4 * RECENT_NS), [false, false]);
        active.this_period.set(3, true);
        assert_eq!(after(&mut active, 5 * RECENT_NS), [false, true]);
        active.remove(3);
        assert_eq!(after(&mut active, 5 * RECENT_NS), [false, false]);
    }

    #[test]
    fn settings_of_an_iteration() {
        let mut iteration = Iteration::new(vec![true, false]);
        assert_eq!([0, 1].map(|port| iteration.completes_checksums(port)), [true, false]);
        assert!(iteration.forwards() && !iteration.pauses_all_peers() && iteration.uses_rx_backlog);
        iteration.stop_forwarding();
        iteration.pause_all_peers(true);
        iteration.use_rx_backlog(false);
        assert!(!iteration.forwards() && iteration.pauses_all_peers() && !iteration.uses_rx_backlog);
        iteration.active.this_period.set(0, true);
        iteration.active.last_period.set(1, true);
        assert_eq!(iteration.active_ports(), Set64::first_n(2));
        let punts = Arc::default();
        iteration.set_punts(Arc::clone(&punts));
        assert!(Arc::ptr_eq(&iteration.punts, &punts));
        // A port beyond those of the start is one more in the order.
        iteration.open(2, true);
        assert_eq!((iteration.order.ports, iteration.open_ports()), (3, Set64::first_n(3)));
        assert!(iteration.completes_checksums(2));
    }
}
