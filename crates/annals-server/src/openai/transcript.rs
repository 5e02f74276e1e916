//! What a client sent, in one form for both wire forms: its system texts, the exchanges before, and what is new.
//!
//! Chat clients are stateless and send everything again at each request; this is where a list of messages becomes exchanges
//! that can be compared with turns.

use annals_core::block::{Blob, BlobDigest, Block};

/// Who said a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// `system` and `developer`.
    System,
    User,
    Assistant,
    /// A tool of the client's, with the call whose result it gives.
    Tool(String),
}

/// One message as it came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) role: Role,
    pub(crate) said: Said,
}

/// What somebody said, with what came along.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) files: Vec<File>,
}

/// A file in a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) digest: BlobDigest,
    pub(crate) held: Held,
}

/// Where the bytes of a file are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Held {
    /// They came with the message.
    Here(Vec<u8>),
    /// The artifact store has them.
    Kept(Blob),
}

impl File {
    /// The file of an attachment.
    pub(crate) fn of(block: &Block) -> Option<Self> {
        let path = block.path.as_ref()?.as_str();
        let file = block.meta().file.as_ref()?;
        let digest = file.content_digest?;
        Some(File {
            name: path.rsplit('/').next().unwrap_or(path).to_owned(),
            digest,
            held: Held::Kept(Blob {
                digest,
                size_bytes: file.size_bytes?,
            }),
        })
    }
}

/// A prompt and what was answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Exchange {
    pub(crate) user: Said,
    pub(crate) assistant: String,
}

/// A request's messages, taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Transcript {
    /// The client's own system texts, joined.
    pub(crate) instructions: Option<String>,
    /// What was said before, as the client remembers it.
    pub(crate) history: Vec<Exchange>,
    /// What is new.
    pub(crate) prompt: Said,
    /// Results of the client's own tools that no answer followed yet.
    pub(crate) outputs: Vec<ToolOutput>,
}

/// The result of a call that the client performed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolOutput {
    /// The id under which the call was handed to the client.
    pub(crate) call: String,
    pub(crate) text: String,
}

/// The messages end with something else than what a person says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the last message is not the user's: end `messages` or `input` with what the agent should answer")]
pub(crate) struct NothingAsked;

impl Said {
    fn add(&mut self, other: Said) {
        join(&mut self.text, &other.text);
        self.files.extend(other.files);
    }
}

impl Transcript {
    /// Takes messages apart. Several of one side in a row count as one; system texts count wherever they stand.
    pub(crate) fn of(messages: Vec<Message>) -> Result<Self, NothingAsked> {
        let mut transcript = Transcript::default();
        let mut instructions = String::new();
        // What the user said since the last answer.
        let mut open: Option<Said> = None;
        for Message { role, said } in messages {
            match role {
                Role::System => join(&mut instructions, &said.text),
                Role::User => open.get_or_insert_default().add(said),
                Role::Tool(call) => transcript.outputs.push(ToolOutput {
                    call,
                    text: said.text,
                }),
                Role::Assistant => {
                    // Calls of one answer may stand between their results; words say that the results were heard.
                    if open.is_some() || !said.text.trim().is_empty() {
                        transcript.outputs.clear();
                    }
                    match (open.take(), transcript.history.last_mut()) {
                        (None, Some(last)) => join(&mut last.assistant, &said.text),
                        (user, _) => transcript.history.push(Exchange {
                            user: user.unwrap_or_default(),
                            assistant: said.text,
                        }),
                    }
                }
            }
        }
        transcript.prompt = match (open, transcript.outputs.is_empty()) {
            (None, true) => return Err(NothingAsked),
            (open, _) => open.unwrap_or_default(),
        };
        transcript.instructions = Some(instructions).filter(|text| !text.is_empty());
        Ok(transcript)
    }

    /// Whether this is a request that a client makes on its own, for a title, tags or suggestions, and not a person.
    ///
    /// Such requests carry the key of the conversation they are about. Most are told apart because their history is unknown
    /// there; those that come before the first prompt are known by how they begin.
    pub(crate) fn is_side_request(&self) -> bool {
        let system = self.instructions.as_deref().unwrap_or_default().trim_start();
        let prompt = self.prompt.text.trim_start();
        let begins = |texts: &[&str]| {
            texts
                .iter()
                .any(|text| system.starts_with(text) || prompt.starts_with(text))
        };
        begins(SIDE_REQUESTS) || (prompt.starts_with("### Task:") && prompt.contains("<chat_history>"))
    }

    /// The whole as one prompt, for a conversation that does not know what was said before.
    pub(crate) fn as_prompt(&self) -> String {
        if self.history.is_empty() {
            return self.prompt.text.clone();
        }
        let mut text = String::from("What was said before, elsewhere:\n");
        for Exchange { user, assistant } in &self.history {
            text.push_str(&format!(
                "\n<user>\n{}\n</user>\n<assistant>\n{assistant}\n</assistant>\n",
                user.text
            ));
        }
        text.push_str(&format!("\nNow:\n{}", self.prompt.text));
        text
    }

    /// All files, those of the history first; the prompt's own are the last.
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        let before = self.history.iter().flat_map(|exchange| &exchange.user.files);
        before.chain(&self.prompt.files)
    }
}

/// How requests begin that clients make on their own: opencode, LibreChat, continue.dev.
const SIDE_REQUESTS: &[&str] = &[
    "You are a title generator.",
    "Provide a concise, 5-word-or-less title for the conversation",
    "Given the following... please reply with a title for the chat",
];

fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: Role, text: &str) -> Message {
        Message {
            role,
            said: Said {
                text: text.to_owned(),
                files: Vec::new(),
            },
        }
    }

    #[test]
    fn messages_become_exchanges_and_a_prompt() {
        use Role::{Assistant, System, User};
        let transcript = Transcript::of(vec![
            message(System, "Be brief"),
            message(User, "a"),
            message(User, "b"),
            message(Assistant, "c"),
            message(Assistant, "d"),
            message(System, "Really"),
            message(User, "e"),
        ])
        .unwrap();
        assert_eq!(transcript.instructions.as_deref(), Some("Be brief\n\nReally"));
        assert_eq!(transcript.history.len(), 1);
        assert_eq!(transcript.history[0].user.text, "a\n\nb");
        assert_eq!(transcript.history[0].assistant, "c\n\nd");
        assert_eq!(transcript.prompt.text, "e");
    }

    #[test]
    fn results_count_until_they_are_answered() {
        use Role::{Assistant, Tool, User};
        let output = |call: &str| message(Tool(call.to_owned()), "result");
        let calls = |messages: Vec<Message>| -> Vec<String> {
            let outputs = Transcript::of(messages).unwrap().outputs.into_iter();
            outputs.map(|output| output.call).collect()
        };
        let asked = || vec![message(User, "a"), message(Assistant, "")];
        let given = |more: Vec<Message>| calls(asked().into_iter().chain(more).collect());
        assert_eq!(given(vec![output("1"), output("2")]), ["1", "2"]);
        assert_eq!(
            given(vec![output("1"), message(Assistant, ""), output("2")]),
            ["1", "2"],
            "pairs"
        );
        assert_eq!(given(vec![output("1"), message(User, "and quickly")]), ["1"]);
        let answered = || vec![output("1"), message(Assistant, "b")];
        assert!(given(answered().into_iter().chain([message(User, "c")]).collect()).is_empty());
        let again = [message(User, "c"), message(Assistant, ""), output("2")];
        assert_eq!(given(answered().into_iter().chain(again).collect()), ["2"]);
    }

    #[test]
    fn an_answer_at_the_end_asks_nothing() {
        let messages = vec![message(Role::User, "a"), message(Role::Assistant, "b")];
        assert_eq!(Transcript::of(messages), Err(NothingAsked));
        assert_eq!(
            Transcript::of(vec![message(Role::System, "s")]),
            Err(NothingAsked)
        );
    }

    #[test]
    fn what_clients_ask_on_their_own_is_known_by_how_it_begins() {
        let asked = |system: &str, prompt: &str| {
            let messages = vec![message(Role::System, system), message(Role::User, prompt)];
            Transcript::of(messages).unwrap().is_side_request()
        };
        assert!(asked(
            "You are a title generator. You output ONLY a thread title.",
            "hello"
        ));
        assert!(asked(
            "",
            "### Task:\nGenerate a title\n<chat_history>\nUSER: hi\n</chat_history>"
        ));
        assert!(!asked(
            "You are opencode, an interactive CLI tool",
            "Generate a title for my page"
        ));
        assert!(!asked("", "### Task: write a parser"));
    }
}
