//! The settings of the switch under test, which an input selects: few cells, so that every limit is
//! near, and each feature on or off.

use switch::Nanos;
use switch::settings::{
    Alpha, BufferSettings, EcnMarkPoint, FlowControl, GroupSettings, LldpFrames, PRIORITIES, PfcWdAction,
    PortSettings, Restoration, ScheduleSettings, StormLimit, SwitchSettings, Threshold, Trust, VlanList,
    VlanSettings, WatchdogSettings, WredProfile, WredSettings,
};

use crate::input::Input;

/// Ports at the start. Two more may be added.
pub(super) const PORTS: usize = 4;
/// The no-drop priority.
pub(super) const NO_DROP: usize = 3;
/// The port that may have PAUSE instead of PFC.
const PAUSE_PORT: usize = 1;

/// Features that the first bytes of an input turn on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Features {
    pub(super) watchdog: bool,
    pub(super) flood_maps: bool,
    vlans: bool,
    wred: bool,
    flood_limits: bool,
    pause: bool,
    /// Nothing is reserved, so that the cells of a removed port stay those of its pool.
    pub(super) removes_ports: bool,
    ets: bool,
    queue_is_priority: bool,
    rewrites: bool,
    short_mtu: bool,
    alarms: bool,
    trust: Trust,
    restore: Restoration,
    action: PfcWdAction,
}

impl Features {
    /// Reads three bytes.
    pub(super) fn read(input: &mut Input) -> Self {
        let (first, second, third) = (input.byte(), input.byte(), input.byte());
        let bit = |byte: u8, bit: u8| byte & 1 << bit != 0;
        Self {
            watchdog: bit(first, 0),
            wred: bit(first, 1),
            vlans: bit(first, 2),
            flood_limits: bit(first, 3),
            pause: bit(first, 4),
            removes_ports: bit(first, 5),
            ets: bit(first, 6),
            flood_maps: bit(first, 7),
            queue_is_priority: bit(second, 0),
            rewrites: bit(second, 1),
            short_mtu: bit(second, 2),
            alarms: bit(second, 3),
            trust: [Trust::Dot1p, Trust::Dscp, Trust::TunnelDot1p, Trust::None][usize::from(second >> 6)],
            action: if bit(second, 4) { PfcWdAction::Drop } else { PfcWdAction::Forward },
            restore: [
                Restoration::After(1_000_000),
                Restoration::QuietInterval,
                Restoration::Quiet(500_000),
                Restoration::Manual,
            ][usize::from(third & 3)],
        }
    }
}

/// Returns the settings of all ports that there may be. `variant` moves thresholds, and nothing
/// that decides where a frame goes.
pub(super) fn settings(features: &Features, variant: u8) -> SwitchSettings {
    let mut settings = SwitchSettings {
        buffer: BufferSettings {
            cell_bytes: 208,
            total_cells: 160,
            fixed_cells: if features.removes_ports { 0 } else { 24 },
            headroom_cells: 30,
            ..BufferSettings::default()
        },
        bridge: Default::default(),
        usage_percent: 70,
        alarms: Default::default(),
        seed: 1,
        ports: (0..PORTS + 2).map(|port| port_settings(features, port, variant)).collect(),
    };
    (settings.bridge.max_entries, settings.bridge.max_entries_per_port) = (32, 16);
    if features.flood_maps {
        settings.bridge.unknown_unicast_to_queue = Some(switch::settings::UNKNOWN_UNICAST_TO_QUEUE);
        settings.bridge.multicast_to_queue = Some([0, 0, 1, 1, 2, 2, 6, 6]);
    }
    if features.alarms {
        settings.alarms.interval_ns = [Some(100_000_000); 4];
    }
    settings
}

fn port_settings(features: &Features, number: usize, variant: u8) -> PortSettings {
    let mut port = PortSettings::new(format!("p{number}"), Some(1_000_000_000));
    (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (true, true, 1 << NO_DROP);
    (port.pfc.pause_quanta, port.in_flight_bytes) = (100, 4000);
    port.groups = [GroupSettings::lossy(); PRIORITIES];
    port.groups[NO_DROP] = no_drop_group(features, number, variant);
    if features.pause && number == PAUSE_PORT {
        (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (false, false, 0);
        port.flow_control = FlowControl::Both;
    }
    if features.watchdog {
        port.watchdog[NO_DROP] = Some(WatchdogSettings {
            detection_ns: 200_000 * (1 + Nanos::from(variant & 3)),
            action: features.action,
            restore: features.restore,
            limit: (number == 2).then_some(StormLimit { period_ns: 1_000_000_000, count: 2 }),
        });
    }
    if features.wred {
        let curve = WredProfile { low_cells: 2, high_cells: 8 + u32::from(variant), probability_percent: 50 };
        let mark_at = if number == 0 { EcnMarkPoint::Dequeue } else { EcnMarkPoint::Enqueue };
        let wred = WredSettings { exponent: 1, ecn: true, mark_at, curves: [curve; 3], ..Default::default() };
        port.queues.iter_mut().for_each(|queue| queue.wred = Some(wred));
    }
    set_forwarding(&mut port, features, number);
    port
}

/// Sets what decides where frames go, and in which form they leave.
fn set_forwarding(port: &mut PortSettings, features: &Features, number: usize) {
    port.classify.trust = features.trust;
    port.classify.queue_is_priority = features.queue_is_priority && number == 2;
    port.lldp = [LldpFrames::Punt, LldpFrames::Drop, LldpFrames::Forward][number % 3];
    port.mtu_bytes = (features.short_mtu && number == PORTS - 1).then_some(1000);
    if features.ets {
        port.schedule = ScheduleSettings::default_ets();
    }
    if features.flood_limits {
        port.flood_limits_pps = [Some(1000), Some(2000), Some(3000)];
    }
    if features.rewrites {
        port.rewrite.dscp = Some([8, 9, 10, 11, 12, 13, 14, 15]);
    }
    if features.vlans {
        port.vlan = match number {
            0 => VlanSettings::Trunk { pvid: Some(10), allowed: VlanList::of([10..=12]) },
            1 => VlanSettings::Access { pvid: 10 },
            2 => VlanSettings::Access { pvid: 11 },
            _ => VlanSettings::Trunk { pvid: None, allowed: VlanList::of([10..=11]) },
        };
    }
}

fn no_drop_group(features: &Features, number: usize, variant: u8) -> GroupSettings {
    GroupSettings {
        reserved_cells: if features.removes_ports { 0 } else { 4 },
        xoff: match number % 2 {
            0 => Threshold::Static(10 + u32::from(variant % 8)),
            _ => Threshold::Dynamic(Alpha::from_percent(20 + variant % 8)),
        },
        xon_offset_cells: 3,
        headroom_cells: 12,
        ..GroupSettings::lossy()
    }
}
