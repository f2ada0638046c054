//! The ports, hosts and links most affected by drops and pauses.

use std::cmp::Reverse;

use sim::Results;
use sim::results::{HostOutcome, PortOutcome, SwitchOutcome};
use switch::monitor::counters::QueueSnapshot;

use super::format::time;
use super::truncate::{fitted, short};
use crate::output::{grouped, table, tenths};

/// The most rows of each table.
const MOST_PORTS: usize = 20;
const MOST_HOSTS: usize = 8;
const MOST_LINKS: usize = 4;
/// The most names in a line of text.
const MOST_NAMES: usize = 3;
/// Longest names of ports in lines of text, in characters.
const PORT_CHARS: usize = 16;
/// Longest names of hosts and their peers in their table.
const HOST_CHARS: usize = 28;

/// A port with drops or pauses.
struct Hotspot<'o> {
    name: String,
    port: &'o PortOutcome,
    drops: u64,
    xoff_episodes: u64,
    /// Headroom of the group that used most of it, and its size.
    headroom_cells: (u32, u32),
    /// The queue that was paused longest.
    paused: Option<&'o QueueSnapshot>,
}

impl<'o> Hotspot<'o> {
    fn new(switch: &SwitchOutcome, port: &'o PortOutcome) -> Option<Self> {
        let headroom = port.groups.iter().max_by_key(|group| group.counts.headroom.peak_cells);
        let paused = port
            .queues
            .iter()
            .map(|queue| &queue.counts)
            .filter(|queue| queue.pauses > 0 || queue.paused_ns > 0);
        let paused = paused.max_by_key(|queue| queue.paused_ns);
        let hit = Self {
            name: format!("{}.{}", switch.name, port.counts.name),
            port,
            drops: port.drops().map(|(_, frames)| frames).sum(),
            xoff_episodes: port.groups.iter().map(|group| group.counts.xoff_episodes).sum(),
            headroom_cells: headroom
                .map_or((0, 0), |group| (group.counts.headroom.peak_cells, group.counts.headroom_size_cells)),
            paused,
        };
        let is_noteworthy =
            hit.drops > 0 || hit.xoff_episodes > 0 || hit.headroom_cells.0 > 0 || hit.paused.is_some();
        is_noteworthy.then_some(hit)
    }

    fn row(&self, name_chars: usize) -> [String; 8] {
        let or_dash = |number: u64| if number == 0 { "–".to_owned() } else { grouped(number) };
        let (peak, size) = self.headroom_cells;
        let drops = self.port.drops().map(|(reason, frames)| format!("{} {reason}", grouped(frames)));
        [
            short(&self.name, name_chars),
            short(&self.port.peer, name_chars),
            if self.drops == 0 { "–".to_owned() } else { drops.collect::<Vec<_>>().join("\n") },
            or_dash(self.xoff_episodes),
            or_dash(peak.into()),
            or_dash(size.into()),
            self.paused.map_or("–".to_owned(), |queue| grouped(queue.pauses)),
            self.paused.map_or("–".to_owned(), |queue| time(queue.paused_ns)),
        ]
    }
}

/// Formats the ports of switches that dropped, paused or were paused, the most drops first.
pub fn ports(outcome: &Results) -> String {
    let mut hits: Vec<Hotspot> = outcome.switches.iter().flat_map(ports_of).collect();
    if hits.is_empty() {
        return "No switch dropped a frame, sent XOFF or was paused.".to_owned();
    }
    hits.sort_by_key(|hit| Reverse((hit.drops, hit.xoff_episodes, hit.paused.map(|queue| queue.paused_ns))));
    let headings = [
        "Port",
        "Linked to",
        "Dropped",
        "XOFF\nepisodes",
        "Headroom\npeak",
        "\nof",
        "Times\npaused",
        "Paused",
    ];
    let mut text = fitted(|name_chars| {
        let mut table = table(&headings, 3);
        hits.iter().take(MOST_PORTS).for_each(|hit| {
            table.add_row(hit.row(name_chars));
        });
        table.trim_fmt()
    });
    if hits.len() > MOST_PORTS {
        text += &format!("\nand {} ports more (--json has all)", hits.len() - MOST_PORTS);
    }
    text + &stuck(&hits)
}

fn ports_of(switch: &SwitchOutcome) -> Vec<Hotspot<'_>> {
    switch.ports.iter().filter_map(|port| Hotspot::new(switch, port)).collect()
}

/// Lists the ports in XOFF, and those paused, at the end of the run.
fn stuck(hits: &[Hotspot]) -> String {
    let in_xoff = hits.iter().filter(|hit| hit.port.groups.iter().any(|group| group.counts.xoff));
    let paused = hits.iter().filter(|hit| hit.port.queues.iter().any(|queue| queue.counts.paused));
    let mut text = String::new();
    for (what, names) in [
        ("In XOFF at the end", in_xoff.map(|hit| hit.name.as_str()).collect::<Vec<_>>()),
        ("Paused at the end", paused.map(|hit| hit.name.as_str()).collect()),
    ] {
        if !names.is_empty() {
            text += &format!("\n{what}: {}", some(&names));
        }
    }
    text
}

/// Lists the first few names, and the number of further ones.
fn some(names: &[&str]) -> String {
    let mut text = names[..names.len().min(MOST_NAMES)]
        .iter()
        .map(|name| short(name, PORT_CHARS))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > MOST_NAMES {
        text += &format!(" and {} more", names.len() - MOST_NAMES);
    }
    text
}

/// Formats the hosts that were paused longest, by priority.
pub fn hosts(outcome: &Results) -> String {
    let mut paused: Vec<(&HostOutcome, usize)> = outcome
        .hosts
        .iter()
        .flat_map(|host| (0..host.pauses.len()).map(move |priority| (host, priority)))
        .filter(|(host, priority)| host.pauses[*priority] > 0)
        .collect();
    if paused.is_empty() {
        return String::new();
    }
    paused.sort_by_key(|(host, priority)| Reverse(host.paused_ns[*priority]));
    let headings = ["Paused host", "Linked to", "Prio-\nrity", "Times", "Paused", "% of the\nrun"];
    let mut table = table(&headings, 3);
    for &(host, priority) in paused.iter().take(MOST_HOSTS) {
        table.add_row([
            short(&host.name, HOST_CHARS),
            short(&host.peer, HOST_CHARS),
            priority.to_string(),
            grouped(host.pauses[priority]),
            time(host.paused_ns[priority]),
            tenths(host.paused_ns[priority] as f64 * 100.0 / outcome.duration_ns.max(1) as f64),
        ]);
    }
    let mut text = table.trim_fmt();
    if paused.len() > MOST_HOSTS {
        text += &format!("\nand {} more (--json has all)", paused.len() - MOST_HOSTS);
    }
    text
}

/// Formats the links that lost frames because they were cut.
pub fn links(outcome: &Results) -> String {
    let cut = outcome.links.iter().filter(|link| link.cut_frames > 0);
    let lines: Vec<String> = cut
        .map(|link| format!("Frames lost because {} was cut: {}", link.name, grouped(link.cut_frames)))
        .collect();
    let mut text = lines[..lines.len().min(MOST_LINKS)].join("\n");
    if lines.len() > MOST_LINKS {
        text += &format!("\nand {} links more (--json has all)", lines.len() - MOST_LINKS);
    }
    text
}
