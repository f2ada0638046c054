//! The simulator and the daemon agree. The same configuration and the same traffic, once on veths
//! and once in virtual time, lose no no-drop frame and carry as much. They lose as much of the
//! other priorities, and pause about as often, where the hosts could really send their configured
//! rates.
//!
//! `recorder.rs` tests that the daemon's switch and the pure one agree to the cell, on any machine;
//! this test is about what the simulator's hosts and links add.
//!
//! The networks are those of `incast.rs`, but with thresholds such that the machine does not affect
//! how often XOFF begins. Two groups of equal senders with equal thresholds that empty before XON
//! pause in step (264 times in the incast's 10 s) or alternately (338 times), in the simulator too
//! if one sender begins 30 ms later, and a stall of a millisecond tips them from one to the other;
//! so here their thresholds differ. And where a switch is paused by the next, its hosts' groups
//! reach XOFF within that pause even if the machine slows the hosts down to two thirds, and XON as
//! soon as it ends.

use std::time::Duration;

use anyhow::{Result, ensure};
use dataplane::guard::heartbeat::STALL_NS;
use sim::{Results, Simulation, scenario};
use testbed::{Testbed, port};
use tests::{
    AMPLE_HEADROOM_CELLS, FRAME_BYTES, TrafficRun, flow, pause, port_config, run, slow_port_config,
    switch_config, undisturbed,
};

const TEN_SECONDS: Duration = Duration::from_secs(10);
/// Configured time of `sluice host` until it honors a pause.
const REACTION: &str = "10us";
/// Approximate interval between iterations of the daemon's loop under load.
const TURN: &str = "20us";

/// Returns thresholds of priority 3 on a port: XOFF at `xoff_cells`, XON `xon_offset_cells` below
/// that.
fn group_config(name: &str, xoff_cells: u32, xon_offset_cells: u32) -> String {
    format!(
        "\n[port.{name}.pfc.priority.3]\nxoff = {{ static_cells = {xoff_cells} }}\n\
         xon_offset_cells = {xon_offset_cells}\nheadroom_cells = {AMPLE_HEADROOM_CELLS}\n"
    )
}

/// Senders that sent this fraction of their configured rate, while they were not paused, were not
/// delayed by the machine.
const REALLY_OFFERED: f64 = 0.97;
/// Slightly more than 1.2 Gbit/s of frames.
const INCAST_SPEED: &str = "1.25G";
/// Slightly more than 300 Mbit/s of frames.
const SERIES_SPEED: &str = "310M";
/// A rate of `sluice host` is the rate of its frames alone, a rate of the simulator that on the
/// line.
const WIRE: f64 = (FRAME_BYTES + 24) as f64 / FRAME_BYTES as f64;

/// The compared figures.
#[derive(Debug)]
struct Figures {
    /// Fraction of the sent frames that were lost, by priority 3 and 0.
    lost: [f64; 2],
    /// XOFF episodes of priority 3: on the ports of the senders, and between the switches where
    /// there are two.
    xoff_episodes: Vec<u64>,
    /// Rate on the receiver's line, in bit/s.
    carried_bps: f64,
    /// Smallest fraction of its configured rate that a sender sent with priority 3 while it was not
    /// paused.
    offered: f64,
    /// Longest stall of a loop.
    stall_ns: u64,
}

impl Figures {
    fn of_run(run: &TrafficRun, watched: &[&str], carried_bps: f64) -> Result<Self> {
        let lost = [3, 0].map(|priority| {
            let total = run.total(priority);
            (total.sent - total.received) as f64 / total.sent.max(1) as f64
        });
        let episodes = watched.iter().map(|name| Ok(port(&run.snapshot, name)?.groups[3].xoff_episodes));
        let senders = run.reports.iter().filter_map(|(_, report)| {
            let flow = report.sent.iter().find(|flow| flow.priority == 3)?;
            let unpaused = 1.0 - pause(report, 3).paused_ns as f64 / TEN_SECONDS.as_nanos() as f64;
            Some(flow.sent_frames as f64 / (flow.offered_frames as f64 * unpaused))
        });
        Ok(Self {
            lost,
            xoff_episodes: vec![episodes.sum::<Result<_>>()?],
            carried_bps,
            offered: senders.fold(1.0, f64::min),
            stall_ns: run.snapshot.loop_worst_stall_ns,
        })
    }

    fn of_outcome(outcome: &Results, watched: &[&str]) -> Self {
        let lost = [3, 0].map(|priority| {
            let of = || outcome.traffic.iter().filter(move |traffic| traffic.priority == priority);
            let sent = of().map(|traffic| traffic.sent_frames).sum::<u64>();
            of().map(|traffic| traffic.lost_frames).sum::<u64>() as f64 / sent.max(1) as f64
        });
        let ports = outcome.switches.iter().flat_map(|switch| &switch.ports);
        let watched = ports.filter(|port| watched.contains(&&*port.counts.name));
        let groups = watched.flat_map(|port| &port.groups).filter(|group| group.priority == 3);
        Self {
            lost,
            xoff_episodes: vec![groups.map(|group| group.counts.xoff_episodes).sum()],
            carried_bps: outcome.traffic.iter().map(|traffic| traffic.throughput_bps).sum(),
            offered: 1.0,
            stall_ns: 0,
        }
    }

    /// Checks that no-drop frames are lost alike, and throughput is within 2 %. If the senders sent
    /// their configured rates: the loss of other frames is within 2 % of what was sent, and, if no
    /// guard acted for a loop either, XOFF episodes are within 20 %. Otherwise they count what the
    /// machine did.
    fn agree(&self, simulated: &Figures) -> Result<()> {
        println!("daemon    {self:.3?}\nsimulator {simulated:.3?}");
        ensure!(self.lost[0] == simulated.lost[0], "no-drop loss: {self:?} {simulated:?}");
        ensure!((self.carried_bps / simulated.carried_bps - 1.0).abs() <= 0.02, "{self:?} {simulated:?}");
        if self.offered < REALLY_OFFERED {
            println!("no more is compared: the senders sent {:.3} of their rate", self.offered);
            return Ok(());
        }
        ensure!((self.lost[1] - simulated.lost[1]).abs() <= 0.02, "loss: {self:?} {simulated:?}");
        // For a loop that stalled longer the guard acted, which pauses peers on different grounds.
        if self.stall_ns > STALL_NS {
            println!(
                "XOFF episodes are not compared: a loop stalled for {:.1} ms",
                self.stall_ns as f64 / 1e6
            );
            return Ok(());
        }
        for (&daemon, &sim) in self.xoff_episodes.iter().zip(&simulated.xoff_episodes) {
            let ratio = daemon as f64 / sim as f64;
            ensure!(sim > 20 && (ratio - 1.0).abs() <= 0.2, "XOFF episodes: {self:?} {simulated:?}");
        }
        Ok(())
    }
}

/// Runs a scenario with these configurations, by name.
fn simulate(text: &str, configs: &[(&str, &str)]) -> Result<Results> {
    let mut load = |path: &str| {
        let found = configs.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "no such configuration".to_owned())
    };
    let scenario = scenario::parse("agreement.toml", text, &mut load);
    let scenario = scenario.map_err(|mistakes| anyhow::anyhow!("{}", mistakes[0]))?;
    let mut simulation = Simulation::new(&scenario);
    simulation.run_until(scenario.duration_ns, &mut |_| {});
    let outcome = simulation.finish();
    ensure!(outcome.imbalances.is_empty(), "{:?}", outcome.imbalances);
    Ok(outcome)
}

/// Returns a link between two ends, with a response time like the hosts'.
fn link(a: &str, b: &str) -> String {
    format!("[[link]]\nends = [\"{a}\", \"{b}\"]\nresponse = \"{REACTION}\"\n")
}

/// Returns the traffic of both senders to the receiver with a priority, at this rate of frames
/// alone.
fn traffic(priority: u8, mbps: f64) -> String {
    let rate = mbps * WIRE;
    format!(
        "[[traffic]]\nname = \"priority-{priority}\"\nfrom = \"sender[1-2]\"\nto = \"receiver\"\n\
         priority = {priority}\nframe_bytes = {FRAME_BYTES}\nrate = \"{rate}M\"\n"
    )
}

/// The incast of `incast.rs`: 600 Mbit/s of priorities 3 and 0 from each of two senders into 500
/// Mbit/s.
#[test]
fn on_an_incast() -> Result<()> {
    let (_, [daemon, simulated]) = undisturbed(incast)?;
    daemon.agree(&simulated)
}

fn incast() -> Result<(TrafficRun, [Figures; 2])> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let senders = [bed.sluice_host(&switch, "sender1")?, bed.sluice_host(&switch, "sender2")?];
    let receiver = bed.sluice_host(&switch, "receiver")?;
    let mut config = switch_config("on") + &slow_port_config("receiver", 500);
    for (sender, xoff_cells) in senders.iter().zip([4096, 2048]) {
        config += &port_config(&sender.name, INCAST_SPEED);
        config += &group_config(&sender.name, xoff_cells, xoff_cells);
    }
    let daemon = bed.daemon(&switch, &config)?;
    let flows = [flow(&receiver.mac(), 3, "600M"), flow(&receiver.mac(), 0, "600M")];
    let arguments =
        ["--speed", INCAST_SPEED, "--no-drop", "3", "--duration", "10s", "--reaction-delay", REACTION];
    let sending = senders.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<_>>()?;
    let receiving = bed.host(&receiver, &[], &["--speed", "500M", "--no-drop", "3"])?;
    daemon.until_announced(3)?;
    let run = run(&[&daemon], sending, vec![receiving], TEN_SECONDS)?;
    let watched = ["sender1", "sender2"];
    let seen = Figures::of_run(&run, &watched, run.carried_bps("receiver")?)?;

    let text = format!(
        "duration = \"10s\"\n[switch.switch]\nconfig = \"config\"\nturn = \"{TURN}\"\n\
         [host.\"sender[1-2]\"]\nno_drop = [3]\n[host.receiver]\nno_drop = [3]\n{}{}{}{}",
        link("sender[1-2]", "switch.sender[1-2]"),
        link("receiver", "switch.receiver"),
        traffic(3, 600.0),
        traffic(0, 600.0)
    );
    let outcome = simulate(&text, &[("config", &config)])?;
    Ok((run, [seen, Figures::of_outcome(&outcome, &watched)]))
}

/// Two switches in series, as in `incast.rs`: the second pauses the first, which pauses its hosts.
#[test]
fn on_two_switches_in_series() -> Result<()> {
    let (_, [daemon, simulated]) = undisturbed(series)?;
    daemon.agree(&simulated)
}

fn series() -> Result<(TrafficRun, [Figures; 2])> {
    let bed = Testbed::new()?;
    let (first_at, second_at) = (bed.switch("first")?, bed.switch("second")?);
    let senders = [bed.sluice_host(&first_at, "sender1")?, bed.sluice_host(&first_at, "sender2")?];
    let receiver = bed.sluice_host(&second_at, "receiver")?;
    bed.cable((&first_at, "uplink"), (&second_at, "downlink"))?;
    // A simulated link never catches up, as the daemon's does after a pause: by 4 ms of its rate by
    // default.
    let uplink = port_config("uplink", "2G") + "burst_bytes = 65536\n";
    let mut first_config = switch_config("on") + &uplink;
    for sender in &senders {
        first_config += &port_config(&sender.name, SERIES_SPEED);
        first_config += &group_config(&sender.name, 3000, 1500);
    }
    let first = bed.daemon(&first_at, &first_config)?;
    let core = std::thread::available_parallelism()?.get().min(2) - 1;
    let second_config = format!("[dataplane]\ncores = [{core}]\n\n")
        + &switch_config("on")
        + &slow_port_config("receiver", 300)
        + &port_config("downlink", "2G")
        + &group_config("downlink", 4096, 4096);
    let second = bed.daemon(&second_at, &second_config)?;
    let flows = [flow(&receiver.mac(), 3, "300M")];
    let arguments =
        ["--speed", SERIES_SPEED, "--no-drop", "3", "--duration", "10s", "--reaction-delay", REACTION];
    let sending = senders.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<_>>()?;
    let receiving = bed.host(&receiver, &[], &["--speed", "300M", "--no-drop", "3"])?;
    for daemon in [&first, &second] {
        daemon.until_announced(3)?;
    }
    let run = run(&[&first, &second], sending, vec![receiving], TEN_SECONDS)?;
    let after = second.snapshot()?;
    let mut seen = Figures::of_run(&run, &["sender1", "sender2"], run.carried_bps("uplink")?)?;
    seen.xoff_episodes.push(port(&after, "downlink")?.groups[3].xoff_episodes);
    seen.stall_ns = seen.stall_ns.max(after.loop_worst_stall_ns);

    let text = format!(
        "duration = \"10s\"\n[switch.first]\nconfig = \"first\"\nturn = \"{TURN}\"\n\
         [switch.second]\nconfig = \"second\"\nturn = \"{TURN}\"\n\
         [host.\"sender[1-2]\"]\nno_drop = [3]\n[host.receiver]\nno_drop = [3]\n{}{}{}{}",
        link("sender[1-2]", "first.sender[1-2]"),
        link("receiver", "second.receiver"),
        link("first.uplink", "second.downlink"),
        traffic(3, 300.0)
    );
    let outcome = simulate(&text, &[("first", &first_config), ("second", &second_config)])?;
    let mut simulated = Figures::of_outcome(&outcome, &["sender1", "sender2"]);
    simulated.xoff_episodes.extend(Figures::of_outcome(&outcome, &["downlink"]).xoff_episodes);
    Ok((run, [seen, simulated]))
}
