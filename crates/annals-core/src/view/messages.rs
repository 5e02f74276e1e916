//! The messages of a prompt, oldest first, as a list whose clone shares them.
//!
//! A conversation of thousands of rounds is rendered once and sent again at every step, so what a prompt takes from
//! the renderer must cost what is new, not what is old. Changing a shared message copies that one.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use super::prompt::Message;

/// Messages to a chunk; every chunk but the last is full.
const CHUNK: usize = 64;

/// Messages that are shared until they are changed.
#[derive(Clone, Default)]
pub struct Messages {
    chunks: Vec<Arc<Vec<Arc<Message>>>>,
}

impl Messages {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self.chunks.split_last() {
            Some((last, full)) => full.len() * CHUNK + last.len(),
            None => 0,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// One of them, by number from 0.
    pub fn get(&self, at: usize) -> Option<&Message> {
        let message = self.chunks.get(at / CHUNK)?.get(at % CHUNK)?;
        Some(message)
    }

    /// One of them, to be changed; no other list sees the change.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut Message> {
        let chunk = Arc::make_mut(self.chunks.get_mut(at / CHUNK)?);
        chunk.get_mut(at % CHUNK).map(Arc::make_mut)
    }

    /// The last one.
    pub fn last(&self) -> Option<&Message> {
        self.get(self.len().checked_sub(1)?)
    }

    /// The last one, to be changed; no other list sees the change.
    pub fn last_mut(&mut self) -> Option<&mut Message> {
        self.get_mut(self.len().checked_sub(1)?)
    }

    /// Adds one at the end.
    pub fn push(&mut self, message: Message) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => Arc::make_mut(last).push(Arc::new(message)),
            _ => self.chunks.push(Arc::new(vec![Arc::new(message)])),
        }
    }

    /// Keeps the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.chunks.truncate(len.div_ceil(CHUNK));
        if let Some(last) = self.chunks.get_mut(len / CHUNK) {
            Arc::make_mut(last).truncate(len % CHUNK);
        }
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            messages: self,
            next: 0,
            end: self.len(),
        }
    }
}

impl Index<usize> for Messages {
    type Output = Message;

    fn index(&self, at: usize) -> &Message {
        self.get(at).expect("within the list")
    }
}

impl From<Vec<Message>> for Messages {
    fn from(messages: Vec<Message>) -> Self {
        messages.into_iter().collect()
    }
}

impl FromIterator<Message> for Messages {
    fn from_iter<T: IntoIterator<Item = Message>>(messages: T) -> Self {
        let mut list = Messages::default();
        messages.into_iter().for_each(|message| list.push(message));
        list
    }
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<'a> IntoIterator for &'a Messages {
    type Item = &'a Message;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterator over [`Messages`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    messages: &'a Messages,
    next: usize,
    end: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Message;

    fn next(&mut self) -> Option<&'a Message> {
        (self.next < self.end).then(|| {
            self.next += 1;
            &self.messages[self.next - 1]
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        (self.next < self.end).then(|| {
            self.end -= 1;
            &self.messages[self.end]
        })
    }
}

impl ExactSizeIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::view::Piece;

    fn said(text: usize) -> Message {
        Message::User(vec![Piece::text(text.to_string())])
    }

    #[derive(Clone, Debug)]
    enum Change {
        Push(usize),
        Truncate(usize),
        Replace(usize, usize),
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let change = prop_oneof![
            6 => (1..90_usize).prop_map(Change::Push),
            2 => (0..400_usize).prop_map(Change::Truncate),
            2 => (0..400_usize, any::<usize>()).prop_map(|(at, with)| Change::Replace(at, with)),
        ];
        proptest::collection::vec(change, 0..12)
    }

    proptest! {
        #[test]
        fn it_is_a_list_and_its_clones_never_change(changes in changes()) {
            let (mut list, mut model): (Messages, Vec<Message>) = Default::default();
            let mut kept = Vec::new();
            for change in changes {
                kept.push((list.clone(), model.clone()));
                match change {
                    Change::Push(count) => (0..count).for_each(|n| {
                        list.push(said(n));
                        model.push(said(n));
                    }),
                    Change::Truncate(len) => {
                        list.truncate(len);
                        model.truncate(len);
                    }
                    Change::Replace(at, with) => {
                        if let Some(place) = list.get_mut(at) {
                            *place = said(with);
                            model[at] = said(with);
                        }
                    }
                }
                prop_assert_eq!(list.len(), model.len());
                prop_assert_eq!(list.is_empty(), model.is_empty());
                prop_assert_eq!(list.last(), model.last());
                prop_assert!(list.iter().eq(&model));
                prop_assert!(list.iter().rev().eq(model.iter().rev()));
            }
            for (list, model) in kept {
                prop_assert!(list.iter().eq(&model));
            }
        }
    }
}
