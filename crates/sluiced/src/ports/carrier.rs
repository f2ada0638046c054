//! State of the carrier of a port's interface, as the kernel reports it.
//!
//! Rule: a port goes down when its interface is deleted, is set down or loses its carrier. It comes
//! back when an interface of this name has its carrier ([`crate::ports::fsm`]). A port that has no
//! carrier when the daemon starts begins to work when the carrier appears.
//!
//! ```text
//!             carrier                no carrier, down, gone
//!   Waiting ───────────▶ Carrying ──────────────────────────────▶ Lost
//!      │                    ▲                carrier                │ ▲
//!      │                    └───────────────────────────────────────┘ │
//!      └──────────────────────────── down, gone ──────────────────────┘
//! ```

/// State of an interface, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// Up, with carrier.
    Carrier,
    /// Up, without carrier.
    NoCarrier,
    /// Set down.
    Down,
    /// Deleted, or moved to another network namespace.
    Gone,
}

/// The change that a report of the kernel means for a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The interface has its first carrier.
    Came,
    /// The port must go down, for this reason.
    Lost(LinkState),
    /// The interface, or another of its name, has a carrier again.
    Back,
    /// Only the MTU or the speed has changed.
    Altered,
}

/// State of the carrier of a port's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// No carrier since the start.
    Waiting,
    /// The interface has a carrier.
    Carrying,
    /// The interface has lost its carrier.
    Lost,
}

impl Carrier {
    /// Returns the state at the start; `None` if no port is possible on such an interface.
    pub fn new(seen: LinkState) -> Option<Self> {
        match seen {
            LinkState::Carrier => Some(Carrier::Carrying),
            LinkState::NoCarrier => Some(Carrier::Waiting),
            LinkState::Down | LinkState::Gone => None,
        }
    }

    /// Takes a report of the kernel. Returns the change, if any.
    pub fn observe(&mut self, seen: LinkState) -> Option<Change> {
        let (next, change) = match (*self, seen) {
            (Carrier::Waiting, LinkState::Carrier) => (Carrier::Carrying, Some(Change::Came)),
            (Carrier::Waiting, LinkState::NoCarrier) => (Carrier::Waiting, None),
            (Carrier::Waiting, LinkState::Down | LinkState::Gone) => {
                (Carrier::Lost, Some(Change::Lost(seen)))
            }
            (Carrier::Carrying, LinkState::Carrier) => (Carrier::Carrying, None),
            (Carrier::Carrying, _) => (Carrier::Lost, Some(Change::Lost(seen))),
            (Carrier::Lost, LinkState::Carrier) => (Carrier::Carrying, Some(Change::Back)),
            (Carrier::Lost, _) => (Carrier::Lost, None),
        };
        *self = next;
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the whole transition table, one row per state.
    #[test]
    fn every_state_answers_every_report() {
        use Carrier::{Carrying, Lost, Waiting};
        let reports = [LinkState::Carrier, LinkState::NoCarrier, LinkState::Down, LinkState::Gone];
        let lost = |seen| (Lost, Some(Change::Lost(seen)));
        let table = [
            (
                Waiting,
                [
                    (Carrying, Some(Change::Came)),
                    (Waiting, None),
                    lost(LinkState::Down),
                    lost(LinkState::Gone),
                ],
            ),
            (
                Carrying,
                [(Carrying, None), lost(LinkState::NoCarrier), lost(LinkState::Down), lost(LinkState::Gone)],
            ),
            (Lost, [(Carrying, Some(Change::Back)), (Lost, None), (Lost, None), (Lost, None)]),
        ];
        for (from, answers) in table {
            for (seen, (to, change)) in reports.into_iter().zip(answers) {
                let mut carrier = from;
                assert_eq!((carrier.observe(seen), carrier), (change, to), "{from:?} on {seen:?}");
            }
        }
    }

    #[test]
    fn a_port_starts_with_or_without_carrier_but_not_on_an_interface_that_is_down() {
        assert_eq!(Carrier::new(LinkState::Carrier), Some(Carrier::Carrying));
        assert_eq!(Carrier::new(LinkState::NoCarrier), Some(Carrier::Waiting));
        assert_eq!((Carrier::new(LinkState::Down), Carrier::new(LinkState::Gone)), (None, None));
    }
}
