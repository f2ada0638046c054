//! In-band network telemetry: what switches note about the frames of flows that use it, until
//! their senders read it from the acknowledgments. It takes no bytes on the wire here.
//!
//! Rule: records are kept in the part of the network where their frame is, or its acknowledgment,
//! and go with it to the next part. Each repetition of a frame has records of its own, so that
//! what is read does not depend on the parts.

use std::collections::BTreeMap;

use endpoint::feedback::HopRecord;

use crate::flow::acked::MAX_UNACKED_FRAMES;
use crate::packet::{CARRIED_BYTES, Content, content, is_control, nearest_number};
use crate::scenario::{Scenario, TransportSettings};

/// By number and repetition of a frame: a record of each switch that it has left.
type FlowRecords = BTreeMap<(u64, u8), Vec<HopRecord>>;

/// The records of all frames that are not acknowledged.
#[derive(Debug)]
pub(crate) struct IntLog {
    /// By flow; `None` if its frames collect no records.
    flows: Vec<Option<FlowRecords>>,
}

/// The records of a frame that goes to another part of the network, or is acknowledged there.
#[derive(Debug)]
pub(crate) struct FrameRecords {
    flow: usize,
    /// Its number and repetition.
    frame: (u64, u8),
    hops: Vec<HopRecord>,
}

impl IntLog {
    /// Creates the log of flows, by their traffic; `None` if none uses it.
    pub(crate) fn new(scenario: &Scenario, traffic_of: impl Iterator<Item = usize>) -> Option<Box<Self>> {
        let uses = |traffic: usize| {
            let acks = scenario.traffic[traffic].acks.as_ref();
            matches!(acks.and_then(|acks| acks.transport), Some(TransportSettings::Hpcc(_)))
        };
        let flows: Vec<_> = traffic_of.map(|traffic| uses(traffic).then(BTreeMap::new)).collect();
        flows.iter().any(Option::is_some).then(|| Box::new(Self { flows }))
    }

    /// Begins the records of a frame that its sender transmits.
    pub(crate) fn sent(&mut self, bytes: &[u8; CARRIED_BYTES]) {
        if let Content::Data { flow, number, repetition, .. } = content(bytes)
            && let Some(frames) = &mut self.flows[flow]
        {
            frames.insert((number, repetition), Vec::new());
        }
    }

    /// Adds the record of a switch that transmits the frame, if it collects any.
    pub(crate) fn left(&mut self, bytes: &[u8; CARRIED_BYTES], record: impl FnOnce() -> HopRecord) {
        if let (false, Content::Data { flow, number, repetition, .. }) = (is_control(bytes), content(bytes))
            && let Some(Some(frames)) = self.flows.get_mut(flow)
            && let Some(hops) = frames.get_mut(&(number, repetition))
        {
            hops.push(record());
        }
    }

    /// Takes the records of a frame that is acknowledged.
    pub(crate) fn take(&mut self, flow: usize, number: u64, repetition: u8) -> Vec<HopRecord> {
        let frames = self.flows[flow].as_mut();
        frames.and_then(|frames| frames.remove(&(number, repetition))).unwrap_or_default()
    }

    /// Removes the records of a frame that is sent to another part of the network, or of the one
    /// that it acknowledges, if there are any.
    pub(crate) fn remove(&mut self, bytes: &[u8; CARRIED_BYTES]) -> Option<FrameRecords> {
        if is_control(bytes) {
            return None;
        }
        let (flow, frame) = match content(bytes) {
            Content::Cnp { .. } => return None,
            Content::Data { flow, number, repetition, .. } => (flow, (number, repetition)),
            Content::Ack { flow, ack } => {
                let frames = self.flows.get(flow)?.as_ref()?;
                let ((latest, _), _) = frames.last_key_value()?;
                (flow, (nearest_number(ack.number, *latest), ack.repetition))
            }
        };
        let hops = self.flows.get_mut(flow)?.as_mut()?.remove(&frame)?;
        Some(FrameRecords { flow, frame, hops })
    }

    /// Adds the records of a frame that comes from another part of the network. Those of frames
    /// that were lost in this one are forgotten when they must have been acknowledged.
    pub(crate) fn take_in(&mut self, FrameRecords { flow, frame, hops }: FrameRecords) {
        let (number, _) = frame;
        self.forget_before(flow, number.saturating_sub(MAX_UNACKED_FRAMES as u64));
        if let Some(frames) = &mut self.flows[flow] {
            frames.insert(frame, hops);
        }
    }

    /// Forgets the frames of a flow before `first`: all of them are acknowledged, although the
    /// acknowledgments of some may be lost.
    pub(crate) fn forget_before(&mut self, flow: usize, first: u64) {
        let Some(frames) = &mut self.flows[flow] else { return };
        while let Some(frame) = frames.first_entry().filter(|frame| frame.key().0 < first) {
            frame.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{AckContent, Packet, PacketHeaders};
    use switch::Instant;

    const HEADERS: PacketHeaders =
        PacketHeaders { flow: 1, from: 0, to: 1, vids: [0, 0], priority: 3, dscp: 24, ecn: 0, len: 1000 };

    fn frame(flow: usize, number: u64, repetitions: u32) -> [u8; CARRIED_BYTES] {
        let mut packet = Packet::data(&PacketHeaders { flow, ..HEADERS });
        packet.set_number(number, repetitions);
        packet.bytes
    }

    fn record(link: u32) -> HopRecord {
        HopRecord { link, queue_bytes: 0, tx_bytes: 0, at: Instant(0), speed_bps: 1 }
    }

    fn log() -> IntLog {
        IntLog { flows: vec![None, Some(BTreeMap::new())] }
    }

    /// The acknowledgments of frames 0 and 1 are lost; that of frame 2 stands for them.
    #[test]
    fn what_is_acknowledged_is_forgotten() {
        let mut log = log();
        for number in 0..4 {
            for flow in 0..2 {
                log.sent(&frame(flow, number, 0));
                log.left(&frame(flow, number, 0), || record(number as u32));
            }
        }
        assert_eq!(log.take(1, 2, 0), [record(2)]);
        log.forget_before(0, 3);
        log.forget_before(1, 3);
        assert_eq!(log.flows[1].as_ref().map(|frames| frames.keys().copied().collect()), Some(vec![(3, 0)]));
        assert_eq!(
            (log.take(1, 1, 0), log.take(1, 3, 0), log.take(0, 3, 0)),
            (vec![], vec![record(3)], vec![])
        );
    }

    /// A frame that was sent again is in the network twice, and each acknowledgment has the records
    /// of the one that it is for.
    #[test]
    fn each_repetition_has_its_own_records() {
        let mut log = log();
        log.sent(&frame(1, 9, 0));
        log.left(&frame(1, 9, 0), || record(1));
        log.sent(&frame(1, 9, 1));
        log.left(&frame(1, 9, 1), || record(2));
        log.left(&frame(1, 9, 0), || record(3));
        assert_eq!(log.take(1, 9, 1), [record(2)]);
        assert_eq!(log.take(1, 9, 0), [record(1), record(3)]);
    }

    /// From the part of the sender to that of the receiver, and back with the acknowledgment, which
    /// has the lower bits of the number only.
    #[test]
    fn records_go_with_their_frame() {
        let (mut here, mut there) = (log(), log());
        let number = (1 << 24) + 5;
        let sent = frame(1, number, 0);
        here.sent(&sent);
        here.left(&sent, || record(1));
        there.take_in(here.remove(&sent).unwrap());
        assert!(here.remove(&sent).is_none(), "they have left");
        there.left(&sent, || record(2));
        let ack = AckContent::new(number + 1, (number, 0), false, false);
        let ack = Packet::ack(&HEADERS, (6, 48), ack).bytes;
        here.take_in(there.remove(&ack).unwrap());
        assert!(there.remove(&ack).is_none());
        assert_eq!(here.take(1, number, 0), [record(1), record(2)]);
        assert!(here.remove(&Packet::cnp(&HEADERS).bytes).is_none());
    }

    #[test]
    fn records_of_lost_frames_do_not_pile_up() {
        let mut log = log();
        for number in [0, 1, MAX_UNACKED_FRAMES as u64 + 1] {
            log.take_in(FrameRecords { flow: 1, frame: (number, 0), hops: vec![record(1)] });
        }
        let kept: Vec<u64> = log.flows[1].as_ref().unwrap().keys().map(|(number, _)| *number).collect();
        assert_eq!(kept, [1, MAX_UNACKED_FRAMES as u64 + 1]);
    }
}
