//! Warnings about priorities that were agreed on with a peer and that the file does not list as
//! no-drop, so that its checks have not counted them.
//!
//! Source: docs/dcbx.md, "In the switch"; docs/behavior.md, "Headroom needed".

use switch::PortSettings;
use switch::buffer::cell::CellSize;
use switch::buffer::headroom::LinkParams;
use wire::bitset::Set8;

use crate::config::Config;
use crate::lint::lossless::{DEFAULT_MTU_BYTES, headroom_shortage};
use crate::tables::ports::Link;

/// Returns what headroom does not cover of what was agreed on, with the numbers of the ports.
/// `agreed` are the ports of the file with their agreements, in its order.
pub fn agreement_warnings(file: &Config, agreed: &[PortSettings]) -> Vec<(usize, String)> {
    if !file.pfc_enabled {
        return Vec::new();
    }
    let cell = CellSize::new(file.switch.buffer.cell_bytes);
    let pool_cells = u64::from(file.switch.buffer.headroom_cells);
    let cells: u64 = agreed.iter().map(headroom_cells).sum();
    let mut warnings = Vec::new();
    for (number, (port, of_file)) in agreed.iter().zip(&file.switch.ports).enumerate() {
        let unlisted = port.pfc.no_drop & !of_file.pfc.no_drop;
        if unlisted == 0 {
            continue;
        }
        let mut whats = shortages(port, unlisted, &file.links[number], cell);
        if cells > pool_cells {
            whats.push(format!(
                "the no-drop groups may take {cells} headroom cells together, the pool has {pool_cells}"
            ));
        }
        let list = Set8::from_bits(unlisted)
            .into_iter()
            .map(|priority| priority.to_string())
            .collect::<Vec<_>>()
            .join(", ");
        let agreed =
            format!("priorities agreed on that pfc.no_drop of port {} does not list ({list})", port.name);
        let cure = "list them there, and `sluice check` and `sluice headroom --fix` count them";
        warnings.extend(whats.into_iter().map(|what| (number, format!("{agreed}: {what}; {cure}"))));
    }
    warnings
}

/// Returns what is wrong with the headroom of priorities, each cause once.
fn shortages(port: &PortSettings, unlisted: u8, link: &Link, cell: CellSize) -> Vec<String> {
    let (Some(speed_bps), Some(cable_m)) = (port.speed_bps, link.cable_m) else { return Vec::new() };
    let mtu_bytes = u64::from(link.mtu_bytes.unwrap_or(DEFAULT_MTU_BYTES));
    let link = LinkParams { speed_bps, cable_m: u64::from(cable_m), mtu_bytes };
    let mut whats: Vec<String> = Vec::new();
    for priority in Set8::from_bits(unlisted) {
        let shortage = headroom_shortage(link, cell, port.groups[priority].headroom_cells);
        whats.extend(shortage.map(|(what, _)| what).filter(|what| !whats.contains(what)));
    }
    whats
}

fn headroom_cells(port: &PortSettings) -> u64 {
    let no_drop = Set8::from_bits(port.pfc.no_drop);
    no_drop.into_iter().map(|priority| u64::from(port.groups[priority].headroom_cells)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::port::dcbx::Negotiated;

    /// The default headroom is 491 cells at 100G.
    const FILE: &str = "[buffer]\nheadroom_cells = 1000\n[port-defaults]\nspeed = \"100G\"\n\
        dcbx = { willing = true }\npfc = { mode = \"auto\", no_drop = [3] }\n\
        [port.a]\ninterface = \"a\"\ncable_m = 1000\n[port.b]\ninterface = \"b\"\ncable_m = 1\npfc.no_drop = [4]\n";

    fn warnings(text: &str, no_drop: [u8; 2]) -> Vec<(usize, String)> {
        let config = crate::config::parse("x.toml", text).unwrap();
        let agreed: Vec<PortSettings> = (0..2)
            .map(|port| {
                let negotiated = Negotiated { no_drop: no_drop[port], ..Negotiated::default() };
                config.dcbx[port].as_ref().unwrap().apply(&config.switch.ports[port], Some(&negotiated))
            })
            .collect();
        agreement_warnings(&config, &agreed)
    }

    #[test]
    fn headroom_of_unlisted_priorities_is_checked() {
        assert_eq!(warnings(FILE, [0, 0]), []);
        assert_eq!(warnings(FILE, [1 << 3, 1 << 4]), [], "those that the file lists were checked with it");
        assert_eq!(warnings(FILE, [1 << 3, 1 << 5]), [], "enough for a short cable");
        let found = warnings(FILE, [0b11_0000, 0]);
        let [(0, text)] = &found[..] else { panic!("{found:?}") };
        let expected = "priorities agreed on that pfc.no_drop of port a does not list (4, 5): 491 headroom cells are too few: after \
                        XOFF ";
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.ends_with("; list them there, and `sluice check` and `sluice headroom --fix` count them"),
            "{text}"
        );
        let found = warnings(FILE, [1 << 3, 0b11_0000]);
        let [(1, text)] = &found[..] else { panic!("{found:?}") };
        assert!(
            text.contains(
                "(5): the no-drop groups may take 1473 headroom cells together, the pool has 1000;"
            ),
            "{text}"
        );
    }
}
