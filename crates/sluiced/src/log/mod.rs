//! The daemon's log: lines on standard error, limited in rate ([`rate_limit`]) and written by a
//! thread of their own ([`writer`]), so that a slow or closed reader of the log never delays the
//! switch. Source: docs/architecture.md, "Logs".

mod rate_limit;
mod writer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use control::LogCounts;
use tracing::error;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use rate_limit::{LimitLayer, Limits, TARGET};
use writer::Writer;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// An object.
    Json,
    /// For journald: a priority first, and no time, which the journal has.
    #[value(skip)]
    Journal,
}

impl Format {
    /// Returns the format of a standard error that is the journal, if this one is text.
    fn of_output(self) -> Self {
        let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        let is_journal = std::fs::metadata("/dev/stderr").is_ok_and(|stderr| is_stream(&stream, &stderr));
        if self == Format::Text && is_journal { Format::Journal } else { self }
    }
}

/// True if `JOURNAL_STREAM`, as in `8:12345`, is this file (systemd.exec(5)).
fn is_stream(stream: &str, file: &std::fs::Metadata) -> bool {
    stream == format!("{}:{}", file.dev(), file.ino())
}

/// Lines with the priority of their level (sd-daemon(3)), which journald takes from them.
struct JournalLines;

impl<S, N> FormatEvent<S, N> for JournalLines
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: tracing_subscriber::fmt::format::Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> std::fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        let line = tracing_subscriber::fmt::format().without_time().with_level(false).with_ansi(false);
        line.format_event(context, writer, event)
    }
}

/// Returns the priority of syslog(3) for a level.
fn priority(level: tracing::Level) -> u8 {
    match level {
        tracing::Level::ERROR => 3,
        tracing::Level::WARN => 4,
        tracing::Level::INFO => 6,
        _ => 7,
    }
}

/// The running log.
#[derive(Clone)]
pub struct Log {
    writer: Writer,
    limits: Arc<Limits>,
    format: Format,
}

impl Log {
    /// Starts to write log messages and panics to standard error, at `level`, or at the level of
    /// `RUST_LOG`, or from info upwards.
    ///
    /// # Errors
    /// The level is invalid, or no thread could be started.
    pub fn to_stderr(level: Option<&str>, format: Format) -> Result<Self, String> {
        let format = format.of_output();
        let from_environment = std::env::var(EnvFilter::DEFAULT_ENV).ok();
        let wanted =
            level.or(from_environment.as_deref()).filter(|wanted| !wanted.is_empty()).unwrap_or("info");
        let filter = EnvFilter::try_new(wanted).map_err(|error| {
            format!(
                "cannot log at `{wanted}`: {error}; try error, warn, info, debug or trace, or MODULE=LEVEL"
            )
        })?;
        let filter = filter.add_directive(format!("{TARGET}=trace").parse().expect("a directive"));
        let colors = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();

        let limits = Arc::new(Limits::default());
        let writer = Writer::start(std::io::stderr(), limits.clone())
            .map_err(|error| format!("cannot start the thread that writes the log: {error}"))?;
        let lines = tracing_subscriber::fmt::layer().with_writer(writer.clone()).with_ansi(colors);
        let lines = match format {
            Format::Text => lines.boxed(),
            Format::Journal => lines.with_ansi(false).event_format(JournalLines).boxed(),
            Format::Json => lines.json().flatten_event(true).with_ansi(false).boxed(),
        };
        tracing_subscriber::registry().with(lines).with(filter).with(LimitLayer(limits.clone())).init();
        std::panic::set_hook(Box::new(log_panic));
        Ok(Self { writer, limits, format })
    }

    /// Writes a line unchanged, at any level; as an object where all lines are objects.
    pub fn log(&self, line: &str) {
        match self.format {
            Format::Text => self.writer.put(format!("{line}\n").as_bytes()),
            Format::Journal => self.writer.put(format!("<3>{line}\n").as_bytes()),
            Format::Json => error!(target: TARGET, "{line}"),
        }
    }

    /// Keeps the writer's thread off a core, as soon as possible.
    pub fn leave_core(&self, core: usize) {
        self.writer.leave_core(core);
    }

    /// Waits for queued lines to be written, for a limited time.
    pub fn flush(&self) {
        self.writer.flush();
    }

    /// Counts the lines that did not reach the reader of the log.
    pub fn counts(&self) -> LogCounts {
        LogCounts { lost: self.writer.lost(), left_out: self.limits.left_out() }
    }
}

/// Logs a panic like any other message: the panicking thread may be the poll loop, which must end
/// rather than wait.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let text = panic.to_string().replace('\n', " ");
    error!(target: TARGET, "thread {} {text}", thread.name().unwrap_or("without a name"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        backtrace.to_string().lines().for_each(|line| error!(target: TARGET, "{line}"));
    }
}
