//! PORT_QOS_MAP and its maps, QUEUE with SCHEDULER and WRED_PROFILE, PFC_WD.

use std::collections::{BTreeMap, BTreeSet};

use crate::import::sonic::database::{Database, Port};
use crate::init::toml_key as quoted;

const MAPS: &str = "PORT_QOS_MAP";

/// Returns the entry of PORT_QOS_MAP for a port that has this field.
fn entry<'j>(database: &Database<'j>, port: &str, field: &str) -> Option<(&'j str, &'j str)> {
    let keys = database.keys(MAPS).into_iter();
    let of_port = keys.filter(|key| key.split(',').any(|name| name == port) || *key == "global");
    let mut found: Vec<_> = of_port.filter_map(|key| Some((key, database.name(MAPS, key, field)?))).collect();
    found.sort_by_key(|(key, _)| *key == "global"); // a port's own comes first
    found.into_iter().next()
}

/// Adds trust, the maps from DSCP to priority and from priority to queue, and PFC.
pub fn maps(database: &Database, port: &mut Port) {
    let dscp = entry(database, port.name, "dscp_to_tc_map");
    let trust = match (dscp, entry(database, port.name, "dot1p_to_tc_map")) {
        (Some((_, map)), dot1p) => {
            port.lines.extend(dscp_line(database, map));
            if let Some((key, _)) = dot1p {
                database.note(
                    MAPS,
                    key,
                    "dot1p_to_tc_map",
                    "a port trusts DSCP or 802.1p, not both: DSCP is taken",
                );
            }
            "dscp"
        }
        (None, Some((_, map))) => {
            note_dot1p(database, map);
            "dot1p"
        }
        (None, None) => "none",
    };
    port.lines.insert(0, format!("trust = \"{trust}\""));
    port.queues = queues_of(database, port);
    port.lines.push(format!("dot1p_to_queue = {:?}", port.queues));
    port.no_drop = entry(database, port.name, "pfc_enable").map_or(Vec::new(), |(_, list)| numbers(list));
    let mode = if port.no_drop.is_empty() { "off" } else { "on" };
    port.lines.push(format!("pfc.mode = \"{mode}\""));
    if !port.no_drop.is_empty() {
        port.lines.push(format!("pfc.no_drop = {:?}", port.no_drop));
    }
    check_pause_map(database, port);
}

/// Returns the line that maps DSCPs to priorities, which are the TCs.
fn dscp_line(database: &Database, map: &str) -> Option<String> {
    const TABLE: &str = "DSCP_TO_TC_MAP";
    if !database.has(TABLE, map) {
        database.note(TABLE, map, "", "a port names it, and it does not exist");
        return None;
    }
    // A DSCP without an entry has TC 0.
    let priority = |dscp| match database.map(TABLE, map, dscp) {
        Some(tc @ 0..=7) => tc,
        Some(tc) => {
            database.note(
                TABLE,
                map,
                &dscp.to_string(),
                &format!("there are priorities 0 to 7, and no TC {tc}"),
            );
            0
        }
        None => 0,
    };
    let priorities: Vec<usize> = (0..64).map(priority).collect();
    let mut parts = Vec::new();
    let mut first = 0;
    for dscp in 1..=64 {
        if dscp == 64 || priorities[dscp] != priorities[first] {
            let last = dscp - 1;
            let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
            parts.push(format!("\"{range}\" = {}", priorities[first]));
            first = dscp;
        }
    }
    Some(format!("dscp_to_dot1p = {{ {} }}", parts.join(", ")))
}

fn note_dot1p(database: &Database, map: &str) {
    for dot1p in 0..8 {
        if let Some(tc) = database.map("DOT1P_TO_TC_MAP", map, dot1p).filter(|tc| *tc != dot1p) {
            let why = format!("a tag's priority is the priority here: {dot1p} stays {dot1p}, not TC {tc}");
            database.note("DOT1P_TO_TC_MAP", map, &dot1p.to_string(), &why);
        }
    }
}

/// Returns the queue of each priority.
fn queues_of(database: &Database, port: &Port) -> [usize; 8] {
    const TABLE: &str = "TC_TO_QUEUE_MAP";
    let mut queues = [0, 1, 2, 3, 4, 5, 6, 7];
    let Some((_, map)) = entry(database, port.name, "tc_to_queue_map") else { return queues };
    for (tc, queue) in queues.iter_mut().enumerate() {
        match database.map(TABLE, map, tc) {
            Some(mapped @ 0..=7) => *queue = mapped,
            Some(mapped) => {
                let why = format!("queues are 0 to 7: TC {tc} has queue {tc}, not {mapped}");
                database.note(TABLE, map, &tc.to_string(), &why);
            }
            None => {}
        }
    }
    queues
}

/// Notes where a pause would stop another queue than that of its priority.
fn check_pause_map(database: &Database, port: &Port) {
    const TABLE: &str = "MAP_PFC_PRIORITY_TO_QUEUE";
    let Some((_, map)) = entry(database, port.name, "pfc_to_queue_map") else { return };
    for priority in 0..8 {
        let queue = database.map(TABLE, map, priority);
        let own = port.queues[priority];
        if let Some(queue) = queue.filter(|queue| *queue != own && port.no_drop.contains(&priority)) {
            let why = format!("a pause of priority {priority} stops its queue, {own}, not {queue}");
            database.note(TABLE, map, &priority.to_string(), &why);
        }
    }
}

/// Adds the scheduler and the early drops of queues.
pub fn queues(database: &Database, port: &mut Port) {
    let mut profiles: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (key, queues) in database.ranges("QUEUE", port.name) {
        let scheduler = database.name("QUEUE", key, "scheduler");
        let wred = database.name("QUEUE", key, "wred_profile");
        for queue in queues {
            if queue > 7 {
                database.note("QUEUE", key, "", "queues are 0 to 7");
                continue;
            }
            port.lines.extend(scheduler.and_then(|name| schedule(database, name, queue)));
            if let Some(wred) = wred.filter(|name| is_possible(database, port, name, queue)) {
                profiles.entry(wred).or_default().push(queue);
            }
        }
    }
    if !profiles.is_empty() {
        let part = |(name, queues): (&&str, &Vec<usize>)| format!("{} = {queues:?}", quoted(name));
        let parts: Vec<_> = profiles.iter().map(part).collect();
        port.lines.push(format!("queue_profile = {{ {} }}", parts.join(", ")));
    }
}

/// True if a queue can have a WRED profile: a no-drop queue only one that marks.
fn is_possible(database: &Database, port: &Port, profile: &str, queue: usize) -> bool {
    const TABLE: &str = "WRED_PROFILE";
    if !database.has(TABLE, profile) {
        database.note(TABLE, profile, "", "a queue names it, and it does not exist");
        return false;
    }
    let is_no_drop = port.is_no_drop(queue);
    let drops = action(database, profile) != "ecn";
    if is_no_drop && drops {
        database.note(TABLE, profile, "", &format!("queue {queue} is no-drop, and this profile would drop"));
    }
    !(is_no_drop && drops)
}

fn action(database: &Database, profile: &str) -> &'static str {
    match database.field("WRED_PROFILE", profile, "ecn") {
        None | Some("ecn_none") => "wred",
        Some(_) => "ecn",
    }
}

/// Returns the line of a queue's scheduler.
fn schedule(database: &Database, name: &str, queue: usize) -> Option<String> {
    const TABLE: &str = "SCHEDULER";
    if !database.has(TABLE, name) {
        database.note(TABLE, name, "", "a queue names it, and it does not exist");
        return None;
    }
    let weight = database.number(TABLE, name, "weight");
    let mut settings = match database.field(TABLE, name, "type") {
        Some("STRICT") => vec!["group = \"sp\"".to_owned()],
        _ => vec!["group = \"wrr\"".to_owned(), format!("weight = {}", weight.unwrap_or(1).clamp(1, 255))],
    };
    if let Some(weight) = weight.filter(|weight| !(1..=255).contains(weight)) {
        database.note(TABLE, name, "weight", &format!("weights are 1 to 255, not {weight}"));
    }
    if database.field(TABLE, name, "meter_type").is_some_and(|meter| meter != "bytes") {
        database.note(TABLE, name, "meter_type", "rates are in bytes, not packets");
    } else if let Some(pir) = database.number(TABLE, name, "pir").filter(|pir| *pir > 0) {
        match pir * 8 / 1_000_000 {
            0 => database.note(TABLE, name, "pir", "rates are 1 Mbit/s at least"),
            mbps => settings.push(format!("rate = \"{mbps}M\"")),
        }
    }
    Some(format!("schedule.queue.{queue} = {{ {} }}", settings.join(", ")))
}

/// Returns the WRED profiles that ports use.
pub fn profiles(database: &Database, ports: &[Port]) -> String {
    let lines = ports.iter().flat_map(|port| &port.lines).filter(|line| line.starts_with("queue_profile"));
    let lines: BTreeSet<_> = lines.collect();
    let is_used = |name: &&str| lines.iter().any(|line| line.contains(&format!("{} = [", quoted(name))));
    let names = database.keys("WRED_PROFILE").into_iter().filter(is_used);
    names.map(|name| profile(database, name)).collect()
}

fn profile(database: &Database, name: &str) -> String {
    const TABLE: &str = "WRED_PROFILE";
    let action = action(database, name);
    let mut text = format!("[queue-profile.{}]\naction = \"{action}\"\n", quoted(name));
    let marks = database.field(TABLE, name, "ecn").unwrap_or_default();
    for color in ["green", "yellow", "red"] {
        let enabled = database.field(TABLE, name, &format!("wred_{color}_enable"));
        let [least, most, probability] = ["min_threshold", "max_threshold", "drop_probability"]
            .map(|field| database.number(TABLE, name, &format!("{color}_{field}")));
        let (Some(least), Some(most)) = (least, most) else { continue };
        let is_marked = marks == "ecn_all" || marks.contains(color);
        if enabled == Some("false") && !is_marked {
            database.note(
                TABLE,
                name,
                &format!("wred_{color}_enable"),
                "a color with thresholds is enabled here",
            );
        }
        text += &format!(
            "{color} = {{ min_threshold_bytes = {least}, max_threshold_bytes = {most}, probability_percent = {} }}\n",
            probability.unwrap_or(100).clamp(0, 100)
        );
    }
    text + "\n"
}

/// Adds the PFC watchdog.
pub fn watchdog(database: &Database, port: &mut Port) {
    const TABLE: &str = "PFC_WD";
    let own = database.keys(TABLE).into_iter().find(|key| key.split(',').any(|name| name == port.name));
    let watched = entry(database, port.name, "pfcwd_sw_enable").map(|(map, list)| (map, numbers(list)));
    let Some(key) = own else { return };
    let times = ["detection_time", "restoration_time"].map(|field| database.number(TABLE, key, field));
    let action = match database.field(TABLE, key, "action") {
        Some("forward") => "forward",
        Some("alert") => {
            let why =
                "the watchdog acts on a storm, and does not only report it: it is off; early warnings report";
            return database.note(TABLE, key, "action", why);
        }
        _ => "drop",
    };
    let Some(detection_ms) = times[0] else { return };
    let restoration_ms = times[1].unwrap_or(2 * detection_ms);
    let (map, priorities) = watched.unwrap_or_else(|| ("", port.no_drop.clone()));
    let mut lines = Vec::new();
    for priority in priorities {
        if !port.no_drop.contains(&priority) {
            let why = format!("priority {priority} has no PFC (pfc_enable), so it has no watchdog");
            database.note(MAPS, map, "pfcwd_sw_enable", &why);
            continue;
        }
        lines.push(format!(
            "pfc.watchdog.priority.{priority} = {{ detection_ms = {detection_ms}, restoration_ms = {restoration_ms} }}"
        ));
    }
    if !lines.is_empty() {
        port.lines.push(format!("pfc.watchdog.action = \"{action}\""));
        port.lines.append(&mut lines);
    }
}

/// Returns the priorities of a list, as `3,4`.
fn numbers(list: &str) -> Vec<usize> {
    let parsed = list.split(',').filter_map(|number| number.trim().parse().ok());
    parsed.filter(|priority| *priority < 8).collect::<BTreeSet<usize>>().into_iter().collect()
}
