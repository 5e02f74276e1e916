//! Runs: text with one look.

use std::fmt::Write as _;

use crate::doc::{Rgb, Style};
use crate::ooxml::escape;

/// The look of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunLook {
    pub(super) style: Option<&'static str>,
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) strike: bool,
    pub(super) underline: bool,
    pub(super) boxed: bool,
    pub(super) in_link: bool,
    pub(super) color: Option<Rgb>,
    pub(super) background: Option<Rgb>,
    pub(super) vertical: Option<&'static str>,
    pub(super) half_points: Option<usize>,
}

impl RunLook {
    /// The look a box gives to the text in it.
    pub(super) fn of(style: &Style) -> Self {
        Self {
            bold: style.bold == Some(true),
            italic: style.italic == Some(true),
            color: style.color,
            ..Self::default()
        }
    }

    /// This look changed by a span.
    pub(super) fn with(self, style: &Style) -> Self {
        Self {
            bold: style.bold.unwrap_or(self.bold),
            italic: style.italic.unwrap_or(self.italic),
            color: style.color.or(self.color),
            background: style.background.or(self.background),
            ..self
        }
    }

    /// In the order the schema wants them.
    fn xml(&self) -> String {
        let mut xml = String::new();
        if let Some(style) = self.style {
            let _ = write!(xml, "<w:rStyle w:val=\"{style}\"/>");
            if style == "CodeChar" {
                // LibreOffice forgets the style's font within tables.
                xml.push_str("<w:rFonts w:ascii=\"Consolas\" w:hAnsi=\"Consolas\" w:cs=\"Consolas\"/>");
            }
        }
        for (on, tag) in [
            (self.bold, "<w:b/><w:bCs/>"),
            (self.italic, "<w:i/><w:iCs/>"),
            (self.strike, "<w:strike/>"),
        ] {
            xml.push_str(if on { tag } else { "" });
        }
        if let Some(color) = self.color.or(self.boxed.then_some(Rgb(0x8a, 0x45, 0))) {
            let _ = write!(xml, "<w:color w:val=\"{}\"/>", color.hex());
        }
        if let Some(size) = self.half_points {
            let _ = write!(xml, "<w:sz w:val=\"{size}\"/><w:szCs w:val=\"{size}\"/>");
        }
        if self.underline {
            xml.push_str("<w:u w:val=\"single\"/>");
        }
        if self.boxed {
            xml.push_str("<w:bdr w:val=\"dashed\" w:sz=\"6\" w:space=\"2\" w:color=\"B35900\"/>");
        }
        if let Some(fill) = self.background {
            let _ = write!(
                xml,
                "<w:shd w:val=\"clear\" w:color=\"auto\" w:fill=\"{}\"/>",
                fill.hex()
            );
        }
        if let Some(vertical) = self.vertical {
            let _ = write!(xml, "<w:vertAlign w:val=\"{vertical}\"/>");
        }
        if xml.is_empty() {
            xml
        } else {
            format!("<w:rPr>{xml}</w:rPr>")
        }
    }
}

/// Writes `text` as a run; tabs become tabs.
pub(super) fn text(out: &mut String, text: &str, look: &RunLook) {
    if text.is_empty() {
        return;
    }
    let _ = write!(out, "<w:r>{}", look.xml());
    for (index, piece) in text.split('\t').enumerate() {
        if index > 0 {
            out.push_str("<w:tab/>");
        }
        if !piece.is_empty() {
            let _ = write!(out, "<w:t xml:space=\"preserve\">{}</w:t>", escape(piece));
        }
    }
    out.push_str("</w:r>");
}
