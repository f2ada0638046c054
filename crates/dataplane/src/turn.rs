//! A turn of a loop, one breath: for each port take what has left and what came in; do what is due; for each port send.
//!
//! The daemon takes turns as fast as its core lets it ([`crate::Core`]), a simulated software switch once in so many
//! microseconds of virtual time (`sim`): the same turn, over ports of another make. Nothing here reads a clock; `now` is
//! the time of the whole turn.
//!
//! Source: `docs/architecture.md`, "The way of a frame".

use switch::{FrameId, Instant, Memory, Outgoing, Received, Switch};
use wire::checksum;
use wire::ethernet::Header;

use crate::port::Port;

/// Frames taken from a port in one turn: few enough that a PFC frame that must go out waits only for these.
pub const RX_BATCH: usize = 64;
/// Frames given to a port in one turn.
pub const TX_BATCH: usize = 256;
/// Headers are fetched into the cache so many frames before they are read.
const LOOK_AHEAD: usize = 6;
/// Completions for which there is room from the start: two full TX rings.
const COMPLETIONS: usize = 4096;

/// What a loop keeps from one turn to the next.
#[derive(Debug)]
pub struct Turn {
    /// Bit i: port i is open.
    open: u64,
    /// For each port: transport checksums that a Linux host left open are finished.
    finish_checksums: Vec<bool>,
    receiving: bool,
    // A port's frames; each is empty between two ports, and kept to allocate nothing.
    received: Vec<Received>,
    completed: Vec<FrameId>,
    outgoing: Vec<Outgoing>,
}

impl Turn {
    /// The first turn, with all ports open; for each port, whether transport checksums that a Linux host left open are
    /// finished.
    pub fn new(finish_checksums: Vec<bool>) -> Self {
        Self {
            open: (0..finish_checksums.len()).fold(0, |mask, port| mask | 1 << port),
            finish_checksums,
            receiving: true,
            received: Vec::with_capacity(RX_BATCH),
            completed: Vec::with_capacity(COMPLETIONS),
            outgoing: Vec::with_capacity(TX_BATCH),
        }
    }

    /// The ports that are open, as a mask.
    pub fn open_ports(&self) -> u64 {
        self.open
    }

    /// Leaves a port out from now on, for good. False if it was closed before.
    pub fn close(&mut self, port: usize) -> bool {
        let was_open = self.open & 1 << port != 0;
        self.open &= !(1 << port);
        was_open
    }

    /// Takes in no more frames: what is held may leave.
    pub fn stop_receiving(&mut self) {
        self.receiving = false;
    }

    /// Takes the turn of `now`: `ports` are the switch's, in their order, and `memory` is where their frames lie. True if
    /// anything moved.
    pub fn run<P: Port>(
        &mut self,
        switch: &mut Switch,
        ports: &mut [P],
        memory: &mut P::Memory,
        now: Instant,
    ) -> bool {
        let mut moved = false;
        for number in each(self.open) {
            let port = &mut ports[number];
            moved |= self.complete(number, port, switch, memory, now);
            moved |= self.receive(number, port, switch, memory, now);
        }
        switch.tick(now);
        for number in each(self.open) {
            moved |= self.send(number, &mut ports[number], switch, memory, now);
        }
        moved
    }

    /// Releases the frames of a port that have left. True if there were any.
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
        for frame in self.completed.drain(..) {
            switch.complete(number, frame, now, memory);
        }
        moved
    }

    /// Puts a batch of received frames through the switch.
    #[inline]
    fn receive<P: Port>(
        &mut self,
        number: usize,
        port: &mut P,
        switch: &mut Switch,
        memory: &mut P::Memory,
        now: Instant,
    ) -> bool {
        let most = if self.receiving { RX_BATCH } else { 0 };
        port.receive(memory, now, most, &mut self.received);
        let moved = !self.received.is_empty();
        let finish_checksums = self.finish_checksums[number];
        let mut batch = self.received.drain(..);
        while let Some(received) = batch.next() {
            if let Some(ahead) = batch.as_slice().get(LOOK_AHEAD) {
                memory.prefetch(&ahead.frame);
            }
            if finish_checksums {
                let bytes = memory.bytes_mut(&received.frame, usize::from(received.len));
                if let Ok(header) = Header::parse(bytes) {
                    checksum::finish_transport(bytes, &header);
                }
            }
            switch.receive(number, received, now, memory);
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
        if switch.ports_with_work() & 1 << number != 0 {
            let room = port.transmit_room().min(TX_BATCH);
            switch.transmit(number, room, now, memory, &mut self.outgoing);
        }
        let moved = !self.outgoing.is_empty();
        if moved {
            port.transmit(&mut self.outgoing);
        }
        if port.outstanding() > 0 {
            let lost = port.kick();
            if lost > 0 {
                switch.kernel_lost(number, lost);
            }
        }
        moved
    }
}

/// The ports of a mask, lowest first.
#[inline]
fn each(mut ports: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let port = ports.trailing_zeros() as usize;
        ports &= ports.wrapping_sub(1);
        (port < 64).then_some(port)
    })
}
