//! The terms of a text: what is looked up in the index, the same for a passage and for a query.
//!
//! A term is a word in lower case, without accents and after English stemming; the words inside `camelCase` and
//! the pairs of neighbours in writing without spaces (Chinese, Japanese) are terms too. Terms hold letters and digits
//! only, so that none needs to be quoted.

use annals_embed::fold;

/// A longer word is cut.
const TERM_MAX_CHARS: usize = 40;

/// Tells `seen` every term of a text, as often as it occurs.
pub fn terms(text: &str, mut seen: impl FnMut(&str)) {
    let mut rest = text;
    let mut word = String::new();
    loop {
        // Byte by byte as far as it goes: most words are written in plain letters.
        let plain = rest.bytes().take_while(|byte| is_plain_border(*byte)).count();
        rest = &rest[plain..];
        if let Some(end) = plain_run(rest) {
            words(&rest[..end], &mut word, &mut seen);
            rest = &rest[end..];
            continue;
        }
        let Some(end) = run_in_any_writing(&mut rest) else {
            break;
        };
        let run = &rest[..end];
        match run.chars().next().is_some_and(is_unspaced) {
            true => pairs(run, &mut seen),
            false => words(run, &mut word, &mut seen),
        }
        rest = &rest[end..];
    }
}

/// Goes to the next word of a text; where it ends. None if there is no other.
fn run_in_any_writing(rest: &mut &str) -> Option<usize> {
    let text = &rest[rest.find(char::is_alphanumeric)?..];
    *rest = text;
    let unspaced = text.chars().next().is_some_and(is_unspaced);
    let end = text
        .char_indices()
        .find(|(at, c)| !belongs(text, *at, *c, unspaced))
        .map_or(text.len(), |(at, _)| at);
    Some(end)
}

fn is_plain_border(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_alphanumeric()
}

/// Where the word that this text begins with ends, if it is one in plain letters and digits.
fn plain_run(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let goes_on = |at: usize| match bytes[at] {
        b',' => groups_digits(text, at),
        byte => byte.is_ascii_alphanumeric(),
    };
    let end = (0..bytes.len()).find(|at| !goes_on(*at)).unwrap_or(bytes.len());
    // An accent or another letter may go on with it.
    (end > 0 && bytes.get(end).is_none_or(u8::is_ascii)).then_some(end)
}

/// The different terms of a text, in their order.
pub fn distinct(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    terms(text, |term| {
        if !found.iter().any(|other| other == term) {
            found.push(term.to_owned());
        }
    });
    found
}

/// Whether a character goes on with the word that is being read.
fn belongs(text: &str, at: usize, c: char, unspaced: bool) -> bool {
    if unspaced {
        return is_unspaced(c) && c.is_alphanumeric();
    }
    match c {
        ',' => groups_digits(text, at),
        c => (c.is_alphanumeric() && !is_unspaced(c)) || fold::is_accent(c),
    }
}

/// Whether the comma at this place only groups digits, as in `12,500`.
fn groups_digits(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let (before, after) = (&bytes[..at], &bytes[at + 1..]);
    let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
    before.last().is_some_and(u8::is_ascii_digit) && digits == 3
}

/// Writing that puts no spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c), 0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2FA1F)
}

fn pairs(run: &str, seen: &mut impl FnMut(&str)) {
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    match starts.len() {
        0..=2 => seen(run),
        _ => starts.windows(3).for_each(|pair| seen(&run[pair[0]..pair[2]])),
    }
}

/// A word, and the words that its capitals show inside it.
fn words(run: &str, word: &mut String, seen: &mut impl FnMut(&str)) {
    fold_into(run, word);
    if word.is_empty() {
        return;
    }
    seen(stem(word));
    if !run.bytes().skip(1).any(|byte| byte.is_ascii_uppercase()) {
        return;
    }
    let mut parts = inner(run).peekable();
    let first = parts.next();
    if parts.peek().is_some() {
        for part in first.into_iter().chain(parts) {
            fold_into(part, word);
            if word.len() > 1 {
                seen(stem(word));
            }
        }
    }
}

fn fold_into(run: &str, word: &mut String) {
    word.clear();
    if run.len() <= TERM_MAX_CHARS && run.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        word.push_str(run);
        word.make_ascii_lowercase();
        return;
    }
    run.chars()
        .filter(|c| *c != ',')
        .take(TERM_MAX_CHARS)
        .for_each(|c| fold::push(word, c));
    if !word.is_ascii() {
        // Folding may leave a sign that stands alone; a term has none.
        word.retain(char::is_alphanumeric);
    }
}

/// `maxIterations` as `max`, `Iterations`.
fn inner(run: &str) -> impl Iterator<Item = &str> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let bytes = rest.as_bytes();
        let end = (1..bytes.len())
            .find(|at| bytes[at - 1].is_ascii_lowercase() && bytes[*at].is_ascii_uppercase())
            .unwrap_or(bytes.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// Light English stemming: plurals, `-ed`, `-ing`, a last `e`. Crude, and the same for passages and queries. Terms are
/// stored, so another stemmer means another index.
fn stem(word: &str) -> &str {
    const SHORTEST: usize = 4;
    if word.len() < SHORTEST || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word;
    }
    let word = match word {
        w if w.ends_with("ies") && w.len() > SHORTEST => return &w[..w.len() - 3],
        w if ["sses", "shes", "ches", "xes", "zes"]
            .iter()
            .any(|ending| w.ends_with(ending)) =>
        {
            &w[..w.len() - 2]
        }
        w if ["ss", "us", "is"].iter().any(|ending| w.ends_with(ending)) => w,
        w => w.strip_suffix('s').unwrap_or(w),
    };
    let word = ["ing", "ed"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending).filter(|rest| has_vowel(rest)))
        .map_or(word, undouble);
    match word.strip_suffix(['e', 'y']) {
        Some(rest) if rest.len() >= SHORTEST - 1 => rest,
        _ => word,
    }
}

fn has_vowel(rest: &str) -> bool {
    rest.len() >= 3 && rest.bytes().any(|byte| b"aeiouy".contains(&byte))
}

/// `runn` as `run`; `call` and `pass` stay.
fn undouble(word: &str) -> &str {
    match word.as_bytes() {
        [.., a, b] if a == b && !b"lsz".contains(b) => &word[..word.len() - 1],
        _ => word,
    }
}

/// Words so common in English that they say nothing when others are there.
pub fn is_filler(term: &str) -> bool {
    const FILLERS: &[&str] = &[
        "a", "about", "again", "all", "an", "and", "any", "ar", "are", "as", "at", "be", "been", "but", "by",
        "can", "could", "did", "do", "doe", "does", "each", "for", "from", "get", "got", "had", "has", "hav",
        "have", "he", "her", "here", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just",
        "like", "mad", "make", "me", "mor", "more", "my", "no", "not", "of", "on", "one", "or", "our", "out",
        "pleas", "said", "say", "she", "should", "so", "som", "some", "than", "that", "the", "their", "them",
        "then", "ther", "there", "thes", "they", "this", "thos", "to", "up", "us", "use", "used", "was",
        "we", "wer", "were", "what", "when", "wher", "where", "which", "who", "whom", "why", "will", "with",
        "would", "you", "your",
    ];
    FILLERS.binary_search(&term).is_ok()
}

/// Whether two terms differ by a slip of the hand: one letter more, less, other or exchanged with its neighbour; two in
/// a long word.
pub fn is_near(a: &str, b: &str) -> bool {
    let length = a.chars().count();
    let allowed = match length {
        0..=3 => return false,
        4..=7 => 1,
        _ => 2,
    };
    length.abs_diff(b.chars().count()) <= allowed && strsim::osa_distance(a, b) <= allowed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> String {
        let mut found = Vec::new();
        terms(text, |term| found.push(term.to_owned()));
        found.join(" ")
    }

    #[test]
    fn words_are_small_plain_and_without_ending() {
        assert_eq!(
            of("The Invoices were computed in Zürich."),
            "the invoic wer comput in zurich"
        );
        assert_eq!(of("running runs run"), "run run run");
        assert_eq!(of("policies policy"), "polic polic");
    }

    #[test]
    fn code_words_are_found_whole_and_in_parts() {
        assert_eq!(of("react.memsearch(max_hits)"), "react memsearch max hit");
        assert_eq!(of("maxIterations"), "maxiteration max iteration");
        assert_eq!(of("HTTP2 v1.2"), "http2 v1 2");
    }

    #[test]
    fn grouped_digits_are_one_number() {
        assert_eq!(of("305,893.50 and 1,2"), "305893 50 and 1 2");
    }

    #[test]
    fn writing_without_spaces_gives_pairs() {
        assert_eq!(of("記憶検索 memory 東"), "記憶 憶検 検索 memor 東");
    }

    #[test]
    fn fillers_can_be_searched() {
        assert!(["the", "which", "doe", "wher"].into_iter().all(is_filler));
        assert!(!is_filler("invoic"));
    }

    #[test]
    fn slips_are_near_and_other_words_are_not() {
        for (a, b) in [
            ("recieve", "receive"),
            ("kubernets", "kubernetes"),
            ("budgte", "budget"),
            ("migraton", "migration"),
        ] {
            assert!(is_near(a, b), "{a} {b}");
        }
        for (a, b) in [("cat", "car"), ("march", "matrix"), ("budget", "gadget")] {
            assert!(!is_near(a, b), "{a} {b}");
        }
    }

    /// [`terms`] without its short way for plain letters.
    fn in_any_writing(text: &str) -> String {
        let mut found = Vec::new();
        let (mut rest, mut word) = (text, String::new());
        while let Some(end) = run_in_any_writing(&mut rest) {
            let (run, after) = rest.split_at(end);
            match run.chars().next().is_some_and(is_unspaced) {
                true => pairs(run, &mut |term: &str| found.push(term.to_owned())),
                false => words(run, &mut word, &mut |term: &str| found.push(term.to_owned())),
            }
            rest = after;
        }
        found.join(" ")
    }

    proptest! {
        #[test]
        fn plain_letters_are_read_as_any_others(text in "([a-cA-C0-9éЖ記、,' ._\u{301}]|\\PC){0,40}") {
            prop_assert_eq!(of(&text), in_any_writing(&text));
        }

        #[test]
        fn terms_are_letters_and_digits(text in "\\PC{0,200}") {
            terms(&text, |term| assert!(!term.is_empty() && term.chars().all(char::is_alphanumeric), "{term:?}"));
        }

        #[test]
        fn one_slip_is_always_near(word in "[a-z]{4,12}", at in 0usize..11, to in "[a-z]") {
            let at = at.min(word.len() - 1);
            let mut slipped = word.clone();
            slipped.replace_range(at..=at, &to);
            prop_assert!(is_near(&slipped, &word));
        }
    }
}
