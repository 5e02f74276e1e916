//! Statements and requests that lack one of their conditions, each in a scene that needs it: the checks must notice.
//!
//! Each scene is also played as it should be, and nothing is found then. `cargo xtask node-loss --mutants` plays all of them.

use std::time::{Duration, Instant};

use annals_opensandbox_double::{Double, DoubleOptions};
use annals_testbed::{FaultProxy, Upstream};
use serde_json::json;

use super::chance::Chance;
use super::checks::{self, Found};
use super::client::Client;
use super::nodes::{Beside, Cluster, Mutant, PATIENCE};

const LEASE: Duration = Duration::from_secs(2);

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "not so: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Posts a prompt to the first node, which becomes the owner.
async fn prompt_first(client: &Client, conversation: &str, plan: &str) -> String {
    let path = format!("/v1/conversations/{conversation}/turns");
    let body = json!({"prompt": plan});
    let (status, started) = client.send(0, &path, Some(&body), "go-1").await.unwrap();
    assert_eq!(status, 202, "{started}");
    started["turn_id"].as_str().unwrap().to_owned()
}

async fn is_held_by(cluster: &Cluster, node: &str) -> bool {
    let held = format!(
        "SELECT count(*) FROM annals.head h JOIN annals.conversation c ON c.key = h.conversation
         WHERE h.node = '{node}' AND h.tail > 0 AND h.due IS NOT NULL"
    );
    cluster.count(&held).await > 0
}

fn was_rewritten(cluster: &Cluster, mutant: Option<Mutant>) {
    let rewritten: u64 = cluster.nodes.iter().map(|node| node.proxy.rewritten()).sum();
    assert_eq!(
        rewritten > 0,
        mutant.is_some(),
        "the statement is not written like this any more"
    );
}

/// An append is held up in the network until another node has the conversation and has not written yet.
async fn append_that_comes_late(mutant: Option<Mutant>) -> Option<Vec<String>> {
    let cluster = Cluster::start(2, LEASE, mutant).await?;
    let (client, mut chance) = (Client::of(&cluster), Chance::new(1, 1));
    let conversation = client.new_conversation(&mut chance).await.unwrap();
    let network = &cluster.nodes[0].proxy;
    network.hold("react.tool.call");
    // The model takes three of these paces for a call, so the other node does not write at once.
    prompt_first(&client, &conversation, "[[plan 1 effect pace=400]]").await;
    until("the first node appends its call", async || network.held() > 0).await;
    network.black_hole(true);
    until("the other node has it", async || is_held_by(&cluster, "n2").await).await;
    network.let_go();
    network.black_hole(false);
    until("the late append has been judged", async || {
        network.held_and_answered() > 0
    })
    .await;
    // Either the late append has taken effect, or the other node comes to the end of the turn.
    let known = "SELECT (SELECT count(*) FROM public.grown WHERE by IS DISTINCT FROM holder)
        + (SELECT count(*) FROM annals.block WHERE kind = 'react.completion')";
    until("it is known whose the conversation was", async || {
        cluster.count(known).await > 0
    })
    .await;
    was_rewritten(&cluster, mutant);
    let mut found = Found::default();
    checks::check_growth(&cluster, &mut found).await;
    Some(found.wrong)
}

const WITHOUT_TOKEN: Mutant = ("h.token = o.token AND", "");

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_does_not_look_at_its_token_is_noticed() {
    let Some(wrong) = append_that_comes_late(Some(WITHOUT_TOKEN)).await else {
        return;
    };
    assert_ne!(wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_comes_late_is_refused_by_its_token() {
    let Some(wrong) = append_that_comes_late(None).await else {
        return;
    };
    assert_eq!(wrong, Vec::<String>::new());
}

/// Every other answer to an append is lost, and nothing else happens.
async fn answers_that_are_lost(mutant: Option<Mutant>) -> Option<Vec<String>> {
    let cluster = Cluster::start(2, Duration::from_secs(10), mutant).await?;
    let (client, mut chance) = (Client::of(&cluster), Chance::new(1, 1));
    for node in &cluster.nodes {
        node.proxy.swallow("react.", 2);
    }
    for number in 1..=4 {
        let conversation = client.new_conversation(&mut chance).await?;
        let mut follower = client.follow(&conversation, Chance::new(2, number));
        let turn = client
            .prompt(&mut chance, &conversation, number, "effect effect")
            .await?;
        // What is sure to be found wrong need not be waited for.
        let patience = if mutant.is_some() { LEASE * 4 } else { PATIENCE };
        let ended = tokio::time::timeout(patience, follower.saw_end_of(&turn)).await;
        if ended != Ok(true) {
            was_rewritten(&cluster, mutant);
            return Some(vec![format!("turn {number} does not end")]);
        }
    }
    let swallowed: u64 = cluster.nodes.iter().map(|node| node.proxy.swallowed()).sum();
    assert!(swallowed > 4, "{swallowed} answers were lost");
    for node in &cluster.nodes {
        node.proxy.swallow_nothing();
    }
    was_rewritten(&cluster, mutant);
    let mut found = checks::after_healing(&cluster, &client, Duration::ZERO).await;
    if found.interrupted > 0 {
        let given_up = format!("{} calls were given up although no node died", found.interrupted);
        found.wrong.push(given_up);
    }
    Some(found.wrong)
}

const WITHOUT_BATCH: Mutant = ("o.grows, batch = o.batch,", "o.grows, batch = h.batch,");

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_leaves_no_batch_id_is_noticed() {
    let Some(wrong) = answers_that_are_lost(Some(WITHOUT_BATCH)).await else {
        return;
    };
    assert_ne!(wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_whose_answer_is_lost_is_known_by_its_batch_id() {
    let Some(wrong) = answers_that_are_lost(None).await else {
        return;
    };
    assert_eq!(wrong, Vec::<String>::new());
}

/// The append that takes a prompt in is held up in the network while its node stands still. It comes once another node has the
/// conversation and wants to take the same prompt in.
async fn prompt_that_is_taken_in_late(mutant: Option<Mutant>) -> Option<Vec<String>> {
    let cluster = Cluster::start(2, LEASE, mutant).await?;
    let (client, mut chance) = (Client::of(&cluster), Chance::new(1, 1));
    let conversation = client.new_conversation(&mut chance).await.unwrap();
    let mut follower = client.follow(&conversation, Chance::new(2, 1));
    let [first, second] = &cluster.nodes[..] else {
        unreachable!("two nodes")
    };
    for node in [first, second] {
        node.proxy.hold("user.prompt");
    }
    let turn = prompt_first(&client, &conversation, "[[plan 1 effect]]").await;
    let known = (conversation.clone(), 1);
    client.record.parts().acknowledged.insert(turn.clone(), known);
    until("the first takes it in", async || first.proxy.held() > 0).await;
    first.signal(libc::SIGSTOP).await;
    until("the second takes it in", async || second.proxy.held() > 0).await;
    first.proxy.let_go();
    until("the late append has been judged", async || {
        first.proxy.held_and_answered() > 0
    })
    .await;
    second.proxy.let_go();
    first.signal(libc::SIGCONT).await;
    was_rewritten(&cluster, mutant);
    // What is sure to be found wrong need not be waited for.
    let patience = if mutant.is_some() { LEASE * 4 } else { PATIENCE };
    match tokio::time::timeout(patience, follower.saw_end_of(&turn)).await {
        Ok(true) => Some(
            checks::after_healing(&cluster, &client, checks::SLACK)
                .await
                .wrong,
        ),
        _ => Some(vec![
            "the prompt was acknowledged and its turn does not end".to_owned(),
        ]),
    }
}

const WITHOUT_ITS_HEAD: Mutant = (
    "JOIN moved m ON m.conversation = k.conversation WHERE",
    "LEFT JOIN moved m ON true WHERE",
);

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_consumes_posts_although_it_is_refused_is_noticed() {
    let Some(wrong) = prompt_that_is_taken_in_late(Some(WITHOUT_ITS_HEAD)).await else {
        return;
    };
    assert_ne!(wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_is_refused_consumes_nothing() {
    let Some(wrong) = prompt_that_is_taken_in_late(None).await else {
        return;
    };
    assert_eq!(wrong, Vec::<String>::new());
}

/// Commands one after the other, over many times that a node is asked whether it still is one.
async fn commands_for_some_time(mutant: Option<Mutant>) -> Option<Vec<String>> {
    let cluster = Cluster::start(2, Duration::from_secs(9), mutant).await?;
    let (client, mut chance) = (Client::of(&cluster), Chance::new(1, 1));
    let conversation = client.new_conversation(&mut chance).await.unwrap();
    let mut follower = client.follow(&conversation, Chance::new(2, 1));
    let (turns, plan) = (if mutant.is_some() { 20 } else { 3 }, "effect ".repeat(12));
    let mut found = Found::default();
    for number in 1..=turns {
        let turn = client.prompt(&mut chance, &conversation, number, &plan).await?;
        assert!(follower.saw_end_of(&turn).await, "{}", cluster.nodes[0].said());
        let blocks = client.blocks(0, &conversation).await;
        let begun = checks::starts(&conversation, &blocks, &checks::read_ledger(&cluster));
        assert!(!begun.is_empty(), "no command began");
        checks::check_starts(&cluster, &begun, Duration::ZERO, &mut found).await;
        if !found.wrong.is_empty() {
            break;
        }
    }
    was_rewritten(&cluster, mutant);
    Some(found.wrong)
}

/// A node counts as gone a ninth of the time that it believes to have.
const WITHOUT_ITS_TIME: Mutant = (" + $4, $5)", " +$4/9,$5)");

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_acts_after_its_time_is_noticed() {
    let Some(wrong) = commands_for_some_time(Some(WITHOUT_ITS_TIME)).await else {
        return;
    };
    assert_ne!(wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_acts_within_its_time() {
    let Some(wrong) = commands_for_some_time(None).await else {
        return;
    };
    assert_eq!(wrong, Vec::<String>::new());
}

/// An owner stands still while its command runs in a sandbox, and another goes on.
async fn sandbox_of_an_owner_that_stands_still(mutant: Option<Mutant>) -> Option<Vec<String>> {
    let double = Double::start(DoubleOptions::default()).await.unwrap();
    let port = double.url().rsplit(':').next().unwrap().parse().unwrap();
    let proxy = FaultProxy::start(Upstream::Port(port)).await;
    if let Some((from, to)) = mutant {
        proxy.rewrite(from, to);
    }
    let beside = Beside {
        sandboxes: Some(proxy.port()),
        ..Beside::default()
    };
    let cluster = Cluster::start_with(2, LEASE, None, beside).await?;
    let (client, mut chance) = (Client::of(&cluster), Chance::new(1, 1));
    let conversation = client.new_conversation(&mut chance).await.unwrap();
    prompt_first(&client, &conversation, "[[plan 1 effect=60 effect=60]]").await;
    until("the command has a sandbox", async || double.live().len() == 1).await;
    cluster.nodes[0].signal(libc::SIGSTOP).await;
    until("the next command has another", async || double.created() == 2).await;
    assert_eq!(
        proxy.rewritten() > 0,
        mutant.is_some(),
        "the request is not written like this any more"
    );
    let wrong = checks::of_sandboxes(&double);
    cluster.nodes[0].signal(libc::SIGCONT).await;
    Some(wrong)
}

const WITHOUT_LOOKING: Mutant = ("annals-conversation%3D", "annals-xonversation%3D");

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_leaves_the_sandbox_of_an_earlier_one_is_noticed() {
    let Some(wrong) = sandbox_of_an_owner_that_stands_still(Some(WITHOUT_LOOKING)).await else {
        return;
    };
    assert_ne!(wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_of_an_earlier_owner_is_gone_before_the_next_one_is_used() {
    let Some(wrong) = sandbox_of_an_owner_that_stands_still(None).await else {
        return;
    };
    assert_eq!(wrong, Vec::<String>::new());
}
