//! `sluice show maps`: by which maps a port finds the queue and the drop level of a frame, and what
//! it writes into frames that leave: H3C's "display qos map-table" (dot1p-lp and the others).
//! Conformance row 232.

use control::v1::{Configuration, Maps, PortConfiguration};
use schemars::JsonSchema;
use serde::Serialize;

use crate::show::format::{self, Grid};

/// The maps of a port in JSON.
#[derive(Serialize, JsonSchema)]
pub struct Row<'a> {
    port: &'a str,
    #[serde(flatten)]
    maps: &'a Maps,
}

/// Returns the maps of the ports.
pub fn rows(configuration: &Configuration) -> Vec<Row<'_>> {
    let maps = configuration.ports.iter().filter_map(|port| Some((port, port.maps.as_ref()?)));
    maps.map(|(port, maps)| Row { port: &port.name, maps }).collect()
}

/// Formats the maps; ports with the same ones are one paragraph. With a priority, the map by
/// priority has its row only.
pub fn text(configuration: &Configuration, priority: Option<u8>) -> String {
    let mut groups: Vec<(&Maps, Vec<&str>)> = Vec::new();
    for PortConfiguration { name, maps, .. } in &configuration.ports {
        let Some(maps) = maps else { continue };
        match groups.iter_mut().find(|(same, _)| *same == maps) {
            Some((_, names)) => names.push(name),
            None => groups.push((maps, vec![name])),
        }
    }
    let mut parts: Vec<String> = groups.iter().map(|(maps, names)| of_ports(maps, names, priority)).collect();
    for (what, map) in [
        ("Queues of unicast frames to unknown addresses", &configuration.unknown_unicast_to_queue),
        ("Queues of frames to group addresses", &configuration.multicast_to_queue),
    ] {
        if !map.is_empty() {
            parts.push(format!("{what}, by priority 0 to 7: {}", list(map)));
        }
    }
    parts.join("\n\n")
}

fn of_ports(maps: &Maps, names: &[&str], priority: Option<u8>) -> String {
    let (port, trust) = (if names.len() == 1 { "Port" } else { "Ports" }, &maps.trust);
    let mut parts = vec![format!(
        "{port} {}: trust {trust}; frames without that field have priority {}",
        names.join(", "),
        maps.port_priority
    )];
    parts.push(by_priority(maps, priority).trim_fmt());
    if trust == "dscp" {
        parts.push(by_dscp(maps));
    }
    if maps.dei_drop_level > 0 {
        parts.push(format!("Tagged frames with DEI have drop level {} at least.", maps.dei_drop_level));
    }
    for (what, map) in [("priority", &maps.rewrite_dot1p), ("DSCP", &maps.rewrite_dscp)] {
        if !map.is_empty() {
            parts.push(format!(
                "{what} written into frames that leave, by local precedence 0 to 7: {}",
                list(map)
            ));
        }
    }
    parts.join("\n")
}

/// Formats H3C's map-table dot1p-lp, with the drop levels and the policy.
fn by_priority(maps: &Maps, priority: Option<u8>) -> Grid {
    let headings = ["Priority\n(dot1p)", "Local precedence\n(queue)", "Drop\nlevel", "By the\npolicy"];
    let mut table = format::table(&headings, 1);
    for (number, queue) in maps.dot1p_to_queue.iter().enumerate() {
        if priority.is_some_and(|priority| usize::from(priority) != number) {
            continue;
        }
        let level = maps.dot1p_to_drop_level.get(number).map_or("–".to_owned(), u32::to_string);
        let policy = maps.policy.get(&(number as u32)).map_or("–".to_owned(), u32::to_string);
        table.add_row([number.to_string(), queue.to_string(), level, policy]);
    }
    table
}

/// Formats the maps of DSCPs: neighbors with the same values are one row.
fn by_dscp(maps: &Maps) -> String {
    let mut table =
        format::table(&["DSCP", "Priority\n(dot1p)", "Local precedence\n(queue)", "Drop\nlevel"], 1);
    let of = |dscp: usize| {
        [&maps.dscp_to_dot1p, &maps.dscp_to_queue, &maps.dscp_to_drop_level].map(|map| map.get(dscp).copied())
    };
    let mut first = 0;
    for dscp in 0..maps.dscp_to_dot1p.len() {
        if dscp + 1 < maps.dscp_to_dot1p.len() && of(dscp + 1) == of(first) {
            continue;
        }
        let range = if first == dscp { first.to_string() } else { format!("{first}-{dscp}") };
        let values = of(first).map(|value| value.map_or("–".to_owned(), |value| value.to_string()));
        table.add_row(std::iter::once(range).chain(values));
        first = dscp + 1;
    }
    table.trim_fmt()
}

fn list(map: &[u32]) -> String {
    map.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::configuration_sample as sample;
    use super::*;

    /// Row 232: H3C's map-table dot1p-lp.
    #[test]
    fn maps_of_ports() {
        insta::assert_snapshot!(text(&sample(), None));
        let one = text(&sample(), Some(5));
        assert!(one.lines().any(|line| line.starts_with("5 ")) && !one.contains("\n4 "), "{one}");
        let json = serde_json::to_value(rows(&sample())).unwrap();
        assert_eq!(json[0]["dot1p_to_queue"], serde_json::json!([2, 0, 1, 3, 4, 5, 6, 7]));
    }
}
