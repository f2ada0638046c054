//! The transmit timer state machine, which decides when a frame is due.
//!
//! Source: IEEE 802.1AB-2016 9.2.9 (figure 9-3).
//!
//! ```text
//!   link down or transmission disabled, in any state
//!          │
//!          ▼
//!   ┌────────────┐ link up and    ┌──────┐ ── tick ──────────▶ ┌──────────┐
//!   │ INITIALIZE │ ─ enabled ───▶ │ IDLE │ ◀─ at once ──────── │ TICK     │ + 1 credit
//!   └────────────┘                └──────┘                     └──────────┘
//!                                  │ ▲ │ │ new neighbor    ┌────────────┐
//!                   local change   │ │ │ └───────────────▶ │ FAST START │ fast = fast frames,
//!                 ┌────────────────┘ │ │ interval is over  └────────────┘ unless > 0
//!                 ▼                  │ └────────────┐            │ at once
//!   ┌───────────┐ at once            │              ▼            │
//!   │ SIGNAL TX │ ───────────────────┘        ┌─────────┐ ◀──────┘
//!   └───────────┘ ◀─── at once ────────────── │ EXPIRES │ fast − 1, unless 0
//!                                             └─────────┘
//! ```
//! SIGNAL TX wants a frame sent and starts the interval: the fast one while `fast` is not 0.
//! Several conditions are taken in the order: new neighbor, local change, interval, tick.
//!
//! The standard staggers the ticks of many ports at random. Here each port's ticks begin when its
//! link came up, which staggers them too and keeps runs repeatable.

/// State of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TxTimerState {
    /// Waits for the link and for transmission to be enabled.
    #[default]
    Initialize,
    /// Waits for a reason to send.
    Idle,
    /// The interval is over.
    Expires,
    /// Wants a frame sent.
    SignalTx,
    /// A second has passed.
    Tick,
    /// A neighbor is new: several frames are sent quickly.
    FastStart,
}

/// What the machine looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxTimerConditions {
    /// True if the link is up and transmission enabled.
    pub enabled: bool,
    /// True if a neighbor is new.
    pub new_neighbor: bool,
    /// True if what the port advertises has changed.
    pub local_change: bool,
    /// True if the interval is over.
    pub interval_over: bool,
    /// True if a second has passed.
    pub tick: bool,
}

impl TxTimerState {
    /// Returns the state that follows; `None` if the machine stays.
    pub fn next(self, on: TxTimerConditions) -> Option<Self> {
        if !on.enabled {
            return (self != Self::Initialize).then_some(Self::Initialize);
        }
        match self {
            Self::Initialize | Self::SignalTx | Self::Tick => Some(Self::Idle),
            Self::Expires => Some(Self::SignalTx),
            Self::FastStart => Some(Self::Expires),
            Self::Idle if on.new_neighbor => Some(Self::FastStart),
            Self::Idle if on.local_change => Some(Self::SignalTx),
            Self::Idle if on.interval_over => Some(Self::Expires),
            Self::Idle => on.tick.then_some(Self::Tick),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TxTimerState::*;
    use super::*;

    /// Every state under every combination of conditions, against the arrows of the diagram.
    #[test]
    fn the_diagram() {
        for bits in 0..32_u8 {
            let bit = |at: u8| bits >> at & 1 != 0;
            let on = TxTimerConditions {
                enabled: bit(0),
                new_neighbor: bit(1),
                local_change: bit(2),
                interval_over: bit(3),
                tick: bit(4),
            };
            let of_idle = [
                (on.new_neighbor, FastStart),
                (on.local_change, SignalTx),
                (on.interval_over, Expires),
                (on.tick, Tick),
            ];
            let of_idle = of_idle.into_iter().find(|(is_met, _)| *is_met).map(|(_, to)| to);
            for (state, expected) in [
                (Initialize, Some(Idle)),
                (Idle, of_idle),
                (Expires, Some(SignalTx)),
                (SignalTx, Some(Idle)),
                (Tick, Some(Idle)),
                (FastStart, Some(Expires)),
            ] {
                let of_disabled = (state != Initialize).then_some(Initialize);
                let expected = if on.enabled { expected } else { of_disabled };
                assert_eq!(state.next(on), expected, "{state:?} on {on:?}");
            }
        }
    }
}
