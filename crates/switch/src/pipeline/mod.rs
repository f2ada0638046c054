//! The switch: frames and time go in, decisions and PFC come out. This module composes the rules of
//! the other modules and adds only their order:
//!
//! parse → learn and look up → admit (cells at ingress and egress) → WRED → charge → queue ‖
//! schedule → transmit → complete and release.
//!
//! Where ports have VLANs, a frame is classified to its VLAN before the FDB lookup, and its egress
//! tag is decided after it. ECN marks, tags and remarking leave with the frame as a header edit,
//! which the loop that serves the port applies to its bytes ([`crate::frame::header_edit`]).
//!
//! Source: docs/architecture.md, "Frame path". The owner parses each received frame
//! ([`Switch::parse`]) and passes the results to [`Switch::receive_all`]. It calls
//! [`Switch::transmit`] for each port that may have frames to transmit, [`Switch::complete`] for
//! each frame that has left, and [`Switch::tick`] once per iteration.

mod admission;
mod alarms;
pub(crate) mod checkpoint;
mod drops;
mod flood;
mod pfc;
mod pfc_watchdog;
mod port_slots;
mod ports;
mod punt;
mod reconfigure;
mod snapshot;
mod timers;

use crate::buffer::cell::CellSize;
use crate::buffer::pool::Pools;
use crate::egress::Egress;
use crate::egress::frame_queue::FrameQueues;
use crate::forwarding::fdb::Fdb;
use crate::forwarding::parsed_frame::{Disposition, FrameParser, RxFrame};
use crate::forwarding::vlan::VlanTable;
use crate::frame::header_edit::TxDesc;
use crate::frame::memory::{FrameMemory, MaxFrame};
use crate::frame::meta::FrameMeta;
use crate::frame::{FrameId, PuntedFrame, RxDesc};
use crate::ingress::Ingress;
use crate::ingress::priority_group::BufferRegion;
use crate::monitor::counters::RemovedPorts;
use crate::monitor::event_list::Events;
use crate::monitor::no_drop_loss::NoDropLosses;
use crate::pfc::rate_monitor::PfcRates;
use crate::pipeline::admission::admit;
use crate::settings::{PRIORITIES, SwitchSettings};
use crate::time::Instant;
use serde::{Deserialize, Serialize};
use wire::bitset::Set64;

/// State of one switch: ports, FDB, pools, frame metadata and timers. It does no I/O.
#[derive(Debug, Serialize, Deserialize)]
pub struct Switch {
    pub(crate) ingress: Vec<Ingress>,
    pub(crate) egress: Vec<Egress>,
    pub(crate) pools: Pools,
    pub(crate) frame_queues: FrameQueues,
    pub(crate) cell_size: CellSize,
    pub(crate) fdb: Fdb,
    /// VLANs of the ports; `None` if no port has any.
    pub(crate) vlans: Option<Box<VlanTable>>,
    /// Longest frame that fits the memory.
    pub(crate) max_frame: MaxFrame,
    /// Queues of unicast frames to unknown destinations, by priority.
    pub(crate) unknown_unicast_to_queue: Option<[u8; PRIORITIES]>,
    /// Queues of frames to group addresses, by priority.
    pub(crate) multicast_to_queue: Option<[u8; PRIORITIES]>,
    pub(crate) sets: PortSets,
    pub(crate) timers: Timers,
    pub(crate) events: Events,
    /// Losses of no-drop frames that have not been reported yet.
    pub(crate) losses: NoDropLosses,
    pub(crate) flood_copies: u64,
    pub(crate) pfc_rates: PfcRates,
    /// Counters of removed ports, whose slots may have been reused.
    pub(crate) removed: RemovedPorts,
    /// Frames for the owner, empty between two calls of the owner.
    #[serde(skip)]
    pub(crate) punted: Vec<PuntedFrame>,
    /// Settings in force.
    pub(crate) settings: SwitchSettings,
}

/// Ports by what is to be done for them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PortSets {
    /// Ports that carry frames.
    pub(crate) up: Set64,
    /// Ports that may have frames to transmit: queued frames, or PFC.
    pub(crate) tx_pending: Set64,
    /// Ports that may have PFC to send.
    pub(crate) pfc_pending: Set64,
    /// Ports that became pending since the owner last asked.
    pub(crate) newly_pending: Set64,
    /// Ports with a group that must be examined each iteration.
    pub(crate) pfc_recheck: Set64,
    /// Ports with unreported drops: by flood limits, or in the kernel.
    pub(crate) unreported_drops: Set64,
    /// Ports whose watchdog must be polled each iteration.
    pub(crate) watchdog_pending: Set64,
}

/// When something is due though no frame moves.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Timers {
    /// Time of the next check of the alarms.
    pub(crate) next_alarms: Instant,
    /// Time of the next watchdog poll, or of the next PFC rate measurement.
    pub(crate) next_timer: Instant,
    /// Time of the next check that transmissions complete.
    pub(crate) next_tx_check: Instant,
    /// Start of this iteration and of the one before. `None` where the owner does not report
    /// iterations; frames then arrive at the time they are received.
    pub(crate) iteration_starts: [Option<Instant>; 2],
    /// Time at which the present batch of received frames had been taken; `None` where the owner
    /// does not report it.
    pub(crate) taken_at: Option<Instant>,
}

impl Switch {
    /// Parses a frame received on `port`. Its headers are read only here.
    #[inline]
    pub fn parse(&self, port: usize, received: RxDesc, bytes: &[u8]) -> RxFrame {
        RxFrame::parse(received, bytes, port, self.ingress[port].classifier(), self.cell_size)
    }

    /// Returns the parser for frames of `port`. It is valid until the settings change.
    pub fn parser(&self, port: usize) -> FrameParser {
        FrameParser { port, classifier: self.ingress[port].classifier().clone(), cell: self.cell_size }
    }

    /// Parses and processes one frame received on `port`.
    #[inline]
    pub fn receive<M: FrameMemory>(&mut self, port: usize, received: RxDesc, now: Instant, memory: &mut M) {
        let bytes = memory.bytes(&received.frame, usize::from(received.len));
        let mut arrival = self.parse(port, received, bytes);
        self.resolve_batch(std::slice::from_mut(&mut arrival), now);
        self.dispatch(&mut arrival, now, memory);
    }

    /// Processes received frames in order. Each is queued, flooded, honored (PFC) or dropped; none
    /// is left to the caller. All frames are resolved before the first is processed, so that a
    /// cache miss of one lookup does not delay the next.
    #[inline(never)] // a stage of its own, with all registers
    pub fn receive_all<M: FrameMemory>(&mut self, arrivals: &mut Vec<RxFrame>, now: Instant, memory: &mut M) {
        self.resolve_batch(arrivals, now);
        // Updated in place: a frame that is moved would be assembled and read back before it is
        // stored.
        for arrival in &mut *arrivals {
            self.dispatch(arrival, now, memory);
        }
        arrivals.clear();
    }

    #[inline(never)]
    fn resolve_batch(&mut self, arrivals: &mut [RxFrame], now: Instant) {
        if let Some(vlans) = &self.vlans {
            vlans.classify_ingress(arrivals);
        }
        for arrival in &mut *arrivals {
            self.resolve(arrival, now);
        }
        if let Some(vlans) = &self.vlans {
            vlans.filter_egress(arrivals);
        }
    }

    /// Counts a data frame, learns its source address, and looks up its destination.
    #[inline]
    fn resolve(&mut self, arrival: &mut RxFrame, now: Instant) {
        if arrival.disposition != Disposition::Data {
            return;
        }
        let port = arrival.meta.port();
        if self.ingress[port].receive(arrival) {
            self.resend_xoff(port, arrival.meta.priority(), now);
        }
        self.fdb.learn(arrival.src, port, now);
        if !arrival.dst.is_group()
            && let Some(out) = self.fdb.lookup(arrival.dst, now)
        {
            let goes = out != port && self.sets.up.contains(out);
            arrival.disposition =
                if goes { Disposition::To(out as u8) } else { Disposition::Filtered(out as u8) };
        }
    }

    #[inline]
    fn dispatch<M: FrameMemory>(&mut self, arrival: &mut RxFrame, now: Instant, memory: &mut M) {
        match arrival.disposition {
            Disposition::To(out) => self.forward(arrival, out.into(), now, memory),
            _ => self.dispatch_slow(arrival, now, memory),
        }
    }

    #[inline(never)]
    fn dispatch_slow<M: FrameMemory>(&mut self, arrival: &mut RxFrame, now: Instant, memory: &mut M) {
        match arrival.disposition {
            Disposition::To(out) | Disposition::InVlan(out) => {
                self.forward_one(arrival, out.into(), now, memory)
            }
            Disposition::Filtered(out) => self.filter(arrival, out.into(), now, memory),
            Disposition::Data => match self.fdb.lookup_unconfirmed(arrival.dst, now) {
                Some(out) if !self.sets.up.contains(out) => self.filter(arrival, out, now, memory),
                _ => self.flood(arrival, now, memory),
            },
            Disposition::Control => self.receive_mac_control(arrival, now, memory),
            Disposition::Punted => self.punt(arrival),
            Disposition::Invalid(reason) => {
                self.drop_invalid(arrival, reason, memory);
            }
        }
    }

    /// Forwards a frame to one port. Where both halves have reserved cells for it, and its queue
    /// has no WRED, there is nothing left to decide.
    #[inline(always)] // the common end of the path
    fn forward<M: FrameMemory>(&mut self, arrival: &mut RxFrame, out: usize, now: Instant, memory: &mut M) {
        let charge = &arrival.meta;
        let (ingress, egress) = (&mut self.ingress[charge.port()], &mut self.egress[out]);
        if !ingress.fits_reserved(charge) || !egress.fits_guaranteed(charge) || egress.has_wred(charge) {
            self.forward_by_pools(arrival, out, now, memory);
            return;
        }
        ingress.charge_reserved(charge);
        egress.enqueue_guaranteed(
            std::mem::replace(&mut arrival.frame, FrameId::TAKEN),
            charge,
            &mut self.frame_queues,
        );
        self.mark_data_pending(out);
    }

    /// Forwards a frame to one port: admits it at both halves, applies WRED, charges and queues it.
    /// Returns false if the frame was dropped.
    #[inline(never)]
    pub(crate) fn forward_by_pools<M: FrameMemory>(
        &mut self,
        arrival: &mut RxFrame,
        out: usize,
        now: Instant,
        memory: &mut M,
    ) -> bool {
        let charge = &arrival.meta;
        let (port, priority) = (charge.port(), charge.priority());
        let (ingress, egress) = (&mut self.ingress[port], &mut self.egress[out]);
        // Both halves decide before either is charged: a rejected frame leaves no trace in a
        // watermark and triggers no PFC.
        let is_reserved = ingress.fits_reserved(charge) && egress.fits_guaranteed(charge);
        let admitted = if is_reserved {
            Ok(BufferRegion::ReservedAndShared)
        } else {
            admit(ingress, egress, charge, &self.pools)
        };
        let area = match admitted
            .and_then(|area| egress.apply_wred(&mut arrival.meta, arrival.ecn, now).map(|()| area))
        {
            Ok(area) => area,
            Err(reason) => {
                self.drop_rejected((arrival.take_frame(), &arrival.meta), out, reason, now, memory);
                return false;
            }
        };
        let frame = arrival.take_frame();
        let charge = &arrival.meta;
        let needs_update = if is_reserved {
            ingress.charge_reserved(charge);
            egress.enqueue_guaranteed(frame, charge, &mut self.frame_queues);
            false
        } else {
            let needs_update = ingress.charge(charge, area, &mut self.pools);
            egress.enqueue(frame, charge, &mut self.frame_queues, &mut self.pools);
            needs_update
        };
        self.mark_data_pending(out);
        if needs_update {
            self.update_xoff(port, priority, now);
        }
        true
    }

    /// Appends the frames to transmit on `port` now to `out`, at most `room`: a PFC frame that is
    /// due first, then data. Returns true if some of them must be edited before they are sent
    /// ([`TxDesc::edit`]).
    #[inline(never)]
    pub fn transmit<M: FrameMemory>(
        &mut self,
        port: usize,
        room: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<TxDesc>,
    ) -> bool {
        let mut room = room;
        if room > 0 && self.sets.pfc_pending.contains(port) {
            let before = out.len();
            self.transmit_pfc(port, now, memory, out);
            room -= out.len() - before;
        }
        let egress = &mut self.egress[port];
        let (has_edits, is_backlogged) = if egress.copies() == 0 {
            (egress.dequeue(room, now, &mut self.frame_queues, out), egress.is_backlogged())
        } else {
            self.transmit_with_copies(port, room, now, memory, out)
        };
        if !is_backlogged && !self.has_pfc_pending(port) {
            self.sets.tx_pending.set(port, false);
        }
        has_edits
    }

    /// Takes data frames of a port that queues copies of flooded frames, too, which get memory when
    /// they leave. Returns whether some must be edited, and whether the port still holds frames.
    #[cold]
    fn transmit_with_copies<M: FrameMemory>(
        &mut self,
        port: usize,
        room: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<TxDesc>,
    ) -> (bool, bool) {
        let (before, copies) = (out.len(), self.egress[port].copies());
        let room = self.room_for_copies(port, room);
        let egress = &mut self.egress[port];
        let has_edits = egress.dequeue(room, now, &mut self.frame_queues, out);
        if egress.copies() != copies {
            self.copy_dequeued(port, before, now, memory, out);
        }
        (has_edits, self.egress[port].is_backlogged())
    }

    /// Completes a frame that `transmit` returned for `port` and that has left. For a frame that
    /// the kernel lost, see [`Switch::kernel_lost`].
    #[inline]
    pub fn complete<M: FrameMemory>(&mut self, port: usize, frame: FrameId, now: Instant, memory: &mut M) {
        self.complete_all(port, std::iter::once(frame), now, memory);
    }

    /// Completes frames that `transmit` returned for `port` and that have left, in this order.
    #[inline(never)]
    pub fn complete_all<M: FrameMemory>(
        &mut self,
        port: usize,
        mut frames: impl Iterator<Item = FrameId>,
        now: Instant,
        memory: &mut M,
    ) {
        // Iterated in place: moving an iterator that was just built would stall on store
        // forwarding, as it is written by words and read in larger pieces.
        while let Some(stopped) = self.complete_some(port, &mut frames, memory) {
            match stopped {
                Ok((port, priority)) => self.update_xoff(port, priority, now),
                Err(other) => self.complete_copy_or_control(port, other, now, memory),
            }
        }
    }

    /// Completes a copy of a flooded frame, or a PFC frame.
    #[cold]
    fn complete_copy_or_control<M: FrameMemory>(
        &mut self,
        port: usize,
        frame: FrameId,
        now: Instant,
        memory: &mut M,
    ) {
        match self.complete_copy_or_control_slow(port, frame, now, memory) {
            Some(charge) => self.egress[port].complete(&charge, &mut self.pools),
            None => self.ingress[port].pfc_sent(now),
        }
    }

    /// Completes frames up to the first whose group must be examined, whose port and priority it
    /// returns, or the first that is not an ordinary data frame, which it returns as an error.
    #[inline]
    fn complete_some<M: FrameMemory>(
        &mut self,
        port: usize,
        frames: &mut impl Iterator<Item = FrameId>,
        memory: &mut M,
    ) -> Option<Result<(usize, usize), FrameId>> {
        let egress = &mut self.egress[port];
        for frame in frames {
            // Read in place: a copy of the metadata would be assembled from single fields.
            let Some(charge) = self.frame_queues.charged(&frame) else { return Some(Err(frame)) };
            memory.free(frame);
            egress.complete(charge, &mut self.pools);
            let (port, priority) = (charge.port(), charge.priority());
            let must_examine = self.ingress[port].release(charge, &mut self.pools);
            charge.in_port = FrameMeta::NO_FRAME;
            if must_examine {
                return Some(Ok((port, priority)));
            }
        }
        None
    }

    /// Releases a frame's cells at its group; its queue has already released its own.
    #[inline]
    pub(crate) fn release(&mut self, charge: &FrameMeta, now: Instant) {
        let port = charge.port();
        // Thresholds that other groups have lowered meanwhile are examined by the tick.
        if self.ingress[port].release(charge, &mut self.pools) {
            self.update_xoff(port, charge.priority(), now);
        }
    }
}
