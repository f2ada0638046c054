//! One direction of a cable: a frame at a time, as long as its bytes take, then on its way for as
//! long as light takes.
//!
//! A frame arrives when its last byte does (switches here store and forward), and a PFC frame is
//! obeyed its peer's response time later. A cut loses what is on the way.

use std::collections::VecDeque;

use crate::event_queue::{Event, Queue};
use crate::packet::{CARRIED_BYTES, Packet, Packets};
use crate::scenario::{End, Link};
use crate::time::{NEVER, Picos, of_bytes, of_ns};

/// All lines, and the time: what nodes need to send.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) now: Picos,
    pub(crate) queue: Queue,
    pub(crate) lines: Vec<LinkDirection>,
    packets: Packets,
    /// When the sender of each line is to be woken; [`NEVER`]: it is not.
    wake_at: Vec<Picos>,
}

impl Links {
    /// Both directions of each link.
    pub(crate) fn new(links: &[Link]) -> Self {
        let ends =
            |(number, link)| [LinkDirection::new(link, number, 0), LinkDirection::new(link, number, 1)];
        let lines: Vec<LinkDirection> = links.iter().enumerate().flat_map(ends).collect();
        let (queue, packets, wake_at) = (Queue::new(), Packets::default(), vec![NEVER; lines.len()]);
        Self { now: 0, queue, lines, packets, wake_at }
    }

    /// Sends a frame over a line that is idle.
    #[inline]
    pub(crate) fn send(&mut self, line: usize, len: u16, bytes: &[u8; CARRIED_BYTES]) {
        let place = self.packets.put(len, bytes);
        self.lines[line].send(len, place, self.now, &mut self.queue);
    }

    /// The frame on a line that arrives now, if one does: its event may be that of a frame that a
    /// cut has lost.
    #[inline]
    pub(crate) fn arriving(&self, line: usize) -> Option<&Packet> {
        let line = &self.lines[line];
        if line.arrive_at != self.now {
            return None;
        }
        line.flying.front().map(|flying| self.packets.at(flying.place))
    }

    /// The first frame on a line has arrived.
    #[inline]
    pub(crate) fn landed(&mut self, line: usize) {
        if let Some(place) = self.lines[line].landed(&mut self.queue) {
            self.packets.free(place);
        }
    }

    /// The first frame on a line, which is PFC, has arrived: it is kept back until it is obeyed
    /// ([`Links::obey`]).
    pub(crate) fn keep_back(&mut self, line: usize) {
        let this = &mut self.lines[line];
        let Some(place) = this.landed(&mut self.queue) else { return };
        let at = self.now + this.response;
        this.unobeyed.push_back(InFlightFrame { at, place });
        self.queue.plan(at, Event::Obey(line));
    }

    /// The PFC frame from a line that is obeyed now.
    pub(crate) fn obey(&mut self, line: usize) -> Option<Packet> {
        let unobeyed = &mut self.lines[line].unobeyed;
        let InFlightFrame { at, place } = *unobeyed.front()?;
        if at > self.now {
            return None;
        }
        unobeyed.pop_front();
        let packet = *self.packets.at(place);
        self.packets.free(place);
        Some(packet)
    }

    /// A cable is cut in one direction: what is on it is lost, and nothing more is sent.
    pub(crate) fn cut(&mut self, line: usize) {
        let this = &mut self.lines[line];
        this.up = false;
        // PFC that has come and is not yet obeyed is lost too.
        this.counts.arrived -= this.unobeyed.len() as u64;
        for lost in this.flying.drain(..).chain(this.unobeyed.drain(..)) {
            this.counts.cut += 1;
            self.packets.free(lost.place);
        }
    }

    /// Frames on their way.
    pub(crate) fn flying(&self) -> impl Iterator<Item = &Packet> {
        self.lines.iter().flat_map(|line| &line.flying).map(|flying| self.packets.at(flying.place))
    }

    /// Wakes the sender of a line at `at`, if nothing wakes it before.
    pub(crate) fn wake(&mut self, line: usize, at: Picos) {
        if at < self.wake_at[line] {
            self.wake_at[line] = at;
            self.queue.plan(at, Event::Wake(line));
        }
    }

    /// Whether a wake-up that comes now is the one that is waited for.
    pub(crate) fn is_awaited(&mut self, line: usize) -> bool {
        let awaited = self.wake_at[line] == self.now;
        if awaited {
            self.wake_at[line] = NEVER;
        }
        awaited
    }
}

/// A frame on its way.
#[derive(Debug, Clone, Copy)]
struct InFlightFrame {
    /// When it arrives.
    at: Picos,
    /// Its place in [`Packets`].
    place: u32,
}

/// One direction of a cable.
#[derive(Debug)]
pub(crate) struct LinkDirection {
    /// Its number: twice the link's, and one more from the link's second end.
    pub(crate) number: usize,
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) up: bool,
    /// A frame is being sent.
    pub(crate) busy: bool,
    /// … until then.
    free_at: Picos,
    speed_bps: u64,
    /// Picoseconds of a byte, where they are a whole number; else 0.
    byte_ps: u64,
    overhead_bytes: u64,
    propagation: Picos,
    response: Picos,
    /// Frames that arrive, in their order.
    flying: VecDeque<InFlightFrame>,
    /// When the one event for the first of them comes: others are those of frames that a cut has
    /// lost.
    arrive_at: Picos,
    /// PFC frames that have arrived and are not yet obeyed; `at` is when they are.
    unobeyed: VecDeque<InFlightFrame>,
    /// The capture wants its frames.
    pub(crate) is_captured: bool,
    pub(crate) counts: LineCounts,
}

/// What a line counts: frames, PFC included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineCounts {
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    pub(crate) cut: u64,
    pub(crate) busy: Picos,
}

impl LinkDirection {
    /// The direction of `link`, which is number `link_number`, from its end `from_end` (0 or 1).
    pub(crate) fn new(link: &Link, link_number: usize, from_end: usize) -> Self {
        let byte_ps = 8_000_000_000_000 / link.speed_bps;
        Self {
            number: 2 * link_number + from_end,
            from: link.ends[from_end],
            to: link.ends[1 - from_end],
            up: true,
            busy: false,
            free_at: 0,
            speed_bps: link.speed_bps,
            byte_ps: if byte_ps * link.speed_bps == 8_000_000_000_000 { byte_ps } else { 0 },
            overhead_bytes: u64::from(link.overhead_bytes),
            propagation: of_ns(link.propagation_ns),
            response: of_ns(link.response_ns),
            flying: VecDeque::new(),
            arrive_at: 0,
            unobeyed: VecDeque::new(),
            is_captured: false,
            counts: LineCounts::default(),
        }
    }

    /// The line may take a frame now.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.up && !self.busy
    }

    /// Bytes that a frame takes of the line.
    #[inline]
    pub(crate) fn bytes_of(&self, len: u16) -> u64 {
        u64::from(len) + self.overhead_bytes
    }

    /// Time that a frame takes of the line.
    #[inline]
    pub(crate) fn time_of(&self, len: u16) -> Picos {
        let bytes = self.bytes_of(len);
        if self.byte_ps != 0 { bytes * self.byte_ps } else { of_bytes(bytes, self.speed_bps) }
    }

    /// Its speed in bit/s.
    pub(crate) fn speed_bps(&self) -> u64 {
        self.speed_bps
    }

    /// Sends a frame from `now` on.
    #[inline]
    fn send(&mut self, len: u16, place: u32, now: Picos, queue: &mut Queue) {
        debug_assert!(self.is_idle());
        self.busy = true;
        self.counts.sent += 1;
        let time = self.time_of(len);
        self.counts.busy += time;
        self.free_at = now + time;
        queue.plan(self.free_at, Event::LineFree(self.number));
        let at = now + time + self.propagation;
        if self.flying.is_empty() {
            self.arrive_at = at;
            queue.plan(at, Event::Arrive(self.number));
        }
        self.flying.push_back(InFlightFrame { at, place });
    }

    /// The first frame has arrived: gives its place.
    #[inline]
    fn landed(&mut self, queue: &mut Queue) -> Option<u32> {
        let landed = self.flying.pop_front()?;
        self.counts.arrived += 1;
        if let Some(next) = self.flying.front() {
            self.arrive_at = next.at;
            queue.plan(next.at, Event::Arrive(self.number));
        } else {
            self.arrive_at = 0;
        }
        Some(landed.place)
    }

    /// Time that it was busy up to `now`.
    pub(crate) fn busy_until(&self, now: Picos) -> Picos {
        self.counts.busy - if self.busy { self.free_at.saturating_sub(now) } else { 0 }
    }

    /// PFC frames that have arrived and are not yet obeyed.
    pub(crate) fn unobeyed(&self) -> u64 {
        self.unobeyed.len() as u64
    }

    /// Frames on it.
    pub(crate) fn flying(&self) -> u64 {
        self.flying.len() as u64
    }
}
