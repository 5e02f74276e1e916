//! `annals timeline show`: a conversation as a tree of turns and rounds, with sizes.

use super::{at, tree, turn};
use crate::args::SliceArgs;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::Setup;

pub(crate) async fn run(args: SliceArgs, setup: &Setup) -> Result<Ended, Failure> {
    let (id, timeline) = setup.timeline(&args.conversation).await?;
    let timeline = at(timeline, args.at)?;
    let only = turn(&timeline, args.turn.as_deref())?;
    paint::print(tree::draw(id.as_str(), &timeline, only.as_ref()))?;
    Ok(Ended::Well)
}
