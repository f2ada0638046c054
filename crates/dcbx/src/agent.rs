//! The agent of a port: owns the machines of LLDP and DCBX, and builds what the port advertises.
//!
//! The owner passes frames and changes of the link in, and runs [`Agent::poll`] afterwards and at
//! the time that it returned last. Everything is bounded: the neighbors, the events that wait, and
//! the frames sent in a second.

use crate::counters::Counters;
use crate::event::{Event, MAX_EVENTS};
use crate::lldp::{Neighbor, Receiver, Transmitter, TxFrame};
use crate::negotiation::port::Dcbx;
use crate::settings::AgentSettings;
use crate::status::{Operational, Status};
use core::time::Duration;
use wire::dcbx::{Cee, Cin, Ieee};
use wire::lldp::organization::Standard;
use wire::lldp::{LldpError, Lldpdu, OrgTlv};

/// LLDP and DCBX of a port.
#[derive(Debug, Clone)]
pub struct Agent {
    settings: AgentSettings,
    link_up: bool,
    transmitter: Transmitter,
    receiver: Receiver,
    /// `None` if DCBX is not configured.
    dcbx: Option<Dcbx>,
    /// What the port advertises.
    advertised: Lldpdu,
    /// Frames that are to be sent before anything else.
    tx_now: Vec<Vec<u8>>,
    counters: Counters,
    events: Vec<Event>,
}

/// What an agent has to do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PollOutput {
    /// Frames to send now.
    pub frames: Vec<Vec<u8>>,
    /// Time at which to poll again, unless something happens before; `None` for never.
    pub next: Option<Duration>,
}

impl Agent {
    /// Makes the agent of a port whose link is down.
    pub fn new(settings: AgentSettings) -> Self {
        let dcbx = settings.dcbx.as_ref().map(Dcbx::new);
        let advertised = build(&settings, dcbx.as_ref());
        Self {
            settings,
            link_up: false,
            transmitter: Transmitter::default(),
            receiver: Receiver::default(),
            dcbx,
            advertised,
            tx_now: Vec::new(),
            counters: Counters::default(),
            events: Vec::new(),
        }
    }

    /// Reports that the link went up or down.
    pub fn set_link(&mut self, now: Duration, is_up: bool) {
        if is_up == self.link_up {
            return;
        }
        self.link_up = is_up;
        if !is_up {
            self.tx_now.clear();
            self.transmitter.run(now, is_up, &self.settings.lldp);
        }
        self.run_receiver(now, None);
    }

    /// Takes a frame with LLDP's ethertype or destination that the port received.
    pub fn receive(&mut self, now: Duration, frame: &[u8]) {
        self.run_receiver(now, Some(frame));
    }

    /// Applies other settings. A port that is to have another identity withdraws the old one first.
    pub fn configure(&mut self, now: Duration, settings: AgentSettings) {
        let (old, new) = (&self.settings.system, &settings.system);
        let is_renamed = (&old.chassis, &old.port) != (&new.chassis, &new.port);
        if is_renamed && self.transmitter.is_active() {
            let frame = self.encode(&shutdown(&self.settings));
            self.tx_now.push(frame);
            self.transmitter.on_local_change();
        }
        let version = |settings: &AgentSettings| settings.dcbx.as_ref().map(|dcbx| dcbx.version);
        // Another version begins from the start: `Auto` would stay with the one that was pinned.
        let is_same_version = version(&self.settings) == version(&settings);
        self.settings = settings;
        self.dcbx = match (&self.settings.dcbx, self.dcbx.take().filter(|_| is_same_version)) {
            (Some(_), Some(dcbx)) => Some(dcbx),
            (Some(settings), None) => Some(Dcbx::new(settings)),
            (None, _) => None,
        };
        self.run_receiver(now, None);
    }

    /// Runs what is due.
    pub fn poll(&mut self, now: Duration) -> PollOutput {
        self.run_receiver(now, None);
        let mut frames = core::mem::take(&mut self.tx_now);
        match self.transmitter.run(now, self.link_up, &self.settings.lldp) {
            Some(TxFrame::Info) => frames.push(self.encode(&self.advertised.clone())),
            Some(TxFrame::Shutdown) => frames.push(self.encode(&shutdown(&self.settings))),
            None => {}
        }
        let next = [self.transmitter.deadline(), self.receiver.deadline()].into_iter().flatten().min();
        PollOutput { frames, next }
    }

    /// Returns what the dataplane applies; `None` if DCBX is not configured.
    pub fn operational(&self) -> Option<&Operational> {
        self.status().map(|status| &status.operational)
    }

    /// Returns the state of the negotiation; `None` if DCBX is not configured.
    pub fn status(&self) -> Option<&Status> {
        self.dcbx.as_ref().map(Dcbx::status)
    }

    /// Iterates over the neighbors, the oldest first.
    pub fn neighbors(&self) -> impl Iterator<Item = &Neighbor> {
        self.receiver.neighbors().iter()
    }

    /// Returns true if a neighbor may be there that the table had no room for.
    pub fn has_too_many_neighbors(&self) -> bool {
        self.receiver.neighbors().too_many()
    }

    /// Returns what the agent works by now.
    pub fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    /// Returns what the port advertises.
    pub fn advertised(&self) -> &Lldpdu {
        &self.advertised
    }

    /// Returns what was counted since the agent was made.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the last malformed frame or TLV, and when it came.
    pub fn last_error(&self) -> Option<(Duration, LldpError)> {
        self.receiver.last_error()
    }

    /// Takes what happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events)
    }

    fn run_receiver(&mut self, now: Duration, frame: Option<&[u8]>) {
        let output = self.receiver.run(now, self.link_up, frame, &self.settings, &mut self.counters);
        if output.new_neighbor {
            self.transmitter.on_new_neighbor();
        }
        self.record(output.events);
        if let Some(tlvs) = output.tlvs {
            self.counters.rx_malformed_dcbx += malformed_versions(&tlvs);
        }
        if let (Some(dcbx), Some(settings)) = (&mut self.dcbx, &self.settings.dcbx) {
            let neighbors = self.link_up.then(|| self.receiver.neighbors());
            let events = dcbx.update(settings, self.settings.system.mac, neighbors);
            self.record(events);
        }
        let advertised = build(&self.settings, self.dcbx.as_ref());
        if advertised != self.advertised {
            self.advertised = advertised;
            self.transmitter.on_local_change();
        }
    }

    fn record(&mut self, events: Vec<Event>) {
        let room = MAX_EVENTS.saturating_sub(self.events.len());
        self.counters.events_lost += events.len().saturating_sub(room) as u64;
        self.events.extend(events.into_iter().take(room));
    }

    fn encode(&mut self, lldpdu: &Lldpdu) -> Vec<u8> {
        let encoded = lldpdu.encode(self.settings.system.mac);
        self.counters.tx_frames += 1;
        self.counters.tx_omitted_tlvs += u64::from(encoded.omitted_tlvs);
        encoded.frame
    }
}

/// Returns the number of versions of DCBX whose TLVs are malformed.
fn malformed_versions(tlvs: &[OrgTlv]) -> u64 {
    let errors = [Ieee::decode(tlvs).is_err(), Cee::decode(tlvs).is_err(), Cin::decode(tlvs).is_err()];
    errors.into_iter().filter(|is_error| *is_error).count() as u64
}

fn shutdown(settings: &AgentSettings) -> Lldpdu {
    Lldpdu::new(settings.system.chassis.clone(), settings.system.port.clone(), 0)
}

/// Builds what a port advertises.
fn build(settings: &AgentSettings, dcbx: Option<&Dcbx>) -> Lldpdu {
    let (system, tlvs) = (&settings.system, &settings.lldp.tlvs);
    let mut lldpdu = Lldpdu::new(system.chassis.clone(), system.port.clone(), settings.lldp.ttl_s());
    lldpdu.port_description = tlvs.port_description.then(|| system.port_description.clone());
    lldpdu.system_name = tlvs.system_name.then(|| system.system_name.clone());
    lldpdu.system_description = tlvs.system_description.then(|| system.system_description.clone());
    lldpdu.capabilities = tlvs.capabilities.then_some(system.capabilities);
    if tlvs.management {
        lldpdu.management = system.management.clone();
    }
    if let (Some(dcbx), Some(settings)) = (dcbx, &settings.dcbx) {
        lldpdu.organization.extend(dcbx.tlvs(settings));
    }
    let standard = [
        (tlvs.port_vlan, Standard::PortVlan(system.port_vlan)),
        (tlvs.max_frame_size, Standard::MaxFrameSize(system.max_frame_bytes)),
        (tlvs.link_aggregation, Standard::NO_LINK_AGGREGATION),
    ];
    let selected = standard.into_iter().filter(|(is_selected, _)| *is_selected);
    lldpdu.organization.extend(selected.map(|(_, tlv)| tlv.to_tlv()));
    lldpdu
}
