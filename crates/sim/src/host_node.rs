//! A host: sends the frames of its flows as they become due, honors pauses per priority, and
//! answers marks with CNPs, and frames with acknowledgments.
//!
//! Rule: of several ports, the first whose link is up sends, and all receive. Whenever the link
//! direction is idle and not paused as a whole (802.3x PAUSE), the next priority in round-robin
//! order that has a frame due and is not paused sends one. The flows of a priority take turns. PFC
//! frames of a storm have precedence, then CNPs, then acknowledgments of priorities that are not
//! paused.

use std::collections::VecDeque;

use switch::pfc::link_pause::LinkPause;
use switch::pfc::rx::{PfcRxState, quanta_ns};
use switch::settings::PRIORITIES;
use switch::{Instant, Nanos};
use wire::bitset::Set8;
use wire::pause::{Control, FRAME_BYTES, Pfc, decode};

use crate::event_queue::Event;
use crate::flow::Flow;
use crate::link::{LinkDirection, Links};
use crate::packet::{AckContent, CARRIED_BYTES, CNP_PRIORITY, Packet, host_mac};
use crate::scenario::HostNode;
use crate::time::{NS, Picos, instant, of_ns, picos};

/// Pause time of a storm's frames.
const STORM_QUANTA: u16 = 65_535;

/// A host of the network, with its ports and queues.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) node: usize,
    /// VID of the frames that it sends and accepts; `None` without a VLAN.
    pub(crate) vlan: Option<u16>,
    pub(crate) ports: Vec<HostPort>,
    /// The port that sends.
    sender: usize,
    /// Flows with a frame that is due, by priority.
    ready: [VecDeque<u32>; 8],
    /// Bit p is set if `ready[p]` is not empty.
    ready_mask: u8,
    /// The priority that sent last.
    last: u32,
    /// Flows whose senders are to receive a CNP.
    cnps: VecDeque<u32>,
    /// Acknowledgments by priority: the flow, its DSCP, and what they report.
    acks: [VecDeque<(u32, u8, AckContent)>; 8],
    /// Bit p is set if `acks[p]` is not empty.
    ack_mask: u8,
    storms: Vec<Storm>,
    pub(crate) sent_frames: u64,
    pub(crate) sent_control: u64,
    pub(crate) received_frames: u64,
    pub(crate) received_control: u64,
    pub(crate) foreign_frames: u64,
}

#[derive(Debug)]
pub(crate) struct HostPort {
    /// The outgoing link direction.
    pub(crate) line: usize,
    /// Pauses of priorities by the peer.
    pub(crate) pauses: PfcRxState,
    /// Pause of the whole link, if the host honors 802.3x PAUSE.
    link_pause: Option<LinkPause>,
}

#[derive(Debug)]
struct Storm {
    priorities: u8,
    until: Picos,
    next: Picos,
}

impl Host {
    /// Creates the host of node `node`, which has links and honors pauses according to `settings`.
    pub(crate) fn new(node: usize, settings: HostNode, wires: &Links) -> Self {
        let port = |line: &LinkDirection| HostPort {
            line: line.number,
            pauses: PfcRxState::new(Set8::from_bits(settings.honored_at_first()), line.speed_bps()),
            link_pause: settings.honors_pause.then(|| LinkPause::new(line.speed_bps())),
        };
        let mut lines: Vec<&LinkDirection> =
            wires.directions.iter().filter(|line| line.from.node == node).collect();
        lines.sort_unstable_by_key(|line| line.from.port);
        Self {
            node,
            vlan: settings.vlan,
            ports: lines.into_iter().map(port).collect(),
            sender: 0,
            ready: Default::default(),
            ready_mask: 0,
            last: 7,
            cnps: VecDeque::new(),
            acks: Default::default(),
            ack_mask: 0,
            storms: Vec::new(),
            sent_frames: 0,
            sent_control: 0,
            received_frames: 0,
            received_control: 0,
            foreign_frames: 0,
        }
    }

    /// Schedules a flow that has frames for the time when its next one is due.
    pub(crate) fn schedule(&mut self, number: usize, flow: &mut Flow, wires: &mut Links) {
        flow.sender.is_listed = match flow.next_due() {
            Some(due) if due <= wires.now => {
                self.ready(number, flow.headers.priority);
                true
            }
            Some(due) => {
                wires.queue.schedule(due, self.node, Event::Due(number));
                true
            }
            None => false,
        };
    }

    /// Handles a frame of a flow that is due.
    #[inline]
    pub(crate) fn ready(&mut self, flow: usize, priority: u8) {
        self.ready[usize::from(priority & 7)].push_back(flow as u32);
        self.ready_mask |= 1 << (priority & 7);
    }

    /// Sends the next frame, if the link direction is idle and there is one. If more waits, the end
    /// of that one is an event.
    #[inline]
    pub(crate) fn send(&mut self, flows: &mut [Flow], wires: &mut Links) {
        let line = self.line();
        if wires.is_idle(line) {
            self.send_next(line, flows, wires);
        }
        let waits = self.ready_mask | self.ack_mask != 0 || !self.cnps.is_empty();
        if waits || !self.storms.is_empty() {
            wires.report_end(line);
        }
    }

    /// Sends the next frame over an idle link direction, if there is one.
    #[inline]
    fn send_next(&mut self, line: usize, flows: &mut [Flow], wires: &mut Links) {
        if let Some(packet) = self.next_of_storm(wires) {
            self.sent_control += 1;
            wires.send(line, packet.len, &packet.bytes);
            return;
        }
        let now = instant(wires.now);
        let port = &mut self.ports[self.sender];
        if let Some(link) = &mut port.link_pause
            && link.is_paused(now)
        {
            wires.wake(line, picos(link.ends_at()));
            return;
        }
        let paused = port.pauses.paused(now).bits();
        if !self.cnps.is_empty() && paused & 1 << CNP_PRIORITY == 0 {
            let Some(flow) = self.cnps.pop_front() else { return };
            self.sent_frames += 1;
            let cnp = Packet::cnp(&flows[flow as usize].headers);
            wires.send(line, cnp.len, &cnp.bytes);
            return;
        }
        if let Some(ack) = self.next_ack(paused, flows) {
            self.sent_frames += 1;
            wires.send(line, ack.len, &ack.bytes);
            return;
        }
        let Some(number) = self.next_ready(paused, flows, wires) else {
            if self.ready_mask | self.ack_mask != 0 || !self.cnps.is_empty() {
                wires.wake(line, picos(self.ports[self.sender].pauses.next_end()));
            }
            return;
        };
        self.sent_frames += 1;
        let flow = &mut flows[number];
        let (_, is_new) = flow.take(wires.now);
        if let (Some(log), true) = (&mut wires.latency, is_new)
            && let Some(part) = log.sent(number, wires.now)
        {
            wires.mail[part].sent.push((number, wires.now));
        }
        if let Some(int) = &mut wires.int {
            int.sent(&flow.packet().bytes);
        }
        if let Some(acked) = &mut flow.sender.acked {
            acked.plan_timeout(number, self.node, &mut wires.queue);
        }
        self.schedule(number, flow, wires);
        let packet = flow.packet();
        wires.send(line, packet.len, &packet.bytes);
    }

    /// Takes the next flow in turn that has a frame due and is not paused.
    #[inline]
    fn next_ready(&mut self, paused: u8, flows: &mut [Flow], wires: &mut Links) -> Option<usize> {
        loop {
            let free = self.ready_mask & !paused;
            if free == 0 {
                return None;
            }
            let after = free.rotate_right((self.last + 1) & 7); // bit 0: the priority after the last
            let priority = (self.last + 1 + after.trailing_zeros()) & 7;
            self.last = priority;
            let ready = &mut self.ready[priority as usize];
            let number = ready.pop_front()? as usize;
            if ready.is_empty() {
                self.ready_mask &= !(1 << priority);
            }
            // Acknowledgments may have taken away what there was to send, or the window for it.
            let flow = &mut flows[number];
            let is_stale = |flow: &Flow| flow.next_due().is_none_or(|due| due > wires.now);
            if flow.sender.acked.is_none() || !is_stale(flow) {
                return Some(number);
            }
            self.schedule(number, flow, wires);
        }
    }

    /// Takes the next acknowledgment whose priority is not paused.
    fn next_ack(&mut self, paused: u8, flows: &[Flow]) -> Option<Packet> {
        let free = self.ack_mask & !paused;
        if free == 0 {
            return None;
        }
        let priority = free.trailing_zeros() as u8;
        let acks = &mut self.acks[usize::from(priority)];
        let (flow, dscp, ack) = acks.pop_front()?;
        if acks.is_empty() {
            self.ack_mask &= !(1 << priority);
        }
        Some(Packet::ack(&flows[flow as usize].headers, (priority, dscp), ack))
    }

    /// Queues an acknowledgment to the sender of `flow`.
    pub(crate) fn send_ack(&mut self, flow: usize, (priority, dscp): (u8, u8), ack: AckContent) {
        self.acks[usize::from(priority & 7)].push_back((flow as u32, dscp, ack));
        self.ack_mask |= 1 << (priority & 7);
    }

    /// Starts to pause these priorities of its peer, for `duration`.
    pub(crate) fn storm(&mut self, priorities: u8, duration: Picos, now: Picos) {
        self.storms.push(Storm { priorities, until: now + duration, next: now });
    }

    /// Returns the due PFC frame of a storm. A priority that another storm also pauses is not
    /// released.
    fn next_of_storm(&mut self, wires: &mut Links) -> Option<Packet> {
        let due = |storm: &Storm| storm.next.min(storm.until);
        let (first, at) = self.storms.iter().map(due).enumerate().min_by_key(|(_, at)| *at)?;
        if at > wires.now {
            wires.wake(self.line(), at);
            return None;
        }
        let pfc = if self.storms[first].until <= wires.now {
            let over = self.storms.remove(first);
            let others = self.storms.iter().fold(0, |mask, storm| mask | storm.priorities);
            Pfc { enable: over.priorities & !others, quanta: [0; 8] }
        } else {
            let refresh = of_ns(quanta_ns(STORM_QUANTA, wires.directions[self.line()].speed_bps()) / 3);
            let storm = &mut self.storms[first];
            storm.next = wires.now + refresh.max(NS);
            Pfc { enable: storm.priorities, quanta: [STORM_QUANTA; 8] }
        };
        let mut bytes = [0; CARRIED_BYTES];
        pfc.encode(host_mac(self.node), bytes.first_chunk_mut().expect("room for a PFC frame"));
        Some(Packet { len: FRAME_BYTES as u16, bytes })
    }

    /// Honors pauses of these priorities from now on, on one of its ports.
    pub(crate) fn set_honored(&mut self, port: usize, no_drop: u8, wires: &Links) {
        let HostPort { line, pauses, .. } = &mut self.ports[port];
        let speed_bps = wires.directions[*line].speed_bps();
        pauses.reconfigure(Set8::from_bits(no_drop), speed_bps, instant(wires.now));
    }

    /// Honors a PFC or PAUSE frame received on one of its ports, numbered among the ports with
    /// links.
    pub(crate) fn honor(&mut self, port: usize, bytes: &[u8; CARRIED_BYTES], now: Instant) {
        self.received_control += 1;
        let port = &mut self.ports[port];
        match (decode(&bytes[..FRAME_BYTES]), &mut port.link_pause) {
            (Ok(Control::Pfc(pfc)), _) => port.pauses.apply(&pfc, now),
            (Ok(Control::Pause { quanta }), Some(link)) => link.apply(quanta, now),
            _ => {}
        }
    }

    /// The outgoing link direction of the port that sends.
    pub(crate) fn line(&self) -> usize {
        self.ports[self.sender].line
    }

    /// Handles a cable that was cut or repaired: pauses received over it end, and another port may
    /// have to send.
    pub(crate) fn link_changed(&mut self, port: usize, wires: &Links) {
        let HostPort { pauses, link_pause, .. } = &mut self.ports[port];
        let now = instant(wires.now);
        pauses.clear(now);
        link_pause.iter_mut().for_each(|link| link.clear(now));
        self.sender = self.ports.iter().position(|port| wires.directions[port.line].up).unwrap_or(0);
    }

    /// Counts the pauses by the peers and their durations, over all ports.
    pub(crate) fn pause_history(&self, now: Instant) -> ([u64; PRIORITIES], [Nanos; PRIORITIES]) {
        let mut all = ([0; PRIORITIES], [0; PRIORITIES]);
        for port in &self.ports {
            let (pauses, paused_ns) = port.pauses.history(now);
            (0..PRIORITIES).for_each(|p| {
                all.0[p] += pauses[p];
                all.1[p] += paused_ns[p];
            });
        }
        all
    }

    /// Queues a CNP to the sender of `flow`.
    pub(crate) fn send_cnp(&mut self, flow: usize) {
        self.cnps.push_back(flow as u32);
    }
}
