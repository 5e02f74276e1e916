//! Footnotes: a mark in the text, and a part of their own with their bodies.

use std::fmt::Write as _;

use crate::doc::Block;
use crate::ooxml::Relations;

use super::run::{self, RunLook};
use super::{Place, Writer};

impl Writer<'_> {
    /// Word numbers notes by their order; a second mention repeats the number as text.
    pub(super) fn footnote_mark(&mut self, index: usize) {
        let Some(slot) = self.notes.get_mut(index) else {
            return;
        };
        match *slot {
            None if !self.open_notes.is_empty() => self.note_in_note(index),
            Some(number) => {
                let look = RunLook {
                    vertical: Some("superscript"),
                    ..RunLook::default()
                };
                run::text(&mut self.out, &number.to_string(), &look);
            }
            None => {
                self.notes_seen += 1;
                *slot = Some(self.notes_seen);
                let _ = write!(
                    self.out,
                    "<w:r><w:rPr><w:rStyle w:val=\"FootnoteReference\"/></w:rPr><w:footnoteReference w:id=\"{}\"/></w:r>",
                    self.notes_seen
                );
            }
        }
    }

    /// Word refuses a note within a note: one that only another note mentions stands there in brackets.
    fn note_in_note(&mut self, index: usize) {
        let document = self.document;
        if self.open_notes.contains(&index) {
            return;
        }
        self.open_notes.push(index);
        run::text(&mut self.out, " (", &RunLook::default());
        let paragraphs = document.footnotes[index].iter().filter_map(|block| match block {
            Block::Paragraph(inlines) => Some(inlines),
            _ => None,
        });
        for (at, inlines) in paragraphs.enumerate() {
            if at > 0 {
                run::text(&mut self.out, " ", &RunLook::default());
            }
            self.inlines(inlines, RunLook::default());
        }
        run::text(&mut self.out, ")", &RunLook::default());
        self.open_notes.pop();
    }

    /// The notes that were mentioned, in the order of their numbers, with the relations of their part.
    pub(super) fn footnotes(&mut self) -> (String, Relations) {
        let document = self.document;
        let body = std::mem::take(&mut self.out);
        // Links and pictures in notes belong to the notes' own part.
        let body_relations = std::mem::take(&mut self.relations);
        let body_pictures = std::mem::take(&mut self.picture_ids);
        self.picture_ids = (0..self.office.len())
            .map(|index| {
                self.relations.part(
                    "image",
                    &format!("media/image{index}.{}", self.office[index].extension),
                )
            })
            .collect();
        let mut numbered: Vec<(usize, usize)> = self
            .notes
            .iter()
            .enumerate()
            .filter_map(|(index, number)| Some(((*number)?, index)))
            .collect();
        numbered.sort_unstable();
        for (number, index) in numbered {
            self.open_notes = vec![index];
            let _ = write!(self.out, "<w:footnote w:id=\"{number}\">");
            self.out.push_str(
                "<w:p><w:pPr><w:pStyle w:val=\"FootnoteText\"/></w:pPr><w:r><w:rPr><w:rStyle \
                 w:val=\"FootnoteReference\"/></w:rPr><w:footnoteRef/></w:r><w:r><w:t xml:space=\"preserve\"> </w:t></w:r>",
            );
            let place = Place {
                style: Some("FootnoteText"),
                ..Place::default()
            };
            let blocks = document.footnotes[index].as_slice();
            let rest = match blocks {
                [Block::Paragraph(inlines), rest @ ..] => {
                    self.inlines(inlines, RunLook::default());
                    rest
                }
                blocks => blocks,
            };
            self.out.push_str("</w:p>");
            self.blocks(rest, place);
            self.out.push_str("</w:footnote>");
        }
        self.open_notes.clear();
        self.picture_ids = body_pictures;
        let relations = std::mem::replace(&mut self.relations, body_relations);
        (std::mem::replace(&mut self.out, body), relations)
    }
}
