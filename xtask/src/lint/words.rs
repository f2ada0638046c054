//! The words that Sluice does not use, and where they stand in prose and in names.

/// Words and phrases to avoid, and what to write instead. A word is avoided in the plural, too; one
/// that ends in `*` also as a part of another word.
const AVOIDED: &[(&str, &str)] = &[
    ("told", "advertised, sent or reported"),
    ("untold", "unreported, or what was not sent"),
    ("anew", "again"),
    ("whoever", "the noun"),
    ("vigil", "stall detector"),
    ("dock", "socket handoff"),
    ("tenant", "port slot"),
    ("lent", "owned by the kernel"),
    ("misspelt", "misspelled"),
    ("spelt", "spelled"),
    ("towards", "toward"),
    ("obey*", "honor"),
    ("reel", "chunk pool"),
    ("belt", "batch ring"),
    ("sentry", "guard thread"),
    ("sentries", "guard threads"),
    ("befall", "apply_fault, or happen to"),
    ("nor", "and not"),
    ("but for", "except"),
    ("to be had", "available"),
    ("for ever", "permanently or indefinitely"),
    ("so many", "the parameter's own name"),
    ("of the other kind", "the noun"),
    ("all the same", "anyway"),
    ("stands in for", "acts for"),
    ("stand in for", "act for"),
    ("standing in for", "acting for"),
    ("stands still", "stalls"),
    ("stand still", "stall"),
    ("stood still", "stalled"),
    ("standing still", "stalling"),
    ("held up", "delayed"),
    ("hold up", "delay"),
    ("holds up", "delays"),
    ("holding up", "delaying"),
    ("taken off its core", "preempted"),
    ("taken off the core", "preempted"),
    ("taken off their core", "preempted"),
    ("taken off their cores", "preempted"),
    ("neighbour*", "peer, or neighbor"),
    ("colour*", "color"),
    ("honour*", "honor"),
    ("behaviour*", "behavior"),
    ("favour*", "favor"),
    ("flavour*", "flavor"),
    ("labour*", "labor"),
    ("centre*", "center"),
    ("metre*", "meter"),
    ("grey*", "gray"),
    ("modelled", "modeled"),
    ("modelling", "modeling"),
    ("labelled", "labeled"),
    ("labelling", "labeling"),
    ("signalled", "signaled"),
    ("signalling", "signaling"),
    ("catalogue", "catalog"),
    ("defence", "defense"),
    ("organise*", "organize"),
    ("recognise*", "recognize"),
    ("initialise*", "initialize"),
];

/// Words that are ordinary English in prose, and say nothing of a protocol or of this program in a
/// name. Avoided like those above, but only in names.
const AVOIDED_IN_NAMES: &[(&str, &str)] = &[
    ("ask", "query or request"),
    ("asked", "requested"),
    ("census", "frame accounting"),
    ("conductor", "control loop"),
    ("fate", "result"),
    ("gate", "port tap"),
    ("hear", "receive"),
    ("heard", "received"),
    ("hog", "CPU load"),
    ("judge", "check or decide"),
    ("keeper", "port opener, or port worker"),
    ("life", "life cycle, or what happens in it"),
    ("lives", "port supervisor"),
    ("loan", "ring owner"),
    ("looker", "parser"),
    ("obey", "honor"),
    ("place", "slot (a port's or a client's), index, span, or location"),
    ("pulse", "loop state"),
    ("said", "reported"),
    ("say", "report, or the message"),
    ("seat", "client slot"),
    ("story", "scenario"),
    ("taught", "learned"),
    ("teach", "learn, or add an address"),
    ("tell", "advertise, send or report"),
    ("telling", "report"),
    ("wish", "request"),
];

/// Words that need their context as the whole name of a type.
const AVOIDED_TYPES: &[&str] = &[
    "Answer",
    "Happening",
    "Kind",
    "Life",
    "Line",
    "Moment",
    "Order",
    "Outcome",
    "Place",
    "Question",
    "Report",
    "Scene",
    "Seen",
    "Stage",
    "Station",
    "Told",
    "Verdict",
    "Watch",
    "Wish",
    "Words",
];

/// True if a word is no name of a type without its context.
pub fn needs_context(type_name: &str) -> bool {
    AVOIDED_TYPES.contains(&type_name)
}

/// An avoided word or phrase that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    pub line: usize,
    pub found: String,
    pub instead: &'static str,
}

/// Finds avoided words in a text of lower-case words, each with its line.
pub fn find_avoided(words: &[(usize, String)]) -> Vec<Match> {
    find(words, AVOIDED)
}

/// Finds avoided words among the lower-case words of a name.
pub fn find_avoided_in_name(words: &[(usize, String)]) -> Vec<Match> {
    [find(words, AVOIDED), find(words, AVOIDED_IN_NAMES)].concat()
}

fn find(words: &[(usize, String)], avoided: &[(&str, &'static str)]) -> Vec<Match> {
    let mut matches = Vec::new();
    for at in 0..words.len() {
        for &(phrase, instead) in avoided {
            let length = phrase.split(' ').count();
            let Some(part) = words.get(at..at + length) else { continue };
            let is_found = part.iter().zip(phrase.split(' ')).all(|((_, word), pattern)| fits(word, pattern));
            if is_found && !(phrase == "nor" && follows_neither(&words[..at])) {
                let found = part.iter().map(|(_, word)| word.as_str()).collect::<Vec<_>>().join(" ");
                matches.push(Match { line: part[0].0, found, instead });
            }
        }
    }
    matches
}

/// True if "neither" is in the sentence before: with it "nor" is the standard word.
fn follows_neither(before: &[(usize, String)]) -> bool {
    let sentence = before.iter().rev().take_while(|(_, word)| !matches!(word.as_str(), "." | "\n"));
    sentence.into_iter().any(|(_, word)| word == "neither")
}

fn fits(word: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(stem) => word.contains(stem),
        None => word == pattern || word.strip_suffix('s') == Some(pattern),
    }
}

/// Splits a name at underscores, dashes and capitals into lower-case words.
pub fn words_of_name(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let characters: Vec<char> = name.chars().collect();
    for (at, &c) in characters.iter().enumerate() {
        let after_lower = at > 0 && !characters[at - 1].is_uppercase();
        let before_lower = characters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if !c.is_alphanumeric() || c.is_uppercase() && (after_lower || before_lower) {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("never empty").extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Splits lines of prose into lower-case words, with their line numbers. Code between backticks or
/// in fences and the targets of links are left out; a punctuation mark is a word of its own, so
/// that no phrase goes across it.
pub fn words_of_prose(lines: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut paragraph = Vec::new();
    let mut in_fence = false;
    for &(number, line) in lines {
        let is_fence = ["```", "~~~"].iter().any(|fence| line.trim_start().starts_with(fence));
        if is_fence || in_fence || line.trim().is_empty() {
            add_paragraph(&mut paragraph, &mut words);
            in_fence ^= is_fence;
        } else {
            paragraph.extend(line.chars().chain(['\n']).map(|c| (number, c)));
        }
    }
    add_paragraph(&mut paragraph, &mut words);
    words
}

/// Adds the words of a paragraph, which is empty afterwards, and a mark for its end.
fn add_paragraph(paragraph: &mut Vec<(usize, char)>, words: &mut Vec<(usize, String)>) {
    let at_text = |at: usize, text: &str| {
        let mut characters = paragraph[at..].iter().map(|(_, c)| *c);
        text.chars().all(|c| characters.next() == Some(c))
    };
    let mut at = 0;
    let mut in_word = false;
    while at < paragraph.len() {
        let (line, c) = paragraph[at];
        if !c.is_alphanumeric() {
            let next = match c {
                '`' => after_code(paragraph, at),
                ']' if at_text(at, "](") => after(paragraph, at, |c| c == ')'),
                _ => at + 1,
            };
            if !c.is_whitespace() && !matches!(c, '-' | '\'' | '’' | '*' | '_') {
                words.push((line, c.to_string()));
            }
            (at, in_word) = (next, false);
        } else if !in_word && (at_text(at, "http://") || at_text(at, "https://")) {
            at = after(paragraph, at, |c| c.is_whitespace() || c == ')');
        } else {
            if !in_word {
                words.push((line, String::new()));
            }
            words.last_mut().expect("was just added").1.extend(c.to_lowercase());
            (at, in_word) = (at + 1, true);
        }
    }
    if let Some((line, _)) = paragraph.last() {
        words.push((*line, "\n".to_owned()));
    }
    paragraph.clear();
}

/// The index after the next character that ends something.
fn after(text: &[(usize, char)], from: usize, ends: impl Fn(char) -> bool) -> usize {
    text[from..].iter().position(|(_, c)| ends(*c)).map_or(text.len(), |length| from + length + 1)
}

/// The index after a code span, or after its opening backticks if nothing closes it.
fn after_code(text: &[(usize, char)], from: usize) -> usize {
    let run = |at: usize| text[at..].iter().take_while(|(_, c)| *c == '`').count();
    let opening = run(from);
    let mut at = from + opening;
    while at < text.len() {
        match run(at) {
            0 => at += 1,
            length if length == opening => return at + length,
            length => at += length,
        }
    }
    from + opening
}

#[cfg(test)]
mod unit {
    use super::*;

    fn found(lines: &[(usize, &str)]) -> Vec<(usize, String)> {
        find_avoided(&words_of_prose(lines)).into_iter().map(|found| (found.line, found.found)).collect()
    }

    #[test]
    fn avoided_words_are_found_as_whole_words() {
        for (text, expected) in [
            ("What it was Told.", &["told"][..]),
            ("retold, untold", &["untold"]),
            ("It lent silent talent", &["lent"]),
            ("for\never and for, ever", &["for ever"]),
            ("The neighbours' behaviour: misbehaviour", &["neighbours", "behaviour", "misbehaviour"]),
            ("taken off its core, held-up", &["taken off its core", "held up"]),
            ("*all the same* to me", &["all the same"]),
            ("docks and tenants", &["docks", "tenants"]),
            ("It does not send, nor receive", &["nor"]),
            ("Sends neither marks nor tags. Nor pauses", &["nor"]),
            ("is notable", &[]),
        ] {
            let words: Vec<String> = found(&[(1, text)]).into_iter().map(|(_, word)| word).collect();
            assert_eq!(words, expected, "{text}");
        }
        assert_eq!(
            found(&[(7, "it runs for"), (8, "ever, told")]),
            [(7, "for ever".to_owned()), (8, "told".to_owned())]
        );
        assert_eq!(found(&[(7, "it runs for"), (8, ""), (9, "ever")]), []);
    }

    #[test]
    fn code_and_links_are_left_out() {
        for text in ["a `told` b", "a ``told ` told`` b", "[x](told.md) b", "see https://told.org/told b"] {
            assert_eq!(found(&[(1, text)]), [], "{text}");
        }
        assert_eq!(found(&[(1, "```"), (2, "told"), (3, "```"), (4, "anew")]), [(4, "anew".to_owned())]);
        assert_eq!(found(&[(1, "a `told"), (2, "told` anew")]), [(2, "anew".to_owned())]);
        assert_eq!(found(&[(1, "a ` told")]), [(1, "told".to_owned())]);
        assert_eq!(found(&[(1, "[told](x.md) and (told)")]).len(), 2);
    }

    #[test]
    fn names_are_split_at_underscores_and_capitals() {
        for (name, expected) in [
            ("untold_drops", &["untold", "drops"][..]),
            ("FRAMES_LENT", &["frames", "lent"]),
            ("WasTold", &["was", "told"]),
            ("PFCTold", &["pfc", "told"]),
            ("rx2Told", &["rx2", "told"]),
            ("_held-up", &["held", "up"]),
        ] {
            assert_eq!(words_of_name(name), expected);
        }
    }
}
