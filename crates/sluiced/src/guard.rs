//! The guard: a thread of real-time priority that pauses the neighbours while the loop does not turn.
//!
//! It only reads the loop's heartbeat, asks the kernel whether frames wait for a loop that sleeps, and sends PFC frames over
//! packet sockets of its own. When to do so is [`dataplane::vigil`]'s rule; the loop takes back what was told when it turns
//! again. It never waits for the loop, nor the loop for it.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use dataplane::vigil::Vigil;
use dataplane::{Heartbeat, Pulse};
use switch::pfc_sent::Timing;
use switch::{Nanos, PortSettings, SwitchSettings};
use tracing::warn;
use wire::mac::MacAddr;
use wire::pause::{FRAME_BYTES, Pfc};
use wire::set::Set8;
use xdp::{PacketSocket, Scheduling, any_readable, set_scheduling};

/// Above whatever else of this machine is real time by habit (interrupt threads have 50).
const PRIORITY: u32 = 60;

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
    /// Starts a guard over the loop of `heartbeat`, whose ports these are, all open.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(
        heartbeat: Arc<Heartbeat>,
        settings: &SwitchSettings,
        gates: Vec<Gate>,
        clock: impl Fn() -> switch::Instant + Send + 'static,
    ) -> Result<Self> {
        let words = Arc::new(Mutex::new(Words::of(settings, gates.into_iter().map(Some))));
        let ends = Arc::new(AtomicBool::new(false));
        let (its_words, its_end) = (Arc::clone(&words), Arc::clone(&ends));
        let watch = move || {
            if let Err(error) = set_scheduling(Scheduling::Fifo(PRIORITY)) {
                warn!(
                    %error,
                    "the guard has no real-time priority (CAP_SYS_NICE): on a busy machine it may come too late"
                );
            }
            let mut vigil = Vigil::default();
            while !its_end.load(Relaxed) {
                let pulse = heartbeat.pulse();
                let words = its_words.lock().unwrap_or_else(PoisonError::into_inner);
                let fds =
                    || words.ports.iter().filter_map(|post| post.gate.as_ref()).flat_map(|gate| &gate.fds);
                let frames_wait = || any_readable(&fds().copied().collect::<Vec<_>>());
                if vigil.look(pulse, frames_wait, words.refresh_ns, clock()) {
                    stand_in(&words, &heartbeat, &clock);
                }
                drop(words);
                if pulse == Pulse::Ended {
                    return;
                }
                std::thread::sleep(Duration::from_nanos(vigil.next_look_ns(pulse)));
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

/// Tells every neighbour that has been heard of to stop.
fn stand_in(words: &Words, heartbeat: &Heartbeat, clock: &impl Fn() -> switch::Instant) {
    for (number, post) in words.ports.iter().enumerate() {
        if let Post { frame: Some(frame), gate: Some(gate) } = post
            && heartbeat.has_heard(number)
            && gate.packets.send(frame).is_ok()
        {
            heartbeat.leave(number, clock());
        }
    }
}
