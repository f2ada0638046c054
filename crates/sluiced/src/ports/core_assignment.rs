//! Assignment of ports to cores, and the loops that serve them.
//!
//! Rule: a port is served by the core that the file names, for as long as the daemon runs. The
//! other ports are assigned in the order of the file, each to the core that serves the fewest RX
//! queues so far, and on a tie to the earlier one in `dataplane.cores`. The slots of ports that may
//! be added later are assigned in the same way, each as if it had one queue. The first core
//! switches, and also serves ports unless the file says otherwise. To the switching core, the ports
//! of the other cores look like any other ports. Source: docs/multi-core.md.

use std::sync::Arc;
use std::task::Waker;

use anyhow::{Context, Result};
use config::{Config, Dataplane};
use dataplane::{Doorbell, Heartbeat, IoLoop, IoPort, LoopPort, remote};
use switch::settings::MAX_PORTS;
use wire::bitset::Set64;
use xdp::{Umem, Waiter, XdpPort};

use crate::ports::vhost::LoopPorts;
use crate::stall_guard::GuardedLoop;

/// The core that serves the port in each slot of the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreAssignment {
    /// CPUs; the first is the switching core.
    cores: Vec<usize>,
    /// For each slot, the index of its core in `cores`.
    core_of_slot: Vec<usize>,
}

impl CoreAssignment {
    /// Assigns the slots at the start; `queues` are the RX queues of the ports of the file.
    pub fn new(config: &Config, queues: &[u32]) -> Self {
        let Dataplane { cores, switch_core_serves, .. } = &config.dataplane;
        let requested = |slot: usize| {
            if config.vhost_user.get(slot).is_some_and(Option::is_some) {
                return Some(0);
            }
            let core = config.port_cores.get(slot).copied().flatten()?;
            cores.iter().position(|&known| known == core)
        };
        let queues = |slot: usize| queues.get(slot).map_or(1, |&queues: &u32| queues.max(1));
        let mut serves = vec![0; cores.len()];
        for (slot, server) in (0..MAX_PORTS).filter_map(|slot| Some((slot, requested(slot)?))) {
            serves[server] += queues(slot);
        }
        let serving = usize::from(!switch_core_serves)..cores.len();
        let mut hand_out = |slot| {
            let least = serving.clone().min_by_key(|&server| serves[server]).unwrap_or(0);
            serves[least] += queues(slot);
            least
        };
        let core_of_slot = (0..MAX_PORTS).map(|slot| requested(slot).unwrap_or_else(|| hand_out(slot)));
        Self { cores: cores.clone(), core_of_slot: core_of_slot.collect() }
    }

    /// The core that serves this slot.
    pub fn core(&self, slot: usize) -> usize {
        self.cores[self.core_of_slot[slot]]
    }

    /// The slots that a core serves, by its index.
    fn slots_of(&self, server: usize) -> Set64 {
        (0..MAX_PORTS).filter(|&slot| self.core_of_slot[slot] == server).collect()
    }
}

/// An I/O loop that has not started yet, with all that it owns.
pub struct NewIoLoop {
    /// The core that the loop runs on.
    pub core: usize,
    /// The I/O loop.
    pub line: IoLoop<XdpPort>,
    /// The loop's part of the memory.
    pub memory: Umem,
    /// Puts the loop to sleep and wakes it.
    pub waiter: Waiter,
}

/// The ports as the switching core sees them, and the loops that serve them.
pub struct AssignedPorts {
    /// The ports by slot.
    pub ports: Vec<LoopPort<XdpPort>>,
    /// One I/O loop for each core except the first.
    pub io_loops: Vec<NewIoLoop>,
    /// Wakes the switching core on behalf of the I/O loops.
    pub bell: Arc<Doorbell>,
}

/// Returns the loops that a guard watches, the switching core's first. `heartbeats` are the loops'
/// heartbeats, in the order of the cores.
pub fn watched(
    servers: &CoreAssignment,
    heartbeats: &[Arc<Heartbeat>],
    ports: &[LoopPort<XdpPort>],
) -> Vec<GuardedLoop> {
    let channels: Vec<_> = ports
        .iter()
        .filter_map(|port| if let LoopPort::Remote(port) = port { Some(port.monitor()) } else { None })
        .collect();
    let of_core = |(number, heartbeat): (usize, &Arc<Heartbeat>)| {
        let serves = servers.slots_of(number);
        let (pauses, channels) =
            if number == 0 { (Set64::first_n(MAX_PORTS), channels.clone()) } else { (serves, Vec::new()) };
        GuardedLoop { heartbeat: Arc::clone(heartbeat), serves, pauses, channels }
    };
    heartbeats.iter().enumerate().map(of_core).collect()
}

/// Assigns the ports to their loops. The first loop switches and is woken by `waker`.
///
/// # Errors
/// No file descriptor is available for the sleep of an I/O loop.
pub fn assign(
    (ports, vhost): (Vec<XdpPort>, LoopPorts),
    memory: &Umem,
    servers: &CoreAssignment,
    heartbeats: &[Arc<Heartbeat>],
    waker: Waker,
) -> Result<AssignedPorts> {
    let CoreAssignment { cores, core_of_slot } = servers;
    let bell = Arc::new(Doorbell::new(waker));
    let mut waiters = Vec::new();
    for _ in 1..cores.len() {
        let waiter = Waiter::new().context("a way for a line to sleep")?;
        waiters.push((Arc::new(Doorbell::new(waiter.waker())), waiter));
    }
    let mut of_lines: Vec<Vec<IoPort<XdpPort>>> = waiters.iter().map(|_| Vec::new()).collect();
    let slot = |(port, server): (XdpPort, &usize)| match server.checked_sub(1) {
        None => LoopPort::Local(port),
        Some(line) => {
            let (port, of_line) = remote(port, &bell, &waiters[line].0, &heartbeats[line + 1]);
            of_lines[line].push(of_line);
            LoopPort::Remote(port)
        }
    };
    let mut ports: Vec<_> = ports.into_iter().zip(core_of_slot).map(slot).collect();
    for (slot, port) in vhost {
        ports[slot] = LoopPort::Other(Box::new(port));
    }
    let lines = of_lines.into_iter().zip(waiters).enumerate();
    let lines = lines.map(|(number, (ports, (bell, waiter)))| NewIoLoop {
        core: cores[number + 1],
        line: IoLoop::new(ports, bell, Arc::clone(&heartbeats[number + 1])),
        memory: memory.share(),
        waiter,
    });
    Ok(AssignedPorts { ports, io_loops: lines.collect(), bell })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assigns ports with these cores (9 for none) and RX queues.
    fn servers(dataplane: &str, ports: &[(usize, u32)]) -> CoreAssignment {
        let mut text = format!("[dataplane]\n{dataplane}\n");
        for (number, (core, _)) in ports.iter().enumerate() {
            text += &format!("[port.p{number}]\ninterface = \"v{number}\"\n");
            text += &if *core == 9 { String::new() } else { format!("core = {core}\n") };
        }
        let queues: Vec<u32> = ports.iter().map(|(_, queues)| *queues).collect();
        CoreAssignment::new(&config::parse("x.toml", &text).unwrap(), &queues)
    }

    fn first(servers: &CoreAssignment, slots: usize) -> Vec<usize> {
        (0..slots).map(|slot| servers.core(slot)).collect()
    }

    #[test]
    fn ports_go_to_their_cores_and_the_others_where_there_are_fewest_queues() {
        let any = 9;
        for (dataplane, ports, cores) in [
            ("cores = [3]", &[(any, 1), (any, 8)][..], &[3, 3, 3][..]),
            ("cores = [2, 0, 1]", &[(any, 1); 4], &[2, 0, 1, 2, 0, 1, 2]),
            ("cores = [0, 1]", &[(1, 1), (any, 1), (any, 1), (1, 1)], &[1, 0, 0, 1, 0, 1]),
            ("cores = [0, 1]", &[(any, 4), (any, 1), (any, 1)], &[0, 1, 1, 1, 1, 0, 1]),
            (
                "cores = [0, 1, 2]\nswitch_core_serves = false",
                &[(any, 1), (2, 1), (any, 1)],
                &[1, 2, 1, 2, 1],
            ),
        ] {
            assert_eq!(first(&servers(dataplane, ports), cores.len()), cores, "{dataplane}, {ports:?}");
        }
    }

    /// Every slot has one core, and each of the cores serves some slots.
    #[test]
    fn all_slots_are_watched() {
        let heartbeats: Vec<_> = (0..3).map(|_| Arc::new(Heartbeat::default())).collect();
        let loops = watched(&servers("cores = [0, 1, 2]", &[(9, 1)]), &heartbeats, &[]);
        let served: Vec<usize> = loops.iter().map(|watched| watched.serves.into_iter().count()).collect();
        assert_eq!((served.iter().sum::<usize>(), served.iter().min()), (MAX_PORTS, Some(&21)));
        assert!(loops[1].serves.contains(4) && loops[1].pauses == loops[1].serves);
        assert_eq!(loops[0].pauses, Set64::first_n(MAX_PORTS), "while the switching core stalls");
    }
}
