//! `annals completions`: a script for the shell.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::{Ended, Failure};
use crate::paint;

pub(crate) fn run(args: CompletionsArgs) -> Result<Ended, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "annals", &mut script);
    paint::print_bytes(&script)?;
    Ok(Ended::Well)
}
