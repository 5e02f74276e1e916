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
    let mut lines = String::new();
    for block in timeline
        .blocks()
        .iter()
        .filter(|block| only.as_ref().is_none_or(|turn| *turn == block.turn))
    {
        let line = serde_json::to_string(&BlockJson::from(&**block)).map_err(Failure::environment)?;
        lines.push_str(&line);
        lines.push('\n');
    }
    paint::print_json(&lines)?;
    Ok(Ended::Well)
}
