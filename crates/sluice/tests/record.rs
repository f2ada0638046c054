//! `sluice record` as a process, without a daemon.

use std::fs;
use std::process::Command;

/// Only a complete recording replaces the previous content of the file.
#[test]
fn a_recording_that_fails_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("old.recording"), folder.path().join("none.sock"));
    fs::write(&file, "an older recording").unwrap();
    let record = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.arg("record").arg(&file).arg("--socket").arg(&socket).args(arguments);
        let output = command.output().unwrap();
        let expected = if arguments == ["--last"] { 3 } else { 2 };
        assert_eq!(output.status.code(), Some(expected), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(record(&["--last"]).contains("no daemon listens"), "{}", record(&["--last"]));
    for duration in ["10us", "7200s"] {
        assert!(record(&["--duration", duration]).contains("--duration takes 1ms to 3600s"), "{duration}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "an older recording");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left over");
}
