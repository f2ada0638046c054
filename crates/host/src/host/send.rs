//! Transmission by a host in an iteration: LLDP first, then announcements, CNPs, due frames of its
//! flows, and its storm.
//!
//! Rule: no frame of a paused priority is sent, or of one whose queue of the port is full, and the
//! kernel holds at most [`IN_FLIGHT_BYTES`](crate::in_flight::IN_FLIGHT_BYTES) at once.

use super::{Host, HostState};
use crate::args::FlowArgs;
use crate::egress::Departure;
use crate::frame::{self, Content, FrameKind, MIN_BYTES, MIN_IP_BYTES};
use crate::in_flight::{FrameContent, LoadKind};
use dataplane::Port;
use switch::settings::PRIORITIES;
use switch::{FrameMemory, Instant, Nanos, TxDesc};
use wire::MacAddr;
use wire::bitset::Set8;
use wire::ethernet::Tag;
use wire::pause::{FRAME_BYTES, Pfc};

/// Priority of CNPs, and their ECN field, ECT(1): docs/references.md, "Inspur white paper" (figure
/// 3-5).
const CNP_PRIORITY: u8 = 6;
const CNP_ECN: u8 = 0b01;
/// Time between the first announcements.
const FIRST_ANNOUNCEMENTS_NS: Nanos = 100_000_000;
/// Number of the first announcements.
const FIRST_ANNOUNCEMENTS: u64 = 5;
/// Time between all later announcements.
const ANNOUNCEMENTS_NS: Nanos = 1_000_000_000;

impl<P: Port> Host<P> {
    /// Runs the last part of an iteration: pauses begin and end, and due frames that may leave are
    /// sent.
    pub fn send(&mut self, now: Instant) {
        let was_paused: [bool; PRIORITIES] = std::array::from_fn(|priority| self.egress.is_paused(priority));
        self.egress.advance(now);
        self.egress.set_blocked(self.port.blocked_queues());
        for (priority, was_paused) in was_paused.into_iter().enumerate() {
            self.record_late_frames(priority, was_paused);
        }
        self.negotiate(now);
        self.announce(now);
        self.send_cnps(now);
        if matches!(self.stage, HostState::Sending { .. })
            && self.egress.next_send(now).is_some_and(|due| due <= now)
        {
            self.fill_batch(now);
        }
        if self.storms(now) {
            self.send_storm();
        }
        if !self.outgoing.is_empty() {
            self.port.transmit(&mut self.memory, &mut self.outgoing);
        }
        if self.port.outstanding() > 0 {
            // Frames that the kernel loses are in its counters.
            self.port.kick();
            self.count_completed();
        }
    }

    pub(super) fn storms(&self, now: Instant) -> bool {
        now < self.storm_until && matches!(self.stage, HostState::Sending { .. })
    }

    /// Sends pauses of a storm, as many as there is room for.
    fn send_storm(&mut self) {
        let pfc = Pfc { enable: self.settings.stormed, quanta: [u16::MAX; PRIORITIES] };
        while self.in_flight.has_room() && self.port.transmit_room() > self.outgoing.len() {
            let Some(frame) = self.memory.alloc() else { return };
            let bytes = self.memory.bytes_mut(&frame, FRAME_BYTES).first_chunk_mut();
            pfc.encode(self.settings.mac, bytes.expect("60 bytes were asked for"));
            let len = FRAME_BYTES as u16;
            self.in_flight.add(&frame, FrameContent { kind: LoadKind::Storm, priority: 0, len });
            self.outgoing.push(TxDesc::new(frame, len));
        }
    }

    fn fill_batch(&mut self, now: Instant) {
        let room = self.port.transmit_room().saturating_sub(self.outgoing.len());
        for _ in 0..room {
            if !self.in_flight.has_room() || self.memory.free_frames() == 0 {
                break;
            }
            let Some(Departure { flow, priority, size_bytes }) = self.egress.next(now) else { break };
            if self.egress.is_paused(usize::from(priority)) {
                self.pauses[usize::from(priority)].sent_while_paused += 1;
            }
            let FlowArgs { to, vid, ecn, start_ns, .. } = self.settings.flows[flow];
            let age_ms = now.since(self.since + start_ns) / 1_000_000;
            let sequence = self.sent[flow].next_sequence;
            self.sent[flow].next_sequence += 1;
            let content = Content {
                kind: FrameKind::Data,
                flow: flow as u32,
                run: self.settings.run,
                sequence,
                sent_at: now,
                age_ms: u32::try_from(age_ms).unwrap_or(u32::MAX),
            };
            let tag = vid.map(|vid| Tag { vid, ..Tag::priority(priority) });
            let load = FrameContent { kind: LoadKind::Flow(flow as u16), priority, len: size_bytes };
            self.write_frame(to, tag, ecn, &content, load);
        }
    }

    /// Sends the waiting CNPs, as far as there is room and no pause.
    fn send_cnps(&mut self, now: Instant) {
        while !self.egress.is_paused(usize::from(CNP_PRIORITY))
            && self.in_flight.has_room()
            && self.memory.free_frames() > 0
            && self.port.transmit_room() > self.outgoing.len()
        {
            let Some((to, flow, run)) = self.cnps.pop() else { return };
            let content = Content { kind: FrameKind::Cnp, flow, run, sequence: 0, sent_at: now, age_ms: 0 };
            let load = FrameContent { kind: LoadKind::Cnp, priority: CNP_PRIORITY, len: MIN_IP_BYTES };
            self.write_frame(to, Some(Tag::priority(CNP_PRIORITY)), Some(CNP_ECN), &content, load);
        }
    }

    /// Announces the host's address to the switch: until the host sends, and permanently if it
    /// sends nothing.
    fn announce(&mut self, now: Instant) {
        let wanted = match self.stage {
            HostState::Waiting => true,
            HostState::Sending { .. } => self.settings.flows.is_empty(),
            HostState::Lingering { .. } | HostState::Stopping { .. } | HostState::Done => false,
        };
        let may = !self.egress.is_paused(0) && self.in_flight.has_room() && self.port.transmit_room() > 0;
        if !wanted || !may || now < self.announce_at || self.memory.free_frames() == 0 {
            return;
        }
        let often = self.announcements < FIRST_ANNOUNCEMENTS;
        self.announce_at = now + if often { FIRST_ANNOUNCEMENTS_NS } else { ANNOUNCEMENTS_NS };
        let content = Content {
            kind: FrameKind::Announce,
            flow: 0,
            run: self.settings.run,
            sequence: 0,
            sent_at: now,
            age_ms: 0,
        };
        let load = FrameContent { kind: LoadKind::Announcement, priority: 0, len: MIN_BYTES };
        self.write_frame(MacAddr::BROADCAST, None, None, &content, load);
    }

    /// Writes a frame; the caller ensures that one is free.
    fn write_frame(
        &mut self,
        to: MacAddr,
        tag: Option<Tag>,
        ecn: Option<u8>,
        content: &Content,
        load: FrameContent,
    ) {
        let len = usize::from(load.len);
        let Some(frame) = self.memory.alloc_for(len) else { return };
        self.memory.whole(&frame, len, |bytes| {
            frame::write(bytes, to, self.settings.mac, tag, ecn, content);
            true
        });
        self.in_flight.add(&frame, load);
        self.outgoing.push(TxDesc { queue: load.priority, ..TxDesc::new(frame, load.len) });
    }
}

impl<P: Port> Host<P> {
    /// Runs the agent, and sends its frames as far as there is room. Pauses of priorities that are
    /// not agreed on any more end.
    pub(super) fn negotiate(&mut self, now: Instant) {
        let Some(negotiation) = &mut self.negotiation else { return };
        if self.stage == HostState::Done && !self.has_withdrawn {
            self.has_withdrawn = true;
            negotiation.withdraw(now);
        }
        negotiation.poll(now);
        self.honor(now);
        self.send_lldp();
    }

    fn honor(&mut self, now: Instant) {
        let Some(negotiation) = &self.negotiation else { return };
        let honored = negotiation.no_drop();
        let ended = self.settings.honored & !honored;
        self.settings.honored = honored;
        for priority in Set8::from_bits(ended) {
            self.receive_pause(priority, 0, now);
        }
    }

    fn send_lldp(&mut self) {
        let Some(negotiation) = &mut self.negotiation else { return };
        while let Some(frame) = negotiation.waiting() {
            let has_room = self.in_flight.has_room() && self.port.transmit_room() > self.outgoing.len();
            let Some(memory) = has_room.then(|| self.memory.alloc_for(frame.len())).flatten() else { return };
            self.memory.whole(&memory, frame.len(), |bytes| {
                bytes.copy_from_slice(frame);
                true
            });
            let len = frame.len() as u16;
            negotiation.sent_waiting();
            self.in_flight.add(&memory, FrameContent { kind: LoadKind::Lldp, priority: 0, len });
            self.outgoing.push(TxDesc::new(memory, len));
        }
    }
}
