//! `/v1/files`: files that messages name by id.
//!
//! A file is a conversation of one block in a scope of this API's own: so every store keeps it, its bytes stay as long as it
//! does, and nothing lists it elsewhere.

use annals_core::block::{Blob, BlobDigest, Block, BlockKind, FileMeta, Meta, NewBlock, word};
use annals_core::ids::{ConversationId, Scope, Seq};
use annals_runtime::Agent;
use annals_store::Cursor;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ask::Face;
use super::error::ApiError;
use crate::idempotency::Once;

const KIND: &str = "x.openai.file";
const TURN: &str = "turn_file";
const PAGE: usize = 100;

/// What is known of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Known {
    filename: String,
    purpose: String,
    bytes: u64,
    created_at: i64,
}

impl Known {
    fn object(&self, id: &str) -> Value {
        json!({
            "id": id, "object": "file", "bytes": self.bytes, "created_at": self.created_at,
            "filename": self.filename, "purpose": self.purpose, "status": "processed", "expires_at": null,
        })
    }
}

impl Face {
    /// The agent of the scope in which this caller's files are.
    fn file_agent(&self) -> Agent {
        self.agent.in_scope(&file_scope(self.scope()))
    }

    /// Keeps a file whose bytes the artifact store has.
    pub(crate) async fn keep_file(
        &self,
        filename: String,
        purpose: String,
        blob: Blob,
        once: Once,
    ) -> Result<Response, ApiError> {
        let agent = self.file_agent();
        let known = Known {
            filename,
            purpose,
            bytes: blob.size_bytes,
            created_at: crate::secrets::seconds(agent.world().now()),
        };
        let id = format!(
            "file-{:016x}{:016x}",
            agent.world().random(),
            agent.world().random()
        );
        let turn = annals_core::ids::TurnId::parse(TURN)
            .map_err(|error| ApiError::from(crate::problem::Problem::internal(error)))?;
        let meta = Meta {
            file: Some(Box::new(FileMeta {
                content_digest: Some(blob.digest),
                size_bytes: Some(known.bytes),
                ..FileMeta::default()
            })),
            ..Meta::default()
        };
        let block = NewBlock {
            kind: BlockKind::from_tag(KIND),
            author: word("user"),
            turn,
            mime: word("application/json"),
            path: None,
            body: annals_core::block::Body::Empty,
            meta,
        }
        .json(&known);
        let object = known.object(&id);
        let kept = once.perform(&self.app, StatusCode::OK, &object, async |answer| {
            let session = agent.session(&id).await?;
            agent.contribute(&session, vec![block], answer).await?;
            session.close().await
        });
        Ok(kept.await?)
    }

    /// What is known of a file.
    pub(crate) async fn file(&self, id: &str) -> Result<Value, ApiError> {
        self.known_file(id).await.map(|(known, _)| known.object(id))
    }

    /// A file's name, and its bytes in the artifact store.
    pub(crate) async fn kept_file(&self, id: &str) -> Result<(String, Blob), ApiError> {
        let (known, digest) = self.known_file(id).await?;
        let blob = Blob {
            digest,
            size_bytes: known.bytes,
        };
        Ok((known.filename, blob))
    }

    /// The newest files, a page of them.
    pub(crate) async fn files(&self, after: Option<&str>) -> Result<Value, ApiError> {
        let cursor = after.map(str::parse::<Cursor>).transpose();
        let cursor = cursor.map_err(|error| ApiError::invalid("after", "invalid_cursor", error))?;
        let listing = self
            .agent
            .log()
            .list(&file_scope(self.scope()), cursor, PAGE)
            .await?;
        let mut data = Vec::with_capacity(listing.items.len());
        for info in &listing.items {
            data.push(self.file(info.key.id.as_str()).await?);
        }
        Ok(json!({
            "object": "list", "data": data, "has_more": listing.next.is_some(),
            "last_id": listing.next.map(|next| next.to_string()),
        }))
    }

    /// Removes a file; turns that were given it keep their copy.
    pub(crate) async fn remove_file(&self, id: &str) -> Result<Value, ApiError> {
        self.known_file(id).await?;
        let conversation = ConversationId::parse(id).map_err(|_| ApiError::missing("file"))?;
        self.file_agent().delete_conversation(&conversation).await?;
        Ok(json!({"id": id, "object": "file", "deleted": true}))
    }

    async fn known_file(&self, id: &str) -> Result<(Known, BlobDigest), ApiError> {
        let missing = || ApiError::missing("file");
        let agent = self.file_agent();
        let id = ConversationId::parse(id).map_err(|_| missing())?;
        let blocks = agent.log().read(&agent.key(&id), Seq::FIRST, 1).await;
        let blocks = match blocks {
            Err(annals_store::LogError::NotFound { .. }) => return Err(missing()),
            blocks => blocks?,
        };
        let block: &Block = blocks.first().ok_or_else(missing)?;
        let digest = block.meta().file.as_ref().and_then(|file| file.content_digest);
        let known = block.payload().map_err(|_| missing())?;
        Ok((known, digest.ok_or_else(missing)?))
    }
}

fn file_scope(scope: &Scope) -> Scope {
    let side = super::lineage::side_scope(scope);
    Scope::try_new(side.tenant(), "files", side.user()).unwrap_or(side)
}
