//! Every failure to open a port gives a clear error and leaves nothing behind.

use nix::unistd::Uid;
use xdp::{Error, MAX_MTU, MultiBuffer, PortConfig, Umem, XdpPort, frame_bytes_for};
use xsk_rs::config::{BindFlags, LibxdpFlags, SocketConfig, UmemConfig};

use crate::common::Netns;

/// Opens p0 in the namespace, which must fail. Checks that no frame is missing afterwards, and that
/// the interface has no program and no qdisc.
fn refusal(space: &Netns, interface: &str) -> Error {
    space.inside(|| {
        let mut umem = Umem::new(4096, 2048).unwrap();
        let error =
            XdpPort::open(&mut umem, interface, &PortConfig::default()).expect_err("it must be refused");
        assert_eq!(umem.check().unwrap().free, 4096);
        error
    })
}

/// Returns what `ip link` shows of p0, without the part that the test changes itself.
fn program_and_qdisc(space: &Netns) -> (bool, bool) {
    let link = space.ip_output("link show dev p0");
    (link.contains("xdp"), link.contains("qdisc noqueue"))
}

#[test]
fn no_such_interface() {
    let space = Netns::new();
    for name in ["p0", "a-name-that-is-longer-than-any", ""] {
        let error = refusal(&space, name);
        assert!(matches!(&error, Error::NoInterface { interface } if interface == name), "{error:?}");
    }
    space.inside(|| assert!(matches!(frame_bytes_for(["p0"]), Err(Error::NoInterface { .. }))));
}

#[test]
fn interface_down() {
    let space = Netns::with_pairs(1);
    space.ip("link set p0 down");
    let error = refusal(&space, "p0");
    assert!(matches!(error, Error::Down { .. }), "{error:?}");
    assert_eq!(error.to_string(), "interface p0 is down; `ip link set dev p0 up` brings it up");
    assert_eq!(program_and_qdisc(&space), (false, true));
}

#[test]
fn interface_that_has_a_program() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(4096, 2048).unwrap();
        let _first = XdpPort::open(&mut umem, "p0", &PortConfig::default()).unwrap();
        let error = refusal(&space, "p0");
        let Error::HasProgram { program_id, .. } = error else { panic!("{error:?}") };
        assert!(space.ip_output("link show dev p0").contains(&format!("prog/xdp id {program_id} ")));
    });
    assert_eq!(program_and_qdisc(&space), (false, true), "the first port is gone");
}

#[test]
fn queue_with_a_socket() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let (umem, _) = xsk_rs::Umem::new(UmemConfig::default(), 64.try_into().unwrap(), false).unwrap();
        let config = SocketConfig::builder()
            .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
            .bind_flags(BindFlags::XDP_COPY)
            .build();
        // SAFETY: no program is loaded by libxdp.
        let _socket = unsafe { xsk_rs::Socket::new(config, &umem, &"p0".parse().unwrap(), 0) }.unwrap();
        let error = refusal(&space, "p0");
        assert!(matches!(error, Error::QueueBusy { queue: 0, .. }), "{error:?}");
        assert_eq!(program_and_qdisc(&space), (false, true));
    });
}

#[test]
fn mtu_too_large() {
    let space = Netns::with_pairs(1);
    let set_mtu = |port: u32, host: u32| {
        space.ip(&format!("link set p0 mtu {port}"));
        space.ip(&format!("link set h0 mtu {host}"));
    };
    let open_with = |frame_bytes, wanted| {
        space.inside(|| {
            let mut umem = Umem::with(4096, frame_bytes, wanted).unwrap();
            let result = XdpPort::open(&mut umem, "p0", &PortConfig::default()).map(drop);
            result.inspect_err(|_| assert_eq!(umem.check().unwrap().free, 4096))
        })
    };
    // Frames of one chunk each: 2048 bytes less 256 for XDP, 14 for the Ethernet header and 8 for
    // two tags.
    let open = |frame_bytes| open_with(frame_bytes, MultiBuffer::Never);
    set_mtu(1771, 1771);
    let error = open(2048).unwrap_err();
    assert!(matches!(error, Error::MtuTooLarge { mtu: 1771, max_mtu: 1770, .. }), "{error:?}");
    set_mtu(1770, 1770);
    assert!(open(2048).is_ok());
    space.inside(|| assert_eq!(frame_bytes_for(["p0", "h0"]).unwrap(), 2048));

    set_mtu(3507, 3507);
    space.inside(|| assert_eq!(frame_bytes_for(["p0", "h0"]).unwrap(), 4096));
    let error = open(4096).unwrap_err();
    assert!(matches!(error, Error::PeerMtuTooLarge { max_mtu: 3506, .. }), "{error:?}");
    assert_eq!(program_and_qdisc(&space), (false, true));
    set_mtu(3506, 3506);
    assert!(open(4096).is_ok());
    set_mtu(9000, 9000);
    let error = open(4096).unwrap_err();
    assert!(matches!(error, Error::MtuTooLarge { mtu: 9000, max_mtu: 3818, .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "interface p0: an MTU of 9000 is too large, 3818 is the most here, as frames in several pieces need Linux 6.6; \
         `ip link set dev p0 mtu 3818` lowers it (on a veth, at both ends)"
    );

    // Multi-buffer frames.
    for frame_bytes in [2048, 4096] {
        set_mtu(MAX_MTU, MAX_MTU);
        assert!(open_with(frame_bytes, MultiBuffer::IfPossible).is_ok());
        set_mtu(MAX_MTU + 1, MAX_MTU);
        let error = open_with(frame_bytes, MultiBuffer::IfPossible).unwrap_err();
        assert!(
            matches!(error, Error::MtuTooLarge { mtu: 9217, max_mtu: 9216, because: "", .. }),
            "{error:?}"
        );
    }
}

#[test]
fn fewer_queues_than_the_peer() {
    let space = Netns::new();
    space.ip("link add p0 numrxqueues 1 numtxqueues 1 type veth peer name h0 numrxqueues 4 numtxqueues 4");
    space.ip("link set h0 up");
    space.ip("link set p0 up");
    let error = refusal(&space, "p0");
    assert!(matches!(error, Error::TooFewQueues { .. }), "{error:?}");
    assert_eq!(program_and_qdisc(&space), (false, true));
}

#[test]
fn bad_setup() {
    let space = Netns::with_pairs(1);
    let good = PortConfig::default();
    space.inside(|| {
        let mut umem = Umem::new(4096, 2048).unwrap();
        for setup in [
            PortConfig { tx_ring: 1000, ..good },
            PortConfig { tx_ring: 4096, ..good },
            PortConfig { tx_budget: 0, ..good },
            PortConfig { tx_budget: 2049, ..good },
            PortConfig { max_posted: 0, ..good },
            PortConfig { max_posted: 8193, ..good },
            PortConfig { max_posted: 1000, min_posted: 1001, ..good },
        ] {
            let error = XdpPort::open(&mut umem, "p0", &setup).unwrap_err();
            assert!(matches!(error, Error::InvalidPortConfig { .. }), "{setup:?}: {error:?}");
        }
    });
}

#[test]
fn not_enough_memory() {
    let error = Umem::new(1 << 30, 4096).unwrap_err();
    assert!(matches!(error, Error::NoMemory { .. }), "{error:?}");
    assert!(error.to_string().contains("(4194304 MiB)"), "{error}");
    for (frames, frame_bytes) in [(0, 2048), (1 << 32, 2048), (64, 1024), (64, 3000), (64, 8192)] {
        let error = Umem::new(frames, frame_bytes).unwrap_err();
        assert!(matches!(error, Error::InvalidUmemSize { .. }), "{frames} × {frame_bytes}: {error:?}");
    }
}

/// Switches to the user nobody, on this thread only (the C library's call would change all
/// threads).
fn drop_privileges() {
    let none = 65534;
    // SAFETY: a plain system call.
    assert_eq!(unsafe { libc::syscall(libc::SYS_setuid, none) }, 0);
    assert_eq!(Uid::effective().as_raw(), none);
}

#[test]
fn not_permitted() {
    let space = Netns::with_pairs(1);
    let error = space.inside(|| {
        drop_privileges();
        Umem::new(4096, 2048).unwrap_err()
    });
    assert!(matches!(error, Error::NotPermitted { .. }), "{error:?}");

    let error = space.inside(|| {
        let mut umem = Umem::new(4096, 2048).unwrap();
        drop_privileges();
        let error = XdpPort::open(&mut umem, "p0", &PortConfig::default()).unwrap_err();
        assert_eq!(umem.check().unwrap().free, 4096);
        error
    });
    assert!(matches!(error, Error::NotPermitted { .. }), "{error:?}");
    assert!(error.to_string().contains("in a container, its seccomp profile may refuse bpf(2)"), "{error}");
    assert_eq!(program_and_qdisc(&space), (false, true));
}
