//! `annals memory search`: passages with their paths, the best first.

use annals::core::limits::MEMSEARCH_MAX_HITS;
use annals::store::recall::{Hit, Query, RecallTarget, Within};
use serde_json::{Value, json};

use crate::args::{SearchArgs, TargetArg};
use crate::failure::{Ended, Failure};
use crate::paint::{self, BOLD, DIM, NAME, styled};
use crate::screen_text::ScreenText;
use crate::setup::{Setup, conversation_id};
use crate::shown;

/// A passage is shown to people up to this length.
const SHOWN_CHARS: usize = 300;

pub(crate) async fn run(args: SearchArgs, setup: &Setup) -> Result<Ended, Failure> {
    if args.query.trim().is_empty() {
        return Err(Failure::usage("the query has no words: say what to look for"));
    }
    let conversation = args.conversation.as_deref().map(conversation_id).transpose()?;
    let agent = &setup.agent;
    let query = Query {
        scope: agent.scope().clone(),
        within: conversation.map_or(Within::Scope, Within::Conversation),
        text: args.query,
        targets: args.target.into_iter().map(target).collect(),
        limit: usize::from(args.top_k).min(MEMSEARCH_MAX_HITS),
        since: None,
        before: None,
        by: annals::store::recall::rank::SearchMode::Hybrid,
        now: agent.world().now(),
    };
    let found = setup.recall().search(query.days(args.days)).await?;
    if let Some(shortfall) = &found.shortfall {
        paint::say(shortfall);
    }
    if found.hits.is_empty() {
        paint::say("nothing was found: try other words, or search further back with `--days`");
    }
    if args.json {
        let rows: Vec<Value> = found.hits.iter().map(as_json).collect();
        paint::print_json(&format!("{}\n", Value::Array(rows)))?;
    } else {
        paint::print(found.hits.iter().map(for_people).collect::<ScreenText>())?;
    }
    Ok(Ended::Well)
}

fn target(arg: TargetArg) -> RecallTarget {
    match arg {
        TargetArg::User => RecallTarget::User,
        TargetArg::Assistant => RecallTarget::Assistant,
        TargetArg::Attachment => RecallTarget::Attachment,
    }
}

fn as_json(hit: &Hit) -> Value {
    json!({
        "conversation": hit.conversation,
        "turn_id": hit.turn,
        "path": hit.path,
        "role": hit.target.as_str(),
        "text": hit.text,
        "score": (f64::from(hit.score) * 1_000.0).round() / 1_000.0,
        "ts": hit.ts,
    })
}

fn for_people(hit: &Hit) -> ScreenText {
    let path = hit.path.as_ref().map_or("-", |path| path.as_str());
    shown!(
        "{}  {}  {}  {}  {}\n    {}\n",
        styled(BOLD, format!("{:.2}", hit.score)),
        styled(NAME, path),
        styled(DIM, hit.target.as_str()),
        styled(DIM, &hit.conversation),
        styled(DIM, hit.ts),
        paint::gist(&hit.text, SHOWN_CHARS)
    )
}
