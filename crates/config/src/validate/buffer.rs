//! Checks that involve several settings: the sums over the buffer, and settings that require one
//! another.

use std::collections::HashMap;
use wire::bitset::Set8;

use switch::forwarding::classifier::fifos_of_priorities;
use switch::pfc::tx::PfcTiming;
use switch::settings::{
    BridgeSettings, BufferSettings, FlowControl, Guaranteed, POOLS, PRIORITIES, StaticAddress, Trust,
};

use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::overrides::Overrides;
use crate::read::table_reader::Setting;
use crate::tables::buffer::{Buffer, PoolTables, last_share};
use crate::tables::congestion::QueueWred;
use crate::tables::port::schedule;
use crate::tables::ports::{Port, PortTable};
use crate::validate::watchdog;

/// Checks that each static address is behind one port in its VLAN, and that the bridge table has
/// room for all.
pub(crate) fn static_addresses<'p>(ports: &'p [Port], max_entries: usize, report: &mut Diagnostics) {
    let mut owners: HashMap<StaticAddress, &SettingSpan> = HashMap::new();
    let entries = |port: &'p Port| port.own.static_addresses.iter().zip(&port.settings.static_addresses);
    for (address, entry) in ports.iter().flat_map(entries) {
        if let Some(owner) = owners.insert(*entry, &address.location) {
            let what = format!("{} is in {} already", entry.mac, owner.setting);
            report.add(&address.location, what, "leave it to one port");
        } else if owners.len() == max_entries + 1 {
            let what = format!("the bridge table has {max_entries} entries");
            report.add(&address.location, what, "raise bridge.max_entries");
        }
    }
}

/// Checks that each port has an interface of its own.
pub(crate) fn interfaces(ports: &[Port], report: &mut Diagnostics) {
    let mut owners: HashMap<&str, &SettingSpan> = HashMap::new();
    for port in ports {
        let Some(interface) = port.own.interface.as_ref().or(port.own.vhost.path.as_ref()) else { continue };
        match owners.get(interface.value.as_str()) {
            Some(owner) => {
                let what = format!("{} has the interface \"{}\" already", owner.setting, interface.value);
                report.add(&interface.location, what, "give each port an interface of its own");
            }
            None => {
                owners.insert(&interface.value, &port.location);
            }
        }
    }
}

/// Checks that a port's core is one of those that serve ports (the first of them may or may not),
/// and that there is a choice.
pub(crate) fn cores(ports: &[Port], (cores, first_serves): (&[usize], bool), report: &mut Diagnostics) {
    let serving = if first_serves { cores } else { &cores[1..] };
    for port in ports.iter().filter(|port| port.own.vhost.path.is_some()) {
        let is_elsewhere = port.own.core.as_ref().is_some_and(|core| Some(&core.value) != cores.first());
        if !first_serves || is_elsewhere {
            let what = "a vhost_user port is served by the switching core";
            report.add(&port.location, what, "leave out core and dataplane.switch_core_serves");
        }
    }
    let list = serving.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    for Setting { value, location } in ports.iter().filter_map(|port| port.own.core.as_ref()) {
        let (what, cure) = match cores.iter().position(|core| core == value) {
            _ if cores.len() == 1 => (
                format!("there is one core, {}, which serves all ports", cores[0]),
                "leave it out, or name more in dataplane.cores".to_owned(),
            ),
            None => (
                format!("core {value} is not among dataplane.cores"),
                format!("write one of {list}, or name it there, too"),
            ),
            Some(0) if !first_serves => (
                format!("core {value} switches, and serves no ports"),
                format!("write one of {list}, or leave out dataplane.switch_core_serves"),
            ),
            Some(_) => continue,
        };
        report.add(location, what, cure);
    }
}

/// Checks that XOFF can be refreshed before the pause has passed.
pub(crate) fn pause_times(ports: &[Port], report: &mut Diagnostics) {
    let notifies = |port: &&Port| {
        port.settings.flow_control.sends() || port.settings.pfc.tx && port.settings.pfc.no_drop != 0
    };
    for port in ports.iter().filter(notifies) {
        if PfcTiming::from_settings(&port.settings).refresh_ns() == 0 {
            let quanta = port.settings.pfc.pause_quanta;
            let time = port.tables().pfc().setting(|table| &table.pause_quanta);
            let location = time.map_or(&port.location, |time| &time.location);
            let what = format!("{quanta} quanta are over before the pause could be refreshed at this speed");
            report.add(location, what, "raise pause_time; 65535 is the default");
        }
    }
}

/// Checks that a link has either PFC or PAUSE: PAUSE would stop priorities that PFC keeps running
/// (in IEEE 802.1Q-2022 clause 36, PFC replaces PAUSE).
pub(crate) fn one_flow_control(ports: &[Port], report: &mut Diagnostics) {
    let mut reported = Vec::new();
    for port in ports {
        let tables = port.tables();
        let Some(setting) = tables.setting(|table| &table.flow_control) else { continue };
        if setting.value == FlowControl::Off
            || !tables.pfc().is_on()
            || reported.contains(&setting.location.span)
        {
            continue;
        }
        let (value, name) = (setting.value.name(), &port.settings.name);
        let what = format!("\"{value}\" while port {name} has PFC on: a link has one or the other");
        report.add(&setting.location, what, "write flow_control = \"off\" or pfc.mode = \"off\" there");
        reported.push(setting.location.span.clone());
    }
}

/// Reports settings that can have no effect, since a setting that they need is missing. Defaults
/// must have an effect on at least one port; a single port may well do without. Where a setting
/// could not be read, the settings that need it are not reported.
pub(crate) fn dependences(defaults: &PortTable, ports: &[Port], report: &mut Diagnostics) {
    let is_right = |port: &Port| !port.own.is_wrong && !defaults.is_wrong;
    for port in ports {
        if is_right(port) {
            dependences_of(&port.own, &[port.tables()], report);
        }
        (0..PRIORITIES).for_each(|priority| port.tables().group(priority).resume_below_xoff(report));
    }
    if !ports.is_empty() && ports.iter().all(is_right) {
        let effective: Vec<Overrides<PortTable>> = ports.iter().map(Port::tables).collect();
        dependences_of(defaults, &effective, report);
    }
}

/// Checks that the settings of `table` have an effect on one of `effective`.
fn dependences_of(table: &PortTable, effective: &[Overrides<PortTable>], report: &mut Diagnostics) {
    needs_pfc(table, effective, report);
    needs_trust(table, effective, report);
    let schedules: Vec<_> = effective.iter().map(|port| port.schedule()).collect();
    schedule::dependences(&table.schedule, &schedules, report);
    needs_rate(table, effective, report);
    watchdog::dependences(table, effective, report);
    for priority in 0..PRIORITIES {
        needs_no_drop(table, effective, priority, report);
    }
}

fn needs_pfc(table: &PortTable, effective: &[Overrides<PortTable>], report: &mut Diagnostics) {
    let pfc = &table.pfc;
    for direction in [&pfc.rx, &pfc.tx].into_iter().flatten() {
        if direction.value && !effective.iter().any(|port| port.pfc().is_on()) {
            report.add(
                &direction.location,
                "true while PFC is off",
                "write pfc.mode = \"on\", or leave this out",
            );
        }
    }
    if let Some(no_drop) = &pfc.no_drop
        && no_drop.value != 0
        && effective.iter().all(|port| port.pfc().setting(|table| &table.mode).is_none())
    {
        let cure = "write pfc.mode = \"on\" to protect these priorities, or \"off\" to let them drop";
        report.add(&no_drop.location, "has no effect without pfc.mode", cure);
    }
}

/// Reports maps of a field that is not trusted, which have no effect.
fn needs_trust(table: &PortTable, effective: &[Overrides<PortTable>], report: &mut Diagnostics) {
    let trusts = |trust: Trust| effective.iter().any(|port| port.classify().trust() == trust);
    let classify = &table.classify;
    if !trusts(Trust::Dscp) {
        for map in [&classify.dscp_to_dot1p, &classify.dscp_to_queue, &classify.dscp_to_drop_level] {
            let Some(map) = map else { continue };
            let cure = "write trust = \"dscp\", or leave this out";
            report.add(&map.location, "has no effect while DSCP is not trusted", cure);
        }
    }
    if let Some(map) = &classify.dot1p_to_drop_level
        && !trusts(Trust::Dot1p)
        && !trusts(Trust::TunnelDot1p)
    {
        let cure = "write trust = \"dot1p\", or leave this out";
        report.add(&map.location, "has no effect while dot1p is not trusted", cure);
    }
}

/// Checks that the port's burst, and the wire overhead, have a setting that counts bytes on the
/// link.
fn needs_rate(table: &PortTable, effective: &[Overrides<PortTable>], report: &mut Diagnostics) {
    let has_speed = |port: &Overrides<PortTable>| port.setting(|table| &table.speed_bps).is_some();
    if let Some(burst) = &table.burst_bytes
        && !effective.iter().any(has_speed)
    {
        report.add(&burst.location, "has no effect without a speed", "write speed, or leave this out");
    }
    if let Some(overhead) = &table.wire_overhead
        && !effective.iter().any(|port| has_speed(port) || port.schedule().uses_wire_bytes())
    {
        let cure = "write speed, or a rate in the schedule, or leave this out";
        report.add(&overhead.location, "has no effect without a rate", cure);
    }
}

/// Headroom and XON exist for no-drop priorities only; a reservation and a threshold are valid for
/// any group. The list decides, not the mode: PFC can be switched off for a while without changing
/// its settings. A profile may be bound to lossy priorities too: it sets more than they need.
fn needs_no_drop(
    table: &PortTable,
    effective: &[Overrides<PortTable>],
    priority: usize,
    report: &mut Diagnostics,
) {
    let protects =
        |port: &Overrides<PortTable>| port.pfc().list() & 1 << priority != 0 || port.flow_control().sends();
    if effective.iter().any(protects) {
        return;
    }
    let group = &table.groups[priority];
    if group.profile.is_some() {
        return;
    }
    for setting in [&group.headroom_cells, &group.xon_offset_cells, &group.resume_cells].into_iter().flatten()
    {
        let cure = format!("add {priority} to pfc.no_drop, or leave this out");
        report.add(&setting.location, format!("priority {priority} is not no-drop"), cure);
    }
}

/// Reports no-drop queues with WRED but without ECN, which has no effect there, and `drop_not_ect`
/// elsewhere, where frames that are not ECT are dropped anyway.
pub(crate) fn no_drop_queues(ports: &[Port], bridge: &BridgeSettings, report: &mut Diagnostics) {
    // As `pfc` of a port: the list counts even while PFC is off, but then nothing is protected.
    let listed = queues(ports, bridge, |port| port.tables().pfc().list());
    let protected = queues(ports, bridge, |port| port.settings.pfc.no_drop);
    for port in ports {
        for q in 0..PRIORITIES {
            let Some(QueueWred { settings: wred, location, is_written: true }) =
                port.tables().congestion().of_queue(q)
            else {
                continue;
            };
            if wred.drop_not_ect && listed & 1 << q == 0 {
                let what = format!("queue {q} is no-drop on no port, and drops what is not ECT anyway");
                report.add(location, what, "leave drop_not_ect out");
            }
            if !wred.ecn && protected & 1 << q != 0 {
                let what = format!("queue {q} is no-drop: without ECN, WRED does nothing there");
                report.add(location, what, "turn ECN on, or leave the queue out");
            }
        }
    }
}

/// Returns the queues that carry the priorities of any port's mask: a priority that is no-drop for
/// one port is so on all.
fn queues(ports: &[Port], bridge: &BridgeSettings, mask: impl Fn(&Port) -> u8) -> u8 {
    let of_port = |port: &Port| {
        let fifos = fifos_of_priorities(&port.settings.classify, &bridge.flood_maps());
        Set8::from_bits(mask(port)).into_iter().fold(0, |all, p| all | fifos[p].queues().bits())
    };
    ports.iter().fold(0, |all, port| all | of_port(port))
}

/// Returns the cells that the fixed area must have: the groups' reserved cells and the queues'
/// guaranteed cells are two views of it.
pub(crate) fn fixed_cells_needed(ports: &[Port]) -> u64 {
    reserved_cells(ports).max(guaranteed_cells(ports))
}

/// Returns the cells that all groups reserve.
fn reserved_cells(ports: &[Port]) -> u64 {
    ports.iter().flat_map(|port| &port.settings.groups).map(|group| u64::from(group.reserved_cells)).sum()
}

/// Returns the cells that all queues are guaranteed by number; shares of the fixed area always fit
/// into it.
fn guaranteed_cells(ports: &[Port]) -> u64 {
    let queues = ports.iter().flat_map(|port| &port.settings.queues);
    let cells = queues.map(|queue| match queue.guaranteed {
        Guaranteed::Cells(cells) => u64::from(cells),
        Guaranteed::Percent(_) => 0,
    });
    cells.sum()
}

/// Returns the setting that takes most of the fixed area.
fn largest_reservation<'p>(ports: &'p [Port]) -> Option<&'p SettingSpan> {
    let groups = ports.iter().flat_map(|port| (0..PRIORITIES).map(|p| port.tables().group(p)));
    let reserved = groups.filter_map(|group| {
        group.setting(|table| &table.reserved_cells).map(|cells| (cells.value, &cells.location))
    });
    let queues = ports.iter().flat_map(|port| (0..PRIORITIES).map(|q| port.tables().queue(q)));
    let guaranteed = queues.filter_map(|queue| match queue.setting(|table| &table.guaranteed)? {
        Setting { value: Guaranteed::Cells(cells), location } => Some((*cells, location)),
        Setting { value: Guaranteed::Percent(_), .. } => None,
    });
    reserved.chain(guaranteed).max_by_key(|(cells, _)| *cells).map(|(_, location)| location)
}

/// Checks that the parts of the buffer fit into it, and that the ports' cells of a part fit into
/// that.
pub(crate) fn buffer(buffer: &Buffer, ports: &[Port], file: &SettingSpan, report: &mut Diagnostics) {
    let BufferSettings { total_cells: total, fixed_cells: fixed, headroom_cells: headroom, .. } =
        buffer.settings;
    let parts = u64::from(fixed) + u64::from(headroom);
    if parts >= u64::from(total) {
        let areas = [&buffer.total_cells, &buffer.headroom_cells, &buffer.fixed_cells].into_iter().flatten();
        let location =
            areas.map(|cells| &cells.location).next().or(largest_reservation(ports)).unwrap_or(file);
        let what =
            format!("{total} cells less {fixed} fixed and {headroom} headroom cells leave none to share");
        let raise = buffer.how_to_raise(buffer.total_cells.as_ref(), "total_cells", parts + 1);
        report.add(location, what, format!("{raise}, or lower the headroom, fixed or reserved cells"));
    } else {
        pool_sizes(buffer, report);
        pools(buffer, ports, file, report);
    }
    fixed_area_holds(
        buffer,
        reserved_cells(ports),
        "groups reserve",
        "the priorities' reserved cells",
        report,
    );
    let guaranteed = guaranteed_cells(ports);
    fixed_area_holds(
        buffer,
        guaranteed,
        "queues are guaranteed",
        "the egress profiles' reserved cells",
        report,
    );
    for port in ports {
        headroom_fits(port, buffer, report);
    }
}

/// Checks that a fixed area set by the file has the `cells` that are taken of it; an unset one
/// grows with them.
fn fixed_area_holds(buffer: &Buffer, cells: u64, who: &str, lower: &str, report: &mut Diagnostics) {
    if let Some(fixed) = &buffer.fixed_cells
        && cells > u64::from(fixed.value)
    {
        let what = format!("the {who} {cells} cells, more than the {} fixed ones", fixed.value);
        let raise = buffer.how_to_raise(Some(fixed), "fixed_cells", cells);
        report.add(&fixed.location, what, format!("{raise}, or lower {lower}"));
    }
}

/// Checks that pools with sizes of their own fit: at ingress into the shared area, at egress into
/// the whole buffer. Also checks that a pause threshold can be reached.
fn pool_sizes(buffer: &Buffer, report: &mut Diagnostics) {
    let settings = &buffer.settings;
    for (pools, sizes, most, of) in [
        (&buffer.ingress_pools, settings.ingress_pools(), settings.shared_cells(), "shared ones"),
        (&buffer.egress_pools, settings.egress_pools(), settings.total_cells, "of the buffer"),
    ] {
        let cells: u64 = sizes.into_iter().map(u64::from).sum();
        if cells > u64::from(most)
            && let Some(location) = last_share(pools)
        {
            let what = format!("the pools have {cells} cells together, more than the {most} {of}");
            report.add(
                location,
                what,
                "lower their sizes, or the fixed and headroom areas, or raise the total",
            );
        }
    }
    for (pool, cells) in buffer.ingress_pools.iter().zip(settings.ingress_pools()) {
        if let Some(pause) = &pool.pause_cells
            && pause.value > cells
        {
            let what = format!("{} cells are never in use: the pool has {cells}", pause.value);
            report.add(&pause.location, what, format!("write at most {cells} cells"));
        }
    }
}

/// Checks that a pool with mapped priorities or queues has cells.
fn pools(buffer: &Buffer, ports: &[Port], file: &SettingSpan, report: &mut Diagnostics) {
    let settings = &buffer.settings;
    let ingress = Pools {
        direction: "ingress",
        member: "priority",
        percent: settings.ingress_pool_percent,
        cells: settings.ingress_pools(),
        shares: &buffer.ingress_pools,
    };
    let egress = Pools {
        direction: "egress",
        member: "queue",
        percent: settings.egress_pool_percent,
        cells: settings.egress_pools(),
        shares: &buffer.egress_pools,
    };
    for port in ports {
        for priority in 0..PRIORITIES {
            let pool = port.tables().group(priority).setting(|table| &table.pool);
            ingress.must_have_cells(pool, settings, file, report);
        }
        for q in 0..PRIORITIES {
            let pool = port.tables().queue(q).setting(|table| &table.pool);
            egress.must_have_cells(pool, settings, file, report);
        }
    }
}

/// The service pools of one direction.
struct Pools<'b> {
    direction: &'static str,
    /// The noun for its members.
    member: &'static str,
    percent: [u8; POOLS],
    cells: [u32; POOLS],
    shares: &'b PoolTables,
}

impl Pools<'_> {
    /// Checks that the pool of a priority or a queue has cells; without a mapping that is pool 0.
    fn must_have_cells(
        &self,
        mapping: Option<&Setting<u8>>,
        settings: &BufferSettings,
        file: &SettingSpan,
        report: &mut Diagnostics,
    ) {
        let pool = mapping.map_or(0, |pool| usize::from(pool.value));
        if self.cells[pool] > 0 {
            return;
        }
        let share = match self.shares[pool].size_cells {
            Some(_) => "its size is 0".to_owned(),
            None if pool == 0 && self.percent[0] > 0 && settings.shared_cells() > 0 => {
                format!("the others leave none of {} shared cells", settings.shared_cells())
            }
            None => format!("{} % of {} shared cells", self.percent[pool], settings.shared_cells()),
        };
        match mapping {
            Some(mapping) => {
                let setting = format!("buffer.{}.pool.{pool}.shared_percent", self.direction);
                let cure = format!("raise {setting}, or take another pool");
                report.add(&mapping.location, format!("pool {pool} has no cells ({share})"), cure);
            }
            None => {
                let location = self.shares[pool].location().or(last_share(self.shares)).unwrap_or(file);
                let who = self.member;
                let what = format!("pool 0 has no cells ({share}), and a {who} without a pool is in it");
                report.add(location, what, format!("leave it a share, or map each {who} to another pool"));
            }
        }
    }
}

/// Checks that no single group may take more headroom than there is. Together they may: not all
/// fill it at once.
fn headroom_fits(port: &Port, buffer: &Buffer, report: &mut Diagnostics) {
    let pool = buffer.settings.headroom_cells;
    for (priority, group) in port.settings.groups.iter().enumerate() {
        if group.headroom_cells <= pool {
            continue;
        }
        let cells = group.headroom_cells;
        let of_group = port.tables().group(priority).setting(|table| &table.headroom_cells);
        let of_pool = buffer.headroom_cells.as_ref();
        let location = of_group.or(of_pool).map_or(&port.location, |cells| &cells.location);
        let what = format!(
            "a group of priority {priority} may take {cells} headroom cells, the whole pool has {pool}"
        );
        let raise = buffer.how_to_raise(of_pool, "headroom_cells", u64::from(cells));
        report.add(location, what, format!("{raise}, or lower the group's"));
    }
}
