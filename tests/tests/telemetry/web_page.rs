//! The live page in a real browser, headless Chromium: its numbers for a daemon under load equal
//! those of `sluice show`, it shows what ports negotiated, and it fits a phone. Pictures of it are
//! left in `target/tmp`, to be looked at.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use host::units::grouped;
use testbed::{Namespace, PATIENCE, Testbed, port};
use tests::Incast;

const ADDRESS: &str = "127.0.0.1:9464";
const URL: &str = "http://127.0.0.1:9464/";
/// Width of a phone's screen in CSS pixels.
const PHONE: u32 = 390;

/// Returns the document after its script has run for some seconds.
fn browse(dir: &Path, namespace: &Namespace) -> Result<String> {
    chromium(dir, namespace, &["--virtual-time-budget=3000", "--dump-dom", URL])
}

/// Saves a picture of a page after its script has run for some seconds.
fn picture(dir: &Path, namespace: &Namespace, url: &str, [width, height]: [u32; 2]) -> Result<()> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{width}.png"));
    let (size, to) = (format!("--window-size={width},{height}"), format!("--screenshot={}", file.display()));
    chromium(dir, namespace, &[&size, &to, "--hide-scrollbars", "--virtual-time-budget=3000", url])?;
    let png = std::fs::read(&file)?;
    let number = |at: usize| {
        png.get(at..at + 4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    ensure!(png.starts_with(b"\x89PNG") && number(16) == Some(width), "{}", file.display());
    ensure!(png.len() > 20_000, "{} is empty", file.display());
    Ok(())
}

/// Returns what the daemon serves at this path.
fn get(namespace: &Namespace, path: &str) -> Result<String> {
    let mut stream = namespace.enter(|| TcpStream::connect(ADDRESS))??;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {ADDRESS}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
    ensure!(head.starts_with("HTTP/1.1 200") && !head.to_lowercase().contains("chunked"), "{head}");
    Ok(body.to_owned())
}

fn chromium(dir: &Path, namespace: &Namespace, options: &[&str]) -> Result<String> {
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
    browser.args(options);
    text_of(browser.env("HOME", dir)).context("chromium (cargo xtask setup)")
}

fn text_of(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the page with one answer of the switch, which it gets again and again, as a page of a
/// phone's width in another one: no window of a browser is that narrow. The outer page writes how
/// wide the inner one is.
fn on_a_phone(document: &str, live: &str) -> Result<String> {
    const REQUEST: &str = "await fetch(\"/live\"";
    ensure!(document.contains(REQUEST), "the page requests its data in another way");
    let data = format!("const LIVE = {live};\n\"use strict\";");
    let answer = "await ((...ignored) => { LIVE.switch.at_ns += 5e8; const now = JSON.stringify(LIVE); \
                  return { ok: true, json: () => JSON.parse(now) }; })(\"/live\"";
    let inner = document.replacen("\"use strict\";", &data, 1).replacen(REQUEST, answer, 1);
    let inner = inner.replace('&', "&amp;").replace('"', "&quot;");
    Ok(format!(
        "<!doctype html><body style='margin:0'><p id='width' hidden></p>\n\
         <iframe srcdoc=\"{inner}\" style='width:{PHONE}px;height:2600px;border:0'></iframe>\n\
         <script>setInterval(() => {{ document.getElementById('width').textContent = 'width ' + \
         document.querySelector('iframe').contentDocument.documentElement.scrollWidth; }}, 100);</script>"
    ))
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
    let ((under_load, phone), _) = incast.run_while(&daemon, || {
        daemon
            .until("frames wait", |now| (port(now, "c").ok()?.queues[2].waiting_frames > 0).then_some(()))?;
        let shown = browse(dir, netns)?;
        picture(dir, netns, URL, [1280, 1800])?;
        Ok((shown, on_a_phone(&get(netns, "/")?, &get(netns, "/live")?)?))
    })?;
    let file = dir.join("phone.html");
    std::fs::write(&file, phone)?;
    let url = format!("file://{}", file.display());
    let shown = chromium(dir, netns, &["--virtual-time-budget=3000", "--dump-dom", &url])?;
    ensure!(shown.contains(&format!("width {PHONE}<")), "it is wider than a phone: {shown}");
    picture(dir, netns, &url, [500, 2600])?;
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
