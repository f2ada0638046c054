//! Errors, each with its cure.

use thiserror::Error;

/// Why PFC could not be attached to an interface, or not detached.
#[derive(Debug, Error)]
pub enum Error {
    /// No such interface.
    #[error("there is no interface `{device}` here; there {}", those(.others))]
    NoInterface {
        /// The requested name.
        device: String,
        /// The interfaces that exist.
        others: Vec<String>,
    },
    /// The interface has a root qdisc that an administrator configured.
    #[error(
        "{device} has a root qdisc already, `{kind}`, which was set explicitly: --replace replaces it (`tc qdisc \
         show dev {device}` shows it)"
    )]
    ForeignQdisc {
        /// The interface.
        device: String,
        /// The kind of its root qdisc.
        kind: String,
    },
    /// `detach` could not restore the root qdisc that an administrator configured.
    #[error(
        "{device} has a root qdisc, `{kind}`, that `sluice nic detach` could not restore: {why}. --force \
         replaces it anyway; note what `tc qdisc show dev {device}` and `tc class show dev {device}` say first"
    )]
    Unrestorable {
        /// The interface.
        device: String,
        /// The kind of its root qdisc.
        kind: String,
        /// The reason.
        why: String,
    },
    /// Our qdisc is attached already.
    #[error("{device} honors PFC already, as `sluice nic show` lists; --replace attaches it again")]
    AlreadyAttached {
        /// The interface.
        device: String,
    },
    /// Our qdisc is not attached.
    #[error("{device} has nothing of `sluice nic` to take off")]
    NotAttached {
        /// The interface.
        device: String,
    },
    /// Our qdisc or program was taken off by somebody else.
    #[error("{device} has lost what `sluice nic attach` put there, so it honors no pause: attach it again")]
    Lost {
        /// The interface.
        device: String,
    },
    /// The kernel lacks a feature.
    #[error("this kernel cannot do it: {missing}. {cure}")]
    Kernel {
        /// The missing feature.
        missing: String,
        /// What to do about it.
        cure: String,
    },
    /// Permission denied.
    #[error(
        "{action}: not permitted. It needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN in the first user namespace: run it as \
         root, and for a container from outside it, with --netns NAME or --netns PID"
    )]
    NotPermitted {
        /// The attempted action.
        action: String,
    },
    /// The kernel did not load the programs.
    #[error("the kernel does not load the programs: {0}; `sluice nic check` gives the details")]
    Load(String),
    /// Another process is attaching.
    #[error("another `sluice nic attach` has not come to its end for {seconds} s: try again")]
    Busy {
        /// How long the call waited, in seconds.
        seconds: u64,
    },
    /// The network namespace does not exist.
    #[error(
        "no network namespace `{name}`: {cause}. Give a name that `ip netns` knows, or the PID of a process in it"
    )]
    Namespace {
        /// The requested name.
        name: String,
        /// The system's error.
        cause: String,
    },
    /// An invalid setting.
    #[error("{0}")]
    Setting(String),
    /// Any other failure.
    #[error("{action}: {cause}")]
    System {
        /// The attempted action.
        action: String,
        /// The system's error.
        cause: String,
    },
}

impl Error {
    /// Returns an error of the system during `action`.
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
