//! The text of a configuration or a scenario, read completely unless it exceeds the size limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use config::read::toml_document::MAX_FILE_BYTES;

/// Content of a file.
pub enum Text {
    /// The complete text.
    Whole(String),
    /// The file exceeds the limit; contains its size in bytes, if known.
    TooLong(Option<u64>),
}

/// Reads a file.
///
/// # Errors
/// The file cannot be read, or is not text.
pub fn read(file: &Path) -> io::Result<Text> {
    read_at_most(file, MAX_FILE_BYTES)
}

/// Reads a file of at most `most_bytes`.
///
/// # Errors
/// The file cannot be read, or is not text.
pub fn read_at_most(file: &Path, most_bytes: u64) -> io::Result<Text> {
    let file = File::open(file)?;
    let size = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Ok(Text::TooLong(size.is_file().then_some(size.len())));
    }
    let text = String::from_utf8(bytes);
    text.map(Text::Whole).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("long.toml");
        // Two bytes per letter, so that the limit cuts a letter.
        let long = "é".repeat(MAX_FILE_BYTES as usize);
        for (text, bytes) in [(&long[..], Some(2 * MAX_FILE_BYTES)), (&long[..MAX_FILE_BYTES as usize], None)]
        {
            std::fs::write(&file, text).unwrap();
            match read(&file).unwrap() {
                Text::Whole(whole) => assert_eq!((whole.as_str(), None), (text, bytes)),
                Text::TooLong(size) => assert_eq!(size, bytes),
            }
        }
        let Ok(Text::TooLong(None)) = read(Path::new("/dev/zero")) else { panic!("it has no end") };
        std::fs::write(&file, [0xff]).unwrap();
        assert_eq!(read(&file).err().unwrap().to_string(), "it is not UTF-8 text");
    }
}
