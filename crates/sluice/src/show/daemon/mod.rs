//! Views of the daemon around the switch: its configuration, addresses, telemetry, LLDP, DCBX,
//! version.

pub mod configuration;
pub mod dcbx;
pub mod fdb;
pub mod lldp;
pub mod maps;
pub mod neighbors;
pub mod profiles;
pub mod telemetry;
pub mod version;
pub mod watchdog;

use anyhow::Result;
use clap::ValueEnum;
use control::Client;
use control::v1::Configuration;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::select::{self, Select, retain_port};
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
    /// The addresses that the switch knows: VLAN, port, age; of a port with --port, in a VLAN with
    /// --vlan.
    Fdb,
    /// The file as it was read, what `sluice reload` would change, and what is in force besides;
    /// with `effective`: every setting in force, defaults and what was negotiated included.
    Config,
    /// How priority, queue and drop level of a frame are found, and what is written into frames
    /// that leave.
    Maps,
    /// Queue profiles and buffer profiles, and the ports, priorities and queues that have them.
    Profiles,
    /// Settings of the watchdogs and of early warnings; what they found is in `pfc`.
    Watchdog,
    /// The versions of the daemon and of this command; the daemon's process, its file, how long it
    /// has run.
    Version,
}

/// What of a view is asked for, and how.
pub struct Request<'a> {
    pub select: &'a Select,
    pub vlan: Option<u16>,
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
        !matches!(self, DaemonView::Telemetry | DaemonView::Version)
    }

    fn has_priorities(self) -> bool {
        matches!(self, DaemonView::Maps | DaemonView::Watchdog)
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
            let mut ports = client.lldp().await?;
            retain_port(&mut ports.ports, port, |port| &port.name)?;
            match request.detail {
                Some(_) => request.form(&neighbors::json(&ports), || neighbors::text(&ports)),
                None => request.form(&ports, || lldp::table(&ports)),
            }
        }
        DaemonView::Dcbx => {
            let snapshot = select::only(&client.snapshot().await?, port)?;
            request.form(&dcbx::rows(&snapshot), || dcbx::table(&snapshot))
        }
        DaemonView::Fdb => {
            let entries = client.fdb(port, request.vlan).await?;
            request.form(&entries, || fdb::table(&entries))
        }
        DaemonView::Config | DaemonView::Maps | DaemonView::Profiles | DaemonView::Watchdog => {
            let configuration = of_port(client.configuration().await?, port)?;
            of_configuration(view, request, &configuration)
        }
        DaemonView::Version => {
            let info = client.info().await?;
            request.form(&version::row(&info), || version::text(&info))
        }
    }
}

/// Returns a view of the configuration.
fn of_configuration(
    view: DaemonView,
    request: &Request<'_>,
    configuration: &Configuration,
) -> Result<String> {
    let priority = request.select.priority;
    match view {
        DaemonView::Maps => request.form(&maps::rows(configuration), || maps::text(configuration, priority)),
        DaemonView::Profiles => {
            request.form(&profiles::document(configuration), || profiles::text(configuration))
        }
        DaemonView::Watchdog => {
            let rows = watchdog::rows(configuration, priority);
            request.form(&rows, || watchdog::table(&rows))
        }
        _ => request.form(configuration, || match request.detail {
            Some(_) => configuration::effective(configuration),
            None => configuration::text(configuration),
        }),
    }
}

/// Returns the configuration with the settings of the port `name` only.
fn of_port(mut configuration: Configuration, name: Option<&str>) -> Result<Configuration> {
    retain_port(&mut configuration.ports, name, |port| &port.name)?;
    Ok(configuration)
}

/// Returns a configuration of two ports with profiles, a watchdog and a file that has changed.
#[cfg(test)]
pub fn configuration_sample() -> Configuration {
    use control::v1::{
        BufferProfile, Maps, PortConfiguration, PriorityConfiguration, QueueConfiguration, QueueProfile,
        QueueProfileColor, WatchdogConfiguration, WredQueue, WredTable,
    };
    let profile =
        |name: &str, direction: &str, shared_cells, dynamic_th: Option<i32>, rest: Option<[u32; 3]>| {
            BufferProfile {
                name: name.to_owned(),
                direction: direction.to_owned(),
                built_in: name != "mine",
                reserved_cells: if rest.is_some() { 8 } else { 0 },
                mode: if dynamic_th.is_some() { "dynamic_th" } else { "static_th" }.to_owned(),
                shared_cells,
                dynamic_th,
                xoff_cells: rest.map(|rest| rest[0]),
                xon_cells: rest.map(|rest| rest[1]),
                xon_offset_cells: rest.map(|rest| rest[2]),
            }
        };
    let mine = profile("mine", "ingress", Some(76), None, Some([768, 62, 14]));
    let color = |color: &str| QueueProfileColor {
        color: color.to_owned(),
        min_threshold_cells: 407,
        max_threshold_cells: 1219,
        probability_percent: 100,
    };
    let port = |name: &str, interface: &str| PortConfiguration {
        name: name.to_owned(),
        interface: interface.to_owned(),
        pfc_mode: "on".to_owned(),
        flow_control: "off".to_owned(),
        maps: Some(Maps {
            trust: "dot1p".to_owned(),
            dot1p_to_queue: vec![2, 0, 1, 3, 4, 5, 6, 7],
            dot1p_to_drop_level: vec![0; 8],
            dscp_to_dot1p: (0..64).map(|dscp| dscp / 8).collect(),
            dscp_to_queue: (0..64).map(|dscp| dscp / 8).collect(),
            dscp_to_drop_level: vec![0; 64],
            ..Maps::default()
        }),
        priorities: vec![PriorityConfiguration::default(); 8],
        queues: vec![QueueConfiguration::default(); 8],
        ..PortConfiguration::default()
    };
    let (mut a, mut b) = (port("a", "veth0"), port("b", "veth1"));
    if let Some(maps) = &mut b.maps {
        (maps.trust, maps.rewrite_dot1p) = ("dscp".to_owned(), (0..8).collect());
        (maps.dscp_to_queue[46], maps.dei_drop_level) = (5, 1);
        maps.policy.insert(5, 3);
    }
    a.priorities[3] = PriorityConfiguration {
        no_drop: true,
        profile: Some("mine".to_owned()),
        thresholds: Some(mine.clone()),
        watchdog: Some(WatchdogConfiguration {
            detection_ns: 400_000_000,
            action: "drop".to_owned(),
            restoration: "quiet".to_owned(),
            restoration_ns: Some(500_000_000),
            limit_storms: Some(20),
            limit_period_ns: Some(60_000_000_000),
        }),
        early_warning_in_pps: Some(1_000),
        ..PriorityConfiguration::default()
    };
    a.wred_table = Some("early".to_owned());
    for queue in [3, 4] {
        a.queues[queue].queue_profile = Some("AZURE_LOSSLESS".to_owned());
    }
    Configuration {
        file: "/etc/lab.toml".to_owned(),
        text: "[port.a]\ninterface = \"veth0\"\n".to_owned(),
        differences: vec!["port.a: speed 1G → 2G".to_owned()],
        needs_restart: vec!["dataplane: cores [0] → [0, 1]".to_owned()],
        invalid: None,
        overrides: vec!["PFC is off on all ports: `sluice pfc on` turns it on".to_owned()],
        cell_bytes: 256,
        ports: vec![a, b],
        buffer_profiles: vec![profile("egress_lossy_profile", "egress", None, Some(1), None), mine],
        queue_profiles: vec![
            QueueProfile {
                name: "AZURE_LOSSLESS".to_owned(),
                built_in: true,
                action: "ecn".to_owned(),
                colors: ["green", "yellow", "red"].map(color).into(),
            },
            QueueProfile {
                name: "plain".to_owned(),
                built_in: false,
                action: "none".to_owned(),
                colors: vec![],
            },
        ],
        wred_tables: vec![WredTable {
            name: "early".to_owned(),
            queues: vec![
                WredQueue {
                    queue: 5,
                    weighting_exponent: 9,
                    ecn: true,
                    mark: "dequeue".to_owned(),
                    drop_not_ect: true,
                    colors: ["green", "yellow", "red"].map(color).into(),
                },
                WredQueue {
                    queue: 6,
                    colors: vec![
                        color("green"),
                        color("yellow"),
                        QueueProfileColor { probability_percent: 20, ..color("red") },
                    ],
                    ..WredQueue::default()
                },
            ],
        }],
        unknown_unicast_to_queue: vec![0, 1, 1, 1, 2, 2, 6, 6],
        multicast_to_queue: Vec::new(),
    }
}

#[cfg(test)]
pub mod sample {
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
