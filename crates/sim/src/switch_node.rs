//! A switch in the network: the daemon's switch, its frame memory, and a model of the daemon around
//! it.
//!
//! A chip acts at once: a frame that has arrived is switched, and whenever a link direction is idle
//! the next frame is sent. A software switch polls its ports once per iteration: it takes the
//! frames received since, hands frames to each link direction, and finds out which frames have been
//! sent. It runs the daemon's own [`Iteration`], over link directions. In both kinds, a frame gets
//! its marks and tags when its transmission starts.

use std::collections::VecDeque;

use config::{Negotiated, PortDcbx};
use dataplane::{Iteration, Port, RX_BATCH, RecordedSwitch};
use endpoint::feedback::HopRecord;
use switch::settings::StaticAddress;
use switch::{
    FrameId, FrameMemory as _, Instant, PortSettings, RxDesc, Switch, SwitchSettings, TxDesc, frames_needed,
};

use crate::event_queue::Event;
use crate::link::{LinkDirection, Links};
use crate::packet::frame_store::{FrameStore, SwitchMemory};
use crate::packet::{CARRIED_BYTES, Content, content, is_control, port_mac};
use crate::routes::multipath::{self, PathChooser};
use crate::scenario::{Forwarding, Scenario, SwitchNode};
use crate::time::{NEVER, NS, Picos, instant, of_ns, picos};
use crate::trace::queue_lengths::QueueLengths;

/// Interval at which a chip checks thresholds that other ports have moved, if frames move.
const TICK: Picos = 100 * NS;
/// Frames of memory for received frames that are rejected: a software loop takes a batch before it
/// processes any of it.
const SPARE_FRAMES: usize = RX_BATCH;

/// A switch as a node.
#[derive(Debug)]
pub(crate) struct SimSwitch {
    pub(crate) number: usize,
    pub(crate) node: usize,
    pub(crate) switch: Switch,
    memory: SwitchMemory,
    memory_frames: usize,
    ports: Vec<PortLine>,
    /// The ports as configured, before anything was agreed on.
    file_ports: Vec<PortSettings>,
    /// By number of a frame of memory: when the frame arrived, if latencies are measured.
    arrived_at: Option<Vec<Picos>>,
    /// Its choice among several paths; `None` if addresses alone decide.
    pub(crate) paths: Option<PathChooser>,
    /// Model of the poll loop; `None` for a chip.
    software: Option<PollingSwitch>,
    /// Time of the last iteration or tick.
    last_poll: Picos,
    /// True if an iteration or tick is planned.
    poll_is_scheduled: bool,
    /// Time of the next check by a watchdog; never, if there is no watchdog.
    watch_at: Picos,
    has_watchdog: bool,
    /// Events of the watchdogs.
    pub(crate) reported: Vec<(Instant, switch::Event)>,
    /// Lengths of its queues, if they are measured.
    pub(crate) lengths: Option<QueueLengths>,
    outgoing: Vec<TxDesc>,
    /// Frames that arrived, PFC included.
    pub(crate) received: u64,
}

/// The outgoing link directions of a node.
fn lines_from(node: usize, wires: &Links) -> impl Iterator<Item = &LinkDirection> {
    wires.directions.iter().filter(move |line| line.from.node == node)
}

/// True if the latency in a switch is measured: in a chip, and not of frames that may be copies.
fn measures_latency(scenario: &Scenario, turn: Picos) -> bool {
    scenario.latency && turn == 0 && scenario.forwarding == Forwarding::ShortestPath
}

/// Returns the settings of the switch of node `node`.
fn switch_settings(node: usize, settings: &SwitchNode, scenario: &Scenario, wires: &Links) -> SwitchSettings {
    let mut settings = settings.settings.clone();
    settings.seed = scenario.seed.wrapping_add((node as u64) << 32);
    // At most as many addresses as nodes are learned, and a larger table does not fit the cache.
    // The limit per port is unchanged. Static entries of all hosts have room in any case.
    let nodes = scenario.nodes.len();
    settings.bridge.max_entries = match scenario.forwarding {
        Forwarding::ShortestPath => nodes,
        Forwarding::Learning => settings.bridge.max_entries.min(nodes),
    };
    for line in lines_from(node, wires) {
        let port = &mut settings.ports[line.from.port];
        // The link limits the rate. A port without a configured speed counts pause quanta at the
        // speed of its link.
        port.speed_bps.get_or_insert(line.speed_bps());
        port.rate_limited = false;
    }
    settings
}

/// State of a software switch that a chip does not have.
#[derive(Debug)]
struct PollingSwitch {
    turn: Iteration,
    /// Time from one iteration to the next.
    every: Picos,
}

/// State between a port of the switch and its link. What a chip needs is in the first cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct PortLine {
    /// The outgoing link direction, if the port has a link.
    line: Option<usize>,
    /// The frame that is being sent.
    sending: Option<TxDesc>,
    /// For a software switch: frames queued at the link, frames received, and frames sent since the
    /// last iteration.
    at_link: VecDeque<TxDesc>,
    /// Received frames: number in the network, and length.
    rx_queue: VecDeque<(u32, u16)>,
    tx_done: Vec<TxDesc>,
}

impl SimSwitch {
    /// Creates switch number `number` of the network, node `node` of the scenario, in which the
    /// hosts are in these VLANs. Ports without a link are down.
    pub(crate) fn new(
        (number, node): (usize, usize),
        settings: &SwitchNode,
        scenario: &Scenario,
        vids: &[u16],
        wires: &Links,
    ) -> Self {
        let every = of_ns(settings.turn_ns);
        let paths = PathChooser::new(settings.multipath, scenario.seed, node);
        let dcbx = &settings.dcbx;
        let file = switch_settings(node, settings, scenario, wires);
        let mut settings = file.clone();
        if paths.is_some() {
            settings.bridge.max_entries += settings.ports.len() * vids.len(); // addresses that stand for ports
        }
        for (port, dcbx) in settings.ports.iter_mut().zip(dcbx) {
            if let Some(dcbx) = dcbx {
                *port = dcbx.apply(port, None);
            }
        }
        let memory_frames = frames_needed(&settings, usize::MAX) + SPARE_FRAMES;
        let macs: Vec<_> = (0..settings.ports.len()).map(|port| port_mac(node, port)).collect();
        let mut ports: Vec<_> = macs.iter().map(|_| PortLine::default()).collect();
        lines_from(node, wires).for_each(|line| ports[line.from.port].line = Some(line.number));
        let mut switch = Switch::with_growing_memory(&settings, &macs, memory_frames);
        if paths.is_some() {
            for (port, vid) in (0..ports.len()).flat_map(|port| vids.iter().map(move |vid| (port, *vid))) {
                switch.set_static(StaticAddress { mac: multipath::port_address(port), vid }, port);
            }
        }
        let mut memory = SwitchMemory::new(memory_frames);
        for port in (0..ports.len()).filter(|&port| ports[port].line.is_none()) {
            switch.port_down(port, Instant(0), &mut memory);
        }
        Self {
            number,
            node,
            switch,
            memory,
            memory_frames,
            arrived_at: measures_latency(scenario, every).then(Vec::new),
            paths,
            software: (every > 0)
                .then(|| PollingSwitch { turn: Iteration::new(vec![false; ports.len()]), every }),
            ports,
            last_poll: 0,
            poll_is_scheduled: false,
            watch_at: NEVER,
            has_watchdog: file.needs_timer(),
            file_ports: file.ports,
            reported: Vec::new(),
            lengths: scenario.queue_lengths.then(|| QueueLengths::new(scenario)),
            outgoing: Vec::new(),
            received: 0,
        }
    }

    /// Handles a frame received on `port`, or a PFC frame that is honored there now: its number and
    /// length. [`SimSwitch::act`] follows.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        port: usize,
        (frame, len): (u32, u16),
        now: Picos,
        frames: &mut Box<FrameStore>,
    ) {
        self.received += 1;
        if let Some(paths) = &mut self.paths {
            // A port that is down has empty queues, but is the last choice.
            let switch = &self.switch;
            let queued = |port| if switch.is_up(port) { switch.queued_cells(port) } else { u32::MAX };
            paths.direct(frames.bytes_mut(frame), queued);
        }
        if self.software.is_some() {
            return self.ports[port].rx_queue.push_back((frame, len));
        }
        let received = take(&mut self.memory, frame, len);
        if let Some(arrived_at) = &mut self.arrived_at {
            let frame = received.frame.index();
            arrived_at.resize(arrived_at.len().max(frame + 1), NEVER);
            arrived_at[frame] = now;
        }
        self.memory.with(frames, |memory| self.switch.receive(port, received, instant(now), memory));
    }

    /// Handles the end of a transmission on an outgoing link direction.
    #[inline]
    pub(crate) fn line_free(&mut self, port: usize, wires: &mut Links) {
        let Some(sent) = self.ports[port].sending.take() else { return };
        if self.software.is_none() {
            let now = instant(wires.now);
            let complete = |memory: &mut _| self.switch.complete(port, sent.frame, now, memory);
            self.memory.with(&mut wires.frames, complete);
            self.transmit(port, wires);
        } else {
            self.ports[port].tx_done.push(sent);
            self.send_next(port, wires);
        }
        self.act(wires);
    }

    /// Handles a time that [`Switch::deadline_of`] returned.
    pub(crate) fn wake(&mut self, port: usize, wires: &mut Links) {
        if self.software.is_none() {
            self.transmit(port, wires);
        }
        self.act(wires);
    }

    /// Acts after an event at a port. A chip sends on ports that have something new, and checks
    /// moved thresholds, but not each time. A software switch plans an iteration.
    #[inline]
    pub(crate) fn act(&mut self, wires: &mut Links) {
        if self.software.is_some() {
            return self.plan_turn(wires);
        }
        self.transmit_fresh(wires);
        self.plan_watch(wires);
        self.measure_lengths(wires.now);
        if self.switch.is_watching() && !self.poll_is_scheduled {
            self.poll_is_scheduled = true;
            let at = (self.last_poll + TICK).max(wires.now);
            wires.queue.schedule(at, self.node, Event::Tick(self.number));
        }
    }

    /// Plans the next check by a watchdog, which is due independently of other events.
    #[inline]
    fn plan_watch(&mut self, wires: &mut Links) {
        if self.has_watchdog {
            let of_watchdog = |(_, event): &(Instant, switch::Event)| {
                matches!(
                    event,
                    switch::Event::StormBegan { .. }
                        | switch::Event::StormEnded { .. }
                        | switch::Event::RecoveryPending { .. }
                        | switch::Event::StormLimitReached { .. }
                        | switch::Event::EarlyWarning { .. }
                        | switch::Event::EarlyWarningCleared { .. }
                )
            };
            self.reported.extend(self.switch.drain_events().filter(of_watchdog));
            let at = picos(self.switch.next_tick());
            if at < self.watch_at {
                self.watch_at = at;
                wires.queue.schedule(at.max(wires.now), self.node, Event::WatchdogPoll(self.number));
            }
        }
    }

    /// Runs a check by a watchdog: at once in a chip, in the next iteration of a software switch.
    pub(crate) fn poll(&mut self, wires: &mut Links) {
        self.watch_at = NEVER;
        if self.software.is_some() {
            return self.plan_turn(wires);
        }
        let now = instant(wires.now);
        self.memory.with(&mut wires.frames, |memory| self.switch.tick(now, memory));
        self.act(wires);
    }

    /// Checks thresholds of a chip that other ports have moved.
    pub(crate) fn tick(&mut self, wires: &mut Links) {
        (self.poll_is_scheduled, self.last_poll) = (false, wires.now);
        let now = instant(wires.now);
        self.memory.with(&mut wires.frames, |memory| self.switch.tick(now, memory));
        self.transmit_fresh(wires);
        self.plan_watch(wires);
        self.measure_lengths(wires.now);
    }

    /// Notes the lengths that queues have from now on.
    #[inline]
    pub(crate) fn measure_lengths(&mut self, now: Picos) {
        if let Some(lengths) = &mut self.lengths {
            (0..self.ports.len()).for_each(|port| lengths.set(port, self.switch.queue_cells(port), now));
        }
    }

    /// Sends on ports of a chip that have something new.
    #[inline]
    fn transmit_fresh(&mut self, wires: &mut Links) {
        let mut ports = self.switch.take_newly_pending();
        while ports != 0 {
            self.transmit(ports.trailing_zeros() as usize, wires);
            ports &= ports - 1;
        }
    }

    /// Sends the next frame of a chip's port, if its link direction is idle.
    #[inline]
    fn transmit(&mut self, port: usize, wires: &mut Links) {
        let Some(line) = self.ports[port].line else { return };
        if self.switch.ports_with_work() & 1 << port == 0 || !wires.is_idle(line) {
            return;
        }
        let now = instant(wires.now);
        let transmit = |memory: &mut _| self.switch.transmit(port, 1, now, memory, &mut self.outgoing);
        self.memory.with(&mut wires.frames, transmit);
        match self.outgoing.pop() {
            Some(outgoing) => self.send(port, line, outgoing, wires),
            None => {
                let deadline = self.switch.deadline_of(port, now);
                wires.wake(line, picos(deadline).max(wires.now + NS));
            }
        }
    }

    #[inline]
    fn send(&mut self, port: usize, line: usize, outgoing: TxDesc, wires: &mut Links) {
        let edit = |memory: &mut _| outgoing.edit.apply(memory, &outgoing.frame, outgoing.len);
        self.memory.with(&mut wires.frames, edit);
        let frame = self.memory.hand_over(&outgoing.frame);
        let bytes = wires.frames.bytes(frame);
        if let (Some(arrived_at), Some(log)) = (&mut self.arrived_at, &mut wires.latency)
            && let Some(arrived) = arrived_at.get_mut(outgoing.frame.index())
            && let (false, Content::Data { flow, .. }) = (is_control(bytes), content(bytes))
            && *arrived != NEVER
        {
            log.left(flow, line, std::mem::replace(arrived, NEVER), wires.now);
        }
        if let Some(int) = &mut wires.int {
            let direction = &wires.directions[line];
            let cell_bytes = u64::from(self.switch.settings().buffer.cell_bytes);
            let own_cells = u64::from(outgoing.len).div_ceil(cell_bytes);
            let queued_cells = u64::from(self.switch.queued_cells(port)).saturating_sub(own_cells);
            int.left(bytes, || HopRecord {
                link: line as u32,
                queue_bytes: queued_cells * cell_bytes,
                tx_bytes: direction.counts.bytes,
                at: instant(wires.now),
                speed_bps: direction.speed_bps(),
            });
        }
        wires.send_stored(line, outgoing.len, frame);
        wires.report_end(line); // its cells are released then
        self.ports[port].sending = Some(outgoing);
    }

    /// Sends the first frame that a software switch has queued at a link, if the direction is idle.
    fn send_next(&mut self, port: usize, wires: &mut Links) {
        let PortLine { line: Some(line), at_link: with_line, .. } = &mut self.ports[port] else { return };
        let line = *line;
        if wires.is_idle(line)
            && let Some(outgoing) = with_line.pop_front()
        {
            self.send(port, line, outgoing, wires);
        }
    }

    /// Plans the next iteration of a software switch, one interval after the last.
    fn plan_turn(&mut self, wires: &mut Links) {
        if let (Some(PollingSwitch { every, .. }), false) = (&self.software, self.poll_is_scheduled) {
            self.poll_is_scheduled = true;
            let at = (self.last_poll + every).max(wires.now);
            wires.queue.schedule(at, self.node, Event::Iterate(self.number));
        }
    }

    /// Runs an iteration of a software switch.
    pub(crate) fn turn(&mut self, wires: &mut Links) {
        (self.poll_is_scheduled, self.last_poll) = (false, wires.now);
        let now = instant(wires.now);
        let Some(PollingSwitch { turn, .. }) = &mut self.software else { return };
        let mut switch = RecordedSwitch::new(&mut self.switch);
        let run = |memory: &mut _| turn.run(&mut switch, &mut self.ports, memory, now, &|| now);
        self.memory.with(&mut wires.frames, run);
        for port in 0..self.ports.len() {
            self.send_next(port, wires);
        }
        let has_more = |port: &PortLine| !port.rx_queue.is_empty() || !port.tx_done.is_empty();
        if self.ports.iter().any(has_more) || self.switch.is_watching() {
            self.plan_turn(wires);
        }
        self.plan_watch(wires);
        self.measure_lengths(wires.now);
        for port in 0..self.ports.len() {
            let deadline = self.switch.deadline_of(port, now);
            if let Some(line) = self.ports[port].line {
                wires.wake(line, picos(deadline).max(wires.now + NS));
            }
        }
    }

    /// Applies what was agreed with the peer of a port, as the daemon does.
    pub(crate) fn apply_negotiated(
        &mut self,
        port: usize,
        dcbx: &PortDcbx,
        agreed: &Negotiated,
        wires: &mut Links,
    ) {
        let mut settings = self.switch.settings().clone();
        settings.ports[port] = dcbx.apply(&self.file_ports[port], Some(agreed));
        self.switch.apply(&settings, instant(wires.now));
        self.act(wires);
    }

    /// Handles a cut cable of a port: frames that wait for it, or are queued at the link, are
    /// dropped.
    pub(crate) fn port_down(&mut self, port: usize, wires: &mut Links) {
        let now = instant(wires.now);
        self.memory.with(&mut wires.frames, |memory| {
            self.switch.port_down(port, now, memory);
            // The frame that is being sent has left the switch: it is lost on the cable.
            for unsent in self.ports[port].at_link.drain(..) {
                self.switch.abort_tx(port, unsent.frame, now, memory);
            }
        });
        self.act(wires);
    }

    /// Handles the repair of a port's cable.
    pub(crate) fn port_up(&mut self, port: usize, wires: &mut Links) {
        self.switch.port_up(port, None, instant(wires.now));
        self.act(wires);
    }

    /// Counts the frames held: in queues, queued at links, and not yet processed.
    pub(crate) fn frames_held(&self) -> u64 {
        let arrived: usize = self.ports.iter().map(|port| port.rx_queue.len()).sum();
        (self.switch.frames_held() + arrived) as u64
    }

    /// The number of frames held whose bytes are this switch's, not yet a link's.
    pub(crate) fn stored_frames(&self) -> u64 {
        let arrived: usize = self.ports.iter().map(|port| port.rx_queue.len()).sum();
        (self.memory.stored() + arrived) as u64
    }

    /// Counts the data frames that the switch has counted as received and not as sent or dropped,
    /// including those that are being sent.
    pub(crate) fn data_frames_held(&self) -> u64 {
        let mut frames = 0;
        self.switch.for_each_queued(|_, _| frames += 1);
        for PortLine { sending, at_link: with_line, tx_done: landed, .. } in &self.ports {
            let handed_out = sending.iter().chain(with_line).chain(landed);
            // PFC frames count as no data.
            let is_data = |sent: &&TxDesc| self.switch.frame_len(sent.frame.index()) > 0;
            frames += handed_out.filter(is_data).count() as u64;
        }
        frames
    }

    /// Visits every frame held that is not being sent, for each link direction by which it, or a
    /// copy of it, is to leave; `None` for a frame that is not processed yet.
    pub(crate) fn for_each_held(
        &self,
        frames: &FrameStore,
        mut poll: impl FnMut(Option<usize>, &[u8; CARRIED_BYTES]),
    ) {
        self.switch.for_each_queued(|port, frame| {
            if let Some(line) = self.ports[port].line {
                poll(Some(line), frames.bytes(self.memory.number(frame)));
            }
        });
        for PortLine { line, at_link: with_line, rx_queue: arrived, .. } in &self.ports {
            with_line.iter().for_each(|sent| poll(*line, frames.bytes(self.memory.number(&sent.frame))));
            arrived.iter().for_each(|(frame, _)| poll(None, frames.bytes(*frame)));
        }
    }

    /// Moves the frames that it holds to another store.
    pub(crate) fn move_frames(&mut self, from: &FrameStore, to: &mut FrameStore) {
        self.memory.move_frames(from, to);
        for (frame, _) in self.ports.iter_mut().flat_map(|port| &mut port.rx_queue) {
            *frame = to.put(from.bytes(*frame)).unwrap_or(*frame);
        }
    }

    /// The number of frames of memory that are neither free nor held. If it is not 0, a frame was
    /// lost or exists twice.
    pub(crate) fn unaccounted_frames(&self) -> i64 {
        let used = self.memory_frames - self.memory.free_frames();
        used as i64 - self.switch.frames_held() as i64
    }
}

impl Port for PortLine {
    type Memory = SwitchMemory;

    fn receive(&mut self, memory: &mut SwitchMemory, _now: Instant, max: usize, out: &mut Vec<RxDesc>) {
        let batch = max.min(self.rx_queue.len());
        out.extend(self.rx_queue.drain(..batch).map(|(frame, len)| take(memory, frame, len)));
    }

    /// The switch limits the bytes queued at a link.
    fn rx_waiting(&self) -> u32 {
        self.rx_queue.len() as u32
    }

    fn transmit_room(&self) -> usize {
        usize::MAX
    }

    /// The frames are sent one by one, as the link becomes idle.
    fn transmit(&mut self, _memory: &mut Self::Memory, frames: &mut Vec<TxDesc>) {
        self.at_link.extend(frames.drain(..));
    }

    /// Edits are made when the transmission starts.
    fn applies_edits(&self) -> bool {
        true
    }

    fn complete(&mut self, out: &mut Vec<FrameId>) {
        out.extend(self.tx_done.drain(..).map(|sent| sent.frame));
    }

    fn outstanding(&self) -> usize {
        usize::from(self.sending.is_some()) + self.at_link.len() + self.tx_done.len()
    }

    fn close(&mut self, _memory: &mut SwitchMemory, unsent: &mut Vec<FrameId>) -> bool {
        self.complete(unsent);
        unsent.extend(self.sending.take().into_iter().chain(self.at_link.drain(..)).map(|sent| sent.frame));
        self.rx_queue.clear();
        true
    }
}

/// Takes a received frame into memory.
#[inline]
fn take(memory: &mut SwitchMemory, frame: u32, len: u16) -> RxDesc {
    // The switch drops frames before the memory for its cells runs out; the spare frames are for
    // these.
    RxDesc::new(memory.take(frame).expect("memory for every cell"), len)
}

#[cfg(test)]
mod tests;
