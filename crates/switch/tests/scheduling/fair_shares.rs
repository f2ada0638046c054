//! Random pauses, rates, idle times, frame lengths, weights and reloads against the bounds of
//! deficit round robin, frame by frame, in every window.
//!
//! The members of a domain (the queues of a weighted group, or the groups of a priority level) have
//! quanta Q, none smaller than L, the cost of the largest frame. With v turns that began or
//! continued in a window, a member gets at most v·Q + L, since it carries less than L from turn to
//! turn. A member that can send all the time gets at least v·Q − L in v turns that it finished. Of
//! two members that can send all the time, one has at most one turn more than the other has
//! finished. Hence, for members i and j and the service S that each got:
//!
//!     S_i / Q_i − S_j / Q_j ≤ 1 + L / Q_i + L / Q_j
//!
//! Summed over n members with the share s = Q_i / ΣQ, the service of i differs from its share of
//! the service of the domain by at most Q_i·(1 − s) + L·(1 + (n − 2)·s), which is no more than
//! 2·Q_i + L, because no Q is smaller than L. The term L is needed: with equal quanta of one
//! largest frame the bound is 3 − 3/n quanta, which exceeds two from four members on.
//!
//! Shares are among the members that were served in the window for the lower bound of i, and among
//! the members that could send all the time for the upper bound. A fluid model that instantly
//! forgets a member that can no longer send bounds no round robin: a member that can send only
//! during its turn gets a quantum of each round, and much less from the fluid.

#[path = "../lab/mod.rs"]
mod lab;

use std::collections::VecDeque;

use lab::{Frame, Lab, mac, queue_of, settings};
use switch::settings::{
    GroupDiscipline, LARGEST_FRAME_BYTES, Rate, ScheduleSettings, SchedulerGroup, SwitchSettings, Threshold,
    WIRE_OVERHEAD_BYTES,
};
use wire::pause::Pfc;

/// One byte a nanosecond, so that all times are integers.
const LINE_BPS: u64 = 8_000_000_000;
const WAITING_FRAMES: usize = 24;
/// Windows of each domain have the indexes 0 to this.
const LONGEST_WINDOW: usize = 9;

/// SplitMix64: small, and random enough to choose steps.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn weight(&mut self) -> u8 {
        *[1, 1, 2, 255, 1 + self.below(255) as u8].get(self.below(5) as usize).expect("one of five")
    }
}

/// A token bucket as in docs/behavior.md, on a line of `byte_ns` a byte.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    queues: u8,
    byte_ns: u64,
    burst_ns: u64,
    full_at: u64,
}

impl Bucket {
    fn is_free(&self, now: u64) -> bool {
        self.full_at <= now + self.burst_ns
    }

    fn take(&mut self, bytes: u64, now: u64) {
        self.full_at = self.full_at.max(now) + bytes * self.byte_ns;
    }
}

/// A window: the service of each member at its start, and which members could send ever since.
#[derive(Debug, Clone, Copy)]
struct Window {
    before: [u64; 8],
    always: u8,
}

/// Members that share: queues of a group, or groups of a priority level.
#[derive(Debug)]
struct Domain {
    /// The queues of each member.
    members: Vec<u8>,
    quanta: Vec<f64>,
    /// The cost of the largest frame.
    largest: f64,
    /// Cost of a frame beyond its bytes, or `None` if every frame costs one.
    overhead: Option<u64>,
    sent: [u64; 8],
    windows: Vec<Window>,
    /// For each pair that can send, the smallest difference of S / Q since both can.
    least: [[Option<f64>; 8]; 8],
}

impl Domain {
    fn new(members: Vec<u8>, weights: &[u64], largest: u64, overhead: Option<u64>) -> Self {
        let smallest = *weights.iter().min().expect("a member");
        let quantum = |&weight: &u64| match overhead {
            Some(_) => (largest * weight / smallest) as f64,
            None => weight as f64,
        };
        Self {
            quanta: weights.iter().map(quantum).collect(),
            members,
            largest: overhead.map_or(1.0, |overhead| (u64::from(LARGEST_FRAME_BYTES) + overhead) as f64),
            overhead,
            sent: [0; 8],
            windows: Vec::new(),
            least: [[None; 8]; 8],
        }
    }

    /// Records which queues can send when the scheduler is called. While none of them can, no
    /// window advances.
    fn record_eligible(&mut self, ready: u8) {
        let can_send = |queues: u8| queues & ready != 0;
        let mask = self.members.iter().enumerate().fold(0, |mask, (i, &q)| mask | u8::from(can_send(q)) << i);
        if mask == 0 {
            return;
        }
        self.windows.iter_mut().for_each(|window| window.always &= mask);
        for i in 0..self.members.len() {
            for j in 0..self.members.len() {
                let both = mask & 1 << i != 0 && mask & 1 << j != 0;
                let ahead = self.ahead(i, j);
                self.least[i][j] = both.then(|| self.least[i][j].map_or(ahead, |least| least.min(ahead)));
            }
        }
    }

    /// Records which queues still hold frames: a queue that runs empty forfeits the rest of its
    /// turn.
    fn record_backlogged(&mut self, backlogged: u8) {
        for i in (0..self.members.len()).filter(|&i| self.members[i] & backlogged == 0) {
            self.windows.iter_mut().for_each(|window| window.always &= !(1 << i));
            self.least[i] = [None; 8];
            self.least.iter_mut().for_each(|least| least[i] = None);
        }
    }

    fn ahead(&self, i: usize, j: usize) -> f64 {
        self.sent[i] as f64 / self.quanta[i] - self.sent[j] as f64 / self.quanta[j]
    }

    fn record_sent(&mut self, queue: usize, len: u16) {
        let Some(i) = self.members.iter().position(|queues| queues & 1 << queue != 0) else { return };
        self.sent[i] += self.overhead.map_or(1, |overhead| u64::from(len) + overhead);
        for j in 0..self.members.len() {
            if let Some(least) = self.least[i][j] {
                let ahead = self.ahead(i, j) - least;
                let most = 1.0 + self.largest / self.quanta[i] + self.largest / self.quanta[j];
                assert!(ahead <= most + 1e-6, "{i} is {ahead} of {most} quanta ahead of {j}: {self:?}");
            }
        }
        for window in &self.windows {
            self.check_shares(window);
        }
    }

    fn check_shares(&self, window: &Window) {
        let members = 0..self.members.len();
        let got = |i: usize| (self.sent[i] - window.before[i]) as f64;
        let is_always = |i: usize| window.always & 1 << i != 0;
        let total: f64 = members.clone().map(got).sum();
        let served: f64 = members.clone().filter(|&i| got(i) > 0.0).map(|i| self.quanta[i]).sum();
        let always: f64 = members.clone().filter(|&i| is_always(i)).map(|i| self.quanta[i]).sum();
        for i in members {
            let (quantum, bound) = (self.quanta[i], 2.0 * self.quanta[i] + self.largest);
            if is_always(i) {
                let rivals = if got(i) > 0.0 { served } else { served + quantum };
                let share = total * quantum / rivals;
                assert!(got(i) >= share - bound - 1e-6, "{i} got {} of {share}: {self:?}", got(i));
            }
            let rivals = if is_always(i) { always } else { always + quantum };
            let share = total * quantum / rivals;
            assert!(got(i) <= share + bound + 1e-6, "{i} got {}, its share is {share}: {self:?}", got(i));
        }
    }

    /// Begins a window in the place of another.
    fn begin_window(&mut self, index: usize) {
        let window = Window { before: self.sent, always: 0xff };
        match self.windows.get_mut(index) {
            Some(old) => *old = window,
            None => self.windows.resize(index + 1, window),
        }
    }
}

/// Returns groups with random queues, levels, weights and disciplines.
fn random_schedule(random: &mut Random) -> ScheduleSettings {
    let count = 1 + random.below(5) as usize;
    let mut groups: Vec<SchedulerGroup> = (0..count)
        .map(|n| {
            let weights = std::array::from_fn(|_| random.weight());
            let inside = match random.below(5) {
                0 => GroupDiscipline::Strict,
                1 => GroupDiscipline::WeightedByFrames(weights),
                _ => GroupDiscipline::WeightedByBytes(weights),
            };
            let rank = random.below(10) as u8 / 8;
            SchedulerGroup::new(format!("g{n}"), rank, random.weight().into(), inside)
        })
        .collect();
    (0..8).for_each(|q| groups[random.below(count as u64) as usize].queues |= 1 << q);
    groups.retain(|group| group.queues != 0);
    ScheduleSettings { groups }
}

fn domains(schedule: &ScheduleSettings, overhead: u16) -> Vec<Domain> {
    let largest = u64::from(LARGEST_FRAME_BYTES) + u64::from(overhead);
    let mut domains = Vec::new();
    for group in &schedule.groups {
        let queues = || (0..8).filter(|q| group.queues & 1 << q != 0);
        let (weights, cost) = match group.inside {
            GroupDiscipline::Strict => continue,
            GroupDiscipline::WeightedByBytes(weights) => (weights, Some(0)),
            GroupDiscipline::WeightedByFrames(weights) => (weights, None),
        };
        let weights: Vec<u64> = queues().map(|q: usize| weights[q].into()).collect();
        domains.push(Domain::new(queues().map(|q| 1 << q).collect(), &weights, largest, cost));
    }
    for rank in 0..=1 {
        let of_rank: Vec<_> = schedule.groups.iter().filter(|group| group.rank == rank).collect();
        if of_rank.len() > 1 {
            let weights: Vec<u64> = of_rank.iter().map(|group| group.weight.into()).collect();
            let members = of_rank.iter().map(|group| group.queues).collect();
            domains.push(Domain::new(members, &weights, largest, Some(overhead.into())));
        }
    }
    domains
}

/// The port under test with its surroundings.
struct Driver {
    lab: Lab,
    settings: SwitchSettings,
    random: Random,
    domains: Vec<Domain>,
    buckets: Vec<Bucket>,
    waiting: [VecDeque<u16>; 8],
    /// Time until which each priority is paused.
    paused_until: [u64; 8],
    /// Queues that get no more frames for now.
    idle: u8,
    /// Frame lengths of each queue.
    lengths: [u64; 8],
}

impl Driver {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut settings = settings(2, 0xff, 2_000_000, 0);
        settings.ports.iter_mut().for_each(|port| port.classify.dot1p_to_queue = [0, 1, 2, 3, 4, 5, 6, 7]);
        let out = &mut settings.ports[1];
        (out.speed_bps, out.rate_limited) = (Some(LINE_BPS), false);
        out.overhead_bytes = if random.below(2) == 0 { WIRE_OVERHEAD_BYTES } else { 0 };
        out.queues = [queue_of(Threshold::Static(100_000)); 8];
        // The memory has no more frames than the test keeps waiting.
        settings.buffer.total_cells = 9 * WAITING_FRAMES as u32 * 40;
        let mut driver = Self {
            lab: Lab::new(&settings),
            settings,
            random,
            domains: Vec::new(),
            buckets: Vec::new(),
            waiting: Default::default(),
            paused_until: [0; 8],
            idle: 0,
            lengths: [0; 8],
        };
        driver.lab.turn();
        driver.reload();
        driver
    }

    /// Applies another schedule and other rates.
    fn reload(&mut self) {
        let random = &mut self.random;
        let out = &mut self.settings.ports[1];
        let before = out.schedule.clone();
        while out.schedule == before {
            out.schedule = random_schedule(random);
        }
        self.domains = domains(&out.schedule, out.overhead_bytes);
        self.buckets.clear();
        let has_rates = random.below(2) == 0;
        let mut rate = |queues: u8| {
            if !has_rates || random.below(3) != 0 {
                return None;
            }
            let byte_ns = [1, 2, 4, 5, 8, 10, 16, 20, 25, 32][random.below(10) as usize];
            let burst_bytes = random.below(3) * random.below(60_000);
            self.buckets.push(Bucket { queues, byte_ns, burst_ns: burst_bytes * byte_ns, full_at: 0 });
            Some(Rate { bps: 8_000_000_000 / byte_ns, burst_bytes: Some(burst_bytes) })
        };
        out.schedule.groups.iter_mut().for_each(|group| group.rate = rate(group.queues));
        out.queues.iter_mut().enumerate().for_each(|(q, queue)| queue.rate = rate(1 << q));
        self.lengths = std::array::from_fn(|_| random.below(5));
        self.lab.switch.apply(&self.settings, self.lab.now);
    }

    /// Applies settings that leave the schedule and the rates as they are. All windows span it.
    fn reload_other_settings(&mut self) {
        let q = self.random.below(8) as usize;
        let cells = 100_000 + self.random.below(1_000) as u32;
        self.settings.ports[1].queues[q].shared = Some(Threshold::Static(cells));
        self.lab.switch.apply(&self.settings, self.lab.now);
    }

    fn pause(&mut self) {
        let enable = 1 << self.random.below(8) | 1 << self.random.below(8);
        let quanta = if self.random.below(3) == 0 { 0 } else { 1 + self.random.below(4_000) as u16 };
        for q in (0..8).filter(|q| enable & 1 << q != 0) {
            // A quantum is 512 bit times: 64 ns.
            self.paused_until[q] = self.lab.now.0 + 64 * u64::from(quanta);
        }
        self.lab.send_pfc(1, Pfc { enable, quanta: [quanta; 8] });
    }

    fn fill(&mut self) {
        for q in (0..8).filter(|q| self.idle & 1 << q == 0) {
            while self.waiting[q].len() < WAITING_FRAMES {
                let len = match self.lengths[q] {
                    0 => 64,
                    1 => 1514,
                    2 => LARGEST_FRAME_BYTES as u16,
                    3 => 4_609 + self.random.below(4_000) as u16,
                    _ => {
                        [64, 9216, 9215, 28 + self.random.below(9_000) as u16][self.random.below(4) as usize]
                    }
                };
                self.lab.arrive(Frame { port: 0, dst: mac(1), priority: q as u8, len });
                self.waiting[q].push_back(len);
            }
        }
    }

    /// Queues that hold frames.
    fn backlogged(&self) -> u8 {
        (0..8).filter(|&q| !self.waiting[q].is_empty()).fold(0, |mask, q| mask | 1 << q)
    }

    /// Queues that can send now.
    fn ready(&self) -> u8 {
        let now = self.lab.now.0;
        let paused = (0..8).filter(|&q| self.paused_until[q] > now).fold(0, |mask, q| mask | 1 << q);
        let ready = self.backlogged() & !paused;
        let over_rate = self.buckets.iter().filter(|bucket| !bucket.is_free(now));
        over_rate.fold(ready, |ready, bucket| ready & !bucket.queues)
    }

    /// Sends what may leave, frame by frame where there are rates. Returns the number of frames.
    fn send(&mut self) -> usize {
        let room = if self.buckets.is_empty() { 1 + self.random.below(16) as usize } else { 1 };
        let mut ready = self.ready();
        let is_ready = ready != 0;
        self.lab.transmit(1, room);
        let sent: Vec<(usize, u16)> = self.lab.with_kernel[1]
            .iter()
            .map(|out| (usize::from(self.lab.memory.all(&out.frame, 18)[14] >> 5), out.len))
            .collect();
        self.lab.complete(1, usize::MAX);
        assert_eq!(!sent.is_empty(), is_ready, "what can send does");
        let (now, overhead) = (self.lab.now.0, u64::from(self.settings.ports[1].overhead_bytes));
        for &(q, len) in &sent {
            assert!(ready & 1 << q != 0, "queue {q} cannot send");
            assert_eq!(self.waiting[q].pop_front(), Some(len));
            for domain in &mut self.domains {
                domain.record_eligible(ready);
                domain.record_sent(q, len);
            }
            let backlogged = self.backlogged();
            self.domains.iter_mut().for_each(|domain| domain.record_backlogged(backlogged));
            let bytes = u64::from(len) + overhead;
            self.lab.now = self.lab.now + bytes;
            self.buckets.iter_mut().filter(|b| b.queues & 1 << q != 0).for_each(|b| b.take(bytes, now));
            ready &= !(u8::from(self.waiting[q].is_empty()) << q);
        }
        if sent.is_empty() {
            self.lab.now = self.lab.now + 500;
        }
        sent.len()
    }

    fn step(&mut self) -> usize {
        match self.random.below(64) {
            0..8 => self.pause(),
            8..10 => self.idle = (self.random.next() & self.random.next()) as u8,
            10..14 => {
                // Each index is used half as often as the one before, so its windows are twice as
                // long.
                let index = (self.random.next().trailing_zeros() as usize).min(LONGEST_WINDOW);
                self.domains.iter_mut().for_each(|domain| domain.begin_window(index));
            }
            14 if self.random.below(64) == 0 => self.reload(),
            15 => self.reload_other_settings(),
            _ => {}
        }
        self.fill();
        self.send()
    }
}

#[test]
fn nobody_gets_less_than_its_share_or_saves_up_more() {
    let (seeds, frames_each) = (32, 125_000);
    for seed in 0..seeds {
        let mut driver = Driver::new(seed);
        let mut frames = 0;
        while frames < frames_each {
            frames += driver.step();
        }
    }
}
