//! The fixed parts of a DOCX: styles, numbering, settings.
//!
//! Written by hand so that Word and LibreOffice find what they expect: a default paragraph style, headings
//! that feed the navigation pane, a table style, footnote styles.

use std::fmt::Write as _;

use crate::doc::AlertKind;
use crate::ooxml::XML_HEAD;

/// The namespaces of every WordprocessingML part.
pub(super) const NAMESPACES: &str = "xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\" \
     xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\" \
     xmlns:wp=\"http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing\" \
     xmlns:a=\"http://schemas.openxmlformats.org/drawingml/2006/main\" \
     xmlns:pic=\"http://schemas.openxmlformats.org/drawingml/2006/picture\"";

/// How far a quote is indented, in twentieths of a point; its style says the same.
pub(super) const QUOTE_INDENT: usize = 300;

/// Space between the border of code and its surroundings; its style says the same.
pub(super) const CODE_INSET: usize = 113;

/// The indentation of one list level in twentieths of a point.
pub(super) const LIST_INDENT: usize = 360;

/// The abstract numbering of bullets and the number that uses it.
pub(super) const BULLETS: usize = 1;

const HEADING_HALF_POINTS: [usize; 6] = [36, 29, 25, 22, 21, 20];

/// Everything behind the headings, up to the end of the part.
const NAMED_STYLES: &str = "<w:style w:type=\"paragraph\" w:styleId=\"Title\"><w:name w:val=\"Title\"/><w:basedOn w:val=\"Normal\"/>\
     <w:next w:val=\"Normal\"/><w:qFormat/><w:pPr><w:pBdr><w:bottom w:val=\"single\" w:sz=\"10\" w:space=\"6\" \
     w:color=\"0B5CAD\"/></w:pBdr><w:spacing w:after=\"280\" w:line=\"240\" w:lineRule=\"auto\"/></w:pPr><w:rPr>\
     <w:b/><w:bCs/><w:sz w:val=\"46\"/><w:szCs w:val=\"46\"/></w:rPr></w:style>\
     <w:style w:type=\"paragraph\" w:styleId=\"Quote\"><w:name w:val=\"Quote\"/><w:basedOn w:val=\"Normal\"/>\
     <w:qFormat/><w:pPr><w:pBdr><w:left w:val=\"single\" w:sz=\"20\" w:space=\"10\" w:color=\"B8C4D2\"/></w:pBdr>\
     <w:ind w:left=\"300\"/></w:pPr><w:rPr><w:color w:val=\"5C6470\"/></w:rPr></w:style>\
     <w:style w:type=\"paragraph\" w:styleId=\"ListParagraph\"><w:name w:val=\"List Paragraph\"/>\
     <w:basedOn w:val=\"Normal\"/><w:qFormat/><w:pPr><w:spacing w:after=\"60\"/></w:pPr></w:style>\
     <w:style w:type=\"paragraph\" w:styleId=\"Code\"><w:name w:val=\"Code\"/><w:basedOn w:val=\"Normal\"/>\
     <w:qFormat/><w:pPr><w:pBdr><w:top w:val=\"single\" w:sz=\"4\" w:space=\"5\" w:color=\"D5DAE1\"/>\
     <w:left w:val=\"single\" w:sz=\"4\" w:space=\"5\" w:color=\"D5DAE1\"/><w:bottom w:val=\"single\" w:sz=\"4\" \
     w:space=\"5\" w:color=\"D5DAE1\"/><w:right w:val=\"single\" w:sz=\"4\" w:space=\"5\" w:color=\"D5DAE1\"/>\
     </w:pBdr><w:shd w:val=\"clear\" w:color=\"auto\" w:fill=\"F5F7F9\"/><w:spacing w:before=\"160\" \
     w:after=\"200\" w:line=\"240\" w:lineRule=\"auto\"/><w:ind w:left=\"113\" w:right=\"113\"/></w:pPr><w:rPr>\
     <w:rFonts w:ascii=\"Consolas\" w:hAnsi=\"Consolas\" w:cs=\"Consolas\"/><w:sz w:val=\"17\"/>\
     <w:szCs w:val=\"17\"/></w:rPr></w:style>\
     <w:style w:type=\"character\" w:styleId=\"CodeChar\"><w:name w:val=\"Code Char\"/><w:qFormat/><w:rPr>\
     <w:rFonts w:ascii=\"Consolas\" w:hAnsi=\"Consolas\" w:cs=\"Consolas\"/><w:sz w:val=\"18\"/>\
     <w:szCs w:val=\"18\"/><w:shd w:val=\"clear\" w:color=\"auto\" w:fill=\"EEF1F4\"/></w:rPr></w:style>\
     <w:style w:type=\"character\" w:styleId=\"Hyperlink\"><w:name w:val=\"Hyperlink\"/>\
     <w:uiPriority w:val=\"99\"/><w:rPr><w:color w:val=\"0B5CAD\"/><w:u w:val=\"single\"/></w:rPr></w:style>\
     <w:style w:type=\"paragraph\" w:styleId=\"Caption\"><w:name w:val=\"caption\"/><w:basedOn w:val=\"Normal\"/>\
     <w:qFormat/><w:pPr><w:jc w:val=\"center\"/></w:pPr><w:rPr><w:color w:val=\"5C6470\"/><w:sz w:val=\"18\"/>\
     <w:szCs w:val=\"18\"/></w:rPr></w:style>\
     <w:style w:type=\"paragraph\" w:styleId=\"TableText\"><w:name w:val=\"Table Text\"/>\
     <w:basedOn w:val=\"Normal\"/><w:pPr><w:spacing w:before=\"40\" w:after=\"40\" w:line=\"240\" \
     w:lineRule=\"auto\"/></w:pPr></w:style>\
     <w:style w:type=\"paragraph\" w:styleId=\"FootnoteText\"><w:name w:val=\"footnote text\"/>\
     <w:basedOn w:val=\"Normal\"/><w:pPr><w:spacing w:after=\"0\" w:line=\"240\" w:lineRule=\"auto\"/></w:pPr>\
     <w:rPr><w:sz w:val=\"18\"/><w:szCs w:val=\"18\"/></w:rPr></w:style>\
     <w:style w:type=\"character\" w:styleId=\"FootnoteReference\"><w:name w:val=\"footnote reference\"/><w:rPr>\
     <w:vertAlign w:val=\"superscript\"/></w:rPr></w:style>\
     <w:style w:type=\"paragraph\" w:styleId=\"Footer\"><w:name w:val=\"footer\"/><w:basedOn w:val=\"Normal\"/>\
     <w:pPr><w:jc w:val=\"right\"/></w:pPr><w:rPr><w:color w:val=\"5C6470\"/><w:sz w:val=\"16\"/>\
     <w:szCs w:val=\"16\"/></w:rPr></w:style>\
     <w:style w:type=\"table\" w:styleId=\"ReportTable\"><w:name w:val=\"Report Table\"/>\
     <w:basedOn w:val=\"TableNormal\"/><w:tblPr><w:tblStyleRowBandSize w:val=\"1\"/><w:tblBorders>\
     <w:top w:val=\"single\" w:sz=\"8\" w:space=\"0\" w:color=\"9AA5B1\"/>\
     <w:bottom w:val=\"single\" w:sz=\"4\" w:space=\"0\" w:color=\"9AA5B1\"/>\
     <w:insideH w:val=\"single\" w:sz=\"4\" w:space=\"0\" w:color=\"D5DAE1\"/></w:tblBorders></w:tblPr>\
     <w:tblStylePr w:type=\"firstRow\"><w:rPr><w:b/><w:bCs/></w:rPr><w:tcPr><w:shd w:val=\"clear\" \
     w:color=\"auto\" w:fill=\"E9EEF4\"/></w:tcPr></w:tblStylePr></w:style></w:styles>";

/// The paragraph style of an alert.
pub(super) fn alert_style(kind: AlertKind) -> &'static str {
    match kind {
        AlertKind::Note => "AlertNote",
        AlertKind::Tip => "AlertTip",
        AlertKind::Important => "AlertImportant",
        AlertKind::Warning => "AlertWarning",
        AlertKind::Caution => "AlertCaution",
    }
}

/// A bar and a ground in the colours of each kind. Neighbours of one style touch (`contextualSpacing`), so the bar is one.
fn alert_styles() -> String {
    let style = |kind: AlertKind| {
        format!(
            "<w:style w:type=\"paragraph\" w:styleId=\"{id}\"><w:name w:val=\"Alert {label}\"/>\
             <w:basedOn w:val=\"Normal\"/><w:qFormat/><w:pPr><w:pBdr><w:left w:val=\"single\" w:sz=\"20\" \
             w:space=\"10\" w:color=\"{color}\"/></w:pBdr><w:shd w:val=\"clear\" w:color=\"auto\" w:fill=\"{tint}\"/>\
             <w:spacing w:before=\"160\" w:after=\"200\" w:line=\"300\" w:lineRule=\"auto\"/><w:ind w:left=\"{QUOTE_INDENT}\"/>\
             <w:contextualSpacing/></w:pPr></w:style>",
            id = alert_style(kind),
            label = kind.label(),
            color = kind.color().hex().to_uppercase(),
            tint = kind.tint().hex().to_uppercase(),
        )
    };
    AlertKind::ALL.into_iter().map(style).collect()
}

/// `word/styles.xml` of a text in this language.
pub(super) fn styles(language: &str) -> String {
    // By which rules lines are broken and words are checked, for scripts that Word files under two headings.
    let other_scripts = match language {
        "zh" => " w:eastAsia=\"zh-CN\"",
        "ja" => " w:eastAsia=\"ja-JP\"",
        "ko" => " w:eastAsia=\"ko-KR\"",
        "ar" => " w:bidi=\"ar-SA\"",
        "he" => " w:bidi=\"he-IL\"",
        "th" => " w:bidi=\"th-TH\"",
        _ => "",
    };
    let mut xml = format!(
        "{XML_HEAD}<w:styles {NAMESPACES}><w:docDefaults><w:rPrDefault><w:rPr>\
         <w:rFonts w:ascii=\"Calibri\" w:hAnsi=\"Calibri\" w:eastAsia=\"Calibri\" w:cs=\"Calibri\"/>\
         <w:color w:val=\"1F2430\"/><w:sz w:val=\"21\"/><w:szCs w:val=\"21\"/><w:lang w:val=\"en-US\"{other_scripts}/></w:rPr>\
         </w:rPrDefault><w:pPrDefault><w:pPr><w:spacing w:after=\"140\" w:line=\"276\" w:lineRule=\"auto\"/></w:pPr>\
         </w:pPrDefault></w:docDefaults>\
         <w:style w:type=\"paragraph\" w:default=\"1\" w:styleId=\"Normal\"><w:name w:val=\"Normal\"/><w:qFormat/>\
         </w:style>\
         <w:style w:type=\"character\" w:default=\"1\" w:styleId=\"DefaultParagraphFont\">\
         <w:name w:val=\"Default Paragraph Font\"/><w:uiPriority w:val=\"1\"/><w:semiHidden/></w:style>\
         <w:style w:type=\"table\" w:default=\"1\" w:styleId=\"TableNormal\"><w:name w:val=\"Normal Table\"/>\
         <w:uiPriority w:val=\"99\"/><w:semiHidden/><w:tblPr><w:tblInd w:w=\"0\" w:type=\"dxa\"/><w:tblCellMar>\
         <w:top w:w=\"0\" w:type=\"dxa\"/><w:left w:w=\"108\" w:type=\"dxa\"/><w:bottom w:w=\"0\" w:type=\"dxa\"/>\
         <w:right w:w=\"108\" w:type=\"dxa\"/></w:tblCellMar></w:tblPr></w:style>\
         <w:style w:type=\"numbering\" w:default=\"1\" w:styleId=\"NoList\"><w:name w:val=\"No List\"/>\
         <w:semiHidden/></w:style>"
    );
    for (index, size) in HEADING_HALF_POINTS.into_iter().enumerate() {
        let (level, before) = (index + 1, 360 - 30 * index);
        let _ = write!(
            xml,
            "<w:style w:type=\"paragraph\" w:styleId=\"Heading{level}\"><w:name w:val=\"heading {level}\"/>\
             <w:basedOn w:val=\"Normal\"/><w:next w:val=\"Normal\"/><w:uiPriority w:val=\"9\"/><w:qFormat/><w:pPr>\
             <w:keepNext/><w:keepLines/><w:spacing w:before=\"{before}\" w:after=\"120\" w:line=\"240\" \
             w:lineRule=\"auto\"/><w:outlineLvl w:val=\"{index}\"/></w:pPr><w:rPr><w:b/><w:bCs/>\
             <w:sz w:val=\"{size}\"/><w:szCs w:val=\"{size}\"/></w:rPr></w:style>"
        );
    }
    xml + &alert_styles() + NAMED_STYLES
}

/// A list with numbers: its level and its first number.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberedList {
    pub(super) level: usize,
    pub(super) start: u64,
}

/// `word/numbering.xml`; list `n` of `lists` has the number `n + 2`.
pub(super) fn numbering(lists: &[NumberedList]) -> String {
    let mut xml = format!("{XML_HEAD}<w:numbering {NAMESPACES}>");
    for (id, ordered) in [(0, false), (1, true)] {
        let _ = write!(
            xml,
            "<w:abstractNum w:abstractNumId=\"{id}\"><w:multiLevelType w:val=\"hybridMultilevel\"/>"
        );
        for level in 0..9 {
            let (format, text) = match (ordered, level % 3) {
                (false, 0) => ("bullet", "•".to_owned()),
                (false, 1) => ("bullet", "–".to_owned()),
                (false, _) => ("bullet", "◦".to_owned()),
                (true, 0) => ("decimal", format!("%{}.", level + 1)),
                (true, 1) => ("lowerLetter", format!("%{}.", level + 1)),
                (true, _) => ("lowerRoman", format!("%{}.", level + 1)),
            };
            let left = LIST_INDENT * (level + 1);
            let _ = write!(
                xml,
                "<w:lvl w:ilvl=\"{level}\"><w:start w:val=\"1\"/><w:numFmt w:val=\"{format}\"/>\
                 <w:lvlText w:val=\"{text}\"/><w:lvlJc w:val=\"left\"/><w:pPr><w:ind w:left=\"{left}\" \
                 w:hanging=\"{LIST_INDENT}\"/></w:pPr></w:lvl>"
            );
        }
        xml.push_str("</w:abstractNum>");
    }
    let _ = write!(
        xml,
        "<w:num w:numId=\"{BULLETS}\"><w:abstractNumId w:val=\"0\"/></w:num>"
    );
    for (index, list) in lists.iter().enumerate() {
        let _ = write!(
            xml,
            "<w:num w:numId=\"{}\"><w:abstractNumId w:val=\"1\"/><w:lvlOverride w:ilvl=\"{}\">\
             <w:startOverride w:val=\"{}\"/></w:lvlOverride></w:num>",
            index + 2,
            list.level,
            list.start.min(32_767)
        );
    }
    xml.push_str("</w:numbering>");
    xml
}

/// `word/settings.xml`.
pub(super) fn settings() -> String {
    format!(
        "{XML_HEAD}<w:settings {NAMESPACES}><w:defaultTabStop w:val=\"720\"/><w:footnotePr>\
         <w:footnote w:id=\"-1\"/><w:footnote w:id=\"0\"/></w:footnotePr><w:compat><w:compatSetting \
         w:name=\"compatibilityMode\" w:uri=\"http://schemas.microsoft.com/office/word\" w:val=\"15\"/></w:compat>\
         </w:settings>"
    )
}

/// `word/footer1.xml`: page and pages.
pub(super) fn footer() -> String {
    format!(
        "{XML_HEAD}<w:ftr {NAMESPACES}><w:p><w:pPr><w:pStyle w:val=\"Footer\"/></w:pPr>\
         <w:fldSimple w:instr=\" PAGE \"><w:r><w:t>1</w:t></w:r></w:fldSimple>\
         <w:r><w:t xml:space=\"preserve\"> / </w:t></w:r>\
         <w:fldSimple w:instr=\" NUMPAGES \"><w:r><w:t>1</w:t></w:r></w:fldSimple></w:p></w:ftr>"
    )
}

/// `word/footnotes.xml` around the notes.
pub(super) fn footnotes(notes: &str) -> String {
    format!(
        "{XML_HEAD}<w:footnotes {NAMESPACES}><w:footnote w:type=\"separator\" w:id=\"-1\"><w:p><w:r><w:separator/>\
         </w:r></w:p></w:footnote><w:footnote w:type=\"continuationSeparator\" w:id=\"0\"><w:p><w:r>\
         <w:continuationSeparator/></w:r></w:p></w:footnote>{notes}</w:footnotes>"
    )
}
