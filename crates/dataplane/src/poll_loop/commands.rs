//! Execution of the daemon's commands, between two iterations.
//!
//! Rule: a command whose reply needs an I/O loop (the counters of its ports, the frames that a
//! closed port never sent) is tried again each iteration until the I/O loop has replied. Iterations
//! continue meanwhile, and so do commands that do not depend on it ([`must_follow`]): an I/O loop
//! that stalls delays its own ports only. A port that is shut down is tried again until its XON
//! has left. A snapshot waits for it for [`REPORT_PATIENCE_NS`]. Every change of the switch is
//! recorded first, so that a replay does the same. Source: docs/architecture.md, "Frame path";
//! docs/multi-core.md, "Commands".

use crate::mailbox::{LoopCommand, Reply};
use crate::poll_loop::{MAX_WAITING, PollLoop};
use crate::port::Port;
use switch::{FrameMemory, Instant, Nanos, Snapshot, SwitchSettings, WatermarkReset};
use wire::bitset::Set64;

/// How long a snapshot waits for the reports of I/O loops. After that it has what they reported
/// last.
const REPORT_PATIENCE_NS: Nanos = 1_000_000_000;

/// True if `later` must not be executed before `earlier`, which waits.
fn must_follow(later: &LoopCommand, earlier: &LoopCommand) -> bool {
    use LoopCommand::{Apply, PortClosed, PortDown, Record, ShutDown, Snapshot, Stop};
    match (earlier, later) {
        (Snapshot { .. }, _) => matches!(later, Snapshot { .. }),
        // A port that settings add may wait for its predecessor in the slot to be closed.
        (Apply(_), PortDown(_) | ShutDown(_) | PortClosed(_) | Snapshot { .. } | Stop(_)) => false,
        (Apply(_) | Record(_), _) => true,
        _ => port_of(earlier).is_some() && port_of(earlier) == port_of(later),
    }
}

/// Returns the port that a command opens or closes, or needs to be open.
fn port_of(command: &LoopCommand) -> Option<usize> {
    match *command {
        LoopCommand::PortDown(port)
        | LoopCommand::ShutDown(port)
        | LoopCommand::PortClosed(port)
        | LoopCommand::PortUp { port, .. }
        | LoopCommand::PeerAddress { port, .. } => Some(port),
        _ => None,
    }
}

impl<P: Port> PollLoop<P> {
    /// Executes the commands that wait, then those of the mailbox. True if there were any.
    pub(super) fn execute_commands(&mut self, now: Instant) -> bool {
        let (mut earlier, mut moved) = (0, false);
        while earlier < MAX_WAITING {
            let command = match earlier < self.waiting.len() {
                true => self.waiting.remove(earlier),
                false => match self.mailbox.next_command() {
                    Some(command) => command,
                    None => break,
                },
            };
            moved = true;
            let is_blocked = self.waiting[..earlier].iter().any(|first| must_follow(&command, first));
            let unfinished = if is_blocked { Some(command) } else { self.execute(command, now) };
            if let Some(command) = unfinished {
                self.waiting.insert(earlier, command);
                earlier += 1;
            }
        }
        moved
    }

    /// Executes a command. Returns the command if it must be tried again, as an I/O loop is not
    /// done with its part.
    fn execute(&mut self, command: LoopCommand, now: Instant) -> Option<LoopCommand> {
        match command {
            LoopCommand::Snapshot { .. } if !self.collect_reports() && !self.gives_up_reports(now) => {
                return Some(command);
            }
            LoopCommand::Snapshot { mut snapshot, read_watermarks } => {
                (self.status_received, self.reports_requested) = (Set64::EMPTY, None);
                self.snapshot(now, &mut snapshot);
                if read_watermarks {
                    self.mark_watermarks(WatermarkReset::Read);
                }
                self.mailbox.reply(Reply::Snapshot(snapshot));
            }
            LoopCommand::ClearWatermarks => {
                self.mark_watermarks(WatermarkReset::Clear);
                self.mailbox.reply(Reply::Done);
            }
            LoopCommand::Hold { port, held } => {
                self.hold(port, held);
                self.mailbox.reply(Reply::Done);
            }
            LoopCommand::RecoverStorms(port) => {
                self.switch.recover_storms(port, now, &mut self.memory);
                self.mailbox.reply(Reply::Done);
            }
            LoopCommand::LiftStormLimit { port, priorities } => {
                self.switch.lift_storm_limit(port, priorities, now, &mut self.memory);
                self.mailbox.reply(Reply::Done);
            }
            LoopCommand::Fdb(mut page) => {
                self.switch.read_fdb(&mut page, now);
                self.mailbox.reply(Reply::Fdb(page));
            }
            LoopCommand::FlushFdb { port, vid } => {
                self.switch.flush_fdb(port, vid);
                self.mailbox.reply(Reply::Done);
            }
            LoopCommand::Apply(settings) => {
                if let Some(port) = self.switch.pending_recovery(&settings.switch) {
                    self.mailbox.reply(Reply::NotApplied(settings, port));
                    return None;
                }
                let is_open = |port| self.detached.contains(port) || self.closing.contains(port);
                if self.switch.added_by(&settings.switch).into_iter().any(is_open) {
                    return Some(LoopCommand::Apply(settings));
                }
                if !self.shut_down_removed(&settings.switch, now) {
                    return Some(LoopCommand::Apply(settings));
                }
                self.reset_added(&settings.switch);
                self.switch.apply(&settings.switch, now);
                self.push_parser(self.iteration.open_ports());
                for (port, &frames) in self.ports.iter_mut().zip(&settings.min_posted) {
                    port.set_min_posted(frames);
                }
                for (port, of_port) in self.ports.iter_mut().zip(&settings.switch.ports) {
                    port.apply_settings(of_port);
                }
                self.mailbox.reply(Reply::Applied(settings));
            }
            LoopCommand::Record(_) if self.switch.is_copying() => return Some(command),
            LoopCommand::Record(recorder) => {
                self.end_recording(now);
                let before = self.switch.set_recorder(recorder);
                self.mailbox.reply(Reply::Recorded(before));
            }
            LoopCommand::Capture(capture) => {
                let before = self.switch.set_capture(capture);
                self.mailbox.reply(Reply::Captured(before));
            }
            LoopCommand::PortDown(port) => self.close(port, now),
            LoopCommand::ShutDown(port) => {
                if !self.shut_down(port, now) {
                    return Some(command);
                }
            }
            LoopCommand::PortClosed(port) => {
                if !self.reclaim(port, now) {
                    return Some(command);
                }
            }
            LoopCommand::PortUp { port, mac, complete_checksums } => {
                let Some(is_up) = self.reopen(port, mac, complete_checksums, now) else {
                    return Some(command);
                };
                self.mailbox.reply(Reply::PortUp(port, is_up));
            }
            LoopCommand::PeerAddress { port, mac } => {
                self.switch.peer_address(port, mac, now);
            }
            LoopCommand::Stop(snapshot) => self.stop = Some(snapshot),
        }
        None
    }

    /// Collects the status of each port that an I/O loop serves. Returns false if a reply is
    /// missing.
    pub(super) fn collect_reports(&mut self) -> bool {
        for (number, port) in self.ports.iter_mut().enumerate() {
            let has_reported = self.status_received.contains(number) || port.report();
            self.status_received.set(number, has_reported);
        }
        self.status_received == Set64::first_n(self.ports.len())
    }

    /// True if the pending snapshot has waited long enough. What was asked of I/O loops is then no
    /// longer waited for.
    fn gives_up_reports(&mut self, now: Instant) -> bool {
        let requested_at = *self.reports_requested.get_or_insert(now);
        let gives_up = now.since(requested_at) >= REPORT_PATIENCE_NS;
        if gives_up {
            self.ports.iter_mut().for_each(Port::forget_report);
        }
        gives_up
    }

    /// Closes the ports that these settings remove. Returns false if that is not done yet.
    fn shut_down_removed(&mut self, settings: &SwitchSettings, now: Instant) -> bool {
        let mut is_done = true;
        for port in Set64::first_n(self.switch.slot_count()) {
            if settings.ports[port].is_vacant() {
                is_done &= self.shut_down(port, now);
            }
        }
        is_done
    }

    /// Resets the counters of ports whose slots these settings reuse.
    fn reset_added(&mut self, settings: &SwitchSettings) {
        for port in self.switch.added_by(settings) {
            self.removed += self.ports[port].reset_counters();
        }
    }

    pub(super) fn mark_watermarks(&mut self, mark: WatermarkReset) {
        self.switch.reset_watermarks(mark);
    }

    pub(super) fn hold(&mut self, port: usize, on_hold: bool) {
        self.switch.hold(port, on_hold);
    }

    pub(super) fn end_recording(&mut self, now: Instant) {
        self.switch.end_recording(now, self.iteration.forwards());
    }

    pub(super) fn snapshot(&mut self, now: Instant, snapshot: &mut Snapshot) {
        self.switch.snapshot(now, snapshot);
        let removed = &mut snapshot.removed_ports.kernel_dropped_frames;
        *removed = self.removed.rx_lost_frames();
        for (port, out) in self.ports.iter().zip(&mut snapshot.ports) {
            out.kernel = port.kernel_counters();
            if out.name.is_empty() {
                *removed += out.kernel.rx_lost_frames();
            }
        }
        snapshot.memory_frames = self.memory_frames as u64;
        let elsewhere: usize = self.ports.iter().map(Port::free_frames).sum();
        snapshot.memory_free_frames = (self.memory.free_frames() + elsewhere) as u64;
        snapshot.memory_in_rings_frames = self.ports.iter().map(|port| port.frames_held() as u64).sum();
        let mut times = self.pace.heartbeat.times();
        self.io_heartbeats.iter().for_each(|line| times += line.times());
        snapshot.loop_turns = times.turns;
        snapshot.loop_worst_stall_ns = times.worst_stall_ns;
        snapshot.loop_awake_ns = times.awake_ns;
        snapshot.loop_turns_by_time = times.turns_by_time;
        snapshot.events_lost += self.mailbox.lost;
    }
}

#[cfg(test)]
mod tests {
    use switch::settings::{AlarmSettings, BridgeSettings, BufferSettings};
    use wire::mac::MacAddr;

    use super::*;
    use crate::mailbox::Settings;
    use LoopCommand::{
        ClearWatermarks, Hold, PeerAddress, PortClosed, PortDown, PortUp, Record, ShutDown, Stop,
    };

    fn snapshot() -> LoopCommand {
        LoopCommand::Snapshot { snapshot: Box::default(), read_watermarks: false }
    }

    fn up(port: usize) -> LoopCommand {
        PortUp { port, mac: MacAddr([2; 6]), complete_checksums: false }
    }

    fn peer(port: usize) -> LoopCommand {
        PeerAddress { port, mac: MacAddr([2; 6]) }
    }

    /// The commands about port 3, and about port 4, that follow a waiting one about port 3.
    #[test]
    fn what_waits_for_a_command_of_its_port() {
        for waiting in [PortDown(3), ShutDown(3), PortClosed(3), up(3), peer(3)] {
            let of_port = |port| [PortDown(port), ShutDown(port), PortClosed(port), up(port), peer(port)];
            assert!(of_port(3).iter().all(|later| must_follow(later, &waiting)), "{waiting:?}");
            assert!(!of_port(4).iter().any(|later| must_follow(later, &waiting)), "{waiting:?}");
            for of_none in [snapshot(), Record(None), Stop(Box::default()), ClearWatermarks] {
                assert!(!must_follow(&of_none, &waiting), "{of_none:?} after {waiting:?}");
            }
        }
    }

    /// A snapshot delays only the next one, and a recording that cannot begin yet delays all.
    #[test]
    fn what_waits_for_a_snapshot_and_for_a_recording() {
        for later in [PortDown(3), up(3), Record(None), Stop(Box::default()), ClearWatermarks] {
            assert!(!must_follow(&later, &snapshot()), "{later:?}");
            assert!(must_follow(&later, &Record(None)), "{later:?}");
        }
        assert!(must_follow(&snapshot(), &snapshot()));
        assert!(must_follow(&snapshot(), &Record(None)));
        // What needs no port waits for none that does, and nothing waits for it.
        let hold = Hold { port: 3, held: true };
        assert!(!must_follow(&hold, &PortDown(3)) && !must_follow(&PortDown(3), &hold));
        assert!(!must_follow(&ClearWatermarks, &ClearWatermarks));
    }

    /// Settings wait for a removed port to be closed, so what closes ports goes before them.
    #[test]
    fn what_goes_before_settings_that_wait() {
        let settings = || {
            let switch = SwitchSettings {
                buffer: BufferSettings::default(),
                bridge: BridgeSettings::default(),
                usage_percent: 100,
                alarms: AlarmSettings::default(),
                seed: 0,
                ports: Vec::new(),
            };
            LoopCommand::Apply(Box::new(Settings { switch, min_posted: Vec::new() }))
        };
        for later in [PortDown(3), ShutDown(3), PortClosed(3), snapshot(), Stop(Box::default())] {
            assert!(!must_follow(&later, &settings()), "{later:?}");
        }
        for later in [settings(), up(3), peer(3), Record(None), ClearWatermarks] {
            assert!(must_follow(&later, &settings()), "{later:?}");
        }
    }
}
