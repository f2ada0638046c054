//! One direction of a link. It sends one frame at a time, for as long as its bytes take at the link
//! speed; then the frame is in flight for the propagation delay.
//!
//! A frame arrives with its last byte (switches here store and forward), and a PFC frame takes
//! effect after the response time of the peer. A cut loses the frames on the link.

use std::collections::VecDeque;

use crate::event_queue::{Event, Queue, Ticket};
use crate::flow::Message;
use crate::packet::frame_store::FrameStore;
use crate::packet::{CARRIED_BYTES, Packet};
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
    /// The frames of the network.
    pub(crate) frames: Box<FrameStore>,
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
        let (queue, frames, wake_at) = (Queue::new(seed), Box::default(), vec![NEVER; lines.len()]);
        let (latency, int, mail) = (None, None, Vec::new());
        Self { now: 0, queue, directions: lines, frames, wake_at, latency, int, mail }
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

    /// Sends a host's frame over an idle link direction.
    #[inline]
    pub(crate) fn send(&mut self, line: usize, len: u16, bytes: &[u8; CARRIED_BYTES]) {
        if let Some(frame) = self.frames.put(bytes) {
            self.send_stored(line, len, frame);
        }
    }

    /// Sends a stored frame over an idle link direction.
    #[inline]
    pub(crate) fn send_stored(&mut self, line: usize, len: u16, frame: u32) {
        debug_assert!(self.is_idle(line));
        let direction = &mut self.directions[line];
        let at = direction.send(len, self.now);
        direction.end =
            self.queue.ticket(direction.free_at, direction.from.node, Event::TxDone(direction.number));
        match direction.other_part {
            None => direction.fly(InFlightFrame { at, frame, len }, &mut self.queue),
            Some(part) => {
                let bytes = *self.frames.bytes(frame);
                self.frames.free(frame);
                let mail = &mut self.mail[part];
                mail.int.extend(self.int.as_mut().and_then(|int| int.remove(&bytes)));
                mail.frames.push((line, at, Packet { len, bytes }));
            }
        }
    }

    /// Takes in a frame from another part, which is to arrive at the end of a link direction at
    /// `at`.
    pub(crate) fn take_in(&mut self, line: usize, at: Picos, Packet { len, bytes }: &Packet) {
        if let Some(frame) = self.frames.put(bytes) {
            self.directions[line].fly(InFlightFrame { at, frame, len: *len }, &mut self.queue);
        }
    }

    /// Takes over the receiver's side of a link direction from another part.
    pub(crate) fn take_receiver(&mut self, line: usize, other: &mut Links) {
        let (this, theirs) = (&mut self.directions[line], &mut other.directions[line]);
        this.counts.arrived = theirs.counts.arrived;
        this.first = theirs.first.take();
        this.behind = std::mem::take(&mut theirs.behind);
        this.pending_control = std::mem::take(&mut theirs.pending_control);
        for flying in this.first.iter_mut().chain(&mut this.behind).chain(&mut this.pending_control) {
            // Without memory the results are invalid anyway.
            flying.frame = self.frames.put(other.frames.bytes(flying.frame)).unwrap_or(0);
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
    pub(crate) fn arriving(&self, line: usize) -> Option<InFlightFrame> {
        self.directions[line].first.filter(|first| first.at == self.now)
    }

    /// Takes the first frame off a link direction, which has arrived.
    #[inline]
    pub(crate) fn arrived(&mut self, line: usize) {
        self.directions[line].arrived(&mut self.queue);
    }

    /// Delays the first frame of a link direction, a PFC frame that has arrived, until it takes
    /// effect ([`Links::take_control`]).
    pub(crate) fn delay_control(&mut self, line: usize) {
        let this = &mut self.directions[line];
        let Some(arrived) = this.arrived(&mut self.queue) else { return };
        let at = self.now + this.response;
        this.pending_control.push_back(InFlightFrame { at, ..arrived });
        let node = this.to.node;
        self.queue.schedule(at, node, Event::Control(line));
    }

    /// Takes the PFC frame of a link direction that takes effect now.
    pub(crate) fn take_control(&mut self, line: usize) -> Option<InFlightFrame> {
        let pending_control = &mut self.directions[line].pending_control;
        pending_control.front().filter(|pending| pending.at <= self.now)?;
        pending_control.pop_front()
    }

    /// Cuts one direction of a cable: the frames on it are lost, and nothing more is sent.
    pub(crate) fn cut(&mut self, line: usize) {
        let this = &mut self.directions[line];
        this.up = false;
        // PFC frames that have arrived and have not taken effect are lost too.
        this.counts.arrived -= this.pending_control.len() as u64;
        let in_flight = this.first.take().into_iter().chain(this.behind.drain(..));
        for lost in in_flight.chain(this.pending_control.drain(..)) {
            this.counts.cut += 1;
            self.frames.free(lost.frame);
        }
        // Frames that were sent to another part at this very time.
        if let Some(part) = this.other_part {
            let frames = &mut self.mail[part].frames;
            let before = frames.len();
            frames.retain(|(of, ..)| *of != line);
            this.counts.cut += (before - frames.len()) as u64;
        }
    }

    /// The stored bytes of the frames in flight, each with its link direction.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (usize, &[u8; CARRIED_BYTES])> {
        self.directions.iter().enumerate().flat_map(move |(number, line)| {
            let flying = line.first.iter().chain(&line.behind);
            flying.map(move |flying| (number, self.frames.bytes(flying.frame)))
        })
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
pub(crate) struct InFlightFrame {
    /// Time of arrival.
    at: Picos,
    /// Number of the frame in the network.
    pub(crate) frame: u32,
    /// Length without FCS.
    pub(crate) len: u16,
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
    /// The frame in flight that arrives first. Its time is that of the only valid arrival event:
    /// others belong to frames that were lost by a cut.
    first: Option<InFlightFrame>,
    /// The frames in flight behind it, in the order of their arrival. On a short cable there are
    /// none.
    behind: VecDeque<InFlightFrame>,
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
            first: None,
            behind: VecDeque::new(),
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
    fn fly(&mut self, flying: InFlightFrame, queue: &mut Queue) {
        if self.first.is_some() {
            self.behind.push_back(flying);
            return;
        }
        self.first = Some(flying);
        queue.schedule(flying.at, self.to.node, Event::Arrive(self.number));
    }

    /// Removes the first frame, which has arrived, and returns it.
    #[inline]
    fn arrived(&mut self, queue: &mut Queue) -> Option<InFlightFrame> {
        let arrived = self.first.take()?;
        self.counts.arrived += 1;
        self.first = self.behind.pop_front();
        if let Some(next) = self.first {
            queue.schedule(next.at, self.to.node, Event::Arrive(self.number));
        }
        Some(arrived)
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
        u64::from(self.first.is_some()) + self.behind.len() as u64
    }
}
