//! One frozen step: what one model request is made of, captured once, so that the prompt, the tools on offer and the
//! calls they lead to agree.

use std::sync::Arc;

use annals_core::tokens;
use annals_core::turn::{Budget, CallModel, Offer, Offering, SentPrompt, WindowTooSmall, sent, text_call};
use annals_core::view::{Announce, Layout, Tail, ToolSchema, ViewRenderer};
use annals_model::{Purpose, Request, Window};

use crate::agent::AgentParts;
use crate::error::RunError;
use crate::terms::TurnTerms;
use crate::writer::Writer;

/// What stays the same for every request of an agent.
#[derive(Clone)]
pub(crate) struct Frame {
    /// The system message without the tools that the layout may put into it.
    instructions: Arc<str>,
    /// The system text and the tools, with the table that names them by digest.
    pub(crate) offering: Arc<Offering>,
    pub(crate) window: Window,
    /// What the system message and the tools take of every request.
    pub(crate) fixed_tokens: u32,
    budget: Budget,
}

impl Frame {
    pub(crate) fn new(
        system: Arc<str>,
        tools: Arc<[ToolSchema]>,
        layout: Layout,
        window: Window,
        max_iterations: u32,
    ) -> Result<Self, WindowTooSmall> {
        let instructions = system.clone();
        let system_tokens = tokens::count(&system);
        // Without native calls the tools stand in the system message.
        let (system, tools_tokens) = match layout {
            Layout::Timeline => {
                let catalog = text_call::catalog(&tools);
                (format!("{system}{catalog}").into(), tokens::count(&catalog))
            }
            Layout::Chat => (system, tools.iter().map(schema_tokens).sum()),
        };
        let budget = Budget::try_new(
            window.context_tokens,
            system_tokens,
            tools_tokens,
            window.max_output_tokens,
            max_iterations,
        )?;
        Ok(Frame {
            instructions,
            offering: Arc::new(Offering::new(system, tools)),
            window,
            fixed_tokens: system_tokens + tools_tokens,
            budget,
        })
    }

    /// The same with other tools.
    pub(crate) fn with_tools(
        &self,
        tools: Arc<[ToolSchema]>,
        layout: Layout,
    ) -> Result<Self, WindowTooSmall> {
        let instructions = self.instructions.clone();
        Self::new(
            instructions,
            tools,
            layout,
            self.window,
            self.budget.max_iterations,
        )
    }

    pub(crate) fn budget(&self) -> Budget {
        self.budget
    }

    /// Why no prompt of this view can be sent, if none can: what a summary could give up, it has given up.
    pub(crate) fn overflow(&self, view_tokens: u64) -> Option<String> {
        let window = self.window.context_tokens;
        let needed = view_tokens + u64::from(self.fixed_tokens + Tail::budget_tokens(window));
        (needed > u64::from(window)).then(|| {
            format!(
                "context_limit: the smallest prompt of this turn takes {needed} tokens and the window holds {window}: \
                 shorten the prompt or its attachments, or take a model with a larger window"
            )
        })
    }
}

fn schema_tokens(schema: &ToolSchema) -> u32 {
    tokens::count(&schema.to_json())
}

/// The request of this step.
pub(crate) async fn request(
    agent: &AgentParts,
    writer: &mut Writer,
    call: CallModel,
) -> Result<(Request, SentPrompt), RunError> {
    let renderer = writer
        .renderer
        .get_or_insert_with(|| ViewRenderer::new(agent.layout));
    let now = agent.world().now();
    let frame = &agent.frame;
    let (prompt, rendered, sent) = writer.journal.read(|timeline| {
        let announce = Announce {
            iteration: call.step,
            max_iterations: frame.budget.max_iterations,
            fixed_tokens: frame.fixed_tokens,
            window_tokens: frame.window.context_tokens,
            now,
            timezone: agent.settings.timezone.clone(),
        };
        let tail = Tail::of(timeline, &announce);
        let cache = &agent.settings.cache;
        let prompt = renderer.prompt(
            timeline,
            cache,
            frame.offering.system().clone(),
            frame.offering.tools().clone(),
            Some(&tail),
        );
        let prompt = sent::offered(prompt, call.offer);
        let digest = match call.offer {
            Offer::Tools => renderer.digest(&prompt),
            // Without tools it begins otherwise, which is worth no memory: the turn ends with it.
            Offer::AnswerOnly => prompt.digest(),
        };
        let sent = SentPrompt::of(digest, timeline, agent.layout, &announce, call.offer);
        let rendered = agent.model_reads_text.then(|| {
            let mut plain = ViewRenderer::new(Layout::Timeline);
            let plain = plain.prompt(timeline, cache, "".into(), [].into(), Some(&tail));
            annals_core::view::render::as_text(&plain.messages)
        });
        (prompt, rendered, sent)
    });
    let answer_schema = writer.journal.read(|timeline| {
        let turn = timeline.current_turn()?;
        TurnTerms::of(timeline, &turn.id).schema.map(Arc::new)
    });
    let media = writer.media.load(agent.artifacts(), renderer.media()).await?;
    let request = Request {
        prompt: Arc::new(prompt),
        media,
        max_tokens: frame.window.max_output_tokens,
        layout: agent.layout,
        purpose: Purpose::Turn,
        answer_schema,
        cache_key: Some(writer.journal.key().id.as_str().into()),
        rendered: rendered.map(Into::into),
    };
    Ok((request, sent))
}
