//! Both readers of schemas against each other: what the small one reads, it must judge as the whole standard does.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Misfit, Misfits, full, plain};

/// What both say of a value: the misfits in no particular order, because the crate's depends on which checks it has merged.
fn both(schema: &Value, value: &Value) -> Option<[Vec<Misfit>; 2]> {
    let node = plain::Node::read(schema).ok()?;
    let checker = full::Checker::new(schema);
    let checker = checker.unwrap_or_else(|error| panic!("read, though it is no schema: {error}: {schema}"));
    assert_eq!(node.fits(value), checker.is_valid(value), "{schema} of {value}");
    let sorted = |Misfits { mut shown, more }| {
        assert_eq!(more, 0);
        shown.sort_by_key(|misfit: &Misfit| (misfit.path.clone(), misfit.said.clone()));
        shown
    };
    let found = [
        sorted(node.misfits(value, usize::MAX)),
        sorted(checker.misfits(value, usize::MAX)),
    ];
    assert_eq!(found[0].is_empty(), node.fits(value), "{schema} of {value}");
    Some(found)
}

fn agree(schema: &Value, value: &Value) {
    if let Some([ours, theirs]) = both(schema, value) {
        assert_eq!(ours, theirs, "{schema} of {value}");
    }
}

fn values() -> Vec<Value> {
    let mut values = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-0.0),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(-3),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(9_007_199_254_740_993_i64),
        json!(9_007_199_254_740_992.0),
        json!(1e300),
        json!(-1e300),
        json!(""),
        json!("a"),
        json!("é🙂"),
        json!("null"),
        json!([]),
        json!([1, 1.0]),
        json!([1, "1", null, [], {}]),
        json!([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}]),
        json!([[1, 2], [2, 1]]),
        json!({}),
        json!({"a": 1}),
        json!({"a": "x", "b": null}),
        json!({"a/b~c": 1, "é": []}),
    ];
    let nested = values.clone();
    values.extend(nested.iter().map(|value| json!([value])));
    values.extend(nested.iter().map(|value| json!({"a": value, "c": 1})));
    values
}

fn schemas() -> Vec<Value> {
    vec![
        json!(true),
        json!(false),
        json!({}),
        json!({"type": "integer", "format": "int64", "minimum": 0}),
        json!({"type": "number", "minimum": 0.5, "exclusiveMaximum": 1.5}),
        json!({"type": "number", "exclusiveMinimum": 1, "maximum": 9_007_199_254_740_992_i64}),
        json!({"maximum": 9_007_199_254_740_992.0, "minimum": -1e300}),
        json!({"maximum": u64::MAX, "exclusiveMinimum": i64::MIN}),
        json!({"type": ["string", "null"]}),
        json!({"type": ["string"]}),
        json!({"type": ["object", "integer", "array"]}),
        json!({"type": "string", "minLength": 1, "maxLength": 1}),
        json!({"type": "string", "minLength": 2}),
        json!({"type": "string", "format": "email"}),
        json!({"format": "date-time", "nullable": true}),
        json!({"format": "uint8"}),
        json!({"enum": ["a"]}),
        json!({"enum": ["a", "b"]}),
        json!({"enum": ["a", null, true]}),
        json!({"type": "string", "enum": ["a", "b", "c", "d", "e"]}),
        json!({"enum": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]}),
        json!({"const": "a"}),
        json!({"const": null}),
        json!({"const": false, "type": "boolean"}),
        json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}),
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        json!({"uniqueItems": true}),
        json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2}),
        json!({"prefixItems": [{"type": "integer"}], "items": false}),
        json!({"prefixItems": [{"type": "integer"}], "items": {"type": "null"}}),
        json!({"items": true, "prefixItems": [false]}),
        json!({"minProperties": 1, "maxProperties": 1}),
        json!({"minProperties": 2}),
        json!({"properties": {"a": {"type": "integer"}}}),
        json!({"properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a", "b"], "additionalProperties": false}),
        json!({"properties": {"a": true, "b": false}, "required": ["b", "c", "d"], "additionalProperties": {"type": "integer"}}),
        json!({"additionalProperties": {"type": "array"}}),
        json!({"additionalProperties": false}),
        json!({"additionalProperties": true, "properties": {"a": false}}),
        json!({"allOf": [{"type": "object"}, {"required": ["b"]}]}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"anyOf": [{"const": "a"}, {"type": "object", "properties": {"a": {"const": 1}}}]}),
        json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}),
        json!({"oneOf": [{"type": "string", "const": "a"}, {"type": "object", "required": ["a"], "additionalProperties": false, "properties": {"a": {"type": "integer"}}}]}),
        json!({"oneOf": [{"type": "object", "properties": {"a": {"const": "x"}}, "required": ["a"]}, {"type": "object", "properties": {"a": {"const": "y"}}, "required": ["a"]}]}),
        json!({"title": "t", "description": "d", "default": 1, "examples": [1], "deprecated": true, "x-note": {"type": 1}, "$comment": ""}),
        json!({"properties": {"a/b~c": {"type": "string"}, "é": {"items": {"type": "null"}, "minItems": 1}}}),
    ]
}

#[test]
fn the_small_reader_and_the_whole_standard_say_the_same() {
    for schema in schemas() {
        assert!(
            plain::Node::read(&schema).is_ok() || schema.to_string().contains("\"const\":1"),
            "{schema}"
        );
        for value in values() {
            agree(&schema, &value);
            agree(&json!({"properties": {"a": schema}, "items": schema}), &value);
        }
    }
}

#[test]
fn what_the_small_reader_cannot_judge_it_does_not_read() {
    for schema in [
        json!(7),
        json!({"type": "text"}),
        json!({"type": []}),
        json!({"type": ["null", "null"]}),
        json!({"enum": [1]}),
        json!({"enum": []}),
        json!({"const": [1]}),
        json!({"required": "a"}),
        json!({"required": ["a", "a"]}),
        json!({"minLength": -1}),
        json!({"minimum": "1"}),
        json!({"title": 1}),
        json!({"properties": []}),
        json!({"anyOf": []}),
        json!({"items": [{}]}),
        json!({"pattern": "a"}),
        json!({"$ref": "#"}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
        json!({"properties": {"a": {"items": {"not": {}}}}}),
    ] {
        assert!(plain::Node::read(&schema).is_err(), "{schema}");
    }
    let beyond = plain::Node::read(&json!({"properties": {"a/b": {"anyOf": [{}, {"pattern": "x"}]}}}));
    let beyond = beyond.unwrap_err();
    assert_eq!(
        (&*beyond.keyword, &*beyond.place),
        ("pattern", "/properties/a~1b/anyOf/1")
    );
}

mod derived {
    #![expect(dead_code, reason = "only the schemas are of interest")]

    use std::collections::{BTreeMap, HashSet};

    use schemars::JsonSchema;

    #[derive(JsonSchema)]
    pub(super) struct Arguments {
        a: u8,
        b: Option<String>,
        c: Vec<Part>,
        d: BTreeMap<String, f64>,
        e: HashSet<char>,
        f: (i64, bool),
        g: [u16; 2],
        #[serde(default)]
        h: Colour,
        i: Option<Colour>,
        j: Tagged,
        k: Untagged,
        l: Box<Option<Vec<Option<i32>>>>,
        m: std::num::NonZeroU32,
        n: (),
        o: serde_json::Value,
        p: std::path::PathBuf,
        #[schemars(range(min = 1, max = 5.5), description = "between")]
        q: f32,
        #[schemars(length(min = 1, max = 3))]
        r: String,
    }

    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Part {
        a: usize,
        b: Outer,
    }

    #[derive(JsonSchema, Default)]
    #[serde(rename_all = "lowercase")]
    enum Colour {
        /// Like fire.
        #[default]
        Red,
        Green,
    }

    #[derive(JsonSchema)]
    enum Outer {
        A,
        B(i32),
        C { a: bool },
    }

    #[derive(JsonSchema)]
    #[serde(tag = "a")]
    enum Tagged {
        A { b: i32 },
        B,
    }

    #[derive(JsonSchema)]
    #[serde(untagged)]
    enum Untagged {
        A(String),
        B { a: i32 },
    }
}

#[test]
fn what_rust_types_derive_is_read() {
    let spec = crate::ToolSpec::builder("typed").typed::<derived::Arguments>();
    let spec = spec.build().unwrap();
    let schema = spec.parameters();
    let read = plain::Node::read(schema);
    assert!(read.is_ok(), "{read:?}: {schema}");
    for value in values() {
        agree(schema, &value);
        for (name, part) in spec.properties().unwrap() {
            agree(part, &value);
            agree(schema, &json!({ name: value }));
        }
    }
}

/// They are made without a chance to fail, so their schemas must do with what is always there.
#[test]
fn every_built_in_tool_does_with_the_small_reader() {
    let tools = [crate::react::all(), crate::system::all(), crate::exec::all()].concat();
    #[cfg(feature = "web")]
    let tools = {
        let settings = crate::web::WebSettings::read(|_| None).unwrap();
        [tools, crate::web::all(settings, &annals_content::Content::new())].concat()
    };
    #[cfg(feature = "documents")]
    let tools = [tools, crate::rendering::all(&annals_content::Content::new())].concat();
    assert!(tools.len() > 15);
    for tool in tools {
        let read = plain::Node::read(tool.spec().parameters());
        assert!(read.is_ok(), "{}: {read:?}", tool.spec().name());
    }
}

#[test]
fn only_as_many_misfits_are_described_as_are_wanted() {
    let schema = json!({"items": {"type": "string"}});
    for reader in [
        schema.clone(),
        json!({"items": {"type": "string"}, "not": {"type": "null"}}),
    ] {
        let misfits = super::Schema::new(&reader)
            .unwrap()
            .misfits(&json!([1, 2, 3, 4]), 3);
        assert_eq!((misfits.shown.len(), misfits.more), (3, 1), "{reader}");
    }
}

/// Definitions that each lead to the next, in a form given by what leads there.
fn chain(length: usize, step: impl Fn(Value) -> Value, last: Value) -> Value {
    let name = |at: usize| format!("a{at}");
    let mut definitions = serde_json::Map::new();
    for at in 0..length {
        let next = json!({"$ref": format!("#/$defs/{}", name(at + 1))});
        definitions.insert(name(at), step(next));
    }
    definitions.insert(name(length), last);
    json!({"$ref": "#/$defs/a0", "$defs": definitions})
}

fn refused(schema: &Value) -> String {
    super::Schema::new(schema).unwrap_err().to_string()
}

#[test]
fn a_schema_that_asks_for_too_much_is_refused_by_name() {
    let doubling: [fn(Value) -> Value; 4] = [
        |next| json!({"allOf": [next, next]}),
        |next| json!({"anyOf": [next, next]}),
        |next| json!({"oneOf": [next, {"not": next}]}),
        |next| json!({"if": next, "then": next, "else": next}),
    ];
    for step in doubling {
        let schema = chain(40, step, json!(false));
        assert!(schema.to_string().len() < 5_000);
        let said = refused(&schema);
        assert!(
            said.contains("more than 10000 checks of the same value"),
            "{said}"
        );
    }
    let circle = json!({"allOf": [{"$ref": "#"}]});
    assert!(refused(&circle).contains("ways back"), "{}", refused(&circle));
    let many = json!({"allOf": vec![json!({"$ref": "#/$defs/a"}); 1_001], "$defs": {"a": true}});
    assert!(refused(&many).contains("1000 references"), "{}", refused(&many));
    let patterns: Vec<Value> = (0..300).map(|n| json!({"pattern": format!("a{n}")})).collect();
    let patterns = json!({"allOf": patterns});
    assert!(
        refused(&patterns).contains("200 regular expressions"),
        "{}",
        refused(&patterns)
    );
    let long = json!({"pattern": "a", "description": "x".repeat(300_000)});
    assert!(refused(&long).contains("262144 bytes"), "{}", refused(&long));
    let huge_pattern = json!({"pattern": "((a{1000}){1000}){1000}"});
    assert!(super::Schema::new(&huge_pattern).is_err());
    let elsewhere = json!({"$ref": "https://example.com/schema.json"});
    assert!(
        refused(&elsewhere).contains("names nothing in the schema"),
        "{}",
        refused(&elsewhere)
    );
}

/// Each part of the value doubles the visits: nothing of it shows in the schema alone.
#[test]
fn a_value_whose_check_would_take_too_long_is_refused_by_name() {
    let node = json!({"$ref": "#/$defs/node"});
    let twice = json!({"allOf": [{"properties": {"x": node}}, {"properties": {"x": node}}]});
    let schema = json!({"$ref": "#/$defs/node", "$defs": {"node": twice}});
    let schema = super::Schema::new(&schema).unwrap();
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"x": inner}));
    assert!(schema.is_valid(&deep(6)));
    let misfits = schema.misfits(&deep(60), 5);
    assert_eq!(misfits.shown.len(), 1);
    assert!(
        misfits.shown[0].said.contains("more than 500000 steps"),
        "{misfits:?}"
    );
    assert!(!schema.is_valid(&deep(60)));
}

#[test]
fn what_people_write_stays_within_the_bounds() {
    let tree = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/tree",
        "type": "object", "properties": {
            "value": {"type": "string", "pattern": "^(?!x)[a-z]+$"},
            "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["value"], "additionalProperties": false});
    let schema = super::Schema::new(&tree).unwrap();
    let leaf = || json!({"value": "a", "children": []});
    let wide = json!({"value": "a", "children": vec![leaf(); 3_000]});
    assert!(schema.is_valid(&wide));
    let deep = (0..50).fold(leaf(), |inner, _| json!({"value": "a", "children": [inner]}));
    assert!(schema.is_valid(&deep));
    assert_eq!(schema.misfits(&json!({"value": "xa"}), 5).shown.len(), 1);

    let expression = json!({"$ref": "#/definitions/e", "definitions": {"e": {"anyOf": [
        {"type": "number"},
        {"type": "object", "properties": {"add": {"type": "array", "items": {"$ref": "#/definitions/e"}}}, "required": ["add"]},
        {"type": "object", "properties": {"neg": {"$ref": "#/definitions/e"}}, "required": ["neg"]}]}}});
    let schema = super::Schema::new(&expression).unwrap();
    let sum = (0..20).fold(json!(1), |inner, n| json!({"add": [inner, n, {"neg": n}]}));
    assert!(schema.is_valid(&sum));

    let named = json!({"$defs": {"a": {"$anchor": "here", "type": "integer"}},
        "allOf": [{"$ref": "#here"}, {"$ref": "#/%24defs/a"}]});
    let schema = super::Schema::new(&named).unwrap();
    assert!(schema.is_valid(&json!(1)) && !schema.is_valid(&json!("a")));
}

/// As long as a chain may be: read, used and dropped on the stack that a test has.
#[test]
fn the_longest_chain_that_is_taken_does_not_overflow_the_stack() {
    let into = |next: Value| json!({"properties": {"x": next}});
    let longest = chain(super::work::REFERENCES_MAX - 1, into, json!({"type": "integer"}));
    let schema = super::Schema::new(&longest).unwrap();
    let value = (0..120).fold(json!(1), |inner, _| json!({"x": inner}));
    assert!(schema.is_valid(&value));
    drop(schema);
    let in_place = chain(250, |next| json!({"allOf": [next]}), json!({"type": "integer"}));
    let schema = super::Schema::new(&in_place).unwrap();
    assert_eq!(schema.misfits(&json!("a"), 3).shown.len(), 1);
}

fn any_number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-3i64..4).prop_map(Value::from),
        (-4i32..5).prop_map(|half| json!(f64::from(half) / 2.0)),
        any::<f64>().prop_map(|real| json!(real)),
        any::<u64>().prop_map(Value::from),
    ]
}

/// Any JSON, small.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any_number(),
        "[ab]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[abc]", inner), 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// Any schema that the small reader may or may not read.
fn any_schema() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec![
        "null", "boolean", "integer", "number", "string", "array", "object",
    ]);
    let keyword = prop_oneof![
        8 => kind.clone().prop_map(|kind| ("type", json!(kind))),
        2 => prop::collection::vec(kind, 1..4).prop_map(|kinds| ("type", json!(kinds))),
        1 => prop::collection::vec(any_value(), 1..5).prop_map(|choices| ("enum", json!(choices))),
        4 => prop::collection::vec("[ab]{0,2}", 1..5).prop_map(|choices| ("enum", json!(choices))),
        1 => any_value().prop_map(|value| ("const", value)),
        4 => "[ab]{0,2}".prop_map(|value| ("const", json!(value))),
        4 => (
            prop::sample::select(vec![
                "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
            any_number()
        ),
        4 => (
            prop::sample::select(vec![
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
                "minProperties",
                "maxProperties"
            ]),
            0u64..3
        )
            .prop_map(|(keyword, limit)| (keyword, json!(limit))),
        2 => any::<bool>().prop_map(|unique| ("uniqueItems", json!(unique))),
        4 => prop::collection::vec("[abc]", 0..4).prop_map(|names| ("required", json!(names))),
    ];
    let object = |keywords: Vec<(&'static str, Value)>| -> Value {
        keywords
            .into_iter()
            .map(|(keyword, value)| (keyword.to_owned(), value))
            .collect()
    };
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Value::from),
        9 => prop::collection::vec(keyword.clone(), 0..4).prop_map(object),
    ];
    leaf.prop_recursive(3, 24, 3, move |inner| {
        let several = prop::collection::vec(inner.clone(), 1..4);
        let fields = prop::collection::vec(("[abc]", inner.clone()), 0..4);
        let applied = prop_oneof![
            fields.prop_map(|fields| ("properties", fields.into_iter().collect::<Value>())),
            inner.clone().prop_map(|schema| ("additionalProperties", schema)),
            inner.prop_map(|schema| ("items", schema)),
            several
                .clone()
                .prop_map(|schemas| ("prefixItems", json!(schemas))),
            several.clone().prop_map(|schemas| ("allOf", json!(schemas))),
            several.clone().prop_map(|schemas| ("anyOf", json!(schemas))),
            several.prop_map(|schemas| ("oneOf", json!(schemas))),
        ];
        prop::collection::vec(prop_oneof![applied, keyword.clone()], 1..5).prop_map(object)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn both_readers_agree_on_any_schema_and_value(
        schema in any_schema(),
        values in prop::collection::vec(any_value(), 16),
    ) {
        values.iter().for_each(|value| agree(&schema, value));
    }
}
