//! Congestion control and retransmission by acknowledgments: settings of a `[[traffic]]`.

use config::read::toml_document::{Diagnostics, Setting, SettingSpan, TableReader, speed};
use endpoint::dctcp::DctcpSettings;
use endpoint::hpcc::HpccSettings;
use endpoint::retransmission::Retransmission;
use endpoint::swift::SwiftSettings;
use endpoint::timely::TimelySettings;
use endpoint::transport::TransportSettings;
use switch::Nanos;

use super::super::parse::{MAX_TIME_NS, bytes, decimal, spell_time, time};
use super::super::tables::read_rule;

/// The rules of congestion control, one of which a traffic may have.
pub(super) const RULES: [&str; 5] = ["dcqcn", "dctcp", "timely", "swift", "hpcc"];
/// Time without an acknowledgment after which everything is sent again.
const TIMEOUT_NS: Nanos = 1_000_000;
const RETRANSMISSIONS: [(&str, Retransmission); 2] =
    [("selective", Retransmission::Selective), ("go-back-n", Retransmission::GoBackN)];

/// The settings of acknowledgments of one traffic.
pub(super) struct AckTable {
    pub(super) transport: Option<TransportSettings>,
    pub(super) retransmission: Retransmission,
    pub(super) timeout_ns: Nanos,
    pub(super) priority: Option<u8>,
    /// Where HPCC has a round-trip time of its own.
    base_rtt: Option<SettingSpan>,
}

impl AckTable {
    /// Reads the settings; `None` if the traffic's frames are not acknowledged.
    pub(super) fn read(section: &mut TableReader, report: &mut Diagnostics) -> Option<Self> {
        section.at_most_one(&RULES, report);
        let dctcp = read_dctcp(section, report).map(TransportSettings::Dctcp);
        let timely = read_timely(section, report).map(TransportSettings::Timely);
        let swift = read_swift(section, report).map(TransportSettings::Swift);
        let mut base_rtt = None;
        let hpcc = read_hpcc(section, &mut base_rtt, report).map(TransportSettings::Hpcc);
        let transport = dctcp.or(timely).or(swift).or(hpcc);
        let retransmission = section.choice("retransmission", &RETRANSMISSIONS, report);
        let timeout = section.item("retransmission_timeout");
        let timeout = timeout.and_then(|item| time(item, 1_000..=MAX_TIME_NS, report));
        let priority = section.number_in("ack_priority", 0..=7, report);
        let has_any = transport.is_some() || section.has("retransmission");
        let rest = [timeout.as_ref().map(|set| &set.location), priority.as_ref().map(|set| &set.location)];
        for location in rest.into_iter().flatten().filter(|_| !has_any) {
            let what = "has no effect: the frames of this traffic are not acknowledged";
            report.add(location, what, "write retransmission = \"selective\", or leave it out");
        }
        has_any.then(|| Self {
            transport,
            retransmission: retransmission.map_or(Retransmission::Selective, |choice| choice.value),
            timeout_ns: timeout.map_or(TIMEOUT_NS, |timeout| timeout.value),
            priority: priority.map(|priority| priority.value),
            base_rtt,
        })
    }

    /// Rejects a round-trip time of HPCC that is below the longest one of the flows through empty
    /// queues: their windows would never fill the path.
    pub(super) fn rejects_base_rtt_below(&self, path_ns: Nanos, report: &mut Diagnostics) {
        let (Some(TransportSettings::Hpcc(hpcc)), Some(location)) = (self.transport, &self.base_rtt) else {
            return;
        };
        if hpcc.base_rtt_ns < path_ns {
            let what = format!(
                "{} is less than the round-trip time of a flow through empty queues, {}",
                spell_time(hpcc.base_rtt_ns),
                spell_time(path_ns)
            );
            report.add(location, what, "write that or more, or leave it out");
        }
    }
}

/// Sets a value that the table has.
fn set<T>(value: &mut T, read: Option<Setting<T>>) {
    if let Some(read) = read {
        *value = read.value;
    }
}

fn set_time(value: &mut Nanos, table: &mut TableReader, name: &'static str, report: &mut Diagnostics) {
    set(value, table.item(name).and_then(|item| time(item, 1..=MAX_TIME_NS, report)));
}

fn set_decimal(
    value: &mut f64,
    table: &mut TableReader,
    name: &'static str,
    range: std::ops::RangeInclusive<f64>,
    report: &mut Diagnostics,
) {
    set(value, table.item(name).and_then(|item| decimal(item, range, report)));
}

fn set_speed(value: &mut f64, table: &mut TableReader, name: &'static str, report: &mut Diagnostics) {
    let read = table.item(name).and_then(|item| speed(item, report));
    *value = read.map_or(*value, |read| read.value as f64);
}

fn read_dctcp(section: &mut TableReader, report: &mut Diagnostics) -> Option<DctcpSettings> {
    read_rule(section, "dctcp", "gain = 0.0625", DctcpSettings::PAPER, report, |dctcp, table, report| {
        set_decimal(&mut dctcp.gain, table, "gain", 1e-6..=1.0, report);
        set(&mut dctcp.initial_frames, table.number_in("initial_frames", 1..=65_536, report));
    })
}

fn read_timely(section: &mut TableReader, report: &mut Diagnostics) -> Option<TimelySettings> {
    read_rule(section, "timely", "low = \"50us\"", TimelySettings::PAPER, report, |timely, table, report| {
        set_time(&mut timely.low_ns, table, "low", report);
        set_time(&mut timely.high_ns, table, "high", report);
        set_time(&mut timely.min_rtt_ns, table, "min_rtt", report);
        set_decimal(&mut timely.alpha, table, "alpha", 1e-6..=1.0, report);
        set_decimal(&mut timely.beta, table, "beta", 1e-6..=1.0, report);
        set_speed(&mut timely.additive_bps, table, "additive", report);
        set_speed(&mut timely.min_bps, table, "least", report);
        set(&mut timely.segment_bytes, table.item("segment").and_then(|item| bytes(item, report)));
        if timely.low_ns > timely.high_ns {
            report.add(&table.location, "low is more than high", "write a lower low, or a higher high");
        }
    })
}

fn read_swift(section: &mut TableReader, report: &mut Diagnostics) -> Option<SwiftSettings> {
    let example = "base_target = \"20us\"";
    read_rule(section, "swift", example, SwiftSettings::DEFAULT, report, |swift, table, report| {
        set_time(&mut swift.base_target_ns, table, "base_target", report);
        for (name, value) in [("hop", &mut swift.hop_ns), ("scaling_range", &mut swift.scaling_range_ns)] {
            set(value, table.item(name).and_then(|item| time(item, 0..=MAX_TIME_NS, report)));
        }
        set_decimal(&mut swift.scaling_min_frames, table, "scaling_min_frames", 1e-3..=1e6, report);
        set_decimal(&mut swift.scaling_max_frames, table, "scaling_max_frames", 1e-3..=1e6, report);
        set_decimal(&mut swift.additive_frames, table, "additive_frames", 1e-6..=1e3, report);
        set_decimal(&mut swift.beta, table, "beta", 1e-6..=1.0, report);
        set_decimal(&mut swift.max_decrease, table, "max_decrease", 1e-6..=0.999, report);
        set_decimal(&mut swift.min_frames, table, "min_frames", 1e-4..=1e6, report);
        set_decimal(&mut swift.max_frames, table, "max_frames", 1e-4..=1e6, report);
        set(&mut swift.reset_after, table.number_in("reset_after", 1..=1_000, report));
        for (least, most, name) in [
            (swift.scaling_min_frames * 1.000_001, swift.scaling_max_frames, "scaling_min_frames"),
            (swift.min_frames, swift.max_frames, "min_frames"),
        ] {
            if least > most {
                let location = table.location_of(name).unwrap_or_else(|| table.location.clone());
                report.add(&location, "the least window is not below the largest", "write a lower value");
            }
        }
        for name in ["scaling_min_frames", "scaling_max_frames"] {
            if let (0, Some(location)) = (swift.scaling_range_ns, table.location_of(name)) {
                let what = "has no effect: scaling_range is 0, so windows do not change the target";
                report.add(&location, what, "write a scaling_range, or leave it out");
            }
        }
    })
}

/// Reads HPCC, and where `base_rtt` is.
fn read_hpcc(
    section: &mut TableReader,
    base_rtt: &mut Option<SettingSpan>,
    report: &mut Diagnostics,
) -> Option<HpccSettings> {
    read_rule(section, "hpcc", "eta = 0.95", HpccSettings::PAPER, report, |hpcc, table, report| {
        set_decimal(&mut hpcc.eta, table, "eta", 0.01..=1.0, report);
        set(&mut hpcc.max_stage, table.number_in("max_stage", 0..=1_000, report));
        *base_rtt = table.location_of("base_rtt");
        set_time(&mut hpcc.base_rtt_ns, table, "base_rtt", report);
        let additive = table.item("additive").and_then(|item| bytes(item, report));
        hpcc.additive_bytes = additive.map_or(hpcc.additive_bytes, |read| read.value as f64);
    })
}
