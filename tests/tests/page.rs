//! The live page in a real browser, headless Chromium: what it shows of a daemon under load is what `sluice show` says.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use testbed::{Bed, Namespace, port};
use tests::{AMPLE_HEADROOM_CELLS, flow, group_config, port_config, run, slow_port_config, switch_config};

/// The document after its script has run for some seconds.
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

#[test]
fn a_browser_shows_what_the_switch_says() -> Result<()> {
    let bed = Bed::new()?;
    let switch = bed.switch("switch")?;
    let senders = [bed.quiet_host(&switch, "a")?, bed.quiet_host(&switch, "b")?];
    let receiver = bed.quiet_host(&switch, "c")?;
    let mut config = switch_config("on") + &slow_port_config("c", 100);
    for sender in &senders {
        config += &(port_config(&sender.name, "1G") + &group_config(&sender.name, AMPLE_HEADROOM_CELLS));
    }
    let daemon = bed.daemon(&switch, &(config + "\n[metrics]\nenabled = true\npage = true\n"))?;
    let flows = [flow(&receiver.mac(), 3, "100M"), flow(&receiver.mac(), 0, "100M")];
    let lasts = Duration::from_secs(6);
    let arguments = ["--speed", "1G", "--no-drop", "3", "--duration", "6s"];
    let sending = senders.iter().map(|at| bed.host(at, &flows, &arguments)).collect::<Result<_>>()?;
    let receiving = bed.host(&receiver, &[], &["--speed", "100M", "--no-drop", "3"])?;
    let (dir, netns) = (bed.dir(), &switch);
    let meanwhile = std::thread::scope(|scope| {
        let meanwhile = scope.spawn(|| {
            daemon.until("frames wait", |now| {
                (port(now, "c").ok()?.queues[2].waiting_frames > 0).then_some(())
            })?;
            browse(dir, netns)
        });
        run(&[&daemon], sending, vec![receiving], lasts)?;
        meanwhile.join().map_err(|_| anyhow!("it panicked meanwhile"))?
    })?;
    for shown in [">a, priority 3<", ">b, priority 3<", ">c, queue 2<", "<canvas"] {
        ensure!(meanwhile.contains(shown), "{shown}\n{meanwhile}");
    }

    // At rest nothing changes between two looks.
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
        shown.contains("Nothing was held in the last minute.") && !shown.contains("style=\"display: block"),
        "{shown}"
    );
    daemon.stop()?;
    Ok(())
}

/// A number as English writes it: 12,345.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
