//! Where a guest's kernel loses frames that no program of it has seen or sent.
//!
//! Rule: the counters of a kernel start at its boot, so a loss is the difference of two readings.

use anyhow::Result;

use crate::guest::Guest;

/// Frames that a guest's kernel has lost since its boot, by location.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameLosses {
    /// Sent frames that the queueing disciplines of the NIC dropped.
    pub queueing: u64,
    /// Received frames that the NIC or its driver dropped.
    pub nic: u64,
    /// Received frames for which the backlog of a CPU had no room.
    pub backlog: u64,
}

impl FrameLosses {
    /// Reads the losses of a guest at one of its NICs.
    pub fn read(guest: &mut Guest, nic: &str) -> Result<Self> {
        // The root of several queues counts what theirs have dropped once more.
        let dropped = "/^qdisc/ { root = $2 ~ /^mq/ } /dropped/ && !root { sub(/.*dropped /, \"\"); n += $1 } END { print n+0 }";
        Ok(Self {
            queueing: guest.number_of(&format!("tc -s qdisc show dev {nic} | busybox awk '{dropped}'"))?,
            nic: guest.number_of(&format!("cat /sys/class/net/{nic}/statistics/rx_dropped"))?,
            backlog: guest.number_of("echo $((0x$(busybox cut -d' ' -f2 /proc/net/softnet_stat)))")?,
        })
    }

    /// Returns what was lost since an earlier reading.
    pub fn since(self, before: Self) -> Self {
        Self {
            queueing: self.queueing - before.queueing,
            nic: self.nic - before.nic,
            backlog: self.backlog - before.backlog,
        }
    }

    /// Returns the losses of two guests together.
    pub fn and(self, other: Self) -> Self {
        Self {
            queueing: self.queueing + other.queueing,
            nic: self.nic + other.nic,
            backlog: self.backlog + other.backlog,
        }
    }

    /// Returns the losses of all locations.
    pub fn total(self) -> u64 {
        self.queueing + self.nic + self.backlog
    }
}
