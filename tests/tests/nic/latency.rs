//! How quickly pauses take effect. In a machine where an instruction takes a nanosecond (`cargo
//! xtask vm --shift 0`) the result is the same on every machine that runs it. tcpdump captures at
//! the far end, where it sees the PFC frames as they leave and the data as they arrive.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, sendto, socket};
use testbed::{Namespace, Process, eventually};

use crate::cable::{Cable, FAR};
use crate::lab::{Full, NO_DROP_TOS, attach, send};

/// Sends a PFC frame for one priority from eth0 of a namespace.
pub fn send_pfc(from: &Namespace, priority: u8, quanta: u16) -> Result<()> {
    PfcSender::new(from)?.send(priority, quanta)
}

/// A packet socket on eth0 of a namespace.
pub struct PfcSender {
    socket: std::os::fd::OwnedFd,
    address: LinkAddr,
}

impl PfcSender {
    pub fn new(from: &Namespace) -> Result<Self> {
        from.enter(|| {
            let mut all = nix::ifaddrs::getifaddrs()?.filter(|address| address.interface_name == "eth0");
            let address = all.find_map(|address| address.address?.as_link_addr().copied());
            let address = address.context("eth0 has an address")?;
            let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None)?;
            Ok(Self { socket, address })
        })?
    }

    pub fn send(&self, priority: u8, quanta: u16) -> Result<()> {
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 1]);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0x99]);
        frame[12..16].copy_from_slice(&[0x88, 0x08, 1, 1]);
        frame[17] = 1 << priority;
        let at = 18 + 2 * usize::from(priority);
        frame[at..at + 2].copy_from_slice(&quanta.to_be_bytes());
        sendto(self.socket.as_raw_fd(), &frame, &self.address, MsgFlags::empty())?;
        Ok(())
    }
}

/// A frame seen at the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FarEndFrame {
    /// PFC frame with the quanta of priority 3.
    Pfc(u16),
    NoDrop,
    BestEffort,
}

/// Reads a capture file with nanosecond times: when, and what.
fn read(file: &Path) -> Result<Vec<(u64, FarEndFrame)>> {
    let bytes = std::fs::read(file)?;
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    ensure!(u32_at(0) == Some(0xa1b2_3c4d), "a capture with nanoseconds");
    let (mut at, mut all) = (24, Vec::new());
    while let (Some(s), Some(ns), Some(len)) = (u32_at(at), u32_at(at + 4), u32_at(at + 8)) {
        let Some(frame) = bytes.get(at + 16..at + 16 + len as usize) else { break };
        at += 16 + len as usize;
        let seen = match (frame[12], frame[13]) {
            (0x88, 0x08) => FarEndFrame::Pfc(u16::from_be_bytes([frame[24], frame[25]])),
            (0x08, 0x00) if frame[15] == NO_DROP_TOS => FarEndFrame::NoDrop,
            (0x08, 0x00) => FarEndFrame::BestEffort,
            _ => continue,
        };
        all.push((u64::from(s) * 1_000_000_000 + u64::from(ns), seen));
    }
    Ok(all)
}

/// Formats a distribution as a line.
fn text(name: &str, mut values: Vec<u64>) -> String {
    values.sort_unstable();
    let (first, last) = (values.first(), values.last());
    format!(
        "{name}: {} times, median {:?} ns, {first:?} to {last:?}",
        values.len(),
        values.get(values.len() / 2)
    )
}

/// 1 Gbit/s: a frame takes 12.3 µs, 65535 quanta 33.6 ms, 2000 quanta 1.024 ms.
const SHORT_QUANTA: u16 = 2000;
const SHORT_NS: u64 = 2000 * 512;

/// XOFF to the last frame, XON to the first frame, the end of the pause time to the first frame.
#[test]
#[ignore = "needs BPF qdiscs and virtual time: cargo xtask vm --shift 0 latency"]
fn latency_of_xoff_xon_and_the_timer() -> Result<()> {
    let cable = Cable::new(1)?;
    attach(&cable.near.namespace, "--speed 1G --trust dscp")?;
    let file = cable.bed.dir().join("far.pcap");
    let mut tcpdump = cable.far.command("tcpdump");
    tcpdump.args([
        "-i",
        "eth0",
        "-n",
        "-p",
        "-U",
        "--time-stamp-precision=nano",
        "-Z",
        "root",
        "-s",
        "64",
        "-B",
    ]);
    let mut tcpdump = Process::start("tcpdump", tcpdump.args(["65536", "-w"]).arg(&file))?;
    tcpdump.wait_for("a capture", |line| line.contains("listening on").then_some(()))?;

    let pfc = PfcSender::new(&cable.far)?;
    let near = &cable.near;
    let pause = |milliseconds| std::thread::sleep(Duration::from_millis(milliseconds));
    std::thread::scope(|scope| -> Result<()> {
        let long = Duration::from_secs(1);
        let no_drop = scope.spawn(move || send(near, FAR, NO_DROP_TOS, Full::Block, long, Duration::ZERO));
        let beside = scope.spawn(move || send(near, FAR, 0, Full::Block, long, Duration::from_micros(200)));
        pause(50);
        for _ in 0..20 {
            pfc.send(3, 65_535)?;
            pause(10);
            pfc.send(3, 0)?;
            pause(5);
            pfc.send(3, SHORT_QUANTA)?;
            pause(5);
        }
        no_drop.join().expect("a sender")?;
        beside.join().expect("a sender")?;
        Ok(())
    })?;
    tcpdump.signal(nix::sys::signal::Signal::SIGINT)?;
    tcpdump.wait(Duration::ZERO)?;
    let seen = eventually("the capture", || Ok(Some(read(&file)?)))?;

    let (mut to_silence, mut to_first, mut to_end, mut after_xoff, mut beside) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, (at, what)) in seen.iter().enumerate() {
        let FarEndFrame::Pfc(quanta) = *what else { continue };
        let rest = &seen[index + 1..];
        let next =
            rest.iter().find(|(_, what)| matches!(what, FarEndFrame::Pfc(_))).map_or(u64::MAX, |(at, _)| *at);
        let no_drop: Vec<u64> =
            rest.iter().filter(|(_, what)| *what == FarEndFrame::NoDrop).map(|(at, _)| *at).collect();
        if quanta == 0 {
            to_first.extend(no_drop.first().map(|first| first - at));
            continue;
        }
        let end = if quanta == SHORT_QUANTA { at + SHORT_NS } else { next };
        let late: Vec<u64> = no_drop.iter().copied().filter(|then| *then < end).collect();
        after_xoff.push(late.len() as u64);
        to_silence.push(late.last().map_or(0, |last| last - at));
        let others =
            rest.iter().filter(|(then, what)| *what == FarEndFrame::BestEffort && *then < end).count();
        beside.push(others as u64);
        if quanta == SHORT_QUANTA {
            to_end.extend(no_drop.iter().find(|then| **then >= end).map(|first| first - end));
        }
    }
    for line in [
        text("XOFF to silence", to_silence.clone()),
        text("frames after XOFF", after_xoff.clone()),
        text("XON to the first frame", to_first.clone()),
        text("end of the timer to the first frame", to_end.clone()),
        text("frames of another priority during a pause", beside.clone()),
    ] {
        println!("    {line}");
    }
    ensure!(to_first.len() == 20 && to_end.len() == 20 && to_silence.len() == 40, "every PFC frame was seen");
    assert!(after_xoff.iter().all(|frames| *frames <= 1), "one frame at most was on its way: {after_xoff:?}");
    assert!(beside.iter().all(|frames| *frames > 0), "others go on: {beside:?}");
    assert!(to_silence.iter().all(|ns| *ns <= 15_000), "{to_silence:?}");
    assert!(to_first.iter().all(|ns| *ns <= 30_000), "{to_first:?}");
    assert!(to_end.iter().all(|ns| *ns <= 100_000), "{to_end:?}");
    Ok(())
}
