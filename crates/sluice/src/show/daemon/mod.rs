//! Views of the daemon around the switch: telemetry, LLDP.

pub mod lldp;
pub mod neighbors;
pub mod telemetry;

use anyhow::{Result, bail};
use control::v1::LldpPorts;

/// Returns the port `name` only.
pub fn only(mut ports: LldpPorts, name: Option<&str>) -> Result<LldpPorts> {
    let Some(name) = name else { return Ok(ports) };
    let names: Vec<String> = ports.ports.iter().map(|port| port.name.clone()).collect();
    ports.ports.retain(|port| port.name == name);
    if ports.ports.is_empty() {
        bail!("there is no port `{name}` with an interface; there are {}", names.join(", "));
    }
    Ok(ports)
}

#[cfg(test)]
mod sample {
    use control::v1::{Lldp, LldpCapability, LldpNeighbor, LldpPort, LldpPorts, LldpSystem};

    /// Returns a port with a neighbor that says everything, one whose neighbor says little, and one
    /// without.
    pub fn ports() -> LldpPorts {
        let state = |mode: &str, neighbors| Lldp {
            mode: mode.to_owned(),
            neighbors,
            sent_frames: 1_234,
            read_frames: 1_200,
            malformed_frames: u64::from(neighbors) * 3,
            neighbors_added: neighbors.into(),
            last_error: (neighbors > 0).then(|| "the frame is cut off".to_owned()),
            ..Lldp::default()
        };
        let port = |name: &str, state, neighbors| LldpPort {
            name: name.to_owned(),
            interface: format!("veth-{name}"),
            state: Some(state),
            local: Some(system(name)),
            neighbors,
        };
        LldpPorts {
            ports: vec![
                port("server1", state("both", 1), vec![neighbor(full())]),
                port("server2", state("rx", 1), vec![neighbor(system("eth0"))]),
                port("uplink", state("off", 0), Vec::new()),
            ],
        }
    }

    fn system(port: &str) -> LldpSystem {
        LldpSystem {
            chassis_id_type: "mac".to_owned(),
            chassis_id: "02:00:00:00:00:01".to_owned(),
            port_id_type: "ifname".to_owned(),
            port_id: port.to_owned(),
            ttl_s: 121,
            ..LldpSystem::default()
        }
    }

    fn full() -> LldpSystem {
        let capability = |name: &str, enabled| LldpCapability { name: name.to_owned(), enabled };
        LldpSystem {
            port_description: Some("first port".to_owned()),
            system_name: Some("server-7".to_owned()),
            system_description: Some("Linux".to_owned()),
            capabilities: vec![capability("Bridge", false), capability("Station", true)],
            management_addresses: vec!["192.0.2.7".to_owned(), "fd00::7".to_owned()],
            port_vlan: Some(10),
            max_frame_bytes: Some(1522),
            link_aggregated: Some(false),
            ..system("eth0")
        }
    }

    fn neighbor(system: LldpSystem) -> LldpNeighbor {
        LldpNeighbor {
            system: Some(system),
            source: "02:00:00:00:00:01".to_owned(),
            known_ns: 93_784_000_000_000,
            unchanged_ns: 65_000_000_000,
            expires_ns: 100_000_000_000,
            dcbx: vec!["IEEE".to_owned()],
        }
    }
}
