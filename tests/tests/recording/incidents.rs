//! Recordings of losses are kept until a client has stored them: on a full disk, with a client that
//! is killed, and beside a second incident (docs/monitoring/recorder.md, "What freezes a
//! recording").

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use control::BlockingClient;
use nix::sys::signal::Signal;
use testbed::{Daemon, Process, Testbed, binary, idle, port};
use tests::{datagrams, frames, sluice};

/// Frames of 300 bytes, two cells of 256 each: there is room for 74 of them.
const PAYLOAD_BYTES: usize = 300 - 14 - 20 - 8;
const ROOM_FRAMES: u64 = 74;
const CONFIG: &str = "[switch]\nname = \"under-test\"\n[recorder]\nalways = true\n\
    [port-defaults]\nport_priority = 3\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
    [port-defaults.pfc.priority.3]\nreserved_cells = 8\nxoff = { static_cells = 40 }\nheadroom_cells = 100\n\
    [port.a]\ninterface = \"a\"\n[port.b]\ninterface = \"b\"\n";
/// A loss this long after another is an incident of its own.
const QUIET: Duration = Duration::from_secs(5);

/// Waits until the daemon keeps this many recordings.
fn kept(daemon: &Daemon, recordings: u64) -> Result<()> {
    daemon.until(&format!("{recordings} recordings are kept"), |now| {
        (now.recordings_kept == recordings).then_some(())
    })
}

/// Runs `sluice` with these arguments, which must succeed.
fn stdout_of(arguments: &[&str]) -> Result<String> {
    let output = Command::new(binary("sluice")?).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn a_recording_survives_a_full_disk_a_killed_client_and_a_second_incident() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let mut daemon = bed.daemon(&switch, CONFIG)?;
    // The thread that takes orders has weight beside a loop on its core.
    let pid = daemon.process().pid();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat"))?;
    let nice = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(16));
    ensure!(nice == Some("-10"), "{stat}");
    let socket = datagrams(&a, &b)?;
    let lose = |daemon: &Daemon| -> Result<()> {
        sluice(daemon, &["port", "hold", "b"])?;
        let received = |now: &_| Some(frames(port(now, "a").ok()?.received));
        let before = daemon.until("the switch is asked", received)?;
        for _ in 0..ROOM_FRAMES + 10 {
            socket.send(&[0x5a; PAYLOAD_BYTES])?;
        }
        daemon.until("the frames are in", |now| (received(now)? > before + ROOM_FRAMES).then_some(()))?;
        sluice(daemon, &["port", "release", "b"])?;
        daemon.until("the switch is at rest", |now| idle(now).then_some(()))
    };
    lose(&daemon)?;
    kept(&daemon, 1)?;
    let shown = sluice(&daemon, &["show", "ports"])?;
    ensure!(shown.contains("kept until they are fetched with `sluice record --last FILE`: 1."), "{shown}");

    // A full disk: a filesystem of 64 KiB, which ends with its namespace.
    let full = bed.dir().join("full");
    std::fs::create_dir(&full)?;
    let record_on_tmpfs = |size: &str, what: &str| -> Result<String> {
        let script = format!(
            "mount -t tmpfs -o size={size} none \"$0\" && exec \"$1\" record {what} \"$0/a.rec\" --socket \"$2\""
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).arg(&full);
        let failed = command.arg(binary("sluice")?).arg(daemon.socket()).output()?;
        ensure!(!failed.status.success(), "it fits");
        Ok(String::from_utf8(failed.stderr)?)
    };
    let stderr = record_on_tmpfs("64k", "--last")?;
    ensure!(stderr.contains("No space left on device"), "{stderr}");
    // A disk that would fill during an hour of recording is refused before it begins.
    let stderr = record_on_tmpfs("8m", "--duration 3600s")?;
    ensure!(stderr.contains("268,435,456 bytes are wanted and 7,3"), "{stderr}");
    kept(&daemon, 1)?;

    // A connection that is lost when all has arrived, and a client that is killed while it waits.
    let unacknowledged = BlockingClient::connect(daemon.socket())?.record(Duration::ZERO)?;
    ensure!(unacknowledged.len() > 1000, "{} bytes", unacknowledged.len());
    let folder = bed.dir().join("recordings");
    std::fs::create_dir(&folder)?;
    daemon.process().suspend()?;
    let mut command = Command::new(binary("sluice")?);
    command.args(["record", "--last"]).arg(folder.join("a.rec")).arg("--socket").arg(daemon.socket());
    let mut client = Process::start("client", &mut command)?;
    client.signal(Signal::SIGKILL)?;
    client.wait(Duration::from_secs(30))?;
    daemon.process().signal(Signal::SIGCONT)?;
    ensure!(std::fs::read_dir(&folder)?.next().is_none(), "a killed client leaves nothing behind");
    kept(&daemon, 1)?;

    // A second incident, once the first is over.
    sleep(QUIET);
    lose(&daemon)?;
    kept(&daemon, 2)?;

    let mut starts = Vec::new();
    for (name, left) in [("a.rec", 1), ("b.rec", 0)] {
        let path = folder.join(name).display().to_string();
        let printed = sluice(&daemon, &["record", "--last", &path])?;
        ensure!(printed.contains("One more recording") == (left == 1), "{printed}");
        kept(&daemon, left)?;
        let replayed = stdout_of(&["replay", &path, "--events", "--view", "ports"])?;
        ensure!(replayed.contains("frames of no-drop priority 3 are lost"), "{replayed}");
        ensure!(replayed.contains("Equal to the recording in every frame sent"), "{replayed}");
        let json: serde_json::Value = serde_json::from_str(&stdout_of(&["replay", &path, "--json"])?)?;
        starts.push(json["from_ns"].as_u64());
    }
    ensure!(starts[0] < starts[1], "the oldest comes first: {starts:?}");
    let events = sluice(&daemon, &["events", "--json"])?;
    let count = |kind: &str| events.lines().filter(|line| line.contains(&format!("\"{kind}\""))).count();
    ensure!((count("recording_frozen"), count("recording_fetched")) == (2, 2), "{events}");
    daemon.stop()?;
    Ok(())
}
