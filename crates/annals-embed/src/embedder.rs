//! What an embedder is.

use async_trait::async_trait;

use crate::vector::Vector;

/// Turns texts into vectors.
///
/// 1. The same text gives the same vector as long as [`identity`](Self::identity) stays the same. Vectors of two
///    identities must never be compared.
/// 2. All vectors have the same length.
/// 3. One that needs nobody answers [`at_once`](Self::at_once), in microseconds; one that asks a server does not, and
///    code that needs vectors inside a transaction leaves them for later.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Which embedder, in words that are kept beside its vectors.
    fn identity(&self) -> &str;

    /// How many numbers a vector has; `None` until a server has said so.
    fn dimension(&self) -> Option<usize>;

    /// The vector of a text, if it can be had without waiting for anybody.
    fn at_once(&self, text: &str) -> Option<Vector> {
        let _ = text;
        None
    }

    /// The vectors of texts, in their order.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vector>, EmbedError>;
}

/// Why there are no vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The server gave none.
    #[error("the embeddings endpoint failed: {message}")]
    Endpoint {
        /// What went wrong.
        message: String,
    },
    /// The server gave vectors of another length than before.
    #[error(
        "the embeddings endpoint gave vectors of {found} numbers instead of {expected}: check its model, then run `annals memory reindex`"
    )]
    WrongDimension {
        /// How long they should be.
        expected: usize,
        /// How long they are.
        found: usize,
    },
    /// The server gave more or fewer vectors than texts.
    #[error("the embeddings endpoint gave {found} vectors for {asked} texts")]
    WrongCount {
        /// How many texts it got.
        asked: usize,
        /// How many vectors came back.
        found: usize,
    },
}
