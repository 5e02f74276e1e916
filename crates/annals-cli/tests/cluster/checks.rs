//! What must hold once all faults are over, whatever happened before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::client::Client;
use super::nodes::Cluster;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) wrong: Vec<String>,
    pub(crate) conversations: usize,
    pub(crate) blocks: usize,
    pub(crate) completed: usize,
    /// Calls whose process died or lost its lease.
    pub(crate) interrupted: usize,
    pub(crate) effects: usize,
    pub(crate) files: usize,
    /// How long the last turns took to end after all faults were over.
    pub(crate) healed_in: Duration,
}

/// One effect: which call, and when by the machine's clock.
struct Effect {
    call: String,
    at_nanos: u128,
}

/// What a busy machine may add to three leases.
pub(crate) const SLACK: Duration = Duration::from_secs(20);

/// Looks at everything.
pub(crate) async fn after_healing(cluster: &Cluster, client: &Client, slack: Duration) -> Found {
    let mut found = Found::default();
    let began = Instant::now();
    settle(cluster, slack, &mut found).await;
    found.healed_in = began.elapsed();
    let (acknowledged, shown) = {
        let mut parts = client.record.parts();
        found.wrong.append(&mut parts.wrong);
        (parts.acknowledged.clone(), parts.shown.clone())
    };
    let effects = read_ledger(cluster);
    found.effects = effects.len();
    let conversations: BTreeSet<&String> = acknowledged
        .values()
        .map(|(conversation, _)| conversation)
        .collect();
    found.conversations = conversations.len();
    for conversation in conversations {
        let blocks = client.blocks(0, conversation).await;
        found.blocks += blocks.len();
        for node in 1..cluster.nodes.len() {
            if client.blocks(node, conversation).await != blocks {
                found
                    .wrong
                    .push(format!("nodes 0 and {node} tell {conversation} differently"));
            }
        }
        check_shown(conversation, &blocks, &shown, &mut found);
        check_turns(conversation, &blocks, &acknowledged, &mut found);
        check_effects(&blocks, &effects, &mut found);
        check_artifacts(cluster, &blocks, &mut found);
    }
    found
}

/// Every turn ends and nothing waits, soon after the last fault.
async fn settle(cluster: &Cluster, slack: Duration, found: &mut Found) {
    let deadline = Instant::now() + cluster.lease * 3 + slack;
    let open = "SELECT count(*) FROM annals.inbox WHERE body IS NOT NULL";
    let due = "SELECT count(*) FROM annals.head WHERE due IS NOT NULL";
    for (what, statement) in [
        ("posts wait that nobody takes in", open),
        ("turns wait that nobody goes on with", due),
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

/// Every acknowledged prompt is there once, and its turn has ended well.
fn check_turns(
    conversation: &str,
    blocks: &[Value],
    acknowledged: &BTreeMap<String, (String, u64)>,
    found: &mut Found,
) {
    let of_turn = |kind: &str, turn: &str| {
        let is_so = |block: &&Value| block["type"] == kind && block["turn_id"] == turn;
        blocks.iter().filter(is_so).collect::<Vec<_>>()
    };
    let own = acknowledged.iter().filter(|(_, (of, _))| of == conversation);
    for (turn, (_, number)) in own {
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
            [end] => found
                .wrong
                .push(format!("turn {number} ended as {}", end["text"])),
            ends => found.wrong.push(format!("turn {number} has {} ends", ends.len())),
        }
    }
    let prompts = blocks.iter().filter(|block| block["type"] == "user.prompt");
    let strangers =
        prompts.filter(|block| !acknowledged.contains_key(block["turn_id"].as_str().unwrap_or_default()));
    // Whoever posted it gave up before it was told.
    for stranger in strangers {
        found.wrong.push(format!(
            "{conversation}: nobody was told of {}",
            stranger["turn_id"]
        ));
    }
}

/// A call with a result took effect once; one that was interrupted at most once, and not after somebody else had said so.
fn check_effects(blocks: &[Value], effects: &[Effect], found: &mut Found) {
    let calls = blocks.iter().filter(|block| block["type"] == "react.tool.call");
    for call in calls {
        let text = call["text"].as_str().unwrap_or_default();
        let Some(name) = text.split("echo ").nth(1).and_then(|rest| rest.split(' ').next()) else {
            continue;
        };
        let results = blocks
            .iter()
            .filter(|block| block["type"] == "react.tool.result" && block["call_id"] == call["call_id"]);
        let happened: Vec<&Effect> = effects.iter().filter(|effect| effect.call == name).collect();
        let results: Vec<&Value> = results.collect();
        let [result] = results[..] else {
            found
                .wrong
                .push(format!("call {name} has {} results", results.len()));
            continue;
        };
        let said = result["text"].as_str().unwrap_or_default();
        let is_ok = said.contains(&format!("did {name}"));
        if !is_ok {
            found.interrupted += 1;
        }
        match (is_ok, happened.len()) {
            (true, 1) | (false, 0) => {}
            (false, 1) => {
                let given_up = nanos(result["ts"].as_str().unwrap_or_default());
                if happened[0].at_nanos > given_up {
                    let late = Duration::from_nanos((happened[0].at_nanos - given_up) as u64);
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

/// Every file that a block names is there, and is what its name says.
fn check_artifacts(cluster: &Cluster, blocks: &[Value], found: &mut Found) {
    for block in blocks {
        let digests = [
            &block["blob"]["digest"],
            &block["meta"]["content_digest"],
            &block["meta"]["file"]["content_digest"],
        ];
        for digest in digests.into_iter().filter_map(Value::as_str) {
            let digest = digest.rsplit(':').next().unwrap_or_default();
            let place = cluster.folder.path().join("artifacts/sha256");
            found.files += 1;
            match std::fs::read(place.join(&digest[..2]).join(&digest[2..])) {
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

fn read_ledger(cluster: &Cluster) -> Vec<Effect> {
    let text = std::fs::read_to_string(cluster.folder.path().join("ledger")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let effects = lines.map(|(call, at)| Effect {
        call: call.to_owned(),
        at_nanos: at.trim().parse().expect("nanoseconds"),
    });
    effects.collect()
}

/// Nanoseconds since 1970 of an RFC 3339 time in UTC.
fn nanos(time: &str) -> u128 {
    let time = annals::core::time::Timestamp::parse(time).expect("a block's time");
    u128::from(time.unix_micros().unsigned_abs()) * 1_000
}
