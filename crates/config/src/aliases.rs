//! Names of other switches and tools, and the settings that do the same here. An error about an
//! unknown setting leads from one to the other, as `sluice explain` does.
//!
//! Source: CONFIG_DB of SONiC; the commands of Cisco NX-OS, H3C Comware and NVIDIA (Cumulus,
//! mlnx_qos); dcb of Linux (iproute2).

/// A name that another product has for a setting.
#[derive(Debug)]
pub struct Alias {
    /// The product.
    pub of: &'static str,
    /// Its name, in small letters with underscores.
    pub name: &'static str,
    /// Full name of our setting.
    pub setting: &'static str,
}

/// Returns what a name of another product is called here, whatever its case; `-` is as `_`.
pub fn alias(name: &str) -> Option<&'static Alias> {
    let name = name.to_lowercase().replace([' ', '-'], "_");
    ALIASES.iter().find(|alias| alias.name == name)
}

const fn of(of: &'static str, name: &'static str, setting: &'static str) -> Alias {
    Alias { of, name, setting }
}

/// All names, by product.
pub const ALIASES: &[Alias] = &[
    of("SONiC", "pfc_enable", "port.NAME.pfc.no_drop"),
    of("SONiC", "pfcwd_sw_enable", "port.NAME.pfc.watchdog.priority.N"),
    of("SONiC", "pfc_wd", "pfc.watchdog"),
    of("SONiC", "detection_time", "pfc.watchdog.priority.N.detection_ms"),
    of("SONiC", "restoration_time", "pfc.watchdog.priority.N.restoration_ms"),
    of("SONiC", "dscp_to_tc_map", "port.NAME.dscp_to_dot1p"),
    of("SONiC", "dot1p_to_tc_map", "port.NAME.dot1p_to_queue"),
    of("SONiC", "tc_to_queue_map", "port.NAME.dot1p_to_queue"),
    of("SONiC", "map_pfc_priority_to_queue", "port.NAME.dot1p_to_queue"),
    of("SONiC", "port_qos_map", "port.NAME"),
    of("SONiC", "buffer_pool", "buffer.ingress.pool.N"),
    of("SONiC", "buffer_profile", "buffer.ingress.profile.NAME"),
    of("SONiC", "buffer_pg", "port.NAME.buffer.ingress.priority.N"),
    of("SONiC", "buffer_queue", "port.NAME.buffer.egress.queue.N"),
    of("SONiC", "cable_length", "port.NAME.cable_m"),
    of("SONiC", "wred_profile", "wred.NAME"),
    of("SONiC", "wred_green_enable", "queue-profile.NAME.action"),
    of("SONiC", "green_min_threshold", "queue-profile.NAME.green.min_threshold_bytes"),
    of("SONiC", "green_max_threshold", "queue-profile.NAME.green.max_threshold_bytes"),
    of("SONiC", "green_drop_probability", "queue-profile.NAME.green.probability_percent"),
    of("SONiC", "scheduler", "port.NAME.schedule"),
    of("SONiC", "vlan_member", "port.NAME.vlan"),
    of("Cisco", "pause_no_drop", "port.NAME.pfc.no_drop"),
    of("Cisco", "pfc_cos", "port.NAME.pfc.no_drop"),
    of("Cisco", "priority_flow_control", "port.NAME.pfc.mode"),
    of("Cisco", "watch_dog_interval", "pfc.watchdog.priority.N.interval"),
    of("Cisco", "random_detect", "wred.NAME"),
    of("Cisco", "queue_limit", "port.NAME.buffer.egress.queue.N.shared_cells"),
    of("Cisco", "bandwidth", "port.NAME.schedule.group.N.bandwidth_percent"),
    of("Cisco", "class_map", "classifier.NAME"),
    of("Cisco", "policy_map", "policy.NAME"),
    of("Cisco", "service_policy", "port.NAME.policy"),
    of("Cisco", "switchport", "port.NAME.vlan"),
    of("Cisco", "storm_control", "port.NAME.broadcast_limit_pps"),
    of("H3C", "no_drop_dot1p", "port.NAME.pfc.no_drop"),
    of("H3C", "priority_flow_control_deadlock", "pfc.watchdog"),
    of("H3C", "deadlock_detect", "pfc.watchdog"),
    of("H3C", "dot1p_lp", "port.NAME.dot1p_to_queue"),
    of("H3C", "dscp_lp", "port.NAME.dscp_to_queue"),
    of("H3C", "dscp_dot1p", "port.NAME.dscp_to_dot1p"),
    of("H3C", "dscp_dp", "port.NAME.dscp_to_drop_level"),
    of("H3C", "dot1p_dp", "port.NAME.dot1p_to_drop_level"),
    of("H3C", "qos_trust", "port.NAME.trust"),
    of("H3C", "qos_priority", "port.NAME.port_priority"),
    of("H3C", "traffic_classifier", "classifier.NAME"),
    of("H3C", "qos_policy", "policy.NAME"),
    of("H3C", "local_precedence_queue", "port.NAME.dot1p_to_queue"),
    of("NVIDIA", "prio2buffer", "port.NAME.buffer.ingress.priority.N.pool"),
    of("NVIDIA", "prio_tc", "port.NAME.dot1p_to_queue"),
    of("NVIDIA", "tcbw", "port.NAME.schedule.group.N.bandwidth_percent"),
    of("NVIDIA", "cable_len", "port.NAME.cable_m"),
    of("NVIDIA", "switch_priority", "port.NAME.pfc.no_drop"),
    of("NVIDIA", "congestion_control", "wred.NAME"),
    of("dcb", "prio_pfc", "port.NAME.pfc.no_drop"),
    of("dcb", "tc_bw", "port.NAME.schedule.group.N.bandwidth_percent"),
    of("dcb", "tc_tsa", "port.NAME.schedule.group.N.scheduling"),
    of("dcb", "dscp_prio", "port.NAME.dscp_to_dot1p"),
    of("dcb", "default_prio", "port.NAME.port_priority"),
    of("dcb", "ets", "port.NAME.schedule"),
];
