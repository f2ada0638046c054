//! PFC frames as an independent decoder sees them: captured on a host's veth, decoded by tshark
//! (IEEE 802.1Q-2022 clause 36.2, figure 36-1; refresh and release as in docs/behavior.md, "PFC
//! sent").

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context, Result};
use testbed::{Testbed, conservation, idle, port};
use tests::{Capture, frames, switch_config};

/// A slow line makes pause times long compared with delays of a busy machine: 65535 quanta of 512
/// bits at 100 Mbit/s.
const PAUSE: Duration = Duration::from_nanos(65_535 * 512 * 10);

/// One PFC frame.
#[derive(Debug)]
struct PfcFrame {
    at_s: f64,
    enabled: u16,
    quanta: [u16; 8],
}

const FIELDS: [&str; 15] = [
    "frame.time_epoch",
    "frame.len",
    "eth.dst",
    "eth.src",
    "eth.type",
    "macc.opcode",
    "macc.cbfc.enbv",
    "macc.cbfc.pause_time.c0",
    "macc.cbfc.pause_time.c1",
    "macc.cbfc.pause_time.c2",
    "macc.cbfc.pause_time.c3",
    "macc.cbfc.pause_time.c4",
    "macc.cbfc.pause_time.c5",
    "macc.cbfc.pause_time.c6",
    "macc.cbfc.pause_time.c7",
];

/// Parses a number as tshark prints it, `0x0008` or `8`.
fn number(text: &str) -> Result<u16> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.with_context(|| format!("'{text}' is no number"))
}

/// Checks what is constant in every PFC frame, and returns the rest.
fn decode(fields: &[String], source: &str) -> Result<PfcFrame> {
    let [at, len, to, from, ethertype, opcode, enabled, quanta @ ..] = fields else {
        anyhow::bail!("{fields:?}");
    };
    assert_eq!(len, "60", "padded to the least that Ethernet carries: {fields:?}");
    assert_eq!(to, "01:80:c2:00:00:01", "{fields:?}");
    assert_eq!(from, source, "the address of the port: {fields:?}");
    assert_eq!(ethertype, "0x8808", "{fields:?}");
    assert_eq!(opcode, "0x0101", "{fields:?}");
    let mut times = [0; 8];
    for (time, text) in times.iter_mut().zip(quanta) {
        *time = number(text)?;
    }
    Ok(PfcFrame { at_s: at.parse()?, enabled: number(enabled)?, quanta: times })
}

/// A kernel host, which does not honor PFC, fills a queue that drains at 10 Mbit/s: XOFF lasts for
/// most of a second, several pause times long, and ends by itself.
#[test]
fn xoff_refreshes_and_xon_are_on_the_wire() -> Result<()> {
    const DATAGRAMS: usize = 1000;
    const FRAME_BYTES: usize = 1000;
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (loader, drain) = (bed.linux_host(&switch, "loader")?, bed.linux_host(&switch, "drain")?);
    // Untagged frames have the port's priority; headroom holds all that the host may send. The
    // guard is off: its PFC frames are covered by another test.
    let config = "[dataplane]\noverload = \"drop\"\n".to_owned()
        + &switch_config("on")
        + "\n[port.loader]\ninterface = \"loader\"\nspeed = \"100M\"\nport_priority = 3\n\
           \n[port.loader.pfc.priority.3]\nxoff = { static_cells = 400 }\nxon_offset_cells = 200\n\
           headroom_cells = 6000\n\
           \n[port.drain]\ninterface = \"drain\"\nspeed = \"10M\"\n";
    let daemon = bed.daemon(&switch, &config)?;
    loader.namespace.run(&format!("ping -c 1 -W 5 {}", drain.ipv4()))?; // the switch and both hosts know each other
    let (capture, others) = (
        Capture::start(&bed, &loader, "ether proto 0x8808")?,
        Capture::start(&bed, &drain, "ether proto 0x8808")?,
    );
    let address: String = switch.run("cat /sys/class/net/loader/address")?.trim().to_string();

    let socket = loader.namespace.enter(|| UdpSocket::bind((loader.ipv4().as_str(), 0)))??;
    let headers = 14 + 20 + 8;
    for _ in 0..DATAGRAMS {
        socket.send_to(&vec![0x5a; FRAME_BYTES - headers], (drain.ipv4().as_str(), 4000))?;
        std::thread::sleep(Duration::from_micros(50)); // no faster than the kernel's 256-entry ring is emptied
    }
    let after = daemon.until("XOFF has begun and ended", |now| {
        let began = now.ports.iter().any(|port| port.groups[3].xoff_episodes > 0);
        let reported = port(now, "loader").ok()?.pfc_sent.as_ref()?.xon_frames[3] == 2; // XON is repeated once
        (began && reported && idle(now)).then(|| now.clone())
    })?;
    let sent = port(&after, "loader")?.pfc_sent.clone().unwrap_or_default();
    assert!(
        frames(port(&after, "loader")?.received) > DATAGRAMS as u64 / 2,
        "most frames came in: {after:#?}"
    );

    let captured = capture.wait_for("macc", &FIELDS, sent.frames as usize)?;
    assert_eq!(captured.len() as u64, sent.frames, "all that were counted are on the wire");
    let captured: Vec<PfcFrame> = captured.iter().map(|f| decode(f, &address)).collect::<Result<_>>()?;
    let (paused, [last, again]) = captured.split_last_chunk::<2>().context("PFC frames")?;
    assert!(paused.len() >= 4, "an XOFF of most of a second is refreshed several times: {captured:?}");
    for frame in paused {
        assert_eq!((frame.enabled, frame.quanta[3]), (1 << 3, 65_535), "XOFF of priority 3 alone: {frame:?}");
        assert_eq!(frame.quanta.iter().filter(|quanta| **quanta != 0).count(), 1, "{frame:?}");
    }
    assert_eq!((last.enabled, last.quanta), (1 << 3, [0; 8]), "XON of priority 3 alone ends it: {last:?}");
    assert_eq!((again.enabled, again.quanta), (1 << 3, [0; 8]), "and once more: {again:?}");
    for pair in captured.windows(2) {
        let gap = pair[1].at_s - pair[0].at_s;
        assert!(
            gap < PAUSE.as_secs_f64() / 2.0,
            "{gap} s between {pair:?}, half the pause time is {:?}",
            PAUSE / 2
        );
    }
    let xoffs: Vec<f64> = paused.iter().map(|frame| frame.at_s - paused[0].at_s).collect();
    println!("XOFF at {xoffs:.3?} s, XON at {:.3} s, pause time {PAUSE:?}", last.at_s - paused[0].at_s);
    assert_eq!((sent.xoff_frames[3], sent.xon_frames[3]), (paused.len() as u64, 2));

    // The egress side is not affected: PFC frames leave where the data frames arrived, and are
    // never bridged.
    assert_eq!(others.read("macc", &FIELDS)?.len(), 0);
    conservation(&after, &[])?;
    daemon.stop()?;
    Ok(())
}
