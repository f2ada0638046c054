//! `sluice headroom --measured` as it is run: which loop it takes its stall from.

use std::process::{Command, Output};
use std::time::Instant;

use control::server::{self, About, Request};
use control::v1::Snapshot;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

fn headroom(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["headroom", "--speed", "10G", "--cable", "1m", "--json"]).args(arguments);
    // No daemon of this machine is asked.
    command.env("SLUICE_SOCKET", "/nowhere/sluice.sock").output().unwrap()
}

fn software(output: &Output) -> serde_json::Value {
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["software"].clone()
}

/// A daemon whose loop was once held up for 100 µs.
#[tokio::test]
async fn a_daemon_that_answers_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("fake.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let (requests, mut requested) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(request) = requested.recv().await {
            if let Request::Snapshot { answer, .. } = request {
                let _ = answer.send(Snapshot { loop_worst_stall_ns: 100_000, ..Snapshot::default() });
            }
        }
    });
    let about = About {
        name: "fake".into(),
        version: "1".into(),
        config: "/etc/fake.toml".into(),
        started: Instant::now(),
    };
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(server::serve(listener, about, requests, async {
        let _ = stopped.await;
    }));
    let named = socket.to_str().unwrap().to_owned();
    let output = tokio::task::spawn_blocking(move || headroom(&["--measured", "--socket", &named]));
    let software = software(&output.await.unwrap());
    assert_eq!(software["source"], "daemon");
    assert_eq!(software["socket"], socket.to_str().unwrap());
    assert_eq!((&software["stall_ns"], &software["own_stall_bytes"]), (&100_000.into(), &125_000.into()));
}

#[test]
fn without_a_daemon_it_is_measured_here() {
    let output = headroom(&["--measured", "0.1"]);
    let software = software(&output);
    assert_eq!((&software["source"], &software["measured_s"]), (&"measured".into(), &0.1.into()));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("sluice: measuring here for 0.1 s: no daemon listens on /nowhere/"), "{said}");
}

#[test]
fn a_daemon_that_is_named_must_answer() {
    for (arguments, expected) in [
        (&["--measured", "--socket", "/nowhere/x.sock"][..], "sluice: no daemon listens on /nowhere/x.sock"),
        (&["--socket", "/nowhere/x.sock"], "sluice: --socket is of no effect without --measured"),
    ] {
        let output = headroom(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(expected), "{said}");
        assert_eq!(output.status.code(), Some(1));
    }
}
