//! Server and client over a real Unix socket, with a made-up switch behind them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use control::server::{DaemonInfo, MAX_CLIENTS, MAX_EVENT_READERS, MAX_WATCHERS, Recorded, Request};
use control::{
    BlockingClient, Client, ClientError, Command, CommandError, CommandResult, ErrorKind, Journal, server, v1,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tonic::Code;

/// A daemon without a switch: its n-th snapshot has `at_ns = n`, and `bridge_entries = 1` if
/// watermarks were read. It executes commands by [`carry_out`].
struct Fake {
    _folder: tempfile::TempDir,
    socket: PathBuf,
    switch: JoinHandle<()>,
    api: JoinHandle<Result<(), tonic::transport::Error>>,
    stop: Option<oneshot::Sender<()>>,
    /// Number of snapshots made.
    made: Arc<AtomicU64>,
    journal: Journal,
}

impl Fake {
    fn start() -> Self {
        Self::start_with(0)
    }

    /// Its snapshots are slightly larger than `ballast_bytes`.
    fn start_with(ballast_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("fake.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (requests, mut requested) = mpsc::channel::<Request>(server::MAX_REQUESTS);
        let made = Arc::new(AtomicU64::new(0));
        let counter = made.clone();
        let switch = tokio::spawn(async move {
            while let Some(request) = requested.recv().await {
                match request {
                    Request::Snapshot { read_watermarks, answer, .. } => {
                        let at_ns = counter.fetch_add(1, Ordering::Relaxed) + 1;
                        let ballast = v1::Port { name: "x".repeat(ballast_bytes), ..Default::default() };
                        let bridge_entries = read_watermarks.into();
                        let ports = vec![ballast];
                        let _ =
                            answer.send(v1::Snapshot { at_ns, bridge_entries, ports, ..Default::default() });
                    }
                    Request::Order { order, answer, .. } => drop(answer.send(carry_out(&order))),
                    Request::RecordingBound { answer } => drop(answer.send(7 << 20)),
                    Request::Recording { duration, answer, .. } => drop(answer.send(recording(duration))),
                    Request::Configuration { answer } => drop(answer.send(v1::Configuration::default())),
                    Request::Fdb { vlan, answer, .. } => {
                        let entry =
                            v1::FdbEntry { vlan: vlan.unwrap_or(0).into(), ..v1::FdbEntry::default() };
                        drop(answer.send(Ok(vec![entry; 10_000])));
                    }
                    Request::Capture { wanted, answer, .. } => drop(answer.send(captured(&wanted).await)),
                    Request::Lldp { answer } => drop(answer.send(v1::LldpPorts::default())),
                    Request::Acknowledge { recording, answer, .. } => {
                        drop(answer.send(acknowledge(recording)))
                    }
                }
            }
        });
        let about = DaemonInfo {
            name: "fake".into(),
            version: "1.2.3".into(),
            config: "/etc/sluice/fake.toml".into(),
            started: Instant::now(),
            admins: Vec::new(),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let journal = Journal::default();
        let api = tokio::spawn(server::serve(
            listener,
            about,
            requests,
            journal.clone(),
            control::v1::Telemetry::default,
            async {
                let _ = stopped.await;
            },
        ));
        Self { _folder: folder, socket, switch, api, stop: Some(stop), made, journal }
    }
}

/// A batch for each frame that is wanted; from one client only at a time.
async fn captured(wanted: &v1::CaptureRequest) -> Result<mpsc::Receiver<v1::CaptureBatch>, CommandError> {
    match wanted.ports.first().map(String::as_str) {
        Some("busy") => {
            return Err(CommandError { reason: ErrorKind::Precondition, message: "another client".into() });
        }
        Some(port) if port.contains("[2J") => {
            return Err(CommandError { reason: ErrorKind::NotFound, message: format!("no port {port}") });
        }
        _ => {}
    }
    let (sender, batches) = mpsc::channel(64);
    for number in 0..wanted.max_frames {
        let frame = v1::CapturedFrame { bytes: vec![number as u8; 128], ..Default::default() };
        let batch =
            v1::CaptureBatch { frames: vec![frame; 500], missed_frames: number, ..Default::default() };
        sender.send(batch).await.unwrap();
    }
    Ok(batches)
}

#[tokio::test]
async fn captured_frames_arrive_until_the_capture_ends() {
    let fake = Fake::start();
    let mut client = Client::connect(fake._folder.path().join("fake.sock").as_path()).await.unwrap();
    let wanted = v1::CaptureRequest { max_frames: 5, ..Default::default() };
    let mut batches = client.capture(wanted).await.unwrap();
    for number in 0..5 {
        let batch = batches.next().await.unwrap().unwrap();
        assert_eq!(
            (batch.frames.len(), batch.frames[499].bytes[127], batch.missed_frames),
            (500, number as u8, number)
        );
    }
    assert!(batches.next().await.unwrap().is_none());
    // A request with the names of as many ports as a switch has.
    let ports = (0..64).map(|number| format!("{number:032}")).collect();
    let mut batches = client.capture(v1::CaptureRequest { ports, ..Default::default() }).await.unwrap();
    assert!(batches.next().await.unwrap().is_none());
    let wanted = v1::CaptureRequest { ports: vec!["busy".into()], ..Default::default() };
    assert_eq!(client.capture(wanted).await.unwrap_err().to_string(), "another client");
}

/// The switch names the port in its answer and its log.
#[tokio::test]
async fn a_port_of_a_capture_reaches_the_switch_without_escapes() {
    let fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();
    let wanted = v1::CaptureRequest { ports: vec!["a\u{1b}[2J\u{202e}".into()], ..Default::default() };
    assert_eq!(client.capture(wanted).await.unwrap_err().to_string(), "no port a\u{fffd}[2J\u{fffd}");
}

/// Two pieces, one of them longer than a message. Recording 7 and two further ones are kept.
fn recording(duration: Duration) -> Result<Recorded, CommandError> {
    let pieces = vec![vec![1; 5_000_000].into(), vec![2; 3].into()];
    if duration.is_zero() {
        return Ok(Recorded { pieces, number: Some(7), further: 2 });
    }
    if duration > Duration::from_secs(1) {
        return Err(CommandError { reason: ErrorKind::Precondition, message: "somebody else is".into() });
    }
    Ok(Recorded { pieces, ..Recorded::default() })
}

fn acknowledge(recording: u64) -> CommandResult {
    let none = CommandError { reason: ErrorKind::NotFound, message: "there is no such recording".into() };
    if recording == 7 { Ok(Vec::new()) } else { Err(none) }
}

#[tokio::test]
async fn a_recording_arrives_whole_or_with_an_error() {
    let fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();
    let mut pieces = client.record(Duration::from_millis(5)).await.unwrap();
    let mut recording = Vec::new();
    while let Some(piece) = pieces.next().await.unwrap() {
        recording.extend(piece);
    }
    assert!(recording == [vec![1; 5_000_000], vec![2; 3]].concat(), "{} bytes", recording.len());
    assert_eq!((pieces.number(), pieces.further()), (None, 0));
    let refused = client.record(Duration::from_secs(2)).await.unwrap_err();
    assert_eq!(refused.to_string(), "somebody else is");
}

#[tokio::test]
async fn a_kept_recording_has_a_number_by_which_it_is_acknowledged() {
    let fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();
    let mut pieces = client.record(Duration::ZERO).await.unwrap();
    while pieces.next().await.unwrap().is_some() {}
    assert_eq!((pieces.number(), pieces.further()), (Some(7), 2));
    client.acknowledge_recording(7).await.unwrap();
    let refused = client.acknowledge_recording(8).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no such recording");
}

/// Records events of this kind.
fn note(journal: &Journal, kind: &str, count: usize) {
    (0..count).for_each(|_| journal.record(v1::Event { kind: kind.to_owned(), ..v1::Event::default() }));
}

/// Kinds and numbers of the events up to the end, and how many were missed.
async fn all(mut batches: control::client::EventBatches) -> (Vec<(u64, String)>, u64) {
    let (mut events, mut missed) = (Vec::new(), 0);
    while let Some(batch) = batches.next().await.unwrap() {
        missed += batch.missed;
        events.extend(batch.events.into_iter().map(|event| (event.number, event.kind)));
    }
    (events, missed)
}

#[tokio::test]
async fn each_reader_of_events_has_its_own_position() {
    let fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();
    assert_eq!(all(client.events(0, false).await.unwrap()).await, (vec![], 0), "nothing has happened");
    note(&fake.journal, "early", 2);
    note(&fake.journal, "late", 1);
    let named = |number, kind: &str| (number, kind.to_owned());
    let late = || vec![named(3, "late")];
    let everything = vec![named(1, "early"), named(2, "early"), named(3, "late")];
    assert_eq!(all(client.events(0, false).await.unwrap()).await, (everything.clone(), 0));
    assert_eq!(
        all(client.events(0, false).await.unwrap()).await,
        (everything, 0),
        "reading takes nothing away"
    );
    assert_eq!(all(client.events(2, false).await.unwrap()).await, (late(), 0));
    let unborn = client.events(4, false).await.unwrap_err().to_string();
    assert!(unborn.starts_with("the last event is number 3, not yet 4"), "{unborn}");

    // More than are kept: the reader receives the number of missed events.
    note(&fake.journal, "many", 5000);
    let (events, missed) = all(client.events(2, false).await.unwrap()).await;
    assert_eq!((events[0].0, events.len(), missed), (908, 4096, 905), "3 to 907 are gone");
}

#[tokio::test]
async fn a_reader_that_follows_gets_what_happens_and_the_end() {
    let mut fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();
    let mut batches = client.events(0, true).await.unwrap();
    for number in 1..=3 {
        note(&fake.journal, "x", 1);
        let batch = batches.next().await.unwrap().unwrap();
        assert_eq!((batch.events.len(), batch.events[0].number), (1, number));
    }
    // The number of readers is limited.
    let mut others = Vec::new();
    for _ in 1..MAX_EVENT_READERS {
        if others.len() % 4 == 0 {
            client = Client::connect(&fake.socket).await.unwrap();
        }
        others.push(client.events(3, true).await.unwrap());
    }
    let refused = client.events(0, true).await.unwrap_err();
    assert!(refused.to_string().contains("32 clients are reading events already"), "{refused}");
    drop(others);
    until("a slot is free again", async || client.events(0, false).await.is_ok()).await;
    // The switch ends: the last events still arrive.
    note(&fake.journal, "last", 1);
    fake.switch.abort();
    fake.stop.take().unwrap().send(()).unwrap();
    let rest = tokio::time::timeout(Duration::from_secs(10), all(batches)).await.unwrap();
    assert_eq!(rest, (vec![(4, "last".to_owned())], 0));
}

/// Echoes the command, or refuses it.
fn carry_out(order: &Command) -> CommandResult {
    match order {
        Command::HoldPort { port, .. } if port == "nowhere" => {
            Err(CommandError { reason: ErrorKind::NotFound, message: "no such port; there is x".into() })
        }
        Command::SetPfc { enabled: false } => {
            Err(CommandError { reason: ErrorKind::Precondition, message: "first\nsecond".into() })
        }
        Command::HoldPort { port, .. } if port == "many" => Err(CommandError {
            reason: ErrorKind::Invalid,
            message: vec!["… {\"wörds\"}"; 1000].join("\n"),
        }),
        order => Ok(vec![format!("{order:?}"), "and more".into()]),
    }
}

#[tokio::test]
async fn a_client_learns_who_answers_and_gets_snapshots() {
    let fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();

    let info = client.info().await.unwrap();
    assert_eq!((info.name.as_str(), info.version.as_str()), ("fake", "1.2.3"));
    assert_eq!((info.config.as_str(), info.pid), ("/etc/sluice/fake.toml", std::process::id()));
    assert!(info.uptime_ns > 0 && info.recording_most_bytes == 7 << 20);

    let first = client.snapshot().await.unwrap();
    let second = client.read_watermarks().await.unwrap();
    assert_eq!((first.at_ns, first.bridge_entries), (1, 0));
    assert_eq!((second.at_ns, second.bridge_entries), (2, 1), "watermarks are read when asked for");
    for read in [false, true] {
        let mut watch = client.watch(Duration::ZERO, read).await.unwrap();
        assert_eq!(watch.next().await.unwrap().unwrap().bridge_entries, u64::from(read));
    }
}

#[tokio::test]
async fn orders_arrive_and_their_outcome_comes_back() {
    let fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();
    let hold = |port: &str| Command::HoldPort { port: port.into(), held: true };
    let nothing: [String; 0] = [];
    for order in [Command::ClearWatermarks, hold("x"), Command::SetPfc { enabled: true }] {
        assert_eq!(client.execute(order).await.unwrap(), nothing);
    }
    assert_eq!(client.execute(Command::Reload).await.unwrap(), ["Reload", "and more"]);
    // The daemon's message is passed on unchanged.
    let no = client.execute(hold("nowhere")).await.unwrap_err();
    assert_eq!(no.to_string(), "no such port; there is x");
    let no = client.execute(Command::SetPfc { enabled: false }).await.unwrap_err();
    assert!(matches!(&no, ClientError::Declined(message) if message == "first\nsecond"), "{no:?}");
    // A message that is too long for a header is shortened.
    let no = client.execute(hold("many")).await.unwrap_err().to_string();
    assert!(no.starts_with("… {\"wörds\"}\n") && no.ends_with(" more"), "{no}");
    // Large requests are refused.
    let large = client.execute(hold(&"x".repeat(9000))).await.unwrap_err();
    assert!(
        matches!(&large, ClientError::Refused { status, .. } if status.code() == Code::OutOfRange),
        "{large:?}"
    );
}

#[test]
fn a_client_without_async_gets_the_same() {
    let (sender, reported) = std::sync::mpsc::channel();
    let (end, ended) = oneshot::channel::<()>();
    let daemon = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fake = Fake::start();
            sender.send(fake.socket.clone()).unwrap();
            let _ = ended.await;
        });
    });
    let mut client = BlockingClient::connect(&reported.recv().unwrap()).unwrap();
    assert_eq!(client.info().unwrap().name, "fake");
    assert_eq!(client.snapshot().unwrap().at_ns, 1);
    assert_eq!(client.read_watermarks().unwrap().at_ns, 2);
    assert_eq!(client.execute(Command::Reload).unwrap()[0], "Reload");
    end.send(()).unwrap();
    daemon.join().unwrap();
}

#[tokio::test]
async fn a_watcher_gets_one_snapshot_after_the_other_no_faster_than_the_least_interval() {
    let fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();
    let began = Instant::now();
    let mut watch = client.watch(Duration::ZERO, false).await.unwrap();
    for at_ns in 1..=4 {
        assert_eq!(watch.next().await.unwrap().unwrap().at_ns, at_ns);
    }
    assert!(began.elapsed() >= 3 * server::MIN_INTERVAL, "{:?}", began.elapsed());
}

/// A watcher that takes nothing has a bounded cost: the next snapshot is made when there is room
/// for it.
#[tokio::test]
async fn a_watcher_that_takes_nothing_piles_nothing_up() {
    let fake = Fake::start_with(4 << 20); // each snapshot alone is more than the client's window
    let mut client = Client::connect(&fake.socket).await.unwrap();
    let _unread = client.watch(Duration::ZERO, false).await.unwrap();
    until("the first is made", async || fake.made.load(Ordering::Relaxed) > 0).await;
    tokio::time::sleep(20 * server::MIN_INTERVAL).await;
    let made = fake.made.load(Ordering::Relaxed);
    assert!(made <= 2, "{made} snapshots of 4 MiB were made for a client that reads none");
}

#[tokio::test]
async fn watchers_are_bounded_and_a_released_slot_is_free_again() {
    let fake = Fake::start();
    let mut clients = Vec::new();
    let mut watches = Vec::new();
    for _ in 0..MAX_WATCHERS / 4 {
        let mut client = Client::connect(&fake.socket).await.unwrap();
        for _ in 0..4 {
            watches.push(client.watch(Duration::from_secs(60), false).await.unwrap());
        }
        clients.push(client);
    }

    let mut one_more = Client::connect(&fake.socket).await.unwrap();
    match one_more.watch(Duration::from_secs(60), false).await {
        Err(ClientError::Refused { status, .. }) => assert_eq!(status.code(), Code::ResourceExhausted),
        other => panic!("{other:?}"),
    }
    assert!(one_more.snapshot().await.is_ok(), "single questions are still answered");

    watches.pop();
    until("a slot is free", async || one_more.watch(Duration::from_secs(60), false).await.is_ok()).await;
}

/// As many live clients as there are slots.
#[tokio::test]
async fn connections_are_bounded_and_a_released_slot_is_free_again() {
    let fake = Fake::start();
    let mut idle = Vec::new();
    for _ in 0..MAX_CLIENTS {
        let mut client = Client::connect(&fake.socket).await.unwrap();
        client.snapshot().await.unwrap();
        idle.push(client);
    }
    let refused = Client::connect(&fake.socket).await;
    let refused = match refused {
        Ok(mut client) => client.snapshot().await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(refused.is_err(), "one client too many was served");
    for client in &mut idle {
        client.snapshot().await.expect("nobody alive lost a slot");
    }

    idle.pop();
    until("a slot is free", async || match Client::connect(&fake.socket).await {
        Ok(mut client) => client.snapshot().await.is_ok(),
        Err(_) => false,
    })
    .await;
}

/// Twice as many clients as there are slots connect and send nothing, and one watches and takes
/// nothing, since its runtime does not run. A live client is served at its first try, and live
/// clients keep their slots.
#[tokio::test]
async fn idle_clients_are_evicted() {
    let fake = Fake::start_with(1 << 20);
    let mut old = Client::connect(&fake.socket).await.unwrap();
    old.snapshot().await.unwrap();
    let socket = fake.socket.clone();
    let _deaf = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let watch = runtime.block_on(async {
            let mut client = Client::connect(&socket).await.unwrap();
            client.watch(Duration::ZERO, false).await.unwrap()
        });
        (runtime, watch) // which nobody runs any more
    })
    .await
    .unwrap();
    let mut mute = Vec::new();
    for _ in 0..2 * MAX_CLIENTS {
        mute.push(UnixStream::connect(&fake.socket).await.unwrap());
    }
    let mut client = Client::connect(&fake.socket).await.unwrap();
    assert!(client.snapshot().await.unwrap().at_ns > 0);
    assert!(old.snapshot().await.is_ok(), "a live connection keeps its slot");
    std::mem::forget(_deaf); // a runtime must not be dropped inside another
}

/// Invalid bytes on the socket end only that connection.
#[tokio::test]
async fn rubbish_does_not_disturb_other_clients() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();
    let mut rubbish = UnixStream::connect(&fake.socket).await.unwrap();
    rubbish.write_all(&[0xff; 4096]).await.unwrap();
    let mut answer = Vec::new();
    let _ = rubbish.read_to_end(&mut answer).await; // the server hangs up
    assert_eq!(client.snapshot().await.unwrap().at_ns, 1);
}

/// When the switch stops, clients receive an error, and the server ends when asked.
#[tokio::test]
async fn when_the_switch_stops_clients_are_notified_and_the_server_ends() {
    let mut fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();
    let mut watch = client.watch(Duration::ZERO, false).await.unwrap();
    assert!(watch.next().await.unwrap().is_some());

    fake.switch.abort();
    for error in [client.snapshot().await.unwrap_err(), last(watch).await] {
        let text = error.to_string();
        assert!(text.contains("the switch is stopping (Unavailable)"), "{text}");
    }
    fake.stop.take();
    (&mut fake.api).await.unwrap().unwrap();
    let ended = client.snapshot().await.unwrap_err();
    assert!(matches!(ended, ClientError::Ended(_)), "{ended}");
}

/// The error that ends a stream.
async fn last(mut watch: control::client::SnapshotStream) -> ClientError {
    loop {
        match watch.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended without a reason"),
            Err(error) => return error,
        }
    }
}

#[tokio::test]
async fn a_missing_daemon_is_reported_with_the_cure() {
    let missing = Client::connect(Path::new("/nowhere/sluice.sock")).await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "no daemon listens on /nowhere/sluice.sock: the socket does not exist; start one with `sluiced --config FILE` \
         (control.socket in FILE is where it listens)"
    );

    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap()); // the file stays
    let stale = Client::connect(&socket).await.unwrap_err().to_string();
    assert!(stale.contains("dead.sock: the socket is left over from one that was killed"), "{stale}");
}

/// Waits for a condition, not for a time; the time limit only ends a test that has failed.
async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: never");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A daemon that knows none of the calls, as an older one does not know the newest.
#[tokio::test]
async fn a_daemon_of_another_version_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("old.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let clients = futures::stream::unfold(listener, |listener| async move {
        Some((listener.accept().await.map(|(stream, _)| stream), listener))
    });
    let routes = tonic::service::Routes::default();
    tokio::spawn(tonic::transport::Server::builder().add_routes(routes).serve_with_incoming(clients));
    let mut client = Client::connect(&socket).await.unwrap();
    let expected = format!("the daemon on {} is of another version and cannot do that: ", socket.display());
    for error in [
        client.configuration().await.map(drop),
        client.fdb(None, None).await.map(drop),
        client.execute(control::Command::FlushFdb { port: None, vlan: None }).await.map(drop),
    ] {
        let text = error.unwrap_err().to_string();
        assert!(text.starts_with(&expected), "{text}");
    }
}

/// The FDB comes in batches; a VLAN that cannot be is refused.
#[tokio::test]
async fn addresses_come_in_batches() {
    let fake = Fake::start();
    let mut client = Client::connect(&fake.socket).await.unwrap();
    let entries = client.fdb(None, Some(7)).await.unwrap();
    assert_eq!((entries.len(), entries[9_999].vlan), (10_000, 7));
    let refused = client.fdb(None, Some(4095)).await.unwrap_err().to_string();
    assert_eq!(refused, "VLANs are 1 to 4094, and 0 is none");
}
