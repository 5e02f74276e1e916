//! One command, one file.

mod answer;
mod approvals;
mod approve;
mod cancel;
mod chat;
mod completions;
mod conversations;
mod demo;
mod doctor;
mod feedback;
mod inputs;
mod man;
mod mcp;
mod memory;
mod policy;
mod read;
mod resume;
mod run;
mod serve;
mod skill;
mod steer;
mod store;
mod timeline;
mod token;
mod tool;
mod trace;

use crate::args::Command;
use crate::config::Config;
use crate::failure::{Ended, Failure};

/// Does what was typed. The configuration is resolved only for commands that need one.
pub(crate) async fn run(
    command: Command,
    config: impl FnOnce() -> Result<Config, Failure>,
) -> Result<Ended, Failure> {
    match command {
        Command::Demo(args) => demo::run(args, config()?).await,
        Command::Chat(args) => chat::run(args, config()?).await,
        Command::Run(args) => run::run(args, config()?).await,
        Command::Resume(args) => resume::run(args, config()?).await,
        Command::Steer(args) => steer::run(args, config()?).await,
        Command::Cancel(args) => cancel::run(args, config()?).await,
        Command::Approvals(args) => approvals::run(args, config()?).await,
        Command::Approve(args) => approve::run(args, config()?).await,
        Command::Inputs(args) => inputs::run(args, config()?).await,
        Command::Answer(args) => answer::run(args, config()?).await,
        Command::Policy(command) => policy::run(command, config()?).await,
        Command::Conversations(args) => conversations::run(args, config()?).await,
        Command::Memory(command) => memory::run(command, config()?).await,
        Command::Timeline(command) => timeline::run(command, config()?).await,
        Command::Read(args) => read::run(args, config()?).await,
        Command::Tool(command) => tool::run(command, config()?).await,
        Command::Skill(command) => skill::run(command, &config()?),
        Command::Mcp(command) => mcp::run(command, config()?).await,
        Command::Trace(args) => trace::run(args, config()?).await,
        Command::Serve(args) => serve::run(args, config()?).await,
        Command::Token(command) => token::run(command, config()?).await,
        Command::Feedback(args) => feedback::run(args, config()?).await,
        Command::Store(command) => store::run(command, config()?).await,
        Command::Doctor(args) => doctor::run(args, config()?).await,
        Command::Completions(args) => completions::run(args),
        Command::Man => man::run(),
    }
}
