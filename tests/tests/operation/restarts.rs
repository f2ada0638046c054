//! A daemon that is killed under full load at random moments, and started again at once: there is
//! traffic again, after a time that is printed (docs/reliability.md, "Faults on veths").
//!
//! `SLUICE_TEST_RESTARTS=100` restarts it more often, and wants traffic again within [`LONGEST`].

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testbed::{Daemon, Endpoint, Host, Namespace, PATIENCE, port};
use tests::{Incast, UNTIL_STOPPED};

/// Restarts, unless `SLUICE_TEST_RESTARTS` says otherwise.
const RESTARTS: usize = 10;
/// The longest time without traffic, where the machine does nothing else. Only asserted if
/// `SLUICE_TEST_RESTARTS` is set, since it depends on the machine.
const LONGEST: Duration = Duration::from_secs(2);
/// Frames that show that traffic flows: more than a daemon sends by itself.
const FLOWING_FRAMES: u64 = 100;

/// Returns the frames that an interface of the caller's namespace has received.
fn received(interface: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/thread-self/net/dev")?;
    let of_line = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        (name.trim() == interface).then(|| counters.split_whitespace().nth(1)?.parse().ok())?
    };
    text.lines().find_map(of_line).with_context(|| format!("no counters of {interface}"))
}

/// Waits until an interface has received more frames, and returns how long after `since` that was.
fn until_more(namespace: &Namespace, frames: u64, since: Instant) -> Result<Duration> {
    namespace.enter(|| {
        while received(Endpoint::INTERFACE)? < frames {
            if since.elapsed() > PATIENCE {
                bail!("no traffic for {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(since.elapsed())
    })?
}

/// Kills the daemon, starts it again at once, and returns it with the time without traffic.
fn restart(incast: &Incast, daemon: Daemon) -> Result<(Daemon, Duration)> {
    let (config, socket) = (daemon.config().to_path_buf(), daemon.socket().to_path_buf());
    let receiver = &incast.receiver().namespace;
    let since = Instant::now();
    daemon.kill9()?;
    let then = receiver.enter(|| received(Endpoint::INTERFACE))??;
    let daemon = Daemon::on_file(&incast.switch, &config, &socket)?;
    match until_more(receiver, then + FLOWING_FRAMES, since) {
        Ok(outage) => Ok((daemon.ready()?, outage)),
        Err(error) => Err(error.context(daemon.failure().unwrap_or_default())),
    }
}

#[test]
fn a_daemon_that_is_killed_under_load_carries_traffic_again() -> Result<()> {
    let of_command = std::env::var("SLUICE_TEST_RESTARTS").ok();
    let restarts = of_command.as_deref().map(str::parse).transpose();
    let restarts = restarts.context("SLUICE_TEST_RESTARTS is a number")?.unwrap_or(RESTARTS);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let incast = Incast::new()?;
    let mut daemon = incast.daemon("")?;
    let (mut sending, receiving) = incast.hosts(UNTIL_STOPPED)?;
    sending.iter_mut().try_for_each(Host::start_sending)?;
    let mut outages = Vec::new();
    for _ in 0..restarts {
        daemon.until("full load: a sender is paused", |now| {
            port(now, "a").is_ok_and(|port| port.groups[3].xoff).then_some(())
        })?;
        std::thread::sleep(Duration::from_millis(random.u64(0..300)));
        let (next, outage) = restart(&incast, daemon)?;
        daemon = next;
        outages.push(outage);
    }
    outages.sort();
    let (median, worst) = (outages[outages.len() / 2], outages[outages.len() - 1]);
    println!("{restarts} restarts: no traffic for {median:.2?} (median), {worst:.2?} at worst");
    ensure!(of_command.is_none() || worst <= LONGEST, "{worst:.2?} without traffic: {outages:.2?}");
    Host::stop_all(sending)?;
    receiving.stop()?;
    let totals = daemon.stop()?;
    ensure!(totals.contains("every frame is accounted for"), "{totals}");
    Ok(())
}
