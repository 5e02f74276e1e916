//! `annals timeline`: look at a conversation, fork it, move it.

mod blocks;
mod export;
mod fork;
mod import;
mod render;
mod show;
pub(crate) mod tree;

use annals::core::ids::{Seq, TurnId};
use annals::core::view::View;

use crate::args::TimelineCommand;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::setup::{Needs, Setup};

pub(crate) async fn run(command: TimelineCommand, config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::NoModel).await?;
    match command {
        TimelineCommand::Show(args) => show::run(args, &setup).await,
        TimelineCommand::Blocks(args) => blocks::run(args, &setup).await,
        TimelineCommand::Render(args) => render::run(args, &setup).await,
        TimelineCommand::Fork(args) => fork::run(args, &setup).await,
        TimelineCommand::Export(args) => export::run(args, &setup).await,
        TimelineCommand::Import(args) => import::run(args, &setup).await,
    }
}

/// The timeline as it was when this block was the last one.
fn at(timeline: View, seq: Option<u64>) -> Result<View, Failure> {
    Ok(match place(&timeline, seq)? {
        Some(seq) => timeline.at(seq),
        None => timeline,
    })
}

/// The place of a block that there is.
fn place(timeline: &View, seq: Option<u64>) -> Result<Option<Seq>, Failure> {
    let Some(seq) = seq else { return Ok(None) };
    let seq = Seq::try_new(seq).map_err(Failure::usage)?;
    if timeline.block(seq).is_none() {
        let last = timeline.tail().map_or(0, Seq::get);
        return Err(Failure::usage(format!(
            "there is no block {seq}: the last one is {last}"
        )));
    }
    Ok(Some(seq))
}

/// The turn of this name.
pub(crate) fn turn(timeline: &View, turn: Option<&str>) -> Result<Option<TurnId>, Failure> {
    let Some(turn) = turn else { return Ok(None) };
    let turn = TurnId::parse(turn).map_err(Failure::usage)?;
    match timeline.turn(&turn) {
        Some(_) => Ok(Some(turn)),
        None => Err(Failure::usage(format!("this conversation has no turn `{turn}`"))),
    }
}
