//! PORT, CABLE_LENGTH, VLAN and VLAN_MEMBER.

use std::collections::BTreeSet;

use config::{MTU_BYTES, parse_speed};

use crate::import::sonic::database::{Database, Port};

/// Bytes of an Ethernet header and a tag, which an MTU does not count.
const HEADER_BYTES: i64 = 18;

/// Adds speed, MTU and cable.
pub fn link(database: &Database, port: &mut Port) {
    if let Some(mbps) = database.number("PORT", port.name, "speed") {
        match speed_bps(mbps) {
            Some(_) => port.lines.push(format!("speed = \"{mbps}M\"")),
            None => {
                database.note("PORT", port.name, "speed", &format!("{mbps} Mbit/s is no speed of a port"))
            }
        }
    }
    if let Some(mtu) = database.number("PORT", port.name, "mtu") {
        let bytes = mtu + HEADER_BYTES;
        if u32::try_from(bytes).is_ok_and(|bytes| MTU_BYTES.contains(&bytes)) {
            port.lines.push(format!("mtu = {bytes}"));
        } else {
            let [least, most] =
                [*MTU_BYTES.start(), *MTU_BYTES.end()].map(|bytes| i64::from(bytes) - HEADER_BYTES);
            database.note("PORT", port.name, "mtu", &format!("an MTU is {least} to {most}, not {mtu}"));
        }
    }
    let mut first = None;
    for table in database.keys("CABLE_LENGTH") {
        let Some(length) = database.field("CABLE_LENGTH", table, port.name) else { continue };
        if let Some(first) = first {
            let why = format!("a port has one length: that in {first} is taken");
            database.note("CABLE_LENGTH", table, port.name, &why);
            continue;
        }
        match length.trim_end_matches('m').parse::<u32>() {
            Ok(meters) => {
                first = Some(table);
                port.lines.push(format!("cable_m = {meters}"));
            }
            Err(_) => {
                database.note("CABLE_LENGTH", table, port.name, &format!("`{length}` is no length in meters"))
            }
        }
    }
    if database.field("PORT", port.name, "admin_status").is_some_and(|status| status == "down") {
        port.lines.push("admin = \"down\"".to_owned());
    }
    if database.field("PORT", port.name, "pfc_asym").is_some_and(|asymmetric| asymmetric == "on") {
        database.note("PORT", port.name, "pfc_asym", "a priority honors and sends PFC, or does neither");
    }
}

/// Returns a speed of a port in bit/s; `None` if no port has it.
pub fn speed_bps(mbps: i64) -> Option<u64> {
    parse_speed(&format!("{mbps}M"))
}

/// Adds VLANs, to all ports or to none.
pub fn vlans(database: &Database, ports: &mut [Port]) {
    let mut vids = BTreeSet::new();
    for vlan in database.keys("VLAN") {
        let vid = database.number("VLAN", vlan, "vlanid");
        vids.extend(vid.or_else(|| vlan.strip_prefix("Vlan")?.parse().ok()));
    }
    let members = database.keys("VLAN_MEMBER");
    if members.is_empty() {
        return;
    }
    for port in ports {
        let (mut tagged, mut untagged) = (BTreeSet::new(), None);
        for key in &members {
            let Some((vlan, _)) = key.split_once('|').filter(|(_, member)| *member == port.name) else {
                continue;
            };
            let Some(vid) = vlan.strip_prefix("Vlan").and_then(|vid| vid.parse::<i64>().ok()) else {
                continue;
            };
            vids.insert(vid);
            match database.field("VLAN_MEMBER", key, "tagging_mode") {
                Some("untagged") => untagged = Some(vid),
                _ => drop(tagged.insert(vid)),
            }
        }
        let line = match (tagged.is_empty(), untagged) {
            (true, Some(vid)) => format!("vlan = {{ mode = \"access\", pvid = {vid} }}"),
            (true, None) => {
                // Where ports have VLANs, each has: an unused one isolates a routed port.
                let free = (1..=4094).rev().find(|vid| !vids.contains(vid)).unwrap_or(4094);
                vids.insert(free);
                let why =
                    format!("it is in no VLAN: here it is alone in VLAN {free}, as Sluice does not route");
                database.note("VLAN_MEMBER", port.name, "", &why);
                format!("vlan = {{ mode = \"access\", pvid = {free} }}")
            }
            (false, untagged) => {
                let all: Vec<_> =
                    tagged.iter().chain(&untagged).collect::<BTreeSet<_>>().into_iter().collect();
                let allowed = all.iter().map(|vid| vid.to_string()).collect::<Vec<_>>().join(",");
                let pvid = untagged.map_or(String::new(), |vid| format!(", pvid = {vid}"));
                format!("vlan = {{ mode = \"trunk\", allowed = \"{allowed}\"{pvid} }}")
            }
        };
        port.lines.push(line);
    }
}
