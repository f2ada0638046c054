//! Probes whether PFC frames pass the NICs, as far as that can be determined from this machine.
//!
//! Rule: some NICs refuse to send PFC frames from software, and some consume the PFC frames they
//! receive. So the ports send, one after the other, a PFC frame that enables no priority and so
//! pauses nothing. Where another port of this switch, or the same one, receives such a frame within
//! [`PATIENCE`], there is a cable or a loop between them, and both interfaces pass PFC. A loop that
//! was stopped reads the frame later, and a peer that pauses meanwhile hides it, so a frame that
//! was not received is sent again, up to [`FRAMES`] in all. Where no port receives one, the result
//! is unknown, which is reported for a NIC. A frame that the kernel does not accept raises an
//! alarm. A port that becomes no-drop later, by an agreement with its peer or a reload, has its
//! turn then, once for each interface. Source: docs/behavior.md, "PFC and NICs".

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use config::PfcTest;
use switch::monitor::counters::PfcCount;
use switch::{EventKind, EventRecord, Severity, Snapshot, SwitchSettings};
use wire::mac::MacAddr;
use wire::pause::{FRAME_BYTES, Pfc};
use xdp::PacketSender;

use crate::ports::interface::{DeviceKind, Interface};

/// The most time that a frame may take to be received and counted.
const PATIENCE: Duration = Duration::from_millis(200);
/// The most frames that a port sends.
const FRAMES: u32 = 5;
/// Interval of the checks.
const PACE: Duration = Duration::from_millis(20);

/// A port that is to send a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sender {
    slot: usize,
    interface: String,
    interface_index: u32,
    mac: MacAddr,
    is_nic: bool,
    /// True if the port sends no frame and its result is always unknown (the test is off).
    is_silent: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum ProbeResult {
    /// The kernel did not accept the frame.
    Refused(String),
    /// The ports in these slots have received the frame.
    Received(Vec<usize>),
    Unknown,
}

/// A frame in flight.
#[derive(Debug)]
struct ActiveProbe {
    sender: Sender,
    before: Vec<PfcCount>,
    deadline: Instant,
    /// How many more frames the port may send.
    frames_left: u32,
}

/// The ports that have not been probed yet.
#[derive(Debug)]
pub struct PfcProbe {
    wanted: PfcTest,
    /// Slot and interface index of the ports that had or have their turn.
    seen: Vec<(usize, u32)>,
    waiting: VecDeque<Sender>,
    active: Option<ActiveProbe>,
    /// Sends the frames. It stays open, as a close waits for the kernel.
    packets: Option<PacketSender>,
    next_check: Instant,
}

impl PfcProbe {
    /// Creates the probe of the ports that have no-drop priorities and send PFC at the start, on
    /// these interfaces; `None` for a port that is not open.
    pub fn new(wanted: PfcTest, settings: &SwitchSettings, interfaces: &[Option<&Interface>]) -> Self {
        let (waiting, seen) = (VecDeque::new(), Vec::new());
        let mut probe = Self {
            wanted,
            waiting,
            active: None,
            packets: PacketSender::open().ok(),
            next_check: Instant::now(),
            seen,
        };
        probe.include(settings, interfaces);
        probe
    }

    /// Adds the ports that have got no-drop priorities since, as by an agreement with the peer, if
    /// their interface was not probed yet.
    pub fn include(&mut self, settings: &SwitchSettings, interfaces: &[Option<&Interface>]) {
        let ports = settings.ports.iter().zip(interfaces).enumerate();
        for (slot, (_, interface)) in ports.filter(|(_, (port, _))| port.pfc.no_drop != 0 && port.pfc.tx) {
            let Some(interface) = interface.filter(|it| !self.seen.contains(&(slot, it.index))) else {
                continue;
            };
            if interface.kind == DeviceKind::VhostUser {
                continue; // there is no interface to send on
            }
            self.seen.retain(|(seen, _)| *seen != slot);
            self.seen.push((slot, interface.index));
            let is_nic = interface.kind == DeviceKind::Hardware;
            if is_nic || self.wanted == PfcTest::All {
                self.waiting.push_back(Sender {
                    slot,
                    interface: interface.name.clone(),
                    interface_index: interface.index,
                    mac: interface.mac,
                    is_nic,
                    is_silent: self.wanted == PfcTest::Off,
                });
            }
        }
    }

    /// True if the counters are to be checked now.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = (self.active.is_some() || !self.waiting.is_empty()) && now >= self.next_check;
        if is_due {
            self.next_check = now + PACE;
        }
        is_due
    }

    /// Sends the next frame, or checks which ports have received the last one. Returns the event to
    /// report, if any.
    pub fn poll(&mut self, snapshot: &Snapshot, now: Instant) -> Option<EventRecord> {
        let packets = self.packets.take().map_or_else(PacketSender::open, Ok);
        let proceeded = self.proceed(snapshot, now, |sender| match &packets {
            Ok(packets) => send(packets, sender),
            Err(error) => Err(io::Error::other(error.to_string())),
        });
        self.packets = packets.ok();
        proceeded.map(|(sender, outcome)| describe(&sender, &outcome, snapshot))
    }

    fn proceed(
        &mut self,
        snapshot: &Snapshot,
        now: Instant,
        send: impl FnOnce(&Sender) -> io::Result<()>,
    ) -> Option<(Sender, ProbeResult)> {
        let counts: Vec<PfcCount> = snapshot.ports.iter().map(|port| port.pfc_received).collect();
        let (sender, frames_left) = match self.active.take() {
            Some(probe) => {
                let received = received(&probe.before, &counts);
                if !received.is_empty() {
                    return Some((probe.sender, ProbeResult::Received(received)));
                }
                if now < probe.deadline {
                    self.active = Some(probe);
                    return None;
                }
                (probe.sender, probe.frames_left)
            }
            None => (self.waiting.pop_front()?, FRAMES),
        };
        if sender.is_silent || frames_left == 0 {
            return Some((sender, ProbeResult::Unknown));
        }
        match send(&sender) {
            Ok(()) => {
                let (deadline, frames_left) = (now + PATIENCE, frames_left - 1);
                self.active = Some(ActiveProbe { sender, before: counts, deadline, frames_left });
                None
            }
            // The kernel has accepted a frame, so the interface has gone since.
            Err(_) if frames_left < FRAMES => Some((sender, ProbeResult::Unknown)),
            Err(error) => Some((sender, ProbeResult::Refused(error.to_string()))),
        }
    }
}

/// Returns the ports that have received PFC frames which enable no priority, and none that enable
/// one, as the frames of peers do.
fn received(before: &[PfcCount], now: &[PfcCount]) -> Vec<usize> {
    let reported = |count: &PfcCount| {
        count.xoff_frames.iter().chain(&count.xon_frames).copied().fold(0_u64, u64::wrapping_add)
    };
    let changes = before.iter().zip(now).enumerate();
    let received =
        changes.filter(|(_, (before, now))| now.frames > before.frames && reported(now) == reported(before));
    received.map(|(slot, _)| slot).collect()
}

fn send(packets: &PacketSender, sender: &Sender) -> io::Result<()> {
    let mut frame = [0; FRAME_BYTES];
    Pfc::default().encode(sender.mac, &mut frame);
    packets.send(sender.interface_index, &frame)
}

fn describe(sender: &Sender, outcome: &ProbeResult, snapshot: &Snapshot) -> EventRecord {
    let Sender { interface, slot, is_nic, .. } = sender;
    let (kind, message) = match outcome {
        ProbeResult::Refused(why) => (
            EventKind::PfcRefused,
            format!(
                "{interface} does not send PFC frames, so its peer cannot be paused and no-drop frames may be lost: {why}"
            ),
        ),
        ProbeResult::Received(slots) => {
            let names: Vec<&str> = slots.iter().map(|&slot| &*snapshot.ports[slot].name).collect();
            let names = names.join(" and ");
            (EventKind::PfcProved, format!("a PFC frame sent by {interface} was received on port {names}"))
        }
        ProbeResult::Unknown if *is_nic => (
            EventKind::PfcUnproved,
            format!(
                "whether PFC frames get out of {interface} and in cannot be known from here, and some NICs refuse to send or swallow \
                 them: check that `ethtool -a {interface}` and `dcb pfc show dev {interface}` say off, and that XOFF frames leave and \
                 arrive (`sluice show pfc`); a cable to another port of this switch proves both at the next start"
            ),
        ),
        ProbeResult::Unknown => (
            EventKind::PfcUnproved,
            format!(
                "no port of this switch received the PFC frame sent by {interface}; virtual interfaces let them through"
            ),
        ),
    };
    let event = EventRecord::new(kind, message).of_port(*slot);
    match outcome {
        // Virtual interfaces pass PFC frames, so nothing is amiss.
        ProbeResult::Unknown if !is_nic => EventRecord { severity: Severity::Info, ..event },
        _ => event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::fsm::LinkState;
    use switch::monitor::counters::PortSnapshot;

    fn interface(name: &str, kind: DeviceKind) -> Interface {
        Interface {
            name: name.to_owned(),
            index: 1,
            mac: MacAddr::default(),
            mtu: 1500,
            kind,
            speed_bps: None,
            state: LinkState::Carrier,
        }
    }

    const FILE: &str = "[port-defaults.pfc]\nmode = \"on\"\n[port.a]\ninterface = \"e0\"\n\
        [port.b]\ninterface = \"e1\"\npfc.no_drop = [3]\n[port.c]\ninterface = \"v0\"\npfc.no_drop = [3]\n";

    /// Three ports: a lossy one on a NIC, a no-drop one on a NIC, a no-drop one on a veth.
    fn test(wanted: PfcTest) -> PfcProbe {
        let settings = config::parse("test.toml", FILE).unwrap().switch;
        let kinds = [DeviceKind::Hardware, DeviceKind::Hardware, DeviceKind::Software("veth".to_owned())];
        let interfaces: Vec<_> =
            ["e0", "e1", "v0"].into_iter().zip(kinds).map(|(n, k)| interface(n, k)).collect();
        PfcProbe::new(wanted, &settings, &interfaces.iter().map(Some).collect::<Vec<_>>())
    }

    #[test]
    fn a_guest_is_not_probed() {
        let settings = config::parse("test.toml", FILE).unwrap().switch;
        let guest = interface("/run/guest.sock", DeviceKind::VhostUser);
        assert!(PfcProbe::new(PfcTest::All, &settings, &[Some(&guest); 3]).waiting.is_empty());
    }

    /// PFC frames received by each port, and how often they paused a priority.
    fn snapshot(counts: [(u64, u64); 3]) -> Snapshot {
        let port = |(frames, xoff)| {
            let mut count = PfcCount { frames, ..PfcCount::default() };
            count.xoff_frames[3] = xoff;
            PortSnapshot { name: "x".to_owned(), pfc_received: count, ..PortSnapshot::default() }
        };
        Snapshot { ports: counts.map(port).into(), ..Snapshot::default() }
    }

    #[test]
    fn who_sends() {
        for (wanted, expected) in
            [(PfcTest::Off, &["e1"][..]), (PfcTest::Nics, &["e1"]), (PfcTest::All, &["e1", "v0"])]
        {
            let names: Vec<_> = test(wanted).waiting.into_iter().map(|sender| sender.interface).collect();
            assert_eq!(names, expected, "{wanted:?}");
        }
        let mut off = test(PfcTest::Off);
        let (sender, outcome) =
            off.proceed(&snapshot([(0, 0); 3]), Instant::now(), |_| panic!("sends")).unwrap();
        assert_eq!((sender.interface.as_str(), outcome), ("e1", ProbeResult::Unknown));
    }

    /// A port in mode `auto` has no no-drop priority at the start.
    #[test]
    fn a_port_is_probed_when_an_agreement_makes_it_no_drop() {
        let mut settings = config::parse("test.toml", FILE).unwrap().switch;
        let [a, mut b] = [interface("e0", DeviceKind::Hardware), interface("e1", DeviceKind::Hardware)];
        settings.ports[1].pfc.no_drop = 0;
        let mut probe = PfcProbe::new(PfcTest::Nics, &settings, &[Some(&a), Some(&b), None]);
        assert!(probe.waiting.is_empty());
        settings.ports[1].pfc.no_drop = 1 << 4;
        let next = |probe: &mut PfcProbe, settings: &SwitchSettings, b: Option<&Interface>| {
            probe.include(settings, &[Some(&a), b, None]);
            probe.waiting.pop_front().map(|sender| sender.slot)
        };
        assert_eq!(next(&mut probe, &settings, None), None, "it is not open");
        assert_eq!(next(&mut probe, &settings, Some(&b)), Some(1));
        assert_eq!(next(&mut probe, &settings, Some(&b)), None, "each agreement does not repeat it");
        b.index = 9;
        assert_eq!(next(&mut probe, &settings, Some(&b)), Some(1), "another interface");
    }

    #[test]
    fn a_frame_is_received_refused_or_lost() {
        let start = Instant::now();
        let quiet = snapshot([(5, 9), (0, 0), (7, 7)]);
        let mut all = test(PfcTest::All);
        assert_eq!(all.proceed(&quiet, start, |_| Ok(())), None);
        // A frame that pauses a priority comes from another device.
        let others = snapshot([(6, 10), (0, 0), (7, 7)]);
        assert_eq!(all.proceed(&others, start, |_| panic!("sends")), None);
        let here = snapshot([(6, 10), (1, 0), (8, 7)]);
        let (sender, outcome) = all.proceed(&here, start, |_| panic!("sends")).unwrap();
        assert_eq!((sender.slot, outcome), (1, ProbeResult::Received(vec![1, 2])));
        assert_eq!(all.proceed(&here, start, |_| Ok(())), None);
        assert_eq!(all.proceed(&here, start + PATIENCE / 2, |_| panic!("sends")), None);
        let mut frames = 1;
        for again in 1..FRAMES {
            let sent = all.proceed(&here, start + again * PATIENCE, |_| {
                frames += 1;
                Ok(())
            });
            assert_eq!(sent, None, "a frame that was not received is sent again");
        }
        let end = start + FRAMES * PATIENCE;
        let (sender, outcome) = all.proceed(&here, end, |_| panic!("sends")).unwrap();
        assert_eq!((sender.slot, outcome, frames), (2, ProbeResult::Unknown, FRAMES));
        assert!(!all.is_due(end), "all have had their turn");

        let mut nics = test(PfcTest::Nics);
        assert!(nics.is_due(start + PATIENCE));
        let (_, outcome) =
            nics.proceed(&quiet, start, |_| Err(io::ErrorKind::PermissionDenied.into())).unwrap();
        assert!(matches!(outcome, ProbeResult::Refused(_)), "{outcome:?}");
    }

    /// The loop was stopped while the first frame came, and the guard paused the peer meanwhile.
    #[test]
    fn a_frame_hidden_by_a_stall_is_sent_again() {
        let start = Instant::now();
        let mut all = test(PfcTest::All);
        assert_eq!(all.proceed(&snapshot([(0, 0); 3]), start, |_| Ok(())), None);
        let paused = snapshot([(0, 0), (0, 0), (2, 1)]);
        assert_eq!(all.proceed(&paused, start + PATIENCE, |_| Ok(())), None);
        let here = snapshot([(0, 0), (0, 0), (3, 1)]);
        let (sender, outcome) = all.proceed(&here, start + PATIENCE, |_| panic!("sends")).unwrap();
        assert_eq!((sender.slot, outcome), (1, ProbeResult::Received(vec![2])));
    }

    #[test]
    fn an_interface_that_goes_later_has_not_refused() {
        let start = Instant::now();
        let mut nics = test(PfcTest::Nics);
        let quiet = snapshot([(0, 0); 3]);
        assert_eq!(nics.proceed(&quiet, start, |_| Ok(())), None);
        let gone = |_: &Sender| Err(io::ErrorKind::NotFound.into());
        let (_, outcome) = nics.proceed(&quiet, start + PATIENCE, gone).unwrap();
        assert_eq!(outcome, ProbeResult::Unknown);
    }

    #[test]
    fn what_is_reported() {
        let of = |is_nic, outcome| {
            let sender = Sender {
                slot: 1,
                interface: "e1".to_owned(),
                interface_index: 1,
                mac: MacAddr::default(),
                is_nic,
                is_silent: false,
            };
            let EventRecord { kind, severity, message, .. } =
                describe(&sender, &outcome, &snapshot([(0, 0); 3]));
            (kind, severity, message)
        };
        let (kind, severity, message) = of(true, ProbeResult::Unknown);
        assert_eq!((kind, severity), (EventKind::PfcUnproved, Severity::Warning));
        assert!(message.contains("`ethtool -a e1`"), "{message}");
        let (kind, severity, _) = of(false, ProbeResult::Unknown);
        assert_eq!((kind, severity), (EventKind::PfcUnproved, Severity::Info));
        let (kind, severity, message) = of(true, ProbeResult::Received(vec![2]));
        assert_eq!((kind, severity), (EventKind::PfcProved, Severity::Info));
        assert_eq!(message, "a PFC frame sent by e1 was received on port x");
        let (kind, severity, message) = of(true, ProbeResult::Refused("no".to_owned()));
        assert_eq!((kind, severity), (EventKind::PfcRefused, Severity::Error));
        assert!(message.ends_with("may be lost: no"), "{message}");
    }
}
