//! Roles of clients, as the kernel reports them, and the page about the API.

use std::fmt::Write;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use control::server::{self, DaemonInfo, Recorded, Request};
use control::v1::control_client::ControlClient;
use control::{Client, ClientError, Command, Journal, v1};
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

const PROTO: &str = include_str!("../../../proto/sluice/v1/control.proto");
/// A user without any name or right.
const USER: u32 = 64_999;
/// Names the socket for the part of a test that runs as another user.
const SOCKET: &str = "SLUICE_ACCESS_TEST_SOCKET";

/// A call of the API, as the proto file has it.
struct Call {
    name: &'static str,
    /// What it does.
    comment: String,
    role: String,
    /// Codes of its errors.
    errors: String,
}

fn calls() -> Vec<Call> {
    let service = PROTO.split_once("service Control {").unwrap().1.split_once("\n}").unwrap().0;
    let mut comment: Vec<&str> = Vec::new();
    let mut calls = Vec::new();
    for line in service.lines().map(str::trim) {
        if let Some(line) = line.strip_prefix("// ") {
            comment.push(line);
        } else if let Some(rpc) = line.strip_prefix("rpc ") {
            let name = rpc.split_once('(').unwrap().0;
            let role = comment.pop().and_then(|last| last.strip_prefix("Role: "));
            let role = role.unwrap_or_else(|| panic!("the comment of {name} ends with its role"));
            let comment = std::mem::take(&mut comment).join(" ");
            let is_code = |word: &str| {
                let code = word.split_once(": ").map_or(word, |(code, _)| code);
                code.len() > 5 && code.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            };
            let first_error = comment.split_inclusive(' ').scan(0, |at, word| {
                let start = *at;
                *at += word.len();
                Some((start, word.trim_end().trim_end_matches(':')))
            });
            let first_error = first_error.into_iter().find(|(_, word)| is_code(word)).map(|(at, _)| at);
            let (what, errors) = comment.split_at(first_error.unwrap_or(comment.len()));
            calls.push(Call {
                name,
                comment: what.trim().to_owned(),
                role: role.trim_end_matches('.').to_owned(),
                errors: errors.trim().to_owned(),
            });
        }
    }
    calls
}

/// docs/control-api.md has every call with its role. `UPDATE_DOCS=1` writes the table.
#[test]
fn the_page_has_every_call() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control-api.md");
    let page = std::fs::read_to_string(path).unwrap();
    let heading = "## Calls\n";
    let (before, _) = page.split_once(heading).expect("docs/control-api.md has the calls");
    let mut table = "\n| call | role | what it does | errors |\n|---|---|---|---|\n".to_owned();
    for Call { name, comment, role, errors } in calls() {
        writeln!(table, "| `{name}` | {role} | {comment} | {errors} |").unwrap();
    }
    let expected = format!("{before}{heading}{table}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, expected).unwrap();
    } else {
        assert!(page == expected, "run with UPDATE_DOCS=1 to generate docs/control-api.md");
    }
}

/// A daemon whose switch does whatever it is asked; every user may connect.
fn serve(socket: &Path, admins: Vec<u32>) {
    let listener = UnixListener::bind(socket).unwrap();
    std::fs::set_permissions(socket, PermissionsExt::from_mode(0o666)).unwrap();
    let (requests, mut requested) = mpsc::channel::<Request>(server::MAX_REQUESTS);
    tokio::spawn(async move {
        while let Some(request) = requested.recv().await {
            match request {
                Request::Snapshot { answer, .. } => drop(answer.send(v1::Snapshot::default())),
                Request::Order { by, answer, .. } => drop(answer.send(Ok(vec![by.to_string()]))),
                Request::RecordingBound { answer } => drop(answer.send(0)),
                Request::Capture { answer, .. } => drop(answer.send(Ok(mpsc::channel(1).1))),
                Request::Recording { answer, .. } => drop(answer.send(Ok(Recorded::default()))),
                Request::Configuration { answer } => drop(answer.send(v1::Configuration::default())),
                Request::Fdb { answer, .. } => drop(answer.send(Ok(Vec::new()))),
                Request::Lldp { answer } => drop(answer.send(v1::LldpPorts::default())),
                Request::Acknowledge { answer, .. } => drop(answer.send(Ok(Vec::new()))),
            }
        }
    });
    let about = DaemonInfo {
        name: "fake".into(),
        version: "1.2.3".into(),
        config: "/etc/sluice/fake.toml".into(),
        started: Instant::now(),
        admins,
    };
    let never = std::future::pending();
    tokio::spawn(server::serve(listener, about, requests, Journal::default(), v1::Telemetry::default, never));
}

async fn raw_client(socket: PathBuf) -> ControlClient<Channel> {
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://fake").connect_with_connector(connector).await.unwrap();
    ControlClient::new(channel)
}

/// Makes a call as the API allows to readers, or, with `changes`, as only admins may make it.
async fn make(client: &mut ControlClient<Channel>, call: &str, changes: bool) -> Result<(), Status> {
    let port = || "a".to_owned();
    match call {
        "GetInfo" => client.get_info(v1::GetInfoRequest {}).await.map(drop),
        "GetSnapshot" => {
            client.get_snapshot(v1::GetSnapshotRequest { read_watermarks: changes }).await.map(drop)
        }
        "Watch" => {
            let request = v1::WatchRequest { interval_ms: 50, read_watermarks: changes };
            client.watch(request).await.map(drop)
        }
        "ClearWatermarks" => client.clear_watermarks(v1::ClearWatermarksRequest {}).await.map(drop),
        "HoldPort" => client.hold_port(v1::HoldPortRequest { port: port(), held: true }).await.map(drop),
        "SetPortAdmin" => {
            client.set_port_admin(v1::SetPortAdminRequest { port: port(), up: false }).await.map(drop)
        }
        "SetPfc" => client.set_pfc(v1::SetPfcRequest { enabled: false }).await.map(drop),
        "RecoverStorms" => client.recover_storms(v1::RecoverStormsRequest { port: port() }).await.map(drop),
        "LiftStormLimit" => {
            let request = v1::LiftStormLimitRequest { port: port(), priority: None };
            client.lift_storm_limit(request).await.map(drop)
        }
        "Reload" => client.reload(v1::ReloadRequest {}).await.map(drop),
        "Record" => client.record(v1::RecordRequest { duration_ms: changes.into() }).await.map(drop),
        "Capture" => client.capture(v1::CaptureRequest::default()).await.map(drop),
        "AcknowledgeRecording" => {
            let request = v1::AcknowledgeRecordingRequest { recording: 1 };
            client.acknowledge_recording(request).await.map(drop)
        }
        "Events" => client.events(v1::EventsRequest { since: 0, follow: false }).await.map(drop),
        "GetTelemetry" => client.get_telemetry(v1::GetTelemetryRequest {}).await.map(drop),
        "GetLldp" => client.get_lldp(v1::GetLldpRequest {}).await.map(drop),
        "GetConfiguration" => client.get_configuration(v1::GetConfigurationRequest {}).await.map(drop),
        "GetFdb" => client.get_fdb(v1::GetFdbRequest { port: None, vlan: None }).await.map(drop),
        "FlushFdb" => client.flush_fdb(v1::FlushFdbRequest { port: None, vlan: None }).await.map(drop),
        other => panic!("{other} is new: make the call here, and check its role"),
    }
}

/// Every call that changes something is refused to a reader, and no other is. Part of the test runs
/// as another user.
#[tokio::test]
async fn each_call_is_for_its_role() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        let mut client = raw_client(PathBuf::from(socket)).await;
        let role = client.get_info(v1::GetInfoRequest {}).await.unwrap().into_inner().role;
        for Call { name, role: described, .. } in calls() {
            let is_admin = role == "admin";
            for changes in [false, true] {
                let refused = match &*described {
                    "reader" => false,
                    "admin" => !is_admin,
                    _ => changes && !is_admin, // reader or admin, by what is asked
                };
                let made = make(&mut client, name, changes).await.map_err(|status| {
                    assert!(
                        status.message().contains(&format!("root or uid {}", USER + 1)),
                        "{}",
                        status.message()
                    );
                    status.code()
                });
                assert_eq!(
                    made,
                    if refused { Err(Code::PermissionDenied) } else { Ok(()) },
                    "{name} {changes} {role}"
                );
            }
        }
        println!("{role} done");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let (socket, program) = (folder.path().join("fake.sock"), folder.path().join("test"));
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    serve(&socket, vec![0, USER + 1]);
    for (uid, role) in [(USER, "reader"), (USER + 1, "admin"), (0, "admin")] {
        let mut test = std::process::Command::new(&program);
        test.args(["--exact", "each_call_is_for_its_role", "--nocapture"]).env(SOCKET, &socket).uid(uid);
        let output = match tokio::task::spawn_blocking(move || test.output()).await.unwrap() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return println!("only root can become another user: {error}");
            }
            Err(error) => panic!("{}: {error}", program.display()),
            Ok(output) => output,
        };
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(&format!("{role} done")), "uid {uid}: {text}");
    }
}

/// The log of changes names the client: its user and its process.
#[tokio::test]
async fn the_owner_of_the_loop_gets_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("fake.sock");
    let own =
        std::fs::metadata(folder.path()).map(|file| std::os::unix::fs::MetadataExt::uid(&file)).unwrap();
    serve(&socket, vec![own]);
    let by = Client::connect(&socket).await.unwrap().execute(Command::Reload).await.unwrap().remove(0);
    let expected = format!("uid {own}, pid {} (", std::process::id());
    assert!(by.starts_with(&expected) && by.ends_with(')'), "{by}");
}

/// A client of another version gets a line that says which versions there are.
#[tokio::test]
async fn a_client_of_another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("fake.sock");
    serve(&socket, Vec::new());
    let mut client = raw_client(socket.clone()).await;
    let mut request = tonic::Request::new(v1::GetInfoRequest {});
    request.metadata_mut().insert("sluice-api-version", "2".parse().unwrap());
    let refused = client.get_info(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().starts_with("the client speaks version 2 of the control API, "), "{refused}");
    let info = Client::connect(&socket).await.unwrap().info().await;
    assert_eq!(info.map_err(|e: ClientError| e.to_string()).unwrap().api_version, control::API_VERSION);
}
