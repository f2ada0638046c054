//! The switch on one core: frames and time go in, decisions and PFC come out. It composes the rules of the other files
//! and adds none of its own but their order:
//!
//! parse → classify → learn and look up → admit (cells at ingress and egress) → queue → schedule → release.
//!
//! Source: design §2, "The way of a frame". The owner calls [`Switch::receive`] for each frame that comes in,
//! [`Switch::transmit`] for each port that may have something to send, [`Switch::complete`] for each frame that has
//! left, and [`Switch::tick`] once a turn.

use crate::apply;
use crate::bridge::Bridge;
use crate::cells::CellSize;
use crate::classify::Class;
use crate::counters::{Count, DropReason, GroupSnapshot, PortSnapshot, Snapshot};
use crate::egress::{Dequeued, Egress};
use crate::event::{Event, Events};
use crate::frame::{FrameId, Outgoing, Received};
use crate::group::{Area, Change, Group};
use crate::held::{Charge, Held};
use crate::ingress::Ingress;
use crate::memory::Memory;
use crate::pool::{Pool, Pools};
use crate::port::Port;
use crate::queue::Queue;
use crate::rewrite;
use crate::settings::{MAX_PORTS, POOLS, PRIORITIES, SwitchSettings};
use crate::time::Instant;
use crate::watermark::Mark;
use crate::wred::{Verdict, ecn_of};
use wire::ethernet::{self, Header};
use wire::mac::MacAddr;
use wire::pause::{self, Control};

/// A switch.
#[derive(Debug)]
pub struct Switch {
    pub(crate) ports: Vec<Port>,
    pub(crate) bridge: Bridge,
    /// Queues of unicast frames to unknown destinations, by priority.
    pub(crate) unknown_unicast_to_queue: Option<[u8; PRIORITIES]>,
    pub(crate) cell: CellSize,
    pub(crate) pools: Pools,
    held: Held,
    events: Events,
    flood_copies: u64,
    /// Bit i: port i is up.
    pub(crate) up: u64,
    /// Bit i: port i may have something to send: frames that wait, or PFC.
    pub(crate) work: u64,
    /// Bit i: something was added to port i's work since the owner last asked.
    fresh: u64,
    /// Bit i: some group of port i must be looked at each turn.
    watched: u64,
}

/// A frame that came in, classified.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    port: usize,
    /// Bytes without FCS.
    len: u16,
    cells: u32,
    class: Class,
    now: Instant,
}

/// Frames of memory that PFC may need beyond what cells account for: per port, one with the kernel and one to send.
const OWN_FRAMES_PER_PORT: usize = 4;

/// Frames of memory that the switch itself may hold: every cell a minimum-size frame, and PFC.
pub fn frames_needed(settings: &SwitchSettings) -> usize {
    let cells = settings.buffer.shared_cells()
        + settings.buffer.headroom_cells
        + settings.ports.iter().flat_map(|port| &port.groups).map(|group| group.reserved_cells).sum::<u32>();
    cells as usize + settings.ports.len() * OWN_FRAMES_PER_PORT
}

impl Switch {
    /// A switch whose ports are all up, with `memory_frames` frames of memory, numbered from 0. Port i sends PFC from
    /// `macs[i]`.
    ///
    /// # Panics
    /// If there are more than [`MAX_PORTS`] ports or not as many addresses as ports: the configuration checks both.
    pub fn new(settings: &SwitchSettings, macs: &[MacAddr], memory_frames: usize) -> Self {
        let count = settings.ports.len();
        assert!(count <= MAX_PORTS && count == macs.len(), "{count} ports, {} addresses", macs.len());
        let given = apply::given(settings);
        let ports = settings.ports.iter().zip(macs).zip(given).enumerate();
        let ports = ports.map(|(number, ((port, &mac), given))| Port {
            name: port.name.clone(),
            mac,
            speed_bps: port.speed_bps.unwrap_or(0),
            overhead_bytes: port.overhead_bytes,
            up: true,
            ingress: Ingress::new(port, settings.usage_percent),
            egress: Egress::new(port, &given, settings.seed.wrapping_add(number as u64)),
            completed: Count::default(),
            kernel_lost: 0,
            pfc_malformed: 0,
            pause_received: 0,
        });
        Self {
            ports: ports.collect(),
            bridge: Bridge::new(&settings.bridge),
            unknown_unicast_to_queue: settings.bridge.unknown_unicast_to_queue,
            cell: CellSize::new(settings.buffer.cell_bytes),
            pools: Pools::new(&settings.buffer),
            held: Held::new(memory_frames),
            events: Events::new(),
            flood_copies: 0,
            up: if count == 64 { u64::MAX } else { (1 << count) - 1 },
            work: 0,
            fresh: 0,
            watched: 0,
        }
    }

    /// A frame came in on `port`. It is queued, flooded, obeyed (PFC) or dropped; nothing is left to the caller.
    #[inline]
    pub fn receive<M: Memory>(&mut self, port: usize, received: Received, now: Instant, memory: &mut M) {
        let Received { frame, len } = received;
        let bytes = memory.bytes(&frame, usize::from(len));
        let header = match Header::parse(bytes) {
            Ok(header) if header.ethertype == ethernet::MAC_CONTROL => {
                return self.receive_control(port, frame, len, now, memory);
            }
            Ok(header) => header,
            Err(_) => return self.drop_received(port, frame, len, DropReason::Malformed, memory),
        };
        if header.src.is_group() || header.src.is_zero() {
            return self.drop_received(port, frame, len, DropReason::BadSource, memory);
        }
        if header.dst.is_link_local() {
            return self.drop_received(port, frame, len, DropReason::Reserved, memory);
        }
        let ingress = &mut self.ports[port].ingress;
        ingress.count_received(len);
        let class = ingress.classifier.classify(&header, bytes);
        ingress.count_colour(class.drop_level);
        ingress.groups[usize::from(class.priority & 7)].count_received(len);
        self.bridge.learn(header.src, port, now);
        let mut arrival = Arrival { port, len, cells: self.cell.of(len), class, now };
        let known = if header.dst.is_group() { None } else { self.bridge.look_up(header.dst, now) };
        match known {
            Some(out) if out == port => self.drop_counted(port, frame, len, DropReason::Filtered, memory),
            // Learned addresses are forgotten with their port; static ones are not.
            Some(out) if self.up & (1 << out) == 0 => {
                self.drop_counted(out, frame, len, DropReason::PortDown, memory);
            }
            Some(out) => self.forward(arrival, out, frame, memory),
            None => {
                if let (Some(map), false) = (&self.unknown_unicast_to_queue, header.dst.is_group()) {
                    arrival.class.queue = map[usize::from(class.priority & 7)] & 7;
                }
                self.flood(arrival, frame, memory);
            }
        }
    }

    /// A MAC control frame (PFC, PAUSE) ends here: it is never bridged and never counted as data.
    fn receive_control<M: Memory>(
        &mut self,
        port: usize,
        frame: FrameId,
        len: u16,
        now: Instant,
        memory: &mut M,
    ) {
        let this = &mut self.ports[port];
        match pause::decode(memory.bytes(&frame, usize::from(len))) {
            Ok(Control::Pfc(pfc)) => {
                this.egress.pauses.apply(&pfc, now);
                if this.egress.is_backlogged() {
                    self.add_work(1 << port); // an XON may have set something free
                }
            }
            Ok(Control::Pause { .. }) => this.pause_received += 1,
            Ok(Control::Unknown { .. }) | Err(_) => this.pfc_malformed += 1,
        }
        memory.free(frame);
    }

    /// To one port: admitted at both ends, judged by WRED, charged and queued; or refused.
    #[inline]
    fn forward<M: Memory>(&mut self, arrival: Arrival, out: usize, frame: FrameId, memory: &mut M) {
        let Arrival { port, len, cells, class, now } = arrival;
        let ends = self.ports.get_disjoint_mut([port, out]);
        let [from, to] = ends.expect("a frame never leaves by the port that it came in on");
        let group = &mut from.ingress.groups[usize::from(class.priority & 7)];
        let queue = &mut to.egress.queues[usize::from(class.queue & 7)];
        let admitted = admit(group, queue, cells, &self.pools).and_then(|area| {
            let ecn = || ecn_of(memory.bytes(&frame, usize::from(len)));
            match queue.judge(cells, class.drop_level, &mut to.egress.random, ecn) {
                Verdict::Pass => {}
                Verdict::Mark => queue.mark(memory.bytes_mut(&frame, usize::from(len))),
                Verdict::Drop => return Err(DropReason::Wred),
            }
            Ok(area)
        });
        let area = match admitted {
            Ok(area) => area,
            Err(reason) => {
                memory.free(frame);
                return self.count_refusal(arrival, out, reason);
            }
        };
        group.charge(cells, area, &mut self.pools);
        let examine = group.is_no_drop();
        let charge = Charge {
            len,
            cells: cells as u16,
            in_port: port as u8,
            priority: class.priority,
            queue: class.queue,
            drop_level: class.drop_level,
        };
        to.egress.enqueue(frame, charge, &mut self.held, &mut self.pools);
        self.add_work(1 << out);
        if examine {
            self.examine(port, usize::from(class.priority & 7), now);
        }
    }

    /// To every other port that is up; each but the last gets a copy.
    fn flood<M: Memory>(&mut self, arrival: Arrival, frame: FrameId, memory: &mut M) {
        let Arrival { port, len, cells, class, .. } = arrival;
        let mut targets = self.up & !(1 << port);
        if targets == 0 {
            return self.drop_counted(port, frame, len, DropReason::Filtered, memory);
        }
        while targets & (targets - 1) != 0 {
            let out = targets.trailing_zeros() as usize;
            targets &= targets - 1;
            self.flood_copies += 1;
            let group = &self.ports[port].ingress.groups[usize::from(class.priority & 7)];
            let queue = &self.ports[out].egress.queues[usize::from(class.queue & 7)];
            // Nothing is copied for a port that has no room.
            match (admit(group, queue, cells, &self.pools), memory.alloc()) {
                (Ok(_), Some(copy)) => {
                    memory.copy(&frame, &copy, usize::from(len));
                    self.forward(arrival, out, copy, memory);
                }
                (Ok(_), None) => self.ports[port].ingress.count_drop(DropReason::NoCopy, len),
                (Err(reason), copy) => {
                    self.count_refusal(arrival, out, reason);
                    copy.into_iter().for_each(|copy| memory.free(copy));
                }
            }
        }
        self.forward(arrival, targets.trailing_zeros() as usize, frame, memory);
    }

    /// Counts a frame that was not admitted.
    #[cold]
    fn count_refusal(&mut self, arrival: Arrival, out: usize, reason: DropReason) {
        let Arrival { port, len, class, now, .. } = arrival;
        let priority = usize::from(class.priority);
        self.ports[port].ingress.count_drop(reason, len);
        let queue = &mut self.ports[out].egress.queues[usize::from(class.queue)];
        if reason == DropReason::TailDrop {
            queue.count_drop(len);
        } else if reason == DropReason::Wred {
            queue.count_wred_drop(len, class.drop_level);
        } else if self.ports[port].ingress.groups[priority].count_drop(len) {
            self.events.push(now, Event::NoDropLost { port, priority });
        }
    }

    /// A frame that never came to be classified.
    #[cold]
    fn drop_received<M: Memory>(
        &mut self,
        port: usize,
        frame: FrameId,
        len: u16,
        reason: DropReason,
        memory: &mut M,
    ) {
        self.ports[port].ingress.count_received(len);
        self.drop_counted(port, frame, len, reason, memory);
    }

    fn drop_counted<M: Memory>(
        &mut self,
        port: usize,
        frame: FrameId,
        len: u16,
        reason: DropReason,
        memory: &mut M,
    ) {
        self.ports[port].ingress.count_drop(reason, len);
        memory.free(frame);
    }

    /// Ports that may have something to send, as a mask.
    #[inline]
    pub fn ports_with_work(&self) -> u64 {
        self.work
    }

    /// Ports, as a mask, whose work was added to since the last call: only these have anything to send that they had not
    /// before, unless a time has come that [`Switch::deadline_of`] gave.
    #[inline]
    pub fn take_fresh(&mut self) -> u64 {
        std::mem::take(&mut self.fresh)
    }

    #[inline]
    fn add_work(&mut self, ports: u64) {
        self.work |= ports;
        self.fresh |= ports;
    }

    /// What leaves `port` now, at most `room` frames, appended to `out`: a PFC frame that is due first, then data.
    #[inline]
    pub fn transmit<M: Memory>(
        &mut self,
        port: usize,
        room: usize,
        now: Instant,
        memory: &mut M,
        out: &mut Vec<Outgoing>,
    ) {
        let this = &mut self.ports[port];
        let mut room = room;
        if room > 0 && self.up & (1 << port) != 0 && this.ingress.pfc.is_due(now) {
            // Without memory (which the reserve of `frames_needed` rules out) it stays due for the next turn.
            if let Some(frame) = memory.alloc() {
                let pfc = this.ingress.pfc.send(now);
                let len = pause::FRAME_BYTES;
                pfc.encode(
                    this.mac,
                    memory.bytes_mut(&frame, len).try_into().expect("60 bytes were asked for"),
                );
                self.held.lend_own(&frame);
                out.push(Outgoing { frame, len: len as u16 });
                room -= 1;
            }
        }
        for _ in 0..room {
            let Some(Dequeued { frame, charge, mark }) = this.egress.dequeue(&mut self.held, now) else {
                break;
            };
            if mark {
                let bytes = memory.bytes_mut(&frame, usize::from(charge.len));
                this.egress.queues[usize::from(charge.queue & 7)].mark(bytes);
            }
            if let Some(settings) = this.egress.rewrite() {
                rewrite::rewrite(settings, charge.queue, memory.bytes_mut(&frame, usize::from(charge.len)));
            }
            out.push(Outgoing { frame, len: charge.len });
        }
        if !this.egress.is_backlogged() && this.ingress.pfc.next_due() == Instant::NEVER {
            self.work &= !(1 << port);
        }
    }

    /// A frame that `transmit` gave out for `port` has left (or the kernel lost it: see [`Switch::kernel_lost`]).
    #[inline]
    pub fn complete<M: Memory>(&mut self, port: usize, frame: FrameId, now: Instant, memory: &mut M) {
        if let Some(charge) = self.held.finish(&frame) {
            let this = &mut self.ports[port];
            this.completed.add(charge.len);
            this.egress.landed(charge.len);
            this.egress.queues[usize::from(charge.queue)].count_transmitted(charge.len);
            self.release(port, charge, now);
        }
        memory.free(frame);
    }

    /// Of the frames that complete for `port`, the kernel lost so many: it does not say which.
    pub fn kernel_lost(&mut self, port: usize, frames: u32) {
        self.ports[port].kernel_lost += u64::from(frames);
    }

    /// A frame that `transmit` gave out for `port` will never leave: the port was closed.
    pub fn unsent<M: Memory>(&mut self, port: usize, frame: FrameId, now: Instant, memory: &mut M) {
        if let Some(charge) = self.held.finish(&frame) {
            self.ports[port].egress.landed(charge.len);
            self.ports[port].ingress.count_drop(DropReason::PortDown, charge.len);
            self.release(port, charge, now);
        }
        memory.free(frame);
    }

    /// Gives a frame's cells back at both ends.
    #[inline]
    fn release(&mut self, port: usize, charge: Charge, now: Instant) {
        let cells = u32::from(charge.cells);
        self.ports[port].egress.queues[usize::from(charge.queue)].release(cells, &mut self.pools);
        let (in_port, priority) = (usize::from(charge.in_port), usize::from(charge.priority));
        let group = &mut self.ports[in_port].ingress.groups[priority];
        group.release(cells, &mut self.pools);
        // Less use can only end an XOFF; thresholds that others have lowered meanwhile are the tick's.
        if group.is_xoff() {
            self.examine(in_port, priority, now);
        }
    }

    /// Looks at a group after its use, or its threshold, may have changed.
    #[inline]
    pub(crate) fn examine(&mut self, port: usize, priority: usize, now: Instant) {
        let ingress = &mut self.ports[port].ingress;
        if let Some(change) = ingress.examine(priority, &self.pools) {
            let ports = (1 << port) & self.up;
            self.work |= ports;
            self.fresh |= ports;
            let event = match change {
                Change::Xoff => Event::XoffBegan { port, priority },
                Change::Xon => Event::XoffEnded { port, priority },
            };
            self.events.push(now, event);
        }
        let watched = u64::from(ingress.watched() != 0);
        self.watched = self.watched & !(1 << port) | watched << port;
    }

    /// What is due at `now` though no frame moved: dynamic thresholds that others moved, aging. Once a turn.
    pub fn tick(&mut self, now: Instant) {
        let mut ports = self.watched;
        while ports != 0 {
            let port = ports.trailing_zeros() as usize;
            ports &= ports - 1;
            let mut groups = self.ports[port].ingress.watched();
            while groups != 0 {
                self.examine(port, groups.trailing_zeros() as usize, now);
                groups &= groups - 1;
            }
        }
        self.bridge.age(now);
    }

    /// When `transmit` or `tick` next has something to do if no frame moves before; [`Instant::NEVER`]: nothing.
    pub fn next_deadline(&mut self, now: Instant) -> Instant {
        (0..self.ports.len()).map(|port| self.deadline_of(port, now)).min().unwrap_or(Instant::NEVER)
    }

    /// When `transmit` next has something to do for `port` if no frame moves before; [`Instant::NEVER`]: nothing.
    pub fn deadline_of(&mut self, port: usize, now: Instant) -> Instant {
        if self.work & (1 << port) == 0 {
            return Instant::NEVER;
        }
        let port = &mut self.ports[port];
        port.ingress.pfc.next_due().min(port.egress.next_deadline(now).unwrap_or(Instant::NEVER))
    }

    /// Whether [`Switch::tick`] has groups to look at: thresholds that move with what others hold.
    pub fn is_watching(&self) -> bool {
        self.watched != 0
    }

    /// A port no longer carries frames: what waits for it is dropped and counted, its addresses are forgotten.
    pub fn port_down<M: Memory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        if !std::mem::replace(&mut self.ports[port].up, false) {
            return;
        }
        self.up &= !(1 << port);
        self.work &= !(1 << port);
        self.bridge.forget_port(port);
        self.ports[port].egress.pauses.clear(now);
        self.flush(port, now, memory);
        self.events.push(now, Event::PortDown { port });
    }

    /// The port carries frames again.
    pub fn port_up(&mut self, port: usize) {
        self.ports[port].up = true;
        self.up |= 1 << port;
        self.add_work(1 << port); // PFC to tell
    }

    /// An entry of the bridge table that stays as it is, whatever is learned, and however long it is not seen.
    pub fn set_static(&mut self, mac: MacAddr, port: usize) {
        self.bridge.set_static(mac, port);
    }

    /// An entry of the bridge table as if a frame from `mac` had come in on `port` at `now`.
    pub fn set_learned(&mut self, mac: MacAddr, port: usize, now: Instant) {
        self.bridge.learn(mac, port, now);
    }

    /// Drops what waits for a port.
    pub fn flush<M: Memory>(&mut self, port: usize, now: Instant, memory: &mut M) {
        while let Some((frame, charge)) = self.ports[port].egress.flush_one(&mut self.held) {
            self.held.finish(&frame);
            self.ports[port].ingress.count_drop(DropReason::PortDown, charge.len);
            self.release(port, charge, now);
            memory.free(frame);
        }
    }

    /// Holds a port's transmission, or lets it go on: nothing but PFC leaves a held port. For tests.
    pub fn hold(&mut self, port: usize, held: bool) {
        self.ports[port].egress.hold(held);
    }

    /// One watermark of every group, queue and pool begins anew.
    pub fn mark_watermarks(&mut self, mark: Mark) {
        for port in &mut self.ports {
            port.ingress.groups.iter_mut().for_each(|group| group.mark(mark));
            port.egress.queues.iter_mut().for_each(|queue| queue.mark_watermark(mark));
        }
        self.pools.mark(mark);
    }

    /// What a priority group holds and has counted; its peaks since it was last read begin anew.
    pub fn read_group(&mut self, port: usize, priority: usize) -> GroupSnapshot {
        let group = &mut self.ports[port].ingress.groups[priority];
        let snapshot = group.snapshot(&self.pools);
        group.mark(Mark::Read);
        snapshot
    }

    /// Free cells of each service pool at ingress: what dynamic thresholds of groups are a part of.
    pub fn free_cells(&self) -> [u32; POOLS] {
        self.pools.ingress.each_ref().map(Pool::free_cells)
    }

    /// The port carries frames.
    pub fn is_up(&self, port: usize) -> bool {
        self.up & (1 << port) != 0
    }

    /// Frames that the switch holds: queued, or handed out and not completed (checks only: slow).
    pub fn frames_held(&self) -> usize {
        self.held.count()
    }

    /// Takes the events since the last call, oldest first.
    pub fn drain_events(&mut self) -> impl Iterator<Item = (Instant, Event)> + '_ {
        self.events.drain()
    }

    /// Fills `snapshot` with all that the switch counts; reuses its memory, so that a second call allocates nothing.
    pub fn snapshot(&mut self, now: Instant, snapshot: &mut Snapshot) {
        snapshot.at_ns = now.0;
        snapshot.ingress_pools = self.pools.ingress.each_ref().map(Pool::snapshot);
        snapshot.egress_pools = self.pools.egress.each_ref().map(Pool::snapshot);
        snapshot.headroom = self.pools.headroom.snapshot();
        snapshot.cell_bytes = self.cell.bytes();
        (snapshot.bridge_entries, snapshot.bridge_full_frames, snapshot.bridge_moves) = self.bridge.counts();
        snapshot.flood_copies = self.flood_copies;
        snapshot.events_lost = self.events.lost();
        snapshot.ports.resize_with(self.ports.len(), PortSnapshot::default);
        for (port, out) in self.ports.iter_mut().zip(&mut snapshot.ports) {
            port.snapshot(now, &self.pools, out);
        }
    }
}

/// Whether a frame has room at both ends, and which area of ingress takes it.
#[inline]
fn admit(group: &Group, queue: &Queue, cells: u32, pools: &Pools) -> Result<Area, DropReason> {
    match group.place(cells, pools) {
        Some(area) if queue.has_room(cells, pools) => Ok(area),
        Some(_) => Err(DropReason::TailDrop),
        None if group.is_no_drop() => Err(DropReason::IngressNoDrop),
        None => Err(DropReason::IngressLossy),
    }
}
