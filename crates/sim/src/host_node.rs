//! A host: sends the frames of its flows as they become due, honors pauses per priority, and
//! answers marks with CNPs, and frames with acknowledgments.
//!
//! Rule: of several ports, the first whose link is up sends, and all receive. With `balance-xor`
//! all ports whose links are up send, each the flows that a hash gives it; flows move when a link
//! goes down or comes up, and only then. Whenever a link direction is idle and not paused as a
//! whole (802.3x PAUSE), the next priority in round-robin order that has a frame due and is not
//! paused sends one. The flows of a priority take turns. PFC frames of a storm, on the first port,
//! have precedence, then CNPs, then acknowledgments of priorities that are not paused.
//!
//! Source: Linux, Documentation/networking/bonding.rst (active-backup, balance-xor).

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
use crate::routes::multipath;
use crate::scenario::{Bond, HostNode};
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
    /// The first port whose link is up.
    first: usize,
    /// Ports whose links are up and among which flows are distributed, if that is configured.
    balanced: Option<Vec<usize>>,
    /// Key of the hash that distributes them.
    bond_key: u64,
    /// What waits to be sent: by the first port whose link is up, or by each port.
    queues: Vec<SendQueues>,
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

/// What waits to be sent over one port.
#[derive(Debug)]
struct SendQueues {
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
}

impl SendQueues {
    fn new() -> Self {
        let (ready, cnps, acks) = Default::default();
        Self { ready, ready_mask: 0, last: 7, cnps, acks, ack_mask: 0 }
    }

    #[inline]
    fn has_waiting(&self) -> bool {
        self.ready_mask | self.ack_mask != 0 || !self.cnps.is_empty()
    }

    #[inline]
    fn push_ready(&mut self, flow: u32, priority: u8) {
        self.ready[usize::from(priority & 7)].push_back(flow);
        self.ready_mask |= 1 << (priority & 7);
    }

    fn push_ack(&mut self, priority: u8, ack: (u32, u8, AckContent)) {
        self.acks[usize::from(priority & 7)].push_back(ack);
        self.ack_mask |= 1 << (priority & 7);
    }

    /// Takes the flow of the next priority in turn that has one and is not paused.
    #[inline]
    fn next_flow(&mut self, paused: u8) -> Option<usize> {
        let free = self.ready_mask & !paused;
        if free == 0 {
            return None;
        }
        let after = free.rotate_right((self.last + 1) & 7); // bit 0: the priority after the last
        let priority = (self.last + 1 + after.trailing_zeros()) & 7;
        self.last = priority;
        let ready = &mut self.ready[priority as usize];
        let flow = ready.pop_front()? as usize;
        if ready.is_empty() {
            self.ready_mask &= !(1 << priority);
        }
        Some(flow)
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
}

#[derive(Debug)]
struct Storm {
    priorities: u8,
    until: Picos,
    next: Picos,
}

impl Host {
    /// Creates the host of node `node`, which has links and honors pauses according to `settings`,
    /// in a run with this seed.
    pub(crate) fn new(node: usize, settings: HostNode, seed: u64, wires: &Links) -> Self {
        let port = |line: &LinkDirection| HostPort {
            line: line.number,
            pauses: PfcRxState::new(Set8::from_bits(settings.honored_at_first()), line.speed_bps()),
            link_pause: settings.honors_pause.then(|| LinkPause::new(line.speed_bps())),
        };
        let mut lines: Vec<&LinkDirection> =
            wires.directions.iter().filter(|line| line.from.node == node).collect();
        lines.sort_unstable_by_key(|line| line.from.port);
        let ports: Vec<HostPort> = lines.into_iter().map(port).collect();
        let balanced = (settings.bond == Bond::BalanceXor).then(|| (0..ports.len()).collect());
        let queues = if balanced.is_some() { ports.len() } else { 1 };
        Self {
            node,
            vlan: settings.vlan,
            ports,
            first: 0,
            balanced,
            bond_key: multipath::key_of(seed, node),
            queues: (0..queues).map(|_| SendQueues::new()).collect(),
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
        let queue = self.queue_of(flow as u32);
        self.queues[queue].push_ready(flow as u32, priority);
    }

    /// Returns the index of the queues in which what belongs to a flow waits.
    #[inline]
    fn queue_of(&self, flow: u32) -> usize {
        match &self.balanced {
            None => 0,
            Some(ports) => ports[multipath::bond_port(flow, self.bond_key, ports.len())],
        }
    }

    /// Sends the next frame over each link direction that is idle, if there is one. If more waits,
    /// the end of that one is an event.
    #[inline]
    pub(crate) fn send(&mut self, flows: &mut [Flow], wires: &mut Links) {
        for queue in 0..self.queues.len() {
            let port = if self.balanced.is_some() { queue } else { self.first };
            let line = self.ports[port].line;
            if wires.is_idle(line) {
                self.send_next((queue, port), flows, wires);
            }
            if self.queues[queue].has_waiting() || !self.storms.is_empty() {
                wires.report_end(line);
            }
        }
    }

    /// Sends the next frame of these queues over a port whose link direction is idle, if there is
    /// one.
    #[inline]
    fn send_next(&mut self, (queue, port): (usize, usize), flows: &mut [Flow], wires: &mut Links) {
        let line = self.ports[port].line;
        if port == self.first
            && let Some(packet) = self.next_of_storm(wires)
        {
            self.sent_control += 1;
            wires.send(line, packet.len, &packet.bytes);
            return;
        }
        let now = instant(wires.now);
        let sender = &mut self.ports[port];
        if let Some(link) = &mut sender.link_pause
            && link.is_paused(now)
        {
            wires.wake(line, picos(link.ends_at()));
            return;
        }
        let paused = sender.pauses.paused(now).bits();
        let queues = &mut self.queues[queue];
        if !queues.cnps.is_empty() && paused & 1 << CNP_PRIORITY == 0 {
            let Some(flow) = queues.cnps.pop_front() else { return };
            self.sent_frames += 1;
            let cnp = Packet::cnp(&flows[flow as usize].headers);
            wires.send(line, cnp.len, &cnp.bytes);
            return;
        }
        if let Some(ack) = queues.next_ack(paused, flows) {
            self.sent_frames += 1;
            wires.send(line, ack.len, &ack.bytes);
            return;
        }
        let Some(number) = self.next_ready(queue, paused, flows, wires) else {
            if self.queues[queue].has_waiting() {
                wires.wake(line, picos(self.ports[port].pauses.next_end()));
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
    fn next_ready(
        &mut self,
        queue: usize,
        paused: u8,
        flows: &mut [Flow],
        wires: &mut Links,
    ) -> Option<usize> {
        loop {
            let number = self.queues[queue].next_flow(paused)?;
            // Acknowledgments may have taken away what there was to send, or the window for it.
            let flow = &mut flows[number];
            let is_stale = |flow: &Flow| flow.next_due().is_none_or(|due| due > wires.now);
            if flow.sender.acked.is_none() || !is_stale(flow) {
                return Some(number);
            }
            self.schedule(number, flow, wires);
        }
    }

    /// Queues an acknowledgment to the sender of `flow`.
    pub(crate) fn send_ack(&mut self, flow: usize, (priority, dscp): (u8, u8), ack: AckContent) {
        let queue = self.queue_of(flow as u32);
        self.queues[queue].push_ack(priority, (flow as u32, dscp, ack));
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

    /// The outgoing link direction of the first port whose link is up.
    pub(crate) fn line(&self) -> usize {
        self.ports[self.first].line
    }

    /// Handles a cable that was cut or repaired: pauses received over it end, and other ports may
    /// have to send what waits.
    pub(crate) fn link_changed(&mut self, port: usize, wires: &Links) {
        let HostPort { pauses, link_pause, .. } = &mut self.ports[port];
        let now = instant(wires.now);
        pauses.clear(now);
        link_pause.iter_mut().for_each(|link| link.clear(now));
        let is_up = |port: &usize| wires.directions[self.ports[*port].line].up;
        let up: Vec<usize> = (0..self.ports.len()).filter(is_up).collect();
        self.first = up.first().copied().unwrap_or(0);
        if self.balanced.is_some() {
            self.balanced = Some(if up.is_empty() { vec![0] } else { up });
            self.distribute();
        }
    }

    /// Distributes what waits among the ports again, in its order.
    fn distribute(&mut self) {
        let queues: Vec<SendQueues> =
            self.queues.iter_mut().map(|queues| std::mem::replace(queues, SendQueues::new())).collect();
        for waiting in queues {
            for priority in 0..PRIORITIES as u8 {
                let of_priority = usize::from(priority);
                waiting.ready[of_priority].iter().for_each(|flow| self.ready(*flow as usize, priority));
                for (flow, dscp, ack) in &waiting.acks[of_priority] {
                    self.send_ack(*flow as usize, (priority, *dscp), *ack);
                }
            }
            waiting.cnps.iter().for_each(|flow| self.send_cnp(*flow as usize));
        }
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
        let queue = self.queue_of(flow as u32);
        self.queues[queue].cnps.push_back(flow as u32);
    }
}
