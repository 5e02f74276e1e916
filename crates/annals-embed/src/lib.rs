//! Texts as vectors: what lies close together means something similar.
//!
//! Keeps the trait, the form of a vector, and the table that is part of the program. It knows no blocks, no database
//! and no network; an embedder that asks a server is in `annals-model`, which has the HTTP. Read in this order:
//!
//! 1. [`embedder`]: what an embedder is;
//! 2. [`vector`]: a text's direction in 8-bit numbers, and how close two are;
//! 3. `table` (feature `table`): the built-in embedder, a row of numbers for each piece of a word;
//! 4. `wordpiece`: a text cut into those pieces; `trie`: which piece a text begins with; [`fold`]: letters without case
//!    and accents.

pub mod embedder;
pub mod fold;
#[cfg(feature = "table")]
pub mod table;
#[cfg(feature = "table")]
mod trie;
pub mod vector;
#[cfg(feature = "table")]
pub mod wordpiece;

pub use embedder::{EmbedError, Embedder};
#[cfg(feature = "table")]
pub use table::StaticTable;
pub use vector::Vector;
