//! The channel of a port that another core serves: all communication between the switching core and
//! the port's I/O loop.
//!
//! ```text
//!   I/O loop                               channel                       switching core
//!   parses received frames ──────────────▶ arrivals ────────────────────▶ RemotePort: takes them
//!   transmits, kicks       ◀────────────── outgoing ◀──────────────────── frames to transmit
//!   takes completions      ──────────────▶ completed ───────────────────▶ releases their cells
//!   posts frames           ◀────────────── fresh ◀─────────────────────── free frames
//!   has more than it needs ──────────────▶ spare ───────────────────────▶
//!   executes               ◀────────────── orders ◀────────────────────── settings, close, open
//!   replies                ──────────────▶ answers, observations ───────▶
//! ```
//!
//! Rule: neither side waits. What finds no room stays where it is: received frames stay in the RX
//! ring and count as RX backlog there, as do frames on the channel. The producer rings the other
//! side's doorbell. Source: docs/multi-core.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crossbeam::queue::ArrayQueue;
use switch::{FrameId, FrameParser, KernelCounters, RxFrame, TxDesc};

use crate::guard::heartbeat::Heartbeat;
use crate::io_core::batch_ring::BatchRing;
use crate::io_core::doorbell::Doorbell;
use crate::poll_loop::iteration::{RX_BATCH, TX_BATCH};
use crate::port::PortFault;

/// Batches of received frames on a channel: together as many frames as a long RX ring holds.
const RX_BATCHES: usize = 16;
/// Batches to transmit; the switching core pushes one or two per iteration.
const TX_BATCHES: usize = 32;
/// Batches of completed frames.
const COMPLETION_BATCHES: usize = 16;
/// Batches of free frames in each direction.
const FREE_BATCHES: usize = 8;
pub(crate) const FREE_BATCH_FRAMES: usize = 64;
/// An I/O loop with fewer free frames takes more.
pub(crate) const LOW_FREE: usize = 512;
/// An I/O loop with more free frames returns some.
pub(crate) const HIGH_FREE: usize = 2048;
/// Free frames that the switching core keeps for itself, for PFC.
pub(crate) const RESERVED_FREE: usize = 1024;
/// Commands that may wait, settings not included.
const MAX_COMMANDS: usize = 16;

/// Frames of memory that a channel may hold beyond those in the port's rings and in the switch,
/// including the port's part of the free frames that its I/O loop keeps.
pub const CHANNEL_FRAMES: usize = RX_BATCHES * RX_BATCH
    + RX_BATCH
    + 2 * FREE_BATCHES * FREE_BATCH_FRAMES
    + HIGH_FREE
    + FREE_BATCH_FRAMES
    + RESERVED_FREE;

/// Note of a batch: its frames have been transmitted.
pub(crate) const TX_DONE: u32 = 0;
/// Note of a batch: the kernel took and lost its frames.
pub(crate) const TX_LOST: u32 = 1;

/// A command of the switching core to an I/O loop.
#[derive(Debug)]
pub(crate) enum PortCommand {
    /// Parse frames like this from now on, and note this number of the rule set with each batch.
    Rules(u32, Box<(FrameParser, bool)>),
    /// Post at least this number of chunks.
    MinPosted(u32),
    /// Detach the port. Where no other thread can close it, close it.
    Detach,
    /// The port has been closed elsewhere: report the frames that it never sent. Answered.
    Reclaim(Vec<FrameId>),
    /// Close the port and report the frames that it never sent. Answered.
    Close(Vec<FrameId>),
    /// Take the port that has been opened again. Answered.
    Reopen,
    /// The slot belongs to another port from now on: reset the counters.
    ResetCounters,
    /// Report the port's status. Answered.
    Report,
}

/// A reply of an I/O loop.
#[derive(Debug)]
pub(crate) enum PortReply {
    /// The port is closed, and these frames were never sent.
    Closed(Vec<FrameId>, PortStatus),
    /// The port is open, with room for this number of frames to transmit. `None`: no opened port
    /// was available.
    Reopened(Option<usize>),
    /// The current status.
    Report(PortStatus),
}

/// The counters and frames of a port, as its I/O loop reports them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PortStatus {
    /// The kernel's counters.
    pub(crate) kernel: KernelCounters,
    /// Frames in the port's rings, and on their way to or from the channel.
    pub(crate) held: usize,
    /// Free frames that the I/O loop keeps; reported by its first port only.
    pub(crate) free: usize,
}

#[derive(Debug)]
pub(crate) struct PortChannel {
    /// Received frames. The note of a batch is the rule set by which it was parsed.
    pub(crate) rx: BatchRing<RxFrame>,
    pub(crate) outgoing: BatchRing<TxDesc>,
    /// Completed frames. The note of a batch is [`TX_DONE`] or [`TX_LOST`].
    pub(crate) completed: BatchRing<FrameId>,
    pub(crate) free_to_io: BatchRing<FrameId>,
    pub(crate) free_to_core: BatchRing<FrameId>,
    pub(crate) commands: ArrayQueue<PortCommand>,
    pub(crate) replies: ArrayQueue<PortReply>,
    pub(crate) faults: ArrayQueue<PortFault>,
    /// Frames in the port's own RX rings.
    pub(crate) waiting: AtomicU32,
    /// The port has updated `dropped`.
    pub(crate) has_polled: AtomicBool,
    /// Frames that the kernel dropped.
    pub(crate) dropped: AtomicU64,
    /// Frames that the kernel completed without owning them.
    pub(crate) stray: AtomicU64,
    /// The port went down by itself.
    pub(crate) is_down: AtomicBool,
    /// The doorbell of the switching core.
    pub(crate) core_bell: Arc<Doorbell>,
    /// The doorbell of the I/O loop.
    pub(crate) io_bell: Arc<Doorbell>,
    /// Where the I/O loop publishes its iterations.
    pub(crate) heartbeat: Arc<Heartbeat>,
}

/// A view of a port channel for the guard, which checks whether something waits there for the
/// switching core.
#[derive(Debug, Clone)]
pub struct ChannelMonitor(pub(crate) Arc<PortChannel>);

impl ChannelMonitor {
    /// True if the channel holds something that the switching core has not taken.
    pub fn has_input(&self) -> bool {
        self.0.has_input_for_core()
    }
}

impl PortChannel {
    pub(crate) fn new(core: Arc<Doorbell>, line: Arc<Doorbell>, heartbeat: Arc<Heartbeat>) -> Arc<Self> {
        Arc::new(Self {
            rx: BatchRing::new(RX_BATCHES, RX_BATCH),
            outgoing: BatchRing::new(TX_BATCHES, TX_BATCH),
            completed: BatchRing::new(COMPLETION_BATCHES, TX_BATCH),
            free_to_io: BatchRing::new(FREE_BATCHES, FREE_BATCH_FRAMES),
            free_to_core: BatchRing::new(FREE_BATCHES, FREE_BATCH_FRAMES),
            commands: ArrayQueue::new(MAX_COMMANDS),
            replies: ArrayQueue::new(MAX_COMMANDS),
            faults: ArrayQueue::new(4),
            waiting: AtomicU32::new(0),
            has_polled: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            stray: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
            core_bell: core,
            io_bell: line,
            heartbeat,
        })
    }

    /// True if there is room for another command that can wait.
    pub(crate) fn has_room_for_settings(&self) -> bool {
        self.commands.len() < MAX_COMMANDS / 4
    }

    /// Sends a command to the I/O loop.
    pub(crate) fn send_command(&self, order: PortCommand) {
        let pushed = self.commands.push(order);
        debug_assert!(pushed.is_ok(), "settings leave room for all others");
        self.io_bell.ring();
    }

    /// Replies to the switching core.
    pub(crate) fn send_reply(&self, answer: PortReply) {
        let pushed = self.replies.push(answer);
        debug_assert!(pushed.is_ok(), "no more answers than orders");
    }

    /// True if something waits for the switching core.
    pub(crate) fn has_input_for_core(&self) -> bool {
        !self.rx.is_empty()
            || !self.completed.is_empty()
            || !self.replies.is_empty()
            || !self.faults.is_empty()
            || self.dropped.load(Relaxed) > 0
            || self.stray.load(Relaxed) > 0
    }

    /// True if something waits for the I/O loop.
    pub(crate) fn has_work(&self) -> bool {
        !self.outgoing.is_empty() || !self.commands.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel() -> Arc<PortChannel> {
        PortChannel::new(Arc::default(), Arc::default(), Arc::default())
    }

    /// Neither loop sleeps while the other has left something, of whatever kind.
    #[test]
    fn each_kind_of_input_is_seen_alone() {
        type Leave = fn(&PortChannel);
        let for_core: [(&str, Leave); 6] = [
            ("received frames", |it| _ = it.rx.push(0, &mut Vec::new())),
            ("completed frames", |it| _ = it.completed.push(TX_DONE, &mut Vec::new())),
            ("a reply", |it| it.send_reply(PortReply::Reopened(None))),
            ("a fault", |it| _ = it.faults.push(PortFault::PeerNotReleased)),
            ("drops of the kernel", |it| it.dropped.store(1, Relaxed)),
            ("stray frames", |it| it.stray.store(1, Relaxed)),
        ];
        for (name, leave) in for_core {
            let channel = channel();
            assert!(!channel.has_input_for_core() && !ChannelMonitor(Arc::clone(&channel)).has_input());
            leave(&channel);
            assert!(channel.has_input_for_core() && ChannelMonitor(channel).has_input(), "{name}");
        }
        let for_io_loop: [(&str, Leave); 2] = [
            ("frames to transmit", |it| _ = it.outgoing.push(0, &mut Vec::new())),
            ("a command", |it| it.send_command(PortCommand::Report)),
        ];
        for (name, leave) in for_io_loop {
            let channel = channel();
            assert!(!channel.has_work());
            leave(&channel);
            assert!(channel.has_work(), "{name}");
        }
    }

    /// Settings leave three quarters of the commands' ring to the others.
    #[test]
    fn settings_leave_room_for_other_commands() {
        let channel = channel();
        for _ in 0..MAX_COMMANDS / 4 {
            assert!(channel.has_room_for_settings());
            channel.send_command(PortCommand::MinPosted(1));
        }
        assert!(!channel.has_room_for_settings());
    }
}
