//! Looking words up: which passages have them, how rare they are there, and what a misspelt one may mean.
//!
//! A lookup is bounded, whatever the word: at most [`TERM_MAX_PASSAGES`] of the newest passages are read for a term. A
//! term with more is common; it counts only if the query has no better ones, since ranking by it would mean to read
//! half of the index for next to nothing.

use super::rank;
use super::terms::{distinct, is_filler, is_near};

/// At most this many passages are read for a term.
pub const TERM_MAX_PASSAGES: usize = 2_000;
/// A query has at most this many terms; the first ones count.
const QUERY_MAX_TERMS: usize = 24;
/// This many unknown words of a query are taken for misspelt ones.
const MISSPELT_MAX_TERMS: usize = 3;
/// Number of known words that a misspelt one may stand for.
const MEANT_MAX_TERMS: usize = 3;
/// This many of the likeliest words are looked up to find them.
const MEANT_MAX_LOOKUPS: usize = 32;
/// What a guessed word counts beside a known one.
const MEANT_WEIGHT: f32 = 0.7;

/// Where a term is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// In what the query searches.
    Searched,
    /// In all of the query's scope.
    Scope,
}

/// Which passages have a term, in one view of an index.
pub trait Postings {
    /// Why a lookup failed.
    type Error;

    /// Of each term, the numbers of the newest passages that have it, at most this many, the newest first.
    fn passages(
        &self,
        terms: &[String],
        area: Area,
        most: usize,
    ) -> impl Future<Output = Result<Vec<Vec<i64>>, Self::Error>>;

    /// Terms from one text up to before another, by their bytes; all of them that the query's scope has, and perhaps
    /// others.
    fn vocabulary(&self, from: &str, to: &str) -> impl Future<Output = Result<Vec<String>, Self::Error>>;
}

/// A term of the query, and the passages that have it.
#[derive(Debug)]
pub struct Lookup {
    /// What it counts.
    pub(super) weight: f32,
    /// Numbers of passages; each once.
    pub(super) docs: Vec<i64>,
}

/// What the words of a query found.
#[derive(Debug)]
pub struct Lookups {
    pub(super) terms: Vec<Lookup>,
    /// What all words of the query count together, found or not.
    pub(super) whole_weight: f32,
}

/// Looks the words of a query up, where `all` passages are searched.
pub async fn look_up<P: Postings>(postings: &P, text: &str, all: usize) -> Result<Lookups, P::Error> {
    let mut terms = distinct(text);
    terms.truncate(QUERY_MAX_TERMS);
    let (fillers, telling): (Vec<String>, Vec<String>) = terms.into_iter().partition(|term| is_filler(term));
    let only_fillers = telling.is_empty();
    let mut found = Vec::new();
    let (mut unknown, mut common) = (Vec::new(), Vec::new());
    let docs = searched(postings, &telling).await?;
    for (term, docs) in telling.into_iter().zip(docs) {
        match docs.len() {
            0 => unknown.push(term),
            n if n < TERM_MAX_PASSAGES => found.push(known(docs, all)),
            _ => common.push(known(docs, all)),
        }
    }
    let missing = rank::inverse_document_frequency(0, all);
    let mut whole_weight: f32 = found.iter().map(|lookup| lookup.weight).sum();
    whole_weight += unknown.len() as f32 * missing;
    unknown.truncate(MISSPELT_MAX_TERMS);
    // A word that is used elsewhere in the scope is spelt as it should be.
    let known_elsewhere = are_known(postings, &unknown).await?;
    for (term, is_known) in unknown.iter().zip(known_elsewhere) {
        if !is_known {
            found.extend(meant(postings, term, all).await?);
        }
    }
    if found.is_empty() {
        found = common;
    }
    if only_fillers {
        let docs = searched(postings, &fillers).await?;
        found.extend(
            docs.into_iter()
                .filter(|docs| !docs.is_empty())
                .map(|docs| known(docs, all)),
        );
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

async fn searched<P: Postings>(postings: &P, terms: &[String]) -> Result<Vec<Vec<i64>>, P::Error> {
    match terms.is_empty() {
        true => Ok(Vec::new()),
        false => postings.passages(terms, Area::Searched, TERM_MAX_PASSAGES).await,
    }
}

/// Whether anything in the scope has each of these terms.
async fn are_known<P: Postings>(postings: &P, terms: &[String]) -> Result<Vec<bool>, P::Error> {
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    let docs = postings.passages(terms, Area::Scope, 1).await?;
    Ok(docs.iter().map(|docs| !docs.is_empty()).collect())
}

/// Passages with words that a misspelt one may mean, as one lookup.
async fn meant<P: Postings>(postings: &P, term: &str, all: usize) -> Result<Option<Lookup>, P::Error> {
    let mut near = near(postings, term).await?;
    // The more of the beginning two words share, the likelier one is meant by the other.
    let shared = |other: &str| {
        term.chars()
            .zip(other.chars())
            .take_while(|(a, b)| a == b)
            .count()
    };
    near.sort_by_key(|other| std::cmp::Reverse(shared(other)));
    near.truncate(MEANT_MAX_LOOKUPS);
    let mut docs: Vec<i64> = searched(postings, &near)
        .await?
        .into_iter()
        .filter(|found| !found.is_empty() && found.len() < TERM_MAX_PASSAGES)
        .take(MEANT_MAX_TERMS)
        .flatten()
        .collect();
    docs.sort_unstable();
    docs.dedup();
    Ok((!docs.is_empty()).then(|| Lookup {
        weight: MEANT_WEIGHT * rank::inverse_document_frequency(docs.len(), all),
        docs,
    }))
}

/// Words of the scope that differ from a term by a slip. Only words that begin with the same two letters are looked at, or
/// with what a slip makes of them most often: exchanged, or with one too many between them.
async fn near<P: Postings>(postings: &P, term: &str) -> Result<Vec<String>, P::Error> {
    let mut chars = term.chars();
    let (Some(first), Some(second), Some(third)) = (chars.next(), chars.next(), chars.next()) else {
        return Ok(Vec::new());
    };
    for (first, second) in [(first, second), (second, first), (first, third)] {
        let after = char::from_u32(u32::from(second) + 1).unwrap_or(char::MAX);
        let (from, to) = (format!("{first}{second}"), format!("{first}{after}"));
        let mut found = postings.vocabulary(&from, &to).await?;
        found.retain(|other| is_near(term, other));
        // What others say, in scopes that the query may not see, must not decide what was meant.
        let ours = are_known(postings, &found).await?;
        let mut ours = ours.into_iter();
        found.retain(|_| ours.next().unwrap_or(false));
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}
