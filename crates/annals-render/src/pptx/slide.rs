//! One slide as XML.

use std::fmt::Write as _;

use crate::doc::{Align, Inline, Rgb, is_clickable};
use crate::ooxml::{Relations, XML_HEAD, escape};

use super::deck::{
    Background, Bullet, Frame, HEIGHT_PT, Line, LineLook, RowKind, Shape, Slide, TableCell, TableRow,
    WIDTH_PT,
};
use super::parts::NAMESPACES;

/// English Metric Units per point.
const EMU_PER_PT: f64 = 12_700.0;

const INK: &str = "1F2430";
const QUIET: &str = "5C6470";

/// The slide and its relations; `layout` and `picture` name the parts they point to.
pub(super) fn write(slide: &Slide, picture: &dyn Fn(usize) -> String) -> (String, Relations) {
    let mut relations = Relations::default();
    let layout = if slide.opening.is_some() { 1 } else { 2 };
    relations.part("slideLayout", &format!("../slideLayouts/slideLayout{layout}.xml"));
    let mut writer = Writer {
        out: String::new(),
        relations,
        next_id: 2,
        picture,
    };
    writer.title(slide);
    let mut body_taken = false;
    for shape in &slide.shapes {
        match shape {
            Shape::Text {
                frame,
                paragraphs,
                background,
            } => {
                let role = match *background == Background::None && !body_taken {
                    true => Role::Body,
                    false => Role::Free,
                };
                body_taken |= role == Role::Body;
                writer.text_shape(*frame, paragraphs, *background, role);
            }
            Shape::Table {
                frame,
                widths,
                rows,
                size_pt,
            } => writer.table(*frame, widths, rows, *size_pt),
            Shape::Picture { frame, index, alt } => writer.picture_shape(*frame, *index, alt),
        }
    }
    writer.slide_number();
    let xml = format!(
        "{XML_HEAD}<p:sld {NAMESPACES}><p:cSld><p:spTree><p:nvGrpSpPr><p:cNvPr id=\"1\" name=\"\"/><p:cNvGrpSpPr/>\
         <p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>{}</p:spTree></p:cSld><p:clrMapOvr><a:masterClrMapping/></p:clrMapOvr>\
         </p:sld>",
        writer.out
    );
    (xml, writer.relations)
}

/// What a text is to the slide's layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The text the outline shows.
    Body,
    /// A box of its own.
    Free,
}

struct Writer<'a> {
    out: String,
    relations: Relations,
    next_id: usize,
    picture: &'a dyn Fn(usize) -> String,
}

/// The look of a run.
#[derive(Clone, Copy)]
struct Look<'a> {
    size_pt: f64,
    bold: bool,
    italic: bool,
    underline: bool,
    strike: bool,
    baseline: i32,
    code: bool,
    color: Option<Rgb>,
    quiet: bool,
    link: Option<&'a str>,
}

impl Look<'_> {
    fn plain(size_pt: f64) -> Self {
        Self {
            size_pt,
            bold: false,
            italic: false,
            underline: false,
            strike: false,
            baseline: 0,
            code: false,
            color: None,
            quiet: false,
            link: None,
        }
    }
}

fn emu(points: f64) -> i64 {
    (points * EMU_PER_PT).round() as i64
}

fn transform(frame: Frame, prefix: &str) -> String {
    format!(
        "<{prefix}:xfrm><a:off x=\"{}\" y=\"{}\"/><a:ext cx=\"{}\" cy=\"{}\"/></{prefix}:xfrm>",
        emu(frame.x),
        emu(frame.y),
        emu(frame.width),
        emu(frame.height)
    )
}

impl Writer<'_> {
    fn id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id - 1
    }

    fn title(&mut self, slide: &Slide) {
        let id = self.id();
        let chars = crate::doc::plain_text(&slide.title).chars().count();
        let (kind, frame, size_pt) = match &slide.opening {
            Some(_) => {
                let size = if chars > 60 { 34.0 } else { 42.0 };
                (
                    "ctrTitle",
                    Frame {
                        x: 84.0,
                        y: 150.0,
                        width: WIDTH_PT - 168.0,
                        height: 130.0,
                    },
                    size,
                )
            }
            None => {
                let size = if chars > 80 {
                    20.0
                } else if chars > 48 {
                    24.0
                } else {
                    30.0
                };
                (
                    "title",
                    Frame {
                        x: 48.0,
                        y: 30.0,
                        width: WIDTH_PT - 96.0,
                        height: 60.0,
                    },
                    size,
                )
            }
        };
        let _ = write!(
            self.out,
            "<p:sp><p:nvSpPr><p:cNvPr id=\"{id}\" name=\"Title {id}\"/><p:cNvSpPr><a:spLocks noGrp=\"1\"/></p:cNvSpPr>\
             <p:nvPr><p:ph type=\"{kind}\"/></p:nvPr></p:nvSpPr><p:spPr>{}</p:spPr><p:txBody><a:bodyPr><a:normAutofit/>\
             </a:bodyPr><a:lstStyle/><a:p>",
            transform(frame, "a")
        );
        self.inlines(
            &slide.title,
            Look {
                bold: true,
                ..Look::plain(size_pt)
            },
        );
        self.out.push_str("</a:p></p:txBody></p:sp>");
        if let Some(lines) = slide.opening.as_ref().filter(|lines| !lines.is_empty()) {
            self.subtitle(lines);
        }
    }

    fn subtitle(&mut self, lines: &[Vec<Inline>]) {
        let id = self.id();
        let frame = Frame {
            x: 84.0,
            y: 292.0,
            width: WIDTH_PT - 168.0,
            height: 140.0,
        };
        let _ = write!(
            self.out,
            "<p:sp><p:nvSpPr><p:cNvPr id=\"{id}\" name=\"Subtitle {id}\"/><p:cNvSpPr><a:spLocks noGrp=\"1\"/>\
             </p:cNvSpPr><p:nvPr><p:ph type=\"subTitle\" idx=\"1\"/></p:nvPr></p:nvSpPr><p:spPr>{}</p:spPr><p:txBody>\
             <a:bodyPr><a:normAutofit/></a:bodyPr><a:lstStyle/>",
            transform(frame, "a")
        );
        for line in lines {
            self.out.push_str("<a:p>");
            self.inlines(
                line,
                Look {
                    quiet: true,
                    ..Look::plain(20.0)
                },
            );
            self.out.push_str("</a:p>");
        }
        self.out.push_str("</p:txBody></p:sp>");
    }

    fn text_shape(&mut self, frame: Frame, lines: &[Line], background: Background, role: Role) {
        let id = self.id();
        let (kind, holder) = match role {
            Role::Body => (
                "<p:cNvSpPr><a:spLocks noGrp=\"1\"/></p:cNvSpPr>",
                "<p:ph type=\"body\" idx=\"1\"/>",
            ),
            Role::Free => ("<p:cNvSpPr txBox=\"1\"/>", ""),
        };
        let (fill, inset) = match background {
            Background::Shaded => (
                "<a:solidFill><a:srgbClr val=\"F5F7F9\"/></a:solidFill><a:ln w=\"6350\"><a:solidFill>\
                 <a:srgbClr val=\"D5DAE1\"/></a:solidFill></a:ln>",
                emu(8.0),
            ),
            Background::None => ("<a:noFill/>", 0),
        };
        let _ = write!(
            self.out,
            "<p:sp><p:nvSpPr><p:cNvPr id=\"{id}\" name=\"Text {id}\"/>{kind}<p:nvPr>{holder}</p:nvPr></p:nvSpPr><p:spPr>\
             {}<a:prstGeom prst=\"rect\"><a:avLst/></a:prstGeom>{fill}</p:spPr><p:txBody><a:bodyPr wrap=\"square\" \
             lIns=\"{inset}\" tIns=\"{inset}\" rIns=\"{inset}\" bIns=\"{inset}\" anchor=\"t\"><a:normAutofit/></a:bodyPr>\
             <a:lstStyle/>",
            transform(frame, "a")
        );
        for line in lines {
            self.line(line);
        }
        self.out.push_str("</p:txBody></p:sp>");
    }

    fn line(&mut self, line: &Line) {
        let indent = emu(22.0);
        let left = indent * (line.level as i64 + i64::from(line.bullet != Bullet::None));
        let (hanging, bullet) = match &line.bullet {
            Bullet::None => (0, "<a:buNone/>".to_owned()),
            Bullet::Dot => (
                -indent,
                "<a:buFont typeface=\"Arial\"/><a:buChar char=\"•\"/>".to_owned(),
            ),
            Bullet::Number(number) => (
                -indent,
                format!(
                    "<a:buFont typeface=\"+mj-lt\"/><a:buAutoNum type=\"arabicPeriod\" startAt=\"{}\"/>",
                    number.clamp(&1, &32_767)
                ),
            ),
        };
        // Numbers are counted by level: without it an inner list would go on with the outer one's.
        let level = line.level.min(8);
        let align = match line.look {
            LineLook::Caption => " algn=\"ctr\"",
            _ => "",
        };
        let after = if line.look == LineLook::Code {
            0.0
        } else {
            line.size_pt * 40.0
        };
        let _ = write!(
            self.out,
            "<a:p><a:pPr marL=\"{left}\" lvl=\"{level}\" indent=\"{hanging}\"{align}><a:lnSpc><a:spcPct val=\"100000\"/></a:lnSpc><a:spcBef>\
             <a:spcPts val=\"0\"/></a:spcBef><a:spcAft><a:spcPts val=\"{after:.0}\"/></a:spcAft>{bullet}</a:pPr>"
        );
        let look = Look {
            bold: line.look == LineLook::Strong,
            quiet: matches!(line.look, LineLook::Quiet | LineLook::Caption),
            code: line.look == LineLook::Code,
            ..Look::plain(line.size_pt)
        };
        self.inlines(&line.inlines, look);
        let _ = write!(
            self.out,
            "<a:endParaRPr lang=\"en-US\" sz=\"{:.0}\"/></a:p>",
            line.size_pt * 100.0
        );
    }

    fn table(&mut self, frame: Frame, widths: &[f64], rows: &[TableRow], size_pt: f64) {
        let id = self.id();
        let _ = write!(
            self.out,
            "<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id=\"{id}\" name=\"Table {id}\"/><p:cNvGraphicFramePr>\
             <a:graphicFrameLocks noGrp=\"1\"/></p:cNvGraphicFramePr><p:nvPr/></p:nvGraphicFramePr>{}<a:graphic>\
             <a:graphicData uri=\"http://schemas.openxmlformats.org/drawingml/2006/table\"><a:tbl><a:tblPr \
             firstRow=\"1\"/><a:tblGrid>",
            transform(frame, "p")
        );
        for width in widths {
            let _ = write!(self.out, "<a:gridCol w=\"{}\"/>", emu(*width));
        }
        self.out.push_str("</a:tblGrid>");
        for (index, row) in rows.iter().enumerate() {
            let _ = write!(self.out, "<a:tr h=\"{}\">", emu(row.height));
            for cell in &row.cells {
                self.cell(cell, row.kind, index, size_pt);
            }
            self.out.push_str("</a:tr>");
        }
        self.out
            .push_str("</a:tbl></a:graphicData></a:graphic></p:graphicFrame>");
    }

    fn cell(&mut self, cell: &TableCell, kind: RowKind, row: usize, size_pt: f64) {
        let head = kind == RowKind::Head;
        let mut attributes = String::new();
        if cell.colspan > 1 {
            let _ = write!(attributes, " gridSpan=\"{}\"", cell.colspan);
        }
        if cell.rowspan > 1 {
            let _ = write!(attributes, " rowSpan=\"{}\"", cell.rowspan);
        }
        attributes.push_str(if cell.h_merged { " hMerge=\"1\"" } else { "" });
        attributes.push_str(if cell.v_merged { " vMerge=\"1\"" } else { "" });
        let align = match cell.align {
            Align::Center => " algn=\"ctr\"",
            Align::Right => " algn=\"r\"",
            Align::Auto | Align::Left => "",
        };
        let _ = write!(
            self.out,
            "<a:tc{attributes}><a:txBody><a:bodyPr/><a:lstStyle/><a:p><a:pPr{align}/>"
        );
        self.inlines(
            &cell.inlines,
            Look {
                bold: cell.bold,
                ..Look::plain(size_pt)
            },
        );
        let fill = match (head, row % 2) {
            (true, _) => "E9EEF4",
            (false, 0) => "F8F9FB",
            _ => "FFFFFF",
        };
        let side = |name: &str, color: &str| {
            format!("<a:{name} w=\"6350\"><a:solidFill><a:srgbClr val=\"{color}\"/></a:solidFill></a:{name}>")
        };
        let _ = write!(
            self.out,
            "<a:endParaRPr lang=\"en-US\" sz=\"{:.0}\"/></a:p></a:txBody><a:tcPr marL=\"{margin}\" marR=\"{margin}\" \
             marT=\"45720\" marB=\"45720\"><a:lnL w=\"0\"><a:noFill/></a:lnL><a:lnR w=\"0\"><a:noFill/></a:lnR>{}{}<a:solidFill><a:srgbClr val=\"{fill}\"/></a:solidFill></a:tcPr></a:tc>",
            size_pt * 100.0,
            side("lnT", if head { "9AA5B1" } else { "D5DAE1" }),
            side("lnB", if head { "9AA5B1" } else { "D5DAE1" }),
            margin = emu(6.0)
        );
    }

    fn picture_shape(&mut self, frame: Frame, index: usize, alt: &str) {
        let id = self.id();
        let target = (self.picture)(index);
        let relation = self.relations.part("image", &target);
        let _ = write!(
            self.out,
            "<p:pic><p:nvPicPr><p:cNvPr id=\"{id}\" name=\"Picture {id}\" descr=\"{}\"/><p:cNvPicPr><a:picLocks \
             noChangeAspect=\"1\"/></p:cNvPicPr><p:nvPr/></p:nvPicPr><p:blipFill><a:blip r:embed=\"{relation}\"/>\
             <a:stretch><a:fillRect/></a:stretch></p:blipFill><p:spPr>{}<a:prstGeom prst=\"rect\"><a:avLst/>\
             </a:prstGeom></p:spPr></p:pic>",
            escape(alt),
            transform(frame, "a")
        );
    }

    fn slide_number(&mut self) {
        let id = self.id();
        let frame = Frame {
            x: WIDTH_PT - 108.0,
            y: HEIGHT_PT - 30.0,
            width: 60.0,
            height: 20.0,
        };
        let _ = write!(
            self.out,
            "<p:sp><p:nvSpPr><p:cNvPr id=\"{id}\" name=\"Slide Number {id}\"/><p:cNvSpPr><a:spLocks noGrp=\"1\"/>\
             </p:cNvSpPr><p:nvPr><p:ph type=\"sldNum\" sz=\"quarter\" idx=\"12\"/></p:nvPr></p:nvSpPr><p:spPr>{}</p:spPr>\
             <p:txBody><a:bodyPr/><a:lstStyle/><a:p><a:pPr algn=\"r\"/><a:fld id=\"{{B6F15528-21DE-4FAA-801E-634DDDAF4B2B}}\" \
             type=\"slidenum\"><a:rPr lang=\"en-US\" sz=\"1000\"/><a:t>‹#›</a:t></a:fld></a:p></p:txBody></p:sp>",
            transform(frame, "a")
        );
    }

    fn inlines(&mut self, inlines: &[Inline], look: Look<'_>) {
        for inline in inlines {
            self.inline(inline, look);
        }
    }

    fn inline(&mut self, inline: &Inline, look: Look<'_>) {
        let raised = Look {
            baseline: 30_000,
            ..look
        };
        match inline {
            Inline::Text(text) => self.run(text, look),
            Inline::Strong(inner) => self.inlines(inner, Look { bold: true, ..look }),
            Inline::Em(inner) => self.inlines(inner, Look { italic: true, ..look }),
            Inline::Strike(inner) => self.inlines(inner, Look { strike: true, ..look }),
            Inline::Underline(inner) => self.inlines(
                inner,
                Look {
                    underline: true,
                    ..look
                },
            ),
            Inline::Sub(inner) => self.inlines(
                inner,
                Look {
                    baseline: -25_000,
                    ..look
                },
            ),
            Inline::Sup(inner) => self.inlines(inner, raised),
            Inline::Math { tex, .. } if let Some(formula) = crate::math::parse(tex) => {
                self.inlines(&formula.inlines(), look);
            }
            Inline::Code(text) | Inline::Math { tex: text, .. } => {
                self.run(
                    text,
                    Look {
                        code: true,
                        size_pt: look.size_pt * 0.92,
                        ..look
                    },
                );
            }
            Inline::Link { url, inlines } if is_clickable(url) => {
                let id = self.relations.external("hyperlink", url);
                self.inlines(
                    inlines,
                    Look {
                        link: Some(&id),
                        ..look
                    },
                );
            }
            Inline::Link { inlines, .. } => self.inlines(inlines, look),
            Inline::Image(image) => self.run(&format!("[{}]", image.alt), look),
            Inline::Cite(sids) => {
                let marks: Vec<String> = sids.iter().map(u32::to_string).collect();
                self.run(&format!("[{}]", marks.join(", ")), raised);
            }
            Inline::LineBreak => self.out.push_str("<a:br/>"),
            Inline::FootnoteRef(index) => self.run(&(index + 1).to_string(), raised),
            Inline::Span { style, inlines } => {
                let look = Look {
                    bold: style.bold.unwrap_or(look.bold),
                    italic: style.italic.unwrap_or(look.italic),
                    color: style.color.or(look.color),
                    ..look
                };
                self.inlines(inlines, look);
            }
        }
    }

    fn run(&mut self, text: &str, look: Look<'_>) {
        if text.is_empty() {
            return;
        }
        let mut attributes = format!(" lang=\"en-US\" sz=\"{:.0}\"", look.size_pt * 100.0);
        for (on, name) in [
            (look.bold, " b=\"1\""),
            (look.italic, " i=\"1\""),
            (look.underline, " u=\"sng\""),
            (look.strike, " strike=\"sngStrike\""),
        ] {
            attributes.push_str(if on { name } else { "" });
        }
        if look.baseline != 0 {
            let _ = write!(attributes, " baseline=\"{}\"", look.baseline);
        }
        let color = match look.color {
            Some(color) => color.hex(),
            None if look.quiet => QUIET.to_owned(),
            None => INK.to_owned(),
        };
        let font = if look.code {
            "<a:latin typeface=\"Consolas\"/><a:cs typeface=\"Consolas\"/>"
        } else {
            ""
        };
        let link = look
            .link
            .map(|id| format!("<a:hlinkClick r:id=\"{id}\"/>"))
            .unwrap_or_default();
        let _ = write!(
            self.out,
            "<a:r><a:rPr{attributes} dirty=\"0\"><a:solidFill><a:srgbClr val=\"{color}\"/></a:solidFill>{font}{link}\
             </a:rPr><a:t>{}</a:t></a:r>",
            escape(text)
        );
    }
}
