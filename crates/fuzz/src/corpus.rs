//! The corpus of a target: a file of hexadecimal digits, an input a line. Lines that begin with `#`
//! say what the next input is for.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the file of a target's corpus.
pub fn file_of(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.hex"))
}

/// Reads the inputs of a target's corpus, in the order of the file.
///
/// # Panics
/// The file cannot be read, or a line is not made of pairs of hexadecimal digits.
pub fn read(target: &str) -> Vec<Vec<u8>> {
    let file = file_of(target);
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
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

    #[test]
    fn hexadecimal_digits_are_read_as_written() {
        assert_eq!(from_hex(&to_hex(&[0, 1, 0xab, 0xff])), Some(vec![0, 1, 0xab, 0xff]));
        assert_eq!([from_hex(""), from_hex("1"), from_hex("1g")], [Some(vec![]), None, None]);
    }
}
