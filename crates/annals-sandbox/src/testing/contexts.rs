//! The context service: programs inside ask, the caller answers.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};

use super::{Fixture, cases};
use crate::context::{ContextError, ContextService, Fetched};
use crate::language::Language;
use crate::ops::{CodeRun, Op, OpResult};
use crate::sandbox::Backend;

cases![
    programs_inside_fetch_what_their_conversation_holds,
    a_sandbox_without_the_service_says_that_nobody_answers,
];

/// Knows one text, one binary of a million bytes, and nothing else.
struct Known;

#[async_trait]
impl ContextService for Known {
    async fn fetch(&self, path: &str) -> Result<Fetched, ContextError> {
        let (bytes, mime) = match path {
            "fi:t.files/text" => ("grüße".as_bytes().to_vec(), "text/plain"),
            "fi:t.files/binary" => (vec![0xff; 1_000_000], "application/octet-stream"),
            _ => {
                return Err(ContextError::new(
                    "path_missing",
                    format!("nothing is at `{path}`"),
                ));
            }
        };
        let size_bytes = bytes.len() as u64;
        let pieces: Vec<_> = bytes
            .chunks(40_000)
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        Ok(Fetched {
            path: path.to_owned(),
            mime: mime.to_owned(),
            is_text: mime == "text/plain",
            size_bytes,
            body: stream::iter(pieces).boxed(),
        })
    }
}

async fn run(fixture: &Fixture, language: Language, code: &str) -> String {
    match fixture.dispatch(Op::CodeRun(CodeRun::new(language, code))).await {
        Ok(OpResult::Code(result)) => format!("{}{}", result.stdout.text(), result.stderr.text()),
        other => panic!("code returned {other:?}"),
    }
}

async fn programs_inside_fetch_what_their_conversation_holds(backend: &dyn Backend) {
    let fixture = Fixture::open_as(backend, |opening| opening.context = Some(Arc::new(Known))).await;
    let languages = fixture.sandbox.capabilities().languages;
    if languages.contains(&Language::Python) {
        let code = "from context_tools import fetch_ctx\n\
                    t = fetch_ctx('fi:t.files/text'); b = fetch_ctx('fi:t.files/binary')\n\
                    print(t, t.mime, len(b))\n\
                    try: fetch_ctx('fi:t.files/other')\n\
                    except LookupError as e: print(e.code)\n";
        assert_eq!(
            run(&fixture, Language::Python, code).await,
            "grüße text/plain 1000000\npath_missing\n"
        );
    }
    if languages.contains(&Language::JavaScript) {
        let code = "const { fetchCtx } = require('context_tools');\n\
                    fetchCtx('fi:t.files/text').then((c) => console.log(c.text));";
        assert_eq!(run(&fixture, Language::JavaScript, code).await, "grüße\n");
    }
    let code = "annals-ctx fetch fi:t.files/text; annals-ctx fetch fi:none || echo refused";
    let told = run(&fixture, Language::Bash, code).await;
    assert!(told.starts_with("grüße") && told.contains("refused"), "{told}");
}

async fn a_sandbox_without_the_service_says_that_nobody_answers(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let told = run(&fixture, Language::Bash, "command -v annals-ctx || echo none").await;
    assert_eq!(told, "none\n");
}
