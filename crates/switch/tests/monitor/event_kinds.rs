//! The table of event kinds and docs/monitoring/events.md agree.

use switch::EventKind;

/// The table of kinds in docs/monitoring/events.md is that of this file. `UPDATE_DOCS=1` writes it.
#[test]
fn docs_have_every_kind() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/monitoring/events.md");
    let page = std::fs::read_to_string(path).unwrap();
    let heading = "|---|---|---|---|\n";
    let (before, _) = page.split_once(heading).expect("docs/monitoring/events.md has the table");
    let rows: Vec<String> = EventKind::ALL.into_iter().filter_map(EventKind::documentation).collect();
    let expected = format!("{before}{heading}{}\n", rows.join("\n"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, expected).unwrap();
    } else {
        assert_eq!(page, expected, "run with UPDATE_DOCS=1 to generate docs/monitoring/events.md");
    }
}
