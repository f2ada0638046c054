//! How the rest of the daemon talks to a loop: two bounded rings, so that neither side ever waits for the other.

use rtrb::{Consumer, Producer, RingBuffer};
use switch::{Event, Instant, Snapshot};
use xdp::Waker;

const COMMANDS: usize = 64;
const REPLIES: usize = 1024;

/// What a loop is told.
#[derive(Debug)]
pub enum Command {
    /// Fill this snapshot and send it back.
    Snapshot(Box<Snapshot>),
    /// The interface of this port is gone, or has no carrier any more.
    PortDown(usize),
    /// Take no more frames, let the queues drain, end. The snapshot comes back in [`Reply::Stopped`].
    Stop(Box<Snapshot>),
}

/// What a loop says.
#[derive(Debug)]
pub enum Reply {
    /// As asked for.
    Snapshot(Box<Snapshot>),
    /// Something happened.
    Event(Instant, Event),
    /// The loop has ended; these are the totals.
    Stopped(Box<Snapshot>),
}

/// The daemon's end.
#[derive(Debug)]
pub struct Handle {
    commands: Producer<Command>,
    replies: Consumer<Reply>,
    waker: Waker,
}

/// The loop's end.
#[derive(Debug)]
pub struct Mailbox {
    commands: Consumer<Command>,
    replies: Producer<Reply>,
    /// Replies that found the ring full.
    pub(crate) lost: u64,
}

/// The two ends of a new mailbox. `waker` wakes the loop when it sleeps.
pub fn mailbox(waker: Waker) -> (Handle, Mailbox) {
    let (commands_in, commands_out) = RingBuffer::new(COMMANDS);
    let (replies_in, replies_out) = RingBuffer::new(REPLIES);
    (
        Handle { commands: commands_in, replies: replies_out, waker },
        Mailbox { commands: commands_out, replies: replies_in, lost: 0 },
    )
}

impl Handle {
    /// Tells the loop something and wakes it; gives the command back if the ring is full.
    pub fn send(&mut self, command: Command) -> Result<(), Command> {
        self.commands.push(command).map_err(|rtrb::PushError::Full(command)| command)?;
        self.waker.wake();
        Ok(())
    }

    /// The next thing that the loop said, if there is one.
    pub fn receive(&mut self) -> Option<Reply> {
        self.replies.pop().ok()
    }
}

impl Mailbox {
    pub(crate) fn next_command(&mut self) -> Option<Command> {
        self.commands.pop().ok()
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        if self.replies.push(reply).is_err() {
            self.lost += 1;
        }
    }
}
