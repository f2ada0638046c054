//! The lane of a port that another core serves: all that the switching core and the port's line say
//! to each other.
//!
//! ```text
//!   line                                   lane                          switching core
//!   looks at what comes in ──────────────▶ arrivals ────────────────────▶ RemotePort: takes them
//!   transmits, kicks       ◀────────────── outgoing ◀──────────────────── gives what may leave
//!   takes completions      ──────────────▶ completed ───────────────────▶ releases their cells
//!   posts frames           ◀────────────── fresh ◀─────────────────────── free frames
//!   has more than it needs ──────────────▶ spare ───────────────────────▶
//!   obeys                  ◀────────────── orders ◀────────────────────── settings, close, open
//!   answers                ──────────────▶ answers, what it noticed ────▶
//! ```
//!
//! Rule: nobody waits. What finds no room stays where it is: frames that come in stay in the RX
//! ring, and count as waiting there, as do those on the lane. Whoever leaves something rings the
//! other's doorbell. Source: docs/multi-core.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crossbeam::queue::ArrayQueue;
use switch::{FrameId, FrameParser, KernelCounters, RxFrame, TxDesc};

use crate::guard::heartbeat::Heartbeat;
use crate::io_core::batch_ring::BatchRing;
use crate::io_core::doorbell::Doorbell;
use crate::poll_loop::iteration::{RX_BATCH, TX_BATCH};
use crate::port::PortFault;

/// Batches of arrivals on a lane: together as many frames as make an RX ring long.
const ARRIVALS: usize = 16;
/// Batches to be sent, one or two of them a turn of the switching core.
const OUTGOING: usize = 32;
/// Batches that have left.
const COMPLETED: usize = 16;
/// Batches of free frames each way.
const FREE: usize = 8;
/// Free frames in a batch.
pub(crate) const FREE_BATCH: usize = 64;
/// A line that has fewer free frames takes more.
pub(crate) const FEW_FREE: usize = 512;
/// One that has more gives some back.
pub(crate) const MANY_FREE: usize = 2048;
/// The switching core keeps so many for itself, for PFC.
pub(crate) const KEPT_FREE: usize = 1024;
/// Orders that may wait, settings apart.
const ORDERS: usize = 16;

/// Frames of memory that a lane may hold beyond those that a port's rings and the switch do, its
/// part of what its line keeps included.
pub const LANE_FRAMES: usize =
    ARRIVALS * RX_BATCH + RX_BATCH + 2 * FREE * FREE_BATCH + MANY_FREE + FREE_BATCH + KEPT_FREE;

/// The frames of a batch have left.
pub(crate) const LEFT: u32 = 0;
/// The kernel took and lost them.
pub(crate) const LOST: u32 = 1;

/// What the line is told.
#[derive(Debug)]
pub(crate) enum PortCommand {
    /// Look at frames so from now on, and say with each batch that it was by these rules.
    Rules(u32, Box<(FrameParser, bool)>),
    /// At least so many frames are to be posted.
    MinPosted(u32),
    /// Let the port go; or close it, where there is no other thread that does.
    LetGo,
    /// The port is closed elsewhere: say which frames it never sent. Answered.
    Reclaim(Vec<FrameId>),
    /// Close the port, and say the same. Answered.
    Close(Vec<FrameId>),
    /// Begin again. Answered.
    Reopen,
    /// The place is another port's from now on.
    CountAnew,
    /// Say how the port stands. Answered.
    Report,
}

/// What it answers.
#[derive(Debug)]
pub(crate) enum PortReply {
    /// The port is closed, and these frames were never sent.
    Closed(Vec<FrameId>, PortStatus),
    /// It is open, with room for so many frames to transmit; or there was nothing for it to begin
    /// with.
    Reopened(Option<usize>),
    /// As it stands.
    Report(PortStatus),
}

/// How a port stands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PortStatus {
    /// What the kernel counted.
    pub(crate) kernel: KernelCounters,
    /// Frames in the port's rings, and on their way to the lane or from it.
    pub(crate) held: usize,
    /// Free frames that the line keeps, if this is its first port.
    pub(crate) free: usize,
}

#[derive(Debug)]
pub(crate) struct PortChannel {
    /// Noted with each batch: the rules that it was looked at by.
    pub(crate) arrivals: BatchRing<RxFrame>,
    pub(crate) outgoing: BatchRing<TxDesc>,
    /// Noted with each batch: [`LEFT`] or [`LOST`].
    pub(crate) completed: BatchRing<FrameId>,
    pub(crate) fresh: BatchRing<FrameId>,
    pub(crate) spare: BatchRing<FrameId>,
    pub(crate) orders: ArrayQueue<PortCommand>,
    pub(crate) answers: ArrayQueue<PortReply>,
    pub(crate) troubles: ArrayQueue<PortFault>,
    /// Frames in the port's own RX rings.
    pub(crate) waiting: AtomicU32,
    /// The port has looked for frames that the kernel dropped, and there were so many.
    pub(crate) has_looked: AtomicBool,
    pub(crate) dropped: AtomicU64,
    /// Frames that the kernel gave back and did not have.
    pub(crate) stray: AtomicU64,
    /// The port went down by itself.
    pub(crate) is_down: AtomicBool,
    /// The doorbell of the switching core, and that of the line.
    pub(crate) core: Arc<Doorbell>,
    pub(crate) line: Arc<Doorbell>,
    /// Where the line says that it turns.
    pub(crate) heartbeat: Arc<Heartbeat>,
}

/// Tells whether something is on a lane for the switching core, for whoever watches that it turns.
#[derive(Debug, Clone)]
pub struct ChannelMonitor(pub(crate) Arc<PortChannel>);

impl ChannelMonitor {
    /// There is something that the switching core has not taken yet.
    pub fn is_there(&self) -> bool {
        self.0.has_news()
    }
}

impl PortChannel {
    pub(crate) fn new(core: Arc<Doorbell>, line: Arc<Doorbell>, heartbeat: Arc<Heartbeat>) -> Arc<Self> {
        Arc::new(Self {
            arrivals: BatchRing::new(ARRIVALS, RX_BATCH),
            outgoing: BatchRing::new(OUTGOING, TX_BATCH),
            completed: BatchRing::new(COMPLETED, TX_BATCH),
            fresh: BatchRing::new(FREE, FREE_BATCH),
            spare: BatchRing::new(FREE, FREE_BATCH),
            orders: ArrayQueue::new(ORDERS),
            answers: ArrayQueue::new(ORDERS),
            troubles: ArrayQueue::new(4),
            waiting: AtomicU32::new(0),
            has_looked: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            stray: AtomicU64::new(0),
            is_down: AtomicBool::new(false),
            core,
            line,
            heartbeat,
        })
    }

    /// There is room for another order that can wait.
    pub(crate) fn has_room_for_settings(&self) -> bool {
        self.orders.len() < ORDERS / 4
    }

    /// Gives the line an order.
    pub(crate) fn order(&self, order: PortCommand) {
        let pushed = self.orders.push(order);
        debug_assert!(pushed.is_ok(), "settings leave room for all others");
        self.line.ring();
    }

    /// Answers the switching core.
    pub(crate) fn answer(&self, answer: PortReply) {
        let pushed = self.answers.push(answer);
        debug_assert!(pushed.is_ok(), "no more answers than orders");
    }

    /// There is something here for the switching core.
    pub(crate) fn has_news(&self) -> bool {
        !self.arrivals.is_empty()
            || !self.completed.is_empty()
            || !self.answers.is_empty()
            || !self.troubles.is_empty()
            || self.dropped.load(Relaxed) > 0
            || self.stray.load(Relaxed) > 0
    }

    /// There is something here for the line.
    pub(crate) fn has_work(&self) -> bool {
        !self.outgoing.is_empty() || !self.orders.is_empty()
    }
}
