//! `sluice show vlan`: the members of each VLAN, tagged and untagged, as a switch lists them.

use std::collections::BTreeMap;

use control::v1::{Port, Snapshot};
use schemars::JsonSchema;
use serde::Serialize;

use super::format;

/// VLANs that have the same ports.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Row {
    /// The VLANs, as "1-9,20".
    vlans: String,
    /// Ports whose frames of it are untagged.
    untagged: Vec<String>,
    /// Ports whose frames of it are tagged.
    tagged: Vec<String>,
}

/// The untagged and the tagged ports of a VLAN.
type Members = (Vec<String>, Vec<String>);

/// Returns the VLANs, those with the same ports together; empty if ports have no VLANs.
pub fn rows(now: &Snapshot) -> Vec<Row> {
    let mut members: BTreeMap<u16, Members> = BTreeMap::new();
    for port in &now.ports {
        for vid in vids(&port.vlans) {
            let (untagged, tagged) = members.entry(vid).or_default();
            if is_untagged(port, vid) {
                untagged.push(port.name.clone())
            } else {
                tagged.push(port.name.clone())
            }
        }
    }
    let mut same: Vec<(Members, Vec<u16>)> = Vec::new();
    for (vid, ports) in members {
        match same.iter_mut().find(|(its, _)| *its == ports) {
            Some((_, vids)) => vids.push(vid),
            None => same.push((ports, vec![vid])),
        }
    }
    same.into_iter().map(|((untagged, tagged), vids)| Row { vlans: list(&vids), untagged, tagged }).collect()
}

/// True if frames of this VLAN leave a port without a tag.
fn is_untagged(port: &Port, vid: u16) -> bool {
    port.pvid == Some(vid.into())
}

/// Returns the numbers of a list as "1-9,20".
fn vids(list: &str) -> impl Iterator<Item = u16> + '_ {
    list.split(',').filter(|part| !part.is_empty()).flat_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u16>();
        number(first).and_then(|first| Ok(first..=number(last)?)).into_iter().flatten()
    })
}

/// Formats ascending numbers as "1-9,20".
fn list(vids: &[u16]) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for &vid in vids {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == vid => *last = vid,
            _ => runs.push((vid, vid)),
        }
    }
    let run =
        |(first, last): (u16, u16)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.into_iter().map(run).collect::<Vec<_>>().join(",")
}

/// Formats the VLANs.
pub fn table(now: &Snapshot) -> String {
    let rows = rows(now);
    if rows.is_empty() {
        return "The ports have no VLANs: one bridge carries frames of every tag (`vlan` in a port sets them).".to_owned();
    }
    let mut table = format::table(&["VLAN", "Untagged ports", "Tagged ports"], 3);
    let or_none = |ports: &[String]| if ports.is_empty() { "–".to_owned() } else { ports.join(", ") };
    for Row { vlans, untagged, tagged } in &rows {
        table.add_row([vlans.clone(), or_none(untagged), or_none(tagged)]);
    }
    let filtered =
        now.ports.iter().map(|port| port.drops.get("vlan_filtered").map_or(0, |drops| drops.frames));
    let filtered: u64 = filtered.sum();
    format!(
        "{}\n\nFrames dropped as they were in no VLAN of their port: {}.",
        table.trim_fmt(),
        format::grouped(filtered)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn vlans_with_the_same_ports_are_one_row() {
        insta::assert_snapshot!(table(&sample::with_vlans()));
    }

    #[test]
    fn without_vlans() {
        assert!(table(&sample::snapshot()).starts_with("The ports have no VLANs"));
    }
}
