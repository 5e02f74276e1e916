//! `annals timeline blocks`: JSON Lines, one block a line.

use annals::core::block::BlockJson;

use super::{at, turn};
use crate::args::SliceArgs;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::Setup;

pub(crate) async fn run(args: SliceArgs, setup: &Setup) -> Result<Ended, Failure> {
    let (_, timeline) = setup.timeline(&args.conversation).await?;
    let timeline = at(timeline, args.at)?;
    let only = turn(&timeline, args.turn.as_deref())?;
    let mut lines = Vec::new();
    for block in timeline
        .blocks()
        .iter()
        .filter(|block| only.as_ref().is_none_or(|turn| *turn == block.turn))
    {
        serde_json::to_writer(&mut lines, &BlockJson::from(&**block)).map_err(Failure::environment)?;
        lines.push(b'\n');
    }
    paint::print_bytes(&lines)?;
    Ok(Ended::Well)
}
