//! `annals policy`: the rules that allow, ask about and deny calls.

use annals::runtime::Judged;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::args::{PolicyCheckArgs, PolicyCommand, PolicySetArgs};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BOLD, DIM, styled};
use crate::setup::{Needs, Setup};
use crate::shown;

/// Rules, or a call, that are longer are not read.
const TEXT_MAX_BYTES: u64 = 10_000_000;

pub(crate) async fn run(command: PolicyCommand, config: Config) -> Result<Ended, Failure> {
    match command {
        PolicyCommand::Check(args) => check(args, config).await,
        PolicyCommand::Show => show(config).await,
        PolicyCommand::Set(args) => set(args, config).await,
    }
}

async fn show(config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::NoModel).await?;
    let row = setup.policy_rows().row(setup.agent.scope()).await;
    let row = row.map_err(Failure::environment)?.unwrap_or_default();
    for line in row.lines() {
        paint::print(shown!("{}\n", line.to_owned()))?;
    }
    Ok(Ended::Well)
}

async fn set(args: PolicySetArgs, config: Config) -> Result<Ended, Failure> {
    let text = match args.file.as_os_str() == "-" {
        true => annals_files::read_text_from(std::io::stdin(), TEXT_MAX_BYTES),
        false => annals_files::read_text(&args.file, TEXT_MAX_BYTES),
    };
    let cannot = |error| Failure::usage(format!("`{}` cannot be read: {error}", args.file.display()));
    let text = text.map_err(cannot)?;
    let setup = Setup::open(config, Needs::NoModel).await?;
    let (agent, rows) = (&setup.agent, setup.policy_rows());
    let set = rows.set_row(agent.scope(), &text, &agent.known_tools()).await;
    set.map_err(Failure::usage)?;
    Ok(Ended::Well)
}

/// A call as somebody writes it.
#[derive(Deserialize)]
struct CallText {
    tool: String,
    #[serde(default, alias = "arguments", alias = "args")]
    params: Map<String, Value>,
}

async fn check(args: PolicyCheckArgs, config: Config) -> Result<Ended, Failure> {
    let text = match args.call.as_str() {
        "-" => annals_files::read_text_from(std::io::stdin(), TEXT_MAX_BYTES)
            .map_err(|error| Failure::usage(format!("the call on standard input cannot be read: {error}")))?,
        text => text.to_owned(),
    };
    let call: CallText = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!(
            "the call is not `{{\"tool\": …, \"params\": {{…}}}}`: {error}"
        ))
    })?;
    let setup = Setup::open(config, Needs::NoModel).await?;
    let judged = setup.agent.judge(&call.tool, &Value::Object(call.params)).await?;
    match args.json {
        true => paint::print_json(&format!("{}\n", as_json(&judged)))?,
        false => print(&judged)?,
    }
    Ok(Ended::Well)
}

fn as_json(judged: &Judged) -> Value {
    let by: Vec<Value> = judged
        .judgement
        .by
        .iter()
        .map(|deciding| {
            json!({
                "rule": deciding.id,
                "file": deciding.place.map(|(file, _)| file),
                "line": deciding.place.map(|(_, line)| line),
                "why": deciding.why,
            })
        })
        .collect();
    json!({
        "decide": judged.judgement.decide.as_str(),
        "by": by,
        "facets": judged.call.facets(),
        "proposed_rule": judged.judgement.proposed,
    })
}

fn print(judged: &Judged) -> Result<(), Failure> {
    let judgement = &judged.judgement;
    paint::print(shown!("{}\n", styled(BOLD, judgement.decide.as_str())))?;
    for deciding in &judgement.by {
        let place = match deciding.place {
            Some((file, line)) => format!("{file}:{line}"),
            None => String::new(),
        };
        let why = deciding.why.clone().unwrap_or_default();
        paint::print(shown!("  {} {} {}\n", &deciding.id, styled(DIM, place), why))?;
    }
    if let Some(proposed) = &judgement.proposed {
        paint::print(shown!("{}\n", styled(DIM, "what `always` would write:")))?;
        for line in proposed.lines() {
            paint::print(shown!("  {}\n", line.to_owned()))?;
        }
    }
    Ok(())
}
