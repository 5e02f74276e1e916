//! A turn as clients of this API see it, piece by piece: reasoning, text, activity, and how it ended.
//!
//! A fold over updates. What the model says is shown as it comes; the block that follows is the truth and adds what was
//! missed. So a client that was there all along, one that came late and one that reads the finished turn get the same text,
//! and each piece has the same place in it.

use std::collections::HashMap;

use annals_core::block::payload::{CallText, TurnReport};
use annals_core::block::{Block, BlockKind, Visibility};
use annals_core::ids::{CallId, Sid, TurnId};
use annals_core::path::LogicalPath;
use annals_core::sources::{SourceRow, citation};
use annals_core::turn::TurnUsage;
use annals_runtime::{ClientFunction, Delta, DeltaChannel, InputRequest, TurnTerms, Update};
use serde_json::Value;

use super::client_tools::ClientCall;
use super::part::Part;
use crate::secrets::seconds;

/// What kind of text a piece belongs to, in the order in which a step shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Lane {
    /// The model's reasoning.
    Thinking,
    /// What the model says to the person.
    Message,
    /// The tools it calls, one a line.
    Activity,
}

/// One text of a turn: of one model call and one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TextId {
    pub(crate) step: u32,
    pub(crate) lane: Lane,
}

/// Something to show.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// More of a text, after this many characters of it.
    More { id: TextId, after: usize, text: String },
    /// A text is complete, with what it cites.
    Whole {
        id: TextId,
        text: String,
        citations: Vec<Citation>,
    },
    /// The client is to perform these; the turn waits for their results.
    Calls {
        calls: Vec<ClientCall>,
        usage: TurnUsage,
        /// When, in seconds since 1970.
        at: i64,
    },
    /// The turn is over, since this moment.
    Ended(TurnReport, i64),
}

/// A place of a text that links to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Citation {
    /// Where the link begins and ends, in characters.
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) url: String,
    pub(crate) title: String,
}

impl Piece {
    /// Whether nothing follows it in this answer.
    pub(crate) fn is_last(&self) -> bool {
        matches!(self, Piece::Calls { .. } | Piece::Ended(..))
    }
}

/// How an artifact is linked to: its address, or nothing where there is none.
pub(crate) type Link = Box<dyn Fn(&LogicalPath) -> Option<String> + Send + Sync>;

/// The fold of one turn.
pub(crate) struct Pieces {
    turn: TurnId,
    link: Link,
    sources: HashMap<Sid, SourceRow>,
    files: Vec<LogicalPath>,
    texts: Vec<(TextId, Shown)>,
    /// Whether the answer is read by a program: then nothing else may stand beside it.
    is_structured: bool,
    /// What the model is producing, as it came.
    raw: HashMap<TextId, String>,
    /// The client's own tools, by their names in the table.
    functions: HashMap<String, ClientFunction>,
    /// The arguments of calls to them.
    arguments: HashMap<CallId, String>,
    /// What the model calls of this answer took.
    usage: TurnUsage,
    /// How much had been said before this answer.
    said_before: usize,
}

#[derive(Default)]
struct Shown {
    text: String,
    chars: usize,
    is_whole: bool,
}

impl Pieces {
    /// Of this turn, with the sources that were known before it.
    pub(crate) fn new(turn: TurnId, sources: impl IntoIterator<Item = SourceRow>, link: Link) -> Self {
        let sources = numbered(sources);
        Pieces {
            turn,
            link,
            sources,
            files: Vec::new(),
            texts: Vec::new(),
            is_structured: false,
            raw: HashMap::new(),
            functions: HashMap::new(),
            arguments: HashMap::new(),
            usage: TurnUsage::default(),
            said_before: 0,
        }
    }

    /// What follows is another answer than what was folded in so far.
    pub(crate) fn begin_part(&mut self) {
        self.usage = TurnUsage::default();
        self.said_before = self.said().len();
    }

    /// The calls that these requests leave to the client, after the texts before them.
    pub(crate) fn handed_over(&mut self, part: &Part, requests: &[InputRequest], at: i64) -> Vec<Piece> {
        let call = |request: &InputRequest| ClientCall {
            id: part.call_id(&request.call_id),
            name: match self.functions.get(&request.tool) {
                Some(function) => function.name.clone(),
                None => request.tool.clone(),
            },
            arguments: self
                .arguments
                .get(&request.call_id)
                .cloned()
                .unwrap_or_else(|| "{}".to_owned()),
        };
        let calls = requests.iter().map(call).collect();
        let mut pieces = self.close(|_| true);
        pieces.push(Piece::Calls {
            calls,
            usage: self.usage,
            at,
        });
        pieces
    }

    /// What was said in this answer alone.
    pub(crate) fn said_in_part(&self) -> String {
        let said = self.said();
        said.get(self.said_before..)
            .unwrap_or_default()
            .trim_start()
            .to_owned()
    }

    /// Folds one update in.
    pub(crate) fn push(&mut self, update: &Update) -> Vec<Piece> {
        match update {
            Update::Block(block) if block.turn == self.turn => self.block(block),
            Update::Delta(delta) if delta.turn == self.turn => self.delta(delta),
            Update::Restarted { turn, .. } if *turn == self.turn => {
                self.raw.clear();
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// All that was said to the person so far: what the client keeps and sends again.
    pub(crate) fn said(&self) -> String {
        let messages = self.texts.iter().filter(|(id, _)| id.lane == Lane::Message);
        let texts: Vec<&str> = messages.map(|(_, shown)| shown.text.as_str()).collect();
        texts.join("\n\n")
    }

    fn delta(&mut self, delta: &Delta) -> Vec<Piece> {
        let lane = match delta.channel {
            DeltaChannel::Thinking => Lane::Thinking,
            // Whether it is the answer shows when it is whole.
            DeltaChannel::Answer if !self.is_structured => Lane::Message,
            _ => return Vec::new(),
        };
        let id = TextId {
            step: delta.step,
            lane,
        };
        let raw = self.raw.entry(id).or_default();
        // What was missed is added by the block that follows.
        if !raw.is_char_boundary(delta.from) {
            return Vec::new();
        }
        raw.truncate(delta.from);
        raw.push_str(&delta.text);
        let text = match lane {
            Lane::Message => {
                let raw = &self.raw[&id];
                self.cited(&raw[..certain(raw)])
            }
            _ => raw.clone(),
        };
        let shown = self.shown(id).text.clone();
        // After a restart the model may say something else; its block will tell.
        match text.strip_prefix(shown.as_str()) {
            Some(rest) => self.more(id, rest),
            None => Vec::new(),
        }
    }

    fn block(&mut self, block: &Block) -> Vec<Piece> {
        self.sources
            .extend(numbered(block.meta().sources.iter().cloned()));
        if let Some(usage) = block.meta().usage() {
            self.usage.add(usage);
        }
        let step = block.meta().step.unwrap_or_else(|| self.last_step());
        let id = |lane| TextId { step, lane };
        let text = block.text().unwrap_or_default();
        match block.kind {
            BlockKind::TurnHeader => {
                self.agree(TurnTerms::of_header(block));
                Vec::new()
            }
            BlockKind::Thinking => self.whole(id(Lane::Thinking), text),
            BlockKind::Notes if self.is_structured => self.more(id(Lane::Activity), &format!("{text}\n")),
            BlockKind::Notes => {
                let text = self.cited(text);
                self.whole(id(Lane::Message), &text)
            }
            BlockKind::ToolCall => match CallText::parse(text) {
                // The client shows its own.
                Some(call) if self.functions.contains_key(&*call.tool_id) => {
                    let arguments = call.params.get().to_owned();
                    self.arguments
                        .extend(block.meta().call.clone().map(|id| (id, arguments)));
                    Vec::new()
                }
                Some(call) => self.more(id(Lane::Activity), &format!("› {}\n", activity(&call))),
                None => Vec::new(),
            },
            // The answer stays open: files are added to it at the end.
            BlockKind::AssistantCompletion => {
                let text = self.cited(text);
                self.caught_up(id(Lane::Message), &text)
            }
            BlockKind::StageClarification => {
                let (id, text) = (self.next_message(), self.cited(text));
                self.caught_up(id, &text)
            }
            BlockKind::ToolResult => {
                self.file(block);
                self.close(|id| id.lane == Lane::Activity)
            }
            BlockKind::ReactCompletion => self.ended(block),
            _ => Vec::new(),
        }
    }

    /// An answer that a program reads has nothing beside it: what is said with calls counts as activity, and files are not
    /// linked to.
    fn agree(&mut self, terms: TurnTerms) {
        self.is_structured = terms.schema.is_some();
        let functions = terms.client_tools.into_iter();
        self.functions = functions
            .map(|function| (function.tool_name(), function))
            .collect();
    }

    fn file(&mut self, block: &Block) {
        let (Some(path), Some(file)) = (&block.path, &block.meta().file) else {
            return;
        };
        let is_shown = file
            .digest
            .as_ref()
            .is_some_and(|digest| digest.visibility == Visibility::External);
        if is_shown && path.is_file() && path.turn() == Some(self.turn.as_str()) {
            self.files.retain(|earlier| earlier != path);
            self.files.push(path.clone());
        }
    }

    fn ended(&mut self, block: &Block) -> Vec<Piece> {
        let Ok(mut report) = block.payload::<TurnReport>() else {
            return Vec::new();
        };
        // The answers before this one have told what they took.
        report.usage = self.usage;
        let links: Vec<String> = self
            .files
            .iter()
            .filter_map(|path| {
                let name = path.as_str().rsplit('/').next().unwrap_or_default();
                Some(format!(
                    "[{}]({})",
                    name.replace(['[', ']'], "_"),
                    (self.link)(path)?
                ))
            })
            .collect();
        let mut pieces = Vec::new();
        let answer = self.next_message();
        if !links.is_empty() && report.outcome.is_success() && !self.is_structured {
            let gap = if self.shown(answer).text.is_empty() {
                ""
            } else {
                "\n\n"
            };
            pieces = self.more(answer, &format!("{gap}{}", links.join("\n")));
        }
        pieces.extend(self.close(|_| true));
        pieces.push(Piece::Ended(report, seconds(block.ts)));
        pieces
    }

    fn last_step(&self) -> u32 {
        self.texts.iter().map(|(id, _)| id.step).max().unwrap_or(1)
    }

    /// The text that what is said now belongs to: that of the last step, unless calls followed it.
    fn next_message(&self) -> TextId {
        let step = self.last_step();
        let has_calls = self
            .texts
            .iter()
            .any(|(id, _)| id.step == step && id.lane == Lane::Activity);
        TextId {
            step: if has_calls { step + 1 } else { step },
            lane: Lane::Message,
        }
    }

    fn shown(&mut self, id: TextId) -> &mut Shown {
        let at = match self.texts.iter().position(|(known, _)| *known == id) {
            Some(at) => at,
            None => {
                let at = self.texts.partition_point(|(known, _)| *known < id);
                self.texts.insert(at, (id, Shown::default()));
                at
            }
        };
        &mut self.texts[at].1
    }

    fn more(&mut self, id: TextId, text: &str) -> Vec<Piece> {
        if text.is_empty() || self.shown(id).is_whole {
            return Vec::new();
        }
        // One text after the other, so that places only rise.
        let mut pieces = self.close(|earlier| *earlier < id);
        let shown = self.shown(id);
        let after = shown.chars;
        shown.text.push_str(text);
        shown.chars += text.chars().count();
        let text = text.to_owned();
        pieces.push(Piece::More { id, after, text });
        pieces
    }

    /// Adds what is missing of a text that is known now.
    fn caught_up(&mut self, id: TextId, text: &str) -> Vec<Piece> {
        let shown = self.shown(id).text.clone();
        match text.strip_prefix(shown.as_str()) {
            Some(rest) => self.more(id, rest),
            // White space at the ends is no difference; anything else was said again from the start.
            None if shown.trim_end() == text.trim_end() => Vec::new(),
            None => self.more(id, &format!("\n\n{text}")),
        }
    }

    fn whole(&mut self, id: TextId, text: &str) -> Vec<Piece> {
        let mut pieces = self.caught_up(id, text);
        pieces.extend(self.close(|other| *other == id));
        pieces
    }

    fn close(&mut self, which: impl Fn(&TextId) -> bool) -> Vec<Piece> {
        let open = self
            .texts
            .iter_mut()
            .filter(|(id, shown)| which(id) && !shown.is_whole && shown.chars > 0);
        let closed: Vec<(TextId, String)> = open
            .map(|(id, shown)| {
                shown.is_whole = true;
                (*id, shown.text.clone())
            })
            .collect();
        let whole = |(id, text): (TextId, String)| Piece::Whole {
            citations: match id.lane {
                Lane::Message => self.citations(&text),
                _ => Vec::new(),
            },
            id,
            text,
        };
        closed.into_iter().map(whole).collect()
    }

    /// The links that [`cited`](Self::cited) has put into a text.
    fn citations(&self, text: &str) -> Vec<Citation> {
        let (mut found, mut chars, mut counted) = (Vec::new(), 0, 0);
        for (at, _) in text.match_indices('[') {
            let Some((mark, rest)) = text[at + 1..].split_once(']') else {
                break;
            };
            let Some(row) = mark.parse().ok().and_then(|sid: Sid| self.sources.get(&sid)) else {
                continue;
            };
            let is_link = rest
                .strip_prefix('(')
                .and_then(|rest| rest.strip_prefix(&*row.url))
                .is_some_and(|rest| rest.starts_with(')'));
            if !is_link {
                continue;
            }
            chars += text[counted..at].chars().count();
            counted = at;
            let link_chars = mark.chars().count() + row.url.chars().count() + "[]()".len();
            found.push(Citation {
                start: chars,
                end: chars + link_chars,
                url: row.url.to_string(),
                title: row.title.to_string(),
            });
        }
        found
    }

    /// The text with numbered links for its citations.
    fn cited(&self, text: &str) -> String {
        citation::replace(text, |sids| {
            let mark = |sid: &Sid| match self.sources.get(sid) {
                Some(row) if row.url.starts_with("http") => format!("[{sid}]({})", row.url),
                _ => format!("[{sid}]"),
            };
            sids.iter().map(mark).collect()
        })
    }
}

fn numbered(rows: impl IntoIterator<Item = SourceRow>) -> HashMap<Sid, SourceRow> {
    rows.into_iter().filter_map(|row| Some((row.sid?, row))).collect()
}

/// How much of a text can no longer become another citation.
fn certain(text: &str) -> usize {
    const TOKEN_MAX_BYTES: usize = 200;
    let from = text.floor_char_boundary(text.len().saturating_sub(TOKEN_MAX_BYTES));
    let tail = &text[from..];
    match tail.rfind("[[") {
        Some(open) if !tail[open..].contains("]]") => from + open,
        _ => text.len() - usize::from(text.ends_with('[')),
    }
}

/// A call in one line: the tool and the first thing it is about.
fn activity(call: &CallText<'_>) -> String {
    const GIST_MAX_CHARS: usize = 80;
    const TELLING: [&str; 8] = [
        "path",
        "command",
        "query",
        "url",
        "name",
        "title",
        "paths",
        "prog_name",
    ];
    let params: Value = serde_json::from_str(call.params.get()).unwrap_or_default();
    let gist = TELLING.iter().find_map(|name| match &params[*name] {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => items.first().and_then(Value::as_str).map(str::to_owned),
        _ => None,
    });
    let gist = gist.unwrap_or_default();
    let line = gist.lines().next().unwrap_or_default();
    let line: String = line.chars().take(GIST_MAX_CHARS).collect();
    format!("{} {line}", call.tool_id).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_citation_is_where_its_link_stands() {
        let mut row = SourceRow::web("https://a.example/x", "A page", "text");
        row.sid = Some("1".parse().unwrap());
        let pieces = Pieces::new(TurnId::parse("turn_1").unwrap(), [row], Box::new(|_| None));
        let text = pieces.cited("Größe: zwei [[S:1]], [not] [2](https://b.example) und [[S:1]].");
        let citations = pieces.citations(&text);
        let chars: Vec<char> = text.chars().collect();
        for cited in &citations {
            let link: String = chars[cited.start..cited.end].iter().collect();
            assert_eq!(link, "[1](https://a.example/x)");
            assert_eq!(
                (cited.url.as_str(), cited.title.as_str()),
                ("https://a.example/x", "A page")
            );
        }
        assert_eq!(citations.len(), 2, "{text}");
    }
}
