//! Looking words up: which passages have them, how rare they are there, and what a misspelt one may mean.
//!
//! A lookup is bounded, whatever the word: at most [`TERM_MAX_PASSAGES`] of the newest passages are read for a term. A
//! term with more is common; it counts only if the query has no better ones, since ranking by it would mean to read
//! half of the index for next to nothing.

use std::ops::Range;

use rusqlite::{Connection, params};

use crate::recall::rank;
use crate::recall::terms::{distinct, is_filler, is_near};

/// At most this many passages are read for a term.
const TERM_MAX_PASSAGES: usize = 2_000;
/// A query has at most this many terms; the first ones count.
const QUERY_MAX_TERMS: usize = 24;
/// This many unknown words of a query are taken for misspelt ones.
const MISSPELT_MAX_TERMS: usize = 3;
/// Number of known words that a misspelt one may stand for.
const MEANT_MAX_TERMS: usize = 3;
/// What a guessed word counts beside a known one.
const MEANT_WEIGHT: f32 = 0.7;

/// A term of the query, and the passages that have it.
pub(super) struct Lookup {
    /// What it counts.
    pub(super) weight: f32,
    /// Numbers of passages; each once.
    pub(super) docs: Vec<i64>,
}

/// What the words of a query found.
pub(super) struct Lookups {
    pub(super) terms: Vec<Lookup>,
    /// What all words of the query count together, found or not.
    pub(super) whole_weight: f32,
}

/// Looks the words of a query up in ranges of numbers that hold `all` passages, all of them within a scope.
pub(super) fn look_up(
    tx: &Connection,
    text: &str,
    ranges: &[Range<i64>],
    scope: &Range<i64>,
    all: usize,
) -> rusqlite::Result<Lookups> {
    let mut terms = distinct(text);
    terms.truncate(QUERY_MAX_TERMS);
    let (fillers, telling): (Vec<String>, Vec<String>) = terms.into_iter().partition(|term| is_filler(term));
    let only_fillers = telling.is_empty();
    let mut found = Vec::new();
    let (mut unknown, mut common) = (Vec::new(), Vec::new());
    for term in telling {
        let docs = passages(tx, &term, ranges, TERM_MAX_PASSAGES)?;
        match docs.len() {
            0 => unknown.push(term),
            n if n < TERM_MAX_PASSAGES => found.push(known(docs, all)),
            _ => common.push(known(docs, all)),
        }
    }
    let missing = rank::inverse_document_frequency(0, all);
    let mut whole_weight: f32 = found.iter().map(|lookup| lookup.weight).sum();
    whole_weight += unknown.len() as f32 * missing;
    for term in unknown.iter().take(MISSPELT_MAX_TERMS) {
        // A word that is used elsewhere in the scope is spelt as it should be.
        if passages(tx, term, std::slice::from_ref(scope), 1)?.is_empty() {
            found.extend(meant(tx, term, ranges, all)?);
        }
    }
    if found.is_empty() {
        found = common;
    }
    if only_fillers {
        for term in &fillers {
            let docs = passages(tx, term, ranges, TERM_MAX_PASSAGES)?;
            found.extend((!docs.is_empty()).then(|| known(docs, all)));
        }
    }
    let sum = found.iter().map(|lookup| lookup.weight).sum();
    Ok(Lookups {
        terms: found,
        whole_weight: whole_weight.max(sum),
    })
}

fn known(docs: Vec<i64>, all: usize) -> Lookup {
    Lookup {
        weight: rank::inverse_document_frequency(docs.len(), all),
        docs,
    }
}

/// The newest passages that have a term, at most this many.
fn passages(tx: &Connection, term: &str, ranges: &[Range<i64>], most: usize) -> rusqlite::Result<Vec<i64>> {
    let mut docs = Vec::new();
    let mut statement = tx.prepare_cached(
        "SELECT rowid FROM recall_text WHERE recall_text MATCH ?1 AND rowid >= ?2 AND rowid < ?3
         ORDER BY rowid DESC LIMIT ?4",
    )?;
    // A term has letters and digits only, but a word like `AND` must be quoted all the same.
    let quoted = format!("\"{term}\"");
    for range in ranges.iter().rev() {
        let left = most - docs.len();
        let mut rows = statement.query(params![quoted, range.start, range.end, left as i64])?;
        while let Some(row) = rows.next()? {
            docs.push(row.get(0)?);
        }
    }
    Ok(docs)
}

/// Passages with words that a misspelt one may mean, as one lookup.
fn meant(tx: &Connection, term: &str, ranges: &[Range<i64>], all: usize) -> rusqlite::Result<Option<Lookup>> {
    let mut near = near(tx, term)?;
    // The more of the beginning two words share, the likelier one is meant by the other.
    let shared = |other: &str| {
        term.chars()
            .zip(other.chars())
            .take_while(|(a, b)| a == b)
            .count()
    };
    near.sort_by_key(|other| std::cmp::Reverse(shared(other)));
    let mut docs = Vec::new();
    let mut taken = 0;
    for other in near {
        let found = passages(tx, &other, ranges, TERM_MAX_PASSAGES)?;
        if !found.is_empty() && found.len() < TERM_MAX_PASSAGES {
            docs.extend(found);
            taken += 1;
        }
        if taken == MEANT_MAX_TERMS {
            break;
        }
    }
    docs.sort_unstable();
    docs.dedup();
    Ok((!docs.is_empty()).then(|| Lookup {
        weight: MEANT_WEIGHT * rank::inverse_document_frequency(docs.len(), all),
        docs,
    }))
}

/// Known words that differ from a term by a slip. Only words that begin with the same two letters are looked at, or with
/// what a slip makes of them most often: exchanged, or with one too many between them.
fn near(tx: &Connection, term: &str) -> rusqlite::Result<Vec<String>> {
    let mut chars = term.chars();
    let (Some(first), Some(second), Some(third)) = (chars.next(), chars.next(), chars.next()) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let mut statement =
        tx.prepare_cached("SELECT term FROM recall_vocabulary WHERE term >= ?1 AND term < ?2")?;
    for (first, second) in [(first, second), (second, first), (first, third)] {
        let after = char::from_u32(u32::from(second) + 1).unwrap_or(char::MAX);
        let mut rows = statement.query([format!("{first}{second}"), format!("{first}{after}")])?;
        while let Some(row) = rows.next()? {
            let other = row.get_ref(0)?.as_str().unwrap_or_default();
            if is_near(term, other) {
                found.push(other.to_owned());
            }
        }
        if !found.is_empty() {
            break;
        }
    }
    Ok(found)
}
