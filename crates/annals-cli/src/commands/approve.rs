//! `annals approve`: decides about a call that waits, in whatever process its turn runs, or in none.

use annals::core::ids::RequestId;
use annals::runtime::{ApprovalDecision, Decision};

use crate::args::ApproveArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::{Needs, Setup, conversation_id};

pub(crate) async fn run(args: ApproveArgs, config: Config) -> Result<Ended, Failure> {
    let id = conversation_id(&args.conversation)?;
    let approval_id = RequestId::parse(&args.id).map_err(Failure::usage)?;
    let decision = match (args.conversation_wide, args.always, args.deny, args.stop) {
        (true, ..) => Decision::Conversation,
        (_, true, ..) => Decision::Always,
        (_, _, true, _) => Decision::Deny,
        (_, _, _, true) => Decision::DenyAndStop,
        _ => Decision::Once,
    };
    let edited_args = args.args.as_deref().map(serde_json::from_str).transpose();
    let edited_args =
        edited_args.map_err(|error| Failure::usage(format!("`--args` is not a JSON object: {error}")))?;
    let setup = Setup::open(config, Needs::NoModel).await?;
    let conversation = setup.agent.conversation(&id).only_posting();
    conversation
        .decide(ApprovalDecision {
            approval_id,
            decision,
            by: setup.config.scope.value.to_string(),
            via: "cli".to_owned(),
            edited_args,
            note: args.note,
        })
        .await?;
    if !conversation.is_owned().await? {
        paint::say(format!(
            "nobody runs this turn now: `annals resume {id}` goes on with it, if no server of this home does"
        ));
    }
    Ok(Ended::Well)
}
