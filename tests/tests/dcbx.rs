//! DCBX on veths: two daemons negotiate, the switch follows at once, and what was agreed goes with
//! the peer.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control::BlockingClient;
use serde_json::Value;
use testbed::{Daemon, Namespace, Snapshot, Testbed, binary, eventually, idle, port};
use tests::{flow, port_config, run, slow_port_config, undisturbed};
use wire::dcbx::Ieee;
use wire::dcbx::ieee::PfcConfiguration;
use wire::lldp::{ChassisId, Lldpdu, PortId};
use wire::mac::MacAddr;
use xdp::PacketSocket;

/// A daemon that negotiates PFC on port `first`, on interface `p`.
fn config(name: &str, no_drop: u8, version: &str, willing: bool) -> String {
    format!(
        "[switch]\nname = \"{name}\"\n\n[lldp]\ntx_interval_s = 1\nhold = 3\n\n[port-defaults]\nlldp = \"off\"\n\n\
         [port.first]\ninterface = \"p\"\nlldp = \"both\"\npfc = {{ mode = \"auto\", no_drop = [{no_drop}] }}\n\
         dcbx = {{ version = \"{version}\", willing = {willing} }}\n"
    )
}

/// Returns headroom of priority 3 that lasts while a loop stalls, for both switches.
fn ample_headroom() -> String {
    tests::group_config("a", tests::AMPLE_HEADROOM_CELLS).replace("port.a", "port-defaults") + AMPLE_AREA
}

/// A headroom area with room for the headroom of two ports.
const AMPLE_AREA: &str = "\n[buffer]\nheadroom_cells = 32768\n";

/// What a port negotiated: version, state of PFC, and the priorities that are no-drop now.
#[derive(Debug, PartialEq, Eq, Clone)]
struct NegotiationResult {
    version: String,
    state: String,
    no_drop: Vec<usize>,
}

fn outcome(snapshot: &Snapshot) -> Option<NegotiationResult> {
    let port = port(snapshot, "first").ok()?;
    let dcbx = port.dcbx.as_ref()?;
    let groups = port.groups.iter().enumerate().filter(|(_, group)| group.no_drop);
    Some(NegotiationResult {
        version: dcbx.version.clone(),
        state: dcbx.features.first()?.state.clone(),
        no_drop: groups.map(|(priority, _)| priority).collect(),
    })
}

fn becomes(daemon: &Daemon, what: &str, expected: &NegotiationResult) -> Result<()> {
    let seen = |snapshot: &Snapshot| (outcome(snapshot).as_ref() == Some(expected)).then_some(());
    daemon.until(what, seen).with_context(|| format!("{what}: {expected:?}"))
}

/// Replaces the configuration, except for the control socket.
fn reload(daemon: &Daemon, config: &str) -> Result<()> {
    let before = std::fs::read_to_string(daemon.config())?;
    let socket = before.split_once("[control]").context("a control socket")?.1;
    std::fs::write(daemon.config(), format!("{config}\n[control]{socket}"))?;
    BlockingClient::connect(daemon.socket())?.execute(control::Command::Reload)?;
    Ok(())
}

fn pair() -> Result<(Testbed, Namespace, Namespace)> {
    let bed = Testbed::new()?;
    let (left, right) = (bed.switch("left")?, bed.switch("right")?);
    bed.cable((&left, "p"), (&right, "p"))?;
    Ok((bed, left, right))
}

/// Left has priority 3 no-drop, right priority 4, in every kind of combination of versions and
/// willing ends. Each follows from the one before by a reload of both ends.
#[test]
fn combinations_of_version_and_willing() -> Result<()> {
    let (bed, left, right) = pair()?;
    let left = bed.daemon(&left, &config("left", 3, "ieee", false))?;
    let right = bed.daemon(&right, &config("right", 4, "ieee", false))?;
    let (agreed, error) = ("agreed", "error");
    for (versions, willing, spoken, state, no_drop) in [
        (("ieee", "ieee"), (false, true), ("IEEE", "IEEE"), agreed, Some(3)),
        (("ieee", "ieee"), (false, false), ("IEEE", "IEEE"), error, None),
        (("ieee", "ieee"), (true, false), ("IEEE", "IEEE"), agreed, Some(4)),
        (("cin", "auto"), (true, false), ("CIN", "CIN"), agreed, Some(4)),
        (("auto", "cee"), (false, true), ("CEE", "CEE"), agreed, Some(3)),
        (("cee", "cee"), (false, true), ("CEE", "CEE"), agreed, Some(3)),
        (("cee", "cee"), (false, false), ("CEE", "CEE"), error, None),
        (("cee", "cee"), (true, false), ("CEE", "CEE"), agreed, Some(4)),
        (("cin", "cin"), (false, true), ("CIN", "CIN"), agreed, Some(3)),
        (("cin", "cin"), (true, true), ("CIN", "CIN"), error, None),
        (("ieee", "cee"), (false, true), ("IEEE", "CEE"), error, None),
        (("ieee", "auto"), (true, false), ("IEEE", "IEEE"), agreed, Some(4)),
    ] {
        reload(&left, &config("left", 3, versions.0, willing.0))?;
        reload(&right, &config("right", 4, versions.1, willing.1))?;
        let expected = |version: &str| NegotiationResult {
            version: version.to_owned(),
            state: state.to_owned(),
            no_drop: no_drop.into_iter().collect(),
        };
        let what = format!("{versions:?}, willing {willing:?}");
        becomes(&left, &format!("left: {what}"), &expected(spoken.0))?;
        becomes(&right, &format!("right: {what}"), &expected(spoken.1))?;
    }
    let mut command = Command::new(binary("sluice")?);
    let output = command.args(["show", "dcbx", "--json", "--socket"]).arg(left.socket()).output()?;
    let rows: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(rows[0]["pfc_mode"] == "auto" && rows[0]["features"][0]["operational"] == "4", "{rows}");
    let events = BlockingClient::connect(left.socket())?.events(0)?;
    let has = |kind: &str| events.iter().any(|event| event.kind == kind);
    ensure!(has("dcbx_changed") && has("dcbx_error") && has("dcbx_version"), "{events:?}");

    // The peer dies: nothing is no-drop without an agreement.
    right.kill9()?;
    let alone =
        NegotiationResult { version: "IEEE".to_owned(), state: "local".to_owned(), no_drop: Vec::new() };
    becomes(&left, "left alone", &alone)
}

/// A willing port takes over a priority that its file does not list: the file's headroom is checked
/// for it then. What it does not cover is an event and shown, once for the agreement.
#[test]
fn headroom_is_checked_for_what_was_agreed_on() -> Result<()> {
    let (bed, left, right) = pair()?;
    let long = "speed = \"100G\"\ncable_m = 10000\n";
    let left = bed.daemon(&left, &(config("left", 3, "auto", true) + long))?;
    let right = bed.daemon(&right, &config("right", 3, "ieee", false))?;
    let agreed = |no_drop| NegotiationResult {
        version: "IEEE".to_owned(),
        state: "agreed".to_owned(),
        no_drop: vec![no_drop],
    };
    let uncovered = || -> Result<Vec<String>> {
        let events = BlockingClient::connect(left.socket())?.events(0)?;
        let of_kind = events.into_iter().filter(|event| event.kind == "dcbx_uncovered");
        Ok(of_kind.map(|event| event.message).collect())
    };
    let warnings = |snapshot: &Snapshot| -> Option<Vec<String>> {
        Some(port(snapshot, "first").ok()?.dcbx.as_ref()?.warnings.clone())
    };
    becomes(&left, "the priority of the file", &agreed(3))?;
    ensure!(uncovered()?.is_empty(), "{:?}", uncovered()?);
    for flap in 0..2 {
        reload(&right, &config("right", 4, "ieee", false))?;
        becomes(&left, &format!("another one, {flap}"), &agreed(4))?;
        let shown = left.until("it is shown", |now| warnings(now).filter(|list| !list.is_empty()))?;
        ensure!(shown[0].contains("(4): ") && shown[0].contains("headroom cells are too few"), "{shown:?}");
        ensure!(uncovered()?.len() == 1 && shown[..1] == uncovered()?, "{flap}: {:?}", uncovered()?);
        reload(&right, &config("right", 3, "ieee", false))?;
        becomes(&left, "the priority of the file again", &agreed(3))?;
        left.until("nothing is short", |now| warnings(now).filter(Vec::is_empty))?;
    }
    Ok(())
}

/// A port in mode `on` keeps its own priorities and says that the peer has others.
#[test]
fn mode_on_keeps_its_own() -> Result<()> {
    let (bed, left, right) = pair()?;
    let on = config("left", 3, "ieee", false).replace("\"auto\"", "\"on\"");
    let left = bed.daemon(&left, &on)?;
    let right = bed.daemon(&right, &config("right", 4, "ieee", false))?;
    let outcome = |state: &str, no_drop: &[usize]| NegotiationResult {
        version: "IEEE".to_owned(),
        state: state.to_owned(),
        no_drop: no_drop.to_vec(),
    };
    becomes(&left, "left says the mismatch", &outcome("error", &[3]))?;
    becomes(&right, "right has none", &outcome("error", &[]))
}

/// Two switches agree on priority 3 while they run: what a slow receiver behind the second cannot
/// take then waits at the sender, and no frame is lost. When the second dies, the first has no PFC
/// left.
#[test]
fn an_agreement_makes_a_running_link_lossless() -> Result<()> {
    let (run, no_drop) = undisturbed(|| {
        let bed = Testbed::new()?;
        let (first, second) = (bed.switch("first")?, bed.switch("second")?);
        bed.cable((&first, "p"), (&second, "p"))?;
        let (sender, receiver) = (bed.sluice_host(&first, "sender")?, bed.sluice_host(&second, "receiver")?);
        let of_host = "\npfc = { mode = \"on\", no_drop = [3] }\n";
        let ample = ample_headroom();
        let willing = config("first", 3, "auto", true).replace(", no_drop = [3]", "");
        let willing = willing + &port_config("sender", "2G") + of_host + &ample;
        let other = config("second", 3, "auto", false);
        let other = other + &slow_port_config("receiver", 200) + of_host + &ample;
        // The kernel of one would count LLDP frames that come before its switch is ready.
        let silent = |config: &str| {
            let config = config
                .replace("lldp = \"both\"", "lldp = \"off\"")
                .replace("mode = \"auto\"", "mode = \"off\"");
            config.replace("dcbx = {", "dcbx = { enabled = false,")
        };
        let first = bed.daemon(&first, &silent(&willing))?;
        let second = bed.daemon(&second, &silent(&other))?;
        reload(&first, &willing)?;
        reload(&second, &other)?;
        let agreed =
            |no_drop| NegotiationResult { version: "IEEE".to_owned(), state: "agreed".to_owned(), no_drop };
        becomes(&first, "first follows", &agreed(vec![3]))?;
        becomes(&second, "second", &agreed(vec![3]))?;

        let flows = [flow(&receiver.mac(), 3, "600M")];
        let sending = vec![bed.host(&sender, &flows, &["--speed", "2G", "--duration", "3s"])?];
        let receiving = bed.host(&receiver, &[], &["--speed", "200M"])?;
        for daemon in [&first, &second] {
            daemon.until_announced(2)?;
        }
        let run = run(&[&first, &second], sending, vec![receiving], Duration::from_secs(3))?;
        second.kill9()?;
        let alone =
            NegotiationResult { version: "IEEE".to_owned(), state: "local".to_owned(), no_drop: Vec::new() };
        becomes(&first, "first alone", &alone)?;
        let no_drop = outcome(&first.snapshot()?).context("an outcome")?.no_drop;
        Ok((run, no_drop))
    })?;
    ensure!(no_drop.is_empty(), "{no_drop:?}");
    let total = run.total(3);
    ensure!(total.dropped == 0 && total.received == total.sent, "{total:?}");
    ensure!(total.sent < 600_000_000 / 8 / 1000 * 3 * 2 / 3, "the sender was paused: {total:?}");
    Ok(())
}

/// Traffic of priorities 3 and 0 runs, and of 3 a slow receiver behind the second switch loses
/// frames. Then the switches agree, and the first takes over the second's groups, too: from the
/// first pause on no frame of priority 3 is lost, and of priority 0 none at any time.
#[test]
fn traffic_that_runs_becomes_lossless() -> Result<()> {
    let bed = Testbed::new()?;
    let (first, second) = (bed.switch("first")?, bed.switch("second")?);
    bed.cable((&first, "p"), (&second, "p"))?;
    let (sender, receiver) = (bed.sluice_host(&first, "sender")?, bed.sluice_host(&second, "receiver")?);
    let of_host = "\npfc = { mode = \"on\", no_drop = [3] }\n";
    let ample = ample_headroom();
    let willing = config("first", 3, "auto", true) + &port_config("sender", "2G") + of_host + &ample;
    let groups = "schedule = { mode = \"ets\" }\n";
    let other = config("second", 3, "auto", false) + groups;
    let other = other + &slow_port_config("receiver", 200) + of_host + &ample;
    let silent = |config: &str| config.replace("dcbx = {", "dcbx = { enabled = false,");
    let off = |config: &str| silent(config).replace("mode = \"auto\"", "mode = \"off\"");
    let first = bed.daemon(&first, &off(&willing))?;
    let second = bed.daemon(&second, &off(&other))?;
    let flows = [flow(&receiver.mac(), 3, "600M"), flow(&receiver.mac(), 0, "20M")];
    let mut sending = bed.host(&sender, &flows, &["--speed", "2G", "--duration", "60s"])?;
    let receiving = bed.host(&receiver, &[], &["--speed", "200M"])?;
    for daemon in [&first, &second] {
        daemon.until_announced(2)?;
    }
    let dropped = |priority| -> Result<u64> {
        let mut sum = 0;
        for (daemon, host) in [(&first, "sender"), (&second, "receiver")] {
            let snapshot = daemon.snapshot()?;
            sum += tests::dropped(port(&snapshot, "first")?, priority);
            sum += tests::dropped(port(&snapshot, host)?, priority);
        }
        Ok(sum)
    };
    sending.start_sending()?;
    eventually("priority 3 loses frames", || Ok((dropped(3)? > 1000).then_some(())))?;
    reload(&second, &other)?;
    reload(&first, &willing)?;
    let agreed =
        NegotiationResult { version: "IEEE".to_owned(), state: "agreed".to_owned(), no_drop: vec![3] };
    becomes(&first, "first follows", &agreed)?;
    becomes(&second, "second", &agreed)?;
    let xoff = |now: &Snapshot| port(now, "first").map_or(0, |port| port.groups[3].xoff_ns);
    second.until("second pauses first", |now| (xoff(now) > 0).then_some(()))?;
    first.until("first pauses the sender", |now| {
        port(now, "sender").is_ok_and(|port| port.groups[3].xoff_ns > 0).then_some(())
    })?;
    let (lost, forwarded) = (dropped(3)?, tests::frames(port(&second.snapshot()?, "receiver")?.transmitted));
    second.until("more traffic", |now| {
        let port = port(now, "receiver").ok()?;
        (tests::frames(port.transmitted) > forwarded + 30_000).then_some(())
    })?;
    let ets = first.until("ETS is taken over", |now| {
        let features = port(now, "first").ok()?.dcbx.clone()?.features;
        features.into_iter().find(|feature| feature.name == "ETS" && feature.state == "agreed")
    })?;
    ensure!(
        ets.reason == "taken over from the peer" && Some(&ets.operational) == ets.peer.as_ref(),
        "{ets:?}"
    );
    let sent = sending.stop()?;
    for daemon in [&first, &second] {
        daemon.until("the switch is at rest", |now| idle(now).then_some(()))?;
    }
    ensure!(dropped(3)? == lost && dropped(0)? == 0, "{} after {lost}, {}", dropped(3)?, dropped(0)?);
    let received = receiving.stop()?;
    let of_0 = received.received.iter().find(|flow| flow.priority == 0).context("a flow")?;
    let kernel_lost = sent.kernel_lost + received.kernel_lost;
    let sent_of_0 = sent.sent.iter().find(|flow| flow.priority == 0).context("a flow")?.sent_frames;
    ensure!(of_0.received_frames + kernel_lost >= sent_of_0 && sent_of_0 > 1000, "{of_0:?} of {sent_of_0}");
    Ok(())
}

/// A further peer on the link is an error, until its time to live is over; another peer in place of
/// the first is followed, and takes its PFC with it when it leaves.
#[test]
fn two_peers_on_a_port_and_a_changed_peer() -> Result<()> {
    let (bed, left, right) = pair()?;
    let socket = right.enter(|| PacketSocket::open("p"))??;
    let left = bed.daemon(&left, &config("left", 3, "auto", true))?;
    let first = bed.daemon(&right, &config("right", 4, "ieee", false))?;
    let outcome = |state: &str, no_drop: &[usize]| NegotiationResult {
        version: "IEEE".to_owned(),
        state: state.to_owned(),
        no_drop: no_drop.to_vec(),
    };
    let other_sends = |ttl_s: u16| {
        let mac = MacAddr([2, 0, 0, 0, 0, 0x77]);
        let mut frame = Lldpdu::new(ChassisId::mac(mac), PortId::interface("other"), ttl_s);
        let pfc = PfcConfiguration { willing: false, macsec_bypass: false, capability: 8, enabled: 1 << 5 };
        frame.organization = Ieee { pfc: Some(pfc), ..Ieee::default() }.encode();
        socket.send(&frame.encode(mac).frame)
    };
    becomes(&left, "one peer", &outcome("agreed", &[4]))?;
    other_sends(2)?;
    becomes(&left, "two peers", &outcome("error", &[]))?;
    becomes(&left, "one again", &outcome("agreed", &[4]))?;
    first.stop()?;
    becomes(&left, "none", &outcome("local", &[]))?;
    other_sends(60)?;
    becomes(&left, "another peer", &outcome("agreed", &[5]))?;
    other_sends(0)?;
    becomes(&left, "it has left", &outcome("local", &[]))
}

/// The peer's link flaps while two other ports carry traffic, and the sender is paused for the slow
/// port of the receiver: they lose nothing. Nothing stays no-drop while the link is down, and each
/// time it is up again both ends agree again.
#[test]
fn a_flapping_peer_disturbs_no_other_port() -> Result<()> {
    let (bed, left, right) = pair()?;
    let (a, b) = (bed.sluice_host(&left, "a")?, bed.sluice_host(&left, "b")?);
    let of_host = "lldp = \"off\"\npfc.mode = \"on\"\npfc.no_drop = [3]\n";
    let sender = port_config("a", "1G") + of_host + &tests::group_config("a", tests::AMPLE_HEADROOM_CELLS);
    let receiver = slow_port_config("b", 20) + of_host;
    let left = bed.daemon(&left, &(config("left", 3, "cee", false) + &sender + &receiver + AMPLE_AREA))?;
    let _right_daemon = bed.daemon(&right, &config("right", 4, "cee", true))?;
    let outcome = |state: &str, no_drop: &[usize]| NegotiationResult {
        version: "CEE".to_owned(),
        state: state.to_owned(),
        no_drop: no_drop.to_vec(),
    };
    becomes(&left, "left at first", &outcome("agreed", &[3]))?;

    let receiving = bed.host(&b, &[], &["--speed", "1G"])?;
    let to_b = format!("to={},priority=3,size=1000,rate=40M", b.mac());
    let mut sending = bed.host(&a, &[to_b], &["--speed", "1G", "--duration", "60s"])?;
    left.until_announced(2)?;
    sending.start_sending()?;
    for flap in 0..4 {
        right.ip("link set p down")?;
        becomes(&left, &format!("flap {flap}: down"), &outcome("local", &[]))?;
        right.ip("link set p up")?;
        becomes(&left, &format!("flap {flap}: up"), &outcome("agreed", &[3]))?;
    }
    let sent = sending.stop()?;
    left.until("the switch is at rest", |now| idle(now).then_some(()))?;
    let snapshot = left.snapshot()?;
    for name in ["a", "b"] {
        let port = port(&snapshot, name)?;
        ensure!(port.up && port.groups[3].no_drop && tests::dropped(port, 3) == 0, "{port:?}");
    }
    ensure!(port(&snapshot, "a")?.groups[3].xoff_ns > 0, "the sender was paused: {snapshot:?}");
    let received = receiving.stop()?;
    let (sent_frames, kernel_lost) = (sent.sent[0].sent_frames, sent.kernel_lost + received.kernel_lost);
    let flow = received.received.first().context("a flow")?;
    ensure!(flow.received_frames + kernel_lost == sent_frames && sent_frames > 1000, "{flow:?} {sent:?}");
    Ok(())
}

/// `sluice host --dcbx willing` is as a server with a NIC: it follows the switch, stops for the
/// priority that is agreed on, and reports it. When it ends, the switch has no PFC on that port.
#[test]
fn a_willing_host_follows_the_switch() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (host, other) = (bed.sluice_host(&switch, "p")?, bed.sluice_host(&switch, "other")?);
    let slow = slow_port_config("other", 20) + "lldp = \"off\"\n";
    let daemon = bed.daemon(&switch, &(config("switch", 3, "auto", false) + &slow))?;
    let flows = [flow(&other.mac(), 3, "60M")];
    let willing = ["--speed", "1G", "--dcbx", "willing", "--no-drop", "5", "--duration", "60s"];
    let mut sending = bed.host(&host, &flows, &willing)?;
    let receiving = bed.host(&other, &[], &["--speed", "1G"])?;
    daemon.until_announced(2)?;
    let agreed =
        NegotiationResult { version: "IEEE".to_owned(), state: "agreed".to_owned(), no_drop: vec![3] };
    becomes(&daemon, "the switch", &agreed)?;
    sending.start_sending()?;
    // By the queue: a pause of the guard is over as soon as the loop runs, and a host that is late
    // sees its XOFF and its XON at once. Late for ten in a row it is not.
    daemon.until("pauses", |now| {
        let port = port(now, "first").ok()?;
        (port.groups[3].xoff_episodes > 10 && testbed::pauses_sent(port) > 20).then_some(())
    })?;
    let report = sending.stop()?;
    let outcome = report.dcbx.context("DCBX in the report")?;
    ensure!(outcome.state == "agreed" && outcome.no_drop == [3], "{outcome:?}");
    ensure!(outcome.lldp_sent > 0 && outcome.lldp_received > 0, "{outcome:?}");
    ensure!(report.pauses[3].paused_ns > 0 && report.other_received == 0, "{:?}", report.pauses);
    drop(receiving);
    let alone =
        NegotiationResult { version: "IEEE".to_owned(), state: "local".to_owned(), no_drop: Vec::new() };
    becomes(&daemon, "the switch alone", &alone)
}
