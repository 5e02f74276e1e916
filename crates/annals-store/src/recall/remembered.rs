//! What is remembered of a block: prompts, answers, notes, attachments and written files; whose words they are.
//!
//! Not remembered are a model's thinking, calls and their reports, what tools read or fetched, and what repeats earlier
//! blocks (summaries, hides). All of that is still on the timeline.

use std::borrow::Cow;
use std::ops::Range;

use annals_core::block::{BlobDigest, Block, BlockKind};
use annals_core::path::PathKind;

use super::{RecallTarget, passage, terms};

/// A text to remember.
#[derive(Clone, Copy, Debug)]
pub struct Remembered<'b> {
    /// Whose words.
    pub target: RecallTarget,
    /// The block's whole text.
    pub text: &'b str,
    /// What else it is known by: a file's name.
    pub name: Option<&'b str>,
    /// The whole file, so that one that is shown again is remembered once.
    pub content: Option<BlobDigest>,
}

impl<'b> Remembered<'b> {
    /// What an index has of it, in order. A file's first entry is known by the file's name too.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'b>> + use<'b> {
        let (text, name) = (self.text, self.name);
        passage::cut(text)
            .into_iter()
            .enumerate()
            .map(move |(at, range)| Entry {
                text: &text[range.clone()],
                range,
                name: name.filter(|_| at == 0),
            })
    }

    /// The entry that begins at a place of the text, as [`entries`](Self::entries) gave it.
    pub fn entry(&self, range: Range<usize>) -> Option<Entry<'b>> {
        let is_first = self.text.get(..range.start)?.trim().is_empty();
        Some(Entry {
            text: self.text.get(range.clone())?,
            range,
            name: self.name.filter(|_| is_first),
        })
    }

    /// What tells the files of one conversation apart; none for what is merely said. Eight bytes of a digest are enough.
    pub fn file(&self) -> Option<i64> {
        let (digest, _) = self.content.as_ref()?.0.split_first_chunk::<8>()?;
        Some(i64::from_le_bytes(*digest))
    }
}

/// A passage as an index takes it in.
#[derive(Clone, Debug)]
pub struct Entry<'b> {
    /// Which bytes of the whole text.
    pub range: Range<usize>,
    /// The passage.
    pub text: &'b str,
    name: Option<&'b str>,
}

impl<'b> Entry<'b> {
    /// What is embedded of it.
    pub fn embedded(&self) -> Cow<'b, str> {
        match self.name {
            Some(name) => format!("{name}: {}", self.text).into(),
            None => self.text.into(),
        }
    }

    /// Tells `seen` every term that it is found by, as often as it occurs.
    pub fn terms(&self, mut seen: impl FnMut(&str)) {
        self.name
            .into_iter()
            .for_each(|name| terms::terms(name, &mut seen));
        terms::terms(self.text, &mut seen);
    }
}

/// The types of blocks of which anything is remembered: others need not be looked at.
pub const KINDS: &[BlockKind] = &[
    BlockKind::UserPrompt,
    BlockKind::AssistantCompletion,
    BlockKind::Notes,
    BlockKind::Note,
    BlockKind::StageClarification,
    BlockKind::UserAttachment,
    BlockKind::UserAttachmentText,
    BlockKind::ToolResult,
];

/// What is remembered of a block, if anything.
pub fn remembered(block: &Block) -> Option<Remembered<'_>> {
    let text = block.text().filter(|text| !text.trim().is_empty())?;
    let said = |target| {
        Some(Remembered {
            target,
            text,
            name: None,
            content: None,
        })
    };
    let file = |target| {
        let known = block.meta().file.as_deref()?.content_digest;
        Some(Remembered {
            target,
            text,
            name: block.path.as_ref().map(|path| file_name(path.as_str())),
            content: Some(known.unwrap_or_else(|| BlobDigest::of(text.as_bytes()))),
        })
    };
    match &block.kind {
        BlockKind::UserPrompt => said(RecallTarget::User),
        BlockKind::AssistantCompletion
        | BlockKind::Notes
        | BlockKind::Note
        | BlockKind::StageClarification => said(RecallTarget::Assistant),
        BlockKind::UserAttachment => file(RecallTarget::Attachment),
        BlockKind::UserAttachmentText => said(RecallTarget::Attachment),
        BlockKind::ToolResult if !block.meta().is_digest => match block.path.as_ref()?.kind() {
            PathKind::File { .. } => file(RecallTarget::Assistant),
            _ => None,
        },
        _ => None,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use annals_core::block::{FileMeta, Meta, NewBlock};
    use annals_core::ids::{Seq, TurnId};
    use annals_core::path::{LogicalPath, RelPath};
    use annals_core::time::Timestamp;

    use super::*;

    #[test]
    fn the_types_that_are_looked_at_are_those_of_which_something_is_remembered() {
        let turn = TurnId::parse("turn_1").unwrap();
        let path = LogicalPath::file(&turn, &RelPath::parse("a.md").unwrap());
        for kind in BlockKind::KNOWN {
            let meta = Meta {
                file: Some(Box::new(FileMeta::default())),
                ..Meta::EMPTY
            };
            let new = NewBlock::new(kind.clone(), &turn, path.clone());
            let block = new
                .text("text/plain", "x")
                .meta(meta)
                .seal(Seq::FIRST, Timestamp::from_unix_micros(0));
            assert_eq!(remembered(&block).is_some(), KINDS.contains(kind), "{kind}");
        }
    }
}
