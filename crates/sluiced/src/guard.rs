//! The guard: a thread of real-time priority that pauses the neighbours while the loop does not turn.
//!
//! It only reads the loop's heartbeat, asks the kernel whether frames wait for a loop that sleeps, and sends PFC frames over
//! packet sockets of its own. When to do so is [`dataplane::vigil`]'s rule; the loop takes back what was told when it turns
//! again. It never waits for the loop, nor the loop for it.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
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
    macs: Vec<MacAddr>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What to tell each neighbour; settings may change it.
#[derive(Debug, Default)]
struct Words {
    /// By port: the frame, or nothing where no priority is no-drop or no PFC is sent.
    frames: Vec<Option<[u8; FRAME_BYTES]>>,
    /// Told again after so long, at the latest.
    refresh_ns: Nanos,
    /// By port: the sockets that frames wait in.
    fds: Vec<Vec<RawFd>>,
}

impl Words {
    fn of(settings: &SwitchSettings, macs: &[MacAddr], fds: Vec<Vec<RawFd>>) -> Self {
        let says = |port: &&PortSettings| port.pfc.tx && port.pfc.no_drop != 0;
        let frame = |(port, &mac): (&PortSettings, &MacAddr)| {
            let no_drop = Set8::from_bits(port.pfc.no_drop);
            let quanta = std::array::from_fn(|p| if no_drop.contains(p) { port.pfc.pause_quanta } else { 0 });
            let mut frame = [0; FRAME_BYTES];
            Pfc { enable: port.pfc.no_drop, quanta }.encode(mac, &mut frame);
            says(&port).then_some(frame)
        };
        let refresh = settings.ports.iter().filter(says).map(|port| Timing::of(port).refresh_ns());
        Self {
            frames: settings.ports.iter().zip(macs).map(frame).collect(),
            refresh_ns: refresh.min().unwrap_or(Nanos::MAX),
            fds,
        }
    }
}

impl Guard {
    /// Starts a guard over the loop of `heartbeat`, whose ports are these interfaces with these addresses and receive by
    /// the sockets `fds`.
    ///
    /// # Errors
    /// There are no packet sockets to be had, or no thread.
    pub fn start(
        heartbeat: Arc<Heartbeat>,
        settings: &SwitchSettings,
        interfaces: &[String],
        macs: &[MacAddr],
        fds: Vec<Vec<RawFd>>,
        clock: impl Fn() -> switch::Instant + Send + 'static,
    ) -> Result<Self> {
        let sockets: Result<Vec<_>, _> = interfaces.iter().map(|name| PacketSocket::open(name)).collect();
        let sockets = sockets.context("guard")?;
        let words = Arc::new(Mutex::new(Words::of(settings, macs, fds)));
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
                let frames_wait = || any_readable(&words.fds.concat());
                if vigil.look(pulse, frames_wait, words.refresh_ns, clock()) {
                    stand_in(&words, &sockets, &heartbeat, &clock);
                }
                drop(words);
                if pulse == Pulse::Ended {
                    return;
                }
                std::thread::sleep(Duration::from_nanos(vigil.next_look_ns(pulse)));
            }
        };
        let thread = Builder::new().name("guard".to_owned()).spawn(watch).context("starting the guard")?;
        Ok(Self { words, macs: macs.to_vec(), ends, thread: Some(thread) })
    }

    /// Other settings are in force.
    pub fn apply(&self, settings: &SwitchSettings) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        *words = Words::of(settings, &self.macs, std::mem::take(&mut words.fds));
    }

    /// A port was closed: its sockets are no longer there, and nobody is to be told.
    pub fn forget(&self, port: usize) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.fds[port].clear();
        words.frames[port] = None;
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
fn stand_in(
    words: &Words,
    sockets: &[PacketSocket],
    heartbeat: &Heartbeat,
    clock: &impl Fn() -> switch::Instant,
) {
    for (number, (frame, socket)) in words.frames.iter().zip(sockets).enumerate() {
        if let Some(frame) = frame
            && heartbeat.has_heard(number)
            && socket.send(frame).is_ok()
        {
            heartbeat.leave(number, clock());
        }
    }
}
