//! `annals timeline fork`: a new conversation that shares the history up to a block.

use annals::runtime::lineage::ForkPoint;

use crate::args::ForkArgs;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::{Setup, conversation_id};

pub(crate) async fn run(args: ForkArgs, setup: &Setup) -> Result<Ended, Failure> {
    let parent = conversation_id(&args.conversation)?;
    let at = ForkPoint::try_from(args.at).map_err(Failure::usage)?;
    let id = setup.agent.fork(&parent, at).await?;
    paint::print(format!("{id}\n"))?;
    Ok(Ended::Well)
}
