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

/// Any JSON object, for what is described elsewhere: blocks and views.
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
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
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
