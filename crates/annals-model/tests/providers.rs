//! Both wire forms against a server that behaves as providers do, and worse.

mod bounds;
mod loopback;

use std::sync::Arc;
use std::time::Duration;

use annals_core::view::prompt::{AssistantPiece, Call, Message, Piece, Prompt, ToolReply, ToolSchema};
use annals_model::{
    Answer, ApiKey, Event, Model, ModelError, ModelSpec, RawCall, Request, RetryPolicy, StallPhase,
    StopReason, Thinking, Timeouts, Usage, open,
};
use futures::StreamExt as _;
use loopback::{Reply, Server, Then};
use serde_json::json;
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

const ANTHROPIC: &str = "anthropic:claude-sonnet-4-5";
const OPENAI: &str = "openai:gpt-5";

const CLAUDE_STREAM: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":",
    "{\"input_tokens\":10,\"cache_creation_input_tokens\":200,\"cache_read_input_tokens\":3000,\"output_tokens\":1}}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":",
    "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":",
    "{\"type\":\"thinking_delta\",\"thinking\":\"Ein Entwurf für später\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":",
    "{\"type\":\"signature_delta\",\"signature\":\"c2ln\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":",
    "{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":",
    "{\"type\":\"text_delta\",\"text\":\"Ich schreibe 🦀\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":",
    "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"react__write\",\"input\":{}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":",
    "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"path\\\": \\\"a.md\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":",
    "{\"type\":\"input_json_delta\",\"partial_json\":\"\\\"}\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":2}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":",
    "{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":\"now\",\"input\":{}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":",
    "{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":3}\n\n",
    "event: from_the_future\ndata: {\"type\":\"from_the_future\",\"x\":[1]}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",",
    "\"stop_sequence\":null},\"usage\":{\"output_tokens\":89}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

const GPT_STREAM: &str = concat!(
    ": keep-alive\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"Hm für\"}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Ich schreibe 🦀\"},\"finish_reason\":null}],\"usage\":null}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\",",
    "\"function\":{\"name\":\"react__write\",\"arguments\":\"\"}}]}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"call_2\",\"type\":\"function\",",
    "\"function\":{\"name\":\"now\",\"arguments\":\"\"}}]}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"path\\\":\"}}]}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"a.md\\\"}\"}}]}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\r\n\r\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3210,\"completion_tokens\":89,\"prompt_tokens_details\":{\"cached_tokens\":3000}}}\r\n\r\n",
    "data: [DONE]\r\n\r\n",
);

fn prompt() -> Prompt {
    let tool = |name: &str| ToolSchema {
        name: name.into(),
        description: "Does it.".into(),
        parameters: json!({ "type": "object" }),
    };
    Prompt {
        system: "Be brief.".into(),
        tools: [tool("now"), tool("react.write")].into(),
        messages: vec![Message::User(vec![Piece::text("Hello")])].into(),
    }
}

fn spec(name: &str, server: &Server) -> ModelSpec {
    let mut spec = ModelSpec::new(name.parse().unwrap(), 1);
    spec.base_url = Some(server.base_url.clone());
    spec.openai_key = Some(ApiKey::new("sk-test-secret-openai"));
    spec.anthropic_key = Some(ApiKey::new("sk-test-secret-anthropic"));
    spec.retry = RetryPolicy::never();
    spec
}

async fn ask(model: &Arc<dyn Model>) -> Result<Answer, ModelError> {
    let stream = model
        .stream(Request::new(prompt(), 1_000), &CancellationToken::new())
        .await?;
    Answer::collect(stream).await
}

async fn ask_once(name: &str, reply: Reply) -> Result<Answer, ModelError> {
    let server = Server::playing(vec![reply]).await;
    ask(&open(&spec(name, &server)).unwrap()).await
}

fn call(id: &str, tool: &str, arguments: &str) -> RawCall {
    RawCall {
        id: Some(id.into()),
        tool: tool.into(),
        arguments: arguments.into(),
    }
}

fn claude_answer() -> Answer {
    Answer {
        thinking: Some(Thinking {
            text: "Ein Entwurf für später".into(),
            signature: Some("c2ln".into()),
        }),
        text: "Ich schreibe 🦀".into(),
        calls: vec![
            call("toolu_1", "react.write", r#"{"path": "a.md"}"#),
            call("toolu_2", "now", "{}"),
        ],
        stop: StopReason::ToolUse,
        usage: Usage {
            input_tokens: 3_210,
            cache_read_tokens: 3_000,
            cache_write_tokens: 200,
            output_tokens: 89,
        },
    }
}

fn gpt_answer() -> Answer {
    Answer {
        thinking: Some(Thinking {
            text: "Hm für".into(),
            signature: None,
        }),
        text: "Ich schreibe 🦀".into(),
        calls: vec![
            call("call_1", "react.write", r#"{"path":"a.md"}"#),
            call("call_2", "now", "{}"),
        ],
        stop: StopReason::ToolUse,
        usage: Usage {
            input_tokens: 3_210,
            cache_read_tokens: 3_000,
            cache_write_tokens: 0,
            output_tokens: 89,
        },
    }
}

#[tokio::test]
async fn a_recorded_stream_gives_the_answer_of_either_vendor() {
    assert_eq!(
        ask_once(ANTHROPIC, Reply::text(CLAUDE_STREAM)).await,
        Ok(claude_answer())
    );
    assert_eq!(ask_once(OPENAI, Reply::text(GPT_STREAM)).await, Ok(gpt_answer()));
}

#[tokio::test]
async fn characters_split_between_chunks_are_whole_again() {
    for size in [1, 7] {
        let chunks: Vec<&[u8]> = CLAUDE_STREAM.as_bytes().chunks(size).collect();
        assert_eq!(
            ask_once(ANTHROPIC, Reply::stream(&chunks)).await,
            Ok(claude_answer())
        );
        let chunks: Vec<&[u8]> = GPT_STREAM.as_bytes().chunks(size).collect();
        assert_eq!(ask_once(OPENAI, Reply::stream(&chunks)).await, Ok(gpt_answer()));
    }
}

#[tokio::test]
async fn the_key_goes_in_its_header_and_nowhere_else() {
    let server = Server::playing(vec![Reply::text(CLAUDE_STREAM), Reply::text(GPT_STREAM)]).await;
    ask(&open(&spec(ANTHROPIC, &server)).unwrap()).await.unwrap();
    ask(&open(&spec(OPENAI, &server)).unwrap()).await.unwrap();
    let [claude, gpt] = server.asked().try_into().unwrap();
    assert!(
        claude.head.starts_with("post /v1/messages http/1.1\r\n"),
        "{}",
        claude.head
    );
    assert!(claude.head.contains("x-api-key: sk-test-secret-anthropic\r\n"));
    assert!(claude.head.contains("anthropic-version: 2023-06-01\r\n"));
    assert!(
        gpt.head.starts_with("post /v1/chat/completions http/1.1\r\n"),
        "{}",
        gpt.head
    );
    assert!(
        gpt.head
            .contains("authorization: bearer sk-test-secret-openai\r\n")
    );
    assert!(!claude.body.to_string().contains("secret") && !gpt.body.to_string().contains("secret"));
}

#[tokio::test]
async fn a_refused_key_is_an_auth_error_that_does_not_repeat_it() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-test-secret-openai.","code":"invalid_api_key"}}"#;
    let error = ask_once(OPENAI, Reply::error(401, body)).await.unwrap_err();
    assert_eq!(error.kind(), "auth");
    assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
}

#[tokio::test]
async fn a_rate_limit_says_how_long_to_wait() {
    let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
    let date = "Wed, 21 Oct 2015 07:28:";
    for (headers, seconds) in [
        (vec!["retry-after: 7".to_owned()], Some(7.0)),
        (
            vec!["retry-after-ms: 250".to_owned(), "retry-after: 1".to_owned()],
            Some(0.25),
        ),
        (
            vec![
                format!("date: {date}00 GMT"),
                format!("retry-after: {date}09 GMT"),
            ],
            Some(9.0),
        ),
        (vec!["retry-after: soon".to_owned()], None),
        (vec!["retry-after: -3".to_owned()], None),
    ] {
        let reply = headers
            .iter()
            .fold(Reply::error(429, body), |reply, header| reply.header(header));
        let error = ask_once(ANTHROPIC, reply).await.unwrap_err();
        assert_eq!(error.kind(), "rate_limit");
        assert_eq!(
            error.retry_after(),
            seconds.map(Duration::from_secs_f64),
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn an_overloaded_provider_is_told_from_a_wrong_request() {
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(
        ask_once(ANTHROPIC, Reply::error(529, overloaded))
            .await
            .unwrap_err()
            .kind(),
        "overloaded"
    );
    assert_eq!(
        ask_once(OPENAI, Reply::error(503, "")).await.unwrap_err().kind(),
        "overloaded"
    );
    let wrong = r#"{"error":{"message":"unknown field"}}"#;
    let error = ask_once(OPENAI, Reply::error(400, wrong)).await.unwrap_err();
    assert_eq!(
        error,
        ModelError::BadRequest {
            message: "unknown field".into()
        }
    );
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn the_context_limit_of_either_vendor_is_recognised() {
    let claude = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 205000 tokens > 200000 maximum"}}"#;
    assert_eq!(
        ask_once(ANTHROPIC, Reply::error(400, claude))
            .await
            .unwrap_err()
            .kind(),
        "context_limit"
    );
    let gpt = r#"{"error":{"message":"This model's maximum context length is 400000 tokens.","code":"context_length_exceeded"}}"#;
    assert_eq!(
        ask_once(OPENAI, Reply::error(400, gpt)).await.unwrap_err().kind(),
        "context_limit"
    );
    let streamed = "data: {\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}\n\n";
    assert_eq!(
        ask_once(OPENAI, Reply::text(streamed)).await.unwrap_err().kind(),
        "context_limit"
    );
}

#[tokio::test]
async fn an_error_in_mid_stream_comes_after_what_was_said() {
    let server = Server::playing(vec![Reply::text(concat!(
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Well\"}}\n\n",
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
    ))])
    .await;
    let model = open(&spec(ANTHROPIC, &server)).unwrap();
    let stream = model
        .stream(Request::new(prompt(), 100), &CancellationToken::new())
        .await
        .unwrap();
    let events: Vec<_> = stream.collect().await;
    let overloaded = ModelError::Overloaded {
        retry_after: None,
        message: "Overloaded".into(),
    };
    assert_eq!(events, [Ok(Event::Text("Well".into())), Err(overloaded)]);
}

#[tokio::test]
async fn a_stream_that_ends_too_early_is_cut_off_and_never_a_whole_answer() {
    for (name, stream, marker) in [
        (ANTHROPIC, CLAUDE_STREAM, "event: message_delta"),
        (
            OPENAI,
            GPT_STREAM,
            "data: {\"choices\":[{\"index\":0,\"delta\":{},",
        ),
    ] {
        let cut = &stream[..stream.find(marker).unwrap()];
        assert_eq!(ask_once(name, Reply::text(cut)).await, Err(ModelError::CutOff));
        let broken = ask_once(name, Reply::text(cut).then(Then::Break))
            .await
            .unwrap_err();
        assert_eq!(broken.kind(), "network", "{broken}");
    }
}

#[tokio::test]
async fn the_last_event_may_be_lost_once_the_model_has_stopped() {
    let cut = &CLAUDE_STREAM[..CLAUDE_STREAM.find("event: message_stop").unwrap()];
    assert_eq!(ask_once(ANTHROPIC, Reply::text(cut)).await, Ok(claude_answer()));
    let cut = GPT_STREAM.strip_suffix("data: [DONE]\r\n\r\n").unwrap();
    assert_eq!(ask_once(OPENAI, Reply::text(cut)).await, Ok(gpt_answer()));
}

#[tokio::test]
async fn a_stalled_stream_is_an_error_in_either_phase() {
    let stalls = Duration::from_millis(40);
    for (reply, phase) in [
        (
            Reply::text("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n").then(Then::Hang),
            StallPhase::Idle,
        ),
        (Reply::stream(&[]).then(Then::Hang), StallPhase::FirstByte),
    ] {
        let server = Server::playing(vec![reply]).await;
        let mut spec = spec(OPENAI, &server);
        spec.timeouts = Timeouts {
            first_byte: Duration::from_millis(400),
            idle: stalls,
            ..Timeouts::default()
        };
        let error = ask(&open(&spec).unwrap()).await.unwrap_err();
        assert!(
            matches!(error, ModelError::Stalled { phase: at, .. } if at == phase),
            "{error}"
        );
    }
}

#[tokio::test]
async fn cancelling_ends_a_silent_stream() {
    let server = Server::playing(vec![Reply::stream(&[]).then(Then::Hang)]).await;
    let model = open(&spec(ANTHROPIC, &server)).unwrap();
    let cancel = CancellationToken::new();
    let mut stream = model.stream(Request::new(prompt(), 100), &cancel).await.unwrap();
    let (event, ()) = tokio::join!(stream.next(), async { cancel.cancel() });
    assert_eq!(event, Some(Err(ModelError::Cancelled)));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn garbage_is_malformed_and_an_answer_without_a_stream_says_so() {
    let error = ask_once(OPENAI, Reply::text("data: {oops\n\n"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "malformed");
    let error = ask_once(OPENAI, Reply::error(200, r#"{"choices":[]}"#))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("not a stream"), "{error}");
    let error = ask_once(
        OPENAI,
        Reply::error(200, r#"{"error":{"message":"busy","code":503}}"#),
    )
    .await
    .unwrap_err();
    assert_eq!(error.kind(), "bad_request");
}

#[tokio::test]
async fn a_redirect_does_not_carry_the_key_elsewhere() {
    let other = Server::playing(vec![Reply::text(GPT_STREAM)]).await;
    let redirect = Reply::error(307, "").header(&format!("location: {}/chat/completions", other.base_url));
    assert_eq!(
        ask_once(OPENAI, redirect).await.unwrap_err().kind(),
        "bad_request"
    );
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn nobody_listening_is_a_network_error() {
    let server = Server::playing(vec![Reply::stream(&[])]).await;
    let mut spec = spec(OPENAI, &server);
    drop(server);
    spec.base_url = Some("http://127.0.0.1:1/v1".into());
    assert_eq!(ask(&open(&spec).unwrap()).await.unwrap_err().kind(), "network");
}

#[tokio::test]
async fn after_an_overload_the_request_is_sent_again_unchanged() {
    let busy = Reply::error(
        529,
        r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#,
    );
    let limited = Reply::error(429, "{}").header("retry-after: 0");
    let server = Server::playing(vec![busy, limited, Reply::text(CLAUDE_STREAM)]).await;
    let mut spec = spec(ANTHROPIC, &server);
    spec.retry = RetryPolicy::default().without_waits();
    assert_eq!(ask(&open(&spec).unwrap()).await, Ok(claude_answer()));
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|request| request.body == asked[0].body));
}

#[tokio::test]
async fn further_fields_of_the_body_win_over_our_own() {
    let server = Server::playing(vec![Reply::text(GPT_STREAM)]).await;
    let mut spec = spec(OPENAI, &server);
    spec.extra.insert("temperature".into(), json!(0.5));
    spec.extra.insert("max_tokens".into(), json!(7));
    ask(&open(&spec).unwrap()).await.unwrap();
    let body = &server.asked()[0].body;
    assert_eq!(
        (&body["temperature"], &body["max_tokens"], &body["model"]),
        (&json!(0.5), &json!(7), &json!("gpt-5"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_run_at_once() {
    // No stream goes on before all have begun: none may wait for another.
    let (begin, rest) = GPT_STREAM.as_bytes().split_at(300);
    let server = Server::playing(vec![Reply::stream(&[begin, rest]).held_at(Barrier::new(200))]).await;
    let model = open(&spec(OPENAI, &server)).unwrap();
    let asks = (0..200).map(|_| {
        let model = Arc::clone(&model);
        tokio::spawn(async move { ask(&model).await })
    });
    for answer in futures::future::join_all(asks).await {
        assert_eq!(answer.unwrap(), Ok(gpt_answer()));
    }
    assert_eq!(server.asked().len(), 200);
}

const RESPONSES_STREAM: &str = concat!(
    "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"rs_1\",",
    "\"summary\":[],\"encrypted_content\":\"gAAA\"}}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":\"function_call\",",
    "\"call_id\":\"call_1\",\"name\":\"now\",\"arguments\":\"{}\"}}\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":2}}}\n\n",
);

#[tokio::test]
async fn reasoning_comes_back_to_the_model_over_the_responses_wire() {
    let server = Server::playing(vec![Reply::text(RESPONSES_STREAM)]).await;
    let mut spec = spec(OPENAI, &server);
    spec.wire = Some(annals_model::Wire::Responses);
    let model = open(&spec).unwrap();
    let answer = ask(&model).await.unwrap();
    assert_eq!(answer.stop, StopReason::ToolUse);
    let signature = answer.thinking.unwrap().signature.unwrap();
    let mut next = prompt();
    let id = annals_core::ids::CallId::parse("tc_1").unwrap();
    next.messages = vec![
        Message::User(vec![Piece::text("Hello")]),
        Message::Assistant(vec![
            AssistantPiece::Thinking {
                text: "".into(),
                signature: signature.into(),
            },
            AssistantPiece::Call(Call {
                id: id.clone(),
                tool: "now".into(),
                arguments: "{}".into(),
                cache_point: None,
            }),
        ]),
        Message::Tool(vec![ToolReply {
            call: id,
            is_error: false,
            pieces: vec![Piece::text("noon")],
        }]),
    ]
    .into();
    let mut request = Request::new(next, 1_000);
    request.cache_key = Some("conv_1".into());
    let stream = model.stream(request, &CancellationToken::new()).await.unwrap();
    Answer::collect(stream).await.unwrap();
    let asked = server.asked();
    assert!(
        asked[1].head.starts_with("post /v1/responses "),
        "{}",
        asked[1].head
    );
    let body = &asked[1].body;
    assert_eq!(
        (&body["store"], &body["prompt_cache_key"], &body["include"]),
        (
            &json!(false),
            &json!("conv_1"),
            &json!(["reasoning.encrypted_content"])
        )
    );
    let kinds: Vec<&str> = body["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["message", "reasoning", "function_call", "function_call_output"]
    );
    assert_eq!(body["input"][1]["encrypted_content"], "gAAA");
}

#[tokio::test]
async fn another_server_is_asked_for_chat_completions_unless_it_is_said_otherwise() {
    let server = Server::playing(vec![Reply::text(GPT_STREAM)]).await;
    ask(&open(&spec(OPENAI, &server)).unwrap()).await.unwrap();
    assert!(server.asked()[0].head.starts_with("post /v1/chat/completions "));
}
