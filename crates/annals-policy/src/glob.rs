//! Patterns for names, paths and hosts: `*` stands for any characters, `?` for one.

/// A pattern. A text without `*` and `?` matches itself only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Glob(String);

impl Glob {
    /// The pattern of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Glob(text.into())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it can match one text only.
    pub fn is_literal(&self) -> bool {
        !self.0.contains(['*', '?'])
    }

    /// Whether the whole text fits.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text): (Vec<char>, Vec<char>) = (self.0.chars().collect(), text.chars().collect());
        let (mut at, mut seen) = (0, 0);
        // Where the last star was, and how far it reaches: only that one ever has to take more.
        let mut star: Option<(usize, usize)> = None;
        while seen < text.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(c) if *c == '?' || *c == text[seen] => {
                    at += 1;
                    seen += 1;
                }
                _ => match &mut star {
                    Some((place, reached)) => {
                        *reached += 1;
                        (at, seen) = (*place + 1, *reached);
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_takes_what_it_must_and_nothing_matches_a_part() {
        let matches = |pattern: &str, text: &str| Glob::new(pattern).matches(text);
        for (pattern, text) in [
            ("github.*", "github.create_issue"),
            ("*", ""),
            ("*.internal", "a.b.internal"),
            ("a*b*c", "abbbcbc"),
            ("fi:*.files/out/*", "fi:turn_1.files/out/x.md"),
            ("r?ad", "read"),
            ("ü*", "über"),
        ] {
            assert!(matches(pattern, text), "`{pattern}` and `{text}`");
        }
        for (pattern, text) in [
            ("github.*", "github"),
            ("*.internal", "internal"),
            ("*.internal", "a.internal.example.com"),
            ("a*b", "abc"),
            ("read", "reader"),
            ("", "x"),
        ] {
            assert!(!matches(pattern, text), "`{pattern}` and `{text}`");
        }
        let many = format!("{}b", "a*".repeat(40));
        assert!(!matches(&many, &"a".repeat(20_000)), "and quickly");
    }
}
