//! DOCX and PPTX: sound packages that LibreOffice reads as they were meant.

mod common;

use annals_render::{Request, Warning};
use common::{
    DASHBOARD, RENDERER, REPORT, assert_sound_package, assets, by_libreoffice, parts, pdf_pages, sources,
    squeeze,
};

const EXPECTED: [&str; 9] = [
    "Harbour sensor network: review of the first year",
    "the logbook wins[1, 3]",
    "Image not available: files/none.png",
    "Clock drift, replaced in March",
    "def correct(samples, base):",
    "€49 700",
    "Λιμάνι Πειραιά",
    "availability is A = 1 − (∑ti)/T and",
    "https://example.org/export?a=1&b=2",
];

fn part(bytes: &[u8], path: &str) -> String {
    String::from_utf8(parts(bytes)[path].clone()).unwrap()
}

/// Where LibreOffice is missing, the file is checked as a package only.
fn assert_opens(name: &str, bytes: &[u8]) {
    let Some(pdf) = by_libreoffice(name, bytes) else {
        return;
    };
    let text = pdf_pages(&pdf).concat();
    for expected in EXPECTED {
        assert!(text.contains(&squeeze(expected)), "{name}: missing {expected}");
    }
}

#[test]
fn the_report_as_docx_has_styles_numbers_notes_and_pictures() {
    let (assets, sources) = (assets(), sources());
    let request = Request {
        assets: &assets,
        sources: &sources,
        ..Request::markdown(REPORT)
    };
    let rendered = RENDERER.docx(&request).unwrap();
    assert_eq!(
        rendered.warnings,
        [Warning::MissingImage {
            reference: "files/none.png".into()
        }]
    );
    assert_sound_package(&rendered.bytes);
    let body = part(&rendered.bytes, "word/document.xml");
    for expected in [
        "w:val=\"Heading2\"",
        "<w:tblHeader/>",
        // A keyword in the colour that the PDF gives it.
        "<w:color w:val=\"d73948\"/>",
        "<w:footnoteReference w:id=\"2\"/>",
        "w:anchor=\"source_1\"",
        "<w:drawing>",
        "港湾センサー網",
        "🚢 blocked by a vessel",
    ] {
        assert!(body.contains(expected), "missing {expected}");
    }
    assert!(part(&rendered.bytes, "word/numbering.xml").contains("startOverride"));
    assert!(part(&rendered.bytes, "word/footnotes.xml").contains("Eleven of 26 trips."));
    assert!(part(&rendered.bytes, "docProps/core.xml").contains("Harbour sensor network"));
    assert!(
        parts(&rendered.bytes)["word/media/image0.png"].starts_with(b"\x89PNG"),
        "the SVG became a PNG"
    );
    assert_opens("report.docx", &rendered.bytes);
}

#[test]
fn the_report_as_pptx_is_cut_into_slides() {
    let (assets, sources) = (assets(), sources());
    let content = format!("{REPORT}\n\n<!-- notes: thank the crew -->\n");
    let request = Request {
        assets: &assets,
        sources: &sources,
        ..Request::markdown(&content)
    };
    let rendered = RENDERER.pptx(&request).unwrap();
    assert_sound_package(&rendered.bytes);
    let slides = rendered.pages.unwrap();
    assert!((10..=20).contains(&slides), "{slides} slides");
    let all: String = (1..=slides)
        .map(|n| part(&rendered.bytes, &format!("ppt/slides/slide{n}.xml")))
        .collect();
    assert!(
        all.contains("3 Stations")
            && all.contains("(continued)")
            && all.contains("<a:tbl>")
            && all.contains("<p:pic>")
            && all.contains("港湾センサー網")
            && all.contains("🚢 blocked by a vessel")
    );
    let notes: Vec<String> = parts(&rendered.bytes)
        .into_keys()
        .filter(|path| path.starts_with("ppt/notesSlides/notes"))
        .collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(part(&rendered.bytes, &notes[0]).contains("thank the crew"));
    assert_opens("report.pptx", &rendered.bytes);
}

#[test]
fn html_and_hostile_text_give_sound_packages() {
    let hostile = "# <w:p> & \"quotes\" \u{1}\u{fffe}\n\n]]> <!-- x --> &amp; [l](https://x.example/?a=1&b=\"2\")\n\n- - - x\n\n> 1. a\n>    ```\n>    b\n>    ```\n\n| a |\n|---|\n";
    for request in [
        Request::markdown(hostile),
        Request::html(DASHBOARD),
        Request::markdown(""),
    ] {
        assert_sound_package(&RENDERER.docx(&request).unwrap().bytes);
        assert_sound_package(&RENDERER.pptx(&request).unwrap().bytes);
    }
}
