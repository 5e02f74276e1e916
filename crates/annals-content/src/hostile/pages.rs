//! Pages of the web: what makes a tree builder or a converter slow or deep.

use super::{Aim, Mechanism, Reader, each, mechanism, times};

const PAGE: Reader = Reader::Page;

pub(super) const ALL: &[Mechanism] = &[
    mechanism("page-ruby-texts", PAGE, Aim::Time, || {
        text(times("<rt>", 100_000))
    }),
    mechanism("page-ruby-in-ruby", PAGE, Aim::Time, || {
        text(times("<ruby><rt>a", 20_000))
    }),
    mechanism("page-open-divs", PAGE, Aim::Stack, || {
        text(times("<div>", 3_900) + "x")
    }),
    mechanism("page-open-divs-beyond-the-bound", PAGE, Aim::Stack, || {
        text(times("<div>", 400_000) + "x")
    }),
    mechanism("page-misnested-formatting", PAGE, Aim::Time, || {
        text(times("<b><p><i></b>", 20_000))
    }),
    mechanism("page-anchors-never-closed", PAGE, Aim::Time, || {
        text(times("<a href=x>y", 100_000))
    }),
    mechanism("page-fonts-never-closed", PAGE, Aim::Time, || {
        text(each(4_000, |n| format!("<font size={n}>")) + &times("<p>x", 4_000))
    }),
    mechanism("page-nobr", PAGE, Aim::Time, || text(times("<nobr>x", 50_000))),
    mechanism("page-buttons", PAGE, Aim::Time, || {
        text(times("<button><p>", 50_000))
    }),
    mechanism("page-options", PAGE, Aim::Time, || {
        text("<select>".to_owned() + &times("<option>x<optgroup>", 50_000))
    }),
    mechanism("page-tables-in-tables", PAGE, Aim::Stack, || {
        text(times("<table><tr><td>", 1_300) + "x")
    }),
    mechanism("page-text-in-tables", PAGE, Aim::Time, || {
        text("<table>".to_owned() + &times("x<tr>", 60_000))
    }),
    mechanism("page-wide-table", PAGE, Aim::Memory, || {
        text(format!(
            "<table><tr>{}</tr>{}</table>",
            times("<th>a", 3_000),
            times("<tr><td>b", 3_000)
        ))
    }),
    mechanism("page-column-spans", PAGE, Aim::Memory, || {
        text(format!(
            "<table>{}</table>",
            times("<tr><td colspan=1000 rowspan=65534>x", 2_000)
        ))
    }),
    mechanism("page-lists-in-lists", PAGE, Aim::Stack, || {
        text(times("<ul><li>", 1_900) + "x")
    }),
    mechanism("page-quotes-in-quotes", PAGE, Aim::Memory, || {
        text(times("<blockquote><p>x", 1_900))
    }),
    mechanism("page-attributes", PAGE, Aim::Time, || {
        text(format!("<p {}>x", each(100_000, |n| format!("a{n} "))))
    }),
    mechanism("page-classes", PAGE, Aim::Time, || {
        text(each(50, |n| {
            format!("<p class='{}'>x", each(5_000, |m| format!("c{n}-{m} ")))
        }))
    }),
    mechanism("page-paragraphs", PAGE, Aim::Memory, || {
        text(times("<p>x", 300_000))
    }),
    mechanism("page-comment-never-closed", PAGE, Aim::Time, || {
        text(times("<!-", 400_000) + "-")
    }),
    mechanism("page-entities", PAGE, Aim::Memory, || {
        text(times("&CounterClockwiseContourIntegral;&#x1F600;&bogus;", 30_000))
    }),
    mechanism("page-templates", PAGE, Aim::Stack, || {
        text(times("<template><td>", 3_000))
    }),
    mechanism("page-math-and-svg", PAGE, Aim::Stack, || {
        text(times("<math><mi><svg><foreignObject>", 900))
    }),
    mechanism("page-base-and-links", PAGE, Aim::Time, || {
        text("<base href='../../..'>".to_owned() + &times("<a href='../x'>y</a>", 60_000))
    }),
    mechanism("page-script-that-never-ends", PAGE, Aim::Time, || {
        text("<script>".to_owned() + &times("<!--<script>", 100_000))
    }),
    mechanism("page-pre-of-backticks", PAGE, Aim::Time, || {
        text(format!("<pre><code>{}</code></pre>", times("`", 500_000)))
    }),
    mechanism("page-emphasis-in-emphasis", PAGE, Aim::Stack, || {
        text(times("<em><strong>x", 1_900))
    }),
    mechanism("page-frameset", PAGE, Aim::Trust, || {
        text(times("<frameset><frame>", 1_000) + "<noframes>x")
    }),
    mechanism("page-of-nothing", PAGE, Aim::Trust, || text("\0".to_owned())),
    mechanism("page-headings", PAGE, Aim::Time, || text(times("<h1>x", 60_000))),
    mechanism("page-noscript-in-noscript", PAGE, Aim::Stack, || {
        text(times("<noscript>", 3_000))
    }),
    mechanism("page-articles-in-articles", PAGE, Aim::Stack, || {
        text(times("<article><section>", 1_900) + &times("word ", 500))
    }),
    mechanism("page-definition-lists", PAGE, Aim::Stack, || {
        text(times("<dl><dt>a<dd>", 1_900))
    }),
    mechanism("page-images-without-end", PAGE, Aim::Memory, || {
        text(times("<img src=x.png alt=y>", 60_000))
    }),
    mechanism("page-link-addresses-without-end", PAGE, Aim::Memory, || {
        text(format!("<a href='{}'>x</a>", times("../", 400_000)))
    }),
    mechanism("page-data-addresses", PAGE, Aim::Memory, || {
        text(format!(
            "<img src='data:image/png;base64,{}'>",
            times("A", 1_500_000)
        ))
    }),
    mechanism("page-hidden-text", PAGE, Aim::Time, || {
        text(times("<p hidden style='display:none'>x", 60_000))
    }),
    mechanism("page-commas-that-score", PAGE, Aim::Time, || {
        text(times("<div><p>a,b,c,d,e,f", 20_000))
    }),
    mechanism("page-json-in-a-script", PAGE, Aim::Stack, || {
        text(format!(
            "<script type='application/ld+json'>{}</script><p>x",
            times("{\"a\":[", 50_000)
        ))
    }),
    mechanism("page-metadata-without-end", PAGE, Aim::Time, || {
        text(times("<meta property='og:title' content='x'>", 60_000))
    }),
    mechanism("page-titles-without-end", PAGE, Aim::Memory, || {
        text(format!("<title>{}</title><p>x", times("t ", 600_000)))
    }),
    mechanism("page-characters-outside", PAGE, Aim::Trust, || {
        text(times("&#x110000;&#xD800;&#0;&#xFFFFFFFF;", 20_000))
    }),
    mechanism("page-processing-instructions", PAGE, Aim::Time, || {
        text(times("<?php x ?>", 80_000))
    }),
    mechanism("page-unknown-elements", PAGE, Aim::Time, || {
        text(each(60_000, |n| format!("<x-{n}>")))
    }),
    mechanism("page-slashes-in-tags", PAGE, Aim::Time, || {
        text(times("<p / / / / / / / / / / / /", 40_000))
    }),
    mechanism("page-breaks", PAGE, Aim::Memory, || text(times("<br>", 300_000))),
    mechanism("page-details-in-details", PAGE, Aim::Stack, || {
        text(times("<details><summary>x", 1_900))
    }),
];

fn text(text: String) -> Vec<u8> {
    text.into_bytes()
}
