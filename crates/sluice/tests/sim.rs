//! `sluice sim` as a process: exit code, standard output, standard error, files.

use std::fs;
use std::path::Path;
use std::process::Command;

use fixture::parquet_lines;
use tempfile::TempDir;

#[path = "fixtures/parquet_lines.rs"]
mod fixture;

const SWITCH: &str = "
[port-defaults]
speed = \"10G\"
[port-defaults.pfc]
mode = \"on\"
no_drop = [3]
[port-defaults.pfc.priority.3]
xoff = { static_cells = 64 }
[port.p1]
interface = \"i1\"
[port.p2]
interface = \"i2\"
[port.p3]
interface = \"i3\"
";
/// Two hosts send 20G to one that receives 10G.
const INCAST: &str = "
title = \"Incast\"
duration = \"1ms\"
[switch.s]
config = \"configs/switch.toml\"
[host.\"h[1-3]\"]
[[link]]
ends = [\"h[1-3]\", \"s.p[1-3]\"]
[[traffic]]
name = \"rdma\"
from = \"h[2-3]\"
to = \"h1\"
priority = 3
frame_bytes = 1024
pattern = \"poisson\"
rate = \"10G\"
bytes = 4096
[[expect]]
lost = 0
";

/// A folder with scenarios: one whose expectations hold, one whose do not, an invalid one, and one
/// whose configuration is missing.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("configs")).unwrap();
    write("configs/switch.toml", SWITCH);
    write("incast.toml", INCAST);
    write("missed.toml", &format!("{INCAST}[[expect]]\npriority = 3\npauses = 0\n"));
    write("wrong.toml", &INCAST.replace("to = \"h1\"", "to = \"h4\""));
    write("no-config.toml", &INCAST.replace("configs/switch", "configs/none"));
    folder
}

fn sim(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    // The format of mistakes depends on the environment.
    command.arg("sim").args(arguments).current_dir(folder);
    command.env_clear().env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8").env("TERM", "dumb");
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A large network, in an address space of less than 1 GB.
#[test]
fn a_thousand_hosts_fit_a_gigabyte() {
    let scenario =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/scenarios/large/permutation-1024.toml");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v 950000 && exec \"$0\" sim --quiet --json \"$1\""]);
    let output = shell.arg(env!("CARGO_BIN_EXE_sluice")).arg(scenario).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["hosts"].as_array().map(Vec::len), Some(1024));
    assert!(results["frame_hops"].as_u64() > Some(1_000_000), "{}", results["frame_hops"]);
}

#[test]
fn exit_codes() {
    let folder = folder();
    for (arguments, expected) in [
        (&["incast.toml"][..], 0),
        (&["--json", "--seed", "7", "--duration", "500us", "incast.toml"], 0),
        (&["missed.toml"], 1),
        (&["missed.toml", "--json"], 1),
        (&["wrong.toml"], 2),
        (&["no-config.toml"], 2),
        (&["none.toml"], 2),
        (&["incast.toml", "--duration", "2ms"], 2),
        (&["incast.toml", "--duration", "2"], 2),
        (&["incast.toml", "--pcap", "h9=h9.pcapng"], 2),
        (&["incast.toml", "--pcap", "h1"], 2),
        (&["incast.toml", "--pcap", "h1=none/h1.pcapng"], 2),
        (&["incast.toml", "--plots", "incast.toml/plots"], 2),
        (&[], 2),
    ] {
        let (code, out, err) = sim(folder.path(), arguments);
        assert_eq!(code, expected, "{arguments:?}\n{out}{err}");
        assert!(!err.contains("panicked"), "{arguments:?}\n{err}");
        assert_eq!(code == 2, !err.is_empty(), "{arguments:?}: {err}");
    }
}

#[test]
fn mistakes_are_drawn_with_the_lines_of_the_file() {
    let folder = folder();
    let (_, _, wrong) = sim(folder.path(), &["wrong.toml"]);
    let (_, _, no_config) = sim(folder.path(), &["no-config.toml"]);
    insta::assert_snapshot!(format!("{wrong}\n{no_config}"));
}

/// The first line contains the real duration of the run, and is not compared.
#[test]
fn text_form() {
    let folder = folder();
    let (_, out, err) = sim(folder.path(), &["missed.toml", "--plots", "plots", "--pcap", "s.p1=h1.pcapng"]);
    assert_eq!(err, "", "no progress where nobody watches");
    let (_, rest) = out.split_once("\n\n").unwrap();
    insta::assert_snapshot!(rest);
    for file in ["plots/occupancy.svg", "plots/pauses.svg", "plots/throughput.svg", "plots/completion.svg"] {
        let svg = fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{file}");
    }
}

/// Standard output is JSON alone; the same seed gives the same bytes, another one does not.
#[test]
fn for_programs() {
    let folder = folder();
    let out = |arguments: &[&str]| sim(folder.path(), &[&["--json", "incast.toml"], arguments].concat()).1;
    let (first, other) = (out(&["--plots", "plots"]), out(&["--seed", "7"]));
    assert_eq!(first, out(&[]));
    assert_ne!(first, other);
    let [first, other] = [first, other].map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap());
    assert_eq!((&first["seed"], &other["seed"]), (&0.into(), &7.into()));
    assert_eq!((&first["title"], &first["duration_ns"]), (&"Incast".into(), &1_000_000.into()));
    assert_eq!(first["expectations"][0]["expected"], "lost = 0");
    let shorter: serde_json::Value = serde_json::from_str(&out(&["--duration", "250us"])).unwrap();
    assert_eq!(shorter["duration_ns"], 250_000);
}

/// A plot of an earlier run is not taken for one of this run.
#[test]
fn plots_that_have_nothing_to_show_are_not_written() {
    let folder = folder();
    fs::create_dir(folder.path().join("plots")).unwrap();
    fs::write(folder.path().join("plots/completion.svg"), "of another run").unwrap();
    let constant = INCAST.replace("pattern = \"poisson\"", "").replace("bytes = 4096", "");
    let constant = constant.replace("frame_", "frame_bytes = 1024 #");
    fs::write(folder.path().join("constant.toml"), constant).unwrap();
    let (code, out, err) = sim(folder.path(), &["constant.toml", "--plots", "plots"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.contains("wrote plots/throughput.svg") && !out.contains("wrote plots/completion.svg"),
        "{out}"
    );
    let reasons = "no completion.svg: no message arrived: traffic with `bytes` has messages\n\
                   no queues.svg: no lengths: write queue_lengths = true into the scenario\n";
    assert!(out.ends_with(reasons), "{out}");
    assert!(!folder.path().join("plots/completion.svg").exists());
}

/// An independent reader finds the same frames, including PFC.
#[test]
fn tshark_reads_captures() {
    let folder = folder();
    let file = folder.path().join("h2.pcapng");
    let (code, _, err) = sim(folder.path(), &["incast.toml", "--pcap", "h2=h2.pcapng"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let fields =
        ["frame.interface_name", "frame.len", "frame.cap_len", "macc.opcode", "macc.cbfc.pause_time.c3"];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&file).args(["-T", "fields"]).args(fields.iter().flat_map(|field| ["-e", field]));
    let Ok(output) = tshark.output() else {
        eprintln!("tshark is not installed: skipped");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let mut kinds: Vec<&str> = text.lines().collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(
        kinds,
        ["h2 to s.p2\t1024\t62\t\t", "s.p2 to h2\t60\t60\t0x0101\t0", "s.p2 to h2\t60\t60\t0x0101\t65535"],
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// docs/simulator.md explains config/scenarios/first.toml and shows its results; both must match.
#[test]
fn the_first_scenario_matches_the_docs() {
    let root = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_to_string(root.join("docs/simulator.md")).unwrap();
    let (code, out, err) = sim(root, &["config/scenarios/first.toml"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    // The second line contains the real duration of the run.
    for line in out.lines().skip(2) {
        assert!(
            docs.contains(line),
            "docs/simulator.md shows another summary; this is the right one:\n{out}"
        );
    }

    let reported: String =
        docs.split("```toml").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let config = format!("{:?}", root.join("config/incast.toml"));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("first.toml"), reported.replace("\"../incast.toml\"", &config)).unwrap();
    let outcome = |folder: &Path, file: &str| -> serde_json::Value {
        let mut outcome: serde_json::Value = serde_json::from_str(&sim(folder, &["--json", file]).1).unwrap();
        let expectations = outcome["expectations"].as_array_mut().unwrap();
        expectations.iter_mut().for_each(|expectation| expectation["line"] = 0.into());
        outcome
    };
    assert_eq!(outcome(folder.path(), "first.toml"), outcome(root, "config/scenarios/first.toml"));
}

/// A full disk behind standard output, or behind a capture, is a specific error.
#[test]
fn what_cannot_be_written_is_an_error() {
    let folder = folder();
    for arguments in [&["incast.toml"][..], &["incast.toml", "--json"], &["incast.toml", "--plots", "plots"]]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.arg("sim").args(arguments).current_dir(folder.path());
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(err.contains("sluice: cannot write to standard output: No space left on device"), "{err}");
    }
    let (code, _, err) = sim(folder.path(), &["incast.toml", "--pcap", "h1=/dev/full"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("sluice: cannot write /dev/full: No space left on device"), "{err}");
    assert!(!err.contains("reading"), "{err}");
}

/// The scenario runs anyway, standard output is unchanged, and the warning is confirmed: frames are
/// lost.
#[test]
fn a_cable_that_headroom_is_too_short_for_is_warned_of() {
    let folder = folder();
    let far = INCAST.replace("\"s.p[1-3]\"]", "\"s.p[1-3]\"]\ncable_m = 10000");
    fs::write(folder.path().join("far.toml"), far).unwrap();
    let (code, out, err) = sim(folder.path(), &["--json", "far.toml"]);
    assert_eq!(code, 1, "{err}");
    let outcome: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(outcome["expectations"][0]["measured"].as_f64().unwrap() > 0.0, "{out}");
    for text in [
        "100 headroom cells are too few",
        "over 10000 m",
        "(priority 3 of s.p1 and 2 more ports)",
        "cable_m = 10000",
    ] {
        assert!(err.contains(text), "{err}");
    }
}

/// A scenario, or one of its configurations, that is too long is rejected unread, with its size and
/// the limit.
#[test]
fn long_files_are_refused() {
    let folder = folder();
    let long = "#".repeat(100 << 20);
    fs::write(folder.path().join("long.toml"), &long).unwrap();
    let (code, _, err) = sim(folder.path(), &["long.toml"]);
    assert_eq!(code, 2);
    assert!(err.contains("the file has 100 MiB; 1 MiB is the most"), "{err}");
    fs::write(folder.path().join("configs/switch.toml"), &long).unwrap();
    let (code, _, err) = sim(folder.path(), &["incast.toml"]);
    assert_eq!(code, 2);
    assert!(err.contains("the file has 100 MiB; 1 MiB is the most"), "{err}");
}

/// A switch that holds more than fits the memory ends the run with an error that names the switch,
/// the time and the remedy, on one thread and on two. Of two parts, the second has no memory left.
#[test]
fn memory_that_cannot_be_had_is_an_error() {
    let folder = folder();
    let port = |name: &str| format!("[port.{name}]\ninterface = \"{name}\"\n");
    let device = "[buffer]\ntotal_cells = 16777216\n[port-defaults]\nspeed = \"400G\"\n\
        [port-defaults.buffer.egress.queue.2]\nshared_percent = 100\n"
        .to_owned()
        + &["p1", "p2", "p3", "p4"].map(port).concat();
    fs::write(folder.path().join("configs/large.toml"), device).unwrap();
    let scenario = "duration = \"20ms\"\n[switch.r]\nconfig = \"configs/large.toml\"\n\
        [switch.s]\nconfig = \"configs/large.toml\"\n[host.\"h[1-4]\"]\n\
        [[link]]\nends = [\"h[1-3]\", \"s.p[1-3]\"]\n\
        [[link]]\nends = [\"h4\", \"r.p1\"]\n\
        [[link]]\nends = [\"r.p4\", \"s.p4\"]\n\
        [[traffic]]\nname = \"t\"\nfrom = [\"h1\", \"h2\"]\nto = \"h3\"\nframe_bytes = 64\n";
    fs::write(folder.path().join("large.toml"), scenario).unwrap();
    for threads in ["1", "2"] {
        let mut command = Command::new("sh");
        let limited = "ulimit -v 200000; exec \"$0\" sim --threads \"$1\" large.toml";
        command.args(["-c", limited, env!("CARGO_BIN_EXE_sluice"), threads]);
        let output = command.current_dir(folder.path()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{threads}: {err}");
        assert!(
            err.contains("sluice: no memory is left for the frames that s holds at "),
            "{threads}: {err}"
        );
        assert!(
            err.contains(" µs: lower its total_cells, or run the scenario where there is more memory"),
            "{threads}: {err}"
        );
    }
}

/// The tables of latencies, links and groups.
#[test]
fn latencies_links_and_groups_are_tables() {
    let folder = folder();
    let path = folder.path();
    let (code, _, err) = sim(path, &["--latency", "latency.csv", "incast.toml"]);
    assert_eq!(code, 2);
    assert!(err.contains("add --set latency=true"), "{err}");
    let tables = ["--latency", "latency.csv", "--links", "links.csv", "--groups", "groups.csv"];
    let arguments = [&tables[..], &["--set", "latency=true", "incast.toml"]].concat();
    assert_eq!(sim(path, &arguments).0, 0);
    let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
    let latency = read("latency.csv");
    let rows: Vec<Vec<&str>> = latency.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((rows[0][7], rows[0][8]), ("p99_ns", "p999_ns"));
    assert_eq!((rows[1][0], rows[1][1], rows[2][0], rows[2][1]), ("rdma", "", "rdma", "s.p1"));
    assert!(rows[1][7].parse::<u64>().unwrap() > rows[1][5].parse().unwrap(), "{latency}");
    assert_eq!(read("links.csv").lines().count(), 1 + 2 * 3);
    let groups = read("groups.csv");
    let row = groups.lines().find(|line| line.starts_with("s.p2,h2,3,")).unwrap();
    assert!(row.split(',').nth(6).unwrap().parse::<u64>().unwrap() > 0, "time in XOFF: {groups}");
}

/// Runs a scenario with each of its tables as CSV and as Parquet, and compares them: numbers have
/// all of their digits in Parquet.
#[test]
fn tables_are_parquet_by_the_names_of_their_files() {
    let folder = folder();
    let path = folder.path();
    let tables = ["flows", "messages", "latency", "links", "groups", "queues", "series"];
    for extension in ["csv", "parquet"] {
        let options = tables.iter().flat_map(|name| [format!("--{name}"), format!("{name}.{extension}")]);
        let options: Vec<String> = options.collect();
        let mut arguments: Vec<&str> = options.iter().map(String::as_str).collect();
        arguments.extend(["--set", "latency=true", "--set", "queue_lengths=true", "incast.toml"]);
        let (code, out, err) = sim(path, &arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.contains(&format!("wrote queues.{extension}\n")), "{out}");
    }
    for name in tables {
        let csv = fs::read_to_string(path.join(format!("{name}.csv"))).unwrap();
        let parquet = parquet_lines(&path.join(format!("{name}.parquet")));
        assert!(csv.lines().count() > 1, "{csv}");
        assert_eq!(csv.lines().count(), parquet.len());
        for (csv, parquet) in csv.lines().zip(&parquet) {
            let [csv, parquet]: [Vec<&str>; 2] = [csv, parquet].map(|line| line.split(',').collect());
            assert_eq!(csv.len(), parquet.len());
            for (csv, parquet) in csv.iter().zip(&parquet) {
                let difference = || csv.parse::<f64>().unwrap() - parquet.parse::<f64>().unwrap();
                let decimals = csv.split_once('.').map_or(0, |(_, decimals)| decimals.len());
                let half_digit = 0.5 / 10f64.powi(decimals as i32);
                let is_close = || difference().abs() <= half_digit * (1.0 + 1e-6);
                assert!(csv == parquet || is_close(), "{name}: {csv}, {parquet}");
            }
        }
    }
}

/// Two leaves and two spines, and messages at random times between all hosts.
const FABRIC: &str = "
duration = \"300us\"
[network]
kind = \"leaf-spine\"
leaves = 2
spines = 2
hosts_per_leaf = 3
[[traffic]]
name = \"all\"
from = \"h[1-6]\"
to = \"h[1-6]\"
priority = 3
pattern = \"poisson\"
rate = \"10G\"
bytes = 4096
";

#[test]
fn threads_change_no_byte_of_the_results() {
    let folder = folder();
    fs::write(folder.path().join("fabric.toml"), FABRIC).unwrap();
    // Its telemetry goes with frames and acknowledgments from part to part.
    fs::write(folder.path().join("hpcc.toml"), format!("{}hpcc = true\n", FABRIC.replace("300us", "100us")))
        .unwrap();
    // The last has one switch, so it is not divided.
    for (scenario, cable) in
        [("fabric.toml", "spine2.p1"), ("hpcc.toml", "spine2.p1"), ("incast.toml", "s.p1")]
    {
        let captures = ["h1=h1.pcapng".to_owned(), format!("{cable}=cable.pcapng")];
        let run = |threads: &str| {
            let tables = ["--messages", "messages.csv", "--groups", "groups.csv", "--plots", "plots"];
            let latency = ["--latency", "latency.csv", "--set", "latency=true", "--series", "series.parquet"];
            let pcap = ["--pcap", &captures[0], "--pcap", &captures[1]];
            let options = [&["--json", "--threads", threads][..], &tables, &latency, &pcap, &[scenario]];
            let options = options.concat();
            let (code, out, error) = sim(folder.path(), &options);
            assert_eq!(code, 0, "{error}");
            let tables = ["messages.csv", "groups.csv", "latency.csv", "plots/throughput.svg"];
            let files = [&tables[..], &["h1.pcapng", "cable.pcapng", "series.parquet"]].concat();
            let read = |file: &&str| fs::read(folder.path().join(file)).unwrap();
            (out, files.iter().map(read).collect::<Vec<_>>())
        };
        let one = run("1");
        assert!(one.1[0].len() > 1000, "{scenario} has messages");
        let series = parquet_lines(&folder.path().join("series.parquet"));
        assert!(series.iter().any(|row| row.contains(",queue_cells,s")), "{scenario} has queues");
        assert!(one.1[2].iter().filter(|&&byte| byte == b'\n').count() > 2, "{scenario} has latencies");
        assert!(one.1[4..6].iter().all(|capture| capture.len() > 10_000), "{scenario} has frames");
        for threads in ["2", "4"] {
            assert!(run(threads) == one, "{scenario} on {threads} threads");
        }
    }
}
