//! The trait every tool implements.

use std::fmt;
use std::sync::Arc;

use annals_core::ids::{CallId, TurnId};
use annals_core::path::LogicalPath;
use annals_core::turn::outcome::Outcome;
use annals_core::turn::round::CutTo;
use async_trait::async_trait;
use serde_json::Value;

use crate::cx::ToolCx;
use crate::spec::{BodyParam, ToolSpec};

/// Something a model can call.
///
/// Rules for whoever implements it:
/// 1. Arguments were validated against the schema before `run`; nothing else is promised about them.
/// 2. A failure is an [`Outcome`] with an error, never a panic (a panic is caught and shown to the model).
/// 3. `run` writes no blocks: what it returns is written, in the order of calls, when it is done.
/// 4. `run` stops soon after `cx.cancel()` fires, and leaves no process or half-written file behind.
/// 5. Two calls with the same [`resource`](Self::resource) are never run at the same time; all others may be.
/// 6. A tool that declares [`Effect::Replayable`](crate::Effect::Replayable) may be run again with the same
///    arguments and call id after a crash, and must leave the same things behind.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What it declares; the same value every time.
    fn spec(&self) -> &ToolSpec;

    /// What a call with these arguments must have for itself.
    fn resource(&self, args: &Value) -> Option<ResourceKey> {
        let _ = args;
        None
    }

    /// The artifact that the body parameter of such a call becomes, for `... [see <path>]` in the call block.
    /// Only tools with a [`BodyParam::Content`] are asked.
    fn body_path(&self, turn: &TurnId, call: &CallId, args: &Value) -> Option<LogicalPath> {
        let _ = (turn, call, args);
        None
    }

    /// Does it.
    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome;
}

/// Which parameter of this call the call block shows cut, and what it names instead.
pub fn cut_of(tool: &dyn Tool, turn: &TurnId, call: &CallId, args: &Value) -> Option<CutTo> {
    let body = tool.spec().body()?;
    let see = match body {
        BodyParam::Content(_) => tool.body_path(turn, call, args)?,
        BodyParam::Code(_) => LogicalPath::code(turn, call),
        BodyParam::Streamed(_) => return None,
    };
    Some(CutTo {
        param: body.name().to_owned(),
        see,
        is_code: matches!(body, BodyParam::Code(_)),
    })
}

/// A name for what two calls must not use at the same time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey(Arc<str>);

impl ResourceKey {
    /// A key with this text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        ResourceKey(text.into())
    }

    /// The file with this path, whatever form the path has.
    pub fn file(path: &str) -> Self {
        // Forms of one file differ in front of its name, so the name is what they share.
        let name = path.rsplit('/').next().unwrap_or(path);
        ResourceKey(format!("file:{name}").into())
    }

    /// The template with `{name}` replaced by the argument of that name. What is not an argument stays.
    pub fn fill(template: &str, args: &Value) -> Self {
        let mut key = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            key.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                key.push('{');
                rest = after;
                continue;
            };
            match args.get(name) {
                Some(Value::String(text)) => key.push_str(text),
                Some(value) => key.push_str(&value.to_string()),
                None => key.push_str(&format!("{{{name}}}")),
            }
            rest = after;
        }
        key.push_str(rest);
        ResourceKey(key.into())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceKey({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_takes_its_arguments_and_keeps_the_rest() {
        let args = json!({"path": "a.md", "n": 3});
        for (template, key) in [
            ("db", "db"),
            ("file:{path}", "file:a.md"),
            ("{n}-{x}", "3-{x}"),
            ("a{b", "a{b"),
            ("{}", "{}"),
        ] {
            assert_eq!(ResourceKey::fill(template, &args).as_str(), key);
        }
    }

    #[test]
    fn every_form_of_a_file_gives_one_key() {
        let plain = ResourceKey::file("a.md");
        for form in [
            "files/a.md",
            "turn_1/files/a.md",
            "fi:turn_1.files/a.md",
            "./a.md",
        ] {
            assert_eq!(ResourceKey::file(form), plain);
        }
    }
}
