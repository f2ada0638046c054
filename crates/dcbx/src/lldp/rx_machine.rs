//! The receive state machine, with the neighbors that it maintains.
//!
//! Source: IEEE 802.1AB-2016 9.2.10 (figure 9-2).
//!
//! ```text
//!   link down, in any state, unless information is aged
//!          │
//!          ▼
//!   ┌───────────────┐ ── aged ──────▶ ┌──────────────────┐
//!   │ WAIT FOR LINK │ ◀─ at once ──── │ DELETE AGED INFO │
//!   └───────────────┘                 └──────────────────┘
//!          │ link up
//!          ▼
//!   ┌────────────┐ ◀─ reception disabled ─ ┌────────────────┐ ── aged ──────▶ ┌─────────────┐
//!   │ INITIALIZE │ ── reception enabled ─▶ │ WAIT FOR FRAME │ ◀─ at once ──── │ DELETE INFO │
//!   └────────────┘                         └────────────────┘                 └─────────────┘
//!    removes all                             │ ▲          ▲                          ▲
//!                                      frame │ │ bad, or  │ at once                  │ TTL is 0
//!                                            ▼ │ the same │                          │
//!                                         ┌──────────┐  ┌─────────────┐              │
//!                                         │ RX FRAME │  │ UPDATE INFO │              │
//!                                         └──────────┘  └─────────────┘              │
//!                                            │  └── TTL is not 0, contents changed ▲ │
//!                                            └───────────────────────────────────────┘
//! ```
//! Information that ages while the link is down is removed then; what is left is removed when the
//! link comes up again.

use super::neighbors::{Neighbor, NeighborId, Neighbors, TableChange};
use crate::counters::Counters;
use crate::event::{Event, NeighborLoss};
use crate::settings::AgentSettings;
use core::time::Duration;
use wire::MacAddr;
use wire::lldp::{LldpError, Lldpdu, OrgTlv, decode};

/// State of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RxState {
    /// Waits for the link.
    #[default]
    WaitForLink,
    /// Removes what has expired while the link is down.
    DeleteAgedInfo,
    /// Removes all neighbors, and waits for reception to be enabled.
    Initialize,
    /// Waits for a frame.
    WaitForFrame,
    /// Reads a frame.
    RxFrame,
    /// Removes a neighbor.
    DeleteInfo,
    /// Stores what a neighbor sent.
    UpdateInfo,
}

/// What the machine looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RxConditions {
    /// True if the link is up.
    pub link_up: bool,
    /// True if reception is enabled.
    pub enabled: bool,
    /// True if a neighbor has expired.
    pub aged: bool,
    /// True if a frame was received.
    pub frame: bool,
    /// Contents of the frame in [`RxState::RxFrame`].
    pub contents: FrameContents,
}

/// What a frame that was read means for the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FrameContents {
    /// Malformed, or nothing new.
    #[default]
    BadOrSame,
    /// The neighbor withdraws itself: TTL 0.
    Shutdown,
    /// A new neighbor, or new contents.
    Changed,
}

impl RxState {
    /// Returns the state that follows; `None` if the machine stays.
    pub fn next(self, on: RxConditions) -> Option<Self> {
        let waits_for_link = matches!(self, Self::WaitForLink | Self::DeleteAgedInfo);
        if !on.link_up && !on.aged && !waits_for_link {
            return Some(Self::WaitForLink);
        }
        match self {
            Self::WaitForLink if on.aged => Some(Self::DeleteAgedInfo),
            Self::WaitForLink => on.link_up.then_some(Self::Initialize),
            Self::DeleteAgedInfo => Some(Self::WaitForLink),
            Self::Initialize => on.enabled.then_some(Self::WaitForFrame),
            Self::WaitForFrame if on.aged => Some(Self::DeleteInfo),
            Self::WaitForFrame if !on.enabled => Some(Self::Initialize),
            Self::WaitForFrame => on.frame.then_some(Self::RxFrame),
            Self::RxFrame => Some(match on.contents {
                FrameContents::BadOrSame => Self::WaitForFrame,
                FrameContents::Shutdown => Self::DeleteInfo,
                FrameContents::Changed => Self::UpdateInfo,
            }),
            Self::DeleteInfo | Self::UpdateInfo => Some(Self::WaitForFrame),
        }
    }
}

/// Machine of reception and the neighbors.
#[derive(Debug, Clone, Default)]
pub struct Receiver {
    state: RxState,
    neighbors: Neighbors,
    /// Last frame that was malformed, and when.
    last_error: Option<(Duration, LldpError)>,
}

/// What reception changed beside the neighbors.
#[derive(Debug, Default)]
pub struct RxOutput {
    /// True if a neighbor is new.
    pub new_neighbor: bool,
    /// Organizationally specific TLVs of the frame.
    pub tlvs: Option<Vec<OrgTlv>>,
    /// What happened, in order.
    pub events: Vec<Event>,
}

impl Receiver {
    /// Returns the table of the systems that were received on the port.
    pub fn neighbors(&self) -> &Neighbors {
        &self.neighbors
    }

    /// Returns the last frame that was malformed, and when it came.
    pub fn last_error(&self) -> Option<(Duration, LldpError)> {
        self.last_error
    }

    /// Returns the time at which a neighbor expires.
    pub fn deadline(&self) -> Option<Duration> {
        self.neighbors.deadline()
    }

    /// Forgets what the neighbors advertised of DCBX until they send again.
    pub fn forget_dcbx(&mut self) {
        self.neighbors.forget_dcbx();
    }

    /// Runs the machine, with a frame if one was received.
    pub fn run(
        &mut self,
        now: Duration,
        link_up: bool,
        mut frame: Option<&[u8]>,
        settings: &AgentSettings,
        counters: &mut Counters,
    ) -> RxOutput {
        let mut output = RxOutput::default();
        let mut expired = self.neighbors.expire(now);
        let mut read: Option<(MacAddr, Lldpdu)> = None;
        loop {
            let conditions = RxConditions {
                link_up,
                enabled: settings.lldp.admin.receives(),
                aged: !expired.is_empty(),
                frame: frame.is_some(),
                contents: self.contents(&read),
            };
            let Some(next) = self.state.next(conditions) else { break };
            self.state = next;
            match next {
                RxState::WaitForLink | RxState::WaitForFrame => {
                    self.refresh(now, read.take(), settings);
                }
                RxState::Initialize => {
                    let cleared = self.neighbors.clear();
                    output.events.extend(cleared.into_iter().map(|it| lost(it, NeighborLoss::Restarted)));
                }
                RxState::RxFrame => {
                    read = frame.take().and_then(|frame| self.read(now, frame, settings, counters));
                    output.tlvs = read.as_ref().map(|(_, lldpdu)| lldpdu.organization.clone());
                }
                RxState::DeleteAgedInfo | RxState::DeleteInfo if !expired.is_empty() => {
                    counters.neighbors_aged_out += expired.len() as u64;
                    output.events.extend(expired.drain(..).map(|it| lost(it, NeighborLoss::Expired)));
                }
                RxState::DeleteAgedInfo => {}
                RxState::DeleteInfo => {
                    let id = read.take().map(|(_, lldpdu)| NeighborId::of(&lldpdu));
                    if let Some(gone) = id.and_then(|id| self.neighbors.remove(&id)) {
                        counters.neighbors_shut_down += 1;
                        output.events.push(lost(gone, NeighborLoss::Shutdown));
                    }
                }
                RxState::UpdateInfo => self.update(now, read.take(), settings, counters, &mut output),
            }
        }
        output
    }

    /// Returns what a frame that was read means for the table.
    fn contents(&self, read: &Option<(MacAddr, Lldpdu)>) -> FrameContents {
        let Some((src, lldpdu)) = read else { return FrameContents::BadOrSame };
        if lldpdu.ttl_s == 0 {
            return FrameContents::Shutdown;
        }
        let is_same = |it: &Neighbor| it.lldpdu == *lldpdu && it.src == *src;
        if self.neighbors.iter().any(is_same) { FrameContents::BadOrSame } else { FrameContents::Changed }
    }

    /// Reads a frame, and counts it.
    fn read(
        &mut self,
        now: Duration,
        frame: &[u8],
        settings: &AgentSettings,
        counters: &mut Counters,
    ) -> Option<(MacAddr, Lldpdu)> {
        counters.rx_frames += 1;
        let (src, lldpdu) = match decode(frame) {
            Ok(read) => read,
            Err(error) => {
                counters.rx_malformed_frames += 1;
                self.last_error = Some((now, error));
                return None;
            }
        };
        if lldpdu.chassis == settings.system.chassis && lldpdu.port == settings.system.port {
            counters.rx_own_frames += 1;
            return None;
        }
        counters.rx_unrecognized_tlvs += u64::from(lldpdu.reserved_tlvs);
        for error in lldpdu.organization.iter().filter_map(|tlv| tlv.standard()?.err()) {
            counters.rx_malformed_tlvs += 1;
            self.last_error = Some((now, error));
        }
        Some((src, lldpdu))
    }

    /// Renews the time to live of a neighbor that sent what it had sent before.
    fn refresh(&mut self, now: Duration, read: Option<(MacAddr, Lldpdu)>, settings: &AgentSettings) {
        if let Some((src, lldpdu)) = read {
            self.neighbors.update(now, src, lldpdu, settings.lldp.max_neighbors);
        }
    }

    /// Stores a new neighbor, or new contents.
    fn update(
        &mut self,
        now: Duration,
        read: Option<(MacAddr, Lldpdu)>,
        settings: &AgentSettings,
        counters: &mut Counters,
        output: &mut RxOutput,
    ) {
        let Some((src, lldpdu)) = read else { return };
        let id = NeighborId::of(&lldpdu);
        let had_too_many = self.neighbors.too_many();
        match self.neighbors.update(now, src, lldpdu, settings.lldp.max_neighbors) {
            TableChange::Added => {
                counters.neighbors_added += 1;
                output.new_neighbor = true;
                output.events.push(Event::NeighborAdded(id));
            }
            TableChange::Changed => output.events.push(Event::NeighborChanged(id)),
            TableChange::Full => {
                counters.rx_excess_neighbors += 1;
                output.events.extend((!had_too_many).then_some(Event::TooManyNeighbors(id)));
            }
            TableChange::Refreshed => {}
        }
    }
}

fn lost(neighbor: Neighbor, loss: NeighborLoss) -> Event {
    Event::NeighborLost(NeighborId::of(&neighbor.lldpdu), loss)
}

#[cfg(test)]
mod tests {
    use super::FrameContents::*;
    use super::RxState::*;
    use super::*;

    fn expected(state: RxState, on: RxConditions) -> Option<RxState> {
        match (state, on.link_up, on.aged) {
            (WaitForLink, _, true) => Some(DeleteAgedInfo),
            (WaitForLink, true, false) => Some(Initialize),
            (WaitForLink, false, false) => None,
            (DeleteAgedInfo, _, _) => Some(WaitForLink),
            (_, false, false) => Some(WaitForLink),
            (Initialize, _, _) => on.enabled.then_some(WaitForFrame),
            (WaitForFrame, _, true) => Some(DeleteInfo),
            (WaitForFrame, _, false) if !on.enabled => Some(Initialize),
            (WaitForFrame, _, false) => on.frame.then_some(RxFrame),
            (RxFrame, _, _) => Some(match on.contents {
                BadOrSame => WaitForFrame,
                Shutdown => DeleteInfo,
                Changed => UpdateInfo,
            }),
            (DeleteInfo | UpdateInfo, _, _) => Some(WaitForFrame),
        }
    }

    /// Every state under every combination of conditions.
    #[test]
    fn the_diagram() {
        let states = [WaitForLink, DeleteAgedInfo, Initialize, WaitForFrame, RxFrame, DeleteInfo, UpdateInfo];
        for bits in 0..16_u8 {
            let bit = |at: u8| bits >> at & 1 != 0;
            for contents in [BadOrSame, Shutdown, Changed] {
                let on =
                    RxConditions { link_up: bit(0), enabled: bit(1), aged: bit(2), frame: bit(3), contents };
                for state in states {
                    assert_eq!(state.next(on), expected(state, on), "{state:?} on {on:?}");
                }
            }
        }
    }
}
