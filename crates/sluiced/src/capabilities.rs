//! Capabilities of the daemon, as the kernel reports them.
//!
//! Rule: a start that lacks a capability which its configuration needs is refused before anything
//! is changed, with the name of each one and what takes it. Being root says nothing: a container's
//! root often lacks some. Source: capabilities(7); docs/service.md, "The unit".

use anyhow::{Result, bail};
use config::{Config, Scheduling};

/// A capability: its name, its number, and what takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Capability {
    name: &'static str,
    number: u32,
    needed_for: &'static str,
}

const fn capability(name: &'static str, number: u32, needed_for: &'static str) -> Capability {
    Capability { name, number, needed_for }
}

const CHOWN: Capability = capability("CAP_CHOWN", 0, "giving the control socket to others");
const NET_ADMIN: Capability = capability("CAP_NET_ADMIN", 12, "settings of interfaces, XDP and AF_XDP");
const NET_RAW: Capability = capability("CAP_NET_RAW", 13, "AF_XDP and packet sockets");
const SYS_ADMIN: Capability = capability("CAP_SYS_ADMIN", 21, "loading the XDP program before Linux 5.8");
const SYS_NICE: Capability = capability("CAP_SYS_NICE", 23, "dataplane.scheduling = \"fifo\"");
const BPF: Capability = capability("CAP_BPF", 39, "loading the XDP program");

/// The effective capabilities of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Returns those of this process: all where the kernel does not report them.
    pub fn effective() -> Self {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        Self(of_status(&status).unwrap_or(u64::MAX))
    }

    fn has(self, capability: Capability) -> bool {
        self.0 & 1 << capability.number != 0
    }

    /// True if the process may give its files to any user and group.
    pub fn may_chown(self) -> bool {
        self.has(CHOWN)
    }

    /// Returns what a daemon of this configuration lacks.
    fn missing(self, config: &Config) -> Vec<Capability> {
        let mut needed = vec![NET_RAW]; // also the memory of frames is that of an AF_XDP socket
        // A vhost-user socket takes no more. A port that a reload adds may, and says so then.
        if config.vhost_user.iter().any(Option::is_none) {
            needed.push(NET_ADMIN);
            needed.extend(Some(BPF).filter(|_| !self.has(SYS_ADMIN)));
        }
        // Other scheduling is tried, with a warning where the kernel refuses it.
        if config.dataplane.scheduling == Scheduling::Fifo {
            needed.push(SYS_NICE);
        }
        needed.into_iter().filter(|&capability| !self.has(capability)).collect()
    }

    /// Fails if a daemon of this configuration lacks a capability.
    pub fn must_suffice(self, config: &Config) -> Result<()> {
        let missing = self.missing(config);
        if missing.is_empty() {
            return Ok(());
        }
        let each = missing.iter().map(|it| format!("{} ({})", it.name, it.needed_for));
        let names: Vec<&str> = missing.iter().map(|it| it.name).collect();
        bail!(
            "this process lacks {}: run sluiced as root (in a container also with `--cap-add`), or with AmbientCapabilities={} \
             in its unit",
            each.collect::<Vec<_>>().join(", "),
            names.join(" ")
        )
    }
}

/// Returns the effective capabilities in the text of /proc/PID/status.
fn of_status(text: &str) -> Option<u64> {
    let mask = text.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> Config {
        config::parse("x.toml", &format!("{more}[port.a]\ninterface = \"veth0\"\n")).unwrap()
    }

    fn with(all: &[Capability]) -> Capabilities {
        Capabilities(all.iter().map(|capability| 1 << capability.number).sum())
    }

    #[test]
    fn the_mask_of_the_kernel_is_read() {
        let text = "Name:\tsluiced\nCapPrm:\tffffffffffffffff\nCapEff:\t0000008000803000\nCapBnd:\t0\n";
        let found = Capabilities(of_status(text).unwrap());
        assert_eq!(found, with(&[NET_ADMIN, NET_RAW, SYS_NICE, BPF]));
        assert_eq!(of_status("Name:\tx\n"), None);
        assert!(Capabilities::effective() != Capabilities(u64::MAX), "the kernel reports them");
    }

    #[test]
    fn what_a_configuration_needs_is_named() {
        let plain = config("");
        assert!(with(&[NET_ADMIN, NET_RAW, BPF]).must_suffice(&plain).is_ok());
        assert!(with(&[NET_ADMIN, NET_RAW, SYS_ADMIN]).must_suffice(&plain).is_ok(), "of an older kernel");
        let fifo = config("[dataplane]\nscheduling = \"fifo\"\n");
        assert_eq!(with(&[NET_ADMIN, NET_RAW, BPF]).missing(&fifo), [SYS_NICE]);
        let error = with(&[NET_ADMIN]).must_suffice(&plain).unwrap_err().to_string();
        let expected = "this process lacks CAP_NET_RAW (AF_XDP and packet sockets), CAP_BPF (loading the XDP program): run ";
        assert!(error.starts_with(expected), "{error}");
        assert!(error.ends_with("AmbientCapabilities=CAP_NET_RAW CAP_BPF in its unit"), "{error}");
        let guests = "[port.a]\nvhost_user = \"/run/a.sock\"\n[port.b]\nvhost_user = \"/run/b.sock\"\n";
        let guests = |more: &str| config::parse("x.toml", &format!("{more}{guests}")).unwrap();
        assert!(with(&[NET_RAW]).must_suffice(&guests("")).is_ok(), "sockets only");
        assert_eq!(with(&[]).missing(&guests("[port.c]\ninterface = \"veth0\"\n")).len(), 3);
        let fifo = guests("[dataplane]\nscheduling = \"fifo\"\n");
        assert_eq!(with(&[]).missing(&fifo), [NET_RAW, SYS_NICE]);
        assert!(with(&[CHOWN]).may_chown() && !with(&[NET_ADMIN]).may_chown());
    }
}
