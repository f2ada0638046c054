//! Ports that close and open while the loop turns.
//!
//! Rule: what a port had sent is counted as sent, and what it had not is dropped and counted, once
//! either is known: where a line serves the port, or another thread closes its rings, some turns
//! later. A port is opened again only after that. Source: docs/behavior.md, "Ports that come and
//! go".

use crate::mailbox::Reply;
use crate::poll_loop::PollLoop;
use crate::port::Port;
use switch::Instant;
use wire::bitset::Set64;
use wire::mac::MacAddr;

impl<P: Port> PollLoop<P> {
    /// Closes a port; what it held is dropped and counted. Its rings are closed elsewhere, where
    /// there is somebody for that.
    pub(super) fn close(&mut self, port: usize, now: Instant) {
        if port >= self.ports.len() || !self.turn.close(port) {
            return;
        }
        self.turn.complete(port, &mut self.ports[port], &mut self.switch, &mut self.memory, now);
        if let Some(recorder) = self.turn.recorder() {
            recorder.port_down(port, now);
        }
        self.switch.port_down(port, now, &mut self.memory);
        if self.ports[port].detach() {
            self.let_go.set(port, true);
            self.tell_troubles(port);
        } else {
            self.close_rings(port, now);
        }
    }

    /// Closes what a closed port is made of; what it had not sent is counted, once that is known.
    pub(super) fn close_rings(&mut self, port: usize, now: Instant) {
        let is_closed = self.ports[port].close(&mut self.memory, &mut self.unsent);
        self.closing.set(port, !is_closed);
        self.take_back(port, now);
        self.tell_troubles(port);
    }

    /// What a port was made of has been closed elsewhere. False: its line has still to say what it
    /// had not sent.
    pub(super) fn reclaim(&mut self, port: usize, now: Instant) -> bool {
        if port >= self.ports.len() || !self.let_go.contains(port) {
            return true;
        }
        let is_done = self.ports[port].reclaim(&mut self.memory, &mut self.unsent);
        self.let_go.set(port, !is_done);
        self.take_back(port, now);
        is_done
    }

    /// A closed port begins again. False if there is nothing for it to begin with; nothing where
    /// its line has still to say.
    pub(super) fn reopen(
        &mut self,
        port: usize,
        mac: MacAddr,
        finish_checksums: bool,
        now: Instant,
    ) -> Option<bool> {
        let is_closed = !self.switch.is_vacant(port) && !self.turn.open_ports().contains(port);
        if !is_closed || self.let_go.contains(port) || self.closing.contains(port) {
            return Some(false);
        }
        if !self.ports[port].reopen(&mut self.memory)? {
            return Some(false);
        }
        self.turn.open(port, finish_checksums);
        self.push_parser(Set64::of(port));
        if let Some(recorder) = self.turn.recorder() {
            recorder.port_up(port, mac, now);
        }
        self.switch.port_up(port, Some(mac), now);
        Some(true)
    }

    /// Counts what a closed port had sent after all, and counts and drops what it had not.
    pub(super) fn take_back(&mut self, port: usize, now: Instant) {
        self.turn.complete(port, &mut self.ports[port], &mut self.switch, &mut self.memory, now);
        for frame in self.unsent.drain(..) {
            if let Some(recorder) = self.turn.recorder() {
                recorder.unsent(port, &frame, now);
            }
            self.switch.unsent(port, frame, now, &mut self.memory);
        }
    }

    pub(super) fn tell_troubles(&mut self, port: usize) {
        while let Some(trouble) = self.ports[port].pop_fault() {
            self.mailbox.tell(Reply::Trouble(port, trouble));
        }
    }
}
