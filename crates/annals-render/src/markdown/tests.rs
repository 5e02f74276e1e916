use super::*;

/// One line a block: its kind and its text.
fn shape(blocks: &[Block]) -> String {
    fn walk(blocks: &[Block], depth: usize, out: &mut String) {
        for block in blocks {
            out.push_str(&"  ".repeat(depth));
            match block {
                Block::Heading { level, inlines } => out.push_str(&format!("h{level} {inlines:?}\n")),
                Block::Paragraph(inlines) => out.push_str(&format!("p {inlines:?}\n")),
                Block::List(list) => {
                    out.push_str(&format!("list start={:?} tight={}\n", list.start, list.tight));
                    for item in &list.items {
                        out.push_str(&format!(
                            "{}- checked={:?}\n",
                            "  ".repeat(depth + 1),
                            item.checked
                        ));
                        walk(&item.blocks, depth + 2, out);
                    }
                }
                Block::Table(table) => {
                    out.push_str(&format!(
                        "table {:?} head={} rows={}\n",
                        table.aligns,
                        table.head.len(),
                        table.rows.len()
                    ));
                }
                Block::Quote(inner) => {
                    out.push_str("quote\n");
                    walk(inner, depth + 1, out);
                }
                Block::Alert { kind, blocks } => {
                    out.push_str(&format!("alert {kind:?}\n"));
                    walk(blocks, depth + 1, out);
                }
                other => out.push_str(&format!("{other:?}\n")),
            }
        }
    }
    let mut out = String::new();
    walk(blocks, 0, &mut out);
    out
}

#[test]
fn blocks_keep_their_structure() {
    let source = "---\ntitle: Front\n---\n# One\n\n- [x] done\n- [ ] open\n\n3. three\n\n4. four\n\n| a | b |\n|--:|:-:|\n| 1 | 2 |\n\n\
                  > [!NOTE]\n> mind\n\n![alt](p.png \"Caption\")\n\n\\pagebreak\n\n```Rust,ignore\nlet x;\n```\n\n<!-- notes: say this -->\n";
    let document = read(source);
    assert_eq!(document.heading.as_deref(), Some("Front"));
    insta::assert_snapshot!(shape(&document.blocks), @r##"
    h1 [Text("One")]
    list start=None tight=true
      - checked=Some(true)
        p [Text("done")]
      - checked=Some(false)
        p [Text("open")]
    list start=Some(3) tight=false
      - checked=None
        p [Text("three")]
      - checked=None
        p [Text("four")]
    table [Right, Center] head=1 rows=1
    alert Note
      p [Text("mind")]
    Image(Image { reference: "p.png", alt: "alt", width: None, caption: Some("Caption") })
    PageBreak
    Code { lang: Some("rust"), text: "let x;" }
    Notes("say this")
    "##);
}

#[test]
fn citations_are_found_in_text_and_left_alone_in_code() {
    let document = read("a [[S:1,3]] `[[S:2]]` **b [[S:2-4]]**\n\n    [[S:5]]\n");
    insta::assert_snapshot!(shape(&document.blocks), @r##"
    p [Text("a "), Cite([1, 3]), Text(" "), Code("[[S:2]]"), Text(" "), Strong([Text("b "), Cite([2, 3, 4])])]
    Code { lang: None, text: "[[S:5]]" }
    "##);
}

#[test]
fn inline_tags_work_and_unknown_ones_are_printed() {
    let document = read(
        "H<sub>2</sub>O and Vec<T> <br> <b>bold</b> <sup class=\"cite\" data-sids=\"1,3\">x</sup> 1 < 2",
    );
    insta::assert_snapshot!(shape(&document.blocks), @r##"p [Text("H"), Sub([Text("2")]), Text("O and Vec"), Text("<T>"), Text(" "), LineBreak, Text(" "), Strong([Text("bold")]), Text(" "), Cite([1, 3]), Text(" 1 < 2")]"##);
}

#[test]
fn prices_are_not_formulas() {
    let text = plain_text(match read("from $5-$10 to $20").blocks.as_slice() {
        [Block::Paragraph(inlines)] => inlines,
        other => panic!("{other:?}"),
    });
    assert_eq!(text, "from $5-$10 to $20");
}

#[test]
fn a_line_break_between_chinese_characters_is_no_space() {
    let Some(Block::Paragraph(inlines)) = read("中文\n字 and\nwords").blocks.first().cloned() else {
        panic!("no paragraph")
    };
    assert_eq!(plain_text(&inlines), "中文字 and words");
}

#[test]
fn endless_nesting_is_flattened_and_no_word_is_lost() {
    let source = format!("{}deep", "> ".repeat(5000));
    let document = read(&source);
    let mut words = Vec::new();
    crate::visit::leaves(&document, &mut |leaf| {
        if let crate::visit::Leaf::Text(text) = leaf {
            words.push(text.to_owned());
        }
    });
    assert_eq!(words, ["deep"]);
    let list: String = (0..200)
        .map(|depth| format!("{}- item {depth}\n", "  ".repeat(depth)))
        .collect();
    let printed = format!("{:?}", read(&list));
    assert!(
        (0..200).all(|depth| printed.contains(&format!("item {depth}\""))),
        "{printed}"
    );
}
