//! Faults of interfaces under no-drop traffic, with exact accounts: a cable that is pulled, an MTU
//! that shrinks, and a peer whose namespace goes (docs/reliability.md, "Faults on veths").
//! `hotplug` has ports that come and go beside others that lose nothing.

use anyhow::{Context, Result, ensure};
use host::report::HostReport;
use testbed::{Daemon, Endpoint, Host, Namespace, Snapshot, Testbed, conservation, eventually, idle, port};
use tests::{
    AMPLE_HEADROOM_CELLS, UNTIL_STOPPED, events, flow, frames, group_config, port_config, switch_config,
};

/// A sends to B and to C, in no-drop priority 3, until it is stopped; the fault is at C.
struct Triangle {
    daemon: Daemon,
    sender: Option<Host>,
    /// B and C.
    receivers: Vec<Host>,
    /// The last report of A.
    sent: HostReport,
    c: Endpoint,
    switch: Namespace,
    bed: Testbed,
}

impl Triangle {
    fn start() -> Result<Self> {
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let [a, b, c] = ["a", "b", "c"].map(|name| bed.sluice_host(&switch, name));
        let (a, b, c) = (a?, b?, c?);
        let ports =
            ["a", "b", "c"].map(|name| port_config(name, "1G") + &group_config(name, AMPLE_HEADROOM_CELLS));
        let daemon = bed.daemon(&switch, &(switch_config("on") + &ports.concat()))?;
        let duration = format!("{}s", UNTIL_STOPPED.as_secs());
        let flows = [flow(&b.mac(), 3, "50M"), flow(&c.mac(), 3, "50M")];
        let mut sender = bed.host(&a, &flows, &["--no-drop", "3", "--duration", &duration])?;
        let receivers =
            vec![bed.host(&b, &[], &["--no-drop", "3"])?, bed.host(&c, &[], &["--no-drop", "3"])?];
        daemon.until_announced(3)?;
        sender.start_sending()?;
        let (sender, sent) = (Some(sender), HostReport::default());
        let started = Self { daemon, sender, receivers, sent, c, switch, bed };
        started.until_sent(1000)?;
        Ok(started)
    }

    /// Waits until the switch has sent this many more frames to C.
    fn until_sent(&self, more: u64) -> Result<()> {
        let sent = |now: &Snapshot| Some(frames(port(now, "c").ok()?.transmitted));
        let before = self.daemon.until("the switch is asked", sent)?;
        self.daemon.until("frames flow to c", |now| (sent(now)? >= before + more).then_some(()))
    }

    /// Stops A, and waits until the switch has got all of it and has nothing left.
    fn at_rest(&mut self) -> Result<Snapshot> {
        self.sent = self.sender.take().context("A sends until here")?.stop()?;
        let of_flows: u64 = self.sent.sent.iter().map(|flow| flow.sent_frames).sum();
        let all = of_flows + self.sent.announcements_sent + self.sent.cnps_sent;
        self.daemon.until("the switch has got all, and is at rest", |now| {
            let a = port(now, "a").ok()?;
            let got = frames(a.received) + a.kernel_counters().rx_lost_frames();
            (got >= all && idle(now)).then(|| now.clone())
        })
    }

    /// Stops the receivers and the daemon. Returns the reports of a, b and c.
    fn end(self) -> Result<[HostReport; 3]> {
        let reports = Host::stop_all(self.receivers)?;
        let totals = self.daemon.stop()?;
        ensure!(totals.contains("every frame is accounted for"), "{totals}");
        let [(_, b), (_, c)]: [_; 2] = reports.try_into().ok().context("two receivers")?;
        Ok([self.sent, b, c])
    }
}

/// Returns the frames of flow `flow` of the only sender that arrived at a host.
fn arrived(host: &HostReport, flow: u32) -> u64 {
    host.received.iter().filter(|of| of.flow == flow).map(|of| of.received_frames).sum()
}

/// Returns the sum of the frames that all events of a kind name, and checks that each names `c`.
fn in_events(daemon: &Daemon, kind: &str) -> Result<u64> {
    let mut sum = 0;
    for event in events(daemon, kind)? {
        ensure!(event["port"] == "c", "{event}");
        sum += event["values"]["frames"].as_u64().unwrap_or(0);
    }
    Ok(sum)
}

/// Checks that B got everything, and that C got everything but `lost`.
fn accounts([a, b, c]: &[HostReport; 3], lost: u64) -> Result<()> {
    let sent: Vec<u64> = a.sent.iter().map(|flow| flow.sent_frames).collect();
    println!("sent {sent:?}, at b {}, at c {}, lost by name {lost}", arrived(b, 0), arrived(c, 1));
    ensure!(sent[0] - arrived(b, 0) <= b.kernel_lost, "b: {b:?}");
    let missing = sent[1] - arrived(c, 1) - lost;
    ensure!(missing <= c.kernel_lost, "{missing} frames are missing without a name: {c:?}");
    Ok(())
}

/// The MTU of C's port shrinks below the frames and grows again: every frame that was too long is
/// counted by name, and reported.
#[test]
fn an_mtu_that_shrinks_under_traffic_costs_what_is_counted_as_too_long() -> Result<()> {
    let mut triangle = Triangle::start()?;
    triangle.switch.ip("link set dev c mtu 500")?;
    triangle.daemon.until("frames are too long", |now| {
        (port(now, "c").ok()?.drops["mtu_exceeded"].frames > 1000).then_some(())
    })?;
    triangle.switch.ip("link set dev c mtu 1500")?;
    triangle.until_sent(1000)?;
    let at_rest = triangle.at_rest()?;
    let at_c = port(&at_rest, "c")?;
    let (too_long, by_kernel) = (at_c.drops["mtu_exceeded"].frames, at_c.kernel_lost_frames);
    ensure!(at_c.priorities[3].no_drop_lost_frames == too_long + by_kernel, "{at_c:#?}");
    eventually("every frame is in an event", || {
        Ok((in_events(&triangle.daemon, "no_drop_dropped")? == too_long).then_some(()))
    })?;
    ensure!(in_events(&triangle.daemon, "mtu_exceeded")? > 0, "with the reason as a name, too");
    ensure!(in_events(&triangle.daemon, "kernel_lost")? == by_kernel);
    accounts(&triangle.end()?, too_long + by_kernel)
}

/// C's port loses its carrier and gets it back: what it held, and what came for it meanwhile, is
/// counted by name, and reported.
#[test]
fn a_carrier_that_goes_and_comes_costs_what_is_counted_as_down() -> Result<()> {
    let mut triangle = Triangle::start()?;
    for _ in 0..2 {
        let before = port(&triangle.daemon.snapshot()?, "c")?.drops["destination_down"].frames;
        triangle.switch.ip("link set dev c down")?;
        triangle.daemon.until("frames come for a port that is down", |now| {
            (port(now, "c").ok()?.drops["destination_down"].frames > before + 1000).then_some(())
        })?;
        triangle.switch.ip("link set dev c up")?;
        triangle.until_sent(1000)?;
    }
    let at_rest = triangle.at_rest()?;
    let at_c = port(&at_rest, "c")?;
    let by_name = |name: &str| at_c.drops[name].frames;
    let lost = by_name("destination_down") + by_name("port_down") + at_c.kernel_lost_frames;
    println!(
        "destination_down {}, port_down {}, kernel {}",
        by_name("destination_down"),
        by_name("port_down"),
        at_c.kernel_lost_frames
    );
    ensure!(at_c.priorities[3].no_drop_lost_frames == lost, "{lost}: {at_c:#?}");
    conservation(&at_rest, &[])?;
    eventually("every frame is in an event", || {
        let reported =
            in_events(&triangle.daemon, "no_drop_dropped")? + in_events(&triangle.daemon, "kernel_lost")?;
        Ok((reported == lost).then_some(()))
    })?;
    accounts(&triangle.end()?, lost)
}

/// C's whole namespace goes, with its host and both ends of its cable, and is made again.
#[test]
fn a_peer_whose_namespace_goes_costs_only_its_own_frames() -> Result<()> {
    let mut triangle = Triangle::start()?;
    let gone = triangle.receivers.pop().context("the host at c")?;
    let namespace = triangle.c.namespace.clone();
    namespace.end_processes()?;
    drop(gone);
    namespace.remove()?;
    triangle.daemon.until("the port is down", |now| (!port(now, "c").ok()?.up).then_some(()))?;
    triangle.daemon.until("frames come for a port that is down", |now| {
        (port(now, "c").ok()?.drops["destination_down"].frames > 1000).then_some(())
    })?;
    let again = Namespace::create(namespace.name().to_owned())?;
    for which in ["all", "default"] {
        again.sysctl(&format!("net/ipv6/conf/{which}/disable_ipv6"), "1")?;
    }
    triangle.bed.plug(&triangle.c, &triangle.switch)?;
    triangle.receivers.push(triangle.bed.host(&triangle.c, &[], &["--no-drop", "3"])?);
    triangle.until_sent(1000)?;
    let at_rest = triangle.at_rest()?;
    conservation(&at_rest, &[])?;
    ensure!(
        triangle.receivers[1].report().is_some_and(|report| arrived(&report, 1) > 0),
        "c gets frames again"
    );
    let [a, b, _] = triangle.end()?;
    let (sent, at_b) = (a.sent[0].sent_frames, arrived(&b, 0));
    ensure!(sent - at_b <= b.kernel_lost, "{sent} sent to b, {at_b} arrived");
    Ok(())
}
