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

#[test]
fn a_list_of_plain_objects_is_a_table_and_other_json_is_code() {
    let json = |text: &str| {
        draw(&TreeRequest::Json {
            text: text.to_owned(),
        })
    };
    let table = json(r#"[{"city":"Oslo","people":709000},{"city":"Bergen","rain":true,"note":null}]"#);
    assert_eq!(
        table,
        json!({
            "columns": ["city", "people", "rain", "note"],
            "rows": [["Oslo", "709000", "", ""], ["Bergen", "", "true", ""]],
            "total": 2,
        })
    );
    for text in [
        r#"{"a": 1}"#,
        r#"[1, 2, 3]"#,
        r#"[{"a": [1]}, {"a": [2]}]"#,
        r#"[{"a": 1}]"#,
        "[{}, {}]",
        "{ not json",
    ] {
        assert_eq!(json(text)[0], "pre", "{text}");
    }
}

#[test]
fn prose_that_arrives_grows_and_never_changes_its_form() {
    const ANSWER: &str = "# Sales\n\nRevenue is **up** by `12 %`, see [the table](https://example.org/t) and [[S:1]].\n\n\
        - first *item*\n- second\n  1. inner\n\n| month | units |\n|---|---:|\n| May | 12 |\n| June | 14 |\n\n\
        ```py\nprint('x')\n```\n\n> quoted\n\nLast words.";
    let drawn = |text: &str| {
        let tree = draw(&TreeRequest::Arriving {
            text: text.to_owned(),
        });
        tree.as_array().cloned().unwrap_or_default()
    };
    let mut before: Vec<Value> = Vec::new();
    for (end, _) in ANSWER.char_indices().chain([(ANSWER.len(), ' ')]) {
        let now = drawn(&ANSWER[..end]);
        let shown = Value::Array(now.clone()).to_string();
        for mark in [
            "**", "*item", "](", "[[S", "|--", "| month", "```", "# Sales", "> q",
        ] {
            assert!(!shown.contains(mark), "{mark} in {shown}");
        }
        // Only the last part grows, and it stays what it is; a list or a table may take the place of nothing.
        let settled = before.len().saturating_sub(1);
        assert_eq!(now.get(..settled), before.get(..settled), "{:?}", &ANSWER[..end]);
        if let (Some(old), Some(new)) = (before.last(), now.get(settled)) {
            assert_eq!(old[0], new[0], "{:?}", &ANSWER[..end]);
        }
        before = now;
    }
    let whole = draw(&TreeRequest::Markdown {
        text: ANSWER.to_owned(),
    });
    assert_eq!(Value::Array(before), whole);
}
