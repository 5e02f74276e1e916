//! `ref:<logical path>` parameters: a string that stands for an artifact's content.

use annals_core::code::Code;
use annals_core::path::LogicalPath;
use annals_core::turn::outcome::{Notice, Outcome};
use serde_json::{Value, json};

use crate::content;
use crate::cx::{ConversationCx, ToolCx};
use crate::failure::ToolFailure;
use crate::serialise;

const PREFIX: &str = "ref:";

/// A reference that cannot be followed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct NotVisible {
    /// The parameter, as a JSON pointer.
    pub param: String,
    /// What it refers to, as written.
    pub reference: String,
    /// Why it cannot be followed, and what to do.
    pub message: String,
}

impl NotVisible {
    /// What the call gets instead of a run.
    pub fn outcome(&self) -> Outcome {
        let failure = ToolFailure::new(Code::ParamRefNotVisible, self.message.clone())
            .detail(json!({"path": self.param, "ref": self.reference}));
        let notice = Notice::new(Code::ViolationParamRefNotVisible, self.message.clone())
            .with("path", self.param.clone())
            .with("ref", self.reference.clone());
        Outcome {
            notices: vec![notice],
            ..serialise::failed(&failure)
        }
    }
}

/// Replaces every string of the form `ref:<logical path>` by that artifact's whole content, if the model can see
/// the artifact. Other strings stay as they are.
pub async fn resolve(cx: &ToolCx, mut args: Value) -> Result<Value, NotVisible> {
    let mut places = Vec::new();
    collect(&args, &mut String::new(), &mut places);
    for (param, reference) in places {
        let text = follow(cx, &reference).await.map_err(|message| NotVisible {
            param: param.clone(),
            reference: reference.clone(),
            message,
        })?;
        if let Some(place) = args.pointer_mut(&param) {
            *place = Value::String(text);
        }
    }
    Ok(args)
}

/// JSON pointers of all references below a value.
fn collect(value: &Value, pointer: &mut String, places: &mut Vec<(String, String)>) {
    let mut below = |name: &str, value: &Value, places: &mut Vec<(String, String)>| {
        let end = pointer.len();
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
        collect(value, pointer, places);
        pointer.truncate(end);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, field)| below(name, field, places)),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| below(&index.to_string(), item, places));
        }
        // One line that begins like a reference; a document that merely begins with `ref:` is a document.
        Value::String(text) if text.starts_with(PREFIX) && !text.contains('\n') => {
            places.push((pointer.clone(), text.clone()));
        }
        _ => {}
    }
}

async fn follow(cx: &ToolCx, reference: &str) -> Result<String, String> {
    let given = &reference[PREFIX.len()..];
    let path = LogicalPath::parse(given).map_err(|error| error.to_string())?;
    if !cx.timeline(|timeline| timeline.visible_content(&path).is_some()) {
        return Err(format!(
            "`{path}` is not visible: bring it back with react.read(paths=[\"{path}\"]) first"
        ));
    }
    let shared: &ConversationCx = cx.shared();
    let whole = content::whole(shared, &path, Some(cx.turn()))
        .await
        .map_err(|error| error.to_string())?;
    match whole.text() {
        Some(text) => Ok(text.to_owned()),
        None => Err(format!(
            "`{path}` is {}, not text: give its path to a tool that takes files",
            whole.mime
        )),
    }
}
