//! Subscribers that come, go and come back at any moment, while turns run and owners change: each reads every block
//! once, in order, and a text that is being produced is never read wrongly.

mod common;

use std::sync::Arc;
use std::time::Duration;

use annals_runtime::{Agent, Update};
use common::{Running, options, script, seqs};
use futures::future::join_all;
use serde_json::{Value, json};

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

const TURNS: usize = 3;
const WORDS: &str = "one two three four five six seven eight nine ten";

fn steps() -> Value {
    let turn = |n: usize| {
        vec![
            json!({"text": format!("Noting {n}: {WORDS}"), "chunk_ms": 0, "tool_calls": [{"tool": "react.write", "params": {
                "path": format!("f{n}.md"), "channel": "canvas", "content": WORDS, "kind": "file"}}]}),
            json!({"text": format!("Answer {n}: {WORDS}"), "chunk_ms": 0}),
        ]
    };
    Value::Array((0..TURNS).flat_map(turn).collect())
}

/// One subscriber of a runtime: reads a few updates, leaves, comes back after the last block it has, until the end.
async fn follow(agent: Agent, id: annals_core::ids::ConversationId, mut dice: Dice, ends: usize) -> Vec<u64> {
    let (mut seen, mut ended, mut last) = (Vec::new(), 0, None);
    while ended < ends {
        let mut subscription = agent.subscribe(&id, last).await.unwrap();
        let mut texts: std::collections::HashMap<(String, u32, String), String> = Default::default();
        let stays = 1 + dice.roll(40);
        for _ in 0..stays {
            match subscription.next().await.unwrap() {
                Update::Block(block) => {
                    seen.push(block.seq.get());
                    last = Some(block.seq);
                    if block.kind == annals_core::block::BlockKind::ReactCompletion {
                        ended += 1;
                        if ended == ends {
                            return seen;
                        }
                    }
                }
                Update::Delta(delta) => {
                    let place = (
                        delta.turn.to_string(),
                        delta.step,
                        format!("{:?}{:?}", delta.channel, delta.path),
                    );
                    let text = texts.entry(place).or_default();
                    if delta.from == 0 {
                        text.clear();
                    }
                    assert_eq!(text.len(), delta.from, "a piece is where it says");
                    text.push_str(&delta.text);
                    assert!(
                        WORDS.starts_with(text.as_str())
                            || text.starts_with("Noting")
                            || text.starts_with("Answer"),
                        "never a text from its middle: {text}"
                    );
                }
                _ => {}
            }
            if dice.roll(4) == 0 {
                tokio::task::yield_now().await;
            }
        }
    }
    seen
}

/// A thousand schedules: each with its own seed, subscribers and moments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_thousand_schedules_nobody_misses_or_repeats_a_block() {
    const SCHEDULES: u64 = 1_000;
    for seed in 0..SCHEDULES {
        let builder = Agent::builder()
            .model(script(steps()))
            .tools(annals_tools::react::all());
        let agent = builder.in_memory().build().await.unwrap();
        let session = agent.new_session(None).await.unwrap();
        let id = session.id().clone();
        let mut dice = Dice(seed);
        let followers: Vec<_> = (0..1 + dice.roll(4))
            .map(|n| tokio::spawn(follow(agent.clone(), id.clone(), Dice(seed * 31 + n), TURNS)))
            .collect();
        for n in 0..TURNS {
            agent.run_in(&session, format!("Go {n}")).await.unwrap();
            if dice.roll(3) == 0 {
                tokio::task::yield_now().await;
            }
        }
        let tail = session.timeline(|timeline| timeline.tail().unwrap().get());
        for follower in followers {
            let waited = tokio::time::timeout(Duration::from_secs(30), follower).await;
            let seen = waited
                .unwrap_or_else(|_| panic!("seed {seed}: a subscriber waits for ever"))
                .unwrap();
            assert_eq!(seen, (1..=tail).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}

/// The same over HTTP, with connections that break and a server that is replaced in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_a_subscriber_goes_on_after_its_last_block_also_on_another_server() {
    let home = tempfile::tempdir().unwrap();
    let agent = async || {
        let builder = Agent::builder()
            .model(script(steps()))
            .tools(annals_tools::react::all());
        builder.home(home.path()).build().await.unwrap()
    };
    let first = Running::serve(agent().await, options(), None).await;
    let c = first.new_conversation().await;
    let follow = async |server: &Running, last: Option<u64>, dice: &mut Dice, ends: u64| {
        let (mut seen, mut last, mut ended) = (Vec::new(), last, 0);
        while ended < ends {
            let mut events = server.events(&c, last).await;
            let stays = 1 + dice.roll(12);
            let mut taken = Vec::new();
            for _ in 0..stays {
                let Some(event) = events.next().await else { break };
                let is_end = event.name == "block" && event.data["type"] == "react.completion";
                taken.push(event);
                if is_end {
                    ended += 1;
                    break;
                }
            }
            seen.extend(seqs(&taken));
            last = seen.last().copied().or(last);
        }
        seen
    };
    let first = Arc::new(first);
    let followers = (0..8).map(|n| {
        let (first, follow) = (first.clone(), &follow);
        async move { follow(&first, None, &mut Dice(n), 1).await }
    });
    let (all, _) = tokio::join!(join_all(followers), first.prompt(&c, "Go"));
    let tail = all[0].last().copied();
    for seen in &all {
        assert_eq!(*seen, (1..=tail.unwrap()).collect::<Vec<_>>());
    }
    first.stop.cancel();
    let second = Running::serve(agent().await, options(), None).await;
    let mut dice = Dice(99);
    let (seen, _) = tokio::join!(follow(&second, tail, &mut dice, 1), second.prompt(&c, "Go on"));
    let end = *seen.last().unwrap();
    assert_eq!(
        seen,
        (tail.unwrap() + 1..=end).collect::<Vec<_>>(),
        "it goes on where the first server ended"
    );
}
