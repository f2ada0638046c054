//! `sluice capture`: the frames of a running switch as pcapng.

pub mod pcapng;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use control::v1;
use host::units::duration_ns;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::capture::pcapng::CaptureFile;
use crate::exit::misuse;
use crate::new_file::NewFile;
use crate::output;
use crate::socket::Daemon;

/// Capture frames as pcapng: received, sent, dropped with the reason.
#[derive(Args)]
#[command(after_long_help = "\
tcpdump does not see the frames of an AF_XDP port; this does, from inside the switch. Each port is an \
interface of the file; a dropped frame has the reason as its comment (`frame.comment` in tshark), and \
so has a frame that left with an ECN mark of the switch. PFC and PAUSE are there in both directions. \
Times are those at which the switch took a frame, or handed it to the kernel, in nanoseconds.

The capture ends with the first of --count, --mib, --duration, Ctrl-C, SIGTERM. The switch forwards as \
without it: frames that come faster than they can be passed on are left out and counted.

JSON: file, frames, bytes, missed_frames, ended_by (count, bytes, duration, interrupt, daemon).")]
pub struct Arguments {
    /// Where the capture goes; `-` for standard output, as to `tshark -r -`.
    #[arg(short, long, value_name = "FILE")]
    write: PathBuf,
    /// Only this port; may be repeated. A dropped frame belongs to the port that received it, and
    /// to the one that had no room for it.
    #[arg(long, value_name = "NAME")]
    port: Vec<String>,
    /// Only frames that ports receive, or that leave them.
    #[arg(long, value_enum, value_name = "DIRECTION")]
    direction: Option<Direction>,
    /// Only these priorities; pauses that name one of them, too.
    #[arg(long, value_name = "0-7", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=7))]
    priority: Vec<u8>,
    /// Only frames with which this was done.
    #[arg(long, value_enum, value_name = "VERDICT", value_delimiter = ',')]
    verdict: Vec<FrameVerdict>,
    /// End after this many frames.
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End before the file becomes larger, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    mib: u64,
    /// End after this time, as in 500ms or 10s.
    #[arg(long, value_name = "TIME", value_parser = duration_ns)]
    duration: Option<u64>,
    /// Bytes that are kept of each frame.
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u16).range(64..=9234))]
    snap: u16,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// A direction, as seen from the switch.
#[derive(Clone, Copy, ValueEnum)]
enum Direction {
    /// Received.
    In,
    /// Leaving.
    Out,
}

/// What was done with a frame.
#[derive(Clone, Copy, ValueEnum)]
enum FrameVerdict {
    /// Received and accepted, or transmitted.
    Forwarded,
    /// Transmitted with an ECN mark of this switch.
    Marked,
    /// Dropped.
    Dropped,
    /// PFC and PAUSE frames.
    Pause,
    /// LLDP, for the switch itself.
    Consumed,
}

/// What a capture has taken.
#[derive(Debug)]
struct Captured {
    frames: u64,
    bytes: u64,
    missed: u64,
    ended_by: &'static str,
}

/// Captures, and reports how much.
pub fn run(arguments: &Arguments) -> Result<()> {
    let to_stdout = arguments.write == Path::new("-");
    if to_stdout && arguments.json {
        return misuse(
            "--json and the capture itself cannot both be on standard output: name a file with --write",
        );
    }
    const LONGEST_NS: u64 = u32::MAX as u64 * 1_000_000;
    if arguments.duration.is_some_and(|nanos| !(1_000_000..=LONGEST_NS).contains(&nanos)) {
        return misuse("--duration takes 1ms to 49 days");
    }
    let captured = if to_stdout {
        let out = BufWriter::new(io::stdout().lock());
        arguments.daemon.talk(async |client| Ok(capture(arguments, client, out).await?.1))?
    } else {
        let name = arguments.write.display().to_string();
        let file = NewFile::create(&arguments.write).with_context(|| name.clone())?;
        arguments.daemon.talk(async |client| {
            let (out, captured) = capture(arguments, client, BufWriter::new(file)).await?;
            let file = out.into_inner().map_err(io::IntoInnerError::into_error);
            file.and_then(NewFile::publish).with_context(|| name.clone())?;
            Ok(captured)
        })?
    };
    report(arguments, &captured, to_stdout)
}

/// Writes what the daemon captures, until a bound is reached.
async fn capture<W: Write>(
    arguments: &Arguments,
    client: &mut control::Client,
    out: W,
) -> Result<(W, Captured)> {
    let mut batches = client.capture(request(arguments)).await?;
    write_all(arguments, async || Ok(batches.next().await?), out).await
}

/// Writes batches as they come, until there are no more, or a bound or a signal ends it.
async fn write_all<W: Write>(
    arguments: &Arguments,
    mut next: impl AsyncFnMut() -> Result<Option<v1::CaptureBatch>>,
    out: W,
) -> Result<(W, Captured)> {
    // Kept across batches: a signal that arrives together with a batch must not be lost.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let name = || arguments.write.display().to_string();
    let mut file = CaptureFile::new(out, arguments.snap.into()).with_context(name)?;
    let (mut missed, mut ended_by) = (0, None);
    let mut has_begun = false;
    while ended_by.is_none() {
        let batch = tokio::select! {
            batch = next() => batch,
            _ = interrupt.recv() => { ended_by = Some("interrupt"); break }
            _ = terminate.recv() => { ended_by = Some("interrupt"); break }
        };
        let Some(batch) = batch? else { break };
        if !std::mem::replace(&mut has_begun, true) {
            eprintln!("capturing; Ctrl-C ends it …");
        }
        missed = batch.missed_frames;
        ended_by = write(arguments, &mut file, batch).with_context(name)?;
        file.flush().with_context(name)?;
    }
    let (frames, bytes) = (file.frames(), file.bytes());
    let is_whole = arguments.count.is_some_and(|count| frames >= count);
    let other = if arguments.duration.is_some() { "duration" } else { "daemon" };
    let ended_by = ended_by.unwrap_or(if is_whole { "count" } else { other });
    if ended_by == "daemon" && frames == 0 {
        bail!("the daemon ended the capture before there was a frame");
    }
    Ok((file.end(missed).with_context(name)?, Captured { frames, bytes, missed, ended_by }))
}

/// Writes frames. Returns the bound that was reached, if one was.
fn write<W: Write>(
    arguments: &Arguments,
    file: &mut CaptureFile<W>,
    batch: v1::CaptureBatch,
) -> Result<Option<&'static str>> {
    file.add_ports(batch.ports)?;
    for frame in &batch.frames {
        if !file.has_room(frame, arguments.mib << 20) {
            return Ok(Some("bytes"));
        }
        file.add(frame)?;
    }
    Ok(None)
}

fn request(arguments: &Arguments) -> v1::CaptureRequest {
    let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        value().map(|value| value.get_name().to_owned())
    };
    v1::CaptureRequest {
        ports: arguments.port.clone(),
        directions: arguments
            .direction
            .iter()
            .filter_map(|value| name(&|| value.to_possible_value()))
            .collect(),
        priorities: arguments.priority.iter().map(|&priority| priority.into()).collect(),
        verdicts: arguments.verdict.iter().filter_map(|value| name(&|| value.to_possible_value())).collect(),
        snap_bytes: arguments.snap.into(),
        max_frames: arguments.count.unwrap_or(0),
        duration_ms: arguments.duration.map_or(0, |nanos| (nanos / 1_000_000) as u32),
    }
}

/// Reports how much was captured: as JSON, or in a line, which is on standard error if the capture
/// itself is on standard output.
fn report(arguments: &Arguments, captured: &Captured, to_stdout: bool) -> Result<()> {
    let Captured { frames, bytes, missed, ended_by } = captured;
    let file = arguments.write.display().to_string();
    if arguments.json {
        let object = json!({ "file": file, "frames": frames, "bytes": bytes, "missed_frames": missed, "ended_by": ended_by });
        return output::print(&object.to_string());
    }
    let mut line = format!("{} frames, {} bytes", output::grouped(*frames), output::grouped(*bytes));
    if !to_stdout {
        line += &format!(" in {file}");
    }
    if *ended_by == "bytes" {
        line += &format!(": no more fit {} MiB (--mib)", arguments.mib);
    }
    if *missed > 0 {
        line += &format!(
            "\n{} frames are missing: they came too fast; capture fewer (--port, --verdict) or less of each (--snap)",
            output::grouped(*missed)
        );
    }
    if to_stdout {
        eprintln!("{line}");
        return Ok(());
    }
    output::print(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use nix::sys::signal::{Signal, raise};

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        capture: Arguments,
    }

    /// A file to which SIGINT comes once, after the first batch.
    struct Interrupted {
        is_past: bool,
    }

    impl Write for Interrupted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            if !std::mem::replace(&mut self.is_past, true) {
                raise(Signal::SIGINT)?;
            }
            Ok(())
        }
    }

    /// Whether select looks at the batch or at the signal first is chance: many tries.
    #[test]
    fn ctrl_c_ends_a_capture_whose_frames_never_pause() {
        let line =
            CommandLine::try_parse_from(["capture", "--write", "x.pcapng", "--mib", "1"]).expect("parses");
        let frame = v1::CapturedFrame { length_bytes: 1000, bytes: vec![0; 1000], ..Default::default() };
        let ports = vec![v1::CapturePort { name: "a".into(), ..Default::default() }];
        let batch = v1::CaptureBatch { ports, frames: vec![frame], ..Default::default() };
        let endless = async || {
            tokio::task::yield_now().await; // signals are noticed while nothing else runs
            Ok(Some(batch.clone()))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        for _ in 0..50 {
            let out = Interrupted { is_past: false };
            let (_, captured) =
                runtime.block_on(write_all(&line.capture, endless, out)).expect("nothing fails");
            assert!(captured.ended_by == "interrupt" && captured.frames < 10, "{captured:?}");
        }
    }
}
