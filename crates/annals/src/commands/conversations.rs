//! `annals conversations`: what there is, the newest first.

use annals::core::ids::Seq;
use annals::store::ConversationInfo;
use serde_json::{Value, json};

use crate::args::JsonArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BOLD, DIM, styled};
use crate::setup::{Needs, Setup};

const PAGE: usize = 500;

pub(crate) async fn run(args: JsonArgs, config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::NoModel).await?;
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
    if args.json {
        let rows: Vec<Value> = all.iter().map(as_json).collect();
        paint::print(format!("{}\n", Value::Array(rows)))?;
    } else {
        paint::print(all.iter().map(as_line).collect::<String>())?;
    }
    Ok(Ended::Well)
}

fn as_json(info: &ConversationInfo) -> Value {
    json!({
        "id": info.id,
        "title": info.title,
        "scope": info.scope.to_string(),
        "created": info.created,
        "updated": info.updated,
        "blocks": info.tail.map_or(0, Seq::get),
        "lineage": info.lineage,
    })
}

fn as_line(info: &ConversationInfo) -> String {
    let blocks = format!("{} blocks", paint::number(info.tail.map_or(0, Seq::get)));
    let when = info.updated.unwrap_or(info.created).to_string();
    let title = info.title.as_deref().unwrap_or_default();
    let line = format!(
        "{}  {}  {}  {title}",
        styled(BOLD, &info.id),
        styled(DIM, when),
        styled(DIM, blocks)
    );
    format!("{}\n", line.trim_end())
}
