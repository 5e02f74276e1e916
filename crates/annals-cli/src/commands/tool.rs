//! `annals tool`: lists tools, prints their schemas, calls one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use annals::TurnRequest;
use annals::core::block::BlockKind;
use annals::core::ids::TurnId;
use annals::core::view::ToolSchema;
use annals::runtime::{Listen, RunError, Update};
use serde_json::{Map, Value, json};

use crate::args::{CallArgs, JsonArgs, SchemaArgs, ToolCommand};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, NAME, styled};
use crate::screen_text::ScreenText;
use crate::setup::{Needs, Setup, conversation_id};
use crate::shown;
use crate::turn::{JsonLines, output_taken};

pub(crate) async fn run(command: ToolCommand, config: Config) -> Result<Ended, Failure> {
    match command {
        ToolCommand::List(args) => list(args, &Setup::open(config, Needs::NoModel).await?),
        ToolCommand::Schema(args) => schema(args, &Setup::open(config, Needs::NoModel).await?),
        ToolCommand::Call(args) => call(args, config).await,
    }
}

fn list(args: JsonArgs, setup: &Setup) -> Result<Ended, Failure> {
    let schemas = setup.agent.tools().schemas();
    if args.json {
        let rows: Vec<Value> = schemas
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description}))
            .collect();
        paint::print_json(&format!("{}\n", Value::Array(rows)))?;
        return Ok(Ended::Well);
    }
    let width = schemas
        .iter()
        .map(|tool| tool.name.len())
        .max()
        .unwrap_or_default();
    let line = |tool: &ToolSchema| {
        let name = styled(NAME, format!("{:width$}", tool.name));
        shown!("{}  {}\n", name, paint::gist(&tool.description, 90))
    };
    paint::print(schemas.iter().map(line).collect::<ScreenText>())?;
    Ok(Ended::Well)
}

fn schema(args: SchemaArgs, setup: &Setup) -> Result<Ended, Failure> {
    let tools = setup.agent.tools();
    let shown = match &args.name {
        None => serde_json::to_string_pretty(&*tools.schemas()),
        Some(name) => {
            let tool = tools
                .get_wire(name)
                .ok_or_else(|| RunError::NoSuchTool(name.clone()))?;
            serde_json::to_string_pretty(&tool.spec().schema())
        }
    };
    paint::print_json(&format!("{}\n", shown.map_err(Failure::environment)?))?;
    Ok(Ended::Well)
}

async fn call(args: CallArgs, config: Config) -> Result<Ended, Failure> {
    conversation_id(&args.conversation)?;
    let turn = args
        .turn_id
        .as_deref()
        .map(TurnId::parse)
        .transpose()
        .map_err(Failure::usage)?;
    let params = params(args.params)?;
    let setup = Setup::open(config, Needs::NoModel).await?;
    if setup.agent.tools().get_wire(&args.name).is_none() {
        return Err(RunError::NoSuchTool(args.name).into());
    }
    let session = setup.agent.session(&args.conversation).await?;
    let listener = Arc::new(Watched::default());
    let mut request = TurnRequest::call(&args.name, params).listen(listener.clone());
    if let Some(turn) = turn {
        request = request.turn_id(turn);
    }
    let end = setup.agent.run_in(&session, request).await;
    session.close().await?;
    let end = end?;
    output_taken(listener.lines.close())?;
    Ok(
        match listener.has_failed.load(Ordering::Relaxed) || !end.is_success() {
            true => Ended::Otherwise,
            false => Ended::Well,
        },
    )
}

/// Prints the blocks and remembers whether a result was an error.
#[derive(Default)]
struct Watched {
    lines: JsonLines,
    has_failed: AtomicBool,
}

impl Listen for Watched {
    fn on(&self, update: Update) {
        if let Update::Block(block) = &update
            && block.kind == BlockKind::ToolResult
            && block.meta().error.is_some()
        {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        self.lines.on(update);
    }
}

/// A call may carry a file, written as base64.
const PARAMETERS_MAX_BYTES: u64 = 100_000_000;

/// Parameters as they were typed, or from standard input.
fn params(given: Option<String>) -> Result<Map<String, Value>, Failure> {
    let text = match given.as_deref() {
        None => return Ok(Map::new()),
        Some("-") => {
            let text = annals_files::read_text_from(std::io::stdin(), PARAMETERS_MAX_BYTES);
            text.map_err(|error| {
                Failure::usage(format!(
                    "the parameters on standard input cannot be read: {error}"
                ))
            })?
        }
        Some(text) => text.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(params)) => Ok(params),
        Ok(_) => Err(Failure::usage(
            "the parameters are not a JSON object: write for example '{\"path\": \"a.md\"}'",
        )),
        Err(error) => Err(Failure::usage(format!("the parameters are not JSON: {error}"))),
    }
}
