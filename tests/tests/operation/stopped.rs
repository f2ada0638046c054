//! A whole daemon that is stopped under load (SIGSTOP, a frozen cgroup) and goes on: what its
//! rings could not hold is lost, counted and reported, nothing else; and neither it nor its
//! neighbor takes the pauses of that time for a storm (docs/reliability.md, "Faults on veths").

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use testbed::{
    Daemon, Endpoint, Host, Port, Snapshot, Testbed, conservation, drops, eventually, idle, pauses_sent, port,
};
use tests::{
    events, flow, frames, group_config, port_config, run, slow_port_config, stop_hosts, switch_config,
};

/// Longer than any pause lasts, and than the daemon's watchdogs and guards wait.
const STOP: Duration = Duration::from_secs(5);
/// How long the host sends: before, during and after the stop.
const SENDING: Duration = Duration::from_secs(9);
/// Headroom for all that the rings of a port hold when the daemon goes on (8192 frames of 4 cells),
/// and for what its peer sends until it has the XOFF.
const HEADROOM_CELLS: u32 = 49_152;
/// Detects a storm after 100 ms.
const WATCHDOG: &str = "\n[pfc.watchdog]\nprecision = \"high\"\npriority.3 = { interval = 10 }\n";

/// A host, two switches in series and a slow receiver: the second switch pauses the first, which
/// pauses the host.
struct Series {
    switches: [Daemon; 2],
    sender: Endpoint,
    receiver: Endpoint,
    bed: Testbed,
}

impl Series {
    fn new() -> Result<Self> {
        let bed = Testbed::new()?;
        let (first_at, second_at) = (bed.switch("first")?, bed.switch("second")?);
        let sender = bed.sluice_host(&first_at, "sender")?;
        let receiver = bed.sluice_host(&second_at, "receiver")?;
        bed.cable((&first_at, "uplink"), (&second_at, "downlink"))?;
        let fast = |name: &str| port_config(name, "1G") + &group_config(name, HEADROOM_CELLS);
        let switch = switch_config("on").replace("headroom_cells = 32768", "headroom_cells = 98304");
        let first = switch.clone() + &fast("sender") + &fast("uplink") + WATCHDOG;
        // Two poll loops on one core would stall each other.
        let core = std::thread::available_parallelism()?.get().min(2) - 1;
        let second = format!("[dataplane]\ncores = [{core}]\n\n")
            + &switch
            + &fast("downlink")
            + &slow_port_config("receiver", 100)
            + WATCHDOG;
        let switches = [bed.daemon(&first_at, &first)?, bed.daemon(&second_at, &second)?];
        Ok(Self { switches, sender, receiver, bed })
    }

    fn hosts(&self, lasts: Duration) -> Result<(Host, Host)> {
        let duration = format!("{}s", lasts.as_secs());
        let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", &duration];
        let sending = self.bed.host(&self.sender, &[flow(&self.receiver.mac(), 3, "200M")], &arguments)?;
        let receiving = self.bed.host(&self.receiver, &[], &["--speed", "100M", "--no-drop", "3"])?;
        self.switches.iter().try_for_each(|daemon| daemon.until_announced(2))?;
        Ok((sending, receiving))
    }

    fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let at_rest =
            |daemon: &Daemon| daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()));
        self.switches.iter().map(at_rest).collect()
    }
}

fn pfc_received(port: &Port) -> u64 {
    port.pfc_received.as_ref().map_or(0, |count| count.frames)
}

/// Returns the frames that all events of `kernel_dropped` name.
fn reported(daemon: &Daemon) -> Result<u64> {
    let events = events(daemon, "kernel_dropped")?;
    Ok(events.iter().filter_map(|event| event["values"]["frames"].as_u64()).sum())
}

/// Stops one of two switches in series for a while, and checks what became of every frame.
fn stop_and_go(stopped: usize) -> Result<()> {
    let mut series = Series::new()?;
    let (mut sending, receiving) = series.hosts(SENDING)?;
    let before = series.switches[0].snapshot()?;
    sending.start_sending()?;
    for (number, name) in [(1, "downlink"), (0, "sender")] {
        series.switches[number].until("its peer is paused", |now| {
            port(now, name).is_ok_and(|port| port.groups[3].xoff).then_some(())
        })?;
    }
    series.switches[stopped].process().signal(Signal::SIGSTOP)?;
    sleep(STOP);
    series.switches[stopped].process().signal(Signal::SIGCONT)?;
    let stop_ns = STOP.as_nanos() as u64;
    series.switches[stopped]
        .until("it knows that it was stopped", |now| (now.loop_worst_stall_ns >= stop_ns).then_some(()))?;
    eventually("all is sent", || Ok(sending.has_sent_all()?.then_some(())))?;
    let [first, second] = &series.switches;
    let stopped_run = stop_hosts(&[first, second], &before, vec![sending], vec![receiving])?;

    let after = series.snapshots()?;
    conservation(&after[0], &[("sender", stopped_run.report("sender")?)])?;
    conservation(&after[1], &[("receiver", stopped_run.report("receiver")?)])?;
    let lost: Vec<u64> = after.iter().map(|now| testbed::lost_by_kernels(now, [])).collect();
    let (sent, got) = (stopped_run.report("sender")?.sent[0].sent_frames, stopped_run.total(3).received);
    let no_room: Vec<u64> = after.iter().map(|now| drops(now, "ingress_no_drop")).collect();
    println!("frames for which there was no headroom: {no_room:?}");
    println!("switch {stopped} was stopped for {STOP:?}: {sent} sent, {got} arrived, lost by rings {lost:?}");
    ensure!(lost[stopped] > 0 && lost[1 - stopped] == 0, "only where it was stopped: {lost:?}");
    let (uplink, downlink) = (port(&after[0], "uplink")?, port(&after[1], "downlink")?);
    ensure!(
        frames(uplink.transmitted) + pauses_sent(uplink)
            == frames(downlink.received) + pfc_received(downlink) + lost[1],
        "between the switches: {uplink:#?}\n{downlink:#?}"
    );
    for now in &after {
        for port in &now.ports {
            ensure!(port.priorities[3].no_drop_lost_frames == 0, "{}: {port:#?}", port.name);
            ensure!(port.priorities[3].storms == 0 && !port.priorities[3].paused, "a storm: {port:#?}");
        }
    }
    eventually("every lost frame is in an event", || {
        Ok((reported(&series.switches[stopped])? == lost[stopped]).then_some(()))
    })?;
    ensure!(reported(&series.switches[1 - stopped])? == 0, "the other reports none");

    // Nothing is left of it: the same traffic loses nothing.
    let (sending, receiving) = series.hosts(Duration::from_secs(2))?;
    let [first, second] = &series.switches;
    let again = run(&[first, second], vec![sending], vec![receiving], Duration::from_secs(2))?;
    let total = again.total(3);
    ensure!(total.sent > 0 && total.sent - total.received <= again.lost_by_hosts(), "{total:?}");
    let lost_again: Vec<u64> =
        series.snapshots()?.iter().map(|now| testbed::lost_by_kernels(now, [])).collect();
    ensure!(lost_again == lost, "{lost_again:?} after {lost:?}");
    Ok(())
}

#[test]
fn a_switch_that_is_stopped_loses_what_its_rings_cannot_hold_and_reports_it() -> Result<()> {
    stop_and_go(0)
}
