//! The life of a port: when its sockets and program are opened, and when they are closed, as its
//! interface comes and goes and as a reload adds or removes it.
//!
//! Rule: a port is open while its interface has a carrier. It goes down when the interface loses
//! its carrier, is set down or is deleted, when its number of RX queues changes, or when the poll
//! loop detects a fault. The port worker ([`crate::ports::worker`]) then closes its sockets and
//! program, and the poll loop reclaims its frames. Once an interface of its name has a carrier, the
//! port is opened: first its sockets, then the poll loop posts frames, then the XDP program lets
//! frames in. If that fails, it is retried after [`RETRY`]. A port that a reload adds is opened
//! before the poll loop has it, so that the reload can be rejected, unless it is admin down.
//!
//! A port that an operator takes down (admin down) goes down in the same way, and is not opened
//! before the operator lets it come up. Where the link stays up, as then and with other RX queues,
//! the peer is sent XON first.
//!
//! An interface that has had no carrier so far keeps its port open: its peer starts later. A NIC
//! resets when a program is attached to it, and many NICs lose their carrier for seconds then.
//! Closing the port would reset the NIC again, and so on indefinitely. So the port of a NIC that
//! loses its carrier within [`SETTLING`] after it was attached waits for it that long.
//!
//! ```text
//!              opened               added                 posted               attached
//!   Preparing ────────▶ Prepared ─────────▶ Joining ───────────────▶ Attaching ────────▶ Open
//!    ▲    │ │              │                 ▲  │ no sockets              │ failed        │  ▲
//!    │    │ └──removed──┐  │ removed   opened│  │                         ▼        lost   │  │
//!  a reload failed      ▼  ▼                 │  │                     Detaching ◀─────────┤  │
//!  adds it│           Closing ◀──────────────┼──┴───────── detached ──────┘  ▲            ▼  │
//!    │    │             │   ▲                │                               └──lost── Waiting
//!    │    ▼             │   └────────────────┼── detached: the poll loop detected a fault ──┘
//!   (vacant)     closed │   failed           │                 (in any state with sockets)
//!         ▲             ▼ ◀──────────────┐   │
//!         └──removed── Closed ────────▶ Opening
//!                         carrier, time
//! ```
//! The test below lists what each state does with each event.

use std::time::{Duration, Instant};

/// Time after which an interface that could not be opened is tried again.
pub const RETRY: Duration = Duration::from_secs(1);
/// The least time between two attempts to open a port, whatever its interface does.
const PACE: Duration = Duration::from_millis(200);
/// The most time that a NIC may take to settle: links negotiate for some seconds.
pub const SETTLING: Duration = Duration::from_secs(15);

/// State of an interface, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// Up, with carrier.
    Carrier,
    /// Up, without carrier.
    NoCarrier,
    /// Set down.
    Down,
    /// There is none, or it was moved to another network namespace.
    Gone,
}

/// An input of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortEvent {
    /// The state of the interface, or of another one of its name, has changed.
    Link(LinkState),
    /// The interface has another number of RX queues.
    QueuesChanged,
    /// An operator takes the port down (false), or lets it come up.
    Admin(bool),
    /// A reload has given the prepared port to the poll loop.
    Added,
    /// A reload has removed the port, or a reload that would have added it was rejected.
    Removed,
    /// The poll loop has detached the sockets.
    Detached,
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
    /// The same where its link stays up: its peer is sent XON first.
    ShutDown,
    /// The port worker closes the sockets that the poll loop has detached, or never took.
    Close,
    /// The poll loop reclaims the frames.
    Reclaim,
    /// The port worker opens sockets.
    Open,
    /// The poll loop takes the sockets and posts frames.
    Join,
    /// The port worker attaches the program, which lets frames in.
    Attach,
    /// The port leaves its slot.
    Vacate,
}

/// A change that is reported to operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortNotice {
    /// An operator has taken the port down.
    AdminDown,
    /// An operator lets the port come up.
    AdminUp,
    /// The interface has its first carrier, or that for which the port waited.
    CarrierUp,
    /// The interface has lost its carrier, and the port waits for it.
    CarrierAwaited,
    /// The port goes down, for this reason.
    WentDown(LinkState),
    /// The interface, or another of its name, has a carrier again.
    Recovered,
}

/// What follows from an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FsmStep {
    /// What must be done.
    pub action: Option<PortAction>,
    /// What is reported.
    pub notice: Option<PortNotice>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortState {
    /// The port worker opens the port that a reload is about to add.
    Preparing,
    /// It is open, or admin down, and the poll loop does not have it yet.
    Prepared,
    /// It has no sockets.
    Closed,
    /// The port worker opens its sockets.
    Opening,
    /// The poll loop posts frames to them.
    Joining,
    /// The port worker attaches the program.
    Attaching,
    /// It carries frames.
    Open,
    /// It is open, and its interface has no carrier yet.
    Waiting,
    /// The poll loop takes it down.
    Detaching,
    /// The port worker closes its sockets.
    Closing,
}
use PortState::{
    Attaching, Closed, Closing, Detaching, Joining, Open, Opening, Prepared, Preparing, Waiting,
};

/// State of a port.
#[derive(Debug, Clone)]
pub struct PortFsm {
    state: PortState,
    link: LinkState,
    /// True if the interface is a NIC.
    is_nic: bool,
    /// True if the interface has had a carrier since the port exists.
    had_carrier: bool,
    /// False if an operator has taken the port down.
    admin_up: bool,
    /// True if the port was removed, and leaves its slot once it is closed.
    is_removed: bool,
    /// The port is not opened before this time.
    open_after: Instant,
    /// End of the time in which an attached NIC settles.
    settled_at: Instant,
}

impl PortFsm {
    fn new(state: PortState, link: LinkState, is_nic: bool, now: Instant) -> Self {
        let has_carried = link == LinkState::Carrier;
        let settled_at = now + SETTLING;
        Self {
            state,
            link,
            is_nic,
            had_carrier: has_carried,
            admin_up: true,
            is_removed: false,
            open_after: now,
            settled_at,
        }
    }

    /// Creates a port that was opened before the poll loop started.
    pub fn open(link: LinkState, is_nic: bool, now: Instant) -> Self {
        let state = if link == LinkState::Carrier { Open } else { Waiting };
        Self::new(state, link, is_nic, now)
    }

    /// Creates a port whose interface was missing or down at the start.
    pub fn closed(link: LinkState, is_nic: bool, now: Instant) -> Self {
        Self { had_carrier: false, ..Self::new(Closed, link, is_nic, now) }
    }

    /// Creates a port that a reload is about to add, and that is being opened.
    pub fn preparing(link: LinkState, is_nic: bool, now: Instant) -> Self {
        Self::new(Preparing, link, is_nic, now)
    }

    /// Creates a port that a reload is about to add admin down: it is not opened before.
    pub fn prepared_down(link: LinkState, is_nic: bool, now: Instant) -> Self {
        Self { admin_up: false, had_carrier: false, ..Self::new(Prepared, link, is_nic, now) }
    }

    /// Sets the kind of the present interface.
    pub fn set_nic(&mut self, is_nic: bool) {
        self.is_nic = is_nic;
    }

    /// True if a reload is about to add the port.
    pub fn is_pending(&self) -> bool {
        matches!(self.state, Preparing | Prepared)
    }

    /// True if the port is being opened for a reload that is about to add it.
    pub fn is_preparing(&self) -> bool {
        self.state == Preparing
    }

    /// False if an operator has taken the port down.
    pub fn is_admin_up(&self) -> bool {
        self.admin_up
    }

    /// True if the program lets frames in.
    pub fn is_open(&self) -> bool {
        matches!(self.state, Open | Waiting)
    }

    /// True if the program is being attached.
    pub fn is_attaching(&self) -> bool {
        self.state == Attaching
    }

    /// True if the port was removed, and still is in its slot.
    pub fn is_leaving(&self) -> bool {
        self.is_removed
    }

    /// True if an operation is in progress that will complete soon.
    pub fn is_busy(&self) -> bool {
        self.is_removed || !matches!(self.state, Open | Waiting | Closed)
    }

    /// True if the port is closed, and will be opened as soon as [`RETRY`] or [`PACE`] allow it.
    pub fn is_due(&self) -> bool {
        self.state == Closed && self.admin_up && self.link == LinkState::Carrier
    }

    /// State of the interface.
    pub fn link(&self) -> LinkState {
        self.link
    }

    /// Prevents the port from being opened again, since the daemon ends.
    pub fn end(&mut self) {
        self.link = LinkState::Gone;
    }

    /// Handles an event at `now`.
    pub fn handle(&mut self, event: PortEvent, now: Instant) -> FsmStep {
        let notice = match event {
            // Nobody waits for the interface of a port that is to be down.
            PortEvent::Link(link) => self.update_link(link, now).filter(|_| self.admin_up),
            PortEvent::Admin(up) if up != self.admin_up => {
                self.admin_up = up;
                Some(if up { PortNotice::AdminUp } else { PortNotice::AdminDown })
            }
            PortEvent::Added if !self.admin_up => Some(PortNotice::AdminDown),
            _ => None,
        };
        self.is_removed |= event == PortEvent::Removed;
        FsmStep { action: self.next(event, now), notice }
    }

    fn next(&mut self, event: PortEvent, now: Instant) -> Option<PortAction> {
        use PortEvent::{
            Added, Admin, Attached, Detached, Failed, Link, Opened, Posted, QueuesChanged, Removed, Time,
        };
        match (self.state, event) {
            (Prepared, Added) | (Opening, Opened) if !self.admin_up => {
                self.enter(Closing, Some(PortAction::Close))
            }
            (Open | Waiting, Admin(false)) => self.enter(Detaching, Some(PortAction::ShutDown)),
            (Closed, Admin(true)) => {
                self.open_after = now;
                self.leave_or_open(now)
            }
            (Preparing, Opened) => self.enter(Prepared, None),
            (Preparing, Failed) => self.enter(Closed, Some(PortAction::Vacate)),
            (Preparing | Prepared, Removed) => self.enter(Closing, Some(PortAction::Close)),
            (Prepared, Added) => self.enter(Joining, Some(PortAction::Join)),
            (Opening, Opened) => self.enter(Joining, Some(PortAction::Join)),
            (Opening, Failed) => self.retry_later(Closed, None, now),
            (Joining, Posted(true)) => self.enter(Attaching, Some(PortAction::Attach)),
            (Joining, Posted(false)) => self.retry_later(Closing, Some(PortAction::Close), now),
            (Attaching, Attached) => {
                self.settled_at = now + SETTLING;
                self.stay_open(now)
            }
            (Attaching, Failed) => self.retry_later(Detaching, Some(PortAction::TakeDown), now),
            (Open | Waiting, Link(_)) | (Waiting, Time) => self.stay_open(now),
            (Open | Waiting, QueuesChanged) => self.enter(Detaching, Some(PortAction::ShutDown)),
            (Joining | Attaching | Open | Waiting | Detaching | Opening, Detached) => {
                self.enter(Closing, Some(PortAction::Close))
            }
            (Closing, PortEvent::Closed) => self.enter(Closed, Some(PortAction::Reclaim)),
            (Closed, Time | Link(_) | Removed) => self.leave_or_open(now),
            _ => None,
        }
    }

    /// Takes a state of the interface. Returns what is reported of it.
    fn update_link(&mut self, link: LinkState, now: Instant) -> Option<PortNotice> {
        let before = std::mem::replace(&mut self.link, link);
        let waited = self.state == Waiting || self.awaits_carrier(now);
        let had_carried = self.had_carrier;
        self.had_carrier |= link == LinkState::Carrier;
        match (before, link) {
            (LinkState::Carrier, LinkState::Carrier) => None,
            (_, LinkState::Carrier) if waited || !had_carried => Some(PortNotice::CarrierUp),
            (_, LinkState::Carrier) => Some(PortNotice::Recovered),
            (LinkState::Carrier, LinkState::NoCarrier) if waited => Some(PortNotice::CarrierAwaited),
            (LinkState::Carrier, _) => Some(PortNotice::WentDown(link)),
            (_, LinkState::Down | LinkState::Gone) if self.state == Waiting => {
                Some(PortNotice::WentDown(link))
            }
            _ => None,
        }
    }

    /// True if the port does not go down for the lack of a carrier at `now`.
    fn awaits_carrier(&self, now: Instant) -> bool {
        match self.state {
            Open | Waiting => !self.had_carrier || (self.is_nic && now < self.settled_at),
            Joining | Attaching | Opening | Preparing | Prepared => !self.had_carrier || self.is_nic,
            Closed | Closing | Detaching => false,
        }
    }

    /// Lets an open port stay so if its interface allows it.
    fn stay_open(&mut self, now: Instant) -> Option<PortAction> {
        self.state = Open;
        match self.link {
            _ if !self.admin_up => self.enter(Detaching, Some(PortAction::ShutDown)),
            LinkState::Carrier => None,
            LinkState::NoCarrier if self.awaits_carrier(now) => self.enter(Waiting, None),
            _ => self.enter(Detaching, Some(PortAction::TakeDown)),
        }
    }

    /// Vacates the slot of a closed port that was removed, or opens it if its interface allows it.
    fn leave_or_open(&mut self, now: Instant) -> Option<PortAction> {
        if self.is_removed {
            return Some(PortAction::Vacate);
        }
        if !self.admin_up || self.link != LinkState::Carrier || now < self.open_after {
            return None;
        }
        self.open_after = now + PACE;
        self.enter(Opening, Some(PortAction::Open))
    }

    fn enter(&mut self, state: PortState, action: Option<PortAction>) -> Option<PortAction> {
        self.state = state;
        action
    }

    fn retry_later(
        &mut self,
        state: PortState,
        action: Option<PortAction>,
        now: Instant,
    ) -> Option<PortAction> {
        self.open_after = now + RETRY;
        self.enter(state, action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PortAction::{Attach, Close, Join, Reclaim, TakeDown, Vacate};
    use PortEvent::{
        Added, Admin, Attached, Detached, Failed, Link, Opened, Posted, QueuesChanged, Removed, Time,
    };
    use std::fmt::Write;

    const EVENTS: [PortEvent; 17] = [
        Link(LinkState::Carrier),
        Link(LinkState::NoCarrier),
        Link(LinkState::Down),
        Link(LinkState::Gone),
        QueuesChanged,
        Admin(false),
        Admin(true),
        Added,
        Removed,
        Detached,
        PortEvent::Closed,
        Opened,
        Posted(true),
        Posted(false),
        Attached,
        Failed,
        Time,
    ];

    /// Returns a port in this state, whose interface had its carrier.
    fn port_in(state: PortState, is_nic: bool, now: Instant) -> PortFsm {
        let link = if state == Waiting { LinkState::NoCarrier } else { LinkState::Carrier };
        PortFsm { had_carrier: true, ..PortFsm::new(state, link, is_nic, now) }
    }

    /// Returns the outcome of an event as a line of the table.
    fn outcome(mut port: PortFsm, event: PortEvent, now: Instant) -> String {
        let before = port.state;
        let FsmStep { action, notice } = port.handle(event, now);
        let mut line = if port.state == before { "–".to_owned() } else { format!("{:?}", port.state) };
        let _ = action.map(|action| write!(line, ", {action:?}"));
        let _ = notice.map(|notice| write!(line, " ({notice:?})"));
        line
    }

    /// Each state with each event: of a virtual interface, and of a NIC that settles where that
    /// differs. Where nothing follows, there is no line.
    #[test]
    fn every_state_handles_every_event() {
        let now = Instant::now();
        let states =
            [Preparing, Prepared, Closed, Opening, Joining, Attaching, Open, Waiting, Detaching, Closing];
        let mut table = String::new();
        for (state, event) in states.into_iter().flat_map(|state| EVENTS.map(|event| (state, event))) {
            let [virtual_port, nic] =
                [false, true].map(|is_nic| outcome(port_in(state, is_nic, now), event, now));
            let row = format!("{state:?} × {event:?}");
            if virtual_port != "–" || nic != "–" {
                let _ = write!(table, "{row:<28} → {virtual_port}");
                let _ = if nic == virtual_port { Ok(()) } else { write!(table, "; NIC: {nic}") };
                table.push('\n');
            }
        }
        insta::assert_snapshot!(table);
    }

    /// Applies the events, each at a time in milliseconds, and checks the action that follows.
    fn walk(mut port: PortFsm, start: Instant, events: &[(u64, PortEvent, Option<PortAction>)]) {
        for &(ms, event, action) in events {
            let step = port.handle(event, start + Duration::from_millis(ms));
            assert_eq!(step.action, action, "{event:?} at {ms} ms: {port:?}");
        }
    }

    fn walk_open(is_nic: bool, events: &[(u64, PortEvent, Option<PortAction>)]) {
        let start = Instant::now();
        walk(PortFsm::open(LinkState::Carrier, is_nic, start), start, events);
    }

    const CARRIER: PortEvent = Link(LinkState::Carrier);
    const NO_CARRIER: PortEvent = Link(LinkState::NoCarrier);

    #[test]
    fn a_port_is_closed_and_opened_again() {
        walk_open(
            false,
            &[
                (0, Time, None),
                (1, NO_CARRIER, Some(TakeDown)),
                (2, Time, None),
                (3, Detached, Some(Close)),
                (4, Detached, None),
                (5, PortEvent::Closed, Some(Reclaim)),
                (6, Time, None),
                (7, CARRIER, Some(PortAction::Open)),
                (8, Time, None),
                (9, Opened, Some(Join)),
                (10, Posted(true), Some(Attach)),
                (11, Attached, None),
                (12, NO_CARRIER, Some(TakeDown)),
            ],
        );
    }

    /// The carrier is back before all is closed, and lost again before all is open. Attempts to
    /// open are paced.
    #[test]
    fn changes_during_a_transition_are_not_forgotten() {
        walk_open(
            false,
            &[
                (1, NO_CARRIER, Some(TakeDown)),
                (2, CARRIER, None),
                (3, Detached, Some(Close)),
                (4, NO_CARRIER, None),
                (5, CARRIER, None),
                (6, PortEvent::Closed, Some(Reclaim)),
                (7, Time, Some(PortAction::Open)),
                (8, NO_CARRIER, None),
                (9, Opened, Some(Join)),
                (10, Posted(true), Some(Attach)),
                (11, Attached, Some(TakeDown)),
                (12, Detached, Some(Close)),
                (13, PortEvent::Closed, Some(Reclaim)),
                (14, CARRIER, None),
                (206, Time, None),
                (207, Time, Some(PortAction::Open)),
            ],
        );
    }

    /// Also while its carrier comes and goes, or while it is being opened.
    #[test]
    fn a_port_that_is_admin_down_stays_closed() {
        let shut = Some(PortAction::ShutDown);
        let closing = [(2, Detached, Some(Close)), (3, PortEvent::Closed, Some(Reclaim))];
        let again = [
            (4, CARRIER, None),
            (5, NO_CARRIER, None),
            (6, CARRIER, None),
            (999, Time, None),
            (1000, Admin(true), Some(PortAction::Open)),
            (1001, Admin(false), None),
            (1002, Opened, Some(Close)),
            (1003, PortEvent::Closed, Some(Reclaim)),
            (1004, Time, None),
            (1005, Admin(true), Some(PortAction::Open)),
            (1006, Opened, Some(Join)),
            (1007, Admin(false), None),
            (1008, Posted(true), Some(Attach)),
            (1009, Attached, shut),
            (1010, Detached, Some(Close)),
            (1011, Removed, None),
            (1012, PortEvent::Closed, Some(Reclaim)),
            (1013, Time, Some(Vacate)),
        ];
        walk_open(false, &[&[(1, Admin(false), shut)][..], &closing, &again].concat());
        let start = Instant::now();
        // Of a port that a reload adds, or would have added.
        let added = || PortFsm::prepared_down(LinkState::Gone, false, start);
        assert_eq!(added().handle(Added, start).notice, Some(PortNotice::AdminDown));
        let closed = (2, PortEvent::Closed, Some(Reclaim));
        let opened = [(3, CARRIER, None), (4, Time, None), (5, Admin(true), Some(PortAction::Open))];
        walk(added(), start, &[&[(1, Added, Some(Close)), closed][..], &opened].concat());
        walk(added(), start, &[(1, Removed, Some(Close)), closed, (3, Time, Some(Vacate))]);
        let mut port = PortFsm::open(LinkState::Carrier, false, start);
        assert_eq!(port.handle(Admin(false), start).notice, Some(PortNotice::AdminDown));
        assert_eq!(port.handle(Admin(false), start).notice, None);
        assert_eq!(port.handle(NO_CARRIER, start).notice, None);
        assert_eq!(port.handle(Admin(true), start).notice, Some(PortNotice::AdminUp));
    }

    /// The poll loop detects the fault itself, in any state. Answers to earlier requests to the
    /// port worker are ignored.
    #[test]
    fn the_loop_may_detach_by_itself() {
        walk_open(
            false,
            &[
                (1, Detached, Some(Close)),
                (2, PortEvent::Closed, Some(Reclaim)),
                (3, Time, Some(PortAction::Open)),
                (4, Opened, Some(Join)),
                (5, Detached, Some(Close)),
                (6, Posted(true), None),
                (7, PortEvent::Closed, Some(Reclaim)),
                (203, Time, Some(PortAction::Open)),
                (204, Opened, Some(Join)),
                (205, Posted(true), Some(Attach)),
                (206, Detached, Some(Close)),
                (207, Attached, None),
                (208, PortEvent::Closed, Some(Reclaim)),
            ],
        );
    }

    /// Attaching and detaching a program resets the NIC. The port is opened once for each real loss
    /// of the carrier.
    #[test]
    fn a_nic_may_lose_its_carrier_while_it_settles() {
        walk_open(
            true,
            &[
                (10, NO_CARRIER, None),
                (20, Time, None),
                (2000, CARRIER, None),
                (14_999, NO_CARRIER, None),
                (14_999, Time, None),
                (15_000, Time, Some(TakeDown)),
                (15_001, Detached, Some(Close)),
                (15_002, PortEvent::Closed, Some(Reclaim)),
                (20_000, CARRIER, Some(PortAction::Open)),
                (20_001, Opened, Some(Join)),
                (20_002, Posted(true), Some(Attach)),
                (20_003, NO_CARRIER, None), // before the port worker has answered
                (20_004, Attached, None),
                (23_000, CARRIER, None),
                (40_000, Time, None),
                (40_001, NO_CARRIER, Some(TakeDown)),
                (40_002, Detached, Some(Close)),
            ],
        );
    }

    #[test]
    fn what_fails_is_tried_again_after_a_while() {
        walk_open(
            false,
            &[
                (1, Detached, Some(Close)),
                (2, PortEvent::Closed, Some(Reclaim)),
                (3, Time, Some(PortAction::Open)),
                (10, Failed, None),
                (1009, Time, None),
                (1010, Time, Some(PortAction::Open)),
                (1020, Opened, Some(Join)),
                (1021, Posted(false), Some(Close)),
                (1022, PortEvent::Closed, Some(Reclaim)),
                (2021, Time, Some(PortAction::Open)),
                (2022, Opened, Some(Join)),
                (2023, Posted(true), Some(Attach)),
                (2024, Failed, Some(TakeDown)),
                (2025, Detached, Some(Close)),
                (2026, PortEvent::Closed, Some(Reclaim)),
                (3023, Time, None),
                (3024, Time, Some(PortAction::Open)),
            ],
        );
    }

    /// Of a port that was missing at the start, and of one whose peer starts later.
    #[test]
    fn a_port_may_come_after_the_start() {
        let start = Instant::now();
        let mut missing = PortFsm::closed(LinkState::Gone, false, start);
        let mut next = |event| missing.handle(event, start);
        assert_eq!(next(Time), FsmStep::default());
        assert_eq!(next(NO_CARRIER), FsmStep::default());
        let came = FsmStep { action: Some(PortAction::Open), notice: Some(PortNotice::CarrierUp) };
        assert_eq!(next(CARRIER), came);

        let mut waiting = PortFsm::open(LinkState::NoCarrier, false, start);
        let later = start + 2 * SETTLING;
        assert_eq!(waiting.handle(Time, later), FsmStep::default());
        let came = FsmStep { action: None, notice: Some(PortNotice::CarrierUp) };
        assert_eq!(waiting.handle(CARRIER, later), came);
        let lost = PortNotice::WentDown(LinkState::NoCarrier);
        assert_eq!(waiting.handle(NO_CARRIER, later), FsmStep { action: Some(TakeDown), notice: Some(lost) });
    }

    #[test]
    fn a_removed_port_leaves_its_slot_once_it_is_closed() {
        let closing = [(3, PortEvent::Closed, Some(Reclaim)), (4, CARRIER, Some(Vacate))];
        let open = [(1, Removed, None), (2, Detached, Some(Close))];
        walk_open(false, &[&open[..], &closing].concat());
        // While it is opened again: the poll loop takes no sockets of a removed port.
        let opening = [(1, Removed, None), (1, Opened, Some(Join)), (2, Posted(false), Some(Close))];
        let start = Instant::now();
        walk(port_in(Opening, false, start), start, &[&opening[..], &closing].concat());
        // A reload that was rejected.
        for events in [&[(1, Removed, Some(Close))][..], &[(1, Opened, None), (2, Removed, Some(Close))]] {
            let port = PortFsm::preparing(LinkState::Carrier, false, start);
            walk(port, start, &[events, &closing].concat());
        }
    }
}
