//! Published figures, as `config/scenarios/papers` has them: the numbers of the papers and the ones
//! here, side by side, as far apart as the comments of the scenarios say.

use std::path::Path;

use endpoint::dcqcn::DcqcnSettings;
use endpoint::swift::SwiftSettings;
use sim::results::OccupancyOf;
use sim::scenario::{Pattern, Scenario, TransportSettings, parse};
use sim::{Results, Simulation};

/// An acknowledgment's way back over four links of 50 Gbit/s.
const ACK_US: f64 = 0.06;

fn read(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/scenarios/papers").join(name);
    let read = |file: &Path| std::fs::read_to_string(file).map_err(|error| error.to_string());
    let text = read(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut load = |path: &str| read(&file.with_file_name(path));
    parse(name, &text, &mut load).unwrap_or_else(|mistakes| panic!("{name}: {mistakes:?}"))
}

fn run(scenario: &Scenario) -> Results {
    let mut simulation = Simulation::new(scenario);
    simulation.record_occupancy();
    simulation.run_until(scenario.duration_ns, &mut |_| {});
    let outcome = simulation.finish();
    assert!(outcome.imbalances.is_empty(), "{:?}", outcome.imbalances);
    outcome
}

/// Turns DCQCN on or off for all traffic.
fn with_dcqcn(mut scenario: Scenario, is_on: bool) -> Scenario {
    for traffic in &mut scenario.traffic {
        traffic.dcqcn = is_on.then_some(DcqcnSettings::PAPER);
        traffic.ecn = is_on;
    }
    scenario
}

/// Throughput of each flow in Gbit/s.
fn flows_gbps(outcome: &Results) -> Vec<f64> {
    outcome.flows.iter().map(|flow| flow.throughput_bps / 1e9).collect()
}

/// The settings of the rule of acknowledgments of the only traffic.
fn transport(scenario: &mut Scenario) -> &mut TransportSettings {
    let acks = scenario.traffic[0].acks.as_mut().expect("acknowledgments");
    acks.transport.as_mut().expect("a rule")
}

/// The length in kB that a queue stays within for this share of the points, which are the most
/// cells in each.
fn queue_kb(outcome: &Results, port: &str, share: f64) -> f64 {
    let is_it = |of: &&sim::results::OccupancySeries| of.port == port && of.of == OccupancyOf::Queue(3);
    let mut cells = outcome.series.occupancy.iter().find(is_it).expect("the queue").peak_cells.clone();
    cells.resize(outcome.series.at_ns.len(), 0);
    cells.sort_unstable();
    f64::from(cells[(cells.len() as f64 * share) as usize]) * 0.256
}

/// DCQCN (SIGCOMM 2015), figures 3 and 8: with PFC the sender next to the receiver has more than
/// any other, up to 20 of 40 Gbit/s; with DCQCN all four are near 10.
#[test]
fn dcqcn_figures_3_and_8_fairness() {
    let mut near = Vec::new();
    for seed in 0..8 {
        let scenario = Scenario { seed, ..read("dcqcn-fairness.toml") };
        let pfc = flows_gbps(&run(&with_dcqcn(scenario.clone(), false)));
        let most = pfc[..3].iter().copied().fold(0.0, f64::max);
        assert!((13.3..20.01).contains(&pfc[3]) && pfc[3] > most - 0.01, "seed {seed}: {pfc:?}");
        assert!((pfc.iter().sum::<f64>() - 40.0).abs() < 0.1, "{pfc:?}");
        near.push(pfc[3]);
        let dcqcn = flows_gbps(&run(&scenario));
        assert!(dcqcn.iter().all(|gbps| (8.0..12.0).contains(gbps)), "seed {seed}: {dcqcn:?}");
    }
    // 20 if the three share an uplink, 13.3 if they use both.
    assert!(near.iter().any(|gbps| (gbps - 20.0).abs() < 0.1), "{near:?}");
    assert!(near.iter().any(|gbps| (gbps - 13.33).abs() < 0.1), "{near:?}");
}

/// DCQCN (SIGCOMM 2015), figures 4 and 9: the median throughput of the victim is 10 Gbit/s without,
/// and 4.5 with two senders of another switch; with DCQCN it is not held back.
#[test]
fn dcqcn_figures_4_and_9_victim_flow() {
    let median = |others: usize, dcqcn: bool| {
        let mut found: Vec<f64> = (0..9)
            .map(|seed| {
                let mut scenario = with_dcqcn(Scenario { seed, ..read("victim-flow.toml") }, dcqcn);
                scenario.traffic[0].flows.truncate(4 + others);
                let outcome = run(&scenario);
                assert!(outcome.traffic.iter().all(|traffic| traffic.lost_frames == 0));
                outcome.traffic[1].throughput_bps / 1e9
            })
            .collect();
        found.sort_by(f64::total_cmp);
        found[4]
    };
    let [pfc, with_others] = [0, 2].map(|others| median(others, false));
    assert!((pfc - 10.0).abs() < 0.5, "paper 10: {pfc}");
    assert!((with_others - 4.5).abs() < 1.0, "paper 4.5: {with_others}");
    assert!((with_others / 5.0 - 1.0).abs() < 0.03, "stated 5.0: {with_others}");
    let [dcqcn, with_others] = [0, 2].map(|others| median(others, true));
    for (gbps, here) in [(dcqcn, 16.5), (with_others, 18.0)] {
        assert!((gbps / here - 1.0).abs() < 0.03, "{gbps}, stated {here}");
    }
}

/// DCTCP (SIGCOMM 2010), figure 18: queries take 8 ms, whatever the number of servers, until two
/// frames of each overflow the buffer: with 35 of them in the paper, 37 here.
#[test]
fn dctcp_figure_18_incast() {
    let slowest_ms = |servers: u64, without: bool| {
        let mut scenario = read("dctcp-incast.toml");
        let traffic = &mut scenario.traffic[0];
        let hosts: Vec<usize> =
            (0..scenario.nodes.len()).filter(|&node| scenario.nodes[node].name.starts_with('h')).collect();
        traffic.flows = (1..=servers as usize).map(|number| (hosts[number], hosts[0])).collect();
        traffic.pattern = Pattern::Incast { bytes: 1_000_000 / servers, every_ns: 50_000_000 };
        if let (Some(acks), true) = (&mut traffic.acks, without) {
            acks.transport = None;
        }
        run(&scenario).traffic[0].completion.expect("messages").max_ns as f64 / 1e6
    };
    let is_stated = |servers: u64, slowest: f64, here: f64| {
        assert!((slowest / here - 1.0).abs() < 0.02, "{servers} servers: {slowest}, stated {here}");
    };
    for (servers, here) in
        [(1, Some(8.18)), (5, None), (10, Some(8.35)), (20, None), (34, Some(8.26)), (35, None), (36, None)]
    {
        let slowest = slowest_ms(servers, false);
        assert!((8.0..8.4).contains(&slowest), "{servers} servers, paper 8: {slowest}");
        here.into_iter().for_each(|here| is_stated(servers, slowest, here));
    }
    let slowest = slowest_ms(37, false);
    assert!(slowest > 8.4, "losses with 37 servers: {slowest}");
    is_stated(40, slowest_ms(40, false), 17.6);
    is_stated(10, slowest_ms(10, true), 18.3);
}

/// HPCC (SIGCOMM 2019), figure 14: the queue of 16 senders is within 4 KB at the 95th percentile
/// with an increase of up to 150 bytes, 13 KB with 300, and the higher the fairer. How frames
/// interleave decides about the 13 KB: 14 to 21 kB here.
#[test]
fn hpcc_figure_14_additive_increase() {
    let run_with = |frame_bytes: u16, bytes: f64| {
        let mut scenario = read("hpcc-increase.toml");
        scenario.traffic[0].frame_bytes = frame_bytes;
        let TransportSettings::Hpcc(hpcc) = transport(&mut scenario) else { panic!("HPCC") };
        hpcc.additive_bytes = bytes;
        let outcome = run(&scenario);
        assert_eq!((outcome.traffic[0].lost_frames, outcome.series.pauses.len()), (0, 0));
        let fairness = outcome.traffic[0].fairness.expect("flows");
        (queue_kb(&outcome, "leaf1.h17", 0.95), fairness)
    };
    for frame_bytes in [1048, 1080, 1090] {
        let [(_, least), (_, most)] = [25.0, 150.0].map(|bytes| {
            let (kb, fairness) = run_with(frame_bytes, bytes);
            assert!(kb < 4.0, "paper 4 KB with {bytes} bytes and frames of {frame_bytes}: {kb}");
            (kb, fairness)
        });
        assert!(least < 0.9985 && most > 0.9995, "fairness {least} {most}, frames of {frame_bytes}");
        let (kb, _) = run_with(frame_bytes, 300.0);
        assert!((13.0..21.0).contains(&kb), "paper 13 KB: {kb}, frames of {frame_bytes}");
    }
    let stated = [(25.0, 2.6), (50.0, 3.8), (100.0, 3.8), (150.0, 2.6), (300.0, 16.6)];
    for (bytes, here) in stated {
        let (kb, _) = run_with(1066, bytes);
        assert!((kb - here).abs() < 0.1, "{bytes} bytes: {kb}, stated {here}");
    }
}

/// HPCC (SIGCOMM 2019), figures 9d to 9f: mice of 1 KB take about 5.4 us among elephants with HPCC,
/// and more than 35 us with DCQCN, whose queue stands around the ECN threshold of 100 KB. An incast
/// builds up 550 KB.
#[test]
fn hpcc_figure_9_mice_and_dcqcn_queue() {
    let scenario = read("hpcc-mice.toml");
    let mice_us = |outcome: &Results, traffic: usize| {
        outcome.traffic[traffic].latency.expect("it is measured").p50_ns as f64 / 1e3 + 2.4
    };
    // The queue from the warm-up on.
    let settled_kb = |outcome: &Results, port: &str, share: f64| {
        let settled = outcome.series.at_ns.iter().filter(|&&at| at > outcome.warmup_ns).count();
        let mut settled_only = outcome.clone();
        settled_only.series.at_ns.truncate(settled);
        for of in &mut settled_only.series.occupancy {
            of.peak_cells.resize(outcome.series.at_ns.len(), 0);
            of.peak_cells.drain(..outcome.series.at_ns.len() - settled);
        }
        queue_kb(&settled_only, port, share)
    };
    for seed in 0..6 {
        let outcome = run(&Scenario { seed, ..scenario.clone() });
        assert!(outcome.traffic.iter().all(|traffic| traffic.lost_frames == 0));
        let (us, kb) = (mice_us(&outcome, 1), settled_kb(&outcome, "leaf1.h16", 0.5));
        assert!((28.5..34.0).contains(&us), "paper 35 us and more: {us}, seed {seed}");
        assert!((kb / 100.0 - 1.0).abs() < 0.13, "paper 100 KB: {kb}, seed {seed}");
        assert!(outcome.traffic[0].throughput_bps > 24.8e9, "{:?}", outcome.traffic[0]);
        let (us, kb) = (mice_us(&outcome, 3), settled_kb(&outcome, "leaf1.h15", 0.9));
        assert!((us / 5.4 - 1.0).abs() < 0.06, "paper 5.4 us: {us}, seed {seed}");
        assert!(kb < 4.0, "paper near zero: {kb}, seed {seed}");
    }
    let mut clamped = scenario.clone();
    clamped.traffic[0].dcqcn.as_mut().expect("DCQCN").clamps_target = true;
    assert!(run(&clamped).traffic[0].throughput_bps < 24.5e9, "the target falls with each cut");
    let mut incast = scenario;
    let to = incast.traffic[0].flows[0].1;
    let hosts: Vec<usize> =
        (0..incast.nodes.len()).filter(|&node| incast.nodes[node].name.starts_with('h')).collect();
    incast.traffic[0].flows = hosts[..8].iter().map(|&from| (from, to)).collect();
    let peak_kb = queue_kb(&run(&incast), "leaf1.h16", 0.9999);
    assert!((peak_kb / 1130.0 - 1.0).abs() < 0.05, "paper 550 KB, stated 1130: {peak_kb}");
}

/// Swift (SIGCOMM 2020), table 3 and figure 21: 5000 flows on a link of 50 Gbit/s have 49.5 Gbit/s,
/// 110.2 us, next to no loss, and a fairness of 0.91; without windows below a frame 2027 us.
#[test]
fn swift_table_3_and_figure_21_incast() {
    let run_with = |change: fn(&mut SwiftSettings)| {
        let mut scenario = read("swift-incast.toml");
        let TransportSettings::Swift(swift) = transport(&mut scenario) else { panic!("Swift") };
        change(swift);
        let outcome = run(&scenario);
        let all = &outcome.traffic[0];
        assert_eq!((all.flows, all.lost_frames), (5000, 0));
        let rtt_us = all.latency.expect("it is measured").mean_ns as f64 / 1e3 + ACK_US;
        (all.throughput_bps / 1e9, rtt_us, all.fairness.expect("flows"))
    };
    let (gbps, rtt_us, fairness) = run_with(|_| ());
    assert!((gbps / 49.5 - 1.0).abs() < 0.005, "paper 49.5 Gbit/s: {gbps}");
    assert!((rtt_us / 110.2 - 1.0).abs() < 0.06, "paper 110.2 us: {rtt_us}");
    assert!((fairness - 0.91).abs() < 0.05, "paper 0.91: {fairness}");
    assert!((rtt_us - 115.2).abs() < 1.0 && (fairness - 0.874).abs() < 0.01, "{rtt_us} {fairness}");
    let (_, _, without) = run_with(|swift| swift.scaling_range_ns = 1);
    assert!(without < fairness - 0.2, "paper: less without scaling: {without}");
    let (_, rtt_us, _) = run_with(|swift| swift.min_frames = 1.0);
    assert!((3300.0..3400.0).contains(&rtt_us), "a frame of each: {rtt_us}");
}

/// Swift (SIGCOMM 2020), figure 17: with 100 flows and no scaling the round-trip time is close to
/// the target, and all of the link is used from about 25 us on.
#[test]
fn swift_figure_17_target_delay() {
    let targets = [(15, 15.2, 45.8), (25, 22.8, 47.6), (30, 26.3, 49.1), (50, 46.3, 50.0), (70, 70.2, 50.0)];
    for (target_us, rtt_here, gbps_here) in targets {
        let mut scenario = read("swift-incast.toml");
        (scenario.duration_ns, scenario.warmup_ns) = (100_000_000, 50_000_000);
        let TransportSettings::Swift(swift) = transport(&mut scenario) else { panic!("Swift") };
        (swift.base_target_ns, swift.scaling_range_ns, swift.max_frames) = (target_us * 1000, 1, 1000.0);
        let number = |name: &str| name[1..].parse::<u32>().expect("a host");
        let of = |&(from, to): &(usize, usize)| {
            let [from, to] = [from, to].map(|node| number(&scenario.nodes[node].name));
            from <= 10 && to <= 60
        };
        let flows: Vec<_> = scenario.traffic[0].flows.iter().copied().filter(of).collect();
        assert_eq!(flows.len(), 100);
        scenario.traffic[0].flows = flows;
        let outcome = run(&scenario);
        let all = &outcome.traffic[0];
        let rtt_us = all.latency.expect("it is measured").mean_ns as f64 / 1e3 + ACK_US;
        let gbps = all.throughput_bps / 1e9;
        assert!((rtt_us / target_us as f64 - 1.0).abs() < 0.13, "target {target_us} us: {rtt_us}");
        assert!((rtt_us / rtt_here - 1.0).abs() < 0.02, "{target_us}: {rtt_us}, stated {rtt_here}");
        assert!((gbps / gbps_here - 1.0).abs() < 0.01, "{target_us}: {gbps}, stated {gbps_here}");
    }
}
