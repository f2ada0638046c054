//! The life of a port whose interface comes and goes: when what it is made of is closed, and when
//! it is opened again.
//!
//! Rule: a port whose interface has lost its carrier, is down or is gone goes down; so does one of
//! which the loop finds out by itself. What it was made of is closed by the keeper
//! ([`crate::ports::worker`]), and then the loop takes its frames back. Once an interface of its
//! name has a carrier, it is opened again: sockets first, then the loop posts frames, then the
//! program lets frames in. Where that fails it is tried again, no sooner than after [`RETRY`].
//!
//! A NIC begins again when something is put on it, and many lose their carrier for seconds then. If
//! that took the port down, what was put on would be taken off, the NIC would begin again, and so
//! on indefinitely. So the port of a NIC that loses its carrier within [`SETTLING`] after it was
//! attached stays open; what is for it waits. If there is still no carrier then, it goes down.
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

/// An interface that cannot be opened is tried again after so long.
pub const RETRY: Duration = Duration::from_secs(1);
/// No port is opened more often, whatever its interface does.
const PACE: Duration = Duration::from_millis(200);
/// How long a NIC may take until it has settled: links negotiate for some seconds.
pub const SETTLING: Duration = Duration::from_secs(15);

/// What happens to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortEvent {
    /// Its interface has a carrier now, or has it no more.
    Carrier(bool),
    /// The loop has let its sockets go.
    LetGo,
    /// The keeper has closed them.
    Closed,
    /// The keeper has opened others.
    Opened,
    /// The loop has taken them, or found none.
    Posted(bool),
    /// Frames come in.
    Attached,
    /// The keeper could not open them, or not let frames in.
    Failed,
    /// Time passes.
    Time,
}

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortAction {
    /// The loop takes the port down.
    TakeDown,
    /// The keeper closes what the loop has let go.
    Close,
    /// The loop takes the frames back.
    Reclaim,
    /// The keeper opens sockets.
    Open,
    /// The loop takes them and posts frames.
    Join,
    /// The keeper lets frames in.
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

/// Where a port stands.
#[derive(Debug, Clone)]
pub struct PortFsm {
    stage: PortState,
    has_carrier: bool,
    /// It is opened no sooner.
    open_after: Instant,
    /// Its interface is a NIC's.
    is_nic: bool,
    /// A NIC that was attached settles until then.
    settled_at: Instant,
    /// It has lost its carrier while it settled, and is still open.
    awaits_carrier: bool,
}

impl PortFsm {
    /// A port that has just been opened, with or without carrier, on a NIC or not.
    pub fn new(has_carrier: bool, is_nic: bool, now: Instant) -> Self {
        let settled_at = now + SETTLING;
        Self {
            stage: PortState::Open,
            has_carrier,
            open_after: now,
            is_nic,
            settled_at,
            awaits_carrier: false,
        }
    }

    /// A port that is being opened for the first time.
    pub fn opening(is_nic: bool, now: Instant) -> Self {
        Self { stage: PortState::Opening, ..Self::new(true, is_nic, now) }
    }

    /// A loss of its carrier now would not take it down.
    pub fn settles(&self, now: Instant) -> bool {
        let settles = match self.stage {
            PortState::Open => now < self.settled_at,
            PortState::Opening | PortState::Joining | PortState::Attaching => true,
            PortState::Closing | PortState::Closed => false,
        };
        self.is_nic && settles
    }

    /// It has lost its carrier while it settled, and is still open.
    pub fn awaits_carrier(&self) -> bool {
        self.awaits_carrier
    }

    /// Frames come in.
    pub fn is_open(&self) -> bool {
        self.stage == PortState::Open
    }

    /// Frames are being let in.
    pub fn is_attaching(&self) -> bool {
        self.stage == PortState::Attaching
    }

    /// Its sockets are closed, and the loop has taken its frames back.
    pub fn is_closed(&self) -> bool {
        self.stage == PortState::Closed
    }

    /// Something is under way that answers soon.
    pub fn is_busy(&self) -> bool {
        !matches!(self.stage, PortState::Open | PortState::Closed)
    }

    /// It is not opened any more.
    pub fn end(&mut self) {
        self.has_carrier = false;
    }

    /// Something happens at `now`.
    pub fn note(&mut self, happening: PortEvent, now: Instant) -> Option<PortAction> {
        match happening {
            PortEvent::Carrier(has_carrier) => {
                self.has_carrier = has_carrier;
                self.awaits_carrier = false;
                match self.stage {
                    // One that is being opened is taken down once it is.
                    PortState::Open if !has_carrier => self.lose_carrier(now),
                    PortState::Closed => self.open(now),
                    _ => None,
                }
            }
            PortEvent::LetGo => match self.stage {
                PortState::Closing | PortState::Closed => None,
                _ => self.go(PortState::Closing, PortAction::Close),
            },
            PortEvent::Closed if self.stage == PortState::Closing => {
                self.go(PortState::Closed, PortAction::Reclaim)
            }
            PortEvent::Opened if self.stage == PortState::Opening => {
                self.go(PortState::Joining, PortAction::Join)
            }
            PortEvent::Posted(true) if self.stage == PortState::Joining => {
                self.go(PortState::Attaching, PortAction::Attach)
            }
            PortEvent::Posted(false) if self.stage == PortState::Joining => self.fail(PortState::Closed, now),
            PortEvent::Attached if self.stage == PortState::Attaching => {
                (self.stage, self.settled_at) = (PortState::Open, now + SETTLING);
                if self.has_carrier { None } else { self.lose_carrier(now) }
            }
            PortEvent::Failed if self.stage == PortState::Opening => self.fail(PortState::Closed, now),
            PortEvent::Failed if self.stage == PortState::Attaching => {
                self.fail(PortState::Open, now);
                Some(PortAction::TakeDown)
            }
            PortEvent::Time if self.stage == PortState::Closed => self.open(now),
            PortEvent::Time if self.stage == PortState::Open && self.awaits_carrier => self.lose_carrier(now),
            _ => None,
        }
    }

    /// There is no carrier, and the port is open.
    fn lose_carrier(&mut self, now: Instant) -> Option<PortAction> {
        self.awaits_carrier = self.settles(now);
        (!self.awaits_carrier).then_some(PortAction::TakeDown)
    }

    fn go(&mut self, stage: PortState, step: PortAction) -> Option<PortAction> {
        self.stage = stage;
        Some(step)
    }

    fn fail(&mut self, stage: PortState, now: Instant) -> Option<PortAction> {
        (self.stage, self.open_after) = (stage, now + RETRY);
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

    /// Each happening, at a time in milliseconds, and the step that follows.
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

    /// The carrier is back before all is closed, and lost again before all is open; opening is
    /// paced.
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

    /// The loop finds out by itself, at any stage; what was asked of the keeper before is answered
    /// in vain.
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

    /// What is put on makes the NIC begin again, as does what is taken off: it is opened once for
    /// each time that it was really without carrier.
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
                (20_003, Carrier(false), None), // it is noticed before the keeper has answered
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
