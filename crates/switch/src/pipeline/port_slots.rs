//! Port slots: a port keeps its slot, which is its number, for as long as it exists.
//!
//! Rule: the settings add and remove ports. A removed port leaves its slot vacant, and the others
//! keep theirs. An added port takes a vacant slot, or a new one at the end, and is down until its
//! owner brings it up. It starts with its own counters, watermarks and averages. Frames that were
//! received on the previous port and still wait elsewhere stay charged where they are. Until they
//! have left they count as use of the group that has the slot now, so that what every pool holds
//! stays exact. Counters of removed ports are kept in one sum, so that frame conservation still
//! holds.
//!
//! ```text
//!              settings name a port                 its owner brings it up
//!   Vacant ─────────────────────────▶ Taken, down ◀──────────────────────▶ Taken, up
//!     ◀───────────────────────────────────┘   goes down (before it may be removed)
//!             settings name none
//! ```
//! Source: docs/behavior.md, "Ports that are added and removed".

use crate::egress::Egress;
use crate::egress::queue_limits::EgressLimits;
use crate::ingress::Ingress;
use crate::monitor::counters::{PortSnapshot, RemovedPorts};
use crate::pipeline::Switch;
use crate::settings::SwitchSettings;
use crate::time::Instant;
use wire::mac::MacAddr;

impl Switch {
    /// Returns the number of port slots, vacant or not.
    pub fn slot_count(&self) -> usize {
        self.ingress.len()
    }

    /// True if this slot has no port.
    pub fn is_vacant(&self, port: usize) -> bool {
        self.settings.ports.get(port).is_none_or(|settings| settings.is_vacant())
    }

    /// Returns ports of `settings` that the switch does not have: their slots are vacant, or do not
    /// exist yet.
    pub fn added_by<'s>(&'s self, settings: &'s SwitchSettings) -> impl Iterator<Item = usize> + 's {
        (0..settings.ports.len()).filter(|&port| !settings.ports[port].is_vacant() && self.is_vacant(port))
    }

    /// Returns ports that the switch has and `settings` does not.
    pub fn removed_by<'s>(&'s self, settings: &'s SwitchSettings) -> impl Iterator<Item = usize> + 's {
        (0..self.slot_count()).filter(|&port| !self.is_vacant(port) && settings.ports[port].is_vacant())
    }

    /// Assigns slots to the ports that `settings` adds. The shared cells of groups and queues have
    /// already been withdrawn from the pools.
    pub(crate) fn assign_slots(&mut self, settings: &SwitchSettings, now: Instant) {
        let removed = self.removed_by(settings).find(|&port| self.sets.up.contains(port));
        assert!(removed.is_none(), "a port goes down before it is removed: {removed:?}");
        let limits: Vec<EgressLimits> = EgressLimits::from_settings(settings).collect();
        for (port, of_port) in settings.ports.iter().enumerate() {
            if port < self.slot_count() && (of_port.is_vacant() || !self.is_vacant(port)) {
                continue;
            }
            let mut ingress = Ingress::new(of_port, settings.usage_percent, MacAddr::default());
            let egress = Egress::new(of_port, &limits[port], settings.seed.wrapping_add(port as u64));
            if port < self.slot_count() {
                self.archive_counters(port, now);
                ingress.inherit_usage(&self.ingress[port]);
                (self.ingress[port], self.egress[port]) = (ingress, egress);
            } else {
                self.ingress.push(ingress);
                self.egress.push(egress);
            }
            self.fdb.reset_port(port);
            self.pfc_rates.reset_port(port);
        }
    }

    /// Adds the counters of the port that left this slot to the sum of removed ports.
    fn archive_counters(&mut self, port: usize, now: Instant) {
        assert!(self.egress[port].is_empty(), "a slot is taken once nothing waits there");
        let mut counted = PortSnapshot::default();
        self.ingress[port].snapshot(now, &self.pools, &mut counted);
        self.egress[port].snapshot(now, &self.pools, &mut counted);
        self.removed.add(&counted);
    }
}

impl RemovedPorts {
    /// Adds the counters of one more removed port.
    pub(crate) fn add(&mut self, counted: &PortSnapshot) {
        self.ports += 1;
        self.received = self.received + counted.received;
        self.transmitted = self.transmitted + counted.transmitted;
        self.kernel_lost_frames += counted.kernel_lost_frames;
        self.no_drop_lost_frames += counted.priorities.iter().map(|of| of.no_drop_lost_frames).sum::<u64>();
        for (sum, drops) in self.drops.iter_mut().zip(counted.drops) {
            *sum = *sum + drops;
        }
    }
}
