//! The switch of a loop, whose every input is recorded.
//!
//! Rule: a loop changes the state of its switch only through this type. It dereferences to the
//! switch for reading, so a method of the switch that changes state, and that has no counterpart
//! here, does not compile into the loop. Source: `docs/monitoring/recorder.md`.

use std::borrow::BorrowMut;
use std::ops::Deref;

use switch::monitor::counters::{PfcCount, RefusedFrames};
use switch::{
    Event, FrameId, FrameMemory, Instant, RxFrame, Snapshot, Switch, SwitchSettings, TxDesc, WatermarkReset,
};
use wire::bitset::Set8;
use wire::mac::MacAddr;

use crate::capture::tap::{Capture, TappedMemory};
use crate::flight_recorder::recorder::{Recorder, header_bytes};

/// Returns a memory that reports drops to the capture, or the memory itself while none runs.
#[inline]
fn tapped<'a, M: FrameMemory>(
    capture: &'a mut Option<Box<Capture>>,
    memory: &'a mut M,
) -> Result<TappedMemory<'a, M>, &'a mut M> {
    match capture {
        Some(capture) => Ok(TappedMemory { memory, capture }),
        None => Err(memory),
    }
}

/// Handles a batch: all frames, or only control frames where data is not forwarded any more.
#[inline]
fn handle<M: FrameMemory>(
    switch: &mut Switch,
    arrivals: &mut Vec<RxFrame>,
    forwards: bool,
    now: Instant,
    memory: &mut M,
) {
    if forwards {
        switch.receive_all(arrivals, now, memory);
    } else {
        switch.drain_control(arrivals, now, memory);
    }
}

/// A switch that a loop owns, or that a simulation lends it, with the recorder of its inputs.
///
/// ```compile_fail,E0596
/// # fn test(switch: &mut dataplane::RecordedSwitch, now: switch::Instant) {
/// switch.deadline_of(0, now); // changes state and is not recorded
/// # }
/// ```
#[derive(Debug)]
pub struct RecordedSwitch<S = Switch> {
    switch: S,
    /// `None` while no recording is requested.
    recorder: Option<Box<Recorder>>,
    /// `None` while no capture is requested.
    capture: Option<Box<Capture>>,
}

impl<S: BorrowMut<Switch>> Deref for RecordedSwitch<S> {
    type Target = Switch;

    #[inline]
    fn deref(&self) -> &Switch {
        self.switch.borrow()
    }
}

impl<S: BorrowMut<Switch>> RecordedSwitch<S> {
    /// Wraps a switch, which is not recorded yet.
    #[inline]
    pub fn new(switch: S) -> Self {
        Self { switch, recorder: None, capture: None }
    }

    /// Returns the switch, and calls `record` with it if there is a recorder.
    #[inline]
    fn recorded(&mut self, record: impl FnOnce(&mut Recorder, &mut Switch)) -> &mut Switch {
        self.recorded_with_capture(record).0
    }

    /// Returns the capture, too.
    #[inline]
    fn recorded_with_capture(
        &mut self,
        record: impl FnOnce(&mut Recorder, &mut Switch),
    ) -> (&mut Switch, &mut Option<Box<Capture>>) {
        let switch = self.switch.borrow_mut();
        if let Some(recorder) = &mut self.recorder {
            record(recorder, switch);
        }
        (switch, &mut self.capture)
    }

    /// Starts or ends a recording. Returns the recorder so far.
    pub(crate) fn set_recorder(&mut self, recorder: Option<Box<Recorder>>) -> Option<Box<Recorder>> {
        std::mem::replace(&mut self.recorder, recorder)
    }

    /// Starts or ends a capture. Returns the capture so far, which has handed over all its frames.
    pub(crate) fn set_capture(&mut self, capture: Option<Box<Capture>>) -> Option<Box<Capture>> {
        let mut before = std::mem::replace(&mut self.capture, capture);
        if let Some(before) = &mut before {
            before.end();
        }
        before
    }

    /// Completes the recording, if there is one.
    pub(crate) fn end_recording(&mut self, now: Instant, forwards: bool) {
        self.recorded(|recorder, switch| recorder.end(now, forwards, switch));
    }

    /// True if the recorder is copying the state of the switch.
    pub(crate) fn is_copying(&self) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.is_copying())
    }

    /// Records the start of an iteration, and with it [`RecordedSwitch::begin_iteration`].
    #[inline]
    pub(crate) fn record_iteration(&mut self, now: Instant, forwards: bool) {
        self.recorded(|recorder, switch| recorder.begin_iteration(now, forwards, switch));
    }

    #[inline]
    pub(crate) fn begin_iteration(&mut self, now: Instant) {
        if let Some(capture) = &mut self.capture {
            capture.begin_iteration(now);
        }
        self.switch.borrow_mut().begin_iteration(now);
    }

    #[inline]
    pub(crate) fn tick<M: FrameMemory>(&mut self, now: Instant, memory: &mut M) {
        let (switch, capture) = self.recorded_with_capture(|recorder, _| recorder.tick());
        match tapped(capture, memory) {
            Ok(mut tapped) => switch.tick(now, &mut tapped),
            Err(memory) => switch.tick(now, memory),
        }
    }

    #[inline]
    pub(crate) fn complete_all<M: FrameMemory>(
        &mut self,
        port: usize,
        frames: &mut Vec<FrameId>,
        now: Instant,
        memory: &mut M,
    ) {
        if let (Some(recorder), false) = (&mut self.recorder, frames.is_empty()) {
            recorder.completed(port, frames);
        }
        self.switch.borrow_mut().complete_all(port, frames.drain(..), now, memory);
    }

    pub(crate) fn kernel_lost<M: FrameMemory>(
        &mut self,
        port: usize,
        frames: &mut Vec<FrameId>,
        now: Instant,
        memory: &mut M,
    ) {
        let switch = self.recorded(|recorder, _| recorder.kernel_lost(port, frames));
        frames.drain(..).for_each(|frame| switch.kernel_lost(port, frame, now, memory));
    }

    #[inline]
    pub(crate) fn begin_batch<M: FrameMemory>(
        &mut self,
        port: usize,
        taken_at: Instant,
        arrivals: &[RxFrame],
        memory: &M,
    ) {
        let switch = self.recorded(|recorder, switch| {
            recorder.batch(taken_at);
            let with_priority = switch.settings().ports[port].classify.queue_is_priority;
            recorder.received(port, (header_bytes(switch, port), with_priority), arrivals, memory);
        });
        switch.begin_batch(taken_at);
        if let Some(capture) = &mut self.capture {
            capture.begin_batch(port, taken_at, arrivals, memory);
        }
    }

    /// Handles frames that [`RecordedSwitch::begin_batch`] has recorded: all of them, or only
    /// control frames where data is not forwarded any more.
    #[inline]
    pub(crate) fn receive_all<M: FrameMemory>(
        &mut self,
        arrivals: &mut Vec<RxFrame>,
        forwards: bool,
        now: Instant,
        memory: &mut M,
    ) {
        let switch = self.switch.borrow_mut();
        match tapped(&mut self.capture, memory) {
            Ok(mut tapped) => {
                handle(switch, arrivals, forwards, now, &mut tapped);
                tapped.capture.end_batch();
            }
            Err(memory) => handle(switch, arrivals, forwards, now, memory),
        }
    }

    /// Passes the frames that the switch punted to `deliver`. A replay takes them at the same time,
    /// after each batch.
    #[cold]
    pub(crate) fn take_punted<M: FrameMemory>(&mut self, memory: &mut M, deliver: impl FnMut(usize, &[u8])) {
        self.switch.borrow_mut().take_punted(memory, deliver);
    }

    #[inline]
    pub(crate) fn observe_rx_backlog(&mut self, port: usize, waiting: u32, now: Instant) {
        self.recorded(|recorder, _| recorder.waiting(port, waiting)).observe_rx_backlog(port, waiting, now);
    }

    pub(crate) fn kernel_dropped(&mut self, port: usize, frames: u64, now: Instant) {
        self.recorded(|recorder, _| recorder.kernel_dropped(port, frames)).kernel_dropped(port, frames, now);
    }

    #[cold]
    pub(crate) fn refused_frames(&mut self, port: usize, refused: &RefusedFrames) {
        self.recorded(|recorder, _| recorder.refused(port, refused)).refused_frames(port, refused);
    }

    pub(crate) fn stray_frames(&mut self, port: usize, frames: u64, now: Instant) {
        self.recorded(|recorder, _| recorder.stray(port, frames)).stray_frames(port, frames, now);
    }

    pub(crate) fn transmit_pfc<M: FrameMemory>(
        &mut self,
        port: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<TxDesc>,
    ) {
        let free_frames = memory.free_frames();
        self.switch.borrow_mut().transmit_pfc(port, now, memory, out);
        if let Some(recorder) = &mut self.recorder {
            recorder.pfc(port, free_frames, out);
        }
        if let Some(capture) = &mut self.capture {
            capture.transmitted(port, out, self.switch.borrow(), memory);
        }
    }

    #[inline]
    pub(crate) fn transmit<M: FrameMemory>(
        &mut self,
        port: usize,
        room: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<TxDesc>,
    ) -> bool {
        let free_frames = self.recorder.as_ref().map_or(0, |_| memory.free_frames());
        let has_edits = self.switch.borrow_mut().transmit(port, room, now, memory, out);
        if let Some(recorder) = &mut self.recorder {
            recorder.sent(port, free_frames, room, out);
        }
        if let Some(capture) = &mut self.capture {
            capture.transmitted(port, out, self.switch.borrow(), memory);
        }
        has_edits
    }

    pub(crate) fn record_guard_pfc(&mut self, port: usize, frames: &PfcCount, at: Instant) {
        self.recorded(|recorder, _| recorder.guard_pfc(port, frames, at)).record_guard_pfc(port, frames, at);
    }

    pub(crate) fn next_deadline(&mut self, now: Instant) -> Instant {
        self.recorded(|recorder, _| recorder.deadline(now)).next_deadline(now)
    }

    pub(crate) fn snapshot(&mut self, now: Instant, snapshot: &mut Snapshot) {
        self.recorded(|recorder, _| recorder.snapshot(now)).snapshot(now, snapshot);
    }

    pub(crate) fn reset_watermarks(&mut self, mark: WatermarkReset) {
        self.recorded(|recorder, _| recorder.watermarks(mark)).reset_watermarks(mark);
    }

    pub(crate) fn hold(&mut self, port: usize, on_hold: bool) {
        self.recorded(|recorder, _| recorder.hold(port, on_hold)).hold(port, on_hold);
    }

    #[cold]
    pub(crate) fn block_queues(&mut self, port: usize, queues: Set8, now: Instant) {
        self.recorded(|recorder, _| recorder.block_queues(port, queues, now)).block_queues(port, queues, now);
    }

    pub(crate) fn apply(&mut self, settings: &SwitchSettings, now: Instant) {
        self.recorded(|recorder, _| recorder.apply(settings, now)).apply(settings, now);
    }

    pub(crate) fn recover_storms<M: FrameMemory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        self.recorded(|recorder, _| recorder.recover_storms(port, now)).recover_storms(port, now, memory);
    }

    pub(crate) fn lift_storm_limit<M: FrameMemory>(
        &mut self,
        port: usize,
        priorities: Set8,
        now: Instant,
        memory: &mut M,
    ) {
        let switch = self.recorded(|recorder, _| recorder.lift_storm_limit(port, priorities, now));
        switch.lift_storm_limit(port, priorities, now, memory);
    }

    pub(crate) fn port_up(&mut self, port: usize, mac: MacAddr, now: Instant) {
        self.recorded(|recorder, _| recorder.port_up(port, mac, now)).port_up(port, Some(mac), now);
    }

    pub(crate) fn peer_address(&mut self, port: usize, mac: MacAddr, now: Instant) {
        self.recorded(|recorder, _| recorder.peer_address(port, mac, now)).peer_address(port, mac, now);
    }

    pub(crate) fn flush_fdb(&mut self, port: Option<usize>, vid: Option<u16>) {
        self.recorded(|recorder, _| recorder.flush_fdb(port, vid)).flush_fdb(port, vid);
    }

    pub(crate) fn port_down<M: FrameMemory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        let (switch, capture) = self.recorded_with_capture(|recorder, _| recorder.port_down(port, now));
        match tapped(capture, memory) {
            Ok(mut tapped) => switch.port_down(port, now, &mut tapped),
            Err(memory) => switch.port_down(port, now, memory),
        }
    }

    pub(crate) fn release_peer(&mut self, port: usize) {
        self.recorded(|recorder, _| recorder.release_peer(port)).release_peer(port);
    }

    pub(crate) fn abort_tx<M: FrameMemory>(
        &mut self,
        port: usize,
        frame: FrameId,
        now: Instant,
        memory: &mut M,
    ) {
        self.recorded(|recorder, _| recorder.abort_tx(port, &frame, now)).abort_tx(port, frame, now, memory);
    }

    pub(crate) fn stop(&mut self) {
        self.recorded(|recorder, _| recorder.stop()).stop();
    }

    pub(crate) fn flush<M: FrameMemory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        let (switch, capture) = self.recorded_with_capture(|recorder, _| recorder.flush(port, now));
        match tapped(capture, memory) {
            Ok(mut tapped) => switch.flush(port, now, &mut tapped),
            Err(memory) => switch.flush(port, now, memory),
        }
    }

    /// Takes the events since the last call, oldest first.
    pub(crate) fn drain_events(&mut self) -> impl Iterator<Item = (Instant, Event)> + '_ {
        let Self { switch, recorder, .. } = self;
        switch.borrow_mut().drain_events().inspect(move |&(at, event)| {
            if let Some(recorder) = recorder {
                recorder.event(at, event);
            }
        })
    }
}
