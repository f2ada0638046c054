//! `sluice show` against a running daemon: the numbers for people and for scripts equal the
//! switch's counters.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use testbed::{Daemon, Testbed, idle, port};
use tests::{
    AMPLE_HEADROOM_CELLS, datagrams, flow, frames, group_config, port_config, run, sluice,
    sluice_on_terminal, switch_config,
};

/// Collects every number in a JSON value.
fn numbers(value: &Value, found: &mut Vec<u64>) {
    match value {
        Value::Number(number) => found.extend(number.as_u64()),
        Value::Array(values) => values.iter().for_each(|value| numbers(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| numbers(value, found)),
        _ => {}
    }
}

#[test]
fn show_prints_the_counters_of_the_switch() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let config = switch_config("on")
        + &port_config("a", "1G")
        + &group_config("a", AMPLE_HEADROOM_CELLS)
        + &port_config("b", "100M");
    let daemon = bed.daemon(&switch, &config)?;
    let receiver = bed.host(&b, &[], &["--speed", "100M", "--no-drop", "3"])?;
    let flows = [flow(&b.mac(), 3, "200M")];
    let sender = bed.host(&a, &flows, &["--speed", "1G", "--no-drop", "3", "--duration", "2s"])?;
    let run = run(&[&daemon], vec![sender], vec![receiver], Duration::from_secs(2))?;
    let (at_a, at_b) = (port(&run.snapshot, "a")?, port(&run.snapshot, "b")?);
    let sent = at_a.pfc_sent.clone().unwrap_or_default();
    assert!(sent.xoff_frames[3] > 0);
    let group = &at_a.groups[3];
    for (what, expected) in [
        ("ports", vec![frames(at_a.received), frames(at_b.transmitted)]),
        ("queues", vec![frames(at_b.queues[3].transmitted)]),
        ("buffers", vec![group.shared.unwrap_or_default().peak_cells.into()]),
        ("pfc", vec![sent.xoff_frames[3], sent.xon_frames[3]]),
    ] {
        let json: Value = serde_json::from_str(&sluice(&daemon, &["show", what, "--json"])?).context(what)?;
        let mut found = Vec::new();
        numbers(&json, &mut found);
        for number in expected {
            assert!(found.contains(&number), "show {what} --json has {number}: {json:#}");
        }
        let table = sluice(&daemon, &["show", what])?;
        assert!(table.contains('a') && table.lines().count() > 2, "{table}");
        println!("sluice show {what}\n{table}");
    }
    let socket = daemon.socket().display().to_string();
    let screen =
        sluice_on_terminal(&["top", "--interval", "100ms", "--socket", &socket], &["headroom"], "\rq")?;
    assert!(screen.contains("nodrop"), "the opened port: {screen}");
    daemon.stop()?;
    Ok(())
}

/// Addresses, configuration and cleared counters of a running switch.
#[test]
fn what_runs_is_shown_and_cleared_for_one_user() -> Result<()> {
    const OTHER: &str = "02:00:00:00:77:01"; // not the interface's own, which is entered again and again
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let config = switch_config("on")
        + &port_config("a", "1G")
        + "static_addresses = [\"02:00:00:00:77:02\"]\n"
        + &group_config("a", AMPLE_HEADROOM_CELLS)
        + &port_config("b", "100M");
    let daemon = bed.daemon(&switch, &config)?;
    let receiver = bed.host(&b, &[], &["--no-drop", "3"])?;
    let flows = [flow(&b.mac(), 3, "10M")];
    let sender = bed.host(&a, &flows, &["--mac", OTHER, "--no-drop", "3", "--duration", "1s"])?;
    run(&[&daemon], vec![sender], vec![receiver], Duration::from_secs(1))?;

    let known = |arguments: &[&str]| -> Result<Vec<(String, String, bool)>> {
        let json: Value =
            serde_json::from_str(&sluice(&daemon, &[&["show", "fdb", "--json"], arguments].concat())?)?;
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let entries = json.as_array().context("a list")?.iter();
        Ok(entries
            .map(|entry| (text(entry, "address"), text(entry, "port"), entry["is_static"] == true))
            .collect())
    };
    let learned = (OTHER.to_owned(), "a".to_owned(), false);
    let of_file = ("02:00:00:00:77:02".to_owned(), "a".to_owned(), true);
    assert!(known(&["--port", "a"])?.contains(&learned) && !known(&["--port", "b"])?.contains(&learned));
    sluice(&daemon, &["fdb", "flush", "--port", "b"])?;
    assert!(known(&[])?.contains(&learned));
    sluice(&daemon, &["fdb", "flush", "--port", "a"])?;
    let left = known(&[])?;
    assert!(!left.contains(&learned) && left.contains(&of_file), "{left:?}");

    // The file, and how it differs.
    let shown = sluice(&daemon, &["show", "config"])?;
    let written = std::fs::read_to_string(daemon.config())?;
    assert!(shown.contains(written.trim_end()) && shown.ends_with("# The file is what runs.\n"), "{shown}");
    std::fs::write(daemon.config(), written.replace("100M", "200M"))?;
    let shown = sluice(&daemon, &["show", "config"])?;
    assert!(shown.contains("\"100M\"") && shown.contains("port.b: speed "), "{shown}");
    for (view, expected) in [
        ("maps", "Ports a, b: trust "),
        ("profiles", "AZURE_LOSSLESS"),
        ("watchdog", "No priority is watched"),
        ("version", "sluiced  "),
    ] {
        let shown = sluice(&daemon, &["show", view])?;
        assert!(shown.contains(expected), "{shown}");
    }

    // One user clears counters, the switch does not.
    let as_user = |arguments: &str| -> Result<String> {
        let mut sluice = std::process::Command::new(testbed::binary("sluice")?);
        sluice.args(arguments.split(' ')).arg("--socket").arg(daemon.socket());
        let output = sluice.env("XDG_STATE_HOME", bed.dir().join("state")).output()?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let received = |arguments: &str| -> Result<u64> {
        let json: Value = serde_json::from_str(&as_user(arguments)?)?;
        json["ports"][0]["received"]["frames"].as_u64().context("a number")
    };
    let all = frames(port(&daemon.snapshot()?, "a")?.received);
    assert!(all > 0);
    assert_eq!(received("show ports --json")?, all);
    as_user("clear counters")?;
    assert_eq!((received("show ports --json")?, received("show ports --json --absolute")?), (0, all));
    assert!(as_user("show ports")?.starts_with("Counters of "));
    assert_eq!(frames(port(&daemon.snapshot()?, "a")?.received), all, "the switch goes on");
    as_user("clear counters --undo")?;
    assert_eq!(received("show ports --json")?, all);
    daemon.stop()?;
    Ok(())
}

/// Frames of 300 bytes, two cells of 256 each; XOFF at 40 shared cells, above 8 reserved ones.
const PAYLOAD_BYTES: usize = 300 - 14 - 20 - 8;
const FRAMES: u64 = 30;
const CONFIG: &str = "[switch]\nname = \"under-test\"\n\
    [alarm]\nusage_percent = 70\n\
    [port-defaults]\nport_priority = 3\n\
    [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
    [port-defaults.pfc.priority.3]\nreserved_cells = 8\nxoff = { static_cells = 40 }\nheadroom_cells = 100\n\
    [port.a]\ninterface = \"a\"\n[port.b]\ninterface = \"b\"\n";

/// Returns the rows of `show buffers` for this port and priority or queue, without these words.
fn rows(daemon: &Daemon, more: &[&str], port: &str, number: &str) -> Result<Vec<String>> {
    let table = sluice(daemon, &[&["show", "buffers"], more].concat())?;
    println!("sluice show buffers {}\n{table}\n", more.join(" "));
    let words = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = words.filter(|words| words.len() > 2 && words[..2] == [port, number]);
    Ok(rows.map(|words| words[2..].join(" ")).collect())
}

/// Rows 49 to 67, 69 and 70 of the vendors' displays. A kernel sends exactly 30 frames to a held
/// port: 8 cells are reserved, 40 shared, 12 in headroom. Peaks are between two executions.
#[test]
fn buffers_show_every_cell_of_a_port_on_hold() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let daemon = bed.daemon(&switch, CONFIG)?;
    let socket = datagrams(&a, &b)?;
    daemon.until("the switch is at rest", |now| idle(now).then_some(()))?;
    sluice(&daemon, &["show", "buffers"])?;
    let received = |now: &_| Some(frames(port(now, "a").ok()?.received));
    let before = received(&daemon.snapshot()?).context("port a")?;

    sluice(&daemon, &["port", "hold", "b"])?;
    for _ in 0..FRAMES {
        socket.send(&[0x5a; PAYLOAD_BYTES])?;
    }
    daemon.until("the frames are in", |now| (received(now)? == before + FRAMES).then_some(()))?;
    // Pool, Total, Used, %, Free, Peak, Threshold %, Violations; State, XOFF is, Reserved, Shared,
    // XOFF at, episodes, received, dropped; Headroom, Used, %, Free, Peak, Violations.
    let state = format!("1 {} 0", before + FRAMES);
    let keep = ["--keep-watermarks"];
    assert_eq!(
        rows(&daemon, &keep, "a", "3")?,
        [
            "0 48 48 100.0 0 48 70 1".to_owned(),
            format!("XOFF static 8 40 40 {state}"),
            "100 12 12.0 88 12 0".to_owned()
        ]
    );
    let of_queue = rows(&daemon, &keep, "b", "3")?;
    // No maximum: its pool of 102400, and 13 % of the half of 16384 fixed cells (row 36).
    assert_eq!(of_queue.last().map(String::as_str), Some("0 103,464 60 0.1 103,404 60 70 0"));
    assert_eq!(
        rows(&daemon, &["--keep-watermarks", "--bytes"], "a", "3")?,
        [
            "0 12,288 12,288 100.0 0 12,288 70 1".to_owned(),
            format!("XOFF static 2,048 10,240 10,240 {state}"),
            "25,600 3,072 12.0 22,528 3,072 0".to_owned()
        ]
    );

    sluice(&daemon, &["port", "release", "b"])?;
    daemon.until("the switch is at rest", |now| idle(now).then_some(()))?;
    for (headroom_peak, peak) in [("12", "48"), ("0", "0")] {
        let rows = rows(&daemon, &[], "a", "3")?;
        assert_eq!(rows[0], format!("0 48 0 0.0 48 {peak} 70 1"));
        assert_eq!(rows[2], format!("100 0 0.0 100 {headroom_peak} 0"));
    }
    daemon.stop()?;
    Ok(())
}
