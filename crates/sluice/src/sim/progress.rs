//! Progress of a run: one line on standard error that is redrawn.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use super::format::{in_words, time};

/// Interval between two updates of the line.
const EVERY: Duration = Duration::from_millis(200);

/// The progress line.
pub struct Progress {
    is_shown: bool,
    duration_ns: u64,
    start: Instant,
    drawn_at: Instant,
}

impl Progress {
    /// Starts the progress of a run of this virtual time. Nothing is drawn without a terminal, or
    /// if `quiet`.
    pub fn new(duration_ns: u64, quiet: bool) -> Self {
        let now = Instant::now();
        Self { is_shown: !quiet && std::io::stderr().is_terminal(), duration_ns, start: now, drawn_at: now }
    }

    /// Updates the progress.
    pub fn at(&mut self, now_ns: u64, frame_hops: u64) {
        if !self.is_shown || self.drawn_at.elapsed() < EVERY {
            return;
        }
        self.drawn_at = Instant::now();
        self.draw(&line(now_ns, self.duration_ns, frame_hops, self.start.elapsed()));
    }

    /// Removes the line at the end of the run. Returns the elapsed time.
    pub fn end(self) -> Duration {
        if self.is_shown {
            self.draw("");
        }
        self.start.elapsed()
    }

    /// Overwrites the line. Failure to write progress does not end the run.
    fn draw(&self, text: &str) {
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "\r{text}\x1b[K").and_then(|()| out.flush());
    }
}

fn line(now_ns: u64, duration_ns: u64, frame_hops: u64, elapsed: Duration) -> String {
    let share = now_ns as f64 / duration_ns.max(1) as f64;
    let seconds = elapsed.as_secs_f64().max(1e-9);
    let left = seconds * (1.0 - share) / share.max(1e-9);
    format!(
        "{:3.0} %  {} of {}  {} frame-hops/s  {} left",
        share * 100.0,
        time(now_ns),
        time(duration_ns),
        in_words(frame_hops as f64 / seconds),
        if now_ns == 0 { "?".to_owned() } else { spell_wait(left) },
    )
}

/// Formats a wait: 42 s, 7 min, 2.5 h.
fn spell_wait(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 99.5 => format!("{seconds:.0} s"),
        seconds if seconds < 5_970.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_line() {
        for (now_ns, frame_hops, seconds, text) in [
            (0, 0, 0, "  0 %  0 ns of 20 ms  0 frame-hops/s  ? left"),
            (5_000_000, 12_000_000, 4, " 25 %  5 ms of 20 ms  3 million frame-hops/s  12 s left"),
            (200_000, 12_000_000, 30, "  1 %  200 us of 20 ms  400,000 frame-hops/s  50 min left"),
            (20_000_000, 48_000_000, 16, "100 %  20 ms of 20 ms  3 million frame-hops/s  0 s left"),
        ] {
            assert_eq!(line(now_ns, 20_000_000, frame_hops, Duration::from_secs(seconds)), text);
        }
    }
}
