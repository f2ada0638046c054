//! `sluice record` and `sluice replay`: a recording of a running loop, and its replay by the same
//! switch (docs/monitoring/recorder.md).
//!
//! A file is a recording, compressed with gzip, whose checksum detects a damaged file. A recording
//! begins with a title line, which has its version.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use control::client::RecordingStream;
use control::v1;
use dataplane::Replay;
use dataplane::flight_recorder::replay::Totals;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use host::units::duration_ns;
use serde_json::json;
use switch::monitor::counters::PortSnapshot;
use switch::{Event, EventRecord, Instant, Snapshot};

use crate::exit::misuse;
use crate::new_file::NewFile;
use crate::output;
use crate::show::{self, View};
use crate::socket::Daemon;

/// The most events that a replay prints.
const MAX_EVENTS: usize = 100_000;

/// Record the inputs of a running switch, to the frame and the nanosecond.
#[derive(Args)]
#[command(after_long_help = "\
Received frames (headers and lengths), transmitted frames, and when: all that affects the switch. \
`sluice replay FILE` runs the same switch through it and shows any moment of it, to the cell. \
Recording costs the loop little, and nothing while it is off; frames' contents beyond their first \
40 bytes are not kept.

With [recorder] always = true in the daemon's file the last of it is always kept, and a loss freezes \
a copy: --last fetches that, the oldest first. The daemon keeps it until it is in FILE, whatever \
happens on the way.")]
pub struct Record {
    /// Where the recording goes.
    file: PathBuf,
    /// Record from now on for this time, as in 500ms or 10s; an hour at most. What the daemon has
    /// kept comes first.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration_ns)]
    duration: u64,
    /// Fetch what the daemon has kept, instead.
    #[arg(long, conflicts_with = "duration")]
    last: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Replay a recording, and show the switch at any moment.
#[derive(Args)]
#[command(after_long_help = "\
The replay compares every frame that leaves, every event, and each second the whole state with the \
recording. At the first difference it reports it and ends: the recording is then of another version of \
Sluice. Times are those of the daemon, since its start.

JSON: turns, received_frames, sent_frames, checkpoints, gaps, from_ns, to_ns; events[] with at_ns \
and event, the last 100,000; events_left_out before these; and `snapshot`, as `sluice show VIEW --json` prints it.")]
pub struct Arguments {
    /// The recording.
    file: PathBuf,
    /// Stop this time after the recording's beginning, as in 2.5s or 1200us, and show the switch as
    /// it was then.
    #[arg(long, value_name = "TIME", value_parser = duration_ns)]
    at: Option<u64>,
    /// What to show.
    #[arg(long, value_enum, default_value = "buffers")]
    view: View,
    /// Only this port.
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// With `buffers` and `queues`: sizes in bytes of cells instead of cells.
    #[arg(long, conflicts_with = "json")]
    bytes: bool,
    /// Print every event, too.
    #[arg(long)]
    events: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Requests a recording from the daemon and writes it to the file. A recording that the daemon
/// keeps is acknowledged once the file is on the disk.
pub fn record(arguments: &Record) -> Result<()> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let duration = Duration::from_nanos(if arguments.last { 0 } else { arguments.duration });
    if !arguments.last && !(1_000_000..=HOUR_NS).contains(&arguments.duration) {
        return misuse(format!("--duration takes 1ms to 3600s, not {duration:?}"));
    }
    let name = arguments.file.display().to_string();
    // Whether the file can be written is checked before anything is recorded.
    let mut file = NewFile::create(&arguments.file).with_context(|| name.clone())?;
    let (bytes, further) = arguments.daemon.talk(async |client| {
        if !arguments.last {
            let most_bytes = client.info().await?.recording_most_bytes;
            // An older daemon does not tell.
            file.reserve(most_bytes.max(1)).with_context(|| {
                format!("{name} (a recording takes what [recorder] memory_mib of the daemon allows, before its compression)")
            })?;
            eprintln!("recording for {duration:?} …");
        }
        let mut pieces = client.record(duration).await?;
        let stored = store(file, &mut pieces).await.with_context(|| match pieces.number() {
            Some(_) => format!("{name} (the daemon keeps the recording: fetch it again with --last)"),
            None => name.clone(),
        });
        let bytes = stored?;
        if let Some(number) = pieces.number() {
            client.acknowledge_recording(number).await.with_context(|| {
                format!("{name} is complete, but the daemon did not learn of it, and keeps the recording")
            })?;
        }
        Ok((bytes, pieces.further()))
    })?;
    let bytes = output::grouped(bytes);
    output::print(&format!("{bytes} bytes were recorded; `sluice replay {name}` shows them."))?;
    match further {
        0 => Ok(()),
        1 => output::print("One more recording of a loss is kept: fetch it with --last, too."),
        more => output::print(&format!("{more} more recordings of losses are kept: fetch each with --last.")),
    }
}

/// Writes all pieces to the file, and makes the file visible. Returns the bytes of the recording.
async fn store(file: NewFile, pieces: &mut RecordingStream) -> Result<u64> {
    let mut out = GzEncoder::new(file, Compression::fast());
    let mut bytes = 0_u64;
    while let Some(piece) = pieces.next().await? {
        out.write_all(&piece)?;
        bytes += piece.len() as u64;
    }
    if bytes == 0 {
        bail!("nothing was recorded: the loop slept all the time");
    }
    out.finish()?.publish()?;
    Ok(bytes)
}

/// Opens the recording in a file, which is read and decompressed as the replay proceeds.
pub fn open(file: &Path) -> Result<FileReplay> {
    let name = || file.display().to_string();
    let reader = File::open(file).with_context(|| format!("cannot read {}", name()))?;
    let reader = BufReader::new(reader);
    Replay::new(BufReader::new(MultiGzDecoder::new(reader))).with_context(name)
}

/// What [`open`] returns.
pub type FileReplay = Replay<BufReader<MultiGzDecoder<BufReader<File>>>>;

/// Returns the message of a replayed state, which is what a daemon would have answered.
pub fn message_of(snapshot: &Snapshot) -> v1::Snapshot {
    let mut message = v1::Snapshot { pfc_enabled: true, ..snapshot.into() };
    message.ports.retain(|port| !port.name.is_empty()); // vacant slots
    message
}

/// Returns the names of all slots, for the events of their ports.
pub fn port_names(snapshot: &Snapshot) -> Vec<String> {
    let name = |port: &PortSnapshot| match port.name.as_str() {
        "" => format!("number {}, which was removed,", port.number),
        name => name.to_owned(),
    };
    snapshot.ports.iter().map(name).collect()
}

/// The last events of a replay, and the number of those before.
#[derive(Default)]
struct LastEvents {
    kept: VecDeque<(Instant, Event)>,
    left_out: u64,
}

impl LastEvents {
    fn push(&mut self, at: Instant, event: Event) {
        if self.kept.len() >= MAX_EVENTS {
            self.kept.pop_front();
            self.left_out += 1;
        }
        self.kept.push_back((at, event));
    }
}

/// Runs the switch through the recording and prints its state.
pub fn replay(arguments: &Arguments) -> Result<()> {
    let name = || arguments.file.display().to_string();
    let mut replay = open(&arguments.file)?;
    let mut events = LastEvents::default();
    let mut note = |at, event| events.push(at, event);
    // The first entry is replayed, to have a start time to count from.
    replay.run_until(Instant(1), &mut note).with_context(name)?;
    let end = arguments.at.map_or(Instant::NEVER, |at| replay.totals().from + at);
    replay.run_until(end, &mut note).with_context(name)?;
    let snapshot = replay.snapshot().context("the recording is empty")?;
    let message = show::only(&message_of(&snapshot), arguments.port.as_deref())?;
    let names = port_names(&snapshot);
    if arguments.json {
        let Totals { turns, received_frames, sent_frames, checkpoints, gaps, from, to } = *replay.totals();
        let listed = events.kept.iter();
        let listed = listed.map(|&(at, event)| json!({ "at_ns": at.0, "event": text(event, &names) }));
        return output::print(&output::json(
            &json!({
                "turns": turns, "received_frames": received_frames, "sent_frames": sent_frames,
                "checkpoints": checkpoints, "gaps": gaps, "from_ns": from.0, "to_ns": to.0,
                "events": listed.collect::<Vec<_>>(), "events_left_out": events.left_out,
                "snapshot": show::document(arguments.view, &message),
            }),
            true,
        )?);
    }
    if arguments.events {
        if events.left_out > 0 {
            let left_out = output::grouped(events.left_out);
            output::print(&format!("{left_out} earlier events are left out"))?;
        }
        let line = |&(at, event): &(Instant, Event)| format!("{}  {}", seconds(at.0), text(event, &names));
        output::print(&(events.kept.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"))?;
    }
    let table = show::text(arguments.view, &message, arguments.bytes);
    let count = events.kept.len() as u64 + events.left_out;
    output::print(&format!("{}\n\n{table}", summary(replay.totals(), count)))
}

/// Summarizes how far the replay came and what matched.
fn summary(totals: &Totals, events: u64) -> String {
    let gaps = match totals.gaps {
        0 => String::new(),
        1 => " The recorder had to leave something out once.".to_owned(),
        gaps => format!(" The recorder had to leave something out {gaps} times."),
    };
    format!(
        "{} s from {} s on: {} turns, {} frames in, {} out, {} events.\n\
         Equal to the recording in every frame sent, every event and at {} checkpoints.{gaps}",
        seconds(totals.to.since(totals.from)),
        seconds(totals.from.0),
        output::grouped(totals.turns),
        output::grouped(totals.received_frames),
        output::grouped(totals.sent_frames),
        output::grouped(events),
        totals.checkpoints
    )
}

fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn text(event: Event, names: &[String]) -> String {
    let v1::Event { port, message, .. } = event_of(Instant(0), event, names);
    port.map_or(message.clone(), |name| format!("{name}: {message}"))
}

/// Returns a replayed event as a daemon would have reported it, without its number and the time of
/// day.
pub fn event_of(at: Instant, event: Event, names: &[String]) -> v1::Event {
    let EventRecord { port, message, severity, .. } = event.describe();
    let port = port.and_then(|port| names.get(port)).cloned();
    let message = match &port {
        Some(name) => message.replace(switch::monitor::event_text::PORT, name),
        None => message,
    };
    v1::Event { at_ns: at.0, severity: severity.name().to_owned(), port, message, ..v1::Event::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dataplane::flight_recorder::recorder::title;
    use std::io::Read;

    #[test]
    fn a_file_that_is_no_recording_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.recording");
        let refusal = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let replayed = open(&path).and_then(|mut replay| {
                replay.run_until(Instant::NEVER, &mut |_, _| {}).map_err(anyhow::Error::from)
            });
            format!("{:#}", replayed.unwrap_err()).replace(&path.display().to_string(), "FILE")
        };
        let gzip = |bytes: &[u8]| {
            let mut out = GzEncoder::new(Vec::new(), Compression::fast());
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        };
        let none = "FILE: this is no recording: make one with `sluice record FILE`";
        assert_eq!(refusal(b"port,rx\n"), none);
        assert_eq!(refusal(&gzip(b"something")), none);
        let older = refusal(&gzip(b"sluice recording 3\nsomething"));
        assert!(older.starts_with("FILE: the recording has version 3, and this sluice replays"), "{older}");
        let empty = title();
        let mut whole = gzip(empty.as_bytes());
        std::fs::write(&path, &whole).unwrap();
        open(&path).unwrap().run_until(Instant::NEVER, &mut |_, _| {}).unwrap();
        let checksum = whole.len() - 6;
        whole[checksum] ^= 1;
        assert!(refusal(&whole).starts_with("the recording is damaged: corrupt gzip"), "{}", refusal(&whole));
        let other = refusal(&gzip(&[empty.as_bytes(), &[7; 500]].concat()));
        assert!(other.starts_with("the recording is damaged: a chunk of"), "{other}");
        let missing = format!("{:#}", open(&folder.path().join("none")).err().unwrap());
        assert!(missing.contains("No such file"), "{missing}");
    }

    /// Zeros without end, after a chunk that claims to be long: no more than a chunk is read.
    #[test]
    fn a_hostile_file_is_read_in_bounded_memory() {
        struct Zeros {
            head: Vec<u8>,
            most_at_once: usize,
        }
        impl Read for Zeros {
            fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
                self.most_at_once = self.most_at_once.max(out.len());
                let head = self.head.len().min(out.len());
                out[..head].copy_from_slice(&self.head[..head]);
                self.head.drain(..head);
                out[head..].fill(0);
                Ok(out.len())
            }
        }
        for claimed in [u32::MAX, 17 << 20, 16 << 20] {
            let head = [title().as_bytes(), &[1], &claimed.to_le_bytes()].concat();
            let mut zeros = Zeros { head, most_at_once: 0 };
            let error = Replay::new(&mut zeros)
                .and_then(|mut replay| replay.run_until(Instant::NEVER, &mut |_, _| {}));
            assert!(error.unwrap_err().to_string().contains("damaged"));
            assert!(zeros.most_at_once <= 16 << 20, "{} bytes at once", zeros.most_at_once);
        }
    }

    #[test]
    fn the_last_events_are_kept_and_the_others_counted() {
        let mut events = LastEvents::default();
        (0..MAX_EVENTS as u64 + 7).for_each(|at| events.push(Instant(at), Event::PortUp { port: 0 }));
        assert_eq!((events.kept.len(), events.left_out, events.kept[0].0), (MAX_EVENTS, 7, Instant(7)));
    }

    #[test]
    fn a_summary_lists_what_was_compared() {
        let totals = Totals {
            turns: 12_345,
            received_frames: 1_000_000,
            sent_frames: 999_000,
            checkpoints: 2,
            gaps: 1,
            from: Instant(1_500_000_000),
            to: Instant(4_000_000_001),
        };
        insta::assert_snapshot!(summary(&totals, 17), @r"
        2.500000001 s from 1.500000000 s on: 12,345 turns, 1,000,000 frames in, 999,000 out, 17 events.
        Equal to the recording in every frame sent, every event and at 2 checkpoints. The recorder had to leave something out once.
        ");
    }
}
