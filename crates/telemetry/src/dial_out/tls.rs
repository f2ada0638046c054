//! Encrypted and authenticated connections to collectors, and from switches.
//!
//! Rule: where the file requires TLS, nothing is sent before the collector has presented a
//! certificate of a trusted authority, for the expected name; there is no fallback to plain text.
//! Files are read again for each connection, so certificates may be replaced while the daemon runs.
//! Source: docs/monitoring/telemetry.md, "TLS".

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fs, io};

use thiserror::Error;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, CertificateError};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// A file that cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The file has no item of the expected kind.
    #[error("there is no {what} in {}: it must be PEM, as in -----BEGIN {mark}-----", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// The expected kind of item.
        what: &'static str,
        /// How such an item begins.
        mark: &'static str,
    },
}

/// Returns the TLS settings of a collector's client. Paths are relative to `folder`.
///
/// # Errors
/// A file cannot be used; the error has the name of its setting, too.
pub fn client(
    tls: &config::Tls,
    host: &str,
    folder: &Path,
) -> Result<ClientTlsConfig, (&'static str, FileError)> {
    let mut client = ClientTlsConfig::new().domain_name(tls.server_name.as_deref().unwrap_or(host));
    client = match &tls.ca {
        Some(ca) => client.ca_certificate(Certificate::from_pem(
            certificates(&folder.join(ca)).map_err(|error| ("ca", error))?,
        )),
        None => client.with_native_roots(),
    };
    if let Some(config::TlsIdentity { certificate, key: key_file }) = &tls.identity {
        let certificate = certificates(&folder.join(certificate)).map_err(|error| ("certificate", error))?;
        let key = key(&folder.join(key_file)).map_err(|error| ("key", error))?;
        client = client.identity(Identity::from_pem(certificate, key));
    }
    Ok(client)
}

/// Returns the TLS settings of a collector: its certificate and key, and the authorities of its
/// clients' certificates, if it requires any.
///
/// # Errors
/// A file cannot be used.
pub fn server(
    certificate: &Path,
    key_file: &Path,
    client_ca: Option<&Path>,
) -> Result<ServerTlsConfig, FileError> {
    let identity = Identity::from_pem(certificates(certificate)?, key(key_file)?);
    let server = ServerTlsConfig::new().identity(identity);
    Ok(match client_ca {
        Some(ca) => server.client_ca_root(Certificate::from_pem(certificates(ca)?)),
        None => server,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    fs::read(path).map_err(|cause| FileError::Unreadable { path: path.to_path_buf(), cause })
}

fn certificates(path: &Path) -> Result<Vec<u8>, FileError> {
    let pem = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(pem),
        _ => Err(FileError::Empty { path: path.to_path_buf(), what: "certificate", mark: "CERTIFICATE" }),
    }
}

fn key(path: &Path) -> Result<Vec<u8>, FileError> {
    let pem = read(path)?;
    match PrivateKeyDer::from_pem_slice(&pem) {
        Ok(_) => Ok(pem),
        Err(_) => {
            Err(FileError::Empty { path: path.to_path_buf(), what: "private key", mark: "PRIVATE KEY" })
        }
    }
}

/// Returns the TLS failure and its cure, if TLS is the cause of `error`.
pub fn explain(error: &(dyn Error + 'static)) -> Option<String> {
    let mut error = Some(error);
    while let Some(at) = error {
        let inside = at.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let found =
            inside.and_then(|inside| inside.downcast_ref()).or_else(|| at.downcast_ref::<rustls::Error>());
        if let Some(found) = found {
            return Some(words(found));
        }
        // HTTP/2 keeps only the text of the error that ends a connection.
        if let Some((_, alert)) = at.to_string().split_once("received fatal alert: ") {
            return Some(refused(alert));
        }
        error = at.source();
    }
    None
}

/// Explains a collector's alert by its TLS name.
fn refused(alert: &str) -> String {
    match alert {
        "CertificateRequired" => {
            "the collector wants to see a certificate: name one with tls.certificate and tls.key".to_owned()
        }
        _ => format!(
            "the collector refuses the connection, {alert}: it may not take the certificate of tls.certificate"
        ),
    }
}

fn words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => match why {
            // The latter: an authority of the same name as the trusted one.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "the collector's certificate is of no authority that is trusted here: name the authority's \
                 certificate with tls.ca"
                    .to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the collector's certificate has expired ({why})")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("the collector's certificate is not valid yet ({why})")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
                "the collector's certificate is for another name ({why}): set tls.server_name to the name in it"
            ),
            why => format!("the collector's certificate is not accepted: {why}"),
        },
        rustls::Error::AlertReceived(alert) => refused(&format!("{alert:?}")),
        rustls::Error::InvalidMessage(_) => "the collector does not speak TLS".to_owned(),
        error => format!("TLS: {error}"),
    }
}
