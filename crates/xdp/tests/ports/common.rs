//! A network namespace for one test, and a host's end of a veth in it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dataplane::Port;
use switch::{FrameId, FrameMemory, KernelCounters, RxDesc, TxDesc};
use xdp::{PortConfig, Umem, XdpPort, ZeroCopy};

/// A port on the switch's memory, and one with a UMEM of its own: only the kernel sees the
/// difference.
pub const KINDS: [ZeroCopy; 2] = [ZeroCopy::Auto, ZeroCopy::Emulate];

/// Returns the default settings of a port of this kind.
pub fn setup_of(zero_copy: ZeroCopy) -> PortConfig {
    PortConfig { zero_copy, ..PortConfig::default() }
}

/// A network namespace of the test, removed with all its veths when dropped.
pub struct Netns {
    pub name: String,
}

impl Netns {
    /// Creates a namespace whose kernel sends nothing by itself (no IPv6).
    pub fn new() -> Netns {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let space = Netns { name: format!("xdp-{}-{number}", std::process::id()) };
        ip(&format!("netns add {}", space.name));
        space.inside(|| {
            std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
                .expect("the namespace has IPv6");
        });
        space
    }

    /// Creates a namespace with veth pairs p0–h0, p1–h1, …, all up.
    pub fn with_pairs(pairs: usize) -> Netns {
        let space = Netns::new();
        (0..pairs).for_each(|i| space.add_pair(&format!("p{i}"), &format!("h{i}"), ""));
        space
    }

    /// Adds a veth pair, both ends up; `options` go to `ip link add` for both ends.
    pub fn add_pair(&self, port: &str, host: &str, options: &str) {
        self.ip(&format!("link add {port} {options} type veth peer name {host} {options}"));
        self.ip(&format!("link set {host} up"));
        self.ip(&format!("link set {port} up"));
    }

    /// Runs `ip` in the namespace.
    pub fn ip(&self, arguments: &str) {
        ip(&format!("-n {} {arguments}", self.name));
    }

    /// Runs `tc` in the namespace.
    pub fn tc(&self, arguments: &str) {
        run("tc", &format!("-n {} {arguments}", self.name));
    }

    /// Returns the output of `ip` in the namespace.
    pub fn ip_output(&self, arguments: &str) -> String {
        let output = Command::new("ip").args(["-n", &self.name]).args(arguments.split_whitespace()).output();
        String::from_utf8(output.expect("ip runs").stdout).expect("UTF-8")
    }

    /// Runs `work` on a thread in the namespace.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let namespace = xdp::named_namespace(&self.name).expect("the namespace is there");
        xdp::in_namespace(namespace, work).expect("we are root")
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn ip(arguments: &str) {
    run("ip", arguments);
}

fn run(program: &str, arguments: &str) {
    let output = Command::new(program).args(arguments.split_whitespace()).output().expect("it is installed");
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A host on its end of a veth: a raw packet socket.
pub struct Host {
    socket: OwnedFd,
}

impl Host {
    /// Opens a host on `interface` of the current namespace.
    pub fn new(interface: &str) -> Host {
        let every_protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: plain system calls; the address is a whole sockaddr_ll.
        unsafe {
            let fd =
                libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, every_protocol.into());
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(fd);
            let name = std::ffi::CString::new(interface).expect("no zero byte");
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = every_protocol;
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let len = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(fd, (&raw const address).cast(), len), 0);
            let buffer = 32i32 << 20;
            let (value, len) = ((&raw const buffer).cast(), size_of::<i32>() as u32);
            assert_eq!(libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, len), 0);
            Host { socket }
        }
    }

    /// Sends one frame.
    pub fn send(&self, frame: &[u8]) {
        let sent =
            nix::sys::socket::send(self.socket.as_raw_fd(), frame, nix::sys::socket::MsgFlags::empty());
        assert_eq!(sent, Ok(frame.len()));
    }

    /// Takes the next frame that another station sent to this host, if there is one.
    pub fn receive(&self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 16384];
        loop {
            // SAFETY: buffer and address are as long as stated; all-zero bytes are a valid address.
            let (len, kind) = unsafe {
                let mut from: libc::sockaddr_ll = std::mem::zeroed();
                let mut from_len = size_of::<libc::sockaddr_ll>() as u32;
                let (fd, flags) = (self.socket.as_raw_fd(), libc::MSG_DONTWAIT);
                let (address, address_len) = ((&raw mut from).cast(), &raw mut from_len);
                let len =
                    libc::recvfrom(fd, frame.as_mut_ptr().cast(), frame.len(), flags, address, address_len);
                (len, from.sll_pkttype)
            };
            if len < 0 {
                return None;
            }
            if kind != libc::PACKET_OUTGOING {
                frame.truncate(len as usize);
                return Some(frame);
            }
        }
    }
}

/// Waits for a condition; the test fails after a minute.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: not after a minute");
        std::thread::yield_now();
    }
}

/// Returns the time for the ports, from the system's clock.
pub fn now() -> switch::Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    switch::Instant(START.get_or_init(Instant::now).elapsed().as_nanos() as u64)
}

/// Receives until there are `count` frames, and returns their bytes.
pub fn receive(port: &mut XdpPort, umem: &mut Umem, count: usize) -> Vec<Vec<u8>> {
    let (mut received, mut frames) = (Vec::new(), Vec::new());
    until("frames arrive at the port", || {
        port.receive(umem, now(), count - frames.len(), &mut received);
        for RxDesc { frame, len, .. } in received.drain(..) {
            frames.push(bytes_of(umem, &frame, len.into()));
            umem.free(frame);
        }
        frames.len() == count
    });
    frames
}

/// Returns all bytes of a frame.
pub fn bytes_of(umem: &mut Umem, frame: &FrameId, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    umem.whole(frame, len, |whole| {
        bytes = whole.to_vec();
        false
    });
    bytes
}

/// Allocates a frame with these bytes.
pub fn frame_of(umem: &mut Umem, bytes: &[u8]) -> FrameId {
    let frame = umem.alloc_for(bytes.len()).expect("memory");
    umem.whole(&frame, bytes.len(), |whole| {
        whole.copy_from_slice(bytes);
        true
    });
    frame
}

/// Puts one frame into the TX ring, without a kick.
pub fn transmit(port: &mut XdpPort, umem: &mut Umem, bytes: &[u8]) {
    assert!(port.transmit_room() > 0);
    let frame = frame_of(umem, bytes);
    port.transmit(umem, &mut vec![TxDesc::new(frame, bytes.len() as u16)]);
}

/// Kicks once and frees the completed frames. Returns the first 18 bytes of each frame that the
/// kernel lost.
pub fn finish(port: &mut XdpPort, umem: &mut Umem) -> Vec<Vec<u8>> {
    port.kick();
    let (mut done, mut lost) = (Vec::new(), Vec::new());
    port.complete(&mut done);
    port.take_lost(&mut lost);
    let begin = |frame: &FrameId| umem.bytes(frame, 18).to_vec();
    let begins = lost.iter().map(begin).collect();
    done.into_iter().chain(lost).for_each(|frame| umem.free(frame));
    begins
}

/// Builds a numbered frame of `len` bytes.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (i as u32 ^ number) as u8).collect();
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]); // IEEE 802: local experimental
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Checks that a frame of the host is received unchanged, and transmitted again unchanged.
pub fn cross_both_ways(host: &Host, port: &mut XdpPort, umem: &mut Umem, sent: &[u8]) {
    host.send(sent);
    assert_eq!(receive(port, umem, 1), [sent], "{} bytes in", sent.len());
    transmit(port, umem, sent);
    let mut arrived = None;
    until("the frame arrives at the host", || {
        finish(port, umem);
        arrived = host.receive();
        arrived.is_some()
    });
    assert_eq!(arrived.as_deref(), Some(sent), "{} bytes out", sent.len());
}

/// Waits until all frames from one port to the other have left. Checks that the kernel lost none,
/// and that all frames that are not free are posted.
pub fn all_leave(from: &XdpPort, to: &mut XdpPort, umem: &mut Umem) {
    until("all complete", || {
        finish(to, umem);
        to.outstanding() == 0
    });
    assert_eq!(from.kernel_counters(), KernelCounters::default());
    let sent = to.kernel_counters();
    assert_eq!(KernelCounters { tx_kicks: 0, tx_again: 0, ..sent }, KernelCounters::default());
    let accounting = umem.check().unwrap();
    assert_eq!((accounting.user, accounting.transmit), (0, 0));
    assert_eq!(accounting.fill, from.frames_held() + to.frames_held());
}
