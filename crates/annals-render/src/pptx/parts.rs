//! The fixed parts of a PPTX: theme, master, layouts, notes.

use crate::ooxml::{XML_HEAD, escape};

/// The namespaces of every PresentationML part.
pub(super) const NAMESPACES: &str = "xmlns:a=\"http://schemas.openxmlformats.org/drawingml/2006/main\" \
     xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\" \
     xmlns:p=\"http://schemas.openxmlformats.org/presentationml/2006/main\"";

const EMPTY_TREE: &str =
    "<p:nvGrpSpPr><p:cNvPr id=\"1\" name=\"\"/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>";

const COLOR_MAP: &str = "bg1=\"lt1\" tx1=\"dk1\" bg2=\"lt2\" tx2=\"dk2\" accent1=\"accent1\" accent2=\"accent2\" \
     accent3=\"accent3\" accent4=\"accent4\" accent5=\"accent5\" accent6=\"accent6\" hlink=\"hlink\" \
     folHlink=\"folHlink\"";

/// A placeholder of a master or layout.
fn holder(id: usize, kind: &str, frame: [i64; 4], text: &str) -> String {
    let [x, y, width, height] = frame.map(|points| points * 12_700);
    format!(
        "<p:sp><p:nvSpPr><p:cNvPr id=\"{id}\" name=\"Placeholder {id}\"/><p:cNvSpPr><a:spLocks noGrp=\"1\"/></p:cNvSpPr>\
         <p:nvPr><p:ph {kind}/></p:nvPr></p:nvSpPr><p:spPr><a:xfrm><a:off x=\"{x}\" y=\"{y}\"/><a:ext cx=\"{width}\" \
         cy=\"{height}\"/></a:xfrm><a:prstGeom prst=\"rect\"><a:avLst/></a:prstGeom></p:spPr><p:txBody><a:bodyPr \
         lIns=\"0\" tIns=\"0\" rIns=\"0\" bIns=\"0\" anchor=\"{}\"><a:normAutofit/></a:bodyPr><a:lstStyle/><a:p><a:r>\
         <a:rPr lang=\"en-US\"/><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>",
        if kind.contains("itle") && !kind.contains("sub") {
            "b"
        } else {
            "t"
        }
    )
}

/// A thin line in the accent colour below a title.
fn title_line(id: usize, y_points: i64, x_points: i64, width_points: i64) -> String {
    format!(
        "<p:cxnSp><p:nvCxnSpPr><p:cNvPr id=\"{id}\" name=\"Line {id}\"/><p:cNvCxnSpPr/><p:nvPr userDrawn=\"1\"/>\
         </p:nvCxnSpPr><p:spPr><a:xfrm><a:off x=\"{}\" y=\"{}\"/><a:ext cx=\"{}\" cy=\"0\"/></a:xfrm><a:prstGeom \
         prst=\"line\"><a:avLst/></a:prstGeom><a:ln w=\"19050\"><a:solidFill><a:schemeClr val=\"accent1\"/></a:solidFill>\
         </a:ln></p:spPr></p:cxnSp>",
        x_points * 12_700,
        y_points * 12_700,
        width_points * 12_700
    )
}

/// `ppt/slideMasters/slideMaster1.xml`; relations 1 and 2 are its layouts.
pub(super) fn master() -> String {
    let levels: String = (1..=9)
        .map(|level| {
            format!(
                "<a:lvl{level}pPr marL=\"{}\" algn=\"l\" defTabSz=\"914400\"><a:buNone/><a:defRPr sz=\"1800\">\
                 <a:solidFill><a:schemeClr val=\"tx1\"/></a:solidFill><a:latin typeface=\"+mn-lt\"/><a:ea \
                 typeface=\"+mn-ea\"/><a:cs typeface=\"+mn-cs\"/></a:defRPr></a:lvl{level}pPr>",
                (level - 1) * 279_400
            )
        })
        .collect();
    format!(
        "{XML_HEAD}<p:sldMaster {NAMESPACES}><p:cSld><p:bg><p:bgPr><a:solidFill><a:schemeClr val=\"bg1\"/></a:solidFill>\
         <a:effectLst/></p:bgPr></p:bg><p:spTree>{EMPTY_TREE}{}{}{}</p:spTree></p:cSld><p:clrMap {COLOR_MAP}/>\
         <p:sldLayoutIdLst><p:sldLayoutId id=\"2147483649\" r:id=\"rId1\"/><p:sldLayoutId id=\"2147483650\" \
         r:id=\"rId2\"/></p:sldLayoutIdLst><p:txStyles><p:titleStyle><a:lvl1pPr algn=\"l\"><a:buNone/><a:defRPr \
         sz=\"3000\" b=\"1\"><a:solidFill><a:schemeClr val=\"tx1\"/></a:solidFill><a:latin typeface=\"+mj-lt\"/><a:ea \
         typeface=\"+mj-ea\"/><a:cs typeface=\"+mj-cs\"/></a:defRPr></a:lvl1pPr></p:titleStyle><p:bodyStyle>{levels}\
         </p:bodyStyle><p:otherStyle>{levels}</p:otherStyle></p:txStyles></p:sldMaster>",
        holder(2, "type=\"title\"", [48, 30, 864, 60], "Title"),
        holder(3, "type=\"body\" idx=\"1\"", [48, 106, 864, 398], "Text"),
        holder(
            4,
            "type=\"sldNum\" sz=\"quarter\" idx=\"4\"",
            [852, 510, 60, 20],
            "‹#›"
        ),
    )
}

/// `ppt/slideLayouts/slideLayout1.xml`: the opening.
pub(super) fn opening_layout() -> String {
    layout(
        "title",
        "Opening",
        &[
            holder(2, "type=\"ctrTitle\"", [84, 150, 792, 130], "Title"),
            holder(3, "type=\"subTitle\" idx=\"1\"", [84, 292, 792, 140], "Subtitle"),
            holder(
                4,
                "type=\"sldNum\" sz=\"quarter\" idx=\"12\"",
                [852, 510, 60, 20],
                "‹#›",
            ),
            title_line(5, 285, 84, 792),
        ],
    )
}

/// `ppt/slideLayouts/slideLayout2.xml`: title and text.
pub(super) fn content_layout() -> String {
    layout(
        "obj",
        "Title and text",
        &[
            holder(2, "type=\"title\"", [48, 30, 864, 60], "Title"),
            holder(3, "type=\"body\" idx=\"1\"", [48, 106, 864, 398], "Text"),
            holder(
                4,
                "type=\"sldNum\" sz=\"quarter\" idx=\"12\"",
                [852, 510, 60, 20],
                "‹#›",
            ),
            title_line(5, 95, 48, 864),
        ],
    )
}

fn layout(kind: &str, name: &str, shapes: &[String]) -> String {
    format!(
        "{XML_HEAD}<p:sldLayout {NAMESPACES} type=\"{kind}\" preserve=\"1\"><p:cSld name=\"{name}\"><p:spTree>{EMPTY_TREE}\
         {}</p:spTree></p:cSld><p:clrMapOvr><a:masterClrMapping/></p:clrMapOvr></p:sldLayout>",
        shapes.concat()
    )
}

/// `ppt/notesMasters/notesMaster1.xml`.
pub(super) fn notes_master() -> String {
    format!(
        "{XML_HEAD}<p:notesMaster {NAMESPACES}><p:cSld><p:bg><p:bgRef idx=\"1001\"><a:schemeClr val=\"bg1\"/></p:bgRef>\
         </p:bg><p:spTree>{EMPTY_TREE}<p:sp><p:nvSpPr><p:cNvPr id=\"2\" name=\"Slide Image\"/><p:cNvSpPr><a:spLocks \
         noGrp=\"1\" noRot=\"1\" noChangeAspect=\"1\"/></p:cNvSpPr><p:nvPr><p:ph type=\"sldImg\" idx=\"2\"/></p:nvPr>\
         </p:nvSpPr><p:spPr><a:xfrm><a:off x=\"685800\" y=\"1143000\"/><a:ext cx=\"5486400\" cy=\"3086100\"/></a:xfrm>\
         <a:prstGeom prst=\"rect\"><a:avLst/></a:prstGeom></p:spPr></p:sp>{}</p:spTree></p:cSld><p:clrMap {COLOR_MAP}/>\
         </p:notesMaster>",
        holder(
            3,
            "type=\"body\" sz=\"quarter\" idx=\"3\"",
            [54, 346, 432, 284],
            "Notes"
        ),
    )
}

/// The notes of one slide.
pub(super) fn notes(text: &str) -> String {
    let paragraphs: String = text
        .split('\n')
        .map(|line| {
            format!(
                "<a:p><a:r><a:rPr lang=\"en-US\"/><a:t>{}</a:t></a:r></a:p>",
                escape(line)
            )
        })
        .collect();
    format!(
        "{XML_HEAD}<p:notes {NAMESPACES}><p:cSld><p:spTree>{EMPTY_TREE}<p:sp><p:nvSpPr><p:cNvPr id=\"2\" \
         name=\"Slide Image\"/><p:cNvSpPr><a:spLocks noGrp=\"1\" noRot=\"1\" noChangeAspect=\"1\"/></p:cNvSpPr><p:nvPr>\
         <p:ph type=\"sldImg\"/></p:nvPr></p:nvSpPr><p:spPr/></p:sp><p:sp><p:nvSpPr><p:cNvPr id=\"3\" name=\"Notes\"/>\
         <p:cNvSpPr><a:spLocks noGrp=\"1\"/></p:cNvSpPr><p:nvPr><p:ph type=\"body\" idx=\"1\"/></p:nvPr></p:nvSpPr>\
         <p:spPr/><p:txBody><a:bodyPr/><a:lstStyle/>{paragraphs}</p:txBody></p:sp></p:spTree></p:cSld><p:clrMapOvr>\
         <a:masterClrMapping/></p:clrMapOvr></p:notes>"
    )
}

/// `ppt/theme/theme1.xml`.
pub(super) fn theme() -> String {
    let color = |name: &str, value: &str| format!("<a:{name}><a:srgbClr val=\"{value}\"/></a:{name}>");
    let colors: String = [
        ("dk1", "1F2430"),
        ("lt1", "FFFFFF"),
        ("dk2", "5C6470"),
        ("lt2", "F5F7F9"),
        ("accent1", "0B5CAD"),
        ("accent2", "C2410C"),
        ("accent3", "2E7D32"),
        ("accent4", "8A4500"),
        ("accent5", "6D4AA3"),
        ("accent6", "00798C"),
        ("hlink", "0B5CAD"),
        ("folHlink", "6D4AA3"),
    ]
    .iter()
    .map(|(name, value)| color(name, value))
    .collect();
    let fonts = "<a:latin typeface=\"Calibri\"/><a:ea typeface=\"\"/><a:cs typeface=\"\"/>";
    let fill = "<a:solidFill><a:schemeClr val=\"phClr\"/></a:solidFill>";
    let line = format!("<a:ln w=\"6350\">{fill}</a:ln>");
    let effect = "<a:effectStyle><a:effectLst/></a:effectStyle>";
    format!(
        "{XML_HEAD}<a:theme xmlns:a=\"http://schemas.openxmlformats.org/drawingml/2006/main\" name=\"Report\">\
         <a:themeElements><a:clrScheme name=\"Report\">{colors}</a:clrScheme><a:fontScheme name=\"Report\"><a:majorFont>\
         {fonts}</a:majorFont><a:minorFont>{fonts}</a:minorFont></a:fontScheme><a:fmtScheme name=\"Report\">\
         <a:fillStyleLst>{fill}{fill}{fill}</a:fillStyleLst><a:lnStyleLst>{line}{line}{line}</a:lnStyleLst>\
         <a:effectStyleLst>{effect}{effect}{effect}</a:effectStyleLst><a:bgFillStyleLst>{fill}{fill}{fill}\
         </a:bgFillStyleLst></a:fmtScheme></a:themeElements></a:theme>"
    )
}
