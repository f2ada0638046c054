//! Warnings of a valid scenario that cannot keep a no-drop priority lossless: a cable that is too
//! long for a switch's headroom. [`switch::buffer::headroom`] has the rule. A link is checked if
//! its length is configured.

use config::headroom_shortage;
use config::read::toml_document::{Diagnostics, SettingSpan};
use switch::buffer::cell::CellSize;
use switch::buffer::headroom;
use wire::bitset::Set8;

use super::links::Links;
use super::types::{Link, Node, NodeKind, Traffic};

/// The longest frame, in bytes without FCS, of a priority without traffic.
const DEFAULT_MTU_BYTES: u16 = 1518;

/// A cause, and the ports for which it holds.
struct Warning<'s> {
    location: &'s SettingSpan,
    priority: usize,
    what: String,
    cure: String,
    /// The first of these ports.
    port: String,
    ports: usize,
}

/// Warns of each cause once, regardless of the number of ports.
pub(super) fn headroom(links: &Links, nodes: &[Node], traffic: &[Traffic], report: &mut Diagnostics) {
    let mut warnings: Vec<Warning> = Vec::new();
    for (link, location) in links.list.iter().zip(&links.cables) {
        let Some(location) = location else { continue };
        for (port, priority, what, cure) in shortages(link, nodes, traffic) {
            // The links of an entry are consecutive.
            let mut of_entry = warnings.iter_mut().rev().take_while(|it| it.location.span == location.span);
            match of_entry.find(|it| (it.priority, &it.what, &it.cure) == (priority, &what, &cure)) {
                Some(warning) => warning.ports += 1,
                None => warnings.push(Warning { location, priority, what, cure, port, ports: 1 }),
            }
        }
    }
    for Warning { location, priority, what, cure, port, ports } in warnings {
        let whose = match ports {
            1 => port,
            _ => format!("{port} and {} more ports", ports - 1),
        };
        report.add(location, format!("{what} (priority {priority} of {whose})"), cure);
    }
}

/// Returns the no-drop priorities at either end whose headroom is too short: port, priority,
/// problem, remedy.
fn shortages(link: &Link, nodes: &[Node], traffic: &[Traffic]) -> Vec<(String, usize, String, String)> {
    let mut shortages = Vec::new();
    for end in link.ends {
        let node = &nodes[end.node];
        let NodeKind::Switch(device) = &node.kind else { continue };
        let cell = CellSize::new(device.settings.buffer.cell_bytes);
        let port = &device.settings.ports[end.port];
        for priority in Set8::from_bits(port.pfc.no_drop) {
            let of_priority = traffic.iter().filter(|traffic| usize::from(traffic.priority) == priority);
            let longest = of_priority.map(|traffic| traffic.frame_bytes).max().unwrap_or(DEFAULT_MTU_BYTES);
            let of_link = headroom::LinkParams {
                speed_bps: link.speed_bps,
                cable_m: u64::from(link.cable_m),
                mtu_bytes: u64::from(longest.min(link.mtu_bytes)),
            };
            let cells = port.groups[priority].headroom_cells;
            if let Some((what, cure)) = headroom_shortage(of_link, cell, cells) {
                shortages.push((format!("{}.{}", node.name, port.name), priority, what, cure));
            }
        }
    }
    shortages
}
