//! The thread that looks interfaces up, and reports every change that matters to a port.
//!
//! Rule: the control loop never asks the kernel for an interface itself. The kernel answers under
//! RTNL, its lock of the network configuration, which another program may hold for seconds, and
//! meanwhile clients want their answers. What a look-up finds of a port's interface is reported
//! before it is answered, like any other change.

use std::collections::VecDeque;
use std::thread::Builder;

use anyhow::{Context, Result, anyhow, bail};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use xdp::netlink::{Link, LinkChange, RouteSocket};

use crate::ports::fsm::LinkState;
use crate::ports::interface::{Interface, OPENING, by_name, describe};

/// Changes that wait for the control loop. The kernel keeps what comes beyond that, and says when
/// it has lost some.
const MAX_CHANGES: usize = 64;

/// A change of a port's interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEvent {
    /// Port number.
    pub port: usize,
    /// The interface as it is now, if it exists. It may be another one than before.
    pub interface: Option<Interface>,
}

impl LinkEvent {
    /// State of the interface and its carrier.
    pub fn link(&self) -> LinkState {
        self.interface.as_ref().map_or(LinkState::Gone, |interface| interface.state)
    }
}

/// What a look-up found of one name: the interface, if there is one, and its RX queues.
pub type Found = (Option<Interface>, Result<u32, xdp::Error>);

/// A look-up in progress.
pub struct LookUp(oneshot::Receiver<Result<Vec<Found>>>);

impl LookUp {
    /// Returns what was found, in the order of the names, once the kernel has answered.
    pub fn poll(&mut self) -> Option<Result<Vec<Found>>> {
        match self.0.try_recv() {
            Ok(found) => Some(found),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(anyhow!(ENDED))),
        }
    }
}

/// A task for the thread.
enum Task {
    Add(usize, MonitoredPort),
    Forget(usize),
    LookUp(Vec<String>, oneshot::Sender<Result<Vec<Found>>>),
}

/// The control loop's end of the thread.
pub struct LinkMonitor {
    tasks: mpsc::UnboundedSender<Task>,
    changes: mpsc::Receiver<Result<(u64, LinkEvent)>>,
    /// The generation of each slot, which changes with its port. A change of an earlier generation
    /// is of an earlier port.
    generations: Vec<u64>,
    has_ended: bool,
}

impl LinkMonitor {
    /// Starts the thread, which monitors no interface yet. With `low_latency` it runs soon also
    /// beside a loop on its core.
    ///
    /// # Errors
    /// No socket could be opened, or no thread started.
    pub fn start(low_latency: bool) -> Result<Self> {
        let route = RouteSocket::open().context(OPENING)?;
        let reports = RouteSocket::watch_links().context(OPENING)?;
        let (tasks, received) = mpsc::unbounded_channel();
        let (changed, changes) = mpsc::channel(MAX_CHANGES);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let entered = runtime.enter();
        #[allow(deprecated, reason = "its successor is unsafe; a route socket keeps its descriptor")]
        let reports = AsyncFd::new(reports).context(OPENING)?;
        drop(entered);
        let interfaces =
            Interfaces { route, reports, ports: Vec::new(), notices: VecDeque::new(), query_from: None };
        let work = move || {
            if low_latency {
                let _ = xdp::set_scheduling(xdp::Scheduling::LowLatency); // as the control loop
            }
            runtime.block_on(monitor(interfaces, received, changed));
        };
        // Nobody joins it: it ends with the process, for which the kernel waits as long as for it.
        Builder::new().name("link-monitor".to_owned()).spawn(work).context("starting the link monitor")?;
        Ok(Self { tasks, changes, generations: Vec::new(), has_ended: false })
    }

    /// Starts to monitor the interface of one more port, which was as `interface` says at its
    /// look-up. A change since then is reported.
    pub fn add(&mut self, slot: usize, name: &str, interface: Option<&Interface>) {
        let generation = self.next_generation(slot);
        self.send(Task::Add(slot, MonitoredPort::new(generation, name, interface)));
    }

    /// Stops monitoring the interface of this port.
    pub fn forget(&mut self, slot: usize) {
        self.next_generation(slot);
        self.send(Task::Forget(slot));
    }

    /// Looks these interfaces up by name. What has changed of those that are monitored is reported
    /// first.
    pub fn look_up(&self, names: Vec<String>) -> LookUp {
        let (answer, found) = oneshot::channel();
        self.send(Task::LookUp(names, answer));
        LookUp(found)
    }

    /// Waits for the next change. Cancel-safe: a canceled call can be repeated without loss.
    ///
    /// # Errors
    /// The kernel has stopped reporting changes, or the thread has ended. That is returned once.
    pub async fn next(&mut self) -> Result<LinkEvent> {
        loop {
            match self.changes.recv().await {
                Some(Ok(change)) if self.is_current(&change) => return Ok(change.1),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None if std::mem::replace(&mut self.has_ended, true) => std::future::pending().await,
                None => bail!(ENDED),
            }
        }
    }

    /// Returns the changes that are reported already, and the errors as of [`LinkMonitor::next`].
    pub fn reported(&mut self) -> Vec<Result<LinkEvent>> {
        let reports: Vec<_> = std::iter::from_fn(|| self.changes.try_recv().ok()).collect();
        let is_current = |report: &Result<_>| !report.as_ref().is_ok_and(|change| !self.is_current(change));
        reports.into_iter().filter(is_current).map(|report| Ok(report?.1)).collect()
    }

    fn is_current(&self, (generation, event): &(u64, LinkEvent)) -> bool {
        self.generations.get(event.port) == Some(generation)
    }

    fn next_generation(&mut self, slot: usize) -> u64 {
        if self.generations.len() <= slot {
            self.generations.resize(slot + 1, 0);
        }
        self.generations[slot] += 1;
        self.generations[slot]
    }

    fn send(&self, task: Task) {
        let _ = self.tasks.send(task); // the end of the thread is reported by `next`
    }
}

/// Performs the tasks and reports changes, until the control loop's end is dropped.
async fn monitor(
    mut interfaces: Interfaces,
    mut tasks: mpsc::UnboundedReceiver<Task>,
    changed: mpsc::Sender<Result<(u64, LinkEvent)>>,
) {
    let mut is_reporting = true;
    loop {
        tokio::select! {
            biased;
            task = tasks.recv() => match task {
                Some(Task::Add(slot, port)) => interfaces.add(slot, port),
                Some(Task::Forget(slot)) => interfaces.forget(slot),
                Some(Task::LookUp(names, answer)) => {
                    let found = interfaces.look_up(&names);
                    while let Some(notice) = interfaces.notices.pop_front() {
                        let _ = changed.send(Ok(notice)).await; // the daemon may be ending
                    }
                    let _ = answer.send(found); // the client may have given up
                }
                None => return,
            },
            change = interfaces.next(), if is_reporting => {
                is_reporting = change.is_ok();
                let _ = changed.send(change).await; // the daemon may be ending
            }
        }
    }
}

/// The interfaces of all ports, as the thread knows them.
struct Interfaces {
    route: RouteSocket,
    reports: AsyncFd<RouteSocket>,
    /// The ports by slot; some slots are vacant.
    ports: Vec<Option<MonitoredPort>>,
    notices: VecDeque<(u64, LinkEvent)>,
    /// The first slot whose interface must be queried again; those of the later slots follow.
    query_from: Option<usize>,
}

struct MonitoredPort {
    /// The generation of its slot.
    generation: u64,
    interface: String,
    index: u32,
    /// MTU in bytes, and speed in bit/s.
    link: (u32, Option<u64>),
    seen: LinkState,
}

impl MonitoredPort {
    /// Returns the port whose interface was as `interface` says at its look-up.
    fn new(generation: u64, name: &str, interface: Option<&Interface>) -> Self {
        Self {
            generation,
            interface: name.to_owned(),
            index: interface.map_or(0, |interface| interface.index),
            link: interface.map_or((0, None), |interface| (interface.mtu, interface.speed_bps)),
            seen: interface.map_or(LinkState::Gone, |interface| interface.state),
        }
    }
}

impl Interfaces {
    fn add(&mut self, slot: usize, port: MonitoredPort) {
        if self.ports.len() <= slot {
            self.ports.resize_with(slot + 1, || None);
        }
        self.ports[slot] = Some(port);
        self.query_from = Some(self.query_from.map_or(slot, |from| from.min(slot)));
    }

    fn forget(&mut self, slot: usize) {
        if let Some(port) = self.ports.get_mut(slot) {
            *port = None;
        }
    }

    /// Looks interfaces up, after what the kernel has reported by now.
    fn look_up(&mut self, names: &[String]) -> Result<Vec<Found>> {
        let _ = self.take_reports(); // `next` finds the same error
        names.iter().map(|name| self.look_up_one(name)).collect()
    }

    fn look_up_one(&mut self, name: &str) -> Result<Found> {
        let interface = by_name(&self.route, name)?;
        let is_it = |port: &Option<MonitoredPort>| port.as_ref().is_some_and(|port| port.interface == name);
        if let Some(slot) = self.ports.iter().position(is_it) {
            self.compare(slot, interface.clone());
        }
        Ok((interface, xdp::queues_of(name)))
    }

    /// Waits for the next change. Cancel-safe: a canceled call can be repeated without loss.
    async fn next(&mut self) -> Result<(u64, LinkEvent)> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Ok(notice);
            }
            if let Some(slot) = self.query_from {
                self.query(slot)?;
                self.query_from = Some(slot + 1).filter(|&next| next < self.ports.len());
                continue;
            }
            let mut ready = self.reports.readable().await.context(SILENT)?;
            ready.clear_ready();
            self.take_reports()?;
        }
    }

    /// Takes all reports of the kernel that are there.
    fn take_reports(&mut self) -> Result<()> {
        for change in self.reports.get_ref().link_changes().context(SILENT)? {
            match change {
                LinkChange::Set(link) => self.on_change(&link, false),
                LinkChange::Deleted(link) => self.on_change(&link, true),
                LinkChange::Lost => self.query_from = Some(0),
            }
        }
        Ok(())
    }

    /// Queries an interface again.
    fn query(&mut self, slot: usize) -> Result<()> {
        if let Some(Some(port)) = self.ports.get(slot) {
            let interface = by_name(&self.route, &port.interface)?;
            self.compare(slot, interface);
        }
        Ok(())
    }

    /// Compares what a query found of a port's interface with what is known.
    fn compare(&mut self, slot: usize, interface: Option<Interface>) {
        let Some(Some(MonitoredPort { index: before, .. })) = self.ports.get(slot) else { return };
        let before = *before;
        // A different index: our interface was deleted, and this is a new one of the same name.
        if interface.as_ref().is_none_or(|interface| interface.index != before) {
            self.observe(slot, None);
        }
        if let Some(interface) = interface {
            self.record_index(slot, interface.index);
            self.observe(slot, Some(interface));
        }
    }

    fn record_index(&mut self, slot: usize, index: u32) {
        if let Some(port) = &mut self.ports[slot] {
            port.index = index;
        }
    }

    fn on_change(&mut self, link: &Link, deleted: bool) {
        let index = link.index as u32;
        let slot = |is_it: &dyn Fn(&MonitoredPort) -> bool| {
            self.ports.iter().position(|port| port.as_ref().is_some_and(is_it))
        };
        if let Some(port) = slot(&|port| port.index == index) {
            self.observe(port, (!deleted).then(|| describe(link)));
        } else if !deleted && let Some(port) = slot(&|port| port.interface == link.name) {
            // A new interface that replaces a deleted one.
            self.record_index(port, index);
            self.observe(port, Some(describe(link)));
        }
    }

    /// Compares the current state of a port's interface with the previous one.
    fn observe(&mut self, port: usize, interface: Option<Interface>) {
        let seen = interface.as_ref().map_or(LinkState::Gone, |interface| interface.state);
        let Some(watched) = &mut self.ports[port] else { return };
        let link = interface.as_ref().map_or(watched.link, |interface| (interface.mtu, interface.speed_bps));
        if (watched.link, watched.seen) != (link, seen) {
            (watched.link, watched.seen) = (link, seen);
            self.notices.push_back((watched.generation, LinkEvent { port, interface }));
        }
    }
}

const SILENT: &str = "netlink reports nothing any more";
const ENDED: &str = "the link monitor has ended";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::interface::look_up;

    #[tokio::test]
    async fn any_slot_can_be_monitored() {
        let mut monitor = LinkMonitor::start(false).unwrap();
        monitor.forget(9);
        monitor.add(5, "lo", None); // it was not there at its look-up
        let event = monitor.next().await.unwrap();
        assert_eq!((event.port, event.interface.map(|lo| lo.name)), (5, Some("lo".to_owned())));
        monitor.add(0, "lo", None);
        assert_eq!(monitor.next().await.unwrap().port, 0);
    }

    /// A change that was reported before a slot got another port is not of that port.
    #[tokio::test]
    async fn changes_of_the_port_before_are_passed_over() {
        let mut monitor = LinkMonitor::start(false).unwrap();
        monitor.add(0, "lo", None);
        while monitor.changes.is_empty() {
            tokio::task::yield_now().await;
        }
        monitor.forget(0);
        let lo = look_up(&["lo".to_owned()]).unwrap().remove(0).unwrap();
        monitor.add(0, "lo", Some(&lo)); // as it is: there is nothing to report
        monitor.add(1, "lo", None);
        assert_eq!(monitor.next().await.unwrap().port, 1);
    }

    /// What a look-up finds of a monitored interface is there before its answer.
    #[tokio::test]
    async fn a_look_up_reports_what_has_changed_before_it_answers() {
        let mut monitor = LinkMonitor::start(false).unwrap();
        let lo = look_up(&["lo".to_owned()]).unwrap().remove(0).unwrap();
        let before = Interface { mtu: lo.mtu + 1, ..lo.clone() };
        monitor.add(0, "lo", Some(&before));
        monitor.look_up(vec!["lo".to_owned()]).0.await.unwrap().unwrap();
        let reported: Vec<LinkEvent> = monitor.reported().into_iter().map(Result::unwrap).collect();
        assert_eq!(reported, [LinkEvent { port: 0, interface: Some(lo) }]);
    }

    #[tokio::test]
    async fn names_are_looked_up_in_their_order() {
        let monitor = LinkMonitor::start(false).unwrap();
        let found =
            monitor.look_up(vec!["no-such-link".to_owned(), "lo".to_owned()]).0.await.unwrap().unwrap();
        let found: Vec<_> = found
            .into_iter()
            .map(|(interface, queues)| (interface.map(|interface| interface.name), queues.ok()))
            .collect();
        assert_eq!(found, [(None, None), (Some("lo".to_owned()), Some(1))]);
    }
}
