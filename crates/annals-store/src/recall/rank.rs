//! Ranking of hits: lexical (BM25), semantic (cosine), and both joined by reciprocal rank fusion.
//!
//! BM25 counts every term once, since passages are short, and takes its inverse document frequencies from the searched
//! scope alone: no score depends on anything outside it. The lists are fused by rank because their scores cannot be
//! compared; a recency bonus comes on top.

use annals_core::time::Timestamp;

/// Which lists a search ranks by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchMode {
    /// Lexical and semantic lists, fused.
    #[default]
    Hybrid,
    /// BM25 over terms.
    Lexical,
    /// Cosine of embeddings.
    Semantic,
}

/// Constant k of reciprocal rank fusion; larger flattens the top ranks.
const RRF_K: f32 = 8.0;
/// Weight of the lexical list beside the semantic one, for a passage with every term of the query.
const LEXICAL_WEIGHT: f32 = 1.5;
/// Share of that weight which a passage with hardly any of the query's terms keeps.
const LEXICAL_FLOOR: f32 = 0.1;
/// From this cosine on, the semantic list counts in full.
const CLEARLY_CLOSE_COSINE: f32 = 0.6;
/// Share of that weight which a distant passage keeps.
const SEMANTIC_FLOOR: f32 = 0.3;
/// Minimum cosine of a passage that only the semantic list has.
pub(crate) const CLOSE_ENOUGH_COSINE: f32 = 0.2;
/// Bonus of a passage of this moment, as a share of its score.
const RECENCY_WEIGHT: f32 = 0.05;
/// Half-life of that bonus.
const RECENCY_HALF_LIFE_DAYS: f32 = 30.0;

/// Parameter b of BM25, the length normalisation.
const BM25_B: f32 = 0.4;
/// Parameter k1 of BM25, the saturation of term frequency.
const BM25_K1: f32 = 1.2;
const AVERAGE_BYTES: f32 = 300.0;

/// Which passage of an index, in the order that breaks ties: by the conversations' rows, then along each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Doc {
    /// The conversation's row.
    pub conversation: i64,
    /// The passage's place in it.
    pub place: u32,
}

/// A passage that may be shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) doc: Doc,
    pub(crate) ts: Timestamp,
    /// BM25, if the lexical list has it.
    pub(crate) words: Option<f32>,
    /// Share of the query's weight that its terms have, from 0 to 1.
    pub(crate) coverage: f32,
    pub(crate) cosine: Option<f32>,
}

/// IDF in the form that BM25 uses, which is never negative.
pub(crate) fn inverse_document_frequency(matching_docs: usize, total_docs: usize) -> f32 {
    let (matching, total) = (matching_docs as f32, total_docs.max(matching_docs) as f32);
    (1.0 + (total - matching + 0.5) / (matching + 0.5)).ln()
}

/// BM25 of one occurrence of a term in a passage of this length.
pub(crate) fn term_weight(inverse_document_frequency: f32, length_bytes: usize) -> f32 {
    let length = 1.0 - BM25_B + BM25_B * length_bytes as f32 / AVERAGE_BYTES;
    inverse_document_frequency * (BM25_K1 + 1.0) / (1.0 + BM25_K1 * length)
}

/// The best first, each with its score from 0 to 1.
pub(crate) fn ranked(
    mut candidates: Vec<Candidate>,
    by: SearchMode,
    now: Timestamp,
) -> Vec<(Candidate, f32)> {
    let mut scores = vec![0.0_f32; candidates.len()];
    // The place breaks ties, so that the same question always gets the same answer.
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.doc));
    let mut add = |worth: &dyn Fn(&Candidate) -> Option<f32>, weight: &dyn Fn(&Candidate) -> f32| {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.retain(|at| worth(&candidates[*at]).is_some());
        order.sort_by(|a, b| {
            let worth = |at: usize| worth(&candidates[at]).unwrap_or_default();
            worth(*b).total_cmp(&worth(*a))
        });
        for (rank, at) in order.into_iter().enumerate() {
            scores[at] += weight(&candidates[at]) / (RRF_K + 1.0 + rank as f32);
        }
    };
    if by != SearchMode::Semantic {
        add(&|c| c.words, &|c| {
            LEXICAL_WEIGHT * from_floor(LEXICAL_FLOOR, c.coverage)
        });
    }
    if by != SearchMode::Lexical {
        let clear = |c: &Candidate| c.cosine.unwrap_or(0.0) / CLEARLY_CLOSE_COSINE;
        add(&|c| c.cosine, &|c| from_floor(SEMANTIC_FLOOR, clear(c)));
    }
    let best = match by {
        SearchMode::Hybrid => LEXICAL_WEIGHT + 1.0,
        SearchMode::Lexical => LEXICAL_WEIGHT,
        SearchMode::Semantic => 1.0,
    } / (RRF_K + 1.0);
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

    fn candidate(place: u32, words: Option<f32>, cosine: Option<f32>) -> Candidate {
        Candidate {
            doc: Doc {
                conversation: 1,
                place,
            },
            ts: Timestamp::from_unix_micros(0),
            words,
            coverage: 1.0,
            cosine,
        }
    }

    fn order(candidates: &[Candidate], by: SearchMode) -> Vec<u32> {
        let ranked = ranked(candidates.to_vec(), by, Timestamp::from_unix_micros(0));
        ranked.iter().map(|(candidate, _)| candidate.doc.place).collect()
    }

    #[test]
    fn what_both_find_is_better_than_what_one_finds() {
        let all = [
            candidate(1, Some(9.0), None),
            candidate(2, Some(8.0), Some(0.8)),
            candidate(3, None, Some(0.9)),
        ];
        assert_eq!(order(&all, SearchMode::Hybrid)[0], 2);
        assert_eq!(order(&all, SearchMode::Lexical), [1, 2]);
        assert_eq!(order(&all, SearchMode::Semantic), [3, 2]);
    }

    #[test]
    fn of_two_equal_passages_the_newer_is_better_and_no_score_leaves_its_bounds() {
        let mut old = candidate(1, Some(5.0), Some(0.5));
        let new = Candidate {
            doc: Doc { place: 2, ..old.doc },
            ts: Timestamp::from_unix_micros(86_400_000_000 * 90),
            ..old
        };
        old.words = Some(5.0);
        let ranked = ranked(vec![old, new], SearchMode::Hybrid, new.ts);
        assert_eq!(ranked[0].0.doc.place, 2);
        assert!(
            ranked.iter().all(|(_, score)| (0.0..=1.0).contains(score)),
            "{ranked:?}"
        );
    }

    #[test]
    fn a_rare_word_says_more_and_a_longer_passage_less() {
        assert!(
            inverse_document_frequency(1, 1_000) > inverse_document_frequency(500, 1_000)
                && inverse_document_frequency(1_000, 1_000) > 0.0
        );
        assert!(term_weight(1.0, 100) > term_weight(1.0, 600));
    }
}
