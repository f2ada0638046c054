//! The guard: threads of real-time priority that pause the peers while a loop does not turn: all of
//! them while the switching core does not, those of a line's ports while that line does not.
//!
//! They only read the loops' heartbeats, ask the kernel whether frames wait for a loop that sleeps,
//! and send PFC frames over packet sockets of their own. When to do so is
//! [`dataplane::guard::stall_detector`]'s rule; the loop takes back what was told when it turns
//! again. They never wait for the loop, nor the loop for them.
//!
//! There are two, each on a core of its own, and each by itself: no priority helps a thread on a
//! core whose kernel carries frames (8 ms at a time where kernels are not preemptible) or that a
//! hypervisor has taken away, and that rarely happens to two at once (docs/behavior.md, "A loop
//! that stands still").

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use dataplane::guard::stall_detector::{NextCheck, StallDetector};
use dataplane::{ChannelMonitor, Heartbeat, LoopState};
use switch::pfc::tx::PfcTiming;
use switch::{Nanos, PortSettings, SwitchSettings};
use tracing::warn;
use wire::bitset::{Set8, Set64};
use wire::mac::MacAddr;
use wire::pause::{FRAME_BYTES, Pfc};
use xdp::{PacketSocket, RxWatcher, Scheduling, set_scheduling};

/// Above whatever else of this machine is real time by habit (interrupt threads have 50).
const PRIORITY: u32 = 60;
/// Each sentry but the first takes so many times as long from look to look: it is there for when
/// the first one's core is taken away, and each look holds up a core that carries frames for some
/// 25 µs (docs/performance.md, "Latency").
const FURTHER_SENTRY: u64 = 2;
/// No sentry waits for longer, so that the end is not forgotten.
const LONGEST_WAIT_MS: u8 = 100;

/// A loop that a guard watches.
#[derive(Debug)]
pub struct Watched {
    /// Where it says that it turns.
    pub heartbeat: Arc<Heartbeat>,
    /// The ports that it serves, whose sockets are readable when it should wake.
    pub serves: Set64,
    /// The ports whose peers are paused while it does not turn.
    pub pauses: Set64,
    /// The lanes that bring it something.
    pub lanes: Vec<ChannelMonitor>,
}

impl Watched {
    /// Frames, or what another loop has left, wait for it; `ports` have frames.
    fn is_waited_for(&self, ports: Set64) -> bool {
        !ports.and(self.serves).is_empty() || self.lanes.iter().any(ChannelMonitor::is_there)
    }
}

/// A guard at work. It ends when it is dropped.
#[derive(Debug)]
pub struct Guard {
    words: Arc<RwLock<PauseFrames>>,
    ends: Arc<AtomicBool>,
    sentries: Vec<GuardThread>,
}

/// One of its threads.
#[derive(Debug)]
struct GuardThread {
    thread: JoinHandle<()>,
    /// Ends its wait for frames, so that it waits for those of other sockets.
    waker: Waker,
}

/// What to tell each peer; settings may change it, and ports come and go.
#[derive(Debug)]
struct PauseFrames {
    /// How often this was changed.
    version: u64,
    ports: Vec<GuardCore>,
    /// Told again after so long, or sooner where peers have taught the loop so
    /// ([`Heartbeat::refresh_ns`]).
    refresh_ns: Nanos,
}

/// A port as the guard knows it.
#[derive(Debug)]
struct GuardCore {
    /// The frame and the priorities that it pauses, or nothing where no priority is no-drop or no
    /// PFC is sent.
    frame: Option<([u8; FRAME_BYTES], Set8)>,
    /// The open port.
    gate: Option<Arc<PortTap>>,
}

/// An open port's ways in and out.
#[derive(Debug)]
pub struct PortTap {
    /// Its address.
    pub mac: MacAddr,
    /// The sockets that frames wait in.
    pub fds: Vec<RawFd>,
    /// Where frames are sent from.
    pub packets: PacketSocket,
}

impl PauseFrames {
    fn of(
        version: u64,
        settings: &SwitchSettings,
        gates: impl IntoIterator<Item = Option<Arc<PortTap>>>,
    ) -> Self {
        let says = |port: &&PortSettings| port.pfc.tx && port.pfc.no_drop != 0;
        let post = |(port, gate): (&PortSettings, Option<Arc<PortTap>>)| {
            let mac = gate.as_ref().map(|gate| gate.mac);
            GuardCore { frame: mac.filter(|_| says(&port)).map(|mac| xoff(port, mac)), gate }
        };
        let refresh = settings.ports.iter().filter(says).map(|port| PfcTiming::of(port).refresh_ns());
        Self {
            version,
            ports: settings.ports.iter().zip(gates).map(post).collect(),
            refresh_ns: refresh.min().unwrap_or(Nanos::MAX),
        }
    }

    /// The same with other settings, and with this gate in place of the port's.
    fn with(&self, settings: &SwitchSettings, changed: Option<(usize, Arc<PortTap>)>) -> Self {
        let mut gates: Vec<_> = self.ports.iter().map(|post| post.gate.clone()).collect();
        gates.resize_with(settings.ports.len().max(gates.len()), || None);
        if let Some((port, gate)) = changed {
            gates[port] = Some(gate);
        }
        Self::of(self.version + 1, settings, gates)
    }

    /// The same without one port.
    fn without(&self, port: usize) -> Self {
        let keep = |(number, post): (usize, &GuardCore)| match number == port {
            true => GuardCore { frame: None, gate: None },
            false => GuardCore { frame: post.frame, gate: post.gate.clone() },
        };
        Self {
            version: self.version + 1,
            ports: self.ports.iter().enumerate().map(keep).collect(),
            refresh_ns: self.refresh_ns,
        }
    }

    /// The sockets of each open port.
    fn sockets(&self) -> impl Iterator<Item = (usize, &[RawFd])> {
        let ports = self.ports.iter().enumerate();
        ports.filter_map(|(number, post)| Some((number, &post.gate.as_ref()?.fds[..])))
    }
}

/// XOFF for all no-drop priorities of a port.
fn xoff(port: &PortSettings, mac: MacAddr) -> ([u8; FRAME_BYTES], Set8) {
    let no_drop = Set8::from_bits(port.pfc.no_drop);
    let quanta = std::array::from_fn(|p| if no_drop.contains(p) { port.pfc.pause_quanta } else { 0 });
    let mut frame = [0; FRAME_BYTES];
    Pfc { enable: port.pfc.no_drop, quanta }.encode(mac, &mut frame);
    (frame, no_drop)
}

impl Guard {
    /// Starts a guard over these loops, of which the first is the switching core's, which the waker
    /// wakes; the ports are all open. It has a thread on each of `cores`, the best one first.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(
        (loops, waker): (Vec<Watched>, Waker),
        settings: &SwitchSettings,
        gates: Vec<PortTap>,
        cores: &[usize],
        clock: impl Fn() -> switch::Instant + Clone + Send + 'static,
    ) -> Result<Self> {
        let gates = gates.into_iter().map(|gate| Some(Arc::new(gate)));
        let words = Arc::new(RwLock::new(PauseFrames::of(1, settings, gates)));
        let loops = Arc::new((loops, waker));
        let mut guard = Self { words, ends: Arc::default(), sentries: Vec::new() };
        for (number, &core) in cores.iter().enumerate() {
            let times = if number == 0 { 1 } else { FURTHER_SENTRY };
            let frames = RxWatcher::new().context("starting the guard")?;
            let waker = frames.waker();
            let (words, ends) = (Arc::clone(&guard.words), Arc::clone(&guard.ends));
            let (loops, clock) = (Arc::clone(&loops), clock.clone());
            let keep_watch = move || {
                take_post(core);
                watch(&words, frames, &ends, &loops, (times, &clock));
            };
            let thread = Builder::new().name(format!("guard-{core}")).spawn(keep_watch);
            guard.sentries.push(GuardThread { thread: thread.context("starting the guard")?, waker });
        }
        Ok(guard)
    }

    /// Other settings are in force.
    pub fn apply(&self, settings: &SwitchSettings) {
        self.change(|words| words.with(settings, None));
    }

    /// A port is about to be closed: its sockets will no longer be there, and no peer is paused.
    pub fn forget(&self, port: usize) {
        self.change(|words| words.without(port));
    }

    /// A port is open again.
    pub fn remember(&self, port: usize, gate: PortTap, settings: &SwitchSettings) {
        let gate = Arc::new(gate);
        self.change(|words| words.with(settings, Some((port, gate))));
    }

    /// Puts others in place of what the threads use. They take a lock that this thread, of ordinary
    /// priority, holds for no longer than the exchange takes: all else is done before and after.
    fn change(&self, make: impl FnOnce(&PauseFrames) -> PauseFrames) {
        let mut words = make(&self.words.read().unwrap_or_else(PoisonError::into_inner));
        std::mem::swap(&mut words, &mut *self.words.write().unwrap_or_else(PoisonError::into_inner));
        self.sentries.iter().for_each(|sentry| sentry.waker.wake_by_ref());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        for sentry in self.sentries.drain(..) {
            let _ = sentry.thread.join(); // it has nothing to say but what it has logged
        }
    }
}

/// Puts the calling thread on a core, above what else runs there.
fn take_post(core: usize) {
    if let Err(error) = xdp::set_affinity(core) {
        warn!(%error, core, "a guard is not on a core of its own: on a busy machine it may come too late");
    }
    if let Err(error) = set_scheduling(Scheduling::Fifo(PRIORITY)) {
        warn!(
            %error,
            core,
            "a guard has no real-time priority (CAP_SYS_NICE): on a busy machine it may come too late"
        );
    }
}

/// Looks at the loops again and again, `times` as long after each look as the vigil asks, until the
/// guard or the switching core's loop ends.
fn watch(
    words: &RwLock<PauseFrames>,
    mut frames: RxWatcher,
    ends: &AtomicBool,
    (loops, waker): &(Vec<Watched>, Waker),
    (times, clock): (u64, &impl Fn() -> switch::Instant),
) {
    let Some(Watched { heartbeat: switching, .. }) = loops.first() else { return };
    let mut vigils: Vec<StallDetector> = loops.iter().map(|_| StallDetector::default()).collect();
    let mut version = 0;
    while !ends.load(Relaxed) && switching.pulse() != LoopState::Ended {
        let mut next_look = NextCheck::WithFrames;
        for (watched, vigil) in loops.iter().zip(&mut vigils) {
            let pulse = watched.heartbeat.pulse();
            let words = words.read().unwrap_or_else(PoisonError::into_inner);
            if version != words.version {
                frames.watch(words.sockets());
                version = words.version;
            }
            let frames_wait = || watched.is_waited_for(frames.wait(0));
            let refresh_ns = words.refresh_ns.min(switching.refresh_ns());
            // A loop that went to sleep, or turned, between pulse and clock has not stalled.
            if vigil.look(pulse, frames_wait, refresh_ns, clock()) && watched.heartbeat.pulse() == pulse {
                stand_in(&words, watched.pauses, switching, clock);
                // It may have gone to sleep meanwhile, and must take back what was sent for it.
                waker.wake_by_ref();
            }
            next_look = next_look.min(vigil.next_look(pulse, refresh_ns));
        }
        match next_look {
            NextCheck::After(nanos) => std::thread::sleep(Duration::from_nanos(times * nanos)),
            NextCheck::WithFrames => _ = frames.wait(LONGEST_WAIT_MS),
        }
    }
}

/// Tells every peer of these ports that has been heard of to stop. `heartbeat` is the switching
/// core's, which takes it back.
fn stand_in(words: &PauseFrames, ports: Set64, heartbeat: &Heartbeat, clock: &impl Fn() -> switch::Instant) {
    for (number, post) in words.ports.iter().enumerate() {
        if let GuardCore { frame: Some((frame, priorities)), gate: Some(gate) } = post
            && ports.contains(number)
            && heartbeat.has_heard(number)
            && gate.packets.send(frame).is_ok()
        {
            heartbeat.leave(number, *priorities, clock());
        }
    }
}
