//! How the rest of the daemon talks to a loop: two bounded rings, so that neither side ever waits
//! for the other.

use std::sync::Arc;
use std::task::Waker;

use crossbeam::queue::ArrayQueue;
use switch::monitor::event::Events;
use switch::{Event, Instant, Snapshot, SwitchSettings};
use wire::bitset::Set8;
use wire::mac::MacAddr;

use crate::flight_recorder::recorder::Recorder;
use crate::port::PortFault;

const COMMANDS: usize = 64;
const REPLIES: usize = 1024;
/// Places among the replies that events leave free, for the answers to commands: whoever asked
/// waits for them.
const ANSWERS: usize = 64;
/// Places that events leave free for losses of no-drop frames, which nothing else may crowd out.
const LOSSES: usize = 256;

/// What a loop is told. Each but `PortDown` and `PortClosed` is answered.
#[derive(Debug)]
pub enum LoopCommand {
    /// Fill this snapshot and send it back.
    Snapshot {
        /// To be filled.
        snapshot: Box<Snapshot>,
        /// The watermarks since the last read begin again right after it.
        read_watermarks: bool,
    },
    /// The watermarks since the last clear begin again.
    ClearWatermarks,
    /// Hold a port's transmission, or let it go on; for tests.
    Hold {
        /// Port number.
        port: usize,
        /// Hold it.
        held: bool,
    },
    /// Other settings from now on; they come back in [`Reply::Applied`] or [`Reply::NotApplied`],
    /// so that the loop frees nothing. Ports that they remove are closed; those that they add
    /// are down until `PortUp`.
    Apply(Box<Settings>),
    /// End the storms of this port that wait to be ended by hand.
    RecoverStorms(usize),
    /// Turn PFC on again for these priorities of a port, if it is off because there were too many
    /// storms.
    LiftStormLimit {
        /// Port number.
        port: usize,
        /// The priorities.
        priorities: Set8,
    },
    /// Record from the next turn on; what was recorded before ends. Nothing: do not record any
    /// more.
    Record(Option<Box<Recorder>>),
    /// The interface of this port is gone, or has no carrier any more.
    PortDown(usize),
    /// What this port was made of is closed: its frames can be taken back.
    PortClosed(usize),
    /// What this port is made of is open again, for it to take.
    PortUp {
        /// Port number.
        port: usize,
        /// Address of the interface: another one, if it was made again.
        mac: MacAddr,
        /// Transport checksums that a Linux host left open are finished.
        finish_checksums: bool,
    },
    /// Take no more frames, let the queues drain, end. The snapshot comes back in
    /// [`Reply::Stopped`].
    Stop(Box<Snapshot>),
}

/// What can be set on a running loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The switch: as many places of ports as it has, or more, with cells of the same size.
    pub switch: SwitchSettings,
    /// For each port, the fewest frames posted for receipt.
    pub min_posted: Vec<u32>,
}

/// What a loop says.
#[derive(Debug)]
pub enum Reply {
    /// As asked for.
    Snapshot(Box<Snapshot>),
    /// Watermarks are cleared, a port is held or released, storms are ended, or their limit is
    /// lifted.
    Done,
    /// The port of this number is open again, and has frames posted; or, if false, there was
    /// nothing for it to take.
    PortUp(usize, bool),
    /// Something is wrong with the port of this number.
    Trouble(usize, PortFault),
    /// These settings are in force.
    Applied(Box<Settings>),
    /// They are not: they change the watchdog of the port of this number, of which a storm waits to
    /// be ended by hand.
    NotApplied(Box<Settings>, usize),
    /// The recorder of until now, if there was one; all that it wrote has been handed over.
    Recorded(Option<Box<Recorder>>),
    /// Something happened.
    Event(Instant, Event),
    /// The loop has ended; these are the totals.
    Stopped(Box<Snapshot>),
}

/// The daemon's end.
#[derive(Debug)]
pub struct Handle {
    commands: Arc<ArrayQueue<LoopCommand>>,
    replies: Arc<ArrayQueue<Reply>>,
    waker: Waker,
}

/// The loop's end.
#[derive(Debug)]
pub struct Mailbox {
    commands: Arc<ArrayQueue<LoopCommand>>,
    replies: Arc<ArrayQueue<Reply>>,
    /// Events that found the ring full.
    pub(crate) lost: u64,
    /// Losses of no-drop frames that found it full: they are kept until there is room.
    undelivered: Events,
}

/// The two ends of a new mailbox. `waker` wakes the loop when it sleeps.
pub fn mailbox(waker: Waker) -> (Handle, Mailbox) {
    let commands = Arc::new(ArrayQueue::new(COMMANDS));
    let replies = Arc::new(ArrayQueue::new(REPLIES));
    (
        Handle { commands: commands.clone(), replies: replies.clone(), waker },
        Mailbox { commands, replies, lost: 0, undelivered: Events::new() },
    )
}

impl Handle {
    /// Tells the loop something and wakes it; gives the command back if the ring is full.
    pub fn send(&mut self, command: LoopCommand) -> Result<(), LoopCommand> {
        self.commands.push(command)?;
        self.waker.wake_by_ref();
        Ok(())
    }

    /// The next thing that the loop said, if there is one.
    pub fn receive(&mut self) -> Option<Reply> {
        self.replies.pop()
    }
}

impl Mailbox {
    pub(crate) fn next_command(&mut self) -> Option<LoopCommand> {
        self.commands.pop()
    }

    /// Answers a command. There is room as long as no more than [`ANSWERS`] commands at a time wait
    /// for theirs.
    pub(crate) fn answer(&mut self, reply: Reply) {
        let pushed = self.replies.push(reply);
        debug_assert!(pushed.is_ok(), "no room for an answer");
    }

    /// Tells of something that nobody asked for, if there is room.
    pub(crate) fn tell(&mut self, reply: Reply) {
        if self.room() <= ANSWERS + LOSSES || self.replies.push(reply).is_err() {
            self.lost += 1;
        }
    }

    /// Reports an event, if there is room. A loss of no-drop frames is kept until there is.
    pub(crate) fn report(&mut self, at: Instant, event: Event) {
        if !event.is_no_drop_loss() {
            self.tell(Reply::Event(at, event));
        } else if !self.undelivered.is_empty()
            || self.room() <= ANSWERS
            || self.replies.push(Reply::Event(at, event)).is_err()
        {
            self.undelivered.push(at, event);
        }
    }

    /// Reports what was kept, as far as there is room; none overtakes an earlier one.
    #[inline]
    pub(crate) fn report_undelivered(&mut self) {
        if !self.undelivered.is_empty() && self.room() > ANSWERS {
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

    /// Nobody receives; XOFF and XON fill the ring, and losses go on.
    #[test]
    fn losses_wait_for_room() {
        let (mut handle, mut mailbox) = mailbox(Waker::noop().clone());
        for _ in 0..REPLIES {
            mailbox.report(Instant(0), Event::XoffBegan { port: 0, priority: 3 });
        }
        let losses: Vec<_> = (0..8).map(|priority| Event::NoDropLost { port: 0, priority }).collect();
        for _ in 0..LOSSES {
            losses.iter().for_each(|&loss| mailbox.report(Instant(1), loss));
        }
        mailbox.answer(Reply::Done);
        let others = REPLIES - ANSWERS - LOSSES;
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
        assert_eq!(received.len(), LOSSES + switch::monitor::event::MAX_PENDING);
        assert!(losses.iter().all(|loss| received[LOSSES..].contains(loss)), "{received:?}");
    }
}
