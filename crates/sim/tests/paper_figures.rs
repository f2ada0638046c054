//! Published figures, as `config/scenarios/papers` has them: the numbers of the papers and the ones
//! here, side by side, as far apart as the comments of the scenarios say.

use std::path::Path;

use endpoint::dcqcn::DcqcnSettings;
use sim::scenario::{Pattern, Scenario, parse};
use sim::{Results, Simulation};

fn read(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/scenarios/papers").join(name);
    let read = |file: &Path| std::fs::read_to_string(file).map_err(|error| error.to_string());
    let text = read(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut load = |path: &str| read(&file.with_file_name(path));
    parse(name, &text, &mut load).unwrap_or_else(|mistakes| panic!("{name}: {mistakes:?}"))
}

fn run(scenario: &Scenario) -> Results {
    let mut simulation = Simulation::new(scenario);
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
