use super::*;
use crate::doc::{Align, Document, Rgb, plain_text};

fn debug(html: &str) -> String {
    read(html)
        .unwrap()
        .blocks
        .iter()
        .map(|block| format!("{block:?}\n"))
        .collect()
}

#[test]
fn structure_survives_and_what_runs_or_fetches_does_not() {
    let html = "<title> A  title </title><script>alert(1)</script><h2>Head</h2><p>One <b>bold</b> <i>it</i>\n text<br>next \
                <a href='https://x.example'>link</a></p><ul><li>a<li>b<ol start=4><li>c</ol></ul><hr>\
                <pre><code class='language-rust'>let x = 1;\n</code></pre><div hidden>no</div><iframe src='https://evil'></iframe>";
    assert_eq!(read(html).unwrap().title.as_deref(), Some("A title"));
    insta::assert_snapshot!(debug(html), @r##"
    Heading { level: 2, inlines: [Text("Head")] }
    Paragraph([Text("One "), Strong([Text("bold")]), Text(" "), Em([Text("it")]), Text(" text"), LineBreak, Text("next "), Link { url: "https://x.example", inlines: [Text("link")] }])
    List(List { start: None, tight: true, items: [ListItem { checked: None, blocks: [Paragraph([Text("a")])] }, ListItem { checked: None, blocks: [Paragraph([Text("b")]), List(List { start: Some(4), tight: true, items: [ListItem { checked: None, blocks: [Paragraph([Text("c")])] }] })] }] })
    Rule
    Code { lang: Some("rust"), text: "let x = 1;" }
    "##);
}

#[test]
fn tables_know_heads_spans_and_alignment() {
    let html = "<table><tr><th>A</th><th colspan=2 align=right>B</th></tr><tr><td rowspan=2>1</td><td>2</td><td>3</td></tr>\
                <tr><td colspan=9>4</td></tr></table>";
    let blocks = read(html).unwrap().blocks;
    let [Block::Table(table)] = blocks.as_slice() else {
        panic!("{blocks:?}")
    };
    assert_eq!((table.head.len(), table.rows.len()), (1, 2));
    assert_eq!(table.head[0][1].colspan, 2);
    assert_eq!(table.head[0][1].style.align, Some(Align::Right));
    assert_eq!(table.rows[0][0].rowspan, 2);
}

#[test]
fn rules_of_style_sheets_apply_by_specificity() {
    let html = "<style>/* x */ :root{--c:#ff0000} p{color:blue} .a{color:var(--c);font-weight:700} #b{color:#0f0} \
                .box p{background:rgb(1,2,3)} @media print{p{color:black}} p:hover{color:white}</style>\
                <div class=box><p class=a id=b>x</p></div><p style='text-align:center'>y</p>";
    let blocks = read(html).unwrap().blocks;
    let [
        Block::Group { style: first, .. },
        Block::Group { style: second, .. },
    ] = blocks.as_slice()
    else {
        panic!("{blocks:?}")
    };
    assert_eq!(first.color, Some(Rgb(0, 255, 0)));
    assert_eq!(first.background, Some(Rgb(1, 2, 3)));
    assert_eq!(first.bold, Some(true));
    assert_eq!(
        (second.color, second.align),
        (Some(Rgb(0, 0, 255)), Some(Align::Center))
    );
}

#[test]
fn citations_come_as_tokens_and_as_marked_up_numbers() {
    let blocks = read("<p>a<sup class=cite data-sids='1,3'>1</sup> b [[S:2]] <code>[[S:9]]</code></p>")
        .unwrap()
        .blocks;
    let [Block::Paragraph(inlines)] = blocks.as_slice() else {
        panic!("{blocks:?}")
    };
    let cites: Vec<&Inline> = inlines
        .iter()
        .filter(|inline| matches!(inline, Inline::Cite(_)))
        .collect();
    assert_eq!(cites, [&Inline::Cite(vec![1, 3]), &Inline::Cite(vec![2])]);
}

#[test]
fn a_deep_tree_keeps_its_text_and_an_endless_one_is_refused() {
    let nested = |depth: usize| format!("{}deep{}", "<div>".repeat(depth), "</div>".repeat(depth));
    let blocks = read(&nested(900)).unwrap().blocks;
    let [Block::Paragraph(inlines)] = blocks.as_slice() else {
        panic!("{} blocks", blocks.len())
    };
    assert_eq!(plain_text(inlines), "deep");
    assert_eq!(read(&nested(200_000)), Err(TooDeep));
}

#[test]
fn the_browser_gets_no_scripts_and_inlined_pictures() {
    let html = "<title>old</title><script src=x></script><link rel=stylesheet href=http://e><p onclick=x>Hi [[S:1]]</p><img src=a.png>\
                <img src=http://remote/x.png><style>p > b {}</style><code>[[S:1]]</code>";
    let source = crate::doc::Source {
        sid: 1,
        title: "T & U".into(),
        url: Some("https://t.example/?a&b".into()),
    };
    let read = Document {
        title: Some("A < B".into()),
        heading: Some("A < B".into()),
        sources: vec![source],
        ..Document::default()
    };
    let picture = |reference: &str| (reference == "a.png").then(|| "data:image/png;base64,AA".to_owned());
    insta::assert_snapshot!(prepare_for_browser(html, &read, &picture).unwrap(), @r##"<html><head><title>A &lt; B</title></head><body><h1>A &lt; B</h1><p>Hi<sup class="cite">[<a href="#source-1" style="text-decoration:none">1</a>]</sup></p><img src="data:image/png;base64,AA"><span style="display:inline-block;border:1px dashed #b35900;background:#fff8f0;color:#8a4500;border-radius:4px;padding:8px 12px;font:12px sans-serif">Image not available: http://remote/x.png</span><style>p > b {}</style><code>[[S:1]]</code><section class="sources"><h2>Sources</h2><p id="source-1">[1] T &amp; U<br><a href="https://t.example/?a&amp;b">https://t.example/?a&amp;b</a></p></section></body></html>"##);
}

#[test]
fn colours_are_read_in_every_common_spelling() {
    let cases = [
        ("#fff", Rgb(255, 255, 255)),
        ("#0b5cad", Rgb(11, 92, 173)),
        ("rgb(1, 2, 3)", Rgb(1, 2, 3)),
        ("rgba(0,0,0,0.5)", Rgb(128, 128, 128)),
        ("rgb(100% 0% 0% / 50%)", Rgb(255, 128, 128)),
        ("Tomato", Rgb(255, 99, 71)),
    ];
    for (value, expected) in cases {
        assert_eq!(css::color(value), Some(expected), "{value}");
    }
    assert_eq!(css::color("#ggg"), None);
    assert_eq!(css::color("currentcolor"), None);
}
