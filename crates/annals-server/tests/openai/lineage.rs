//! Whatever chat clients do with their histories, the conversations behind them are what the same operations on the native
//! API would have made: a send continues, an edit and a regeneration fork, what a client asks on its own leaves no trace.

use std::collections::BTreeMap;

use crate::common::{Running, options};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// What a person or a client does.
#[derive(Clone, Debug)]
enum Operation {
    Send(u8),
    /// Another text in place of one that was sent; what followed it goes.
    Edit(u8, u8),
    /// Another answer in place of the last one.
    Regenerate,
    /// A title, asked for by the client itself with a prompt of its own.
    Title,
    /// Suggestions, asked for with the whole history under another system text.
    Suggest,
    NewChat,
}

/// A stateless client: its chat, and the name it sends along.
#[derive(Default)]
struct Client {
    key: Option<(&'static str, String)>,
    chats: usize,
    /// Prompts and answers as the client keeps them.
    chat: Vec<(String, String)>,
    conversation: Option<String>,
}

/// Prompts and answers of each listed conversation.
type Conversations = BTreeMap<String, Vec<(String, String)>>;

impl Client {
    fn named(header: &'static str, name: &str) -> Self {
        Client {
            key: Some((header, name.to_owned())),
            ..Client::default()
        }
    }

    async fn ask(&self, server: &Running, system: &str, prompt: &str) -> (Option<String>, String) {
        let mut messages = vec![json!({"role": "system", "content": system})];
        for (prompt, answer) in &self.chat {
            messages.push(json!({"role": "user", "content": prompt}));
            // A client may trim what it keeps.
            messages.push(json!({"role": "assistant", "content": answer.trim()}));
        }
        messages.push(json!({"role": "user", "content": prompt}));
        let mut request = server.request(reqwest::Method::POST, "/v1/chat/completions");
        if let Some((header, name)) = &self.key {
            request = request.header(*header, format!("{name}-{}", self.chats));
        }
        let body = json!({"model": "annals", "messages": messages});
        let response = request.json(&body).send().await.unwrap();
        let conversation = response
            .headers()
            .get("x-annals-conversation")
            .map(|value| value.to_str().unwrap().to_owned());
        let status = response.status();
        let answer: Value = response.json().await.unwrap();
        assert!(status.is_success(), "{status} {answer}");
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
        (conversation, text.to_owned())
    }

    /// Sends a prompt after the chat as it is.
    async fn send(
        &mut self,
        server: &Running,
        before: &Conversations,
        prompt: String,
    ) -> Result<(), TestCaseError> {
        let (conversation, answer) = self.ask(server, "You are a client", &prompt).await;
        let conversation = conversation.unwrap();
        let is_head = self
            .conversation
            .as_ref()
            .and_then(|id| before.get(id))
            .is_some_and(|said| !self.chat.is_empty() && *said == self.chat);
        // Where two pasts are equal, either may be gone on with.
        let is_alone = before
            .values()
            .filter(|said| said.starts_with(&self.chat))
            .count()
            == 1;
        if is_head && is_alone {
            prop_assert_eq!(
                Some(&conversation),
                self.conversation.as_ref(),
                "a send continues"
            );
        }
        let was = before.get(&conversation);
        prop_assert!(
            was.is_none_or(|was| *was == self.chat),
            "no conversation with another past is written to"
        );
        self.chat.push((prompt, answer));
        self.conversation = Some(conversation.clone());
        let now = conversations(server).await;
        prop_assert_eq!(
            now.get(&conversation),
            Some(&self.chat),
            "the conversation is what the client sees"
        );
        for (id, said) in before.iter().filter(|(id, _)| **id != conversation) {
            prop_assert_eq!(now.get(id), Some(said), "the others stay as they were");
        }
        prop_assert!(now.len() <= before.len() + 1);
        Ok(())
    }
}

async fn conversations(server: &Running) -> Conversations {
    let listed = server.get_json("/v1/conversations?limit=200").await;
    let mut all = Conversations::new();
    for item in listed["items"].as_array().unwrap() {
        let id = item["id"].as_str().unwrap();
        let blocks = server
            .get_json(&format!("/v1/conversations/{id}/blocks?limit=1000"))
            .await;
        let texts = |kind: &str| -> Vec<String> {
            let blocks = blocks["items"].as_array().unwrap().iter();
            let found = blocks.filter(|block| block["type"] == kind);
            found
                .map(|block| block["text"].as_str().unwrap().to_owned())
                .collect()
        };
        let (prompts, answers) = (texts("user.prompt"), texts("assistant.completion"));
        assert_eq!(prompts.len(), answers.len(), "every turn has ended");
        all.insert(id.to_owned(), prompts.into_iter().zip(answers).collect());
    }
    all
}

async fn perform(server: &Running, client: &mut Client, operation: &Operation) -> Result<(), TestCaseError> {
    let before = conversations(server).await;
    match operation {
        Operation::Send(n) => client.send(server, &before, format!("prompt {}", n % 3)).await,
        Operation::Edit(at, n) if !client.chat.is_empty() => {
            client.chat.truncate(usize::from(*at) % client.chat.len());
            client.send(server, &before, format!("edited {}", n % 3)).await
        }
        Operation::Regenerate if !client.chat.is_empty() => {
            let (prompt, _) = client.chat.pop().unwrap();
            client.send(server, &before, prompt).await
        }
        Operation::Title => {
            let chat = std::mem::take(&mut client.chat);
            client
                .ask(
                    server,
                    "You are a title generator. You output ONLY a thread title.",
                    "Hi",
                )
                .await;
            client.chat = chat;
            prop_assert_eq!(conversations(server).await, before, "a title is no turn");
            Ok(())
        }
        // Without a name nobody can tell it from a chat that began elsewhere.
        Operation::Suggest if !client.chat.is_empty() && client.key.is_some() => {
            client.ask(server, "Suggest three questions", "What next?").await;
            prop_assert_eq!(conversations(server).await, before, "suggestions are no turn");
            Ok(())
        }
        Operation::NewChat => {
            client.chat.clear();
            client.conversation = None;
            client.chats += 1;
            Ok(())
        }
        Operation::Edit(..) | Operation::Regenerate | Operation::Suggest => Ok(()),
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        5 => any::<u8>().prop_map(Operation::Send),
        2 => any::<(u8, u8)>().prop_map(|(at, n)| Operation::Edit(at, n)),
        2 => Just(Operation::Regenerate),
        1 => Just(Operation::Title),
        1 => Just(Operation::Suggest),
        1 => Just(Operation::NewChat),
    ]
}

/// Answers that differ, or answers that are often equal, so that pasts of different clients coincide.
fn answers(differ: bool) -> Value {
    let step =
        |n: usize| json!({"text": if differ { format!("answer {n}") } else { format!("answer {}", n % 2) }});
    (0..200).map(step).collect()
}

fn clients(kind: u8) -> [Client; 2] {
    match kind % 3 {
        0 => [
            Client::named("x-session-id", "ses_a"),
            Client::named("x-session-id", "ses_b"),
        ],
        1 => [
            Client::named("x-annals-conversation", "chat_a"),
            Client::default(),
        ],
        _ => [Client::default(), Client::default()],
    }
}

#[test]
fn conversations_are_what_the_clients_see() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 30,
        failure_persistence: None,
        max_shrink_iters: 40,
        ..ProptestConfig::default()
    });
    let plan = (
        any::<u8>(),
        any::<bool>(),
        prop::collection::vec((any::<bool>(), operation()), 1..14),
    );
    let outcome = runner.run(&plan, |(kind, differ, operations)| {
        runtime.block_on(async {
            let server = Running::with(answers(differ), options(), |builder| builder).await;
            let mut clients = clients(kind);
            for (second, operation) in &operations {
                perform(&server, &mut clients[usize::from(*second)], operation).await?;
            }
            Ok(())
        })
    });
    outcome.unwrap();
}
