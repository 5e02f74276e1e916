//! What bounds a turn: how much of the model's window its view may take, and how often the model may be asked.

use crate::limits;
use crate::view::Tail;

/// What bounds a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The model's window.
    pub window_tokens: u32,
    /// What the system message, the tools, the tail and the answer take of it.
    pub overhead_tokens: u32,
    /// Model calls a turn may make.
    pub max_iterations: u32,
}

/// A window in which no prompt fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a window of {window_tokens} tokens is too small: the instructions take {system_tokens}, the tools {tools_tokens}, \
     and with a prompt and an answer {needed_tokens} are needed; take a model with a larger window, raise \
     `--context-tokens`, or offer fewer tools"
)]
pub struct WindowTooSmall {
    /// The model's window.
    pub window_tokens: u32,
    /// What the instructions take.
    pub system_tokens: u32,
    /// What the tools take.
    pub tools_tokens: u32,
    /// The least that works.
    pub needed_tokens: u32,
}

impl Budget {
    /// The budget of turns whose every request has this system message and these tools, and whose answers may have
    /// `answer_tokens`. Refuses a window that cannot hold the smallest prompt.
    pub fn try_new(
        window_tokens: u32,
        system_tokens: u32,
        tools_tokens: u32,
        answer_tokens: u32,
        max_iterations: u32,
    ) -> Result<Self, WindowTooSmall> {
        let tail_tokens = Tail::budget_tokens(window_tokens);
        let sent = system_tokens
            .saturating_add(tools_tokens)
            .saturating_add(tail_tokens);
        let needed_tokens = sent.saturating_add(limits::VIEW_MIN_TOKENS + limits::ANSWER_MIN_TOKENS);
        if needed_tokens > window_tokens {
            return Err(WindowTooSmall {
                window_tokens,
                system_tokens,
                tools_tokens,
                needed_tokens,
            });
        }
        // The answer needs room too, but not the whole window.
        let answer_tokens = answer_tokens.min(window_tokens / 8);
        Ok(Budget {
            window_tokens,
            overhead_tokens: sent + answer_tokens,
            max_iterations,
        })
    }

    /// What the view may take.
    pub fn view_tokens(&self) -> u32 {
        let share =
            (u64::from(self.window_tokens) * u64::from(limits::COMPACTION_START_PERCENT) / 100) as u32;
        share
            .saturating_sub(self.overhead_tokens)
            .max(limits::VIEW_MIN_TOKENS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_holds_no_prompt_is_refused_with_what_is_needed() {
        let error = Budget::try_new(4_000, 1_000, 3_000, 4_096, 15).unwrap_err();
        insta::assert_snapshot!(error, @"a window of 4000 tokens is too small: the instructions take 1000, the tools 3000, and with a prompt and an answer 4884 are needed; take a model with a larger window, raise `--context-tokens`, or offer fewer tools");
        let budget = Budget::try_new(16_000, 1_000, 6_000, 8_192, 15).unwrap();
        assert_eq!(budget.overhead_tokens, 1_000 + 6_000 + 1_500 + 2_000);
        assert_eq!(budget.view_tokens(), 14_400 - 10_500);
    }
}
