//! A call that needs something from a person or a client: the turn waits, in no process at all if need be, and the answer
//! of any process continues it once.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use annals_core::ids::ConversationId;
use annals_core::turn::TurnEnd;
use annals_runtime::{
    Agent, ApprovalDecision, Ask, ConversationHandle, Decision, HookCx, Hooks, InputAction, InputRequest,
    InputResponse, RunError, Session, TurnRequest, Verdict, World,
};
use annals_store::MemoryLog;
use annals_tools::{ClientTool, DynamicTool, Effect, InputAsk, Tool, ToolSpec};
use common::{Bench, shape, texts};
use serde_json::{Value, json};

/// Processes come and go on one log.
struct Shared {
    bench: Bench,
    log: Arc<MemoryLog>,
    booked: Arc<Mutex<Vec<String>>>,
    looked: Arc<AtomicUsize>,
}

/// Asks about `book` before it may run.
struct AsksAboutBooking;

#[async_trait::async_trait]
impl Hooks for AsksAboutBooking {
    async fn before_call(&self, _: &HookCx, tool: &ToolSpec, _: &Value) -> Verdict {
        match tool.name().as_str() {
            "book" => Verdict::Ask(Ask::default()),
            _ => Verdict::Allow,
        }
    }
}

impl Shared {
    fn new() -> Self {
        Shared {
            bench: Bench::new(),
            log: Arc::new(MemoryLog::default()),
            booked: Arc::default(),
            looked: Arc::default(),
        }
    }

    /// Books a seat in a class: asks for both, one after the other, and books once.
    fn book(&self) -> Arc<dyn Tool> {
        let booked = self.booked.clone();
        let spec = ToolSpec::builder("book").effect(Effect::Once).independent();
        Arc::new(DynamicTool::with_spec(spec.build().unwrap(), move |cx, _| {
            let booked = booked.clone();
            async move {
                let class = cx.ask(InputAsk::new("Which class?"))?;
                let seat =
                    cx.ask(InputAsk::new("Which seat?").schema(json!({"type": "integer", "minimum": 1})))?;
                let seat = match seat.action {
                    InputAction::Accept => seat.content.unwrap_or_default(),
                    _ => return Ok(json!("not booked")),
                };
                let text = format!("{} {seat}", class.content.unwrap_or_default());
                booked.lock().unwrap().push(text.clone());
                Ok(json!({ "booked": text }))
            }
        }))
    }

    fn look(&self) -> Arc<dyn Tool> {
        let looked = self.looked.clone();
        let spec = ToolSpec::builder("look").effect(Effect::Once).independent();
        Arc::new(DynamicTool::with_spec(spec.build().unwrap(), move |_, _| {
            looked.fetch_add(1, Ordering::SeqCst);
            async { Ok(json!("seen")) }
        }))
    }

    async fn process(&self, steps: Value, tools: Vec<Arc<dyn Tool>>) -> Agent {
        self.process_with(steps, tools, None).await
    }

    async fn process_with(
        &self,
        steps: Value,
        tools: Vec<Arc<dyn Tool>>,
        hooks: Option<AsksAboutBooking>,
    ) -> Agent {
        let builder = self
            .bench
            .builder(json!({ "steps": steps }))
            .log(self.log.clone())
            .tools(tools)
            .world(World::default());
        let builder = match hooks {
            Some(hooks) => builder.hooks(hooks),
            None => builder,
        };
        builder.build().await.unwrap()
    }
}

fn handle(agent: &Agent) -> ConversationHandle {
    agent.conversation(&ConversationId::parse("c").unwrap())
}

fn calls(tools: &[&str]) -> Value {
    let calls: Vec<Value> = tools
        .iter()
        .enumerate()
        .map(|(at, tool)| json!({"id": format!("{tool}{at}"), "tool": tool, "params": {}}))
        .collect();
    json!({ "tool_calls": calls })
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..2_000 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

async fn asked(agent: &Agent, count: usize) -> Vec<InputRequest> {
    until("it asks", async || {
        let inputs = handle(agent).inputs().await.unwrap();
        (inputs.len() == count).then_some(inputs)
    })
    .await
}

fn answer(request: &InputRequest, content: Value) -> InputResponse {
    InputResponse {
        input_id: request.input_id.clone(),
        action: InputAction::Accept,
        content: Some(content),
        by: "ann".into(),
        via: "test".into(),
    }
}

async fn ended(agent: &Agent) -> Session {
    until("the turn ends", async || {
        let session = agent.session("c").await.ok()?;
        session.outcome().is_some().then_some(session)
    })
    .await
}

#[tokio::test]
async fn a_tool_asks_twice_and_is_answered_by_processes_that_come_later() {
    let shared = Shared::new();
    let first = shared
        .process(
            json!([calls(&["book", "look"])]),
            vec![shared.book(), shared.look()],
        )
        .await;
    drop(first.session("c").await.unwrap());
    handle(&first).post("Book").await.unwrap();
    let class = asked(&first, 1).await.remove(0);
    assert_eq!(
        (class.message.as_str(), class.tool.as_str()),
        ("Which class?", "book")
    );
    handle(&first).settled().await;
    assert_eq!(
        shared.looked.load(Ordering::SeqCst),
        1,
        "calls that have nothing to do with it run"
    );
    drop(first);

    let second = shared
        .process(json!([]), vec![shared.book(), shared.look()])
        .await;
    handle(&second)
        .respond(answer(&class, json!("first")))
        .await
        .unwrap();
    let seat = until("it asks for the seat", async || {
        let mut inputs = handle(&second).inputs().await.unwrap();
        inputs.pop().filter(|input| input.message == "Which seat?")
    })
    .await;
    let refused = handle(&second)
        .respond(answer(&seat, json!("by the window")))
        .await;
    let Err(RunError::InputMisfit { why, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("integer"), "{why}");
    let again = handle(&second).respond(answer(&class, json!("second"))).await;
    assert!(matches!(again, Err(RunError::NothingToDecide(_))), "{again:?}");
    handle(&second).settled().await;
    drop(second);

    let third = shared
        .process(json!([{"text": "Booked"}]), vec![shared.book(), shared.look()])
        .await;
    handle(&third).respond(answer(&seat, json!(7))).await.unwrap();
    let session = ended(&third).await;
    assert_eq!(session.answer(), "Booked", "{}", shape(&session));
    assert_eq!(*shared.booked.lock().unwrap(), ["\"first\" 7"], "booked once");
    assert_eq!(shared.looked.load(Ordering::SeqCst), 1);
    assert_eq!(texts(&session, "input.request").len(), 2);
    assert_eq!(texts(&session, "input.response").len(), 2);
}

#[tokio::test]
async fn what_a_person_allowed_stays_allowed_when_the_call_asks_for_more() {
    let shared = Shared::new();
    let script = json!([calls(&["book"]), {"text": "Booked"}]);
    let agent = shared
        .process_with(script, vec![shared.book()], Some(AsksAboutBooking))
        .await;
    let session = agent.session("c").await.unwrap();
    let (turn, ()) = tokio::join!(agent.run(session, TurnRequest::new("Book")), async {
        let approval = until("it asks", async || {
            handle(&agent).approvals().await.unwrap().pop()
        })
        .await;
        let decision = ApprovalDecision {
            approval_id: approval.approval_id,
            decision: Decision::Once,
            by: "ann".into(),
            via: "test".into(),
            edited_args: None,
            note: None,
        };
        handle(&agent).decide(decision).await.unwrap();
        for given in [json!("second"), json!(3)] {
            let input = asked(&agent, 1).await.remove(0);
            handle(&agent).respond(answer(&input, given)).await.unwrap();
            until("it is taken in", async || {
                let open = handle(&agent).inputs().await.unwrap();
                (!open.contains(&input)).then_some(())
            })
            .await;
        }
    });
    let turn = turn.unwrap();
    assert_eq!(
        (turn.end(), turn.answer()),
        (TurnEnd::Complete, "Booked"),
        "{}",
        shape(turn.session())
    );
    assert_eq!(texts(turn.session(), "approval.request").len(), 1, "asked once");
}

#[tokio::test]
async fn tools_of_the_client_are_asked_for_together() {
    let shared = Shared::new();
    let client = |name| Arc::new(ClientTool::new(name, "Of the client", json!({"type": "object"})).unwrap());
    let tools = || -> Vec<Arc<dyn Tool>> { vec![client("get_time"), client("get_place")] };
    let script = json!([calls(&["get_time", "get_place"]), {"expect": ["ten o'clock", "Ulm"], "text": "At ten in Ulm"}]);
    let agent = shared.process(script, tools()).await;
    drop(agent.session("c").await.unwrap());
    handle(&agent).post("When and where?").await.unwrap();
    let asked = asked(&agent, 2).await;
    // Answered in the other order.
    handle(&agent)
        .respond(answer(&asked[1], json!("Ulm")))
        .await
        .unwrap();
    handle(&agent)
        .respond(answer(&asked[0], json!("ten o'clock")))
        .await
        .unwrap();
    let session = ended(&agent).await;
    assert_eq!(session.answer(), "At ten in Ulm", "{}", shape(&session));
}

#[tokio::test]
async fn a_question_that_lapses_ends_the_turn() {
    let shared = Shared::new();
    let spec = ToolSpec::builder("hurry").independent().build().unwrap();
    let hurry: Arc<dyn Tool> = Arc::new(DynamicTool::with_spec(spec, |cx, _| async move {
        let ask = InputAsk::new("Quick!").expires_in(Duration::from_millis(200));
        Ok(cx.ask(ask)?.content.unwrap_or_default())
    }));
    let agent = shared.process(json!([calls(&["hurry"])]), vec![hurry]).await;
    let turn = agent.run(agent.session("c").await.unwrap(), "Go").await.unwrap();
    assert_eq!(turn.end(), TurnEnd::ApprovalExpired);
    let results = texts(turn.session(), "react.tool.result");
    assert!(results[0].contains("input_expired"), "{results:?}");
}

/// A model that cannot call tools writes its calls as text; everything else is the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&[]);
}
