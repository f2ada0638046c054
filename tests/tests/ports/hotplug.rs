//! Ports that are added and removed while others carry no-drop frames, on real veths: interfaces
//! that are deleted and made again, and ports that a reload removes and adds.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host::report::HostReport;
use nix::unistd::Pid;
use testbed::{
    Daemon, Endpoint, Host, Namespace, Process, Testbed, binary, eventually, idle, port, thread_named,
};
use tests::{AMPLE_HEADROOM_CELLS, flow, group_config, port_config, sluice, switch_config};

/// How long A and B exchange frames.
const DURATION: Duration = Duration::from_secs(25);
/// Rounds that even a busy machine completes in that time.
const FEWEST_ROUNDS: usize = 3;

/// A and B, which exchange frames without a break and must not be disturbed.
struct Pair {
    hosts: Vec<Host>,
}

impl Pair {
    /// Returns ports for both hosts, and no others.
    fn config() -> String {
        let ports =
            ["a", "b"].map(|name| port_config(name, "1G") + &group_config(name, AMPLE_HEADROOM_CELLS));
        switch_config("on") + &ports.concat()
    }

    /// Starts both hosts, which send each other 100 Mbit/s of priority 3, which is no-drop.
    fn start(bed: &Testbed, daemon: &Daemon, a: &Endpoint, b: &Endpoint) -> Result<Self> {
        let duration = format!("{}s", DURATION.as_secs());
        let arguments = ["--no-drop", "3", "--duration", duration.as_str()];
        let mut hosts = Vec::new();
        for (from, to) in [(a, b), (b, a)] {
            hosts.push(bed.host(from, &[flow(&to.mac(), 3, "100M")], &arguments)?);
        }
        daemon.until_announced(2)?;
        hosts.iter_mut().try_for_each(Host::start_sending)?;
        Ok(Self { hosts })
    }

    fn has_sent_all(&mut self) -> Result<bool> {
        let mut all = true;
        for host in &mut self.hosts {
            all &= host.has_sent_all()?;
        }
        Ok(all)
    }

    /// Checks that no frame is lost between A and B. Frames that a host's own kernel had no room
    /// for are behind the switch.
    fn lost_nothing(mut self, daemon: &Daemon) -> Result<()> {
        eventually("all is sent", || Ok(self.has_sent_all()?.then_some(())))?;
        let at_rest = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
        let reports = Host::stop_all(self.hosts)?;
        let by_hosts: u64 = reports.iter().map(|(_, report)| report.kernel_lost).sum();
        let [(_, a), (_, b)] = &reports[..] else { anyhow::bail!("two hosts") };
        for (from, to) in [(a, b), (b, a)] {
            let (sent, received) = (sent(from), received(to));
            println!("sent {sent}, arrived {received}, lost by the hosts' kernels {by_hosts}");
            ensure!(sent > 10_000 && sent - received <= by_hosts, "{sent} were sent, {received} arrived");
        }
        for name in ["a", "b"] {
            let port = port(&at_rest, name)?;
            let kernel = port.kernel.context("the kernel counts")?;
            assert_eq!(port.groups[3].dropped.map_or(0, |dropped| dropped.frames), 0, "{port:#?}");
            assert_eq!(kernel.rx_fill_ring_empty_frames + kernel.rx_ring_full_frames, 0, "{port:#?}");
        }
        testbed::conservation(&at_rest, &[])?;
        println!("longest stall of the loop: {} µs", at_rest.loop_worst_stall_ns / 1000);
        Ok(())
    }
}

fn sent(report: &HostReport) -> u64 {
    report.sent.iter().map(|flow| flow.sent_frames).sum()
}

fn received(report: &HostReport) -> u64 {
    report.received.iter().filter(|flow| flow.priority == 3).map(|flow| flow.received_frames).sum()
}

/// Waits until C reaches D and returns how long that took.
fn reaches(c: &Endpoint, d: &Endpoint) -> Result<Duration> {
    let start = Instant::now();
    eventually(&format!("{} reaches {}", c.name, d.name), || {
        Ok(c.namespace.run(&format!("ping -c 1 -W 1 {}", d.ipv4())).ok())
    })?;
    Ok(start.elapsed())
}

fn until_down(daemon: &Daemon, name: &str) -> Result<()> {
    daemon.until("the port is down", |now| port(now, name).is_ok_and(|port| !port.up).then_some(()))
}

/// Runs one round: C's end goes down and comes back, then its cable is deleted and made again.
/// Returns the longest time until C reached D.
fn round(bed: &Testbed, daemon: &Daemon, switch: &Namespace, c: &Endpoint, d: &Endpoint) -> Result<Duration> {
    c.namespace.ip(&format!("link set dev {} down", Endpoint::INTERFACE))?;
    until_down(daemon, &c.name)?;
    c.namespace.ip(&format!("link set dev {} up", Endpoint::INTERFACE))?;
    let after_carrier = reaches(c, d)?;
    switch.ip(&format!("link del dev {}", c.name))?;
    until_down(daemon, &c.name)?;
    bed.reconnect(c, switch)?;
    Ok(after_carrier.max(reaches(c, d)?))
}

/// A port is repeatedly removed and added, and its state is checked at the end.
#[test]
fn a_port_comes_and_goes_and_the_others_lose_nothing() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let (c, d) = (bed.linux_host(&switch, "c")?, bed.linux_host(&switch, "d")?);
    let config = Pair::config() + &port_config("c", "1G") + &port_config("d", "1G");
    let daemon = bed.daemon(&switch, &config)?;
    let mut pair = Pair::start(&bed, &daemon, &a, &b)?;
    let (mut rounds, mut longest) = (0, Duration::ZERO);
    while !pair.has_sent_all()? && rounds < 20 {
        longest = longest.max(round(&bed, &daemon, &switch, &c, &d)?);
        rounds += 1;
    }
    println!("{rounds} rounds, C reached D after {longest:?} at most");
    ensure!(rounds >= FEWEST_ROUNDS, "{rounds} rounds");
    pair.lost_nothing(&daemon)?;
    reaches(&d, &c)?;
    let totals = daemon.stop()?;
    assert!(totals.contains("every frame is accounted for"), "{totals}");
    Ok(())
}

/// Reloads the daemon with this configuration, and returns the reported changes.
fn reload(daemon: &Daemon, config: &str) -> Result<String> {
    std::fs::write(daemon.config(), config)?;
    sluice(daemon, &["reload"])
}

/// C is added and removed repeatedly. Its slot, and the memory of its rings, are those of the
/// previous C; a port beyond the available memory is refused, and nothing changes.
#[test]
fn ports_are_added_and_removed_by_reload_and_the_others_lose_nothing() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let (c, d) = (bed.linux_host(&switch, "c")?, bed.linux_host(&switch, "d")?);
    bed.linux_host(&switch, "e")?;
    let config = Pair::config() + &port_config("d", "1G") + "\n[dataplane]\nspare_ports = 1\n";
    let daemon = bed.daemon(&switch, &config)?;
    let without = std::fs::read_to_string(daemon.config())?;
    let with = without.clone() + &port_config("c", "1G");
    let mut pair = Pair::start(&bed, &daemon, &a, &b)?;
    let (mut rounds, mut longest) = (0, Duration::ZERO);
    while !pair.has_sent_all()? && rounds < 20 {
        let start = Instant::now();
        assert_eq!(reload(&daemon, &with)?, "port.c: added\n");
        longest = longest.max(start.elapsed());
        reaches(&c, &d)?;
        let now = daemon.snapshot()?;
        let names: Vec<_> = now.ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "d", "c"]);
        assert_eq!((port(&now, "c")?.number, port(&now, "c")?.up), (4, true));
        if rounds == 0 {
            let refused = reload(&daemon, &(with.clone() + &port_config("e", "1G"))).expect_err("no memory");
            let refused = refused.to_string();
            let lines: Vec<&str> = refused.lines().filter(|line| !line.is_empty()).collect();
            let [what, memory] = lines[..] else { panic!("{refused}") };
            assert!(what.contains("nothing was changed: these settings need a restart"), "{refused}");
            assert!(memory.starts_with("buffer: memory for "), "{refused}");
            let cure = "; dataplane.spare_ports sets aside more for ports that are added";
            assert!(memory.ends_with(cure), "{refused}");
            assert_eq!(daemon.snapshot()?.ports.len(), 4);
        }
        assert_eq!(reload(&daemon, &without)?, "port.c: removed\n");
        assert_eq!(daemon.snapshot()?.ports.len(), 3);
        rounds += 1;
    }
    println!("{rounds} rounds, a reload that adds a port took {longest:?} at most");
    ensure!(rounds >= FEWEST_ROUNDS, "{rounds} rounds");
    assert_eq!(reload(&daemon, &with)?, "port.c: added\n");
    reaches(&c, &d)?;
    let removed = daemon.snapshot()?.removed_ports.context("removed ports are counted")?;
    assert_eq!(removed.ports, rounds as u64);
    assert!(removed.received.is_some_and(|received| received.frames >= rounds as u64), "{removed:?}");
    pair.lost_nothing(&daemon)?;
    reaches(&d, &c)?;
    let totals = daemon.stop()?;
    assert!(totals.contains("every frame is accounted for"), "{totals}");
    Ok(())
}

/// Sets the MTU of both ends of a host's cable.
fn set_mtu(station: &Endpoint, switch: &Namespace, mtu: u32) -> Result<()> {
    station.namespace.ip(&format!("link set dev {} mtu {mtu}", Endpoint::INTERFACE))?;
    switch.ip(&format!("link set dev {} mtu {mtu}", station.name)).map(drop)
}

/// Returns the frames of `c` so far that exceeded the MTU of `d`.
fn too_long(daemon: &Daemon) -> Result<u64> {
    Ok(port(&daemon.snapshot()?, "d")?.drops["mtu_exceeded"].frames)
}

#[test]
fn other_mtus_are_warned_of_and_what_is_too_long_is_counted_by_name() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (c, d) = (bed.linux_host(&switch, "c")?, bed.linux_host(&switch, "d")?);
    set_mtu(&c, &switch, 3000)?;
    let config = switch_config("on") + &port_config("c", "1G") + &port_config("d", "1G");
    let daemon = bed.daemon(&switch, &config)?;
    let warning = "the MTUs of the ports differ: 1500 (d), 3000 (c).";
    let shown = sluice(&daemon, &["show", "ports"])?;
    assert!(shown.contains(warning), "{shown}");
    let check =
        format!("{} check --json {}", testbed::binary("sluice")?.display(), daemon.config().display());
    let checked = switch.run(&check)?;
    assert!(checked.contains(warning), "{checked}");
    reaches(&c, &d)?;
    assert_eq!(too_long(&daemon)?, 0);

    let ping = format!("ping -c 3 -i 0.2 -W 1 -s 2000 -M do {}", d.ipv4());
    ensure!(c.namespace.run(&ping).is_err(), "2042 bytes cannot cross");
    assert_eq!(too_long(&daemon)?, 3);
    let json = sluice(&daemon, &["events", "--json"])?;
    for kind in ["mtus_differ", "mtu_exceeded"] {
        assert!(json.contains(&format!("\"kind\":\"{kind}\"")), "{kind} is missing in {json}");
    }

    // The MTU changes while the port is open.
    set_mtu(&d, &switch, 3000)?;
    daemon.until("the MTU is known", |now| (port(now, "d").ok()?.mtu_bytes == 3000).then_some(()))?;
    eventually("2042 bytes cross", || Ok(c.namespace.run(&ping).ok()))?;
    let shown = sluice(&daemon, &["show", "ports"])?;
    assert!(!shown.contains("MTUs"), "{shown}");
    let totals = daemon.stop()?;
    assert!(totals.contains("every frame is accounted for") && totals.contains("mtu_exceeded"), "{totals}");
    Ok(())
}

/// A peer accepts only shorter frames than its port: its interface rejects frames from the kernel.
/// Each such frame is counted at its egress queue as a no-drop loss, and an event reports it.
#[test]
fn no_drop_frames_that_the_kernel_loses_are_reported_by_name() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, c) = (bed.sluice_host(&switch, "a")?, bed.linux_host(&switch, "c")?);
    c.namespace.ip(&format!("link set dev {} mtu 500", Endpoint::INTERFACE))?;
    let group = group_config("a", AMPLE_HEADROOM_CELLS);
    let config = switch_config("on") + &port_config("a", "1G") + &group + &port_config("c", "1G");
    let daemon = bed.daemon(&switch, &config)?;
    let mut sender = bed.host(&a, &[flow(&c.mac(), 3, "10M")], &["--no-drop", "3", "--duration", "1s"])?;
    sender.start_sending()?;
    eventually("all is sent", || Ok(sender.has_sent_all()?.then_some(())))?;
    let at_rest = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    let reports = Host::stop_all(vec![sender])?;
    let sent = sent(&reports[0].1) - reports[0].1.kernel_lost;
    let port = port(&at_rest, "c")?;
    let of_queue = port.queues[3].kernel_lost.context("a count")?;
    assert_eq!((of_queue.frames, port.kernel_lost_no_drop_frames), (sent, sent), "{port:#?}");
    assert!(sent > 100 && of_queue.bytes > 500 * sent, "{sent} frames, {of_queue:?}");
    let events = sluice(&daemon, &["events", "--json"])?;
    let reported =
        events.lines().find(|line| line.contains(r#""kind":"kernel_lost""#)).context("an event")?;
    let reported: serde_json::Value = serde_json::from_str(reported)?;
    let no_drop_frames = reported["values"]["no_drop_frames"].as_u64();
    ensure!(
        reported["port"] == "c" && no_drop_frames > Some(0) && reported["severity"] == "error",
        "{reported}"
    );
    testbed::conservation(&at_rest, &[])?;
    let totals = daemon.stop()?;
    assert!(totals.contains("every frame is accounted for"), "{totals}");
    Ok(())
}

/// Another program holds RTNL, the kernel's lock of the network configuration. A reload that is to
/// add a port waits for it, and does nothing once its client has given up; the next command waits
/// as well. What only reads is answered meanwhile, and no frame is lost.
#[test]
fn clients_are_answered_while_another_program_holds_rtnl() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let (c, d) = (bed.linux_host(&switch, "c")?, bed.linux_host(&switch, "d")?);
    let config = Pair::config() + &port_config("d", "1G") + "\n[dataplane]\nspare_ports = 1\n";
    let mut daemon = bed.daemon(&switch, &config)?;
    let pair = Pair::start(&bed, &daemon, &a, &b)?;
    let with = std::fs::read_to_string(daemon.config())? + &port_config("c", "1G");
    std::fs::write(daemon.config(), with)?;
    let start = |socket: &Path, arguments: &[&str]| {
        let mut command = Command::new(binary("sluice")?);
        Process::start("sluice", command.args(arguments).arg("--socket").arg(socket))
    };

    let mut lock = Process::start("hold_rtnl", &mut Command::new(binary("hold_rtnl")?))?;
    lock.wait_for("the lock is held", |line| (line == "held").then_some(()))?;
    let mut reload = start(daemon.socket(), &["reload"])?;
    for name in ["port-worker", "link-monitor"] {
        let thread = thread_named(&mut daemon, name)?;
        eventually(&format!("{name} waits for the lock"), || Ok(is_blocked(thread)?.then_some(())))?;
    }
    let mut raise = start(daemon.socket(), &["port", "up", "d"])?;
    sluice(&daemon, &["show", "ports"])?;
    assert!(reload.is_running()? && raise.is_running()?, "{} {}", reload.log(), raise.log());
    drop(reload); // ends it
    sluice(&daemon, &["show", "ports"])?;
    assert!(raise.is_running()?, "{}", raise.log());
    lock.send_line("")?;
    assert!(raise.wait(Duration::from_secs(30))?.success(), "{}", raise.log());
    assert_eq!(daemon.snapshot()?.ports.len(), 3, "the reload was given up");

    assert_eq!(sluice(&daemon, &["reload"])?, "port.c: added\n");
    reaches(&c, &d)?;
    pair.lost_nothing(&daemon)?;
    daemon.stop().map(drop)
}

/// True if a thread waits inside the kernel, where nothing interrupts it.
fn is_blocked(thread: Pid) -> Result<bool> {
    // `PID (NAME) STATE …`; see proc(5).
    Ok(std::fs::read_to_string(format!("/proc/{thread}/stat"))?.contains(") D "))
}
