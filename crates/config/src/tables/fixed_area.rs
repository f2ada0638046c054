//! Default reservation of lossy groups in the fixed area.
//!
//! Rule: the fixed area is divided evenly among the ports, and a port's part among its eight
//! groups. A lossy group reserves its eighth, so that no other group can take it, as its queue has
//! its guaranteed cells at egress. It reserves less if the groups with a reservation in the file,
//! and the protected ones (by PFC or PAUSE), leave less of the area for each. A profile sets every
//! threshold, also where it sets 0. Source: docs/behavior.md, "Priority groups";
//! docs/references.md, "H3C reference" (Fixed area and shared area: nobody can preempt a queue's
//! share) and "H3C white paper" (a minimum for each queue of each port).

use switch::settings::PRIORITIES;

use crate::tables::ports::Port;

/// A lossy group's part of the fixed area.
pub(crate) struct Share {
    pub(crate) port: usize,
    pub(crate) priority: usize,
    pub(crate) cells: u32,
}

/// Returns the reservation of each lossy group that has none in the file, in a fixed area of
/// `fixed_cells`.
pub(crate) fn shares(ports: &[Port], fixed_cells: u32) -> Vec<Share> {
    let mut shares = Vec::new();
    let mut reserved_cells = 0;
    for (number, port) in ports.iter().enumerate() {
        for priority in 0..PRIORITIES {
            let message = port.tables().group(priority).setting(|table| &table.reserved_cells).is_some();
            let settings = &port.settings;
            if message || settings.protected().contains(priority) {
                reserved_cells += u64::from(settings.groups[priority].reserved_cells);
            } else {
                shares.push(Share { port: number, priority, cells: 0 });
            }
        }
    }
    let left = u64::from(fixed_cells).saturating_sub(reserved_cells);
    let evenly = u64::from(fixed_cells) / (ports.len() * PRIORITIES).max(1) as u64;
    let cells = evenly.min(left / (shares.len() as u64).max(1));
    // At most the fixed area.
    shares.iter_mut().for_each(|share| share.cells = cells as u32);
    shares
}
