//! One flow: when its next frame is due at the sender, and what its receiver has received of it.
//!
//! Rule: frames are due at the traffic's rate. Frames that a sender could not send when they were
//! due wait, but at most [`MAX_BACKLOG_FRAMES`], as with `sluice host`; any beyond that are never
//! sent. A flow that reacts to marks also spaces its frames as its reaction point requires.
//! Messages wait until earlier messages are sent.

use std::collections::{BTreeMap, VecDeque};

use endpoint::MAX_BACKLOG_FRAMES;
use endpoint::dcqcn::Dcqcn;

use crate::packet::{Packet, PacketHeaders};
use crate::scenario::{Pattern, Traffic};
use crate::time::{NEVER, Picos, instant, of_bytes, of_ns};

/// Frames that a flow may send closer together than its reaction point requires, after it was
/// blocked.
const BURST_FRAMES: u64 = 8;

const ECT0: u8 = 0b10;

/// One flow: its sender and its receiver.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) traffic: usize,
    /// The sender, by its number among the hosts.
    pub(crate) from: usize,
    pub(crate) headers: PacketHeaders,
    /// The frame that the flow sent last; before that, the first frame.
    pub(crate) packet: Packet,
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
    /// True if the flow is in a queue of its host, or an event will put it there.
    pub(crate) is_listed: bool,
    pub(crate) sent_frames: u64,
    pub(crate) messages: u64,
    reaction: Option<Dcqcn>,
}

/// The receiver's side of a flow.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    /// Frames per message; 0 if the flow has no messages.
    pub(crate) message_frames: u64,
    /// When each message was ready to be sent, from message `first_message` on.
    begun_at: VecDeque<Picos>,
    first_message: u64,
    /// Frames of the first message that have arrived.
    message_received: u64,
    /// The number after the highest frame number that has arrived.
    next_number: u64,
    /// Numbers below `next_number` that have not arrived: the end of each range, by its beginning.
    missing: BTreeMap<u64, u64>,
    pub(crate) received_frames: u64,
    /// Frames that had arrived before, as when several copies of a flooded frame arrive.
    pub(crate) repeated_frames: u64,
    pub(crate) reordered_frames: u64,
    pub(crate) marked_frames: u64,
    /// No CNP is sent before this time.
    quiet_until: Picos,
    cnp_interval: Picos,
    /// When the measuring window begins.
    measured_from: Picos,
    /// Frames that arrived in the window.
    pub(crate) measured_frames: u64,
    pub(crate) last_arrival: Option<Picos>,
}

/// Result of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiveOutcome {
    /// True if a CNP is to be sent.
    pub(crate) sends_cnp: bool,
    /// Number of the completed message, and when it was ready to be sent; `None` if the frame
    /// completed no message.
    pub(crate) completed: Option<(u64, Picos)>,
}

impl Flow {
    /// Creates a flow that has not begun; `host_speed_bps` is the speed of its sender's link.
    pub(crate) fn new(
        (traffic_number, traffic): (usize, &Traffic),
        from: usize,
        mut headers: PacketHeaders,
        overhead_bytes: u16,
        host_speed_bps: u64,
        measured_from: Picos,
    ) -> Self {
        headers.ecn = if traffic.ecn || traffic.dcqcn.is_some() { ECT0 } else { 0 };
        let line_bytes = u64::from(traffic.frame_bytes) + u64::from(overhead_bytes);
        let most_bps = traffic.rate_bps.min(host_speed_bps);
        let spacing = match traffic.pattern {
            Pattern::Poisson { .. } => 0, // the host's link spaces them
            _ => of_bytes(line_bytes, traffic.rate_bps),
        };
        let message_bytes = match traffic.pattern {
            Pattern::Constant | Pattern::OnOff { .. } => 0,
            Pattern::Finite { bytes } | Pattern::Poisson { bytes } | Pattern::Incast { bytes, .. } => bytes,
        };
        let reaction = traffic.dcqcn.map(|settings| Dcqcn::new(settings, most_bps, instant(0)));
        Self {
            traffic: traffic_number,
            from,
            packet: Packet::data(&headers),
            headers,
            sender: Sender {
                pattern: traffic.pattern,
                spacing,
                rate_bps: traffic.rate_bps,
                line_bytes,
                begun_at: None,
                stop: of_ns(traffic.stop_ns),
                end_due: match traffic.pattern {
                    Pattern::Poisson { .. } | Pattern::Incast { .. } => NEVER,
                    _ => of_ns(traffic.stop_ns),
                },
                due: 0,
                free_at: 0,
                left_frames: 0,
                is_listed: false,
                sent_frames: 0,
                messages: 0,
                reaction,
            },
            receiver: Receiver {
                message_frames: message_bytes.div_ceil(u64::from(traffic.frame_bytes)),
                cnp_interval: traffic.dcqcn.map_or(0, |settings| of_ns(settings.cnp_interval_ns)),
                measured_from,
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
            Pattern::Finite { .. } | Pattern::Poisson { .. } | Pattern::Incast { .. } => true,
        }
    }

    /// Returns when the first message is ready: those of a Poisson flow come at random times from
    /// the start. `None` if there is none before the flow stops. `random` is from 0 (excluded) to
    /// 1.
    pub(crate) fn first_message(&self, now: Picos, random: f64) -> Option<Picos> {
        let first = match self.sender.pattern {
            Pattern::Poisson { .. } => self.next_random(now, random),
            _ => now,
        };
        (first < self.sender.stop).then_some(first)
    }

    /// Adds a message that is ready. Returns the time of the next; `random` is from 0 (excluded) to
    /// 1.
    pub(crate) fn add_message(&mut self, now: Picos, random: f64) -> Option<Picos> {
        let frames = self.receiver.message_frames;
        self.sender.messages += 1;
        self.sender.left_frames += frames;
        self.receiver.begun_at.push_back(now);
        let next = match self.sender.pattern {
            Pattern::Incast { every_ns, .. } => now + of_ns(every_ns),
            Pattern::Poisson { .. } => self.next_random(now, random),
            _ => return None,
        };
        (next < self.sender.stop).then_some(next)
    }

    /// Returns when the next message of a Poisson flow is ready.
    fn next_random(&self, now: Picos, random: f64) -> Picos {
        let bytes = self.receiver.message_frames * self.sender.line_bytes;
        now + (-random.ln() * of_bytes(bytes, self.sender.rate_bps) as f64) as Picos
    }

    /// Returns when the flow can send a frame; `None` until another message is ready.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Picos> {
        let Sender { left_frames, due, free_at, end_due, .. } = self.sender;
        (left_frames > 0 && due < end_due).then_some(due.max(free_at))
    }

    /// Sends the next frame of the flow now, and stores it in `packet`.
    #[inline]
    pub(crate) fn take(&mut self, now: Picos) {
        let sender = &mut self.sender;
        self.packet.set_number(sender.sent_frames);
        sender.sent_frames += 1;
        if sender.left_frames != u64::MAX {
            sender.left_frames -= 1;
        }
        if let Some(reaction) = &mut sender.reaction {
            reaction.advance(instant(now));
            reaction.take(self.packet.len, instant(now));
            let spacing = of_bytes(sender.line_bytes, reaction.rate_bps());
            sender.free_at = (sender.free_at + spacing).max(now.saturating_sub(BURST_FRAMES * spacing));
        }
        let spacing = sender.spacing;
        sender.due = (sender.due + spacing).max(now.saturating_sub(MAX_BACKLOG_FRAMES * spacing));
        if let Pattern::OnOff { on_ns, off_ns } = sender.pattern {
            let (on, period) = (of_ns(on_ns), of_ns(on_ns) + of_ns(off_ns));
            let phase = (sender.due - sender.begun_at.unwrap_or(0)) % period;
            if phase >= on {
                sender.due += period - phase;
            }
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

    /// Handles the arrival of frame `number`.
    #[inline]
    pub(crate) fn receive(&mut self, number: u64, marked: bool, now: Picos) -> ReceiveOutcome {
        let sends_cnp = marked && self.sender.reaction.is_some() && now >= self.receiver.quiet_until;
        let receiver = &mut self.receiver;
        receiver.received_frames += 1;
        receiver.measured_frames += u64::from(now >= receiver.measured_from);
        receiver.last_arrival = Some(now);
        receiver.marked_frames += u64::from(marked);
        if sends_cnp {
            receiver.quiet_until = now + receiver.cnp_interval;
        }
        receiver.account(number);
        let completed = if receiver.message_frames == 0 { None } else { receiver.complete(number) };
        ReceiveOutcome { sends_cnp, completed }
    }
}

impl Receiver {
    /// Accounts for frame `number`: a new one, one that was overtaken, or a repetition.
    #[inline]
    fn account(&mut self, number: u64) {
        if number == self.next_number {
            self.next_number += 1;
        } else if number > self.next_number {
            self.missing.insert(self.next_number, number);
            self.next_number = number + 1;
        } else {
            self.reordered_frames += 1;
            self.repeated_frames += u64::from(!self.take_missing(number));
        }
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

    /// True if frame `number` has not arrived.
    pub(crate) fn is_missing(&self, number: u64) -> bool {
        let range = self.missing.range(..=number).next_back();
        number >= self.next_number || range.is_some_and(|(_, &end)| number < end)
    }

    /// Accounts for frame `number`. Returns the number and the start of its message if that is
    /// complete now. Earlier messages that lack a frame will never be complete.
    fn complete(&mut self, number: u64) -> Option<(u64, Picos)> {
        let message = number / self.message_frames;
        while self.first_message < message {
            self.begun_at.pop_front();
            self.first_message += 1;
            self.message_received = 0;
        }
        self.message_received += u64::from(message == self.first_message);
        if self.message_received < self.message_frames {
            return None;
        }
        self.first_message += 1;
        self.message_received = 0;
        Some((message, self.begun_at.pop_front()?))
    }
}
