//! What happens around the daemon during a round, at random, one after the other.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use testbed::{CpuLoad, Host, Process, loop_thread, port, stop_thread};
use xdp::Scheduling;

use crate::network::{FLAPPING, Network};

/// The longest stop of the loop, in milliseconds.
const LONGEST_STOP_MS: u64 = 500;
/// The most clients that watch at a time.
const MOST_WATCHERS: usize = 8;

/// A kind of disturbance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disturbance {
    Reload,
    Negotiation,
    PortAddedOrRemoved,
    Flap,
    Storm,
    Watchers,
    CollectorKilled,
    OtherWork,
    LoopStopped,
}

impl Disturbance {
    pub const ALL: [Self; 9] = [
        Self::Reload,
        Self::Negotiation,
        Self::PortAddedOrRemoved,
        Self::Flap,
        Self::Storm,
        Self::Watchers,
        Self::CollectorKilled,
        Self::OtherWork,
        Self::LoopStopped,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Reload => "reload with another threshold",
            Self::Negotiation => "another agreement by DCBX",
            Self::PortAddedOrRemoved => "a port added or removed by a reload",
            Self::Flap => "an interface down and up",
            Self::Storm => "a PFC storm of a second",
            Self::Watchers => "clients that watch or stall, and are killed",
            Self::CollectorKilled => "the collector killed and started again",
            Self::OtherWork => "other work on all cores",
            Self::LoopStopped => "the loop stopped for up to 500 ms",
        }
    }
}

/// Chooses disturbances, and counts them.
pub struct Disturber {
    random: fastrand::Rng,
    counts: BTreeMap<Disturbance, u64>,
    /// The cores of this machine, which other work takes.
    cores: Vec<usize>,
    has_spare: bool,
}

impl Disturber {
    pub fn new(seed: u64) -> Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let cores = (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).collect();
        let random = fastrand::Rng::with_seed(seed);
        Ok(Self { random, counts: BTreeMap::new(), cores, has_spare: false })
    }

    /// Occupies each core with a busy loop, for this time or until the result is dropped.
    pub fn occupy_cores(&self, lasts: Duration) -> CpuLoad {
        let period = lasts.min(Duration::from_secs(1));
        CpuLoad::new(&self.cores, Scheduling::Normal, period, period, lasts)
    }

    /// How often each has happened.
    pub fn counts(&self) -> &BTreeMap<Disturbance, u64> {
        &self.counts
    }

    /// Lets one happen, at a random moment. `storming` is the host that storms, once a round.
    pub fn one(&mut self, network: &mut Network, storming: &mut Option<&mut Host>) -> Result<()> {
        sleep(Duration::from_millis(self.random.u64(100..1500)));
        let which = Disturbance::ALL[self.random.usize(..Disturbance::ALL.len())];
        if which == Disturbance::Storm && storming.is_none() {
            return Ok(()); // it has been
        }
        self.happen(which, network, storming).with_context(|| which.name())?;
        *self.counts.entry(which).or_default() += 1;
        Ok(())
    }

    fn happen(
        &mut self,
        which: Disturbance,
        network: &mut Network,
        storming: &mut Option<&mut Host>,
    ) -> Result<()> {
        match which {
            Disturbance::Reload => network.reload(self.random.u64(0..1000), self.has_spare),
            Disturbance::Negotiation => network.renegotiate(self.random.bool(), self.random.bool()),
            Disturbance::PortAddedOrRemoved => self.toggle_spare(network),
            Disturbance::Flap => flap(network),
            Disturbance::Storm => storming.take().map_or(Ok(()), Host::start_sending),
            Disturbance::Watchers => self.watch(network),
            Disturbance::CollectorKilled => {
                drop(network.collector.take());
                sleep(Duration::from_millis(self.random.u64(0..2000)));
                network.start_collector()
            }
            Disturbance::OtherWork => {
                let lasts = Duration::from_millis(self.random.u64(200..2000));
                let _load = self.occupy_cores(lasts);
                sleep(lasts);
                Ok(())
            }
            Disturbance::LoopStopped => {
                let thread = loop_thread(&mut network.daemon)?;
                stop_thread(thread, Duration::from_millis(self.random.u64(1..=LONGEST_STOP_MS)))
            }
        }
    }

    fn toggle_spare(&mut self, network: &Network) -> Result<()> {
        network.reload(0, !self.has_spare)?;
        self.has_spare = !self.has_spare;
        Ok(())
    }

    /// Brings the switch to the ports that it has between rounds.
    pub fn settle(&mut self, network: &Network) -> Result<()> {
        if self.has_spare { self.toggle_spare(network) } else { Ok(()) }
    }

    /// Clients that follow, some of which stall; all are killed.
    fn watch(&mut self, network: &Network) -> Result<()> {
        let mut clients = Vec::new();
        for _ in 0..self.random.usize(1..=MOST_WATCHERS) {
            let arguments: &[&str] = match self.random.u8(0..3) {
                0 => &["events", "--follow"],
                1 => &["show", "ports", "--watch=1", "--json"],
                _ => &["show", "pfc", "--json"],
            };
            let client = Process::start("client", &mut network.sluice(arguments)?)?;
            if self.random.bool() {
                client.signal(Signal::SIGSTOP)?;
            }
            clients.push(client);
        }
        sleep(Duration::from_millis(self.random.u64(100..1000)));
        Ok(()) // and they are killed
    }
}

/// Takes an interface down and up, and waits until its port follows.
fn flap(network: &Network) -> Result<()> {
    for (state, is_up) in [("down", false), ("up", true)] {
        network.switch.ip(&format!("link set dev {FLAPPING} {state}"))?;
        network.daemon.until("the port follows its interface", |now| {
            (port(now, FLAPPING).ok()?.up == is_up).then_some(())
        })?;
    }
    Ok(())
}
