//! `annals store archive`: idle conversations moved to the artifact store.

use std::io::IsTerminal as _;

use annals::core::redact::SafeUrl;
use annals::store::log::{Archive, Idle};
use annals::store::{Cursor, LogError};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::args::StoreArchiveArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::{paint, setup, shown};

/// Conversations that are asked for at once.
const PAGE: usize = 100;

/// What was moved, or would be.
#[derive(Default)]
struct Moved {
    conversations: u64,
    blocks: u64,
    bytes: u64,
    /// Those that somebody took up meanwhile.
    left: u64,
    /// Those whose rows are damaged.
    damaged: u64,
}

pub(super) async fn run(args: &StoreArchiveArgs, config: &Config) -> Result<Ended, Failure> {
    let artifacts = setup::open_artifacts(&config.artifacts.value, &config.home.value)?;
    let embedder = setup::embedder(&config.embeddings)?;
    let opened = setup::open_log(&config.store.value, embedder, Some(&artifacts)).await?;
    let Some(archive) = opened.archive else {
        return Err(Failure::usage(format!(
            "`{}` is a file of one machine, whose conversations stay in it: archiving is for a store that machines share, \
             `--store postgres://…`; to move one conversation out of a file, use `annals timeline export` and `annals conversations delete`",
            SafeUrl(&config.store.value)
        )));
    };
    let (mut moved, bar) = (Moved::default(), bar());
    let ended = tokio::select! {
        // Asked first, so that the signal is listened for before there is anything to stop.
        biased;
        Ok(()) = tokio::signal::ctrl_c() => None,
        ended = move_all(&*archive, args, &mut moved, &bar) => Some(ended),
    };
    bar.finish_and_clear();
    tell(args, &moved)?;
    match ended {
        Some(Ok(())) if moved.damaged == 0 => Ok(Ended::Well),
        Some(Err(error)) => Err(error.into()),
        // What was under way is as it was.
        Some(Ok(())) | None => Ok(Ended::Otherwise),
    }
}

/// Moves one conversation after the other.
async fn move_all(
    archive: &dyn Archive,
    args: &StoreArchiveArgs,
    moved: &mut Moved,
    bar: &ProgressBar,
) -> Result<(), LogError> {
    let mut cursor: Option<Cursor> = None;
    loop {
        let page = archive.idle(args.idle, cursor, PAGE).await?;
        for idle in &page.items {
            if args.limit.is_some_and(|limit| moved.conversations >= limit) {
                return Ok(());
            }
            match args.dry_run {
                true => moved.count(idle, 0),
                false => move_one(archive, idle, moved).await?,
            }
            bar.set_position(moved.conversations);
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(()),
        }
    }
}

async fn move_one(archive: &dyn Archive, idle: &Idle, moved: &mut Moved) -> Result<(), LogError> {
    match archive.archive(idle).await {
        Ok(Some(archived)) => moved.count(idle, archived.object.size_bytes),
        Ok(None) => moved.left += 1,
        // It stays as it is; the others do not suffer.
        Err(error @ LogError::Corrupt { .. }) => {
            moved.damaged += 1;
            paint::error(shown!("`{}`: {}", idle.key.to_string(), error.to_string()));
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

impl Moved {
    fn count(&mut self, idle: &Idle, bytes: u64) {
        self.conversations += 1;
        self.blocks += idle.blocks;
        self.bytes += bytes;
    }
}

fn tell(args: &StoreArchiveArgs, moved: &Moved) -> Result<(), Failure> {
    if args.json {
        let json = json!({
            "conversations": moved.conversations, "blocks": moved.blocks, "bytes": moved.bytes, "left": moved.left,
            "damaged": moved.damaged, "dry_run": args.dry_run,
        });
        return paint::print_json(&format!("{json}\n"));
    }
    let (conversations, blocks) = (paint::number(moved.conversations), paint::number(moved.blocks));
    let mut said = match args.dry_run {
        true => format!("{conversations} conversations with {blocks} blocks would be archived"),
        false => format!(
            "{conversations} conversations with {blocks} blocks archived, {} in the artifact store",
            paint::size(moved.bytes)
        ),
    };
    for (count, what) in [
        (moved.left, "taken up meanwhile"),
        (moved.damaged, "damaged and left as they are"),
    ] {
        if count > 0 {
            said.push_str(&format!("; {} {what}", paint::number(count)));
        }
    }
    paint::print(format!("{said}\n"))
}

fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    match ProgressStyle::with_template("{pos} conversations archived, {per_sec}") {
        Ok(style) => ProgressBar::new(0).with_style(style),
        Err(_) => ProgressBar::new(0),
    }
}
