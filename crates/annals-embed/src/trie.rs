//! The longest known beginning of a text, found in one pass: a trie in one array.
//!
//! A state is a place in the array; a byte leads from it to the place `base + byte`, if that one names it as the state
//! before it (a double array). It must not know what the numbers stand for.

/// What stands for no number, and for no state.
const NONE: u32 = u32::MAX;

/// What stands before a root: its place is taken, and no byte leads to it.
const NOWHERE: u32 = NONE - 1;

/// A state looks for room among this number of last places; what is left free before them stays free.
const WINDOW: usize = 256;

/// A byte leads at most so far.
const BYTES: usize = 256;

/// Texts with numbers, in several sets of which each is searched by itself.
#[derive(Debug)]
pub(crate) struct Trie {
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    base: u32,
    /// The state before this one; [`NONE`] if the place is free.
    before: u32,
    /// The number of the text that ends here.
    number: u32,
}

const FREE: Place = Place {
    base: 0,
    before: NONE,
    number: NONE,
};

/// A beginning that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Longest {
    pub(crate) bytes: usize,
    pub(crate) number: u32,
}

/// Texts that share their first bytes, on their way into the array.
struct Branch<'t, 's> {
    state: usize,
    texts: &'s [(&'t [u8], u32)],
    /// How many bytes they share.
    depth: usize,
}

impl Trie {
    /// Set `n` of the trie has the `n`-th of these sets of texts.
    pub(crate) fn of<const N: usize>(sets: [&mut Vec<(&[u8], u32)>; N]) -> Self {
        let root = Place {
            before: NOWHERE,
            ..FREE
        };
        let mut trie = Trie {
            places: vec![root; N],
        };
        let mut free = N;
        for (state, texts) in sets.into_iter().enumerate() {
            texts.sort_unstable();
            let mut branches = vec![Branch {
                state,
                texts,
                depth: 0,
            }];
            while let Some(branch) = branches.pop() {
                trie.grow(&branch, &mut free, &mut branches);
            }
        }
        // Every byte leads from every state to a place that is there.
        let end = trie.places.len() + BYTES;
        trie.places.resize(end, FREE);
        trie.places.shrink_to_fit();
        trie
    }

    /// Gives the states after a branch their places.
    fn grow<'t, 's>(
        &mut self,
        branch: &Branch<'t, 's>,
        free: &mut usize,
        branches: &mut Vec<Branch<'t, 's>>,
    ) {
        let Branch { state, texts, depth } = *branch;
        let ended = texts.partition_point(|(text, _)| text.len() == depth);
        if let Some((_, number)) = texts[..ended].last() {
            self.places[state].number = *number;
        }
        let further: Vec<&[(&[u8], u32)]> = texts[ended..]
            .chunk_by(|(a, _), (b, _)| a[depth] == b[depth])
            .collect();
        let bytes: Vec<usize> = further
            .iter()
            .map(|texts| usize::from(texts[0].0[depth]))
            .collect();
        let Some(base) = self.room(&bytes, free) else {
            return;
        };
        self.places[state].base = base as u32;
        for (byte, texts) in bytes.into_iter().zip(further) {
            let next = base + byte;
            self.places[next].before = state as u32;
            branches.push(Branch {
                state: next,
                texts,
                depth: depth + 1,
            });
        }
    }

    /// Where all these bytes lead to places that are free; none if there are no bytes.
    fn room(&mut self, bytes: &[usize], free: &mut usize) -> Option<usize> {
        let least = *bytes.first()?;
        // Whatever lies before the first free place of the window is never looked at again.
        *free = (*free).max(self.places.len().saturating_sub(WINDOW));
        while self.places.get(*free).is_some_and(|place| place.before != NONE) {
            *free += 1;
        }
        let from = (*free).max(least);
        let base = (from..).map(|place| place - least).find(|base| {
            bytes.iter().all(|byte| {
                self.places
                    .get(base + byte)
                    .is_none_or(|place| place.before == NONE)
            })
        })?;
        let end = base + bytes.last()? + 1;
        if end > self.places.len() {
            self.places.resize(end, FREE);
        }
        Some(base)
    }

    /// The longest text of a set that this one begins with; the empty one does not count.
    #[inline]
    pub(crate) fn longest(&self, set: usize, text: &[u8]) -> Option<Longest> {
        let mut state = set;
        let mut longest = None;
        for (at, byte) in text.iter().enumerate() {
            let next = self.places[state].base as usize + usize::from(*byte);
            let place = self.places[next];
            if place.before != state as u32 {
                break;
            }
            state = next;
            if place.number != NONE {
                longest = Some(Longest {
                    bytes: at + 1,
                    number: place.number,
                });
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn plainly(texts: &BTreeMap<Vec<u8>, u32>, text: &[u8]) -> Option<Longest> {
        (1..=text.len()).rev().find_map(|bytes| {
            let number = *texts.get(&text[..bytes])?;
            Some(Longest { bytes, number })
        })
    }

    proptest! {
        #[test]
        fn the_longest_beginning_of_each_set_is_found(
            first in proptest::collection::btree_map(proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..6), 0u32..9, 0..60),
            second in proptest::collection::btree_map(proptest::collection::vec(0u8..4, 0..6), 0u32..9, 0..60),
            texts in proptest::collection::vec(proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..9), 0..40),
        ) {
            let pairs = |set: &BTreeMap<Vec<u8>, u32>| set.clone().into_iter().collect::<Vec<_>>();
            let (one, two) = (pairs(&first), pairs(&second));
            fn borrowed(set: &[(Vec<u8>, u32)]) -> Vec<(&[u8], u32)> {
                set.iter().map(|(text, number)| (text.as_slice(), *number)).collect()
            }
            let trie = Trie::of([&mut borrowed(&one), &mut borrowed(&two)]);
            for text in first.keys().chain(second.keys()).chain(&texts) {
                prop_assert_eq!(trie.longest(0, text), plainly(&first, text));
                prop_assert_eq!(trie.longest(1, text), plainly(&second, text));
            }
        }
    }
}
