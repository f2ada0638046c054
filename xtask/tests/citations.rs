//! What comments and documents cite exists. A reader has only the repository, so a comment refers
//! to a page under `docs/`, to a standard or to a paper.
//!
//! A citation is `docs/NAME.md`, or a section of it by its title: `docs/NAME.md, "Title"`; several
//! are joined by "and" or commas, each perhaps with a remark in parentheses. It may be broken over
//! lines. Also checked: links between the documents, and the files that they name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// References that a reader of the repository does not have.
const ABSENT: [&str; 5] = ["design §", "design.md", "reference/", "seeds/", "the seeds"];
/// Extensions of the files that are checked.
const ENDINGS: [&str; 6] = ["rs", "c", "proto", "toml", "md", "sh"];
/// Names of the kernel that comments and pages cite.
const OF_THE_KERNEL: [&str; 10] = [
    "TX_BATCH_SIZE",
    "XDP_PACKET_HEADROOM",
    "dev_valid_name",
    "dev_watchdog",
    "ip_check_defrag",
    "is_skb_forwardable",
    "packet_extra_vlan_len_allowed",
    "skb_vlan_untag",
    "sun_path",
    "veth_xdp_set",
];
/// The parts of a switch whose numbers are metrics: the first word of a metric's name.
const METRIC_OWNERS: [&str; 10] =
    ["bridge", "collector", "group", "headroom", "loop", "memory", "pool", "port", "priority", "queue"];
/// Pages whose names in backticks are those of this repository, beside the comments.
const OWN_PAGES: [&str; 5] = [
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/behavior.md",
    "docs/multi-core.md",
    "docs/monitoring/recorder.md",
];
/// This file, which has to name what is absent.
const THIS: &str = "xtask/tests/citations.rs";

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository")
}

/// Returns the sources and documents of the repository, by path, with their texts.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(top().join(&folder)).with_context(|| format!("{}", folder.display()))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let is_ours = path != Path::new(".git") && !path.ends_with("target") && path != Path::new(THIS);
            if entry.file_type()?.is_dir() && is_ours {
                folders.push(path);
            } else if is_ours && path.extension().is_some_and(|it| ENDINGS.iter().any(|ending| it == *ending))
            {
                let text =
                    fs::read_to_string(top().join(&path)).with_context(|| format!("{}", path.display()))?;
                files.push((path, text));
            }
        }
    }
    assert!(files.len() > 200, "only {} files were found", files.len());
    Ok(files)
}

/// Returns the text as one line, without comment marks at line starts.
fn unbroken(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches(['/', '!', '#', '*']).trim());
    lines.collect::<Vec<_>>().join(" ")
}

/// Returns the section titles of a Markdown text.
fn titles(markdown: &str) -> BTreeSet<&str> {
    let mut in_code = false;
    let mut titles = BTreeSet::new();
    for line in markdown.lines() {
        in_code ^= line.starts_with("```");
        if let (false, Some(title)) = (in_code, line.strip_prefix('#')) {
            titles.insert(title.trim_start_matches('#').trim());
        }
    }
    titles
}

/// Returns the anchor of a section: its title in lower case, without punctuation, with hyphens for
/// spaces.
fn anchor(title: &str) -> String {
    let kept = title.to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

/// Returns the errors in the citations of an unbroken text.
fn wrong_citations(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (at, _) in text.match_indices("docs/") {
        let cited = &text[at..];
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_');
        let name_bytes = cited.find(|c| !is_of_name(c)).unwrap_or(cited.len());
        let Some(rest) = cited[name_bytes..].strip_prefix(".md") else { continue };
        let file = &cited[..name_bytes + ".md".len()];
        let Ok(document) = fs::read_to_string(top().join(file)) else {
            wrong.push(format!("there is no {file}"));
            continue;
        };
        let titles = titles(&document);
        for title in cited_titles(rest).into_iter().filter(|title| !titles.contains(title)) {
            wrong.push(format!("{file} has no section \"{title}\""));
        }
    }
    wrong
}

/// Returns the titles that follow the name of a document.
fn cited_titles(mut rest: &str) -> Vec<&str> {
    let mut titles = Vec::new();
    loop {
        let next = [", \"", " and \"", ", and \""].into_iter().find_map(|joint| rest.strip_prefix(joint));
        let Some((title, after)) = next.and_then(|next| next.split_once('"')) else { return titles };
        titles.push(title);
        let remark = after.strip_prefix(" (").and_then(|remark| remark.split_once(')'));
        rest = remark.map_or(after, |(_, after)| after);
    }
}

/// Returns the errors in the links of a Markdown file, and in the files that it names.
fn wrong_links(path: &Path, markdown: &str, names: &BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    let folder = top().join(path.parent().expect("a file lies in a folder"));
    for link in markdown.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        if link.contains("://") {
            continue;
        }
        let (file, section) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { top().join(path) } else { folder.join(file) };
        if !target.exists() {
            wrong.push(format!("the link {link} leads nowhere"));
        } else if !section.is_empty() {
            let text = fs::read_to_string(&target).unwrap_or_default();
            if !titles(&text).into_iter().any(|title| anchor(title) == section) {
                wrong.push(format!("the link {link} names no section"));
            }
        }
    }
    if path.starts_with("docs") || path.parent() == Some(Path::new("")) {
        let named = markdown.split('`').skip(1).step_by(2);
        let is_file = |name: &&str| {
            let ending = name.rsplit_once('.').map(|(_, ending)| ending);
            !name.contains(['*', ' ']) && ending.is_some_and(|it| ENDINGS.contains(&it))
        };
        for name in named.filter(is_file) {
            let exists = match name.contains('/') {
                true => top().join(name).exists() || top().join("crates").join(name).exists(),
                false => names.contains(name),
            };
            if !exists {
                wrong.push(format!("there is no file {name}"));
            }
        }
    }
    wrong
}

#[test]
fn every_citation_leads_to_something_in_the_repository() -> Result<()> {
    let mut wrong = Vec::new();
    let files = files()?;
    let names = files.iter().filter_map(|(path, _)| Some(path.file_name()?.to_str()?.to_owned())).collect();
    for (path, text) in files {
        let mut add = |what: String| wrong.push(format!("{}: {what}", path.display()));
        let line = unbroken(&text);
        ABSENT.iter().filter(|absent| line.contains(*absent)).for_each(|absent| {
            add(format!("\"{absent}\" is not in the repository; cite docs/behavior.md or docs/references.md"))
        });
        wrong_citations(&line).into_iter().for_each(&mut add);
        if path.extension().is_some_and(|ending| ending == "md") {
            wrong_links(&path, &text, &names).into_iter().for_each(&mut add);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn citations_are_read_over_lines_and_in_chains() {
    let titles =
        |text: &str| cited_titles(&unbroken(text)).iter().map(|&title| title.to_owned()).collect::<Vec<_>>();
    assert_eq!(titles(", \"Cells\"; RFC 768"), ["Cells"]);
    assert_eq!(titles(", \"Invariants\", 5): all"), ["Invariants"]);
    assert_eq!(
        titles(
            ", \"H3C reference\" (ECN, figure 14), \"H3C\n//! white paper\" and \"Huawei PFC\" (table 3-1)."
        ),
        ["H3C reference", "H3C white paper", "Huawei PFC"]
    );
    assert_eq!(titles(" has them").len(), 0);
    assert_eq!(wrong_citations("see docs/nothing.md, \"Cells\""), ["there is no docs/nothing.md"]);
    let no_section = wrong_citations("see docs/behavior.md, \"Cells\" and \"Nothing\"");
    assert_eq!(no_section, ["docs/behavior.md has no section \"Nothing\""]);
}

/// Returns the files that a table of `docs/architecture.md` names, `folder/file` without ending. A
/// row without a folder continues the folder above.
fn files_in_table(section: &str) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut folder = "";
    for row in section.lines().filter_map(|line| line.strip_prefix('|')) {
        let Some((first, rest)) = row.split_once('|') else { continue };
        folder = match first.trim().trim_matches('`') {
            "" => folder,
            name => name,
        };
        let named = rest.split('|').next().unwrap_or_default().split('`').skip(1).step_by(2);
        files.extend(named.map(|name| format!("{folder}/{}", name.trim_end_matches('/'))));
    }
    files
}

/// Returns the files and folders below `folder` that the table has to name. Tests, snapshots and
/// `lib.rs` have no row, and `mod.rs` may have one.
fn files_in_folder(folder: &Path) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().context("a file without a name")?.to_string_lossy().into_owned();
        let below: Vec<_> = fs::read_dir(&path).into_iter().flatten().collect();
        if name == "lib" || name == "tests" {
            continue;
        } else if !path.is_dir() || name == "settings" {
            files.insert(format!("top/{name}"));
            continue;
        }
        for file in below {
            let file = file?.path();
            let stem = file.file_stem().context("a file without a name")?.to_string_lossy().into_owned();
            // A folder of tests beside the file that it tests has that file's name.
            files.insert(format!("{name}/{stem}"));
        }
    }
    files.retain(|file| !["/tests", "/snapshots", "/mod"].iter().any(|end| file.ends_with(end)));
    Ok(files)
}

#[test]
fn every_file_of_the_switch_is_in_the_table() -> Result<()> {
    let page = fs::read_to_string(top().join("docs/architecture.md"))?;
    let (_, section) = page.split_once("### Files of `switch`\n").context("no section")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut listed = files_in_table(section.split_once("|---").context("no table")?.1);
    listed.retain(|file| !file.ends_with("/mod"));
    let there = files_in_folder(&top().join("crates/switch/src"))?;
    assert_eq!(listed.symmetric_difference(&there).collect::<Vec<_>>(), Vec::<&String>::new());
    Ok(())
}

/// Returns the folders with sources below `folder`, except those that hold only tests.
fn folders_of_sources(folder: &Path, found: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            folders_of_sources(&path, found)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") {
            found.insert(folder.to_owned());
        }
    }
    Ok(())
}

/// Every folder has a row that says what must never be in it.
#[test]
fn every_folder_is_in_the_architecture() -> Result<()> {
    let page = fs::read_to_string(top().join("docs/architecture.md"))?;
    let (_, section) = page.split_once("### Folders of the other crates\n").context("no section")?;
    let table = section.split_once("|---|---|---|---|\n").context("no table")?.1;
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let (mut listed, mut package) = (BTreeSet::new(), "");
    for cells in rows.map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect::<Vec<_>>())
    {
        package = if cells[1].is_empty() { package } else { cells[1] };
        assert!(!cells[4].is_empty(), "{package}, {}: what must never be in it?", cells[2]);
        listed.insert(format!("{package}/{}", cells[2]));
    }
    let mut there = BTreeSet::new();
    let crates = fs::read_dir(top().join("crates"))?.map(|entry| Ok(entry?.path()));
    for package in crates.chain([Ok(top().join("xtask"))]).collect::<Result<Vec<_>>>()? {
        let name = package.file_name().context("a crate without a name")?.to_string_lossy().into_owned();
        let (source, mut folders) = (package.join("src"), BTreeSet::new());
        folders_of_sources(&source, &mut folders)?;
        let below = folders.iter().filter_map(|folder| folder.strip_prefix(&source).ok()?.to_str());
        // The folders of the switch have a table of their own.
        let is_listed = |folder: &&str| !folder.is_empty() && name != "switch";
        there.extend(below.filter(is_listed).map(|folder| format!("{name}/{folder}")));
    }
    assert_eq!(listed.symmetric_difference(&there).collect::<Vec<_>>(), Vec::<&String>::new());
    Ok(())
}

/// Returns the names in a text: runs of letters, digits and underscores.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| !name.is_empty())
}

/// Returns the names in backticks on a line, such as `frames_of_long_names`. Only those with an
/// underscore: a single word may be one of the language that the sentence is about.
fn cited_names(line: &str) -> impl Iterator<Item = &str> {
    let cited = if line.contains("```") { "" } else { line }.split('`').skip(1).step_by(2);
    cited.filter(|name| name.contains('_') && names_in(name).eq([*name]) && !name.starts_with('_'))
}

/// Returns true for a metric whose name follows from a number of the API: see
/// docs/monitoring/metrics.md, "Compatibility".
fn is_metric(name: &str, names: &BTreeSet<&str>) -> bool {
    let Some(number) = name.strip_prefix("sluice_") else { return false };
    let number = number.strip_suffix("_seconds").map_or(number.to_owned(), |time| format!("{time}_ns"));
    let (owner, of_part) = number.split_once('_').unwrap_or_default();
    names.contains(number.as_str()) || METRIC_OWNERS.contains(&owner) && names.contains(of_part)
}

#[test]
fn metrics_have_an_owner_that_exists() {
    let names = ["up", "kept_bytes", "uptime_ns"].into();
    assert!(is_metric("sluice_port_up", &names) && is_metric("sluice_uptime_seconds", &names));
    assert!(!is_metric("sluice_anything_up", &names) && !is_metric("sluice_port_down", &names));
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

#[test]
fn names_in_backticks_exist() -> Result<()> {
    let files = files()?;
    let mut names: BTreeSet<&str> = OF_THE_KERNEL.into();
    for (path, text) in files.iter().filter(|(path, _)| path.extension().is_some_and(|it| it != "md")) {
        names.extend(path.file_stem().and_then(|name| name.to_str()));
        let is_rust = path.extension().is_some_and(|it| it == "rs");
        let code = text.lines().filter(|line| !(is_rust && is_comment(line)));
        names.extend(code.flat_map(names_in));
    }
    let mut wrong = Vec::new();
    for (path, text) in &files {
        let is_page = OWN_PAGES.iter().any(|page| path == Path::new(page));
        let is_rust = path.extension().is_some_and(|it| it == "rs");
        for (at, line) in text.lines().enumerate().filter(|(_, line)| is_page || is_rust && is_comment(line))
        {
            let absent = cited_names(line).filter(|name| !names.contains(name) && !is_metric(name, &names));
            wrong.extend(
                absent
                    .map(|name| format!("{}:{}: `{name}` is not in the repository", path.display(), at + 1)),
            );
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    Ok(())
}

/// Test programs in folders have an entry in `Cargo.toml`, which nothing else would miss: without
/// it they are not run.
#[test]
fn test_programs_in_folders_are_run() -> Result<()> {
    let files = files()?;
    let mut missing = Vec::new();
    for (path, _) in files.iter().filter(|(_, text)| text.contains("#[test]")) {
        let Some(path) = path.to_str() else { continue };
        let Some((package, program)) = path.split_once("/tests/").filter(|(_, rest)| rest.contains('/'))
        else {
            continue;
        };
        let folder = top().join(path).parent().expect("a file lies in a folder").to_owned();
        let manifest = fs::read_to_string(top().join(package).join("Cargo.toml"))?;
        // A folder with a `main.rs` is one program, and the compiler warns of no file; its modules
        // are declared there.
        let name = path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        let main = fs::read_to_string(folder.join("main.rs")).unwrap_or_default();
        let is_module = name == "main" || main.contains(&format!("mod {name};"));
        if !is_module && !manifest.contains(&format!("path = \"tests/{program}\"")) {
            missing.push(path);
        }
    }
    assert_eq!(missing, Vec::<&str>::new(), "add [[test]] with name and path");
    Ok(())
}
