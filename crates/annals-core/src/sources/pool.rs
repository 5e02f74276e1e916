//! The pool: which row has which SID.
//!
//! Rules: a source that is already there keeps its SID; a new one takes the next; none is ever reused or
//! removed. A file is recognised by its place below OUT_DIR, any other source by its normalised address, and one
//! that has neither by its title and text. A page that was reached by a redirect is also known by the address at the
//! redirect's end; numbers that were given before that was known stay.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::row::SourceRow;
use super::url;
use crate::ids::Sid;
use crate::path::{PhysicalPath, SidSet};

/// All sources of a conversation, by SID. A fold over the rows that blocks carry.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourcesPool {
    rows: BTreeMap<Sid, SourceRow>,
    by_identity: HashMap<Identity, Sid>,
    /// Normalised addresses under which a row is known beside its own.
    by_other_address: HashMap<String, Sid>,
}

/// What rows would become in the pool. Nothing has changed yet: the caller writes `changed` into a block, and
/// folding that block makes it so.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Assigned {
    /// The SID of each row given, in the order given.
    pub sids: Vec<Sid>,
    /// The rows that are new or gained something, whole, with their SIDs, in SID order.
    pub changed: Vec<SourceRow>,
}

/// By what a source is recognised again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Identity {
    File(PhysicalPath),
    Address(String),
    Words { title: Arc<str>, text: Arc<str> },
}

impl Identity {
    /// Exactly one for a row, and nothing that a row can gain later changes it: that keeps numbers stable.
    fn of(row: &SourceRow) -> Self {
        if let Some(path) = row.file_path() {
            Self::File(path)
        } else if !row.url.trim().is_empty() {
            Self::Address(url::normalised(&row.url))
        } else {
            Self::Words {
                title: row.title.clone(),
                text: row.text.clone(),
            }
        }
    }
}

/// SIDs above this are not believed: a row read from a store must not use up the numbers.
const BELIEVED_MAX_SID: u32 = i32::MAX as u32;

impl SourcesPool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// What these rows would become, without changing the pool. A SID that a row brings is not looked at.
    pub fn assign(&self, rows: impl IntoIterator<Item = SourceRow>) -> Assigned {
        let mut draft = Draft {
            pool: self,
            changed: SourcesPool::new(),
        };
        let sids = rows.into_iter().map(|row| draft.take(row)).collect();
        Assigned {
            sids,
            changed: draft.changed.rows.into_values().collect(),
        }
    }

    /// Takes rows in and returns the SID of each, in the order given. A row that is already there gains what it
    /// lacked, and a content that is longer than the one it had. Doing it again changes nothing.
    pub fn merge(&mut self, rows: impl IntoIterator<Item = SourceRow>) -> Vec<Sid> {
        let Assigned { sids, changed } = self.assign(rows);
        self.restore(&changed);
        sids
    }

    /// Folds rows as a block carries them: each replaces the row with its SID. A row without a SID, or with one
    /// that belongs to another source, is merged instead, so that no source ever loses its number.
    pub fn restore(&mut self, rows: &[SourceRow]) {
        for row in rows {
            match row
                .sid
                .filter(|sid| sid.get() <= BELIEVED_MAX_SID && self.may_hold(*sid, row))
            {
                Some(sid) => self.put(sid, row.clone()),
                None => {
                    self.merge([row.clone()]);
                }
            }
        }
    }

    /// Whether the number is free for a source that has none, or already this source's.
    fn may_hold(&self, sid: Sid, row: &SourceRow) -> bool {
        match self.find(row) {
            Some(own) => own == sid,
            None => !self.rows.contains_key(&sid),
        }
    }

    fn put(&mut self, sid: Sid, mut row: SourceRow) {
        row.sid = Some(sid);
        self.by_identity.insert(Identity::of(&row), sid);
        let others = row.other_addresses().filter(|_| row.file_path().is_none());
        for address in others {
            self.by_other_address
                .entry(url::normalised(address))
                .or_insert(sid);
        }
        self.rows.insert(sid, row);
    }

    fn find(&self, row: &SourceRow) -> Option<Sid> {
        self.by_identity.get(&Identity::of(row)).copied()
    }

    /// The row that is the same page under another address.
    fn find_elsewhere(&self, row: &SourceRow) -> Option<Sid> {
        let mut addresses = std::iter::once(&*row.url)
            .chain(row.other_addresses())
            .filter(|address| !address.trim().is_empty() && row.file_path().is_none())
            .map(url::normalised);
        addresses.find_map(|address| {
            let elsewhere = self.by_other_address.get(&address).copied();
            elsewhere.or_else(|| self.by_identity.get(&Identity::Address(address)).copied())
        })
    }

    fn last_sid(&self) -> Option<Sid> {
        self.rows.last_key_value().map(|(sid, _)| *sid)
    }

    /// The row with this SID.
    pub fn get(&self, sid: Sid) -> Option<&SourceRow> {
        self.rows.get(&sid)
    }

    /// The row with this address.
    pub fn of_url(&self, address: &str) -> Option<&SourceRow> {
        self.get(
            *self
                .by_identity
                .get(&Identity::Address(url::normalised(address)))?,
        )
    }

    /// The rows of a selection that exist, in SID order.
    pub fn rows<'a>(&'a self, sids: &'a SidSet) -> impl Iterator<Item = &'a SourceRow> {
        sids.iter().filter_map(|sid| self.get(sid))
    }

    /// The SIDs of a selection that do not exist.
    pub fn missing<'a>(&'a self, sids: &'a SidSet) -> impl Iterator<Item = Sid> + 'a {
        sids.iter().filter(|sid| !self.rows.contains_key(sid))
    }

    /// All rows in SID order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &SourceRow> {
        self.rows.values()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// A pool and what would change in it.
struct Draft<'a> {
    pool: &'a SourcesPool,
    changed: SourcesPool,
}

impl Draft<'_> {
    fn take(&mut self, mut row: SourceRow) -> Sid {
        let pools = [&self.changed, self.pool];
        let known = pools
            .iter()
            .find_map(|pool| pool.find(&row))
            .or_else(|| pools.iter().find_map(|pool| pool.find_elsewhere(&row)));
        let Some(sid) = known else {
            let sid = self.next_sid();
            row.sid = Some(sid);
            self.changed.put(sid, row);
            return sid;
        };
        let known = self.changed.get(sid).or_else(|| self.pool.get(sid));
        if let Some(gained) = known.and_then(|known| enriched(known, &row)) {
            self.changed.put(sid, gained);
        }
        sid
    }

    fn next_sid(&self) -> Sid {
        let last = self.changed.last_sid().max(self.pool.last_sid());
        // Numbers end far above what `restore` believes, so there is always a next one.
        last.map_or(Sid::FIRST, |last| last.next().unwrap_or(last))
    }
}

/// The known row with what the newer one adds, if it adds anything.
fn enriched(known: &SourceRow, newer: &SourceRow) -> Option<SourceRow> {
    let mut row = known.clone();
    fill(&mut row.title, &newer.title);
    fill(&mut row.url, &newer.url);
    fill(&mut row.text, &newer.text);
    row.artifact_path = row.artifact_path.or_else(|| newer.artifact_path.clone());
    row.physical_path = row.physical_path.or_else(|| newer.physical_path.clone());
    for (name, value) in &newer.extra {
        row.extra.entry(name.clone()).or_insert_with(|| value.clone());
    }
    if row.file_path().is_none() && url::normalised(&row.url) != url::normalised(&newer.url) {
        row.add_other_address(&newer.url);
    }
    let fuller = match (&row.content, &newer.content) {
        (Some(old), Some(new)) => new.len() > old.len(),
        (None, Some(_)) => true,
        (_, None) => false,
    };
    // What describes the content goes with it; a file is what was last written there.
    if fuller || (newer.content.is_none() && newer.file_path().is_some()) {
        row.content = newer.content.clone().or(row.content);
        row.mime = newer.mime.clone().or(row.mime);
        row.size_bytes = newer.size_bytes.or(row.size_bytes);
        row.fetched_time_iso = newer.fetched_time_iso.or(row.fetched_time_iso);
    } else {
        row.mime = row.mime.or_else(|| newer.mime.clone());
        row.size_bytes = row.size_bytes.or(newer.size_bytes);
        row.fetched_time_iso = row.fetched_time_iso.or(newer.fetched_time_iso);
    }
    (row != *known).then_some(row)
}

fn fill(known: &mut Arc<str>, newer: &Arc<str>) {
    if known.is_empty() {
        *known = newer.clone();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::SourceType;
    use super::*;

    fn sid(number: u32) -> Sid {
        Sid::try_new(number).unwrap()
    }

    fn shape(pool: &SourcesPool) -> String {
        pool.iter()
            .map(|row| {
                let sid = row.sid.unwrap();
                let place = row
                    .file_path()
                    .map_or_else(|| row.url.to_string(), |path| path.to_string());
                let content = row.content.as_deref().unwrap_or("-");
                format!(
                    "{sid} {} {place} text={} content={content}\n",
                    row.title, row.text
                )
            })
            .collect()
    }

    #[test]
    fn a_page_found_twice_keeps_its_sid_and_gains_its_content() {
        let mut pool = SourcesPool::new();
        let found = [
            SourceRow::web("https://a.org/x", "A", "about a"),
            SourceRow::web("https://b.org", "B", "about b"),
            SourceRow::web("https://A.org/x/?utm_source=q", "A again", "other words"),
        ];
        assert_eq!(pool.merge(found), [sid(1), sid(2), sid(1)]);
        let fetched = SourceRow {
            content: Some("all of a".into()),
            ..SourceRow::web("https://a.org/x#top", "", "")
        };
        let worse = SourceRow {
            content: Some("a".into()),
            ..fetched.clone()
        };
        assert_eq!(
            pool.merge([fetched, worse, SourceRow::web("https://c.org", "C", "")]),
            [sid(1), sid(1), sid(3)]
        );
        insta::assert_snapshot!(shape(&pool), @r"
        1 A https://a.org/x text=about a content=all of a
        2 B https://b.org text=about b content=-
        3 C https://c.org text= content=-
        ");
    }

    /// A page as a fetch of `asked` gives it that a redirect led to `reached`.
    fn redirected(asked: &str, reached: &str) -> SourceRow {
        let mut row = SourceRow::web(asked, "", "");
        row.content = Some("the page".into());
        row.set_reached(reached);
        row
    }

    #[test]
    fn a_page_reached_by_a_redirect_is_one_source_under_both_addresses() {
        let mut pool = SourcesPool::new();
        let page = redirected("https://a.org/old", "https://a.org/new");
        assert_eq!(pool.merge([page.clone()]), [sid(1)]);
        let later = [
            SourceRow::web("https://a.org/new/#top", "found later", ""),
            redirected("https://short.org/x", "https://a.org/new"),
            SourceRow::web("https://short.org/x", "", ""),
            SourceRow::web("https://b.org", "B", ""),
        ];
        assert_eq!(pool.merge(later), [sid(1), sid(1), sid(1), sid(2)]);

        let mut found_first = SourcesPool::new();
        found_first.merge([SourceRow::web("https://a.org/new", "A", "")]);
        assert_eq!(
            found_first.merge([page, SourceRow::web("https://a.org/old", "", "")]),
            [sid(1), sid(1)]
        );
        let row = found_first.get(sid(1)).unwrap();
        assert_eq!(
            (&*row.url, row.content.as_deref()),
            ("https://a.org/new", Some("the page"))
        );
    }

    #[test]
    fn numbers_that_two_addresses_of_a_page_already_have_stay() {
        let mut stored = redirected("https://a.org/old", "https://a.org/new");
        stored.sid = Some(sid(1));
        let mut other = SourceRow::web("https://a.org/new", "", "");
        other.sid = Some(sid(2));
        let mut pool = SourcesPool::new();
        pool.restore(&[stored, other]);
        assert_eq!(pool.len(), 2);
        let again = [
            SourceRow::web("https://a.org/new", "", ""),
            SourceRow::web("https://a.org/old", "", ""),
        ];
        assert_eq!(pool.merge(again), [sid(2), sid(1)]);
    }

    #[test]
    fn a_file_is_one_source_by_its_place_whatever_names_it() {
        let path = PhysicalPath::parse("turn_1/files/report.pdf").unwrap();
        let mut pool = SourcesPool::new();
        let by_physical = SourceRow::file(SourceType::File, path, "application/pdf");
        let by_logical = SourceRow {
            physical_path: None,
            size_bytes: Some(9),
            ..by_physical.clone()
        };
        assert_eq!(pool.merge([by_physical, by_logical]), [sid(1), sid(1)]);
        assert_eq!(pool.get(sid(1)).and_then(|row| row.size_bytes), Some(9));
    }

    #[test]
    fn assigning_changes_nothing_until_its_rows_are_folded() {
        let mut pool = SourcesPool::new();
        pool.merge([SourceRow::web("https://a.org", "A", "")]);
        let before = pool.clone();
        let assigned = pool.assign([
            SourceRow::web("https://a.org", "other", ""),
            SourceRow::web("https://b.org", "B", ""),
            SourceRow {
                content: Some("b".into()),
                ..SourceRow::web("https://b.org", "", "")
            },
        ]);
        assert_eq!(pool, before);
        assert_eq!(assigned.sids, [sid(1), sid(2), sid(2)]);
        assert_eq!(
            assigned.changed.len(),
            1,
            "one row changed, written once: {:?}",
            assigned.changed
        );
        let stored = serde_json::to_string(&assigned.changed).unwrap();
        pool.restore(&serde_json::from_str::<Vec<SourceRow>>(&stored).unwrap());
        assert_eq!(pool.get(sid(2)).and_then(|row| row.content.as_deref()), Some("b"));
    }

    #[test]
    fn a_foreign_row_never_takes_a_number_that_is_taken() {
        let mut pool = SourcesPool::new();
        pool.merge([SourceRow::web("https://a.org", "A", "")]);
        let foreign: Vec<SourceRow> = serde_json::from_value(json!([
            {"sid": 1, "url": "https://b.org", "title": "B"},
            {"sid": 4294967295_u32, "url": "https://c.org", "title": "C"},
            {"sid": 9, "url": "https://a.org", "title": "A again"},
            {"url": "https://d.org", "title": "D"}
        ]))
        .unwrap();
        pool.restore(&foreign);
        insta::assert_snapshot!(shape(&pool), @r"
        1 A https://a.org text= content=-
        2 B https://b.org text= content=-
        3 C https://c.org text= content=-
        4 D https://d.org text= content=-
        ");
    }

    #[test]
    fn a_selection_gives_its_rows_in_order_and_names_the_missing() {
        let mut pool = SourcesPool::new();
        pool.merge((1..=3).map(|n| SourceRow::web(&format!("https://{n}.org"), "", "")));
        let selection = SidSet::parse("7,3,1").unwrap();
        assert_eq!(
            pool.rows(&selection)
                .map(|row| row.sid.unwrap().get())
                .collect::<Vec<_>>(),
            [1, 3]
        );
        assert_eq!(pool.missing(&selection).collect::<Vec<_>>(), [sid(7)]);
    }

    fn rows() -> impl Strategy<Value = Vec<SourceRow>> {
        let row = (0..6_u8, 0..4_u8, proptest::option::of(0..3_usize), 0..3_u8).prop_map(
            |(url, file, content, text)| {
                let physical = PhysicalPath::parse(&format!("turn_1/files/{file}")).unwrap();
                SourceRow {
                    url: if url < 4 {
                        format!("https://{url}.org").into()
                    } else {
                        "".into()
                    },
                    physical_path: (file < 2).then_some(physical),
                    text: if text == 0 {
                        "".into()
                    } else {
                        format!("text {text}").into()
                    },
                    content: content.map(|n| "c".repeat(n).into()),
                    size_bytes: (text == 1).then_some(u64::from(file)),
                    ..SourceRow::default()
                }
            },
        );
        proptest::collection::vec(row, 0..12)
    }

    proptest! {
        #[test]
        fn sids_are_stable_and_never_reused(batches in proptest::collection::vec(rows(), 0..5)) {
            let mut pool = SourcesPool::new();
            for batch in batches {
                let before: Vec<(Sid, SourceRow)> = pool.iter().map(|row| (row.sid.unwrap(), row.clone())).collect();
                let last = pool.last_sid();
                let sids = pool.merge(batch.clone());
                prop_assert_eq!(sids.len(), batch.len());
                for (sid, row) in before {
                    let kept = pool.get(sid).unwrap();
                    prop_assert!(row.url.is_empty() || kept.url == row.url);
                    prop_assert!(row.physical_path.is_none() || kept.physical_path == row.physical_path);
                    prop_assert!(row.content.as_ref().map(|c| c.len()) <= kept.content.as_ref().map(|c| c.len()));
                }
                for (number, row) in (1_u32..).zip(pool.iter()) {
                    prop_assert_eq!(row.sid.unwrap().get(), number);
                }
                prop_assert!(pool.last_sid() >= last);
            }
        }

        #[test]
        fn merging_again_changes_nothing(batch in rows()) {
            let mut pool = SourcesPool::new();
            pool.merge(batch.clone());
            let once = pool.clone();
            let sids = pool.merge(batch.clone());
            prop_assert_eq!(&pool, &once);
            prop_assert_eq!(pool.merge(batch), sids);
        }

        #[test]
        fn folding_what_was_assigned_equals_merging(first in rows(), second in rows()) {
            let mut merged = SourcesPool::new();
            let mut folded = SourcesPool::new();
            for batch in [first, second] {
                merged.merge(batch.clone());
                let changed = folded.assign(batch).changed;
                let stored: Vec<SourceRow> = serde_json::from_str(&serde_json::to_string(&changed).unwrap()).unwrap();
                folded.restore(&stored);
            }
            prop_assert_eq!(merged, folded);
        }
    }
}
