//! A network in parts that run side by side, each with its own nodes and events.
//!
//! Rule: what a node sends to one of another part arrives there after the flight time of a cable at
//! the earliest. The shortest flight time between two parts is the lookahead. From the earliest
//! event on, every part runs for that long without the others: this is a window. What they send
//! meanwhile arrives after it. A window ends before a fault or new routes, which change both ends
//! of a cable at once. The order of events at a node does not depend on the parts, so neither do
//! the results.
//!
//! A host is in the part of its switch. Nodes that act on each other without delay are in one part:
//! the ranks of a collective, and what waits for other traffic with the receivers of that.
//!
//! Source: R. Fujimoto, "Parallel discrete event simulation" (CACM 33, 1990), conservative windows.

mod assign;
mod join;

use wire::ethernet::TAG_BYTES;
use wire::pause::FRAME_BYTES;

use crate::link::Links;
pub use crate::link::Mail;
use crate::routes::vlans::Vlans;
use crate::scenario::{FaultKind, Scenario};
use crate::simulation::part_of::PartOf;
use crate::simulation::{Captured, Simulation};
use crate::time::{Picos, of_ns};

/// The least windows of a run: between two its progress is seen, and whether memory is left.
const LEAST_WINDOWS: u64 = 1000;

/// Which nodes belong to which part, and how far the parts may run.
#[derive(Debug)]
pub struct Partition<'s> {
    scenario: &'s Scenario,
    /// By node.
    part_of: Vec<usize>,
    count: usize,
    lookahead: Picos,
    /// When something changes several parts at once, in order.
    stops: Vec<Picos>,
    end: Picos,
    /// True if series of queues and lossy groups are kept.
    records_occupancy: bool,
}

/// A part of a running network.
#[derive(Debug)]
pub struct Part<'s>(Simulation<'s>);

impl<'s> Partition<'s> {
    /// Divides the network of a scenario into at most `most` parts. There are fewer if it has fewer
    /// switches, or its nodes act on each other without delay.
    pub fn new(scenario: &'s Scenario, most: usize) -> Self {
        let (part_of, count) = assign::parts(scenario, most.max(1));
        let links = Links::new(&scenario.links, scenario.seed);
        // No frame is shorter than one of PFC, unless a scenario made in code has one, or a port
        // removes its tag.
        let shortest = scenario.traffic.iter().map(|traffic| traffic.frame_bytes).min().unwrap_or(u16::MAX);
        let has_vlans = Vlans::new(&scenario.nodes, &scenario.links).are_of_ports();
        let removed = if has_vlans { TAG_BYTES as u16 } else { 0 };
        let shortest = shortest.min(FRAME_BYTES as u16) - removed;
        let between = links.directions.iter().filter(|line| part_of[line.from.node] != part_of[line.to.node]);
        let lookahead = between.map(|line| line.flight_time(shortest)).min().unwrap_or(Picos::MAX / 2);
        let end = of_ns(scenario.duration_ns);
        Self { scenario, part_of, count, lookahead, stops: stops(scenario), end, records_occupancy: false }
    }

    /// The number of parts.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps series as of [`Simulation::record_occupancy`] in all parts.
    pub fn record_occupancy(&mut self) {
        self.records_occupancy = true;
    }

    /// Creates a part at time 0. They are numbered from 0.
    pub fn part(&self, number: usize) -> Part<'s> {
        let parts = PartOf { part_of: self.part_of.clone(), own: number, count: self.count };
        let mut part = Simulation::part(self.scenario, parts);
        if self.records_occupancy {
            part.record_occupancy();
        }
        Part(part)
    }

    /// Returns the end, which is not part of it, of the window that begins with the earliest event
    /// of all parts, in picoseconds; `None` if the run is over.
    pub fn window(&self, earliest: u64) -> Option<u64> {
        if earliest > self.end {
            return None;
        }
        let stop = self.stops.get(self.stops.partition_point(|stop| *stop <= earliest));
        let last = stop.copied().unwrap_or(Picos::MAX).min(self.end + 1);
        let longest = (self.end / LEAST_WINDOWS).max(1);
        Some(earliest.saturating_add(self.lookahead.min(longest)).min(last))
    }

    /// Joins the parts, in the order of their numbers, at the end of the run.
    pub fn join(&self, parts: Vec<Part<'s>>) -> Simulation<'s> {
        join::join(parts.into_iter().map(|part| part.0).collect(), &self.part_of, self.end)
    }
}

impl Part<'_> {
    /// Passes the frames of this link that arrive in this part to the tap of [`Part::advance`].
    pub fn capture(&mut self, link: usize) {
        self.0.capture(link);
    }

    /// Processes the events before `end`, in picoseconds. Frames of captured links are passed to
    /// `tap`.
    pub fn advance(&mut self, end: u64, tap: &mut dyn FnMut(&Captured)) {
        if let Some(log) = &mut self.0.links.latency {
            log.end_window();
        }
        self.0.run_through(end.saturating_sub(1), tap);
    }

    /// Returns the time of the next event in picoseconds; the highest number if there is none.
    pub fn next_at(&mut self) -> u64 {
        self.0.links.queue.next_at().unwrap_or(Picos::MAX)
    }

    /// Exchanges an empty list for what was sent to another part since the last call. Returns when
    /// the first of it arrives, in picoseconds; the highest number if there is nothing.
    pub fn send(&mut self, part: usize, mail: &mut Mail) -> u64 {
        std::mem::swap(mail, &mut self.0.links.mail[part]);
        mail.first_at()
    }

    /// Takes in what another part has sent, and leaves an empty list.
    pub fn receive(&mut self, mail: &mut Mail) {
        let Simulation { links, flows, negotiation, .. } = &mut self.0;
        for (flow, message) in mail.messages.drain(..) {
            flows[flow].expect_message(message);
        }
        for (line, at, packet) in mail.frames.drain(..) {
            links.take_in(line, at, &packet);
        }
        for (end, at, frame) in mail.lldp.drain(..) {
            negotiation.take_in(end, at, frame, links);
        }
        if let Some(log) = &mut links.latency {
            log.take_in(&mut mail.sent);
        }
        if let Some(log) = &mut links.int {
            mail.int.drain(..).for_each(|records| log.take_in(records));
        }
    }

    /// Virtual time of its last event in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    /// Frames that arrived at its switches so far, PFC included.
    pub fn frame_hops(&self) -> u64 {
        self.0.frame_hops()
    }

    /// True if the system had no memory left for one of its frames.
    pub fn is_without_memory(&self) -> bool {
        self.0.is_without_memory()
    }
}

/// Returns when faults occur, and when routes converge after them, in order.
fn stops(scenario: &Scenario) -> Vec<Picos> {
    let mut stops = Vec::new();
    for fault in &scenario.faults {
        stops.push(of_ns(fault.at_ns));
        if let (FaultKind::LinkDown { .. } | FaultKind::LinkUp { .. }, Some(after_ns)) =
            (fault.kind, scenario.convergence_ns)
        {
            stops.push(of_ns(fault.at_ns) + of_ns(after_ns));
        }
    }
    stops.sort_unstable();
    stops
}
