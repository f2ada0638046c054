//! `sluice show lldp neighbors`: the neighbors of the ports, as `lldpctl` prints them, and in JSON
//! as `lldpctl -f json` does.

use control::v1::{LldpNeighbor, LldpPorts, LldpSystem};
use serde_json::{Map, Value, json};

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

/// Returns the neighbors in the structure of `lldpctl -f json`.
pub fn json(ports: &LldpPorts) -> Value {
    let mut interfaces = Vec::new();
    for port in &ports.ports {
        for (number, neighbor) in port.neighbors.iter().enumerate() {
            let system = neighbor.system.clone().unwrap_or_default();
            let mut entry = json!({
                "via": "LLDP",
                "rid": (number + 1).to_string(),
                "age": age(neighbor.known_ns),
                "chassis": chassis(&system),
                "port": port_of(&system),
            });
            if let Some(vid) = system.port_vlan.filter(|vid| *vid > 0) {
                entry["vlan"] = json!({ "vlan-id": vid.to_string(), "pvid": true });
            }
            if !neighbor.dcbx.is_empty() {
                entry["dcbx"] = json!(neighbor.dcbx);
            }
            interfaces.push(json!({ &port.name: entry }));
        }
    }
    json!({ "lldp": { "interface": interfaces } })
}

/// Returns the system, below its name if it has one.
fn chassis(system: &LldpSystem) -> Value {
    let mut chassis = Map::new();
    chassis.insert("id".to_owned(), json!({ "type": system.chassis_id_type, "value": system.chassis_id }));
    if let Some(text) = &system.system_description {
        chassis.insert("descr".to_owned(), json!(text));
    }
    let addresses = &system.management_addresses;
    match &addresses[..] {
        [] => None,
        [address] => chassis.insert("mgmt-ip".to_owned(), json!(address)),
        addresses => chassis.insert("mgmt-ip".to_owned(), json!(addresses)),
    };
    let capabilities: Vec<Value> =
        system.capabilities.iter().map(|it| json!({ "type": it.name, "enabled": it.enabled })).collect();
    if !capabilities.is_empty() {
        chassis.insert("capability".to_owned(), json!(capabilities));
    }
    match &system.system_name {
        Some(name) => json!({ name: chassis }),
        None => Value::Object(chassis),
    }
}

fn port_of(system: &LldpSystem) -> Value {
    let mut port = json!({
        "id": { "type": system.port_id_type, "value": system.port_id },
        "ttl": system.ttl_s.to_string(),
    });
    if let Some(text) = &system.port_description {
        port["descr"] = json!(text);
    }
    if let Some(bytes) = system.max_frame_bytes {
        port["mfs"] = json!(bytes.to_string());
    }
    port
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
        insta::assert_snapshot!(serde_json::to_string_pretty(&super::json(&sample::ports())).unwrap());
    }
}
