//! Frames by a file: when each is ready to be sent, and how long it is.
//!
//! Rule: a line has a time in nanoseconds since the start of the traffic, the bytes of a frame
//! without FCS, and optionally how many such frames are ready then. Times never decrease. `#`
//! begins a comment. All flows of the traffic send the same frames.

use std::ops::RangeInclusive;

use config::read::toml_document::{Diagnostics, Setting, quoted};
use switch::Nanos;

use super::super::parse::{Load, MAX_TIME_NS};

/// The most frames of a file, and of all files of a scenario.
pub(super) const MAX_FRAMES: u64 = 1 << 24;

/// Frames of equal length that are ready at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRun {
    /// Time since the start of the traffic.
    pub at_ns: Nanos,
    /// Length of each frame without FCS.
    pub len: u16,
    /// Number of frames, at least 1.
    pub frames: u32,
}

/// The frames of a file, in the order of time; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameTrace {
    runs: Vec<TraceRun>,
}

impl FrameTrace {
    /// The lengths of frames without FCS. The shortest on a link has 60 bytes without a tag; veth
    /// devices carry shorter ones, such as ARP replies of 42 bytes.
    pub const FRAME_BYTES: RangeInclusive<u16> = 60..=9216;

    /// The frames, in the order of time.
    pub fn runs(&self) -> &[TraceRun] {
        &self.runs
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.frames)).sum()
    }

    /// Returns the length of the longest frame.
    pub fn longest_frame(&self) -> u16 {
        self.runs.iter().map(|run| run.len).max().unwrap_or(*Self::FRAME_BYTES.start())
    }

    /// Returns the number of frames that are ready at or after a time since the start.
    pub(super) fn frames_from(&self, at_ns: Nanos) -> u64 {
        let begin = self.runs.partition_point(|run| run.at_ns < at_ns);
        self.runs[begin..].iter().map(|run| u64::from(run.frames)).sum()
    }

    /// Parses the lines of a file.
    ///
    /// # Errors
    /// What is wrong, with its line.
    fn parse(text: &str) -> Result<Self, String> {
        let mut runs: Vec<TraceRun> = Vec::new();
        let mut all = 0;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let run = parse_run(line);
            let run = run.ok_or_else(|| format!("line {number} is no time, bytes and number of frames"))?;
            let TraceRun { at_ns, len, frames } = run;
            if !Self::FRAME_BYTES.contains(&len) {
                let (least, most) = (Self::FRAME_BYTES.start(), Self::FRAME_BYTES.end());
                return Err(format!("line {number}: a frame has {least} to {most} bytes, not {len}"));
            }
            if at_ns > MAX_TIME_NS || runs.last().is_some_and(|last| last.at_ns > at_ns) {
                return Err(format!("line {number} goes back in time, or is later than 1000 s"));
            }
            all += u64::from(frames);
            if frames == 0 || all > MAX_FRAMES {
                return Err(format!("line {number}: from 1 to {MAX_FRAMES} frames in all, not {all}"));
            }
            runs.push(run);
        }
        if runs.is_empty() { Err("it has no frames".to_owned()) } else { Ok(Self { runs }) }
    }
}

/// Parses a line of numbers.
fn parse_run(line: &str) -> Option<TraceRun> {
    let mut fields = line.split(',').map(str::trim);
    let (at_ns, len) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let frames = fields.next().map_or(Some(1), |frames| frames.parse().ok())?;
    fields.next().is_none().then_some(TraceRun { at_ns, len, frames })
}

/// Reads `frames`: the path of a file.
pub(super) fn read(path: &Setting<&str>, load: Load, report: &mut Diagnostics) -> Option<FrameTrace> {
    let text = load(path.value).map_err(|why| format!("it cannot be read: {why}"));
    match text.and_then(|text| FrameTrace::parse(&text)) {
        Ok(trace) => Some(trace),
        Err(why) => {
            let cure =
                "write the path of a file with lines of nanoseconds, bytes and frames, as in 1500,1024,2";
            report.add(&path.location, format!("{}: {why}", quoted(path.value)), cure);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_times_bytes_and_numbers() {
        let trace = FrameTrace::parse("# ns, bytes, frames\n0,60\n\n5, 1024, 3 # a burst\n5,64\n").unwrap();
        let run = |at_ns, len, frames| TraceRun { at_ns, len, frames };
        assert_eq!(trace.runs(), [run(0, 60, 1), run(5, 1024, 3), run(5, 64, 1)]);
        assert_eq!((trace.frames(), trace.longest_frame()), (5, 1024));
        assert_eq!([0, 1, 5, 6].map(|at_ns| trace.frames_from(at_ns)), [5, 4, 4, 0]);
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, what) in [
            ("# nothing\n", "it has no frames"),
            ("0,64\nat,64\n", "line 2 is no time, bytes and number of frames"),
            ("0,64,1,1\n", "line 1 is no time, bytes and number of frames"),
            ("0\n", "line 1 is no time, bytes and number of frames"),
            ("0,59\n", "line 1: a frame has 60 to 9216 bytes, not 59"),
            ("7,64\n6,64\n", "line 2 goes back in time, or is later than 1000 s"),
            ("1000000000001,64\n", "line 1 goes back in time, or is later than 1000 s"),
            ("0,64,0\n", "line 1: from 1 to 16777216 frames in all, not 0"),
            ("0,64,16777217\n", "line 1: from 1 to 16777216 frames in all, not 16777217"),
        ] {
            assert_eq!(FrameTrace::parse(text), Err(what.to_owned()), "{text:?}");
        }
    }
}
