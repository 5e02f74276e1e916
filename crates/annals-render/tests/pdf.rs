//! What a reader finds in the PDFs: their text, page by page.

mod common;

use std::collections::BTreeSet;

use annals_render::{Engine, Limits, RenderError, Renderer, Request, Warning};
use annals_requirements::{Requirement, met};
use common::{DASHBOARD, RENDERER, REPORT, assets, pdf_pages, pdf_text_by_poppler, sources, squeeze};

#[test]
fn the_report_reads_the_same_on_paper() {
    let (assets, sources) = (assets(), sources());
    let request = Request {
        assets: &assets,
        sources: &sources,
        ..Request::markdown(REPORT)
    };
    let rendered = RENDERER.pdf(&request).unwrap();
    let pages = pdf_pages(&rendered.bytes);
    assert_eq!(rendered.pages, Some(pages.len()));
    assert!(pages.len() >= 5, "{} pages", pages.len());
    let text = pages.concat();
    for expected in [
        "Harbour sensor network: review of the first year",
        "the logbook wins[1, 3]",
        "Image not available: files/none.png",
        "Figure 1. Availability by month",
        "def correct(samples, base):",
        // Without its hyphen: depending on the fonts of the machine the line breaks there, and the hyphen is soft.
        "Порт Санкт",
        "Петербург",
        "Λιμάνι Πειραιά",
        "€49 700",
        "Eleven of 26 trips.",
        "Logbook of the operators",
        "https://example.org/export?a=1&b=2",
    ] {
        assert!(text.contains(&squeeze(expected)), "missing: {expected}");
    }
    assert!(
        !text.contains("[[S:") && !text.contains("Nevercited"),
        "tokens or uncited sources are printed"
    );
    let heads = pages
        .iter()
        .filter(|page| page.contains(&squeeze("Station Name Kind Reports Missed")))
        .count();
    assert!(heads >= 2, "the table's head is repeated on its second page");
    for (index, page) in pages.iter().enumerate() {
        assert!(
            page.contains(&format!("{}/{}", index + 1, pages.len())),
            "page {} has no number",
            index + 1
        );
    }
    assert!(rendered.warnings.contains(&Warning::MissingImage {
        reference: "files/none.png".into()
    }));
}

/// Which fonts this machine has is not ours to choose, but nothing may vanish without a word.
#[test]
fn every_character_of_other_scripts_is_on_paper_or_named_as_missing() {
    let samples = [
        "港湾センサー網",
        "港口传感器网络",
        "항만센서네트워크",
        "ميناء",
        "נמל",
        "यन्त्र",
        "ท่าเรือ",
        "✅⚠️❌🚢🌊",
    ];
    let rendered = RENDERER.pdf(&Request::markdown(&samples.join("\n\n"))).unwrap();
    let mut text: BTreeSet<char> = pdf_pages(&rendered.bytes).concat().chars().collect();
    // Emoji are pictures whose text only a real reader of PDFs finds.
    let by_poppler = pdf_text_by_poppler(&rendered.bytes);
    text.extend(by_poppler.iter().flat_map(|text| text.chars()));
    let missing: Vec<char> = rendered
        .warnings
        .iter()
        .flat_map(|warning| match warning {
            Warning::MissingGlyphs { chars } => chars.clone(),
            other => panic!("{other}"),
        })
        .collect();
    // Marks melt into their letters.
    let is_emoji = |c: &char| matches!(u32::from(*c), 0x2600..=0x27ff | 0x1f300..=0x1faff);
    let is_checked = |c: &char| c.is_alphabetic() || is_emoji(c) && by_poppler.is_some();
    for c in samples.concat().chars().filter(is_checked) {
        assert!(
            text.contains(&c) || missing.contains(&c),
            "{c} U+{:04X}; missing: {missing:?}",
            u32::from(c)
        );
    }
}

#[test]
fn a_drawing_that_points_to_other_pictures_does_not_spoil_the_document() {
    let svg = "<svg xmlns='http://www.w3.org/2000/svg' width='90' height='30'><image href='http://127.0.0.1:1/a.png'/>\
               <image href='/etc/hostname'/><text y='20'>drawn</text></svg>";
    let assets = std::collections::HashMap::from([("a.svg".to_owned(), svg.into())]);
    let request = Request {
        assets: &assets,
        ..Request::markdown("![a](a.svg) words")
    };
    for rendered in [
        RENDERER.pdf(&request),
        RENDERER.docx(&request),
        RENDERER.pptx(&request),
    ] {
        let told: Vec<String> = rendered
            .unwrap()
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].contains("`http://127.0.0.1:1/a.png`, `/etc/hostname`, which is left out"),
            "{told:?}"
        );
    }
}

#[test]
fn markup_of_other_languages_is_printed_not_run() {
    let hostile = "#panic(\"x\") $sum$ @ref <label> [x] #import \"/etc/passwd\" \\u{41} `#eval(\"1+1\")` #{ while true {} }";
    let rendered = RENDERER.pdf(&Request::markdown(hostile)).unwrap();
    let text = pdf_pages(&rendered.bytes).concat();
    for expected in [
        "#panic(\"x\")",
        "@ref",
        "<label>",
        "#import\"/etc/passwd\"",
        "#eval(\"1+1\")",
        "#{whiletrue{}}",
    ] {
        assert!(text.contains(expected), "missing {expected} in {text}");
    }
}

#[test]
fn formulas_are_typeset_and_what_is_not_understood_is_printed_as_typed() {
    let source = "Inline $a \\le b_1$.\n\n$$\\sum_{k=0}^{n} \\frac{x^k}{k!} \\text{ for all } n$$\n\nOdd $\\unknown{x}$.\n";
    let rendered = RENDERER.pdf(&Request::markdown(source)).unwrap();
    let text = pdf_pages(&rendered.bytes).concat();
    for expected in ["≤", "∑", "forall", "\\unknown{x}"] {
        assert!(text.contains(expected), "missing {expected} in {text}");
    }
    assert!(!text.contains("\\frac") && !text.contains("\\le"), "{text}");
    assert!(rendered.warnings.is_empty(), "{:?}", rendered.warnings);
}

#[test]
fn html_is_laid_out_without_scripts_or_remote_pictures() {
    // The document has Japanese in it, and a character without a font would be a warning.
    if !met(Requirement::CjkFont) {
        return;
    }
    let (assets, sources) = (assets(), sources());
    let request = Request {
        assets: &assets,
        sources: &sources,
        engine: Engine::Embedded,
        ..Request::html(DASHBOARD)
    };
    let rendered = RENDERER.pdf(&request).unwrap();
    let text = pdf_pages(&rendered.bytes).concat();
    for expected in [
        "Quarterly review",
        "€4.2 M",
        "the south fell[2]",
        "on plan",
        "return x < 3",
        "Telemetry export",
    ] {
        assert!(text.contains(&squeeze(expected)), "missing {expected} in {text}");
    }
    assert!(
        !text.contains("SCRIPTRAN") && !text.contains("nevershown"),
        "{text}"
    );
    let remote = Warning::RemoteImage {
        reference: "https://tracker.example.org/pixel.png".into(),
    };
    assert_eq!(rendered.warnings, [remote]);
}

#[test]
fn what_cannot_be_shown_is_named() {
    let source = "a \u{10fffd} [[S:77]] ![x](broken.png) ![y](data:image/png;base64,AAAA)";
    let assets =
        std::collections::HashMap::from([("broken.png".to_owned(), b"\x89PNG\r\n\x1a\nnonsense".to_vec())]);
    let rendered = RENDERER
        .pdf(&Request {
            assets: &assets,
            ..Request::markdown(source)
        })
        .unwrap();
    let named: Vec<String> = rendered.warnings.iter().map(ToString::to_string).collect();
    assert!(
        named.iter().any(|warning| warning.contains("U+10FFFD")),
        "{named:?}"
    );
    assert!(
        named
            .iter()
            .any(|warning| warning == "source `77` is cited but not known"),
        "{named:?}"
    );
    assert_eq!(
        named
            .iter()
            .filter(|warning| warning.contains("cannot be shown"))
            .count(),
        2,
        "{named:?}"
    );
    assert!(pdf_pages(&rendered.bytes).concat().contains("[77]"));
}

#[test]
fn nothing_and_nonsense_give_a_file_all_the_same() {
    let nested = format!("{}x", "> - ".repeat(300));
    let wide = format!(
        "|{}\n|{}\n|{}\n",
        "h|".repeat(90),
        "-|".repeat(90),
        "c|".repeat(90)
    );
    let long_word = "x".repeat(5000);
    for source in [
        "",
        "   \n",
        "\0\u{b}",
        &nested,
        &wide,
        &long_word,
        "[^a]\n\n[^a]: loops [^a]",
        "<table><tr><td rowspan=9 colspan=9>",
    ] {
        let rendered = RENDERER.pdf(&Request::markdown(source));
        assert!(
            rendered.is_ok(),
            "{:?}: {:?}",
            source.chars().take(20).collect::<String>(),
            rendered.err()
        );
    }
}

#[test]
fn limits_are_kept() {
    let small = Renderer::in_process_with(Limits {
        content_bytes: 10,
        pages: 1,
        ..Limits::default()
    });
    let long = small.pdf(&Request::markdown("more than ten bytes"));
    assert!(
        matches!(long, Err(RenderError::ContentTooLarge { bytes: 19, limit: 10 })),
        "{long:?}"
    );
    let patient = std::time::Duration::from_secs(600);
    let pages = Renderer::in_process_with(Limits {
        pages: 1,
        deadline: patient,
        ..Limits::default()
    });
    let two = pages.pdf(&Request::markdown("a\n\n\\pagebreak\n\nb"));
    assert!(
        matches!(two, Err(RenderError::TooManyPages { pages: 2, limit: 1 })),
        "{two:?}"
    );
    let hurried = Renderer::in_process_with(Limits {
        deadline: std::time::Duration::ZERO,
        ..Limits::default()
    });
    let late = hurried.pdf(&Request::markdown("x"));
    assert!(matches!(late, Err(RenderError::Deadline { .. })), "{late:?}");
}

#[test]
fn a_cell_that_is_longer_than_a_page_is_broken_and_nothing_of_it_is_lost() {
    let words: Vec<String> = (0..4_000).map(|number| format!("w{number}")).collect();
    let table = format!(
        "| a | b |\n|---|---|\n| x | {} |\n| y | last |\n",
        words.join(" ")
    );
    let rendered = RENDERER.pdf(&Request::markdown(&table)).unwrap();
    let text = pdf_pages(&rendered.bytes).concat();
    assert!(rendered.pages.unwrap_or(0) > 1);
    for word in ["w0", "w1999", "w3999", "last"] {
        assert!(text.contains(word), "missing: {word}");
    }
}

#[test]
fn the_same_document_gives_the_same_bytes() {
    let request = Request::markdown("# Same\n\nbytes");
    assert_eq!(
        RENDERER.pdf(&request).unwrap().bytes,
        RENDERER.pdf(&request).unwrap().bytes
    );
}

#[test]
fn a_display_formula_within_a_paragraph_is_on_paper() {
    for source in [
        "Before $$\\sum x$$ after.",
        "- before $$\\sum x$$ after",
        "**before $$\\sum x$$ after**",
        "| h |\n|---|\n| x $$\\sum x$$ y |",
        "# Title $$\\sum x$$ end",
    ] {
        let rendered = RENDERER.pdf(&Request::markdown(source)).unwrap();
        let text = pdf_pages(&rendered.bytes).concat();
        assert!(text.contains('∑'), "{source}: {text}");
    }
}

#[test]
fn pages_are_drawn_as_pictures_and_other_bytes_are_refused() {
    use annals_render::pdf_page::{PdfPageError, draw};
    let rendered = RENDERER.pdf(&Request::markdown(REPORT)).unwrap();
    let first = draw(rendered.bytes.clone(), 1, 300).unwrap();
    assert_eq!(Some(first.pages), rendered.pages);
    let size = imagesize(&first.png);
    assert_eq!(size.0, 300);
    assert!(size.1 > 400 && size.1 < 440, "{size:?}");
    let last = draw(rendered.bytes.clone(), first.pages, 300).unwrap();
    assert_ne!(first.png, last.png);
    // Bounded, however wide a picture somebody wants.
    let wide = draw(rendered.bytes.clone(), 1, u32::MAX).unwrap();
    assert!(imagesize(&wide.png).1 <= 4096);
    let beyond = draw(rendered.bytes.clone(), first.pages + 1, 300).unwrap_err();
    assert!(matches!(beyond, PdfPageError::NoSuchPage { .. }), "{beyond}");
    assert!(draw(rendered.bytes, 0, 300).is_err());
    assert_eq!(
        draw(b"no PDF at all".to_vec(), 1, 300).unwrap_err(),
        PdfPageError::Unreadable
    );
}

/// Width and height, as the head of a PNG says them.
fn imagesize(png: &[u8]) -> (u32, u32) {
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

/// Words of a Thai paragraph, compounds in their parts, which is written without the spaces between them.
const THAI_WORDS: &str = "ประเทศ ไทย เป็น ประเทศ ที่ มี อาหาร อร่อย และ ผู้ คน ใจดี มาก นัก ท่องเที่ยว จาก ทั่ว \
    โลก เดินทาง มา เที่ยว ทะเล และ ภูเขา ทุก ปี เพราะ อากาศ ดี และ โรงแรม มี ราคา ไม่ แพง \
    รัฐบาล จึง สร้าง ถนน และ สนาม บิน ใหม่ เพื่อ ให้ ทุก คน เดินทาง ได้ สะดวก มาก ขึ้น";

/// Checks that each line of a text that consists of these words ends with a word of it.
#[track_caller]
fn assert_whole_words(lines: &str, words: &[&str]) {
    let bare = |text: &str| -> String { text.chars().filter(|c| c.is_alphanumeric()).collect() };
    let mut ends = Vec::new();
    for word in words {
        ends.push(ends.last().unwrap_or(&0) + bare(word).chars().count());
    }
    let thai = lines
        .lines()
        .filter(|line| line.chars().any(|c| ('\u{e00}'..'\u{e80}').contains(&c)));
    let (mut at, mut count) = (0, 0);
    for line in thai {
        at += bare(line).chars().count();
        count += 1;
        assert!(
            ends.contains(&at),
            "a word is broken at the end of `{line}`: {lines}"
        );
    }
    assert_eq!(Some(&at), ends.last(), "the text is whole: {lines}");
    assert!(count > 3, "several lines: {lines}");
}

#[test]
fn thai_lines_end_with_whole_words_beside_other_scripts_too() {
    if !met(Requirement::Poppler) || !met(Requirement::ThaiFont) {
        return;
    }
    let words: Vec<&str> = THAI_WORDS.split(' ').collect();
    let words = words.repeat(2);
    let paragraph = words.concat();
    for content in [paragraph.clone(), format!("汉字。\n\n{paragraph}\n\nカタカナ")] {
        let rendered = RENDERER.pdf(&Request::markdown(&content)).unwrap();
        let text = pdf_text_by_poppler(&rendered.bytes).unwrap();
        assert_whole_words(&text, &words);
    }
    // Office programs break lines themselves, once they know the language.
    let docx = RENDERER.docx(&Request::markdown(&paragraph)).unwrap();
    let styles = String::from_utf8(common::parts(&docx.bytes)["word/styles.xml"].clone()).unwrap();
    assert!(styles.contains("w:bidi=\"th-TH\""), "{styles}");
    if let Some(printed) = common::by_libreoffice("thai.docx", &docx.bytes) {
        assert_whole_words(&pdf_text_by_poppler(&printed).unwrap(), &words);
    }
}
