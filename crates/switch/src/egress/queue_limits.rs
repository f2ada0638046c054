//! Limits of each queue, and which queues are no-drop, derived for a port from the settings of the
//! whole switch.
//!
//! Rule: guaranteed cells are the queue's ratio of the fixed area, which all ports' queues of that
//! number divide evenly. A queue is no-drop, on every port, if it may hold frames of some port's
//! no-drop priority. Such a queue has no shared maximum unless one is set, since what ingress
//! admitted stays admitted. Any other queue has 20 %. Source: docs/behavior.md, "Egress queues";
//! docs/references.md, "H3C reference" (Managing data buffers).

use crate::egress::queue::QueueLimits;
use crate::fifo_set::FifoSet;
use crate::forwarding::classifier::fifos_of_priorities;
use crate::settings::{
    ASSUMED_SPEED_BPS, Alpha, Guaranteed, PRIORITIES, PortSettings, SwitchSettings, Threshold,
};
use crate::time::Nanos;
use wire::bitset::Set8;

/// Length of a typical frame, as the RED of operating systems and simulators assumes it (`avpkt`,
/// mean packet size).
const TYPICAL_FRAME_BYTES: u64 = 1000;

/// The shared maximum of a lossy queue, in percent.
const DEFAULT_SHARED_PERCENT: u8 = 20;

/// Limits of a port's egress half, derived from the settings of the whole switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressLimits {
    /// Limits of each queue.
    pub queues: [QueueLimits; PRIORITIES],
    /// Share of the limit above which use is a violation, in percent.
    pub usage_percent: u8,
    /// FIFOs that frames of each priority may be in, by the maps of all ports.
    pub fifos_of_priorities: [FifoSet; PRIORITIES],
}

impl EgressLimits {
    /// Returns the limits of every port, in order.
    pub fn from_settings(settings: &SwitchSettings) -> impl Iterator<Item = EgressLimits> + '_ {
        let no_drop = no_drop_queues(settings);
        let fifos_of_priorities = fifos_of_all(settings);
        settings.ports.iter().map(move |port| EgressLimits {
            queues: std::array::from_fn(|queue| limits(settings, port, queue, no_drop.contains(queue))),
            usage_percent: settings.usage_percent,
            fifos_of_priorities,
        })
    }
}

/// Returns the queues that carry frames which some port must not lose. They are no-drop on every
/// port.
pub fn no_drop_queues(settings: &SwitchSettings) -> Set8 {
    let of_port = |port: &PortSettings| {
        let fifos = fifos_of(settings, port);
        let no_drop = Set8::from_bits(port.pfc.no_drop).into_iter();
        no_drop.fold(FifoSet::EMPTY, |set, p| set.with(fifos[p])).queues()
    };
    settings.ports.iter().fold(Set8::EMPTY, |set, port| set.with(of_port(port)))
}

fn limits(settings: &SwitchSettings, port: &PortSettings, queue: usize, no_drop: bool) -> QueueLimits {
    let queue = port.queues[queue];
    let of_ports = settings.buffer.fixed_cells / settings.port_count().max(1) as u32;
    let default = Threshold::Dynamic(Alpha::from_percent(DEFAULT_SHARED_PERCENT));
    QueueLimits {
        pool: queue.pool,
        guaranteed_cells: match queue.guaranteed {
            Guaranteed::Percent(percent) => of_ports * u32::from(percent) / 100,
            Guaranteed::Cells(cells) => cells,
        },
        maximum: queue.shared.or((!no_drop).then_some(default)),
        wred: queue.wred,
        frame_ns: typical_frame_ns(port),
        no_drop,
    }
}

/// Returns the time that the port's link takes for a typical frame, in nanoseconds: WRED's unit of
/// idle time.
fn typical_frame_ns(port: &PortSettings) -> Nanos {
    let speed_bps = port.speed_bps.or(port.link_speed_bps).unwrap_or(ASSUMED_SPEED_BPS);
    (TYPICAL_FRAME_BYTES * 8 * 1_000_000_000).div_ceil(speed_bps.max(1))
}

/// Returns the FIFOs that frames of each priority may be in. The port that classifies a frame
/// chooses its queue, whatever port it leaves by.
fn fifos_of_all(settings: &SwitchSettings) -> [FifoSet; PRIORITIES] {
    let ports = settings.ports.iter().filter(|port| !port.is_vacant());
    let maps = ports.map(|port| fifos_of(settings, port));
    maps.fold([FifoSet::EMPTY; PRIORITIES], |all, of_port| std::array::from_fn(|p| all[p].with(of_port[p])))
}

fn fifos_of(settings: &SwitchSettings, port: &PortSettings) -> [FifoSet; PRIORITIES] {
    fifos_of_priorities(&port.classify, &settings.bridge.flood_maps())
}
