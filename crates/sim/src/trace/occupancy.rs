//! Occupancy over time of egress queues, and of priority groups that may drop: no-drop groups have
//! a series of their own, with their thresholds.

use std::collections::BTreeMap;

use switch::{Instant, Snapshot, Switch, WatermarkReset};
use wire::bitset::Set8;

use crate::results::{OccupancyOf, OccupancySeries};

/// The series of a run. Each begins when its queue or group first holds cells, and has all points
/// before that, too.
#[derive(Debug, Default)]
pub(crate) struct OccupancyLog {
    /// By switch and port.
    series: BTreeMap<(usize, usize, OccupancyOf), Vec<u32>>,
    /// Memory of the last snapshot.
    snapshot: Snapshot,
}

impl OccupancyLog {
    /// Adds point number `point`, from 0, to the series of a switch. `no_drop` has the no-drop
    /// priorities by port.
    pub(crate) fn sample(
        &mut self,
        switch: &mut Switch,
        (device, no_drop): (usize, impl Iterator<Item = u8>),
        point: usize,
        now: Instant,
    ) {
        switch.snapshot(now, &mut self.snapshot);
        switch.reset_watermarks(WatermarkReset::Read);
        for ((number, port), no_drop) in self.snapshot.ports.iter().enumerate().zip(no_drop) {
            let groups = port.groups.iter().map(|group| group.total.peak_read_cells).enumerate();
            let groups = groups.filter(|(priority, _)| !Set8::from_bits(no_drop).contains(*priority));
            let groups = groups.map(|(priority, cells)| (OccupancyOf::Group(priority as u8), cells));
            let queues = port.queues.iter().map(|queue| queue.level.peak_read_cells).enumerate();
            let queues = queues.map(|(queue, cells)| (OccupancyOf::Queue(queue as u8), cells));
            for (of, cells) in groups.chain(queues) {
                let key = (device, number, of);
                if cells > 0 && !self.series.contains_key(&key) {
                    self.series.insert(key, vec![0; point]);
                }
                if let Some(series) = self.series.get_mut(&key) {
                    series.push(cells);
                }
            }
        }
    }

    /// Adds the series of the switches of another part of the network.
    pub(crate) fn absorb(&mut self, other: &mut Self) {
        self.series.append(&mut other.series);
    }

    /// Returns the series in the order of switches and ports; `name` names a port.
    pub(crate) fn finish(self, name: impl Fn(usize, usize) -> String) -> Vec<OccupancySeries> {
        let named =
            |((device, port, of), peak_cells)| OccupancySeries { port: name(device, port), of, peak_cells };
        self.series.into_iter().map(named).collect()
    }
}
