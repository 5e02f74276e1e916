//! `annals timeline export`: a conversation with its files as one file.

use annals::store::export_conversation;
use tokio::io::AsyncWriteExt as _;

use crate::args::ExportArgs;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::{Setup, conversation_id};

pub(crate) async fn run(args: ExportArgs, setup: &Setup) -> Result<Ended, Failure> {
    let key = setup.agent.key(&conversation_id(&args.conversation)?);
    let (log, artifacts) = (setup.agent.log(), setup.agent.artifacts());
    let Some(file) = &args.output else {
        export_conversation(&**log, artifacts, &key, &mut tokio::io::stdout()).await?;
        return Ok(Ended::Well);
    };
    let cannot =
        |error: std::io::Error| Failure::environment(format!("cannot write `{}`: {error}", file.display()));
    let mut writer = tokio::io::BufWriter::new(tokio::fs::File::create(file).await.map_err(cannot)?);
    let exported = export_conversation(&**log, artifacts, &key, &mut writer).await?;
    writer.shutdown().await.map_err(cannot)?;
    paint::say(&format!(
        "{} blocks and {} artifacts, {} in `{}`",
        exported.blocks,
        exported.artifacts,
        paint::size(exported.size_bytes),
        file.display()
    ));
    Ok(Ended::Well)
}
