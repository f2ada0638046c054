//! In-band network telemetry: what switches note about the frames of flows that use it, until
//! their senders read it from the acknowledgments. It takes no bytes on the wire here.

use std::collections::HashMap;

use endpoint::transport::HopRecord;

use crate::scenario::{Scenario, TransportSettings};

/// The records of all frames that are not acknowledged.
#[derive(Debug)]
pub(crate) struct IntLog {
    /// By flow: true if its frames collect records.
    collects: Vec<bool>,
    records: HashMap<(usize, u64), Vec<HopRecord>>,
}

impl IntLog {
    /// Creates the log of flows, by their traffic; `None` if none uses it.
    pub(crate) fn new(scenario: &Scenario, traffic_of: impl Iterator<Item = usize>) -> Option<Box<Self>> {
        let uses = |traffic: usize| {
            let acks = scenario.traffic[traffic].acks.as_ref();
            matches!(acks.and_then(|acks| acks.transport), Some(TransportSettings::Hpcc(_)))
        };
        let collects: Vec<bool> = traffic_of.map(uses).collect();
        collects.contains(&true).then(|| Box::new(Self { collects, records: HashMap::new() }))
    }

    /// Begins the records of a frame that its sender transmits.
    pub(crate) fn sent(&mut self, flow: usize, number: u64) {
        if self.collects[flow] {
            self.records.insert((flow, number), Vec::new());
        }
    }

    /// Adds the record of a switch that transmits the frame, if it collects any.
    pub(crate) fn left(&mut self, flow: usize, number: u64, record: impl FnOnce() -> HopRecord) {
        if let Some(records) = self.records.get_mut(&(flow, number)) {
            records.push(record());
        }
    }

    /// Takes the records of a frame that is acknowledged.
    pub(crate) fn take(&mut self, flow: usize, number: u64) -> Vec<HopRecord> {
        self.records.remove(&(flow, number)).unwrap_or_default()
    }
}
