//! Queries of the owner of a switch beside the frame path: snapshots, watermarks, and the ports
//! that have work.

use crate::buffer::pool::Pool;
use crate::forwarding::fdb::FdbPage;
use crate::forwarding::parsed_frame::{Disposition, RxFrame};
use crate::frame::FrameId;
use crate::frame::meta::{FdbKey, FrameMeta};
use crate::monitor::counters::{GroupSnapshot, PortSnapshot, Snapshot};
use crate::monitor::event::Event;
use crate::monitor::watermark::WatermarkReset;
use crate::pipeline::Switch;
use crate::settings::{POOLS, PRIORITIES, PortSettings, StaticAddress, SwitchSettings, VlanSettings};
use crate::time::Instant;
use wire::bitset::Set8;
use wire::bitset::Set64;

impl Switch {
    /// Returns the ports that may have frames to transmit, as a mask.
    #[inline]
    pub fn ports_with_work(&self) -> u64 {
        self.sets.tx_pending.bits()
    }

    /// Returns the ports that must send a PFC frame now.
    #[inline]
    pub fn ports_with_pfc(&self, now: Instant) -> Set64 {
        let is_due = |port: &usize| self.ingress[*port].pfc_is_due(now);
        self.sets.tx_pending.and(self.sets.pfc_pending).into_iter().filter(is_due).collect()
    }

    /// Returns the ports, as a mask, that became pending since the last call. Only these have new
    /// frames to transmit, unless a time has come that [`Switch::deadline_of`] gave.
    #[inline]
    pub fn take_newly_pending(&mut self) -> u64 {
        std::mem::take(&mut self.sets.newly_pending).bits()
    }

    /// Returns the priority of a frame that is queued or handed out; `None` for a frame that the
    /// switch made.
    pub fn priority_of(&self, frame: &FrameId) -> Option<u8> {
        let meta = self.frame_queues.meta(frame);
        (meta.in_port < FrameMeta::CONTROL).then(|| meta.priority() as u8)
    }

    /// Adds a static entry to the FDB. Learning does not change it and it does not age out.
    pub fn set_static(&mut self, address: impl Into<StaticAddress>, port: usize) {
        self.fdb.set_static(fdb_key_of(&address.into()), port);
    }

    /// Sets the static entries that the settings of `ports` require, and removes entries that only
    /// the previous settings required.
    pub(crate) fn set_static_addresses(&mut self, ports: &[PortSettings]) {
        for address in self.settings.ports.iter().flat_map(|port| &port.static_addresses) {
            self.fdb.forget_static(fdb_key_of(address));
        }
        for (number, port) in ports.iter().enumerate() {
            port.static_addresses.iter().for_each(|address| self.set_static(*address, number));
        }
    }

    /// Returns the port that the FDB has for the destination of a received frame, before anything
    /// else is decided; `None` for a frame that is flooded, or not forwarded at all.
    pub fn destination_of(&self, arrival: &RxFrame, now: Instant) -> Option<usize> {
        if arrival.disposition != Disposition::Data || arrival.dst.is_group() {
            return None;
        }
        let dst = match &self.vlans {
            Some(vlans) => {
                let vid = vlans.vid_of_frame(arrival.meta.port(), arrival.first_tag.customer_vid())?;
                arrival.dst.in_vlan(vid)
            }
            None => arrival.dst,
        };
        self.fdb.lookup(dst, now)
    }

    /// Reads the next part of the FDB.
    pub fn read_fdb(&self, page: &mut FdbPage, now: Instant) {
        self.fdb.read_page(page, now);
    }

    /// Forgets the addresses learned on a port, in a VLAN; `None` for any.
    pub fn flush_fdb(&mut self, port: Option<usize>, vid: Option<u16>) {
        self.fdb.forget_of(port, vid);
    }

    /// Adds an entry to the FDB as if a frame from `mac` had been received on `port` at `now`.
    pub fn set_learned(&mut self, address: impl Into<StaticAddress>, port: usize, now: Instant) {
        self.fdb.learn(fdb_key_of(&address.into()), port, now);
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> &SwitchSettings {
        &self.settings
    }

    /// True if the port carries frames.
    pub fn is_up(&self, port: usize) -> bool {
        self.sets.up.contains(port)
    }

    /// Holds a port's transmission, or releases it: a port on hold sends only PFC. For tests.
    pub fn hold(&mut self, port: usize, on_hold: bool) {
        self.egress[port].hold(on_hold);
    }

    /// Sets the queues of a port that its peer has no room for: a virtio driver that has posted no
    /// buffers there. That is of interest to the watchdog of the port.
    pub fn block_queues(&mut self, port: usize, queues: Set8, now: Instant) {
        let egress = &mut self.egress[port];
        egress.set_no_room(queues, now);
        if egress.watchdog().is_on() {
            self.sets.watchdog_pending.set(port, true);
        }
    }

    /// Returns the number of frames that the switch holds: queued, or handed out and not completed.
    /// For checks only, as it is slow.
    pub fn frames_held(&self) -> usize {
        self.frame_queues.count()
    }

    /// Visits the queued frames of every port; of a copy of a flooded frame it visits the original,
    /// so one frame may be visited for several ports. For checks only, as it is slow.
    pub fn for_each_queued(&self, mut look: impl FnMut(usize, &FrameId)) {
        for (port, egress) in self.egress.iter().enumerate() {
            egress.for_each_queued(&self.frame_queues, &mut |frame| look(port, frame));
        }
    }

    /// Returns the cells of all frames that the switch holds, at ingress and at egress: what its
    /// groups and its queues must be charged. For checks only, as it is slow.
    pub fn cells_held(&self) -> [u32; 2] {
        self.frame_queues.cells()
    }

    /// Returns the number of frames of the memory, free or not.
    pub fn memory_frames(&self) -> usize {
        self.frame_queues.memory_frames()
    }

    /// True if the switch holds frame number `index`: queued, or handed out and not completed.
    pub fn has_frame(&self, index: usize) -> bool {
        self.frame_queues.has(index)
    }

    /// Returns the bytes of data frame number `index`, without FCS; 0 if the switch does not hold
    /// it.
    pub fn frame_len(&self, index: usize) -> u16 {
        self.frame_queues.len_of(index)
    }

    /// Returns the cells in use by the queues of a port.
    pub fn queued_cells(&self, port: usize) -> u32 {
        self.queue_cells(port).iter().sum()
    }

    /// Returns the cells in use by each queue of a port.
    pub fn queue_cells(&self, port: usize) -> [u32; PRIORITIES] {
        self.egress[port].used_cells()
    }

    /// Takes the events since the last call, oldest first.
    pub fn drain_events(&mut self) -> impl Iterator<Item = (Instant, Event)> + '_ {
        self.events.drain()
    }

    /// Resets one watermark of every group, queue and pool.
    pub fn reset_watermarks(&mut self, mark: WatermarkReset) {
        self.ingress.iter_mut().for_each(|ingress| ingress.reset_watermarks(mark));
        self.egress.iter_mut().for_each(|egress| egress.reset_watermarks(mark));
        self.pools.reset_watermarks(mark);
    }

    /// Returns the levels and counters of a priority group, and resets its peaks since the last
    /// read.
    pub fn read_group(&mut self, port: usize, priority: usize, now: Instant) -> GroupSnapshot {
        let snapshot = self.ingress[port].group(priority, &self.pools, now);
        self.ingress[port].reset_group_watermarks(priority);
        snapshot
    }

    /// Returns the free cells of each ingress service pool, which dynamic thresholds of groups are
    /// a fraction of.
    pub fn free_cells(&self) -> [u32; POOLS] {
        self.pools.ingress.each_ref().map(Pool::free_cells)
    }

    /// Fills `snapshot` with all counters and levels. Its memory is reused, so that a second call
    /// allocates nothing.
    pub fn snapshot(&mut self, now: Instant, snapshot: &mut Snapshot) {
        snapshot.at_ns = now.0;
        snapshot.ingress_pools = self.pools.ingress.each_ref().map(Pool::snapshot);
        snapshot.egress_pools = self.pools.egress.each_ref().map(Pool::snapshot);
        snapshot.headroom = self.pools.headroom.snapshot();
        snapshot.cell_bytes = self.cell_size.bytes();
        (snapshot.bridge_entries, snapshot.bridge_full_frames, snapshot.bridge_moves) = self.fdb.counts();
        snapshot.flood_copies = self.flood_copies;
        snapshot.events_lost = self.events.lost();
        snapshot.removed_ports = self.removed;
        snapshot.ports.resize_with(self.settings.ports.len(), PortSnapshot::default);
        for (port, out) in snapshot.ports.iter_mut().enumerate() {
            let settings = &self.settings.ports[port];
            out.name.clone_from(&settings.name);
            out.number = port as u16 + 1;
            out.up = self.sets.up.contains(port);
            out.speed_bps = settings.speed_bps.unwrap_or(0);
            out.overhead_bytes = settings.overhead_bytes;
            snapshot_vlans(&settings.vlan, out);
            (out.bridge_entries, out.bridge_limit_frames) = self.fdb.port_counts(port);
            out.drops = Default::default();
            self.ingress[port].snapshot(now, &self.pools, out);
            self.egress[port].snapshot(now, &self.pools, out);
            self.snapshot_storms(port, out);
            if self.is_vacant(port) {
                snapshot.removed_ports.add(out);
            }
        }
    }
}

/// Fills in the VLANs of a port. Does nothing for a port without any.
fn snapshot_vlans(vlan: &VlanSettings, out: &mut PortSnapshot) {
    out.pvid = vlan.pvid().map(u32::from);
    out.vlan_mode.clear();
    out.vlans.clear();
    if *vlan != VlanSettings::Transparent {
        out.vlan_mode.push_str(vlan.mode());
        out.vlans = vlan.vlans().to_string();
    }
}

fn fdb_key_of(address: &StaticAddress) -> FdbKey {
    FdbKey::of(address.mac).in_vlan(address.vid)
}
