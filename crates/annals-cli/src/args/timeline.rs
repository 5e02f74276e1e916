//! What was typed behind `annals timeline`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum TimelineCommand {
    /// Show a conversation as a tree of turns and rounds, with sizes.
    Show(SliceArgs),
    /// Print blocks as JSON Lines, one block a line.
    Blocks(SliceArgs),
    /// Print what the model sees, with cache points as `=>[n]`.
    Render(RenderArgs),
    /// Make a new conversation that shares the history up to a block; prints its id.
    Fork(ForkArgs),
    /// Write a conversation with its files into one file.
    Export(ExportArgs),
    /// Read a conversation from such a file; prints its id.
    Import(ImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SliceArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// Only this turn.
    #[arg(long, value_name = "T")]
    pub(crate) turn: Option<String>,
    /// As it was when this block was the last one.
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// As it was when this block was the last one.
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Print JSON: system, parts, cache points, tokens.
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell instead, request by request, how much of the prefix was kept, which byte broke it and what that cost.
    #[arg(long)]
    pub(crate) why: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// The last block to share, 0 for none of them.
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// The file to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The file to read.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
