//! Events of a running daemon, as clients read them: alarms and losses with the numbers of frames
//! sent.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::{Daemon, Process, Testbed, binary, idle, port};
use tests::{datagrams, frames, sluice};

/// Frames of 300 bytes, two cells of 256 each: 8 cells are reserved, 40 shared, 100 in headroom,
/// which is room for 74 frames.
const PAYLOAD_BYTES: usize = 300 - 14 - 20 - 8;
const CONFIG: &str = "[switch]\nname = \"under-test\"\n\
    [alarm]\ningress = { enabled = true, interval_s = 3600 }\n\
    headroom = { enabled = true, percent = 10, interval_s = 3600 }\ndrop = { enabled = true, interval_s = 3600 }\n\
    [port-defaults]\nport_priority = 3\n\
    [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
    [port-defaults.pfc.priority.3]\nreserved_cells = 8\nxoff = { static_cells = 40 }\nheadroom_cells = 100\n\
    [port.a]\ninterface = \"a\"\n[port.b]\ninterface = \"b\"\n";

/// Returns the events after this number, each as an object.
fn events(daemon: &Daemon, since: u64) -> Result<Vec<Value>> {
    let text = sluice(daemon, &["events", "--json", "--since", &since.to_string()])?;
    text.lines().map(|line| serde_json::from_str(line).context("an object a line")).collect()
}

fn kinds(events: &[Value]) -> Vec<String> {
    events.iter().map(|event| event["kind"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn what_fills_and_what_is_lost_is_reported_by_name() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let daemon = bed.daemon(&switch, CONFIG)?;
    let socket = datagrams(&a, &b)?;
    let send = |count: u64| -> Result<()> {
        let received = |now: &_| Some(frames(port(now, "a").ok()?.received));
        let before = daemon.until("the switch is asked", received)?;
        for _ in 0..count {
            socket.send(&[0x5a; PAYLOAD_BYTES])?;
        }
        daemon.until("the frames are in", |now| (received(now)? == before + count).then_some(()))
    };
    daemon.until("the switch is at rest", |now| idle(now).then_some(()))?;
    let quiet = events(&daemon, 0)?.len() as u64;
    let mut follow = Command::new(binary("sluice")?);
    follow.args(["events", "--follow", "--since", &quiet.to_string(), "--socket"]).arg(daemon.socket());
    let mut reader = Process::start("reader", &mut follow)?;

    sluice(&daemon, &["port", "hold", "b"])?;
    send(30)?; // 8 reserved, 40 shared, 12 in headroom
    let reported = testbed::eventually("both alarms", || {
        Ok(Some(events(&daemon, quiet)?).filter(|reported| reported.len() >= 3))
    })?;
    assert_eq!(kinds(&reported), ["port_held", "use_alarm", "use_alarm"], "{reported:#?}");
    for (event, (alarm_type, cells, allowed_cells)) in reported[1..].iter().zip([(1, 48, 48), (3, 12, 100)]) {
        assert_eq!((&event["port"], &event["priority"]), (&"a".into(), &3.into()), "{event:#}");
        let values = &event["values"];
        assert_eq!(values["alarm_type"], alarm_type);
        // The level at the time of the poll, when not all frames may have arrived.
        ensure!(
            values["cells"].as_u64() <= Some(cells) && values["allowed_cells"] == allowed_cells,
            "{event:#}"
        );
    }

    send(60)?; // 44 have room
    let seen = quiet + reported.len() as u64;
    let reported = testbed::eventually("the loss", || {
        Ok(Some(events(&daemon, seen)?).filter(|reported| reported.len() >= 2))
    })?;
    assert_eq!(kinds(&reported), ["no_drop_lost", "drop_alarm"], "{reported:#?}");
    assert_eq!(reported[0]["severity"], "error");
    let reported_frames = reported[1]["values"]["frames"].as_u64().context("a number")?;
    ensure!((1..=16).contains(&reported_frames), "{reported:#?}");
    assert_eq!(frames(port(&daemon.snapshot()?, "a")?.groups[3].dropped), 16);

    // A follower has read the same events, and its reading has not removed any.
    reader.wait_for("the drop alarm", |line| line.contains("frames were dropped").then_some(()))?;
    let lines = reader.stdout();
    let is_there = |words: &str| lines.iter().any(|line| line.contains(words));
    ensure!(is_there("error   a: frames of no-drop priority 3 are lost"), "{lines:#?}");
    ensure!(is_there("warning a: headroom of priority 3: usage reached 10 % of the limit"), "{lines:#?}");
    ensure!(is_there("warning b: transmission is held"), "{lines:#?}");
    daemon.stop()?;
    let status = reader.wait(std::time::Duration::from_secs(30))?;
    ensure!(status.success(), "the reader ends with the daemon: {status}");
    Ok(())
}
