//! Blocks that conversations share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::Seq;

use super::lock;
use crate::log::{asks_from, named_by};

/// Blocks of one conversation after those it shares. A strand lives as long as a conversation needs it, which
/// may be longer than its own.
#[derive(Debug, Default)]
pub(super) struct Strand {
    /// The place of its conversation in the order of making.
    pub(super) number: u64,
    pub(super) base: Option<(Arc<Strand>, Seq)>,
    pub(super) own: Mutex<Vec<Block>>,
}

impl Strand {
    /// How many blocks lie before its own.
    pub(super) fn shared(&self) -> u64 {
        self.base.as_ref().map_or(0, |(_, cut)| cut.get())
    }

    pub(super) fn tail(&self) -> Option<Seq> {
        Seq::try_new(self.shared() + lock(&self.own).len() as u64).ok()
    }

    /// Adds blocks `from..=to` to `found`.
    pub(super) fn read(&self, from: u64, to: u64, found: &mut Vec<Block>) {
        let shared = self.shared();
        if let Some((base, _)) = &self.base
            && from <= shared
        {
            base.read(from, to.min(shared), found);
        }
        if to > shared {
            let own = lock(&self.own);
            let start = from.saturating_sub(shared + 1).min(own.len() as u64) as usize;
            let end = (to - shared).min(own.len() as u64) as usize;
            found.extend_from_slice(&own[start..end]);
        }
    }

    /// From where a conversation with these blocks asks.
    pub(super) fn asks_from(&self) -> Option<Seq> {
        let mut blocks = Vec::new();
        self.read(1, u64::MAX, &mut blocks);
        blocks.iter().fold(None, asks_from)
    }

    pub(super) fn last(&self) -> Option<Block> {
        let tail = self.tail()?.get();
        let mut found = Vec::new();
        self.read(tail, tail, &mut found);
        found.pop()
    }

    pub(super) fn name_blobs(&self, cut: u64, named: &mut BTreeSet<BlobDigest>) {
        let shared = self.shared();
        lock(&self.own)
            .iter()
            .take_while(|b| b.seq.get() <= cut)
            .for_each(|b| named.extend(named_by(b)));
        if let Some((base, _)) = &self.base {
            base.name_blobs(cut.min(shared), named);
        }
    }
}
