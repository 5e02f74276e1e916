//! More tools than a prompt should carry: two tools instead, one that finds tools by words and one that calls what was found.
//!
//! What the prompt says of them does not depend on how many tools there are, and barely on how many servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use annals_core::code::Code;
use annals_core::tokens;
use annals_core::turn::outcome::Outcome;
use annals_tools::{Effect, SpecError, Tool, ToolCx, ToolFailure, ToolSpec, serialise};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::text;
use crate::tool::RemoteTool;

/// The tools of all servers together may take this much of a prompt.
pub const PROMPT_MAX_TOKENS: usize = 8_000;

/// Names of servers in the prompt.
const SERVERS_SHOWN_MAX: usize = 40;
const FOUND_DEFAULT: usize = 8;
const FOUND_MAX: usize = 20;
/// Words of a query that count.
const QUERY_MAX_WORDS: usize = 32;
const SEARCH: &str = "mcp.search_tools";
const CALL: &str = "mcp.call";

/// The tools as they are offered: all of them, or a search and a call.
pub fn offered(tools: Vec<RemoteTool>, max_tokens: usize) -> Result<Vec<Arc<dyn Tool>>, SpecError> {
    let weight: usize = tools.iter().map(|tool| weight(tool.spec())).sum();
    if weight <= max_tokens {
        let shared = |tool: RemoteTool| Arc::new(tool) as Arc<dyn Tool>;
        return Ok(tools.into_iter().map(shared).collect());
    }
    let catalogue = Arc::new(Catalogue::of(tools));
    Ok(vec![
        Arc::new(SearchTools::new(catalogue.clone())?),
        Arc::new(CallTool::new(catalogue)?),
    ])
}

/// Tokens of a tool in a prompt.
fn weight(spec: &ToolSpec) -> usize {
    let schema = spec.schema();
    let text = format!("{} {} {}", schema.name, schema.description, schema.parameters);
    tokens::count(&text) as usize
}

/// Tools by name, with the words they are found by.
struct Catalogue {
    tools: BTreeMap<String, Entry>,
    /// In how many tools a word occurs.
    frequencies: BTreeMap<String, usize>,
}

struct Entry {
    tool: Arc<RemoteTool>,
    in_name: BTreeSet<String>,
    in_text: BTreeSet<String>,
}

impl Catalogue {
    fn of(tools: Vec<RemoteTool>) -> Self {
        let mut catalogue = Catalogue {
            tools: BTreeMap::new(),
            frequencies: BTreeMap::new(),
        };
        for tool in tools {
            let name = tool.spec().name().to_string();
            let entry = Entry {
                in_name: words(&name).collect(),
                in_text: words(tool.spec().description()).collect(),
                tool: Arc::new(tool),
            };
            for word in entry.in_name.union(&entry.in_text) {
                *catalogue.frequencies.entry(word.clone()).or_default() += 1;
            }
            catalogue.tools.insert(name, entry);
        }
        catalogue
    }

    /// The tools that share words with the query, the best first: a rare word counts more than a common one, and one in a
    /// name twice as much as one in a description.
    fn search(&self, query: &str, server: Option<&str>, limit: usize) -> Vec<&RemoteTool> {
        let query: BTreeSet<String> = words(query).take(QUERY_MAX_WORDS).collect();
        let rarity = |word: &str| {
            let occurs = self.frequencies.get(word).copied().unwrap_or_default();
            (self.tools.len() as f64 / (1.0 + occurs as f64)).ln().max(0.1)
        };
        let score = |entry: &Entry| -> f64 {
            let of = |word: &String| match (entry.in_name.contains(word), entry.in_text.contains(word)) {
                (true, _) => 2.0 * rarity(word),
                (false, true) => rarity(word),
                (false, false) => 0.0,
            };
            query.iter().map(of).sum()
        };
        let is_of = |entry: &&Entry| server.is_none_or(|server| entry.tool.server() == server);
        let mut found: Vec<(f64, &RemoteTool)> = self
            .tools
            .values()
            .filter(is_of)
            .map(|entry| (score(entry), &*entry.tool))
            .filter(|(score, _)| *score > 0.0 || query.is_empty())
            .collect();
        // Stable: tools that fit alike stay in the order of their names.
        found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        found.into_iter().take(limit).map(|(_, tool)| tool).collect()
    }

    fn get(&self, name: &str) -> Option<&Arc<RemoteTool>> {
        let spelt = name.replace("__", ".");
        self.tools.get(&spelt).map(|entry| &entry.tool)
    }

    /// `github (43), files (12)`.
    fn servers(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in self.tools.values() {
            *counts.entry(entry.tool.server()).or_default() += 1;
        }
        let shown = counts.iter().take(SERVERS_SHOWN_MAX);
        let mut shown: Vec<String> = shown
            .map(|(server, tools)| format!("{server} ({tools})"))
            .collect();
        if counts.len() > SERVERS_SHOWN_MAX {
            shown.push(format!("{} more servers", counts.len() - SERVERS_SHOWN_MAX));
        }
        shown.join(", ")
    }
}

/// Words in lower case; `getUserName` and `get_user_name` have the same.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::with_capacity(text.len() + 8);
    let mut was_lower = false;
    for character in text.chars() {
        if character.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = character.is_lowercase();
        spaced.extend(character.to_lowercase());
    }
    let parts: Vec<String> = spaced
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| word.len() > 1)
        .map(stem)
        .collect();
    parts.into_iter()
}

/// Without the `s` of a plural, which is how names of tools and questions differ most.
fn stem(word: &str) -> String {
    let plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
    word[..word.len() - usize::from(plural)].to_owned()
}

/// `mcp.search_tools`.
struct SearchTools {
    spec: ToolSpec,
    catalogue: Arc<Catalogue>,
}

impl SearchTools {
    fn new(catalogue: Arc<Catalogue>) -> Result<Self, SpecError> {
        let description = format!(
            "Finds tools of MCP servers by words of what you want to do, with their parameters; {CALL} then calls one. \
             Servers and how many tools they have: {}.",
            catalogue.servers()
        );
        let spec = ToolSpec::builder(SEARCH)
            .description(description)
            .parameters(json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "Words, such as `create issue comment`."},
                    "server": {"type": "string", "description": "Only tools of this server."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": FOUND_MAX},
                },
                "required": ["query"],
                "additionalProperties": false,
            }))
            .effect(Effect::None)
            .build()?;
        Ok(SearchTools { spec, catalogue })
    }
}

#[async_trait]
impl Tool for SearchTools {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let word = |name: &str| args.get(name).and_then(Value::as_str);
        let limit = args
            .get("limit")
            .and_then(Value::as_u64)
            .unwrap_or(FOUND_DEFAULT as u64);
        let limit = usize::try_from(limit)
            .unwrap_or(FOUND_DEFAULT)
            .clamp(1, FOUND_MAX);
        let found = self
            .catalogue
            .search(word("query").unwrap_or_default(), word("server"), limit);
        let shown = |tool: &&RemoteTool| {
            let schema = tool.spec().schema();
            json!({
                "tool": schema.name,
                "description": text::clean_and_cut(&schema.description, 400),
                "parameters": schema.parameters,
            })
        };
        let rows: Vec<Value> = found.iter().map(shown).collect();
        let answer = json!({"tools": rows, "of": self.catalogue.tools.len()});
        serialise::answer(cx, &self.spec, Ok(answer)).await
    }
}

/// `mcp.call`.
struct CallTool {
    spec: ToolSpec,
    catalogue: Arc<Catalogue>,
}

impl CallTool {
    fn new(catalogue: Arc<Catalogue>) -> Result<Self, SpecError> {
        let spec = ToolSpec::builder(CALL)
            .description(format!("Calls a tool of an MCP server that {SEARCH} found."))
            .parameters(json!({
                "type": "object",
                "properties": {
                    "tool": {"type": "string", "description": "Its name, as it was found."},
                    "arguments": {"type": "object", "description": "What its parameters ask for."},
                },
                "required": ["tool", "arguments"],
                "additionalProperties": false,
            }))
            // What it passes on has the effects of its own tool.
            .effect(Effect::None)
            .build()?;
        Ok(CallTool { spec, catalogue })
    }
}

#[async_trait]
impl Tool for CallTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn passes_on(&self, args: &Value) -> Option<(Arc<dyn Tool>, Value)> {
        let tool = self.catalogue.get(args.get("tool")?.as_str()?)?;
        Some((tool.clone(), args.get("arguments")?.clone()))
    }

    fn behind(&self) -> Vec<Arc<dyn Tool>> {
        let tools = self.catalogue.tools.values();
        tools.map(|entry| entry.tool.clone() as Arc<dyn Tool>).collect()
    }

    /// Runs for what it cannot pass on.
    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let name = args.get("tool").and_then(Value::as_str).unwrap_or_default();
        let message = format!(
            "there is no tool `{}`: find one with {SEARCH}",
            text::one_line(name, 80)
        );
        serialise::answer(cx, &self.spec, Err(ToolFailure::new(Code::UnknownTool, message))).await
    }
}

#[cfg(test)]
mod tests {
    use annals_core::redact::Secrets;

    use super::*;
    use crate::config::Servers;
    use crate::pins::Pins;
    use crate::server::RemoteServer;

    fn thousand() -> Vec<RemoteTool> {
        let verbs = [
            "create", "list", "delete", "update", "search", "export", "merge", "archive", "assign", "close",
        ];
        let things = [
            "issue",
            "comment",
            "repository",
            "label",
            "milestone",
            "branch",
            "user",
            "team",
            "invoice",
            "order",
        ];
        let definitions = (0..1000).map(|n| {
            let (verb, thing) = (verbs[n % 10], things[n / 10 % 10]);
            let definition = json!({
                "name": format!("{verb}_{thing}_{}", n / 100),
                "description": format!("Can {verb} a {thing} of project number {}.", n / 100),
                "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
            });
            serde_json::from_value(definition).unwrap()
        });
        crate::tool::tools(&server(), &Pins::new(String::new(), definitions)).0
    }

    fn server() -> Arc<RemoteServer> {
        let list = r#"{"mcpServers": {"acme": {"command": "x"}}}"#;
        let config = Servers::from_json(list).unwrap().get("acme").unwrap().clone();
        Arc::new(RemoteServer::new(config, "/nowhere".into(), Secrets::new()))
    }

    #[test]
    fn a_thousand_tools_cost_a_prompt_no_more_than_fifteen_hundred_tokens() {
        let all: usize = thousand().iter().map(|tool| weight(tool.spec())).sum();
        let offered = offered(thousand(), PROMPT_MAX_TOKENS).unwrap();
        let names: Vec<&str> = offered.iter().map(|tool| tool.spec().name().as_str()).collect();
        assert_eq!(names, [SEARCH, CALL]);
        let pins = Pins::new(String::new(), []).resources(true);
        let reader = crate::linked::reader(&server(), &pins).unwrap();
        let readers = crate::linked::offered(reader.into_iter().collect()).unwrap();
        let cost: usize = offered
            .iter()
            .chain(&readers)
            .map(|tool| weight(tool.spec()))
            .sum();
        assert!(all > 20_000 && cost <= 1_500, "{all} without, {cost} with");
    }

    #[test]
    fn a_call_is_passed_on_to_the_tool_that_it_names_and_rules_can_name_each() {
        let offered = offered(thousand(), PROMPT_MAX_TOKENS).unwrap();
        let call = &offered[1];
        assert_eq!(call.behind().len(), 1_000);
        for spelt in ["acme.delete_issue_3", "acme__delete_issue_3"] {
            let args = json!({"tool": spelt, "arguments": {"id": "7"}});
            let (tool, args) = call.passes_on(&args).unwrap();
            assert_eq!(tool.spec().name().as_str(), "acme.delete_issue_3");
            assert_eq!(args, json!({"id": "7"}));
        }
        let nobody = json!({"tool": "acme.nothing", "arguments": {}});
        assert!(call.passes_on(&nobody).is_none());
    }

    #[test]
    fn few_tools_are_offered_as_they_are() {
        let few: Vec<RemoteTool> = thousand().into_iter().take(5).collect();
        assert_eq!(offered(few, PROMPT_MAX_TOKENS).unwrap().len(), 5);
    }

    #[test]
    fn a_search_finds_what_the_words_say_and_the_same_every_time() {
        let catalogue = Catalogue::of(thousand());
        let names = |query: &str| -> Vec<String> {
            let found = catalogue.search(query, None, 3);
            found.iter().map(|tool| tool.spec().name().to_string()).collect()
        };
        assert_eq!(names("merge branches of project 7")[0], "acme.merge_branch_0");
        assert_eq!(names("archiveInvoice"), names("archive invoices"));
        assert!(names("zebra").is_empty());
        assert_eq!(catalogue.search("issue", Some("other"), 3).len(), 0);
    }
}
