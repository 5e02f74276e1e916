//! A key that cannot be printed.

use std::fmt;

/// A provider's key. Its `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// This key, without the line end that files and pasted text bring along.
    pub fn new(key: &str) -> Self {
        ApiKey(key.trim().to_owned())
    }

    #[cfg(feature = "http")]
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The text without the key, and without words that begin like it: providers echo keys, some half masked.
    #[cfg(feature = "http")]
    pub(crate) fn redact(&self, text: &str) -> String {
        const TELLING_BYTES: usize = 6;
        if self.0.is_empty() {
            return text.to_owned();
        }
        let text = text.replace(&self.0, "[key]");
        let Some(start) = self.0.get(..TELLING_BYTES) else {
            return text;
        };
        let mut redacted = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find(start) {
            redacted.push_str(&rest[..at]);
            redacted.push_str("[key]");
            let word = &rest[at..];
            rest = &word[word.find(char::is_whitespace).unwrap_or(word.len())..];
        }
        redacted.push_str(rest);
        redacted
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let key = ApiKey::new(" sk-proj-abcdefgh1234\n");
        assert_eq!(format!("{key:?}"), "ApiKey(…)");
        let echoed = "Incorrect API key provided: sk-proj-********1234. See (sk-proj-abcdefgh1234).";
        assert_eq!(
            key.redact(echoed),
            "Incorrect API key provided: [key] See ([key])."
        );
        assert_eq!(ApiKey::new("").redact("nothing to hide"), "nothing to hide");
    }
}
