//! Rules that allow, ask about or deny a call, by tool, path, command, host and effect.
