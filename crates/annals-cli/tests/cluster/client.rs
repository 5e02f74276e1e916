//! Clients that know every node, use any of them, and write down what they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use annals::core::time::Timestamp;
use annals::runtime::World;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::chance::Chance;
use super::nodes::{Cluster, PATIENCE, client};

/// One client: a token, and the addresses of all nodes.
#[derive(Clone)]
pub(crate) struct Client {
    bases: Arc<[String]>,
    token: String,
    http: reqwest::Client,
    /// How long a silent stream is believed in.
    silence: Duration,
    pub(crate) record: Arc<Record>,
}

/// What clients were told, and what was wrong about it.
#[derive(Default)]
pub(crate) struct Record {
    parts: Mutex<Parts>,
}

#[derive(Default)]
pub(crate) struct Parts {
    /// Turns that were acknowledged, with their conversation and the number of their plan.
    pub(crate) acknowledged: BTreeMap<String, (String, u64)>,
    /// Blocks by conversation and number, as they were first shown.
    pub(crate) shown: BTreeMap<(String, u64), String>,
    /// What was posted, by words of it that nothing else has.
    pub(crate) posts: BTreeMap<String, Posted>,
    /// When a turn was acknowledged, and when somebody first heard of its end.
    pub(crate) times: BTreeMap<String, (Instant, Option<Instant>)>,
    /// Blocks that were told while they were new.
    pub(crate) heard: Vec<Heard>,
    /// Files that conversations named which are deleted, by their digests.
    pub(crate) garbage: BTreeSet<String>,
    /// Turns of conversations that are deleted.
    pub(crate) deleted: usize,
    pub(crate) wrong: Vec<String>,
    pub(crate) reconnected: usize,
    pub(crate) deltas: usize,
}

/// Something that was posted to a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) conversation: String,
    pub(crate) kind: &'static str,
    pub(crate) is_acknowledged: bool,
}

/// A block that reached a follower, and how long after it had been made.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) conversation: String,
    pub(crate) seq: u64,
    /// The node that told it.
    pub(crate) node: usize,
    pub(crate) after: Duration,
}

impl Record {
    pub(crate) fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wrong(&self, what: String) {
        self.parts().wrong.push(what);
    }

    fn ended(&self, turn: &str) {
        let now = Instant::now();
        let mut parts = self.parts();
        // A follower may hear of it before whoever posted the prompt is told its turn.
        let (_, end) = parts.times.entry(turn.to_owned()).or_insert((now, None));
        end.get_or_insert(now);
    }

    fn posts(&self, words: String, conversation: &str, kind: &'static str) {
        let post = Posted {
            conversation: conversation.to_owned(),
            kind,
            is_acknowledged: false,
        };
        self.parts().posts.insert(words, post);
    }

    fn acknowledged(&self, words: &str) {
        if let Some(post) = self.parts().posts.get_mut(words) {
            post.is_acknowledged = true;
        }
    }

    /// A conversation is about to be deleted: nothing of it is asked for any more, and its files are garbage.
    fn forget(&self, conversation: &str) {
        let mut parts = self.parts();
        let own = (conversation.to_owned(), 0)..=(conversation.to_owned(), u64::MAX);
        let shown: Vec<String> = parts.shown.range(own).map(|(_, block)| block.clone()).collect();
        for block in shown {
            let digests = block.match_indices("sha256:").filter_map(|(at, prefix)| {
                let digest = block.get(at + prefix.len()..at + prefix.len() + 64)?;
                digest
                    .bytes()
                    .all(|byte| byte.is_ascii_hexdigit())
                    .then_some(digest)
            });
            parts.garbage.extend(digests.map(str::to_owned));
        }
        let before = parts.acknowledged.len();
        parts.acknowledged.retain(|_, (of, _)| of != conversation);
        parts.deleted += before - parts.acknowledged.len();
        parts.posts.retain(|_, post| post.conversation != conversation);
    }

    fn saw(&self, conversation: &str, seq: u64, block: &str) {
        let mut parts = self.parts();
        let known = parts
            .shown
            .entry((conversation.to_owned(), seq))
            .or_insert_with(|| block.to_owned());
        if known != block {
            let what = format!("{conversation}/{seq} was shown as {known} and as {block}");
            parts.wrong.push(what);
        }
    }
}

impl Client {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Client {
            bases: cluster.nodes.iter().map(|node| node.base.clone()).collect(),
            token: cluster.token.clone(),
            http: client(),
            silence: cluster.lease * 2,
            record: Arc::default(),
        }
    }

    /// Sends a request to one node.
    pub(crate) async fn send(
        &self,
        node: usize,
        path: &str,
        body: Option<&Value>,
        key: &str,
    ) -> Option<(u16, Value)> {
        let address = format!("{}{path}", self.bases[node]);
        let request = match body {
            Some(body) => self.http.post(address).header("idempotency-key", key).json(body),
            None => self.http.get(address),
        };
        let request = request.bearer_auth(&self.token).timeout(Duration::from_secs(8));
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.json().await.ok()?))
    }

    /// Sends a request to one node after the other until one has answered it.
    pub(crate) async fn persist(
        &self,
        chance: &mut Chance,
        path: &str,
        body: Option<&Value>,
        key: &str,
    ) -> Option<Value> {
        let began = Instant::now();
        let mut last = None;
        while began.elapsed() < PATIENCE {
            let node = chance.below(self.bases.len());
            match self.send(node, path, body, key).await {
                Some((200..300, answer)) => return Some(answer),
                Some((status @ (409 | 429 | 500..), answer)) => last = Some((status, answer)),
                Some((status, answer)) => {
                    self.record
                        .wrong(format!("{path} was answered {status}: {answer}"));
                    return None;
                }
                None => {}
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.record
            .wrong(format!("{path} was not answered in time: {last:?}"));
        None
    }

    pub(crate) async fn new_conversation(&self, chance: &mut Chance) -> Option<String> {
        let key = format!("make-{}", chance.next());
        let made = self
            .persist(chance, "/v1/conversations", Some(&json!({})), &key)
            .await?;
        made["id"].as_str().map(str::to_owned)
    }

    /// Posts a prompt; gives its turn once it is acknowledged.
    pub(crate) async fn prompt(
        &self,
        chance: &mut Chance,
        conversation: &str,
        number: u64,
        plan: &str,
    ) -> Option<String> {
        let path = format!("/v1/conversations/{conversation}/turns");
        let body = json!({"prompt": format!("[[plan {number} {plan}]]")});
        let words = format!("[[plan {number} ");
        self.record.posts(words.clone(), conversation, "user.prompt");
        let started = self
            .persist(chance, &path, Some(&body), &format!("go-{number}"))
            .await?;
        let turn = started["turn_id"].as_str()?.to_owned();
        self.record.acknowledged(&words);
        let mut parts = self.record.parts();
        parts.times.entry(turn.clone()).or_insert((Instant::now(), None));
        let known = (conversation.to_owned(), number);
        parts.acknowledged.insert(turn.clone(), known);
        Some(turn)
    }

    /// Says something to a turn, at one node after the other until one answers. It may have ended, or its node be gone: then
    /// it is refused.
    pub(crate) async fn steer(&self, chance: &mut Chance, conversation: &str, turn: &str, number: u64) {
        let path = format!("/v1/conversations/{conversation}/turns/{turn}/steer");
        let (words, key) = (format!("(word {number} in between)"), format!("say-{number}"));
        self.record.posts(words.clone(), conversation, "user.steer");
        let (body, began) = (json!({"text": words.clone()}), Instant::now());
        while began.elapsed() < PATIENCE {
            let node = chance.below(self.bases.len());
            match self.send(node, &path, Some(&body), &key).await {
                Some((200..300, _)) => return self.record.acknowledged(&words),
                Some((409, answer)) if answer["code"] == "turn_ended" => return,
                Some((400..409 | 410..429, answer)) => {
                    return self.record.wrong(format!("{path} was answered {answer}"));
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        self.record.wrong(format!("{path} was not answered in time"));
    }

    /// Deletes a conversation with everything that is known of it.
    pub(crate) async fn delete(&self, chance: &mut Chance, conversation: &str) {
        self.record.forget(conversation);
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let base = &self.bases[chance.below(self.bases.len())];
            let request = self
                .http
                .delete(format!("{base}/v1/conversations/{conversation}"));
            let request = request.bearer_auth(&self.token).timeout(Duration::from_secs(8));
            match request.send().await.map(|answer| answer.status().as_u16()) {
                // An earlier request may have done it, and its answer was lost.
                Ok(200..300 | 404) => return,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        self.record.wrong(format!("{conversation} cannot be deleted"));
    }

    /// All blocks, as a node tells them; what went wrong if it does not.
    pub(crate) async fn try_blocks(&self, node: usize, conversation: &str) -> Result<Vec<Value>, String> {
        let mut blocks = Vec::new();
        loop {
            let path = format!(
                "/v1/conversations/{conversation}/blocks?limit=500&after={}",
                blocks.len()
            );
            let page = match self.send(node, &path, None, "").await {
                Some((200, page)) => page,
                answer => return Err(format!("node {node} does not tell {conversation}: {answer:?}")),
            };
            let items = page["items"].as_array().cloned().unwrap_or_default();
            match items.len() {
                0 => return Ok(blocks),
                _ => blocks.extend(items),
            }
        }
    }

    /// All blocks, as a node tells them.
    pub(crate) async fn blocks(&self, node: usize, conversation: &str) -> Vec<Value> {
        self.try_blocks(node, conversation)
            .await
            .expect("a healed node answers")
    }

    /// What a node answers to a request for a page or a stream, to its end; with a token or with this cookie.
    pub(crate) async fn get_text(&self, node: usize, path: &str, cookie: Option<&str>) -> (u16, String) {
        let request = self
            .http
            .get(format!("{}{path}", self.bases[node]))
            .timeout(PATIENCE);
        let request = match cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request.bearer_auth(&self.token),
        };
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// The cookie that a browser gets from a node for this client's token.
    pub(crate) async fn cookie(&self, node: usize) -> String {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        let address = format!("{}/?token={}", self.bases[node], self.token);
        let response = http.build().unwrap().get(address).send().await.unwrap();
        let cookie = response.headers()["set-cookie"].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// The text of an answer, from the pieces that a node tells before the answer's block.
    pub(crate) async fn text_while_it_arrives(&self, node: usize, conversation: &str) -> String {
        let address = format!("{}/v1/conversations/{conversation}/events", self.bases[node]);
        let mut response = self
            .http
            .get(address)
            .bearer_auth(&self.token)
            .send()
            .await
            .unwrap();
        let (mut text, mut events) = (String::new(), String::new());
        while let Some(piece) = tokio::time::timeout(PATIENCE, response.chunk())
            .await
            .unwrap()
            .unwrap()
        {
            events.push_str(&String::from_utf8_lossy(&piece));
            while let Some(end) = events.find("\n\n") {
                let event: String = events.drain(..end + 2).collect();
                let data = event
                    .lines()
                    .find_map(|line| line.strip_prefix("data:"))
                    .unwrap_or("{}");
                let data: Value = serde_json::from_str(data).unwrap();
                if event.contains("event: delta") && data["channel"] == "answer" {
                    text.truncate(data["from"].as_u64().unwrap() as usize);
                    text.push_str(data["text"].as_str().unwrap());
                }
                if data["type"] == "assistant.completion" || data["type"] == "react.completion" {
                    return text;
                }
            }
        }
        text
    }

    /// Follows a conversation over any nodes until the receiver is dropped.
    pub(crate) fn follow(&self, conversation: &str, chance: Chance) -> Follower {
        let (told, ended) = watch::channel(BTreeSet::new());
        let (client, id) = (self.clone(), conversation.to_owned());
        let task = tokio::spawn(async move { client.read(&id, chance, told).await });
        Follower { ended, task }
    }

    async fn read(&self, conversation: &str, mut chance: Chance, told: watch::Sender<BTreeSet<String>>) {
        let mut last = 0;
        loop {
            let node = chance.below(self.bases.len());
            let address = format!("{}/v1/conversations/{conversation}/events", self.bases[node]);
            let request = self
                .http
                .get(address)
                .bearer_auth(&self.token)
                .header("last-event-id", last.to_string());
            let asked = tokio::time::timeout(self.silence, request.send()).await;
            if let Ok(Ok(response)) = asked
                && response.status().is_success()
            {
                self.read_stream((conversation, node), response, &mut last, &told)
                    .await;
            }
            self.record.parts().reconnected += 1;
            tokio::time::sleep(Duration::from_millis(20 + chance.next() % 50)).await;
        }
    }

    async fn read_stream(
        &self,
        (conversation, node): (&str, usize),
        mut response: reqwest::Response,
        last: &mut u64,
        told: &watch::Sender<BTreeSet<String>>,
    ) {
        let (mut text, opened) = (Vec::new(), World::default().now());
        while let Ok(Ok(Some(piece))) = tokio::time::timeout(self.silence, response.chunk()).await {
            text.extend_from_slice(&piece);
            while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = text.drain(..end + 2).collect();
                let event = String::from_utf8(event).expect("events are text");
                let field = |name: &str| {
                    event
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .map(str::trim)
                };
                match (field("event:"), field("id:"), field("data:")) {
                    (Some("block"), Some(id), Some(data)) => {
                        let seq: u64 = id.parse().expect("a number");
                        if seq != *last + 1 {
                            self.record
                                .wrong(format!("{conversation}: block {seq} came after {last}"));
                        }
                        *last = seq;
                        self.record.saw(conversation, seq, data);
                        let block: Value = serde_json::from_str(data).expect("a block is JSON");
                        if let Some(after) = age(&block, opened) {
                            self.record.parts().heard.push(Heard {
                                conversation: conversation.to_owned(),
                                seq,
                                node,
                                after,
                            });
                        }
                        if block["type"] == "react.completion" {
                            let turn = block["turn_id"].as_str().unwrap_or_default().to_owned();
                            self.record.ended(&turn);
                            told.send_modify(|ended| {
                                ended.insert(turn);
                            });
                        }
                    }
                    (Some("delta"), ..) => self.record.parts().deltas += 1,
                    _ => {}
                }
            }
        }
    }
}

/// How long ago a block was made, if that was after its stream was opened: what came before is no news.
fn age(block: &Value, opened: Timestamp) -> Option<Duration> {
    let made = Timestamp::parse(block["ts"].as_str()?).ok()?;
    (made > opened).then(|| Duration::from_micros(World::default().now().micros_since(made)))
}

/// Somebody who follows a conversation; stops when dropped.
pub(crate) struct Follower {
    ended: watch::Receiver<BTreeSet<String>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    /// Waits until a turn has ended; whether it has, in time.
    pub(crate) async fn saw_end_of(&mut self, turn: &str) -> bool {
        let seen = self.ended.wait_for(|ended| ended.contains(turn));
        matches!(tokio::time::timeout(PATIENCE, seen).await, Ok(Ok(_)))
    }
}

/// What a follower is told is judged at once.
mod tests {
    use axum::Router;
    use axum::routing::get;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_block_that_comes_twice_too_early_or_changed_is_noticed() {
        // Fails when another test of this process was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let event = |seq: u64, text: &str| {
            let block = json!({"seq": seq, "type": "assistant.completion", "text": text});
            format!("event: block\nid: {seq}\ndata: {block}\n\n")
        };
        let told = [event(1, "a"), event(3, "c"), event(3, "c"), event(3, "d")].concat();
        let told = move || {
            let told = told.clone();
            async move { told }
        };
        let router = Router::new().route("/v1/conversations/c/events", get(told));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let served = tokio::spawn(async move { axum::serve(listener, router).await });
        let client = Client {
            bases: [base].into(),
            token: String::new(),
            http: client(),
            silence: Duration::from_secs(10),
            record: Arc::default(),
        };
        let response = client
            .http
            .get(format!("{}/v1/conversations/c/events", client.bases[0]))
            .send();
        let (told, _ended) = watch::channel(BTreeSet::new());
        client
            .read_stream(("c", 0), response.await.unwrap(), &mut 0, &told)
            .await;
        served.abort();
        let wrong = std::mem::take(&mut client.record.parts().wrong);
        assert!(wrong[0].contains("block 3 came after 1"), "{wrong:?}");
        assert!(wrong[1].contains("block 3 came after 3"), "{wrong:?}");
        assert!(
            wrong.iter().any(|wrong| wrong.contains("was shown as")),
            "{wrong:?}"
        );
    }
}
