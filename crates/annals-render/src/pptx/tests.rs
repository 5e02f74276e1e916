use super::deck::{Shape, slides};
use crate::doc::{Document, plain_text};
use crate::markdown;
use crate::picture::Pictures;

fn deck(source: &str) -> Vec<super::deck::Slide> {
    let document: Document = markdown::read(source);
    slides(&document, &Pictures::default(), &[])
}

#[test]
fn slides_begin_at_headings_and_rules() {
    let slides = deck(
        "# Opening\n\nA subtitle\n\n## One\n\n- a\n- b\n\n<!-- notes: hello -->\n\n---\n\nNo title\n\n## Two\n\n### Inner\n",
    );
    let titles: Vec<String> = slides.iter().map(|slide| plain_text(&slide.title)).collect();
    assert_eq!(titles, ["Opening", "One", "", "Two"]);
    assert_eq!(slides[0].opening.as_ref().map(Vec::len), Some(1));
    assert_eq!(slides[1].notes, "hello");
}

#[test]
fn what_does_not_fit_goes_on_to_a_next_slide_and_nothing_leaves_the_slide() {
    let bullets: String = (0..60)
        .map(|n| format!("- point {n} with some words behind it, enough for a line or two of text\n"))
        .collect();
    let rows: String = (0..60).map(|n| format!("| {n} | value {n} |\n")).collect();
    let code = "let x = 1;\n".repeat(80);
    let prose = "lorem ".repeat(3000);
    let source =
        format!("## Long\n\n{bullets}\n\n| a | b |\n|---|---|\n{rows}\n\n```\n{code}```\n\n{prose}\n");
    let slides = deck(&source);
    assert!(slides.len() > 8, "{} slides", slides.len());
    assert_eq!(plain_text(&slides[1].title), "Long (continued)");
    for slide in &slides {
        for shape in &slide.shapes {
            let (Shape::Text { frame, .. } | Shape::Table { frame, .. } | Shape::Picture { frame, .. }) =
                shape;
            assert!(frame.x >= 0.0 && frame.x + frame.width <= 960.5, "{frame:?}");
            assert!(frame.y >= 0.0 && frame.y + frame.height <= 520.0, "{frame:?}");
        }
    }
    let text = format!("{slides:?}");
    assert!((0..60).all(|n| text.contains(&format!("point {n} ")) && text.contains(&format!("value {n}\""))));
    assert_eq!(text.matches("lorem").count(), 3000);
}

#[test]
fn a_picture_in_a_line_or_a_link_is_shown_and_does_not_open_the_deck() {
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>";
    let assets = std::collections::HashMap::from([("a.svg".to_owned(), svg.to_vec())]);
    let document =
        markdown::read("# Sales\n\nUp again: ![a](a.svg) and [**![b](a.svg)**](https://x.example)\n");
    let limits = crate::limits::Limits::default();
    let pictures = Pictures::load(&document, &assets, &limits, &mut Vec::new());
    let office = crate::ooxml::office_pictures(&pictures, &crate::fonts::Fonts::default()).unwrap();
    let slides = slides(&document, &pictures, &office);
    let shapes = slides.iter().flat_map(|slide| &slide.shapes);
    let shown = shapes
        .filter(|shape| matches!(shape, Shape::Picture { .. }))
        .count();
    assert_eq!(shown, 2, "{slides:?}");
}

#[test]
fn an_inner_list_counts_for_itself() {
    let source = "## L\n\n1. one\n   1. inner\n   2. second\n2. two\n";
    let slides = deck(source);
    let (xml, _) = super::slide::write(&slides[0], &|_| String::new());
    let levels: Vec<&str> = xml
        .split("<a:pPr marL=")
        .skip(1)
        .filter_map(|paragraph| paragraph.split("lvl=\"").nth(1)?.get(..1))
        .collect();
    assert_eq!(levels, ["0", "1", "1", "0"], "{xml}");
}
