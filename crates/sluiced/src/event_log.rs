//! Events are written to two places: a numbered journal for clients of the control API, and the
//! log.
//!
//! Rule: an event of the poll loop carries that loop's time and has one text, which the switch
//! defines (`switch::monitor::event`). Severities are the log's levels. XOFF and XON occur by the
//! thousand and are only logged. Source: docs/monitoring/events.md.

use std::time::SystemTime;

use control::{Command, Journal, Peer, v1};
use switch::{EventKind, EventRecord, Instant, Severity};
use tracing::{debug, error, info, warn};

/// The destinations of events.
pub struct Events {
    journal: Journal,
    /// Names of the ports by slot. A removed port keeps its name until its events are reported.
    ports: Vec<String>,
    /// Start of the poll loop's clock.
    started: std::time::Instant,
    /// Events so far that the poll loop had no room for.
    lost: u64,
}

impl Events {
    /// Creates the event log of a switch with these ports, whose clock started at `started`.
    pub fn new(journal: Journal, ports: Vec<String>, started: std::time::Instant) -> Self {
        Self { journal, ports, started, lost: 0 }
    }

    /// Sets the name of the port in this slot.
    pub fn set_name(&mut self, port: usize, name: &str) {
        if self.ports.len() <= port {
            self.ports.resize(port + 1, String::new());
        }
        self.ports[port] = name.to_owned();
    }

    /// Records an event of the poll loop at `at`.
    pub fn record(&self, at: Instant, mut event: EventRecord) {
        let port = event.port.map(|port| self.ports[port].as_str());
        if let Some(name) = port {
            event.message = event.message.replace(switch::monitor::event_text::PORT, name);
        }
        let EventRecord { priority, message, .. } = &event;
        let kind = event.kind.name();
        match event.severity {
            Severity::Debug => debug!(port, priority, "{message}"),
            Severity::Info => info!(kind, port, priority, "{message}"),
            Severity::Warning => warn!(kind, port, priority, "{message}"),
            Severity::Error => error!(kind, port, priority, "{message}"),
        }
        if event.severity > Severity::Debug {
            self.journal_event(at, event);
        }
    }

    /// Records an event outside the poll loop, at the present time.
    pub fn record_now(&self, event: EventRecord) {
        self.record(self.now(), event);
    }

    /// Records an executed command in the journal; it has been logged separately.
    pub fn journal_command(&self, order: &Command, by: Option<&Peer>, changes: &[String]) {
        if let Some(mut event) = self.event_of_command(order, changes) {
            if let Some(uid) = by.and_then(|by| by.uid) {
                event = event.with("uid", uid.into());
            }
            self.journal_event(self.now(), event);
        }
    }

    /// Sets the number of events since the start that the poll loop had no room for.
    pub fn set_lost(&mut self, lost: u64) {
        let more = lost.saturating_sub(std::mem::replace(&mut self.lost, lost));
        if more > 0 {
            let message = format!("{more} events were lost: too many came at once; counters have them all");
            let event = EventRecord::new(EventKind::EventsLost, message);
            self.record_now(event.with("events", more));
        }
    }

    fn event_of_command(&self, order: &Command, changes: &[String]) -> Option<EventRecord> {
        let of_port = |kind, port: &String, message: &str| {
            let number = self.ports.iter().position(|name| name == port)?;
            Some(EventRecord::new(kind, message).of_port(number))
        };
        match order {
            // Ports report it themselves, as a reload may be the cause, too.
            Command::ClearWatermarks | Command::FlushFdb { .. } | Command::SetPortAdmin { .. } => None,
            Command::HoldPort { port, held: true } => {
                of_port(EventKind::PortHeld, port, "transmission is held, as for tests")
            }
            Command::HoldPort { port, held: false } => {
                of_port(EventKind::PortReleased, port, "transmission is released")
            }
            Command::SetPfc { enabled: true } => {
                Some(EventRecord::new(EventKind::PfcOn, "PFC is on, as the ports have it"))
            }
            Command::SetPfc { enabled: false } => {
                Some(EventRecord::new(EventKind::PfcOff, "PFC is off on all ports"))
            }
            Command::RecoverStorms { port } => {
                let message = "storms that waited for manual recovery are ended";
                of_port(EventKind::StormsRecovered, port, message)
            }
            Command::LiftStormLimit { port, priority } => {
                let event = of_port(EventKind::StormLimitLifted, port, "the limit of storms is lifted")?;
                Some(EventRecord { priority: priority.map(|priority| priority as usize), ..event })
            }
            Command::Reload => {
                Some(EventRecord::new(EventKind::Reloaded, format!("reload: {}", changes.join("; "))))
            }
        }
    }

    fn journal_event(&self, at: Instant, event: EventRecord) {
        let age = self.started.elapsed().saturating_sub(std::time::Duration::from_nanos(at.0));
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.journal.record(v1::Event {
            number: 0, // assigned by the journal
            at_ns: at.0,
            unix_ns: u64::try_from(unix.saturating_sub(age).as_nanos()).unwrap_or(u64::MAX),
            kind: event.kind.name().to_owned(),
            severity: event.severity.name().to_owned(),
            port: event.port.map(|port| self.ports[port].clone()),
            port_number: event.port.map(|port| port as u32 + 1),
            priority: event.priority.map(|priority| priority as u32),
            queue: event.queue.map(|queue| queue as u32),
            values: event.values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            message: event.message,
        });
    }

    /// Returns when the poll loop's clock started, in nanoseconds since 1970, by the present time.
    pub fn unix_start_ns(&self) -> u64 {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(unix.saturating_sub(self.started.elapsed()).as_nanos()).unwrap_or(u64::MAX)
    }

    fn now(&self) -> Instant {
        Instant(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switch::DropReason;
    use switch::Event;
    use switch::frame::meta::FloodType;
    use switch::monitor::counters::FrameCount;
    use switch::monitor::event::AlarmReport;
    use switch::monitor::event::AlarmSource;
    use switch::settings::AlarmKind;

    fn events() -> (Events, Journal) {
        let journal = Journal::default();
        let ports = vec!["a".to_owned(), "b".to_owned()];
        (Events::new(journal.clone(), ports, std::time::Instant::now()), journal)
    }

    /// Returns the journal, one line for each event.
    fn lines(journal: &Journal) -> String {
        let line = |event: v1::Event| {
            let v1::Event { number, kind, severity, port, priority, queue, values, message, .. } = event;
            let source = (port.unwrap_or_default(), priority.or(queue));
            format!("{number} {kind} {severity} {source:?} {values:?}: {message}\n")
        };
        journal.read(0).events.into_iter().map(line).collect()
    }

    /// Covers every event of the switch, and the changes made by commands.
    #[test]
    fn events_and_commands_are_in_the_journal() {
        let (mut events, journal) = events();
        let of_port = |kind, number| AlarmSource::Port { port: 1, kind, number };
        let report = AlarmReport { raised: true, peak: (90, 100), crossings: 4, percent: 70 };
        for (at, event) in (1_u64..).zip([
            Event::XoffBegan { port: 0, priority: 3 },
            Event::XoffEnded { port: 0, priority: 3 },
            Event::NoDropLost { port: 1, priority: 3 },
            Event::NoDropDropped { port: 1, priority: 3, reason: DropReason::TailDrop, frames: 4 },
            Event::KernelDropped { port: 1, frames: 7 },
            Event::KernelLost { port: 1, frames: 5, no_drop_frames: 2, pfc_frames: 1 },
            Event::BridgeFull { frames: 3 },
            Event::PortDown { port: 0 },
            Event::PortUp { port: 0 },
            Event::StormBegan { port: 0, priority: 5 },
            Event::StormEnded { port: 0, priority: 5 },
            Event::TxStalled { port: 0 },
            Event::TxResumed { port: 0 },
            Event::QueueStalled { port: 0, queue: 3 },
            Event::QueueResumed { port: 0, queue: 3 },
            Event::RecoveryPending { port: 0, priority: 5 },
            Event::StormLimitReached { port: 0, priority: 5, local_precedence: 2, times: 10 },
            Event::EarlyWarning { port: 1, priority: 5, sent: false, pps: 10_001 },
            Event::EarlyWarningCleared { port: 1, priority: 5, sent: true, pps: 70 },
            Event::StrayFrames { port: 0, frames: 2 },
            Event::AddressLimit { port: 1 },
            Event::FloodLimit { port: 1, cast: FloodType::UnknownUnicast, frames: 30, no_drop_frames: 2 },
            Event::Alarm { source: of_port(AlarmKind::Headroom, 3), report },
            Event::Alarm { source: of_port(AlarmKind::Egress, 7), report },
            Event::Alarm {
                source: AlarmSource::Pool { kind: AlarmKind::Ingress, number: 1 },
                report: AlarmReport { raised: false, ..report },
            },
            Event::DropAlarm {
                source: of_port(AlarmKind::Egress, 2),
                dropped: FrameCount { frames: 9, bytes: 600 },
            },
        ]) {
            events.record(Instant(at), event.describe());
        }
        let hold = |held| Command::HoldPort { port: "b".to_owned(), held };
        for (order, changes) in [
            (hold(true), Vec::<String>::new()),
            (hold(false), vec![]),
            (Command::SetPfc { enabled: false }, vec![]),
            (Command::SetPfc { enabled: true }, vec![]),
            (Command::Reload, vec!["port a: speed 1G → 2G".to_owned(), "port b: no_drop 3 → 4".to_owned()]),
            (Command::ClearWatermarks, vec![]),
        ] {
            let by = Peer { uid: Some(1000), ..Peer::default() };
            events.journal_command(&order, (order != Command::Reload).then_some(&by), &changes);
        }
        events.set_lost(0);
        events.set_lost(40);
        events.set_lost(40);
        insta::assert_snapshot!(lines(&journal));
        assert_eq!(journal.read(0).events[0].at_ns, 3, "the loop's own time");
    }

    #[test]
    fn the_time_of_day_is_that_of_the_event() {
        let journal = Journal::default();
        let hour = std::time::Duration::from_secs(3600);
        let started = std::time::Instant::now().checked_sub(hour).expect("this machine has run for an hour");
        let events = Events::new(journal.clone(), vec!["a".to_owned()], started);
        events.record(Instant(0), Event::PortDown { port: 0 }.describe());
        events.record_now(EventRecord::new(EventKind::PfcOn, ""));
        let [first, second] = &journal.read(0).events[..] else { panic!("two events") };
        let apart_ns = second.unix_ns - first.unix_ns;
        assert_eq!(apart_ns / 1_000_000_000, 3600, "{apart_ns} ns");
    }
}
