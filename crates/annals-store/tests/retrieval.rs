//! How well memory search finds things: a corpus in the style of real conversations, and questions of several kinds.
//!
//! `cargo nextest run -p annals-store --test retrieval --no-capture` prints the table that stands in `docs/memory.md`.

#![allow(clippy::print_stdout)]

#[path = "support/stage.rs"]
mod stage;

use std::collections::{BTreeMap, HashMap};

use annals_store::Recall as _;
use annals_store::recall::rank::SearchMode;
use annals_store::recall::{Query, Within};
use stage::{Stage, answer, prompt};

const CORPUS: &str = include_str!("retrieval/corpus.tsv");
const QUERIES: &str = include_str!("retrieval/queries.tsv");

/// Passages are spread over this many conversations.
const CONVERSATIONS: usize = 6;
/// A hit that comes later does not count.
const DEPTH: usize = 10;

struct Asked {
    class: &'static str,
    text: &'static str,
    expected: Vec<&'static str>,
}

/// Recall among the first five, and the mean of one over the rank of the first right hit.
#[derive(Clone, Copy, Default)]
struct Figures {
    queries: usize,
    recall: f64,
    reciprocal_rank: f64,
}

impl Figures {
    fn add(&mut self, ranks: &[Option<usize>]) {
        let among_five = ranks.iter().flatten().filter(|rank| **rank <= 5).count();
        self.queries += 1;
        self.recall += among_five as f64 / ranks.len().min(5) as f64;
        self.reciprocal_rank += ranks
            .iter()
            .flatten()
            .min()
            .map_or(0.0, |rank| 1.0 / *rank as f64);
    }

    fn mean(self) -> (f64, f64) {
        let n = self.queries as f64;
        (self.recall / n, self.reciprocal_rank / n)
    }
}

fn queries() -> Vec<Asked> {
    let parse = |line: &'static str| {
        let mut parts = line.split('\t');
        let mut next = || parts.next().expect("three columns");
        Asked {
            class: next(),
            text: next(),
            expected: next().split(',').collect(),
        }
    };
    QUERIES.lines().map(parse).collect()
}

async fn told() -> (Stage, HashMap<&'static str, &'static str>) {
    let stage = Stage::new();
    let mut ids = HashMap::new();
    let mut spoken: [Vec<stage::Says>; CONVERSATIONS] = Default::default();
    let lines: Vec<&str> = CORPUS.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let parts: Vec<&'static str> = line.split('\t').collect();
        let [id, role, text] = parts[..] else {
            panic!("three columns: {line}")
        };
        assert!(ids.insert(text, id).is_none(), "twice in the corpus: {text}");
        let says = if role == "u" { prompt(text) } else { answer(text) };
        spoken[at * CONVERSATIONS / lines.len()].push(says);
    }
    for (number, says) in spoken.into_iter().enumerate() {
        stage.says(&format!("c{number}"), says).await;
    }
    (stage, ids)
}

#[tokio::test]
async fn both_together_find_more_than_either() {
    let (stage, ids) = told().await;
    let queries = queries();
    assert!(ids.len() >= 200 && queries.len() >= 60);
    let mut totals = Vec::new();
    for (name, by) in [
        ("words", SearchMode::Lexical),
        ("meaning", SearchMode::Semantic),
        ("both", SearchMode::Hybrid),
    ] {
        let mut classes: BTreeMap<&str, Figures> = BTreeMap::new();
        let mut total = Figures::default();
        for asked in &queries {
            let query = Query {
                within: Within::Scope,
                limit: DEPTH,
                by,
                ..stage.query("c0", asked.text)
            };
            let found = stage.recall().search(query).await.unwrap();
            let found: Vec<&str> = found.hits.iter().map(|hit| ids[hit.text.as_str()]).collect();
            let rank = |id: &&str| found.iter().position(|found| found == id).map(|at| at + 1);
            let ranks: Vec<Option<usize>> = asked.expected.iter().map(rank).collect();
            if by == SearchMode::Hybrid && ranks.iter().flatten().min() != Some(&1) {
                println!(
                    "  not first: {:?} {:?} found {found:?}",
                    asked.text, asked.expected
                );
            }
            total.add(&ranks);
            classes.entry(asked.class).or_default().add(&ranks);
        }
        let (recall, mrr) = total.mean();
        println!("{name:<16} recall@5 {recall:.3}  MRR {mrr:.3}");
        for (class, figures) in classes {
            let (recall, mrr) = figures.mean();
            println!(
                "  {class:<14} recall@5 {recall:.3}  MRR {mrr:.3}  ({} queries)",
                figures.queries
            );
        }
        totals.push((recall, mrr));
    }
    let [words, meaning, both] = totals[..] else {
        panic!("three ways")
    };
    for (name, other) in [("words", words), ("meaning", meaning)] {
        assert!(
            both.0 > other.0 && both.1 > other.1,
            "both {both:?} do not beat {name} {other:?}"
        );
    }
    assert!(both.0 >= 0.78 && both.1 >= 0.76, "both: {both:?}");
}
