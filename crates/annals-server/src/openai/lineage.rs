//! Which conversation a request belongs to: the digest of what the client remembers, and where such a digest was seen.
//!
//! A client that sends everything again names no turn; its history does. For each turn that this API answered, the digest of
//! all that the client has seen up to its end is kept with the turn's place, once under the client's key and once without.
//! The next request's history is looked up: found at the head it continues, found earlier it forks there (that is what
//! "edit" and "regenerate" are), not found it must not touch the conversation.
//!
//! The entries are in a [side table](crate::side_table): a name, and the place.

use std::time::Duration;

use annals_core::block::BlobDigest;
use annals_core::ids::{ConversationId, ConversationKey, Scope, Seq};
use annals_core::time::Timestamp;
use annals_store::register::REGISTER_TENANT;
use annals_store::{LogError, Owner, Store};

use super::transcript::{Exchange, Said, Transcript};
use crate::side_table::{self, SideTable};

/// The tenant of scopes that belong to this API. A token for it would see what clients keep here.
const TENANT: &str = "annals.openai";

/// Whether a scope belongs to the server itself: then no token opens it.
pub fn is_reserved(scope: &Scope) -> bool {
    [
        TENANT,
        crate::webhooks::TENANT,
        crate::mcp::TENANT,
        REGISTER_TENANT,
    ]
    .contains(&scope.tenant())
}

/// What names a conversation from a client's side, if anything does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientKey(pub(crate) Option<String>);

/// The digest of what a client has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lineage(BlobDigest);

/// Where a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) conversation: ConversationId,
    /// The turn's last block.
    pub(crate) end: Seq,
}

impl Lineage {
    /// Nothing was said yet, in the namespace of this key, to a client with this system text.
    fn start(key: &ClientKey, instructions: Option<&str>) -> Self {
        let key = key.0.as_deref().unwrap_or_default();
        Self::digest(&["lineage 1", key, &identity(instructions.unwrap_or_default())])
    }

    /// What a client has seen after this history.
    pub(crate) fn of(key: &ClientKey, instructions: Option<&str>, history: &[Exchange]) -> Self {
        let start = Self::start(key, instructions);
        history.iter().fold(start, |lineage, exchange| {
            lineage.then(&exchange.user, &exchange.assistant)
        })
    }

    /// After one more exchange.
    pub(crate) fn then(self, user: &Said, assistant: &str) -> Self {
        let files: String = user.files.iter().map(|file| file.digest.to_string()).collect();
        Self::digest(&[
            &self.0.to_string(),
            &normal(&user.text),
            &files,
            &normal(assistant),
        ])
    }

    fn digest(parts: &[&str]) -> Self {
        // With its length before each part, so that no two lists give one text.
        let text: String = parts
            .iter()
            .map(|part| format!("{}:{part}", part.len()))
            .collect();
        Lineage(BlobDigest::of(text.as_bytes()))
    }

    fn name(self) -> Option<ConversationId> {
        name("l", &self.0)
    }
}

impl Transcript {
    /// What the client remembers.
    pub(crate) fn lineage(&self, key: &ClientKey) -> Lineage {
        Lineage::of(key, self.instructions.as_deref(), &self.history)
    }

    /// What the client has seen when the prompt is answered.
    pub(crate) fn answered(&self, key: &ClientKey, answer: &str) -> Lineage {
        self.lineage(key).then(&self.prompt, answer)
    }
}

/// Which client a system text belongs to: its first paragraph, without digits. Clients put dates and counts into theirs, and
/// a conversation goes on at midnight; a request for a title with the same history has another first paragraph.
fn identity(instructions: &str) -> String {
    const MAX_CHARS: usize = 200;
    let paragraph = instructions.trim().split("\n\n").next().unwrap_or_default();
    let kept = paragraph.chars().filter(|c| !c.is_ascii_digit());
    normal(&kept.take(MAX_CHARS).collect::<String>())
}

/// Whether two system texts are of one client.
pub(crate) fn is_one_client(one: &str, other: Option<&str>) -> bool {
    identity(one) == identity(other.unwrap_or_default())
}

/// A text as it is compared: clients trim and wrap, and a link to a file is signed anew each time it is shown.
fn normal(text: &str) -> String {
    let words = text.split_whitespace().map(without_signature);
    words.collect::<Vec<_>>().join(" ")
}

/// A word without the host and the signature of a link to an artifact.
fn without_signature(word: &str) -> String {
    const ARTIFACT: &str = "/v1/conversations/";
    let Some(at) = word.find(ARTIFACT) else {
        return word.to_owned();
    };
    let before = &word[..at];
    let before = match before.rfind("](") {
        Some(link) => &before[..link + 2],
        None => "",
    };
    let address = &word[at..];
    let path = address.split(['?', ')']).next().unwrap_or_default();
    let after = address.rfind(')').map_or("", |end| &address[end..]);
    format!("{before}{path}{after}")
}

/// What clients of one scope have seen and where, and the names they gave.
pub(crate) struct Index<'a>(SideTable<'a>);

impl<'a> Index<'a> {
    /// The entries for clients of this scope.
    pub(crate) fn new(log: &'a dyn Store, scope: &Scope) -> Self {
        Index(SideTable::new(log, side_scope(scope)))
    }

    /// Where a client has seen this.
    pub(crate) async fn find(&self, lineage: Lineage) -> Result<Option<Place>, LogError> {
        let value = self.value(lineage.name()).await?;
        Ok(value.as_deref().and_then(Place::parse))
    }

    /// Keeps where a client has seen this. The first place holds: of two equal pasts either may be gone on with.
    pub(crate) async fn keep(&self, lineage: Lineage, place: &Place, now: Timestamp) -> Result<(), LogError> {
        self.set(lineage.name(), place.to_string(), now).await
    }

    /// What was kept under a name of the client's own.
    pub(crate) async fn named(&self, kind: &str, key: &str) -> Result<Option<String>, LogError> {
        self.value(name(kind, &BlobDigest::of(key.as_bytes()))).await
    }

    /// Keeps a value under a name of the client's own. The first one holds.
    pub(crate) async fn set_named(
        &self,
        kind: &str,
        key: &str,
        value: String,
        now: Timestamp,
    ) -> Result<(), LogError> {
        self.set(name(kind, &BlobDigest::of(key.as_bytes())), value, now)
            .await
    }

    async fn value(&self, name: Option<ConversationId>) -> Result<Option<String>, LogError> {
        match name {
            Some(name) => self.0.get(&name).await,
            None => Ok(None),
        }
    }

    async fn set(&self, name: Option<ConversationId>, value: String, now: Timestamp) -> Result<(), LogError> {
        match name {
            Some(name) => self.0.put(&name, value, now).await,
            None => Ok(()),
        }
    }

    /// Forgets what no client comes back for: answers to repeated requests after a day, calls after a week, histories after
    /// three months. A history that is forgotten begins a new conversation with what the client remembers.
    pub(crate) async fn sweep(&self, owner: &Owner, now: Timestamp) -> Result<usize, LogError> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let keeps = |name: &str| match name.split_once('_')?.0 {
            "i" => Some(DAY),
            "t" => Some(7 * DAY),
            "l" | "k" => Some(90 * DAY),
            _ => None,
        };
        self.0.sweep(owner, now, keeps).await
    }
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (conversation, end) = text.rsplit_once('@')?;
        Some(Place {
            conversation: ConversationId::parse(conversation).ok()?,
            end: Seq::try_new(end.parse().ok()?).ok()?,
        })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.conversation, self.end)
    }
}

/// The scope in which this API keeps what is nobody's conversation: what clients have seen, files, stand-alone requests.
pub(crate) fn side_scope(scope: &Scope) -> Scope {
    side_table::scope_of(TENANT, scope)
}

/// Whether a conversation of this API's own is a stand-alone request, and no entry of an index.
pub(crate) fn is_stand_alone(key: &ConversationKey) -> bool {
    key.scope.tenant() == TENANT && key.id.as_str().starts_with("conv_")
}

fn name(kind: &str, digest: &BlobDigest) -> Option<ConversationId> {
    ConversationId::parse(&format!("{kind}_{}", &hex(digest)[..48])).ok()
}

fn hex(digest: &BlobDigest) -> String {
    let text = digest.to_string();
    text.rsplit(':').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use annals_store::MemoryLog;
    use proptest::prelude::*;

    use super::*;

    fn said(text: &str) -> Said {
        Said {
            text: text.to_owned(),
            files: Vec::new(),
        }
    }

    fn lineage(system: &str, texts: &[&str]) -> Lineage {
        let history: Vec<Exchange> = texts
            .chunks(2)
            .map(|pair| Exchange {
                user: said(pair[0]),
                assistant: pair[1].to_owned(),
            })
            .collect();
        Lineage::of(&ClientKey::default(), Some(system), &history)
    }

    #[test]
    fn what_a_client_changes_by_itself_is_the_same_and_what_a_person_changes_is_not() {
        let seen = |answer: &str| lineage("You are C 1.\n\nToday is Monday", &["Hi", answer]);
        let first = seen(
            "Here: [a.md](http://127.0.0.1:1/v1/conversations/c/artifacts/fi:t.files/a.md?sig=1&exp=2).\n",
        );
        let again = seen(
            "Here:  [a.md](https://a.example/v1/conversations/c/artifacts/fi:t.files/a.md?sig=9&exp=8).",
        );
        assert_eq!(first, again);
        assert_eq!(
            lineage("You are C 1.\n\nToday is Monday", &["Hi", "a"]),
            lineage("You are C 2.\n\nToday is Tuesday", &["Hi", "a"])
        );
        assert_ne!(
            lineage("You are C", &["Hi", "a"]),
            lineage("Make a title", &["Hi", "a"])
        );
        assert_ne!(lineage("", &["Hi", "a"]), lineage("", &["Hi", "b"]));
        let other = ClientKey(Some("k".to_owned()));
        assert_ne!(lineage("", &[]), Lineage::of(&other, Some(""), &[]));
    }

    #[test]
    fn scopes_do_not_share_what_their_clients_have_seen() {
        let [one, two] = ["a/b/c", "a/b/d"].map(|scope| side_scope(&Scope::parse(scope).unwrap()));
        assert_ne!(one, two);
    }

    #[tokio::test]
    async fn a_place_is_found_again_and_the_first_one_holds() {
        let log = MemoryLog::default();
        let index = Index::new(&log, &Scope::default());
        let now = Timestamp::from_unix_millis(1);
        let place = |end: u64| Place {
            conversation: ConversationId::parse("conv_1").unwrap(),
            end: Seq::try_new(end).unwrap(),
        };
        let seen = lineage("", &["Hi", "a"]);
        assert_eq!(index.find(seen).await.unwrap(), None);
        index.keep(seen, &place(7), now).await.unwrap();
        index.keep(seen, &place(9), now).await.unwrap();
        assert_eq!(index.find(seen).await.unwrap(), Some(place(7)));
        let elsewhere = Index::new(&log, &Scope::parse("x/y/z").unwrap());
        assert_eq!(elsewhere.find(seen).await.unwrap(), None);
    }

    proptest! {
        /// However an exchange is cut into texts, another list of texts has another digest.
        #[test]
        fn no_two_histories_have_one_digest(a in "[ab:0-9]{0,6}", b in "[ab:0-9]{0,6}", c in "[ab:0-9]{0,6}", d in "[ab:0-9]{0,6}") {
            let (one, two) = (lineage("", &[&a, &b]), lineage("", &[&c, &d]));
            prop_assert_eq!(one == two, (normal(&a), normal(&b)) == (normal(&c), normal(&d)));
        }
    }
}
