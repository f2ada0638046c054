//! One direction of a link. It sends one frame at a time, for as long as its bytes take at the link
//! speed; then the frame is in flight for the propagation delay.
//!
//! A frame arrives with its last byte (switches here store and forward), and a PFC frame takes
//! effect after the response time of the peer. A cut loses the frames on the link.

use std::collections::VecDeque;

use crate::event_queue::{Event, Queue, Ticket};
use crate::flow::Message;
use crate::packet::{CARRIED_BYTES, Packet, Packets};
use crate::scenario::{Link, LinkEnd};
use crate::time::{NEVER, Picos, of_bytes, of_ns};
use crate::trace::int_log::{FrameRecords, IntLog};
use crate::trace::latency::LatencyLog;

/// What one part of the network sends to another: frames, and what is announced beside them.
#[derive(Debug, Default)]
pub struct Mail {
    /// By link direction: frames with the time of their arrival.
    pub(crate) frames: Vec<(usize, Picos, Packet)>,
    /// By flow: the messages that its receiver is to expect.
    pub(crate) messages: Vec<(usize, Message)>,
    /// By end that negotiates: frames of LLDP with the time when they are read.
    pub(crate) lldp: Vec<(usize, Picos, Vec<u8>)>,
    /// By flow: when its frames were sent, if latencies are measured.
    pub(crate) sent: Vec<(usize, Picos)>,
    /// The in-band telemetry of its frames.
    pub(crate) int: Vec<FrameRecords>,
}

impl Mail {
    /// Returns when the first of it arrives; the highest number if there is nothing.
    pub(crate) fn first_at(&self) -> Picos {
        let frames = self.frames.iter().map(|(_, at, _)| *at);
        frames.chain(self.lldp.iter().map(|(_, at, _)| *at)).min().unwrap_or(Picos::MAX)
    }
}

/// All link directions and the time, as needed by nodes to send.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) now: Picos,
    pub(crate) queue: Queue,
    pub(crate) directions: Vec<LinkDirection>,
    packets: Packets,
    /// When the sender of each link direction is to be woken; [`NEVER`] if it is not.
    wake_at: Vec<Picos>,
    /// Latencies, if they are measured.
    pub(crate) latency: Option<Box<LatencyLog>>,
    /// In-band telemetry, if a flow uses it.
    pub(crate) int: Option<Box<IntLog>>,
    /// What goes to each other part of the network.
    pub(crate) mail: Vec<Mail>,
}

impl Links {
    /// Creates both directions of each link, in a run with this seed.
    pub(crate) fn new(links: &[Link], seed: u64) -> Self {
        let ends =
            |(number, link)| [LinkDirection::new(link, number, 0), LinkDirection::new(link, number, 1)];
        let lines: Vec<LinkDirection> = links.iter().enumerate().flat_map(ends).collect();
        let (queue, packets, wake_at) = (Queue::new(seed), Packets::default(), vec![NEVER; lines.len()]);
        let (latency, int, mail) = (None, None, Vec::new());
        Self { now: 0, queue, directions: lines, packets, wake_at, latency, int, mail }
    }

    /// True if a link direction may send a frame now.
    #[inline]
    pub(crate) fn is_idle(&self, line: usize) -> bool {
        let line = &self.directions[line];
        line.up && self.queue.is_past(line.end)
    }

    /// Reports to the sender of a link direction when the frame that is being sent ends, if one is.
    /// Without that nothing happens then.
    #[inline]
    pub(crate) fn report_end(&mut self, line: usize) {
        let line = &mut self.directions[line];
        if !line.reports_end && !self.queue.is_past(line.end) {
            line.reports_end = true;
            self.queue.plan(line.end);
        }
    }

    /// Sends a frame over an idle link direction.
    #[inline]
    pub(crate) fn send(&mut self, line: usize, len: u16, bytes: &[u8; CARRIED_BYTES]) {
        debug_assert!(self.is_idle(line));
        let direction = &mut self.directions[line];
        let at = direction.send(len, self.now);
        direction.end =
            self.queue.ticket(direction.free_at, direction.from.node, Event::TxDone(direction.number));
        match direction.other_part {
            None => self.fly(line, at, len, bytes),
            Some(part) => {
                let mail = &mut self.mail[part];
                mail.frames.push((line, at, Packet { len, bytes: *bytes }));
                mail.int.extend(self.int.as_mut().and_then(|int| int.remove(bytes)));
            }
        }
    }

    /// Puts a frame on a link direction, at whose end it is to arrive at `at`.
    #[inline]
    pub(crate) fn fly(&mut self, line: usize, at: Picos, len: u16, bytes: &[u8; CARRIED_BYTES]) {
        let packet = self.packets.put(len, bytes);
        self.directions[line].fly(at, packet, &mut self.queue);
    }

    /// Takes over the receiver's side of a link direction from another part.
    pub(crate) fn take_receiver(&mut self, line: usize, other: &mut Links) {
        let (this, theirs) = (&mut self.directions[line], &mut other.directions[line]);
        this.counts.arrived = theirs.counts.arrived;
        this.in_flight = std::mem::take(&mut theirs.in_flight);
        this.pending_control = std::mem::take(&mut theirs.pending_control);
        for frame in this.in_flight.iter_mut().chain(&mut this.pending_control) {
            let Packet { len, bytes } = other.packets.at(frame.packet);
            frame.packet = self.packets.put(*len, bytes);
        }
    }

    /// Takes over the sender's side of a link direction from another part.
    pub(crate) fn take_sender(&mut self, line: usize, other: &Links) {
        let (this, theirs) = (&mut self.directions[line], &other.directions[line]);
        let DirectionCounts { arrived, cut, .. } = this.counts;
        this.counts = DirectionCounts { arrived, cut, ..theirs.counts };
        this.free_at = theirs.free_at;
    }

    /// The frame that arrives now over a link direction, if any: the event may belong to a frame
    /// that was lost by a cut.
    #[inline]
    pub(crate) fn arriving(&self, line: usize) -> Option<&Packet> {
        let line = &self.directions[line];
        if line.arrive_at != self.now {
            return None;
        }
        line.in_flight.front().map(|flying| self.packets.at(flying.packet))
    }

    /// Removes the first frame of a link direction, which has arrived.
    #[inline]
    pub(crate) fn arrived(&mut self, line: usize) {
        if let Some(packet) = self.directions[line].arrived(&mut self.queue) {
            self.packets.free(packet);
        }
    }

    /// Delays the first frame of a link direction, a PFC frame that has arrived, until it takes
    /// effect ([`Links::take_control`]).
    pub(crate) fn delay_control(&mut self, line: usize) {
        let this = &mut self.directions[line];
        let Some(packet) = this.arrived(&mut self.queue) else { return };
        let at = self.now + this.response;
        this.pending_control.push_back(InFlightFrame { at, packet });
        let node = this.to.node;
        self.queue.schedule(at, node, Event::Control(line));
    }

    /// Takes the PFC frame of a link direction that takes effect now.
    pub(crate) fn take_control(&mut self, line: usize) -> Option<Packet> {
        let pending_control = &mut self.directions[line].pending_control;
        let InFlightFrame { at, packet: slot } = *pending_control.front()?;
        if at > self.now {
            return None;
        }
        pending_control.pop_front();
        let packet = *self.packets.at(slot);
        self.packets.free(slot);
        Some(packet)
    }

    /// Cuts one direction of a cable: the frames on it are lost, and nothing more is sent.
    pub(crate) fn cut(&mut self, line: usize) {
        let this = &mut self.directions[line];
        this.up = false;
        // PFC frames that have arrived and have not taken effect are lost too.
        this.counts.arrived -= this.pending_control.len() as u64;
        for lost in this.in_flight.drain(..).chain(this.pending_control.drain(..)) {
            this.counts.cut += 1;
            self.packets.free(lost.packet);
        }
        // Frames that were sent to another part at this very time.
        if let Some(part) = this.other_part {
            let frames = &mut self.mail[part].frames;
            let before = frames.len();
            frames.retain(|(of, ..)| *of != line);
            this.counts.cut += (before - frames.len()) as u64;
        }
    }

    /// The frames in flight, each with its link direction.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (usize, &Packet)> {
        let lines = self.directions.iter().enumerate();
        let all = lines.flat_map(|(number, line)| line.in_flight.iter().map(move |flying| (number, flying)));
        all.map(|(number, flying)| (number, self.packets.at(flying.packet)))
    }

    /// Wakes the sender of a link direction at `at`, unless it is woken before.
    pub(crate) fn wake(&mut self, line: usize, at: Picos) {
        if at < self.wake_at[line] {
            self.wake_at[line] = at;
            self.queue.schedule(at, self.directions[line].from.node, Event::Wake(line));
        }
    }

    /// True if a wake-up at the present time is the expected one.
    pub(crate) fn is_awaited(&mut self, line: usize) -> bool {
        let awaited = self.wake_at[line] == self.now;
        if awaited {
            self.wake_at[line] = NEVER;
        }
        awaited
    }
}

/// A frame on the link.
#[derive(Debug, Clone, Copy)]
struct InFlightFrame {
    /// Time of arrival.
    at: Picos,
    /// Index in [`Packets`].
    packet: u32,
}

/// One direction of a cable.
#[derive(Debug)]
pub(crate) struct LinkDirection {
    /// Twice the number of the link, plus one from the link's second end.
    pub(crate) number: usize,
    pub(crate) from: LinkEnd,
    pub(crate) to: LinkEnd,
    pub(crate) up: bool,
    /// When the frame that is being sent ends, or the last one ended.
    free_at: Picos,
    /// The place of that among the events.
    end: Ticket,
    /// True if that event is planned.
    reports_end: bool,
    speed_bps: u64,
    /// Picoseconds per byte if that is a whole number, else 0.
    byte_ps: u64,
    overhead_bytes: u64,
    propagation: Picos,
    response: Picos,
    /// Frames in flight, in the order of their arrival.
    in_flight: VecDeque<InFlightFrame>,
    /// Time of the only valid arrival event of the first frame: other events belong to frames that
    /// were lost by a cut.
    arrive_at: Picos,
    /// PFC frames that have arrived and have not taken effect; `at` is the time when they do.
    pending_control: VecDeque<InFlightFrame>,
    /// The part of the network at its end, if its beginning alone belongs to this part.
    pub(crate) other_part: Option<usize>,
    /// True if the frames are captured.
    pub(crate) is_captured: bool,
    pub(crate) counts: DirectionCounts,
}

/// Counters of a link direction, in frames including PFC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DirectionCounts {
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    pub(crate) cut: u64,
    pub(crate) busy: Picos,
    /// Bytes on the wire that were sent.
    pub(crate) bytes: u64,
}

impl LinkDirection {
    /// Creates the direction of `link`, number `link_number`, from its end `from_end` (0 or 1).
    pub(crate) fn new(link: &Link, link_number: usize, from_end: usize) -> Self {
        let byte_ps = 8_000_000_000_000 / link.speed_bps;
        Self {
            number: 2 * link_number + from_end,
            from: link.ends[from_end],
            to: link.ends[1 - from_end],
            up: true,
            free_at: 0,
            end: Ticket::default(),
            reports_end: false,
            speed_bps: link.speed_bps,
            byte_ps: if byte_ps * link.speed_bps == 8_000_000_000_000 { byte_ps } else { 0 },
            overhead_bytes: u64::from(link.overhead_bytes),
            propagation: of_ns(link.propagation_ns),
            response: of_ns(link.response_ns),
            in_flight: VecDeque::new(),
            arrive_at: 0,
            pending_control: VecDeque::new(),
            other_part: None,
            is_captured: false,
            counts: DirectionCounts::default(),
        }
    }

    /// Ends the frame that is being sent.
    #[cfg(test)]
    pub(crate) fn end_now(&mut self) {
        self.end = Ticket::default();
    }

    /// Returns the bytes on the wire of a frame.
    #[inline]
    pub(crate) fn bytes_of(&self, len: u16) -> u64 {
        u64::from(len) + self.overhead_bytes
    }

    /// Returns the time on the wire of a frame.
    #[inline]
    pub(crate) fn time_of(&self, len: u16) -> Picos {
        let bytes = self.bytes_of(len);
        if self.byte_ps != 0 { bytes * self.byte_ps } else { of_bytes(bytes, self.speed_bps) }
    }

    /// Returns the time from the first bit of a frame until its last has arrived.
    pub(crate) fn flight_time(&self, len: u16) -> Picos {
        self.time_of(len) + self.propagation
    }

    /// The speed in bit/s.
    pub(crate) fn speed_bps(&self) -> u64 {
        self.speed_bps
    }

    /// Sends a frame from `now` on. Returns when it arrives.
    #[inline]
    fn send(&mut self, len: u16, now: Picos) -> Picos {
        self.counts.sent += 1;
        let time = self.time_of(len);
        self.counts.busy += time;
        self.counts.bytes += self.bytes_of(len);
        self.free_at = now + time;
        self.reports_end = false;
        self.free_at + self.propagation
    }

    /// Adds a frame in flight.
    #[inline]
    fn fly(&mut self, at: Picos, packet: u32, queue: &mut Queue) {
        if self.in_flight.is_empty() {
            self.arrive_at = at;
            queue.schedule(at, self.to.node, Event::Arrive(self.number));
        }
        self.in_flight.push_back(InFlightFrame { at, packet });
    }

    /// Removes the first frame, which has arrived. Returns its index.
    #[inline]
    fn arrived(&mut self, queue: &mut Queue) -> Option<u32> {
        let landed = self.in_flight.pop_front()?;
        self.counts.arrived += 1;
        if let Some(next) = self.in_flight.front() {
            self.arrive_at = next.at;
            queue.schedule(next.at, self.to.node, Event::Arrive(self.number));
        } else {
            self.arrive_at = 0;
        }
        Some(landed.packet)
    }

    /// Returns the busy time up to `now`.
    pub(crate) fn busy_until(&self, now: Picos) -> Picos {
        self.counts.busy - self.free_at.saturating_sub(now)
    }

    /// The number of PFC frames that have arrived and have not taken effect.
    pub(crate) fn pending_control(&self) -> u64 {
        self.pending_control.len() as u64
    }

    /// The number of frames in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.len() as u64
    }
}
