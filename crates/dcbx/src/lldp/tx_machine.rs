//! The transmit state machine.
//!
//! Source: IEEE 802.1AB-2016 9.2.8 (figure 9-1).
//!
//! ```text
//!            link down, in any state
//!                     │
//!                     ▼
//!              ┌────────────┐  link up and transmission enabled
//!   ┌────────▶ │ INITIALIZE │ ─────────────────┐
//!   │          └────────────┘                  ▼
//!   │                                  ┌──────────────┐ ◀── at once ───┐
//!   │ reinit delay is over             │     IDLE     │                │
//!   │                                  └──────────────┘                │
//!   │          ┌──────────┐   transmission │       │ tx now    ┌───────┴──────┐
//!   └───────── │ SHUTDOWN │ ◀─ disabled ───┘       │ and credit│ INFO         │
//!              │ FRAME    │                        └─────────▶ │ FRAME        │
//!              └──────────┘                                    └──────────────┘
//! ```
//! On entry INFO FRAME sends what the port advertises and takes a credit; SHUTDOWN FRAME sends a
//! TTL of 0, takes no credit, and starts the reinit delay.

/// State of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TxState {
    /// Waits for the link and for transmission to be enabled.
    #[default]
    Initialize,
    /// Waits for something to send.
    Idle,
    /// Sends a frame with what the port advertises.
    InfoFrame,
    /// Sends a frame that withdraws it.
    ShutdownFrame,
}

/// What the machine looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxConditions {
    /// True if the link is up.
    pub link_up: bool,
    /// True if transmission is enabled.
    pub enabled: bool,
    /// True if the timer machine wants a frame sent.
    pub tx_now: bool,
    /// True if credit is left.
    pub has_credit: bool,
    /// True if the reinit delay is over.
    pub reinit_over: bool,
}

impl TxState {
    /// Returns the state that follows; `None` if the machine stays.
    pub fn next(self, on: TxConditions) -> Option<Self> {
        if !on.link_up {
            return (self != Self::Initialize).then_some(Self::Initialize);
        }
        match self {
            Self::Initialize => on.enabled.then_some(Self::Idle),
            Self::Idle if !on.enabled => Some(Self::ShutdownFrame),
            Self::Idle => (on.tx_now && on.has_credit).then_some(Self::InfoFrame),
            Self::InfoFrame => Some(Self::Idle),
            Self::ShutdownFrame => on.reinit_over.then_some(Self::Initialize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TxState::*;
    use super::*;

    /// Every state under every combination of conditions, against the arrows of the diagram.
    #[test]
    fn the_diagram() {
        type When = fn(TxConditions) -> bool;
        let arrows: [(TxState, When, TxState); 6] = [
            (Initialize, |on| on.link_up && on.enabled, Idle),
            (Idle, |on| on.link_up && !on.enabled, ShutdownFrame),
            (Idle, |on| on.link_up && on.enabled && on.tx_now && on.has_credit, InfoFrame),
            (InfoFrame, |on| on.link_up, Idle),
            (ShutdownFrame, |on| on.link_up && on.reinit_over, Initialize),
            (Idle, |on| !on.link_up, Initialize),
        ];
        for bits in 0..32_u8 {
            let bit = |at: u8| bits >> at & 1 != 0;
            let on = TxConditions {
                link_up: bit(0),
                enabled: bit(1),
                tx_now: bit(2),
                has_credit: bit(3),
                reinit_over: bit(4),
            };
            for state in [Initialize, Idle, InfoFrame, ShutdownFrame] {
                let mut expected = arrows.iter().filter(|(from, when, _)| *from == state && when(on));
                let expected = match state {
                    InfoFrame | ShutdownFrame if !on.link_up => Some(Initialize),
                    _ => expected.next().map(|(_, _, to)| *to),
                };
                assert_eq!(state.next(on), expected, "{state:?} on {on:?}");
            }
        }
    }
}
