//! Tokens of a text without a vocabulary: what a build without the feature `tokenizer` counts by.
//!
//! A byte-pair vocabulary has whole words of the common scripts, three digits to a token, and one or two tokens for
//! each sign of the rest. One pass over the characters that charges for runs of these comes close enough to budget
//! with, and errs upwards: a prompt that is taken for longer than it is gets pruned early, one that is taken for
//! shorter is refused by the provider.

/// Letters of a word that one token covers, on average over prose and code.
const LETTERS_PER_TOKEN: u32 = 5;
/// Letters of other alphabets that one token covers.
const OTHER_LETTERS_PER_TOKEN: u32 = 3;
const DIGITS_PER_TOKEN: u32 = 3;
/// Signs in a row (`----`, `});`) that one token covers.
const SIGNS_PER_TOKEN: u32 = 2;
/// Blanks in a row, beyond the one that belongs to the following word, that one token covers.
const BLANKS_PER_TOKEN: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letters,
    OtherLetters,
    Digits,
    Signs,
    Blanks,
    /// Ideographs, syllables, emoji: a token or more for each.
    Single,
}

/// About as many tokens as the o200k vocabulary makes of the text, rather more than less.
pub(super) fn count(text: &str) -> u32 {
    let mut total = 0u32;
    let mut run = (Class::Blanks, 0u32);
    for c in text.chars() {
        let class = class(c);
        if class == run.0 {
            run.1 = run.1.saturating_add(1);
        } else {
            // A vocabulary joins a blank to the word or sign behind it, but not to digits.
            let own_blank = u32::from(run.0 == Class::Blanks && run.1 > 0 && class == Class::Digits);
            total = total.saturating_add(cost(run.0, run.1)).saturating_add(own_blank);
            run = (class, 1);
        }
    }
    total.saturating_add(cost(run.0, run.1))
}

fn class(c: char) -> Class {
    match c {
        'a'..='z' | 'A'..='Z' => Class::Letters,
        '0'..='9' => Class::Digits,
        // A line's end is a token of its own more often than not.
        '\n' => Class::Single,
        c if c.is_whitespace() => Class::Blanks,
        c if c.is_ascii() => Class::Signs,
        // Alphabets end before the syllables and ideographs of East Asia; signs and emoji lie beyond.
        c if (c as u32) < 0x1100 && c.is_alphabetic() => Class::OtherLetters,
        _ => Class::Single,
    }
}

fn cost(class: Class, length: u32) -> u32 {
    match class {
        Class::Letters => length.div_ceil(LETTERS_PER_TOKEN),
        Class::OtherLetters => length.div_ceil(OTHER_LETTERS_PER_TOKEN),
        Class::Digits => length.div_ceil(DIGITS_PER_TOKEN),
        Class::Signs => length.div_ceil(SIGNS_PER_TOKEN),
        Class::Blanks => length.saturating_sub(1).div_ceil(BLANKS_PER_TOKEN),
        Class::Single => length,
    }
}

#[cfg(all(test, feature = "tokenizer"))]
mod tests {
    const TEXTS: [(&str, &str); 7] = [
        (
            "prose",
            "The log is the only truth: what the model is sent, what people see, what happens next and what is done \
             after a crash are all folds over it. Nothing is edited, and nothing is removed without saying so.",
        ),
        (
            "code",
            "pub fn seed(&mut self, words: &[&str]) -> Result<usize, StoreError> {\n    let mut seen = \
             HashSet::with_capacity(words.len());\n    for word in words {\n        seen.insert(word.trim());\n    \
             }\n    Ok(seen.len())\n}\n",
        ),
        (
            "json",
            r#"{"id":"tc_a1","tool":"react.write","params":{"path":"report.md","size":182736,"kind":"display"}}"#,
        ),
        (
            "table",
            "| 2024-03-01 | 1,203.55 | ok |\n| 2024-03-02 | 998.10 | late |\n",
        ),
        (
            "russian",
            "Журнал хранит каждый шаг разговора, и ничего не удаляется без следа.",
        ),
        ("chinese", "日志保存对话的每一步，任何内容都不会无故消失。"),
        (
            "german",
            "Größere Änderungen müssen begründet werden, überprüfbar und für alle verständlich.",
        ),
    ];

    #[test]
    fn the_estimate_is_close_to_the_vocabulary_and_rather_above_it() {
        for (name, text) in TEXTS {
            let (estimated, exact) = (super::count(text), super::super::count(text));
            let ratio = f64::from(estimated) / f64::from(exact);
            assert!((0.9..1.7).contains(&ratio), "{name}: {estimated} for {exact}");
        }
    }

    #[test]
    fn nothing_costs_nothing_and_a_long_run_does_not_overflow() {
        assert_eq!(super::count(""), 0);
        assert_eq!(super::count(&"x".repeat(1 << 20)), (1u32 << 20).div_ceil(5));
    }
}
