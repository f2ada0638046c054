//! A whole daemon that is stopped during incast (SIGSTOP) and goes on: what its rings could not
//! hold is lost, counted and reported, nothing else; and neither it nor the switch behind it takes
//! the pauses of that time for a storm. Source: docs/reliability.md, "Faults on veths".

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use host::report::HostReport;
use nix::sys::signal::Signal;
use testbed::{
    Daemon, Endpoint, Host, Port, Snapshot, Testbed, conservation, drops, eventually, idle, pauses_sent, port,
};
use tests::{
    TrafficRun, UNTIL_STOPPED, events, flow, frames, group_config, port_config, run, slow_port_config,
    switch_config,
};

/// Longer than any pause lasts, and than the daemon's watchdogs and guards wait.
const STOP: Duration = Duration::from_secs(5);
/// Headroom for all that the rings of a port hold when the daemon goes on (8192 frames of 4 cells),
/// and for what its peer sends until it has the XOFF.
const HEADROOM_CELLS: u32 = 49_152;
/// Detects a storm after 100 ms.
const WATCHDOG: &str = "\n[pfc.watchdog]\nprecision = \"high\"\npriority.3 = { interval = 10 }\n";

/// Hosts that send to one receiver, together twice what it takes.
const SENDERS: [&str; 2] = ["sender-a", "sender-b"];
/// Rate of each sender.
const RATE: &str = "100M";

/// Incast over two switches in series: the second switch pauses the first, which pauses the hosts.
struct Series {
    switches: [Daemon; 2],
    senders: Vec<Endpoint>,
    receiver: Endpoint,
    bed: Testbed,
}

impl Series {
    fn new() -> Result<Self> {
        let bed = Testbed::new()?;
        let (first_at, second_at) = (bed.switch("first")?, bed.switch("second")?);
        let senders: Vec<_> =
            SENDERS.iter().map(|name| bed.sluice_host(&first_at, name)).collect::<Result<_>>()?;
        let receiver = bed.sluice_host(&second_at, "receiver")?;
        bed.cable((&first_at, "uplink"), (&second_at, "downlink"))?;
        let fast = |name: &str| port_config(name, "1G") + &group_config(name, HEADROOM_CELLS);
        let switch = switch_config("on").replace("headroom_cells = 32768", "headroom_cells = 98304");
        let first = switch.clone() + &SENDERS.map(fast).concat() + &fast("uplink") + WATCHDOG;
        // Two poll loops on one core would stall each other.
        let core = std::thread::available_parallelism()?.get().min(2) - 1;
        let second = format!("[dataplane]\ncores = [{core}]\n\n")
            + &switch
            + &fast("downlink")
            + &slow_port_config("receiver", 100)
            + WATCHDOG;
        let switches = [bed.daemon(&first_at, &first)?, bed.daemon(&second_at, &second)?];
        Ok(Self { switches, senders, receiver, bed })
    }

    fn hosts(&self, lasts: Duration) -> Result<(Vec<Host>, Host)> {
        let duration = format!("{}s", lasts.as_secs());
        let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", &duration];
        let to_receiver = [flow(&self.receiver.mac(), 3, RATE)];
        let sending = self.senders.iter().map(|at| self.bed.host(at, &to_receiver, &arguments));
        let sending = sending.collect::<Result<_>>()?;
        let receiving = self.bed.host(&self.receiver, &[], &["--speed", "100M", "--no-drop", "3"])?;
        self.switches.iter().try_for_each(|daemon| daemon.until_announced(SENDERS.len() as u64 + 1))?;
        Ok((sending, receiving))
    }

    /// Stops the senders, and then the receiver, once the switches are at rest. Returns what became
    /// of the frames; the snapshot is that of the first switch.
    fn stop(&self, sending: Vec<Host>, receiving: Host) -> Result<TrafficRun> {
        let mut reports = Host::stop_all(sending)?;
        for (name, report) in &reports {
            self.switches[0].until("it has got all that was sent", |now| {
                (from_host(port(now, name).ok()?) >= sent_by(report)).then_some(())
            })?;
        }
        self.snapshots()?;
        reports.extend(Host::stop_all(vec![receiving])?);
        let snapshot = self.snapshots()?.swap_remove(0);
        self.switches.iter().try_for_each(Daemon::kernel_agrees)?;
        Ok(TrafficRun { snapshot, sending: Vec::new(), reports })
    }

    /// Waits until the switches are at rest, in the order in which frames pass them.
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

/// Returns all frames that a host sent, except pauses.
fn sent_by(host: &HostReport) -> u64 {
    let of_flows: u64 = host.sent.iter().map(|flow| flow.sent_frames).sum();
    of_flows + host.announcements_sent + host.cnps_sent
}

/// Returns all that a port has received from its host, or lost to its kernel's rings.
fn from_host(port: &Port) -> u64 {
    frames(port.received) + port.kernel_counters().rx_lost_frames()
}

/// The first of two switches in series is stopped during incast: it is paused by the second, and
/// has paused both senders.
#[test]
fn a_switch_that_is_stopped_loses_what_its_rings_cannot_hold_and_reports_it() -> Result<()> {
    let mut series = Series::new()?;
    let (mut sending, receiving) = series.hosts(UNTIL_STOPPED)?;
    sending.iter_mut().try_for_each(Host::start_sending)?;
    for (number, name) in [(1, "downlink"), (0, SENDERS[0]), (0, SENDERS[1])] {
        series.switches[number].until("its peer is paused", |now| {
            port(now, name).is_ok_and(|port| port.groups[3].xoff).then_some(())
        })?;
    }
    series.switches[0].process().suspend()?;
    sleep(STOP);
    series.switches[0].process().signal(Signal::SIGCONT)?;
    let stop_ns = STOP.as_nanos() as u64;
    series.switches[0]
        .until("it knows that it was stopped", |now| (now.loop_worst_stall_ns >= stop_ns).then_some(()))?;
    let then = series.switches[1].snapshot()?;
    let more = frames(port(&then, "receiver")?.transmitted) + 1000;
    series.switches[1].until("frames arrive again", |now| {
        (frames(port(now, "receiver").ok()?.transmitted) > more).then_some(())
    })?;
    let stopped_run = series.stop(sending, receiving)?;

    let after = series.snapshots()?;
    // The senders, which were stopped first, are not there for the last pauses, so that only what
    // they sent is compared.
    conservation(&after[0], &[])?;
    conservation(&after[1], &[("receiver", stopped_run.report("receiver")?)])?;
    for name in SENDERS {
        let (sender, port) = (stopped_run.report(name)?, port(&after[0], name)?);
        let (by_sender, at_switch) = (sent_by(sender), from_host(port));
        ensure!(by_sender == at_switch, "{name}: {by_sender} sent, {at_switch} received or lost");
        ensure!(sender.pfc_received <= pauses_sent(port), "{sender:?}");
    }
    let lost: Vec<u64> = after.iter().map(|now| testbed::lost_by_kernels(now, [])).collect();
    let total = stopped_run.total(3);
    let no_room: Vec<u64> = after.iter().map(|now| drops(now, "ingress_no_drop")).collect();
    println!("frames for which there was no headroom: {no_room:?}");
    println!("stopped for {STOP:?}: {total:?}, lost by rings {lost:?}");
    ensure!(lost[0] > 0 && lost[1] == 0, "only where it was stopped: {lost:?}");
    let by_rings = |port: &Port| {
        let kernel = port.kernel_counters();
        kernel.rx_fill_ring_empty_frames + kernel.rx_ring_full_frames
    };
    let no_room_in_rings: u64 = after[0].ports.iter().map(by_rings).sum();
    ensure!(no_room_in_rings == lost[0], "all for want of room in rings: {:#?}", after[0]);
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
        Ok((reported(&series.switches[0])? == lost[0]).then_some(()))
    })?;
    ensure!(reported(&series.switches[1])? == 0, "the other reports none");

    // Nothing is left of it: the same traffic loses nothing.
    let (sending, receiving) = series.hosts(Duration::from_secs(2))?;
    let [first, second] = &series.switches;
    let again = run(&[first, second], sending, vec![receiving], Duration::from_secs(2))?;
    let total = again.total(3);
    let at_rest = series.snapshots()?;
    let lost_again: Vec<u64> = at_rest.iter().map(|now| testbed::lost_by_kernels(now, [])).collect();
    ensure!(
        total.sent > 0 && total.sent - total.received <= again.lost_by_hosts(),
        "{total:?}, lost by rings {lost_again:?}, after {lost:?}: {at_rest:#?}"
    );
    ensure!(lost_again == lost, "{lost_again:?} after {lost:?}");
    Ok(())
}
