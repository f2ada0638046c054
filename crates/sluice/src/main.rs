//! The `sluice` command: shows the state of a switch, controls it, checks its configuration,
//! simulates networks, and runs the hosts that a lossless network on one machine needs.
#![forbid(unsafe_code)]

mod advise;
mod baseline;
mod capture;
mod check;
mod collector;
mod commands;
mod events;
mod exit;
mod headroom;
mod headroom_fix;
mod import;
mod init;
mod lab;
mod new_file;
mod nic;
mod output;
mod read_file;
mod record;
mod settings;
mod show;
#[cfg(test)]
#[path = "../tests/fixtures/show.rs"]
mod show_fixture;
mod sim;
mod socket;
mod stall;
mod sweep;
mod telemetry;
mod top;
mod twin;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Shows and controls a running Sluice switch, simulates networks of it, and runs test hosts on its
/// ports.
#[derive(Parser)]
#[command(name = "sluice", version, max_term_width = 100, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show what a running switch counts: ports, queues, buffers, PFC.
    Show(show::Arguments),
    Top(top::Arguments),
    Reload(commands::Reload),
    Set(settings::set::Arguments),
    Pfc(commands::Pfc),
    Port(commands::Port),
    Clear(commands::Clear),
    Fdb(commands::Fdb),
    Events(events::Arguments),
    Capture(capture::Arguments),
    Record(record::Record),
    Replay(record::Arguments),
    /// Check configuration files: what is wrong, and what cannot be lossless.
    Check(check::Arguments),
    Explain(settings::Explain),
    Init(init::Arguments),
    Import(import::Arguments),
    Schema(show::schema::Arguments),
    /// How much headroom a lossless priority needs, and the lines that give it.
    Headroom(headroom::Arguments),
    /// Run a network of switches in virtual time, from the daemon's own configuration files.
    Sim(sim::Arguments),
    Sweep(sweep::Arguments),
    Advise(advise::Arguments),
    Twin(twin::Arguments),
    Lab(lab::Arguments),
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of all commands into a folder.
    #[command(hide = true)]
    Manuals {
        /// An existing folder.
        #[arg(value_name = "DIR")]
        folder: std::path::PathBuf,
    },
    Telemetry(telemetry::Arguments),
    Collector(collector::Arguments),
    Nic(nic::Arguments),
    /// Run a host on an interface: send flows, honor PFC, check what arrives.
    Host(Box<host::Args>),
}

fn main() -> ExitCode {
    log_to_stderr();
    config::draw_errors_unwrapped();
    let arguments = std::env::args_os().map(|argument| match argument.to_str() {
        Some("-nz") => "--nonzero".into(), // as SONiC has it
        _ => argument,
    });
    let task = match Arguments::from_arg_matches(&command().get_matches_from(arguments)) {
        Ok(Arguments { task }) => task,
        Err(error) => error.exit(),
    };
    let done = match task {
        Task::Show(arguments) => show::run(&arguments),
        Task::Top(arguments) => top::run(&arguments),
        Task::Set(arguments) => settings::set::run(&arguments),
        Task::Reload(arguments) => commands::reload(&arguments),
        Task::Pfc(arguments) => commands::pfc(&arguments),
        Task::Port(arguments) => commands::port(&arguments),
        Task::Fdb(arguments) => commands::fdb(&arguments),
        Task::Clear(arguments) => commands::clear(&arguments),
        Task::Events(arguments) => events::run(&arguments),
        Task::Capture(arguments) => capture::run(&arguments),
        Task::Record(arguments) => record::record(&arguments),
        Task::Replay(arguments) => record::replay(&arguments),
        Task::Twin(arguments) => twin::run(&arguments),
        Task::Check(arguments) => return check::run(&arguments),
        Task::Init(arguments) => init::run(&arguments),
        Task::Import(arguments) => import::run(&arguments),
        Task::Explain(arguments) => settings::explain(&arguments),
        Task::Schema(arguments) => show::schema::run(&arguments),
        Task::Headroom(arguments) => headroom::run(&arguments),
        Task::Sim(arguments) => return sim::run(&arguments),
        Task::Sweep(arguments) => return sweep::run(&arguments),
        Task::Advise(arguments) => return advise::run(&arguments),
        Task::Lab(arguments) => return lab::run(arguments),
        Task::Completions { shell } => completions(shell),
        Task::Manuals { folder } => {
            clap_mangen::generate_to(command(), &folder).with_context(|| folder.display().to_string())
        }
        Task::Telemetry(arguments) => telemetry::run(&arguments),
        Task::Collector(arguments) => collector::run(&arguments),
        Task::Nic(arguments) => nic::run(&arguments),
        Task::Host(arguments) => host::run(*arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of `sluice show … | head` is done.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice: {error:#}");
            ExitCode::from(exit::code(&error))
        }
    }
}

/// Examples at the end of the help of each command, short and long.
const EXAMPLES: [(&str, &str); 26] = [
    ("top", "  sluice top"),
    ("explain", "  sluice explain port.pfc.no_drop"),
    (
        "init",
        "  sluice init eth0 eth1 --no-drop 3 --output lab.toml\n  sluice init eth0 eth1 --speed 25G --mtu 9000 --stall-us 200",
    ),
    ("import", "  sluice import sonic config_db.json --output sonic.toml"),
    (
        "schema",
        "  sluice schema              the configuration file\n  sluice schema pfc          what `sluice show pfc --json` prints\n  sluice schema sim          what `sluice sim --json` prints",
    ),
    (
        "reload",
        "  sluice reload              apply the file that sluiced was started with\n  sluice reload --dry-run    what that would change",
    ),
    ("set", "  sluice set port.uplink.speed=10G"),
    (
        "pfc",
        "  sluice pfc off                  on all ports, until `sluice pfc on` or a reload\n  sluice pfc recover uplink       end storms that wait for it",
    ),
    (
        "port",
        "  sluice port down uplink         it carries no frames until `sluice port up uplink`\n  sluice port hold uplink         queues fill, peers are paused\n  sluice port release uplink",
    ),
    ("fdb", "  sluice fdb flush --port uplink --vlan 20\n  sluice show fdb"),
    ("events", "  sluice events --follow\n  sluice events --port uplink --json"),
    (
        "capture",
        "  sluice capture --write incident.pcapng --port uplink --duration 10s\n  sluice capture --write - --verdict dropped,pause   | tshark -r -",
    ),
    ("record", "  sluice record --duration 10s incident.sluice\n  sluice record --last loss.sluice"),
    ("replay", "  sluice replay incident.sluice"),
    ("check", "  sluice check lab.toml\n  sluice check --strict --json config/*.toml"),
    ("headroom", "  sluice headroom --speed 25G --cable 10m\n  sluice headroom --fix lab.toml --dry-run"),
    ("sim", "  sluice sim config/scenarios/first.toml --plots plots"),
    (
        "sweep",
        "  sluice sweep config/scenarios/sweep.toml --out results\n  sluice sweep plan config/scenarios/sweep.toml --parts 16\n  sluice sweep collect results",
    ),
    ("advise", "  sluice advise config/scenarios/incast-dcqcn.toml --duration 2ms"),
    (
        "twin",
        "  sluice twin twin --burst 64000\n  sluice twin incident --counters counters.json --config switch.toml\n  sluice twin loss --recording loss.sluice --config switch.toml --from 2.5s --to 2.6s",
    ),
    ("completions", "  sluice completions bash"),
    (
        "lab",
        "  sluice lab up config/scenarios/first.toml --duration 5s\n  sluice lab exec sw sluice show pfc\n  sluice lab down",
    ),
    ("telemetry", "  sluice telemetry paths"),
    ("collector", "  sluice collector --listen 127.0.0.1:50050"),
    ("nic", "  sluice nic check\n  sluice nic attach eth0 --speed 25G --no-drop 3"),
    ("host", "  sluice host --interface eth0 --flow to=02:00:00:00:00:02,priority=3,rate=600M"),
];

/// Returns the command line, with the examples of each command.
fn command() -> clap::Command {
    EXAMPLES.iter().fold(Arguments::command(), |command, (name, examples)| {
        command.mut_subcommand(name, |command| {
            let long = command.get_after_long_help().map_or(String::new(), |help| format!("{help}\n\n"));
            command.after_help(*examples).after_long_help(format!("{long}Examples:\n{examples}"))
        })
    })
}

/// Prints completions for a shell.
fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "sluice", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Logs warnings, or the levels of RUST_LOG.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let colors = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colors).init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// Every command has examples, and each of them is accepted.
    #[test]
    fn examples_are_accepted() {
        let names = Arguments::command();
        let without = names.get_subcommands().map(|command| command.get_name().to_owned());
        let without = without.filter(|name| !EXAMPLES.iter().any(|(of, _)| of == name));
        assert_eq!(without.collect::<Vec<_>>(), ["show", "clear", "manuals"], "these have their own");
        let all = EXAMPLES.iter().map(|(_, examples)| *examples).chain([show::help::SHORT]);
        for line in all.flat_map(str::lines).filter(|line| line.starts_with("  sluice ")) {
            let line = line.trim().split("   ").next().unwrap_or_default();
            let parsed = command().try_get_matches_from(line.split_whitespace());
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
