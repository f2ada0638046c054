//! When the agreements of a port may be applied.
//!
//! Rule: at most one a second for each port, however often its peer changes, as each is a change of
//! the whole switch; the last one is not forgotten. An agreement that the poll loop refuses is
//! tried again each second and delays no other port's. Source: docs/dcbx.md, "What is agreed".

use std::time::Duration;

/// Time between two attempts to apply an agreement of a port.
const INTERVAL: Duration = Duration::from_secs(1);

/// The holds of all ports, by slot.
#[derive(Debug, Default)]
pub struct AgreementHolds(Vec<Hold>);

#[derive(Debug, Clone, Copy, Default)]
struct Hold {
    until: Duration,
    /// True if the poll loop has refused the present agreement.
    is_refused: bool,
}

impl AgreementHolds {
    /// Returns true if what is agreed on a port is to be applied now: it differs from what is
    /// applied, and the last attempt was long enough ago. This is then the next attempt.
    pub fn admits(&mut self, slot: usize, differs: bool, now: Duration) -> bool {
        let hold = self.of(slot);
        hold.is_refused &= differs;
        let is_due = differs && hold.until <= now;
        if is_due {
            hold.until = now + INTERVAL;
        }
        is_due
    }

    /// Records that the poll loop has refused the agreement of a port. Those of the other ports
    /// were refused with it and are tried at once. Returns true for the first refusal in a row.
    pub fn refuse(&mut self, slot: usize, now: Duration) -> bool {
        self.0.iter_mut().for_each(|hold| hold.until = hold.until.min(now));
        let hold = self.of(slot);
        hold.until = now + INTERVAL;
        !std::mem::replace(&mut hold.is_refused, true)
    }

    fn of(&mut self, slot: usize) -> &mut Hold {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, Hold::default());
        }
        &mut self.0[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A peer that changes each millisecond.
    #[test]
    fn a_port_changes_once_a_second_at_most() {
        let mut holds = AgreementHolds::default();
        let admitted: Vec<u64> = (0..2500).filter(|&at| holds.admits(2, true, ms(at))).collect();
        assert_eq!(admitted, [0, 1000, 2000]);
        assert!(holds.admits(0, true, ms(2500)), "another port does not wait for it");
        assert!(!holds.admits(2, false, ms(3000)), "what is applied is not applied again");
    }

    /// Both ports change in one attempt, and the first one's storm waits for manual recovery.
    #[test]
    fn a_refused_port_delays_no_other() {
        let mut holds = AgreementHolds::default();
        assert!(holds.admits(0, true, ms(0)) && holds.admits(1, true, ms(0)));
        assert!(holds.refuse(0, ms(5)), "the first refusal is reported");
        assert!(!holds.admits(0, true, ms(6)) && holds.admits(1, true, ms(6)));
        assert!(holds.admits(0, true, ms(1005)) && !holds.refuse(0, ms(1010)), "and the next ones are not");
        assert!(!holds.admits(0, false, ms(2010)));
        assert!(holds.admits(0, true, ms(2011)) && holds.refuse(0, ms(2012)), "a later one is");
    }
}
