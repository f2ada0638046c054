//! Counters of a switch at several moments, and what its ports were offered between two of them.

use serde::Deserialize;
use switch::SwitchSettings;

/// The counters that a twin needs, of one moment; as `sluice show counters --json` prints them.
#[derive(Deserialize)]
pub struct Counters {
    pub at_ns: u64,
    pub ports: Vec<PortRow>,
    groups: Vec<GroupRow>,
    queues: Vec<QueueRow>,
}

/// What `show counters` has of each.
#[derive(Deserialize)]
pub struct PortRow {
    pub name: String,
    pub up: bool,
    pub link: Option<LinkRow>,
}

/// Its interface.
#[derive(Deserialize)]
pub struct LinkRow {
    pub link_speed_bps: u64,
}

#[derive(Deserialize)]
struct GroupRow {
    port: String,
    priority: usize,
    received: Option<Count>,
}

#[derive(Deserialize)]
struct QueueRow {
    port: String,
    queue: usize,
    transmitted: Option<Count>,
    dropped: Option<Count>,
    wred_dropped: Option<WredDropped>,
}

#[derive(Deserialize)]
struct WredDropped {
    green: Option<Count>,
    yellow: Option<Count>,
    red: Option<Count>,
}

/// Frames, and their bytes without FCS.
#[derive(Deserialize, Clone, Copy, Default, Debug, PartialEq)]
pub struct Count {
    pub frames: u64,
    pub bytes: u64,
}

/// What the ports were offered between two readings.
pub struct Interval {
    pub start_ns: u64,
    pub stop_ns: u64,
    pub flows: Vec<OfferedFlow>,
}

/// What one port was offered at a priority and sent to another.
#[derive(Debug, PartialEq)]
pub struct OfferedFlow {
    pub from: String,
    pub to: String,
    pub priority: usize,
    pub frames: f64,
    pub bytes: f64,
}

/// Returns what was offered from each reading to the next.
///
/// # Errors
/// Counters went back.
pub fn intervals(counters: &[Counters], settings: &SwitchSettings) -> Result<Vec<Interval>, String> {
    let first_ns = counters.first().map_or(0, |first| first.at_ns);
    let interval = |pair: &[Counters]| {
        let [before, now] = pair else { unreachable!("windows of two") };
        if now.at_ns <= before.at_ns {
            return Err(RESTARTED.to_owned());
        }
        let (start_ns, stop_ns) = (before.at_ns - first_ns, now.at_ns - first_ns);
        Ok(Interval { start_ns, stop_ns, flows: flows(before, now, settings)? })
    };
    counters.windows(2).map(interval).collect()
}

const RESTARTED: &str =
    "the counters go back: the daemon was restarted meanwhile, or the readings are not in order";

fn flows(before: &Counters, now: &Counters, settings: &SwitchSettings) -> Result<Vec<OfferedFlow>, String> {
    let mut flows = Vec::new();
    for group in &now.groups {
        let same = |other: &&GroupRow| (&other.port, other.priority) == (&group.port, group.priority);
        let earlier = before.groups.iter().find(same).and_then(|group| group.received);
        let offered = since(group.received, earlier)?;
        let Some(port) = settings.ports.iter().find(|port| port.name == group.port) else { continue };
        if offered.frames == 0 || group.priority >= port.classify.dot1p_to_queue.len() {
            continue;
        }
        let queue = usize::from(port.classify.dot1p_to_queue[group.priority]);
        let mut weights = Vec::new();
        for other in now.queues.iter().filter(|other| other.queue == queue && other.port != group.port) {
            let same = |row: &&QueueRow| (&row.port, row.queue) == (&other.port, other.queue);
            let earlier = before.queues.iter().find(same).map(QueueRow::offered);
            weights.push((&other.port, since(Some(other.offered()), earlier)?.bytes));
        }
        let all: u64 = weights.iter().map(|(_, bytes)| bytes).sum();
        for (to, bytes) in weights.into_iter().filter(|(_, bytes)| *bytes > 0) {
            let share = bytes as f64 / all as f64;
            flows.push(OfferedFlow {
                from: group.port.clone(),
                to: to.clone(),
                priority: group.priority,
                frames: offered.frames as f64 * share,
                bytes: offered.bytes as f64 * share,
            });
        }
    }
    Ok(flows)
}

impl QueueRow {
    /// Returns the frames for the queue, dropped ones included.
    fn offered(&self) -> Count {
        let wred = self.wred_dropped.iter().flat_map(|wred| [wred.green, wred.yellow, wred.red]);
        let all = [self.transmitted, self.dropped].into_iter().chain(wred).flatten();
        all.fold(Count::default(), |sum, count| Count {
            frames: sum.frames + count.frames,
            bytes: sum.bytes + count.bytes,
        })
    }
}

/// Returns what was counted since.
fn since(now: Option<Count>, before: Option<Count>) -> Result<Count, String> {
    let [now, before] = [now, before].map(Option::unwrap_or_default);
    match (now.frames.checked_sub(before.frames), now.bytes.checked_sub(before.bytes)) {
        (Some(frames), Some(bytes)) => Ok(Count { frames, bytes }),
        _ => Err(RESTARTED.to_owned()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// Three ports: `a` has received frames of priority 3 since, of which `b` sent three parts and
    /// `c` sent or dropped one.
    pub fn readings() -> Vec<Counters> {
        let reading = |at_ns: u64, n: u64| {
            let count = |frames: u64| json!({"frames": frames * n, "bytes": 1000 * frames * n});
            let port = |name: &str| json!({"name": name, "up": true, "link": {"link_speed_bps": 10_000_000_000_u64}});
            let queue = |port: &str, sent: u64, dropped: u64| {
                json!({"port": port, "queue": 3, "transmitted": count(sent), "dropped": count(dropped),
                       "wred_dropped": {"green": count(dropped), "yellow": null, "red": null}})
            };
            json!({
                "at_ns": at_ns,
                "ports": [port("a"), port("b"), port("c")],
                "groups": [{"port": "a", "priority": 3, "received": count(400)},
                           {"port": "b", "priority": 3, "received": count(0)}],
                "queues": [queue("a", 50, 0), queue("b", 300, 0), queue("c", 50, 25)],
            })
        };
        [(5_000_000, 1), (6_000_000, 2), (8_000_000, 2)]
            .map(|(at_ns, n)| serde_json::from_value(reading(at_ns, n)).unwrap())
            .into()
    }

    pub fn settings() -> SwitchSettings {
        let text: String =
            ["a", "b", "c"].map(|name| format!("[port.{name}]\ninterface = \"{name}\"\n")).concat();
        config::parse("x.toml", &text).unwrap().switch
    }

    #[test]
    fn a_port_is_divided_by_what_the_queues_of_the_others_were_offered() {
        let found = intervals(&readings(), &settings()).unwrap();
        assert_eq!((found[0].start_ns, found[0].stop_ns), (0, 1_000_000));
        let flow = |to: &str, part: f64| OfferedFlow {
            from: "a".to_owned(),
            to: to.to_owned(),
            priority: 3,
            frames: 400.0 * part,
            bytes: 400_000.0 * part,
        };
        assert_eq!(found[0].flows, [flow("b", 0.75), flow("c", 0.25)]);
        assert_eq!((found[1].stop_ns, found[1].flows.len()), (3_000_000, 0), "nothing came then");
    }

    #[test]
    fn counters_that_go_back_are_refused() {
        let mut readings = readings();
        readings.swap(0, 1);
        assert_eq!(intervals(&readings, &settings()).err().unwrap(), RESTARTED);
        let mut readings = self::readings();
        readings[1].groups[0].received = Some(Count { frames: 1, bytes: 1 });
        assert_eq!(intervals(&readings, &settings()).err().unwrap(), RESTARTED);
    }
}
