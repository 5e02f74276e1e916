//! An HTML page as markdown that is worth reading.
//!
//! First the article that a reader would see; when that loses much of the page (tables, lists, front pages), the
//! whole body without its furniture. Nothing is fetched and no script runs. Hostile nesting is read as plain text.

use dom_query::{Document, NodeRef};
use dom_smoothie::{Config, Readability};
use htmd::HtmlToMarkdown;
use htmd::options::{BulletListMarker, Options};
use url::Url;

/// Of a larger page only this many bytes are read.
const PAGE_MAX_BYTES: usize = 4_000_000;
/// Elements within elements that are followed; deeper pages are read as plain text.
const DEPTH_MAX: usize = 400;
/// Open tags within open tags, counted roughly, that are worth building a tree of.
const OPEN_TAGS_MAX: usize = 4_000;
/// The article must keep at least one in this number of characters, else the whole body is read.
const LOST_RATIO: usize = 3;

/// What no reader reads.
const NOISE: &str = "script, style, noscript, template, iframe, object, embed, svg, canvas, link, meta, \
    input, button, select, textarea, nav, dialog, [role='navigation'], [role='search'], [role='dialog'], \
    img[src^='data:'], [hidden], [aria-hidden='true']";
/// What surrounds the content of a page. Articles have headers and footers of their own, so this goes only where
/// no article stands out.
const FURNITURE: &str = "header, footer, aside, [role='banner'], [role='contentinfo']";

/// A page that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Its title; empty when it has none.
    pub title: String,
    pub markdown: String,
    /// How many bytes of it were read, when it goes on after them.
    pub cut_after_bytes: Option<usize>,
}

/// Reads a page that was found at `url`; of a very long one, its beginning.
pub fn read(html: &str, url: &Url) -> Page {
    read_up_to(PAGE_MAX_BYTES, html, url)
}

fn read_up_to(max_bytes: usize, html: &str, url: &Url) -> Page {
    let begin = &html[..annals_core::view::cut::floor_char_boundary(html, max_bytes)];
    Page {
        cut_after_bytes: (begin.len() < html.len()).then_some(begin.len()),
        ..read_all(begin, url)
    }
}

fn read_all(html: &str, url: &Url) -> Page {
    if open_tags(html) > OPEN_TAGS_MAX {
        return Page {
            markdown: without_tags(html),
            ..Page::default()
        };
    }
    let document = Document::from(html);
    let title = tidy(&document.select_single("title").text());
    if is_too_deep(&document.root()) {
        return Page {
            title,
            markdown: without_tags(html),
            ..Page::default()
        };
    }
    document.select(NOISE).remove();
    absolutise(&document, url);
    let body_chars = visible_chars(&document.select_single("body").text());
    let (article_title, article) = article(&document, url);
    let markdown = match article {
        Some(article) if visible_chars(&article) * LOST_RATIO >= body_chars => article,
        _ => {
            document.select(FURNITURE).remove();
            markdown(&document.select_single("body").html())
        }
    };
    Page {
        title: if title.is_empty() { article_title } else { title },
        markdown,
        ..Page::default()
    }
}

/// The article of a page as markdown, if one stands out.
fn article(document: &Document, url: &Url) -> (String, Option<String>) {
    let config = Config {
        max_elements_to_parse: 0,
        ..Config::default()
    };
    let reader = Readability::with_document(document.clone(), Some(url.as_str()), Some(config));
    match reader.and_then(|mut reader| reader.parse()) {
        Ok(article) => (tidy(&article.title), Some(markdown(&article.content))),
        Err(_) => (String::new(), None),
    }
}

fn markdown(html: &str) -> String {
    let options = Options {
        bullet_list_marker: BulletListMarker::Dash,
        ..Options::default()
    };
    let converter = HtmlToMarkdown::builder()
        .options(options)
        .scripting_enabled(false)
        .build();
    converter
        .convert(html)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Links and pictures as whole addresses, so that they can be followed from elsewhere.
fn absolutise(document: &Document, url: &Url) {
    for (selector, attribute) in [("a[href]", "href"), ("img[src]", "src")] {
        for node in document.select(selector).nodes() {
            let Some(reference) = node.attr(attribute) else {
                continue;
            };
            // A place on this page, or a script: the text is all there is to it.
            if reference.starts_with('#')
                || reference
                    .trim_start()
                    .to_ascii_lowercase()
                    .starts_with("javascript:")
            {
                node.remove_attr(attribute);
            } else if let Ok(whole) = url.join(&reference) {
                node.set_attr(attribute, whole.as_str());
            }
        }
    }
}

/// Walks without recursion, because depth is what is in question.
fn is_too_deep(root: &NodeRef<'_>) -> bool {
    let mut level: Vec<NodeRef<'_>> = vec![*root];
    for _ in 0..DEPTH_MAX {
        level = level.iter().flat_map(NodeRef::children).collect();
        if level.is_empty() {
            return false;
        }
    }
    true
}

/// About how deep a page nests, in one pass. Building the tree of a page with a hundred thousand open tags takes
/// time in their square, so this is asked before.
fn open_tags(html: &str) -> usize {
    const CLOSE_THEMSELVES: &[&str] = &[
        "area", "base", "body", "br", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html", "img",
        "input", "li", "link", "meta", "optgroup", "option", "p", "param", "rp", "rt", "source", "tbody",
        "td", "tfoot", "th", "thead", "tr", "track", "wbr",
    ];
    let (mut open, mut most) = (0_usize, 0);
    for piece in html.split('<').skip(1) {
        let (is_end, piece) = piece
            .strip_prefix('/')
            .map_or((false, piece), |piece| (true, piece));
        let length = piece.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let name = piece[..length].to_ascii_lowercase();
        if length == 0 || CLOSE_THEMSELVES.contains(&name.as_str()) {
            continue;
        }
        open = if is_end { open.saturating_sub(1) } else { open + 1 };
        most = most.max(open);
    }
    most
}

/// The text of a page that is not worth a tree: everything between tags.
fn without_tags(html: &str) -> String {
    let pieces = html
        .split('<')
        .map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text).trim());
    pieces
        .filter(|text| !text.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

fn visible_chars(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

fn tidy(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url() -> Url {
        Url::parse("https://example.com/a/page.html").unwrap()
    }

    #[test]
    fn an_article_is_read_without_the_page_around_it() {
        let paragraph =
            ["The quick brown fox jumps over the lazy dog, again and again, until it rests."; 8].join(" ");
        let html = format!(
            "<html><head><title>Foxes  | Site</title><script>var x = '<p>no</p>'</script></head><body>\
             <nav><a href='/'>Home</a><a href='/about'>About</a></nav>\
             <article><h1>Foxes</h1><p>{paragraph}</p><p>See <a href='../b?q=1#x'>more</a> and \
             <a href='javascript:alert(1)'>this</a>.</p><img src='fox.png' alt='A fox'>\
             <img src='data:image/png;base64,AAAA' alt='pixel'><p>{paragraph}</p>\
             <pre><code>let x = 1;\nlet y = 2;</code></pre></article>\
             <footer>© 2026 Site, all rights reserved</footer></body></html>"
        );
        let page = read(&html, &url());
        assert_eq!(page.title, "Foxes | Site");
        let text = page.markdown.replace(&paragraph, "(paragraph)");
        insta::assert_snapshot!(text, @r#"
        (paragraph)

        See [more](https://example.com/b?q=1#x) and this.

        ![A fox](https://example.com/a/fox.png)

        (paragraph)

        ```
        let x = 1;
        let y = 2;
        ```
        "#);
    }

    #[test]
    fn a_page_of_data_keeps_its_table() {
        let rows: String = (0..40)
            .map(|n| format!("<tr><td>City {n}</td><td>{}</td></tr>", n * 1000))
            .collect();
        let html = format!(
            "<body><nav>Menu</nav><p>Some words about the table that follows here.</p>\
             <table><thead><tr><th>City</th><th align=right>People</th></tr></thead>{rows}</table></body>"
        );
        let page = read(&html, &url());
        assert!(page.markdown.contains("City 39"), "{}", page.markdown);
        assert!(page.markdown.contains("| City"), "{}", page.markdown);
        assert!(!page.markdown.contains("Menu"));
    }

    #[test]
    fn hostile_nesting_is_read_as_plain_text() {
        let deep = format!("<title>t</title>{}word", "<div>".repeat(500_000));
        assert_eq!(read(&deep, &url()).markdown, "t\nword");
        let hidden = format!("{}word", "<div><!--</div>-->".repeat(1_000));
        assert!(read(&hidden, &url()).markdown.contains("word"));
        let lists = format!("{}word{}", "<ul><li>".repeat(300), "</ul>".repeat(300));
        assert!(read(&lists, &url()).markdown.contains("word"));
    }

    #[test]
    fn of_a_page_that_is_too_long_the_beginning_is_read() {
        let html = format!("<p>{}</p><p>the end</p>", "word ".repeat(30));
        let page = read_up_to(58, &html, &url());
        assert_eq!(page.cut_after_bytes, Some(58));
        assert!(page.markdown.ends_with("word"), "{}", page.markdown);
        let whole = read_up_to(html.len(), &html, &url());
        assert_eq!(whole.cut_after_bytes, None);
        assert!(whole.markdown.ends_with("the end"), "{}", whole.markdown);
    }

    #[test]
    fn odd_pages_give_what_they_have() {
        for html in [
            "",
            "<",
            "<html>",
            "plain words",
            "<body></body>",
            "<title>x</title>",
            "\u{0}<p>a\u{0}b",
        ] {
            read(html, &url());
        }
        assert_eq!(read("plain words", &url()).markdown, "plain words");
        assert_eq!(read("<p>a</p><p>b</p>", &url()).markdown, "a\n\nb");
    }
}
