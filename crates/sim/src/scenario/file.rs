//! Format of scenario files: TOML, read like the configuration, with every mistake reported at its
//! position.
//!
//! ```toml
//! title    = "incast"              # default: the file's name without .toml
//! duration = "20ms"                # required; units: ns, us, ms, s, as "1.5us"; at most 1000s
//! warmup   = "1ms"                 # default: 0. Throughput, fairness, completion times, latency,
//!                                  # queue lengths, utilization, XOFF and pauses count from then
//! seed     = 1                     # of random numbers; default: 0
//! sample   = "20us"                # time between two points of a plot; default: duration / 500
//! latency  = false                 # measures the latency of frames, by traffic and switch
//! forwarding = "shortest-path"     # "shortest-path" | "learn": floods and learns, not with loops
//! multipath = "receiver"           # of equal paths, one by the receiver's number; "flow": by a
//!                                  # hash of addresses and ports; "spray": in turn, by frame;
//!                                  # "adaptive": the shortest queues, by frame
//! convergence = "200us"            # from a cut or repair to new routes; default: they stay
//!
//! [switch."leaf[1-2]"]             # a range stands for several names: leaf1 and leaf2
//! config = "leaf.toml"             # required: daemon configuration, path relative to this file
//! turn   = "20us"                  # poll interval of a software loop; default: "0ns", a chip
//! multipath = "flow"               # default: that of the network
//!
//! [switch.spine]                   # a name contains no '.'
//! config = "spine.toml"
//!
//! [host."h[1-8]"]
//! no_drop = [3]                    # priorities whose pauses it honors; default: all
//! dcbx = "off"                     # "willing": takes over its switch's priorities; "unwilling"
//! obeys_pause = true               # 802.3x PAUSE; default: true
//! ports = 1                        # with 2, ends are h1.1 and h1.2; default: 1
//! vlan = 20                        # VID of the tag it sends and accepts; default: none
//! dcqcn = { additive = "5M" }      # parameters of what it sends with dcqcn; default: the paper's
//!
//! [[link]]                         # ranges at both ends are paired: h1–leaf1.h1, h2–leaf1.h2, …
//! ends = ["h[1-8]", "leaf[1-2].h[1-4]"]  # HOST, HOST.NUMBER or SWITCH.PORT
//! speed = "100G"                   # default: that of the ports, with which it must agree
//! cable_m = 5                      # default: that of the ports, or 0
//! delay_ns_per_m = 5.0             # default: 5
//! mtu = 1536                       # bytes without FCS; default: that of the ports, or 9216
//! response = "300ns"               # until a PFC frame takes effect; default: 3840 byte times
//! wire_overhead = true             # 24 bytes per frame: preamble, FCS, gap; default: true
//!
//! [[link]]
//! ends = ["leaf[1-2].up", "spine.p[1-2]"]
//!
//! [[traffic]]                      # a flow from each sender to each receiver except itself
//! name = "rdma"                    # required
//! from = ["h[2-4]", "h8"]          # a host or a list
//! to   = "h1"
//! priority = 3                     # default: 0
//! dscp = 24                        # default: priority × 8
//! frame_bytes = 1024               # 64 to 9216 without FCS; default: 1514, or least path MTU
//! rate = "10G"                     # of each flow; default: the (fastest) sender's link speed
//! ecn = true                       # frames are ECT(0); default: false
//! dcqcn = true                     # senders react to marks; needs ecn; default: false; or a table
//! dcqcn_fast_recovery = "below_f"  # lasts while steps < F, as in the paper; "up_to_f": ≤ F
//! start = "0s"                     # default: 0
//! stop = "5ms"                     # default: the end
//! pattern = "constant"             # default: "constant", or "finite" if bytes are given
//!
//! [[traffic]]
//! name = "waves"
//! from = "h1"
//! to = "h2"
//! pattern = "on-off"
//! on  = "10us"
//! off = "30us"
//!
//! [[traffic]]
//! name = "file"
//! from = "h1"
//! to = "h2"
//! bytes = "1M"                     # "finite": one message; a number, or decimal with k, M or G
//!
//! [[traffic]]
//! name = "queries"
//! from = "h1"
//! to = "h2"
//! after = "file"                   # instead of start: when all of that traffic has arrived, or of
//!                                  # several: ["file", "reduce"]; it must end: a message, a
//!                                  # collective, or "poisson" and "incast" with start and stop
//! pattern = "poisson"
//! rate = "1G"                      # required: the mean
//! bytes = 64000                    # of a message; default: one frame
//!
//! [[traffic]]
//! name = "burst"
//! from = "h[2-8]"
//! to = "h1"
//! pattern = "incast"               # a message from all senders at once, repeatedly
//! bytes = 100000
//! every = "1ms"
//!
//! [[traffic]]
//! name = "search"
//! from = "h[1-8]"
//! to = "h[1-8]"
//! pairs = "permutation"            # each sender has one receiver, at random; default: "all"
//! pattern = "poisson"
//! load = 0.3                       # instead of rate: of a sender's link, for its flows together
//! sizes = "web-search"             # of messages, or "hadoop", "storage", or a file: lines of
//!                                  # bytes, percent
//!
//! [[traffic]]
//! name = "reduce"
//! from = "h[1-8]"                  # the ranks, in their order; no `to`
//! pattern = "all-reduce"           # or "all-to-all", in phases, `bytes` from each to each
//! algorithm = "ring"               # "tree", "halving-doubling"; default: "ring"
//! bytes = "1M"
//! stop = "9ms"
//!
//! [[traffic]]
//! name = "recorded"
//! from = "h1"
//! to = "h2"
//! pattern = "trace"                # frames at the times and with the lengths of a file
//! frames = "frames.csv"            # lines of ns since the start, bytes and optionally frames
//!
//! [[route]]                        # a static entry, which overrides `forwarding`
//! switch = "leaf2"
//! to     = "h1"
//! port   = "up"
//!
//! [[fault]]
//! at = "2ms"
//! link-down = "leaf1.up"           # either end identifies the link
//!
//! [[fault]]
//! at = "3ms"
//! link-up = "leaf1.up"
//!
//! [[fault]]
//! at = "4ms"
//! storm = "h3"                     # a host pauses its peer regardless of what it receives
//! priorities = [3]
//! for = "5ms"
//!
//! [[fault]]
//! at = "5ms"
//! route = { switch = "spine", to = "h1", port = "p2" }
//!
//! [[expect]]                       # for everything, or one traffic, priority, switch or port
//! lost = 0
//! sent = { at_least = 1000, at_most = 20000000 }
//!
//! [[expect]]
//! traffic = "rdma"
//! throughput = { at_least = "1G" }
//! reordered = 0
//!
//! [[expect]]
//! port = "leaf1.h1"
//! pauses = 0
//!
//! [sweep]                          # for `sluice sweep`
//! seeds = 5                        # how many, from `seed` on, or a list; default: the seed above
//!
//! [[vary]]                         # for `sluice sweep`: every combination of values
//! set = "traffic.rdma.rate"        # a KEY as of `sluice sim --set`
//! values = ["5G", "10G"]
//!
//! [[vary]]
//! set = "link.0.cable_m"
//! from = 10                        # instead of values: from, to, and step, or steps = 5, with
//! to = 100                         # scale = "log" at equal ratios; unit = "us" makes text of the
//! step = 30                        # numbers
//! ```
//!
//! A software switch polls its ports once every `turn`; a chip acts at once. A host with several
//! ports sends over the first that is up and receives over all. Of several ranges in a name, the
//! first changes slowest. The default `response` is that of the headroom formula. With `dcqcn`,
//! `ecn` is true by default. Messages of "poisson" and "incast" that are ready at `stop` are sent
//! completely.
//!
//! `dcqcn = { additive = "5M" }` sets other parameters than the paper's: `cnp_interval` ("50us"),
//! `alpha_interval` and `step_interval` ("55us"), `step_bytes` ("10M"), `gain` (0.00390625: g),
//! `additive` ("40M": R_AI), `hyper` ("400M": R_HAI), `least` ("40M": the minimum rate),
//! `fast_steps` (5: F), `fast_recovery` ("below_f") and `clamp_target` (true; false: cuts with no
//! step between them leave the target). The values in parentheses are the defaults.
//! A host's table has the defaults of its flows with `dcqcn`, the CNPs that their receivers send
//! included; parameters of a traffic override these.
//!
//! `queue_lengths = true`, of the scenario, measures for how long each queue of each switch has
//! which length; it slows the run down.
//!
//! Beside DCQCN there are rules of congestion control that work by acknowledgments. Each is `true`,
//! or a table of parameters other than the default ones in parentheses; a traffic has one rule.
//!
//! - `dctcp` (needs `ecn`, which it implies): `gain` (0.0625: g), `initial_frames` (10);
//! - `timely`: `low` ("50us"), `high` ("500us"), `min_rtt` ("20us"), `alpha` (0.875), `beta` (0.8),
//!   `additive` ("10M": δ), `segment` (16000 bytes), `least` ("10M");
//! - `swift`: `base_target` ("20us"), `hop` ("3us" for each switch), `scaling_range` ("100us":
//!   fs_range; "0s" turns it off), `scaling_min_frames` (0.1), `scaling_max_frames` (100),
//!   `additive_frames` (1), `beta` (0.8), `max_decrease` (0.5), `min_frames` (0.01), `max_frames`
//!   (1000), `reset_after` (5);
//! - `hpcc` (not with `forwarding = "learn"`): `eta` (0.95), `max_stage` (5), `additive` (80 bytes:
//!   W_AI), `base_rtt` (that of the path, and no less).
//!
//! `retransmission = "selective"` or `"go-back-n"` sends lost frames again, without such a rule or
//! with one, for which "selective" is the default. `retransmission_timeout` ("1ms") is the time
//! without a new acknowledgment after which all is sent again; `ack_priority` (that of the frames)
//! the priority of acknowledgments.
//!
//! Of the scenario or of a switch, with `multipath = "flow"`: `hash_fields` (["src-ip", "dst-ip",
//! "protocol", "src-port", "dst-port"]; also "src-mac", "dst-mac", "vlan" and "dst-qp", the queue
//! pair of the flow) and `hash_seed`, of one hash function for all switches that have it (default:
//! each has its own). Of a host with several ports: `bond`, "active-backup" (the first whose link
//! is up sends, the default) or "balance-xor" (all, each the flows that a hash gives it).
//!
//! `[network]` generates switches, hosts and cables, and the rest of the file refers to them by
//! name. With it, `multipath` is "flow" by default.
//!
//! ```text
//! [network]
//! kind = "leaf-spine"       # leafL.hN – hM, leafL.upN – spineS.pN
//! leaves = 4
//! spines = 2
//! hosts_per_leaf = 16
//! uplinks = 1               # of each leaf to each spine; default: 1
//! host_speed = "100G"       # default: 100G
//! fabric_speed = "400G"     # between switches; default: that of the hosts
//! host_cable_m = 3          # default: 0
//! fabric_cable_m = 30       # default: 0
//! config = "switch.toml"    # daemon configuration of all switches, without ports; default:
//!                           # priority 3 is no-drop. By role:
//!                           # { leaf = "a.toml", spine = "b.toml" }
//!
//! kind = "fat-tree"         # edgeE.hN, edgeE.upN – aggA.downN, aggA.upN – coreC.pN
//! k = 4                     # ports of each switch
//!
//! kind = "rail"             # gpuS-R – railP-R.gN, railP-R.upN – spineS.pN
//! pods = 2
//! servers_per_pod = 4
//! rails = 8                 # GPUs of a server, each on the switch of its rail
//! spines = 4
//!
//! kind = "dragonfly"        # routerG-R.hN, .localN and .globalN
//! routers_per_group = 4
//! hosts_per_router = 2
//! global_links_per_router = 2
//! global_speed = "100G"     # between groups; default: that of the fabric
//! global_cable_m = 100      # default: 0
//!
//! [switch.leaf1]            # of a generated switch: `turn`, `multipath`, `hash_fields`, `hash_seed`
//! turn = "10us"
//!
//! [host."h[1-4]"]           # of a generated host: everything but `ports`
//! no_drop = [3]
//! ```
//!
//! Metrics: `lost`, `no_drop_lost` (of no-drop priorities, by any drop), `sent`, `received` and
//! `marked` frames; `in_network`, frames left at the end (not of a port); `xoff_episodes`, `pauses`
//! and `headroom_peak_cells` (not of a traffic); and of everything, a traffic or a priority
//! `reordered` frames, `throughput`, messages `completed`, `slowest_completion`, and how long
//! before the end the last frame arrived: `stuck`.
//! [`Metric`](super::types::Metric) defines each.
//!
//! Switches are numbered before hosts, each in the order of the file.

use std::cell::OnceCell;
use std::collections::HashMap;

use config::ConfigErrors;
use config::read::toml_document::{Diagnostics, Setting, SettingSpan, TableReader, read_file};
use switch::Nanos;

use super::faults::{read_faults, read_routes};
use super::links::Links;
use super::network::Network;
use super::nodes::{Devices, FLOW, Nodes, read_multipath};
use super::parse::{Load, MAX_TIME_NS, before_the_end, spell_time, time};
use super::tables::required;
use super::types::{Forwarding, Multipath, Scenario, Traffic};
use super::{expect, generate, lint, sweep, traffic, validate};
use crate::routes::Routes;

/// Points of a series unless the file sets their interval.
const SAMPLES: u64 = 500;
/// The most points of a series.
const MAX_SAMPLES: u64 = 10_000;
/// The longest title, in characters.
const MAX_TITLE_CHARS: usize = 200;

/// Reads a scenario. `file_name` names the file in diagnostics, and the scenario unless it has a
/// title. `load` returns the text of a configuration by its path in the scenario, or the reason why
/// it cannot be read; it is called once for each path.
///
/// # Errors
/// All mistakes of the scenario, if any, then those of each configuration. The network as a whole
/// is checked once all of its parts are valid.
pub fn parse(
    file_name: &str,
    text: &str,
    load: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Scenario, Vec<ConfigErrors>> {
    let mut devices = Devices::default();
    let scenario = read_file(file_name, text, None, |file, report| {
        let lines = Lines { text, starts: OnceCell::new() };
        read(file_name, &lines, file, &mut devices, load, report)
    });
    match scenario {
        Ok(Some(scenario)) => Ok(scenario),
        Ok(None) => Err(devices.mistakes),
        Err(own) => Err([vec![own], devices.mistakes].concat()),
    }
}

/// Reads the whole file; `None` if the file or a configuration is invalid.
fn read(
    file_name: &str,
    lines: &Lines,
    mut file: TableReader,
    devices: &mut Devices,
    load: Load,
    report: &mut Diagnostics,
) -> Option<Scenario> {
    let title = read_title(file_name, &mut file, report);
    let (duration_ns, sample_ns) = read_times(&mut file, report);
    let warmup = file.item("warmup").and_then(|item| time(item, 0..=MAX_TIME_NS, report));
    if let Some(warmup) = &warmup {
        before_the_end(warmup, duration_ns, report);
    }
    let seed = file.number_in("seed", 0..=i64::MAX as u64, report).map_or(0, |seed| seed.value);
    let forwardings = [("shortest-path", Forwarding::ShortestPath), ("learn", Forwarding::Learning)];
    let forwarding = file.choice("forwarding", &forwardings, report);
    let latency = file.boolean("latency", report).is_some_and(|latency| latency.value);
    let queue_lengths = file.boolean("queue_lengths", report).is_some_and(|measured| measured.value);
    let convergence = file.item("convergence").and_then(|item| time(item, 0..=MAX_TIME_NS, report));
    let generated = generate::read(&mut file, load, report);
    let learns = forwarding.as_ref().is_some_and(|choice| choice.value == Forwarding::Learning);
    let default = if generated.is_some() && !learns { FLOW } else { Multipath::Receiver };
    let multipath = read_multipath(&mut file, default, report);
    let of_network = multipath.as_ref().map_or(default, |multipath| multipath.value);
    let nodes = Nodes::read(&mut file, (generated.as_ref(), of_network), devices, load, report);
    let links = Links::read(&mut file, generated.as_ref(), &nodes, devices, report);
    let network = Network { nodes: &nodes, links: &links, devices };
    let traffics = traffic::read(&mut file, (duration_ns, seed), &nodes, load, report);
    let routes = read_routes(&mut file, network, report);
    let faults = read_faults(&mut file, duration_ns, network, report);
    validate::has_cut(&faults, convergence.as_ref(), report);
    let expectations = expect::read(&mut file, &traffics, network, &|location| lines.of(location), report);
    let sweep = sweep::read(&mut file, seed, lines.text, report);
    file.finish(report);

    let is_right = |report: &Diagnostics| report.is_empty() && devices.mistakes.is_empty();
    if !is_right(report) {
        return None;
    }
    validate::all_linked(network, report);
    if let Some(Setting { value: Forwarding::Learning, location }) = &forwarding {
        validate::no_loop(&links.list, nodes.len(), location, report);
        validate::no_paths(&nodes, multipath.as_ref(), convergence.as_ref(), report);
        traffics.iter().for_each(|traffic| traffic.rejects_flooding(report));
    }
    if !is_right(report) {
        return None;
    }
    let tables: Vec<SettingSpan> = (0..nodes.len()).map(|node| nodes.location(node).clone()).collect();
    let nodes = nodes.build(devices, of_network);
    let mut table = Routes::shortest(&nodes, &links.list);
    routes.iter().for_each(|route| table.set(*route));
    validate::bonds((&nodes, &tables), &links.list, report);
    let ways = validate::path_limits(&traffics, &nodes, &links.list, &table, report);
    let convergence_ns = convergence.as_ref().map(|time| time.value);
    let network = (&nodes[..], &links.list[..]);
    let in_time = validate::routes_in_time(&table, network, (&routes, &faults), convergence_ns);
    validate::vlans((&nodes, &tables), &links.list, &traffics, &in_time, report);
    if !is_right(report) {
        return None;
    }
    let names = traffics.iter().map(|traffic| traffic.name.clone());
    let numbers: HashMap<String, usize> = names.zip(0..).collect();
    let traffic: Vec<Traffic> =
        traffics.into_iter().zip(ways).map(|(traffic, way)| traffic.traffic(way, &numbers, report)).collect();
    let forwarding = forwarding.map_or(Forwarding::ShortestPath, |forwarding| forwarding.value);
    let mut warnings = Diagnostics::default();
    lint::headroom(&links, &nodes, &traffic, &mut warnings);
    let warnings = ConfigErrors::warnings(file_name, lines.text, warnings);
    let links = links.list;
    Some(Scenario {
        title,
        duration_ns,
        warmup_ns: warmup.map_or(0, |warmup| warmup.value),
        seed,
        sample_ns,
        latency,
        queue_lengths,
        forwarding,
        convergence_ns: convergence.map(|convergence| convergence.value),
        nodes,
        links,
        traffic,
        routes,
        faults,
        expectations,
        sweep,
        warnings,
    })
}

fn read_title(file_name: &str, file: &mut TableReader, report: &mut Diagnostics) -> String {
    let Some(title) = file.string_like("title", "incast", report) else {
        let name = file_name.rsplit('/').next().unwrap_or(file_name);
        return name.strip_suffix(".toml").unwrap_or(name).to_owned();
    };
    let fits = (1..=MAX_TITLE_CHARS).contains(&title.value.chars().count());
    if !fits || title.value.chars().any(char::is_control) {
        let cure = format!("write one line of up to {MAX_TITLE_CHARS} characters");
        report.add(&title.location, "not a title", cure);
    }
    title.value.to_owned()
}

/// Reads the duration and the time between two points of a series.
fn read_times(file: &mut TableReader, report: &mut Diagnostics) -> (Nanos, Nanos) {
    let duration = file.item("duration").and_then(|item| time(item, 1..=MAX_TIME_NS, report));
    let duration = required(duration, file, "duration", "duration = \"20ms\"", report);
    let sample = file.item("sample").and_then(|item| time(item, 1..=MAX_TIME_NS, report));
    // Without a duration, no time is too late.
    let Some(duration) = duration else { return (MAX_TIME_NS, MAX_TIME_NS) };
    let duration_ns = duration.value;
    let Some(sample) = sample else { return (duration_ns, (duration_ns / SAMPLES).max(1)) };
    let samples = duration_ns / sample.value;
    if samples > MAX_SAMPLES {
        let what = format!("{samples} points of time are too many");
        let least = spell_time(duration_ns.div_ceil(MAX_SAMPLES));
        report.add(&sample.location, what, format!("write at least \"{least}\", which makes {MAX_SAMPLES}"));
    } else if samples == 0 {
        let what = format!("longer than the duration, {}", spell_time(duration_ns));
        report.add(&sample.location, what, "write a shorter time");
    }
    (duration_ns, sample.value)
}

/// The lines of the file, located once.
struct Lines<'t> {
    text: &'t str,
    /// Offset of the start of each line.
    starts: OnceCell<Vec<usize>>,
}

impl Lines<'_> {
    /// Returns the line of a span, from 1.
    fn of(&self, location: &SettingSpan) -> usize {
        let breaks = self.text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = self.starts.get_or_init(|| std::iter::once(0).chain(breaks).collect());
        starts.partition_point(|start| *start <= location.span.start)
    }
}
