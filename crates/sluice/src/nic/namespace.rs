//! The namespace of an interface, and text that all commands of `sluice nic` share.

use anyhow::Result;
use clap::Args;
use wire::bitset::Set8;

/// The namespace of the interface.
#[derive(Args)]
pub struct Namespace {
    /// The network namespace of the interface: a name that `ip netns` knows, or the PID of a
    /// process in it (of a container, for one) [default: this one].
    #[arg(long, value_name = "NAME|PID")]
    pub netns: Option<String>,
}

impl Namespace {
    /// Calls `inside` in the namespace.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> Result<T, nic::Error> + Send) -> Result<T> {
        Ok(nic::netns::enter(self.netns.as_deref(), inside)?)
    }

    /// Returns ` in NAME`, or an empty string.
    pub fn suffix(&self) -> String {
        self.netns.as_ref().map(|name| format!(" in {name}")).unwrap_or_default()
    }
}

/// Returns the priorities of a mask.
pub fn list(mask: u8) -> Vec<u8> {
    Set8::from_bits(mask).into_iter().map(|priority| priority as u8).collect()
}

/// Formats the priorities of a mask, as `3, 4`.
pub fn priorities(mask: u8) -> String {
    list(mask).iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}
