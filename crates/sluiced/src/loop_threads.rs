//! The poll loop on its thread, which is pinned to its core and ended by a command. Nothing waits
//! for it without a bound.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use config::Scheduling;
use dataplane::{LoopPort, PollLoop};
use tracing::warn;
use xdp::{Waiter, XdpPort};

use crate::ports::core_assignment::NewIoLoop;

/// Latest end of the loop's sleeps past their deadlines, which are pause times and shapers.
const TIMER_SLACK_NS: u64 = 1_000;

/// Real-time priority of a loop: below the guard's, which must run to detect a stalled loop.
const FIFO_PRIORITY: u32 = 40;

/// Fails if this process may not use `core`.
pub fn check_core(core: usize) -> Result<()> {
    let cores = xdp::cores().context("asking which cores there are")?;
    if cores.contains(&core) {
        return Ok(());
    }
    let cores: Vec<String> = cores.iter().map(usize::to_string).collect();
    bail!("dataplane.cores: there is no core {core} for this process; it may use {}", cores.join(", "))
}

/// Chooses the two cores from which the guard watches the loops on these cores. They differ from
/// the loops' cores as far as this process may use enough cores.
pub fn guard_cores(loops: &[usize]) -> Result<Vec<usize>> {
    let cores = xdp::cores().context("asking which cores there are")?;
    let others = cores.into_iter().filter(|core| !loops.contains(core));
    Ok(others.chain(loops.iter().rev().copied()).take(2).collect())
}

/// Converts the configured scheduling to the request to the kernel.
fn scheduling_of(scheduling: Scheduling) -> xdp::Scheduling {
    match scheduling {
        Scheduling::Normal => xdp::Scheduling::Normal,
        Scheduling::ShortSlices => xdp::Scheduling::ShortSlices,
        Scheduling::Fifo => xdp::Scheduling::Fifo(FIFO_PRIORITY),
    }
}

/// Measures the longest time for which other work delays a thread on `core` that is scheduled as a
/// loop. The thread reads the clock continuously for `duration`.
pub fn longest_stall(core: usize, scheduling: Scheduling, duration: Duration) -> Result<Duration> {
    let scheduling = scheduling_of(scheduling);
    let trial = move || -> io::Result<Duration> {
        xdp::set_affinity(core)?;
        // A rejection is reported when the loop itself asks.
        let _ = xdp::set_scheduling(scheduling);
        Ok(xdp::longest_gap(duration))
    };
    let thread = Builder::new().name(format!("trial-{core}")).spawn(trial).context("starting a trial")?;
    let longest = thread.join().map_err(|_| anyhow!("the trial of the loop's core panicked"))?;
    longest.context("a trial of the loop's core")
}

/// The running loops.
#[derive(Debug)]
pub struct LoopThreads {
    thread: JoinHandle<io::Result<()>>,
    io_loops: Vec<(JoinHandle<io::Result<()>>, Waker)>,
    /// Ends the I/O loops.
    ends: Arc<AtomicBool>,
}

impl LoopThreads {
    /// Starts the I/O loops, and the poll loop on `core`, on this clock.
    pub fn start(
        mut loop_of_core: PollLoop<LoopPort<XdpPort>>,
        waiter: Waiter,
        core: usize,
        lines: Vec<NewIoLoop>,
        scheduling: Scheduling,
        clock: impl Fn() -> switch::Instant + Clone + Send + 'static,
    ) -> Result<Self> {
        let scheduling = scheduling_of(scheduling);
        let ends = Arc::new(AtomicBool::new(false));
        let mut started = Vec::new();
        for NewIoLoop { core, mut line, mut memory, waiter } in lines {
            let (waker, ends, clock) = (waiter.waker(), Arc::clone(&ends), clock.clone());
            let run = move |waiter: &mut Waiter| line.run(&mut memory, clock, waiter, &ends);
            started.push((start(format!("line-{core}"), core, scheduling, waiter, run)?, waker));
        }
        let run = move |waiter: &mut Waiter| loop_of_core.run(clock, waiter);
        let thread = start(format!("poll-{core}"), core, scheduling, waiter, run)?;
        Ok(Self { thread, io_loops: started, ends })
    }

    /// True if the poll loop has ended for any reason, or an I/O loop has, since no other loop
    /// takes over its ports.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished() || self.io_loops.iter().any(|(line, _)| line.is_finished())
    }

    /// Waits for the threads to end. Returns the error of a thread that failed.
    pub fn join(self) -> Result<()> {
        let failed_line = self.io_loops.iter().position(|(line, _)| line.is_finished());
        let mut lines = self.io_loops;
        if let Some(number) = failed_line {
            // The switching core waits for this loop in vain; it ends with the process.
            return joined(lines.swap_remove(number).0);
        }
        let end = joined(self.thread);
        self.ends.store(true, Relaxed);
        for (line, waker) in lines {
            waker.wake();
            joined(line)?;
        }
        end
    }
}

/// Starts the thread of a loop on its core.
fn start(
    name: String,
    core: usize,
    scheduling: xdp::Scheduling,
    mut waiter: Waiter,
    run: impl FnOnce(&mut Waiter) -> io::Result<()> + Send + 'static,
) -> Result<JoinHandle<io::Result<()>>> {
    let (sender, reported) = mpsc::sync_channel(1);
    let run = move || {
        xdp::set_affinity(core)?;
        xdp::set_timer_slack(TIMER_SLACK_NS)?;
        if scheduling == xdp::Scheduling::ShortSlices {
            waiter.schedule(xdp::Scheduling::ShortSlice, scheduling);
        }
        let _ = sender.send(xdp::set_scheduling(scheduling));
        run(&mut waiter)
    };
    let thread = Builder::new().name(name).spawn(run).context("starting the poll loop")?;
    // Where the kernel rejects the scheduling, the loop continues without it and reports nothing
    // itself. An error here means that the loop has ended.
    if let Ok(Err(error)) = reported.recv() {
        warn!(%error, "the loop is scheduled as any other thread: {scheduling:?} was refused (CAP_SYS_NICE)");
    }
    Ok(thread)
}

/// Waits for the thread of a loop to end. Returns the error if it failed.
fn joined(thread: JoinHandle<io::Result<()>>) -> Result<()> {
    match thread.join() {
        Ok(end) => end.context("the poll loop failed"),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(anyhow!("the poll loop panicked: {text}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::CpuSet;
    use std::time::Instant;

    #[test]
    fn a_trial_is_no_longer_than_it_takes() {
        let core = xdp::cores().unwrap()[0];
        let start = Instant::now();
        let longest = longest_stall(core, Scheduling::Normal, Duration::from_millis(10)).unwrap();
        assert!(!longest.is_zero() && longest <= start.elapsed());
        assert!(longest_stall(CpuSet::count() - 1, Scheduling::Normal, Duration::ZERO).is_err());
    }

    #[test]
    fn a_loop_is_watched_from_other_cores_as_far_as_there_are_any() {
        let cores = xdp::cores().unwrap();
        for &core in &cores {
            let posts = guard_cores(&[core]).unwrap();
            assert_eq!(posts.len(), cores.len().min(2));
            assert_eq!(posts.contains(&core), cores.len() < 3, "{posts:?}");
            assert!(posts.iter().all(|post| cores.contains(post)));
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_refused_with_those_that_are() {
        let core = xdp::cores().unwrap()[0];
        check_core(core).unwrap();
        let missing = check_core(CpuSet::count() - 1).unwrap_err().to_string();
        assert!(
            missing.contains(&format!("no core {} for this process; it may use {core}", CpuSet::count() - 1))
        );
    }
}
