//! What happens beside the poll loop, on the daemon's first thread: clients' wishes for snapshots go to the loop and come
//! back, changes of interfaces become commands, events become log lines, and signals end it all.
//!
//! The loop never waits for this thread: the mailbox between them is two bounded rings. The loop does not wake this
//! thread either; replies are looked for every few milliseconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use control::server::{MAX_WISHES, Wish};
use control::{PortFacts, convert};
use dataplane::{Command, Handle, Reply};
use switch::{Event, Snapshot};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use crate::carrier::{Change, Seen};
use crate::links::Notice;
use crate::machine::Machine;

/// How often replies are looked for while one is expected …
const BUSY_PACE: Duration = Duration::from_millis(1);
/// … and otherwise, for events.
const IDLE_PACE: Duration = Duration::from_millis(20);
/// How long the loop may take to stop: it drains for 2 s at most.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// SIGINT and SIGTERM.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on they are ours.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// How it ended.
#[derive(Debug)]
pub enum End {
    /// The loop has stopped, and these are its totals.
    Stopped(Box<Snapshot>),
    /// A second signal came.
    Forced,
}

/// Both ways to the loop, and who waits for what.
pub struct Conductor {
    handle: Handle,
    ports: Vec<String>,
    facts: Vec<PortFacts>,
    /// Commands that found the ring full.
    commands: VecDeque<Command>,
    /// The one snapshot that goes to and fro; `None` while the loop has it.
    snapshot: Option<Box<Snapshot>>,
    /// Who gets the snapshot that the loop is filling.
    asked: Vec<Wish>,
    /// Who came later: theirs must be taken later, too.
    waiting: Vec<Wish>,
    stopped: Option<Box<Snapshot>>,
}

impl Conductor {
    /// `facts` are the ports' in their order, as are their names `ports`.
    pub fn new(handle: Handle, ports: Vec<String>, facts: Vec<PortFacts>) -> Self {
        Self {
            handle,
            ports,
            facts,
            commands: VecDeque::new(),
            snapshot: Some(Box::default()),
            asked: Vec::new(),
            waiting: Vec::new(),
            stopped: None,
        }
    }

    /// Serves until a signal comes, then stops the loop.
    ///
    /// # Errors
    /// The loop ended by itself, or does not stop.
    pub async fn run(
        mut self,
        mut wishes: mpsc::Receiver<Wish>,
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
                Some(wish) = wishes.recv(), if self.waiting.len() < MAX_WISHES => self.waiting.push(wish),
                Some(notice) = notices.recv() => self.note(notice),
                name = signals.next() => {
                    info!("{name}: stopping; queues drain for a moment (a second signal ends it at once)");
                    break;
                }
                () = tokio::time::sleep(self.pace()) => {}
            }
        }
        drop(wishes); // whoever still asks is told that the switch is stopping
        self.stop(machine, signals).await
    }

    async fn stop(mut self, machine: &Machine, signals: &mut Signals) -> Result<End> {
        self.waiting.clear();
        self.commands.push_back(Command::Stop(Box::default()));
        let asked = Instant::now();
        loop {
            // Whatever a loop said before it ended is in the mailbox, so look for its end first.
            let has_ended = machine.has_ended();
            self.exchange();
            if let Some(totals) = self.stopped.take() {
                return Ok(End::Stopped(totals));
            }
            if has_ended {
                bail!("the poll loop ended without its totals");
            }
            if asked.elapsed() > STOP_PATIENCE {
                bail!("the poll loop does not stop");
            }
            tokio::select! {
                _ = signals.next() => return Ok(End::Forced),
                () = tokio::time::sleep(BUSY_PACE) => {}
            }
        }
    }

    fn pace(&self) -> Duration {
        if self.asked.is_empty() && self.waiting.is_empty() && self.commands.is_empty() {
            IDLE_PACE
        } else {
            BUSY_PACE
        }
    }

    /// Takes what the loop said, and tells it what there is to tell.
    fn exchange(&mut self) {
        while let Some(reply) = self.handle.receive() {
            match reply {
                Reply::Snapshot(snapshot) => self.hand_out(snapshot),
                Reply::Event(_, event) => self.log(event),
                Reply::Stopped(totals) => self.stopped = Some(totals),
            }
        }
        if !self.waiting.is_empty()
            && let Some(snapshot) = self.snapshot.take()
        {
            self.asked.append(&mut self.waiting);
            self.commands.push_back(Command::Snapshot(snapshot));
        }
        while let Some(command) = self.commands.pop_front() {
            if let Err(command) = self.handle.send(command) {
                self.commands.push_front(command);
                break;
            }
        }
    }

    fn hand_out(&mut self, snapshot: Box<Snapshot>) {
        let message = convert::snapshot(&snapshot, &self.facts);
        for wish in self.asked.drain(..) {
            let _ = wish.send(message.clone()); // a client that is gone needs none
        }
        self.snapshot = Some(snapshot);
    }

    /// A change of a port's interface.
    fn note(&mut self, Notice { port, change }: Notice) {
        let name = &self.ports[port];
        let interface = &self.facts[port].interface;
        match change {
            Change::Came => info!(port = name, interface, "the interface has its carrier: the port forwards"),
            Change::Lost(seen) => {
                let why = match seen {
                    Seen::Gone => "is gone",
                    Seen::Down => "is down",
                    Seen::NoCarrier | Seen::Carrier => "has lost its carrier",
                };
                warn!(port = name, interface, "the interface {why}: the port goes down, the others go on");
                self.commands.push_back(Command::PortDown(port));
            }
            Change::Back => {
                warn!(
                    port = name,
                    interface, "the interface is back; restart sluiced to use it as a port again"
                );
            }
        }
    }

    fn log(&self, event: Event) {
        match event {
            Event::XoffBegan { port, priority } => {
                debug!(
                    port = self.ports[port],
                    priority, "XOFF: the neighbour is told to stop this priority"
                );
            }
            Event::XoffEnded { port, priority } => {
                debug!(port = self.ports[port], priority, "XON: the neighbour may go on");
            }
            Event::NoDropLost { port, priority } => {
                let port = &self.ports[port];
                error!(
                    port,
                    priority, "frames of a no-drop priority are lost: headroom is exhausted; give it more"
                );
            }
            Event::PortDown { port } => {
                let interface = &self.facts[port].interface;
                warn!(port = self.ports[port], interface, "port down");
            }
        }
    }
}
