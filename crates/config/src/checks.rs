//! What no setting can be judged by alone: the buffer's sums, and settings that need one another.

use std::collections::HashMap;

use switch::PortSettings;
use switch::settings::{BufferSettings, Guaranteed, POOLS, PRIORITIES, Trust};

use crate::buffer::{Buffer, WrittenPools, last_written};
use crate::mistakes::{Found, Place};
use crate::ports::Written;
use crate::schedule;
use crate::section::{Placed, value_or};

/// A port of the file.
pub(crate) struct Port {
    /// Where its table begins.
    pub(crate) place: Place,
    /// What its own table says.
    pub(crate) own: Written,
    /// … laid over the defaults.
    pub(crate) effective: Written,
    /// What comes of it.
    pub(crate) settings: PortSettings,
}

/// Each port has an interface of its own.
pub(crate) fn interfaces(ports: &[Port], found: &mut Found) {
    let mut owners: HashMap<&str, &Place> = HashMap::new();
    for port in ports {
        let Some(interface) = &port.own.interface else { continue };
        match owners.get(interface.value.as_str()) {
            Some(owner) => {
                let what = format!("{} has the interface \"{}\" already", owner.setting, interface.value);
                found.add(&interface.place, what, "give each port an interface of its own");
            }
            None => {
                owners.insert(&interface.value, &port.place);
            }
        }
    }
}

/// Settings that can have no effect, since a setting that they need is missing. Defaults must have an effect on one port
/// at least; a single port may well go without.
pub(crate) fn dependences(defaults: &Written, ports: &[Port], found: &mut Found) {
    for port in ports {
        dependences_of(&port.own, &[&port.effective], found);
        port.effective.groups.iter().for_each(|group| group.resume_below_xoff(found));
    }
    if !ports.is_empty() {
        let effective: Vec<&Written> = ports.iter().map(|port| &port.effective).collect();
        dependences_of(defaults, &effective, found);
    }
}

/// `written` has an effect on one of `effective`.
fn dependences_of(written: &Written, effective: &[&Written], found: &mut Found) {
    needs_pfc(written, effective, found);
    needs_trust(written, effective, found);
    schedule::dependences(written, effective, found);
    for priority in 0..PRIORITIES {
        needs_no_drop(written, effective, priority, found);
    }
}

fn needs_pfc(written: &Written, effective: &[&Written], found: &mut Found) {
    let pfc = &written.pfc;
    for direction in [&pfc.rx, &pfc.tx].into_iter().flatten() {
        if direction.value && !effective.iter().any(|port| port.pfc.is_on()) {
            found.add(
                &direction.place,
                "true while PFC is off",
                "write pfc.mode = \"on\", or leave this out",
            );
        }
    }
    if let Some(no_drop) = &pfc.no_drop
        && no_drop.value != 0
        && effective.iter().all(|port| port.pfc.on.is_none())
    {
        let cure = "write pfc.mode = \"on\" to protect these priorities, or \"off\" to let them drop";
        found.add(&no_drop.place, "of no effect without pfc.mode", cure);
    }
}

/// A map of a field that is not trusted maps nothing.
fn needs_trust(written: &Written, effective: &[&Written], found: &mut Found) {
    let trusted = |trust: Trust| effective.iter().any(|port| port.classify.trust() == trust);
    let classify = &written.classify;
    if !trusted(Trust::Dscp) {
        for map in [&classify.dscp_to_dot1p, &classify.dscp_to_queue, &classify.dscp_to_drop_level] {
            let Some(map) = map else { continue };
            let cure = "write trust = \"dscp\", or leave this out";
            found.add(&map.place, "of no effect while DSCP is not trusted", cure);
        }
    }
    if let Some(map) = &classify.dot1p_to_drop_level
        && !trusted(Trust::Dot1p)
    {
        let cure = "write trust = \"dot1p\", or leave this out";
        found.add(&map.place, "of no effect while dot1p is not trusted", cure);
    }
}

/// Headroom and XON exist for no-drop priorities only; a reservation and a threshold any group can have. What counts is
/// the list, not the mode: PFC can be switched off for a while without touching its settings. A profile may be bound to
/// lossy priorities too: it says more than they need.
fn needs_no_drop(written: &Written, effective: &[&Written], priority: usize, found: &mut Found) {
    let lists =
        |port: &&Written| port.pfc.no_drop.as_ref().is_some_and(|no_drop| no_drop.value & 1 << priority != 0);
    if effective.iter().any(lists) {
        return;
    }
    let group = &written.groups[priority];
    if group.profile.is_some() {
        return;
    }
    for setting in [&group.headroom_cells, &group.xon_offset_cells, &group.resume_cells].into_iter().flatten()
    {
        let cure = format!("add {priority} to pfc.no_drop, or leave this out");
        found.add(&setting.place, format!("priority {priority} is not no-drop"), cure);
    }
}

/// Cells that the fixed area must have: the groups' reserved cells and the queues' guaranteed cells are two views of it.
pub(crate) fn fixed_cells_needed(ports: &[Port]) -> u64 {
    reserved_cells(ports).max(guaranteed_cells(ports))
}

/// Cells that all groups reserve.
fn reserved_cells(ports: &[Port]) -> u64 {
    ports.iter().flat_map(|port| &port.settings.groups).map(|group| u64::from(group.reserved_cells)).sum()
}

/// Cells that all queues are guaranteed by number; shares of the fixed area always fit into it.
fn guaranteed_cells(ports: &[Port]) -> u64 {
    let queues = ports.iter().flat_map(|port| &port.settings.queues);
    let cells = queues.map(|queue| match queue.guaranteed {
        Guaranteed::Cells(cells) => u64::from(cells),
        Guaranteed::Percent(_) => 0,
    });
    cells.sum()
}

/// The setting that takes most of the fixed area.
fn largest_reservation(ports: &[Port]) -> Option<&Place> {
    let groups = ports.iter().flat_map(|port| &port.effective.groups);
    let reserved = groups.filter_map(|group| group.reserved_cells.as_ref().map(|it| (it.value, &it.place)));
    let queues = ports.iter().flat_map(|port| &port.effective.queues);
    let guaranteed = queues.filter_map(|queue| match queue.guaranteed.as_ref()? {
        Placed { value: Guaranteed::Cells(cells), place } => Some((*cells, place)),
        Placed { value: Guaranteed::Percent(_), .. } => None,
    });
    reserved.chain(guaranteed).max_by_key(|(cells, _)| *cells).map(|(_, place)| place)
}

/// The parts of the buffer fit into it, and what the ports take of a part fits into that.
pub(crate) fn buffer(buffer: &Buffer, ports: &[Port], file: &Place, found: &mut Found) {
    let BufferSettings { total_cells: total, fixed_cells: fixed, headroom_cells: headroom, .. } =
        buffer.settings;
    let parts = u64::from(fixed) + u64::from(headroom);
    if parts >= u64::from(total) {
        let written =
            [&buffer.total_cells, &buffer.headroom_cells, &buffer.fixed_cells].into_iter().flatten();
        let place = written.map(|cells| &cells.place).next().or(largest_reservation(ports)).unwrap_or(file);
        let what =
            format!("{total} cells less {fixed} fixed and {headroom} headroom cells leave none to share");
        let raise = buffer.raise(buffer.total_cells.as_ref(), "total_cells", parts + 1);
        found.add(place, what, format!("{raise}, or lower the headroom, fixed or reserved cells"));
    } else {
        pools(buffer, ports, file, found);
    }
    fixed_area_holds(
        buffer,
        reserved_cells(ports),
        "groups reserve",
        "the priorities' reserved cells",
        found,
    );
    let guaranteed = guaranteed_cells(ports);
    fixed_area_holds(
        buffer,
        guaranteed,
        "queues are guaranteed",
        "the egress profiles' reserved cells",
        found,
    );
    for port in ports {
        headroom_fits(port, buffer, found);
    }
}

/// A fixed area that the file gives has the `cells` that are taken of it; one that it does not give grows with them.
fn fixed_area_holds(buffer: &Buffer, cells: u64, who: &str, lower: &str, found: &mut Found) {
    if let Some(fixed) = &buffer.fixed_cells
        && cells > u64::from(fixed.value)
    {
        let what = format!("the {who} {cells} cells, more than the {} fixed ones", fixed.value);
        let raise = buffer.raise(Some(fixed), "fixed_cells", cells);
        found.add(&fixed.place, what, format!("{raise}, or lower {lower}"));
    }
}

/// A pool that a priority or a queue is mapped to has cells.
fn pools(buffer: &Buffer, ports: &[Port], file: &Place, found: &mut Found) {
    let settings = &buffer.settings;
    let ingress = Pools {
        direction: "ingress",
        mapped: "priority",
        percent: settings.ingress_pool_percent,
        written: &buffer.ingress_pools,
    };
    let egress = Pools {
        direction: "egress",
        mapped: "queue",
        percent: settings.egress_pool_percent,
        written: &buffer.egress_pools,
    };
    for port in ports {
        for group in &port.effective.groups {
            ingress.must_have_cells(&group.pool, settings, file, found);
        }
        for queue in &port.effective.queues {
            egress.must_have_cells(&queue.pool, settings, file, found);
        }
    }
}

/// The service pools of one direction.
struct Pools<'b> {
    direction: &'static str,
    /// What is mapped to them.
    mapped: &'static str,
    percent: [u8; POOLS],
    written: &'b WrittenPools,
}

impl Pools<'_> {
    /// The pool that is `mapped` to has cells; without a mapping that is pool 0.
    fn must_have_cells(
        &self,
        mapped: &Option<Placed<u8>>,
        settings: &BufferSettings,
        file: &Place,
        found: &mut Found,
    ) {
        let pool = usize::from(value_or(mapped, 0));
        if settings.pool_cells(self.percent)[pool] > 0 {
            return;
        }
        let share = format!("{} % of {} shared cells", self.percent[pool], settings.shared_cells());
        match mapped {
            Some(mapped) => {
                let setting = format!("buffer.{}.pool.{pool}.shared_percent", self.direction);
                let cure = format!("raise {setting}, or take another pool");
                found.add(&mapped.place, format!("pool {pool} has no cells ({share})"), cure);
            }
            None => {
                let written = self.written[pool].as_ref().map(|percent| &percent.place);
                let place = written.or(last_written(self.written)).unwrap_or(file);
                let who = self.mapped;
                let what = format!("pool 0 has no cells ({share}), and a {who} without a pool is in it");
                found.add(place, what, format!("leave it a share, or map each {who} to another pool"));
            }
        }
    }
}

/// No group alone may take more headroom than there is. Together they may: not all fill it at once.
fn headroom_fits(port: &Port, buffer: &Buffer, found: &mut Found) {
    let pool = buffer.settings.headroom_cells;
    for (priority, group) in port.settings.groups.iter().enumerate() {
        if group.headroom_cells <= pool {
            continue;
        }
        let cells = group.headroom_cells;
        let own = port.effective.groups[priority].headroom_cells.as_ref();
        let written = buffer.headroom_cells.as_ref();
        let place = own.or(written).map_or(&port.place, |cells| &cells.place);
        let what = format!(
            "a group of priority {priority} may take {cells} headroom cells, the whole pool has {pool}"
        );
        let raise = buffer.raise(written, "headroom_cells", u64::from(cells));
        found.add(place, what, format!("{raise}, or lower the group's"));
    }
}
