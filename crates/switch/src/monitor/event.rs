//! Events for operators: everything about each kind in one place.
//!
//! Rule: an event has a name for programs, a severity, the place it belongs to, its numbers, and
//! one line of text for people. [`TABLE`] has the kinds of the switch and of the daemon with their
//! names, severities and documentation; [`Event`] and [`Event::describe`] have the fields and the
//! text of those of the switch. Source: docs/monitoring/events.md; the lines of the watchdog are
//! those of docs/references.md, "H3C reference" (PFC deadlock detection).

use crate::frame::meta::FloodType;
use crate::monitor::counters::{DropReason, FrameCount};
use crate::settings::AlarmKind;
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
    FramesTooLong,
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
        row(NoDropDropped, "no_drop_dropped", Error, "frames of a no-drop priority are lost for another reason, which the message names: `tail_drop`, `wred`, `watchdog`, `no_copy`, `port_down`, `destination_down`, `mtu_exceeded`, `vlan_filtered`, or `filtered` where no other port is up ([behavior.md](../behavior.md#drops)); its port is where they are counted; at once, then once a second while it lasts", "`frames`"),
        row(KernelDropped, "kernel_dropped", Error, "the kernel or the NIC dropped received frames because no buffer was posted; at once (drops of a NIC, within two seconds), then once a second while it lasts", "`frames`"),
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
        row(FramesTooLong, "frames_too_long", Warning, "frames longer than 9238 bytes were received, which no port accepts; the message names the likely cause, and the fix ([behavior.md](../behavior.md#mtus)); at most one a second", ""),
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

/// An event, with the port and the numbers that belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// XOFF for `priority` was advertised to the peer of `port`.
    XoffBegan {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// XOFF for `priority` ended: the peer may send again.
    XoffEnded {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// A no-drop frame was lost because headroom was exhausted. There is one event per episode; the
    /// counters have every loss.
    NoDropLost {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// The kernel, or the NIC below it, had no buffer for received frames. Their priorities are
    /// unknown.
    KernelDropped {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// The kernel took frames to send and lost them (at most one event a second).
    KernelLost {
        /// Port number of the output port.
        port: usize,
        /// Data frames since the last such event.
        frames: u64,
        /// Frames of no-drop priorities among them.
        no_drop_frames: u64,
        /// PFC and PAUSE frames since the last such event.
        pfc_frames: u64,
    },
    /// The kernel returned frames that the port had not passed to it, or returned them twice: a
    /// fault of the kernel or a driver. They were ignored.
    StrayFrames {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// Frames were dropped that are longer than the port's interface can send (at most one event a
    /// second).
    MtuExceeded {
        /// Port number.
        port: usize,
        /// Frames since the last such event.
        frames: u64,
    },
    /// The port has reached its limit of addresses in the FDB, so further ones are not learned.
    /// There is one event per episode; the counters have every frame.
    AddressLimit {
        /// Port number.
        port: usize,
    },
    /// Flooded frames of a type exceeded the port's limit and were dropped (at most one event a
    /// second).
    FloodLimit {
        /// Port number.
        port: usize,
        /// Type of the flooded frames.
        cast: FloodType,
        /// Frames dropped since the last such event.
        frames: u64,
        /// Frames of no-drop priorities among them.
        no_drop_frames: u64,
    },
    /// A priority of a port is stormed: the watchdog acts.
    StormBegan {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// A stormed priority was restored.
    StormEnded {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// No transmission of a port has completed for 5 s although the kernel has frames.
    TxStalled {
        /// Port number.
        port: usize,
    },
    /// Transmissions of such a port complete again.
    TxResumed {
        /// Port number.
        port: usize,
    },
    /// A stormed priority must be restored by hand.
    RecoveryPending {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
    },
    /// There were too many storms: PFC is off for the priority until the limit is lifted.
    StormLimitReached {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// The local precedence of the priority: the CoS value of the message.
        local_precedence: u8,
        /// Storms in the period.
        times: u32,
    },
    /// PFC frames of a priority reached the rate of the early warning.
    EarlyWarning {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// True if the frames were sent, false if they were received.
        sent: bool,
        /// Frames in a second.
        pps: u64,
    },
    /// PFC frames of a priority fell clearly below the rate of the early warning.
    EarlyWarningCleared {
        /// Port number.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// True if the frames were sent, false if they were received.
        sent: bool,
        /// Frames in a second.
        pps: u64,
    },
    /// The port no longer carries frames.
    PortDown {
        /// Port number.
        port: usize,
    },
    /// The port carries frames again.
    PortUp {
        /// Port number.
        port: usize,
    },
    /// The use of a source reached its alarm threshold, or is below it again.
    Alarm {
        /// Source of the alarm.
        place: AlarmSource,
        /// Contents of the report.
        report: AlarmReport,
    },
    /// Frames were dropped, and a drop alarm is enabled.
    DropAlarm {
        /// Source of the alarm, at ingress or egress.
        place: AlarmSource,
        /// Frames dropped since the last alarm.
        dropped: FrameCount,
    },
    /// Source addresses were not learned, since the FDB is full (at most one event a second).
    BridgeFull {
        /// Frames since the last such event.
        frames: u64,
    },
    /// No-drop frames were lost for another reason than want of room at ingress (at most one event
    /// a second).
    NoDropDropped {
        /// Port number of the port that counted them.
        port: usize,
        /// 802.1p priority.
        priority: usize,
        /// Reason of the drops.
        reason: DropReason,
        /// Frames since the last such event.
        frames: u64,
    },
}

impl Event {
    /// True if no-drop frames were lost, or may have been: the priorities of some lost frames are
    /// unknown. Such a loss freezes the flight recorder (docs/monitoring/recorder.md).
    pub fn is_no_drop_loss(&self) -> bool {
        match *self {
            Self::NoDropLost { .. } | Self::NoDropDropped { .. } | Self::KernelDropped { .. } => true,
            Self::KernelLost { no_drop_frames, .. } | Self::FloodLimit { no_drop_frames, .. } => {
                no_drop_frames > 0
            }
            _ => false,
        }
    }

    /// Adds a later loss at the same place, for the same reason. Returns false for any other event.
    pub(crate) fn add(&mut self, later: &Self) -> bool {
        match (self, *later) {
            (same @ Self::NoDropLost { .. }, _) => *same == *later,
            (
                Self::NoDropDropped { port, priority, reason, frames },
                Self::NoDropDropped { port: of, priority: and, reason: why, frames: more },
            ) if (*port, *priority, *reason) == (of, and, why) => {
                *frames += more;
                true
            }
            (Self::KernelDropped { port, frames }, Self::KernelDropped { port: of, frames: more })
                if *port == of =>
            {
                *frames += more;
                true
            }
            (
                Self::KernelLost { port, frames, no_drop_frames, pfc_frames },
                Self::KernelLost { port: of, frames: more, no_drop_frames: no_drop, pfc_frames: pfc },
            ) if *port == of => {
                *frames += more;
                *no_drop_frames += no_drop;
                *pfc_frames += pfc;
                true
            }
            (
                Self::FloodLimit { port, cast, frames, no_drop_frames },
                Self::FloodLimit { port: of, cast: kind, frames: more, no_drop_frames: no_drop },
            ) if (*port, *cast) == (of, kind) => {
                *frames += more;
                *no_drop_frames += no_drop;
                true
            }
            _ => false,
        }
    }
}

/// Part of a port, or pool, that an alarm is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlarmSource {
    /// A part of a port: a priority (at ingress, in headroom) or a queue (at egress).
    Port {
        /// Port number.
        port: usize,
        /// Kind of the alarm, which gives the side of the port.
        kind: AlarmKind,
        /// Number of the priority or queue.
        number: usize,
    },
    /// A pool.
    Pool {
        /// Kind of the alarm, which gives the side of the pool.
        kind: AlarmKind,
        /// Number of the pool.
        number: usize,
    },
}

/// Report of a usage alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmReport {
    /// True if use reached the threshold, false if it is below it again.
    pub raised: bool,
    /// Peak in cells, and the limit at that time.
    pub peak: (u32, u32),
    /// Crossings since the last alarm.
    pub crossings: u32,
    /// Threshold, in percent of the limit.
    pub percent: u8,
}

/// Placeholder in a message for the name of the event's port, which the switch's owner knows.
pub const PORT: &str = "{port}";

/// Description of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Kind, which has the name for programs.
    pub kind: EventKind,
    /// Importance of the event for an operator.
    pub severity: Severity,
    /// Port that the event belongs to.
    pub port: Option<usize>,
    /// 802.1p priority.
    pub priority: Option<usize>,
    /// Number of the egress queue.
    pub queue: Option<usize>,
    /// Numbers of the event, by name.
    pub values: Vec<(&'static str, u64)>,
    /// Line of text for people, which does not name the port, except by [`PORT`].
    pub message: String,
}

impl EventRecord {
    /// Makes the description of an event that belongs to no port.
    pub fn new(kind: EventKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            severity: kind.severity(),
            port: None,
            priority: None,
            queue: None,
            values: Vec::new(),
            message: message.into(),
        }
    }

    /// Sets the port that the event belongs to.
    pub fn of_port(self, port: usize) -> Self {
        Self { port: Some(port), ..self }
    }

    /// Sets the priority that the event belongs to.
    pub fn of_priority(self, priority: usize) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// Adds a named number.
    pub fn with(mut self, name: &'static str, value: u64) -> Self {
        self.values.push((name, value));
        self
    }
}

impl Event {
    /// Returns the description of the event.
    pub fn describe(self) -> EventRecord {
        match self {
            Event::XoffBegan { port, priority } => EventRecord::new(EventKind::XoffBegan, format!("XOFF: the peer is paused in priority {priority}"),
            )
            .of_port(port)
            .of_priority(priority),
            Event::XoffEnded { port, priority } => EventRecord::new(EventKind::XoffEnded, format!("XON: the peer may resume priority {priority}"),
            )
            .of_port(port)
            .of_priority(priority),
            Event::NoDropLost { port, priority } => EventRecord::new(EventKind::NoDropLost, format!("frames of no-drop priority {priority} are lost: headroom is exhausted; give it more"),
            )
            .of_port(port)
            .of_priority(priority),
            Event::NoDropDropped { port, priority, reason, frames } => EventRecord::new(EventKind::NoDropDropped, format!("{frames} frames of no-drop priority {priority} were dropped: {}", reason.name()),
            )
            .of_port(port)
            .of_priority(priority)
            .with("frames", frames),
            Event::KernelDropped { port, frames } => EventRecord::new(EventKind::KernelDropped, format!(
                    "the kernel or the NIC dropped {frames} received frames for lack of a buffer, whatever their priority: too few \
                     chunks were posted"
                ),
            )
            .of_port(port)
            .with("frames", frames),
            Event::KernelLost { port, frames, no_drop_frames, pfc_frames } => EventRecord::new(EventKind::KernelLost, format!(
                    "the kernel lost {frames} frames on transmission, {no_drop_frames} of them of no-drop priorities, and \
                     {pfc_frames} PFC or PAUSE frames: the interface refused them. Is its peer up, is its MTU the same, and does \
                     it keep up?"
                ),
            )
            .of_port(port)
            .with("frames", frames)
            .with("no_drop_frames", no_drop_frames)
            .with("pfc_frames", pfc_frames),
            Event::StrayFrames { port, frames } => EventRecord::new(EventKind::StrayFrames, format!(
                    "the kernel returned {frames} frames that it did not have, or returned them twice; they were ignored. \
                     This is a fault of the kernel or of the interface's driver"
                ),
            )
            .of_port(port)
            .with("frames", frames),
            Event::MtuExceeded { port, frames } => EventRecord::new(EventKind::MtuExceeded, format!(
                    "{frames} frames were too long for this port, whatever their priority, and were dropped: give its interface \
                     the MTU that the other ports have"
                ),
            )
            .of_port(port)
            .with("frames", frames),
            Event::AddressLimit { port } => EventRecord::new(EventKind::AddressLimit, "the port has reached its address limit: further addresses are not learned, and frames to them are \
                 flooded; raise bridge.max_entries_per_port",
            )
            .of_port(port),
            Event::FloodLimit { port, cast, frames, no_drop_frames } => EventRecord::new(EventKind::FloodLimit, format!(
                    "{frames} {} frames were dropped, {no_drop_frames} of them of no-drop priorities: they exceeded {}",
                    cast.name(),
                    cast.limit_setting_name()
                ),
            )
            .of_port(port)
            .with("frames", frames)
            .with("no_drop_frames", no_drop_frames),
            Event::StormBegan { port, priority } => EventRecord::new(EventKind::StormBegan, format!("PFC Deadlock Recovery Event Begin.Port is {PORT}."),
            )
            .of_port(port)
            .of_priority(priority),
            Event::StormEnded { port, priority } => EventRecord::new(EventKind::StormEnded, format!("PFC Deadlock Recovery Event End.Port is {PORT}."),
            )
            .of_port(port)
            .of_priority(priority),
            Event::TxStalled { port } => EventRecord::new(EventKind::TxStalled, "the interface accepts frames and has sent none for 5 s: their senders stay paused",
            )
            .of_port(port),
            Event::TxResumed { port } => {
                EventRecord::new(EventKind::TxResumed, "the interface sends frames again").of_port(port)
            }
            Event::RecoveryPending { port, priority } => EventRecord::new(EventKind::RecoveryPending, format!("Please recover PFC deadlock.Port is {PORT}."),
            )
            .of_port(port)
            .of_priority(priority),
            Event::StormLimitReached { port, priority, local_precedence, times } => EventRecord::new(EventKind::StormLimitReached, format!(
                    "PFC deadlock limit has been checked, Ifname: {PORT}, Cos: {local_precedence}, times: {times}."
                ),
            )
            .of_port(port)
            .of_priority(priority)
            .with("cos", local_precedence.into())
            .with("times", times.into()),
            Event::EarlyWarning { port, priority, sent, pps } => {
                let way = if sent { "sent" } else { "received" };
                let message = format!("early warning: {pps} PFC frames a second of priority {priority} are {way}");
                let kind = if sent { EventKind::PfcSentWarning } else { EventKind::PfcReceivedWarning };
                EventRecord::new(kind, message).of_port(port).of_priority(priority).with("pps", pps)
            }
            Event::EarlyWarningCleared { port, priority, sent, pps } => {
                let way = if sent { "sent" } else { "received" };
                let message =
                    format!("early warning is over: {pps} PFC frames a second of priority {priority} are {way}");
                let kind = if sent { EventKind::PfcSentWarningCleared } else { EventKind::PfcReceivedWarningCleared };
                EventRecord::new(kind, message).of_port(port).of_priority(priority).with("pps", pps)
            }
            Event::PortDown { port } => {
                EventRecord::new(EventKind::PortDown, "the port carries no frames any more").of_port(port)
            }
            Event::PortUp { port } => {
                EventRecord::new(EventKind::PortUp, "the port carries frames again").of_port(port)
            }
            Event::Alarm { place, report } => describe_alarm(place, report),
            Event::DropAlarm { place, dropped: FrameCount { frames, bytes } } => {
                let message = format!("{}: {frames} frames were dropped", place.source_text());
                place.describe(EventKind::DropAlarm, message)
                    .with("alarm_type", place.side())
                    .with("frames", frames)
                    .with("bytes", bytes)
            }
            Event::BridgeFull { frames } => EventRecord::new(EventKind::BridgeFull, format!(
                    "the bridge table is full: the senders of {frames} frames were not learned, and frames to them are \
                     flooded; raise bridge.max_entries"
                ),
            )
            .with("frames", frames),
        }
    }
}

fn describe_alarm(place: AlarmSource, report: AlarmReport) -> EventRecord {
    let AlarmReport { raised, peak: (cells, allowed), crossings, percent } = report;
    let words = place.source_text();
    if !raised {
        let message = format!("{words}: usage back below {percent} % of the limit");
        let event = place.describe(EventKind::UseAlarmCleared, message);
        return event.with("alarm_type", place.side()).with("percent", percent.into());
    }
    let times = if crossings == 1 { String::new() } else { format!(", {crossings} times") };
    let message =
        format!("{words}: usage reached {percent} % of the limit{times}: {cells} of {allowed} cells");
    place
        .describe(EventKind::UseAlarm, message)
        .with("alarm_type", place.side())
        .with("cells", cells.into())
        .with("allowed_cells", allowed.into())
        .with("percent", percent.into())
        .with("crossings", crossings.into())
}

impl AlarmSource {
    /// Returns the source in words that do not name the port.
    fn source_text(self) -> String {
        match self {
            Self::Port { kind: AlarmKind::Egress, number, .. } => format!("queue {number}"),
            Self::Port { kind: AlarmKind::Headroom, number, .. } => format!("headroom of priority {number}"),
            Self::Port { number, .. } => format!("priority {number} at ingress"),
            Self::Pool { kind: AlarmKind::Egress, number } => format!("pool {number} at egress"),
            Self::Pool { kind: AlarmKind::Headroom, .. } => "the headroom pool".to_owned(),
            Self::Pool { number, .. } => format!("pool {number} at ingress"),
        }
    }

    /// Makes the initial description.
    fn describe(self, kind: EventKind, message: String) -> EventRecord {
        let event = EventRecord::new(kind, message);
        match self {
            Self::Port { port, kind: AlarmKind::Egress, number } => {
                EventRecord { queue: Some(number), ..event.of_port(port) }
            }
            Self::Port { port, number, .. } => event.of_port(port).of_priority(number),
            Self::Pool { number, .. } => event.with("pool", number as u64),
        }
    }

    /// Returns the side of the source as the number that programs use: docs/monitoring/events.md.
    fn side(self) -> u64 {
        let (Self::Port { kind, .. } | Self::Pool { kind, .. }) = self;
        match kind {
            AlarmKind::Ingress | AlarmKind::Drop => 1,
            AlarmKind::Egress => 2,
            AlarmKind::Headroom => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_no_drop_frames_is_reported_from_others() {
        let kernel_lost =
            |no_drop_frames, pfc_frames| Event::KernelLost { port: 0, frames: 5, no_drop_frames, pfc_frames };
        for loss in [
            Event::NoDropLost { port: 0, priority: 3 },
            Event::NoDropDropped { port: 0, priority: 3, reason: DropReason::TailDrop, frames: 1 },
            Event::KernelDropped { port: 0, frames: 1 },
            kernel_lost(1, 0),
        ] {
            assert!(loss.is_no_drop_loss(), "{loss:?}");
        }
        let limited = |no_drop_frames| Event::FloodLimit {
            port: 0,
            cast: FloodType::Broadcast,
            frames: 5,
            no_drop_frames,
        };
        assert!(limited(5).is_no_drop_loss());
        for other in [
            kernel_lost(0, 5),
            limited(0),
            Event::MtuExceeded { port: 0, frames: 5 },
            Event::PortDown { port: 0 },
        ] {
            assert!(!other.is_no_drop_loss(), "{other:?}");
        }
    }
}
