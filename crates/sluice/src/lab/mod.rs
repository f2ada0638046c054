//! `sluice lab`: a network of namespaces, switches and hosts on this machine, from the file of a
//! scenario. The same file runs in virtual time with `sluice sim`.

mod network;
mod state;
mod traffic;
pub mod verdict;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;
use sim::Scenario;
use testbed::{Namespace, scenario as plan};

use crate::exit::{self, misuse};
use crate::output::{self, Grid};
use crate::sim::input;
use network::Lab;
use state::State;
use traffic::{Traffic, go_on};

/// Exit code if a check or an expectation does not hold.
const EXIT_MISSED: u8 = 1;
/// Exit code if the file is invalid or unreadable, or no lab can run it.
const EXIT_WRONG: u8 = 2;
/// Exit code that a shell reports for a process ended by SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

/// Build a network on this machine from one file, run its traffic, and judge: switches, hosts and
/// cables in network namespaces.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the network, send the traffic, print a verdict, and leave the network up.
    Up(Up),
    /// Remove the network.
    Down(Down),
    /// Show the labs, or the switches and hosts of one.
    Status(Status),
    /// Run a command on a host or a switch.
    Exec(Exec),
}

#[derive(Args)]
struct Up {
    /// The scenario, as `sluice sim` reads it; configurations are looked for from its folder.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the lab, and of its namespaces [default: the file's name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long the traffic lasts, as 5s [default: the duration of the scenario].
    #[arg(long, value_name = "TIME", value_parser = crate::sim::time_ns)]
    duration: Option<u64>,
    /// Only build the network: send nothing.
    #[arg(long, conflicts_with_all = ["duration", "json"])]
    no_traffic: bool,
    /// Remove the network at the end.
    #[arg(long)]
    rm: bool,
    /// Print the verdict as JSON, and nothing else on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Down {
    /// Which lab [default: the only one].
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Remove every lab.
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

#[derive(Args)]
struct Status {
    /// Which lab [default: all].
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Exec {
    /// Which lab [default: the only one].
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// A host or a switch of the lab; `sluice` there talks to that switch, or to the host's.
    #[arg(value_name = "NODE")]
    node: String,
    /// The command and its arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
A lab needs root. Each switch is a sluiced with the configuration that the scenario names, each
host a namespace with the interface eth0 and an IPv4 address in 10.0.0.0/24, in which `sluice host`
sends the traffic. Speeds are those of the ports; cables have no length. A scenario with what only
virtual time can do (messages, faults, routes, loops) is refused, and says what.

The verdict: no-drop frames lost, order, pauses honored, whether every frame is accounted for, and
the expectations of the file. The lab stays up afterwards unless --rm is given. It has its state in
/run/sluice-lab/NAME, and is removed as a whole: by `down`, if it cannot be built, on Ctrl-C.

Exit codes of `up`: 0 everything holds, 1 something does not, 2 the file is wrong, 130 interrupted;
`exec` has that of the command.";

/// Runs `sluice lab`.
pub fn run(arguments: Arguments) -> ExitCode {
    let done = match arguments.task {
        Task::Up(up) => return self::up(&up),
        Task::Down(down) => self::down(&down),
        Task::Status(status) => self::status(&status),
        Task::Exec(exec) => self::exec(&exec),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("sluice: {error:#}");
    ExitCode::from(exit::code(error))
}

fn up(up: &Up) -> ExitCode {
    let scenario = match input::read(&up.file, &[]) {
        Ok(scenario) => scenario,
        Err(error) => {
            error.print();
            return ExitCode::from(EXIT_WRONG);
        }
    };
    let scenario = match up.duration {
        Some(duration_ns) => plan::with_duration(scenario, duration_ns),
        None => scenario,
    };
    if let Err(unfit) = plan::check(&scenario) {
        eprintln!("sluice: {}: {unfit}", up.file.display());
        return ExitCode::from(EXIT_WRONG);
    }
    let folder = up.file.parent().unwrap_or(Path::new(""));
    let texts = match network::configurations(&scenario, folder) {
        Ok(texts) => texts,
        Err(error) => {
            eprintln!("sluice: {error:#}");
            return ExitCode::from(EXIT_WRONG);
        }
    };
    input::note_imported(&scenario);
    let interrupted = match testbed::require_root().and_then(|()| testbed::watch_signals()) {
        Ok(interrupted) => interrupted,
        Err(error) => return failed(&error),
    };
    match build_and_run(up, &scenario, &texts, &interrupted) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_MISSED),
        Err(_) if interrupted.load(Ordering::Relaxed) => {
            eprintln!("sluice: interrupted; everything is removed again");
            ExitCode::from(EXIT_INTERRUPTED)
        }
        Err(error) => failed(&error),
    }
}

/// Returns the name of a lab, which is that of its file unless it is named.
fn name_of(up: &Up) -> Result<String> {
    let of_file = up.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = up.name.clone().unwrap_or(of_file);
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > 32 || !name.bytes().all(is_right) {
        return misuse(format!(
            "{name:?} is no name of a lab: take up to 32 letters, digits, - and _, with --name"
        ));
    }
    Ok(name)
}

/// Returns true if everything holds.
fn build_and_run(up: &Up, scenario: &Scenario, texts: &[String], interrupted: &AtomicBool) -> Result<bool> {
    let name = name_of(up)?;
    let step = |what: &str| eprintln!("▶ {what}");
    let mut lab = Lab::new(&name, &up.file)?;
    let (switches, hosts) = (plan::switches(scenario).count(), plan::hosts(scenario).count());
    step(&format!("{name}: {switches} switch(es), {hosts} host(s), {} cable(s)", scenario.links.len()));
    lab.connect(scenario)?;
    go_on(interrupted)?;
    step("starting sluiced");
    lab.start_switches(texts)?;
    go_on(interrupted)?;
    let mut holds = true;
    if !up.no_traffic && !scenario.traffic.is_empty() {
        step("starting the hosts");
        let mut traffic = Traffic::start(&lab, scenario)?;
        go_on(interrupted)?;
        step(&format!("sending: {}", scenario.title));
        traffic.run(interrupted)?;
        go_on(interrupted)?;
        let measured = traffic.end()?;
        let verdict = verdict::evaluate(scenario, &lab.state, &measured);
        holds = verdict.holds;
        output::print(&if up.json { output::json(&verdict, true)? } else { verdict.text() })?;
    }
    if up.rm {
        return Ok(holds);
    }
    eprintln!("{}", next_steps(&lab.state));
    lab.keep()?;
    Ok(holds)
}

/// Returns what can be done with a lab that is up.
fn next_steps(state: &State) -> String {
    let mut text = format!("Lab {} is up:", state.name);
    if let Some(switch) = state.switches.first() {
        text += &format!("\n  sluice lab exec {} sluice show pfc", switch.name);
    }
    if let [first, second, ..] = state.hosts.as_slice() {
        text += &format!("\n  sluice lab exec {} ping -c 3 {}", first.name, second.ipv4);
    }
    text + &format!("\n  sluice lab down {}", state.name)
}

fn down(down: &Down) -> Result<()> {
    testbed::require_root()?;
    let names = if down.all { State::names()? } else { vec![State::find(down.name.as_deref())?.name] };
    for name in names {
        let state = State::load(&name)?;
        if state.owner.is_running() {
            anyhow::bail!(
                "lab {name} is being built, or runs its traffic (process {}): end that first",
                state.owner.pid
            );
        }
        state.remove().with_context(|| format!("lab {name}"))?;
        output::print(&format!("Lab {name} is removed."))?;
    }
    Ok(())
}

/// A lab in JSON.
#[derive(Serialize, JsonSchema)]
pub struct LabRow {
    #[serde(flatten)]
    state: State,
    /// `building`, `up`, or `broken` if a switch has ended, or there is none and no host.
    status: &'static str,
}

/// Returns a lab with a switch and a host.
#[cfg(test)]
pub fn sample() -> LabRow {
    let daemon = Some(state::Process::default());
    let [name, namespace] = ["sw", "lab-sw"].map(str::to_owned);
    let switch = state::Switch { name, namespace, socket: "a.sock".into(), log: "a.log".into(), daemon };
    let [name, namespace, mac, ipv4] = ["h1", "lab-h1", "02:00:00:00:00:01", "10.0.0.1"].map(str::to_owned);
    let host = state::Host { name, namespace, mac, ipv4 };
    row(State { name: "first".to_owned(), switches: vec![switch], hosts: vec![host], ..State::default() })
}

fn row(state: State) -> LabRow {
    let runs = |switch: &state::Switch| switch.daemon.is_some_and(state::Process::is_running);
    let is_empty = state.switches.is_empty() && state.hosts.is_empty();
    let status = match (state.owner.is_running(), !is_empty && state.switches.iter().all(runs)) {
        (true, _) => "building",
        (false, true) => "up",
        (false, false) => "broken",
    };
    LabRow { state, status }
}

fn status(status: &Status) -> Result<()> {
    let names = match &status.name {
        Some(name) => vec![State::find(Some(name))?.name],
        None => State::names()?,
    };
    let rows: Vec<LabRow> = names.iter().map(|name| State::load(name).map(row)).collect::<Result<_>>()?;
    if status.json {
        return output::print(&output::json(&rows, true)?);
    }
    if rows.is_empty() {
        return output::print("No lab is up; `sluice lab up FILE` builds one.");
    }
    let mut grid = Grid::new(&["Lab", "Status", "Node", "Kind", "Namespace", "Address", "Process"], 7);
    for LabRow { state, status } in &rows {
        if state.switches.is_empty() && state.hosts.is_empty() {
            grid.add_row([state.name.as_str(), *status]);
        }
        for switch in &state.switches {
            let process = switch.daemon.filter(|daemon| daemon.is_running());
            let process = process.map_or("ended".to_owned(), |daemon| daemon.pid.to_string());
            let socket = switch.socket.display().to_string();
            grid.add_row([
                &state.name,
                *status,
                &switch.name,
                "switch",
                &switch.namespace,
                &socket,
                &process,
            ]);
        }
        for host in &state.hosts {
            grid.add_row([&state.name, *status, &host.name, "host", &host.namespace, &host.ipv4, ""]);
        }
    }
    output::print(&grid.trim_fmt())
}

fn exec(exec: &Exec) -> Result<()> {
    testbed::require_root()?;
    let state = State::find(exec.lab.as_deref())?;
    let switch = state.switches.iter().find(|switch| switch.name == exec.node);
    let host = state.hosts.iter().find(|host| host.name == exec.node);
    let namespace = match (switch, host) {
        (Some(switch), _) => &switch.namespace,
        (None, Some(host)) => &host.namespace,
        (None, None) => {
            let switches = state.switches.iter().map(|switch| switch.name.as_str());
            let names: Vec<&str> =
                switches.chain(state.hosts.iter().map(|host| host.name.as_str())).collect();
            return misuse(format!("lab {} has no {}; it has {}", state.name, exec.node, names.join(", ")));
        }
    };
    if !Namespace::existing(namespace).is_there() {
        anyhow::bail!("namespace {namespace} is gone: remove the lab with `sluice lab down {}`", state.name);
    }
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).args(&exec.command);
    if let Some(switch) = switch.or(state.switches.first()) {
        command.env("SLUICE_SOCKET", &switch.socket);
    }
    Err(command.exec()).context("cannot run `ip netns exec`")
}
