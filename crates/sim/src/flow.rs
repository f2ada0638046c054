//! One flow: when its next frame is due at the sender, and what its receiver has received of it.
//!
//! Rule: frames are due at the traffic's rate. Frames that a sender could not send when they were
//! due wait, but at most [`MAX_BACKLOG_FRAMES`], as with `sluice host`; any beyond that are never
//! sent. A flow that reacts to marks also spaces its frames as its reaction point requires.
//! Messages wait until earlier messages are sent. A message has exactly its bytes: its last frame
//! is as short as they require, but at least [`MIN_FRAME_BYTES`]. Frames of a trace are due at the
//! times of its file, and wait however long the sender is paused.
//!
//! If its frames are acknowledged, lost ones are sent again, and the congestion control of
//! [`acked`] limits it. The receiver of go-back-N then discards frames out of order.

pub(crate) mod acked;
mod retransmissions;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use endpoint::MAX_BACKLOG_FRAMES;
use endpoint::dcqcn::Dcqcn;
use endpoint::feedback::FlowPath;
use endpoint::retransmission::Retransmission;
use wire::random::Random;

use self::acked::AckedSender;
use self::retransmissions::Retransmissions;
use crate::packet::{AckContent, Packet, PacketHeaders};
use crate::scenario::{FrameTrace, Pattern, SizeTable, TraceRun, Traffic};
use crate::time::{NEVER, Picos, instant, of_bytes, of_ns};
use crate::trace::int_log::IntLog;

/// Frames that a flow may send closer together than its congestion control requires, after it was
/// blocked.
const BURST_FRAMES: u64 = 8;

/// Messages behind one that lacks a frame; more move that one to `Receiver::overtaken`.
const MAX_OPEN_MESSAGES: usize = 4096;
/// Length of the shortest frame with a tag, without FCS.
const MIN_FRAME_BYTES: u64 = 64;

const ECT0: u8 = 0b10;

/// Returns the number of frames of a message, and the length of the last.
pub(crate) fn frames_of(bytes: u64, frame_bytes: u64) -> (u64, u16) {
    let frames = bytes.div_ceil(frame_bytes).max(1);
    let rest = bytes.saturating_sub((frames - 1) * frame_bytes).max(MIN_FRAME_BYTES);
    (frames, rest.min(frame_bytes) as u16)
}

/// Returns the generator of a flow: those of two flows of a run have nothing in common.
fn random_of(seed: u64, flow: usize) -> Random {
    let of_flow = Random::new(flow as u64).bits();
    Random::new(Random::new(seed ^ of_flow).bits())
}

/// One flow: its sender and its receiver.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) traffic: usize,
    /// The sender, by its number among the hosts.
    pub(crate) from: usize,
    pub(crate) headers: PacketHeaders,
    /// A frame of full length, with the number of the one that was sent last.
    packet: Packet,
    /// The last frame of a message, if that is shorter and was sent last.
    short_packet: Packet,
    sends_short: bool,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

/// The sender's side of a flow.
#[derive(Debug)]
pub(crate) struct Sender {
    pattern: Pattern,
    /// Time on the wire of a frame at the traffic's rate.
    spacing: Picos,
    rate_bps: u64,
    /// Bytes on the wire of a frame.
    pub(crate) line_bytes: u64,
    pub(crate) begun_at: Option<Picos>,
    /// No message is added at or after this time.
    stop: Picos,
    /// No frame is due at or after this time, except for repeated messages, which are sent
    /// completely.
    end_due: Picos,
    /// When the next frame is due.
    due: Picos,
    /// When the reaction point permits the next frame.
    free_at: Picos,
    /// Frames of messages that are ready; unlimited for traffic without end.
    left_frames: u64,
    /// Bytes of a frame.
    frame_bytes: u64,
    /// Bytes of a message; 0 if the flow has no messages.
    pub(crate) message_bytes: u64,
    /// Messages that are ready: the number after the last frame, and its length.
    to_send: VecDeque<(u64, u16)>,
    /// The number after the last frame of the last message.
    end: u64,
    /// True if the flow is in a queue of its host, or an event will put it there.
    pub(crate) is_listed: bool,
    pub(crate) sent_frames: u64,
    pub(crate) messages: u64,
    /// Random numbers of this flow alone.
    random: Random,
    reaction: Option<Dcqcn>,
    trace: Option<TraceReader>,
    /// `None` if frames are not acknowledged.
    pub(crate) acked: Option<Box<AckedSender>>,
    /// Retransmissions by message.
    pub(crate) retransmissions: Retransmissions,
}

/// The next frame of a trace.
#[derive(Debug)]
struct TraceReader {
    trace: Arc<FrameTrace>,
    /// Index of its run.
    run: usize,
    /// Frames of that run that have been taken.
    taken: u32,
}

impl TraceReader {
    /// The run of the next frame; `None` at the end.
    fn next(&self) -> Option<&TraceRun> {
        self.trace.runs().get(self.run)
    }

    /// Takes the next frame.
    fn take(&mut self) {
        self.taken += 1;
        if self.next().is_some_and(|run| self.taken >= run.frames) {
            (self.run, self.taken) = (self.run + 1, 0);
        }
    }
}

/// The receiver's side of a flow.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    /// Messages that are not complete, from message `first_message` on, and complete ones behind
    /// them.
    messages: VecDeque<Message>,
    first_message: u64,
    /// Messages before `first_message` that lack a frame, each with its number, by the number after
    /// its last frame.
    overtaken: BTreeMap<u64, (u64, Message)>,
    /// The number after the highest frame number that has arrived.
    next_number: u64,
    /// Numbers below `next_number` that have not arrived: the end of each range, by its beginning.
    missing: BTreeMap<u64, u64>,
    pub(crate) received_frames: u64,
    /// Frames that had arrived before, as when several copies of a flooded frame arrive.
    pub(crate) repeated_frames: u64,
    pub(crate) reordered_frames: u64,
    pub(crate) marked_frames: u64,
    /// Retransmission of the flow; `None` if its frames are not acknowledged.
    retransmission: Option<Retransmission>,
    /// True if the first frame since the expected one was reported as discarded.
    is_nak_sent: bool,
    /// No CNP is sent before this time.
    quiet_until: Picos,
    cnp_interval: Picos,
    /// When the measuring window begins.
    measured_from: Picos,
    /// Bytes on the wire that arrived in the window.
    pub(crate) measured_bytes: u64,
    /// Bytes of the frames received, without FCS and repetitions.
    pub(crate) bytes: u64,
    pub(crate) last_arrival: Option<Picos>,
}

/// A message at its receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    /// The numbers of its first frame, and after its last.
    begin: u64,
    end: u64,
    bytes: u64,
    /// When it was ready to be sent.
    begun_at: Picos,
    received_frames: u64,
}

impl Message {
    fn is_complete(&self) -> bool {
        self.received_frames >= self.end - self.begin
    }

    /// Describes it as the message with this number in its flow.
    fn report(&self, number: u64) -> ReportedMessage {
        ReportedMessage { number, bytes: self.bytes, begun_at: self.begun_at }
    }
}

/// A message as its receiver reports it: one that arrived completely, or has not at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReportedMessage {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// When it was ready to be sent.
    pub(crate) begun_at: Picos,
}

/// Result of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiveOutcome {
    /// True if a CNP is to be sent.
    pub(crate) sends_cnp: bool,
    /// The message that the frame completed.
    pub(crate) completed: Option<ReportedMessage>,
    /// False if the frame counts for nothing: it was discarded, or had arrived before and is
    /// acknowledged.
    pub(crate) counts: bool,
    /// False if the frame was discarded, or had arrived before.
    pub(crate) is_new: bool,
    /// The acknowledgment that is to be sent.
    pub(crate) ack: Option<AckContent>,
}

impl Flow {
    /// Creates a flow that has not begun.
    pub(crate) fn new(
        (traffic_number, traffic): (usize, &Traffic),
        from: usize,
        mut headers: PacketHeaders,
        overhead_bytes: u16,
        path: &FlowPath,
        (seed, measured_from): (u64, Picos),
    ) -> Self {
        headers.ecn = if traffic.ecn || traffic.dcqcn.is_some() { ECT0 } else { 0 };
        let line_bytes = u64::from(traffic.frame_bytes) + u64::from(overhead_bytes);
        let most_bps = traffic.rate_bps.min(path.max_bps);
        let spacing = match traffic.pattern {
            Pattern::Poisson { .. } => 0, // the host's link spaces them
            _ => of_bytes(line_bytes, traffic.rate_bps),
        };
        let message_bytes = match traffic.pattern {
            Pattern::Constant | Pattern::OnOff { .. } | Pattern::Collective { .. } | Pattern::Trace => 0,
            Pattern::Finite { bytes } | Pattern::Poisson { bytes } | Pattern::Incast { bytes, .. } => bytes,
        };
        let dcqcn = traffic.dcqcn_of(headers.from);
        let reaction = dcqcn.map(|settings| Dcqcn::new(settings, most_bps, instant(0)));
        Self {
            traffic: traffic_number,
            from,
            packet: Packet::data(&headers),
            short_packet: Packet::data(&headers),
            sends_short: false,
            headers,
            sender: Sender {
                pattern: traffic.pattern,
                spacing,
                rate_bps: traffic.rate_bps,
                line_bytes,
                begun_at: None,
                stop: of_ns(traffic.stop_ns),
                end_due: match traffic.pattern {
                    Pattern::Poisson { .. } | Pattern::Incast { .. } | Pattern::Collective { .. } => NEVER,
                    _ => of_ns(traffic.stop_ns),
                },
                due: 0,
                free_at: 0,
                left_frames: 0,
                frame_bytes: u64::from(traffic.frame_bytes),
                message_bytes,
                to_send: VecDeque::new(),
                end: 0,
                is_listed: false,
                sent_frames: 0,
                messages: 0,
                random: random_of(seed, headers.flow),
                reaction,
                trace: traffic.trace.clone().map(|trace| TraceReader { trace, run: 0, taken: 0 }),
                acked: traffic.acks.as_ref().map(|acks| Box::new(AckedSender::new(acks, path))),
                retransmissions: Retransmissions::default(),
            },
            receiver: Receiver {
                cnp_interval: dcqcn.map_or(0, |settings| of_ns(settings.cnp_interval_ns)),
                measured_from,
                retransmission: traffic.acks.as_ref().map(|acks| acks.retransmission),
                ..Receiver::default()
            },
        }
    }

    /// Begins the flow. True if its messages come by events, the first one now.
    pub(crate) fn begin(&mut self, now: Picos) -> bool {
        self.sender.begun_at = Some(now);
        self.sender.due = now;
        match self.sender.pattern {
            Pattern::Constant | Pattern::OnOff { .. } => {
                self.sender.left_frames = u64::MAX;
                false
            }
            Pattern::Trace => {
                let sender = &mut self.sender;
                sender.left_frames = sender.trace.as_ref().map_or(0, |reader| reader.trace.frames());
                sender.plan_traced();
                false
            }
            Pattern::Collective { .. } => false,
            Pattern::Finite { .. } | Pattern::Poisson { .. } | Pattern::Incast { .. } => true,
        }
    }

    /// Returns when the first message is ready: those of a Poisson flow come at random times from
    /// the start. `None` if there is none before the flow stops.
    pub(crate) fn first_message(&mut self, now: Picos) -> Option<Picos> {
        let first = match self.sender.pattern {
            Pattern::Poisson { .. } => self.next_random(now),
            _ => now,
        };
        (first < self.sender.stop).then_some(first)
    }

    /// Adds a message that is ready, of one of `sizes` or as long as all. Returns it with the time
    /// of the next.
    pub(crate) fn add_message(&mut self, sizes: Option<&SizeTable>, now: Picos) -> (Message, Option<Picos>) {
        let bytes = sizes.map(|sizes| sizes.quantile(self.sender.random.fraction()));
        let message = self.push_message(bytes.unwrap_or(self.sender.message_bytes), now);
        (message, self.next_message(now))
    }

    /// Returns when the message after one that is ready now is.
    fn next_message(&mut self, now: Picos) -> Option<Picos> {
        let next = match self.sender.pattern {
            Pattern::Incast { every_ns, .. } => now + of_ns(every_ns),
            Pattern::Poisson { .. } => self.next_random(now),
            _ => return None,
        };
        (next < self.sender.stop).then_some(next)
    }

    /// Adds a message of `bytes` bytes to what is to be sent. Returns it for its receiver.
    pub(crate) fn push_message(&mut self, bytes: u64, now: Picos) -> Message {
        let sender = &mut self.sender;
        let (frames, last_len) = frames_of(bytes, sender.frame_bytes);
        let (begin, end) = (sender.end, sender.end + frames);
        sender.messages += 1;
        sender.left_frames += frames;
        sender.to_send.push_back((end, last_len));
        sender.end = end;
        if let Some(acked) = &sender.acked {
            sender.retransmissions.expect(end, acked.window.first());
        }
        Message { begin, end, bytes, begun_at: now, received_frames: 0 }
    }

    /// Prepares the receiver for a message, before its first frame arrives.
    pub(crate) fn expect_message(&mut self, message: Message) {
        self.receiver.messages.push_back(message);
    }

    /// Returns when the next message of a Poisson flow is ready.
    fn next_random(&mut self, now: Picos) -> Picos {
        let random = self.sender.random.fraction();
        self.message_after(now, random)
    }

    /// Returns when the message after one at `now` is ready, for a random number from 0 to 1.
    fn message_after(&self, now: Picos, random: f64) -> Picos {
        let Sender { message_bytes, frame_bytes, line_bytes, .. } = self.sender;
        let bytes = message_bytes + message_bytes.div_ceil(frame_bytes) * (line_bytes - frame_bytes);
        now + (-random.ln() * of_bytes(bytes, self.sender.rate_bps) as f64) as Picos
    }

    /// Returns the number of messages that the flow will have if it begins at `begin`: a Poisson
    /// flow draws the same random numbers then. `sizes` is true if it also draws their sizes.
    pub(crate) fn planned_messages(&self, seed: u64, begin: Picos, sizes: bool) -> usize {
        let stop = self.sender.stop;
        match self.sender.pattern {
            Pattern::Incast { every_ns, .. } => stop.saturating_sub(begin).div_ceil(of_ns(every_ns)) as usize,
            Pattern::Poisson { .. } => {
                let mut random = random_of(seed, self.headers.flow);
                let mut count = 0;
                let mut at = self.message_after(begin, random.fraction());
                while at < stop {
                    count += 1;
                    if sizes {
                        random.fraction();
                    }
                    at = self.message_after(at, random.fraction());
                }
                count
            }
            _ => 0,
        }
    }

    /// Returns when the flow can send a frame; `None` until another message is ready.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Picos> {
        if let Some(acked) = &self.sender.acked {
            if !acked.may_send() {
                return None;
            }
            if acked.window.has_lost() {
                return Some(self.sender.free_at);
            }
            if !acked.may_send_new() {
                return None;
            }
        }
        let Sender { left_frames, due, free_at, end_due, .. } = self.sender;
        (left_frames > 0 && due < end_due).then_some(due.max(free_at))
    }

    /// The frame that was sent last.
    #[inline]
    pub(crate) fn packet(&self) -> &Packet {
        if self.sends_short { &self.short_packet } else { &self.packet }
    }

    /// Takes the next frame of the flow, to be sent now: the first lost one, or a new one. Returns
    /// its number, and true if it is new.
    #[inline]
    pub(crate) fn take(&mut self, now: Picos) -> (u64, bool) {
        let acked = self.sender.acked.as_mut();
        if let Some((number, len)) = acked.and_then(|acked| acked.window.send_lost(instant(now))) {
            let window = self.sender.acked.as_ref().map(|acked| &acked.window);
            let repetitions = window.map_or(0, |window| window.repetitions(number));
            self.set_packet(number, len, repetitions);
            self.space(len, now);
            self.sender.retransmissions.add(number);
            return (number, false);
        }
        let number = self.sender.sent_frames;
        self.sender.sent_frames += 1;
        let traced = self.sender.take_traced();
        let len = match traced {
            Some(len) => len,
            None if self.sender.left_frames == u64::MAX => self.packet.len,
            None => self.next_len(number),
        };
        self.set_packet(number, len, 0);
        if let Some(acked) = &mut self.sender.acked {
            acked.window.send_new(len, instant(now));
        }
        let line_bytes = self.space(len, now);
        if traced.is_some() {
            return (number, true);
        }
        let sender = &mut self.sender;
        let mut spacing = sender.spacing;
        if self.sends_short && spacing > 0 {
            spacing = of_bytes(line_bytes, sender.rate_bps);
        }
        sender.due = (sender.due + spacing).max(now.saturating_sub(MAX_BACKLOG_FRAMES * spacing));
        if let Pattern::OnOff { on_ns, off_ns } = sender.pattern {
            let (on, period) = (of_ns(on_ns), of_ns(on_ns) + of_ns(off_ns));
            let phase = (sender.due - sender.begun_at.unwrap_or(0)) % period;
            if phase >= on {
                sender.due += period - phase;
            }
        }
        (number, true)
    }

    /// Sets the frame that is sent, and how often it was sent before.
    #[inline]
    fn set_packet(&mut self, number: u64, len: u16, repetitions: u32) {
        self.sends_short = len != self.packet.len;
        if self.sends_short {
            self.short_packet = Packet::data(&PacketHeaders { len, ..self.headers });
            self.short_packet.set_number(number, repetitions);
        } else {
            self.packet.set_number(number, repetitions);
        }
    }

    /// Spaces the next frame from one of `len` bytes that is sent now, as congestion control
    /// requires. Returns the bytes of that one on the wire.
    #[inline]
    fn space(&mut self, len: u16, now: Picos) -> u64 {
        let sender = &mut self.sender;
        let line_bytes = sender.line_bytes - u64::from(self.packet.len - len);
        let (rate_bps, burst) = if let Some(reaction) = &mut sender.reaction {
            reaction.advance(instant(now));
            reaction.take(len, instant(now));
            (Some(reaction.rate_bps()), true)
        } else {
            let acked = sender.acked.as_ref();
            (acked.and_then(|acked| acked.pacing_bps()), acked.is_some_and(|acked| acked.may_burst()))
        };
        if let Some(rate_bps) = rate_bps {
            let spacing = of_bytes(line_bytes, rate_bps);
            let behind = if burst { (BURST_FRAMES + 1) * spacing } else { 0 };
            sender.free_at = sender.free_at.max(now.saturating_sub(behind)) + spacing;
        }
        line_bytes
    }

    /// Returns the length of frame `number`, of a message.
    fn next_len(&mut self, number: u64) -> u16 {
        self.sender.left_frames -= 1;
        match self.sender.to_send.front() {
            Some(&(end, len)) if end == number + 1 => {
                self.sender.to_send.pop_front();
                len
            }
            _ => self.packet.len,
        }
    }

    /// Handles a received CNP.
    pub(crate) fn cut(&mut self, now: Picos) {
        if let Some(reaction) = &mut self.sender.reaction {
            reaction.cut(instant(now));
        }
    }

    /// The CNPs received, for flows that react to marks.
    pub(crate) fn cnps(&self) -> u64 {
        self.sender.reaction.as_ref().map_or(0, Dcqcn::cnps)
    }

    /// Handles an acknowledgment, with the records of the switches that its frame passed.
    pub(crate) fn acknowledge(&mut self, ack: &AckContent, mut int: Option<&mut IntLog>, now: Picos) {
        let next_number = self.sender.sent_frames;
        if let Some(acked) = &mut self.sender.acked {
            let number = acked.expand(ack.number);
            let flow = self.headers.flow;
            let is_unacked = number >= acked.window.first();
            let int_of = int.as_mut().filter(|_| is_unacked);
            let hops = int_of.map(|int| int.take(flow, number, ack.repetition)).unwrap_or_default();
            acked.acknowledge(ack, &hops, next_number, now);
            if let Some(int) = int {
                int.forget_before(flow, acked.window.first());
            }
        }
    }

    /// Frames that were sent again.
    pub(crate) fn retransmitted_frames(&self) -> u64 {
        self.sender.acked.as_ref().map_or(0, |acked| acked.window.retransmitted_frames())
    }

    /// Handles the arrival of a frame, by its number and repetition, that had `line_bytes` bytes
    /// on the wire.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        frame: (u64, u8),
        marked: bool,
        line_bytes: u64,
        now: Picos,
    ) -> ReceiveOutcome {
        let (number, _) = frame;
        let sends_cnp = marked && self.sender.reaction.is_some() && now >= self.receiver.quiet_until;
        let receiver = &mut self.receiver;
        if sends_cnp {
            receiver.quiet_until = now + receiver.cnp_interval;
        }
        if receiver.retransmission == Some(Retransmission::GoBackN) && number > receiver.next_number {
            let is_first = !std::mem::replace(&mut receiver.is_nak_sent, true);
            let ack = is_first.then(|| AckContent::new(receiver.next_number, frame, marked, true));
            return ReceiveOutcome { sends_cnp, completed: None, counts: false, is_new: false, ack };
        }
        // A repetition of what has arrived does not end the gap that was reported.
        receiver.is_nak_sent &= number != receiver.next_number;
        receiver.received_frames += 1;
        receiver.last_arrival = Some(now);
        receiver.marked_frames += u64::from(marked);
        let is_new = receiver.account(number);
        let counts = is_new || receiver.retransmission.is_none();
        receiver.measured_bytes += if counts && now >= receiver.measured_from { line_bytes } else { 0 };
        let completed = if is_new { receiver.complete(number) } else { None };
        let ack = receiver.retransmission.map(|_| AckContent::new(receiver.expected(), frame, marked, false));
        ReceiveOutcome { sends_cnp, completed, counts, is_new, ack }
    }
}

impl Sender {
    /// Makes the next frame of a trace due at its time.
    fn plan_traced(&mut self) {
        if let Some(run) = self.trace.as_ref().and_then(TraceReader::next) {
            self.due = self.begun_at.unwrap_or(0) + of_ns(run.at_ns);
        }
    }

    /// Takes the next frame of a trace. Returns its length; `None` if the flow has no trace.
    #[inline]
    fn take_traced(&mut self) -> Option<u16> {
        let reader = self.trace.as_mut()?;
        let len = reader.next()?.len;
        reader.take();
        self.left_frames -= 1;
        self.plan_traced();
        Some(len)
    }
}

impl Receiver {
    /// The number of the first frame that has not arrived.
    fn expected(&self) -> u64 {
        self.missing.first_key_value().map_or(self.next_number, |(&begin, _)| begin)
    }

    /// Accounts for frame `number`: a new one, one that was overtaken, or a repetition. Returns
    /// false for a repetition.
    #[inline]
    fn account(&mut self, number: u64) -> bool {
        if number == self.next_number {
            self.next_number += 1;
        } else if number > self.next_number {
            self.missing.insert(self.next_number, number);
            self.next_number = number + 1;
        } else {
            self.reordered_frames += 1;
            let is_new = self.take_missing(number);
            self.repeated_frames += u64::from(!is_new);
            return is_new;
        }
        true
    }

    /// Removes a number from the missing ones. Returns false if it is not one of them.
    fn take_missing(&mut self, number: u64) -> bool {
        let range = self.missing.range(..=number).next_back();
        let Some((&begin, &end)) = range.filter(|&(_, &end)| number < end) else { return false };
        self.missing.remove(&begin);
        for (begin, end) in [(begin, number), (number + 1, end)] {
            if begin < end {
                self.missing.insert(begin, end);
            }
        }
        true
    }

    /// The messages that are expected and not complete.
    pub(crate) fn open_messages(&self) -> impl Iterator<Item = ReportedMessage> + '_ {
        let overtaken = self.overtaken.values().map(|(number, message)| (*number, message));
        let open = overtaken.chain((self.first_message..).zip(&self.messages));
        open.filter(|(_, message)| !message.is_complete()).map(|(number, message)| message.report(number))
    }

    /// True if frame `number` has not arrived.
    pub(crate) fn is_missing(&self, number: u64) -> bool {
        let range = self.missing.range(..=number).next_back();
        number >= self.next_number || range.is_some_and(|(_, &end)| number < end)
    }

    /// Accounts for frame `number`, a new one. Returns its message if that is complete now.
    #[inline]
    fn complete(&mut self, number: u64) -> Option<ReportedMessage> {
        let front = self.messages.front();
        if !self.overtaken.is_empty() && front.is_none_or(|front| number < front.begin) {
            return self.complete_overtaken(number);
        }
        let front = front.filter(|front| number >= front.begin)?;
        let index = if number < front.end {
            0
        } else {
            self.messages.partition_point(|message| message.end <= number)
        };
        let message = self.messages.get_mut(index)?;
        message.received_frames += 1;
        if !message.is_complete() {
            return None;
        }
        let completed = message.report(self.first_message + index as u64);
        // A message that lacks a lost frame does not keep the complete ones behind it for long.
        // Those that nothing has arrived of, or of a later one, wait at the sender.
        let next = self.next_number;
        let is_overtaken = |message: &Message| message.begin < next;
        while self.messages.front().is_some_and(Message::is_complete)
            || self.messages.get(MAX_OPEN_MESSAGES).is_some_and(is_overtaken)
        {
            let front = self.messages.pop_front()?;
            if !front.is_complete() {
                self.overtaken.insert(front.end, (self.first_message, front));
            }
            self.first_message += 1;
        }
        Some(completed)
    }

    /// Accounts for frame `number` of a message that many others have overtaken. Returns the
    /// message if that is complete now.
    #[cold]
    fn complete_overtaken(&mut self, number: u64) -> Option<ReportedMessage> {
        let (&end, (index, message)) = self.overtaken.range_mut(number + 1..).next()?;
        if number < message.begin {
            return None;
        }
        message.received_frames += 1;
        let completed = message.is_complete().then(|| message.report(*index))?;
        self.overtaken.remove(&end);
        Some(completed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{AckSettings, Start, TransportSettings};
    use endpoint::swift::SwiftSettings;

    /// Frame 1 is missing: its gap is reported once, although a copy of frame 0 arrives meanwhile.
    #[test]
    fn a_gap_is_reported_once() {
        let mut flow = flow(Retransmission::GoBackN, None);
        let mut acked =
            |number: u64| flow.receive((number, 0), false, 1000, 0).ack.map(|ack| (ack.expected, ack.is_nak));
        assert_eq!(acked(0), Some((1, false)));
        assert_eq!(acked(2), Some((1, true)));
        assert_eq!(acked(3), None);
        assert_eq!(acked(0), Some((1, false)), "a copy");
        assert_eq!(acked(4), None, "the gap is the same");
        assert_eq!(acked(1), Some((2, false)));
        assert_eq!(acked(3), Some((2, true)), "another one");
    }

    /// Half a frame per 10 us is a frame each 20 us, from the first on: one that was not paced
    /// before has no credit.
    #[test]
    fn a_window_below_a_frame_has_no_burst() {
        let settings = SwiftSettings { max_frames: 0.5, ..SwiftSettings::DEFAULT };
        let mut flow = flow(Retransmission::Selective, Some(TransportSettings::Swift(settings)));
        flow.begin(0);
        let mut now = of_ns(1_000_000);
        for number in 0..3 {
            assert_eq!(flow.take(now), (number, true));
            let ack = AckContent::new(number + 1, (number, 0), false, false);
            flow.acknowledge(&ack, None, now + of_ns(10_000));
            assert_eq!(flow.next_due(), Some(now + of_ns(20_000)));
            now += of_ns(20_000);
        }
    }

    /// Of 5000 messages of two frames the first, third and last lack one each. The third is
    /// repaired late, when thousands have overtaken it.
    #[test]
    fn overtaken_messages_stay_unfinished_or_complete_late() {
        let mut flow = flow(Retransmission::Selective, None);
        for _ in 0..5000 {
            let message = flow.push_message(2000, 0);
            flow.expect_message(message);
        }
        let open = |flow: &Flow| -> Vec<u64> {
            flow.receiver.open_messages().map(|message| message.number).collect()
        };
        assert_eq!(open(&flow).len(), 5000);
        let lost = [1, 4, 9999];
        for number in (0..10_000).filter(|number| !lost.contains(number)) {
            flow.receive((number, 0), false, 1000, 0);
        }
        assert!(flow.receiver.messages.len() <= MAX_OPEN_MESSAGES, "{}", flow.receiver.messages.len());
        assert_eq!(open(&flow), [0, 2, 4999]);
        let completed = flow.receive((4, 1), false, 1000, 0).completed;
        assert_eq!(completed.map(|message| (message.number, message.bytes)), Some((2, 2000)));
        assert_eq!(flow.receive((4, 1), false, 1000, 0).completed, None, "a copy");
        assert_eq!(open(&flow), [0, 4999]);
    }

    fn flow(retransmission: Retransmission, transport: Option<TransportSettings>) -> Flow {
        let acks = AckSettings { priority: 0, dscp: 0, retransmission, timeout_ns: 10_000_000, transport };
        let traffic = Traffic {
            name: String::new(),
            flows: vec![(0, 1)],
            ranks: Vec::new(),
            priority: 0,
            dscp: 0,
            frame_bytes: 1000,
            rate_bps: 1_000_000_000,
            pattern: Pattern::Constant,
            sizes: None,
            trace: None,
            start: Start::At(0),
            stop_ns: 2_000_000,
            ecn: false,
            dcqcn: None,
            host_dcqcn: Vec::new(),
            acks: Some(acks),
        };
        let vids = [0, 0];
        let headers =
            PacketHeaders { flow: 0, from: 0, to: 1, vids, priority: 0, dscp: 0, ecn: 0, len: 1000 };
        let path = FlowPath { max_bps: 1_000_000_000, base_rtt_ns: 10_000, hops: 0, frame_bytes: 1000 };
        Flow::new((0, &traffic), 0, headers, 0, &path, (1, 0))
    }
}
