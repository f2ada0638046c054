//! Settings without effect on a port with a vhost-user socket.
//!
//! Rule: a setting that does nothing is refused. Such a port has no cable, and no interface whose
//! frames have a length of their own; no LLDP is sent or received on it. Where the number of a
//! queue is the priority, no field of a frame is. Defaults must have an effect on one port at
//! least. Source: docs/vhost-user.md.

use dcbx::settings::AdminStatus;

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::table_reader::Setting;
use crate::tables::lldp::LldpMode;
use crate::tables::ports::{Port, PortTable};

/// Checks the ports with a socket, and the defaults if all ports have one.
pub(crate) fn check(defaults: &PortTable, ports: &[Port], report: &mut Diagnostics) {
    if defaults.is_wrong || ports.iter().any(|port| port.own.is_wrong) {
        return; // what could not be read would make others wrong
    }
    let on_socket = |port: &&Port| port.own.vhost.path.is_some();
    let by_queue = |port: &&Port| port.settings.classify.queue_is_priority;
    ports.iter().filter(on_socket).for_each(|port| of_interfaces(&port.own, report));
    ports.iter().filter(by_queue).for_each(|port| of_headers(&port.own, report));
    ports.iter().filter(on_socket).for_each(|port| needs_pfc(port, report));
    if !ports.is_empty() && ports.iter().all(|port| on_socket(&port)) {
        of_interfaces(defaults, report);
    }
    if !ports.is_empty() && ports.iter().all(|port| by_queue(&port)) {
        of_headers(defaults, report);
    }
}

/// Reports settings that describe an interface or its link.
fn of_interfaces(table: &PortTable, report: &mut Diagnostics) {
    for location in [location(&table.mtu_bytes), location(&table.cable_m)].into_iter().flatten() {
        let cure = "leave it out: headroom holds what one iteration reads of a queue, of any length";
        report.add(location, "has no effect on a vhost_user port, which has no cable", cure);
    }
    if let Some(Setting { value: LldpMode::Agent(admin), location }) = &table.lldp.mode
        && *admin != AdminStatus::Off
    {
        let cure = "write \"off\" or \"forward\", or leave it out";
        report.add(location, "no LLDP is sent or received on a vhost_user port", cure);
    }
    if let Some(location) = location(&table.lldp.tlvs) {
        report.add(location, "no LLDP is sent on a vhost_user port", "leave it out");
    }
}

/// Reports settings that take a class from the headers of a frame.
fn of_headers(table: &PortTable, report: &mut Diagnostics) {
    let classify = &table.classify;
    let locations = [
        location(&classify.trust),
        location(&classify.port_priority),
        location(&classify.dot1p_to_drop_level),
        location(&classify.dscp_to_dot1p),
        location(&classify.dscp_to_queue),
        location(&classify.dscp_to_drop_level),
        location(&classify.dei_drop_level),
        location(&classify.policy),
    ];
    for location in locations.into_iter().flatten() {
        let cure = "leave it out, or write vhost.queues = \"one\"";
        report.add(location, "has no effect where the number of the guest's queue is the priority", cure);
    }
}

/// Reports that a guest is to get PFC frames where none are sent.
fn needs_pfc(port: &Port, report: &mut Diagnostics) {
    if let Some(frames) = &port.own.vhost.pfc_frames
        && frames.value
        && !port.tables().pfc().is_on()
    {
        report.add(&frames.location, "true while PFC is off", "write pfc.mode = \"on\", or leave this out");
    }
}

fn location<T>(setting: &Option<Setting<T>>) -> Option<&SettingSpan> {
    setting.as_ref().map(|setting| &setting.location)
}
