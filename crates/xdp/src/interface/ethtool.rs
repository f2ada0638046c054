//! Properties of an interface that its driver reports by `SIOCETHTOOL`: its name, its queues, and
//! its handling of PAUSE frames.
//!
//! Source: `linux/ethtool.h`.

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GPAUSEPARAM: u32 = 0x12;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_pauseparam`.
#[repr(C)]
#[derive(Default)]
struct PauseParam {
    command: u32,
    autoneg: u32,
    rx_pause: u32,
    tx_pause: u32,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
#[derive(Default)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rom: [u8; 32],
    reserved: [u8; 12],
    numbers: [u32; 5],
}

/// The RX and TX queues of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Queues {
    pub(crate) rx: u32,
    pub(crate) tx: u32,
}

/// Which 802.3x PAUSE frames a NIC handles by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pause {
    /// The NIC honors received PAUSE frames.
    pub rx: bool,
    /// The NIC sends PAUSE frames.
    pub tx: bool,
}

/// Returns the queues of an interface; one of each where the driver reports none.
pub(crate) fn queues(interface: &str) -> io::Result<Queues> {
    let mut found = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    query(interface, &mut found)?;
    Ok(Queues { rx: (found.rx + found.combined).max(1), tx: (found.tx + found.combined).max(1) })
}

/// Returns the number of RX queues of an interface; 1 where the driver reports none.
pub(crate) fn rx_queues(interface: &str) -> io::Result<u32> {
    queues(interface).map(|queues| queues.rx)
}

/// Returns the driver's name; empty where it reports none.
pub(crate) fn driver(interface: &str) -> io::Result<String> {
    let mut found = DriverInfo { command: ETHTOOL_GDRVINFO, ..DriverInfo::default() };
    query(interface, &mut found)?;
    let end = found.driver.iter().position(|&byte| byte == 0).unwrap_or(found.driver.len());
    Ok(String::from_utf8_lossy(&found.driver[..end]).into_owned())
}

/// Returns how a NIC handles PAUSE frames; both false where the driver does not support the query.
pub(crate) fn pause(interface: &str) -> io::Result<Pause> {
    let mut found = PauseParam { command: ETHTOOL_GPAUSEPARAM, ..PauseParam::default() };
    query(interface, &mut found)?;
    Ok(Pause { rx: found.rx_pause != 0, tx: found.tx_pause != 0 })
}

/// Lets the driver fill `answer`, one of the structures above with its command number. If the
/// driver does not support the command, `answer` is unchanged.
fn query<T>(interface: &str, answer: &mut T) -> io::Result<()> {
    let fd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(answer).cast();
    // SAFETY: SIOCETHTOOL takes an `ifreq` whose data points to the command's structure, which is
    // as long as the kernel's. Any bytes are valid in it, and both outlive the call.
    let failed = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } < 0;
    match failed.then(io::Error::last_os_error) {
        Some(error) if error.raw_os_error() != Some(libc::EOPNOTSUPP) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If a structure were shorter than the kernel's, the kernel would overwrite the memory behind
    /// it.
    #[test]
    fn structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<Channels>(), 9 * 4);
        assert_eq!(size_of::<PauseParam>(), 4 * 4);
        assert_eq!(size_of::<DriverInfo>(), 4 + 5 * 32 + 12 + 5 * 4);
    }

    #[test]
    #[cfg_attr(miri, ignore = "an ioctl")]
    fn loopback_reports_its_settings() {
        assert_eq!(queues("lo").unwrap(), Queues { rx: 1, tx: 1 });
        assert_eq!(pause("lo").unwrap(), Pause::default());
        assert_eq!(queues("no-such-link").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
