//! `annals timeline import`: reads a conversation from an export; prints its id.

use annals::store::{ImportAs, import_conversation};
use tokio::io::AsyncRead;

use crate::args::ImportArgs;
use crate::failure::{Ended, Failure};
use crate::paint;
use crate::setup::Setup;

pub(crate) async fn run(args: ImportArgs, setup: &Setup) -> Result<Ended, Failure> {
    let cannot = |error| Failure::usage(format!("cannot read `{}`: {error}", args.file.display()));
    let source: Box<dyn AsyncRead + Unpin + Send> = match args.file.as_os_str() == "-" {
        true => Box::new(tokio::io::stdin()),
        false => {
            let file = annals_files::open_regular(&args.file).map_err(cannot)?;
            Box::new(tokio::fs::File::from_std(file))
        }
    };
    let mut reader = tokio::io::BufReader::new(source);
    let agent = &setup.agent;
    let import_as = ImportAs {
        id: None,
        scope: agent.scope().clone(),
        owner: agent.owner(),
    };
    let imported = import_conversation(&**agent.log(), agent.artifacts(), &mut reader, import_as).await?;
    paint::print(format!("{}\n", imported.id))?;
    Ok(Ended::Well)
}
