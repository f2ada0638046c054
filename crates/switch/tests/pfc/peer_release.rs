//! What a peer that is paused is sent when it goes on, when its port goes down, when the switch
//! ends, and when the kernel lost the frame.

#[path = "../lab/mod.rs"]
mod lab;

use lab::{Frame, Lab, OPEN, mac};
use switch::Instant;
use switch::monitor::counters::PfcCount;
use switch::settings::{FlowControl, GroupSettings, SwitchSettings, Threshold};
use wire::mac::MacAddr;
use wire::pause::Pfc;

const P: usize = 3;

/// Two ports with PFC for priority 3, whose group at port 0 is in XOFF with its second cell.
fn settings() -> SwitchSettings {
    let mut settings = lab::settings(2, 1 << P, 1000, 100);
    settings.ports[0].groups[P] = GroupSettings { xoff: Threshold::Static(2), headroom_cells: 50, ..OPEN };
    settings
}

/// The same, but port 0 sends PAUSE.
fn settings_with_pause() -> SwitchSettings {
    let mut settings = settings();
    (settings.ports[0].pfc.tx, settings.ports[0].pfc.no_drop) = (false, 0);
    settings.ports[0].flow_control = FlowControl::Send;
    settings
}

/// Pauses port 1 for the longest time, so that three frames of port 0's host wait.
fn fill(lab: &mut Lab) {
    lab.send_pfc(1, Pfc { enable: 1 << P, quanta: [u16::MAX; 8] });
    (0..3).for_each(|_| lab.arrive(Frame { port: 0, dst: mac(1), priority: P as u8, len: 64 }));
}

/// Returns the priorities, and quanta of priority 3, of the PFC frames that port 0 sends now.
fn sends(lab: &mut Lab, after_ns: u64) -> Vec<(u8, u16)> {
    lab.now = lab.now + after_ns;
    lab.switch.tick(lab.now, &mut lab.memory);
    lab.transmit(0, usize::MAX);
    lab.pfc_sent(0).iter().map(|pfc| (pfc.enable, pfc.quanta[P])).collect()
}

const XOFF: (u8, u16) = (1 << P, u16::MAX);
const XON: (u8, u16) = (1 << P, 0);

#[test]
fn a_peer_is_released_before_its_port_goes_down() {
    let mut lab = Lab::new(&settings());
    lab.turn();
    assert!(lab.switch.is_peer_released(0), "it was never paused");
    fill(&mut lab);
    assert_eq!(sends(&mut lab, 0), [XOFF]);
    lab.complete(0, usize::MAX);
    assert!(!lab.switch.is_peer_released(0));
    lab.switch.release_peer(0);
    assert!(!lab.switch.is_peer_released(0), "XON has not been sent");
    assert_eq!(sends(&mut lab, 1_000), [XON]);
    assert!(!lab.switch.is_peer_released(0), "XON has not left");
    lab.complete(0, usize::MAX);
    assert!(lab.switch.is_peer_released(0));
    // XON is repeated, and then the port has no work.
    assert_eq!(sends(&mut lab, 1_000_000), [XON]);
    lab.complete(0, usize::MAX);
    assert_eq!(sends(&mut lab, 1_000_000), []);
    assert_eq!(lab.switch.ports_with_work() & 1, 0);
}

/// The group is still in XOFF, which the next peer is sent at once, from the address that the port
/// has then.
#[test]
fn the_next_peer_of_a_full_group_is_paused_at_once() {
    let mut lab = Lab::new(&settings());
    lab.turn();
    fill(&mut lab);
    assert_eq!(sends(&mut lab, 0), [XOFF]);
    lab.complete(0, usize::MAX);
    let address = MacAddr([2, 0, 0, 0, 7, 7]);
    lab.switch.port_down(0, lab.now, &mut lab.memory);
    lab.switch.port_up(0, Some(address), lab.now);
    assert_eq!(sends(&mut lab, 1_000), [XOFF]);
    assert_eq!(lab.memory_of(0)[6..12], address.0);
}

/// The rings of port 0 were empty 301 µs after XOFF had left, a microsecond more than the response
/// time.
#[test]
fn a_peer_that_goes_on_is_sent_xoff_again() {
    let mut lab = Lab::new(&settings());
    lab.turn();
    fill(&mut lab);
    assert_eq!(sends(&mut lab, 0), [XOFF]);
    lab.complete(0, usize::MAX);
    lab.switch.begin_iteration(lab.now);
    for (after_ns, sent) in [(301_000, vec![]), (9_000, vec![XOFF])] {
        lab.now = lab.now + after_ns;
        lab.switch.begin_iteration(lab.now);
        lab.switch.observe_rx_backlog(0, 0, lab.now);
        lab.arrive(Frame { port: 0, dst: mac(1), priority: P as u8, len: 64 });
        assert_eq!(sends(&mut lab, 0), sent);
        lab.complete(0, usize::MAX);
    }
}

/// Nothing is due for a port whose peer is not paused.
#[test]
fn a_port_without_xoff_has_no_deadline() {
    let mut lab = Lab::new(&settings());
    (0..3).for_each(|_| lab.turn());
    assert_eq!(lab.switch.next_pfc_deadline(), Instant::NEVER);
    assert_eq!(sends(&mut lab, 1_000), []);
}

/// PAUSE is for the link: a port that comes up again sends it if its groups are full, and nothing
/// otherwise.
#[test]
fn the_next_peer_of_a_link_is_paused_only_if_a_group_is_full() {
    let mut lab = Lab::new(&settings_with_pause());
    lab.turn();
    let quanta_when_up_again = |lab: &mut Lab| {
        lab.switch.port_down(0, lab.now, &mut lab.memory);
        lab.switch.port_up(0, None, lab.now);
        (0..3).for_each(|_| lab.turn());
        std::mem::take(&mut lab.pauses[0])
    };
    assert!(quanta_when_up_again(&mut lab).is_empty());
    fill(&mut lab);
    lab.turn();
    assert_eq!(std::mem::take(&mut lab.pauses[0]), [u16::MAX]);
    assert_eq!(quanta_when_up_again(&mut lab), [u16::MAX]);
    lab.send_pfc(1, Pfc { enable: 1 << P, quanta: [0; 8] });
    (0..3).for_each(|_| lab.turn());
    assert_eq!(std::mem::take(&mut lab.pauses[0]), [0], "and that it may send again");
}

#[test]
fn what_the_kernel_lost_is_sent_again_after_50_us() {
    let mut lab = Lab::new(&settings());
    lab.turn();
    fill(&mut lab);
    assert_eq!(sends(&mut lab, 0), [XOFF]);
    lab.lose(0, 1);
    assert_eq!(sends(&mut lab, 49_999), []);
    assert_eq!(sends(&mut lab, 1), [XOFF]);
}

/// Peers stay paused however empty the groups become: what they sent would not be forwarded.
#[test]
fn a_switch_that_ends_pauses_its_peers_for_good() {
    let mut lab = Lab::new(&settings());
    lab.turn();
    lab.switch.stop();
    assert_eq!(sends(&mut lab, 1_000), [XOFF]);
    let mut lab = Lab::new(&settings());
    fill(&mut lab);
    lab.turn();
    assert_eq!(lab.pfc_sent(0).len(), 1);
    lab.switch.stop();
    lab.send_pfc(1, Pfc { enable: 1 << P, quanta: [0; 8] });
    (0..5).for_each(|_| lab.turn());
    let sent = lab.pfc_sent(0);
    let group = &lab.snapshot().ports[0].groups[P];
    assert_eq!((sent, group.total.cells, group.xoff), (vec![], 0, false));
}

#[test]
fn a_switch_that_ends_pauses_its_links_for_good() {
    let mut lab = Lab::new(&settings_with_pause());
    lab.turn();
    lab.switch.stop();
    lab.turn();
    assert_eq!((lab.pfc[0].len(), &lab.pauses[0][..]), (0, &[u16::MAX][..]));
}

/// The guard of a stalled loop paused the peer; the group holds nothing, so XON follows.
#[test]
fn what_the_guard_sent_is_counted_and_withdrawn() {
    let mut lab = Lab::new(&settings());
    lab.turn();
    let mut sent = PfcCount { frames: 2, ..PfcCount::default() };
    sent.xoff_frames[P] = 2;
    lab.switch.record_guard_pfc(0, &sent, lab.now);
    assert_eq!(sends(&mut lab, 1_000), [XON]);
    let port = &lab.snapshot().ports[0];
    assert_eq!((port.pfc_guard_frames, port.pfc_sent.xoff_frames[P], port.pfc_sent.frames), (2, 2, 3));
}
