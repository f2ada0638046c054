//! The thread that closes and opens ports, one after the other, while their loop goes on: the
//! kernel takes tens of milliseconds for it. When to do what is [`crate::ports::fsm`]'s rule.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result};
use control::{PortFacts, v1};
use xdp::{OffloadWarning, PacketSocket, PortMode, SocketHandoff, XdpMode, XdpPort};

/// What the thread is told to do with a port.
#[derive(Debug)]
enum Task {
    Assign(Assignment),
    Close,
    Open,
    Attach,
    Look,
}

/// What a place is given to open a port on that was none before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The interface.
    pub interface: String,
    /// RX queues that there is memory for.
    pub most_queues: u32,
    /// Frames that it keeps posted at least.
    pub min_posted: u32,
}

/// What became of it.
#[derive(Debug)]
pub enum Answer {
    /// Another interface is to be opened from now on.
    Assigned,
    /// The sockets are closed.
    Closed,
    /// Others are open, for the loop to take.
    Opened,
    /// Frames come in.
    Attached {
        /// What clients are told of the interface.
        facts: PortFacts,
        /// What becomes readable when a frame comes in, until the port is closed.
        fds: Vec<RawFd>,
        /// For whoever must speak while the loop cannot.
        packets: Option<PacketSocket>,
    },
    /// It could not be opened, or frames not be let in, for this reason.
    Failed(String),
    /// What there is to know of its interface now.
    Looked(v1::Link),
}

/// The thread and what it is told.
#[derive(Debug)]
pub struct PortWorker {
    docks: Vec<Arc<SocketHandoff>>,
    tasks: Option<Sender<(usize, Task)>>,
    answers: Receiver<(usize, Answer)>,
    thread: Option<JoinHandle<()>>,
}

impl PortWorker {
    /// Takes charge of these ports, which are open, or on no interface yet.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(ports: &mut [XdpPort]) -> Result<Self> {
        let mut keepers: Vec<_> = ports.iter_mut().map(XdpPort::keeper).collect();
        let docks = keepers.iter().map(xdp::PortOpener::dock).collect();
        let (tasks, told) = mpsc::channel::<(usize, Task)>();
        let (answer, answers) = mpsc::channel();
        let work = move || {
            for (port, task) in told {
                if answer.send((port, perform(&mut keepers[port], task))).is_err() {
                    break;
                }
            }
        };
        let thread =
            Builder::new().name("keeper".to_owned()).spawn(work).context("starting the keeper of ports")?;
        Ok(Self { docks, tasks: Some(tasks), answers, thread: Some(thread) })
    }

    /// The loop has let go of this port's sockets, and they are not closed yet.
    pub fn has_detached(&self, port: usize) -> bool {
        self.docks[port].has_left()
    }

    /// Makes the port at this place, which is closed, another one.
    pub fn assign(&self, port: usize, assignment: Assignment) {
        self.tell(port, Task::Assign(assignment));
    }

    /// Closes what the loop has let go, or has not taken.
    pub fn close(&self, port: usize) {
        self.tell(port, Task::Close);
    }

    /// Opens sockets on the interface that there is now.
    pub fn open(&self, port: usize) {
        self.tell(port, Task::Open);
    }

    /// Lets frames in.
    pub fn attach(&self, port: usize) {
        self.tell(port, Task::Attach);
    }

    /// Looks at its interface again.
    pub fn look(&self, port: usize) {
        self.tell(port, Task::Look);
    }

    fn tell(&self, port: usize, task: Task) {
        if let Some(tasks) = &self.tasks {
            let _ = tasks.send((port, task)); // it lives as long as this
        }
    }

    /// What became of the oldest task that is done and was not asked for yet, and of which port.
    pub fn answer(&self) -> Option<(usize, Answer)> {
        self.answers.try_recv().ok()
    }
}

impl Drop for PortWorker {
    /// What is still on the interfaces is taken off.
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn perform(keeper: &mut xdp::PortOpener, task: Task) -> Answer {
    let done = match task {
        Task::Assign(Assignment { interface, most_queues, min_posted }) => {
            keeper.assign(interface, most_queues, min_posted);
            return Answer::Assigned;
        }
        Task::Close => {
            keeper.close();
            return Answer::Closed;
        }
        Task::Look => {
            keeper.look();
            Ok(Answer::Looked(link(keeper.interface(), keeper.xdp_mode(), keeper.binding())))
        }
        Task::Open => keeper.open().map(|()| Answer::Opened),
        Task::Attach => keeper.attach().map(|fds| Answer::Attached {
            facts: facts(keeper),
            fds,
            packets: PacketSocket::open(keeper.interface()).ok(),
        }),
    };
    done.unwrap_or_else(|error| Answer::Failed(error.to_string()))
}

fn facts(keeper: &xdp::PortOpener) -> PortFacts {
    PortFacts {
        interface: keeper.interface().to_owned(),
        xdp_mode: mode_name(keeper.xdp_mode()).to_owned(),
        vlan_tags_restored: keeper.vlan_tags_restored(),
        mtu_bytes: 0, // the kernel tells it, whenever it changes
        link: link(keeper.interface(), keeper.xdp_mode(), keeper.binding()),
    }
}

/// What there is to know of an interface whose program runs in this mode, and whose sockets are
/// bound so; nothing of one that is gone.
pub fn link(interface: &str, mode: XdpMode, binding: PortMode) -> v1::Link {
    let facts = xdp::facts(interface).unwrap_or_default();
    let cautions = xdp::cautions(interface, &facts, Some(mode));
    let caution = |OffloadWarning { setting, harm, cure }| v1::Caution { setting, harm, cure };
    v1::Link {
        kind: facts.kind,
        driver: facts.driver,
        rx_queues: facts.rx_queues,
        tx_queues: facts.tx_queues,
        link_speed_bps: 0, // as the MTU
        promiscuous: facts.promiscuous,
        zero_copy: binding.zero_copy,
        own_memory: binding.own_memory,
        core: 0, // that of its place
        cautions: cautions.into_iter().map(caution).collect(),
    }
}

/// How a program runs, for people.
pub fn mode_name(mode: XdpMode) -> &'static str {
    match mode {
        XdpMode::Native => "native",
        XdpMode::Generic => "generic",
    }
}
