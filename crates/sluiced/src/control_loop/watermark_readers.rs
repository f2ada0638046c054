//! The readers of the watermark "since the last read", and the peaks that each has not seen yet.
//!
//! Rule: a read restarts that watermark in the switch, which has only one of the kind. The peak
//! that a reader would lose by the reads of others is kept here until it reads itself, so each
//! reader sees the most cells since its own last read. Source: docs/behavior.md, "Watermarks".

use std::collections::BTreeMap;

use control::server::WatermarkReader;
use control::v1::{Level, Snapshot};
use switch::settings::{POOLS, PRIORITIES};

/// Four pools at ingress, four at egress, and headroom.
const LEVELS_OF_POOLS: usize = 2 * POOLS + 1;
/// Three of each group, one of each queue.
const LEVELS_OF_A_PORT: usize = 4 * PRIORITIES;

/// The peaks that each reader has not seen: one for each level of the snapshot, in its order. The
/// number of readers is bounded by the file.
#[derive(Debug)]
pub struct Watermarks {
    pending_peaks: BTreeMap<WatermarkReader, Vec<u32>>,
}

impl Default for Watermarks {
    /// Creates the state before any read: clients and metrics will see the peaks since the start.
    /// Sensors are added at the start.
    fn default() -> Self {
        Self {
            pending_peaks: [WatermarkReader::Api, WatermarkReader::Metrics]
                .map(|reader| (reader, Vec::new()))
                .into(),
        }
    }
}

impl Watermarks {
    /// Clears the peaks of a slot that another port has taken.
    pub fn forget_slot(&mut self, slot: usize) {
        for unseen in self.pending_peaks.values_mut() {
            unseen
                .iter_mut()
                .skip(LEVELS_OF_POOLS + slot * LEVELS_OF_A_PORT)
                .take(LEVELS_OF_A_PORT)
                .for_each(|peak| *peak = 0);
        }
    }

    /// Puts the peaks since `reader`'s own last read into `snapshot`, which is as the switch
    /// returned it: with all slots of ports.
    pub fn read(&mut self, reader: WatermarkReader, snapshot: &mut Snapshot) {
        let unseen = self.pending_peaks.entry(reader).or_default();
        for (level, peak) in levels(snapshot).zip(unseen.iter()) {
            level.peak_read_cells = level.peak_read_cells.max(*peak);
        }
    }

    /// Records that the switch restarted the watermark right after `snapshot`, as returned by the
    /// switch, and that `readers` have read it.
    pub fn reset(&mut self, snapshot: &mut Snapshot, readers: &[WatermarkReader]) {
        for (reader, unseen) in &mut self.pending_peaks {
            if readers.contains(reader) {
                unseen.clear();
                continue;
            }
            unseen.resize(levels(snapshot).count(), 0);
            for (peak, level) in unseen.iter_mut().zip(levels(snapshot)) {
                *peak = level.peak_read_cells.max(*peak);
            }
        }
    }
}

/// Iterates over every level of a snapshot, in a fixed order.
fn levels(snapshot: &mut Snapshot) -> impl Iterator<Item = &mut Level> {
    let pools = [&mut snapshot.ingress_pools, &mut snapshot.egress_pools].into_iter().flatten();
    let pools = pools.chain(&mut snapshot.headroom).filter_map(|pool| pool.level.as_mut());
    let of_ports = snapshot.ports.iter_mut().flat_map(|port| {
        let groups = port.groups.iter_mut();
        let groups = groups.flat_map(|group| [&mut group.shared, &mut group.headroom, &mut group.total]);
        groups.chain(port.queues.iter_mut().map(|queue| &mut queue.level)).flatten()
    });
    pools.chain(of_ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::v1::{Group, Pool, Port, Queue};

    /// A switch whose levels have all had this peak since the last read by any reader.
    fn snapshot(peak_read_cells: u32) -> Snapshot {
        let level = || Some(Level { peak_read_cells, ..Level::default() });
        let pool = || Pool { level: level(), ..Pool::default() };
        let group = || Group { shared: level(), headroom: level(), total: level(), ..Group::default() };
        let queue = || Queue { level: level(), ..Queue::default() };
        let port = Port { groups: vec![group(), group()], queues: vec![queue()], ..Port::default() };
        Snapshot {
            ports: vec![port],
            ingress_pools: vec![pool()],
            egress_pools: vec![pool(), pool()],
            headroom: Some(pool()),
            ..Snapshot::default()
        }
    }

    /// Columns: the reader, whether it reads, the peak of the switch since the last read, and the
    /// peak that the reader sees.
    #[test]
    fn each_reader_sees_the_most_since_its_own_last_read() {
        const API: WatermarkReader = WatermarkReader::Api;
        const METRICS: WatermarkReader = WatermarkReader::Metrics;
        const SENSOR: WatermarkReader = WatermarkReader::Sensor(0);
        let mut watermarks = Watermarks::default();
        for (line, (reader, reads, peak, seen)) in [
            (METRICS, true, 0, 0),
            (API, false, 7, 7),
            (METRICS, true, 7, 7),
            (API, false, 2, 7),   // since its own last read, which never happened
            (SENSOR, true, 2, 2), // a new reader has missed nothing
            (API, true, 1, 7),
            (API, true, 3, 3),
            (METRICS, true, 0, 3),
            (SENSOR, true, 0, 3),
            (METRICS, true, 9, 9),
            (SENSOR, false, 4, 9),
            (SENSOR, true, 4, 9),
            (SENSOR, true, 1, 1),
        ]
        .into_iter()
        .enumerate()
        {
            let mut taken = snapshot(peak);
            let mut reported = taken.clone();
            watermarks.read(reader, &mut reported);
            assert_eq!(reported, snapshot(seen), "line {line}");
            if reads {
                watermarks.reset(&mut taken, &[reader]);
            }
        }
    }

    /// A switch with all its groups and queues, two ports, and peaks of 5 at each.
    #[test]
    fn a_slot_that_another_port_has_starts_again() {
        let level = || Some(Level { peak_read_cells: 5, ..Level::default() });
        let pool = || Pool { level: level(), ..Pool::default() };
        let group = || Group { shared: level(), headroom: level(), total: level(), ..Group::default() };
        let queue = || Queue { level: level(), ..Queue::default() };
        let groups = (0..8).map(|_| group()).collect();
        let port = Port { groups, queues: (0..8).map(|_| queue()).collect(), ..Port::default() };
        let mut taken = Snapshot {
            ports: vec![port.clone(), port],
            ingress_pools: (0..4).map(|_| pool()).collect(),
            egress_pools: (0..4).map(|_| pool()).collect(),
            headroom: Some(pool()),
            ..Snapshot::default()
        };
        let mut watermarks = Watermarks::default();
        watermarks.reset(&mut taken, &[WatermarkReader::Metrics]);
        watermarks.forget_slot(1);
        levels(&mut taken).for_each(|level| level.peak_read_cells = 0);
        watermarks.read(WatermarkReader::Api, &mut taken);
        let peaks: Vec<u32> = levels(&mut taken).map(|level| level.peak_read_cells).collect();
        let kept = LEVELS_OF_POOLS + LEVELS_OF_A_PORT;
        assert_eq!(peaks.len(), kept + LEVELS_OF_A_PORT);
        assert!(peaks[..kept].iter().all(|&peak| peak == 5) && peaks[kept..].iter().all(|&peak| peak == 0));
    }

    #[test]
    fn every_level_is_among_them() {
        let text = format!("{:?}", snapshot(3));
        assert_eq!(levels(&mut snapshot(3)).count(), text.matches("peak_read_cells: 3").count());
    }
}
