//! What a document cites: rows of the pool, and numbers that name none.

use annals_core::code::Code;
use annals_core::ids::Sid;
use annals_core::sources::{SourceRow, citation};
use annals_core::turn::outcome::Notice;
use annals_render::Source;

use crate::cx::ToolCx;
use crate::mentioned;

/// The citations of one document, resolved.
#[derive(Debug, Default)]
pub(super) struct Citations {
    /// What the document may print.
    pub(super) sources: Vec<Source>,
    /// The known ones, in the order of their first citation.
    pub(super) used: Vec<Sid>,
    /// What the model must be told.
    pub(super) notices: Vec<Notice>,
}

/// Resolves what `content` cites. Files among the sources are brought into OUT_DIR.
pub(super) async fn resolve(cx: &ToolCx, content: &str) -> Citations {
    let mut citations = Citations::default();
    let mut unknown = Vec::new();
    for sid in citation::extract(content) {
        let Some(row) = cx.timeline(|timeline| timeline.pool().get(sid).cloned()) else {
            unknown.push(sid);
            continue;
        };
        if let Some(path) = row.file_path() {
            // A source whose file is gone can still be cited.
            let _ = mentioned::bring_one(cx, &path).await;
        }
        citations.sources.push(source(sid, &row));
        citations.used.push(sid);
    }
    if !unknown.is_empty() {
        let numbers: Vec<String> = unknown.iter().map(ToString::to_string).collect();
        let message = format!(
            "the content cites sources that are not in the pool: {}; cite sources of the pool only",
            numbers.join(", ")
        );
        let numbers: Vec<u32> = unknown.iter().map(|sid| sid.get()).collect();
        citations
            .notices
            .push(Notice::new(Code::MissingSources, message).with("missing", numbers));
    }
    citations
}

fn source(sid: Sid, row: &SourceRow) -> Source {
    let url = (!row.url.is_empty()).then(|| row.url.to_string());
    let name = || row.file_path().map(|path| path.rel().file_name().to_owned());
    let title = match row.title.trim() {
        "" => name()
            .or_else(|| url.clone())
            .unwrap_or_else(|| format!("Source {sid}")),
        title => title.to_owned(),
    };
    Source {
        sid: sid.get(),
        title,
        url,
    }
}

#[cfg(test)]
mod tests {
    use annals_render::doc::{Block, Inline};
    use proptest::prelude::*;

    use super::*;

    /// What the document would print as citations, token by token.
    fn printed(content: &str) -> Vec<Vec<u32>> {
        let mut found = Vec::new();
        for block in annals_render::markdown::read(content).blocks {
            if let Block::Paragraph(inlines) = block {
                found.extend(inlines.into_iter().filter_map(|inline| match inline {
                    Inline::Cite(sids) => Some(sids),
                    _ => None,
                }));
            }
        }
        found
    }

    /// What the conversation notes as used, token by token.
    fn noted(content: &str) -> Vec<Vec<u32>> {
        let sorted = |token: citation::Token| {
            let mut sids: Vec<u32> = token.sids.iter().map(|sid| sid.get()).collect();
            sids.sort_unstable();
            sids
        };
        citation::tokens(content).into_iter().map(sorted).collect()
    }

    #[test]
    fn a_token_may_cite_as_many_sources_in_a_document_as_in_the_conversation() {
        use annals_core::limits::CITATION_MAX_SIDS;
        assert_eq!(annals_render::limits::MAX_SIDS, CITATION_MAX_SIDS);
        for last in [1, CITATION_MAX_SIDS - 1, CITATION_MAX_SIDS, CITATION_MAX_SIDS + 1] {
            let content = format!("a [[S:1-{last}]] b");
            assert_eq!(printed(&content), noted(&content), "{last}");
            assert_eq!(printed(&content).is_empty(), last > CITATION_MAX_SIDS);
        }
    }

    proptest! {
        #[test]
        fn document_and_conversation_read_the_same_tokens(items in "[0-9]{0,3}([,:-] ?[0-9]{1,3}){0,3}[ ,x]?") {
            let content = format!("a [[S:{items}]] b");
            prop_assert_eq!(printed(&content), noted(&content));
        }
    }
}
