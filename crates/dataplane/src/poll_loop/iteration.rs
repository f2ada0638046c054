//! A turn of a loop, one breath: for each port take what has left and what came in; do what is due;
//! for each port send.
//!
//! The daemon takes turns as fast as its core lets it ([`crate::PollLoop`]), a simulated software
//! switch once in so many microseconds of virtual time (`sim`): the same turn, over ports of
//! another make. Nothing here reads a clock; `now` is the time of the whole turn.
//!
//! Rule: the ports take turns at being first, in what comes in and in what leaves, so that equal
//! senders get equal shares. A PFC frame that is due leaves every port before any data does, and a
//! place in the TX ring is kept for it.
//!
//! Source: `docs/architecture.md`, "The way of a frame".

use switch::egress::wred::Random;
use switch::pfc::rx_backlog::HOLD;
use switch::{FrameId, FrameMemory, Instant, RxDesc, RxFrame, Switch, TxDesc};
use wire::bitset::Set64;

use crate::flight_recorder::recorder::{Recorder, header_bytes};
use crate::frame_batch::make_edits;
use crate::frame_batch::parse_batch;
use crate::port::Port;

/// Frames taken from a port in one turn: few enough that a PFC frame that must go out waits only
/// for these.
pub const RX_BATCH: usize = 64;
/// Frames given to a port in one turn.
pub const TX_BATCH: usize = 256;
/// Places in a TX ring that data leave to PFC.
const PFC_ROOM: usize = 1;
/// Completions for which there is room from the start: two full TX rings.
const COMPLETIONS: usize = 4096;

/// What a loop keeps from one turn to the next.
#[derive(Debug)]
pub struct Iteration {
    open: Set64,
    order: Order,
    /// For each port: transport checksums that a Linux host left open are finished.
    finish_checksums: Vec<bool>,
    /// Ports that frames have come in on.
    heard: Set64,
    /// Data is taken in; once it is not, control frames still are.
    forwards: bool,
    /// What waits in RX rings is ingress use.
    watches_rings: bool,
    /// A line stands still, so what waits for its ports cannot leave.
    holds_back: bool,
    /// Writes down what the switch is given, while somebody wants that.
    recorder: Option<Box<Recorder>>,
    // A port's frames; each is empty between two ports, and kept to allocate nothing.
    received: Vec<RxDesc>,
    arrivals: Vec<RxFrame>,
    completed: Vec<FrameId>,
    lost: Vec<FrameId>,
    outgoing: Vec<TxDesc>,
}

impl Iteration {
    /// The first turn, with these ports open; for each port, whether transport checksums that a
    /// Linux host left open are finished.
    pub fn new(finish_checksums: Vec<bool>) -> Self {
        Self {
            open: Set64::first_of(finish_checksums.len()),
            order: Order::new(finish_checksums.len()),
            finish_checksums,
            heard: Set64::EMPTY,
            forwards: true,
            watches_rings: true,
            holds_back: false,
            recorder: None,
            received: Vec::with_capacity(RX_BATCH),
            arrivals: Vec::with_capacity(RX_BATCH),
            completed: Vec::with_capacity(COMPLETIONS),
            lost: Vec::with_capacity(COMPLETIONS),
            outgoing: Vec::with_capacity(TX_BATCH),
        }
    }

    /// The ports that are open.
    pub fn open_ports(&self) -> Set64 {
        self.open
    }

    /// Transport checksums of a port are finished.
    pub(crate) fn finishes_checksums(&self, port: usize) -> bool {
        self.finish_checksums[port]
    }

    /// The ports that frames have come in on: the others have no peer that could be told anything.
    pub fn heard_ports(&self) -> Set64 {
        self.heard
    }

    /// Whether what waits in RX rings is ingress use, as it is unless somebody wants to see what
    /// would be without.
    pub fn watch_rings(&mut self, watches_rings: bool) {
        self.watches_rings = watches_rings;
    }

    /// Whether all peers are paused as if too much waited in their RX rings.
    #[inline]
    pub(crate) fn hold_back(&mut self, holds_back: bool) {
        self.holds_back = holds_back;
    }

    /// … which they are now.
    pub(crate) fn holds_back(&self) -> bool {
        self.holds_back
    }

    /// Where what the switch is given is written down, if anywhere.
    #[inline]
    pub(crate) fn recorder(&mut self) -> &mut Option<Box<Recorder>> {
        &mut self.recorder
    }

    /// Whether data is taken in.
    pub(crate) fn forwards(&self) -> bool {
        self.forwards
    }

    /// Leaves a port out from now on. False if it was closed before.
    pub fn close(&mut self, port: usize) -> bool {
        let was_open = self.open.contains(port);
        self.open.set(port, false);
        self.heard.set(port, false); // another peer will have to be heard of first
        was_open
    }

    /// Takes a port in, again or for the first time, on an interface whose checksums are finished
    /// or not.
    pub fn open(&mut self, port: usize, finish_checksums: bool) {
        if self.finish_checksums.len() <= port {
            self.finish_checksums.resize(port + 1, false);
            self.order.ports = port + 1;
        }
        self.open.set(port, true);
        self.finish_checksums[port] = finish_checksums;
    }

    /// Takes in no more data: what is held may leave. What comes in is dropped and counted, but
    /// control frames are obeyed.
    pub fn stop_forwarding(&mut self) {
        self.forwards = false;
    }

    /// Takes the turn of `now`: `ports` are the switch's, in their order, and perhaps some that it
    /// may have later; `memory` is where their frames lie. True if anything moved.
    pub fn run<P: Port>(
        &mut self,
        switch: &mut Switch,
        ports: &mut [P],
        memory: &mut P::Memory,
        now: Instant,
    ) -> bool {
        switch.begin_turn(now);
        let mut moved = false;
        let places = self.order.ports;
        for place in 0..places {
            let number = self.order.at(place);
            if self.open.contains(number) {
                let port = &mut ports[number];
                moved |= self.complete(number, port, switch, memory, now);
                moved |= self.receive(number, port, switch, memory, now);
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.tick();
        }
        switch.tick(now, memory);
        for number in self.open.and(switch.ports_with_pfc(now)) {
            moved |= self.send_pfc(number, &mut ports[number], switch, memory, now);
        }
        for place in 0..places {
            let number = self.order.at(place);
            if self.open.contains(number) {
                moved |= self.send(number, &mut ports[number], switch, memory, now);
            }
        }
        self.order.next();
        moved
    }

    /// Releases the frames of a port that have left, and those that the kernel lost. True if there
    /// were any.
    #[inline]
    pub fn complete<P: Port>(
        &mut self,
        number: usize,
        port: &mut P,
        switch: &mut Switch,
        memory: &mut P::Memory,
        now: Instant,
    ) -> bool {
        port.complete(&mut self.completed);
        let moved = !self.completed.is_empty();
        if let (Some(recorder), true) = (&mut self.recorder, moved) {
            recorder.completed(number, &self.completed);
        }
        switch.complete_all(number, self.completed.drain(..), now, memory);
        port.take_lost(&mut self.lost);
        if self.lost.is_empty() {
            return moved;
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.kernel_lost(number, &self.lost);
        }
        self.lost.drain(..).for_each(|frame| switch.kernel_lost(number, frame, now, memory));
        true
    }

    /// Looks at a batch of received frames and puts them through the switch.
    #[inline]
    fn receive<P: Port>(
        &mut self,
        number: usize,
        port: &mut P,
        switch: &mut Switch,
        memory: &mut P::Memory,
        now: Instant,
    ) -> bool {
        port.receive(memory, now, RX_BATCH, &mut self.received);
        let look = |received, bytes: &[u8]| switch.look(number, received, bytes);
        let finish_checksums = self.finish_checksums[number];
        parse_batch(&mut self.received, memory, finish_checksums, look, &mut self.arrivals);
        port.take_arrivals(memory, RX_BATCH, &mut self.arrivals);
        let moved = !self.arrivals.is_empty();
        self.heard.set(number, moved || self.heard.contains(number));
        if let (Some(recorder), true) = (&mut self.recorder, moved) {
            recorder.received(number, header_bytes(switch, number), &self.arrivals, memory);
        }
        if self.forwards {
            switch.receive_all(&mut self.arrivals, now, memory);
        } else {
            switch.drain_control(&mut self.arrivals, now, memory);
        }
        if self.watches_rings {
            let waiting = if self.holds_back { HOLD } else { port.rx_waiting() };
            if let Some(recorder) = &mut self.recorder {
                recorder.waiting(number, waiting);
            }
            switch.observe_rx_backlog(number, waiting, now);
        }
        if let Some(dropped) = port.take_kernel_drops() {
            if let Some(recorder) = &mut self.recorder {
                recorder.kernel_dropped(number, dropped);
            }
            switch.kernel_dropped(number, dropped, now);
        }
        let stray = port.take_stray();
        if stray > 0 {
            if let Some(recorder) = &mut self.recorder {
                recorder.stray(number, stray);
            }
            switch.stray_frames(number, stray, now);
        }
        moved
    }

    /// Makes a port send the PFC frame that is due.
    fn send_pfc<P: Port>(
        &mut self,
        number: usize,
        port: &mut P,
        switch: &mut Switch,
        memory: &mut P::Memory,
        now: Instant,
    ) -> bool {
        if port.transmit_room() == 0 {
            return false;
        }
        let free_frames = memory.free_frames();
        switch.transmit_pfc(number, now, memory, &mut self.outgoing);
        if let Some(recorder) = &mut self.recorder {
            recorder.pfc(number, free_frames, &self.outgoing);
        }
        let moved = !self.outgoing.is_empty();
        if moved {
            port.transmit(&mut self.outgoing);
            port.kick();
        }
        moved
    }

    /// Gives a port what may leave now, and makes it send that and what it did not take before.
    #[inline]
    fn send<P: Port>(
        &mut self,
        number: usize,
        port: &mut P,
        switch: &mut Switch,
        memory: &mut P::Memory,
        now: Instant,
    ) -> bool {
        let mut has_edits = false;
        if switch.ports_with_work() & 1 << number != 0 {
            let room = port.transmit_room().saturating_sub(PFC_ROOM).min(TX_BATCH);
            let free_frames = self.recorder.as_ref().map_or(0, |_| memory.free_frames());
            has_edits = switch.transmit(number, room, now, memory, &mut self.outgoing);
            if let Some(recorder) = &mut self.recorder {
                recorder.sent(number, free_frames, room, &self.outgoing);
            }
        }
        let moved = !self.outgoing.is_empty();
        if moved {
            if has_edits && !port.makes_edits() {
                make_edits(&self.outgoing, memory);
            }
            port.transmit(&mut self.outgoing);
        }
        if port.needs_kick() {
            port.kick();
        }
        moved
    }
}

/// The order of the ports in a turn: round the ring from any port, in either direction, by chance,
/// so that each of two ports comes before the other in half of the turns, wherever they are. A
/// regular order would fall into step with the traffic.
#[derive(Debug)]
struct Order {
    first: usize,
    forwards: bool,
    ports: usize,
    random: Random,
}

impl Order {
    fn new(ports: usize) -> Self {
        Self { first: 0, forwards: true, ports, random: Random::new(0) }
    }

    /// The port at a place from 0.
    #[inline]
    fn at(&self, place: usize) -> usize {
        let number = if self.forwards { self.first + place } else { self.first + self.ports - place };
        if number >= self.ports { number - self.ports } else { number }
    }

    /// The next turn's.
    fn next(&mut self) {
        let draw = u64::from(self.random.draw());
        self.forwards = draw & 1 != 0;
        self.first = (((draw >> 1) * self.ports as u64) >> 31) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of four ports: each comes before each other in half of the turns, within four standard
    /// deviations.
    #[test]
    fn each_port_comes_before_each_other_equally_often() {
        const TURNS: u32 = 10_000;
        let mut order = Order::new(4);
        let mut before = [[0_u32; 4]; 4];
        for _ in 0..TURNS {
            let places: Vec<usize> = (0..4).map(|place| order.at(place)).collect();
            for (place, &a) in places.iter().enumerate() {
                places[place + 1..].iter().for_each(|&b| before[a][b] += 1);
            }
            order.next();
        }
        for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            assert!(before[a][b].abs_diff(TURNS / 2) <= 200, "{a} before {b}: {}", before[a][b]);
        }
    }
}
