//! WRED tables, queue profiles, scheduling and rates, and the settings that result.

use config::Config;
use dcbx::settings::Ets;
use switch::PortSettings;
use switch::settings::{
    DEFAULT_WEIGHTS, EcnMarkPoint, GroupDiscipline, Rate, ScheduleSettings, SchedulerGroup, WredProfile,
    WredSettings,
};
use wire::dcbx::ieee::{Application, Selector};

#[track_caller]
fn parse(text: &str) -> Config {
    config::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[track_caller]
fn port(text: &str) -> PortSettings {
    parse(&format!("[port.a]\ninterface = \"veth0\"\n{text}")).switch.ports[0].clone()
}

fn curve(low_cells: u32, high_cells: u32, probability_percent: u8) -> WredProfile {
    WredProfile { low_cells, high_cells, probability_percent }
}

fn rate(bps: u64, burst_bytes: Option<u64>) -> Option<Rate> {
    Some(Rate { bps, burst_bytes })
}

/// Every setting of congestion, none at its default.
#[test]
fn a_file_with_everything() {
    let config = parse(
        r#"
        [buffer]
        cell_bytes = 208
        [wred.early.queue.3]
        weighting_exponent = 12
        ecn = true
        mark = "dequeue"
        drop_not_ect = true
        green = { low_cells = 10, high_cells = 20, probability_percent = 30 }
        yellow = { low_bytes = 208, high_bytes = 209, probability_percent = 0 }
        red = { low_bytes = 0, high_cells = 0, probability_percent = 100 }
        [wred.early.queue.7]
        green.low_cells = 1000
        red = { high_cells = 100 }
        [queue-profile.mark]
        action = "ecn"
        weighting_exponent = 3
        green = { min_threshold_bytes = 2000, max_threshold_cells = 50, probability_percent = 5 }
        yellow = { min_threshold_cells = 6, max_threshold_bytes = 2081 }
        [queue-profile.drop]
        action = "wred"
        [port.sp]
        interface = "veth0"
        speed = "10G"
        burst_bytes = 20000
        wire_overhead = false
        pfc = { mode = "on", no_drop = [3] }
        wred = "early"
        queue_profile = { mark = [0, 1], drop = [2] }
        [port.sp.schedule]
        mode = "sp-wrr"
        wrr = "packet-count"
        queue.5 = { group = "sp", rate = "2.5G", burst_bytes = 3000 }
        queue.0 = { group = "wrr2", weight = 7 }
        queue.1 = { group = "wrr1", weight = 255, rate = 1000000 }
        queue.2 = { group = "wrr", weight = 1 }
        [port.ets]
        interface = "veth1"
        wire_overhead = true
        [port.ets.schedule]
        mode = "ets"
        wrr = "packet-count"
        queue.2 = { weight = 9, rate = "1G" }
        group.15 = { queues = [7], scheduling = "wrr" }
        group.9 = { queues = [0, 1, 2], bandwidth_percent = 70, scheduling = "wrr", rate = "5G", burst_bytes = 0 }
        group.10 = { queues = [6, 3, 5, 4], bandwidth_percent = 30, scheduling = "sp" }
        "#,
    );
    let [sp, ets] = &config.switch.ports[..] else { panic!("two ports") };

    let mut expected = PortSettings::new("sp", Some(10_000_000_000));
    (expected.pfc, expected.groups) = (sp.pfc, sp.groups); // not of congestion
    (expected.burst_bytes, expected.overhead_bytes) = (Some(20_000), 0);
    expected.lldp = sp.lldp;
    let early = WredSettings {
        exponent: 12,
        ecn: true,
        mark_at: EcnMarkPoint::Dequeue,
        drop_not_ect: true,
        curves: [curve(10, 20, 30), curve(1, 2, 0), curve(0, 0, 100)],
    };
    let defaults = WredSettings::default();
    let late = WredSettings {
        curves: [curve(1000, 1000, 10), curve(100, 1000, 10), curve(100, 100, 10)],
        ..defaults
    };
    let all = curve(0, 154_127, 100); // 32058368 bytes of 208
    let mark = WredSettings {
        exponent: 3,
        ecn: true,
        curves: [curve(10, 50, 5), curve(6, 11, 100), all],
        ..defaults
    };
    let drop = WredSettings { exponent: 0, curves: [all; 3], ..defaults };
    // Queues that the table does not write have the default values.
    let all =
        [(0, mark), (1, mark), (2, drop), (3, early), (4, defaults), (5, defaults), (6, defaults), (7, late)];
    for (q, wred) in all {
        expected.queues[q].wred = Some(wred);
    }
    expected.queues[5].rate = rate(2_500_000_000, Some(3000));
    expected.queues[1].rate = rate(1_000_000, None);
    let weights = [7, 255, 1, 4, 5, 9, 13, 15];
    expected.schedule =
        ScheduleSettings::sp_wrr(0b10_0000, 0b1101_1110, 0b1, GroupDiscipline::WeightedByFrames(weights));
    assert_eq!(*sp, expected);

    let weighted = GroupDiscipline::WeightedByFrames([1, 1, 9, 1, 1, 1, 1, 1]);
    let groups = vec![
        SchedulerGroup {
            rate: rate(5_000_000_000, Some(0)),
            ..SchedulerGroup::new("pg9", 1, 70, weighted).of(0b111)
        },
        SchedulerGroup::new("pg10", 1, 30, GroupDiscipline::Strict).of(0b111_1000),
        SchedulerGroup::new("pg15", 0, 1, weighted).of(0b1000_0000),
    ];
    assert_eq!(ets.schedule, ScheduleSettings { groups });
    assert_eq!((ets.overhead_bytes, ets.queues[2].rate), (24, rate(1_000_000_000, None)));
}

/// docs/references.md, "Inspur white paper" (5.3 and 6): profileA with a green line of 1000 to 5000
/// bytes on queues 0-4, and AZURE_LOSSLESS.
#[test]
fn the_queue_profiles_of_the_vendor_specifications() {
    let config = parse(
        r#"
        [queue-profile.profileA]
        action = "ecn"
        green = { min_threshold_bytes = 1000, max_threshold_bytes = 5000, probability_percent = 100 }
        [queue-profile.AZURE_LOSSLESS]
        action = "ecn"
        green = { min_threshold_bytes = 104000, max_threshold_bytes = 312000, probability_percent = 100 }
        yellow = { min_threshold_bytes = 104000, max_threshold_bytes = 312000, probability_percent = 100 }
        red = { min_threshold_bytes = 104000, max_threshold_bytes = 312000, probability_percent = 100 }
        [port.Ethernet1]
        interface = "veth0"
        queue_profile = { profileA = [0, 1, 2, 3, 4], AZURE_LOSSLESS = [6] }
        "#,
    );
    let all = curve(0, 125_228, 100); // 32058368 bytes, to the cell
    let instant = WredSettings { exponent: 0, ecn: true, ..WredSettings::default() };
    let a = Some(WredSettings { curves: [curve(4, 20, 100), all, all], ..instant });
    let azure = Some(WredSettings { curves: [curve(407, 1219, 100); 3], ..instant });
    let wred = config.switch.ports[0].queues.map(|queue| queue.wred);
    assert_eq!(wred, [a, a, a, a, a, None, azure, None]);
}

/// A port's own bindings win: queue by queue for profiles, all together for tables.
#[test]
fn a_ports_own_wred_wins() {
    let config = parse(
        r#"
        [wred.ten]
        queue.0 = { weighting_exponent = 10 }
        queue.1 = { weighting_exponent = 10 }
        [wred.eleven]
        queue.0 = { weighting_exponent = 11 }
        queue.3 = { weighting_exponent = 11 }
        [queue-profile.five]
        action = "wred"
        weighting_exponent = 5
        [queue-profile.six]
        action = "wred"
        weighting_exponent = 6
        [queue-profile.off]
        action = "none"
        green.max_threshold_cells = 5
        [queue-profile.unused]
        action = "ecn"
        [port-defaults]
        wred = "ten"
        queue_profile = { five = [2, 3, 4] }
        [port.plain]
        interface = "veth0"
        [port.profiles]
        interface = "veth1"
        queue_profile = { six = [1, 2], off = [4] }
        [port.table]
        interface = "veth2"
        wred = "eleven"
        [port.both]
        interface = "veth3"
        wred = "eleven"
        queue_profile = { off = [], six = [4] }
        "#,
    );
    let exponents =
        config.switch.ports.iter().map(|port| port.queues.map(|queue| Some(queue.wred?.exponent)));
    let expected = [
        [Some(10), Some(10), Some(5), Some(5), Some(5)],
        [Some(10), Some(6), Some(6), Some(5), None],
        [Some(11), Some(9), Some(5), Some(11), Some(5)],
        [Some(11), Some(9), Some(5), Some(11), Some(6)],
    ];
    for (exponents, expected) in exponents.zip(expected) {
        // A table configures all eight queues; those that it does not write have the default
        // exponent.
        assert_eq!((&exponents[..5], &exponents[5..]), (&expected[..], &[Some(9); 3][..]));
    }
}

/// Row 209: a WRED table configures all eight queues, and a queue that it does not write has the
/// default values. A profile for such a queue excludes it from the table again. Without a table
/// there is tail drop only.
#[test]
fn a_wred_table_has_all_eight_queues() {
    let config = parse(
        r#"
        [wred.plain]
        [wred.five]
        queue.5 = { ecn = true, weighting_exponent = 12 }
        [queue-profile.tail]
        action = "none"
        [port.none]
        interface = "veth0"
        [port.plain]
        interface = "veth1"
        wred = "plain"
        pfc = { mode = "on", no_drop = [3] }
        [port.five]
        interface = "veth2"
        wred = "five"
        queue_profile = { tail = [0] }
        "#,
    );
    let defaults = Some(WredSettings::default());
    let wred = |port: usize| config.switch.ports[port].queues.map(|queue| queue.wred);
    assert_eq!((wred(0), wred(1)), ([None; 8], [defaults; 8]));
    let five = Some(WredSettings { ecn: true, exponent: 12, ..WredSettings::default() });
    assert_eq!(wred(2), [None, defaults, defaults, defaults, defaults, five, defaults, defaults]);
    assert_eq!(WredSettings::default().curves, [curve(100, 1000, 10); 3]);
}

/// Row 223: classifiers and policies with names and descriptions, bound by name; the same rules
/// written inline give the same result.
#[test]
fn named_policies() {
    let text = r#"
        [classifier.roce]
        description = "RDMA and what answers it"
        operator = "or"
        dot1p = [5, 6]
        [classifier.rest]
        operator = "and"
        dot1p = [0]
        [policy.rdma]
        description = "As for Device A"
        rules = [{ classifier = "roce", local_precedence = 3 }, { classifier = "rest", local_precedence = 1 }]
        [port-defaults]
        policy = "rdma"
        [port.a]
        interface = "veth0"
        [port.b]
        interface = "veth1"
        policy = [{ dot1p = 5, local_precedence = 3 }, { dot1p = 6, local_precedence = 3 }, { dot1p = 0, local_precedence = 1 }]
        [port.c]
        interface = "veth2"
        policy = []
        "#;
    let policies: Vec<_> = parse(text).switch.ports.iter().map(|port| port.classify.policy).collect();
    let rdma = [Some(1), None, None, None, None, Some(3), Some(3), None];
    assert_eq!(policies, [rdma, rdma, [None; 8]]);
    for (right, wrong, message) in [
        (
            "operator = \"or\"",
            "operator = \"and\"",
            "classifier.roce.operator: no frame has 2 priorities at once; write operator = \"or\", which is the default",
        ),
        (
            "dot1p = [0]",
            "dot1p = [0, 5]",
            "policy.rdma.rules.classifier: dot1p 5 is matched by roce already; leave it out of one of the two classifiers",
        ),
        (
            "policy = \"rdma\"",
            "policy = \"rmda\"",
            "port-defaults.policy: there is no policy \"rmda\"; did you mean \"rdma\"?",
        ),
        (
            "classifier = \"rest\"",
            "classifier = \"best\"",
            "policy.rdma.rules.classifier: there is no classifier \"best\"; did you mean \"rest\"?",
        ),
        (
            "dot1p = [0]",
            "",
            "classifier.rest: no dot1p; write dot1p = [3, 4], the priorities that it matches",
        ),
        (
            "As for Device A",
            &"x".repeat(128),
            "policy.rdma.description: 128 characters are too many; a description has at most 127",
        ),
    ] {
        let mistakes = config::parse("x.toml", &text.replacen(right, wrong, 1)).unwrap_err().to_string();
        assert!(mistakes.contains(message), "{mistakes}");
    }
}

/// Row 226: rules that are marked for DCBX.
const MARKED: &str = r#"
    [classifier.roce]
    dot1p = [5, 6]
    [classifier.rest]
    dot1p = [0]
    [classifier.rdma]
    udp = [4791, 4792]
    ethertype = [0x8915]
    [classifier.storage]
    tcp = [3260]
    dscp = [26]
    [policy.lab]
    rules = [
      { classifier = "roce", local_precedence = 3, mode = "dcbx" },
      { classifier = "rest", local_precedence = 1 },
      { classifier = "rdma", priority = 5, mode = "dcbx" },
      { classifier = "storage", priority = 4, mode = "dcbx", insert_before = "rdma" },
    ]
    [port-defaults]
    policy = "lab"
    pfc = { mode = "auto", no_drop = [5] }
    schedule = { mode = "ets" }
    [port.a]
    interface = "veth0"
    dcbx = { applications = [{ udp = 4791, priority = 3 }] }
    "#;

/// The port's own list comes first and wins; a rule inserted before another one comes before
/// it. Priorities 5 and 6 are advertised in the group of queue 3, as their frames are in it; the
/// rule that is not marked changes no group.
#[test]
fn rules_of_a_policy_for_dcbx() {
    let config = parse(MARKED);
    let port = &config.switch.ports[0];
    assert_eq!(port.classify.policy, [Some(1), None, None, None, None, Some(3), Some(3), None]);
    let settings = &config.dcbx[0].as_ref().unwrap().settings;
    let application = |selector, protocol, priority| Application { selector, protocol, priority };
    let expected = [
        application(Selector::UdpPort, 4791, 3),
        application(Selector::TcpPort, 3260, 4),
        application(Selector::Dscp, 26, 4),
        application(Selector::Ethertype, 0x8915, 5),
        application(Selector::UdpPort, 4792, 5),
    ];
    assert_eq!(settings.applications.entries, expected);
    assert_eq!(settings.ets.unwrap().ets.to_string(), "0,1,2,4:50% 3,5,6:50% 7:strict");
    let unmarked = MARKED.replace("local_precedence = 3, mode = \"dcbx\"", "local_precedence = 3");
    let settings = &parse(&unmarked).dcbx[0].as_ref().unwrap().settings.clone();
    assert_eq!(settings.ets.unwrap().ets.to_string(), "0,1,2,4,5:50% 3:50% 6,7:strict");
}

/// Groups that are taken over are those of the queues that the marked rules select.
#[test]
fn groups_taken_over_follow_the_rules_for_dcbx() {
    let config = parse(&MARKED.replace("dcbx = {", "dcbx = { willing = true,"));
    let mut ets = Ets::SINGLE_GROUP;
    (ets.group_of_priority[5], ets.group_of_priority[6], ets.group_of_priority[3]) = (1, 1, 1);
    ets.percent = [30, 70, 0, 0, 0, 0, 0, 0];
    let negotiated = config::Negotiated { ets: Some(ets), ..config::Negotiated::default() };
    let port = config.dcbx[0].as_ref().unwrap().apply(&config.switch.ports[0], Some(&negotiated));
    let groups: Vec<_> = port.schedule.groups.iter().map(|it| (it.queues, it.weight)).collect();
    assert_eq!(groups, [(0b1111_0111, 30), (0b1000, 70)]);
}

/// A willing port whose schedule is strict priority advertises a single group, and gets it if the
/// peer recommends just that. Groups of its own stay as the file has them, and their rates stay
/// with their numbers.
#[test]
fn groups_taken_over_with_what_the_file_has() {
    let port = |schedule: &str, ets: Ets| {
        let text = format!(
            "[port.a]\ninterface = \"veth0\"\nspeed = \"10G\"\ndcbx = {{ willing = true }}\n[port.a.schedule]\n{schedule}"
        );
        let config = parse(&text);
        let negotiated = config::Negotiated { ets: Some(ets), ..config::Negotiated::default() };
        let file = config.switch.ports[0].clone();
        (config.dcbx[0].as_ref().unwrap().apply(&file, Some(&negotiated)).schedule, file.schedule)
    };
    let (applied, _) = port("mode = \"sp-wrr\"\n", Ets::SINGLE_GROUP);
    let groups: Vec<_> = applied.groups.iter().map(|it| (it.name.as_str(), it.queues)).collect();
    assert_eq!(groups, [("pg0", 0xff)]);
    let own = "mode = \"ets\"\n[port.a.schedule.group.0]\nqueues = [0, 1, 2, 4, 5, 6, 7]\nbandwidth_percent = 40\n\
               rate = \"2G\"\n[port.a.schedule.group.1]\nqueues = [3]\nbandwidth_percent = 60\n";
    let mut same = Ets { group_of_priority: [0; 8], percent: [40, 60, 0, 0, 0, 0, 0, 0] };
    same.group_of_priority[3] = 1;
    let (applied, file) = port(own, same);
    assert_eq!(applied, file);
    let (applied, _) = port(own, Ets { percent: [70, 30, 0, 0, 0, 0, 0, 0], ..same });
    let groups: Vec<_> = applied.groups.iter().map(|it| (it.weight, it.rate)).collect();
    assert_eq!(groups, [(70, rate(2_000_000_000, None)), (30, None)]);
}

#[test]
fn wrong_rules_for_dcbx() {
    for (right, wrong, message) in [
        (
            "dot1p = [5, 6]",
            "dot1p = [5, 6]\nudp = [1]",
            "classifier.roce: a classifier matches priorities or applications, not both; make it two classifiers",
        ),
        (
            "tcp = [3260]",
            "tcp = [3260]\noperator = \"and\"",
            "classifier.storage.operator: no frame has 2 protocols at once",
        ),
        ("tcp = [3260]", "tcp = [0]", "classifier.storage.tcp: the number 0 is out of range"),
        (
            "priority = 5, mode = \"dcbx\"",
            "priority = 5",
            "policy.lab.rules: the switch does not classify by applications: DCBX advertises their priorities; write mode \
             = \"dcbx\" in this rule",
        ),
        (
            "priority = 5, mode",
            "local_precedence = 5, mode",
            "policy.lab.rules.local_precedence: is not for this classifier; write priority = 3, which DCBX advertises",
        ),
        (
            "local_precedence = 1",
            "priority = 1",
            "policy.lab.rules.priority: is not for this classifier; write local_precedence = 3, the queue of such frames",
        ),
        ("priority = 4, mode = \"dcbx\"", "priority = 4, mode = \"qppb\"", "policy.lab.rules.mode: "),
        (
            "insert_before = \"rdma\"",
            "insert_before = \"later\"",
            "policy.lab.rules.insert_before: no rule of the classifier \"later\" is above this one; name the classifier of a \
             rule that is above",
        ),
        (
            "tcp = [3260]",
            "udp = [4792]",
            "policy.lab.rules.classifier: udp 4792 is matched by storage already; leave it out of one of the two",
        ),
        (
            "udp = [4791, 4792]",
            &format!("udp = [{}]", (1..=64).map(|port| port.to_string()).collect::<Vec<_>>().join(", ")),
            "port a has 68 applications, with those of its policy; a frame holds at most 64",
        ),
    ] {
        assert!(MARKED.contains(right), "{right}");
        let mistakes = config::parse("x.toml", &MARKED.replacen(right, wrong, 1)).unwrap_err().to_string();
        assert!(mistakes.contains(message), "{mistakes}");
    }
    let strict = parse(&MARKED.replace("schedule = { mode = \"ets\" }", "")).warnings.to_string();
    assert!(
        strict.contains("port-defaults.policy: rules of the policy mark priorities for DCBX, which advertises them in groups of ETS, and the port has none (port a)"),
        "{strict}"
    );
    let without =
        MARKED.replace("mode = \"auto\"", "mode = \"on\"").replace("dcbx = {", "dcbx = { enabled = false,");
    let warnings = parse(&without).warnings.to_string();
    assert!(
        warnings.contains("port-defaults.policy: rules of the policy are marked for DCBX, and the port does not negotiate (port a)"),
        "{warnings}"
    );
}

/// Rows 278 and 280: Huawei's maps by name; the queues of flooded frames.
#[test]
fn maps_of_huawei() {
    assert_eq!(port("maps = \"huawei\"").classify.dot1p_to_queue, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(port("maps = \"h3c\"").classify, port("").classify);
    let map = "dot1p_to_queue = [7, 6, 5, 4, 3, 2, 1, 0]\n";
    assert_eq!(port(&format!("maps = \"huawei\"\n{map}")).classify, port(map).classify, "a map in full wins");
    let own = parse(
        "[port-defaults]\ndot1p_to_queue = [1, 1, 1, 1, 1, 1, 1, 1]\n[port.a]\ninterface = \"a\"\nmaps = \"huawei\"",
    );
    assert_eq!(own.switch.ports[0].classify.dot1p_to_queue[7], 7, "and a port's own before the defaults'");

    let flooded = "[bridge]\nmulticast_to_queue = [0, 1, 1, 1, 2, 2, 6, 6]\n[port.a]\ninterface = \"a\"\nmaps = \"huawei\"\n\
        pfc = { mode = \"on\", no_drop = [3] }";
    let config = parse(flooded);
    assert_eq!(config.warnings.to_string(), "", "no pause of 3 stops 1, though its multicast is in queue 1");
    assert_eq!(config.switch.bridge.multicast_to_queue, Some(switch::settings::UNKNOWN_UNICAST_TO_QUEUE));
    assert_eq!(config.switch.bridge.unknown_unicast_to_queue, None);
}

/// Values of `schedule`, and the groups that result.
#[test]
fn schedules() {
    let bytes = GroupDiscipline::WeightedByBytes;
    let ets = ScheduleSettings::default_ets();
    let mut weighted_ets = ets.clone();
    weighted_ets.groups[0].inside = bytes([1, 1, 1, 1, 6, 1, 1, 1]);
    weighted_ets.groups[1].inside = weighted_ets.groups[0].inside;
    let strict = vec![SchedulerGroup::new("pg15", 0, 1, GroupDiscipline::Strict).of(0xff)];
    for (text, expected) in [
        ("", ScheduleSettings::default()),
        ("mode = \"sp-wrr\", wrr = \"byte-count\"", ScheduleSettings::default()),
        ("queue.5.group = \"sp\"", ScheduleSettings::sp_wrr(0x20, 0xdf, 0, bytes(DEFAULT_WEIGHTS))),
        ("mode = \"ets\"", ets),
        ("mode = \"ets\", queue.4.weight = 6", weighted_ets),
        ("mode = \"ets\", group.15.queues = [0, 1, 2, 3, 4, 5, 6, 7]", ScheduleSettings { groups: strict }),
    ] {
        assert_eq!(port(&format!("schedule = {{ {text} }}")).schedule, expected, "{text}");
    }
    // Table 10-12 of docs/references.md, "Huawei DCB", written out, is the default.
    let written = "mode = \"ets\", group.0 = { queues = [0, 1, 2, 4, 5], bandwidth_percent = 50 }, \
        group.1 = { queues = [3], bandwidth_percent = 50 }, group.15 = { queues = [6, 7] }";
    assert_eq!(port(&format!("schedule = {{ {written} }}")).schedule, ScheduleSettings::default_ets());
}

/// A queue's settings win one by one, the groups together.
#[test]
fn a_ports_own_schedule_wins() {
    let config = parse(
        r#"
        [port-defaults]
        speed = "1G"
        burst_bytes = 9000
        [port-defaults.schedule]
        mode = "ets"
        queue.0 = { weight = 3, rate = "10M", burst_bytes = 5000 }
        group.0 = { queues = [0, 1, 2, 3], bandwidth_percent = 90 }
        group.1 = { queues = [4, 5, 6, 7], bandwidth_percent = 10 }
        [port.plain]
        interface = "veth0"
        [port.groups]
        interface = "veth1"
        burst_bytes = 0
        schedule.queue.0.rate = "20M"
        schedule.group.4 = { queues = [0, 1, 2, 3, 4, 5, 6, 7], bandwidth_percent = 100 }
        [port.mode]
        interface = "veth2"
        wire_overhead = false
        schedule = { mode = "sp-wrr", queue.0.group = "wrr2", wrr = "packet-count" }
        "#,
    );
    let [plain, groups, mode] = &config.switch.ports[..] else { panic!("three ports") };
    let weighted = GroupDiscipline::WeightedByBytes([3, 1, 1, 1, 1, 1, 1, 1]);
    let halves = vec![
        SchedulerGroup::new("pg0", 1, 90, weighted).of(0x0f),
        SchedulerGroup::new("pg1", 1, 10, weighted).of(0xf0),
    ];
    assert_eq!(plain.schedule.groups, halves);
    assert_eq!(groups.schedule.groups, [SchedulerGroup::new("pg4", 1, 100, weighted).of(0xff)]);
    let weights = GroupDiscipline::WeightedByFrames([3, 2, 3, 4, 5, 9, 13, 15]);
    assert_eq!(mode.schedule, ScheduleSettings::sp_wrr(0, 0xfe, 0x01, weights));

    assert_eq!(plain.queues[0].rate, rate(10_000_000, Some(5000)));
    assert_eq!(groups.queues[0].rate, rate(20_000_000, Some(5000)));
    let line = |port: &PortSettings| (port.burst_bytes, port.overhead_bytes);
    assert_eq!([plain, groups, mode].map(line), [(Some(9000), 24), (Some(0), 24), (Some(9000), 0)]);
}

/// Wire overhead is counted where the port has a speed, and where it is enabled.
#[test]
fn wire_overhead() {
    let rate = "schedule.queue.1.rate = \"1M\"";
    let ets = "schedule.mode = \"ets\"";
    for (text, overhead_bytes) in [
        ("", 0),
        ("speed = \"1G\"", 24),
        ("speed = \"1G\"\nwire_overhead = true", 24),
        ("speed = \"1G\"\nwire_overhead = false", 0),
        (rate, 0),
        (&format!("wire_overhead = true\n{rate}"), 24),
        (&format!("wire_overhead = true\n{ets}"), 24),
    ] {
        assert_eq!(port(text).overhead_bytes, overhead_bytes, "{text}");
    }
}

/// `drop_not_ect` requires priorities that are listed as no-drop, whatever the present mode; and
/// the settings of one port count for the queues of all.
#[test]
fn no_drop_queues() {
    let wred = "[wred.t.queue.3]\necn = true\ndrop_not_ect = true\n";
    let ports = |pfc: &str| {
        format!(
            "{wred}[port.a]\ninterface = \"veth0\"\nwred = \"t\"\n[port.b]\ninterface = \"veth1\"\npfc = {pfc}"
        )
    };
    for pfc in ["{ mode = \"on\", no_drop = [3] }", "{ mode = \"off\", no_drop = [3] }"] {
        assert!(parse(&ports(pfc)).switch.ports[0].queues[3].wred.is_some_and(|wred| wred.drop_not_ect));
    }
    // While PFC is off WRED may drop frames that PFC would protect.
    let off = "[queue-profile.p]\naction = \"wred\"\n[port.a]\ninterface = \"veth0\"\nqueue_profile = { p = [3] }\n\
        pfc = { mode = \"off\", no_drop = [3] }";
    assert!(parse(off).switch.ports[0].queues[3].wred.is_some());
}

/// As many as a file may have.
#[test]
fn profiles_without_number() {
    let text = |count: usize| {
        let profiles: String =
            (0..count).map(|n| format!("[queue-profile.p{n}]\naction = \"ecn\"\n")).collect();
        format!("{profiles}[port.a]\ninterface = \"veth0\"\nqueue_profile = {{ p127 = [0], p1023 = [1] }}")
    };
    let queues = parse(&text(1024)).switch.ports[0].queues;
    assert_eq!(queues.map(|queue| queue.wred.is_some())[..3], [true, true, false]);
    let mistakes = config::parse("x.toml", &text(1026)).unwrap_err();
    let expected = "x.toml:2049:16: queue-profile.p1024: this is the first of 2 queue profiles too many; a file has at \
        most 1024";
    assert_eq!(mistakes.to_string(), expected);
}
