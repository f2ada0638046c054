//! The control loop, on the daemon's first thread. It forwards clients' requests to the poll loop
//! and returns the answers, turns interface changes into commands, writes events to the journal and
//! the log, and handles the signals that reload the file or stop the daemon.
//!
//! The poll loop never waits for this thread: the mailbox between them is two bounded rings. The
//! poll loop does not wake this thread either, which polls for replies every few milliseconds.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use config::Scheduling;
use control::server::{MAX_REQUESTS, Request, WatermarkReader};
use control::{Command, CommandError, CommandResult, DaemonState, ErrorKind, Peer, convert, v1};
use dataplane::{Handle, LoopCommand, PortFault, Reply};
use switch::settings::{ClassifySettings, MAX_PORTS};
use switch::{Event, EventKind, EventRecord, LONGEST_RECEIVED_BYTES, Snapshot};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info, warn};

use crate::capture::Captures;
use crate::control_loop::commands::LoopStep;
use crate::control_loop::fdb_reader::{FdbQuery, FdbReader};
use crate::control_loop::running_config::RunningConfig;
use crate::control_loop::watermark_readers::Watermarks;
use crate::event_log::Events;
use crate::flight_recorder::FlightRecorder;
use crate::lldp::Lldp;
use crate::log::Log;
use crate::loop_threads::LoopThreads;
use crate::pfc_probe;
use crate::ports::link_monitor::{LinkEvent, LinkMonitor, LookUp};
use crate::ports::supervisor::PortSupervisor;
use crate::ports::vhost::is_socket;
use crate::service::ServiceManager;
use crate::stall_check::Stalls;
use crate::telemetry_events::TelemetryEvents;

pub(crate) mod commands;
mod configuration;
mod fdb_reader;
mod reload;
pub(crate) mod running_config;
mod watermark_readers;

/// Interval of polling for replies while one is expected.
const BUSY_PACE: Duration = Duration::from_millis(1);
/// Interval of polling for events while no reply is expected.
const IDLE_PACE: Duration = Duration::from_millis(20);
/// The most time that a command waits for ports to open or close. Its client waits for 30 s.
const PORT_PATIENCE: Duration = Duration::from_secs(20);
/// The most time that the poll loop may take to stop: it drains for 2 s at most.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// SIGINT and SIGTERM, which stop the daemon, and SIGHUP, which reloads the file.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// What a signal requests.
enum SignalAction {
    /// Stops the daemon; contains the name of the signal.
    Stop(&'static str),
    Reload,
}

impl Signals {
    /// Takes over the handling of these signals.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.interrupt.recv() => SignalAction::Stop("SIGINT"),
            _ = self.terminate.recv() => SignalAction::Stop("SIGTERM"),
            _ = self.hangup.recv() => SignalAction::Reload,
        }
    }

    /// Waits for a signal that stops the daemon.
    pub async fn stop(&mut self) {
        while !matches!(self.next().await, SignalAction::Stop(_)) {}
    }
}

/// How the control loop ended.
#[derive(Debug)]
pub enum LoopEnd {
    /// The poll loop has stopped, with these totals.
    Stopped(Box<v1::Snapshot>),
    /// A second signal forced the end.
    Forced,
}

/// A client that waits for a snapshot.
struct SnapshotRequest {
    reader: WatermarkReader,
    read_watermarks: bool,
    answer: oneshot::Sender<v1::Snapshot>,
}

/// A command, and the client that waits for its outcome. A command given by a signal has no client.
struct PendingCommand {
    command: Command,
    /// The client that sent it; `None` for SIGHUP.
    by: Option<Peer>,
    answer: Option<oneshot::Sender<CommandResult>>,
}

impl PendingCommand {
    /// True if its client has got an error, as it waited too long, or is gone.
    fn is_abandoned(&self) -> bool {
        self.answer.as_ref().is_some_and(oneshot::Sender::is_closed)
    }
}

/// A command that is being executed.
struct ActiveCommand {
    /// The request. `None` if changed interfaces are the cause.
    pending: Option<PendingCommand>,
    changes: Vec<String>,
    live: Option<RunningConfig>,
    stage: CommandStage,
}

impl ActiveCommand {
    /// True if the command can be dropped, since all it has done is to look interfaces up.
    fn is_looking_up(&self) -> bool {
        matches!(self.stage, CommandStage::LookingUpRaised(_) | CommandStage::LookingUpAdded(_))
    }

    fn is_abandoned(&self) -> bool {
        self.pending.as_ref().is_some_and(PendingCommand::is_abandoned)
    }
}

/// Progress of a command.
enum CommandStage {
    /// The interface of the port that the command is to bring up is being looked up.
    LookingUpRaised(LookUp),
    /// The interfaces of the ports that the command adds are being looked up.
    LookingUpAdded(LookUp),
    /// The ports that the command adds are being opened. The poll loop gets its command after that.
    Opening(LoopCommand),
    /// The command has been sent to the poll loop.
    SentToLoop,
    /// The poll loop has executed the command; the ports in these slots are still being opened or
    /// closed, until this time at the latest.
    WaitingForPorts(Vec<usize>, Instant),
}

/// Both directions of the mailbox to the poll loop, and the clients that wait for replies.
pub struct ControlLoop {
    handle: Handle,
    /// The ports and their interfaces.
    ports: PortSupervisor,
    /// Looks up interfaces, and reports their changes.
    link_monitor: LinkMonitor,
    log: Log,
    events: Events,
    flight_recorder: FlightRecorder,
    captures: Captures,
    /// The configuration that the poll loop runs with, according to all its replies so far.
    running: RunningConfig,
    /// The longest stalls of the loops.
    stall_check: Stalls,
    /// Checks that the NICs pass PFC frames in both directions.
    pfc_probe: pfc_probe::PfcProbe,
    /// Telemetry and metrics.
    telemetry: TelemetryEvents,
    /// LLDP of the ports.
    lldp: Lldp,
    /// Commands that found the ring full.
    commands: VecDeque<LoopCommand>,
    /// The only snapshot, which is passed back and forth; `None` while the poll loop has it.
    snapshot: Option<Box<Snapshot>>,
    /// The peaks that each reader has not seen yet.
    watermarks: Watermarks,
    /// The clients that get the snapshot which the poll loop is filling.
    snapshot_in_flight: Vec<SnapshotRequest>,
    /// Clients that asked after that snapshot was requested, and need a later one.
    snapshot_waiters: Vec<SnapshotRequest>,
    /// Clients that read the FDB.
    fdb_reader: FdbReader,
    /// Commands that are queued: one is executed at a time.
    command_queue: VecDeque<PendingCommand>,
    active: Option<ActiveCommand>,
    /// The last warnings about MTUs, pauses and agreements: kind of event, slot of the port,
    /// message.
    link_warnings: Vec<(EventKind, Option<usize>, String)>,
    /// Warnings of agreements since the last reload.
    agreements_warned_of: Vec<String>,
    stopped: Option<Box<Snapshot>>,
}

impl ControlLoop {
    /// Creates the control loop of a poll loop that runs with `running`.
    pub fn new(
        handle: Handle,
        live: RunningConfig,
        (supervisor, links): (PortSupervisor, LinkMonitor),
        log: Log,
        (stalls, pfc_test, reports, lldp): (Stalls, pfc_probe::PfcProbe, TelemetryEvents, Lldp),
        events: Events,
    ) -> Self {
        Self {
            handle,
            ports: supervisor,
            link_monitor: links,
            log,
            events,
            flight_recorder: FlightRecorder::new(live.config().recorder, MAX_PORTS),
            captures: Captures::default(),
            running: live,
            stall_check: stalls,
            pfc_probe: pfc_test,
            telemetry: reports,
            lldp,
            commands: VecDeque::new(),
            snapshot: Some(Box::default()),
            watermarks: Watermarks::default(),
            snapshot_in_flight: Vec::new(),
            snapshot_waiters: Vec::new(),
            fdb_reader: FdbReader::default(),
            command_queue: VecDeque::new(),
            active: None,
            link_warnings: Vec::new(),
            agreements_warned_of: Vec::new(),
            stopped: None,
        }
    }

    /// Serves until a signal arrives, then stops the poll loop.
    ///
    /// # Errors
    /// The poll loop ended by itself, or does not stop.
    pub async fn run(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        machine: &LoopThreads,
        signals: &mut Signals,
        service: &mut ServiceManager,
    ) -> Result<LoopEnd> {
        if self.running.config().dataplane.scheduling != Scheduling::Normal {
            // Beside a loop on its core, or other work, an ordinary thread would wait for seconds.
            // A loop to which the kernel refuses its own scheduling reports that.
            let _ = xdp::set_scheduling(xdp::Scheduling::LowLatency);
        }
        loop {
            self.exchange();
            service.feed(Instant::now());
            if machine.has_ended() {
                bail!("the poll loop ended by itself");
            }
            let (has_room, pace) = (self.has_room(), self.poll_interval());
            tokio::select! {
                Some(request) = requests.recv(), if has_room => self.accept(request),
                report = self.link_monitor.next() => self.on_link_report(report),
                reported = signals.next() => match reported {
                    SignalAction::Reload if has_room => {
                        self.command_queue.push_back(PendingCommand { command: Command::Reload, by: None, answer: None });
                    }
                    SignalAction::Reload => warn!("SIGHUP: too much to do; send it again"),
                    SignalAction::Stop(name) => {
                        service.stopping();
                        info!("{name}: stopping; queues drain for a moment (a second signal ends it at once)");
                        break;
                    }
                },
                () = tokio::time::sleep(pace) => {}
            }
        }
        drop(requests); // clients still waiting get the error that the switch is stopping
        self.stop(machine, signals).await
    }

    async fn stop(mut self, machine: &LoopThreads, signals: &mut Signals) -> Result<LoopEnd> {
        self.snapshot_waiters.clear();
        self.captures.stop();
        self.command_queue.clear();
        self.active.take_if(|order| order.is_looking_up());
        self.ports.stop_reopening();
        self.lldp.stop();
        self.commands.push_back(LoopCommand::Stop(Box::default()));
        let stop_sent_at = Instant::now();
        loop {
            // The last messages of a loop that ended are in the mailbox, so check first whether it
            // has ended.
            let has_ended = machine.has_ended();
            self.exchange();
            if let Some(totals) = self.stopped.take() {
                return Ok(LoopEnd::Stopped(Box::new(self.message(&totals))));
            }
            if has_ended {
                bail!("the poll loop ended without its totals");
            }
            if stop_sent_at.elapsed() > STOP_PATIENCE {
                bail!("the poll loop does not stop");
            }
            tokio::select! {
                () = signals.stop() => return Ok(LoopEnd::Forced),
                () = tokio::time::sleep(BUSY_PACE) => {}
            }
        }
    }

    fn has_room(&self) -> bool {
        self.snapshot_waiters.len() + self.command_queue.len() < MAX_REQUESTS
    }

    fn accept(&mut self, request: Request) {
        match request {
            Request::Snapshot { reader, read_watermarks, answer } => {
                self.snapshot_waiters.push(SnapshotRequest { reader, read_watermarks, answer });
            }
            Request::Lldp { answer } => drop(answer.send(self.lldp.describe(&self.running))),
            Request::Configuration { answer } => {
                let _ = answer.send(configuration::describe(&self.running)); // a client may be gone
            }
            Request::Fdb { port, vlan, answer } => {
                match port.map(|port| commands::slot_of(&port, &self.running)).transpose() {
                    Ok(port) => self.fdb_reader.request(FdbQuery { port, vlan, answer }),
                    Err(refusal) => drop(answer.send(Err(refusal))),
                }
            }
            Request::RecordingBound { answer } => {
                let _ = answer.send(self.running.config().recorder.memory_bytes as u64); // a client may be gone
            }
            Request::Recording { duration, by, answer } => {
                self.flight_recorder.request(duration, &by, answer, Instant::now())
            }
            Request::Capture { wanted, by, answer } => {
                let answered = self.captures.request(&wanted, &self.running, self.events.unix_start_ns());
                if answered.is_ok() {
                    info!(by = by.to_string(), "frames are captured for a client");
                }
                let _ = answer.send(answered); // a client that has disconnected needs none
            }
            Request::Acknowledge { recording, by, answer } => {
                self.flight_recorder.acknowledge(recording, &by, answer)
            }
            Request::Order { order, by, answer } => {
                let pending = PendingCommand { command: order, by: Some(by), answer: Some(answer) };
                self.command_queue.push_back(pending);
            }
        }
    }

    fn poll_interval(&self) -> Duration {
        let idle = self.snapshot_in_flight.is_empty()
            && self.snapshot_waiters.is_empty()
            && self.command_queue.is_empty()
            && self.active.is_none()
            && self.commands.is_empty()
            && !self.fdb_reader.is_busy()
            && !self.captures.is_busy()
            && !self.ports.is_busy();
        if idle { IDLE_PACE } else { BUSY_PACE }
    }

    /// Reads the messages of the poll loop, and sends it the pending commands.
    fn exchange(&mut self) {
        while let Some(reply) = self.handle.receive() {
            match reply {
                Reply::Snapshot(snapshot) => self.answer_snapshots(snapshot),
                Reply::Done => self.finish_command(),
                Reply::Fdb(page) => {
                    let slots = self.running.slots();
                    self.fdb_reader.on_page(page, |slot| slots.name(slot).map(str::to_owned));
                }
                Reply::Recorded(_) => self.flight_recorder.on_loop_reply(Instant::now()),
                Reply::Captured(before) => self.captures.on_loop_reply(before.is_some()),
                Reply::Applied(settings) => {
                    self.ports.apply(&settings.switch);
                    self.finish_command();
                }
                Reply::NotApplied(_, port) => self.refuse_command(port),
                Reply::Event(at, event) => self.on_loop_event(at, event),
                Reply::PortUp(port, is_up) => self.ports.on_posted(port, is_up),
                Reply::Fault(port, fault) => self.on_port_fault(port, fault),
                Reply::Stopped(totals) => self.stopped = Some(totals),
            }
        }
        self.ports.poll(|| self.running.settings().switch);
        self.lldp.poll(&self.running, &self.ports);
        self.resume();
        self.commands.extend(self.ports.commands());
        let now = Instant::now();
        for event in self.ports.events().chain(self.telemetry.events(now)).chain(self.lldp.events()) {
            self.events.record_now(event);
        }
        let checks = self.snapshot.is_some() && (self.stall_check.is_due(now) || self.pfc_probe.is_due(now));
        if (checks || !self.snapshot_waiters.is_empty())
            && let Some(snapshot) = self.snapshot.take()
        {
            self.snapshot_in_flight.append(&mut self.snapshot_waiters);
            let read_watermarks = self.snapshot_in_flight.iter().any(|request| request.read_watermarks);
            self.commands.push_back(LoopCommand::Snapshot { snapshot, read_watermarks });
        }
        if self.active.is_none() && self.ports.take_changed() {
            self.apply_interface_changes();
        }
        while self.active.is_none()
            && !self.ports.has_leaving()
            && let Some(pending) = self.command_queue.pop_front()
        {
            self.begin_command(pending);
        }
        // After the commands, so that no peer keeps an operator waiting.
        if self.active.is_none() {
            self.take_on_agreements();
        }
        self.commands.extend(self.flight_recorder.poll(Instant::now()));
        self.commands.extend(self.captures.poll(Instant::now(), &self.running));
        self.commands.extend(self.fdb_reader.poll());
        for event in self.flight_recorder.take_events() {
            self.events.record_now(event);
        }
        while let Some(command) = self.commands.pop_front() {
            if let Err(command) = self.handle.send(command) {
                self.commands.push_front(command);
                break;
            }
        }
    }

    fn answer_snapshots(&mut self, snapshot: Box<Snapshot>) {
        self.events.set_lost(snapshot.events_lost);
        self.stall_check.check(|| self.running.settings().switch);
        if let Some(event) = self.pfc_probe.poll(&snapshot, Instant::now()) {
            self.events.record_now(event);
        }
        let mut message = convert::snapshot(&snapshot, &self.port_details());
        let readers: Vec<WatermarkReader> = self
            .snapshot_in_flight
            .iter()
            .filter(|request| request.read_watermarks)
            .map(|request| request.reader)
            .collect();
        for request in std::mem::take(&mut self.snapshot_in_flight) {
            let mut reported = message.clone();
            self.watermarks.read(request.reader, &mut reported);
            self.list_ports(&mut reported);
            let _ = request.answer.send(reported); // a client that has disconnected needs none
        }
        if !readers.is_empty() {
            self.watermarks.reset(&mut message, &readers);
        }
        self.snapshot = Some(snapshot);
    }

    /// Returns the message for clients about a snapshot that the poll loop has just filled.
    fn message(&self, snapshot: &Snapshot) -> v1::Snapshot {
        let mut message = convert::snapshot(snapshot, &self.port_details());
        self.list_ports(&mut message);
        message
    }

    fn port_details(&self) -> DaemonState {
        DaemonState {
            pfc_enabled: self.running.config().pfc_enabled,
            log: self.log.counts(),
            recordings: self.flight_recorder.counts(),
            loops: self.stall_check.loops(),
        }
    }

    /// Lists the ports in the order of the file, without vacant slots. A port that the poll loop
    /// does not have yet is not listed.
    fn list_ports(&self, message: &mut v1::Snapshot) {
        let known = message.ports.len();
        let slots = self.running.slots().in_config_order().iter().filter(|&&slot| slot < known);
        let facts: Vec<_> = slots.filter_map(|&slot| Some((slot, self.ports.details(slot)?))).collect();
        convert::list_ports(message, facts.iter().map(|(slot, facts)| (*slot, facts)));
        // With the priorities of DSCPs that were agreed on.
        let settings = self.running.agreed_ports();
        for port in &mut message.ports {
            let slot = self.running.slots().of_name(&port.name);
            port.lldp = slot.and_then(|slot| self.lldp.state(slot));
            port.dcbx = slot.and_then(|slot| self.lldp.dcbx(slot));
            if let Some(dcbx) = &mut port.dcbx {
                let of_port = self.link_warnings.iter().filter(|(_, of, _)| of.is_some() && *of == slot);
                dcbx.warnings = of_port.map(|(.., text)| text.clone()).collect();
            }
            port.admin_down = slot.is_some_and(|slot| !self.running.is_admin_up(slot));
            port.pfc_mode = self.running.config().pfc_mode(&port.name).to_owned();
            let settings = settings.iter().find(|settings| settings.name == port.name);
            port.classification = settings.map(|settings| classification(&settings.classify));
        }
    }

    /// Begins a command. What an operator has just done to the interface of a port that is to come
    /// up may not have been reported yet, so it is looked up first.
    fn begin_command(&mut self, pending: PendingCommand) {
        if pending.is_abandoned() {
            return;
        }
        let slot = self.raised_slot(&pending);
        let interface = slot.and_then(|slot| self.running.slots().interface(slot));
        match interface.filter(|name| !is_socket(name)) {
            Some(interface) => {
                let look_up = self.link_monitor.look_up(vec![interface.to_owned()]);
                let stage = CommandStage::LookingUpRaised(look_up);
                let (changes, live) = (Vec::new(), None);
                self.active = Some(ActiveCommand { pending: Some(pending), changes, live, stage });
            }
            None => self.carry_out(pending),
        }
    }

    /// Returns the slot of the port that a command is to bring up.
    fn raised_slot(&self, pending: &PendingCommand) -> Option<usize> {
        self.running.slots().of_name(pending.command.raised_port()?)
    }

    fn carry_out(&mut self, pending: PendingCommand) {
        match commands::plan(&pending.command, &self.running) {
            Ok(Some(LoopStep { command, changes, live })) => {
                let added = live.as_ref().map(|live| self.added_interfaces(live)).unwrap_or_default();
                let stage = if added.is_empty() {
                    self.commands.push_back(command);
                    CommandStage::SentToLoop
                } else {
                    CommandStage::LookingUpAdded(self.link_monitor.look_up(added))
                };
                self.active = Some(ActiveCommand { pending: Some(pending), changes, live, stage });
            }
            Ok(None) => self.begin_without_loop(pending),
            Err(refusal) => answer_command(pending, Err(refusal)),
        }
    }

    /// Begins a command that changes nothing in the poll loop. A port that is admin up already may
    /// still be closed: it is tried again, and the outcome is the answer.
    fn begin_without_loop(&mut self, pending: PendingCommand) {
        let raised = self.raised_slot(&pending);
        raised.into_iter().for_each(|slot| self.ports.bring_up(slot));
        self.wait_for_ports(Some(pending), Vec::new(), raised.into_iter().collect());
    }

    /// Waits until the ports in these slots are open or closed, and then answers.
    fn wait_for_ports(&mut self, pending: Option<PendingCommand>, changes: Vec<String>, slots: Vec<usize>) {
        let stage = CommandStage::WaitingForPorts(slots, Instant::now() + PORT_PATIENCE);
        self.active = Some(ActiveCommand { pending, changes, live: None, stage });
    }

    /// Completes the command that the poll loop has executed.
    fn finish_command(&mut self) {
        let Some(ActiveCommand { pending, changes, live, .. }) = self.active.take() else { return };
        let moved = live.map(|live| self.adopt(live)).unwrap_or_default();
        if let Some(pending) = &pending {
            self.events.journal_command(&pending.command, pending.by.as_ref(), &changes);
        }
        if moved.is_empty() {
            answer_command(pending, Ok(changes));
        } else {
            self.wait_for_ports(pending, changes, moved);
        }
    }

    /// Fails the command that the poll loop has rejected, since the watchdog of this port cannot be
    /// changed at present.
    fn refuse_command(&mut self, port: usize) {
        let Some(ActiveCommand { pending, .. }) = self.active.take() else { return };
        self.ports.abort();
        let name = self.running.slots().name(port).unwrap_or_default();
        if pending.is_none() && self.lldp.postpone(port) {
            let message = format!(
                "{name}: what was agreed is not applied: a storm waits for manual recovery; `sluice pfc recover {name}`"
            );
            self.events.record_now(EventRecord::new(EventKind::DcbxError, message).of_port(port));
        }
        let message = format!(
            "nothing was changed: Please recover PFC deadlock.Port is {name}.\n\
             a storm on {name} waits for manual recovery: `sluice pfc recover {name}`, and then the settings of its watchdog \
             can be changed"
        );
        answer_command(pending, Err(CommandError { reason: ErrorKind::Precondition, message }));
    }

    fn on_link_report(&mut self, report: Result<LinkEvent>) {
        match report {
            Ok(event) => self.ports.link_changed(event),
            Err(error) => error!("changes of interfaces go unnoticed from now on: {error:#}"),
        }
    }

    fn on_port_fault(&self, port: usize, fault: PortFault) {
        let error = io::Error::from_raw_os_error;
        let (kind, what) = match fault {
            PortFault::Down(errno) => {
                (EventKind::PortUnusable, format!("the interface cannot be used any more: {}", error(errno)))
            }
            PortFault::PeerNotReleased => {
                let what = "the port was closed before its XON had left: its peer may stay paused until its pause ends";
                (EventKind::PeerNotReleased, what.to_owned())
            }
            PortFault::LeftInRings(frames) => (
                EventKind::KernelDropped,
                format!("{frames} received frames were left in the rings of a port that was removed"),
            ),
            PortFault::QdiscStays(errno) => {
                let what = "the queueing discipline of the port stays on its interface";
                (EventKind::QdiscStays, format!("{what}: {}", error(errno)))
            }
            PortFault::TooLong { frames, longest_bytes } => {
                (EventKind::FramesTooLong, too_long(frames, longest_bytes))
            }
        };
        let interface = self.running.slots().interface(port).unwrap_or("a removed port");
        let message = format!("{interface}: {what}");
        self.events.record_now(EventRecord::new(kind, message).of_port(port));
    }

    fn on_loop_event(&mut self, at: switch::Instant, event: Event) {
        let record = event.describe();
        if event.is_no_drop_loss() {
            self.flight_recorder.on_loss(record.kind, Instant::now());
        }
        self.events.record(at, record);
    }
}

/// Returns how a port finds the priority of a frame, for clients.
fn classification(settings: &ClassifySettings) -> v1::Classification {
    v1::Classification {
        trust: configuration::trust(settings.trust).to_owned(),
        port_priority: settings.port_priority.into(),
        dscp_to_dot1p: settings.dscp_to_dot1p.map(u32::from).to_vec(),
    }
}

/// Returns the warning about received frames that exceed the length which any link carries, and the
/// remedy.
fn too_long(frames: u64, longest_bytes: u32) -> String {
    let (frames, were) =
        if frames == 1 { ("a frame".to_owned(), "was") } else { (format!("{frames} frames"), "were") };
    format!(
        "{frames} of up to {longest_bytes} bytes came in and {were} dropped, as no port takes in more than {LONGEST_RECEIVED_BYTES}: \
         an MTU above 9216, frames that a device merged (`ethtool -K DEVICE gro off lro off`, below a macvlan on its lower \
         device), or segments that a guest left to its tap (QEMU's `host_tso4=off,host_tso6=off,host_ufo=off`)"
    )
}

/// Returns the error of a port that cannot be added.
fn unusable(why: &str) -> CommandError {
    CommandError { reason: ErrorKind::Precondition, message: format!("nothing was changed: {why}") }
}

/// Logs the outcome of a command and sends it to the waiting client, if any.
fn answer_command(pending: impl Into<Option<PendingCommand>>, outcome: CommandResult) {
    let Some(PendingCommand { command: order, by, answer }) = pending.into() else { return };
    commands::log(&order, by.as_ref(), &outcome);
    if let Some(answer) = answer {
        let _ = answer.send(outcome); // a client that has disconnected needs none
    }
}
