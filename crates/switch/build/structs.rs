//! The messages of `proto/sluice/v1/control.proto` that are structs of the switch. The build
//! scripts of `switch` and `control` share this list.

/// A pair of a message and a struct of the switch with the same fields.
pub struct Struct {
    /// Name in the proto file.
    pub message: &'static str,
    /// Struct, below `switch`.
    pub of: &'static str,
    /// Traits that the generated struct derives; `None` if the struct is written by hand.
    #[allow(dead_code, reason = "only the build script of `switch` needs it")]
    pub derives: Option<&'static str>,
}

const fn generated(message: &'static str, of: &'static str, derives: &'static str) -> Struct {
    Struct { message, of, derives: Some(derives) }
}

const fn by_hand(message: &'static str, of: &'static str) -> Struct {
    Struct { message, of, derives: None }
}

/// The messages, and the structs that they are converted from.
pub const STRUCTS: [Struct; 13] = [
    generated("Snapshot", "monitor::counters::Snapshot", "Debug, Clone, Default, PartialEq"),
    generated(
        "RemovedPorts",
        "monitor::counters::RemovedPorts",
        "Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize",
    ),
    generated(
        "Port",
        "monitor::counters::PortSnapshot",
        "Debug, Clone, Default, PartialEq, Serialize, JsonSchema",
    ),
    generated(
        "Group",
        "monitor::counters::GroupSnapshot",
        "Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema",
    ),
    generated(
        "Queue",
        "monitor::counters::QueueSnapshot",
        "Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema",
    ),
    generated("Pool", "monitor::counters::PoolSnapshot", "Debug, Clone, Copy, Default, PartialEq, Eq"),
    by_hand("Level", "Occupancy"),
    by_hand("Count", "monitor::counters::FrameCount"),
    by_hand("PfcCount", "monitor::counters::PfcCount"),
    generated(
        "Storm",
        "monitor::counters::StormSnapshot",
        "Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema",
    ),
    generated(
        "StormTraffic",
        "monitor::counters::StormTraffic",
        "Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema",
    ),
    generated(
        "Priority",
        "monitor::counters::PrioritySnapshot",
        "Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema",
    ),
    generated("Kernel", "monitor::counters::KernelCounters", "Debug, Clone, Copy, Default, PartialEq, Eq"),
];

/// Fields that the daemon fills in, because the switch knows nothing of the interface below.
pub const OF_THE_DAEMON: [&str; 18] = [
    "pfc_enabled",
    "log_lines_lost",
    "log_lines_left_out",
    "recordings_kept",
    "recordings_kept_bytes",
    "recordings_frozen",
    "recordings_not_kept",
    "loops",
    "interface",
    "xdp_mode",
    "vlan_tags_restored",
    "mtu_bytes",
    "link",
    "classification",
    "lldp",
    "dcbx",
    "pfc_mode",
    "admin_down",
];
