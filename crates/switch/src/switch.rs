//! The switch: frames and time go in, decisions and PFC come out. It composes the rules of the other files and adds none
//! of its own but their order:
//!
//! look → learn and look up → admit (cells at ingress and egress) → judge (WRED) → charge → queue ‖ schedule → send → release.
//!
//! Where ports have VLANs, a frame enters its VLAN before the look-up, and gets the tag that it leaves with after.
//!
//! Source: docs/architecture.md, "The way of a frame". The owner looks at each frame that comes in ([`Switch::look`]) and hands
//! what it found to [`Switch::receive_all`], calls [`Switch::transmit`] for each port that may have something to send,
//! [`Switch::complete`] for each frame that has left, and [`Switch::tick`] once a turn.

use crate::arrival::{Arrival, Kind, Looker};
use crate::bridge::Bridge;
use crate::cells::CellSize;
use crate::counters::{DropReason, RemovedPorts};
use crate::egress::{Dequeued, Egress};
use crate::event::{Event, Events};
use crate::flood_limit::Cast;
use crate::frame::{FrameId, Outgoing, Received};
use crate::group::{Area, Change};
use crate::ingress::Ingress;
use crate::limits::EgressLimits;
use crate::memory::{FrameRoom, Memory};
use crate::pfc_rates::PfcRates;
use crate::pool::Pools;
use crate::settings::{MAX_PORTS, PRIORITIES, SwitchSettings};
use crate::store::{Charge, Store};
use crate::time::{Instant, Nanos};
use crate::vlan::Vlans;
use crate::wred::Verdict;
use serde::{Deserialize, Serialize};
use wire::mac::MacAddr;
use wire::pause;
use wire::set::Set64;

/// A switch.
#[derive(Debug, Serialize, Deserialize)]
pub struct Switch {
    pub(crate) ingress: Vec<Ingress>,
    pub(crate) egress: Vec<Egress>,
    pub(crate) pools: Pools,
    pub(crate) store: Store,
    pub(crate) cell: CellSize,
    pub(crate) bridge: Bridge,
    /// Which VLANs the ports have, if any.
    pub(crate) vlans: Option<Box<Vlans>>,
    /// What memory has room for.
    frame_room: FrameRoom,
    /// Queues of unicast frames to unknown destinations, by priority.
    pub(crate) unknown_unicast_to_queue: Option<[u8; PRIORITIES]>,
    /// … and of frames to group addresses.
    pub(crate) multicast_to_queue: Option<[u8; PRIORITIES]>,
    /// Ports that carry frames.
    pub(crate) up: Set64,
    /// Ports that may have something to send: frames that wait, or PFC.
    pub(crate) work: Set64,
    /// Ports whose work was added to since the owner last asked.
    pub(crate) fresh: Set64,
    /// Ports some group of which must be examined each turn.
    pub(crate) watched: Set64,
    pub(crate) events: Events,
    /// When alarms are looked at next.
    pub(crate) next_alarms: Instant,
    pub(crate) flood_copies: u64,
    /// Ports of which there are drops by flood limits to tell.
    pub(crate) flood_limited: Set64,
    /// When a watchdog must look, or PFC frames are counted up.
    pub(crate) due_at: Instant,
    /// Ports whose watchdog must look each turn.
    pub(crate) awaiting: Set64,
    pub(crate) pfc_rates: PfcRates,
    /// When this turn began, and the one before; nothing where nobody says so, and frames come in when they are received.
    turns: [Option<Instant>; 2],
    /// What ports counted whose place others have now.
    pub(crate) removed: RemovedPorts,
    /// What is set now.
    pub(crate) settings: SwitchSettings,
}

impl Switch {
    /// A switch whose ports are all up, with `memory_frames` frames of memory, numbered from 0 (of a memory that grows, those at
    /// the start). Port i sends PFC from `macs[i]`.
    ///
    /// # Panics
    /// If there are more than [`MAX_PORTS`] ports or not as many addresses as ports: the configuration checks both.
    pub fn new(settings: &SwitchSettings, macs: &[MacAddr], memory_frames: usize) -> Self {
        let count = settings.ports.len();
        assert!(count <= MAX_PORTS && count == macs.len(), "{count} ports, {} addresses", macs.len());
        let ingress = settings.ports.iter().zip(macs);
        let egress = settings.ports.iter().zip(EgressLimits::of(settings)).zip(0_u64..);
        let present = (0..count).filter(|&port| !settings.ports[port].is_vacant());
        let mut switch = Self {
            ingress: ingress.map(|(port, &mac)| Ingress::new(port, settings.usage_percent, mac)).collect(),
            egress: egress
                .map(|((port, limits), n)| Egress::new(port, &limits, settings.seed.wrapping_add(n)))
                .collect(),
            pools: Pools::new(&settings.buffer),
            store: Store::new(memory_frames),
            cell: CellSize::new(settings.buffer.cell_bytes),
            bridge: Bridge::new(&settings.bridge),
            vlans: Vlans::of(&settings.ports),
            frame_room: FrameRoom::MOST,
            unknown_unicast_to_queue: settings.bridge.unknown_unicast_to_queue,
            multicast_to_queue: settings.bridge.multicast_to_queue,
            up: present.collect(),
            work: Set64::EMPTY,
            fresh: Set64::EMPTY,
            watched: Set64::EMPTY,
            events: Events::new(),
            next_alarms: Instant::NEVER,
            flood_copies: 0,
            flood_limited: Set64::EMPTY,
            due_at: Instant::default(),
            awaiting: Set64::EMPTY,
            pfc_rates: PfcRates::new(count),
            turns: [None; 2],
            removed: RemovedPorts::default(),
            settings: settings.clone(),
        };
        switch.set_static_addresses(&settings.ports);
        switch.set_alarms();
        switch
    }

    /// Says how long a frame may be that memory has room for: one that is to get a tag must fit with it.
    pub fn set_frame_room(&mut self, room: FrameRoom) {
        self.frame_room = room;
    }

    /// What memory has room for.
    pub fn frame_room(&self) -> FrameRoom {
        self.frame_room
    }

    /// Looks at a frame that came in on `port`: the only time that its headers are read.
    #[inline]
    pub fn look(&self, port: usize, received: Received, bytes: &[u8]) -> Arrival {
        Arrival::look(received, bytes, port, self.ingress[port].classifier(), self.cell)
    }

    /// What a look at the frames of `port` needs, until other settings are in force.
    pub fn looker(&self, port: usize) -> Looker {
        Looker { port, classifier: self.ingress[port].classifier().clone(), cell: self.cell }
    }

    /// A frame came in on `port`: looked at and received at once.
    #[inline]
    pub fn receive<M: Memory>(&mut self, port: usize, received: Received, now: Instant, memory: &mut M) {
        let bytes = memory.bytes(&received.frame, usize::from(received.len));
        let mut arrival = self.look(port, received, bytes);
        self.find_ways(std::slice::from_mut(&mut arrival), now, memory);
        self.take(arrival, now, memory);
    }

    /// Frames came in, in this order. Each is queued, flooded, obeyed (PFC) or dropped; nothing is left to the caller. The
    /// ways of all are found first: what one look-up waits for does not hold up the next.
    #[inline(never)] // a stage of its own, with all registers
    pub fn receive_all<M: Memory>(&mut self, arrivals: &mut Vec<Arrival>, now: Instant, memory: &mut M) {
        self.find_ways(arrivals, now, memory);
        for arrival in arrivals.drain(..) {
            self.take(arrival, now, memory);
        }
    }

    /// The switch is about to end: of the frames that came in only control frames are obeyed, data are dropped and
    /// counted.
    pub fn obey_only<M: Memory>(&mut self, arrivals: &mut Vec<Arrival>, now: Instant, memory: &mut M) {
        for arrival in arrivals.drain(..) {
            match arrival.kind {
                Kind::Control => self.obey(arrival, now, memory),
                _ => {
                    self.ingress[arrival.charge.port()].refuse(DropReason::PortDown, arrival.charge.len);
                    memory.free(arrival.frame);
                }
            }
        }
    }

    /// The switch is about to end: every no-drop priority is in XOFF from now on, for good, since what neighbours would send
    /// after an XON nobody would forward.
    pub fn stop(&mut self) {
        for port in self.up {
            self.ingress[port].stop();
            self.add_work(Set64::of(port));
        }
    }

    #[inline(never)]
    fn find_ways<M: Memory>(&mut self, arrivals: &mut [Arrival], now: Instant, memory: &M) {
        if let Some(vlans) = &self.vlans {
            vlans.enter(arrivals, memory);
        }
        for arrival in &mut *arrivals {
            self.find_way(arrival, now);
        }
        if let Some(vlans) = &self.vlans {
            vlans.stay_inside(arrivals);
        }
    }

    /// Counts a data frame, learns where it came from, and looks up where it goes.
    #[inline]
    fn find_way(&mut self, arrival: &mut Arrival, now: Instant) {
        if arrival.kind != Kind::Data {
            return;
        }
        let port = arrival.charge.port();
        if self.ingress[port].receive(arrival) {
            self.insist(port, arrival.charge.priority(), now);
        }
        self.bridge.learn(arrival.src, port, now);
        if !arrival.dst.is_group()
            && let Some(out) = self.bridge.look_up(arrival.dst, now)
        {
            let goes = out != port && self.up.contains(out);
            arrival.kind = if goes { Kind::To(out as u8) } else { Kind::Filtered(out as u8) };
        }
    }

    /// A frame came in spite of XOFF. It may have come as soon as the turn before began.
    #[cold]
    fn insist(&mut self, port: usize, priority: usize, now: Instant) {
        if self.ingress[port].insist(priority, self.turns[1].unwrap_or(now)) {
            self.add_work(Set64::of(port));
        }
    }

    #[inline]
    fn take<M: Memory>(&mut self, arrival: Arrival, now: Instant, memory: &mut M) {
        match arrival.kind {
            Kind::To(out) => self.forward(arrival, out.into(), now, memory),
            Kind::InVlan(out) => self.forward_one(arrival, out.into(), now, memory),
            Kind::Filtered(out) => self.filter(arrival, out.into(), memory),
            Kind::Data => self.flood(arrival, now, memory),
            Kind::Control => self.obey(arrival, now, memory),
            Kind::Refused(reason) => {
                self.ingress[arrival.charge.port()].refuse(reason, arrival.charge.len);
                memory.free(arrival.frame);
            }
        }
    }

    /// A MAC control frame (PFC, PAUSE) ends here: it is never bridged and never counted as data.
    #[cold]
    fn obey<M: Memory>(&mut self, arrival: Arrival, now: Instant, memory: &mut M) {
        let port = arrival.charge.port();
        if self.egress[port].obey(memory.bytes(&arrival.frame, usize::from(arrival.charge.len)), now) {
            self.add_work(Set64::of(port));
        }
        memory.free(arrival.frame);
        // The tick looks, once for all frames of the turn.
        let is_watched = self.egress[port].watchdog().is_on();
        self.awaiting.set(port, is_watched);
    }

    /// A frame whose destination is where it came from, or on a port that is down: addresses learned there are forgotten
    /// with it, static ones are not.
    #[cold]
    fn filter<M: Memory>(&mut self, arrival: Arrival, out: usize, memory: &mut M) {
        let (port, len) = (arrival.charge.port(), arrival.charge.len);
        if out == port {
            self.ingress[port].count_drop(DropReason::Filtered, len);
        } else {
            self.egress[out].count_drop(DropReason::PortDown, len);
        }
        memory.free(arrival.frame);
    }

    /// To one port: admitted at both ends, judged by WRED, charged and queued; or refused.
    #[inline(always)] // an arrival is not moved once more
    fn forward<M: Memory>(&mut self, arrival: Arrival, out: usize, now: Instant, memory: &mut M) {
        let charge = &arrival.charge;
        let (port, priority) = (charge.port(), charge.priority());
        let (ingress, egress) = (&mut self.ingress[port], &mut self.egress[out]);
        // Both ends decide before either is charged: what is refused leaves no trace in a watermark and triggers no PFC.
        let area = match admit(ingress, egress, charge, &self.pools) {
            Ok(area) => area,
            Err(reason) => return self.refuse(arrival, out, reason, now, memory),
        };
        match egress.judge(charge, arrival.ecn, now) {
            Verdict::Pass => {}
            Verdict::Mark => egress.mark(charge, memory.bytes_mut(&arrival.frame, usize::from(charge.len))),
            Verdict::Drop => return self.refuse(arrival, out, DropReason::Wred, now, memory),
        }
        let must_examine = ingress.charge(charge, area, &mut self.pools);
        egress.enqueue(arrival.frame, charge, &mut self.store, &mut self.pools);
        self.add_work(Set64::of(out));
        if must_examine {
            self.examine(port, priority, now);
        }
    }

    /// To every other port that is up, if no limit is in the way; each but the last gets a copy.
    #[cold]
    fn flood<M: Memory>(&mut self, mut arrival: Arrival, now: Instant, memory: &mut M) {
        let port = arrival.charge.port();
        arrival.charge.cast = match arrival.dst {
            dst if dst.is_broadcast() => Cast::Broadcast,
            dst if dst.is_group() => Cast::Multicast,
            _ => Cast::UnknownUnicast,
        };
        if !self.ingress[port].floods(&arrival.charge, now) {
            self.flood_limited.set(port, true);
            return memory.free(arrival.frame);
        }
        let map = match arrival.charge.cast {
            Cast::UnknownUnicast => &self.unknown_unicast_to_queue,
            _ => &self.multicast_to_queue,
        };
        if let Some(map) = map {
            let class = &mut arrival.charge.class;
            (class.queue, class.flooded) = (map[usize::from(class.priority & 7)] & 7, true);
        }
        let mut targets = self.up.without(Set64::of(port));
        if let Some(vlans) = &self.vlans {
            targets = targets.and(vlans.members(arrival.dst.vid()));
        }
        let Some(last) = targets.last() else { return self.filter(arrival, port, memory) };
        for out in targets.without(Set64::of(last)) {
            self.flood_copies += 1;
            // Nothing is copied for a port that has no room. How long it will be there with its VLAN's tag is seen once it has it.
            let (ingress, egress) = (&self.ingress[port], &self.egress[out]);
            let fits = if self.vlans.is_some() { admit_cells } else { admit };
            let room = fits(ingress, egress, &arrival.charge, &self.pools);
            match (room, memory.alloc_for(usize::from(arrival.charge.len))) {
                (Ok(_), Some(frame)) => {
                    memory.copy(&arrival.frame, &frame, usize::from(arrival.charge.len));
                    self.forward_one(Arrival { frame, ..arrival }, out, now, memory);
                }
                (Ok(_), None) => self.ingress[port].count_drop(DropReason::NoCopy, arrival.charge.len),
                (Err(reason), copy) => {
                    self.count_refusal(&arrival.charge, out, reason, now);
                    copy.into_iter().for_each(|copy| memory.free(copy));
                }
            }
        }
        self.forward_one(arrival, last, now, memory);
    }

    /// To one port with the tag that its VLAN has there, or as it is where there are no VLANs.
    #[cold]
    fn forward_one<M: Memory>(&mut self, mut arrival: Arrival, out: usize, now: Instant, memory: &mut M) {
        if let Some(vlans) = &self.vlans
            && !vlans.leave(out, &mut arrival, self.frame_room.longest_bytes, memory)
        {
            return self.refuse(arrival, out, DropReason::MtuExceeded, now, memory);
        }
        self.forward(arrival, out, now, memory);
    }

    /// Drops a frame that was not admitted.
    #[cold]
    fn refuse<M: Memory>(
        &mut self,
        arrival: Arrival,
        out: usize,
        reason: DropReason,
        now: Instant,
        memory: &mut M,
    ) {
        self.count_refusal(&arrival.charge, out, reason, now);
        memory.free(arrival.frame);
    }

    /// Counts a frame that was not admitted where an operator looks for it: at the queue that was full, or else at the
    /// group.
    fn count_refusal(&mut self, charge: &Charge, out: usize, reason: DropReason, now: Instant) {
        let (port, priority) = (charge.port(), charge.priority());
        let at_egress = match reason {
            DropReason::TailDrop | DropReason::Wred | DropReason::MtuExceeded => true,
            DropReason::Watchdog => !self.ingress[port].is_dropping(priority),
            _ => false,
        };
        if at_egress {
            self.egress[out].refuse(reason, charge, now);
            if reason == DropReason::MtuExceeded
                && let Some(frames) = self.egress[out].untold_too_long(now)
            {
                self.events.push(now, Event::MtuExceeded { port: out, frames });
            }
        } else if self.ingress[port].drop_full(reason, charge) {
            self.events.push(now, Event::NoDropLost { port, priority });
        }
    }

    #[inline]
    pub(crate) fn add_work(&mut self, ports: Set64) {
        self.work = self.work.with(ports);
        self.fresh = self.fresh.with(ports);
    }

    /// What leaves `port` now, at most `room` frames, appended to `out`: a PFC frame that is due first, then data.
    #[inline(never)]
    pub fn transmit<M: Memory>(
        &mut self,
        port: usize,
        room: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<Outgoing>,
    ) {
        let before = out.len();
        if room > 0 && self.ingress[port].pfc_is_due(now) {
            self.transmit_pfc(port, now, memory, out);
        }
        let egress = &mut self.egress[port];
        let mut blocked = egress.blocked(now);
        let (rewrites, is_shaped) = (egress.rewrites(), egress.is_shaped());
        for _ in out.len() - before..room {
            let Some(Dequeued { frame, len, mark }) = egress.dequeue(blocked, &mut self.store, now) else {
                break;
            };
            if mark || rewrites {
                egress.change(mark, self.store.charge(&frame), memory.bytes_mut(&frame, usize::from(len)));
            }
            if is_shaped {
                blocked = egress.blocked(now);
            }
            out.push(Outgoing { frame, len });
        }
        if !egress.is_backlogged() && self.ingress[port].pfc_deadline() == Instant::NEVER {
            self.work.set(port, false);
        }
    }

    /// The PFC frame that `port` must send now, if there is one, appended to `out`.
    #[cold]
    pub fn transmit_pfc<M: Memory>(
        &mut self,
        port: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<Outgoing>,
    ) {
        if !self.up.contains(port) || !self.ingress[port].pfc_is_due(now) {
            return;
        }
        // Without memory (which the reserve of `frames_needed` rules out) it stays due for the next turn.
        let Some(frame) = memory.alloc() else { return };
        let bytes = memory.bytes_mut(&frame, pause::FRAME_BYTES).first_chunk_mut();
        self.ingress[port].send_pfc(bytes.expect("60 bytes were asked for"), now);
        self.store.lend_own(&frame);
        out.push(Outgoing { frame, len: pause::FRAME_BYTES as u16 });
    }

    /// A frame that `transmit` gave out for `port` has left (or the kernel lost it: see [`Switch::kernel_lost`]).
    #[inline]
    pub fn complete<M: Memory>(&mut self, port: usize, frame: FrameId, now: Instant, memory: &mut M) {
        self.complete_all(port, std::iter::once(frame), now, memory);
    }

    /// Frames that `transmit` gave out for `port` have left, in this order.
    #[inline(never)]
    pub fn complete_all<M: Memory>(
        &mut self,
        port: usize,
        frames: impl Iterator<Item = FrameId>,
        now: Instant,
        memory: &mut M,
    ) {
        for frame in frames {
            if let Some(charge) = self.store.finish(&frame) {
                self.egress[port].complete(&charge, &mut self.pools);
                self.release(&charge, now);
            } else {
                self.ingress[port].pfc_sent();
            }
            memory.free(frame);
        }
    }

    /// Gives a frame's cells back to its group; its queue has given back its own.
    #[inline]
    pub(crate) fn release(&mut self, charge: &Charge, now: Instant) {
        let port = charge.port();
        // Thresholds that others have lowered meanwhile are the tick's.
        if self.ingress[port].release(charge, &mut self.pools) {
            self.examine(port, charge.priority(), now);
        }
    }

    /// Examines a group after its use, or its threshold, may have changed.
    #[inline]
    pub(crate) fn examine(&mut self, port: usize, priority: usize, now: Instant) {
        let ingress = &mut self.ingress[port];
        let change = ingress.examine(priority, &self.pools);
        self.watched.set(port, !ingress.watched().is_empty());
        if let Some(change) = change {
            self.add_work(self.up.and(Set64::of(port)));
            let event = match change {
                Change::Xoff => Event::XoffBegan { port, priority },
                Change::Xon => Event::XoffEnded { port, priority },
            };
            self.events.push(now, event);
        }
    }

    /// After a batch was taken, `waiting` frames still wait in the RX rings of `port`: that is ingress use, too.
    #[inline]
    pub fn observe_rx_rings(&mut self, port: usize, waiting: u32, now: Instant) {
        if self.ingress[port].rx_rings().observe(waiting) {
            (0..PRIORITIES).for_each(|priority| self.examine(port, priority, now));
        }
    }

    /// How soon some neighbour must be told again of an XOFF that lasts.
    pub fn shortest_refresh_ns(&self) -> Nanos {
        let told = self.up.into_iter().filter_map(|port| self.ingress[port].refresh_ns());
        told.min().unwrap_or(Nanos::MAX)
    }

    /// A guard sent `frames` PFC frames for `port` while this switch stood still, the last one at `at`: what they said is now
    /// what its neighbour was told.
    pub fn told_by_guard(&mut self, port: usize, frames: u64, at: Instant) {
        self.ingress[port].told_by_guard(frames, at);
        self.add_work(self.up.and(Set64::of(port)));
    }

    /// The kernel dropped `frames` more that came in on `port`, for want of an empty frame. Told of 0 now and then, too, it
    /// makes an event of what none has told of yet.
    pub fn kernel_dropped(&mut self, port: usize, frames: u64, now: Instant) {
        if let Some(frames) = self.ingress[port].rx_rings().kernel_dropped(frames, now) {
            self.events.push(now, Event::KernelDropped { port, frames });
        }
    }

    /// A turn begins, in which everything is taken that has come in.
    #[inline]
    pub fn begin_turn(&mut self, now: Instant) {
        self.turns = [Some(now), self.turns[0]];
    }

    /// What is due at `now` though no frame moved: dynamic thresholds that others moved, watchdogs, aging. Once a turn.
    pub fn tick<M: Memory>(&mut self, now: Instant, memory: &mut M) {
        if now >= self.due_at || !self.awaiting.is_empty() {
            self.look_around(now, memory);
        }
        for port in self.watched {
            for priority in self.ingress[port].watched() {
                self.examine(port, priority, now);
            }
        }
        self.bridge.age(now);
        for port in self.bridge.take_limited() {
            self.events.push(now, Event::AddressLimit { port });
        }
        for port in self.flood_limited {
            let more = self.ingress[port].tell_flood_limits(port, now, &mut self.events);
            self.flood_limited.set(port, more);
        }
        if now >= self.next_alarms {
            self.look_at_alarms(now);
        }
        if let Some(frames) = self.bridge.untold_full(now) {
            self.events.push(now, Event::BridgeFull { frames });
        }
    }
}

/// Whether a frame fits the line that it is to leave by and has room at both ends, and which area of ingress takes it.
#[inline]
fn admit(ingress: &Ingress, egress: &Egress, charge: &Charge, pools: &Pools) -> Result<Area, DropReason> {
    if charge.len > egress.longest_bytes() {
        return Err(DropReason::MtuExceeded);
    }
    admit_cells(ingress, egress, charge, pools)
}

/// Whether a frame has room at both ends, and which area of ingress takes it.
#[inline(always)] // a part of `admit`
fn admit_cells(
    ingress: &Ingress,
    egress: &Egress,
    charge: &Charge,
    pools: &Pools,
) -> Result<Area, DropReason> {
    let area = ingress.admit(charge, pools)?;
    if egress.admit(charge, pools) { Ok(area) } else { Err(egress.refusal(charge)) }
}
