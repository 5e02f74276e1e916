//! The Tool trait, the tool table, and every built-in tool.
