//! `annals run`: one turn, its answer on standard output.

use std::path::Path;

use annals::core::ids::TurnId;
use annals::core::limits;
use annals::runtime::{RunError, TurnTerms};
use annals::{Session, TurnRequest};
use serde_json::Value;

use super::mcp;
use crate::approval;
use crate::args::{ApprovalsArg, RunArgs};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::{Needs, Setup, conversation_id};
use crate::turn::{self, Form};

/// A conversation's title is the beginning of its first prompt.
const TITLE_MAX_CHARS: usize = 60;
/// A file with more is no schema.
const SCHEMA_MAX_BYTES: u64 = 1_000_000;

pub(crate) async fn run(args: RunArgs, config: Config) -> Result<Ended, Failure> {
    let prompt = prompt(args.prompt)?;
    let mut attachments = Vec::new();
    for named in &args.attach {
        attachments.extend(mcp::attachments(named, &config).await?);
    }
    let mut request = TurnRequest::new(&prompt);
    if let Some(turn) = &args.turn_id {
        request = request.turn_id(TurnId::parse(turn).map_err(Failure::usage)?);
    }
    args.conversation.as_deref().map(conversation_id).transpose()?;
    // Before anything is made for it.
    if prompt.trim().is_empty() && args.attach.is_empty() {
        return Err(RunError::PromptEmpty.into());
    }
    let schema = args.schema.as_deref().map(read_schema).transpose()?;
    let setup = Setup::open(config, Needs::Model).await?;
    let checked = setup.agent.check_attachments(&attachments).await;
    checked.map_err(Failure::usage)?;
    for attachment in attachments {
        request = request.attach(attachment);
    }
    let session = open(&setup, args.conversation.as_deref(), &prompt).await?;
    let approvals = args.approvals.unwrap_or_else(|| approval::by_default(args.json));
    let request = request.terms(TurnTerms {
        unattended: approvals == ApprovalsArg::Deny,
        schema,
        ..TurnTerms::default()
    });
    let ended = turn::perform(&setup, &session, request, Form::of(args.json), approvals).await;
    let ended = ended.and_then(|end| turn::judge(&setup, &session, end));
    session.close().await?;
    ended
}

/// Opens the conversation, or makes one and says its id.
pub(crate) async fn open(
    setup: &Setup,
    conversation: Option<&str>,
    prompt: &str,
) -> Result<Session, Failure> {
    match conversation {
        Some(conversation) => Ok(setup.agent.session(conversation).await?),
        None => {
            let session = setup
                .agent
                .new_session(Some(paint::gist(&setup.agent.redact(prompt), TITLE_MAX_CHARS)))
                .await?;
            paint::say(format!("conversation {}", session.id()));
            Ok(session)
        }
    }
}

/// The schema in a file.
fn read_schema(file: &Path) -> Result<Value, Failure> {
    let text = annals_files::read_text(file, SCHEMA_MAX_BYTES);
    let text = text.map_err(|error| Failure::usage(format!("cannot read `{}`: {error}", file.display())))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("`{}` is not a JSON schema: {error}", file.display())))
}

/// The prompt as it was typed, or from standard input.
fn prompt(given: Option<String>) -> Result<String, Failure> {
    match given {
        Some(prompt) if prompt != "-" => Ok(prompt),
        Some(_) => {
            let prompt = annals_files::read_text_from(std::io::stdin(), limits::PROMPT_MAX_BYTES as u64);
            prompt.map_err(|error| {
                Failure::usage(format!("the prompt on standard input cannot be read: {error}"))
            })
        }
        None => Ok(String::new()),
    }
}
