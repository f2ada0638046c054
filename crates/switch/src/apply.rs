//! Settings applied to a running switch, all together, and what the settings of the whole switch come to for a port.
//!
//! Rule: nothing that the switch holds is dropped or moves to another queue. Cells stay charged; what is reserved, shared
//! or guaranteed of them is worked out anew from the new sizes, so a group or a queue may be over its limit until enough
//! has left. A group that is no longer no-drop lets its headroom drain and is out of XOFF; pauses of priorities that are
//! no longer no-drop end. Watermarks and counters go on. Frames that wait stay in their queue, so after a change of the
//! maps later frames of their flow may overtake them.
//! Source: docs/law.md, "Reload"; docs/sources.md, "H3C reference" (Managing data buffers: `buffer apply`).
//!
//! Settings of the whole switch that a port needs: what each queue may hold. Guaranteed cells are the queue's ratio of
//! the fixed area, which all ports' queues of that number divide evenly. A queue that carries some port's no-drop
//! priority has no shared maximum unless one is set; any other has 20 %.

use crate::classify::queues_of_priorities;
use crate::egress::Given;
use crate::queue::Limits;
use crate::settings::{Alpha, Guaranteed, PRIORITIES, PortSettings, SwitchSettings, Threshold};
use crate::switch::Switch;
use crate::time::Instant;

/// The shared maximum of a lossy queue (docs/law.md, "Egress queues").
const DEFAULT_SHARED_PERCENT: u8 = 20;

impl Switch {
    /// Other settings from now on.
    ///
    /// # Panics
    /// If the ports are not as many, or cells not as large, as those the switch was made with. The bridge table keeps
    /// the size that it was made with.
    pub fn apply(&mut self, settings: &SwitchSettings, now: Instant) {
        assert_eq!(settings.ports.len(), self.ports.len(), "a switch keeps its ports");
        assert_eq!(settings.buffer.cell_bytes, self.cell.bytes(), "cells keep their size");
        for port in &self.ports {
            port.ingress.groups.iter().for_each(|group| group.withdraw(&mut self.pools));
            port.egress.queues.iter().for_each(|queue| queue.withdraw(&mut self.pools));
        }
        self.pools.resize(&settings.buffer);
        for ((port, settings_of_port), given) in
            self.ports.iter_mut().zip(&settings.ports).zip(given(settings))
        {
            port.speed_bps = settings_of_port.speed_bps.unwrap_or(0);
            port.overhead_bytes = settings_of_port.overhead_bytes;
            port.ingress.reconfigure(settings_of_port, settings.usage_percent, &mut self.pools);
            port.egress.reconfigure(settings_of_port, &given, &mut self.pools, now);
        }
        self.bridge.set_aging(settings.bridge.aging_ns);
        self.unknown_unicast_to_queue = settings.bridge.unknown_unicast_to_queue;
        for port in 0..self.ports.len() {
            (0..PRIORITIES).for_each(|priority| self.examine(port, priority, now));
            self.ports[port].ingress.retell();
        }
        self.work |= self.up; // PFC to tell, or a pause that has ended
    }
}

/// What the whole switch says of each port's egress half.
pub fn given(settings: &SwitchSettings) -> impl Iterator<Item = Given> + '_ {
    let no_drop_queues = no_drop_queues(settings);
    settings.ports.iter().map(move |port| Given {
        limits: std::array::from_fn(|q| limits(settings, port, q, no_drop_queues & 1 << q != 0)),
        usage_percent: settings.usage_percent,
        queues_of_priorities: queues_of(settings, port),
    })
}

fn limits(settings: &SwitchSettings, port: &PortSettings, queue: usize, no_drop: bool) -> Limits {
    let queue = port.queues[queue];
    let of_ports = settings.buffer.fixed_cells / settings.ports.len() as u32;
    let default = Threshold::Dynamic(Alpha::from_percent(DEFAULT_SHARED_PERCENT));
    Limits {
        pool: queue.pool,
        guaranteed_cells: match queue.guaranteed {
            Guaranteed::Percent(percent) => of_ports * u32::from(percent) / 100,
            Guaranteed::Cells(cells) => cells,
        },
        maximum: queue.shared.or((!no_drop).then_some(default)),
        wred: queue.wred,
        no_drop,
    }
}

/// Queues that carry frames which some port must not lose.
fn no_drop_queues(settings: &SwitchSettings) -> u8 {
    let of_port = |port: &PortSettings| {
        let no_drop = (0..PRIORITIES).filter(|p| port.pfc.no_drop & (1 << p) != 0);
        let queues = queues_of(settings, port);
        no_drop.fold(0, |mask, p| mask | queues[p])
    };
    settings.ports.iter().fold(0, |mask, port| mask | of_port(port))
}

fn queues_of(settings: &SwitchSettings, port: &PortSettings) -> [u8; PRIORITIES] {
    queues_of_priorities(&port.classify, settings.bridge.unknown_unicast_to_queue)
}
