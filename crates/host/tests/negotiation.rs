//! A host that negotiates with the agent of a switch's port, in virtual time.

#[path = "../../dataplane/tests/lab/loopback_port.rs"]
mod loopback_port;

use core::time::Duration;
use dcbx::settings::{DcbxSettings, LldpSettings, LocalSystem, PfcSettings, Version, VersionSetting};
use dcbx::{Agent, AgentSettings};
use host::args::{DcbxArg, FlowArgs};
use host::host::{Host, HostSettings};
use host::report::DcbxReport;
use loopback_port::{LoopbackPort, Wire};
use switch::{HeapMemory, Instant, Nanos};
use wire::MacAddr;
use wire::ethernet::{Header, LLDP};
use wire::pause::{FRAME_BYTES, Pfc};

const FRAMES: usize = 1024;
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const SWITCH: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const MILLISECOND: Nanos = 1_000_000;

fn of_switch(version: VersionSetting, willing: bool, no_drop: u8) -> AgentSettings {
    let pfc = PfcSettings { willing, no_drop, ..PfcSettings::default() };
    AgentSettings {
        system: LocalSystem::bridge("switch", SWITCH, "p1"),
        lldp: LldpSettings { tx_interval_s: 1, ..LldpSettings::default() },
        dcbx: Some(DcbxSettings { version, pfc, ..DcbxSettings::default() }),
    }
}

/// A host that sends 1000 frames a second on priority 3, and the agent at the other end.
struct Link {
    now: Instant,
    host: Host<LoopbackPort>,
    wire: Wire,
    switch: Agent,
}

impl Link {
    fn new(dcbx: DcbxArg, of_host: u8, switch: AgentSettings) -> Self {
        let flow = FlowArgs {
            to: SWITCH,
            priority: 3,
            size_bytes: 1000,
            rate_bps: 8_000_000,
            count: None,
            start_ns: 0,
            vid: Some(0),
            ecn: None,
        };
        let settings = HostSettings {
            interface: "memory".into(),
            mac: HOST,
            flows: vec![flow],
            speed_bps: None,
            honored: of_host,
            dcbx: Some(dcbx),
            honors_pause: false,
            stormed: 0,
            reacts: false,
            reaction_delay_ns: 0,
            duration_ns: Some(600_000 * MILLISECOND),
            linger_ns: 10 * MILLISECOND,
            run: 1,
        };
        let (port, wire) = LoopbackPort::new();
        let mut host = Host::new(settings, port, HeapMemory::new(FRAMES, 2048), FRAMES, Instant(0));
        host.begin(Instant(0));
        Self { now: Instant(0), host, wire, switch: Agent::new(switch) }
    }

    /// Connects the switch.
    fn connect(&mut self) {
        self.switch.set_link(Duration::from_nanos(self.now.0), true);
    }

    /// Runs for a time, and returns the data frames that the host sent.
    fn run(&mut self, milliseconds: u64) -> u64 {
        let mut data = 0;
        for _ in 0..milliseconds {
            self.now = self.now + MILLISECOND;
            let now = Duration::from_nanos(self.now.0);
            self.switch.poll(now).frames.into_iter().for_each(|frame| self.wire.inject(frame));
            self.host.receive(|| self.now);
            self.host.send(self.now);
            for frame in self.wire.take_sent() {
                match Header::parse(&frame).unwrap().ethertype {
                    LLDP => self.switch.receive(now, &frame),
                    _ => data += 1,
                }
            }
        }
        data
    }

    fn pause(&self, priority: usize) {
        let mut pfc = Pfc { enable: 1 << priority, quanta: [0; 8] };
        pfc.quanta[priority] = u16::MAX; // 3.4 ms at 10 Gbit/s
        let mut frame = [0; FRAME_BYTES];
        pfc.encode(SWITCH, &mut frame);
        self.wire.inject(frame);
    }

    /// Returns true if a pause of priority 3 stops the host. One frame may be with the kernel.
    fn is_stopped_by_a_pause(&mut self) -> bool {
        self.pause(3);
        let frames = self.run(3);
        self.run(10);
        frames <= 1
    }

    fn outcome(&self) -> DcbxReport {
        self.host.report(self.now).dcbx.unwrap()
    }
}

/// A willing host honors what the switch advertises, in every version, and nothing without a peer.
#[test]
fn a_willing_host_follows_the_switch() {
    for version in [Version::Ieee, Version::Cee, Version::Cin] {
        let pinned = VersionSetting::Pinned(version);
        let mut link = Link::new(DcbxArg::Willing, 1 << 5, of_switch(pinned, false, 1 << 3));
        link.run(1000);
        assert!(!link.is_stopped_by_a_pause(), "nothing is agreed");
        link.connect();
        link.run(5000);
        let outcome = link.outcome();
        assert_eq!((outcome.version.as_str(), outcome.state.as_str()), (&*version.to_string(), "agreed"));
        assert_eq!((outcome.local_no_drop, outcome.peer_no_drop), (vec![5], Some(vec![3])));
        assert_eq!((outcome.no_drop, link.switch.operational().unwrap().no_drop), (vec![3], 1 << 3));
        assert!(link.is_stopped_by_a_pause(), "{version}");

        // The switch changes its mind while priority 3 is paused: that pause ends at once.
        link.pause(3);
        link.run(1);
        let changed = of_switch(pinned, false, 1 << 4);
        link.switch.configure(Duration::from_nanos(link.now.0), changed);
        link.run(3000);
        assert_eq!(link.outcome().no_drop, [4]);
        assert!(!link.is_stopped_by_a_pause());

        // The switch goes without a word.
        link.switch.set_link(Duration::from_nanos(link.now.0), false);
        link.run(10_000);
        assert_eq!((link.outcome().state.as_str(), link.outcome().no_drop), ("local", vec![]));
    }
}

/// A willing switch takes over what an unwilling host asks for; when the host ends, it withdraws
/// that.
#[test]
fn an_unwilling_host_is_followed() {
    let mut link = Link::new(DcbxArg::Unwilling, 1 << 3, of_switch(VersionSetting::Auto, true, 1 << 6));
    link.connect();
    link.run(3000);
    let no_drop = |link: &Link| link.switch.operational().unwrap().no_drop;
    assert_eq!((link.outcome().no_drop, no_drop(&link)), (vec![3], 1 << 3));
    assert!(link.is_stopped_by_a_pause());
    link.host.stop(link.now);
    link.run(50);
    assert!(link.host.is_done());
    assert_eq!((no_drop(&link), link.switch.neighbors().count()), (0, 0));
    assert_eq!(link.outcome().no_drop, [3], "the last report has what was agreed");
    link.host.close();
    assert_eq!(link.host.free_frames(), FRAMES);
}

/// Ends that both keep their own and differ are in error, and no pause is honored.
#[test]
fn ends_that_differ_honor_nothing() {
    let mut link = Link::new(DcbxArg::Unwilling, 1 << 3, of_switch(VersionSetting::Auto, false, 1 << 4));
    link.connect();
    link.run(3000);
    let outcome = link.outcome();
    assert_eq!((outcome.state.as_str(), outcome.no_drop), ("error", vec![]));
    assert!(!link.is_stopped_by_a_pause());
}
