//! `annals cancel`: ends the turn that runs or waits, in whatever process that is.

use crate::args::CancelArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::setup::{Needs, Setup, conversation_id};

pub(crate) async fn run(args: CancelArgs, config: Config) -> Result<Ended, Failure> {
    let id = conversation_id(&args.conversation)?;
    let setup = Setup::open(config, Needs::NoModel).await?;
    let conversation = setup.agent.conversation(&id);
    conversation.cancel().await?;
    // When the process of the turn is gone, this one closes it.
    conversation.settled().await;
    Ok(Ended::Well)
}
