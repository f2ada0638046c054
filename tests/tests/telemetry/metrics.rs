//! Metrics of a running daemon: Prometheus's own parser accepts them, their numbers equal those of
//! `sluice show --json`, and every query of the dashboard returns data.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::{Daemon, Namespace, eventually};
use tests::{Incast, sluice};

const ADDRESS: &str = "127.0.0.1:9464";

/// Returns the response of the daemon in `namespace`.
fn get(namespace: &Namespace, accept: &str) -> Result<String> {
    let mut stream = namespace.enter(|| TcpStream::connect(ADDRESS))??;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a head and a body")?;
    ensure!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    Ok(body.to_owned())
}

/// Returns the value of a series.
fn value(metrics: &str, series: &str) -> Result<f64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no {series} in\n{metrics}"))?.parse()?)
}

fn promtool_accepts(metrics: &str) -> Result<()> {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("promtool (cargo xtask setup)")?;
    promtool.stdin.take().context("its input")?.write_all(metrics.as_bytes())?;
    let output = promtool.wait_with_output()?;
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && printed.is_empty(), "promtool: {printed}");
    Ok(())
}

#[test]
fn metrics_equal_show_and_prometheus_accepts_them() -> Result<()> {
    let incast = Incast::new()?;
    let (bed, switch) = (&incast.bed, &incast.switch);
    let more = "\n[metrics]\nenabled = true\n\
               [telemetry.sensor-group.events]\npaths = [\"sluice/events\"]\n\
               [telemetry.destination-group.nobody]\ncollectors = [\"127.0.0.1\"]\n\
               [telemetry.subscription.A]\nsensors = [{ group = \"events\" }]\ndestinations = [\"nobody\"]\n";
    let daemon = incast.daemon(more)?;
    let prometheus = Prometheus::start(switch, bed.dir())?;

    incast.run(&daemon, Duration::from_secs(2))?;

    // While idle, nothing changes between two reads, except what the reads themselves change.
    let metrics = get(switch, "*/*")?;
    promtool_accepts(&metrics)?;
    assert!(get(switch, "application/openmetrics-text")?.ends_with("# EOF\n"));
    numbers_are_those_of_show(&daemon, &metrics)?;
    prometheus.answers_every_query()?;
    daemon.stop()?;
    Ok(())
}

/// A list of `sluice show counters --json`, the labels of its rows, and the metrics with its
/// numbers: the metric, the path in the row, and the row's unit in units of the metric.
type Table = (&'static str, &'static [&'static str], &'static [(&'static str, &'static str, f64)]);

const TABLES: [Table; 4] = [
    (
        "ports",
        &["port"],
        &[
            ("sluice_port_received_frames_total", "/received/frames", 1.0),
            ("sluice_port_received_bytes_total", "/received/bytes", 1.0),
            ("sluice_port_transmitted_frames_total", "/transmitted/frames", 1.0),
            ("sluice_port_transmitted_bytes_total", "/transmitted/bytes", 1.0),
            ("sluice_port_pfc_sent_frames_total", "/pfc_sent/frames", 1.0),
            ("sluice_port_kernel_sendto_calls_total", "/kernel/tx_kicks", 1.0),
            ("sluice_port_bridge_entries", "/bridge_entries", 1.0),
            ("sluice_port_speed_bytes_per_second", "/speed_bps", 8.0),
        ],
    ),
    (
        "groups",
        &["port", "priority"],
        &[
            ("sluice_group_received_frames_total", "/received/frames", 1.0),
            ("sluice_group_received_bytes_total", "/received/bytes", 1.0),
            ("sluice_group_dropped_frames_total", "/dropped/frames", 1.0),
            ("sluice_group_xoff_episodes_total", "/xoff_episodes", 1.0),
            ("sluice_group_used_cells", "/total/cells", 1.0),
            ("sluice_group_headroom_size_cells", "/headroom_size_cells", 1.0),
            ("sluice_group_xoff_threshold_cells", "/threshold_cells", 1.0),
        ],
    ),
    (
        "queues",
        &["port", "queue"],
        &[
            ("sluice_queue_transmitted_frames_total", "/transmitted/frames", 1.0),
            ("sluice_queue_transmitted_bytes_total", "/transmitted/bytes", 1.0),
            ("sluice_queue_dropped_frames_total", "/dropped/frames", 1.0),
            ("sluice_queue_dropped_bytes_total", "/dropped/bytes", 1.0),
            ("sluice_queue_ecn_marked_frames_total", "/marked/frames", 1.0),
            ("sluice_queue_cells", "/level/cells", 1.0),
        ],
    ),
    (
        "priorities",
        &["port", "priority"],
        &[
            ("sluice_priority_pauses_total", "/pauses", 1.0),
            ("sluice_priority_paused_seconds_total", "/paused_ns", 1e9),
            ("sluice_priority_storms_total", "/storms", 1.0),
        ],
    ),
];

/// Checks every existing row. A priority or queue without counts has no metrics.
fn numbers_are_those_of_show(daemon: &Daemon, metrics: &str) -> Result<()> {
    let shown: Value = serde_json::from_str(&sluice(daemon, &["show", "counters", "--json"])?)?;
    let mut compared = 0;
    let mut same = |series: &str, shown: &Value, unit: f64| -> Result<()> {
        let shown = shown.as_f64().with_context(|| format!("{series}: no number is shown"))? / unit;
        let Ok(reported) = value(metrics, series) else {
            ensure!(
                shown == 0.0 || series.contains("size") || series.contains("threshold"),
                "no {series}: {shown}"
            );
            return Ok(());
        };
        ensure!((reported - shown).abs() <= 1e-9 * shown.abs(), "{series} is {reported}, and shown {shown}");
        compared += 1;
        Ok(())
    };
    for (list, labels, numbers) in TABLES {
        for row in shown[list].as_array().with_context(|| format!("no {list}"))? {
            let label = |name: &&str| {
                let value = if list == "ports" { &row["name"] } else { &row[*name] };
                format!("{name}=\"{}\"", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            };
            let labels = labels.iter().map(label).collect::<Vec<_>>().join(",");
            for (metric, pointer, unit) in numbers {
                let number = row.pointer(pointer).with_context(|| format!("no {pointer} in {list}"))?;
                same(&format!("{metric}{{{labels}}}"), number, *unit)?;
            }
            for (reason, count) in row["drops"].as_object().into_iter().flatten() {
                let series = format!("sluice_port_dropped_frames_total{{{labels},reason=\"{reason}\"}}");
                same(&series, &count["frames"], 1.0)?;
            }
            for (kind, field) in [("xoff", "xoff_frames"), ("xon", "xon_frames")] {
                for (priority, frames) in row["pfc_sent"][field].as_array().into_iter().flatten().enumerate()
                {
                    let labels = format!("{{{labels},priority=\"{priority}\",kind=\"{kind}\"}}");
                    same(&format!("sluice_priority_pfc_sent_frames_total{labels}"), frames, 1.0)?;
                }
            }
        }
    }
    same("sluice_memory_frames", &shown["memory_frames"], 1.0)?;
    same("sluice_bridge_entries", &shown["bridge_entries"], 1.0)?;
    println!("{compared} numbers are those of `sluice show counters --json`");
    ensure!(compared > 100);
    let lost = value(metrics, "sluice_queue_dropped_frames_total{port=\"c\",queue=\"2\"}")?;
    let peak = value(metrics, "sluice_queue_peak_cells{port=\"c\",queue=\"3\",since=\"read\"}")?;
    let turns = value(metrics, "sluice_loop_turn_seconds_count")?;
    ensure!(lost > 0.0 && peak > 0.0 && turns > 1000.0, "{lost} {peak} {turns}");
    Ok(())
}

/// Prometheus, scraping the daemon beside it; killed on drop.
struct Prometheus {
    child: Child,
    namespace: Namespace,
}

impl Prometheus {
    const ADDRESS: &str = "127.0.0.1:9490";

    fn start(namespace: &Namespace, dir: &Path) -> Result<Self> {
        let config = dir.join("prometheus.yml");
        std::fs::write(
            &config,
            format!(
                "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms }}\n\
                 scrape_configs: [{{ job_name: sluice, static_configs: [{{ targets: [\"{ADDRESS}\"] }}] }}]\n"
            ),
        )?;
        let mut command: Command = namespace.command("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()));
        command.arg(format!("--web.listen-address={}", Self::ADDRESS));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self { child: child.context("prometheus (cargo xtask setup)")?, namespace: namespace.clone() })
    }

    /// Returns the results of a query, one line per series.
    fn query(&self, query: &str) -> Result<String> {
        let mut promtool = self.namespace.command("promtool");
        promtool.args(["query", "instant"]).arg(format!("http://{}", Self::ADDRESS)).arg(query);
        let output = promtool.output()?;
        ensure!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Checks that each query of the dashboard returns data, with all switches and ports selected.
    fn answers_every_query(&self) -> Result<()> {
        eventually("the metrics have been read a few times", || {
            let count = self.query("count_over_time(sluice_pfc_enabled[20s]) > 3").unwrap_or_default();
            Ok((!count.is_empty()).then_some(()))
        })?;
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/grafana/sluice.json");
        let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
        let panels = dashboard["panels"].as_array().context("panels")?;
        let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
        let mut queries = 0;
        for target in targets {
            let query = target["expr"].as_str().context("a query")?;
            let query =
                query.replace("$__rate_interval", "20s").replace("$instance", ".*").replace("$port", ".*");
            // On a busy machine a scrape may be late, and then there is no data until the next.
            eventually(&query, || Ok((!self.query(&query)?.trim().is_empty()).then_some(())))?;
            queries += 1;
        }
        println!("{queries} queries of the dashboard find something");
        ensure!(queries > 20);
        Ok(())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
