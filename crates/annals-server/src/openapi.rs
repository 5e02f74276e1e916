//! The API document: OpenAPI 3.1, made from the table of routes and the types of their bodies.

use axum::Json;
use http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::door::Access;
use crate::problem::Code;
use crate::routes::{Route, table};

/// What a route takes and gives.
#[derive(Default)]
pub(crate) struct Doc {
    pub(crate) summary: &'static str,
    /// Names and meanings of the parameters in the query.
    pub(crate) query: &'static [(&'static str, &'static str)],
    pub(crate) takes: Option<SchemaOf>,
    /// Other forms of the body than JSON.
    pub(crate) also_takes: Option<&'static str>,
    pub(crate) gives: Given,
    pub(crate) errors: ErrorForm,
}

/// The form in which a route says what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// `application/problem+json`.
    #[default]
    Problem,
    /// As clients of OpenAI's API expect it.
    OpenAi,
}

impl ErrorForm {
    fn content(self) -> Value {
        match self {
            ErrorForm::Problem => {
                json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}})
            }
            ErrorForm::OpenAi => {
                json!({"application/json": {"schema": {"$ref": "#/components/schemas/OpenAiError"}}})
            }
        }
    }
}

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a route answers when it is done.
#[derive(Default)]
pub(crate) enum Given {
    /// Nothing but its status.
    #[default]
    Nothing,
    /// JSON of a type.
    Json(StatusCode, SchemaOf),
    /// A body of this media type.
    Bytes(&'static str),
}

/// The schema of a type.
pub(crate) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Any JSON object, for what is described elsewhere: the protocols of others.
pub(crate) fn object(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "object"})
}

pub(crate) async fn document() -> Json<Value> {
    Json(made())
}

fn made() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for route in table() {
        let path = route.path.replace("{*", "{");
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        let operation = operation(&route, &mut generator);
        methods[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Problem".to_owned(), problem());
    schemas.insert("OpenAiError".to_owned(), openai_error());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Annals",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Conversations with an agent: durable timelines, live events, files.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "annals_PORT"},
            },
        },
    })
}

fn problem() -> Value {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    json!({
        "type": "object",
        "description": "RFC 9457, with a stable code and a hint.",
        "required": ["type", "title", "status", "detail", "code", "hint"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string", "enum": codes},
            "hint": {"type": "string"},
        },
    })
}

fn openai_error() -> Value {
    let text = json!({"type": ["string", "null"]});
    json!({
        "type": "object",
        "description": "An error as clients of OpenAI's API read it; the door's own refusals come as a Problem.",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {"message": {"type": "string"}, "type": {"type": "string"}, "param": text, "code": text},
        }},
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let doc = &route.doc;
    let mut operation = json!({
        "summary": doc.summary,
        "operationId": operation_id(route),
        "parameters": parameters(route),
        "responses": responses(doc, generator),
        "security": match route.access {
            Access::Open => json!([]),
            Access::Role(_) => json!([{"bearer": []}, {"cookie": []}]),
            Access::Link => json!([{"bearer": []}, {"cookie": []}, {}]),
        },
    });
    let mut content = Map::new();
    if let Some(takes) = doc.takes {
        let schema = takes(generator);
        content.insert("application/json".to_owned(), json!({ "schema": schema }));
    }
    if let Some(media_type) = doc.also_takes {
        content.insert(media_type.to_owned(), json!({"schema": {"type": "object"}}));
    }
    if !content.is_empty() {
        operation["requestBody"] = json!({ "content": content });
    }
    operation
}

/// `post_v1_conversations_c_turns`.
fn operation_id(route: &Route) -> String {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    format!(
        "{}_{}",
        route.method.as_str().to_ascii_lowercase(),
        words.join("_")
    )
}

fn parameters(route: &Route) -> Vec<Value> {
    let steps = route.path.split('/').filter_map(|step| {
        let name = step.strip_prefix('{')?.strip_suffix('}')?;
        Some(name.trim_start_matches('*'))
    });
    let in_path =
        steps.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let in_query = route.doc.query.iter().map(|(name, about)| {
        json!({"name": name, "in": "query", "description": about, "schema": {"type": "string"}})
    });
    let key = (route.method == http::Method::POST).then(|| {
        json!({
            "name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 255},
            "description": "Makes sending the request again harmless for 24 hours.",
        })
    });
    in_path.chain(in_query).chain(key).collect()
}

fn responses(doc: &Doc, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    let (status, answer) = match &doc.gives {
        Given::Nothing => (StatusCode::NO_CONTENT, json!({"description": "Done."})),
        Given::Json(status, schema) => {
            let schema = schema(generator);
            let content = json!({"application/json": {"schema": schema}});
            (*status, json!({"description": "Done.", "content": content}))
        }
        Given::Bytes(media_type) => {
            let mut content = Map::new();
            content.insert((*media_type).to_owned(), json!({}));
            (
                StatusCode::OK,
                json!({"description": "Done.", "content": content}),
            )
        }
    };
    responses.insert(status.as_str().to_owned(), answer);
    responses.insert(
        "default".to_owned(),
        json!({
            "description": "What went wrong.",
            "content": doc.errors.content(),
        }),
    );
    Value::Object(responses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_says_what_it_is_for_under_a_name_of_its_own() {
        let mut names = std::collections::BTreeSet::new();
        for route in table() {
            assert!(
                !route.doc.summary.is_empty(),
                "{} {} has no summary",
                route.method,
                route.path
            );
            assert!(
                names.insert(operation_id(&route)),
                "{} {}",
                route.method,
                route.path
            );
        }
    }

    /// A client made from the document must be able to send what a route takes and read what it gives.
    #[test]
    fn every_route_says_what_it_takes_and_gives() {
        for route in table() {
            let about = format!("{} {}", route.method, route.path);
            let takes = route.doc.takes.is_some() || route.doc.also_takes.is_some();
            assert_eq!(takes, route.method == http::Method::POST, "the body of {about}");
            let gives = !matches!(route.doc.gives, Given::Nothing);
            assert_eq!(gives, is_answered(&route), "the answer of {about}");
            let is_openai = crate::openai::table()
                .iter()
                .any(|known| (&known.method, known.path) == (&route.method, route.path));
            let form = if is_openai {
                ErrorForm::OpenAi
            } else {
                ErrorForm::Problem
            };
            assert_eq!(route.doc.errors, form, "the errors of {about}");
        }
    }

    /// What is described elsewhere is OpenAI's, MCP's, and OpenAPI itself.
    #[test]
    fn every_answer_of_our_own_has_the_schema_of_its_type() {
        let of_others = ["/openapi.json", "/mcp"];
        let openai = crate::openai::table();
        for route in table() {
            let is_others =
                of_others.contains(&route.path) || openai.iter().any(|known| known.path == route.path);
            if let Given::Json(_, schema) = route.doc.gives {
                let mut generator = SchemaGenerator::default();
                let is_bare = schema(&mut generator) == object(&mut generator);
                assert!(
                    !is_bare || is_others,
                    "the answer of {} {} is any object",
                    route.method,
                    route.path
                );
            }
        }
    }

    /// Whether there is more to an answer than its status: all but what ends something.
    fn is_answered(route: &Route) -> bool {
        let ends = ["/v1/conversations/{c}", "/mcp"];
        route.method != http::Method::DELETE || !ends.contains(&route.path)
    }

    #[test]
    fn the_table_of_codes_in_the_docs_is_the_enum() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/codes.md");
        let page = std::fs::read_to_string(page).unwrap();
        let rows = Code::ALL.iter().map(|code| {
            let (status, text) = (code.status().as_u16(), code.as_str());
            format!("| {status} | `{text}` | {} | {} |", code.meaning(), code.hint())
        });
        let rows: Vec<String> = rows.collect();
        let section = page
            .split("## HTTP")
            .nth(1)
            .expect("docs/codes.md has a section `## HTTP`");
        let listed: Vec<&str> = section
            .lines()
            .filter(|line| line.starts_with("| ") && !line.starts_with("| status"))
            .collect();
        assert_eq!(listed, rows, "docs/codes.md should have:\n{}", rows.join("\n"));
    }

    #[test]
    fn every_reference_of_the_document_is_defined() {
        let document = made();
        let text = document.to_string();
        let mut found = 0;
        for part in text.split("\"$ref\":\"").skip(1) {
            let reference = part.split('"').next().unwrap();
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
            found += 1;
        }
        assert!(found > 20, "the types are in the document");
    }
}
