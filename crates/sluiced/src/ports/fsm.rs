//! State machine of a port: when its sockets and program are closed, and when they are opened
//! again, as its interface goes down and comes back.
//!
//! Rule: a port goes down when its interface loses its carrier, is set down or is deleted, or when
//! the poll loop detects a fault of the port. The port worker ([`crate::ports::worker`]) closes its
//! sockets and program, and then the poll loop reclaims its frames. Once an interface of its name
//! has a carrier, the port is opened again: first its sockets, then the poll loop posts frames,
//! then the XDP program lets frames in. If that fails, it is retried after [`RETRY`] or later.
//!
//! A NIC resets when a program is attached to it, and many NICs lose their carrier for seconds
//! then. If that took the port down, detaching the program would reset the NIC again, and so on
//! indefinitely. So the port of a NIC that loses its carrier within [`SETTLING`] after it was
//! attached stays open, and frames for it wait. If there is still no carrier at the end of that
//! time, the port goes down.
//!
//! ```text
//!           let go              closed             carrier, time          opened
//!   Open ───────────▶ Closing ──────────▶ Closed ─────────────────▶ Opening ─────▶ Joining
//!    ▲                   ▲                  ▲                         │ failed        │ posted
//!    │                   │                  └─────────────────────────┘               ▼
//!    │                   └──────────────────────── let go ─────────────────────── Attaching
//!    └──────────────────────────────── attached ──────────────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

/// Time after which an interface that could not be opened is tried again.
pub const RETRY: Duration = Duration::from_secs(1);
/// The least time between two attempts to open a port, whatever its interface does.
const PACE: Duration = Duration::from_millis(200);
/// The most time that a NIC may take to settle: links negotiate for some seconds.
pub const SETTLING: Duration = Duration::from_secs(15);

/// An input of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortEvent {
    /// The interface has gained (true) or lost its carrier.
    Carrier(bool),
    /// The poll loop has detached the sockets.
    LetGo,
    /// The port worker has closed the sockets.
    Closed,
    /// The port worker has opened new sockets.
    Opened,
    /// The poll loop has posted frames to the new sockets (true), or found no sockets.
    Posted(bool),
    /// The program lets frames in.
    Attached,
    /// The port worker could not open the sockets, or not attach the program.
    Failed,
    /// Time has passed.
    Time,
}

/// An action that an event requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortAction {
    /// The poll loop takes the port down.
    TakeDown,
    /// The port worker closes the sockets that the poll loop has detached.
    Close,
    /// The poll loop reclaims the frames.
    Reclaim,
    /// The port worker opens sockets.
    Open,
    /// The poll loop takes the sockets and posts frames.
    Join,
    /// The port worker attaches the program, which lets frames in.
    Attach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortState {
    Open,
    Closing,
    Closed,
    Opening,
    Joining,
    Attaching,
}

/// State of a port.
#[derive(Debug, Clone)]
pub struct PortFsm {
    state: PortState,
    has_carrier: bool,
    /// The port is not opened before this time.
    open_after: Instant,
    /// True if the interface is a NIC.
    is_nic: bool,
    /// End of the time in which an attached NIC settles.
    settled_at: Instant,
    /// True if the port lost its carrier while it settled, and is still open.
    awaits_carrier: bool,
}

impl PortFsm {
    /// Creates a port that has just been opened, with or without carrier, on a NIC or not.
    pub fn new(has_carrier: bool, is_nic: bool, now: Instant) -> Self {
        let settled_at = now + SETTLING;
        Self {
            state: PortState::Open,
            has_carrier,
            open_after: now,
            is_nic,
            settled_at,
            awaits_carrier: false,
        }
    }

    /// Creates a port that is being opened for the first time.
    pub fn opening(is_nic: bool, now: Instant) -> Self {
        Self { state: PortState::Opening, ..Self::new(true, is_nic, now) }
    }

    /// True if a loss of the carrier now would not take the port down.
    pub fn settles(&self, now: Instant) -> bool {
        let settles = match self.state {
            PortState::Open => now < self.settled_at,
            PortState::Opening | PortState::Joining | PortState::Attaching => true,
            PortState::Closing | PortState::Closed => false,
        };
        self.is_nic && settles
    }

    /// True if the port lost its carrier while it settled, and is still open.
    pub fn awaits_carrier(&self) -> bool {
        self.awaits_carrier
    }

    /// True if the port is open: the program lets frames in.
    pub fn is_open(&self) -> bool {
        self.state == PortState::Open
    }

    /// True if the program is being attached.
    pub fn is_attaching(&self) -> bool {
        self.state == PortState::Attaching
    }

    /// True if the sockets are closed and the poll loop has reclaimed the frames.
    pub fn is_closed(&self) -> bool {
        self.state == PortState::Closed
    }

    /// True if an operation is in progress that will complete soon.
    pub fn is_busy(&self) -> bool {
        !matches!(self.state, PortState::Open | PortState::Closed)
    }

    /// Prevents the port from being opened again.
    pub fn end(&mut self) {
        self.has_carrier = false;
    }

    /// Handles an event at `now`. Returns the action that it requires, if any.
    pub fn note(&mut self, happening: PortEvent, now: Instant) -> Option<PortAction> {
        match happening {
            PortEvent::Carrier(has_carrier) => {
                self.has_carrier = has_carrier;
                self.awaits_carrier = false;
                match self.state {
                    // A port that is being opened is taken down once it is open.
                    PortState::Open if !has_carrier => self.lose_carrier(now),
                    PortState::Closed => self.open(now),
                    _ => None,
                }
            }
            PortEvent::LetGo => match self.state {
                PortState::Closing | PortState::Closed => None,
                _ => self.go(PortState::Closing, PortAction::Close),
            },
            PortEvent::Closed if self.state == PortState::Closing => {
                self.go(PortState::Closed, PortAction::Reclaim)
            }
            PortEvent::Opened if self.state == PortState::Opening => {
                self.go(PortState::Joining, PortAction::Join)
            }
            PortEvent::Posted(true) if self.state == PortState::Joining => {
                self.go(PortState::Attaching, PortAction::Attach)
            }
            PortEvent::Posted(false) if self.state == PortState::Joining => self.fail(PortState::Closed, now),
            PortEvent::Attached if self.state == PortState::Attaching => {
                (self.state, self.settled_at) = (PortState::Open, now + SETTLING);
                if self.has_carrier { None } else { self.lose_carrier(now) }
            }
            PortEvent::Failed if self.state == PortState::Opening => self.fail(PortState::Closed, now),
            PortEvent::Failed if self.state == PortState::Attaching => {
                self.fail(PortState::Open, now);
                Some(PortAction::TakeDown)
            }
            PortEvent::Time if self.state == PortState::Closed => self.open(now),
            PortEvent::Time if self.state == PortState::Open && self.awaits_carrier => self.lose_carrier(now),
            _ => None,
        }
    }

    /// Handles the loss of the carrier of an open port.
    fn lose_carrier(&mut self, now: Instant) -> Option<PortAction> {
        self.awaits_carrier = self.settles(now);
        (!self.awaits_carrier).then_some(PortAction::TakeDown)
    }

    fn go(&mut self, state: PortState, step: PortAction) -> Option<PortAction> {
        self.state = state;
        Some(step)
    }

    fn fail(&mut self, state: PortState, now: Instant) -> Option<PortAction> {
        (self.state, self.open_after) = (state, now + RETRY);
        None
    }

    fn open(&mut self, now: Instant) -> Option<PortAction> {
        if !self.has_carrier || now < self.open_after {
            return None;
        }
        self.open_after = now + PACE;
        self.go(PortState::Opening, PortAction::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PortEvent::{Attached, Carrier, Closed, Failed, LetGo, Opened, Posted, Time};

    /// Applies the events, each at a time in milliseconds, and checks the action that follows.
    fn walk(happenings: &[(u64, PortEvent, Option<PortAction>)]) {
        walk_on(false, happenings);
    }

    fn walk_on(is_nic: bool, happenings: &[(u64, PortEvent, Option<PortAction>)]) {
        let start = Instant::now();
        let mut life = PortFsm::new(true, is_nic, start);
        for &(ms, happening, step) in happenings {
            let found = life.note(happening, start + Duration::from_millis(ms));
            assert_eq!(found, step, "{happening:?} at {ms} ms: {life:?}");
        }
    }

    #[test]
    fn a_port_is_closed_and_opened_again() {
        walk(&[
            (0, Time, None),
            (1, Carrier(false), Some(PortAction::TakeDown)),
            (2, Time, None),
            (3, LetGo, Some(PortAction::Close)),
            (4, LetGo, None),
            (5, Closed, Some(PortAction::Reclaim)),
            (6, Time, None),
            (7, Carrier(true), Some(PortAction::Open)),
            (8, Time, None),
            (9, Opened, Some(PortAction::Join)),
            (10, Posted(true), Some(PortAction::Attach)),
            (11, Attached, None),
            (12, Carrier(false), Some(PortAction::TakeDown)),
        ]);
    }

    /// The carrier is back before all is closed, and lost again before all is open. Attempts to
    /// open are paced.
    #[test]
    fn changes_in_the_midst_of_it_are_not_forgotten() {
        walk(&[
            (1, Carrier(false), Some(PortAction::TakeDown)),
            (2, Carrier(true), None),
            (3, LetGo, Some(PortAction::Close)),
            (4, Carrier(false), None),
            (5, Carrier(true), None),
            (6, Closed, Some(PortAction::Reclaim)),
            (7, Time, Some(PortAction::Open)),
            (8, Carrier(false), None),
            (9, Opened, Some(PortAction::Join)),
            (10, Posted(true), Some(PortAction::Attach)),
            (11, Attached, Some(PortAction::TakeDown)),
            (12, LetGo, Some(PortAction::Close)),
            (13, Closed, Some(PortAction::Reclaim)),
            (14, Carrier(true), None),
            (206, Time, None),
            (207, Time, Some(PortAction::Open)),
        ]);
    }

    /// The poll loop detects the fault itself, in any state. Answers to earlier requests to the
    /// port worker are ignored.
    #[test]
    fn the_loop_may_let_go_by_itself() {
        walk(&[
            (1, LetGo, Some(PortAction::Close)),
            (2, Closed, Some(PortAction::Reclaim)),
            (3, Time, Some(PortAction::Open)),
            (4, Opened, Some(PortAction::Join)),
            (5, LetGo, Some(PortAction::Close)),
            (6, Posted(true), None),
            (7, Closed, Some(PortAction::Reclaim)),
            (203, Time, Some(PortAction::Open)),
            (204, Opened, Some(PortAction::Join)),
            (205, Posted(true), Some(PortAction::Attach)),
            (206, LetGo, Some(PortAction::Close)),
            (207, Attached, None),
            (208, Closed, Some(PortAction::Reclaim)),
        ]);
    }

    /// Attaching and detaching a program resets the NIC. The port is opened once for each real loss
    /// of the carrier.
    #[test]
    fn a_nic_may_lose_its_carrier_while_it_settles() {
        walk_on(
            true,
            &[
                (10, Carrier(false), None),
                (20, Time, None),
                (2000, Carrier(true), None),
                (14_999, Carrier(false), None),
                (14_999, Time, None),
                (15_000, Time, Some(PortAction::TakeDown)),
                (15_001, LetGo, Some(PortAction::Close)),
                (15_002, Closed, Some(PortAction::Reclaim)),
                (20_000, Carrier(true), Some(PortAction::Open)),
                (20_001, Opened, Some(PortAction::Join)),
                (20_002, Posted(true), Some(PortAction::Attach)),
                (20_003, Carrier(false), None), // before the port worker has answered
                (20_004, Attached, None),
                (23_000, Carrier(true), None),
                (40_000, Time, None),
                (40_001, Carrier(false), Some(PortAction::TakeDown)),
                (40_002, LetGo, Some(PortAction::Close)),
            ],
        );
    }

    #[test]
    fn what_fails_is_tried_again_after_a_while() {
        walk(&[
            (1, LetGo, Some(PortAction::Close)),
            (2, Closed, Some(PortAction::Reclaim)),
            (3, Time, Some(PortAction::Open)),
            (10, Failed, None),
            (1009, Time, None),
            (1010, Time, Some(PortAction::Open)),
            (1020, Opened, Some(PortAction::Join)),
            (1021, Posted(false), None),
            (2021, Time, Some(PortAction::Open)),
            (2022, Opened, Some(PortAction::Join)),
            (2023, Posted(true), Some(PortAction::Attach)),
            (2024, Failed, Some(PortAction::TakeDown)),
            (2025, LetGo, Some(PortAction::Close)),
            (2026, Closed, Some(PortAction::Reclaim)),
            (3023, Time, None),
            (3024, Time, Some(PortAction::Open)),
        ]);
    }
}
