//! Closing and opening of ports while the loop runs.
//!
//! Rule: frames that a port has sent count as sent, and frames that it has not sent are dropped
//! and counted, once that is known. Where an I/O loop serves the port or another thread closes its
//! rings, that takes some iterations. A port is opened again only afterwards. A port that is shut
//! down while its link stays up receives what waits in its rings, and then releases its peer: it
//! is closed once its XON has left. Received frames that are left in closed rings are an event.
//! Source: docs/behavior.md, "Ports that come and go".

use crate::mailbox::Reply;
use crate::poll_loop::{PollLoop, Shutdown};
use crate::port::{Port, PortFault};
use switch::{Instant, Nanos};
use wire::bitset::Set64;
use wire::mac::MacAddr;

/// The longest time that a port stays open to receive what waits, and then for its XON to leave.
const RELEASE_NS: Nanos = 1_000_000;

impl<P: Port> PollLoop<P> {
    /// Closes a port. Its frames are dropped and counted. Another thread closes its rings, where
    /// there is one for that.
    pub(super) fn close(&mut self, port: usize, now: Instant) {
        if port >= self.ports.len() || !self.iteration.close(port) {
            return;
        }
        self.shutdowns[port] = None;
        self.iteration.complete(port, &mut self.ports[port], &mut self.switch, &mut self.memory, now);
        self.switch.port_down(port, now, &mut self.memory);
        if self.ports[port].detach() {
            self.detached.set(port, true);
            self.report_faults(port);
        } else {
            self.close_rings(port, now);
        }
    }

    /// Closes a port whose link may stay up, as for an operator. A peer that is paused is sent XON
    /// first: it would wait until the pause ends. Returns false if the XON has not left yet; then
    /// call again.
    pub(super) fn shut_down(&mut self, port: usize, now: Instant) -> bool {
        if !self.iteration.open_ports().contains(port) {
            return true;
        }
        let shutdown = *self.shutdowns[port].get_or_insert(Shutdown::Receiving(now));
        let since = match shutdown {
            Shutdown::Receiving(since) if self.ports[port].rx_waiting() > 0 && !is_late(since, now) => {
                return false;
            }
            Shutdown::Receiving(_) => {
                self.shutdowns[port] = Some(Shutdown::Releasing(now));
                now
            }
            Shutdown::Releasing(since) => since,
        };
        // Each time: what was received meanwhile may have put a priority into XOFF again.
        self.switch.release_peer(port);
        let (rings, memory) = (&mut self.ports[port], &mut self.memory);
        self.iteration.send_pfc(port, rings, &mut self.switch, memory, now);
        let is_released = self.switch.is_peer_released(port);
        if !is_released && !is_late(since, now) && self.ports[port].is_up() {
            return false;
        }
        if !is_released {
            self.mailbox.notify(Reply::Fault(port, PortFault::PeerNotReleased));
        }
        self.close(port, now);
        true
    }

    /// Closes the rings of a closed port. Unsent frames are counted once they are known.
    pub(super) fn close_rings(&mut self, port: usize, now: Instant) {
        let before = self.ports[port].kernel_counters().rx_closed_frames;
        let is_closed = self.ports[port].close(&mut self.memory, &mut self.unsent);
        self.closing.set(port, !is_closed);
        self.count_returned(port, now);
        self.report_left_behind(port, before, now);
        self.report_faults(port);
    }

    /// Reclaims the frames of a port whose rings were closed elsewhere. Returns false if its I/O
    /// loop has not reported the unsent frames yet.
    pub(super) fn reclaim(&mut self, port: usize, now: Instant) -> bool {
        if port >= self.ports.len() || !self.detached.contains(port) {
            return true;
        }
        let before = self.ports[port].kernel_counters().rx_closed_frames;
        let is_done = self.ports[port].reclaim(&mut self.memory, &mut self.unsent);
        self.detached.set(port, !is_done);
        self.count_returned(port, now);
        self.report_left_behind(port, before, now);
        is_done
    }

    /// Opens a closed port again. Returns false if no opened rings are available, and `None` if its
    /// I/O loop has not replied yet.
    pub(super) fn reopen(
        &mut self,
        port: usize,
        mac: MacAddr,
        complete_checksums: bool,
        now: Instant,
    ) -> Option<bool> {
        let is_closed = !self.switch.is_vacant(port) && !self.iteration.open_ports().contains(port);
        if !is_closed || self.detached.contains(port) || self.closing.contains(port) {
            return Some(false);
        }
        if !self.ports[port].reopen(&mut self.memory)? {
            return Some(false);
        }
        self.iteration.open(port, complete_checksums);
        self.push_parser(Set64::of(port));
        self.switch.port_up(port, mac, now);
        Some(true)
    }

    /// Counts the frames that a closed port had sent, and drops and counts the unsent ones.
    pub(super) fn count_returned(&mut self, port: usize, now: Instant) {
        self.iteration.complete(port, &mut self.ports[port], &mut self.switch, &mut self.memory, now);
        for frame in self.unsent.drain(..) {
            self.switch.abort_tx(port, frame, now, &mut self.memory);
        }
    }

    /// Reports the received frames that were left in the closed rings, given the number `before`.
    /// A port that was removed has no name here any more.
    fn report_left_behind(&mut self, port: usize, before: u64, now: Instant) {
        let frames = self.ports[port].kernel_counters().rx_closed_frames.saturating_sub(before);
        if frames == 0 {
            return;
        }
        if self.switch.is_vacant(port) {
            self.mailbox.notify(Reply::Fault(port, PortFault::LeftInRings(frames)));
        } else {
            self.switch.kernel_dropped(port, frames, now);
        }
    }

    pub(super) fn report_faults(&mut self, port: usize) {
        while let Some(fault) = self.ports[port].pop_fault() {
            self.mailbox.notify(Reply::Fault(port, fault));
        }
    }
}

fn is_late(since: Instant, now: Instant) -> bool {
    now.since(since) >= RELEASE_NS
}
