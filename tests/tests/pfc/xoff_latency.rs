//! PFC before data, on real ports: when a threshold that all of sixteen loaded ports exceed takes
//! effect, all peers are sent XOFF. The time between the first and the last is printed; that they
//! are sent in one iteration and before any data is tested by `dataplane/tests/tx_order.rs`
//! (docs/behavior.md, "PFC sent").

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use testbed::{Endpoint, Snapshot, Testbed, conservation, idle, port};
use tests::{Capture, sluice};
use wire::ethernet::{EXPERIMENTAL, write_header};
use wire::mac::MacAddr;
use xdp::PacketSocket;

const SENDERS: usize = 15;
/// Frames of one cell each that every sender has in the switch.
const FRAMES: u32 = 100;
const ABOVE: &str = "static_cells = 1000";
const BELOW: &str = "static_cells = 50";
const RUNS: usize = 11;

fn socket(station: &Endpoint) -> Result<PacketSocket> {
    Ok(station.namespace.enter(|| PacketSocket::open(Endpoint::INTERFACE))??)
}

fn frame(from: &Endpoint, to: MacAddr) -> Result<[u8; 64]> {
    let mut frame = [0; 64];
    write_header(&mut frame, to, from.mac().parse()?, None, EXPERIMENTAL);
    Ok(frame)
}

fn epoch_s() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

/// Returns a value once priority 3 of all senders is in XOFF, or none is, and their peers have
/// received it.
fn all_are(now: &Snapshot, xoff: bool) -> Option<()> {
    (0..SENDERS)
        .all(|n| port(now, &format!("s{n}")).is_ok_and(|port| port.groups[3].xoff == xoff))
        .then_some(())
}

#[test]
fn all_loaded_ports_are_paused_at_once() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let sink = bed.sluice_host(&switch, "sink")?;
    let senders: Vec<Endpoint> =
        (0..SENDERS).map(|n| bed.sluice_host(&switch, &format!("s{n}"))).collect::<Result<_>>()?;
    // The guard is off, since it would send PFC at its own times.
    let mut config = format!(
        "[dataplane]\noverload = \"drop\"\n[switch]\nname = \"under-test\"\n[port-defaults]\nport_priority = 3\n\
         [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n[port-defaults.pfc.priority.3]\nxoff = {{ {ABOVE} }}\n\
         xon_offset_cells = 10\n[port.sink]\ninterface = \"sink\"\nport_priority = 0\n"
    );
    (0..SENDERS).for_each(|n| config += &format!("[port.s{n}]\ninterface = \"s{n}\"\n"));
    let daemon = bed.daemon(&switch, &config)?;
    let text = std::fs::read_to_string(daemon.config())?;
    let reload_with = |threshold: &str| -> Result<String> {
        std::fs::write(daemon.config(), text.replace(ABOVE, threshold))?;
        sluice(&daemon, &["reload"])
    };
    let captures: Vec<Capture> = senders
        .iter()
        .map(|sender| Capture::start(&bed, sender, "ether proto 0x8808"))
        .collect::<Result<_>>()?;

    let from_sink = socket(&sink)?;
    from_sink.send(&frame(&sink, MacAddr::BROADCAST)?)?;
    daemon.until_announced(1)?;
    sluice(&daemon, &["port", "hold", "sink"])?;
    for sender in &senders {
        let (socket, frame) = (socket(sender)?, frame(sender, sink.mac().parse()?)?);
        (0..FRAMES).try_for_each(|_| socket.send(&frame))?;
    }
    daemon.until("all of them hold cells", |now| {
        let holds = |n| {
            port(now, &format!("s{n}"))
                .is_ok_and(|port| port.groups[3].shared.is_some_and(|level| level.cells > FRAMES / 2))
        };
        (0..SENDERS).all(holds).then_some(())
    })?;

    let loads =
        senders.iter().map(|sender| frame(&sink, sender.mac().parse()?)).collect::<Result<Vec<_>>>()?;
    let end = AtomicBool::new(false);
    let times = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Relaxed) {
                loads.iter().for_each(|load| drop(from_sink.send(load)));
            }
        });
        let runs = (0..RUNS).map(|_| -> Result<[f64; 2]> {
            let before = epoch_s()?;
            reload_with(BELOW)?;
            daemon.until("XOFF of all", |now| all_are(now, true))?;
            let after = epoch_s()?;
            reload_with(ABOVE)?;
            daemon.until("XON of all", |now| all_are(now, false))?;
            Ok([before, after])
        });
        let times = runs.collect::<Result<Vec<_>>>();
        end.store(true, Relaxed);
        times
    })?;

    let mut first_and_last = [[f64::MAX, f64::MIN]; RUNS];
    for capture in &captures {
        let frames = capture.read("macc", &["frame.time_epoch", "macc.cbfc.pause_time.c3"])?;
        let xoffs = frames.iter().filter(|fields| fields.get(1).is_some_and(|quanta| quanta == "65535"));
        let xoffs = xoffs.map(|fields| Ok(fields[0].parse()?)).collect::<Result<Vec<f64>>>()?;
        for ([first, last], [before, after]) in first_and_last.iter_mut().zip(&times) {
            let reported =
                xoffs.iter().find(|at| (before..=after).contains(at)).context("an XOFF in each run")?;
            (*first, *last) = (first.min(*reported), last.max(*reported));
        }
    }
    let mut spreads = first_and_last.map(|[first, last]| ((last - first) * 1e6).round());
    spreads.sort_by(f64::total_cmp);
    println!(
        "from the first XOFF to the last of {SENDERS}: {} µs (median), of {spreads:?}",
        spreads[RUNS / 2]
    );

    sluice(&daemon, &["port", "release", "sink"])?;
    let now = daemon.until("it is at rest", |now| idle(now).then(|| now.clone()))?;
    conservation(&now, &[])?;
    daemon.stop()?;
    Ok(())
}
