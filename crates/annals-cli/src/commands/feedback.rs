//! `annals feedback`: says whether a turn was good. The model sees it in the turns that follow.

use annals::core::block::{BlockKind, NewBlock};
use annals::core::ids::TurnId;
use annals::core::path::LogicalPath;
use serde::Serialize;

use crate::args::{FeedbackArgs, ReactionArg};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::setup::{Needs, Setup, conversation_id};

/// The text of a `stage.feedback` block.
#[derive(Serialize)]
struct Feedback<'a> {
    reaction: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

pub(crate) async fn run(args: FeedbackArgs, config: Config) -> Result<Ended, Failure> {
    let id = conversation_id(&args.conversation)?;
    let turn = TurnId::parse(&args.turn).map_err(Failure::usage)?;
    let setup = Setup::open(config, Needs::NoModel).await?;
    let session = setup.agent.open(&id).await?;
    let done = if session.timeline(|timeline| timeline.turn(&turn).is_some()) {
        let block = block(&turn, &args)?;
        setup
            .agent
            .contribute(&session, vec![block], None)
            .await
            .map_err(Failure::from)
    } else {
        Err(Failure::usage(format!(
            "conversation `{id}` has no turn `{turn}`: see `annals timeline show {id}`"
        )))
    };
    session.close().await?;
    done.map(|()| Ended::Well)
}

fn block(turn: &TurnId, args: &FeedbackArgs) -> Result<NewBlock, Failure> {
    let path = LogicalPath::stage(turn, "feedback").map_err(Failure::usage)?;
    let reaction = match args.reaction {
        ReactionArg::Up => "up",
        ReactionArg::Down => "down",
    };
    let feedback = Feedback {
        reaction,
        text: args.text.as_deref(),
    };
    Ok(NewBlock::new(BlockKind::StageFeedback, turn, path).json(&feedback))
}
