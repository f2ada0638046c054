//! Hosts on vhost-user sockets of a switch (`sluice host --vhost`), as guests are: no interface,
//! and no kernel on the way of a frame. Backpressure is a queue that the switch does not read.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control::FrameBalance;
use host::report::{FlowReceived, HostReport, ReportLine};
use nix::sys::signal::Signal;
use testbed::{
    Daemon, Namespace, Process, Testbed, binary, conservation_beside_announcements, eventually, idle, port,
};

/// Two senders, and a port of 100 Mbit/s.
const SWITCH: &str = "
[port-defaults.pfc]
mode    = \"on\"
no_drop = [3]

[port.a]
vhost_user = \"DIR/a.sock\"
vhost      = { queues = \"by-priority\" }

[port.b]
vhost_user = \"DIR/b.sock\"
vhost      = { queues = \"by-priority\" }

[port.slow]
vhost_user = \"DIR/slow.sock\"
vhost      = { queues = \"by-priority\" }
speed      = \"100M\"
";

/// A host, killed on drop.
struct Guest(Process);

impl Guest {
    /// Starts a host at the socket of a port, and waits until it is ready.
    fn start(bed: &Testbed, at: &Namespace, name: &str, number: u8, arguments: &[&str]) -> Result<Self> {
        let mut command = at.command(binary("sluice")?);
        command.args(["host", "--json", "--interval", "100ms", "--mac"]).arg(mac(number));
        command.arg("--vhost").arg(bed.dir().join(format!("{name}.sock"))).args(arguments);
        let mut process = Process::start(name, &mut command)?;
        process.wait_for("a line `ready`", |line| {
            matches!(serde_json::from_str(line), Ok(ReportLine::Ready { .. })).then_some(())
        })?;
        Ok(Self(process))
    }

    fn report(&self) -> HostReport {
        let of_line = |line: &String| match serde_json::from_str(line) {
            Ok(ReportLine::Progress(report) | ReportLine::Final(report)) => Some(report),
            _ => None,
        };
        self.0.stdout().iter().rev().find_map(of_line).unwrap_or_default()
    }

    /// Stops the host, and returns its last report.
    fn stop(mut self) -> Result<HostReport> {
        self.0.signal(Signal::SIGTERM)?;
        let status = self.0.wait(Duration::ZERO)?;
        ensure!(status.success(), "{status}\n{}", self.0.log());
        Ok(self.report())
    }

    /// Ends the host as a crash does.
    fn kill(mut self) -> Result<()> {
        self.0.signal(Signal::SIGKILL)?;
        self.0.wait(Duration::ZERO).map(drop)
    }

    /// Waits until this number of frames of priority 3 has arrived.
    fn until_arrived(&self, frames: u64) -> Result<()> {
        eventually("frames of priority 3 arrive", || Ok((arrived(&self.report(), 3) >= frames).then_some(())))
    }
}

fn until_link(daemon: &Daemon, name: &str, is_up: bool) -> Result<()> {
    let what = format!("{name} is {}", if is_up { "up" } else { "down" });
    daemon.until(&what, |seen| port(seen, name).ok().filter(|port| port.up == is_up).map(drop))
}

fn mac(number: u8) -> String {
    format!("02:00:00:00:09:{number:02x}")
}

/// Returns the frames that were sent, and offered, of a priority.
fn sent(reports: &[HostReport], priority: u8) -> (u64, u64) {
    let flows = reports.iter().flat_map(|report| &report.sent).filter(|flow| flow.priority == priority);
    flows.fold((0, 0), |(sent, offered), flow| (sent + flow.sent_frames, offered + flow.offered_frames))
}

fn received(report: &HostReport, priority: u8) -> impl Iterator<Item = &FlowReceived> {
    report.received.iter().filter(move |flow| flow.priority == priority)
}

fn arrived(report: &HostReport, priority: u8) -> u64 {
    received(report, priority).map(|flow| flow.received_frames).sum()
}

/// Both senders offer 100 Mbit/s of priority 3, and 2 Mbit/s of priority 5, which is below its
/// share. Priority 3 is held back in the senders' queues, and loses nothing; priority 5 is not held
/// back.
#[test]
fn two_hosts_into_a_slow_port_lose_nothing() -> Result<()> {
    let bed = Testbed::new()?;
    let at = bed.switch("switch")?;
    let daemon = bed.daemon(&at, &SWITCH.replace("DIR", &bed.dir().display().to_string()))?;
    let slow = Guest::start(&bed, &at, "slow", 3, &[])?;
    until_link(&daemon, "slow", true)?;
    let flows = [3, 5].map(|priority| {
        let rate = if priority == 3 { "100M" } else { "2M" };
        format!("to={},priority={priority},size=1000,rate={rate}", mac(3))
    });
    let arguments =
        ["--flow", &flows[0], "--flow", &flows[1], "--wait", "--duration", "2s", "--linger", "600s"];
    let mut senders =
        [Guest::start(&bed, &at, "a", 1, &arguments)?, Guest::start(&bed, &at, "b", 2, &arguments)?];
    daemon.until_announced(3)?;
    for sender in &mut senders {
        sender.0.send_line("go")?;
    }
    // All that was sent has arrived, and no more comes.
    eventually("all has arrived", || {
        let before = senders.each_ref().map(Guest::report);
        let report = slow.report();
        let is_over = before.iter().all(|report| report.elapsed_ns >= 2_000_000_000);
        let all = [3, 5].iter().all(|&priority| {
            let (sent, _) = sent(&before, priority);
            sent > 0 && sent == arrived(&report, priority)
        });
        Ok((is_over && all && idle(&daemon.snapshot()?)).then_some(()))
    })?;
    let reports = senders.map(Guest::stop).into_iter().collect::<Result<Vec<_>>>()?;
    let report = slow.stop()?;
    for priority in [3, 5] {
        assert_eq!(sent(&reports, priority).0, arrived(&report, priority), "priority {priority}");
        for flow in received(&report, priority) {
            let wrong =
                [flow.lost_frames, flow.duplicated_frames, flow.reordered_frames, flow.corrupted_frames];
            assert_eq!(wrong, [0; 4], "{flow:?}");
        }
    }
    let ((of_three, offered), of_five) = (sent(&reports, 3), sent(&reports, 5));
    assert!(of_three < offered, "priority 3 is held back in its senders: {of_three} of {offered}");
    // A machine that stalls delays both alike.
    assert!(of_five.0 * offered > of_three * of_five.1, "priority 5 is not: {of_five:?}");
    let snapshot = daemon.snapshot()?;
    for name in ["a", "b", "slow"] {
        let port = port(&snapshot, name).context("a port")?;
        let lost: u64 = port.priorities.iter().map(|priority| priority.no_drop_lost_frames).sum();
        assert_eq!((lost, port.kernel_lost_frames), (0, 0), "{name}");
    }
    assert!(["a", "b"].iter().all(|name| testbed::pauses_sent(port(&snapshot, name).unwrap()) > 0));
    daemon.stop()?;
    Ok(())
}

/// The frames of priority 3 that a port has sent.
fn transmitted(daemon: &Daemon, name: &str) -> Result<u64> {
    let snapshot = daemon.snapshot()?;
    let queue = port(&snapshot, name)?.queues.get(3).context("a queue")?;
    Ok(queue.transmitted.map_or(0, |count| count.frames))
}

/// Starts a sender of priority 3 that sends until it is stopped.
fn start_sender(bed: &Testbed, at: &Namespace) -> Result<Guest> {
    let flow = format!("to={},priority=3,size=1000,rate=20M", mac(3));
    Guest::start(bed, at, "a", 1, &["--flow", &flow, "--duration", "3600s"])
}

/// A guest whose machine is killed, and boots again, has its traffic again. Frames for it
/// in between are dropped and counted; not one is unaccounted for, and none arrives twice.
#[test]
fn a_host_that_is_killed_and_started_again() -> Result<()> {
    let bed = Testbed::new()?;
    let at = bed.switch("switch")?;
    let daemon = bed.daemon(&at, &SWITCH.replace("DIR", &bed.dir().display().to_string()))?;
    let first = Guest::start(&bed, &at, "slow", 3, &[])?;
    until_link(&daemon, "slow", true)?;
    let sender = start_sender(&bed, &at)?;
    first.until_arrived(1000)?;
    first.kill()?;
    until_link(&daemon, "slow", false)?;
    let of_first = transmitted(&daemon, "slow")?;
    let refused = |seen: &_| FrameBalance::of(seen).dropped;
    let before = refused(&daemon.snapshot()?);
    daemon.until("frames for nobody are dropped", |seen| (refused(seen) > before).then_some(()))?;
    let second = Guest::start(&bed, &at, "slow", 3, &[])?;
    second.until_arrived(1000)?;
    let sender = sender.stop()?;
    eventually("all has arrived", || {
        let of_second = transmitted(&daemon, "slow")? - of_first;
        Ok((idle(&daemon.snapshot()?) && arrived(&second.report(), 3) == of_second).then_some(()))
    })?;
    let report = second.stop()?;
    for flow in received(&report, 3) {
        assert_eq!(
            [flow.duplicated_frames, flow.reordered_frames, flow.corrupted_frames],
            [0; 3],
            "{flow:?}"
        );
    }
    conservation_beside_announcements(&daemon.snapshot()?, &[("a", &sender)])?;
    daemon.stop()?;
    Ok(())
}

/// A daemon that is killed leaves its sockets. The next one replaces them, and hosts that connect
/// to it lose nothing.
#[test]
fn a_daemon_that_is_killed_and_started_again() -> Result<()> {
    let bed = Testbed::new()?;
    let at = bed.switch("switch")?;
    let config = SWITCH.replace("DIR", &bed.dir().display().to_string());
    let daemon = bed.daemon(&at, &config)?;
    let first = Guest::start(&bed, &at, "slow", 3, &[])?;
    until_link(&daemon, "slow", true)?;
    let mut sender = start_sender(&bed, &at)?;
    first.until_arrived(1000)?;
    daemon.kill9()?;
    let ended = sender.0.wait(Duration::ZERO)?;
    assert!(
        !ended.success() && sender.0.log().contains("the switch closed the socket"),
        "{}",
        sender.0.log()
    );
    drop(first);
    let daemon = bed.daemon(&at, &config)?;
    let second = Guest::start(&bed, &at, "slow", 3, &[])?;
    until_link(&daemon, "slow", true)?;
    let sender = start_sender(&bed, &at)?;
    second.until_arrived(1000)?;
    let sender = sender.stop()?;
    let (sent, _) = sent(std::slice::from_ref(&sender), 3);
    second.until_arrived(sent)?;
    let report = second.stop()?;
    assert_eq!(arrived(&report, 3), sent);
    for flow in received(&report, 3) {
        let wrong = [flow.lost_frames, flow.duplicated_frames, flow.reordered_frames, flow.corrupted_frames];
        assert_eq!(wrong, [0; 4], "{flow:?}");
    }
    conservation_beside_announcements(&daemon.snapshot()?, &[("a", &sender), ("slow", &report)])?;
    daemon.stop()?;
    Ok(())
}
