//! The corpus of a target: a file of hexadecimal digits, an input a line. Inputs that failed once
//! are in a file of their own, which only people write. Lines that begin with `#` say what the next
//! input is for.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the file of a target's corpus.
pub fn file_of(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.hex"))
}

/// Returns the file of the inputs that failed once. A target without any has none.
pub fn regressions_of(target: &str) -> PathBuf {
    file_of(target).with_extension("regressions.hex")
}

/// Reads the inputs of a target: those that failed once, then its corpus, each in the order of its
/// file.
///
/// # Panics
/// A file cannot be read, or a line is not made of pairs of hexadecimal digits.
pub fn read(target: &str) -> Vec<Vec<u8>> {
    let regressions = regressions_of(target);
    let mut inputs = if regressions.exists() { read_file(&regressions) } else { Vec::new() };
    inputs.extend(read_file(&file_of(target)));
    inputs
}

fn read_file(file: &Path) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let inputs = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    inputs.map(|line| from_hex(line).unwrap_or_else(|| panic!("{}: {line}", file.display()))).collect()
}

/// Returns the bytes of hexadecimal digits; `None` if the text is something else.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Returns bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What failed once is read from a file that `corpus pack` does not write.
    #[test]
    fn regressions_have_a_file_of_their_own() {
        assert!(regressions_of("switch").ends_with("corpus/switch.regressions.hex"));
        let folder = std::env::temp_dir().join(format!("sluice-corpus-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("switch.regressions.hex");
        fs::write(&file, "# a port that went away\n1a02\n\nff\n").unwrap();
        assert_eq!(read_file(&file), [vec![0x1a, 2], vec![0xff]]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn hexadecimal_digits_are_read_as_written() {
        assert_eq!(from_hex(&to_hex(&[0, 1, 0xab, 0xff])), Some(vec![0, 1, 0xab, 0xff]));
        assert_eq!([from_hex(""), from_hex("1"), from_hex("1g")], [Some(vec![]), None, None]);
    }
}
