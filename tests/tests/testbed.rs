//! The testbed and the demo: however they end, nothing is left.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use testbed::{Process, Testbed, binary, eventually};

/// Returns the network namespaces that the process `pid` made.
fn namespaces_of(pid: u32) -> Result<Vec<String>> {
    let output = Command::new("ip").args(["netns", "list"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| name.starts_with(&format!("sl{pid}-"))).map(str::to_string).collect())
}

/// Returns the processes that run in a namespace.
fn processes_in(namespace: &str) -> Result<Vec<String>> {
    let output = Command::new("ip").args(["netns", "pids", namespace]).output()?;
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_string).collect())
}

fn ours() -> Result<Vec<String>> {
    namespaces_of(std::process::id())
}

#[test]
fn a_bed_goes_away_with_all_it_made() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let station = bed.linux_host(&switch, "host")?;
    let dir = bed.dir().to_path_buf();
    assert_eq!(ours()?.len(), 2);
    let sleeper = Process::start("sleep", station.namespace.command("sleep").arg("1000"))?;
    let pid = sleeper.pid();
    eventually("it runs", || {
        Ok(processes_in(station.namespace.name())?.contains(&pid.to_string()).then_some(()))
    })?;
    drop(sleeper);
    assert_eq!(processes_in(station.namespace.name())?, Vec::<String>::new(), "dropping a process ends it");
    drop(bed);
    assert_eq!(ours()?, Vec::<String>::new());
    assert!(!dir.exists());
    Ok(())
}

#[test]
fn a_panic_leaves_nothing() -> Result<()> {
    let panicked = std::thread::spawn(|| {
        let bed = Testbed::new().expect("a bed");
        let switch = bed.switch("switch").expect("a namespace");
        let _process = Process::start("sleep", switch.command("sleep").arg("1000")).expect("a process");
        assert_eq!(ours().expect("a list").len(), 1);
        panic!("on purpose");
    });
    panicked.join().expect_err("panics");
    assert_eq!(ours()?, Vec::<String>::new());
    Ok(())
}

/// Starts the demo and waits until its switch and its hosts run.
fn start_demo(arguments: &[&str]) -> Result<Process> {
    let mut demo = Process::start("demo", Command::new(binary("sluice-demo")?).args(arguments))?;
    demo.wait_for("a first line", |line| line.contains("priority 3:").then_some(()))?;
    assert_eq!(namespaces_of(demo.pid())?.len(), 4);
    Ok(demo)
}

/// A killed testbed cannot remove anything itself: its children end with it, and the next testbed
/// removes the rest.
#[test]
fn after_a_kill_children_end_and_the_next_bed_sweeps() -> Result<()> {
    let mut demo = start_demo(&["--seconds", "60"])?;
    let pid = demo.pid();
    let left = namespaces_of(pid)?;
    let running: usize =
        left.iter().map(|name| processes_in(name).map(|pids| pids.len())).sum::<Result<_>>()?;
    assert_eq!(running, 6, "a daemon and its restorer, three hosts and a collector");
    demo.signal(Signal::SIGKILL)?;
    demo.wait(Duration::ZERO)?;
    for name in &left {
        eventually("children end with their parent", || Ok(processes_in(name)?.is_empty().then_some(())))?;
    }
    assert_eq!(namespaces_of(pid)?, left, "nobody has swept yet");
    drop(Testbed::new()?);
    assert_eq!(namespaces_of(pid)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn ctrl_c_ends_the_demo_and_removes_all_it_made() -> Result<()> {
    let mut demo = start_demo(&["--seconds", "60"])?;
    let pid = demo.pid();
    demo.signal(Signal::SIGINT)?;
    let status = demo.wait(Duration::ZERO)?;
    assert_eq!(status.code(), Some(130), "{}", demo.log());
    assert_eq!(namespaces_of(pid)?, Vec::<String>::new());
    Ok(())
}

/// Returns the final sentences of the demo, each marked good or bad. If the machine stalled during
/// the run, runs it again, at most three times in all.
fn verdict(arguments: &[&str]) -> Result<(Option<i32>, Vec<String>)> {
    for _ in 0..2 {
        let (code, sentences) = verdict_of_one_run(arguments)?;
        if !sentences.iter().any(|sentence| sentence.contains("stalled")) {
            return Ok((code, sentences));
        }
    }
    verdict_of_one_run(arguments)
}

fn verdict_of_one_run(arguments: &[&str]) -> Result<(Option<i32>, Vec<String>)> {
    let mut demo = start_demo(arguments)?;
    let pid = demo.pid();
    let status = demo.wait(Duration::from_secs(15))?;
    println!("{}", demo.log());
    let lines = demo.stdout();
    let start = lines.iter().position(|line| line == "Verdict").context("a verdict")?;
    assert_eq!(namespaces_of(pid)?, Vec::<String>::new());
    Ok((status.code(), lines[start + 1..].iter().map(|line| line.trim().to_string()).collect()))
}

/// Returns the verdict, and what a collector received.
fn parts(sentences: &[String]) -> Result<(&[String], &[String])> {
    let end = sentences.iter().position(|line| line == "What a collector received").context("a collector")?;
    Ok(sentences.split_at(end))
}

#[test]
fn the_demo_ends_with_a_good_verdict() -> Result<()> {
    let (code, sentences) = verdict(&["--seconds", "10"])?;
    assert!(sentences[0].starts_with("✔ priority 3 (no-drop): 0 of "), "{sentences:?}");
    assert!(
        sentences.iter().any(|s| s.ends_with("exactly what the switch counted as dropped")),
        "{sentences:?}"
    );
    let (verdict, collected) = parts(&sentences)?;
    assert!(verdict.iter().all(|s| s.is_empty() || s.starts_with('✔')), "{verdict:?}");
    assert!(collected.iter().any(|s| s.contains("messages over gRPC, none missing")), "{collected:?}");
    assert_eq!(code, Some(0));
    Ok(())
}

#[test]
fn the_demo_without_pfc_shows_losses() -> Result<()> {
    let (code, sentences) = verdict(&["--seconds", "5", "--no-pfc"])?;
    let first = sentences.first().context("a sentence")?;
    assert!(first.starts_with("✔ priority 3: ") && first.contains("% lost"), "{first}");
    assert!(!first.contains("(0 of"), "{first}");
    assert_eq!(code, Some(0));
    Ok(())
}
