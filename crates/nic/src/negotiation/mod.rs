//! DCBX of an interface: an agent as that of a switch's port, which takes over the PFC that the
//! peer advertises. Its outcome says which pauses the interface honors.
//!
//! The agent sends and receives LLDP over a packet socket on the interface, in the namespace of the
//! calling thread. Source: docs/nic.md, "Following the switch".

mod link_watch;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use dcbx::settings::PfcSettings;
use dcbx::status::Status;
use dcbx::{Agent, AgentSettings};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use wire::MacAddr;
use xdp::PacketSocket;

use self::link_watch::LinkWatch;
use crate::error::Error;
use crate::netlink::{Interface, RtNetlink};

/// Time between two calls of `apply` at most: it finds out whether the interface still has what
/// was attached.
const CHECK: Duration = Duration::from_secs(1);

/// Frames read at once, of a peer that sends without end.
const BATCH: usize = 64;

/// A frame of LLDP at the most; a longer one is cut off, and then malformed.
const FRAME_BYTES: usize = 1514;

/// Runs the agent of `device` until `stop` is readable, and withdraws what it advertised. It asks
/// for the priorities `no_drop`, as a mask, and takes over those of a peer that is not willing.
/// `apply` is called with the state of the negotiation whenever it changes, and once a second.
///
/// # Errors
/// There is no such interface (any more), packet sockets are not permitted, or `apply` has failed.
pub fn follow(
    device: &str,
    no_drop: u8,
    stop: BorrowedFd<'_>,
    mut apply: impl FnMut(&Status) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut negotiation = Negotiation::open(device, no_drop)?;
    let outcome = negotiation.run(stop, &mut apply);
    negotiation.withdraw();
    outcome
}

struct Negotiation {
    agent: Agent,
    interface: Interface,
    socket: PacketSocket,
    links: LinkWatch,
    started: Instant,
    /// When the agent is due.
    next: Option<Duration>,
}

impl Negotiation {
    fn open(device: &str, no_drop: u8) -> Result<Self, Error> {
        // Watches first, so that no change is missed.
        let links = LinkWatch::open()?;
        let interface = RtNetlink::connect()?.find(device)?;
        let socket = PacketSocket::open_lldp(device)
            .map_err(|error| Error::system("opening a packet socket for LLDP (CAP_NET_RAW)", error))?;
        let pfc = PfcSettings { willing: true, no_drop, ..PfcSettings::default() };
        let mac = MacAddr(interface.mac);
        let mut agent = Agent::new(AgentSettings::host(&host_name(), mac, device, pfc));
        agent.set_link(Duration::ZERO, interface.is_up);
        let next = Some(Duration::ZERO);
        Ok(Self { agent, interface, socket, links, started: Instant::now(), next })
    }

    fn run(
        &mut self,
        stop: BorrowedFd<'_>,
        apply: &mut impl FnMut(&Status) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut applied: Option<(Status, Duration)> = None;
        loop {
            self.poll_agent();
            let now = self.now();
            let status = self.agent.status().expect("the agent has DCBX");
            let is_same = |(before, at): &(Status, Duration)| before == status && now < *at + CHECK;
            if !applied.as_ref().is_some_and(is_same) {
                apply(status)?;
                applied = Some((status.clone(), now));
            }
            if self.wait(stop)? {
                return Ok(());
            }
            self.follow_link()?;
            self.receive();
        }
    }

    /// Waits until something is to be done; at most for [`CHECK`]. Returns true for the end.
    fn wait(&self, stop: BorrowedFd<'_>) -> Result<bool, Error> {
        let due = self.next.map_or(CHECK, |next| next.saturating_sub(self.now()).min(CHECK));
        // Rounded up, so that the agent is due afterwards.
        let timeout = PollTimeout::try_from(due.as_millis() + 1).unwrap_or(PollTimeout::NONE);
        let on = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = [on(stop), on(self.socket.as_fd()), on(self.links.as_fd())];
        match poll(&mut fds, timeout) {
            Err(nix::Error::EINTR) => Ok(false),
            Err(error) => Err(Error::system("waiting for LLDP frames", error)),
            Ok(_) => Ok(fds[0].any().unwrap_or(true)),
        }
    }

    /// Passes the changes of the link to the agent.
    fn follow_link(&mut self) -> Result<(), Error> {
        let changes = self.links.changes(self.interface.index)?;
        if changes.is_empty() {
            return Ok(());
        }
        let interface = RtNetlink::connect()?.find(&self.interface.name)?;
        if interface.index != self.interface.index {
            return Err(Error::Lost { device: interface.name });
        }
        for is_up in changes.into_iter().chain([interface.is_up]) {
            self.agent.set_link(self.now(), is_up);
        }
        self.next = Some(self.now());
        Ok(())
    }

    fn receive(&mut self) {
        let mut frame = [0; FRAME_BYTES];
        for _ in 0..BATCH {
            // An error says that the interface went down, which the link watch reports, too.
            let Ok(Some(len)) = self.socket.receive(&mut frame) else { break };
            self.agent.receive(self.now(), &frame[..len]);
            self.next = Some(self.now());
        }
    }

    fn poll_agent(&mut self) {
        let now = self.now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        let polled = self.agent.poll(now);
        self.next = polled.next;
        for frame in polled.frames {
            if let Err(error) = self.socket.send(&frame) {
                // The next one is sent in its time, as if this had been lost on the link.
                tracing::debug!(%error, "LLDP frame not sent");
            }
        }
        self.agent.take_events();
    }

    fn withdraw(&mut self) {
        let settings = self.agent.settings().clone();
        self.agent.configure(self.now(), settings.withdrawn());
        self.next = Some(Duration::ZERO);
        self.poll_agent();
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Returns the name of this machine, which it advertises.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "sluice-nic".to_owned() } else { name.trim().to_owned() }
}
