//! The guard's threads over loops that the test plays, by a clock that the test turns. What they
//! send leaves on the loopback interface of a namespace of the test's own, which nothing else uses,
//! so its counter of frames is exact. Needs root.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use dataplane::guard::heartbeat::STALL_NS;
use dataplane::guard::stall_detector::GIVE_UP_NS;
use nix::sched::{CloneFlags, unshare};
use switch::Instant;
use switch::pfc::tx::GUARD_REFRESH_NS;

use super::*;

/// Fails a test that would otherwise wait indefinitely; no result depends on it.
const PATIENCE: Duration = Duration::from_secs(30);
const PORTS: usize = 2;
/// Index of the loopback interface, the first of each namespace.
const LOOPBACK: u32 = 1;
const FILE: &str = r#"
[port-defaults]
speed = "10G"
pfc = { mode = "on", no_drop = [3] }

[port.a]
interface = "a"

[port.b]
interface = "b"
"#;

/// Loops that the test plays, on two ports, and their guard.
struct Watched {
    /// The heartbeat of the switching core.
    heartbeat: Arc<Heartbeat>,
    /// The heartbeat of an I/O loop, through which the core sends on port 1.
    io_heartbeat: Arc<Heartbeat>,
    clock: Arc<AtomicU64>,
    /// How often each thread of the guard has read the clock.
    reads: Arc<Mutex<BTreeMap<String, u64>>>,
    guard: Guard,
    settings: SwitchSettings,
    /// The write ends of what stands for the RX rings.
    rings: Vec<File>,
    /// Their read ends.
    readers: Vec<OwnedFd>,
}

impl Watched {
    /// `on_read` is called at each reading of the clock.
    fn new(on_read: impl Fn(&Heartbeat) + Clone + Send + 'static) -> Self {
        Self::on_ports(("10G", false), on_read)
    }

    /// With ports of this speed, which are cables or veths.
    fn on_ports(
        (speed, is_cable): (&str, bool),
        on_read: impl Fn(&Heartbeat) + Clone + Send + 'static,
    ) -> Self {
        unshare(CloneFlags::CLONE_NEWNET).expect("needs root");
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        let settings = config::parse("test.toml", &FILE.replace("10G", speed)).unwrap().switch;
        let (readers, rings): (Vec<_>, Vec<_>) = (0..PORTS).map(|_| nix::unistd::pipe().unwrap()).unzip();
        let taps = readers.iter().map(|ring| PortTap {
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            interface_index: LOOPBACK,
            fds: vec![ring.as_raw_fd()],
            is_cable,
        });
        let heartbeat = Arc::new(Heartbeat::default());
        let all = Set64::first_n(PORTS);
        let watched =
            GuardedLoop { heartbeat: heartbeat.clone(), serves: all, pauses: all, channels: Vec::new() };
        let (clock, reads) =
            (Arc::new(AtomicU64::new(1_000_000_000)), Arc::<Mutex<BTreeMap<_, _>>>::default());
        let read = {
            let (heartbeat, clock, reads) = (heartbeat.clone(), clock.clone(), reads.clone());
            move || {
                on_read(&heartbeat);
                let thread = format!("{:?}", std::thread::current().id());
                *reads.lock().unwrap().entry(thread).or_default() += 1;
                Instant(clock.load(SeqCst))
            }
        };
        let io_heartbeat = Arc::new(Heartbeat::default());
        let (serves, pauses) = (Set64::EMPTY, Set64::of(1));
        let io = GuardedLoop { heartbeat: io_heartbeat.clone(), serves, pauses, channels: Vec::new() };
        let loops = (vec![watched, io], Waker::noop().clone());
        let guard = Guard::start(loops, &settings, taps.collect(), (&[0, 0], &[0]), read).unwrap();
        let rings = rings.into_iter().map(File::from).collect();
        Self { heartbeat, io_heartbeat, clock, reads, guard, settings, rings, readers }
    }

    fn now(&self) -> Instant {
        Instant(self.clock.load(SeqCst))
    }

    fn pass(&self, nanos: Nanos) {
        self.clock.fetch_add(nanos, SeqCst);
    }

    /// A frame waits in the RX ring of a port, whose peer has thus sent lately.
    fn receive(&mut self, port: usize) {
        self.rings[port].write_all(&[0]).unwrap();
    }

    /// Waits until both threads have checked the loops at the present time.
    fn until_checked(&self) {
        // A check reads the clock once for each loop, and twice for each frame that it sends.
        let from = self.reads.lock().unwrap().clone();
        let has_checked = |(thread, reads): (&String, &u64)| *reads >= from.get(thread).unwrap_or(&0) + 8;
        wait_for(|| {
            let now = self.reads.lock().unwrap();
            now.len() == 2 && now.iter().all(has_checked)
        });
    }

    /// Waits until the guard has sent this many frames in all, and checks twice more.
    fn until_sent(&self, frames: u64) {
        wait_for(|| frames_sent() >= frames);
        self.until_checked();
        assert_eq!(frames_sent(), frames);
    }
}

fn wait_for(condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{} frames were sent", frames_sent());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Frames that have left on the loopback interface of this thread's namespace.
fn frames_sent() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let lo = text.lines().find_map(|line| line.trim_start().strip_prefix("lo:")).unwrap();
    lo.split_whitespace().nth(9).unwrap().parse().unwrap()
}

#[test]
fn a_stalled_loop_has_one_xoff_a_refresh_sent_to_each_peer_that_sends() {
    let mut watched = Watched::new(|_| ());
    watched.receive(0);
    watched.heartbeat.beat(watched.now());
    watched.pass(STALL_NS - 1);
    watched.until_checked();
    assert_eq!(frames_sent(), 0, "the loop has not stalled yet");
    watched.pass(1);
    watched.until_sent(1);
    let refresh_ns = PfcTiming::from_settings(&watched.settings.ports[0]).refresh_ns();
    assert!(refresh_ns > GUARD_REFRESH_NS);
    watched.pass(refresh_ns - 1);
    watched.until_sent(1);
    watched.pass(1);
    watched.until_sent(2);
    watched.receive(1);
    watched.until_sent(3);
    assert_eq!(watched.heartbeat.times().worst_stall_ns, STALL_NS + refresh_ns);

    watched.pass(GIVE_UP_NS);
    watched.until_sent(3);
    watched.heartbeat.beat(watched.now());
    watched.until_sent(3);
}

/// At 100 Gbit/s a pause lasts for 335 µs, less than it takes to know a stall without one.
#[test]
fn a_short_pause_is_refreshed_once_there_is_one() {
    let mut watched = Watched::on_ports(("100G", false), |_| ());
    watched.receive(0);
    let refresh_ns = PfcTiming::from_settings(&watched.settings.ports[0]).refresh_ns();
    assert!((GUARD_REFRESH_NS..STALL_NS / 2).contains(&refresh_ns), "{refresh_ns}");
    watched.heartbeat.beat(watched.now());
    watched.pass(STALL_NS - 1);
    watched.until_checked();
    assert_eq!(frames_sent(), 0, "no pause is in force");

    watched.heartbeat.beat(watched.now());
    watched.heartbeat.announce_pfc(watched.now());
    watched.pass(refresh_ns - 1);
    watched.until_checked();
    assert_eq!(frames_sent(), 0, "the loop's own refresh is not due");
    watched.pass(1);
    watched.until_sent(1);
    watched.pass(refresh_ns);
    watched.until_sent(2);
}

/// The peer on a cable may send at 100 Gbit/s, so its loop is always watched closely.
#[test]
fn a_loop_with_a_cable_is_watched_closely_without_a_pause() {
    let mut watched = Watched::on_ports(("100G", true), |_| ());
    watched.receive(0);
    let refresh_ns = PfcTiming::from_settings(&watched.settings.ports[0]).refresh_ns();
    watched.heartbeat.beat(watched.now());
    watched.pass(refresh_ns - 1);
    watched.until_checked();
    assert_eq!(frames_sent(), 0);
    watched.pass(1);
    watched.until_sent(1);
}

/// A PFC frame ends the wait of a thread: the guard has passed its threads to the switching core.
#[test]
fn a_pfc_frame_wakes_a_parked_thread() {
    let watched = Watched::new(|_| ());
    assert!(!watched.heartbeat.set_guards(Vec::new(), 0), "the guard has set its threads");
    let parked = std::thread::spawn(std::thread::park);
    Waker::from(Arc::new(Unpark(parked.thread().clone()))).wake();
    wait_for(|| parked.is_finished());
}

thread_local! {
    /// How often this thread has read the clock.
    static READS: Cell<u64> = const { Cell::new(0) };
}

#[test]
fn a_loop_that_goes_to_sleep_between_two_readings_has_not_stalled() {
    // The loop goes to sleep after the guard has read its heartbeat and before it reads the clock,
    // which it does for the I/O loop first, and runs again after the reading.
    let mut watched = Watched::new(|heartbeat| {
        READS.set(READS.get() + 1);
        if READS.get().is_multiple_of(2) {
            heartbeat.sleep(Instant::NEVER);
        }
    });
    watched.receive(0);
    for _ in 0..5 {
        watched.pass(1); // an iteration of a time of its own
        watched.heartbeat.beat(Instant(watched.now().0 - STALL_NS));
        watched.until_checked();
    }
    assert_eq!(frames_sent(), 0);
}

/// An I/O loop that runs again while the core does not may send an XON that had waited for it.
#[test]
fn a_pause_is_repeated_after_what_an_io_loop_had_left_to_send() {
    let mut watched = Watched::new(|_| ());
    watched.receive(1);
    watched.heartbeat.beat(watched.now());
    watched.io_heartbeat.beat(watched.now());
    watched.pass(STALL_NS);
    watched.until_sent(1);
    watched.pass(1);
    watched.io_heartbeat.beat(watched.now());
    watched.until_sent(1); // what waited may not have left yet
    watched.pass(1);
    watched.io_heartbeat.beat(watched.now());
    watched.until_sent(2);
}

#[test]
fn the_guard_waits_for_no_lock() {
    let mut watched = Watched::new(|_| ());
    watched.receive(0);
    watched.heartbeat.beat(watched.now());
    watched.until_checked();
    let state = watched.guard.state.clone();
    let held = state.lock().unwrap();
    watched.pass(STALL_NS);
    watched.until_sent(1);
    drop(held);
}

#[test]
fn a_port_that_was_removed_is_paused_no_more_and_one_that_is_added_is() {
    let mut watched = Watched::new(|_| ());
    (0..PORTS).for_each(|port| watched.receive(port));
    watched.heartbeat.beat(watched.now());
    watched.guard.remove_port(1);
    watched.until_checked();
    watched.pass(STALL_NS);
    watched.until_sent(1);
    let tap = PortTap {
        mac: MacAddr([2, 0, 0, 0, 0, 2]),
        interface_index: LOOPBACK,
        fds: vec![watched.readers[1].as_raw_fd()],
        is_cable: false,
    };
    watched.guard.add_port(1, tap, &watched.settings);
    watched.until_sent(2);
}
