//! Independent collectors, in C++ as the H3C reference describes and in Python, receive every path
//! from a running daemon under incast; what they receive from an idle switch equals `sluice show
//! --json`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use config::SensorPath;
use serde_json::Value;
use testbed::{Daemon, Namespace, Process, eventually};
use tests::{Incast, sluice};

/// Files that the Debian packages of the two languages install.
const NEEDED: [&str; 4] = [
    "/usr/bin/protoc",
    "/usr/bin/grpc_cpp_plugin",
    "/usr/bin/grpc_python_plugin",
    "/usr/include/grpcpp/grpcpp.h",
];
const PYTHON: &str = "/usr/bin/python3";

/// Runs a program to its end.
fn make(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Returns what is missing to build both collectors, if anything.
fn missing() -> Option<String> {
    if let Some(file) = NEEDED.into_iter().find(|file| !Path::new(file).exists()) {
        return Some(file.to_owned());
    }
    let grpc = Command::new(PYTHON).args(["-c", "import grpc, google.protobuf"]).output();
    let found = grpc.is_ok_and(|output| output.status.success());
    (!found).then(|| "grpc of Python".to_owned())
}

/// Builds the sources of the proto file, and the collector in C++, as the H3C reference does.
fn build(folder: &Path) -> Result<()> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let protoc = |plugin: &str, outs: [&str; 2]| {
        let mut protoc = Command::new("/usr/bin/protoc");
        protoc.arg(format!("--plugin=protoc-gen-grpc=/usr/bin/{plugin}")).arg("-I").arg(top.join("../proto"));
        protoc.args(outs.map(|out| format!("--{out}={}", folder.display()))).arg("grpc_dialout.proto");
        make(&mut protoc)
    };
    protoc("grpc_cpp_plugin", ["cpp_out", "grpc_out"])?;
    protoc("grpc_python_plugin", ["python_out", "grpc_out"])?;
    let flags = Command::new("pkg-config").args(["--cflags", "--libs", "grpc++", "protobuf"]).output()?;
    ensure!(flags.status.success(), "pkg-config: {}", String::from_utf8_lossy(&flags.stderr));
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O0", "-I"]).arg(folder).arg(top.join("collectors/main.cc"));
    compiler.args(["grpc_dialout.grpc.pb.cc", "grpc_dialout.pb.cc"].map(|source| folder.join(source)));
    compiler.args(String::from_utf8(flags.stdout)?.split_whitespace());
    make(compiler.arg("-o").arg(folder.join("collector")))
}

/// Output of a collector.
struct Collected(Vec<(String, Value)>);

impl Collected {
    fn of(collector: &Process) -> Self {
        let mut messages = Vec::new();
        let mut path = String::new();
        for line in collector.stdout() {
            if let Some(found) = line.strip_prefix("Sensor-Path: ") {
                path = found.to_owned();
            } else if let Some(json) = line.strip_prefix("Json-Data: ")
                && let Ok(json) = serde_json::from_str::<Value>(json)
            {
                messages.push((path.clone(), json["Notification"].clone()));
            }
        }
        Self(messages)
    }

    fn last(&self, path: SensorPath) -> Option<&Value> {
        self.0.iter().rev().find(|(found, _)| found == path.name()).map(|(_, notification)| notification)
    }

    /// Returns the rows of the last message of a path below `BufferMonitor`.
    fn rows(&self, path: SensorPath, container: &str, row: &str) -> Vec<Value> {
        let rows = self.last(path).map(|last| last["BufferMonitor"][container][row].clone());
        rows.and_then(|rows| rows.as_array().cloned()).unwrap_or_default()
    }
}

fn telemetry_config() -> String {
    let (events, periodic): (Vec<SensorPath>, Vec<SensorPath>) =
        SensorPath::ALL.into_iter().partition(|path| path.is_event());
    let [events, periodic] =
        [events, periodic].map(|paths| paths.iter().map(|path| path.name()).collect::<Vec<_>>());
    format!(
        "\n[alarm]\nusage_percent = 1\ningress = {{ enabled = true, percent = 1 }}\negress = {{ enabled = true, percent = 1 }}\n\
         drop = {{ enabled = true }}\n\
         [telemetry.sensor-group.numbers]\npaths = {periodic:?}\n[telemetry.sensor-group.events]\npaths = {events:?}\n\
         [telemetry.destination-group.cpp]\ncollectors = [\"127.0.0.1\"]\n\
         [telemetry.destination-group.python]\ncollectors = [\"127.0.0.1:50051\"]\n\
         [telemetry.subscription.all]\n\
         sensors = [{{ group = \"numbers\", interval_ms = 200 }}, {{ group = \"events\" }}]\n\
         destinations = [\"cpp\", \"python\"]\n"
    )
}

fn start(namespace: &Namespace, folder: &Path) -> Result<[Process; 2]> {
    let mut cpp = Process::start("collector in C++", &mut namespace.command(folder.join("collector")))?;
    let mut command = namespace.command(PYTHON);
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("collectors/collector.py"))
        .arg(folder)
        .arg("50051");
    let mut python = Process::start("collector in Python", &mut command)?;
    for collector in [&mut cpp, &mut python] {
        collector.wait_for("it listens", |line| line.starts_with("running on").then_some(()))?;
    }
    Ok([cpp, python])
}

#[test]
fn collectors_in_other_languages_receive_every_path() -> Result<()> {
    if let Some(missing) = missing() {
        if std::env::var_os("CI").is_some() {
            bail!("{missing} is not there: `cargo xtask setup` installs what brings it");
        }
        eprintln!("SKIPPED: {missing} is not there: `cargo xtask setup` installs what brings it");
        return Ok(());
    }
    let incast = Incast::new()?;
    let folder = incast.bed.dir();
    build(folder)?;
    let collectors = start(&incast.switch, folder)?;
    let daemon = incast.daemon(&telemetry_config())?;
    incast.run(&daemon, Duration::from_secs(2))?;

    for collector in &collectors {
        eventually("every path has come, with the numbers of the switch", || {
            let collected = Collected::of(collector);
            if SensorPath::ALL.into_iter().any(|path| collected.last(path).is_none()) {
                return Ok(None);
            }
            numbers_agree(&daemon, &collected)
        })
        .with_context(|| {
            let collected = Collected::of(collector);
            let missing = SensorPath::ALL.into_iter().filter(|path| collected.last(*path).is_none());
            format!("missing: {:?}", missing.map(SensorPath::name).collect::<Vec<_>>())
        })?;
        events_have_their_fields(&Collected::of(collector))?;
    }
    println!("{}", sluice(&daemon, &["show", "telemetry"])?);
    daemon.stop()?;
    Ok(())
}

/// Returns the list in a row's string.
fn eight(row: &Value, key: &str) -> Vec<u64> {
    row[key].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Checks that the last collected numbers equal those shown now, in every row.
fn numbers_agree(daemon: &Daemon, collected: &Collected) -> Result<Option<()>> {
    let shown: Value = serde_json::from_str(&sluice(daemon, &["show", "counters", "--json"])?)?;
    let of = |list: &str, port: &Value, pointer: &str| -> Vec<u64> {
        let rows = shown[list].as_array().into_iter().flatten().filter(|row| row["port"] == *port);
        rows.filter_map(|row| row.pointer(pointer)?.as_u64()).collect()
    };
    let mut compared = 0;
    for (path, container, name, key, list, pointer) in [
        (
            SensorPath::BufferUsages,
            "BufferUsages",
            "BufferUsage",
            "IngressPeak",
            "groups",
            "/total/peak_clear_cells",
        ),
        (
            SensorPath::BufferUsages,
            "BufferUsages",
            "BufferUsage",
            "UnicastPeak",
            "queues",
            "/level/peak_clear_cells",
        ),
        (SensorPath::BufferUsages, "BufferUsages", "BufferUsage", "IngressUsed", "groups", "/total/cells"),
        (
            SensorPath::HeadroomUsages,
            "HeadroomUsages",
            "HeadroomUsage",
            "HeadroomTotal",
            "groups",
            "/headroom_size_cells",
        ),
        (
            SensorPath::IngressDrops,
            "IngressDrops",
            "IngressDrop",
            "NoBufferPkts",
            "groups",
            "/dropped/frames",
        ),
        (
            SensorPath::OverLimitCounters,
            "OverLimitCounters",
            "OverLimitCounter",
            "IngressOverLimit",
            "groups",
            "/violations",
        ),
        (
            SensorPath::EcnAndWredStatistics,
            "EcnAndWredStatistics",
            "EcnAndWredStatistic",
            "EcnMarked",
            "queues",
            "/marked/frames",
        ),
    ] {
        for row in collected.rows(path, container, name) {
            if eight(&row, key) != of(list, &row["IfName"], pointer) {
                return Ok(None);
            }
            compared += 1;
        }
    }
    for row in collected.rows(SensorPath::PfcStatistics, "PFCStatistics", "PFCStatistic") {
        let ports = shown["ports"].as_array().into_iter().flatten();
        let port = ports.clone().find(|port| port["name"] == row["IfName"]).context("its port")?;
        let sent = |kind: &str, index: usize| port["pfc_sent"][kind][index].as_u64().unwrap_or(0);
        let both: Vec<u64> =
            (0..8).map(|index| sent("xoff_frames", index) + sent("xon_frames", index)).collect();
        if eight(&row, "PfcSend") != both {
            return Ok(None);
        }
        compared += 1;
    }
    let queues = collected.last(SensorPath::QueueStat).context("queues")?;
    let queues = queues["QSTAT"]["QueueStat"]["Statistics"].as_array().context("rows")?;
    for (row, shown) in queues.iter().zip(shown["queues"].as_array().context("queues")?) {
        if (&row["PassPkts"], &row["PassBytes"])
            != (&shown["transmitted"]["frames"], &shown["transmitted"]["bytes"])
        {
            return Ok(None);
        }
        compared += 1;
    }
    ensure!(compared == 7 * 3 + 3 + 24, "{compared} rows");
    Ok(Some(()))
}

/// Checks the fields that the vendor specifications name, in an alarm of drops and in one of use.
fn events_have_their_fields(collected: &Collected) -> Result<()> {
    let drops = collected.rows(SensorPath::PortQueDropEvent, "PortQueDropEvent", "PortQueDrop");
    let overruns = collected.rows(SensorPath::PortQueOverrunEvent, "PortQueOverrunEvent", "PortQueOverrun");
    let ([drop, ..], [overrun, ..]) = (&drops[..], &overruns[..]) else { bail!("no events") };
    for key in ["IfIndex", "IfName", "QueIndex", "AlarmType", "DropCounters", "DropBytes"] {
        ensure!(!drop[key].is_null(), "no {key} in {drop}");
    }
    ensure!(
        (&drop["IfName"], &drop["QueIndex"], &drop["AlarmType"]) == (&"c".into(), &2.into(), &2.into()),
        "{drop}"
    );
    ensure!(drop["DropCounters"].as_u64() > Some(0), "{drop}");
    for key in [
        "IfIndex",
        "IfName",
        "QueIndex",
        "AlarmType",
        "CurrentValue",
        "CurrentRatio",
        "Threshold",
        "OverrunCounters",
    ] {
        ensure!(!overrun[key].is_null(), "no {key} in {overrun}");
    }
    println!("{drop}\n{overrun}");
    Ok(())
}
