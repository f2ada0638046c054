//! The network in virtual time: events are processed one by one, in the order of time, and each
//! moves one frame by one step (`event_queue` has the order of those at the same time).
//!
//! ```text
//! Due ─▶ host sends ─▶ TxDone, Arrive ─▶ switch receives, queues, sends
//!                                            └─▶ TxDone, Arrive ─▶ host receives
//!        PFC: Arrive ─▶ Control, a response time later ─▶ host or switch pauses
//! ```

mod jobs;
mod negotiation;
pub(crate) mod part_of;

use endpoint::feedback::FlowPath;
use switch::settings::StaticAddress;

use self::jobs::Job;
pub(crate) use self::negotiation::LldpEnd;
use self::negotiation::Negotiation;
use self::part_of::PartOf;
use crate::event_queue::{Event, MOST_NODES};
use crate::flow::{Flow, Message, ReportedMessage};
use crate::host_node::Host;
use crate::link::{InFlightFrame, LinkDirection, Links, Mail};
use crate::packet::{
    AckContent, CARRIED_BYTES, Content, PacketHeaders, content, destination, host_mac, is_control, vid_in,
    vid_of,
};
use crate::routes::multipath;
use crate::routes::vlans::{HostVlans, Vlans};
use crate::routes::{Routes, base_rtt_ns};
use crate::scenario::{FaultKind, Forwarding, NodeKind, Pattern, Route, Scenario, Start, Traffic};
use crate::switch_node::SimSwitch;
use crate::time::{Picos, instant, of_ns};
use crate::trace::Record;
use crate::trace::baseline::Baseline;
use crate::trace::int_log::IntLog;
use crate::trace::latency::{FlowEnds, LatencyLog};

/// One of the frames on a captured link.
#[derive(Debug, Clone, Copy)]
pub struct Captured {
    /// When its last byte arrived, in picoseconds, and the node where: the order of frames.
    pub arrival: (u64, usize),
    /// The same time in nanoseconds.
    pub at_ns: u64,
    /// Index of the link.
    pub link: usize,
    /// The end that sent the frame: 0 or 1.
    pub from_end: usize,
    /// Length without FCS.
    pub len: u16,
    /// The stored headers; zeros behind a shorter frame.
    pub headers: [u8; CARRIED_BYTES],
}

impl Captured {
    /// Its bytes, as far as they are stored.
    pub fn bytes(&self) -> &[u8] {
        &self.headers[..self.headers.len().min(usize::from(self.len))]
    }
}

/// Index of a node among its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeIndex {
    Switch(usize),
    Host(usize),
}

/// A running network.
#[derive(Debug)]
pub struct Simulation<'s> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) links: Links,
    pub(crate) node_indices: Vec<NodeIndex>,
    pub(crate) devices: Vec<SimSwitch>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) flows: Vec<Flow>,
    /// The range of each traffic's flows in `flows`.
    pub(crate) traffic_flows: Vec<std::ops::Range<usize>>,
    /// By traffic: its collective, if it is one.
    jobs: Vec<Option<Job>>,
    pub(crate) record: Record,
    pub(crate) negotiation: Negotiation,
    /// Static entries that faults have set.
    changed_routes: Vec<Route>,
    vlans: HostVlans,
    pub(crate) events: u64,
    /// Of these, the events of the whole network.
    pub(crate) global_events: u64,
    /// Counts before the measuring window.
    pub(crate) baseline: Baseline,
    /// Which nodes are simulated here.
    pub(crate) parts: PartOf,
}

impl<'s> Simulation<'s> {
    /// Creates the network of a scenario, at time 0.
    pub fn new(scenario: &'s Scenario) -> Self {
        Self::part(scenario, PartOf::whole(scenario))
    }

    /// Creates a part of the network: nothing happens at the nodes of other parts.
    pub(crate) fn part(scenario: &'s Scenario, parts: PartOf) -> Self {
        assert!(scenario.nodes.len() <= MOST_NODES, "{} nodes, at most {MOST_NODES}", scenario.nodes.len());
        let mut wires = Links::new(&scenario.links, scenario.seed);
        wires.mail.resize_with(parts.count(), Mail::default);
        for line in &mut wires.directions {
            line.other_part = parts.other(line.to.node).filter(|_| parts.owns(line.from.node));
        }
        let vlans = Vlans::new(&scenario.nodes, &scenario.links).of_hosts();
        let (mut node_indices, mut devices, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
        for (node, kind) in scenario.nodes.iter().map(|node| &node.kind).enumerate() {
            match kind {
                NodeKind::Switch(settings) => {
                    node_indices.push(NodeIndex::Switch(devices.len()));
                    let known = vlans.vids_at(node);
                    devices.push(SimSwitch::new((devices.len(), node), settings, scenario, &known, &wires));
                }
                NodeKind::Host(settings) => {
                    node_indices.push(NodeIndex::Host(hosts.len()));
                    hosts.push(Host::new(node, *settings, scenario.seed, &wires));
                }
            }
        }
        let (flows, traffic_flows) = make_flows(scenario, &node_indices, &hosts, &wires);
        if scenario.latency {
            let ends = flows.iter().map(|flow| (flow.traffic, flow_ends(flow, &parts)));
            let log = LatencyLog::new(ends, scenario.traffic.len(), of_ns(scenario.warmup_ns));
            wires.latency = Some(Box::new(log));
        }
        wires.int = IntLog::new(scenario, flows.iter().map(|flow| flow.traffic));
        wires.queue.schedule_global(of_ns(scenario.sample_ns), Event::Sample);
        let jobs: Vec<Option<Job>> = scenario.traffic.iter().map(Job::new).collect();
        let message_count = |traffic: usize| {
            let flows = &flows[traffic_flows[traffic].clone()];
            message_count(scenario, traffic, flows, jobs[traffic].as_ref())
        };
        let mut simulation = Self {
            record: Record::new(scenario, &wires, message_count),
            jobs,
            negotiation: Negotiation::new(scenario, &mut wires, &parts),
            scenario,
            links: wires,
            node_indices,
            devices,
            hosts,
            flows,
            traffic_flows,
            changed_routes: Vec::new(),
            vlans,
            events: 0,
            global_events: 0,
            baseline: Baseline::default(),
            parts,
        };
        simulation.set_routes();
        simulation.plan_beginnings();
        simulation
    }

    /// Sets the FDB entries of the switches: shortest paths over the links that are up, and the
    /// static entries of the scenario and of faults, which have precedence. A host without a path
    /// keeps its last entry, so that frames end at a cut port and are not flooded. Such entries
    /// form no loop: an entry that leads to a switch is as old as that one's or older, so those of
    /// a loop would all be of one time.
    fn set_routes(&mut self) {
        let Scenario { nodes, links, forwarding, .. } = self.scenario;
        let directions = &self.links.directions;
        let routes = Routes::shortest_over(nodes, links, |link| directions[2 * link].up);
        for route in routes.list() {
            if !self.parts.owns(route.switch) {
                continue;
            }
            let address = self.address_at(route.switch, route.host);
            let device = self.device_of(route.switch);
            match forwarding {
                Forwarding::ShortestPath => device.switch.set_static(address, route.port),
                Forwarding::Learning => device.switch.set_learned(address, route.port, instant(0)),
            }
        }
        for (node, index) in self.node_indices.iter().enumerate() {
            if let (NodeIndex::Switch(device), true) = (index, self.parts.owns(node))
                && let Some(paths) = &mut self.devices[*device].paths
            {
                paths.set_routes(node, nodes.len(), &routes);
            }
        }
        for route in self.scenario.routes.iter().chain(&self.changed_routes.clone()) {
            self.set_route(*route);
        }
    }

    fn device_of(&mut self, node: usize) -> &mut SimSwitch {
        let NodeIndex::Switch(device) = self.node_indices[node] else { panic!("node {node} is no switch") };
        &mut self.devices[device]
    }

    /// Returns the address under which a switch knows a host.
    fn address_at(&self, switch: usize, host: usize) -> StaticAddress {
        StaticAddress { mac: host_mac(host), vid: self.vlans.vid_at(switch, host) }
    }

    fn set_route(&mut self, Route { switch, host, port }: Route) {
        if !self.parts.owns(switch) {
            return;
        }
        let address = self.address_at(switch, host);
        let device = self.device_of(switch);
        device.switch.set_static(address, port);
        if let Some(paths) = &mut device.paths {
            paths.set_route(host, port);
        }
    }

    /// Plans the start of traffic that begins at a time, of the measuring window, and the faults.
    /// Traffic that waits for others, none of which happens to have a message, begins when these
    /// stop.
    fn plan_beginnings(&mut self) {
        if self.scenario.warmup_ns > 0 {
            self.links.queue.schedule_global(of_ns(self.scenario.warmup_ns), Event::WindowStart);
        }
        let traffic = &self.scenario.traffic;
        for (number, waiting) in traffic.iter().enumerate() {
            let at_ns = match &waiting.start {
                Start::At(at_ns) => *at_ns,
                Start::After(others) if others.iter().all(|other| self.record.is_complete(*other)) => {
                    let stop_ns = others.iter().map(|other| traffic[*other].stop_ns).max().unwrap_or(0);
                    self.record.begun(number, of_ns(stop_ns));
                    stop_ns
                }
                Start::After(_) => continue,
            };
            for flow in self.traffic_flows[number].clone() {
                self.start_flow(flow, of_ns(at_ns));
            }
        }
        for (number, fault) in self.scenario.faults.iter().enumerate() {
            self.links.queue.schedule_global(of_ns(fault.at_ns), Event::Fault(number));
        }
    }

    /// Passes the frames of this link to the tap of [`Simulation::run_until`].
    pub fn capture(&mut self, link: usize) {
        self.links.directions[2 * link].is_captured = true;
        self.links.directions[2 * link + 1].is_captured = true;
    }

    /// Keeps series of egress queues, and of priority groups that may drop, too: of all that ever
    /// hold cells. To be called before the run.
    pub fn record_occupancy(&mut self) {
        self.record.occupancy = Some(Box::default());
    }

    /// Virtual time in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        instant(self.links.now).0
    }

    /// Frames that arrived at switches so far, PFC included.
    pub fn frame_hops(&self) -> u64 {
        self.devices.iter().map(|device| device.received).sum()
    }

    /// True if the system had no memory left for a frame. The results are then invalid.
    pub fn is_without_memory(&self) -> bool {
        self.links.frames.is_refused()
    }

    /// Returns the switch that holds more than half of the stored frames, if one does.
    pub fn largest_holder(&self) -> Option<&str> {
        let most = self.devices.iter().max_by_key(|device| device.stored_frames())?;
        let is_half = 2 * most.stored_frames() > self.links.frames.stored() as u64;
        is_half.then(|| self.scenario.nodes[most.node].name.as_str())
    }

    /// Runs until `at_ns`. Frames of captured links are passed to `tap`.
    pub fn run_until(&mut self, at_ns: u64, tap: &mut dyn FnMut(&Captured)) {
        let until = of_ns(at_ns.min(self.scenario.duration_ns));
        self.run_through(until, tap);
        self.links.now = until;
    }

    /// Processes the events until `until`, which is included.
    pub(crate) fn run_through(&mut self, until: Picos, tap: &mut dyn FnMut(&Captured)) {
        while let Some((at, event)) = self.links.queue.next(until) {
            self.links.now = at;
            self.events += 1;
            self.dispatch(event, tap);
        }
    }

    #[inline]
    fn dispatch(&mut self, event: Event, tap: &mut dyn FnMut(&Captured)) {
        match event {
            Event::TxDone(line) => self.line_free(line),
            Event::Arrive(line) => self.arrive(line, tap),
            Event::Control(line) => self.apply_control(line),
            Event::Wake(line) => self.wake(line),
            Event::Tick(device) => self.devices[device].tick(&mut self.links),
            Event::Iterate(device) => self.devices[device].turn(&mut self.links),
            Event::WatchdogPoll(device) => self.devices[device].poll(&mut self.links),
            Event::Due(flow) => {
                let from = self.flows[flow].from;
                self.hosts[from].ready(flow, self.flows[flow].headers.priority);
                self.hosts[from].send(&mut self.flows, &mut self.links);
            }
            Event::FlowStart(flow) => self.begin(flow),
            Event::Message(flow) => self.add_message(flow),
            Event::Fault(_) | Event::Converge | Event::Sample | Event::WindowStart => {
                self.apply_global(event);
            }
            Event::Timeout(flow) => self.expire(flow),
            Event::Negotiate(end) => self.negotiate(end),
        }
    }

    fn apply_global(&mut self, event: Event) {
        self.global_events += 1;
        match event {
            Event::Fault(fault) => self.apply_fault(fault),
            Event::Converge => self.set_routes(),
            Event::WindowStart => {
                let owns = |node| self.parts.owns(node);
                self.baseline = Baseline::take(&self.links, &mut self.devices, &self.hosts, owns);
            }
            _ => self.sample(),
        }
    }

    #[inline]
    fn line_free(&mut self, line: usize) {
        let from = self.links.directions[line].from;
        match self.node_indices[from.node] {
            NodeIndex::Switch(device) => self.devices[device].line_free(from.port, &mut self.links),
            NodeIndex::Host(host) => self.hosts[host].send(&mut self.flows, &mut self.links),
        }
    }

    #[inline]
    fn arrive(&mut self, number: usize, tap: &mut dyn FnMut(&Captured)) {
        let now = self.links.now;
        let Some(InFlightFrame { frame, len, .. }) = self.links.arriving(number) else { return };
        let line = &self.links.directions[number];
        let bytes = self.links.frames.bytes_mut(frame);
        multipath::restore(bytes);
        if line.is_captured {
            let (at_ns, link, from_end) = (instant(now).0, number / 2, number % 2);
            tap(&Captured { arrival: (now, line.to.node), at_ns, link, from_end, len, headers: *bytes });
        }
        if is_control(bytes) {
            return self.links.delay_control(number);
        }
        match self.node_indices[line.to.node] {
            NodeIndex::Switch(device) => {
                let port = line.to.port;
                self.devices[device].receive(port, (frame, len), now, &mut self.links.frames);
                self.links.arrived(number);
                self.devices[device].act(&mut self.links);
            }
            NodeIndex::Host(host) => {
                let this = &self.hosts[host];
                let is_own = destination(bytes) == host_mac(this.node) && vid_in(this.vlan, vid_of(bytes));
                let content = content(bytes);
                self.links.arrived(number);
                self.links.frames.free(frame);
                if is_own {
                    self.host_receives((host, number), content, len);
                } else {
                    self.hosts[host].foreign_frames += 1;
                }
            }
        }
    }

    /// Receives a frame on a link direction at the host that it is for.
    fn host_receives(&mut self, (host, line): (usize, usize), content: Content, len: u16) {
        let this = &mut self.hosts[host];
        this.received_frames += 1;
        let now = self.links.now;
        match content {
            Content::Cnp { flow } => self.flows[flow].cut(now),
            Content::Ack { flow, ack } => self.acknowledged(flow, &ack),
            Content::Data { flow: number, number: frame, repetition, marked } => {
                let flow = &mut self.flows[number];
                let line_bytes = self.links.directions[line].bytes_of(len);
                let seen = flow.receive((frame, repetition), marked, line_bytes, now);
                let traffic = flow.traffic;
                if seen.sends_cnp {
                    this.send_cnp(number);
                }
                if let (Some(ack), Some(acks)) = (seen.ack, &self.scenario.traffic[traffic].acks) {
                    this.send_ack(number, (acks.priority, acks.dscp), ack);
                }
                if seen.sends_cnp || seen.ack.is_some() {
                    this.send(&mut self.flows, &mut self.links);
                }
                if !seen.counts {
                    return;
                }
                if let Some(log) = &mut self.links.latency {
                    log.arrived(number, frame, now);
                }
                self.flows[number].receiver.bytes += if seen.is_new { u64::from(len) } else { 0 };
                self.record.arrived(traffic, len, line_bytes, now);
                if let Some(message) = seen.completed {
                    self.completed(traffic, number, message);
                }
            }
        }
    }

    /// Handles an acknowledgment at the sender of a flow.
    fn acknowledged(&mut self, number: usize, ack: &AckContent) {
        self.flows[number].acknowledge(ack, self.links.int.as_deref_mut(), self.links.now);
        self.resume(number);
    }

    /// Handles the timer of a flow whose frames are acknowledged.
    fn expire(&mut self, number: usize) {
        if let Some(acked) = &mut self.flows[number].sender.acked {
            acked.expire(self.links.now);
            self.resume(number);
        }
    }

    /// Sends what a flow may send now, and plans its timer.
    fn resume(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        if let Some(acked) = &mut flow.sender.acked {
            acked.plan_timeout(number, flow.headers.from, &mut self.links.queue);
        }
        self.list_idle(number);
    }

    /// Handles a message that has arrived completely: steps of a collective may need it, or other
    /// traffic.
    fn completed(&mut self, traffic: usize, flow: usize, message: ReportedMessage) {
        let now = self.links.now;
        let node = self.flows[flow].headers.to;
        let is_last = self.record.completed((traffic, flow, node), message, now);
        if let Some(job) = &mut self.jobs[traffic] {
            let first = self.traffic_flows[traffic].start;
            for (number, bytes) in job.arrived(flow - first, message.number) {
                self.push_message(first + number, bytes);
            }
        }
        if is_last {
            self.begin_after(traffic);
        }
    }

    /// Begins the traffic that waits for another, all of whose messages have arrived, if it waits
    /// for nothing else.
    fn begin_after(&mut self, traffic: usize) {
        let record = &self.record;
        let waits = |(_, waiting): &(usize, &crate::scenario::Traffic)| match &waiting.start {
            Start::After(others) => {
                others.contains(&traffic) && others.iter().all(|other| record.is_complete(*other))
            }
            Start::At(_) => false,
        };
        let ready: Vec<usize> =
            self.scenario.traffic.iter().enumerate().filter(waits).map(|(number, _)| number).collect();
        for number in ready {
            self.record.begun(number, self.links.now);
            for flow in self.traffic_flows[number].clone() {
                self.start_flow(flow, self.links.now);
            }
        }
    }

    fn start_flow(&mut self, number: usize, at: Picos) {
        let node = self.flows[number].headers.from;
        if self.parts.owns(node) {
            self.links.queue.schedule(at, node, Event::FlowStart(number));
        }
    }

    fn begin(&mut self, number: usize) {
        let traffic = self.flows[number].traffic;
        if let Some(job) = &mut self.jobs[traffic] {
            let messages = job.begin(number - self.traffic_flows[traffic].start);
            self.flows[number].begin(self.links.now);
            messages.into_iter().for_each(|bytes| self.push_message(number, bytes));
            return;
        }
        if self.flows[number].begin(self.links.now) {
            if let Some(first) = self.flows[number].first_message(self.links.now) {
                let node = self.flows[number].headers.from;
                self.links.queue.schedule(first, node, Event::Message(number));
            }
        } else {
            self.list(number);
        }
    }

    fn add_message(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let sizes = self.scenario.traffic[flow.traffic].sizes.as_deref();
        let (message, next) = flow.add_message(sizes, self.links.now);
        if let Some(next) = next {
            self.links.queue.schedule(next, flow.headers.from, Event::Message(number));
        }
        self.announce(number, message);
        self.list_idle(number);
    }

    /// Prepares the receiver of a flow for a message.
    fn announce(&mut self, number: usize, message: Message) {
        match self.parts.other(self.flows[number].headers.to) {
            None => self.flows[number].expect_message(message),
            Some(part) => self.links.mail[part].messages.push((number, message)),
        }
    }

    fn push_message(&mut self, number: usize, bytes: u64) {
        let message = self.flows[number].push_message(bytes, self.links.now);
        self.announce(number, message);
        self.list_idle(number);
    }

    fn list_idle(&mut self, number: usize) {
        if !self.flows[number].sender.is_listed {
            self.list(number);
        }
    }

    /// Schedules a flow that was idle and has frames to send.
    fn list(&mut self, number: usize) {
        let host = &mut self.hosts[self.flows[number].from];
        host.schedule(number, &mut self.flows[number], &mut self.links);
        host.send(&mut self.flows, &mut self.links);
    }

    /// Honors a PFC frame that arrived over a link direction.
    fn apply_control(&mut self, number: usize) {
        let now = self.links.now;
        let to = self.links.directions[number].to;
        let Some(InFlightFrame { frame, len, .. }) = self.links.take_control(number) else { return };
        self.record.pauses.record_pause(number, self.links.frames.bytes(frame), now);
        match self.node_indices[to.node] {
            NodeIndex::Switch(device) => {
                self.devices[device].receive(to.port, (frame, len), now, &mut self.links.frames);
                self.devices[device].act(&mut self.links);
            }
            NodeIndex::Host(host) => {
                self.hosts[host].honor(to.port, self.links.frames.bytes(frame), instant(now));
                self.links.frames.free(frame);
                self.hosts[host].send(&mut self.flows, &mut self.links);
            }
        }
    }

    /// Runs an agent of DCBX. What it agreed on applies at once.
    fn negotiate(&mut self, end: usize) {
        let Some(agreed) = self.negotiation.run(end, &mut self.links) else { return };
        let LinkDirection { from, .. } = self.links.directions[self.negotiation.ends[end].line];
        match (self.node_indices[from.node], &self.scenario.nodes[from.node].kind) {
            (NodeIndex::Switch(device), NodeKind::Switch(settings)) => {
                let Some(Some(dcbx)) = settings.dcbx.get(from.port) else { return };
                self.devices[device].apply_negotiated(from.port, dcbx, &agreed, &mut self.links);
            }
            (NodeIndex::Host(host), _) => {
                self.hosts[host].set_honored(from.port, agreed.no_drop, &self.links);
                self.hosts[host].send(&mut self.flows, &mut self.links);
            }
            _ => {}
        }
    }

    /// Reports a cable that was cut or repaired to the agent that sends over a link direction.
    fn renegotiate(&mut self, line: usize) {
        if let Some(end) = self.negotiation.link_changed(line, &self.links) {
            self.negotiate(end);
        }
    }

    fn wake(&mut self, line: usize) {
        if !self.links.is_awaited(line) {
            return;
        }
        let from = self.links.directions[line].from;
        match self.node_indices[from.node] {
            NodeIndex::Switch(device) => self.devices[device].wake(from.port, &mut self.links),
            NodeIndex::Host(host) => self.hosts[host].send(&mut self.flows, &mut self.links),
        }
    }

    fn apply_fault(&mut self, fault: usize) {
        match self.scenario.faults[fault].kind {
            FaultKind::LinkDown { link } => [2 * link, 2 * link + 1].map(|line| self.cut(line)),
            FaultKind::LinkUp { link } => {
                // Both directions first: what one end sends at once reaches the other.
                let lines = [2 * link, 2 * link + 1];
                for line in lines {
                    self.links.directions[line].up = true;
                    self.negotiation.lose_frames(line, &mut self.links);
                }
                lines.map(|line| self.repair(line))
            }
            FaultKind::Storm { host, priorities, duration_ns } => {
                let (NodeIndex::Host(host), true) = (self.node_indices[host], self.parts.owns(host)) else {
                    return;
                };
                self.hosts[host].storm(priorities, of_ns(duration_ns), self.links.now);
                self.hosts[host].send(&mut self.flows, &mut self.links);
                [(), ()]
            }
            FaultKind::Route(route) => {
                self.changed_routes.push(route);
                self.set_route(route);
                [(), ()]
            }
        };
        let is_link = |kind| matches!(kind, FaultKind::LinkDown { .. } | FaultKind::LinkUp { .. });
        if let Some(after_ns) = self.scenario.convergence_ns
            && is_link(self.scenario.faults[fault].kind)
        {
            self.links.queue.schedule_global(self.links.now + of_ns(after_ns), Event::Converge);
        }
    }

    fn cut(&mut self, number: usize) {
        let now = self.links.now;
        self.links.cut(number);
        self.negotiation.lose_frames(number, &mut self.links);
        let LinkDirection { from, to, .. } = self.links.directions[number];
        // Pauses received over the link end.
        self.record.pauses.forget(number, now);
        if let NodeIndex::Host(host) = self.node_indices[to.node] {
            self.hosts[host].link_changed(to.port, &self.links);
        }
        if !self.parts.owns(from.node) {
            return;
        }
        match self.node_indices[from.node] {
            NodeIndex::Switch(device) => self.devices[device].port_down(from.port, &mut self.links),
            NodeIndex::Host(host) => {
                self.hosts[host].link_changed(from.port, &self.links);
                self.hosts[host].send(&mut self.flows, &mut self.links);
            }
        }
        self.renegotiate(number);
    }

    fn repair(&mut self, number: usize) {
        let from = self.links.directions[number].from;
        if !self.parts.owns(from.node) {
            return;
        }
        match self.node_indices[from.node] {
            NodeIndex::Switch(device) => self.devices[device].port_up(from.port, &mut self.links),
            NodeIndex::Host(host) => {
                self.hosts[host].link_changed(from.port, &self.links);
                self.hosts[host].send(&mut self.flows, &mut self.links);
            }
        }
        self.renegotiate(number);
    }

    fn sample(&mut self) {
        let next: Picos = self.links.now + of_ns(self.scenario.sample_ns);
        let (devices, parts) = (&mut self.devices, &self.parts);
        let own = devices.iter_mut().filter(|device| parts.owns(device.node));
        self.record.sample(self.links.now, own);
        self.links.queue.schedule_global(next, Event::Sample);
    }
}

/// Returns where the ends of a flow are.
fn flow_ends(flow: &Flow, parts: &PartOf) -> FlowEnds {
    match (parts.other(flow.headers.from), parts.other(flow.headers.to)) {
        (None, Some(part)) => FlowEnds::ReceiverIn(part),
        (Some(_), None) => FlowEnds::SenderElsewhere,
        _ => FlowEnds::Together,
    }
}

/// Builds the flows of all traffic. Returns them with the range of each traffic.
fn make_flows(
    scenario: &Scenario,
    node_indices: &[NodeIndex],
    hosts: &[Host],
    wires: &Links,
) -> (Vec<Flow>, Vec<std::ops::Range<usize>>) {
    let (mut flows, mut ranges) = (Vec::new(), Vec::new());
    let host_of = |node: usize| match node_indices[node] {
        NodeIndex::Host(host) => host,
        NodeIndex::Switch(_) => panic!("node {node} is no host"),
    };
    let routes = scenario.traffic.iter().any(|traffic| traffic.acks.is_some()).then(|| routes_of(scenario));
    for (number, traffic) in scenario.traffic.iter().enumerate() {
        let first = flows.len();
        for &(from, to) in &traffic.flows {
            let headers = PacketHeaders {
                flow: flows.len(),
                from,
                to,
                vids: [from, to].map(|host| hosts[host_of(host)].vlan.unwrap_or(0)),
                priority: traffic.priority,
                dscp: traffic.dscp,
                ecn: 0,
                len: traffic.frame_bytes,
            };
            let line = &wires.directions[hosts[host_of(from)].line()];
            let overhead_bytes = line.bytes_of(0) as u16;
            let path = flow_path(scenario, routes.as_ref(), traffic, (from, to), line.speed_bps());
            flows.push(Flow::new(
                (number, traffic),
                host_of(from),
                headers,
                overhead_bytes,
                &path,
                (scenario.seed, of_ns(scenario.warmup_ns)),
            ));
        }
        ranges.push(first..flows.len());
    }
    (flows, ranges)
}

/// Returns the number of messages of a traffic, if it is known from the start. Those of Poisson and
/// incast traffic are counted only if another one waits for them.
fn message_count(scenario: &Scenario, number: usize, flows: &[Flow], job: Option<&Job>) -> Option<usize> {
    let traffic = &scenario.traffic[number];
    let waits = |other: &Traffic| matches!(&other.start, Start::After(others) if others.contains(&number));
    match (traffic.pattern, &traffic.start) {
        (Pattern::Finite { .. }, _) => Some(flows.len()),
        (Pattern::Collective { .. }, _) => job.map(Job::step_count),
        (Pattern::Poisson { .. } | Pattern::Incast { .. }, Start::At(at_ns))
            if scenario.traffic.iter().any(waits) =>
        {
            let sizes = traffic.sizes.is_some();
            Some(flows.iter().map(|flow| flow.planned_messages(scenario.seed, of_ns(*at_ns), sizes)).sum())
        }
        _ => None,
    }
}

/// Returns the routes at the beginning.
pub(crate) fn routes_of(scenario: &Scenario) -> Routes {
    let mut routes = Routes::shortest(&scenario.nodes, &scenario.links);
    scenario.routes.iter().for_each(|route| routes.set(*route));
    routes
}

/// Returns the path of a flow as its sender knows it. Only acknowledged flows look at more than its
/// speed, and they have `routes`.
fn flow_path(
    scenario: &Scenario,
    routes: Option<&Routes>,
    traffic: &Traffic,
    (from, to): (usize, usize),
    max_bps: u64,
) -> FlowPath {
    let links = routes.and_then(|routes| routes.path(from, to)).unwrap_or_default();
    FlowPath {
        max_bps,
        base_rtt_ns: base_rtt_ns(&scenario.links, &links, traffic.frame_bytes),
        hops: links.len().saturating_sub(1) as u32,
        frame_bytes: traffic.frame_bytes,
    }
}
