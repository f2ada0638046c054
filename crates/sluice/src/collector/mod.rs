//! `sluice collector`: the reference collector, which prints and stores the reports of switches.

mod rotating_file;
mod table;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ::telemetry::collector::{self, Received, SequenceCheck, SequenceState, Status};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use control::{MOST_NAME, printable};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::misuse;
use crate::output;
use rotating_file::Rotating;

/// Run a collector: listen for what switches report, print it, write it to a file.
#[derive(Args)]
#[command(after_long_help = "\
Switches report to it if they have its address in a [telemetry.destination-group.NAME]. It serves \
both spellings of the service, puts long messages together, and answers as the documents' example \
collector does. Messages are numbered by the switch: those that come again, as they were not \
confirmed in time, are left out, and what is missing is reported on standard error.

JSON, and the file: an object a line with received_unix_ms, peer, device{producer, name, model}, \
path, number, data (the message's jsonData).

The file begins again when it has --rotate-mib: FILE becomes FILE.1, that FILE.2, and so on; --keep \
of these stay. It ends with SIGINT or SIGTERM.")]
pub struct Arguments {
    /// Where to listen. 0.0.0.0:50050 takes the reports of switches on other machines, too.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050")]
    listen: SocketAddr,
    /// How to print.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Also write an object a line to this file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The largest file, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    rotate_mib: u64,
    /// Files that are kept beside it.
    #[arg(long, value_name = "FILES", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1000))]
    keep: u32,
    /// Serve TLS with this certificate (PEM, those between it and its authority after it).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// The key of the certificate.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Take only switches that show a certificate of one of these authorities.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_client_ca: Option<PathBuf>,
    /// Stop after this number of messages.
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for people.
    Table,
    /// JSON, an object a line.
    Json,
    /// Nothing: only the file.
    None,
}

/// Collects until interrupted.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.format == Format::None && arguments.output.is_none() {
        return misuse("--format none prints nothing: name a file with --output");
    }
    let file = match &arguments.output {
        Some(path) => Some(Rotating::open(path, arguments.rotate_mib << 20, arguments.keep)?),
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(collect(arguments, file));
    runtime.shutdown_background();
    done
}

/// Destinations of the messages.
struct Sink {
    format: Format,
    file: Option<Rotating>,
    numbers: SequenceState,
    /// Number of messages that may still come.
    left: Option<u64>,
}

async fn collect(arguments: &Arguments, file: Option<Rotating>) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let tls = match (&arguments.tls_certificate, &arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(telemetry::server_tls(certificate, key, arguments.tls_client_ca.as_deref())?)
        }
        _ => None,
    };
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let over_tls = if tls.is_some() { ", TLS" } else { "" };
    eprintln!("sluice: collecting on {}{over_tls}", listener.local_addr()?);
    let Arguments { format, count: left, .. } = *arguments;
    let sink = Mutex::new(Sink { format, file, numbers: SequenceState::default(), left });
    let (over, mut ended) = mpsc::channel(1);
    let take = move |message: Received| {
        let done = sink.lock().unwrap_or_else(PoisonError::into_inner).take(&message);
        match done {
            Ok(true) => Ok(()),
            done => {
                let _ = over.try_send(done.map(drop)); // one reason to end is enough
                Err(Status::unavailable("the collector is stopping"))
            }
        }
    };
    tokio::select! {
        served = collector::serve(listener, tls, take, std::future::pending()) => served.context("the collector ended"),
        Some(why) = ended.recv() => why,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

impl Sink {
    /// Prints and writes a message, unless it is a duplicate. True if more may come.
    fn take(&mut self, message: &Received) -> Result<bool> {
        let data: Value = serde_json::from_str(&message.json).unwrap_or(Value::String(message.json.clone()));
        let notification = &data["Notification"];
        let number = notification["Number"].as_str().and_then(|number| number.parse::<u64>().ok());
        let session = notification["Session"].as_str().unwrap_or_default();
        let device = &message.device.device_name;
        match number.map(|number| self.numbers.note(device, session, number)) {
            Some(SequenceCheck::Again) => return Ok(true),
            Some(SequenceCheck::After(missing)) => {
                eprintln!("sluice: {}: {missing} messages are missing", printable(device, MOST_NAME))
            }
            Some(SequenceCheck::Next) | None => {}
        }
        let now = Timestamp::now();
        let line = object(message, number, &data, now)?;
        match self.format {
            Format::Table => output::print(&table::text(message, number, &data, now, &TimeZone::system()))?,
            Format::Json => output::print(&line)?,
            Format::None => {}
        }
        if let Some(file) = &mut self.file {
            file.write(&line)?;
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        Ok(self.left != Some(0))
    }
}

/// Formats a message as a line of JSON.
fn object(message: &Received, number: Option<u64>, data: &Value, now: Timestamp) -> Result<String> {
    let device = &message.device;
    let object = json!({
        "received_unix_ms": now.as_millisecond(),
        "peer": message.peer.map(|peer| peer.to_string()),
        "device": { "producer": device.producer_name, "name": device.device_name, "model": device.device_model },
        "path": message.path,
        "number": number,
        "data": data,
    });
    output::json(&object, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// What switches report is for this machine alone, unless the operator says otherwise.
    #[test]
    fn the_default_address_is_loopback() {
        #[derive(Parser)]
        struct Command {
            #[command(flatten)]
            arguments: Arguments,
        }
        let Command { arguments } = Command::parse_from(["collector"]);
        assert!(arguments.listen.ip().is_loopback(), "{}", arguments.listen);
    }
}
