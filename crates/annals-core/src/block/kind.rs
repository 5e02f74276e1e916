//! The closed set of block types, with their stable tags.

use std::fmt;
use std::sync::Arc;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident = $tag:literal by $author:literal;)*) => {
        /// A block's type. Tags are stored, so they must be kept stable; a tag that this version does not
        /// know is kept as [`BlockKind::Other`] and rendered as its text.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum BlockKind {
            $($(#[doc = $doc])* $name,)*
            /// A host's own `x.*` type, or one from a newer version.
            Other(Arc<str>),
        }

        impl BlockKind {
            /// Every known type, in the order of the format's table.
            pub const KNOWN: &[BlockKind] = &[$(BlockKind::$name,)*];

            /// The stable tag.
            pub fn tag(&self) -> &str {
                match self {
                    $(BlockKind::$name => $tag,)*
                    BlockKind::Other(tag) => tag,
                }
            }

            /// The type with this tag; unknown tags are kept.
            pub fn from_tag(tag: &str) -> Self {
                match tag {
                    $($tag => BlockKind::$name,)*
                    other => BlockKind::Other(other.into()),
                }
            }

            /// Who usually writes blocks of this type.
            pub fn default_author(&self) -> &'static str {
                match self {
                    $(BlockKind::$name => $author,)*
                    BlockKind::Other(_) => "host",
                }
            }
        }
    };
}

kinds! {
    /// A turn begins.
    TurnHeader = "turn.header" by "system";
    /// What the person asked.
    UserPrompt = "user.prompt" by "user";
    /// What is known of an attachment, as a safe digest.
    UserAttachmentMeta = "user.attachment.meta" by "user";
    /// The attachment's content.
    UserAttachment = "user.attachment" by "user";
    /// Text taken from a PDF or an office file that the person attached.
    UserAttachmentText = "user.attachment.text" by "system";
    /// A client's own system text.
    UserInstructions = "user.instructions" by "user";
    /// What the person said while the turn ran.
    UserSteer = "user.steer" by "user";
    /// Which agent and model answer this turn.
    AgentLogHeader = "agent.log.header" by "system";
    /// Which tools are offered from here on.
    ToolsTable = "tools.table" by "system";
    /// The model's reasoning; never shown again as text.
    Thinking = "react.thinking" by "assistant";
    /// What the model said beside a call.
    Notes = "react.notes" by "assistant";
    /// An internal note.
    Note = "react.note" by "assistant";
    /// Code of an exec call, before its call block.
    ToolCode = "react.tool.code" by "assistant";
    /// A tool call.
    ToolCall = "react.tool.call" by "assistant";
    /// A call that was held begins now.
    ToolStarted = "react.tool.started" by "system";
    /// What went wrong with a call, or was changed for it.
    Notice = "react.notice" by "system";
    /// What a call returned: metadata, content, or both in turn.
    ToolResult = "react.tool.result" by "tool";
    /// A call waits for a person's permission.
    ApprovalRequest = "approval.request" by "system";
    /// What the person decided.
    ApprovalDecision = "approval.decision" by "user";
    /// A call waits for something that a person or a client gives.
    InputRequest = "input.request" by "system";
    /// What was given.
    InputResponse = "input.response" by "user";
    /// What a delegated conversation came to, after its call had its result.
    ChildResult = "child.result" by "system";
    /// A plan's snapshot.
    Plan = "react.plan" by "assistant";
    /// Acknowledged plan steps.
    PlanAck = "react.plan.ack" by "assistant";
    /// What the model sent when it could not be understood.
    DecisionRaw = "react.decision.raw" by "assistant";
    /// The answer.
    AssistantCompletion = "assistant.completion" by "assistant";
    /// How the turn ended.
    ReactCompletion = "react.completion" by "system";
    /// A new conversation's title and admission.
    StageGate = "stage.gate" by "system";
    /// What a coordinator stage contributed.
    StageCoordinator = "stage.coordinator" by "system";
    /// A person's reaction to a turn.
    StageFeedback = "stage.feedback" by "user";
    /// Questions that end a turn.
    StageClarification = "stage.clarification" by "assistant";
    /// The questions were answered by the next prompt.
    StageClarificationResolved = "stage.clarification.resolved" by "system";
    /// Suggestions for the next prompt.
    StageSuggestedFollowups = "stage.suggested_followups" by "assistant";
    /// A notice of the system's own.
    SystemMessage = "system.message" by "system";
    /// A summary that stands for the blocks before a cut.
    RangeSummary = "conv.range.summary" by "system";
    /// Paths whose blocks render as a placeholder from here on.
    TimelineHide = "timeline.hide" by "system";
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tag())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_reads_back_as_its_type() {
        for kind in BlockKind::KNOWN {
            assert_eq!(&BlockKind::from_tag(kind.tag()), kind);
        }
    }

    #[test]
    fn an_unknown_tag_is_kept() {
        assert_eq!(BlockKind::from_tag("x.acme.score").tag(), "x.acme.score");
    }
}
