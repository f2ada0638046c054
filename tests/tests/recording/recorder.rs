//! The daemon and the switch agree exactly: the same switch replays the recording of a loop on real
//! veths to the same counters, watermarks, frames and events, however busy the machine was
//! (docs/monitoring/recorder.md).

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use control::{BlockingClient, v1};
use dataplane::Replay;
use switch::{Event, Instant};
use testbed::{Daemon, Testbed};
use tests::{CpuLoad, flow, group_config, port_config, run, slow_port_config, sluice, switch_config};
use xdp::Scheduling;

/// Headroom of a sender's group.
const HEADROOM_CELLS: u32 = tests::AMPLE_HEADROOM_CELLS;

/// A short recording, with snapshots of the daemon during it, and shortly before and after it.
struct ShortRecording {
    recording: Vec<u8>,
    output: Vec<v1::Snapshot>,
}

/// Records for a moment and takes snapshots meanwhile.
fn moment(daemon: &Daemon) -> Result<ShortRecording> {
    let record = || -> Result<Vec<u8>> {
        Ok(BlockingClient::connect(daemon.socket())?.record(Duration::from_millis(400))?)
    };
    thread::scope(|scope| {
        let recording = scope.spawn(record);
        let mut output = Vec::new();
        while !recording.is_finished() {
            output.push(daemon.snapshot()?);
            thread::sleep(Duration::from_millis(50));
        }
        let recording = recording.join().expect("no panic")?;
        Ok(ShortRecording { recording, output })
    })
}

/// Removes what is not the switch's: kernel counters, loop statistics, interfaces.
fn of_the_switch(mut snapshot: v1::Snapshot) -> v1::Snapshot {
    for port in &mut snapshot.ports {
        port.kernel = None;
        port.interface.clear();
        port.xdp_mode.clear();
        port.vlan_tags_restored = false;
        port.mtu_bytes = 0;
        port.link = None;
        port.classification = None;
        port.lldp = None;
        port.dcbx = None;
        port.pfc_mode.clear();
    }
    v1::Snapshot {
        memory_frames: 0,
        memory_free_frames: 0,
        memory_in_rings_frames: 0,
        loop_turns: 0,
        loop_worst_stall_ns: 0,
        loop_awake_ns: 0,
        loop_turns_by_time: Vec::new(),
        loops: Vec::new(),
        events_lost: 0,
        log_lines_lost: 0,
        log_lines_left_out: 0,
        recordings_kept: 0,
        recordings_kept_bytes: 0,
        recordings_frozen: 0,
        recordings_not_kept: 0,
        pfc_enabled: true,
        ..snapshot
    }
}

/// Replays a recording, which must be equal in everything. Returns received frames and XOFF
/// episodes.
fn replay(moment: &ShortRecording) -> Result<(u64, usize)> {
    let mut replay = Replay::new(&moment.recording[..])?;
    let mut xoffs = 0;
    let mut note = |_, event| xoffs += usize::from(matches!(event, Event::XoffBegan { .. }));
    // One entry, so that there is a start.
    replay.run_until(Instant(1), &mut note)?;
    let mut compared = 0;
    for output in &moment.output {
        if output.at_ns < replay.totals().from.0 {
            continue;
        }
        replay.run_until(Instant(output.at_ns + 1), &mut note)?;
        let Some(requested) =
            replay.last_requested_snapshot().filter(|requested| requested.at_ns == output.at_ns)
        else {
            break;
        };
        let replayed = v1::Snapshot::from(requested);
        ensure!(
            of_the_switch(replayed.clone()) == of_the_switch(output.clone()),
            "the daemon said {output:#?}\nthe replay {replayed:#?}"
        );
        compared += 1;
    }
    replay.run_until(Instant::NEVER, &mut note)?;
    let requested: Vec<u64> = moment.output.iter().map(|output| output.at_ns).collect();
    ensure!(compared > 0, "requested at {requested:?} while it recorded: {:?}", replay.totals());
    ensure!(replay.totals().checkpoints > 0, "nothing was compared");
    ensure!(replay.totals().gaps == 0, "the recorder left something out");
    Ok((replay.totals().received_frames, xoffs))
}

/// Ten recordings of an incast, every other one beside load on both cores.
#[test]
fn an_incast_is_replayed_exactly_with_and_without_cpu_load() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let senders = [bed.sluice_host(&switch, "sender1")?, bed.sluice_host(&switch, "sender2")?];
    let receiver = bed.sluice_host(&switch, "receiver")?;
    let mut config = switch_config("on") + &slow_port_config("receiver", 500);
    for sender in &senders {
        config += &(port_config(&sender.name, "1.25G") + &group_config(&sender.name, HEADROOM_CELLS));
    }
    let daemon = bed.daemon(&switch, &config)?;
    let flows = [flow(&receiver.mac(), 3, "600M"), flow(&receiver.mac(), 0, "600M")];
    let arguments = ["--speed", "1.25G", "--no-drop", "3", "--duration", "12s"];
    let sending = senders.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<_>>()?;
    let receiving = bed.host(&receiver, &[], &["--speed", "500M", "--no-drop", "3"])?;
    daemon.until_announced(3)?;

    let moments = thread::scope(|scope| {
        let moments = scope.spawn(|| -> Result<Vec<ShortRecording>> {
            daemon.until("frames wait at the receiver", |now| {
                let receiver = now.ports.iter().find(|port| port.name == "receiver")?;
                (receiver.queues[3].waiting_frames > 0).then_some(())
            })?;
            let one = |number| {
                let (busy, period) = (Duration::from_millis(30), Duration::from_millis(60));
                let load = || CpuLoad::new(&[0, 1], Scheduling::Normal, busy, period, Duration::from_secs(1));
                let _load = (number % 2 == 1).then(load);
                moment(&daemon)
            };
            (0..10).map(one).collect()
        });
        let ran = run(&[&daemon], sending, vec![receiving], Duration::from_secs(12));
        let moments = moments.join().expect("no panic")?;
        ran.map(|_| moments)
    })?;

    let (mut frames, mut xoffs) = (0, 0);
    for (number, moment) in moments.iter().enumerate() {
        let (received, began) = replay(moment).with_context(|| format!("moment {number}"))?;
        println!("moment {number}: {received} frames, {began} XOFFs, {} bytes", moment.recording.len());
        (frames, xoffs) = (frames + received, xoffs + began);
    }
    ensure!(frames > 10_000 && xoffs > 10, "{frames} frames and {xoffs} XOFFs show nothing");
    Ok(())
}

/// The commands: record, replay up to a time, fetch what has been kept, and their output if there
/// is nothing.
#[test]
fn the_commands_record_and_replay() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let hosts = [bed.sluice_host(&switch, "host1")?, bed.sluice_host(&switch, "host2")?];
    let ports = hosts.iter().map(|host| port_config(&host.name, "1G")).collect::<String>();
    let daemon = bed.daemon(&switch, &(switch_config("on") + "\n[recorder]\nalways = true\n" + &ports))?;
    let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", "2s"];
    let sending = vec![bed.host(&hosts[0], &[flow(&hosts[1].mac(), 3, "100M")], &arguments)?];
    let receiving = bed.host(&hosts[1], &[], &["--speed", "1G", "--no-drop", "3"])?;
    daemon.until_announced(2)?;
    run(&[&daemon], sending, vec![receiving], Duration::from_secs(2))?;

    let output = daemon.snapshot()?;
    let file = bed.dir().join("lab.recording");
    let path = file.to_str().context("a path in UTF-8")?;
    println!("{}", sluice(&daemon, &["record", "--last", path])?);
    let show = |arguments: &[&str]| -> Result<String> {
        let output = std::process::Command::new(testbed::binary("sluice")?).args(arguments).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let text = show(&["replay", path, "--events", "--view", "ports"])?;
    println!("{text}");
    ensure!(text.contains("Equal to the recording in every frame sent"), "{text}");
    let replayed: serde_json::Value =
        serde_json::from_str(&show(&["replay", path, "--json", "--view", "ports"])?)?;
    let sent = output.ports[0].received.unwrap_or_default().frames;
    ensure!(replayed["snapshot"]["ports"][0]["received"]["frames"] == sent, "{replayed:#} {output:#?}");
    // Half way through there were fewer.
    let half = show(&["replay", path, "--json", "--view", "ports", "--at", "1s"])?;
    let half: serde_json::Value = serde_json::from_str(&half)?;
    let (from, to) = (half["from_ns"].as_u64().context("a time")?, half["to_ns"].as_u64().context("a time")?);
    ensure!(to >= from + 1_000_000_000, "{from} to {to}");
    let by_then = half["snapshot"]["ports"][0]["received"]["frames"].as_u64().context("a number")?;
    ensure!((1..sent).contains(&by_then), "{by_then} of {sent}");
    let screen = tests::sluice_on_terminal(
        &["top", "--interval", "200ms", "--recording", path],
        &["the recording ends here", "host2"],
        "q",
    )?;
    ensure!(screen.contains("LOST"), "{screen}");
    // Nothing is left of it, and the next recording has begun: nothing moves, so there is nothing
    // to fetch but its start.
    let refused = sluice(&daemon, &["record", "/proc/no/such/file"]).unwrap_err().to_string();
    ensure!(refused.contains("/proc/no/such/file"), "{refused}");
    Ok(())
}
