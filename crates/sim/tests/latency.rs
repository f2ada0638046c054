//! Latency of frames against theory.

mod lab;

use lab::{GBPS, MS, US, cable, constant, host, run, scenario, switch};
use sim::results::LatencyOutcome;
use sim::scenario::{Pattern, Scenario, Traffic};

/// Ports `p0` to `p2`, whose queues take all frames.
fn device() -> String {
    let port = |port| format!("[port.p{port}]\ninterface = \"i{port}\"\n");
    "[port-defaults]\ntrust = \"dot1p\"\n".to_owned() + &(0..3).map(port).collect::<String>()
}

/// A switch with three hosts, cables of 100 m at 10G.
fn star(traffic: Vec<Traffic>, duration_ns: u64) -> Scenario {
    let mut nodes = vec![switch("s", &device())];
    nodes.extend((1..=3).map(|n| host(&format!("h{n}"))));
    let links = (1..=3).map(|n| cable((n, 0), (0, n - 1), 10 * GBPS, 100)).collect();
    Scenario { latency: true, ..scenario(nodes, links, traffic, duration_ns) }
}

/// 1000 bytes take 800 ns and 100 m 500 ns, twice; the switch adds nothing.
#[test]
fn a_frame_that_is_alone_takes_its_time() {
    let slow = Traffic { rate_bps: GBPS, ..constant("slow", 1, 2, 0, 1000) };
    let outcome = run(&star(vec![slow], MS));
    let latency = outcome.traffic[0].latency.expect("it is measured");
    let LatencyOutcome { frames, min_ns, p50_ns, p999_ns, max_ns, .. } = latency;
    assert_eq!([min_ns, p50_ns, p999_ns, max_ns], [2600; 4]);
    assert_eq!(frames, outcome.traffic[0].received_frames);
    let hop = &outcome.hops[0];
    assert_eq!((&*hop.traffic, &*hop.port, hop.latency.max_ns), ("slow", "s.p1", 0));
    let without = run(&Scenario { latency: false, ..star(vec![constant("all", 1, 2, 0, 1000)], MS) });
    assert!(without.traffic[0].latency.is_none() && without.hops.is_empty());
}

/// Random single frames of two senders meet at one port: an M/D/1 queue with the load ρ waits
/// ρ / (2 (1 − ρ)) frames on average. Two inputs that hold back their own frames wait a little
/// less.
#[test]
fn random_frames_wait_as_in_theory() {
    let load = 0.6;
    let traffic = |from| Traffic {
        pattern: Pattern::Poisson { bytes: 1000 },
        rate_bps: (load / 2.0 * 10e9) as u64,
        ..constant(&format!("from{from}"), from, 3, 0, 1000)
    };
    let mut scenario = star(vec![traffic(1), traffic(2)], 200 * MS);
    // Fast links of the senders, so that only the receiver's queue counts.
    scenario.links[..2].iter_mut().for_each(|link| link.speed_bps = 400 * GBPS);
    let outcome = run(&scenario);
    let waits: Vec<f64> = outcome.hops.iter().map(|hop| hop.latency.mean_ns as f64).collect();
    let expected = 800.0 * load / (2.0 * (1.0 - load));
    assert_eq!(waits.len(), 2);
    for wait in waits {
        assert!((wait - expected).abs() < 0.05 * expected, "{wait}, {expected}");
    }
}

/// Percentiles increase, and frames that were sent in the warm-up do not count.
#[test]
fn the_window_is_measured() {
    let flows = vec![(1, 3), (2, 3)];
    let both = Traffic { flows, rate_bps: 4 * GBPS, ..constant("both", 1, 3, 0, 1000) };
    let scenario = Scenario { warmup_ns: 500 * US, ..star(vec![both], MS) };
    let outcome = run(&scenario);
    let latency = outcome.traffic[0].latency.expect("it is measured");
    assert!(latency.frames > 0 && latency.frames < outcome.traffic[0].received_frames);
    let LatencyOutcome { min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, .. } = latency;
    let ordered = [min_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns];
    assert!(ordered.is_sorted(), "{ordered:?}");
}
