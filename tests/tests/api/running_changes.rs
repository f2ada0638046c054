//! Commands to a running switch: another configuration, PFC off and on, a port held and released,
//! watermarks read and cleared. No command loses a frame of a no-drop priority (docs/behavior.md,
//! "Reload").

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use testbed::{Daemon, Endpoint, Host, Namespace, Snapshot, Testbed, conservation, port};
use tests::{
    AMPLE_HEADROOM_CELLS, TrafficRun, flow, frames, group_config, pause, port_config, run, slow_port_config,
    sluice, switch_config,
};

/// A sender and a receiver whose port is slower.
struct Pair {
    bed: Testbed,
    switch: Namespace,
    sender: Endpoint,
    receiver: Endpoint,
}

impl Pair {
    fn new() -> Result<Self> {
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let (sender, receiver) = (bed.sluice_host(&switch, "sender")?, bed.sluice_host(&switch, "receiver")?);
        Ok(Self { bed, switch, sender, receiver })
    }

    /// XOFF of priority 3 at 4096 cells, XON at 2048.
    fn config() -> String {
        switch_config("on")
            + &port_config("sender", "1G")
            + &group_config("sender", AMPLE_HEADROOM_CELLS)
            + &slow_port_config("receiver", 100)
    }

    /// Sends 200 Mbit/s on priority 3 for `duration`, and calls `meanwhile` during that time.
    fn run(
        &self,
        daemon: &Daemon,
        duration: Duration,
        meanwhile: impl FnOnce() -> Result<()> + Send,
    ) -> Result<TrafficRun> {
        let receiver = self.bed.host(&self.receiver, &[], &["--speed", "100M", "--no-drop", "3"])?;
        let lasts = format!("{}s", duration.as_secs());
        let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", &lasts];
        let sender = self.bed.host(&self.sender, &[flow(&self.receiver.mac(), 3, "200M")], &arguments)?;
        daemon.until_announced(2)?;
        std::thread::scope(|scope| {
            let meanwhile = scope.spawn(meanwhile);
            let run = run(&[daemon], vec![sender], vec![receiver], duration)?;
            meanwhile.join().map_err(|_| anyhow!("it panicked meanwhile"))??;
            conservation(&run.snapshot, &run.hosts())?;
            Ok(run)
        })
    }
}

/// Replaces `old` by `new` in the daemon's file.
fn edit(daemon: &Daemon, old: &str, new: &str) -> Result<()> {
    let text = std::fs::read_to_string(daemon.config())?;
    assert!(text.contains(old), "{old} is not in the file:\n{text}");
    Ok(std::fs::write(daemon.config(), text.replace(old, new))?)
}

/// Returns the error of a command that must fail.
fn refused(daemon: &Daemon, arguments: &[&str]) -> String {
    sluice(daemon, arguments).expect_err("it must refuse").to_string()
}

fn xoff_episodes(snapshot: &Snapshot) -> Result<u64> {
    Ok(port(snapshot, "sender")?.groups[3].xoff_episodes)
}

#[test]
fn other_thresholds_under_traffic_take_effect_and_lose_nothing() -> Result<()> {
    let pair = Pair::new()?;
    let daemon = pair.bed.daemon(&pair.switch, &Pair::config())?;
    let run = pair.run(&daemon, Duration::from_secs(8), || {
        daemon.until("XOFF at the first threshold", |now| (xoff_episodes(now).ok()? >= 2).then_some(()))?;
        edit(&daemon, "static_cells = 4096", "static_cells = 512")?;
        edit(&daemon, "xon_offset_cells = 2048", "xon_offset_cells = 256")?;
        assert_eq!(sluice(&daemon, &["reload"])?, "port.sender: PFC thresholds of priority 3\n");
        let shared = |now: &Snapshot| port(now, "sender").ok()?.groups[3].shared;
        daemon.until("what was above the new threshold drains", |now| {
            (shared(now)?.cells <= 512).then_some(())
        })?;
        sluice(&daemon, &["clear", "watermarks"])?;
        let before = xoff_episodes(&daemon.snapshot()?)?;
        let after = daemon.until("XOFF at the second threshold", |now| {
            (xoff_episodes(now).ok()? >= before + 2).then(|| now.clone())
        })?;
        let level = shared(&after).context("a level")?;
        assert!((500..=512).contains(&level.peak_clear_cells), "XOFF at 512 cells: {level:?}");
        assert!((4084..=4096).contains(&level.peak_cells), "XOFF at 4096 cells before: {level:?}");
        assert_eq!(port(&after, "sender")?.groups[3].threshold_cells, 512);
        let nothing = "Nothing changed: the file matches the running configuration.\n";
        assert_eq!(sluice(&daemon, &["reload"])?, nothing);
        Ok(())
    })?;
    let total = run.total(3);
    assert!(total.sent > 0);
    assert_eq!((total.received, total.dropped, total.reordered), (total.sent, 0, 0), "{total:?}");
    assert!(run.carried_bps("receiver")? > 95e6, "the port never ran dry");
    daemon.stop()?;
    Ok(())
}

/// One hundred reloads under load, each of which changes when the sender may go on: no no-drop
/// frame is lost. A dry run changes nothing, and `sluice set` keeps the comments of the file.
#[test]
fn a_hundred_reloads_under_load_lose_nothing() -> Result<()> {
    let pair = Pair::new()?;
    let daemon = pair.bed.daemon(&pair.switch, &(Pair::config() + "\n# This comment stays.\n"))?;
    let key = "port.sender.pfc.priority.3.xon_offset_cells";
    let set = |cells: u32, more: &[&str]| {
        let setting = format!("{key}={cells}");
        sluice(&daemon, &[&["set", &setting], more].concat())
    };
    let run = pair.run(&daemon, Duration::from_secs(12), || {
        for round in 0..50 {
            set(1000 + round, &[])?;
            edit(
                &daemon,
                &format!("xon_offset_cells = {}", 1000 + round),
                &format!("xon_offset_cells = {}", 2000 + round),
            )?;
            if round == 0 {
                let preview = sluice(&daemon, &["reload", "--dry-run"])?;
                ensure!(preview == "Would change:\nport.sender: PFC thresholds of priority 3\n", "{preview}");
                let twice = set(7, &[]).expect_err("the file has another change").to_string();
                ensure!(twice.contains("has changes that are not applied"), "{twice}");
            }
            ensure!(sluice(&daemon, &["reload"])? == "port.sender: PFC thresholds of priority 3\n");
        }
        Ok(())
    })?;
    let lost: u64 = run.snapshot.ports.iter().map(|port| port.drops["ingress_no_drop"].frames).sum();
    ensure!(lost == 0 && xoff_episodes(&run.snapshot)? > 0, "{lost} lost");
    let text = std::fs::read_to_string(daemon.config())?;
    ensure!(text.contains("# This comment stays.") && text.contains("xon_offset_cells = 2049"), "{text}");

    let shown = set(3000, &["--dry-run"])?;
    ensure!(
        shown.contains("+xon_offset_cells = 3000") && shown.contains("is as it was (--dry-run)"),
        "{shown}"
    );
    ensure!(sluice(&daemon, &["reload", "--dry-run"])?.starts_with("Nothing would change"));
    for (setting, why) in [("switch.name=other", "need a restart"), ("port.sender.speed=0", "is as it was")] {
        let refusal = refused(&daemon, &["set", setting]);
        ensure!(refusal.contains(why), "{refusal}");
    }
    ensure!(std::fs::read_to_string(daemon.config())? == text, "refused settings are not in the file");
    edit(&daemon, "name = \"under-test\"", "name = \"other\"")?;
    let preview = refused(&daemon, &["reload", "--dry-run"]);
    ensure!(preview.contains("need a restart") && preview.contains("switch: name"), "{preview}");
    daemon.stop()?;
    Ok(())
}

/// A third port is taken down and up, by command and in the file, while a no-drop flow runs between
/// the other two: these lose nothing, and the state outlasts a reload.
#[test]
fn a_port_is_taken_down_and_up_while_others_lose_nothing() -> Result<()> {
    let pair = Pair::new()?;
    pair.bed.sluice_host(&pair.switch, "other")?;
    let daemon = pair.bed.daemon(&pair.switch, &(Pair::config() + &port_config("other", "1G")))?;
    // Each command answers when it is done.
    let other = || -> Result<(bool, bool)> {
        let now = daemon.snapshot()?;
        let other = port(&now, "other")?;
        Ok((other.up, other.admin_down))
    };
    let admin_down = "port.other: admin down, by command";
    let run = pair.run(&daemon, Duration::from_secs(8), || {
        for round in 0..3 {
            ensure!(sluice(&daemon, &["port", "down", "other"])? == "Port other is admin down.\n");
            ensure!(other()? == (false, true), "{:?}", other()?);
            ensure!(sluice(&daemon, &["show", "ports"])?.contains("admin down"));
            let (from, to) = (2048 + round, 2049 + round);
            edit(&daemon, &format!("xon_offset_cells = {from}"), &format!("xon_offset_cells = {to}"))?;
            sluice(&daemon, &["reload"])?;
            ensure!(other()? == (false, true), "a reload keeps it down");
            ensure!(sluice(&daemon, &["show", "config"])?.contains(admin_down));
            ensure!(sluice(&daemon, &["port", "up", "other"])? == "Port other is admin up.\n");
            ensure!(other()? == (true, false), "{:?}", other()?);
        }
        ensure!(sluice(&daemon, &["set", "port.other.admin=down"])?.contains("port.other: admin"));
        ensure!(other()? == (false, true), "{:?}", other()?);
        sluice(&daemon, &["port", "up", "other"])?;
        ensure!(other()? == (true, false), "a command wins over the file");
        sluice(&daemon, &["port", "down", "other"])?;
        sluice(&daemon, &["set", "port.other.admin=up"])?;
        ensure!(other()? == (true, false), "a change of the file wins over a command before it");
        sluice(&daemon, &["port", "down", "other"])?;
        for arguments in [&["reload"][..], &["reload", "--dry-run"]] {
            let answer = sluice(&daemon, arguments)?;
            ensure!(answer.contains("the file is as it was. In force beside it:\nport.other"), "{answer}");
        }
        let answer = sluice(&daemon, &["set", "port.other.admin=up", "--dry-run"])?;
        ensure!(answer.contains("Nothing changed (--dry-run)") && other()? == (false, true), "{answer}");
        let answer = sluice(&daemon, &["set", "port.other.admin=up"])?;
        ensure!(answer.ends_with("port.other: admin up, no longer down by command\n"), "{answer}");
        ensure!(other()? == (true, false), "and so does one that the file has already");
        ensure!(!sluice(&daemon, &["show", "config"])?.contains("by command"));
        Ok(())
    })?;
    let total = run.total(3);
    assert!(total.sent > 0 && xoff_episodes(&run.snapshot)? > 0);
    assert_eq!((total.received, total.dropped, total.reordered), (total.sent, 0, 0), "{total:?}");
    let events = sluice(&daemon, &["events", "--port", "other"])?;
    assert!(events.contains("admin down: the port carries no frames"), "{events}");
    let refusal = refused(&daemon, &["port", "down", "nowhere"]);
    assert_eq!(refusal, "sluice: there is no port `nowhere`; the ports are sender, receiver, other\n");
    daemon.stop()?;
    Ok(())
}

/// The port of a paused sender is taken down: the sender gets its XON, and does not wait until its
/// pause ends.
#[test]
fn a_port_that_is_taken_down_releases_its_peer() -> Result<()> {
    let Pair { bed, switch, sender, receiver } = Pair::new()?;
    let daemon = bed.daemon(&switch, &Pair::config())?;
    sluice(&daemon, &["port", "hold", "receiver"])?;
    let receiving = bed.host(&receiver, &[], &["--speed", "100M", "--no-drop", "3"])?;
    let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", "60s"];
    let mut sending = bed.host(&sender, &[flow(&receiver.mac(), 3, "200M")], &arguments)?;
    daemon.until_announced(2)?;
    sending.start_sending()?;
    daemon.until("the sender is paused", |now| {
        let sender = port(now, "sender").ok()?;
        (sender.groups[3].xoff && sender.pfc_sent.as_ref()?.xoff_frames[3] > 0).then_some(())
    })?;
    let sent =
        || Ok::<_, anyhow::Error>(port(&daemon.snapshot()?, "sender")?.pfc_sent.clone().unwrap_or_default());
    let before = sent()?; // it stays paused: the receiver's port is held
    sluice(&daemon, &["port", "down", "sender"])?;
    let sent = sent()?;
    let reports = Host::stop_all(vec![sending, receiving])?;
    let seen = pause(&reports[0].1, 3);
    ensure!(
        sent.xon_frames[3] > before.xon_frames[3]
            && (seen.xoff, seen.xon) == (sent.xoff_frames[3], sent.xon_frames[3]),
        "{seen:?}"
    );
    let events = sluice(&daemon, &["events", "--json"])?;
    ensure!(!events.contains("\"peer_not_released\""), "{events}");
    daemon.stop()?;
    Ok(())
}

/// A port that is let up and cannot be opened is an error with the reason, each time: its interface
/// is another daemon's, then it is gone. Once there is one, it is done.
#[test]
fn port_up_fails_with_the_reason_until_the_port_is_open() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let a = bed.linux_host(&switch, "a")?;
    bed.sluice_host(&switch, "b")?;
    let daemon =
        bed.daemon(&switch, &(switch_config("on") + &port_config("a", "1G") + &port_config("b", "1G")))?;
    let up = |daemon: &Daemon| refused(daemon, &["port", "up", "a"]);
    sluice(&daemon, &["port", "down", "a"])?;
    let other = bed.daemon(&switch, &(switch_config("off") + &port_config("a", "1G")))?;
    for _ in 0..2 {
        let refusal = up(&daemon);
        let expected = "sluice: port a is admin up, and carries no frames yet: it cannot be opened, which is tried \
                        again each second: interface a already has XDP program ";
        ensure!(refusal.starts_with(expected) && refusal.lines().count() == 1, "{refusal}");
    }
    ensure!(!port(&daemon.snapshot()?, "a")?.admin_down, "the command holds");
    other.stop()?;
    ensure!(sluice(&daemon, &["port", "up", "a"])? == "Port a is admin up.\n", "it is tried at once");
    ensure!(port(&daemon.snapshot()?, "a")?.up);

    sluice(&daemon, &["port", "down", "a"])?;
    switch.ip("link del dev a")?;
    let refusal = up(&daemon);
    ensure!(refusal.ends_with("no frames yet: it is opened once there is an interface a\n"), "{refusal}");
    bed.reconnect(&a, &switch)?;
    sluice(&daemon, &["port", "up", "a"])?;
    ensure!(port(&daemon.snapshot()?, "a")?.up);
    sluice(&daemon, &["port", "down", "a"])?;
    switch.ip("link set dev a down")?;
    let refusal = up(&daemon);
    ensure!(refusal.ends_with("a is down: `ip link set dev a up` brings it up\n"), "{refusal}");
    daemon.stop()?;
    Ok(())
}

/// A reload adds a port admin down, whose interface is not there yet: an event says that it is
/// down, and it is opened by command once its interface is there. So is it after a removal.
#[test]
fn a_port_may_be_added_admin_down_without_its_interface() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    bed.sluice_host(&switch, "a")?;
    let config = switch_config("on") + &port_config("a", "1G") + "\n[dataplane]\nspare_ports = 1\n";
    let daemon = bed.daemon(&switch, &config)?;
    let without = std::fs::read_to_string(daemon.config())?;
    let with = without.clone() + "\n[port.late]\ninterface = \"late\"\nadmin = \"down\"\n";
    let admin_down_events = || {
        Ok::<_, anyhow::Error>(sluice(&daemon, &["events", "--json"])?.matches("\"port_admin_down\"").count())
    };
    for round in 0..2 {
        let events = admin_down_events()?;
        std::fs::write(daemon.config(), &with)?;
        ensure!(sluice(&daemon, &["reload"])? == "port.late: added\n");
        let late =
            |now: &Snapshot| Ok::<_, anyhow::Error>((port(now, "late")?.up, port(now, "late")?.admin_down));
        ensure!(late(&daemon.snapshot()?)? == (false, true));
        ensure!(admin_down_events()? == events + 1, "one for the port that is added");
        if round == 0 {
            let refusal = refused(&daemon, &["port", "up", "late"]);
            ensure!(refusal.contains("once there is an interface late"), "{refusal}");
            sluice(&daemon, &["port", "down", "late"])?;
            bed.sluice_host(&switch, "late")?;
        }
        ensure!(late(&daemon.snapshot()?)? == (false, true), "no interface brings it up");
        sluice(&daemon, &["port", "up", "late"])?;
        ensure!(late(&daemon.snapshot()?)? == (true, false));
        std::fs::write(daemon.config(), &without)?;
        ensure!(sluice(&daemon, &["reload"])? == "port.late: removed\n");
    }
    daemon.stop()?;
    Ok(())
}

/// Errors, and settings that need a restart: nothing is applied, not even the valid settings, and
/// the error gives the reason.
#[test]
fn a_rejected_reload_changes_nothing_and_reports_why() -> Result<()> {
    let pair = Pair::new()?;
    let mut daemon = pair.bed.daemon(&pair.switch, &Pair::config())?;
    let good = std::fs::read_to_string(daemon.config())?;
    // A live change that every one of these files contains.
    let live = good.replace("static_cells = 4096", "static_cells = 100");
    let unchanged = |daemon: &Daemon| -> Result<()> {
        let now = daemon.snapshot()?;
        assert_eq!(port(&now, "sender")?.groups[3].threshold_cells, 4096);
        assert_eq!((now.ports.len(), port(&now, "receiver")?.speed_bps), (2, 100_000_000));
        Ok(())
    };
    for (from, to, words) in [
        (
            "speed = \"100M\"",
            "sped = \"100M\"",
            &["mistakes in the file", ".toml:", "port.receiver.sped", "did you mean \"speed\"?"][..],
        ),
        (
            "[port.receiver]",
            "[port.other]",
            &["port.other: the interface receiver still is port.receiver's; remove that port and reload"],
        ),
        (
            "[port.receiver]",
            "[port.other]\ninterface = \"nowhere\"\n[port.receiver]",
            &["interface nowhere: there is no such interface here; `ip link` lists those there are"],
        ),
        ("interface = \"receiver\"", "interface = \"lo\"", &["need a restart", "port.receiver: interface"]),
        ("[buffer]", "[buffer]\ncell_bytes = 208", &["need a restart", "buffer: cell_bytes 256 → 208"]),
        ("[buffer]", "[buffer]\ntotal_cells = 200000", &["need a restart", "buffer: memory for "]),
        ("under-test", "other", &["need a restart", "switch: name"]),
    ] {
        assert!(live.contains(from), "{from}");
        std::fs::write(daemon.config(), live.replace(from, to))?;
        let output = refused(&daemon, &["reload"]);
        for word in ["sluice: nothing was changed: "].iter().chain(words) {
            assert!(output.contains(word), "`{word}` is missing in:\n{output}");
        }
        unchanged(&daemon)?;
    }
    // A signal does the same, and the log reports it.
    daemon.process().signal(Signal::SIGHUP)?;
    daemon.process().wait_for("why not", |line| line.contains("reload: switch: name").then_some(()))?;
    unchanged(&daemon)?;
    std::fs::write(daemon.config(), &live)?;
    daemon.process().signal(Signal::SIGHUP)?;
    daemon.until("the file is applied", |now| {
        (port(now, "sender").ok()?.groups[3].threshold_cells == 100).then_some(())
    })?;
    daemon.stop()?;
    Ok(())
}

/// The receiver's port is held, so the sender is sent XOFF; with PFC off it is sent XON; with PFC
/// on again, XOFF again.
#[test]
fn pfc_is_turned_off_and_on_while_a_host_is_paused() -> Result<()> {
    let pair = Pair::new()?;
    let daemon = pair.bed.daemon(&pair.switch, &Pair::config())?;
    let xoff_frames = || -> Result<u64> {
        Ok(port(&daemon.snapshot()?, "sender")?.pfc_sent.as_ref().map_or(0, |sent| sent.xoff_frames[3]))
    };
    // Sent, and not only decided; a pause is refreshed while it lasts, so an earlier XOFF is sent
    // again.
    let paused = |what: &str, before: u64| {
        daemon.until(what, |now| {
            let sender = port(now, "sender").ok()?;
            let sent = sender.pfc_sent.clone()?;
            (sender.groups[3].xoff && sent.xoff_frames[3] > before).then(|| (sent, frames(sender.received)))
        })
    };
    let run = pair.run(&daemon, Duration::from_secs(8), || {
        sluice(&daemon, &["port", "hold", "receiver"])?;
        let (reported, received) = paused("the sender is paused", xoff_frames()?)?;

        assert_eq!(sluice(&daemon, &["pfc", "off"])?, "PFC is off on all ports.\n");
        daemon.until("XON, twice, and the sender goes on", |now| {
            let sender = port(now, "sender").ok()?;
            let xon = sender.pfc_sent.as_ref()?.xon_frames[3];
            (xon >= reported.xon_frames[3] + 2 && frames(sender.received) > received + 100).then_some(())
        })?;
        let off = daemon.snapshot()?;
        assert!(!off.pfc_enabled && !port(&off, "sender")?.groups[3].no_drop);
        assert!(sluice(&daemon, &["show", "pfc"])?.starts_with("PFC is off on all ports"));

        let reported = xoff_frames()?;
        assert_eq!(sluice(&daemon, &["pfc", "on"])?, "PFC is on, as the ports have it.\n");
        paused("the sender is paused again", reported)?;
        assert!(daemon.snapshot()?.pfc_enabled);
        sluice(&daemon, &["port", "release", "receiver"]).map(drop)
    })?;
    let sent = port(&run.snapshot, "sender")?.pfc_sent.clone().unwrap_or_default();
    let seen = pause(run.report("sender")?, 3);
    assert_eq!(
        (seen.xoff, seen.xon),
        (sent.xoff_frames[3], sent.xon_frames[3]),
        "the host received the PFC that was sent"
    );
    assert!(sent.xon_frames[3] >= 2, "{sent:?}");
    let total = run.total(3);
    assert_eq!(total.sent - total.received, total.dropped, "lost while PFC was off, if at all: {total:?}");
    daemon.stop()?;
    Ok(())
}

/// Returns the queue of priority 3 of the receiver's port, from `sluice show queues --json`.
fn queue(daemon: &Daemon) -> Result<Value> {
    let json: Value = serde_json::from_str(&sluice(daemon, &["show", "queues", "--json"])?)?;
    let queues = json["queues"].as_array().context("queues")?;
    queues
        .iter()
        .find(|queue| queue["port"] == "receiver" && queue["queue"] == 3)
        .cloned()
        .context("the queue of priority 3")
}

/// Returns the peaks of the first pool at ingress (read, clear, start), from `sluice show buffers
/// --json`.
fn peaks(daemon: &Daemon, more: &[&str]) -> Result<[u64; 3]> {
    let json = sluice(daemon, &[&["show", "buffers", "--json"], more].concat())?;
    let json: Value = serde_json::from_str(&json)?;
    let pools = json["pools"].as_array().context("pools")?;
    let pool = pools.iter().find(|pool| pool["name"] == "ingress_0").context("ingress_0")?;
    let of = |name: &str| pool["level"][name].as_u64().with_context(|| format!("no {name}"));
    Ok([of("peak_read_cells")?, of("peak_clear_cells")?, of("peak_cells")?])
}

#[test]
fn a_held_port_fills_its_buffer_and_watermarks_show_it() -> Result<()> {
    let pair = Pair::new()?;
    let daemon = pair.bed.daemon(&pair.switch, &Pair::config())?;
    let output = refused(&daemon, &["port", "hold", "nowhere"]);
    assert_eq!(output, "sluice: there is no port `nowhere`; the ports are sender, receiver\n");
    let run = pair.run(&daemon, Duration::from_secs(4), || {
        sluice(&daemon, &["port", "hold", "receiver"])?;
        daemon.until("XOFF", |now| port(now, "sender").ok()?.groups[3].xoff.then_some(()))?;
        let queue = queue(&daemon)?;
        assert!(queue["held"] == true && queue["level"]["cells"].as_u64() >= Some(4084), "{queue}");
        let table = sluice(&daemon, &["show", "queues"])?;
        assert!(table.contains("Port receiver is held"), "{table}");
        sluice(&daemon, &["port", "release", "receiver"]).map(drop)
    })?;
    let total = run.total(3);
    assert!(total.sent > 0);
    assert_eq!((total.received, total.dropped, total.reordered), (total.sent, 0, 0), "{total:?}");
    assert_eq!(queue(&daemon)?["held"], false);

    // The switch is empty now, so a watermark restarts at 0.
    let all = peaks(&daemon, &["--keep-watermarks"])?;
    assert!(all[0] >= 4084 && all == [all[0]; 3], "{all:?}");
    assert_eq!(peaks(&daemon, &[])?, all, "looking changed nothing, and the first read has it all");
    assert_eq!(peaks(&daemon, &[])?, [0, all[1], all[2]]);
    sluice(&daemon, &["clear", "watermarks"])?;
    assert_eq!(peaks(&daemon, &[])?, [0, 0, all[2]]);
    daemon.stop()?;
    Ok(())
}
