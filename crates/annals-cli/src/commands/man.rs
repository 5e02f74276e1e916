//! `annals man`: the manual page.

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::failure::{Ended, Failure};
use crate::paint;

pub(crate) fn run() -> Result<Ended, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    paint::print_bytes(&page)?;
    Ok(Ended::Well)
}
