//! VLAN checks across all ports: every port has VLANs or none has, an access port has the VLAN of
//! its PVID, and static addresses agree.

use switch::settings::VlanSettings;

use crate::read::diagnostics::Diagnostics;
use crate::tables::port::vlan::{Mode, VlanTable};
use crate::tables::ports::{Port, PortTable};

/// Checks that all ports have VLANs or none has, and that no port's settings contradict each other.
pub(crate) fn check(defaults: &PortTable, ports: &[Port], report: &mut Diagnostics) {
    if defaults.is_wrong || ports.iter().any(|port| port.own.is_wrong) {
        return; // what could not be read would make others wrong
    }
    let with_vlans = ports.iter().find(|port| port.tables().vlan().mode().is_some());
    for port in ports {
        match (port.tables().vlan().mode(), with_vlans) {
            (Some(mode), _) => check_port(port, mode, report),
            (None, Some(other)) => {
                let what = format!("no VLAN, while port {} has some", other.settings.name);
                let cure = "write vlan = { mode = \"access\", pvid = 1 } or mode = \"trunk\", here or in [port-defaults]";
                report.add(&port.location, what, cure);
            }
            (None, None) => needs_mode(&port.own.vlan, report),
        }
        check_static_addresses(port, report);
    }
    let has = |mode: Mode| ports.iter().any(|port| port.tables().vlan().mode() == Some(mode));
    if with_vlans.is_none() {
        needs_mode(&defaults.vlan, report);
    } else if let Some(allowed) = &defaults.vlan.allowed
        && !has(Mode::Trunk)
    {
        report.add(&allowed.location, "has no effect: no port is a trunk", "leave it out");
    }
}

/// Reports VLAN settings of a port without VLANs.
fn needs_mode(table: &VlanTable, report: &mut Diagnostics) {
    let locations =
        [table.pvid.as_ref().map(|it| &it.location), table.allowed.as_ref().map(|it| &it.location)];
    for location in locations.into_iter().flatten() {
        let cure = "write vlan.mode = \"access\" or \"trunk\", or leave this out";
        report.add(location, "has no effect without vlan.mode", cure);
    }
}

fn check_port(port: &Port, mode: Mode, report: &mut Diagnostics) {
    let vlan = port.tables().vlan();
    let pvid = vlan.setting(|table| &table.pvid);
    let mode_location = vlan.setting(|table| &table.mode).map_or(&port.location, |mode| &mode.location);
    match mode {
        Mode::Access => {
            if pvid.is_none() {
                let what = format!("port {} is an access port without a VLAN", port.settings.name);
                report.add(mode_location, what, "write vlan.pvid, the VLAN that it is in");
            }
            if let Some(allowed) = &port.own.vlan.allowed {
                let what = "an access port has the VLAN of its pvid alone";
                report.add(&allowed.location, what, "write mode = \"trunk\", or leave this out");
            }
        }
        Mode::Trunk => {
            let allowed = vlan.setting(|table| &table.allowed);
            if let (Some(pvid), Some(allowed)) = (pvid, allowed)
                && !allowed.value.contains(pvid.value)
            {
                let what = format!("port {} does not allow VLAN {}", port.settings.name, pvid.value);
                let cure = format!(
                    "add {} to vlan.allowed, which is \"{}\", or leave pvid out",
                    pvid.value, allowed.value
                );
                report.add(&pvid.location, what, cure);
            }
        }
    }
}

/// Checks that a static address is in a VLAN that its port has, and that the file names the VLAN.
fn check_static_addresses(port: &Port, report: &mut Diagnostics) {
    let (name, vlan) = (&port.settings.name, &port.settings.vlan);
    for address in &port.own.static_addresses {
        let what = match (vlan, address.value.vlan) {
            (VlanSettings::Transparent, Some(_)) => format!("port {name} has no VLANs"),
            (VlanSettings::Trunk { pvid: None, .. }, None) => {
                let what =
                    format!("port {name} is a trunk without pvid: which VLAN is {} in?", address.value.mac);
                let cure = format!("write {{ address = \"{}\", vlan = … }}", address.value.mac);
                report.add(&address.location, what, cure);
                continue;
            }
            (VlanSettings::Access { .. } | VlanSettings::Trunk { .. }, Some(vid))
                if !vlan.vlans().contains(vid) =>
            {
                format!("port {name} does not have VLAN {vid}")
            }
            _ => continue,
        };
        let cure = match vlan {
            VlanSettings::Transparent => "leave vlan out".to_owned(),
            _ => format!("write one that it has: {}", vlan.vlans()),
        };
        report.add(&address.location, what, cure);
    }
}

/// Warns of an access port whose VLAN no other port has: it can reach no other port.
pub(crate) fn warn_isolated_vlan(ports: &[Port], warnings: &mut Diagnostics) {
    for (number, port) in ports.iter().enumerate() {
        let VlanSettings::Access { pvid } = port.settings.vlan else { continue };
        let mut others = ports.iter().enumerate().filter(|(other, _)| *other != number);
        if !others.any(|(_, other)| other.settings.vlan.vlans().contains(pvid)) {
            let setting = port.tables().vlan().setting(|table| &table.pvid);
            let location = setting.map_or(&port.location, |pvid| &pvid.location);
            let what =
                format!("no other port has VLAN {pvid}: what port {} sends goes nowhere", port.settings.name);
            warnings.add(location, what, "give another port the VLAN");
        }
    }
}
