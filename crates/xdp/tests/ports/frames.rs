//! Frames through a port on a real veth, both ways.

use crate::common::{Host, KINDS, Netns, cross_both_ways, finish, frame, setup_of, until};
use dataplane::Port;
use switch::FrameMemory;
use xdp::{PacketSender, Umem, XdpMode, XdpPort};

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

/// A socket that is bound to no interface need not be closed when one goes.
#[test]
fn one_packet_socket_sends_on_every_interface() {
    let space = Netns::with_pairs(2);
    space.inside(|| {
        let indexes = ["p0", "p1"].map(|name| nix::net::if_::if_nametoindex(name).unwrap());
        let hosts = ["h0", "h1"].map(Host::new);
        let sender = PacketSender::open().unwrap();
        let frame =
            |number: u8| [&[0xff; 6][..], &[2, 0, 0, 0, 0, number], &[0x88, 0xb5], &[number; 46]].concat();
        let arrives = |host: &Host, sent: &[u8]| {
            until("the frame arrives", || host.receive().is_some_and(|received| received == sent));
        };
        for number in 0..2 {
            sender.send(indexes[usize::from(number)], &frame(number)).unwrap();
            arrives(&hosts[usize::from(number)], &frame(number));
        }
        space.ip("link set p0 down");
        assert_eq!(sender.send(indexes[0], &frame(2)).unwrap_err().raw_os_error(), Some(libc::ENETDOWN));
        space.ip("link del p0");
        assert_eq!(sender.send(indexes[0], &frame(3)).unwrap_err().raw_os_error(), Some(libc::ENXIO));
        sender.send(indexes[1], &frame(4)).unwrap();
        arrives(&hosts[1], &frame(4));
    });
}
