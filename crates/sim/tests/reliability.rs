//! Retransmission: what a fault or a full queue takes is sent again, as often as its kind requires,
//! and messages arrive complete.

mod lab;

use endpoint::dctcp::DctcpSettings;
use lab::{GBPS, MS, US, cable, constant, host, run, scenario, switch};
use sim::Results;
use sim::scenario::{
    AckSettings, Fault, FaultKind, Pattern, Retransmission, Scenario, Start, Traffic, TransportSettings,
};

const BOTH: [Retransmission; 2] = [Retransmission::Selective, Retransmission::GoBackN];

fn acks(retransmission: Retransmission) -> AckSettings {
    AckSettings { priority: 0, dscp: 0, retransmission, timeout_ns: 100 * US, transport: None }
}

/// A switch (node 0) with a buffer of 1 MB without no-drop priorities, and hosts at 10G on cables
/// of 100 m.
fn star(hosts: usize, traffic: Vec<Traffic>, duration_ns: u64) -> Scenario {
    let config = "[buffer]\ncell_bytes = 256\ntotal_cells = 4096\nheadroom_cells = 0\n\
                  [port-defaults]\ntrust = \"dot1p\"\n";
    let port = |port: usize| format!("[port.p{port}]\ninterface = \"i{port}\"\n");
    let config = config.to_owned() + &(0..hosts).map(port).collect::<String>();
    let mut nodes = vec![switch("switch", &config)];
    nodes.extend((1..=hosts).map(|n| host(&format!("h{n}"))));
    let links = (1..=hosts).map(|n| cable((n, 0), (0, n - 1), 10 * GBPS, 100)).collect();
    scenario(nodes, links, traffic, duration_ns)
}

/// A message of 100 frames from h1 to h2, one each 10 us: frame n is on the receiver's cable from
/// 1.3 to 2.6 us after 10 n us. The cable is cut meanwhile, for 1.5 us.
fn one_frame_cut(retransmission: Retransmission, frame: u64) -> Results {
    let message = Traffic {
        rate_bps: 800_000_000,
        pattern: Pattern::Finite { bytes: 100_000 },
        acks: Some(acks(retransmission)),
        ..constant("message", 1, 2, 0, 1000)
    };
    let mut scenario = star(2, vec![message], 2 * MS);
    let cut_ns = 10 * US * frame + 1500;
    scenario.faults = vec![
        Fault { at_ns: cut_ns, kind: FaultKind::LinkDown { link: 1 } },
        Fault { at_ns: cut_ns + 1500, kind: FaultKind::LinkUp { link: 1 } },
    ];
    run(&scenario)
}

/// What was retransmitted, and how long the message took.
fn repeated(outcome: &Results) -> (u64, u64) {
    let traffic = &outcome.traffic[0];
    assert_eq!((traffic.completed, traffic.lost_frames, traffic.received_bytes), (1, 0, 100_000));
    (traffic.retransmitted_frames.expect("it counts"), traffic.completion.expect("complete").max_ns)
}

/// Selective: the acknowledgment of the third frame that follows tells. Go-back-N: the next frame
/// is discarded and reported, and both are sent again before the one after that is due.
#[test]
fn a_frame_cut_by_a_fault_is_retransmitted_once() {
    let undisturbed = 99 * 10 * US + 2600;
    let selective = one_frame_cut(Retransmission::Selective, 50);
    assert_eq!(repeated(&selective), (1, undisturbed));
    assert_eq!((selective.traffic[0].sent_frames, selective.hosts[1].received_frames), (100, 100));
    assert_eq!(selective.links[1].cut_frames, 1);
    let go_back_n = one_frame_cut(Retransmission::GoBackN, 50);
    assert_eq!(repeated(&go_back_n), (2, undisturbed));
    assert_eq!(go_back_n.hosts[1].received_frames, 101, "one is discarded");
    assert_eq!(go_back_n.flows[0].retransmitted_frames, 2);
    let of_message = [selective, go_back_n].map(|outcome| outcome.series.completions[0].retransmitted_frames);
    assert_eq!(of_message, [1, 2]);
}

/// Nothing follows the last frame: the timer tells, which began when it was sent, since all before
/// it was acknowledged.
#[test]
fn the_last_frame_needs_the_timer() {
    for kind in BOTH {
        let expected = (1, 99 * 10 * US + 100 * US + 2600);
        assert_eq!(repeated(&one_frame_cut(kind, 99)), expected, "{kind:?}");
    }
}

/// Two senders at 16.4 Gbit/s into 10: the queue overflows, and in the end every byte has
/// arrived. Selective retransmission repeats hardly a frame in vain, go-back-N thousands.
#[test]
fn messages_are_complete_although_the_queue_overflows() {
    let outcomes = BOTH.map(|kind| {
        let message = |name: &str, from: usize, mbps: u64| Traffic {
            pattern: Pattern::Finite { bytes: 4_000_000 },
            rate_bps: mbps * 1_000_000,
            acks: Some(acks(kind)),
            ..constant(name, from, 3, 0, 1000)
        };
        let outcome = run(&star(3, vec![message("a", 1, 9_100), message("b", 2, 7_300)], 200 * MS));
        for traffic in &outcome.traffic {
            assert_eq!((traffic.completed, traffic.received_bytes), (1, 4_000_000), "{kind:?}");
            assert_eq!((traffic.sent_frames, traffic.lost_frames), (4000, 0), "{kind:?}");
        }
        let repeated: u64 = outcome.flows.iter().map(|flow| flow.retransmitted_frames).sum();
        let sent: u64 = outcome.hosts[..2].iter().map(|host| host.sent_frames).sum();
        assert_eq!(sent, 8000 + repeated, "{kind:?}");
        (repeated, outcome.hosts[2].received_frames - 8000)
    });
    // What was sent again, and what of it had arrived before, or was discarded.
    let [(selective, in_vain), (go_back_n, discarded)] = outcomes;
    assert!(selective > 1000 && 20 * in_vain < selective, "{selective} {in_vain}");
    assert!(go_back_n > selective && discarded > 10 * in_vain.max(100), "{go_back_n} {discarded}, {in_vain}");
}

/// With DCTCP losses are rare: the window follows the queue.
#[test]
fn congestion_control_avoids_losses() {
    let transport = Some(TransportSettings::Dctcp(DctcpSettings::PAPER));
    let message = |name: &str, from: usize, transport| Traffic {
        pattern: Pattern::Finite { bytes: 4_000_000 },
        acks: Some(AckSettings { transport, ..acks(Retransmission::Selective) }),
        ..constant(name, from, 3, 0, 1000)
    };
    let repeated = |transport| {
        let outcome = run(&star(3, vec![message("a", 1, transport), message("b", 2, transport)], 100 * MS));
        assert!(outcome.traffic.iter().all(|traffic| traffic.completed == 1));
        outcome.flows.iter().map(|flow| flow.retransmitted_frames).sum::<u64>()
    };
    let [with, without] = [transport, None].map(repeated);
    assert!(10 * with < without, "{with} {without}");
}

/// The sender pauses priority 3 of its switch, and acknowledgments with it, unless they have
/// another priority. The window is used up then.
#[test]
fn acknowledgments_have_their_own_priority() {
    let config = "[port-defaults]\ntrust = \"dot1p\"\n[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
                  [port.p0]\ninterface = \"i0\"\n[port.p1]\ninterface = \"i1\"\n";
    let received = |priority: u8| {
        let transport = Some(TransportSettings::Dctcp(DctcpSettings::PAPER));
        let settings = AckSettings { priority, transport, ..acks(Retransmission::Selective) };
        let flow = Traffic {
            ecn: true,
            start: Start::At(20 * US),
            acks: Some(AckSettings { timeout_ns: 10 * MS, ..settings }),
            ..constant("t", 1, 2, 3, 1000)
        };
        let mut scenario = star(2, vec![flow], MS);
        scenario.nodes[0] = switch("switch", config);
        let storm = FaultKind::Storm { host: 1, priorities: 1 << 3, duration_ns: 2 * MS };
        scenario.faults.push(Fault { at_ns: 0, kind: storm });
        run(&scenario).traffic[0].received_frames
    };
    assert_eq!(received(3), 10, "the first window");
    assert!(received(6) > 1000, "{}", received(6));
}
