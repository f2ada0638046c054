//! What no setting can be judged by alone: the buffer's sums, and settings that need one another.

use std::collections::HashMap;

use switch::PortSettings;
use switch::settings::{BufferSettings, PRIORITIES, Threshold};

use crate::mistakes::{Found, Place};
use crate::ports::Written;
use crate::section::Placed;

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

/// What the file says of the buffer, and what comes of it.
pub(crate) struct Buffer {
    pub(crate) total_cells: Option<Placed<u32>>,
    pub(crate) fixed_cells: Option<Placed<u32>>,
    pub(crate) headroom_cells: Option<Placed<u32>>,
    pub(crate) settings: BufferSettings,
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
        resume_below_xoff(&port.effective, found);
    }
    if !ports.is_empty() {
        let effective: Vec<&Written> = ports.iter().map(|port| &port.effective).collect();
        dependences_of(defaults, &effective, found);
    }
}

/// `written` has an effect on one of `effective`.
fn dependences_of(written: &Written, effective: &[&Written], found: &mut Found) {
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
    for priority in 0..PRIORITIES {
        needs_no_drop(written, effective, priority, found);
        let queue = &written.queues[priority];
        if let Some(weight) = &queue.weight
            && effective.iter().all(|port| is_strict(port, priority))
        {
            let cure = "write group = \"wrr\", or leave the weight out";
            found.add(&weight.place, "a queue of group \"sp\" has no weight", cure);
        }
    }
}

fn is_strict(port: &Written, queue: usize) -> bool {
    port.queues[queue].strict.as_ref().is_some_and(|strict| strict.value)
}

/// Headroom and XON exist for no-drop priorities only; a reservation and a threshold any group can have. What counts is
/// the list, not the mode: PFC can be switched off for a while without touching its settings.
fn needs_no_drop(written: &Written, effective: &[&Written], priority: usize, found: &mut Found) {
    let lists =
        |port: &&Written| port.pfc.no_drop.as_ref().is_some_and(|no_drop| no_drop.value & 1 << priority != 0);
    if effective.iter().any(lists) {
        return;
    }
    let group = &written.pfc.groups[priority];
    for setting in [&group.headroom_cells, &group.xon_offset_cells, &group.resume_cells].into_iter().flatten()
    {
        let cure = format!("add {priority} to pfc.no_drop, or leave this out");
        found.add(&setting.place, format!("priority {priority} is not no-drop"), cure);
    }
}

/// XON at or above XOFF would never let a pause hold.
fn resume_below_xoff(port: &Written, found: &mut Found) {
    for group in &port.pfc.groups {
        if let (Some(resume), Some(Placed { value: Threshold::Static(xoff), .. })) =
            (&group.resume_cells, &group.xoff)
            && resume.value >= *xoff
        {
            let what = format!("{} cells are not below the XOFF threshold of {xoff} cells", resume.value);
            found.add(&resume.place, what, format!("write at most {}", xoff - 1));
        }
    }
}

/// Cells that all groups reserve.
pub(crate) fn reserved_cells(ports: &[Port]) -> u64 {
    ports.iter().flat_map(|port| &port.settings.groups).map(|group| u64::from(group.reserved_cells)).sum()
}

fn largest_reservation(ports: &[Port]) -> Option<&Place> {
    let groups = ports.iter().flat_map(|port| &port.effective.pfc.groups);
    groups
        .filter_map(|group| group.reserved_cells.as_ref())
        .max_by_key(|cells| cells.value)
        .map(|cells| &cells.place)
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
        let cure = format!(
            "raise buffer.total_cells above {parts}, or lower headroom_cells, fixed_cells or reserved_cells"
        );
        found.add(place, what, cure);
    }
    let reserved = reserved_cells(ports);
    if let Some(fixed) = &buffer.fixed_cells
        && reserved > u64::from(fixed.value)
    {
        let what = format!("the groups reserve {reserved} cells, more than the {} fixed ones", fixed.value);
        let cure =
            format!("raise fixed_cells to at least {reserved}, or lower reserved_cells of the priorities");
        found.add(&fixed.place, what, cure);
    }
    for port in ports {
        headroom_fits(port, buffer, found);
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
        let own = port.effective.pfc.groups[priority].headroom_cells.as_ref();
        let place = own.or(buffer.headroom_cells.as_ref()).map_or(&port.place, |cells| &cells.place);
        let what = format!(
            "a group of priority {priority} may take {cells} headroom cells, the whole pool has {pool}"
        );
        found.add(
            place,
            what,
            format!("raise buffer.headroom_cells to at least {cells}, or lower the group's"),
        );
    }
}
