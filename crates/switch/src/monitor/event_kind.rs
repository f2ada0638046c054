//! Kinds of events, of the switch and of the daemon: name, severity and documentation of each.
//!
//! Rule: everything that a program or a page knows of a kind is its row of [`TABLE`]. Source:
//! docs/monitoring/events.md, which is generated from it.

use serde::{Deserialize, Serialize};

/// Kind of an event, of the switch or of the daemon. [`TABLE`] describes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the table documents them")]
pub enum EventKind {
    XoffBegan,
    XoffEnded,
    NoDropLost,
    NoDropDropped,
    KernelDropped,
    KernelLost,
    StrayFrames,
    MtuExceeded,
    MtusDiffer,
    MtuBeyondHeadroom,
    PauseTooShort,
    InterfaceHarmsFrames,
    PfcProved,
    PfcUnproved,
    PfcRefused,
    AddressLimit,
    FloodLimit,
    UseAlarm,
    UseAlarmCleared,
    DropAlarm,
    StormBegan,
    StormEnded,
    TxStalled,
    TxResumed,
    QueueStalled,
    QueueResumed,
    RecoveryPending,
    StormLimitReached,
    PfcReceivedWarning,
    PfcSentWarning,
    PfcReceivedWarningCleared,
    PfcSentWarningCleared,
    StormsRecovered,
    StormLimitLifted,
    PortDown,
    PortUp,
    LldpNeighborAdded,
    LldpNeighborChanged,
    LldpNeighborLost,
    LldpTooManyNeighbors,
    DcbxVersion,
    DcbxChanged,
    DcbxError,
    DcbxUncovered,
    PortAdded,
    PortRemoved,
    BridgeFull,
    CarrierAwaited,
    CarrierCame,
    InterfaceLost,
    RxQueuesChanged,
    InterfaceBack,
    PortUnusable,
    VhostUserRefused,
    FramesTooLong,
    PeerNotReleased,
    QdiscStays,
    CollectorUnreachable,
    CollectorReached,
    MetricsUnavailable,
    MetricsAvailable,
    Reloaded,
    PfcOff,
    PfcOn,
    PortHeld,
    PortReleased,
    PortAdminDown,
    PortAdminUp,
    RecordingFrozen,
    RecordingNotKept,
    RecordingFetched,
    EventsLost,
}

/// A row of the table of events.
struct KindRow {
    kind: EventKind,
    name: &'static str,
    severity: Severity,
    /// What happened, as docs/monitoring/events.md says it.
    text: &'static str,
    /// Numbers that come with it, as docs/monitoring/events.md says it.
    numbers: &'static str,
}

const fn row(
    kind: EventKind,
    name: &'static str,
    severity: Severity,
    text: &'static str,
    numbers: &'static str,
) -> KindRow {
    KindRow { kind, name, severity, text, numbers }
}

/// All kinds of event, in the order of the enum: name, severity, what happened, numbers.
/// docs/monitoring/events.md is generated from it.
#[rustfmt::skip]
const TABLE: &[KindRow] = {
    use EventKind::*;
    use Severity::{Debug, Error, Info, Warning};
    &[
        row(XoffBegan, "xoff_began", Debug, "XOFF was advertised to the peer; only logged", ""),
        row(XoffEnded, "xoff_ended", Debug, "XON was advertised to the peer; only logged", ""),
        row(NoDropLost, "no_drop_lost", Error, "frames of a no-drop priority are lost because headroom is exhausted; an event when it begins, and again each second while it lasts, until headroom has been empty again or XOFF is over; the counters have each", ""),
        row(NoDropDropped, "no_drop_dropped", Error, "frames of a no-drop priority are lost for another reason, which the message names: `tail_drop`, `wred`, `watchdog`, `no_copy`, `port_down`, `destination_down`, `mtu_exceeded`, `vlan_filtered`, `refused`, or `filtered` where no other port is up ([behavior.md](../behavior.md#drops)); its port is where they are counted; at once, then once a second while it lasts", "`frames`"),
        row(KernelDropped, "kernel_dropped", Error, "the kernel or the NIC dropped received frames because no buffer was posted, or they were left in the rings of a port that was closed; at once (drops of a NIC, within two seconds), then once a second while it lasts", "`frames`"),
        row(KernelLost, "kernel_lost", Error, "the kernel accepted frames for transmission and lost them ([af-xdp.md](../kernel/af-xdp.md#errors-of-sendto)); at once, then once a second while it lasts", "`frames` (data), `no_drop_frames` among them, `pfc_frames` (PFC and PAUSE)"),
        row(StrayFrames, "stray_frames", Error, "the kernel returned frames that it did not have, or returned them twice: ignored", "`frames`"),
        row(MtuExceeded, "mtu_exceeded", Error, "frames were dropped that are too long for their egress port; at once, then once a second while it lasts", "`frames`"),
        row(MtusDiffer, "mtus_differ", Warning, "the MTUs of the ports' interfaces differ, at the start or from now on; the message names them and the fix", ""),
        row(MtuBeyondHeadroom, "mtu_beyond_headroom", Warning, "the interface of a port with no-drop priorities carries longer frames than headroom is computed for ([behavior.md](../behavior.md#mtus))", ""),
        row(PauseTooShort, "pause_too_short", Warning, "the pauses that a port can send are too short for a loop that stalls to keep, at the speed of its link ([behavior.md](../behavior.md#pfc-sent)); the message has the numbers", ""),
        row(InterfaceHarmsFrames, "interface_harms_frames", Warning, "a property of an interface harms frames from now on ([behavior.md](../behavior.md#what-an-interface-does-to-frames)); the message names it and the fix", ""),
        row(PfcProved, "pfc_proved", Info, "a PFC frame that one port sent at the start was received by another: both interfaces pass PFC ([behavior.md](../behavior.md#pfc-and-nics))", ""),
        row(PfcUnproved, "pfc_unproved", Warning, "… was received by none: whether the NIC passes PFC is unknown (info: of a virtual interface)", ""),
        row(PfcRefused, "pfc_refused", Error, "the kernel rejected that frame: the peer of the port cannot be paused", ""),
        row(AddressLimit, "address_limit", Warning, "a port has as many addresses in the bridge table as it may have; one event until it has room again", ""),
        row(FloodLimit, "flood_limit", Warning, "more broadcast, multicast or unknown unicast frames were received than the port's limit allows, and were dropped ([behavior.md](../behavior.md#flood-limits)); at once, then once a second while it lasts", "`frames`, `no_drop_frames`"),
        row(UseAlarm, "use_alarm", Warning, "buffer use of a priority, its headroom, a queue or a pool reached its alarm threshold ([behavior.md](../behavior.md#alarms)); what is in `[alarm]`", "`alarm_type` (1 ingress, 2 egress, 3 headroom), `cells` (the peak), `allowed_cells`, `percent`, `crossings`; `pool`"),
        row(UseAlarmCleared, "use_alarm_cleared", Info, "… and is below it again", "`alarm_type`, `percent`; `pool`"),
        row(DropAlarm, "drop_alarm", Warning, "frames were dropped, at ingress by priority or at egress by queue", "`alarm_type` (1, 2), `frames`, `bytes`"),
        row(StormBegan, "storm_began", Warning, "a priority is stormed: PFC deadlock detection acts ([watchdog.md](../watchdog.md))", ""),
        row(StormEnded, "storm_ended", Warning, "… and it is restored", ""),
        row(TxStalled, "tx_stalled", Error, "no transmission of the port has completed for 5 s although the kernel has frames ([watchdog.md](../watchdog.md#a-port-that-does-not-send))", ""),
        row(TxResumed, "tx_resumed", Info, "… and they complete again", ""),
        row(QueueStalled, "queue_stalled", Error, "frames wait for a queue of the port, and its peer, a virtio driver, has had no room there for 5 s ([watchdog.md](../watchdog.md#a-port-that-does-not-send))", "`queue`"),
        row(QueueResumed, "queue_resumed", Info, "… and has room again, or no frame waits", "`queue`"),
        row(RecoveryPending, "recovery_pending", Warning, "… and needs manual recovery", ""),
        row(StormLimitReached, "storm_limit_reached", Warning, "too many storms: PFC is off for the priority", "`cos`, `times`"),
        row(PfcReceivedWarning, "pfc_received_warning", Warning, "early warning: received PFC frames per second reached the configured rate", "`pps`"),
        row(PfcSentWarning, "pfc_sent_warning", Warning, "the same of PFC sent", "`pps`"),
        row(PfcReceivedWarningCleared, "pfc_received_warning_cleared", Info, "… and clearly fewer again", "`pps`"),
        row(PfcSentWarningCleared, "pfc_sent_warning_cleared", Info, "the same of PFC sent", "`pps`"),
        row(StormsRecovered, "storms_recovered", Info, "storms were ended manually", ""),
        row(StormLimitLifted, "storm_limit_lifted", Info, "… or their limit was lifted", ""),
        row(PortDown, "port_down", Warning, "the port no longer carries frames; what it held is dropped and counted", ""),
        row(PortUp, "port_up", Info, "… and carries them again: its interface came back", ""),
        row(LldpNeighborAdded, "lldp_neighbor_added", Info, "a port has a new LLDP neighbor ([dcbx.md](../dcbx.md)); at most 20 events of LLDP, and as many of DCBX, a port at once, then one a second of each", ""),
        row(LldpNeighborChanged, "lldp_neighbor_changed", Info, "… which advertises something else from now on", ""),
        row(LldpNeighborLost, "lldp_neighbor_lost", Info, "… and is gone: its time to live is over, it withdrew itself, or the link came up again", ""),
        row(LldpTooManyNeighbors, "lldp_too_many_neighbors", Warning, "a port has more neighbors than `lldp.max_neighbors`", ""),
        row(DcbxVersion, "dcbx_version", Info, "a port speaks another version of DCBX from now on ([dcbx.md](../dcbx.md#versions))", ""),
        row(DcbxChanged, "dcbx_changed", Info, "PFC, ETS or applications of a port are in another state, or another configuration is in force; the message has the reason", ""),
        row(DcbxError, "dcbx_error", Warning, "… and the ends cannot agree", ""),
        row(DcbxUncovered, "dcbx_uncovered", Warning, "priorities were agreed on that the file's `pfc.no_drop` does not list, and headroom is not sufficient for them ([dcbx.md](../dcbx.md#in-the-switch)); the message has the numbers; once for each agreement until the next reload", ""),
        row(PortAdded, "port_added", Info, "a reload added the port; its number may be that of a removed one", ""),
        row(PortRemoved, "port_removed", Info, "a reload removed the port; its counters are in the sum of removed ports", ""),
        row(BridgeFull, "bridge_full", Warning, "senders were not learned: the bridge table is full; at once, then once a second while it lasts", "`frames`"),
        row(CarrierAwaited, "carrier_awaited", Info, "a NIC lost its carrier when a program was attached: its port stays open for it ([behavior.md](../behavior.md#ports-that-come-and-go))", ""),
        row(CarrierCame, "carrier_came", Info, "an interface that was missing, down or without carrier at the start, or was settling, has its carrier", ""),
        row(InterfaceLost, "interface_lost", Warning, "an interface is gone, down, or without carrier: its port goes down; or it is missing or down at the start: its port is opened later", ""),
        row(RxQueuesChanged, "rx_queues_changed", Warning, "an interface has another number of RX queues, as `ethtool -L` sets it: its port is closed and opened with as many", ""),
        row(InterfaceBack, "interface_back", Info, "it, or another of its name, exists again: the port is opened", ""),
        row(PortUnusable, "port_unusable", Warning, "the kernel no longer accepts a port's frames, or a port whose interface came back cannot be opened yet, with the reason", ""),
        row(VhostUserRefused, "vhost_user_refused", Warning, "the front end of a `vhost_user` port was refused something, or its guest broke the rules of its rings, with the reason ([vhost-user.md](../vhost-user.md#hostile-guests)); at most one a second and port", ""),
        row(FramesTooLong, "frames_too_long", Warning, "frames longer than 9238 bytes were received, which no port accepts; the message names the likely cause, and the fix ([behavior.md](../behavior.md#mtus)); at most one a second", ""),
        row(PeerNotReleased, "peer_not_released", Warning, "a port was closed before its peer could be sent XON: the peer may stay paused until its pause ends", ""),
        row(QdiscStays, "qdisc_stays", Warning, "a queueing discipline could not be removed from an interface", ""),
        row(CollectorUnreachable, "collector_unreachable", Warning, "messages for a collector cannot be delivered and are tried again; the message names it and the reason ([telemetry.md](telemetry.md#delivery))", ""),
        row(CollectorReached, "collector_reached", Info, "… and it confirms messages again", ""),
        row(MetricsUnavailable, "metrics_unavailable", Warning, "the address of the metrics cannot be listened on, and is tried again", ""),
        row(MetricsAvailable, "metrics_available", Info, "… and the metrics are served", ""),
        row(Reloaded, "reloaded", Info, "new settings are in force; the message lists them", ""),
        row(PfcOff, "pfc_off", Warning, "PFC was turned off on all ports", ""),
        row(PfcOn, "pfc_on", Info, "… and on again", ""),
        row(PortHeld, "port_held", Warning, "a port's transmission is held, for tests", ""),
        row(PortReleased, "port_released", Info, "… and continues", ""),
        row(PortAdminDown, "port_admin_down", Warning, "an operator has taken a port down, by command or in the file", ""),
        row(PortAdminUp, "port_admin_up", Info, "… and it may carry frames again: it comes up as soon as its interface has a carrier", ""),
        row(RecordingFrozen, "recording_frozen", Warning, "a loss froze a recording, which is kept until it is fetched ([recorder.md](recorder.md#what-freezes-a-recording))", "`recording` (its number), `bytes`"),
        row(RecordingNotKept, "recording_not_kept", Warning, "a loss would have frozen another recording, and there is no room beside those that are kept", "`recordings_kept`"),
        row(RecordingFetched, "recording_fetched", Info, "a client has stored a kept recording, which the daemon no longer keeps", "`recording`"),
        row(EventsLost, "events_lost", Warning, "too many events came at once", "`events`"),
    ]
};

impl EventKind {
    /// All kinds, in the order of docs/monitoring/events.md.
    pub const ALL: [Self; TABLE.len()] = {
        let mut all = [Self::XoffBegan; TABLE.len()];
        let mut index = 0;
        while index < TABLE.len() {
            assert!(TABLE[index].kind as usize == index, "the table has the order of the enum");
            all[index] = TABLE[index].kind;
            index += 1;
        }
        all
    };

    /// Returns the name for programs.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].name
    }

    /// Returns the usual severity.
    pub fn severity(self) -> Severity {
        TABLE[self as usize].severity
    }

    /// Returns the row of docs/monitoring/events.md; `None` for an event that is only logged.
    pub fn documentation(self) -> Option<String> {
        let KindRow { name, severity, text, numbers, .. } = TABLE[self as usize];
        let numbers = if numbers.is_empty() { String::new() } else { format!("{numbers} ") };
        (severity > Severity::Debug)
            .then(|| format!("| `{name}` | {} | {text} | {numbers}|", severity.name()))
    }
}

impl std::fmt::Display for EventKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Severity of an event for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// Normal operation.
    Debug,
    /// A change of state.
    Info,
    /// A condition that an operator should check.
    Warning,
    /// A violation of what the switch guarantees.
    Error,
}

impl Severity {
    /// All severities, in ascending order.
    pub const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warning, Self::Error];

    /// Returns the name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
