//! Congestion control by acknowledgments in a network, against the relations that its papers
//! derive: several senders to one receiver over one switch of the daemon.

mod lab;

use endpoint::dcqcn::DcqcnSettings;
use endpoint::dctcp::DctcpSettings;
use endpoint::hpcc::HpccSettings;
use endpoint::swift::{Swift, SwiftSettings};
use endpoint::timely::TimelySettings;
use lab::{GBPS, MS, US, cable, constant, host, scenario, switch};
use sim::Results;
use sim::results::{LatencyOutcome, QueueLengthOutcome};
use sim::scenario::{AckSettings, Retransmission, Scenario, Traffic, TransportSettings};

/// Bytes on the wire beside a frame's own.
const OVERHEAD_BYTES: u64 = 24;
const ACK_BYTES: u64 = 66 + OVERHEAD_BYTES;

/// `senders` hosts to one over a switch that marks above `mark_cells`, all links alike.
struct Incast {
    senders: usize,
    speed_bps: u64,
    propagation_ns: u64,
    frame_bytes: u16,
    mark_cells: u32,
    transport: TransportSettings,
    duration_ns: u64,
}

impl Incast {
    /// Priority 3 is no-drop, and PFC acts far above what is to be seen here.
    fn scenario(&self) -> Scenario {
        let mark = self.mark_cells;
        let mut config = format!(
            "[buffer]\ncell_bytes = 256\ntotal_cells = 262144\nheadroom_cells = 65536\n\
             [wred.marks.queue.3]\necn = true\nweighting_exponent = 0\n\
             green = {{ low_cells = {mark}, high_cells = {mark}, probability_percent = 100 }}\n\
             [port-defaults]\ntrust = \"dot1p\"\nwred = \"marks\"\n\
             [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
             [port-defaults.pfc.priority.3]\nxoff = {{ static_cells = 20000 }}\nheadroom_cells = 1000\n"
        );
        (0..=self.senders).for_each(|port| config += &format!("[port.p{port}]\ninterface = \"i{port}\"\n"));
        let mut nodes = vec![switch("switch", &config)];
        nodes.extend((0..=self.senders).map(|n| host(&format!("h{n}"))));
        let mut links: Vec<_> =
            (0..=self.senders).map(|n| cable((n + 1, 0), (0, n), self.speed_bps, 0)).collect();
        for link in &mut links {
            (link.propagation_ns, link.overhead_bytes) = (self.propagation_ns, OVERHEAD_BYTES as u16);
        }
        let acks = AckSettings {
            priority: 3,
            dscp: 24,
            retransmission: Retransmission::Selective,
            timeout_ns: 10 * MS,
            transport: Some(self.transport),
        };
        let traffic = Traffic {
            flows: (2..self.senders + 2).map(|from| (from, 1)).collect(),
            ecn: true,
            acks: Some(acks),
            ..constant("all", 2, 1, 3, self.frame_bytes)
        };
        let mut scenario = scenario(nodes, links, vec![traffic], self.duration_ns);
        (scenario.latency, scenario.queue_lengths, scenario.warmup_ns) = (true, true, self.duration_ns / 2);
        scenario
    }

    fn run(&self) -> Results {
        let outcome = lab::run(&self.scenario());
        assert_eq!((outcome.traffic[0].lost_frames, outcome.traffic[0].retransmitted_frames), (0, Some(0)));
        outcome
    }

    fn line_ns(&self, bytes: u64) -> f64 {
        bytes as f64 * 8e9 / self.speed_bps as f64
    }

    /// Time of a frame on one link.
    fn frame_ns(&self) -> f64 {
        self.line_ns(u64::from(self.frame_bytes) + OVERHEAD_BYTES)
    }

    /// From a frame's first bit to its last one's arrival through empty queues, and back.
    fn one_way_ns(&self) -> f64 {
        2.0 * (self.frame_ns() + self.propagation_ns as f64)
    }

    fn back_ns(&self) -> f64 {
        2.0 * (self.line_ns(ACK_BYTES) + self.propagation_ns as f64)
    }
}

fn latency(outcome: &Results) -> LatencyOutcome {
    outcome.traffic[0].latency.expect("it is measured")
}

/// The N and K of DCTCP here: flows, and frames above which the switch marks.
const DCTCP: (f64, f64) = (2.0, 40.0);

/// Runs two flows of DCTCP with a weight of the newest window. Returns how far the queue rises, and
/// how far it falls, in frames, and the latter by equation 8.
fn dctcp(gain: f64, duration_ns: u64) -> [f64; 3] {
    let incast = Incast {
        senders: 2,
        speed_bps: 10 * GBPS,
        propagation_ns: 23_500,
        frame_bytes: 1514,
        mark_cells: 240,
        transport: TransportSettings::Dctcp(DctcpSettings { gain, ..DctcpSettings::PAPER }),
        duration_ns,
    };
    let outcome = incast.run();
    assert!(outcome.links[0].busy_percent[1] > 99.0, "{:?}", outcome.links[0]);
    assert!(outcome.traffic[0].fairness.expect("flows") > 0.999);
    let queued = |ns: u64| (ns as f64 - incast.one_way_ns()) / incast.frame_ns();
    let LatencyOutcome { min_ns, max_ns, .. } = latency(&outcome);
    let (n, k) = DCTCP;
    let rtt_frames = (incast.one_way_ns() + incast.back_ns()) / incast.frame_ns();
    let amplitude = (2.0 * n * (rtt_frames + k)).sqrt() / 2.0;
    [queued(max_ns), queued(max_ns) - queued(min_ns), amplitude]
}

/// Section 3.3 of the paper, for N synchronized flows: the queue rises to K + N (equation 10) and
/// falls by A = ½ √(2N (C·RTT + K)) (equation 8), in frames. Measured with N = 2 and K = 40: 41.6
/// against 42, and 8.0 against 10.9. The equation has a constant alpha; here a window is cut by
/// the alpha from before its marks, which is the least of the period.
#[test]
fn dctcp_keeps_the_queue_at_its_mark() {
    let [most, fall, amplitude] = dctcp(1.0 / 16.0, 60 * MS);
    let (n, k) = DCTCP;
    assert!((most - (k + n)).abs() < 1.5, "{most} {}", k + n);
    assert!((0.65..1.05).contains(&(fall / amplitude)), "{fall} {amplitude}");
}

/// With a small weight alpha is as good as constant, and the queue falls as in equation 8.
#[test]
fn dctcp_falls_by_the_equation_if_alpha_is_constant() {
    let [_, fall, amplitude] = dctcp(1.0 / 256.0, 400 * MS);
    assert!((0.9..1.1).contains(&(fall / amplitude)), "{fall} {amplitude}");
}

/// The fixed point: the round-trip time is the target of the window that fills it, base + hop +
/// scaling(window), window = C · RTT / N (section 3.5). Measured within 1 %: 23.1, 25.2 and 29.5 us
/// with 2, 8 and 32 flows.
#[test]
fn swift_meets_its_target_delay() {
    for senders in [2, 8, 32] {
        let incast = Incast {
            senders,
            speed_bps: 100 * GBPS,
            propagation_ns: 500,
            frame_bytes: 1024,
            mark_cells: 100_000,
            transport: TransportSettings::Swift(SwiftSettings::DEFAULT),
            duration_ns: 20 * MS,
        };
        let outcome = incast.run();
        let rtt_ns = latency(&outcome).mean_ns as f64 + incast.back_ns();
        let window = rtt_ns / incast.frame_ns() / senders as f64;
        let target_ns = Swift::target_ns(&SwiftSettings::DEFAULT, 1, window);
        assert!((rtt_ns / target_ns - 1.0).abs() < 0.01, "{senders}: {rtt_ns} {target_ns}");
        assert!(outcome.traffic[0].fairness.expect("flows") > 0.999, "{senders}");
        assert!(outcome.traffic[0].throughput_bps > 99.9e9, "{senders}");
    }
}

/// Windows below one frame, of 60 senders with a low target. An acknowledgment adds a whole frame
/// to such a window (algorithm 1), so it varies about the fixed point. Measured: 24.8 us, where the
/// target of the mean window is 18.6, and 95 % of the link.
#[test]
fn swift_paces_windows_below_a_frame() {
    let settings =
        SwiftSettings { base_target_ns: 5 * US, scaling_range_ns: 20 * US, ..SwiftSettings::DEFAULT };
    let incast = Incast {
        senders: 60,
        speed_bps: 10 * GBPS,
        propagation_ns: 500,
        frame_bytes: 1514,
        mark_cells: 100_000,
        transport: TransportSettings::Swift(settings),
        duration_ns: 40 * MS,
    };
    let outcome = incast.run();
    let rtt_ns = latency(&outcome).mean_ns as f64 + incast.back_ns();
    let window = rtt_ns / incast.frame_ns() / 60.0;
    let target_ns = Swift::target_ns(&settings, 1, window);
    assert!(window < 0.5, "{window}");
    assert!((0.9..1.5).contains(&(rtt_ns / target_ns)), "{rtt_ns} {target_ns}");
    assert!(outcome.traffic[0].throughput_bps > 9.4e9, "{}", outcome.traffic[0].throughput_bps);
    assert!(outcome.traffic[0].fairness.expect("flows") > 0.95);
}

/// The load of the link settles where a window no longer changes: W = W η/U + W_AI, so U = η / (1 −
/// N W_AI / Wₐ), Wₐ being the windows of all; without additive increase it is η = 95 % (section
/// 3.2), and no queue builds up as long as N W_AI stays below the unused part of a
/// bandwidth–delay product (section 3.3). Measured: 95.0 and 95.9 % with 2 and 8 flows.
#[test]
fn hpcc_uses_its_share_of_the_link() {
    for senders in [2, 8] {
        let incast = Incast {
            senders,
            speed_bps: 100 * GBPS,
            propagation_ns: 500,
            frame_bytes: 1024,
            mark_cells: 100_000,
            transport: TransportSettings::Hpcc(HpccSettings::PAPER),
            duration_ns: 20 * MS,
        };
        let outcome = incast.run();
        let share = outcome.traffic[0].throughput_bps / 100e9;
        let eta = HpccSettings::PAPER.eta;
        let bdp_bytes = 100e9 / 8e9 * (incast.one_way_ns() + incast.back_ns());
        let most = eta / (1.0 - senders as f64 * HpccSettings::PAPER.additive_bytes / (eta * bdp_bytes));
        assert!((eta - 0.005..most + 0.005).contains(&share), "{senders}: {share}, at most {most}");
        // The frame that is being sent takes 5 cells.
        let queue =
            outcome.queue_lengths.iter().find(|queue| queue.port == "switch.p0").expect("it is measured");
        assert!(queue.mean_cells < 10.0, "{senders}: {queue:?}");
        assert!(outcome.traffic[0].fairness.expect("flows") > 0.995, "{senders}");
    }
}

/// TIMELY keeps the round-trip time between its limits, nearer to the lower one (section 4.3):
/// above `high` every flow slows down, below `low` every flow speeds up. It promises no fixed
/// point, and no fairness ("ECN or Delay", theorem 3). Measured with 2 flows: at most 56 us one
/// way, and 95 % of the link.
#[test]
fn timely_stays_between_its_limits() {
    let incast = Incast {
        senders: 2,
        speed_bps: 10 * GBPS,
        propagation_ns: 500,
        frame_bytes: 1514,
        mark_cells: 100_000,
        transport: TransportSettings::Timely(TimelySettings::PAPER),
        duration_ns: 200 * MS,
    };
    let outcome = incast.run();
    let LatencyOutcome { p99_ns, max_ns, .. } = latency(&outcome);
    assert!(max_ns < TimelySettings::PAPER.high_ns, "{max_ns}");
    assert!(p99_ns > 40 * US && p99_ns < 100 * US, "it probes up to the lower limit: {p99_ns}");
    assert!(outcome.traffic[0].throughput_bps > 9e9, "{}", outcome.traffic[0].throughput_bps);
}

/// DCQCN with the parameters of its paper: `senders` hosts to one over a switch that marks from 20
/// cells on, up to `most_percent` at `high_cells`.
fn dcqcn(senders: usize, high_cells: u32, most_percent: u32, duration_ns: u64) -> Scenario {
    let mut config = format!(
        "[buffer]\ncell_bytes = 256\ntotal_cells = 262144\nheadroom_cells = 65536\n\
         [wred.marks.queue.3]\necn = true\nmark = \"dequeue\"\nweighting_exponent = 0\n\
         green = {{ low_cells = 20, high_cells = {high_cells}, probability_percent = {most_percent} }}\n\
         [port-defaults]\ntrust = \"dot1p\"\nwred = \"marks\"\n\
         [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
         [port-defaults.pfc.priority.3]\nxoff = {{ static_cells = 20000 }}\nheadroom_cells = 1000\n"
    );
    (0..=senders).for_each(|port| config += &format!("[port.p{port}]\ninterface = \"i{port}\"\n"));
    let mut nodes = vec![switch("switch", &config)];
    nodes.extend((0..=senders).map(|n| host(&format!("h{n}"))));
    let links = (0..=senders).map(|n| cable((n + 1, 0), (0, n), 40 * GBPS, 20)).collect();
    let traffic = Traffic {
        flows: (2..senders + 2).map(|from| (from, 1)).collect(),
        ecn: true,
        dcqcn: Some(DcqcnSettings::PAPER),
        ..constant("all", 2, 1, 3, 1000)
    };
    let mut scenario = scenario(nodes, links, vec![traffic], duration_ns);
    (scenario.queue_lengths, scenario.warmup_ns) = (true, duration_ns / 2);
    scenario
}

/// The fixed point of the fluid model: the share of marks p with which a flow's cuts and increases
/// cancel out, approximately p³ = R_AI / (τ' R²) · (1/B + 1/(T R))², where a flow has the rate R =
/// C / N, in frames. Source: Y. Zhu et al., "ECN or delay" (CoNEXT 2016), section 3.
fn dcqcn_fixed_point(flows: f64, frame_bytes: f64) -> f64 {
    let DcqcnSettings { additive_bps, alpha_interval_ns, step_interval_ns, step_bytes, .. } =
        DcqcnSettings::PAPER;
    let rate = 40e9 / 8.0 / frame_bytes / flows;
    let additive = additive_bps / 8.0 / frame_bytes;
    let [alpha_time, step_time] = [alpha_interval_ns, step_interval_ns].map(|ns| ns as f64 / 1e9);
    let steps = frame_bytes / step_bytes as f64 + 1.0 / (step_time * rate);
    (additive / (alpha_time * rate * rate) * steps * steps).cbrt()
}

/// The queue stays, on average, where the switch marks the share of frames of the fixed point:
/// measured 101, 117 and 492 cells, by the model 90, 110 and 457.
#[test]
fn dcqcn_keeps_the_queue_at_its_fixed_point() {
    for (senders, high_cells, most_percent) in [(2, 782, 1), (8, 1562, 10), (16, 3000, 10)] {
        let outcome = lab::run(&dcqcn(senders, high_cells, most_percent, 100 * MS));
        let share = dcqcn_fixed_point(senders as f64, 1000.0);
        let expected = 20.0 + share / (f64::from(most_percent) / 100.0) * f64::from(high_cells - 20);
        let is_it = |queue: &&QueueLengthOutcome| (&*queue.port, queue.queue) == ("switch.p0", 3);
        let queue = outcome.queue_lengths.iter().find(is_it).expect("it is measured");
        let measured = queue.mean_cells;
        assert!((measured / expected - 1.0).abs() < 0.15, "{senders}: {measured}, {expected} by the model");
        let all = &outcome.traffic[0];
        assert!(all.throughput_bps > 39.8e9 && all.fairness.expect("flows") > 0.99, "{all:?}");
        assert_eq!((all.lost_frames, outcome.switches[0].ports[1].counts.pfc_sent.frames), (0, 0));
    }
}

/// One of two hosts increases by four times as much: it gets far more than half.
#[test]
fn a_host_has_parameters_of_its_own() {
    let mut scenario = dcqcn(2, 782, 1, 40 * MS);
    let throughputs = |scenario: &Scenario| {
        let flows = lab::run(scenario).flows;
        [0, 1].map(|flow| flows[flow].throughput_bps / 1e9)
    };
    let [first, second] = throughputs(&scenario);
    assert!((first / second - 1.0).abs() < 0.15, "{first} {second}");
    let settings = DcqcnSettings { additive_bps: 160e6, ..DcqcnSettings::PAPER };
    scenario.traffic[0].host_dcqcn = vec![(3, settings)];
    let [first, second] = throughputs(&scenario);
    assert!(second > 1.4 * first && first + second > 39.5, "{first} {second}");
}
