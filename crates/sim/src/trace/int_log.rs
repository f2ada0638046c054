//! In-band network telemetry: what switches note about the frames of flows that use it, until
//! their senders read it from the acknowledgments. It takes no bytes on the wire here.

use std::collections::BTreeMap;

use endpoint::feedback::HopRecord;

use crate::scenario::{Scenario, TransportSettings};

/// The records of all frames that are not acknowledged.
#[derive(Debug)]
pub(crate) struct IntLog {
    /// By flow, and by frame; `None` if its frames collect no records.
    flows: Vec<Option<BTreeMap<u64, Vec<HopRecord>>>>,
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
    pub(crate) fn sent(&mut self, flow: usize, number: u64) {
        if let Some(frames) = &mut self.flows[flow] {
            frames.insert(number, Vec::new());
        }
    }

    /// Adds the record of a switch that transmits the frame, if it collects any.
    pub(crate) fn left(&mut self, flow: usize, number: u64, record: impl FnOnce() -> HopRecord) {
        let frames = self.flows.get_mut(flow).and_then(Option::as_mut);
        if let Some(records) = frames.and_then(|frames| frames.get_mut(&number)) {
            records.push(record());
        }
    }

    /// Takes the records of a frame that is acknowledged.
    pub(crate) fn take(&mut self, flow: usize, number: u64) -> Vec<HopRecord> {
        self.flows[flow].as_mut().and_then(|frames| frames.remove(&number)).unwrap_or_default()
    }

    /// Forgets the frames of a flow before `first`: all of them are acknowledged, although the
    /// acknowledgments of some may be lost.
    pub(crate) fn forget_before(&mut self, flow: usize, first: u64) {
        let Some(frames) = &mut self.flows[flow] else { return };
        while let Some(frame) = frames.first_entry().filter(|frame| *frame.key() < first) {
            frame.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch::Instant;

    /// The acknowledgments of frames 0 and 1 are lost; that of frame 2 stands for them.
    #[test]
    fn what_is_acknowledged_is_forgotten() {
        let mut log = IntLog { flows: vec![None, Some(BTreeMap::new())] };
        let record =
            |link: u32| HopRecord { link, queue_bytes: 0, tx_bytes: 0, at: Instant(0), speed_bps: 1 };
        for number in 0..4 {
            log.sent(0, number);
            log.sent(1, number);
            log.left(0, number, || record(7));
            log.left(1, number, || record(number as u32));
        }
        assert_eq!(log.take(1, 2), [record(2)]);
        log.forget_before(0, 3);
        log.forget_before(1, 3);
        assert_eq!(log.flows[1].as_ref().map(|frames| frames.keys().copied().collect()), Some(vec![3]));
        assert_eq!((log.take(1, 1), log.take(1, 3), log.take(0, 3)), (vec![], vec![record(3)], vec![]));
    }
}
