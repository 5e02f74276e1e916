//! The names of things: parsed once, cheap to clone, never a bare `String` afterwards.
//!
//! An id that exists is well formed. Made ids take their time and randomness from the caller, because this
//! crate has neither. Nothing here says whether the named thing exists.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why a text or a number is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text has not the form of this kind of id.
    #[error("{kind} `{given}` is not valid: expected {expected}")]
    Malformed {
        /// Which kind of id was wanted.
        kind: &'static str,
        /// The offending text, escaped and cut to a readable length.
        given: String,
        /// The accepted form.
        expected: &'static str,
    },
    /// Sequence numbers and source ids count from 1.
    #[error("{kind} 0 does not exist: they count from 1")]
    Zero {
        /// Which kind of number was wanted.
        kind: &'static str,
    },
}

impl IdError {
    pub(crate) fn malformed(kind: &'static str, given: &str, expected: &'static str) -> Self {
        Self::Malformed {
            kind,
            given: shown(given),
            expected,
        }
    }
}

/// A user's text as it may stand in an error message: no control characters, at most 80 characters.
pub(crate) fn shown(given: &str) -> String {
    const SHOWN_MAX_CHARS: usize = 80;
    let mut out = String::new();
    for (index, c) in given.chars().enumerate() {
        if index == SHOWN_MAX_CHARS {
            out.push('…');
            break;
        }
        if c.is_control() {
            out.extend(c.escape_default())
        } else {
            out.push(c)
        }
    }
    out
}

/// `[A-Za-z0-9_-]`: the alphabet of every id that stands inside a path.
pub(crate) fn is_id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_id_text(text: &str, max_bytes: usize) -> bool {
    (1..=max_bytes).contains(&text.len()) && text.bytes().all(is_id_byte)
}

const ID_MAX_BYTES: usize = 64;
const PLAN_ID_MAX_BYTES: usize = 128;

pub(crate) fn is_turn_id(text: &str) -> bool {
    text.strip_prefix("turn_")
        .is_some_and(|rest| is_id_text(rest, ID_MAX_BYTES))
}

pub(crate) fn is_call_id(text: &str) -> bool {
    is_id_text(text, ID_MAX_BYTES)
}

fn is_plan_id(text: &str) -> bool {
    text.len() <= PLAN_ID_MAX_BYTES
        && text
            .strip_prefix("plan:")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| is_id_byte(b) || b == b':'))
}

fn is_request_id(text: &str) -> bool {
    let mut parts = text.splitn(3, '.');
    let (turn, call, n) = (parts.next(), parts.next(), parts.next());
    turn.is_some_and(is_turn_id)
        && call.is_some_and(is_call_id)
        && n.is_some_and(|n| n.parse::<u32>().is_ok_and(|number| number.to_string() == n))
}

pub(crate) fn is_skill_name(text: &str) -> bool {
    (1..=ID_MAX_BYTES).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(|b| is_id_byte(b) || b == b'.')
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $expected:literal, $accepts:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            #[doc = concat!("Reads a ", $kind, ": ", $expected, ".")]
            pub fn parse(text: &str) -> Result<Self, IdError> {
                Self::check(text).map(|()| Self(Arc::from(text)))
            }

            #[doc = concat!("Whether a text is a ", $kind, ", and if not, why.")]
            pub fn check(text: &str) -> Result<(), IdError> {
                if $accepts(text) { Ok(()) } else { Err(IdError::malformed($kind, text, $expected)) }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), &self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserialize_parsed(deserializer, $expected, Self::parse)
            }
        }
    };
}

/// Deserialises a string through a `parse` function, without copying it first.
pub(crate) fn deserialize_parsed<'de, D, T, E>(
    deserializer: D,
    expected: &'static str,
    parse: fn(&str) -> Result<T, E>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    E: fmt::Display,
{
    struct Parsed<T, E> {
        expected: &'static str,
        parse: fn(&str) -> Result<T, E>,
    }
    impl<T, E: fmt::Display> de::Visitor<'_> for Parsed<T, E> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.expected)
        }
        fn visit_str<Err: de::Error>(self, text: &str) -> Result<T, Err> {
            (self.parse)(text).map_err(Err::custom)
        }
    }
    deserializer.deserialize_str(Parsed { expected, parse })
}

text_id!(
    /// One conversation: one timeline, one sources pool, one workspace.
    ConversationId, "conversation id", "1 to 64 of `A-Z a-z 0-9 _ -`", |t| is_id_text(t, ID_MAX_BYTES)
);
text_id!(
    /// One turn, from a user prompt to its end.
    TurnId, "turn id", "`turn_` and 1 to 64 of `A-Z a-z 0-9 _ -`", is_turn_id
);
text_id!(
    /// One tool call, which is also the name of its round.
    CallId, "call id", "1 to 64 of `A-Z a-z 0-9 _ -`", is_call_id
);
text_id!(
    /// One process that may own conversations; it stays the same from a start to its end.
    NodeId, "node id", "1 to 64 of `A-Z a-z 0-9 _ -`", |t| is_id_text(t, ID_MAX_BYTES)
);
text_id!(
    /// One plan, whose snapshots share this id.
    PlanId, "plan id", "`plan:` and up to 123 of `A-Z a-z 0-9 _ - :`", is_plan_id
);
text_id!(
    /// A skill: the folder it lies in and the name the model uses, `sk:<name>`.
    SkillName, "skill name", "1 to 64 of `A-Z a-z 0-9 _ - .`, not starting with a dot", is_skill_name
);

text_id!(
    /// Something a turn waits for: an approval or an input.
    RequestId, "request id", "`<turn>.<call>.<n>`", is_request_id
);

/// Maps random bytes to lower-case letters and digits.
fn base36(random: &[u8]) -> String {
    const DIGITS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    random
        .iter()
        .map(|&byte| char::from(DIGITS[usize::from(byte) % 36]))
        .collect()
}

impl ConversationId {
    /// A new id, `conv_<16 hex>`, from the caller's randomness.
    pub fn made(random: u64) -> Self {
        Self(Arc::from(format!("conv_{random:016x}")))
    }
}

impl NodeId {
    /// A new id, `pid-<pid>-<16 hex>`, from the caller's randomness: a person can tell which process it was.
    pub fn made(pid: u32, random: u64) -> Self {
        Self(Arc::from(format!("pid-{pid}-{random:016x}")))
    }
}

impl TurnId {
    /// A new id, `turn_<unix millis>_<6 of a-z0-9>`, from the caller's clock and randomness.
    pub fn made(unix_millis: i64, random: [u8; 6]) -> Self {
        Self(Arc::from(format!("turn_{unix_millis}_{}", base36(&random))))
    }

    /// For text that a path has already checked.
    pub(crate) fn checked(text: &str) -> Self {
        debug_assert!(is_turn_id(text));
        Self(Arc::from(text))
    }
}

impl CallId {
    /// This id with a number, for a call whose id another call has; cut where it would be too long.
    pub fn numbered(&self, n: u32) -> Self {
        let suffix = format!("-{n}");
        let kept = &self.0[..self.0.len().min(ID_MAX_BYTES - suffix.len())];
        Self(Arc::from(format!("{kept}{suffix}")))
    }

    /// A new id, `tc_<12 hex>`, from the low 48 bits of the caller's randomness.
    pub fn made(random: u64) -> Self {
        Self(Arc::from(format!("tc_{:012x}", random & 0xffff_ffff_ffff)))
    }

    /// For text that a path has already checked.
    pub(crate) fn checked(text: &str) -> Self {
        debug_assert!(is_call_id(text));
        Self(Arc::from(text))
    }
}

impl RequestId {
    /// The `n`th request about a call.
    pub fn of(turn: &TurnId, call: &CallId, n: u32) -> Self {
        Self(Arc::from(format!("{turn}.{call}.{n}")))
    }

    /// The turn that waits.
    pub fn turn(&self) -> TurnId {
        TurnId::checked(self.part(0))
    }

    /// The call that waits.
    pub fn call(&self) -> CallId {
        CallId::checked(self.part(1))
    }

    fn part(&self, at: usize) -> &str {
        self.0.split('.').nth(at).expect("a request id has three parts")
    }
}

impl PlanId {
    /// A new id, `plan:<turn>:<4 of a-z0-9>`, from the caller's randomness.
    pub fn made(turn: &TurnId, random: [u8; 4]) -> Self {
        Self(Arc::from(format!("plan:{turn}:{}", base36(&random))))
    }
}

macro_rules! counted_id {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "u64", into = "u64")]
        pub struct $name($inner);

        impl $name {
            /// The first one.
            pub const FIRST: Self = Self(1);

            #[doc = concat!("Reads a ", $kind, "; zero is none.")]
            pub fn try_new(number: $inner) -> Result<Self, IdError> {
                if number == 0 { Err(IdError::Zero { kind: $kind }) } else { Ok(Self(number)) }
            }

            /// The number.
            pub fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                // `u64::from_str` would take a leading `+`.
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                match text.parse() {
                    Ok(number) if digits => Self::try_new(number),
                    _ => Err(IdError::malformed($kind, text, "a whole number from 1")),
                }
            }
        }

        impl TryFrom<u64> for $name {
            type Error = IdError;
            fn try_from(number: u64) -> Result<Self, IdError> {
                <$inner>::try_from(number)
                    .map_err(|_| IdError::malformed($kind, &number.to_string(), "a smaller number"))
                    .and_then(Self::try_new)
            }
        }

        impl From<$name> for u64 {
            fn from(id: $name) -> u64 {
                u64::from(id.0)
            }
        }
    };
}

counted_id!(
    /// A block's place in its conversation, from 1, without gaps.
    Seq, u64, "sequence number"
);
counted_id!(
    /// A row of the sources pool, from 1, never reused.
    Sid, u32, "source id"
);

impl Seq {
    /// The place after this one. No log is long enough to reach the end of `u64`.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl Sid {
    /// The id after this one, or none when they are used up.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

/// Who owns a conversation: tenant, project and user, written `T/P/U`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    tenant: Arc<str>,
    project: Arc<str>,
    user: Arc<str>,
}

const SCOPE_FORM: &str =
    "`tenant/project/user`, each 1 to 64 of `A-Z a-z 0-9 _ - . @`, not starting with a dot";

impl Scope {
    /// Reads `tenant/project/user`.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let mut parts = text.split('/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(tenant), Some(project), Some(user), None) => Self::try_new(tenant, project, user),
            _ => Err(IdError::malformed("scope", text, SCOPE_FORM)),
        }
    }

    /// Builds a scope from its parts.
    pub fn try_new(tenant: &str, project: &str, user: &str) -> Result<Self, IdError> {
        let part = |text: &str| {
            let safe = (1..=ID_MAX_BYTES).contains(&text.len())
                && !text.starts_with('.')
                && text.bytes().all(|b| is_id_byte(b) || b == b'.' || b == b'@');
            if safe {
                Ok(Arc::from(text))
            } else {
                Err(IdError::malformed("scope part", text, SCOPE_FORM))
            }
        };
        Ok(Self {
            tenant: part(tenant)?,
            project: part(project)?,
            user: part(user)?,
        })
    }

    /// The tenant: who pays.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The project within the tenant.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// The person within the project.
    pub fn user(&self) -> &str {
        &self.user
    }
}

impl Default for Scope {
    /// `local/default/me`: the one person of a machine of their own.
    fn default() -> Self {
        Self {
            tenant: Arc::from("local"),
            project: Arc::from("default"),
            user: Arc::from("me"),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tenant, self.project, self.user)
    }
}

impl FromStr for Scope {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_parsed(deserializer, SCOPE_FORM, Self::parse)
    }
}

/// What names a conversation: an id is unique within its scope only.
///
/// Written `tenant/project/user/id`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversationKey {
    /// Who owns it.
    pub scope: Scope,
    /// Its id there.
    pub id: ConversationId,
}

impl ConversationKey {
    /// The conversation of this id in this scope.
    pub fn new(scope: Scope, id: ConversationId) -> Self {
        Self { scope, id }
    }

    /// Reads `tenant/project/user/id`.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let (scope, id) = text.rsplit_once('/').ok_or_else(|| {
            IdError::malformed("conversation key", text, "`tenant/project/user/conversation`")
        })?;
        Ok(Self::new(Scope::parse(scope)?, ConversationId::parse(id)?))
    }
}

impl fmt::Display for ConversationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.scope, self.id)
    }
}

impl FromStr for ConversationKey {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_ids_have_the_documented_form_and_parse_back() {
        let turn = TurnId::made(1_770_603_271_112, [0, 25, 26, 35, 36, 255]);
        assert_eq!(turn.as_str(), "turn_1770603271112_az09ad");
        assert_eq!(TurnId::parse(turn.as_str()), Ok(turn.clone()));
        assert_eq!(CallId::made(0xabc).as_str(), "tc_000000000abc");
        assert_eq!(CallId::made(u64::MAX).as_str(), "tc_ffffffffffff");
        assert_eq!(ConversationId::made(7).as_str(), "conv_0000000000000007");
        let plan = PlanId::made(&turn, [1, 2, 3, 4]);
        assert_eq!(plan.as_str(), "plan:turn_1770603271112_az09ad:bcde");
        assert_eq!(PlanId::parse(plan.as_str()), Ok(plan));
    }

    #[test]
    fn ids_refuse_what_could_leave_their_place_in_a_path() {
        for bad in ["", "a.b", "a/b", "..", "a b", "ä", "a\0", &"x".repeat(65)] {
            assert!(CallId::parse(bad).is_err(), "{bad:?}");
            assert!(ConversationId::parse(bad).is_err(), "{bad:?}");
            assert!(TurnId::parse(&format!("turn_{bad}")).is_err(), "{bad:?}");
        }
        assert!(TurnId::parse("123").is_err());
        assert!(TurnId::parse(&format!("turn_{}", "x".repeat(64))).is_ok());
        assert!(SkillName::parse("public.pdf-press").is_ok());
        assert!(SkillName::parse("../x").is_err());
        assert!(SkillName::parse("..").is_err());
        assert!(PlanId::parse("plan:").is_err());
        assert!(PlanId::parse("plan:a\nb").is_err());
    }

    #[test]
    fn counted_ids_start_at_one() {
        assert_eq!(
            Seq::try_new(0),
            Err(IdError::Zero {
                kind: "sequence number"
            })
        );
        assert_eq!(Seq::FIRST.next().get(), 2);
        assert_eq!("7".parse::<Sid>().map(Sid::get), Ok(7));
        for bad in ["", "0", "+1", "-1", "1.0", "4294967296"] {
            assert!(bad.parse::<Sid>().is_err(), "{bad:?}");
        }
        assert_eq!(Sid::try_new(u32::MAX).unwrap().next(), None);
    }

    #[test]
    fn serde_uses_the_text_and_checks_it() {
        let turn: TurnId = serde_json::from_str("\"turn_1\"").unwrap();
        assert_eq!(serde_json::to_string(&turn).unwrap(), "\"turn_1\"");
        assert!(serde_json::from_str::<TurnId>("\"../x\"").is_err());
        assert_eq!(serde_json::from_str::<Seq>("3").unwrap().get(), 3);
        assert!(serde_json::from_str::<Sid>("0").is_err());
        assert!(serde_json::from_str::<Sid>("4294967296").is_err());
        assert_eq!(serde_json::to_string(&Sid::FIRST).unwrap(), "1");
    }

    #[test]
    fn a_scope_has_three_safe_parts() {
        let scope = Scope::parse("acme/research/ann@acme.org").unwrap();
        assert_eq!(
            (scope.tenant(), scope.project(), scope.user()),
            ("acme", "research", "ann@acme.org")
        );
        assert_eq!(Scope::parse(&scope.to_string()), Ok(scope));
        assert_eq!(Scope::default().to_string(), "local/default/me");
        for bad in ["", "a/b", "a/b/c/d", "a//c", "../b/c", "a/b/c\n"] {
            assert!(Scope::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_conversation_key_is_its_scope_and_its_id() {
        let key = ConversationKey::parse("acme/research/ann@acme.org/conv_1").unwrap();
        assert_eq!(key.scope, Scope::parse("acme/research/ann@acme.org").unwrap());
        assert_eq!(key.id.as_str(), "conv_1");
        assert_eq!(key.to_string().parse(), Ok(key));
        for bad in ["", "conv_1", "a/b/conv_1", "a/b/c/", "a/b/c/d/e", "a/b/c/d.e"] {
            assert!(ConversationKey::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn error_messages_show_the_input_in_one_bounded_line() {
        let message = TurnId::parse(&format!("bad\n{}", "y".repeat(500)))
            .unwrap_err()
            .to_string();
        insta::assert_snapshot!(message, @r"turn id `bad\nyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…` is not valid: expected `turn_` and 1 to 64 of `A-Z a-z 0-9 _ -`");
    }
}
