//! Byte for byte: every sample frame from every kind of port to every other kind, and to all at
//! once.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use testbed::{Daemon, Endpoint, Namespace, Process, Testbed, eventually, idle};
use tests::{Capture, Sample, catalog};
use xdp::PacketSocket;

/// The largest MTU of a port.
const MTU: usize = 9216;

/// Ports on a veth, on another, on a tap, and on a macvlan, each with a silent host.
struct Lab {
    daemon: Daemon,
    hosts: Vec<Endpoint>,
    _cable: Process,
    bed: Testbed,
}

impl Lab {
    fn new() -> Result<Self> {
        let bed = Testbed::new()?;
        let switch = bed.switch("switch")?;
        let (veth, other) = (bed.sluice_host(&switch, "a")?, bed.sluice_host(&switch, "b")?);
        let macvlan = bed.macvlan_host(&switch, "m")?;
        let (tap, cable) = bed.tap_host(&switch, "t").context("is there a /dev/net/tun?")?;
        let hosts = vec![veth, other, tap, macvlan];
        set_mtu(&switch, "low-m")?;
        for host in &hosts {
            set_mtu(&host.namespace, Endpoint::INTERFACE)?;
            set_mtu(&switch, &host.name)?;
        }
        let config: String =
            hosts.iter().map(|host| format!("[port.{0}]\ninterface = \"{0}\"\n", host.name)).collect();
        let daemon = bed.daemon(&switch, &config)?;
        Ok(Self { daemon, hosts, _cable: cable, bed })
    }

    /// Starts captures, at all hosts except the sender, of what the sender sends.
    fn listen(&self, from: &Endpoint) -> Result<Vec<(&Endpoint, Capture)>> {
        let others = self.hosts.iter().filter(|host| host.name != from.name);
        let filter = format!("ether src {}", from.mac());
        others.map(|host| Ok((host, Capture::start(&self.bed, host, &filter)?))).collect()
    }
}

fn set_mtu(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.ip(&format!("link set dev {interface} mtu {MTU}")).map(drop)
}

fn address(host: &Endpoint) -> [u8; 6] {
    [2, 0, 0, 0, 0, host.number]
}

/// Frames in flight at once: fewer than a veth's ring has slots for.
const AT_ONCE: usize = 64;

/// Sends all samples, and compares what arrived at each of these hosts, by their captures.
fn cross(from: &Endpoint, samples: &[Sample], ears: &[(&Endpoint, Capture)]) -> Result<()> {
    let socket = from.namespace.enter(|| PacketSocket::open(Endpoint::INTERFACE))??;
    let mut sent = 0;
    for some in samples.chunks(AT_ONCE) {
        for sample in some {
            eventually("the host's kernel takes the frame", || Ok(socket.send(&sample.bytes).ok()))
                .with_context(|| sample.name.clone())?;
        }
        sent += some.len();
        for (to, capture) in ears {
            let count = eventually("as many frames as were sent", || {
                Ok(Some(arrived(capture, samples)?.len()).filter(|&count| count >= sent))
            });
            if count.is_err() {
                compare(from, &samples[..sent], &arrived(capture, samples)?)
                    .with_context(|| format!("from {} to {}", from.name, to.name))?;
            }
        }
    }
    for (to, capture) in ears {
        compare(from, samples, &arrived(capture, samples)?)
            .with_context(|| format!("from {} to {}", from.name, to.name))?;
    }
    Ok(())
}

/// Returns the frames so far to the samples' destination.
fn arrived(capture: &Capture, samples: &[Sample]) -> Result<Vec<Vec<u8>>> {
    let to = &samples[0].bytes[..6];
    Ok(capture.frames()?.into_iter().filter(|frame| frame.starts_with(to)).collect())
}

/// Returns a frame as it is received. The kernel removes the outermost tag before a macvlan gets
/// the frame: docs/behavior.md, "What an interface does to frames".
fn received(from: &Endpoint, sample: &Sample) -> Vec<u8> {
    let mut bytes = sample.bytes.clone();
    if from.name == "m" && matches!(bytes[12..14], [0x81, 0] | [0x88, 0xa8]) {
        bytes.drain(12..16);
    }
    bytes
}

/// True if the kernel reassembles a frame: it joins fragments of IPv4 packets to a group address
/// before a macvlan gets them (docs/behavior.md, there).
fn is_joined(from: &Endpoint, sample: &Sample) -> bool {
    let bytes = received(from, sample);
    from.name == "m" && bytes[12..14] == [8, 0] && u16::from_be_bytes([bytes[20], bytes[21]]) & 0x3fff != 0
}

/// Checks that all samples arrived once, byte for byte, and nothing else did.
fn compare(from: &Endpoint, samples: &[Sample], found: &[Vec<u8>]) -> Result<()> {
    let expected: BTreeSet<Vec<u8>> = samples.iter().map(|sample| received(from, sample)).collect();
    ensure!(expected.len() == samples.len(), "two samples are alike");
    let once: BTreeSet<Vec<u8>> = found.iter().cloned().collect();
    let is_missing = |sample: &&Sample| !once.contains(&received(from, sample));
    let missing: Vec<&str> = samples.iter().filter(is_missing).map(|sample| &*sample.name).collect();
    let others = once.difference(&expected);
    let others: Vec<_> =
        others.map(|frame| format!("{} bytes, {:02x?}", frame.len(), &frame[..40])).collect();
    ensure!(
        missing.is_empty() && found.len() == samples.len(),
        "{} of {} arrived; missing: {missing:#?}, and in their place {others:#?}",
        found.len(),
        samples.len(),
    );
    Ok(())
}

#[test]
fn every_frame_crosses_from_every_kind_of_port_to_every_other() -> Result<()> {
    let lab = Lab::new()?;
    for from in &lab.hosts {
        let ears = lab.listen(from)?;
        let mut sent = 0;
        for ear in &ears {
            let samples = catalog(address(from), address(ear.0), MTU);
            cross(from, &samples, std::slice::from_ref(ear))?;
            sent += samples.len();
        }
        let mut to_all = catalog(address(from), [0xff; 6], MTU);
        to_all.retain(|sample| !is_joined(from, sample));
        cross(from, &to_all, &ears)?;
        println!("{sent} frames from {}, and {} to all", from.name, to_all.len());
    }
    let snapshot = lab.daemon.until("the switch is at rest", |now| idle(now).then(|| now.clone()))?;
    testbed::conservation(&snapshot, &[])?;
    let totals = lab.daemon.stop()?;
    ensure!(totals.contains("every frame is accounted for"), "{totals}");
    Ok(())
}
