//! The differences of two configurations, and which of them a running switch can apply.
//!
//! Rule: a port keeps its interface, and the switch its memory and its poll loop: the description
//! of a setting says so. Every other change is applied live, including ports that are added or
//! removed. No change can be overlooked: every structure is destructured field by field, so a field
//! that is missing here does not compile.

use std::fmt::{self, Debug, Display};
use wire::bitset::Set8;

use dcbx::settings::LldpSettings;
use switch::frame::meta::FloodType;
use switch::settings::{
    BridgeSettings, BufferSettings, ClassifySettings, GroupSettings, POOLS, PfcSettings, PortSettings,
    QueueSettings,
};
use switch::{Nanos, SwitchSettings};

use crate::config::Config;
use crate::reference;
use crate::spec::word_of;
use crate::tables::daemon::{
    ControlSocket, Dataplane, OVERLOAD, PFC_TEST, RecorderSettings, SCHEDULING, SOCKET_MODES,
};
use crate::tables::lldp::PortLldp;
use crate::tables::port::dcbx::PortDcbx;
use crate::tables::port::vhost::VhostUserPort;
use crate::tables::port::zero_copy::ZeroCopy;
use crate::tables::ports::{ADMIN_STATES, Link, PFC_MODES};

/// The difference of a file from a switch whose PFC was turned off by hand.
pub const PFC_ON_AGAIN: &str = "pfc: on again on all ports";

/// The differences, one readable line each, as `port.server1: PFC thresholds of priority 3`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Changes that a running switch applies.
    pub live: Vec<String>,
    /// Changes that need a restart.
    pub restart: Vec<String>,
}

impl Changes {
    /// Returns true if there is no difference.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.restart.is_empty()
    }

    fn applied_live<T: PartialEq>(&mut self, what: impl Display, old: &T, new: &T) {
        if old != new {
            self.live.push(what.to_string());
        }
    }

    /// Adds a change to those that need a restart if the description of the setting says so.
    fn value<T: PartialEq + Debug>(&mut self, what: impl Display, old: &T, new: &T) {
        if old != new {
            let what = what.to_string();
            let lines = if needs_restart(&what) { &mut self.restart } else { &mut self.live };
            lines.push(format!("{what} {old:?} → {new:?}"));
        }
    }

    fn word<T: PartialEq>(&mut self, what: impl Display, words: &[(&'static str, T)], [old, new]: [T; 2]) {
        self.value(what, &word_of(words, &old), &word_of(words, &new));
    }

    fn applied_live_optional(&mut self, what: impl Display, old: Option<u32>, new: Option<u32>) {
        if old != new {
            let [old, new] =
                [old, new].map(|value| value.map_or("unset".to_owned(), |value| value.to_string()));
            self.live.push(format!("{what} {old} → {new}"));
        }
    }
}

/// Returns true if the setting that a line is about, as `port.a: interface`, needs a restart.
fn needs_restart(what: &str) -> bool {
    let (table, setting) = what.split_once(": ").unwrap_or((what, ""));
    let table = if table.starts_with("port.") { "port.NAME" } else { table };
    let found = reference::setting(&format!("{table}.{setting}"));
    found.is_some_and(|found| found.spec.needs_restart)
}

/// Returns the changes from `old` to `new`.
pub fn changes(old: &Config, new: &Config) -> Changes {
    // Warnings are for advice. A preset is compared by its numbers.
    let Config {
        name,
        dataplane,
        switch,
        interfaces,
        vhost_user,
        control,
        recorder,
        telemetry,
        metrics,
        pfc_enabled,
        preset: _,
        admin_up,
        links,
        lldp,
        pfc_modes,
        dcbx,
        // Their effect is in the ports.
        profiles: _,
        warnings: _,
        // Only the daemon knows which core serves which port.
        port_cores: _,
    } = new;
    let Dataplane {
        cores,
        switch_core_serves,
        scheduling,
        pauses_on_overload,
        spare_ports,
        pfc_test,
        zero_copy,
    } = dataplane;
    let mut changes = Changes::default();
    changes.value("switch: name", &old.name, name);
    changes.value("dataplane: cores", &old.dataplane.cores, cores);
    changes.value("dataplane: switch_core_serves", &old.dataplane.switch_core_serves, switch_core_serves);
    changes.word("dataplane: scheduling", &SCHEDULING, [old.dataplane.scheduling, *scheduling]);
    changes.word("dataplane: overload", &OVERLOAD, [old.dataplane.pauses_on_overload, *pauses_on_overload]);
    changes.value("dataplane: spare_ports", &old.dataplane.spare_ports, spare_ports);
    changes.word("dataplane: pfc_test", &PFC_TEST, [old.dataplane.pfc_test, *pfc_test]);
    changes.word("dataplane: zero_copy", &ZeroCopy::CHOICES, [old.dataplane.zero_copy, *zero_copy]);
    let ControlSocket { path, group, owner, mode } = control;
    changes.value("control: socket", &old.control.path, path);
    changes.value("control: group", &old.control.group, group);
    changes.value("control: owner", &old.control.owner, owner);
    changes.word("control: mode", &SOCKET_MODES, [old.control.mode, *mode]);
    let RecorderSettings { always, freeze_on_loss, memory_bytes } = recorder;
    changes.value("recorder: always", &old.recorder.always, always);
    changes.value("recorder: freeze_on_loss", &old.recorder.freeze_on_loss, freeze_on_loss);
    changes.value("recorder: memory_mib", &(old.recorder.memory_bytes >> 20), &(memory_bytes >> 20));
    changes.applied_live("telemetry", &old.telemetry, telemetry);
    changes.applied_live("metrics", &old.metrics, metrics);
    changes.applied_live("lldp: management addresses", &old.lldp.management, &lldp.management);
    if old.pfc_enabled != *pfc_enabled {
        changes.live.push(if *pfc_enabled { PFC_ON_AGAIN } else { "pfc: off on all ports" }.to_owned());
    }
    whole_switch(&mut changes, &old.switch, switch);
    // The fixed area is divided among the ports.
    let shares_change = old.switch.buffer.fixed_cells != new.switch.buffer.fixed_cells
        || old.switch.ports.len() != switch.ports.len();
    for (now, port) in switch.ports.iter().enumerate() {
        if let Some(before) = number(&old.switch.ports, &port.name) {
            let what = format!("port.{}: interface", port.name);
            changes.value(what, &old.interfaces[before], &interfaces[now]);
            one_vhost(&mut changes, &port.name, &old.vhost_user[before], &vhost_user[now]);
            one_port(&mut changes, &old.switch.ports[before], port, shares_change);
            // The switch does not have them: they are what headroom is judged by.
            let Link { cable_m, mtu_bytes } = links[now];
            let of_link = [
                ("mtu", old.links[before].mtu_bytes, mtu_bytes),
                ("cable_m", old.links[before].cable_m, cable_m),
            ];
            for (setting, before, now) in of_link {
                changes.applied_live_optional(format!("port.{}: {setting}", port.name), before, now);
            }
            let states = [old.admin_up[before], admin_up[now]];
            changes.word(format!("port.{}: admin", port.name), &ADMIN_STATES, states);
            let modes = [old.pfc_modes[before], pfc_modes[now]];
            changes.word(format!("port.{}: pfc.mode", port.name), &PFC_MODES, modes);
            let settings = |dcbx: &Option<PortDcbx>| dcbx.as_ref().map(|it| it.settings.clone());
            let what = format!("port.{}: dcbx", port.name);
            changes.applied_live(what, &settings(&old.dcbx[before]), &settings(&dcbx[now]));
            one_lldp(&mut changes, &port.name, &old.lldp.ports[before], &lldp.ports[now]);
        }
    }
    other_ports(&mut changes, &old.switch.ports, &switch.ports);
    for (config, other, what) in [(old, new, "removed"), (new, old, "added")] {
        for (port, vhost) in config.switch.ports.iter().zip(&config.vhost_user) {
            if vhost.is_some() && number(&other.switch.ports, &port.name).is_none() {
                changes.restart.push(format!("port.{}: vhost_user {what}", port.name));
            }
        }
    }
    changes
}

/// Compares the sockets of a port. Another path is another interface already.
fn one_vhost(changes: &mut Changes, name: &str, old: &Option<VhostUserPort>, new: &Option<VhostUserPort>) {
    let path = |port: &Option<VhostUserPort>| port.as_ref().map(|port| port.path.clone());
    let what = |setting: &str| format!("port.{name}: {setting}");
    if path(old) != path(new) {
        changes.value(what("vhost_user"), &path(old), &path(new));
    }
    if let (Some(old), Some(new)) = (old, new) {
        let VhostUserPort { path: _, role, queue_is_priority, pfc_frames, allow_unsealed_memory } = new;
        changes.value(what("vhost.role"), &old.role, role);
        changes.value(what("vhost.queues"), &old.queue_is_priority, queue_is_priority);
        changes.value(what("vhost.pfc_frames"), &old.pfc_frames, pfc_frames);
        let before = &old.allow_unsealed_memory;
        changes.value(what("vhost.allow_unsealed_memory"), before, allow_unsealed_memory);
    }
}

fn one_lldp(changes: &mut Changes, name: &str, old: &PortLldp, new: &PortLldp) {
    let PortLldp { mode, settings } = new;
    changes.value(format!("port.{name}: lldp"), &old.mode.name(), &mode.name());
    // The direction is that of the mode.
    let LldpSettings { admin: _, tlvs, .. } = settings;
    changes.applied_live(format!("port.{name}: lldp_tlvs"), &old.settings.tlvs, tlvs);
    let timing = LldpSettings { admin: old.settings.admin, tlvs: old.settings.tlvs, ..*settings };
    changes.applied_live(format!("port.{name}: timing of LLDP"), &old.settings, &timing);
}

/// Returns the index of a port in the file.
fn number(ports: &[PortSettings], name: &str) -> Option<usize> {
    ports.iter().position(|port| port.name == name)
}

/// Adds the ports that are in only one of the two files, or in another order.
fn other_ports(changes: &mut Changes, old: &[PortSettings], new: &[PortSettings]) {
    let mut stay = new.iter().filter(|port| number(old, &port.name).is_some()).map(|port| &port.name);
    for (before, port) in old.iter().enumerate() {
        match number(new, &port.name) {
            None => changes.live.push(format!("port.{}: removed", port.name)),
            // When ports are added or removed the others move up or down, which is no change of its
            // own.
            Some(now) if stay.next() != Some(&port.name) => {
                changes.live.push(format!("port.{}: position in the file {before} → {now}", port.name));
            }
            Some(_) => {}
        }
    }
    for port in new.iter().filter(|port| number(old, &port.name).is_none()) {
        changes.live.push(format!("port.{}: added", port.name));
    }
}

fn whole_switch(changes: &mut Changes, old: &SwitchSettings, new: &SwitchSettings) {
    let SwitchSettings { buffer, bridge, usage_percent, alarms, seed, ports: _ } = new;
    let BufferSettings {
        cell_bytes,
        total_cells,
        fixed_cells,
        headroom_cells,
        ingress_pool_percent,
        egress_pool_percent,
        ingress_pool_cells,
        egress_pool_cells,
        pause_cells,
    } = buffer;
    changes.value("buffer: cell_bytes", &old.buffer.cell_bytes, cell_bytes);
    changes.value("buffer: total cells", &old.buffer.total_cells, total_cells);
    changes.value("buffer: fixed cells", &old.buffer.fixed_cells, fixed_cells);
    changes.value("buffer: headroom cells", &old.buffer.headroom_cells, headroom_cells);
    let what = "buffer: shares of the service pools at ingress in percent";
    changes.value(what, &old.buffer.ingress_pool_percent, ingress_pool_percent);
    let what = "buffer: shares of the service pools at egress in percent";
    changes.value(what, &old.buffer.egress_pool_percent, egress_pool_percent);
    for (of, old, new) in [
        ("sizes of the service pools at ingress", &old.buffer.ingress_pool_cells, ingress_pool_cells),
        ("sizes of the service pools at egress", &old.buffer.egress_pool_cells, egress_pool_cells),
        ("pause thresholds of the service pools", &old.buffer.pause_cells, pause_cells),
    ] {
        changes.value(format!("buffer: {of} in cells"), &Cells(*old), &Cells(*new));
    }
    changes.value("buffer: usage threshold in percent", &old.usage_percent, usage_percent);
    changes.applied_live("alarms", &old.alarms, alarms);

    // Of the simulator: not in the language.
    if old.seed != *seed {
        changes.restart.push(format!("switch: seed {} → {seed}", old.seed));
    }

    // The hash key is not in the file.
    let BridgeSettings {
        max_entries,
        max_entries_per_port,
        key: _,
        aging_ns,
        unknown_unicast_to_queue,
        multicast_to_queue,
        no_drop_to_down_port,
    } = bridge;
    changes.value("bridge: max_entries", &old.bridge.max_entries, max_entries);
    let what = "bridge: max_entries_per_port";
    changes.value(what, &old.bridge.max_entries_per_port, max_entries_per_port);
    changes.value("bridge: aging in seconds", &seconds(old.bridge.aging_ns), &seconds(*aging_ns));
    let what = "bridge: queues of unknown unicast";
    changes.applied_live(what, &old.bridge.unknown_unicast_to_queue, unknown_unicast_to_queue);
    let what = "bridge: queues of multicast";
    changes.applied_live(what, &old.bridge.multicast_to_queue, multicast_to_queue);
    let what = "bridge: no-drop frames to a port that is down";
    changes.applied_live(what, &old.bridge.no_drop_to_down_port, no_drop_to_down_port);
}

/// The sizes of pools in cells, shown as "–" where a pool has none.
#[derive(PartialEq)]
struct Cells([Option<u32>; POOLS]);

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.0.map(|cells| cells.map_or("–".to_owned(), |cells| cells.to_string()));
        write!(f, "[{}]", cells.join(", "))
    }
}

fn seconds(nanos: Nanos) -> u64 {
    nanos / 1_000_000_000
}

fn one_port(changes: &mut Changes, old: &PortSettings, new: &PortSettings, fixed_area_changes: bool) {
    let PortSettings {
        name,
        speed_bps,
        // Not in the language: set by the interface, or by the simulator.
        link_speed_bps: _,
        mtu_bytes: _,
        response_ns: _,
        rate_limited: _,
        alarms,
        classify,
        rewrite,
        pfc,
        watchdog,
        early_warning,
        static_addresses,
        groups,
        queues,
        schedule,
        burst_bytes,
        overhead_bytes,
        in_flight_bytes,
        flow_control,
        flood_limits_pps,
        vlan,
        // By its mode: see `one_lldp`.
        lldp: _,
    } = new;
    let of = |what: &str| format!("port.{name}: {what}");
    let speed = |bps: Option<u64>| bps.map_or("unbounded".to_owned(), |bps| format!("{bps} bit/s"));
    if old.speed_bps != *speed_bps {
        changes.live.push(of(&format!("speed {} → {}", speed(old.speed_bps), speed(*speed_bps))));
    }
    changes.applied_live(of("static addresses"), &old.static_addresses, static_addresses);
    changes.applied_live(of("alarm thresholds"), &old.alarms, alarms);
    // That is a setting of the port's queues, which has its own line.
    let queue_is_priority = old.classify.queue_is_priority;
    let classify = ClassifySettings { queue_is_priority, ..classify.clone() };
    changes.applied_live(of("classification"), &old.classify, &classify);
    changes.applied_live(of("rewriting"), &old.rewrite, rewrite);
    changes.applied_live(of("schedule"), &old.schedule, schedule);
    changes.applied_live(of("burst_bytes"), &old.burst_bytes, burst_bytes);
    changes.value(of("wire overhead in bytes"), &old.overhead_bytes, overhead_bytes);
    changes.value(of("in_flight_bytes"), &old.in_flight_bytes, in_flight_bytes);

    changes.value(of("flow_control"), &old.flow_control.name(), &flow_control.name());
    changes.applied_live(of("VLANs"), &old.vlan, vlan);
    for (location, cast) in FloodType::FLOODED.into_iter().enumerate() {
        let limit = |pps: Option<u32>| pps.map_or("off".to_owned(), |pps| pps.to_string());
        let (old, new) = (limit(old.flood_limits_pps[location]), limit(flood_limits_pps[location]));
        if old != new {
            changes.live.push(of(&format!("{} {old} → {new}", cast.limit_setting_name())));
        }
    }
    let PfcSettings { rx, tx, no_drop, pause_quanta, pause_speed_bps } = pfc;
    let priorities = |mask: u8| Set8::from_bits(mask).into_iter().collect::<Vec<_>>();
    changes.value(of("PFC: no-drop priorities"), &priorities(old.pfc.no_drop), &priorities(*no_drop));
    changes.value(of("PFC: rx"), &old.pfc.rx, rx);
    changes.value(of("PFC: tx"), &old.pfc.tx, tx);
    changes.value(of("PFC: pause_time"), &old.pfc.pause_quanta, pause_quanta);
    changes.applied_live(of("PFC: pause_speed"), &old.pfc.pause_speed_bps, pause_speed_bps);
    for (priority, (watchdog, warning)) in watchdog.iter().zip(early_warning).enumerate() {
        changes.applied_live(
            of(&format!("watchdog of priority {priority}")),
            &old.watchdog[priority],
            watchdog,
        );
        let what = format!("early warning of priority {priority}");
        changes.applied_live(of(&what), &old.early_warning[priority], warning);
    }
    for (priority, (old_group, new)) in old.groups.iter().zip(groups).enumerate() {
        // The reservation of lossy groups is their part of the fixed area, whose line covers it.
        let is_lossy = (old.pfc.no_drop | no_drop) & (1 << priority) == 0;
        let of_new = GroupSettings { reserved_cells: new.reserved_cells, ..*old_group };
        if fixed_area_changes && is_lossy && of_new == *new {
            continue;
        }
        changes.applied_live::<GroupSettings>(
            of(&format!("PFC thresholds of priority {priority}")),
            old_group,
            new,
        );
    }
    for (queue, (old, new)) in old.queues.iter().zip(queues).enumerate() {
        let QueueSettings { pool, guaranteed, shared, wred, rate } = new;
        let buffer = (&old.pool, &old.guaranteed, &old.shared);
        changes.applied_live(of(&format!("buffer of queue {queue}")), &buffer, &(pool, guaranteed, shared));
        changes.applied_live(of(&format!("WRED of queue {queue}")), &old.wred, wred);
        changes.applied_live(of(&format!("rate of queue {queue}")), &old.rate, rate);
    }
}

#[cfg(test)]
mod tests;
