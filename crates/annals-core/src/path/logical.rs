//! The logical path: one canonical text and just enough to cut it into its parts again.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::PathError;
use super::kind::{CallPart, PathKind};
use super::physical::{self, Folder, PhysicalPath};
use super::relative;
use super::sids::SidSet;
use super::{RelPath, names};
use crate::ids::{CallId, SkillName, TurnId, deserialize_parsed, is_call_id, is_skill_name, shown};

/// A stable name for anything on a timeline: `fi:` `ar:` `tc:` `so:` `su:` `sk:`.
///
/// Always canonical: aliases are resolved when it is parsed, selectors are sorted and folded, so that equality,
/// hash and order are those of the text. `parse(display(p)) == p`. A turn's id has no dot, so the first dot ends
/// it. The value is 24 bytes and a clone shares the text.
#[derive(Clone)]
pub struct LogicalPath {
    text: Arc<str>,
    shape: Shape,
    /// Where the turn's id ends; it begins after the three bytes of the family. 0 when there is no turn.
    turn_end: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    File,
    Attachment,
    Code,
    Named,
    Call(CallPart),
    Sources,
    Summary,
    Skill,
}

const FAMILY_BYTES: usize = "fi:".len();
const FILES: &str = ".files/";
const ATTACHMENTS: &str = ".user.attachments/";
const CODE: &str = ".code.";
const SUMMARY: &str = ".conv.range.summary";
const POOL: &str = "so:sources_pool[";

impl LogicalPath {
    /// Reads a logical path, one of its aliases or a bare physical path, and makes it canonical.
    ///
    /// Aliases: `tc:<t>.tool_calls.<id>.in.json` and `.out.json` are the call and its result;
    /// `ar:<t>.artifacts.<path>` is the file `<path>` of that turn; `<t>/files/<rel>` and
    /// `<t>/attachments/<name>` are the files lying there. No input panics.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        match text.split_at_checked(FAMILY_BYTES) {
            Some(("fi:", rest)) => Self::parse_file(text, rest),
            Some(("ar:", rest)) => Self::parse_named(text, rest),
            Some(("tc:", rest)) => Self::parse_call(text, rest),
            Some(("so:", _)) => Self::parse_sources(text),
            Some(("su:", rest)) => Self::parse_summary(text, rest),
            Some(("sk:", rest)) => Self::parse_skill(text, rest),
            _ => match physical::strip(text)? {
                Some((turn, folder, rel)) => Self::try_in_folder(text, turn, folder, rel),
                None => Err(PathError::UnknownFamily { given: shown(text) }),
            },
        }
    }

    fn parse_file(text: &str, rest: &str) -> Result<Self, PathError> {
        const FORM: &str =
            "`fi:<turn>.files/<path>`, `fi:<turn>.user.attachments/<name>` or `fi:<turn>.code.<call>`";
        let (turn, rest) = split_turn(text, rest, FORM)?;
        if let Some(rel) = rest.strip_prefix(&FILES[1..]) {
            Self::try_in_folder(text, turn, Folder::Files, rel)
        } else if let Some(name) = rest.strip_prefix(&ATTACHMENTS[1..]) {
            Self::try_in_folder(text, turn, Folder::Attachments, name)
        } else {
            match rest.strip_prefix(&CODE[1..]) {
                Some(call) if is_call_id(call) => Ok(Self::of_turn(Arc::from(text), Shape::Code, turn)),
                _ => Err(PathError::malformed(text, FORM)),
            }
        }
    }

    fn parse_named(text: &str, rest: &str) -> Result<Self, PathError> {
        let (turn, name) = split_turn(text, rest, names::FORM)?;
        if let Some(rel) = name.strip_prefix(names::ARTIFACTS_ALIAS) {
            return Self::try_in_folder(text, turn, Folder::Files, rel);
        }
        if names::is_name(name) {
            Ok(Self::of_turn(Arc::from(text), Shape::Named, turn))
        } else {
            Err(PathError::malformed(text, names::FORM))
        }
    }

    fn parse_call(text: &str, rest: &str) -> Result<Self, PathError> {
        const FORM: &str = "`tc:<turn>.<call>.call`, `.result` or `.notice`";
        let (turn, rest) = split_turn(text, rest, FORM)?;
        if let Some((call, part)) = rest.split_once('.')
            && is_call_id(call)
            && let Some(part) = CallPart::from_name(part)
        {
            return Ok(Self::of_turn(Arc::from(text), Shape::Call(part), turn));
        }
        let alias = rest.strip_prefix("tool_calls.").and_then(|rest| {
            let input = rest.strip_suffix(".in.json").map(|call| (call, CallPart::Call));
            input.or_else(|| {
                rest.strip_suffix(".out.json")
                    .map(|call| (call, CallPart::Result))
            })
        });
        match alias {
            Some((call, part)) if is_call_id(call) => Ok(Self::build_call(turn, call, part)),
            _ => Err(PathError::malformed(text, FORM)),
        }
    }

    fn parse_sources(text: &str) -> Result<Self, PathError> {
        match text.strip_prefix(POOL).and_then(|rest| rest.strip_suffix(']')) {
            Some(selector) => Ok(Self::sources(SidSet::parse(selector)?)),
            None => Err(PathError::malformed(text, "`so:sources_pool[1,3-5]`")),
        }
    }

    fn parse_summary(text: &str, rest: &str) -> Result<Self, PathError> {
        const FORM: &str = "`su:<turn>.conv.range.summary`";
        let (turn, name) = split_turn(text, rest, FORM)?;
        if name == &SUMMARY[1..] {
            Ok(Self::of_turn(Arc::from(text), Shape::Summary, turn))
        } else {
            Err(PathError::malformed(text, FORM))
        }
    }

    fn parse_skill(text: &str, name: &str) -> Result<Self, PathError> {
        if is_skill_name(name) {
            Ok(Self {
                text: Arc::from(text),
                shape: Shape::Skill,
                turn_end: 0,
            })
        } else {
            Err(PathError::malformed(text, "`sk:<skill>`"))
        }
    }

    /// `turn` is well formed, `rel` is not judged yet.
    fn try_in_folder(given: &str, turn: &str, folder: Folder, rel: &str) -> Result<Self, PathError> {
        relative::check(rel).map_err(|why| PathError::unsafe_path(given, why))?;
        Ok(Self::from_physical(turn, folder, rel))
    }

    pub(super) fn from_physical(turn: &str, folder: Folder, rel: &str) -> Self {
        let (shape, place) = match folder {
            Folder::Files => (Shape::File, FILES),
            Folder::Attachments => (Shape::Attachment, ATTACHMENTS),
        };
        Self::of_turn(Arc::from(format!("fi:{turn}{place}{rel}")), shape, turn)
    }

    /// `text` is canonical and has `turn` right after its family.
    fn of_turn(text: Arc<str>, shape: Shape, turn: &str) -> Self {
        debug_assert!(text[FAMILY_BYTES..].starts_with(turn));
        // A turn's id has at most 69 bytes.
        Self {
            text,
            shape,
            turn_end: (FAMILY_BYTES + turn.len()) as u8,
        }
    }

    fn build_call(turn: &str, call: &str, part: CallPart) -> Self {
        let text = format!("tc:{turn}.{call}.{}", part.as_str());
        Self::of_turn(Arc::from(text), Shape::Call(part), turn)
    }

    /// `name` is known to be a dotted name.
    pub(super) fn build_named(turn: &TurnId, name: fmt::Arguments<'_>) -> Self {
        let path = Self::of_turn(
            Arc::from(format!("ar:{turn}.{name}")),
            Shape::Named,
            turn.as_str(),
        );
        debug_assert!(Self::parse(path.as_str()).is_ok_and(|read| read == path));
        path
    }

    /// `fi:<turn>.files/<rel>`.
    pub fn file(turn: &TurnId, rel: &RelPath) -> Self {
        Self::from_physical(turn.as_str(), Folder::Files, rel.as_str())
    }

    /// `fi:<turn>.user.attachments/<name>`.
    pub fn attachment(turn: &TurnId, name: &RelPath) -> Self {
        Self::from_physical(turn.as_str(), Folder::Attachments, name.as_str())
    }

    /// `fi:<turn>.code.<call>`.
    pub fn code(turn: &TurnId, call: &CallId) -> Self {
        Self::of_turn(
            Arc::from(format!("fi:{turn}{CODE}{call}")),
            Shape::Code,
            turn.as_str(),
        )
    }

    /// `tc:<turn>.<call>.call`.
    pub fn call(turn: &TurnId, call: &CallId) -> Self {
        Self::build_call(turn.as_str(), call.as_str(), CallPart::Call)
    }

    /// `tc:<turn>.<call>.result`.
    pub fn result(turn: &TurnId, call: &CallId) -> Self {
        Self::build_call(turn.as_str(), call.as_str(), CallPart::Result)
    }

    /// `tc:<turn>.<call>.notice`.
    pub fn notice(turn: &TurnId, call: &CallId) -> Self {
        Self::build_call(turn.as_str(), call.as_str(), CallPart::Notice)
    }

    /// `so:sources_pool[<sel>]`; the empty set gives `so:sources_pool[]`, which names no row.
    pub fn sources(sids: SidSet) -> Self {
        Self {
            text: Arc::from(format!("{POOL}{sids}]")),
            shape: Shape::Sources,
            turn_end: 0,
        }
    }

    /// `su:<turn>.conv.range.summary`.
    pub fn summary(turn: &TurnId) -> Self {
        Self::of_turn(
            Arc::from(format!("su:{turn}{SUMMARY}")),
            Shape::Summary,
            turn.as_str(),
        )
    }

    /// `sk:<skill>`.
    pub fn skill(name: &SkillName) -> Self {
        Self {
            text: Arc::from(format!("sk:{name}")),
            shape: Shape::Skill,
            turn_end: 0,
        }
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it names something that lies below OUT_DIR: a file or an attachment.
    pub fn is_file(&self) -> bool {
        matches!(self.shape, Shape::File | Shape::Attachment)
    }

    /// What it names.
    pub fn kind(&self) -> PathKind<'_> {
        let text = &*self.text;
        let turn_end = usize::from(self.turn_end);
        let turn = || &text[FAMILY_BYTES..turn_end];
        match self.shape {
            Shape::File => PathKind::File {
                turn: turn(),
                rel: &text[turn_end + FILES.len()..],
            },
            Shape::Attachment => PathKind::Attachment {
                turn: turn(),
                name: &text[turn_end + ATTACHMENTS.len()..],
            },
            Shape::Code => PathKind::Code {
                turn: turn(),
                call: &text[turn_end + CODE.len()..],
            },
            Shape::Named => PathKind::Named {
                turn: turn(),
                name: &text[turn_end + 1..],
            },
            Shape::Call(part) => {
                let call_end = text.len() - part.as_str().len() - 1;
                PathKind::Call {
                    turn: turn(),
                    call: &text[turn_end + 1..call_end],
                    part,
                }
            }
            Shape::Sources => {
                let selector = &text[POOL.len()..text.len() - 1];
                // The text is this crate's own canonical form, so reading it again cannot fail.
                PathKind::Sources(SidSet::parse(selector).unwrap_or_default())
            }
            Shape::Summary => PathKind::Summary { turn: turn() },
            Shape::Skill => PathKind::Skill {
                name: &text[FAMILY_BYTES..],
            },
        }
    }

    /// The turn it belongs to; sources and skills belong to none.
    pub fn turn(&self) -> Option<&str> {
        (self.turn_end > 0).then(|| &self.text[FAMILY_BYTES..usize::from(self.turn_end)])
    }

    /// The turn it belongs to, as an id of its own.
    pub fn turn_id(&self) -> Option<TurnId> {
        self.turn().map(TurnId::checked)
    }

    /// The tool call it belongs to, for code, call, result and notice.
    pub fn call_id(&self) -> Option<CallId> {
        match self.kind() {
            PathKind::Code { call, .. } | PathKind::Call { call, .. } => Some(CallId::checked(call)),
            _ => None,
        }
    }

    /// Where it lies below OUT_DIR; only files and attachments lie anywhere.
    pub fn physical(&self) -> Option<PhysicalPath> {
        match self.kind() {
            PathKind::File { turn, rel } => Some(PhysicalPath::build(turn, Folder::Files, rel)),
            PathKind::Attachment { turn, name } => Some(PhysicalPath::build(turn, Folder::Attachments, name)),
            _ => None,
        }
    }
}

/// Splits `<turn>.<rest>` and checks the turn.
fn split_turn<'a>(
    text: &str,
    rest: &'a str,
    expected: &'static str,
) -> Result<(&'a str, &'a str), PathError> {
    let (turn, rest) = rest
        .split_once('.')
        .ok_or_else(|| PathError::malformed(text, expected))?;
    TurnId::check(turn)?;
    Ok((turn, rest))
}

impl PartialEq for LogicalPath {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text) || self.text == other.text
    }
}

impl Eq for LogicalPath {}

impl PartialOrd for LogicalPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LogicalPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for LogicalPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As `str` does, so that maps can be searched by text.
        self.text.hash(state);
    }
}

impl Borrow<str> for LogicalPath {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for LogicalPath {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for LogicalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for LogicalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogicalPath({})", self.text)
    }
}

impl FromStr for LogicalPath {
    type Err = PathError;
    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl From<PhysicalPath> for LogicalPath {
    fn from(path: PhysicalPath) -> Self {
        path.logical()
    }
}

impl Serialize for LogicalPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for LogicalPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_parsed(deserializer, "a logical path", Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::{PlanId, Sid};
    use crate::path::RangedPath;

    #[test]
    fn a_path_is_small_enough_to_keep_many() {
        assert!(size_of::<LogicalPath>() <= 24);
        assert!(size_of::<Option<LogicalPath>>() <= 24);
    }

    #[test]
    fn every_record_of_a_turn_has_its_name() {
        let turn = TurnId::parse("turn_1").unwrap();
        let call = CallId::parse("tc_a1").unwrap();
        let paths = [
            LogicalPath::turn_header(&turn),
            LogicalPath::user_prompt(&turn),
            LogicalPath::agent_log_header(&turn),
            LogicalPath::thinking(&turn, 1),
            LogicalPath::notes(&turn, &call),
            LogicalPath::note(&turn, &call),
            LogicalPath::plan(&turn, &PlanId::made(&turn, [0, 1, 2, 3])),
            LogicalPath::plan_ack(&turn, 2),
            LogicalPath::decision_raw(&turn, 3),
            LogicalPath::assistant_completion(&turn),
            LogicalPath::react_completion(&turn),
            LogicalPath::stage(&turn, "clarification.resolved").unwrap(),
            LogicalPath::system_message(&turn, "cache_ttl_pruned").unwrap(),
            LogicalPath::timeline_hide(&turn, 4),
            LogicalPath::code(&turn, &call),
            LogicalPath::call(&turn, &call),
            LogicalPath::result(&turn, &call),
            LogicalPath::notice(&turn, &call),
            LogicalPath::summary(&turn),
            LogicalPath::skill(&SkillName::parse("pdf").unwrap()),
        ];
        for path in &paths {
            assert_eq!(LogicalPath::parse(path.as_str()).as_ref(), Ok(path));
        }
        insta::assert_snapshot!(paths.map(|path| path.to_string()).join("\n"), @r"
        ar:turn_1.turn.header
        ar:turn_1.user.prompt
        ar:turn_1.agent.log.header
        ar:turn_1.react.thinking.1
        ar:turn_1.react.notes.tc_a1
        ar:turn_1.react.note.tc_a1
        ar:turn_1.react.plan.plan:turn_1:abcd
        ar:turn_1.react.plan.ack.2
        ar:turn_1.react.decision.raw.3
        ar:turn_1.assistant.completion
        ar:turn_1.react.completion
        ar:turn_1.stage.clarification.resolved
        ar:turn_1.system.message.cache_ttl_pruned
        ar:turn_1.timeline.hide.4
        fi:turn_1.code.tc_a1
        tc:turn_1.tc_a1.call
        tc:turn_1.tc_a1.result
        tc:turn_1.tc_a1.notice
        su:turn_1.conv.range.summary
        sk:pdf
        ");
    }

    #[test]
    fn names_that_would_read_back_as_something_else_are_refused() {
        let turn = TurnId::parse("turn_1").unwrap();
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a b",
            "a/b",
            "a#b",
            "artifacts.x",
            "é",
            "a\n",
            &"x".repeat(513),
        ] {
            assert!(LogicalPath::named(&turn, bad).is_err(), "{bad:?}");
        }
        assert!(LogicalPath::named(&turn, "artifacts").is_ok());
        assert!(LogicalPath::stage(&turn, "").is_err());
    }

    #[test]
    fn maps_can_be_searched_by_text() {
        let path = LogicalPath::parse("turn_1/files/a.md").unwrap();
        let map = std::collections::HashMap::from([(path.clone(), 1)]);
        assert_eq!(map.get("fi:turn_1.files/a.md"), Some(&1));
        let json = serde_json::to_string(&path).unwrap();
        assert_eq!(json, "\"fi:turn_1.files/a.md\"");
        assert_eq!(serde_json::from_str::<LogicalPath>(&json).unwrap(), path);
        assert!(serde_json::from_str::<LogicalPath>("\"fi:turn_1.files/../a\"").is_err());
    }

    fn rel_paths() -> impl Strategy<Value = RelPath> {
        let part = "[a-zA-Z0-9_.é# ()\\[\\]:~-]{1,12}";
        proptest::collection::vec(part, 1..4)
            .prop_filter_map("safe", |parts| RelPath::parse(&parts.join("/")).ok())
    }

    fn paths() -> impl Strategy<Value = LogicalPath> {
        let turn = || "turn_[A-Za-z0-9_-]{1,64}".prop_map(|t| TurnId::parse(&t).unwrap());
        let call = || "[A-Za-z0-9_-]{1,64}".prop_map(|c| CallId::parse(&c).unwrap());
        let sids = proptest::collection::vec(1_u32.., 0..9)
            .prop_map(|n| SidSet::try_from_sids(n.into_iter().map(|n| Sid::try_new(n).unwrap())).unwrap());
        prop_oneof![
            (turn(), rel_paths()).prop_map(|(t, r)| LogicalPath::file(&t, &r)),
            (turn(), rel_paths()).prop_map(|(t, r)| LogicalPath::attachment(&t, &r)),
            (turn(), call()).prop_map(|(t, c)| LogicalPath::code(&t, &c)),
            (turn(), call()).prop_map(|(t, c)| LogicalPath::call(&t, &c)),
            (turn(), call()).prop_map(|(t, c)| LogicalPath::result(&t, &c)),
            (turn(), call()).prop_map(|(t, c)| LogicalPath::notice(&t, &c)),
            (turn(), call()).prop_map(|(t, c)| LogicalPath::notes(&t, &c)),
            (turn(), "[a-z:_-]{1,9}(\\.[a-z0-9]{1,5}){0,3}")
                .prop_filter_map("a name", |(t, n)| LogicalPath::named(&t, &n).ok()),
            sids.prop_map(LogicalPath::sources),
            turn().prop_map(|t| LogicalPath::summary(&t)),
            "[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}"
                .prop_map(|s| LogicalPath::skill(&SkillName::parse(&s).unwrap())),
        ]
    }

    /// Builds a path again from what it says it names.
    fn rebuilt(path: &LogicalPath) -> LogicalPath {
        let turn = || path.turn_id().unwrap();
        match path.kind() {
            PathKind::File { rel, .. } => LogicalPath::file(&turn(), &RelPath::parse(rel).unwrap()),
            PathKind::Attachment { name, .. } => {
                LogicalPath::attachment(&turn(), &RelPath::parse(name).unwrap())
            }
            PathKind::Code { .. } => LogicalPath::code(&turn(), &path.call_id().unwrap()),
            PathKind::Named { name, .. } => LogicalPath::named(&turn(), name).unwrap(),
            PathKind::Call {
                part: CallPart::Call, ..
            } => LogicalPath::call(&turn(), &path.call_id().unwrap()),
            PathKind::Call {
                part: CallPart::Result,
                ..
            } => LogicalPath::result(&turn(), &path.call_id().unwrap()),
            PathKind::Call {
                part: CallPart::Notice,
                ..
            } => LogicalPath::notice(&turn(), &path.call_id().unwrap()),
            PathKind::Sources(sids) => LogicalPath::sources(sids),
            PathKind::Summary { .. } => LogicalPath::summary(&turn()),
            PathKind::Skill { name } => LogicalPath::skill(&SkillName::parse(name).unwrap()),
        }
    }

    proptest! {
        #[test]
        fn display_parses_back(path in paths(), first in 1_u32.., length in 0_u32..9) {
            let read = LogicalPath::parse(path.as_str()).unwrap();
            prop_assert_eq!(&read, &path);
            prop_assert_eq!(read.kind(), path.kind());
            prop_assert_eq!(&rebuilt(&path), &path);
            let lines = super::super::LineRange::try_new(first, first.saturating_add(length));
            for ranged in [RangedPath { path: path.clone(), lines }, path.clone().into()] {
                prop_assert_eq!(RangedPath::parse(&ranged.to_string()), Ok(ranged));
            }
            if let Some(physical) = path.physical() {
                prop_assert_eq!(LogicalPath::parse(physical.as_str()), Ok(path.clone()));
                prop_assert_eq!(physical.logical(), path);
            }
        }

        #[test]
        fn no_bytes_panic_and_what_is_read_is_canonical(
            family in proptest::sample::select(vec!["", "fi:", "ar:", "tc:", "so:sources_pool[", "su:", "sk:", "turn_1/files/"]),
            turn in proptest::sample::select(vec!["", "turn_1.", "turn_1.files/", "turn_1.artifacts.", "turn_1.tool_calls."]),
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
            end in proptest::sample::select(vec!["", "]", ".call", ".in.json", ".out.json", "#L3", "/"]),
        ) {
            let text = format!("{family}{turn}{}{end}", String::from_utf8_lossy(&bytes));
            let _ = RangedPath::parse(&text);
            let _ = super::super::rewrite::target(&text, &TurnId::parse("turn_2").unwrap());
            if let Ok(path) = LogicalPath::parse(&text) {
                prop_assert_eq!(LogicalPath::parse(path.as_str()), Ok(path.clone()));
                prop_assert_eq!(rebuilt(&path), path);
            }
        }
    }
}
