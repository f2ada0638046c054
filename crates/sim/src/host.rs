//! A host: one port that sends the frames of its flows as they fall due, obeys pauses priority by priority, and answers
//! marks with CNPs.
//!
//! Rule: whenever the line is free and not paused as a whole (802.3x PAUSE), the next priority in turn that has a frame due and
//! is not paused sends one; the flows of a priority take turns. PFC of a storm goes first, CNPs next.

use std::collections::VecDeque;

use switch::Instant;
use switch::link_pause::LinkPause;
use switch::pfc_received::{Pauses, quanta_ns};
use wire::pause::{Control, FRAME_BYTES, Pfc, decode};
use wire::set::Set8;

use crate::flow::Flow;
use crate::line::Wires;
use crate::packet::{CARRIED_BYTES, CNP_PRIORITY, Packet, host_mac};
use crate::queue::Event;
use crate::scenario::HostNode;
use crate::time::{NS, Picos, instant, of_ns, picos};

/// Pause time of a storm's frames.
const STORM_QUANTA: u16 = 65_535;

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) node: usize,
    /// The line that leaves it.
    pub(crate) line: usize,
    /// What its neighbour has paused.
    pub(crate) pauses: Pauses,
    /// … of the whole link, if the host obeys 802.3x PAUSE.
    pub(crate) link_pause: Option<LinkPause>,
    /// Flows with a frame that is due, by priority.
    ready: [VecDeque<u32>; 8],
    /// Bit p: `ready[p]` is not empty.
    ready_mask: u8,
    /// The priority that has sent last.
    last: u32,
    /// Flows whose senders are to be told of marks.
    cnps: VecDeque<u32>,
    storms: Vec<Storm>,
    pub(crate) sent_frames: u64,
    pub(crate) sent_control: u64,
    pub(crate) received_frames: u64,
    pub(crate) received_control: u64,
    pub(crate) foreign_frames: u64,
}

#[derive(Debug)]
struct Storm {
    priorities: u8,
    until: Picos,
    next: Picos,
}

impl Host {
    /// The host that is node `node` and sends over `line` at `speed_bps`, obeying pauses as `settings` say.
    pub(crate) fn new(node: usize, line: usize, speed_bps: u64, settings: HostNode) -> Self {
        Self {
            node,
            line,
            pauses: Pauses::new(Set8::from_bits(settings.no_drop), speed_bps),
            link_pause: settings.obeys_pause.then(|| LinkPause::new(speed_bps)),
            ready: Default::default(),
            ready_mask: 0,
            last: 7,
            cnps: VecDeque::new(),
            storms: Vec::new(),
            sent_frames: 0,
            sent_control: 0,
            received_frames: 0,
            received_control: 0,
            foreign_frames: 0,
        }
    }

    /// A flow that has frames is to send when its next one is due.
    pub(crate) fn list(&mut self, number: usize, flow: &mut Flow, wires: &mut Wires) {
        flow.sender.is_listed = match flow.next_due() {
            Some(due) if due <= wires.now => {
                self.ready(number, flow.look.priority);
                true
            }
            Some(due) => {
                wires.queue.plan(due, Event::Due(number));
                true
            }
            None => false,
        };
    }

    /// A frame of a flow is due.
    #[inline]
    pub(crate) fn ready(&mut self, flow: usize, priority: u8) {
        self.ready[usize::from(priority & 7)].push_back(flow as u32);
        self.ready_mask |= 1 << (priority & 7);
    }

    /// Sends the next frame, if the line is free and there is one.
    #[inline]
    pub(crate) fn send(&mut self, flows: &mut [Flow], wires: &mut Wires) {
        if !wires.lines[self.line].is_idle() {
            return;
        }
        if let Some(packet) = self.next_of_storm(wires) {
            self.sent_control += 1;
            wires.send(self.line, packet.len, &packet.bytes);
            return;
        }
        let now = instant(wires.now);
        if let Some(link) = &mut self.link_pause
            && link.is_paused(now)
        {
            wires.wake(self.line, picos(link.ends_at()));
            return;
        }
        let paused = self.pauses.paused(now).bits();
        if !self.cnps.is_empty() && paused & 1 << CNP_PRIORITY == 0 {
            let Some(flow) = self.cnps.pop_front() else { return };
            self.sent_frames += 1;
            let cnp = Packet::cnp(&flows[flow as usize].look);
            wires.send(self.line, cnp.len, &cnp.bytes);
            return;
        }
        let free = self.ready_mask & !paused;
        if free == 0 {
            if self.ready_mask != 0 || !self.cnps.is_empty() {
                wires.wake(self.line, picos(self.pauses.next_end()));
            }
            return;
        }
        let after = free.rotate_right((self.last + 1) & 7); // bit 0: the priority after the last
        let priority = (self.last + 1 + after.trailing_zeros()) & 7;
        self.last = priority;
        let ready = &mut self.ready[priority as usize];
        let Some(number) = ready.pop_front() else { return };
        if ready.is_empty() {
            self.ready_mask &= !(1 << priority);
        }
        self.sent_frames += 1;
        let flow = &mut flows[number as usize];
        flow.take(wires.now);
        self.list(number as usize, flow, wires);
        wires.send(self.line, flow.packet.len, &flow.packet.bytes);
    }

    /// From now on, for `duration`, it pauses these priorities of its neighbour.
    pub(crate) fn storm(&mut self, priorities: u8, duration: Picos, now: Picos) {
        self.storms.push(Storm { priorities, until: now + duration, next: now });
    }

    /// The PFC frame of a storm that is due. What another storm pauses too is not let go.
    fn next_of_storm(&mut self, wires: &mut Wires) -> Option<Packet> {
        let due = |storm: &Storm| storm.next.min(storm.until);
        let (first, at) = self.storms.iter().map(due).enumerate().min_by_key(|(_, at)| *at)?;
        if at > wires.now {
            wires.wake(self.line, at);
            return None;
        }
        let pfc = if self.storms[first].until <= wires.now {
            let over = self.storms.remove(first);
            let others = self.storms.iter().fold(0, |mask, storm| mask | storm.priorities);
            Pfc { enable: over.priorities & !others, quanta: [0; 8] }
        } else {
            let refresh = of_ns(quanta_ns(STORM_QUANTA, wires.lines[self.line].speed_bps()) / 3);
            let storm = &mut self.storms[first];
            storm.next = wires.now + refresh.max(NS);
            Pfc { enable: storm.priorities, quanta: [STORM_QUANTA; 8] }
        };
        let mut bytes = [0; CARRIED_BYTES];
        pfc.encode(host_mac(self.node), bytes.first_chunk_mut().expect("room for a PFC frame"));
        Some(Packet { len: FRAME_BYTES as u16, bytes })
    }

    /// Obeys a PFC, or PAUSE, frame.
    pub(crate) fn obey(&mut self, packet: &Packet, now: Instant) {
        self.received_control += 1;
        match (decode(&packet.bytes[..FRAME_BYTES]), &mut self.link_pause) {
            (Ok(Control::Pfc(pfc)), _) => self.pauses.apply(&pfc, now),
            (Ok(Control::Pause { quanta }), Some(link)) => link.apply(quanta, now),
            _ => {}
        }
    }

    /// All pauses end, as when its cable is cut.
    pub(crate) fn clear_pauses(&mut self, now: Instant) {
        self.pauses.clear(now);
        self.link_pause.iter_mut().for_each(|link| link.clear(now));
    }

    /// The sender of `flow` is to be told of marks.
    pub(crate) fn tell(&mut self, flow: usize) {
        self.cnps.push_back(flow as u32);
    }
}
