//! Sequence numbers of CEE and CIN.
//!
//! Source: DCB Capability Exchange Protocol Base Specification, revision 1.01, section 3.2 (control
//! state machine).
//!
//! ```text
//!   no peer, in any state
//!        │   all numbers are 0
//!        ▼
//!   ┌─────────┐ ─── a feature changed: SeqNo + 1 ──▶ ┌──────────────┐
//!   │ SYNCED  │ ◀── the peer's AckNo is our SeqNo ── │ AWAITING ACK │
//!   └─────────┘                                      └──────────────┘
//! ```
//! While an acknowledgment is awaited, features go on as they were advertised with the current
//! SeqNo; a further change waits. AckNo is the SeqNo that the peer sent last.

use wire::dcbx::sub_tlv::Control;

/// The only version of the protocol, and of each feature, that is spoken here.
pub const VERSION: u8 = 0;

/// Sequence numbers of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ControlMachine {
    seq: u32,
    /// SeqNo of the peer.
    ack: u32,
    /// SeqNo that the peer has acknowledged.
    acknowledged: u32,
}

impl ControlMachine {
    /// Takes the numbers that the peer sent.
    pub fn receive(&mut self, peer: &Control) {
        (self.ack, self.acknowledged) = (peer.seq, peer.ack);
    }

    /// Returns true if the peer has acknowledged the current SeqNo.
    pub fn is_synced(&self) -> bool {
        self.seq == self.acknowledged
    }

    /// Begins a change; false if it has to wait.
    pub fn begin_change(&mut self) -> bool {
        let is_synced = self.is_synced();
        if is_synced {
            self.seq = self.seq.wrapping_add(1);
        }
        is_synced
    }

    /// Returns the current numbers, as they are sent.
    pub fn sub_tlv(&self) -> Control {
        Control { oper_version: VERSION, max_version: VERSION, seq: self.seq, ack: self.ack }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(seq: u32, ack: u32) -> Control {
        Control { seq, ack, ..Control::default() }
    }

    #[test]
    fn the_diagram() {
        let mut machine = ControlMachine::default();
        assert!(machine.is_synced());
        assert!(machine.begin_change());
        assert_eq!(machine.sub_tlv(), peer(1, 0));
        assert!(!machine.is_synced());
        assert!(!machine.begin_change(), "a change waits for the acknowledgment of the last");
        machine.receive(&peer(7, 0));
        assert!(!machine.is_synced());
        assert_eq!(machine.sub_tlv(), peer(1, 7));
        machine.receive(&peer(7, 1));
        assert!(machine.is_synced());
        assert!(machine.begin_change());
        assert_eq!(machine.sub_tlv(), peer(2, 7));
        machine.receive(&peer(8, 1));
        assert!(!machine.is_synced());
        machine.receive(&peer(8, 2));
        assert!(machine.is_synced());
    }

    #[test]
    fn numbers_wrap() {
        let mut machine = ControlMachine { seq: u32::MAX, ack: 0, acknowledged: u32::MAX };
        assert!(machine.begin_change());
        assert_eq!(machine.sub_tlv().seq, 0);
    }
}
