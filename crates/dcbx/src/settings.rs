//! Settings of an agent, as plain values with their defaults.
//!
//! Source: docs/dcbx.md, "Settings"; IEEE 802.1AB-2016 9.2.5 (timing).

use core::fmt;
use serde::{Deserialize, Serialize};
use wire::MacAddr;
use wire::dcbx::cee::STRICT_GROUP;
use wire::dcbx::ieee::Application;
use wire::lldp::{Capabilities, ChassisId, ManagementAddress, PortId};

/// All settings of the agent of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// What the port advertises of itself.
    pub system: LocalSystem,
    /// Timing, bounds and TLV selection.
    pub lldp: LldpSettings,
    /// DCBX; `None` if no DCBX TLV is advertised, which is the default.
    pub dcbx: Option<DcbxSettings>,
}

impl AgentSettings {
    /// Makes a host that advertises PFC, in whichever version the peer speaks. It sends by no ETS
    /// shares and marks no applications, so it advertises neither.
    pub fn host(name: &str, mac: MacAddr, interface: &str, pfc: PfcSettings) -> Self {
        let station = Capabilities::STATION;
        let system = LocalSystem {
            port: PortId::mac(mac),
            system_description: concat!("Sluice host ", env!("CARGO_PKG_VERSION")).to_owned(),
            capabilities: Capabilities { system: station, enabled: station },
            ..LocalSystem::bridge(name, mac, interface)
        };
        let mut lldp = LldpSettings::default();
        (lldp.tlvs.port_vlan, lldp.tlvs.link_aggregation) = (false, false);
        Self { system, lldp, dcbx: Some(DcbxSettings { pfc, ..DcbxSettings::default() }) }
    }

    /// Returns the same of an agent that advertises nothing any more: it withdraws itself.
    pub fn withdrawn(mut self) -> Self {
        self.lldp.admin = AdminStatus::RxOnly;
        self
    }
}

/// What a port advertises of itself and its system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalSystem {
    /// Source address of the frames.
    pub mac: MacAddr,
    /// Identifier of the system.
    pub chassis: ChassisId,
    /// Identifier of the port.
    pub port: PortId,
    /// What the port is for.
    pub port_description: String,
    /// Host name.
    pub system_name: String,
    /// Hardware and software.
    pub system_description: String,
    /// Functions of the system.
    pub capabilities: Capabilities,
    /// Addresses at which the system is managed.
    pub management: Vec<ManagementAddress>,
    /// VLAN of untagged frames; 0 if the port has no VLANs.
    pub port_vlan: u16,
    /// Longest frame that the port receives, with tags and FCS.
    pub max_frame_bytes: u16,
}

impl LocalSystem {
    /// Makes a bridge of a name, with a port that is named as its interface.
    pub fn bridge(name: &str, mac: MacAddr, interface: &str) -> Self {
        let bridge = Capabilities::BRIDGE;
        Self {
            mac,
            chassis: ChassisId::mac(mac),
            port: PortId::interface(interface),
            port_description: interface.to_owned(),
            system_name: name.to_owned(),
            system_description: "Sluice lossless Ethernet switch".to_owned(),
            capabilities: Capabilities { system: bridge, enabled: bridge },
            management: Vec::new(),
            port_vlan: 0,
            max_frame_bytes: 1522,
        }
    }
}

/// Timing and bounds of LLDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LldpSettings {
    /// Direction in which LLDP is enabled.
    pub admin: AdminStatus,
    /// Time between frames, `msgTxInterval`; at least 1.
    pub tx_interval_s: u16,
    /// Intervals for which a receiver keeps what it received, `msgTxHold`; at least 1.
    pub hold: u16,
    /// Time between frames after a new neighbor, `msgFastTx`; at least 1.
    pub fast_interval_s: u16,
    /// Number of such frames, `txFastInit`.
    pub fast_frames: u8,
    /// Frames that may be sent at once, `txCreditMax`; at least 1. One more is added each second.
    pub credit_max: u8,
    /// Time between a shutdown frame and the next start, `reinitDelay`.
    pub reinit_delay_s: u8,
    /// The most neighbors that are kept; at least 1.
    pub max_neighbors: usize,
    /// Optional TLVs that are sent.
    pub tlvs: TlvSelection,
}

impl Default for LldpSettings {
    /// Returns the defaults of the standard, with eight neighbors and all TLVs.
    fn default() -> Self {
        Self {
            admin: AdminStatus::Both,
            tx_interval_s: 30,
            hold: 4,
            fast_interval_s: 1,
            fast_frames: 4,
            credit_max: 5,
            reinit_delay_s: 2,
            max_neighbors: 8,
            tlvs: TlvSelection::default(),
        }
    }
}

impl LldpSettings {
    /// Returns the time for which a receiver keeps what it received, `txTTL`.
    pub fn ttl_s(&self) -> u16 {
        self.tx_interval_s.saturating_mul(self.hold).saturating_add(1)
    }
}

/// Direction in which LLDP is enabled, `adminStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdminStatus {
    /// Frames are sent and received.
    Both,
    /// Frames are only sent.
    TxOnly,
    /// Frames are only received.
    RxOnly,
    /// Frames are neither sent nor received.
    Off,
}

impl AdminStatus {
    /// Returns true if frames are sent.
    pub fn transmits(self) -> bool {
        matches!(self, Self::Both | Self::TxOnly)
    }

    /// Returns true if frames are received.
    pub fn receives(self) -> bool {
        matches!(self, Self::Both | Self::RxOnly)
    }
}

/// Optional TLVs that are sent; all are by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TlvSelection {
    pub port_description: bool,
    pub system_name: bool,
    pub system_description: bool,
    pub capabilities: bool,
    pub management: bool,
    pub port_vlan: bool,
    pub max_frame_size: bool,
    pub link_aggregation: bool,
}

impl Default for TlvSelection {
    fn default() -> Self {
        Self {
            port_description: true,
            system_name: true,
            system_description: true,
            capabilities: true,
            management: true,
            port_vlan: true,
            max_frame_size: true,
            link_aggregation: true,
        }
    }
}

/// What DCBX advertises, and what it takes over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct DcbxSettings {
    /// Version that is spoken.
    pub version: VersionSetting,
    /// Priority-based flow control.
    pub pfc: PfcSettings,
    /// ETS; `None` if it is not advertised.
    pub ets: Option<EtsSettings>,
    /// Priorities of applications, advertised while PFC is [`PfcMode::Auto`].
    pub applications: ApplicationSettings,
}

/// Which version of DCBX is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum VersionSetting {
    /// As the peer does, beginning with IEEE.
    #[default]
    Auto,
    /// Always this one.
    Pinned(Version),
}

/// Version of DCBX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub enum Version {
    /// IEEE 802.1Qaz.
    #[default]
    Ieee,
    /// Revision 1.01.
    Cee,
    /// Revision 1.00.
    Cin,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ieee => "IEEE",
            Self::Cee => "CEE",
            Self::Cin => "CIN",
        })
    }
}

/// Settings of priority-based flow control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PfcSettings {
    /// Whether the peer has a say.
    pub mode: PfcMode,
    /// True if the peer's configuration is adopted; only with [`PfcMode::Auto`].
    pub willing: bool,
    /// Priorities that are to be no-drop, as a mask.
    pub no_drop: u8,
    /// Number of priorities that may have PFC at once, 1–8.
    pub capability: u8,
    /// Which end adopts the other's configuration if both are willing.
    pub precedence: Precedence,
}

impl Default for PfcSettings {
    fn default() -> Self {
        Self {
            mode: PfcMode::Auto,
            willing: false,
            no_drop: 0,
            capability: 8,
            precedence: Precedence::LowerAddress,
        }
    }
}

/// Mode of PFC on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PfcMode {
    /// No priority is no-drop.
    Off,
    /// The port's own priorities are no-drop, whatever the peer says.
    On,
    /// Priorities are no-drop as far as both ends agree.
    Auto,
}

/// Which of two willing ends keeps its PFC configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Precedence {
    /// That with the lower MAC address, as IEEE 802.1Q has it.
    LowerAddress,
    /// That with the higher MAC address, as lldpad has it.
    HigherAddress,
}

/// Groups that are advertised, and whether the peer's are taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtsSettings {
    /// True if the peer's recommendation (CEE, CIN: configuration) is adopted.
    pub willing: bool,
    /// Own configuration.
    pub ets: Ets,
    /// True if it is also recommended to the peer (IEEE).
    pub recommends: bool,
}

/// Groups of priorities and their shares of the bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ets {
    /// Group of each priority: 0–7 or [`STRICT_GROUP`].
    pub group_of_priority: [u8; 8],
    /// Share of each group in percent.
    pub percent: [u8; 8],
}

/// Reason for which groups cannot be advertised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtsError {
    /// A group is neither 0–7 nor [`STRICT_GROUP`].
    Group(u8),
    /// The shares do not add up to 100 %.
    Shares(u16),
    /// Eight groups with shares leave no traffic class for strict priority.
    NoStrictClass,
}

impl fmt::Display for EtsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => {
                write!(f, "group {group} does not exist: use 0-7, or 15 for strict priority")
            }
            Self::Shares(sum) => write!(f, "the shares add up to {sum} %, not 100 %"),
            Self::NoStrictClass => {
                f.write_str("strict priority needs a traffic class of its own: use at most seven groups")
            }
        }
    }
}

impl core::error::Error for EtsError {}

impl Ets {
    /// All priorities in one group.
    pub const SINGLE_GROUP: Self = Self { group_of_priority: [0; 8], percent: [100, 0, 0, 0, 0, 0, 0, 0] };
    /// All priorities strict.
    pub const STRICT: Self = Self { group_of_priority: [STRICT_GROUP; 8], percent: [0; 8] };

    /// Checks that all versions can express the groups.
    pub fn check(&self) -> Result<(), EtsError> {
        let groups = self.group_of_priority;
        if let Some(group) = groups.into_iter().find(|group| *group > 7 && *group != STRICT_GROUP) {
            return Err(EtsError::Group(group));
        }
        let sum = self.percent.iter().map(|share| u16::from(*share)).sum();
        let needs_none = groups == [STRICT_GROUP; 8];
        if sum != if needs_none { 0 } else { 100 } {
            return Err(EtsError::Shares(sum));
        }
        let needs_class = groups.contains(&STRICT_GROUP) && self.free_class().is_none();
        if needs_class { Err(EtsError::NoStrictClass) } else { Ok(()) }
    }

    /// Returns true if a group has priorities or a share.
    pub(crate) fn is_used(&self, group: u8) -> bool {
        let share = self.percent.get(usize::from(group)).is_some_and(|share| *share > 0);
        share || self.group_of_priority.contains(&group)
    }

    /// Returns the highest number that no group has, which strict priority takes in versions
    /// without a strict group.
    pub(crate) fn free_class(&self) -> Option<u8> {
        (0..8).rev().find(|class| !self.is_used(*class))
    }
}

/// Settings of application priorities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ApplicationSettings {
    /// True if the peer's priorities are adopted.
    pub willing: bool,
    /// Own priorities.
    pub entries: Vec<Application>,
}
