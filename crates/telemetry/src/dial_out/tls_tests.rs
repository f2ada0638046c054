//! TLS between a switch and collectors, on loopback in one process, with certificates made for each
//! test.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

use crate::collector::Received;
use crate::dial_out::tls;
use crate::server_tls;
use crate::tests::{Collector, Lab, PATIENCE};

/// A certificate authority, and a folder for the certificates that it signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        Self::named("an authority")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate to `NAME.pem` and its key to `NAME.key`, for this host; `year` is the
    /// last in which it is valid.
    fn sign(&self, name: &str, host: &str, year: i32) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// A collector with the certificate `name`; with `clients`, it requires certificates of that
    /// authority.
    fn collector(
        &self,
        name: &str,
        clients: Option<&Authority>,
    ) -> (Collector, std::sync::mpsc::Receiver<Received>) {
        let client_ca = clients.map(|clients| clients.file("ca.pem"));
        let [certificate, key] = ["pem", "key"].map(|ending| self.file(&format!("{name}.{ending}")));
        let tls = server_tls(&certificate, &key, client_ca.as_deref()).unwrap();
        let (to, received) = std::sync::mpsc::channel();
        (Collector::start_with(0, Some(tls), to), received)
    }

    /// Returns the `tls` table of a configuration that trusts this authority, with `more` added.
    fn trusted(&self, more: &str) -> String {
        format!("tls = {{ ca = {:?}{more} }}", self.file("ca.pem"))
    }

    /// Returns the settings of a client certificate.
    fn shown(&self, name: &str) -> String {
        let [certificate, key] = ["pem", "key"].map(|ending| self.file(&format!("{name}.{ending}")));
        format!(", certificate = {certificate:?}, key = {key:?}")
    }
}

/// Returns the error of a switch that reports to `port` with this `tls`, which has sent nothing.
fn refused(port: u16, tls: &str) -> String {
    let lab = Lab::new(port, tls, &[("sluice/events", None)]);
    lab.note("secret_event");
    lab.until("it failed", |to| to.failures > 0);
    let to = lab.destination();
    assert_eq!((to.sent, to.tls), (0, true));
    to.last_error.unwrap()
}

#[test]
fn a_collector_with_a_valid_certificate_receives_reports() {
    let authority = Authority::new();
    authority.sign("collector", "127.0.0.1", 2200);
    authority.sign("elsewhere", "collector.example", 2200);
    authority.sign("switch", "switch.example", 2200);
    for (name, clients, more) in [
        ("collector", None, String::new()),
        ("collector", Some(&authority), authority.shown("switch")),
        ("elsewhere", None, ", server_name = \"collector.example\"".to_owned()),
    ] {
        let (collector, received) = authority.collector(name, clients);
        let lab = Lab::new(collector.port, &authority.trusted(&more), &[("sluice/events", None)]);
        lab.note("reloaded");
        let message = received.recv_timeout(PATIENCE).unwrap();
        assert!(message.json.contains("reloaded") && message.peer.is_some(), "{message:?}");
        lab.until("it is confirmed", |to| to.sent == 1 && to.tls && to.last_error.is_none());
    }
}

#[test]
fn a_collector_with_another_certificate_receives_nothing() {
    let (authority, other) = (Authority::new(), Authority::new()); // of the same name
    let stranger = Authority::named("a stranger");
    let no_authority = "the collector's certificate is of no authority that is trusted here: name the authority's certificate with tls.ca";
    authority.sign("collector", "127.0.0.1", 2200);
    authority.sign("expired", "127.0.0.1", 2001);
    authority.sign("elsewhere", "collector.example", 2200);
    other.sign("switch", "switch.example", 2200);
    for (name, clients, tls, expected) in [
        ("collector", None, other.trusted(""), no_authority),
        ("collector", None, stranger.trusted(""), no_authority),
        ("expired", None, authority.trusted(""), "the collector's certificate has expired"),
        ("elsewhere", None, authority.trusted(""), "the collector's certificate is for another name"),
        (
            "collector",
            Some(&authority),
            authority.trusted(""),
            "the collector wants to see a certificate: name one with tls.certificate and tls.key",
        ),
        (
            "collector",
            Some(&authority),
            authority.trusted(&other.shown("switch")),
            "the collector refuses the connection",
        ),
    ] {
        let (collector, received) = authority.collector(name, clients);
        let message = refused(collector.port, &tls);
        // It is random whether the alert about our certificate is seen before the connection
        // breaks.
        let ended = clients.is_some()
            && message.starts_with("the collector ended the connection after the handshake (");
        assert!(message.starts_with(expected) || ended, "{message}");
        assert!(received.try_recv().is_err());
        println!("{message}");
    }
}

/// Nothing is sent in plain text, whatever the other end is.
#[test]
fn a_listener_without_tls_sees_nothing_that_it_understands() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 16384];
        let length = stream.read(&mut bytes).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        bytes.truncate(length);
        let _ = stream.read_to_end(&mut bytes);
        bytes
    });
    assert_eq!(refused(port, &authority.trusted("")), "the collector does not speak TLS");
    let bytes = seen.join().unwrap();
    assert_eq!(bytes[0], 22, "a handshake of TLS");
    let text = String::from_utf8_lossy(&bytes);
    for word in ["PRI * HTTP/2.0", "Dialout", "secret_event", "lab", "Sluice"] {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn tls_never_falls_back_to_plain_text() {
    let authority = Authority::new();
    authority.sign("collector", "127.0.0.1", 2200);
    let (collector, received) = authority.collector("collector", None);
    let lab = Lab::new(collector.port, "", &[("sluice/events", None)]);
    lab.note("reloaded");
    lab.until("it failed", |to| to.failures > 0 && to.sent == 0 && !to.tls);
    assert!(received.try_recv().is_err());
}

/// Certificates may be replaced while the switch runs: they are read for each connection.
#[test]
fn files_are_read_again() {
    let authority = Authority::new();
    authority.sign("collector", "127.0.0.1", 2001);
    let (collector, _received) = authority.collector("collector", None);
    let port = collector.port;
    let lab = Lab::new(port, &authority.trusted(""), &[("sluice/events", None)]);
    lab.note("reloaded");
    lab.until("it failed", |to| to.failures > 0);
    drop(collector);
    let other = Authority::new();
    other.sign("collector", "127.0.0.1", 2200);
    std::fs::copy(other.file("ca.pem"), authority.file("ca.pem")).unwrap();
    let (to, received) = std::sync::mpsc::channel();
    let tls = server_tls(&other.file("collector.pem"), &other.file("collector.key"), None).unwrap();
    let _collector = Collector::start_with(port, Some(tls), to);
    assert!(received.recv_timeout(PATIENCE).unwrap().json.contains("reloaded"));
}

#[test]
fn a_file_that_comes_later_is_taken_up() {
    let authority = Authority::new();
    authority.sign("collector", "127.0.0.1", 2200);
    let (collector, received) = authority.collector("collector", None);
    let (file, later) = (authority.file("ca.pem"), authority.file("later.pem"));
    std::fs::rename(&file, &later).unwrap();
    let lab = Lab::new(collector.port, &authority.trusted(""), &[("sluice/events", None)]);
    lab.note("reloaded");
    lab.until("it failed", |to| to.failures > 0);
    let why = lab.destination().last_error.unwrap();
    assert!(why.starts_with("tls.ca: ") && why.contains("ca.pem"), "{why}");
    std::fs::rename(&later, &file).unwrap();
    assert!(received.recv_timeout(PATIENCE).unwrap().json.contains("reloaded"));
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    authority.sign("switch", "switch.example", 2200);
    std::fs::write(authority.file("empty.pem"), "nothing").unwrap();
    let folder = authority.folder.path();
    let check = |tls: &str| {
        let text = format!(
            "[port.a]\ninterface = \"a\"\n[telemetry.destination-group.c]\ncollectors = [\"h\"]\ntls = {{ {tls} }}\n"
        );
        let config = config::parse("lab.toml", &text).unwrap();
        let tls = config.telemetry.destinations[0].tls.clone().unwrap();
        tls::client(&tls, "h", folder).map(drop).map_err(|(setting, error)| format!("{setting}: {error}"))
    };
    assert_eq!(check("ca = \"ca.pem\", certificate = \"switch.pem\", key = \"switch.key\""), Ok(()));
    let folder = folder.display();
    for (tls, expected) in [
        (
            "ca = \"none.pem\"",
            format!("ca: cannot read {folder}/none.pem: No such file or directory (os error 2)"),
        ),
        (
            "ca = \"empty.pem\"",
            format!(
                "ca: there is no certificate in {folder}/empty.pem: it must be PEM, as in -----BEGIN CERTIFICATE-----"
            ),
        ),
        (
            "certificate = \"switch.key\", key = \"switch.key\"",
            format!(
                "certificate: there is no certificate in {folder}/switch.key: it must be PEM, as in -----BEGIN CERTIFICATE-----"
            ),
        ),
        (
            "certificate = \"switch.pem\", key = \"switch.pem\"",
            format!(
                "key: there is no private key in {folder}/switch.pem: it must be PEM, as in -----BEGIN PRIVATE KEY-----"
            ),
        ),
    ] {
        assert_eq!(check(tls), Err(expected));
    }
}
