//! Where the things that can be read come from.

use annals_core::block::{ArtifactKind, FileMeta, SafeDigest, Visibility};
use annals_core::ids::Sid;
use annals_core::limits;
use annals_core::path::{LogicalPath, SidSet};
use annals_core::skill::Skill;
use annals_core::sources::SourceRow;

use super::item::Item;
use crate::content::{self, ContentError, Whole};
use crate::cx::ToolCx;

/// A file, a record, or a part of a call: what the timeline or the disk has. A file is brought back into OUT_DIR.
pub(super) async fn stored(cx: &ToolCx, path: &LogicalPath) -> Result<Item, ContentError> {
    let whole = content::whole(cx.shared(), path, Some(cx.turn())).await?;
    if let Some(physical) = path.physical() {
        content::rehost(cx.shared(), &physical, &whole).await?;
    }
    let (digest, file) = cx.timeline(|timeline| {
        let file = timeline
            .latest(path)
            .and_then(|block| block.meta().file.as_deref().cloned());
        (timeline.latest_digest(path), file.unwrap_or_default())
    });
    let mut digest = digest.unwrap_or_else(|| plain_digest(path, &whole.mime));
    digest.error = None;
    digest.write_warning = None;
    let file = FileMeta { digest: None, ..file };
    Ok(Item {
        path: path.clone(),
        lines: None,
        digest,
        file,
        whole,
    })
}

/// A row of the sources pool that is not a file, with its full content.
pub(super) fn row(row: &SourceRow) -> Item {
    let path = LogicalPath::sources(
        row.sid
            .and_then(|sid| SidSet::try_from_sids([sid]).ok())
            .unwrap_or_default(),
    );
    let sid = row.sid.map_or(0, |sid| sid.get());
    let url = if row.url.is_empty() {
        String::new()
    } else {
        format!("url: {}\n", row.url)
    };
    let text = format!("[S:{sid}] {}\n{url}\n{}", row.title, row.full_text());
    text_item(path, text, "text/markdown")
}

/// Many rows of the sources pool, a line each: what there is to read.
pub(super) fn listing(path: &LogicalPath, rows: &[SourceRow]) -> Item {
    let mut text = format!(
        "{} rows: sid | title | url; read up to {} of them whole with react.read(so:sources_pool[n,m])\n",
        rows.len(),
        limits::SOURCES_READ_WHOLE_MAX_ROWS
    );
    for row in rows {
        let sid = row.sid.map_or(0, |sid| sid.get());
        let place = row.artifact_path.as_ref().map_or(&*row.url, LogicalPath::as_str);
        text.push_str(&format!("{sid} | {} | {place}\n", row.title.replace('\n', " ")));
    }
    text_item(path.clone(), text, "text/markdown")
}

/// A skill's body. It cites the rows that the skill brings by their place in this call, `rows_before` further ones
/// being there already: what numbers they get is known only when the call is written down.
pub(super) fn skill(path: &LogicalPath, skill: &Skill, rows_before: usize) -> Item {
    let places = (rows_before + 1..).filter_map(|place| Sid::try_new(u32::try_from(place).ok()?).ok());
    let places: Vec<Sid> = places.take(skill.sources.len()).collect();
    let body = skill.body_citing(&places);
    let text = format!("[ACTIVE SKILL {path}] {}\n{body}", skill.description);
    text_item(path.clone(), text, "text/markdown")
}

fn text_item(path: LogicalPath, text: String, mime: &str) -> Item {
    let digest = plain_digest(&path, mime);
    let whole = Whole {
        mime: mime.to_owned(),
        bytes: text.into_bytes(),
    };
    Item {
        path,
        lines: None,
        digest,
        file: FileMeta::default(),
        whole,
    }
}

fn plain_digest(path: &LogicalPath, mime: &str) -> SafeDigest {
    let kind = if path.physical().is_some() {
        ArtifactKind::File
    } else {
        ArtifactKind::Display
    };
    SafeDigest::new(path.clone(), mime, kind, Visibility::Internal)
}
