//! Tool ids as vendors allow them, and back.
//!
//! Vendors allow letters, digits, `_` and `-`, up to 64 of them; our ids have dots. A dot becomes `__`. The way back
//! goes through the tools on offer, so that an id which has `__` of its own comes back as it was.

use std::borrow::Cow;
use std::collections::HashMap;

use annals_core::block::BlobDigest;
use annals_core::view::prompt::ToolSchema;

const TOOL_MAX_BYTES: usize = 64;
const CALL_ID_MAX_BYTES: usize = 40;
const HASH_CHARS: usize = 8;

/// The names of the tools on offer.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolNames {
    to_wire: HashMap<String, String>,
    from_wire: HashMap<String, String>,
}

impl ToolNames {
    pub(crate) fn of(tools: &[ToolSchema]) -> Self {
        let mut names = ToolNames::default();
        for tool in tools {
            let mut wire = plain_wire_name(&tool.name);
            if names.from_wire.contains_key(&wire) {
                // `a.b` and `a__b` are both on offer: the later one says which it is.
                wire = with_hash(&wire, &tool.name, TOOL_MAX_BYTES);
            }
            names.from_wire.insert(wire.clone(), tool.name.clone());
            names.to_wire.insert(tool.name.clone(), wire);
        }
        names
    }

    /// The name on the wire; also of a tool that is no longer on offer.
    pub(crate) fn wire_name<'a>(&'a self, tool: &str) -> Cow<'a, str> {
        match self.to_wire.get(tool) {
            Some(wire) => Cow::Borrowed(wire),
            None => Cow::Owned(plain_wire_name(tool)),
        }
    }

    /// The tool's id; of a name that was not on offer, the likeliest one.
    pub(crate) fn tool_id(&self, wire: &str) -> String {
        self.from_wire
            .get(wire)
            .cloned()
            .unwrap_or_else(|| wire.replace("__", "."))
    }
}

/// A call's id as every vendor takes it: the same for the call and its reply.
pub(crate) fn wire_call_id(id: &str) -> Cow<'_, str> {
    if id.len() <= CALL_ID_MAX_BYTES {
        return Cow::Borrowed(id);
    }
    Cow::Owned(with_hash(id, id, CALL_ID_MAX_BYTES))
}

fn plain_wire_name(tool: &str) -> String {
    let mut wire = String::with_capacity(tool.len() + 2);
    for c in tool.chars() {
        match c {
            '.' => wire.push_str("__"),
            c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => wire.push(c),
            _ => wire.push('_'),
        }
    }
    if wire.len() > TOOL_MAX_BYTES {
        with_hash(&wire, tool, TOOL_MAX_BYTES)
    } else {
        wire
    }
}

/// The beginning of an ASCII name and a hash of the whole, together no longer than allowed.
fn with_hash(ascii: &str, whole: &str, max_bytes: usize) -> String {
    let hash = BlobDigest::of(whole.as_bytes()).hex();
    let kept = &ascii[..ascii.len().min(max_bytes - HASH_CHARS - 1)];
    format!("{kept}_{}", &hash[..HASH_CHARS])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tool(name: &str) -> ToolSchema {
        ToolSchema {
            name: name.into(),
            description: String::new(),
            parameters: serde_json::json!({}),
        }
    }

    #[test]
    fn dots_become_double_underscores_and_come_back() {
        let names = ToolNames::of(&[tool("react.write"), tool("add_one"), tool("mcp__search")]);
        assert_eq!(names.wire_name("react.write"), "react__write");
        assert_eq!(names.tool_id("react__write"), "react.write");
        assert_eq!(names.tool_id("mcp__search"), "mcp__search");
        assert_eq!(names.tool_id("react__forgotten"), "react.forgotten");
        assert_eq!(names.tool_id("react.write"), "react.write");
    }

    proptest! {
        #[test]
        fn every_offered_tool_comes_back_as_itself(ids in prop::collection::btree_set("[a-c._é]{1,5}|[a-z.]{60,70}", 1..12)) {
            let tools: Vec<ToolSchema> = ids.iter().map(|id| tool(id)).collect();
            let names = ToolNames::of(&tools);
            for id in &ids {
                let wire = names.wire_name(id);
                prop_assert!(wire.len() <= TOOL_MAX_BYTES);
                prop_assert!(wire.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
                prop_assert_eq!(&names.tool_id(&wire), id);
            }
        }
    }
}
