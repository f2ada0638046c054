//! All combinations of version and willingness between two ends, as a table.

mod pair;

use dcbx::settings::VersionSetting;
use dcbx::status::{Feature, priorities_text};
use pair::{ALL_VERSIONS, Pair, dcbx, seconds};
use std::fmt::Write;

fn name(version: VersionSetting) -> String {
    match version {
        VersionSetting::Auto => "auto".to_owned(),
        VersionSetting::Pinned(version) => version.to_string(),
    }
}

fn cell<T>(feature: &Feature<T>, operational: &str) -> String {
    format!("{operational} {}: {}", feature.state, feature.reason)
}

fn row(pair: &Pair, end: usize) -> String {
    let status = pair.status(end);
    let pfc = cell(&status.pfc, &priorities_text(status.pfc.operational));
    let ets = status.ets.as_ref().unwrap();
    let ets = cell(ets, &format!("{}%", ets.operational.percent[0]));
    let applications = &status.applications;
    let list: Vec<String> =
        applications.operational.iter().map(|it| format!("{:x}>{}", it.protocol, it.priority)).collect();
    let applications = cell(applications, &list.join(","));
    format!(
        "{:4} | no-drop {:3} | PFC {pfc} | ETS {ets} | app {applications}",
        status.version,
        priorities_text(status.operational.no_drop)
    )
}

/// End A wants priority 3 no-drop and has the lower address; end B wants 4. Three lines each: the
/// settings with the time until the last change and the frames that both sent until then; A; B.
#[test]
fn every_combination_of_version_and_willingness() {
    let mut table = String::new();
    for version_a in ALL_VERSIONS {
        for version_b in ALL_VERSIONS {
            for (willing_a, willing_b) in [(false, false), (false, true), (true, false), (true, true)] {
                let a = dcbx(version_a, willing_a, 1 << 3);
                let pair = &mut Pair::settled(a, dcbx(version_b, willing_b, 1 << 4));
                let took = pair.changed - seconds(1);
                let changed = pair.changed;
                let frames = [0, 1].map(|end| pair.sent[end].iter().filter(|at| **at <= changed).count());
                let willing = |is: bool| if is { "willing" } else { "not willing" };
                writeln!(
                    table,
                    "{} {} – {} {}: {} ms, {}+{} frames",
                    name(version_a),
                    willing(willing_a),
                    name(version_b),
                    willing(willing_b),
                    took.as_millis(),
                    frames[0],
                    frames[1]
                )
                .unwrap();
                let settled = [row(pair, 0), row(pair, 1)];
                writeln!(table, "  A {}\n  B {}", settled[0], settled[1]).unwrap();
                // What was agreed stays as it is.
                pair.run(seconds(600));
                assert_eq!([row(pair, 0), row(pair, 1)], settled);
                assert_eq!(pair.changed, changed);
            }
        }
    }
    insta::assert_snapshot!(table);
}
