//! The configuration file, as it is read at the start and for each reload.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use config::{Config, Mistakes};
use tracing::warn;

/// More than the longest file that `config` takes: it refuses what is cut off here.
const MAX_FILE_BYTES: u64 = 2 << 20;

/// Why there is no configuration in a file.
#[derive(Debug)]
pub enum Wrong {
    /// The system says no.
    Unreadable(String),
    /// There are mistakes in it.
    Mistakes(Mistakes),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Unreadable(why) => f.write_str(why),
            Wrong::Mistakes(mistakes) => mistakes.fmt(f),
        }
    }
}

/// Reads a file whole and checks it.
pub fn read(file: &Path) -> Result<Config, Wrong> {
    let name = file.display().to_string();
    let text = text(file).map_err(|error| Wrong::Unreadable(format!("cannot read {name}: {error}")))?;
    config::parse(&name, &text).map_err(Wrong::Mistakes)
}

/// Logs what is right in a file, but not lossless.
pub fn log_warnings(config: &Config) {
    config.warnings.to_string().lines().for_each(|warning| warn!("{warning}"));
}

fn text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lab.toml");
        let wrong = |text: &[u8]| {
            std::fs::write(&file, text).unwrap();
            read(&file).unwrap_err().to_string()
        };
        assert!(wrong(b"[port.a]\n").contains("lab.toml:1:7: port.a: no interface"));
        assert!(wrong(&[0xff]).contains("cannot read ") && wrong(&[0xff]).contains("UTF-8"));
        // A file without end is read no further than it takes to refuse it.
        let endless = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(endless.contains("2097152 bytes are too many"), "{endless}");
        let missing = read(Path::new("/nowhere/lab.toml")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read /nowhere/lab.toml: No such file"), "{missing}");
    }
}
