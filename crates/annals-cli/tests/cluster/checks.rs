//! What must hold once all faults are over, whatever happened before.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use annals::core::block::BlobDigest;
use annals::s3::Bucket;
use annals::store::ArtifactStore;
use annals_opensandbox_double::Double;
use annals_testbed::{S3_KEY_ID, S3_SECRET};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::client::Client;
use super::nodes::Cluster;
use super::promises;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) wrong: Vec<String>,
    pub(crate) conversations: usize,
    pub(crate) blocks: usize,
    pub(crate) completed: usize,
    /// Turns that were given up after five attempts, each of which some fault ended.
    pub(crate) given_up: usize,
    /// Calls whose process died or lost its lease.
    pub(crate) interrupted: usize,
    pub(crate) effects: usize,
    /// Calls that may be repeated, each with its one good result.
    pub(crate) harmless: usize,
    /// Posts that are on their timelines.
    pub(crate) taken_in: usize,
    pub(crate) files: usize,
    /// Files that were removed because nobody named them.
    pub(crate) collected: usize,
    /// How often each kind of block occurred.
    pub(crate) kinds: BTreeMap<String, usize>,
    /// How long the last turns took to end after all faults were over.
    pub(crate) healed_in: Duration,
}

/// What a busy machine may add to three leases.
pub(crate) const SLACK: Duration = Duration::from_secs(20);

/// Looks at everything.
pub(crate) async fn after_healing(cluster: &Cluster, client: &Client, slack: Duration) -> Found {
    let mut found = Found::default();
    let began = Instant::now();
    settle(cluster, slack, &mut found).await;
    found.healed_in = began.elapsed();
    let (acknowledged, shown, posts) = {
        let mut parts = client.record.parts();
        found.wrong.append(&mut parts.wrong);
        (
            parts.acknowledged.clone(),
            parts.shown.clone(),
            parts.posts.clone(),
        )
    };
    let (kept, has_ledger) = (
        Kept::of(cluster),
        cluster.nodes.iter().all(|node| node.sandboxes.is_none()),
    );
    check_growth(cluster, &mut found).await;
    let (effects, mut begun) = (read_ledger(cluster), Vec::new());
    found.effects = effects.values().map(Vec::len).sum();
    let mut turns: BTreeMap<&String, Vec<(&String, u64)>> = BTreeMap::new();
    for (turn, (conversation, number)) in &acknowledged {
        turns.entry(conversation).or_default().push((turn, *number));
    }
    found.conversations = turns.len();
    for (conversation, turns) in turns {
        let blocks = match client.try_blocks(0, conversation).await {
            Ok(blocks) => blocks,
            Err(why) => {
                found.wrong.push(why);
                continue;
            }
        };
        found.blocks += blocks.len();
        for block in &blocks {
            let kind = block["type"].as_str().unwrap_or_default().to_owned();
            *found.kinds.entry(kind).or_default() += 1;
        }
        for node in 1..cluster.nodes.len() {
            if client.try_blocks(node, conversation).await.as_ref() != Ok(&blocks) {
                found
                    .wrong
                    .push(format!("nodes 0 and {node} tell {conversation} differently"));
            }
        }
        check_shown(conversation, &blocks, &shown, &mut found);
        check_turns(conversation, &blocks, &turns, &mut found);
        promises::check_posts(conversation, &blocks, &posts, &mut found);
        promises::check_harmless(&blocks, &mut found);
        match has_ledger {
            true => check_effects(&blocks, &effects, &mut found),
            false => promises::check_results(&blocks, &mut found),
        }
        check_artifacts(&kept, &blocks, &mut found).await;
        begun.extend(starts(conversation, &blocks, &effects));
    }
    check_starts(cluster, &begun, STARTED_WITHIN, &mut found).await;
    check_doomed(cluster, &mut found).await;
    found
}

/// Every turn ends and nothing waits, soon after the last fault.
async fn settle(cluster: &Cluster, slack: Duration, found: &mut Found) {
    let deadline = Instant::now() + cluster.lease * 3 + slack;
    let open = "SELECT count(*) FROM annals.inbox WHERE body IS NOT NULL";
    let due = "SELECT count(*) FROM annals.head WHERE due IS NOT NULL";
    let held =
        "SELECT count(*) FROM annals.head h JOIN annals.member m ON m.node = h.node WHERE h.epoch < m.epoch
        AND h.until > extract(epoch FROM clock_timestamp()) * 1000000";
    for (what, statement) in [
        ("posts wait that nobody takes in", open),
        ("turns wait that nobody goes on with", due),
        ("conversations are held by processes that died", held),
    ] {
        let mut left = cluster.count(statement).await;
        while left > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
            left = cluster.count(statement).await;
        }
        if left > 0 {
            found.wrong.push(format!("{left} {what}"));
        }
    }
}

/// Whoever moved a head on held it, and the fencing tokens of a conversation's blocks never fall.
pub(crate) async fn check_growth(cluster: &Cluster, found: &mut Found) {
    let foreign = "SELECT count(*) FROM public.grown WHERE by IS DISTINCT FROM holder";
    let fallen = "SELECT count(*) FROM (SELECT token < lag(token) OVER (PARTITION BY conversation ORDER BY tail) AS fell
        FROM public.grown) g WHERE fell";
    for (what, statement) in [
        (
            "appends were of nodes that did not hold the conversation",
            foreign,
        ),
        ("appends had a token below that of an earlier block", fallen),
    ] {
        match cluster.count(statement).await {
            0 => {}
            count => found.wrong.push(format!("{count} {what}")),
        }
    }
}

/// A command that began: its conversation, the block of its call, and when, in microseconds since 1970.
pub(crate) type Start = (String, u64, u128);

/// The commands of a conversation, from its blocks and the ledger.
pub(crate) fn starts(
    conversation: &str,
    blocks: &[Value],
    effects: &BTreeMap<String, Vec<u128>>,
) -> Vec<Start> {
    let calls = blocks.iter().filter(|block| block["type"] == "react.tool.call");
    calls
        .filter_map(|call| {
            let happened = effects.get(effect_of(call)?)?;
            let start = |at: &u128| {
                (
                    conversation.to_owned(),
                    call["seq"].as_u64().unwrap_or(0),
                    at / 1_000,
                )
            };
            Some(happened.iter().map(start).collect::<Vec<_>>())
        })
        .flatten()
        .collect()
}

/// What a shell needs on a busy machine from its start to the clock. A node stops a sixth of its lease early, so that it has
/// this time at least.
const STARTED_WITHIN: Duration = Duration::from_secs(1);

/// Whoever began a command might still act then, by what the database said of its node until then.
pub(crate) async fn check_starts(cluster: &Cluster, begun: &[Start], margin: Duration, found: &mut Found) {
    cluster.execute("TRUNCATE public.begun").await;
    for begun in begun.chunks(500) {
        let rows: Vec<String> = begun
            .iter()
            .map(|(conversation, seq, at)| format!("('{conversation}', {seq}, {at})"))
            .collect();
        let statement = format!("INSERT INTO public.begun VALUES {}", rows.join(", "));
        cluster.execute(&statement).await;
    }
    let late = format!(
        "SELECT count(*) FROM public.begun b JOIN annals.conversation c ON c.id = b.conversation
         JOIN LATERAL (SELECT by, epoch FROM public.grown g WHERE g.conversation = c.key AND g.tail >= b.seq
             ORDER BY g.tail LIMIT 1) g ON true
         WHERE b.at - {} > coalesce((SELECT until FROM public.lived l WHERE l.node = g.by AND l.epoch = g.epoch
             AND l.at <= b.at ORDER BY l.at DESC LIMIT 1), 0)",
        margin.as_micros()
    );
    match cluster.count(&late).await {
        0 => {}
        count => found
            .wrong
            .push(format!("{count} commands began after their node's time was over")),
    }
}

/// What garbage collection has removed or is about to remove is named by nobody.
async fn check_doomed(cluster: &Cluster, found: &mut Found) {
    let doomed = "SELECT count(*) FROM annals.artifact a JOIN annals.named n USING (digest)
        WHERE a.removing IS NOT NULL OR a.gone IS NOT NULL";
    match cluster.count(doomed).await {
        0 => {}
        count => found
            .wrong
            .push(format!("{count} artifacts are named and given up")),
    }
}

/// The name that a call writes into the ledger, if it does.
fn effect_of(call: &Value) -> Option<&str> {
    let text = call["text"].as_str()?;
    text.split("echo ").nth(1)?.split(' ').next()
}

/// A conversation has one sandbox, that of its last owner.
pub(crate) fn of_sandboxes(double: &Double) -> Vec<String> {
    let mut tokens: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for id in double.live() {
        let value = |key: &str| double.metadata(&id, key).unwrap_or_default();
        tokens
            .entry(value("annals-conversation"))
            .or_default()
            .push(value("annals-token"));
    }
    let several = tokens.into_iter().filter(|(_, tokens)| tokens.len() > 1);
    several
        .map(|(conversation, tokens)| format!("{conversation} has sandboxes of the tokens {tokens:?}"))
        .collect()
}

/// Blocks are numbered without a gap, and whatever anybody was ever shown is what is there.
fn check_shown(
    conversation: &str,
    blocks: &[Value],
    shown: &BTreeMap<(String, u64), String>,
    found: &mut Found,
) {
    for (at, block) in blocks.iter().enumerate() {
        let seq = at as u64 + 1;
        if block["seq"] != seq {
            found.wrong.push(format!(
                "{conversation}: block {seq} is numbered {}",
                block["seq"]
            ));
        }
        let Some(shown) = shown.get(&(conversation.to_owned(), seq)) else {
            found
                .wrong
                .push(format!("{conversation}/{seq} was shown to nobody"));
            continue;
        };
        if serde_json::from_str::<Value>(shown).ok().as_ref() != Some(block) {
            found.wrong.push(format!(
                "{conversation}/{seq} was shown as {shown} and is {block}"
            ));
        }
    }
    let own = (conversation.to_owned(), 0)..=(conversation.to_owned(), u64::MAX);
    if let Some(((_, seq), _)) = shown
        .range(own)
        .last()
        .filter(|((_, seq), _)| *seq > blocks.len() as u64)
    {
        found
            .wrong
            .push(format!("{conversation}: block {seq} was shown and is gone"));
    }
}

/// What a turn says that ended because its processes ended again and again.
const WITHOUT_GETTING_ON: &str = "5 times without getting on";

/// Every acknowledged prompt is there once, and its turn has ended well, or was given up.
fn check_turns(conversation: &str, blocks: &[Value], turns: &[(&String, u64)], found: &mut Found) {
    let of_turn = |kind: &str, turn: &str| {
        let is_so = |block: &&Value| block["type"] == kind && block["turn_id"] == turn;
        blocks.iter().filter(is_so).collect::<Vec<_>>()
    };
    for (turn, number) in turns {
        let prompts = of_turn("user.prompt", turn);
        if prompts.len() != 1 {
            found
                .wrong
                .push(format!("prompt {number} is there {} times", prompts.len()));
        }
        match &of_turn("react.completion", turn)[..] {
            [end]
                if end["text"]
                    .as_str()
                    .is_some_and(|text| text.contains("\"complete\"")) =>
            {
                found.completed += 1
            }
            [end]
                if end["text"]
                    .as_str()
                    .is_some_and(|text| text.contains(WITHOUT_GETTING_ON)) =>
            {
                found.given_up += 1;
            }
            [end] => found
                .wrong
                .push(format!("turn {number} ended as {}", end["text"])),
            ends => found.wrong.push(format!("turn {number} has {} ends", ends.len())),
        }
    }
    let prompts = blocks.iter().filter(|block| block["type"] == "user.prompt");
    let strangers = prompts.filter(|block| turns.iter().all(|(turn, _)| block["turn_id"] != **turn));
    // Whoever posted it gave up before it was told.
    for stranger in strangers {
        found.wrong.push(format!(
            "{conversation}: nobody was told of {}",
            stranger["turn_id"]
        ));
    }
}

/// A call with a result took effect once; one that was interrupted at most once, and not after somebody else had said so.
fn check_effects(blocks: &[Value], effects: &BTreeMap<String, Vec<u128>>, found: &mut Found) {
    let calls = blocks.iter().filter(|block| block["type"] == "react.tool.call");
    for call in calls {
        let Some(name) = effect_of(call) else {
            continue;
        };
        let results = blocks
            .iter()
            .filter(|block| block["type"] == "react.tool.result" && block["call_id"] == call["call_id"]);
        let happened = effects.get(name).map_or(&[][..], Vec::as_slice);
        let results: Vec<&Value> = results.collect();
        let [result] = results[..] else {
            found
                .wrong
                .push(format!("call {name} has {} results", results.len()));
            continue;
        };
        let said = result["text"].as_str().unwrap_or_default();
        let is_ok = said.contains(&format!("did {name}"));
        let is_interrupted =
            said.contains(r#""error_kind":"interrupted""#) || said.contains(r#""error_kind": "interrupted""#);
        match (is_ok, is_interrupted) {
            (true, false) => {}
            (false, true) => found.interrupted += 1,
            _ => found.wrong.push(format!("call {name} ended otherwise: {said}")),
        }
        match (is_ok, happened.len()) {
            (true, 1) | (false, 0) => {}
            (false, 1) => {
                let given_up = nanos(result["ts"].as_str().unwrap_or_default());
                if happened[0] > given_up {
                    let late = Duration::from_nanos((happened[0] - given_up) as u64);
                    found
                        .wrong
                        .push(format!("call {name} began {late:?} after it had been given up"));
                }
            }
            (_, count) => found
                .wrong
                .push(format!("call {name} took effect {count} times: {said}")),
        }
    }
}

/// Where artifacts are.
enum Kept {
    Folder(PathBuf),
    Bucket(ArtifactStore),
}

impl Kept {
    fn of(cluster: &Cluster) -> Self {
        match cluster.artifacts() {
            url if url.starts_with("s3:") => {
                let bucket = Bucket::with_keys(url, S3_KEY_ID, S3_SECRET).expect("the URL of a bucket");
                Kept::Bucket(bucket.open(None).expect("a bucket that was used"))
            }
            _ => Kept::Folder(cluster.folder.path().join("artifacts")),
        }
    }

    async fn read(&self, digest: &str) -> Result<Vec<u8>, String> {
        match self {
            Kept::Folder(folder) => {
                let place = folder.join("sha256").join(&digest[..2]).join(&digest[2..]);
                std::fs::read(place).map_err(|error| error.to_string())
            }
            Kept::Bucket(store) => {
                let digest: BlobDigest = format!("sha256:{digest}").parse().expect("a digest");
                let bytes = store.get(&digest).await.map_err(|error| error.to_string())?;
                Ok(bytes.to_vec())
            }
        }
    }
}

/// Every file that a block names is there, and is what its name says.
async fn check_artifacts(kept: &Kept, blocks: &[Value], found: &mut Found) {
    for block in blocks {
        let digests = [
            &block["blob"]["digest"],
            &block["meta"]["content_digest"],
            &block["meta"]["file"]["content_digest"],
        ];
        for digest in digests.into_iter().filter_map(Value::as_str) {
            let digest = digest.rsplit(':').next().unwrap_or_default();
            found.files += 1;
            match kept.read(digest).await {
                Ok(bytes) if hex(&Sha256::digest(&bytes)) == digest => {}
                Ok(_) => found.wrong.push(format!("artifact {digest} is something else")),
                Err(error) => found
                    .wrong
                    .push(format!("artifact {digest} is not there: {error}")),
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// When each call took effect, by the machine's clock.
pub(crate) fn read_ledger(cluster: &Cluster) -> BTreeMap<String, Vec<u128>> {
    let text = std::fs::read_to_string(cluster.folder.path().join("ledger")).unwrap_or_default();
    let mut effects: BTreeMap<String, Vec<u128>> = BTreeMap::new();
    for (call, at) in text.lines().filter_map(|line| line.split_once(' ')) {
        let at = at.trim().parse().expect("nanoseconds");
        effects.entry(call.to_owned()).or_default().push(at);
    }
    effects
}

/// Nanoseconds since 1970 of an RFC 3339 time in UTC.
fn nanos(time: &str) -> u128 {
    let time = annals::core::time::Timestamp::parse(time).expect("a block's time");
    u128::from(time.unix_micros().unsigned_abs()) * 1_000
}

/// Every check is shown what it is for, and has to say so.
mod tests {
    use serde_json::json;

    use super::*;

    const GIVEN_UP: &str = "2026-01-01T00:00:10Z";

    /// Two turns as they should be: a call that took effect, and one that was interrupted.
    fn timeline() -> Vec<Value> {
        let block = |seq: u64, kind: &str, turn: &str, text: &str| json!({"seq": seq, "type": kind, "turn_id": turn, "text": text, "ts": GIVEN_UP, "call_id": format!("of {turn}")});
        let turn = |first: u64, turn: &str, result: &str| {
            let call = format!("echo {turn}-0 $(date)");
            [
                block(first, "user.prompt", turn, "go"),
                block(first + 1, "react.tool.call", turn, &call),
                block(first + 2, "react.tool.result", turn, result),
                block(first + 3, "react.completion", turn, r#"{"outcome": "complete"}"#),
            ]
        };
        [
            turn(1, "a", "did a-0"),
            turn(5, "b", r#"{"ok":false,"error_kind":"interrupted","message":"…"}"#),
        ]
        .concat()
    }

    fn shown(blocks: &[Value]) -> BTreeMap<(String, u64), String> {
        let shown = (1..)
            .zip(blocks)
            .map(|(seq, block)| (("c".to_owned(), seq), block.to_string()));
        shown.collect()
    }

    /// Effects by call, each with the number of seconds before or after the calls were given up.
    fn effects(of: &[(&str, &[i64])]) -> BTreeMap<String, Vec<u128>> {
        let at = |seconds: &i64| nanos(GIVEN_UP).strict_add_signed(i128::from(*seconds) * 1_000_000_000);
        let of = of
            .iter()
            .map(|(call, times)| ((*call).to_owned(), times.iter().map(at).collect()));
        of.collect()
    }

    const AS_THEY_SHOULD_BE: &[(&str, &[i64])] = &[("a-0", &[-1]), ("b-0", &[-1])];

    fn of_turns(blocks: &[Value], turns: &[(&str, u64)]) -> Vec<String> {
        let turns: Vec<(String, u64)> = turns
            .iter()
            .map(|(turn, number)| ((*turn).to_owned(), *number))
            .collect();
        let turns: Vec<(&String, u64)> = turns.iter().map(|(turn, number)| (turn, *number)).collect();
        let mut found = Found::default();
        check_turns("c", blocks, &turns, &mut found);
        found.wrong
    }

    fn of_effects(blocks: &[Value], of: &[(&str, &[i64])]) -> Vec<String> {
        let mut found = Found::default();
        check_effects(blocks, &effects(of), &mut found);
        found.wrong
    }

    fn of_shown(blocks: &[Value], shown: &BTreeMap<(String, u64), String>) -> Vec<String> {
        let mut found = Found::default();
        check_shown("c", blocks, shown, &mut found);
        found.wrong
    }

    #[track_caller]
    fn says(wrong: &[String], what: &str) {
        assert!(
            wrong.iter().any(|wrong| wrong.contains(what)),
            "{what}: {wrong:?}"
        );
    }

    #[test]
    fn a_timeline_as_it_should_be_is_not_found_wrong() {
        let blocks = timeline();
        assert_eq!(of_shown(&blocks, &shown(&blocks)), Vec::<String>::new());
        assert_eq!(of_turns(&blocks, &[("a", 1), ("b", 2)]), Vec::<String>::new());
        assert_eq!(of_effects(&blocks, AS_THEY_SHOULD_BE), Vec::<String>::new());
    }

    #[test]
    fn blocks_that_differ_from_what_was_shown_are_noticed() {
        let blocks = timeline();
        let mut gap = blocks.clone();
        gap.remove(3);
        says(&of_shown(&gap, &shown(&blocks)), "is numbered");
        let mut other = shown(&blocks);
        other.insert(("c".to_owned(), 2), blocks[0].to_string());
        says(&of_shown(&blocks, &other), "was shown as");
        says(&of_shown(&blocks[..7], &shown(&blocks)), "was shown and is gone");
        says(&of_shown(&blocks, &shown(&blocks[..7])), "was shown to nobody");
    }

    #[test]
    fn prompts_and_turns_that_are_lost_doubled_or_unfinished_are_noticed() {
        let (blocks, all) = (timeline(), [("a", 1), ("b", 2)]);
        says(&of_turns(&blocks[1..], &all), "prompt 1 is there 0 times");
        says(
            &of_turns(&[&blocks[..], &blocks[..1]].concat(), &all),
            "prompt 1 is there 2 times",
        );
        says(&of_turns(&blocks[..7], &all), "turn 2 has 0 ends");
        says(
            &of_turns(&[&blocks[..], &blocks[7..]].concat(), &all),
            "turn 2 has 2 ends",
        );
        says(&of_turns(&blocks, &all[..1]), "nobody was told of");
        let mut failed = blocks.clone();
        failed[7]["text"] = json!(r#"{"outcome": "failed"}"#);
        says(&of_turns(&failed, &all), "turn 2 ended as");
        failed[7]["text"] = json!(format!(
            "the process that ran this turn ended {WITHOUT_GETTING_ON}"
        ));
        assert_eq!(of_turns(&failed, &all), Vec::<String>::new());
    }

    #[test]
    fn effects_that_are_missing_doubled_or_late_are_noticed() {
        let blocks = timeline();
        says(
            &of_effects(&blocks, &[("b-0", &[-1])]),
            "call a-0 took effect 0 times",
        );
        says(
            &of_effects(&blocks, &[("a-0", &[-1, -1])]),
            "call a-0 took effect 2 times",
        );
        says(
            &of_effects(&blocks, &[("a-0", &[-1]), ("b-0", &[-2, -1])]),
            "call b-0 took effect 2 times",
        );
        says(
            &of_effects(&blocks, &[("a-0", &[-1]), ("b-0", &[1])]),
            "call b-0 began 1s after",
        );
        says(
            &of_effects(&blocks[..6], AS_THEY_SHOULD_BE),
            "call b-0 has 0 results",
        );
        let mut failed = blocks.clone();
        failed[6]["text"] = json!(r#"{"ok":false,"error_kind":"timeout","message":"…"}"#);
        says(
            &of_effects(&failed, AS_THEY_SHOULD_BE),
            "call b-0 ended otherwise",
        );
        let twice = [&blocks[..], &blocks[2..3]].concat();
        says(&of_effects(&twice, AS_THEY_SHOULD_BE), "call a-0 has 2 results");
    }

    #[tokio::test]
    async fn files_that_are_gone_or_changed_are_noticed() {
        let (folder, digest) = (tempfile::tempdir().unwrap(), hex(&Sha256::digest(b"words")));
        let blocks = [json!({"blob": {"digest": format!("sha256:{digest}")}})];
        let place = folder.path().join("sha256").join(&digest[..2]);
        std::fs::create_dir_all(&place).unwrap();
        let kept = Kept::Folder(folder.path().to_owned());
        let wrong = async || {
            let mut found = Found::default();
            check_artifacts(&kept, &blocks, &mut found).await;
            found.wrong
        };
        says(&wrong().await, "is not there");
        std::fs::write(place.join(&digest[2..]), "words").unwrap();
        assert_eq!(wrong().await, Vec::<String>::new());
        std::fs::write(place.join(&digest[2..]), "other").unwrap();
        says(&wrong().await, "is something else");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_waits_for_ever_or_is_held_by_the_dead_is_noticed() {
        let Some(cluster) = Cluster::start(0, Duration::from_millis(50), None).await else {
            return;
        };
        let mut found = Found::default();
        settle(&cluster, Duration::ZERO, &mut found).await;
        assert_eq!(found.wrong, Vec::<String>::new());
        let left = "INSERT INTO annals.inbox (conversation, id, client_key, kind, body, digest, posted, sum)
                VALUES (1, 1, '', '', '', '', 0, 0);
            INSERT INTO annals.member (node, epoch, ttl, until, schema) VALUES ('n', 2, 0, 0, 1);
            INSERT INTO annals.head (conversation, scope_key, tail, due, node, epoch, until)
                VALUES (1, 1, 0, 9e17, 'n', 1, 9e17)";
        cluster.execute(left).await;
        settle(&cluster, Duration::ZERO, &mut found).await;
        says(&found.wrong, "1 posts wait");
        says(&found.wrong, "1 turns wait");
        says(&found.wrong, "1 conversations are held");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn commands_that_begin_too_late_and_artifacts_that_are_given_up_are_noticed() {
        let Some(cluster) = Cluster::start(0, Duration::from_millis(50), None).await else {
            return;
        };
        let noted = "INSERT INTO annals.scope (key, text) OVERRIDING SYSTEM VALUE VALUES (1, 'u:t/p');
            INSERT INTO annals.conversation (key, id, scope_key, title, created, cut, sum) OVERRIDING SYSTEM VALUE
                VALUES (1, 'c', 1, '', 0, 0, 0);
            INSERT INTO public.grown (conversation, tail, token, holder, epoch, by) VALUES (1, 4, 1, 'n1', 2, 'n1');
            INSERT INTO public.lived (node, epoch, until, at) VALUES ('n1', 2, 9000000, 1), ('n1', 3, 99000000, 8000000)";
        cluster.execute(noted).await;
        let mut found = Found::default();
        let margin = Duration::from_secs(1);
        check_starts(&cluster, &[("c".to_owned(), 3, 8_999_999)], margin, &mut found).await;
        check_doomed(&cluster, &mut found).await;
        assert_eq!(found.wrong, Vec::<String>::new());
        check_starts(&cluster, &[("c".to_owned(), 3, 10_100_000)], margin, &mut found).await;
        says(&found.wrong, "1 commands began after");
        let doomed = "INSERT INTO annals.artifact (digest, size, touched, removing) VALUES ('x', 1, 0, 1);
            INSERT INTO annals.named (digest, conversation) VALUES ('x', 1)";
        cluster.execute(doomed).await;
        check_doomed(&cluster, &mut found).await;
        says(&found.wrong, "1 artifacts are named and given up");
    }
}
