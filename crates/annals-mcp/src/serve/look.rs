//! What can be looked at without asking the agent: files and other paths, timelines, memory; as tools and as resources.

use annals_core::block::{BlockKind, Visibility};
use annals_core::ids::{ConversationId, Seq, TurnId};
use annals_core::limits::MEMSEARCH_MAX_HITS;
use annals_core::path::{LogicalPath, RangedPath};
use annals_core::timeline::Timeline;
use annals_store::Cursor;
use annals_store::recall::rank::SearchMode;
use annals_store::recall::{Query, Within};
use annals_tools::content::{self, Whole};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents, ResourceTemplate};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::offer::{conversation_of, text_of};
use super::{AnnalsServer, Unmet};
use crate::text;

/// Begins the address of everything here.
const SCHEME: &str = "annals://c/";
/// Conversations in a page of the list of resources.
const LISTED_MAX: usize = 50;
/// Blocks in a timeline that is read whole.
const TIMELINE_MAX_BLOCKS: usize = 2_000;
/// Bytes of one path.
const READ_MAX_BYTES: usize = 8 << 20;
/// Pictures and sound of an answer that are shown beside their links, and how large each may be.
const SHOWN_MAX_FILES: usize = 4;
const SHOWN_MAX_BYTES: u64 = 1 << 20;
/// Days that memory goes back.
const MEMORY_DAYS: u32 = 365;

/// A file of a turn.
pub(super) struct File {
    path: LogicalPath,
    media_type: String,
    uri: String,
    size_bytes: Option<u64>,
}

impl File {
    pub(super) fn as_json(&self) -> Value {
        json!({"path": self.path, "uri": self.uri, "media_type": self.media_type})
    }

    pub(super) fn as_link(&self) -> ContentBlock {
        let resource =
            Resource::new(self.uri.clone(), self.path.to_string()).with_mime_type(self.media_type.clone());
        ContentBlock::ResourceLink(resource)
    }
}

/// The files that a turn made for people, each in its last version.
pub(super) fn files(timeline: &Timeline, id: &ConversationId, turn: &TurnId) -> Vec<File> {
    let blocks = timeline
        .turn(turn)
        .map_or(&[][..], |turn| timeline.turn_blocks(turn));
    let mut files: Vec<File> = Vec::new();
    for block in blocks.iter().filter(|block| block.kind == BlockKind::ToolResult) {
        let (Some(path), Some(file)) = (&block.path, &block.meta().file) else {
            continue;
        };
        let is_shown = file
            .digest
            .as_ref()
            .is_some_and(|digest| digest.visibility == Visibility::External);
        if !is_shown || !path.is_file() || path.turn() != Some(turn.as_str()) {
            continue;
        }
        files.retain(|earlier| earlier.path != *path);
        files.push(File {
            path: path.clone(),
            media_type: block.mime.to_string(),
            uri: uri(id, path.as_str()),
            size_bytes: file.digest.as_ref().and_then(|digest| digest.size_bytes),
        });
    }
    files
}

fn uri(id: &ConversationId, path: &str) -> String {
    let encoded: String = path
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'/' | b':' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect();
    format!("{SCHEME}{id}/{encoded}")
}

/// The conversation of an address, and its path, if it has one.
pub(super) fn parse_uri(uri: &str) -> Option<(ConversationId, Option<String>)> {
    let rest = uri.strip_prefix(SCHEME)?;
    let (id, path) = match rest.split_once('/') {
        None => (rest, None),
        Some((id, "")) => (id, None),
        Some((id, path)) => (id, Some(decoded(path)?)),
    };
    Some((ConversationId::parse(id).ok()?, path))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |uri: &str, name: &str, description: &str| {
        ResourceTemplate::new(uri, name).with_description(description)
    };
    vec![
        template(
            "annals://c/{conversation}",
            "timeline",
            "The blocks of a conversation, one a line.",
        ),
        template(
            "annals://c/{conversation}/{+path}",
            "path",
            "What a logical path of a conversation names.",
        ),
    ]
}

impl AnnalsServer {
    /// Conversations, the newest first, and where the list goes on.
    pub(super) async fn conversations(
        &self,
        cursor: Option<Cursor>,
    ) -> Result<(Vec<Resource>, Option<Cursor>), Unmet> {
        let page = self
            .agent
            .log()
            .list(self.agent.scope(), cursor, LISTED_MAX)
            .await
            .map_err(Unmet::new)?;
        let resource = |info: &annals_store::ConversationInfo| {
            let id = &info.key.id;
            let title = info.title.as_deref().unwrap_or(id.as_str());
            Resource::new(format!("{SCHEME}{id}"), id.to_string())
                .with_title(text::one_line(title, 120))
                .with_mime_type("text/plain")
        };
        Ok((page.items.iter().map(resource).collect(), page.next))
    }

    pub(super) async fn resource(&self, uri: &str) -> Result<ResourceContents, Unmet> {
        let (id, path) = parse_uri(uri).ok_or_else(|| {
            Unmet(format!(
                "`{}` is no address of a conversation: give `{SCHEME}ID/PATH`",
                text::one_line(uri, 200)
            ))
        })?;
        match path {
            None => {
                let listed = self.listed(&id, None).await?;
                Ok(ResourceContents::text(listed.lines(), uri))
            }
            Some(path) => {
                let whole = self.whole(&id, &path).await?;
                Ok(contents(whole, uri))
            }
        }
    }

    /// The pictures and the sound among a turn's files, themselves: a model at the other end sees no link.
    pub(super) async fn seen_and_heard(&self, id: &ConversationId, files: &[File]) -> Vec<ContentBlock> {
        let is_shown = |file: &&File| {
            let kind = file.media_type.split('/').next();
            let is_small = file.size_bytes.is_some_and(|size| size <= SHOWN_MAX_BYTES);
            is_small && matches!(kind, Some("image" | "audio"))
        };
        let mut shown_files = Vec::new();
        for file in files.iter().filter(is_shown).take(SHOWN_MAX_FILES) {
            // One that cannot be read is still there as a link.
            if let Ok(whole) = self.whole(id, file.path.as_str()).await {
                shown_files.push(shown(whole, &file.uri));
            }
        }
        shown_files
    }

    pub(super) async fn read(&self, arguments: &Map<String, Value>) -> Result<CallToolResult, Unmet> {
        let id = conversation_of(arguments)?;
        let path = text_of(arguments, "path").unwrap_or_default();
        let whole = self.whole(&id, path).await?;
        let mut value = json!({
            "conversation": id, "path": path, "uri": uri(&id, path), "media_type": whole.mime,
            "size_bytes": whole.bytes.len(),
        });
        if let Some(words) = whole.text() {
            value["text"] = json!(words);
        }
        let mut result = CallToolResult::success(vec![shown(whole, &uri(&id, path))]);
        result.structured_content = Some(value);
        Ok(result)
    }

    pub(super) async fn timeline(&self, arguments: &Map<String, Value>) -> Result<CallToolResult, Unmet> {
        let id = conversation_of(arguments)?;
        let at = arguments
            .get("at")
            .and_then(Value::as_u64)
            .map(Seq::try_new)
            .transpose()
            .map_err(Unmet::new)?;
        let listed = self.listed(&id, at).await?;
        let mut result = CallToolResult::success(vec![ContentBlock::text(listed.lines())]);
        result.structured_content = Some(json!({
            "conversation": id, "earlier": listed.earlier, "blocks": listed.blocks,
        }));
        Ok(result)
    }

    pub(super) async fn search_memory(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<CallToolResult, Unmet> {
        let recall = self
            .agent
            .recall()
            .ok_or_else(|| Unmet::new("this agent keeps no memory"))?;
        let words = text_of(arguments, "query").unwrap_or_default();
        if words.trim().is_empty() {
            return Err(Unmet::new("the query has no words: say what to look for"));
        }
        let within = match arguments.contains_key("conversation") {
            true => Within::Conversation(conversation_of(arguments)?),
            false => Within::Scope,
        };
        let limit = arguments.get("top_k").and_then(Value::as_u64).unwrap_or(5);
        let query = Query {
            scope: self.agent.scope().clone(),
            within,
            text: words.to_owned(),
            targets: Vec::new(),
            limit: usize::try_from(limit).unwrap_or(5).clamp(1, MEMSEARCH_MAX_HITS),
            since: None,
            before: None,
            by: SearchMode::Hybrid,
            now: self.agent.world().now(),
        };
        let found = recall.search(query.days(MEMORY_DAYS)).await.map_err(Unmet::new)?;
        let rows: Vec<Value> = found
            .hits
            .iter()
            .map(|hit| {
                json!({
                    "conversation": hit.conversation, "turn": hit.turn, "path": hit.path,
                    "role": hit.target.as_str(), "text": hit.text, "ts": hit.ts,
                })
            })
            .collect();
        Ok(CallToolResult::structured(json!({"passages": rows})))
    }

    pub(super) async fn whole(&self, id: &ConversationId, path: &str) -> Result<Whole, Unmet> {
        let path = RangedPath::parse(path).map_err(Unmet::new)?;
        let cx = self.agent.reading(id, None).await.map_err(Unmet::new)?;
        let mut whole = content::whole(&cx, &path.path, None).await.map_err(Unmet::new)?;
        if let Some(lines) = path.lines {
            let (first, last) = (lines.first as usize, lines.last as usize);
            let kept = whole
                .bytes
                .split_inclusive(|byte| *byte == b'\n')
                .skip(first - 1)
                .take(last - first + 1);
            whole.bytes = kept.flatten().copied().collect();
        }
        if whole.bytes.len() > READ_MAX_BYTES {
            return Err(Unmet(format!(
                "`{}` has {} bytes, and at most {READ_MAX_BYTES} can be read at once: name lines, such as `#L1-400`",
                path.path,
                whole.bytes.len()
            )));
        }
        Ok(whole)
    }

    /// The last blocks of a conversation.
    async fn listed(&self, id: &ConversationId, at: Option<Seq>) -> Result<Listed, Unmet> {
        let mut timeline = self.agent.timeline(id).await.map_err(Unmet::new)?;
        if let Some(at) = at {
            timeline = timeline.at(at);
        }
        let blocks = timeline.blocks();
        let earlier = blocks.len().saturating_sub(TIMELINE_MAX_BLOCKS);
        let listed = blocks[earlier..].iter().map(|block| ListedBlock {
            seq: block.seq,
            turn: block.turn.clone(),
            kind: block.kind.to_string(),
            path: block.path.clone(),
            text: block
                .text()
                .map(|words| text::one_line(words, 120))
                .unwrap_or_default(),
        });
        Ok(Listed {
            earlier,
            blocks: listed.collect(),
        })
    }
}

/// The last blocks of a conversation, each by its beginning.
struct Listed {
    /// How many come before them.
    earlier: usize,
    blocks: Vec<ListedBlock>,
}

#[derive(Serialize)]
struct ListedBlock {
    seq: Seq,
    turn: TurnId,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<LogicalPath>,
    text: String,
}

impl Listed {
    fn lines(&self) -> String {
        let earlier = (self.earlier > 0).then(|| format!("({} earlier blocks)", self.earlier));
        let lines = self.blocks.iter().map(|block| {
            let path = block.path.as_ref().map_or("-", LogicalPath::as_str);
            format!(
                "{} {} {} {path} {}",
                block.seq, block.turn, block.kind, block.text
            )
        });
        earlier.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }
}

/// Bytes as a model at the other end is shown them.
fn shown(whole: Whole, uri: &str) -> ContentBlock {
    let (is_image, is_audio) = (whole.mime.starts_with("image/"), whole.mime.starts_with("audio/"));
    match whole.text() {
        Some(words) => ContentBlock::text(words),
        None if is_image => ContentBlock::image(STANDARD.encode(&whole.bytes), whole.mime),
        None if is_audio => ContentBlock::audio(STANDARD.encode(&whole.bytes), whole.mime),
        None => ContentBlock::resource(contents(whole, uri)),
    }
}

fn contents(whole: Whole, uri: &str) -> ResourceContents {
    match whole.text() {
        Some(words) => ResourceContents::text(words, uri).with_mime_type(whole.mime.clone()),
        None => ResourceContents::blob(STANDARD.encode(&whole.bytes), uri).with_mime_type(whole.mime.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_every_path() {
        let id = ConversationId::parse("c1").unwrap();
        for path in [
            "fi:turn_1.files/a b/ü%.md",
            "tc:turn_1.tc_1.result",
            "so:sources_pool[1-3]",
        ] {
            assert_eq!(
                parse_uri(&uri(&id, path)),
                Some((id.clone(), Some(path.to_owned()))),
                "{path}"
            );
        }
        assert_eq!(parse_uri("annals://c/c1"), Some((id, None)));
        for wrong in [
            "file:///etc/passwd",
            "annals://c/../x",
            "annals://c/c1/%zz",
            "annals://c/",
        ] {
            assert_eq!(parse_uri(wrong), None, "{wrong}");
        }
    }
}
