//! LLDP check across all ports: all forward it, or none does.

use crate::read::diagnostics::Diagnostics;
use crate::tables::lldp::LldpMode;
use crate::tables::ports::Port;

/// Checks that all ports forward LLDP or none does: beside a port that speaks for the switch, the
/// frames of others would make it look like several.
pub(crate) fn check(ports: &[Port], report: &mut Diagnostics) {
    let mode = |port: &Port| port.tables().lldp().mode();
    let Some(wire) = ports.iter().find(|port| mode(port) == LldpMode::Forward) else { return };
    for port in ports.iter().filter(|port| mode(port) != LldpMode::Forward) {
        let location =
            port.tables().lldp().setting(|table| &table.mode).map_or(&port.location, |it| &it.location);
        let (name, other) = (&port.settings.name, &wire.settings.name);
        let what = format!("port {name} does not forward LLDP, while port {other} does");
        report.add(location, what, "write lldp = \"forward\" in [port-defaults] alone, for all ports");
    }
}
