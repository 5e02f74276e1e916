//! What a program without features is told when it needs one.

use annals::prelude::*;
use annals::store::preflight::check_attachment;
use annals::tools::ToolSpec;

#[test]
fn a_schema_that_is_not_built_in_names_its_feature() {
    let parameters = |word: Value| json!({"type": "object", "properties": {"word": word}});
    let spec = |word| ToolSpec::builder("spell").parameters(parameters(word)).build();
    assert!(spec(json!({"type": "string", "maxLength": 9})).is_ok());
    let refused = spec(json!({"type": "string", "pattern": "^[a-z]+$"}))
        .unwrap_err()
        .to_string();
    assert!(refused.contains("`pattern` at `/properties/word`"), "{refused}");
    assert!(refused.contains("feature `json-schema`"), "{refused}");
}

#[test]
fn an_attachment_that_has_to_be_parsed_names_the_feature_that_does() {
    assert!(check_attachment("a.txt", b"text").is_ok());
    for bytes in [&b"PK\x03\x04"[..], b"%PDF-1.7"] {
        let refused = check_attachment("a", bytes).unwrap_err().to_string();
        assert!(refused.contains("feature `local-sandbox`"), "{refused}");
    }
}
