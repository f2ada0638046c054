//! No reading of the wall clock steers anything: an operator, NTP or a virtual machine may step it
//! at any time. Times that something depends on are CLOCK_MONOTONIC (`std::time::Instant`). The
//! files that read the wall clock at all are listed here, each with what it is for: a time that is
//! shown or written, and no more.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Readings of the wall clock, in Rust and in C.
const READINGS: [&str; 8] = [
    "SystemTime::now",
    "Timestamp::now",
    "Zoned::now",
    "CLOCK_REALTIME",
    "CLOCK_TAI",
    "gettimeofday",
    ".modified()",
    "bpf_ktime_get_tai",
];

/// The files that read it, and what becomes of the time.
const ALLOWED: [(&str, &str); 4] = [
    ("crates/sluice/src/collector/mod.rs", "the time of day before a message that is printed"),
    ("crates/sluiced/src/event_log.rs", "`unix_ns` of an event, and the times of captured frames"),
    ("crates/telemetry/src/dial_out/message.rs", "the timestamps of messages to collectors"),
    ("crates/testbed/src/bin/sluice-demo/network.rs", "the age of a message in the demo"),
];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository")
}

/// Returns all sources of programs in a folder, by path.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(top().join(folder)).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "c") {
            found.push(path);
        }
    }
    Ok(())
}

#[test]
fn only_what_is_shown_or_written_is_a_time_of_the_wall_clock() -> Result<()> {
    let mut paths = Vec::new();
    sources(Path::new("bpf"), &mut paths)?;
    for entry in fs::read_dir(top().join("crates"))? {
        sources(&Path::new("crates").join(entry?.file_name()).join("src"), &mut paths)?;
    }
    assert!(paths.len() > 200, "{} files", paths.len());
    let mut readers = Vec::new();
    for path in paths {
        let text = fs::read_to_string(top().join(&path))?;
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        if text.lines().filter(is_code).any(|line| READINGS.iter().any(|reading| line.contains(reading))) {
            readers.push(path.display().to_string());
        }
    }
    readers.sort();
    assert_eq!(readers, ALLOWED.map(|(path, _)| path), "files that read the wall clock");
    Ok(())
}
