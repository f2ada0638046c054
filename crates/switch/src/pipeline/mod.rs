//! The switch: frames and time go in, decisions and PFC come out. It composes the rules of the
//! other files and adds none of its own but their order:
//!
//! look → learn and look up → admit (cells at ingress and egress) → judge (WRED) → charge → queue ‖
//! schedule → send → release.
//!
//! Where ports have VLANs, a frame enters its VLAN before the look-up, and after it is decided with
//! which tag it leaves. Marks, tags and what is rewritten go out with the frame that leaves, as an
//! edit of its bytes that whoever serves the port makes ([`crate::frame::header_edit`]).
//!
//! Source: docs/architecture.md, "The way of a frame". The owner looks at each frame that comes in
//! ([`Switch::look`]) and hands what it found to [`Switch::receive_all`], calls
//! [`Switch::transmit`] for each port that may have something to send, [`Switch::complete`] for
//! each frame that has left, and [`Switch::tick`] once a turn.

mod admission;
mod alarms;
mod drops;
mod flood;
mod pfc;
mod pfc_watchdog;
mod port_slots;
mod ports;
mod reconfigure;
mod snapshot;
mod timers;

use crate::buffer::cell::CellSize;
use crate::buffer::pool::Pools;
use crate::egress::Egress;
use crate::egress::frame_queue::FrameQueues;
use crate::egress::wred::WredAction;
use crate::forwarding::fdb::Fdb;
use crate::forwarding::parsed_frame::{Disposition, FrameParser, RxFrame};
use crate::forwarding::vlan::VlanTable;
use crate::frame::header_edit::TxDesc;
use crate::frame::memory::{FrameMemory, MaxFrame};
use crate::frame::meta::FrameMeta;
use crate::frame::{FrameId, RxDesc};
use crate::ingress::Ingress;
use crate::monitor::counters::{DropReason, RemovedPorts};
use crate::monitor::event::Events;
use crate::monitor::no_drop_loss::NoDropLosses;
use crate::pfc::rate_monitor::PfcRates;
use crate::pipeline::admission::admit;
use crate::settings::{PRIORITIES, SwitchSettings};
use crate::time::Instant;
use serde::{Deserialize, Serialize};
use wire::bitset::Set64;

/// A switch.
#[derive(Debug, Serialize, Deserialize)]
pub struct Switch {
    pub(crate) ingress: Vec<Ingress>,
    pub(crate) egress: Vec<Egress>,
    pub(crate) pools: Pools,
    pub(crate) store: FrameQueues,
    pub(crate) cell: CellSize,
    pub(crate) bridge: Fdb,
    /// Which VLANs the ports have, if any.
    pub(crate) vlans: Option<Box<VlanTable>>,
    /// What memory has room for.
    pub(crate) max_frame: MaxFrame,
    /// Queues of unicast frames to unknown destinations, by priority.
    pub(crate) unknown_unicast_to_queue: Option<[u8; PRIORITIES]>,
    /// … and of frames to group addresses.
    pub(crate) multicast_to_queue: Option<[u8; PRIORITIES]>,
    /// Ports that carry frames.
    pub(crate) up: Set64,
    /// Ports that may have something to send: frames that wait, or PFC.
    pub(crate) tx_pending: Set64,
    /// Ports that may have PFC to send.
    pub(crate) pfc_pending: Set64,
    /// Ports whose work was added to since the owner last asked.
    pub(crate) newly_pending: Set64,
    /// Ports some group of which must be examined each turn.
    pub(crate) pfc_recheck: Set64,
    pub(crate) events: Events,
    /// NoDropLosses of no-drop frames that are yet to be reported.
    pub(crate) losses: NoDropLosses,
    /// When alarms are looked at next.
    pub(crate) next_alarms: Instant,
    pub(crate) flood_copies: u64,
    /// Ports of which there is something to tell: drops by flood limits, frames that the kernel
    /// lost.
    pub(crate) unreported_drops: Set64,
    /// When a watchdog must look, or PFC frames are counted up.
    pub(crate) next_timer: Instant,
    /// Ports whose watchdog must look each turn.
    pub(crate) watchdog_pending: Set64,
    pub(crate) pfc_rates: PfcRates,
    /// When this turn began, and the one before; nothing where nobody says so, and frames come in
    /// when they are received.
    pub(crate) iteration_starts: [Option<Instant>; 2],
    /// What ports counted whose place others have now.
    pub(crate) removed: RemovedPorts,
    /// What is set now.
    pub(crate) settings: SwitchSettings,
}

impl Switch {
    /// Looks at a frame that came in on `port`: the only time that its headers are read.
    #[inline]
    pub fn look(&self, port: usize, received: RxDesc, bytes: &[u8]) -> RxFrame {
        RxFrame::look(received, bytes, port, self.ingress[port].classifier(), self.cell)
    }

    /// What a look at the frames of `port` needs, until other settings are in force.
    pub fn looker(&self, port: usize) -> FrameParser {
        FrameParser { port, classifier: self.ingress[port].classifier().clone(), cell: self.cell }
    }

    /// A frame came in on `port`: looked at and received at once.
    #[inline]
    pub fn receive<M: FrameMemory>(&mut self, port: usize, received: RxDesc, now: Instant, memory: &mut M) {
        let bytes = memory.bytes(&received.frame, usize::from(received.len));
        let mut arrival = self.look(port, received, bytes);
        self.resolve_batch(std::slice::from_mut(&mut arrival), now);
        self.take(&mut arrival, now, memory);
    }

    /// Frames came in, in this order. Each is queued, flooded, obeyed (PFC) or dropped; nothing is
    /// left to the caller. The ways of all are found first: what one look-up waits for does not
    /// hold up the next.
    #[inline(never)] // a stage of its own, with all registers
    pub fn receive_all<M: FrameMemory>(&mut self, arrivals: &mut Vec<RxFrame>, now: Instant, memory: &mut M) {
        self.resolve_batch(arrivals, now);
        // Where they are: moved, each would be put together and read again before it is written.
        for arrival in &mut *arrivals {
            self.take(arrival, now, memory);
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

    /// Counts a data frame, learns where it came from, and looks up where it goes.
    #[inline]
    fn resolve(&mut self, arrival: &mut RxFrame, now: Instant) {
        if arrival.kind != Disposition::Data {
            return;
        }
        let port = arrival.charge.port();
        if self.ingress[port].receive(arrival) {
            self.resend_xoff(port, arrival.charge.priority(), now);
        }
        self.bridge.learn(arrival.src, port, now);
        if !arrival.dst.is_group()
            && let Some(out) = self.bridge.look_up(arrival.dst, now)
        {
            let goes = out != port && self.up.contains(out);
            arrival.kind = if goes { Disposition::To(out as u8) } else { Disposition::Filtered(out as u8) };
        }
    }

    #[inline]
    fn take<M: FrameMemory>(&mut self, arrival: &mut RxFrame, now: Instant, memory: &mut M) {
        match arrival.kind {
            Disposition::To(out) => self.forward(arrival, out.into(), now, memory),
            _ => self.dispatch_slow(arrival, now, memory),
        }
    }

    #[inline(never)]
    fn dispatch_slow<M: FrameMemory>(&mut self, arrival: &mut RxFrame, now: Instant, memory: &mut M) {
        match arrival.kind {
            Disposition::To(out) | Disposition::InVlan(out) => {
                self.forward_one(arrival, out.into(), now, memory)
            }
            Disposition::Filtered(out) => self.filter(arrival, out.into(), memory),
            Disposition::Data => self.flood(arrival, now, memory),
            Disposition::Control => self.honor(arrival, now, memory),
            Disposition::Refused(reason) => {
                self.ingress[arrival.charge.port()].count_invalid(reason, arrival.charge.len);
                memory.free(arrival.take_frame());
            }
        }
    }

    /// To one port. Where both ends have cells of their own for it, and its queue no WRED, nothing
    /// is left to decide.
    #[inline(always)] // the end of `take`
    fn forward<M: FrameMemory>(&mut self, arrival: &mut RxFrame, out: usize, now: Instant, memory: &mut M) {
        let charge = &arrival.charge;
        let (ingress, egress) = (&mut self.ingress[charge.port()], &mut self.egress[out]);
        if !ingress.has_own(charge) || !egress.has_own(charge) {
            self.forward_by_pools(arrival, out, now, memory);
            return;
        }
        let must_examine = ingress.charge_reserved(charge);
        egress.enqueue_own(std::mem::replace(&mut arrival.frame, FrameId::TAKEN), charge, &mut self.store);
        self.mark_data_pending(out);
        if must_examine {
            self.update_xoff(arrival.charge.port(), arrival.charge.priority(), now);
        }
    }

    /// To one port: admitted at both ends, judged by WRED, charged and queued; or refused, and
    /// false.
    #[inline(never)]
    pub(crate) fn forward_by_pools<M: FrameMemory>(
        &mut self,
        arrival: &mut RxFrame,
        out: usize,
        now: Instant,
        memory: &mut M,
    ) -> bool {
        let frame = arrival.take_frame();
        let charge = &mut arrival.charge;
        let (port, priority) = (charge.port(), charge.priority());
        let (ingress, egress) = (&mut self.ingress[port], &mut self.egress[out]);
        // Both ends decide before either is charged: what is refused leaves no trace in a watermark and
        // triggers no PFC.
        let area = match admit(ingress, egress, charge, &self.pools) {
            Ok(area) => area,
            Err(reason) => {
                self.refuse((frame, charge), out, reason, now, memory);
                return false;
            }
        };
        match egress.wred_decide(charge, arrival.ecn, now) {
            WredAction::Pass => {}
            WredAction::Mark => egress.mark(charge),
            WredAction::Drop => {
                self.refuse((frame, charge), out, DropReason::Wred, now, memory);
                return false;
            }
        }
        let must_examine = ingress.charge(charge, area, &mut self.pools);
        egress.enqueue(frame, charge, &mut self.store, &mut self.pools);
        self.mark_data_pending(out);
        if must_examine {
            self.update_xoff(port, priority, now);
        }
        true
    }

    /// What leaves `port` now, at most `room` frames, appended to `out`: a PFC frame that is due
    /// first, then data. True: some of them are to be edited before they are sent
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
        let before = out.len();
        if room > 0 && self.pfc_pending.contains(port) {
            self.transmit_pfc(port, now, memory, out);
        }
        let room = room - (out.len() - before);
        let egress = &mut self.egress[port];
        let has_edits = egress.send(room, now, &mut self.store, out);
        if !egress.is_backlogged() && !self.has_pfc_pending(port) {
            self.tx_pending.set(port, false);
        }
        has_edits
    }

    /// A frame that `transmit` gave out for `port` has left. (If the kernel lost it:
    /// [`Switch::kernel_lost`].)
    #[inline]
    pub fn complete<M: FrameMemory>(&mut self, port: usize, frame: FrameId, now: Instant, memory: &mut M) {
        self.complete_all(port, std::iter::once(frame), now, memory);
    }

    /// Frames that `transmit` gave out for `port` have left, in this order.
    #[inline(never)]
    pub fn complete_all<M: FrameMemory>(
        &mut self,
        port: usize,
        mut frames: impl Iterator<Item = FrameId>,
        now: Instant,
        memory: &mut M,
    ) {
        // Where it is: an iterator that was just put together word by word and is moved in larger pieces
        // waits for its stores.
        while let Some(charge) = self.complete_some(port, &mut frames, memory) {
            self.update_xoff(charge.port(), charge.priority(), now);
        }
    }

    /// Completes frames up to one whose group must be examined: that is given.
    #[inline]
    fn complete_some<M: FrameMemory>(
        &mut self,
        port: usize,
        frames: &mut impl Iterator<Item = FrameId>,
        memory: &mut M,
    ) -> Option<FrameMeta> {
        let egress = &mut self.egress[port];
        for frame in frames {
            let charge = self.store.complete(&frame);
            memory.free(frame);
            let Some(charge) = charge else {
                self.ingress[port].pfc_sent();
                continue;
            };
            egress.complete(&charge, &mut self.pools);
            if self.ingress[charge.port()].release(&charge, &mut self.pools) {
                return Some(charge);
            }
        }
        None
    }

    /// Gives a frame's cells back to its group; its queue has given back its own.
    #[inline]
    pub(crate) fn release(&mut self, charge: &FrameMeta, now: Instant) {
        let port = charge.port();
        // Thresholds that others have lowered meanwhile are the tick's.
        if self.ingress[port].release(charge, &mut self.pools) {
            self.update_xoff(port, charge.priority(), now);
        }
    }
}
