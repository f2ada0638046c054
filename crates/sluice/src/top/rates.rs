//! What the ports did between the last two snapshots.

use std::collections::{HashMap, VecDeque};

use control::frames;
use control::v1::{Count, Group, Port, Snapshot};

use crate::show::format::{earlier, elapsed_ns, per_second, utilization_percent};

/// Snapshots whose transmitted rates are kept, for the trend.
const TREND: usize = 240;

/// The present snapshot, and what of the past is needed for rates and trends.
#[derive(Default)]
pub struct Rates {
    now: Snapshot,
    before: Option<Snapshot>,
    /// Transmitted bit/s of each port, the latest last.
    trends: HashMap<String, VecDeque<u64>>,
}

/// A port at one moment. Rates and percentages are of the time since the snapshot before.
#[derive(Debug, Clone, PartialEq)]
pub struct PortRow {
    /// As in the configuration.
    pub name: String,
    /// It carries frames.
    pub is_up: bool,
    /// Data received, in bit/s without FCS.
    pub received_bps: u64,
    /// Data transmitted.
    pub transmitted_bps: u64,
    /// Part of the line rate that is transmitted; `None` without a speed.
    pub used_percent: Option<f64>,
    /// Cells that its groups hold.
    pub ingress_cells: u64,
    /// Cells that its queues hold.
    pub egress_cells: u64,
    /// The longest time in XOFF of a group.
    pub xoff_percent: f64,
    /// A group is in XOFF now.
    pub is_xoff: bool,
    /// The longest time that the peer paused a priority.
    pub paused_percent: f64,
    /// Frames dropped at either side per second.
    pub drops_per_second: u64,
    /// Frames lost that must not be: see [`lost`].
    pub lost_frames: u64,
    /// Priorities that are stormed.
    pub is_stormed: bool,
}

impl Rates {
    /// Takes the next snapshot. One that is older than the last is of another daemon.
    pub fn push(&mut self, next: Snapshot) {
        let last = std::mem::replace(&mut self.now, next);
        let is_later = !last.ports.is_empty() && last.at_ns < self.now.at_ns;
        self.before = is_later.then_some(last);
        if self.before.is_none() {
            self.trends.clear();
        }
        for row in self.rows() {
            let trend = self.trends.entry(row.name).or_default();
            trend.push_back(row.transmitted_bps);
            if trend.len() > TREND {
                trend.pop_front();
            }
        }
        let ports = &self.now.ports;
        self.trends.retain(|name, _| ports.iter().any(|port| port.name == *name));
    }

    /// Returns the present snapshot.
    pub fn now(&self) -> &Snapshot {
        &self.now
    }

    /// Returns all ports, in their order.
    pub fn rows(&self) -> Vec<PortRow> {
        self.now.ports.iter().map(|port| self.row(port)).collect()
    }

    /// Returns a port, as it is and as it was in the snapshot before.
    pub fn port(&self, name: &str) -> Option<(&Port, Option<&Port>)> {
        let port = self.now.ports.iter().find(|port| port.name == name)?;
        Some((port, earlier(self.before.as_ref(), name)))
    }

    /// Returns the last transmitted rates of a port, at most `most`.
    pub fn trend(&self, name: &str, most: usize) -> Vec<u64> {
        let Some(trend) = self.trends.get(name) else { return Vec::new() };
        trend.iter().skip(trend.len().saturating_sub(most)).copied().collect()
    }

    /// Nanoseconds between the last two snapshots; 0 if there is only one.
    pub fn elapsed_ns(&self) -> u64 {
        elapsed_ns(&self.now, self.before.as_ref())
    }

    /// Returns the part of the time since the snapshot before that a total of nanoseconds grew by.
    pub fn percent_of_time(&self, now_ns: u64, before_ns: u64) -> f64 {
        let elapsed_ns = self.elapsed_ns().max(1);
        (now_ns.saturating_sub(before_ns) as f64 * 100.0 / elapsed_ns as f64).min(100.0)
    }

    /// Returns the growth of a count of frames a second; 0 without a snapshot before.
    pub fn per_second(&self, now: u64, before: u64) -> u64 {
        per_second(now, before, self.elapsed_ns()).unwrap_or(0)
    }

    /// Returns the growth of a count in bit/s; 0 without a snapshot before.
    pub fn bps(&self, now: Option<Count>, before: Option<Count>) -> u64 {
        let bytes = |count: Option<Count>| count.unwrap_or_default().bytes;
        8 * self.per_second(bytes(now), bytes(before))
    }

    fn row(&self, port: &Port) -> PortRow {
        let none = Port::default();
        let earlier = earlier(self.before.as_ref(), &port.name);
        // Without a snapshot before nothing is known of any time.
        let before = earlier.unwrap_or(if self.before.is_some() { &none } else { port });
        let longest = |now: Vec<u64>, before: Vec<u64>| {
            let before = before.into_iter().chain(std::iter::repeat(0));
            now.into_iter()
                .zip(before)
                .map(|(now, before)| self.percent_of_time(now, before))
                .fold(0.0, f64::max)
        };
        let xoff_ns = |port: &Port| port.groups.iter().map(|group| group.xoff_ns).collect();
        let paused_ns = |port: &Port| {
            let priorities = port.priorities.iter().map(|priority| priority.paused_ns);
            priorities.chain([port.link_paused_ns]).collect()
        };
        PortRow {
            name: port.name.clone(),
            is_up: port.up,
            received_bps: self.bps(port.received, before.received),
            transmitted_bps: self.bps(port.transmitted, before.transmitted),
            used_percent: utilization_percent(port, earlier, self.elapsed_ns(), |port| port.transmitted),
            ingress_cells: port.groups.iter().map(total_cells).sum(),
            egress_cells: port
                .queues
                .iter()
                .filter_map(|queue| queue.level)
                .map(|level| u64::from(level.cells))
                .sum(),
            xoff_percent: longest(xoff_ns(port), xoff_ns(before)),
            is_xoff: port.groups.iter().any(|group| group.xoff),
            paused_percent: longest(paused_ns(port), paused_ns(before)),
            drops_per_second: self.per_second(dropped(port), dropped(before)),
            lost_frames: lost(port),
            is_stormed: port.priorities.iter().any(|priority| priority.stormed),
        }
    }
}

/// Returns the cells that a group holds.
pub fn total_cells(group: &Group) -> u64 {
    group.total.unwrap_or_default().cells.into()
}

fn dropped(port: &Port) -> u64 {
    frames(port.input_dropped) + frames(port.output_dropped)
}

/// Returns the frames of no-drop priorities that were lost, and those of any priority that the
/// kernel lost on receipt, where nothing tells their priority.
fn lost(port: &Port) -> u64 {
    let protects = port.groups.iter().any(|group| group.no_drop);
    let others = if protects { 0 } else { port.kernel_counters().rx_lost_frames() };
    port.no_drop_lost_frames(None) + others
}
