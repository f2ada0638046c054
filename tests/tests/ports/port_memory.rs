//! Ports with their own memory, as zero-copy ports have (docs/kernel/af-xdp.md, "Zero-copy"): the
//! lossless guarantee on veths, with `zero_copy = "emulate"`. Any other test uses such ports where
//! `SLUICE_TEST_ZERO_COPY=emulate` is set.

use std::time::Duration;

use anyhow::{Result, ensure};
use testbed::{conservation, drops, port};
use tests::{
    AMPLE_HEADROOM_CELLS, Incast, PeriodicStops, TrafficRun, group_config, loop_thread, port_config, sluice,
};

const EMULATED: &str = "\n[dataplane]\nzero_copy = \"emulate\"\n";
const THREE_SECONDS: Duration = Duration::from_secs(3);

/// Checks that priority 3 lost nothing, and that the losses of best effort are all counted.
fn check(run: &TrafficRun) -> Result<()> {
    let (no_drop, best_effort) = (run.total(3), run.total(0));
    println!("{no_drop:?}; {best_effort:?}");
    run.switch_lost_nothing(3)?;
    for total in [&no_drop, &best_effort] {
        assert_eq!((total.reordered, total.corrupted, total.duplicated), (0, 0, 0), "{total:?}");
    }
    let counted = drops(&run.snapshot, "ingress_lossy") + drops(&run.snapshot, "tail_drop");
    assert_eq!(best_effort.dropped, counted);
    for sender in ["a", "b"] {
        let sent = port(&run.snapshot, sender)?.pfc_sent.clone().unwrap_or_default();
        ensure!(sent.xoff_frames[3] > 0 && sent.xon_frames[3] > 0, "{sender}: {sent:?}");
    }
    conservation(&run.snapshot, &run.hosts())
}

#[test]
fn an_incast_loses_nothing() -> Result<()> {
    let incast = Incast::new()?;
    let daemon = incast.daemon(EMULATED)?;
    let verbose = sluice(&daemon, &["show", "ports", "--verbose"])?;
    println!("{verbose}");
    let output = "XDP          native, the kernel copies each frame; memory of its own";
    assert_eq!(verbose.matches(output).count(), 3, "{verbose}");
    check(&incast.run(&daemon, THREE_SECONDS)?)?;
    let log = daemon.stop()?;
    ensure!(!log.contains("frames are missing"), "{log}");
    Ok(())
}

/// The loop is stopped for 50 ms repeatedly: received frames wait in the memory of each port and
/// pause the peers, or the guard pauses them; nothing is lost.
#[test]
fn a_loop_that_stalls_loses_nothing() -> Result<()> {
    let incast = Incast::new()?;
    let mut daemon = incast.daemon(EMULATED)?;
    let thread = loop_thread(&mut daemon)?;
    let (stop, period) = (Duration::from_millis(50), Duration::from_millis(400));
    let stops = PeriodicStops::new(thread, stop, period, Duration::from_secs(4));
    let run = incast.run(&daemon, Duration::from_secs(6))?;
    ensure!(stops.end()? > 1);
    check(&run)?;
    daemon.stop()?;
    Ok(())
}

/// A port is removed and added while others carry frames; then a port whose veth was deleted and
/// made again: no frame of the memory is missing. The running switch rejects what it cannot change.
#[test]
fn ports_come_and_go() -> Result<()> {
    let incast = Incast::new()?;
    let other = incast.bed.linux_host(&incast.switch, "other")?;
    let of_other = port_config(&other.name, "1G") + &group_config(&other.name, AMPLE_HEADROOM_CELLS);
    let daemon = incast.daemon(&format!("{of_other}{EMULATED}"))?;
    let text = std::fs::read_to_string(daemon.config())?;
    let has_own_memory = |name: &str| {
        daemon.until("the port is up", |now| {
            let port = port(now, name).ok()?;
            (port.up && port.link.as_ref()?.own_memory).then_some(())
        })
    };
    incast.run_while(&daemon, || {
        for _ in 0..3 {
            std::fs::write(daemon.config(), text.replace(&of_other, ""))?;
            sluice(&daemon, &["reload"])?;
            std::fs::write(daemon.config(), &text)?;
            sluice(&daemon, &["reload"])?;
            has_own_memory("other")?;
            incast.switch.ip("link del other")?;
            daemon.until("the port is down", |now| (!port(now, "other").ok()?.up).then_some(()))?;
            incast.bed.reconnect(&other, &incast.switch)?;
            has_own_memory("other")?;
        }
        std::fs::write(daemon.config(), text.replace("\"emulate\"", "\"off\""))?;
        let refused = sluice(&daemon, &["reload"]).expect_err("it is not changed while it runs").to_string();
        ensure!(refused.contains("zero_copy"), "{refused}");
        Ok(())
    })?;
    let at_rest = daemon.snapshot()?;
    assert_eq!(testbed::lost_by_kernels(&at_rest, []), 0);
    assert_eq!(drops(&at_rest, "ingress_no_drop"), 0);
    let log = daemon.stop()?;
    ensure!(!log.contains("frames are missing"), "{log}");
    Ok(())
}
