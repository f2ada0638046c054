//! The service manager that started the daemon, as systemd is one: readiness, and its watchdog.
//!
//! Rule: it receives `READY=1` when frames are forwarded, `WATCHDOG=1` four times an interval, but
//! only while every loop turns: a loop that is awake has begun an iteration since the last time, or
//! it sleeps. So a switch whose loop hangs is restarted. Without `NOTIFY_SOCKET` nothing is sent. A
//! manager that takes no messages delays nothing: a message without room is dropped (the library
//! sd-notify would wait). Source: sd_notify(3).

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dataplane::Heartbeat;
use dataplane::guard::heartbeat::LoopState;
use tracing::warn;

/// The connection to the service manager, if there is one.
#[derive(Debug)]
pub struct ServiceManager {
    /// Where messages go; `None` without a manager.
    address: Option<SocketAddr>,
    loops: Vec<WatchedLoop>,
    /// Interval between two messages; `None` without a watchdog.
    interval: Option<Duration>,
    next: Instant,
}

/// A loop, and what it had published at the last look.
#[derive(Debug)]
struct WatchedLoop {
    heartbeat: Arc<Heartbeat>,
    last: Option<LoopState>,
}

impl ServiceManager {
    /// Finds the service manager by the environment.
    pub fn new(heartbeats: &[Arc<Heartbeat>]) -> Self {
        let watched = |heartbeat: &Arc<Heartbeat>| WatchedLoop { heartbeat: heartbeat.clone(), last: None };
        let variable = |name: &str| std::env::var(name).ok();
        let is_meant = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let within_us = variable("WATCHDOG_USEC").and_then(|us| us.parse().ok()).filter(|_| is_meant);
        Self {
            address: variable("NOTIFY_SOCKET").and_then(|name| address(&name)),
            loops: heartbeats.iter().map(watched).collect(),
            interval: within_us.map(|us| Duration::from_micros(us) / 4),
            next: Instant::now(),
        }
    }

    /// Reports that the switch forwards.
    pub fn ready(&self, name: &str, ports: usize) {
        self.send(&format!("READY=1\nSTATUS=switch {name} forwards on {ports} ports\n"));
    }

    /// Reports that the switch stops.
    pub fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// Feeds the watchdog, if that is due and all loops turn.
    pub fn feed(&mut self, now: Instant) {
        let Some(interval) = self.interval else { return };
        if now < self.next {
            return;
        }
        self.next = now + interval;
        // Each is looked at, so that the next look compares with this one.
        let turning = self.loops.iter_mut().filter_map(|watched| watched.turns().then_some(())).count();
        if turning == self.loops.len() {
            self.send("WATCHDOG=1\n");
        } else {
            warn!("a loop does not turn: the watchdog of the service manager is not fed");
        }
    }

    fn send(&self, message: &str) {
        let Some(address) = &self.address else { return };
        if let Err(error) = send(message, address) {
            warn!(%error, "the service manager cannot be reached");
        }
    }
}

/// Returns the address of a socket by its path, or, after an `@`, by its abstract name.
fn address(name: &str) -> Option<SocketAddr> {
    match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None => SocketAddr::from_pathname(name).ok(),
    }
}

/// Sends a message, without waiting for room.
fn send(message: &str, address: &SocketAddr) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(message.as_bytes(), address).map(drop)
}

impl WatchedLoop {
    /// True if the loop has run since the last call, or sleeps.
    fn turns(&mut self) -> bool {
        let now = self.heartbeat.state();
        let last = self.last.replace(now);
        match now {
            LoopState::Awake(_) => last != Some(now),
            LoopState::Asleep { .. } => true,
            LoopState::Ended => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_turns_while_it_iterates_or_sleeps() {
        let heartbeat = Arc::new(Heartbeat::default());
        let mut watched = WatchedLoop { heartbeat: heartbeat.clone(), last: None };
        assert!(watched.turns() && watched.turns(), "it sleeps until it begins");
        heartbeat.beat(switch::Instant(5));
        assert!(watched.turns());
        assert!(!watched.turns(), "no iteration since");
        heartbeat.beat(switch::Instant(6));
        assert!(watched.turns());
        heartbeat.end();
        assert!(!watched.turns());
    }

    #[test]
    fn a_manager_that_takes_nothing_delays_nothing() {
        let name = format!("@sluice-test-{}", std::process::id());
        let address = address(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let sent = (0..100_000).take_while(|_| send("WATCHDOG=1\n", &address).is_ok()).count();
        assert!((1..100_000).contains(&sent), "its queue is full after {sent}");
        let mut message = [0; 100];
        assert_eq!(manager.recv(&mut message).unwrap(), 11);
    }
}
