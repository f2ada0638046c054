//! Frames through a port on a real veth, both ways.

use crate::common::{Host, KINDS, Netns, cross_both_ways, finish, frame, setup_of, until};
use dataplane::Port;
use switch::FrameMemory;
use xdp::{Umem, XdpMode, XdpPort};

#[test]
fn frames_pass_unchanged_in_both_directions() {
    let space = Netns::with_pairs(1);
    space.inside(|| {
        for zero_copy in KINDS {
            let mut umem = Umem::new(16384, 2048).unwrap();
            let mut port = XdpPort::open(&mut umem, "p0", &setup_of(zero_copy)).unwrap();
            assert_eq!(
                (port.xdp_mode(), port.vlan_tags_restored(), port.queues()),
                (XdpMode::Native, true, 1)
            );
            let host = Host::new("h0");

            for (number, len) in [60, 61, 64, 65, 127, 128, 512, 1500, 1514].into_iter().enumerate() {
                let sent = frame(number as u32, len);
                cross_both_ways(&host, &mut port, &mut umem, &sent);
            }
            until("the last frame completes", || {
                finish(&mut port, &mut umem);
                port.outstanding() == 0
            });

            port.close(&mut umem, &mut Vec::new());
            assert_eq!(umem.free_frames(), 16384);
            assert_eq!(umem.check().unwrap().free, 16384);
        }
    });
}
