//! The configuration file, read at the start and on each reload.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use config::read::toml_document::{MAX_FILE_BYTES, too_long};
use config::{Config, ConfigErrors};
use tracing::warn;

use crate::control_socket::{Permissions, UnusableName};

/// Why a file yields no configuration.
#[derive(Debug)]
pub enum ConfigFileError {
    /// The file cannot be read.
    Unreadable(String),
    /// The file contains mistakes.
    Mistakes(ConfigErrors),
}

impl fmt::Display for ConfigFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigFileError::Unreadable(why) => f.write_str(why),
            ConfigFileError::Mistakes(mistakes) => mistakes.fmt(f),
        }
    }
}

/// Reads the whole file and checks it, and that this machine has the users and groups that it
/// names. Returns its text, too. Only for a start: to look up a name can take long, which the
/// control loop must not, and `[control]` takes a restart anyway.
pub fn read_at_start(file: &Path) -> Result<(Config, String), ConfigFileError> {
    let (config, text) = read(file)?;
    Permissions::look_up(&config.control).map_err(|UnusableName { setting, what, cure }| {
        let name = file.display().to_string();
        ConfigFileError::Mistakes(ConfigErrors::of_setting(&name, &text, setting, what, cure))
    })?;
    Ok((config, text))
}

/// Reads the whole file and checks it. Returns its text, too.
pub fn read(file: &Path) -> Result<(Config, String), ConfigFileError> {
    let name = file.display().to_string();
    let unreadable = |error: io::Error| ConfigFileError::Unreadable(format!("cannot read {name}: {error}"));
    let file = File::open(file).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let bytes = size.is_file().then_some(size.len());
        return Err(ConfigFileError::Mistakes(too_long(&name, bytes)));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| unreadable(io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text")))?;
    let config = config::parse_for_daemon(&name, &text).map_err(ConfigFileError::Mistakes)?;
    Ok((config, text))
}

/// Logs the settings of a valid file that are not lossless.
pub fn log_warnings(config: &Config) {
    config.warnings.to_string().lines().for_each(|warning| warn!("{warning}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lab.toml");
        let wrong = |text: &[u8]| {
            std::fs::write(&file, text).unwrap();
            read_at_start(&file).unwrap_err().to_string()
        };
        assert!(wrong(b"[port.a]\n").contains("lab.toml:1:7: port.a: no interface"));
        assert!(wrong(&[0xff]).contains("cannot read ") && wrong(&[0xff]).contains("UTF-8"));
        let unknown = wrong(b"port.a.interface = 'x'\n[control]\ngroup = 'no-such-group'\n");
        assert!(unknown.contains("lab.toml:3:9: control.group: this machine has no group"), "{unknown}");
        assert!(unknown.contains("groupadd --system"), "{unknown}");
        assert!(read(&file).is_ok(), "a reload looks no name up");
        // An endless file is read only as far as needed to reject it.
        let endless = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(endless.contains("the file has more than 1 MiB; 1 MiB is the most"), "{endless}");
        let long = wrong(&vec![b'#'; 100 << 20]);
        assert!(long.contains("lab.toml:1:1: the file has 100 MiB; 1 MiB is the most"), "{long}");
        let missing = read(Path::new("/nowhere/lab.toml")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read /nowhere/lab.toml: No such file"), "{missing}");
    }
}
