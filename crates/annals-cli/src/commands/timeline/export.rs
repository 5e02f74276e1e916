//! `annals timeline export`: a conversation with its files as one file.

use std::io::IsTerminal as _;

use annals::store::export_conversation;
use tokio::io::AsyncWriteExt as _;

use crate::args::ExportArgs;
use crate::failure::{Ended, Failure};
use crate::setup::{Setup, conversation_id};
use crate::{output, paint};

pub(crate) async fn run(args: ExportArgs, setup: &Setup) -> Result<Ended, Failure> {
    let key = setup.agent.key(&conversation_id(&args.conversation)?);
    let (log, artifacts) = (setup.agent.log(), setup.agent.artifacts());
    let Some(file) = &args.output else {
        // Every byte counts in an export, and a terminal must not get every byte.
        if std::io::stdout().is_terminal() {
            return Err(Failure::usage(
                "an export is not for a terminal: name a file with `--output`, or send it through a pipe",
            ));
        }
        let mut out = tokio::io::stdout();
        export_conversation(&**log, artifacts, &key, &mut out).await?;
        // What a full disk refuses shows when the last bytes are written.
        out.flush().await?;
        return Ok(Ended::Well);
    };
    let exported = output::write_file(file, async |out| {
        Ok(export_conversation(&**log, artifacts, &key, out).await?)
    })
    .await?;
    paint::say(format!(
        "{} blocks and {} artifacts, {} in `{}`",
        exported.blocks,
        exported.artifacts,
        paint::size(exported.size_bytes),
        file.display()
    ));
    Ok(Ended::Well)
}
