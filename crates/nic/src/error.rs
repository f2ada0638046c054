//! What can go wrong, and what to do about it.

use thiserror::Error;

/// Why an interface does not obey PFC, or does not stop to.
#[derive(Debug, Error)]
pub enum Error {
    /// No such interface.
    #[error("there is no interface `{device}` here; there {}", those(.others))]
    NoInterface {
        /// The name that was given.
        device: String,
        /// Those that there are.
        others: Vec<String>,
    },
    /// Somebody chose the root qdisc.
    #[error(
        "{device} has a root qdisc already, `{kind}`, which somebody chose: --replace puts ours in its place (`tc qdisc \
         show dev {device}` shows it)"
    )]
    ForeignQdisc {
        /// The interface.
        device: String,
        /// The kind of its root qdisc.
        kind: String,
    },
    /// It is ours already.
    #[error("{device} obeys PFC already: `sluice nic show` says how; --replace attaches it again")]
    AlreadyAttached {
        /// The interface.
        device: String,
    },
    /// It is not ours.
    #[error("{device} has nothing of `sluice nic` to take off")]
    NotAttached {
        /// The interface.
        device: String,
    },
    /// The kernel cannot do it.
    #[error("this kernel cannot do it: {missing}. {cure}")]
    Kernel {
        /// What it lacks.
        missing: String,
        /// What to do about it.
        cure: String,
    },
    /// Not allowed.
    #[error(
        "{action}: not permitted. It needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN in the first user namespace: run it as \
         root, and for a container from outside it, with --netns NAME or --netns PID"
    )]
    NotPermitted {
        /// What was tried.
        action: String,
    },
    /// The kernel did not load the programs.
    #[error("the kernel does not load the programs: {0}; `sluice nic check` says more")]
    Load(String),
    /// Another process is attaching.
    #[error("another `sluice nic attach` has not come to its end for {seconds} s: try again")]
    Busy {
        /// How long was waited.
        seconds: u64,
    },
    /// A namespace that is not there.
    #[error(
        "no network namespace `{name}`: {cause}. Give a name that `ip netns` knows, or the PID of a process in it"
    )]
    Namespace {
        /// What was given.
        name: String,
        /// What the system says.
        cause: String,
    },
    /// A setting that makes no sense.
    #[error("{0}")]
    Setting(String),
    /// Any other failure.
    #[error("{action}: {cause}")]
    System {
        /// What was tried.
        action: String,
        /// What the system said.
        cause: String,
    },
}

impl Error {
    /// An error of the system while trying to do `action`.
    pub(crate) fn system(action: impl Into<String>, cause: impl std::fmt::Display) -> Self {
        Error::System { action: action.into(), cause: cause.to_string() }
    }
}

fn those(names: &[String]) -> String {
    match names {
        [] => "are none".to_owned(),
        [one] => format!("is {one}"),
        several => format!("are {}", several.join(", ")),
    }
}
