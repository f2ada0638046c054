//! LLDP in virtual time: when frames are sent, and which neighbors are known.

mod pair;

use core::time::Duration;
use dcbx::event::NeighborLoss;
use dcbx::lldp::NeighborId;
use dcbx::settings::{AdminStatus, AgentSettings, Ets, EtsError, PfcSettings};
use dcbx::status::Operational;
use dcbx::{Agent, Event};
use pair::{Pair, seconds, settings};
use proptest::prelude::*;
use wire::MacAddr;
use wire::dcbx::ieee::{Application, Ieee, Selector};
use wire::lldp::organization::OUI_802_1;
use wire::lldp::{Capabilities, ChassisId, LldpError, Lldpdu, ManagementAddress, OrgTlv, PortId, decode};

/// An agent alone on a link that came up at 1 s.
fn agent(change: impl FnOnce(&mut AgentSettings)) -> Agent {
    let mut settings = settings(1, None);
    change(&mut settings);
    let mut agent = Agent::new(settings);
    agent.set_link(seconds(1), true);
    agent
}

/// Polls an agent whenever it wants to be, and returns when it sent frames, with their TTLs.
fn sent(agent: &mut Agent, from: Duration, until: Duration) -> Vec<(Duration, u16)> {
    let (mut now, mut sent) = (from, Vec::new());
    while now <= until {
        let polled = agent.poll(now);
        sent.extend(polled.frames.iter().map(|frame| (now, decode(frame).unwrap().1.ttl_s)));
        match polled.next {
            Some(next) if next > now => now = next,
            Some(next) => panic!("a deadline at {next:?}, but it is {now:?}"),
            None => break,
        }
    }
    sent
}

fn at(seconds: impl IntoIterator<Item = u64>, ttl_s: u16) -> Vec<(Duration, u16)> {
    seconds.into_iter().map(|second| (Duration::from_secs(second), ttl_s)).collect()
}

/// Neighbor `number` with a time to live.
fn neighbor(number: u8, ttl_s: u16) -> Lldpdu {
    Lldpdu::new(ChassisId::mac(MacAddr([2, 0, 0, 0, 1, number])), PortId::interface("eth0"), ttl_s)
}

fn frame(lldpdu: &Lldpdu) -> Vec<u8> {
    lldpdu.encode(MacAddr([2, 0, 0, 0, 1, 0xff])).frame
}

#[test]
fn a_frame_each_interval() {
    assert_eq!(sent(&mut agent(|_| {}), seconds(1), seconds(100)), at([1, 31, 61, 91], 121));
    let mut other = agent(|it| (it.lldp.tx_interval_s, it.lldp.hold) = (5, 2));
    assert_eq!(sent(&mut other, seconds(1), seconds(20)), at([1, 6, 11, 16], 11));
    let mut longest = agent(|it| (it.lldp.tx_interval_s, it.lldp.hold) = (32768, 10));
    assert_eq!(sent(&mut longest, seconds(1), seconds(1)), at([1], u16::MAX));
}

#[test]
fn a_late_poll_sends_one_frame() {
    let mut agent = agent(|_| {});
    assert_eq!(agent.poll(seconds(1)).frames.len(), 1);
    assert_eq!(agent.poll(seconds(1000)).frames.len(), 1);
    assert_eq!(agent.poll(seconds(1000)), dcbx::PollOutput { frames: vec![], next: Some(seconds(1030)) });
}

#[test]
fn nothing_without_a_link_or_with_lldp_off() {
    let mut down = Agent::new(settings(1, None));
    assert_eq!(down.poll(seconds(1)), dcbx::PollOutput::default());
    down.receive(seconds(1), &frame(&neighbor(1, 120)));
    assert_eq!((down.neighbors().count(), down.counters().rx_frames), (0, 0));
    for (admin, sends, receives) in [
        (AdminStatus::Both, 1, 1),
        (AdminStatus::TxOnly, 1, 0),
        (AdminStatus::RxOnly, 0, 1),
        (AdminStatus::Off, 0, 0),
    ] {
        let mut agent = agent(|it| it.lldp.admin = admin);
        assert_eq!(agent.poll(seconds(1)).frames.len(), sends, "{admin:?}");
        agent.receive(seconds(1), &frame(&neighbor(1, 120)));
        assert_eq!(agent.neighbors().count(), receives, "{admin:?}");
    }
}

/// A new neighbor gets four frames a second apart, less the one that the change of its arrival
/// sends at once.
#[test]
fn fast_start_on_a_new_neighbor() {
    let mut agent = agent(|_| {});
    agent.poll(seconds(1));
    agent.receive(seconds(10), &frame(&neighbor(1, 300)));
    assert_eq!(sent(&mut agent, seconds(10), seconds(50)), at([10, 11, 12, 13, 43], 121));
    // The same neighbor again is not new.
    agent.receive(seconds(50), &frame(&neighbor(1, 300)));
    assert_eq!(sent(&mut agent, seconds(50), seconds(80)), at([73], 121));
}

/// However often something changes, five frames at once and then one a second.
#[test]
fn changes_are_limited_by_credit() {
    let mut agent = agent(|_| {});
    let mut times = Vec::new();
    for step in 0..100 {
        let now = seconds(1) + Duration::from_millis(100) * step;
        let mut changed = settings(1, None);
        changed.system.port_description = format!("change {step}");
        agent.configure(now, changed);
        times.extend(agent.poll(now).frames.iter().map(|_| now.as_millis()));
    }
    let expected: Vec<u128> =
        [1000, 1100, 1200, 1300, 1400].into_iter().chain((2..=10).map(|at| at * 1000)).collect();
    assert_eq!(times, expected);
    // The last change is not lost.
    assert_eq!(agent.poll(seconds(11)).frames.len(), 1);
    assert_eq!(agent.advertised().port_description.as_deref(), Some("change 99"));
}

/// A change that finds no credit left is sent with the next tick, for which the agent asks.
#[test]
fn a_change_without_credit_waits_for_the_next_tick() {
    let mut agent = agent(|_| {});
    let mut change = |number: u8| {
        let mut changed = settings(1, None);
        changed.system.port_description = format!("change {number}");
        agent.configure(seconds(1), changed);
        agent.poll(seconds(1))
    };
    for number in 0..5 {
        assert_eq!(change(number).frames.len(), 1, "{number}");
    }
    assert_eq!(change(5), dcbx::PollOutput { frames: vec![], next: Some(seconds(2)) });
    assert_eq!(sent(&mut agent, seconds(2), seconds(30)), at([2], 121));
}

#[test]
fn disabling_sends_a_shutdown_frame_and_waits_before_the_next_start() {
    let mut agent = agent(|_| {});
    agent.poll(seconds(1));
    let mut off = settings(1, None);
    off.lldp.admin = AdminStatus::Off;
    agent.configure(seconds(5), off);
    assert_eq!(sent(&mut agent, seconds(5), seconds(5)), at([5], 0));
    agent.configure(seconds(6), settings(1, None));
    // The reinit delay is two seconds. The interval began when transmission was enabled again.
    assert_eq!(sent(&mut agent, seconds(6), seconds(40)), at([7, 36], 121));
}

/// A shutdown frame withdraws the old name, and the new one follows.
#[test]
fn another_identity_withdraws_the_old_one() {
    let mut pair = Pair::new([settings(1, None), settings(2, None)]);
    pair.run(seconds(10));
    let mut renamed = settings(1, None);
    renamed.system.port = PortId::interface("p9");
    pair.agents[0].configure(pair.now, renamed);
    pair.run(seconds(1));
    let ports: Vec<String> = pair.agents[1].neighbors().map(|it| it.lldpdu.port.to_string()).collect();
    assert_eq!(ports, ["p9"]);
    assert_eq!(pair.agents[1].counters().neighbors_shut_down, 1);
}

/// What was never advertised, or has been withdrawn, is not withdrawn again.
#[test]
fn a_port_that_does_not_send_withdraws_no_name() {
    let mut renamed = settings(1, None);
    renamed.system.port = PortId::interface("p9");
    let mut down = Agent::new(settings(1, None));
    down.configure(seconds(1), renamed.clone());
    assert_eq!(down.poll(seconds(1)).frames, Vec::<Vec<u8>>::new());
    let mut receives = agent(|it| it.lldp.admin = AdminStatus::RxOnly);
    renamed.lldp.admin = AdminStatus::RxOnly;
    receives.configure(seconds(2), renamed);
    assert_eq!(receives.poll(seconds(2)).frames, Vec::<Vec<u8>>::new());
}

#[test]
fn neighbors_are_known_until_they_expire() {
    let mut pair = Pair::new([settings(1, None), settings(2, None)]);
    pair.run(seconds(100));
    let known: Vec<_> =
        pair.agents[0].neighbors().map(|it| (it.lldpdu.system_name.clone(), it.since)).collect();
    assert_eq!(known, [(Some("sw2".to_owned()), seconds(1) + pair::DELAY)]);
    pair.delivers_to[0] = false;
    let last = *pair.sent[1].last().unwrap() + pair::DELAY;
    pair.run(last + seconds(121) - pair.now - Duration::from_nanos(1));
    assert_eq!(pair.agents[0].neighbors().count(), 1);
    pair.run(Duration::from_nanos(1));
    assert_eq!(pair.agents[0].neighbors().count(), 0);
    assert_eq!(pair.agents[0].counters().neighbors_aged_out, 1);
    let losses: Vec<_> = pair.agents[0]
        .take_events()
        .into_iter()
        .filter_map(|event| match event {
            Event::NeighborLost(_, loss) => Some(loss),
            _ => None,
        })
        .collect();
    assert_eq!(losses, [NeighborLoss::Expired]);
}

#[test]
fn a_shutdown_frame_removes_the_neighbor_at_once() {
    let mut agent = agent(|_| {});
    agent.receive(seconds(1), &frame(&neighbor(1, 120)));
    agent.receive(seconds(2), &frame(&neighbor(2, 0)));
    assert_eq!(agent.neighbors().count(), 1, "the shutdown of an unknown neighbor changes nothing");
    agent.receive(seconds(3), &frame(&neighbor(1, 0)));
    assert_eq!(agent.neighbors().count(), 0);
    assert_eq!(agent.counters().neighbors_shut_down, 1);
}

/// A frame with the same contents refreshes the neighbor. One with others, or from another address,
/// is a change and an event.
#[test]
fn a_neighbor_that_changes_is_an_event() {
    let mut agent = agent(|_| {});
    let mut receive = |second, lldpdu: &Lldpdu, src| {
        agent.receive(seconds(second), &lldpdu.encode(MacAddr([2, 0, 0, 0, 1, src])).frame);
        let known = agent.neighbors().next().unwrap();
        let (src, changed, expires) = (known.src.0[5], known.changed, known.expires);
        (src, changed, expires, agent.take_events())
    };
    let known = neighbor(1, 120);
    let id = NeighborId::of(&known);
    let (added, changed) = (Event::NeighborAdded(id.clone()), Event::NeighborChanged(id));
    assert_eq!(receive(1, &known, 7), (7, seconds(1), seconds(121), vec![added]));
    assert_eq!(receive(2, &known, 7), (7, seconds(1), seconds(122), vec![]));
    assert_eq!(receive(3, &known, 8), (8, seconds(3), seconds(123), vec![changed.clone()]));
    let other = Lldpdu { system_name: Some("other".to_owned()), ..known };
    assert_eq!(receive(4, &other, 8), (8, seconds(4), seconds(124), vec![changed]));
}

/// While the link is down neighbors expire as ever. Those that are left go when it comes up again.
#[test]
fn neighbors_across_a_link_that_flaps() {
    let mut agent = agent(|_| {});
    agent.receive(seconds(1), &frame(&neighbor(1, 10)));
    agent.receive(seconds(1), &frame(&neighbor(2, 100)));
    agent.set_link(seconds(2), false);
    assert_eq!(agent.neighbors().count(), 2);
    assert_eq!(agent.poll(seconds(2)), dcbx::PollOutput { frames: vec![], next: Some(seconds(11)) });
    agent.poll(seconds(11));
    assert_eq!(agent.neighbors().count(), 1);
    agent.set_link(seconds(20), true);
    assert_eq!(agent.neighbors().count(), 0);
    agent.receive(seconds(20), &frame(&neighbor(1, 10)));
    assert_eq!(agent.neighbors().count(), 1);
}

#[test]
fn the_table_is_bounded() {
    let mut agent = agent(|it| it.lldp.max_neighbors = 2);
    agent.receive(seconds(1), &frame(&neighbor(1, 30)));
    agent.receive(seconds(1), &frame(&neighbor(2, 100)));
    assert!(!agent.has_too_many_neighbors());
    for number in 3..=200 {
        agent.receive(seconds(2), &frame(&neighbor(number, 20)));
    }
    assert_eq!(agent.neighbors().count(), 2);
    assert_eq!(agent.counters().rx_excess_neighbors, 198);
    let excess = agent.take_events().into_iter().filter(|it| matches!(it, Event::TooManyNeighbors(_)));
    assert_eq!(excess.count(), 1, "one event for all of them");
    assert!(agent.has_too_many_neighbors());
    agent.poll(seconds(22));
    assert!(!agent.has_too_many_neighbors());
    agent.poll(seconds(31));
    agent.receive(seconds(31), &frame(&neighbor(3, 20)));
    assert_eq!(agent.neighbors().count(), 2);
}

#[test]
fn malformed_and_own_frames_are_counted_and_change_nothing() {
    let mut agent = agent(|_| {});
    agent.receive(seconds(1), &frame(&neighbor(1, 120)));
    let before: Vec<_> = agent.neighbors().cloned().collect();
    let mut short = frame(&neighbor(1, 0));
    short.truncate(20);
    agent.receive(seconds(2), &short);
    assert_eq!(agent.last_error(), Some((seconds(2), LldpError::Truncated { kind: 1 })));
    let own = agent.poll(seconds(3)).frames.remove(0);
    agent.receive(seconds(3), &own);
    assert_eq!(agent.neighbors().cloned().collect::<Vec<_>>(), before);
    let counters = agent.counters();
    assert_eq!((counters.rx_frames, counters.rx_malformed_frames, counters.rx_own_frames), (3, 1, 1));
}

/// In a frame that is otherwise good, TLVs of reserved types and malformed ones of 802.1 are
/// counted, each of them, and the last error is shown.
#[test]
fn reserved_and_malformed_tlvs_are_counted() {
    let mut agent = agent(|_| {});
    let mut lldpdu = neighbor(1, 120);
    let vlan = OrgTlv { oui: OUI_802_1, subtype: 1, value: vec![0] };
    lldpdu.organization = vec![vlan.clone(), vlan];
    let mut bytes = frame(&lldpdu);
    let after_ttl = 14 + 9 + 7 + 4;
    bytes.splice(after_ttl..after_ttl, [9 << 1, 0, 126 << 1, 0, 10 << 1, 0]);
    for round in 1..=2 {
        agent.receive(seconds(round), &bytes);
        let counters = agent.counters();
        let tlvs = (counters.rx_unrecognized_tlvs, counters.rx_malformed_tlvs);
        assert_eq!((counters.rx_frames, tlvs), (round, (3 * round, 2 * round)));
    }
    assert_eq!((agent.neighbors().count(), agent.counters().neighbors_added), (1, 1));
    let error = LldpError::OrgLength { oui: OUI_802_1, subtype: 1, len: 1 };
    assert_eq!(agent.last_error(), Some((seconds(2), error)));
}

#[test]
fn events_that_nobody_takes_are_bounded() {
    let mut agent = agent(|_| {});
    for round in 0..100 {
        agent.receive(seconds(1), &frame(&neighbor(1, 120)));
        agent.receive(seconds(1), &frame(&neighbor(1, 0)));
        assert_eq!(agent.take_events().len(), 2, "round {round}");
    }
    for _ in 0..100 {
        agent.receive(seconds(1), &frame(&neighbor(1, 120)));
        agent.receive(seconds(1), &frame(&neighbor(1, 0)));
    }
    assert_eq!(agent.take_events().len(), 64);
    assert_eq!(agent.counters().events_lost, 136);
}

/// Every TLV can be left out.
#[test]
fn tlvs_are_selected() {
    let mut agent = agent(|it| {
        let tlvs = &mut it.lldp.tlvs;
        tlvs.port_description = false;
        tlvs.system_name = false;
        tlvs.system_description = false;
        tlvs.capabilities = false;
        tlvs.management = false;
        tlvs.port_vlan = false;
        tlvs.max_frame_size = false;
        tlvs.link_aggregation = false;
    });
    let sent = decode(&agent.poll(seconds(1)).frames[0]).unwrap().1;
    let system = settings(1, None).system;
    assert_eq!(sent, Lldpdu::new(system.chassis, system.port, 121));
}

proptest! {
    /// Random settings, frames and polls: no more than credit allows is sent, deadlines advance,
    /// and the table stays bounded.
    #[test]
    fn whatever_happens_is_bounded(
        steps in prop::collection::vec((0..3000_u64, 0..6_u8, 0..6_u8, prop_oneof![Just(0_u16), 1..10_u16]), 1..200),
        credit_max in 1..10_u8,
        max_neighbors in 1..4_usize,
    ) {
        let mut agent = agent(|it| (it.lldp.credit_max, it.lldp.max_neighbors) = (credit_max, max_neighbors));
        let (mut now, mut frames) = (seconds(1), Vec::new());
        let mut next = None;
        for (millis, action, number, ttl_s) in steps {
            let until = now + Duration::from_millis(millis);
            while let Some(due) = next.filter(|due| *due <= until) {
                now = due;
                let polled = agent.poll(now);
                frames.extend(polled.frames.iter().map(|_| now));
                prop_assert!(polled.next.is_none_or(|next| next > now));
                next = polled.next;
            }
            now = until;
            match action {
                0..=3 => agent.receive(now, &frame(&neighbor(number, ttl_s))),
                4 => agent.receive(now, &frame(&neighbor(number, ttl_s))[..20 + usize::from(number)]),
                _ => {
                    let mut changed = settings(1, None);
                    changed.lldp.credit_max = credit_max;
                    changed.lldp.max_neighbors = max_neighbors;
                    changed.system.port_description = format!("{ttl_s}");
                    agent.configure(now, changed);
                }
            }
            let polled = agent.poll(now);
            frames.extend(polled.frames.iter().map(|_| now));
            prop_assert!(polled.next.is_none_or(|next| next > now));
            next = polled.next;
            prop_assert!(agent.neighbors().count() <= max_neighbors);
            prop_assert!(agent.neighbors().all(|it| it.expires > now));
        }
        for (index, first) in frames.iter().enumerate() {
            let in_a_second = frames[index..].iter().take_while(|it| **it < *first + seconds(1)).count();
            prop_assert!(in_a_second <= usize::from(credit_max) + 1, "{in_a_second} frames from {first:?} on");
        }
    }
}

/// Frames are counted, and TLVs that a frame has no room for.
#[test]
fn frames_and_omitted_tlvs_are_counted() {
    let mut agent = agent(|_| {});
    assert_eq!(sent(&mut agent, seconds(1), seconds(100)).len(), 4);
    assert_eq!((agent.counters().tx_frames, agent.counters().tx_omitted_tlvs), (4, 0));

    let mut settings = settings(1, None);
    let address = ManagementAddress {
        family: 1,
        address: vec![10, 0, 0, 1],
        interface_subtype: 1,
        interface: 0,
        oid: Vec::new(),
    };
    settings.system.management = vec![address; 256];
    agent.configure(seconds(100), settings);
    let frames = sent(&mut agent, seconds(100), seconds(200)).len() as u64;
    let omitted = agent.advertised().encode(MacAddr([2, 0, 0, 0, 0, 1])).omitted_tlvs;
    assert!(omitted > 0, "all of it fits");
    assert_eq!(agent.counters().tx_frames, 4 + frames);
    assert_eq!(agent.counters().tx_omitted_tlvs, frames * u64::from(omitted));
}

/// What a host says of itself: a station, by its address, with PFC and without ETS shares.
#[test]
fn a_host_is_a_station_that_wants_pfc() {
    let mac = MacAddr([2, 0, 0, 0, 0, 7]);
    let pfc = PfcSettings { willing: true, no_drop: 1 << 3, ..PfcSettings::default() };
    let settings = AgentSettings::host("server", mac, "eth0", pfc);
    let mut agent = Agent::new(settings);
    agent.set_link(seconds(1), true);
    let frames = agent.poll(seconds(1)).frames;
    let (_, lldpdu) = decode(&frames[0]).unwrap();
    assert_eq!(lldpdu.port, PortId::mac(mac));
    assert_eq!(lldpdu.capabilities.map(|it| it.enabled), Some(Capabilities::STATION));
    let description = lldpdu.system_description.unwrap_or_default();
    assert!(description.starts_with("Sluice host "), "{description}");
    let ieee = Ieee::decode(&lldpdu.organization).unwrap().unwrap();
    let advertised = ieee.pfc.unwrap();
    assert_eq!((advertised.willing, advertised.enabled), (true, 1 << 3));
    assert_eq!(ieee.ets_configuration, None);
}

/// The groups that every version of DCBX can express.
#[test]
fn groups_and_shares_are_checked() {
    let ets = |group_of_priority, percent| Ets { group_of_priority, percent };
    let halves = [50, 50, 0, 0, 0, 0, 0, 0];
    let eight = [13, 13, 13, 13, 12, 12, 12, 12];
    for (ets, expected) in [
        (Ets::SINGLE_GROUP, Ok(())),
        (Ets::STRICT, Ok(())),
        (ets([0, 0, 0, 7, 0, 0, 15, 15], [50, 0, 0, 0, 0, 0, 0, 50]), Ok(())),
        (ets([0, 0, 0, 8, 0, 0, 0, 0], halves), Err(EtsError::Group(8))),
        (ets([0, 0, 0, 14, 0, 0, 0, 0], halves), Err(EtsError::Group(14))),
        (ets([0, 0, 0, 16, 0, 0, 0, 0], halves), Err(EtsError::Group(16))),
        (ets([0, 1, 0, 0, 0, 0, 0, 0], [50, 49, 0, 0, 0, 0, 0, 0]), Err(EtsError::Shares(99))),
        (ets([15; 8], halves), Err(EtsError::Shares(100))),
        (ets([0, 1, 2, 3, 4, 5, 6, 7], eight), Ok(())),
        (ets([15, 1, 2, 3, 4, 5, 6, 7], eight), Err(EtsError::NoStrictClass)),
    ] {
        assert_eq!(ets.check(), expected, "{ets:?}");
    }
    let text = [EtsError::Group(8), EtsError::Shares(99), EtsError::NoStrictClass].map(|it| it.to_string());
    assert_eq!(text[0], "group 8 does not exist: use 0-7, or 15 for strict priority");
    assert_eq!(text[1], "the shares add up to 99 %, not 100 %");
    assert!(text[2].starts_with("strict priority needs a traffic class of its own"), "{}", text[2]);
}

/// The priority of an application is that of its selector and protocol, the highest of several.
#[test]
fn the_priority_of_an_application() {
    let application = |selector, protocol, priority| Application { selector, protocol, priority };
    let applications = vec![
        application(Selector::Port, 4791, 3),
        application(Selector::Port, 4791, 5),
        application(Selector::Ethertype, 4791, 6),
        application(Selector::Port, 80, 7),
    ];
    let agreed = Operational { no_drop: 0, ets: None, applications };
    assert_eq!(agreed.priority_of(Selector::Port, 4791), Some(5));
    assert_eq!(agreed.priority_of(Selector::Ethertype, 4791), Some(6));
    assert_eq!(agreed.priority_of(Selector::Ethertype, 80), None);
}
