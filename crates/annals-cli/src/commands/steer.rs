//! `annals steer`: says something to the turn that runs, in whatever process that is.

use crate::args::SteerArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::setup::{Needs, Setup, conversation_id};

pub(crate) async fn run(args: SteerArgs, config: Config) -> Result<Ended, Failure> {
    let id = conversation_id(&args.conversation)?;
    if args.text.trim().is_empty() {
        return Err(Failure::usage("there is nothing to say: give a text"));
    }
    let setup = Setup::open(config, Needs::NoModel).await?;
    let conversation = setup.agent.conversation(&id).only_posting();
    conversation.steer(args.text).await?;
    Ok(Ended::Well)
}
