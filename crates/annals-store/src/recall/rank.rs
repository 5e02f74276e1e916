//! How hits are ranked: by words, by meaning, and by both together.
//!
//! Words are weighed by how rare they are where is looked (BM25 with every term counted once: passages are short). Both
//! lists are joined by reciprocal ranks, because their scores cannot be compared; a little is added for what is new.
//! No score depends on anything outside the scope that is searched.

use annals_core::time::Timestamp;

/// How to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By words and by meaning.
    #[default]
    Both,
    /// By words only.
    Words,
    /// By meaning only.
    Meaning,
}

/// A rank counts as one over this and itself: the larger, the less the first places stand out.
const RANK_OFFSET: f32 = 8.0;
/// What the first place by words weighs beside the first place by meaning, if all that was asked is in it.
const WORDS_WEIGHT: f32 = 1.5;
/// The part of that which a passage with only some of the words keeps.
const WORDS_FLOOR: f32 = 0.1;
/// A passage so close counts in full by meaning.
const CLEARLY_CLOSE_COSINE: f32 = 0.6;
/// The part of that which a passage far away keeps.
const MEANING_FLOOR: f32 = 0.3;
/// A passage that is found by meaning alone must be so close.
pub(crate) const CLOSE_ENOUGH_COSINE: f32 = 0.2;
/// What is added for a passage of this moment, as a part of its score.
const RECENCY_WEIGHT: f32 = 0.05;
/// After so many days half of that is left.
const RECENCY_HALF_LIFE_DAYS: f32 = 30.0;

/// BM25: how soon a longer passage counts less.
const LENGTH_WEIGHT: f32 = 0.4;
const SATURATION: f32 = 1.2;
const AVERAGE_BYTES: f32 = 300.0;

/// A passage that may be shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// Its number in the index.
    pub(crate) doc: i64,
    pub(crate) ts: Timestamp,
    /// Its worth by words.
    pub(crate) words: Option<f32>,
    /// Which part of the query's weight its words have, from 0 to 1.
    pub(crate) coverage: f32,
    /// Its worth by meaning.
    pub(crate) cosine: Option<f32>,
}

/// How much a term says that `found` of `all` passages have.
pub(crate) fn rarity(found: usize, all: usize) -> f32 {
    let (found, all) = (found as f32, all.max(found) as f32);
    (1.0 + (all - found + 0.5) / (found + 0.5)).ln()
}

/// What one occurrence of a term counts in a passage of this length.
pub(crate) fn term_weight(rarity: f32, length_bytes: usize) -> f32 {
    let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length_bytes as f32 / AVERAGE_BYTES;
    rarity * (SATURATION + 1.0) / (1.0 + SATURATION * length)
}

/// The best first, each with its score from 0 to 1.
pub(crate) fn ranked(mut candidates: Vec<Candidate>, by: By, now: Timestamp) -> Vec<(Candidate, f32)> {
    let mut scores = vec![0.0_f32; candidates.len()];
    // The number breaks ties, so that the same question always gets the same answer.
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.doc));
    let mut add = |worth: &dyn Fn(&Candidate) -> Option<f32>, weight: &dyn Fn(&Candidate) -> f32| {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.retain(|at| worth(&candidates[*at]).is_some());
        order.sort_by(|a, b| {
            let worth = |at: usize| worth(&candidates[at]).unwrap_or_default();
            worth(*b).total_cmp(&worth(*a))
        });
        for (rank, at) in order.into_iter().enumerate() {
            scores[at] += weight(&candidates[at]) / (RANK_OFFSET + 1.0 + rank as f32);
        }
    };
    if by != By::Meaning {
        add(&|c| c.words, &|c| {
            WORDS_WEIGHT * from_floor(WORDS_FLOOR, c.coverage)
        });
    }
    if by != By::Words {
        let clear = |c: &Candidate| c.cosine.unwrap_or(0.0) / CLEARLY_CLOSE_COSINE;
        add(&|c| c.cosine, &|c| from_floor(MEANING_FLOOR, clear(c)));
    }
    let best = match by {
        By::Both => WORDS_WEIGHT + 1.0,
        By::Words => WORDS_WEIGHT,
        By::Meaning => 1.0,
    } / (RANK_OFFSET + 1.0);
    let mut ranked: Vec<(Candidate, f32)> = candidates
        .into_iter()
        .zip(scores)
        .filter(|(_, score)| *score > 0.0)
        .map(|(candidate, score)| {
            let with_age = score / best * (1.0 + RECENCY_WEIGHT * recency(candidate.ts, now));
            (candidate, (with_age / (1.0 + RECENCY_WEIGHT)).min(1.0))
        })
        .collect();
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    ranked
}

/// From a floor to 1, as a share goes from 0 to 1.
fn from_floor(floor: f32, share: f32) -> f32 {
    floor + (1.0 - floor) * share.clamp(0.0, 1.0)
}

fn recency(ts: Timestamp, now: Timestamp) -> f32 {
    const DAY_SECONDS: f32 = 86_400.0;
    let days = now.seconds_since(ts) as f32 / DAY_SECONDS;
    (-days / RECENCY_HALF_LIFE_DAYS).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(doc: i64, words: Option<f32>, cosine: Option<f32>) -> Candidate {
        Candidate {
            doc,
            ts: Timestamp::from_unix_micros(0),
            words,
            coverage: 1.0,
            cosine,
        }
    }

    fn order(candidates: &[Candidate], by: By) -> Vec<i64> {
        let ranked = ranked(candidates.to_vec(), by, Timestamp::from_unix_micros(0));
        ranked.iter().map(|(candidate, _)| candidate.doc).collect()
    }

    #[test]
    fn what_both_find_is_better_than_what_one_finds() {
        let all = [
            candidate(1, Some(9.0), None),
            candidate(2, Some(8.0), Some(0.8)),
            candidate(3, None, Some(0.9)),
        ];
        assert_eq!(order(&all, By::Both)[0], 2);
        assert_eq!(order(&all, By::Words), [1, 2]);
        assert_eq!(order(&all, By::Meaning), [3, 2]);
    }

    #[test]
    fn of_two_equal_passages_the_newer_is_better_and_no_score_leaves_its_bounds() {
        let mut old = candidate(1, Some(5.0), Some(0.5));
        let new = Candidate {
            doc: 2,
            ts: Timestamp::from_unix_micros(86_400_000_000 * 90),
            ..old
        };
        old.words = Some(5.0);
        let ranked = ranked(vec![old, new], By::Both, new.ts);
        assert_eq!(ranked[0].0.doc, 2);
        assert!(
            ranked.iter().all(|(_, score)| (0.0..=1.0).contains(score)),
            "{ranked:?}"
        );
    }

    #[test]
    fn a_rare_word_says_more_and_a_longer_passage_less() {
        assert!(rarity(1, 1_000) > rarity(500, 1_000) && rarity(1_000, 1_000) > 0.0);
        assert!(term_weight(1.0, 100) > term_weight(1.0, 600));
    }
}
