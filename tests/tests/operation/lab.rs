//! `sluice lab`: built from a scenario, used, and removed, however it ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use testbed::{Process, Testbed, binary, eventually};

/// The name of a lab of this test, which is removed at the end.
struct Lab(String);

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = lab(&["down", &self.0]); // most tests have removed it
    }
}

impl Lab {
    fn new(role: &str) -> Self {
        Self(format!("t{}{role}", std::process::id()))
    }

    /// Checks that nothing of the lab is left.
    fn is_gone(&self) -> Result<()> {
        let names = Command::new("ip").args(["netns", "list"]).output()?;
        let names = String::from_utf8(names.stdout)?;
        ensure!(!names.contains(&self.0), "namespaces are left: {names}");
        ensure!(!Path::new("/run/sluice-lab").join(&self.0).exists(), "its folder is left");
        let processes = Command::new("pgrep").args(["-f", &format!("sluice-lab/{}/", self.0)]).output()?;
        ensure!(
            processes.stdout.is_empty(),
            "processes are left: {}",
            String::from_utf8_lossy(&processes.stdout)
        );
        Ok(())
    }
}

fn lab(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(binary("sluice")?).arg("lab").args(arguments).output()?)
}

/// Runs `sluice lab …`, which must exit with `code`. Returns its outputs.
fn run(arguments: &[&str], code: i32) -> Result<(String, String)> {
    let output = lab(arguments)?;
    let (out, error) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    ensure!(output.status.code() == Some(code), "{arguments:?}: {}\n{out}\n{error}", output.status);
    Ok((out, error))
}

fn scenario() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/scenarios/first.toml").display().to_string()
}

#[test]
fn a_lab_is_built_judged_used_and_removed() -> Result<()> {
    let _bed = Testbed::new()?; // for the lock
    let name = Lab::new("a");
    let (verdict, _) = run(&["up", &scenario(), "--name", &name.0, "--duration", "2s", "--json"], 0)?;
    let verdict: Value = serde_json::from_str(&verdict)?;
    println!("{verdict:#}");
    assert_eq!((&verdict["holds"], &verdict["lab"]), (&true.into(), &name.0.as_str().into()));
    let storage = &verdict["traffic"][0];
    assert!(storage["sent_frames"].as_u64() > Some(10_000) && storage["lost_frames"] == 0, "{storage}");
    assert_eq!(verdict["expectations"].as_array().map(Vec::len), Some(3));

    let (status, _) = run(&["status", &name.0, "--json"], 0)?;
    let status: Value = serde_json::from_str(&status)?;
    assert_eq!((&status[0]["status"], &status[0]["hosts"][2]["name"]), (&"up".into(), &"receiver".into()));
    let to = status[0]["hosts"][2]["ipv4"].as_str().context("an address")?;
    run(&["exec", "--lab", &name.0, "sender1", "ping", "-c", "2", "-W", "5", to], 0)?;
    let (ports, _) = run(&["exec", "--lab", &name.0, "sw", "sluice", "show", "ports"], 0).or_else(|_| {
        let sluice = binary("sluice")?.display().to_string();
        run(&["exec", "--lab", &name.0, "sw", &sluice, "show", "ports"], 0)
    })?;
    assert!(ports.contains("receiver"), "{ports}");
    let (_, error) = run(&["exec", "--lab", &name.0, "sender9", "true"], 2)?;
    assert!(error.contains("has no sender9; it has sw, sender1, sender2, receiver"), "{error}");
    run(&["exec", "--lab", &name.0, "sender1", "sh", "-c", "exit 7"], 7)?;

    // Its name is taken, and it is not harmed.
    let (_, error) = run(&["up", &scenario(), "--name", &name.0], 1)?;
    assert!(error.contains("is up: remove it with `sluice lab down"), "{error}");
    run(&["exec", "--lab", &name.0, "sender1", "ping", "-c", "1", "-W", "5", to], 0)?;
    run(&["down", &name.0], 0)?;
    name.is_gone()?;
    let (_, error) = run(&["down", &name.0], 2)?;
    assert!(error.contains(&format!("there is no lab {}", name.0)), "{error}");
    Ok(())
}

fn start(name: &Lab, more: &[&str]) -> Result<Process> {
    let mut command = Command::new(binary("sluice")?);
    command.args(["lab", "up", &scenario(), "--name", &name.0, "--duration", "600s"]).args(more);
    let mut up = Process::start("lab", &mut command)?;
    up.wait_for("traffic", |line| line.contains("of 600.0 s").then_some(()))?;
    Ok(up)
}

#[test]
fn ctrl_c_removes_everything() -> Result<()> {
    let _bed = Testbed::new()?;
    let name = Lab::new("b");
    let mut up = start(&name, &[])?;
    let (_, error) = run(&["down", &name.0], 1)?;
    assert!(error.contains("is being built, or runs its traffic"), "{error}");
    up.signal(Signal::SIGINT)?;
    let status = up.wait(Duration::ZERO)?;
    assert_eq!(status.code(), Some(130), "{}", up.log());
    assert!(up.log().contains("interrupted; everything is removed again"), "{}", up.log());
    name.is_gone()
}

/// A lab whose builder was killed can be removed, and its hosts have ended with the builder.
#[test]
fn what_a_killed_builder_left_is_removed() -> Result<()> {
    let _bed = Testbed::new()?;
    let name = Lab::new("c");
    let mut up = start(&name, &[])?;
    up.signal(Signal::SIGKILL)?;
    up.wait(Duration::ZERO)?;
    eventually("the lab can be removed", || Ok(lab(&["down", &name.0])?.status.success().then_some(())))?;
    name.is_gone()?;

    // Killed before it wrote what it makes.
    std::fs::create_dir(Path::new("/run/sluice-lab").join(&name.0))?;
    let (status, _) = run(&["status", &name.0], 0)?;
    assert!(status.contains("broken"), "{status}");
    run(&["down", &name.0], 0)?;
    name.is_gone()
}

/// A switch that does not start: its log is shown, and everything removed.
#[test]
fn a_failure_removes_everything() -> Result<()> {
    let bed = Testbed::new()?;
    let name = Lab::new("d");
    let config = std::fs::read_to_string(scenario().replace("scenarios/first", "incast"))?;
    std::fs::write(bed.dir().join("switch.toml"), format!("{config}\n[dataplane]\ncores = [1023]\n"))?;
    let file: PathBuf = bed.dir().join("lab.toml");
    std::fs::write(&file, std::fs::read_to_string(scenario())?.replace("../incast.toml", "switch.toml"))?;
    let file = file.display().to_string();
    let (_, error) = run(&["up", &file, "--name", &name.0], 1)?;
    assert!(error.contains("switch sw ended:") && error.contains("there is no core 1023"), "{error}");
    name.is_gone()
}
