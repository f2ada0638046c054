//! The README's first configuration, run word for word: whatever a new user types must work.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use testbed::{Process, Testbed, binary};

/// Returns the shell commands of a Markdown text: what is between "```sh" and "```".
fn commands(text: &str) -> String {
    text.split("```sh\n").skip(1).filter_map(|part| part.split("```").next()).collect()
}

#[test]
fn the_first_configuration_of_the_readme_works() -> Result<()> {
    let bed = Testbed::new()?; // for the lock and a directory
    let readme = include_str!("../../../README.md");
    let mut script = String::from(
        // A separate place for the namespaces and the control socket: nothing is left on the
        // machine.
        "set -e; set -m; mount -t tmpfs none /run; mkdir /run/netns; mount -t tmpfs none /run/netns\n",
    );
    script += &commands(readme);
    script += "\nip netns list | grep -q . && exit 1; echo nothing is left\n";
    let programs = binary("sluice")?.parent().context("a directory")?.to_path_buf();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH")?);
    let mut shell = Command::new("unshare");
    shell.args([
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "bash",
        "-c",
        &script,
    ]);
    let mut shell =
        Process::start("readme", shell.current_dir(bed.dir()).env("PATH", path).process_group(0))?;
    let status = shell.wait(Duration::from_secs(15))?;
    let output = shell.log();
    println!("{output}");
    assert!(status.success(), "{status}\n{output}");
    let parts =
        ["sluiced is ready", "ready as 02:", "3 received", "every frame is accounted for", "nothing is left"];
    for part in parts {
        assert!(output.contains(part), "{part}:\n{output}");
    }
    let warnings: Vec<&str> = output.lines().filter(|line| line.contains("WARN")).collect();
    assert!(warnings.is_empty(), "a first start warns:\n{}", warnings.join("\n"));
    Ok(())
}
