//! Supervises the ports of a running switch and their interfaces: which component gets which
//! command when a port comes or goes. [`crate::ports::fsm`] decides when.
//!
//! A port that a reload adds is opened before the poll loop gets it, so that a port which cannot be
//! opened is rejected and nothing has changed ([`PortSupervisor::prepare`]). A port that a reload
//! removes leaves its slot once its sockets are closed and the poll loop has its frames back.
//!
//! A port's sockets are closed only after the guard has dropped them, since their descriptor
//! numbers may soon be reused for another file.

use std::time::{Duration, Instant};

use control::{PortFacts, v1};
use dataplane::LoopCommand;
use switch::{EventRecord, Severity, SwitchSettings};
use tracing::warn;

use crate::ports::carrier::{Change, LinkState};
use crate::ports::core_assignment::CoreAssignment;
use crate::ports::fsm::{PortAction, PortEvent, PortFsm};
use crate::ports::link_monitor::{Interface, Kind, LinkEvent, LinkMonitor};
use crate::ports::worker::{Answer, Assignment, PortWorker};
use crate::stall_guard::{Guard, PortTap};

/// Interval of the queries of all interfaces.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The ports by slot.
pub struct PortSupervisor {
    ports: Vec<Option<Port>>,
    /// The ports that a reload is about to add.
    coming: Vec<PendingPort>,
    keeper: PortWorker,
    /// True if an interface has changed.
    altered: bool,
    /// Sends PFC on behalf of stalled loops; `None` if that is not configured.
    guard: Option<Guard>,
    /// The core of each slot.
    servers: CoreAssignment,
    /// Time of the next query of the interfaces.
    next_check: Instant,
    /// Commands for the poll loop.
    commands: Vec<LoopCommand>,
    /// Events for the journal and the log.
    events: Vec<EventRecord>,
}

struct Port {
    life: PortFsm,
    interface: Interface,
    facts: PortFacts,
    /// RX queues for which there is memory.
    queues: u32,
    /// Why the last attempt to open the port failed.
    failure: Option<String>,
    /// True if the port has been removed, and leaves its slot once all of it is closed.
    leaves: bool,
}

/// A port that a reload is about to add.
struct PendingPort {
    slot: usize,
    port: Port,
    /// The result of opening the port, once it is known.
    opened: Option<Result<(), String>>,
}

impl PortSupervisor {
    /// Creates the supervisor of ports that have just been opened on these interfaces. `queues` are
    /// the RX queues of each port, `servers` the cores.
    pub fn new(
        (keeper, guard): (PortWorker, Option<Guard>),
        servers: &CoreAssignment,
        facts: Vec<(PortFacts, u32)>,
        interfaces: Vec<Interface>,
        links: &LinkMonitor,
    ) -> Self {
        let now = Instant::now();
        let port = |(number, ((facts, queues), interface)): (usize, ((PortFacts, u32), Interface))| {
            let life = PortFsm::new(!links.is_waiting(number), interface.kind == Kind::Hardware, now);
            Some(Port { life, interface, facts, queues, failure: None, leaves: false })
        };
        let ports = facts.into_iter().zip(interfaces).enumerate().map(port).collect();
        Self {
            ports,
            coming: Vec::new(),
            keeper,
            altered: true,
            guard,
            servers: servers.clone(),
            next_check: now + CHECK_INTERVAL,
            commands: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The facts about the interface of the port in this slot, as reported to clients.
    pub fn facts(&self, slot: usize) -> Option<PortFacts> {
        let Port { facts, interface, .. } = self.ports.get(slot)?.as_ref()?;
        let mut facts = PortFacts { mtu_bytes: interface.mtu, ..facts.clone() };
        facts.link.link_speed_bps = interface.speed_bps.unwrap_or(0);
        facts.link.core = self.servers.core(slot) as u32;
        Some(facts)
    }

    /// The interface of the port in this slot, as the kernel last described it.
    pub fn interface(&self, slot: usize) -> Option<&Interface> {
        Some(&self.ports.get(slot)?.as_ref()?.interface)
    }

    /// True if an interface has changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.altered)
    }

    /// RX queues of all ports for which there is memory, including those of leaving ports.
    pub fn queues(&self) -> usize {
        self.ports.iter().flatten().map(|port| port.queues as usize).sum()
    }

    /// True if an operation is in progress that will complete soon.
    pub fn is_busy(&self) -> bool {
        !self.coming.is_empty() || self.ports.iter().flatten().any(|port| port.leaves || port.life.is_busy())
    }

    /// True if these slots are as the last reload requires: with open ports, or vacant.
    pub fn are_settled(&self, slots: &[usize]) -> bool {
        let port = |slot: &usize| self.ports.get(*slot).and_then(Option::as_ref);
        slots.iter().filter_map(port).all(|port| !port.leaves && !port.life.is_busy())
    }

    /// Opens a port on this interface in a vacant slot. The poll loop takes it if all ports of the
    /// same reload can be opened.
    pub fn prepare(&mut self, slot: usize, interface: Interface, (queues, min_posted): (u32, u32)) {
        let name = interface.name.clone();
        self.keeper.assign(slot, Assignment { interface: name.clone(), most_queues: queues, min_posted });
        self.keeper.open(slot);
        let facts = PortFacts {
            interface: name,
            xdp_mode: "native".to_owned(),
            vlan_tags_restored: false,
            mtu_bytes: 0,
            link: v1::Link::default(),
        };
        let life = PortFsm::opening(interface.kind == Kind::Hardware, Instant::now());
        let port = Port { life, interface, facts, queues, failure: None, leaves: false };
        self.coming.push(PendingPort { slot, port, opened: None });
    }

    /// True if all prepared ports are open; otherwise the slot of a port that failed, and the
    /// reason. `None` if the result is not known yet.
    pub fn prepared(&self) -> Option<Result<(), (usize, String)>> {
        let answers = self.coming.iter().map(|coming| Some((coming.slot, coming.opened.as_ref()?)));
        let answers: Vec<_> = answers.collect::<Option<_>>()?;
        let failed = answers.into_iter().find_map(|(slot, answer)| Some((slot, answer.clone().err()?)));
        Some(failed.map_or(Ok(()), Err))
    }

    /// The slots of the prepared ports, and their interfaces.
    pub fn coming(&self) -> impl Iterator<Item = (usize, &Interface)> {
        self.coming.iter().map(|coming| (coming.slot, &coming.port.interface))
    }

    /// Closes the prepared ports.
    pub fn abort(&mut self) {
        for coming in self.coming.drain(..) {
            self.keeper.close(coming.slot);
        }
    }

    /// Handles new settings that the poll loop has applied: the prepared ports exist from now on,
    /// and the ports in the `removed` slots do not.
    pub fn settle(&mut self, removed: &[usize], settings: &SwitchSettings) {
        for &slot in removed {
            if let Some(port) = &mut self.ports[slot] {
                port.life.end();
                port.leaves = true;
            }
        }
        self.ports.resize_with(self.ports.len().max(settings.ports.len()), || None);
        for PendingPort { slot, port, .. } in std::mem::take(&mut self.coming) {
            self.ports[slot] = Some(port);
            self.altered = true;
            self.on_event(slot, PortEvent::Opened);
        }
    }

    /// Passes new settings on to the guard.
    pub fn apply(&self, settings: &SwitchSettings) {
        if let Some(guard) = &self.guard {
            guard.apply(settings);
        }
    }

    /// Handles a change of a port's interface.
    pub fn note(&mut self, LinkEvent { port, change, interface }: LinkEvent) {
        let Some(Some(Port { facts, interface: before, life, .. })) = self.ports.get_mut(port) else {
            return;
        };
        if let Some(interface) = interface {
            *before = interface;
            self.altered = true;
        }
        let name = &facts.interface;
        let (kind, severity, what) = match change {
            Change::Came => ("carrier_came", Severity::Info, "has its carrier: the port forwards"),
            Change::Lost(LinkState::Gone) => {
                ("interface_lost", Severity::Warning, "is gone: the port goes down, the others go on")
            }
            Change::Lost(LinkState::Down) => {
                ("interface_lost", Severity::Warning, "is down: the port goes down, the others go on")
            }
            Change::Lost(LinkState::NoCarrier) if life.settles(Instant::now()) => (
                "carrier_awaited",
                Severity::Info,
                "begins again, as NICs do when something is put on them: the port waits for its carrier",
            ),
            Change::Back if life.awaits_carrier() => {
                ("carrier_came", Severity::Info, "has its carrier: the port forwards")
            }
            Change::Lost(LinkState::NoCarrier | LinkState::Carrier) => (
                "interface_lost",
                Severity::Warning,
                "has lost its carrier: the port goes down, the others go on",
            ),
            Change::Back => ("interface_back", Severity::Info, "is back: the port is opened again"),
            Change::Altered => return,
        };
        let message = format!("the interface {name} {what}");
        self.events.push(EventRecord::new(kind, severity, message).of_port(port));
        self.on_event(port, PortEvent::Carrier(!matches!(change, Change::Lost(_))));
    }

    /// Handles the report that the poll loop has opened a port again, or found no sockets for it.
    pub fn note_posted(&mut self, port: usize, is_up: bool) {
        self.on_event(port, PortEvent::Posted(is_up));
    }

    /// Queries all interfaces periodically, since changes made with `ethtool` to the device below a
    /// macvlan are not reported.
    fn look(&mut self) {
        let now = Instant::now();
        if now < self.next_check {
            return;
        }
        self.next_check = now + CHECK_INTERVAL;
        for (slot, port) in self.ports.iter().enumerate() {
            if port.as_ref().is_some_and(|port| port.life.is_open()) {
                self.keeper.poll(slot);
            }
        }
    }

    /// Takes the state of a link, and reports new settings that harm frames.
    fn take_link(&mut self, slot: usize, link: v1::Link) {
        let Some(Some(Port { facts, .. })) = self.ports.get_mut(slot) else { return };
        let before = std::mem::replace(&mut facts.link, link);
        for caution in facts.link.cautions.iter().filter(|caution| !before.cautions.contains(caution)) {
            let v1::Caution { setting, harm, cure } = caution;
            let message = format!("the interface {} ({setting}): {harm}: {cure}", facts.interface);
            let event = EventRecord::new("interface_harms_frames", Severity::Warning, message);
            self.events.push(event.of_port(slot));
        }
    }

    /// Handles sockets that the poll loop has detached, answers of the port worker, and timers.
    pub fn poll(&mut self, settings: impl Fn() -> SwitchSettings) {
        self.look();
        for port in 0..self.ports.len() {
            if self.keeper.has_detached(port) {
                self.on_event(port, PortEvent::LetGo);
            }
        }
        while let Some((port, answer)) = self.keeper.answer() {
            if let Some(happening) = self.take(port, answer, &settings) {
                self.on_event(port, happening);
            }
        }
        for port in 0..self.ports.len() {
            self.on_event(port, PortEvent::Time);
            if self.ports[port].as_ref().is_some_and(|port| port.leaves && port.life.is_closed()) {
                self.keeper.close(port); // sockets that were opened and never taken
                self.ports[port] = None;
            }
        }
    }

    /// Takes the commands for the poll loop.
    pub fn commands(&mut self) -> impl Iterator<Item = LoopCommand> + '_ {
        self.commands.drain(..)
    }

    /// Takes the events to report.
    pub fn events(&mut self) -> impl Iterator<Item = EventRecord> + '_ {
        self.events.drain(..)
    }

    /// Prevents ports from being opened again, since the switch is about to end.
    pub fn wind_up(&mut self) {
        self.ports.iter_mut().flatten().for_each(|port| port.life.end());
    }

    /// Converts an answer of the port worker to an event of the port. `None` for a port that does
    /// not exist yet, or no longer.
    fn take(
        &mut self,
        number: usize,
        answer: Answer,
        settings: &impl Fn() -> SwitchSettings,
    ) -> Option<PortEvent> {
        if let Some(coming) = self.coming.iter_mut().find(|coming| coming.slot == number) {
            match answer {
                Answer::Opened => coming.opened = Some(Ok(())),
                Answer::Failed(why) => coming.opened = Some(Err(why)),
                Answer::Assigned | Answer::Closed | Answer::Attached { .. } | Answer::Looked(_) => {}
            }
            return None;
        }
        let link = match &answer {
            Answer::Looked(link) | Answer::Attached { facts: PortFacts { link, .. }, .. } => {
                Some(link.clone())
            }
            _ => None,
        };
        if let Some(link) = link {
            self.take_link(number, link);
        }
        let port = self.ports.get_mut(number)?.as_mut()?;
        Some(match answer {
            Answer::Assigned | Answer::Looked(_) => return None,
            Answer::Closed => PortEvent::Closed,
            Answer::Opened => PortEvent::Opened,
            // The poll loop has detached the port meanwhile. Its sockets are about to be closed,
            // and the guard must not get them.
            Answer::Attached { .. } if !port.life.is_attaching() => return None,
            Answer::Attached { facts, fds, packets } => {
                (port.facts, port.failure) = (facts, None);
                match (&self.guard, packets) {
                    (Some(guard), Some(packets)) => {
                        let gate = PortTap { mac: port.interface.mac, fds, packets };
                        guard.remember(number, gate, &settings());
                    }
                    (Some(_), None) => {
                        warn!(interface = port.facts.interface, "the guard cannot send PFC for this port");
                    }
                    (None, _) => {}
                }
                PortEvent::Attached
            }
            Answer::Failed(why) => {
                if port.failure.as_ref() != Some(&why) {
                    let message = format!("the port cannot be opened, and that is tried again: {why}");
                    let event = EventRecord::new("port_unusable", Severity::Warning, message);
                    self.events.push(event.of_port(number));
                    port.failure = Some(why);
                }
                PortEvent::Failed
            }
        })
    }

    fn on_event(&mut self, number: usize, happening: PortEvent) {
        let Some(Some(port)) = self.ports.get_mut(number) else { return };
        let Some(step) = port.life.note(happening, Instant::now()) else { return };
        match step {
            PortAction::TakeDown => self.commands.push(LoopCommand::PortDown(number)),
            PortAction::Close => {
                if let Some(guard) = &self.guard {
                    guard.forget(number);
                }
                self.keeper.close(number);
            }
            PortAction::Reclaim => self.commands.push(LoopCommand::PortClosed(number)),
            PortAction::Open => self.keeper.open(number),
            PortAction::Join => self.commands.push(LoopCommand::PortUp {
                port: number,
                mac: port.interface.mac,
                finish_checksums: port.interface.kind.is_virtual(),
            }),
            PortAction::Attach => self.keeper.attach(number),
        }
    }
}
