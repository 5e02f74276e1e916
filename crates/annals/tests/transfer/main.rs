//! The import of an export is the conversation, for generated conversations with every tool and every type of block that the
//! program writes: blocks, bytes, what memory finds, and forks.

#![allow(clippy::print_stdout, reason = "what occurred is part of the test's record")]

#[path = "../../../annals-tools/src/web/tests/server.rs"]
#[allow(dead_code, reason = "not every kind of answer is needed here")]
mod server;

mod acts;
mod program;

annals_sandbox::helpers_in_tests!(annals::launcher::init);

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use annals::Agent;
use annals::content::Content;
use annals::core::block::payload::CallText;
use annals::core::block::{Block, BlockKind};
use annals::core::ids::{ConversationId, Seq};
use annals::core::time::Timestamp;
use annals::model::{Script, ScriptModel};
use annals::store::recall::Query;
use annals::store::{
    BlockLogExt as _, ImportAs, Operator, export_conversation, import_conversation, named_by,
};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use acts::{Act, Planned, Planner};
use program::Gate;

/// Each case has every act, in some order; `PROPTEST_CASES` asks for more cases.
const CASES: u32 = 2;

/// How often each type of block and each tool occurred.
#[derive(Default)]
struct Occurred {
    kinds: BTreeMap<String, usize>,
    tools: BTreeMap<String, usize>,
}

impl Occurred {
    fn count(&mut self, blocks: &[Block]) {
        for block in blocks {
            *self.kinds.entry(block.kind.tag().to_owned()).or_default() += 1;
            let call = block.text().filter(|_| block.kind == BlockKind::ToolCall);
            if let Some(call) = call.and_then(CallText::parse) {
                *self.tools.entry(call.tool_id.into_owned()).or_default() += 1;
            }
        }
    }
}

fn id(name: &str) -> ConversationId {
    ConversationId::parse(name).unwrap()
}

async fn exported(agent: &Agent, id: &ConversationId) -> Vec<u8> {
    let mut file = Vec::new();
    export_conversation(&**agent.log(), agent.artifacts(), &agent.key(id), &mut file)
        .await
        .unwrap_or_else(|error| panic!("`{id}` cannot be exported: {error}"));
    file
}

/// What memory finds for these words, wherever it ranks it.
async fn found(agent: &Agent, id: &ConversationId, text: &str) -> BTreeSet<String> {
    let now = Timestamp::from_unix_millis(4_000_000_000_000);
    let mut query = Query::new(agent.scope().clone(), id.clone(), text, now);
    query.limit = 10_000;
    let found = agent.recall().unwrap().search(query).await.unwrap();
    let of =
        |hit: annals::store::recall::Hit| format!("{} {:?} {:?} {}", hit.seq, hit.target, hit.path, hit.text);
    found.hits.into_iter().map(of).collect()
}

/// Every line after the first, which names the conversation, and before the last, which is the sum of all.
fn body(file: &[u8]) -> Vec<&[u8]> {
    let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
    lines[1..lines.len() - 1].to_vec()
}

/// Exports a conversation, imports it elsewhere, and compares.
async fn compare(source: &Agent, target: &Agent, id: &ConversationId) -> Vec<Block> {
    let file = exported(source, id).await;
    let import_as = ImportAs {
        id: None,
        scope: target.scope().clone(),
        owner: target.owner(),
    };
    import_conversation(&**target.log(), target.artifacts(), &mut &file[..], import_as)
        .await
        .unwrap_or_else(|error| panic!("`{id}` cannot be imported: {error}"));
    let blocks = source.log().read_all(&source.key(id)).await.unwrap();
    assert_eq!(
        target.log().read_all(&target.key(id)).await.unwrap(),
        blocks,
        "{id}"
    );
    for digest in blocks.iter().flat_map(named_by).collect::<BTreeSet<_>>() {
        let Ok(bytes) = source.artifacts().get(&digest).await else {
            // What only looks like a digest.
            continue;
        };
        assert_eq!(
            target.artifacts().get(&digest).await.unwrap(),
            bytes,
            "{digest} of {id}"
        );
    }
    let (before, after) = (
        source.timeline(id).await.unwrap(),
        target.timeline(id).await.unwrap(),
    );
    assert_eq!(after.view_tokens(), before.view_tokens(), "{id}");
    let lineage = target.log().get(&target.key(id)).await.unwrap().lineage;
    assert_eq!(lineage.len(), 1);
    assert_eq!(
        (lineage[0].operator, lineage[0].at, &lineage[0].parent),
        (Operator::Import, blocks.last().map(|block| block.seq), id)
    );
    assert!(
        body(&exported(target, id).await) == body(&file),
        "{id} is exported otherwise"
    );
    blocks
}

/// One case: a conversation in which everything happens, one that is longer than its window, a fork and a merger.
async fn check(acts: &[Act], words: &[String], share: f64, occurred: &Mutex<Occurred>) {
    let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (site, gate, content) = (program::site().await, Gate::new(), Content::new());
    let address = site.url("");
    let planned = Planner::new(words, &address).plan(acts);
    let tools = program::tools(&site, &gate, &content);
    let agent = program::agent(home.path(), program::script(&planned), tools, content).await;
    let everything = id("everything");
    program::perform(&agent, &everything, &gate, planned).await;

    let calls: Vec<Act> = (0..8).map(|_| Act::Call("agrees".to_owned())).collect();
    let planned: Vec<Planned> = Planner::new(words, &address).plan(&calls);
    let forgetful = program::forgetful(agent.runtime().clone(), &planned).await;
    let long = id("long");
    program::perform(&forgetful, &long, &gate, planned).await;

    let fork = program::fork(&agent, &everything, share).await;
    let merged = agent.merge(&fork, &long).await.unwrap();

    let nothing = Script::parse("{\"steps\": []}").unwrap();
    let target = Agent::builder()
        .model(ScriptModel::new("none", nothing))
        .home(elsewhere.path());
    let target = target.build().await.unwrap();
    for id in [&everything, &long, &fork, &merged] {
        let blocks = compare(&agent, &target, id).await;
        occurred.lock().unwrap().count(&blocks);
    }
    // A query of the whole scope would also see that a fork shares its history and an import does not.
    for id in [&everything, &long, &merged] {
        for text in [
            "harbour budget",
            "tides",
            "notes that came along",
            words[0].as_str(),
        ] {
            assert_eq!(
                found(&target, id, text).await,
                found(&agent, id, text).await,
                "{id}: {text}"
            );
        }
    }
    assert!(
        !found(&agent, &everything, "harbour budget").await.is_empty(),
        "memory finds something"
    );
    let again = program::fork(&target, &everything, share).await;
    let blocks = |agent: Agent, id: ConversationId| async move {
        let blocks: Vec<Block> = agent.log().read_all(&agent.key(&id)).await.unwrap();
        blocks
    };
    let (there, here) = (
        blocks(target.clone(), again).await,
        blocks(agent.clone(), fork).await,
    );
    assert_eq!(there, here, "a fork of an import is the fork");
    assert_eq!(there.first().map(|block| block.seq), Some(Seq::FIRST));
}

#[test]
fn the_import_of_an_export_is_the_conversation_whatever_happened_in_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let tools = runtime.block_on(async {
        let (site, gate) = (program::site().await, Gate::new());
        let tools = program::tools(&site, &gate, &Content::new());
        let mut names: Vec<String> = tools.iter().map(|tool| tool.spec().name().to_string()).collect();
        names.push("srv.work".to_owned());
        names
    });
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let config = ProptestConfig {
        cases: asked.unwrap_or(CASES),
        // A case takes seconds.
        max_shrink_iters: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let strategy = (
        Just(Act::all(&tools)).prop_shuffle(),
        prop::collection::vec(any::<String>(), 4),
        0.0..1.0_f64,
    );
    let occurred = Mutex::new(Occurred::default());
    let done = TestRunner::new(config).run(&strategy, |(acts, words, share)| {
        runtime.block_on(check(&acts, &words, share, &occurred));
        Ok::<(), TestCaseError>(())
    });
    done.unwrap();
    let Occurred { kinds, tools: called } = occurred.into_inner().unwrap();
    println!("blocks: {kinds:?}\ncalls: {called:?}");
    for kind in BlockKind::KNOWN {
        assert!(
            kinds.contains_key(kind.tag()),
            "no generated conversation has a `{kind}`: {kinds:?}"
        );
    }
    assert!(kinds.contains_key("x.acme.score"), "{kinds:?}");
    for tool in &tools {
        assert!(
            called.contains_key(tool),
            "no generated conversation calls `{tool}`: {called:?}"
        );
    }
}
