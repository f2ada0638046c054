//! A VLAN tag that the sending host's stack keeps out of band is received in the frame.

use libbpf_rs::{ObjectBuilder, TC_EGRESS, TcHookBuilder};
use nix::net::if_::if_nametoindex;
use std::os::fd::AsFd;
use xdp::{PortConfig, Umem, XdpPort};

use crate::common::{Host, Netns, frame, receive};

/// Makes the kernel tag frames that leave `interface` with VLAN 5, priority 3, out of band.
fn tag_out_of_band(interface: &str) {
    let bytes = include_bytes!(env!("VLAN_PUSH_BPF"));
    let object = ObjectBuilder::default().open_memory(bytes).unwrap().load().unwrap();
    let program = object.progs().next().unwrap();
    let index = if_nametoindex(interface).unwrap() as i32;
    let mut hook = TcHookBuilder::new(program.as_fd())
        .ifindex(index)
        .replace(true)
        .handle(1)
        .priority(1)
        .hook(TC_EGRESS);
    hook.create().unwrap();
    hook.attach().unwrap();
}

#[test]
fn a_tag_held_out_of_band_is_put_back() {
    let space = Netns::with_pairs(1);
    space.ip("link set p0 mtu 9000");
    space.ip("link set h0 mtu 9000");
    space.inside(|| {
        let mut umem = Umem::new(4096, 2048).unwrap();
        let mut port = XdpPort::open(&mut umem, "p0", &PortConfig::default()).unwrap();
        assert!(port.vlan_tags_restored());
        tag_out_of_band("h0");
        let host = Host::new("h0");
        for len in [60, 500, 1514, 1788, 1789, 3580, 9000, 9014] {
            let sent = frame(7, len);
            host.send(&sent);
            let tagged = [&sent[..12], &[0x81, 0x00, 3 << 5, 5], &sent[12..]].concat();
            assert_eq!(receive(&mut port, &mut umem, 1), [tagged], "{len} bytes");
        }
    });
}

#[test]
fn a_tag_in_the_frame_stays_and_untagged_frames_stay_untagged() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        let mut umem = Umem::new(4096, 2048).unwrap();
        let mut port = XdpPort::open(&mut umem, "p0", &PortConfig::default()).unwrap();
        let host = Host::new("h0");
        let plain = frame(7, 100);
        let tagged = [&plain[..12], &[0x81, 0x00, 0xa0, 9], &plain[12..]].concat();
        for sent in [plain, tagged] {
            host.send(&sent);
            assert_eq!(receive(&mut port, &mut umem, 1), [sent]);
        }
    });
}
