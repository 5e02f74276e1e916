//! Two texts line by line: hunks with the numbers of both sides.

use std::time::Duration;

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

const CONTEXT_LINES: usize = 3;
const LINES_SHOWN: usize = 3000;
const LINE_MAX_CHARS: usize = 2000;
/// After this the difference is coarser, not wrong.
const EXACT_FOR: Duration = Duration::from_secs(2);

pub(super) fn draw(before: &str, after: &str) -> Value {
    let diff = TextDiff::configure().timeout(EXACT_FOR).diff_lines(before, after);
    let (mut added, mut removed, mut shown, mut left_out) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut hunks = Vec::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        let mut lines = Vec::new();
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Equal => " ",
                ChangeTag::Delete => "-",
                ChangeTag::Insert => "+",
            };
            added += usize::from(sign == "+");
            removed += usize::from(sign == "-");
            if shown == LINES_SHOWN {
                left_out += 1;
                continue;
            }
            shown += 1;
            let text = cut(change.value().trim_end_matches(['\n', '\r']));
            let number = |index: Option<usize>| index.map(|index| index + 1);
            lines.push(json!([
                sign,
                text,
                number(change.old_index()),
                number(change.new_index())
            ]));
        }
        if !lines.is_empty() {
            hunks.push(json!({ "header": hunk.header().to_string(), "lines": lines }));
        }
    }
    json!({ "hunks": hunks, "added": added, "removed": removed, "truncated": left_out })
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_MAX_CHARS) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}… ({} more bytes)", &line[..end], line.len() - end),
    }
}
