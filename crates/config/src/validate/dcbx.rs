//! DCBX checks: it needs LLDP in both directions, PFC in mode `auto` needs it, and its groups must
//! be ones that the protocol can express.

use dcbx::settings::{AdminStatus, PfcMode};

use crate::read::diagnostics::Diagnostics;
use crate::tables::lldp::LldpMode;
use crate::tables::port::dcbx::MAX_APPLICATIONS;
use crate::tables::ports::Port;

/// Checks what each port negotiates.
pub(crate) fn check(ports: &[Port], report: &mut Diagnostics) {
    for port in ports {
        let tables = port.tables();
        let name = &port.settings.name;
        let is_on = tables.dcbx().is_on();
        if tables.pfc().mode() == PfcMode::Auto && !is_on {
            let location = tables.pfc().setting(|table| &table.mode).map(|mode| &mode.location);
            let what = format!("port {name} has no DCBX, which would negotiate PFC");
            let cure = "write dcbx = {} there or in [port-defaults], or pfc.mode = \"on\"";
            report.add(location.unwrap_or(&port.location), what, cure);
        }
        if !is_on {
            continue;
        }
        if port.own.vhost.path.is_some() {
            let what = format!("port {name} is on a vhost_user socket, where nothing is negotiated");
            report.add(&port.location, what, "write dcbx.enabled = false there, and pfc.mode = \"on\"");
        }
        let location = tables.dcbx().setting(|table| &table.enabled).map(|enabled| &enabled.location);
        let location = location.unwrap_or(&port.location);
        if tables.lldp().mode() != LldpMode::Agent(AdminStatus::Both) {
            let what = format!("port {name} does not send and receive LLDP, which carries DCBX");
            report.add(location, what, "write lldp = \"both\" there, or dcbx.enabled = false");
        }
        let count = port.dcbx.as_ref().map_or(0, |dcbx| dcbx.settings.applications.entries.len());
        if count > MAX_APPLICATIONS {
            let what = format!("port {name} has {count} applications, with those of its policy");
            report.add(location, what, format!("a frame holds at most {MAX_APPLICATIONS}"));
        }
        if let Some(Err(error)) = tables.ets().map(|ets| ets.check()) {
            let what = format!("DCBX cannot advertise the schedule of port {name}: {error}");
            report.add(location, what, "change schedule.group, or write dcbx.enabled = false there");
        }
    }
}
