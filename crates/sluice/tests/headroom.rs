//! `sluice headroom` and `sluice check` as processes: the loop whose stall they use, and what
//! `--fix` writes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use control::server::{self, DaemonInfo, Request};
use control::v1::Snapshot;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

fn headroom(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["headroom", "--speed", "10G", "--cable", "1m", "--json"]).args(arguments);
    // No daemon of this machine is asked.
    command.env("SLUICE_SOCKET", "/nowhere/sluice.sock").output().unwrap()
}

fn software(output: &Output) -> serde_json::Value {
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["software"].clone()
}

/// A daemon with this file whose loop was once delayed for 100 µs. It answers until the sender is
/// dropped.
fn daemon(socket: &Path, config: &Path) -> oneshot::Sender<()> {
    let listener = UnixListener::bind(socket).unwrap();
    let (requests, mut requested) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(request) = requested.recv().await {
            match request {
                Request::Snapshot { answer, .. } => {
                    let _ = answer.send(Snapshot { loop_worst_stall_ns: 100_000, ..Snapshot::default() });
                }
                Request::RecordingBound { answer } => drop(answer.send(0)),
                _ => {}
            }
        }
    });
    let about = DaemonInfo {
        name: "fake".into(),
        version: "1".into(),
        config: config.to_path_buf(),
        started: Instant::now(),
        admins: Vec::new(),
    };
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server::serve(
        listener,
        about,
        requests,
        control::Journal::default(),
        control::v1::Telemetry::default,
        async {
            let _ = stopped.await;
        },
    ));
    stop
}

#[tokio::test]
async fn a_daemon_that_answers_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("fake.sock");
    let _daemon = daemon(&socket, Path::new("/etc/fake.toml"));
    let named = socket.to_str().unwrap().to_owned();
    let output = tokio::task::spawn_blocking(move || headroom(&["--measured", "--socket", &named]));
    let software = software(&output.await.unwrap());
    assert_eq!(software["source"], "daemon");
    assert_eq!(software["socket"], socket.to_str().unwrap());
    assert_eq!((&software["stall_ns"], &software["own_stall_bytes"]), (&100_000.into(), &125_000.into()));
}

#[test]
fn without_a_daemon_it_is_measured_here() {
    let output = headroom(&["--measured=0.1"]);
    let software = software(&output);
    assert_eq!((&software["source"], &software["measured_s"]), (&"measured".into(), &0.1.into()));
    let output = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.starts_with("sluice: measuring here for 0.1 s: no daemon listens on /nowhere/"),
        "{output}"
    );
}

#[test]
fn a_daemon_that_is_named_must_answer() {
    for (arguments, code, expected) in [
        (
            &["--measured", "--socket", "/nowhere/x.sock"][..],
            3,
            "sluice: no daemon listens on /nowhere/x.sock",
        ),
        (&["--socket", "/nowhere/x.sock"], 2, "sluice: --socket has no effect without --measured"),
    ] {
        let output = headroom(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.starts_with(expected), "{stderr}");
        assert_eq!(output.status.code(), Some(code));
    }
}

/// At 1G, 100 cells last 51.2 µs, less than the loop's delay; port b's last longer.
const SHORT: &str = "# a lab
[port-defaults.pfc]
mode    = \"on\"
no_drop = [3]

[port.a]   # the slow one
interface = \"veth0\"
speed     = \"1G\"

[port.b]
interface = \"veth1\"
speed     = \"1G\"
pfc.priority.3.headroom_cells = 5000
";

/// Runs `sluice` in this folder, which has `lab.toml`. Returns exit code, standard output, standard
/// error.
fn sluice(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(arguments).current_dir(folder);
    command.env_clear().env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8").env("TERM", "dumb");
    let output = command.env("SLUICE_SOCKET", "/nowhere/sluice.sock").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn check_compares_headroom_with_the_loop() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lab.toml"), SHORT).unwrap();
    let _daemon = daemon(&folder.path().join("fake.sock"), &folder.path().join("other.toml"));
    let path = folder.path().to_owned();
    let run = move |arguments: &'static [&str]| {
        let path = path.clone();
        tokio::task::spawn_blocking(move || sluice(&path, arguments))
    };
    let lasts = "
  buffer: 131072 cells of 256 bytes: 16384 fixed, 102400 shared, 12288 headroom
  port a, priority 3: 100 headroom cells last 51.2 µs at 1G
  port b, priority 3: 5000 headroom cells last 2.6 ms at 1G
";
    let stopped = "  while the whole process is stopped (SIGSTOP, a suspended machine) no peer is paused: the RX ring of port a \
        then fills with up to 8192 frames, 49152 cells of the longest; what exceeds its headroom (100 cells) and the shared area \
        is lost and reported (no_drop_lost)\n";
    let expected = (0, format!("lab.toml: right, 2 ports{lasts}{stopped}"), String::new());
    assert_eq!(run(&["check", "lab.toml", "--strict"]).await.unwrap(), expected);
    let (code, out, err) = run(&["check", "lab.toml", "--strict", "--socket", "fake.sock"]).await.unwrap();
    let delayed = "  a loop stalls for 100.0 µs (the longest of the daemon on fake.sock)\n";
    assert_eq!(
        (code, out),
        (1, format!("lab.toml: accepted with 1 warning, 2 ports{lasts}{delayed}{stopped}"))
    );
    let warning = "lab.toml: warning: port a, priority 3: 100 headroom cells last 51.2 µs at 1G, shorter than a loop \
        stalls, 100.0 µs (the longest of the daemon on fake.sock); `sluice headroom --fix FILE` writes a sufficient value\n";
    assert_eq!(err, warning);
    let (code, out, err) =
        run(&["check", "lab.toml", "--json", "--measured", "--socket", "fake.sock"]).await.unwrap();
    assert_eq!((code, err.as_str()), (0, ""));
    let output: serde_json::Value = serde_json::from_str(&out).unwrap();
    let severities: Vec<_> = output.as_array().unwrap().iter().map(|message| &message["severity"]).collect();
    assert_eq!(severities, ["warning", "note", "note", "note", "note", "note"]);
    assert_eq!(output[0]["setting"], "port.a.pfc.priority");
    assert_eq!(output[4]["setting"], "dataplane");

    // The written headroom is sufficient.
    let fixed = run(&["headroom", "--fix", "lab.toml", "--measured", "--socket", "fake.sock"]).await.unwrap();
    assert_eq!(fixed.0, 0, "{}", fixed.2);
    let (code, _, err) =
        run(&["check", "--strict", "--measured", "lab.toml", "--socket", "fake.sock"]).await.unwrap();
    assert_eq!((code, err.as_str()), (0, ""));
}

/// A daemon that is found, and not named, says nothing about files that it does not run.
#[tokio::test]
async fn check_queries_the_daemon_that_runs_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let [its, other] = ["its.toml", "other.toml"].map(|name| folder.path().join(name));
    [&its, &other].into_iter().for_each(|file| fs::write(file, SHORT).unwrap());
    let socket = folder.path().join("fake.sock");
    let _daemon = daemon(&socket, &its);
    for (file, is_judged) in [(&its, true), (&other, false)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.arg("check").arg(file).env("SLUICE_SOCKET", &socket);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            text.contains("a loop stalls for 100.0 µs (the longest of the daemon"),
            is_judged,
            "{text}"
        );
    }
}

/// With --measured, a loop is tried if no daemon answers; a named daemon must answer.
#[test]
fn check_without_a_daemon() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lab.toml"), SHORT).unwrap();
    let (code, out, err) = sluice(folder.path(), &["check", "lab.toml", "--measured=0.1"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.starts_with("sluice: measuring here for 0.1 s: no daemon listens on /nowhere/"), "{err}");
    assert!(out.contains("(the longest of a loop that spun here for 0.1 s; no daemon was queried)"), "{out}");
    let (code, _, err) = sluice(folder.path(), &["check", "lab.toml", "--socket", "x.sock"]);
    assert_eq!(code, 2);
    assert!(err.starts_with("sluice: no daemon listens on x.sock"), "{err}");
}

/// 9216 + 1518 + 3840 bytes in transit, 2 × 12,500 for both loops, 65,536 in the peer's kernel:
/// 1643 cells.
#[test]
fn fix_shows_what_it_changes_and_changes_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.toml");
    fs::write(&file, SHORT).unwrap();
    let (code, out, err) =
        sluice(folder.path(), &["headroom", "--fix", "lab.toml", "--stall-us", "100", "--dry-run"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let shown = "--- lab.toml
+++ lab.toml
@@ -8,4 +8,7 @@
 speed     = \"1G\"
 
+[port.a.pfc.priority.3]
+headroom_cells = 1643
+
 [port.b]
 interface = \"veth1\"

Headroom for loops that stall for 100.0 µs (from --stall-us):
    port.a.pfc.priority.3.headroom_cells: 100 by default → 1643
";
    assert_eq!(out, format!("{shown}lab.toml is as it was (--dry-run).\n"));
    assert_eq!(fs::read_to_string(&file).unwrap(), SHORT);

    let (code, out, _) = sluice(folder.path(), &["headroom", "--fix", "lab.toml", "--stall-us", "100"]);
    assert_eq!(code, 0);
    assert_eq!(out, format!("{shown}Wrote lab.toml. What needs more memory takes a restart of sluiced.\n"));
    let expected = SHORT.replace("[port.b]", "[port.a.pfc.priority.3]\nheadroom_cells = 1643\n\n[port.b]");
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);

    let (code, out, _) =
        sluice(folder.path(), &["headroom", "--fix", "lab.toml", "--stall-us", "100", "--json"]);
    let output: serde_json::Value = serde_json::from_str(&out).unwrap();
    let nothing =
        serde_json::json!({"file": "lab.toml", "stall_ns": 100_000, "changes": [], "written": false});
    assert_eq!((code, output), (0, nothing), "once is enough");
}

/// A queue is too small after the change: 17 reserved cells, XOFF at 6023, and now 1643 of
/// headroom.
#[test]
fn fix_warns_of_what_the_new_file_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let queue = "[port.b.buffer.egress.queue.3]\nguaranteed_percent = 0\nshared_cells = 7000\n";
    fs::write(folder.path().join("lab.toml"), format!("{SHORT}{queue}")).unwrap();
    assert_eq!(sluice(folder.path(), &["check", "lab.toml", "--strict"]).0, 0);
    let (code, _, err) = sluice(folder.path(), &["headroom", "--fix", "lab.toml", "--stall-us", "100"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("(17 reserved + 6023 XOFF + 1643 headroom)"), "{err}");
    assert_eq!(sluice(folder.path(), &["check", "lab.toml", "--strict"]).0, 1);
}

/// A file that is invalid, or that cannot be fixed, is not changed. The same applies if its changes
/// could not be printed.
#[test]
fn fix_leaves_a_file_as_it_is_when_it_must() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lab.toml");
    for (text, output) in [
        (SHORT.replace("interface", "interfase"), "unknown setting"),
        (SHORT.replace("speed     = \"1G\"\n\n", ""), "without a speed, how much may still arrive"),
    ] {
        fs::write(&file, &text).unwrap();
        let (code, out, err) = sluice(folder.path(), &["headroom", "--fix", "lab.toml", "--stall-us", "100"]);
        assert_eq!((code, out.as_str()), (1, ""));
        assert!(err.contains(output) && err.contains("sluice: lab.toml is as it was"), "{err}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    fs::write(&file, SHORT).unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["headroom", "--fix", "lab.toml", "--stall-us", "100"]).current_dir(&folder);
    assert_eq!(command.stdout(full).status().unwrap().code(), Some(1));
    assert_eq!(fs::read_to_string(&file).unwrap(), SHORT);
    for arguments in
        [&["--fix", "lab.toml", "--speed", "1G"][..], &["--dry-run", "--speed", "1G", "--cable", "1"], &[]]
    {
        let (code, _, err) = sluice(folder.path(), &[&["headroom"], arguments].concat());
        assert_eq!(code, 2, "{err}");
    }
}
