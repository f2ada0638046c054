//! Supervises the ports of a running switch and their interfaces: which component gets which
//! command when a port comes or goes. [`crate::ports::fsm`] decides when.
//!
//! A port that a reload adds is opened before the poll loop gets it, so that a port which cannot be
//! opened is rejected and nothing has changed ([`PortSupervisor::prepare`]). A port that a reload
//! removes leaves its slot once its sockets are closed and the poll loop has its frames back.
//!
//! A port's sockets are closed only after the guard has dropped them, since their descriptor
//! numbers may soon be reused for another file.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use control::{PortDetails, v1};
use dataplane::LoopCommand;
use switch::{EventKind, EventRecord, SwitchSettings};
use tracing::{info, warn};
use wire::mac::MacAddr;

use crate::ports::core_assignment::CoreAssignment;
use crate::ports::fsm::{FsmStep, LinkState, PortAction, PortEvent, PortFsm, PortNotice};
use crate::ports::interface::{DeviceKind, Interface};
use crate::ports::link_monitor::LinkEvent;
use crate::ports::vhost::{self, VhostSockets};
use crate::ports::worker::{Assignment, PortWorker, TaskResult};
use crate::stall_guard::Guard;

/// Interval of the queries of all interfaces.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The least time between two reports of a peer's address to the poll loop. The switch keeps one
/// for 10 s at least.
const PEER_INTERVAL: Duration = Duration::from_secs(3);

/// The ports by slot.
pub struct PortSupervisor {
    ports: Vec<Option<Port>>,
    worker: PortWorker,
    /// The sockets of ports that are on no interface.
    vhost: VhostSockets,
    /// RX queues for which memory was reserved.
    queues_set_aside: u32,
    /// Why a port that a reload was to add could not be opened, and its slot.
    open_error: Option<(usize, String)>,
    /// True if an interface has changed.
    has_changed: bool,
    /// Sends PFC on behalf of stalled loops; `None` if that is not configured.
    guard: Option<Guard>,
    /// The core of each slot.
    core_assignment: CoreAssignment,
    /// Time of the next query of the interfaces.
    next_check: Instant,
    /// After this time the poll loop gets the address of a peer again, so that it does not age out.
    peer_interval: Duration,
    /// Commands for the poll loop.
    commands: Vec<LoopCommand>,
    /// Events for the journal and the log.
    events: Vec<EventRecord>,
}

struct Port {
    fsm: PortFsm,
    /// The interface as the kernel last described it. `None` if there has been none yet.
    interface: Option<Interface>,
    details: PortDetails,
    /// RX queues for which the port holds memory.
    queues: u32,
    /// Further RX queues whose memory is reserved for it while it is being opened.
    extra_queues: u32,
    /// RX queues of the open sockets.
    open_queues: u32,
    /// Why the last attempt to open the port failed.
    failure: Option<String>,
    /// The address of the peer's interface, and when the poll loop got it, since the port is open.
    peer: Option<(MacAddr, Instant)>,
}

pub struct StartedPort {
    /// The interface, if it exists.
    pub interface: Option<Interface>,
    /// Facts about the interface, if the port is open.
    pub details: Option<PortDetails>,
    /// The address of the peer's interface, if it is known.
    pub peer: Option<MacAddr>,
    /// RX queues, or those reserved for a port that is not open.
    pub queues: u32,
    /// False if the file takes it down.
    pub admin_up: bool,
    /// Name of the interface, and the fewest frames that the port keeps posted.
    pub assignment: Assignment,
}

impl StartedPort {
    /// The interface of an open port.
    pub fn open_interface(&self) -> Option<&Interface> {
        self.interface.as_ref().filter(|_| self.details.is_some())
    }
}

impl Port {
    fn new(fsm: PortFsm, interface: Option<Interface>, facts: PortDetails, queues: u32) -> Self {
        Self {
            fsm,
            interface,
            details: facts,
            queues,
            extra_queues: 0,
            open_queues: 0,
            failure: None,
            peer: None,
        }
    }
}

/// Returns the facts about a port that is not open yet.
fn default_details(interface: String) -> PortDetails {
    PortDetails {
        interface,
        xdp_mode: "native".to_owned(),
        vlan_tags_restored: false,
        mtu_bytes: 0,
        link: v1::Link::default(),
    }
}

fn is_nic(interface: &Option<Interface>) -> bool {
    interface.as_ref().is_some_and(|interface| interface.kind == DeviceKind::Hardware)
}

impl PortSupervisor {
    /// Creates the supervisor of ports at the start. `core_assignment` are the cores, and
    /// `queues_set_aside` the RX queues for which memory was reserved.
    pub fn new(
        (worker, vhost, guard): (PortWorker, VhostSockets, Option<Guard>),
        servers: &CoreAssignment,
        queues_set_aside: u32,
        ports: Vec<StartedPort>,
        settings: &SwitchSettings,
    ) -> Self {
        let now = Instant::now();
        let mut supervisor = Self {
            ports: Vec::new(),
            worker,
            vhost,
            queues_set_aside,
            open_error: None,
            has_changed: true,
            guard,
            core_assignment: servers.clone(),
            next_check: now + CHECK_INTERVAL,
            peer_interval: peer_interval(settings),
            commands: Vec::new(),
            events: Vec::new(),
        };
        for (slot, started) in ports.into_iter().enumerate() {
            let StartedPort { interface, details: facts, peer, queues, admin_up, assignment } = started;
            let link = interface.as_ref().map_or(LinkState::Gone, |interface| interface.state);
            let is_open = facts.is_some();
            let name = assignment.interface.clone();
            let fsm = if is_open {
                PortFsm::open(link, is_nic(&interface), now)
            } else {
                supervisor.worker.assign(slot, assignment);
                if vhost::is_socket(&name) {
                    info!(socket = name, "waiting for a guest: its port is opened once its driver starts");
                } else if admin_up {
                    supervisor.report(slot, EventKind::InterfaceLost, &name, missing(link));
                }
                PortFsm::closed(link, is_nic(&interface), now)
            };
            let mut port = Port::new(fsm, interface, facts.unwrap_or_else(|| default_details(name)), queues);
            port.open_queues = if is_open { queues } else { 0 };
            supervisor.ports.push(Some(port));
            supervisor.set_admin(slot, admin_up);
            supervisor.take_peer(slot, peer);
        }
        supervisor
    }

    /// The facts about the interface of the port in this slot, as reported to clients.
    pub fn details(&self, slot: usize) -> Option<PortDetails> {
        let Port { details: facts, interface, .. } = self.ports.get(slot)?.as_ref()?;
        let mut facts = facts.clone();
        if let Some(interface) = interface {
            facts.mtu_bytes = interface.mtu;
            facts.link.link_speed_bps = interface.speed_bps.unwrap_or(0);
        }
        facts.link.core = self.core_assignment.core(slot) as u32;
        Some(facts)
    }

    /// The interface of the port in this slot, as the kernel last described it.
    pub fn interface(&self, slot: usize) -> Option<&Interface> {
        self.ports.get(slot)?.as_ref()?.interface.as_ref()
    }

    /// True if the poll loop carries frames for the port in this slot.
    pub fn is_open(&self, slot: usize) -> bool {
        self.ports.get(slot).is_some_and(|port| port.as_ref().is_some_and(|port| port.fsm.is_open()))
    }

    /// Takes the port in this slot down for an operator, or lets it come up. Returns false if it is
    /// so already.
    pub fn set_admin(&mut self, slot: usize, up: bool) -> bool {
        let Some(Some(port)) = self.ports.get(slot) else { return false };
        let changes = port.fsm.is_admin_up() != up;
        if changes && up {
            self.bring_up(slot);
        } else if changes {
            self.handle(slot, PortEvent::Admin(false));
        }
        changes
    }

    /// Lets the port in this slot come up for an operator. It is tried at once, whatever failed
    /// before.
    pub fn bring_up(&mut self, slot: usize) {
        if let Some(Some(port)) = self.ports.get_mut(slot) {
            port.failure = None;
        }
        self.handle(slot, PortEvent::Admin(true));
    }

    /// Why the port in this slot carries no frames; `None` if it does.
    pub fn why_closed(&self, slot: usize) -> Option<String> {
        let port = self.ports.get(slot)?.as_ref().filter(|port| !port.fsm.is_open())?;
        let name = &port.details.interface;
        if let Some(why) = &port.failure {
            return Some(format!("it cannot be opened, which is tried again each second: {why}"));
        }
        Some(match port.fsm.link() {
            LinkState::Gone if vhost::is_socket(name) => {
                format!("it is opened once a guest's driver has started on {name}")
            }
            LinkState::Gone => format!("it is opened once there is an interface {name}"),
            LinkState::Down => {
                format!("its interface {name} is down: `ip link set dev {name} up` brings it up")
            }
            LinkState::NoCarrier => format!("it is opened once its interface {name} has a carrier"),
            LinkState::Carrier => "it is still being opened".to_owned(),
        })
    }

    /// True if an interface has changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// RX queues for which there is memory that no port holds.
    pub fn free_queues(&self) -> u32 {
        let held = self.ports.iter().flatten().map(|port| port.queues + port.extra_queues);
        self.queues_set_aside.saturating_sub(held.sum())
    }

    /// True if an operation is in progress that will complete soon.
    pub fn is_busy(&self) -> bool {
        self.ports.iter().flatten().any(|port| port.fsm.is_busy())
    }

    /// True if these slots are as the last command requires: vacant, or with ports that are open,
    /// are down, wait for their interfaces, or could not be opened.
    pub fn are_settled(&self, slots: &[usize]) -> bool {
        let mut ports = slots.iter().filter_map(|&slot| self.ports.get(slot)?.as_ref());
        ports.all(|port| !port.fsm.is_busy() && (port.failure.is_some() || !port.fsm.is_due()))
    }

    /// True if a port of an earlier reload still leaves its slot.
    pub fn has_leaving(&self) -> bool {
        self.ports.iter().flatten().any(|port| port.fsm.is_leaving())
    }

    /// Opens a port in a vacant slot, for `queues` RX queues. The poll loop takes it if all ports
    /// of the same reload can be opened. One that the file takes down is not opened, and its
    /// interface may be missing.
    pub fn prepare(
        &mut self,
        slot: usize,
        interface: Option<Interface>,
        (assignment, queues): (Assignment, u32),
        admin_up: bool,
    ) {
        let name = assignment.interface.clone();
        self.worker.assign(slot, assignment);
        let link = interface.as_ref().map_or(LinkState::Gone, |interface| interface.state);
        let fsm = if admin_up {
            self.worker.prepare(slot, queues);
            PortFsm::preparing(link, is_nic(&interface), Instant::now())
        } else {
            PortFsm::prepared_down(link, is_nic(&interface), Instant::now())
        };
        self.ports.resize_with(self.ports.len().max(slot + 1), || None);
        self.ports[slot] = Some(Port::new(fsm, interface, default_details(name), queues));
    }

    /// True if all prepared ports are open; otherwise the slot of a port that failed, and the
    /// reason. `None` if the result is not known yet.
    pub fn prepared(&mut self) -> Option<Result<(), (usize, String)>> {
        let is_known = !self.ports.iter().flatten().any(|port| port.fsm.is_preparing());
        self.open_error.take().map(Err).or(is_known.then_some(Ok(())))
    }

    /// The slots of the prepared ports, the names of their interfaces, and the interfaces that are
    /// there.
    pub fn pending(&self) -> impl Iterator<Item = (usize, &str, Option<&Interface>)> {
        let ports = self.ports.iter().enumerate();
        let ports = ports.filter_map(|(slot, port)| Some((slot, port.as_ref()?)));
        let pending = ports.filter(|(_, port)| port.fsm.is_pending());
        pending.map(|(slot, port)| (slot, port.details.interface.as_str(), port.interface.as_ref()))
    }

    /// Closes the prepared ports.
    pub fn abort(&mut self) {
        self.of_pending(PortEvent::Removed);
    }

    /// Handles new settings that the poll loop has applied: the prepared ports exist from now on,
    /// and the ports in the `removed` slots do not.
    pub fn on_applied(&mut self, removed: &[usize]) {
        removed.iter().for_each(|&slot| self.handle(slot, PortEvent::Removed));
        let has_added = self.pending().next().is_some();
        self.has_changed |= has_added;
        self.of_pending(PortEvent::Added);
    }

    fn of_pending(&mut self, event: PortEvent) {
        let slots: Vec<usize> = self.pending().map(|(slot, ..)| slot).collect();
        slots.into_iter().for_each(|slot| self.handle(slot, event));
    }

    /// Passes new settings on to the guard. If they change VLANs, the switch has forgotten the
    /// addresses of peers, too.
    pub fn apply(&mut self, settings: &SwitchSettings) {
        self.peer_interval = peer_interval(settings);
        self.ports.iter_mut().flatten().for_each(|port| port.peer = None);
        if let Some(guard) = &self.guard {
            guard.apply(settings);
        }
    }

    /// Handles a change of a port's interface.
    pub fn link_changed(&mut self, event: LinkEvent) {
        let link = event.link();
        let Some(Some(port)) = self.ports.get_mut(event.port) else { return };
        if event.interface.is_some() {
            port.interface = event.interface;
            port.fsm.set_nic(is_nic(&port.interface));
            self.has_changed = true;
        }
        self.handle(event.port, PortEvent::Link(link));
    }

    /// Handles the report that the poll loop has opened a port again, or found no sockets for it.
    pub fn on_posted(&mut self, slot: usize, is_up: bool) {
        self.handle(slot, PortEvent::Posted(is_up));
    }

    /// Queries all interfaces periodically, since changes made with `ethtool`, also to the device
    /// below a macvlan, are not reported.
    fn query_interfaces(&mut self) {
        let now = Instant::now();
        if now < self.next_check {
            return;
        }
        self.next_check = now + CHECK_INTERVAL;
        for (slot, port) in self.ports.iter().enumerate() {
            if port.as_ref().is_some_and(|port| port.fsm.is_open()) {
                self.worker.poll(slot);
            }
        }
    }

    /// Takes the state of a link, and reports new settings that harm frames.
    fn update_link(&mut self, slot: usize, link: v1::Link) {
        let Some(Some(Port { details: facts, .. })) = self.ports.get_mut(slot) else { return };
        let before = std::mem::replace(&mut facts.link, link);
        for caution in facts.link.cautions.iter().filter(|caution| !before.cautions.contains(caution)) {
            let v1::Caution { setting, harm, cure } = caution;
            let message = format!("the interface {} ({setting}): {harm}: {cure}", facts.interface);
            let event = EventRecord::new(EventKind::InterfaceHarmsFrames, message);
            self.events.push(event.of_port(slot));
        }
    }

    /// Passes the address of the interface at the other end of a port on to the poll loop: at once
    /// if it is new, and then often enough that it does not age out.
    fn take_peer(&mut self, slot: usize, peer: Option<MacAddr>) {
        let (Some(Some(port)), Some(mac)) = (self.ports.get_mut(slot), peer) else { return };
        let now = Instant::now();
        let is_known = port.peer.is_some_and(|(known, at)| known == mac && now < at + self.peer_interval);
        if !is_known && port.fsm.is_open() {
            port.peer = Some((mac, now));
            self.commands.push(LoopCommand::PeerAddress { port: slot, mac });
        }
    }

    /// Closes a port whose interface has another number of RX queues than it has sockets, to open
    /// it with as many: frames of a queue without a socket are lost.
    fn check_queues(&mut self, slot: usize) {
        let Some(Some(port)) = self.ports.get(slot) else { return };
        let (sockets, queues) = (port.open_queues, port.details.link.rx_queues);
        if !port.fsm.is_open() || queues == 0 || queues == sockets {
            return;
        }
        let name = port.details.interface.clone();
        let what = format!("has {queues} RX queues instead of {sockets}: the port is opened again");
        self.report(slot, EventKind::RxQueuesChanged, &name, &what);
        self.handle(slot, PortEvent::QueuesChanged);
    }

    /// Handles sockets that the poll loop has detached, answers of the port worker, and timers.
    pub fn poll(&mut self, settings: impl Fn() -> SwitchSettings) {
        self.query_interfaces();
        self.events.extend(self.vhost.events());
        for (port, interface) in self.vhost.take_changed() {
            self.link_changed(LinkEvent { port, interface: Some(interface) });
        }
        for slot in 0..self.ports.len() {
            if self.worker.has_detached(slot) {
                self.handle(slot, PortEvent::Detached);
            }
        }
        while let Some((slot, answer)) = self.worker.poll_result() {
            self.on_worker_result(slot, answer, &settings);
        }
        (0..self.ports.len()).for_each(|slot| self.handle(slot, PortEvent::Time));
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
    pub fn stop_reopening(&mut self) {
        self.ports.iter_mut().flatten().for_each(|port| port.fsm.end());
    }

    /// Handles an answer of the port worker.
    fn on_worker_result(&mut self, slot: usize, answer: TaskResult, settings: &impl Fn() -> SwitchSettings) {
        let Some(Some(port)) = self.ports.get_mut(slot) else { return };
        match answer {
            TaskResult::Assigned => {}
            TaskResult::Queried(link, peer) => {
                self.update_link(slot, link);
                self.take_peer(slot, peer);
                self.check_queues(slot);
            }
            TaskResult::Closed => self.handle(slot, PortEvent::Closed),
            TaskResult::Opened(queues) => {
                (port.queues, port.extra_queues) = (port.queues.max(queues), 0);
                port.open_queues = queues;
                self.handle(slot, PortEvent::Opened);
            }
            // The poll loop has detached the port meanwhile. Its sockets are about to be closed,
            // and the guard must not get them.
            TaskResult::Attached { .. } if !port.fsm.is_attaching() => {}
            TaskResult::Attached { facts, peer, fds } => {
                let link = facts.link.clone();
                port.details = PortDetails { link: std::mem::take(&mut port.details.link), ..facts };
                (port.failure, port.peer) = (None, None);
                self.update_link(slot, link);
                self.add_to_guard(slot, fds, settings);
                self.handle(slot, PortEvent::Attached);
                self.take_peer(slot, peer);
            }
            TaskResult::Failed(_) if port.fsm.is_leaving() => self.handle(slot, PortEvent::Failed),
            TaskResult::Failed(why) if port.fsm.is_preparing() => {
                self.open_error.get_or_insert((slot, why));
                self.handle(slot, PortEvent::Failed);
            }
            TaskResult::Failed(why) => {
                port.extra_queues = 0;
                if port.failure.as_ref() != Some(&why) {
                    let message = format!("the port cannot be opened, and that is tried again: {why}");
                    let event = EventRecord::new(EventKind::PortUnusable, message);
                    self.events.push(event.of_port(slot));
                    port.failure = Some(why);
                }
                self.handle(slot, PortEvent::Failed);
            }
        }
    }

    /// Passes the sockets of a port that has been opened to the guard.
    fn add_to_guard(&self, slot: usize, fds: Vec<RawFd>, settings: &impl Fn() -> SwitchSettings) {
        let (Some(guard), Some(Some(port))) = (&self.guard, self.ports.get(slot)) else { return };
        match &port.interface {
            // A queue that no loop reads loses nothing.
            Some(interface) if interface.kind == DeviceKind::VhostUser => {}
            Some(interface) => guard.add_port(slot, interface.tap(fds), &settings()),
            None => warn!(interface = port.details.interface, "the guard cannot send PFC for this port"),
        }
    }

    /// Lets the state machine of a port handle an event, and does what it requires.
    fn handle(&mut self, slot: usize, event: PortEvent) {
        let Some(Some(port)) = self.ports.get_mut(slot) else { return };
        let FsmStep { action, notice } = port.fsm.handle(event, Instant::now());
        if let Some(notice) = notice {
            let name = port.details.interface.clone();
            let description = if vhost::is_socket(&name) { describe_guest(notice) } else { describe(notice) };
            match description {
                (kind @ (EventKind::PortAdminDown | EventKind::PortAdminUp), what) => {
                    self.events.push(EventRecord::new(kind, what).of_port(slot));
                }
                (kind, what) => self.report(slot, kind, &name, what),
            }
        }
        if let Some(action) = action {
            self.perform(slot, action);
        }
    }

    fn perform(&mut self, slot: usize, action: PortAction) {
        let free_queues = self.free_queues();
        let Some(Some(port)) = self.ports.get_mut(slot) else { return };
        match action {
            PortAction::TakeDown => self.commands.push(LoopCommand::PortDown(slot)),
            PortAction::ShutDown => self.commands.push(LoopCommand::ShutDown(slot)),
            PortAction::Close => {
                if let Some(guard) = &self.guard {
                    guard.remove_port(slot);
                }
                self.worker.close(slot);
            }
            PortAction::Reclaim => self.commands.push(LoopCommand::PortClosed(slot)),
            PortAction::Open => {
                port.extra_queues = free_queues;
                self.worker.open(slot, port.queues + free_queues);
            }
            PortAction::Join => self.commands.push(LoopCommand::PortUp {
                port: slot,
                mac: port.interface.as_ref().map(|interface| interface.mac).unwrap_or_default(),
                complete_checksums: port
                    .interface
                    .as_ref()
                    .is_some_and(|interface| interface.kind.is_virtual()),
            }),
            PortAction::Attach => self.worker.attach(slot),
            PortAction::Vacate => {
                self.worker.release(slot);
                self.ports[slot] = None;
            }
        }
    }

    /// Reports something about the interface of a port, or its guest.
    fn report(&mut self, slot: usize, kind: EventKind, interface: &str, what: &str) {
        let subject = if vhost::is_socket(interface) { "guest on" } else { "interface" };
        let message = format!("the {subject} {interface} {what}");
        self.events.push(EventRecord::new(kind, message).of_port(slot));
    }
}

/// Returns the time after which the poll loop gets the address of a peer again.
fn peer_interval(settings: &SwitchSettings) -> Duration {
    Duration::from_nanos(settings.bridge.aging_ns / 3).max(PEER_INTERVAL)
}

/// Returns what is missing of the interface of a port at the start.
fn missing(link: LinkState) -> &'static str {
    match link {
        LinkState::Gone => "is not there: its port is opened once it is; other ports are unaffected",
        _ => "is down: its port is opened once it is up; other ports are unaffected",
    }
}

/// Returns the event of a change on a vhost-user socket: its kind and text.
fn describe_guest(notice: PortNotice) -> (EventKind, &'static str) {
    match notice {
        PortNotice::CarrierUp | PortNotice::CarrierAwaited | PortNotice::Recovered => {
            (EventKind::InterfaceBack, "has started its driver: the port is opened")
        }
        PortNotice::WentDown(_) => (
            EventKind::InterfaceLost,
            "has stopped its driver, or its front end is gone: the port goes down; other ports are unaffected",
        ),
        PortNotice::AdminDown | PortNotice::AdminUp => describe(notice),
    }
}

/// Returns the event of a change of an interface: its kind and text.
fn describe(notice: PortNotice) -> (EventKind, &'static str) {
    match notice {
        PortNotice::CarrierUp => (EventKind::CarrierCame, "has its carrier: the port forwards"),
        PortNotice::CarrierAwaited => (
            EventKind::CarrierAwaited,
            "is resetting, as NICs do when a program is attached: the port waits for its carrier",
        ),
        PortNotice::AdminDown => (EventKind::PortAdminDown, "admin down: the port carries no frames"),
        PortNotice::AdminUp => (
            EventKind::PortAdminUp,
            "admin up: the port carries frames when its interface, or its guest, can",
        ),
        PortNotice::Recovered => (EventKind::InterfaceBack, "is back: the port is opened again"),
        PortNotice::WentDown(link) => {
            let what = match link {
                LinkState::Gone => "is gone: the port goes down; other ports are unaffected",
                LinkState::Down => "is down: the port goes down; other ports are unaffected",
                LinkState::NoCarrier | LinkState::Carrier => {
                    "has lost its carrier: the port goes down; other ports are unaffected"
                }
            };
            (EventKind::InterfaceLost, what)
        }
    }
}
