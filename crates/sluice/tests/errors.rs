//! Every command that talks to a daemon, where there is none, none that may be asked, and with
//! wrong input: one clear line, and the exit code of the rule (`sluice --help`).

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

/// Commands that need a daemon.
const COMMANDS: [&str; 40] = [
    "show ports",
    "show drops",
    "show congestion",
    "show queues",
    "show buffers",
    "show pfc",
    "show pfc history",
    "show pfc --style sonic",
    "show loop",
    "show counters",
    "show rates",
    "show utilization",
    "show vlan",
    "show cores",
    "show telemetry",
    "show lldp",
    "show lldp neighbors",
    "show dcbx",
    "show fdb",
    "show config",
    "show config effective",
    "show maps",
    "show profiles",
    "show watchdog",
    "show version",
    "show ports --watch --json",
    "show config --watch",
    "show ports --rates",
    "events",
    "reload",
    "pfc on",
    "pfc off",
    "pfc recover a",
    "pfc lift-limit a 3",
    "port hold a",
    "clear watermarks",
    "clear counters",
    "fdb flush",
    "fdb flush --port a --vlan 7",
    "record --last /tmp/none.sluice",
];

fn sluice(command: &str) -> Command {
    let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
    sluice.args(command.split(' ')).env("SLUICE_SOCKET", "/nowhere/sluice.sock").env_remove("RUST_LOG");
    sluice
}

/// Checks the exit code, that nothing is on standard output, and that standard error is one line.
fn check(command: &str, output: &Output, code: i32, expected: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{command}: {error}");
    assert!(output.stdout.is_empty(), "{command}: {}", String::from_utf8_lossy(&output.stdout));
    assert!(error.starts_with(expected) && error.lines().count() == 1, "{command}: {error}");
}

#[test]
fn no_daemon() {
    for command in COMMANDS {
        let output = sluice(command).output().unwrap();
        check(command, &output, 3, "sluice: no daemon listens on /nowhere/sluice.sock: ");
    }
}

/// A socket that only root may open, and a user who is not root.
#[test]
fn no_permission() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("sluice.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = folder.path().join("sluice");
    std::fs::copy(env!("CARGO_BIN_EXE_sluice"), &program).unwrap();
    for command in COMMANDS {
        let mut sluice = Command::new(&program);
        sluice.args(command.split(' ')).env("SLUICE_SOCKET", &socket).uid(65_534).gid(65_534);
        match sluice.output() {
            Ok(output) => check(command, &output, 1, "sluice: no permission for "),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return println!("only root can become another user: {error}");
            }
            Err(error) => panic!("{command}: {error}"),
        }
    }
}

/// A user who may only read gets one line for each command that changes something.
#[test]
fn readers_may_not_change() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (socket, program) = (folder.path().join("sluice.sock"), folder.path().join("sluice"));
    std::fs::copy(env!("CARGO_BIN_EXE_sluice"), &program).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).unwrap();
    std::thread::spawn(move || serve(listener)); // it ends with the test
    let recording = format!("record --duration 1ms {}", folder.path().join("none.sluice").display());
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let commands = [
        ("reload", "reload"),
        ("pfc off", "turn PFC on or off"),
        ("pfc recover a", "recover from storms"),
        ("pfc lift-limit a 3", "lift the limit of storms"),
        ("port hold a", "hold or release a port"),
        ("clear watermarks", "clear watermarks"),
        ("fdb flush", "flush the FDB"),
        (&recording, "record"),
        ("show version", ""),
    ];
    for (command, what) in commands {
        let mut sluice = Command::new(&program);
        sluice.args(command.split(' ')).env("SLUICE_SOCKET", &socket).uid(64_999).gid(64_999);
        match sluice.output() {
            Ok(output) if what.is_empty() => {
                let text = String::from_utf8_lossy(&output.stdout);
                assert!(
                    output.status.success() && text.contains("API      version 1; you may read\n"),
                    "{text}"
                );
            }
            Ok(output) => {
                let expected = format!(
                    "sluice: permission denied: to {what} takes root or uid 998, and you are uid 64999, who may only read"
                );
                match what {
                    // Its progress is on standard error, too.
                    "record" => {
                        let error = String::from_utf8_lossy(&output.stderr);
                        assert!(output.status.code() == Some(1) && error.contains(&expected), "{error}");
                    }
                    _ => check(command, &output, 1, &expected),
                }
            }
            Err(error) => return println!("only root can become another user: {error}"),
        }
    }
}

/// Serves a daemon without a switch, which user 998 may change.
fn serve(listener: UnixListener) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::UnixListener::from_std(listener).unwrap();
        let (requests, mut requested) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(request) = requested.recv().await {
                if let control::server::Request::RecordingBound { answer } = request {
                    let _ = answer.send(0);
                }
            }
        });
        let about = control::server::DaemonInfo {
            name: "fake".into(),
            version: "1".into(),
            config: "/etc/fake.toml".into(),
            started: std::time::Instant::now(),
            admins: vec![998],
        };
        let (journal, telemetry) = (control::Journal::default(), control::v1::Telemetry::default);
        let _ = control::server::serve(listener, about, requests, journal, telemetry, std::future::pending())
            .await;
    });
}

#[test]
fn wrong_input() {
    for (command, expected) in [
        ("show nothing", "error: invalid value 'nothing' for '<VIEW>'"),
        ("show pfc --priority 8", "error: invalid value '8' for '--priority <0-7>'"),
        ("show fdb --vlan 4095", "error: invalid value '4095' for '--vlan <VID>'"),
        ("show pfc --style cisco", "error: invalid value 'cisco' for '--style <STYLE>'"),
        ("fdb flush --vlan x", "error: invalid value 'x' for '--vlan <VID>'"),
        ("port push a", "error: invalid value 'push' for '<ACTION>'"),
        ("pfc lift-limit a 9", "error: invalid value '9' for '[PRIORITY]'"),
        ("clear everything", "error: invalid value 'everything' for '<WHAT>'"),
        ("show ports --watch=0", "sluice: --watch takes 0.05 to 3600 seconds, not 0"),
        ("show ports --bytes", "sluice: --bytes is for `show buffers` and `show queues`"),
        ("show ports --style sonic", "sluice: --style is for `show pfc`"),
        ("show ports history", "sluice: `history` is for `show pfc`: `show ports` has none"),
        ("show ports --vlan 3", "sluice: --vlan is for `show fdb`"),
        ("show version --port a", "sluice: --port is for views of ports"),
        ("show fdb --priority 3", "sluice: --priority is for views of priorities"),
        ("show maps -nz", "sluice: --nonzero is for counters"),
        ("show config --rates", "sluice: --rates is for counters"),
        ("schema events history", "sluice: `history` is for `schema pfc`: `schema events` has none"),
        ("schema ports history", "sluice: `history` is for `show pfc`: `show ports` has none"),
        ("lab exec sw", "error: the following required arguments were not provided"),
        ("lab up --duration x y.toml", "error: invalid value 'x' for '--duration <TIME>'"),
        ("lab down --all x", "error: the argument '--all' cannot be used with"),
        ("clear watermarks --undo", "sluice: cleared watermarks cannot be restored"),
    ] {
        let output = sluice(command).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {error}");
        assert!(error.starts_with(expected), "{command}: {error}");
    }
}

/// `-h` of every command fits a screen; the fields of JSON are in `--help`.
#[test]
fn short_help_fits_a_screen() {
    for command in [
        "",
        "show",
        "reload",
        "pfc",
        "port",
        "clear",
        "fdb",
        "events",
        "record",
        "replay",
        "check",
        "headroom",
        "sim",
        "lab",
        "lab up",
        "lab exec",
        "telemetry",
        "collector",
        "nic",
        "nic attach",
        "host",
    ] {
        let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
        let output =
            sluice.args(command.split(' ').filter(|word| !word.is_empty())).arg("-h").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let lines = help.lines().count();
        assert!(output.status.success() && lines <= 45, "sluice {command} -h has {lines} lines:\n{help}");
    }
}
