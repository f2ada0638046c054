//! Settings: the initial ones, and later ones that are applied atomically while the switch runs.
//!
//! Rule: no frame that the switch holds is dropped or moves to another queue. Cells stay charged,
//! and their division into reserved, guaranteed and shared is computed again from the new sizes. A
//! group or a queue may therefore be over its limit until enough frames have left. A group that is
//! no longer no-drop lets its headroom drain and leaves XOFF; pauses of priorities that are no
//! longer no-drop end. Watermarks and counters go on, and so does all state whose settings did not
//! change: the round of a port's scheduler, the rate of a queue. Queued frames stay in their queue,
//! so after a change of the maps later frames of their flow may overtake them. Where the VLANs of
//! ports change, all learned addresses are forgotten; queued frames leave with the tags that they
//! were given. Ports that are added or removed are handled by [`crate::pipeline::port_slots`].
//! Source: docs/behavior.md, "Reload"; docs/references.md, "H3C reference" (Managing data buffers:
//! `buffer apply`).

use crate::buffer::cell::CellSize;
use crate::buffer::pool::Pools;
use crate::buffer::sizing::copies_needed;
use crate::egress::Egress;
use crate::egress::frame_queue::FrameQueues;
use crate::egress::queue_limits::EgressLimits;
use crate::forwarding::fdb::Fdb;
use crate::forwarding::vlan::VlanTable;
use crate::frame::PUNTED_IN_A_BATCH;
use crate::frame::memory::MaxFrame;
use crate::ingress::Ingress;
use crate::monitor::counters::RemovedPorts;
use crate::monitor::event_list::Events;
use crate::monitor::no_drop_loss::NoDropLosses;
use crate::pfc::rate_monitor::PfcRates;
use crate::pipeline::{PortSets, Switch, Timers};
use crate::settings::{MAX_PORTS, PRIORITIES, PortSettings, SwitchSettings};
use crate::time::Instant;
use wire::bitset::Set64;
use wire::mac::MacAddr;

impl Switch {
    /// Makes a switch whose ports are all up, with `memory_frames` frames of memory, numbered from
    /// 0. Port i sends PFC from `macs[i]`.
    ///
    /// # Panics
    /// If there are more than [`MAX_PORTS`] ports or not as many addresses as ports: the
    /// configuration checks both.
    pub fn new(settings: &SwitchSettings, macs: &[MacAddr], memory_frames: usize) -> Self {
        Self::with_store(settings, macs, FrameQueues::new(memory_frames, copies_needed(settings)))
    }

    /// Makes such a switch whose memory grows up to `memory_frames` frames.
    ///
    /// # Panics
    /// As [`Switch::new`].
    pub fn with_growing_memory(settings: &SwitchSettings, macs: &[MacAddr], memory_frames: usize) -> Self {
        Self::with_store(settings, macs, FrameQueues::growing(memory_frames, copies_needed(settings)))
    }

    fn with_store(settings: &SwitchSettings, macs: &[MacAddr], store: FrameQueues) -> Self {
        let count = settings.ports.len();
        assert!(count <= MAX_PORTS && count == macs.len(), "{count} ports, {} addresses", macs.len());
        let ingress = settings.ports.iter().zip(macs);
        let egress = settings.ports.iter().zip(EgressLimits::from_settings(settings)).zip(0_u64..);
        let present = (0..count).filter(|&port| !settings.ports[port].is_vacant());
        let mut switch = Self {
            ingress: ingress.map(|(port, &mac)| Ingress::new(port, settings.usage_percent, mac)).collect(),
            egress: egress
                .map(|((port, limits), n)| Egress::new(port, &limits, settings.seed.wrapping_add(n)))
                .collect(),
            pools: Pools::new(&settings.buffer),
            frame_queues: store,
            cell_size: CellSize::new(settings.buffer.cell_bytes),
            fdb: Fdb::new(&settings.bridge),
            vlans: VlanTable::from_settings(&settings.ports),
            max_frame: MaxFrame::MAX,
            unknown_unicast_to_queue: settings.bridge.unknown_unicast_to_queue,
            multicast_to_queue: settings.bridge.multicast_to_queue,
            sets: PortSets { up: present.collect(), ..PortSets::default() },
            timers: Timers {
                next_alarms: Instant::NEVER,
                next_timer: Instant::default(),
                next_tx_check: Instant::default(),
                iteration_starts: [None; 2],
                taken_at: None,
            },
            events: Events::new(),
            losses: NoDropLosses::default(),
            flood_copies: 0,
            pfc_rates: PfcRates::new(count),
            removed: RemovedPorts::default(),
            punted: Vec::with_capacity(PUNTED_IN_A_BATCH),
            settings: settings.clone(),
        };
        switch.set_static_addresses(&settings.ports);
        switch.make_room_for_tags();
        switch.set_alarms();
        switch
    }

    /// Sets the longest frame that fits the memory. A frame must fit with the tag that it gets.
    pub fn set_max_frame(&mut self, room: MaxFrame) {
        self.max_frame = room;
    }

    /// Returns the longest frame that fits the memory.
    pub fn max_frame(&self) -> MaxFrame {
        self.max_frame
    }

    /// Applies other settings.
    ///
    /// # Panics
    /// If there are fewer port slots than before, or more than [`MAX_PORTS`], if a port whose slot
    /// becomes vacant is still up, or if the cell size differs from the one that the switch was
    /// made with. The FDB keeps its initial size.
    pub fn apply(&mut self, settings: &SwitchSettings, now: Instant) {
        let slots = settings.ports.len();
        assert!((self.ingress.len()..=MAX_PORTS).contains(&slots), "a switch keeps its port slots");
        assert_eq!(settings.buffer.cell_bytes, self.cell_size.bytes(), "cells keep their size");
        let adds_ports = self.added_by(settings).next().is_some();
        self.ingress.iter().for_each(|ingress| ingress.release_shared(&mut self.pools));
        self.egress.iter().for_each(|egress| egress.release_shared(&mut self.pools));
        self.assign_slots(settings, now);
        self.frame_queues.reserve_copies(copies_needed(settings));
        self.pools.resize(&settings.buffer);
        for (ingress, port) in self.ingress.iter_mut().zip(&settings.ports) {
            ingress.reconfigure(port, settings.usage_percent, &mut self.pools);
        }
        let limits = EgressLimits::from_settings(settings);
        for ((egress, port), limits) in self.egress.iter_mut().zip(&settings.ports).zip(limits) {
            egress.reconfigure(port, &limits, &mut self.pools, now);
        }
        self.fdb.apply(&settings.bridge);
        self.apply_vlans(&settings.ports);
        self.unknown_unicast_to_queue = settings.bridge.unknown_unicast_to_queue;
        self.multicast_to_queue = settings.bridge.multicast_to_queue;
        for port in 0..settings.ports.len() {
            (0..PRIORITIES).for_each(|priority| self.update_xoff(port, priority, now));
            self.ingress[port].readvertise();
        }
        self.set_static_addresses(&settings.ports);
        let other_alarms = adds_ports
            || self.settings.alarms != settings.alarms
            || self.settings.ports.iter().zip(&settings.ports).any(|(old, new)| old.alarms != new.alarms);
        self.settings.clone_from(settings);
        for port in (0..settings.ports.len()).filter(|&port| !self.sets.up.contains(port)).collect::<Set64>()
        {
            self.forget_addresses_if_flooding(port);
        }
        self.timers.next_timer = Instant::default(); // watchdogs read their new settings now
        if other_alarms {
            self.set_alarms();
        }
        // PFC may have to be sent, or a pause may have ended.
        (self.sets.tx_pending, self.sets.pfc_pending) =
            (self.sets.tx_pending.with(self.sets.up), self.sets.pfc_pending.with(self.sets.up));
    }

    /// Forgets what was learned where the VLANs of a port change, since it belonged to the old
    /// VLANs.
    fn apply_vlans(&mut self, ports: &[PortSettings]) {
        self.vlans = VlanTable::from_settings(ports);
        self.make_room_for_tags();
        let stays = |(old, new): &(&PortSettings, &PortSettings)| !old.is_vacant() && !new.is_vacant();
        let mut staying = self.settings.ports.iter().zip(ports).filter(stays);
        if staying.any(|(old, new)| old.vlan != new.vlan) {
            self.fdb.forget_learned();
        }
    }

    /// Makes room for the tag edits of queued frames, where ports have VLANs.
    fn make_room_for_tags(&mut self) {
        if self.vlans.is_some() {
            self.frame_queues.make_room_for_tags();
        }
    }
}
