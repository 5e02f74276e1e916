//! What is true of a conversation: blocks, timeline, view, turn machine. No IO, clock, async or randomness.
