//! What a page draws as trees: markdown, code, tables and differences that cost more than their size.

use super::{Aim, Mechanism, Reader, TreeKind, each, mechanism, times};

const MARKDOWN: Reader = Reader::Tree(TreeKind::Markdown);
const TABLE: Reader = Reader::Tree(TreeKind::Table);
const DIFFERENCE: Reader = Reader::Tree(TreeKind::Difference);

const fn code(language: &'static str) -> Reader {
    Reader::Tree(TreeKind::Code(language))
}

pub(super) const ALL: &[Mechanism] = &[
    mechanism("tree-quotes-in-quotes", MARKDOWN, Aim::Stack, || {
        text(times("> ", 20_000) + "x")
    }),
    mechanism("tree-links-in-links", MARKDOWN, Aim::Stack, || {
        text(times("[", 20_000) + "x" + &times("](y)", 20_000))
    }),
    mechanism("tree-table-of-many-cells", MARKDOWN, Aim::Memory, || {
        text(format!("|{}\n|{}\n", times("a|", 20_000), times("-|", 20_000)))
    }),
    mechanism("tree-emphasis", MARKDOWN, Aim::Time, || {
        text(times("*a **b ", 40_000))
    }),
    mechanism("tree-lists-of-one-letter", MARKDOWN, Aim::Memory, || {
        text(times("- x\n", 60_000))
    }),
    mechanism("tree-links-that-run", MARKDOWN, Aim::Reach, || {
        text("[x](javascript:alert(1)) [y](file:///etc/passwd) ![z](http://127.0.0.1:1/) <img src=x onerror=y>".to_owned())
    }),
    mechanism("tree-rust-in-parentheses", code("rs"), Aim::Stack, || {
        text(times("(", 100_000))
    }),
    mechanism("tree-javascript-templates", code("js"), Aim::Stack, || {
        text(times("`${", 60_000))
    }),
    mechanism("tree-javascript-that-backtracks", code("js"), Aim::Time, || {
        text(times("/(a+)+$/.", 20_000))
    }),
    mechanism("tree-python-strings-never-closed", code("py"), Aim::Time, || {
        text(times("\"\"\"x'''", 40_000))
    }),
    mechanism("tree-json-lists-in-lists", code("json"), Aim::Stack, || {
        text(times("[", 200_000))
    }),
    mechanism("tree-yaml-anchors", code("yaml"), Aim::Memory, || {
        text(each(2_000, |n| format!("a{n}: &a{n} [*a{n}, *a{n}]\n")))
    }),
    mechanism("tree-html-scripts-in-html", code("html"), Aim::Stack, || {
        text(times("<script><style>", 40_000))
    }),
    mechanism("tree-shell-substitutions", code("sh"), Aim::Stack, || {
        text(times("$(", 80_000))
    }),
    mechanism("tree-one-line-without-end", code("c"), Aim::Time, || {
        text(times("a+", 400_000))
    }),
    mechanism("tree-lines-without-end", code("go"), Aim::Memory, || {
        text(times("\n", 400_000))
    }),
    mechanism("tree-comment-never-closed", code("css"), Aim::Time, || {
        text(times("/*", 200_000))
    }),
    mechanism("tree-csv-quotes-never-closed", TABLE, Aim::Time, || {
        text(times("\"\"\",", 100_000))
    }),
    mechanism("tree-csv-many-columns", TABLE, Aim::Memory, || {
        text(times("a,", 400_000))
    }),
    mechanism("tree-csv-many-rows", TABLE, Aim::Memory, || {
        text(times("a,b\n", 200_000))
    }),
    mechanism("tree-csv-rows-of-growing-width", TABLE, Aim::Memory, || {
        text(each(1_200, |n| times("a,", n) + "\n"))
    }),
    mechanism("tree-csv-line-ends-in-quotes", TABLE, Aim::Time, || {
        text(format!("\"{}", times("\n", 400_000)))
    }),
    mechanism("tree-difference-of-nothing-alike", DIFFERENCE, Aim::Time, || {
        text(each(8_000, |n| format!("{}\n", n * 7)) + "\0" + &each(8_000, |n| format!("{}\n", n * 11 + 3)))
    }),
    mechanism("tree-difference-of-all-alike", DIFFERENCE, Aim::Time, || {
        text(times("a\n", 40_000) + "\0" + &times("b\na\n", 20_000))
    }),
    mechanism("tree-difference-of-long-lines", DIFFERENCE, Aim::Time, || {
        text(times("ab ", 200_000) + "\0" + &times("ba ", 200_000))
    }),
    mechanism("tree-difference-shifted", DIFFERENCE, Aim::Time, || {
        text(
            each(8_000, |n| format!("{}\n", n % 97))
                + "\0"
                + &each(8_000, |n| format!("{}\n", (n + 48) % 97)),
        )
    }),
];

fn text(text: String) -> Vec<u8> {
    text.into_bytes()
}
