//! The thread that closes and opens ports, one after the other, while their loop continues: the
//! kernel takes tens of milliseconds for it. [`crate::ports::fsm`] decides when.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result};
use control::{PortDetails, v1};
use virtio::VhostLink;
use wire::mac::MacAddr;
use xdp::{OffloadWarning, PortMode, SocketHandoff, XdpMode, XdpPort};

use crate::host_settings::ChangedSettings;
use crate::ports::vhost;

/// A task for the port worker.
#[derive(Debug)]
enum Task {
    Assign(Assignment),
    Close,
    /// Opens at most this number of RX queues.
    Open(u32),
    Prepare(u32),
    Attach,
    Query,
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

/// What the worker reports of a task.
#[derive(Debug)]
pub enum TaskResult {
    /// The slot has a new interface, which the next task opens.
    Assigned,
    /// The sockets are closed.
    Closed,
    /// New sockets are open, one for each of this number of RX queues, for the poll loop to take.
    Opened(u32),
    /// The program lets frames in.
    Attached {
        /// Facts about the interface, as reported to clients.
        facts: PortDetails,
        /// The address of the peer's interface, if it is known.
        peer: Option<MacAddr>,
        /// Descriptors that become readable when a frame arrives, until the port is closed.
        fds: Vec<RawFd>,
    },
    /// The sockets could not be opened, or the program not attached, for this reason.
    Failed(String),
    /// The current state of the link of the interface, and the address of the peer's interface if
    /// it is known.
    Queried(v1::Link, Option<MacAddr>),
}

/// The thread, and the channels to and from it.
#[derive(Debug)]
pub struct PortWorker {
    handoffs: Vec<Arc<SocketHandoff>>,
    /// The links of the slots whose ports are on vhost-user sockets.
    vhost: Vec<Option<VhostLink>>,
    tasks: Option<Sender<(usize, Task)>>,
    answers: Receiver<(usize, TaskResult)>,
    thread: Option<JoinHandle<()>>,
}

impl PortWorker {
    /// Starts a thread for these ports, which are open, or on no interface yet. `changed` are the
    /// settings of their interfaces that are changed.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(
        ports: &mut [XdpPort],
        mut changed: ChangedSettings,
        links: Vec<Option<(String, VhostLink)>>,
    ) -> Result<Self> {
        let vhost = links.iter().map(|link| Some(link.as_ref()?.1.clone())).collect();
        let mut port_openers: Vec<_> = ports.iter_mut().map(XdpPort::opener).collect();
        let handoffs = port_openers.iter().map(xdp::PortOpener::handoff).collect();
        let (tasks, reported) = mpsc::channel::<(usize, Task)>();
        let (answer, answers) = mpsc::channel();
        let work = move || {
            for (port, task) in reported {
                let done = match links.get(port) {
                    Some(Some((path, link))) => perform_vhost(path, link, &task),
                    _ => perform(&mut port_openers[port], &mut changed, task),
                };
                let Some(done) = done else { continue };
                if answer.send((port, done)).is_err() {
                    break;
                }
            }
            drop(port_openers); // before the settings of their interfaces are restored
        };
        let thread =
            Builder::new().name("port-worker".to_owned()).spawn(work).context("starting the port worker")?;
        Ok(Self { handoffs, vhost, tasks: Some(tasks), answers, thread: Some(thread) })
    }

    /// True if the poll loop has detached this port's sockets, and they are not closed yet.
    pub fn has_detached(&self, port: usize) -> bool {
        match self.vhost.get(port) {
            Some(Some(link)) => link.has_detached(),
            _ => self.handoffs[port].has_detached(),
        }
    }

    /// Assigns another interface to the closed port in this slot.
    pub fn assign(&self, port: usize, assignment: Assignment) {
        self.send_task(port, Task::Assign(assignment));
    }

    /// Closes sockets that the poll loop has detached, or has not taken.
    pub fn close(&self, port: usize) {
        self.send_task(port, Task::Close);
    }

    /// Opens sockets on the current interface, for at most this number of RX queues.
    pub fn open(&self, port: usize, most_queues: u32) {
        self.send_task(port, Task::Open(most_queues));
    }

    /// Does the same, and attaches the program, which lets no frame in yet.
    pub fn prepare(&self, port: usize, most_queues: u32) {
        self.send_task(port, Task::Prepare(most_queues));
    }

    /// Attaches the program, which lets frames in.
    pub fn attach(&self, port: usize) {
        self.send_task(port, Task::Attach);
    }

    /// Queries the interface again.
    pub fn poll(&self, port: usize) {
        self.send_task(port, Task::Query);
    }

    /// Restores the settings of the interface: the port was removed.
    pub fn release(&self, port: usize) {
        self.send_task(port, Task::Release);
    }

    fn send_task(&self, port: usize, task: Task) {
        if let Some(tasks) = &self.tasks {
            let _ = tasks.send((port, task)); // the thread lives as long as `self`
        }
    }

    /// Returns the result of the oldest completed task that was not returned yet, and its port.
    pub fn poll_result(&self) -> Option<(usize, TaskResult)> {
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
fn perform(opener: &mut xdp::PortOpener, changed: &mut ChangedSettings, task: Task) -> Option<TaskResult> {
    if matches!(task, Task::Open(_) | Task::Prepare(_) | Task::Query) {
        changed.change(opener.interface());
    }
    let done = match task {
        Task::Assign(Assignment { interface, min_posted }) => {
            opener.assign(interface, min_posted);
            return Some(TaskResult::Assigned);
        }
        Task::Close => {
            opener.close();
            return Some(TaskResult::Closed);
        }
        Task::Release => {
            changed.restore(opener.interface());
            return None;
        }
        Task::Query => {
            opener.poll();
            let (link, peer) = look(opener.interface(), opener.xdp_mode(), opener.port_mode());
            Ok(TaskResult::Queried(link, peer))
        }
        Task::Open(most_queues) => opener.open(most_queues).map(TaskResult::Opened),
        Task::Prepare(most_queues) => opener.prepare(most_queues).map(TaskResult::Opened),
        Task::Attach => opener.attach().map(|fds| {
            let (facts, peer) = details(opener);
            TaskResult::Attached { facts, peer, fds }
        }),
    };
    Some(done.unwrap_or_else(|error| TaskResult::Failed(error.to_string())))
}

/// Performs a task of a port on a vhost-user socket, whose rings the poll loop takes and gives back
/// itself.
fn perform_vhost(path: &str, link: &VhostLink, task: &Task) -> Option<TaskResult> {
    match task {
        Task::Assign(_) => Some(TaskResult::Assigned),
        Task::Open(_) | Task::Prepare(_) => Some(TaskResult::Opened(1)),
        Task::Attach => {
            Some(TaskResult::Attached { facts: vhost::details(path), peer: None, fds: Vec::new() })
        }
        Task::Close => {
            link.clear_detached();
            Some(TaskResult::Closed)
        }
        Task::Query | Task::Release => None,
    }
}

fn details(opener: &xdp::PortOpener) -> (PortDetails, Option<MacAddr>) {
    let (link, peer) = look(opener.interface(), opener.xdp_mode(), opener.port_mode());
    let facts = PortDetails {
        interface: opener.interface().to_owned(),
        xdp_mode: mode_name(opener.xdp_mode()).to_owned(),
        vlan_tags_restored: opener.vlan_tags_restored(),
        mtu_bytes: 0, // the kernel reports it whenever it changes
        link,
    };
    (facts, peer)
}

/// Returns the state of an interface whose program runs in this mode and whose sockets are bound in
/// this mode, and the address of its peer's interface if it is known. Empty for a deleted
/// interface.
pub fn look(interface: &str, mode: XdpMode, binding: PortMode) -> (v1::Link, Option<MacAddr>) {
    let facts = xdp::query(interface).unwrap_or_default();
    let cautions = xdp::warnings(interface, &facts, Some(mode));
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
