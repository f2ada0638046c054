//! Two agents on a link in virtual time.
#![allow(dead_code)]

use core::time::Duration;
use dcbx::settings::{
    AgentSettings, DcbxSettings, Ets, EtsSettings, LldpSettings, LocalSystem, Version, VersionSetting,
};
use dcbx::{Agent, Status};
use wire::MacAddr;
use wire::dcbx::cee::STRICT_GROUP;
use wire::dcbx::ieee::{Application, Selector};

/// Time that a frame is under way.
pub const DELAY: Duration = Duration::from_millis(1);

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Settings of end `number`; its address grows with the number.
pub fn settings(number: u8, dcbx: Option<DcbxSettings>) -> AgentSettings {
    let mac = MacAddr([2, 0, 0, 0, 0, number]);
    AgentSettings {
        system: LocalSystem::bridge(&format!("sw{number}"), mac, "p1"),
        lldp: LldpSettings::default(),
        dcbx,
    }
}

/// Two groups with shares, and priorities 6 and 7 strict.
pub fn groups(first: u8) -> Ets {
    Ets {
        group_of_priority: [0, 0, 0, 1, 0, 0, STRICT_GROUP, STRICT_GROUP],
        percent: [first, 100 - first, 0, 0, 0, 0, 0, 0],
    }
}

/// An end that wants these priorities no-drop.
pub fn dcbx(version: VersionSetting, willing: bool, no_drop: u8) -> DcbxSettings {
    let mut settings = DcbxSettings { version, ..DcbxSettings::default() };
    (settings.pfc.willing, settings.pfc.no_drop) = (willing, no_drop);
    settings.ets =
        Some(EtsSettings { willing, ets: groups(if no_drop == 8 { 50 } else { 60 }), recommends: true });
    settings.applications.willing = willing;
    let priority = no_drop.trailing_zeros() as u8;
    let roce = Application { selector: Selector::Port, protocol: 4791, priority };
    let fcoe = Application { selector: Selector::Ethertype, protocol: 0x8906, priority };
    settings.applications.entries = vec![fcoe, roce];
    settings
}

pub const ALL_VERSIONS: [VersionSetting; 4] = [
    VersionSetting::Auto,
    VersionSetting::Pinned(Version::Ieee),
    VersionSetting::Pinned(Version::Cee),
    VersionSetting::Pinned(Version::Cin),
];

/// Two agents and the frames between them.
pub struct Pair {
    pub now: Duration,
    pub agents: [Agent; 2],
    /// Frames under way: when they arrive, and at which end.
    in_flight: Vec<(Duration, usize, Vec<u8>)>,
    /// False if frames to this end are lost.
    pub delivers_to: [bool; 2],
    pub sent: [Vec<Duration>; 2],
    /// Time at which the state of either end last changed.
    pub changed: Duration,
}

impl Pair {
    /// Makes two agents whose link comes up at 1 s.
    pub fn new(settings: [AgentSettings; 2]) -> Self {
        let mut pair = Self {
            now: seconds(1),
            agents: settings.map(Agent::new),
            in_flight: Vec::new(),
            delivers_to: [true; 2],
            sent: [Vec::new(), Vec::new()],
            changed: seconds(1),
        };
        pair.set_link(true);
        pair
    }

    /// Makes two agents with DCBX, and lets them negotiate for half a minute.
    pub fn settled(a: DcbxSettings, b: DcbxSettings) -> Self {
        let mut pair = Self::new([settings(1, Some(a)), settings(2, Some(b))]);
        pair.run(seconds(30));
        pair
    }

    pub fn set_link(&mut self, is_up: bool) {
        let now = self.now;
        self.in_flight.clear();
        self.agents.iter_mut().for_each(|agent| agent.set_link(now, is_up));
    }

    pub fn status(&self, end: usize) -> &Status {
        self.agents[end].status().expect("DCBX is configured")
    }

    pub fn no_drop(&self) -> [u8; 2] {
        [0, 1].map(|end| self.agents[end].operational().map_or(0, |it| it.no_drop))
    }

    /// Runs for a time.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let next = self.step().filter(|next| *next <= end);
            let Some(next) = next else { break };
            assert!(next > self.now, "a deadline that does not advance");
            self.now = next;
        }
        self.now = end;
    }

    /// Delivers and sends what is due, and returns the next time at which something is.
    fn step(&mut self) -> Option<Duration> {
        let before = [0, 1].map(|end| self.agents[end].status().cloned());
        let (due, later) = std::mem::take(&mut self.in_flight).into_iter().partition(|it| it.0 <= self.now);
        self.in_flight = later;
        let due: Vec<(Duration, usize, Vec<u8>)> = due;
        for (_, end, frame) in due {
            self.agents[end].receive(self.now, &frame);
        }
        let mut next = None;
        for end in 0..2 {
            let polled = self.agents[end].poll(self.now);
            next = [next, polled.next].into_iter().flatten().min();
            for frame in polled.frames {
                self.sent[end].push(self.now);
                if self.delivers_to[1 - end] {
                    self.in_flight.push((self.now + DELAY, 1 - end, frame));
                }
            }
        }
        if before != [0, 1].map(|end| self.agents[end].status().cloned()) {
            self.changed = self.now;
        }
        self.in_flight.iter().map(|it| it.0).chain(next).min()
    }
}
