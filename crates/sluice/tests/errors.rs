//! Every command where it cannot do its work: without a daemon, with one that may not be asked or
//! is of another version, with wrong input. One clear line, and the exit code of the rule (`sluice
//! --help`). The commands are those of the command line itself: a new one has to have its row.

#[path = "fixtures/commands.rs"]
mod commands;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

use commands::COMMANDS;

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

/// Returns the names of all commands that have no subcommands, as their manual pages have them.
fn names() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    assert!(sluice(&format!("manuals {}", folder.path().display())).status().unwrap().success());
    let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name());
    let pages: Vec<String> = files.map(|name| name.to_str().unwrap().replace(".1", "")).collect();
    let has_more = |page: &str| pages.iter().any(|other| other.starts_with(&format!("{page}-")));
    pages
        .iter()
        .filter(|page| !has_more(page))
        .filter_map(|page| Some(page.strip_prefix("sluice-")?.to_owned()))
        .collect()
}

#[test]
fn every_command_has_its_row() {
    // `sweep` does its work with and without a subcommand; `manuals` is hidden.
    let rows = COMMANDS
        .iter()
        .map(|row| row.name.to_owned())
        .filter(|name| !["sweep", "manuals"].contains(&name.as_str()))
        .collect();
    assert_eq!(names(), rows);
    for row in COMMANDS {
        let all = row.daemon.iter().copied().chain(row.changes.iter().map(|(command, _)| *command));
        let wrong = row.wrong.iter().map(|(command, ..)| *command);
        for command in all.chain(wrong) {
            let is_its = command.replace(' ', "-").starts_with(row.name);
            assert!(is_its, "{command} is in the row of {}", row.name);
        }
        assert!(!row.wrong.is_empty(), "{}: no wrong input", row.name);
    }
}

/// All commands that talk to a daemon.
fn of_daemon() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().flat_map(|row| row.daemon.iter().copied().chain(row.changes.iter().map(|(of, _)| *of)))
}

#[test]
fn no_daemon() {
    for command in of_daemon() {
        let output = sluice(command).output().unwrap();
        check(command, &output, 3, "sluice: no daemon listens on /nowhere/sluice.sock: ");
    }
}

/// A daemon of another version, which refuses every call, or does not know it.
#[test]
fn a_daemon_of_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let refuses = || {
        let why = "the client speaks version 1 of the control API, sluiced 2.0.0 speaks version 2: use the sluice \
                   that came with it";
        tonic::Status::failed_precondition(why)
    };
    let does_not_know = || tonic::Status::unimplemented("");
    for (name, answer, expected) in [
        ("a", refuses as fn() -> tonic::Status, "sluice: the client speaks version 1 of the control API, "),
        ("b", does_not_know, "sluice: the daemon on "),
    ] {
        let socket = folder.path().join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || serve_errors(listener, answer)); // it ends with the test
        for command in of_daemon() {
            let output = sluice(command).env("SLUICE_SOCKET", &socket).output().unwrap();
            check(command, &output, 1, expected);
        }
    }
}

/// Answers every call with an error.
fn serve_errors(listener: UnixListener, answer: fn() -> tonic::Status) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime
        .block_on(async {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::UnixListener::from_std(listener).unwrap();
            let connections = futures::stream::poll_fn(move |context| {
                listener.poll_accept(context).map(|accepted| Some(accepted.map(|(stream, _)| stream)))
            });
            let refuse = tonic::service::InterceptorLayer::new(move |_| Err(answer()));
            let routes = tonic::service::Routes::default();
            tonic::transport::Server::builder()
                .layer(refuse)
                .add_routes(routes)
                .serve_with_incoming(connections)
                .await
        })
        .unwrap();
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
    for command in of_daemon() {
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
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let changes = COMMANDS.iter().flat_map(|row| row.changes).copied();
    for (command, what) in changes.chain([("show version", "")]) {
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
                // The progress of a recording is on standard error, too.
                let error = String::from_utf8_lossy(&output.stderr);
                match what {
                    "record" => {
                        assert!(output.status.code() == Some(1) && error.contains(&expected), "{error}")
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
    for (command, code, expected) in COMMANDS.iter().flat_map(|row| row.wrong).copied() {
        let output = sluice(command).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{command}: {error}");
        assert!(error.starts_with(expected), "{command}: {error}");
        // The parser of the command line adds its usage.
        assert!(expected.starts_with("error: ") || error.lines().count() == 1, "{command}: {error}");
    }
}

/// As `| head` closes it: the rest is not wanted, and that is no failure. A daemon's answers are
/// printed by the same functions.
#[test]
fn a_closed_pipe_fails_no_command_that_prints_without_a_daemon() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for command in COMMANDS.iter().flat_map(|row| row.prints).copied().chain(["--help"]) {
        let run = |stdout: Stdio| sluice(command).current_dir(root).stdout(stdout).output().unwrap();
        let whole = run(Stdio::piped());
        assert!(whole.status.success() && !whole.stdout.is_empty(), "{command} prints nothing");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = run(writer.into());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {} {error}", output.status);
        assert!(!error.contains("panicked") && !error.contains("Broken pipe"), "{command}: {error}");
    }
}

#[test]
fn unknown_options() {
    for name in names() {
        let words = COMMANDS.iter().find(|row| row.name == name).map_or(name.as_str(), |row| row.words);
        let output = sluice(&format!("{words} --no-such-option")).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.starts_with("error: unexpected argument '--no-such-option' found"), "{name}: {error}");
    }
}

/// `-h` of every command fits a screen; the fields of JSON are in `--help`.
#[test]
fn short_help_fits_a_screen() {
    for command in COMMANDS.iter().map(|row| row.words).chain(["", "lab", "nic", "pfc", "fdb", "telemetry"]) {
        let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
        let output =
            sluice.args(command.split(' ').filter(|word| !word.is_empty())).arg("-h").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let lines = help.lines().count();
        assert!(output.status.success() && lines <= 45, "sluice {command} -h has {lines} lines:\n{help}");
    }
}
