//! How much room text takes, without a font at hand: estimates that err on the high side.

use crate::doc::{Inline, plain_text};
use crate::ooxml::ems;

use super::deck::{BODY_WIDTH_PT, CODE_SIZE_PT, Line};

pub(super) fn code_height(lines: usize) -> f64 {
    lines as f64 * CODE_SIZE_PT * 1.2 + 16.0
}

pub(super) fn lines_of(inlines: &[Inline], width_pt: f64, size_pt: f64) -> usize {
    let breaks = inlines
        .iter()
        .filter(|inline| matches!(inline, Inline::LineBreak))
        .count();
    let ems = ems(&plain_text(inlines));
    ((ems * size_pt / width_pt.max(size_pt)).ceil() as usize).max(1) + breaks
}

pub(super) fn line_height(line: &Line) -> f64 {
    let width = BODY_WIDTH_PT - 22.0 * (line.level as f64 + 1.0);
    lines_of(&line.inlines, width, line.size_pt) as f64 * line.size_pt * 1.2 + line.size_pt * 0.4
}

/// Cuts plain text in pieces of at most `most` characters, at spaces; marked-up text is not cut.
pub(super) fn cut(inlines: Vec<Inline>, most: usize) -> Vec<Vec<Inline>> {
    let mut pieces = vec![Vec::new()];
    let mut used = 0;
    for inline in inlines {
        let Inline::Text(text) = inline else {
            used += plain_text(std::slice::from_ref(&inline)).chars().count();
            pieces.last_mut().expect("there is always one").push(inline);
            continue;
        };
        let mut rest = text.as_str();
        while used + rest.chars().count() > most {
            let room = most.saturating_sub(used).max(1);
            let hard = rest.char_indices().nth(room).map_or(rest.len(), |(at, _)| at);
            let at = rest[..hard].rfind(' ').map_or(hard, |at| at + 1);
            pieces
                .last_mut()
                .expect("there is always one")
                .push(Inline::Text(rest[..at].to_owned()));
            pieces.push(Vec::new());
            rest = &rest[at..];
            used = 0;
        }
        used += rest.chars().count();
        pieces
            .last_mut()
            .expect("there is always one")
            .push(Inline::Text(rest.to_owned()));
    }
    pieces.retain(|piece| !plain_text(piece).trim().is_empty());
    pieces
}
