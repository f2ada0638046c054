//! Programs that tests run beside the daemon: `sluice`, and BPF programs.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::{Daemon, Testbed, binary};

/// Runs `sluice` with these arguments on a daemon and returns its output.
///
/// # Errors The command failed; the error is its output.
pub fn sluice(daemon: &Daemon, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new(binary("sluice")?).args(arguments).arg("--socket").arg(daemon.socket()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the events of a kind that the daemon still has, oldest first, as `sluice events --json`
/// prints them.
pub fn events(daemon: &Daemon, kind: &str) -> Result<Vec<Value>> {
    let text = sluice(daemon, &["events", "--json"])?;
    let all: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok(all.into_iter().filter(|event| event["kind"] == kind).collect())
}

/// Runs `sluice` with `arguments` on a terminal of 100 columns until it shows all of `awaited`,
/// presses `keys`, and waits until it ends by itself. Returns what it wrote to the terminal.
pub fn sluice_on_terminal(arguments: &[&str], awaited: &[&str], keys: &str) -> Result<String> {
    let program = binary("sluice")?;
    let (program, arguments) = (program.display(), arguments.join(" "));
    let command = format!("stty cols 100 rows 30; exec timeout --foreground 60 {program} {arguments}");
    let mut script = Command::new("script")
        .args(["--quiet", "--flush", "--return", "--command", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut shown, mut piece) = (String::new(), [0; 4096]);
    let output = script.stdout.as_mut().context("its output")?;
    while !awaited.iter().all(|text| shown.contains(text)) {
        let read = output.read(&mut piece)?;
        ensure!(read > 0, "it ended: {shown}");
        shown += &String::from_utf8_lossy(&piece[..read]);
    }
    script.stdin.as_mut().context("its input")?.write_all(keys.as_bytes())?;
    let output = script.wait_with_output()?;
    ensure!(output.status.success(), "{}: {shown}", output.status);
    Ok(shown + &String::from_utf8_lossy(&output.stdout))
}

/// A BPF program of `bpf/`, as `tc` and `ip` load it.
#[derive(Debug, Clone, Copy)]
pub enum Bpf {
    /// A classifier (section `classifier`) that gives each frame an out-of-band VLAN tag: VLAN 7,
    /// priority 5.
    VlanPush,
    /// An XDP program (section `xdp`) that passes everything.
    XdpPass,
}

/// Writes an object file into the testbed's directory and returns its path.
pub fn bpf_object(bed: &Testbed, program: Bpf) -> Result<PathBuf> {
    let bytes: &[u8] = match program {
        Bpf::VlanPush => include_bytes!(env!("VLAN_PUSH_BPF")),
        Bpf::XdpPass => include_bytes!(env!("XDP_PASS_BPF")),
    };
    let object = bed.dir().join(format!("{program:?}.o"));
    std::fs::write(&object, bytes)?;
    Ok(object)
}
