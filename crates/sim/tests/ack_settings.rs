//! Settings of congestion control by acknowledgments, and of retransmission: what they set, and
//! what is refused.

mod common;

use endpoint::dctcp::DctcpSettings;
use endpoint::hpcc::HpccSettings;
use endpoint::swift::SwiftSettings;
use endpoint::timely::TimelySettings;
use sim::scenario::{AckSettings, Retransmission, Scenario, TransportSettings, parse};

/// A traffic of priority 3 with these lines, and these at the head of the file.
fn text(head: &str, lines: &str) -> String {
    format!(
        "duration = \"1ms\"\n{head}[switch.s]\nconfig = \"10g.toml\"\n[host.\"h[1-2]\"]\n[[link]]\n\
         ends = [\"h[1-2]\", \"s.p[1-2]\"]\n[[traffic]]\nname = \"t\"\nfrom = \"h1\"\nto = \"h2\"\npriority = 3\n\
         {lines}\n"
    )
}

fn read(head: &str, lines: &str) -> Result<Scenario, String> {
    parse("x.toml", &text(head, lines), &mut common::load)
        .map_err(|mistakes| mistakes.iter().map(|mistake| format!("{mistake}\n")).collect())
}

fn acks(lines: &str) -> Option<AckSettings> {
    read("", lines).unwrap_or_else(|mistakes| panic!("{mistakes}")).traffic[0].acks
}

const DEFAULT: AckSettings = AckSettings {
    priority: 3,
    dscp: 24,
    retransmission: Retransmission::Selective,
    timeout_ns: 1_000_000,
    transport: None,
};

#[test]
fn frames_are_acknowledged_if_something_needs_it() {
    assert_eq!(acks(""), None);
    assert_eq!(acks("swift = false"), None);
    assert_eq!(acks("retransmission = \"selective\""), Some(DEFAULT));
    let other =
        "retransmission = \"go-back-n\"\nretransmission_timeout = \"20us\"\nack_priority = 6\ndscp = 30";
    let expected = AckSettings {
        priority: 6,
        dscp: 48,
        retransmission: Retransmission::GoBackN,
        timeout_ns: 20_000,
        ..DEFAULT
    };
    assert_eq!(acks(other), Some(expected));
    assert_eq!(acks("dcqcn = true\nretransmission = \"selective\""), Some(DEFAULT), "RoCE");
}

#[test]
fn a_rule_has_its_parameters() {
    let with = |transport| Some(AckSettings { transport: Some(transport), ..DEFAULT });
    assert_eq!(acks("dctcp = true"), with(TransportSettings::Dctcp(DctcpSettings::PAPER)));
    let dctcp = DctcpSettings { gain: 0.5, initial_frames: 2 };
    assert_eq!(acks("dctcp = { gain = 0.5, initial_frames = 2 }"), with(TransportSettings::Dctcp(dctcp)));
    assert!(
        read("", "dctcp = true").expect("right").traffic[0].ecn
            && !read("", "swift = true").expect("right").traffic[0].ecn
    );
    let timely =
        TimelySettings { low_ns: 10_000, additive_bps: 5e6, segment_bytes: 64_000, ..TimelySettings::PAPER };
    let table = "timely = { low = \"10us\", additive = \"5M\", segment = 64000 }";
    assert_eq!(acks(table), with(TransportSettings::Timely(timely)));
    let swift =
        SwiftSettings { base_target_ns: 5_000, scaling_range_ns: 0, beta: 0.5, ..SwiftSettings::DEFAULT };
    let table = "swift = { base_target = \"5us\", scaling_range = \"0s\", beta = 0.5 }";
    assert_eq!(acks(table), with(TransportSettings::Swift(swift)));
    let hpcc = HpccSettings { eta: 0.9, max_stage: 0, additive_bytes: 40.0, base_rtt_ns: 9_000 };
    let table = "hpcc = { eta = 0.9, max_stage = 0, additive = 40, base_rtt = \"9us\" }";
    assert_eq!(acks(table), with(TransportSettings::Hpcc(hpcc)));
}

/// Each is reported at its line, with the cure.
#[test]
fn what_makes_no_sense_is_refused() {
    for (head, lines, expected) in [
        ("", "dcqcn = true\nswift = true", "dcqcn and swift contradict each other"),
        ("", "ecn = false\ndctcp = true", "false, but dctcp slows down by marks"),
        ("", "ack_priority = 6", "the frames of this traffic are not acknowledged"),
        ("", "retransmission_timeout = \"2ms\"", "write retransmission = \"selective\", or leave it out"),
        ("", "dcqcn = true\nack_priority = 6", "the frames of this traffic are not acknowledged"),
        ("", "retransmission = \"none\"", "go-back-n"),
        ("", "swift = { beta = 2 }", "write a number from"),
        ("", "swift = { min_frames = 10, max_frames = 5 }", "the least window is not below the largest"),
        ("", "swift = { scaling_min_frames = 100 }", "the least window is not below the largest"),
        (
            "",
            "swift = { scaling_range = \"0s\", scaling_max_frames = 50 }",
            "has no effect: scaling_range is 0",
        ),
        ("", "timely = { low = \"600us\" }", "low is more than high"),
        ("", "hpcc = { eta = 0 }", "write a number from"),
        (
            "",
            "hpcc = { base_rtt = \"2us\" }",
            "2us is less than the round-trip time of a flow through empty queues",
        ),
        ("", "hpcc = 3", "write true, false, or a table as in { eta = 0.95 }"),
        ("", "dctcp = { g = 0.1 }", "g"),
        ("forwarding = \"learn\"\n", "hpcc = true", "forwarding = \"learn\" floods"),
    ] {
        let mistakes = read(head, lines).expect_err(lines);
        assert!(mistakes.contains(expected), "{lines}: {mistakes}");
    }
}
