//! LLDP of all ports: their agents, and the frames between agents and interfaces.
//!
//! Rule: received frames come from the poll loop over bounded rings ([`PuntRings`]), and frames are
//! sent over a packet socket for each slot, beside the queues of the switch: they never wait behind
//! data, no pause stops them, and the loop has no further input to record. An agent's link is up
//! while its interface has a carrier and the poll loop carries frames for it. Source: docs/dcbx.md,
//! "Frames".

mod agreement_hold_off;
mod events;
mod port;
mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use config::Negotiated;
use control::v1;
use dataplane::PuntRings;
use switch::EventRecord;
use tracing::warn;
use wire::mac::MacAddr;
use xdp::PacketSender;

use crate::control_loop::running_config::RunningConfig;
use crate::lldp::agreement_hold_off::AgreementHolds;
use crate::lldp::port::PortAgent;
use crate::ports::fsm::LinkState;
use crate::ports::interface::DeviceKind;
use crate::ports::supervisor::PortSupervisor;

/// The agents, by slot.
pub struct Lldp {
    /// Frames that the ports received.
    rings: Arc<PuntRings>,
    /// What the agents send on, by slot; `None` if it could not be opened yet. They stay open, as a
    /// close waits for the kernel.
    senders: Vec<Option<PacketSender>>,
    /// Start of the agents' clock.
    started: Instant,
    /// Identifies the switch: the address of the first port that had an interface.
    chassis: Option<MacAddr>,
    ports: Vec<Option<PortAgent>>,
    events: Vec<EventRecord>,
    /// True once the switch ends.
    has_stopped: bool,
    holds: AgreementHolds,
}

impl Lldp {
    /// Creates the agents' owner; `started` is the start of the daemon.
    pub fn new(rings: Arc<PuntRings>, started: Instant) -> Self {
        Self {
            rings,
            senders: Vec::new(),
            started,
            chassis: None,
            ports: Vec::new(),
            events: Vec::new(),
            has_stopped: false,
            holds: AgreementHolds::default(),
        }
    }

    /// Passes received frames and changes of interfaces to the agents, and sends what is due.
    pub fn poll(&mut self, live: &RunningConfig, supervisor: &PortSupervisor) {
        if self.has_stopped {
            return;
        }
        let now = self.now();
        for (number, &slot) in live.slots().in_config_order().iter().enumerate() {
            let Some(interface) = supervisor.interface(slot) else { continue };
            if interface.kind == DeviceKind::VhostUser {
                continue; // there is no interface to send on, and a guest negotiates nothing
            }
            let chassis = *self.chassis.get_or_insert(interface.mac);
            let identity = port::Identity { chassis, config: live.config(), number, interface };
            if self.ports.len() <= slot {
                self.ports.resize_with(slot + 1, || None);
                self.senders.resize_with(slot + 1, || None);
            }
            let sender = &mut self.senders[slot];
            if sender.is_none() {
                let opened = PacketSender::open();
                // Once: it is tried again at each poll, and frames that are not sent are counted.
                if let (Err(error), None) = (&opened, &self.ports[slot]) {
                    warn!(%error, interface = interface.name, "LLDP sends nothing");
                }
                *sender = opened.ok();
            }
            let agent = self.ports[slot].get_or_insert_with(|| PortAgent::new(&identity));
            // The port of a NIC that settles is open without a carrier.
            let is_up = supervisor.is_open(slot) && interface.state == LinkState::Carrier;
            agent.apply(now, &identity, is_up);
            while let Some(frame) = self.rings.pop(slot) {
                agent.receive(now, frame.bytes());
            }
            agent.poll(now, slot, sender.as_ref(), &mut self.events);
        }
    }

    /// Has the agents read their settings again, as the configuration has changed.
    pub fn reconfigure(&mut self) {
        self.ports.iter_mut().flatten().for_each(PortAgent::reconfigure);
    }

    /// Withdraws what a removed port advertised, and forgets its neighbors.
    pub fn remove(&mut self, slot: usize) {
        let now = self.now();
        if let Some(mut agent) = self.ports.get_mut(slot).and_then(Option::take) {
            agent.withdraw(now, self.senders.get(slot).and_then(Option::as_ref));
        }
        while self.rings.pop(slot).is_some() {}
    }

    /// Withdraws what all ports advertised, as the switch ends.
    pub fn stop(&mut self) {
        self.has_stopped = true;
        (0..self.ports.len()).for_each(|slot| self.remove(slot));
    }

    /// Returns the running configuration with what the peers agreed to now, if that differs. Of a
    /// port that has changed shortly before, the change waits.
    pub fn agreed(&mut self, live: &RunningConfig) -> Option<RunningConfig> {
        let at = self.now();
        let mut next = None;
        for (&slot, dcbx) in live.slots().in_config_order().iter().zip(&live.config().dcbx) {
            let agent = self.ports.get(slot).and_then(Option::as_ref).filter(|_| dcbx.is_some());
            let now = agent.and_then(|port| port.agent.status()).map(Negotiated::of);
            let now = now.filter(|now| *now != Negotiated::default());
            if self.holds.admits(slot, now.as_ref() != live.negotiated(slot), at) {
                next = Some(next.unwrap_or_else(|| live.clone()).with_negotiated(slot, now));
            }
        }
        next
    }

    /// Postpones the agreement of a port that the poll loop has refused: a storm there waits for
    /// manual recovery. Those of other ports, which were refused with it, are tried at once.
    /// Returns true if this agreement is refused for the first time.
    pub fn postpone(&mut self, slot: usize) -> bool {
        let now = self.now();
        self.holds.refuse(slot, now)
    }

    /// Takes the events to report.
    pub fn events(&mut self) -> impl Iterator<Item = EventRecord> + '_ {
        self.events.drain(..)
    }

    /// Returns state and counters of a port; `None` while its interface has never been there.
    pub fn state(&self, slot: usize) -> Option<v1::Lldp> {
        let agent = self.ports.get(slot)?.as_ref()?;
        Some(report::state(agent, self.rings.lost(slot)))
    }

    /// Returns the negotiation of a port; `None` if it does not negotiate.
    pub fn dcbx(&self, slot: usize) -> Option<v1::Dcbx> {
        report::dcbx(self.ports.get(slot)?.as_ref()?.agent.status()?).into()
    }

    /// Describes all ports, in the order of the file.
    pub fn describe(&self, live: &RunningConfig) -> v1::LldpPorts {
        let now = self.now();
        let slots = live.slots().in_config_order().iter();
        let port = |&slot: &usize| {
            let agent = self.ports.get(slot)?.as_ref()?;
            let mut port = report::port(agent, now, self.rings.lost(slot));
            port.name = live.slots().name(slot)?.to_owned();
            port.interface = live.slots().interface(slot)?.to_owned();
            Some(port)
        };
        v1::LldpPorts { ports: slots.filter_map(port).collect() }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}
