//! The communication between a loop and the rest of the daemon: two bounded rings, so that neither
//! side ever waits for the other.

use std::sync::Arc;
use std::task::Waker;

use crossbeam::queue::ArrayQueue;
use switch::monitor::event_list::Events;
use switch::{Event, FdbPage, Instant, Snapshot, SwitchSettings};
use wire::bitset::Set8;
use wire::mac::MacAddr;

use crate::capture::tap::Capture;
use crate::flight_recorder::recorder::Recorder;
use crate::port::PortFault;

const COMMANDS: usize = 64;
const REPLIES: usize = 1024;
/// Reply entries that events leave free for the replies to commands, as the daemon waits for these.
const RESERVED_FOR_REPLIES: usize = 64;
/// Reply entries that other events leave free for losses of no-drop frames.
const RESERVED_FOR_LOSSES: usize = 256;

/// A command to a loop. Each except `PortDown`, `ShutDown` and `PortClosed` is answered.
#[derive(Debug)]
pub enum LoopCommand {
    /// Fill this snapshot and send it back.
    Snapshot {
        /// The snapshot to fill.
        snapshot: Box<Snapshot>,
        /// Reset the watermarks since the last read, right after the snapshot.
        read_watermarks: bool,
    },
    /// Reset the watermarks since the last clear.
    ClearWatermarks,
    /// Hold a port's transmission or release it, for tests.
    Hold {
        /// Port number.
        port: usize,
        /// True to hold, false to release.
        held: bool,
    },
    /// Apply other settings. They come back in [`Reply::Applied`] or [`Reply::NotApplied`], so that
    /// the loop frees nothing. Ports that they remove are closed. Ports that they add are down
    /// until `PortUp`.
    Apply(Box<Settings>),
    /// Restore the stormed priorities of this port that need manual recovery.
    RecoverStorms(usize),
    /// Enable PFC again for these priorities of a port, where too many storms have disabled it.
    LiftStormLimit {
        /// Port number.
        port: usize,
        /// The priorities to enable.
        priorities: Set8,
    },
    /// Read the next part of the FDB into this page and send it back.
    Fdb(Box<FdbPage>),
    /// Forget learned addresses.
    FlushFdb {
        /// Number of the port that they were learned on; `None` for any.
        port: Option<usize>,
        /// Their VLAN; `None` for any.
        vid: Option<u16>,
    },
    /// Record from the next iteration on; the current recording ends. `None` stops recording.
    Record(Option<Box<Recorder>>),
    /// Capture frames from the next iteration on; the present capture ends. `None` stops it.
    Capture(Option<Box<Capture>>),
    /// The interface of this port has disappeared or has lost its carrier.
    PortDown(usize),
    /// An operator takes this port down: as [`PortDown`](Self::PortDown), after XON for its peer.
    ShutDown(usize),
    /// The detached rings of this port are closed: its frames can be reclaimed.
    PortClosed(usize),
    /// The rings of this port are open again, ready to be taken.
    PortUp {
        /// Port number.
        port: usize,
        /// Address of the interface. It differs if the interface was created again.
        mac: MacAddr,
        /// Complete transport checksums that a Linux host left to offload.
        complete_checksums: bool,
    },
    /// This is the address of the interface at the other end of a port, which is open.
    PeerAddress {
        /// Port number.
        port: usize,
        /// Address of the peer's interface.
        mac: MacAddr,
    },
    /// Stop receiving, drain the queues and end. The snapshot comes back in [`Reply::Stopped`].
    Stop(Box<Snapshot>),
}

/// The settings of a running loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The settings of the switch, with at least as many port slots as it has, and the same cell
    /// size.
    pub switch: SwitchSettings,
    /// For each port, the minimum number of posted chunks.
    pub min_posted: Vec<u32>,
}

/// A message of a loop to the daemon: a reply or an event.
#[derive(Debug)]
pub enum Reply {
    /// The requested snapshot.
    Snapshot(Box<Snapshot>),
    /// The requested part of the FDB.
    Fdb(Box<FdbPage>),
    /// The command was executed: watermarks are cleared, a port is held or released, stormed
    /// priorities are restored, PFC is enabled again, or addresses are forgotten.
    Done,
    /// The port of this number is open again and has chunks posted. If false, no opened port was
    /// available.
    PortUp(usize, bool),
    /// A fault of the port of this number.
    Fault(usize, PortFault),
    /// These settings are in force.
    Applied(Box<Settings>),
    /// These settings were rejected: they change the watchdog of the port of this number, on which
    /// a stormed priority needs manual recovery.
    NotApplied(Box<Settings>, usize),
    /// The previous recorder, if there was one. All that it wrote has been handed over.
    Recorded(Option<Box<Recorder>>),
    /// The previous capture, if there was one. All its frames have been handed over.
    Captured(Option<Box<Capture>>),
    /// An event and its time.
    Event(Instant, Event),
    /// The loop has ended, with these totals.
    Stopped(Box<Snapshot>),
}

/// The daemon's end of the mailbox.
#[derive(Debug)]
pub struct Handle {
    commands: Arc<ArrayQueue<LoopCommand>>,
    replies: Arc<ArrayQueue<Reply>>,
    waker: Waker,
}

/// The loop's end of the mailbox.
#[derive(Debug)]
pub struct Mailbox {
    commands: Arc<ArrayQueue<LoopCommand>>,
    replies: Arc<ArrayQueue<Reply>>,
    /// Events dropped because the ring was full.
    pub(crate) lost: u64,
    /// Losses of no-drop frames that found the ring full, kept until there is room.
    undelivered: Events,
}

/// Creates a mailbox and returns its two ends. `waker` wakes a sleeping loop.
pub fn mailbox(waker: Waker) -> (Handle, Mailbox) {
    let commands = Arc::new(ArrayQueue::new(COMMANDS));
    let replies = Arc::new(ArrayQueue::new(REPLIES));
    (
        Handle { commands: commands.clone(), replies: replies.clone(), waker },
        Mailbox { commands, replies, lost: 0, undelivered: Events::new() },
    )
}

impl Handle {
    /// Sends a command and wakes the loop. Returns the command if the ring is full.
    pub fn send(&mut self, command: LoopCommand) -> Result<(), LoopCommand> {
        self.commands.push(command)?;
        self.waker.wake_by_ref();
        Ok(())
    }

    /// Takes the next message of the loop, if there is one.
    pub fn receive(&mut self) -> Option<Reply> {
        self.replies.pop()
    }
}

impl Mailbox {
    pub(crate) fn next_command(&mut self) -> Option<LoopCommand> {
        self.commands.pop()
    }

    /// Replies to a command. There is room as long as at most [`RESERVED_FOR_REPLIES`] commands
    /// wait for their replies.
    pub(crate) fn reply(&mut self, reply: Reply) {
        let pushed = self.replies.push(reply);
        debug_assert!(pushed.is_ok(), "no room for an answer");
    }

    /// Sends an unsolicited message, if there is room.
    pub(crate) fn notify(&mut self, reply: Reply) {
        if self.room() <= RESERVED_FOR_REPLIES + RESERVED_FOR_LOSSES || self.replies.push(reply).is_err() {
            self.lost += 1;
        }
    }

    /// Reports an event, if there is room. A loss of no-drop frames is kept until there is.
    pub(crate) fn report(&mut self, at: Instant, event: Event) {
        if !event.is_no_drop_loss() {
            self.notify(Reply::Event(at, event));
        } else if !self.undelivered.is_empty()
            || self.room() <= RESERVED_FOR_REPLIES
            || self.replies.push(Reply::Event(at, event)).is_err()
        {
            self.undelivered.push(at, event);
        }
    }

    /// Reports kept losses as far as there is room, in their order.
    #[inline]
    pub(crate) fn report_undelivered(&mut self) {
        if !self.undelivered.is_empty() && self.room() > RESERVED_FOR_REPLIES {
            let mut kept = std::mem::take(&mut self.undelivered);
            kept.drain().for_each(|(at, event)| self.report(at, event));
        }
    }

    fn room(&self) -> usize {
        self.replies.capacity() - self.replies.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The daemon takes no messages: XOFF and XON events fill the ring, and losses continue.
    #[test]
    fn losses_wait_for_room() {
        let (mut handle, mut mailbox) = mailbox(Waker::noop().clone());
        for _ in 0..REPLIES {
            mailbox.report(Instant(0), Event::XoffBegan { port: 0, priority: 3 });
        }
        let losses: Vec<_> = (0..8).map(|priority| Event::NoDropLost { port: 0, priority }).collect();
        for _ in 0..RESERVED_FOR_LOSSES {
            losses.iter().for_each(|&loss| mailbox.report(Instant(1), loss));
        }
        mailbox.reply(Reply::Done);
        let others = REPLIES - RESERVED_FOR_REPLIES - RESERVED_FOR_LOSSES;
        assert_eq!(mailbox.lost as usize, REPLIES - others);
        let mut received = Vec::new();
        for _ in 0..3 {
            while let Some(reply) = handle.receive() {
                if let Reply::Event(_, event @ Event::NoDropLost { .. }) = reply {
                    received.push(event);
                }
            }
            mailbox.report_undelivered();
        }
        assert_eq!(received.len(), RESERVED_FOR_LOSSES + switch::monitor::event_list::MAX_PENDING);
        assert!(losses.iter().all(|loss| received[RESERVED_FOR_LOSSES..].contains(loss)), "{received:?}");
    }
}
