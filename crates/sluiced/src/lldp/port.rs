//! The agent of a port.

use std::time::Duration;

use config::{Config, LldpMode, PortLldp};
use dcbx::settings::{AdminStatus, DcbxSettings, LocalSystem, PfcMode};
use dcbx::{Agent, AgentSettings};
use switch::EventRecord;
use wire::lldp::{ChassisId, ManagementAddress};
use wire::mac::MacAddr;
use xdp::PacketSender;

use crate::lldp::events::EventLimits;
use crate::ports::interface::Interface;

/// Bytes of a frame beyond the MTU: Ethernet header, tag and FCS.
const FRAME_OVERHEAD_BYTES: u32 = 14 + 4 + 4;

/// What a port advertises of itself comes from here.
pub struct Identity<'a> {
    /// Identifies the switch.
    pub chassis: MacAddr,
    /// The running configuration.
    pub config: &'a Config,
    /// Number of the port in the file.
    pub number: usize,
    /// The interface of the port.
    pub interface: &'a Interface,
}

/// An agent with what the daemon keeps for it.
pub struct PortAgent {
    pub(super) agent: Agent,
    pub(super) mode: LldpMode,
    pub(super) local: LocalSystem,
    interface: Interface,
    is_open: bool,
    /// True if the settings may have changed.
    is_stale: bool,
    /// Time of the next poll; `None` for never.
    next: Option<Duration>,
    limit: EventLimits,
    /// Frames that the kernel did not take.
    pub(super) failed_frames: u64,
}

impl PortAgent {
    /// Creates the agent of a port whose link is down.
    pub fn new(identity: &Identity) -> Self {
        let settings = identity.settings();
        Self {
            mode: identity.port().mode,
            local: settings.system.clone(),
            agent: Agent::new(settings),
            interface: identity.interface.clone(),
            is_open: false,
            is_stale: false,
            next: Some(Duration::ZERO),
            limit: EventLimits::default(),
            failed_frames: 0,
        }
    }

    /// Reads the settings again at the next opportunity.
    pub fn reconfigure(&mut self) {
        self.is_stale = true;
    }

    /// Applies the state of the interface, and settings that have changed.
    pub fn apply(&mut self, now: Duration, identity: &Identity, is_open: bool) {
        let is_other = self.interface.index != identity.interface.index;
        if self.is_stale || self.interface != *identity.interface {
            let settings = identity.settings();
            (self.mode, self.local) = (identity.port().mode, settings.system.clone());
            self.interface = identity.interface.clone();
            self.agent.configure(now, settings);
            (self.is_stale, self.next) = (false, Some(now));
        }
        if self.is_open && (is_other || !is_open) {
            self.set_link(now, false);
        }
        if !self.is_open && is_open {
            self.set_link(now, true);
        }
    }

    fn set_link(&mut self, now: Duration, is_up: bool) {
        self.is_open = is_up;
        self.agent.set_link(now, is_up);
        self.next = Some(now);
    }

    /// Passes a received frame to the agent.
    pub fn receive(&mut self, now: Duration, frame: &[u8]) {
        self.agent.receive(now, frame);
        self.next = Some(now);
    }

    /// Runs the agent if something is due: sends its frames, and reports its events.
    pub fn poll(
        &mut self,
        now: Duration,
        slot: usize,
        sender: Option<&PacketSender>,
        events: &mut Vec<EventRecord>,
    ) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.run(now, sender);
        for event in self.agent.take_events() {
            if self.limit.allows(now, &event) {
                events.push(super::events::describe(&event).of_port(slot));
            }
        }
    }

    /// Runs the agent, and sends its frames while the link is up.
    fn run(&mut self, now: Duration, sender: Option<&PacketSender>) {
        let sender = sender.filter(|_| self.is_open);
        let polled = self.agent.poll(now);
        self.next = polled.next;
        for frame in &polled.frames {
            let sent = sender.is_some_and(|sender| sender.send(self.interface.index, frame).is_ok());
            self.failed_frames += u64::from(!sent);
        }
    }

    /// Sends a shutdown frame, if the port has advertised something.
    pub fn withdraw(&mut self, now: Duration, sender: Option<&PacketSender>) {
        let mut settings = self.agent.settings().clone();
        settings.lldp.admin = AdminStatus::Off;
        self.agent.configure(now, settings);
        self.run(now, sender);
    }

    /// Events that were left out.
    pub(super) fn events_lost(&self) -> u64 {
        self.limit.left_out() + self.agent.counters().events_lost
    }
}

impl Identity<'_> {
    fn port(&self) -> &PortLldp {
        &self.config.lldp.ports[self.number]
    }

    fn settings(&self) -> AgentSettings {
        AgentSettings { system: self.system(), lldp: self.port().settings, dcbx: self.dcbx() }
    }

    /// Returns what the port negotiates. While PFC is off on all ports, it says so.
    fn dcbx(&self) -> Option<DcbxSettings> {
        let mut settings = self.config.dcbx[self.number].as_ref()?.settings.clone();
        if !self.config.pfc_enabled {
            settings.pfc.mode = PfcMode::Off;
        }
        Some(settings)
    }

    /// Returns what the port advertises of itself.
    fn system(&self) -> LocalSystem {
        let port = &self.config.switch.ports[self.number];
        let Interface { name, mac, mtu, .. } = self.interface;
        let max_frame_bytes = u16::try_from(mtu + FRAME_OVERHEAD_BYTES).unwrap_or(u16::MAX);
        LocalSystem {
            chassis: ChassisId::mac(self.chassis),
            port_description: port.name.clone(),
            system_description: concat!("Sluice lossless Ethernet switch ", env!("CARGO_PKG_VERSION"))
                .to_owned(),
            management: self.config.lldp.management.iter().copied().map(ManagementAddress::from).collect(),
            port_vlan: port.vlan.pvid().unwrap_or(0),
            max_frame_bytes,
            ..LocalSystem::bridge(&self.config.name, *mac, name)
        }
    }
}
