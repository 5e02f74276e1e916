//! Several `annals serve` on one PostgreSQL: any node takes any conversation, whatever dies.

#![allow(
    clippy::print_stderr,
    reason = "how often each fault occurred is part of the record"
)]

mod cluster {
    mod chance;
    mod checks;
    mod client;
    mod faults;
    mod model;
    mod node_loss;
    mod nodes;
    mod several;
}
