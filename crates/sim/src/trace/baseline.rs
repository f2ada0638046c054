//! What had been counted when the measuring window began, of the times that only the window counts
//! for: link directions busy, groups in XOFF, queues, hosts and whole ports paused.
//!
//! Rule: an episode or a pause that began before the window counts for its time in the window, and
//! not for the number of those that began.

use switch::monitor::counters::PortSnapshot;
use switch::settings::PRIORITIES;
use switch::{Nanos, Snapshot};

use crate::host_node::Host;
use crate::link::Links;
use crate::switch_node::SimSwitch;
use crate::time::{Picos, instant};

/// How often something began, and for how long it lasted in all, by priority or queue.
type Spans = [(u64, Nanos); PRIORITIES];

/// The counts at the beginning of the window; empty if the window is the whole run.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    /// By link direction.
    pub(crate) busy: Vec<Picos>,
    /// By switch and port.
    switches: Vec<Vec<PortBaseline>>,
    /// By host: pauses.
    hosts: Vec<Spans>,
}

#[derive(Debug)]
struct PortBaseline {
    /// Groups in XOFF.
    groups: Spans,
    /// Pauses of queues, and of priorities.
    queues: Spans,
    priorities: Spans,
    /// Pauses of the whole port, by 802.3x PAUSE.
    link_pauses: (u64, Nanos),
}

impl PortBaseline {
    fn new(port: &PortSnapshot) -> Self {
        let spans = |of: &dyn Fn(usize) -> Option<(u64, Nanos)>| {
            std::array::from_fn(|number| of(number).unwrap_or_default())
        };
        Self {
            groups: spans(&|p| port.groups.get(p).map(|group| (group.xoff_episodes, group.xoff_ns))),
            queues: spans(&|q| port.queues.get(q).map(|queue| (queue.pauses, queue.paused_ns))),
            priorities: spans(&|p| port.priorities.get(p).map(|of| (of.pauses, of.paused_ns))),
            link_pauses: (port.link_pauses, port.link_paused_ns),
        }
    }

    fn subtract_from(&self, port: &mut PortSnapshot) {
        let (pauses, ns) = self.link_pauses;
        port.link_pauses -= pauses;
        port.link_paused_ns -= ns;
        for (group, (episodes, ns)) in port.groups.iter_mut().zip(self.groups) {
            group.xoff_episodes -= episodes;
            group.xoff_ns -= ns;
        }
        for (queue, (pauses, ns)) in port.queues.iter_mut().zip(self.queues) {
            queue.pauses -= pauses;
            queue.paused_ns -= ns;
        }
        for (priority, (pauses, ns)) in port.priorities.iter_mut().zip(self.priorities) {
            priority.pauses -= pauses;
            priority.paused_ns -= ns;
        }
    }
}

impl Baseline {
    /// Takes the counts of link directions, switches and hosts. `owns` returns whether a node is
    /// simulated in this part of the network.
    pub(crate) fn take(
        links: &Links,
        devices: &mut [SimSwitch],
        hosts: &[Host],
        owns: impl Fn(usize) -> bool,
    ) -> Self {
        let now = instant(links.now);
        let mut snapshot = Snapshot::default();
        let switches = devices.iter_mut().map(|device| {
            if !owns(device.node) {
                return Vec::new();
            }
            device.switch.snapshot(now, &mut snapshot);
            snapshot.ports.iter().map(PortBaseline::new).collect()
        });
        Self {
            busy: links.directions.iter().map(|line| line.busy_until(links.now)).collect(),
            switches: switches.collect(),
            hosts: hosts.iter().map(|host| spans_of(host.pause_history(now))).collect(),
        }
    }

    /// True if there was nothing before the window.
    pub(crate) fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// Takes over what another part of the network has of a switch.
    pub(crate) fn take_switch(&mut self, other: &mut Self, device: usize) {
        swap(&mut self.switches, &mut other.switches, device);
    }

    /// Takes over what another part of the network has of a host.
    pub(crate) fn take_host(&mut self, other: &mut Self, host: usize) {
        swap(&mut self.hosts, &mut other.hosts, host);
    }

    /// Takes over what another part of the network has of a link direction that begins there.
    pub(crate) fn take_direction(&mut self, other: &mut Self, line: usize) {
        swap(&mut self.busy, &mut other.busy, line);
    }

    /// Leaves in snapshots of all switches what happened in the window.
    pub(crate) fn subtract_from(&self, snapshots: &mut [Snapshot]) {
        for (snapshot, baseline) in snapshots.iter_mut().zip(&self.switches) {
            snapshot.ports.iter_mut().zip(baseline).for_each(|(port, baseline)| baseline.subtract_from(port));
        }
    }

    /// Returns the pauses of host number `host` in the window, and their time, by priority.
    pub(crate) fn pauses_since(
        &self,
        host: usize,
        history: ([u64; PRIORITIES], [Nanos; PRIORITIES]),
    ) -> ([u64; PRIORITIES], [Nanos; PRIORITIES]) {
        let (mut pauses, mut paused_ns) = history;
        for (priority, (before, before_ns)) in self.hosts.get(host).into_iter().flatten().enumerate() {
            pauses[priority] -= before;
            paused_ns[priority] -= before_ns;
        }
        (pauses, paused_ns)
    }
}

fn spans_of((counts, times): ([u64; PRIORITIES], [Nanos; PRIORITIES])) -> Spans {
    std::array::from_fn(|number| (counts[number], times[number]))
}

fn swap<T>(own: &mut [T], theirs: &mut [T], index: usize) {
    if let (Some(own), Some(theirs)) = (own.get_mut(index), theirs.get_mut(index)) {
        std::mem::swap(own, theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_of_the_whole_port_are_those_of_the_window() {
        let at = |link_pauses, link_paused_ns| PortSnapshot {
            link_pauses,
            link_paused_ns,
            ..PortSnapshot::default()
        };
        let mut port = at(3, 500);
        PortBaseline::new(&at(1, 200)).subtract_from(&mut port);
        assert_eq!((port.link_pauses, port.link_paused_ns), (2, 300));
    }
}
