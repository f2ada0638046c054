//! Two senders and a receiver behind a slow port, on a running daemon; sockets that send as much as
//! they can.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use testbed::{Daemon, Endpoint, Namespace, Snapshot, Testbed, binary, drops, eventually, idle, port};

/// How long senders send.
pub const LONG: Duration = Duration::from_secs(10);

/// DSCP 24 is priority 3; the value is the second byte of the IP header.
pub const NO_DROP_TOS: u8 = 24 << 2;

/// Speed of the ports of the senders and the receiver: far below what one CPU emulated by QEMU can
/// do.
pub const SENDER_SPEED: &str = "100M";
const RECEIVER_MBPS: u64 = 20;

/// Headroom of each sender's port: 84 ms of its line. A sender that does not honor PFC overruns it
/// within seconds, since even the emulated CPU sends a third more than the receiver's port carries.
const HEADROOM_CELLS: u32 = 4096;

/// Bytes of a UDP payload in a frame of 1514 bytes.
const PAYLOAD_BYTES: usize = 1472;

/// The testbed with everything in it.
pub struct Lab {
    pub senders: [Endpoint; 2],
    pub receiver: Endpoint,
    pub daemon: Daemon,
    pub bed: Testbed,
}

impl Lab {
    /// Creates hosts with addresses that know each other, on a daemon that trusts `trust`.
    pub fn new(trust: &str) -> Result<Self> {
        Self::with_headroom(trust, HEADROOM_CELLS)
    }

    /// Creates the same with PFC by DCBX on the ports of the senders, which are not willing.
    pub fn negotiating(trust: &str) -> Result<Self> {
        Self::build(trust, HEADROOM_CELLS, Some(3))
    }

    /// Creates the same with this headroom for each sender.
    pub fn with_headroom(trust: &str, headroom_cells: u32) -> Result<Self> {
        Self::build(trust, headroom_cells, None)
    }

    fn build(trust: &str, headroom_cells: u32, negotiated: Option<u8>) -> Result<Self> {
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let senders = [bed.linux_host(&switch, "sender1")?, bed.linux_host(&switch, "sender2")?];
        let receiver = bed.linux_host(&switch, "receiver")?;
        let mut config = format!(
            "[switch]\nname = \"rig\"\n\n[buffer]\nheadroom_cells = 49152\n\n[port-defaults]\ntrust = \"{trust}\"\n\n\
             [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n"
        );
        config += &tests::slow_port_config("receiver", RECEIVER_MBPS);
        for sender in &senders {
            config += &tests::port_config(&sender.name, SENDER_SPEED);
            if let Some(no_drop) = negotiated {
                config += &format!(
                    "lldp = \"both\"\ndcbx = {{}}\n[port.{}.pfc]\nmode = \"auto\"\nno_drop = [{no_drop}]\n",
                    sender.name
                );
            }
            config += &format!(
                "\n[port.{}.pfc.priority.3]\nxoff = {{ static_cells = 1024 }}\nxon_offset_cells = 256\n\
                 headroom_cells = {headroom_cells}\n",
                sender.name
            );
        }
        let daemon = bed.daemon(&switch, &config)?;
        let lab = Self { senders, receiver, daemon, bed };
        for sender in &lab.senders {
            sender.namespace.run(&format!("ping -c 1 -W 20 {}", lab.receiver.ipv4()))?;
        }
        Ok(lab)
    }

    /// Makes both senders honor PFC.
    pub fn attach(&self, more: &str) -> Result<()> {
        for sender in &self.senders {
            attach(&sender.namespace, &format!("--speed {SENDER_SPEED} {more}"))?;
        }
        Ok(())
    }

    /// Waits until nothing is in flight.
    pub fn at_rest(&self, is_attached: bool) -> Result<Snapshot> {
        if is_attached {
            for sender in &self.senders {
                eventually("the qdisc is empty", || {
                    let held: u64 = priorities(&show(&sender.namespace)?, "held_frames").iter().sum();
                    Ok((held == 0).then_some(()))
                })?;
            }
        }
        self.daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))
    }
}

/// Runs `sluice nic …` and returns its output.
pub fn nic(arguments: &str) -> Result<String> {
    let output = std::process::Command::new(binary("sluice")?)
        .arg("nic")
        .args(arguments.split_whitespace())
        .output()?;
    ensure!(
        output.status.success(),
        "sluice nic {arguments}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Attaches the interface of a namespace.
pub fn attach(namespace: &Namespace, options: &str) -> Result<String> {
    nic(&format!("attach {} --netns {} {options}", Endpoint::INTERFACE, namespace.name()))
}

/// Returns the counters of the interface of a namespace.
pub fn show(namespace: &Namespace) -> Result<Value> {
    let output = nic(&format!("show {} --netns {} --json", Endpoint::INTERFACE, namespace.name()))?;
    let shown: Value = serde_json::from_str(&output)?;
    Ok(shown["interfaces"][0].clone())
}

/// Returns one number of every priority.
pub fn priorities(shown: &Value, field: &str) -> Vec<u64> {
    let all = shown["priorities"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|priority| priority[field].as_u64().unwrap_or(u64::MAX)).collect()
}

/// Returns the frames of the no-drop priority that the switch dropped, anywhere.
pub fn dropped(snapshot: &Snapshot) -> Result<u64> {
    let mut sum = 0;
    for name in ["sender1", "sender2", "receiver"] {
        sum += tests::dropped(port(snapshot, name)?, 3);
    }
    Ok(sum)
}

/// Returns the losses of no-drop frames: headroom exhausted, and frames that kernels lost on
/// transmit and on receipt.
pub fn broken(snapshot: &Snapshot) -> [(&'static str, u64); 3] {
    [
        ("headroom exhausted", drops(snapshot, "ingress_no_drop")),
        ("lost when sent", snapshot.ports.iter().map(|port| port.kernel_lost_frames).sum()),
        ("lost when received", testbed::lost_by_kernels(snapshot, [])),
    ]
}

/// No loss of any of these kinds.
pub const UNBROKEN: [(&str, u64); 3] =
    [("headroom exhausted", 0), ("lost when sent", 0), ("lost when received", 0)];

/// How a sender handles a full socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Waits in the kernel.
    Block,
    /// Gets EAGAIN, and retries a little later.
    Again,
}

/// Counts of a sender.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    pub frames: u64,
    /// Number of times that the socket was full.
    pub full: u64,
}

/// Sends datagrams for `duration`, as many as the socket accepts, with a gap of `apart` between
/// two.
pub fn send(
    from: &Endpoint,
    to: &str,
    tos: u8,
    full: Full,
    duration: Duration,
    apart: Duration,
) -> Result<Sent> {
    let socket = from.namespace.enter(|| UdpSocket::bind("0.0.0.0:0"))??;
    socket.connect((to, PORT))?;
    setsockopt(&socket, sockopt::Ipv4Tos, &i32::from(tos))?;
    socket.set_nonblocking(full == Full::Again)?;
    let (end, mut sent) = (Instant::now() + duration, Sent::default());
    let mut payload = [0; PAYLOAD_BYTES];
    while Instant::now() < end {
        payload[..8].copy_from_slice(&sent.frames.to_be_bytes());
        match socket.send(&payload) {
            Ok(_) => sent.frames += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sent.full += 1;
                std::thread::sleep(Duration::from_micros(500));
            }
            // A full ordinary qdisc reports that to a local socket.
            Err(error) if error.raw_os_error() == Some(nix::Error::ENOBUFS as i32) => sent.full += 1,
            Err(error) => return Err(error).with_context(|| format!("{} sends", from.name)),
        }
        if !apart.is_zero() {
            std::thread::sleep(apart);
        }
    }
    Ok(sent)
}

/// Destination port of the datagrams.
pub const PORT: u16 = 4000;

/// Counts arrivals while `sending` runs, and then until nothing more arrives.
pub fn count_arrivals<T>(at: &Endpoint, sending: impl FnOnce(&AtomicU64) -> Result<T>) -> Result<(T, u64)> {
    let socket = at.namespace.enter(|| UdpSocket::bind(("0.0.0.0", PORT)))??;
    setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20))?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let (arrived, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2048];
            while !is_over.load(Ordering::Relaxed) {
                if socket.recv(&mut buffer).is_ok() {
                    arrived.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let sent = sending(&arrived);
        is_over.store(true, Ordering::Relaxed);
        Ok((sent?, arrived.load(Ordering::Relaxed)))
    })
}
