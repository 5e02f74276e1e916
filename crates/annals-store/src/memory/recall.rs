//! Memory search over a log in memory: the whole index is made for each search, and forgotten with its answer.
//!
//! This is the plainest statement of what a search finds, for tests and for short conversations.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::ready;
use std::sync::{Arc, Mutex};

use annals_core::block::Block;
use annals_core::ids::{ConversationId, ConversationKey};
use annals_embed::{Embedder, Vector};
use async_trait::async_trait;
use futures::FutureExt as _;

use super::lock;
use super::state::State;
use super::strand::Strand as Blocks;
use crate::log::LogError;
use crate::recall::lexical::{Area, Postings, look_up};
use crate::recall::matrix::{Loaded, Matrices, StoredPassage};
use crate::recall::rank::{Doc, SearchMode};
use crate::recall::remembered::remembered;
use crate::recall::search::{Gathering, PassageText, Strand, last_of, ranked};
use crate::recall::source::{PASSAGE_BITS, Source};
use crate::recall::{Progress, Query, Recall, RecallHits, RecallIndex, ReindexError, Within, vector_of};

/// Finds what was said in the conversations of a [`MemoryLog`](super::MemoryLog). Its embedder answers at once, or
/// passages are found by words only.
#[derive(Clone)]
pub struct MemoryRecall {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) embedder: Arc<dyn Embedder>,
}

impl std::fmt::Debug for MemoryRecall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryRecall")
            .field("embedder", &self.embedder.identity())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Recall for MemoryRecall {
    async fn search(&self, query: Query) -> Result<RecallHits, LogError> {
        let (vector, shortfall) = match vector_of(&query, &*self.embedder).await {
            Ok(vector) => (vector, None),
            Err(shortfall) => (None, Some(shortfall)),
        };
        let scope = self.places(&query, &Within::Scope)?;
        let searched = match &query.within {
            Within::Scope => scope.clone(),
            within @ Within::Conversation(_) => self.places(&query, within)?,
        };
        let index = Index::of(&searched, &scope, &*self.embedder);
        let loaded = index.load(&searched);
        let lookups = match query.by {
            SearchMode::Semantic => None,
            // Nothing in it waits.
            _ => look_up(&index, &query.text, loaded.passages()).now_or_never(),
        };
        let lookups = lookups.transpose().unwrap_or_else(|never| match never {});
        let vector = vector.filter(|vector| !vector.is_zero());
        let ranked = ranked(&query, vector.as_ref(), &loaded, lookups.as_ref());
        let mut hits = Gathering::new(&query);
        for (doc, score) in ranked.best {
            let place = searched.iter().find(|place| place.number() == doc.conversation);
            if let (Some(place), Some(passage)) = (place, index.passages.get(&doc)) {
                hits.add(&place.shown, score, &passage.block, &passage.text);
            }
        }
        Ok(RecallHits {
            hits: hits.finish(),
            shortfall,
        })
    }
}

#[async_trait]
impl RecallIndex for MemoryRecall {
    fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.embedder
    }

    async fn reindex(
        &self,
        seen: &mut (dyn FnMut(Progress) -> bool + Send),
    ) -> Result<Progress, ReindexError> {
        let blocks = lock(&self.state).count_blocks();
        let mut progress = Progress {
            of_blocks: blocks,
            ..Progress::default()
        };
        if seen(progress) {
            progress.blocks = blocks;
        }
        Ok(progress)
    }

    async fn catch_up(&self) -> Result<Progress, ReindexError> {
        Ok(Progress::default())
    }
}

/// A conversation, or the part of one that another shares.
#[derive(Clone)]
struct Place {
    blocks: Arc<Blocks>,
    /// Nothing after this block is left of it.
    end: u64,
    /// The last block that may be seen.
    last: u64,
    shown: ConversationId,
}

impl Place {
    fn number(&self) -> i64 {
        self.blocks.number as i64
    }
}

impl MemoryRecall {
    fn places(&self, query: &Query, within: &Within) -> Result<Vec<Place>, LogError> {
        let mut state = lock(&self.state);
        let family = Family::of(&state, query);
        let mut places = BTreeMap::new();
        match within {
            Within::Conversation(id) => {
                let key = ConversationKey::new(query.scope.clone(), id.clone());
                let mut blocks = state.find(&key)?.strand();
                let tail = blocks.tail().map_or(0, |tail| tail.get());
                let mut last = tail.min(last_of(query, id));
                loop {
                    if last > blocks.shared() {
                        places.insert(blocks.number, family.place(&blocks, last, id.clone()));
                    }
                    let Some((base, cut)) = &blocks.base else { break };
                    last = last.min(cut.get());
                    let base = Arc::clone(base);
                    blocks = base;
                }
            }
            Within::Scope => {
                for (id, blocks) in &family.live {
                    places.insert(
                        blocks.number,
                        family.place(blocks, last_of(query, id), id.clone()),
                    );
                }
                for (number, blocks) in &family.deleted {
                    if let Some((shown, last)) = family.sharer(*number) {
                        places.insert(*number, family.place(blocks, last, shown));
                    }
                }
            }
        }
        Ok(places.into_values().collect())
    }
}

/// Which conversations of a scope were forked from which.
struct Family {
    live: Vec<(ConversationId, Arc<Blocks>)>,
    /// There for the forks that share their beginning.
    deleted: BTreeMap<u64, Arc<Blocks>>,
    /// The forks of each, with their names if they have any, and where they were cut.
    forks: BTreeMap<u64, BTreeMap<u64, (Option<ConversationId>, u64)>>,
}

impl Family {
    fn of(state: &State, query: &Query) -> Self {
        let live = state.strands(&query.scope);
        let names: HashMap<u64, ConversationId> = live
            .iter()
            .map(|(id, blocks)| (blocks.number, id.clone()))
            .collect();
        let mut family = Family {
            live,
            deleted: BTreeMap::new(),
            forks: BTreeMap::new(),
        };
        let mut open: Vec<Arc<Blocks>> = family.live.iter().map(|(_, blocks)| Arc::clone(blocks)).collect();
        while let Some(blocks) = open.pop() {
            let Some((base, cut)) = &blocks.base else { continue };
            let forks = family.forks.entry(base.number).or_default();
            forks.insert(blocks.number, (names.get(&blocks.number).cloned(), cut.get()));
            if !names.contains_key(&base.number) && !family.deleted.contains_key(&base.number) {
                family.deleted.insert(base.number, Arc::clone(base));
                open.push(Arc::clone(base));
            }
        }
        family
    }

    fn place(&self, blocks: &Arc<Blocks>, last: u64, shown: ConversationId) -> Place {
        let forks = self.forks.get(&blocks.number);
        let cuts = forks
            .into_iter()
            .flat_map(|forks| forks.values().map(|(_, cut)| *cut));
        Place {
            end: match self.deleted.contains_key(&blocks.number) {
                true => cuts.max().unwrap_or(0),
                false => u64::MAX,
            },
            blocks: Arc::clone(blocks),
            last,
            shown,
        }
    }

    /// Which conversation still shows blocks of a deleted one, and up to where.
    fn sharer(&self, deleted: u64) -> Option<(ConversationId, u64)> {
        let mut best: Option<(ConversationId, u64)> = None;
        for (number, (id, cut)) in self.forks.get(&deleted)? {
            let shown = id
                .clone()
                .or_else(|| self.sharer(*number).map(|(shown, _)| shown));
            if let Some(shown) = shown
                && best.as_ref().is_none_or(|(_, best)| best < cut)
            {
                best = Some((shown, *cut));
            }
        }
        best
    }
}

struct Passage {
    block: Block,
    text: PassageText,
    vector: Option<Vector>,
}

/// Everything that is to be found in some places.
struct Index {
    passages: BTreeMap<Doc, Passage>,
    /// Numbers of passages that have a term, in order.
    terms: BTreeMap<String, Vec<i64>>,
    /// The numbers that are searched.
    searched: HashSet<i64>,
}

fn number(doc: Doc) -> i64 {
    doc.conversation << PASSAGE_BITS | i64::from(doc.place)
}

impl Index {
    fn of(searched: &[Place], scope: &[Place], embedder: &dyn Embedder) -> Self {
        let mut index = Index {
            passages: BTreeMap::new(),
            terms: BTreeMap::new(),
            searched: searched.iter().map(Place::number).collect(),
        };
        // A fork shows what it shares with conversations of its own scope only, so that the scope has all of it.
        let mut places: BTreeMap<i64, &Place> = scope.iter().map(|place| (place.number(), place)).collect();
        places.extend(searched.iter().map(|place| (place.number(), place)));
        for (conversation, place) in places {
            let mut files = HashSet::new();
            let mut docs = (0..).map(|place| Doc { conversation, place });
            for block in lock(&place.blocks.own).iter() {
                let found = remembered(block).filter(|_| block.seq.get() <= place.end);
                let Some(found) = found.filter(|found| found.file().is_none_or(|file| files.insert(file)))
                else {
                    continue;
                };
                for (entry, doc) in found.entries().zip(&mut docs) {
                    entry.terms(|term| {
                        let numbers = index.terms.entry(term.to_owned()).or_default();
                        if numbers.last() != Some(&number(doc)) {
                            numbers.push(number(doc));
                        }
                    });
                    let passage = Passage {
                        vector: embedder.at_once(&entry.embedded()),
                        text: PassageText {
                            range: entry.range,
                            target: found.target,
                        },
                        block: block.clone(),
                    };
                    index.passages.insert(doc, passage);
                }
            }
        }
        index
    }

    fn of_conversation(&self, conversation: i64) -> impl Iterator<Item = (&Doc, &Passage)> {
        let first = Doc {
            conversation,
            place: 0,
        };
        let last = Doc {
            conversation,
            place: u32::MAX,
        };
        self.passages.range(first..=last)
    }

    fn load(&self, places: &[Place]) -> Loaded {
        let strands = places.iter().map(|place| Strand {
            source: Source {
                conversation: place.number(),
                first: Some(place.number() << PASSAGE_BITS),
                next: self.of_conversation(place.number()).count() as i64,
                upto: i64::MAX,
            },
            last: place.last,
            shown: place.shown.clone(),
        });
        let loaded = Matrices::default().begin(0, strands.collect());
        for missing in loaded.missing() {
            let read = loaded.extend(&missing, |seen| {
                for (doc, passage) in self.of_conversation(missing.conversation) {
                    let vector = passage.vector.as_ref().map(Vector::to_bytes);
                    seen(StoredPassage {
                        place: i64::from(doc.place),
                        seq: passage.block.seq.get() as i64,
                        ts_seconds: passage.block.ts.unix_millis() / 1_000,
                        length: passage.text.range.len() as i64,
                        target: passage.text.target as i64,
                        vector: vector.as_deref(),
                    });
                }
                Ok::<_, std::convert::Infallible>(())
            });
            read.unwrap_or_else(|never| match never {});
        }
        loaded
    }
}

impl Postings for Index {
    type Error = std::convert::Infallible;

    fn passages(
        &self,
        terms: &[String],
        area: Area,
        most: usize,
    ) -> impl Future<Output = Result<Vec<Vec<i64>>, Self::Error>> {
        let is_meant =
            |number: &i64| area == Area::Scope || self.searched.contains(&(number >> PASSAGE_BITS));
        let of_term = |term: &String| {
            let numbers = self.terms.get(term).into_iter().flatten().rev();
            numbers.copied().filter(is_meant).take(most).collect()
        };
        ready(Ok(terms.iter().map(of_term).collect()))
    }

    fn vocabulary(&self, from: &str, to: &str) -> impl Future<Output = Result<Vec<String>, Self::Error>> {
        let words = self
            .terms
            .range::<str, _>((std::ops::Bound::Included(from), std::ops::Bound::Excluded(to)));
        ready(Ok(words.map(|(term, _)| term.clone()).collect()))
    }
}
