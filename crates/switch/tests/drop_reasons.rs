//! The table of drop reasons and docs/behavior.md agree.

use std::collections::BTreeSet;

use switch::DropReason;

#[test]
fn docs_have_every_drop_reason() {
    let page = std::fs::read_to_string("../../docs/behavior.md").unwrap();
    let (_, section) = page.split_once("\n## Drops\n").expect("a section about drops");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let named: BTreeSet<&str> = rows.flat_map(|row| row.split('`')).filter(|word| *word != ", ").collect();
    let all: BTreeSet<&str> = DropReason::ALL.map(|reason| reason.name()).into();
    let named: BTreeSet<&str> = named.into_iter().filter(|word| !word.is_empty()).collect();
    assert_eq!(named, all, "docs/behavior.md, \"Drops\", has a row for each drop reason");
}
