//! What DOCX and PPTX share: a zip package of XML parts, their relations and types.
//!
//! The writers hand over finished XML; text gets into it through [`escape`] only. Entries carry no clock time,
//! so the same document gives the same bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::picture::{Kind, Picture, Pictures};
use crate::prose::is_cjk;
use crate::request::RenderError;
use crate::typst;

/// The first line of every part.
pub(crate) const XML_HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";

/// The prefix of all relation types of the office formats.
pub(crate) const REL: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

/// English Metric Units per CSS pixel.
pub(crate) const EMU_PER_PX: f64 = 9525.0;

/// Text for element content and attribute values; characters XML 1.0 forbids are dropped.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

/// How wide a text is, in ems. Which font it will be shown in is not known here, so a wide sans serif is assumed.
pub(crate) fn ems(text: &str) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | 'f' | 't' | 'r' | 'I' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '('
        | ')' | '[' | ']' | '/' | '-' => 0.38,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '&' => 0.95,
        c if c.is_ascii_uppercase() => 0.7,
        c if is_cjk(c) || u32::from(c) >= 0x1100 => 1.05,
        _ => 0.62,
    };
    text.chars().map(width).sum()
}

/// The relations of one part, `rId1` onwards.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    xml: String,
    count: usize,
}

impl Relations {
    /// A relation to another part; gives its id.
    pub(crate) fn part(&mut self, kind: &str, target: &str) -> String {
        self.add(kind, target, "")
    }

    /// A relation to an address outside the package; gives its id.
    pub(crate) fn external(&mut self, kind: &str, target: &str) -> String {
        self.add(kind, target, " TargetMode=\"External\"")
    }

    fn add(&mut self, kind: &str, target: &str, mode: &str) -> String {
        self.count += 1;
        let id = format!("rId{}", self.count);
        let kind = if kind.contains("://") {
            kind.to_owned()
        } else {
            format!("{REL}/{kind}")
        };
        let target = escape(target);
        let _ = write!(
            self.xml,
            "<Relationship Id=\"{id}\" Type=\"{kind}\" Target=\"{target}\"{mode}/>"
        );
        id
    }

    /// The part that lists them.
    pub(crate) fn into_xml(self) -> String {
        format!(
            "{XML_HEAD}<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">{}\
             </Relationships>",
            self.xml
        )
    }
}

/// The parts of one file.
#[derive(Debug, Default)]
pub(crate) struct Package {
    parts: BTreeMap<String, Vec<u8>>,
    types: BTreeMap<String, &'static str>,
}

impl Package {
    /// Adds an XML part with its content type.
    pub(crate) fn part(&mut self, path: impl Into<String>, content_type: &'static str, xml: String) {
        let path = path.into();
        self.types.insert(format!("/{path}"), content_type);
        self.parts.insert(path, xml.into_bytes());
    }

    /// Adds a part whose type follows from its extension.
    pub(crate) fn plain(&mut self, path: impl Into<String>, bytes: Vec<u8>) {
        self.parts.insert(path.into(), bytes);
    }

    /// Adds the properties every office program shows.
    pub(crate) fn properties(&mut self, title: Option<&str>) {
        let core = format!(
            "{XML_HEAD}<cp:coreProperties xmlns:cp=\"http://schemas.openxmlformats.org/package/2006/metadata/\
             core-properties\" xmlns:dc=\"http://purl.org/dc/elements/1.1/\"><dc:title>{}</dc:title>\
             </cp:coreProperties>",
            escape(title.unwrap_or_default())
        );
        self.part(
            "docProps/core.xml",
            "application/vnd.openxmlformats-package.core-properties+xml",
            core,
        );
    }

    /// The finished file.
    pub(crate) fn finish(mut self, main: &str) -> Result<Vec<u8>, RenderError> {
        let mut root = Relations::default();
        root.part("officeDocument", main);
        let core = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties";
        root.part(core, "docProps/core.xml");
        self.plain("_rels/.rels", root.into_xml().into_bytes());
        self.write().map_err(|error| RenderError::Package {
            reason: error.to_string(),
        })
    }

    fn write(self) -> Result<Vec<u8>, zip::result::ZipError> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default());
        zip.start_file("[Content_Types].xml", options)?;
        zip.write_all(self.content_types().as_bytes())?;
        for (path, bytes) in &self.parts {
            let packed = path.ends_with(".png") || path.ends_with(".jpg") || path.ends_with(".gif");
            let method = if packed {
                CompressionMethod::Stored
            } else {
                CompressionMethod::Deflated
            };
            zip.start_file(path.as_str(), options.compression_method(method))?;
            zip.write_all(bytes)?;
        }
        Ok(zip.finish()?.into_inner())
    }

    fn content_types(&self) -> String {
        let mut xml = format!(
            "{XML_HEAD}<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\
             <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
             <Default Extension=\"xml\" ContentType=\"application/xml\"/>\
             <Default Extension=\"png\" ContentType=\"image/png\"/>\
             <Default Extension=\"jpg\" ContentType=\"image/jpeg\"/>\
             <Default Extension=\"gif\" ContentType=\"image/gif\"/>"
        );
        for (path, content_type) in &self.types {
            let _ = write!(
                xml,
                "<Override PartName=\"{path}\" ContentType=\"{content_type}\"/>"
            );
        }
        xml.push_str("</Types>");
        xml
    }
}

/// A picture as office programs can show it.
#[derive(Debug, Clone)]
pub(crate) struct OfficePicture {
    pub(crate) bytes: Vec<u8>,
    pub(crate) extension: &'static str,
    pub(crate) width_px: f64,
    pub(crate) height_px: f64,
}

/// All pictures of a document; what office programs do not read (SVG, WebP) becomes PNG.
pub(crate) fn office_pictures(
    pictures: &Pictures,
    fonts: &crate::fonts::Fonts,
) -> Result<Vec<OfficePicture>, RenderError> {
    pictures
        .list()
        .iter()
        .map(|picture| office_picture(picture, fonts))
        .collect()
}

fn office_picture(picture: &Picture, fonts: &crate::fonts::Fonts) -> Result<OfficePicture, RenderError> {
    let (bytes, extension) = match picture.kind {
        Kind::Png => (picture.bytes.to_vec(), "png"),
        Kind::Jpeg => (picture.bytes.to_vec(), "jpg"),
        Kind::Gif => (picture.bytes.to_vec(), "gif"),
        Kind::Webp | Kind::Svg => (typst::rasterise(picture, fonts)?, "png"),
    };
    Ok(OfficePicture {
        bytes,
        extension,
        width_px: picture.width_px,
        height_px: picture.height_px,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        assert_eq!(
            escape("<a b=\"c\">&\u{0}\u{b}x"),
            "&lt;a b=&quot;c&quot;&gt;&amp;x"
        );
    }

    #[test]
    fn the_same_parts_give_the_same_bytes() {
        let build = || {
            let mut package = Package::default();
            package.properties(Some("T"));
            package.part("word/document.xml", "application/xml", "<x/>".to_owned());
            package.finish("word/document.xml").unwrap()
        };
        assert_eq!(build(), build());
    }
}
