//! Trees of markdown, code, tables and differences.

use annals_render::tree::{TREE_MAX_BYTES, TreeRequest, draw, left_out};
use serde_json::{Value, json};

fn markdown(text: &str) -> String {
    draw(&TreeRequest::Markdown {
        text: text.to_owned(),
    })
    .to_string()
}

#[test]
fn markdown_becomes_tags_that_say_what_things_are() {
    let tree =
        markdown("# Title\n\nRevenue **up** [[S:1]], see [it](https://example.org).\n\n- [x] done\n- open");
    assert_eq!(
        tree,
        r#"[["h1",null,"Title"],["p",null,"Revenue ",["strong",null,"up"]," ",["cite",{"sids":[1]}],", see ",["a",{"href":"https://example.org"},"it"],"."],["ul",null,["li",{"checked":true},"done"],["li",null,"open"]]]"#
    );
}

#[test]
fn tables_keep_their_alignment_and_code_its_kinds_of_words() {
    let tree = markdown("| a | b |\n|---|---:|\n| 1 | 2 |");
    assert!(tree.contains(r#"["th",{"align":"right"},"b"]"#), "{tree}");
    let tree = draw(&TreeRequest::Code {
        text: "def f(): # why\n    return 'x'".to_owned(),
        language: "py".to_owned(),
    });
    let tree = tree.to_string();
    for (class, word) in [
        ("keyword", "def"),
        ("function", "f"),
        ("comment", "# why"),
        ("string", "x"),
    ] {
        assert!(
            tree.contains(&format!(r#"["span",{{"class":"{class}"}}"#)),
            "{class} {tree}"
        );
        assert!(tree.contains(word), "{word} {tree}");
    }
}

#[test]
fn no_character_of_code_is_lost() {
    fn text(value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().skip(2).map(text).collect(),
            _ => String::new(),
        }
    }
    for language in ["rust", "py", "json", "md", "nothing", ""] {
        let code = "fn main() {\n\tlet é = \"a\\n\";\n}\n\n/* open";
        let tree = draw(&TreeRequest::Code {
            text: code.to_owned(),
            language: language.to_owned(),
        });
        assert_eq!(text(&tree), code, "{language}");
    }
}

#[test]
fn separated_values_keep_quotes_and_say_how_many_rows_there_are() {
    let rows = "2,3\n".repeat(3000);
    let tree = draw(&TreeRequest::Table {
        text: format!("name,\"a, \"\"b\"\"\nc\"\n{rows}"),
        separator: ',',
    });
    assert_eq!(tree["columns"], json!(["name", "a, \"b\"\nc"]));
    assert_eq!(tree["total"], json!(3000));
    assert!(tree["rows"].as_array().is_some_and(|rows| rows.len() < 3000));
}

#[test]
fn a_difference_has_numbered_lines_and_counts() {
    let tree = draw(&TreeRequest::Difference {
        before: "a\nb\nc\n".to_owned(),
        after: "a\nB\nc\n".to_owned(),
    });
    assert_eq!(tree["added"], json!(1));
    assert_eq!(tree["removed"], json!(1));
    assert_eq!(
        tree["hunks"][0]["lines"],
        json!([
            [" ", "a", 1, 1],
            ["-", "b", 2, null],
            ["+", "B", null, 2],
            [" ", "c", 3, 3]
        ])
    );
}

#[test]
fn what_is_too_long_is_cut_and_counted() {
    let long = "é".repeat(TREE_MAX_BYTES);
    assert_eq!(left_out(&long), TREE_MAX_BYTES);
    assert!(markdown(&long).len() < TREE_MAX_BYTES + 100);
}
