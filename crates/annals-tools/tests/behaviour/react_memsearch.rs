use std::sync::{Arc, Mutex};

use annals_core::ids::{ConversationId, Seq, TurnId};
use annals_core::path::LogicalPath;
use annals_core::time::Timestamp;
use annals_store::recall::{Hit, Query, RecallHits, RecallTarget, Shortfall, Within};
use annals_store::{LogError, Recall};
use async_trait::async_trait;
use serde_json::json;

use crate::stage::{Stage, codes, error_code, json as answer};

/// Remembers what it was asked and answers with one passage.
#[derive(Default)]
struct Remembering {
    asked: Mutex<Vec<Query>>,
    shortfall: Option<Shortfall>,
    fails: bool,
}

#[async_trait]
impl Recall for Remembering {
    async fn search(&self, query: Query) -> Result<RecallHits, LogError> {
        self.asked.lock().unwrap().push(query);
        if self.fails {
            return Err(LogError::Storage {
                log: "/srv/secret/annals.db".to_owned(),
                detail: "gone".to_owned(),
            });
        }
        let turn = TurnId::parse("turn_0").unwrap();
        let hit = Hit {
            conversation: ConversationId::parse("c0").unwrap(),
            seq: Seq::FIRST,
            path: Some(LogicalPath::user_prompt(&turn)),
            turn,
            target: RecallTarget::User,
            text: "the heron is blue".to_owned(),
            score: 0.812_345,
            ts: Timestamp::from_unix_millis(1_770_603_271_112),
        };
        Ok(RecallHits {
            hits: vec![hit],
            shortfall: self.shortfall.clone(),
        })
    }
}

fn stage(recall: Remembering) -> (Stage, Arc<Remembering>) {
    let recall = Arc::new(recall);
    let shared = recall.clone();
    (Stage::with(|cx, _| cx.recall = Some(shared), vec![]), recall)
}

#[tokio::test]
async fn a_hit_is_shown_with_its_path_and_asks_within_bounds() {
    let (mut stage, recall) = stage(Remembering::default());
    stage.begin("turn_2");
    let outcome = stage
        .call(
            "react.memsearch",
            json!({"query": "heron", "targets": ["user", "attachment"], "top_k": 900, "days": 7}),
        )
        .await;
    assert_eq!(
        answer(&outcome),
        json!([{"turn_id": "turn_0", "path": "ar:turn_0.user.prompt", "role": "user", "text": "the heron is blue",
            "score": 0.812, "ts": "2026-02-09T02:14:31.112000Z", "conversation": "c0"}])
    );
    assert!(codes(&outcome).is_empty());
    let asked = recall.asked.lock().unwrap();
    let query = &asked[0];
    assert_eq!(
        (query.limit, query.targets.as_slice()),
        (50, &[RecallTarget::User, RecallTarget::Attachment][..])
    );
    assert_eq!(query.within, Within::Conversation(stage.cx.conversation.clone()));
    assert_eq!(query.now.seconds_since(query.since.unwrap()), 7 * 86_400);
    // The running turn begins with its header; everything before it is memory.
    assert_eq!(
        query.before,
        Some((stage.cx.conversation.clone(), Seq::try_new(3).unwrap()))
    );
}

#[tokio::test]
async fn all_conversations_of_the_user_are_searched_when_asked() {
    let (mut stage, recall) = stage(Remembering::default());
    stage
        .call("react.memsearch", json!({"query": "heron", "scope": "user"}))
        .await;
    let asked = recall.asked.lock().unwrap();
    assert_eq!((&asked[0].within, asked[0].limit), (&Within::Scope, 5));
    assert_eq!(asked[0].scope, stage.cx.scope);
}

#[tokio::test]
async fn what_is_missing_from_an_answer_is_said() {
    let shortfall = Some(Shortfall::Behind { blocks: 9 });
    let (mut stage, _) = stage(Remembering {
        shortfall,
        ..Remembering::default()
    });
    let outcome = stage.call("react.memsearch", json!({"query": "heron"})).await;
    assert_eq!(codes(&outcome), ["memory_incomplete"]);
}

#[tokio::test]
async fn every_refusal_has_its_code_and_no_place_on_the_host() {
    let mut bare = Stage::new();
    assert_eq!(
        error_code(&bare.call("react.memsearch", json!({"query": "x"})).await),
        Some("memory_not_configured")
    );
    let (mut stage, _) = stage(Remembering {
        fails: true,
        ..Remembering::default()
    });
    assert_eq!(
        error_code(&stage.call("react.memsearch", json!({"query": "  "})).await),
        Some("empty_query")
    );
    let failed = stage.call("react.memsearch", json!({"query": "x"})).await;
    assert_eq!(error_code(&failed), Some("memory_not_available"));
    assert!(!format!("{failed:?}").contains("secret"));
}
