//! Whether a port's interface can carry frames, as the kernel reports it.
//!
//! Rule: a port goes down when its interface is deleted, set down or loses its carrier, and comes
//! back once an interface of this name has its carrier ([`crate::ports::fsm`]). One that had no
//! carrier yet when the daemon started just begins to work when it comes.
//!
//! ```text
//!             carrier                no carrier, down, gone
//!   Waiting ───────────▶ Carrying ──────────────────────────────▶ Lost
//!      │                    ▲                carrier                │ ▲
//!      │                    └───────────────────────────────────────┘ │
//!      └──────────────────────────── down, gone ──────────────────────┘
//! ```

/// What the kernel says of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// Up, with carrier.
    Carrier,
    /// Up, but nobody at the other end.
    NoCarrier,
    /// Set down.
    Down,
    /// Deleted, or moved to another network namespace.
    Gone,
}

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The first carrier came.
    Came,
    /// The port must go down, for this reason.
    Lost(LinkState),
    /// The interface, or another of its name, carries frames again.
    Back,
    /// All is as before but its MTU or its speed.
    Altered,
}

/// Where a port's interface stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// No carrier since the start.
    Waiting,
    /// It carries frames.
    Carrying,
    /// It does not any more.
    Lost,
}

impl Carrier {
    /// At the start; `None` if there can be no port on such an interface.
    pub fn new(seen: LinkState) -> Option<Self> {
        match seen {
            LinkState::Carrier => Some(Carrier::Carrying),
            LinkState::NoCarrier => Some(Carrier::Waiting),
            LinkState::Down | LinkState::Gone => None,
        }
    }

    /// The kernel reports.
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

    /// The whole transition table, a row a state.
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
