//! Settings: plain values that the `config` crate fills in and the simulator can write by hand.
//! Defaults are those of docs/behavior.md, and are defined only here.

mod alarm;
mod buffer;
mod classify;
mod congestion;
mod limits;
mod vlan;
mod watchdog;

pub use alarm::*;
pub use buffer::*;
pub use classify::*;
pub use congestion::*;
pub use limits::*;
use serde::{Deserialize, Serialize};
pub use vlan::*;
pub use watchdog::*;
use wire::bitset::Set8;

use crate::time::Nanos;

/// Bytes of an Ethernet header and an 802.1Q tag, which no MTU includes.
const LINK_BYTES: u32 = 14 + 4;

/// Settings of the whole switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwitchSettings {
    /// Buffer memory.
    pub buffer: BufferSettings,
    /// FDB.
    pub bridge: BridgeSettings,
    /// Usage threshold in percent (1–100): use of a queue or group above this share of its limit is
    /// a violation.
    pub usage_percent: u8,
    /// Intervals and thresholds of the pools' alarms.
    pub alarms: AlarmSettings,
    /// Seed of random numbers (WRED).
    pub seed: u64,
    /// Port slots, indexed by port number. Some slots may be vacant.
    pub ports: Vec<PortSettings>,
}

impl SwitchSettings {
    /// Returns the number of ports, without vacant slots.
    pub fn port_count(&self) -> usize {
        self.ports.iter().filter(|port| !port.is_vacant()).count()
    }

    /// True if the switch may have to act on time alone: some priority has a watchdog, or an early
    /// warning.
    pub fn needs_timer(&self) -> bool {
        let none = EarlyWarningSettings::default();
        self.ports.iter().any(|port| {
            port.watchdog.iter().any(Option::is_some)
                || port.early_warning.iter().any(|warning| *warning != none)
        })
    }

    /// Returns these settings with PFC off on every port. Groups that were no-drop are treated as
    /// lossy; they keep their reserved cells.
    pub fn without_pfc(&self) -> Self {
        let mut settings = self.clone();
        for port in &mut settings.ports {
            for priority in Set8::from_bits(port.pfc.no_drop) {
                let GroupSettings { pool, reserved_cells, .. } = port.groups[priority];
                port.groups[priority] = GroupSettings { pool, reserved_cells, ..GroupSettings::lossy() };
            }
            (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (false, false, 0);
        }
        settings
    }
}

/// Settings of the FDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeSettings {
    /// Maximum number of addresses.
    pub max_entries: usize,
    /// Maximum number of addresses learned on one port.
    pub max_entries_per_port: usize,
    /// Key that determines which addresses share a slot of the table. The daemon draws it at
    /// random, so that it is unpredictable. It applies from the start on.
    pub key: u64,
    /// Aging time of an address (IEEE 802.1Q-2022 8.8.3: 300 s).
    pub aging_ns: Nanos,
    /// 802.1p priority → queue of unicast frames whose destination is unknown; `None` for the same
    /// map as all other frames.
    pub unknown_unicast_to_queue: Option<[u8; PRIORITIES]>,
    /// 802.1p priority → queue of frames to group addresses (multicast, broadcast); `None` for the
    /// same map as all other frames.
    pub multicast_to_queue: Option<[u8; PRIORITIES]>,
    /// What happens to no-drop frames whose destination was learned on a port that is down.
    pub no_drop_to_down_port: DownPortAction,
}

/// What happens to no-drop frames whose destination was learned on a port that is down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DownPortAction {
    /// They are dropped and counted: no other port leads to their receiver.
    #[default]
    Drop,
    /// They are flooded, since the receiver may have moved to another port.
    Flood,
}

impl DownPortAction {
    /// Returns the word of the setting.
    pub fn name(self) -> &'static str {
        match self {
            DownPortAction::Drop => "drop",
            DownPortAction::Flood => "flood",
        }
    }
}

impl BridgeSettings {
    /// Returns the maps of flooded frames.
    pub fn flood_maps(&self) -> Vec<[u8; PRIORITIES]> {
        self.unknown_unicast_to_queue.into_iter().chain(self.multicast_to_queue).collect()
    }
}

/// The queues of unknown unicast, by 802.1p priority: docs/references.md, "Huawei PFC" (table 3-1).
pub const UNKNOWN_UNICAST_TO_QUEUE: [u8; PRIORITIES] = [0, 1, 1, 1, 2, 2, 6, 6];

impl Default for BridgeSettings {
    fn default() -> Self {
        Self {
            max_entries: 16_384,
            max_entries_per_port: Self::default_port_quota(16_384),
            key: 0,
            aging_ns: 300 * 1_000_000_000,
            unknown_unicast_to_queue: None,
            multicast_to_queue: None,
            no_drop_to_down_port: DownPortAction::default(),
        }
    }
}

impl BridgeSettings {
    /// Returns the default of `max_entries_per_port`: half, so that one port alone cannot fill the
    /// table, and a port behind which nearly all addresses are has enough.
    pub fn default_port_quota(max_entries: usize) -> usize {
        max_entries.div_ceil(2)
    }
}

/// Settings of one port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortSettings {
    /// Port name.
    pub name: String,
    /// Rate limit of the port, in bit/s; `None` for the speed of the interface.
    pub speed_bps: Option<u64>,
    /// Speed of the link itself, in bit/s, as its interface reports it; `None` if it reports none.
    pub link_speed_bps: Option<u64>,
    /// MTU of the interface, in bytes, as it reports it; `None` for no limit.
    pub mtu_bytes: Option<u32>,
    /// Time after an XOFF has left in which frames of its priority may still arrive.
    pub response_ns: Nanos,
    /// True if the port itself limits the rate; false if its cable does, as in the simulator.
    pub rate_limited: bool,
    /// Alarm thresholds.
    pub alarms: PortAlarmSettings,
    /// Classification of received frames.
    pub classify: ClassifySettings,
    /// Remarking of frames that leave.
    pub rewrite: RewriteSettings,
    /// Priority flow control.
    pub pfc: PfcSettings,
    /// 802.3x PAUSE; not together with PFC.
    pub flow_control: FlowControl,
    /// Watchdog of each priority; `None` if the priority is not watched.
    pub watchdog: [Option<WatchdogSettings>; PRIORITIES],
    /// Rates of PFC frames of each priority that cause an early warning.
    pub early_warning: [EarlyWarningSettings; PRIORITIES],
    /// Buffer thresholds of each priority group.
    pub groups: [GroupSettings; PRIORITIES],
    /// Egress queues.
    pub queues: [QueueSettings; PRIORITIES],
    /// How the queues share the port.
    pub schedule: ScheduleSettings,
    /// Maximum of flooded frames a second, by type: see [`crate::forwarding::storm_control`].
    pub flood_limits_pps: FloodLimits,
    /// Static entries of the FDB: addresses that are always behind this port, and behind no other.
    pub static_addresses: Vec<StaticAddress>,
    /// VLANs of the port.
    pub vlan: VlanSettings,
    /// Handling of received LLDP frames.
    pub lldp: LldpFrames,
    /// Burst: bytes on the wire with which the port may catch up after it was idle, or its owner
    /// late; `None` for 4 ms of wire time.
    pub burst_bytes: Option<u64>,
    /// Bytes on the wire that each frame takes beyond its own: [`WIRE_OVERHEAD_BYTES`] on an
    /// emulated wire.
    pub overhead_bytes: u16,
    /// Maximum bytes handed to the kernel and not yet completed, which still leave after a pause
    /// has arrived.
    pub in_flight_bytes: u32,
}

/// Handling of LLDP frames: untagged, to 01-80-C2-00-00-0E (docs/dcbx.md, "Frames").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum LldpFrames {
    /// Dropped as any other frame to a reserved address.
    #[default]
    Drop,
    /// Consumed: the owner takes them from the switch ([`crate::Switch::take_punted`]).
    Punt,
    /// Forwarded as data, as a wire does.
    Forward,
}

/// Speed that pause times and default thresholds assume where a port has no `speed` (what a veth
/// reports).
pub const ASSUMED_SPEED_BPS: u64 = 10_000_000_000;

/// The peer's response to XOFF and the frames in flight meanwhile, in software; a cable of
/// kilometers adds to it.
pub const RESPONSE_NS: Nanos = 300_000;

impl PortSettings {
    /// Makes a port with every default: no PFC, all queues in the WRR group.
    pub fn new(name: impl Into<String>, speed_bps: Option<u64>) -> Self {
        let speed = speed_bps.unwrap_or(ASSUMED_SPEED_BPS);
        Self {
            name: name.into(),
            speed_bps,
            link_speed_bps: None,
            mtu_bytes: None,
            response_ns: RESPONSE_NS,
            rate_limited: true,
            alarms: PortAlarmSettings::default(),
            classify: ClassifySettings::default(),
            rewrite: RewriteSettings::default(),
            pfc: PfcSettings::default(),
            flow_control: FlowControl::Off,
            watchdog: [None; PRIORITIES],
            early_warning: [EarlyWarningSettings::default(); PRIORITIES],
            groups: [GroupSettings::default_for(speed); PRIORITIES],
            queues: [QueueSettings::default(); PRIORITIES],
            schedule: ScheduleSettings::default(),
            flood_limits_pps: [None; 3],
            static_addresses: Vec::new(),
            lldp: LldpFrames::Drop,
            vlan: VlanSettings::Transparent,
            burst_bytes: None,
            overhead_bytes: if speed_bps.is_some() { WIRE_OVERHEAD_BYTES } else { 0 },
            in_flight_bytes: 65_536,
        }
    }

    /// Returns the longest frame that may leave, in bytes without FCS: the MTU plus the Ethernet
    /// header and an 802.1Q tag, as in the kernel's own bridge (`is_skb_forwardable`).
    pub fn longest_frame_bytes(&self) -> u16 {
        let bytes = self.mtu_bytes.map_or(u32::MAX, |mtu| mtu.saturating_add(LINK_BYTES));
        u16::try_from(bytes).unwrap_or(u16::MAX)
    }

    /// Makes a vacant slot, without reserved or guaranteed cells.
    pub fn vacant() -> Self {
        let queue = QueueSettings { guaranteed: Guaranteed::Cells(0), ..QueueSettings::default() };
        Self {
            groups: [GroupSettings::lossy(); PRIORITIES],
            queues: [queue; PRIORITIES],
            ..Self::new("", None)
        }
    }

    /// True for a vacant slot: every port has a name.
    pub fn is_vacant(&self) -> bool {
        self.name.is_empty()
    }

    /// Returns the watchdog of a priority; `None` if the priority is not no-drop, or its pauses are
    /// not honored anyway.
    pub fn watchdog_of(&self, priority: usize) -> Option<WatchdogSettings> {
        let honors = self.pfc.rx && self.pfc.no_drop & 1 << priority != 0;
        self.watchdog[priority].filter(|_| honors)
    }

    /// Returns the speed of pause quanta: the setting for them, or the port's speed, or its link's,
    /// or the assumed speed.
    pub fn pause_speed_bps(&self) -> u64 {
        self.pfc.pause_speed_bps.or(self.speed_bps).or(self.link_speed_bps).unwrap_or(ASSUMED_SPEED_BPS)
    }

    /// Returns the priorities whose groups are protected, by PFC or by PAUSE.
    pub fn protected(&self) -> Set8 {
        if self.flow_control.sends() { Set8::ALL } else { Set8::from_bits(self.pfc.no_drop) }
    }

    /// Returns the most cells that are read of a guest's queue in an iteration, if the port is on a
    /// vhost-user socket: no more than the headroom of each protected group holds. A guest that
    /// gets PFC frames (`sends_pfc`) is always read, so headroom must hold several batches there.
    pub fn guest_batch_cells(&self, sends_pfc: bool) -> u32 {
        if sends_pfc {
            return LEAST_GUEST_BATCH_CELLS;
        }
        let headroom = self.protected().into_iter().map(|priority| self.groups[priority].headroom_cells);
        headroom.min().unwrap_or(u32::MAX).clamp(LEAST_GUEST_BATCH_CELLS, GUEST_BATCH_CELLS)
    }
}

/// 802.3x PAUSE, which stops all frames of a link: see [`crate::pfc::link_pause`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowControl {
    /// PAUSE frames are counted, but neither honored nor sent.
    #[default]
    Off,
    /// PAUSE frames are honored.
    Receive,
    /// PAUSE frames are sent.
    Send,
    /// PAUSE frames are honored and sent.
    Both,
}

impl FlowControl {
    /// All modes, with their names in the configuration.
    pub const ALL: [(&'static str, FlowControl); 4] = [
        ("off", FlowControl::Off),
        ("receive", FlowControl::Receive),
        ("send", FlowControl::Send),
        ("both", FlowControl::Both),
    ];

    /// True if received PAUSE frames are honored.
    pub fn honors(self) -> bool {
        matches!(self, FlowControl::Receive | FlowControl::Both)
    }

    /// True if PAUSE frames are sent.
    pub fn sends(self) -> bool {
        matches!(self, FlowControl::Send | FlowControl::Both)
    }

    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// Priority flow control of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfcSettings {
    /// True if received PFC frames are honored.
    pub rx: bool,
    /// True if PFC frames are sent.
    pub tx: bool,
    /// No-drop priorities as a mask: bit i for priority i.
    pub no_drop: u8,
    /// Pause time in PFC frames, in quanta of 512 bit times.
    pub pause_quanta: u16,
    /// Speed that defines these bit times, in bit/s; `None`: see [`PortSettings::pause_speed_bps`].
    pub pause_speed_bps: Option<u64>,
}

impl Default for PfcSettings {
    fn default() -> Self {
        Self { rx: false, tx: false, no_drop: 0, pause_quanta: 65_535, pause_speed_bps: None }
    }
}

/// One egress queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSettings {
    /// Service pool of its shared cells.
    pub pool: u8,
    /// Cells guaranteed to the queue.
    pub guaranteed: Guaranteed,
    /// Maximum of shared cells; frames beyond it are tail-dropped. `None` for 20 % through the
    /// alpha table for a lossy queue, no limit for a no-drop queue.
    pub shared: Option<Threshold>,
    /// Early drops and marks; `None` for tail drop only.
    pub wred: Option<WredSettings>,
    /// Rate limit of the queue; `None` if unlimited.
    pub rate: Option<Rate>,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { pool: 0, guaranteed: Guaranteed::Percent(13), shared: None, wred: None, rate: None }
    }
}

/// Maximum frames a second of each type that a port accepts, by `FloodType::place`; `None` if
/// unlimited.
pub type FloodLimits = [Option<u32>; 3];
