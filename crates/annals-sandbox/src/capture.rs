//! Output kept within a bound: the head, the tail, and an honest count of what fell between.
//!
//! A command may write gigabytes; memory holds at most the limit. Nothing here reads a pipe.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One output stream of a command: everything, or its head and tail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    head: Vec<u8>,
    tail: Vec<u8>,
    total_bytes: u64,
}

impl Captured {
    /// The ends of an output of `total_bytes`, whose middle was left where it is.
    pub fn from_ends(head: Vec<u8>, tail: Vec<u8>, total_bytes: u64) -> Self {
        let kept = (head.len() + tail.len()) as u64;
        Self {
            head,
            tail,
            total_bytes: total_bytes.max(kept),
        }
    }

    /// All bytes that were kept: head, then tail, with no mark between.
    pub fn kept(&self) -> Cow<'_, [u8]> {
        if self.tail.is_empty() {
            Cow::Borrowed(&self.head)
        } else {
            Cow::Owned([&self.head[..], &self.tail].concat())
        }
    }

    /// The first bytes; all of them unless [`Self::omitted_bytes`] says otherwise.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The last bytes, when the head could not hold everything.
    pub fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// How much was written.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// How much of it was dropped, between head and tail.
    pub fn omitted_bytes(&self) -> u64 {
        self.total_bytes - (self.head.len() + self.tail.len()) as u64
    }

    /// Whether anything was dropped.
    pub fn is_truncated(&self) -> bool {
        self.omitted_bytes() > 0
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.total_bytes == 0
    }

    /// As text: bytes that are not UTF-8 become replacement characters, and a counted mark stands where
    /// something was dropped.
    pub fn text(&self) -> Cow<'_, str> {
        if !self.is_truncated() {
            return match self.kept() {
                Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
                Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
            };
        }
        Cow::Owned(format!(
            "{}\n...[{} bytes omitted]...\n{}",
            String::from_utf8_lossy(&self.head),
            self.omitted_bytes(),
            String::from_utf8_lossy(&self.tail)
        ))
    }
}

impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl From<Vec<u8>> for Captured {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            total_bytes: bytes.len() as u64,
            head: bytes,
            tail: Vec::new(),
        }
    }
}

impl From<&str> for Captured {
    fn from(text: &str) -> Self {
        text.as_bytes().to_vec().into()
    }
}

/// Fills a [`Captured`]: half the limit for the head, half for the tail.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total_bytes: u64,
    head_limit: usize,
    tail_limit: usize,
}

impl Capture {
    /// Keeps at most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        let tail_limit = limit_bytes / 2;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            total_bytes: 0,
            head_limit: limit_bytes - tail_limit,
            tail_limit,
        }
    }

    /// Takes what came next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// How much came so far.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// What was kept so far.
    pub fn finish(self) -> Captured {
        Captured {
            head: self.head,
            tail: self.tail.into(),
            total_bytes: self.total_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn head_and_tail_are_the_ends_of_what_was_pushed(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            limit in 0usize..100,
        ) {
            let whole = chunks.concat();
            let mut capture = Capture::new(limit);
            chunks.iter().for_each(|chunk| capture.push(chunk));
            let captured = capture.finish();
            prop_assert_eq!(captured.total_bytes(), whole.len() as u64);
            prop_assert!(captured.kept().len() <= limit);
            prop_assert!(whole.starts_with(captured.head()));
            prop_assert!(whole.ends_with(captured.tail()));
            prop_assert_eq!(captured.is_truncated(), whole.len() > limit);
            if !captured.is_truncated() {
                prop_assert_eq!(captured.kept().into_owned(), whole);
            }
        }
    }

    #[test]
    fn a_dropped_middle_is_counted_in_the_text() {
        let mut capture = Capture::new(8);
        capture.push(b"0123456789abcdef");
        assert_eq!(capture.finish().text(), "0123\n...[8 bytes omitted]...\ncdef");
    }
}
