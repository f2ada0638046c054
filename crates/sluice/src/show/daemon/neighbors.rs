//! `sluice show lldp neighbors`: the neighbors of the ports, as `lldpctl` prints them, and in JSON
//! as `lldpctl -f json` does.

use std::collections::BTreeMap;

use control::v1::{LldpCapability, LldpNeighbor, LldpPorts, LldpSystem};
use schemars::JsonSchema;
use serde::Serialize;

const LINE: &str = "-------------------------------------------------------------------------------";

/// Formats the neighbors as text.
pub fn text(ports: &LldpPorts) -> String {
    let mut out = vec![LINE.to_owned(), "LLDP neighbors:".to_owned(), LINE.to_owned()];
    for port in &ports.ports {
        for (number, neighbor) in port.neighbors.iter().enumerate() {
            let (name, age) = (&port.name, age(neighbor.known_ns));
            out.push(format!("Interface:    {name}, via: LLDP, RID: {}, Time: {age}", number + 1));
            paragraph(&mut out, neighbor);
            out.push(LINE.to_owned());
        }
        if port.state.as_ref().is_some_and(|state| state.too_many_neighbors) {
            out.push(format!("Interface:    {} has more neighbors than lldp.max_neighbors", port.name));
            out.push(LINE.to_owned());
        }
    }
    out.join("\n")
}

fn paragraph(out: &mut Vec<String>, neighbor: &LldpNeighbor) {
    let system = neighbor.system.clone().unwrap_or_default();
    out.push("  Chassis:".to_owned());
    let mut line = |name: &str, value: String| out.push(format!("    {:<14}{value}", format!("{name}:")));
    line("ChassisID", format!("{} {}", system.chassis_id_type, system.chassis_id));
    for (name, value) in [("SysName", &system.system_name), ("SysDescr", &system.system_description)] {
        value.iter().for_each(|value| line(name, value.clone()));
    }
    system.management_addresses.iter().for_each(|address| line("MgmtIP", address.clone()));
    for capability in &system.capabilities {
        line("Capability", format!("{}, {}", capability.name, if capability.enabled { "on" } else { "off" }));
    }
    out.push("  Port:".to_owned());
    let mut line = |name: &str, value: String| out.push(format!("    {:<14}{value}", format!("{name}:")));
    line("PortID", format!("{} {}", system.port_id_type, system.port_id));
    system.port_description.iter().for_each(|text| line("PortDescr", text.clone()));
    line("TTL", system.ttl_s.to_string());
    system.max_frame_bytes.iter().for_each(|bytes| line("MFS", bytes.to_string()));
    if !neighbor.dcbx.is_empty() {
        line("DCBX", neighbor.dcbx.join(", "));
    }
    system.port_vlan.filter(|vid| *vid > 0).iter().for_each(|vid| {
        out.push(format!("  VLAN:         {vid}, pvid: yes"));
    });
}

/// The neighbors in JSON.
#[derive(Serialize, JsonSchema)]
pub struct Document {
    lldp: Interfaces,
}

#[derive(Serialize, JsonSchema)]
struct Interfaces {
    /// An entry for each neighbor, by the name of its port.
    interface: Vec<BTreeMap<String, Neighbor>>,
}

#[derive(Serialize, JsonSchema)]
struct Neighbor {
    via: &'static str,
    /// Number of the neighbor at its port, from 1.
    rid: String,
    age: String,
    chassis: Chassis,
    port: NeighborPort,
    #[serde(skip_serializing_if = "Option::is_none")]
    vlan: Option<Vlan>,
    /// Versions of DCBX that it sends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dcbx: Vec<String>,
}

/// The system, below its name if it has one.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Chassis {
    Named(BTreeMap<String, System>),
    Unnamed(System),
}

#[derive(Serialize, JsonSchema)]
struct System {
    id: Identifier,
    #[serde(skip_serializing_if = "Option::is_none")]
    descr: Option<String>,
    #[serde(rename = "mgmt-ip", skip_serializing_if = "Option::is_none")]
    management: Option<Addresses>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capability: Vec<Capability>,
}

/// A single address is no list.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Addresses {
    One(String),
    Several(Vec<String>),
}

#[derive(Serialize, JsonSchema)]
struct Capability {
    #[serde(rename = "type")]
    kind: String,
    enabled: bool,
}

#[derive(Serialize, JsonSchema)]
struct Identifier {
    #[serde(rename = "type")]
    kind: String,
    value: String,
}

#[derive(Serialize, JsonSchema)]
struct NeighborPort {
    id: Identifier,
    #[serde(skip_serializing_if = "Option::is_none")]
    descr: Option<String>,
    /// Time to live in seconds.
    ttl: String,
    /// Longest frame in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    mfs: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Vlan {
    #[serde(rename = "vlan-id")]
    vid: String,
    pvid: bool,
}

/// Returns the neighbors in the structure of `lldpctl -f json`.
pub fn json(ports: &LldpPorts) -> Document {
    let mut interface = Vec::new();
    for port in &ports.ports {
        for (number, neighbor) in port.neighbors.iter().enumerate() {
            let system = neighbor.system.clone().unwrap_or_default();
            let vid = system.port_vlan.filter(|vid| *vid > 0);
            let entry = Neighbor {
                via: "LLDP",
                rid: (number + 1).to_string(),
                age: age(neighbor.known_ns),
                chassis: chassis(&system),
                port: port_of(&system),
                vlan: vid.map(|vid| Vlan { vid: vid.to_string(), pvid: true }),
                dcbx: neighbor.dcbx.clone(),
            };
            interface.push(BTreeMap::from([(port.name.clone(), entry)]));
        }
    }
    Document { lldp: Interfaces { interface } }
}

fn chassis(system: &LldpSystem) -> Chassis {
    let capability = |it: &LldpCapability| Capability { kind: it.name.clone(), enabled: it.enabled };
    let chassis = System {
        id: Identifier { kind: system.chassis_id_type.clone(), value: system.chassis_id.clone() },
        descr: system.system_description.clone(),
        management: match &system.management_addresses[..] {
            [] => None,
            [address] => Some(Addresses::One(address.clone())),
            addresses => Some(Addresses::Several(addresses.to_vec())),
        },
        capability: system.capabilities.iter().map(capability).collect(),
    };
    match &system.system_name {
        Some(name) => Chassis::Named(BTreeMap::from([(name.clone(), chassis)])),
        None => Chassis::Unnamed(chassis),
    }
}

fn port_of(system: &LldpSystem) -> NeighborPort {
    NeighborPort {
        id: Identifier { kind: system.port_id_type.clone(), value: system.port_id.clone() },
        descr: system.port_description.clone(),
        ttl: system.ttl_s.to_string(),
        mfs: system.max_frame_bytes.map(|bytes| bytes.to_string()),
    }
}

/// Formats a time as `lldpctl` does.
fn age(nanos: u64) -> String {
    let seconds = nanos / 1_000_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let unit = if days == 1 { "day" } else { "days" };
    format!("{days} {unit}, {hours:02}:{minutes:02}:{:02}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn neighbors_as_text() {
        insta::assert_snapshot!(super::text(&sample::ports()));
    }

    #[test]
    fn neighbors_as_json() {
        insta::assert_snapshot!(
            serde_json::to_string_pretty(&serde_json::to_value(super::json(&sample::ports())).unwrap())
                .unwrap()
        );
    }
}
