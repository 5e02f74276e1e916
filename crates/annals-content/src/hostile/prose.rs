//! Documents in markdown and HTML: nesting, tables, formulas, and styles that multiply.

use super::{Aim, Mechanism, Reader, each, mechanism, times};

const MD: Reader = Reader::Markdown;
const HTML: Reader = Reader::Html;

pub(super) const ALL: &[Mechanism] = &[
    mechanism("md-quotes-in-quotes", MD, Aim::Stack, || {
        text(times("> ", 20_000) + "x")
    }),
    mechanism("md-lists-in-lists", MD, Aim::Stack, || {
        text(times("- ", 20_000) + "x")
    }),
    mechanism("md-indented-lists", MD, Aim::Time, || {
        text(each(400, |n| format!("{}- x\n", times("  ", n))))
    }),
    mechanism("md-emphasis-in-emphasis", MD, Aim::Stack, || {
        text(times("*a **a ", 50_000))
    }),
    mechanism("md-open-brackets", MD, Aim::Time, || text(times("[", 200_000))),
    mechanism("md-open-pictures", MD, Aim::Time, || text(times("![](", 100_000))),
    mechanism("md-links-in-links", MD, Aim::Stack, || {
        text(times("[", 20_000) + "x" + &times("](y)", 20_000))
    }),
    mechanism("md-references", MD, Aim::Time, || {
        text(each(30_000, |n| format!("[r{n}]: http://x/{n}\n")) + &times("[r1] ", 30_000))
    }),
    mechanism("md-backticks", MD, Aim::Time, || {
        text(each(2_000, |n| times("`", n % 300 + 1) + "x"))
    }),
    mechanism("md-table-of-many-cells", MD, Aim::Memory, || {
        text(format!(
            "|{}\n|{}\n|{}\n",
            times("a|", 20_000),
            times("-|", 20_000),
            times("b|", 20_000)
        ))
    }),
    mechanism("md-table-of-many-rows", MD, Aim::Time, || {
        text("|a|b|\n|-|-|\n".to_owned() + &times("|wide words here|and there|\n", 20_000))
    }),
    mechanism("md-footnotes", MD, Aim::Time, || {
        text(each(4_000, |n| format!("x[^{n}]\n\n[^{n}]: y[^{}]\n\n", n + 1)))
    }),
    mechanism("md-footnote-of-itself", MD, Aim::Trust, || {
        text("x[^a]\n\n[^a]: y[^a] z[^a]\n".to_owned())
    }),
    mechanism("md-headings", MD, Aim::Time, || text(times("# x\n", 20_000))),
    mechanism("md-page-breaks", MD, Aim::Memory, || {
        text(times("\\pagebreak\n\nx\n\n", 10_000))
    }),
    mechanism("md-one-word-without-end", MD, Aim::Time, || {
        text(times("w", 2_000_000))
    }),
    mechanism("md-code-on-one-line", MD, Aim::Time, || {
        text(format!("```rust\n{}\n```\n", times("f(", 400_000)))
    }),
    mechanism("md-code-that-backtracks", MD, Aim::Time, || {
        text(format!("```js\n{}\n```\n", times("/(a+)+$/.", 20_000)))
    }),
    mechanism("md-combining-characters", MD, Aim::Time, || {
        text("a".to_owned() + &times("\u{301}\u{302}\u{323}", 100_000))
    }),
    mechanism("md-directions", MD, Aim::Time, || {
        text(times("a\u{202e}\u{5d0}\u{2067}1 ", 40_000))
    }),
    mechanism("md-formula-of-braces", MD, Aim::Stack, || {
        text(format!("${}x{}$", times("{", 3_900), times("}", 3_900)))
    }),
    mechanism("md-formula-of-fractions", MD, Aim::Stack, || {
        text(format!("$${}x{}$$", times("\\frac{1}{", 700), times("}", 700)))
    }),
    mechanism("md-formula-of-scripts", MD, Aim::Stack, || {
        text(format!("$x{}$", times("^{x", 2_000) + &times("}", 2_000)))
    }),
    mechanism("md-formulas", MD, Aim::Time, || {
        text(times("$\\sum_{i=0}^n \\frac{a_i}{b_i}$ ", 20_000))
    }),
    mechanism("md-html-in-html", MD, Aim::Stack, || {
        text(times("<div>\n\n", 5_000) + "x")
    }),
    mechanism("md-citations", MD, Aim::Time, || {
        text(times("[[S:1-100]] ", 20_000))
    }),
    mechanism("md-many-pictures", MD, Aim::Time, || {
        text(each(4_000, |n| format!("![x](p{n}.png) ")))
    }),
    mechanism("md-picture-in-its-address", MD, Aim::Memory, || {
        text(format!(
            "![x](data:image/svg+xml,{})",
            times("%3Csvg%3E", 100_000)
        ))
    }),
    mechanism("html-nested-divs", HTML, Aim::Stack, || {
        text(times("<div>", 990) + "x")
    }),
    mechanism("html-nested-beyond-the-bound", HTML, Aim::Stack, || {
        text(times("<div>", 100_000) + "x")
    }),
    mechanism("html-nested-tables", HTML, Aim::Time, || {
        text(times("<table><tr><td>a<td>", 240) + "x")
    }),
    mechanism("html-nested-flex", HTML, Aim::Memory, || {
        text(times("<div style='display:flex'><p>a</p>", 300) + "x")
    }),
    mechanism("html-spans-without-end", HTML, Aim::Memory, || {
        text(
            "<table><tr><td colspan=999999999 rowspan=999999999>x<td rowspan=4294967295>y</table>".to_owned(),
        )
    }),
    mechanism("html-many-row-spans", HTML, Aim::Memory, || {
        text(format!(
            "<table>{}</table>",
            times("<tr><td rowspan=60000>x", 2_000)
        ))
    }),
    mechanism("html-rules-times-elements", HTML, Aim::Time, || {
        let rules = each(2_000, |n| format!("div p.c{n} b {{color:red}}"));
        text(format!(
            "<style>{rules}</style><div>{}</div>",
            each(2_000, |n| format!("<p class=c{n}><b>x</b></p>"))
        ))
    }),
    mechanism("html-variables-of-each-other", HTML, Aim::Memory, || {
        let rules = each(40, |n| format!("--v{}:var(--v{n}) var(--v{n});", n + 1));
        text(format!(
            "<style>:root{{--v0:red;{rules}}}p{{color:var(--v40)}}</style><p>x"
        ))
    }),
    mechanism("html-inline-svg-nested", HTML, Aim::Stack, || {
        text(times("<svg>", 541) + &times("</svg>", 541))
    }),
    mechanism("html-style-in-svg-that-ends-itself", HTML, Aim::Reach, || {
        text("<svg><style>&lt;/style&gt;&lt;iframe src=file:///etc/passwd&gt;&lt;/iframe&gt;</style></svg><p>x".to_owned())
    }),
    mechanism("html-title-in-svg", HTML, Aim::Reach, || {
        text("<svg><title>&lt;/title&gt;&lt;script&gt;x&lt;/script&gt;</title></svg><math><mtext><style>&lt;img src=x&gt;</style></mtext></math>".to_owned())
    }),
    mechanism("html-picture-set", HTML, Aim::Reach, || {
        text("<picture><source srcset='file:///etc/passwd'><img srcset='http://127.0.0.1:1/x 1x' src='/etc/passwd'></picture><p style='background:url(file:///etc/passwd)'>x".to_owned())
    }),
    mechanism("html-list-items", HTML, Aim::Time, || {
        text("<ul>".to_owned() + &times("<li>x", 30_000))
    }),
    mechanism("html-definition-lists", HTML, Aim::Stack, || {
        text(times("<dl><dd>", 400) + "x")
    }),
    mechanism("md-tables-in-quotes", MD, Aim::Stack, || {
        text(each(500, |n| {
            format!("{}|a|b|\n{}|-|-|\n", times("> ", n), times("> ", n))
        }))
    }),
    mechanism("md-list-numbers-beyond-all", MD, Aim::Trust, || {
        text("999999999. x\n1000000000. y\n99999999999999999999. z\n".to_owned())
    }),
    mechanism("md-html-comments-never-closed", MD, Aim::Time, || {
        text(times("<!-- ", 100_000))
    }),
    mechanism("md-processing-never-closed", MD, Aim::Time, || {
        text(times("<? ", 100_000))
    }),
    mechanism("md-declarations-never-closed", MD, Aim::Time, || {
        text(times("<!A ", 100_000))
    }),
    mechanism("md-autolinks", MD, Aim::Time, || text(times("<a:", 100_000))),
    mechanism("md-bare-addresses", MD, Aim::Time, || {
        text(times("www.a(", 80_000))
    }),
    mechanism("md-entities", MD, Aim::Memory, || {
        text(times("&CounterClockwiseContourIntegral;", 60_000))
    }),
    mechanism("md-underscores", MD, Aim::Time, || text(times("_a__b", 80_000))),
    mechanism("md-strikes", MD, Aim::Time, || text(times("~~a ~b", 60_000))),
    mechanism("md-hard-breaks", MD, Aim::Memory, || text(times("x  \n", 60_000))),
    mechanism("md-fences-in-fences", MD, Aim::Stack, || {
        text(each(600, |n| format!("{}x\n", times("`", n + 3))))
    }),
    mechanism("md-definitions-of-long-names", MD, Aim::Time, || {
        text(each(3_000, |n| format!("[{}{n}]: x\n", times("a", 900))))
    }),
    mechanism("md-formula-matrix", MD, Aim::Memory, || {
        text(format!(
            "$$\\begin{{matrix}}{}\\end{{matrix}}$$",
            times("a & ", 1_900)
        ))
    }),
    mechanism("md-formula-of-macros", MD, Aim::Memory, || {
        text(format!("$${}$$", times("\\sqrt", 900)))
    }),
    mechanism("md-formula-never-closed", MD, Aim::Time, || {
        text(times("$a", 60_000))
    }),
    mechanism("md-formula-that-reaches-out", MD, Aim::Reach, || {
        text("$\\input{/etc/passwd}\\include{/etc/passwd}\\href{file:///etc/passwd}{x}$ and `#read(\"/etc/passwd\")` #include \"/etc/passwd\"".to_owned())
    }),
    mechanism("md-typst-in-text", MD, Aim::Reach, || {
        text(
            "#let x = read(\"/etc/passwd\"); #x #eval(\"1\") #image(\"/etc/passwd\") $ sys.inputs $"
                .to_owned(),
        )
    }),
    mechanism("md-pictures-of-files", MD, Aim::Reach, || {
        text("![x](/etc/passwd) ![y](file:///etc/passwd) ![z](../../../../etc/passwd) ![w](http://127.0.0.1:1/x.png)".to_owned())
    }),
    mechanism("md-front-matter", MD, Aim::Trust, || {
        text(format!(
            "---\n{}\n---\nx",
            each(2_000, |n| format!("a{n}: &a{n} [*a{n}, *a{n}]\n"))
        ))
    }),
    mechanism("md-nulls", MD, Aim::Trust, || {
        text(times("\0\u{fffe}\u{feff}", 2_000))
    }),
    mechanism("md-tabs", MD, Aim::Time, || {
        text(each(2_000, |n| format!("{}x\n", times("\t", n % 600))))
    }),
    mechanism("md-one-heading-without-end", MD, Aim::Time, || {
        text(format!("# {}", times("w ", 400_000)))
    }),
    mechanism("html-nested-inline-blocks", HTML, Aim::Time, || {
        text(times("<span style='display:inline-block'>a", 400) + "x")
    }),
    mechanism("html-nested-lists-with-counters", HTML, Aim::Time, || {
        text(times("<ol style='counter-reset:a'><li>", 400) + "x")
    }),
    mechanism("html-floats", HTML, Aim::Time, || {
        text(times("<div style='float:left;width:1px'>x</div>", 20_000))
    }),
    mechanism("html-absolute-boxes", HTML, Aim::Memory, || {
        text(times(
            "<div style='position:absolute;left:1000000px'>x</div>",
            20_000,
        ))
    }),
    mechanism("html-lengths-beyond-all", HTML, Aim::Trust, || {
        text(
            "<div style='width:1e39px;height:99999999999px;margin:-1e38px;font-size:1e30px'>x</div>"
                .to_owned(),
        )
    }),
    mechanism("html-columns-without-end", HTML, Aim::Memory, || {
        text("<div style='columns:1000000'>".to_owned() + &times("<p>x", 2_000))
    }),
    mechanism("html-grid-without-end", HTML, Aim::Memory, || {
        text("<div style='display:grid;grid-template-columns:repeat(1000000,1fr);grid-column:span 1000000'><p>x</div>".to_owned())
    }),
    mechanism("html-calculations-in-calculations", HTML, Aim::Stack, || {
        text(format!(
            "<p style='width:{}1px{}'>x",
            times("calc(1px + ", 3_000),
            times(")", 3_000)
        ))
    }),
    mechanism("html-selectors-in-selectors", HTML, Aim::Stack, || {
        text(format!(
            "<style>{}p{} {{color:red}}</style><p>x",
            times(":not(", 3_000),
            times(")", 3_000)
        ))
    }),
    mechanism("html-media-in-media", HTML, Aim::Stack, || {
        text(format!(
            "<style>{}p{{color:red}}{}</style><p>x",
            times("@media all{", 5_000),
            times("}", 5_000)
        ))
    }),
    mechanism("html-style-never-closed", HTML, Aim::Time, || {
        text("<style>".to_owned() + &times("a{b:c;", 60_000))
    }),
    mechanism("html-inline-style-without-end", HTML, Aim::Time, || {
        text(format!("<p style='{}'>x", times("color:red;", 80_000)))
    }),
    mechanism("html-picture-in-its-address", HTML, Aim::Memory, || {
        text(format!(
            "<img src='data:image/svg+xml,{}'>",
            times("%3Csvg%3E", 80_000)
        ))
    }),
    mechanism("html-many-pictures-in-addresses", HTML, Aim::Memory, || {
        text(times("<img src='data:image/png;base64,iVBORw0KGgo='>", 8_000))
    }),
    mechanism("html-templates", HTML, Aim::Stack, || {
        text(times("<template><div>", 2_000) + "x")
    }),
    mechanism("html-noscript-that-ends-itself", HTML, Aim::Reach, || {
        text("<noscript><p title='</noscript><img src=file:///etc/passwd>'></noscript><p>x".to_owned())
    }),
    mechanism("html-plain-text", HTML, Aim::Trust, || {
        text("<plaintext>".to_owned() + &times("</plaintext><script>", 5_000))
    }),
    mechanism("html-form-controls", HTML, Aim::Time, || {
        text(times("<input><select><option>x</select><textarea>", 8_000))
    }),
    mechanism("html-ruby", HTML, Aim::Time, || {
        text(times("<ruby>a<rt>b", 3_000))
    }),
    mechanism("html-math", HTML, Aim::Stack, || {
        text(times("<math><mrow><msup>", 800) + "x")
    }),
    mechanism("html-meta-refresh", HTML, Aim::Reach, || {
        text("<meta http-equiv=refresh content='0;url=file:///etc/passwd'><base href='file:///etc/'><link rel=stylesheet href=passwd><p>x".to_owned())
    }),
];

fn text(text: String) -> Vec<u8> {
    text.into_bytes()
}
