//! `sluice nic`: makes an interface of this machine honor PFC. The crate `nic` implements it; its
//! options and messages are here.

mod attach;
mod check;
mod follow_dcbx;
mod namespace;
mod show;
mod switch_port;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Make an interface of this machine honor PFC, so that any application behind it is lossless.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    task: Task,
}

/// Lines of at most 99 characters: clap would break longer ones at 100.
const AFTER_HELP: &str = "\
No kernel honors PFC on a veth. `attach` gives the interface a queueing discipline that does: what
the switch has paused is held back, and sockets that sent it wait. It takes Linux 6.16 or later
with CONFIG_NET_SCH_BPF (`check` tests whether this one has it) and root. No process stays, except
with --dcbx, and all of it goes away with the interface.

    sluice nic check
    sluice nic attach eth0 --speed 10G --trust dscp --no-drop 3
    sluice nic attach eth0 --netns lab-a --switch lab    # speed and priorities from the switch
    sluice nic attach eth0 --speed 10G --dcbx            # as agreed with the switch; until Ctrl-C
    sluice nic show --watch
    sluice nic detach eth0";

#[derive(Subcommand)]
enum Task {
    Attach(Box<attach::Attach>),
    Detach(attach::Detach),
    Show(show::Show),
    Check(check::Check),
}

/// Runs the selected command.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.task {
        Task::Attach(attach) => attach.run(),
        Task::Detach(detach) => detach.run(),
        Task::Show(show) => show.run(),
        Task::Check(check) => check.run(),
    }
}
