//! `sluice twin`: a running switch, or the counters or a recording of an incident, as a scenario of
//! the simulator.
//!
//! Rule: the scenario has the switch's configuration, a host on each port, and as traffic what each
//! port was offered between two readings of the counters, by priority. Counters do not say where
//! frames went: each port and priority is divided among the other ports in proportion to what the
//! queues of that priority were offered there. Of a recording each frame is known, with its time.

#[cfg(test)]
mod agreement;
mod counters;
mod recording;
mod scenario;
mod trace;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use config::Config;
use config::read::toml_document::too_long;
use control::Client;
use host::units::duration_ns;
use serde_json::json;

use crate::exit::misuse;
use crate::import;
use crate::new_file::write_files;
use crate::output;
use crate::read_file::{self, Text};
use crate::show;
use crate::sim::format::time;
use crate::sim::input;
use crate::socket::Daemon;
use counters::Counters;

/// Write a scenario of a running switch: its configuration, and what it is offered.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Arguments {
    /// The folder for scenario.toml and switch.toml. It is created.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    daemon: Daemon,
    /// Time from one reading of the counters to the next.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds, conflicts_with = "counters")]
    interval: f64,
    /// Readings after the first. Each interval is a part of the scenario with rates of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "counters")]
    samples: u32,
    /// Counters of an incident instead of a daemon's: what `sluice show counters --json` printed,
    /// twice or more, or with --watch.
    #[arg(long, value_name = "FILE", requires = "config")]
    counters: Option<PathBuf>,
    /// A recording of an incident instead of counters: what `sluice record` wrote. The scenario has
    /// each frame, with the time and the length that were recorded.
    #[arg(long, value_name = "FILE", requires = "config", conflicts_with_all = ["counters", "interval", "samples", "burst"])]
    recording: Option<PathBuf>,
    /// The configuration that the switch had then, or a CONFIG_DB of SONiC, whose name ends with
    /// .json.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Begin this time after the recording's beginning, as in 2.5s or 1200us.
    #[arg(long, value_name = "TIME", value_parser = duration_ns, requires = "recording")]
    from: Option<u64>,
    /// End this time after the recording's beginning.
    #[arg(long, value_name = "TIME", value_parser = duration_ns, requires = "recording")]
    to: Option<u64>,
    /// Offer bursts of this many bytes at random times instead of frames at equal distances.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(64..=1_000_000_000))]
    burst: Option<u64>,
    /// Replace the files if they exist.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
A host is on each port that is up, over a cable as the configuration has it. What a sender was
paused for was not offered, and is not in the traffic. Flows below 1 Mbit/s are left out. Averages
have no bursts: --burst gives them some.

A recording has each frame, and the pauses by peers. With other thresholds the same frames are
offered at the same times: a sender that was paused would have sent earlier or later then, and one
that reacts to losses or marks otherwise, which no recording has. Flooded frames, frames lost
before they reached the switch, and what was queued at the beginning are left out.

JSON: scenario, ports, flows, duration_ns; of a recording also frames, earliest_ns (how much before
its recorded time a frame arrives at most, as links carry frames one by one), notes[] (what is not
in the scenario), and differences[] (recorded settings → those of --config).

Then: sluice sim DIR/scenario.toml --set switch.toml:KEY=VALUE, or sluice advise DIR/scenario.toml.";

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .filter(|seconds| (0.05..=3600.0).contains(seconds))
        .ok_or("write seconds from 0.05 to 3600".into())
}

/// Writes the scenario and its configuration.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.daemon.is_named() && (arguments.recording.is_some() || arguments.counters.is_some()) {
        return misuse("--socket has no effect with --recording or --counters: leave it out");
    }
    match (&arguments.recording, &arguments.config) {
        (Some(file), Some(config)) => of_recording(arguments, file, config),
        (None, Some(_)) if arguments.counters.is_none() => {
            misuse("--config is for --counters or --recording: a daemon has its own")
        }
        _ => of_counters(arguments),
    }
}

/// Writes the scenario of a recording.
fn of_recording(arguments: &Arguments, file: &Path, config_file: &Path) -> Result<()> {
    let name = config_file.display().to_string();
    let text = switch_config(config_file)?;
    let config = parse_config(&name, &text)?;
    let incident = recording::read(file, arguments.from.unwrap_or(0), arguments.to)?;
    let differences = recording::differences(&incident, &config, &name)?;
    let title = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let twin = trace::text(&incident, &config, &title).map_err(|why| anyhow!(why))?;
    accepted(&twin.scenario, (&text, &twin.files), "take a shorter part with --from and --to")?;
    for line in &differences {
        eprintln!("sluice: recorded with other settings than those of {name}: {line}");
    }
    twin.notes.iter().for_each(|line| eprintln!("sluice: {line}"));
    let path = write(arguments, &twin.scenario, (&text, &twin.files))?;
    let (ports, flows, frames) = (twin.ports, twin.files.len(), twin.frames);
    if arguments.json {
        let answer = json!({
            "scenario": path, "ports": ports, "flows": flows, "duration_ns": twin.duration_ns, "frames": frames,
            "earliest_ns": twin.earliest_ns, "notes": twin.notes, "differences": differences,
        });
        return output::print(&output::json(&answer, true)?);
    }
    let frames = output::counted(frames as u64, "frame", "frames");
    output::print(&format!(
        "{path}: {}, {frames} in {}; each arrives when it was recorded, or up to {} earlier",
        ports_and_flows(ports, flows),
        time(twin.duration_ns),
        time(twin.earliest_ns)
    ))
}

/// Writes the scenario of a daemon, or of counters.
fn of_counters(arguments: &Arguments) -> Result<()> {
    let (text, counters) = match (&arguments.counters, &arguments.config) {
        (Some(file), Some(config)) => (switch_config(config)?, read(file)?),
        _ => arguments.daemon.talk(async |client| of_daemon(arguments, client).await)?,
    };
    let config = parse_config("switch.toml", &text)?;
    if counters.len() < 2 {
        return misuse("one reading of the counters says nothing of rates: two or more are needed");
    }
    let intervals = counters::intervals(&counters, &config.switch).map_err(|why| anyhow!(why))?;
    let scenario = scenario::text(&counters, &intervals, &config.switch, arguments.burst);
    let scenario = scenario.map_err(|why| anyhow!(why))?;
    accepted(&scenario.text, (&text, &[]), "take fewer samples or a longer interval")?;
    let path = write(arguments, &scenario.text, (&text, &[]))?;
    let (ports, flows) = (scenario.ports, scenario.flows);
    if arguments.json {
        let duration_ns = intervals.last().map_or(0, |interval| interval.stop_ns);
        let answer = json!({"scenario": path, "ports": ports, "flows": flows, "duration_ns": duration_ns});
        return output::print(&output::json(&answer, true)?);
    }
    output::print(&format!("{path}: {}", ports_and_flows(ports, flows)))
}

fn ports_and_flows(ports: usize, flows: usize) -> String {
    let ports = output::counted(ports as u64, "port", "ports");
    format!("{ports}, {}", output::counted(flows as u64, "flow", "flows"))
}

/// Parses the configuration of the switch.
fn parse_config(name: &str, text: &str) -> Result<Config> {
    config::parse(name, text).map_err(|errors| {
        eprintln!("{:?}", miette::Report::new(errors));
        anyhow!("the configuration of the switch is not accepted")
    })
}

/// Writes the scenario, its configuration and its files into the folder. Returns the path of the
/// scenario.
fn write(
    arguments: &Arguments,
    scenario: &str,
    (config, files): (&str, &[(String, String)]),
) -> Result<String> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let [file, switch] = ["scenario.toml", "switch.toml"].map(|name| folder.join(name));
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.join(name)).collect();
    let mut all: Vec<(&Path, &str)> = vec![(&switch, config)];
    all.extend(paths.iter().zip(files).map(|(path, (_, text))| (path.as_path(), text.as_str())));
    all.push((&file, scenario));
    write_files(&all, arguments.force)?;
    Ok(file.display().to_string())
}

/// Fails with `cure` if the simulator does not accept a scenario.
fn accepted(scenario: &str, (config, files): (&str, &[(String, String)]), cure: &str) -> Result<()> {
    let mut load = |name: &str| {
        let file = files.iter().find(|(file, _)| file == name);
        Ok(file.map_or(config, |(_, text)| text.as_str()).to_owned())
    };
    let parsed = sim::scenario::parse("scenario.toml", scenario, &mut load);
    let Err(mistakes) = parsed else { return Ok(()) };
    let first = mistakes.iter().flat_map(|file| file.list()).next();
    bail!(
        "the simulator does not accept what was measured: {}; if that is too much or too long, {cure}",
        first.map(ToString::to_string).unwrap_or_default()
    )
}

/// Reads the configuration in force, and the counters several times.
async fn of_daemon(arguments: &Arguments, client: &mut Client) -> Result<(String, Vec<Counters>)> {
    let configuration = client.configuration().await?;
    for line in &configuration.overrides {
        eprintln!("sluice: in force, and not in the configuration of the twin: {line}");
    }
    let mut counters = Vec::new();
    for sample in 0..=arguments.samples {
        if sample > 0 {
            tokio::time::sleep(Duration::from_secs_f64(arguments.interval)).await;
        }
        counters.push(serde_json::from_value(show::counters(&client.snapshot().await?)?)?);
    }
    Ok((configuration.text, counters))
}

/// Returns the configuration of the switch, imported if it is a CONFIG_DB of SONiC.
fn switch_config(file: &Path) -> Result<String> {
    let (name, text) = (file.display().to_string(), whole(file)?);
    if !input::is_sonic(&name) {
        return Ok(text);
    }
    let text = import::of_sonic(&text).map_err(|why| anyhow!("{name}: {why}"))?;
    eprintln!("sluice: {name} is imported; `sluice import sonic` lists what is not carried over");
    Ok(text)
}

fn whole(file: &Path) -> Result<String> {
    let name = file.display();
    match read_file::read(file).with_context(|| format!("cannot read {name}"))? {
        Text::Whole(text) => Ok(text),
        // Its only mistake.
        Text::TooLong(bytes) => bail!("{}", too_long(&name.to_string(), bytes).list()[0]),
    }
}

/// Reads the counters of a file.
fn read(file: &Path) -> Result<Vec<Counters>> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let all = serde_json::Deserializer::from_str(&text).into_iter().collect::<Result<_, _>>();
    all.with_context(|| format!("{name} is not what `sluice show counters --json` prints"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show_fixture as sample;

    #[test]
    fn long_lines_of_the_help_are_hard_to_read() {
        assert!(AFTER_HELP.lines().all(|line| line.chars().count() <= 99));
    }

    /// What is printed, once or line by line, is read again.
    #[test]
    fn counters_are_read_as_they_were_printed() {
        let [before, now] =
            [sample::snapshot(), sample::later()].map(|snapshot| show::counters(&snapshot).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("counters.json");
        for text in [format!("{before:#}\n{now:#}\n"), format!("{before}\n{now}\n")] {
            std::fs::write(&file, text).unwrap();
            let times: Vec<u64> = read(&file).unwrap().iter().map(|counters| counters.at_ns).collect();
            assert_eq!(times, [10_000_000_000, 12_000_000_000]);
        }
        std::fs::write(&file, "{}").unwrap();
        let wrong = format!("{:#}", read(&file).err().unwrap());
        assert!(wrong.contains("is not what `sluice show counters --json` prints"), "{wrong}");
    }

    /// 5000 flows are more than a scenario has.
    #[test]
    fn too_much_is_refused() {
        let ports =
            "[port.a]\ninterface = \"a\"\nspeed = \"10G\"\n[port.b]\ninterface = \"b\"\nspeed = \"10G\"\n";
        let of = |duration: &str, flows: usize| {
            let mut text = format!(
                "duration = \"{duration}\"\n[switch.switch]\nconfig = \"switch.toml\"\n[host.h1]\n[host.h2]\n\
                 [[link]]\nends = [\"h1\", \"switch.a\"]\n[[link]]\nends = [\"h2\", \"switch.b\"]\n"
            );
            for number in 0..flows {
                text += &format!(
                    "[[traffic]]\nname = \"flow-{number}\"\nfrom = \"h1\"\nto = \"h2\"\nrate = \"1M\"\n"
                );
            }
            text
        };
        const CURE: &str = "take fewer samples or a longer interval";
        accepted(&of("1ms", 2), (ports, &[]), CURE).unwrap();
        for wrong in [of("1001s", 2), of("1ms", 5000)] {
            let error = accepted(&wrong, (ports, &[]), CURE).unwrap_err().to_string();
            assert!(error.ends_with("take fewer samples or a longer interval"), "{error}");
        }
    }

    /// The files are written once, read by the simulator, and replaced on request only.
    #[test]
    fn a_recording_becomes_files_that_the_simulator_reads() {
        #[derive(clap::Parser)]
        struct CommandLine {
            #[command(flatten)]
            twin: Arguments,
        }
        let (folder, recording) = agreement::record();
        let [config, out] = ["device.toml", "out"].map(|name| folder.path().join(name));
        std::fs::write(&config, agreement::CONFIG).unwrap();
        let [config, out, recording] = [config, out, recording].map(|path| path.display().to_string());
        let twin = |options: &[&str]| {
            let line = ["twin", &out, "--recording", &recording].into_iter().chain(options.iter().copied());
            let line =
                <CommandLine as clap::Parser>::try_parse_from(line).map_err(|error| error.to_string())?;
            run(&line.twin).map_err(|error| format!("{error:#}"))
        };
        twin(&["--config", &config]).unwrap();
        let scenario = crate::sim::input::read(&Path::new(&out).join("scenario.toml"), &[]).unwrap();
        assert_eq!((scenario.traffic.len(), scenario.links.len(), scenario.faults.len()), (4, 3, 1));
        let frames = |traffic: &sim::scenario::Traffic| traffic.trace.as_ref().unwrap().frames();
        assert_eq!(scenario.traffic.iter().map(frames).sum::<u64>(), 2601);
        let refused = twin(&["--config", &config]).unwrap_err();
        assert!(refused.contains("the file exists: name another one"), "{refused}");
        twin(&["--config", &config, "--force", "--json", "--to", "5ms"]).unwrap();
        for (options, what) in [
            (&[][..], "--config <FILE>"),
            (&["--config", &config, "--counters", "x"], "cannot be used with"),
            (&["--config", &config, "--burst", "64000"], "cannot be used with"),
            (&["--config", "/nowhere.toml"], "cannot read /nowhere.toml"),
            (&["--config", &config, "--socket", "x.sock"], "--socket has no effect with --recording"),
            (
                &["--config", &config, "--from", "5ms", "--to", "5ms"],
                "--to is not after --from: write a later time",
            ),
        ] {
            let refused = twin(options).unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
    }

    /// A CONFIG_DB of SONiC becomes the configuration of the twin, of counters and of a recording.
    #[test]
    fn the_configuration_may_be_one_of_sonic() {
        #[derive(clap::Parser)]
        struct CommandLine {
            #[command(flatten)]
            twin: Arguments,
        }
        let (folder, recording) = agreement::record();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let port = |name: &str| format!("\"{name}\": {{ \"speed\": \"1000\" }}");
        let ports = ["a", "b", "c"].map(port).join(", ");
        std::fs::write(path("config_db.json"), format!("{{ \"PORT\": {{ {ports} }} }}")).unwrap();
        std::fs::write(path("wrong.json"), "[port.a]").unwrap();
        let count = |n: u64| json!({"frames": n, "bytes": 1000 * n});
        let reading = |at_ns: u64, n: u64| {
            json!({
                "at_ns": at_ns,
                "ports": [json!({"name": "a", "up": true}), json!({"name": "b", "up": true})],
                "groups": [{"port": "a", "priority": 3, "received": count(n)}],
                "queues": [{"port": "b", "queue": 3, "transmitted": count(n), "dropped": count(0),
                            "wred_dropped": {"green": null, "yellow": null, "red": null}}],
            })
        };
        let counters = format!("{}\n{}\n", reading(0, 0), reading(5_000_000, 400));
        std::fs::write(path("counters.json"), counters).unwrap();
        let twin = |out: &str, options: [&str; 2], config: &str| {
            let line =
                ["twin", &path(out), options[0], options[1], "--config", &path(config)].map(str::to_owned);
            let line = <CommandLine as clap::Parser>::try_parse_from(line).unwrap();
            run(&line.twin).map_err(|error| format!("{error:#}"))
        };
        let recording = recording.display().to_string();
        for (out, options) in
            [("one", ["--recording", &recording]), ("two", ["--counters", &path("counters.json")])]
        {
            twin(out, options, "config_db.json").unwrap();
            let written = std::fs::read_to_string(Path::new(&path(out)).join("switch.toml")).unwrap();
            assert!(written.contains("speed = \"1000M\""), "{written}");
            input::read(&Path::new(&path(out)).join("scenario.toml"), &[]).unwrap();
            let refused = twin("three", options, "wrong.json").unwrap_err();
            assert!(refused.contains("wrong.json: it is no JSON"), "{refused}");
        }
    }

    #[test]
    fn intervals_are_seconds() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "1h", "nan", "1e9"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
