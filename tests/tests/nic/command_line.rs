//! The command line besides attaching and detaching: a switch by its name, a namespace by a process
//! in it, counters, the limit, the service order of queues.

use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};
use testbed::{Endpoint, Namespace, Process, eventually};

use crate::cable::{Cable, FAR};
use crate::lab::{Lab, NO_DROP_TOS, PORT, attach, nic, priorities, show};
use crate::latency::PfcSender;

/// DSCP 32 is priority 4.
const FOUR_TOS: u8 = 32 << 2;

/// At 1 Mbit/s the longest pause lasts 33 s and a frame of 1514 bytes takes 12 ms: long enough to
/// inspect the state in between.
const SLOW: &str = "--speed 1M --trust dscp --no-drop 3,4";

/// Sends `frames` datagrams from a socket whose buffer has room for all of them.
fn send_frames(from: &Endpoint, tos: u8, frames: u32) -> Result<()> {
    let socket = from.namespace.enter(|| UdpSocket::bind("0.0.0.0:0"))??;
    setsockopt(&socket, sockopt::SndBufForce, &(frames as usize * 4096))?;
    setsockopt(&socket, sockopt::Ipv4Tos, &i32::from(tos))?;
    socket.set_nonblocking(true)?;
    for _ in 0..frames {
        socket.send_to(&[0; 1472], (FAR, PORT)).context("the socket has room")?;
    }
    Ok(())
}

/// Waits until an interface has received `frames` PFC frames.
fn until_received(at: &Namespace, frames: u64) -> Result<()> {
    eventually("the PFC frames are received", || {
        Ok((show(at)?["heard"]["pfc_frames"] == frames).then_some(()))
    })
}

/// A name in /run/sluice, where switches have their control sockets; removed on drop.
struct Name(PathBuf);

impl Name {
    fn new(socket: &std::path::Path) -> Result<Self> {
        std::fs::create_dir_all("/run/sluice")?;
        let file = PathBuf::from(format!("/run/sluice/rig-{}.sock", std::process::id()));
        symlink(socket, &file)?;
        Ok(Self(file))
    }

    fn text(&self) -> String {
        self.0.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One command attaches a container: the switch's name gives speed and priorities, and a process in
/// the container gives its namespace.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn a_switch_by_its_name_and_a_namespace_by_a_process() -> Result<()> {
    let lab = Lab::new("dscp")?;
    let name = Name::new(lab.daemon.socket())?;
    let mut application = lab.senders[0].namespace.command("sleep");
    let application = Process::start("sleep", application.arg("1000000"))?;
    let comm = format!("/proc/{}/comm", application.pid());
    eventually("it runs in there", || Ok((std::fs::read_to_string(&comm)?.trim() == "sleep").then_some(())))?;
    let attach = |more: &str| -> Result<Value> {
        let (netns, switch) = (application.pid(), name.text());
        let output =
            nic(&format!("attach eth0 --netns {netns} --switch {switch} --trust dscp --json {more}"))?;
        Ok(serde_json::from_str(&output)?)
    };
    let expected = json!({
        "device": "eth0", "netns": application.pid().to_string(), "speed_bps": 100_000_000, "no_drop": [3], "trust": "dscp",
        "port_priority": 0, "order": "drr", "limit_bytes": 16 << 20, "replaced": null,
    });
    assert_eq!(attach("")?, expected);
    let other = attach("--port receiver --replace")?;
    assert_eq!((&other["speed_bps"], &other["replaced"]), (&json!(20_000_000), &json!("sluice_nic")));
    assert_eq!(show(&lab.senders[0].namespace)?["speed_bps"], 20_000_000);
    let unknown = attach("--port nobody").unwrap_err().to_string();
    assert!(unknown.contains("no port `nobody`") && unknown.contains("receiver"), "{unknown}");
    lab.daemon.stop()?;
    Ok(())
}

/// Received and sent frames are counted one by one, for honored priorities and for others.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn show_counts_what_happens() -> Result<()> {
    let cable = Cable::new(1)?;
    let near = &cable.near.namespace;
    assert!(
        nic(&format!("show --netns {}", near.name()))?.contains("honors PFC: `sluice nic attach` makes one")
    );
    attach(near, SLOW)?;
    let pfc = PfcSender::new(&cable.far)?;
    pfc.send(3, 65_535)?;
    pfc.send(3, 65_535)?;
    pfc.send(4, 0)?;
    pfc.send(5, 1)?;
    until_received(near, 4)?;
    send_frames(&cable.near, NO_DROP_TOS, 2)?;
    send_frames(&cable.near, 0, 3)?;
    let shown = eventually("three frames of priority 0 are sent", || {
        let shown = show(near)?;
        Ok((priorities(&shown, "sent_frames")[0] == 3).then_some(shown))
    })?;
    assert_eq!(
        shown["heard"],
        json!({"pfc_frames": 4, "pause_frames": 0, "malformed_frames": 0, "kicks": 0})
    );
    assert_eq!(priorities(&shown, "xoff_frames"), [0, 0, 0, 2, 0, 1, 0, 0]);
    assert_eq!(priorities(&shown, "xon_frames"), [0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(priorities(&shown, "episodes"), [0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(priorities(&shown, "sent_frames"), [3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(priorities(&shown, "sent_bytes"), [3 * 1514, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(priorities(&shown, "held_frames"), [0, 0, 0, 2, 0, 0, 0, 0]);
    assert_eq!(priorities(&shown, "held_bytes"), [0, 0, 0, 2 * 1514, 0, 0, 0, 0]);
    assert_eq!(
        (&shown["priorities"][3]["paused"], &shown["priorities"][5]["paused"]),
        (&json!(true), &json!(false))
    );
    let text = nic(&format!("show --netns {}", near.name()))?;
    assert!(text.starts_with("eth0: 1M, no-drop 3, 4, trust dscp, drr; received 4 PFC frames"), "{text}");
    assert!(text.lines().any(|line| line.contains("paused")), "{text}");
    Ok(())
}

/// Frames of one priority beyond its limit are dropped and counted; another priority has its own
/// limit.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn beyond_the_limit_is_dropped_and_counted() -> Result<()> {
    let cable = Cable::new(1)?;
    let near = &cable.near.namespace;
    attach(near, &format!("{SLOW} --limit 256K"))?;
    let pfc = PfcSender::new(&cable.far)?;
    pfc.send(3, 65_535)?;
    until_received(near, 1)?;
    send_frames(&cable.near, NO_DROP_TOS, 300)?;
    send_frames(&cable.near, FOUR_TOS, 1)?;
    let shown = show(near)?;
    let (held, dropped) = (priorities(&shown, "held_frames"), priorities(&shown, "dropped_frames"));
    assert_eq!(held[3] + dropped[3], 300, "{shown:#}");
    assert!(held[3] > 50 && dropped[3] > 100, "{shown:#}");
    assert_eq!(dropped[4], 0, "{shown:#}");
    assert_eq!(priorities(&shown, "dropped_bytes")[3], dropped[3] * 1514);
    let memory = priorities(&shown, "held_peak_memory_bytes")[3];
    assert!(memory <= 256 << 10 && memory > 250 << 10, "{memory}");
    // `tc` shows them too.
    let output: Value = serde_json::from_str(&near.run("tc -s -j qdisc show dev eth0 root")?)?;
    assert_eq!(
        (&output[0]["kind"], &output[0]["drops"]),
        (&json!("sluice_nic"), &json!(dropped[3])),
        "{output}"
    );
    // When the pause ends, the held frames arrive.
    pfc.send(3, 0)?;
    eventually("what was held is sent", || {
        Ok((priorities(&show(near)?, "sent_frames")[3] == held[3]).then_some(()))
    })
}

/// Two priorities that are resumed at once: alternating, or the higher one first.
#[test]
#[ignore = "needs BPF qdiscs: cargo xtask vm"]
fn queues_take_turns_or_the_higher_goes_first() -> Result<()> {
    const FRAMES: u32 = 60;
    for order in ["drr", "strict"] {
        let cable = Cable::new(1)?;
        let near = &cable.near.namespace;
        attach(near, &format!("{SLOW} --order {order}"))?;
        let pfc = PfcSender::new(&cable.far)?;
        pfc.send(3, 65_535)?;
        pfc.send(4, 65_535)?;
        until_received(near, 2)?;
        send_frames(&cable.near, NO_DROP_TOS, FRAMES)?;
        send_frames(&cable.near, FOUR_TOS, FRAMES)?;
        pfc.send(4, 0)?;
        pfc.send(3, 0)?;
        let mut looks = 0;
        eventually("all are sent", || {
            let shown = show(near)?;
            let (held, sent) = (priorities(&shown, "held_frames"), priorities(&shown, "sent_frames"));
            looks += u32::from(held[4] > 0 && sent[4] > 4);
            if order == "strict" {
                ensure!(held[4] == 0 || sent[3] == 0, "strict: {shown:#}");
            } else if held[3] > 0 && held[4] > 0 {
                ensure!(sent[3].abs_diff(sent[4]) <= 4, "by turns: {shown:#}");
            }
            Ok((sent[3] + sent[4] == 2 * u64::from(FRAMES)).then_some(()))
        })?;
        ensure!(looks > 0, "{order}: nobody looked while both were held");
    }
    Ok(())
}
