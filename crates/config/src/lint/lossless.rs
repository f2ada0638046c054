//! Warnings about valid settings that cannot guarantee a no-drop priority, with numbers and a cure.
//! They never refuse a file.
//!
//! A setting of `[port-defaults]` or of a profile is reported once, whatever number of ports it is
//! wrong for. Headroom that is needed: [`switch::buffer::headroom`].
//!
//! The list of rules: docs/behavior.md, "What cannot be lossless". Source: docs/references.md, "H3C
//! reference" (Setting PFC thresholds; Configuring PFC).

use dcbx::settings::PfcMode;
use switch::SwitchSettings;
use switch::buffer::cell::CellSize;
use switch::buffer::headroom;
use switch::egress::queue_limits::EgressLimits;
use switch::pfc::rx::quanta_ns;
use switch::settings::{DropLevel, POOLS, PRIORITIES, Threshold, Trust};
use wire::bitset::Set8;

use crate::lint::headroom_duration::spell_time;
use crate::lint::worst_case_fill;
use crate::read::diagnostics::{Diagnostics, SettingSpan};
use crate::read::parse::spell_speed;
use crate::tables::buffer::{Buffer, PoolTables};
use crate::tables::congestion::QueueWred;
use crate::tables::port::watchdog::{MOST_DETECTION_MS, MOST_INTERVALS, MS};
use crate::tables::ports::Port;

/// Longest frame without FCS on a link without an `mtu`.
pub const DEFAULT_MTU_BYTES: u32 = 1518;
/// Maximum number of ports that are listed by name; further ones are counted.
const MAX_NAMES: usize = 4;
/// Priorities of best effort and of network control: docs/references.md, "H3C reference"
/// (Configuring PFC).
const USED_BY_PROTOCOLS: u8 = 1 << 0 | 1 << 6 | 1 << 7;

/// Warns of settings that are valid but not sufficient. `ports` and `settings` describe the same
/// ports.
pub(crate) fn lint(buffer: &Buffer, ports: &[Port], settings: &SwitchSettings, report: &mut Diagnostics) {
    let mut advice = Lints::default();
    advice.egress_limits(ports, settings);
    advice.egress_pools(buffer, ports, settings);
    advice.ecn_before_pfc(ports, settings);
    advice.headroom_pool(buffer, ports);
    for port in ports {
        advice.thresholds(port, CellSize::new(buffer.settings.cell_bytes));
        advice.trust(port);
        advice.both_directions(port);
        advice.unadvertised(port);
        advice.priorities(port);
        advice.detection(port);
    }
    for priority in 0..PRIORITIES {
        advice.maps(ports, priority);
        advice.same_no_drop(ports, priority);
    }
    let shared_cells = buffer.settings.shared_cells();
    for (shares, percent, sizes) in [
        (&buffer.ingress_pools, buffer.settings.ingress_pool_percent, buffer.settings.ingress_pools()),
        (&buffer.egress_pools, buffer.settings.egress_pool_percent, buffer.settings.egress_pools()),
    ] {
        let pooled_cells = sizes.iter().fold(0, |sum: u32, &cells| sum.saturating_add(cells));
        pools(shares, percent, shared_cells.saturating_sub(pooled_cells), report);
    }
    advice.report_all(report);
}

/// A warning and the ports and priorities that it concerns.
struct Warning {
    location: SettingSpan,
    what: String,
    cure: String,
    ports: Vec<String>,
    /// Bit i: priority i.
    priorities: u8,
}

/// The warnings so far, merged by cause.
#[derive(Default)]
struct Lints(Vec<Warning>);

impl Lints {
    /// Warns of `what` at `location`, for these priorities of this port.
    fn warn(&mut self, location: &SettingSpan, what: String, cure: String, port: &Port, priorities: u8) {
        let name = &port.settings.name;
        let same = self.0.iter_mut().find(|warning| {
            warning.location.span == location.span && warning.what == what && warning.cure == cure
        });
        match same {
            Some(warning) => {
                warning.priorities |= priorities;
                if !warning.ports.contains(name) {
                    warning.ports.push(name.clone());
                }
            }
            None => {
                let (location, ports) = (location.clone(), vec![name.clone()]);
                self.0.push(Warning { location, what, cure, ports, priorities });
            }
        }
    }

    fn report_all(self, report: &mut Diagnostics) {
        for warning in self.0 {
            let ports = names(&warning.ports);
            let whose = match warning.priorities {
                0 => ports,
                bits => format!("{} of {ports}", priorities(bits)),
            };
            report.add(&warning.location, format!("{} ({whose})", warning.what), warning.cure);
        }
    }

    /// Warns of queues whose limit is below the worst-case fill: for each limit of the file the
    /// worst queue.
    fn egress_limits(&mut self, ports: &[Port], settings: &SwitchSettings) {
        for it in worst_case_fill::excesses(ports, settings) {
            let (what, cure) = (it.what(), it.cure());
            it.ports.iter().for_each(|port| self.warn(it.location, what.clone(), cure.clone(), port, 0));
        }
    }

    /// Warns of pools that have fewer cells than ingress may admit of the no-drop queues in them.
    fn egress_pools(&mut self, buffer: &Buffer, ports: &[Port], settings: &SwitchSettings) {
        for it in worst_case_fill::pool_excesses(buffer, ports, settings) {
            let (what, cure) = (it.what(), it.cure(buffer));
            it.ports.iter().for_each(|port| self.warn(it.location, what.clone(), cure.clone(), port, 0));
        }
    }

    /// Warns of queues that mark all frames only when a group that uses them has been paused
    /// already.
    fn ecn_before_pfc(&mut self, ports: &[Port], settings: &SwitchSettings) {
        let limits: Vec<EgressLimits> = EgressLimits::from_settings(settings).collect();
        let pools = settings.buffer.ingress_pools();
        for (number, port) in ports.iter().enumerate() {
            for queue in 0..PRIORITIES {
                let Some(QueueWred { settings: wred, location, .. }) =
                    port.tables().congestion().of_queue(queue)
                else {
                    continue;
                };
                let high_cells = wred.curves[DropLevel::Green as usize].high_cells;
                let others = ports.iter().enumerate().filter(|(other, _)| *other != number);
                let groups = others.flat_map(|(other, port)| {
                    let fifos = limits[other].fifos_of_priorities;
                    let uses = move |p: &usize| fifos[*p].queues().contains(queue);
                    no_drop(port).filter(uses).map(|p| &port.settings.groups[p])
                });
                let xoff_cells = groups.map(|group| match group.xoff {
                    Threshold::Static(cells) => cells,
                    // The most that a group can reach alone.
                    Threshold::Dynamic(alpha) => alpha.steady_state_cells(pools[usize::from(group.pool)], 1),
                });
                match xoff_cells.min() {
                    Some(xoff_cells) if wred.ecn && high_cells >= xoff_cells => {
                        let what = format!(
                            "queue {queue} marks every green frame only above {high_cells} cells, and PFC pauses at \
                             {xoff_cells}: PFC acts before ECN"
                        );
                        let most = xoff_cells.saturating_sub(1);
                        let cure = format!("lower the high limit to {most} or less, or raise XOFF above it");
                        self.warn(location, what, cure, port, 0);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Warns if the headroom pool is too small for all groups to use their headroom at once: those
    /// of no-drop priorities, and all of a port that sends 802.3x PAUSE.
    fn headroom_pool(&mut self, buffer: &Buffer, ports: &[Port]) {
        let pool_cells = u64::from(buffer.settings.headroom_cells);
        let of_port = |port: &Port| port.settings.protected().into_iter();
        let groups =
            || ports.iter().flat_map(move |port| of_port(port).map(move |priority| (port, priority)));
        let cells: u64 = groups().map(|(port, p)| u64::from(port.settings.groups[p].headroom_cells)).sum();
        if cells <= pool_cells {
            return;
        }
        // The setting to report: the pool's size, else the largest headroom, else the one without
        // which there would be none.
        let settings =
            groups().filter_map(|(port, p)| port.tables().group(p).setting(|table| &table.headroom_cells));
        let largest = settings.max_by_key(|cells| cells.value);
        let cause = groups().find_map(|(port, _)| {
            let list = port.tables().pfc().setting(|table| &table.no_drop).map(|list| &list.location);
            list.or(port.tables().setting(|table| &table.flow_control).map(|mode| &mode.location))
        });
        let location = buffer.headroom_cells.as_ref().or(largest).map(|cells| &cells.location);
        let Some(location) = location.or(cause) else { return };
        let what = format!(
            "the groups that pause may take {cells} headroom cells together, the pool has {pool_cells}: they cannot \
             all use theirs at once"
        );
        let raise = buffer.how_to_raise(buffer.headroom_cells.as_ref(), "headroom_cells", cells);
        let cure = format!("{raise}, or lower the groups'");
        groups().for_each(|(port, p)| self.warn(location, what.clone(), cure.clone(), port, 1 << p));
    }

    /// Checks reserved cells, XON offset and headroom of each no-drop priority against the port's
    /// frames and cable.
    fn thresholds(&mut self, port: &Port, cell: CellSize) {
        for priority in no_drop(port) {
            self.reserved(port, priority, cell);
            self.xon_offset(port, priority, cell);
            self.headroom(port, priority, cell);
        }
    }

    fn reserved(&mut self, port: &Port, priority: usize, cell: CellSize) {
        let Some(mtu) = port.tables().setting(|table| &table.mtu_bytes) else { return };
        let reserved = port.settings.groups[priority].reserved_cells;
        let (exact, needed) = headroom::reserved_cells(u64::from(mtu.value), cell);
        if u64::from(reserved) >= needed {
            return;
        }
        let setting = port.tables().group(priority).setting(|table| &table.reserved_cells);
        let location = setting.map_or(&mtu.location, |cells| &cells.location);
        let (mtu, cell) = (mtu.value, u64::from(cell.bytes()));
        let what = format!(
            "{reserved} reserved cells do not hold the longest frame: ({mtu} + 64 + {cell}) / {cell} = {exact:.2}"
        );
        let cure = format!("reserve at least {needed} cells ({} bytes)", needed * cell);
        self.warn(location, what, cure, port, 1 << priority);
    }

    /// Warns of an XON after less than a frame has left: the next frame causes XOFF again.
    fn xon_offset(&mut self, port: &Port, priority: usize, cell: CellSize) {
        let Some(mtu) = port.tables().setting(|table| &table.mtu_bytes) else { return };
        let offset = port.settings.groups[priority].xon_offset_cells;
        let cell_bytes = u64::from(cell.bytes());
        if u64::from(offset) * cell_bytes > u64::from(mtu.value) {
            return;
        }
        let setting = port.tables().group(priority).setting(|table| &table.xon_offset_cells);
        let location = setting.map_or(&mtu.location, |cells| &cells.location);
        let what = format!(
            "an XON offset of {offset} cells is not more than the longest frame, {} bytes: one frame that leaves brings \
             XON, and the next XOFF again",
            mtu.value
        );
        let slightly_more = headroom::xon_offset_cells(u64::from(mtu.value), cell);
        let cure = format!(
            "an offset slightly more is {slightly_more} cells ({} bytes)",
            slightly_more * cell_bytes
        );
        self.warn(location, what, cure, port, 1 << priority);
    }

    fn headroom(&mut self, port: &Port, priority: usize, cell: CellSize) {
        if port.own.vhost.path.is_some() {
            return self.headroom_of_guest(port, priority, cell);
        }
        let Some(speed_bps) = port.settings.speed_bps else { return };
        let Some(cable) = port.tables().setting(|table| &table.cable_m) else { return };
        let mtu = port.tables().value(|table| &table.mtu_bytes, DEFAULT_MTU_BYTES);
        let link =
            headroom::LinkParams { speed_bps, cable_m: u64::from(cable.value), mtu_bytes: u64::from(mtu) };
        let cells = port.settings.groups[priority].headroom_cells;
        let Some((what, cure)) = headroom_shortage(link, cell, cells) else { return };
        let setting = port.tables().group(priority).setting(|table| &table.headroom_cells);
        let location = setting.map_or(&cable.location, |cells| &cells.location);
        self.warn(location, what, cure, port, 1 << priority);
    }

    /// Checks headroom against what may arrive from a guest, which has no cable.
    fn headroom_of_guest(&mut self, port: &Port, priority: usize, cell: CellSize) {
        let (cells, needed) =
            (port.settings.groups[priority].headroom_cells, headroom::least_guest_cells(cell));
        let setting = port.tables().group(priority).setting(|table| &table.headroom_cells);
        let Some(setting) = setting.filter(|_| cells < needed) else { return };
        let what = format!(
            "{cells} headroom cells are too few: after XOFF {needed} cells may arrive, which one iteration reads of \
             the guest's queue"
        );
        let cure = format!("give at least {needed} cells, or leave it out");
        self.warn(&setting.location, what, cure, port, 1 << priority);
    }

    /// Warns of a port without a trusted field: every frame has the port's priority, and a pause of
    /// any other priority has no effect.
    fn trust(&mut self, port: &Port) {
        let trust = port.tables().classify().setting(|table| &table.trust);
        let Some(trust) = trust.filter(|trust| trust.value == Trust::None) else { return };
        let no_drop = port.settings.pfc.no_drop;
        if no_drop == 0 {
            return;
        }
        let what = format!(
            "PFC needs a trusted field: here all frames have the port priority, {}, whatever they carry",
            port.settings.classify.port_priority
        );
        let cure = "write trust = \"dot1p\" or \"dscp\", or pfc.mode = \"off\"".to_owned();
        self.warn(&trust.location, what, cure, port, no_drop);
    }

    /// PFC protects a priority only if it is sent and honored.
    fn both_directions(&mut self, port: &Port) {
        let (pfc, settings) = (port.tables().pfc(), port.settings.pfc);
        let sends = pfc.setting(|table| &table.tx).filter(|_| settings.no_drop != 0 && !settings.tx);
        if let Some(tx) = sends {
            let what = "no PFC is sent, so no-drop frames received here are dropped once buffers are full";
            let cure = "write tx = true, or leave the priorities out of no_drop".to_owned();
            self.warn(&tx.location, what.to_owned(), cure, port, settings.no_drop);
        }
        let honors = pfc.setting(|table| &table.rx).filter(|_| settings.no_drop != 0 && !settings.rx);
        if let Some(rx) = honors {
            let what = "received PFC is not honored, so the peer drops what it has paused";
            let cure = "write rx = true, or leave the priorities out of no_drop".to_owned();
            self.warn(&rx.location, what.to_owned(), cure, port, settings.no_drop);
        }
    }

    /// What a policy has for DCBX is advertised only where the port negotiates, and its priorities
    /// only in the groups of ETS: its own, or those that it takes over.
    fn unadvertised(&mut self, port: &Port) {
        let Some(policy) = port.tables().classify().policy() else { return };
        let has_priorities = policy.value.dcbx_dot1p != 0;
        let (what, cure) = match &port.dcbx {
            None if has_priorities || !policy.value.applications.is_empty() => (
                "rules of the policy are marked for DCBX, and the port does not negotiate",
                "write dcbx = {} there or in [port-defaults], or take another policy",
            ),
            Some(dcbx) if has_priorities && dcbx.settings.ets.is_none() => (
                "rules of the policy mark priorities for DCBX, which advertises them in groups of ETS, and the port has none",
                "write schedule.mode = \"ets\" there or in [port-defaults], or take another policy",
            ),
            _ => return,
        };
        self.warn(&policy.location, what.to_owned(), cure.to_owned(), port, 0);
    }

    /// Warns of a watchdog that takes one pause for a storm: a peer that is stopped for a moment,
    /// or whose XON is lost, has paused for that long.
    fn detection(&mut self, port: &Port) {
        let known_bps = port.settings.pfc.pause_speed_bps.or(port.settings.speed_bps);
        let Some(speed_bps) = known_bps.filter(|_| port.settings.pfc.rx) else { return };
        let pause_ns = quanta_ns(u16::MAX, speed_bps);
        for priority in no_drop(port) {
            let Some(settings) = port.settings.watchdog[priority] else { continue };
            let Some(table) = port.tables().watchdog().priority(priority) else { continue };
            if settings.detection_ns >= pause_ns {
                continue;
            }
            let what = format!(
                "the watchdog detects a storm after {}, and one PFC frame pauses for up to {} at {}",
                spell_time(settings.detection_ns),
                spell_time(pause_ns),
                spell_speed(speed_bps)
            );
            let cure = longer_detection(pause_ns, table.has_interval());
            self.warn(&table.location, what, cure, port, 1 << priority);
        }
    }

    fn priorities(&mut self, port: &Port) {
        let used = port.settings.pfc.no_drop & USED_BY_PROTOCOLS;
        let list = port.tables().pfc().setting(|table| &table.no_drop);
        let Some(list) = list.filter(|_| used != 0) else { return };
        let what = "PFC is not recommended for priorities 0, 6 and 7: a pause would also delay the network's \
                    control protocols";
        self.warn(&list.location, what.to_owned(), "take priorities from 1 to 5".to_owned(), port, used);
    }

    /// A frame may be received on any port and leave by any other, so a priority that is no-drop on
    /// one port must be so on all, unless a port explicitly disables PFC.
    fn same_no_drop(&mut self, ports: &[Port], priority: usize) {
        let protects = |port: &&Port| port.settings.pfc.no_drop & 1 << priority != 0;
        let Some(first) = ports.iter().find(protects) else { return };
        let turns_pfc_off =
            |port: &&Port| port.own.pfc.mode.as_ref().is_some_and(|mode| mode.value == PfcMode::Off);
        for port in ports.iter().filter(|port| !protects(port) && !turns_pfc_off(port)) {
            let pfc = port.tables().pfc();
            let list = pfc.setting(|table| &table.no_drop).map(|list| &list.location);
            let mode = pfc.setting(|table| &table.mode).map(|mode| &mode.location);
            // With PFC off, the list has no effect.
            let location = if pfc.is_on() { list.or(mode) } else { mode.or(list) };
            let what = format!(
                "not no-drop here, but on port {}: frames received here may be dropped, and pauses received here are \
                 not honored",
                first.settings.name
            );
            let cure = "write the same pfc on all ports that such frames pass, best in [port-defaults.pfc]; set mode = \
                        \"off\" on a port that none pass";
            self.warn(location.unwrap_or(&port.location), what, cure.to_owned(), port, 1 << priority);
        }
    }

    /// Checks that the ports that must not lose `priority` have the same maps.
    fn maps(&mut self, ports: &[Port], priority: usize) {
        let protects = |port: &&Port| port.settings.pfc.no_drop & 1 << priority != 0;
        let protecting: Vec<&Port> = ports.iter().filter(protects).collect();
        let to_queue = protecting.iter().map(|&port| Map {
            port,
            values: &port.settings.classify.dot1p_to_queue,
            location: port
                .tables()
                .classify()
                .setting(|table| &table.dot1p_to_queue)
                .map(|map| &map.location),
        });
        self.same("dot1p_to_queue", &to_queue.collect::<Vec<_>>(), priority);
        let trusting = protecting.iter().filter(|port| port.settings.classify.trust == Trust::Dscp);
        let to_dot1p = trusting.map(|&port| Map {
            port,
            values: &port.settings.classify.dscp_to_dot1p,
            location: port.tables().classify().setting(|table| &table.dscp_to_dot1p).map(|map| &map.location),
        });
        self.same("dscp_to_dot1p", &to_dot1p.collect::<Vec<_>>(), priority);
    }

    /// Warns of maps that differ from the most common one; of two, from the default one.
    fn same(&mut self, name: &str, maps: &[Map], priority: usize) {
        let alike = |map: &Map| maps.iter().filter(|other| other.values == map.values).count();
        // `max_by_key` returns the last of equal elements.
        let Some(usual) = maps.iter().rev().max_by_key(|map| (alike(map), map.location.is_none())) else {
            return;
        };
        for map in maps {
            let mut pairs = map.values.iter().zip(usual.values).enumerate();
            let Some((from, (here, there))) = pairs.find(|(_, (here, there))| here != there) else {
                continue;
            };
            let what = format!(
                "{name} must be the same along the path: it maps {from} to {here}, and to {there} on port {}",
                usual.port.settings.name
            );
            let cure = format!("write the same {name} on all ports with this no-drop priority");
            self.warn(map.location.unwrap_or(&map.port.location), what, cure, map.port, 1 << priority);
        }
    }
}

/// Explains why `cells` of headroom are too few for a link, and what to do; `None` if they hold
/// what may still arrive after XOFF. Software delay is not included.
pub fn headroom_shortage(link: headroom::LinkParams, cell: CellSize, cells: u32) -> Option<(String, String)> {
    let bytes = link.in_transit().total_bytes();
    let needed = headroom::worst_case_cells(bytes, cell);
    if u64::from(cells) >= needed {
        return None;
    }
    let headroom::LinkParams { speed_bps, cable_m, mtu_bytes } = link;
    let (speed, cell) = (spell_speed(speed_bps), u64::from(cell.bytes()));
    let what = format!(
        "{cells} headroom cells are too few: after XOFF {bytes} bytes may arrive at {speed} over {cable_m} m, which take \
         {needed} cells as frames of 64 bytes"
    );
    let cure = format!(
        "give at least {needed} cells ({} bytes), as `sluice headroom --speed {speed} --cable {cable_m}m --mtu \
         {mtu_bytes} --cell {cell}` explains",
        needed * cell
    );
    Some((what, cure))
}

/// Warns of cells that belong to no pool. If its share were left out, pool 0 would have them.
fn pools(shares: &PoolTables, percent: [u8; POOLS], unused_cells: u32, report: &mut Diagnostics) {
    if let Some(size) = &shares[0].size_cells {
        if unused_cells > 0 {
            let what = format!("{unused_cells} cells of the shared area are in no pool");
            report.add(
                &size.location,
                what,
                "raise the pools' sizes, or leave that of pool 0 out: then it has the rest",
            );
        }
        return;
    }
    let sum: u32 = percent.iter().map(|&percent| u32::from(percent)).sum();
    let Some(pool_0) = shares[0].share.as_ref().filter(|_| sum < 100 && unused_cells > 0) else { return };
    let percents = shares.iter().filter_map(|pool| pool.share.as_ref());
    let terms: Vec<String> = percents.map(|percent| percent.value.to_string()).collect();
    let sum = if terms.len() == 1 { terms.concat() } else { format!("{} = {sum}", terms.join(" + ")) };
    let what = format!("the pools have {sum} % of the shared area: {unused_cells} cells are in none");
    let cure = "raise them to 100 % together, or leave pool 0 out: then it has the rest";
    report.add(&pool_0.location, what, cure);
}

/// A map of a port.
struct Map<'p> {
    port: &'p Port<'p>,
    values: &'p [u8],
    /// Where the map is in the file.
    location: Option<&'p SettingSpan>,
}

/// Returns the no-drop priorities of a port.
fn no_drop(port: &Port) -> impl Iterator<Item = usize> + use<> {
    Set8::from_bits(port.settings.pfc.no_drop).into_iter()
}

/// Formats "priority 3", "priorities 3, 4".
fn priorities(bits: u8) -> String {
    let list: Vec<String> = Set8::from_bits(bits).into_iter().map(|priority| priority.to_string()).collect();
    let noun = if list.len() == 1 { "priority" } else { "priorities" };
    format!("{noun} {}", list.join(", "))
}

/// Formats "port a", "ports a, b", "12 ports".
fn names(ports: &[String]) -> String {
    match ports {
        [port] => format!("port {port}"),
        _ if ports.len() > MAX_NAMES => format!("{} ports", ports.len()),
        _ => format!("ports {}", ports.join(", ")),
    }
}

/// Returns how to write a detection time of `pause_ns` or more, in the style that the table has.
fn longer_detection(pause_ns: u64, has_interval: bool) -> String {
    let (intervals, ms) = (pause_ns.div_ceil(100 * MS), pause_ns.div_ceil(MS));
    if has_interval && intervals <= MOST_INTERVALS {
        return format!("write interval = {intervals} or more, with precision = \"normal\" (100 ms)");
    }
    if ms <= MOST_DETECTION_MS {
        return format!("write detection_ms = {ms} or more");
    }
    "no detection time is long enough at this speed: watch no priority here".to_owned()
}
