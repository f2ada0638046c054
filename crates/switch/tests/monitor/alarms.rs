//! Alarms of a whole switch: each kind and source, enabled and disabled, with its interval.

use switch::monitor::alarm::ALARM_INTERVAL_NS;
use switch::monitor::event::AlarmSource;
use switch::settings::{AlarmKind, QueueSettings, SwitchSettings, Threshold, WredProfile, WredSettings};
use switch::{Event, Instant};

#[path = "../lab/mod.rs"]
mod lab;
use lab::{Frame, Lab, mac, settings};

const SECOND_NS: u64 = 1_000_000_000;
const KINDS: [AlarmKind; 4] = [AlarmKind::Ingress, AlarmKind::Egress, AlarmKind::Headroom, AlarmKind::Drop];

/// Priority 3 of port 0 is no-drop with XOFF at 4 cells and 4 cells of headroom; port 1 is held.
/// All alarms are at 50 %, except the headroom alarm.
fn alarmed(kinds: &[AlarmKind]) -> Lab {
    let mut settings: SwitchSettings = settings(2, 1 << 3, 100, 8);
    for &kind in kinds {
        settings.alarms.interval_ns[kind as usize] = Some(5 * SECOND_NS);
    }
    settings.alarms.ingress_pool_percent[0] = 4;
    for port in &mut settings.ports {
        port.groups[3].xoff = Threshold::Static(4);
        port.groups[3].headroom_cells = 4;
        port.alarms.ingress_percent[3] = 50;
        port.alarms.egress_percent[3] = 5;
        port.queues[3] = lab::queue_of(Threshold::Static(100));
    }
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    lab
}

/// Runs an iteration after `after_ns`, which polls the alarms, and returns the events as text.
fn reported(lab: &mut Lab, after_ns: u64) -> Vec<String> {
    lab.now = lab.now + after_ns.max(ALARM_INTERVAL_NS);
    lab.turn();
    let events = lab.switch.drain_events();
    let alarms = events.filter(|(_, event)| matches!(event, Event::Alarm { .. } | Event::DropAlarm { .. }));
    alarms.map(|(_, event)| event.describe().message).collect()
}

fn arrive(lab: &mut Lab, frames: usize) {
    (0..frames).for_each(|_| lab.arrive(Frame { port: 0, dst: mac(1), priority: 3, len: 64 }));
}

/// Nine frames of a cell each: 4 shared, 4 in headroom, one lost.
#[test]
fn every_kind_reports_its_source_once() {
    let mut lab = alarmed(&KINDS);
    let mut output = String::new();
    let mut after = |what: &str, lab: &mut Lab, after_ns| {
        let reported: String = reported(lab, after_ns).iter().map(|line| format!("  {line}\n")).collect();
        output += &format!("{what}:\n{reported}");
    };
    after("nothing has happened", &mut lab, 0);
    arrive(&mut lab, 9);
    after("9 frames have come", &mut lab, 0);
    arrive(&mut lab, 3);
    after("3 more, a second later", &mut lab, SECOND_NS);
    after("5 seconds later", &mut lab, 5 * SECOND_NS);
    lab.switch.hold(1, false);
    after("the port sends again", &mut lab, 0); // what waits leaves right after this look
    after("a turn later", &mut lab, 0);
    after("a minute later", &mut lab, 60 * SECOND_NS);
    insta::assert_snapshot!(output);
}

/// Each kind alone reports only its own sources, and with all of them disabled nothing is reported.
/// Crossings of headroom are counted.
#[test]
fn a_kind_that_is_off_reports_nothing() {
    for kind in KINDS {
        let mut lab = alarmed(&[kind]);
        arrive(&mut lab, 9);
        lab.now = lab.now + ALARM_INTERVAL_NS;
        lab.turn();
        let events: Vec<_> = lab.switch.drain_events().map(|(_, event)| event).collect();
        let mut seen = 0;
        for event in events {
            let expected = match event {
                Event::Alarm {
                    source: AlarmSource::Port { kind, .. } | AlarmSource::Pool { kind, .. },
                    ..
                } => kind,
                Event::DropAlarm { .. } => AlarmKind::Drop,
                _ => continue,
            };
            assert_eq!(kind, expected, "{event:?}");
            seen += 1;
        }
        assert!(seen > 0, "{kind:?}");
    }
    let mut lab = alarmed(&[]);
    arrive(&mut lab, 9);
    assert_eq!(reported(&mut lab, 60 * SECOND_NS), [""; 0]);
    assert_eq!(lab.snapshot().ports[0].groups[3].headroom_violations, 1, "row 272");
}

/// A crossing between two polls, however short, is not missed. A reload that enables alarms reports
/// nothing that happened before it.
#[test]
fn a_short_crossing_is_reported_and_the_past_is_not() {
    let mut lab = alarmed(&[AlarmKind::Ingress]);
    lab.switch.hold(1, false);
    reported(&mut lab, 0);
    arrive(&mut lab, 3);
    (0..3).for_each(|_| lab.turn()); // they are gone again, microseconds later
    assert_eq!(lab.switch.frames_held(), 0);
    assert_eq!(
        reported(&mut lab, 0),
        ["priority 3 at ingress: usage reached 50 % of the limit: 3 of 4 cells"]
    );

    let mut lab = alarmed(&[]);
    arrive(&mut lab, 12);
    let mut settings = lab.switch.settings().clone();
    settings.alarms.interval_ns = [Some(SECOND_NS); 4];
    lab.switch.apply(&settings, lab.now);
    assert_eq!(reported(&mut lab, SECOND_NS), [""; 0], "what was dropped and crossed before");
    arrive(&mut lab, 1);
    assert_eq!(reported(&mut lab, SECOND_NS), ["priority 3 at ingress: 1 frames were dropped"]);
}

/// A reload that raises the thresholds of all ports from 50 to 80 % and changes nothing else: 3 of
/// 4 cells are an alarm no more.
#[test]
fn thresholds_of_ports_are_read_again() {
    let mut lab = alarmed(&[AlarmKind::Ingress]);
    let mut settings = lab.switch.settings().clone();
    settings.ports.iter_mut().for_each(|port| port.alarms.ingress_percent[3] = 80);
    lab.switch.apply(&settings, lab.now);
    reported(&mut lab, 0);
    arrive(&mut lab, 3);
    assert_eq!(reported(&mut lab, 0), [""; 0]);
    arrive(&mut lab, 1);
    let expected = "priority 3 at ingress: usage reached 80 % of the limit: 4 of 4 cells";
    assert_eq!(reported(&mut lab, 0)[0], expected);
}

/// An event has the time of the poll, at most [`ALARM_INTERVAL_NS`] after its cause.
#[test]
fn an_alarm_is_reported_within_ten_milliseconds() {
    let mut lab = alarmed(&KINDS);
    lab.turn();
    lab.switch.drain_events().for_each(drop);
    let cause = lab.now;
    arrive(&mut lab, 3);
    let mut at: Option<Instant> = None;
    while at.is_none() {
        lab.turn();
        at = lab
            .switch
            .drain_events()
            .find(|(_, event)| matches!(event, Event::Alarm { .. }))
            .map(|(at, _)| at);
        assert!(lab.now.since(cause) <= ALARM_INTERVAL_NS + 2_000, "nothing was reported");
    }
}

/// Frames are lost every ten milliseconds for half a minute: an event comes every 5 s, each with
/// all frames lost since the last one.
#[test]
fn what_goes_on_is_reported_every_five_seconds() {
    let mut lab = alarmed(&KINDS);
    arrive(&mut lab, 8); // whatever fits
    let began = lab.now;
    let mut reported = Vec::new();
    let mut lost = 0;
    while lab.now.since(began) < 30 * SECOND_NS {
        arrive(&mut lab, 1);
        lab.now = lab.now + ALARM_INTERVAL_NS;
        lab.turn();
        for (at, event) in lab.switch.drain_events() {
            if let Event::DropAlarm { dropped, .. } = event {
                reported.push(at);
                lost += dropped.frames;
            }
        }
    }
    assert_eq!(reported.len(), 6, "{reported:?}");
    for pair in reported.windows(2) {
        let between = pair[1].since(pair[0]);
        assert!((5 * SECOND_NS..=5 * SECOND_NS + ALARM_INTERVAL_NS).contains(&between), "{between} ns");
    }
    // The last poll was at most 5 s ago: one frame is lost each LOOK_NS.
    let all = 30 * SECOND_NS / ALARM_INTERVAL_NS;
    assert!(lost <= all && lost >= all - 5 * SECOND_NS / ALARM_INTERVAL_NS, "{lost} of {all}");
}

/// A crossing is reported when the alarms are polled next, and not before.
#[test]
fn alarms_are_polled_every_ten_milliseconds() {
    let mut lab = alarmed(&KINDS);
    reported(&mut lab, 0);
    arrive(&mut lab, 9);
    let mut after_ns = |nanos| {
        lab.now = lab.now + nanos;
        lab.switch.tick(lab.now, &mut lab.memory);
        lab.switch.drain_events().filter(|(_, event)| matches!(event, Event::Alarm { .. })).count()
    };
    assert_eq!([after_ns(1), after_ns(ALARM_INTERVAL_NS - 2)], [0, 0]);
    assert!(after_ns(1) > 0);
}

/// Frames that a queue, or its WRED, dropped are reported for that queue.
#[test]
fn drops_at_a_queue_are_an_alarm() {
    let sharp = WredProfile { low_cells: 1, high_cells: 1, probability_percent: 100 };
    let wred = Some(WredSettings { exponent: 0, curves: [sharp; 3], ..WredSettings::default() });
    for (shared, wred) in [(1, None), (100, wred)] {
        drops_are_reported(QueueSettings { wred, ..lab::queue_of(Threshold::Static(shared)) });
    }
}

/// Of three frames two find no room in such a queue.
fn drops_are_reported(queue: QueueSettings) {
    let mut settings = settings(2, 0, 100, 0);
    settings.alarms.interval_ns[AlarmKind::Drop as usize] = Some(5 * SECOND_NS);
    settings.ports[0].classify.dot1p_to_queue[3] = 6;
    settings.ports[1].queues[6] = queue;
    let mut lab = Lab::new(&settings);
    lab.switch.hold(1, true);
    reported(&mut lab, 0);
    arrive(&mut lab, 3);
    lab.now = lab.now + ALARM_INTERVAL_NS;
    lab.switch.tick(lab.now, &mut lab.memory);
    let dropped = lab.switch.drain_events().find_map(|(_, event)| match event {
        Event::DropAlarm { source, dropped } => Some((source, dropped.frames)),
        _ => None,
    });
    let (source, frames) = dropped.expect("an alarm");
    assert!(
        matches!(source, AlarmSource::Port { port: 1, kind: AlarmKind::Egress, number: 6 }),
        "{source:?}"
    );
    assert_eq!(frames, 2);
}
