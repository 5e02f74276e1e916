//! The tool attribute macro.
