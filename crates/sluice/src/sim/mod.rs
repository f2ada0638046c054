//! `sluice sim`: runs a scenario in virtual time and reports the results. The simulator is the
//! `sim` crate; here its files are read, and its results become a summary, JSON, plots and
//! captures.

mod capture;
pub mod format;
mod hotspots;
pub mod huge_pages;
pub mod input;
pub mod overrides;
mod plots;
mod progress;
pub mod run;
#[cfg(test)]
#[path = "../../tests/fixtures/sim.rs"]
pub mod sample;
mod series_table;
mod summary;
mod tables;
mod threads;
mod truncate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use config::read::toml_document::parse_units;
use sim::scenario::TIMES;

use crate::output;
use input::RunError;
use overrides::Override;
use run::{CompletedRun, RunOptions};

/// Exit code if an expectation does not hold, or something does not add up.
const EXIT_MISSED: u8 = 1;
/// Exit code if the scenario is invalid, or a file cannot be read or written.
const EXIT_WRONG: u8 = 2;

/// Which scenario, and what to make of it.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Arguments {
    /// The scenario; configurations that it names are looked for from its folder.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the outcome as JSON, and nothing else on standard output.
    #[arg(long)]
    json: bool,
    /// Draw occupancy.svg, pauses.svg, throughput.svg, completion.svg and queues.svg into this
    /// folder.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Write the frames of a link as pcapng; either end names the link: h1, or leaf1.p3. May be
    /// given several times.
    #[arg(long, value_name = "LINK=FILE", value_parser = capture_of)]
    pcap: Vec<(String, PathBuf)>,
    /// Another value for a setting of the scenario, or with FILE:KEY=VALUE of a configuration that
    /// it names. May be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Write a table of all flows.
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
    /// Write a table of messages, with the slowdown against a message that is alone in the
    /// network.
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// Write a table of latencies: of each traffic, and in each switch. The scenario has
    /// `latency = true`.
    #[arg(long, value_name = "FILE")]
    latency: Option<PathBuf>,
    /// Write a table of the links' utilization.
    #[arg(long, value_name = "FILE")]
    links: Option<PathBuf>,
    /// Write a table of priority groups, with their time in XOFF.
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// Write a table of queue lengths: for how long each queue had which. The scenario has
    /// `queue_lengths = true`.
    #[arg(long, value_name = "FILE")]
    queues: Option<PathBuf>,
    /// Write the series over time as a table: cells of priority groups and queues, thresholds,
    /// throughput, pauses.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Begin random numbers elsewhere than the scenario says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    seed: Option<u64>,
    /// End the run earlier than the scenario says, as 5ms or 1.5us; expectations are judged anyway.
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    duration: Option<u64>,
    /// Run on this many cores, with the same results to the byte; more than the machine has make it
    /// slower.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Do not show progress. It is said on standard error, if that is a terminal.
    #[arg(long)]
    quiet: bool,
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
A scenario is a network of switches, hosts and cables, what is sent over it, what happens to it,
and what must come of it. The switches are those of sluiced, with its configuration files. Time is
virtual, to the nanosecond: the same scenario and seed give the same outcome.

    sluice sim config/scenarios/first.toml
    sluice sim --plots plots --duration 20ms config/scenarios/first.toml
    sluice sim --pcap sender1=s1.pcapng --pcap sw.receiver=r.pcapng config/scenarios/first.toml
    sluice sim --set traffic.storage.rate=400M config/scenarios/first.toml
    sluice sim --set ../incast.toml:buffer.headroom_cells=60000 config/scenarios/first.toml
    sluice sim --messages messages.csv config/scenarios/incast-dcqcn.toml
    sluice sim --json config/scenarios/first.toml | jq '.traffic[].lost_frames'

With --set, KEY is a path as TOML writes it; of a list of tables, one is named by its name or its
number from 0: traffic.rdma.rate, link.0.cable_m. What is no TOML is a string: rate=10G.

With --threads the switches and their hosts are divided among cores. What acts on each other
without delay stays together: the ranks of a collective, and what waits for other traffic (after).

docs/simulator.md explains the language and the model.

Mistakes go to standard error with the lines of the file, and so do warnings: of cables that the
headroom of a switch is too short for.

Captures hold the headers of frames, one interface for each direction; times are those of the last
bit's arrival, in nanoseconds from 1970 on.

Tables are Apache Parquet if FILE ends in .parquet, with a null where CSV has an empty cell, and
CSV otherwise. --flows has a row for each flow: what it sent, what arrived, marks, throughput.
--messages has a row for each message that began after the warm-up: start, end, completion time,
the ideal one (alone in the network, in which switches take no time), and the slowdown, the ratio
of both; of one that had not arrived at the end, end, completion time and slowdown are empty. A
flow's slowdown is the mean of its messages. --latency has the latency of each traffic, where hop
is empty, and its time in each switch, where hop is the port by which it leaves; --links the
utilization from each end; --groups the groups of the switches with their time in XOFF (xoff_ns);
--queues for how long (ns) each queue had at least least_cells, and less than the next row's.
--series has a row for each `sample` of each kind: of no-drop priority groups shared_cells and
headroom_cells (the most since the row before), xoff_cells and xon_cells (thresholds in shared
cells); of other groups group_cells and of queues queue_cells (the most), if there were any; of
traffic throughput_bps; and a row for each pause, from time_ns on for pause_ns.

With `warmup`, throughput, fairness, messages, latency, queue lengths, busy_percent, and number and
time of XOFF episodes and pauses count from its end on, and so do expectations of throughput and
slowest_completion. Counts of frames, drops and peaks, --series and all other expectations, of
pauses and XOFF episodes too, are of the whole run.

JSON: title, seed, duration_ns, warmup_ns, frame_hops, events,
traffic[]: name, priority, flows, sent_frames, received_frames, received_bytes, in_network_frames,
  lost_frames, reordered_frames, marked_frames, cnps, retransmitted_frames (beyond sent_frames;
  only if they are acknowledged), throughput_bps, fairness (Jain's index of the flows; null: fewer
  than two), messages, completed, completion (null: none to measure): messages,
  min_ns, mean_ns, p50_ns, p99_ns, max_ns; job_ns (from the start until all of it has arrived, of
  traffic that ends); last_arrival_ns; with `latency = true` latency: frames, min_ns, mean_ns,
  p50_ns, p90_ns, p99_ns, p999_ns, max_ns
hops[], with `latency = true`: traffic, port by which it leaves a switch, latency there, from the
  last bit's arrival to the start of the transmission
queue_lengths[], with `queue_lengths = true`: port, queue, mean_cells, bins[] (powers of two, after
  one for the empty queue): least_cells, ns
switches[]: name, headroom_peak_cells, shared_peak_cells, held_frames, ports[]: peer and all that
  `sluice show --help` explains of a port; groups[] of these (priority) that received anything and
  queues[] (queue) that held anything, with all that it explains of them
hosts[]: name, peer, sent_frames, received_frames, foreign_frames, pauses[], paused_ns[] (both by
  priority)
links[]: name, cut_frames, busy_percent[] (from its first end, from its second)
dcbx[], if any end of a link negotiates: port, version, state and reason of PFC, no_drop[],
  settled_ns (when anything of it last changed)
expectations[]: line, expected, measured (null: never), holds
imbalances[]: what does not add up; there should be none

Exit codes: 0 every expectation holds, 1 one does not (or something does not add up), 2 the
scenario is wrong, or a file or standard output cannot be read or written.";

/// Parses `LINK=FILE`.
fn capture_of(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((link, file)) if !link.is_empty() && !file.is_empty() => Ok((link.to_owned(), file.into())),
        _ => Err("write an end of a link and a file, as h1=h1.pcapng or leaf1.p3=p3.pcapng".to_owned()),
    }
}

pub fn time_ns(text: &str) -> Result<u64, String> {
    let ns = parse_units(text, TIMES).filter(|ns| *ns > 0);
    ns.ok_or_else(|| "write a time with its unit (ns, us, ms or s), as 5ms or 1.5us".to_owned())
}

/// Runs the scenario and prints the results.
pub fn run(arguments: &Arguments) -> ExitCode {
    huge_pages::reexec_with_huge_pages();
    match simulate(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_MISSED),
        Err(refusal) => {
            refusal.print();
            ExitCode::from(EXIT_WRONG)
        }
    }
}

/// Runs the scenario. True if all expectations hold.
fn simulate(arguments: &Arguments) -> Result<bool, RunError> {
    let set: Vec<Override> =
        arguments.set.iter().cloned().chain(arguments.seed.map(Override::of_seed)).collect();
    let mut scenario = input::read(&arguments.file, &set)?;
    if !scenario.warnings.list().is_empty() {
        eprintln!("{:?}", miette::Report::new(scenario.warnings.clone()));
    }
    input::note_imported(&scenario);
    input::shorten(&mut scenario, arguments.duration)?;
    // Files that cannot be written are reported before a long run rather than after it.
    if let Some(folder) = &arguments.plots {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    if arguments.latency.is_some() && !scenario.latency {
        return Err(RunError::Other(anyhow!(
            "--latency: {} does not measure it: write latency = true into it, or add --set latency=true",
            arguments.file.display()
        )));
    }
    if arguments.queues.is_some() && !scenario.queue_lengths {
        return Err(RunError::Other(anyhow!(
            "--queues: {} does not measure them: write queue_lengths = true into it, or add --set queue_lengths=true",
            arguments.file.display()
        )));
    }
    refuse_shared_files(arguments)?;
    arguments.tables().try_for_each(|(_, file)| tables::create(file))?;
    let CompletedRun { outcome, wall, captures } = run_on_cores(&scenario, arguments)?;
    let plots::Written { mut files, missing } = match &arguments.plots {
        Some(folder) => plots::write(&outcome, folder)?,
        None => plots::Written::default(),
    };
    files.extend(captures);
    if let Some(file) = &arguments.flows {
        tables::write_flows(&outcome, file)?;
        files.push(file.clone());
    }
    if let Some(file) = &arguments.messages {
        let missing = tables::write_messages(&outcome, file)?;
        for (missing, which) in missing.into_iter().zip(["arrived", "had not arrived at the end"]) {
            if missing > 0 {
                let file = file.display();
                eprintln!("sluice: {file} lacks {missing} messages that {which}: it holds a million of them");
            }
        }
        files.push(file.clone());
    }
    if let Some(file) = &arguments.series {
        let missing = series_table::write(&outcome, file)?;
        if missing > 0 {
            eprintln!("sluice: {} lacks the last {missing} pauses: it holds a million", file.display());
        }
        files.push(file.clone());
    }
    type WriteTable = fn(&sim::Results, &Path) -> Result<()>;
    let tables: [(&Option<PathBuf>, WriteTable); 4] = [
        (&arguments.latency, tables::write_latency),
        (&arguments.links, tables::write_links),
        (&arguments.groups, tables::write_groups),
        (&arguments.queues, tables::write_queues),
    ];
    for (file, write) in tables {
        if let Some(file) = file {
            write(&outcome, file)?;
            files.push(file.clone());
        }
    }
    let mut lines: Vec<String> = files.iter().map(|file| format!("wrote {}", file.display())).collect();
    lines.extend(missing.iter().map(|(name, why)| format!("no {name}: {why}")));
    let printed = if arguments.json {
        lines.iter().for_each(|line| eprintln!("{line}"));
        output::print(&output::json(&outcome, true)?)
    } else {
        output::print(&summary::text(&outcome, wall))
            .and_then(|()| lines.iter().try_for_each(|line| output::print(line)))
    };
    match printed {
        // A reader that closes standard output early is no error; the exit code still reports the
        // result.
        Err(error) if !output::is_broken_pipe(&error) => Err(error.into()),
        _ => Ok(outcome.holds()),
    }
}

impl Arguments {
    /// The tables that are to be written: the option of each, and its file.
    fn tables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let tables = [
            ("--flows", &self.flows),
            ("--messages", &self.messages),
            ("--latency", &self.latency),
            ("--links", &self.links),
            ("--groups", &self.groups),
            ("--queues", &self.queues),
            ("--series", &self.series),
        ];
        tables.into_iter().filter_map(|(option, file)| Some((option, file.as_deref()?)))
    }
}

/// Refuses a file that is to hold more than one table or capture: the last would overwrite the
/// others.
fn refuse_shared_files(arguments: &Arguments) -> Result<()> {
    const PCAP: &str = "--pcap";
    let captures = arguments.pcap.iter().map(|(_, file)| (PCAP, &**file));
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    for (option, file) in arguments.tables().chain(captures) {
        // ./a.csv is a.csv.
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        if let Some((other, _)) = known.iter().find(|(_, other)| *other == absolute) {
            let both = match (*other == PCAP, option == PCAP) {
                (true, true) => "two links",
                (false, false) => "two tables",
                _ => "a table and a link",
            };
            bail!("{option}: {} is to hold {both}: give each a file of its own", file.display());
        }
        known.push((option, absolute));
    }
    Ok(())
}

/// Runs a scenario on one core or several.
fn run_on_cores(scenario: &sim::Scenario, arguments: &Arguments) -> Result<CompletedRun> {
    let Arguments { pcap, quiet, threads, series, .. } = arguments;
    let options = RunOptions { pcap, quiet: *quiet, occupancy: series.is_some() };
    if *threads == 1 {
        return run::run(scenario, options);
    }
    run::run_in_parts(scenario, usize::from(*threads), options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_name_a_link_and_a_file() {
        assert_eq!(
            capture_of("leaf1.p3=a=b.pcapng"),
            Ok(("leaf1.p3".to_owned(), PathBuf::from("a=b.pcapng")))
        );
        for wrong in ["h1", "=file", "h1=", ""] {
            assert!(capture_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_table_and_capture_has_a_file_of_its_own() {
        #[derive(clap::Parser)]
        struct CommandLine {
            #[command(flatten)]
            arguments: Arguments,
        }
        let refused = |options: &[&str]| {
            let line = ["sim", "a.toml"].iter().chain(options);
            let line = <CommandLine as clap::Parser>::parse_from(line);
            refuse_shared_files(&line.arguments).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&["--flows", "a.csv", "--messages", "b.csv", "--pcap", "h1=h1.pcapng"]), None);
        for (options, option, both) in [
            (["--flows", "a.csv", "--messages", "./a.csv"], "--messages: ./a.csv", "two tables"),
            (["--series", "a", "--queues", "a"], "--series: a", "two tables"),
            (["--pcap", "h1=a", "--pcap", "h2=a"], "--pcap: a", "two links"),
            (["--pcap", "h1=a", "--links", "a"], "--pcap: a", "a table and a link"),
        ] {
            let why = format!("{option} is to hold {both}: give each a file of its own");
            assert_eq!(refused(&options), Some(why));
        }
    }

    #[test]
    fn times_have_units() {
        for (text, ns) in
            [("5ms", Some(5_000_000)), ("1.5us", Some(1_500)), ("0s", None), ("5", None), ("-1s", None)]
        {
            assert_eq!(time_ns(text).ok(), ns, "{text}");
        }
    }

    /// The names in JSON are an interface, so a removed or changed name must be noticed.
    #[test]
    fn every_field_of_the_json_is_named_in_the_help() {
        fn names(value: &serde_json::Value, found: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(map) => map.iter().for_each(|(name, value)| {
                    found.push(name.clone());
                    names(value, found);
                }),
                serde_json::Value::Array(values) => values.iter().for_each(|value| names(value, found)),
                _ => {}
            }
        }
        assert!(AFTER_HELP.lines().all(|line| line.chars().count() <= 99), "wrapped lines are hard to read");
        let text = AFTER_HELP.to_owned() + &crate::show::help::text();
        let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let mut found = Vec::new();
        names(&serde_json::to_value(sample::fabric()).unwrap(), &mut found);
        assert!(found.len() > 100, "the sample has something of all");
        for name in found {
            assert!(words.contains(&name.as_str()), "{name} is not in the help");
        }
    }
}
