//! Truncation of names of ports, hosts and traffic, so that tables fit the terminal.

/// Columns of a terminal that shows every table completely.
const COLUMNS: usize = 100;
/// Longest names in tables, in characters: the first with which a table fits.
const NAME_CHARS: [usize; 7] = [32, 28, 24, 20, 18, 16, 12];
/// Longest names in lines of text and small tables, in characters.
pub const SHORT_CHARS: usize = 20;

/// Returns the text that `render` makes with the longest names that leave it at most [`COLUMNS`]
/// wide.
pub fn fitted(render: impl Fn(usize) -> String) -> String {
    let fits = |text: &String| text.lines().all(|line| line.chars().count() <= COLUMNS);
    let [.., shortest] = NAME_CHARS;
    NAME_CHARS.into_iter().map(&render).find(fits).unwrap_or_else(|| render(shortest))
}

/// Shortens a name to at most `most` characters. The middle is omitted, since names differ at their
/// ends.
pub fn short(name: &str, most: usize) -> String {
    let chars: Vec<char> = name.chars().collect();
    if chars.len() <= most {
        return name.to_owned();
    }
    let (head, tail) = ((most - 1).div_ceil(2), (most - 1) / 2);
    chars[..head].iter().chain(&['…']).chain(&chars[chars.len() - tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn long_names_are_cut_in_the_middle() {
        assert_eq!(short("leaf12.spine3", 13), "leaf12.spine3");
        assert_eq!(short("leaf12.spine3", 10), "leaf1…ine3");
        assert_eq!(short("leaf12.spine3", 9), "leaf…ine3");
    }
}
