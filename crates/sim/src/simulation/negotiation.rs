//! LLDP and DCBX of the network: the daemon's agents, at the ends of links that negotiate.
//!
//! Rule: frames pass beside the queues and take no time of the links, as those of the daemon's
//! packet sockets; each takes the time of its bytes and of the cable. A port's control plane reads
//! a frame [`READ_DELAY`] after it came, as the daemon's control thread at the latest. Source:
//! docs/dcbx.md.

use core::time::Duration;
use std::collections::VecDeque;

use config::Negotiated;
use dcbx::settings::{
    ApplicationSettings, DcbxSettings, LldpSettings, LocalSystem, PfcSettings, VersionSetting,
};
use dcbx::{Agent, AgentSettings, Status};
use switch::Nanos;
use wire::lldp::ChassisId;

use crate::event_queue::Event;
use crate::link::{LinkDirection, Links};
use crate::packet::{host_mac, port_mac};
use crate::scenario::{HostNode, NodeKind, Scenario, SwitchNode};
use crate::simulation::part_of::PartOf;
use crate::time::{NEVER, NS, Picos, of_ns};

/// Time from the arrival of a frame until it is read.
const READ_DELAY: Picos = 20_000_000 * NS;

/// The agents of all ends that negotiate.
#[derive(Debug, Default)]
pub(crate) struct Negotiation {
    pub(crate) ends: Vec<LldpEnd>,
    /// The end that sends over each link direction.
    of_line: Vec<Option<usize>>,
}

/// The agent of one end of a link.
#[derive(Debug)]
pub(crate) struct LldpEnd {
    /// The outgoing link direction.
    pub(crate) line: usize,
    agent: Agent,
    /// Frames under way to this end, with the time when they are read.
    incoming: VecDeque<(Picos, Vec<u8>)>,
    /// When the agent is to be polled.
    next: Picos,
    /// What was reported last, so that it is applied once.
    applied: Negotiated,
    /// When its state or outcome last changed.
    pub(crate) settled: Picos,
}

impl LldpEnd {
    /// The state of the negotiation.
    pub(crate) fn status(&self) -> &Status {
        self.agent.status().expect("every end here has DCBX")
    }
}

impl Negotiation {
    /// Creates the agents of a scenario, and plans their start.
    pub(crate) fn new(scenario: &Scenario, links: &mut Links, parts: &PartOf) -> Self {
        let mut negotiation = Self { ends: Vec::new(), of_line: vec![None; links.directions.len()] };
        for line in &links.directions {
            let Some(settings) = settings(scenario, line) else { continue };
            negotiation.of_line[line.number] = Some(negotiation.ends.len());
            let mut agent = Agent::new(settings);
            agent.set_link(Duration::ZERO, true);
            negotiation.ends.push(LldpEnd {
                line: line.number,
                agent,
                incoming: VecDeque::new(),
                next: 0,
                applied: Negotiated::default(),
                settled: 0,
            });
        }
        for (number, end) in negotiation.ends.iter().enumerate() {
            let node = links.directions[end.line].from.node;
            if parts.owns(node) {
                links.queue.schedule(0, node, Event::Negotiate(number));
            }
        }
        negotiation
    }

    /// Runs an agent: reads the frames that have come, and sends what is due. Returns what was
    /// agreed if that has changed.
    pub(crate) fn run(&mut self, number: usize, links: &mut Links) -> Option<Negotiated> {
        let now = links.now;
        let end = &mut self.ends[number];
        let before = end.status().clone();
        let mut is_due = now >= end.next;
        while end.incoming.front().is_some_and(|(at, _)| *at <= now) {
            let (_, frame) = end.incoming.pop_front()?;
            end.agent.receive(time(now), &frame);
            is_due = true;
        }
        if !is_due {
            return None;
        }
        let polled = end.agent.poll(time(now));
        end.agent.take_events();
        end.next = polled.next.map_or(NEVER, |next| of_ns(next.as_nanos() as Nanos));
        if end.next != NEVER {
            let node = links.directions[end.line].from.node;
            links.queue.schedule(end.next.max(now), node, Event::Negotiate(number));
        }
        if *end.status() != before {
            end.settled = now;
        }
        let line = end.line;
        let agreed = Negotiated::of(end.status());
        let changed = (agreed != end.applied).then(|| agreed.clone());
        end.applied = agreed;
        polled.frames.into_iter().for_each(|frame| self.send(line, frame, links));
        changed
    }

    fn send(&mut self, line: usize, frame: Vec<u8>, links: &mut Links) {
        let direction = &links.directions[line];
        let Some(peer) = self.of_line[line ^ 1].filter(|_| direction.up) else { return };
        let at = links.now + direction.flight_time(frame.len() as u16) + READ_DELAY;
        match direction.other_part {
            None => self.take_in(peer, at, frame, links),
            Some(part) => links.mail[part].lldp.push((peer, at, frame)),
        }
    }

    /// Takes in a frame that an end is to read at `at`.
    pub(crate) fn take_in(&mut self, end: usize, at: Picos, frame: Vec<u8>, links: &mut Links) {
        let end_of = &mut self.ends[end];
        end_of.incoming.push_back((at, frame));
        let node = links.directions[end_of.line].from.node;
        links.queue.schedule(at, node, Event::Negotiate(end));
    }

    /// Loses the frames on a link direction.
    pub(crate) fn lose_frames(&mut self, line: usize, links: &mut Links) {
        let Some(peer) = self.of_line[line ^ 1] else { return };
        self.ends[peer].incoming.clear();
        if let Some(part) = links.directions[line].other_part {
            links.mail[part].lldp.retain(|(end, ..)| *end != peer);
        }
    }

    /// Handles a cable that was cut or repaired. Returns the end that sends over this link
    /// direction, if it negotiates.
    pub(crate) fn link_changed(&mut self, line: usize, links: &Links) -> Option<usize> {
        let end = &mut self.ends[self.of_line[line]?];
        end.agent.set_link(time(links.now), links.directions[line].up);
        end.next = links.now;
        self.of_line[line]
    }
}

fn time(at: Picos) -> Duration {
    Duration::from_nanos(at / NS)
}

/// Returns the settings of the end that sends over a link direction; `None` if it does not
/// negotiate.
fn settings(scenario: &Scenario, line: &LinkDirection) -> Option<AgentSettings> {
    let (node, port) = (line.from.node, line.from.port);
    let name = &scenario.nodes[node].name;
    match &scenario.nodes[node].kind {
        NodeKind::Switch(switch) => {
            let SwitchNode { settings, dcbx, lldp, .. } = &**switch;
            let system = LocalSystem {
                chassis: ChassisId::mac(port_mac(node, 0)),
                ..LocalSystem::bridge(name, port_mac(node, port), &settings.ports[port].name)
            };
            let dcbx = dcbx.get(port)?.as_ref()?.settings.clone();
            Some(AgentSettings { system, lldp: *lldp.get(port)?, dcbx: Some(dcbx) })
        }
        NodeKind::Host(HostNode { no_drop, willing, .. }) => {
            let willing = (*willing)?;
            let port_name = format!("eth{port}");
            let system = LocalSystem::bridge(name, host_mac(node), &port_name);
            let pfc = PfcSettings { willing, no_drop: *no_drop, ..PfcSettings::default() };
            let applications = ApplicationSettings { willing, entries: Vec::new() };
            let version = VersionSetting::Auto;
            let dcbx = DcbxSettings { version, pfc, ets: None, applications };
            Some(AgentSettings { system, lldp: LldpSettings::default(), dcbx: Some(dcbx) })
        }
    }
}
