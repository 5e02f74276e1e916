//! Paths: how the model, people and tools name what is on the timeline.
//!
//! A path is parsed once into a type and canonical from then on: equal things have equal text. It is a locator,
//! not an authority: the code that resolves it brings the caller's scope. Nothing here touches a file system.
//!
//! Start with [`LogicalPath`]; `docs/format/paths.md` gives the grammar and examples.

mod error;
mod kind;
mod lines;
mod logical;
pub mod mentions;
mod names;
mod physical;
mod relative;
pub mod rewrite;
mod sids;

pub use error::{PathError, UnsafePath};
pub use kind::{CallPart, PathKind};
pub use lines::{LineRange, RangedPath};
pub use logical::LogicalPath;
pub use physical::{Folder, PhysicalPath};
pub use relative::RelPath;
pub use sids::{SidSet, SidSetError};

#[cfg(test)]
mod tests {
    use super::*;

    /// What a text is read as, in words.
    fn read(text: &str) -> String {
        let path = match RangedPath::parse(text) {
            Ok(path) => path,
            Err(error) => return format!("| refused | {error}"),
        };
        let names = match path.path.kind() {
            PathKind::File { turn, rel } => format!("file `{rel}` of `{turn}`"),
            PathKind::Attachment { turn, name } => format!("attachment `{name}` of `{turn}`"),
            PathKind::Code { turn, call } => format!("code of call `{call}` in `{turn}`"),
            PathKind::Named { turn, name } => format!("record `{name}` of `{turn}`"),
            PathKind::Call { turn, call, part } => {
                format!("`{}` part of call `{call}` in `{turn}`", part.as_str())
            }
            PathKind::Sources(sids) => format!("{} rows of the pool", sids.len()),
            PathKind::Summary { turn } => format!("summary written in `{turn}`"),
            PathKind::Skill { name } => format!("skill `{name}`"),
        };
        format!("| `{path}` | {names}")
    }

    /// The table in the documentation is made here: on a mismatch, paste what the failure shows.
    #[test]
    fn the_documented_examples_hold() {
        let examples = [
            "fi:turn_1.files/reports/summary.md",
            "fi:turn_1.user.attachments/menu.pdf",
            "fi:turn_1.code.tc_a1",
            "ar:turn_1.user.prompt",
            "ar:turn_1.react.plan.plan:turn_1:abcd",
            "tc:turn_1.tc_a1.result",
            "so:sources_pool[7:9,3,1,4-5,3]",
            "so:sources_pool[]",
            "su:turn_1.conv.range.summary",
            "sk:pdf-press",
            "fi:turn_1.files/a.md#L3",
            "fi:turn_1.files/a.md#L3-L9",
            "fi:turn_1.files/c#notes.md",
            "tc:turn_1.tool_calls.abc123.in.json",
            "tc:turn_1.tool_calls.abc123.out.json",
            "ar:turn_1.artifacts.notes/day 1.md",
            "turn_1/files/reports/summary.md",
            "turn_1/attachments/menu.pdf",
            "draft.md",
            "fi:1.files/a.md",
            "fi:turn_1.files/../a.md",
            "fi:turn_1.files//a.md",
            "turn_1/files/",
            "fi:turn_1.files/a.md#L9-3",
            "tc:turn_1.tc_a1.output",
            "so:sources_pool[0]",
            "so:sources_pool[1-4000000000]",
        ];
        let rows: String = examples
            .iter()
            .map(|text| format!("| `{text}` {} |\n", read(text)))
            .collect();
        let documented = include_str!("../../../../docs/format/paths.md");
        assert!(
            documented.contains(&rows),
            "docs/format/paths.md should have these rows:\n{rows}"
        );
    }

    /// Likewise for the rewrite into the current turn, here `turn_9`.
    #[test]
    fn the_documented_rewrites_hold() {
        let current = crate::ids::TurnId::parse("turn_9").unwrap();
        let examples = [
            "draft.md",
            "./draft.md",
            "files/draft.md",
            "turn_9/files/draft.md",
            "fi:turn_9.files/draft.md",
            "turn_1/files/output.csv",
            "fi:turn_1.files/output.csv",
            "turn_1/attachments/menu.pdf",
            "turn_9/attachments/menu.pdf",
            "../draft.md",
            "/tmp/draft.md",
            "tc:turn_1.tc_a1.result",
        ];
        let row = |text: &&str| match rewrite::target(text, &current) {
            Ok(target) => {
                let notice = if target.rewritten_from.is_some() {
                    "`path_rewritten`"
                } else {
                    "none"
                };
                format!("| `{text}` | `{}` | {notice} |\n", target.logical(&current))
            }
            Err(error) => format!("| `{text}` | refused, `{}` | |\n", error.code()),
        };
        let rows: String = examples.iter().map(row).collect();
        let documented = include_str!("../../../../docs/format/paths.md");
        assert!(
            documented.contains(&rows),
            "docs/format/paths.md should have these rows:\n{rows}"
        );
    }
}
