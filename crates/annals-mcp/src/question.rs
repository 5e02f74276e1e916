//! What a server wants to know of a person while it works on a call: shown as a stranger's question, answered by its rules.

use annals_core::block::payload::{InputAction, InputResponse};
use annals_tools::InputAsk;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};
use url::Url;

use crate::definition;
use crate::limits;
use crate::text;

/// A question of a server.
#[derive(Debug, Clone)]
pub(crate) struct Question(pub(crate) ElicitRequestParams);

impl Question {
    /// What the person is asked. None where a person should not even see it.
    pub(crate) fn ask(&self, server: &str) -> Option<InputAsk> {
        match &self.0 {
            ElicitRequestParams::FormElicitationParams {
                message,
                requested_schema,
                ..
            } => {
                let schema = serde_json::to_value(requested_schema).ok()?;
                let fits = schema.to_string().len() <= limits::DEFINITION_MAX_BYTES;
                let words = said(server, message);
                fits.then(|| InputAsk::new(words).schema(definition::shown(&schema)))
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                let url = Url::parse(url).ok()?;
                let host = url
                    .host_str()
                    .filter(|_| matches!(url.scheme(), "http" | "https"))?;
                let words = said(server, message);
                let words = format!(
                    "{words}\n\nIt wants you to open a page of `{host}`, and is told whether you agree: {url}"
                );
                Some(InputAsk::new(words).url(url))
            }
            _ => None,
        }
    }

    /// What the server is told. What the person left out is as the server said it would be.
    pub(crate) fn reply(&self, answer: &InputResponse) -> ElicitResult {
        let action = match answer.action {
            InputAction::Accept => ElicitationAction::Accept,
            InputAction::Decline => ElicitationAction::Decline,
            _ => ElicitationAction::Cancel,
        };
        let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = &self.0 else {
            return ElicitResult::new(action);
        };
        if action != ElicitationAction::Accept {
            return ElicitResult::new(action);
        }
        let mut content = match &answer.content {
            Some(Value::Object(given)) => given.clone(),
            _ => Map::new(),
        };
        let schema = serde_json::to_value(requested_schema).unwrap_or_default();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if let Some(usual) = property.get("default") {
                content.entry(name.clone()).or_insert_with(|| usual.clone());
            }
        }
        ElicitResult::new(action).with_content(Value::Object(content))
    }
}

/// Nobody answers.
pub(crate) fn declined() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Decline)
}

fn said(server: &str, message: &str) -> String {
    let words = text::clean_and_cut(message.trim(), limits::DESCRIPTION_MAX_CHARS);
    format!("[MCP server `{server}`] {words}")
}

#[cfg(test)]
mod tests {
    use annals_core::ids::{CallId, RequestId, TurnId};
    use serde_json::json;

    use super::*;

    fn question(request: Value) -> Question {
        Question(serde_json::from_value(request).unwrap())
    }

    fn answer(action: InputAction, content: Option<Value>) -> InputResponse {
        let (turn, call) = (TurnId::parse("turn_1").unwrap(), CallId::parse("tc_1").unwrap());
        InputResponse {
            input_id: RequestId::of(&turn, &call, 1),
            action,
            content,
            by: "ada".to_owned(),
            via: "test".to_owned(),
        }
    }

    #[test]
    fn a_question_is_a_strangers_and_says_whose() {
        let asked = question(
            json!({"message": "Your\u{202e} name?\u{1b}[2J", "requestedSchema": {
            "type": "object", "properties": {"name": {"type": "string", "description": "Full\u{e0041} name"}}}}),
        );
        let ask = asked.ask("srv").unwrap();
        assert_eq!(ask.message, "[MCP server `srv`] Your name?[2J");
        assert_eq!(
            ask.schema.unwrap()["properties"]["name"]["description"],
            "Full name"
        );
    }

    #[test]
    fn a_page_is_named_with_its_host_and_only_the_web_is_opened() {
        let at = |url: &str| {
            let request = json!({"mode": "url", "message": "Log in.", "url": url, "elicitationId": "e"});
            question(request).ask("srv").map(|ask| ask.message)
        };
        let shown = at("https://login.example/x?y=1").unwrap();
        assert!(
            shown.contains("`login.example`") && shown.ends_with("https://login.example/x?y=1"),
            "{shown}"
        );
        for url in ["javascript:alert(1)", "file:///etc/passwd", "no address"] {
            assert_eq!(at(url), None, "{url}");
        }
    }

    #[test]
    fn what_was_left_out_is_the_servers_default_and_a_refusal_has_no_content() {
        let asked = question(
            json!({"message": "m", "requestedSchema": {"type": "object", "properties": {
            "name": {"type": "string"}, "age": {"type": "integer", "default": 30}}}}),
        );
        let given = asked.reply(&answer(InputAction::Accept, Some(json!({"name": "Ada"}))));
        assert_eq!(given.content, Some(json!({"name": "Ada", "age": 30})));
        for action in [InputAction::Decline, InputAction::Cancel] {
            assert_eq!(
                asked.reply(&answer(action, Some(json!({"name": "Ada"})))).content,
                None
            );
        }
    }
}
