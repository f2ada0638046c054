//! The text of an event for people, with its numbers by name.
//!
//! Rule: an event has a name for programs, a severity, the place it belongs to, its numbers, and
//! one line of text. Source: docs/monitoring/events.md; the lines of the watchdog are those of
//! docs/references.md, "H3C reference" (PFC deadlock detection).

use crate::monitor::counters::FrameCount;
use crate::monitor::event::{AlarmReport, AlarmSource, Event};
use crate::monitor::event_kind::{EventKind, Severity};
use crate::settings::AlarmKind;

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

    /// Sets the egress queue that the event belongs to.
    pub fn of_queue(self, queue: usize) -> Self {
        Self { queue: Some(queue), ..self }
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
                    "the kernel or the NIC dropped {frames} received frames, whatever their priority: too few chunks were \
                     posted, or the port was closed while its peer sent"
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
            Event::QueueStalled { port, queue } => EventRecord::new(EventKind::QueueStalled, format!("the guest has had no room in its queue for frames of queue {queue} for 5 s: they wait, and their senders are paused or lose frames"),
            )
            .of_port(port)
            .of_queue(queue),
            Event::QueueResumed { port, queue } => EventRecord::new(EventKind::QueueResumed, format!("queue {queue} is no longer held by a guest without room"))
            .of_port(port)
            .of_queue(queue),
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
            Event::Alarm { source, report } => describe_alarm(source, report),
            Event::DropAlarm { source, dropped: FrameCount { frames, bytes } } => {
                let message = format!("{}: {frames} frames were dropped", source.source_text());
                source.describe(EventKind::DropAlarm, message)
                    .with("alarm_type", source.side())
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

fn describe_alarm(source: AlarmSource, report: AlarmReport) -> EventRecord {
    let AlarmReport { raised, peak: (cells, allowed), crossings, percent } = report;
    let words = source.source_text();
    if !raised {
        let message = format!("{words}: usage back below {percent} % of the limit");
        let event = source.describe(EventKind::UseAlarmCleared, message);
        return event.with("alarm_type", source.side()).with("percent", percent.into());
    }
    let times = if crossings == 1 { String::new() } else { format!(", {crossings} times") };
    let message =
        format!("{words}: usage reached {percent} % of the limit{times}: {cells} of {allowed} cells");
    source
        .describe(EventKind::UseAlarm, message)
        .with("alarm_type", source.side())
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

    /// Ports have priorities at ingress and queues at egress; pools have numbers.
    #[test]
    fn an_alarm_has_its_source_as_numbers() {
        let report = AlarmReport { raised: true, peak: (7, 10), crossings: 2, percent: 70 };
        for (kind, side, is_queue) in [
            (AlarmKind::Ingress, 1, false),
            (AlarmKind::Drop, 1, false),
            (AlarmKind::Egress, 2, true),
            (AlarmKind::Headroom, 3, false),
        ] {
            let of_port =
                Event::Alarm { source: AlarmSource::Port { port: 4, kind, number: 5 }, report }.describe();
            let (priority, queue) = if is_queue { (None, Some(5)) } else { (Some(5), None) };
            assert_eq!(
                (of_port.port, of_port.priority, of_port.queue),
                (Some(4), priority, queue),
                "{kind:?}"
            );
            let numbers = [("cells", 7), ("allowed_cells", 10), ("percent", 70), ("crossings", 2)];
            let type_and_numbers = [&[("alarm_type", side)], &numbers[..]].concat();
            assert_eq!(of_port.values, type_and_numbers, "{kind:?}");
            let of_pool = Event::Alarm { source: AlarmSource::Pool { kind, number: 2 }, report }.describe();
            assert_eq!((of_pool.port, of_pool.priority, of_pool.queue), (None, None, None));
            assert_eq!(of_pool.values, [&[("pool", 2)], &type_and_numbers[..]].concat(), "{kind:?}");
        }
    }
}
