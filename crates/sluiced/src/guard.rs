//! The guard: a thread of real-time priority that pauses the neighbours while a loop does not turn: all of them while the switching
//! core does not, those of a line's ports while that line does not.
//!
//! It only reads the loops' heartbeats, asks the kernel whether frames wait for a loop that sleeps, and sends PFC frames over
//! packet sockets of its own. When to do so is [`dataplane::vigil`]'s rule; the loop takes back what was told when it turns
//! again. It never waits for the loop, nor the loop for it.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use dataplane::vigil::Vigil;
use dataplane::{Heartbeat, LaneNews, Pulse};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use switch::pfc_sent::Timing;
use switch::{Nanos, PortSettings, SwitchSettings};
use tracing::warn;
use wire::mac::MacAddr;
use wire::pause::{FRAME_BYTES, Pfc};
use wire::set::{Set8, Set64};
use xdp::{PacketSocket, Scheduling, any_readable, set_scheduling};

/// Above whatever else of this machine is real time by habit (interrupt threads have 50).
const PRIORITY: u32 = 60;

/// A loop that a guard watches.
#[derive(Debug)]
pub struct Watched {
    /// Where it says that it turns.
    pub heartbeat: Arc<Heartbeat>,
    /// The ports that it serves, whose sockets are readable when it should wake.
    pub serves: Set64,
    /// The ports whose neighbours are paused while it does not turn.
    pub pauses: Set64,
    /// The lanes that bring it something.
    pub lanes: Vec<LaneNews>,
}

/// A guard at work. It ends when it is dropped.
#[derive(Debug)]
pub struct Guard {
    words: Arc<Mutex<Words>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What to tell each neighbour; settings may change it, and ports come and go.
#[derive(Debug)]
struct Words {
    ports: Vec<Post>,
    /// Told again after so long, at the latest.
    refresh_ns: Nanos,
}

/// A port as the guard knows it.
#[derive(Debug)]
struct Post {
    /// The frame, or nothing where no priority is no-drop or no PFC is sent.
    frame: Option<[u8; FRAME_BYTES]>,
    /// The open port.
    gate: Option<Gate>,
}

/// An open port's ways in and out.
#[derive(Debug)]
pub struct Gate {
    /// Its address.
    pub mac: MacAddr,
    /// The sockets that frames wait in.
    pub fds: Vec<RawFd>,
    /// Where frames are sent from.
    pub packets: PacketSocket,
}

impl Words {
    fn of(settings: &SwitchSettings, gates: impl IntoIterator<Item = Option<Gate>>) -> Self {
        let says = |port: &&PortSettings| port.pfc.tx && port.pfc.no_drop != 0;
        let post = |(port, gate): (&PortSettings, Option<Gate>)| {
            let mac = gate.as_ref().map(|gate| gate.mac);
            Post { frame: mac.filter(|_| says(&port)).map(|mac| xoff(port, mac)), gate }
        };
        let refresh = settings.ports.iter().filter(says).map(|port| Timing::of(port).refresh_ns());
        Self {
            ports: settings.ports.iter().zip(gates).map(post).collect(),
            refresh_ns: refresh.min().unwrap_or(Nanos::MAX),
        }
    }

    /// Frames, or what another loop has left, wait for a loop.
    fn frames_wait(&self, watched: &Watched) -> bool {
        let gates = self.ports.iter().enumerate().filter(|(number, _)| watched.serves.contains(*number));
        let fds = gates.filter_map(|(_, post)| post.gate.as_ref()).flat_map(|gate| &gate.fds);
        watched.lanes.iter().any(LaneNews::is_there) || any_readable(&fds.copied().collect::<Vec<_>>())
    }

    /// The same with other settings, or other gates.
    fn renew(&mut self, settings: &SwitchSettings) {
        let gates = std::mem::take(&mut self.ports).into_iter().map(|post| post.gate);
        *self = Self::of(settings, gates.chain(std::iter::repeat_with(|| None)));
    }
}

/// XOFF for all no-drop priorities of a port.
fn xoff(port: &PortSettings, mac: MacAddr) -> [u8; FRAME_BYTES] {
    let no_drop = Set8::from_bits(port.pfc.no_drop);
    let quanta = std::array::from_fn(|p| if no_drop.contains(p) { port.pfc.pause_quanta } else { 0 });
    let mut frame = [0; FRAME_BYTES];
    Pfc { enable: port.pfc.no_drop, quanta }.encode(mac, &mut frame);
    frame
}

impl Guard {
    /// Starts a guard over these loops, of which the first is the switching core's; the ports are all open. It may run on
    /// these cores: those of the loops, too, as it comes before them.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(
        loops: Vec<Watched>,
        settings: &SwitchSettings,
        gates: Vec<Gate>,
        anywhere: CpuSet,
        clock: impl Fn() -> switch::Instant + Send + 'static,
    ) -> Result<Self> {
        let words = Arc::new(Mutex::new(Words::of(settings, gates.into_iter().map(Some))));
        let ends = Arc::new(AtomicBool::new(false));
        let (its_words, its_end) = (Arc::clone(&words), Arc::clone(&ends));
        let watch = move || {
            let _ = sched_setaffinity(Pid::from_raw(0), &anywhere); // where it is refused, it runs where others do
            if let Err(error) = set_scheduling(Scheduling::Fifo(PRIORITY)) {
                warn!(
                    %error,
                    "the guard has no real-time priority (CAP_SYS_NICE): on a busy machine it may come too late"
                );
            }
            let mut vigils: Vec<_> = loops.iter().map(|_| Vigil::default()).collect();
            let Some(switching) = loops.first() else { return };
            while !its_end.load(Relaxed) {
                let mut next_look_ns = Nanos::MAX;
                for (watched, vigil) in loops.iter().zip(&mut vigils) {
                    let pulse = watched.heartbeat.pulse();
                    let words = its_words.lock().unwrap_or_else(PoisonError::into_inner);
                    let frames_wait = || words.frames_wait(watched);
                    if vigil.look(pulse, frames_wait, words.refresh_ns, clock()) {
                        stand_in(&words, watched.pauses, &switching.heartbeat, &clock);
                    }
                    next_look_ns = next_look_ns.min(vigil.next_look_ns(pulse));
                }
                if switching.heartbeat.pulse() == Pulse::Ended {
                    return;
                }
                std::thread::sleep(Duration::from_nanos(next_look_ns));
            }
        };
        let thread = Builder::new().name("guard".to_owned()).spawn(watch).context("starting the guard")?;
        Ok(Self { words, ends, thread: Some(thread) })
    }

    /// Other settings are in force.
    pub fn apply(&self, settings: &SwitchSettings) {
        self.words().renew(settings);
    }

    /// A port is about to be closed: its sockets will no longer be there, and nobody is to be told.
    pub fn forget(&self, port: usize) {
        self.words().ports[port] = Post { frame: None, gate: None };
    }

    /// A port is open again.
    pub fn remember(&self, port: usize, gate: Gate, settings: &SwitchSettings) {
        let mut words = self.words();
        words.ports[port].gate = Some(gate);
        words.renew(settings);
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it has nothing to say but what it has logged
        }
    }
}

/// Tells every neighbour of these ports that has been heard of to stop. `heartbeat` is the switching core's, which takes it back.
fn stand_in(words: &Words, ports: Set64, heartbeat: &Heartbeat, clock: &impl Fn() -> switch::Instant) {
    for (number, post) in words.ports.iter().enumerate() {
        if let Post { frame: Some(frame), gate: Some(gate) } = post
            && ports.contains(number)
            && heartbeat.has_heard(number)
            && gate.packets.send(frame).is_ok()
        {
            heartbeat.leave(number, clock());
        }
    }
}
