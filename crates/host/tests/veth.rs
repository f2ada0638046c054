//! Hosts on the two ends of real veth pairs, each in a network namespace and on a thread of its
//! own. Needs root.

use clap::Parser;
use host::args::FlowArgs;
use host::host::{Host, HostSettings};
use host::report::{FlowSent, HostReport, ReportLine};
use host::{Args, HostControl, run_with};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, sendto, socket};
use nix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::MacAddr;
use wire::pause::{FRAME_BYTES, Pfc};
use xdp::{PortConfig, Umem, Waiter, XdpPort};

const ALICE: &str = "02:00:00:00:00:0a";
const BOB: &str = "02:00:00:00:00:0b";

/// How long a test waits for an expected event, far beyond what any machine should need.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two namespaces, each with `h0`, an end of one veth pair. Removed on drop.
struct Lab {
    spaces: [String; 2],
}

impl Lab {
    fn new() -> Self {
        static LABS: AtomicU32 = AtomicU32::new(0);
        let name = format!("slhost{}x{}", std::process::id(), LABS.fetch_add(1, Relaxed));
        let lab = Lab { spaces: [format!("{name}a"), format!("{name}b")] };
        let [a, b] = &lab.spaces;
        ip(&format!("netns add {a}"));
        ip(&format!("netns add {b}"));
        ip(&format!("link add h0 netns {a} address {ALICE} type veth peer name h0 netns {b} address {BOB}"));
        ip(&format!("-n {a} link set h0 up"));
        ip(&format!("-n {b} link set h0 up"));
        lab
    }

    /// Moves the calling thread into the namespace of an end.
    fn enter(&self, end: usize) {
        let space = File::open(format!("/run/netns/{}", self.spaces[end])).unwrap();
        setns(space, CloneFlags::CLONE_NEWNET).unwrap();
    }

    /// Starts a host at an end.
    fn host(&self, end: usize, options: &str) -> RunningHost {
        #[derive(Parser)]
        struct Command {
            #[command(flatten)]
            args: Args,
        }
        let interface = if options.contains("--interface") { "" } else { "--interface h0" };
        let words = format!("host {interface} --json --interval 20ms {options}");
        let args = Command::parse_from(words.split_whitespace()).args;
        let waiter = Waiter::new().unwrap();
        let orders = HostControl::new(args.wait, waiter.waker());
        let output = Output::default();
        let lab = Lab { spaces: self.spaces.clone() };
        let thread = std::thread::spawn({
            let (orders, mut output) = (orders.clone(), output.clone());
            move || {
                lab.enter(end);
                std::mem::forget(lab); // only the first one removes the namespaces
                run_with(&args, waiter, &orders, &mut output)
            }
        });
        RunningHost { orders, output, thread }
    }

    /// Sends a frame from the kernel's side of an end.
    fn inject(&self, end: usize, frame: &[u8]) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter(end);
                let address: LinkAddr = nix::ifaddrs::getifaddrs()
                    .unwrap()
                    .filter(|address| address.interface_name == "h0")
                    .find_map(|address| address.address?.as_link_addr().copied())
                    .unwrap();
                let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), None).unwrap();
                let sent = sendto(socket.as_raw_fd(), frame, &address, MsgFlags::empty()).unwrap();
                assert_eq!(sent, frame.len());
            });
            thread.join().unwrap();
        });
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for space in &self.spaces {
            let _ = Command::new("ip").args(["netns", "del", space]).output();
        }
    }
}

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct RunningHost {
    orders: HostControl,
    output: Output,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl RunningHost {
    /// The output of the host so far: complete lines of JSON.
    fn output(&self) -> String {
        let bytes = self.output.0.lock().unwrap();
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        String::from_utf8(bytes[..whole].to_vec()).unwrap()
    }

    fn last_line(&self) -> Option<ReportLine> {
        Some(serde_json::from_str(self.output().lines().last()?).unwrap())
    }

    fn wait_ready(&self) {
        until("the host is ready", || !self.output().is_empty());
        assert!(self.output().starts_with(r#"{"event":"ready","mac":"02:"#), "{}", self.output());
    }

    /// Waits until the newest report satisfies `holds`, and returns it.
    fn wait_for(&self, what: &str, holds: impl Fn(&HostReport) -> bool) -> HostReport {
        let mut newest = None;
        let give_up = Instant::now() + PATIENCE;
        until(what, || {
            assert!(Instant::now() < give_up, "waited in vain: {what}: {newest:#?}");
            match self.last_line() {
                Some(ReportLine::Progress(report) | ReportLine::Final(report)) => newest = Some(report),
                Some(ReportLine::Ready { .. }) | None => {}
            }
            let found = newest.as_ref().is_some_and(&holds);
            assert!(found || !self.thread.is_finished(), "{what}: the host has ended: {newest:#?}");
            found
        });
        newest.unwrap()
    }

    /// Waits for the end. Returns the last line.
    fn finish(self) -> (anyhow::Result<()>, HostReport) {
        until("the host ends", || self.thread.is_finished());
        let last = self.last_line();
        let result = self.thread.join().unwrap();
        match last {
            Some(ReportLine::Final(report)) => (result, report),
            last => panic!("the last line is {last:?}, the result {result:?}"),
        }
    }
}

/// Waits until `holds`, with a time limit, so that a failure does not hang.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + 2 * PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Opens a host at an end of `lab`, for a loop of the test's own. The port stays in its namespace
/// on any thread.
fn open(lab: &Lab, end: usize, mac: &str, flows: Vec<FlowArgs>) -> Host<XdpPort> {
    lab.enter(end);
    let frames = 4096;
    let mut memory = Umem::new(frames, 2048).unwrap();
    let port = XdpPort::open(&mut memory, "h0", &PortConfig::default()).unwrap();
    let settings = HostSettings {
        interface: "h0".into(),
        mac: mac.parse().unwrap(),
        flows,
        speed_bps: None,
        honored: 0,
        dcbx: None,
        honors_pause: false,
        stormed: 0,
        reacts: false,
        reaction_delay_ns: 0,
        duration_ns: None,
        linger_ns: 0,
        run: 1,
    };
    Host::new(settings, port, memory, frames, now())
}

fn now() -> switch::Instant {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    switch::Instant(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// 100 000 frames of four sizes one way and 25 000 the other, at once: all arrive once, in order
/// and intact. Both hosts run their iterations on one thread, so that none outruns the other on a
/// slow machine.
#[test]
fn every_frame_arrives_both_ways() {
    let lab = Lab::new();
    let flow = |to: &str, size_bytes: u16, priority: u8| FlowArgs {
        to: to.parse().unwrap(),
        priority,
        size_bytes,
        rate_bps: 150_000_000,
        count: Some(25_000),
        start_ns: 0,
        vid: Some(0),
        ecn: None,
    };
    let flows = vec![flow(BOB, 64, 0), flow(BOB, 65, 3), flow(BOB, 1000, 5), flow(BOB, 1514, 7)];
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut alice = open(&lab, 0, ALICE, flows);
            let mut bob = open(&lab, 1, BOB, vec![flow(ALICE, 512, 3)]);
            let give_up = now() + PATIENCE.as_nanos() as u64;
            while !(alice.is_done() && bob.is_done()) {
                for host in [&mut alice, &mut bob] {
                    host.receive(now);
                    host.send(now());
                }
                if alice.is_waiting() && alice.is_ready() && bob.is_ready() {
                    alice.begin(now());
                    bob.begin(now());
                }
                assert!(now() < give_up, "{:#?}\n{:#?}", alice.report(now()), bob.report(now()));
            }
            // The last frames have been received, since they completed only then.
            for host in [&mut alice, &mut bob] {
                host.receive(now);
                host.close();
                assert_eq!(host.free_frames(), 4096);
            }
            (alice.report(now()), bob.report(now()))
        });
        let (alice, bob) = thread.join().unwrap();
        assert_all_arrived(&alice, &bob);
        assert_all_arrived(&bob, &alice);
    });
}

fn assert_all_arrived(sender: &HostReport, receiver: &HostReport) {
    assert_eq!(sender.kernel_lost, 0);
    assert_eq!(sender.sent.len(), receiver.received.len());
    for (sent, received) in sender.sent.iter().zip(&receiver.received) {
        assert_eq!((sent.offered_frames, sent.sent_frames), (25_000, 25_000), "{sent:?}");
        let counts = (
            received.received_frames,
            received.lost_frames,
            received.duplicated_frames,
            received.reordered_frames,
            received.corrupted_frames,
        );
        assert_eq!(counts, (25_000, 0, 0, 0, 0), "{received:?}");
        assert_eq!(received.received_bytes, sent.sent_bytes);
        assert_eq!((received.from.as_str(), received.priority), (sender.mac.as_str(), sent.priority));
    }
}

/// A PFC frame from the wire stops priority 3 to the frame, while priority 5 continues; XON resumes
/// it.
#[test]
fn a_pfc_frame_stops_its_priority_alone() {
    let lab = Lab::new();
    let bob = lab.host(1, "");
    bob.wait_ready();
    // At 10 Mbit/s an XOFF of 65535 quanta lasts for 3.4 s.
    let flows = [3, 5].map(|priority| format!("--flow to={BOB},size=250,priority={priority},rate=2M"));
    let alice = lab.host(0, &format!("--speed 10M --duration 200s --wait {}", flows.join(" ")));
    alice.wait_ready();
    bob.wait_for("alice's announcement", |report| report.announcements_received > 0);
    alice.orders.begin();
    let pfc = |quanta: u16| {
        let mut frame = [0; FRAME_BYTES];
        let mut pfc = Pfc { enable: 1 << 3, quanta: [0; 8] };
        pfc.quanta[3] = quanta;
        pfc.encode(MacAddr([2, 0, 0, 0, 0, 0xff]), &mut frame);
        lab.inject(1, &frame);
    };
    let arrived =
        |report: &HostReport, flow: usize| report.received.get(flow).map_or(0, |flow| flow.received_frames);
    bob.wait_for("frames of both", |report| arrived(report, 0) >= 50 && arrived(report, 1) >= 50);

    pfc(u16::MAX);
    let paused = alice.wait_for("the XOFF", |report| report.pauses[3].xoff == 1);
    let (sent, other) = (paused.sent[0].sent_frames, paused.sent[1].sent_frames);
    until("priority 5 goes on", || {
        pfc(u16::MAX); // refreshed, however long this takes
        let line = bob.wait_for("a report", |_| true);
        arrived(&line, 1) >= other + 300
    });
    let report = bob.wait_for("all that had left", |report| arrived(report, 1) >= other + 300);
    assert_eq!(arrived(&report, 0), sent, "priority 3 is paused");
    assert_eq!(alice.wait_for("a report", |_| true).sent[0].sent_frames, sent);

    pfc(0);
    bob.wait_for("priority 3 again", |report| arrived(report, 0) >= sent + 300);
    alice.orders.stop();
    let (result, alice) = alice.finish();
    result.unwrap();
    let all = |report: &HostReport| (0..2).all(|flow| arrived(report, flow) == alice.sent[flow].sent_frames);
    bob.wait_for("the rest", all);
    bob.orders.stop();
    let (result, bob) = bob.finish();
    result.unwrap();

    assert_eq!((alice.pauses[3].xon, alice.pauses[3].sent_while_paused), (1, 0));
    assert!(alice.pauses[3].paused_ns > 300_000_000 && alice.pauses[5].paused_ns == 0, "{:?}", alice.pauses);
    assert_eq!(alice.pfc_received, alice.pauses[3].xoff + 1);
    assert_eq!((alice.kernel_lost, bob.kernel_lost), (0, 0));
    for flow in &bob.received {
        assert_eq!((flow.lost_frames, flow.reordered_frames, flow.corrupted_frames), (0, 0, 0), "{flow:?}");
    }
}

/// Marked frames cause CNPs. A sender that reacts slows that flow as far as possible and no other;
/// one that does not react counts them and continues.
#[test]
fn marks_slow_a_flow_that_reacts() {
    let lab = Lab::new();
    let bob = lab.host(1, "--react-to-ecn");
    bob.wait_ready();
    let flows = ["ce", "not-ect"].map(|ecn| format!("--flow to={BOB},rate=8M,ecn={ecn}"));
    for reacts in [true, false] {
        let option = if reacts { "--react-to-ecn" } else { "" };
        let alice = lab.host(0, &format!("--duration 200s --wait {option} {}", flows.join(" ")));
        alice.wait_ready();
        alice.orders.begin();
        let report = alice.wait_for("CNPs and frames", |report| {
            let sent = |flow: usize| report.sent.get(flow).map_or(0, |flow| flow.sent_frames);
            let is_slow = |flow: &FlowSent| flow.reaction_lowest_bps == 1_000_000;
            report.cnps_received >= 10
                && sent(1) >= 1000
                && if reacts { is_slow(&report.sent[0]) } else { sent(0) >= 1000 }
        });
        let [marked, other] = &report.sent[..] else { panic!("{report:#?}") };
        if reacts {
            assert_eq!(other.reaction_lowest_bps, 8_000_000, "{other:?}");
            assert!(marked.sent_frames * 2 < other.sent_frames, "{report:#?}");
            assert_eq!((marked.cnps_received, other.cnps_received), (report.cnps_received, 0));
        } else {
            assert_eq!((marked.reaction_bps, marked.cnps_received), (0, 0));
            assert!(marked.sent_frames.abs_diff(other.sent_frames) <= 256, "side by side: {report:#?}");
        }
        alice.orders.stop();
        alice.finish().0.unwrap();
    }
    bob.orders.stop();
    let (result, bob) = bob.finish();
    result.unwrap();
    assert_eq!(bob.received.len(), 4, "two flows, two runs");
    for flow in &bob.received {
        let marked = if flow.flow == 0 { flow.received_frames } else { 0 };
        assert_eq!((flow.received_ce_frames, flow.cnps_sent > 0), (marked, flow.flow == 0), "{flow:?}");
        assert_eq!((flow.lost_frames, flow.corrupted_frames), (0, 0), "{flow:?}");
    }
}

/// A host whose interface disappears still prints its report, with the reason.
#[test]
fn a_host_whose_interface_goes_reports_it() {
    let lab = Lab::new();
    let bob = lab.host(1, "");
    bob.wait_ready();
    ip(&format!("-n {} link del h0", lab.spaces[0]));
    let (result, report) = bob.finish();
    let message = result.unwrap_err().to_string();
    assert!(message.contains("interface h0 went down or away"), "{message}");
    assert_eq!(report.mac, BOB);
}

#[test]
fn what_cannot_run_is_explained() {
    let lab = Lab::new();
    for (options, expected) in [
        ("--interface h9".into(), "interface h9: there is no such interface"),
        (format!("--flow to={ALICE},rate=1M"), "--flow to=02:00:00:00:00:0a: this is the host's own address"),
        ("--core 1000".into(), "--core 1000: `nproc` prints the number of cores"),
    ] {
        let host = lab.host(0, &options);
        until("the host ends", || host.thread.is_finished());
        let message = host.thread.join().unwrap().unwrap_err().to_string();
        assert!(message.contains(expected), "{options}: {message}");
    }
}
