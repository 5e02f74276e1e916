//! The arguments of a native call. A call block shows a large parameter cut, because its whole stands elsewhere on the
//! timeline; the native call gets it back, so that the model sees its call as it made it, and the other place points
//! here. Where the whole is hidden, or too long for one part, the cut stays.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::cut;
use super::fold::View;
use super::slots::Shows;
use super::template::placeholder_text;
use crate::block::CutParam;
use crate::limits;
use crate::timeline::{CallRecord, Ix, NONE};

/// The arguments of a call, its cut parameters whole as far as the timeline shows the wholes.
pub(super) fn whole<'a>(view: &View, record: &CallRecord, params: &'a str) -> Cow<'a, str> {
    let cuts = &view.at_ix(record.call).meta().cut;
    if cuts.is_empty() {
        return Cow::Borrowed(params);
    }
    let Ok(mut arguments) = serde_json::from_str::<Map<String, Value>>(params) else {
        return Cow::Borrowed(params);
    };
    for cut in cuts {
        if let (Some(text), Some(value)) = (text_of(view, record, cut), arguments.get_mut(&cut.name)) {
            *value = Value::String(text);
        }
    }
    Cow::Owned(Value::Object(arguments).to_string())
}

/// Whether the native call carries the content of this result block.
pub(super) fn carry(view: &View, record: &CallRecord, result: Ix) -> bool {
    let cuts = &view.at_ix(record.call).meta().cut;
    view.slots().is_shown(record.call)
        && cuts
            .iter()
            .any(|cut| source_of(view, record, cut) == Some(result))
}

/// The arguments of a hidden call: its shortened parameters, or the words that replace it.
pub(super) fn hidden(replacement: &str, placeholder: String) -> String {
    match serde_json::from_str::<Map<String, Value>>(replacement) {
        Ok(_) => replacement.to_owned(),
        Err(_) => serde_json::json!({ "hidden": placeholder }).to_string(),
    }
}

fn text_of(view: &View, record: &CallRecord, cut: &CutParam) -> Option<String> {
    if let Some(source) = source_of(view, record, cut) {
        return view.at_ix(source).text().map(str::to_owned);
    }
    // Hidden code is told here, because the code block itself renders to nothing beside a native call.
    let code = view
        .slots()
        .of(record.code)
        .filter(|_| is_whole_of(view, record.code, cut))?;
    match view.slots().list()[code].shows {
        Shows::Placeholder(number) => Some(placeholder_text(view, number)),
        Shows::Block | Shows::Group | Shows::Nothing => None,
    }
}

/// The block that shows the whole of a cut parameter: the call's code, or one of its results.
fn source_of(view: &View, record: &CallRecord, cut: &CutParam) -> Option<Ix> {
    let results = match record.group {
        NONE => 0..0,
        group => {
            let count = view.at_ix(group).meta().result_count.unwrap_or(1);
            group..group.saturating_add(count).min(view.blocks().len() as Ix)
        }
    };
    let code = Some(record.code).filter(|&ix| ix != NONE);
    let mut shown = code
        .into_iter()
        .chain(results)
        .filter(|&ix| view.slots().is_shown(ix));
    shown.find(|&ix| view.at_ix(ix).meta().call.as_ref() == Some(&record.id) && is_whole_of(view, ix, cut))
}

fn is_whole_of(view: &View, ix: Ix, cut: &CutParam) -> bool {
    let block = view.at_ix(ix);
    let digest = block.meta().file.as_ref().and_then(|file| file.content_digest);
    let is_shown_whole =
        |text: &str| text.len() as u64 == cut.size_bytes && cut::fits(text, limits::PART_MAX_CHARS);
    digest == Some(cut.blob) && block.text().is_some_and(is_shown_whole)
}
