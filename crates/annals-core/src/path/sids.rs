//! A set of source ids, as it stands in `so:sources_pool[1,3-5]` and in citations.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::{Sid, deserialize_parsed, shown};
use crate::limits;

/// Why a text is not a selection of sources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SidSetError {
    /// An item is not `n`, `n-m` or `n:m`.
    #[error("`{given}` is not a selection of sources: expected numbers from 1 such as `1,3-5`")]
    Malformed {
        /// The offending text, cut to a readable length.
        given: String,
    },
    /// The selection names more sources than one selection may.
    #[error(
        "a selection names at most {} sources: select fewer",
        limits::SID_SET_MAX_SIDS
    )]
    TooMany,
}

/// A sorted set of source ids, kept as ranges, of at most [`limits::SID_SET_MAX_SIDS`].
///
/// The bound is part of the type, so that walking a set that a model wrote (`1-4000000000`) is always cheap.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct SidSet {
    /// Inclusive, ascending, neither overlapping nor touching.
    ranges: Vec<(u32, u32)>,
}

impl SidSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Reads `item {"," item}` with `item = n | n-m | n:m`; order is free, duplicates fold, both ends of a
    /// range are included, and spaces around an item are ignored. The empty text is the empty set.
    pub fn parse(text: &str) -> Result<Self, SidSetError> {
        if text.trim_matches(' ').is_empty() {
            return Ok(Self::new());
        }
        let ranges = text
            .split(',')
            .map(|item| read_item(item).ok_or_else(|| SidSetError::Malformed { given: shown(text) }))
            .collect::<Result<Vec<_>, _>>()?;
        Self::fold(ranges)
    }

    /// The set of these ids.
    pub fn try_from_sids(sids: impl IntoIterator<Item = Sid>) -> Result<Self, SidSetError> {
        Self::fold(sids.into_iter().map(|sid| (sid.get(), sid.get())).collect())
    }

    /// Everything that is in either.
    pub fn union(&self, other: &Self) -> Result<Self, SidSetError> {
        Self::fold(self.ranges.iter().chain(&other.ranges).copied().collect())
    }

    fn fold(mut ranges: Vec<(u32, u32)>) -> Result<Self, SidSetError> {
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let touches = next.0 <= kept.1.saturating_add(1);
            if touches {
                kept.1 = kept.1.max(next.1);
            }
            touches
        });
        ranges.shrink_to_fit();
        let set = Self { ranges };
        if set.count() > limits::SID_SET_MAX_SIDS as u64 {
            Err(SidSetError::TooMany)
        } else {
            Ok(set)
        }
    }

    fn count(&self) -> u64 {
        self.ranges
            .iter()
            .map(|&(first, last)| u64::from(last - first) + 1)
            .sum()
    }

    /// How many ids are in it.
    pub fn len(&self) -> usize {
        self.count() as usize
    }

    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether `sid` is in it.
    pub fn contains(&self, sid: Sid) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < sid.get());
        self.ranges.get(at).is_some_and(|&(first, _)| first <= sid.get())
    }

    /// Its ids in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Sid> + '_ {
        self.ranges
            .iter()
            .flat_map(|&(first, last)| first..=last)
            .filter_map(|n| Sid::try_new(n).ok())
    }

    /// The smallest id.
    pub fn first(&self) -> Option<Sid> {
        self.iter().next()
    }
}

/// `n`, `n-m` or `n:m`.
fn read_item(item: &str) -> Option<(u32, u32)> {
    let number = |text: &str| text.trim_matches(' ').parse::<Sid>().ok().map(Sid::get);
    match item.split_once(['-', ':']) {
        None => number(item).map(|n| (n, n)),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            Some((first.min(last), first.max(last)))
        }
    }
}

impl fmt::Display for SidSet {
    /// The shortest form: `1,3-5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &(first, last)) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SidSet({self})")
    }
}

impl FromStr for SidSet {
    type Err = SidSetError;
    fn from_str(text: &str) -> Result<Self, SidSetError> {
        Self::parse(text)
    }
}

impl From<Sid> for SidSet {
    fn from(sid: Sid) -> Self {
        Self {
            ranges: vec![(sid.get(), sid.get())],
        }
    }
}

impl Serialize for SidSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SidSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_parsed(
            deserializer,
            "a selection of sources such as `1,3-5`",
            Self::parse,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> String {
        SidSet::parse(text).map_or_else(|e| e.to_string(), |set| set.to_string())
    }

    #[test]
    fn order_is_free_and_duplicates_fold() {
        assert_eq!(read("1,3-5,7:9"), "1,3-5,7-9");
        assert_eq!(read("9,7-8,3,4,5,1,1"), "1,3-5,7-9");
        assert_eq!(read(" 1 , 3 - 5 "), "1,3-5");
        assert_eq!(read("5-3"), "3-5");
        assert_eq!(read(""), "");
        assert_eq!(read("4294967295"), "4294967295");
        assert_eq!(read("4294967290-4294967295,4294967295"), "4294967290-4294967295");
    }

    #[test]
    fn what_is_not_a_selection_is_refused() {
        for bad in [
            "0",
            "a",
            "1,",
            ",1",
            "1--2",
            "1-2-3",
            "-1",
            "+1",
            "1 2",
            "4294967296",
            "1,,2",
            "٣",
        ] {
            assert!(SidSet::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(SidSet::parse("1-4000000000"), Err(SidSetError::TooMany));
        assert!(SidSet::parse("1-10000").is_ok());
        assert!(SidSet::parse("1-10000,10001").is_err());
    }

    fn sids() -> impl Strategy<Value = BTreeSet<u32>> {
        proptest::collection::btree_set(prop_oneof![1u32..40, 1u32..=u32::MAX, Just(u32::MAX)], 0..40)
    }

    fn set_of(numbers: &BTreeSet<u32>) -> SidSet {
        SidSet::try_from_sids(numbers.iter().map(|&n| Sid::try_new(n).unwrap())).unwrap()
    }

    proptest! {
        #[test]
        fn a_set_holds_exactly_what_was_put_in(a in sids(), probe in 1u32..50) {
            let set = set_of(&a);
            prop_assert_eq!(set.iter().map(Sid::get).collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), a.len());
            prop_assert_eq!(set.is_empty(), a.is_empty());
            prop_assert_eq!(set.contains(Sid::try_new(probe).unwrap()), a.contains(&probe));
        }

        #[test]
        fn display_parses_back_and_is_canonical(a in sids()) {
            let set = set_of(&a);
            prop_assert_eq!(SidSet::parse(&set.to_string()), Ok(set.clone()));
            let spelled = a.iter().rev().map(u32::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(SidSet::parse(&spelled), Ok(set));
        }

        #[test]
        fn union_is_the_union(a in sids(), b in sids()) {
            let both: BTreeSet<u32> = a.union(&b).copied().collect();
            prop_assert_eq!(set_of(&a).union(&set_of(&b)), Ok(set_of(&both)));
        }

        #[test]
        fn no_text_panics(text in "[0-9,:\\- ]{0,40}|\\PC{0,20}") {
            if let Ok(set) = SidSet::parse(&text) {
                prop_assert!(set.len() <= limits::SID_SET_MAX_SIDS);
            }
        }
    }
}
