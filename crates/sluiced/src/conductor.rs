//! What happens beside the poll loop, on the daemon's first thread: clients' requests go to the loop and the answers come
//! back, changes of interfaces become commands, events go to the journal and the log, and signals reload the file or end it all.
//!
//! The loop never waits for this thread: the mailbox between them is two bounded rings. The loop does not wake this
//! thread either; replies are looked for every few milliseconds.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use control::server::{MAX_REQUESTS, Reader, Request};
use control::{DaemonFacts, Order, Outcome, Reason, Refusal, convert, v1};
use dataplane::{Command, Handle, Reply, Trouble};
use switch::{Description, Event, Severity, Snapshot};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use crate::events::Events;
use crate::links::Notice;
use crate::live::Live;
use crate::lives::Lives;
use crate::log::Log;
use crate::machine::Machine;
use crate::orders::{self, Step};
use crate::recording::Recording;
use crate::stall::Stalls;
use crate::watermarks::Watermarks;

/// How often replies are looked for while one is expected …
const BUSY_PACE: Duration = Duration::from_millis(1);
/// … and otherwise, for events.
const IDLE_PACE: Duration = Duration::from_millis(20);
/// How long the loop may take to stop: it drains for 2 s at most.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// SIGINT and SIGTERM, which end it, and SIGHUP, which has the file read again.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// What a signal says.
enum Told {
    /// Its name.
    Stop(&'static str),
    Reload,
}

impl Signals {
    /// From now on they are ours.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Stop("SIGINT"),
            _ = self.terminate.recv() => Told::Stop("SIGTERM"),
            _ = self.hangup.recv() => Told::Reload,
        }
    }

    /// Waits for one that ends it.
    pub async fn stop(&mut self) {
        while !matches!(self.next().await, Told::Stop(_)) {}
    }
}

/// How it ended.
#[derive(Debug)]
pub enum End {
    /// The loop has stopped, and these are its totals.
    Stopped(Box<v1::Snapshot>),
    /// A second signal came.
    Forced,
}

/// Somebody who waits for a snapshot.
struct Wish {
    reader: Reader,
    read_watermarks: bool,
    answer: oneshot::Sender<v1::Snapshot>,
}

/// An order, and who waits for its outcome; nobody does where a signal gave it.
struct Asked {
    order: Order,
    answer: Option<oneshot::Sender<Outcome>>,
}

/// An order that the loop is carrying out.
struct UnderWay {
    asked: Asked,
    changes: Vec<String>,
    live: Option<Live>,
}

/// Both ways to the loop, and who waits for what.
pub struct Conductor {
    handle: Handle,
    /// The ports and their interfaces.
    lives: Lives,
    log: Log,
    events: Events,
    recording: Recording,
    /// What the loop runs with, after all that it has answered so far.
    live: Live,
    /// For how long it was held up.
    stalls: Stalls,
    /// Commands that found the ring full.
    commands: VecDeque<Command>,
    /// The one snapshot that goes to and fro; `None` while the loop has it.
    snapshot: Option<Box<Snapshot>>,
    /// What each reader has not seen of them.
    watermarks: Watermarks,
    /// Who gets the snapshot that the loop is filling.
    asked: Vec<Wish>,
    /// Who came later: theirs must be taken later, too.
    waiting: Vec<Wish>,
    /// Orders that wait their turn: one at a time is carried out.
    orders: VecDeque<Asked>,
    under_way: Option<UnderWay>,
    stopped: Option<Box<Snapshot>>,
}

impl Conductor {
    /// For a loop that runs with `live`.
    pub fn new(handle: Handle, live: Live, lives: Lives, log: Log, stalls: Stalls, events: Events) -> Self {
        Self {
            handle,
            lives,
            log,
            events,
            recording: Recording::new(live.config().recorder, live.config().switch.ports.len()),
            live,
            stalls,
            commands: VecDeque::new(),
            snapshot: Some(Box::default()),
            watermarks: Watermarks::default(),
            asked: Vec::new(),
            waiting: Vec::new(),
            orders: VecDeque::new(),
            under_way: None,
            stopped: None,
        }
    }

    /// Serves until a signal comes, then stops the loop.
    ///
    /// # Errors
    /// The loop ended by itself, or does not stop.
    pub async fn run(
        mut self,
        mut requests: mpsc::Receiver<Request>,
        mut notices: mpsc::Receiver<Notice>,
        machine: &Machine,
        signals: &mut Signals,
    ) -> Result<End> {
        loop {
            self.exchange();
            if machine.has_ended() {
                bail!("the poll loop ended by itself");
            }
            tokio::select! {
                Some(request) = requests.recv(), if self.has_room() => self.accept(request),
                Some(notice) = notices.recv() => self.lives.note(notice),
                told = signals.next() => match told {
                    Told::Reload if self.has_room() => {
                        self.orders.push_back(Asked { order: Order::Reload, answer: None });
                    }
                    Told::Reload => warn!("SIGHUP: too much to do; send it again"),
                    Told::Stop(name) => {
                        info!("{name}: stopping; queues drain for a moment (a second signal ends it at once)");
                        break;
                    }
                },
                () = tokio::time::sleep(self.pace()) => {}
            }
        }
        drop(requests); // whoever still asks is told that the switch is stopping
        self.stop(machine, signals).await
    }

    async fn stop(mut self, machine: &Machine, signals: &mut Signals) -> Result<End> {
        self.waiting.clear();
        self.orders.clear();
        self.lives.wind_up();
        self.commands.push_back(Command::Stop(Box::default()));
        let asked = Instant::now();
        loop {
            // Whatever a loop said before it ended is in the mailbox, so look for its end first.
            let has_ended = machine.has_ended();
            self.exchange();
            if let Some(totals) = self.stopped.take() {
                return Ok(End::Stopped(Box::new(self.message(&totals))));
            }
            if has_ended {
                bail!("the poll loop ended without its totals");
            }
            if asked.elapsed() > STOP_PATIENCE {
                bail!("the poll loop does not stop");
            }
            tokio::select! {
                () = signals.stop() => return Ok(End::Forced),
                () = tokio::time::sleep(BUSY_PACE) => {}
            }
        }
    }

    fn has_room(&self) -> bool {
        self.waiting.len() + self.orders.len() < MAX_REQUESTS
    }

    fn accept(&mut self, request: Request) {
        match request {
            Request::Snapshot { reader, read_watermarks, answer } => {
                self.waiting.push(Wish { reader, read_watermarks, answer });
            }
            Request::Recording { duration, answer } => self.recording.ask(duration, answer, Instant::now()),
            Request::Order { order, answer } => {
                self.orders.push_back(Asked { order, answer: Some(answer) });
            }
        }
    }

    fn pace(&self) -> Duration {
        let idle = self.asked.is_empty()
            && self.waiting.is_empty()
            && self.orders.is_empty()
            && self.under_way.is_none()
            && self.commands.is_empty()
            && !self.lives.is_busy();
        if idle { IDLE_PACE } else { BUSY_PACE }
    }

    /// Takes what the loop said, and tells it what there is to tell.
    fn exchange(&mut self) {
        while let Some(reply) = self.handle.receive() {
            match reply {
                Reply::Snapshot(snapshot) => self.hand_out(snapshot),
                Reply::Done => self.finish_order(),
                Reply::Recorded(_) => self.recording.ended(),
                Reply::Applied(settings) => {
                    self.lives.apply(&settings.switch);
                    self.finish_order();
                }
                Reply::NotApplied(_, port) => self.refuse_order(port),
                Reply::Event(at, event) => self.note_event(at, event),
                Reply::PortUp(port, is_up) => self.lives.note_posted(port, is_up),
                Reply::Trouble(port, trouble) => self.note_trouble(port, trouble),
                Reply::Stopped(totals) => self.stopped = Some(totals),
            }
        }
        self.lives.proceed(|| self.live.settings().switch);
        self.commands.extend(self.lives.commands());
        for event in self.lives.events() {
            self.events.note_now(event);
        }
        let looks = self.snapshot.is_some() && self.stalls.is_due(Instant::now());
        if (looks || !self.waiting.is_empty())
            && let Some(snapshot) = self.snapshot.take()
        {
            self.asked.append(&mut self.waiting);
            let read_watermarks = self.asked.iter().any(|wish| wish.read_watermarks);
            self.commands.push_back(Command::Snapshot { snapshot, read_watermarks });
        }
        while self.under_way.is_none()
            && let Some(asked) = self.orders.pop_front()
        {
            self.begin_order(asked);
        }
        self.commands.extend(self.recording.proceed(Instant::now()));
        while let Some(command) = self.commands.pop_front() {
            if let Err(command) = self.handle.send(command) {
                self.commands.push_front(command);
                break;
            }
        }
    }

    fn hand_out(&mut self, snapshot: Box<Snapshot>) {
        self.events.note_lost(snapshot.events_lost);
        self.stalls.see(snapshot.loop_worst_stall_ns, || self.live.settings().switch);
        let mut message = self.message(&snapshot);
        let readers: Vec<Reader> =
            self.asked.iter().filter(|wish| wish.read_watermarks).map(|wish| wish.reader).collect();
        for wish in self.asked.drain(..) {
            let mut told = message.clone();
            self.watermarks.look(wish.reader, &mut told);
            let _ = wish.answer.send(told); // a client that is gone needs none
        }
        if !readers.is_empty() {
            self.watermarks.begin_anew(&mut message, &readers);
        }
        self.snapshot = Some(snapshot);
    }

    /// What clients are told of a snapshot that the loop has just filled.
    fn message(&self, snapshot: &Snapshot) -> v1::Snapshot {
        let daemon = DaemonFacts { pfc_enabled: self.live.config().pfc_enabled, log: self.log.counts() };
        let facts: Vec<_> = self.lives.facts().cloned().collect();
        convert::snapshot(snapshot, &facts, &daemon)
    }

    fn begin_order(&mut self, asked: Asked) {
        if asked.answer.as_ref().is_some_and(oneshot::Sender::is_closed) {
            return; // it waited so long that its client was told that it failed
        }
        match orders::plan(&asked.order, &self.live) {
            Ok(Some(Step { command, changes, live })) => {
                self.commands.push_back(command);
                self.under_way = Some(UnderWay { asked, changes, live });
            }
            Ok(None) => conclude(asked, Ok(Vec::new())),
            Err(refusal) => conclude(asked, Err(refusal)),
        }
    }

    /// The loop has done what it was told.
    fn finish_order(&mut self) {
        let Some(UnderWay { asked, changes, live }) = self.under_way.take() else { return };
        if let Some(live) = live {
            self.live = live;
            self.stalls.forget();
        }
        self.events.keep_order(&asked.order, &changes);
        conclude(asked, Ok(changes));
    }

    /// The loop has not done what it was told: it is not the time to change the watchdog of this port.
    fn refuse_order(&mut self, port: usize) {
        let Some(UnderWay { asked, .. }) = self.under_way.take() else { return };
        let name = &self.live.config().switch.ports[port].name;
        let message = format!(
            "nothing was changed: Please recover PFC deadlock.Port is {name}.\n\
             a storm on {name} waits to be ended by hand: `sluice pfc recover {name}`, and then the settings of its watchdog \
             can be changed"
        );
        conclude(asked, Err(Refusal { reason: Reason::Precondition, message }));
    }

    fn note_trouble(&self, port: usize, trouble: Trouble) {
        let (kind, errno, what) = match trouble {
            Trouble::Down(errno) => ("port_unusable", errno, "the interface cannot be used any more"),
            Trouble::QdiscStays(errno) => {
                ("qdisc_stays", errno, "the queueing discipline of the port stays on its interface")
            }
        };
        let interface = &self.live.config().interfaces[port];
        let message = format!("{interface}: {what}: {}", io::Error::from_raw_os_error(errno));
        self.events.note_now(Description::new(kind, Severity::Warning, message).of_port(port));
    }

    fn note_event(&mut self, at: switch::Instant, event: Event) {
        if matches!(event, Event::NoDropLost { .. } | Event::KernelDropped { .. }) {
            self.recording.note_loss(Instant::now());
        }
        self.events.note(at, event.describe());
    }
}

/// Logs the outcome of an order and tells whoever waits for it.
fn conclude(Asked { order, answer }: Asked, outcome: Outcome) {
    orders::log(&order, &outcome);
    if let Some(answer) = answer {
        let _ = answer.send(outcome); // a client that is gone needs none
    }
}
