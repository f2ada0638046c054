//! The guard: real-time threads that pause the peers of a stalled loop: all peers while the
//! switching core stalls, and the peers of an I/O loop's ports while that loop stalls.
//!
//! The threads only read the loops' heartbeats, ask the kernel whether frames wait for a sleeping
//! loop, and send PFC frames over packet sockets of their own, one for each slot of a port.
//! [`dataplane::guard::stall_detector`] decides when; the loop cancels the pauses when it runs
//! again. The guard never waits for the loop, and the loop never waits for the guard.
//!
//! There are two independent threads, each on a core of its own. Real-time priority does not help
//! on a core that is busy in softirq (8 ms at a time on kernels that are not preemptible) or that a
//! hypervisor has preempted, and that rarely happens to two cores at once (docs/behavior.md, "A
//! loop that stalls").

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::thread::{Builder, JoinHandle, Thread};
use std::time::Duration;

use anyhow::{Context, Result};
use dataplane::guard::stall_detector::{NextCheck, StallDetector};
use dataplane::{ChannelMonitor, Heartbeat, LoopState};
use switch::pfc::tx::{GUARD_REFRESH_NS, PfcTiming};
use switch::settings::MAX_PORTS;
use switch::{Nanos, PortSettings, SwitchSettings};
use tracing::warn;
use wire::bitset::{Set8, Set64};
use wire::mac::MacAddr;
use wire::pause::{FRAME_BYTES, Pfc};
use xdp::{PacketSender, RxWatcher, Scheduling, set_scheduling};

/// Above other threads that are usually real-time on this machine (interrupt threads have 50).
const PRIORITY: u32 = 60;
/// Factor of the check interval of each thread except the first. The further thread is needed only
/// when the core of the first is preempted, and each check delays a core that carries frames by
/// some 25 µs (docs/performance.md, "Latency").
const SECOND_THREAD_FACTOR: u64 = 2;
/// The longest wait of a thread, so that it notices its end in time.
const LONGEST_WAIT_MS: u8 = 100;

/// A loop that a guard watches.
#[derive(Debug)]
pub struct GuardedLoop {
    /// The heartbeat of the loop.
    pub heartbeat: Arc<Heartbeat>,
    /// The ports that the loop serves, whose sockets are readable when it should wake.
    pub serves: Set64,
    /// The ports whose peers are paused while the loop stalls.
    pub pauses: Set64,
    /// The port channels that carry input to the loop.
    pub channels: Vec<ChannelMonitor>,
}

impl GuardedLoop {
    /// True if frames, or entries of another loop, wait for this loop; `ports` have frames.
    fn has_waiting_input(&self, ports: Set64) -> bool {
        !ports.and(self.serves).is_empty() || self.channels.iter().any(ChannelMonitor::has_input)
    }
}

/// A running guard. Dropping it ends its threads.
#[derive(Debug)]
pub struct Guard {
    state: Arc<Mutex<Arc<PauseFrames>>>,
    ends: Arc<AtomicBool>,
    threads: Vec<GuardThread>,
}

#[derive(Debug)]
struct GuardThread {
    thread: JoinHandle<()>,
    /// Ends the thread's wait for frames, so that it waits on the new set of sockets.
    waker: Waker,
}

/// Ends the wait of a thread between two checks, if it is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// The PFC frames for each peer, which change with the settings and the ports.
#[derive(Debug)]
struct PauseFrames {
    /// The number of changes so far.
    version: u64,
    ports: Vec<GuardedPort>,
    /// The shortest refresh interval of a port.
    refresh_ns: Nanos,
    /// The shortest of a port on a cable. Its peer may send at that speed, so that what arrives
    /// until a stall would be noticed without a pause may be more than the port has posted.
    cable_refresh_ns: Nanos,
}

/// A port as the guard sees it.
#[derive(Debug)]
struct GuardedPort {
    /// The frame and the priorities that it pauses. `None` if no priority is no-drop or PFC is not
    /// sent.
    frame: Option<([u8; FRAME_BYTES], Set8)>,
    /// Interval of the refresh of a pause, by the pause time and the speed.
    refresh_ns: Nanos,
    /// The sockets of the port, if it is open.
    tap: Option<Arc<PortTap>>,
}

/// The sockets of an open port.
#[derive(Debug)]
pub struct PortTap {
    /// MAC address of the interface.
    pub mac: MacAddr,
    /// Where PFC frames are sent; a new interface of the same name has another.
    pub interface_index: u32,
    /// The sockets in which received frames wait.
    pub fds: Vec<RawFd>,
    /// True for a cable, false for a veth: its peer sends as fast as a core copies frames, whatever
    /// the speed of the port.
    pub is_cable: bool,
}

impl PauseFrames {
    fn of(
        version: u64,
        settings: &SwitchSettings,
        taps: impl IntoIterator<Item = Option<Arc<PortTap>>>,
    ) -> Self {
        let owner = |port: &&PortSettings| port.pfc.tx && port.pfc.no_drop != 0;
        let guarded = |(port, tap): (&PortSettings, Option<Arc<PortTap>>)| {
            let mac = tap.as_ref().map(|tap| tap.mac);
            let frame = mac.filter(|_| owner(&port)).map(|mac| xoff(port, mac));
            GuardedPort { frame, refresh_ns: PfcTiming::from_settings(port).refresh_ns(), tap }
        };
        let refresh =
            settings.ports.iter().filter(owner).map(|port| PfcTiming::from_settings(port).refresh_ns());
        let ports: Vec<_> = settings.ports.iter().zip(taps).map(guarded).collect();
        let cable_refresh_ns = cable_refresh_ns(&ports);
        Self { version, ports, refresh_ns: refresh.min().unwrap_or(Nanos::MAX), cable_refresh_ns }
    }

    /// Returns the same with other settings, and with a changed tap of one port.
    fn with(&self, settings: &SwitchSettings, changed: Option<(usize, Arc<PortTap>)>) -> Self {
        let mut taps: Vec<_> = self.ports.iter().map(|port| port.tap.clone()).collect();
        taps.resize_with(settings.ports.len().max(taps.len()), || None);
        if let Some((port, tap)) = changed {
            taps[port] = Some(tap);
        }
        Self::of(self.version + 1, settings, taps)
    }

    /// Returns the same without one port.
    fn without(&self, removed: usize) -> Self {
        let keep = |(number, port): (usize, &GuardedPort)| match number == removed {
            true => GuardedPort { frame: None, refresh_ns: port.refresh_ns, tap: None },
            false => GuardedPort { frame: port.frame, refresh_ns: port.refresh_ns, tap: port.tap.clone() },
        };
        let ports: Vec<_> = self.ports.iter().enumerate().map(keep).collect();
        let cable_refresh_ns = cable_refresh_ns(&ports);
        Self { version: self.version + 1, ports, refresh_ns: self.refresh_ns, cable_refresh_ns }
    }

    /// The sockets of each open port.
    fn sockets(&self) -> impl Iterator<Item = (usize, &[RawFd])> {
        let ports = self.ports.iter().enumerate();
        ports.filter_map(|(number, port)| Some((number, &port.tap.as_ref()?.fds[..])))
    }
}

/// Returns the shortest refresh interval of an open port on a cable.
fn cable_refresh_ns(ports: &[GuardedPort]) -> Nanos {
    let on_cable = |port: &&GuardedPort| port.tap.as_ref().is_some_and(|tap| tap.is_cable);
    let paused = ports.iter().filter(on_cable).filter(|port| port.frame.is_some());
    paused.map(|port| port.refresh_ns).min().unwrap_or(Nanos::MAX)
}

/// Builds the XOFF frame for all no-drop priorities of a port.
fn xoff(port: &PortSettings, mac: MacAddr) -> ([u8; FRAME_BYTES], Set8) {
    let no_drop = Set8::from_bits(port.pfc.no_drop);
    let quanta = std::array::from_fn(|p| if no_drop.contains(p) { port.pfc.pause_quanta } else { 0 });
    let mut frame = [0; FRAME_BYTES];
    Pfc { enable: port.pfc.no_drop, quanta }.encode(mac, &mut frame);
    (frame, no_drop)
}

impl Guard {
    /// Starts a guard over these loops, of which the first is the switching core's, woken by the
    /// waker. All ports are open. There is a thread on each of `cores`, the best core first; the
    /// loops are on `loop_cores`.
    ///
    /// # Errors
    /// No thread could be started, or no socket opened.
    pub fn start(
        (loops, waker): (Vec<GuardedLoop>, Waker),
        settings: &SwitchSettings,
        taps: Vec<PortTap>,
        (cores, loop_cores): (&[usize], &[usize]),
        clock: impl Fn() -> switch::Instant + Clone + Send + 'static,
    ) -> Result<Self> {
        let taps = taps.into_iter().map(|tap| Some(Arc::new(tap)));
        let pause_frames = Arc::new(Mutex::new(Arc::new(PauseFrames::of(1, settings, taps))));
        let loops = Arc::new((loops, waker));
        // One for each port that there can be: what waits for one takes no room from another. They
        // stay open, as a thread that closed the socket of a removed port would wait for the
        // kernel.
        let senders: Result<Vec<_>, _> = (0..MAX_PORTS).map(|_| PacketSender::open()).collect();
        let senders = Arc::new(senders.context("starting the guard")?);
        let mut guard = Self { state: pause_frames, ends: Arc::default(), threads: Vec::new() };
        for (number, &core) in cores.iter().enumerate() {
            let times = if number == 0 { 1 } else { SECOND_THREAD_FACTOR };
            let frames = RxWatcher::new().context("starting the guard")?;
            let waker = frames.waker();
            let (pause_frames, ends) = (Arc::clone(&guard.state), Arc::clone(&guard.ends));
            let (loops, senders, clock) = (Arc::clone(&loops), Arc::clone(&senders), clock.clone());
            let keep_watch = move || {
                pin_and_prioritize(core);
                run_thread((&pause_frames, &senders), frames, &ends, &loops, (times, &clock));
            };
            let thread = Builder::new().name(format!("guard-{core}")).spawn(keep_watch);
            guard.threads.push(GuardThread { thread: thread.context("starting the guard")?, waker });
        }
        if let Some(switching) = loops.0.first() {
            let threads = guard.threads.iter().map(|guard| guard.thread.thread().clone());
            let wakers = threads.map(|thread| Waker::from(Arc::new(Unpark(thread))));
            let apart = cores.iter().filter(|core| !loop_cores.contains(core)).count();
            switching.heartbeat.set_guards(wakers.collect(), apart);
        }
        Ok(guard)
    }

    /// Applies other settings.
    pub fn apply(&self, settings: &SwitchSettings) {
        self.change(|pause_frames| pause_frames.with(settings, None));
    }

    /// Drops a port that is about to be closed. Its sockets will be invalid, and its peer is no
    /// longer paused.
    pub fn remove_port(&self, port: usize) {
        self.change(|pause_frames| pause_frames.without(port));
    }

    /// Adds a port that is open again.
    pub fn add_port(&self, port: usize, tap: PortTap, settings: &SwitchSettings) {
        let tap = Arc::new(tap);
        self.change(|pause_frames| pause_frames.with(settings, Some((port, tap))));
    }

    /// Replaces the state that the threads use. They never wait for the lock: while this thread, of
    /// ordinary priority, holds it, they use what was in force before.
    fn change(&self, make: impl FnOnce(&PauseFrames) -> PauseFrames) {
        let before = Arc::clone(&self.state.lock().unwrap_or_else(PoisonError::into_inner));
        let pause_frames = Arc::new(make(&before));
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = pause_frames;
        for guard in &self.threads {
            guard.waker.wake_by_ref();
            guard.thread.thread().unpark();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        for guard in self.threads.drain(..) {
            let _ = guard.thread.join(); // the thread returns nothing; it has logged its errors
        }
    }
}

/// Moves the calling thread to a core, with a priority above other work there.
fn pin_and_prioritize(core: usize) {
    // Older kernels delay a parked thread by the slack, real-time or not.
    let _ = xdp::set_timer_slack(1);
    if let Err(error) = xdp::set_affinity(core) {
        warn!(%error, core, "a guard is not on a core of its own: on a busy machine it may pause peers too late");
    }
    if let Err(error) = set_scheduling(Scheduling::Fifo(PRIORITY)) {
        warn!(
            %error,
            core,
            "a guard has no real-time priority (CAP_SYS_NICE): on a busy machine it may pause peers too late"
        );
    }
}

/// Checks the loops repeatedly until the guard or the switching core's loop ends. Waits `times` as
/// long after each check as the stall detector requests.
fn run_thread(
    (shared, senders): (&Mutex<Arc<PauseFrames>>, &[PacketSender]),
    mut frames: RxWatcher,
    ends: &AtomicBool,
    (loops, waker): &(Vec<GuardedLoop>, Waker),
    (times, clock): (u64, &impl Fn() -> switch::Instant),
) {
    let Some(GuardedLoop { heartbeat: switching, .. }) = loops.first() else { return };
    let mut detectors: Vec<StallDetector> = loops.iter().map(|_| StallDetector::default()).collect();
    // The state of each loop that runs again after a stall, until an iteration of it is over.
    let mut resumed: Vec<Option<LoopState>> = vec![None; loops.len()];
    let mut pause_frames = Arc::clone(&shared.lock().unwrap_or_else(PoisonError::into_inner));
    let mut version = 0;
    while !ends.load(Relaxed) && switching.state() != LoopState::Ended {
        let mut next_check = NextCheck::OnFrame;
        if let Ok(newest) = shared.try_lock()
            && newest.version != pause_frames.version
        {
            pause_frames = Arc::clone(&newest);
        }
        if version != pause_frames.version {
            frames.watch(pause_frames.sockets());
            version = pause_frames.version;
        }
        // The switching core is last: its pauses follow what an I/O loop that runs again sends.
        for ((watched, detector), resumed) in loops.iter().zip(&mut detectors).zip(&mut resumed).rev() {
            let had_stalled = detector.stalled_ns() > 0;
            let state = watched.heartbeat.state();
            let now = clock();
            let PauseFrames { refresh_ns, cable_refresh_ns, .. } = *pause_frames;
            let pause_refresh_ns = || switching.pause_refresh_ns(cable_refresh_ns, refresh_ns, now);
            let frames_wait = || watched.has_waiting_input(frames.wait(0));
            // A loop that fell asleep or started an iteration after its state was read has not
            // stalled.
            if detector.check(state, frames_wait, pause_refresh_ns(), now)
                && watched.heartbeat.state() == state
            {
                watched.heartbeat.record_stall(detector.stalled_ns());
                let sending = switching.active_ports().with(frames.wait(0));
                if pause_peers((&pause_frames, senders), watched.pauses.and(sending), switching, clock) {
                    // The loop may have fallen asleep meanwhile, and must cancel the pauses sent
                    // for it.
                    waker.wake_by_ref();
                }
            }
            if resumed.is_some_and(|first| first != state) {
                // Its first iteration may have sent an XON that waited for it, after the guard's
                // XOFF.
                let since = if let LoopState::Awake(at) = state { at } else { clock() };
                switching.repeat_claims(watched.pauses, since);
                *resumed = None;
            }
            if had_stalled && detector.stalled_ns() == 0 {
                *resumed = Some(state);
            }
            // While it is stalled its peers are paused, by this thread or another.
            let refresh_ns = if detector.stalled_ns() > 0 { refresh_ns } else { pause_refresh_ns() };
            next_check = next_check.min(detector.next_check(state, refresh_ns, now));
        }
        match next_check {
            // The next PFC frame ends the wait if its pause has to be refreshed before. While this
            // thread sleeps, PFC frames cost the loop no system call.
            NextCheck::After(nanos) if nanos > pause_frames.refresh_ns.max(GUARD_REFRESH_NS) => {
                std::thread::park_timeout(Duration::from_nanos(times * nanos));
            }
            NextCheck::After(nanos) => std::thread::sleep(Duration::from_nanos(times * nanos)),
            NextCheck::OnFrame => _ = frames.wait(LONGEST_WAIT_MS),
        }
    }
}

/// Pauses the peers of these ports, each once and then with each refresh. `heartbeat` is that of
/// the switching core, which cancels the pauses. Returns true if a frame was sent.
fn pause_peers(
    (pause_frames, senders): (&PauseFrames, &[PacketSender]),
    ports: Set64,
    heartbeat: &Heartbeat,
    clock: &impl Fn() -> switch::Instant,
) -> bool {
    let mut has_sent = false;
    for (number, (port, sender)) in pause_frames.ports.iter().zip(senders).enumerate() {
        if let GuardedPort { frame: Some((frame, priorities)), refresh_ns, tap: Some(tap) } = port
            && ports.contains(number)
            && heartbeat.claim(number, *refresh_ns, clock())
        {
            // The other threads must know of the pause if this one is late to send.
            heartbeat.announce_guard_pfc(clock());
            if sender.send(tap.interface_index, frame).is_ok() {
                heartbeat.record_sent(number, *priorities, clock());
                has_sent = true;
            }
        }
    }
    has_sent
}

#[cfg(test)]
mod tests;
