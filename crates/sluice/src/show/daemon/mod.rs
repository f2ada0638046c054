//! Views of the daemon around the switch: telemetry, LLDP, DCBX, version.

pub mod dcbx;
pub mod lldp;
pub mod neighbors;
pub mod telemetry;
pub mod version;

use anyhow::{Result, bail};
use clap::ValueEnum;
use control::Client;
use control::v1::LldpPorts;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::select::Select;
use super::view::Detail;
use crate::exit::misuse;
use crate::output;

/// What is shown of the daemon around the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DaemonView {
    /// What is reported to collectors: each subscription and collector, what was sent and dropped,
    /// the last error.
    Telemetry,
    /// LLDP of each port: frames sent and received, neighbors; with `neighbors`: what each of them
    /// advertises, as lldpctl prints it.
    Lldp,
    /// What each port negotiates: PFC, ETS and applications, here, at the peer and in force, and
    /// why.
    Dcbx,
    /// The versions of the daemon and of this command; the daemon's process, its file, how long it
    /// has run.
    Version,
}

/// What of a view is asked for, and how.
pub struct Request<'a> {
    pub select: &'a Select,
    pub detail: Option<Detail>,
    pub json: bool,
    /// JSON is one line.
    pub on_one_line: bool,
}

impl Request<'_> {
    /// Returns a value as JSON, or its text.
    fn form(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<String> {
        if self.json { output::json(value, !self.on_one_line) } else { Ok(text()) }
    }
}

impl DaemonView {
    /// Refuses rows to select that the view does not have.
    pub fn check(self, select: &Select) -> Result<()> {
        let Select { port, priority, nonzero } = select;
        let name = self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        if port.is_some() && !self.has_ports() {
            return misuse(format!("--port is for views of ports: `show {name}` has none"));
        }
        if priority.is_some() && !self.has_priorities() {
            return misuse(format!("--priority is for views of priorities: `show {name}` has none"));
        }
        if *nonzero {
            return misuse(format!("--nonzero is for counters: `show {name}` has none"));
        }
        Ok(())
    }

    fn has_ports(self) -> bool {
        matches!(self, DaemonView::Lldp | DaemonView::Dcbx)
    }

    fn has_priorities(self) -> bool {
        false
    }
}

/// Returns a view as text or JSON.
pub async fn text(view: DaemonView, request: &Request<'_>, client: &mut Client) -> Result<String> {
    let port = request.select.port.as_deref();
    match view {
        DaemonView::Telemetry => {
            let telemetry = client.telemetry().await?;
            request.form(&telemetry, || telemetry::table(&telemetry, &TimeZone::system()))
        }
        DaemonView::Lldp => {
            let ports = only(client.lldp().await?, port)?;
            match request.detail {
                Some(_) => request.form(&neighbors::json(&ports), || neighbors::text(&ports)),
                None => request.form(&ports, || lldp::table(&ports)),
            }
        }
        DaemonView::Dcbx => {
            let snapshot = super::only(&client.snapshot().await?, port)?;
            request.form(&dcbx::rows(&snapshot), || dcbx::table(&snapshot))
        }
        DaemonView::Version => {
            let info = client.info().await?;
            request.form(&version::row(&info), || version::text(&info))
        }
    }
}

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
