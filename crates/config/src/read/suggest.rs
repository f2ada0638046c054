//! Words in messages: text of the file, quoted on one line, and the known word that was probably
//! meant.

/// Quotes text from the file, on one line and shortened.
pub fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// Returns the first 60 characters.
pub(crate) fn shortened(text: &str) -> String {
    const MOST_CHARS: usize = 60;
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Quotes words, with `between` between them.
pub fn quoted_list(words: &[&str], between: &str) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(between)
}

/// Returns the known word that was probably meant: one that differs in few letters for its length,
/// or one or two that begin with `word` (as when the unit was left out). `None` if no word or
/// several words match.
pub fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    // The comparison takes length × length steps, so a very long word is not compared.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&word, known);
    let shortest = known.iter().map(|known| distance(known)).min()?;
    let limit = (word.len() / 3).max(1);
    let likely = |likely: &dyn Fn(&str) -> bool, most: usize| {
        let likely: Vec<&str> = known.iter().copied().filter(|known| likely(known)).collect();
        (1..=most).contains(&likely.len()).then_some(likely)
    };
    let meant = likely(&|known| shortest <= limit && distance(known) == shortest, 1)
        .or_else(|| likely(&|known| word.len() >= 3 && known.starts_with(&word), 2))?;
    Some(format!("did you mean {}?", quoted_list(&meant, " or ")))
}
