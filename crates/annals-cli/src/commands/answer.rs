//! `annals answer`: tells a call what it waits for, in whatever process its turn runs, or in none.

use annals::core::ids::RequestId;
use annals::runtime::{InputAction, InputResponse};

use crate::args::AnswerArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::{Needs, Setup, conversation_id};

pub(crate) async fn run(args: AnswerArgs, config: Config) -> Result<Ended, Failure> {
    let id = conversation_id(&args.conversation)?;
    let input_id = RequestId::parse(&args.id).map_err(Failure::usage)?;
    let content = args.content.as_deref().map(serde_json::from_str).transpose();
    let content = content.map_err(|error| Failure::usage(format!("the answer is not JSON: {error}")))?;
    let setup = Setup::open(config, Needs::NoModel).await?;
    let conversation = setup.agent.conversation(&id).only_posting();
    conversation
        .respond(InputResponse {
            input_id,
            action: match args.decline {
                true => InputAction::Decline,
                false => InputAction::Accept,
            },
            content,
            by: setup.config.scope.value.to_string(),
            via: "cli".to_owned(),
        })
        .await?;
    if !conversation.is_owned().await? {
        paint::say(format!(
            "nobody runs this turn now: `annals resume {id}` goes on with it"
        ));
    }
    Ok(Ended::Well)
}
