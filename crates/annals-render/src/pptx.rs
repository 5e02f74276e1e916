//! [`Document`] → PPTX that PowerPoint and LibreOffice open without repair.
//!
//! [`deck`] decides what stands on which slide and [`cursor`] where, [`slide`] writes it, [`parts`] holds what is
//! the same in every file.

mod cursor;
mod deck;
mod estimate;
mod parts;
mod slide;
mod table;

use std::fmt::Write as _;

use crate::doc::Document;
use crate::ooxml::{OfficePicture, Package, Relations, XML_HEAD};
use crate::picture::Pictures;
use crate::request::RenderError;

/// The media type.
pub(crate) const MIME: &str = "application/vnd.openxmlformats-officedocument.presentationml.presentation";

const MAIN: &str = "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml";
const SLIDE: &str = "application/vnd.openxmlformats-officedocument.presentationml.slide+xml";
const MASTER: &str = "application/vnd.openxmlformats-officedocument.presentationml.slideMaster+xml";
const LAYOUT: &str = "application/vnd.openxmlformats-officedocument.presentationml.slideLayout+xml";
const NOTES: &str = "application/vnd.openxmlformats-officedocument.presentationml.notesSlide+xml";
const NOTES_MASTER: &str = "application/vnd.openxmlformats-officedocument.presentationml.notesMaster+xml";
const THEME: &str = "application/vnd.openxmlformats-officedocument.theme+xml";

/// The file, and how many slides it has.
pub(crate) fn write(
    document: &Document,
    pictures: &Pictures,
    office: &[OfficePicture],
    slide_limit: usize,
) -> Result<(Vec<u8>, usize), RenderError> {
    let slides = deck::slides(document, pictures, office);
    if slides.len() > slide_limit {
        return Err(RenderError::TooManyPages {
            pages: slides.len(),
            limit: slide_limit,
        });
    }
    let mut package = Package::default();
    package.properties(document.title.as_deref());
    let mut relations = Relations::default();
    relations.part("slideMaster", "slideMasters/slideMaster1.xml");
    relations.part("theme", "theme/theme1.xml");
    let has_notes = slides.iter().any(|slide| !slide.notes.is_empty());
    let notes_master = has_notes.then(|| relations.part("notesMaster", "notesMasters/notesMaster1.xml"));
    let picture = |index: usize| format!("../media/image{index}.{}", office[index].extension);
    let mut ids = String::new();
    for (index, slide) in slides.iter().enumerate() {
        let number = index + 1;
        let (xml, mut slide_relations) = slide::write(slide, &picture);
        if !slide.notes.is_empty() {
            slide_relations.part("notesSlide", &format!("../notesSlides/notesSlide{number}.xml"));
            add_notes(&mut package, number, &slide.notes);
        }
        package.part(format!("ppt/slides/slide{number}.xml"), SLIDE, xml);
        package.plain(
            format!("ppt/slides/_rels/slide{number}.xml.rels"),
            slide_relations.into_xml().into_bytes(),
        );
        let relation = relations.part("slide", &format!("slides/slide{number}.xml"));
        let _ = write!(ids, "<p:sldId id=\"{}\" r:id=\"{relation}\"/>", 256 + index);
    }
    add_fixed_parts(&mut package);
    if has_notes {
        add_notes_master(&mut package);
    }
    for (index, picture) in office.iter().enumerate() {
        package.plain(
            format!("ppt/media/image{index}.{}", picture.extension),
            picture.bytes.clone(),
        );
    }
    let notes_list = notes_master
        .map(|id| format!("<p:notesMasterIdLst><p:notesMasterId r:id=\"{id}\"/></p:notesMasterIdLst>"))
        .unwrap_or_default();
    let presentation = format!(
        "{XML_HEAD}<p:presentation {}><p:sldMasterIdLst><p:sldMasterId id=\"2147483648\" r:id=\"rId1\"/>\
         </p:sldMasterIdLst>{notes_list}<p:sldIdLst>{ids}</p:sldIdLst><p:sldSz cx=\"12192000\" cy=\"6858000\"/>\
         <p:notesSz cx=\"6858000\" cy=\"9144000\"/></p:presentation>",
        parts::NAMESPACES
    );
    package.part("ppt/presentation.xml", MAIN, presentation);
    package.plain(
        "ppt/_rels/presentation.xml.rels",
        relations.into_xml().into_bytes(),
    );
    Ok((package.finish("ppt/presentation.xml")?, slides.len()))
}

fn add_fixed_parts(package: &mut Package) {
    package.part("ppt/slideMasters/slideMaster1.xml", MASTER, parts::master());
    let mut master = Relations::default();
    master.part("slideLayout", "../slideLayouts/slideLayout1.xml");
    master.part("slideLayout", "../slideLayouts/slideLayout2.xml");
    master.part("theme", "../theme/theme1.xml");
    package.plain(
        "ppt/slideMasters/_rels/slideMaster1.xml.rels",
        master.into_xml().into_bytes(),
    );
    for (number, xml) in [(1, parts::opening_layout()), (2, parts::content_layout())] {
        package.part(format!("ppt/slideLayouts/slideLayout{number}.xml"), LAYOUT, xml);
        let mut relations = Relations::default();
        relations.part("slideMaster", "../slideMasters/slideMaster1.xml");
        let path = format!("ppt/slideLayouts/_rels/slideLayout{number}.xml.rels");
        package.plain(path, relations.into_xml().into_bytes());
    }
    package.part("ppt/theme/theme1.xml", THEME, parts::theme());
}

fn add_notes_master(package: &mut Package) {
    package.part(
        "ppt/notesMasters/notesMaster1.xml",
        NOTES_MASTER,
        parts::notes_master(),
    );
    package.part("ppt/theme/theme2.xml", THEME, parts::theme());
    let mut relations = Relations::default();
    relations.part("theme", "../theme/theme2.xml");
    package.plain(
        "ppt/notesMasters/_rels/notesMaster1.xml.rels",
        relations.into_xml().into_bytes(),
    );
}

fn add_notes(package: &mut Package, number: usize, text: &str) {
    package.part(
        format!("ppt/notesSlides/notesSlide{number}.xml"),
        NOTES,
        parts::notes(text),
    );
    let mut relations = Relations::default();
    relations.part("notesMaster", "../notesMasters/notesMaster1.xml");
    relations.part("slide", &format!("../slides/slide{number}.xml"));
    let path = format!("ppt/notesSlides/_rels/notesSlide{number}.xml.rels");
    package.plain(path, relations.into_xml().into_bytes());
}

#[cfg(test)]
mod tests;
