//! The PFC frames of a switch, in virtual time, against what a chip would send for the same pauses:
//! an XOFF, the refreshes that the pause time asks for, an XON and its repeat (docs/behavior.md,
//! "PFC sent"). Hosts honor pauses. The loop stops in the middle, and the guard acts for it.

mod lab;
#[path = "lab/loopback_port.rs"]
mod loopback_port;

use std::sync::Arc;
use std::task::Waker;

use dataplane::guard::stall_detector::StallDetector;
use dataplane::{Heartbeat, LoopCommand, PollLoop, PollLoopSettings, Reply, mailbox};
use lab::mac;
use loopback_port::{LoopbackPort, Wire};
use switch::pfc::rx::quanta_ns;
use switch::pfc::tx::PfcTiming;
use switch::settings::{BufferSettings, PortSettings, SwitchSettings, Threshold};
use switch::{DropReason, HeapMemory, Instant, Nanos, Snapshot, Switch};
use wire::bitset::{Set8, Set64};
use wire::ethernet::{EXPERIMENTAL, Tag, write_header};
use wire::mac::MacAddr;
use wire::pause::{Control, decode};

const MS: Nanos = 1_000_000;
/// Interval of the loop's iterations.
const STEP_NS: Nanos = 10_000;
const FRAME_BYTES: usize = 1000;
const GBPS: u64 = 1_000_000_000;
const P: usize = 3;
const FRAMES: usize = 32_768;

/// A host that sends at 1 Gbit/s whenever it is not paused, and the PFC frames that it received.
struct Host {
    wire: Wire,
    next_at: Instant,
    received: Vec<(Instant, u16)>,
}

impl Host {
    fn pause(&mut self, quanta: u16, now: Instant) {
        self.received.push((now, quanta));
        self.next_at = now + quanta_ns(quanta, GBPS);
    }

    fn send_until(&mut self, now: Instant, frame: &[u8]) {
        while self.next_at <= now {
            self.wire.inject(frame);
            self.next_at = self.next_at + (FRAME_BYTES as u64 + 20) * 8;
        }
    }

    /// What a chip sends for the pauses that this host received.
    fn chip_frames(&self, refresh_ns: Nanos) -> u64 {
        let (mut frames, mut since) = (0, None);
        for &(at, quanta) in &self.received {
            match (since, quanta) {
                (None, 1..) => since = Some(at),
                (Some(begun), 0) => {
                    frames += 3 + at.since(begun) / refresh_ns;
                    since = None;
                }
                _ => {}
            }
        }
        frames
    }
}

/// `senders` hosts at 1G, and a receiver at 500M that is silent.
struct Lab {
    core: PollLoop<LoopbackPort>,
    handle: dataplane::Handle,
    heartbeat: Arc<Heartbeat>,
    guard: StallDetector,
    senders: Vec<Host>,
    receiver: Wire,
    frame: Vec<u8>,
    refresh_ns: Nanos,
    now: Instant,
    /// Frames that the receiver got, and PFC frames among them.
    delivered: u64,
    pfc_to_receiver: usize,
}

fn settings(senders: usize) -> SwitchSettings {
    let ports = (0..=senders).map(|n| {
        let speed = if n == senders { GBPS / 2 } else { GBPS };
        let mut port = PortSettings::new(format!("p{n}"), Some(speed));
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 1 << P);
        let group = &mut port.groups[P];
        (group.reserved_cells, group.headroom_cells) = (0, 4000);
        (group.xoff, group.xon_offset_cells) = (Threshold::Static(200), 20);
        port
    });
    SwitchSettings {
        buffer: BufferSettings {
            total_cells: 100_000,
            fixed_cells: 0,
            headroom_cells: 4000 * (senders as u32 + 1),
            ..BufferSettings::default()
        },
        ports: ports.collect(),
        ..lab::settings()
    }
}

impl Lab {
    fn new(senders: usize) -> Self {
        let settings = settings(senders);
        let refresh_ns = PfcTiming::from_settings(&settings.ports[0]).refresh_ns();
        let macs: Vec<_> = (100..=100 + senders).map(mac).collect();
        let (ports, wires): (Vec<_>, Vec<Wire>) = (0..=senders).map(|_| LoopbackPort::new()).unzip();
        let heartbeat = Arc::new(Heartbeat::default());
        let (handle, mailbox) = mailbox(Waker::noop().clone());
        let of_loop = PollLoopSettings {
            complete_checksums: vec![false; senders + 1],
            watches_rings: true,
            heartbeat: Arc::clone(&heartbeat),
            ..PollLoopSettings::default()
        };
        let switch = Switch::new(&settings, &macs, FRAMES);
        let memory = HeapMemory::new(FRAMES, 1024);
        let core = PollLoop::new(switch, ports, memory, FRAMES, mailbox, of_loop);
        let mut frame = vec![0; FRAME_BYTES];
        let tag = Tag { tpid: wire::ethernet::VLAN, pcp: P as u8, dei: false, vid: 0 };
        write_header(&mut frame, mac(senders), mac(0), Some(tag), EXPERIMENTAL);
        let now = Instant(10 * 1_000_000_000);
        let mut wires = wires;
        let receiver = wires.pop().expect("a receiver");
        receiver.inject(lab::frame(MacAddr::BROADCAST, mac(senders), 0));
        let host = |wire| Host { wire, next_at: now, received: Vec::new() };
        let senders = wires.into_iter().map(host).collect();
        let (guard, delivered, pfc_to_receiver) = (StallDetector::default(), 0, 0);
        let mut lab = Self {
            core,
            handle,
            heartbeat,
            guard,
            senders,
            receiver,
            frame,
            refresh_ns,
            now,
            delivered,
            pfc_to_receiver,
        };
        // The receiver announced itself three seconds before the first sender sends.
        for at in [7_000, 7_001, 9_990].map(|ms| Instant(ms * MS)) {
            lab.core.iterate(at);
        }
        lab.collect();
        lab
    }

    /// Takes what has left the ports.
    fn collect(&mut self) {
        for host in &mut self.senders {
            for bytes in host.wire.take_sent() {
                if let Ok(Control::Pfc(pfc)) = decode(&bytes) {
                    host.pause(pfc.quanta[P], self.now);
                }
            }
        }
        for bytes in self.receiver.take_sent() {
            let is_pfc = decode(&bytes).is_ok();
            self.pfc_to_receiver += usize::from(is_pfc);
            self.delivered += u64::from(!is_pfc);
        }
    }

    /// Lets time pass; the guard looks each millisecond.
    fn pass(&mut self, nanos: Nanos, loop_runs: bool) {
        let end = self.now + nanos;
        while self.now < end {
            self.now = self.now + STEP_NS;
            self.senders.iter_mut().for_each(|host| host.send_until(self.now, &self.frame));
            if loop_runs {
                self.core.iterate(self.now);
            }
            if self.now.0.is_multiple_of(MS) {
                self.guard();
            }
            self.collect();
        }
    }

    fn guard(&mut self) {
        let state = self.heartbeat.state();
        if !self.guard.check(state, || true, self.refresh_ns, self.now) {
            return;
        }
        let all = Set64::first_n(self.senders.len() + 1);
        for port in self.heartbeat.active_ports().and(all) {
            if self.heartbeat.claim(port, self.refresh_ns, self.now) {
                self.heartbeat.record_sent(port, Set8::of(P), self.now);
                match self.senders.get_mut(port) {
                    Some(host) => host.pause(u16::MAX, self.now),
                    None => self.pfc_to_receiver += 1,
                }
            }
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let command = LoopCommand::Snapshot { snapshot: Box::default(), read_watermarks: false };
        self.handle.send(command).expect("room for a command");
        self.core.iterate(self.now);
        let mut replies = std::iter::from_fn(|| self.handle.receive());
        let snapshot = replies.find_map(|reply| match reply {
            Reply::Snapshot(snapshot) => Some(*snapshot),
            _ => None,
        });
        snapshot.expect("a snapshot")
    }
}

#[test]
fn a_stopped_loop_and_its_guard_send_what_a_chip_sends() {
    for (senders, stop_ms) in [(2, 50), (2, 500), (2, 2000), (15, 50), (15, 500), (15, 2000)] {
        let mut lab = Lab::new(senders);
        lab.pass(300 * MS, true);
        lab.pass(stop_ms * MS, false);
        lab.pass(300 * MS, true);
        let snapshot = lab.snapshot();
        let what = format!("{senders} senders, stopped for {stop_ms} ms");
        for (port, host) in snapshot.ports.iter().zip(&lab.senders) {
            let (sent, chip) = (host.received.len() as u64, host.chip_frames(lab.refresh_ns));
            assert!(sent * 10 <= chip * 12, "{what}: {sent} frames, a chip {chip}; {port:?}");
            let parts = [
                port.pfc_change_frames,
                port.pfc_refresh_frames,
                port.pfc_repeat_frames,
                port.pfc_guard_frames,
            ];
            assert_eq!(parts.iter().sum::<u64>(), port.pfc_sent.frames, "{what}: {parts:?}");
            let refreshes = 1 + (stop_ms * MS) / lab.refresh_ns;
            assert!((1..=refreshes).contains(&port.pfc_guard_frames), "{what}: {parts:?}");
            println!("{what}: {sent} frames, a chip {chip}; by reason {parts:?}");
        }
        assert_eq!(lab.pfc_to_receiver, 0, "{what}: it has been silent for seconds");
        for reason in [DropReason::IngressNoDrop, DropReason::TailDrop] {
            let lost: u64 = snapshot.ports.iter().map(|port| port.drops[reason as usize].frames).sum();
            assert_eq!(lost, 0, "{what}: {reason:?}");
        }
        let line_rate = 600 * MS / ((FRAME_BYTES as u64 + 20) * 16);
        assert!(lab.delivered * 100 >= line_rate * 99, "{what}: {} of {line_rate}", lab.delivered);
    }
}
