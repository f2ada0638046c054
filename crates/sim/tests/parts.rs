//! A network in parts has the results of the whole: every byte of them.

mod lab;

use endpoint::hpcc::HpccSettings;
use lab::{GBPS, MS, US, run, run_in_parts};
use sim::parts::Partition;
use sim::scenario::{AckSettings, Retransmission, Scenario, TransportSettings, parse};

/// Reads a leaf–spine network of four leaves and two spines with `more` in it.
fn leaf_spine(more: &str) -> Scenario {
    let network = "[network]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 3\n";
    let text = format!("duration = \"500us\"\n{more}\n{network}");
    parse("test.toml", &text, &mut |path| Err(format!("{path} is not there"))).unwrap_or_else(|mistakes| {
        panic!("{}", mistakes.iter().map(|mistakes| format!("{mistakes}\n")).collect::<String>())
    })
}

const EVERY_PAIR: &str =
    "traffic = [{ name = \"all\", from = \"h[1-12]\", to = \"h[1-12]\", bytes = 20000 }]";
const POISSON: &str = "traffic = [{ name = \"some\", from = \"h[1-12]\", to = \"h[1-12]\", rate = \"3G\", \
    pattern = \"poisson\", bytes = 9000 }]";

/// Returns the number of parts.
fn parts(scenario: &Scenario, most: usize) -> usize {
    Partition::new(scenario, most).map(|partition| partition.count()).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn a_fabric_in_parts_has_the_results_of_the_whole() {
    for traffic in [EVERY_PAIR, POISSON] {
        for multipath in ["receiver", "flow", "spray", "adaptive"] {
            let scenario = leaf_spine(&format!("multipath = \"{multipath}\"\n{traffic}"));
            let whole = run(&scenario);
            assert!(whole.frame_hops > 1000, "{multipath}: {}", whole.frame_hops);
            for most in [1, 2, 3, 4] {
                assert_eq!(parts(&scenario, most), most);
                assert!(run_in_parts(&scenario, most).as_ref() == Ok(&whole), "{multipath}, {most} parts");
            }
        }
    }
}

/// What acts without delay is in one part, with the switches of its hosts: the ranks of a collective
/// are everywhere here, so only the spines remain beside them.
#[test]
fn what_has_no_delay_is_in_one_part() {
    let ring = "traffic = [{ name = \"r\", from = \"h[1-12]\", bytes = 120000, pattern = \"all-reduce\", \
        algorithm = \"ring\" }]";
    let scenario = leaf_spine(ring);
    assert_eq!(parts(&scenario, 8), 3);
    let whole = run(&scenario);
    assert_eq!(whole.traffic[0].completed, whole.traffic[0].messages);
    assert!(run_in_parts(&scenario, 8).as_ref() == Ok(&whole));
}

/// A small network has as many parts as switches.
#[test]
fn there_are_no_more_parts_than_switches() {
    assert_eq!(parts(&leaf_spine(EVERY_PAIR), 64), 6);
}

#[test]
fn what_needs_the_whole_network_is_named() {
    let mut scenario = leaf_spine(EVERY_PAIR);
    scenario.latency = true;
    assert_eq!(parts(&scenario, 1), 1);
    let why = |scenario: &Scenario| Partition::new(scenario, 2).err().unwrap_or_default();
    assert!(why(&scenario).starts_with("latency = true"), "{}", why(&scenario));
    scenario.latency = false;
    scenario.traffic[0].acks = Some(AckSettings {
        priority: 6,
        dscp: 48,
        retransmission: Retransmission::Selective,
        timeout_ns: MS,
        transport: Some(TransportSettings::Hpcc(HpccSettings::PAPER)),
    });
    assert!(why(&scenario).starts_with("traffic all has hpcc"), "{}", why(&scenario));
}

/// At 100 Gbit/s the shortest frame, 60 bytes and 24 around it, takes 6.72 ns.
#[test]
fn a_window_is_as_long_as_the_shortest_flight() {
    let mut scenario = leaf_spine(EVERY_PAIR);
    for link in &mut scenario.links {
        (link.speed_bps, link.propagation_ns, link.overhead_bytes) = (100 * GBPS, 25, 24);
    }
    let partition = Partition::new(&scenario, 2).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(partition.window(1000), Some(1000 + 6720 + 25_000));
    let end = 500 * US * 1000;
    assert_eq!((partition.window(end), partition.window(end + 1)), (Some(end + 1), None));
}
