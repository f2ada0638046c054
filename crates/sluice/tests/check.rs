//! `sluice check` as a process: exit code, standard output, standard error.

use std::fs;
use std::process::Command;

const RIGHT: &str = "[port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\n";
const WARNED: &str =
    "[port.a]\ninterface = \"veth0\"\ntrust = \"none\"\npfc = { mode = \"on\", no_drop = [6] }\n";
const WRONG: &str = "[port.a]\nsped = \"1G\"\n";

/// Checks these files in a folder that has all of the above, and not `missing.toml`.
fn check(arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("right.toml", RIGHT), ("warned.toml", WARNED), ("wrong.toml", WRONG)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    fs::write(folder.path().join("binary.toml"), [0xff, 0xfe]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    // The format of mistakes depends on the environment.
    command.arg("check").args(arguments).current_dir(&folder);
    command.env_clear().env("NO_COLOR", "1").env("LC_ALL", "C.UTF-8").env("TERM", "dumb");
    // No daemon of this machine is asked.
    let output = command.env("SLUICE_SOCKET", "/nowhere/sluice.sock").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn exit_codes() {
    for (arguments, expected) in [
        (&["right.toml"][..], 0),
        (&["right.toml", "--strict"], 0),
        (&["warned.toml"], 0),
        (&["right.toml", "warned.toml", "--strict"], 1),
        (&["warned.toml", "--strict", "--json"], 1),
        (&["wrong.toml"], 2),
        (&["warned.toml", "wrong.toml", "right.toml", "--strict"], 2),
        (&["wrong.toml", "--json"], 2),
        (&["missing.toml"], 2),
        (&["binary.toml"], 2),
        (&[], 2),
    ] {
        let (code, out, err) = check(arguments);
        assert_eq!(code, expected, "{arguments:?}\n{out}{err}");
        assert!(!err.contains("panicked"), "{arguments:?}\n{err}");
    }
}

#[test]
fn text_form() {
    let (_, out, err) = check(&["right.toml", "warned.toml", "wrong.toml", "missing.toml"]);
    insta::assert_snapshot!(format!("{out}--- standard error\n{err}"));
}

/// Ports with different MTUs, and one whose speed has to be assumed.
#[test]
fn what_is_assumed_and_what_differs_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mtus.toml");
    let text = "[port-defaults]\npfc = { mode = \"on\", no_drop = [3] }\n[port.a]\ninterface = \"none0\"\n\
                mtu = 9018\nspeed = \"1G\"\n[port.b]\ninterface = \"none1\"\n";
    fs::write(&file, text).unwrap();
    let (code, out, err) = check(&[file.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("mtus.toml: accepted with "), "{out}");
    assert!(out.contains("port b, priority 3: 100 headroom cells last 5.1 µs at 10G, which is assumed: the port has no `speed`"), "{out}");
    assert!(out.contains("port a, priority 3: 100 headroom cells last 51.2 µs at 1G\n"), "{out}");
    assert!(
        err.contains(
            "mtus.toml: warning: `mtu` differs (b 1518 instead of 9018; without the setting it is 1518)"
        ),
        "{err}"
    );
}

#[test]
fn for_programs() {
    let (_, out, err) = check(&["--json", "right.toml", "warned.toml", "wrong.toml", "missing.toml"]);
    assert_eq!(err, "");
    insta::assert_snapshot!(out);
    assert_eq!(check(&["--json", "right.toml"]).1, "[]\n");
}

/// Output that cannot be written is an error of every command; no daemon is asked.
#[test]
fn a_full_standard_output_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("right.toml"), RIGHT).unwrap();
    for (arguments, expected) in [
        (&["check", "right.toml"][..], 2),
        (&["check", "--json", "right.toml"], 2),
        (&["headroom", "--speed", "10G", "--cable", "1m"], 1),
        (&["headroom", "--speed", "10G", "--cable", "1m", "--json"], 1),
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        let output = command.args(arguments).current_dir(&folder).stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}: {err}");
        assert!(err.contains("sluice: cannot write to standard output: No space left on device"), "{err}");
    }
}

/// A file of 100 MiB is not read, and reported as too long.
#[test]
fn long_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.toml");
    fs::write(&file, "#".repeat(100 << 20)).unwrap();
    let (code, _, err) = check(&[file.to_str().unwrap()]);
    assert_eq!(code, 2);
    assert!(err.contains("the file has 100 MiB; 1 MiB is the most"), "{err}");
}
