//! `react.search_files`: files by name and by content, without a shell.

use std::collections::BTreeMap;

use annals_core::block::ShownError;
use annals_core::code::Code;
use annals_core::limits;
use annals_core::path::LogicalPath;
use annals_core::turn::outcome::{Outcome, Output, Payload};
use annals_core::view::cut;
use async_trait::async_trait;
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::access::Uses;
use crate::content::{self, Whole};
use crate::cx::ToolCx;
use crate::spec::{Effect, Family, ToolSpec};
use crate::tool::Tool;
use crate::{disk, serialise};

/// A compiled expression takes at most this many bytes.
const REGEX_MAX_BYTES: usize = 1_000_000;
/// A hit shows this many characters of its line.
const LINE_MAX_CHARS: usize = 200;
/// One file gives at most this many hits, so that one log does not use up the rest.
const HITS_PER_FILE_MAX: usize = 50;

/// The tool.
pub struct SearchFiles {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    name_regex: Option<String>,
    content_regex: Option<String>,
    max_hits: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Hit {
    path: LogicalPath,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
}

#[derive(Default, Serialize)]
struct SearchReport {
    hits: Vec<Hit>,
    files_searched: usize,
    truncated: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<Skipped>,
}

#[derive(Serialize)]
struct Skipped {
    path: LogicalPath,
    why: String,
}

impl SearchFiles {
    /// `react.search_files`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("react.search_files")
            .description(
                "Find files of this conversation by a regular expression on their paths, on their lines, or both. \
                 Returns logical paths to use with react.read.",
            )
            .family(Family::React)
            .effect(Effect::None)
            .reads(Uses::Workspace)
            .parameters(json!({
                "type": "object",
                "properties": {
                    "name_regex": {
                        "type": "string",
                        "description": "FIRST FIELD. Matches anywhere in the path below a turn, such as `\\.csv$`."
                    },
                    "content_regex": {
                        "type": "string",
                        "description": "SECOND FIELD. Matches anywhere in a line."
                    },
                    "max_hits": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "THIRD FIELD. Default 200."
                    },
                },
                "required": [],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        SearchFiles { spec }
    }
}

impl Default for SearchFiles {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for SearchFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let search = match serde_json::from_value(args)
            .map_err(|error| error.to_string())
            .and_then(Search::compile)
        {
            Ok(search) => search,
            Err(message) => return serialise::refused(ShownError::new(Code::InvalidRegex, message)),
        };
        let candidates = candidates(cx, search.name.as_ref()).await;
        let found = search.run(cx, candidates).await;
        Outcome {
            output: Output::Payload(Payload::json(&found)),
            ..Outcome::default()
        }
    }
}

/// What to look for.
struct Search {
    name: Option<Regex>,
    content: Option<Regex>,
    max_hits: usize,
}

impl Search {
    fn compile(args: Args) -> Result<Self, String> {
        let compile = |name: &str, pattern: Option<String>| {
            let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else {
                return Ok(None);
            };
            RegexBuilder::new(&pattern)
                .size_limit(REGEX_MAX_BYTES)
                .build()
                .map(Some)
                .map_err(|error| format!("`{name}` is not a regular expression: {error}"))
        };
        let asked = args.max_hits.unwrap_or(limits::SEARCH_FILES_DEFAULT_HITS);
        Ok(Search {
            name: compile("name_regex", args.name_regex)?,
            content: compile("content_regex", args.content_regex)?,
            max_hits: asked.clamp(1, limits::SEARCH_FILES_MAX_HITS),
        })
    }

    async fn run(self, cx: &ToolCx, candidates: BTreeMap<LogicalPath, Option<u64>>) -> SearchReport {
        let mut found = SearchReport::default();
        for (path, size_bytes) in candidates {
            if cx.cancel().is_cancelled() || found.hits.len() >= self.max_hits {
                found.truncated = true;
                break;
            }
            found.files_searched += 1;
            let Some(pattern) = &self.content else {
                found.hits.push(Hit {
                    path,
                    line: None,
                    text: None,
                    size_bytes,
                });
                continue;
            };
            if let Some(size) = size_bytes.filter(|size| *size > limits::SEARCH_FILE_MAX_BYTES) {
                let why = format!(
                    "{size} bytes are more than {} to look into",
                    limits::SEARCH_FILE_MAX_BYTES
                );
                found.skipped.push(Skipped { path, why });
                continue;
            }
            let Ok(whole) = content::whole(cx.shared(), &path, Some(cx.turn())).await else {
                continue;
            };
            let left = self.max_hits - found.hits.len();
            let (hits, more) = lines(&path, whole, pattern.clone(), left).await;
            found.hits.extend(hits);
            found.truncated |= more;
        }
        found
    }
}

/// All files of this conversation whose path matches: what lies in OUT_DIR, and what blocks know.
async fn candidates(cx: &ToolCx, name: Option<&Regex>) -> BTreeMap<LogicalPath, Option<u64>> {
    let mut files: BTreeMap<LogicalPath, Option<u64>> = cx.timeline(|timeline| {
        let size =
            |block: &annals_core::block::Block| block.meta().file.as_ref().and_then(|file| file.size_bytes);
        timeline
            .files()
            .filter_map(|block| Some((block.path.clone()?, size(block))))
            .collect()
    });
    for entry in disk::list(cx.workspace()).await.unwrap_or_default() {
        files.insert(entry.path.logical(), Some(entry.size_bytes));
    }
    files.retain(|path, _| {
        let physical = path.physical();
        physical.is_some_and(|physical| name.is_none_or(|name| name.is_match(physical.rel().as_str())))
    });
    files
}

/// The matching lines of one file, on a thread that may take its time.
async fn lines(path: &LogicalPath, whole: Whole, pattern: Regex, left: usize) -> (Vec<Hit>, bool) {
    let path = path.clone();
    let searched = tokio::task::spawn_blocking(move || {
        let Some(text) = whole.text() else {
            return (Vec::new(), false);
        };
        let cap = left.min(HITS_PER_FILE_MAX);
        let mut matching = text
            .lines()
            .enumerate()
            .filter(|(_, line)| pattern.is_match(line));
        let hit = |(index, line): (usize, &str)| Hit {
            path: path.clone(),
            line: Some(index + 1),
            text: Some(cut::brief(line.trim_end(), LINE_MAX_CHARS)),
            size_bytes: None,
        };
        let hits: Vec<Hit> = matching.by_ref().take(cap).map(hit).collect();
        let more = matching.next().is_some();
        (hits, more)
    });
    searched.await.unwrap_or_default()
}
