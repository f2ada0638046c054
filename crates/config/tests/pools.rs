//! Service pools with sizes and pause thresholds, reservations in the fixed area, and built-in
//! profiles. Rows are those of docs/conformance.md.

use config::Config;
use switch::settings::{Alpha, GroupSettings, Guaranteed, Threshold, WredProfile, WredSettings};

#[track_caller]
fn parse(text: &str) -> Config {
    config::parse("test.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[track_caller]
fn mistakes(text: &str) -> String {
    config::parse("test.toml", text).expect_err("a mistake").to_string()
}

const TWO_PORTS: &str = "[port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\n";
/// `show qos buffer-pool` of docs/references.md, "Inspur white paper" (6): egress_pool 32058368,
/// ingress_pool 28500000 with xoff 4500000, on a device of 32058368 bytes.
const INSPUR: &str = "[buffer]\ntotal_bytes = 32058368\nfixed_bytes = 40960\nheadroom_bytes = 3517440\n\
    [buffer.ingress.pool.0]\nsize_bytes = 28500000\npause_threshold_bytes = 4500000\n\
    [buffer.egress.pool.0]\nsize_bytes = 32058368\n";

/// Rows 333, 334, 345: buffer-size is the size of the pool, pause-threshold its use at which pauses
/// are sent, and the egress pool is larger than the ingress pool.
#[test]
fn rows_333_334_345_the_pools_of_an_inspur_switch() {
    let config = parse(&format!("{INSPUR}{TWO_PORTS}"));
    let buffer = &config.switch.buffer;
    assert_eq!(buffer.total_cells, 32_058_368 / 256, "the device's, and no more");
    assert_eq!(buffer.ingress_pools(), [28_500_000 / 256, 0, 0, 0]);
    assert_eq!(buffer.pause_cells, [Some(4_500_000 / 256), None, None, None]);
    assert_eq!(buffer.egress_pools(), [32_058_368 / 256, 0, 0, 0]);
    assert!(config.warnings.to_string().is_empty(), "{}", config.warnings);
}

/// Pool 0 has what the other pools leave, whether set by size or by share; a size replaces a share.
#[test]
fn pools_by_size_and_by_share() {
    let buffer = "[buffer]\ntotal_cells = 1200\nfixed_cells = 100\nheadroom_cells = 100\n";
    for (pools, expected) in [
        ("1.size_cells = 300", [700, 300, 0, 0]),
        ("1.size_cells = 300, 2.shared_percent = 20", [500, 300, 200, 0]),
        ("0.shared_percent = 40, 3.size_bytes = 25855", [400, 0, 0, 100]),
        ("0.size_cells = 1000", [1000, 0, 0, 0]),
        ("1.shared_percent = 33, 2.shared_percent = 33", [340, 330, 330, 0]),
    ] {
        let config = parse(&format!("{buffer}ingress.pool = {{ {pools} }}\n{TWO_PORTS}"));
        assert_eq!(config.switch.buffer.ingress_pools(), expected, "{pools}");
        assert_eq!(config.switch.buffer.egress_pools(), [1000, 0, 0, 0]);
    }
}

#[test]
fn pools_that_cannot_be() {
    let buffer = "[buffer]\ntotal_cells = 1200\nfixed_cells = 100\nheadroom_cells = 100\n";
    let mut table = String::new();
    for pools in [
        "ingress.pool = { 1.size_cells = 1001 }",
        "ingress.pool = { 0.size_cells = 600, 1.shared_percent = 50 }",
        "egress.pool = { 1.size_cells = 1201 }",
        "ingress.pool = { 1.size_cells = 300, 1.shared_percent = 50 }",
        "ingress.pool = { 1 = { size_cells = 300, pause_threshold_cells = 301 } }",
        "ingress.pool = { 1.pause_threshold_bytes = 0 }",
        "egress.pool = { 1 = { size_cells = 300, pause_threshold_cells = 10 } }",
        "egress.pool = { 0.size_cells = 0 }",
    ] {
        let text = mistakes(&format!("{buffer}{pools}\n{TWO_PORTS}"));
        table += &format!("{pools}\n{}\n\n", text.trim());
    }
    insta::assert_snapshot!(table);
}

/// Row 18: `check` warns in advance of an egress pool that cannot hold what ingress can admit of
/// the no-drop queues in it, and names a sufficient size.
#[test]
fn row_18_a_pool_too_small_for_its_no_drop_queues_is_warned_of() {
    let file = |pool: &str, more: &str| {
        format!(
            "[buffer]\ntotal_cells = 20000\nfixed_cells = 2000\nheadroom_cells = 3000\n{pool}\n\
             [port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n\
             [port-defaults.pfc.priority.3]\nreserved_cells = 20\nxoff.static_cells = 1000\nheadroom_cells = 900\n\
             {more}[port.a]\ninterface = \"veth0\"\n[port.b]\ninterface = \"veth1\"\n[port.c]\ninterface = \"veth2\"\n"
        )
    };
    let in_pool_1 = "[port-defaults.buffer.egress.queue]\n3 = { pool = 1, guaranteed_percent = 0 }\n";
    // Three groups of 20 + 1000 + 900.
    for (pool, more, warned) in [
        ("egress.pool.1.size_cells = 5760", in_pool_1, false),
        ("egress.pool.1.size_cells = 5759", in_pool_1, true),
        ("", "", false),
        // A dynamic maximum stays within its pool, and has a warning of its own.
        (
            "egress.pool.1.size_cells = 9",
            "[port-defaults.buffer.egress.queue]\n3 = { pool = 1, shared_percent = 100 }\n",
            false,
        ),
    ] {
        let warnings = parse(&file(pool, more)).warnings.to_string();
        assert_eq!(warnings.contains("pool 1 at egress has"), warned, "{pool}: {warnings}");
    }
    let warnings = parse(&file("egress.pool.1.size_cells = 5759", in_pool_1)).warnings.to_string();
    insta::assert_snapshot!(warnings);
}

/// Row 15: a lossy group's share of the fixed area is reserved at ingress, too, and all shares fit
/// into it.
#[test]
fn row_15_lossy_groups_share_the_fixed_area() {
    let reserved = |text: &str| {
        let ports = parse(&format!("{text}{TWO_PORTS}")).switch.ports;
        ports.iter().map(|port| port.groups.map(|group| group.reserved_cells)).collect::<Vec<_>>()
    };
    let fixed = "[buffer]\ntotal_cells = 10000\nheadroom_cells = 1000\nfixed_cells = 1600\n";
    assert_eq!(reserved(fixed), [[100; 8]; 2]);
    let pfc = "[port-defaults.pfc]\nmode = \"on\"\nno_drop = [3]\n";
    let with_pfc = [100, 100, 100, 17, 100, 100, 100, 100];
    assert_eq!(reserved(&format!("{fixed}{pfc}")), [with_pfc; 2], "a no-drop group has its own default");
    // Values of the file win, 0 too, and the other groups get less where it leaves less.
    let message = "[port-defaults.pfc.priority]\n0.reserved_cells = 0\n1.reserved_cells = 700\n";
    let less = [0, 700, 16, 16, 16, 16, 16, 16]; // (1600 - 1400) / 12
    assert_eq!(reserved(&format!("{fixed}{message}")), [less; 2]);
    let profile = "[port-defaults.buffer.ingress.priority]\n7.profile = \"ingress_lossy_profile\"\n";
    let none_of_it = [100, 100, 100, 100, 100, 100, 100, 0];
    assert_eq!(reserved(&format!("{fixed}{profile}")), [none_of_it; 2], "a profile says all");
}

/// Row 28: "shared ratio" is not that share of the area, but the alpha of table 6.
#[test]
fn row_28_a_shared_ratio_picks_alpha() {
    for (percent, settles_at) in [(20, 2000), (25, 3333), (100, 8888)] {
        let text = format!("[port-defaults.buffer.egress.queue.1]\nshared_percent = {percent}\n{TWO_PORTS}");
        let shared = parse(&text).switch.ports[0].queues[1].shared;
        let Some(Threshold::Dynamic(alpha)) = shared else { panic!("{shared:?}") };
        assert_eq!(alpha, Alpha::from_percent(percent));
        assert_eq!(alpha.steady_state_cells(10_000, 1), settles_at, "{percent} %");
    }
}

/// Row 355: the default profiles of an Inspur switch, each bound with one line.
#[test]
fn row_355_profiles_that_need_not_be_written() {
    let config = parse(
        r#"
        [port.a]
        interface = "veth0"
        pfc = { mode = "on", no_drop = [3] }
        queue_profile = { AZURE_LOSSLESS = [3] }
        buffer.ingress.priority.3.profile = "ingress_lossless_profile"
        buffer.ingress.priority.0.profile = "ingress_lossy_profile"
        buffer.egress.queue.3.profile = "egress_lossless_profile"
        buffer.egress.queue.0.profile = "egress_lossy_profile"
        "#,
    );
    let port = &config.switch.ports[0];
    let lossless = GroupSettings {
        pool: 0,
        reserved_cells: 8,
        xoff: Threshold::Static(76),
        xon_offset_cells: 14,
        resume_cells: 62,
        headroom_cells: 768,
    };
    let alpha = |exponent| Threshold::Dynamic(Alpha::from_exponent(exponent).unwrap());
    assert_eq!(port.groups[3], lossless);
    assert_eq!(port.groups[0], GroupSettings { xoff: alpha(3), ..GroupSettings::lossy() });
    for (queue, shared) in [(3, Threshold::Static(125_228)), (0, alpha(1))] {
        let queue = port.queues[queue];
        assert_eq!((queue.guaranteed, queue.shared), (Guaranteed::Cells(0), Some(shared)));
    }
    let curve = WredProfile { low_cells: 407, high_cells: 1219, probability_percent: 100 };
    let ecn = WredSettings { exponent: 0, ecn: true, curves: [curve; 3], ..WredSettings::default() };
    assert_eq!((port.queues[3].wred, port.queues[0].wred), (Some(ecn), None));
}

/// Row 355: a profile of the file replaces the built-in one of the same name, and for a misspelled
/// name the nearest one is suggested.
#[test]
fn row_355_the_file_wins_and_misspelled_names_are_answered() {
    let binding = "[port-defaults]\nbuffer.egress.queue.0.profile = \"egress_lossy_profile\"\n";
    let own = "[buffer.egress.profile.egress_lossy_profile]\nshared.static_cells = 9\n";
    let queue = parse(&format!("{own}{binding}{TWO_PORTS}")).switch.ports[0].queues[0];
    assert_eq!(queue.shared, Some(Threshold::Static(9)));
    let misspelled = mistakes(&format!("{}{TWO_PORTS}", binding.replace("lossy", "losy")));
    assert!(misspelled.contains("egress_lossy_profile"), "{misspelled}");
    let misspelled =
        mistakes(&format!("[port-defaults]\nqueue_profile = {{ AZURE_LOSSLES = [3] }}\n{TWO_PORTS}"));
    assert!(misspelled.contains("AZURE_LOSSLESS"), "{misspelled}");
}
