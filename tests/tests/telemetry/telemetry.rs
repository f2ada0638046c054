//! Telemetry of a running daemon: reference collectors, one beside the daemon and one in another
//! network namespace, receive every path, and the numbers equal the switch's counters.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use config::SensorPath;
use serde_json::Value;
use testbed::{Daemon, Namespace, Testbed, binary, eventually, port};
use tests::{AMPLE_HEADROOM_CELLS, flow, frames, group_config, port_config, run, sluice, switch_config};

/// `sluice collector`, writing to a file; killed on drop.
struct Collector {
    child: Child,
    file: PathBuf,
}

impl Collector {
    fn start(namespace: &Namespace, file: &Path) -> Result<Self> {
        let mut command: Command = namespace.command(binary("sluice")?);
        command.args(["collector", "--listen", "127.0.0.1:50050", "--format", "none", "--output"]).arg(file);
        let child = command.stdin(Stdio::null()).spawn().context("sluice collector")?;
        Ok(Self { child, file: file.to_path_buf() })
    }

    /// Returns what it has received; the last line may be incomplete.
    fn received(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the last message of a path: the content of the notification.
fn last(received: &[Value], path: &str) -> Option<Value> {
    let message = received.iter().rev().find(|message| message["path"] == path)?;
    Some(message["data"]["Notification"].clone())
}

/// Returns the events of `sluice/events`, as numbers and kinds.
fn events(received: &[Value]) -> Vec<(u64, String)> {
    let of = |message: &Value| {
        let event = &message["data"]["Notification"]["Sluice"]["Events"]["Event"][0];
        Some((event["Number"].as_u64()?, event["Kind"].as_str()?.to_owned()))
    };
    received.iter().filter(|message| message["path"] == "sluice/events").filter_map(of).collect()
}

/// Returns the number of a priority or queue in a row's value, which is a string that holds a list.
fn eighth(value: &Value, index: usize) -> Option<u64> {
    serde_json::from_str::<Vec<u64>>(value.as_str()?).ok()?.get(index).copied()
}

fn telemetry_config(elsewhere: &str) -> String {
    let periodic = SensorPath::ALL.into_iter().filter(|path| !path.is_event());
    let paths: Vec<String> = periodic.map(|path| format!("{:?}", path.name())).collect();
    format!(
        "\n[telemetry.sensor-group.numbers]\npaths = [{}]\n\
         [telemetry.sensor-group.events]\npaths = [\"sluice/events\"]\n\
         [telemetry.destination-group.here]\ncollectors = [\"127.0.0.1\"]\n\
         [telemetry.destination-group.elsewhere]\ncollectors = [\"127.0.0.1:50050\"]\nvpn_instance = \"{elsewhere}\"\n\
         [telemetry.subscription.all]\n\
         sensors = [{{ group = \"numbers\", interval_ms = 200 }}, {{ group = \"events\" }}]\n\
         destinations = [\"here\", \"elsewhere\"]\n",
        paths.join(", ")
    )
}

#[test]
fn collectors_receive_what_the_switch_counts() -> Result<()> {
    let bed = Testbed::new()?;
    let (switch, elsewhere) = (bed.switch("switch")?, bed.switch("collector")?);
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let here = Collector::start(&switch, &bed.dir().join("here.json"))?;
    let there = Collector::start(&elsewhere, &bed.dir().join("there.json"))?;
    let config = switch_config("on")
        + &port_config("a", "1G")
        + &group_config("a", AMPLE_HEADROOM_CELLS)
        + &port_config("b", "100M")
        + &telemetry_config(elsewhere.name());
    let daemon = bed.daemon(&switch, &config)?;
    let receiver = bed.host(&b, &[], &["--speed", "100M", "--no-drop", "3"])?;
    let flows = [flow(&b.mac(), 3, "200M")];
    let sender = bed.host(&a, &flows, &["--speed", "1G", "--no-drop", "3", "--duration", "2s"])?;
    let run = run(&[&daemon], vec![sender], vec![receiver], Duration::from_secs(2))?;
    let (at_a, at_b) = (port(&run.snapshot, "a")?, port(&run.snapshot, "b")?);
    let sent = at_a.pfc_sent.clone().unwrap_or_default();
    let pfc = sent.xoff_frames[3] + sent.xon_frames[3];
    let forwarded = frames(at_b.queues[3].transmitted);
    let peak = at_b.queues[3].level.unwrap_or_default().peak_clear_cells;
    assert!(pfc > 0 && forwarded > 0 && peak > 0);

    for collector in [&here, &there] {
        eventually("each path has come, and the numbers are the switch's", || {
            let received = collector.received();
            let periodic = SensorPath::ALL.into_iter().filter(|path| !path.is_event());
            if periodic.into_iter().any(|path| last(&received, path.name()).is_none()) {
                return Ok(None);
            }
            let row = |path: &str, container: &str, row: &str, index: usize| {
                let last = last(&received, path).unwrap_or_default();
                last["BufferMonitor"][container][row][index].clone()
            };
            let statistic = row("buffermonitor/pfcstatistics", "PFCStatistics", "PFCStatistic", 0);
            let usage = row("buffermonitor/bufferusages", "BufferUsages", "BufferUsage", 1);
            let queues = last(&received, "qstat/queuestat").unwrap_or_default();
            let queue = &queues["QSTAT"]["QueueStat"]["Statistics"][8 + 3];
            let agrees = eighth(&statistic["PfcSend"], 3) == Some(pfc)
                && eighth(&usage["UnicastPeak"], 3) == Some(peak.into())
                && queue["PassPkts"] == forwarded
                && (&statistic["IfName"], &queue["IfName"], &queue["QueIndex"])
                    == (&"a".into(), &"b".into(), &3.into());
            Ok(agrees.then_some(()))
        })?;
    }
    survives_a_collector_that_is_killed(&daemon, &switch, here)?;

    let shown: Value = serde_json::from_str(&sluice(&daemon, &["show", "telemetry", "--json"])?)?;
    for to in shown["destinations"].as_array().context("a list")? {
        ensure!(to["dropped"] == 0 && to["sent"].as_u64() > Some(20), "{shown:#}");
    }
    println!("{}", sluice(&daemon, &["show", "telemetry"])?);
    daemon.stop()?;
    Ok(())
}

/// Events during the absence of a collector reach the next one, in order.
fn survives_a_collector_that_is_killed(
    daemon: &Daemon,
    switch: &Namespace,
    collector: Collector,
) -> Result<()> {
    let file = collector.file.with_extension("again");
    drop(collector);
    for _ in 0..5 {
        sluice(daemon, &["port", "hold", "a"])?;
        sluice(daemon, &["port", "release", "a"])?;
    }
    let collector = Collector::start(switch, &file)?;
    let reported = eventually("the events have come", || {
        let events = events(&collector.received());
        // What became of the collector is an event, too.
        let kinds = events.iter().map(|(_, kind)| kind.as_str());
        let kinds: Vec<&str> = kinds.filter(|kind| kind.starts_with("port_")).collect();
        let all = kinds.ends_with(&["port_held", "port_released"].repeat(5));
        Ok(all.then_some(events))
    })?;
    assert!(reported.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1), "{reported:?}");
    for message in collector.received().iter().filter(|message| message["path"] == "sluice/events").take(2) {
        println!("{message}");
    }
    // Prints how long an event takes to a connected collector; nothing depends on it here.
    sluice(daemon, &["port", "hold", "a"])?;
    sluice(daemon, &["port", "release", "a"])?;
    let received = eventually("two more events have come", || {
        let received = collector.received();
        Ok((events(&received).len() == reported.len() + 2).then_some(received))
    })?;
    for message in received.iter().filter(|message| message["path"] == "sluice/events").rev().take(2) {
        let at: i64 = message["data"]["Notification"]["Timestamp"].as_str().unwrap_or_default().parse()?;
        println!("an event took {} ms", message["received_unix_ms"].as_i64().unwrap_or_default() - at);
    }
    Ok(())
}

/// Under load, and while ports are held and released, the collector is killed repeatedly: each
/// event arrives, in order.
#[test]
fn a_collector_that_is_killed_under_load_misses_no_event() -> Result<()> {
    const ROUNDS: usize = 3;
    const EACH: usize = 10;
    let bed = Testbed::new()?;
    let (switch, elsewhere) = (bed.switch("switch")?, bed.switch("collector")?);
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    bed.sluice_host(&switch, "idle")?;
    let config = switch_config("on")
        + &port_config("a", "1G")
        + &group_config("a", AMPLE_HEADROOM_CELLS)
        + &port_config("b", "100M")
        + &port_config("idle", "1G")
        + &telemetry_config(elsewhere.name());
    let daemon = bed.daemon(&switch, &config)?;
    let receiver = bed.host(&b, &[], &["--speed", "100M", "--no-drop", "3"])?;
    let flows = [flow(&b.mac(), 3, "200M")];
    let mut sender = bed.host(&a, &flows, &["--speed", "1G", "--no-drop", "3", "--duration", "60s"])?;
    sender.start_sending()?;

    let happen = || -> Result<()> {
        for _ in 0..EACH {
            sluice(&daemon, &["port", "hold", "idle"])?;
            sluice(&daemon, &["port", "release", "idle"])?;
        }
        Ok(())
    };
    let mut reported = Vec::new();
    for round in 0..=ROUNDS {
        let collector = Collector::start(&switch, &bed.dir().join(format!("{round}.json")))?;
        happen()?;
        eventually("something comes", || Ok((!events(&collector.received()).is_empty()).then_some(())))?;
        if round == ROUNDS {
            let last: Value = serde_json::from_str(
                sluice(&daemon, &["events", "--json"])?.lines().last().context("an event")?,
            )?;
            let last = last["number"].as_u64().context("its number")?;
            eventually("the last event comes", || {
                Ok(events(&collector.received()).iter().any(|(number, _)| *number == last).then_some(()))
            })?;
        }
        let received = collector.received();
        drop(collector); // killed
        let events = events(&received);
        assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order: {events:?}");
        reported.extend(events);
        if round < ROUNDS {
            happen()?;
        }
    }
    let is_sending = !sender.has_sent_all()?;
    testbed::Host::stop_all(vec![sender, receiver])?;
    assert!(is_sending, "all of it was under load");
    reported.sort();
    reported.dedup();
    let numbers: Vec<u64> = reported.iter().map(|(number, _)| *number).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "none is missing: {numbers:?}");
    let held = reported.iter().filter(|(_, kind)| kind == "port_held").count();
    assert_eq!(held, (2 * ROUNDS + 1) * EACH);
    let shown: Value = serde_json::from_str(&sluice(&daemon, &["show", "telemetry", "--json"])?)?;
    ensure!(shown["destinations"][0]["dropped"] == 0, "{shown:#}");
    daemon.stop()?;
    Ok(())
}

/// Of three interfaces one is missing, one collector's namespace and the address of the metrics are
/// not there. The daemon starts, carries frames between the other two, and uses each as it comes.
#[test]
fn a_daemon_starts_with_what_is_there_and_takes_up_the_rest() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let hosts = [bed.linux_host(&switch, "a")?, bed.linux_host(&switch, "b")?, bed.linux_host(&switch, "c")?];
    let [a, b, c] = &hosts;
    switch.ip("link del dev c")?;
    let namespace = format!("{}-later", switch.name());
    let ports: String = ["a", "b", "c"].map(|name| port_config(name, "1G")).concat();
    let metrics = "[metrics]\nenabled = true\nlisten = \"192.0.2.77:9464\"\n";
    let daemon =
        bed.daemon(&switch, &(switch_config("off") + &ports + &telemetry_config(&namespace) + metrics))?;
    let kinds = |kind: &str| -> Result<usize> {
        let events = control::BlockingClient::connect(daemon.socket())?.events(0)?;
        Ok(events.iter().filter(|event| event.kind == kind).count())
    };
    let until = |kind: &'static str, count| eventually(kind, || Ok((kinds(kind)? >= count).then_some(())));
    a.namespace.run(&format!("ping -c 3 -i 0.2 -W 5 {}", b.ipv4()))?;
    daemon.until("the port of C is down", |now| port(now, "c").is_ok_and(|c| !c.up).then_some(()))?;
    until("collector_unreachable", 2)?;
    until("metrics_unavailable", 1)?;
    let shown = sluice(&daemon, &["show", "telemetry"])?;
    for words in ["there is no network namespace", "cannot listen on 192.0.2.77:9464", "it is tried again"] {
        ensure!(shown.contains(words), "{words}: {shown}");
    }

    bed.reconnect(c, &switch)?;
    eventually("A reaches C", || Ok(a.namespace.run(&format!("ping -c 1 -W 1 {}", c.ipv4())).ok()))?;
    let here = Collector::start(&switch, &bed.dir().join("here.json"))?;
    eventually("the collector has messages", || Ok((!here.received().is_empty()).then_some(())))?;
    until("collector_reached", 1)?;
    switch.ip("link set dev lo up")?;
    switch.ip("addr add 192.0.2.77/32 dev lo")?;
    until("metrics_available", 1)?;
    ensure!(sluice(&daemon, &["show", "telemetry"])?.contains("Metrics are served at 192.0.2.77:9464."));
    assert_eq!(sluice(&daemon, &["show", "ports"])?.matches(" up").count(), 3);
    daemon.stop()?;
    Ok(())
}

/// Telemetry, metrics and the recorder begin and end with a reload, while frames are forwarded. A
/// daemon that starts without a `vpn_instance` gives up what one takes, so this one has it.
#[test]
fn reports_and_the_recorder_follow_a_reload() -> Result<()> {
    let bed = Testbed::new()?;
    let (switch, elsewhere) = (bed.switch("switch")?, bed.switch("collector")?);
    let (a, b) = (bed.linux_host(&switch, "a")?, bed.linux_host(&switch, "b")?);
    switch.ip("link set dev lo up")?;
    let config = switch_config("off") + &port_config("a", "1G") + &port_config("b", "1G");
    let destination = format!(
        "\n[telemetry.destination-group.elsewhere]\ncollectors = [\"127.0.0.1:50050\"]\nvpn_instance = \"{}\"\n",
        elsewhere.name()
    );
    let daemon = bed.daemon(&switch, &(config + &destination))?;
    let without = std::fs::read_to_string(daemon.config())?.replace(&destination, "");
    let ping = || a.namespace.run(&format!("ping -c 3 -i 0.2 -W 5 {}", b.ipv4()));
    let reload = |config: &str| {
        std::fs::write(daemon.config(), config)?;
        sluice(&daemon, &["reload"])
    };
    let served = || switch.enter(|| TcpStream::connect("127.0.0.1:9464").is_ok());
    let recorded = || -> Result<bool> {
        let last = bed.dir().join("last.sluicerec");
        Ok(sluice(&daemon, &["record", "--last", &last.display().to_string()]).is_ok())
    };
    ping()?;
    ensure!(!served()? && !recorded()?, "nothing is reported yet");

    let here = Collector::start(&switch, &bed.dir().join("here.json"))?;
    let more = "\n[metrics]\nenabled = true\n[recorder]\nalways = true\nmemory_mib = 128\n";
    reload(&(without.clone() + &telemetry_config(elsewhere.name()) + more))?;
    eventually("the collector has each path", || {
        let received = here.received();
        let mut periodic = SensorPath::ALL.into_iter().filter(|path| !path.is_event());
        Ok(periodic.all(|path| last(&received, path.name()).is_some()).then_some(()))
    })?;
    eventually("metrics are served", || Ok(served()?.then_some(())))?;
    ping()?;
    eventually("the recorder has a part", || Ok(recorded()?.then_some(())))?;

    reload(&without)?;
    eventually("metrics are served no more", || Ok((!served()?).then_some(())))?;
    let shown: Value = serde_json::from_str(&sluice(&daemon, &["show", "telemetry", "--json"])?)?;
    ensure!(shown["destinations"].as_array().is_none_or(Vec::is_empty), "{shown:#}");
    ensure!(!recorded()?, "nothing is recorded any more");
    ping()?;
    daemon.stop()?;
    Ok(())
}
