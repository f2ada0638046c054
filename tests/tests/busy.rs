//! The promise on a machine that is too busy for it: no-drop frames come faster than the loop turns, and the loop is taken
//! off its core (docs/law.md, "RX rings" and "A loop that stands still").

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::Result;
use testbed::{Bed, Station, conservation, port};
use tests::{Run, Total, port_config, run};
use xdp::{Scheduling, set_affinity, set_scheduling};

const DURATION: Duration = Duration::from_secs(6);
/// The daemon's loop is on this core.
const CORE: usize = 0;

/// For so long hogs run in a run of [`DURATION`]: what comes after is for the switch and its hosts to come to rest.
const HOGGED: Duration = Duration::from_secs(4);

/// Threads that take a core for a while, each so often, for [`HOGGED`].
struct Hogs {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// On each of `cores` a thread that spins for `busy` of each `period`; in real time, if that is to be above a loop.
    fn new(cores: &[usize], scheduling: Scheduling, busy: Duration, period: Duration) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let hog = |&core: &usize| {
            let ends = Arc::clone(&ends);
            spawn(move || {
                set_affinity(core).expect("the core is there");
                set_scheduling(scheduling).expect("tests run as root");
                let end = Instant::now() + HOGGED;
                while !ends.load(Relaxed) && Instant::now() < end {
                    let start = Instant::now();
                    while start.elapsed() < busy {
                        std::hint::spin_loop();
                    }
                    sleep(period.saturating_sub(start.elapsed()));
                }
            })
        };
        Self { threads: cores.iter().map(hog).collect(), ends }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Two hosts offer 1 Gbit/s of 64-byte frames of priority 3 each, crosswise, into ports that nothing congests. Returns the
/// daemon's log too.
fn small_frames(overload: &str, hogs: impl FnOnce() -> Option<Hogs>) -> Result<(Run, String)> {
    let bed = Bed::new()?;
    let switch = bed.switch("switch")?;
    let hosts = [bed.quiet_host(&switch, "host1")?, bed.quiet_host(&switch, "host2")?];
    let config = format!("[dataplane]\ncores = [{CORE}]\noverload = \"{overload}\"\n")
        + &tests::switch_config("on")
        + &hosts.iter().map(|host| port_config(&host.name, "1G")).collect::<String>();
    let daemon = bed.daemon(&switch, &config)?;
    let to = |other: &Station| format!("to={},priority=3,size=64,rate=1G", other.mac());
    let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", "6s"];
    let sending = vec![
        bed.host(&hosts[0], &[to(&hosts[1])], &arguments)?,
        bed.host(&hosts[1], &[to(&hosts[0])], &arguments)?,
    ];
    daemon.until("the switch knows both hosts", |now| (now.bridge_entries == 2).then_some(()))?;
    let hogs = hogs();
    let run = run(&[&daemon], sending, vec![], DURATION)?;
    drop(hogs);
    // Not against the hosts' counters: a host that is starved itself may miss PFC frames in its own kernel.
    conservation(&run.snapshot, &[])?;
    let log = daemon.stop()?;
    Ok((run, log))
}

fn xoffs(run: &Run) -> u64 {
    let sent = run.snapshot.ports.iter().map(|port| port.pfc_sent.clone().unwrap_or_default());
    sent.map(|sent| sent.xoff_frames[3]).sum()
}

fn kernel_drops(run: &Run) -> u64 {
    let kernel = run.snapshot.ports.iter().map(|port| port.kernel.unwrap_or_default());
    kernel.map(|kernel| kernel.rx_fill_ring_empty_frames + kernel.rx_ring_full_frames).sum()
}

/// More than the loop can take, and other work on both cores: the neighbours are paused, and nothing is lost.
#[test]
fn an_overloaded_loop_pauses_its_neighbours() -> Result<()> {
    let hogs = || {
        Some(Hogs::new(&[0, 1], Scheduling::Normal, Duration::from_millis(400), Duration::from_millis(800)))
    };
    let (run, _) = small_frames("pause", hogs)?;
    let total = run.total(3);
    println!(
        "{total:?}, {} XOFF frames, stall {} ms",
        xoffs(&run),
        run.snapshot.loop_worst_stall_ns / 1_000_000
    );
    assert_eq!((total.sent - total.received, kernel_drops(&run)), (0, 0), "{total:?}");
    assert!(total.received > 100_000 && xoffs(&run) > 0, "{total:?}, {} XOFF frames", xoffs(&run));
    Ok(())
}

/// The same with the loop taken off its core for 50 and for 500 ms, again and again: the guard stands in for it.
#[test]
fn a_loop_that_stands_still_is_stood_in_for() -> Result<()> {
    for (busy, period) in [(50, 400), (500, 2000)] {
        let (busy, period) = (Duration::from_millis(busy), Duration::from_millis(period));
        let (run, _) =
            small_frames("pause", || Some(Hogs::new(&[CORE], Scheduling::Fifo(50), busy, period)))?;
        let total = run.total(3);
        let stall = Duration::from_nanos(run.snapshot.loop_worst_stall_ns);
        println!("{total:?}, {} XOFF frames, stall {stall:?}", xoffs(&run));
        assert!(stall >= busy * 9 / 10, "the loop stood still for {stall:?} only");
        assert_eq!((total.sent - total.received, kernel_drops(&run)), (0, 0), "{busy:?}: {total:?}");
        assert!(xoffs(&run) > 0);
    }
    Ok(())
}

/// Without the rule the same run loses frames in the kernel: they are counted, and an event says so.
#[test]
fn without_the_rule_the_kernel_drops_and_an_event_says_so() -> Result<()> {
    let (busy, period) = (Duration::from_millis(500), Duration::from_millis(1000));
    let (run, log) = small_frames("drop", || Some(Hogs::new(&[CORE], Scheduling::Fifo(50), busy, period)))?;
    let total = run.total(3);
    println!("{total:?}, {} dropped by the kernel", kernel_drops(&run));
    assert!(total.sent > total.received, "{total:?}");
    assert_eq!(total.sent - total.received, run.lost_by_kernels(), "all of it in kernels");
    assert!(kernel_drops(&run) > 0 && log.contains("the kernel dropped frames"), "{log}");
    assert!(port(&run.snapshot, "host1").is_ok());
    let nothing_else_wrong = Total { sent: total.sent, received: total.received, ..Total::default() };
    assert_eq!(
        (total.reordered, total.corrupted),
        (nothing_else_wrong.reordered, nothing_else_wrong.corrupted)
    );
    Ok(())
}
