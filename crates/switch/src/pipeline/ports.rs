//! Link state of a port: what happens to frames when it goes down, and when they are not sent.
//!
//! Rule: a port that goes down forgets the pauses of its peer and what it advertised to its peer.
//! Addresses learned on it are unconfirmed when it comes up again, as another peer may be there;
//! where no-drop frames to them are flooded, they are forgotten at once. Frames queued for it are
//! dropped and counted, and so are frames that were handed to it and not sent. Cells are released
//! as if the frames had left. Before an operator takes a port down, its peer is sent XON. When the
//! port comes up, the XOFF state is advertised to the new peer, and the address of the peer's
//! interface is entered where the owner knows it. Source: docs/behavior.md, "Bridging",
//! "Invariants", 5; docs/kernel/af-xdp.md.

use crate::fifo_set::FifoSet;
use crate::forwarding::parsed_frame::{Disposition, RxFrame};
use crate::frame::FrameId;
use crate::frame::memory::FrameMemory;
use crate::frame::meta::{FdbKey, FrameMeta};
use crate::monitor::counters::DropReason;
use crate::monitor::event::Event;
use crate::pipeline::Switch;
use crate::pipeline::drops::departing;
use crate::settings::DownPortAction;
use crate::time::Instant;
use wire::bitset::Set64;
use wire::mac::MacAddr;

impl Switch {
    /// Takes a port down: drops and counts the frames queued for it, and forgets its addresses.
    pub fn port_down<M: FrameMemory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        if !self.sets.up.contains(port) {
            return;
        }
        self.sets.up.set(port, false);
        self.sets.tx_pending.set(port, false);
        self.sets.pfc_pending.set(port, false);
        self.forget_addresses_if_flooding(port);
        self.egress[port].clear_pauses(now);
        self.ingress[port].reset_peer();
        self.observe_rx_backlog(port, 0, now);
        self.flush(port, now, memory);
        self.poll_watchdog(port, now, memory);
        self.events.push(now, Event::PortDown { port });
    }

    /// Prepares a port to be taken down by an operator: its peer, whose link stays up, is sent XON
    /// for what it was paused. The port must go down once that has left.
    pub fn release_peer(&mut self, port: usize) {
        if self.sets.up.contains(port) {
            self.ingress[port].release_peer();
            self.mark_pfc_pending(Set64::of(port));
        }
    }

    /// True if the peer of this port has been sent XON, and that has left.
    pub fn is_peer_released(&self, port: usize) -> bool {
        self.ingress[port].is_peer_released()
    }

    /// Brings a port up. It sends PFC from `mac` from now on (`None`: as before).
    pub fn port_up(&mut self, port: usize, mac: Option<MacAddr>, now: Instant) {
        if self.sets.up.contains(port) || self.is_vacant(port) {
            return;
        }
        self.sets.up.set(port, true);
        self.fdb.unconfirm_port(port);
        if let Some(mac) = mac {
            self.ingress[port].set_mac(mac);
        }
        self.mark_pfc_pending(Set64::of(port)); // advertise the XOFF state
        self.events.push(now, Event::PortUp { port });
    }

    /// Enters the address of the interface at the other end of a port, from which no frame may ever
    /// come, in the VLAN of untagged frames.
    pub fn peer_address(&mut self, port: usize, mac: MacAddr, now: Instant) {
        let address = FdbKey::of(mac);
        if !self.sets.up.contains(port) || mac == MacAddr::default() || address.is_group() {
            return;
        }
        let address = match &self.vlans {
            None => Some(address),
            Some(vlans) => vlans.vid_of_frame(port, None).map(|vid| address.in_vlan(vid)),
        };
        if let Some(address) = address {
            self.fdb.learn_peer(address, port, now);
        }
    }

    /// Forgets the addresses learned on a port that is down, unless no-drop frames to them are
    /// dropped while it is down.
    pub(crate) fn forget_addresses_if_flooding(&mut self, port: usize) {
        let action = self.settings.bridge.no_drop_to_down_port;
        if action == DownPortAction::Flood || self.is_vacant(port) {
            self.fdb.forget_port(port);
        }
    }

    /// Drops all frames queued for a port.
    pub fn flush<M: FrameMemory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        self.flush_queues(port, (FifoSet::ALL, DropReason::PortDown), now, memory);
    }

    /// Drops the frames in some FIFOs of a port.
    pub(crate) fn flush_queues<M: FrameMemory>(
        &mut self,
        port: usize,
        what: (FifoSet, DropReason),
        now: Instant,
        memory: &mut M,
    ) {
        loop {
            let flushed = self.egress[port].flush_head(what, &mut self.frame_queues, &mut self.pools, now);
            let Some((frame, charge)) = flushed else { return };
            let original = self.frame_queues.original_of(&frame).map(|(original, _)| original);
            memory.on_drop(original.as_ref().unwrap_or(&frame), &departing(port, what.1, &charge));
            if let Some(charge) = self.complete_data(port, frame, now, memory) {
                self.record_loss(port, what.1, &charge);
            }
        }
    }

    /// Counts `frames` completions of frames that the kernel did not have, or returned twice. The
    /// port has ignored them.
    pub fn stray_frames(&mut self, port: usize, frames: u64, now: Instant) {
        self.events.push(now, Event::StrayFrames { port, frames });
    }

    /// Counts `frames` more received frames on `port` that the kernel or the NIC dropped for want
    /// of a buffer. A call with 0 now and then makes an event of drops not reported yet.
    pub fn kernel_dropped(&mut self, port: usize, frames: u64, now: Instant) {
        let is_last = !self.sets.up.contains(port);
        if let Some(frames) = self.ingress[port].rx_backlog().kernel_dropped(frames, is_last, now) {
            self.events.push(now, Event::KernelDropped { port, frames });
        }
    }

    /// Drops a frame that `transmit` returned for `port` and that will never leave, as the port was
    /// closed.
    pub fn abort_tx<M: FrameMemory>(&mut self, port: usize, frame: FrameId, now: Instant, memory: &mut M) {
        if let Some(charge) = self.complete_data(port, frame, now, memory) {
            self.egress[port].abort_tx(&charge, &mut self.pools);
            self.record_loss(port, DropReason::PortDown, &charge);
        } else {
            self.ingress[port].pfc_sent(now);
        }
    }

    /// Completes a frame of `port` that was not sent, and releases it at ingress. Returns its
    /// metadata; `None` for a PFC frame.
    pub(crate) fn complete_data<M: FrameMemory>(
        &mut self,
        port: usize,
        frame: FrameId,
        now: Instant,
        memory: &mut M,
    ) -> Option<FrameMeta> {
        let Some(charge) = self.frame_queues.complete(&frame) else {
            return self.complete_copy_or_control_slow(port, frame, now, memory);
        };
        memory.free(frame);
        self.release(&charge, now);
        Some(charge)
    }

    /// Prepares the switch to end: every no-drop priority is in XOFF from now on, permanently,
    /// since frames that peers sent after an XON would not be forwarded.
    pub fn stop(&mut self) {
        for port in self.sets.up {
            self.ingress[port].stop();
            self.mark_pfc_pending(Set64::of(port));
        }
    }

    /// Handles received frames while the switch ends: control frames are honored, data frames are
    /// dropped and counted.
    pub fn drain_control<M: FrameMemory>(
        &mut self,
        arrivals: &mut Vec<RxFrame>,
        now: Instant,
        memory: &mut M,
    ) {
        for mut arrival in arrivals.drain(..) {
            match arrival.disposition {
                Disposition::Control => self.receive_mac_control(&mut arrival, now, memory),
                Disposition::Punted => self.punt(&mut arrival),
                _ => self.drop_invalid(&mut arrival, DropReason::PortDown, memory),
            }
        }
    }
}
