//! `sluice capture` on real veths: tshark reads what the switch received, transmitted and dropped,
//! with the reasons of drops, and PFC in both directions.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use control::v1::{Port, Snapshot};
use nix::sys::signal::Signal;
use serde_json::Value;
use testbed::{Daemon, Endpoint, Process, Testbed, binary};
use tests::{Incast, sluice, tshark};
use wire::pause::{FRAME_BYTES, Pfc};
use xdp::PacketSocket;

/// Starts a capture of everything that matches `arguments`, and waits until it runs.
fn start(daemon: &Daemon, file: &Path, arguments: &[&str]) -> Result<Process> {
    let mut command = Command::new(binary("sluice")?);
    command.arg("capture").arg("--write").arg(file).args(arguments).arg("--socket").arg(daemon.socket());
    let mut capture = Process::start("capture", &mut command)?;
    capture.wait_for("a capture", |line| line.contains("capturing").then_some(()))?;
    Ok(capture)
}

/// Ends a capture, and returns what it reports.
fn end(mut capture: Process) -> Result<Value> {
    capture.signal(Signal::SIGINT)?;
    ensure!(capture.wait(Duration::from_secs(20))?.success(), "{}", capture.log());
    let report = capture.stdout().into_iter().find(|line| line.starts_with('{'));
    Ok(serde_json::from_str(&report.unwrap_or_default())?)
}

/// Returns the frames received by a and b, those sent by c, the drops, the PFC frames that were
/// sent, and those that c received.
fn counts(snapshot: &Snapshot) -> [u64; 6] {
    let ports = &snapshot.ports;
    let of =
        |name: &str, count: fn(&Port) -> u64| ports.iter().find(|port| port.name == name).map_or(0, count);
    let received: fn(&Port) -> u64 = |port| port.received.unwrap_or_default().frames;
    let sent: fn(&Port) -> u64 = |port| port.transmitted.unwrap_or_default().frames;
    let pfc_received: fn(&Port) -> u64 = |port| port.pfc_received.as_ref().map_or(0, |count| count.frames);
    let dropped = ports.iter().flat_map(|port| port.drops.values()).map(|count| count.frames).sum();
    let pfc_sent = ports.iter().filter_map(|port| Some(port.pfc_sent.as_ref()?.frames)).sum();
    [of("a", received), of("b", received), of("c", sent), dropped, pfc_sent, of("c", pfc_received)]
}

#[test]
fn tshark_reads_frames_drops_and_pauses() -> Result<()> {
    let incast = Incast::new()?;
    let daemon = incast.daemon("")?;
    let file = incast.bed.dir().join("incast.pcapng");
    let receiver = incast.receiver();
    let socket = receiver.namespace.enter(|| PacketSocket::open(Endpoint::INTERFACE))??;
    let mut xoff = [0; FRAME_BYTES];
    Pfc { enable: 1 << 3, quanta: [99; 8] }.encode(receiver.mac().parse()?, &mut xoff);

    let (report, _) = incast.run_while(&daemon, || {
        daemon.until("drops", |now| {
            let dropped = now.ports.iter().any(|port| port.drops["tail_drop"].frames > 0);
            dropped.then_some(())
        })?;
        let capture = start(&daemon, &file, &["--json", "--mib", "100"])?;
        // Many more than are looked for below: the last ones are on their way to the client.
        const MORE: [u64; 6] = [1000, 1000, 1000, 1000, 8, 4];
        let before = counts(&daemon.snapshot()?);
        daemon.until("frames of every port, drops, and PFC in both directions", |now| {
            let _ = socket.send(&xoff);
            let mut counts = counts(now).into_iter().zip(before).zip(MORE);
            counts.all(|((now, before), more)| now >= before + more).then_some(())
        })?;
        end(capture)
    })?;
    ensure!(report["ended_by"] == "interrupt" && report["file"] == file.display().to_string(), "{report}");

    let fields =
        ["frame.interface_name", "frame.packet_flags_direction", "frame.comment", "macc.cbfc.pause_time.c3"];
    let read = |filter: &str| tshark(&file, filter, &fields);
    let all = read("frame")?;
    ensure!(all.len() as u64 == report["frames"], "{} of {report}", all.len());
    let count = |rows: &[Vec<String>], port: &str, direction: &str| {
        rows.iter().filter(|row| row[0] == port && row[1].ends_with(direction)).count()
    };
    let data = read("!macc && !frame.comment")?;
    ensure!(count(&data, "a", "1") > 10 && count(&data, "b", "1") > 10 && count(&data, "c", "2") > 10);
    let drops = read("frame.comment contains \"dropped\"")?;
    let expected = "dropped: tail_drop at c, priority 0";
    let is_in = |row: &Vec<String>| ["a", "b"].contains(&row[0].as_str()) && row[1].ends_with('1');
    ensure!(!drops.is_empty() && drops.iter().all(|row| row[2] == expected && is_in(row)), "{drops:?}");
    let pauses = read("macc.opcode == 0x0101")?;
    let sent = pauses.iter().filter(|row| row[1].ends_with('2'));
    ensure!(sent.clone().count() > 4 && sent.clone().any(|row| row[3] == "65535"), "{pauses:?}");
    ensure!(pauses.iter().any(|row| row[0] == "c" && row[1].ends_with('1') && row[3] == "99"), "{pauses:?}");
    daemon.stop()?;
    Ok(())
}

/// A capture of drops alone has each drop that is counted.
#[test]
fn each_drop_is_captured() -> Result<()> {
    let incast = Incast::new()?;
    let daemon = incast.daemon("")?;
    let file = incast.bed.dir().join("drops.pcapng");
    let before = drops(&daemon)?;
    let capture = start(&daemon, &file, &["--verdict", "dropped", "--json", "--snap", "64"])?;
    let other = incast.bed.dir().join("other.pcapng").display().to_string();
    let second = sluice(&daemon, &["capture", "--write", &other]).expect_err("one at a time").to_string();
    ensure!(second.contains("another client is capturing"), "{second}");
    incast.run(&daemon, Duration::from_secs(1))?;
    let dropped = drops(&daemon)? - before;
    let report = end(capture)?;
    let captured = report["frames"].as_u64().zip(report["missed_frames"].as_u64());
    ensure!(
        captured.is_some_and(|(frames, missed)| frames > 0 && frames + missed == dropped),
        "{dropped}: {report}"
    );
    let rows = tshark(&file, "frame.comment contains \"dropped: \"", &["frame.len", "frame.cap_len"])?;
    ensure!(rows.len() as u64 == report["frames"] && rows.iter().all(|row| row[1] == "64"), "{}", rows.len());
    daemon.stop()?;
    Ok(())
}

fn drops(daemon: &Daemon) -> Result<u64> {
    let snapshot = daemon.snapshot()?;
    Ok(snapshot.ports.iter().flat_map(|port| port.drops.values()).map(|count| count.frames).sum())
}

/// To standard output, as for tshark or Wireshark, and bounded by a count.
#[test]
fn a_capture_goes_through_a_pipe_and_ends_by_itself() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (a, b) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
    let config = tests::switch_config("on") + &tests::port_config("a", "1G") + &tests::port_config("b", "1G");
    let daemon = bed.daemon(&switch, &config)?;
    let socket = a.namespace.enter(|| PacketSocket::open(Endpoint::INTERFACE))??;
    let mut frame = vec![0; 300];
    let (to, from) = (b.mac().parse()?, a.mac().parse()?);
    wire::ethernet::write_header(&mut frame, to, from, None, wire::ethernet::EXPERIMENTAL);
    let file = bed.dir().join("pipe.pcapng");
    let shell = format!(
        "{} capture --write - --count 5 --direction out --port b --socket {} > {}",
        binary("sluice")?.display(),
        daemon.socket().display(),
        file.display()
    );
    let mut capture = Process::start("capture", Command::new("sh").args(["-c", &shell]))?;
    capture.wait_for("a capture", |line| line.contains("capturing").then_some(()))?;
    while capture.is_running()? {
        socket.send(&frame)?;
        thread::sleep(Duration::from_millis(1));
    }
    ensure!(capture.wait(Duration::from_secs(5))?.success(), "{}", capture.log());
    let rows = tshark(&file, "eth", &["frame.interface_name", "frame.len"])?;
    ensure!(rows == vec![vec!["b".to_owned(), "300".to_owned()]; 5], "{rows:?}");

    let other = bed.dir().join("other.pcapng").display().to_string();
    let frames = sluice(&daemon, &["capture", "--write", &other, "--duration", "20ms", "--json"])?;
    let report: Value = serde_json::from_str(&frames)?;
    ensure!(report["ended_by"] == "duration", "{report}");
    let no_port = sluice(&daemon, &["capture", "--write", &other, "--port", "x"]).expect_err("no port");
    ensure!(no_port.to_string().contains("there is no port `x`; the ports are a, b"), "{no_port}");
    daemon.stop()?;
    Ok(())
}
