//! Execution of the daemon's commands, between two iterations.
//!
//! Rule: commands are executed in their order. A command whose reply needs an I/O loop (the
//! counters of its ports, the frames that a closed port never sent) is tried again each iteration
//! until the I/O loop has replied; iterations continue meanwhile. Every change of the switch is
//! recorded first, so that a replay does the same. Source: docs/architecture.md, "Frame
//! path"; docs/multi-core.md.

use crate::mailbox::{LoopCommand, Reply};
use crate::poll_loop::PollLoop;
use crate::port::Port;
use switch::{FrameMemory, Instant, KernelCounters, Snapshot, SwitchSettings, WatermarkReset};
use wire::bitset::Set64;

impl<P: Port> PollLoop<P> {
    /// Executes a command. Returns the command if it must be tried again, as an I/O loop is not
    /// done with its part.
    pub(super) fn execute(&mut self, command: LoopCommand, now: Instant) -> Option<LoopCommand> {
        match command {
            LoopCommand::Snapshot { .. } if !self.collect_reports() => return Some(command),
            LoopCommand::Snapshot { mut snapshot, read_watermarks } => {
                self.reported = Set64::EMPTY;
                self.snapshot(now, &mut snapshot);
                if read_watermarks {
                    self.mark_watermarks(WatermarkReset::Read);
                }
                self.mailbox.answer(Reply::Snapshot(snapshot));
            }
            LoopCommand::ClearWatermarks => {
                self.mark_watermarks(WatermarkReset::Clear);
                self.mailbox.answer(Reply::Done);
            }
            LoopCommand::Hold { port, held } => {
                self.hold(port, held);
                self.mailbox.answer(Reply::Done);
            }
            LoopCommand::RecoverStorms(port) => {
                if let Some(recorder) = self.turn.recorder() {
                    recorder.recover_storms(port, now);
                }
                self.switch.recover_storms(port, now, &mut self.memory);
                self.mailbox.answer(Reply::Done);
            }
            LoopCommand::LiftStormLimit { port, priorities } => {
                if let Some(recorder) = self.turn.recorder() {
                    recorder.lift_storm_limit(port, priorities, now);
                }
                self.switch.lift_storm_limit(port, priorities, now, &mut self.memory);
                self.mailbox.answer(Reply::Done);
            }
            LoopCommand::Apply(settings) => {
                if let Some(port) = self.switch.pending_recovery(&settings.switch) {
                    self.mailbox.answer(Reply::NotApplied(settings, port));
                    return None;
                }
                self.make_slots(&settings.switch, now);
                if let Some(recorder) = self.turn.recorder() {
                    recorder.apply(&settings.switch, now);
                }
                self.switch.apply(&settings.switch, now);
                self.push_parser(self.turn.open_ports());
                for (port, &frames) in self.ports.iter_mut().zip(&settings.min_posted) {
                    port.set_min_posted(frames);
                }
                self.mailbox.answer(Reply::Applied(settings));
            }
            LoopCommand::Record(_) if self.is_copying() => return Some(command),
            LoopCommand::Record(recorder) => {
                self.end_recording(now);
                let before = std::mem::replace(self.turn.recorder(), recorder);
                self.mailbox.answer(Reply::Recorded(before));
            }
            LoopCommand::PortDown(port) => self.close(port, now),
            LoopCommand::PortClosed(port) => {
                if !self.reclaim(port, now) {
                    return Some(command);
                }
            }
            LoopCommand::PortUp { port, mac, finish_checksums } => {
                let Some(is_up) = self.reopen(port, mac, finish_checksums, now) else { return Some(command) };
                self.mailbox.answer(Reply::PortUp(port, is_up));
            }
            LoopCommand::Stop(snapshot) => self.stop = Some(snapshot),
        }
        None
    }

    /// Collects the status of each port that an I/O loop serves. Returns false if a reply is
    /// missing.
    pub(super) fn collect_reports(&mut self) -> bool {
        for (number, port) in self.ports.iter_mut().enumerate() {
            let has_reported = self.reported.contains(number) || port.report();
            self.reported.set(number, has_reported);
        }
        self.reported == Set64::first_of(self.ports.len())
    }

    /// Closes the ports that these settings remove, and resets the counters of ports whose slots
    /// are reused.
    pub(super) fn make_slots(&mut self, settings: &SwitchSettings, now: Instant) {
        for port in Set64::first_of(self.switch.places()) {
            if settings.ports[port].is_vacant() {
                self.close(port, now);
            }
        }
        for port in self.switch.added_by(settings) {
            self.removed += self.ports[port].reset_counters();
        }
    }

    pub(super) fn mark_watermarks(&mut self, mark: WatermarkReset) {
        if let Some(recorder) = self.turn.recorder() {
            recorder.watermarks(mark);
        }
        self.switch.mark_watermarks(mark);
    }

    pub(super) fn hold(&mut self, port: usize, on_hold: bool) {
        if let Some(recorder) = self.turn.recorder() {
            recorder.hold(port, on_hold);
        }
        self.switch.hold(port, on_hold);
    }

    pub(super) fn end_recording(&mut self, now: Instant) {
        let forwards = self.turn.forwards();
        if let Some(recorder) = self.turn.recorder() {
            recorder.end(now, forwards, &mut self.switch);
        }
    }

    /// True if the recorder is copying the state of the switch.
    pub(super) fn is_copying(&mut self) -> bool {
        self.turn.recorder().as_ref().is_some_and(|recorder| recorder.is_copying())
    }

    pub(super) fn snapshot(&mut self, now: Instant, snapshot: &mut Snapshot) {
        if let Some(recorder) = self.turn.recorder() {
            recorder.snapshot(now);
        }
        self.switch.snapshot(now, snapshot);
        let removed = &mut snapshot.removed_ports.kernel_dropped_frames;
        *removed = dropped(&self.removed);
        for (port, out) in self.ports.iter().zip(&mut snapshot.ports) {
            out.kernel = port.kernel_counters();
            if out.name.is_empty() {
                *removed += dropped(&out.kernel);
            }
        }
        snapshot.memory_frames = self.memory_frames as u64;
        let elsewhere: usize = self.ports.iter().map(Port::free_frames).sum();
        snapshot.memory_free_frames = (self.memory.free_frames() + elsewhere) as u64;
        snapshot.memory_in_rings_frames = self.ports.iter().map(|port| port.frames_held() as u64).sum();
        let mut times = self.heartbeat.times();
        self.lines.iter().for_each(|line| times += line.times());
        snapshot.loop_turns = times.turns;
        snapshot.loop_worst_stall_ns = times.worst_stall_ns;
        snapshot.loop_awake_ns = times.awake_ns;
        snapshot.loop_turns_by_time = times.turns_by_time;
        snapshot.events_lost += self.mailbox.lost;
    }
}

/// Returns the frames that the kernel dropped: for lack of a posted chunk, in an RX ring when it
/// was closed, or because no port accepts them.
fn dropped(kernel: &KernelCounters) -> u64 {
    kernel.rx_fill_ring_empty_frames
        + kernel.rx_ring_full_frames
        + kernel.rx_dropped_frames
        + kernel.rx_missed_frames
        + kernel.rx_closed_frames
        + kernel.rx_too_long_frames
}
