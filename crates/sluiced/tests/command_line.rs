//! What `sluiced` rejects, its messages, and its exit codes. No test here touches an interface.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

/// Returns a valid configuration, which may still not fit the machine.
fn config(socket: &Path) -> String {
    format!(
        "[control]\nsocket = \"{}\"\n\n[dataplane]\ncores = [0]\n\n[port.left]\ninterface = \"no-such-left\"\n\n\
         [port.right]\ninterface = \"no-such-right\"\n",
        socket.display()
    )
}

fn sluiced(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluiced"));
    command.args(arguments).env_remove("RUST_LOG").env("NO_COLOR", "1").output().unwrap()
}

/// Runs `sluiced` on this text. Returns its exit code and its standard error.
fn run(folder: &Path, text: &str, more: &[&str]) -> (i32, String) {
    let file = folder.join("test.toml");
    fs::write(&file, text).unwrap();
    let output = sluiced(&[&["--config", file.to_str().unwrap()], more].concat());
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn assert_output(output: &str, words: &[&str]) {
    for word in words {
        assert!(output.contains(word), "`{word}` is missing in:\n{output}");
    }
    assert!(!output.contains("panicked"), "{output}");
}

#[test]
fn a_mistake_is_shown_with_file_line_column_and_the_nearest_name() {
    let folder = tempfile::tempdir().unwrap();
    let text = config(&folder.path().join("x.sock")) + "sped = \"1G\"\n";
    for more in [&[][..], &["--check"]] {
        let (code, output) = run(folder.path(), &text, more);
        assert_eq!(code, 2, "{output}");
        assert_output(&output, &["test.toml:12:1: port.right.sped", "speed", "sped = \"1G\""]);
    }
}

#[test]
fn several_mistakes_are_shown_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = config(&folder.path().join("x.sock")) + "trust = \"dot2p\"\nport_priority = 9\n";
    let (code, output) = run(folder.path(), &text, &[]);
    assert_eq!(code, 2, "{output}");
    assert_output(&output, &["test.toml:12:", "dot2p", "test.toml:13:", "port_priority"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let output = sluiced(&["--config", "/nowhere/sluice.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert_output(
        &String::from_utf8_lossy(&output.stderr),
        &["cannot read /nowhere/sluice.toml: No such file"],
    );
}

#[test]
fn check_accepts_a_valid_file_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("x.sock");
    let file = folder.path().join("test.toml");
    fs::write(&file, config(&socket)).unwrap();
    let output = sluiced(&["--check", "--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}: right, 2 ports\n", file.display()));
    assert!(!socket.exists());
}

#[test]
fn warnings_are_shown_by_check_and_logged_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let text = config(&folder.path().join("x.sock")) + "pfc = { mode = \"on\", no_drop = [3, 6] }\n";
    let warning = "test.toml:12:32: port.right.pfc.no_drop: PFC is";
    let (code, output) = run(folder.path(), &text, &["--check"]);
    assert_eq!(code, 0, "{output}");
    assert_output(&output, &[warning, "no_drop = [3, 6]"]);
    let (code, output) = run(folder.path(), &text, &["--strict"]);
    assert_eq!(code, 1, "the interfaces are not there: {output}");
    assert_output(&output, &["WARN", warning, "take priorities from 1 to 5"]);
}

#[test]
fn a_strict_start_names_an_interface_that_is_not_there_with_the_cure() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("x.sock");
    let (code, output) = run(folder.path(), &config(&socket), &["--strict"]);
    assert_eq!(code, 1, "{output}");
    assert_output(
        &output,
        &["sluiced: port left: interface no-such-left: there is no such interface here", "`ip link`"],
    );
    assert!(!socket.exists());
}

#[test]
fn a_core_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = config(&folder.path().join("x.sock")).replace("cores = [0]", "cores = [1023]");
    let (code, output) = run(folder.path(), &text, &[]);
    assert_eq!(code, 1, "{output}");
    assert_output(&output, &["dataplane.cores: there is no core 1023 for this process; it may use "]);
}

#[test]
fn a_socket_that_another_daemon_listens_on_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("x.sock");
    let _other = UnixListener::bind(&socket).unwrap();
    let (code, output) = run(folder.path(), &config(&socket), &[]);
    assert_eq!(code, 1, "{output}");
    assert_output(&output, &["x.sock: another sluiced runs with this socket", "control.socket"]);
    assert!(socket.exists());
}

#[test]
fn a_log_level_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (code, output) =
        run(folder.path(), &config(&folder.path().join("x.sock")), &["--log-level", "sluiced=loud"]);
    assert_eq!(code, 2, "{output}");
    assert_output(&output, &["cannot log at `sluiced=loud`", "try error, warn, info, debug or trace"]);
}

#[test]
fn a_log_for_programs_is_an_object_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = config(&folder.path().join("x.sock")) + "pfc = { mode = \"on\", no_drop = [3, 6] }\n";
    let (code, output) = run(folder.path(), &text, &["--strict", "--log-format", "json"]);
    assert_eq!(code, 1, "{output}");
    let lines: Vec<serde_json::Value> =
        output.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let is_warning = |line: &&serde_json::Value| {
        line["message"].as_str().unwrap().contains("port.right.pfc.no_drop: PFC is")
    };
    assert_eq!(lines.iter().find(is_warning).unwrap()["level"], "WARN", "{output}");
    let last = lines.last().unwrap()["message"].as_str().unwrap();
    assert_output(last, &["port left: interface no-such-left: there is no such interface here"]);
}

#[test]
fn the_help_lists_signals_and_exit_codes() {
    let output = sluiced(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = String::from_utf8_lossy(&output.stdout);
    for word in
        ["--config <FILE>", "--check", "RUST_LOG", "SIGTERM", "SIGHUP", "Exit codes: 0", "sluice show"]
    {
        assert!(help.contains(word), "{word}:\n{help}");
    }
}
