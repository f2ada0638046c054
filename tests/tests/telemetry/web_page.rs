//! The live page in a real browser, headless Chromium: its numbers for a daemon under load equal
//! those of `sluice show`, and it shows what ports negotiated.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use host::units::grouped;
use testbed::{Namespace, Testbed, port};
use tests::Incast;

/// Returns the document after its script has run for some seconds.
fn browse(dir: &Path, namespace: &Namespace) -> Result<String> {
    let mut browser = namespace.command("timeout");
    browser.args([
        "60",
        "chromium",
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
    ]);
    browser.arg(format!("--user-data-dir={}", dir.join("browser").display()));
    browser.args(["--virtual-time-budget=3000", "--dump-dom", "http://127.0.0.1:9464/"]);
    text_of(browser.env("HOME", dir)).context("chromium (cargo xtask setup)")
}

fn text_of(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The page shows what a port negotiated, and why.
#[test]
fn a_browser_shows_what_was_negotiated() -> Result<()> {
    let bed = Testbed::new()?;
    let switch = bed.switch("switch")?;
    let (host, _other) = (bed.sluice_host(&switch, "p")?, bed.sluice_host(&switch, "q")?);
    let daemon = bed.daemon(
        &switch,
        "[metrics]\nenabled = true\npage = true\n[port.p]\ninterface = \"p\"\nlldp = \"both\"\n\
         pfc = { mode = \"auto\", no_drop = [3] }\ndcbx = { version = \"cee\" }\n\
         [port.q]\ninterface = \"q\"\nlldp = \"off\"\n",
    )?;
    let host = bed.host(&host, &[], &["--dcbx", "willing"])?;
    daemon.until("an agreement", |now| {
        let features = &port(now, "p").ok()?.dcbx.as_ref()?.features;
        (features.first()?.state == "agreed").then_some(())
    })?;
    let shown = browse(bed.dir(), &switch)?;
    for expected in ["DCBX CEE: PFC agreed", "PFC: same at both ends", "priority 3: no-drop"] {
        ensure!(shown.contains(expected), "{expected}\n{shown}");
    }
    drop(host);
    daemon.stop()?;
    Ok(())
}

#[test]
fn a_browser_shows_the_counters_of_the_switch() -> Result<()> {
    let incast = Incast::new()?;
    let daemon = incast.daemon("\n[metrics]\nenabled = true\npage = true\n")?;
    let (dir, netns) = (incast.bed.dir(), &incast.switch);
    let under_load = incast.run_while(&daemon, || {
        daemon
            .until("frames wait", |now| (port(now, "c").ok()?.queues[2].waiting_frames > 0).then_some(()))?;
        browse(dir, netns)
    })?;
    for shown in [">a, priority 3<", ">b, priority 3<", ">c, queue 2<", "<canvas"] {
        ensure!(under_load.contains(shown), "{shown}\n{under_load}");
    }

    // Events have their port.
    for action in ["hold", "release"] {
        let mut sluice = Command::new(testbed::binary("sluice")?);
        text_of(sluice.args(["port", action, "b", "--socket"]).arg(daemon.socket()))?;
    }
    // While idle, nothing changes between two reads.
    let shown = browse(dir, netns)?;
    let now = daemon.snapshot()?;
    ensure!(shown.contains(">under-test</h1>"), "{shown}");
    let lost = testbed::lost_by_kernels(&now, []);
    ensure!(lost > 0 || shown.contains("no no-drop frame lost"), "{shown}");
    for at in ["a", "b"] {
        let group = &port(&now, at)?.groups[3];
        let times = format!("priority 3: no-drop, XOFF {} times", grouped(group.xoff_episodes));
        ensure!(group.xoff_episodes > 0 && shown.contains(&times), "{times}\n{shown}");
    }
    let tail = port(&now, "c")?.drops["tail_drop"].frames;
    ensure!(
        tail > 0 && shown.contains(&format!("<td class=\"num \">{}</td>", grouped(tail))),
        "{tail}\n{shown}"
    );
    ensure!(
        shown.contains("Nothing was held at any look (two a second) in the ")
            && shown.contains(" s since this page was opened. The most since the switch started: ")
            && !shown.contains("style=\"display: block"),
        "{shown}"
    );
    for message in ["transmission is held, as for tests", "transmission is released"] {
        let event = format!("<td>b</td><td>{message}</td>");
        ensure!(shown.contains(&event), "{event}\n{shown}");
    }
    daemon.stop()?;
    Ok(())
}
