//! The thread that closes and opens ports, one after the other, while their loop continues: the
//! kernel takes tens of milliseconds for it. [`crate::ports::fsm`] decides when.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result};
use control::{PortFacts, v1};
use wire::mac::MacAddr;
use xdp::{OffloadWarning, PacketSocket, PortMode, SocketHandoff, XdpMode, XdpPort};

use crate::host_settings::ChangedSettings;

/// A task for the port worker.
#[derive(Debug)]
enum Task {
    Assign(Assignment),
    Close,
    /// Opens at most this number of RX queues.
    Open(u32),
    Prepare(u32),
    Attach,
    Look,
    Release,
}

/// What a vacant slot needs to open a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Name of the network device.
    pub interface: String,
    /// The fewest frames that the port keeps posted.
    pub min_posted: u32,
}

/// The result of a task.
#[derive(Debug)]
pub enum Answer {
    /// The slot has a new interface, which the next task opens.
    Assigned,
    /// The sockets are closed.
    Closed,
    /// New sockets are open, one for each of this number of RX queues, for the poll loop to take.
    Opened(u32),
    /// The program lets frames in.
    Attached {
        /// Facts about the interface, as reported to clients.
        facts: PortFacts,
        /// The address of the peer's interface, if it is known.
        peer: Option<MacAddr>,
        /// Descriptors that become readable when a frame arrives, until the port is closed.
        fds: Vec<RawFd>,
        /// Sends PFC frames of the guard while the poll loop cannot.
        packets: Option<PacketSocket>,
    },
    /// The sockets could not be opened, or the program not attached, for this reason.
    Failed(String),
    /// The current state of the link of the interface, and the address of the peer's interface if
    /// it is known.
    Looked(v1::Link, Option<MacAddr>),
}

/// The thread, and the channels to and from it.
#[derive(Debug)]
pub struct PortWorker {
    openers: Vec<Arc<SocketHandoff>>,
    tasks: Option<Sender<(usize, Task)>>,
    answers: Receiver<(usize, Answer)>,
    thread: Option<JoinHandle<()>>,
}

impl PortWorker {
    /// Starts a thread for these ports, which are open, or on no interface yet. `changed` are the
    /// settings of their interfaces that are changed.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(ports: &mut [XdpPort], mut changed: ChangedSettings) -> Result<Self> {
        let mut keepers: Vec<_> = ports.iter_mut().map(XdpPort::keeper).collect();
        let openers = keepers.iter().map(xdp::PortOpener::handoff).collect();
        let (tasks, reported) = mpsc::channel::<(usize, Task)>();
        let (answer, answers) = mpsc::channel();
        let work = move || {
            for (port, task) in reported {
                let Some(done) = perform(&mut keepers[port], &mut changed, task) else { continue };
                if answer.send((port, done)).is_err() {
                    break;
                }
            }
            drop(keepers); // before the settings of their interfaces are restored
        };
        let thread =
            Builder::new().name("keeper".to_owned()).spawn(work).context("starting the port worker")?;
        Ok(Self { openers, tasks: Some(tasks), answers, thread: Some(thread) })
    }

    /// True if the poll loop has detached this port's sockets, and they are not closed yet.
    pub fn has_detached(&self, port: usize) -> bool {
        self.openers[port].has_left()
    }

    /// Assigns another interface to the closed port in this slot.
    pub fn assign(&self, port: usize, assignment: Assignment) {
        self.send_order(port, Task::Assign(assignment));
    }

    /// Closes sockets that the poll loop has detached, or has not taken.
    pub fn close(&self, port: usize) {
        self.send_order(port, Task::Close);
    }

    /// Opens sockets on the current interface, for at most this number of RX queues.
    pub fn open(&self, port: usize, most_queues: u32) {
        self.send_order(port, Task::Open(most_queues));
    }

    /// Does the same, and attaches the program, which lets no frame in yet.
    pub fn prepare(&self, port: usize, most_queues: u32) {
        self.send_order(port, Task::Prepare(most_queues));
    }

    /// Attaches the program, which lets frames in.
    pub fn attach(&self, port: usize) {
        self.send_order(port, Task::Attach);
    }

    /// Queries the interface again.
    pub fn poll(&self, port: usize) {
        self.send_order(port, Task::Look);
    }

    /// Restores the settings of the interface: the port was removed.
    pub fn release(&self, port: usize) {
        self.send_order(port, Task::Release);
    }

    fn send_order(&self, port: usize, task: Task) {
        if let Some(tasks) = &self.tasks {
            let _ = tasks.send((port, task)); // the thread lives as long as `self`
        }
    }

    /// Returns the result of the oldest completed task that was not returned yet, and its port.
    pub fn answer(&self) -> Option<(usize, Answer)> {
        self.answers.try_recv().ok()
    }
}

impl Drop for PortWorker {
    /// Detaches what is still attached to the interfaces.
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Performs a task, and returns its result unless there is none.
fn perform(keeper: &mut xdp::PortOpener, changed: &mut ChangedSettings, task: Task) -> Option<Answer> {
    if matches!(task, Task::Open(_) | Task::Prepare(_) | Task::Look) {
        changed.change(keeper.interface());
    }
    let done = match task {
        Task::Assign(Assignment { interface, min_posted }) => {
            keeper.assign(interface, min_posted);
            return Some(Answer::Assigned);
        }
        Task::Close => {
            keeper.close();
            return Some(Answer::Closed);
        }
        Task::Release => {
            changed.restore(keeper.interface());
            return None;
        }
        Task::Look => {
            keeper.poll();
            let (link, peer) = look(keeper.interface(), keeper.xdp_mode(), keeper.binding());
            Ok(Answer::Looked(link, peer))
        }
        Task::Open(most_queues) => keeper.open(most_queues).map(Answer::Opened),
        Task::Prepare(most_queues) => keeper.prepare(most_queues).map(Answer::Opened),
        Task::Attach => keeper.attach().map(|fds| {
            let (facts, peer) = facts(keeper);
            let packets = PacketSocket::open(keeper.interface()).ok();
            Answer::Attached { facts, peer, fds, packets }
        }),
    };
    Some(done.unwrap_or_else(|error| Answer::Failed(error.to_string())))
}

fn facts(keeper: &xdp::PortOpener) -> (PortFacts, Option<MacAddr>) {
    let (link, peer) = look(keeper.interface(), keeper.xdp_mode(), keeper.binding());
    let facts = PortFacts {
        interface: keeper.interface().to_owned(),
        xdp_mode: mode_name(keeper.xdp_mode()).to_owned(),
        vlan_tags_restored: keeper.vlan_tags_restored(),
        mtu_bytes: 0, // the kernel reports it whenever it changes
        link,
    };
    (facts, peer)
}

/// Returns the state of an interface whose program runs in this mode and whose sockets are bound in
/// this mode, and the address of its peer's interface if it is known. Empty for a deleted
/// interface.
pub fn look(interface: &str, mode: XdpMode, binding: PortMode) -> (v1::Link, Option<MacAddr>) {
    let facts = xdp::facts(interface).unwrap_or_default();
    let cautions = xdp::cautions(interface, &facts, Some(mode));
    let caution = |OffloadWarning { setting, harm, cure }| v1::Caution { setting, harm, cure };
    let link = v1::Link {
        kind: facts.kind,
        driver: facts.driver,
        rx_queues: facts.rx_queues,
        tx_queues: facts.tx_queues,
        link_speed_bps: 0, // like the MTU
        promiscuous: facts.promiscuous,
        zero_copy: binding.zero_copy,
        own_memory: binding.own_memory,
        core: 0, // set from the port's slot
        cautions: cautions.into_iter().map(caution).collect(),
    };
    (link, facts.peer_mac)
}

/// The mode of a program, as displayed.
pub fn mode_name(mode: XdpMode) -> &'static str {
    match mode {
        XdpMode::Native => "native",
        XdpMode::Generic => "generic",
    }
}
