//! DCBX of a host: an agent as that of a switch's port, whose outcome says which pauses are
//! honored.
//!
//! Rule: without an agreement no pause is honored, as PFC of a NIC in mode `auto` is off. Source:
//! docs/dcbx.md, "A host".

use crate::args::DcbxArg;
use crate::report::DcbxReport;
use core::time::Duration;
use dcbx::settings::PfcSettings;
use dcbx::{Agent, AgentSettings};
use switch::Instant;
use wire::MacAddr;
use wire::bitset::Set8;

/// Frames of the agent that wait for room; of more, the oldest are dropped.
const MAX_WAITING: usize = 8;

/// The agent of a host, and its frames that have not been passed to the port.
#[derive(Debug)]
pub(super) struct Negotiation {
    agent: Agent,
    waiting: Vec<Vec<u8>>,
    next: Instant,
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Negotiation {
    /// Makes the agent of a host on a link that is up.
    pub(super) fn new(dcbx: DcbxArg, mac: MacAddr, interface: &str, no_drop: u8, now: Instant) -> Self {
        let willing = dcbx == DcbxArg::Willing;
        let pfc = PfcSettings { willing, no_drop, ..PfcSettings::default() };
        let mut agent = Agent::new(AgentSettings::host("sluice-host", mac, interface, pfc));
        agent.set_link(time(now), true);
        Self { agent, waiting: Vec::new(), next: now, sent: 0, received: 0 }
    }

    /// Passes a received LLDP frame to the agent.
    pub(super) fn receive(&mut self, frame: &[u8], now: Instant) {
        self.received += 1;
        self.agent.receive(time(now), frame);
        self.next = now;
    }

    /// Withdraws what the host advertised; what it received stays in its report.
    pub(super) fn withdraw(&mut self, now: Instant) {
        let settings = self.agent.settings().clone();
        self.agent.configure(time(now), settings.withdrawn());
        self.next = now;
    }

    pub(super) fn poll(&mut self, now: Instant) {
        if now >= self.next {
            let polled = self.agent.poll(time(now));
            self.waiting.extend(polled.frames);
            self.waiting.drain(..self.waiting.len().saturating_sub(MAX_WAITING));
            self.next = polled.next.map_or(Instant::NEVER, |next| Instant(next.as_nanos() as u64));
            self.agent.take_events();
        }
    }

    /// Returns when the agent is due.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Returns the frame of the agent that waits for room the longest.
    pub(super) fn waiting(&self) -> Option<&[u8]> {
        self.waiting.first().map(Vec::as_slice)
    }

    /// Drops the frame that was sent.
    pub(super) fn sent_waiting(&mut self) {
        self.waiting.remove(0);
    }

    /// Returns the priorities that both ends agree are no-drop, as a mask.
    pub(super) fn no_drop(&self) -> u8 {
        self.agent.operational().map_or(0, |operational| operational.no_drop)
    }

    pub(super) fn report(&self) -> Option<DcbxReport> {
        let status = self.agent.status()?;
        let list = |mask: u8| Set8::from_bits(mask).into_iter().map(|priority| priority as u8).collect();
        Some(DcbxReport {
            version: status.version.to_string(),
            willing: status.pfc.local_willing,
            state: status.pfc.state.to_string(),
            reason: status.pfc.reason.to_string(),
            local_no_drop: list(status.pfc.local),
            peer_no_drop: status.pfc.peer.map(list),
            no_drop: list(status.operational.no_drop),
            lldp_sent: self.sent,
            lldp_received: self.received,
        })
    }
}

fn time(now: Instant) -> Duration {
    Duration::from_nanos(now.0)
}
