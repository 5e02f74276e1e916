//! The `annals` binary.
fn main() {}
