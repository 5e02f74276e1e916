//! One frozen step: what one model request is made of, captured once, so that the prompt, the tools on offer and the
//! calls they lead to agree.

use std::sync::Arc;

use annals_core::tokens;
use annals_core::turn::{Budget, CallModel, Offer};
use annals_core::view::prompt::{Message, Piece, Prompt};
use annals_core::view::{Announce, Layout, Renderer, Tail, ToolSchema};
use annals_model::{Purpose, Request, Window};

use crate::agent::AgentParts;
use crate::conversation::Writer;
use crate::error::RunError;

/// What stays the same for every request of an agent.
pub(crate) struct Frame {
    pub(crate) system: Arc<str>,
    pub(crate) tools: Arc<[ToolSchema]>,
    pub(crate) window: Window,
    overhead_tokens: u32,
    max_iterations: u32,
}

impl Frame {
    pub(crate) fn new(
        system: Arc<str>,
        tools: Arc<[ToolSchema]>,
        window: Window,
        max_iterations: u32,
    ) -> Self {
        let schemas: u32 = tools.iter().map(schema_tokens).sum();
        // The answer needs room too, and so does the tail; neither may take the whole window.
        let answer = window.max_output_tokens.min(window.context_tokens / 8);
        let tail = (window.context_tokens / 50).min(2_000);
        let overhead_tokens = tokens::count(&system) + schemas + answer + tail;
        Frame {
            system,
            tools,
            window,
            overhead_tokens,
            max_iterations,
        }
    }

    pub(crate) fn budget(&self) -> Budget {
        Budget {
            window_tokens: self.window.context_tokens,
            overhead_tokens: self.overhead_tokens.min(self.window.context_tokens / 2),
            max_iterations: self.max_iterations,
        }
    }
}

fn schema_tokens(schema: &ToolSchema) -> u32 {
    tokens::count(&schema.description) + tokens::count(&schema.parameters.to_string())
}

/// The request of this step.
pub(crate) async fn request(
    agent: &AgentParts,
    writer: &mut Writer,
    call: CallModel,
) -> Result<Request, RunError> {
    let renderer = writer.renderer.get_or_insert_with(|| Renderer::new(agent.layout));
    let now = agent.world().now();
    let frame = &agent.frame;
    let (prompt, rendered) = writer.journal.read(|timeline| {
        let announce = Announce {
            iteration: call.step,
            max_iterations: frame.max_iterations,
            view_tokens: timeline.view_tokens(),
            window_tokens: frame.window.context_tokens,
            now,
            timezone: agent.settings.timezone.clone(),
        };
        let tail = Tail::of(timeline, &announce);
        let cache = &agent.settings.cache;
        let mut prompt = renderer.prompt(
            timeline,
            cache,
            frame.system.clone(),
            frame.tools.clone(),
            Some(&tail),
        );
        if call.offer == Offer::AnswerOnly {
            ask_for_an_answer(&mut prompt);
        }
        let rendered = agent.model_reads_text.then(|| {
            let mut plain = Renderer::new(Layout::Timeline);
            let plain = plain.prompt(timeline, cache, "".into(), [].into(), Some(&tail));
            annals_core::view::render::as_text(&plain.messages)
        });
        (prompt, rendered)
    });
    let media = writer.media.load(agent.artifacts(), renderer.media()).await?;
    Ok(Request {
        prompt: Arc::new(prompt),
        media,
        max_tokens: frame.window.max_output_tokens,
        layout: agent.layout,
        purpose: Purpose::Turn,
        rendered: rendered.map(Into::into),
    })
}

/// At the limit of model calls: no tools, and a word about it.
fn ask_for_an_answer(prompt: &mut Prompt) {
    prompt.tools = [].into();
    let word = Piece::text(
        "\n\n[SYSTEM MESSAGE]\nThis is the last model call of this turn and no tools are on offer. Answer now with what \
         you have, and say what is missing.",
    );
    match prompt.messages.last_mut() {
        Some(Message::User(pieces)) => pieces.push(word),
        _ => prompt.messages.push(Message::User(vec![word])),
    }
}
