//! Which core serves which port: the ports are handed out in turn, those that may be added later included.
//!
//! Rule: the port at place n is served by core n modulo the number of cores, for as long as the daemon runs. The first core switches; what
//! the others serve it sees as ports like any other. Source: docs/cores.md.

use std::sync::Arc;
use std::task::Waker;

use anyhow::{Context, Result};
use dataplane::{CorePort, Doorbell, Heartbeat, Line, LinePort, remote};
use switch::settings::MAX_PORTS;
use wire::set::Set64;
use xdp::{Umem, Waiter, XdpPort};

use crate::guard::Watched;

/// A line that has not started yet, with all that is its own.
pub struct NewLine {
    /// Its core.
    pub core: usize,
    /// The loop.
    pub line: Line<XdpPort>,
    /// Its part of the memory.
    pub memory: Umem,
    /// How it sleeps.
    pub waiter: Waiter,
}

/// The ports as the switching core has them, and what serves them.
pub struct SharedOut {
    /// In their places.
    pub ports: Vec<CorePort<XdpPort>>,
    /// One for each core but the first.
    pub lines: Vec<NewLine>,
    /// What lines wake the switching core by.
    pub bell: Arc<Doorbell>,
}

/// The core, of so many, that serves the port at this place.
pub fn server(place: usize, cores: usize) -> usize {
    place % cores
}

/// The loops that a guard watches, the switching core's first; `heartbeats` are theirs, in the order of the cores.
pub fn watched(heartbeats: &[Arc<Heartbeat>], ports: &[CorePort<XdpPort>]) -> Vec<Watched> {
    let lanes: Vec<_> = ports
        .iter()
        .filter_map(|port| if let CorePort::Remote(port) = port { Some(port.news()) } else { None })
        .collect();
    let of_core = |(number, heartbeat): (usize, &Arc<Heartbeat>)| {
        let serves: Set64 =
            (0..MAX_PORTS).filter(|&place| server(place, heartbeats.len()) == number).collect();
        let (pauses, lanes) =
            if number == 0 { (Set64::first_of(MAX_PORTS), lanes.clone()) } else { (serves, Vec::new()) };
        Watched { heartbeat: Arc::clone(heartbeat), serves, pauses, lanes }
    };
    heartbeats.iter().enumerate().map(of_core).collect()
}

/// Hands the ports out to these cores, the first of which switches and is woken by `waker`.
///
/// # Errors
/// No descriptor is left for a line to sleep on.
pub fn share_out(
    ports: Vec<XdpPort>,
    memory: &Umem,
    cores: &[usize],
    heartbeats: &[Arc<Heartbeat>],
    waker: Waker,
) -> Result<SharedOut> {
    let bell = Arc::new(Doorbell::new(waker));
    let mut waiters = Vec::new();
    for _ in 1..cores.len() {
        let waiter = Waiter::new().context("a way for a line to sleep")?;
        waiters.push((Arc::new(Doorbell::new(waiter.waker())), waiter));
    }
    let mut of_lines: Vec<Vec<LinePort<XdpPort>>> = waiters.iter().map(|_| Vec::new()).collect();
    let place = |(place, port): (usize, XdpPort)| match server(place, cores.len()).checked_sub(1) {
        None => CorePort::Own(port),
        Some(line) => {
            let (port, of_line) = remote(port, &bell, &waiters[line].0);
            of_lines[line].push(of_line);
            CorePort::Remote(port)
        }
    };
    let ports = ports.into_iter().enumerate().map(place).collect();
    let lines = of_lines.into_iter().zip(waiters).enumerate();
    let lines = lines.map(|(number, (ports, (bell, waiter)))| NewLine {
        core: cores[number + 1],
        line: Line::new(ports, bell, Arc::clone(&heartbeats[number + 1])),
        memory: memory.share(),
        waiter,
    });
    Ok(SharedOut { ports, lines: lines.collect(), bell })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every place has one server, and each of the cores serves some.
    #[test]
    fn ports_are_handed_out_in_turn() {
        let heartbeats: Vec<_> = (0..3).map(|_| Arc::new(Heartbeat::default())).collect();
        let loops = watched(&heartbeats, &[]);
        let served: Vec<usize> = loops.iter().map(|watched| watched.serves.into_iter().count()).collect();
        assert_eq!((served.iter().sum::<usize>(), served.iter().min()), (MAX_PORTS, Some(&21)));
        assert_eq!((server(0, 3), server(4, 3)), (0, 1));
        assert!(loops[1].serves.contains(4) && loops[1].pauses == loops[1].serves);
        assert_eq!(loops[0].pauses, Set64::first_of(MAX_PORTS), "while the switching core stands still");
    }
}
