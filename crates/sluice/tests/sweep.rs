//! `sluice sweep` as a process: points, a kill and its continuation, parts, and the joined tables.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

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
[port.p1]
interface = \"i1\"
[port.p2]
interface = \"i2\"
[port.p3]
interface = \"i3\"
";
/// 4 rates × 10 thresholds × 5 seeds.
const SCENARIO: &str = "
title = \"Sweep\"
duration = \"1ms\"
seed = 3
[switch.s]
config = \"switch.toml\"
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
rate = \"1G\"
bytes = 4096
[[expect]]
lost = 0
[sweep]
seeds = 5
[[vary]]
set = \"traffic.rdma.rate\"
values = [\"2G\", \"4G\", \"6G\", \"8G\"]
[[vary]]
set = \"switch.toml:port-defaults.pfc.priority.3.xoff.static_cells\"
from = 20
to = 200
step = 20
";

fn folder(scenario: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("switch.toml"), SWITCH).unwrap();
    fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
    folder
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.current_dir(folder).arg("sweep").args(arguments).stdin(Stdio::null());
    command
}

fn sweep(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(folder, arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// The joined tables, byte by byte.
fn tables(folder: &Path) -> Vec<Vec<u8>> {
    ["traffic.csv", "network.csv", "summary.csv"]
        .iter()
        .map(|name| fs::read(folder.join(name)).unwrap())
        .collect()
}

/// The points that are there, with the times at which they were written.
fn points(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let Ok(entries) = fs::read_dir(folder.join("points")) else { return BTreeMap::new() };
    let paths =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension() == Some("json".as_ref()));
    paths.map(|path| (path.clone(), fs::metadata(&path).unwrap().modified().unwrap())).collect()
}

#[test]
fn a_sweep_of_200_points_goes_on_after_a_kill_and_runs_in_parts() {
    let folder = folder(SCENARIO);
    let path = folder.path();
    let (code, out, err) = sweep(path, &["scenario.toml", "--out", "whole"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("200 of 200 points\n"), "{out}");
    let whole = tables(&path.join("whole"));
    assert_eq!(whole[0].iter().filter(|byte| **byte == b'\n').count(), 201);

    // Killed in the middle: what was there stays, and the joined bytes are the same.
    let mut child = command(path, &["scenario.toml", "--out", "killed", "--jobs", "1"]).spawn().unwrap();
    let start = Instant::now();
    while points(&path.join("killed")).len() < 5 {
        assert!(start.elapsed() < Duration::from_secs(60), "no points");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = points(&path.join("killed"));
    let (code, out, _) = sweep(path, &["collect", "killed"]);
    assert_eq!(code, if before.len() == 200 { 0 } else { 1 }, "{out}");
    assert_eq!(sweep(path, &["scenario.toml", "--out", "killed"]).0, 0);
    let after = points(&path.join("killed"));
    assert!(before.iter().all(|(path, time)| after[path] == *time), "no point was run twice");
    assert_eq!(tables(&path.join("killed")), whole);

    // In three parts by processes of their own, through the script that a job array starts.
    let planned = sweep(path, &["plan", "scenario.toml", "--out", "parts", "--parts", "3"]);
    assert_eq!(planned.0, 0, "{planned:?}");
    let bin = Path::new(env!("CARGO_BIN_EXE_sluice")).parent().unwrap().to_path_buf();
    let with_bin = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let part = |number: &str| {
        let mut script = Command::new("sh");
        script.arg(path.join("parts/run-part.sh")).arg(number).env("PATH", &with_bin).stdout(Stdio::null());
        script.spawn().unwrap()
    };
    let mut parts = [part("0"), part("2")];
    assert!(parts.iter_mut().all(|part| part.wait().unwrap().success()));
    let (code, out, _) = sweep(path, &["collect", "parts"]);
    assert_eq!(code, 1);
    assert!(out.contains("133 of 200 points\n") && out.contains("missing: 1, 4, 7, "), "{out}");
    let rerun = "of parts 1. To run these again, one of:\n    sbatch --array=1 parts/sweep.sbatch\n    kubectl replace";
    assert!(out.contains(rerun) && out.contains("\n    sh parts/run-part.sh 1\n"), "{out}");
    assert!(part("1").wait().unwrap().success());
    let (code, out, _) = sweep(path, &["collect", "parts", "--json"]);
    assert_eq!(code, 0, "{out}");
    assert_eq!(tables(&path.join("parts")), whole);
}

/// A varied setting whose values are numbers is a column of numbers.
#[test]
fn tables_are_parquet_on_request() {
    let folder = folder(&SCENARIO.replace("step = 20", "step = 180").replace("seeds = 5", "seeds = 2"));
    let (code, out, err) = sweep(folder.path(), &["scenario.toml", "--parquet"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let results = folder.path().join("scenario.sweep");
    for name in ["traffic", "network", "summary"] {
        let csv = fs::read_to_string(results.join(format!("{name}.csv"))).unwrap();
        let file = results.join(format!("{name}.parquet"));
        assert_eq!(parquet_lines(&file), csv.lines().collect::<Vec<_>>());
        assert!(out.contains(&format!("wrote scenario.sweep/{name}.parquet\n")), "{out}");
        fs::remove_file(file).unwrap();
    }
    assert_eq!(sweep(folder.path(), &["collect", "scenario.sweep", "--parquet"]).0, 0);
    assert!(results.join("summary.parquet").exists());
}

/// More offered load takes longer, and the interval holds the mean.
#[test]
fn the_summary_has_intervals_over_the_seeds() {
    let folder = folder(&SCENARIO.replace("step = 20", "step = 180"));
    assert_eq!(sweep(folder.path(), &["scenario.toml"]).0, 0);
    let text = fs::read_to_string(folder.path().join("scenario.sweep/summary.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(
        rows[0][..4],
        [
            "traffic.rdma.rate",
            "switch.toml:port-defaults.pfc.priority.3.xoff.static_cells",
            "traffic",
            "metric"
        ]
    );
    let mean = |rate: &str| {
        let found =
            rows.iter().find(|row| row[0] == rate && row[1] == "200" && row[3] == "completion_mean_ns");
        let row = found.unwrap_or_else(|| panic!("{text}"));
        let [mean, low, high] = [5, 6, 7].map(|column| row[column].parse::<f64>().unwrap());
        assert!(row[4] == "5" && low < mean && mean < high, "{row:?}");
        mean
    };
    assert!(mean("2G") < mean("4G") && mean("4G") < mean("6G"), "{text}");
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    let plain = SCENARIO.split("[sweep]").next().unwrap();
    for (scenario, arguments, expected) in [
        (plain.to_owned(), vec!["scenario.toml"], "varies nothing: add a [[vary]]"),
        (SCENARIO.replace("\"8G\"", "\"8g\""), vec!["scenario.toml"], "with traffic.rdma.rate = \"8g\":"),
        (
            SCENARIO.replace("traffic.rdma.rate", "traffic.rmda.rate"),
            vec!["scenario.toml"],
            "traffic.WHICH.SETTING",
        ),
        (SCENARIO.to_owned(), vec!["scenario.toml", "--part", "3/3"], "write I/N with I below N"),
        (SCENARIO.to_owned(), vec!["collect", "nowhere"], "no sweep has written to this folder"),
        (SCENARIO.to_owned(), vec!["plan", "scenario.toml", "--parts", "2", "--mount", "/usr"], "--mount"),
    ] {
        let folder = folder(&scenario);
        let (code, _, err) = sweep(folder.path(), &arguments);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(expected), "{expected}: {err}");
        assert!(points(&folder.path().join("scenario.sweep")).is_empty());
    }
}

/// Points of another sweep are not mixed in.
#[test]
fn a_folder_belongs_to_one_sweep() {
    let folder = folder(&SCENARIO.replace("step = 20", "step = 180").replace("seeds = 5", "seeds = 1"));
    assert_eq!(sweep(folder.path(), &["scenario.toml"]).0, 0);
    assert_eq!(sweep(folder.path(), &["scenario.toml"]).0, 0, "nothing is left to do");
    fs::write(folder.path().join("switch.toml"), SWITCH.replace("10G", "25G")).unwrap();
    let (code, _, err) = sweep(folder.path(), &["scenario.toml"]);
    assert_eq!(code, 2);
    assert!(err.contains("has the results of another sweep"), "{err}");
}

/// The manifest is an indexed Job, one index for each part.
#[test]
fn a_manifest_and_a_job_array_are_written() {
    let folder = folder(SCENARIO);
    let planned = sweep(
        folder.path(),
        &["plan", "scenario.toml", "--parts", "16", "--cores", "2", "--set", "duration=1ms"],
    );
    assert_eq!(planned.0, 0, "{planned:?}");
    let out = folder.path().join("scenario.sweep");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let job: serde_yaml_ng::Value = serde_yaml_ng::from_str(&read("job.yaml")).unwrap();
    assert_eq!(job["metadata"]["name"].as_str(), Some("sluice-scenario"));
    assert_eq!((job["apiVersion"].as_str(), job["kind"].as_str()), (Some("batch/v1"), Some("Job")));
    let spec = &job["spec"];
    assert_eq!(spec["completionMode"].as_str(), Some("Indexed"));
    assert_eq!((spec["completions"].as_u64(), spec["parallelism"].as_u64()), (Some(16), Some(16)));
    let container = &spec["template"]["spec"]["containers"][0];
    let memory = &container["resources"]["requests"]["memory"];
    assert_eq!((container["image"].as_str(), memory.as_str()), (Some("sluice"), Some("2048Mi")));
    let command: Vec<&str> =
        container["command"].as_sequence().unwrap().iter().filter_map(|word| word.as_str()).collect();
    assert_eq!(command[..2], ["/bin/sh", "-c"]);
    assert_eq!(command[2], "exec sh \"$0\" \"$JOB_COMPLETION_INDEX\"");
    assert!(command[3].ends_with("/scenario.sweep/run-part.sh"), "{command:?}");
    let array = read("sweep.sbatch");
    assert!(array.contains("#SBATCH --array=0-15\n#SBATCH --cpus-per-task=2\n"), "{array}");
    let script = read("run-part.sh");
    let log = format!("#SBATCH --output='{}/slurm-%a.log'\n", out.canonicalize().unwrap().display());
    assert!(array.contains(&log), "{array}");
    let many = sweep(folder.path(), &["plan", "scenario.toml", "--parts", "100", "--set", "duration=1ms"]);
    assert_eq!(many.0, 0, "{many:?}");
    let job: serde_yaml_ng::Value = serde_yaml_ng::from_str(&read("job.yaml")).unwrap();
    assert_eq!(job["spec"]["parallelism"].as_u64(), Some(64), "no more at the same time");
    assert!(script.contains("--set 'duration=1ms' --part \"$1/16\" --jobs 2"), "{script}");
}

/// Strings are quoted in YAML, and limits are those of both engines.
#[test]
fn a_plan_has_the_limits_of_its_parts() {
    let folder = folder(SCENARIO);
    let limits = ["--memory-mib", "3000", "--minutes", "90"];
    let image = ["--image", "registry:5000/sluice:1 # x", "--claim", "yes"];
    let arguments = [&["plan", "scenario.toml", "--parts", "4"][..], &limits, &image].concat();
    let planned = sweep(folder.path(), &arguments);
    assert_eq!((planned.0, planned.2.as_str()), (0, ""), "{planned:?}");
    let read = |name: &str| fs::read_to_string(folder.path().join("scenario.sweep").join(name)).unwrap();
    let array = read("sweep.sbatch");
    assert!(array.contains("#SBATCH --job-name=sluice-scenario\n"), "{array}");
    assert!(array.contains("#SBATCH --mem=3000M\n#SBATCH --time=90\n"), "{array}");
    let job: serde_yaml_ng::Value = serde_yaml_ng::from_str(&read("job.yaml")).unwrap();
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["activeDeadlineSeconds"].as_u64(), Some(5400));
    let container = &pod["containers"][0];
    assert_eq!(container["resources"]["requests"]["memory"].as_str(), Some("3000Mi"));
    assert_eq!(container["image"].as_str(), Some("registry:5000/sluice:1 # x"));
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"].as_str(), Some("yes"));
}

/// Slurm refuses an array that is larger than its limit, so the limit is named beforehand.
#[test]
fn an_array_beyond_the_default_limit_is_noted() {
    let folder = folder(&SCENARIO.replace("seeds = 5", "seeds = 40"));
    let (code, _, err) = sweep(folder.path(), &["plan", "scenario.toml", "--parts", "1002"]);
    assert!(code == 0 && err.contains("1002 parts are more than the 1001 tasks"), "{err}");
    let (code, _, err) = sweep(folder.path(), &["plan", "scenario.toml", "--parts", "1001"]);
    assert_eq!((code, err.as_str()), (0, ""));
}

/// Each value may be valid, but not their combination.
#[test]
fn an_invalid_combination_is_named() {
    let vary = "[sweep]\n[[vary]]\nset = \"warmup\"\nvalues = [\"1us\", \"600us\"]\n[[vary]]\nset = \"duration\"\nvalues = [\"1ms\", \"500us\"]\n";
    let folder = folder(&(SCENARIO.split("[sweep]").next().unwrap().to_owned() + vary));
    let (code, _, err) = sweep(folder.path(), &["scenario.toml", "--jobs", "1"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("point 3: warmup = \"600us\", duration = \"500us\", seed = 3:"), "{err}");
}

/// Files that only a value names belong to the sweep, too.
#[test]
fn files_of_values_belong_to_the_sweep() {
    let vary = "[sweep]\n[[vary]]\nset = \"switch.s.config\"\nvalues = [\"switch.toml\", \"other.toml\"]\n";
    let folder = folder(&(SCENARIO.split("[sweep]").next().unwrap().to_owned() + vary));
    let other = folder.path().join("other.toml");
    fs::write(&other, SWITCH).unwrap();
    assert_eq!(sweep(folder.path(), &["scenario.toml"]).0, 0);
    fs::write(&other, SWITCH.replace("10G", "25G")).unwrap();
    let (code, _, err) = sweep(folder.path(), &["scenario.toml"]);
    assert!(code == 2 && err.contains("has the results of another sweep"), "{err}");
}
