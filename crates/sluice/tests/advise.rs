//! `sluice advise` as a process.

use std::fs;
use std::process::Command;

/// Priority 3 is no-drop, and marked.
const CONFIG: &str = "
[buffer]
total_cells = 16384
headroom_cells = 4096
[wred.early.queue.3]
ecn = true
[port-defaults]
trust = \"dot1p\"
wred = \"early\"
[port-defaults.pfc]
mode = \"on\"
no_drop = [3]
";
const SCENARIO: &str = "
title = \"Two leaves\"
duration = \"500us\"
[network]
kind = \"leaf-spine\"
leaves = 2
spines = 1
hosts_per_leaf = 2
host_speed = \"10G\"
host_cable_m = 10
fabric_cable_m = 100
config = \"base.toml\"
[[traffic]]
name = \"rdma\"
from = [\"h1\", \"h3\", \"h4\"]
to = \"h2\"
priority = 3
dcqcn = true
";

/// The lines are those of the one file that all switches have.
#[test]
fn a_generated_network_has_advice() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("base.toml"), CONFIG).unwrap();
    fs::write(folder.path().join("scenario.toml"), SCENARIO).unwrap();
    let advise = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        let output = command.current_dir(folder.path()).arg("advise").args(arguments).output().unwrap();
        let [out, err] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        (output.status.code().unwrap(), out, err)
    };
    let (code, text, errors) = advise(&["scenario.toml"]);
    assert_eq!((code, errors.as_str()), (0, ""), "{text}");
    assert!(
        text.starts_with("Two leaves\n\nbase.toml:\n\n    [port-defaults.pfc.priority.3]\n    xoff = "),
        "{text}"
    );
    assert!(text.ends_with(" runs; no no-drop frame is lost.\n"), "{text}");
    let (code, text, _) = advise(&["scenario.toml", "--json", "--duration", "200us"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, json["files"][0]["file"].as_str()), (0, Some("base.toml")), "{text}");
    let (code, _, errors) = advise(&["scenario.toml", "--set", "network.kind=fat-tree"]);
    assert!(code == 2 && errors.contains("leaves: has no effect with kind"), "{errors}");
}
