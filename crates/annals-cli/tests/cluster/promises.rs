//! More of what must hold once all faults are over: turns end in time, posts are taken in once, harmless calls are repeated,
//! and what was deleted is collected. And how soon blocks reach followers of other nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::checks::Found;
use super::client::{Heard, Posted};
use super::nodes::Cluster;

/// Every turn has ended, within `within` of the last fault or of its own beginning. Gives the longest time that one took.
pub(crate) fn check_ends<'t>(
    turns: impl IntoIterator<Item = (&'t String, &'t u64)>,
    times: &BTreeMap<String, (Instant, Option<Instant>)>,
    (healed, within): (Instant, Duration),
    found: &mut Found,
) -> Duration {
    let mut longest = Duration::ZERO;
    for (turn, number) in turns {
        let Some((began, Some(ended))) = times.get(turn) else {
            found
                .wrong
                .push(format!("nobody heard of the end of turn {number}"));
            continue;
        };
        let took = ended.saturating_duration_since(healed.max(*began));
        longest = longest.max(took);
        if took > within {
            let late = format!("turn {number} ended {took:.1?} after the last fault, more than {within:.1?}");
            found.wrong.push(late);
        }
    }
    longest
}

/// What was posted is on its conversation's timeline at most once, and exactly once if it was acknowledged.
pub(crate) fn check_posts(
    conversation: &str,
    blocks: &[Value],
    posts: &BTreeMap<String, Posted>,
    found: &mut Found,
) {
    let own = posts.iter().filter(|(_, post)| post.conversation == conversation);
    for (words, post) in own {
        let is_it = |block: &&Value| {
            let text = block["text"].as_str().unwrap_or_default();
            matches!(block["type"].as_str(), Some("user.prompt" | "user.steer")) && text.contains(words)
        };
        let taken_in: Vec<&Value> = blocks.iter().filter(is_it).collect();
        match (&taken_in[..], post.is_acknowledged) {
            ([one], _) if one["type"] == post.kind => found.taken_in += 1,
            ([], false) => {}
            ([], true) => found
                .wrong
                .push(format!("`{words}` was acknowledged and is not there")),
            _ => found.wrong.push(format!(
                "`{words}` was posted as {} and is there as {:?}",
                post.kind,
                taken_in.iter().map(|block| &block["type"]).collect::<Vec<_>>()
            )),
        }
    }
}

/// A call that may be repeated is: whatever died, it has its result once, and that is a good one.
pub(crate) fn check_harmless(blocks: &[Value], found: &mut Found) {
    let text_of = |block: &Value| block["text"].as_str().unwrap_or_default().to_owned();
    for call in blocks.iter().filter(|block| block["type"] == "react.tool.call") {
        let said = text_of(call);
        let Some(words) = said.find("Words of ").filter(|_| !said.contains("echo ")) else {
            continue;
        };
        let number: String = said[words + 9..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let of_call =
            |block: &&Value| block["type"] == "react.tool.result" && block["call_id"] == call["call_id"];
        let results: Vec<String> = blocks.iter().filter(of_call).map(text_of).collect();
        // What the tool says of the file, and the file.
        match &results[..] {
            [said, file] if said.contains("artifact_path") && *file == format!("Words of {number}") => {
                found.harmless += 1;
            }
            results => found
                .wrong
                .push(format!("the harmless call of turn {number} came to {results:?}")),
        }
    }
}

/// Every command has one result: for runs whose commands cannot write into the ledger.
pub(crate) fn check_results(blocks: &[Value], found: &mut Found) {
    let is_command = |block: &&Value| {
        let text = block["text"].as_str().unwrap_or_default();
        block["type"] == "react.tool.call" && text.contains("echo ")
    };
    for call in blocks.iter().filter(is_command) {
        let of_call =
            |block: &&Value| block["type"] == "react.tool.result" && block["call_id"] == call["call_id"];
        let results: Vec<&Value> = blocks.iter().filter(of_call).collect();
        match &results[..] {
            [one] => {
                let text = one["text"].as_str().unwrap_or_default();
                found.interrupted += usize::from(text.contains("interrupted"));
            }
            results => found
                .wrong
                .push(format!("call {} has {} results", call["call_id"], results.len())),
        }
    }
}

/// A turn is given up only where more than five processes took it and did not get on with it, and that is rare.
pub(crate) async fn check_given_up(cluster: &Cluster, turns: u64, found: &mut Found) {
    let tried = "SELECT count(*) FROM (SELECT conversation FROM public.taken GROUP BY conversation, tail
        HAVING count(DISTINCT token) > 5) t";
    let tried = cluster.count(tried).await.unsigned_abs();
    let given_up = found.given_up as u64;
    if given_up > tried || given_up > turns / 200 + 1 {
        let often =
            format!("{given_up} of {turns} turns were given up, {tried} were taken more than five times");
        found.wrong.push(often);
    }
}

/// What was deleted is collected in the end.
pub(crate) async fn check_garbage(cluster: &Cluster, garbage: &BTreeSet<String>, found: &mut Found) {
    collect(cluster, garbage).await;
    let left = format!(
        "SELECT count(*) FROM annals.artifact a WHERE {} AND gone IS NULL",
        is_unnamed(garbage)
    );
    let left = cluster.count(&left).await;
    if left > 0 {
        found
            .wrong
            .push(format!("{left} files that nobody names are kept"));
    }
    let gone = "SELECT count(*) FROM annals.artifact WHERE gone IS NOT NULL";
    found.collected = cluster.count(gone).await as usize;
}

/// Makes the files of deleted conversations old, and removes what nobody names. Others are left alone: what is being written
/// at this moment is as young as it is.
pub(crate) async fn collect(cluster: &Cluster, garbage: &BTreeSet<String>) {
    let age = format!(
        "UPDATE annals.artifact a SET touched = 0 WHERE {} AND gone IS NULL",
        is_unnamed(garbage)
    );
    cluster.execute(&age).await;
    cluster.operate(&["store", "gc", "--older-than", "1h"]).await;
}

fn is_unnamed(garbage: &BTreeSet<String>) -> String {
    let digests: Vec<String> = garbage.iter().map(|digest| format!("'\\x{digest}'")).collect();
    format!(
        "a.digest = ANY (ARRAY[{}]::bytea[]) AND NOT EXISTS (SELECT FROM annals.named n WHERE n.digest = a.digest)",
        digests.join(", ")
    )
}

/// How long blocks took to reach followers at other nodes than the one that wrote them: median and 95th percentile.
pub(crate) async fn delays(cluster: &Cluster, heard: &[Heard]) -> (Duration, Duration) {
    cluster.execute("TRUNCATE public.heard").await;
    for heard in heard.chunks(500) {
        let rows: Vec<String> = heard
            .iter()
            .map(|heard| {
                let (conversation, node) = (&heard.conversation, heard.node + 1);
                format!(
                    "('{conversation}', {}, 'n{node}', {})",
                    heard.seq,
                    heard.after.as_micros()
                )
            })
            .collect();
        let statement = format!("INSERT INTO public.heard VALUES {}", rows.join(", "));
        cluster.execute(&statement).await;
    }
    let share = async |share: &str| {
        let statement = format!(
            "SELECT coalesce((percentile_disc({share}) WITHIN GROUP (ORDER BY h.micros))::int8, 0) FROM public.heard h
             JOIN annals.conversation c ON c.id = h.conversation
             JOIN LATERAL (SELECT by FROM public.grown g WHERE g.conversation = c.key AND g.tail >= h.seq
                 ORDER BY g.tail LIMIT 1) g ON true
             WHERE g.by <> h.node"
        );
        Duration::from_micros(cluster.count(&statement).await.unsigned_abs())
    };
    (share("0.5").await, share("0.95").await)
}

/// Each check is shown what it is for.
mod tests {
    use serde_json::json;

    use super::*;

    fn says(found: &Found, what: &str) {
        assert!(
            found.wrong.iter().any(|wrong| wrong.contains(what)),
            "{what}: {:?}",
            found.wrong
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn turns_that_are_given_up_without_a_reason_or_too_often_are_noticed() {
        let Some(cluster) = Cluster::start(0, Duration::from_millis(50), None).await else {
            return;
        };
        let judge = async |given_up: usize| {
            let mut found = Found {
                given_up,
                ..Found::default()
            };
            check_given_up(&cluster, 100, &mut found).await;
            found
        };
        assert_eq!(judge(0).await.wrong, Vec::<String>::new());
        says(&judge(1).await, "1 of 100 turns were given up");
        let taken =
            "INSERT INTO public.taken SELECT c, 3, t FROM generate_series(1, 2) c, generate_series(1, 6) t";
        cluster.execute(taken).await;
        assert_eq!(judge(1).await.wrong, Vec::<String>::new());
        says(&judge(2).await, "2 of 100 turns were given up");
    }

    #[test]
    fn turns_that_end_late_or_never_are_noticed() {
        let healed = Instant::now();
        let second = Duration::from_secs(1);
        let (turn, number, within) = ("t".to_owned(), 7, second * 6);
        let judge = |began: Instant, ended: Option<Instant>| {
            let (mut found, times) = (Found::default(), BTreeMap::from([(turn.clone(), (began, ended))]));
            let longest = check_ends([(&turn, &number)], &times, (healed, within), &mut found);
            (found, longest)
        };
        let (found, longest) = judge(healed, Some(healed + second * 2));
        assert_eq!((found.wrong, longest), (Vec::<String>::new(), second * 2));
        // One that began after the last fault has its own time.
        let later = healed + second * 30;
        let (found, _) = judge(later, Some(later + second * 5));
        assert_eq!(found.wrong, Vec::<String>::new());
        says(
            &judge(healed, Some(healed + second * 7)).0,
            "turn 7 ended 7.0s after the last fault",
        );
        says(&judge(healed, None).0, "nobody heard of the end of turn 7");
    }

    #[test]
    fn posts_that_are_lost_doubled_or_taken_for_others_are_noticed() {
        let posts: BTreeMap<String, Posted> = [("one", "user.prompt", true), ("two", "user.steer", false)]
            .into_iter()
            .map(|(words, kind, is_acknowledged)| {
                let post = Posted {
                    conversation: "c".to_owned(),
                    kind,
                    is_acknowledged,
                };
                (words.to_owned(), post)
            })
            .collect();
        let judge = |blocks: &[(&str, &str)]| {
            let blocks: Vec<Value> = blocks
                .iter()
                .map(|(kind, text)| json!({"type": kind, "text": text}))
                .collect();
            let mut found = Found::default();
            check_posts("c", &blocks, &posts, &mut found);
            found
        };
        let (prompt, steer) = (("user.prompt", "say one"), ("user.steer", "say two"));
        for as_it_should_be in [&[prompt][..], &[prompt, steer]] {
            assert_eq!(judge(as_it_should_be).wrong, Vec::<String>::new());
        }
        says(&judge(&[steer]), "`one` was acknowledged and is not there");
        says(&judge(&[prompt, prompt]), "`one` was posted as user.prompt");
        says(&judge(&[prompt, steer, steer]), "`two` was posted as user.steer");
        says(
            &judge(&[prompt, ("user.prompt", "say two")]),
            "`two` was posted as user.steer",
        );
    }

    #[test]
    fn harmless_calls_that_are_given_up_or_answered_twice_are_noticed() {
        let block = |kind: &str, text: &str| json!({"type": kind, "call_id": "x", "text": text});
        let call = block("react.tool.call", r#"{"path": "f7.md", "content": "Words of 7"}"#);
        let judge = |results: &[&str]| {
            let results = results.iter().map(|text| block("react.tool.result", text));
            let blocks: Vec<Value> = [call.clone()].into_iter().chain(results).collect();
            let mut found = Found::default();
            check_harmless(&blocks, &mut found);
            found
        };
        let (said, file) = (r#"{"artifact_path":"fi:t.files/f7.md"}"#, "Words of 7");
        let good = judge(&[said, file]);
        assert_eq!((good.wrong, good.harmless), (Vec::<String>::new(), 1));
        for wrong in [
            &[][..],
            &[r#"{"error_kind":"interrupted"}"#],
            &[said],
            &[said, "Words of 70"],
            &[said, file, said, file],
        ] {
            says(&judge(wrong), "the harmless call of turn 7 came to");
        }
    }

    #[test]
    fn calls_without_a_result_or_with_two_are_noticed() {
        let block = |kind: &str| json!({"type": kind, "call_id": "x", "text": "echo 1-0: interrupted"});
        let (call, result) = (block("react.tool.call"), block("react.tool.result"));
        let judge = |blocks: &[&Value]| {
            let blocks: Vec<Value> = blocks.iter().map(|block| (*block).clone()).collect();
            let mut found = Found::default();
            check_results(&blocks, &mut found);
            found
        };
        let good = judge(&[&call, &result]);
        assert_eq!((good.wrong, good.interrupted), (Vec::<String>::new(), 1));
        says(&judge(&[&call]), "has 0 results");
        says(&judge(&[&call, &result, &result]), "has 2 results");
    }
}
