//! What the driver of an interface says of it by `SIOCETHTOOL`: its name, its queues, and its PAUSE
//! frames.
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

/// Queues of an interface: those that receive and those that send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Queues {
    pub(crate) rx: u32,
    pub(crate) tx: u32,
}

/// What a NIC does about 802.3x PAUSE frames by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pause {
    /// It obeys them.
    pub rx: bool,
    /// It sends them.
    pub tx: bool,
}

/// The queues of an interface; one each where the driver does not say.
pub(crate) fn queues(interface: &str) -> io::Result<Queues> {
    let mut found = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    ask(interface, &mut found)?;
    Ok(Queues { rx: (found.rx + found.combined).max(1), tx: (found.tx + found.combined).max(1) })
}

/// How many RX queues an interface has; 1 where the driver does not say.
pub(crate) fn rx_queues(interface: &str) -> io::Result<u32> {
    queues(interface).map(|queues| queues.rx)
}

/// The driver's name; empty where it does not say.
pub(crate) fn driver(interface: &str) -> io::Result<String> {
    let mut found = DriverInfo { command: ETHTOOL_GDRVINFO, ..DriverInfo::default() };
    ask(interface, &mut found)?;
    let end = found.driver.iter().position(|&byte| byte == 0).unwrap_or(found.driver.len());
    Ok(String::from_utf8_lossy(&found.driver[..end]).into_owned())
}

/// What a NIC does about PAUSE frames; nothing where the driver knows none.
pub(crate) fn pause(interface: &str) -> io::Result<Pause> {
    let mut found = PauseParam { command: ETHTOOL_GPAUSEPARAM, ..PauseParam::default() };
    ask(interface, &mut found)?;
    Ok(Pause { rx: found.rx_pause != 0, tx: found.tx_pause != 0 })
}

/// Has the driver fill `answer`, one of the structures above with the number of its command. Where
/// the driver does not know the command it stays as it is.
fn ask<T>(interface: &str, answer: &mut T) -> io::Result<()> {
    let fd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(answer).cast();
    // SAFETY: SIOCETHTOOL takes an `ifreq` whose data point to the command's structure, which is as
    // long as the kernel's; any bytes are good in it, and both outlive the call.
    let failed = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } < 0;
    match failed.then(io::Error::last_os_error) {
        Some(error) if error.raw_os_error() != Some(libc::EOPNOTSUPP) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever writes more than a structure has would destroy what lies behind it.
    #[test]
    fn structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<Channels>(), 9 * 4);
        assert_eq!(size_of::<PauseParam>(), 4 * 4);
        assert_eq!(size_of::<DriverInfo>(), 4 + 5 * 32 + 12 + 5 * 4);
    }

    #[test]
    fn loopback_says_what_there_is() {
        assert_eq!(queues("lo").unwrap(), Queues { rx: 1, tx: 1 });
        assert_eq!(pause("lo").unwrap(), Pause::default());
        assert_eq!(queues("no-such-link").unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
