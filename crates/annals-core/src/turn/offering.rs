//! What a model is offered at a step: the system text and the tools, as one value that is kept by digest.

use std::sync::Arc;

use crate::block::BlobDigest;
use crate::block::payload::{OfferedTool, ToolsTable};
use crate::view::ToolSchema;

/// A system text and tools, with the table that names both by digest.
#[derive(Clone, Debug, PartialEq)]
pub struct Offering {
    system: Arc<str>,
    tools: Arc<[ToolSchema]>,
    definitions: Arc<str>,
    table: ToolsTable,
}

/// Why kept texts are not what a table names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferingError {
    /// The bytes are others.
    #[error("the bytes kept for `{0}` are not those: restore the artifact store")]
    Digest(BlobDigest),
    /// They are no definitions.
    #[error("the definitions in `{digest}` cannot be read: {reason}")]
    Unreadable {
        /// What was read.
        digest: BlobDigest,
        /// What the parser said.
        reason: String,
    },
}

impl Offering {
    /// The offer of this text and these tools.
    pub fn new(system: Arc<str>, tools: Arc<[ToolSchema]>) -> Self {
        let texts: Vec<String> = tools.iter().map(ToolSchema::to_json).collect();
        let definitions: Arc<str> = format!("[{}]", texts.join(",\n")).into();
        let offered = tools.iter().zip(&texts).map(|(tool, text)| OfferedTool {
            name: tool.name.clone(),
            digest: BlobDigest::of(text.as_bytes()),
        });
        let table = ToolsTable {
            tools: offered.collect(),
            definitions: BlobDigest::of(definitions.as_bytes()),
            system: BlobDigest::of(system.as_bytes()),
        };
        Offering {
            system,
            tools,
            definitions,
            table,
        }
    }

    /// The offer that a table names, from the bytes kept under its two digests.
    pub fn read(table: &ToolsTable, definitions: &[u8], system: &[u8]) -> Result<Self, OfferingError> {
        for (digest, bytes) in table.needs().into_iter().zip([definitions, system]) {
            if BlobDigest::of(bytes) != digest {
                return Err(OfferingError::Digest(digest));
            }
        }
        let unreadable = |digest, reason: &dyn ToString| OfferingError::Unreadable {
            digest,
            reason: reason.to_string(),
        };
        let tools: Vec<ToolSchema> =
            serde_json::from_slice(definitions).map_err(|error| unreadable(table.definitions, &error))?;
        let text = std::str::from_utf8(system).map_err(|error| unreadable(table.system, &error))?;
        Ok(Offering::new(text.into(), tools.into()))
    }

    /// What the model is told before everything else.
    pub fn system(&self) -> &Arc<str> {
        &self.system
    }

    /// The tools, sorted by name.
    pub fn tools(&self) -> &Arc<[ToolSchema]> {
        &self.tools
    }

    /// What a `tools.table` block says of it.
    pub fn table(&self) -> &ToolsTable {
        &self.table
    }

    /// The texts that the table needs, to be kept before any block names them.
    pub fn texts(&self) -> [&Arc<str>; 2] {
        [&self.definitions, &self.system]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offering() -> Offering {
        let tool = |name: &str| ToolSchema {
            name: name.to_owned(),
            description: "Zweites „b“".to_owned(),
            parameters: json!({"type": "object", "properties": {"z": {}, "a": {}}}),
        };
        Offering::new("Be brief.".into(), [tool("one"), tool("two")].into())
    }

    #[test]
    fn what_was_kept_is_the_same_offer_again() {
        let kept = offering();
        let [definitions, system] = kept.texts();
        let read = Offering::read(kept.table(), definitions.as_bytes(), system.as_bytes());
        assert_eq!(read, Ok(kept));
    }

    #[test]
    fn the_digest_of_a_tool_is_the_one_that_prompts_are_hashed_by() {
        let offering = offering();
        let told = offering.table().get("two").unwrap();
        assert_eq!(told.digest, offering.tools()[1].digest());
        assert_eq!(offering.table().get("three"), None);
    }

    #[test]
    fn other_bytes_are_refused() {
        let kept = offering();
        let [definitions, _] = kept.texts();
        let read = Offering::read(kept.table(), definitions.as_bytes(), b"Be long.");
        assert_eq!(read, Err(OfferingError::Digest(kept.table().system)));
    }
}
