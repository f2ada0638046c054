//! The lossless guarantee on an overloaded machine: no-drop frames arrive faster than the loop
//! handles them, and the loop is preempted (docs/behavior.md, "RX rings" and "A loop that
//! stalls").

use std::time::Duration;

use anyhow::Result;
use nix::unistd::Pid;
use testbed::{Endpoint, Testbed, conservation, port};
use tests::{CpuLoad, PeriodicStops, Total, TrafficRun, loop_thread, port_config, run};
use xdp::Scheduling;

/// A run whose first part is disturbed; in the rest the switch and its hosts become idle.
#[derive(Clone, Copy)]
struct Plan {
    seconds: u64,
    disturbed: Duration,
}

const SHORT: Plan = Plan { seconds: 6, disturbed: Duration::from_secs(4) };
const LONG: Plan = Plan { seconds: 30, disturbed: Duration::from_secs(15) };
/// Core of the daemon's loop.
const CORE: usize = 0;

/// Two hosts offer 1 Gbit/s of 64-byte frames of priority 3 each, crosswise, into uncongested
/// ports, while `disturb`, which gets the loop's thread, disturbs the loop. The result includes the
/// daemon's log.
fn small_frames<T>(
    plan: Plan,
    overload: &str,
    disturb: impl FnOnce(Pid) -> T,
) -> Result<(TrafficRun, T, String)> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let hosts = [bed.sluice_host(&switch, "host1")?, bed.sluice_host(&switch, "host2")?];
    let config = format!("[dataplane]\ncores = [{CORE}]\noverload = \"{overload}\"\n")
        + &tests::switch_config("on")
        + &hosts.iter().map(|host| port_config(&host.name, "1G")).collect::<String>();
    let mut daemon = bed.daemon(&switch, &config)?;
    let thread = loop_thread(&mut daemon)?;
    let to = |other: &Endpoint| format!("to={},priority=3,size=64,rate=1G", other.mac());
    let lasts = format!("{}s", plan.seconds);
    let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", &lasts];
    let sending = vec![
        bed.host(&hosts[0], &[to(&hosts[1])], &arguments)?,
        bed.host(&hosts[1], &[to(&hosts[0])], &arguments)?,
    ];
    daemon.until_announced(2)?;
    let disturbance = disturb(thread);
    let run = run(&[&daemon], sending, vec![], Duration::from_secs(plan.seconds))?;
    // Not against the hosts' counters: a starved host may miss PFC frames in its own kernel.
    conservation(&run.snapshot, &[])?;
    let log = daemon.stop()?;
    Ok((run, disturbance, log))
}

fn xoffs(run: &TrafficRun) -> u64 {
    let sent = run.snapshot.ports.iter().map(|port| port.pfc_sent.clone().unwrap_or_default());
    sent.map(|sent| sent.xoff_frames[3]).sum()
}

fn kernel_drops(run: &TrafficRun) -> u64 {
    let kernel = run.snapshot.ports.iter().map(|port| port.kernel.unwrap_or_default());
    kernel.map(|kernel| kernel.rx_fill_ring_empty_frames + kernel.rx_ring_full_frames).sum()
}

/// More than the loop can handle, and other work on both cores: the peers are paused, and nothing
/// is lost.
#[test]
fn an_overloaded_loop_pauses_its_peers() -> Result<()> {
    overload(SHORT)
}

#[test]
#[ignore = "half a minute of full load: cargo test -p tests --test overload -- --ignored --nocapture"]
fn an_overloaded_loop_pauses_its_peers_for_half_a_minute() -> Result<()> {
    overload(LONG)
}

fn overload(plan: Plan) -> Result<()> {
    let (busy, period) = (Duration::from_millis(400), Duration::from_millis(800));
    let load = |_| CpuLoad::new(&[0, 1], Scheduling::Normal, busy, period, plan.disturbed);
    let (run, load, _) = small_frames(plan, "pause", load)?;
    drop(load);
    let total = run.total(3);
    println!(
        "{total:?}, {} XOFF frames, stall {} ms",
        xoffs(&run),
        run.snapshot.loop_worst_stall_ns / 1_000_000
    );
    run.switch_lost_nothing(3)?;
    assert!(total.received > 100_000 && xoffs(&run) > 0, "{total:?}, {} XOFF frames", xoffs(&run));
    Ok(())
}

/// The same with the loop stopped for 50 and for 500 ms, repeatedly: the guard acts for the loop.
#[test]
fn a_loop_that_stalls_is_covered() -> Result<()> {
    for (stop, period) in [(50, 400), (500, 1500)] {
        let (stop, period) = (Duration::from_millis(stop), Duration::from_millis(period));
        let (run, stops, _) =
            small_frames(SHORT, "pause", |it| PeriodicStops::new(it, stop, period, SHORT.disturbed))?;
        let (total, stops) = (run.total(3), stops.end()?);
        println!("{total:?}, {} XOFF frames, {stops} stops of {stop:?}", xoffs(&run));
        assert!(stops > 1, "{stops} stops");
        run.switch_lost_nothing(3)?;
        assert!(xoffs(&run) > 0);
    }
    Ok(())
}

/// A thread of higher priority than any guard occupies the loop's core, as a hypervisor would: a
/// guard on another core acts for the loop.
#[test]
fn a_core_that_is_taken_away_takes_no_guard_with_it() -> Result<()> {
    let (busy, period) = (Duration::from_millis(300), Duration::from_millis(600));
    let load = |_| CpuLoad::new(&[CORE], Scheduling::Fifo(90), busy, period, SHORT.disturbed);
    let (run, load, _) = small_frames(SHORT, "pause", load)?;
    drop(load);
    let stall = Duration::from_nanos(run.snapshot.loop_worst_stall_ns);
    println!("{:?}, {} XOFF frames, stall {stall:?}", run.total(3), xoffs(&run));
    assert!(stall >= busy / 2, "the loop stalled for no more than {stall:?}");
    run.switch_lost_nothing(3)?;
    assert!(xoffs(&run) > 0);
    Ok(())
}

/// Without the rule the same run loses frames in the kernel: they are counted, and an event reports
/// them.
#[test]
fn without_the_rule_the_kernel_drops_and_an_event_reports_it() -> Result<()> {
    let (stop, period) = (Duration::from_millis(500), Duration::from_millis(1000));
    let (run, stops, log) =
        small_frames(SHORT, "drop", |it| PeriodicStops::new(it, stop, period, SHORT.disturbed))?;
    assert!(stops.end()? > 1);
    let total = run.total(3);
    println!("{total:?}, {} dropped by the kernel", kernel_drops(&run));
    assert!(total.sent > total.received, "{total:?}");
    assert_eq!(total.sent - total.received, run.lost_by_kernels(), "all of it in kernels");
    assert!(kernel_drops(&run) > 0 && log.contains("kind=\"kernel_dropped\""), "{log}");
    assert!(port(&run.snapshot, "host1").is_ok());
    let nothing_else_wrong = Total { sent: total.sent, received: total.received, ..Total::default() };
    assert_eq!(
        (total.reordered, total.corrupted),
        (nothing_else_wrong.reordered, nothing_else_wrong.corrupted)
    );
    Ok(())
}
