//! Loads: exact bytes of messages, sizes by a distribution, permutations, barriers, and collectives
//! against their theory.

mod lab;

use lab::run;
use sim::results::TrafficOutcome;
use sim::scenario::{Scenario, parse};
use sim::{Results, Simulation};

/// XOFF at 64 cells of priority 3: 16 frames of 1000 bytes.
const SMALL: &str = "\
[buffer]
cell_bytes = 256
total_cells = 65536
headroom_cells = 12288
[port-defaults.pfc]
mode = \"on\"
no_drop = [3]
[port-defaults.pfc.priority.3]
xoff = { static_cells = 64 }
headroom_cells = 1000
";

/// Hosts `h1` to `h{hosts}` at 100G on one switch, and this traffic.
fn star(hosts: usize, duration: &str, traffic: &str) -> Scenario {
    let text = format!(
        "duration = \"{duration}\"\n[network]\nkind = \"leaf-spine\"\nleaves = 1\nspines = 1\nhosts_per_leaf = {hosts}\n{traffic}"
    );
    let mut load = |path: &str| match path {
        "two.txt" => Ok("1000 50\n1000 50\n9000 50\n9000 100\n".to_owned()),
        "frames.csv" => Ok("0,60\n1000,1000,2\n1500,1500\n".to_owned()),
        "many.csv" => Ok("0,1000,500\n400000,1500,500\n".to_owned()),
        "small.toml" => Ok(SMALL.to_owned()),
        "tight.toml" => Ok(SMALL.replace("static_cells = 64", "static_cells = 4")),
        _ => Err(format!("{path} is not there")),
    };
    parse("test.toml", &text, &mut load).unwrap_or_else(|mistakes| {
        panic!("{}", mistakes.iter().map(|mistakes| format!("{mistakes}\n")).collect::<String>())
    })
}

fn named<'r>(outcome: &'r Results, name: &str) -> &'r TrafficOutcome {
    outcome.traffic.iter().find(|traffic| traffic.name == name).expect("it is there")
}

fn traffic(lines: &str) -> String {
    format!("[[traffic]]\npriority = 3\n{lines}\n")
}

/// A message has its bytes, in a last frame as short as needed; the shortest frame has 64.
#[test]
fn messages_have_exactly_their_bytes() {
    for (bytes, frames, received) in
        [(1000, 1, 1000), (1500, 2, 1500), (10_001, 11, 10_064), (2_999, 3, 2_999), (65, 1, 65), (1, 1, 64)]
    {
        let flow = format!("name = \"m\"\nfrom = \"h1\"\nto = \"h2\"\nframe_bytes = 1000\nbytes = {bytes}");
        let outcome = run(&star(2, "1ms", &traffic(&flow)));
        let measured = &outcome.traffic[0];
        assert_eq!(
            (measured.received_frames, measured.received_bytes, measured.completed),
            (frames, received, 1),
            "{bytes} bytes"
        );
        // Alone in the network it takes the ideal time, to the nanosecond.
        let message = outcome.series.completions[0];
        let took = (message.to_ns - message.from_ns) as f64;
        assert!((took - message.ideal_ns).abs() <= 2.0, "{bytes}: {took}, {}", message.ideal_ns);
    }
}

/// Frames of 60, 1000, 1000 and 1500 bytes, of which the second has to wait for the first of its
/// length, arrive at the switch to the nanosecond: 84 bytes at 100G take 6.72 ns.
#[test]
fn a_trace_has_the_times_and_lengths_of_its_file() {
    let flow = "name = \"t\"\nfrom = \"h1\"\nto = \"h2\"\nstart = \"10us\"\nframes = \"frames.csv\"";
    let scenario = star(2, "1ms", &traffic(flow));
    let mut simulation = Simulation::new(&scenario);
    let link =
        scenario.links.iter().position(|link| link.name.contains("h1–") || link.name.starts_with("h1"));
    simulation.capture(link.expect("the link of h1"));
    let mut seen = Vec::new();
    simulation.run_until(scenario.duration_ns, &mut |frame| seen.push((frame.at_ns, frame.len)));
    assert_eq!(seen, [(10_006, 60), (11_081, 1000), (11_163, 1000), (11_621, 1500)]);
    let outcome = simulation.finish();
    assert_eq!((outcome.traffic[0].received_frames, outcome.traffic[0].received_bytes), (4, 3560));
    assert!(outcome.imbalances.is_empty(), "{:?}", outcome.imbalances);
}

/// Frames that are due while their sender is paused, half of them at its beginning, are sent when
/// the pause ends.
#[test]
fn frames_of_a_trace_wait_while_their_sender_is_paused() {
    let flow = "name = \"t\"\nfrom = \"h1\"\nto = \"h2\"\nstart = \"10us\"\nframes = \"many.csv\"";
    let other = "name = \"full\"\nfrom = \"h3\"\nto = \"h2\"\nstop = \"500us\"";
    let storm = "[[fault]]\nat = \"0s\"\nstorm = \"h2\"\npriorities = [3]\nfor = \"600us\"\n";
    let text = format!("config = \"small.toml\"\n{}{}{storm}", traffic(flow), traffic(other));
    let outcome = run(&star(3, "2ms", &text));
    let sender = outcome.hosts.iter().find(|host| host.name == "h1").expect("it is there");
    assert!(sender.pauses[3] > 0 && sender.paused_ns[3] > 500_000, "{sender:?}");
    let t = named(&outcome, "t");
    assert_eq!((t.received_frames, t.received_bytes, t.lost_frames), (1000, 1_250_000, 0));
    assert_eq!(named(&outcome, "full").lost_frames, 0);
}

/// N messages of 100 frames at once for one receiver, over 100 m of cable, with PFC. The receiver's
/// port is never idle, so the last bit arrives after exactly the first frame's way to the switch,
/// all frames on the receiver's link, and the way there. Where XOFF is at a single frame, each
/// pause adds at most the time until the sender stops, and until its frames come again.
#[test]
fn an_incast_takes_the_time_of_its_bytes() {
    const FRAME_NS: f64 = 1024.0 * 0.08;
    const WAY_NS: f64 = 500.0;
    const RESPONSE_NS: f64 = 3840.0 * 0.08;
    for (config, senders, exact) in [
        ("small.toml", 2, true),
        ("small.toml", 8, true),
        ("small.toml", 32, true),
        ("tight.toml", 2, false),
        ("tight.toml", 8, false),
    ] {
        let flow = format!(
            "host_cable_m = 100\nconfig = \"{config}\"\n{}",
            traffic(&format!(
                "name = \"m\"\nfrom = \"h[2-{}]\"\nto = \"h1\"\nframe_bytes = 1000\nbytes = 100000",
                senders + 1
            ))
        );
        let outcome = run(&star(senders + 1, "2ms", &flow));
        let took = outcome.traffic[0].completion.expect("messages").max_ns as f64;
        let least = FRAME_NS + WAY_NS + f64::from(100 * senders as u32) * FRAME_NS + WAY_NS;
        let episodes: u64 = outcome.hosts.iter().map(|host| host.pauses[3]).sum();
        assert_eq!((outcome.traffic[0].lost_frames, outcome.traffic[0].completed), (0, senders as u64));
        assert!(episodes > 0, "{config} {senders}: nobody was paused");
        let most = if exact {
            least
        } else {
            least + episodes as f64 * (2.0 * WAY_NS + RESPONSE_NS + 2.0 * FRAME_NS)
        };
        assert!((least.floor()..=most).contains(&took), "{config} {senders}: {took}, {least} to {most}");
    }
}

/// Half of the messages have 1000 bytes, half 9000, at the mean rate that `load` says.
#[test]
fn sizes_follow_their_distribution() {
    let flow = "name = \"m\"\nfrom = \"h[1-4]\"\nto = \"h[1-4]\"\npattern = \"poisson\"\nload = 0.4\nframe_bytes = 1000\nsizes = \"two.txt\"";
    let scenario = star(4, "20ms", &traffic(flow));
    let outcome = run(&scenario);
    let spans = &outcome.series.completions;
    let short = spans.iter().filter(|span| span.bytes == 1000).count();
    let long = spans.iter().filter(|span| span.bytes == 9000).count();
    assert_eq!(short + long, spans.len());
    let share = short as f64 / spans.len() as f64;
    // About 20,000 messages a host: the standard error of the share is below 0.2 %.
    assert!(spans.len() > 50_000 && (share - 0.5).abs() < 0.01, "{share} of {}", spans.len());
    // Four hosts at 100G send 40 % each.
    let gbps = outcome.traffic[0].throughput_bps / 1e9;
    assert!((gbps - 160.0).abs() < 5.0, "{gbps}");
}

/// Each host sends to one other and receives from one; another seed makes another permutation.
#[test]
fn a_permutation_is_one_to_one() {
    let flow = traffic("name = \"p\"\nfrom = \"h[1-16]\"\nto = \"h[1-16]\"\npairs = \"permutation\"");
    let flows = |seed: u64| {
        let source = format!(
            "seed = {seed}\nduration = \"10us\"\n[network]\nkind = \"leaf-spine\"\nleaves = 1\nspines = 1\nhosts_per_leaf = 16\n{flow}"
        );
        let parsed = parse("test.toml", &source, &mut |path| Err(path.to_owned()));
        parsed.unwrap_or_else(|mistakes| panic!("{}", mistakes[0])).traffic[0].flows.clone()
    };
    for seed in 0..50 {
        let pairs = flows(seed);
        let mut to: Vec<usize> = pairs.iter().map(|pair| pair.1).collect();
        to.sort_unstable();
        to.dedup();
        assert_eq!((pairs.len(), to.len()), (16, 16));
        assert!(pairs.iter().all(|(from, to)| from != to), "seed {seed}: {pairs:?}");
    }
    assert_ne!(flows(1), flows(2));
}

/// Traffic that waits for two others begins with the later of them.
#[test]
fn a_barrier_waits_for_all() {
    let one = traffic("name = \"one\"\nfrom = \"h1\"\nto = \"h2\"\nbytes = \"100k\"");
    let two = traffic("name = \"two\"\nfrom = \"h3\"\nto = \"h4\"\nbytes = \"1M\"");
    let both =
        traffic("name = \"both\"\nfrom = \"h5\"\nto = \"h6\"\nbytes = 1000\nafter = [\"one\", \"two\"]");
    let outcome = run(&star(6, "1ms", &(one + &two + &both)));
    let later = named(&outcome, "two").last_arrival_ns.expect("it arrives");
    assert!(named(&outcome, "one").last_arrival_ns < Some(later));
    let begun = outcome.flows.iter().find(|flow| flow.from == "h5").and_then(|flow| flow.begun_ns);
    assert_eq!(begun, Some(later));
}

/// Traffic that waits for Poisson messages, of one size or several, and for an incast, begins when
/// the last of all these has arrived.
#[test]
fn a_barrier_waits_for_messages_that_stop() {
    let incast = "name = \"one\"\nfrom = \"h[1-3]\"\nto = \"h4\"\npattern = \"incast\"\nbytes = \"100k\"\n\
                  every = \"50us\"\nstart = \"10us\"\nstop = \"210us\"";
    let poisson = "name = \"two\"\nfrom = \"h[1-3]\"\nto = \"h4\"\npattern = \"poisson\"\nload = 0.2\n\
                   start = \"20us\"\nstop = \"400us\"\n";
    let after = "name = \"after\"\nfrom = \"h4\"\nto = \"h1\"\nbytes = 1000\nafter = [\"one\", \"two\"]";
    for size in ["bytes = 20000", "sizes = \"two.txt\""] {
        for seed in 0..4 {
            let all = traffic(incast) + &traffic(&format!("{poisson}{size}")) + &traffic(after);
            let mut scenario = star(4, "2ms", &all);
            scenario.seed = seed;
            let outcome = run(&scenario);
            let [one, two] = ["one", "two"].map(|name| named(&outcome, name));
            assert_eq!((one.messages, one.completed), (3 * 4, 3 * 4), "at 10, 60, 110 and 160 us");
            assert!(two.messages > 10 && two.messages == two.completed, "{two:?}");
            let last = one.last_arrival_ns.max(two.last_arrival_ns);
            let begun = outcome.flows.iter().find(|flow| flow.from == "h4").and_then(|flow| flow.begun_ns);
            assert!(begun == last && named(&outcome, "after").completed == 1, "{begun:?}, {last:?}");
            assert!(one.job_ns.is_some() && two.job_ns.is_some(), "{one:?} {two:?}");
        }
    }
}

/// The sender of Poisson messages is simulated in another part than their receiver.
#[test]
fn a_barrier_holds_in_parts() {
    let poisson = "name = \"one\"\nfrom = \"h[1-2]\"\nto = \"h3\"\npattern = \"poisson\"\nrate = \"20G\"\n\
                   sizes = \"storage\"\nstop = \"200us\"";
    let after = "name = \"after\"\nfrom = \"h3\"\nto = \"h4\"\nbytes = 1000\nafter = \"one\"";
    let text = format!(
        "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 2\n\
         fabric_cable_m = 100\n{}{}",
        traffic(poisson),
        traffic(after)
    );
    let scenario = parse("test.toml", &text, &mut |path| Err(path.to_owned()));
    let scenario = scenario.unwrap_or_else(|mistakes| panic!("{}", mistakes[0]));
    let whole = run(&scenario);
    assert!(whole.traffic[0].messages > 10 && whole.traffic[1].completed == 1, "{:?}", whole.traffic);
    assert_eq!(whole.flows[2].begun_ns, whole.traffic[0].last_arrival_ns);
    assert!(lab::run_in_parts(&scenario, 2) == whole);
}

/// A Poisson flow of so low a rate that it happens to have no message: what waits for it begins
/// when it stops.
#[test]
fn a_barrier_may_wait_for_nothing() {
    let none = "name = \"none\"\nfrom = \"h1\"\nto = \"h2\"\npattern = \"poisson\"\nrate = \"1M\"\n\
                bytes = \"100M\"\nstop = \"100us\"";
    let after = "name = \"after\"\nfrom = \"h2\"\nto = \"h1\"\nbytes = 1000\nafter = \"none\"";
    let outcome = run(&star(2, "1ms", &(traffic(none) + &traffic(after))));
    assert_eq!((named(&outcome, "none").messages, named(&outcome, "none").job_ns), (0, None));
    let begun = outcome.flows.iter().find(|flow| flow.from == "h2").and_then(|flow| flow.begun_ns);
    assert_eq!((begun, named(&outcome, "after").completed), (Some(100_000), 1));
}

/// Returns the job completion time in µs of a collective of `ranks` at 100G with 1 MB.
fn job_us(ranks: usize, pattern: &str) -> f64 {
    let flow =
        format!("name = \"c\"\nfrom = \"h[1-{ranks}]\"\nframe_bytes = 4096\nbytes = 1000000\n{pattern}");
    let mut scenario = star(ranks, "20ms", &traffic(&flow));
    scenario.links.iter_mut().for_each(|link| link.overhead_bytes = 0);
    let outcome = run(&scenario);
    assert_eq!(outcome.traffic[0].lost_frames, 0);
    outcome.traffic[0].job_ns.expect("it completes") as f64 / 1e3
}

/// B = 1 MB takes 80 µs at 100G. A round takes its bytes, and one frame more for the switch (0.33
/// µs): ring and halving–doubling 2 B (n − 1) / n in 2 (n − 1) and 2 log2 n rounds; a tree 2 B log2
/// n; all-to-all B (n − 1).
#[test]
fn collectives_take_the_time_of_theory() {
    let frame = 4096.0 * 8.0 / 100_000.0;
    for n in [2_usize, 4, 8, 16] {
        let (ranks, levels) = (n as f64, f64::from(n.ilog2()));
        let optimal = 2.0 * 80.0 * (ranks - 1.0) / ranks;
        for (pattern, expected) in [
            ("pattern = \"all-reduce\"", optimal + 2.0 * (ranks - 1.0) * frame),
            ("pattern = \"all-reduce\"\nalgorithm = \"halving-doubling\"", optimal + 2.0 * levels * frame),
            ("pattern = \"all-reduce\"\nalgorithm = \"tree\"", 2.0 * levels * (80.0 + frame)),
            ("pattern = \"all-to-all\"", (ranks - 1.0) * (80.0 + frame)),
        ] {
            let measured = job_us(n, pattern);
            assert!(
                (measured - expected).abs() < 0.01 * expected + 0.5,
                "{n}, {pattern}: {measured}, {expected}"
            );
        }
    }
}

/// The same bytes for the same scenario.
#[test]
fn loads_are_always_the_same() {
    let search = traffic(
        "name = \"s\"\nfrom = \"h[1-4]\"\nto = \"h[1-4]\"\npattern = \"poisson\"\nload = 0.2\nsizes = \"hadoop\"",
    );
    let reduce = traffic("name = \"r\"\nfrom = \"h[1-4]\"\npattern = \"all-reduce\"\nbytes = \"1M\"");
    let scenario = star(4, "1ms", &(search + &reduce));
    let result = || {
        let mut simulation = Simulation::new(&scenario);
        simulation.run_until(scenario.duration_ns, &mut |_| {});
        simulation.finish()
    };
    assert!(result() == result());
}

/// Messages that wait at the sender, as many as there may be, are counted when they arrive.
#[test]
fn waiting_messages_are_not_forgotten() {
    let slow = "name = \"m\"\nfrom = \"h1\"\nto = \"h2\"\npattern = \"incast\"\nevery = \"1us\"\nbytes = 1000\nframe_bytes = 1000\nrate = \"10M\"";
    let outcome = run(&star(2, "20ms", &traffic(slow)));
    let measured = &outcome.traffic[0];
    assert!(measured.messages > 10_000 && measured.received_frames > 20, "{measured:?}");
    assert_eq!(measured.completed, measured.received_frames);
}

/// Where each rank begins by itself, not by a search through all steps.
#[test]
fn an_all_to_all_of_256_ranks_begins() {
    let traffic = traffic("name = \"a\"\nfrom = \"h[1-256]\"\npattern = \"all-to-all\"\nbytes = 1000");
    let network =
        "duration = \"1us\"\n[network]\nkind = \"leaf-spine\"\nleaves = 8\nspines = 4\nhosts_per_leaf = 32\n";
    let parsed = parse("test.toml", &format!("{network}{traffic}"), &mut |path| Err(path.to_owned()));
    let scenario = parsed.unwrap_or_else(|mistakes| panic!("{}", mistakes[0]));
    assert!(run(&scenario).traffic[0].messages >= 256, "each rank has begun");
}
