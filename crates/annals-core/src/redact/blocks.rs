//! Blocks without secrets: their texts and their metadata. What a path names and what a digest covers stays as it is.

use std::borrow::Cow;

use super::Redactor;
use crate::block::{BlockKind, Body, Meta, NewBlock};

impl Redactor {
    /// The block as it may be written down.
    pub fn block(&self, mut block: NewBlock) -> NewBlock {
        let mut is_changed = false;
        if let Body::Text(text) = &block.body
            && let Cow::Owned(redacted) = self.redact(text)
        {
            block.body = Body::Text(redacted.into());
            is_changed = true;
        }
        if !block.meta.is_empty()
            && let Some(redacted) = self.meta(&block.meta)
        {
            block.meta = redacted;
            is_changed = true;
        }
        if is_changed && block.kind == BlockKind::Thinking {
            // A vendor's signature covers the words as they were: with others, the next request would be refused.
            block.meta = Meta {
                extra: Default::default(),
                ..block.meta
            };
        }
        block
    }

    /// Metadata in which something was replaced.
    fn meta(&self, meta: &Meta) -> Option<Meta> {
        let json = serde_json::to_string(meta).ok()?;
        match self.redact(&json) {
            Cow::Borrowed(_) => None,
            // A marker has no character that JSON would have to escape.
            Cow::Owned(redacted) => Some(Meta::from_json(&redacted).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Redactor, Secrets};
    use crate::block::{BlockKind, Meta, NewBlock, ShownError};
    use crate::ids::TurnId;
    use crate::path::LogicalPath;
    use crate::sources::SourceRow;

    fn redactor() -> Redactor {
        let mut secrets = Secrets::new();
        secrets.insert("DB", "hunter2hunter2").unwrap();
        Redactor::new(&secrets)
    }

    #[test]
    fn no_part_of_a_block_keeps_a_secret() {
        let turn = TurnId::parse("turn_1").unwrap();
        let source = SourceRow::web(
            "https://a.example/?k=hunter2hunter2",
            "hunter2hunter2",
            "says hunter2hunter2",
        );
        let meta = Meta {
            error: Some(Box::new(ShownError::new("failed", "no hunter2hunter2 here"))),
            sources: [source].into_iter().collect(),
            ..Meta::EMPTY
        }
        .with("further", "hunter2hunter2");
        let block = NewBlock::new(BlockKind::ToolResult, &turn, LogicalPath::turn_header(&turn))
            .text("application/json", r#"{"out":"hunter2hunter2"}"#)
            .meta(meta);
        let redacted = redactor().block(block);
        assert!(!format!("{redacted:?}").contains("hunter2"), "{redacted:?}");
        assert_eq!(
            redacted.meta.sources[0].url.as_ref(),
            "https://a.example/?k=[secret:DB]"
        );
        assert_eq!(redacted.meta.get("further").unwrap(), "[secret:DB]");
    }

    #[test]
    fn reasoning_that_was_changed_loses_its_signature_and_other_reasoning_keeps_it() {
        let turn = TurnId::parse("turn_1").unwrap();
        let thought = |text: &str| {
            let block = NewBlock::new(BlockKind::Thinking, &turn, LogicalPath::thinking(&turn, 1));
            let meta = Meta {
                step: Some(1),
                ..Meta::EMPTY
            };
            redactor().block(
                block
                    .text("text/plain", text)
                    .meta(meta.with("signature", "c2ln")),
            )
        };
        assert!(thought("plain").meta.get("signature").is_some());
        let changed = thought("uses hunter2hunter2");
        assert_eq!(
            (changed.meta.get("signature"), changed.meta.step),
            (None, Some(1))
        );
    }
}
