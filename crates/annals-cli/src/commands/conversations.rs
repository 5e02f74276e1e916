//! `annals conversations`: what there is, the newest first; and how one goes.

use annals::core::ids::Seq;
use annals::store::ConversationInfo;
use serde_json::{Value, json};

use crate::args::{ConversationArgs, ConversationsArgs, ConversationsCommand, JsonArgs};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BOLD, DIM, styled};
use crate::screen_text::ScreenText;
use crate::setup::{Needs, Setup, conversation_id};
use crate::shown;

const PAGE: usize = 500;

pub(crate) async fn run(args: ConversationsArgs, config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::NoModel).await?;
    match args.command {
        Some(ConversationsCommand::Delete(args)) => delete(&args, &setup).await,
        None => list(&args.list, &setup).await,
    }
}

async fn delete(args: &ConversationArgs, setup: &Setup) -> Result<Ended, Failure> {
    let id = conversation_id(&args.conversation)?;
    setup.agent.delete_conversation(&id).await?;
    Ok(Ended::Well)
}

async fn list(form: &JsonArgs, setup: &Setup) -> Result<Ended, Failure> {
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let page = setup.agent.log().list(setup.agent.scope(), cursor, PAGE).await?;
        all.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    if form.json {
        let rows: Vec<Value> = all.iter().map(as_json).collect();
        paint::print_json(&format!("{}\n", Value::Array(rows)))?;
    } else {
        paint::print(all.iter().map(as_line).collect::<ScreenText>())?;
    }
    Ok(Ended::Well)
}

fn as_json(info: &ConversationInfo) -> Value {
    json!({
        "id": info.key.id,
        "title": info.title,
        "scope": info.key.scope.to_string(),
        "created": info.created,
        "updated": info.updated,
        "blocks": info.tail.map_or(0, Seq::get),
        "lineage": info.lineage,
    })
}

fn as_line(info: &ConversationInfo) -> ScreenText {
    let blocks = format!("{} blocks", paint::number(info.tail.map_or(0, Seq::get)));
    let when = info.updated.unwrap_or(info.created).to_string();
    let title = info.title.as_deref().unwrap_or_default();
    let line = shown!(
        "{}  {}  {}  {}",
        styled(BOLD, &info.key.id),
        styled(DIM, when),
        styled(DIM, blocks),
        title
    );
    shown!("{}\n", line.trim_end())
}
