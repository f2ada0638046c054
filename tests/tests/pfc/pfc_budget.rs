//! PFC frames on the wire against what a chip sends for the same pauses: an XOFF, the refreshes
//! that the pause time asks for, an XON and its repeat (docs/behavior.md, "PFC sent"). Senders
//! honor pauses and share a port of 500 Mbit/s; the machine is busy, or the loop is stopped.

use std::thread::{scope, sleep};
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::unistd::Pid;
use testbed::{Testbed, port};
use tests::{
    CpuLoad, flow, group_config, loop_thread, mbps, pause, port_config, run, slow_port_config, stop_thread,
    switch_config,
};
use xdp::Scheduling;

const SECONDS: u64 = 7;
/// A third of 65535 quanta at 10 Gbit/s, the speed of a veth's link: the fastest at which the
/// peer may count them.
const REFRESH_NS: u64 = 65_535 * 512 / 10 / 3;
/// The same at 1 Gbit/s, the speed of the senders' ports.
const REFRESH_OF_PORT_NS: u64 = 65_535 * 512 / 3;
/// XOFF is repeated this often within ten seconds for a peer that goes on: after 300 and 600 µs.
const XOFF_REPEATS: u64 = 2;

/// `senders` hosts on ports of 1G send 2 Gbit/s in all to a port of 500M, while `disturb`, which
/// gets the loop's thread, disturbs the switch.
fn incast(senders: u64, disturb: impl FnOnce(Pid) + Send) -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let receiver = bed.sluice_host(&switch, "receiver")?;
    let mut config = switch_config("on") + &slow_port_config("receiver", mbps(500));
    let mut stations = Vec::new();
    for number in 0..senders {
        let sender = bed.sluice_host(&switch, &format!("sender{number}"))?;
        let headroom_cells = (32_768 / senders) as u32;
        config += &(port_config(&sender.name, "1G") + &group_config(&sender.name, headroom_cells));
        stations.push(sender);
    }
    let mut daemon = bed.daemon(&switch, &config)?;
    let thread = loop_thread(&mut daemon)?;
    let flows = [flow(&receiver.mac(), 3, &format!("{}M", mbps(2000) / senders))];
    let lasts = format!("{SECONDS}s");
    let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", &lasts];
    let sending = stations.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<Vec<_>>>()?;
    let receiving = bed.host(&receiver, &[], &["--speed", "500M", "--no-drop", "3"])?;
    let hosts = senders + 1;
    daemon.until_announced(hosts)?;
    let run = scope(|threads| {
        threads.spawn(|| disturb(thread));
        run(&[&daemon], sending, vec![receiving], Duration::from_secs(SECONDS))
    })?;
    run.switch_lost_nothing(3)?;

    let (mut sent, mut chip, mut chip_of_port) = (0, 0, 0);
    for station in &stations {
        let port = port(&run.snapshot, &station.name)?;
        let received = pause(run.report(&station.name)?, 3);
        let [changes, refreshes, repeats, guard] =
            [port.pfc_change_frames, port.pfc_refresh_frames, port.pfc_repeat_frames, port.pfc_guard_frames];
        // XOFF and XON are a change each, unless the guard was first with XOFF.
        let pauses = changes / 2;
        sent += received.xoff + received.xon;
        chip += 3 * pauses + received.paused_ns / REFRESH_NS;
        chip_of_port += 3 * pauses + received.paused_ns / REFRESH_OF_PORT_NS;
        println!(
            "{}: {received:?}; changes {changes}, refreshes {refreshes}, repeats {repeats}, guard {guard}",
            station.name
        );
        // Each XON is repeated once, and what the kernel lost is.
        let most = changes + XOFF_REPEATS * (1 + SECONDS / 10) + port.kernel_lost_frames;
        ensure!(repeats <= most, "{}: {repeats} repeats, at most {most}", station.name);
        let frames = port.pfc_sent.as_ref().map_or(0, |sent| sent.frames);
        ensure!(frames == changes + refreshes + repeats + guard, "{}: {frames} PFC frames", station.name);
    }
    let (carried, busy) = (run.typical_bps("receiver")?, run.busy_part("receiver", 3)?);
    println!(
        "{sent} PFC frames, a chip {chip} on a link of 10G ({:.2}) and {chip_of_port} on one of 1G; 0 lost; \
         {carried:.0} bit/s, busy {:.1} %",
        sent as f64 / chip as f64,
        100.0 * busy
    );
    ensure!(sent * 10 <= chip * 12, "{sent} PFC frames where a chip sends {chip}");
    // Senders that get no core leave the port idle, which says nothing about the switch.
    ensure!(busy < 0.95 || carried >= mbps(500) as f64 * 0.99e6, "{carried} bit/s, busy {busy}");
    Ok(())
}

/// Stops of 50, 500 and 2000 ms.
fn stops(thread: Pid) {
    for stop in [50, 500, 2000] {
        sleep(Duration::from_secs(1));
        stop_thread(thread, Duration::from_millis(stop)).expect("the loop runs");
    }
}

#[test]
fn two_senders() -> Result<()> {
    incast(2, |_| ())
}

#[test]
fn fifteen_senders() -> Result<()> {
    incast(15, |_| ())
}

/// Other work on both cores for half of the time.
#[test]
fn two_senders_beside_cpu_load() -> Result<()> {
    let (busy, period) = (Duration::from_millis(400), Duration::from_millis(800));
    let lasts = Duration::from_secs(SECONDS);
    incast(2, |_| {
        let load = CpuLoad::new(&[0, 1], Scheduling::Normal, busy, period, lasts);
        sleep(lasts);
        drop(load);
    })
}

#[test]
fn two_senders_and_a_loop_that_is_stopped() -> Result<()> {
    incast(2, stops)
}

#[test]
fn fifteen_senders_and_a_loop_that_is_stopped() -> Result<()> {
    incast(15, stops)
}
