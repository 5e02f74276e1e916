use std::collections::BTreeSet;
use std::sync::LazyLock;

use proptest::prelude::*;
use typst::syntax::{SyntaxKind, SyntaxNode};

use super::*;
use crate::fonts::{Choice, Fonts};
use crate::markdown;

static FONTS: LazyLock<Fonts> = LazyLock::new(Fonts::default);

fn code_of(document: &Document) -> String {
    code_with(document, &FONTS.choose(&BTreeSet::new()))
}

fn code_with(document: &Document, choice: &Choice<'_>) -> String {
    write(
        document,
        &Pictures::default(),
        choice,
        PageOptions::default(),
        Pages::Sheets,
    )
}

#[test]
fn a_document_becomes_calls_with_string_literals() {
    let source = "# A \"title\"\n\nText with `code`, **bold _both_**, [a link](https://x.example), $x^2$[^1] and [[S:7]].\n\n\
                  - one\n- two\n  1. inner\n\n| L | R |\n|:--|--:|\n| a | #panic(\"x\") |\n\n```rs\nfn main() {}\n```\n\n> quoted\n\n\
                  ![pic](a.png)\n\n---\n\n[^1]: a note";
    insta::assert_snapshot!(code_of(&markdown::read(source)), @r##"
    #import "/template.typ": *
    #show: report.with(lang: "en", body-fonts: ("noto sans", ), code-fonts: ("dejavu sans mono", ), width: 595.28pt, height: 841.89pt, margin: 64pt, numbered: true)
    #{
    heading(level: 1)[#"A \"title\"";]
    par[#"Text with ";#inline-code("code");#", ";#strong[#"bold ";#emph[#"both";];];#", ";#link("https://x.example")[#"a link";];#", ";#math.equation(block: false, alt: "x^2", [#math.attach([#symbol("x");], t: [#"2";]);]);#[#footnote([#"a note";])<note-0>];#" and ";#cited((7, false), );#".";]
    spaced(list(tight: true, [#"one";], {
    [#"two";]
    enum(start: 1, tight: true, [#"inner";], )
    }, ))
    data-table(columns: (19.88pt, 62.44pt, ), rows: (16.57pt, 16.57pt, ), head: 1, align: (left, right, ), size: 0.92em, gap: 7pt, keep: true, head-cells: (group(weight: "bold", [#edge;#"L";]), group(weight: "bold", [#"R";#edge;]), 
    ), (
    [#edge;#"a";], [#"#panic(\"x\")";#edge;], 
    ))
    raw(block: true, lang: "rs", "fn main() {}")
    quoted([#"quoted";])
    figure-block(placeholder("a.png"))
    rule()
    }
    "##);
}

/// The shape of the code: every token but the content of string literals.
fn skeleton(node: &SyntaxNode, out: &mut Vec<String>) {
    if node.kind() == SyntaxKind::Str {
        out.push("\"\"".to_owned());
    } else if node.children().next().is_none() {
        out.push(node.leaf_text().to_string());
    } else {
        node.children().for_each(|child| skeleton(child, out));
    }
}

fn skeleton_of(text: &str) -> Vec<String> {
    let inline = |text: &str| vec![Inline::Text(text.to_owned()), Inline::Code(text.to_owned())];
    let document = Document {
        title: Some(text.to_owned()),
        heading: Some(text.to_owned()),
        blocks: vec![
            Block::Heading {
                level: 1,
                inlines: inline(text),
            },
            Block::Paragraph(vec![
                Inline::Strong(inline(text)),
                Inline::Link {
                    url: format!("https://x.example/{text}"),
                    inlines: inline(text),
                },
                Inline::FootnoteRef(0),
            ]),
            Block::Code {
                lang: Some(text.to_owned()),
                text: text.to_owned(),
            },
            Block::Quote(vec![Block::Paragraph(inline(text))]),
            Block::Image(Image {
                reference: text.to_owned(),
                alt: text.to_owned(),
                width: None,
                caption: Some(text.to_owned()),
            }),
        ],
        footnotes: vec![vec![Block::Paragraph(inline(text))]],
        sources: vec![crate::doc::Source {
            sid: 1,
            title: text.to_owned(),
            url: Some(format!("https://x.example/{text}")),
        }],
    };
    let code = code_of(&document);
    let root = typst::syntax::parse(&code);
    assert!(root.errors_and_warnings().0.is_empty(), "syntax error in {code}");
    let mut out = Vec::new();
    skeleton(&root, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever the text is, the code around it is that of its direction: nothing of it is ever executed.
    #[test]
    fn no_text_changes_the_code_around_it(text in "[\\PC\n\t\"\\\\#$\\[\\]{}()@<>*_`/;]{1,60}") {
        // A blank title makes no title block.
        prop_assume!(!text.trim().is_empty());
        let inlines = [Inline::Text(text.clone())];
        let same = match Direction::of(&inlines) {
            Some(Direction::RightToLeft) => "א",
            _ => "x",
        };
        prop_assert_eq!(skeleton_of(&text), skeleton_of(same));
    }

    /// Whatever the formula is, it is typeset or shown as it stands, and calls nothing of its own.
    #[test]
    fn no_formula_calls_a_function_of_its_own(pieces in proptest::collection::vec(proptest::sample::select(vec![
        "\\frac{a}{b}", "\\sqrt[3]{x}", "x_1^2", "\\text{#panic(1)}", "\\begin{cases} a & b \\\\ c & d \\end{cases}",
        "\\begin{pmatrix} 1 & 2 \\end{pmatrix}", "\\sum_{i=0}^n", "\\left( y \\right]", "\\hat z", "\\mathbb R", "\\lim",
        "\\underbrace{q}_{w}", "\"", "#", ";", "]", "[", ")", "\\quad", "'", "+", "\\overline{u}",
    ]), 1..12)) {
        let code = code_of(&markdown::read(&format!("a $x = {}$ b", pieces.concat())));
        let root = typst::syntax::parse(&code);
        prop_assert!(root.errors_and_warnings().0.is_empty(), "{}", code);
        let mut names = BTreeSet::new();
        identifiers(&root, &mut names);
        let foreign: Vec<&String> = names.iter().filter(|name| !KNOWN.contains(&name.as_str())).collect();
        prop_assert!(foreign.is_empty(), "{:?} in {}", foreign, code);
    }

    /// Whatever the markdown is, the code is well-formed and calls only functions of the template.
    #[test]
    fn no_markdown_calls_a_function_of_its_own(source in "[a-z #*_`>|\\-\\[\\]()!$\"\\\\<>/:\n]{0,200}") {
        let code = code_of(&markdown::read(&source));
        let root = typst::syntax::parse(&code);
        prop_assert!(root.errors_and_warnings().0.is_empty(), "{}", code);
        let mut names = BTreeSet::new();
        identifiers(&root, &mut names);
        let foreign: Vec<&String> = names.iter().filter(|name| !KNOWN.contains(&name.as_str())).collect();
        prop_assert!(foreign.is_empty(), "{:?} in {}", foreign, code);
    }
}

fn identifiers(node: &SyntaxNode, out: &mut BTreeSet<String>) {
    if node.kind() == SyntaxKind::Ident {
        out.insert(node.leaf_text().to_string());
    }
    node.children().for_each(|child| identifiers(child, out));
}

/// What the template and the writers of this module call.
const KNOWN: [&str; 97] = [
    "report",
    "with",
    "document-title",
    "lang",
    "body-fonts",
    "code-fonts",
    "width",
    "height",
    "margin",
    "numbered",
    "text",
    "dir",
    "rtl",
    "title-block",
    "heading",
    "level",
    "par",
    "list",
    "enum",
    "start",
    "tight",
    "marker",
    "body-indent",
    "spaced",
    "checkbox",
    "data-table",
    "columns",
    "rows",
    "auto",
    "edge",
    "edge-narrow",
    "edge-least",
    "tall",
    "gap",
    "head",
    "align",
    "size",
    "keep",
    "head-cells",
    "weight",
    "left",
    "right",
    "center",
    "raw",
    "block",
    "figure-block",
    "caption",
    "picture",
    "placeholder",
    "quoted",
    "group",
    "rule",
    "pagebreak",
    "weak",
    "parbreak",
    "strong",
    "emph",
    "strike",
    "underline",
    "sub",
    "super",
    "typographic",
    "link",
    "box",
    "linebreak",
    "cited",
    "inline-code",
    // Formulas.
    "math",
    "equation",
    "alt",
    "symbol",
    "op",
    "limits",
    "frac",
    "binom",
    "root",
    "sqrt",
    "attach",
    "b",
    "t",
    "accent",
    "overline",
    "overbrace",
    "underbrace",
    "lr",
    "mat",
    "delim",
    "h",
    "align-point",
    "upright",
    "bold",
    "italic",
    "bb",
    "cal",
    "frak",
    "sans",
    "mono",
];

#[test]
fn long_runs_get_places_to_break_and_short_ones_stay() {
    assert_eq!(breakable("short-word and.more", 24), "short-word and.more");
    let long = "x".repeat(60);
    let broken = breakable(&long, 24);
    assert_eq!(broken.replace('\u{200b}', ""), long);
    assert!(broken.split('\u{200b}').all(|run| run.chars().count() <= 24));
}

#[test]
fn an_emoji_keeps_what_belongs_to_it() {
    for (text, length) in [
        ("", 0),
        (" a", 0),
        ("\u{20e3} a", 3),
        ("\u{200d}🔥 a", 7),
        ("\u{1f3fd}\u{200d}♂\u{fe0f}.", 13),
    ] {
        assert_eq!(sequel(text), length, "{text}");
    }
}

#[test]
fn a_paragraph_runs_in_the_direction_of_its_first_letter() {
    let code = code_of(&markdown::read("שלום world\n\nworld שלום\n"));
    assert_eq!(code.matches("set text(dir: rtl)").count(), 1, "{code}");
    let hebrew = "פגישה ביום שלישי בשעה עשר. ".repeat(8);
    let choice = Choice {
        lang: "he",
        ..FONTS.choose(&BTreeSet::new())
    };
    let document = markdown::read(&format!("{hebrew}\n\nThe word שלום means peace.\n"));
    let code = code_with(&document, &choice);
    assert_eq!(code.matches("set text(dir: ltr)").count(), 1, "{code}");
    assert_eq!(code.matches("set text(dir: rtl)").count(), 0, "{code}");
}

/// How high a document is on one endless page.
fn height_pt(document: &Document, heights: Heights) -> f64 {
    let choice = FONTS.choose(&BTreeSet::new());
    let (pictures, page) = (Pictures::default(), PageOptions::default());
    let mut writer = Writer::new(document, &pictures, &choice, page, Pages::Endless);
    writer.heights = heights;
    let code = writer.write(&choice, page, Pages::Endless);
    let world = crate::typst::world::DocumentWorld::new(code, choice.store, &[]);
    let pages = crate::typst::layout(&world, 1).expect("a page");
    pages.pages()[0].frame.height().to_pt()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// A row is told the height that it needs: no more, and no text is laid over the next row.
    #[test]
    fn a_table_is_as_high_as_typst_would_have_it(
        columns in 1usize..6,
        cells in proptest::collection::vec(proptest::sample::select(vec![
            "", "a", "AV To Wa", "12,345.67", "several words of text", "**bold words** and plain ones", "50 % (of all)",
            "internationalisation of everything", "one<br>two", "a-b-c / d", "`code`", "*slanted* words", "fi fl ffi Ty",
            "a sentence that is long enough to be broken into lines, in a narrow column into a good many of them; then more.",
        ]), 1..30),
    ) {
        // Something is in each row: an empty one is a line high here, and less by Typst's own measure.
        let rows: Vec<String> = cells.chunks(columns).map(|row| format!("| row | {} |", row.join(" | "))).collect();
        let head = format!("| | {} |\n|---|{}", vec!["Head of it"; columns].join(" | "), "---|".repeat(columns));
        let document = markdown::read(&format!("{head}\n{}\n", rows.join("\n")));
        let (told, found) = (height_pt(&document, Heights::Told), height_pt(&document, Heights::Found));
        prop_assert!((told - found).abs() < 0.5, "{} told, {} found for {:?}", told, found, rows);
    }
}
