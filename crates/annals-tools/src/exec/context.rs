//! The conversation, readable from inside executed code, under the scope of one call.
//!
//! It gives what the model can read and nothing else, and changes nothing: react tools do not exist here.

use annals_core::path::LogicalPath;
use annals_sandbox::{ContextError, ContextService, Fetched};
use async_trait::async_trait;

use crate::content;
use crate::cx::ToolCx;
use crate::mentioned;

/// Answers the code of one call.
pub(super) struct Conversation {
    pub(super) cx: ToolCx,
}

#[async_trait]
impl ContextService for Conversation {
    async fn fetch(&self, path: &str) -> Result<Fetched, ContextError> {
        let path =
            LogicalPath::parse(path).map_err(|error| ContextError::new(error.code(), error.to_string()))?;
        if let Some(physical) = path.physical() {
            // Code often goes on to open it by its physical path. Failing here is not failing to read it.
            let _ = mentioned::bring_one(&self.cx, &physical).await;
        }
        let opened = content::open(self.cx.shared(), &path, Some(self.cx.turn()))
            .await
            .map_err(|error| ContextError::new("path_missing", error.to_string()))?;
        Ok(Fetched {
            path: path.as_str().to_owned(),
            mime: opened.mime,
            is_text: opened.is_text,
            size_bytes: opened.size_bytes,
            body: opened.body,
        })
    }
}
