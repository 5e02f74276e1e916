//! The built-in embedder: a row of numbers for each piece of a word, the mean of the rows for a text.
//!
//! The rows were distilled from a sentence model (see `data/PROVENANCE.md`), weighted by how telling a piece is: the
//! mean points where the whole model would point, in microseconds. The table is part of the program and is used where
//! it lies; only the vocabulary is read, once, when it is first needed.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use serde::Deserialize;

use crate::embedder::{EmbedError, Embedder};
use crate::vector::{self, Vector};
use crate::wordpiece::WordPiece;

static TABLE: &[u8] = include_bytes!("../data/model.safetensors");
static TOKENIZER: &[u8] = include_bytes!("../data/tokenizer.json");

/// Changes whenever the files do: it is kept beside every vector.
const IDENTITY: &str = "static:all-MiniLM-L6-v2:model2vec:256:1";

/// Pieces beyond this change a mean no more.
const TEXT_MAX_PIECES: usize = 512;

/// A passage seldom has more.
const TEXT_USUAL_PIECES: usize = 256;

/// The table that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct StaticTable {
    rows: &'static [u8],
    dimension: usize,
    pieces: &'static WordPiece,
}

/// The head of a safetensors file.
#[derive(Deserialize)]
struct Head {
    embeddings: Tensor,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: [usize; 2],
    data_offsets: [usize; 2],
}

impl StaticTable {
    /// The table, read on first use and then shared.
    pub fn shared() -> Self {
        static SHARED: LazyLock<StaticTable> = LazyLock::new(StaticTable::read);
        *SHARED
    }

    /// The same as an embedder to hand around.
    pub fn embedder() -> Arc<dyn Embedder> {
        Arc::new(Lazily)
    }

    fn read() -> Self {
        static PIECES: LazyLock<WordPiece> =
            LazyLock::new(|| WordPiece::parse(TOKENIZER).expect("the vocabulary was checked by a test"));
        let (rows, dimension) = read_rows(TABLE).expect("the table was checked by a test");
        StaticTable {
            rows,
            dimension,
            pieces: &PIECES,
        }
    }

    /// The vector of a text.
    pub fn vector(&self, text: &str) -> Vector {
        let mut pieces = Vec::with_capacity(TEXT_USUAL_PIECES);
        self.pieces.pieces(text, &mut pieces);
        pieces.truncate(TEXT_MAX_PIECES);
        // The rows share one scale, and a mean differs from a sum only in its length: neither changes the direction.
        let mut sum = vec![0_i32; self.dimension];
        vector::add_rows(&mut sum, self.rows, &pieces);
        let sum: Vec<f32> = sum.into_iter().map(|number| number as f32).collect();
        Vector::of(&sum)
    }
}

/// Where the rows lie in a safetensors file, and how long each is.
fn read_rows(file: &'static [u8]) -> Option<(&'static [u8], usize)> {
    let (length, rest) = file.split_first_chunk::<8>()?;
    let (head, data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let Head { embeddings } = serde_json::from_slice(head).ok()?;
    let [rows, dimension] = embeddings.shape;
    let data = data.get(embeddings.data_offsets[0]..embeddings.data_offsets[1])?;
    (embeddings.dtype == "I8" && data.len() == rows * dimension).then_some((data, dimension))
}

/// The table as an embedder that reads nothing before it is asked.
struct Lazily;

#[async_trait]
impl Embedder for Lazily {
    fn identity(&self) -> &str {
        IDENTITY
    }

    fn dimension(&self) -> Option<usize> {
        Some(StaticTable::shared().dimension)
    }

    fn at_once(&self, text: &str) -> Option<Vector> {
        Some(StaticTable::shared().vector(text))
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vector>, EmbedError> {
        let table = StaticTable::shared();
        Ok(texts.iter().map(|text| table.vector(text)).collect())
    }
}
