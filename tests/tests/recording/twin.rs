//! The twin of a daemon: an incast on real veths is recorded, made a scenario, and simulated with
//! the thresholds of the daemon and with lower ones (docs/simulator.md, "Twins").
//!
//! The machine decides how much the hosts send, and when. All that is compared follows from that:
//! the frames that the daemon counted, and two simulations of the same recording. The recorder has
//! memory for many times as many frames, so a gap in the recording is a defect.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use control::v1::Count;
use serde_json::Value;
use testbed::{Host, binary, idle, port};
use tests::{Incast, UNTIL_STOPPED, sluice};

const SENDERS: [&str; 2] = ["a", "b"];
/// Priorities of the incast, the no-drop one first.
const PRIORITIES: [usize; 2] = [3, 0];
/// So often each sender is paused before the incast ends.
const RECORDED_XOFFS: u64 = 10;
/// Frames of four cells that leave a group of the daemon between XOFF and XON.
const XON_OFFSET_FRAMES: u64 = 2048 / 4;
/// XOFF of the lower thresholds: a sixty-fourth of the daemon's.
const LOW_XOFF_CELLS: u32 = 64;
/// The no-drop queue of the receiver's port sends more: its share is half of 100 Mbit/s.
const LEAST_BYTES_PER_S: u64 = 100_000_000 / 8 / 4;

/// Runs `sluice` without a daemon, and returns its exit code and the JSON that it prints.
fn json_of(arguments: &[&str]) -> Result<(Option<i32>, Value)> {
    let output = Command::new(binary("sluice")?).args(arguments).arg("--json").output()?;
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let json = serde_json::from_str(&stdout);
    Ok((output.status.code(), json.with_context(|| format!("{arguments:?}: {stdout}\n{stderr}"))?))
}

/// Returns a number of a simulated priority group.
fn of_group(results: &Value, name: &str, priority: usize, path: &str) -> Result<u64> {
    let rows = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let ports = rows(&results["switches"][0], "ports");
    let port = ports.iter().find(|port| port["name"] == name).with_context(|| format!("no port {name}"))?;
    let groups = rows(port, "groups");
    let group = groups.iter().find(|group| group["priority"] == priority);
    let number = group.and_then(|group| group.pointer(path)?.as_u64());
    number.with_context(|| format!("port {name}, priority {priority}: no {path} in {port:#}"))
}

/// Simulates a twin, with other values of some settings of the senders' no-drop groups. Returns the
/// exit code, 0 if no no-drop frame is lost, and the results.
fn simulate(scenario: &str, duration: &str, set: &[String]) -> Result<(Option<i32>, Value)> {
    let of_sender = |name| set.iter().map(move |set| format!("switch.toml:port.{name}.pfc.priority.3.{set}"));
    let set: Vec<String> = SENDERS.iter().flat_map(of_sender).collect();
    let set = set.iter().flat_map(|set| ["--set", set]);
    json_of(&["sim", scenario, "--set", duration].into_iter().chain(set).collect::<Vec<_>>())
}

#[test]
fn a_recorded_incast_has_the_same_frames_in_its_twin() -> Result<()> {
    let incast = Incast::new()?;
    let daemon = incast.daemon("\n[recorder]\nalways = true\n")?;
    let (mut sending, receiving) = incast.hosts(UNTIL_STOPPED)?;
    daemon.until_announced(3)?;
    sending.iter_mut().try_for_each(Host::start_sending)?;
    daemon.until("each sender was paused", |now| {
        let xoffs = |name: &&str| Some(port(now, name).ok()?.groups[3].xoff_episodes);
        SENDERS.iter().all(|name| xoffs(name) >= Some(RECORDED_XOFFS)).then_some(())
    })?;
    Host::stop_all(sending)?;
    let recorded = daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    Host::stop_all(vec![receiving])?;

    let [file, folder] = ["incast.rec", "twin"].map(|name| incast.bed.dir().join(name));
    let [file, folder] = [file.display().to_string(), folder.display().to_string()];
    sluice(&daemon, &["record", "--last", &file])?;
    let config = daemon.config().display().to_string();
    let (code, twin) = json_of(&["twin", &folder, "--recording", &file, "--config", &config])?;
    println!("{twin:#}");
    ensure!(code == Some(0) && twin["differences"] == serde_json::json!([]), "{twin:#}");
    // Each host announced itself to an address that no port has, so the notes are not empty.
    let notes = twin["notes"].to_string();
    ensure!(notes.contains("flooded frames") && !notes.contains("gap"), "{twin:#}");

    // Frames that a paused host has at the recording's end are sent after it.
    let received = |name: &str, priority: usize| -> Result<Count> {
        Ok(port(&recorded, name)?.groups[priority].received.unwrap_or_default())
    };
    let no_drop_bytes = received("a", 3)?.bytes + received("b", 3)?.bytes;
    let longer_ns = (no_drop_bytes * 1_000_000_000).div_ceil(LEAST_BYTES_PER_S);
    let duration_ns = twin["duration_ns"].as_u64().context("a duration")? + longer_ns;
    let duration = format!("duration={duration_ns}ns");

    let scenario = format!("{folder}/scenario.toml");
    let low =
        [format!("xoff.static_cells={LOW_XOFF_CELLS}"), format!("xon_offset_cells={}", LOW_XOFF_CELLS / 2)];
    let no_headroom = [&low[..], &["headroom_cells=0".to_owned()]].concat();
    let (same, low) = (simulate(&scenario, &duration, &[])?, simulate(&scenario, &duration, &low)?);
    let (code, no_headroom) = simulate(&scenario, &duration, &no_headroom)?;
    ensure!((same.0, low.0) == (Some(0), Some(0)), "a no-drop frame is lost: {same:?} {low:?}");
    ensure!(code == Some(1), "no headroom, and no loss: {no_headroom:#}");
    for name in SENDERS {
        for priority in PRIORITIES {
            let Count { frames, bytes } = received(name, priority)?;
            for results in [&same.1, &low.1, &no_headroom] {
                let of_twin = |what| of_group(results, name, priority, &format!("/received/{what}"));
                let offered = (of_twin("frames")?, of_twin("bytes")?);
                ensure!(offered == (frames, bytes), "{name}, {priority}: {offered:?}, {frames}, {bytes}");
            }
        }
        let xoffs = |results| of_group(results, name, 3, "/xoff_episodes");
        let of_daemon = port(&recorded, name)?.groups[3].xoff_episodes;
        let (of_twin, of_low) = (xoffs(&same.1)?, xoffs(&low.1)?);
        println!("XOFFs of {name}: {of_daemon} recorded, {of_twin} simulated, {of_low} with a low XOFF");
        // From one XOFF to the next, the frames of the XON offset must have left.
        let most = 1 + received(name, 3)?.frames / XON_OFFSET_FRAMES;
        ensure!((1..=most).contains(&of_twin), "{name}: {of_twin} of at most {most}");
        ensure!(of_low > of_daemon.max(of_twin), "{name}: {of_daemon}, {of_twin}, {of_low}");
    }
    daemon.stop()?;
    Ok(())
}
