//! `annals memory`: what earlier turns said, and the index that finds it.

mod reindex;
mod search;

use crate::args::MemoryCommand;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::setup::{Needs, Setup};

pub(crate) async fn run(command: MemoryCommand, config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::NoModel).await?;
    match command {
        MemoryCommand::Search(args) => search::run(args, &setup).await,
        MemoryCommand::Reindex => reindex::run(&setup).await,
    }
}
