//! `annals read`: what a logical path names, byte for byte.

use annals::core::path::{LineRange, RangedPath};
use annals::futures::{StreamExt as _, TryStreamExt as _, stream};
use annals::sandbox::ByteStream;
use annals::tools::ConversationCx;
use annals::tools::content::{self, ContentError};
use tokio::io::AsyncWriteExt as _;

use crate::args::ReadArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::setup::{Needs, Setup};
use crate::{output, paint};

pub(crate) async fn run(args: ReadArgs, config: Config) -> Result<Ended, Failure> {
    let paths: Vec<RangedPath> = args
        .paths
        .iter()
        .map(|path| RangedPath::parse(path).map_err(Failure::usage))
        .collect::<Result<_, _>>()?;
    let setup = Setup::open(config, Needs::NoModel).await?;
    let (id, timeline) = setup.timeline(&args.conversation).await?;
    let cx = setup.reading(id, timeline)?;
    // All of them first: that a path names nothing should not come after half the output.
    let mut bodies = Vec::new();
    for path in &paths {
        bodies.push(body(&cx, path).await?);
    }
    let mut bytes = stream::iter(bodies).flatten().map_err(Failure::environment);
    match &args.output {
        Some(file) => {
            let copy = async |out: &mut tokio::io::BufWriter<tokio::fs::File>| {
                while let Some(piece) = bytes.try_next().await? {
                    out.write_all(&piece).await?;
                }
                Ok(())
            };
            output::write_file(file, copy).await?;
        }
        None => {
            let mut printed = paint::Printed::new();
            while let Some(piece) = bytes.try_next().await? {
                printed.piece(&piece)?;
            }
            printed.finish()?;
        }
    }
    Ok(Ended::Well)
}

/// What a path names, as a stream; of some lines, those.
async fn body(cx: &ConversationCx, path: &RangedPath) -> Result<ByteStream, Failure> {
    if path.lines.is_some() {
        let bytes = content(cx, path).await?;
        return Ok(stream::once(async { Ok(bytes.into()) }).boxed());
    }
    let opened = content::open(cx, &path.path, None).await;
    Ok(opened.map_err(|error| failure(cx, &error))?.body)
}

fn failure(cx: &ConversationCx, error: &ContentError) -> Failure {
    match error {
        ContentError::Missing(_) => Failure::usage(format!(
            "{error} in `{}`: see `annals timeline show {}`",
            cx.conversation, cx.conversation
        )),
        _ => Failure::environment(error),
    }
}

/// The bytes of a path, or of some of its lines.
pub(crate) async fn content(cx: &ConversationCx, path: &RangedPath) -> Result<Vec<u8>, Failure> {
    let whole = content::whole(cx, &path.path, None)
        .await
        .map_err(|error| failure(cx, &error))?;
    match path.lines {
        None => Ok(whole.bytes),
        Some(lines) => lines_of(&whole.bytes, lines)
            .ok_or_else(|| Failure::usage(format!("`{}` has fewer than {} lines", path.path, lines.first))),
    }
}

/// These lines with their ends; none when the first of them does not exist.
fn lines_of(bytes: &[u8], range: LineRange) -> Option<Vec<u8>> {
    let (first, last) = (range.first as usize, range.last as usize);
    let lines = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .skip(first - 1)
        .take(last - first + 1);
    let found: Vec<u8> = lines.flatten().copied().collect();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_lines_keeps_every_byte_of_them() {
        let read = |first, last| lines_of(b"a\r\nb\n\nc", LineRange::try_new(first, last).unwrap());
        assert_eq!(read(1, 1).unwrap(), b"a\r\n");
        assert_eq!(read(2, 3).unwrap(), b"b\n\n");
        assert_eq!(read(4, 9).unwrap(), b"c");
        assert_eq!(read(5, 5), None);
    }
}
