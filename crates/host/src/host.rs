//! A host: its egress, its receiver and its port, and the iteration of the loop that connects them.
//!
//! ```text
//!            begin                 all has left, or it is time           linger_ns passed
//!   Waiting ───────▶ Sending ──────────────────────────────▶ Lingering ──────────────────▶ Done
//!      └──────────────────┴───────────┬───────────────────────────┘                         ▲
//!                                     │ stop                 nothing is on its way out      │
//!                                     └───────▶ Stopping ───────────────────────────────────┘
//! ```
//!
//! An iteration takes completions and all received frames, processes these (PFC frames among them),
//! and then sends. So a pause that has arrived is known before anything is sent, even behind a ring
//! full of data: hardware also honors it before its memory. The frames held by the kernel are
//! bounded: at most [`IN_FLIGHT_BYTES`](crate::in_flight::IN_FLIGHT_BYTES) leave late.

mod negotiation;
mod send;

use self::negotiation::Negotiation;
use crate::args::{DcbxArg, FlowArgs};
use crate::egress::{Egress, FlowQueue};
use crate::in_flight::{FrameContent, IN_FLIGHT_FRAMES, InFlight, LoadKind};
use crate::pacer::Pacer;
use crate::receiver::{MAX_FLOWS, Receiver, Request};
use crate::report::{FlowSent, HostReport, Pause};
use dataplane::Port;
use endpoint::MAX_BACKLOG_FRAMES;
use endpoint::dcqcn::{Dcqcn, DcqcnSettings};
use switch::pfc::rx::quanta_ns;
use switch::settings::{ASSUMED_SPEED_BPS, PRIORITIES};
use switch::{FrameId, FrameMemory, Instant, KernelCounters, Nanos, RxDesc, TxDesc};
use wire::MacAddr;
use wire::ethernet::{Header, LLDP, MAC_CONTROL};
use wire::pause::{Control, Pfc, decode};

/// Frames taken from the port at once.
const RECEIVE_BATCH: usize = 256;
/// The most frames taken in one iteration: more than the RX ring holds, and limited so that a flood
/// cannot prevent the host from sending indefinitely.
const RECEIVE_MAX: usize = 16_384;
/// Bytes of the longest frame that a host with a standard MTU sends.
const ORDINARY_BYTES: usize = 1514;
/// Poll interval while the kernel holds frames, since completions wake no thread.
const COMPLETION_NS: Nanos = 50_000;
/// Reaction of flows to congestion marks.
const DCQCN: DcqcnSettings = DcqcnSettings::SOFTWARE_LOOP;
/// The most CNPs that wait to be sent: two for each flow. There are more only if none could be sent
/// for as long.
const MAX_CNPS: usize = 2 * MAX_FLOWS;

/// Settings of a host: its address, what it sends, what it honors.
#[derive(Debug, Clone)]
pub struct HostSettings {
    /// Name of the interface, for the report.
    pub interface: String,
    /// MAC address of the host.
    pub mac: MacAddr,
    /// The flows that the host sends.
    pub flows: Vec<FlowArgs>,
    /// Egress speed of the host itself.
    pub speed_bps: Option<u64>,
    /// Bit i is set if a pause of priority i is honored. With DCBX these are the priorities that
    /// the host asks for, and later those that are agreed on.
    pub honored: u8,
    /// How the host negotiates; `None` if it does not.
    pub dcbx: Option<DcbxArg>,
    /// True if 802.3x PAUSE is honored, which pauses all priorities.
    pub honors_pause: bool,
    /// Bit i is set if priority i of the peer is paused while the host sends, as often as the port
    /// accepts frames.
    pub stormed: u8,
    /// True if the host answers congestion marks with CNPs, and its own flows slow down on CNPs.
    pub reacts: bool,
    /// Time between reading a pause and stopping.
    pub reaction_delay_ns: Nanos,
    /// Duration of sending (without flows, of the run); `None` without flows means until the host
    /// is stopped.
    pub duration_ns: Option<Nanos>,
    /// How long the host waits for frames that still arrive.
    pub linger_ns: Nanos,
    /// Number of this run, which distinguishes its frames from those of an earlier run.
    pub run: u32,
}

/// State of a host; see the top of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostState {
    Waiting,
    Sending { give_up_at: Instant },
    Lingering { until: Instant },
    Stopping { until: Instant },
    Done,
}

/// A host on a port.
#[derive(Debug)]
pub struct Host<P: Port> {
    settings: HostSettings,
    port: P,
    memory: P::Memory,
    stage: HostState,
    /// When the host began to send; until then, when it was created.
    since: Instant,
    /// When a sender had sent everything, or the host was stopped.
    sent_at: Option<Instant>,
    egress: Egress,
    sent: Vec<Sent>,
    receiver: Receiver,
    pauses: [Pause; PRIORITIES],
    in_flight: InFlight,
    /// `None` if the host does not negotiate.
    negotiation: Option<Negotiation>,
    /// True once the host has withdrawn what it advertised.
    has_withdrawn: bool,
    announcements: u64,
    announce_at: Instant,
    /// CNPs to send (destination, flow, run); at most [`MAX_CNPS`].
    cnps: Vec<(MacAddr, u32, u32)>,
    cnps_sent: u64,
    cnps_received: u64,
    pfc_received: u64,
    pause_received: u64,
    pfc_sent: u64,
    /// When the storm of the host ends, if it sends one.
    storm_until: Instant,
    control_ignored: u64,
    /// The kernel's counters when the port was closed.
    closed_counters: Option<KernelCounters>,
    // Emptied in each iteration; kept to avoid allocations.
    received: Vec<RxDesc>,
    outgoing: Vec<TxDesc>,
    completed: Vec<FrameId>,
}

/// The sender's counters of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    next_sequence: u64,
    frames: u64,
    bytes: u64,
}

impl<P: Port> Host<P> {
    /// Creates a host on `port`, whose frames are in `memory` and numbered below `frames`. It
    /// announces itself and waits.
    pub fn new(settings: HostSettings, port: P, memory: P::Memory, frames: usize, now: Instant) -> Self {
        let loads = vec![FrameContent::default(); frames];
        let longest_bytes =
            settings.flows.iter().map(|flow| usize::from(flow.size_bytes)).fold(ORDINARY_BYTES, usize::max);
        let negotiation = settings
            .dcbx
            .map(|dcbx| Negotiation::new(dcbx, settings.mac, &settings.interface, settings.honored, now));
        let honored = if negotiation.is_some() { 0 } else { settings.honored };
        Self {
            negotiation,
            has_withdrawn: false,
            egress: Egress::new(settings.speed_bps, settings.reaction_delay_ns, now),
            sent: vec![Sent::default(); settings.flows.len()],
            receiver: Receiver::new(settings.mac, settings.reacts.then_some(DCQCN.cnp_interval_ns), now),
            cnps: Vec::with_capacity(MAX_CNPS),
            cnps_sent: 0,
            cnps_received: 0,
            pauses: std::array::from_fn(|priority| Pause { priority: priority as u8, ..Pause::default() }),
            in_flight: InFlight {
                loads,
                bytes: 0,
                is_bounded: true,
                longest_bytes,
                frames: 0,
                by_priority: [0; PRIORITIES],
            },
            settings: HostSettings { honored, ..settings },
            port,
            memory,
            stage: HostState::Waiting,
            since: now,
            sent_at: None,
            announcements: 0,
            announce_at: now,
            pfc_received: 0,
            pause_received: 0,
            pfc_sent: 0,
            storm_until: Instant::default(),
            control_ignored: 0,
            closed_counters: None,
            received: Vec::with_capacity(RECEIVE_BATCH),
            outgoing: Vec::with_capacity(IN_FLIGHT_FRAMES),
            completed: Vec::with_capacity(IN_FLIGHT_FRAMES),
        }
    }

    /// Lets the port hold as many frames as its queues take: a queue that is full holds back its
    /// priority alone, where a bound over all would hold back every one.
    pub fn with_queues_of_port(mut self) -> Self {
        self.in_flight.is_bounded = false;
        self
    }

    /// Has a received frame end the sleep that follows. Returns false if one is there already.
    pub fn prepare_sleep(&mut self) -> bool {
        self.port.prepare_sleep();
        !self.port.has_pending()
    }

    /// Ends what [`Host::prepare_sleep`] began.
    pub fn cancel_sleep(&mut self) {
        self.port.cancel_sleep();
    }

    /// True if the host's address has been announced.
    pub fn is_ready(&self) -> bool {
        self.announcements > 0
    }

    /// True if the host waits for `begin`.
    pub fn is_waiting(&self) -> bool {
        self.stage == HostState::Waiting
    }

    /// True if everything is sent or discarded, and the time for late arrivals has passed.
    pub fn is_done(&self) -> bool {
        self.stage == HostState::Done
    }

    /// True if the interface is up.
    pub fn is_up(&self) -> bool {
        self.port.is_up()
    }

    /// Begins the flows at `now`.
    pub fn begin(&mut self, now: Instant) {
        let stop = self.settings.duration_ns.map_or(Instant::NEVER, |duration| now + duration);
        for flow in &self.settings.flows {
            let start = now + flow.start_ns;
            let pace =
                Pacer::new(flow.size_bytes, flow.rate_bps, start, stop, flow.count, MAX_BACKLOG_FRAMES);
            let reacts = self.settings.reacts && flow.ecn.is_some();
            let reaction = reacts.then(|| Dcqcn::new(DCQCN, flow.rate_bps, now));
            let FlowArgs { priority, size_bytes, .. } = *flow;
            self.egress.add(FlowQueue { pace, reaction, priority, size_bytes });
        }
        self.since = now;
        if self.settings.stormed != 0 {
            self.storm_until = stop;
        }
        // Frames that wait at the end of the duration still leave, if they can do so soon.
        let grace = if self.settings.flows.is_empty() { 0 } else { self.settings.linger_ns };
        self.stage = HostState::Sending { give_up_at: stop + grace };
    }

    /// Stops sending. The host is done once no frame is in flight, or `linger_ns` later.
    pub fn stop(&mut self, now: Instant) {
        if !matches!(self.stage, HostState::Stopping { .. } | HostState::Done) {
            self.sent_at.get_or_insert(now);
            self.stage = HostState::Stopping { until: now + self.settings.linger_ns };
        }
    }

    /// Runs the first part of an iteration: completions, and received frames. Returns the time
    /// afterwards.
    pub fn receive(&mut self, clock: impl Fn() -> Instant) -> Instant {
        self.count_completed();
        let mut received_none = true;
        for _ in 0..RECEIVE_MAX / RECEIVE_BATCH {
            self.port.receive(&mut self.memory, clock(), RECEIVE_BATCH, &mut self.received);
            received_none &= self.received.is_empty();
            self.process_received(clock());
            if self.port.rx_waiting() == 0 {
                break;
            }
        }
        let now = clock();
        self.change_stage(now, received_none);
        now
    }

    fn count_completed(&mut self) {
        self.port.complete(&mut self.completed);
        self.port.take_lost(&mut self.completed);
        for frame in self.completed.drain(..) {
            let load = self.in_flight.remove(&frame);
            match load.kind {
                LoadKind::Flow(flow) => {
                    let sent = &mut self.sent[usize::from(flow)];
                    sent.frames += 1;
                    sent.bytes += u64::from(load.len);
                }
                LoadKind::Announcement => self.announcements += 1,
                LoadKind::Cnp => self.cnps_sent += 1,
                LoadKind::Storm => self.pfc_sent += 1,
                LoadKind::Lldp => {
                    self.negotiation.iter_mut().for_each(|negotiation| negotiation.sent += 1);
                }
            }
            self.memory.free(frame);
        }
    }

    /// Processes the received frames, as of `now`.
    fn process_received(&mut self, now: Instant) {
        let mut received = std::mem::take(&mut self.received);
        for RxDesc { frame, len, .. } in received.drain(..) {
            let bytes = self.memory.bytes(&frame, usize::from(len));
            match Header::parse(bytes).ok() {
                Some(header) if header.ethertype == MAC_CONTROL => match decode(bytes) {
                    Ok(Control::Pfc(pfc)) => {
                        self.pfc_received += 1;
                        self.receive_pfc(pfc, now);
                    }
                    Ok(Control::Pause { quanta }) if self.settings.honors_pause => {
                        self.pause_received += 1;
                        (0..PRIORITIES).for_each(|priority| self.receive_pause(priority, quanta, now));
                    }
                    _ => self.control_ignored += 1,
                },
                Some(header) if header.ethertype == LLDP && self.negotiation.is_some() => {
                    let negotiation = &mut self.negotiation;
                    self.memory.whole(&frame, usize::from(len), |bytes| {
                        negotiation.iter_mut().for_each(|it| it.receive(bytes, now));
                        false
                    });
                }
                header => {
                    let mut request = None;
                    self.memory.whole(&frame, usize::from(len), |bytes| {
                        request = self.receiver.receive(bytes, header.as_ref(), now);
                        false
                    });
                    self.execute_request(request, now);
                }
            }
            self.memory.free(frame);
        }
        self.received = received;
    }

    /// Executes the request of a received frame.
    fn execute_request(&mut self, request: Option<Request>, now: Instant) {
        match request {
            Some(Request::SendCnp { to, flow, run }) if self.cnps.len() < MAX_CNPS => {
                self.cnps.push((to, flow, run));
            }
            Some(Request::Cut { flow, run }) => {
                self.cnps_received += 1;
                if run == self.settings.run {
                    self.egress.cut(flow as usize, now);
                }
            }
            Some(Request::SendCnp { .. }) | None => {}
        }
    }

    fn receive_pfc(&mut self, pfc: Pfc, now: Instant) {
        for (priority, quanta) in pfc.quanta.into_iter().enumerate() {
            if pfc.enable & 1 << priority == 0 {
                continue;
            }
            let count = &mut self.pauses[priority];
            *if quanta == 0 { &mut count.xon } else { &mut count.xoff } += 1;
            if self.settings.honored & 1 << priority != 0 {
                self.receive_pause(priority, quanta, now);
            }
        }
    }

    fn receive_pause(&mut self, priority: usize, quanta: u16, now: Instant) {
        let speed_bps = self.settings.speed_bps.unwrap_or(ASSUMED_SPEED_BPS);
        let was_paused = self.egress.is_paused(priority);
        self.egress.receive_pause(priority, quanta_ns(quanta, speed_bps), now);
        self.record_late_frames(priority, was_paused);
    }

    /// Records the frames of a priority in the kernel if its pause has just begun: they leave late.
    fn record_late_frames(&mut self, priority: usize, was_paused: bool) {
        if !was_paused && self.egress.is_paused(priority) {
            let peak = &mut self.pauses[priority].late_frames_peak;
            *peak = (*peak).max(self.in_flight.by_priority[priority]);
        }
    }

    fn change_stage(&mut self, now: Instant, received_none: bool) {
        let linger = HostState::Lingering { until: now + self.settings.linger_ns };
        self.stage = match self.stage {
            HostState::Sending { give_up_at } if now >= give_up_at => linger,
            HostState::Sending { .. } if self.all_sent(now) => linger,
            HostState::Lingering { until } if now >= until => HostState::Done,
            HostState::Stopping { until } if now >= until => HostState::Done,
            HostState::Stopping { .. } if self.in_flight.frames == 0 && received_none => HostState::Done,
            stage => stage,
        };
        let over = !matches!(self.stage, HostState::Waiting | HostState::Sending { .. });
        if over && !self.settings.flows.is_empty() {
            self.sent_at.get_or_insert(now);
        }
    }

    /// True if a sender's flows and storm are over, and none of their frames is with the kernel.
    fn all_sent(&self, now: Instant) -> bool {
        !self.settings.flows.is_empty()
            && self.egress.is_finished()
            && now >= self.storm_until
            && self.in_flight.frames == 0
    }

    /// Returns when the next iteration has work without received frames. At or before `now` means
    /// at once.
    pub fn next_turn(&self, now: Instant) -> Instant {
        let (stage, sending) = match self.stage {
            HostState::Waiting | HostState::Done => (Instant::NEVER, None),
            HostState::Sending { .. } if self.all_sent(now) || self.storms(now) => (now, None),
            HostState::Stopping { .. } if self.in_flight.frames == 0 => (now, None),
            HostState::Sending { give_up_at } => (give_up_at, self.egress.next_send(now)),
            HostState::Lingering { until } | HostState::Stopping { until } => (until, None),
        };
        let announcing = match self.stage {
            HostState::Waiting => self.announce_at,
            HostState::Sending { .. } if self.settings.flows.is_empty() => self.announce_at,
            _ => Instant::NEVER,
        };
        // Without room, due frames wait for a completion.
        let sending = sending.filter(|_| self.in_flight.has_room()).unwrap_or(Instant::NEVER);
        // CNPs also wait for a completion, or for the end of a pause.
        let has_lldp = self.negotiation.as_ref().is_some_and(|it| it.waiting().is_some());
        let waiting = self.in_flight.frames > 0 || !self.cnps.is_empty() || has_lldp;
        let looking = if waiting { now + COMPLETION_NS } else { Instant::NEVER };
        let negotiating = self.negotiation.as_ref().map_or(Instant::NEVER, Negotiation::next);
        stage.min(sending).min(announcing).min(looking).min(negotiating)
    }

    /// Returns the report at `now`.
    pub fn report(&self, now: Instant) -> HostReport {
        let kernel = self.closed_counters.unwrap_or_else(|| self.port.kernel_counters());
        let mut report = HostReport {
            interface: self.settings.interface.clone(),
            mac: self.settings.mac.to_string(),
            elapsed_ns: self.sent_at.unwrap_or(now).since(self.since),
            sent: (0..self.sent.len()).map(|flow| self.flow_report(flow, now)).collect(),
            pauses: self.pauses.to_vec(),
            announcements_sent: self.announcements,
            cnps_sent: self.cnps_sent,
            cnps_received: self.cnps_received,
            pfc_received: self.pfc_received,
            pause_received: self.pause_received,
            pfc_sent: self.pfc_sent,
            control_ignored: self.control_ignored,
            kernel_lost: lost(&kernel),
            dcbx: self.negotiation.as_ref().and_then(Negotiation::report),
            ..HostReport::default()
        };
        for (priority, pause) in report.pauses.iter_mut().enumerate() {
            pause.paused_ns = self.egress.paused_ns(priority, now);
        }
        self.receiver.report(&mut report);
        report
    }

    fn flow_report(&self, flow: usize, now: Instant) -> FlowSent {
        let FlowArgs { to, priority, .. } = self.settings.flows[flow];
        let Sent { frames, bytes, .. } = self.sent[flow];
        let reaction = self.egress.reaction(flow);
        FlowSent {
            flow: flow as u32,
            to: to.to_string(),
            priority,
            offered_frames: self.egress.offered(flow, self.sent_at.unwrap_or(now)),
            sent_frames: frames,
            sent_bytes: bytes,
            cnps_received: reaction.map_or(0, Dcqcn::cnps),
            reaction_bps: reaction.map_or(0, Dcqcn::rate_bps),
            reaction_lowest_bps: reaction.map_or(0, Dcqcn::lowest_bps),
        }
    }

    /// The port, so that a loop can sleep until it has work.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// Closes the port. Every frame is free again; frames that had not left count as not sent.
    pub fn close(&mut self) {
        self.count_completed();
        self.closed_counters.get_or_insert(self.port.kernel_counters());
        self.port.close(&mut self.memory, &mut self.completed);
        for frame in self.completed.drain(..) {
            self.in_flight.remove(&frame);
            self.memory.free(frame);
        }
    }

    /// Free frames of the memory.
    pub fn free_frames(&self) -> usize {
        self.memory.free_frames()
    }
}

/// Returns the frames that the kernel lost. A host has no use for frames that waited when its port
/// closed.
fn lost(kernel: &KernelCounters) -> u64 {
    kernel.rx_lost_frames() - kernel.rx_closed_frames + kernel.tx_busy + kernel.tx_invalid_frames
}
