//! The ports of a running switch and their interfaces: who is told what when one comes or goes. When to do what is
//! [`crate::life`]'s rule.
//!
//! A port's sockets are only closed once the guard has forgotten them: their numbers may soon be another file's.

use std::time::Instant;

use control::PortFacts;
use dataplane::Command;
use switch::{Description, Severity, SwitchSettings};
use tracing::warn;

use crate::carrier::{Change, Seen};
use crate::guard::{Gate, Guard};
use crate::keeper::{Answer, Keeper};
use crate::life::{Happening, Life, Step};
use crate::links::{Interface, Links, Notice};

/// The ports in their order.
pub struct Lives {
    ports: Vec<Port>,
    keeper: Keeper,
    /// Stands in for the loop, unless that is not wanted.
    guard: Option<Guard>,
    /// For the loop.
    commands: Vec<Command>,
    /// For the journal and the log.
    events: Vec<Description>,
}

struct Port {
    life: Life,
    interface: Interface,
    facts: PortFacts,
    /// Why it could not be opened when that was last tried.
    failure: Option<String>,
}

impl Lives {
    /// Of ports that have just been opened on these interfaces.
    pub fn new(
        keeper: Keeper,
        guard: Option<Guard>,
        facts: Vec<PortFacts>,
        interfaces: Vec<Interface>,
        links: &Links,
    ) -> Self {
        let now = Instant::now();
        let port = |(number, (facts, interface))| {
            let life = Life::new(!links.is_waiting(number), now);
            Port { life, interface, facts, failure: None }
        };
        let ports = facts.into_iter().zip(interfaces).enumerate().map(port).collect();
        Self { ports, keeper, guard, commands: Vec::new(), events: Vec::new() }
    }

    /// What clients are told of each port's interface.
    pub fn facts(&self) -> impl Iterator<Item = &PortFacts> {
        self.ports.iter().map(|port| &port.facts)
    }

    /// Something is under way that answers soon.
    pub fn is_busy(&self) -> bool {
        self.ports.iter().any(|port| port.life.is_busy())
    }

    /// Other settings are in force.
    pub fn apply(&self, settings: &SwitchSettings) {
        if let Some(guard) = &self.guard {
            guard.apply(settings);
        }
    }

    /// A change of a port's interface.
    pub fn note(&mut self, Notice { port, change, interface }: Notice) {
        let name = &self.ports[port].facts.interface;
        let (kind, severity, what) = match change {
            Change::Came => ("carrier_came", Severity::Info, "has its carrier: the port forwards"),
            Change::Lost(Seen::Gone) => {
                ("interface_lost", Severity::Warning, "is gone: the port goes down, the others go on")
            }
            Change::Lost(Seen::Down) => {
                ("interface_lost", Severity::Warning, "is down: the port goes down, the others go on")
            }
            Change::Lost(Seen::NoCarrier | Seen::Carrier) => (
                "interface_lost",
                Severity::Warning,
                "has lost its carrier: the port goes down, the others go on",
            ),
            Change::Back => ("interface_back", Severity::Info, "is back: the port is opened again"),
        };
        let message = format!("the interface {name} {what}");
        self.events.push(Description::new(kind, severity, message).of_port(port));
        if let Some(interface) = interface {
            self.ports[port].interface = interface;
        }
        self.happen(port, Happening::Carrier(!matches!(change, Change::Lost(_))));
    }

    /// The loop has opened a port again, or found nothing to open it with.
    pub fn note_posted(&mut self, port: usize, is_up: bool) {
        self.happen(port, Happening::Posted(is_up));
    }

    /// Takes what the loop has let go, what the keeper has done, and what it is time for.
    pub fn proceed(&mut self, settings: impl Fn() -> SwitchSettings) {
        for port in 0..self.ports.len() {
            if self.keeper.has_been_left(port) {
                self.happen(port, Happening::LetGo);
            }
        }
        while let Some((port, answer)) = self.keeper.answer() {
            let happening = self.take(port, answer, &settings);
            self.happen(port, happening);
        }
        for port in 0..self.ports.len() {
            self.happen(port, Happening::Time);
        }
    }

    /// What the loop is to be told.
    pub fn commands(&mut self) -> impl Iterator<Item = Command> + '_ {
        self.commands.drain(..)
    }

    /// What is to be told of.
    pub fn events(&mut self) -> impl Iterator<Item = Description> + '_ {
        self.events.drain(..)
    }

    /// The switch is about to end: no port is opened any more.
    pub fn wind_up(&mut self) {
        self.ports.iter_mut().for_each(|port| port.life.end());
    }

    fn take(&mut self, number: usize, answer: Answer, settings: &impl Fn() -> SwitchSettings) -> Happening {
        let port = &mut self.ports[number];
        match answer {
            Answer::Closed => Happening::Closed,
            Answer::Opened => Happening::Opened,
            Answer::Attached { facts, fds, packets } => {
                (port.facts, port.failure) = (facts, None);
                match (&self.guard, packets) {
                    (Some(guard), Some(packets)) => {
                        let gate = Gate { mac: port.interface.mac, fds, packets };
                        guard.remember(number, gate, &settings());
                    }
                    (Some(_), None) => {
                        warn!(interface = port.facts.interface, "the guard cannot speak for this port");
                    }
                    (None, _) => {}
                }
                Happening::Attached
            }
            Answer::Failed(why) => {
                if port.failure.as_ref() != Some(&why) {
                    let message = format!("the port cannot be opened, and that is tried again: {why}");
                    let event = Description::new("port_unusable", Severity::Warning, message);
                    self.events.push(event.of_port(number));
                    port.failure = Some(why);
                }
                Happening::Failed
            }
        }
    }

    fn happen(&mut self, number: usize, happening: Happening) {
        let port = &mut self.ports[number];
        let Some(step) = port.life.note(happening, Instant::now()) else { return };
        match step {
            Step::TakeDown => self.commands.push(Command::PortDown(number)),
            Step::Close => {
                if let Some(guard) = &self.guard {
                    guard.forget(number);
                }
                self.keeper.close(number);
            }
            Step::Reclaim => self.commands.push(Command::PortClosed(number)),
            Step::Open => self.keeper.open(number),
            Step::Join => self.commands.push(Command::PortUp {
                port: number,
                mac: port.interface.mac,
                finish_checksums: port.interface.kind.is_virtual(),
            }),
            Step::Attach => self.keeper.attach(number),
        }
    }
}
