//! What can be set: plain values that the `config` crate fills in and the simulator can write by
//! hand. Defaults are those of docs/behavior.md, and there is no other place for them.

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

use crate::time::Nanos;

/// Bytes of an Ethernet header and an 802.1Q tag, which no MTU counts.
const LINK_BYTES: u32 = 14 + 4;

/// The whole switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwitchSettings {
    /// The buffer memory.
    pub buffer: BufferSettings,
    /// The bridge table.
    pub bridge: BridgeSettings,
    /// A queue or group whose use rises above this share of what it is allowed, in percent, is a
    /// violation (1–100).
    pub usage_percent: u8,
    /// Alarms.
    pub alarms: AlarmSettings,
    /// Where random numbers (WRED) begin.
    pub seed: u64,
    /// The ports; a port's number is its place here, and some places may be vacant.
    pub ports: Vec<PortSettings>,
}

impl SwitchSettings {
    /// Ports there are: places that are not vacant.
    pub fn port_count(&self) -> usize {
        self.ports.iter().filter(|port| !port.is_vacant()).count()
    }

    /// Time alone may make the switch act: some priority has a watchdog, or an early warning.
    pub fn wants_waking(&self) -> bool {
        let none = EarlyWarningSettings::default();
        self.ports.iter().any(|port| {
            port.watchdog.iter().any(Option::is_some)
                || port.early_warning.iter().any(|warning| *warning != none)
        })
    }

    /// The same with PFC off on every port: what was no-drop is treated as any lossy priority; it
    /// keeps what it reserves.
    pub fn without_pfc(&self) -> Self {
        let mut settings = self.clone();
        for port in &mut settings.ports {
            for priority in (0..PRIORITIES).filter(|p| port.pfc.no_drop & (1 << p) != 0) {
                let GroupSettings { pool, reserved_cells, .. } = port.groups[priority];
                port.groups[priority] = GroupSettings { pool, reserved_cells, ..GroupSettings::lossy() };
            }
            (port.pfc.rx, port.pfc.tx, port.pfc.no_drop) = (false, false, 0);
        }
        settings
    }
}

/// The bridge table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeSettings {
    /// Most addresses that are remembered.
    pub max_entries: usize,
    /// Most addresses that are learned on one port.
    pub max_entries_per_port: usize,
    /// Decides which addresses share a place in the table; the daemon draws it at random, so that
    /// nobody can know them. It holds from the start on.
    pub key: u64,
    /// An address not seen for this long is forgotten (IEEE 802.1Q-2022 8.8.3: 300 s).
    pub aging_ns: Nanos,
    /// 802.1p priority → queue of unicast frames whose destination is unknown; `None`: as all
    /// others.
    pub unknown_unicast_to_queue: Option<[u8; PRIORITIES]>,
    /// 802.1p priority → queue of frames to group addresses (multicast, broadcast); `None`: as all
    /// others.
    pub multicast_to_queue: Option<[u8; PRIORITIES]>,
}

impl BridgeSettings {
    /// The maps of frames that are flooded.
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
            max_entries_per_port: Self::share_of_a_port(16_384),
            key: 0,
            aging_ns: 300 * 1_000_000_000,
            unknown_unicast_to_queue: None,
            multicast_to_queue: None,
        }
    }
}

impl BridgeSettings {
    /// What a port may learn of so many entries unless told otherwise: half, so that one port alone
    /// cannot fill the table, and one behind which nearly all addresses are has plenty.
    pub fn share_of_a_port(max_entries: usize) -> usize {
        max_entries.div_ceil(2)
    }
}

/// One port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortSettings {
    /// What the port is called everywhere.
    pub name: String,
    /// The line rate that the port keeps, in bit/s; `None`: as fast as the interface takes frames.
    pub speed_bps: Option<u64>,
    /// Speed of the link itself, in bit/s, as its interface reports it; `None`: it does not say.
    pub link_speed_bps: Option<u64>,
    /// MTU of the interface, in bytes, as it reports it; `None`: whatever comes may leave.
    pub mtu_bytes: Option<u32>,
    /// So long after an XOFF has left, frames of its priority may still come in.
    pub response_ns: Nanos,
    /// The port itself keeps that rate; false: its cable does, as in the simulator.
    pub keeps_rate: bool,
    /// Alarm thresholds.
    pub alarms: PortAlarmSettings,
    /// What received frames are treated as.
    pub classify: ClassifySettings,
    /// What frames that leave are marked with.
    pub rewrite: RewriteSettings,
    /// Priority flow control.
    pub pfc: PfcSettings,
    /// 802.3x PAUSE; not together with PFC.
    pub flow_control: FlowControl,
    /// The watchdog of each priority; `None`: it is not watched.
    pub watchdog: [Option<WatchdogSettings>; PRIORITIES],
    /// Rates of PFC frames of each priority that are told of.
    pub early_warning: [EarlyWarningSettings; PRIORITIES],
    /// Buffer thresholds of each priority group.
    pub groups: [GroupSettings; PRIORITIES],
    /// The egress queues.
    pub queues: [QueueSettings; PRIORITIES],
    /// How the queues share the port.
    pub schedule: ScheduleSettings,
    /// The most frames a second that come in and are flooded, by kind: see
    /// [`crate::forwarding::storm_control`].
    pub flood_limits_pps: FloodLimits,
    /// Addresses that are always behind this port: static entries of the bridge table, of which no
    /// other port has any.
    pub static_addresses: Vec<StaticAddress>,
    /// The VLANs that it has.
    pub vlan: VlanSettings,
    /// Bytes of a line that it may catch up with after it was idle, or its owner late; `None`: 4 ms
    /// of line time.
    pub burst_bytes: Option<u64>,
    /// Bytes of the line that each frame takes beyond its own: [`WIRE_OVERHEAD_BYTES`] on an
    /// emulated wire.
    pub overhead_bytes: u16,
    /// Most bytes handed to the kernel and not yet completed: what still leaves after a pause has
    /// come.
    pub in_flight_bytes: u32,
}

/// Speed that pause times and default thresholds assume where a port has no `speed` (what a veth
/// reports).
pub const ASSUMED_SPEED_BPS: u64 = 10_000_000_000;

/// The peer's response to XOFF and what is on its way meanwhile, in software; a cable of kilometres
/// comes on top.
pub const RESPONSE_NS: Nanos = 300_000;

impl PortSettings {
    /// A port with every default: no PFC, all queues in the WRR group.
    pub fn new(name: impl Into<String>, speed_bps: Option<u64>) -> Self {
        let speed = speed_bps.unwrap_or(ASSUMED_SPEED_BPS);
        Self {
            name: name.into(),
            speed_bps,
            link_speed_bps: None,
            mtu_bytes: None,
            response_ns: RESPONSE_NS,
            keeps_rate: true,
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
            vlan: VlanSettings::Transparent,
            burst_bytes: None,
            overhead_bytes: if speed_bps.is_some() { WIRE_OVERHEAD_BYTES } else { 0 },
            in_flight_bytes: 65_536,
        }
    }

    /// The longest frame that may leave, in bytes without FCS: on top of the MTU, the Ethernet
    /// header and an 802.1Q tag, as the kernel's own bridge has it (`is_skb_forwardable`).
    pub fn longest_frame_bytes(&self) -> u16 {
        let bytes = self.mtu_bytes.map_or(u32::MAX, |mtu| mtu.saturating_add(LINK_BYTES));
        u16::try_from(bytes).unwrap_or(u16::MAX)
    }

    /// A place without a port: nothing is reserved there, nor guaranteed.
    pub fn vacant() -> Self {
        let queue = QueueSettings { guaranteed: Guaranteed::Cells(0), ..QueueSettings::default() };
        Self {
            groups: [GroupSettings::lossy(); PRIORITIES],
            queues: [queue; PRIORITIES],
            ..Self::new("", None)
        }
    }

    /// There is no port here: every port has a name.
    pub fn is_vacant(&self) -> bool {
        self.name.is_empty()
    }

    /// The watchdog of a priority: of none that is not no-drop, or whose pauses are not obeyed
    /// anyway.
    pub fn watchdog_of(&self, priority: usize) -> Option<WatchdogSettings> {
        let obeys = self.pfc.rx && self.pfc.no_drop & 1 << priority != 0;
        self.watchdog[priority].filter(|_| obeys)
    }

    /// Speed for pause quanta: what is set for them, or the port's own, or its link's, or what is
    /// assumed without any.
    pub fn pause_speed_bps(&self) -> u64 {
        self.pfc.pause_speed_bps.or(self.speed_bps).or(self.link_speed_bps).unwrap_or(ASSUMED_SPEED_BPS)
    }
}

/// 802.3x PAUSE, which stops all that a link carries: see [`crate::pfc::link_pause`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlowControl {
    /// PAUSE frames are counted, neither obeyed nor sent.
    #[default]
    Off,
    /// They are obeyed.
    Receive,
    /// They are sent.
    Send,
    /// Both.
    Both,
}

impl FlowControl {
    /// All of them, with their names in the configuration.
    pub const ALL: [(&'static str, FlowControl); 4] = [
        ("off", FlowControl::Off),
        ("receive", FlowControl::Receive),
        ("send", FlowControl::Send),
        ("both", FlowControl::Both),
    ];

    /// Received PAUSE frames are obeyed.
    pub fn obeys(self) -> bool {
        matches!(self, FlowControl::Receive | FlowControl::Both)
    }

    /// PAUSE frames are sent.
    pub fn sends(self) -> bool {
        matches!(self, FlowControl::Send | FlowControl::Both)
    }

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// Priority flow control of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfcSettings {
    /// Received PFC frames are honored.
    pub rx: bool,
    /// PFC frames are sent.
    pub tx: bool,
    /// Bit i: priority i is no-drop.
    pub no_drop: u8,
    /// Pause time in PFC frames, in quanta of 512 bit times.
    pub pause_quanta: u16,
    /// Speed whose bit times these are, in bit/s; `None`: see [`PortSettings::pause_speed_bps`].
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
    /// Cells that are the queue's own.
    pub guaranteed: Guaranteed,
    /// Most shared cells; more is tail-dropped. `None`: 20 % through the alpha table for a lossy
    /// queue, no limit for a no-drop queue.
    pub shared: Option<Threshold>,
    /// Early drops and marks; `None`: tail drop only.
    pub wred: Option<WredSettings>,
    /// The rate that it keeps; `None`: no limit of its own.
    pub rate: Option<Rate>,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self { pool: 0, guaranteed: Guaranteed::Percent(13), shared: None, wred: None, rate: None }
    }
}

/// The most frames a second of each kind that a port accepts, by `FloodType::place`; `None`: no limit.
pub type FloodLimits = [Option<u32>; 3];
