//! `[lldp]`, and `lldp` and `lldp_tlvs` of ports: link layer discovery (docs/dcbx.md, "Settings").

use std::net::IpAddr;

use dcbx::settings::{AdminStatus, LldpSettings, TlvSelection};
use switch::settings::LldpFrames;
use toml::de::DeValue;

use crate::read::diagnostics::Diagnostics;
use crate::read::overrides::Overrides;
use crate::read::suggest::{did_you_mean, quoted};
use crate::read::table_reader::{Setting, TableReader, set};
use crate::spec::{TableSpec, ValueSpec, list, number, word_of};

/// The most management addresses: what a frame holds beside everything else.
const MAX_ADDRESSES: usize = 8;

pub(crate) const LLDP: TableSpec = &[
    number("tx_interval_s", 1, 3600).value("30", "Time between two frames."),
    number("hold", 1, 100).unit("intervals").value("4", "Time for which a receiver keeps a frame."),
    number("fast_interval_s", 1, 3600).value("1", "Time between two frames after a new neighbor."),
    number("fast_frames", 1, 8).value("4", "Frames that are sent in fast intervals."),
    number("credit_max", 1, 10).value("5", "Frames that may be sent at once."),
    number("reinit_delay_s", 1, 10).value("2", "Time from a shutdown frame to the next start."),
    number("max_neighbors", 1, 64).value("8", "Neighbors of a port that are kept."),
    list("management_addresses", &ValueSpec::Text("192.0.2.1"))
        .value("[]", "Addresses at which the switch is managed, at most 8."),
];

/// LLDP of the whole switch and of each port.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lldp {
    /// Addresses at which the switch is managed.
    pub management: Vec<IpAddr>,
    /// LLDP of each port, by port number.
    pub ports: Vec<PortLldp>,
}

/// Mode and settings of a port's agent.
#[derive(Debug, Clone, PartialEq)]
pub struct PortLldp {
    /// What the port does with LLDP.
    pub mode: LldpMode,
    /// Timing, bounds and TLV selection; its direction is that of `mode`.
    pub settings: LldpSettings,
}

/// What a port does with LLDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LldpMode {
    /// It sends and receives, one of the two, or none.
    Agent(AdminStatus),
    /// It forwards the frames of others, as a wire does.
    Forward,
}

impl LldpMode {
    pub(crate) const ALL: [(&'static str, Self); 5] = [
        ("both", Self::Agent(AdminStatus::Both)),
        ("tx", Self::Agent(AdminStatus::TxOnly)),
        ("rx", Self::Agent(AdminStatus::RxOnly)),
        ("off", Self::Agent(AdminStatus::Off)),
        ("forward", Self::Forward),
    ];

    /// Returns its name in the file.
    pub fn name(self) -> &'static str {
        word_of(&Self::ALL, &self)
    }

    /// Returns what the switch does with received frames.
    pub(crate) fn frames(self) -> LldpFrames {
        match self {
            Self::Agent(admin) if admin.receives() => LldpFrames::Punt,
            Self::Agent(_) => LldpFrames::Drop,
            Self::Forward => LldpFrames::Forward,
        }
    }
}

/// `lldp` and `lldp_tlvs` of a port.
#[derive(Debug, Default)]
pub(crate) struct LldpTable {
    pub(crate) mode: Option<Setting<LldpMode>>,
    pub(crate) tlvs: Option<Setting<TlvSelection>>,
}

impl LldpTable {
    pub(crate) fn read(section: &mut TableReader, report: &mut Diagnostics) -> Self {
        Self { mode: section.choice("lldp", &LldpMode::ALL, report), tlvs: read_tlvs(section, report) }
    }
}

impl Overrides<'_, LldpTable> {
    /// Returns what the port does with LLDP.
    pub(crate) fn mode(self) -> LldpMode {
        self.value(|table| &table.mode, LldpMode::Agent(AdminStatus::Both))
    }

    /// Returns LLDP of the port, with the timing of the switch.
    pub(crate) fn settings(self, timing: LldpSettings) -> PortLldp {
        let mode = self.mode();
        let admin = match mode {
            LldpMode::Agent(admin) => admin,
            LldpMode::Forward => AdminStatus::Off,
        };
        let tlvs = self.value(|table| &table.tlvs, timing.tlvs);
        PortLldp { mode, settings: LldpSettings { admin, tlvs, ..timing } }
    }
}

/// The names of the optional TLVs.
pub(crate) const TLVS: [&str; 8] = [
    "port-description",
    "system-name",
    "system-description",
    "capabilities",
    "management-address",
    "port-vlan",
    "max-frame-size",
    "link-aggregation",
];

fn read_tlvs(section: &mut TableReader, report: &mut Diagnostics) -> Option<Setting<TlvSelection>> {
    let item = section.item("lldp_tlvs")?;
    let cure = format!("write a list of these: {}", TLVS.join(", "));
    let Some(elements) = item.list() else { return item.wrong_type(&cure, report) };
    let mut has = [false; TLVS.len()];
    for element in elements {
        let DeValue::String(text) = element.value() else { return element.wrong_type(&cure, report) };
        match TLVS.iter().position(|name| name == text) {
            Some(at) => has[at] = true,
            None => {
                let cure = did_you_mean(text, &TLVS).unwrap_or_else(|| cure.clone());
                report.add(&element.location, format!("there is no TLV {}", quoted(text)), cure);
                return None;
            }
        }
    }
    let [
        port_description,
        system_name,
        system_description,
        capabilities,
        management,
        port_vlan,
        max_frame_size,
        link_aggregation,
    ] = has;
    let value = TlvSelection {
        port_description,
        system_name,
        system_description,
        capabilities,
        management,
        port_vlan,
        max_frame_size,
        link_aggregation,
    };
    Some(Setting { value, location: item.location })
}

/// Reads `[lldp]`: the timing of all ports, and the management addresses.
pub(crate) fn read(file: &mut TableReader, report: &mut Diagnostics) -> (LldpSettings, Vec<IpAddr>) {
    let mut timing = LldpSettings::default();
    let mut management = Vec::new();
    let Some(mut section) = file.section("lldp", report) else { return (timing, management) };
    set(&mut timing.tx_interval_s, section.number("tx_interval_s", report));
    set(&mut timing.hold, section.number("hold", report));
    set(&mut timing.fast_interval_s, section.number("fast_interval_s", report));
    set(&mut timing.fast_frames, section.number("fast_frames", report));
    set(&mut timing.credit_max, section.number("credit_max", report));
    set(&mut timing.reinit_delay_s, section.number("reinit_delay_s", report));
    set(&mut timing.max_neighbors, section.number("max_neighbors", report));
    if let Some(item) = section.item("management_addresses") {
        let cure = format!("write a list of at most {MAX_ADDRESSES} IP addresses, as in [\"192.0.2.1\"]");
        for element in item.list().unwrap_or_default() {
            let DeValue::String(text) = element.value() else {
                element.wrong_type::<()>(&cure, report);
                continue;
            };
            match text.parse() {
                Ok(address) => management.push(address),
                Err(_) => {
                    report.add(&element.location, format!("{} is no IP address", quoted(text)), cure.clone())
                }
            }
        }
        if item.list().is_none_or(|list| list.len() > MAX_ADDRESSES) {
            item.wrong_type::<()>(&cure, report);
        }
    }
    section.finish(report);
    (timing, management)
}
