//! Numbers formatted for people.

/// Formats 2345678 as "2,345,678".
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (2_345_678, "2,345,678")] {
            assert_eq!(thousands(number), text);
        }
    }
}
