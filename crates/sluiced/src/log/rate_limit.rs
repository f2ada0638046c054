//! Rate limit of log messages, per statement of the program.
//!
//! Rule: each log statement of the source has a token bucket: [`BURST`] lines at once, and one more
//! each [`REFILL`]. Lines beyond that are suppressed and counted. Every [`REMINDER`], a line
//! reports the number of suppressed lines of each statement. Messages that occur once per command
//! or at the start, and that make no sense with lines missing, are not limited: [`UNLIMITED`].
//! Source: docs/architecture.md, "Logs".

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, debug, error, info, trace, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The target of messages about the log itself; it is never filtered out.
pub(super) const TARGET: &str = "sluiced::log";

/// Lines that a statement may log at once: more than one for each port.
const BURST: u32 = 100;
/// Time after which a statement gets one more token.
const REFILL: Duration = Duration::from_secs(1);
/// Interval of the reports about suppressed lines.
const REMINDER: Duration = Duration::from_secs(10);
/// Targets without a limit: messages about a configuration file, messages about the log, and
/// libbpf's messages about a program that the kernel rejects.
const UNLIMITED: [&str; 3] = ["sluiced::file", TARGET, "libbpf"];
/// Characters of a message that a reminder repeats.
const REPEATED_CHARS: usize = 120;

/// The token bucket of a statement.
#[derive(Debug)]
struct Bucket {
    tokens: u32,
    filled: Instant,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { tokens: BURST, filled: now }
    }

    /// Takes a token, if there is one.
    fn take(&mut self, now: Instant) -> bool {
        let more = (now.saturating_duration_since(self.filled).as_nanos() / REFILL.as_nanos()) as u64;
        let tokens = (u64::from(self.tokens) + more).min(u64::from(BURST)) as u32;
        self.filled = if tokens == BURST { now } else { self.filled + REFILL * more as u32 };
        self.tokens = tokens.saturating_sub(1);
        tokens > 0
    }
}

/// A statement that logs.
#[derive(Debug)]
struct CallSite {
    bucket: Bucket,
    level: Level,
    /// Lines suppressed and not yet reported.
    suppressed: u64,
    /// The first suppressed message.
    message: String,
    since: Instant,
}

/// A report of further lines at this level that were like this message.
#[derive(Debug, PartialEq)]
struct Reminder {
    level: Level,
    left_out: u64,
    message: String,
}

/// The statements that have logged; their number is bounded by the source.
#[derive(Debug, Default)]
pub struct Limits {
    sites: Mutex<HashMap<Identifier, CallSite>>,
    left_out: AtomicU64,
}

impl Limits {
    /// Lines suppressed since the start.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Relaxed)
    }

    /// True if a statement may log now. `message` is called only for the first line that is
    /// suppressed.
    fn admit(&self, metadata: &Metadata<'_>, now: Instant, message: impl FnOnce() -> String) -> bool {
        if UNLIMITED.contains(&metadata.target()) {
            return true;
        }
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let site = sites.entry(metadata.callsite()).or_insert_with(|| CallSite {
            bucket: Bucket::new(now),
            level: *metadata.level(),
            suppressed: 0,
            message: String::new(),
            since: now,
        });
        let admitted = site.bucket.take(now);
        if !admitted {
            if site.suppressed == 0 {
                (site.since, site.message) = (now, message());
            }
            site.suppressed += 1;
            self.left_out.fetch_add(1, Relaxed);
        }
        admitted
    }

    /// Returns the suppressed lines that are due to be reported, or all of them.
    fn due(&self, now: Instant, all: bool) -> Vec<Reminder> {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = |site: &&mut CallSite| site.suppressed > 0 && (all || now >= site.since + REMINDER);
        let due = sites.values_mut().filter(is_due);
        let reported = due.map(|site| Reminder {
            level: site.level,
            left_out: std::mem::take(&mut site.suppressed),
            message: std::mem::take(&mut site.message),
        });
        reported.collect()
    }

    /// Logs the number of suppressed lines where that is due, or all of them.
    pub fn remind(&self, now: Instant, all: bool) {
        for Reminder { level, left_out, message } in self.due(now, all) {
            match level {
                Level::ERROR => error!(target: TARGET, "{left_out} more like this: {message}"),
                Level::WARN => warn!(target: TARGET, "{left_out} more like this: {message}"),
                Level::INFO => info!(target: TARGET, "{left_out} more like this: {message}"),
                Level::DEBUG => debug!(target: TARGET, "{left_out} more like this: {message}"),
                Level::TRACE => trace!(target: TARGET, "{left_out} more like this: {message}"),
            }
        }
    }
}

/// The rate limits as a filter of all log messages.
#[derive(Debug)]
pub struct LimitLayer(pub Arc<Limits>);

impl<S: Subscriber> Layer<S> for LimitLayer {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let message = || {
            let mut text = Text(String::new());
            event.record(&mut text);
            text.0.chars().take(REPEATED_CHARS).collect()
        };
        self.0.admit(event.metadata(), Instant::now(), message)
    }
}

/// The message of an event, without its other fields.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn a_bucket_gives_its_burst_and_then_one_each_refill() {
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        let mut given =
            |after: Duration, tries: u32| (0..tries).filter(|_| bucket.take(start + after)).count() as u32;
        assert_eq!(given(Duration::ZERO, 3 * BURST), BURST);
        assert_eq!(given(REFILL - Duration::from_nanos(1), 5), 0);
        assert_eq!(given(REFILL, 5), 1);
        assert_eq!(given(REFILL * 7 / 2, 5), 2, "half a token is kept …");
        assert_eq!(given(REFILL * 4, 5), 1, "… and is a whole one with the other half");
        assert_eq!(given(REFILL * 1000, 3 * BURST), BURST, "no more than a burst is saved up");
    }

    /// Logs a flood of one message, two of another, and one without a limit, as the rest of the
    /// program does.
    #[test]
    fn a_flood_is_cut_off_counted_and_reported_and_others_are_not() {
        let limits = Arc::new(Limits::default());
        let subscriber = tracing_subscriber::registry().with(LimitLayer(limits.clone()));
        tracing::subscriber::with_default(subscriber, || {
            (0..BURST + 7).for_each(|n| warn!(port = n, "the port is {}", "down"));
            (0..2).for_each(|_| error!("another"));
            (0..BURST + 7).for_each(|_| warn!(target: "sluiced::file", "a mistake"));
        });
        assert_eq!(limits.left_out(), 7);
        let now = Instant::now();
        assert_eq!(limits.due(now, false), [], "not yet");
        let reported = Reminder { level: Level::WARN, left_out: 7, message: "the port is down".to_owned() };
        assert_eq!(limits.due(now + REMINDER, false), [reported]);
        assert_eq!((limits.due(now + REMINDER, true), limits.left_out()), (vec![], 7), "reported once");
    }
}
